//! Where mailboxes are: `docs/mailbox/{inbox,outbox,done,cancel}` of a project, or
//! `docs/mailbox/AGENT/{…}` where agents share one.
//!
//! FileBox went from the second layout back to the first and left mail behind, so both are looked
//! for in every place. A mailbox is its folder's agent's, else the only agent's whose project it is
//! in; else each file says whose it is.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use tasuki_proto::mail::BoxKind;

use super::{
    document::Document,
    read::FILE_BYTES_MAX,
    settings::{FILE, Settings},
};

/// From a project's root.
pub const MAILBOX: &str = "docs/mailbox";

/// A folder that has boxes in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    pub folder: PathBuf,
    /// `None`: each file says.
    pub agent: Option<String>,
}

/// Something that was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    let own = Settings::read(&place.join(FILE)).map_err(|why| why.to_string())?;
    for root in own.iter().flat_map(|settings| settings.agents.values()) {
        let folder = root.join(MAILBOX);
        if !folder.is_dir() {
            skipped.push(Skipped::stranger(&folder, "is not there"));
        } else if known.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
            look(&folder, &owners(own.as_ref(), root), &mut found, skipped);
        }
    }
    let inside = [place.join(MAILBOX), place.join("mailbox")];
    let folder = inside.into_iter().find(|it| it.is_dir()).unwrap_or_else(|| place.to_owned());
    // A project's root is two above its mailbox.
    let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let root = real.ancestors().nth(2).filter(|root| root.join(MAILBOX) == real);
    let root = root.unwrap_or(&real).to_owned();
    if known.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
        let is_mailbox =
            folder != place || has_boxes(place) || subfolders(place).any(|it| has_boxes(&it));
        if is_mailbox {
            let around = Settings::find(&root, home).map_err(|why| why.to_string())?;
            look(&folder, &owners(around.as_ref(), &root), &mut found, skipped);
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

fn owners(settings: Option<&Settings>, root: &Path) -> Vec<String> {
    let Some(settings) = settings else { return Vec::new() };
    let roles = settings.agents_of(root);
    roles.into_iter().map(|role| settings.name_of(role).to_owned()).collect()
}

fn has_boxes(folder: &Path) -> bool {
    BoxKind::ALL.iter().any(|it| folder.join(it.as_str()).is_dir())
}

fn subfolders(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let inside = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    inside.map(|it| it.path()).filter(|it| it.is_dir())
}

/// Both layouts in one folder.
fn look(folder: &Path, owners: &[String], found: &mut Vec<Mailbox>, skipped: &mut Vec<Skipped>) {
    if has_boxes(folder) {
        let agent = match owners {
            [only] => Some(only.clone()),
            _ => None,
        };
        found.push(Mailbox { folder: folder.to_owned(), agent });
    }
    let inside = match names(folder) {
        Ok(inside) => inside,
        Err(why) => return skipped.push(Skipped::loss(folder, format!("cannot be listed: {why}"))),
    };
    for name in inside {
        let path = folder.join(&name);
        if BoxKind::ALL.iter().any(|it| it.as_str() == name) && path.is_dir() {
            continue;
        }
        if has_boxes(&path) {
            found.push(Mailbox { folder: path, agent: Some(name) });
        } else {
            skipped.push(Skipped::stranger(&path, "is neither a box nor an agent's mailbox"));
        }
    }
}

/// What a folder holds, in order, but hidden files. A name that is no text has its place marked.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

impl Mailbox {
    /// Every file in its boxes that is a thread.
    pub fn read(&self, skipped: &mut Vec<Skipped>) -> Vec<FileCopy> {
        let mut copies = Vec::new();
        for place in BoxKind::ALL {
            let folder = self.folder.join(place.as_str());
            let names = match names(&folder) {
                Ok(names) => names,
                Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
                Err(why) => {
                    skipped.push(Skipped::loss(&folder, format!("cannot be listed: {why}")));
                    continue;
                }
            };
            for name in names {
                let path = folder.join(name);
                if path.extension().is_none_or(|it| it != "md") {
                    skipped.push(Skipped::stranger(&path, "is no .md file"));
                    continue;
                }
                match read_file(&path) {
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

fn read_file(path: &Path) -> Result<Document, String> {
    let cannot = |why: io::Error| format!("cannot be read: {why}");
    // Before it is opened: opening a pipe waits for whoever writes into it.
    if !fs::metadata(path).map_err(cannot)?.is_file() {
        return Err("is no file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(cannot)?;
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(cannot)?;
    Document::read(&bytes).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
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
                "docs/mailbox/inbox/c.md is no file",
            ]
        );
    }
}
