//! `Waits`: all waits of a client over one stream.
//!
//! Each wait reserves its place in the stream's channel when it is parked, so an answer always
//! has room and a client that does not read cannot make the broker hold more than its bound.

use std::{collections::BTreeMap, pin::Pin, sync::Arc};

use futures::Stream;
use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{
    id::RoleId,
    limits::WAITS_PER_STREAM_MAX,
    reason::Reason,
    wire::{
        self,
        park_request::{self, Ask},
        park_response::Outcome,
        waits_server::Waits,
    },
};
use tokio::sync::{
    OwnedSemaphorePermit,
    mpsc::{self, OwnedPermit},
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming};

use super::{
    Service, mailbox, parse,
    session::{Admitted, WorkspaceSession},
    status, swarm,
};
use crate::{
    rules::Rejection,
    workspace::{Answer, Handle, Question, WaitId, WaitOutcome, WaitReply},
};

/// Refusals that may wait for a slow reader beside the answers of its waits.
const REFUSALS_MAX: usize = 64;

type Responses = Pin<Box<dyn Stream<Item = Result<wire::ParkResponse, Status>> + Send>>;

/// What became of one wait, on its way to the stream.
struct Ended {
    wait: u64,
    outcome: Result<(WorkspaceSession, RoleId, WaitOutcome), Refused>,
}

/// A question and who asks it.
struct Asked {
    session: WorkspaceSession,
    question: Question,
    hold_ms: u64,
}

enum Refused {
    Rejected(Rejection),
    Status(Status),
}

#[tonic::async_trait]
impl Waits for Service {
    type ParkStream = Responses;

    async fn park(
        &self,
        request: Request<Streaming<wire::ParkRequest>>,
    ) -> Result<Response<Responses>, Status> {
        let (ended, outcomes) = mpsc::channel(WAITS_PER_STREAM_MAX + REFUSALS_MAX);
        let admitted = Admitted::stream(&request)?;
        tokio::spawn(self.clone().read_asks(admitted, request.into_inner(), ended));
        let responses =
            ReceiverStream::new(outcomes).then(|ended| async { Ok(render(ended).await) });
        Ok(Response::new(Box::pin(responses)))
    }
}

impl Service {
    /// Parks what the client asks for until its side of the stream ends, then removes the rest.
    async fn read_asks(
        self,
        admitted: Admitted,
        mut asks: Streaming<wire::ParkRequest>,
        ended: mpsc::Sender<Ended>,
    ) {
        let open = Open::default();
        loop {
            let ask = tokio::select! {
                ask = asks.next() => ask,
                () = ended.closed() => break,
                () = self.stopping.cancelled() => break,
            };
            let Some(Ok(wire::ParkRequest { wait, ask })) = ask else { break };
            // A client that neither reads nor keeps to the bound loses its stream.
            let Ok(permit) = ended.clone().try_reserve_owned() else { break };
            match ask {
                Some(Ask::Cancel(_)) => open.cancel(wait),
                Some(Ask::Decline(it)) => {
                    // Who may not decline leaves the offer to its time.
                    if let Err(status) = self.decline(&admitted, &it) {
                        tracing::debug!(%status, "an offer was not declined");
                    }
                }
                Some(Ask::Turn(asked)) => {
                    let parsed = self.turn_question(&admitted, &asked);
                    self.park_question(wait, parsed, permit, &open).await;
                }
                Some(Ask::Mail(asked)) => {
                    let parsed = self.mail_question(&admitted, &asked);
                    self.park_question(wait, parsed, permit, &open).await;
                }
                Some(Ask::Swarm(asked)) => {
                    let parsed = self.swarm_question(&admitted, &asked);
                    self.park_question(wait, parsed, permit, &open).await;
                }
                None => {
                    let status = status::invalid("ask", &"is missing");
                    permit.send(Ended { wait, outcome: Err(Refused::Status(status)) });
                }
            }
        }
        // A stopping broker answers the waits that are parked; a client that is gone wants none.
        if !self.stopping.is_cancelled() {
            open.cancel_all();
        }
    }

    fn decline(&self, admitted: &Admitted, it: &park_request::Decline) -> Result<(), Status> {
        let session = self.services.enter_as(admitted, it.caller.as_ref())?;
        session.decline(parse::id("role", &it.role)?)
    }

    fn turn_question(
        &self,
        admitted: &Admitted,
        asked: &wire::TurnQuestion,
    ) -> Result<Asked, Status> {
        let session = self.services.enter_as(admitted, asked.caller.as_ref())?;
        let question = Question::Turn {
            loop_id: parse::loop_id(&asked.r#loop)?,
            role: parse::id("role", &asked.role)?,
        };
        Ok(Asked { session, question, hold_ms: parse::hold(asked.hold_ms) })
    }

    fn mail_question(
        &self,
        admitted: &Admitted,
        asked: &wire::AwaitMailRequest,
    ) -> Result<Asked, Status> {
        let session = self.services.enter_as(admitted, asked.caller.as_ref())?;
        let question = mailbox::question(asked)?;
        Ok(Asked { session, question, hold_ms: parse::hold(asked.hold_ms) })
    }

    fn swarm_question(
        &self,
        admitted: &Admitted,
        asked: &wire::SwarmQuestion,
    ) -> Result<Asked, Status> {
        let session = self.services.enter_as(admitted, asked.caller.as_ref())?;
        let question = swarm::question(asked)?;
        Ok(Asked { session, question, hold_ms: parse::hold(asked.hold_ms) })
    }

    async fn park_question(
        &self,
        wait: u64,
        parsed: Result<Asked, Status>,
        permit: OwnedPermit<Ended>,
        open: &Open,
    ) {
        let counted = parsed.and_then(|asked| {
            open.may_add(wait)?;
            let place = asked.session.wait()?;
            Ok((asked, place))
        });
        let (Asked { session, question, hold_ms }, counted) = match counted {
            Ok(parsed) => parsed,
            Err(status) => {
                permit.send(Ended { wait, outcome: Err(Refused::Status(status)) });
                return;
            }
        };
        let place = open.add(wait, permit, counted);
        let sink = {
            let (place, session) = (place.clone(), session.clone());
            let role = question.role().clone();
            move || -> WaitReply {
                let place = EndOnDrop(place);
                Box::new(move |told| {
                    let outcome = told.map(|told| (session, role, told));
                    let outcome = outcome.map_err(Refused::Rejected);
                    place.0.end(outcome);
                })
            }
        };
        match session.park(question.clone(), hold_ms, sink).await {
            Ok((handle, id)) => place.parked(handle, question, id),
            Err(status) => place.end(Err(Refused::Status(status))),
        }
    }
}

async fn render(ended: Ended) -> wire::ParkResponse {
    let rendered = match ended.outcome {
        Ok((session, role, told)) => match &told.answer {
            Answer::Turn(_) => session.turn_answer(&told).map(Outcome::Turn),
            Answer::Mail(_) => session.mail_answer(&told).map(Outcome::Mail),
            Answer::Swarm(_) => session.swarm_answer(&role, &told).await.map(Outcome::Swarm),
        },
        Err(Refused::Rejected(rejection)) => Err(status::rejected(&rejection)),
        Err(Refused::Status(status)) => Err(status),
    };
    let outcome = match rendered {
        Ok(outcome) => outcome,
        Err(status) => Outcome::Refusal(wire::Refusal {
            reason: Reason::of(&status).unwrap_or(Reason::Unavailable).to_string(),
            message: status.message().to_owned(),
        }),
    };
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
    parked: Option<(Handle, Question, WaitId)>,
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
    ) -> Place {
        let mut waits = self.lock();
        let serial = waits.next_serial;
        waits.next_serial += 1;
        waits.by_number.insert(wait, Wait { serial, permit, parked: None, _counted: counted });
        Place { open: self.clone(), wait, serial }
    }

    fn cancel(&self, wait: u64) {
        let cancelled = self.lock().by_number.remove(&wait);
        if let Some((handle, question, id)) = cancelled.and_then(|it| it.parked) {
            handle.cancel(question, id);
        }
    }

    fn cancel_all(&self) {
        let all = std::mem::take(&mut self.lock().by_number);
        for (handle, question, id) in all.into_values().filter_map(|it| it.parked) {
            handle.cancel(question, id);
        }
    }
}

/// One wait of a stream, until it is answered or cancelled.
#[derive(Clone)]
struct Place {
    open: Open,
    wait: u64,
    serial: u64,
}

impl Place {
    /// Notes where the wait is parked, unless it was answered meanwhile.
    fn parked(&self, handle: Handle, question: Question, id: WaitId) {
        let mut waits = self.open.lock();
        if let Some(it) = waits.by_number.get_mut(&self.wait).filter(|it| it.serial == self.serial)
        {
            it.parked = Some((handle, question, id));
        }
    }

    /// Answers the wait, unless it was answered or cancelled before.
    fn end(&self, outcome: Result<(WorkspaceSession, RoleId, WaitOutcome), Refused>) {
        let mut waits = self.open.lock();
        if waits.by_number.get(&self.wait).is_none_or(|it| it.serial != self.serial) {
            return;
        }
        let ended = waits.by_number.remove(&self.wait);
        drop(waits);
        if let Some(it) = ended {
            it.permit.send(Ended { wait: self.wait, outcome });
        }
    }
}

/// A workspace that ends takes its waits with it; whoever waits is told to ask again.
struct EndOnDrop(Place);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let status = Reason::Unavailable.status("the wait was lost; ask again");
        self.0.end(Err(Refused::Status(status)));
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
        assert!(matches!(lost, Ended { wait: 7, outcome: Err(Refused::Status(_)) }));

        let cancelled = place(&open);
        open.cancel(7);
        let newer = place(&open);
        drop(cancelled);
        assert!(outcomes.try_recv().is_err() && open.lock().by_number.len() == 1);
        drop(newer);
        assert_eq!(outcomes.recv().await.unwrap().wait, 7);
    }
}
