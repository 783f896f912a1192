//! `tasuki runs show`.

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::{counted::counted, wire};

use super::{Failure, Output, client, labels, list::RunName};
use crate::{
    cli::{
        broker::Broker,
        labels::{Sheet, long},
        text::{line, short, time},
    },
    config::Config,
    runs::{
        convert::plain,
        view::{RunView, step_awaits},
    },
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
    let (run, now_ms) = client::get(&broker, &run_id).await?;
    let messages = client::messages(&broker, &run_id, 0).await?;
    let view = client::view(&broker, run).await?;
    output.answer(
        || json!({"run": view.run, "steps": view.steps, "messages": messages, "now_ms": now_ms}),
        || render(&view, &messages, now_ms),
    )
}

fn render(view: &RunView, messages: &[wire::RunMessage], now_ms: u64) -> String {
    let run = &view.run;
    let mut out = Sheet::title(&run.run_id);
    out.row("mode", &labels::mode(run));
    out.row("status", &labels::run_status(run));
    out.row("asked for by", &line(&format!("{}{}", run.role, run.person)));
    if let Some(parent) = &run.parent {
        out.row("asked for by", &format!("step {} of {}", parent.step, line(&parent.run_id)));
    }
    out.row("began", &time(run.started_ms));
    if run.ended_ms != 0 {
        let took = long(run.ended_ms.saturating_sub(run.started_ms));
        out.row("ended", &format!("{}, after {took}", time(run.ended_ms)));
    }
    // With the runs below it.
    out.row("used in all", &labels::listed(labels::usage(run.usage)));
    out.row("budget", &labels::budget(run.budget));
    if run.root_id != run.run_id {
        out.row("below", &line(&run.root_id));
    }
    for words in &view.steps {
        render_step(&mut out, run, words, now_ms);
    }
    for message in messages {
        render_message(&mut out, run, message);
    }
    out.0
}

fn render_step(out: &mut Sheet, run: &wire::Run, words: &wire::GetStepResponse, now_ms: u64) {
    let step = words.step.clone().unwrap_or_default();
    let name = format!("step {} {}", step.step, line(&step.agent));
    out.part(&format!("{}: {}", name.bold(), labels::step_status(&step)));
    match step.node.as_str() {
        "" => out.row("wanted on", &line(&step.on)),
        node => out.row("node", &line(node)),
    }
    out.row("waits for", &line(&step_awaits(run, &step).unwrap_or_default()));
    out.row("runner", &line(&step.runner));
    out.row("model", &line(&step.model));
    out.row("task", &short(plain(words.task.as_ref()), TASK_CELLS_MAX));
    let [turns, tokens, cost] = labels::usage(step.usage);
    out.row("used", &labels::listed([labels::elapsed(&step, now_ms), turns, tokens, cost]));
    out.row("last tool", &line(&step.last_tool));
    if step.output_bytes != 0 {
        out.row("output", &counted(step.output_bytes, "byte"));
    }
    out.row("stop reason", &line(&step.stop_reason));
    out.row("exit code", &step.exit_code.map(|it| it.to_string()).unwrap_or_default());
    out.text("error", plain(words.error.as_ref()));
}

fn render_message(out: &mut Sheet, run: &wire::Run, message: &wire::RunMessage) {
    let what = if message.is_question { "question" } else { "report" };
    let name = format!("{what} {}", message.number);
    out.part(&format!("{} of step {}, {}", name.bold(), message.step, time(message.at_ms)));
    out.text("text", plain(message.text.as_ref()));
    if let Some(file) = &message.file {
        out.row("file", &labels::file(&run.run_id, message.number, file));
    }
    out.text("answer", plain(message.reply.as_ref()));
    if message.is_question && message.reply.is_none() {
        let (run_id, number) = (line(&run.run_id), message.number);
        let answer = match message.is_over {
            true => "none: it has ended".to_owned(),
            false => format!("none yet: tasuki runs reply {run_id} {number} \"TEXT\""),
        };
        out.row("answer", &answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::convert::text;

    #[test]
    fn a_run_is_shown_with_its_steps_and_questions() {
        let usage = Some(wire::RunUsage { turns: 1, input_tokens: 12, ..Default::default() });
        let (started_ms, ended_ms) = (1_000, 13_000);
        let step = wire::RunStep {
            step: 1,
            agent: "scout".to_owned(),
            runner: "pi".to_owned(),
            node: "desk-1".to_owned(),
            status: wire::StepStatus::Failed.into(),
            failure: wire::StepFailure::RateLimited.into(),
            exit_code: Some(0),
            stop_reason: "error".to_owned(),
            usage,
            started_ms,
            ended_ms,
            ..Default::default()
        };
        let words = wire::GetStepResponse {
            step: Some(step),
            task: Some(text("Find it\nand more")),
            error: Some(text("429\u{1b}[31m\ntwice")),
            ..Default::default()
        };
        let run = wire::Run {
            run_id: "run_1_00af".to_owned(),
            root_id: "run_1_00af".to_owned(),
            mode: wire::RunMode::Single.into(),
            status: wire::RunStatus::Failed.into(),
            person: "alice".to_owned(),
            usage,
            budget: Some(wire::RunBudget { max_turns: 5, max_depth: 3, ..Default::default() }),
            started_ms,
            ended_ms,
            ..Default::default()
        };
        let question = wire::RunMessage {
            number: 1,
            step: 1,
            is_question: true,
            text: Some(text("Which?")),
            at_ms: 2_000,
            ..Default::default()
        };
        let (name, media_type) = ("pl\u{1b}[31man.md".to_owned(), String::new());
        let report = wire::RunMessage {
            number: 2,
            step: 1,
            file: Some(wire::RunFile { name, media_type, size: 1 }),
            at_ms: 3_000,
            ..Default::default()
        };
        let shown = render(&RunView { run, steps: vec![words] }, &[question, report], 20_000);
        assert_eq!(
            anstream::adapter::strip_str(&shown).to_string(),
            "run_1_00af
  mode          single
  status        failed
  asked for by  alice
  began         1970-01-01 00:00:01Z
  ended         1970-01-01 00:00:13Z, after 12s
  used in all   1 turn, 12 tokens
  budget        5 turns, 3 levels of runs

step 1 scout: failed (rate_limited)
  node          desk-1
  runner        pi
  task          Find it and more
  used          12s, 1 turn, 12 tokens
  stop reason   error
  exit code     0
  error
    429
    twice

question 1 of step 1, 1970-01-01 00:00:02Z
  text
    Which?
  answer        none yet: tasuki runs reply run_1_00af 1 \"TEXT\"

report 2 of step 1, 1970-01-01 00:00:03Z
  file          plan.md, 1 byte: tasuki runs output run_1_00af --message 2
"
        );
    }
}
