//! `tasuki runs reply`.

use serde_json::json;

use super::{Failure, Output, client::SpeakerArgs, names::RunName, with_hint};
use crate::{
    cli::{
        loops::text_args::{HELP, TextArgs},
        text::line,
    },
    config::Config,
};

/// Answer a question of a sub-agent.
///
/// `tasuki runs show` lists questions with their numbers. By whoever asked for the run, or a person,
/// which requires the `steer` right.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Run whose sub-agent asks
    #[arg(value_name = "RUN")]
    run: RunName,
    /// Number of the question
    #[arg(value_name = "MESSAGE", value_parser = clap::value_parser!(u32).range(1..))]
    message: u32,
    /// Answer
    #[arg(value_name = "TEXT")]
    text: String,
    #[command(flatten)]
    speaker: SpeakerArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let text = TextArgs::default().read("TEXT", &args.text)?;
    let runs = args.speaker.client(config)?;
    let run_id = args.run.find(&runs.broker).await?;
    let told = runs.reply(&run_id, args.message, &text).await.map_err(with_hint)?;
    let again = if told.repeated { " That had been done before." } else { "" };
    output.answer(
        || json!(told),
        || format!("Question {} of {} is answered.{again}\n", args.message, line(&run_id)),
    )
}
