//! A real server on loopback that says what a test wants it to say.

use std::{collections::VecDeque, fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{
    super::{
        event::{Happening, Place},
        spec::Kind,
    },
    *,
};

/// For a step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// 2026-11-22 00:00:00 UTC.
const NOW_MS: u64 = 1_795_305_600_123;

/// A request as it came: head and body.
type Heard = (String, String);

/// Answers each connection with the next of `answers`, and gives back what it heard.
async fn server(answers: &[&str]) -> (String, tokio::task::JoinHandle<Vec<Heard>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook?key=secret", listener.local_addr().unwrap());
    let mut answers: VecDeque<String> = answers.iter().map(|it| (*it).to_owned()).collect();
    let serving = tokio::spawn(async move {
        let mut heard = Vec::new();
        while let Some(answer) = answers.pop_front() {
            let (mut stream, _) = listener.accept().await.unwrap();
            heard.push(hear(&mut stream).await);
            // Who has heard enough hangs up.
            stream.write_all(answer.as_bytes()).await.ok();
        }
        heard
    });
    (url, serving)
}

async fn hear(stream: &mut (impl AsyncRead + Unpin)) -> Heard {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        assert_ne!(count, 0, "it ended: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length: usize = header(head, "content-length").parse().unwrap();
        if body.len() == length {
            return (head.to_owned(), body.to_owned());
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value).unwrap_or_default()
}

fn webhook(url: &str) -> Webhook {
    Webhook { url: url.parse().unwrap(), secret_file: None, ca_file: None }
}

fn call(body: &str) -> Call {
    let of = Happening {
        kind: Kind::Received,
        role: "B".parse().unwrap(),
        message: "m".into(),
        entry: 1,
        unseen_by: Vec::new(),
        facts: None,
        place: Place { sequence: 1, event: 0, part: 1 },
    };
    Call::new("00ff".into(), &of, 1, body.into())
}

async fn post(url: &str, limit: Duration) -> Result<(), Failure> {
    let address = Address::find(&webhook(url)).unwrap();
    time::timeout(PATIENCE, address.post(&call("{}"), NOW_MS, limit)).await.unwrap()
}

fn secret(content: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("hook.secret");
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    (place, path)
}

/// HMAC as RFC 2104 writes it down, beside the one that is used.
fn hmac(key: &[u8], message: &[u8]) -> String {
    use sha2::Digest as _;
    assert!(key.len() <= 64);
    let pad = |with: u8| -> Vec<u8> {
        (0..64).map(|i| key.get(i).copied().unwrap_or(0) ^ with).collect()
    };
    let inner = Sha256::digest([pad(0x36), message.to_vec()].concat());
    let outer = Sha256::digest([pad(0x5c), inner.to_vec()].concat());
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn what_is_posted_and_how_it_is_signed() {
    let (url, serving) = server(&["HTTP/1.1 204 No Content\r\n\r\n"]).await;
    let (_place, path) = secret("it is a secret of mine\n", 0o600);
    let signed = Webhook { secret_file: Some(path), ..webhook(&url) };
    let body = "{\"text\":\"修复\"}";
    let address = Address::find(&signed).unwrap();
    address.post(&call(body), NOW_MS, PATIENCE).await.unwrap();
    let heard = serving.await.unwrap();
    let (head, said) = &heard[0];
    assert!(head.starts_with("POST /hook?key=secret HTTP/1.1\r\n"), "{head}");
    assert_eq!(said, body);
    let host = url.trim_start_matches("http://").split('/').next().unwrap();
    for (name, value) in [
        ("host", host),
        ("content-type", "application/json"),
        ("tasuki-event", "received"),
        ("tasuki-delivery", "00ff"),
        ("tasuki-timestamp", "1795305600"),
    ] {
        assert_eq!(header(head, name), value, "{name}");
    }
    let expected = hmac(b"it is a secret of mine", format!("1795305600.{body}").as_bytes());
    assert_eq!(header(head, "tasuki-signature"), format!("sha256={expected}"));
    let shown = format!("{address:?} {:?}", address.webhook);
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn a_signature_is_that_of_rfc_4231() {
    // Its test case 2, whose message is split where ours has a dot: none is there.
    let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(hmac(b"Jefe", b"what do ya want for nothing?"), expected);
    assert_eq!(sign(b"Jefe", 1, b"x"), format!("sha256={}", hmac(b"Jefe", b"1.x")));
}

#[test]
fn a_secret_is_private_and_long_enough() {
    for (content, mode, why) in [
        ("it is a secret of mine", 0o644, "others on this machine"),
        ("too short\n\n\n\n\n\n\n\n\n\n", 0o600, "can be guessed"),
        ("", 0o600, "can be guessed"),
    ] {
        let (_place, path) = secret(content, mode);
        let signed = Webhook { secret_file: Some(path), ..webhook("http://127.0.0.1:1") };
        let refused = Address::find(&signed).unwrap_err();
        assert!(refused.contains(why) && !refused.contains("too short"), "{refused}");
    }
    let missing = Some(PathBuf::from("/nowhere/at/all"));
    let signed = Webhook { secret_file: missing, ..webhook("http://127.0.0.1:1") };
    assert_eq!(Address::find(&signed).unwrap_err(), "/nowhere/at/all is not there");
}

#[tokio::test]
async fn what_answers_mean() {
    let after = |value: &str| format!("HTTP/1.1 429 Slow Down\r\nretry-after: {value}\r\n\r\n");
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\n\r\nwhatever".to_owned(), "ok"),
        (
            "HTTP/1.1 500 No\r\n\r\nan\u{1b}[2J\nerror".to_owned(),
            "again: answered 500 Internal Server Error: an[2J error",
        ),
        ("HTTP/1.1 404 No\r\n\r\n".to_owned(), "never: answered 404 Not Found"),
        ("HTTP/1.1 408 Slow\r\n\r\n".to_owned(), "again: answered 408 Request Timeout"),
        (after("7"), "after 7 s: answered 429 Too Many Requests"),
        (after("Sun, 22 Nov 2026 00:01:40 GMT"), "after 99 s: answered 429 Too Many Requests"),
        (after("Sat, 21 Nov 2026 00:00:00 GMT"), "again: answered 429 Too Many Requests"),
        (after("soon"), "again: answered 429 Too Many Requests"),
    ] {
        let (url, serving) = server(&[&answer]).await;
        let posted = post(&url, PATIENCE).await;
        let how = posted.as_ref().err().map_or("", |it| it.how.as_str());
        assert!(!how.contains("an[2J"), "its words are not for logs: {how}");
        let said = match posted {
            Ok(()) => "ok".to_owned(),
            Err(Failure { why, is_final: true, .. }) => format!("never: {why}"),
            Err(Failure { why, pause: Some(pause), .. }) => {
                format!("after {} s: {why}", pause.as_secs())
            }
            Err(Failure { why, .. }) => format!("again: {why}"),
        };
        assert_eq!(said, expected, "{answer:?}");
        serving.await.unwrap();
    }
}

/// Holds Q5.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = elsewhere.local_addr().unwrap();
    let answer =
        format!("HTTP/1.1 307 There\r\nlocation: http://{to}/\r\ncontent-length: 0\r\n\r\n");
    let (url, serving) = server(&[&answer]).await;
    let failed = post(&url, PATIENCE).await.unwrap_err();
    assert!(failed.is_final && failed.why.contains("redirects are not followed"), "{failed:?}");
    assert_eq!(serving.await.unwrap().len(), 1);
    let nobody = futures::FutureExt::now_or_never(elsewhere.accept());
    assert!(nobody.is_none(), "somebody came");
}

/// Holds Q6.
#[tokio::test]
async fn an_answer_cannot_fill_the_node() {
    let endless = |head: &'static str| async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            hear(&mut stream).await;
            let mut written = 0;
            let mut piece = head.as_bytes();
            while stream.write_all(piece).await.is_ok() {
                written += piece.len();
                piece =
                    if head.ends_with("\r\n\r\n") { &[b'x'; 4096] } else { b"a: b\r\nc: d\r\n" };
            }
            written
        });
        (url, serving)
    };
    // More than the sockets of both sides take was not read.
    let (url, serving) = endless("HTTP/1.1 500 No\r\n\r\n").await;
    let failed = post(&url, PATIENCE).await.unwrap_err();
    let (why, length) = (&failed.why, failed.why.len());
    assert!(why.starts_with("answered 500 Internal Server Error: xxx") && length < 600, "{why}");
    assert!(serving.await.unwrap() < 64 * 1024 * 1024);
    let (url, serving) = endless("HTTP/1.1 200 OK\r\n").await;
    let failed = post(&url, PATIENCE).await.unwrap_err();
    assert!(failed.why.starts_with("the connection broke: "), "{failed:?}");
    assert!(serving.await.unwrap() < 64 * 1024 * 1024);
}

#[tokio::test]
async fn an_address_that_says_nothing_has_its_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let failed = post(&url, Duration::from_millis(200)).await.unwrap_err();
    assert_eq!(failed, Failure::passing("no answer within 0.2 s"));
    drop(listener);
    let failed = post(&url, PATIENCE).await.unwrap_err();
    assert!(!failed.is_final && failed.why.contains("is not reached"), "{failed:?}");
}

/// Holds Q5.
#[tokio::test]
async fn an_encrypted_address_is_known_by_its_authority() {
    let place = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let ca_file = place.path().join("ca.pem");
    fs::write(&ca_file, made.cert.pem()).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder_with_provider(
        rustls::crypto::ring::default_provider().into(),
    )
    .with_protocol_versions(&[&rustls::version::TLS13])
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(vec![made.cert.der().clone()], key.into())
    .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let mut heard = Vec::new();
        while heard.is_empty() {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            // A client that does not trust it hangs up.
            let mut first = [0; 1];
            if stream.read_exact(&mut first).await.is_ok() {
                let mut rest = Box::new(io::Cursor::new(first).chain(&mut stream));
                heard.push(hear(&mut rest).await);
                drop(rest);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            }
        }
        heard
    });
    let trusting = |host: &str| Webhook {
        ca_file: Some(ca_file.clone()),
        ..webhook(&format!("https://{host}:{port}/hook"))
    };
    let ask = |webhook: Webhook| async move {
        let address = Address::find(&webhook).unwrap();
        address.post(&call("{}"), NOW_MS, PATIENCE).await
    };
    let other = ask(trusting("127.0.0.1")).await.unwrap_err();
    assert!(other.is_final && other.why.contains("is not for that name"), "{other:?}");
    ask(trusting("localhost")).await.unwrap();
    let heard = time::timeout(PATIENCE, serving).await.unwrap().unwrap();
    assert_eq!(heard[0].1, "{}");
}
