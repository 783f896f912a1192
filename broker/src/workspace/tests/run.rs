//! Who is woken by what happens to runs and their steps, and what time does to them.

use std::sync::atomic::Ordering;

use tasuki_proto::{
    id::Epoch,
    limits::STEP_LEASE_MS,
    run::{RunId, StepId},
    token::SecretHash,
};

use super::*;
use crate::rules::{
    Reply,
    run::{
        Answer as RunAnswer, Command as Ask, Mode, Offer, Outcome, Question as What, Reply as Said,
        Report, Speaker, Start, StepSpec, StepWords, Waiter, WantedBudget,
    },
};

const HOLD_MS: u64 = 600_000;

fn caller(node: &str) -> Caller {
    Caller { node: Some((node.parse().unwrap(), Epoch::from(1))), token: None }
}

impl Fixture {
    async fn registered(&self, node: &str) {
        let spec = RoleSpec { role: "A".parse().unwrap(), toolsets: Vec::new(), is_standby: None };
        let register = Register {
            node: node.parse().unwrap(),
            roles: if node == "n1" { vec![spec] } else { Vec::new() },
            take_over: false,
            software: String::new(),
            orphan_of: None,
        };
        let command = Command::Directory(directory::Command::Register(register));
        self.execute(Request { caller: Caller::default(), key: None, command }).await;
    }

    async fn asks(&self, node: &str, ask: Ask) -> Reply {
        let request = Request { caller: caller(node), key: None, command: Command::Run(ask) };
        self.execute(request).await.reply
    }

    async fn started(&self, steps: usize) -> RunId {
        let spec = StepSpec {
            agent: "scout".to_owned(),
            runner: "pi".parse().unwrap(),
            model: String::new(),
            on: Some("gpu".parse().unwrap()),
            timeout_ms: 0,
        };
        let start = Start {
            by: Speaker::Role("A".parse().unwrap()),
            mode: Mode::Parallel,
            steps: vec![(spec, StepWords::default()); steps],
            concurrency: 4,
            budget: WantedBudget::default(),
            may_elsewhere: true,
        };
        let reply = self.asks("n1", Ask::Start(Box::new(start))).await;
        let Reply::Run(Said::Started { run }) = reply else { panic!("{reply:?}") };
        run
    }

    async fn offers(&self, node: &str) -> Waiting {
        self.offers_as(node, caller(node)).await
    }

    async fn offers_as(&self, node: &str, caller: Caller) -> Waiting {
        let offer = Offer {
            node: node.parse().unwrap(),
            runners: ["pi".parse().unwrap()].into(),
            labels: ["gpu".parse().unwrap()].into(),
            places: 1,
            accepts_elsewhere: true,
            stopping: Default::default(),
        };
        let question = Question::Run(What::Steps(Box::new(offer)));
        self.park_question(question, caller, HOLD_MS).await
    }

    async fn later(&self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
        self.tell(Msg::Tick);
        self.wake().await;
    }
}

async fn shown(waiting: Waiting) -> (Option<StepId>, bool) {
    let outcome = waiting.await.unwrap().unwrap();
    let Answer::Run(RunAnswer::Steps { ready, .. }) = outcome.answer else { panic!("{outcome:?}") };
    (ready, outcome.is_superseded)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_wakes_one_node_and_then_the_next() {
    let it = Fixture::start().await;
    for node in ["n1", "n2", "n3"] {
        it.registered(node).await;
    }
    let older = it.offers("n2").await;
    let first = it.offers("n2").await;
    assert_eq!(shown(older).await, (None, true), "a newer wait of the same node");
    let former = Caller { node: Some(("n2".parse().unwrap(), Epoch::from(0))), token: None };
    let refused = it.offers_as("n2", former).await.await.unwrap();
    assert!(refused.is_err(), "who began before: {refused:?}");
    let mut second = it.offers("n3").await;
    let nodes = it.workspaces.query(&it.id, |view| {
        view.waits.offers().map(|offer| offer.node.to_string()).collect::<Vec<_>>()
    });
    assert_eq!(nodes.await.unwrap(), ["n2", "n3"], "and none of them was ended");
    let run = it.started(1).await;
    let step = StepId { run, number: 1 };
    assert_eq!(shown(first).await, (Some(step), false), "who waits the longest");
    it.wake().await;
    assert!(second.try_recv().is_err(), "nobody else");
    it.later(5_000).await;
    assert_eq!(shown(second).await, (Some(step), false), "the first let it lie");
}

/// Holds RU2 where time alone ends a claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_nothing_is_heard_of_is_lost_and_whoever_waits_or_watches_is_told() {
    let it = Fixture::start().await;
    it.registered("n1").await;
    it.registered("n2").await;
    let run = it.started(1).await;
    let step = StepId { run, number: 1 };
    let secret = SecretHash::of(b"s");
    let claimed = it.asks("n2", Ask::Claim { step, secret }).await;
    let Reply::Run(Said::Claimed { token, .. }) = claimed else { panic!("{claimed:?}") };
    let by = Waiter::Role("A".parse().unwrap());
    let question = Question::Run(What::Run { run, after: 0, by });
    let mut waiting = it.park_question(question, caller("n1"), HOLD_MS).await;
    let mut changes = it.workspaces.watch(&it.id, run).await.unwrap();
    let report = |node: &'static str| {
        it.workspaces.report(&it.id, caller(node), (step, token), Report::default())
    };
    assert!(report("n1").await.is_err(), "another node");
    let reported = report("n2").await.unwrap();
    assert!(reported.stop.is_none() && changes.has_changed().unwrap());
    changes.mark_unchanged();
    it.later(STEP_LEASE_MS - 1).await;
    assert!(waiting.try_recv().is_err() && !changes.has_changed().unwrap());
    // The clock leaps, so the broker is taken to have stood still, which gives one grace.
    it.later(STEP_LEASE_MS).await;
    assert!(waiting.try_recv().is_err());
    it.later(STEP_LEASE_MS).await;
    let told = waiting.await.unwrap().unwrap().answer;
    assert!(told.is_there(), "{told:?}");
    assert!(changes.has_changed().unwrap());
    let outcome = it.workspaces.query(&it.id, move |view| {
        let (_, state) = view.workspace.runs.step(step).unwrap();
        state.ended().map(|ended| ended.outcome)
    });
    assert_eq!(outcome.await.unwrap(), Some(Outcome::Lost));
    assert!(report("n2").await.is_err(), "it reports too late");
    // Who watches keeps it awake.
    it.later(IDLE_MS * 60).await;
    assert!(it.workspaces.is_awake(&it.id));
    drop(changes);
}
