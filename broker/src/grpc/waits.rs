//! `Waits`: all waits of a client over one stream.
//!
//! Each wait reserves its place in the stream's channel when it is parked, so an answer always
//! has room and a client that does not read cannot make the broker hold more than its bound.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{
    id::RoleId,
    limits::WAITS_PER_STREAM_MAX,
    reason::Reason,
    wire::{
        self,
        park_request::{self, Ask},
        park_response::Outcome,
    },
};
use tokio::sync::{
    OwnedSemaphorePermit,
    mpsc::{self, OwnedPermit},
    oneshot,
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{Status, Streaming, codegen::BoxStream};

use super::{
    Admitted, Later, Services, WorkspaceSession, board, guard, mailbox, parse, run, status, swarm,
    turn_loop,
};
use crate::{
    rules::Rejection,
    workspace::{Answer, OnDurable, ParkedWait, Question, View, WaitOutcome, WaitReply},
};

/// Refusals that may wait for a slow reader beside the answers of its waits.
const REFUSALS_MAX: usize = 64;

/// What a wait ended with, as far as the state says it.
type Rendered = Result<Later<Outcome>, Status>;

/// What became of one wait, on its way to the stream.
struct Ended {
    wait: u64,
    outcome: Result<(WorkspaceSession, Later<Outcome>), Status>,
}

/// A question and who asks it.
struct Asked {
    session: WorkspaceSession,
    question: Question,
    hold_ms: u64,
}

/// What a wait ended with, in the turn of the actor that ends it.
fn outcome(
    view: &View<'_>,
    role: Option<&RoleId>,
    it: WaitOutcome,
) -> Result<Later<Outcome>, Rejection> {
    let (is_superseded, sequence) = (it.is_superseded, it.sequence.get());
    Ok(match it.answer {
        Answer::Turn(answer) => {
            let answer = turn_loop::outcome(answer, is_superseded, sequence);
            Box::new(|session| answer(session).map(Outcome::Turn))
        }
        Answer::Mail(answer) => {
            let is_waiting = answer.mail.is_none() && !is_superseded;
            let pause = guard::pause_of(view, role, is_waiting);
            let answer = mailbox::outcome(answer, is_superseded, sequence, pause);
            Box::new(|session| answer(session).map(Outcome::Mail))
        }
        Answer::Swarm(answer) => {
            let role = role.expect("a role asks about issues");
            let answer = swarm::outcome(view, role, answer, is_superseded, sequence)?;
            Box::new(|session| answer(session).map(Outcome::Swarm))
        }
        Answer::Board(answer) => {
            let answer = board::outcome(view, answer, is_superseded, sequence);
            Box::new(|session| answer(session).map(Outcome::Board))
        }
        Answer::Run(answer) => {
            let answer = run::outcome(view, answer, is_superseded, sequence)?;
            Box::new(|session| answer(session).map(Outcome::Run))
        }
    })
}

impl WorkspaceSession {
    /// Waits for the one answer to a question. Dropping the future removes the wait.
    pub(super) async fn wait(&self, question: Question, hold_ms: u64) -> Result<Outcome, Status> {
        let (reply, outcome) = oneshot::channel();
        let end = move |outcome| {
            // The caller may be gone; the answer is still there for its next call.
            let _ = reply.send(outcome);
        };
        let parked = self.park_until(question, hold_ms, || end).await?;
        let outcome = outcome.await;
        parked.has_ended();
        outcome.map_err(|_| lost())??(self)
    }

    /// Parks a wait that ends with its outcome as it is rendered.
    async fn park_until<E: FnOnce(Rendered) + Send + 'static>(
        &self,
        question: Question,
        hold_ms: u64,
        end: impl FnOnce() -> E,
    ) -> Result<ParkedWait, Status> {
        let role = question.role().cloned();
        let reply = move || -> WaitReply {
            let end = end();
            Box::new(move |view, ended| -> OnDurable {
                let outcome = ended.and_then(|it| outcome(view, role.as_ref(), it));
                let outcome = outcome.map_err(|rejection| status::rejected(&rejection));
                Box::new(move || end(outcome))
            })
        };
        self.park(question, parse::hold(hold_ms), reply).await
    }
}

fn lost() -> Status {
    Reason::Unavailable.status("the wait was lost; ask again")
}

/// `Park`: parks what the client asks for, and answers each when there is an answer.
pub(super) async fn park(
    services: Services,
    admitted: Admitted,
    asks: Streaming<wire::ParkRequest>,
) -> Result<BoxStream<wire::ParkResponse>, Status> {
    let (ended, outcomes) = mpsc::channel(WAITS_PER_STREAM_MAX + REFUSALS_MAX);
    tokio::spawn(read_asks(services, admitted, asks, ended));
    Ok(Box::pin(ReceiverStream::new(outcomes).map(|ended| Ok(render(ended)))))
}

/// Parks what the client asks for until its side of the stream ends, then removes the rest.
async fn read_asks(
    services: Services,
    admitted: Admitted,
    mut asks: Streaming<wire::ParkRequest>,
    ended: mpsc::Sender<Ended>,
) {
    let open = Open::default();
    loop {
        let ask = tokio::select! {
            ask = asks.next() => ask,
            () = ended.closed() => break,
            () = services.stopping.cancelled() => break,
        };
        let Some(Ok(wire::ParkRequest { wait, ask })) = ask else { break };
        // A client that neither reads nor keeps to the bound loses its stream.
        let Ok(permit) = ended.clone().try_reserve_owned() else { break };
        let parsed = match ask {
            Some(Ask::Cancel(_)) => {
                open.cancel(wait);
                continue;
            }
            Some(Ask::Decline(it)) => {
                // Who may not decline leaves the offer to its time.
                if let Err(status) = decline(&services, &admitted, &it) {
                    tracing::debug!(%status, "an offer was not declined");
                }
                continue;
            }
            Some(Ask::Turn(it)) => {
                let question = turn_loop::question(&it.r#loop, &it.role);
                asked(&services, &admitted, it.caller, question, it.hold_ms)
            }
            Some(Ask::Mail(it)) => {
                let question = mailbox::question(&it);
                asked(&services, &admitted, it.caller, question, it.hold_ms)
            }
            Some(Ask::Swarm(it)) => {
                let question = swarm::question(&it);
                asked(&services, &admitted, it.caller, question, it.hold_ms)
            }
            Some(Ask::Board(it)) => {
                let question = board::question(&it);
                asked(&services, &admitted, it.caller, question, it.hold_ms)
            }
            Some(Ask::Run(it)) => {
                let node = parse::node(&it.caller.clone().unwrap_or_default());
                let question =
                    node.and_then(|node| run::question(&it, node.as_ref().map(|(node, _)| node)));
                asked(&services, &admitted, it.caller, question, it.hold_ms)
            }
            None => Err(status::invalid("ask", &"is missing")),
        };
        park_question(wait, parsed, permit, &open).await;
    }
    // A stopping broker answers the waits that are parked; a client that is gone wants none.
    if !services.stopping.is_cancelled() {
        open.cancel_all();
    }
}

fn asked(
    services: &Services,
    admitted: &Admitted,
    caller: Option<wire::Caller>,
    question: Result<Question, Status>,
    hold_ms: u64,
) -> Result<Asked, Status> {
    let session = services.enter(admitted, caller.as_ref())?;
    Ok(Asked { session, question: question?, hold_ms })
}

/// What a role was offered goes to the next.
fn decline(
    services: &Services,
    admitted: &Admitted,
    it: &park_request::Decline,
) -> Result<(), Status> {
    let session = services.enter(admitted, it.caller.as_ref())?;
    session.decline(parse::id("role", &it.role)?)
}

async fn park_question(
    wait: u64,
    parsed: Result<Asked, Status>,
    permit: OwnedPermit<Ended>,
    open: &Open,
) {
    let counted = parsed.and_then(|asked| {
        open.may_add(wait)?;
        let counted = asked.session.admitted.grant.wait()?;
        Ok((asked, counted))
    });
    let (Asked { session, question, hold_ms }, counted) = match counted {
        Ok(parsed) => parsed,
        Err(status) => {
            permit.send(Ended { wait, outcome: Err(status) });
            return;
        }
    };
    let parked = open.add(wait, permit, counted);
    let end = {
        let (parked, session) = (parked.clone(), session.clone());
        move || {
            let parked = EndOnDrop(parked);
            move |outcome: Rendered| parked.0.end(outcome.map(|it| (session, it)))
        }
    };
    match session.park_until(question, hold_ms, end).await {
        Ok(it) => parked.note_parked(it),
        Err(status) => parked.end(Err(status)),
    }
}

fn render(ended: Ended) -> wire::ParkResponse {
    let outcome = ended.outcome.and_then(|(session, outcome)| outcome(&session));
    let outcome = outcome.unwrap_or_else(|status| {
        Outcome::Refusal(wire::Refusal {
            reason: Reason::of(&status).unwrap_or(Reason::Unavailable).to_string(),
            message: status.message().to_owned(),
        })
    });
    wire::ParkResponse { wait: ended.wait, outcome: Some(outcome) }
}

/// The open waits of one stream.
#[derive(Clone, Default)]
struct Open(Arc<Mutex<OpenWaits>>);

#[derive(Default)]
struct OpenWaits {
    by_number: BTreeMap<u64, Wait>,
    /// Tells a wait from an earlier one of the same number.
    next_serial: u64,
}

struct Wait {
    serial: u64,
    permit: OwnedPermit<Ended>,
    /// Where it is parked; `None` for the moment it takes to get there.
    parked: Option<ParkedWait>,
    /// Its place among the waits of its token.
    _counted: Option<OwnedSemaphorePermit>,
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, OpenWaits> {
        self.0.lock()
    }

    fn may_add(&self, wait: u64) -> Result<(), Status> {
        let waits = &self.lock().by_number;
        if waits.contains_key(&wait) {
            return Err(status::invalid("wait", &format!("{wait} is open already")));
        }
        if WAITS_PER_STREAM_MAX <= waits.len() {
            let text = format!("{WAITS_PER_STREAM_MAX} waits are open on this stream already");
            return Err(Reason::Overloaded.status(text));
        }
        Ok(())
    }

    fn add(
        &self,
        wait: u64,
        permit: OwnedPermit<Ended>,
        counted: Option<OwnedSemaphorePermit>,
    ) -> OpenWait {
        let mut waits = self.lock();
        let serial = waits.next_serial;
        waits.next_serial += 1;
        waits.by_number.insert(wait, Wait { serial, permit, parked: None, _counted: counted });
        OpenWait { open: self.clone(), wait, serial }
    }

    fn cancel(&self, wait: u64) {
        let cancelled = self.lock().by_number.remove(&wait);
        drop(cancelled);
    }

    fn cancel_all(&self) {
        let all = std::mem::take(&mut self.lock().by_number);
        drop(all);
    }
}

/// One wait of a stream, until it is answered or cancelled.
#[derive(Clone)]
struct OpenWait {
    open: Open,
    wait: u64,
    serial: u64,
}

impl OpenWait {
    /// Notes where the wait is parked, unless it was answered meanwhile.
    fn note_parked(&self, parked: ParkedWait) {
        let mut waits = self.open.lock();
        match waits.by_number.get_mut(&self.wait).filter(|it| it.serial == self.serial) {
            Some(it) => it.parked = Some(parked),
            None => parked.has_ended(),
        }
    }

    /// Answers the wait, unless it was answered or cancelled before.
    fn end(&self, outcome: Result<(WorkspaceSession, Later<Outcome>), Status>) {
        let mut waits = self.open.lock();
        if waits.by_number.get(&self.wait).is_none_or(|it| it.serial != self.serial) {
            return;
        }
        let ended = waits.by_number.remove(&self.wait);
        drop(waits);
        if let Some(it) = ended {
            it.parked.into_iter().for_each(ParkedWait::has_ended);
            it.permit.send(Ended { wait: self.wait, outcome });
        }
    }
}

/// A workspace that ends takes its waits with it; whoever waits is told to ask again.
struct EndOnDrop(OpenWait);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end(Err(lost()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_that_is_lost_is_answered_and_one_that_took_its_number_is_not() {
        let (ended, mut outcomes) = mpsc::channel(4);
        let open = Open::default();
        let place = |open: &Open| {
            let permit = ended.clone().try_reserve_owned().unwrap();
            EndOnDrop(open.add(7, permit, None))
        };
        drop(place(&open));
        let lost = outcomes.recv().await.unwrap();
        assert!(matches!(lost, Ended { wait: 7, outcome: Err(_) }));

        let cancelled = place(&open);
        open.cancel(7);
        let newer = place(&open);
        drop(cancelled);
        assert!(outcomes.try_recv().is_err() && open.lock().by_number.len() == 1);
        drop(newer);
        assert_eq!(outcomes.recv().await.unwrap().wait, 7);
    }
}
