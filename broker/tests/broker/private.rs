//! Private mail at the broker: it keeps what owners and nodes signed, and takes in sealed words
//! alone. What is sealed is opaque here, so anything will do.

use std::path::Path;

use ed25519_dalek::SigningKey;
use tasuki_broker::server::Broker;
use tasuki_proto::{
    private::{NodeKey, OwnerKey, Roster, SignedRoster},
    wire::{self, privacy_client::PrivacyClient},
};
use tokio_stream::StreamExt as _;
use tonic::transport::Channel;

use crate::support::{Client, connect, reason, start};

struct Person {
    client: Client,
    privacy: PrivacyClient<Channel>,
}

async fn person(broker: &Broker, id: &str) -> Person {
    let channel = Channel::from_shared(format!("http://{}", broker.address())).unwrap();
    let privacy = PrivacyClient::new(channel.connect().await.unwrap());
    Person { client: connect(broker, id).await, privacy }
}

fn roster(owner: u8, number: u64, is_on: bool) -> SignedRoster {
    let owner = SigningKey::from_bytes(&[owner; 32]);
    let public = OwnerKey(owner.verifying_key().to_bytes());
    let workspace = "default".parse().unwrap();
    let roster = Roster { workspace, owner: public, number, is_on, keys: Vec::new() };
    roster.signed(&owner).unwrap()
}

impl Person {
    async fn set(&mut self, roster: wire::SignedRoster) -> String {
        let key = self.client.key();
        let request = wire::SetRosterRequest { caller: None, key, roster: Some(roster) };
        match self.privacy.set_roster(request).await {
            Ok(_) => "ok".to_owned(),
            Err(status) => reason(&status).to_owned(),
        }
    }

    async fn known(&mut self) -> wire::GetRosterResponse {
        self.privacy.get_roster(wire::GetRosterRequest::default()).await.unwrap().into_inner()
    }

    fn letter(&mut self, text: &str, sealed: Option<(&str, u8)>) -> wire::SendRequest {
        let sealed = sealed.map(|(envelope, mark)| wire::Sealed {
            envelope: envelope.into(),
            same: vec![mark; 16],
        });
        wire::SendRequest {
            key: self.client.key(),
            role: "A".to_owned(),
            to: vec!["B".to_owned()],
            r#type: "BR".to_owned(),
            text: text.to_owned(),
            fold: true,
            sealed,
            ..wire::SendRequest::default()
        }
    }

    async fn send(&mut self, letter: wire::SendRequest) -> Result<wire::SendResponse, String> {
        let sent = self.client.mail.send(letter).await;
        sent.map(tonic::Response::into_inner).map_err(|status| reason(&status).to_owned())
    }
}

async fn at(data: &Path, id: &str) -> (Broker, Person) {
    let broker = start(data).await;
    let person = person(&broker, id).await;
    (broker, person)
}

/// Holds Y5.
#[tokio::test]
async fn while_mail_is_private_no_words_come_in_but_sealed_ones() {
    let data = tempfile::tempdir().unwrap();
    let (broker, mut it) = at(data.path(), "c").await;
    let sealed = it.letter("", Some(("opaque", 1)));
    assert_eq!(it.send(sealed).await.unwrap_err(), "invalid_argument", "it never was private");
    let plain = it.letter("before", None);
    let before = it.send(plain).await.unwrap().message_id;
    assert_eq!(it.set(roster(1, 1, true).to_wire()).await, "ok");

    let plain = it.letter("in the clear", None);
    assert_eq!(it.send(plain).await.unwrap_err(), "private_workspace");
    let both = it.letter("in the clear", Some(("opaque", 1)));
    assert_eq!(it.send(both).await.unwrap_err(), "invalid_argument");
    let titled = it.letter("", Some(("opaque", 1)));
    let titled = wire::SendRequest { subject: "in the clear".to_owned(), ..titled };
    assert_eq!(it.send(titled).await.unwrap_err(), "invalid_argument");
    let import = wire::ImportThreadRequest {
        key: it.client.key(),
        message_id: "ded66c6a-58c1-47f4-916e-13787156f665".to_owned(),
        entries: vec![wire::ImportedEntry {
            sender: "A".to_owned(),
            receivers: vec!["B".to_owned()],
            text: "in the clear".to_owned(),
            ..wire::ImportedEntry::default()
        }],
        ..wire::ImportThreadRequest::default()
    };
    let refused = it.client.mail.import_thread(import).await.unwrap_err();
    assert_eq!(reason(&refused), "private_workspace");
    let head = wire::PutAttachmentHead {
        role: "A".to_owned(),
        size: 1,
        hash: blake3::hash(b"x").to_hex().to_string(),
        ..wire::PutAttachmentHead::default()
    };
    let head = wire::put_attachment_request::Part::Head(head);
    // At the head already: what follows need not be sent to be refused.
    let head = tokio_stream::once(wire::PutAttachmentRequest { part: Some(head) });
    let head = head.chain(tokio_stream::pending());
    let refused = it.client.mail.put_attachment(head).await.unwrap_err();
    assert_eq!(reason(&refused), "private_workspace");

    let sealed = it.letter("", Some(("opaque", 1)));
    let sent = it.send(sealed).await.unwrap();
    assert!(sent.file_name.contains("-BR--"), "the name tells no subject: {}", sent.file_name);
    broker.stop().await.unwrap();

    // And so it is after a restart; what was there before is.
    let (broker, mut it) = at(data.path(), "c2").await;
    let plain = it.letter("in the clear", None);
    assert_eq!(it.send(plain).await.unwrap_err(), "private_workspace");
    for (message, text, envelope) in
        [(before, "before", None), (sent.message_id, "", Some(b"opaque".to_vec()))]
    {
        let request =
            wire::ReadThreadRequest { role: "B".to_owned(), message, ..Default::default() };
        let read = it.client.mail.read_thread(request).await.unwrap().into_inner();
        let entry = &read.entries[0];
        assert_eq!(
            (entry.text.as_str(), entry.sealed.clone().map(|it| it.envelope)),
            (text, envelope)
        );
        assert_eq!(
            read.thread.unwrap().first,
            entry
                .sealed
                .is_some()
                .then(|| { wire::MailEntry { receipts: Vec::new(), ..entry.clone() } })
        );
    }
    assert_eq!(it.set(roster(1, 2, false).to_wire()).await, "ok");
    let plain = it.letter("in the clear", None);
    it.send(plain).await.unwrap();
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn the_same_words_sealed_again_are_the_same_letter() {
    let data = tempfile::tempdir().unwrap();
    let (broker, mut it) = at(data.path(), "c").await;
    it.set(roster(1, 1, true).to_wire()).await;
    let first = it.letter("", Some(("sealed once", 1)));
    let sent = it.send(first.clone()).await.unwrap();
    // Under the same key, as after a crash of the node.
    let mut again = it.letter("", Some(("sealed twice", 1)));
    again.key.clone_from(&first.key);
    let repeated = it.send(again).await.unwrap();
    assert_eq!(repeated.message_id, sent.message_id);
    let mut other = it.letter("", Some(("sealed", 2)));
    other.key.clone_from(&first.key);
    assert_eq!(it.send(other).await.unwrap_err(), "key_reused");
    // As a new intent of an agent that calls again.
    let again = it.letter("", Some(("sealed thrice", 1)));
    let folded = it.send(again).await.unwrap();
    assert_eq!((&folded.message_id, folded.repeated), (&sent.message_id, true));
    let other = it.letter("", Some(("sealed once", 2)));
    assert_ne!(it.send(other).await.unwrap().message_id, sent.message_id);
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_list_of_sealed_threads_comes_in_pages_that_fit() {
    let data = tempfile::tempdir().unwrap();
    let (broker, mut it) = at(data.path(), "c").await;
    it.set(roster(1, 1, true).to_wire()).await;
    let large = "x".repeat(300 * 1024);
    for mark in 0..10 {
        let letter = it.letter("", Some((&large, mark)));
        it.send(letter).await.unwrap();
    }
    let (mut seen, mut after, mut pages) = (0, String::new(), 0);
    loop {
        let request = wire::ListBoxRequest {
            role: "B".to_owned(),
            r#box: wire::Box::Inbox.into(),
            after,
            ..wire::ListBoxRequest::default()
        };
        let page = it.client.mail.list_box(request).await.unwrap().into_inner();
        seen += page.threads.len();
        pages += 1;
        after = page.next;
        if after.is_empty() || pages == 10 {
            break;
        }
    }
    assert_eq!((seen, pages), (10, 2));
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn what_nobody_signed_reaches_no_workspace() {
    let data = tempfile::tempdir().unwrap();
    let (broker, mut it) = at(data.path(), "c").await;
    let mut unsigned = roster(1, 1, true).to_wire();
    unsigned.signature = roster(2, 1, true).to_wire().signature;
    assert_eq!(it.set(unsigned).await, "invalid_argument");
    assert_eq!(it.set(wire::SignedRoster::default()).await, "invalid_argument");
    assert_eq!(it.set(roster(1, 1, true).to_wire()).await, "ok");
    assert_eq!(it.set(roster(2, 2, true).to_wire()).await, "right_forbidden");
    assert_eq!(it.set(roster(1, 1, false).to_wire()).await, "stale_token");

    let secret = SigningKey::from_bytes(&[3; 32]);
    let (workspace, node) = ("default".parse().unwrap(), "n1".parse().unwrap());
    let key = NodeKey::proven(&workspace, node, vec!["A".parse().unwrap()], &secret, [4; 32]);
    let mut request = wire::PublishKeyRequest {
        caller: None,
        key: it.client.key(),
        node_key: Some(wire::NodeKey { node: "n2".to_owned(), ..key.to_wire(0) }),
    };
    let refused = it.privacy.publish_key(request.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "invalid_argument");
    request.node_key = Some(key.to_wire(0));
    it.privacy.publish_key(request).await.unwrap();
    let known = it.known().await;
    assert_eq!(known.roster, Some(roster(1, 1, true).to_wire()));
    let [pending] = &known.pending[..] else { panic!("{known:?}") };
    assert!(pending.published_ms != 0 && pending.proof == key.to_wire(0).proof);
    broker.stop().await.unwrap();
}
