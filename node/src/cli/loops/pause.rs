//! `tasuki loop pause`.

use serde_json::json;
use tasuki_proto::{
    id::{PersonId, RoleId},
    wire,
};

use super::{
    super::{Failure, Output, broker::Broker, loop_view},
    Which, person,
};

/// Pause a loop: nobody can start until a person resumes it.
///
/// The holder keeps its turn and may still hand it over; what it hands over is kept.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) which: Which,
    /// Why; shown to whoever asks for a turn
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Person who pauses it [default: $USER, else the user's number]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
    /// Role that pauses it, instead of a person
    #[arg(long, visible_alias = "as", value_name = "ROLE", conflicts_with = "by")]
    role: Option<RoleId>,
}

pub(super) async fn run(args: Args, broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let person = match &args.role {
        Some(_) => String::new(),
        None => person(args.by)?.to_string(),
    };
    let request = wire::PauseLoopRequest {
        r#loop: args.which.r#loop.to_string(),
        role: args.role.map(|role| role.to_string()).unwrap_or_default(),
        person,
        reason: args.reason,
        ..Default::default()
    };
    let done = broker.call(&request).await?;
    output
        .answer(|| json!(done), || loop_view::render_loop(&done.r#loop.clone().unwrap_or_default()))
}
