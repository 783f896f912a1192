//! What happens to those who wait when a workspace falls asleep or ends under them.

use std::sync::{Arc, atomic::AtomicU64, atomic::Ordering, mpsc};

use tasuki_proto::id::WorkspaceId;
use tokio::sync::oneshot;

use super::{
    Question, Settings, Told, Workspaces,
    actor::{Msg, Release},
    supervisor::Shared,
};
use crate::{
    clock::Clock,
    journal::{
        Journal, Outcome,
        memory::MemoryJournal,
        sled::{Options, SledJournal},
    },
    rules::{Caller, Command, Rejection, Request, turn::HandOver},
};

const IDLE_MS: u64 = 1000;

/// What a wait ends with; `Err` when it was lost.
type Waiting = oneshot::Receiver<Result<Told, Rejection>>;

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
        self.workspaces.look(&self.id, |_| ()).await.unwrap();
    }

    fn tell(&self, message: Msg) {
        self.shared().awake(&self.id).unwrap().actor.send_message(message).unwrap();
    }

    async fn park(&self) -> Waiting {
        let (told, waiting) = oneshot::channel();
        let sink = Box::new(|outcome| _ = told.send(outcome));
        let question = Question { loop_id: "main".parse().unwrap(), role: "B".parse().unwrap() };
        self.workspaces.park(&self.id, question, 60_000, || sink).await.unwrap();
        waiting
    }

    async fn hand_over(&self) {
        let command = Command::HandOver(HandOver {
            loop_id: "main".parse().unwrap(),
            role: "A".parse().unwrap(),
            summary: "s".to_owned(),
            instruction: "i".to_owned(),
            is_task_complete: false,
            to: None,
            turn: None,
        });
        let request = Request { caller: Caller::default(), key: None, command };
        self.workspaces.execute(&self.id, request).await.unwrap();
    }
}

/// Keeps an actor busy, from when it says so until the sender goes away.
fn busy() -> (Msg, oneshot::Receiver<()>, mpsc::Sender<()>) {
    let (free, freed) = mpsc::channel::<()>();
    let (begin, begun) = oneshot::channel();
    let look = Box::new(move |_: &super::View<'_>| -> Release {
        begin.send(()).unwrap();
        let _ = freed.recv();
        Box::new(|| ())
    });
    (Msg::Look(look), begun, free)
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
    assert_eq!(waiting.await.unwrap().unwrap().answer.turn, 2.into());
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
    let sequence = it.workspaces.look(&it.id, |view| view.workspace.sequence).await.unwrap();
    assert_eq!(sequence.get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_storage_is_not_damage() {
    let data = tempfile::tempdir().unwrap();
    let journal = SledJournal::open(data.path(), Options::default()).unwrap();
    let it = Fixture::start_on(Arc::new(journal)).await;
    it.workspaces.journal().close().await.unwrap();
    let refused = it.workspaces.look(&it.id, |_| ()).await.unwrap_err();
    assert_eq!(refused.reason(), tasuki_proto::reason::Reason::Unavailable, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_a_workspace_ends_its_waits_end_and_the_next_call_wakes_it() {
    let bug = || Msg::Look(Box::new(|_| panic!("a bug, for this test")));
    for end in [bug(), Msg::Journal(Outcome::Fenced)] {
        let it = Fixture::start().await;
        let waiting = it.park().await;
        it.tell(end);
        assert!(waiting.await.is_err(), "who waits is told that it ended");
        it.hand_over().await;
        let waiting = it.park().await;
        assert_eq!(waiting.await.unwrap().unwrap().answer.turn, 2.into());
    }
}
