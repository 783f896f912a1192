//! What a role asks and does about issues, tasks, deliveries and locks.
//!
//! Every call an agent may make is in one table (`calls`); what it says of the caller is filled
//! in here: who calls, under which key, as which role. A command is tried until it is
//! answered, under one key; it is not kept for a broker that is away, since a claim or a lock that
//! is granted an hour later is none.

use std::time::Duration;

use tasuki_proto::{
    id::{IdempotencyKey, RoleId},
    wire,
};
use tonic::{Response as Answered, Status};

use super::{
    Link,
    channel::{self, Channel},
    keys,
    retry::Attempts,
};
use crate::role::{
    Refusal,
    swarm::{Awaited, Request, Response},
};

/// Who calls, as messages say it.
struct Who {
    caller: wire::Caller,
    key: Option<wire::IdempotencyKey>,
    role: String,
}

macro_rules! field {
    (caller $who:ident) => {
        Some($who.caller.clone())
    };
    (key $who:ident) => {
        $who.key.clone()
    };
    (role $who:ident) => {
        $who.role.clone()
    };
}

macro_rules! calls {
    ($($what:ident $name:ident $method:ident $request:ident { $($field:ident)* };)*) => {
        async fn send(request: Request, channel: Channel, who: Who) -> Result<Response, Status> {
            let mut client = channel::swarm(channel);
            match request {
                $(Request::$name(it) => {
                    let mut it: wire::$request = *it;
                    $(it.$field = field!($field who);)*
                    let answer = client.$method(it).await.map(Answered::into_inner)?;
                    Ok(Response::$name(Box::new(answer)))
                })*
            }
        }

        /// Whether it changes something, and so is carried through once it was begun.
        pub(crate) fn is_command(request: &Request) -> bool {
            match request {
                $(Request::$name(_) => matches!(stringify!($what), "tell"),)*
            }
        }
    };
}

calls! {
    tell CreateIssue create_issue CreateIssueRequest { caller key role };
    tell UpdateIssueDocPaths update_issue_doc_paths UpdateIssueDocPathsRequest { caller key role };
    tell CloseIssue close_issue CloseIssueRequest { caller key role };
    tell ReopenIssue reopen_issue ReopenIssueRequest { caller key role };
    tell ExtendIssue extend_issue ExtendIssueRequest { caller key role };
    ask GetIssue get_issue GetIssueRequest { caller };
    ask ListIssues list_issues ListIssuesRequest { caller };
    tell CreateTasks create_tasks CreateTasksRequest { caller key role };
    tell ClaimTask claim_task ClaimTaskRequest { caller key role };
    tell RenewClaim renew_claim RenewClaimRequest { caller key role };
    tell SubmitTask submit_task SubmitTaskRequest { caller key role };
    tell MintNextStep mint_next_step MintNextStepRequest { caller key role };
    tell ReviewTask review_task ReviewTaskRequest { caller key role };
    tell ResetTask reset_task ResetTaskRequest { caller key role };
    ask GetTask get_task GetTaskRequest { caller role };
    ask ListTasks list_tasks ListTasksRequest { caller role };
    tell PostMessage post_message PostMessageRequest { caller key role };
    tell ReplyMessage reply_message ReplyMessageRequest { caller key role };
    ask MarkItems mark_items MarkItemsRequest { caller role };
    tell SubmitDelivery submit_delivery SubmitDeliveryRequest { caller key role };
    tell ClaimDelivery claim_delivery ClaimDeliveryRequest { caller key role };
    tell RenewDelivery renew_delivery RenewDeliveryRequest { caller key role };
    tell ReviewDelivery review_delivery ReviewDeliveryRequest { caller key role };
    ask GetDelivery get_delivery GetDeliveryRequest { caller role };
    ask ListDeliveries list_deliveries ListDeliveriesRequest { caller role };
    tell RegisterWorker register_worker RegisterWorkerRequest { caller key role };
    ask ListWorkers list_workers ListWorkersRequest { caller role };
    tell WriteDoc write_doc WriteDocRequest { caller key role };
    ask ReadDoc read_doc ReadDocRequest { caller };
    ask ListDocs list_docs ListDocsRequest { caller };
    tell LockFiles lock_files LockFilesRequest { caller key role };
    tell RenewLock renew_lock RenewLockRequest { caller key role };
    tell Unlock unlock UnlockRequest { caller key role };
    tell ForceUnlock force_unlock ForceUnlockRequest { caller key role };
    ask ListLocks list_locks ListLocksRequest { caller role };
    ask GetSettings get_settings GetSettingsRequest { caller };
    ask GetHistory get_history GetHistoryRequest { caller };
}

/// How long something lasts that an answer grants to whoever is there.
fn lease(answer: &Response) -> Option<Duration> {
    let (lapses_ms, now_ms) = if let Response::LockFiles(it) = answer {
        (it.lock.as_ref()?.expires_ms, it.now_ms)
    } else if let Response::ClaimTask(it) = answer {
        (it.task.as_ref()?.lease_expires_ms, it.now_ms)
    } else if let Response::ClaimDelivery(it) = answer {
        (it.delivery.as_ref()?.lease_expires_ms, it.now_ms)
    } else {
        return None;
    };
    Some(Duration::from_millis(lapses_ms.saturating_sub(now_ms)))
}

impl Link {
    /// One call of `role`. The future of a command may be dropped, but then nobody tries again:
    /// whoever needs it carried through spawns it. `key` names the intent each time its sender
    /// says it; `None`: it is said once.
    pub async fn swarm(
        &self,
        role: &RoleId,
        request: Request,
        key: Option<IdempotencyKey>,
    ) -> Result<Response, Refusal> {
        let role = role.to_string();
        if !is_command(&request) {
            let call = |channel, caller| {
                let who = Who { caller, key: None, role: role.clone() };
                let asked = send(request.clone(), channel, who);
                async move { asked.await.map(Answered::new) }
            };
            return self.ask(call).await;
        }
        let _room = self.room().await?;
        self.shared.ready().await?;
        // In use until the answer is there.
        let ours;
        let key = match &key {
            Some(key) => keys::wire(key),
            None => {
                ours = self.shared.keys.next().await?;
                ours.wire()
            }
        };
        let call = |channel, caller| {
            let who = Who { caller, key: Some(key.clone()), role: role.clone() };
            let sent = send(request.clone(), channel, who);
            async move { sent.await.map(Answered::new) }
        };
        let answer = self.send(Attempts::default(), call).await?;
        if let Some(lease) = lease(&answer) {
            self.shared.is_granted(lease);
        }
        Ok(answer)
    }

    /// Nobody acts on what the role was offered: it goes to the next at once.
    pub fn decline(&self, role: &RoleId) {
        self.waits.decline(role.clone());
    }

    /// Waits for what `awaited` says, over reconnects, until `hold` is over.
    pub async fn await_swarm(
        &self,
        role: &RoleId,
        awaited: &Awaited,
        hold: Duration,
    ) -> Result<wire::SwarmAnswer, Refusal> {
        self.waits.ask_swarm(role.clone(), awaited.clone(), hold).await
    }
}
