//! `tasuki worker …`.

use tasuki_proto::{id::RoleId, wire};

use super::{Failure, Output, pages};
use crate::{
    cli::{
        role_args::{OptionalRoleArgs, every_worker},
        subcommands::subcommands,
    },
    config::Config,
};

subcommands! {
    /// List workers.
    #[derive(Debug, clap::Subcommand)]
    pub enum Command {
        List(ListArgs) => list,
    }
}

/// List workers with their nodes, claims and points in open issues.
///
/// With --json each worker is one line.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Only this worker
    #[arg(value_name = "ROLE")]
    worker: Option<RoleId>,
    #[command(flatten)]
    role: OptionalRoleArgs,
}

async fn list(args: ListArgs, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config);
    let is_one = args.worker.is_some();
    let request = wire::ListWorkersRequest {
        role: acting.role.clone(),
        worker: args.worker.map(|it| it.to_string()).unwrap_or_default(),
        ..Default::default()
    };
    let (workers, now_ms) = every_worker(&acting.broker, request).await?;
    let nothing = match is_one {
        true => "No such worker. A role becomes a worker when it claims a task.",
        false => "No workers. A role becomes a worker when it claims a task.",
    };
    pages::print_all(&workers, now_ms, nothing, output)
}
