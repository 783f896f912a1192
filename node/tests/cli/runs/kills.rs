//! Nodes and brokers that die while agents run.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tasuki_proto::wire::RunStatus;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{CANCELED, FAILED, Running, UNREACHABLE, only_run, parsed};
use crate::{
    Said,
    fake_agent::{FakeAgents, Machine, Runs, configure},
    process::{Process, soon, tasuki},
};

/// A broker, and a node elsewhere.
struct Two {
    broker: Process,
    node: Process,
    fake: FakeAgents,
    runs: Runs,
    _place: tempfile::TempDir,
}

impl Two {
    async fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let fake = FakeAgents::new(place.path());
        let broker = Process::broker(&place.path().join("broker"), "").await;
        let address = broker.broker.unwrap();
        let data = place.path().join("node");
        configure(&data, &format!("{}[runs]\n", fake.config()));
        let node = Process::node_with(&data, address, "--role A", &fake.env()).await;
        let runs = Runs::at(address);
        runs.until_offered(1).await;
        Self { broker, node, fake, runs, _place: place }
    }

    fn run(&self, task: &str) -> Running {
        run(&self.node.data, &self.fake, task)
    }
}

/// A user on whose data directory nothing runs.
struct Alone {
    fake: FakeAgents,
    data: PathBuf,
    place: tempfile::TempDir,
}

impl Alone {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let fake = FakeAgents::new(place.path());
        let data = place.path().join("data");
        configure(&data, &fake.config());
        Self { fake, data, place }
    }

    fn run(&self, task: &str) -> Running {
        run(&self.data, &self.fake, task)
    }
}

/// `tasuki run` of the user who has these agents, as a program calls it.
fn run(data: &Path, fake: &FakeAgents, task: &str) -> Running {
    let mut command = tasuki(data);
    command.args(["run", "scout", task, "--json", "--data"]).arg(data).envs(fake.env());
    Running::begin(command)
}

#[tokio::test]
async fn a_run_whose_node_was_killed_is_lost_and_nothing_of_it_is_left() {
    let mut two = Two::start().await;
    let running = two.run("stubborn; daemon; turn 'let me look'; hang");
    two.fake.begun(1).await;
    let run_id = only_run(&two.runs).await;
    two.node.kill().await;
    two.fake.gone().await;
    assert_eq!(two.runs.get(&run_id).await.unwrap().status(), RunStatus::Running);
    // It begins anew, and so it has lost what it ran.
    two.node.start().await;
    let told = running.result(FAILED).await;
    assert_eq!(told["status"], "lost", "{told}");
    assert!(told["output"].as_str().unwrap().contains("is gone"), "{told}");
    assert_eq!(two.runs.end(&run_id).await, RunStatus::Lost);
    // It is not run again, and the next one is.
    let told = two.run("say done").result(0).await;
    assert_eq!(told["output"], "done", "{told}");
    two.fake.begun(1).await;
    two.fake.gone().await;
}

#[tokio::test]
async fn a_run_survives_its_broker() {
    let mut two = Two::start().await;
    let running = two.run("wait_go; say done");
    two.fake.begun(1).await;
    two.broker.kill().await;
    // It ends while nobody can be told.
    two.fake.let_go(1);
    two.fake.gone().await;
    two.broker.start().await;
    let told = running.result(0).await;
    assert_eq!((&told["output"], &told["status"]), (&"done".into(), &"succeeded".into()));
    let again = Runs::at(two.broker.broker.unwrap());
    assert_eq!(again.only().await.status(), RunStatus::Succeeded);
}

/// Ctrl-C is heard once the broker is back.
#[tokio::test]
async fn a_run_is_canceled_though_its_broker_was_away() {
    let mut two = Two::start().await;
    let running = two.run("hang");
    two.fake.begun(1).await;
    two.broker.kill().await;
    running.interrupt();
    two.broker.start().await;
    let told = running.result(CANCELED).await;
    assert_eq!(told["status"], "canceled", "{told}");
    two.fake.gone().await;
}

#[tokio::test]
async fn a_run_goes_on_without_who_asked_for_it() {
    let mut two = Two::start().await;
    let mut running = two.run("wait_go; say done");
    two.fake.begun(1).await;
    let run_id = only_run(&two.runs).await;
    soon(running.0.kill()).await.unwrap();
    two.fake.let_go(1);
    assert_eq!(two.runs.end(&run_id).await, RunStatus::Succeeded);
    two.fake.gone().await;
}

#[tokio::test]
async fn everything_in_one_process_is_killed_and_its_runs_are_lost() {
    let mut machine = Machine::up("", "").await;
    let running = Running::run(&machine, &["scout", "daemon; hang"]);
    machine.fake.begun(1).await;
    machine.up.kill().await;
    machine.fake.gone().await;
    machine.up.start().await;
    assert_eq!(running.result(FAILED).await["status"], "lost");
    assert_eq!(machine.runs().only().await.status(), RunStatus::Lost);
}

/// It is told to stop, and so it stops what it runs.
#[tokio::test]
async fn a_node_that_stops_leaves_nothing() {
    let mut machine = Machine::up("", "").await;
    let running = Running::run(&machine, &["scout", "stubborn; daemon; hang"]);
    machine.fake.begun(1).await;
    assert_eq!(machine.up.stop().await.code(), Some(0), "{}", machine.up.log());
    machine.fake.gone().await;
    machine.up.start().await;
    let told = running.end().await;
    assert!(matches!(told.code, FAILED | CANCELED), "{told:?}");
    let status = machine.runs().only().await.status();
    assert!(!matches!(status, RunStatus::Running | RunStatus::Succeeded), "{status:?}");
}

/// Without anything that runs a command has its own broker and node, as long as it takes.
#[tokio::test]
async fn a_run_needs_nothing_that_runs_already() {
    let mut alone = Alone::new();
    for number in 1..=2 {
        let told = alone.run(&format!("say {number}")).result(0).await;
        assert_eq!(told["output"], number.to_string(), "{told}");
        alone.fake.begun(1).await;
        alone.fake.gone().await;
    }
    // One that is killed leaves nothing either, and its run is no success later.
    let mut killed = alone.run("stubborn; daemon; hang");
    alone.fake.begun(1).await;
    soon(killed.0.kill()).await.unwrap();
    alone.fake.gone().await;
    let interrupted = alone.run("hang");
    alone.fake.begun(1).await;
    interrupted.interrupt();
    let told: Said = interrupted.end().await;
    assert!(!matches!(told.code, 0 | 2), "{told:?}");
    alone.fake.gone().await;

    let up = Process::up_with(&alone.data, "", &alone.fake.env()).await;
    let listed = up.json("runs list").await;
    let statuses: Vec<&Value> = listed.iter().map(|run| &run["status"]).collect();
    assert_eq!(listed.len(), 4, "{statuses:?}");
    let all = Runs::at(up.broker.unwrap()).all().await.unwrap();
    let ended: Vec<RunStatus> = all.iter().map(tasuki_proto::wire::Run::status).collect();
    let expected =
        [RunStatus::Canceled, RunStatus::Lost, RunStatus::Succeeded, RunStatus::Succeeded];
    assert_eq!(ended, expected, "the newest first");
}

/// Two at once: the second uses what the first has.
#[tokio::test]
async fn two_commands_share_what_one_of_them_started() {
    let mut alone = Alone::new();
    let first = alone.run("wait_go; say first");
    alone.fake.begun(1).await;
    let second = alone.run("say second").end().await;
    assert_eq!(second.code, 0, "{second:?}");
    assert_eq!(parsed(&second.out).pop().unwrap()["output"], "second");
    alone.fake.begun(1).await;
    alone.fake.let_go(1);
    assert_eq!(first.result(0).await["output"], "first");
    alone.fake.gone().await;
}

/// Of two commands the first, which has what both run on, and the second, once it follows its run.
async fn two_that_share(alone: &mut Alone) -> (Running, Running) {
    let first = alone.run("hang");
    alone.fake.begun(1).await;
    let mut second = alone.run("hang");
    alone.fake.begun(1).await;
    let mut told = String::new();
    let out = second.0.stdout.as_mut().unwrap();
    assert_ne!(soon(BufReader::new(out).read_line(&mut told)).await.unwrap(), 0);
    (first, second)
}

/// Nobody can tell it any more how its run ended.
#[tokio::test]
async fn a_command_ends_once_the_command_was_killed_whose_broker_it_used() {
    let mut alone = Alone::new();
    let (mut first, second) = two_that_share(&mut alone).await;
    soon(first.0.kill()).await.unwrap();
    let told = second.result(UNREACHABLE).await;
    assert_eq!(told["error"]["code"], "unavailable", "{told}");
    let message = told["error"]["message"].as_str().unwrap();
    assert!(message.contains("has ended. `tasuki up --data "), "{message}");
    alone.fake.gone().await;
}

/// It listens elsewhere, and knows the run.
#[tokio::test]
async fn a_command_finds_the_broker_that_was_started_in_the_place_of_a_killed_one() {
    let mut alone = Alone::new();
    let (mut first, second) = two_that_share(&mut alone).await;
    soon(first.0.kill()).await.unwrap();
    alone.fake.gone().await;
    let _up = Process::up_with(&alone.data, "", &alone.fake.env()).await;
    assert_eq!(second.result(FAILED).await["status"], "lost");
}

/// It does not end with the command that has what it runs on.
#[tokio::test]
async fn a_command_waits_for_what_others_run_on_its_node() {
    let mut alone = Alone::new();
    let Running(mut first) = alone.run("wait_go; say first");
    alone.fake.begun(1).await;
    let path = alone.place.path().join("go_on");
    let pipe = path.display();
    let second =
        alone.run(&format!("mkfifo '{pipe}'; tell ready; read -r line < '{pipe}'; say second"));
    alone.fake.begun(1).await;
    assert_eq!(alone.fake.told().await, "ready");
    alone.fake.let_go(1);
    let mut out = BufReader::new(first.stdout.take().unwrap()).lines();
    while parsed(&soon(out.next_line()).await.unwrap().unwrap())[0]["event"] != "end" {}
    // Open for reading, too: nobody need read yet.
    let mut pipe = File::options().read(true).write(true).open(&path).unwrap();
    pipe.write_all(b"\n").unwrap();
    assert_eq!(second.result(0).await["output"], "second");
    assert!(soon(first.wait()).await.unwrap().success());
    alone.fake.gone().await;
}

/// Only one of them starts broker and node.
#[tokio::test]
async fn two_commands_may_begin_at_once() {
    let mut alone = Alone::new();
    let (first, second) = (alone.run("wait_go; say first"), alone.run("wait_go; say second"));
    alone.fake.begun(2).await;
    alone.fake.let_go(2);
    assert_eq!(first.result(0).await["output"], "first");
    assert_eq!(second.result(0).await["output"], "second");
    alone.fake.gone().await;
}
