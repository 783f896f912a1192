//! Which workspaces there are, and what whoever mistypes one is told.

use prost::Message as _;
use tasuki_proto::{
    token::Right,
    wire::{
        self, directory_client::DirectoryClient, feed_client::FeedClient,
        mailbox_client::MailboxClient,
    },
};
use tonic::{Status, transport::Channel};

use crate::{
    guarded::{Bearer, Guarded, fresh, scope},
    support::{Process, caller, channel, key, make, reason, soon, turns},
};

async fn roles(channel: Channel, workspace: &str) -> Result<(), Status> {
    let request = wire::ListRolesRequest { caller: caller(workspace), ..Default::default() };
    soon("roles", DirectoryClient::new(channel).list_roles(request)).await.map(drop)
}

#[tokio::test]
async fn a_mistyped_workspace_is_refused_with_those_there_are() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let to = || channel(address);
    // Whoever names none means the default, without any node.
    roles(to(), "").await.unwrap();
    roles(to(), "default").await.unwrap();
    let send = wire::SendRequest {
        caller: caller("typo"),
        key: key("c", 1),
        role: "A".to_owned(),
        to: vec!["B".to_owned()],
        subject: "lost".to_owned(),
        ..Default::default()
    };
    let open = wire::CreateLoopRequest {
        caller: caller("typo"),
        key: key("c", 2),
        r#loop: "main".to_owned(),
        participants: vec!["A".to_owned(), "B".to_owned()],
        allow_new_roles: true,
    };
    let mailbox =
        wire::OpenMailboxRequest { caller: caller("typo"), key: key("c", 3), role: "B".to_owned() };
    let feed =
        wire::SubscribeRequest { caller: caller("typo"), from_sequence: 1, ..Default::default() };
    let refused = [
        roles(to(), "typo").await.unwrap_err(),
        MailboxClient::new(to()).send(send).await.unwrap_err(),
        MailboxClient::new(to()).open_mailbox(mailbox).await.unwrap_err(),
        turns(address).create_loop(open).await.unwrap_err(),
        FeedClient::new(to()).subscribe(feed).await.unwrap_err(),
    ];
    for status in refused {
        assert_eq!(reason(&status), "unknown_workspace");
        let said = status.message();
        assert!(
            said.starts_with(
                "there is no workspace typo; nothing was done. There is default. Make one"
            ),
            "{said}"
        );
        assert!(said.contains("tasuki up --workspace NAME"), "{said}");
    }
    // A node makes the one that it registers in, for good.
    make(to(), "project", "c").await.unwrap();
    roles(to(), "project").await.unwrap();
    broker.kill().await;
    let (_broker, address) = Process::served(data.path()).await;
    roles(channel(address), "project").await.unwrap();
    let said = roles(channel(address), "typo").await.unwrap_err();
    assert!(said.message().contains("There are default, project."), "{}", said.message());
}

async fn seen(bearer: &Bearer, workspace: &str) -> Result<(), Status> {
    let request = wire::ListRolesRequest { caller: caller(workspace), ..Default::default() };
    let message = request.encode_to_vec().into();
    bearer.unary("/tasuki.v1.Directory/ListRoles", message).await.map(drop)
}

#[tokio::test]
async fn an_invitation_makes_a_workspace_and_a_token_learns_of_no_other() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let everywhere = broker.bearer(Some(&broker.token("", &["A"], Right::ALL).await.expose()));
    let mine = broker.bearer(Some(&broker.token("mine", &["A"], Right::ALL).await.expose()));
    seen(&mine, "mine").await.unwrap();
    assert_eq!(reason(&seen(&everywhere, "invited").await.unwrap_err()), "unknown_workspace");
    let invite = wire::InviteRequest {
        code: fresh().hash().as_bytes().to_vec(),
        scope: Some(scope("invited", &["A"], &[Right::Read])),
        ..Default::default()
    };
    let mut access = broker.administrator().access();
    let invited = access.invite(invite).await.unwrap().into_inner();
    seen(&everywhere, "invited").await.unwrap();
    let said = seen(&everywhere, "typo").await.unwrap_err();
    assert!(said.message().contains("There are default, invited, mine."), "{}", said.message());
    for workspace in ["invited", "typo"] {
        let said = seen(&mine, workspace).await.unwrap_err();
        let expected = format!(
            "there is no workspace {workspace}, or none that your token may see; it may see mine"
        );
        assert_eq!((reason(&said), said.message()), ("unknown_workspace", expected.as_str()));
    }
    // One that was mistyped, and in which nothing happened, goes with its invitation.
    let invitation_id = invited.invitation_id;
    let withdraw = wire::WithdrawInvitationRequest { invitation_id };
    access.withdraw_invitation(withdraw).await.unwrap();
    assert_eq!(reason(&seen(&everywhere, "invited").await.unwrap_err()), "unknown_workspace");
}
