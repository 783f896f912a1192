//! `tasuki runs cancel`.

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::wire;

use super::{Failure, Output, client::SpeakerArgs, labels, names::RunName, with_hint};
use crate::{cli::text::line, config::Config};

/// Cancel a run and all runs below it.
///
/// Steps that wait end at once, those that run as soon as their node has stopped them. By whoever
/// asked for the run, or a person, which requires the `steer` right.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run to cancel
    #[arg(value_name = "RUN")]
    run: RunName,
    #[command(flatten)]
    speaker: SpeakerArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let runs = args.speaker.client(config)?;
    let run_id = args.run.find(&runs.broker).await?;
    let told = runs.cancel(&run_id).await.map_err(with_hint)?;
    let run = told.run.clone().unwrap_or_default();
    output.answer(|| json!(told), || outcome(&run))
}

fn outcome(run: &wire::Run) -> String {
    let run_id = line(&run.run_id);
    if labels::is_over(run) {
        let status = labels::run_status(run);
        return format!("{run_id} has ended: {}.\n", status.bold());
    }
    format!("{run_id} is being canceled; `tasuki runs watch {run_id}` shows when it has ended.\n")
}
