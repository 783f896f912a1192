//! The actor of one role: a shell around [`State`].
//!
//! What a call needs of the broker runs beside the actor, so that a wait of ten minutes holds
//! nobody up, and a handover that was begun is carried through whatever becomes of the caller.

use std::{collections::BTreeMap, fmt};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tasuki_proto::{
    id::{LoopId, RoleId, Turn},
    wire::{self, mark_turn_request},
};
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    time::Duration,
};

use super::{
    Refusal,
    mail::MailFilter,
    presence::Presence,
    state::{Question, Receipt, State, WaitNumber},
    swarm::Awaited,
};
use crate::link::{Link, Mark};

/// Where an answer goes. Nobody may be left to hear it.
pub type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

#[derive(Debug)]
pub enum Msg {
    AwaitTurn {
        loop_id: LoopId,
        hold: Duration,
        reply: Reply<wire::TurnAnswer>,
        permit: OwnedSemaphorePermit,
    },
    AwaitMail {
        filter: MailFilter,
        hold: Duration,
        reply: Reply<wire::MailAnswer>,
        permit: OwnedSemaphorePermit,
    },
    AwaitSwarm {
        awaited: Awaited,
        hold: Duration,
        reply: Reply<wire::SwarmAnswer>,
        permit: OwnedSemaphorePermit,
    },
    CloseWait {
        question: Question,
        wait: WaitNumber,
    },
    /// Something that needs nothing of what the actor keeps.
    Beside(Work),
    Report {
        loop_id: LoopId,
        turn: Turn,
        receipt: Receipt,
        _permit: OwnedSemaphorePermit,
    },
}

/// Begins something beside the actor.
pub struct Work(pub Box<dyn FnOnce(&RoleContext) + Send>);

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").finish_non_exhaustive()
    }
}

/// What an actor needs, and needs again when it starts anew.
#[derive(Debug, Clone)]
pub struct RoleContext {
    pub role: RoleId,
    pub presence: Presence,
    pub link: Link,
}

#[derive(Debug)]
pub struct RoleActor;

#[derive(Debug)]
pub struct Running {
    around: RoleContext,
    state: State,
    /// Tells a wait that it was superseded.
    superseded: BTreeMap<WaitNumber, oneshot::Sender<()>>,
}

impl Actor for RoleActor {
    type Msg = Msg;
    type State = Running;
    type Arguments = RoleContext;

    async fn pre_start(
        &self,
        _myself: ActorRef<Msg>,
        around: RoleContext,
    ) -> Result<Running, ActorProcessingErr> {
        Ok(Running { around, state: State::default(), superseded: BTreeMap::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        msg: Msg,
        running: &mut Running,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::AwaitTurn { loop_id, hold, reply, permit } => {
                let RoleContext { role, link, .. } = running.around.clone();
                let superseded = superseded_turn(&loop_id);
                let question = Question::Turn(loop_id.clone());
                let ask = async move { link.await_turn(&role, &loop_id, hold).await };
                if hold.is_zero() {
                    running.around.link.spawn(looking(ask, reply, permit));
                } else {
                    running.wait(myself, question, ask, superseded, reply, permit);
                }
            }
            Msg::AwaitMail { filter, hold, reply, permit } => {
                let RoleContext { role, link, .. } = running.around.clone();
                let question = Question::Mail(filter.clone());
                let ask = async move { link.await_mail(&role, &filter, hold).await };
                if hold.is_zero() {
                    running.around.link.spawn(looking(ask, reply, permit));
                } else {
                    running.wait(myself, question, ask, superseded_mail(), reply, permit);
                }
            }
            Msg::AwaitSwarm { awaited, hold, reply, permit } => {
                let RoleContext { role, link, .. } = running.around.clone();
                let question = Question::Swarm(awaited.clone());
                let ask = async move { link.await_swarm(&role, &awaited, hold).await };
                if hold.is_zero() {
                    running.around.link.spawn(looking(ask, reply, permit));
                } else {
                    running.wait(myself, question, ask, superseded_swarm(), reply, permit);
                }
            }
            Msg::Beside(Work(begin)) => begin(&running.around),
            Msg::CloseWait { question, wait } => {
                running.state.close_wait(&question, wait);
                running.superseded.remove(&wait);
            }
            Msg::Report { loop_id, turn, receipt, .. } => running.report(loop_id, turn, receipt),
        }
        Ok(())
    }
}

impl Running {
    fn wait<T: Send + 'static>(
        &mut self,
        myself: ActorRef<Msg>,
        question: Question,
        ask: impl Future<Output = Result<T, Refusal>> + Send + 'static,
        superseded_answer: T,
        mut reply: Reply<T>,
        permit: OwnedSemaphorePermit,
    ) {
        let (wait, older) = self.state.open_wait(&question);
        if let Some(older) = older.and_then(|older| self.superseded.remove(&older)) {
            // It may have been answered in this moment; then there is nothing to supersede.
            let _answered = older.send(());
        }
        let (supersede, superseded) = oneshot::channel();
        self.superseded.insert(wait, supersede);
        let open = self.around.presence.wait();
        let RoleContext { role, link, .. } = self.around.clone();
        self.around.link.spawn(async move {
            // In this order, so that a wait superseded before it began does not begin, and so
            // supersede the newer one at the broker.
            let answer = tokio::select! {
                biased;
                Ok(()) = superseded => Some(Ok(superseded_answer)),
                () = reply.closed() => None,
                answer = ask => Some(answer),
            };
            drop(open);
            drop(permit);
            let is_heard = answer.is_some_and(|answer| reply.send(answer).is_ok());
            if !is_heard && matches!(question, Question::Swarm(Awaited::Tasks(_))) {
                link.decline(&role);
            }
            // An actor that started anew does not know this wait.
            drop(myself.send_message(Msg::CloseWait { question, wait }));
        });
    }

    fn report(&mut self, loop_id: LoopId, turn: Turn, receipt: Receipt) {
        if self.state.report(&loop_id, turn, receipt) {
            let mark = match receipt {
                Receipt::Handed => mark_turn_request::Mark::Handed,
                Receipt::Seen => mark_turn_request::Mark::Seen,
            };
            self.around.link.mark(Mark { role: self.around.role.clone(), loop_id, turn, mark });
        }
    }
}

/// Asks how it stands, for as long as somebody wants to hear it.
pub(super) async fn looking<T>(
    ask: impl Future<Output = Result<T, Refusal>>,
    mut reply: Reply<T>,
    permit: OwnedSemaphorePermit,
) {
    let answer = tokio::select! {
        answer = ask => answer,
        () = reply.closed() => return,
    };
    drop(permit);
    drop(reply.send(answer));
}

fn superseded_mail() -> wire::MailAnswer {
    wire::MailAnswer {
        standing: wire::mail_answer::Standing::Superseded.into(),
        ..wire::MailAnswer::default()
    }
}

fn superseded_swarm() -> wire::SwarmAnswer {
    wire::SwarmAnswer {
        standing: wire::swarm_answer::Standing::Superseded.into(),
        ..wire::SwarmAnswer::default()
    }
}

fn superseded_turn(loop_id: &LoopId) -> wire::TurnAnswer {
    wire::TurnAnswer {
        superseded: true,
        r#loop: loop_id.to_string(),
        ..wire::TurnAnswer::default()
    }
}
