//! A task's id says what was asked, sealed so that only this node can have said it.
//!
//! - **TK1** An id opens only as it was sealed, under the key it was sealed with, and for
//!   [`TTL_MS`].
//!
//! What the id says is no secret: the role that may ask about it knows it all.

use std::{fs, io, path::Path};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use tasuki_proto::{
    host::files,
    id::{TokenId, WorkspaceId},
    limits::ID_BYTES_MAX,
    mail::MessageType,
};

use crate::{
    mcp::question::{Question, What},
    wait::{Awaited, BoardAwaited, IssuesIn, MailFilter, RunAwaited},
};

/// How long a task can be asked about, in milliseconds: a working day and the night after it.
pub(super) const TTL_MS: u64 = 24 * 60 * 60 * 1000;

/// An id in characters: three names at their limit, names of channels, a number, and what is fixed.
pub(super) const TASK_ID_CHARS_MAX: usize =
    (FIXED_BYTES + 3 * (1 + ID_BYTES_MAX) + 1 + CHANNELS_BYTES_MAX + 1 + NUMBER_BYTES_MAX)
        .div_ceil(3)
        * 4;

/// Version, times, nonce and seal.
const FIXED_BYTES: usize = 1 + 8 + 8 + NONCE_BYTES + SEAL_BYTES;
const SEAL_BYTES: usize = blake3::OUT_LEN;
const NONCE_BYTES: usize = 8;

/// Names of channels, a line each: as long as the length that stands before them can say.
const CHANNELS_BYTES_MAX: usize = u8::MAX as usize;

/// A number in digits.
const NUMBER_BYTES_MAX: usize = 20;

/// What is asked is what the version says.
const OF_A_TURN: u8 = 1;
const OF_MAIL: u8 = 2;
const OF_SWARM: u8 = 3;
const OF_A_RUN: u8 = 4;
/// Of the call that started it.
const OF_A_FOREGROUND_RUN: u8 = 5;
const OF_A_BOARD: u8 = 7;
/// Not a wait of this node's.
pub(super) const OF_A_SERVER: u8 = 6;

/// Behind the key.
const CHECK_BYTES: usize = 8;

/// Where the key is kept, in the node's data directory.
const FILE: &str = "task-key";

/// What seals the ids of a node's tasks in one workspace.
#[derive(Clone)]
pub struct TaskKey([u8; blake3::KEY_LEN]);

impl std::fmt::Debug for TaskKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskKey").finish_non_exhaustive()
    }
}

impl TaskKey {
    /// The key kept in `data`, made when there is none, for tasks of `workspace`. One process at
    /// a time uses a data directory. Blocks on the disk.
    pub fn open(data: &Path, workspace: &WorkspaceId) -> io::Result<Self> {
        let path = data.join(FILE);
        let kept = match files::read_secret(&path).map_err(io::Error::other)? {
            Some(kept) => kept,
            None => {
                let mut fresh = [0; blake3::KEY_LEN];
                getrandom::fill(&mut fresh).map_err(io::Error::other)?;
                let kept = [&fresh, &check(&fresh)[..]].concat();
                keep(&path, &kept)?;
                kept
            }
        };
        // Earlier releases kept the key alone.
        let key = kept.split_first_chunk::<{ blake3::KEY_LEN }>();
        let key = key.filter(|(key, rest)| rest.is_empty() || *rest == check(*key));
        let (kept, _) = key.ok_or_else(|| {
            let why = format!(
                "{} is not the key a node wrote there; remove it, and tasks that wait are forgotten",
                path.display()
            );
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        Ok(Self(*blake3::keyed_hash(kept, workspace.as_str().as_bytes()).as_bytes()))
    }

    /// The key of what was made with one token, so that it opens with no other.
    #[must_use]
    pub(in crate::mcp) fn of(&self, token: Option<&TokenId>) -> Self {
        match token {
            Some(token) => Self(*blake3::keyed_hash(&self.0, token.as_str().as_bytes()).as_bytes()),
            None => self.clone(),
        }
    }

    /// An id that says these bytes.
    pub(super) fn seal(&self, mut bytes: Vec<u8>) -> String {
        let seal = blake3::keyed_hash(&self.0, &bytes);
        bytes.extend(seal.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The bytes that an id says; `None`: it was not sealed with this key.
    pub(super) fn open_seal(&self, id: &str) -> Option<Vec<u8>> {
        let mut bytes = URL_SAFE_NO_PAD.decode(id).ok()?;
        let seal = bytes.split_off(bytes.len().checked_sub(SEAL_BYTES)?);
        // Takes as long whatever is wrong with it.
        let is_sealed = blake3::keyed_hash(&self.0, &bytes) == *seal.first_chunk::<SEAL_BYTES>()?;
        is_sealed.then_some(bytes)
    }

    /// A key that nobody else has and that ends with this process.
    pub(in crate::mcp) fn of_process() -> Self {
        let (first, second) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
        Self(*blake3::hash(&[*first.as_bytes(), *second.as_bytes()].concat()).as_bytes())
    }
}

/// What stands behind a key, so that a flipped bit is noticed.
fn check(key: &[u8]) -> [u8; CHECK_BYTES] {
    let hash = blake3::derive_key("tasuki 2026 check of a task key", key);
    *hash.first_chunk().expect("a hash is longer")
}

/// The whole key or none of it, for its owner alone.
fn keep(path: &Path, key: &[u8]) -> io::Result<()> {
    use io::Write as _;
    let draft = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(key)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    // Elsewhere directories cannot be synced; renaming is as durable as the platform makes it.
    #[cfg(unix)]
    if let Some(data) = path.parent() {
        fs::File::open(data)?.sync_all()?;
    }
    Ok(())
}

/// What a task stands for: a question, asked at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub question: Question,
    /// Which of the agents that may play the role; empty: it did not say.
    pub instance: String,
    /// In milliseconds since the Unix epoch. Of two tasks the later one counts.
    pub created_ms: u64,
    /// When the wait is over though nothing came; 0: it is not.
    pub until_ms: u64,
    /// The call that was answered with the task started the run that it waits for.
    pub is_foreground: bool,
}

impl Asked {
    pub(super) fn seal(&self, key: &TaskKey, nonce: [u8; NONCE_BYTES]) -> String {
        let (kind, id, run, after, channels);
        let (version, about) = match &self.question.what {
            What::Turn(loop_id) => (OF_A_TURN, vec![loop_id.as_str()]),
            What::Mail(MailFilter { kind, sender }) => {
                let kind = kind.map_or("", MessageType::as_str);
                let sender = sender.as_ref().map_or("", |it| it.as_str());
                (OF_MAIL, vec![kind, sender])
            }
            What::Swarm(awaited) => {
                (kind, id) = name_of(awaited);
                (OF_SWARM, vec![kind, id.as_str()])
            }
            What::Board(awaited) => {
                (after, channels) = (awaited.after.to_string(), channel_lines(awaited));
                (OF_A_BOARD, vec![awaited.board.as_str(), after.as_str(), channels.as_str()])
            }
            What::Run(RunAwaited::Run { run: awaited, after: _, by: _ }) => {
                run = awaited.to_string();
                let version = if self.is_foreground { OF_A_FOREGROUND_RUN } else { OF_A_RUN };
                (version, vec![run.as_str()])
            }
            What::Run(RunAwaited::Reply { .. } | RunAwaited::Steps(_)) => {
                unreachable!("TK1: no role waits for it")
            }
        };
        let mut bytes = vec![version];
        bytes.extend(self.created_ms.to_le_bytes());
        bytes.extend(self.until_ms.to_le_bytes());
        bytes.extend(nonce);
        let who = [self.question.role.as_str(), &self.instance];
        for name in who.into_iter().chain(about) {
            let length = u8::try_from(name.len()).expect("a name is at most ID_BYTES_MAX long");
            bytes.push(length);
            bytes.extend(name.as_bytes());
        }
        let id = key.seal(bytes);
        assert!(id.len() <= TASK_ID_CHARS_MAX, "TK1: {self:?}");
        id
    }

    /// `None`: not an id that was sealed with this key, or one of a task that is over by now.
    pub(super) fn open(key: &TaskKey, id: &str, now_ms: u64) -> Option<Self> {
        if TASK_ID_CHARS_MAX < id.len() {
            return None;
        }
        let bytes = key.open_seal(id)?;
        let (version, said) = bytes.split_first()?;
        let (created_ms, said) = said.split_first_chunk()?;
        let (until_ms, said) = said.split_first_chunk()?;
        let (_nonce, mut said) = said.split_first_chunk::<NONCE_BYTES>()?;
        let mut name = || {
            let (length, rest) = said.split_first()?;
            let (name, rest) = rest.split_at_checked(usize::from(*length))?;
            said = rest;
            str::from_utf8(name).ok()
        };
        let role = name()?.parse().ok()?;
        let instance = name()?.to_owned();
        let what = match *version {
            OF_A_TURN => What::Turn(name()?.parse().ok()?),
            OF_MAIL => {
                let kind = Some(name()?).filter(|it| !it.is_empty());
                let sender = Some(name()?).filter(|it| !it.is_empty());
                let kind = kind.map(str::parse).transpose().ok()?;
                What::Mail(MailFilter { kind, sender: sender.map(str::parse).transpose().ok()? })
            }
            OF_SWARM => What::Swarm(awaited(name()?, name()?)?),
            OF_A_RUN | OF_A_FOREGROUND_RUN => {
                What::Run(RunAwaited::Run { run: name()?.parse().ok()?, after: 0, by: None })
            }
            OF_A_BOARD => {
                let (board, after) = (name()?.parse().ok()?, name()?.parse().ok()?);
                let channels = name()?.lines().map(str::parse).collect::<Result<_, _>>().ok()?;
                What::Board(BoardAwaited { board, channels, after })
            }
            _ => return None,
        };
        let it = Self {
            question: Question { role, what },
            instance,
            created_ms: u64::from_le_bytes(*created_ms),
            until_ms: u64::from_le_bytes(*until_ms),
            is_foreground: *version == OF_A_FOREGROUND_RUN,
        };
        (now_ms.saturating_sub(it.created_ms) < TTL_MS).then_some(it)
    }
}

fn channel_lines(awaited: &BoardAwaited) -> String {
    awaited.channels.iter().map(|it| it.as_str()).collect::<Vec<_>>().join("\n")
}

/// Whether an id can say which channels are waited for.
pub(in crate::mcp) fn may_be_sealed(awaited: &BoardAwaited) -> bool {
    channel_lines(awaited).len() <= CHANNELS_BYTES_MAX
}

/// What is waited for, and the id of what it is about.
fn name_of(awaited: &Awaited) -> (&'static str, String) {
    match awaited {
        Awaited::Issues { state: IssuesIn::Open, limit } => ("open", limit.to_string()),
        Awaited::Issues { state: IssuesIn::Done, limit } => ("done", limit.to_string()),
        Awaited::Issues { state: IssuesIn::Canceled, limit } => ("canceled", limit.to_string()),
        Awaited::Tasks(issue) => ("tasks", issue.to_string()),
        Awaited::Items(issue) => ("items", issue.to_string()),
        Awaited::Review(submission) => ("review", submission.to_string()),
        Awaited::Reply(message) => ("reply", message.to_string()),
        Awaited::Deliveries { limit } => ("deliver", limit.to_string()),
        Awaited::Verdict(delivery) => ("verdict", delivery.to_string()),
        Awaited::Files { .. } => unreachable!("TK1: no task stands for a wait for files"),
    }
}

/// The same, read.
fn awaited(kind: &str, id: &str) -> Option<Awaited> {
    Some(match kind {
        "open" => Awaited::Issues { state: IssuesIn::Open, limit: id.parse().ok()? },
        "done" => Awaited::Issues { state: IssuesIn::Done, limit: id.parse().ok()? },
        "canceled" => Awaited::Issues { state: IssuesIn::Canceled, limit: id.parse().ok()? },
        "tasks" => Awaited::Tasks(id.parse().ok()?),
        "items" => Awaited::Items(id.parse().ok()?),
        "review" => Awaited::Review(id.parse().ok()?),
        "reply" => Awaited::Reply(id.parse().ok()?),
        // Of earlier versions without a limit.
        "deliver" => Awaited::Deliveries { limit: id.parse().unwrap_or_default() },
        "verdict" => Awaited::Verdict(id.parse().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked {
        Asked {
            question: question("B", What::Turn("main".parse().unwrap())),
            instance: "claude-1".to_owned(),
            created_ms: 1_000,
            until_ms: 0,
            is_foreground: false,
        }
    }

    fn question(role: &str, what: What) -> Question {
        Question { role: role.parse().unwrap(), what }
    }

    fn mail(kind: &str, sender: &str) -> What {
        What::Mail(MailFilter { kind: kind.parse().ok(), sender: sender.parse().ok() })
    }

    #[test]
    fn an_id_opens_as_it_was_sealed_until_its_time_is_over() {
        let key = TaskKey::of_process();
        let longest = "x".repeat(ID_BYTES_MAX);
        let run = |is_foreground| {
            let run = "run_1700000000000_00af".parse().unwrap();
            let what = What::Run(RunAwaited::Run { run, after: 0, by: None });
            Asked { question: question("B", what), is_foreground, ..asked() }
        };
        for it in [
            asked(),
            Asked { instance: String::new(), until_ms: 7, ..asked() },
            Asked { question: question("B", mail("", "")), ..asked() },
            run(false),
            run(true),
            Asked { question: question("B", mail("", "A")), ..asked() },
            Asked { question: question("B", mail("BR", "")), ..asked() },
            Asked {
                question: question(&longest, What::Turn(longest.parse().unwrap())),
                instance: longest.clone(),
                created_ms: u64::MAX - TTL_MS,
                until_ms: u64::MAX,
                is_foreground: false,
            },
            Asked {
                question: question(&longest, mail("URGENT", &longest)),
                instance: longest.clone(),
                ..asked()
            },
        ] {
            let id = it.seal(&key, [7; 8]);
            assert!(id.len() <= TASK_ID_CHARS_MAX, "{id}");
            let first = id.chars().next().unwrap();
            assert!(first.is_ascii_alphabetic(), "never to be taken for a flag: {id}");
            assert!(id.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it)), "{id}");
            assert_ne!(id, it.seal(&key, [8; 8]), "no two are alike");
            for (now, opens) in [
                (0, true),
                (it.created_ms, true),
                (it.created_ms + TTL_MS - 1, true),
                (it.created_ms + TTL_MS, false),
                (u64::MAX, false),
            ] {
                assert_eq!(Asked::open(&key, &id, now).as_ref(), opens.then_some(&it), "{now}");
            }
        }
    }

    #[test]
    fn an_id_that_was_changed_anywhere_or_cut_does_not_open() {
        let key = TaskKey::of_process();
        let id = asked().seal(&key, [7; 8]);
        assert!(Asked::open(&key, &id, 1_000).is_some());
        let bytes = URL_SAFE_NO_PAD.decode(&id).unwrap();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let changed = URL_SAFE_NO_PAD.encode(changed);
                assert_eq!(Asked::open(&key, &changed, 1_000), None, "bit {bit} of byte {at}");
            }
        }
        for length in 0..id.len() {
            assert_eq!(Asked::open(&key, &id[..length], 1_000), None, "{length} characters");
        }
        for at in 0..id.len() {
            for other in ["A", "z", "_", "=", " ", "+", "é"] {
                let changed = format!("{}{other}{}", &id[..at], &id[at + 1..]);
                let opens = Asked::open(&key, &changed, 1_000).is_some();
                assert_eq!(opens, changed == id, "{changed}");
            }
        }
        for more in ["A", "AAAA", "=", "\n"] {
            assert_eq!(Asked::open(&key, &format!("{id}{more}"), 1_000), None);
        }
        assert_eq!(Asked::open(&key, &"A".repeat(1 << 20), 1_000), None);
        assert_eq!(Asked::open(&TaskKey::of_process(), &id, 1_000), None, "another node's");
        let (one, other) = ("1".parse().unwrap(), "2".parse().unwrap());
        let id = asked().seal(&key.of(Some(&one)), [7; 8]);
        assert!(Asked::open(&key.of(Some(&one)), &id, 1_000).is_some());
        for token in [None, Some(&other)] {
            assert_eq!(Asked::open(&key.of(token), &id, 1_000), None, "another token's");
        }
    }

    /// What a newer node sealed under this key is not half understood.
    #[test]
    fn another_version_does_not_open() {
        let key = TaskKey::of_process();
        let id = asked().seal(&key, [7; 8]);
        let mut bytes = URL_SAFE_NO_PAD.decode(&id).unwrap();
        bytes.truncate(bytes.len() - SEAL_BYTES);
        bytes[0] = OF_MAIL + 1;
        let seal = blake3::keyed_hash(&key.0, &bytes);
        bytes.extend(seal.as_bytes());
        assert_eq!(Asked::open(&key, &URL_SAFE_NO_PAD.encode(bytes), 1_000), None);
    }

    /// What an older node sealed opens after it was replaced.
    #[test]
    fn an_id_of_a_turn_has_the_same_bytes_as_ever() {
        let id = asked().seal(&TaskKey([7; blake3::KEY_LEN]), [7; 8]);
        let bytes = URL_SAFE_NO_PAD.decode(id).unwrap();
        let said = &bytes[..bytes.len() - SEAL_BYTES];
        let times = [&[1, 0xe8, 3, 0, 0, 0, 0, 0, 0][..], &[0; 8], &[7; 8]].concat();
        assert_eq!(said, [&times[..], b"\x01B\x08claude-1\x04main"].concat());
    }

    #[test]
    fn the_key_stays_for_its_owner_and_is_another_in_each_workspace() {
        let data = tempfile::tempdir().unwrap();
        let (here, there) = ("here".parse().unwrap(), "there".parse().unwrap());
        let key = TaskKey::open(data.path(), &here).unwrap();
        let id = asked().seal(&key, [7; 8]);
        let again = TaskKey::open(data.path(), &here).unwrap();
        assert_eq!(Asked::open(&again, &id, 1_000), Some(asked()));
        let other = TaskKey::open(data.path(), &there).unwrap();
        assert_eq!(Asked::open(&other, &id, 1_000), None);
        let path = data.path().join(FILE);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1, "no draft is left");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            let error = TaskKey::open(data.path(), &here).unwrap_err();
            assert!(error.to_string().contains("chmod 600"), "{error}");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::write(&path, "short").unwrap();
        let error = TaskKey::open(data.path(), &here).unwrap_err();
        assert!(error.to_string().contains("remove it"), "{error}");
    }

    #[test]
    fn a_flipped_bit_of_the_key_is_named_and_a_key_of_an_earlier_release_opens() {
        let data = tempfile::tempdir().unwrap();
        let here = "here".parse().unwrap();
        let id = asked().seal(&TaskKey::open(data.path(), &here).unwrap(), [7; 8]);
        let path = data.path().join(FILE);
        crate::flips::each(&path, |what| {
            let error = TaskKey::open(data.path(), &here).unwrap_err();
            assert!(error.to_string().contains(FILE), "{what}: {error}");
        });
        fs::write(&path, &fs::read(&path).unwrap()[..blake3::KEY_LEN]).unwrap();
        let old = TaskKey::open(data.path(), &here).unwrap();
        assert_eq!(Asked::open(&old, &id, 1_000), Some(asked()));
    }
}
