//! Idempotency keys of commands, kept in the data directory but for those of one process alone.
//!
//! **Invariant:** a counter that is kept is used up in the file before its key is sent, so that no
//! key ever names two intents, across crashes and commands that run at the same time. The file is
//! synced once for each start of the machine, after which commands are another client: what a power
//! cut takes of it names nothing twice. On a copy of the directory, too, commands are another client:
//! the original's go on counting. In the same directory a
//! file may come back from a backup: no counter is below the seconds since 1970, so that those used
//! since the backup lie behind. Where commands came faster than one in a second the broker says that
//! a key is used, and the command is sent once more as [`Alone`].

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};
use tasuki_proto::{
    host::{checked, location::Location},
    wire,
};

use super::Failure;
use crate::{clock, paths};

/// The file of keys in the data directory, and the lock beside it.
const FILE: &str = "cli-keys.json";
const LOCK: &str = "cli-keys.lock";

/// Bytes of chance in a client's name: two of them never meet.
const CHANCE_BYTES: usize = 8;

/// Digits at the end of a client's name that say which start of the machine it is of.
const START_CHARS: usize = 8;

/// A file of at most so many bytes is written in one piece, in place.
const IN_PLACE_BYTES_MAX: usize = 512;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    client_id: String,
    /// The latest used.
    counter: u64,
    /// Where the data directory is; `None`: written by a release that did not note it.
    #[serde(default)]
    location: Option<Location>,
}

impl Kept {
    fn anew(start: Option<&str>) -> io::Result<Self> {
        let client_id = new_client()? + start.unwrap_or_default();
        Ok(Self { client_id, counter: 0, location: None })
    }
}

/// A client of one process alone, which nothing of is kept: its name is chance, so no other process
/// has it, and its keys cost no write.
#[derive(Debug)]
pub(crate) struct Alone {
    client_id: String,
    counter: AtomicU64,
}

/// For a command that has many to send.
pub(crate) fn alone() -> Result<Alone, Failure> {
    let client_id = new_client();
    let why = |why| {
        Failure::local(format!("The system's random source failed: {why}. Nothing was sent."))
    };
    Ok(Alone { client_id: client_id.map_err(why)?, counter: AtomicU64::new(0) })
}

impl Alone {
    pub(crate) fn next(&self) -> wire::IdempotencyKey {
        let counter = 1 + self.counter.fetch_add(1, Ordering::Relaxed);
        wire::IdempotencyKey { client_id: self.client_id.clone(), counter }
    }
}

fn new_client() -> io::Result<String> {
    let mut chance = [0; CHANCE_BYTES];
    getrandom::fill(&mut chance).map_err(io::Error::other)?;
    Ok(format!("cli-{:016x}", u64::from_le_bytes(chance)))
}

/// Takes the next key.
pub(crate) fn next(data: &Path) -> Result<wire::IdempotencyKey, Failure> {
    next_at(data, clock::wall_ms() / 1000)
}

fn next_at(data: &Path, now_s: u64) -> Result<wire::IdempotencyKey, Failure> {
    take(data, now_s, start().as_deref()).map_err(|why| {
        let file = data.join(FILE);
        Failure::local(format!(
            "Nothing was sent: the command's next key cannot be kept in {}: {why}. If the file is \
             damaged, remove it: commands begin with new keys then.",
            file.display()
        ))
    })
}

/// Of this start of the machine; `None` where the system does not say.
fn start() -> Option<String> {
    let name = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("-{}", &blake3::hash(&name).to_hex()[..START_CHARS]))
}

/// Whether a client's name says which start of the machine it is of.
fn has_start(client_id: &str) -> bool {
    1 < client_id.matches('-').count()
}

fn take(data: &Path, now_s: u64, start: Option<&str>) -> io::Result<wire::IdempotencyKey> {
    tasuki_proto::host::files::private_directory(data)?;
    let lock = paths::private(&data.join(LOCK))?;
    lock.lock()?;
    let path = data.join(FILE);
    let location = Location::of(data)?;
    let before = match fs::read(&path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => None,
        read => Some(read?),
    };
    let mut kept = match &before {
        None => Kept::anew(start)?,
        Some(bytes) => checked::from_slice(bytes).map_err(io::Error::other)?,
    };
    let is_elsewhere = kept.location.as_ref().is_some_and(|noted| !location.is(noted));
    let is_of_now = match start {
        Some(start) => kept.client_id.ends_with(start),
        // What it was synced for may be long ago.
        None => !has_start(&kept.client_id),
    };
    if is_elsewhere || !is_of_now {
        kept = Kept::anew(start)?;
    }
    let counter = now_s.max(kept.counter + 1);
    let kept = Kept { counter, location: Some(location), ..kept };
    let bytes = checked::to_vec(&kept)?;
    let is_as_long = before.is_some_and(|it| it.len() == bytes.len());
    let is_synced_once = start.is_some() && is_of_now && !is_elsewhere;
    match is_synced_once && is_as_long && bytes.len() <= IN_PLACE_BYTES_MAX {
        true => fs::OpenOptions::new().write(true).open(&path)?.write_all(&bytes)?,
        false => paths::replace(&path, &bytes)?,
    }
    Ok(wire::IdempotencyKey { client_id: kept.client_id, counter })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// At the beginning of time, when a counter is one more than the one before.
    fn next(data: &Path) -> Result<wire::IdempotencyKey, Failure> {
        next_at(data, 0)
    }

    #[test]
    fn a_file_from_a_backup_names_nothing_twice() {
        let data = tempfile::tempdir().unwrap();
        let at = |now_s| take(data.path(), now_s, Some("-1")).unwrap();
        let first = at(100);
        let backup = fs::read(data.path().join(FILE)).unwrap();
        at(101);
        at(101);
        let last = at(101);
        assert_eq!((first.counter, last.counter), (100, 103));
        fs::write(data.path().join(FILE), backup).unwrap();
        let restored = at(200);
        assert_eq!((restored.client_id, restored.counter), (first.client_id, 200));
    }

    #[test]
    fn no_key_is_taken_twice() {
        let data = tempfile::tempdir().unwrap();
        let taken = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..10).map(|_| next(data.path()).unwrap()).collect::<Vec<_>>())
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let clients: BTreeSet<_> = taken.iter().map(|key| key.client_id.clone()).collect();
        assert_eq!(clients.len(), 1);
        let counters: BTreeSet<_> = taken.iter().map(|key| key.counter).collect();
        assert_eq!(counters, (1..=40).collect());
    }

    #[test]
    fn a_flipped_bit_makes_no_key_twice() {
        let data = tempfile::tempdir().unwrap();
        let last = next(data.path()).unwrap();
        let path = data.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        crate::flips::each(&path, |what| {
            if let Ok(key) = next(data.path()) {
                let is_next = key.client_id == last.client_id && key.counter == last.counter + 1;
                assert!(is_next, "{what}: {key:?}");
            }
        });
        assert_eq!(fs::read(&path).unwrap(), whole);
    }

    /// What was not synced before it may have lost.
    #[test]
    fn commands_after_a_start_of_the_machine_are_another_client() {
        let data = tempfile::tempdir().unwrap();
        let at = |start| take(data.path(), 0, start).unwrap();
        let first = at(Some("-1"));
        assert!(first.client_id.ends_with("-1"), "{first:?}");
        assert_eq!(at(Some("-1")).client_id, first.client_id);
        let second = at(Some("-2"));
        assert!(second.client_id != first.client_id && second.counter == 1, "{second:?}");
        // A system that does not say which start it is goes on with its own, in a file that is synced.
        let third = at(None);
        assert!(third.client_id != second.client_id && third.counter == 1, "{third:?}");
        assert_eq!(at(None).counter, 2);
    }

    #[test]
    fn commands_on_a_copy_are_another_client() {
        let place = tempfile::tempdir().unwrap();
        let (data, copy) = (place.path().join("data"), place.path().join("copy"));
        let (first, second) = (next(&data).unwrap(), next(&data).unwrap());
        assert_eq!((&first.client_id, first.counter + 1), (&second.client_id, second.counter));
        fs::create_dir(&copy).unwrap();
        fs::copy(data.join(FILE), copy.join(FILE)).unwrap();
        let copied = next(&copy).unwrap();
        assert!(copied.client_id != first.client_id && copied.counter == 1, "{copied:?}");
        assert_eq!(next(&copy).unwrap().client_id, copied.client_id, "it stays");
    }

    #[test]
    fn a_damaged_file_of_keys_is_not_begun_anew() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join(FILE), b"{\"client_id\":").unwrap();
        assert_eq!(next(data.path()).unwrap_err().code(), "local");
    }
}
