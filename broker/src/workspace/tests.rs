//! What happens to those who wait when a workspace falls asleep or ends under them.

mod observe;
mod run;
mod snapshots;
mod swarm;

use std::sync::{Arc, atomic::AtomicU64, atomic::Ordering, mpsc};

use tasuki_proto::id::{IdempotencyKey, NodeId, RoleId, Timestamp, WorkspaceId};
use tokio::sync::oneshot;

use super::{
    Answer, ExecuteError, Executed, IN_FLIGHT_MAX, Question, Settings, View, WaitOutcome,
    Workspaces, actor::Msg, state::State, supervisor::Shared, waits::WaitReply,
};
use crate::{
    clock::Clock,
    hash::Hash,
    journal::{
        Journal, Outcome,
        memory::MemoryJournal,
        sled::{Options, SledJournal},
    },
    rules::{
        Caller, Command, Principal, Rejection, Request,
        directory::{self, Register, RoleSpec},
        presence::RoleReport,
        turn::{self, HandOver},
    },
};

const IDLE_MS: u64 = 1000;

/// What a wait ends with; `Err` when it was lost.
type Waiting = oneshot::Receiver<Result<WaitOutcome, Rejection>>;

struct Fixture {
    workspaces: Workspaces,
    clock: Arc<AtomicU64>,
    id: WorkspaceId,
}

impl Fixture {
    async fn start() -> Self {
        Self::start_on(Arc::new(MemoryJournal::default())).await
    }

    async fn start_on(journal: Arc<dyn Journal>) -> Self {
        let clock = Arc::new(AtomicU64::new(1_000_000));
        let settings = Settings { lease_ms: 900_000, idle_ms: IDLE_MS };
        let workspaces = Workspaces::start(
            journal,
            Clock::Manual(Arc::clone(&clock)),
            settings,
            Arc::new(|why| panic!("{why}")),
        );
        Self { workspaces: workspaces.await, clock, id: "w".parse().unwrap() }
    }

    fn shared(&self) -> &Shared {
        self.workspaces.shared()
    }

    async fn wake(&self) {
        self.workspaces.query(&self.id, |_| ()).await.unwrap();
    }

    fn tell(&self, message: Msg) {
        self.shared().awake(&self.id).unwrap().actor.send_message(message).unwrap();
    }

    async fn park(&self) -> Waiting {
        self.park_by(Caller::default()).await
    }

    async fn park_by(&self, caller: Caller) -> Waiting {
        let (loop_id, role) = ("main".parse().unwrap(), "B".parse().unwrap());
        self.park_question(Question::Turn { loop_id, role }, caller, 60_000).await
    }

    async fn park_question(&self, question: Question, caller: Caller, hold_ms: u64) -> Waiting {
        let (told, waiting) = oneshot::channel();
        let reply: WaitReply = Box::new(|_, outcome| Box::new(move || _ = told.send(outcome)));
        let parked = self.workspaces.park(&self.id, question, caller, hold_ms, || reply).await;
        parked.unwrap().has_ended();
        waiting
    }

    async fn execute(&self, request: Request) -> Executed {
        self.workspaces.execute(&self.id, request, 0, |_, executed| executed).await.unwrap()
    }

    async fn hand_over(&self) {
        let request = Request { caller: Caller::default(), key: None, command: hand_over() };
        self.execute(request).await;
    }
}

/// `A` gives the first turn on.
fn hand_over() -> Command {
    Command::Turn(turn::Command::HandOver(HandOver {
        loop_id: "main".parse().unwrap(),
        role: "A".parse().unwrap(),
        summary: "s".to_owned(),
        instruction: "i".to_owned(),
        is_task_complete: false,
        to: None,
        turn: None,
    }))
}

/// Keeps an actor busy, from when it says so until the sender goes away.
fn busy() -> (Msg, oneshot::Receiver<()>, mpsc::Sender<()>) {
    let (free, freed) = mpsc::channel::<()>();
    let (begin, begun) = oneshot::channel();
    let task = Box::new(move |_: &mut State| {
        begin.send(()).unwrap();
        let _ = freed.recv();
    });
    (Msg::Run(task), begun, free)
}

fn turn_of(told: WaitOutcome) -> u64 {
    match told.answer {
        Answer::Turn(answer) => answer.turn.get(),
        other @ (Answer::Mail(_) | Answer::Swarm(_) | Answer::Board(_) | Answer::Run(_)) => {
            panic!("{other:?}")
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_meets_a_workspace_on_its_way_to_sleep_is_kept() {
    let it = Fixture::start().await;
    it.wake().await;
    let (message, begun, free) = busy();
    it.tell(message);
    begun.await.unwrap();
    // Behind it: the tick that finds the workspace idle, and behind that the wait.
    it.tell(Msg::Tick);
    it.clock.fetch_add(IDLE_MS * 2, Ordering::SeqCst);
    let waiting = it.park().await;
    let (last, handled, _) = busy();
    it.tell(last);
    drop(free);
    // An actor that goes to sleep drops it.
    let _ = handled.await;
    it.hand_over().await;
    assert_eq!(turn_of(waiting.await.unwrap().unwrap()), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_workspace_sleeps_and_wakes_as_it_was() {
    let it = Fixture::start().await;
    it.wake().await;
    let admission = it.shared().awake(&it.id).unwrap().admission;
    it.clock.fetch_add(IDLE_MS * 2, Ordering::SeqCst);
    it.tell(Msg::Tick);
    // The closed admission is how callers learn of it.
    while !admission.is_closed() {
        tokio::task::yield_now().await;
    }
    it.hand_over().await;
    let sequence = it.workspaces.query(&it.id, |view| view.workspace.sequence).await.unwrap();
    assert_eq!(sequence.get(), 1);
}

/// On one thread, so that the call is between the two steps of falling asleep.
/// Holds S1.
#[tokio::test]
async fn whoever_calls_while_a_workspace_falls_asleep_is_let_into_the_next() {
    let it = Fixture::start().await;
    it.hand_over().await;
    let old = it.shared().awake(&it.id).unwrap();
    let all = u32::try_from(IN_FLIGHT_MAX).unwrap();
    let everything = old.admission.clone().try_acquire_many_owned(all).unwrap();
    let asleep = async {
        old.admission.close();
        old.actor.stop(None);
    };
    let look = it.workspaces.query(&it.id, |view| view.workspace.sequence);
    let (sequence, ()) = tokio::join!(look, asleep);
    assert_eq!(sequence.unwrap().get(), 1);
    drop(everything);
    // One that is full stays so.
    let handle = it.shared().awake(&it.id).unwrap();
    let everything = handle.admission.clone().try_acquire_many_owned(all).unwrap();
    let refused = it.workspaces.query(&it.id, |_| ()).await.unwrap_err();
    assert!(matches!(refused, ExecuteError::Overloaded), "{refused}");
    drop(everything);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_offers_are_declined_than_a_workspace_takes_on() {
    let it = Fixture::start().await;
    it.hand_over().await;
    let (message, begun, free) = busy();
    it.tell(message);
    begun.await.unwrap();
    let admission = it.shared().awake(&it.id).unwrap().admission;
    let places = admission.available_permits();
    let decline = || it.workspaces.decline(&it.id, "A".parse().unwrap(), Caller::default());
    decline();
    assert_eq!(admission.available_permits(), places - 1, "one waits for the actor");
    (0..IN_FLIGHT_MAX).for_each(|_| decline());
    assert_eq!(admission.available_permits(), 0);
    drop(free);
    while admission.available_permits() < places {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_storage_is_not_damage() {
    let data = tempfile::tempdir().unwrap();
    let journal = SledJournal::open(data.path(), Options::default()).unwrap();
    let it = Fixture::start_on(Arc::new(journal)).await;
    it.workspaces.journal().close().await.unwrap();
    let refused = it.workspaces.query(&it.id, |_| ()).await.unwrap_err();
    assert_eq!(refused.reason(), tasuki_proto::reason::Reason::Unavailable, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_a_workspace_ends_its_waits_end_and_the_next_call_wakes_it() {
    let bug = || Msg::Run(Box::new(|_| panic!("a bug, for this test")));
    for end in [bug(), Msg::Journal(Outcome::Fenced)] {
        let it = Fixture::start().await;
        let waiting = it.park().await;
        it.tell(end);
        assert!(waiting.await.is_err(), "who waits is told that it ended");
        it.hand_over().await;
        let waiting = it.park().await;
        assert_eq!(turn_of(waiting.await.unwrap().unwrap()), 2);
    }
}

fn register(node: &str, role: &str, take_over: bool) -> Request {
    let command = Command::Directory(directory::Command::Register(Register {
        node: node.parse().unwrap(),
        roles: vec![RoleSpec {
            role: role.parse().unwrap(),
            toolsets: Vec::new(),
            is_standby: None,
        }],
        take_over,
        software: String::new(),
        orphan_of: None,
    }));
    Request { caller: Caller::default(), key: None, command }
}

fn caller(node: &str, token: &str) -> Caller {
    Caller { node: Some((node.parse().unwrap(), 1.into())), token: Some(token.parse().unwrap()) }
}

impl Fixture {
    /// When these gave their latest sign of life.
    async fn signs(&self, node: &str, role: &str) -> (Option<Timestamp>, Option<Timestamp>) {
        let (node, role): (NodeId, RoleId) = (node.parse().unwrap(), role.parse().unwrap());
        let signs = self.workspaces.query(&self.id, move |view| {
            let presence = &view.context.presence;
            (presence.node(&node), presence.role(&role).map(|sign| sign.at))
        });
        signs.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_whoever_hosts_a_role_gives_signs_of_its_life() {
    let it = Fixture::start().await;
    it.execute(register("n1", "A", false)).await;
    let handover = Request {
        caller: caller("n1", "t1"),
        key: Some((IdempotencyKey { client: "c".parse().unwrap(), counter: 1 }, Hash([1; 16]))),
        command: hand_over(),
    };
    let first = it.execute(handover.clone()).await;
    let (node, role) = it.signs("n1", "A").await;
    assert!(node.is_some() && role.is_some());
    it.execute(register("n2", "A", true)).await;
    it.clock.fetch_add(10, Ordering::SeqCst);
    // What it was told once it is told again, but it is not there as A any more.
    let again = it.execute(handover).await;
    assert_eq!((&again.reply, again.sequence), (&first.reply, first.sequence));
    assert_eq!(again.recorded, None);
    let beat = |role: &str| vec![(role.parse().unwrap(), RoleReport::default())];
    it.workspaces.seen(&it.id, "n1".parse().unwrap(), beat("A")).await.unwrap();
    it.workspaces.seen(&it.id, "n2".parse().unwrap(), beat("B")).await.unwrap();
    it.workspaces.seen(&it.id, "n3".parse().unwrap(), beat("A")).await.unwrap();
    assert_eq!(it.signs("n3", "A").await, (None, role));
    assert_eq!(it.signs("n3", "B").await, (None, None));
    it.workspaces.seen(&it.id, "n2".parse().unwrap(), beat("A")).await.unwrap();
    let (_, later) = it.signs("n2", "A").await;
    assert!(role < later);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_with_what_let_its_caller_ask() {
    let it = Fixture::start().await;
    let by = |node: &str, epoch: u64| Caller {
        node: Some((node.parse().unwrap(), epoch.into())),
        token: None,
    };
    it.execute(register("n1", "B", false)).await;
    let waiting = it.park_by(by("n1", 1)).await;
    it.execute(register("n2", "B", true)).await;
    let ended = waiting.await.unwrap().unwrap_err();
    let (node, role) = ("n1".parse().unwrap(), "B".parse().unwrap());
    assert_eq!(ended, Rejection::RoleForbidden { node, role });

    // An older life of the same node would be told to start beside the newer.
    let older = it.park_by(by("n2", 1)).await;
    it.execute(register("n2", "B", false)).await;
    let fenced = older.await.unwrap().unwrap_err();
    let (presented, current) = (1.into(), 2.into());
    assert_eq!(fenced, Rejection::StaleEpoch { node: "n2".parse().unwrap(), presented, current });
    let late = it.park_by(by("n2", 1)).await.await.unwrap().unwrap_err();
    assert_eq!(late, fenced);

    let waiting = it.park_by(by("n2", 2)).await;
    it.hand_over().await;
    assert_eq!(turn_of(waiting.await.unwrap().unwrap()), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_say_on_whose_word_something_happened() {
    let it = Fixture::start().await;
    let mut feed = it.workspaces.subscribe(&it.id).await.unwrap();
    let registers = Request {
        caller: Caller { token: caller("n1", "t1").token, node: None },
        ..register("n1", "A", false)
    };
    it.execute(registers).await;
    let handover = Request { caller: caller("n1", "t1"), key: None, command: hand_over() };
    it.execute(handover).await;
    let registered = feed.recv().await.unwrap();
    assert_eq!(registered.principal.token, Some("t1".parse().unwrap()));
    assert_eq!(
        feed.recv().await.unwrap().principal,
        Principal {
            node: Some("n1".parse().unwrap()),
            role: Some("A".parse().unwrap()),
            person: None,
            token: Some("t1".parse().unwrap()),
        }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_is_answered_before_what_it_names_is_looked_up() {
    let it = Fixture::start().await;
    it.execute(register("n1", "B", false)).await;
    let ask = |counter: u64, prepared: Result<(Command, u8), &'static str>| {
        let key = IdempotencyKey { client: "c".parse().unwrap(), counter };
        let asked = (Caller::default(), Some((key, Hash([1; 16]))), "A".parse().unwrap());
        let prepare = move |_: &View<'_>| prepared;
        it.workspaces.execute_prepared(&it.id, asked, 0, prepare, |_, executed, prepared| {
            (executed, prepared)
        })
    };
    let (first, prepared) = ask(1, Ok((hand_over(), 7))).await.unwrap().unwrap();
    assert_eq!(prepared, Some(7));
    let (again, prepared) = ask(1, Err("it means several by now")).await.unwrap().unwrap();
    assert_eq!((&again.reply, again.sequence), (&first.reply, first.sequence));
    assert_eq!((again.recorded, prepared), (None, None));
    // What was refused is not kept under its key.
    assert_eq!(ask(2, Err("it means several")).await.unwrap().unwrap_err(), "it means several");
    assert_eq!(ask(2, Err("it means none")).await.unwrap().unwrap_err(), "it means none");
}
