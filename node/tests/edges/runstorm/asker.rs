//! Who asks for one run and waits for its end: over the broker, or with the tools of a node.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tasuki_proto::wire::{self, RunMode, RunStatus, run_question::Ask};
use tokio::sync::watch;
use tonic::{Code, Status};

use super::{LABEL, NODES, Trouble, World, plan};
use crate::{
    agents::{Agent, Broken, Transport},
    fake_agent::Runs,
    process::soon,
};

/// Longer than a test has patience.
const HOLD_MS: u64 = 15 * 60 * 1000;

pub(super) struct Asker {
    number: usize,
    /// Of the node that it is at.
    role: String,
    mcp: SocketAddr,
    data: std::path::PathBuf,
    runs: Runs,
    trouble: watch::Receiver<Trouble>,
}

impl Asker {
    pub(super) fn new(number: usize, world: &World) -> Self {
        let at = number % NODES;
        let node = &world.nodes[at];
        Self {
            number,
            role: format!("boss{at}"),
            mcp: node.mcp,
            data: node.data.clone(),
            runs: world.runs.clone(),
            trouble: world.trouble.subscribe(),
        }
    }

    /// Its number, its run, and how that ended.
    pub(super) async fn ask(self) -> (usize, String, RunStatus) {
        let run_id = self.start().await;
        let status = match self.number % 2 {
            0 => self.wait_at_broker(&run_id).await,
            _ => self.wait_at_node(&run_id).await,
        };
        (self.number, run_id, status)
    }

    /// Before something is said again.
    async fn again(&self) {
        let mut trouble = self.trouble.clone();
        soon(trouble.wait_for(|it| !it.is_under_way)).await.unwrap();
        tokio::task::yield_now().await;
    }

    async fn start(&self) -> String {
        let (mode, tasks) = plan(self.number);
        let step = |task: String| wire::NewStep {
            agent: "storm".to_owned(),
            runner: "fake".to_owned(),
            on: LABEL.to_owned(),
            task: Some(wire::RunText { text: task, sealed: None }),
            ..Default::default()
        };
        let concurrency = if mode == RunMode::Parallel { 2 } else { 0 };
        // Of its own, so that it counts for itself.
        let client_id = format!("asker-{}", self.number);
        let request = wire::StartRunRequest {
            key: Some(wire::IdempotencyKey { client_id, counter: 1 }),
            role: self.role.clone(),
            mode: mode.into(),
            steps: tasks.into_iter().map(step).collect(),
            concurrency,
            ..Default::default()
        };
        loop {
            match self.runs.client().start_run(request.clone()).await {
                Ok(started) => return started.into_inner().run.unwrap().run_id,
                Err(why) => check_is_away(&why),
            }
            self.again().await;
        }
    }

    async fn wait_at_broker(&self, run_id: &str) -> RunStatus {
        loop {
            let of = wire::RunEndQuestion { run_id: run_id.to_owned(), after: 0 };
            let question = wire::RunQuestion {
                role: self.role.clone(),
                hold_ms: HOLD_MS,
                ask: Some(Ask::Run(of)),
                ..Default::default()
            };
            match self.runs.client().await_run(question).await {
                Ok(answer) => {
                    let run = answer.into_inner().run.unwrap();
                    assert_eq!(run.run_id, run_id);
                    if run.status() != RunStatus::Running {
                        return run.status();
                    }
                }
                Err(why) => check_is_away(&why),
            }
            self.again().await;
        }
    }

    async fn wait_at_node(&self, run_id: &str) -> RunStatus {
        loop {
            let (role, data) = (&self.role, self.data.clone());
            let mut agent = Agent::new(Transport::Stateless, role, self.mcp, data).await;
            match agent.call("run_wait", json!({ "run": run_id })).await {
                Ok(told) if is_away(&told) => {}
                Ok(told) => {
                    assert!(told.to_string().contains(run_id), "{told}");
                    match self.runs.get(run_id).await {
                        Ok(run) if run.status() != RunStatus::Running => return run.status(),
                        Ok(_) => {}
                        Err(why) => check_is_away(&why),
                    }
                }
                Err(Broken(_)) => {}
            }
            self.again().await;
        }
    }
}

/// A refusal that says to ask again.
fn is_away(told: &Value) -> bool {
    let code = told["structuredContent"]["error"]["code"].as_str();
    code.is_some_and(|code| matches!(code, "unavailable" | "outcome_unknown"))
}

/// Nothing but a broker that is being killed is in the way.
fn check_is_away(why: &Status) {
    let is_away = matches!(why.code(), Code::Unavailable | Code::Unknown | Code::Cancelled);
    assert!(is_away || why.code() == Code::Internal, "{why}");
}
