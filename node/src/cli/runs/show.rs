//! `tasuki runs show`.

use std::fmt::Write as _;

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::wire;

use super::{Failure, Output, client, labels, names::RunName, with_hint};
use crate::{
    cli::{
        broker::Broker,
        text::{block, line, time},
    },
    config::Config,
    runs::convert,
};

/// What is shown of a task, in cells.
const TASK_CELLS_MAX: usize = 100;

/// Show a run with its steps, and what its sub-agents asked and reported.
///
/// `tasuki runs output` prints what they wrote. With --json steps have all their words.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run to show
    #[arg(value_name = "RUN")]
    run: RunName,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let run_id = args.run.find(&broker).await?;
    let (run, now_ms) = client::get(&broker, &run_id).await.map_err(with_hint)?;
    let messages = match run.messages {
        0 => Vec::new(),
        _ => client::messages(&broker, &run_id, 0).await.map_err(with_hint)?,
    };
    let view = client::view(&broker, run).await.map_err(with_hint)?;
    output.answer(
        || json!({"run": view.run, "steps": view.steps, "messages": messages, "now_ms": now_ms}),
        || render(&view.run, &view.steps, &messages, now_ms),
    )
}

fn render(
    run: &wire::Run,
    steps: &[wire::GetStepResponse],
    messages: &[wire::RunMessage],
    now_ms: u64,
) -> String {
    let mut out = String::new();
    let mut write = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("a String takes everything");
    };
    let (mode, status) = (labels::mode(run.mode()), labels::run_status(run));
    write(format_args!("{}  {mode}, {status}\n", line(&run.run_id).bold()));
    let began = time(run.started_ms);
    write(format_args!("  asked for by {}, {began}\n", labels::asker(run)));
    if run.ended_ms != 0 {
        let took = labels::watch_time(run.ended_ms.saturating_sub(run.started_ms));
        write(format_args!("  ended {}, after {took}\n", time(run.ended_ms)));
    }
    let used = labels::used(None, &run.usage.unwrap_or_default());
    if !used.is_empty() {
        write(format_args!("  used {used}, with all runs below it\n"));
    }
    let budget = budget(&run.budget.unwrap_or_default());
    if !budget.is_empty() {
        write(format_args!("  may use {budget}\n"));
    }
    if run.root_id != run.run_id && !run.root_id.is_empty() {
        write(format_args!("  below {}\n", line(&run.root_id)));
    }
    for words in steps {
        write(format_args!("\n{}", render_step(words, now_ms)));
    }
    for message in messages {
        write(format_args!("\n{}", render_message(run, message)));
    }
    out
}

fn render_step(words: &wire::GetStepResponse, now_ms: u64) -> String {
    let step = words.step.clone().unwrap_or_default();
    let mut head = format!("{} {}", step.step, line(&step.agent)).bold().to_string();
    head += &format!("  {}", labels::step_status(&step));
    let mut places = Vec::new();
    match (step.node.as_str(), step.on.as_str()) {
        ("", "") => {}
        ("", on) => places.push(format!("for {}", line(on))),
        (node, _) => places.push(format!("on {}", line(node))),
    }
    places.push(line(&step.runner));
    places.extend(Some(line(&step.model)).filter(|it| !it.is_empty()));
    let mut lines = vec![head, format!("  {}", places.join(", "))];
    let task = convert::plain(words.task.as_ref());
    lines.push(format!("  task: {}", labels::first_line(task, TASK_CELLS_MAX)));
    let used = labels::used(labels::elapsed_ms(&step, now_ms), &step.usage.unwrap_or_default());
    if !used.is_empty() {
        lines.push(format!("  used {used}"));
    }
    if !step.last_tool.is_empty() {
        lines.push(format!("  last tool: {}", line(&step.last_tool)));
    }
    if step.output_bytes != 0 {
        lines.push(format!("  output: {} bytes", step.output_bytes));
    }
    let mut ends = Vec::new();
    ends.extend(Some(&step.stop_reason).filter(|it| !it.is_empty()).map(|it| line(it)));
    ends.extend(step.exit_code.map(|code| format!("exit code {code}")));
    if !ends.is_empty() {
        lines.push(format!("  ended with {}", ends.join(", ")));
    }
    let error = convert::plain(words.error.as_ref());
    if !error.is_empty() {
        let error = block(error).trim_end().replace('\n', "\n    ");
        lines.push(format!("  {} {error}", "error:".red()));
    }
    lines.join("\n") + "\n"
}

fn render_message(run: &wire::Run, message: &wire::RunMessage) -> String {
    let step = run.steps.iter().find(|it| it.step == message.step);
    let who = step.map_or_else(|| format!("step {}", message.step), |it| line(&it.agent));
    let text = |text: Option<&wire::RunText>| {
        block(convert::plain(text)).trim_end().replace('\n', "\n    ")
    };
    let what = if message.is_question { "question" } else { "report" };
    let head = format!("#{} {what} of {who}", message.number).bold().to_string();
    let said = format!("{head}  {}\n    {}\n", time(message.at_ms), text(message.text.as_ref()));
    let reply = match &message.reply {
        Some(reply) => format!("  answer:\n    {}\n", text(Some(reply))),
        None if !message.is_question => String::new(),
        None if message.is_over => "  It ended without an answer.\n".to_owned(),
        None => {
            let run_id = line(&run.run_id);
            format!("  Answer with: tasuki runs reply {run_id} {} \"TEXT\"\n", message.number)
        }
    };
    said + &reply
}

/// What a run may use: the limits that it has.
fn budget(of: &wire::RunBudget) -> String {
    let some = |number: u64, text: String| (number != 0).then_some(text);
    let limits = [
        some(of.max_cost_microusd, labels::usd(of.max_cost_microusd)),
        some(of.max_turns, format!("{} turns", of.max_turns)),
        some(of.max_depth.into(), format!("{} levels of runs", of.max_depth)),
        some(of.max_runs.into(), format!("{} steps", of.max_runs)),
    ];
    limits.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_shown_with_its_steps_and_questions() {
        let step = wire::RunStep {
            step: 1,
            agent: "scout".to_owned(),
            runner: "pi".to_owned(),
            node: "desk-1".to_owned(),
            status: wire::StepStatus::Failed.into(),
            failure: wire::StepFailure::RateLimited.into(),
            exit_code: Some(0),
            stop_reason: "error".to_owned(),
            usage: Some(wire::RunUsage { turns: 1, input_tokens: 12, ..Default::default() }),
            started_ms: 1_000,
            ended_ms: 13_000,
            output_bytes: 3,
            ..Default::default()
        };
        let words = wire::GetStepResponse {
            step: Some(step.clone()),
            task: Some(convert::text("Find it\nand more")),
            error: Some(convert::text("429\u{1b}[31m\ntwice")),
            ..Default::default()
        };
        let run = wire::Run {
            run_id: "run_1_00af".to_owned(),
            root_id: "run_1_00af".to_owned(),
            mode: wire::RunMode::Single.into(),
            status: wire::RunStatus::Failed.into(),
            person: "alice".to_owned(),
            steps: vec![step],
            usage: Some(wire::RunUsage { turns: 1, input_tokens: 12, ..Default::default() }),
            budget: Some(wire::RunBudget { max_turns: 5, max_depth: 3, ..Default::default() }),
            started_ms: 1_000,
            ended_ms: 13_000,
            ..Default::default()
        };
        let question = wire::RunMessage {
            number: 1,
            step: 1,
            is_question: true,
            text: Some(convert::text("Which?")),
            at_ms: 2_000,
            ..Default::default()
        };
        let shown = render(&run, &[words], &[question], 20_000);
        let shown = anstream::adapter::strip_str(&shown).to_string();
        assert_eq!(
            shown,
            "run_1_00af  single, failed
  asked for by alice, 1970-01-01 00:00:01Z
  ended 1970-01-01 00:00:13Z, after 0:12
  used 1 turn, 12 tokens, with all runs below it
  may use 5 turns, 3 levels of runs

1 scout  failed (rate_limited)
  on desk-1, pi
  task: Find it …
  used 0:12, 1 turn, 12 tokens
  output: 3 bytes
  ended with error, exit code 0
  error: 429
    twice

#1 question of scout  1970-01-01 00:00:02Z
    Which?
  Answer with: tasuki runs reply run_1_00af 1 \"TEXT\"
"
        );
    }
}
