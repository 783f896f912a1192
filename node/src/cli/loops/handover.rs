//! `tasuki loop handover`.

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::{id::RoleId, wire};

use super::{
    super::{Failure, Output, broker::Broker, text::line},
    Which,
    text_args::{self, TextArgs},
};

/// End a role's turn and give the loop to the next.
#[derive(Debug, clap::Args)]
#[command(after_help = text_args::HELP)]
pub struct Args {
    #[command(flatten)]
    pub(super) which: Which,
    /// Role whose turn ends; it must hold the turn
    #[arg(long, visible_alias = "as", value_name = "ROLE")]
    role: RoleId,
    /// What was done
    #[arg(long, value_name = "TEXT")]
    summary: String,
    /// What to do next; optional with --complete
    #[arg(long, value_name = "TEXT", required_unless_present = "complete")]
    instruction: Option<String>,
    /// Next role [default: the next participant in order]
    #[arg(long, value_name = "ROLE", conflicts_with = "complete")]
    to: Option<RoleId>,
    /// End the loop: the work is done
    #[arg(long)]
    complete: bool,
    /// Number of the turn to end; refused if a later one began [default: the one held]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    turn: Option<u64>,
}

pub(super) async fn run(args: Args, broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let mut words = TextArgs::default();
    let request = wire::HandOverRequest {
        r#loop: args.which.r#loop.to_string(),
        role: args.role.to_string(),
        summary: words.read("--summary", &args.summary)?,
        instruction: words.read_if("--instruction", args.instruction.as_deref())?,
        is_task_complete: args.complete,
        to: args.to.map(|role| role.to_string()).unwrap_or_default(),
        turn: args.turn.unwrap_or(0),
        ..Default::default()
    };
    let done = broker.call(&request).await?;
    output.answer(
        || json!(done),
        || {
            let again = if done.repeated { " That had been done before." } else { "" };
            if done.is_finished {
                return format!("Turn {} ended; the loop is complete.{again}\n", done.ended_turn);
            }
            let (to, ended) = (line(&done.to), done.ended_turn);
            let paused = done.pause.as_ref().map(|it| {
                let (name, why) = (&args.which.r#loop, line(&it.reason));
                format!("The loop is paused: {why}. `tasuki loop resume {name}` goes on.\n")
            });
            format!("Turn {ended} ended; {} has turn {}.{again}\n", to.bold(), done.turn)
                + &paused.unwrap_or_default()
        },
    )
}
