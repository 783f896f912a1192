//! `tasuki loop status`.

use serde_json::json;
use tasuki_proto::{id::LoopId, wire};

use super::{
    super::{Failure, Output, broker::Broker, loop_view},
    Which,
};

/// Show one loop: who has the turn, since when, and the last handover.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) which: Which,
}

pub(super) async fn run(args: Args, broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let seen = get(broker, &args.which.r#loop).await?;
    let of = seen.r#loop.unwrap_or_default();
    output.answer(
        || json!({"loop": of, "latest": seen.latest}),
        || {
            let latest = seen.latest.as_ref().map(|entry| format!("\n{}", loop_view::entry(entry)));
            loop_view::render_loop(&of) + &latest.unwrap_or_default()
        },
    )
}

pub(super) async fn get(broker: &Broker, name: &LoopId) -> Result<wire::GetLoopResponse, Failure> {
    let request = wire::GetLoopRequest { r#loop: name.to_string(), ..Default::default() };
    broker.call(&request).await
}
