//! A guarded broker at the level of TLS: what strangers get to see, and what it shows.

use std::{fs, path::PathBuf, time::Duration};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tasuki_broker::connection::{SILENT_MS_MAX, STRANGER_MS_MAX};
use tasuki_proto::{
    host::files,
    invitation::Trust,
    net::{
        dial::{DialError, dial},
        tls::{self, ALPN_HTTP1, ConnectError, Trusting},
    },
    wire::turn_loop_client::TurnLoopClient,
};
use tokio::{io::AsyncWriteExt as _, task::JoinSet, time::Instant};

use crate::{
    strangers::{ELSEWHERE, Guarded, ask, rest, tcp},
    support::{Process, arguments, run, soon},
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// For a busy machine, beyond what the broker allows.
const LATE: Duration = Duration::from_secs(3);

/// A record of an alert.
const ALERT: u8 = 21;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_speak_tls_is_closed_and_told_nothing() {
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    // The head of a ClientHello that promises 508 bytes more.
    let half_a_hello = [22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 7, 7, 7, 7];
    let table: [(&str, &[u8]); 5] = [
        ("silence", b""),
        ("half a ClientHello", &half_a_hello),
        ("HTTP/2 in the clear", PREFACE),
        ("HTTP/1.1 in the clear", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("noise", &[0xff; 1000]),
    ];
    let mut all = JoinSet::new();
    for (what, words) in table {
        let mut stream = tcp(ELSEWHERE, guarded.address).await;
        let opened = Instant::now();
        stream.write_all(words).await.unwrap();
        all.spawn(async move {
            let told = soon(what, rest(&mut stream)).await;
            let within = Duration::from_millis(SILENT_MS_MAX) + LATE;
            assert!(opened.elapsed() < within, "{what}: {:?}", opened.elapsed());
            // At most an alert of two bytes.
            assert!(
                told.len() <= 7 && told.first().is_none_or(|it| *it == ALERT),
                "{what}: {told:?}"
            );
        });
    }
    guarded.good_call().await;
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    guarded.good_call().await;
    guarded.broker.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_closed_in_time_and_who_showed_a_token_stays() {
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    let mut known = TurnLoopClient::new(guarded.channel().await);
    ask(&mut known).await;

    let mut silent = guarded.tls(ELSEWHERE).await;
    let opened = Instant::now();
    let told = soon("silence over TLS ends", rest(&mut silent)).await;
    let took = opened.elapsed();
    assert!(took < Duration::from_millis(SILENT_MS_MAX) + LATE, "{took:?}");
    // HTTP/2's settings are said at once, without waiting for the peer's preface.
    assert!(told.len() < 200, "{told:?}");

    let mut idle = guarded.tls(ELSEWHERE).await;
    let opened = Instant::now();
    idle.write_all(&[PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat()).await.unwrap();
    let (mut reads, writes) = tokio::io::split(idle);
    soon("HTTP/2 without a call ends", rest(&mut reads)).await;
    let took = opened.elapsed();
    assert!(took < Duration::from_millis(STRANGER_MS_MAX) + LATE, "{took:?}");
    drop(writes);

    // The same connection: what `dial` made is not opened again.
    ask(&mut known).await;
    guarded.broker.kill().await;
}

#[tokio::test]
async fn another_protocol_over_tls_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    let trusting = Trusting::new(Trust::Pinned(guarded.pin));
    let stream = tcp(ELSEWHERE, guarded.address).await;
    let connector = trusting.connector(&[ALPN_HTTP1]).unwrap();
    let refused = soon("a refusal", tls::connect(&connector, stream, "127.0.0.1")).await;
    assert!(matches!(refused, Err(ConnectError::Protocol { .. })), "{refused:?}");

    let stream = tcp(ELSEWHERE, guarded.address).await;
    let connector = trusting.connector(&[]).unwrap();
    let opening = tls::connect(&connector, stream, "127.0.0.1");
    let mut unnamed = soon("a handshake", opening).await.unwrap();
    drop(unnamed.write_all(PREFACE).await);
    assert_eq!(soon("it is closed", rest(&mut unnamed)).await, b"");
    guarded.good_call().await;
    guarded.broker.kill().await;
}

/// What anybody on the network learns is the certificate; the rest is one refusal.
/// Holds E3 and E5.
#[tokio::test]
async fn who_has_no_token_gets_the_same_refusal_whatever_is_asked() {
    let data = tempfile::tempdir().unwrap();
    let guarded = Guarded::serve(data.path(), &[]).await;
    let mut told = Vec::new();
    for path in [
        "/tasuki.v1.TurnLoop/GetLoop",
        "/tasuki.v1.TurnLoop/Nope",
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/",
    ] {
        let stream = guarded.tls(ELSEWHERE).await;
        let (mut send, connection) = h2::client::handshake(stream).await.unwrap();
        let driving = tokio::spawn(connection);
        let uri = format!("https://127.0.0.1{path}");
        let request = http::Request::post(uri).header("content-type", "application/grpc");
        let (answer, _) = send.send_request(request.body(()).unwrap(), true).unwrap();
        let answer = soon("a refusal", answer).await.unwrap();
        let (mut parts, mut body) = answer.into_parts();
        parts.headers.remove("date");
        assert!(body.data().await.is_none(), "{path}");
        assert_eq!(parts.headers["grpc-status"], "16", "{path}");
        told.push(format!("{:?}", (parts.status, parts.headers)));
        driving.abort();
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:#?}");
    guarded.broker.kill().await;
}

#[tokio::test]
async fn the_certificate_stays_across_restarts_and_its_loss_is_told() {
    let data = tempfile::tempdir().unwrap();
    let first = Guarded::serve(data.path(), &["--advertise", "broker.example"]).await;
    let pin = first.pin;
    first.broker.kill().await;
    let second = Guarded::serve(data.path(), &["--advertise", "renamed.example"]).await;
    assert_eq!(second.pin, pin);
    second.good_call().await;
    second.broker.kill().await;

    fs::remove_file(data.path().join("broker/tls/key.pem")).unwrap();
    for _ in 0..2 {
        let ended = run(&["serve", "--listen", "127.0.0.1:0", "--secure"], data.path()).await;
        assert_eq!(ended.code, Some(65), "{}", ended.log);
        assert!(ended.log.contains("key.pem cannot be read"), "{}", ended.log);
        assert!(ended.log.contains("join again"), "{}", ended.log);
    }
    // It is nothing to an open broker.
    let (open, _) = Process::served(data.path()).await;
    open.kill().await;
}

#[tokio::test]
async fn what_can_be_reached_from_elsewhere_is_guarded_without_being_told() {
    let data = tempfile::tempdir().unwrap();
    let words = ["serve", "--listen", "0.0.0.0:0", "--advertise", "[2001:db8::7]:443"];
    let mut broker = Process::spawn(&arguments(&words, data.path()), &[]);
    let listening = broker.line().await.unwrap();
    assert!(listening.starts_with("listening on https://0.0.0.0:"), "{listening}");
    assert_eq!(broker.line().await.unwrap(), "advertised as https://[2001:db8::7]:443");
    broker.kill().await;
    let wrong = run(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", "cert.pem"], data.path());
    let wrong = wrong.await;
    assert_eq!(wrong.code, Some(2), "{}", wrong.log);
    assert!(wrong.log.contains("tls_cert and tls_key"), "{}", wrong.log);
}

/// An authority, and what it signed, in files.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(folder: PathBuf) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "ours");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.join("ca.pem"), certificate.pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |end: &str| self.folder.join(format!("{name}.{end}"));
        fs::write(file("pem"), certificate.pem()).unwrap();
        files::replace(&file("key"), key.serialize_pem().as_bytes()).unwrap();
        (file("pem"), file("key"))
    }
}

#[tokio::test]
async fn authorities_vouch_for_the_broker_and_for_its_clients() {
    let data = tempfile::tempdir().unwrap();
    let authority = Authority::new(data.path().to_owned());
    let (cert, key) = authority.issue("127.0.0.1");
    let ca = authority.file();
    let [cert, key, client_ca] = [&cert, &key, &ca].map(|it| it.to_str().unwrap());
    let flags = ["--tls-cert", cert, "--tls-key", key, "--client-ca", client_ca];
    let guarded = Guarded::serve(data.path(), &flags).await;
    let url = format!("https://{}", guarded.address);
    let mut trusting = Trusting::new(Trust::Authorities);
    trusting.authorities = Some(authority.file());
    trusting.client = Some(authority.issue("laptop"));
    let channel =
        soon("a connection", Box::pin(dial(&url, &trusting, Some(&guarded.admin)))).await.unwrap();
    ask(&mut TurnLoopClient::new(channel)).await;

    trusting.client = None;
    let refused = soon("a refusal", Box::pin(dial(&url, &trusting, Some(&guarded.admin)))).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, DialError::Tls(ConnectError::ClientCertificate { .. })), "{refused}");
    guarded.broker.kill().await;
}

/// A stranger who shows the certificate to somebody else does not get a token out of them.
#[tokio::test]
async fn who_pinned_another_certificate_says_nothing() {
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let guarded = Guarded::serve(data.path(), &[]).await;
    let joined = Guarded::serve(other.path(), &[]).await;
    let trusting = Trusting::new(Trust::Pinned(joined.pin));
    let url = format!("https://{}", guarded.address);
    let refused =
        soon("a refusal", Box::pin(dial(&url, &trusting, Some(&joined.admin)))).await.unwrap_err();
    assert!(refused.is_final(), "{refused}");
    let words = format!("({}) than the one that was pinned ({})", guarded.pin, joined.pin);
    assert!(refused.to_string().contains(&words), "{refused}");
    guarded.broker.kill().await;
    joined.broker.kill().await;
}
