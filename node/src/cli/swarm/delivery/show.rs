//! `tasuki delivery show`.

use serde_json::json;
use tasuki_proto::swarm::DeliveryId;

use crate::{
    cli::{
        role_args::OptionalRoleArgs,
        swarm::{Failure, Output, delivery_client::DeliveryClient, details, with_now},
    },
    config::Config,
};

/// Show a delivery, with its evidence and its verdict.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Delivery to show
    #[arg(value_name = "DELIVERY")]
    delivery: DeliveryId,
    #[command(flatten)]
    role: OptionalRoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config);
    let told =
        DeliveryClient { acting: &acting, delivery: args.delivery.to_string() }.get().await?;
    let delivery = told.delivery.unwrap_or_default();
    output.answer(
        || with_now(json!(delivery), told.now_ms),
        || details::delivery(&delivery, told.now_ms),
    )
}
