//! All of it, between a broker that says what a test wants and an address that hears.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use async_trait::async_trait;
use axum::{Router, extract::State, http::HeaderMap, routing::post};
use futures::{StreamExt as _, stream};
use http::StatusCode;
use serde_json::Value;
use tasuki_proto::{
    id::RoleId,
    reason::Reason,
    wire::{self, event::Noun, mail_event, run_event, turn_event},
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    time,
};

use super::{
    details::Details,
    document::Read,
    source::{Part, Unanswered},
    spec::{Kind, Webhook},
    store::WAITING_MAX,
    work_event::{Subject, WorkEvent},
    *,
};
use crate::{
    client::feed::{Ended, Items},
    refusal::Refusal,
};

/// For a step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker as far as hooks know it.
#[derive(Debug)]
struct Fake {
    journal: watch::Sender<Journal>,
    /// Reads that are not answered before one is.
    deaf: Mutex<usize>,
}

#[derive(Debug, Clone, Default)]
struct Journal {
    /// Tells one journal from another.
    era: u64,
    items: Vec<wire::FeedItem>,
    oldest: u64,
    /// Feeds of before end.
    breaks: u64,
}

impl Journal {
    fn send(&mut self, kind: &str) {
        let sequence = self.items.len() as u64 + 1;
        let sent = wire::MailSent {
            message_id: "m".into(),
            entry: u32::try_from(sequence).unwrap(),
            sender: "A".into(),
            receivers: vec!["B".into()],
            r#type: kind.into(),
            ..Default::default()
        };
        let kind = Some(mail_event::Kind::MailSent(sent));
        self.put(Noun::Mail(wire::MailEvent { kind }));
    }

    fn put(&mut self, noun: Noun) {
        let sequence = self.items.len() as u64 + 1;
        let at_ms = self.era + sequence;
        let events = vec![wire::Event { noun: Some(noun) }];
        self.items.push(wire::FeedItem { sequence, at_ms, events, ..Default::default() });
    }
}

#[async_trait]
impl Source for Fake {
    async fn ready(&self) {}

    async fn newest(&self, _: &RoleId) -> Result<u64, Unanswered> {
        Ok(self.journal.borrow().items.len() as u64)
    }

    async fn follow(&self, from: u64) -> Result<Items, Ended> {
        let journal = self.journal.subscribe();
        let (oldest, breaks) = (journal.borrow().oldest, journal.borrow().breaks);
        let behind = journal.borrow().items.len() as u64 + 1;
        if from < oldest {
            return Err(Ended::Compacted { oldest });
        }
        if behind < from {
            return Err(Ended::Compacted { oldest: behind });
        }
        let next = move |(mut journal, next): (watch::Receiver<Journal>, u64)| async move {
            let said = {
                let index = usize::try_from(next).unwrap() - 1;
                let is_so = |it: &Journal| it.breaks != breaks || index < it.items.len();
                let journal = journal.wait_for(is_so).await.ok()?;
                if journal.breaks != breaks {
                    return None;
                }
                journal.items[index].clone()
            };
            Some((Ok(said), (journal, next + 1)))
        };
        Ok(stream::unfold((journal, from), next).boxed())
    }

    async fn read(&self, role: &RoleId, message: &str, part: Part) -> Result<Read, Unanswered> {
        assert_eq!((role.as_str(), message), ("B", "m"));
        {
            let mut deaf = self.deaf.lock().unwrap();
            if *deaf != 0 {
                *deaf -= 1;
                return Err(Unanswered("not now".to_owned()));
            }
        }
        let items = self.journal.borrow().items.len();
        let first = match part {
            Part::Newest(count) => items.saturating_sub(count as usize - 1),
            Part::From(first) => first as usize,
        };
        if items < first {
            let message = "There is no such message.".to_owned();
            return Ok(Err(Refusal { reason: Reason::UnknownMessage, message }));
        }
        let entry = |number: usize| wire::MailEntry {
            number: u32::try_from(number).unwrap(),
            sender: "A".into(),
            receivers: vec!["B".into()],
            r#type: "BR".into(),
            text: format!("words {number}"),
            ..Default::default()
        };
        let entries = (first..=items).map(entry).collect();
        Ok(Ok(wire::ReadThreadResponse { entries, ..Default::default() }))
    }

    async fn open(&self, _read: Read) -> Read {
        panic!("all hooks here are addresses, which are told no words of private mail")
    }

    /// Of loops, with an entry; of runs of role B; of nothing else.
    async fn details(&self, event: &WorkEvent) -> Result<Result<Details, Refusal>, Unanswered> {
        let mut details = Details::default();
        match &event.subject {
            Subject::Loop { name, turn, entry } => {
                let summary = format!("words {}", event.sequence);
                let entry = wire::Entry { number: *entry, summary, ..Default::default() };
                details.put_turn(name, *turn, Some(&entry), None);
            }
            Subject::Run { id, .. } if id == "gone" => {
                let message = "There is no such run.".to_owned();
                return Ok(Err(Refusal { reason: Reason::UnknownRun, message }));
            }
            Subject::Run { id, .. } => {
                let run = wire::Run { run_id: id.clone(), role: "B".into(), ..Default::default() };
                details.put_run(&run, None);
            }
            Subject::Issue { .. } | Subject::Task { .. } | Subject::Delivery { .. } => {
                panic!("no hook is called for {event:?}")
            }
        }
        Ok(Ok(details))
    }
}

/// An address that hears.
struct Ear {
    url: String,
    answer: watch::Sender<StatusCode>,
    heard: mpsc::UnboundedReceiver<(String, Value)>,
}

type Hearing = (watch::Receiver<StatusCode>, mpsc::UnboundedSender<(String, Value)>);

async fn hear(
    State((mut answer, heard)): State<Hearing>,
    headers: HeaderMap,
    body: String,
) -> StatusCode {
    let id = headers["tasuki-delivery"].to_str().unwrap().to_owned();
    heard.send((id, serde_json::from_str(&body).unwrap())).ok();
    // `CONTINUE` is no answer yet.
    *answer.wait_for(|it| *it != StatusCode::CONTINUE).await.unwrap()
}

impl Ear {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (answer, answering) = watch::channel(StatusCode::OK);
        #[allow(clippy::disallowed_methods, reason = "a test hears a few hundred at most")]
        let (hearing, heard) = mpsc::unbounded_channel();
        let app = Router::new().route("/", post(hear)).with_state((answering, hearing));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, answer, heard }
    }

    /// Id and sequence of what comes next.
    async fn next(&mut self) -> (String, u64) {
        let heard = time::timeout(PATIENCE, self.heard.recv()).await;
        let (id, document) = heard.expect("in time").unwrap();
        let sequence = document["sequence"].as_u64().unwrap();
        let texts = [&document["entry"]["text"], &document["turn"]["summary"]];
        let text = texts.into_iter().find_map(Value::as_str).unwrap_or_default();
        assert_eq!(text, format!("words {sequence}"));
        assert_eq!(document["id"], id);
        (id, sequence)
    }

    async fn sequences(&mut self, count: usize) -> Vec<u64> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.next().await.1);
        }
        all
    }
}

struct World {
    data: tempfile::TempDir,
    source: Arc<Fake>,
}

impl World {
    fn new() -> Self {
        let source = Fake { journal: watch::Sender::default(), deaf: Mutex::default() };
        Self { data: tempfile::tempdir().unwrap(), source: Arc::new(source) }
    }

    fn send(&self, count: usize) {
        self.source.journal.send_modify(|it| (0..count).for_each(|_| it.send("BR")));
    }

    fn start(&self, hooks: &[Hook]) -> Hooks {
        let hosted = Hosted { roles: ["B".parse().unwrap()].into(), ..Default::default() };
        let writer = Writer { workspace: "w".parse().unwrap(), node: "n".parse().unwrap() };
        Hooks::start(hooks.to_vec(), self.data.path(), hosted, writer, self.source.clone()).unwrap()
    }

    /// How far each hook is, as it is on disk.
    fn places(&self) -> BTreeMap<String, u64> {
        let places = Store::of(self.data.path()).places(&"w".parse().unwrap()).unwrap();
        let places = places.map(|it| it.hooks).unwrap_or_default();
        places.into_iter().map(|(name, taken)| (name, taken.sequence)).collect()
    }

    async fn until(&self, hooks: &Hooks, is_so: impl Fn(&[Report]) -> bool) -> Vec<Report> {
        let looking = async {
            loop {
                let report = hooks.report();
                if is_so(&report) {
                    return report;
                }
                tokio::task::yield_now().await;
            }
        };
        time::timeout(PATIENCE, looking).await.expect("in time")
    }
}

fn hook(name: &str, url: &str) -> Hook {
    let url = url.parse().unwrap();
    Hook {
        name: name.parse().unwrap(),
        on: [Kind::Received].into(),
        roles: BTreeSet::new(),
        types: BTreeSet::new(),
        senders: BTreeSet::new(),
        receivers: BTreeSet::new(),
        action: Action::Webhook(Webhook { url, secret_file: None, ca_file: None }),
        limit: PATIENCE,
        retries: 0,
    }
}

#[tokio::test]
async fn a_hook_begins_with_what_is_to_come_and_goes_on_where_it_was() {
    let (world, mut ear) = (World::new(), Ear::new().await);
    world.send(3);
    let hooks = world.start(&[hook("h", &ear.url)]);
    world.until(&hooks, |it| it[0].sequence == 3).await;
    world.send(2);
    assert_eq!(ear.sequences(2).await, [4, 5]);
    hooks.shutdown().await;
    world.send(2);
    let hooks = world.start(&[hook("h", &ear.url)]);
    assert_eq!(ear.sequences(2).await, [6, 7]);
    world.source.journal.send_modify(|it| it.breaks += 1);
    world.send(1);
    assert_eq!(ear.sequences(1).await, [8]);
    // A call may be over before its record is gone past.
    let report = world.until(&hooks, |it| it[0].made == 3 && it[0].sequence == 8).await;
    assert_eq!((report[0].waiting, report[0].failed), (0, 0));
    hooks.shutdown().await;
    assert!(ear.heard.try_recv().is_err(), "nothing twice");
}

/// Beside mail, which the hook does not name.
#[tokio::test]
async fn a_hook_hears_of_turns_in_order_and_of_no_mail() {
    let (world, mut ear) = (World::new(), Ear::new().await);
    let on = [Kind::TurnReceived].into();
    let hooks = world.start(&[Hook { on, ..hook("h", &ear.url) }]);
    world.until(&hooks, |_| world.places().contains_key("h")).await;
    let handed = |to: &str| {
        let (from, to) = ("A".to_owned(), to.to_owned());
        let it = wire::HandedOver { from, to, entry: 1, turn: 2, ..Default::default() };
        let kind = Some(turn_event::Kind::HandedOver(it));
        Noun::Turn(wire::TurnEvent { kind })
    };
    world.source.journal.send_modify(|it| it.put(handed("B")));
    world.send(1);
    world.source.journal.send_modify(|it| it.put(handed("C")));
    world.source.journal.send_modify(|it| it.put(handed("B")));
    assert_eq!(ear.sequences(2).await, [1, 4]);
    hooks.shutdown().await;
    assert!(ear.heard.try_recv().is_err());
}

#[tokio::test]
async fn what_the_broker_does_not_tell_of_is_said_to_be_missed() {
    let (world, mut ear) = (World::new(), Ear::new().await);
    let on = [Kind::RunEnded].into();
    let hooks = world.start(&[Hook { on, ..hook("h", &ear.url) }]);
    world.until(&hooks, |_| world.places().contains_key("h")).await;
    let ended = |run: &str| {
        let it = wire::RunEnded { run_id: run.into(), ..Default::default() };
        Noun::Run(wire::RunEvent { kind: Some(run_event::Kind::RunEnded(it)) })
    };
    world.source.journal.send_modify(|it| it.put(ended("gone")));
    world.source.journal.send_modify(|it| it.put(ended("there")));
    let heard = time::timeout(PATIENCE, ear.heard.recv()).await.expect("in time").unwrap().1;
    assert_eq!((&heard["event"], &heard["role"]), (&Value::from("run_ended"), &Value::from("B")));
    assert_eq!((&heard["run"]["run_id"], &heard["sequence"]), (&"there".into(), &2.into()));
    let missed = hooks.report()[0].missed.clone().unwrap();
    assert_eq!(missed, "run_ended of gone: There is no such run.");
    hooks.shutdown().await;
}

/// Holds Q2.
#[tokio::test]
async fn what_was_not_noted_before_a_crash_is_called_again_with_the_same_id() {
    let (world, mut ear) = (World::new(), Ear::new().await);
    let hooks = world.start(&[hook("h", &ear.url)]);
    world.until(&hooks, |_| world.places().contains_key("h")).await;
    let path = world.data.path().join(store::FOLDER).join("places.json");
    let before = std::fs::read(&path).unwrap();
    world.send(2);
    let first = [ear.next().await, ear.next().await];
    hooks.shutdown().await;
    std::fs::write(path, before).unwrap();
    let hooks = world.start(&[hook("h", &ear.url)]);
    assert_eq!([ear.next().await, ear.next().await], first);
    hooks.shutdown().await;
}

#[tokio::test]
async fn a_call_under_way_when_the_node_stops_is_made_again() {
    let (world, mut ear) = (World::new(), Ear::new().await);
    ear.answer.send_replace(StatusCode::CONTINUE);
    let hooks = world.start(&[hook("h", &ear.url)]);
    world.until(&hooks, |_| world.places().contains_key("h")).await;
    world.send(2);
    let first = ear.next().await;
    time::timeout(PATIENCE, hooks.shutdown()).await.expect("it does not wait for the address");
    ear.answer.send_replace(StatusCode::OK);
    let hooks = world.start(&[hook("h", &ear.url)]);
    assert_eq!(ear.next().await, first);
    assert_eq!(ear.next().await.1, 2);
    hooks.shutdown().await;
}

/// Holds Q7.
#[tokio::test]
async fn a_hook_whose_calls_pile_up_holds_nobody_up_and_misses_nothing() {
    let (world, mut slow, mut quick) = (World::new(), Ear::new().await, Ear::new().await);
    slow.answer.send_replace(StatusCode::CONTINUE);
    let hooks = world.start(&[hook("slow", &slow.url), hook("quick", &quick.url)]);
    world.until(&hooks, |_| world.places().len() == 2).await;
    let count = WAITING_MAX * 2 + 10;
    world.send(count);
    let all: Vec<u64> = (1..=count as u64).collect();
    assert_eq!(quick.sequences(count).await, all);
    let report = hooks.report();
    assert_eq!((report[0].waiting, report[0].sequence), (WAITING_MAX, WAITING_MAX as u64));
    slow.answer.send_replace(StatusCode::OK);
    assert_eq!(slow.sequences(count).await, all);
    hooks.shutdown().await;
    assert!(quick.heard.try_recv().is_err(), "nothing twice");
}

#[tokio::test]
async fn a_failed_call_is_tried_again_then_a_dead_letter_then_called_again_by_hand() {
    let (world, mut ear) = (World::new(), Ear::new().await);
    ear.answer.send_replace(StatusCode::BAD_GATEWAY);
    let hooks = world.start(&[Hook { retries: 1, ..hook("h", &ear.url) }]);
    world.until(&hooks, |_| world.places().contains_key("h")).await;
    world.send(2);
    let tries = [ear.next().await, ear.next().await, ear.next().await, ear.next().await];
    assert_eq!((&tries[0], &tries[2]), (&tries[1], &tries[3]), "each twice, in order");
    let report = world.until(&hooks, |it| it[0].dead_letters == 2).await;
    let last = report[0].last_failure.as_ref().unwrap();
    assert_eq!(
        (last.id.as_str(), last.why.as_str()),
        (tries[3].0.as_str(), "answered 502 Bad Gateway")
    );
    let store = Store::of(world.data.path());
    let name = "h".parse().unwrap();
    let dead = store.list_dead(&name).unwrap();
    assert_eq!(dead[0].failed.as_ref().unwrap().attempts, 2);
    ear.answer.send_replace(StatusCode::OK);
    store.revive(&name, &dead[0]).unwrap();
    assert_eq!(ear.next().await, tries[0], "by a node that was not told");
    world.until(&hooks, |it| it[0].made == 1 && it[0].dead_letters == 1).await;
    hooks.shutdown().await;
}

#[tokio::test]
async fn a_broker_that_does_not_answer_is_asked_again() {
    let (world, mut ear) = (World::new(), Ear::new().await);
    let hooks = world.start(&[hook("h", &ear.url)]);
    world.until(&hooks, |_| world.places().contains_key("h")).await;
    *world.source.deaf.lock().unwrap() = usize::MAX;
    world.send(2);
    let report = world.until(&hooks, |it| it[0].deaf.is_some()).await;
    assert_eq!(report[0].deaf.as_deref(), Some("not now"));
    *world.source.deaf.lock().unwrap() = 1;
    assert_eq!(ear.sequences(2).await, [1, 2]);
    world.until(&hooks, |it| it[0].deaf.is_none()).await;
    hooks.shutdown().await;
}

#[tokio::test]
async fn what_the_broker_no_longer_keeps_is_said_to_be_missed() {
    let (world, mut ear) = (World::new(), Ear::new().await);
    world.send(2);
    let hooks = world.start(&[hook("h", &ear.url)]);
    world.until(&hooks, |_| world.places().contains_key("h")).await;
    hooks.shutdown().await;
    // Of the record that was taken in last nothing depends.
    world.send(1);
    world.source.journal.send_modify(|it| it.oldest = 3);
    let hooks = world.start(&[hook("h", &ear.url)]);
    assert_eq!(ear.sequences(1).await, [3]);
    assert_eq!(hooks.report()[0].missed, None);
    hooks.shutdown().await;
    world.send(5);
    world.source.journal.send_modify(|it| it.oldest = 7);
    let hooks = world.start(&[hook("h", &ear.url)]);
    assert_eq!(ear.sequences(2).await, [7, 8]);
    assert_eq!(hooks.report()[0].missed.as_deref(), Some("events 4 to 6"));
    hooks.shutdown().await;
}

#[tokio::test]
async fn another_journal_is_noticed_whether_longer_or_shorter() {
    for length in [1, 3, 9] {
        let (world, mut ear) = (World::new(), Ear::new().await);
        let hooks = world.start(&[hook("h", &ear.url)]);
        world.until(&hooks, |_| world.places().contains_key("h")).await;
        world.send(4);
        assert_eq!(ear.sequences(4).await, [1, 2, 3, 4]);
        hooks.shutdown().await;
        let mut other = Journal { era: 1_000, ..Default::default() };
        (0..length).for_each(|_| other.send("BR"));
        world.source.journal.send_replace(other);
        let hooks = world.start(&[hook("h", &ear.url)]);
        let report = world.until(&hooks, |it| it[0].missed.is_some()).await;
        assert!(report[0].missed.as_ref().unwrap().contains("another one"), "{report:?}");
        world.until(&hooks, |it| it[0].sequence == length).await;
        world.send(1);
        assert_eq!(ear.sequences(1).await, [length + 1]);
        hooks.shutdown().await;
    }
}

#[tokio::test]
async fn a_hook_that_heard_of_nothing_yet_notices_another_journal() {
    let (world, ear) = (World::new(), Ear::new().await);
    world.send(3);
    let hooks = world.start(&[hook("h", &ear.url)]);
    let is_known = || {
        let places = Store::of(world.data.path()).places(&"w".parse().unwrap()).unwrap();
        places.is_some_and(|it| it.hooks.get("h").is_some_and(|taken| taken.at_ms != 0))
    };
    world.until(&hooks, |_| is_known()).await;
    hooks.shutdown().await;
    let mut other = Journal { era: 1_000, ..Default::default() };
    (0..9).for_each(|_| other.send("BR"));
    world.source.journal.send_replace(other);
    let hooks = world.start(&[hook("h", &ear.url)]);
    world.until(&hooks, |it| it[0].missed.is_some()).await;
    hooks.shutdown().await;
}

#[tokio::test]
async fn a_hook_that_cannot_be_called_says_so_and_keeps_its_place() {
    let (world, mut ear) = (World::new(), Ear::new().await);
    let good = hook("h", &ear.url);
    let hooks = world.start(std::slice::from_ref(&good));
    world.until(&hooks, |_| world.places().contains_key("h")).await;
    world.send(1);
    assert_eq!(ear.sequences(1).await, [1]);
    hooks.shutdown().await;
    let secret_file = Some(world.data.path().join("none"));
    let url = ear.url.parse().unwrap();
    let action = Action::Webhook(Webhook { url, secret_file, ca_file: None });
    let hooks = world.start(&[Hook { action, ..good.clone() }, hook("other", &ear.url)]);
    world.until(&hooks, |_| world.places().contains_key("other")).await;
    world.send(1);
    assert_eq!(ear.sequences(1).await, [2], "of the other");
    let report = world.until(&hooks, |it| it.len() == 2 && it[0].made == 1).await;
    let why = report[1].unusable.as_ref().unwrap();
    assert!(report[1].hook == "h" && why.contains("is not there"), "{report:?}");
    hooks.shutdown().await;
    assert_eq!(world.places(), BTreeMap::from([("h".into(), 1), ("other".into(), 2)]));
    let hooks = world.start(&[good]);
    assert_eq!(ear.sequences(1).await, [2]);
    hooks.shutdown().await;
    assert_eq!(world.places(), BTreeMap::from([("h".into(), 2)]), "one that is gone is forgotten");
}
