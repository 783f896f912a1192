//! The actor of one role: a shell around [`State`].
//!
//! What a call needs of the broker runs beside the actor, so that a wait of ten minutes holds
//! nobody up, and a handover that was begun is carried through whatever becomes of the caller.

use std::collections::BTreeMap;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tasuki_proto::{
    id::{LoopId, RoleId, Turn},
    wire::mark_turn_request,
};
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    time::Duration,
};

use super::{
    Refusal,
    state::{Receipt, State, WaitNumber},
};
use crate::{
    limiter::Permit,
    link::{Link, Mark},
    presence::Presence,
    wait::{Answer, Awaited, Question},
};

/// Where an answer goes. Nobody may be left to hear it.
pub type Reply = oneshot::Sender<Result<Answer, Refusal>>;

#[derive(Debug)]
pub enum Msg {
    Wait { question: Question, hold: Duration, reply: Reply, permit: Permit },
    CloseWait { question: Question, wait: WaitNumber },
    Report { loop_id: LoopId, turn: Turn, receipt: Receipt, _permit: OwnedSemaphorePermit },
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
            Msg::Wait { question, hold, reply, permit } => {
                running.wait(myself, question, hold, reply, permit);
            }
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
    fn wait(
        &mut self,
        myself: ActorRef<Msg>,
        question: Question,
        hold: Duration,
        mut reply: Reply,
        permit: Permit,
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
                Ok(()) = superseded => Some(Ok(question.superseded())),
                () = reply.closed() => None,
                answer = link.wait(&role, question.clone(), hold, permit) => Some(answer),
            };
            drop(open);
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
