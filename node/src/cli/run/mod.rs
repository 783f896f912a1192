//! `tasuki run`: agents that a person starts, and what came of them.
//!
//! Everything that can be refused is refused before anything starts: agents, runners and limits are
//! looked up here (`request`), then who runs them is (`place`, `start`). Where nothing runs, broker
//! and node run in this process for as long as it takes (`embedded`).
//!
//! Not here: following a run (`cli/runs/follow`).

mod embedded;
mod place;
mod request;
mod start;

use serde_json::json;
use tasuki_proto::wire::{self, RunMode};

use self::{
    embedded::Embedded,
    place::Place,
    request::{Asked, HELP, LimitArgs, TaskArgs},
};
use super::{
    Exit, Failure, Output,
    broker::Broker,
    runs::{
        client::{Speaker, SpeakerArgs},
        display::BrokerClock,
        follow::{Interrupts, OnInterrupt, end_event, exit_of, follow},
        output::{print_output, print_text},
        with_hint,
    },
    text::line,
};
use crate::{config::Config, runner::modes::SHOWN_BYTES_MAX, runs::view::RunView};

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
    let asked = request::read(&args.tasks, &args.limits, config, output)?;
    // Not before: a read of standard input cannot be cut short otherwise.
    let interrupts = Interrupts::listen();
    let is_own = args.limits.on.is_empty();
    let place = tokio::select! {
        place = place::find(config, is_own) => place?,
        () = interrupts.first() => return Err(Failure::told(Exit::Nothing)),
    };
    let missing = match place {
        Place::There => {
            return Box::pin(carry_out(&args, &asked, config, &interrupts, output)).await;
        }
        Place::Here(missing) => missing,
    };
    if args.background {
        return Err(Failure::usage(
            "Nothing runs on this data directory, and a run in the background would end with this \
             command. Start `tasuki up` first, or `tasuki node` on a machine that joined a broker.",
        ));
    }
    if matches!(args.speaker.client(config)?.speaker, Speaker::SubAgent(_)) {
        return Err(Failure::usage(
            "Nothing runs on this data directory, and a sub-agent starts runs at its own node. Name \
             that node's data directory with --data DIR.",
        ));
    }
    let started = tokio::select! {
        started = Box::pin(Embedded::start(config, missing)) => started,
        () = interrupts.first() => return Err(Failure::told(Exit::Nothing)),
    };
    let mut embedded = started?;
    let own = embedded.config().clone();
    let result = tokio::select! {
        result = Box::pin(carry_out(&args, &asked, &own, &interrupts, output)) => result,
        failure = embedded.failed() => Err(failure),
    };
    tokio::select! {
        closed = Box::pin(embedded.shut_down()) => result.and(closed),
        () = interrupts.second() => result,
    }
}

/// Starts the run and follows it until it is over.
async fn carry_out(
    args: &Args,
    asked: &Asked,
    config: &Config,
    interrupts: &Interrupts,
    output: &mut Output,
) -> Result<(), Failure> {
    let runs = args.speaker.client(config)?;
    let request = tokio::select! {
        request = start::prepare(asked, config, &runs) => request?,
        () = interrupts.first() => return Err(Failure::told(Exit::Nothing)),
    };
    // From here on it may have been started: it is waited for whether it was.
    let started = tokio::select! {
        started = start::start(request, config, &runs) => started.map_err(with_hint)?,
        () = interrupts.second() => return Err(Failure::told(Exit::Nothing)),
    };
    let run = started.run.clone().unwrap_or_default();
    if args.background {
        return output.answer(|| json!(started), || format!("{}\n", line(&run.run_id)));
    }
    if !output.is_json() {
        output.note(&format!("Started {}.", line(&run.run_id)));
    }
    let clock = BrokerClock::new(started.now_ms);
    let on_interrupt = OnInterrupt::Cancel(&runs);
    let followed = follow(&runs.broker, &run, clock, interrupts, on_interrupt, output);
    let view = Box::pin(followed).await?;
    conclude(&view, config, output)
}

/// Prints what came of a run.
fn conclude(view: &RunView, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let exit = exit_of(&view.run);
    if output.is_json() {
        output.answer(|| end_event(view), String::new)?;
        return if exit == Exit::Ok { Ok(()) } else { Err(Failure::told(exit)) };
    }
    if view.run.mode() == RunMode::Parallel {
        print_text(&view.text(), output)?;
        point_to_output(view, output);
        return if exit == Exit::Ok { Ok(()) } else { Err(Failure::told(exit)) };
    }
    if exit == Exit::Ok {
        // Of a chain the last step's.
        return match view.steps.last() {
            Some(step) => print_output(config, &view.run.run_id, step, output),
            None => Ok(()),
        };
    }
    let run_id = line(&view.run.run_id);
    if exit == Exit::Nothing {
        output.note(&format!("{run_id} was canceled."));
        return Err(Failure::told(exit));
    }
    let text = view.text();
    let has_output = view.run.steps.iter().any(|step| step.output_bytes != 0);
    let next = if has_output {
        format!("`tasuki runs output {run_id}` prints what it wrote.")
    } else {
        format!("`tasuki runs show {run_id}` shows how it went.")
    };
    Err(Failure::run_failed(format!("{}. {next}", text.trim_end().trim_end_matches('.'))))
}

/// Where several outputs are shown, long ones are cut.
fn point_to_output(view: &RunView, output: &mut Output) {
    let is_long = |step: &wire::RunStep| step.output_bytes > SHOWN_BYTES_MAX as u64;
    if view.run.steps.iter().any(is_long) {
        let run_id = line(&view.run.run_id);
        output.note(&format!("`tasuki runs output {run_id} STEP` prints all that a step wrote."));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(mode: RunMode, status: wire::RunStatus) -> RunView {
        let step = wire::RunStep {
            step: 1,
            agent: "scout".to_owned(),
            status: wire::StepStatus::Failed.into(),
            failure: wire::StepFailure::RateLimited.into(),
            started_ms: 1,
            ..Default::default()
        };
        let words = wire::GetStepResponse {
            step: Some(step.clone()),
            error: Some(crate::runs::convert::text("429 too many")),
            ..Default::default()
        };
        let run = wire::Run {
            run_id: "run_1_00af".to_owned(),
            mode: mode.into(),
            status: status.into(),
            steps: vec![step],
            ..Default::default()
        };
        RunView { run, steps: vec![words] }
    }

    fn config() -> Config {
        let place = tempfile::tempdir().unwrap();
        let around = crate::config::Environment::within(place.path());
        Config::load(crate::config::Layer::new(), None, &around).unwrap()
    }

    #[test]
    fn a_run_that_failed_says_why_and_what_to_look_at() {
        let (config, mut output) = (config(), Output::of_process(false));
        let mut concluded = |mode, status| {
            let failure = conclude(&view(mode, status), &config, &mut output).unwrap_err();
            (failure.exit() as u8, failure.message)
        };
        let (code, said) = concluded(RunMode::Single, wire::RunStatus::Failed);
        assert_eq!(code, 8);
        assert_eq!(
            said,
            "Agent error: 429 too many. `tasuki runs show run_1_00af` shows how it went."
        );
        let (code, said) = concluded(RunMode::Chain, wire::RunStatus::Failed);
        assert_eq!(code, 8);
        assert!(said.starts_with("Chain stopped at step 1 (scout): 429 too many. "), "{said}");
        assert_eq!(concluded(RunMode::Single, wire::RunStatus::Canceled).0, 7);
    }
}
