//! Commands and reads: one call, tried until it is answered or its time is over.

use std::time::Duration;

use async_trait::async_trait;
use tasuki_proto::{
    id::{LoopId, RoleId, Turn},
    reason::Reason,
    wire::{self, turn_loop_client::TurnLoopClient},
};
use tokio::time::{self, Instant};
use tonic::{Response, Status};

use super::{
    CALLS_MAX, Link,
    channel::{self, ATTEMPT_MS_MAX, Channel},
    keys, overloaded,
    receipts::Mark,
    retry::{Attempts, Failure, Next, UNREACHED_MS_MAX, chance},
    state::{turned_away, unreachable},
};
use crate::role::{Glance, HandOver, Overview, Refusal, Seen, news::News};

impl Link {
    /// Ends `role`'s turn. The future may be dropped, but then nobody tries again: whoever needs
    /// it carried through spawns it.
    pub async fn hand_over(
        &self,
        role: &RoleId,
        handover: &HandOver,
    ) -> Result<wire::HandOverResponse, Refusal> {
        let _room = self.room()?;
        self.shared.ready().await?;
        // In use until the answer is there.
        let ours;
        let key = match &handover.key {
            Some(key) => keys::wire(key),
            None => {
                ours = self.shared.keys.next().await?;
                ours.wire()
            }
        };
        let request = wire::HandOverRequest {
            caller: None,
            key: Some(key),
            r#loop: handover.loop_id.to_string(),
            role: role.to_string(),
            summary: handover.summary.clone(),
            instruction: handover.instruction.clone(),
            is_task_complete: handover.is_task_complete,
            to: handover.to.as_ref().map(RoleId::to_string).unwrap_or_default(),
            turn: handover.turn.unwrap_or(Turn::NONE).get(),
        };
        let call = |mut client: TurnLoopClient<Channel>, caller| {
            let request = wire::HandOverRequest { caller: Some(caller), ..request.clone() };
            async move { client.hand_over(request).await }
        };
        self.send(Attempts::default(), call).await
    }

    /// All loops; while the broker is out of reach, as they were last seen.
    pub async fn list_loops(&self) -> Result<Seen<wire::ListLoopsResponse>, Refusal> {
        let asked = self.ask(|mut client, caller| {
            let request = wire::ListLoopsRequest { caller: Some(caller) };
            async move { client.list_loops(request).await }
        });
        let memory = &self.shared.memory;
        match asked.await {
            Ok(list) => {
                memory.remember_all(&list);
                Ok(Seen::now(list))
            }
            Err(refusal) => memory.recall_all().filter(|_| is_away(&refusal)).ok_or(refusal),
        }
    }

    /// One loop; while the broker is out of reach, as it was last seen.
    pub async fn loop_status(
        &self,
        loop_id: &LoopId,
    ) -> Result<Seen<wire::GetLoopResponse>, Refusal> {
        let asked = self.ask(|mut client, caller| {
            let r#loop = loop_id.to_string();
            let request = wire::GetLoopRequest { caller: Some(caller), r#loop };
            async move { client.get_loop(request).await }
        });
        let memory = &self.shared.memory;
        match asked.await {
            Ok(seen) => {
                memory.remember(loop_id, &seen);
                Ok(Seen::now(seen))
            }
            Err(refusal) => memory.recall(loop_id).filter(|_| is_away(&refusal)).ok_or(refusal),
        }
    }

    /// Waits for `role`'s turn, over reconnects, until `hold` is over.
    pub async fn await_turn(
        &self,
        role: &RoleId,
        loop_id: &LoopId,
        hold: Duration,
    ) -> Result<wire::TurnAnswer, Refusal> {
        self.waits.ask(role.clone(), loop_id.clone(), hold).await
    }

    /// Reports in the background how far a turn got.
    pub fn mark(&self, mark: Mark) {
        self.receipts.push(mark);
    }

    fn room(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Refusal> {
        self.calls.try_acquire().map_err(|_| overloaded("calls are under way", CALLS_MAX))
    }

    async fn ask<T, F>(
        &self,
        call: impl Fn(TurnLoopClient<Channel>, wire::Caller) -> F,
    ) -> Result<T, Refusal>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let _room = self.room()?;
        self.shared.ready().await?;
        self.send(Attempts::of_question(), call).await
    }

    async fn send<T, F>(
        &self,
        mut attempts: Attempts,
        call: impl Fn(TurnLoopClient<Channel>, wire::Caller) -> F,
    ) -> Result<T, Refusal>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let began = Instant::now();
        let client = channel::turn_loop(self.shared.channel.clone());
        loop {
            let epoch = self.shared.epoch();
            let attempt = call(client.clone(), self.shared.caller());
            let left = attempts.patience().map(|whole| whole.saturating_sub(began.elapsed()));
            let failure = match self.attempt(attempt, began.elapsed(), left).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            tracing::debug!(?failure, "a call failed");
            if failure.is_of_connection() {
                self.shared.suspect.notify_one();
            }
            let is_away = matches!(&failure, Failure::NotTaken(_) | Failure::Lost(_));
            match attempts.next(began.elapsed(), chance(), failure) {
                Next::Again(pause) => {
                    tokio::select! {
                        () = time::sleep(pause) => {}
                        () = self.shared.back() => {}
                    }
                }
                Next::Renew(within) => {
                    if let Err(refusal) = self.shared.renew(epoch, within).await {
                        return Err(attempts.give_up(refusal, "registering again failed"));
                    }
                }
                Next::Give(refusal) => return Err(self.worded(refusal, is_away)),
            }
        }
    }

    /// One attempt, `spent` after its command began. One that finds no connection ends when the
    /// command's time for finding one does, and never counts as lost (L5).
    async fn attempt<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
        spent: Duration,
        left: Option<Duration>,
    ) -> Result<T, Failure> {
        let (lines, witness) = (&self.shared.lines, self.shared.lines.witness());
        let whole = Duration::from_millis(ATTEMPT_MS_MAX);
        let whole = left.map_or(whole, |left| whole.min(left));
        let unreached = Duration::from_millis(UNREACHED_MS_MAX).saturating_sub(spent).min(whole);
        let mut call = Box::pin(call);
        let mut answer = time::timeout(unreached, &mut call).await;
        if answer.is_err() && lines.may_have_carried(witness) {
            answer = time::timeout(whole.saturating_sub(unreached), &mut call).await;
        }
        drop(call);
        match answer {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(Failure::of(&status)),
            Err(_) if lines.may_have_carried(witness) => {
                Err(Failure::Lost(format!("no answer within {ATTEMPT_MS_MAX} ms")))
            }
            Err(_) => Err(Failure::NotTaken(Refusal {
                reason: Reason::Unavailable,
                message: "no connection in time".to_owned(),
            })),
        }
    }

    /// Bare words of the system or the broker, said so that an agent knows what to do.
    fn worded(&self, refusal: Refusal, is_away: bool) -> Refusal {
        if is_away && refusal.reason == Reason::Unavailable {
            let message = unreachable(&self.shared.settings.broker, &refusal.message);
            return Refusal { message, ..refusal };
        }
        turned_away(refusal)
    }
}

/// Whether nobody was there to say anything else.
fn is_away(refusal: &Refusal) -> bool {
    refusal.reason == Reason::Unavailable
}

#[async_trait]
impl Overview for Link {
    async fn loops(&self) -> Result<Seen<wire::ListLoopsResponse>, Refusal> {
        self.list_loops().await
    }

    async fn look(&self, loop_id: &LoopId) -> Result<Seen<wire::GetLoopResponse>, Refusal> {
        self.loop_status(loop_id).await
    }

    fn at_a_glance(&self) -> Glance {
        Glance {
            broker: self.shared.settings.broker.clone(),
            link: self.shared.state.borrow().clone(),
            loops: self.shared.memory.recall_all(),
        }
    }

    fn news(&self) -> &News {
        &self.shared.news
    }
}
