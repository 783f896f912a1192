//! `Swarm`: issues, tasks, reviews, deliveries, documents, locks.
//!
//! One file per noun. `parse` reads what callers say, `render` says what the state holds, `words`
//! reads from the journal what was said. A command is answered with what holds once it took
//! effect, so the same key may be answered with more than the first time. Fencing tokens and the
//! tokens of next steps are told to their bearers alone.

mod deliveries;
mod docs;
mod import;
mod issues;
mod items;
mod locks;
mod messages;
mod parse;
mod render;
mod reviews;
mod settings;
mod tasks;
mod waits;
mod words;
mod workers;

use tasuki_proto::{
    id::{FencingToken, RoleId, Sequence},
    wire::{self, swarm_server::Swarm},
};
use tonic::{Request, Response, Status};

pub(super) use self::{render::event, waits::question};
use super::{
    Service,
    parse::{hold, id, optional},
    session::{Key, WorkspaceSession},
    status,
};
use crate::{
    rules::{
        Command, Rejection, Reply,
        swarm::{self, CommandKind},
        turn::Actor,
    },
    workspace::{Executed, View},
};

/// One line for each call: what is asked, what is answered, and by whom.
macro_rules! calls {
    ($($call:ident($asked:ident) -> $answered:ident by $answer:path;)*) => {
        #[tonic::async_trait]
        impl Swarm for Service {
            $(async fn $call(
                &self,
                request: Request<wire::$asked>,
            ) -> Result<Response<wire::$answered>, Status> {
                let (session, it) = self.services.enter(request, |it| it.caller.take())?;
                Ok(Response::new($answer(&session, it).await?))
            })*
        }
    };
}

calls! {
    create_issue(CreateIssueRequest) -> IssueResponse by issues::create;
    update_issue_doc_paths(UpdateIssueDocPathsRequest) -> IssueResponse by issues::set_paths;
    close_issue(CloseIssueRequest) -> IssueResponse by issues::close;
    reopen_issue(ReopenIssueRequest) -> IssueResponse by issues::reopen;
    extend_issue(ExtendIssueRequest) -> IssueResponse by issues::extend;
    get_issue(GetIssueRequest) -> IssueResponse by issues::get;
    list_issues(ListIssuesRequest) -> ListIssuesResponse by issues::list;
    create_tasks(CreateTasksRequest) -> CreateTasksResponse by tasks::create;
    claim_task(ClaimTaskRequest) -> TaskResponse by tasks::claim;
    renew_claim(RenewClaimRequest) -> TaskResponse by tasks::renew;
    reset_task(ResetTaskRequest) -> TaskResponse by tasks::reset;
    cancel_task(CancelTaskRequest) -> TaskResponse by tasks::cancel;
    get_task(GetTaskRequest) -> TaskResponse by tasks::get;
    list_tasks(ListTasksRequest) -> ListTasksResponse by tasks::list;
    submit_task(SubmitTaskRequest) -> SubmitTaskResponse by reviews::submit;
    mint_next_step(MintNextStepRequest) -> MintNextStepResponse by reviews::mint;
    review_task(ReviewTaskRequest) -> TaskResponse by reviews::review;
    post_message(PostMessageRequest) -> MessageResponse by messages::post;
    reply_message(ReplyMessageRequest) -> MessageResponse by messages::reply;
    mark_items(MarkItemsRequest) -> MarkItemsResponse by items::mark;
    submit_delivery(SubmitDeliveryRequest) -> DeliveryResponse by deliveries::submit;
    claim_delivery(ClaimDeliveryRequest) -> DeliveryResponse by deliveries::claim;
    renew_delivery(RenewDeliveryRequest) -> DeliveryResponse by deliveries::renew;
    attach_evidence(AttachEvidenceRequest) -> DeliveryResponse by deliveries::attach;
    review_delivery(ReviewDeliveryRequest) -> DeliveryResponse by deliveries::review;
    get_delivery(GetDeliveryRequest) -> DeliveryResponse by deliveries::get;
    list_deliveries(ListDeliveriesRequest) -> ListDeliveriesResponse by deliveries::list;
    register_worker(RegisterWorkerRequest) -> Worker by workers::register;
    list_workers(ListWorkersRequest) -> ListWorkersResponse by workers::list;
    write_doc(WriteDocRequest) -> Doc by docs::write;
    read_doc(ReadDocRequest) -> Doc by docs::read;
    list_docs(ListDocsRequest) -> ListDocsResponse by docs::list;
    lock_files(LockFilesRequest) -> LockResponse by locks::lock;
    renew_lock(RenewLockRequest) -> LockResponse by locks::renew;
    unlock(UnlockRequest) -> UnlockResponse by locks::unlock;
    force_unlock(ForceUnlockRequest) -> UnlockResponse by locks::force;
    list_locks(ListLocksRequest) -> ListLocksResponse by locks::list;
    get_settings(GetSettingsRequest) -> SwarmSettings by settings::get;
    set_settings(SetSettingsRequest) -> SwarmSettings by settings::set;
    import_issue(ImportIssueRequest) -> ImportIssueResponse by import::issue;
    import_shared(ImportSharedRequest) -> ImportSharedResponse by import::shared;
    get_history(GetHistoryRequest) -> GetHistoryResponse by settings::history;
    await_swarm(SwarmQuestion) -> SwarmAnswer by waits::wait;
}

/// The token that a call names, out of its request: it says what the caller holds, not what it
/// means. A caller that was started anew says the same without it.
fn token(named: &mut u64) -> FencingToken {
    FencingToken::from(std::mem::take(named))
}

/// What a command came to.
struct Done {
    /// `None` where there is nothing to say but that it took effect.
    reply: Option<swarm::Reply>,
    is_repeat: bool,
    sequence: Sequence,
}

impl WorkspaceSession {
    /// Carries out what a role asks for.
    async fn ask(&self, role: RoleId, key: Option<Key>, ask: CommandKind) -> Result<Done, Status> {
        self.ask_as(Actor::Role(role), key, ask).await
    }

    async fn ask_as(&self, by: Actor, key: Option<Key>, ask: CommandKind) -> Result<Done, Status> {
        let command = Command::Swarm(swarm::Command { by, ask });
        let Executed { reply, is_repeat, sequence, .. } = self.execute(key, command).await?;
        let reply = match reply {
            Reply::Swarm(reply) => Some(reply),
            Reply::Done => None,
            Reply::Directory(_) | Reply::Turn(_) | Reply::Mail(_) | Reply::Access(_) => {
                unreachable!("a command is answered as what it is")
            }
        };
        Ok(Done { reply, is_repeat, sequence })
    }

    /// Looks at the state as whoever asks, where a role does.
    async fn look_for<T: Send + 'static>(
        &self,
        asker: Option<&RoleId>,
        look: impl FnOnce(&View<'_>) -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, Status> {
        match asker {
            Some(role) => self.look_as(role, look).await,
            None => self.look(look).await?.map_err(|rejection| status::rejected(&rejection)),
        }
    }
}
