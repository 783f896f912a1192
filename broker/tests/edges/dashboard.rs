//! Pages over the bare wire: who may ask for them, and which forms are taken.

use std::net::SocketAddr;

use tasuki_proto::wire;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    metrics::serve,
    support::{caller, soon, turns},
};

/// What a request is answered with, head and body.
async fn send(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A request that is too large is not read to its end.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = soon("an answer", stream.read_to_end(&mut answer)).await;
    String::from_utf8(answer).unwrap()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

async fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    send(address, &format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n")).await
}

async fn post(address: SocketAddr, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let head = format!(
        "POST {path} HTTP/1.1\r\nConnection: close\r\n{kind}\r\nContent-Length: {length}\r\n"
    );
    send(address, &format!("{head}{headers}\r\n{body}")).await
}

/// The value behind `before` in a text, up to what ends it.
fn behind<'a>(text: &'a str, before: &str, end: char) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{before} in {text}"));
    rest.split(end).next().unwrap()
}

const OPEN: &str = "Host: localhost\r\n";

/// Holds WD1: what a page shows was asked for by calls, which are counted as everybody's are.
#[tokio::test]
async fn a_page_is_one_more_client_of_the_api() {
    let data = tempfile::tempdir().unwrap();
    let (broker, _, dashboard) = serve(data.path()).await;
    let counted = async |method: &str| {
        let text = get(dashboard, "/metrics", OPEN).await;
        let row = format!("tasuki_calls_total{{method=\"{method}\",outcome=\"ok\"}} ");
        let count = text.split_once(&row).map(|(_, rest)| rest.lines().next().unwrap().to_owned());
        count.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    assert_eq!(status(&get(dashboard, "/w/default/now", OPEN).await), 200);
    assert_eq!(counted("Directory/ListNodes").await, 1);
    assert_eq!(counted("TurnLoop/GetLoop").await, 1);
    broker.kill().await;
}

/// Holds WD3.
#[tokio::test]
async fn a_form_is_taken_from_this_servers_own_pages_alone_and_once() {
    let data = tempfile::tempdir().unwrap();
    let (broker, grpc, dashboard) = serve(data.path()).await;
    let path = "/w/default/loop/new";
    let page = get(dashboard, "/w/default/now", OPEN).await;
    assert_eq!(status(&page), 200, "{page}");
    let cookie = behind(&page, "set-cookie: ", ';').to_owned();
    let token = behind(&page, "name=\"form\" value=\"", '"').to_owned();
    let key = behind(&page, "name=\"key\" value=\"", '"').to_owned();
    let own = format!("{OPEN}Cookie: {cookie}\r\n");
    let fields = "loop=x&participants=human+A&new_roles=yes";
    let good = format!("form={token}&key={key}&{fields}");
    for (headers, body, why) in [
        (own.clone(), fields.to_owned(), "another session"),
        (own.clone(), format!("form=&key={key}&{fields}"), "another session"),
        (own.clone(), format!("form={token}&key=short&{fields}"), "another session"),
        // The token is this browser's, and of no other.
        (OPEN.to_owned(), good.clone(), "another session"),
        (
            format!("{OPEN}Cookie: tasuki=00000000000000000000000000000000\r\n"),
            good.clone(),
            "another session",
        ),
        (format!("{own}Origin: http://evil.example\r\n"), good.clone(), "Origin"),
        (format!("{own}Origin: null\r\n"), good.clone(), "Origin"),
        (format!("{own}Sec-Fetch-Site: cross-site\r\n"), good.clone(), "another site"),
        (
            format!(
                "{own}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n\
                 Sec-Fetch-Dest: document\r\n"
            ),
            good.clone(),
            "another site",
        ),
        (
            format!("Host: evil.example\r\nCookie: {cookie}\r\n"),
            good.clone(),
            "not a name of this server",
        ),
    ] {
        let answer = post(dashboard, path, &headers, &body).await;
        assert_eq!(status(&answer), 403, "{headers} {body}: {answer}");
        assert!(answer.contains(why), "{why}: {answer}");
    }
    let loops = async || {
        let request = wire::ListLoopsRequest { caller: caller("default"), ..Default::default() };
        turns(grpc).list_loops(request).await.unwrap().into_inner().loops.len()
    };
    let before = loops().await;
    for _ in 0..2 {
        let answer = post(dashboard, path, &own, &good).await;
        assert_eq!(status(&answer), 303, "{answer}");
    }
    assert_eq!(loops().await, before + 1, "the same form is the same command");
    let changed = format!("form={token}&key={key}&loop=y&participants=human");
    let answer = post(dashboard, path, &own, &changed).await;
    assert_eq!(status(&answer), 409, "the same key with other content: {answer}");
    assert_eq!(loops().await, before + 1);
    broker.kill().await;
}

#[tokio::test]
async fn a_link_on_another_sites_page_leads_here_and_no_frame_of_it_does() {
    let data = tempfile::tempdir().unwrap();
    let (broker, _, dashboard) = serve(data.path()).await;
    for (mode, to, code) in [
        ("navigate", "document", 200),
        ("navigate", "iframe", 403),
        ("no-cors", "image", 403),
        ("cors", "empty", 403),
    ] {
        let headers = format!(
            "{OPEN}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: {mode}\r\nSec-Fetch-Dest: {to}\r\n"
        );
        let answer = get(dashboard, "/w/default/now", &headers).await;
        assert_eq!(status(&answer), code, "{mode} {to}: {answer}");
    }
    broker.kill().await;
}

#[tokio::test]
async fn malformed_and_huge_requests_get_an_answer_and_change_nothing() {
    let data = tempfile::tempdir().unwrap();
    let (broker, _, dashboard) = serve(data.path()).await;
    let page = get(dashboard, "/w/default/now", OPEN).await;
    let cookie = behind(&page, "set-cookie: ", ';').to_owned();
    let token = behind(&page, "name=\"form\" value=\"", '"').to_owned();
    let key = behind(&page, "name=\"key\" value=\"", '"').to_owned();
    let own = format!("{OPEN}Cookie: {cookie}\r\n");
    for (path, code) in [
        ("/w/nowhere/now", 404),
        ("/w/%2e%2e/now", 404),
        ("/w/a%00b/now", 404),
        ("/w/default/timeline?until=x", 422),
        ("/w/default/loop/new", 405),
        ("/w/default/timeline?until=18446744073709551615&span=5m", 200),
        ("/w/default/timeline?at=18446744073709551615", 200),
        ("/w/default/mail?role=%3Cscript%3E&box=x&thread=..%2f", 200),
        ("/w/default/tasks?issue=%00&task=%ff", 200),
        ("/w/default/runs?run=x&before=y", 422),
        ("/w/default/search?q=%22unclosed", 200),
        ("/w/default/entry?loop=main&number=0", 404),
        ("/w/default/file?role=A&thread=x&hash=y&name=z", 422),
        ("/assets/../Cargo.toml", 404),
    ] {
        let answer = get(dashboard, path, OPEN).await;
        assert_eq!(status(&answer), code, "{path}: {answer}");
        assert!(answer.contains("content-security-policy"), "{path}");
        assert!(!answer.contains("<script>"), "{path}: {answer}");
        // A person is told in words, on a page that leads on.
        let is_told = answer.contains("id=\"trouble\"") && answer.contains("href=\"/\"");
        assert!(code == 200 || path.starts_with("/assets") || is_told, "{path}: {answer}");
    }
    let huge = "x".repeat(300 * 1024);
    for (path, more, code) in [
        ("/w/default/loop/new", "loop=&participants=".to_owned(), 422),
        ("/w/default/loop/handover", "loop=main&turn=-1&summary=x".to_owned(), 422),
        ("/w/default/loop/handover", format!("loop=main&summary={huge}&instruction=x"), 422),
        ("/w/default/mail/send", "to=nobody&subject=x&text=y&type=INFO".to_owned(), 404),
        ("/w/default/task/review", "verdict=approve&score=9".to_owned(), 422),
        ("/w/default/run/cancel", "run=none".to_owned(), 422),
        ("/w/default/nothing", String::new(), 404),
    ] {
        let answer = post(dashboard, path, &own, &format!("form={token}&key={key}&{more}")).await;
        assert_eq!(status(&answer), code, "{path} {}: {answer}", &more[..more.len().min(60)]);
    }
    let four = "x=1&".repeat(2 * 1024 * 1024);
    let answer = post(dashboard, "/w/default/loop/new", &own, &four).await;
    // Refused before all of it was read, so the answer may not arrive.
    assert!(answer.is_empty() || [413, 422].contains(&status(&answer)), "{answer}");
    broker.kill().await;
}

/// Whoever leaves many pages open is in nobody's way, whether they come back or not.
#[tokio::test]
async fn many_open_pages_leave_room_for_others() {
    let data = tempfile::tempdir().unwrap();
    let (broker, _, dashboard) = serve(data.path()).await;
    let open_one = async || {
        let mut stream = TcpStream::connect(dashboard).await.unwrap();
        let request = format!("GET /w/default/events HTTP/1.1\r\n{OPEN}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = [0; 12];
        soon("an answer", stream.read_exact(&mut head)).await.unwrap();
        (head[9..].to_vec(), stream)
    };
    let mut open = Vec::new();
    for _ in 0..800 {
        open.push(open_one().await);
    }
    let told = |code: &[u8]| open.iter().filter(|it| it.0 == code).count();
    assert_eq!((told(b"200"), told(b"429")), (768, 32));
    assert_eq!(status(&get(dashboard, "/healthz", OPEN).await), 200);
    assert_eq!(status(&get(dashboard, "/w/default/now", OPEN).await), 200);
    drop(open);
    // Their places are free once the broker has noticed.
    soon("a place", async { while open_one().await.0 != b"200" {} }).await;
    broker.kill().await;
}
