//! `tasuki loop resume`.

use serde_json::json;
use tasuki_proto::{id::PersonId, wire};

use super::{
    super::{Failure, Output, broker::Broker, loop_view},
    Which, person,
};

/// Let a paused loop go on.
///
/// The role that has the turn can start at once, with a new lease. If the loop is paused because
/// that role is, the role goes on, too.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) which: Which,
    /// Why; shown in the events
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Person who resumes it [default: $USER, else the user's number]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
}

pub(super) async fn run(args: Args, broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let request = wire::ResumeLoopRequest {
        r#loop: args.which.r#loop.to_string(),
        person: person(args.by)?.to_string(),
        reason: args.reason.unwrap_or_default(),
        ..Default::default()
    };
    let done = broker.call(&request).await?;
    output
        .answer(|| json!(done), || loop_view::render_loop(&done.r#loop.clone().unwrap_or_default()))
}
