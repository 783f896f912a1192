//! `tasuki loop reclaim`.

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::{
    id::{PersonId, RoleId},
    wire,
};

use super::{
    super::{Failure, Output, broker::Broker, text::line},
    Which, person,
};

/// Take a turn from its holder.
///
/// A person may at any time, and says with --to who gets it. A participating role may once the
/// loop is stalled. The old holder is refused from then on.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) which: Which,
    /// Why; kept in the history
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Person who reclaims it [default: $USER, else the user's number]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
    /// Role that reclaims it, instead of a person
    #[arg(long, value_name = "ROLE", conflicts_with = "by")]
    role: Option<RoleId>,
    /// Role that gets the turn [default: the one given with --role]
    #[arg(long, value_name = "ROLE", required_unless_present = "role")]
    to: Option<RoleId>,
    /// Number of the turn to reclaim; refused if a later one began [default: the latest]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    turn: Option<u64>,
}

pub(super) async fn run(args: Args, broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let person = match &args.role {
        Some(_) => String::new(),
        None => person(args.by)?.to_string(),
    };
    let request = wire::ReclaimRequest {
        r#loop: args.which.r#loop.to_string(),
        role: args.role.map(|role| role.to_string()).unwrap_or_default(),
        person,
        to: args.to.map(|role| role.to_string()).unwrap_or_default(),
        reason: args.reason,
        turn: args.turn.unwrap_or(0),
        ..Default::default()
    };
    let done = broker.call(&request).await?;
    output.answer(
        || json!(done),
        || {
            let (from, to) = (line(&done.from), line(&done.to));
            let again = if done.repeated { " That had been done before." } else { "" };
            let (ended, turn) = (done.ended_turn, done.turn);
            format!("Turn {ended} was taken from {from}; {} has turn {turn}.{again}\n", to.bold())
        },
    )
}
