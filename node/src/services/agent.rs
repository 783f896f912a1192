//! One sub-agent that a service runs: started, followed to its end, and asked once more where its
//! answer does not have the form that it is to have.
//!
//! A question that it asks whoever started it is answered at once: nobody is there to ask.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::Value;
use tasuki_proto::{
    id::RoleId,
    limits::{TEXT_BYTES_MAX, TOOL_RESULT_BYTES_MAX},
    reason::Reason,
    run::{RunId, StepId},
    schema::parse_output,
    wire::{self, RunStatus, StepFailure},
};
use tokio::{
    sync::{oneshot, watch},
    task::spawn_blocking,
};

use super::{
    error::ServiceError,
    steps::{check_result, tell_progress},
};
use crate::{
    gateway::Caller,
    link::retry::outcome_unknown,
    refusal::Refusal,
    runner::{
        discovery::Scope,
        modes::{Mode, Step},
    },
    runs::{
        agent_trust,
        client::{Follow, RunCaller, RunClient},
        convert::{joined, plain},
        host::RunsHost,
        output::Rest,
        plan::{Plan, RunRequest, nobody_runs, plan},
        view::RunView,
    },
    service_settings::AgentStep,
};

/// Of a first answer that is shown to its agent again.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// A part of a long output that is read at once.
const PART_BYTES: u32 = 512 * 1024;

/// What an agent is told that asks a question.
const NOBODY: &str = "Nobody can answer: you were started by a service, which has no user. Decide \
                      by yourself, and say in your answer what you assumed.";

/// What is to be run.
#[derive(Debug, Clone, Copy)]
pub(super) struct AgentTask<'a> {
    pub(super) role: &'a RoleId,
    pub(super) agent: &'a AgentStep,
    pub(super) prompt: &'a str,
    /// JSON Schema of its answer.
    pub(super) output: Option<&'a Value>,
    /// Of each run.
    pub(super) timeout: Duration,
}

/// An answer, and what is wrong with its form.
struct Answer {
    text: String,
    invalid: Option<String>,
}

/// Runs it, and once more where its answer does not match the schema.
pub(super) async fn run(
    runs: &Arc<RunsHost>,
    task: &AgentTask<'_>,
    caller: &dyn Caller,
) -> Result<Value, ServiceError> {
    let answer = run_once(runs, task, task.prompt, caller).await?;
    let Some(schema) = task.output else { return Ok(Value::String(answer.text)) };
    let first = match checked(schema, &answer).await {
        Ok(value) => return Ok(value),
        Err(why) => why,
    };
    tell_progress(caller, &format!("{} is asked again: {first}", task.agent.agent)).await;
    let again = repair_prompt(task.prompt, &answer.text, &first);
    let answer = run_once(runs, task, &again, caller).await?;
    let second = match checked(schema, &answer).await {
        Ok(value) => return Ok(value),
        Err(why) => why,
    };
    Err(ServiceError::InvalidOutput { first, second: Some(second) })
}

/// The value of an answer that matches, or what is wrong with it.
async fn checked(schema: &Value, answer: &Answer) -> Result<Value, String> {
    if let Some(why) = &answer.invalid {
        return Err(why.clone());
    }
    // A node elsewhere says so, and may be mistaken.
    let value = parse_output(&answer.text)?;
    check_result(schema, value).await
}

/// Begins with the whole task: the agent that answers is another process, which knows nothing.
fn repair_prompt(prompt: &str, answer: &str, why: &str) -> String {
    let shown = &answer[..answer.floor_char_boundary(ANSWER_BYTES_MAX)];
    let cut = if shown.len() < answer.len() { "\n(cut here)" } else { "" };
    let told = format!("\n\nA first answer to this was not accepted. {why}");
    let whole = format!(
        "{prompt}{told} It was:\n\n{shown}{cut}\n\nAnswer again, with JSON alone that matches the \
         schema."
    );
    if whole.len() <= TEXT_BYTES_MAX { whole } else { format!("{prompt}{told}") }
}

/// One run, from its start to its answer.
async fn run_once(
    runs: &Arc<RunsHost>,
    task: &AgentTask<'_>,
    prompt: &str,
    caller: &dyn Caller,
) -> Result<Answer, ServiceError> {
    let client = runs.client(RunCaller::Role(task.role.clone()));
    let offers = client.runners().await.map_err(unavailable)?.offers;
    let step = Step { agent: task.agent.agent.clone(), task: prompt.to_owned(), cwd: None };
    let (host, agent, schema) = (Arc::clone(runs), task.agent.clone(), task.output.cloned());
    let timeout = task.timeout;
    let planning =
        spawn_blocking(move || planned(&host, step, &agent, schema.as_ref(), timeout, &offers));
    let failed = |_| Err(ServiceError::Failed("The agent cannot be looked up.".to_owned()));
    let plan = planning.await.unwrap_or_else(failed)?;
    let started = start(&client, plan.request).await?;
    tell_progress(caller, &format!("run {} of {} began", started.id, task.agent.agent)).await;
    let run = follow(&client, started.id, caller).await;
    let run = run.ok_or_else(|| {
        let why = format!("The run {} is not known any more.", started.id);
        ServiceError::OutcomeUnknown(why)
    })?;
    let id = started.keep();
    read(runs, &client, id, run).await
}

/// Looks for the agent, the user's own first. Blocks on the disk.
fn planned(
    host: &RunsHost,
    step: Step,
    agent: &AgentStep,
    schema: Option<&Value>,
    timeout: Duration,
    offers: &[wire::RunnerOffer],
) -> Result<Plan, ServiceError> {
    let mut agents = host.own.agents(Scope::User, Path::new(""));
    if !agents.agents.contains_key(&step.agent) {
        let of_project = host.own.agents(Scope::Project, Path::new(""));
        // Whoever misspells a name is told all that there are.
        agents.agents.extend(of_project.agents);
    }
    let mode = Mode::Single(step);
    let request = RunRequest {
        mode: &mode,
        on: &agent.on,
        timeout: Some(timeout),
        output_schema: schema,
        runner: agent.runner.as_deref(),
        default_runner: &host.default_runner,
        model: agent.model.as_deref(),
        budget: wire::RunBudget::default(),
        concurrency: 0,
    };
    let plan = plan(&request, &agents).map_err(ServiceError::Failed)?;
    let untrusted = agent_trust::untrusted(plan.project_agents());
    if !untrusted.is_empty() {
        let refusal = agent_trust::refusal(&untrusted, str::to_owned);
        return Err(ServiceError::Unavailable(refusal.message));
    }
    match nobody_runs(&plan, offers, &host.own) {
        Some(why) => Err(ServiceError::Unavailable(why)),
        None => Ok(plan),
    }
}

/// A run that is canceled when this is dropped.
struct Started {
    id: RunId,
    client: RunClient,
    is_over: bool,
}

impl Started {
    fn keep(mut self) -> RunId {
        self.is_over = true;
        self.id
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (client, run) = (self.client.clone(), self.id);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(async move {
                if let Err(error) = client.cancel(run).await {
                    tracing::debug!(%run, %error, "a run of a service goes on");
                }
            }));
        }
    }
}

/// Starts a run. Where nobody waits for it any more it is canceled as soon as it is there.
async fn start(
    client: &RunClient,
    request: wire::StartRunRequest,
) -> Result<Started, ServiceError> {
    let client = client.clone();
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        let started = client.start(request, None).await.and_then(|it| {
            let unreadable = |_| outcome_unknown("the broker did not say which run it started");
            let id = it.run.unwrap_or_default().run_id.parse().map_err(unreadable)?;
            Ok(Started { id, client, is_over: false })
        });
        drop(tell.send(started));
    });
    let stopped = || outcome_unknown("the node stopped before the run was started");
    told.await.unwrap_or_else(|_| Err(stopped())).map_err(unavailable)
}

/// A run once it is over; `None`: it is not known any more.
async fn follow(client: &RunClient, run: RunId, caller: &dyn Caller) -> Option<wire::Run> {
    let (newest, mut changes) = watch::channel(wire::Run::default());
    let seen = |change: wire::WatchRunResponse| {
        if let Some(run) = change.run {
            newest.send_replace(run);
        }
        Follow::On
    };
    let handled = async {
        let mut answered = 0;
        let mut words = String::new();
        loop {
            let now = changes.borrow_and_update().clone();
            if !now.run_id.is_empty() && now.status() != RunStatus::Running {
                return Some(now);
            }
            for question in &now.open_questions {
                if answered < *question {
                    answered = *question;
                    if let Err(why) = client.reply(run, answered, NOBODY, None).await {
                        tracing::debug!(%run, %why, "a question in a service's run has no reply");
                    }
                }
            }
            let said = RunView { run: now, steps: Vec::new() }.progress();
            if said != words {
                tell_progress(caller, &said).await;
                words = said;
            }
            changes.changed().await.ok()?;
        }
    };
    tokio::select! {
        ended = handled => ended,
        () = client.follow(run, seen) => None,
    }
}

/// What came of a run that is over.
async fn read(
    runs: &RunsHost,
    client: &RunClient,
    id: RunId,
    run: wire::Run,
) -> Result<Answer, ServiceError> {
    let step = StepId { run: id, number: run.steps.first().map_or(1, |it| it.step) };
    let unread = |why: Refusal| {
        let text = format!("Run {id} has ended, and its answer cannot be read: {why}");
        ServiceError::Failed(text)
    };
    let words = client.step(step).await.map_err(unread)?;
    let status = run.status();
    let failure = run.steps.first().map_or(StepFailure::Unspecified, wire::RunStep::failure);
    let (text, total) = (joined(&words.output), run.steps.first().map_or(0, |it| it.output_bytes));
    match status {
        RunStatus::Succeeded => {
            let text = whole(runs, client, step, text, total).await?;
            Ok(Answer { text, invalid: None })
        }
        RunStatus::Failed if failure == StepFailure::OutputInvalid => {
            Ok(Answer { text, invalid: Some(plain(words.error.as_ref()).to_owned()) })
        }
        RunStatus::Running
        | RunStatus::Failed
        | RunStatus::Canceled
        | RunStatus::Lost
        | RunStatus::OutOfBudget
        | RunStatus::Unspecified => {
            let said = RunView { run, steps: vec![words] }.text();
            let said = format!("{said} (run {id})");
            Err(match status {
                RunStatus::Canceled => ServiceError::Canceled(said),
                RunStatus::Lost => ServiceError::OutcomeUnknown(said),
                RunStatus::Running
                | RunStatus::Succeeded
                | RunStatus::Failed
                | RunStatus::OutOfBudget
                | RunStatus::Unspecified => ServiceError::Failed(said),
            })
        }
    }
}

/// An answer of which the broker has the begin alone, with the rest.
async fn whole(
    runs: &RunsHost,
    client: &RunClient,
    step: StepId,
    begin: String,
    total: u64,
) -> Result<String, ServiceError> {
    if total <= begin.len() as u64 {
        return Ok(begin);
    }
    if TOOL_RESULT_BYTES_MAX as u64 <= total {
        return Err(ServiceError::Failed(format!(
            "The agent's answer has {total} bytes; the limit is {TOOL_RESULT_BYTES_MAX}."
        )));
    }
    let mut bytes = begin.into_bytes();
    let gone = || {
        let why = "The agent's answer is long, and the rest of it is on a node that is not there.";
        ServiceError::Failed(why.to_owned())
    };
    while (bytes.len() as u64) < total {
        let rest = runs.rest(client, step, bytes.len() as u64, PART_BYTES).await;
        match rest.map_err(|_| gone())? {
            Rest::Part(part) if bytes.len() + part.len() <= TOOL_RESULT_BYTES_MAX => {
                bytes.extend(part);
            }
            Rest::Part(_) | Rest::Gone | Rest::Away => return Err(gone()),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What the broker refused was not started, unless nobody knows.
fn unavailable(refusal: Refusal) -> ServiceError {
    if refusal.reason == Reason::OutcomeUnknown {
        return ServiceError::OutcomeUnknown(refusal.message);
    }
    ServiceError::Unavailable(refusal.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_asked_again_is_told_what_was_wrong_and_shown_its_answer() {
        let why = "The output is not JSON: expected value at line 1 column 1.";
        let again = repair_prompt("Plan this: x", "I think\n…", why);
        assert!(
            again
                .starts_with("Plan this: x\n\nA first answer to this was not accepted. The output")
        );
        assert!(again.contains("It was:\n\nI think\n…\n\nAnswer again"), "{again}");
        let long = repair_prompt("x", &"é".repeat(ANSWER_BYTES_MAX), why);
        assert!(long.contains("é\n(cut here)\n") && long.len() < ANSWER_BYTES_MAX + 1_000);
        let full = "x".repeat(TEXT_BYTES_MAX - 200);
        let again = repair_prompt(&full, &"y".repeat(1_000), why);
        assert!(again.len() <= TEXT_BYTES_MAX && again.ends_with(why));
    }
}
