//! How tokens begin and end: invitations, rotation, expiry, revocation; over restarts, too.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tasuki_proto::{
    token::{Right, Secret, Token},
    wire,
};
use tokio::time::Instant;
use tonic::{Request, Status};

use super::named;
use crate::{
    guarded::{Guarded, fresh, scope},
    support::{caller, soon},
};

/// What is promised, with what a busy machine needs on top.
const WITHIN: Duration = Duration::from_millis(1000);

fn park(workspace: &str) -> Bytes {
    let turn = wire::TurnQuestion {
        caller: caller(workspace),
        r#loop: String::new(),
        role: "B".to_owned(),
        hold_ms: 1_000_000,
    };
    let ask = wire::park_request::Ask::Turn(turn);
    wire::ParkRequest { wait: 1, ask: Some(ask) }.encode_to_vec().into()
}

fn await_turn(workspace: &str) -> Bytes {
    wire::AwaitTurnRequest {
        caller: caller(workspace),
        r#loop: String::new(),
        role: "B".to_owned(),
        hold_ms: 1_000_000,
    }
    .encode_to_vec()
    .into()
}

async fn waiting(broker: &Guarded, workspace: &str, count: usize) {
    let mut loops = wire::directory_client::DirectoryClient::new(broker.channel());
    let admin = broker.administrator();
    let seen = async {
        loop {
            let request =
                wire::ListRolesRequest { caller: caller(workspace), ..Default::default() };
            let roles = loops.list_roles(admin.show(Request::new(request))).await.unwrap();
            let waits: usize = roles.into_inner().roles.iter().map(|it| it.waits.len()).sum();
            if waits == count {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    soon("waits are parked", seen).await;
}

/// Holds E1.
#[tokio::test]
async fn all_that_a_revoked_token_has_open_ends_within_a_second_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let mine = broker.token("w", &["B"], Right::ALL).await;
    let other = broker.token("v", &["B"], Right::ALL).await;
    let (mine_bearer, other_bearer) =
        (broker.bearer(Some(&mine.expose())), broker.bearer(Some(&other.expose())));

    let mut parked =
        mine_bearer.open("/tasuki.v1.Waits/Park", park("w")).await.unwrap().into_inner();
    let feed =
        wire::SubscribeRequest { caller: caller("w"), from_sequence: 0, ..Default::default() }
            .encode_to_vec();
    let mut feed =
        mine_bearer.open("/tasuki.v1.Feed/Subscribe", feed.into()).await.unwrap().into_inner();
    waiting(&broker, "w", 1).await;
    let held = mine_bearer.clone();
    let held =
        tokio::spawn(
            async move { held.unary("/tasuki.v1.TurnLoop/AwaitTurn", await_turn("w")).await },
        );
    let mut others =
        other_bearer.open("/tasuki.v1.Waits/Park", park("v")).await.unwrap().into_inner();
    waiting(&broker, "v", 1).await;

    broker.revoke(&mine.id).await;
    let began = Instant::now();
    // A newer wait of the role may have taken over the parked one first.
    let last = async {
        loop {
            match parked.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return "ended".to_owned(),
                Err(status) => return named(&status),
            }
        }
    };
    assert_eq!(soon("the waits end", last).await, "unauthenticated");
    let status = soon("the feed ends", feed.message()).await.unwrap_err();
    assert_eq!(named(&status), "unauthenticated");
    let status = soon("the held call ends", held).await.unwrap().unwrap_err();
    assert_eq!(named(&status), "unauthenticated");
    assert!(began.elapsed() < WITHIN, "it took {:?}", began.elapsed());
    waiting(&broker, "w", 0).await;
    waiting(&broker, "v", 1).await;
    assert!(
        tokio::time::timeout(Duration::from_millis(1), others.message()).await.is_err(),
        "another token's wait goes on"
    );
    let refused = mine_bearer.unary("/tasuki.v1.Access/WhoAmI", Bytes::new()).await.unwrap_err();
    assert!(matches!(named(&refused).as_str(), "unauthenticated"), "{refused}");
}

#[tokio::test]
async fn a_node_whose_token_is_over_is_not_present() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let token = broker.token("w", &["B"], Right::ALL).await;
    let register = wire::RegisterRequest {
        caller: caller("w"),
        key: crate::support::key("c", 1),
        node: "n".to_owned(),
        ..wire::RegisterRequest::default()
    };
    let registered = broker.bearer(Some(&token.expose()));
    let path = "/tasuki.v1.Directory/Register";
    registered.unary(path, register.encode_to_vec().into()).await.unwrap();
    let is_present = async || {
        let ask =
            wire::ListNodesRequest { caller: caller("w"), ..Default::default() }.encode_to_vec();
        let path = "/tasuki.v1.Directory/ListNodes";
        let said = broker.administrator().unary(path, ask.into()).await.unwrap();
        wire::ListNodesResponse::decode(said).unwrap().nodes[0].is_present
    };
    assert!(is_present().await);
    broker.revoke(&token.id).await;
    assert!(!is_present().await);
}

#[tokio::test]
async fn a_token_ends_by_its_time_with_all_it_has_open() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let token = broker.token_for("w", &["B"], Right::ALL, 1500).await;
    let bearer = broker.bearer(Some(&token.expose()));
    let mut parked = bearer.open("/tasuki.v1.Waits/Park", park("w")).await.unwrap().into_inner();
    let status = soon("the waits end", parked.message()).await.unwrap_err();
    assert_eq!(named(&status), "unauthenticated");
    let refused = bearer.unary("/tasuki.v1.Access/WhoAmI", Bytes::new()).await.unwrap_err();
    assert_eq!(named(&refused), "unauthenticated");
}

#[tokio::test]
async fn a_token_is_rotated_without_a_failed_call_and_the_old_secret_ends_with_its_first_use() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let old = broker.token("w", &["A"], &[Right::Read]).await;
    let bearer = broker.bearer(Some(&old.expose()));
    let secret = fresh();
    let rotate = || wire::RotateTokenRequest {
        token_id: String::new(),
        secret: secret.hash().as_bytes().to_vec(),
        overlap_ms: 0,
    };
    let rotated = bearer.access().rotate_token(rotate()).await.unwrap().into_inner();
    assert_eq!(bearer.access().rotate_token(rotate()).await.unwrap().into_inner(), rotated);
    let who = |shows: String| {
        let bearer = broker.bearer(Some(&shows));
        async move { bearer.access().who_am_i(wire::WhoAmIRequest {}).await.map(|_| ()) }
    };
    who(old.expose()).await.unwrap();
    let new = Token { id: old.id.clone(), secret: secret.clone() };
    who(new.expose()).await.unwrap();
    let ended = async {
        while who(old.expose()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    soon("the old secret ends", ended).await;
    who(new.expose()).await.unwrap();
}

#[tokio::test]
async fn a_code_lets_one_join_once_and_the_host_learns_of_another_try() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let code = fresh();
    let mut admin = broker.administrator().access();
    let invite = wire::InviteRequest {
        code: code.hash().as_bytes().to_vec(),
        scope: Some(scope("w", &["dev"], Right::OF_A_NODE)),
        label: "laptop".to_owned(),
        ..wire::InviteRequest::default()
    };
    let invited = admin.invite(invite.clone()).await.unwrap().into_inner();
    assert_eq!(admin.invite(invite).await.unwrap().into_inner(), invited);

    let mine = fresh();
    let join = |secret: &Secret| wire::JoinRequest {
        code: code.expose_bytes().to_vec(),
        secret: secret.hash().as_bytes().to_vec(),
        label: String::new(),
    };
    let mut joining = broker.bearer(None).access();
    let joined = joining.join(join(&mine)).await.unwrap().into_inner();
    assert_eq!(joining.join(join(&mine)).await.unwrap().into_inner(), joined, "said again");
    let stolen = broker.bearer(None).access().join(join(&fresh())).await.unwrap_err();
    assert_eq!(named(&stolen), "invitation_spent");

    let listed = admin.list_invitations(wire::ListInvitationsRequest {}).await.unwrap();
    let invitation = listed.into_inner().invitations.remove(0);
    assert_eq!(
        (invitation.token_id.as_str(), invitation.misuses.len()),
        (joined.token_id.as_str(), 1)
    );
    assert!(invitation.misuses[0].address.starts_with("127.77."));

    let token = Token { id: joined.token_id.parse().unwrap(), secret: mine };
    let who = broker.bearer(Some(&token.expose())).access().who_am_i(wire::WhoAmIRequest {}).await;
    assert_eq!(who.unwrap().into_inner().scope, joined.scope);

    // All of it is there after a kill.
    broker.process.kill().await;
    let broker = Guarded::start(data.path()).await;
    broker.bearer(Some(&token.expose())).access().who_am_i(wire::WhoAmIRequest {}).await.unwrap();
    let mut joining = broker.bearer(None).access();
    assert_eq!(joining.join(join(&token.secret)).await.unwrap().into_inner(), joined);
    broker.revoke(&token.id).await;
    broker.process.kill().await;
    let broker = Guarded::start(data.path()).await;
    let who = broker.bearer(Some(&token.expose())).access().who_am_i(wire::WhoAmIRequest {}).await;
    assert_eq!(named(&who.unwrap_err()), "unauthenticated", "revoked for ever");
}

/// The record of what was done names the token; so do the history and whoever follows.
#[tokio::test]
async fn what_was_done_says_with_which_token() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let token = broker.token("w", &["A", "B"], Right::ALL).await;
    let bearer = broker.bearer(Some(&token.expose()));
    let handover = wire::HandOverRequest {
        caller: caller("w"),
        key: crate::support::key("c", 1),
        role: "A".to_owned(),
        summary: "s".to_owned(),
        instruction: "i".to_owned(),
        ..wire::HandOverRequest::default()
    };
    bearer.unary("/tasuki.v1.TurnLoop/HandOver", handover.encode_to_vec().into()).await.unwrap();
    let ask =
        wire::SubscribeRequest { caller: caller("w"), from_sequence: 1, ..Default::default() }
            .encode_to_vec();
    let item = bearer.call("/tasuki.v1.Feed/Subscribe", ask.into()).await.unwrap();
    assert_eq!(wire::FeedItem::decode(item).unwrap().token, token.id.as_str());
    let ask = wire::HistoryRequest { caller: caller("w"), ..Default::default() }.encode_to_vec();
    let page = bearer.unary("/tasuki.v1.TurnLoop/History", ask.into()).await.unwrap();
    let page = wire::HistoryResponse::decode(page).unwrap();
    assert_eq!(page.entries[0].token, token.id.as_str());
}

/// A person's power takes the right to steer, whatever else a token may do.
/// Holds E7.
#[tokio::test]
async fn nobody_acts_as_a_person_without_the_right_to_steer() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let node = broker.token("w", &["A", "B"], Right::OF_A_NODE).await;
    let bearer = broker.bearer(Some(&node.expose()));
    let reclaim = wire::ReclaimRequest {
        caller: caller("w"),
        key: crate::support::key("c", 1),
        person: "ann".to_owned(),
        to: "A".to_owned(),
        reason: "r".to_owned(),
        ..wire::ReclaimRequest::default()
    };
    let start = wire::StartRoundRequest {
        caller: caller("w"),
        key: crate::support::key("c", 2),
        person: "ann".to_owned(),
        ..wire::StartRoundRequest::default()
    };
    let said = |answered: Result<Bytes, Status>| named(&answered.unwrap_err());
    let reclaimed = bearer.unary("/tasuki.v1.TurnLoop/Reclaim", reclaim.encode_to_vec().into());
    assert_eq!(said(reclaimed.await), "right_forbidden");
    let started = bearer.unary("/tasuki.v1.TurnLoop/StartRound", start.encode_to_vec().into());
    assert_eq!(said(started.await), "right_forbidden");
}

/// A receipt is a claim in the role's name, and ten hands are a dead letter: who may only read
/// leaves no trace.
#[tokio::test]
async fn who_may_only_read_marks_no_mail() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let sender = broker.token("w", &["A"], &[Right::Read, Right::Send]).await;
    let sender = broker.bearer(Some(&sender.expose()));
    let reader = broker.token("w", &["B"], &[Right::Read]).await;
    let reader = broker.bearer(Some(&reader.expose()));
    let send = wire::SendRequest {
        caller: caller("w"),
        key: crate::support::key("c", 1),
        role: "A".to_owned(),
        to: vec!["B".to_owned()],
        r#type: "INFO".to_owned(),
        text: "words".to_owned(),
        ..wire::SendRequest::default()
    };
    let sent = sender.unary("/tasuki.v1.Mailbox/Send", send.encode_to_vec().into()).await.unwrap();
    let message = wire::SendResponse::decode(sent).unwrap().message_id;
    let wait = |mark: wire::MailMark| wire::AwaitMailRequest {
        caller: caller("w"),
        role: "B".to_owned(),
        mark: mark.into(),
        ..wire::AwaitMailRequest::default()
    };
    let read = |role: &str, mark: wire::MailMark| wire::ReadThreadRequest {
        caller: caller("w"),
        role: role.to_owned(),
        message: message.clone(),
        mark: mark.into(),
        ..wire::ReadThreadRequest::default()
    };
    for mark in [wire::MailMark::Handed, wire::MailMark::Seen] {
        let asked = read("B", mark).encode_to_vec().into();
        let refused = reader.unary("/tasuki.v1.Mailbox/ReadThread", asked).await;
        assert_eq!(named(&refused.unwrap_err()), "right_forbidden");
        let asked = wait(mark).encode_to_vec().into();
        let refused = reader.unary("/tasuki.v1.Mailbox/AwaitMail", asked).await;
        assert_eq!(named(&refused.unwrap_err()), "right_forbidden");
    }
    let asked = wait(wire::MailMark::Unspecified).encode_to_vec().into();
    reader.unary("/tasuki.v1.Mailbox/AwaitMail", asked).await.unwrap();
    let asked = read("B", wire::MailMark::Unspecified).encode_to_vec().into();
    reader.unary("/tasuki.v1.Mailbox/ReadThread", asked).await.unwrap();
    let asked = read("A", wire::MailMark::None).encode_to_vec().into();
    let thread = sender.unary("/tasuki.v1.Mailbox/ReadThread", asked).await.unwrap();
    let thread = wire::ReadThreadResponse::decode(thread).unwrap();
    let receipt = &thread.entries[0].receipts[0];
    assert_eq!((receipt.handed_ms, receipt.seen_ms), (0, 0), "{receipt:?}");
}

/// Who read the file may act with its token until somebody ends it: a broker that makes itself
/// another does.
#[tokio::test]
async fn a_token_for_administration_that_others_could_read_is_over_at_the_next_start() {
    use std::os::unix::fs::PermissionsExt as _;
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let other = broker.token("", &["*"], Right::ALL).await;
    let known = broker.admin.token.clone();
    broker.process.kill().await;
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(data.path().join("broker/admin.json"), open).unwrap();
    let broker = Guarded::start(data.path()).await;
    assert_ne!(broker.admin.token, known);
    let who = async |token: &str| {
        broker.bearer(Some(token)).access().who_am_i(wire::WhoAmIRequest {}).await
    };
    assert_eq!(named(&who(&known).await.unwrap_err()), "unauthenticated");
    who(&broker.admin.token).await.unwrap();
    who(&other.expose()).await.unwrap();
}
