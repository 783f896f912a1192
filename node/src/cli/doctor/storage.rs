//! The data directory: who gets in, whether it is the original, what is damaged, what waits in it.

use std::{path::Path, time::Duration};

use rustix::fs::statvfs;
use tasuki_broker::{journal::sled, server::TLS_FOLDER};
use tasuki_proto::counted::counted;
use tasuki_proto::host::{
    admin::{self, AdminFile},
    config::FOLDER,
    files::{self, SecretFileError},
    location,
    unwritable::Unwritable,
};

use super::finding::{Area, Finding, or_ok};
use crate::{
    agent_tokens,
    cli::{hosting, labels::long},
    config::Config,
    credentials::{self, Joined},
    hooks::store::Store,
    identity::Identity,
    outbox, projects,
};

/// A disk with less than this is soon full, in bytes: a busy broker writes as much in an hour.
const FREE_BYTES_LOW: u64 = 256 * 1024 * 1024;

/// Letters that wait longer are not merely on their way.
const QUEUED_MAX: Duration = Duration::from_mins(10);

/// The private key in a folder of TLS.
const KEY: &str = "key.pem";

/// Blocks on the disk. `now_ms`: of this machine.
pub(super) fn storage(config: &Config, now_ms: u64) -> Vec<Finding> {
    let root = &config.root;
    let mut found = Vec::new();
    if let Some(why) = Unwritable::find(root) {
        let mend = match &why {
            Unwritable::ReadOnly(_) => "Remount it, or choose another with --data DIR.",
            Unwritable::Full { .. } => "Free some space, or choose another with --data DIR.",
            Unwritable::Forbidden(_) => {
                "Change its permissions, or choose another with --data DIR."
            }
        };
        let what = why.to_string();
        let what = what.split_once(". ").map_or(what.as_str(), |(what, _)| what);
        found.push(Finding::error(Area::Data, format!("{what}."), mend));
    }
    if !root.exists() {
        let what = format!("{} is not there yet; the first start makes it", root.display());
        return or_ok(found, Area::Data, what);
    }
    if !root.is_dir() {
        let what = format!("{} is no directory.", root.display());
        let mend = "Choose another with --data DIR, or move what is there away.";
        found.push(Finding::error(Area::Data, what, mend));
        return found;
    }
    let free = free_bytes(root);
    if let Some(free) = free.filter(|free| *free < FREE_BYTES_LOW)
        && found.is_empty()
    {
        let what = format!("The disk of {} has {} left.", root.display(), mebibytes(free));
        found.push(Finding::warning(Area::Data, what, "Free some space; `tasuki-broker compact`."));
    }
    found.extend(secrets(config));
    found.extend(copies(config));
    found.extend(broker(root));
    for data in projects::directories(root) {
        found.extend(damaged_node(&data));
        found.extend(waiting(&data, config, now_ms));
    }
    let free = free.map_or_else(String::new, |free| format!(", {} free", mebibytes(free)));
    or_ok(found, Area::Data, format!("{}{free}", root.display()))
}

fn free_bytes(data: &Path) -> Option<u64> {
    let disk = statvfs(data).ok()?;
    // One that has no blocks at all is none of a disk.
    (disk.f_blocks != 0).then(|| disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes / (1024 * 1024))
}

/// Secrets that others may read, or that cannot be read.
fn secrets(config: &Config) -> Vec<Finding> {
    let root = &config.root;
    let broker = root.join(FOLDER);
    let mut paths = vec![
        root.join(credentials::FILE),
        broker.join(admin::FILE),
        broker.join(TLS_FOLDER).join(KEY),
    ];
    for data in projects::directories(root) {
        paths.extend([data.join(agent_tokens::FILE), data.join(TLS_FOLDER).join(KEY)]);
    }
    let opened = paths.iter().filter_map(|path| files::read_secret(path).err());
    // A key that was named may be shared with a group of root's.
    let named = config.tls_key.value.iter().filter_map(|path| files::read_key(path).err());
    let damaged = [Joined::read(root).err(), AdminFile::read(&broker).err()].into_iter().flatten();
    let damaged = damaged.filter(|why| matches!(why, SecretFileError::Damaged { .. }));
    opened.chain(named).chain(damaged).map(|why| secret(&why)).collect()
}

fn secret(why: &SecretFileError) -> Finding {
    let mend = match why {
        SecretFileError::Unreadable { path, .. } => {
            format!("Make it readable for you alone: chmod 600 {}", path.display())
        }
        SecretFileError::NotPrivate { path } => {
            format!(
                "Replace the secret, or if nobody else uses this machine: chmod 600 {}",
                path.display()
            )
        }
        SecretFileError::NotOwn { path } => format!("chmod go-w {}", path.display()),
        SecretFileError::Damaged { path, .. } if path.ends_with(credentials::FILE) => {
            "`tasuki join …` with a new invitation, or restore the file.".to_owned()
        }
        SecretFileError::Damaged { path, .. } => {
            format!("Restore {}, or remove it: the next start makes another.", path.display())
        }
    };
    let what = match why {
        SecretFileError::NotPrivate { path } => {
            format!("Others on this machine may read or write {}.", path.display())
        }
        SecretFileError::Unreadable { .. }
        | SecretFileError::NotOwn { .. }
        | SecretFileError::Damaged { .. } => hosting::sentence(why),
    };
    Finding::error(Area::Data, what, mend)
}

/// What was copied, or moved, and does not know it yet.
fn copies(config: &Config) -> Vec<Finding> {
    let root = &config.root;
    let of_broker = location::check(&root.join(FOLDER)).err().map(|why| hosting::sentence(&why));
    let of_node = || {
        let directories = projects::directories(root);
        let moved = directories.iter().find_map(|data| Some((data, Identity::moved(data)?)));
        moved.map(|(data, there)| {
            format!("{} was copied or moved: its node was last {there}.", data.display())
        })
    };
    let finding = |what: String| {
        let flags = hosting::data_flag(config);
        let mend = format!(
            "If it was moved and no other copy is used: `tasuki{flags} up --moved`. To run a copy \
             beside the original, give it an empty directory with --data DIR."
        );
        Finding::error(Area::Data, what, mend)
    };
    of_broker.or_else(of_node).map(finding).into_iter().collect()
}

/// What a start of the broker would find at once.
fn broker(root: &Path) -> Vec<Finding> {
    let folder = root.join(FOLDER);
    if !sled::is_used(&folder) {
        return Vec::new();
    }
    let finding = |why| {
        let mend = format!(
            "Restore a backup, or see what is lost: `tasuki-broker verify --data {0}`, then \
             `tasuki-broker repair-log --data {0}`.",
            root.display()
        );
        Finding::error(Area::Data, hosting::sentence(&why), mend)
    };
    sled::check_log(&folder).err().map(finding).into_iter().collect()
}

fn damaged_node(data: &Path) -> Vec<Finding> {
    let why = Identity::known(data).err();
    let finding = |why| {
        let mend = "Restore the file, or remove it: the node becomes a new one.";
        Finding::error(Area::Data, hosting::sentence(&why), mend)
    };
    why.map(finding).into_iter().collect()
}

/// Letters and calls of hooks that do not go out.
fn waiting(data: &Path, config: &Config, now_ms: u64) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |what: String, mend: &str| {
        found.push(Finding::warning(Area::Work, what, mend));
    };
    let flags = hosting::data_flag(config);
    let list = format!("`tasuki{flags} outbox` shows why; `outbox retry ID` or `outbox drop ID`.");
    match outbox::read(data) {
        Err(why) => add(format!("The outbox in {} cannot be read: {why}.", data.display()), &list),
        Ok(contents) => {
            let counts = contents.counts();
            if counts.failed != 0 {
                let failed = counted(counts.failed as u64, "message");
                add(format!("The broker refused {failed} of the outbox."), &list);
            }
            if !contents.unreadable.is_empty() {
                let files = counted(contents.unreadable.len() as u64, "file");
                add(format!("{files} in {} cannot be read.", data.join("outbox").display()), &list);
            }
            let queued = contents.entries.iter().filter(|(it, _)| it.failed.is_none());
            let age = queued.map(|(it, _)| now_ms.saturating_sub(it.queued_ms)).max();
            if let Some(age) = age.filter(|age| QUEUED_MAX.as_millis() < u128::from(*age)) {
                let waiting = counted(counts.queued as u64, "message");
                add(
                    format!("{waiting} in the outbox, the oldest for {}.", long(age)),
                    "They go out once the node reaches its broker; `tasuki outbox` shows them.",
                );
            }
        }
    }
    let store = Store::of(data);
    let hooks = store.hooks().unwrap_or_default();
    for hook in hooks {
        let dead = store.dead(&hook).unwrap_or_default();
        if dead != 0 {
            let calls = counted(dead as u64, "call");
            add(
                format!("{calls} of the hook {hook} failed for good."),
                "`tasuki hook list` shows why; `tasuki hook retry` or `hook drop`.",
            );
        }
    }
    found
}

/// Where nothing waits.
pub(super) const NOTHING_WAITS: &str = "nothing waits or failed";
