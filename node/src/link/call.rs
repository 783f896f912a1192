//! One call, tried until it is answered or its time is over.

use std::time::Duration;

use futures::{FutureExt as _, future::BoxFuture};
use tasuki_proto::{
    id::IdempotencyKey,
    reason::Reason,
    rpc::{self, Rpc},
    wire,
};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{self, Instant},
};
use tonic::{Response, Status};

use super::{
    Link,
    channel::{ATTEMPT_MS_MAX, Channel},
    keys::{self, Key},
    retry::{Attempts, Failure, Next, UNREACHED_MS_MAX, chance},
    state::{turned_away, unanswered, unasked, unreachable},
};
use crate::role::Refusal;

/// The last word on a call.
#[derive(Debug)]
pub(super) struct GivenUp {
    pub(super) refusal: Refusal,
    /// Nobody said it: the broker is out of reach.
    pub(super) is_away: bool,
}

impl Link {
    pub(super) async fn room(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.calls.acquire().await
    }

    /// Asks something; lost without harm.
    pub(super) async fn query<R: Rpc>(&self, request: R) -> Result<R::Response, Refusal> {
        self.ask(from_this_node(request)).await
    }

    /// Has something done, under `key` however often it is said; `None`: it is said once. A broker
    /// that is away is not waited for.
    pub(super) async fn command<R: Rpc>(
        &self,
        mut request: R,
        key: Option<&IdempotencyKey>,
    ) -> Result<R::Response, Refusal> {
        let (_room, key) = self.ready_to_command(key).await?;
        request.set_key(Some(key.wire()));
        self.send(Attempts::default(), from_this_node(request)).await
    }

    /// Room for a command and its key, which is in use until the answer is there.
    pub(super) async fn ready_to_command(
        &self,
        key: Option<&IdempotencyKey>,
    ) -> Result<(OwnedSemaphorePermit, CommandKey), Refusal> {
        let room = self.room().await?;
        self.shared.ready().await?;
        let key = match key {
            Some(key) => CommandKey::Named(keys::wire(key)),
            None => CommandKey::Own(self.shared.keys.next().await?),
        };
        Ok((room, key))
    }

    pub(super) async fn ask<T, F>(
        &self,
        call: impl Fn(Channel, wire::Caller) -> F,
    ) -> Result<T, Refusal>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let _room = self.room().await?;
        self.shared.ready_to_ask().await?;
        self.send(Attempts::of_question(), call).await
    }

    pub(super) async fn send<T, F>(
        &self,
        attempts: Attempts,
        call: impl Fn(Channel, wire::Caller) -> F,
    ) -> Result<T, Refusal>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.try_send(attempts, call).await.map_err(|given_up| given_up.refusal)
    }

    pub(super) async fn try_send<T, F>(
        &self,
        mut attempts: Attempts,
        call: impl Fn(Channel, wire::Caller) -> F,
    ) -> Result<T, GivenUp>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let began = Instant::now();
        loop {
            let epoch = self.shared.epoch();
            let attempt = call(self.shared.channel.clone(), self.shared.caller());
            let left = attempts.patience().map(|whole| whole.saturating_sub(began.elapsed()));
            let failure = match self.attempt(attempt, began.elapsed(), left).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            tracing::debug!(?failure, "a call failed");
            if failure.is_of_connection() {
                self.shared.suspect.notify_one();
            }
            let is_away = match &failure {
                Failure::NotTaken(refusal) => refusal.reason == Reason::Unavailable,
                Failure::Lost(_) | Failure::Unsure(_) => true,
                Failure::StaleEpoch(_) | Failure::TurnedAway(_) | Failure::Refused(_) => false,
            };
            match attempts.next(began.elapsed(), chance(), failure) {
                Next::Again(pause) => {
                    tokio::select! {
                        () = time::sleep(pause) => {}
                        () = self.shared.back() => {}
                    }
                }
                Next::Renew(within) => {
                    if let Err(refusal) = self.shared.renew(epoch, within).await {
                        let is_away = refusal.reason == Reason::Unavailable;
                        let refusal = attempts.give_up(refusal, "registering again failed");
                        return Err(GivenUp { refusal, is_away });
                    }
                }
                Next::Give(refusal) => {
                    let refusal = self.worded(refusal, is_away, &attempts);
                    return Err(GivenUp { refusal, is_away });
                }
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
    fn worded(&self, refusal: Refusal, is_away: bool, attempts: &Attempts) -> Refusal {
        if is_away && refusal.reason == Reason::Unavailable {
            let say = match (attempts.is_question(), attempts.may_have_asked()) {
                (_, true) => unanswered,
                (true, false) => unasked,
                (false, false) => unreachable,
            };
            let message = say(&self.shared.settings.broker, &refusal.message);
            return Refusal { message, ..refusal };
        }
        turned_away(refusal)
    }
}

/// What names a command.
#[derive(Debug)]
pub(super) enum CommandKey {
    /// Its sender does, each time the command is said.
    Named(wire::IdempotencyKey),
    /// This node does.
    Own(Key),
}

impl CommandKey {
    pub(super) fn wire(&self) -> wire::IdempotencyKey {
        match self {
            Self::Named(key) => key.clone(),
            Self::Own(key) => key.wire(),
        }
    }
}

/// What a call came to.
pub(super) type Answering<T> = BoxFuture<'static, Result<Response<T>, Status>>;

/// Sends a request as the node that `caller` names, each time anew.
pub(super) fn from_this_node<R: Rpc>(
    request: R,
) -> impl Fn(Channel, wire::Caller) -> Answering<R::Response> {
    move |channel, caller| {
        let mut request = request.clone();
        request.set_caller(caller);
        rpc::send(channel, request).boxed()
    }
}

/// Whether nobody was there to say anything else.
pub(super) fn is_away(refusal: &Refusal) -> bool {
    refusal.reason == Reason::Unavailable
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{CALLS_MAX, Settings};
    use super::*;
    use crate::identity::Identity;

    #[tokio::test]
    async fn a_call_of_a_busy_node_waits_in_line() {
        let data = tempfile::tempdir().expect("a directory");
        let identity = Arc::new(Identity::open(data.path()).expect("free"));
        let settings = Settings {
            broker: "http://127.0.0.1:9".to_owned(),
            workspace: "default".parse().expect("an id"),
            node: identity.node().clone(),
            roles: Vec::new(),
            take_over: false,
        };
        let link = Link::start(settings, identity).expect("an address");
        let mut rooms = Vec::new();
        for _ in 0..CALLS_MAX {
            rooms.push(link.room().await.expect("room"));
        }
        let mut next = Box::pin(link.room());
        assert!(futures::poll!(&mut next).is_pending());
        rooms.pop();
        drop(next.await.expect("the room of the one that is over"));
        link.abandon();
    }
}
