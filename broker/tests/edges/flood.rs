//! Strangers in numbers, and HTTP/2 used as a weapon: each is bounded, and whoever has a token is
//! answered meanwhile.

use std::time::Duration;

use bytes::Bytes;
use tasuki_broker::connection::{SILENT_MS_MAX, STRANGERS_MAX, STRANGERS_PER_ADDRESS_MAX};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, task::JoinSet, time::Instant};
use tokio_rustls::client::TlsStream;

use crate::{
    strangers::{ELSEWHERE, Guarded, rest, tcp},
    support::soon,
};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// The kind of frame that begins a call.
pub(crate) const HEADERS: u8 = 1;

/// How much memory an attack on one connection may cost the broker, in KiB.
pub(crate) const ATTACK_KIB_MAX: u64 = 32 * 1024;

/// Descriptors beside those of strangers: calls that are under way, the database.
const OTHERS: usize = 32;

/// An HTTP/2 connection that shows no token.
pub(crate) async fn stranger(guarded: &Guarded) -> h2::client::SendRequest<Bytes> {
    let stream = guarded.tls(ELSEWHERE).await;
    let (send, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    send
}

fn call() -> http::request::Builder {
    http::Request::post("https://127.0.0.1/tasuki.v1.TurnLoop/GetLoop")
        .header("content-type", "application/grpc")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_connections_of_one_address_keep_nobody_out() {
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    let before = guarded.broker.descriptors();
    // From an address of their own, and from the one where the good calls come from.
    for from in [ELSEWHERE, "127.0.0.1"] {
        let mut silent = JoinSet::new();
        for _ in 0..1000 {
            let mut stream = tcp(from, guarded.address).await;
            silent.spawn(async move { rest(&mut stream).await });
        }
        // All but the address's share are closed at once, not when patience ends.
        while STRANGERS_PER_ADDRESS_MAX < silent.len() {
            guarded.good_call().await;
            let open = guarded.broker.descriptors();
            let allowed = before + STRANGERS_PER_ADDRESS_MAX + OTHERS;
            assert!(open <= allowed, "{open} descriptors, {allowed} allowed");
            while let Some(closed) = silent.try_join_next() {
                closed.unwrap();
            }
        }
        let opened = Instant::now();
        while let Some(closed) = soon("patience ends", silent.join_next()).await {
            closed.unwrap();
        }
        assert!(opened.elapsed() < Duration::from_millis(SILENT_MS_MAX + 3000));
    }
    guarded.good_call().await;
    guarded.broker.kill().await;
}

/// Holds V2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_from_many_addresses_keep_nobody_out() {
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    let before = guarded.broker.descriptors();
    let mut silent = Vec::new();
    // Half as many again as there may be.
    for host in 1..=STRANGERS_MAX * 3 / 2 / STRANGERS_PER_ADDRESS_MAX {
        for _ in 0..STRANGERS_PER_ADDRESS_MAX {
            silent.push(tcp(&format!("127.0.1.{host}"), guarded.address).await);
        }
        guarded.good_call().await;
        let open = guarded.broker.descriptors();
        let allowed = before + STRANGERS_MAX + OTHERS;
        assert!(open <= allowed, "{open} descriptors, {allowed} allowed");
    }
    guarded.good_call().await;
    guarded.broker.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_reset_at_once_end_their_connection() {
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    let mut send = stranger(&guarded).await;
    let mut opened = 0;
    let attack = async {
        loop {
            let Ok(mut ready) = send.clone().ready().await else { break };
            let Ok((_, mut stream)) = ready.send_request(call().body(()).unwrap(), false) else {
                break;
            };
            stream.send_reset(h2::Reason::CANCEL);
            opened += 1;
        }
    };
    soon("the connection ends", attack).await;
    assert!(opened < 10_000, "{opened} calls were opened and reset");
    let ended = send.send_request(call().body(()).unwrap(), true);
    assert!(ended.is_err());
    guarded.good_call().await;
    guarded.broker.kill().await;
}

#[tokio::test]
async fn a_header_over_the_limit_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    let mut send = stranger(&guarded).await;
    let request = call().header("large", "x".repeat(64 * 1024)).body(()).unwrap();
    let answered = match send.send_request(request, true) {
        Ok((answer, _)) => soon("a refusal", answer).await,
        Err(error) => Err(error),
    };
    // 431, or the stream is reset.
    assert!(answered.is_err() || answered.is_ok_and(|it| it.status() == 431));
    guarded.good_call().await;
    guarded.broker.kill().await;
}

/// A frame of at most 16 KiB.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Says frames until the broker takes no more; so many it took.
async fn pour(stream: &mut TlsStream<TcpStream>, frame: &[u8], most: usize) -> usize {
    for said in 0..most {
        let written = soon("a frame is taken or refused", async {
            stream.write_all(frame).await?;
            stream.flush().await
        });
        if written.await.is_err() {
            return said;
        }
    }
    most
}

/// CVE-2024-27316 and its like: a header that never ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_that_goes_on_for_ever_ends_its_connection() {
    const CONTINUATION: u8 = 9;
    const FRAMES: usize = 50_000;
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    guarded.good_call().await;
    let before = guarded.broker.memory_kib("VmHWM");
    // HPACK: a header never indexed, of a name and a value of 100 bytes.
    let mut field = vec![0x10, 1, b'n', 100];
    field.extend([b'v'; 100]);
    let block = field.repeat(100);
    for block in [block.as_slice(), b""] {
        let mut stream = guarded.tls(ELSEWHERE).await;
        let first = frame(HEADERS, 0, 1, &field);
        stream.write_all(&[PREFACE, SETTINGS, &first].concat()).await.unwrap();
        let taken = pour(&mut stream, &frame(CONTINUATION, 0, 1, block), FRAMES).await;
        assert!(taken < FRAMES, "{} bytes each: all were taken", block.len());
    }
    guarded.good_call().await;
    let more = guarded.broker.memory_kib("VmHWM") - before;
    assert!(more < ATTACK_KIB_MAX, "{more} KiB more");
    guarded.broker.kill().await;
}

/// Holds E5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_100_mib_from_a_stranger_is_not_taken_in() {
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    guarded.good_call().await;
    let before = guarded.broker.memory_kib("VmHWM");
    let mut send = stranger(&guarded).await;
    let (answer, mut body) = send.send_request(call().body(()).unwrap(), false).unwrap();
    let pouring = tokio::spawn(async move {
        let mut left: usize = 100 * 1024 * 1024;
        while 0 < left {
            body.reserve_capacity(left.min(64 * 1024));
            let Some(Ok(may)) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else {
                return left;
            };
            left -= may.min(left);
            if body.send_data(Bytes::from(vec![0; may]), left == 0).is_err() {
                return left;
            }
        }
        0
    });
    let answer = soon("a refusal", answer).await.unwrap();
    assert_eq!(answer.headers()["grpc-status"], "16");
    drop(send);
    let left = soon("the stream ends", pouring).await.unwrap();
    assert!(0 < left, "all of it was taken");
    guarded.good_call().await;
    let more = guarded.broker.memory_kib("VmHWM") - before;
    assert!(more < ATTACK_KIB_MAX, "{more} KiB more");
    guarded.broker.kill().await;
}
