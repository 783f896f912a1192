//! Connections that say nothing, say nonsense, or come and go: closed, bounded, and no trouble to
//! anybody else.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tasuki_broker::connection::STALLED_MS_MAX;
use tasuki_proto::wire;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Semaphore,
    task::JoinSet,
    time::Instant,
};

use crate::{
    common::Dice,
    support::{Player, Process, arguments, key, soon, turns},
};

const SILENT: usize = 5000;

/// Silent connections are closed within this time.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);

/// Who spoke HTTP/2 and then fell silent is asked whether it is still there before it is closed.
const GONE_WITHIN: Duration = Duration::from_secs(16);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

async fn good_call(address: SocketAddr) {
    let mut turns = turns(address);
    let called = turns.get_loop(wire::GetLoopRequest::default());
    soon("a good call", called).await.unwrap();
}

/// Says `words` and returns when the broker closed the connection.
async fn say(address: SocketAddr, words: &[u8]) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The broker may close before everything is said.
    let _ = stream.write_all(words).await;
    let mut answer = [0; 1024];
    while let Ok(1..) = stream.read(&mut answer).await {}
}

#[tokio::test]
async fn garbage_is_closed_and_the_next_good_call_works() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut dice = Dice::new(1);
    let noise: Vec<u8> = (0..100_000).map(|_| u8::try_from(dice.roll(256)).unwrap()).collect();
    let frames = [PREFACE, &noise].concat();
    let oversized = [PREFACE, &[0xff, 0xff, 0xff, 0x4, 0, 0, 0, 0, 0], &noise].concat();
    let table: [(&str, &[u8]); 8] = [
        ("noise", &noise),
        ("HTTP/1.1", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("an upgrade", b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
        ("TLS", &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
        ("half a preface", &PREFACE[..12]),
        ("a preface and no more", PREFACE),
        ("frames of noise", &frames),
        ("an oversized frame", &oversized),
    ];
    let started = Instant::now();
    let mut all = JoinSet::new();
    for (what, words) in table {
        let words = words.to_vec();
        all.spawn(async move {
            soon(what, say(address, &words)).await;
            let limit = if words == PREFACE { GONE_WITHIN } else { CLOSED_WITHIN };
            assert!(started.elapsed() < limit, "{what}: after {:?}", started.elapsed());
            good_call(address).await;
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    broker.kill().await;
}

/// A broker that was given few descriptors, as many systems do, and may take more.
fn serve_with_few_descriptors(data: &std::path::Path) -> Process {
    let script = "ulimit -S -n 1024; exec \"$0\" \"$@\"";
    let mut words = vec!["-c".into(), script.into(), env!("CARGO_BIN_EXE_tasuki-broker").into()];
    words.extend(arguments(&["serve", "--listen", "127.0.0.1:0"], data));
    Process::spawn_program("sh", &words, &[])
}

/// A full disk, say.
#[tokio::test]
async fn a_log_that_nobody_takes_stops_nothing() {
    let data = tempfile::tempdir().unwrap();
    let script = "exec \"$0\" \"$@\" 2>/dev/full";
    let mut words = vec!["-c".into(), script.into(), env!("CARGO_BIN_EXE_tasuki-broker").into()];
    words.extend(arguments(&["serve", "--listen", "127.0.0.1:0"], data.path()));
    // What it does is logged, every request included.
    let mut broker = Process::spawn_program("sh", &words, &[("RUST_LOG", "debug".into())]);
    let address = broker.address().await.expect("it listens");
    good_call(address).await;
    broker.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stderr, reason = "tells what was measured")]
async fn five_thousand_silent_connections_are_closed_and_hold_nobody_up() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    assert!(maximum.is_none_or(|it| 5500 <= it), "this needs 5,500 file descriptors: {maximum:?}");
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let data = tempfile::tempdir().unwrap();
    let mut broker = serve_with_few_descriptors(data.path());
    let address = broker.address().await.unwrap();
    let mut silent = JoinSet::new();
    // Several at once, so that all are there before the first is closed; but no more than a system
    // lets wait to be accepted.
    let opening = Arc::new(Semaphore::new(256));
    for _ in 0..SILENT {
        let opening = Arc::clone(&opening).acquire_owned().await.unwrap();
        silent.spawn(async move {
            let mut stream = soon("a connection", TcpStream::connect(address)).await.unwrap();
            // The broker says its HTTP/2 settings once it has accepted, and then waits.
            soon("its settings", stream.read(&mut [0; 256])).await.unwrap();
            let opened = Instant::now();
            drop(opening);
            while let Ok(1..) = stream.read(&mut [0; 256]).await {}
            opened.elapsed()
        });
    }
    let (mut slowest, mut longest) = (Duration::ZERO, Duration::ZERO);
    let mut most = 0;
    let mut calls = 0;
    while calls < 20 || most < SILENT {
        let called = Instant::now();
        good_call(address).await;
        slowest = slowest.max(called.elapsed());
        most = most.max(broker.descriptors());
        calls += 1;
        assert!(!silent.is_empty() || SILENT <= most, "only {most} were ever open at once");
        while let Some(closed) = silent.try_join_next() {
            longest = longest.max(closed.unwrap());
        }
    }
    while let Some(closed) = soon("silent connections are closed", silent.join_next()).await {
        longest = longest.max(closed.unwrap());
    }
    eprintln!("{most} descriptors, slowest good call {slowest:?}, closed within {longest:?}");
    assert!(longest < CLOSED_WITHIN, "{longest:?}");
    good_call(address).await;
    broker.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_come_and_go_leave_nothing_behind() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    good_call(address).await;
    let before = broker.descriptors();
    for round in 0..1500 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let said = [&[], &PREFACE[..9], PREFACE][round % 3];
        stream.write_all(said).await.unwrap();
        drop(stream);
        if round % 50 == 0 {
            // In the middle of a call that would wait long.
            let mut turns = turns(address);
            let request = wire::AwaitTurnRequest {
                role: "B".to_owned(),
                hold_ms: 600_000,
                ..wire::AwaitTurnRequest::default()
            };
            let asking = tokio::spawn(async move { turns.await_turn(request).await });
            good_call(address).await;
            asking.abort();
        }
    }
    let none_left = async {
        let mut turns = turns(address);
        loop {
            let state = turns.get_loop(wire::GetLoopRequest::default()).await.unwrap();
            let waiting = state.into_inner().r#loop.unwrap().waiting;
            if waiting.is_empty() && broker.descriptors() <= before + 2 {
                return;
            }
        }
    };
    soon("all of it is gone", none_left).await;
    broker.kill().await;
}

/// A call as bytes on an open connection: HPACK without its tables, and one message.
fn raw_call(stream: u32, path: &str, message: &impl prost::Message) -> Vec<u8> {
    const HEADERS: u8 = 1;
    const DATA: u8 = 0;
    const END_HEADERS: u8 = 4;
    const END_STREAM: u8 = 1;
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    // POST and http are known by number, and so are the names of the others.
    let mut block = vec![0x83, 0x86, 0x04];
    block.extend(text(path));
    block.push(0x01);
    block.extend(text("localhost"));
    block.extend([0x0f, 16]);
    block.extend(text("application/grpc"));
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let message = [&[0], &length[..], &message].concat();
    let frame = |kind: u8, flags: u8, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    [frame(HEADERS, END_HEADERS, &block), frame(DATA, END_STREAM, &message)].concat()
}

/// Its own farewell would wait behind what is stuck; the system of one that hangs still takes
/// part in TCP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_nothing_of_what_it_asked_for_is_cut() {
    /// HTTP/2's windows as large as can be: nothing but TCP holds the answers back.
    const SETTINGS: &[u8] = &[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff];
    const WINDOW: &[u8] = &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xfe, 0, 0];
    /// Patience once nothing goes out, and what it takes to notice that.
    const CUT_WITHIN: Duration = Duration::from_millis(STALLED_MS_MAX as u64 + 6000);
    const PAGES: u32 = 64;
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut turns = turns(address);
    for turn in 1..=8 {
        let request = wire::HandOverRequest {
            key: key("w", turn),
            role: Player::role(turn).to_owned(),
            summary: "s".repeat(200 * 1024),
            instruction: "i".to_owned(),
            ..wire::HandOverRequest::default()
        };
        turns.hand_over(request).await.unwrap();
    }
    let before = broker.descriptors();
    let mut deaf = TcpStream::connect(address).await.unwrap();
    deaf.write_all(&[PREFACE, SETTINGS, WINDOW].concat()).await.unwrap();
    let all = wire::HistoryRequest { from: 1, ..wire::HistoryRequest::default() };
    for number in 0..PAGES {
        let call = raw_call(2 * number + 1, "/tasuki.v1.TurnLoop/History", &all);
        deaf.write_all(&call).await.unwrap();
    }
    let asked = Instant::now();
    // Its answers come: it is not cut for what it said.
    soon("an answer", deaf.readable()).await.unwrap();
    let mut pause = tokio::time::interval(Duration::from_millis(50));
    while before < broker.descriptors() {
        pause.tick().await;
        soon("a good call", turns.get_loop(wire::GetLoopRequest::default())).await.unwrap();
        assert!(asked.elapsed() < CUT_WITHIN, "it is still connected");
    }
    assert!(Duration::from_secs(5) < asked.elapsed(), "it was cut for something else");
    drop(deaf);
    broker.kill().await;
}
