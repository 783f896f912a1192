//! The lead of an issue, who works from the stage: it gives tasks to the client, which plays a
//! worker, and judges what it submits.

use serde_json::{Value, json};
use tasuki_proto::wire::{self, swarm_client::SwarmClient};
use tokio::time::Instant;

use super::{
    script::work::ROLE,
    stage::{DONE_WITHIN, Ground},
};
use crate::{Result, mcp::Agent};

/// What has to be in an issue's history after one play: what happened, to which task, by whom.
type Entry<'a> = (&'a str, &'a str, &'a str);

#[derive(Debug)]
pub struct Lead {
    agent: Agent,
    issue: String,
}

impl Lead {
    /// Opens an issue, without tasks.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn begin(ground: &Ground) -> Result<Self> {
        let mut it = Self { agent: ground.agent("lead").await?, issue: String::new() };
        let opened = it.tell(
            "createIssue",
            json!({
                "subject": "Some files are missing",
                "user_issue_doc": { "name": "user.md", "content": "They should be there." },
                "lead_issue_doc": { "name": "lead.md", "content": "Each is a task." },
            }),
        );
        it.issue = opened.await?["id"].as_str().ok_or("an issue without an id")?.to_owned();
        Ok(it)
    }

    pub fn issue(&self) -> &str {
        &self.issue
    }

    async fn tell(&mut self, tool: &str, mut arguments: Value) -> Result<Value> {
        if !self.issue.is_empty() {
            arguments["issue_id"] = self.issue.as_str().into();
        }
        self.agent.call_until_answered(tool, &arguments).await?.json()
    }

    /// Adds a task: to write this file.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn adds(&mut self, file: &str) -> Result<()> {
        let spec = json!({
            "name": file, "split_from": "the issue", "split_reason": "it stands alone",
            "impact_scope": file, "goal": "it is there", "rules": "none", "constraints": "none",
            "conventions": "none", "acceptance": "it is there",
        });
        let task = json!({ "subject": file, "difficulty": "easy", "points": 3, "spec": spec });
        self.tell("createIssueTask", task).await.map(drop)
    }

    /// Waits for what the worker submits next, which has to be this.
    ///
    /// # Errors
    /// When it is another, or does not come.
    pub async fn is_shown(&mut self, task: &str, summary: &str) -> Result<()> {
        let until = Instant::now() + DONE_WITHIN;
        while Instant::now() < until {
            let told = self.tell("waitIssueTaskEvents", json!({ "timeout_sec": 20 })).await?;
            if told["status"] == "still_waiting" {
                continue;
            }
            let item = &told["item"];
            let submission = &item["submission"];
            let is_right = item["task_id"] == task
                && submission["worker_id"] == ROLE
                && submission["artifacts"]["summary"] == summary;
            return is_right
                .then_some(())
                .ok_or_else(|| format!("{summary:?} was to be submitted, and {told} was").into());
        }
        Err(format!("{ROLE} submitted nothing within {DONE_WITHIN:?}").into())
    }

    /// What the worker does after this task: a token, and the task it keeps if there is one.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn next_step(&mut self, task: &str) -> Result<(String, Option<String>)> {
        let asked = json!({ "task_id": task, "worker_id": ROLE, "completion_score": 5 });
        let told = self.tell("getNextStepToken", asked).await?;
        let token = told["next_step_token"].as_str().ok_or("a next step without a token")?;
        let next = told["next_step"]["task_id"].as_str().map(str::to_owned);
        Ok((token.to_owned(), next))
    }

    /// # Errors
    /// When it is refused.
    pub async fn approves(&mut self, task: &str, next_step_token: &str) -> Result<()> {
        let mut verdict = verdict(task, "approved", "Good.");
        verdict["next_step_token"] = next_step_token.into();
        self.tell("reviewIssueTask", verdict).await.map(drop)
    }

    /// # Errors
    /// When it is refused.
    pub async fn rejects(&mut self, task: &str, feedback: &str) -> Result<()> {
        self.tell("reviewIssueTask", verdict(task, "rejected", feedback)).await.map(drop)
    }

    /// # Errors
    /// When it is refused.
    pub async fn closes(&mut self) -> Result<()> {
        let why = json!({ "summary": "There is nobody to accept it." });
        self.tell("closeIssue", why).await.map(drop)
    }

    /// The worker has this file locked, and no other.
    ///
    /// # Errors
    /// When it has not.
    pub async fn check_lock(&self, ground: &Ground, file: &str) -> Result<()> {
        let mut broker = SwarmClient::connect(ground.broker().to_owned()).await?;
        let of = wire::ListLocksRequest { holder: ROLE.to_owned(), ..Default::default() };
        let locks = broker.list_locks(of).await?.into_inner().locks;
        let locked: Vec<&str> = locks
            .iter()
            .flat_map(|it| it.files.as_ref().map_or(&[][..], |files| &files.patterns))
            .map(String::as_str)
            .collect();
        if locked == [file] { Ok(()) } else { Err(format!("{locked:?} is locked").into()) }
    }

    /// This happened to the issue, in this order, and nothing else.
    ///
    /// # Errors
    /// When a task was lost or done twice.
    pub async fn check_history(&self, ground: &Ground, expected: &[Entry<'_>]) -> Result<()> {
        let mut broker = SwarmClient::connect(ground.broker().to_owned()).await?;
        let of = wire::GetHistoryRequest { issue_id: self.issue.clone(), ..Default::default() };
        let history = broker.get_history(of).await?.into_inner().entries;
        let happened: Vec<Entry<'_>> = history
            .iter()
            .map(|it| (it.r#type.as_str(), it.task_id.as_str(), it.role.as_str()))
            .collect();
        let count = happened.len().max(expected.len());
        match (0..count).find(|at| happened.get(*at) != expected.get(*at)) {
            None => Ok(()),
            Some(at) => {
                let (is, was_to_be) = (happened.get(at), expected.get(at));
                Err(format!("entry {at} of the history is {is:?}, not {was_to_be:?}").into())
            }
        }
    }
}

fn verdict(task: &str, verdict: &str, feedback: &str) -> Value {
    let detail = json!({ "dimension": "docs", "severity": "minor", "content": feedback });
    json!({
        "task_id": task,
        "verdict": verdict,
        "completion_score": 5,
        "feedback": feedback,
        "feedback_details": [detail],
        "artifacts": { "review_summary": feedback, "reviewed_refs": [task] },
    })
}
