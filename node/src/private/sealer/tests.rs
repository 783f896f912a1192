//! Machines that write to each other over a broker that may lie.

use ed25519_dalek::SigningKey;
use tasuki_proto::{id::NodeId, private::NodeKey};
use tempfile::TempDir;

use super::*;
use crate::private::{owning, trust};

const THREAD: &str = "ded66c6a-58c1-47f4-916e-13787156f665";

/// A broker: what it keeps, and it may be told to show anything.
#[derive(Default)]
struct Broker {
    roster: Mutex<Option<wire::SignedRoster>>,
    entries: Mutex<Vec<wire::MailEntry>>,
    asked: Mutex<u32>,
    is_away: Mutex<bool>,
}

#[async_trait]
impl Ask for Broker {
    async fn roster(&self) -> Result<wire::GetRosterResponse, Refusal> {
        *self.asked.lock() += 1;
        if *self.is_away.lock() {
            let message = "nobody answers".to_owned();
            return Err(Refusal { reason: Reason::Unavailable, message });
        }
        let roster = self.roster.lock().clone();
        Ok(wire::GetRosterResponse { roster, pending: Vec::new(), now_ms: 100 })
    }

    async fn thread(&self, _role: &str, _message: &str) -> Result<wire::MailThread, Refusal> {
        Ok(self.thread_now())
    }
}

impl Broker {
    fn thread_now(&self) -> wire::MailThread {
        let entries = self.entries.lock();
        let roles = entries.iter().flat_map(|it| it.receivers.iter().chain([&it.sender]));
        let roles: BTreeSet<String> = roles.cloned().collect();
        wire::MailThread {
            message_id: THREAD.to_owned(),
            entries: u32::try_from(entries.len()).unwrap(),
            participants: roles.into_iter().collect(),
            first: entries.first().cloned(),
            ..wire::MailThread::default()
        }
    }

    fn store(&self, it: wire::SendRequest) -> u32 {
        let mut entries = self.entries.lock();
        let number = u32::try_from(entries.len()).unwrap() + 1;
        entries.push(wire::MailEntry {
            number,
            sender: it.role,
            receivers: it.to,
            r#type: it.r#type,
            at_ms: 100 + u64::from(number),
            text: it.text,
            sealed: it.sealed,
            ..wire::MailEntry::default()
        });
        number
    }

    fn show(&self, roster: SignedRoster) {
        *self.roster.lock() = Some(roster.to_wire());
    }
}

/// A machine with a node.
struct Machine {
    data: TempDir,
    name: &'static str,
    roles: &'static [&'static str],
    sealer: Sealer,
}

fn workspace() -> WorkspaceId {
    "w".parse().unwrap()
}

fn machine(name: &'static str, roles: &'static [&'static str]) -> Machine {
    let data = tempfile::tempdir().unwrap();
    NodeKeys::with_one(data.path()).unwrap();
    let sealer = Sealer::new(data.path(), &workspace());
    Machine { data, name, roles, sealer }
}

impl Machine {
    fn key(&self) -> NodeKey {
        let keys = NodeKeys::read(self.data.path()).unwrap();
        let roles = self.roles.iter().map(|role| role.parse().unwrap()).collect();
        keys.newest().unwrap().public(&workspace(), self.node(), roles)
    }

    fn node(&self) -> NodeId {
        self.name.parse().unwrap()
    }

    fn trust(&self, owner: &SigningKey) {
        Pin::trust(self.data.path(), &workspace(), trust::public(owner).id()).unwrap();
    }

    async fn send(
        &self,
        broker: &Broker,
        role: &str,
        to: &[&str],
        text: &str,
    ) -> Result<u32, Refusal> {
        let is_answer = !broker.entries.lock().is_empty();
        let request = wire::SendRequest {
            role: role.to_owned(),
            to: to.iter().map(|it| (*it).to_owned()).collect(),
            r#type: "BR".to_owned(),
            subject: "the subject".to_owned(),
            text: text.to_owned(),
            in_reply_to: if is_answer { THREAD.to_owned() } else { String::new() },
            message_id: if is_answer { String::new() } else { THREAD.to_owned() },
            ..wire::SendRequest::default()
        };
        let carry = |it: wire::SendRequest| {
            let is_private = broker.roster.lock().is_some();
            if is_private && it.sealed.is_none() {
                return Err(private("sealed only"));
            }
            Ok(broker.store(it))
        };
        let letter = self.sealer.seal(broker, request, Fresh::IfPrivate).await?;
        match carry(letter.clone()) {
            Err(refusal) => carry(self.sealer.seal_again(broker, letter, refusal).await?),
            sent => sent,
        }
    }

    async fn sent(&self, broker: &Broker, role: &str, to: &[&str], text: &str) {
        self.send(broker, role, to, text).await.unwrap();
    }

    /// The subject and every text, as this machine shows them.
    async fn reads(&self, broker: &Broker) -> Vec<String> {
        let (mut thread, mut entries) = (broker.thread_now(), broker.entries.lock().clone());
        self.sealer.open_thread(broker, &mut thread, &mut entries).await;
        let texts = entries.into_iter().map(|it| it.text);
        std::iter::once(thread.subject).chain(texts).collect()
    }
}

/// An owner, its machine with A and B, another with C, and a broker of which mail is private.
struct World {
    owner: SigningKey,
    roster: Roster,
    broker: Broker,
    here: Machine,
    there: Machine,
}

impl World {
    fn new() -> Self {
        let owner = SigningKey::from_bytes(&[7; 32]);
        let (here, there) = (machine("here", &["A", "B"]), machine("there", &["C"]));
        let roster = Roster {
            workspace: workspace(),
            owner: trust::public(&owner),
            number: 0,
            is_on: true,
            keys: Vec::new(),
        };
        let mut world = Self { owner, roster, broker: Broker::default(), here, there };
        for machine in [&world.here, &world.there] {
            machine.trust(&world.owner);
        }
        world.vouch(&world.here.key());
        world.vouch(&world.there.key());
        world
    }

    fn vouch(&mut self, key: &NodeKey) {
        self.set(owning::vouch(&self.roster, key, 100).unwrap());
    }

    fn set(&mut self, roster: Roster) {
        self.roster = roster;
        self.broker.show(self.roster.clone().signed(&self.owner).unwrap());
    }

    /// The first entry, shown as `change` has it.
    async fn shown(
        &self,
        change: impl FnOnce(&mut wire::MailThread, &mut wire::MailEntry),
    ) -> String {
        let mut thread = self.broker.thread_now();
        let mut entry = thread.first.take().unwrap();
        change(&mut thread, &mut entry);
        let mut entries = [entry];
        self.there.sealer.open_thread(&self.broker, &mut thread, &mut entries).await;
        let [entry] = entries;
        entry.text
    }
}

fn not_shown(text: &str) -> bool {
    text.starts_with("[This entry is sealed and is not shown: ")
}

#[tokio::test]
async fn two_machines_read_what_the_broker_and_a_third_cannot() {
    let world = World::new();
    let World { broker, here, there, .. } = &world;
    here.sent(broker, "A", &["C"], "the question").await;
    there.sent(broker, "C", &["A"], "the answer").await;
    let all = ["the subject", "the question", "the answer"];
    assert_eq!(here.reads(broker).await, all);
    assert_eq!(there.reads(broker).await, all);
    let kept = format!("{:?}", broker.entries.lock());
    assert!(["the subject", "the question", "the answer"].iter().all(|it| !kept.contains(it)));

    let stranger = machine("stranger", &["C"]);
    let shown = stranger.reads(broker).await;
    assert!(shown[0] == NO_SUBJECT && shown[1].contains("trusts no owner's key yet"), "{shown:?}");
    stranger.trust(&world.owner);
    let shown = stranger.reads(broker).await;
    assert!(shown[1..].iter().all(|it| it == &unopened(&Unopened::NotForUs)), "{shown:?}");
    let refused = stranger.send(broker, "C", &["A"], "no").await.unwrap_err();
    assert!(refused.message.contains("has not vouched for this node as C"), "{refused}");
    let refused = here.send(broker, "A", &["D"], "no").await.unwrap_err();
    assert!(refused.message.contains("no node that plays D"), "{refused}");
}

#[tokio::test]
async fn a_machine_that_trusts_the_owner_before_is_told_of_the_change() {
    let world = World::new();
    world.here.sent(&world.broker, "A", &["C"], "the question").await;
    let late = machine("late", &["C"]);
    let before = SigningKey::from_bytes(&[77; 32]);
    late.trust(&before);
    let shown = late.reads(&world.broker).await;
    let (now, before) = (trust::public(&world.owner).id(), trust::public(&before).id());
    let said = format!("shows a roster by {now}, and this machine trusts {before}; if the owner");
    assert!(shown[1].contains(&said) && !shown[1].contains("trusts no owner"), "{shown:?}");
}

#[tokio::test]
async fn where_mail_is_not_private_nothing_changes_and_nothing_is_asked_twice() {
    let (broker, machine) = (Broker::default(), machine("here", &["A"]));
    machine.sent(&broker, "A", &["C"], "one").await;
    machine.sent(&broker, "A", &["C"], "two").await;
    assert_eq!(machine.reads(&broker).await, ["", "one", "two"]);
    assert_eq!(*broker.asked.lock(), 1);
}

#[tokio::test]
async fn what_was_turned_on_meanwhile_is_sealed_at_the_second_try() {
    let mut world = World::new();
    let on = world.broker.roster.lock().take();
    // As on the machine that turns it on, whose node looked before.
    let late = machine("late", &["A"]);
    late.sent(&world.broker, "A", &["C"], "in the clear").await;
    *world.broker.roster.lock() = on;
    let refused = late.send(&world.broker, "A", &["C"], "no").await.unwrap_err();
    assert!(refused.message.contains("does not trust that key"), "{refused}");
    late.trust(&world.owner);
    world.vouch(&late.key());
    late.sent(&world.broker, "A", &["C"], "sealed").await;
    let plain = format!("{NOT_SEALED}in the clear");
    assert_eq!(world.there.reads(&world.broker).await, ["", &plain, "sealed"]);
}

#[tokio::test]
async fn nothing_leaves_in_the_clear_whatever_a_broker_says() {
    let mut world = World::new();
    let older = world.roster.clone();
    world.set(owning::vouch(&older, &world.there.key(), 100).unwrap());
    world.here.sent(&world.broker, "A", &["C"], "sealed").await;
    let refused = async |shown: Option<wire::SignedRoster>, words: &str| {
        *world.broker.roster.lock() = shown;
        let before = world.broker.entries.lock().len();
        let refused = world.here.send(&world.broker, "A", &["C"], "no").await.unwrap_err();
        assert_eq!(refused.reason, Reason::PrivateWorkspace);
        assert!(refused.message.contains(words), "{refused}");
        // Also for a node that starts anew.
        let again = Sealer::new(world.here.data.path(), &workspace());
        let refused = again.look(&world.broker).await.unwrap_err();
        assert!(refused.message.contains(words), "{refused}");
        assert_eq!(world.broker.entries.lock().len(), before, "Y6");
    };
    let eve = SigningKey::from_bytes(&[66; 32]);
    refused(None, "shows no roster").await;
    // A reader put in by somebody else, in every way there is.
    let theirs = Roster { owner: trust::public(&eve), number: 99, ..world.roster.clone() };
    let theirs = theirs.signed(&eve).unwrap().to_wire();
    refused(Some(theirs.clone()), "this machine trusts").await;
    let mut more = world.roster.clone();
    more.number = 99;
    more.keys.push(world.roster.keys[1].clone());
    more.keys[2].seal = [66; 32];
    let unsigned = wire::SignedRoster { roster: more.encode(), signature: theirs.signature };
    refused(Some(unsigned), "does not hold").await;
    refused(Some(older.signed(&world.owner).unwrap().to_wire()), "saw number 3").await;
    let elsewhere = Roster { workspace: "x".parse().unwrap(), number: 99, ..world.roster.clone() };
    refused(Some(elsewhere.signed(&world.owner).unwrap().to_wire()), "as that of w").await;
    let off = Roster { is_on: false, ..owning::turned(&world.roster, false) };
    refused(
        Some(off.signed(&eve).map_or_else(|_| wire::SignedRoster::default(), |it| it.to_wire())),
        "does not hold",
    )
    .await;
}

#[tokio::test]
async fn an_owner_turns_it_off_and_what_was_sealed_stays_readable() {
    let mut world = World::new();
    world.here.sent(&world.broker, "A", &["C"], "sealed").await;
    world.set(owning::turned(&world.roster, false));
    let off = world.broker.roster.lock().take();
    let request = wire::SendRequest { text: "in the clear".to_owned(), ..Default::default() };
    *world.broker.roster.lock() = off;
    let sent = world.here.sealer.seal(&world.broker, request, Fresh::IfPrivate).await.unwrap();
    assert!(sent.sealed.is_none());
    assert_eq!(world.there.reads(&world.broker).await, ["the subject", "sealed"]);
}

/// Holds Y7.
#[tokio::test]
async fn what_a_broker_moves_changes_or_makes_up_is_shown_as_such() {
    let world = World::new();
    world.here.sent(&world.broker, "A", &["C"], "the words").await;
    assert_eq!(world.shown(|_, _| {}).await, "the words");
    let moved = |what| unopened(&Unopened::Moved(what));
    let other = "ded66c6a-58c1-47f4-916e-000000000000".to_owned();
    assert_eq!(world.shown(|it, _| it.message_id = other).await, moved("thread"));
    let place = moved("place in the thread");
    assert_eq!(world.shown(|_, it| it.number = 2).await, place);
    assert_eq!(world.shown(|_, it| it.sender = "B".to_owned()).await, moved("sender"));
    assert_eq!(world.shown(|_, it| it.r#type = "INFO".to_owned()).await, moved("type"));
    let receivers = moved("list of receivers");
    assert_eq!(world.shown(|_, it| it.receivers.push("D".to_owned())).await, receivers);
    assert_eq!(world.shown(|_, it| it.receivers.clear()).await, receivers);
    let changed = world.shown(|_, it| it.sealed.as_mut().unwrap().envelope[200] ^= 1).await;
    assert!(not_shown(&changed), "{changed}");
    let emptied = world.shown(|_, it| it.sealed = Some(wire::Sealed::default())).await;
    assert!(not_shown(&emptied), "{emptied}");
    let made_up = world.shown(|_, it| (it.sealed, it.text) = (None, "obey".to_owned())).await;
    assert_eq!(made_up, format!("{NOT_SEALED}obey"));
    assert_eq!(world.shown(|_, it| it.text = "obey".to_owned()).await, "the words");
}

#[tokio::test]
async fn an_entry_shown_twice_is_a_copy() {
    let world = World::new();
    let World { broker, here, there, .. } = &world;
    here.sent(broker, "A", &["C"], "one").await;
    here.sent(broker, "A", &["C"], "two").await;
    let mut copy = broker.entries.lock()[1].clone();
    copy.number = 3;
    broker.entries.lock().push(copy);
    let thread = THREAD.parse().unwrap();
    let copied = unopened(&Unopened::Copy { thread, number: 2 });
    let expected = ["the subject", "one", "two", &copied];
    assert_eq!(there.reads(broker).await, expected);
    assert_eq!(there.reads(broker).await, expected, "and so it stays");
}

#[tokio::test]
async fn a_node_does_not_write_as_a_role_it_was_not_vouched_for() {
    let mut world = World::new();
    world.here.sent(&world.broker, "A", &["C"], "as A").await;
    // The owner takes A from that node: what it wrote stays good, nothing more comes.
    let only_b = Machine { roles: &["B"], ..machine("here", &["B"]) };
    let key = NodeKeys::read(world.here.data.path()).unwrap();
    let key = key.newest().unwrap().public(&workspace(), only_b.node(), vec!["B".parse().unwrap()]);
    world.vouch(&key);
    assert_eq!(world.there.reads(&world.broker).await, ["the subject", "as A"]);
    let refused = world.here.send(&world.broker, "A", &["C"], "no").await.unwrap_err();
    assert!(refused.message.contains("has not vouched for this node as A"), "{refused}");
    // A broker that stores something of that node's as another role's gets nowhere either.
    world.here.sent(&world.broker, "B", &["C"], "as B").await;
    world.broker.entries.lock()[1].sender = "C".to_owned();
    let shown = world.there.reads(&world.broker).await;
    assert_eq!(shown[2], unopened(&Unopened::Moved("sender")));
}

#[tokio::test]
async fn a_rotated_key_reads_on_and_a_node_that_was_let_go_is_heard_no_more() {
    let mut world = World::new();
    world.here.sent(&world.broker, "A", &["C"], "for the old key").await;
    NodeKeys::rotate(world.there.data.path()).unwrap();
    // Until the owner vouched for the new one, the old one is used.
    world.there.sent(&world.broker, "C", &["A"], "by the old key").await;
    world.vouch(&world.there.key());
    world.there.sent(&world.broker, "C", &["A"], "by the new key").await;
    world.here.sent(&world.broker, "A", &["C"], "for the new key").await;
    let all =
        ["the subject", "for the old key", "by the old key", "by the new key", "for the new key"];
    assert_eq!(world.here.reads(&world.broker).await, all);
    assert_eq!(world.there.reads(&world.broker).await, all);

    let node = world.there.node();
    let stolen = world.roster.clone();
    world.set(owning::let_go(&stolen, &node, 105).unwrap());
    let refused = world.here.send(&world.broker, "A", &["C"], "no").await.unwrap_err();
    assert!(refused.message.contains("no node that plays C"), "{refused}");
    assert_eq!(world.here.reads(&world.broker).await, all, "what it wrote before stays");
    // It goes on by itself with the roster it knows, and the broker takes it in.
    let late = world.there.sealer.seal_for(
        &stolen,
        wire::SendRequest {
            role: "C".to_owned(),
            to: vec!["A".to_owned()],
            r#type: "BR".to_owned(),
            text: "late".to_owned(),
            in_reply_to: THREAD.to_owned(),
            ..wire::SendRequest::default()
        },
        Some(world.broker.thread_now()),
    );
    world.broker.store(late.unwrap());
    let late = world.broker.entries.lock().len() - 1;
    world.broker.entries.lock()[late].at_ms = 106;
    let shown = world.here.reads(&world.broker).await;
    assert_eq!(shown[late + 1], unopened(&Unopened::Retired));
}

#[tokio::test]
async fn what_is_too_long_or_has_files_is_refused_by_name() {
    let world = World::new();
    let refused = async |mut request: wire::SendRequest| {
        if request.text.is_empty() {
            request.text = "t".to_owned();
        }
        let request = wire::SendRequest {
            role: "A".to_owned(),
            to: vec!["C".to_owned()],
            r#type: "BR".to_owned(),
            ..request
        };
        let refused = world.here.sealer.seal(&world.broker, request, Fresh::IfPrivate).await;
        refused.unwrap_err()
    };
    let text = "x".repeat(TEXT_BYTES_MAX + 1);
    let why = refused(wire::SendRequest { text, ..Default::default() }).await;
    assert_eq!(why.reason, Reason::TooLarge);
    let subject = "x".repeat(SUBJECT_BYTES_MAX + 1);
    let why = refused(wire::SendRequest { subject, ..Default::default() }).await;
    assert_eq!(why.reason, Reason::TooLarge);
    let attachments = vec![wire::Attachment::default()];
    let why = refused(wire::SendRequest { attachments, ..Default::default() }).await;
    assert!(why.message.contains("files are not sealed"), "{why}");
}

#[tokio::test]
async fn the_same_words_again_are_known_by_their_mark_alone() {
    let world = World::new();
    let seal = async |text: &str, change: fn(&mut wire::SendRequest)| {
        let mut request = wire::SendRequest {
            role: "A".to_owned(),
            to: vec!["C".to_owned()],
            r#type: "BR".to_owned(),
            subject: "s".to_owned(),
            text: text.to_owned(),
            ..wire::SendRequest::default()
        };
        change(&mut request);
        let sealer = &world.here.sealer;
        sealer.seal(&world.broker, request, Fresh::IfPrivate).await.unwrap().sealed.unwrap()
    };
    let (first, again) = (seal("t", |_| {}).await, seal("t", |_| {}).await);
    assert!(first.same == again.same && first.envelope != again.envelope);
    NodeKeys::rotate(world.here.data.path()).unwrap();
    assert_eq!(seal("t", |_| {}).await.same, first.same);
    for other in [
        seal("u", |_| {}).await,
        seal("t", |it| it.subject = "t".to_owned()).await,
        seal("t", |it| it.role = "B".to_owned()).await,
        seal("t", |it| it.to.push("B".to_owned())).await,
        seal("t", |it| it.r#type = "ER".to_owned()).await,
    ] {
        assert_ne!(other.same, first.same);
    }
}

#[tokio::test]
async fn plain_words_are_not_believed_because_a_broker_cannot_be_asked_or_lies() {
    let world = World::new();
    let World { broker, there, .. } = &world;
    let made_up = wire::SendRequest {
        role: "A".to_owned(),
        to: vec!["C".to_owned()],
        text: "obey".to_owned(),
        ..wire::SendRequest::default()
    };
    broker.store(made_up);
    // What its user's command saw is on disk; its node has not looked.
    Sealer::new(there.data.path(), &workspace()).look(broker).await.unwrap();
    let marked = ["".to_owned(), format!("{NOT_SEALED}obey")];
    // A machine that was told, and whose node starts anew before the broker can be asked.
    *broker.is_away.lock() = true;
    assert_eq!(there.reads(broker).await, marked);
    let anew = Sealer::new(there.data.path(), &workspace());
    let mut entries = broker.entries.lock().clone();
    anew.open_thread(broker, &mut broker.thread_now(), &mut entries).await;
    assert_eq!(entries[0].text, marked[1]);
    let mut threads = vec![broker.thread_now()];
    anew.open_threads(broker, &mut threads).await;
    assert_eq!(threads[0].first.as_ref().unwrap().text, marked[1]);
    *broker.is_away.lock() = false;
    // One that keeps the roster back, and one that shows an older one, in which nothing is private.
    *broker.roster.lock() = None;
    assert_eq!(there.reads(broker).await, marked);
    let off = owning::turned(&Roster { number: 0, ..world.roster.clone() }, false);
    broker.show(off.signed(&world.owner).unwrap());
    let anew = Sealer::new(there.data.path(), &workspace());
    let mut entries = broker.entries.lock().clone();
    anew.open_thread(broker, &mut broker.thread_now(), &mut entries).await;
    assert_eq!(entries[0].text, marked[1]);
}

#[tokio::test]
async fn a_node_that_looked_before_its_user_was_told_marks_plain_words_from_then_on() {
    let broker = Broker::default();
    let late = machine("late", &["C"]);
    late.sent(&broker, "C", &["A"], "in the clear").await;
    assert_eq!(late.reads(&broker).await, ["", "in the clear"]);
    // `tasuki mail private trust` wrote it beside the running node.
    late.trust(&SigningKey::from_bytes(&[7; 32]));
    let marked = ["".to_owned(), format!("{NOT_SEALED}in the clear")];
    assert_eq!(late.reads(&broker).await, marked);
    *broker.is_away.lock() = true;
    assert_eq!(late.reads(&broker).await, marked);
}

#[tokio::test]
async fn what_cannot_be_sealed_stays_here() {
    let world = World::new();
    let may = async |of: &Machine, fresh| {
        of.sealer
            .check_plain(&world.broker, Unsealable::Files, fresh)
            .await
            .map_err(|why| why.reason)
    };
    let refused = Err(Reason::PrivateWorkspace);
    let stranger = machine("stranger", &["C"]);
    let on = world.broker.roster.lock().take();
    assert_eq!(may(&world.here, Fresh::IfPrivate).await, refused, "a broker that keeps it back");
    assert_eq!(may(&stranger, Fresh::IfPrivate).await, Ok(()));
    *world.broker.roster.lock() = on;
    assert_eq!(may(&world.here, Fresh::IfPrivate).await, refused);
    assert_eq!(may(&stranger, Fresh::Always).await, refused, "it trusts nobody");
    assert_eq!(may(&stranger, Fresh::IfPrivate).await, refused, "and remembers");
}
