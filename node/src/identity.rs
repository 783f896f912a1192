//! Who this node is, for as long as its data directory lives.
//!
//! A node's name, and a client id with a counter that names its intents.
//!
//! **ID1** No counter is handed out twice, crashes included: a block of counters is durably
//! reserved before its first is used, and a start goes on above everything ever reserved. One
//! process at a time uses a data directory; a second one gets an error, not the same counters.
//! Only a data directory that was copied, or restored from a backup, can break this from outside.
//! A copy is told by where it is, and counts as a new client from its start; what else there is the
//! broker notices, and the node [becomes one](Identity::renew_client) then.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    host::{
        checked,
        files::{self, Locked},
        location::Location,
    },
    id::{ClientId, IdempotencyKey, InvalidId, NodeId},
};

use crate::holder::{Holder, LOCK};

/// Counters reserved by one durable write: a thousand commands for one fsync.
const BLOCK: u64 = 1_000;

/// How much of the machine's name a node's name shows, in bytes; the rest tells nodes apart.
const HOST_BYTES_MAX: usize = 40;

const FILE: &str = "node-identity.json";

/// Why a node cannot be who it was.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("another node runs on {0}; stop it, or give this one its own --data")]
    InUse(PathBuf),
    #[error(
        "{path} is not what a node wrote there: {what}; restore it, or remove it to become a new node"
    )]
    Damaged { path: PathBuf, what: String },
    #[error("cannot use {path}")]
    Io { path: PathBuf, source: io::Error },
    #[error("the system's random source failed")]
    Random(#[from] getrandom::Error),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    node: String,
    client: String,
    /// No counter above this one was ever handed out.
    reserved: u64,
    /// Where the data directory is; `None`: written by a release that did not note it.
    #[serde(default)]
    location: Option<Location>,
}

/// A node's durable identity. Dropping it gives the data directory free.
#[derive(Debug)]
pub struct Identity {
    node: NodeId,
    location: Location,
    counters: Mutex<Counters>,
    lock: DataLock,
}

/// A data directory that this process alone has. Dropping it gives the directory free.
#[derive(Debug)]
pub struct DataLock {
    data: PathBuf,
    _locked: Locked,
}

impl DataLock {
    /// Takes it, and makes it where it is missing.
    pub fn take(data: &Path) -> Result<Self, IdentityError> {
        let lock = data.join(LOCK);
        files::private_directory(data).map_err(io_error(data))?;
        let file = lock_file(&lock).map_err(io_error(&lock))?;
        let mut locked = Locked::take(file).map_err(|why| match why {
            TryLockError::WouldBlock => IdentityError::InUse(data.to_owned()),
            TryLockError::Error(source) => io_error(&lock)(source),
        })?;
        Holder::note(locked.file()).map_err(io_error(&lock))?;
        Ok(Self { data: data.to_owned(), _locked: locked })
    }
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> IdentityError + use<> {
    let path = path.to_owned();
    move |source| IdentityError::Io { path: path.clone(), source }
}

#[derive(Debug)]
struct Counters {
    client: ClientId,
    /// The latest that was handed out.
    last: u64,
    reserved: u64,
}

impl Identity {
    /// The directory it is kept in.
    pub fn data(&self) -> &Path {
        &self.lock.data
    }

    /// Takes the data directory, and becomes the node whose it is, or a new one.
    pub fn open(data: &Path) -> Result<Self, IdentityError> {
        Self::open_at(data, false)
    }

    /// The same. `is_moved`: its user said that the directory was moved here, and no copy is used.
    pub fn open_at(data: &Path, is_moved: bool) -> Result<Self, IdentityError> {
        Self::open_locked(DataLock::take(data)?, is_moved)
    }

    /// The same of a directory that this process has already.
    pub fn open_locked(lock: DataLock, is_moved: bool) -> Result<Self, IdentityError> {
        let data = &lock.data;
        let path = data.join(FILE);
        let stored = match read(&path)? {
            Some(stored) => stored,
            None => fresh()?,
        };
        let location = Location::of(data).map_err(io_error(data))?;
        let Stored { node, mut client, mut reserved, location: noted } = stored;
        if let Some(noted) = noted.filter(|noted| !location.is(noted)) {
            let (here, there) = (data.display(), location.told_of(&noted));
            if is_moved {
                tracing::info!(%here, there, "the data directory was moved");
            } else {
                tracing::warn!(
                    "the data directory {here} is a copy, or was moved: node {node} last used it \
                     {there}. If a node runs there, too, stop one of them: each ends what the other \
                     registered. To run both, give this one an empty directory with --data DIR"
                );
            }
            // The original goes on counting.
            (client, reserved) = (client_name()?, 0);
        }
        let client = client.parse().map_err(|e: InvalidId| damaged(&path, &e))?;
        let identity = Self {
            node: node.parse().map_err(|e: InvalidId| damaged(&path, &e))?,
            location,
            counters: Mutex::new(Counters { client, last: reserved, reserved }),
            lock,
        };
        identity.reserve()?;
        Ok(identity)
    }

    /// The name of the node whose data directory this is, whether it runs or not; `None` where
    /// none ever ran. Blocks on the disk.
    pub fn known(data: &Path) -> Result<Option<NodeId>, IdentityError> {
        let path = data.join(FILE);
        let Some(Stored { node, .. }) = read(&path)? else { return Ok(None) };
        node.parse().map(Some).map_err(|e: InvalidId| damaged(&path, &e))
    }

    /// Where a node last used this data directory, if that was not here. Blocks on the disk.
    pub fn moved(data: &Path) -> Option<String> {
        let noted = read(&data.join(FILE)).ok()??.location?;
        let here = Location::of(data).ok()?;
        (!here.is(&noted)).then(|| here.told_of(&noted))
    }

    pub const fn node(&self) -> &NodeId {
        &self.node
    }

    /// The client that it is to the broker.
    pub fn client(&self) -> ClientId {
        self.counters().client.clone()
    }

    /// A key that was never used, or `None` when counters have to be [reserved](Self::reserve).
    pub fn next_key(&self) -> Option<IdempotencyKey> {
        let mut counters = self.counters();
        if counters.last == counters.reserved {
            return None;
        }
        counters.last += 1;
        assert!(counters.last <= counters.reserved, "ID1: {counters:?}");
        Some(IdempotencyKey { client: counters.client.clone(), counter: counters.last })
    }

    /// Durably reserves another block once the last one is used up. Blocks on the disk.
    pub fn reserve(&self) -> Result<(), IdentityError> {
        let mut counters = self.counters();
        if counters.last < counters.reserved {
            return Ok(());
        }
        let reserved = counters.reserved + BLOCK;
        self.write(&counters.client, reserved)?;
        counters.reserved = reserved;
        Ok(())
    }

    /// Counts anew, as a client that nobody has seen. Blocks on the disk.
    pub fn renew_client(&self) -> Result<(), IdentityError> {
        let mut counters = self.counters();
        let client = client_name()?.parse().expect("a client's name is an id");
        self.write(&client, BLOCK)?;
        *counters = Counters { client, last: 0, reserved: BLOCK };
        Ok(())
    }

    fn write(&self, client: &ClientId, reserved: u64) -> Result<(), IdentityError> {
        let (node, client) = (self.node.to_string(), client.to_string());
        let stored = Stored { node, client, reserved, location: Some(self.location.clone()) };
        let data = self.data();
        let path = data.join(FILE);
        write_durably(data, &path, &stored).map_err(|source| IdentityError::Io { path, source })
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock()
    }
}

/// What its holder wrote there stays.
fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// What is kept, where anything is and nobody else could have written it. Blocks on the disk.
fn read(path: &Path) -> Result<Option<Stored>, IdentityError> {
    let bytes = files::read_own(path).map_err(|why| {
        let source = io::Error::other(why);
        IdentityError::Io { path: path.to_owned(), source }
    })?;
    let Some(bytes) = bytes else { return Ok(None) };
    checked::from_slice(&bytes).map(Some).map_err(|why| damaged(path, &why))
}

fn damaged(path: &Path, what: &dyn std::error::Error) -> IdentityError {
    IdentityError::Damaged { path: path.to_owned(), what: what.to_string() }
}

fn fresh() -> Result<Stored, IdentityError> {
    let suffix = getrandom::u64()?;
    Ok(Stored {
        node: format!("{}-{:08x}", host_part(&host_name()), suffix >> 32),
        client: client_name()?,
        reserved: 0,
        location: None,
    })
}

fn client_name() -> Result<String, IdentityError> {
    Ok(format!("node-{:016x}", getrandom::u64()?))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What of a machine's name may be part of an id.
fn host_part(name: &str) -> String {
    let first = name.split('.').next().unwrap_or_default();
    let kept: String = first
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .skip_while(|c| *c == '-')
        .take(HOST_BYTES_MAX)
        .collect();
    if kept.is_empty() { "node".to_owned() } else { kept.to_ascii_lowercase() }
}

/// The old content or the new, never a part of either, whenever the power fails.
fn write_durably(data: &Path, path: &Path, stored: &Stored) -> io::Result<()> {
    let temporary = path.with_extension("json.new");
    let mut file = files::private(&temporary)?;
    file.write_all(&checked::to_vec(stored)?)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_directory(data)
}

#[cfg(unix)]
fn sync_directory(data: &Path) -> io::Result<()> {
    File::open(data)?.sync_all()
}

/// Directories cannot be synced here; renaming is as durable as the platform makes it.
#[cfg(not(unix))]
fn sync_directory(_data: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(identity: &Identity) -> IdempotencyKey {
        loop {
            if let Some(key) = identity.next_key() {
                return key;
            }
            identity.reserve().expect("the disk works");
        }
    }

    #[test]
    fn no_key_comes_twice_over_restarts_and_blocks() {
        let data = tempfile::tempdir().expect("a directory");
        let mut last = next(&Identity::open(data.path()).expect("free"));
        for used in [1, BLOCK - 1, BLOCK, BLOCK + 1, 0, 3] {
            let identity = Identity::open(data.path()).expect("free");
            for _ in 0..used {
                let key = next(&identity);
                assert_eq!(key.client, last.client);
                assert!(last.counter < key.counter, "ID1: {key} after {last}");
                last = key;
            }
        }
    }

    #[test]
    fn within_one_run_counters_have_no_gaps() {
        let data = tempfile::tempdir().expect("a directory");
        let identity = Identity::open(data.path()).expect("free");
        for counter in 1..=2 * BLOCK + 1 {
            assert_eq!(next(&identity).counter, counter);
        }
    }

    #[test]
    fn a_new_client_of_the_same_node_counts_anew_and_stays() {
        let data = tempfile::tempdir().expect("a directory");
        let identity = Identity::open(data.path()).expect("free");
        let (node, before) = (identity.node().clone(), next(&identity));
        identity.renew_client().expect("the disk works");
        let after = next(&identity);
        assert!(after.client != before.client && after.counter == 1, "{before} {after}");
        drop(identity);
        let identity = Identity::open(data.path()).expect("free");
        let restarted = next(&identity);
        assert!(restarted.client == after.client && after.counter < restarted.counter);
        assert_eq!(identity.node(), &node);
        assert_eq!(Identity::known(data.path()).expect("readable"), Some(node));
    }

    #[test]
    fn a_copy_is_the_same_node_and_another_client() {
        let place = tempfile::tempdir().expect("a directory");
        let (data, copy) = (place.path().join("data"), place.path().join("copy"));
        let identity = Identity::open(&data).expect("free");
        let key = next(&identity);
        fs::create_dir(&copy).expect("made");
        fs::copy(data.join(FILE), copy.join(FILE)).expect("copied");
        let copied = Identity::open(&copy).expect("free");
        assert_eq!(copied.node(), identity.node());
        let other = next(&copied);
        assert!(other.client != key.client && other.counter == 1, "{other} {key}");
        drop(copied);
        let copied = Identity::open(&copy).expect("free");
        assert_eq!(next(&copied).client, other.client, "it stays");
    }

    #[cfg(unix)]
    #[test]
    fn its_files_are_for_its_user_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let data = tempfile::tempdir().expect("a directory");
        let identity = Identity::open(data.path()).expect("free");
        next(&identity);
        for name in [FILE, LOCK] {
            let about = fs::metadata(data.path().join(name)).expect("there");
            assert_eq!(about.permissions().mode() & 0o777, 0o600, "{name}");
        }
        // What others could have written names nobody.
        let open = fs::Permissions::from_mode(0o620);
        fs::set_permissions(data.path().join(FILE), open).expect("its owner's");
        assert!(matches!(Identity::known(data.path()), Err(IdentityError::Io { .. })));
    }

    #[test]
    fn a_second_node_on_one_directory_is_refused() {
        let data = tempfile::tempdir().expect("a directory");
        let first = Identity::open(data.path()).expect("free");
        let second = Identity::open(data.path()).expect_err("taken");
        assert!(matches!(second, IdentityError::InUse(_)), "{second}");
        drop(first);
        Identity::open(data.path()).expect("free again");
    }

    #[test]
    fn a_damaged_identity_is_named_and_not_replaced() {
        let data = tempfile::tempdir().expect("a directory");
        let path = data.path().join(FILE);
        for bad in ["", "{}", r#"{"node":"../x","client":"c","reserved":1}"#] {
            fs::write(&path, bad).expect("written");
            let error = Identity::open(data.path()).expect_err("damaged");
            assert!(matches!(error, IdentityError::Damaged { .. }), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("still there"), bad);
        }
    }

    #[test]
    fn a_flipped_bit_makes_no_other_node_and_no_key_twice() {
        let data = tempfile::tempdir().expect("a directory");
        let node = Identity::open(data.path()).expect("free").node().clone();
        let path = data.path().join(FILE);
        let whole: Stored = checked::from_slice(&fs::read(&path).expect("read")).expect("whole");
        crate::flips::each(&path, |what| match Identity::known(data.path()) {
            Ok(read) => {
                assert_eq!(read.as_ref(), Some(&node), "{what}");
                let read: Stored =
                    checked::from_slice(&fs::read(&path).expect("read")).expect("whole");
                assert_eq!(read, whole, "{what}");
            }
            Err(why) => assert!(why.to_string().contains(FILE), "{what}: {why}"),
        });
    }

    #[test]
    fn what_of_a_host_name_becomes_part_of_a_node_name() {
        for (name, part) in [
            ("Laptop-7.example.org", "laptop-7"),
            ("--x", "x"),
            ("日本", "node"),
            ("", "node"),
            (&"a".repeat(90), &"a".repeat(HOST_BYTES_MAX)),
        ] {
            assert_eq!(host_part(name), part, "{name}");
        }
    }
}
