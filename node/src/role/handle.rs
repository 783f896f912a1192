//! How the MCP side talks to a role's actor.
//!
//! Waits and receipts of turns are the actor's, which knows what supersedes what; whatever needs
//! nothing of what it keeps goes to the link at once. ractor's mailboxes have no bound, so this door
//! has: each message carries a permit, given back when the call is done and not when its caller
//! tires of waiting.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use ractor::{ActorRef, MessagingErr};
use tasuki_proto::{
    id::{IdempotencyKey, LoopId, RoleId, Turn},
    mail::MessageId,
    reason::Reason,
    swarm::IssueId,
    wire,
};
use tokio::{
    sync::{Semaphore, oneshot, watch},
    time,
};

use super::{Actions, Connected, Refusal, Seen, actor::Msg, player::Instance, state::Receipt};
use crate::{
    link::{AnyRequest, AnyResponse, Link, Moving, Sent, WeakLink},
    outbox::{Summary, Untold},
    presence::Presence,
    wait::{Answer, Question},
};

/// Receipts of one role on their way; more are dropped.
const REPORTS_PER_ROLE_MAX: usize = 64;

/// How long a call waits for an actor that is being started anew, in milliseconds.
const RESTART_MS_MAX: u64 = 1_000;

/// One role, as the MCP side sees it.
#[derive(Debug)]
pub struct Handle {
    role: RoleId,
    presence: Presence,
    /// Whoever holds on to a handle keeps no node that has stopped.
    link: WeakLink,
    /// Another one after the actor started anew; closed when the node has stopped.
    actor: watch::Receiver<ActorRef<Msg>>,
    reports: Arc<Semaphore>,
}

impl Handle {
    pub fn new(
        role: RoleId,
        presence: Presence,
        link: &Link,
        actor: watch::Receiver<ActorRef<Msg>>,
    ) -> Self {
        let reports = Arc::new(Semaphore::new(REPORTS_PER_ROLE_MAX));
        Self { role, presence, link: link.downgrade(), actor, reports }
    }

    fn link(&self) -> Result<Link, Refusal> {
        self.link.upgrade().ok_or_else(gone)
    }

    /// Hands a message over, to the next actor if this one just failed.
    async fn deliver(&self, mut message: Msg) -> Result<(), Refusal> {
        let mut actor = self.actor.clone();
        loop {
            let current = actor.borrow_and_update().clone();
            message = match current.send_message(message) {
                Ok(()) => return Ok(()),
                Err(MessagingErr::SendErr(message)) => message,
                Err(MessagingErr::ChannelClosed | MessagingErr::InvalidActorType) => {
                    return Err(gone());
                }
            };
            let next = time::timeout(Duration::from_millis(RESTART_MS_MAX), actor.changed()).await;
            if !matches!(next, Ok(Ok(()))) {
                return Err(gone());
            }
        }
    }

    /// Reports something in the background.
    fn report_by<F>(&self, report: impl FnOnce(Link, RoleId) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let permit = self.reports.clone().try_acquire_owned();
        if let (Some(link), Ok(permit)) = (self.link.upgrade(), permit) {
            let report = report(link.clone(), self.role.clone());
            link.spawn(async move {
                report.await;
                drop(permit);
            });
        }
    }

    fn report(&self, loop_id: &LoopId, turn: Turn, receipt: Receipt) {
        let Ok(permit) = self.reports.clone().try_acquire_owned() else { return };
        let message = Msg::Report { loop_id: loop_id.clone(), turn, receipt, _permit: permit };
        let actor = self.actor.borrow().clone();
        // A receipt that is lost is one that nobody claims.
        drop(actor.send_message(message));
    }
}

#[async_trait]
impl Actions for Handle {
    fn role(&self) -> &RoleId {
        &self.role
    }

    async fn call(
        &self,
        request: AnyRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Seen<AnyResponse>, Refusal> {
        let (link, role) = (self.link()?, self.role.clone());
        if !request.call().has_key {
            return link.do_while_heard(link.call(&role, request, key)).await;
        }
        link.carry_out(|link| async move { link.call(&role, request, key).await }).await
    }

    async fn wait(&self, question: Question, hold: Duration) -> Result<Answer, Refusal> {
        let link = self.link()?;
        let permit = link.admit_wait(&self.role, hold).await?;
        if hold.is_zero() {
            return link.do_while_heard(link.wait(&self.role, question, hold, permit)).await;
        }
        drop(link);
        let (reply, answer) = oneshot::channel();
        self.deliver(Msg::Wait { question, hold, reply, permit }).await?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    fn open_waits(&self) -> usize {
        self.link().map_or(0, |link| link.open_waits(&self.role))
    }

    async fn send(
        &self,
        request: wire::SendRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Sent, Refusal> {
        let role = self.role.clone();
        let send = |link: Link| async move { link.send_mail(&role, request, key).await };
        self.link()?.carry_out(send).await
    }

    async fn move_mail(
        &self,
        request: wire::MoveRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Moving, Refusal> {
        let role = self.role.clone();
        let moving = |link: Link| async move { link.move_mail(&role, request, key).await };
        self.link()?.carry_out(moving).await
    }

    async fn put_attachment(
        &self,
        attachment: &wire::Attachment,
        content: Bytes,
    ) -> Result<(), Refusal> {
        let link = self.link()?;
        let put = Box::pin(link.put_attachment(&self.role, attachment, content));
        link.do_while_heard(put).await
    }

    async fn get_attachment(
        &self,
        message: &str,
        attachment: &wire::Attachment,
    ) -> Result<Bytes, Refusal> {
        let link = self.link()?;
        let get = Box::pin(link.get_attachment(&self.role, message, attachment));
        link.do_while_heard(get).await
    }

    async fn untold(&self, max: usize) -> Result<Untold, Refusal> {
        Ok(self.link()?.untold(&self.role, max))
    }

    async fn kept(&self, names: &[String]) -> Result<Vec<Summary>, Refusal> {
        Ok(self.link()?.kept(&self.role, names))
    }

    fn mark_told(&self, told: Untold) {
        // What nobody claims to have told is told again.
        self.report_by(|link, role| async move { link.mark_told(&role, told).await });
    }

    fn mark_handed(&self, loop_id: &LoopId, turn: Turn) {
        self.report(loop_id, turn, Receipt::Handed);
    }

    fn mark_seen(&self, loop_id: &LoopId, turn: Turn) {
        self.report(loop_id, turn, Receipt::Seen);
    }

    fn mark_mail(&self, message: MessageId, through: u32, mark: wire::MailMark) {
        if let Some(link) = self.link.upgrade() {
            link.mark_mail(&self.role, message, through, mark);
        }
    }

    fn mark_item(&self, issue: IssueId, number: u64, until: Box<dyn Send + Sync>) {
        self.report_by(move |link, role| async move {
            let request = wire::MarkItemsRequest {
                issue_id: issue.to_string(),
                numbers: vec![number],
                ..Default::default()
            };
            // What nobody claims to have shown is shown again.
            drop(link.call(&role, AnyRequest::new(request), None).await);
            drop(until);
        });
    }

    async fn marks_settled(&self) {
        if let Some(link) = self.link.upgrade() {
            link.mail_marks_settled(&self.role).await;
        }
    }

    fn left(&self, who: &Instance) {
        self.presence.left(who);
        if let Some(link) = self.link.upgrade() {
            link.decline(&self.role);
            link.tell_presence();
        }
    }

    fn called(&self, client: &str, by: Option<&Instance>) {
        if self.presence.called(client, by)
            && let Some(link) = self.link.upgrade()
        {
            link.tell_presence();
        }
    }

    fn given_to(&self, who: &Instance) {
        self.presence.given_to(who);
    }

    fn answers(&self, is_answered: bool, who: &Instance) {
        self.presence.answers(is_answered, who);
    }

    fn connected(&self, who: &Instance) -> Connected {
        Connected::new(self.presence.connected(who))
    }
}

/// The refusal of what has no effect, or was never taken.
fn gone() -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: "This node is stopping; nothing was changed. Call again once it is back."
            .to_owned(),
    }
}
