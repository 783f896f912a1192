//! Who the node is to its broker, and its broker to it: tokens and certificates.

use std::{path::Path, time::Duration};

use tasuki_node::{
    credentials::Joined,
    link::{Link, LinkState, Phase},
    role::Refusal,
};
use tasuki_proto::{
    invitation::Fingerprint,
    net::tls::{ALPN_H2, ServerIdentity},
    reason::Reason,
    token::{SECRET_BYTES, Secret, Token},
};
use tokio::{io::AsyncReadExt as _, net::TcpListener};

use crate::{
    LONG, SOON,
    asking::AskLink as _,
    fake::{Fake, World, proxy::Proxy},
    lost::{role, start, until},
    main_loop, to,
};

fn token(fill: u8) -> Token {
    Token { id: "0011".parse().expect("an id"), secret: Secret::new([fill; SECRET_BYTES]) }
}

/// As `tasuki join` does it.
fn join(data: &Path, broker: &str, fingerprint: Option<Fingerprint>, token: &Token) {
    let joined = Joined {
        broker: broker.to_owned(),
        fingerprint: fingerprint.map(|it| it.to_string()),
        ca: None,
        client_cert: None,
        client_key: None,
        invitation: String::new(),
        token: token.expose(),
        workspace: "default".to_owned(),
        roles: Vec::new(),
        is_any_role: true,
        rights: Vec::new(),
        expires_ms: 0,
    };
    joined.write(data).expect("written");
}

fn refused(state: &LinkState) -> Option<&Refusal> {
    match &state.phase {
        Phase::Refused(refusal) => Some(refusal),
        Phase::Connecting | Phase::Connected | Phase::Down(_) => None,
    }
}

fn says_to_join(refusal: &Refusal) {
    assert_eq!(refusal.reason, Reason::Unauthenticated);
    assert!(!refusal.reason.is_retryable() && !refusal.reason.is_maybe_applied());
    assert!(refusal.message.contains("`tasuki join`"), "{refusal}");
}

async fn connected(link: &Link) {
    until(link, "connected", SOON, LinkState::is_connected).await;
}

#[tokio::test]
async fn a_token_is_shown_with_every_call_and_waits_end_when_it_is_revoked() {
    let mut fake = Fake::new();
    fake.change(|world| world.token = Some(token(1).expose()));
    fake.serve();
    let data = tempfile::tempdir().expect("a directory");
    join(data.path(), &fake.url(), None, &token(1));
    let link = start(&fake.url(), data.path());
    connected(&link).await;
    let waiting = {
        let link = link.clone();
        tokio::spawn(async move { link.await_turn(&role("B"), &main_loop(), LONG).await })
    };
    fake.until("parked", |world| world.parked.len() == 1).await;
    link.hand_over(&role("A"), &to("C")).await.expect("carried out");
    link.loop_status(&main_loop()).await.expect("told");
    assert_eq!(fake.world.borrow().strangers, 0);

    fake.change(|world| world.token = Some(token(2).expose()));
    says_to_join(&waiting.await.expect("ran").expect_err("not for ever"));
    says_to_join(&link.hand_over(&role("C"), &to("A")).await.expect_err("turned away"));
    says_to_join(&link.await_turn(&role("B"), &main_loop(), LONG).await.expect_err("no"));
    until(&link, "refused", SOON, |state| refused(state).is_some()).await;
    let strangers = fake.world.borrow().strangers;
    assert!(strangers < 5, "the broker counts them: {strangers}");

    join(data.path(), &fake.url(), None, &token(2));
    connected(&link).await;
    link.hand_over(&role("C"), &to("A")).await.expect("joined again, without a restart");
}

#[tokio::test]
async fn a_rotation_that_was_cut_short_goes_on_with_whichever_secret_is_good() {
    let mut fake = Fake::new();
    fake.change(|world| world.token = Some(token(2).expose()));
    fake.serve();
    let data = tempfile::tempdir().expect("a directory");
    join(data.path(), &fake.url(), None, &token(1));
    Joined::begin_rotation(data.path(), &token(2)).expect("written");
    let link = start(&fake.url(), data.path());
    connected(&link).await;
    assert_eq!(fake.world.borrow().strangers, 1);
    let kept = Joined::read(data.path()).expect("readable").expect("there");
    assert_eq!(kept.token(), Some(token(2)), "the next start knows");
}

#[tokio::test]
async fn waits_and_commands_go_over_tls_and_outlive_its_connections() {
    let mut fake = Fake::new();
    fake.change(|world| world.token = Some(token(1).expose()));
    fake.serve();
    let data = tempfile::tempdir().expect("a directory");
    let identity = ServerIdentity::own(&data.path().join("tls"), &["127.0.0.1".to_owned()]);
    let identity = identity.expect("made");
    let acceptor = identity.acceptor(None, &[ALPN_H2]).expect("an acceptor");
    let proxy = Proxy::new(fake.address, Some(acceptor)).await;
    let url = format!("https://{}", proxy.address);

    let other = Fingerprint([7; 32]);
    join(data.path(), &url, Some(other), &token(1));
    let link = start(&url, data.path());
    let says = |state: &LinkState| {
        let Phase::Down(why) = &state.phase else { return false };
        why.contains("another certificate") && why.contains(&other.to_string())
    };
    until(&link, "wary", SOON, says).await;
    assert_eq!(fake.world.borrow().strangers, 0, "nothing was sent");

    join(data.path(), &url, Some(identity.fingerprint()), &token(1));
    connected(&link).await;
    let waiting = {
        let link = link.clone();
        tokio::spawn(async move { link.await_turn(&role("B"), &main_loop(), LONG).await })
    };
    let is_parked = |after: u64| {
        move |world: &World| {
            let mut parked = world.parked.iter();
            parked.any(|((stream, _), asked)| after < *stream && asked.role == "B")
        }
    };
    fake.until("parked", is_parked(0)).await;
    // What comes back over the stream says that the node knows it is open.
    let looked = link.await_turn(&role("C"), &main_loop(), Duration::ZERO).await;
    assert!(looked.expect("answered").still_waiting);
    let streams = fake.world.borrow().streams;
    proxy.swallow();
    link.look();
    let streams = fake.until("parked again", is_parked(streams)).await.streams;
    fake.kill().await;
    fake.serve();
    fake.until("and again", is_parked(streams)).await;
    link.hand_over(&role("A"), &to("B")).await.expect("carried out");
    assert!(waiting.await.expect("ran").expect("answered").can_start);
}

/// Holds L5.
#[tokio::test]
async fn a_call_that_found_no_connection_is_not_called_lost() {
    // It takes connections and never says a word, so no TLS is agreed on.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}", silent.local_addr().expect("an address"));
    let listening = tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok((mut stream, _)) = silent.accept().await {
            taken.push(tokio::spawn(async move { stream.read_to_end(&mut Vec::new()).await }));
        }
    });
    let data = tempfile::tempdir().expect("a directory");
    join(data.path(), &url, Some(Fingerprint([7; 32])), &token(1));
    let link = start(&url, data.path());
    let refusal = link.hand_over(&role("A"), &to("B")).await.expect_err("nobody there");
    assert_eq!(refusal.reason, Reason::Unavailable, "{refusal}");
    link.shutdown(Duration::from_millis(1)).await;
    listening.abort();
}
