//! What an operator wants done, and when. Pure.
//!
//! Values are made by `config`, which names every problem with its line.

use std::{collections::BTreeSet, fmt, path::PathBuf, time::Duration};

use http::Uri;
use tasuki_proto::{
    id::{HookName, RoleId},
    mail::MessageType,
};

/// Hooks of one node. Each has a task, a folder, and a share of what the feed says.
pub const HOOKS_MAX: usize = 32;

/// The words of one command.
pub const WORDS_MAX: usize = 64;

/// The time limit of one call unless configured, and the longest.
pub const LIMIT: Duration = Duration::from_secs(10);
pub const LIMIT_MAX: Duration = Duration::from_secs(300);

/// How often a webhook is tried again unless configured: with pauses that double from a second to
/// five minutes, somewhat more than ten minutes.
pub const POST_RETRIES: u32 = 10;

/// How often anything is tried again at most: some hours.
pub const RETRIES_MAX: u32 = 100;

/// What can happen to a thread at a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An entry came for the role.
    Received,
    /// The role sent an entry.
    Sent,
    /// The role put the thread into `done`.
    Resolved,
    /// The role put the thread into `cancel`.
    Rejected,
    /// The role named the thread after it was handed.
    Seen,
    /// An entry for the role, or of it, was not seen in time.
    Lapsed,
    /// The thread was handed too often and never seen by the role, or by one it wrote to.
    Dead,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Received,
        Self::Sent,
        Self::Resolved,
        Self::Rejected,
        Self::Seen,
        Self::Lapsed,
        Self::Dead,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Sent => "sent",
            Self::Resolved => "resolved",
            Self::Rejected => "rejected",
            Self::Seen => "seen",
            Self::Lapsed => "lapsed",
            Self::Dead => "dead",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One hook. An empty filter lets everything through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub name: HookName,
    pub on: BTreeSet<Kind>,
    /// At which roles of this node.
    pub roles: BTreeSet<RoleId>,
    pub types: BTreeSet<MessageType>,
    pub senders: BTreeSet<RoleId>,
    /// One of them is enough.
    pub receivers: BTreeSet<RoleId>,
    pub action: Action,
    /// Of one attempt.
    pub limit: Duration,
    /// After the first attempt.
    pub retries: u32,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Command(Command),
    Webhook(Webhook),
}

/// A program to run, without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// An absolute path, or a name to be found in `PATH`.
    pub program: String,
    pub arguments: Vec<String>,
    /// Where it runs: beside the file that names it.
    pub directory: PathBuf,
}

/// An address to post to. Its path may be a secret: `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    pub url: Uri,
    /// What signs; `None`: nothing is signed.
    pub secret_file: Option<PathBuf>,
    /// The authorities that vouch for the address; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
}

impl Webhook {
    /// Scheme, host and port, fit for logs.
    pub fn origin(&self) -> String {
        let scheme = self.url.scheme_str().unwrap_or_default();
        let authority = self.url.authority().map(http::uri::Authority::as_str);
        format!("{scheme}://{}", authority.unwrap_or_default())
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("url", &self.origin()).finish_non_exhaustive()
    }
}
