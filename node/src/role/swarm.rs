//! What an agent can do with issues, tasks, deliveries and locks: the seam between the MCP side
//! and the broker side.
//!
//! Requests are the broker's own; `caller`, `key` and `role` of them are filled in by whoever
//! carries them out. There are many, so they go through one door, [`Swarm::swarm`], as one type;
//! [`call`] is how one of them is asked, and answered as what it is.

use std::time::Duration;

use async_trait::async_trait;
use tasuki_proto::{
    id::IdempotencyKey,
    reason::Reason,
    swarm::{DeliveryId, IssueId, SubmissionId, TaskMessageId},
    wire::{self, swarm_question::Ask},
};

use super::Refusal;

/// One call of the broker's service, as it is asked and as it is answered.
pub trait Call: Send {
    type Answer: Send;

    fn into_request(self) -> Request;

    /// `None`: it is the answer to another call.
    fn answer(response: Response) -> Option<Self::Answer>;
}

macro_rules! calls {
    ($($name:ident $request:ident $answer:ident;)*) => {
        /// Something to ask or to do.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Request { $($name(Box<wire::$request>),)* }

        /// What was answered to the [`Request`] of the same name.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Response { $($name(Box<wire::$answer>),)* }

        $(impl Call for wire::$request {
            type Answer = wire::$answer;

            fn into_request(self) -> Request {
                Request::$name(Box::new(self))
            }

            fn answer(response: Response) -> Option<Self::Answer> {
                if let Response::$name(it) = response { Some(*it) } else { None }
            }
        })*
    };
}

calls! {
    CreateIssue CreateIssueRequest IssueResponse;
    UpdateIssueDocPaths UpdateIssueDocPathsRequest IssueResponse;
    CloseIssue CloseIssueRequest IssueResponse;
    ReopenIssue ReopenIssueRequest IssueResponse;
    ExtendIssue ExtendIssueRequest IssueResponse;
    GetIssue GetIssueRequest IssueResponse;
    ListIssues ListIssuesRequest ListIssuesResponse;
    CreateTasks CreateTasksRequest CreateTasksResponse;
    ClaimTask ClaimTaskRequest TaskResponse;
    RenewClaim RenewClaimRequest TaskResponse;
    SubmitTask SubmitTaskRequest SubmitTaskResponse;
    MintNextStep MintNextStepRequest MintNextStepResponse;
    ReviewTask ReviewTaskRequest TaskResponse;
    ResetTask ResetTaskRequest TaskResponse;
    GetTask GetTaskRequest TaskResponse;
    ListTasks ListTasksRequest ListTasksResponse;
    PostMessage PostMessageRequest MessageResponse;
    ReplyMessage ReplyMessageRequest MessageResponse;
    MarkItems MarkItemsRequest MarkItemsResponse;
    SubmitDelivery SubmitDeliveryRequest DeliveryResponse;
    ClaimDelivery ClaimDeliveryRequest DeliveryResponse;
    RenewDelivery RenewDeliveryRequest DeliveryResponse;
    ReviewDelivery ReviewDeliveryRequest DeliveryResponse;
    GetDelivery GetDeliveryRequest DeliveryResponse;
    ListDeliveries ListDeliveriesRequest ListDeliveriesResponse;
    RegisterWorker RegisterWorkerRequest Worker;
    ListWorkers ListWorkersRequest ListWorkersResponse;
    WriteDoc WriteDocRequest Doc;
    ReadDoc ReadDocRequest Doc;
    ListDocs ListDocsRequest ListDocsResponse;
    LockFiles LockFilesRequest LockResponse;
    RenewLock RenewLockRequest LockResponse;
    Unlock UnlockRequest UnlockResponse;
    ForceUnlock ForceUnlockRequest UnlockResponse;
    ListLocks ListLocksRequest ListLocksResponse;
    GetSettings GetSettingsRequest SwarmSettings;
    GetHistory GetHistoryRequest GetHistoryResponse;
}

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
        request: Request,
        key: Option<IdempotencyKey>,
    ) -> Result<Response, Refusal>;

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
pub async fn call<C: Call>(
    swarm: &dyn Swarm,
    request: C,
    key: Option<IdempotencyKey>,
) -> Result<C::Answer, Refusal> {
    let response = swarm.swarm(request.into_request(), key).await?;
    C::answer(response).ok_or_else(|| Refusal {
        reason: Reason::OutcomeUnknown,
        message: "The answer belongs to another call. Look how it stands before you go on."
            .to_owned(),
    })
}
