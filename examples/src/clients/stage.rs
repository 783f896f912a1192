//! What stands around a client in one run: broker and node, the scripted model, and A, who
//! works from here.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use tasuki_proto::wire::{self, turn_loop_client::TurnLoopClient};
use tokio::time::{Instant, timeout};

use super::{
    client::{Client, Transport},
    connect::connect,
    home::Home,
    model::{Asked, Model},
    running::Running,
    script::{Heard, Move, ROLE, Told, done},
};
use crate::{Result, mcp::Agent, process::Process};

/// For a client to start and ask for its turn: some compile themselves first, several at once.
pub const START_WITHIN: Duration = Duration::from_secs(240);

/// For a turn to be played once it was handed over.
pub const TURN_WITHIN: Duration = Duration::from_secs(120);

/// Between two looks at the same state.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub struct Stage {
    pub home: Home,
    pub model: Model,
    node: Process,
    a: Agent,
    /// What A handed over and B had to hand over, in order: summaries.
    expected: Vec<String>,
}

impl Stage {
    /// Sets everything up, connects the client, and lets A begin.
    ///
    /// # Errors
    /// When something does not start, or the client cannot be connected.
    pub async fn set(
        client: Client,
        transport: Transport,
        folder: &Path,
        place: &Path,
    ) -> Result<Self> {
        let home = Home::new(folder, place)?;
        let model = Model::start(&folder.join("model")).await?;
        let mut up = home.tasuki()?;
        // The only leases here are those of agents that wait for hours.
        up.args(["up", "--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"]);
        up.args(["--lease", "8h"]).env("RUST_LOG", "info").stderr(home.log("node.log")?);
        let node = Process::start(up, "broker gRPC").await?;
        let url = node.url_of("MCP").ok_or("`tasuki up` did not say where it serves MCP")?;
        client.settle(&home, model.url())?;
        if let Some(command) = client.settling(&home, model.url()) {
            let mut settling = Running::start(command, &home)?;
            match settling.ended_within(START_WITHIN).await? {
                Some(status) if status.success() => {}
                ended => return Err(format!("it could not be set up: {ended:?}").into()),
            }
        }
        connect(client, transport, &home).await?;
        let a = Agent::connect(&format!("{url}/mcp/A"), "example").await?;
        let mut it = Self { home, model, node, a, expected: Vec::new() };
        it.a_gets_its_turn("").await?;
        Ok(it)
    }

    /// A waits for its turn, which has to come with this summary.
    ///
    /// # Errors
    /// When it comes with another, or not.
    async fn a_gets_its_turn(&mut self, summary: &str) -> Result<()> {
        let until = Instant::now() + TURN_WITHIN;
        while Instant::now() < until {
            let asked = json!({ "agent_id": "A", "timeout_sec": 20 });
            let told = self.a.call_until_answered("await_my_turn", &asked).await?.json()?;
            if told["can_start"] == true {
                let said = told["summary"].as_str().unwrap_or_default();
                let is_right = said == summary;
                return is_right
                    .then_some(())
                    .ok_or_else(|| format!("B was to say {summary:?} and said {said:?}").into());
            }
        }
        Err(format!("{ROLE} did not hand over within {TURN_WITHIN:?}").into())
    }

    /// A hands over to B, to do this.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn a_hands_over(&mut self, step: &str) -> Result<()> {
        self.hand_over(&format!("prepared {step}"), step, false).await?;
        self.expected.push(done(step));
        Ok(())
    }

    /// B plays the turn that A just handed over: once, and with the right words.
    ///
    /// # Errors
    /// When it does not.
    pub async fn b_plays(&mut self, step: &str) -> Result<()> {
        self.a_gets_its_turn(&done(step)).await
    }

    /// A ends the loop.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn a_completes(&mut self) -> Result<()> {
        self.hand_over("all of it", "nothing", true).await
    }

    async fn hand_over(&mut self, summary: &str, next: &str, is_complete: bool) -> Result<()> {
        self.expected.push(summary.to_owned());
        let handover = json!({
            "current_agent_id": "A",
            "work_summary": summary,
            "next_instruction": next,
            "is_task_complete": is_complete,
        });
        let said = self.a.call_until_answered("handover_work", &handover).await?;
        if said.is_error { Err(said.text.into()) } else { Ok(()) }
    }

    /// Until the client's call is parked at the broker.
    ///
    /// # Errors
    /// When it ends before, or does not call.
    pub async fn b_waits(&mut self, running: &mut Running) -> Result<()> {
        let until = Instant::now() + START_WITHIN;
        while Instant::now() < until {
            if let Some(status) = running.ended_within(LOOK_EVERY).await? {
                let asked = self.model.asked();
                let is_early = asked.borrow().last().is_some_and(|it| it.heard == Heard::Early);
                let why = if is_early { ": it had none of our tools" } else { "" };
                return Err(format!("it ended with {status} before it waited{why}").into());
            }
            let asked = self.model.asked();
            let is_called = asked.borrow().last().is_some_and(|it| it.answered == Move::Await);
            if is_called && self.is_b_parked().await? {
                return Ok(());
            }
        }
        Err(format!("it did not wait for its turn within {START_WITHIN:?}").into())
    }

    async fn is_b_parked(&mut self) -> Result<bool> {
        let asked = json!({ "agent_id": "A" });
        let status = self.a.call_until_answered("loop_status", &asked).await?;
        let waiting = &status.structured["waiting"];
        Ok(waiting.as_array().is_some_and(|all| all.contains(&Value::from(ROLE))))
    }

    /// Until the model was asked something that is so.
    ///
    /// # Errors
    /// When it is not within this time.
    pub async fn model_is_asked(
        &self,
        within: Duration,
        what: &str,
        is_so: impl Fn(&Asked) -> bool,
    ) -> Result<Asked> {
        let mut asked = self.model.asked();
        let came = timeout(within, asked.wait_for(|asked| asked.iter().any(&is_so))).await;
        let came =
            came.map_err(|_| format!("the model was not told {what} within {within:?}"))??;
        Ok(came.iter().find(|it| is_so(it)).ok_or("it is there")?.clone())
    }

    /// Until the model has ended its turn for the so-many-th time because its call goes on
    /// without it.
    ///
    /// # Errors
    /// When it does not within this time.
    pub async fn falls_idle(&self, times: usize, within: Duration) -> Result<()> {
        let is_idle = |it: &&Asked| {
            it.told == Some(Told::InBackground) && matches!(it.answered, Move::Say(_))
        };
        let mut asked = self.model.asked();
        let came = asked.wait_for(|asked| times <= asked.iter().filter(is_idle).count());
        let came = timeout(within, came).await;
        came.map_err(|_| format!("the client did not let its model rest within {within:?}"))??;
        Ok(())
    }

    /// Every handover is in the broker's history once, in order, and nothing else.
    ///
    /// # Errors
    /// When a turn was lost or played twice.
    pub async fn check_history(&self) -> Result<()> {
        let mut turns = TurnLoopClient::connect(self.node.url().to_owned()).await?;
        let history = turns.history(wire::HistoryRequest::default()).await?.into_inner();
        let said: Vec<&str> = history.entries.iter().map(|it| it.summary.as_str()).collect();
        if said == self.expected {
            Ok(())
        } else {
            Err(format!("the history is {said:?}, not {:?}", self.expected).into())
        }
    }

    /// Ends broker and node in good order.
    ///
    /// # Errors
    /// When they do not end well.
    pub async fn strike(self) -> Result<()> {
        self.node.stop().await
    }
}
