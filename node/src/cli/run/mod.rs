//! `tasuki run`: agents that a person starts, and what came of them.
//!
//! Everything that can be refused is refused before anything starts: agents, runners and limits are
//! looked up here (`request`), then who runs them is (`start`). Where nothing runs, broker and node
//! run in this process for as long as it takes (`embedded`).
//!
//! Not here: following a run (`cli/runs/follow`).

mod embedded;
mod request;
mod start;

use std::time::Duration;

use serde_json::json;
use tasuki_proto::{
    reason::Reason,
    wire::{self, RunMode, RunStatus, StepStatus},
};
use tokio::time::timeout;

use self::{
    embedded::Embedded,
    request::{Asked, HELP, LimitArgs, TaskArgs},
};
use super::{
    Exit, Failure, Output,
    broker::Broker,
    hosting::node_flags,
    runs::{
        client::SpeakerArgs,
        display::Display,
        follow::{Interrupts, end_event, exit_of, follow},
        output::{print, print_output},
    },
    text::line,
};
use crate::{
    config::Config,
    runner::modes::SHOWN_BYTES_MAX,
    runs::{
        convert::{joined, plain},
        view::RunView,
    },
};

/// For a step that has told its end to be gone.
const LAST_STEP: Duration = Duration::from_secs(1);

/// What is shown of an output that cannot be asked for at once.
const LEFT_BYTES_MAX: usize = 8 * 1024;

/// Run an agent, several at once, or a chain of them.
///
/// Agents are files in ~/.tasuki/agents and .tasuki/agents, and where pi and Claude Code have
/// theirs. Prints the output; how it goes is shown on standard error. Uses the node of the data
/// directory; where none runs, broker and node run within this command. A run that a person asks for
/// requires the `steer` right, and the `run` right on other machines.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    tasks: TaskArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print the run's id and return; the run goes on
    #[arg(long)]
    background: bool,
    #[command(flatten)]
    speaker: SpeakerArgs,
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    for why in [&config.runners_distrust, &config.runs_distrust].into_iter().flatten() {
        output.note(&why.to_string());
    }
    let is_sub_agent = args.speaker.is_sub_agent();
    let asked = request::read(&args.tasks, &args.limits, is_sub_agent, config, output)?;
    // Not before: a read of standard input cannot be cut short otherwise.
    let interrupts = Interrupts::listen();
    let missing = tokio::select! {
        missing = start::missing(config, args.limits.on.is_empty()) => missing?,
        () = interrupts.until(1) => return Err(Failure::told(Exit::Nothing)),
    };
    let Some(missing) = missing else {
        return Box::pin(carry_out(&args, &asked, config, None, &interrupts, output)).await;
    };
    if args.background {
        return Err(Failure::usage(
            "Nothing runs on this data directory, and a run in the background would end with this \
             command. Start `tasuki up` first, or `tasuki node` on a machine that joined a broker.",
        ));
    }
    if is_sub_agent {
        return Err(Failure::usage(
            "Nothing runs on this data directory, and a sub-agent starts runs at its own node. Name \
             that node's data directory with --data DIR.",
        ));
    }
    let started = tokio::select! {
        started = Box::pin(Embedded::start(config, missing, output)) => started,
        () = interrupts.until(1) => return Err(Failure::told(Exit::Nothing)),
    };
    let Some(mut embedded) = started? else {
        start::missing(config, args.limits.on.is_empty()).await?;
        return Box::pin(carry_out(&args, &asked, config, None, &interrupts, output)).await;
    };
    let own = embedded.config().clone();
    let carried = Box::pin(carry_out(&args, &asked, &own, Some(config), &interrupts, output));
    let (result, is_well) = tokio::select! {
        result = carried => (result, true),
        failure = embedded.failed() => (Err(failure), false),
    };
    if is_well
        && interrupts.count() < 2
        && timeout(LAST_STEP, Box::pin(embedded.idle())).await.is_err()
    {
        output.note("Agents of other commands run here and are waited for. Ctrl-C ends them.");
        tokio::select! {
            () = Box::pin(embedded.idle()) => {},
            () = interrupts.until(interrupts.count() + 1) => {},
        }
    }
    tokio::select! {
        closed = Box::pin(embedded.shut_down()) => result.and(closed),
        () = interrupts.until(2) => result,
    }
}

/// Starts the run and follows it until it is over. `after`: by which its user finds it again, where
/// broker and node end with this command.
async fn carry_out(
    args: &Args,
    asked: &Asked,
    config: &Config,
    after: Option<&Config>,
    interrupts: &Interrupts,
    output: &mut Output,
) -> Result<(), Failure> {
    let runs = args.speaker.client(config)?;
    let request = tokio::select! {
        request = start::prepare(asked, config, &runs) => request?,
        () = interrupts.until(1) => return Err(Failure::told(Exit::Nothing)),
    };
    // From here on it may have been started: it is waited for whether it was.
    let started = tokio::select! {
        started = start::start(request, config, &runs) => started?,
        () = interrupts.until(2) => return Err(Failure::reason(
            Reason::OutcomeUnknown,
            "The broker did not confirm that the run was started. `tasuki runs list` shows whether \
             it was.",
        )),
    };
    let run_id = started.run.as_ref().map(|run| run.run_id.clone()).unwrap_or_default();
    if args.background {
        return output.answer(|| json!(started), || format!("{}\n", line(&run_id)));
    }
    if !output.is_json() {
        output.note(&format!("Started {}.", line(&run_id)));
    }
    let display = Display::new(run_id, started.now_ms, output);
    let (mut broker, flags) = (runs.broker.clone(), node_flags(config));
    let followed = follow(&mut broker, display, interrupts, Some(&runs), &flags, output);
    let view = Box::pin(followed).await?;
    let count = interrupts.count();
    tokio::select! {
        // An output that is read from another machine takes its time.
        ended = Box::pin(conclude(&view, &broker, config, after, 0 < count, output)) => ended,
        () = interrupts.until(count + 1), if count < 2 => Err(Failure::told(Exit::Nothing)),
    }
}

/// Prints what came of a run.
async fn conclude(
    view: &RunView,
    broker: &Broker,
    config: &Config,
    after: Option<&Config>,
    is_canceled: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let run_id = line(&view.run.run_id);
    let mut exit = exit_of(view);
    // By somebody else: nobody who reads this knows why.
    if exit == Exit::Nothing && !is_canceled {
        exit = Exit::Failed;
    }
    let flags = after.map(node_flags);
    let first = flags.as_ref().map_or_else(String::new, |it| format!("`tasuki up{it}`, then "));
    let flags = flags.unwrap_or_default();
    if output.is_json() {
        output.answer(|| end_event(view), String::new)?;
    } else if view.run.mode() == RunMode::Parallel {
        print(view.text().as_bytes(), output)?;
        // Where several outputs are shown, long ones are cut.
        let is_long = |step: &wire::RunStep| step.output_bytes > SHOWN_BYTES_MAX as u64;
        if view.run.steps.iter().any(is_long) {
            let next = format!("{first}`tasuki runs output{flags} {run_id} STEP`");
            output.note(&format!("{next} prints all that a step wrote."));
        }
    } else if exit == Exit::Nothing {
        output.note(&format!("{run_id} was canceled."));
    } else if exit != Exit::Ok {
        let has_output = view.run.steps.iter().any(|step| step.output_bytes != 0);
        if after.is_some() {
            show_failed(view, output);
        }
        let next = match has_output {
            true => format!("{first}`tasuki runs output{flags} {run_id}` prints what it wrote."),
            false => format!("{first}`tasuki runs show{flags} {run_id}` shows how it went."),
        };
        let mut said = view.steps.iter().map(|it| plain(it.error.as_ref()).trim());
        let mut text = view.text();
        if view.run.status() == RunStatus::Canceled
            && let Some(why) = said.find(|it| !it.is_empty())
        {
            text = format!("{run_id} was canceled: {why}");
        }
        let text = text.trim_end().trim_end_matches('.');
        return Err(Failure::run_failed(format!("{text}. {next}")));
    } else if let Some(last) = view.steps.last() {
        // Of a chain the last step's.
        print_output(broker, config, &view.run.run_id, last, output).await?;
    }
    if exit == Exit::Ok { Ok(()) } else { Err(Failure::told(exit)) }
}

/// Shows what steps wrote that did not succeed.
fn show_failed(view: &RunView, output: &mut Output) {
    for words in &view.steps {
        let text = joined(&words.output);
        let has_failed = words.step.as_ref().is_some_and(|it| it.status() != StepStatus::Succeeded);
        if has_failed && !text.is_empty() {
            let end = text.floor_char_boundary(LEFT_BYTES_MAX);
            output.note_lines(text.get(..end).unwrap_or_default());
        }
    }
}
