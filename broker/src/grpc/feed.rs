//! `Feed`: what happens in a workspace, live and resumable.
//!
//! A reader is told durable records only. One that falls behind the live channel is caught up
//! from the journal; one that does not read at all holds no more than its own bounded channel,
//! for [`STUCK`], and is told `lagged` as soon as it reads again.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, future, stream};
use prost::Message as _;
use tasuki_proto::{id::Sequence, limits::MESSAGE_BYTES_MAX, reason::Reason, wire};
use tokio::{
    sync::{
        OwnedSemaphorePermit, Semaphore,
        broadcast::{self, error::RecvError},
        mpsc, oneshot,
    },
    time,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, codegen::BoxStream};
use tracing::info;

use super::{Admitted, Services, WorkspaceSession, events, only, render, status};
use crate::{
    journal::{JournalError, codec},
    rules::Record,
};

/// Records sent and not yet read by one subscriber.
const UNREAD_MAX: usize = 256;

/// The same in KiB: as much as the largest record may have.
const UNREAD_KIB_MAX: usize = MESSAGE_BYTES_MAX / 1024;

/// How long a subscriber may not read before it is cut off, to resume when it likes: longer than
/// a network that comes back is away.
const STUCK: Duration = Duration::from_secs(10);

/// Records read back at once: the registration of 1,000 roles has up to 1.1 MB.
const READ_RECORDS: usize = 64;

/// `Subscribe`: what happens in a workspace, from a sequence on.
pub(super) async fn subscribe(
    services: Services,
    admitted: Admitted,
    asked: Streaming<wire::SubscribeRequest>,
) -> Result<BoxStream<wire::FeedItem>, Status> {
    let it = only(asked).await?;
    let session = services.enter(&admitted, it.caller.as_ref())?;
    // Live first, then what lies before: nothing can fall between.
    let live = session.subscribe().await?;
    let newest = session.query(None, |view| Ok(view.workspace.sequence)).await?;
    let next = match (it.from_sequence, it.latest) {
        (0, 0) => newest.next(),
        (0, latest) => Sequence::from(newest.next().get().saturating_sub(latest).max(1)),
        (from, 0) => Sequence::from(from),
        (_, _) => return Err(status::invalid("latest", &"takes the place of from_sequence")),
    };
    if newest.next() < next {
        // What was there is lost with a restore from a backup: whoever waits for what comes next
        // would miss all until then.
        let oldest = newest.next().to_string();
        let text = format!("the newest record is {newest}; start anew from {oldest}");
        return Err(Reason::Compacted.status_with(text, [("oldest", oldest)]));
    }
    if next <= newest && it.latest == 0 {
        // A reader too far behind is told at once, not by a broken stream.
        let first = session.records(next, 1);
        first.map_err(|e| status::reading(&e))?;
    }
    let (items, stream) = mpsc::channel(UNREAD_MAX);
    let (last_word, why) = oneshot::channel();
    let until = it.only_kept.then_some(newest);
    let takes_oldest = it.latest != 0;
    let room = Arc::new(Semaphore::new(UNREAD_KIB_MAX));
    let last_word = Some(last_word);
    let reader = Reader { session, next, takes_oldest, until, items, room, last_word };
    tokio::spawn(reader.run(live));
    // It has a place of its own, so it is never waited for.
    let why = stream::once(why).filter_map(|why| future::ready(why.ok().map(Err)));
    let items = ReceiverStream::new(stream).map(|Unread { item, _room }| Ok(item));
    Ok(Box::pin(items.chain(why)))
}

struct Reader {
    session: WorkspaceSession,
    /// The sequence to send next.
    next: Sequence,
    /// Records that left the journal meanwhile are passed over: nothing was sent so far, and it may
    /// begin later than was asked for, or it asked for what is kept alone.
    takes_oldest: bool,
    /// The last one that is sent; `None`: it goes on.
    until: Option<Sequence>,
    items: mpsc::Sender<Unread>,
    /// For what is not read yet, in KiB.
    room: Arc<Semaphore>,
    /// Why the stream ends, if there is something to say about it.
    last_word: Option<oneshot::Sender<Status>>,
}

struct Unread {
    item: wire::FeedItem,
    /// Given back when it is read.
    _room: OwnedSemaphorePermit,
}

/// The subscriber is gone, or was told why the stream ends.
struct Done;

impl Reader {
    async fn run(mut self, live: broadcast::Receiver<Arc<Record>>) {
        let stopping = self.session.services.stopping.clone();
        tokio::select! {
            Err(Done) = self.follow(live) => {}
            () = stopping.cancelled() => {}
        }
    }

    async fn follow(&mut self, mut live: broadcast::Receiver<Arc<Record>>) -> Result<(), Done> {
        self.catch_up().await?;
        if self.until.is_some() {
            return Err(Done);
        }
        loop {
            let received = tokio::select! {
                received = live.recv() => received,
                () = self.items.closed() => return Err(Done),
            };
            match received {
                Ok(record) if record.sequence < self.next => {}
                Ok(record) if record.sequence == self.next => self.send(&record).await?,
                Ok(_) | Err(RecvError::Lagged(_)) => self.catch_up().await?,
                Err(RecvError::Closed) => {
                    let text = "the workspace was restarted; resume after the last sequence seen";
                    return Err(self.end(Reason::Lagged.status(text)));
                }
            }
        }
    }

    /// Sends what the journal has from `next` on.
    async fn catch_up(&mut self) -> Result<(), Done> {
        while self.until.is_none_or(|until| self.next <= until) {
            let records = match self.session.records(self.next, READ_RECORDS) {
                Ok(records) if records.is_empty() => return Ok(()),
                Ok(records) => records,
                Err(JournalError::Compacted { oldest }) if self.takes_oldest => {
                    self.next = oldest;
                    continue;
                }
                Err(error) => return Err(self.end(status::reading(&error))),
            };
            for stored in records {
                if self.until.is_some_and(|until| until < stored.sequence) {
                    return Ok(());
                }
                match codec::decode_record(stored.record) {
                    Ok(record) => self.send(&record).await?,
                    Err(error) => {
                        let error = JournalError::Damaged {
                            place: format!(
                                "workspace {}, {}",
                                self.session.workspace, stored.sequence
                            ),
                            what: error.to_string(),
                        };
                        return Err(self.end(status::reading(&error)));
                    }
                }
            }
        }
        Ok(())
    }

    async fn send(&mut self, record: &Record) -> Result<(), Done> {
        let grant = &self.session.admitted.grant;
        let item = wire::FeedItem {
            sequence: record.sequence.get(),
            at_ms: record.time.as_millis(),
            node: render::text(record.principal.node.as_ref()),
            role: render::text(record.principal.role.as_ref()),
            person: render::text(record.principal.person.as_ref()),
            events: record.events.iter().filter_map(|it| events::render(it, grant)).collect(),
            token: render::text(record.principal.token.as_ref()),
        };
        let kib = item.encoded_len().div_ceil(1024).min(UNREAD_KIB_MAX);
        let kib = u32::try_from(kib).expect("it is bounded");
        let send = async {
            let room = self.room.clone().acquire_many_owned(kib).await;
            let _room = room.expect("nobody closes it");
            self.items.send(Unread { item, _room }).await
        };
        match time::timeout(STUCK, send).await {
            Ok(Ok(())) => {
                self.next = record.sequence.next();
                self.takes_oldest &= self.until.is_some();
                Ok(())
            }
            Ok(Err(_)) => Err(Done),
            Err(_) => {
                let (workspace, next) = (&self.session.workspace, self.next);
                info!(%workspace, %next, "a subscriber does not read and is cut off");
                let text = format!(
                    "nothing was read for {} s; resume after the last sequence seen",
                    STUCK.as_secs()
                );
                Err(self.end(Reason::Lagged.status(text)))
            }
        }
    }

    /// Says why the stream ends, once everything before was read.
    fn end(&mut self, status: Status) -> Done {
        if let Some(last_word) = self.last_word.take() {
            // A subscriber that is gone needs no word.
            drop(last_word.send(status));
        }
        Done
    }
}
