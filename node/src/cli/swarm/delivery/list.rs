//! `tasuki delivery list`.

use tasuki_proto::{
    id::RoleId,
    wire::{self, DeliveryStatus},
};

use crate::{
    cli::{
        role_args::OptionalRoleArgs,
        swarm::{
            Failure, Output,
            labels::delivery_statuses,
            names::IssueName,
            pages::{self, Page, Wanted},
        },
    },
    config::Config,
};

/// List deliveries, newest first.
///
/// With --json each delivery is one line.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only deliveries with this status
    #[arg(long, value_name = "STATUS", value_parser = delivery_statuses())]
    status: Option<DeliveryStatus>,
    /// Only deliveries of this issue
    #[arg(long, value_name = "ISSUE")]
    issue: Option<IssueName>,
    /// Only deliveries created by this role
    #[arg(long, value_name = "ROLE")]
    delivered_by: Option<RoleId>,
    /// Only deliveries reviewed by this role
    #[arg(long, value_name = "ROLE")]
    reviewed_by: Option<RoleId>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    role: OptionalRoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config);
    let issue_id = match &args.issue {
        Some(issue) => issue.find(&acting).await?,
        None => String::new(),
    };
    let name = |role: &Option<RoleId>| role.as_ref().map(ToString::to_string).unwrap_or_default();
    let ask = async |limit, offset| {
        let request = wire::ListDeliveriesRequest {
            claimed_by: String::new(),
            role: acting.role.clone(),
            status: args.status.unwrap_or_default().into(),
            issue_id: issue_id.clone(),
            delivered_by: name(&args.delivered_by),
            reviewed_by: name(&args.reviewed_by),
            limit,
            offset,
            ..Default::default()
        };
        let page = acting.broker.call(&request).await?;
        Ok(Page { things: page.deliveries, total: page.total, now_ms: page.now_ms })
    };
    let is_any = args.status.is_none()
        && args.issue.is_none()
        && args.delivered_by.is_none()
        && args.reviewed_by.is_none();
    let nothing = match is_any {
        true => "No deliveries. Create one with `tasuki delivery create`.",
        false => "No matching deliveries.",
    };
    pages::print(args.wanted, ask, nothing, output).await
}
