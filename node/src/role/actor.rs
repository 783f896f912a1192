//! The actor of one role: a shell around [`State`].
//!
//! What a call needs of the broker runs beside the actor, so that a wait of ten minutes holds
//! nobody up, and a handover that was begun is carried through whatever becomes of the caller.

use std::collections::BTreeMap;

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
    HandOver, Refusal, Seen,
    presence::Presence,
    state::{Receipt, State, WaitNumber},
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
    CloseWait {
        loop_id: LoopId,
        wait: WaitNumber,
    },
    HandOver {
        handover: HandOver,
        reply: Reply<wire::HandOverResponse>,
        permit: OwnedSemaphorePermit,
    },
    LoopStatus {
        loop_id: LoopId,
        reply: Reply<Seen<wire::GetLoopResponse>>,
        permit: OwnedSemaphorePermit,
    },
    Report {
        loop_id: LoopId,
        turn: Turn,
        receipt: Receipt,
        _permit: OwnedSemaphorePermit,
    },
}

/// What an actor needs, and needs again when it starts anew.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub role: RoleId,
    pub presence: Presence,
    pub link: Link,
}

#[derive(Debug)]
pub struct RoleActor;

#[derive(Debug)]
pub struct Running {
    around: Surroundings,
    state: State,
    /// Tells a wait that it was superseded.
    superseded: BTreeMap<WaitNumber, oneshot::Sender<()>>,
}

impl Actor for RoleActor {
    type Msg = Msg;
    type State = Running;
    type Arguments = Surroundings;

    async fn pre_start(
        &self,
        _myself: ActorRef<Msg>,
        around: Surroundings,
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
            Msg::AwaitTurn { loop_id, hold, reply, permit } if hold.is_zero() => {
                running.look(loop_id, reply, permit);
            }
            Msg::AwaitTurn { loop_id, hold, reply, permit } => {
                running.await_turn(myself, loop_id, hold, reply, permit);
            }
            Msg::CloseWait { loop_id, wait } => {
                running.state.close_wait(&loop_id, wait);
                running.superseded.remove(&wait);
            }
            Msg::HandOver { handover, reply, permit } => {
                running.hand_over(handover, reply, permit);
            }
            Msg::LoopStatus { loop_id, reply, permit } => {
                running.loop_status(loop_id, reply, permit);
            }
            Msg::Report { loop_id, turn, receipt, .. } => running.report(loop_id, turn, receipt),
        }
        Ok(())
    }
}

impl Running {
    fn await_turn(
        &mut self,
        myself: ActorRef<Msg>,
        loop_id: LoopId,
        hold: Duration,
        mut reply: Reply<wire::TurnAnswer>,
        permit: OwnedSemaphorePermit,
    ) {
        let (wait, older) = self.state.open_wait(&loop_id);
        if let Some(older) = older.and_then(|older| self.superseded.remove(&older)) {
            // It may have been answered in this moment; then there is nothing to supersede.
            let _answered = older.send(());
        }
        let (supersede, superseded) = oneshot::channel();
        self.superseded.insert(wait, supersede);
        let Surroundings { role, presence, link } = self.around.clone();
        self.around.link.spawn(async move {
            let open = presence.open();
            // In this order, so that a wait superseded before it began does not begin, and so
            // supersede the newer one at the broker.
            let answer = tokio::select! {
                biased;
                Ok(()) = superseded => Some(Ok(superseded_answer(&loop_id))),
                () = reply.closed() => None,
                answer = link.await_turn(&role, &loop_id, hold) => Some(answer),
            };
            drop(open);
            drop(permit);
            if let Some(answer) = answer {
                drop(reply.send(answer));
            }
            // An actor that started anew does not know this wait.
            drop(myself.send_message(Msg::CloseWait { loop_id, wait }));
        });
    }

    /// Asks whose turn it is; other waits go on.
    fn look(
        &self,
        loop_id: LoopId,
        mut reply: Reply<wire::TurnAnswer>,
        permit: OwnedSemaphorePermit,
    ) {
        let Surroundings { role, link, .. } = self.around.clone();
        self.around.link.spawn(async move {
            let answer = tokio::select! {
                answer = link.await_turn(&role, &loop_id, Duration::ZERO) => answer,
                () = reply.closed() => return,
            };
            drop(permit);
            drop(reply.send(answer));
        });
    }

    fn hand_over(
        &self,
        handover: HandOver,
        reply: Reply<wire::HandOverResponse>,
        permit: OwnedSemaphorePermit,
    ) {
        let Surroundings { role, link, .. } = self.around.clone();
        self.around.link.spawn(async move {
            let answer = link.hand_over(&role, &handover).await;
            drop(permit);
            drop(reply.send(answer));
        });
    }

    fn loop_status(
        &self,
        loop_id: LoopId,
        mut reply: Reply<Seen<wire::GetLoopResponse>>,
        permit: OwnedSemaphorePermit,
    ) {
        let link = self.around.link.clone();
        self.around.link.spawn(async move {
            let answer = tokio::select! {
                answer = link.loop_status(&loop_id) => answer,
                () = reply.closed() => return,
            };
            drop(permit);
            drop(reply.send(answer));
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

fn superseded_answer(loop_id: &LoopId) -> wire::TurnAnswer {
    wire::TurnAnswer {
        superseded: true,
        r#loop: loop_id.to_string(),
        ..wire::TurnAnswer::default()
    }
}
