//! Waits of all roles over one stream.
//!
//! A wait outlives its stream: when the connection breaks, or the broker restarts, what is open
//! is parked again with what is left of its hold, and the caller does not notice. A wait whose
//! caller went away is cancelled at the broker.
//!
//! **L3** At most [`WAITS_PER_STREAM_MAX`] waits are open, and each is answered no later than its
//! hold says, give or take [`GRACE_MS`] for the broker's own answer, or [`UNREACHED_MS_MAX`] if
//! that is longer. One that the broker was never asked, and a look that it did not answer, are
//! refused after [`UNREACHED_MS_MAX`], each with what is known of it.

mod table;

use std::{
    collections::BTreeSet,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tasuki_proto::{
    id::{Epoch, RoleId},
    limits::{HOLD_MS_MAX, WAITS_PER_STREAM_MAX},
    reason::Reason,
    wire::{self, park_request, park_response::Outcome},
};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{self, Instant},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use self::table::{Open, Table};
use super::{LinkState, Phase, Shared, state::turned_away, stopping};
use crate::{
    client::{
        channel,
        connection::Witness,
        retry::{Backoff, Failure, UNREACHED_MS_MAX, chance},
    },
    limiter::Permit,
    refusal::Refusal,
    wait::{Answer, Question},
};

/// Questions between the callers and the stream; a caller waits for room.
const ASKED_MAX: usize = 64;

/// Messages between the table and HTTP/2, which has buffers of its own.
const STREAM_BUFFER: usize = 16;

/// Messages that wait for the stream to take them: each open wait's question and its cancel.
const UNSENT_MAX: usize = 2 * WAITS_PER_STREAM_MAX;

/// How long the broker's own answer at the end of a hold is waited for, in milliseconds: a trip
/// over a slow network.
const GRACE_MS: u64 = 500;

/// How long the broker may take to open the stream, in milliseconds, before the connection comes
/// under doubt: some round trips of a slow network.
const OPENING_MS: u64 = 500;

/// An early end of a hold by more than this, in milliseconds, is a broker that is stopping.
const EARLY_MS: u64 = 1_000;

/// Where waits are opened.
#[derive(Debug, Clone)]
pub(super) struct Waits {
    asks: mpsc::Sender<Ask>,
    latest: Arc<AtomicU64>,
    dropped: Arc<Dropped>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Ask {
    wait: u64,
    open: Open,
}

/// What callers that went away left behind.
#[derive(Debug, Default)]
struct Dropped {
    /// Their waits. Never more than are open.
    waits: Mutex<Vec<u64>>,
    /// Roles whose offers nobody acts on.
    declined: Mutex<BTreeSet<RoleId>>,
    notify: Notify,
}

/// Removes its wait unless it was answered.
struct CancelOnDrop {
    dropped: Arc<Dropped>,
    wait: Option<u64>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(wait) = self.wait {
            self.dropped.waits.lock().push(wait);
            self.dropped.notify.notify_one();
        }
    }
}

impl Waits {
    pub(super) fn start(shared: &Arc<Shared>) -> Self {
        let (asks, asked) = mpsc::channel(ASKED_MAX);
        let dropped = Arc::new(Dropped::default());
        let multiplexer = Multiplexer {
            state: shared.state.subscribe(),
            shared: shared.clone(),
            asked,
            dropped: dropped.clone(),
            table: Table::default(),
            stream: None,
            stale: Epoch::NONE,
            backoff: Backoff::default(),
            not_before: Instant::now(),
        };
        shared.spawn(multiplexer.run());
        Self { asks, latest: Arc::new(AtomicU64::new(0)), dropped, shared: shared.clone() }
    }

    /// Nobody acts on what the role was offered, so it goes to the next. Told behind the cancels of
    /// the waits that were dropped before.
    pub(super) fn decline(&self, role: RoleId) {
        self.dropped.declined.lock().insert(role);
        self.dropped.notify.notify_one();
    }

    /// Asks until `hold` is over; `permit` is given back when nothing of it is left here.
    pub(super) async fn ask(
        &self,
        role: Option<RoleId>,
        question: Question,
        hold: Duration,
        permit: Permit,
    ) -> Result<Answer, Refusal> {
        let hold = hold.min(Duration::from_millis(HOLD_MS_MAX));
        let wait = self.latest.fetch_add(1, Ordering::Relaxed) + 1;
        let (reply, answer) = oneshot::channel();
        let now = Instant::now();
        // Whoever waits anyway hears of a broker that is away slowly: it only calls again.
        let patience = if hold.is_zero() {
            self.shared.patience()
        } else {
            Duration::from_millis(UNREACHED_MS_MAX)
        };
        let open = Open {
            role,
            question,
            reply,
            hold_ends: now + hold,
            deadline: now + patience,
            is_look: hold.is_zero(),
            is_parked: false,
            _permit: permit,
        };
        if self.asks.send(Ask { wait, open }).await.is_err() {
            return Err(stopping());
        }
        let mut cancel = CancelOnDrop { dropped: self.dropped.clone(), wait: Some(wait) };
        let answer = answer.await;
        cancel.wait = None;
        answer.unwrap_or_else(|_| Err(stopping()))
    }
}

/// The one task that owns the stream.
struct Multiplexer {
    shared: Arc<Shared>,
    state: watch::Receiver<LinkState>,
    asked: mpsc::Receiver<Ask>,
    dropped: Arc<Dropped>,
    table: Table,
    stream: Option<Stream>,
    /// The epoch under which waits were refused; nothing is parked under it again.
    stale: Epoch,
    backoff: Backoff,
    /// No new stream before this.
    not_before: Instant,
}

struct Stream {
    epoch: Epoch,
    /// What stood when it was begun.
    witness: Witness,
    /// When to doubt the connection, as long as the stream is not open.
    suspect_at: Option<Instant>,
    requests: mpsc::Sender<wire::ParkRequest>,
    responses: Responses,
}

type Opening = Pin<Box<dyn Future<Output = Result<Streaming<wire::ParkResponse>, Status>> + Send>>;

enum Responses {
    Opening(Opening),
    Open(Box<Streaming<wire::ParkResponse>>),
}

enum StreamEvent {
    Opened,
    /// The broker will have no waits of this node.
    TurnedAway(Refusal),
    Response(Box<wire::ParkResponse>),
    /// Nothing of it left this node.
    Unreached(String),
    Broken(String),
}

impl Multiplexer {
    async fn run(mut self) {
        let closing = self.shared.closing.clone();
        loop {
            let has_room = self.table.unsent.len() < UNSENT_MAX;
            let may_open = self.may_open();
            let deadline = self.table.next_deadline();
            let suspect_at = self.stream.as_ref().and_then(|stream| stream.suspect_at);
            let requests = self.stream.as_ref().map(|stream| stream.requests.clone());
            tokio::select! {
                () = closing.cancelled() => break,
                Some(ask) = self.asked.recv(), if has_room => self.open(ask),
                () = self.dropped.notify.notified(), if has_room => self.cancel_dropped(),
                () = at(deadline), if deadline.is_some() => self.expire(),
                () = at(suspect_at), if suspect_at.is_some() => self.suspect_connection(),
                _ = self.state.changed() => self.follow_state(),
                () = time::sleep_until(self.not_before), if may_open => self.open_stream(),
                permit = reserve(requests), if !self.table.unsent.is_empty() => {
                    if let (Some(permit), Some(request)) = (permit, self.table.unsent.pop_front()) {
                        permit.send(request);
                    }
                }
                event = next_event(&mut self.stream) => self.handle(event),
            }
        }
        self.asked.close();
        while let Some(ask) = self.asked.recv().await {
            ask.open.still_waiting();
        }
        self.table.drain().for_each(Open::still_waiting);
    }

    /// A stream is opened when there is something to ask, and somebody to ask.
    fn may_open(&self) -> bool {
        let state = self.state.borrow();
        self.stream.is_none()
            && !self.table.is_empty()
            && state.is_connected()
            && state.epoch != self.stale
    }

    fn open(&mut self, ask: Ask) {
        // Whoever asked may be gone already, and have said so before this was heard.
        if ask.open.reply.is_closed() {
            return;
        }
        let state = self.state.borrow();
        if let Phase::Refused(refusal) = &state.phase {
            ask.open.refuse(refusal.clone());
            return;
        }
        drop(state);
        let Ask { wait, mut open } = ask;
        if let Some(stream) = &self.stream {
            if matches!(stream.responses, Responses::Open(_)) {
                open.park();
            }
            let request = self.question(wait, &open);
            self.table.unsent.push_back(request);
        }
        assert!(self.table.len() < WAITS_PER_STREAM_MAX, "L3: each open wait has a permit");
        self.table.insert(wait, open);
    }

    fn cancel_dropped(&mut self) {
        let Dropped { waits, declined, .. } = &*self.dropped;
        // In this order: a wait was dropped before its offer was declined.
        let declined = std::mem::take(&mut *declined.lock());
        let waits = std::mem::take(&mut *waits.lock());
        for wait in waits {
            if self.table.remove(wait).is_some() && self.stream.is_some() {
                let ask = Some(park_request::Ask::Cancel(park_request::Cancel {}));
                self.table.unsent.push_back(wire::ParkRequest { wait, ask });
            }
        }
        for role in declined {
            // Without a stream the broker offers nothing, or for a while.
            if self.stream.is_some() {
                let (caller, role) = (Some(self.shared.caller()), role.to_string());
                let decline = park_request::Decline { caller, role };
                let ask = Some(park_request::Ask::Decline(decline));
                self.table.unsent.push_back(wire::ParkRequest { wait: 0, ask });
            }
        }
    }

    fn expire(&mut self) {
        if self.may_have_asked() {
            self.table.mark_parked();
        }
        let (now, broker) = (Instant::now(), &self.shared.settings.broker);
        while let Some(open) = self.table.pop_due(now) {
            match (open.is_parked, open.is_look) {
                (true, false) => open.still_waiting(),
                // How it stands is the broker's to say.
                (true, true) => open.refuse(self.state.borrow().unanswered(broker)),
                (false, _) => open.refuse(self.state.borrow().unasked(broker)),
            }
        }
    }

    /// Whether what was put on the stream may have left this node.
    fn may_have_asked(&self) -> bool {
        let connections = self.shared.client.connections();
        self.stream.as_ref().is_some_and(|stream| connections.may_have_carried(stream.witness))
    }

    /// The broker says nothing: is it there?
    fn suspect_connection(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.suspect_at = None;
            self.shared.suspect_connection();
        }
    }

    /// What it carried is asked again over the next one.
    fn drop_stream(&mut self) {
        if self.may_have_asked() {
            self.table.mark_parked();
        }
        self.stream = None;
    }

    fn follow_state(&mut self) {
        let state = self.state.borrow_and_update().clone();
        match state.phase {
            Phase::Refused(refusal) => {
                self.stream = None;
                self.table.drain().for_each(|open| open.refuse(refusal.clone()));
            }
            Phase::Connected => {
                if self.stream.as_ref().is_some_and(|stream| stream.epoch != state.epoch) {
                    self.drop_stream();
                }
                if self.stream.is_none() {
                    self.backoff.reset();
                    self.not_before = Instant::now();
                }
            }
            Phase::Connecting | Phase::Down(_) => {}
        }
    }

    fn open_stream(&mut self) {
        let (requests, sent) = mpsc::channel(STREAM_BUFFER);
        let mut client = channel::waits(self.shared.client.channel());
        let opening = async move {
            let opened = client.park(ReceiverStream::new(sent)).await?;
            Ok(opened.into_inner())
        };
        self.stream = Some(Stream {
            epoch: self.shared.epoch(),
            witness: self.shared.client.connections().witness(),
            suspect_at: Some(Instant::now() + Duration::from_millis(OPENING_MS)),
            requests,
            responses: Responses::Opening(Box::pin(opening)),
        });
        self.table.unsent.clear();
        let questions: Vec<_> =
            self.table.iter().map(|(wait, open)| self.question(wait, open)).collect();
        self.table.unsent.extend(questions);
    }

    fn question(&self, wait: u64, open: &Open) -> wire::ParkRequest {
        let left = open.hold_ends.saturating_duration_since(Instant::now());
        let hold_ms = u64::try_from(left.as_millis()).unwrap_or(HOLD_MS_MAX);
        let ask = Some(open.question.to_wire(self.shared.caller(), open.role.as_ref(), hold_ms));
        wire::ParkRequest { wait, ask }
    }

    fn handle(&mut self, event: StreamEvent) {
        let response = match event {
            StreamEvent::Opened => {
                if let Some(stream) = &mut self.stream {
                    stream.suspect_at = None;
                }
                return self.table.mark_parked();
            }
            StreamEvent::Unreached(why) => {
                self.stream = None;
                return self.lose_stream(&why);
            }
            StreamEvent::Broken(why) => return self.lose_stream(&why),
            StreamEvent::TurnedAway(refusal) => {
                self.lose_stream(&refusal.message);
                let refusal = turned_away(refusal);
                self.table.drain().for_each(|open| open.refuse(refusal.clone()));
                return;
            }
            StreamEvent::Response(response) => response,
        };
        let wait = response.wait;
        let answer = match response.outcome {
            Some(Outcome::Turn(answer)) => Answer::Turn(Box::new(answer)),
            Some(Outcome::Mail(answer)) => Answer::Mail(Box::new(answer)),
            Some(Outcome::Swarm(answer)) => Answer::Swarm(Box::new(answer)),
            Some(Outcome::Refusal(refusal)) => return self.refused(wait, refusal),
            Some(Outcome::Board(answer)) => Answer::Board(Box::new(answer)),
            Some(Outcome::Run(answer)) => Answer::Run(Box::new(answer)),
            None => return self.refused(wait, wire::Refusal::default()),
        };
        if answer.is_still_waiting() && self.table.has_left(wait, EARLY_MS) {
            return self.lose_stream("the broker let a wait go early");
        }
        self.backoff.reset();
        if let Some(open) = self.table.remove(wait) {
            open.answer(answer);
        }
    }

    fn refused(&mut self, wait: u64, refusal: wire::Refusal) {
        let wire::Refusal { reason, message } = refusal;
        // A reason that only a newer broker knows: nothing happened, as with every wait.
        let reason = Reason::parse(&reason).unwrap_or(Reason::Unavailable);
        let refusal = match Failure::of_refusal(reason, message) {
            Failure::StaleEpoch(_) => {
                if let Some(stream) = self.stream.take() {
                    self.stale = stream.epoch;
                    self.shared.report_stale(stream.epoch);
                }
                return;
            }
            Failure::NotTaken(refusal) | Failure::Refused(refusal) => refusal,
            Failure::TurnedAway(refusal) => {
                self.shared.suspect.notify_one();
                turned_away(refusal)
            }
            Failure::Lost(message) | Failure::Unsure(message) => {
                Refusal { reason: Reason::Unavailable, message }
            }
        };
        if refusal.reason == Reason::Unavailable && self.table.has_left(wait, EARLY_MS) {
            self.lose_stream(&refusal.message);
        } else if let Some(open) = self.table.remove(wait) {
            open.refuse(refusal);
        }
    }

    fn lose_stream(&mut self, why: &str) {
        tracing::debug!(why, waits = self.table.len(), "the wait stream is to be opened again");
        self.drop_stream();
        self.not_before = Instant::now() + self.backoff.pause(chance());
        self.shared.suspect.notify_one();
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn reserve(
    requests: Option<mpsc::Sender<wire::ParkRequest>>,
) -> Option<mpsc::OwnedPermit<wire::ParkRequest>> {
    match requests {
        Some(requests) => match requests.reserve_owned().await {
            Ok(permit) => Some(permit),
            // The stream has ended; that is heard from its other half.
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// What the stream says next. Safe to drop at any await.
async fn next_event(stream: &mut Option<Stream>) -> StreamEvent {
    let Some(stream) = stream else { return std::future::pending().await };
    let broken = |status: Status| match Failure::of(&status) {
        Failure::TurnedAway(refusal) => StreamEvent::TurnedAway(refusal),
        Failure::NotTaken(refusal) => StreamEvent::Unreached(refusal.message),
        Failure::Refused(refusal) => StreamEvent::Broken(refusal.message),
        Failure::Lost(why) | Failure::Unsure(why) | Failure::StaleEpoch(why) => {
            StreamEvent::Broken(why)
        }
    };
    match &mut stream.responses {
        Responses::Opening(opening) => match opening.await {
            Ok(open) => {
                stream.responses = Responses::Open(Box::new(open));
                StreamEvent::Opened
            }
            Err(status) => broken(status),
        },
        Responses::Open(open) => match open.message().await {
            Ok(Some(response)) => StreamEvent::Response(Box::new(response)),
            Ok(None) => StreamEvent::Broken("the broker ended the stream".to_owned()),
            Err(status) => broken(status),
        },
    }
}
