//! Types of these tools' arguments.

use serde::{Deserialize, Deserializer};
use tasuki_proto::{
    limits::SWARM_LEASE_MS_MAX,
    reason::Reason,
    swarm::{CommitHash, DeliveryId, IssueId},
    wire,
};

use super::super::{
    arguments::refuse,
    field_types::{Id, ParseName, Seconds, Word, Words, schema},
    tool::{Listed, RoleArgument},
};
use crate::wait::IssuesIn;

/// The argument that says which worker calls, and its alias.
const WORKER_ID_LISTED: RoleArgument =
    RoleArgument { name: "worker_id", listed: Listed::Required, description: "" };
const OWNER_LISTED: RoleArgument =
    RoleArgument { name: "owner", listed: Listed::Optional, description: "Alias of worker_id." };
const WORKER_ID_UNLISTED: RoleArgument = RoleArgument { listed: Listed::Never, ..WORKER_ID_LISTED };
const OWNER_UNLISTED: RoleArgument = RoleArgument { listed: Listed::Never, ..OWNER_LISTED };

pub(super) const UNLISTED: &[RoleArgument] = &[WORKER_ID_UNLISTED, OWNER_UNLISTED];
pub(super) const WORKER_ID: &[RoleArgument] = &[WORKER_ID_LISTED, OWNER_UNLISTED];
pub(super) const WORKER_ID_OR_OWNER: &[RoleArgument] = &[WORKER_ID_LISTED, OWNER_LISTED];
pub(super) const WORKER_ID_OPTIONAL: &[RoleArgument] =
    &[RoleArgument { listed: Listed::Optional, ..WORKER_ID_LISTED }, OWNER_UNLISTED];
/// In these tools the same arguments say whom a question is about.
pub(super) const NONE: &[RoleArgument] = &[];

impl ParseName for IssueId {
    /// What is no id is an issue that nobody has.
    fn parse_name(name: &str) -> Result<Self, (Reason, String)> {
        name.parse().map_err(|why| (Reason::UnknownIssue, format!("{why}")))
    }
}

impl ParseName for DeliveryId {
    fn parse_name(name: &str) -> Result<Self, (Reason, String)> {
        name.parse().map_err(|why| (Reason::UnknownDelivery, format!("{why}")))
    }
}

impl ParseName for CommitHash {
    /// A commit's name in full: a short one, or a branch, may mean another commit elsewhere or
    /// later.
    fn parse_name(name: &str) -> Result<Self, (Reason, String)> {
        let hash = name.to_ascii_lowercase().parse();
        hash.map_err(|why| (Reason::InvalidArgument, format!("{why}")))
    }
}

/// How long a call waits at most.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Timeout(pub Seconds);

schema!(Timeout => {
    "type": "integer",
    "description": "Seconds. Default: as long as your client allows."
});

/// How long a lease is asked for, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease(u64);

schema!(Lease => {
    "type": "integer",
    "description": "New lease length in seconds, counted from now. Up to 86400."
});

impl<'de> Deserialize<'de> for Lease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Seconds(asked) = Seconds::deserialize(deserializer)?;
        match u64::try_from(asked.as_millis()) {
            Ok(ms @ ..=SWARM_LEASE_MS_MAX) => Ok(Self(ms)),
            Ok(_) | Err(_) => Err(refuse(Reason::InvalidArgument, "must be at most 86400 (24 h)")),
        }
    }
}

impl Lease {
    /// 0: as the settings say.
    pub(super) fn ms(asked: Option<Self>) -> u64 {
        asked.map_or(0, |it| it.0)
    }
}

/// How well a task was done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Score(pub u32);

schema!(Score => {
    "type": "integer",
    "enum": [1, 2, 5],
    "description": "1 poor, 2 fair, 5 good."
});

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            score @ (1 | 2 | 5) => Ok(Self(score)),
            score => {
                let why = format!("is {score}; it must be 1 (poor), 2 (fair) or 5 (good)");
                Err(refuse(Reason::InvalidArgument, why))
            }
        }
    }
}

/// What can be run again to see for oneself.
pub(super) fn rerun(
    commit: Option<Id<CommitHash>>,
    commands: Option<Vec<String>>,
) -> Option<wire::Rerun> {
    let commit = commit.map(|it| it.0.to_string()).unwrap_or_default();
    let commands = commands.unwrap_or_default();
    let is_there = !commit.is_empty() || !commands.is_empty();
    is_there.then_some(wire::Rerun { commit, commands })
}

/// A verdict: whether it approves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Approves(pub bool);

impl Words for Approves {
    const WORDS: &'static [(&'static str, Self)] =
        &[("approved", Self(true)), ("rejected", Self(false))];
    const ARE_LISTED: bool = false;
}

/// The result of tests: whether they passed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed(pub bool);

impl Words for Passed {
    const WORDS: &'static [(&'static str, Self)] =
        &[("passed", Self(true)), ("failed", Self(false))];
}

impl Words for wire::Difficulty {
    const WORDS: &'static [(&'static str, Self)] =
        &[("easy", Self::Easy), ("medium", Self::Medium), ("focus", Self::Focus)];
}

impl Words for IssuesIn {
    const WORDS: &'static [(&'static str, Self)] =
        &[("open", Self::Open), ("done", Self::Done), ("canceled", Self::Canceled)];
    const ARE_LISTED: bool = false;
}

impl Words for wire::IssueStatus {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("open", Self::Open),
        ("in_progress", Self::InProgress),
        ("done", Self::Done),
        ("canceled", Self::Canceled),
    ];
    const ARE_LISTED: bool = false;
}

impl Words for wire::DeliveryStatus {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("open", Self::Open),
        ("in_review", Self::InReview),
        ("approved", Self::Approved),
        ("rejected", Self::Rejected),
    ];
    const ARE_LISTED: bool = false;
}

/// Which tasks are meant: by their status or their stage.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TasksIn {
    pub status: wire::TaskStatus,
    pub stage: wire::TaskStage,
}

impl TasksIn {
    const fn status(status: wire::TaskStatus) -> Self {
        Self { status, stage: wire::TaskStage::Unspecified }
    }

    const fn stage(stage: wire::TaskStage) -> Self {
        Self { status: wire::TaskStatus::Unspecified, stage }
    }
}

impl Words for TasksIn {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("open", Self::status(wire::TaskStatus::Open)),
        ("in_progress", Self::status(wire::TaskStatus::InProgress)),
        ("waiting_for_answer", Self::status(wire::TaskStatus::WaitingForAnswer)),
        ("done", Self::status(wire::TaskStatus::Done)),
        ("canceled", Self::status(wire::TaskStatus::Canceled)),
        ("ready", Self::stage(wire::TaskStage::Ready)),
        ("blocked", Self::stage(wire::TaskStage::Blocked)),
        ("reserved", Self::stage(wire::TaskStage::Reserved)),
        ("working", Self::stage(wire::TaskStage::Working)),
        ("submitted", Self::stage(wire::TaskStage::Submitted)),
        ("in_review", Self::stage(wire::TaskStage::InReview)),
    ];
    const ARE_LISTED: bool = false;
}

/// What issues are sorted by.
#[derive(Debug, Clone, Copy)]
pub(super) struct IssueOrder(pub wire::SortBy);

impl Words for IssueOrder {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("created_at", Self(wire::SortBy::Created)),
        ("updated_at", Self(wire::SortBy::Updated)),
        ("subject", Self(wire::SortBy::Subject)),
    ];
    const ARE_LISTED: bool = false;
}

/// What tasks are sorted by.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskOrder(pub wire::SortBy);

impl Words for TaskOrder {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("created_at", Self(wire::SortBy::Created)),
        ("updated_at", Self(wire::SortBy::Updated)),
        ("subject", Self(wire::SortBy::Subject)),
        ("points", Self(wire::SortBy::Points)),
    ];
    const ARE_LISTED: bool = false;
}

/// Whether the smallest comes first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ascending(pub bool);

impl Words for Ascending {
    const WORDS: &'static [(&'static str, Self)] = &[("desc", Self(false)), ("asc", Self(true))];
    const ARE_LISTED: bool = false;
}

impl Ascending {
    pub(super) fn asked(asked: Option<Word<Self>>) -> bool {
        asked.is_some_and(|it| it.0.0)
    }
}
