//! Which project each role's mailbox belongs to.

use std::path::{Path, PathBuf};

use tasuki_proto::id::RoleId;

use super::Roots;
use crate::filebox;

/// The strongest that says something: `registered`, by agents at run time; `root`, by the
/// configuration; the agents of the nearest `.filebox`; else the directory the node runs in.
pub fn roots(
    roles: &[RoleId],
    registered: &Roots,
    root: Option<&Path>,
    directory: &Path,
    filebox: Option<&filebox::Settings>,
) -> Roots {
    let of = |role: &RoleId| -> PathBuf {
        let agent = filebox.and_then(|it| it.agents.get(role)).map(PathBuf::as_path);
        directory.join(root.or(agent).unwrap_or(directory))
    };
    let mut roots: Roots = roles.iter().map(|role| (role.clone(), of(role))).collect();
    roots.extend(registered.iter().map(|(role, root)| (role.clone(), root.clone())));
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_that_says_something_holds() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join(filebox::FILE);
        std::fs::write(&file, r#"{"agents": {"dev": "/dev-project", "qa": "/qa-project"}}"#)
            .unwrap();
        let filebox = filebox::Settings::read(&file).unwrap();
        let roles: Vec<RoleId> = ["A", "dev", "qa"].iter().map(|it| it.parse().unwrap()).collect();
        let registered = |all: &[(&str, &str)]| -> Roots {
            all.iter().map(|(role, root)| (role.parse().unwrap(), root.into())).collect()
        };
        for (named, root, with_file, expected) in [
            (&[][..], None, false, "A=/here dev=/here qa=/here"),
            (&[], None, true, "A=/here dev=/dev-project qa=/qa-project"),
            (&[], Some("/all"), true, "A=/all dev=/all qa=/all"),
            (&[], Some("below"), false, "A=/here/below dev=/here/below qa=/here/below"),
            (&[("qa", "/q"), ("x", "/x")], Some("/all"), true, "A=/all dev=/all qa=/q x=/x"),
        ] {
            let filebox = filebox.as_ref().filter(|_| with_file);
            let root = root.map(Path::new);
            let found = roots(&roles, &registered(named), root, Path::new("/here"), filebox);
            let told: Vec<String> =
                found.iter().map(|(role, root)| format!("{role}={}", root.display())).collect();
            assert_eq!(told.join(" "), expected);
        }
    }
}
