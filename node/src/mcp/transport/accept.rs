//! Takes connections, and keeps the silent from crowding out the rest.
//!
//! A connection that sends no complete request head within [`HEAD_MS_MAX`] is closed, and so is
//! one that stays idle that long between two requests. When all seats are taken, the oldest
//! connection that has not made a request yet makes room; one that has made a whole request,
//! its body included, is never put out.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    pin::{Pin, pin},
    sync::Arc,
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
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{alive::ends_with_its_peer, bearer::Peer, guarded::Handshakes, security::Here};

/// Connections open at once: 1,000 roles with a few each, or some 60 with a few dozen, at about
/// 20 KiB.
pub const CONNECTIONS_MAX: usize = 4096;

/// Connections open at once of one address, to a guarded server; a machine with many agents has a
/// few dozen.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 512;

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
    /// By address, of those that have any.
    of: BTreeMap<IpAddr, usize>,
    /// Those that have not made a whole request yet, oldest first.
    silent: BTreeMap<u64, CancellationToken>,
}

/// One connection's place; given back when dropped.
#[derive(Debug)]
struct Seat {
    /// `None`: connections of this address are not counted.
    from: Option<IpAddr>,
    seats: Arc<Seats>,
    number: u64,
    put_out: CancellationToken,
}

impl Seats {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock()
    }

    /// `None`: every seat is taken by someone who has spoken, or too many by `from`.
    fn take(self: &Arc<Self>, from: Option<IpAddr>) -> Option<Seat> {
        let mut taken = self.taken();
        let of = from.map_or(0, |from| taken.of.get(&from).copied().unwrap_or(0));
        if CONNECTIONS_PER_ADDRESS_MAX <= of {
            return None;
        }
        if CONNECTIONS_MAX <= taken.count {
            let (_, oldest) = taken.silent.pop_first()?;
            taken.count -= 1;
            oldest.cancel();
        }
        let (number, put_out) = (taken.next, CancellationToken::new());
        taken.next += 1;
        taken.count += 1;
        taken.silent.insert(number, put_out.clone());
        if let Some(from) = from {
            *taken.of.entry(from).or_default() += 1;
        }
        Some(Seat { from, seats: Arc::clone(self), number, put_out })
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
        if let Some(from) = self.from {
            let mut taken = self.seats.taken();
            match taken.of.get_mut(&from) {
                Some(count) if 1 < *count => *count -= 1,
                Some(_) | None => drop(taken.of.remove(&from)),
            }
        }
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
    tls: Option<TlsAcceptor>,
    app: Router,
    stopping: CancellationToken,
    ended: CancellationToken,
    connections: TaskTracker,
) {
    let seats = Arc::new(Seats::default());
    let handshakes = tls.map(Handshakes::new);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopping.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let from = handshakes.is_some().then(|| peer.ip().to_canonical());
                let Some(seat) = seats.take(from) else {
                    tracing::warn!(%peer, "refused a connection: too many are open");
                    continue;
                };
                // Answers are small writes that must not wait for one another.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY");
                }
                if handshakes.is_some() {
                    ends_with_its_peer(&stream);
                }
                let (app, stopping, ended) = (app.clone(), stopping.clone(), ended.clone());
                let here = stream.local_addr().ok().map(Here);
                let ends = (Peer(peer), here);
                let Some(handshakes) = handshakes.clone() else {
                    connections.spawn(converse(stream, app, seat, ends, stopping, ended));
                    continue;
                };
                connections.spawn(async move {
                    let stream = tokio::select! {
                        stream = handshakes.shake(stream, peer.ip()) => stream,
                        () = seat.put_out.cancelled() => return,
                        () = stopping.cancelled() => return,
                    };
                    if let Some(stream) = stream {
                        converse(stream, app, seat, ends, stopping, ended).await;
                    }
                });
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

/// Serves one connection until it ends, is put out, or `ended`.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    app: Router,
    seat: Seat,
    (peer, here): (Peer, Option<Here>),
    stopping: CancellationToken,
    ended: CancellationToken,
) {
    let app = TowerToHyperService::new(app);
    let service = hyper::service::service_fn(|mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        if let Some(here) = here {
            request.extensions_mut().insert(here);
        }
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
        let mut all: Vec<Seat> = (0..CONNECTIONS_MAX).map(|_| seats.take(None).unwrap()).collect();
        all[0].speaker().has_spoken();
        let late = seats.take(None).unwrap();
        assert!(!all[0].put_out.is_cancelled());
        assert!(all[1].put_out.is_cancelled());
        all.iter().chain([&late]).for_each(|seat| seat.speaker().has_spoken());
        assert!(seats.take(None).is_none());
        all.clear();
        drop(late);
        assert_eq!(seats.taken().count, 0);
    }

    #[test]
    fn one_address_does_not_take_the_seats_of_others() {
        let seats = Arc::new(Seats::default());
        let (greedy, other) =
            (Some(IpAddr::from([10, 0, 0, 1])), Some(IpAddr::from([10, 0, 0, 2])));
        let take = |_| seats.take(greedy).unwrap();
        let mut all: Vec<Seat> = (0..CONNECTIONS_PER_ADDRESS_MAX).map(take).collect();
        assert!(seats.take(greedy).is_none());
        drop(seats.take(other).unwrap());
        all.pop();
        all.push(seats.take(greedy).unwrap());
        assert!(seats.take(greedy).is_none());
        all.clear();
        let taken = seats.taken();
        assert_eq!((taken.count, taken.of.len()), (0, 0));
    }
}
