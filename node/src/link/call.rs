//! One call, tried until it is answered or its time is over.
//!
//! A command is tried under one key. It is not kept for a broker that is away, since a claim or a
//! lock that is granted an hour later is none; mail is, by way of the outbox. What only asks is
//! answered with what was last seen while the broker is out of reach, if that was.

use std::time::Duration;

use tasuki_proto::{
    id::{IdempotencyKey, RoleId},
    reason::Reason,
    rpc::Rpc,
    wire,
};
use tokio::time::{self, Instant};
use tonic::{Response, Status, Streaming};

use super::{
    Link, keys,
    state::{turned_away, unanswered, unasked, unreachable},
};
use crate::{
    client::{
        any::{AnyRequest, AnyResponse, send_as},
        channel::{self, ATTEMPT_MS_MAX, Channel},
        retry::{Attempts, Backoff, Failure, Next, UNREACHED_MS_MAX, chance, outcome_unknown},
    },
    private::Unsealable,
    refusal::{Refusal, Seen},
};

/// The last word on a call.
#[derive(Debug)]
pub(super) struct GivenUp {
    pub(super) refusal: Refusal,
    /// Nobody said it: the broker is out of reach.
    pub(super) is_away: bool,
}

impl Link {
    /// One call of an agent that plays `role`, which is filled in. The future of a command may be
    /// dropped, but then nobody tries again: [`Link::carry_out`] carries it through. `key` names
    /// the intent each time its sender says it; `None`: it is said once.
    pub async fn call(
        &self,
        role: &RoleId,
        mut request: AnyRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Seen<AnyResponse>, Refusal> {
        let _permit = self.calls.acquire(role).await?;
        request.set_role(role);
        if request.call().has_key {
            return self.command(request, key).await.map(Seen::now);
        }
        if let Some(search) = request.downcast_ref::<wire::SearchMailRequest>()
            && self.searches_itself().await?
        {
            let found = self.search_sealed(role, search.clone()).await?;
            return Ok(Seen::now(Box::new(found)));
        }
        self.ask_or_recall(request).await
    }

    /// Asks something for somebody who plays no role; answered from memory while the broker is out of
    /// reach.
    pub async fn look_up(&self, request: AnyRequest) -> Result<Seen<AnyResponse>, Refusal> {
        let _permit = self.calls.acquire_without_role().await?;
        self.ask_or_recall(request).await
    }

    /// Asks something; answered from memory while the broker is out of reach.
    async fn ask_or_recall(&self, request: AnyRequest) -> Result<Seen<AnyResponse>, Refusal> {
        match self.ask(|channel, caller| request.send(channel, caller)).await {
            Ok(mut response) => {
                self.open(&mut response).await;
                self.shared.cache.remember(&request, &response);
                Ok(Seen::now(response))
            }
            Err(refusal) => {
                self.shared.cache.recall(&request).filter(|_| is_away(&refusal)).ok_or(refusal)
            }
        }
    }

    /// Asks something for this node itself; lost without harm.
    pub(crate) async fn query<R: Rpc>(&self, request: R) -> Result<R::Response, Refusal> {
        self.ask(|channel, caller| send_as(&request, channel, caller)).await
    }

    /// Asks once, without a registration, so that it speaks for no agent.
    pub(crate) async fn ask_once<R: Rpc>(&self, request: R) -> Result<R::Response, Failure> {
        let call = send_as(&request, self.shared.client.channel(), self.shared.anonymous_caller());
        match time::timeout(Duration::from_millis(ATTEMPT_MS_MAX), call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(Failure::of(&status)),
            Err(_) => Err(Failure::Lost(format!("no answer within {ATTEMPT_MS_MAX} ms"))),
        }
    }

    /// Has something done for this node itself or for a sub-agent of it, and carries it through.
    pub(crate) async fn command_without_role<R: Rpc>(
        &self,
        request: R,
        key: Option<IdempotencyKey>,
    ) -> Result<R::Response, Refusal> {
        let carry = |link: Self| async move {
            let _permit = link.calls.acquire_without_role().await?;
            link.command(AnyRequest::new(request), key).await
        };
        let response = self.carry_out(carry).await?;
        response
            .downcast::<R::Response>()
            .map(|response| *response)
            .map_err(|_| outcome_unknown("the answer belongs to another call"))
    }

    /// Has something done for this node itself, and sends it under one key until the broker judges
    /// it, however long that takes: `again` says which refusals are no judgement.
    pub(crate) async fn command_until_judged<R: Rpc>(
        &self,
        mut request: R,
        again: impl Fn(Reason) -> bool,
    ) -> Result<R::Response, Refusal> {
        let mut backoff = Backoff::default();
        let key = loop {
            match self.shared.keys.next().await {
                Ok(key) => break key,
                Err(refusal) => tracing::debug!(%refusal, "a command has no key yet"),
            }
            time::sleep(backoff.pause(chance())).await;
        };
        request.set_key(Some(key.wire()));
        backoff.reset();
        loop {
            self.connected().await;
            let attempt = async {
                let _permit = self.calls.acquire_without_role().await?;
                let call = |channel, caller| send_as(&request, channel, caller);
                self.send(Attempts::default(), call).await
            };
            let refusal = match attempt.await {
                Err(refusal) if again(refusal.reason) => refusal,
                answer => return answer,
            };
            tracing::debug!(%refusal, "a command is sent again");
            tokio::select! {
                () = time::sleep(backoff.pause(chance())) => {}
                () = self.reconnected() => {}
            }
        }
    }

    /// A run as it is, then each change, until it has ended or the connection has.
    pub(crate) async fn watch_run(
        &self,
        run_id: String,
    ) -> Result<Streaming<wire::WatchRunResponse>, Refusal> {
        let open = |channel, caller| {
            let request = wire::WatchRunRequest { caller: Some(caller), run_id: run_id.clone() };
            async move { channel::runs(channel).watch_run(request).await }
        };
        self.ask(open).await
    }

    /// What others want to read of this node's outputs, until the connection has ended.
    pub(crate) async fn watch_reads(&self) -> Result<Streaming<wire::OutputRead>, Refusal> {
        let open = |channel, caller| {
            let request = wire::WatchReadsRequest { caller: Some(caller) };
            async move { channel::runs(channel).watch_reads(request).await }
        };
        self.ask(open).await
    }

    /// Answers one of them, where the broker may read it.
    pub(crate) async fn answer_read(&self, answer: wire::AnswerReadRequest) -> Result<(), Refusal> {
        self.may_leave_plain(Unsealable::Outputs).await?;
        self.query(answer).await.map(drop)
    }

    async fn command(
        &self,
        mut request: AnyRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<AnyResponse, Refusal> {
        self.shared.ready().await?;
        // One of this node's is in use until the answer is there.
        let own = if key.is_none() { Some(self.shared.keys.next().await?) } else { None };
        let key = key.as_ref().or_else(|| own.as_ref().map(keys::Key::id));
        if let Some(key) = key {
            request.set_key(keys::wire(key));
        }
        let call = |channel, caller| request.send(channel, caller);
        let response = self.send(Attempts::default(), call).await?;
        if let Some(lease) = lease(&response) {
            self.shared.note_lease(lease);
        }
        Ok(response)
    }

    pub(super) async fn ask<T, F>(
        &self,
        call: impl Fn(Channel, wire::Caller) -> F,
    ) -> Result<T, Refusal>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.shared.ready_to_ask().await?;
        self.send(Attempts::of_question(), call).await
    }

    async fn send<T, F>(
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
        let (shared, began) = (&self.shared, Instant::now());
        loop {
            let epoch = shared.epoch();
            let attempt = call(shared.client.channel(), shared.caller());
            let whole = Duration::from_millis(ATTEMPT_MS_MAX);
            let left = attempts.patience().map(|most| most.saturating_sub(began.elapsed()));
            let whole = left.map_or(whole, |left| whole.min(left));
            let unreached = Duration::from_millis(UNREACHED_MS_MAX).saturating_sub(began.elapsed());
            let failure = match shared.client.attempt(attempt, unreached, whole).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            tracing::debug!(?failure, "a call failed");
            if failure.is_of_connection() {
                shared.suspect.notify_one();
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
                        () = shared.reconnected() => {}
                    }
                }
                Next::Renew(within) => {
                    if let Err(refusal) = shared.renew(epoch, within).await {
                        let is_away = refusal.reason == Reason::Unavailable;
                        let refusal = attempts.give_up(refusal, "registering again failed");
                        return Err(GivenUp { refusal, is_away });
                    }
                }
                Next::Give(refusal) => {
                    let refusal = self.explain(refusal, is_away, &attempts);
                    return Err(GivenUp { refusal, is_away });
                }
            }
        }
    }

    /// Bare words of the system or the broker, said so that an agent knows what to do.
    fn explain(&self, refusal: Refusal, is_away: bool, attempts: &Attempts) -> Refusal {
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

/// How long something lasts that a response grants to whoever is there.
fn lease(response: &AnyResponse) -> Option<Duration> {
    let (expires_ms, now_ms) = if let Some(it) = response.downcast_ref::<wire::LockResponse>() {
        (it.lock.as_ref()?.expires_ms, it.now_ms)
    } else if let Some(it) = response.downcast_ref::<wire::TaskResponse>() {
        (it.task.as_ref()?.lease_expires_ms, it.now_ms)
    } else if let Some(it) = response.downcast_ref::<wire::DeliveryResponse>() {
        (it.delivery.as_ref()?.lease_expires_ms, it.now_ms)
    } else {
        return None;
    };
    (expires_ms != 0).then(|| Duration::from_millis(expires_ms.saturating_sub(now_ms)))
}

/// Whether nobody was there to say anything else.
pub(super) fn is_away(refusal: &Refusal) -> bool {
    refusal.reason == Reason::Unavailable
}
