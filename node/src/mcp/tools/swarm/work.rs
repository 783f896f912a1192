//! What a worker does: registers, waits for a task, claims it, asks about it, submits it.
//!
//! An agent that began anew knows nothing of what its role has claimed, and its waits keep that: it
//! is told of it first ([`Unfinished`]).
//!
//! A question and a result are said first and waited for then; said again, by a call that comes
//! after `still_waiting` or after its node was started anew, they are the same at the broker.

use std::time::Duration;

use rmcp::model::{CallToolResponse, CallToolResult};
use serde::Serialize;
use serde_json::{Value, json};
use tasuki_proto::{
    reason::Reason,
    swarm::{SubmissionId, TaskMessageId},
    wire,
};
use tokio::time::timeout;

use super::{
    super::{
        arguments::{Arguments, invalid},
        result::shown,
        sanitizer::{FRAME, Sanitizer},
    },
    answer::answer,
    args,
    caller::Caller,
    list,
    views::{self, is_nothing},
};
use crate::role::{
    Refusal,
    swarm::{Awaited, IssuesIn},
};

/// Issues that one wait tells unless it is told otherwise, and at most.
const ISSUES_MAX: u32 = 50;

/// How long a wait looks for what its worker has claimed, in milliseconds.
const KNOWN_MS_MAX: u64 = 500;

/// Tasks that are named in one sentence.
const BEFORE_MAX: usize = 8;

/// Entries of an issue's history that are looked through for why a claim ended.
const HISTORY_LOOK: u32 = 64;

#[derive(Debug, Serialize)]
struct Registered {
    worker_id: String,
    joined_at: views::Time,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    claimed_before: Vec<Before>,
    next_actions: [String; 1],
}

pub(super) async fn register(caller: &Caller<'_>) -> Result<CallToolResult, Refusal> {
    let it = caller.tell(wire::RegisterWorkerRequest::default()).await?;
    // An agent registers when it begins: what it was granted before, it may know nothing of.
    if !caller.call.host.instances.is_shared(caller.role()) {
        it.claims.iter().for_each(|it| caller.ended(&claim_of(&it.issue_id, &it.task_id)));
    }
    let unfinished = Unfinished::of(caller, &it);
    Ok(shown(&Registered {
        worker_id: it.worker,
        joined_at: views::Time(it.joined_ms),
        next_actions: [match unfinished.is_empty() {
            true => "Call waitIssues or waitIssueTasks to find work.".to_owned(),
            false => unfinished.next(),
        }],
        claimed_before: unfinished.0,
    }))
}

/// Tasks that the worker has claimed and that wait for nobody but it. Of a role that several agents
/// play at once, none: they may be another's.
struct Unfinished(Vec<Before>);

#[derive(Debug, Clone, Serialize)]
struct Before {
    issue_id: String,
    task_id: String,
}

impl Unfinished {
    fn of(caller: &Caller<'_>, worker: &wire::Worker) -> Self {
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
    async fn known(caller: &Caller<'_>) -> Option<Self> {
        let worker = caller.role().to_string();
        let own = wire::ListWorkersRequest { worker, ..wire::ListWorkersRequest::default() };
        let asked = timeout(Duration::from_millis(KNOWN_MS_MAX), caller.ask(own)).await;
        let found = asked.ok()?.ok()?.workers.pop();
        Some(Self::of(caller, &found.unwrap_or_default()))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them was claimed by another agent of the role, or by this one before it
    /// began anew.
    fn is_news(&self, caller: &Caller<'_>) -> bool {
        self.0.iter().any(|it| caller.token(&claim_of(&it.issue_id, &it.task_id)) == 0)
    }

    fn next(&self) -> String {
        let told = |it: &Before| format!("{} of {}", it.task_id, it.issue_id);
        let all: Vec<String> = self.0.iter().take(BEFORE_MAX).map(told).collect();
        format!(
            "You have claimed {} and not submitted it. Call claimIssueTask for it again, which \
             returns its details, and continue.",
            all.join(", ")
        )
    }

    /// Says so beside what else is answered, and before it.
    fn remark(&self, result: &mut CallToolResult) {
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
        *result = shown(&facts);
    }
}

/// An answer to who waits for a task and has one.
#[derive(Debug, Serialize)]
struct Claims {
    status: &'static str,
    claimed_before: Vec<Before>,
    next_actions: [String; 1],
}

/// The role's id as a worker is its name; the call's own `worker_id` was judged already.
pub(super) async fn claim(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::ClaimTaskRequest {
        issue_id: args::issue(arguments)?.to_string(),
        task_id: args::required(arguments, args::TASK)?,
        next_step_token: arguments.name("next_step_token")?.unwrap_or_default(),
        ..wire::ClaimTaskRequest::default()
    };
    let answer = caller.tell(request).await?;
    let task = answer.task.unwrap_or_default();
    caller.granted(claim_of(&task.issue_id, &task.task_id), task.claim_token);
    Ok(shown(&Claimed::new(&task, answer.now_ms)))
}

/// What a claim's token is kept under.
pub(super) fn claim_of(issue: &str, task: &str) -> String {
    format!("{issue}/{task}")
}

#[derive(Debug, Serialize)]
struct Claimed {
    #[serde(flatten)]
    task: views::Task,
    server_now_ms: u64,
    note: &'static str,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
    next_actions: [&'static str; 3],
}

impl Claimed {
    fn new(task: &wire::Task, now_ms: u64) -> Self {
        let mut others = Sanitizer::default();
        Self {
            task: views::Task::new(task, &mut others),
            server_now_ms: now_ms,
            note: FRAME,
            stripped: others.stripped,
            next_actions: [
                "Lock the files with lockFiles before you edit them.",
                "If something is unclear, ask with askIssueTask.",
                "When it is done and tested, call submitIssueTask. Approval releases your locks \
                 for it.",
            ],
        }
    }
}

pub(super) async fn wait_issues(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResponse, Refusal> {
    let state = match args::word(arguments, args::STATUS)?.as_deref() {
        None | Some("open") => IssuesIn::Open,
        Some("done") => IssuesIn::Done,
        Some("canceled") => IssuesIn::Canceled,
        Some(_) => return Err(invalid(args::STATUS, &"must be open, done or canceled")),
    };
    let limit = match args::count(arguments, "limit")? {
        0 => ISSUES_MAX,
        limit => limit.min(ISSUES_MAX),
    };
    Ok(remarked(caller, caller.wait(Awaited::Issues { state, limit }, arguments).await?).await)
}

/// The end of a wait, with what the worker has claimed by then.
async fn remarked(caller: &Caller<'_>, mut waited: CallToolResponse) -> CallToolResponse {
    if let CallToolResponse::Complete(result) = &mut waited
        && let Some(unfinished) = Unfinished::known(caller).await
    {
        unfinished.remark(result);
    }
    waited
}

pub(super) async fn wait_tasks(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResponse, Refusal> {
    let status = arguments.name("status")?;
    if status.is_some_and(|it| it != "open") {
        return Err(Refusal {
            reason: Reason::InvalidArgument,
            message: "only status 'open' is supported; omit `status`.".to_owned(),
        });
    }
    let issue = args::issue(arguments)?;
    // One task is offered at a time, however many are asked for.
    args::count(arguments, "limit")?;
    let _playing = caller.playing()?;
    if let Some(unfinished) = Unfinished::known(caller).await
        && unfinished.is_news(caller)
    {
        let next = unfinished.next();
        let (status, claimed_before) = ("claimed_before", unfinished.0);
        let claims = Claims { status, claimed_before, next_actions: [next] };
        return Ok(CallToolResponse::Complete(shown(&claims)));
    }
    Ok(remarked(caller, caller.wait(Awaited::Tasks(issue), arguments).await?).await)
}

/// Which task of which issue a worker speaks of.
struct Of {
    issue: String,
    task: String,
}

impl Of {
    fn said(arguments: Arguments<'_>) -> Result<Self, Refusal> {
        let issue = args::issue(arguments)?.to_string();
        Ok(Self { issue, task: args::required(arguments, args::TASK)? })
    }

    fn token(&self, caller: &Caller<'_>) -> u64 {
        caller.token(&claim_of(&self.issue, &self.task))
    }

    /// A refusal because the claim is over, with what ended it: a call that comes late learns here
    /// what its wait would have told. One that nothing is known of, with how to find out.
    async fn with_why(&self, caller: &Caller<'_>, refusal: Refusal) -> Refusal {
        if refusal.reason == Reason::OutcomeUnknown {
            let message = format!("{} getIssueTask shows whether it took effect.", refusal.message);
            return Refusal { message, ..refusal };
        }
        let is_over = matches!(refusal.reason, Reason::NotClaimant | Reason::LeaseLost);
        if !is_over {
            return refusal;
        }
        let Some(why) = self.why_ended(caller).await else { return refusal };
        Refusal { message: format!("{}. Last event: {why}", refusal.message), ..refusal }
    }

    async fn why_ended(&self, caller: &Caller<'_>) -> Option<String> {
        let history = |after, limit| wire::GetHistoryRequest {
            issue_id: self.issue.clone(),
            after,
            limit,
            ..wire::GetHistoryRequest::default()
        };
        let total = caller.ask(history(0, 1)).await.ok()?.total;
        let newest = history(total.saturating_sub(HISTORY_LOOK.into()), HISTORY_LOOK);
        let newest = caller.ask(newest).await.ok()?.entries;
        let own = newest.iter().rev().filter(|it| it.task_id.is_empty() || it.task_id == self.task);
        own.filter_map(why).next()
    }
}

/// What an entry of an issue's history says about the end of a claim.
fn why(it: &wire::HistoryEntry) -> Option<String> {
    let what = match it.r#type.as_str() {
        "issue_task_reset" => "the task was reset",
        "issue_task_expired" => "the claim expired",
        "issue_task_resolved" => "the task was approved",
        "issue_closed" => "the issue was closed",
        "issue_expired" => "the issue expired",
        _ => return None,
    };
    let mut others = Sanitizer::default();
    // What lapses is nobody's doing; the role is whose claim it was.
    let is_done = !matches!(it.r#type.as_str(), "issue_task_expired" | "issue_expired");
    let by = [&it.role, &it.person].into_iter().find(|it| is_done && !it.is_empty());
    let by = by.map_or_else(String::new, |by| format!(" by {by}"));
    let is_said = matches!(it.r#type.as_str(), "issue_task_reset" | "issue_closed");
    let detail = others.line(&it.detail);
    let reason = match is_said && !detail.is_empty() {
        true => format!(", saying {detail:?}"),
        false => String::new(),
    };
    Some(format!("{what}{by}{reason}"))
}

pub(super) async fn extend(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let of = Of::said(arguments)?;
    let request = wire::RenewClaimRequest {
        issue_id: of.issue.clone(),
        task_id: of.task.clone(),
        claim_token: of.token(caller),
        for_ms: args::lasting(arguments, "extend_sec")?,
        ..wire::RenewClaimRequest::default()
    };
    let it = match caller.tell(request).await {
        Ok(it) => it,
        Err(refusal) => return Err(of.with_why(caller, refusal).await),
    };
    let mut others = Sanitizer::default();
    let task = views::Task::new(&it.task.unwrap_or_default(), &mut others);
    Ok(answer(task, it.now_ms, &others, Vec::new()))
}

pub(super) async fn submit(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResponse, Refusal> {
    let of = Of::said(arguments)?;
    let request = wire::SubmitTaskRequest {
        issue_id: of.issue.clone(),
        task_id: of.task.clone(),
        claim_token: of.token(caller),
        words: Some(artifacts(arguments)?),
        ..wire::SubmitTaskRequest::default()
    };
    let submitted = match caller.tell(request).await {
        Ok(it) => it.submission_id,
        Err(refusal) => return Err(of.with_why(caller, refusal).await),
    };
    let submission: SubmissionId = submitted.parse().map_err(|_| unreadable())?;
    caller.wait_for_stored(&submission, Awaited::Review(submission), arguments).await
}

/// The broker's id of what was taken cannot be read.
fn unreadable() -> Refusal {
    Refusal {
        reason: Reason::OutcomeUnknown,
        message: "It was accepted, but its id cannot be read from the answer. Call again with the \
                  same arguments. Nothing is stored twice."
            .to_owned(),
    }
}

fn artifacts(arguments: Arguments<'_>) -> Result<wire::SubmissionWords, Refusal> {
    let it = arguments
        .object("artifacts")?
        .ok_or_else(|| required("artifacts.summary", "describe your work in `artifacts`"))?;
    let said = |field: &str, what: &str| match it.text(field)? {
        Some(text) if !text.trim().is_empty() => Ok(text),
        Some(_) | None => Err(required(&it.at(field), what)),
    };
    let listed = |field: &str, what: &str| match it.texts(field)? {
        list if list.iter().all(|it| it.trim().is_empty()) => Err(required(&it.at(field), what)),
        list => Ok(list),
    };
    Ok(wire::SubmissionWords {
        summary: said("summary", "describe your work")?,
        changed_files: changed(listed("changed_files", "list them; `none` if there are none")?),
        diff: it.text("diff")?.unwrap_or_default(),
        links: it.texts("links")?,
        test_cases: listed("test_cases", "list what you tested")?,
        test_result: said("test_result", "give the test result")?,
        test_output: said("test_output", "give the end of the test output")?,
        rerun: args::rerun(it)?,
    })
}

/// No file is called `none` by whoever was asked to say so.
fn changed(named: Vec<String>) -> Vec<String> {
    if named == ["none"] { Vec::new() } else { named }
}

fn required(field: &str, what: &str) -> Refusal {
    Refusal {
        reason: Reason::InvalidArgument,
        message: format!("{field} is required: {what}. Nothing was submitted. Add it and retry."),
    }
}

/// A message to the lead as the call says it.
fn message(
    caller: &Caller<'_>,
    of: &Of,
    kind: &str,
    arguments: Arguments<'_>,
) -> Result<wire::PostMessageRequest, Refusal> {
    Ok(wire::PostMessageRequest {
        issue_id: of.issue.clone(),
        task_id: of.task.clone(),
        kind: kind.to_owned(),
        content: arguments.words("content", "say it")?,
        refs: args::refs(arguments)?,
        claim_token: of.token(caller),
        ..wire::PostMessageRequest::default()
    })
}

pub(super) async fn ask(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResponse, Refusal> {
    let of = Of::said(arguments)?;
    let kind = match args::word(arguments, "kind")? {
        None => "question".to_owned(),
        Some(kind) if matches!(kind.as_str(), "question" | "blocker") => kind,
        Some(_) => {
            let why = match caller.has(list::POST_MESSAGE) {
                true => "must be question or blocker; for anything else, use postIssueTaskMessage",
                false => "must be question or blocker",
            };
            return Err(invalid("kind", &why));
        }
    };
    let asked = match caller.tell(message(caller, &of, &kind, arguments)?).await {
        Ok(it) => it.message.unwrap_or_default().message_id,
        Err(refusal) => return Err(of.with_why(caller, refusal).await),
    };
    let message: TaskMessageId = asked.parse().map_err(|_| unreadable())?;
    caller.wait_for_stored(&message, Awaited::Reply(message), arguments).await
}

pub(super) async fn post(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let of = Of::said(arguments)?;
    let kind = args::word(arguments, "kind")?.unwrap_or_else(|| "message".to_owned());
    let it = match caller.tell(message(caller, &of, &kind, arguments)?).await {
        Ok(it) => it,
        Err(refusal) => return Err(of.with_why(caller, refusal).await),
    };
    let mut others = Sanitizer::default();
    let message = it.message.unwrap_or_default();
    let next = match message.kind.as_str() {
        "question" | "blocker" => {
            "The task is waiting for an answer: call askIssueTask with the same arguments to wait \
             for it."
        }
        _ => "Continue with the task; this needs no answer.",
    };
    let message = views::Message::new(&message, &mut others);
    Ok(answer(message, it.now_ms, &others, vec![next.to_owned()]))
}

#[cfg(test)]
mod tests {
    use rmcp::model::JsonObject;
    use serde_json::{Value, json};

    use super::*;

    fn read(artifacts: Value) -> Result<wire::SubmissionWords, String> {
        let mut fields = JsonObject::new();
        if !artifacts.is_null() {
            fields.insert("artifacts".to_owned(), artifacts);
        }
        super::artifacts(Arguments::new(&fields)).map_err(|refusal| refusal.message)
    }

    #[test]
    fn a_result_without_evidence_is_refused_by_what_is_missing() {
        let whole = json!({
            "summary": "done", "changed_files": ["a"], "test_cases": ["t"],
            "test_result": "passed", "test_output": "ok"
        });
        assert_eq!(read(whole.clone()).unwrap().rerun, None);
        for field in ["summary", "changed_files", "test_cases", "test_result", "test_output"] {
            for nothing in [Value::Null, json!(""), json!([])] {
                let mut less = whole.clone();
                less[field] = nothing;
                let why = read(less).unwrap_err();
                assert!(
                    why.starts_with(&format!("artifacts.{field} is required"))
                        || why.starts_with(&format!("`artifacts.{field}` must be")),
                    "{why}"
                );
            }
        }
        assert!(read(Value::Null).unwrap_err().starts_with("artifacts.summary is required"));
        assert!(read(json!("x")).unwrap_err().starts_with("`artifacts` must be an object"));
        let mut again = whole;
        again["commit"] = "ab".repeat(20).into();
        again["commands"] = json!(["make test"]);
        let rerun = read(again).unwrap().rerun.unwrap();
        assert_eq!((rerun.commit, rerun.commands), ("ab".repeat(20), vec!["make test".into()]));
    }

    #[test]
    fn what_ended_a_claim_is_told_from_the_history() {
        let entry = |kind: &str, detail: &str| wire::HistoryEntry {
            r#type: kind.to_owned(),
            role: "lead".to_owned(),
            detail: detail.to_owned(),
            ..wire::HistoryEntry::default()
        };
        let told = why(&entry("issue_task_reset", "wrong\nplan")).unwrap();
        assert_eq!(told, "the task was reset by lead, saying \"wrong plan\"");
        let lapsed = wire::HistoryEntry {
            r#type: "issue_task_expired".to_owned(),
            role: "w".to_owned(),
            ..wire::HistoryEntry::default()
        };
        assert_eq!(why(&lapsed).unwrap(), "the claim expired");
        assert_eq!(why(&entry("issue_task_claimed", "")), None);
    }
}
