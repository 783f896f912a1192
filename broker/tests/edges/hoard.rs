//! What one caller may have of a broker's memory and connections, with a token or without.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use h2::{Reason, client::SendRequest};
use tasuki_broker::access::{
    CALLS_PER_TOKEN_MAX, CONNECTIONS_PER_TOKEN_MAX, IN_FLIGHT_PER_TOKEN_KIB_MAX,
};
use tasuki_proto::wire::{self, mailbox_client::MailboxClient, put_attachment_request::Part};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::client::TlsStream;

use crate::{
    flood::{ATTACK_KIB_MAX, HEADERS, PREFACE, SETTINGS, frame, stranger},
    strangers::{ELSEWHERE, Guarded},
    support::soon,
};

/// A message that is announced, in bytes.
const ANNOUNCED: u32 = 3 * 1024 * 1024;

/// How long nothing more may go out until the broker has what it takes.
const STILL: Duration = Duration::from_secs(1);

/// A call's answer: its status, from the header or what follows it.
async fn status(answer: h2::client::ResponseFuture) -> Result<String, h2::Error> {
    let (head, mut body) = answer.await?.into_parts();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    let found = head.headers.get("grpc-status").or_else(|| trailers.get("grpc-status"));
    Ok(found.map(|it| it.to_str().unwrap().to_owned()).unwrap_or_default())
}

fn call(path: &str, token: Option<&str>) -> http::Request<()> {
    let call = http::Request::post(format!("https://127.0.0.1/{path}"))
        .header("content-type", "application/grpc");
    match token {
        Some(token) => call.header("authorization", format!("Bearer {token}")),
        None => call,
    }
    .body(())
    .unwrap()
}

/// Opens `count` calls, and says all of a message of [`ANNOUNCED`] bytes in each but its end;
/// answers what those were told that were answered all the same.
async fn pour(
    send: &SendRequest<Bytes>,
    path: &str,
    token: Option<&str>,
    count: usize,
) -> Vec<String> {
    let (said, mut told) = tokio::sync::mpsc::channel(64);
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let mut send = soon("another stream", send.clone().ready()).await.unwrap();
        let (answer, mut body) = send.send_request(call(path, token), false).unwrap();
        let said = said.clone();
        let pouring = async move {
            let mut head = vec![0];
            head.extend(ANNOUNCED.to_be_bytes());
            body.send_data(head.into(), false)?;
            let mut left = ANNOUNCED as usize - 1;
            while 0 < left {
                body.reserve_capacity(left.min(64 * 1024));
                let Some(may) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else {
                    break;
                };
                let may = may?.min(left);
                left -= may;
                body.send_data(Bytes::from(vec![0; may]), false)?;
                let _ = said.send(()).await;
            }
            std::future::pending::<Result<(), h2::Error>>().await
        };
        calls.spawn(async move {
            tokio::select! {
                answered = status(answer) => answered.unwrap_or_else(|error| error.to_string()),
                Err(error) = pouring => error.to_string(),
            }
        });
    }
    drop(said);
    while let Ok(Some(())) = tokio::time::timeout(STILL, told.recv()).await {}
    let mut answered = Vec::new();
    while let Some(status) = calls.try_join_next() {
        answered.push(status.unwrap());
    }
    answered
}

/// Whoever has an invitation has no token yet, so joining is open to strangers: many large
/// messages that do not end must not pile up in the broker's memory.
/// Holds E8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_do_not_end_are_not_taken_in() {
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    guarded.good_call().await;
    let before = guarded.broker.memory_kib("VmHWM");
    let send = stranger(&guarded).await;
    let answered = pour(&send, "tasuki.v1.Access/Join", None, 64).await;
    // One or two may have said too little to be refused.
    assert!(62 <= answered.len(), "{answered:?}");
    guarded.good_call().await;
    let more = guarded.broker.memory_kib("VmHWM") - before;
    assert!(more < ATTACK_KIB_MAX, "{more} KiB more");
    guarded.broker.kill().await;
}

/// Holds E8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_one_token_that_do_not_end_are_bounded_together() {
    const CALLS: usize = 200;
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    guarded.good_call().await;
    let before = guarded.broker.memory_kib("VmHWM");
    let send = stranger(&guarded).await;
    let token = guarded.admin.expose();
    let kib = usize::try_from(ANNOUNCED / 1024).unwrap();
    assert!(IN_FLIGHT_PER_TOKEN_KIB_MAX < CALLS * kib, "what is said is beyond the bound");
    for path in ["tasuki.v1.TurnLoop/HandOver", "tasuki.v1.TurnLoop/AwaitTurn"] {
        let answered = pour(&send, path, Some(&token), CALLS).await;
        let held = CALLS - answered.len();
        assert!(held * kib <= IN_FLIGHT_PER_TOKEN_KIB_MAX, "{held} are held: {answered:?}");
        // Some lose their stream before they read why.
        assert!(answered.iter().all(|it| it != "0"), "{answered:?}");
    }
    let more = guarded.broker.memory_kib("VmHWM") - before;
    // The allocator keeps some of what those left behind that were refused halfway.
    let bound = 3 * IN_FLIGHT_PER_TOKEN_KIB_MAX as u64;
    assert!(more < bound, "{more} KiB more");
    // The calls went with their tasks, so their bytes are given back.
    let again = async {
        loop {
            let answered = pour(&send, "tasuki.v1.TurnLoop/HandOver", Some(&token), 1).await;
            if answered.is_empty() {
                break;
            }
        }
    };
    soon("bytes are given back", again).await;
    guarded.broker.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn past_the_connections_of_one_token_its_oldest_is_cut() {
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    let token = guarded.admin.expose();
    let mut open = Vec::new();
    let ask = async |send: &mut SendRequest<Bytes>| {
        let (answer, mut body) =
            send.send_request(call("tasuki.v1.Access/WhoAmI", Some(&token)), false)?;
        body.send_data(Bytes::from_static(&[0; 5]), true)?;
        status(answer).await
    };
    for number in 0..=CONNECTIONS_PER_TOKEN_MAX {
        let mut send = stranger(&guarded).await;
        let told = soon("an answer", ask(&mut send)).await.unwrap();
        assert_eq!(told, "0", "{number}");
        open.push(send);
    }
    let mut open = open.into_iter();
    let mut oldest = open.next().unwrap();
    let ended = soon("the oldest is cut", async {
        loop {
            if let Err(error) = ask(&mut oldest).await {
                break error;
            }
        }
    })
    .await;
    assert_ne!(ended.reason(), Some(Reason::REFUSED_STREAM));
    for mut send in open {
        assert_eq!(soon("an answer", ask(&mut send)).await.unwrap(), "0");
    }
    guarded.broker.kill().await;
}

/// The next frame: its kind, its flags and its stream.
async fn next_frame(stream: &mut TlsStream<TcpStream>) -> (u8, u8, u32) {
    let mut head = [0; 9];
    soon("a frame", stream.read_exact(&mut head)).await.unwrap();
    let [a, b, c, kind, flags, id @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    soon("all of it", stream.read_exact(&mut payload)).await.unwrap();
    assert_ne!(kind, GO_AWAY, "{}", payload.escape_ascii());
    (kind, flags, u32::from_be_bytes(id))
}

const DATA: u8 = 0;
const RESET: u8 = 3;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;

/// Whoever is far away has said all of its call when it hears that it was refused before: that
/// is no breach, however many callers share the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_in_for_calls_that_were_refused_does_not_end_the_connection() {
    const TIMES: usize = 4;
    const REFUSED: usize = 700;
    const ENDS_HEADERS: u8 = 4;
    const ENDS_STREAM: u8 = 1;
    const ACK: u8 = 1;
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    let bearer = format!("Bearer {}", guarded.admin.expose());
    let fields = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "127.0.0.1"),
        (":path", "/tasuki.v1.TurnLoop/GetLoop"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("authorization", bearer.as_str()),
    ];
    // HPACK: literals that are not indexed.
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for words in [name, value] {
            block.push(u8::try_from(words.len()).unwrap());
            block.extend(words.as_bytes());
        }
    }
    let mut ids = (1..).step_by(2);
    let mut begin = |count: usize| {
        let calls = ids.by_ref().take(count).map(|id| frame(HEADERS, ENDS_HEADERS, id, &block));
        calls.collect::<Vec<_>>().concat()
    };
    let mut stream = guarded.tls(ELSEWHERE).await;
    stream.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
    // All the token may have under way, none of which says its message.
    let mut calls = begin(CALLS_PER_TOKEN_MAX);
    let mut ended = BTreeSet::new();
    for _ in 0..TIMES {
        calls.extend(begin(REFUSED));
        stream.write_all(&calls).await.unwrap();
        stream.flush().await.unwrap();
        calls.clear();
        let mut refused = BTreeSet::new();
        while refused.len() < REFUSED {
            match next_frame(&mut stream).await {
                (RESET, _, id) if !ended.contains(&id) => drop(refused.insert(id)),
                _ => {}
            }
        }
        // An empty message and the end of each.
        let messages = refused.iter().map(|id| frame(DATA, ENDS_STREAM, *id, &[0; 5]));
        stream.write_all(&messages.collect::<Vec<_>>().concat()).await.unwrap();
        stream.write_all(&frame(PING, 0, 0, &[0; 8])).await.unwrap();
        stream.flush().await.unwrap();
        while !matches!(next_frame(&mut stream).await, (PING, ACK, 0)) {}
        ended.append(&mut refused);
    }
    guarded.broker.kill().await;
}

/// A file's bytes have one place among its token's words, from the first that comes until they are
/// on the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_on_its_way_counts_once() {
    const MIB: usize = 1024 * 1024;
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    let head = |size: usize, hash: blake3::Hash| {
        let head = wire::PutAttachmentHead {
            role: "A".to_owned(),
            size: size as u64,
            hash: hash.to_hex().to_string(),
            ..wire::PutAttachmentHead::default()
        };
        wire::PutAttachmentRequest { part: Some(Part::Head(head)) }
    };
    let chunk =
        |bytes: &[u8]| wire::PutAttachmentRequest { part: Some(Part::Chunk(bytes.to_vec())) };
    let mut mail = MailboxClient::new(guarded.channel().await);
    // They hold 40 MiB of the 64: they say what comes, and do not end.
    let mut held = Vec::new();
    let mut open = Vec::new();
    for size in [16, 16, 8] {
        let (parts, said) = tokio::sync::mpsc::channel(1);
        parts.send(head(size * MIB, blake3::hash(b"something else"))).await.unwrap();
        let mut mail = mail.clone();
        let said = tokio_stream::wrappers::ReceiverStream::new(said);
        held.push(tokio::spawn(async move { mail.put_attachment(said).await }));
        // The second part is taken once the first was.
        parts.send(chunk(&[1])).await.unwrap();
        parts.send(chunk(&[1])).await.unwrap();
        open.push(parts);
    }
    let content = vec![7; 16 * MIB];
    let whole = [head(content.len(), blake3::hash(&content))];
    let whole = whole.into_iter().chain(content.chunks(256 * 1024).map(chunk));
    let whole = tokio_stream::iter(whole.collect::<Vec<_>>());
    soon("a whole file", mail.put_attachment(whole)).await.unwrap();
    drop(open);
    for held in held {
        soon("the end of a file that is cut off", held).await.unwrap().unwrap_err();
    }
    guarded.broker.kill().await;
}
