//! Which project each role's mailbox belongs to.

use std::path::{Component, Path, PathBuf};

use tasuki_proto::id::RoleId;

use super::Roots;
use crate::filebox;

/// The strongest that says something: `registered`, by agents at run time, as far as
/// [`is_within`] allows; `root`, by the configuration; the agents of the nearest `.filebox`; else the directory the node runs in.
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

/// Whether a directory that an agent registered lies in the project that the operator named, links
/// followed: agents choose within it. Where none was named they choose freely. What is not there, or
/// goes up on its way, may turn out to be anywhere.
pub fn is_within(root: Option<&Path>, directory: &Path) -> bool {
    let Some(root) = root else { return true };
    let goes_up = directory.components().any(|it| it == Component::ParentDir);
    let real = directory.canonicalize().ok().zip(root.canonicalize().ok());
    !goes_up && real.is_some_and(|(directory, root)| directory.starts_with(root))
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

    #[test]
    fn agents_choose_within_what_the_operator_named() {
        let place = tempfile::tempdir().unwrap();
        let (all, one) = (place.path().join("all"), place.path().join("all/one"));
        std::fs::create_dir_all(&one).unwrap();
        std::fs::create_dir(place.path().join("all-2")).unwrap();
        for (directory, expected) in [
            (&all, true),
            (&one, true),
            (&all.join("none"), false),
            (&all.join("../later"), false),
            (&all.join("one/../one"), false),
            (&place.path().join("all-2"), false),
            (&all.join("../all-2"), false),
            (&place.path().to_owned(), false),
        ] {
            assert_eq!(is_within(Some(&all), directory), expected, "{}", directory.display());
            assert!(is_within(None, directory));
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("/", all.join("out")).unwrap();
            assert!(!is_within(Some(&all), &all.join("out")));
        }
    }
}
