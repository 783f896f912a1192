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

/// Of each text about a turn, an issue, a task, a delivery or a run that a hook is told, in bytes:
/// what a person reads of it in one sitting. The rest is there to be asked for.
pub const HOOK_TEXT_BYTES_MAX: usize = 16 * 1024;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Noun {
    Mail,
    Turn,
    Issue,
    Task,
    Delivery,
    Run,
}

/// Who is concerned by an event that is not mail's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// Whose turn ended.
    From,
    /// Whose turn began.
    To,
    /// Everybody who takes part in the loop.
    Participants,
    /// Who leads the issue.
    Lead,
    /// Who has the task's claim, or had it until then.
    Worker,
    /// Roles of this node that have the worker's tools.
    Workers,
    /// Who delivered.
    Deliverer,
    /// Who had the delivery's claim.
    Acceptor,
    /// Roles of this node that have the acceptor's tools.
    Acceptors,
    /// Who started the run; without a role, the node where it was started.
    Starter,
}

/// Every event: its name, what the feed says that makes it one, and at whom. Of mail, `event` knows
/// at whom; a handover that completes the loop is `completed`, and a sub-agent's question
/// `parent_asked`.
macro_rules! events {
    ($($noun:ident {
        $($(#[$doc:meta])* $kind:ident $name:literal $feed:tt $parties:tt)*
    })*) => {
        /// What can happen that a hook is called for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($($(#[$doc])* $kind,)*)*
        }

        impl Kind {
            pub const ALL: &[Self] = &[$($(Self::$kind,)*)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(Self::$kind => $name,)*)*
                }
            }

            pub const fn noun(self) -> Noun {
                match self {
                    $($(Self::$kind)|* => Noun::$noun,)*
                }
            }

            /// What the feed says, any of it.
            pub const fn feed(self) -> &'static [&'static str] {
                match self {
                    $($(Self::$kind => &$feed,)*)*
                }
            }

            pub(super) const fn parties(self) -> &'static [Party] {
                use Party::*;
                match self {
                    $($(Self::$kind => &$parties,)*)*
                }
            }
        }
    };
}

events! {
    Mail {
        /// An entry came for the role.
        Received "received" ["mail_sent"] []
        /// The role sent an entry.
        Sent "sent" ["mail_sent"] []
        /// The role put the thread into `done`.
        Resolved "resolved" ["mail_moved"] []
        /// The role put the thread into `cancel`.
        Rejected "rejected" ["mail_moved"] []
        /// The role named the thread after it was handed.
        Seen "seen" ["mail_marked"] []
        /// An entry for the role, or of it, was not seen in time.
        Lapsed "lapsed" ["mail_lapsed"] []
        /// The thread was handed too often and never seen by the role, or by one it wrote to.
        Dead "dead" ["mail_died"] []
    }
    Turn {
        LoopStarted "loop_started" ["loop_opened", "round_started"] [Participants]
        LoopCompleted "loop_completed" ["completed"] [Participants]
        TurnHandedOver "turn_handed_over" ["handed_over"] [From]
        TurnReclaimed "turn_reclaimed" ["turn_reclaimed"] [From]
        TurnReceived "turn_received"
            ["loop_opened", "round_started", "handed_over", "turn_reclaimed"] [To]
        /// Its lease lapsed.
        TurnLapsed "turn_lapsed" ["turn_lapsed"] [Participants]
        /// Nobody can start in it until a person resumes it.
        LoopPaused "loop_paused" ["loop_paused"] [Participants]
        LoopResumed "loop_resumed" ["loop_resumed"] [Participants]
    }
    Issue {
        IssueCreated "issue_created" ["issue_created"] [Lead]
        IssueClosed "issue_closed" ["issue_closed"] [Lead]
        IssueReopened "issue_reopened" ["issue_reopened"] [Lead]
        IssueLapsed "issue_lapsed" ["issue_expired"] [Lead]
    }
    Task {
        TaskCreated "task_created" ["issue_task_created"] [Workers]
        TaskClaimed "task_claimed" ["issue_task_claimed"] [Lead]
        TaskSubmitted "task_submitted" ["submission_created"] [Lead]
        TaskApproved "task_approved" ["issue_task_resolved"] [Worker]
        TaskRejected "task_rejected" ["issue_task_reviewed"] [Worker]
        /// A question or a blocker, no note.
        TaskAsked "task_asked" ["issue_task_message"] [Lead]
        TaskAnswered "task_answered" ["issue_task_replied"] [Worker]
        /// The claim lapsed.
        TaskLapsed "task_lapsed" ["issue_task_expired"] [Lead, Worker]
        TaskReset "task_reset" ["issue_task_reset"] [Worker]
        TaskCanceled "task_canceled" ["issue_task_canceled"] [Worker]
    }
    Delivery {
        DeliverySubmitted "delivery_submitted" ["delivery_created"] [Acceptors]
        DeliveryClaimed "delivery_claimed" ["delivery_claimed"] [Deliverer]
        DeliveryAccepted "delivery_accepted" ["delivery_reviewed"] [Deliverer]
        DeliveryRejected "delivery_rejected" ["delivery_reviewed"] [Deliverer]
        /// The acceptor's claim lapsed.
        DeliveryLapsed "delivery_lapsed" ["delivery_expired"] [Deliverer, Acceptor]
    }
    Run {
        RunStarted "run_started" ["run_started"] [Starter]
        RunQuestion "run_question" ["parent_asked"] [Starter]
        RunEnded "run_ended" ["run_ended"] [Starter]
    }
}

impl Kind {
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
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
    /// Of mail alone, as are the two below.
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
