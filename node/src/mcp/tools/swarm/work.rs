//! What a worker does: registers, waits for a task, claims it, asks about it, submits it.
//!
//! An agent that began anew knows nothing of what its role has claimed, and its waits keep that: it
//! is told of it first ([`unfinished`](super::unfinished)).
//!
//! A question and a result are said first and waited for then; said again, by a call that comes
//! after `still_waiting` or after its node was started anew, they are the same at the broker.

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    limits::REFS_BYTES_MAX,
    reason::Reason,
    swarm::{CommitHash, IssueId, SubmissionId, TaskMessageId},
    wire,
};

use super::{
    super::{
        arguments::invalid,
        field_types::{Id, Name, Text, Word},
        result::json_result,
        sanitizer::{FRAME, Sanitizer},
        tool::ToolInfo,
        view::is_nothing,
    },
    SwarmTool, WORKER_CORE, WORKER_FULL,
    answer::answer,
    args::{self, Lease, Timeout},
    caller::Caller,
    locks::changed_files,
    unfinished::{Before, Unfinished, with_unfinished},
    views,
};
use crate::{
    role::Refusal,
    wait::{Awaited, IssuesIn},
};

/// Issues that one wait tells unless it is told otherwise, and at most.
const ISSUES_MAX: u32 = 50;

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

/// Registers you as a worker. Returns your worker_id and your claims.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RegisterWorker {}

impl SwarmTool for RegisterWorker {
    const INFO: ToolInfo = ToolInfo::write("registerWorker", &[WORKER_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let it = caller.execute(wire::RegisterWorkerRequest::default()).await?;
        // An agent registers when it begins: what it was granted before, it may know nothing of.
        if !caller.call.host.instances.is_shared(caller.role()) {
            it.claims.iter().for_each(|it| caller.ended(&claim_key(&it.issue_id, &it.task_id)));
        }
        let unfinished = Unfinished::of(caller, &it);
        Ok(json_result(&Registered {
            worker_id: it.worker,
            joined_at: views::Time(it.joined_ms),
            next_actions: [match unfinished.is_empty() {
                true => "Call waitIssues or waitIssueTasks to find work.".to_owned(),
                false => unfinished.next(),
            }],
            claimed_before: unfinished.0,
        })
        .into())
    }
}

/// An answer to who waits for a task and has one.
#[derive(Debug, Serialize)]
struct Claims {
    status: &'static str,
    claimed_before: Vec<Before>,
    next_actions: [String; 1],
}

/// Claims an open task. No other worker can claim it while you hold it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ClaimTask {
    issue_id: Id<IssueId>,
    task_id: Name,
    /// From your last review. Claims the task reserved for you.
    next_step_token: Option<Name>,
}

impl SwarmTool for ClaimTask {
    const INFO: ToolInfo =
        ToolInfo::write("claimIssueTask", &[WORKER_CORE]).with_role(args::WORKER_ID);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::ClaimTaskRequest {
            issue_id: self.issue_id.0.to_string(),
            task_id: self.task_id.0,
            next_step_token: self.next_step_token.unwrap_or_default().0,
            ..wire::ClaimTaskRequest::default()
        };
        let answer = caller.execute(request).await?;
        let task = answer.task.unwrap_or_default();
        caller.granted(claim_key(&task.issue_id, &task.task_id), task.claim_token);
        Ok(json_result(&Claimed::new(&task, answer.now_ms)).into())
    }
}

/// What a claim's token is kept under.
pub(super) fn claim_key(issue: &str, task: &str) -> String {
    format!("{issue}/{task}")
}

#[derive(Debug, Serialize)]
struct Claimed {
    #[serde(flatten)]
    task: views::Task,
    server_now: views::Time,
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
            server_now: views::Time(now_ms),
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

/// Waits until an issue is open. Returns the issues.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct WaitIssues {
    /// open, done or canceled. Default open.
    status: Option<Word<IssuesIn>>,
    /// 1–50. Default 50.
    limit: Option<u32>,
    timeout_sec: Option<Timeout>,
}

impl SwarmTool for WaitIssues {
    const INFO: ToolInfo = ToolInfo::read("waitIssues", &[WORKER_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let state = self.status.map_or(IssuesIn::Open, |it| it.0);
        let limit = match self.limit.unwrap_or_default() {
            0 => ISSUES_MAX,
            limit => limit.min(ISSUES_MAX),
        };
        let waited = caller.wait(Awaited::Issues { state, limit }, self.timeout_sec).await?;
        Ok(with_unfinished(caller, waited).await)
    }
}

/// Waits until you can claim a task of the issue. Returns the task.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct WaitTasks {
    issue_id: Id<IssueId>,
    /// open.
    status: Option<Name>,
    /// Ignored: one task is returned at a time.
    #[expect(dead_code, reason = "prompts for other servers give it")]
    limit: Option<u32>,
    timeout_sec: Option<Timeout>,
}

impl SwarmTool for WaitTasks {
    const INFO: ToolInfo = ToolInfo::read("waitIssueTasks", &[WORKER_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        if self.status.is_some_and(|it| it.0 != "open") {
            return Err(Refusal {
                reason: Reason::InvalidArgument,
                message: "only status 'open' is supported; omit `status`.".to_owned(),
            });
        }
        let _playing = caller.enter()?;
        if let Some(unfinished) = Unfinished::known(caller).await
            && unfinished.is_news(caller)
        {
            let next = unfinished.next();
            let (status, claimed_before) = ("claimed_before", unfinished.0);
            let claims = Claims { status, claimed_before, next_actions: [next] };
            return Ok(json_result(&claims).into());
        }
        let waited = caller.wait(Awaited::Tasks(self.issue_id.0), self.timeout_sec).await?;
        Ok(with_unfinished(caller, waited).await)
    }
}

/// The claim that a worker's call rests on.
struct Claim {
    issue: String,
    task: String,
}

impl Claim {
    fn new(issue: Id<IssueId>, task: Name) -> Self {
        Self { issue: issue.0.to_string(), task: task.0 }
    }

    fn token(&self, caller: &Caller<'_>) -> u64 {
        caller.token(&claim_key(&self.issue, &self.task))
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
        let total = caller.query(history(0, 1)).await.ok()?.total;
        let newest = history(total.saturating_sub(HISTORY_LOOK.into()), HISTORY_LOOK);
        let newest = caller.query(newest).await.ok()?.entries;
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

/// Extends your claim. Claims renew by themselves while you are connected.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ExtendTask {
    issue_id: Id<IssueId>,
    task_id: Name,
    extend_sec: Option<Lease>,
}

impl SwarmTool for ExtendTask {
    const INFO: ToolInfo =
        ToolInfo::write("extendIssueTaskLease", &[WORKER_FULL]).with_role(args::WORKER_ID_OPTIONAL);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let claim = Claim::new(self.issue_id, self.task_id);
        let request = wire::RenewClaimRequest {
            issue_id: claim.issue.clone(),
            task_id: claim.task.clone(),
            claim_token: claim.token(caller),
            for_ms: Lease::ms(self.extend_sec),
            ..wire::RenewClaimRequest::default()
        };
        let it = match caller.execute(request).await {
            Ok(it) => it,
            Err(refusal) => return Err(claim.with_why(caller, refusal).await),
        };
        let mut others = Sanitizer::default();
        let task = views::Task::new(&it.task.unwrap_or_default(), &mut others);
        Ok(answer(task, it.now_ms, &others, Vec::new()).into())
    }
}

/// Submits your result for review and waits for the review. A repeat is not submitted twice.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct SubmitTask {
    issue_id: Id<IssueId>,
    task_id: Name,
    artifacts: Artifacts,
    #[schemars(skip)]
    timeout_sec: Option<Timeout>,
}

impl SwarmTool for SubmitTask {
    const INFO: ToolInfo =
        ToolInfo::write("submitIssueTask", &[WORKER_CORE]).with_role(args::WORKER_ID);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let claim = Claim::new(self.issue_id, self.task_id);
        let words = self.artifacts.into_wire()?;
        let request = wire::SubmitTaskRequest {
            issue_id: claim.issue.clone(),
            task_id: claim.task.clone(),
            claim_token: claim.token(caller),
            files: changed_files(caller, words.changed_files.clone()).await,
            words: Some(words),
            ..wire::SubmitTaskRequest::default()
        };
        let submitted = match caller.execute(request).await {
            Ok(it) => it.submission_id,
            Err(refusal) => return Err(claim.with_why(caller, refusal).await),
        };
        let submission: SubmissionId = submitted.parse().map_err(|_| unreadable())?;
        caller.wait_for_stored(&submission, Awaited::Review(submission), self.timeout_sec).await
    }
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

#[derive(Debug, Deserialize, JsonSchema)]
struct Artifacts {
    summary: Text,
    changed_files: Vec<String>,
    diff: Option<String>,
    links: Option<Vec<String>>,
    test_cases: Vec<String>,
    test_result: Text,
    test_output: Text,
    /// Full hash of the commit with the work.
    commit: Option<Id<CommitHash>>,
    /// Commands that repeat the tests at that commit.
    commands: Option<Vec<String>>,
}

impl Artifacts {
    fn into_wire(self) -> Result<wire::SubmissionWords, Refusal> {
        let listed = |field: &str, what: &str, list: Vec<String>| {
            let is_blank = list.iter().all(|it| it.trim().is_empty());
            if is_blank { Err(invalid(field, &format_args!("is empty: {what}"))) } else { Ok(list) }
        };
        let what = "list them; `none` if there are none";
        let changed_files = listed("artifacts.changed_files", what, self.changed_files)?;
        Ok(wire::SubmissionWords {
            summary: self.summary.0,
            changed_files: without_none(changed_files),
            diff: self.diff.unwrap_or_default(),
            links: self.links.unwrap_or_default(),
            test_cases: listed("artifacts.test_cases", "list what you tested", self.test_cases)?,
            test_result: self.test_result.0,
            test_output: self.test_output.0,
            rerun: args::rerun(self.commit, self.commands),
        })
    }
}

/// No file is called `none` by whoever was asked to say so.
fn without_none(named: Vec<String>) -> Vec<String> {
    if named == ["none"] { Vec::new() } else { named }
}

/// Sends the lead a message under a claim.
async fn post(
    caller: &Caller<'_>,
    claim: &Claim,
    kind: String,
    content: Text,
    refs: Option<Text<REFS_BYTES_MAX>>,
) -> Result<wire::MessageResponse, Refusal> {
    let request = wire::PostMessageRequest {
        issue_id: claim.issue.clone(),
        task_id: claim.task.clone(),
        kind,
        content: content.0,
        refs: refs.unwrap_or_default().0,
        claim_token: claim.token(caller),
        ..wire::PostMessageRequest::default()
    };
    match caller.execute(request).await {
        Ok(posted) => Ok(posted),
        Err(refusal) => Err(claim.with_why(caller, refusal).await),
    }
}

/// Asks the lead about your task and waits for the answer. A repeat is not asked twice.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AskTask {
    issue_id: Id<IssueId>,
    task_id: Name,
    /// question or blocker.
    kind: Option<Name>,
    content: Text,
    refs: Option<Text<REFS_BYTES_MAX>>,
    timeout_sec: Option<Timeout>,
}

impl SwarmTool for AskTask {
    const INFO: ToolInfo =
        ToolInfo::write("askIssueTask", &[WORKER_CORE]).with_role(args::WORKER_ID);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let claim = Claim::new(self.issue_id, self.task_id);
        let kind = match self.kind.map(|it| it.0.to_lowercase()) {
            None => "question".to_owned(),
            Some(kind) if matches!(kind.as_str(), "question" | "blocker") => kind,
            Some(_) => {
                let why = match caller.has("postIssueTaskMessage") {
                    true => {
                        "must be question or blocker; for anything else, use postIssueTaskMessage"
                    }
                    false => "must be question or blocker",
                };
                return Err(invalid("kind", &why));
            }
        };
        let asked = post(caller, &claim, kind, self.content, self.refs).await?;
        let asked = asked.message.unwrap_or_default().message_id;
        let message: TaskMessageId = asked.parse().map_err(|_| unreadable())?;
        caller.wait_for_stored(&message, Awaited::Reply(message), self.timeout_sec).await
    }
}

/// Sends the lead a message about your task. Does not wait.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct PostMessage {
    issue_id: Id<IssueId>,
    task_id: Name,
    /// progress, feedback, message, question or blocker.
    kind: Option<Name>,
    content: Text,
    refs: Option<Text<REFS_BYTES_MAX>>,
}

impl SwarmTool for PostMessage {
    const INFO: ToolInfo =
        ToolInfo::write("postIssueTaskMessage", &[WORKER_FULL]).with_role(args::WORKER_ID);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let claim = Claim::new(self.issue_id, self.task_id);
        let kind = self.kind.map_or_else(|| "message".to_owned(), |it| it.0.to_lowercase());
        let it = post(caller, &claim, kind, self.content, self.refs).await?;
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
        Ok(answer(message, it.now_ms, &others, vec![next.to_owned()]).into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::super::arguments, *};

    fn read(artifacts: Value) -> Result<wire::SubmissionWords, String> {
        let whole = json!({ "issue_id": "issue_1_0000", "task_id": "task-1",
            "artifacts": artifacts });
        let it: Result<SubmitTask, Refusal> = arguments::read_all(whole.as_object().unwrap());
        it.and_then(|it| it.artifacts.into_wire()).map_err(|refusal| refusal.message)
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
                assert!(why.starts_with(&format!("`artifacts.{field}` ")), "{why}");
                let ends = ["is missing", "is empty", "must be"];
                assert!(ends.iter().any(|it| why.contains(it)), "{why}");
            }
        }
        assert!(read(Value::Null).unwrap_err().starts_with("`artifacts` is missing"));
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
