//! Private mail between two nodes over a real broker on a real disk.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tasuki_broker::server::{self, Broker};
use tasuki_node::{
    identity::Identity,
    node::{Node, RoleSpec, Settings},
    private::{keys::NodeKeys, owning, sealer::NOT_SEALED, trust},
    role::{Actions, Refusal, mail::Sent},
};
use tasuki_proto::{
    id::WorkspaceId,
    private::{NodeKey, Roster},
    reason::Reason,
    wire::{self, mail_answer::Standing, privacy_client::PrivacyClient},
};
use tempfile::TempDir;
use tonic::transport::Channel;

use crate::{connected, mail::letter};

/// Words that the broker must never have.
const SUBJECT: &str = "canary-subject-5e0c";
const TEXT: &str = "canary-text-91b7";

fn workspace() -> WorkspaceId {
    "default".parse().expect("an id")
}

struct Machine {
    data: TempDir,
    node: Node,
    roles: &'static [&'static str],
}

impl Machine {
    async fn start(broker: &Broker, roles: &'static [&'static str]) -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let spec = |role: &&str| RoleSpec {
            role: role.parse().expect("an id"),
            toolsets: vec!["mail".parse().expect("an id")],
        };
        let settings = Settings {
            broker: format!("http://{}", broker.address()),
            workspace: workspace(),
            roles: roles.iter().map(spec).collect(),
            data: data.path().to_owned(),
            take_over: false,
        };
        let node = Node::start(settings).await.expect("started");
        connected(&node).await;
        Self { data, node, roles }
    }

    fn role(&self, role: &str) -> Arc<dyn Actions> {
        self.node.actions(&role.parse().expect("an id")).expect("hosted")
    }

    /// What this machine's user does at `tasuki mail private trust`.
    fn trusting(&self, owner: &Roster) -> NodeKey {
        trust::Pin::trust(self.data.path(), &workspace(), owner.owner.id()).expect("kept");
        self.key()
    }

    fn key(&self) -> NodeKey {
        let keys = NodeKeys::with_one(self.data.path()).expect("kept");
        let node = Identity::known(self.data.path()).expect("readable").expect("it ran");
        let roles = self.roles.iter().map(|role| role.parse().expect("an id")).collect();
        keys.newest().expect("one was made").public(&workspace(), node, roles)
    }

    async fn send(&self, role: &str, request: wire::SendRequest) -> Result<String, Refusal> {
        match self.role(role).mail().send(request, None).await? {
            Sent::Stored(stored) => Ok(stored.message_id),
            queued @ Sent::Queued { .. } => panic!("{queued:?}"),
        }
    }

    async fn reads(&self, role: &str, message: &str) -> (String, Vec<String>) {
        let request = wire::ReadThreadRequest { message: message.to_owned(), ..Default::default() };
        let read = self.role(role).mail().read_thread(request).await.expect("read").what;
        let texts = read.entries.into_iter().map(|it| it.text).collect();
        (read.thread.expect("a thread").subject, texts)
    }
}

/// The owner, at the broker.
struct Owner {
    secret: ed25519_dalek::SigningKey,
    roster: Roster,
    privacy: PrivacyClient<Channel>,
    counter: u64,
}

impl Owner {
    async fn new(broker: &Broker) -> Self {
        let secret = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
        let owner = trust::public(&secret);
        let (workspace, keys) = (workspace(), Vec::new());
        let url = format!("http://{}", broker.address());
        let privacy = PrivacyClient::connect(url).await.expect("connected");
        let roster = Roster { workspace, owner, number: 0, is_on: true, keys };
        Self { secret, roster, privacy, counter: 0 }
    }

    async fn vouch(&mut self, key: &NodeKey) {
        let now = self.privacy.get_roster(wire::GetRosterRequest::default()).await.expect("asked");
        let next = owning::vouch(&self.roster, key, now.into_inner().now_ms).expect("room");
        self.set(next).await;
    }

    async fn set(&mut self, roster: Roster) {
        self.counter += 1;
        let request = wire::SetRosterRequest {
            caller: None,
            key: Some(wire::IdempotencyKey {
                client_id: "owner".to_owned(),
                counter: self.counter,
            }),
            roster: Some(roster.clone().signed(&self.secret).expect("signed").to_wire()),
        };
        self.privacy.set_roster(request).await.expect("taken");
        self.roster = roster;
    }
}

async fn broker(data: &Path) -> Broker {
    let settings = server::Settings::new(data.to_owned(), "127.0.0.1:0".parse().expect("one"));
    Broker::start(settings).await.expect("started")
}

/// Files below a directory that have `words` in them.
fn with_words(directory: &Path, words: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            with_words(&path, words, found);
        } else {
            let bytes = fs::read(&path).expect("readable");
            if bytes.windows(words.len()).any(|it| it == words.as_bytes()) {
                found.push(path);
            }
        }
    }
}

fn to_c(text: &str) -> wire::SendRequest {
    let to = vec!["C".to_owned()];
    wire::SendRequest { to, subject: SUBJECT.to_owned(), ..letter(text) }
}

#[tokio::test]
async fn what_two_nodes_write_is_nowhere_at_the_broker() {
    let kept = tempfile::tempdir().expect("a directory");
    let broker = broker(kept.path()).await;
    let here = Machine::start(&broker, &["A", "B"]).await;
    let there = Machine::start(&broker, &["C"]).await;
    // That the search below finds what is there.
    let plain = wire::SendRequest { subject: "s".to_owned(), ..to_c("in-the-clear-77aa") };
    let plain = here.send("A", plain).await.expect("stored");

    let mut owner = Owner::new(&broker).await;
    owner.vouch(&here.trusting(&owner.roster)).await;
    let refused = here.send("A", to_c(TEXT)).await.expect_err("nobody plays C");
    assert_eq!(refused.reason, Reason::PrivateWorkspace);
    owner.vouch(&there.trusting(&owner.roster)).await;

    // A wait shows it opened, subject and all.
    let role = there.role("C");
    let (filter, hold) = (Default::default(), Duration::from_secs(60));
    let seen = role.mail().await_mail(&filter, Duration::ZERO).await.expect("answered");
    let thread = seen.thread.expect("the plain one");
    assert_eq!(seen.entries[0].text, format!("{NOT_SEALED}in-the-clear-77aa"));
    let number = thread.entries;
    let id = thread.message_id.parse().expect("an id");
    role.mail().mark_mail(id, number, wire::MailMark::Handed);
    role.mail().mark_mail(id, number, wire::MailMark::Seen);
    let waiting = {
        let role = role.clone();
        tokio::spawn(async move {
            loop {
                let told = role.mail().await_mail(&filter, hold).await.expect("answered");
                let is_new = |it: &wire::MailThread| it.message_id != id.to_string();
                if told.standing() == Standing::Mail && told.thread.as_ref().is_some_and(is_new) {
                    return told;
                }
            }
        })
    };
    let message = here.send("A", to_c(TEXT)).await.expect("stored");
    let told = tokio::time::timeout(hold, waiting).await.expect("in time").expect("ran");
    assert_eq!(told.entries[0].text, TEXT);
    assert_eq!(told.thread.expect("a thread").subject, SUBJECT);

    let answer = wire::SendRequest {
        to: vec!["A".to_owned()],
        in_reply_to: message[..8].to_owned(),
        ..letter("canary-answer-91b7")
    };
    there.send("C", answer).await.expect("stored");
    let whole = (SUBJECT.to_owned(), vec![TEXT.to_owned(), "canary-answer-91b7".to_owned()]);
    assert_eq!(here.reads("A", &message).await, whole);
    assert_eq!(there.reads("C", &message).await, whole);
    assert_eq!(here.reads("A", &plain).await.1, [format!("{NOT_SEALED}in-the-clear-77aa")]);
    let request = wire::ListBoxRequest { r#box: wire::Box::Inbox.into(), ..Default::default() };
    let listed = here.role("A").mail().list_box(request).await.expect("listed").what;
    assert_eq!(listed.threads[0].subject, SUBJECT);
    assert!(listed.threads[0].file_name.contains("-BR--"), "{listed:?}");

    // The node refuses, in its own words: nothing went to the broker to be judged.
    let content = b"canary-file-91b7";
    let file = wire::Attachment {
        size: content.len() as u64,
        hash: blake3::hash(content).to_hex().to_string(),
        ..Default::default()
    };
    let refused = here.role("A").mail().put_attachment(&file, content.as_slice().into()).await;
    let refused = refused.expect_err("files are not sealed");
    assert_eq!(refused.reason, Reason::PrivateWorkspace);
    assert!(refused.message.contains("nothing was sent"), "{refused}");

    for machine in [here, there] {
        machine.node.shutdown(Duration::from_secs(10)).await;
    }
    broker.stop().await.expect("stopped");
    let mut found = Vec::new();
    with_words(kept.path(), "in-the-clear-77aa", &mut found);
    assert!(!found.is_empty(), "the search finds what is there");
    let mut found = Vec::new();
    with_words(kept.path(), "canary", &mut found);
    assert_eq!(found, [] as [PathBuf; 0]);
}

#[tokio::test]
async fn a_node_that_joins_later_and_one_that_rotates_read_what_is_theirs() {
    let kept = tempfile::tempdir().expect("a directory");
    let broker = broker(kept.path()).await;
    let here = Machine::start(&broker, &["A", "C"]).await;
    let mut owner = Owner::new(&broker).await;
    owner.vouch(&here.trusting(&owner.roster)).await;
    let message = here.send("A", to_c("one")).await.expect("stored");

    // What was written before its key was vouched for stays closed to it.
    let late = Machine::start(&broker, &["D"]).await;
    owner.vouch(&late.trusting(&owner.roster)).await;
    let more = |text: &str, to: &str| wire::SendRequest {
        to: vec![to.to_owned()],
        in_reply_to: message.clone(),
        ..letter(text)
    };
    here.send("A", more("two", "D")).await.expect("stored");
    NodeKeys::rotate(late.data.path()).expect("kept");
    owner.vouch(&late.key()).await;
    here.send("A", more("three", "D")).await.expect("stored");
    late.send("D", more("four", "A")).await.expect("stored");
    let (subject, texts) = late.reads("D", &message).await;
    assert_eq!(subject, "(sealed)");
    assert!(texts[0].contains("before this node could read it"), "{texts:?}");
    assert_eq!(texts[1..], ["two", "three", "four"]);
    assert_eq!(here.reads("C", &message).await.1, ["one", "two", "three", "four"]);
    for machine in [here, late] {
        machine.node.shutdown(Duration::from_secs(10)).await;
    }
    broker.stop().await.expect("stopped");
}
