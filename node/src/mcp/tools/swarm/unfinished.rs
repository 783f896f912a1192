//! What a worker has claimed and not submitted: an agent that began anew is told of it first.

use std::time::Duration;

use rmcp::model::{CallToolResponse, CallToolResult};
use serde::Serialize;
use serde_json::{Value, json};
use tasuki_proto::wire;
use tokio::time::timeout;

use super::{super::result::json_result, caller::Caller, work::claim_key};

/// How long a wait looks for what its worker has claimed, in milliseconds.
const KNOWN_MS_MAX: u64 = 500;

/// Tasks that are named in one sentence.
const BEFORE_MAX: usize = 8;

/// Tasks that the worker has claimed and that wait for nobody but it. Of a role that several agents
/// play at once, none: they may be another's.
pub(super) struct Unfinished(pub Vec<Before>);

#[derive(Debug, Clone, Serialize)]
pub(super) struct Before {
    issue_id: String,
    task_id: String,
}

impl Unfinished {
    pub(super) fn of(caller: &Caller<'_>, worker: &wire::Worker) -> Self {
        let is_shared = caller.call.host.instances.is_shared(caller.role());
        let claims = worker.claims.iter().filter(|_| !is_shared);
        let is_unfinished = |it: &&wire::ClaimedTask| it.stage() == wire::TaskStage::Working;
        let before = |it: &wire::ClaimedTask| Before {
            issue_id: it.issue_id.clone(),
            task_id: it.task_id.clone(),
        };
        Self(claims.filter(is_unfinished).map(before).collect())
    }

    /// `None` where the broker does not say so soon: a wait is held for as long as its client
    /// allows, and has no time left for it.
    pub(super) async fn known(caller: &Caller<'_>) -> Option<Self> {
        let worker = caller.role().to_string();
        let own = wire::ListWorkersRequest { worker, ..wire::ListWorkersRequest::default() };
        let asked = timeout(Duration::from_millis(KNOWN_MS_MAX), caller.query(own)).await;
        let found = asked.ok()?.ok()?.workers.pop();
        Some(Self::of(caller, &found.unwrap_or_default()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them was claimed by another agent of the role, or by this one before it
    /// began anew.
    pub(super) fn is_news(&self, caller: &Caller<'_>) -> bool {
        self.0.iter().any(|it| caller.token(&claim_key(&it.issue_id, &it.task_id)) == 0)
    }

    pub(super) fn next(&self) -> String {
        let told = |it: &Before| format!("{} of {}", it.task_id, it.issue_id);
        let all: Vec<String> = self.0.iter().take(BEFORE_MAX).map(told).collect();
        format!(
            "You have claimed {} and not submitted it. Call claimIssueTask for it again, which \
             returns its details, and continue.",
            all.join(", ")
        )
    }

    /// Says so beside what else is answered, and before it.
    fn add_to(&self, result: &mut CallToolResult) {
        let Some(Value::Object(facts)) = &mut result.structured_content else { return };
        if self.is_empty() {
            return;
        }
        let mut next = vec![Value::from(self.next())];
        let is_it =
            |own: &Before, it: &Value| own.task_id == it["id"] && own.issue_id == it["issue_id"];
        let is_other = |it: &Value| !self.0.iter().any(|own| is_it(own, it));
        let has_other = facts.get("status").is_none_or(|it| it != "still_waiting")
            && facts.get("tasks").and_then(|it| it.get(0)).is_none_or(is_other);
        if let Some(Value::Array(others)) = facts.remove("next_actions")
            && has_other
        {
            next.extend(others);
        }
        facts.insert("claimed_before".to_owned(), json!(self.0));
        facts.insert("next_actions".to_owned(), next.into());
        *result = json_result(&facts);
    }
}

/// The end of a wait, with what the worker has claimed by then.
pub(super) async fn with_unfinished(
    caller: &Caller<'_>,
    mut waited: CallToolResponse,
) -> CallToolResponse {
    if let CallToolResponse::Complete(result) = &mut waited
        && let Some(unfinished) = Unfinished::known(caller).await
    {
        unfinished.add_to(result);
    }
    waited
}
