//! A of the turn loop, who works from the stage: it hands over to the client, which plays B.

use serde_json::json;
use tasuki_proto::wire::{self, turn_loop_client::TurnLoopClient};
use tokio::time::Instant;

use super::{
    script::turns::{ROLE, done},
    stage::{DONE_WITHIN, Ground},
};
use crate::{Result, mcp::Agent};

#[derive(Debug)]
pub struct AgentA {
    agent: Agent,
    /// What A handed over and B had to hand over, in order: summaries.
    expected: Vec<String>,
}

impl AgentA {
    /// Begins the loop.
    ///
    /// # Errors
    /// When it is not A's turn.
    pub async fn begin(ground: &Ground) -> Result<Self> {
        let mut it = Self { agent: ground.agent("A").await?, expected: Vec::new() };
        it.gets_its_turn("").await?;
        Ok(it)
    }

    /// It waits for its turn, which has to come with this summary.
    async fn gets_its_turn(&mut self, summary: &str) -> Result<()> {
        let until = Instant::now() + DONE_WITHIN;
        while Instant::now() < until {
            let asked = json!({ "agent_id": "A", "timeout_sec": 20 });
            let told = self.agent.call_until_answered("await_my_turn", &asked).await?.json()?;
            if told["can_start"] == true {
                let said = told["summary"].as_str().unwrap_or_default();
                let is_right = said == summary;
                return is_right
                    .then_some(())
                    .ok_or_else(|| format!("B was to say {summary:?} and said {said:?}").into());
            }
        }
        Err(format!("{ROLE} did not hand over within {DONE_WITHIN:?}").into())
    }

    /// It hands over to B, to do this.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn hands_over(&mut self, step: &str) -> Result<()> {
        self.hand_over(&format!("prepared {step}"), step, false).await?;
        self.expected.push(done(step));
        Ok(())
    }

    /// B plays the turn that it was just handed: once, and with the right words.
    ///
    /// # Errors
    /// When it does not.
    pub async fn b_plays(&mut self, step: &str) -> Result<()> {
        self.gets_its_turn(&done(step)).await
    }

    /// It ends the loop.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn completes(&mut self) -> Result<()> {
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
        let said = self.agent.call_until_answered("handover_work", &handover).await?;
        if said.is_error { Err(said.text.into()) } else { Ok(()) }
    }

    /// Every handover is in the broker's history once, in order, and nothing else.
    ///
    /// # Errors
    /// When a turn was lost or played twice.
    pub async fn check_history(&self, ground: &Ground) -> Result<()> {
        let mut turns = TurnLoopClient::connect(ground.broker().to_owned()).await?;
        let history = turns.history(wire::HistoryRequest::default()).await?.into_inner();
        let said: Vec<&str> = history.entries.iter().map(|it| it.summary.as_str()).collect();
        if said == self.expected {
            Ok(())
        } else {
            Err(format!("the history is {said:?}, not {:?}", self.expected).into())
        }
    }
}
