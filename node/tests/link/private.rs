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
    link::Sent,
    node::{Node, RoleSpec, Settings},
    outbox,
    private::{envelope::Envelope, keys::NodeKeys, owning, sealer::NOT_SEALED, trust},
    role::{Actions, Refusal},
};
use tasuki_proto::{
    id::WorkspaceId,
    private::{NodeKey, Roster},
    reason::Reason,
    wire::{self, mail_answer::Standing, privacy_client::PrivacyClient},
};
use tempfile::TempDir;
use tonic::transport::Channel;

use crate::{Bench, asking::Await as _, connected, fake::Fake, mail::letter, start};

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
            is_standby: false,
        };
        let settings = Settings {
            broker: format!("http://{}", broker.address()),
            carrier: None,
            workspace: workspace(),
            roles: roles.iter().map(spec).collect(),
            data: data.path().to_owned(),
            take_over: false,
            is_moved: false,
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
        match self.role(role).send(request, None).await? {
            Sent::Stored(stored) => Ok(stored.message_id),
            queued @ Sent::Queued { .. } => panic!("{queued:?}"),
        }
    }

    async fn reads(&self, role: &str, message: &str) -> (String, Vec<String>) {
        let request = wire::ReadThreadRequest {
            message: message.to_owned(),
            mark: wire::MailMark::None.into(),
            ..Default::default()
        };
        let read = self.role(role).look_up(request).await.expect("read").what;
        let texts = read.entries.into_iter().map(|it| it.text).collect();
        (read.thread.expect("a thread").subject, texts)
    }

    /// What is found, as thread, entry and what is lit.
    async fn finds(&self, role: &str, query: &str) -> Vec<(String, u32, String)> {
        let query = query.to_owned();
        let request = wire::SearchMailRequest { query, ..Default::default() };
        let found = self.role(role).query(request).await.expect("searched");
        let hit = |it: wire::MailHit| {
            let lit = it.highlights.chunks_exact(2);
            let lit = lit.map(|at| &it.excerpt[at[0] as usize..at[1] as usize]);
            let lit = lit.collect::<Vec<_>>().join(" ");
            (it.thread.expect("a thread").message_id, it.entry, lit)
        };
        let mut hits: Vec<_> = found.hits.into_iter().map(hit).collect();
        hits.sort();
        hits
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
    let seen = role.await_mail(&filter, Duration::ZERO).await.expect("answered");
    let thread = seen.thread.expect("the plain one");
    assert_eq!(seen.entries[0].text, format!("{NOT_SEALED}in-the-clear-77aa"));
    let number = thread.entries;
    let id = thread.message_id.parse().expect("an id");
    role.mark_mail(id, number, wire::MailMark::Handed);
    role.mark_mail(id, number, wire::MailMark::Seen);
    let waiting = {
        let role = role.clone();
        tokio::spawn(async move {
            loop {
                let told = role.await_mail(&filter, hold).await.expect("answered");
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
    let listed = here.role("A").look_up(request).await.expect("listed").what;
    assert_eq!(listed.threads[0].subject, SUBJECT);
    assert!(listed.threads[0].file_name.contains("-BR--"), "{listed:?}");

    // The node refuses, in its own words: nothing went to the broker to be judged.
    let content = b"canary-file-91b7";
    let file = wire::Attachment {
        size: content.len() as u64,
        hash: blake3::hash(content).to_hex().to_string(),
        ..Default::default()
    };
    let refused = here.role("A").put_attachment(&file, content.as_slice().into()).await;
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

#[tokio::test]
async fn private_mail_is_found_by_the_nodes_that_can_read_it() {
    let kept = tempfile::tempdir().expect("a directory");
    let broker = broker(kept.path()).await;
    let here = Machine::start(&broker, &["A", "B"]).await;
    let there = Machine::start(&broker, &["C"]).await;
    let plain = here.send("A", to_c("in the clear: parseHttpHeader")).await.expect("stored");
    assert_eq!(there.finds("C", "http_header").await.len(), 1, "by the broker");
    let mut owner = Owner::new(&broker).await;
    owner.vouch(&here.trusting(&owner.roster)).await;
    owner.vouch(&there.trusting(&owner.roster)).await;

    let text = "サーバーのログイン画面でエラーが出る; std::vec::Vec overflows in parseHttpHeader";
    let message = here.send("A", to_c(text)).await.expect("stored");
    let mut both = vec![
        (message.clone(), 1, "parseHttpHeader".to_owned()),
        (plain.clone(), 1, "parseHttpHeader".to_owned()),
    ];
    both.sort();
    for (machine, role) in [(&here, "A"), (&there, "C")] {
        let sealed = |lit: &str| vec![(message.clone(), 1, lit.to_owned())];
        assert_eq!(machine.finds(role, "ログイン画面").await, sealed("ログイン画面"));
        assert_eq!(machine.finds(role, "vec::Vec").await, sealed("vec::Vec"));
        assert_eq!(machine.finds(role, "parseHttpHeader").await, both);
        assert_eq!(machine.finds(role, "subject:canary type:br -clear").await.len(), 1);
    }
    assert_eq!(here.finds("B", "parseHttpHeader").await, [], "it is not B's");

    // What comes later is there at once, and a node finds of a thread what it can open.
    let late = Machine::start(&broker, &["D"]).await;
    owner.vouch(&late.trusting(&owner.roster)).await;
    let more = wire::SendRequest {
        to: vec!["D".to_owned()],
        in_reply_to: message.clone(),
        ..letter("修复登录页面, see parseHttpHeader")
    };
    here.send("A", more).await.expect("stored");
    let second = vec![(message.clone(), 2, "修复登录".to_owned())];
    for (machine, role) in [(&here, "A"), (&there, "C"), (&late, "D")] {
        assert_eq!(machine.finds(role, "修复登录").await, second);
    }
    assert_eq!(late.finds("D", "ログイン画面").await, []);
    assert_eq!(late.finds("D", "parseHttpHeader").await.len(), 1);

    // One that was never approved is in the same thread, and finds nothing of it.
    let bare = Machine::start(&broker, &["E"]).await;
    assert_eq!(bare.finds("E", "parseHttpHeader").await, []);
    bare.trusting(&owner.roster);
    assert_eq!(bare.finds("E", "parseHttpHeader").await, []);
    for machine in [here, there, late, bare] {
        machine.node.shutdown(Duration::from_secs(10)).await;
    }
    broker.stop().await.expect("stopped");
    let mut found = Vec::new();
    with_words(kept.path(), "overflows", &mut found);
    assert_eq!(found, [] as [PathBuf; 0]);
}

/// A node against a broker of which the test says what it knows.
struct Lone {
    bench: Bench,
    secret: ed25519_dalek::SigningKey,
    roster: Roster,
}

impl Lone {
    async fn start() -> Self {
        let bench = start(Fake::new()).await;
        let secret = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
        let (owner, keys) = (trust::public(&secret), Vec::new());
        let roster = Roster { workspace: workspace(), owner, number: 0, is_on: true, keys };
        Self { bench, secret, roster }
    }

    fn trust(&self) {
        let owner = self.roster.owner.id();
        trust::Pin::trust(self.bench.data.path(), &workspace(), owner).expect("kept");
    }

    /// The owner vouches for the node's newest key, and the broker shows it.
    fn vouch(&mut self) {
        let data = self.bench.data.path();
        let keys = NodeKeys::with_one(data).expect("kept");
        let node = Identity::known(data).expect("readable").expect("it ran");
        let roles = ["A", "B"].map(|role| role.parse().expect("an id")).to_vec();
        let key = keys.newest().expect("one was made").public(&workspace(), node, roles);
        self.roster = owning::vouch(&self.roster, &key, 1).expect("room");
        let signed = self.roster.clone().signed(&self.secret).expect("signed").to_wire();
        self.bench.fake.change(|world| world.mail.roster = Some(signed));
    }

    /// What waits, as it lies on the disk.
    fn waiting(&self) -> Vec<wire::SendRequest> {
        let kept = outbox::read(self.bench.data.path()).expect("readable").entries;
        let letters = kept.into_iter().map(|(it, _size)| match it.what {
            outbox::What::Send(request) => *request,
            outbox::What::Move(request) => panic!("{request:?}"),
        });
        letters.collect()
    }

    /// A letter of A's that is carried out, and of which nobody says so.
    async fn lose(&mut self, text: &'static str) {
        self.bench.fake.change(|world| world.is_mute = true);
        let role = self.bench.role("A");
        let sending = tokio::spawn(async move { role.send(letter(text), None).await });
        self.bench.fake.until("carried out", |world| world.mail.letters.len() == 1).await;
        self.bench.fake.kill().await;
        // Whoever comes back is not let in at first.
        self.bench.fake.change(|world| (world.is_mute, world.token) = (false, Some("t".into())));
        self.bench.fake.serve();
        let sent = sending.await.expect("ran").expect("kept");
        assert!(matches!(sent, Sent::Queued { number: 1, .. }), "{sent:?}");
    }
}

#[tokio::test]
async fn what_waits_is_sealed_when_it_goes_out_for_who_may_read_it_by_then() {
    let mut it = Lone::start().await;
    it.trust();
    it.vouch();
    it.bench.fake.kill().await;
    let sent = it.bench.role("A").send(letter("the words"), None).await.expect("kept");
    assert!(matches!(sent, Sent::Queued { .. }), "{sent:?}");
    // On the disk of the node it is as it was written, for this user alone.
    assert_eq!(it.waiting()[0].text, "the words");
    let first = NodeKeys::read(it.bench.data.path()).expect("kept").newest().expect("one").id();
    NodeKeys::rotate(it.bench.data.path()).expect("kept");
    it.vouch();
    it.bench.fake.serve();
    it.bench.fake.until("sent", |world| world.mail.letters.len() == 1).await;
    it.bench.is_empty_but(0).await;
    let letter = it.bench.fake.world.borrow().mail.letters[0].clone();
    assert_eq!((letter.text.as_str(), letter.subject.as_str()), ("", ""));
    let envelope = letter.sealed.expect("sealed").envelope;
    let envelope = Envelope::parse(&envelope).expect("an envelope");
    assert_ne!(envelope.address.key, first, "by the key that counts now");
    let keys = NodeKeys::read(it.bench.data.path()).expect("kept");
    assert_eq!(envelope.open(&keys).expect("for us").text, "the words");
}

#[tokio::test]
async fn a_letter_that_is_sealed_anew_is_the_letter_it_was() {
    let mut it = Lone::start().await;
    it.trust();
    it.vouch();
    it.lose("the words").await;
    NodeKeys::rotate(it.bench.data.path()).expect("kept");
    it.vouch();
    it.bench.fake.change(|world| world.token = None);
    it.bench.is_empty_but(0).await;
    let mail = it.bench.fake.world.borrow().mail.clone();
    assert!(mail.letters.len() == 1 && 2 <= mail.asked.len(), "{mail:?}");
    assert!(mail.asked.iter().all(|asked| *asked == mail.asked[0]), "{mail:?}");
}

#[tokio::test]
async fn a_letter_that_came_before_mail_was_private_is_not_said_to_have_failed() {
    let mut it = Lone::start().await;
    it.lose("in the clear").await;
    it.trust();
    it.vouch();
    it.bench.fake.change(|world| world.token = None);
    it.bench.is_empty_but(0).await;
    // A heartbeat may have been refused after the outbox was let in.
    connected(&it.bench.node).await;
    let mail = it.bench.fake.world.borrow().mail.clone();
    assert_eq!(mail.texts(), ["in the clear"], "once");
    // The next one is sealed.
    it.bench.role("A").send(letter("the words"), None).await.expect("stored");
    let letters = it.bench.fake.world.borrow().mail.letters.clone();
    assert!(letters.len() == 2 && letters[1].sealed.is_some(), "{letters:?}");
}
