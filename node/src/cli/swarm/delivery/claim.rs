//! `tasuki delivery claim`.

use serde_json::json;
use tasuki_proto::swarm::DeliveryId;

use crate::{
    cli::{
        role_args::RoleArgs,
        swarm::{Failure, Output, again, delivery_client::DeliveryClient, labels::has_left},
        text::{line, time},
    },
    config::Config,
};

/// Claim a delivery.
///
/// A claim is a lease: review the delivery or `tasuki delivery renew` before it expires. Claiming
/// again as the same role keeps the same claim.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Delivery to claim
    #[arg(value_name = "DELIVERY")]
    delivery: DeliveryId,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let done =
        DeliveryClient { acting: &acting, delivery: args.delivery.to_string() }.claim().await?;
    let delivery = done.delivery.clone().unwrap_or_default();
    output.answer(
        || json!(done),
        || {
            let (id, who) = (line(&delivery.delivery_id), line(&delivery.claimed_by));
            let (until, token) = (time(delivery.lease_expires_ms), delivery.claim_token);
            let left = has_left(delivery.lease_expires_ms, done.now_ms);
            let again = again(done.repeated);
            format!("{who} has {id} until {until} ({left}). Its token is {token}.{again}\n")
        },
    )
}
