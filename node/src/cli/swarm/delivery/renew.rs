//! `tasuki delivery renew`.

use serde_json::json;
use tasuki_proto::swarm::DeliveryId;

use crate::{
    cli::{
        role_args::RoleArgs,
        swarm::{
            Failure, Output,
            delivery_client::DeliveryClient,
            lease::{LeaseArgs, report_renewal},
        },
    },
    config::Config,
};

/// Renew the claim of a delivery.
///
/// A claim that lasts longer already is not cut short.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Delivery whose claim to renew
    #[arg(value_name = "DELIVERY")]
    delivery: DeliveryId,
    #[command(flatten)]
    lease: LeaseArgs,
    /// Token of the claim; refused if it is not the current one
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    token: u64,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let at = DeliveryClient { acting: &acting, delivery: args.delivery.to_string() };
    let done = at.renew(args.token, args.lease.ms()).await?;
    let value = json!(done);
    let delivery = done.delivery.unwrap_or_default();
    let until_ms = delivery.lease_expires_ms;
    report_renewal(output, &delivery.delivery_id, value, until_ms, done.now_ms)
}
