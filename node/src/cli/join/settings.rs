//! What joining changes in `tasuki.toml`: broker, workspace and roles, in place.
//!
//! **Invariant:** other settings and all comments stay as they are.

use std::{
    io,
    path::{Path, PathBuf},
};

use tasuki_proto::host::{
    config::kept_places,
    trust::{FREE, TrustStore},
};
use toml_edit::{Array, DocumentMut, Item, Value};

use super::Failure;
use crate::{
    cli::{
        access::roles_not_allowed,
        client_files::file_io::{self, NewMode, Snapshot, WriteError},
    },
    config::{Config, FILE, Key, Source, Sourced},
    credentials::Joined,
    paths,
};

/// What became of the file.
pub(super) struct Written {
    pub(super) path: PathBuf,
    /// What a person should know.
    pub(super) notes: Vec<String>,
}

/// Whether the file can be changed at all; asked before anything is sent.
pub(super) fn check(data: &Path) -> Result<(), Failure> {
    let found = file_io::read(&data.join(FILE)).map_err(Failure::local)?;
    parse(&found).map(drop)
}

pub(super) fn write(data: &Path, joined: &Joined) -> Result<Written, Failure> {
    let path = data.join(FILE);
    let by_hand = |why: String| {
        Failure::local(format!(
            "This machine has joined, but its settings were not written: {why} Run the same line \
             again, or write them yourself:\n{}",
            edit(DocumentMut::new(), joined).0
        ))
    };
    // Somebody else may write in between; that is what reading again is for.
    for _ in 0..3 {
        let found = file_io::read(&path).map_err(by_hand)?;
        let document = parse(&found)?;
        let is_new = found.text.is_none();
        let (text, dropped) = edit(document, joined);
        if found.text.as_ref() != Some(&text) {
            match file_io::replace(&found, &text, NewMode::Private) {
                Ok(()) => {}
                Err(WriteError::Changed) => continue,
                Err(WriteError::Failed(why)) => return Err(by_hand(why)),
            }
        }
        let mut notes = Vec::new();
        if let Err(why) = trust(data, found.text.as_deref(), &text) {
            notes.push(format!(
                "Commands that are called in {} need --data to find these settings: they cannot \
                 be noted as trusted: {why}.",
                data.display()
            ));
        }
        if !dropped.is_empty() {
            let roles = dropped.join(", ");
            notes.push(format!("Roles that the token does not allow were taken out: {roles}."));
        }
        let hidden = paths::config_directory().map(|place| place.join(FILE));
        if let Some(hidden) = hidden.filter(|it| is_new && it.is_file()) {
            notes.push(format!(
                "{} is not read any more, since {} comes before it; move over what you need.",
                hidden.display(),
                path.display()
            ));
        }
        return Ok(Written { path, notes });
    }
    Err(by_hand(format!("{} keeps changing.", path.display())))
}

/// Has what was written count where the directory is taken for a repository too, as long as it is
/// what was written. What somebody else may have said in the file before is not trusted with it.
fn trust(data: &Path, before: Option<&str>, after: &str) -> io::Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if kept_places(None).any(|kept| real(&kept) == real(data)) {
        return Ok(());
    }
    let trusted = TrustStore::of_user();
    let is_own = before.is_none_or(|text| {
        let document: DocumentMut = text.parse().unwrap_or_default();
        document.iter().all(|(name, _)| FREE.contains(&name))
            || trusted.distrust(data, FILE, text.as_bytes()).is_none()
    });
    if is_own { trusted.trust(data, [(FILE, after.as_bytes())]) } else { Ok(()) }
}

fn parse(found: &Snapshot) -> Result<DocumentMut, Failure> {
    let text = found.text.as_deref().unwrap_or_default();
    text.parse().map_err(|why| {
        Failure::usage(format!("{} is not TOML; mend it first: {why}", found.path.display()))
    })
}

/// The new text, and the roles that had to go.
fn edit(mut document: DocumentMut, joined: &Joined) -> (String, Vec<String>) {
    set(&mut document, Key::Broker, joined.broker.as_str().into());
    if !joined.workspace.is_empty() {
        set(&mut document, Key::Workspace, joined.workspace.as_str().into());
    }
    let mut dropped = Vec::new();
    if !joined.is_any_role && !joined.roles.is_empty() {
        let old = document.get(Key::Roles.name()).and_then(Item::as_array);
        let old: Vec<&str> =
            old.map(|old| old.iter().filter_map(Value::as_str).collect()).unwrap_or_default();
        let name = |text: &str| text.split('=').next().unwrap_or_default().to_owned();
        let is_allowed = |text: &&str| joined.roles.contains(&name(text));
        let (mut roles, gone): (Vec<&str>, Vec<&str>) = old.iter().copied().partition(is_allowed);
        dropped = gone.into_iter().map(name).collect();
        let is_there = |role: &str| old.iter().any(|text| name(text) == role);
        roles.extend(joined.roles.iter().map(String::as_str).filter(|role| !is_there(role)));
        if roles != old {
            let roles: Array = roles.into_iter().collect();
            set(&mut document, Key::Roles, roles.into());
        }
    }
    (document.to_string(), dropped)
}

/// Sets a value where it stands, comments around it included.
fn set(document: &mut DocumentMut, key: Key, new: Value) {
    match document.get_mut(key.name()).and_then(Item::as_value_mut) {
        Some(old) if old.to_string().trim() == new.to_string().trim() => {}
        Some(old) => {
            let around = old.decor().clone();
            *old = new;
            *old.decor_mut() = around;
        }
        None => {
            document.insert(key.name(), Item::Value(new));
        }
    }
}

/// Where what the next command would use is not what was joined, and who says so.
pub(super) fn contradictions(next: &Config, joined: &Joined) -> Vec<String> {
    let mut notes = Vec::new();
    let mut differs = |key: Key, source: &Source, value: &str, wanted: &str| {
        notes.push(format!(
            "`{}` is {value} by {source}, which counts before what was joined ({wanted}); take it \
             out there to use what was joined.",
            key.name()
        ));
    };
    let Sourced { value: broker, source } = &next.broker;
    if !broker.as_deref().is_some_and(|url| joined.is_of(url)) {
        differs(Key::Broker, source, broker.as_deref().unwrap_or("none"), &joined.broker);
    }
    let workspace = &next.workspace;
    if !joined.workspace.is_empty() && workspace.value.as_str() != joined.workspace {
        differs(Key::Workspace, &workspace.source, workspace.value.as_str(), &joined.workspace);
    }
    if let Some(why) = roles_not_allowed(next, joined) {
        let allowed = joined.roles.join(" ");
        differs(Key::Roles, &next.roles.source, &why.join(" "), &allowed);
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(roles: &[&str]) -> Joined {
        Joined {
            broker: "https://host:7420".to_owned(),
            fingerprint: None,
            ca: None,
            client_cert: None,
            client_key: None,
            token: String::new(),
            workspace: "w".to_owned(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            is_any_role: roles.is_empty(),
            rights: Vec::new(),
            expires_ms: 0,
            invitation: String::new(),
        }
    }

    fn check(before: &str, roles: &[&str], after: &str, dropped: &[&str]) {
        let (text, gone) = edit(before.parse().unwrap(), &joined(roles));
        assert_eq!(text, after);
        assert_eq!(gone, dropped);
        let (again, gone) = edit(text.parse().unwrap(), &joined(roles));
        assert_eq!((again.as_str(), gone.len()), (after, 0), "joining twice is once");
    }

    #[test]
    fn settings_are_written_where_there_were_none() {
        check(
            "",
            &["dev", "qa"],
            "broker = \"https://host:7420\"\nworkspace = \"w\"\nroles = [\"dev\", \"qa\"]\n",
            &[],
        );
    }

    #[test]
    fn what_others_wrote_stays() {
        check(
            "# mine\nlisten = \"127.0.0.1:0\" # any\nbroker = 'http://127.0.0.1:7420' # old\n\
             roles = [\"qa=loop\", \"A\"]\n\n[toolsets]\n# of dev\ndev = [\"loop\"]\n",
            &["dev", "qa"],
            "# mine\nlisten = \"127.0.0.1:0\" # any\nbroker = \"https://host:7420\" # old\n\
             roles = [\"qa=loop\", \"dev\"]\nworkspace = \"w\"\n\n[toolsets]\n# of dev\n\
             dev = [\"loop\"]\n",
            &["A"],
        );
    }

    #[test]
    fn any_role_leaves_the_roles_as_they_are() {
        check(
            "roles = [ \"A\",  \"B\" ]\nworkspace = 'w'\nbroker = \"https://host:7420\"\n",
            &[],
            "roles = [ \"A\",  \"B\" ]\nworkspace = \"w\"\nbroker = \"https://host:7420\"\n",
            &[],
        );
    }
}
