//! Where mailboxes are: `docs/mailbox/{inbox,outbox,done,cancel}` of a project, or
//! `docs/mailbox/AGENT/{…}` where agents share one.
//!
//! FileBox went from the second layout back to the first and left mail behind, so both are looked
//! for in every place. A mailbox is its folder's agent's, else the only agent's whose project it is
//! in; else each file says whose it is.
//!
//! Below what a person or a `.filebox` names no link is followed: a mailbox may have come with a
//! repository. Nor is one on the way to a directory that a `.filebox` names, unless it is the user's
//! own: it may have come with a repository, too.

use std::{
    collections::BTreeSet,
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
};

use serde::Serialize;
use tasuki_proto::mail::BoxKind;

use super::{
    document::Document,
    read::FILE_BYTES_MAX,
    settings::{FILE, Settings},
};
use crate::dir::{Dir, Kind, NoFile};

/// From a project's root.
pub const MAILBOX: &str = "docs/mailbox";

/// A folder that has boxes in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    pub folder: PathBuf,
    dir: Dir,
    /// `None`: each file says.
    pub agent: Option<String>,
}

/// Something that was left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    pub path: PathBuf,
    /// Half a sentence, to follow the path.
    pub why: String,
    /// It may be mail.
    pub is_loss: bool,
}

impl Skipped {
    fn stranger(path: &Path, why: &str) -> Self {
        Self { path: path.to_owned(), why: why.to_owned(), is_loss: false }
    }

    fn loss(path: &Path, why: String) -> Self {
        Self { path: path.to_owned(), why, is_loss: true }
    }
}

/// One file of a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCopy {
    pub path: PathBuf,
    pub place: BoxKind,
    /// As the folder has it, or the file.
    pub agents: Vec<String>,
    pub document: Document,
}

/// The mailboxes that `place` stands for: a project, a mailbox, or where a `.filebox` is. `home` may
/// have a `.filebox` that says whose they are.
pub fn find(
    place: &Path,
    home: Option<&Path>,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<Mailbox>, String> {
    let place = match place.file_name() {
        Some(name) if name == FILE => place.parent().unwrap_or(place),
        Some(_) | None => place,
    };
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    let real = |dir: &Dir| dir.path().canonicalize().unwrap_or_else(|_| dir.path().to_owned());
    let own = Settings::read(&place.join(FILE)).map_err(|why| why.to_string())?;
    let is_users = home.is_some_and(|home| {
        home.canonicalize().ok().zip(place.canonicalize().ok()).is_some_and(|(a, b)| a == b)
    });
    let open =
        |root: &Path| if is_users { Dir::open(root) } else { open_without_links(place, root) };
    for root in own.iter().flat_map(|settings| settings.agents.values()) {
        match open(root).and_then(|root| root.walk(Path::new(MAILBOX))) {
            Ok(dir) if known.insert(real(&dir)) => {
                find_in(dir, &owners(own.as_ref(), root), &mut found, skipped);
            }
            Ok(_) => {}
            Err(why) => skipped.push(unopened(&root.join(MAILBOX), &why)),
        }
    }
    if let Ok(place) = Dir::open(place) {
        let inside = [MAILBOX, "mailbox"].into_iter().find_map(|below| {
            let opened = place.walk(Path::new(below));
            let missing = opened.as_ref().is_err_and(|why| why.kind() == io::ErrorKind::NotFound);
            let failed = |why: &io::Error| skipped.push(unopened(&place.join(below), why));
            if missing { None } else { opened.inspect_err(failed).ok() }
        });
        let is_inside = inside.is_some();
        let dir = inside.unwrap_or(place);
        // A project's root is two above its mailbox.
        let folder = real(&dir);
        let root = folder.ancestors().nth(2).filter(|root| root.join(MAILBOX) == folder);
        let root = root.unwrap_or(&folder).to_owned();
        let is_mailbox =
            || is_inside || has_boxes(&dir) || subfolders(&dir).any(|it| has_boxes(&it));
        if known.insert(folder) && is_mailbox() {
            let around = Settings::find(&root, home).map_err(|why| why.to_string())?;
            find_in(dir, &owners(around.as_ref(), &root), &mut found, skipped);
        }
    }
    if found.is_empty() {
        return Err(format!(
            "{} is no mailbox: neither it nor its {MAILBOX} has a folder inbox, outbox, done or \
             cancel, and no {FILE} in it names an agent whose project has",
            place.display()
        ));
    }
    Ok(found)
}

/// A directory that the `.filebox` of a place names. Links on the way to the place are the person's,
/// who named it.
fn open_without_links(place: &Path, root: &Path) -> io::Result<Dir> {
    let is_here = place.as_os_str().is_empty();
    let real = if is_here { Path::new(".") } else { place }.canonicalize()?;
    let mut plain = PathBuf::new();
    for part in real.join(root.strip_prefix(place).unwrap_or(root)).components() {
        // What has no links goes up to where it reads so.
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    Dir::open_real(&plain)
}

fn owners(settings: Option<&Settings>, root: &Path) -> Vec<String> {
    let Some(settings) = settings else { return Vec::new() };
    let roles = settings.agents_of(root);
    roles.into_iter().map(|role| settings.name_of(role).to_owned()).collect()
}

fn unopened(folder: &Path, why: &io::Error) -> Skipped {
    if why.kind() == io::ErrorKind::NotFound {
        return Skipped::stranger(folder, "is not there");
    }
    Skipped::loss(folder, format!("cannot be opened: {why}"))
}

/// Also one that is a link: it may have mail, which is not read, and that is said.
fn has_box(dir: &Dir, name: &str) -> bool {
    matches!(dir.kind(name), Some(Kind::Directory | Kind::Link))
}

fn has_boxes(dir: &Dir) -> bool {
    BoxKind::ALL.iter().any(|it| has_box(dir, it.as_str()))
}

fn subfolders(dir: &Dir) -> impl Iterator<Item = Dir> {
    dir.names().unwrap_or_default().into_iter().filter_map(|name| dir.enter(name).ok())
}

/// Both layouts in one folder.
fn find_in(dir: Dir, owners: &[String], found: &mut Vec<Mailbox>, skipped: &mut Vec<Skipped>) {
    let folder = dir.path().to_owned();
    let inside = match names(&dir) {
        Ok(inside) => inside,
        Err(why) => {
            return skipped.push(Skipped::loss(&folder, format!("cannot be listed: {why}")));
        }
    };
    let mut others = Vec::new();
    for name in inside {
        let path = folder.join(&name);
        if BoxKind::ALL.iter().any(|it| it.as_str() == name) && has_box(&dir, &name) {
            continue;
        }
        match dir.enter(&name) {
            Ok(own) if has_boxes(&own) => {
                others.push(Mailbox { folder: path, dir: own, agent: Some(name) });
            }
            _ if dir.kind(&name) == Some(Kind::Link) => {
                skipped.push(Skipped::loss(&path, NoFile::Link.to_string()));
            }
            Ok(_) | Err(_) => {
                skipped.push(Skipped::stranger(&path, "is neither a box nor an agent's mailbox"));
            }
        }
    }
    if has_boxes(&dir) {
        let agent = match owners {
            [only] => Some(only.clone()),
            _ => None,
        };
        found.push(Mailbox { folder, dir, agent });
    }
    found.append(&mut others);
}

/// What a folder holds, in order, but hidden files. A name that is no text has its place marked.
fn names(dir: &Dir) -> io::Result<Vec<String>> {
    let names = dir.names()?.into_iter().map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort_unstable();
    Ok(names)
}

impl Mailbox {
    /// Every file in its boxes that is a thread.
    pub fn read(&self, skipped: &mut Vec<Skipped>) -> Vec<FileCopy> {
        let mut copies = Vec::new();
        for place in BoxKind::ALL {
            let opened = self.dir.enter(place.as_str());
            let (dir, names) = match opened.and_then(|dir| names(&dir).map(|names| (dir, names))) {
                Ok(opened) => opened,
                Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
                Err(why) => {
                    let folder = self.folder.join(place.as_str());
                    skipped.push(Skipped::loss(&folder, format!("cannot be listed: {why}")));
                    continue;
                }
            };
            for name in names {
                let path = dir.join(&name);
                if path.extension().is_none_or(|it| it != "md") {
                    skipped.push(Skipped::stranger(&path, "is no .md file"));
                    continue;
                }
                match read_file(&dir, &name) {
                    Ok(document) => {
                        let agents = self.agents_of(place, &document);
                        copies.push(FileCopy { path, place, agents, document });
                    }
                    Err(why) => skipped.push(Skipped::loss(&path, why)),
                }
            }
        }
        copies
    }

    fn agents_of(&self, place: BoxKind, document: &Document) -> Vec<String> {
        match (&self.agent, place) {
            (Some(agent), _) => vec![agent.clone()],
            (None, BoxKind::Outbox) => vec![document.sender.clone()],
            // What is done was in the inbox before.
            (None, BoxKind::Inbox | BoxKind::Done | BoxKind::Cancel) => {
                document.current_owners.clone()
            }
        }
    }
}

fn read_file(dir: &Dir, name: &str) -> Result<Document, String> {
    let (file, _) = dir.open_own_file(name).map_err(|why| why.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|why| NoFile::Io(why).to_string())?;
    Document::read(&bytes).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const THREE: &str = include_str!("goldens/three.md");

    fn put(place: &Path, path: &str, content: &str) {
        let path = place.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Every copy below `place` as `PATH AGENTS`, and what was skipped.
    fn look(place: &Path) -> (Vec<String>, Vec<String>) {
        let mut skipped = Vec::new();
        let root = place.ancestors().find(|it| it.join("top").exists()).unwrap();
        let name = |path: &Path| path.strip_prefix(root).unwrap().display().to_string();
        let found = find(place, None, &mut skipped).unwrap();
        let copies = found.iter().flat_map(|it| it.read(&mut skipped)).collect::<Vec<_>>();
        let told = |it: &FileCopy| format!("{} {}", name(&it.path), it.agents.join("+"));
        let skips = skipped.iter().map(|it| format!("{} {}", name(&it.path), it.why));
        (copies.iter().map(told).collect(), skips.collect())
    }

    #[test]
    fn both_layouts_are_found_from_every_place_they_are_called_by() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        put(root, "top", "");
        put(root, "p/docs/mailbox/inbox/a.md", THREE);
        put(root, "p/docs/mailbox/outbox/b.md", THREE);
        put(root, "p/docs/mailbox/qa_agent/done/c.md", THREE);
        put(root, "q/docs/mailbox/cancel/d.md", THREE);
        let own = [
            "p/docs/mailbox/inbox/a.md dev_agent",
            "p/docs/mailbox/outbox/b.md qa_agent",
            "p/docs/mailbox/qa_agent/done/c.md qa_agent",
        ];
        for place in ["p", "p/docs", "p/docs/mailbox"] {
            assert_eq!(
                look(&root.join(place)),
                (own.map(String::from).to_vec(), vec![]),
                "{place}"
            );
        }
        let agents = serde_json::json!({"x": root.join("p"), "y": root.join("p"), "z": root.join("q"), "gone": root.join("r")});
        put(root, "q/.filebox", &serde_json::json!({"agents": agents}).to_string());
        for place in ["q", "q/.filebox"] {
            let (copies, skipped) = look(&root.join(place));
            assert_eq!(copies[..3], own);
            assert_eq!(copies[3..], ["q/docs/mailbox/cancel/d.md z"]);
            assert_eq!(skipped, ["r/docs/mailbox is not there"]);
        }
        let said = find(&root.join("p/docs/mailbox/inbox"), None, &mut Vec::new()).unwrap_err();
        assert!(said.contains("/mailbox/inbox is no mailbox"), "{said}");
    }

    #[test]
    fn what_is_no_message_is_named_with_its_reason() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        put(root, "top", "");
        put(root, "docs/mailbox/inbox/a.md", "# Notes");
        put(root, "docs/mailbox/inbox/b.txt", "x");
        put(root, "docs/mailbox/inbox/.hidden", "x");
        put(root, "docs/mailbox/inbox/c.md/x", "x");
        put(root, "docs/mailbox/notes.md", "x");
        put(root, "docs/mailbox/old/x.md", "x");
        let (copies, skipped) = look(root);
        assert!(copies.is_empty(), "{copies:?}");
        assert_eq!(
            skipped,
            [
                "docs/mailbox/notes.md is neither a box nor an agent's mailbox",
                "docs/mailbox/old is neither a box nor an agent's mailbox",
                "docs/mailbox/inbox/a.md is no message: it has neither the line `===== MESSAGE \
                 THREAD =====` nor an entry",
                "docs/mailbox/inbox/b.txt is no .md file",
                "docs/mailbox/inbox/c.md is no plain file",
            ]
        );
    }

    #[test]
    fn a_filebox_leads_through_no_link_unless_it_is_the_users() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        put(root, "secret/docs/mailbox/inbox/x.md", THREE);
        put(root, "clone/sub/docs/mailbox/inbox/a.md", THREE);
        std::os::unix::fs::symlink(root.join("secret"), root.join("clone/link")).unwrap();
        let agents = r#"{"agents": {"dev": "sub/../sub", "qa": "link", "ops": "sub/../link"}}"#;
        put(root, "clone/.filebox", agents);
        std::os::unix::fs::symlink(root.join("clone"), root.join("named")).unwrap();
        for named in ["clone", "named"] {
            let mut skipped = Vec::new();
            let found = find(&root.join(named), None, &mut skipped).unwrap();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(skipped.len(), 2, "{skipped:?}");
            let is_told = |it: &Skipped| it.is_loss && it.why.contains("is a link");
            assert!(skipped.iter().all(is_told), "{skipped:?}");
        }
        let clone = root.join("clone");
        let found = find(&clone, Some(&clone), &mut Vec::new()).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn links_are_not_followed_and_files_with_a_second_name_are_not_taken_over() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        put(root, "top", "");
        put(root, "secret/inbox/x.md", THREE);
        put(root, "p/docs/mailbox/inbox/a.md", THREE);
        let mailbox = root.join("p/docs/mailbox");
        symlink(root.join("secret/inbox/x.md"), mailbox.join("inbox/link.md")).unwrap();
        symlink(root.join("secret/inbox"), mailbox.join("done")).unwrap();
        symlink(root.join("secret"), mailbox.join("dev")).unwrap();
        fs::hard_link(root.join("secret/inbox/x.md"), mailbox.join("inbox/second.md")).unwrap();
        let (copies, skipped) = look(&root.join("p"));
        assert_eq!(copies, ["p/docs/mailbox/inbox/a.md dev_agent"]);
        assert_eq!(
            skipped[..3],
            [
                "p/docs/mailbox/dev is a link, and links are not followed",
                "p/docs/mailbox/inbox/link.md is a link, and links are not followed",
                "p/docs/mailbox/inbox/second.md has a second name (a hard link), so it may be from \
             elsewhere; use a copy of it",
            ]
        );
        assert!(skipped[3].contains("/done is a link, and links are not followed"), "{skipped:?}");
        // The mailbox itself.
        fs::create_dir_all(root.join("q/docs")).unwrap();
        symlink(&mailbox, root.join("q/docs/mailbox")).unwrap();
        let mut skipped = Vec::new();
        find(&root.join("q"), None, &mut skipped).unwrap_err();
        assert!(skipped[0].is_loss && skipped[0].why.contains("is a link"), "{skipped:?}");
        // What a person names may be one.
        symlink(root.join("p"), root.join("named")).unwrap();
        assert_eq!(look(&root.join("named")).0.len(), 1);
    }
}
