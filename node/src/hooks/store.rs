//! What is to be done and what failed for good, on disk: `DATA/hooks`.
//!
//! ```text
//! places.json          how far the feed was taken in, for each hook
//! input-HOOK           what a program is about to read, for a moment
//! waiting/HOOK/KEY     calls to be made, in order of their keys
//! dead/HOOK/KEY        calls that failed for good, with why
//! ```
//!
//! A key is the call's place in the journal and the time of its record: a broker that was given
//! another journal has the same places for other happenings.
//!
//! - **Q2** A call is in `waiting` before its hook's place in the feed goes past it, and leaves it
//!   only when it was made, is in `dead`, or its operator dropped it: a crash repeats calls and
//!   loses none.
//!
//! Files appear whole, by a rename. Commands for people work on them while the node runs, so the
//! files are the truth and nothing of them is kept in memory.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tasuki_proto::{
    host::{checked, files},
    id::{HookName, RoleId, WorkspaceId},
};

use super::{
    event::{Happening, Place},
    spec::Kind,
    work_event::WorkEvent,
};

/// The folder, in the data directory.
pub const FOLDER: &str = "hooks";

/// Calls of one hook that wait here. What comes after them is still in the broker's journal.
pub const WAITING_MAX: usize = 64;

/// Dead letters of one hook; past it the oldest is dropped.
pub const DEAD_MAX: usize = 100;

const PLACES: &str = "places.json";
const WAITING: &str = "waiting";
const DEAD: &str = "dead";

/// One call of a hook, to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub id: String,
    pub event: String,
    /// Empty: it is at the node.
    pub role: String,
    /// Of a call about mail.
    pub message_id: String,
    /// What any other is about, by its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    pub at_ms: u64,
    sequence: u64,
    number: usize,
    part: usize,
    /// The document, as it goes out each time.
    pub body: String,
    /// Why it is a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failed>,
}

/// What became of a call that failed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// By this machine's clock.
    pub at_ms: u64,
    pub attempts: u32,
    pub why: String,
}

impl Call {
    /// A call about mail that a record of `at_ms` speaks of.
    pub fn new(id: String, of: &Happening, at_ms: u64, body: String) -> Self {
        let message_id = of.message.clone();
        Self { message_id, ..Self::at(id, of.kind, Some(&of.role), of.place, at_ms, body) }
    }

    /// A call about anything else, at a role or at the node.
    pub fn of_work(
        id: String,
        of: &WorkEvent,
        role: Option<&RoleId>,
        at_ms: u64,
        body: String,
    ) -> Self {
        let about = of.subject.name();
        Self { about, ..Self::at(id, of.kind, role, of.place(role), at_ms, body) }
    }

    fn at(
        id: String,
        kind: Kind,
        role: Option<&RoleId>,
        place: Place,
        at_ms: u64,
        body: String,
    ) -> Self {
        let Place { sequence, event: number, part } = place;
        Self {
            id,
            event: kind.as_str().to_owned(),
            role: role.map(ToString::to_string).unwrap_or_default(),
            message_id: String::new(),
            about: String::new(),
            at_ms,
            sequence,
            number,
            part,
            body,
            failed: None,
        }
    }

    /// The name of its file. Names sort as happenings follow one another; the time of the record
    /// tells one journal's from another's.
    fn key(&self) -> String {
        let Self { sequence, number, part, at_ms, .. } = self;
        format!("{sequence:020}-{number:05}-{part:03}-{at_ms:015}.json")
    }
}

/// How far one hook has taken the feed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Taken {
    pub sequence: u64,
    /// When that record was written, by which the journal is known again; 0: not known.
    pub at_ms: u64,
}

/// How far each has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    pub workspace: String,
    pub hooks: BTreeMap<String, Taken>,
}

/// The folder. Every call of it touches the disk.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    pub fn of(data: &Path) -> Self {
        Self { root: data.join(FOLDER) }
    }

    fn folder(&self, what: &str, hook: &HookName) -> PathBuf {
        self.root.join(what).join(hook.as_str())
    }

    /// None of another workspace, or that cannot be read: then hooks begin with what is to come.
    pub fn places(&self, workspace: &WorkspaceId) -> io::Result<Option<Places>> {
        let path = self.root.join(PLACES);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(why),
        };
        let places = checked::from_slice::<Places>(&bytes);
        let places = places.inspect_err(|error| {
            tracing::error!(path = %path.display(), %error, "it is damaged; hooks begin anew");
        });
        Ok(places.ok().filter(|places| places.workspace == workspace.as_str()))
    }

    pub fn keep_places(&self, places: &Places) -> io::Result<()> {
        files::replace(&self.root.join(PLACES), &checked::to_vec(places)?)
    }

    /// Has a call wait; one that is there already is the same.
    pub fn put(&self, hook: &HookName, call: &Call) -> io::Result<()> {
        let path = self.folder(WAITING, hook).join(call.key());
        files::replace(&path, &checked::to_vec(call)?)
    }

    /// How many calls wait.
    pub fn waiting(&self, hook: &HookName) -> io::Result<usize> {
        Ok(keys(&self.folder(WAITING, hook))?.len())
    }

    pub fn dead(&self, hook: &HookName) -> io::Result<usize> {
        Ok(keys(&self.folder(DEAD, hook))?.len())
    }

    /// The call to be made next. One that cannot be read is put aside, and said.
    pub fn next(&self, hook: &HookName) -> io::Result<Option<Call>> {
        let folder = self.folder(WAITING, hook);
        for key in keys(&folder)? {
            if let Some(call) = read(&folder.join(key))? {
                return Ok(Some(call));
            }
        }
        Ok(None)
    }

    /// Whether nobody took it out.
    pub fn is_waiting(&self, hook: &HookName, call: &Call) -> bool {
        self.folder(WAITING, hook).join(call.key()).exists()
    }

    /// A document for a program to read, as a line that ends: a shell's `read` fails at one that
    /// does not. It is a file without a name, so that it is whole even when the node dies meanwhile.
    /// Of one hook there is one at a time.
    pub fn input(&self, hook: &HookName, body: &str) -> io::Result<File> {
        let path = self.root.join(format!("input-{hook}"));
        files::private_directory(&self.root)?;
        files::private(&path)?.write_all(format!("{body}\n").as_bytes())?;
        let input = File::open(&path)?;
        fs::remove_file(&path)?;
        Ok(input)
    }

    /// It was made.
    pub fn done(&self, hook: &HookName, call: &Call) -> io::Result<()> {
        files::remove(&self.folder(WAITING, hook).join(call.key()))
    }

    /// It failed for good. Says which older ones had to go.
    pub fn bury(&self, hook: &HookName, call: &Call, failed: Failed) -> io::Result<Vec<String>> {
        let folder = self.folder(DEAD, hook);
        let buried = Call { failed: Some(failed), ..call.clone() };
        files::replace(&folder.join(call.key()), &checked::to_vec(&buried)?)?;
        let mut dropped = Vec::new();
        let keys = keys(&folder)?;
        for key in keys.iter().take(keys.len().saturating_sub(DEAD_MAX)) {
            files::remove(&folder.join(key))?;
            dropped.push(key.clone());
        }
        self.done(hook, call)?;
        Ok(dropped)
    }

    /// The names of all hooks that something is kept of.
    pub fn hooks(&self) -> io::Result<Vec<HookName>> {
        let mut names = Vec::new();
        for what in [WAITING, DEAD] {
            names.extend(keys_of(&self.root.join(what), |name| name.parse().ok())?);
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    pub fn list_waiting(&self, hook: &HookName) -> io::Result<Vec<Call>> {
        list(&self.folder(WAITING, hook))
    }

    /// The oldest first.
    pub fn list_dead(&self, hook: &HookName) -> io::Result<Vec<Call>> {
        list(&self.folder(DEAD, hook))
    }

    /// Has a dead letter wait again, with all its attempts.
    pub fn revive(&self, hook: &HookName, call: &Call) -> io::Result<()> {
        self.put(hook, &Call { failed: None, ..call.clone() })?;
        files::remove(&self.folder(DEAD, hook).join(call.key()))
    }

    /// Forgets a dead letter, or a call that waits.
    pub fn drop(&self, hook: &HookName, call: &Call) -> io::Result<()> {
        let what = if call.failed.is_some() { DEAD } else { WAITING };
        files::remove(&self.folder(what, hook).join(call.key()))
    }
}

fn list(folder: &Path) -> io::Result<Vec<Call>> {
    let mut found = Vec::new();
    for key in keys(folder)? {
        found.extend(read(&folder.join(key))?);
    }
    Ok(found)
}

/// `None`: it is gone, or was put aside.
fn read(path: &Path) -> io::Result<Option<Call>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    match checked::from_slice(&bytes) {
        Ok(call) => Ok(Some(call)),
        Err(error) => {
            let path = path.display();
            tracing::error!(%path, %error, "a hook's call is damaged; it is put aside");
            fs::rename(path.to_string(), format!("{path}.damaged"))?;
            Ok(None)
        }
    }
}

/// The calls of a folder in order; none where there is no folder.
fn keys(folder: &Path) -> io::Result<Vec<String>> {
    let is_call = |name: &str| name.ends_with(".json").then(|| name.to_owned());
    keys_of(folder, is_call)
}

fn keys_of<T: Ord>(folder: &Path, pick: impl Fn(&str) -> Option<T>) -> io::Result<Vec<T>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(why),
    };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(entry?.file_name().to_str().and_then(&pick));
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> HookName {
        "notify".parse().unwrap()
    }

    fn call(sequence: u64, part: usize) -> Call {
        let of = Happening {
            kind: Kind::Received,
            role: "B".parse().unwrap(),
            message: "m".into(),
            entry: 1,
            unseen_by: Vec::new(),
            facts: None,
            place: Place { sequence, event: 0, part },
        };
        Call::new(format!("id{sequence}.{part}"), &of, 1, "{}".into())
    }

    fn failed(why: &str) -> Failed {
        Failed { at_ms: 5, attempts: 2, why: why.into() }
    }

    #[test]
    fn calls_wait_in_order_until_they_are_made() {
        let data = tempfile::tempdir().unwrap();
        let store = Store::of(data.path());
        assert_eq!(store.next(&name()).unwrap(), None);
        for (sequence, part) in [(10, 1), (9, 0), (100, 0), (10, 0), (10, 0)] {
            store.put(&name(), &call(sequence, part)).unwrap();
        }
        let mut made = Vec::new();
        while let Some(next) = Store::of(data.path()).next(&name()).unwrap() {
            store.done(&name(), &next).unwrap();
            made.push(next.id);
        }
        assert_eq!(made, ["id9.0", "id10.0", "id10.1", "id100.0"]);
    }

    #[test]
    fn another_journal_has_other_calls_in_the_same_places() {
        let data = tempfile::tempdir().unwrap();
        let store = Store::of(data.path());
        let old = call(7, 0);
        let new = Call { id: "other".into(), at_ms: 2, ..old.clone() };
        store.put(&name(), &old).unwrap();
        store.put(&name(), &new).unwrap();
        // The old one was under way when the new one came.
        store.done(&name(), &old).unwrap();
        assert_eq!(store.next(&name()).unwrap(), Some(new));
    }

    #[test]
    fn dead_letters_are_bounded_and_can_be_revived_or_dropped() {
        let data = tempfile::tempdir().unwrap();
        let store = Store::of(data.path());
        let mut dropped = Vec::new();
        for sequence in 1..=102 {
            store.put(&name(), &call(sequence, 0)).unwrap();
            dropped.extend(store.bury(&name(), &call(sequence, 0), failed("no")).unwrap());
        }
        assert_eq!((dropped.len(), store.dead(&name()).unwrap()), (2, DEAD_MAX));
        assert_eq!(store.waiting(&name()).unwrap(), 0);
        let dead = store.list_dead(&name()).unwrap();
        assert_eq!((dead[0].id.as_str(), &dead[0].failed), ("id3.0", &Some(failed("no"))));
        store.revive(&name(), &dead[0]).unwrap();
        store.drop(&name(), &dead[1]).unwrap();
        assert_eq!(store.next(&name()).unwrap(), Some(call(3, 0)), "as it was before");
        assert_eq!(store.dead(&name()).unwrap(), DEAD_MAX - 2);
        assert_eq!(store.hooks().unwrap(), [name()]);
    }

    #[test]
    fn a_damaged_call_holds_nothing_up() {
        let data = tempfile::tempdir().unwrap();
        let store = Store::of(data.path());
        store.put(&name(), &call(1, 0)).unwrap();
        store.put(&name(), &call(2, 0)).unwrap();
        let path = store.folder(WAITING, &name()).join(call(1, 0).key());
        fs::write(&path, "{").unwrap();
        assert_eq!(store.next(&name()).unwrap(), Some(call(2, 0)));
        assert!(path.with_extension("json.damaged").exists());
    }

    #[test]
    fn a_flipped_bit_makes_no_other_call_and_no_other_place() {
        let data = tempfile::tempdir().unwrap();
        let store = Store::of(data.path());
        let whole = call(1, 0);
        store.put(&name(), &whole).unwrap();
        let path = store.folder(WAITING, &name()).join(whole.key());
        crate::flips::each(&path, |what| match store.next(&name()).unwrap() {
            Some(read) => assert_eq!(read, whole, "{what}"),
            None => fs::rename(path.with_extension("json.damaged"), &path).unwrap(),
        });
        let hooks = [("notify".to_owned(), Taken { sequence: 7, at_ms: 70 })].into();
        let places = Places { workspace: "w".into(), hooks };
        store.keep_places(&places).unwrap();
        crate::flips::each(&store.root.join(PLACES), |what| {
            let read = store.places(&"w".parse().unwrap()).unwrap();
            assert!(read.is_none_or(|read| read == places), "{what}");
        });
    }

    #[test]
    fn a_program_reads_a_line_that_ends() {
        let data = tempfile::tempdir().unwrap();
        let input = Store::of(data.path()).input(&name(), "{}").unwrap();
        assert_eq!(io::read_to_string(input).unwrap(), "{}\n");
    }

    #[test]
    fn places_are_one_workspaces() {
        let data = tempfile::tempdir().unwrap();
        let store = Store::of(data.path());
        let (here, there) = ("w".parse().unwrap(), "v".parse().unwrap());
        assert_eq!(store.places(&here).unwrap(), None);
        let taken = Taken { sequence: 7, at_ms: 70 };
        let hooks = [("notify".to_owned(), taken)].into();
        let places = Places { workspace: "w".into(), hooks };
        store.keep_places(&places).unwrap();
        assert_eq!(store.places(&here).unwrap(), Some(places));
        assert_eq!(store.places(&there).unwrap(), None);
        fs::write(store.root.join(PLACES), "{").unwrap();
        assert_eq!(store.places(&here).unwrap(), None);
    }
}
