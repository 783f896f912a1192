//! Takes connections, and keeps the silent from crowding out the rest.
//!
//! A connection that sends no complete request head within [`HEAD_MS_MAX`] is closed, and so is
//! one that stays idle that long between two requests. When all seats are taken, the oldest
//! connection that has not made a request yet makes room; one that has made a whole request,
//! its body included, is never put out.

use std::{
    collections::BTreeMap,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::Router;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::{body::Incoming, server::conn::http1, service::Service as _};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Connections open at once: some 60 roles with a few dozen clients' connections each, at about
/// 20 KiB.
pub const CONNECTIONS_MAX: usize = 4096;

/// Until a request's head is complete, in milliseconds.
const HEAD_MS_MAX: u64 = 10_000;

/// A request's head, and what is read of a body at once, in bytes.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Before taking connections again when the system had no room for one, in milliseconds.
const RETRY_MS: u64 = 50;

/// Connections put out at once when the system has no room for another.
const PUT_OUT: usize = 64;

#[derive(Debug, Default)]
struct Seats(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    count: usize,
    /// Those that have not made a whole request yet, oldest first.
    silent: BTreeMap<u64, CancellationToken>,
}

/// One connection's place; given back when dropped.
#[derive(Debug)]
struct Seat {
    seats: Arc<Seats>,
    number: u64,
    put_out: CancellationToken,
}

impl Seats {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: every seat is taken by someone who has spoken.
    fn take(self: &Arc<Self>) -> Option<Seat> {
        let mut taken = self.taken();
        if CONNECTIONS_MAX <= taken.count {
            let (_, oldest) = taken.silent.pop_first()?;
            taken.count -= 1;
            oldest.cancel();
        }
        let (number, put_out) = (taken.next, CancellationToken::new());
        taken.next += 1;
        taken.count += 1;
        taken.silent.insert(number, put_out.clone());
        Some(Seat { seats: Arc::clone(self), number, put_out })
    }

    fn put_out(&self, count: usize) {
        let mut taken = self.taken();
        for _ in 0..count {
            let Some((_, oldest)) = taken.silent.pop_first() else { return };
            taken.count -= 1;
            oldest.cancel();
        }
    }
}

impl Seat {
    fn speaker(&self) -> Speaker {
        Speaker { seats: Arc::clone(&self.seats), number: self.number }
    }
}

/// Whoever sits at a place, or has left it.
#[derive(Debug)]
struct Speaker {
    seats: Arc<Seats>,
    number: u64,
}

impl Speaker {
    fn has_spoken(&self) {
        self.seats.taken().silent.remove(&self.number);
    }
}

/// A request's body, which tells when it was read to its end.
#[derive(Debug)]
struct Heard {
    body: Incoming,
    /// `None`: it has told.
    speaker: Option<Speaker>,
}

impl Heard {
    fn new(body: Incoming, speaker: Speaker) -> Self {
        let mut it = Self { body, speaker: Some(speaker) };
        it.tell_if_whole();
        it
    }

    fn tell_if_whole(&mut self) {
        if self.body.is_end_stream()
            && let Some(speaker) = self.speaker.take()
        {
            speaker.has_spoken();
        }
    }
}

impl Body for Heard {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.tell_if_whole();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Whoever put this connection out has counted it off already.
        if !self.put_out.is_cancelled() {
            let mut taken = self.seats.taken();
            taken.silent.remove(&self.number);
            taken.count -= 1;
        }
    }
}

/// Takes connections until `stopping`; an open one then finishes what it is answering, and is
/// cut at `ended`.
pub(super) async fn accept(
    listener: TcpListener,
    app: Router,
    stopping: CancellationToken,
    ended: CancellationToken,
    connections: TaskTracker,
) {
    let seats = Arc::new(Seats::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopping.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(seat) = seats.take() else {
                    tracing::warn!(%peer, "refused a connection: {CONNECTIONS_MAX} are open");
                    continue;
                };
                // Answers are small writes that must not wait for one another.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY");
                }
                connections.spawn(converse(
                    stream,
                    app.clone(),
                    seat,
                    stopping.clone(),
                    ended.clone(),
                ));
            }
            Err(error) => {
                // Of one connection, or of too many open files: neither concerns the listener.
                tracing::warn!(%error, "could not take a connection");
                seats.put_out(PUT_OUT);
                tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
            }
        }
    }
}

async fn converse(
    stream: TcpStream,
    app: Router,
    seat: Seat,
    stopping: CancellationToken,
    ended: CancellationToken,
) {
    let app = TowerToHyperService::new(app);
    let service = hyper::service::service_fn(|request: hyper::Request<Incoming>| {
        app.call(request.map(|body| Heard::new(body, seat.speaker())))
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(HEAD_MS_MAX))
            .max_buf_size(READ_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
    );
    let done = tokio::select! {
        done = connection.as_mut() => done,
        () = seat.put_out.cancelled() => return,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                done = connection.as_mut() => done,
                () = ended.cancelled() => return,
            }
        }
    };
    if let Err(error) = done {
        tracing::debug!(%error, "a connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silent_makes_room_and_speakers_stay() {
        let seats = Arc::new(Seats::default());
        let mut all: Vec<Seat> = (0..CONNECTIONS_MAX).map(|_| seats.take().unwrap()).collect();
        all[0].speaker().has_spoken();
        let late = seats.take().unwrap();
        assert!(!all[0].put_out.is_cancelled());
        assert!(all[1].put_out.is_cancelled());
        all.iter().chain([&late]).for_each(|seat| seat.speaker().has_spoken());
        assert!(seats.take().is_none());
        all.clear();
        drop(late);
        assert_eq!(seats.taken().count, 0);
    }
}
