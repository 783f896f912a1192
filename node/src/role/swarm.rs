//! What an agent can do with issues, tasks, deliveries and locks: the seam between the MCP side
//! and the broker side.
//!
//! Requests are the broker's own; `caller`, `key` and `role` of them are filled in by whoever
//! carries them out. There are many, so they pass [`Swarm::swarm`] as one type; [`call`] sends one
//! of them and returns the response of its type.

use std::time::Duration;

use async_trait::async_trait;
use tasuki_proto::{
    id::IdempotencyKey,
    reason::Reason,
    rpc::Rpc,
    swarm::{DeliveryId, IssueId, SubmissionId, TaskMessageId},
    wire::{self, swarm_question::Ask},
};

use super::Refusal;
use crate::link::{AnyRequest, AnyResponse};

/// What a role can wait for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// Issues in this state, so many at most.
    Issues { state: IssuesIn, limit: u32 },
    /// A task of this issue that the role may claim.
    Tasks(IssueId),
    /// Something that the lead of this issue is to know of.
    Items(IssueId),
    /// The verdict on this submission.
    Review(SubmissionId),
    /// The reply to this message.
    Reply(TaskMessageId),
    /// Deliveries to be claimed, or that the role has claimed; so many at most, 0: all.
    Deliveries { limit: u32 },
    /// The verdict on this delivery.
    Verdict(DeliveryId),
    /// That these files are free.
    Files { repository: String, patterns: Vec<String>, is_case_folded: bool },
}

/// States of issues that can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IssuesIn {
    Open,
    Done,
    Canceled,
}

impl Awaited {
    pub(crate) fn to_wire(&self) -> Ask {
        match self {
            Self::Issues { state, limit: _ } => {
                let status = match state {
                    IssuesIn::Open => wire::IssueStatus::Open,
                    IssuesIn::Done => wire::IssueStatus::Done,
                    IssuesIn::Canceled => wire::IssueStatus::Canceled,
                };
                Ask::Issues(status.into())
            }
            Self::Tasks(issue) => Ask::TasksOf(issue.to_string()),
            Self::Items(issue) => Ask::ItemsOf(issue.to_string()),
            Self::Review(submission) => Ask::Submission(submission.to_string()),
            Self::Reply(message) => Ask::Message(message.to_string()),
            Self::Deliveries { limit: _ } => Ask::Deliveries(true),
            Self::Verdict(delivery) => Ask::Delivery(delivery.to_string()),
            Self::Files { repository, patterns, is_case_folded } => Ask::Files(wire::FileSet {
                repository: repository.clone(),
                patterns: patterns.clone(),
                is_case_folded: *is_case_folded,
            }),
        }
    }
}

/// What a role can ask and do. Nothing of it is kept for a broker that is out of reach.
#[async_trait]
pub trait Swarm: std::fmt::Debug + Send + Sync + 'static {
    /// A command that was begun is carried through even when the future is dropped. `key` names
    /// its intent each time its sender says it; `None`: it is said once.
    async fn swarm(
        &self,
        request: AnyRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<AnyResponse, Refusal>;

    /// Waits for what `awaited` says until `hold` is over. Dropping the future removes the wait;
    /// nothing is lost. A newer call for the same supersedes an older one; one with a `hold` of
    /// zero only looks, and supersedes nothing.
    async fn await_swarm(
        &self,
        awaited: &Awaited,
        hold: Duration,
    ) -> Result<wire::SwarmAnswer, Refusal>;

    /// The role's agent left: a task that it was offered goes to the next at once.
    fn decline(&self);

    /// The lead's agent was told of this item of an issue. Reported in the background; `until` is
    /// dropped once the broker knows, or will not.
    fn mark_item(&self, issue: IssueId, number: u64, until: Box<dyn Send + Sync>);
}

/// Asks one call.
pub async fn call<R: Rpc>(
    swarm: &dyn Swarm,
    request: R,
    key: Option<IdempotencyKey>,
) -> Result<R::Response, Refusal> {
    let response = swarm.swarm(AnyRequest::new(request), key).await?;
    response.downcast().map(|response| *response).map_err(|_| Refusal {
        reason: Reason::OutcomeUnknown,
        message: "The answer belongs to another call. Look how it stands before you go on."
            .to_owned(),
    })
}
