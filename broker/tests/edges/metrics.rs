//! What a broker tells of itself: metrics on its dashboard, and traces in its log.

use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
};

use tasuki_proto::{
    host::config::FOLDER,
    invitation::Trust,
    net::tls::{self, ALPN_HTTP1, Trusting},
    token::Right,
    wire,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::Request;

use crate::{
    guarded::Guarded,
    support::{Player, Process, arguments, caller, channel, reason, run, soon, turns},
};

/// In names that users chose, and in nothing that is told.
const MARKER: &str = "mangosteen4711";

const ANY: &str = "127.0.0.1:0";

/// Where it says that its dashboard is.
pub(super) async fn dashboard(broker: &mut Process) -> SocketAddr {
    loop {
        let line = broker.line().await.unwrap();
        let Some(url) = line.strip_suffix(" (dashboard)") else { continue };
        return url.rsplit('/').next().unwrap().parse().unwrap();
    }
}

/// What a request is answered with: its status and its body.
async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    headers: &[(&str, &str)],
) -> (u16, String) {
    let mut head = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        head += "Host: localhost\r\n";
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    let answer = async {
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A peer may end TLS without a word.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    };
    let answer = soon("an answer", answer).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

async fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    ask(TcpStream::connect(address).await.unwrap(), path, headers).await
}

/// The type of each metric, and the value of each series.
#[derive(Debug, Default)]
struct Metrics {
    kinds: BTreeMap<String, String>,
    series: BTreeMap<String, f64>,
}

impl Metrics {
    /// Each metric is explained, has a type and its series, each of which is there once.
    fn parse(text: &str) -> Self {
        let mut it = Self::default();
        let mut explained = BTreeMap::new();
        assert!(text.ends_with("# EOF\n"), "{text}");
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').unwrap();
                assert!(!help.is_empty(), "{line}");
                assert!(explained.insert(name.to_owned(), help).is_none(), "{line}");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert!(explained.contains_key(name), "{line}");
                assert!(it.kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            } else {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let name = series.split('{').next().unwrap();
                assert!(it.has(name), "{line} has no type");
                let value: f64 = value.parse().unwrap();
                assert!(it.series.insert(series.to_owned(), value).is_none(), "{line} twice");
            }
        }
        assert_eq!(explained.len(), it.kinds.len());
        it
    }

    /// Whether this is what a series of some metric is called.
    fn has(&self, series: &str) -> bool {
        let endings: [(&str, &[&str]); 4] = [
            ("counter", &["_total"]),
            ("gauge", &[""]),
            ("histogram", &["_bucket", "_sum", "_count"]),
            ("info", &["_info"]),
        ];
        endings.iter().any(|(kind, endings)| {
            let mut names = endings.iter().filter_map(|ending| series.strip_suffix(ending));
            names.any(|name| self.kinds.get(name).is_some_and(|it| it == kind))
        })
    }

    #[track_caller]
    fn value(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("no {series} in {self:#?}"))
    }
}

async fn scrape(address: SocketAddr) -> (Metrics, String) {
    let (status, text) = get(address, "/metrics", &[]).await;
    assert_eq!(status, 200, "{text}");
    (Metrics::parse(&text), text)
}

pub(super) async fn serve(data: &Path) -> (Process, SocketAddr, SocketAddr) {
    let words = ["serve", "--listen", ANY, "--dashboard", ANY];
    let mut broker = Process::spawn(&arguments(&words, data), &[]);
    let address = broker.address().await.unwrap();
    let dashboard = dashboard(&mut broker).await;
    (broker, address, dashboard)
}

#[tokio::test]
async fn metrics_count_what_happens_and_name_nobody() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address, dashboard) = serve(data.path()).await;
    let mut player = Player::new(MARKER, MARKER);
    player.create(channel(address)).await.unwrap();
    let mut turns = turns(address);
    for _ in 0..3 {
        player.play(&mut turns).await.unwrap();
    }
    let unknown = wire::HistoryRequest {
        caller: caller(MARKER),
        r#loop: format!("{MARKER}-none"),
        ..Default::default()
    };
    let refused = turns.history(unknown).await.unwrap_err();
    assert_eq!(reason(&refused), "unknown_loop");
    let wait = wire::AwaitTurnRequest {
        caller: caller(MARKER),
        r#loop: MARKER.to_owned(),
        role: "A".to_owned(),
        hold_ms: 600_000,
    };
    let mut waiting = turns.clone();
    let waiting = tokio::spawn(async move { waiting.await_turn(wait).await });
    let parked = async {
        loop {
            let (metrics, text) = scrape(dashboard).await;
            if metrics.value("tasuki_waits{kind=\"turn\"}") == 1.0 {
                return (metrics, text);
            }
        }
    };
    let (metrics, text) = soon("the wait is counted", parked).await;
    for (series, value) in [
        ("tasuki_calls_total{method=\"TurnLoop/HandOver\",outcome=\"ok\"}", 3.0),
        ("tasuki_calls_total{method=\"TurnLoop/History\",outcome=\"unknown_loop\"}", 1.0),
        ("tasuki_call_seconds_count{method=\"TurnLoop/HandOver\"}", 3.0),
        ("tasuki_call_seconds_bucket{le=\"+Inf\",method=\"TurnLoop/HandOver\"}", 3.0),
        ("tasuki_calls_in_flight{kind=\"wait\"}", 1.0),
        ("tasuki_calls_in_flight{kind=\"command\"}", 0.0),
        ("tasuki_waits{kind=\"mail\"}", 0.0),
        ("tasuki_nodes_connected", 1.0),
        ("tasuki_commit_queue", 0.0),
        ("tasuki_connections_refused_total{listener=\"grpc\"}", 0.0),
    ] {
        assert_eq!(metrics.value(series), value, "{series}");
    }
    for (series, least) in [
        // The registration, the loop and three turns.
        ("tasuki_commit_records_sum", 5.0),
        ("tasuki_commit_records_count", 1.0),
        ("tasuki_commit_seconds_count", 1.0),
        ("tasuki_sync_seconds_count", 1.0),
        ("tasuki_commit_bytes_total", 300.0),
        ("tasuki_connections{listener=\"grpc\"}", 1.0),
        ("tasuki_connections{listener=\"dashboard\"}", 1.0),
        ("tasuki_workspaces_awake", 1.0),
        ("tasuki_disk_free_bytes", 1.0),
        ("tasuki_oldest_unhanded_seconds{noun=\"turn\"}", 0.0),
        ("process_resident_memory_bytes", 1e6),
        ("process_open_fds", 3.0),
        ("process_start_time_seconds", 1e9),
    ] {
        let value = metrics.value(series);
        assert!(least <= value, "{series} is {value}");
    }
    assert!(!text.contains(MARKER), "{text}");
    // Only what somebody looks at.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let shown = fs::read_to_string(root.join("packaging/grafana-tasuki.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&shown).unwrap();
    let words = shown.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named: Vec<&str> =
        words.filter(|word| word.starts_with("tasuki_") || word.starts_with("process_")).collect();
    assert!(20 < named.len());
    let unknown: Vec<&&str> = named.iter().filter(|name| !metrics.has(name)).collect();
    assert!(unknown.is_empty(), "the dashboard for Grafana shows {unknown:?}");
    // A caller that leaves is counted, and is no error.
    waiting.abort();
    let left = async {
        let series = "tasuki_calls_total{method=\"TurnLoop/AwaitTurn\",outcome=\"dropped\"}";
        while scrape(dashboard).await.0.series.get(series) != Some(&1.0) {}
    };
    soon("the caller that left is counted", left).await;
    let log = broker.log();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
    broker.kill().await;
}

#[tokio::test]
async fn a_turn_counts_from_stored_to_handed() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address, dashboard) = serve(data.path()).await;
    let mut player = Player::new("default", "timed");
    player.create(channel(address)).await.unwrap();
    let mut turns = turns(address);
    player.play(&mut turns).await.unwrap();
    let handed = wire::MarkTurnRequest {
        caller: caller("default"),
        r#loop: "timed".to_owned(),
        role: Player::role(2).to_owned(),
        turn: 2,
        mark: wire::mark_turn_request::Mark::Handed.into(),
    };
    turns.mark_turn(handed).await.unwrap();
    let (metrics, _) = scrape(dashboard).await;
    assert_eq!(metrics.value("tasuki_receipt_seconds_count{noun=\"turn\"}"), 1.0);
    assert_eq!(metrics.value("tasuki_receipt_seconds_count{noun=\"mail\"}"), 0.0);
    assert_eq!(metrics.value("tasuki_oldest_unhanded_seconds{noun=\"turn\"}"), 0.0);
    broker.kill().await;
}

#[tokio::test]
async fn programs_of_this_machine_are_answered_and_pages_of_a_browser_are_not() {
    let data = tempfile::tempdir().unwrap();
    let (broker, _, dashboard) = serve(data.path()).await;
    for (path, headers, status, said) in [
        ("/healthz", &[][..], 200, "ok\n"),
        ("/nothing", &[], 404, "There is no such page."),
        ("/metrics", &[("Host", "evil.example")], 403, "is not a name of this server"),
        ("/metrics", &[("Origin", "http://localhost:3000")], 403, "Origin"),
        ("/metrics", &[("Sec-Fetch-Site", "cross-site")], 403, "another site"),
        ("/healthz", &[("Host", "evil.example")], 403, "is not a name of this server"),
    ] {
        let (found, body) = get(dashboard, path, headers).await;
        assert_eq!(found, status, "{path} {headers:?}: {body}");
        assert!(body.contains(said), "{path} {headers:?}: {body}");
    }
    broker.kill().await;
}

#[tokio::test]
async fn an_address_that_is_asked_for_is_taken_or_nothing_starts() {
    let data = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind(ANY).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = run(&["serve", "--listen", ANY, "--dashboard", &address], data.path()).await;
    assert_eq!(ended.code, Some(69), "{}", ended.log);
    let said = format!("cannot serve the dashboard on {address}");
    assert!(ended.log.contains(&said) && ended.log.contains("--dashboard off"), "{}", ended.log);
    let wrong = run(&["serve", "--listen", ANY, "--dashboard", "7422"], data.path()).await;
    assert_eq!(wrong.code, Some(2), "{}", wrong.log);
    assert!(wrong.log.contains("127.0.0.1:7422"), "{}", wrong.log);
}

#[tokio::test]
async fn a_secure_dashboard_takes_a_token_that_reads_all_workspaces() {
    let data = tempfile::tempdir().unwrap();
    let mut it = Guarded::start_with(data.path(), &["--dashboard", ANY]).await;
    let address = dashboard(&mut it.process).await;
    let pin = it.admin.fingerprint.as_deref().unwrap().parse().unwrap();
    let connector = Trusting::new(Trust::Pinned(pin)).connector(&[ALPN_HTTP1]).unwrap();
    let metrics = async |token: Option<String>| {
        let stream = TcpStream::connect(address).await.unwrap();
        let stream = tls::connect(&connector, stream, "127.0.0.1").await.unwrap();
        let shown = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = shown.iter().map(|it| ("Authorization", it.as_str())).collect();
        ask(stream, "/metrics", &headers).await
    };
    let reader = it.token("", &[], &[Right::Read]).await;
    let (status, text) = metrics(Some(reader.expose())).await;
    assert_eq!(status, 200, "{text}");
    Metrics::parse(&text);
    assert_eq!(metrics(Some(it.admin.token.clone())).await.0, 200);
    let of_one = it.token("default", &["*"], &[Right::Read, Right::Host]).await;
    let sender = it.token("", &["*"], &[Right::Send]).await;
    for (token, status, why) in [
        (None, 401, "asks for a token"),
        (Some("tasuki_0011_nonsense".to_owned()), 401, "not a token"),
        (Some(of_one.expose()), 403, "`read` right"),
        (Some(sender.expose()), 403, "`read` right"),
    ] {
        let (found, body) = metrics(token.clone()).await;
        assert_eq!(found, status, "{token:?}: {body}");
        assert!(body.contains(why), "{token:?}: {body}");
    }
    it.revoke(&reader.id).await;
    assert_eq!(metrics(Some(reader.expose())).await.0, 401);
    // Without TLS nothing is said.
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = soon("the end", plain.read_to_end(&mut said)).await;
    assert!(!String::from_utf8_lossy(&said).contains("tasuki"), "{said:?}");
    assert!(data.path().join(FOLDER).join("tls").exists());
    it.process.kill().await;
}

#[tokio::test]
async fn a_refused_call_is_logged_with_its_trace() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let data = tempfile::tempdir().unwrap();
    let words = arguments(&["serve", "--listen", ANY, "--dashboard", "off"], data.path());
    let mut broker = Process::spawn(&words, &[("RUST_LOG", "tasuki_broker=debug".into())]);
    let mut turns = turns(broker.address().await.unwrap());
    let span = "b7ad6b7169203331";
    for parent in [
        format!("00-{TRACE}-{}-01", "0".repeat(16)),
        "nonsense".to_owned(),
        format!("00-{TRACE}-{span}-01"),
    ] {
        let unknown = wire::HistoryRequest { r#loop: "none".to_owned(), ..Default::default() };
        let mut request = Request::new(unknown);
        request.metadata_mut().insert("traceparent", parent.parse().unwrap());
        assert_eq!(reason(&turns.history(request).await.unwrap_err()), "unknown_loop");
    }
    let logged = async {
        while !broker.log().contains(TRACE) {
            broker.logged.changed().await.unwrap();
        }
    };
    soon("the trace is logged", logged).await;
    let log = broker.log();
    let refused: Vec<&str> =
        log.lines().filter(|line| line.contains("a call was refused")).collect();
    assert_eq!(refused.len(), 3, "{log}");
    let traced: Vec<bool> = refused.iter().map(|line| line.contains("trace_id=")).collect();
    assert_eq!(traced, [false, false, true], "{log}");
    for said in [TRACE, "TurnLoop/History", "unknown_loop"] {
        assert!(refused[2].contains(said), "{}", refused[2]);
    }
    broker.kill().await;
}
