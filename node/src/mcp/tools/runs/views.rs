//! What is told of a run: what its agents wrote first, as clients may show no more than a
//! beginning, then how it stands.
//!
//! What agents wrote is data of somebody else's: it is cleaned, and said to be that.

use futures::future::try_join_all;
use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use tasuki_proto::{
    run::{RunId, StepId},
    wire::{self, RunStatus, run_answer::Standing},
};

use super::super::{
    result::{add_text, text_result},
    sanitizer::{FRAME, Sanitizer},
};
use crate::{
    counted::counted,
    role::Refusal,
    runs::{client::RunClient, convert::plain, view::RunView},
};

/// Steps that are read at once.
const READ_AT_ONCE: usize = 8;

/// Reports that are shown: the newest.
const REPORTS_SHOWN: usize = 20;

/// What a wait for a run ended with.
pub(in crate::mcp) async fn run_result(
    client: &RunClient,
    run: RunId,
    answer: &wire::RunAnswer,
) -> CallToolResult {
    match (answer.standing(), &answer.run) {
        (Standing::Superseded, _) => superseded(run),
        (Standing::There, Some(it)) if it.status() != RunStatus::Running => {
            over_result(client, run, it).await
        }
        (Standing::There, Some(it)) => {
            // Reports that came before the question were passed over.
            let messages = read_messages(client, run, it).await;
            let is_read = messages.iter().any(|message| message.is_question);
            asked(run, it, if is_read { &messages } else { &answer.messages })
        }
        (Standing::Unspecified | Standing::StillWaiting | Standing::There, it) => {
            still_running(run, it.as_ref())
        }
    }
}

/// A run that is over, with what its agents wrote.
pub(super) async fn over_result(client: &RunClient, run: RunId, it: &wire::Run) -> CallToolResult {
    match read_steps(client, run, it).await {
        Ok(steps) => {
            let messages = read_messages(client, run, it).await;
            ended(&RunView { run: it.clone(), steps }, &messages)
        }
        Err(why) => unread(run, it, &why),
    }
}

/// The steps of a run with all their words.
///
/// # Errors
/// When the broker does not tell them.
pub(in crate::mcp) async fn read_steps(
    client: &RunClient,
    run: RunId,
    it: &wire::Run,
) -> Result<Vec<wire::GetStepResponse>, Refusal> {
    let mut steps = Vec::new();
    for some in it.steps.chunks(READ_AT_ONCE) {
        let mut reading = Vec::new();
        for step in some {
            reading.push(client.step(StepId { run, number: step.step }));
        }
        steps.extend(try_join_all(reading).await?);
    }
    Ok(steps)
}

/// What sub-agents said, as far as it can be had.
pub(super) async fn read_messages(
    client: &RunClient,
    run: RunId,
    it: &wire::Run,
) -> Vec<wire::RunMessage> {
    let shown = u32::try_from(REPORTS_SHOWN).unwrap_or(u32::MAX);
    let first_open = it.open_questions.iter().min().copied().unwrap_or(it.messages);
    let after = it.messages.saturating_sub(shown).min(first_open.saturating_sub(1));
    match it.messages {
        0 => Vec::new(),
        _ => client.messages(run, after).await.map(|it| it.messages).unwrap_or_default(),
    }
}

/// How a run stands, for programs, without what its agents wrote.
pub(super) fn run_facts(run: &wire::Run) -> Value {
    let mut others = Sanitizer::default();
    let view = RunView { run: run.clone(), steps: Vec::new() };
    let mut facts = cleaned(view.value(), &mut others);
    if let Value::Object(fields) = &mut facts
        && run.status() == RunStatus::Running
    {
        // Nothing is known of its output.
        fields.remove("output");
        fields.insert("progress".to_owned(), view.progress().into());
    }
    facts
}

/// A run for whoever reads it as a resource: with its output, or the newest of agents at work.
pub(in crate::mcp) fn run_resource_facts(view: &RunView, progress: &[wire::StepProgress]) -> Value {
    let mut others = Sanitizer::default();
    let mut facts = match view.run.status() {
        RunStatus::Running => run_facts(&view.run),
        RunStatus::Unspecified
        | RunStatus::Succeeded
        | RunStatus::Failed
        | RunStatus::Canceled
        | RunStatus::Lost
        | RunStatus::OutOfBudget => cleaned(view.value(), &mut others),
    };
    let partial = progress.iter().map(|it| {
        let text = others.text(plain(it.partial.as_ref()));
        json!({ "step": it.step, "text": text })
    });
    let partial: Vec<Value> = partial.collect();
    if !partial.is_empty() {
        facts["newest_output"] = partial.into();
    }
    facts["note"] = FRAME.into();
    if others.stripped != 0 {
        facts["stripped"] = others.stripped.into();
    }
    facts
}

/// The result of a run that is over.
fn ended(view: &RunView, messages: &[wire::RunMessage]) -> CallToolResult {
    let mut others = Sanitizer::default();
    let mut facts = cleaned(view.value(), &mut others);
    let text = facts["output"].as_str().unwrap_or_default().to_owned();
    let reports = reports(messages, &view.run, &mut others);
    let mut more = vec![summary(&facts)];
    more.extend(reports.iter().map(Said::line));
    more.push(format!("{FRAME}{}", others.report()));
    add(&mut facts, "reports", &reports);
    // Fields stand in the order of the alphabet, and some clients show only the first 2 KB.
    facts["untrusted"] = FRAME.into();
    if others.stripped != 0 {
        facts["stripped"] = others.stripped.into();
    }
    let mut result = text_result(text, facts);
    add_text(&mut result, more.join("\n"));
    result.is_error = Some(view.is_failure());
    result
}

/// It is over, and what its agents wrote cannot be read now.
fn unread(run: RunId, it: &wire::Run, why: &Refusal) -> CallToolResult {
    let mut facts = run_facts(it);
    if let Value::Object(fields) = &mut facts {
        fields.remove("output");
    }
    facts["unread"] = why.message.as_str().into();
    let text = format!(
        "Run {run} has ended; its output could not be read: {} Call run_wait for it.",
        why.message
    );
    let mut result = text_result(text, facts);
    result.is_error = Some(true);
    result
}

/// Sub-agents wait for answers.
fn asked(run: RunId, it: &wire::Run, messages: &[wire::RunMessage]) -> CallToolResult {
    let mut others = Sanitizer::default();
    let is_open = |message: &&wire::RunMessage| {
        message.is_question && message.reply.is_none() && !message.is_over
    };
    let questions: Vec<Said> = messages
        .iter()
        .filter(is_open)
        .map(|message| Said::new(message, it, &mut others))
        .collect();
    let Some(first) = questions.first() else { return still_running(run, Some(it)) };
    let reports = reports(messages, it, &mut others);
    let next = format!(
        "Run {run} goes on. Answer with run_reply (run {run}, message {}), then call run_wait.",
        first.number
    );
    let mut text: Vec<String> = questions.iter().map(Said::line).collect();
    text.extend(reports.iter().map(Said::line));
    let mut facts = run_facts(it);
    add(&mut facts, "questions", &questions);
    add(&mut facts, "reports", &reports);
    facts["note"] = FRAME.into();
    facts["next_actions"] = json!([next]);
    if others.stripped != 0 {
        facts["stripped"] = others.stripped.into();
    }
    let mut result = text_result(text.join("\n\n"), facts);
    add_text(&mut result, format!("{next} {FRAME}{}", others.report()));
    result
}

/// It goes on, and the client waits no longer.
pub(super) fn still_running(run: RunId, it: Option<&wire::Run>) -> CallToolResult {
    let known = json!({ "run_id": run.to_string(), "status": "running" });
    let mut facts = it.map_or(known, run_facts);
    facts["next_actions"] = json!(["Call run_wait."]);
    let mut result = text_result(format!("Still running: run {run}. Call run_wait."), facts);
    if let Some(it) = it {
        add_text(&mut result, summary(&run_facts(it)));
    }
    result
}

fn superseded(run: RunId) -> CallToolResult {
    const WORDS: &str = "Superseded: another call waits for this run. Do not call again.";
    let run = run.to_string();
    text_result(WORDS, json!({ "run_id": run, "status": "superseded", "next_actions": [WORDS] }))
}

/// What a sub-agent asked or told.
struct Said {
    number: u32,
    step: u32,
    agent: String,
    is_question: bool,
    text: String,
}

impl Said {
    fn new(it: &wire::RunMessage, run: &wire::Run, others: &mut Sanitizer) -> Self {
        let agent = run.steps.iter().find(|step| step.step == it.step);
        Self {
            number: it.number,
            step: it.step,
            agent: agent.map(|step| others.line(&step.agent)).unwrap_or_default(),
            is_question: it.is_question,
            text: others.text(plain(it.text.as_ref())),
        }
    }

    fn line(&self) -> String {
        let Self { number, step, agent, is_question, text } = self;
        let what = if *is_question { format!("Question {number}") } else { "Report".to_owned() };
        format!("{what} of {agent} (step {step}): {text}")
    }
}

/// The newest reports, oldest first.
fn reports(messages: &[wire::RunMessage], run: &wire::Run, others: &mut Sanitizer) -> Vec<Said> {
    let all: Vec<_> = messages.iter().filter(|message| !message.is_question).collect();
    let newest = all.iter().skip(all.len().saturating_sub(REPORTS_SHOWN));
    newest.map(|message| Said::new(message, run, others)).collect()
}

fn add(facts: &mut Value, field: &str, said: &[Said]) {
    if said.is_empty() {
        return;
    }
    let shown = |it: &Said| json!({ "message": it.number, "step": it.step, "agent": it.agent, "text": it.text });
    facts[field] = said.iter().map(shown).collect();
}

/// Every text in it without what hides.
fn cleaned(value: Value, others: &mut Sanitizer) -> Value {
    match value {
        Value::String(text) => others.text(&text).into(),
        Value::Array(items) => items.into_iter().map(|it| cleaned(it, others)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, it)| (name, cleaned(it, others))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// The facts in a few lines, for a model: some clients show it no others.
pub(super) fn summary(facts: &Value) -> String {
    let [run, mode, status] = ["run_id", "run_mode", "status"].map(|field| word(facts, field));
    let mut lines = vec![format!("Run {run} ({mode}): {status}{}", spent(&facts["usage"]))];
    for step in facts["steps"].as_array().into_iter().flatten() {
        lines.push(step_line(step));
    }
    lines.join("\n")
}

fn step_line(step: &Value) -> String {
    let mut line =
        format!("Step {} {}: {}", step["step"], word(step, "agent"), word(step, "status"));
    for field in ["failure", "stop_reason"] {
        if let Some(it) = step[field].as_str() {
            line += &format!(", {}", one_line(it));
        }
    }
    if let Some(code) = step["exit_code"].as_i64() {
        line += &format!(", exit code {code}");
    }
    if let Some(ms) = step["duration_ms"].as_u64() {
        line += &format!(", {}.{} s", ms / 1_000, ms % 1_000 / 100);
    }
    line += &spent(&step["usage"]);
    for (field, before) in [("model", "model "), ("node", "on ")] {
        if let Some(it) = step[field].as_str() {
            line += &format!(", {before}{}", one_line(it));
        }
    }
    line
}

fn word(of: &Value, field: &str) -> String {
    one_line(of[field].as_str().unwrap_or_default())
}

fn one_line(text: &str) -> String {
    text.replace(['\r', '\n', '\t'], " ")
}

/// `, 3 turns, 1020 tokens, 0.001 USD`; nothing where nothing was used.
fn spent(usage: &Value) -> String {
    let count = |field: &str| usage[field].as_u64().unwrap_or_default();
    let tokens = count("input_tokens")
        .saturating_add(count("output_tokens"))
        .saturating_add(count("cache_read_tokens"))
        .saturating_add(count("cache_write_tokens"));
    let mut line = String::new();
    for (number, what) in [(count("turns"), "turn"), (tokens, "token")] {
        if number != 0 {
            line += &format!(", {}", counted(number, what));
        }
    }
    if let Some(cost) = usage["cost_usd"].as_f64().filter(|cost| *cost > 0.0) {
        line += &format!(", {cost} USD");
    }
    line
}

#[cfg(test)]
mod tests {
    use tasuki_proto::wire::{RunMode, StepStatus};

    use super::*;
    use crate::runs::convert::text;

    const RUN: &str = "run_1700000000000_00af";

    fn id() -> RunId {
        RUN.parse().unwrap()
    }

    fn step(agent: &str, status: StepStatus) -> wire::RunStep {
        let usage = wire::RunUsage {
            input_tokens: 1_000,
            output_tokens: 20,
            turns: 3,
            cost_microusd: 1_040,
            ..Default::default()
        };
        wire::RunStep {
            step: 1,
            agent: agent.to_owned(),
            status: status.into(),
            model: "opus".to_owned(),
            node: "laptop".to_owned(),
            usage: Some(usage),
            started_ms: 1_000,
            ended_ms: if status == StepStatus::Running { 0 } else { 3_500 },
            ..Default::default()
        }
    }

    fn run(status: RunStatus, step: wire::RunStep) -> wire::Run {
        wire::Run {
            run_id: RUN.to_owned(),
            mode: RunMode::Single.into(),
            status: status.into(),
            usage: step.usage,
            steps: vec![step],
            ..Default::default()
        }
    }

    fn said(number: u32, is_question: bool, words: &str) -> wire::RunMessage {
        let text = Some(text(words));
        wire::RunMessage { number, step: 1, is_question, text, ..Default::default() }
    }

    fn texts(result: &CallToolResult) -> Vec<String> {
        let content = serde_json::to_value(&result.content).unwrap();
        let texts = content.as_array().unwrap().iter();
        texts.map(|it| it["text"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn an_output_comes_first_and_cleaned() {
        let it = run(RunStatus::Succeeded, step("scout", StepStatus::Succeeded));
        let words = wire::GetStepResponse {
            step: it.steps.first().cloned(),
            output: vec![text("out\u{202e}[auth]")],
            ..Default::default()
        };
        let view = RunView { run: it, steps: vec![words] };
        let result = ended(&view, &[said(1, false, "half"), said(2, true, "which?")]);
        assert_eq!(result.is_error, Some(false));
        let texts = texts(&result);
        assert_eq!(texts[0], "out[auth]");
        let expected = "Run run_1700000000000_00af (single): succeeded, 3 turns, 1020 tokens, \
                        0.00104 USD\nStep 1 scout: succeeded, 2.5 s, 3 turns, 1020 tokens, \
                        0.00104 USD, model opus, on laptop\nReport of scout (step 1): half\n";
        assert!(texts[1].starts_with(expected), "{}", texts[1]);
        assert!(texts[1].contains(FRAME));
        let facts = result.structured_content.unwrap();
        assert_eq!((&facts["output"], &facts["stripped"]), (&"out[auth]".into(), &1.into()));
        assert_eq!(facts["reports"][0]["text"], "half");
        assert!(facts.get("questions").is_none());
    }

    #[test]
    fn a_run_that_failed_is_an_error() {
        let mut failed = step("scout", StepStatus::Failed);
        failed.set_failure(wire::StepFailure::RateLimited);
        failed.exit_code = Some(0);
        let it = run(RunStatus::Failed, failed);
        let words = wire::GetStepResponse {
            step: it.steps.first().cloned(),
            error: Some(text("429 slow down")),
            ..Default::default()
        };
        let result = ended(&RunView { run: it, steps: vec![words] }, &[]);
        assert_eq!(result.is_error, Some(true));
        let texts = texts(&result);
        assert_eq!(texts[0], "Agent error: 429 slow down");
        assert!(texts[1].contains("failed, rate_limited, exit code 0, 2.5 s"), "{}", texts[1]);
    }

    #[test]
    fn a_question_says_how_to_answer_and_that_it_is_data() {
        let it = run(RunStatus::Running, step("scout", StepStatus::Running));
        let messages = [said(1, false, "half"), said(2, true, "which\u{200b}?")];
        let result = asked(id(), &it, &messages);
        let texts = texts(&result);
        assert_eq!(
            texts[0],
            "Question 2 of scout (step 1): which?\n\nReport of scout (step 1): half"
        );
        let next = format!(
            "Run {RUN} goes on. Answer with run_reply (run {RUN}, message 2), then call run_wait."
        );
        assert!(texts[1].starts_with(&next) && texts[1].contains(FRAME), "{}", texts[1]);
        let facts = result.structured_content.unwrap();
        assert_eq!(facts["questions"][0]["message"], 2);
        assert_eq!((&facts["status"], facts.get("output")), (&"running".into(), None));
        assert_eq!(facts["next_actions"][0], next.as_str());
    }

    #[test]
    fn a_resource_has_the_newest_output_of_agents_at_work() {
        let it = run(RunStatus::Running, step("scout", StepStatus::Running));
        let view = RunView { run: it, steps: Vec::new() };
        let partial = Some(text("so\u{202e} far"));
        let progress = [wire::StepProgress { step: 1, partial, at_ms: 7 }];
        let facts = run_resource_facts(&view, &progress);
        assert_eq!(facts["newest_output"], json!([{ "step": 1, "text": "so far" }]));
        assert_eq!((&facts["progress"], &facts["stripped"]), (&"(running...)".into(), &1.into()));
        assert!(facts.get("output").is_none());
        assert_eq!(facts["note"], FRAME);
    }

    #[test]
    fn what_goes_on_says_what_to_call() {
        let it = run(RunStatus::Running, step("scout", StepStatus::Running));
        for known in [None, Some(&it)] {
            let result = still_running(id(), known);
            assert_eq!(texts(&result)[0], format!("Still running: run {RUN}. Call run_wait."));
            let facts = result.structured_content.unwrap();
            assert_eq!((&facts["run_id"], &facts["status"]), (&RUN.into(), &"running".into()));
        }
    }
}
