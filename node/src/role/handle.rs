//! How the MCP side talks to a role's actor, `mail`: how it gets at the role's
//! mail, and `swarm`: at issues, tasks, deliveries and locks.
//!
//! ractor's mailboxes have no bound, so this door has: each message carries a permit, given back
//! when the call is done and not when its caller tires of waiting.

mod mail;
mod swarm;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use ractor::{ActorRef, MessagingErr};
use tasuki_proto::{
    id::{LoopId, RoleId, Turn},
    reason::Reason,
    wire,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch},
    time,
};

use super::{
    Actions, Connected, HandOver, Refusal, Seen,
    actor::{Msg, Reply, RoleContext, Work, looking},
    mail::Mail,
    player::Instance,
    presence::Presence,
    state::Receipt,
    swarm::Swarm,
};
use crate::{
    limiter::Limiter,
    link::{Link, retry::outcome_unknown},
};

/// Commands and reads of one role under way. An agent does one thing at a time, and a model that
/// calls its tools side by side does a handful.
const CALLS_PER_ROLE_MAX: usize = 16;

/// Waits of one role under way: one per question, and those that are just being superseded.
const WAITS_PER_ROLE_MAX: usize = 256;

/// Receipts on their way to the actor; more are dropped.
const REPORTS_PER_ROLE_MAX: usize = 64;

/// How long a call waits for an actor that is being started anew, in milliseconds.
const RESTART_MS_MAX: u64 = 1_000;

/// One role, as the MCP side sees it.
#[derive(Debug)]
pub struct Handle {
    role: RoleId,
    presence: Presence,
    /// Another one after the actor started anew; closed when the node has stopped.
    actor: watch::Receiver<ActorRef<Msg>>,
    calls: Limiter,
    waits: Limiter,
    reports: Arc<Semaphore>,
}

impl Handle {
    pub fn new(role: RoleId, presence: Presence, actor: watch::Receiver<ActorRef<Msg>>) -> Self {
        Self {
            role,
            presence,
            actor,
            calls: Limiter::new("calls of this role", CALLS_PER_ROLE_MAX),
            waits: Limiter::new("waits of this role", WAITS_PER_ROLE_MAX),
            reports: Arc::new(Semaphore::new(REPORTS_PER_ROLE_MAX)),
        }
    }

    /// A look is over at once, and must not find its place taken by waits.
    async fn admit_wait(&self, hold: Duration) -> Result<OwnedSemaphorePermit, Refusal> {
        if hold.is_zero() { self.calls.acquire().await } else { self.waits.acquire().await }
    }

    /// `lost` is said when the node stopped, or the actor failed, before the answer came.
    async fn call<T>(
        &self,
        message: impl FnOnce(Reply<T>) -> Msg,
        lost: impl FnOnce() -> Refusal,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.deliver(message(reply)).await?;
        answer.await.unwrap_or_else(|_| Err(lost()))
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

    /// A question that needs nothing of what the actor keeps; given up when whoever asked goes
    /// away.
    async fn ask<T, F>(
        &self,
        ask: impl FnOnce(Link, RoleId) -> F + Send + 'static,
    ) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Refusal>> + Send + 'static,
    {
        let permit = self.calls.acquire().await?;
        let begin = |around: &RoleContext, reply: Reply<T>| {
            let ask = ask(around.link.clone(), around.role.clone());
            around.link.spawn(looking(ask, reply, permit));
        };
        self.call(|reply| beside(move |around| begin(around, reply)), gone).await
    }

    /// A command of the same kind; carried through even when whoever asked goes away.
    async fn carry<T, F>(
        &self,
        command: impl FnOnce(Link, RoleId) -> F + Send + 'static,
    ) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Refusal>> + Send + 'static,
    {
        let permit = self.calls.acquire().await?;
        let begin = |around: &RoleContext, reply: Reply<T>| {
            let command = command(around.link.clone(), around.role.clone());
            around.link.spawn(async move {
                let answer = command.await;
                drop(permit);
                drop(reply.send(answer));
            });
        };
        let lost = || outcome_unknown("the node stopped or failed before it came");
        self.call(|reply| beside(move |around| begin(around, reply)), lost).await
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

    async fn await_turn(
        &self,
        loop_id: &LoopId,
        hold: Duration,
    ) -> Result<wire::TurnAnswer, Refusal> {
        let permit = self.admit_wait(hold).await?;
        let loop_id = loop_id.clone();
        self.call(|reply| Msg::AwaitTurn { loop_id, hold, reply, permit }, gone).await
    }

    async fn hand_over(&self, handover: HandOver) -> Result<wire::HandOverResponse, Refusal> {
        self.carry(|link, role| async move { link.hand_over(&role, &handover).await }).await
    }

    async fn loop_status(&self, loop_id: &LoopId) -> Result<Seen<wire::GetLoopResponse>, Refusal> {
        let loop_id = loop_id.clone();
        self.ask(|link, _| async move { link.loop_status(&loop_id).await }).await
    }

    fn open_waits(&self) -> usize {
        self.waits.in_use()
    }

    fn mark_handed(&self, loop_id: &LoopId, turn: Turn) {
        self.report(loop_id, turn, Receipt::Handed);
    }

    fn mark_seen(&self, loop_id: &LoopId, turn: Turn) {
        self.report(loop_id, turn, Receipt::Seen);
    }

    fn mail(&self) -> &dyn Mail {
        self
    }

    fn swarm(&self) -> &dyn Swarm {
        self
    }

    fn called(&self, client: &str, by: Option<&Instance>) {
        self.presence.called(client, by);
    }

    fn given_to(&self, who: &Instance) {
        self.presence.given_to(who);
    }

    fn answers(&self, is_answered: bool, who: &Instance) {
        self.presence.answers(is_answered, who);
    }

    fn connected(&self, who: &Instance) -> Connected {
        let open = self.presence.connected(who);
        let (guard, dropped) = Connected::new();
        tokio::spawn(async move {
            let _open = open;
            // An error is how a dropped guard is told.
            let _dropped = dropped.await;
        });
        guard
    }
}

fn beside(begin: impl FnOnce(&RoleContext) + Send + 'static) -> Msg {
    Msg::Beside(Work(Box::new(begin)))
}

/// The refusal of what has no effect, or was never taken.
fn gone() -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: "This node is stopping; nothing was changed. Call again once it is back."
            .to_owned(),
    }
}
