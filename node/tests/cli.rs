//! The real `tasuki` against a broker that says what a test wants it to say; its mail and its
//! issues against a real one.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

#[cfg(unix)]
#[path = "cli/accept/mod.rs"]
mod accept;
#[cfg(unix)]
#[path = "cli/agent_process.rs"]
mod agent_process;
#[path = "connect/main.rs"]
mod connect;
#[cfg(unix)]
#[path = "fake_agent/mod.rs"]
#[allow(dead_code, reason = "shared with the tests at the edges, which use more of it")]
mod fake_agent;
#[path = "filebox/main.rs"]
mod filebox;
#[path = "cli/import_killed.rs"]
mod import_killed;
#[path = "cli/import_swarm.rs"]
mod import_swarm;
#[cfg(unix)]
#[path = "launch/main.rs"]
mod launch;
#[path = "cli/lock_hook/mod.rs"]
mod lock_hook;
#[path = "cli/mail.rs"]
mod mail;
#[path = "mirror/main.rs"]
mod mirror;
#[path = "edges/process.rs"]
#[allow(dead_code, reason = "shared with the tests at the edges, which use more of it")]
mod process;
#[cfg(unix)]
#[path = "cli/runs/mod.rs"]
mod runs;
#[path = "cli/swarm.rs"]
mod swarm;
#[cfg(unix)]
#[path = "cli/wake/mod.rs"]
mod wake;

use std::{
    collections::VecDeque,
    pin::Pin,
    process::{Output, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::Stream;
use serde_json::Value;
use tasuki_proto::{
    reason::Reason,
    wire::{
        self,
        feed_server::{Feed, FeedServer},
        turn_loop_server::{TurnLoop, TurnLoopServer},
    },
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    time::timeout,
};
use tonic::{Code, Request, Response, Status, transport::server::TcpIncoming};

/// For one command on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a command ended, and what it printed.
#[derive(Debug)]
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Said {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }
}

type Result<T> = std::result::Result<Response<T>, Status>;

/// Answers handovers and subscriptions from a script, and keeps what it was asked.
#[derive(Debug, Clone, Default)]
struct Script(Arc<Mutex<Play>>);

#[derive(Debug, Default)]
struct Play {
    handovers: VecDeque<std::result::Result<wire::HandOverResponse, Status>>,
    feeds: VecDeque<Vec<std::result::Result<wire::FeedItem, Status>>>,
    is_loop_there: bool,
    entries: u64,
    keys: Vec<wire::IdempotencyKey>,
    asked_from: Vec<u64>,
    created: Vec<Vec<String>>,
    rounds: Vec<wire::StartRoundRequest>,
}

#[tonic::async_trait]
impl TurnLoop for Script {
    async fn hand_over(
        &self,
        asked: Request<wire::HandOverRequest>,
    ) -> Result<wire::HandOverResponse> {
        let mut play = self.0.lock().unwrap();
        play.keys.extend(asked.into_inner().key);
        let lost = || Err(Status::unavailable("the connection broke"));
        play.handovers.pop_front().unwrap_or_else(lost).map(Response::new)
    }
    async fn get_loop(&self, _: Request<wire::GetLoopRequest>) -> Result<wire::GetLoopResponse> {
        if !self.0.lock().unwrap().is_loop_there {
            return Err(Reason::UnknownLoop.status("There is no such loop."));
        }
        let of = wire::Loop {
            r#loop: "main".into(),
            participants: vec!["A".into(), "B".into()],
            entries: self.0.lock().unwrap().entries,
            ..Default::default()
        };
        Ok(Response::new(wire::GetLoopResponse { r#loop: Some(of), ..Default::default() }))
    }
    async fn create_loop(
        &self,
        asked: Request<wire::CreateLoopRequest>,
    ) -> Result<wire::CreateLoopResponse> {
        self.0.lock().unwrap().created.push(asked.into_inner().participants);
        Ok(Response::new(wire::CreateLoopResponse::default()))
    }
    async fn start_round(
        &self,
        asked: Request<wire::StartRoundRequest>,
    ) -> Result<wire::StartRoundResponse> {
        self.0.lock().unwrap().rounds.push(asked.into_inner());
        Ok(Response::new(wire::StartRoundResponse { round: 2, ..Default::default() }))
    }
    async fn await_turn(
        &self,
        _: Request<wire::AwaitTurnRequest>,
    ) -> Result<wire::AwaitTurnResponse> {
        Err(not_played())
    }
    async fn mark_turn(&self, _: Request<wire::MarkTurnRequest>) -> Result<wire::MarkTurnResponse> {
        Err(not_played())
    }
    async fn list_loops(
        &self,
        _: Request<wire::ListLoopsRequest>,
    ) -> Result<wire::ListLoopsResponse> {
        Err(not_played())
    }
    async fn pause_loop(
        &self,
        _: Request<wire::PauseLoopRequest>,
    ) -> Result<wire::PauseLoopResponse> {
        Err(not_played())
    }
    async fn resume_loop(
        &self,
        _: Request<wire::ResumeLoopRequest>,
    ) -> Result<wire::ResumeLoopResponse> {
        Err(not_played())
    }
    async fn reclaim(&self, _: Request<wire::ReclaimRequest>) -> Result<wire::ReclaimResponse> {
        Err(not_played())
    }
    async fn history(&self, asked: Request<wire::HistoryRequest>) -> Result<wire::HistoryResponse> {
        let (asked, last) = (asked.into_inner(), self.0.lock().unwrap().entries);
        let end = (asked.from + u64::from(asked.limit)).min(last + 1);
        let entries = (asked.from..end).map(|number| wire::Entry { number, ..Default::default() });
        let next = if asked.from < end && end <= last { end } else { 0 };
        let entries = entries.collect();
        Ok(Response::new(wire::HistoryResponse { entries, next }))
    }
}

fn not_played() -> Status {
    Status::unimplemented("not in the script")
}

#[tonic::async_trait]
impl Feed for Script {
    type SubscribeStream =
        Pin<Box<dyn Stream<Item = std::result::Result<wire::FeedItem, Status>> + Send>>;

    async fn subscribe(
        &self,
        asked: Request<wire::SubscribeRequest>,
    ) -> Result<Self::SubscribeStream> {
        let mut play = self.0.lock().unwrap();
        play.asked_from.push(asked.into_inner().from_sequence);
        match play.feeds.pop_front() {
            Some(items) => Ok(Response::new(Box::pin(futures::stream::iter(items)))),
            None => Ok(Response::new(Box::pin(futures::stream::pending()))),
        }
    }
}

/// A scripted broker, and a place to call it from.
struct Stage {
    script: Script,
    url: String,
    place: tempfile::TempDir,
}

impl Stage {
    async fn set(play: Play) -> Self {
        let script = Script(Arc::new(Mutex::new(play)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = tonic::transport::Server::builder()
            .add_service(TurnLoopServer::new(script.clone()))
            .add_service(FeedServer::new(script.clone()))
            .serve_with_incoming(TcpIncoming::from(listener));
        tokio::spawn(served);
        Self { script, url, place: tempfile::tempdir().unwrap() }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tasuki"));
        command
            .args(line.split_whitespace())
            .args(["--broker", &self.url, "--data"])
            .arg(self.place.path())
            .current_dir(self.place.path())
            .env("USER", "alice")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, line: &str) -> (i32, Output) {
        let output = timeout(PATIENCE, self.command(line).output()).await.expect("it ends in time");
        let output = output.unwrap();
        (output.status.code().unwrap(), output)
    }

    fn play<T>(&self, look: impl FnOnce(&mut Play) -> T) -> T {
        look(&mut self.script.0.lock().unwrap())
    }
}

const HANDOVER: &str = "loop handover --role A --summary s --instruction i";

fn handed_over() -> wire::HandOverResponse {
    wire::HandOverResponse { ended_turn: 1, turn: 2, to: "B".into(), ..Default::default() }
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_key() {
    let lost = || Err(Status::unavailable("the connection broke"));
    let handovers = [lost(), Err(Reason::OutcomeUnknown.status("Ask again.")), Ok(handed_over())];
    let stage = Stage::set(Play { handovers: handovers.into(), ..Default::default() }).await;
    let (code, output) = stage.run(HANDOVER).await;
    assert_eq!(code, 0, "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Turn 1 ended; B has turn 2.\n");
    let keys = stage.play(|play| std::mem::take(&mut play.keys));
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");

    stage.play(|play| play.handovers.push_back(Ok(handed_over())));
    stage.run(HANDOVER).await;
    let next = stage.play(|play| play.keys[0].clone());
    assert_eq!(next.client_id, keys[0].client_id);
    assert!(keys[0].counter < next.counter, "{next:?} after {keys:?}");
}

/// As after a backup came back.
#[tokio::test]
async fn a_key_that_named_something_else_is_given_up() {
    let used = Err(Reason::KeyReused.status("It named something else."));
    let handovers = [used, Ok(handed_over()), Ok(handed_over())];
    let stage = Stage::set(Play { handovers: handovers.into(), ..Default::default() }).await;
    for _ in 0..2 {
        let (code, output) = stage.run(HANDOVER).await;
        assert_eq!(code, 0, "{output:?}");
    }
    let keys = stage.play(|play| std::mem::take(&mut play.keys));
    let clients: Vec<_> = keys.iter().map(|key| &key.client_id).collect();
    assert!(clients.len() == 3 && clients[0] != clients[1], "{keys:?}");
    assert_eq!(clients[0], clients[2], "{keys:?}");
}

/// The attempt whose answer was lost may have used the key: a broker that was upgraded since cannot
/// tell that it was for the same.
#[tokio::test]
async fn what_may_have_been_done_is_not_sent_again_under_another_key() {
    let lost = [Status::unavailable("the connection broke"), Status::internal("h2 protocol error")];
    for lost in lost {
        let used = Err(Reason::KeyReused.status("It named something else."));
        let handovers = [Err(lost), used, Ok(handed_over())];
        let stage = Stage::set(Play { handovers: handovers.into(), ..Default::default() }).await;
        let (code, output) = stage.run(HANDOVER).await;
        assert_eq!(code, 4, "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("may or may not have taken effect"), "{said}");
        assert!(said.contains("(then: It named something else)"), "{said}");
        assert_eq!(stage.play(|play| play.keys.len()), 2);
    }
}

#[tokio::test]
async fn what_says_nothing_of_the_command_is_asked_again() {
    let strange = [
        Code::Internal,
        Code::NotFound,
        Code::AlreadyExists,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
    ];
    for code in strange {
        let handovers = [Err(Status::new(code, "a proxy")), Ok(handed_over())];
        let stage = Stage::set(Play { handovers: handovers.into(), ..Default::default() }).await;
        let (ended, output) = stage.run(HANDOVER).await;
        assert_eq!(ended, 0, "{code:?}: {output:?}");
        let keys = stage.play(|play| std::mem::take(&mut play.keys));
        assert!(keys.len() == 2 && keys[0] == keys[1], "{code:?}: {keys:?}");
    }
}

/// After an attempt whose outcome is unknown, only a response to the command itself settles it.
#[tokio::test]
async fn who_is_turned_away_later_does_not_know_what_became_of_it() {
    for (second, expected) in [
        (Err(Reason::Overloaded.status("Too much to do.")), 0),
        (Err(Reason::RightForbidden.status("You may not.")), 4),
        (Err(Status::permission_denied("a proxy")), 4),
        (Err(Reason::NotYourTurn.status("B holds turn 2 of `main`.")), 1),
    ] {
        let lost = Err(Status::unavailable("the connection broke"));
        let handovers = [lost, second, Ok(handed_over())];
        let stage = Stage::set(Play { handovers: handovers.into(), ..Default::default() }).await;
        let (code, output) = stage.run(HANDOVER).await;
        assert_eq!(code, expected, "{output:?}");
    }
    let full = Err(Reason::Overloaded.status("Too much to do."));
    let stage = Stage::set(Play { handovers: [full].into(), ..Default::default() }).await;
    assert_eq!(stage.run(HANDOVER).await.0, 1, "nothing was sent before");
}

#[tokio::test]
async fn what_was_typed_is_not_said_back_whole() {
    let long = "x".repeat(30_000);
    for more in [&["--json"][..], &[]] {
        let nobody = "http://127.0.0.1:1";
        let send = ["mail", "send", "--role", "A", "--broker", nobody, "--to", &long, "words"];
        for line in [&["completions", &long][..], &send] {
            let place = tempfile::tempdir().unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_tasuki"));
            command.args(line).args(more).env("TASUKI_DATA", place.path().join("d"));
            command.current_dir(place.path()).stdin(Stdio::null());
            let output = timeout(PATIENCE, command.output()).await.expect("it ends").unwrap();
            assert_eq!(output.status.code(), Some(2), "{} {more:?}", line[0]);
            let said = output.stdout.len() + output.stderr.len();
            assert!(said < 6_000, "{said} bytes of {}", line[0]);
        }
    }
}

#[tokio::test]
async fn a_command_nobody_answers_may_or_may_not_have_taken_effect() {
    let stage = Stage::set(Play::default()).await;
    let (code, output) = stage.run(&format!("{HANDOVER} --json")).await;
    assert_eq!(code, 4, "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["error"]["code"], "outcome_unknown");
    assert_eq!(said["error"]["maybe_applied"], true);
    assert!(said["error"]["message"].as_str().unwrap().contains("may or may not"));
}

#[tokio::test]
async fn a_refusal_is_final() {
    let refused = Err(Reason::NotYourTurn.status("B holds turn 2 of `main`."));
    let stage = Stage::set(Play { handovers: [refused].into(), ..Default::default() }).await;
    let (code, output) = stage.run(HANDOVER).await;
    assert_eq!(code, 1);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said, "error: B holds turn 2 of `main`. (not_your_turn)\n");
    assert_eq!(stage.play(|play| play.keys.len()), 1);
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_said_at_once() {
    let stage = Stage::set(Play::default()).await;
    let (code, output) = stage.run("loop status --broker http://127.0.0.1:1").await;
    assert_eq!(code, 2, "--broker twice: {output:?}");
    let (code, _) = Stage { url: "http://127.0.0.1:1".into(), ..stage }.run(HANDOVER).await;
    assert_eq!(code, 3);
}

#[tokio::test]
async fn start_opens_a_loop_that_is_not_there_and_a_round_of_one_that_is() {
    let stage = Stage::set(Play::default()).await;
    let (code, output) = stage.run("loop start review --participants A,B,C").await;
    assert_eq!(code, 0, "{output:?}");
    assert_eq!(stage.play(|play| play.created.clone()), [["A", "B", "C"]]);

    stage.play(|play| play.is_loop_there = true);
    let (code, output) = stage.run("loop start --participants A,B --instruction @@go").await;
    assert_eq!(code, 0, "{output:?}");
    let round = stage.play(|play| play.rounds[0].clone());
    assert_eq!((round.person.as_str(), round.instruction.as_str()), ("alice", "@go"));

    let (code, output) = stage.run("loop start --participants B,A --json").await;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((code, &said["error"]["code"]), (1, &"loop_exists".into()));
    assert_eq!(stage.play(|play| play.rounds.len()), 1);
}

#[tokio::test]
async fn a_history_that_is_over_before_what_was_asked_for_says_so() {
    let there = |entries| Play { is_loop_there: true, entries, ..Default::default() };
    for (entries, line, expected) in [
        (
            5,
            "loop history --from 999",
            "There is nothing from entry 999 on; the history has 5 entries.\n",
        ),
        (
            1,
            "loop history --from 2",
            "There is nothing from entry 2 on; the history has 1 entry.\n",
        ),
        (0, "loop history --from 2", "Nothing was handed over yet.\n"),
        (0, "loop history", "Nothing was handed over yet.\n"),
    ] {
        let (code, output) = Stage::set(there(entries)).await.run(line).await;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!((code, said.as_str()), (0, expected), "{line}: {output:?}");
    }
}

#[tokio::test]
async fn a_history_that_is_cut_says_how_to_see_more() {
    for (entries, line, shown, said) in [
        (
            26,
            "loop history",
            20,
            "The newest 20 of 26 entries are shown; `--limit 26` shows all.\n",
        ),
        (26, "loop history --limit 26", 26, ""),
        (5, "loop history --from 2 --limit 2", 2, "More follow; continue with `--from 4`.\n"),
        (5, "loop history --from 4 --limit 2", 2, ""),
        (0, "loop history", 0, ""),
    ] {
        let stage = Stage::set(Play { is_loop_there: true, entries, ..Default::default() }).await;
        let (code, output) = stage.run(&format!("{line} --json")).await;
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!((code, out.lines().count(), &*err), (0, shown, said), "{line}: {output:?}");
        let (_, output) = stage.run(line).await;
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(out.ends_with(said), "{line}: {out}");
        assert_eq!(out.contains("are shown") || out.contains("More follow"), !said.is_empty());
    }
}

#[tokio::test]
async fn a_configuration_with_a_problem_is_shown_all_the_same() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("tasuki.toml"), "hold = \"0s\"\nlease = \"20m\"\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tasuki"));
    command.args(["config", "check", "--data", "d"]).current_dir(place.path());
    let output = command.env("TASUKI_LISTEM", "x").output().await.unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(out.contains("20m") && out.contains("warning: TASUKI_LISTEM"), "{out}");
    assert!(err.contains("tasuki.toml:1: `hold` is 0"), "{err}");
}

/// Holds L4.
#[tokio::test]
async fn watch_resumes_after_the_last_sequence_it_saw() {
    let item = |sequence: u64| Ok(wire::FeedItem { sequence, ..Default::default() });
    let feeds = [
        vec![item(5), item(6), Err(Reason::Lagged.status("Too slow."))],
        vec![item(7), Err(Status::unavailable("the connection broke"))],
        vec![item(8)],
    ];
    let stage = Stage::set(Play { feeds: feeds.into(), ..Default::default() }).await;
    let mut watch = stage.command("watch --from 5 --json").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    for sequence in 5..=8_u64 {
        let line = timeout(PATIENCE, lines.next_line()).await.expect("a line comes in time");
        let seen: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
        assert_eq!(seen["sequence"], sequence);
    }
    assert_eq!(stage.play(|play| play.asked_from[..3].to_vec()), [5, 7, 8]);
}

#[tokio::test]
async fn watch_says_that_it_was_cut_off_and_what_was_missed() {
    let item = |sequence: u64| Ok(wire::FeedItem { sequence, at_ms: 1_000, ..Default::default() });
    let feeds =
        [vec![item(5), Err(Status::unavailable("the connection broke"))], vec![item(6), item(7)]];
    let stage = Stage::set(Play { feeds: feeds.into(), ..Default::default() }).await;
    let mut command = stage.command("watch --from 5");
    let mut watch = command.env("TZ", "UTC").stderr(Stdio::piped()).spawn().unwrap();
    let mut notes = BufReader::new(watch.stderr.take().unwrap()).lines();
    for expected in [
        "Connection lost: ",
        "Connected again after ",
        "Missed meanwhile: 2 changes since 1970-01-01 ",
    ] {
        // The second feed ends as well, which is said whenever it is noticed.
        loop {
            let line = timeout(PATIENCE, notes.next_line()).await.expect("a line comes in time");
            if line.unwrap().unwrap().contains(expected) {
                break;
            }
        }
    }
}
