//! `tasuki worker …`.

use serde_json::json;
use tasuki_proto::{id::RoleId, wire};

use super::{Failure, Output, rows, who::Looker};
use crate::config::Config;

/// List workers.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    List(ListArgs),
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
    who: Looker,
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(args, config, output).await,
    }
}

async fn list(args: ListArgs, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.looking(config);
    let is_one = args.worker.is_some();
    let request = wire::ListWorkersRequest {
        role: acting.role.clone(),
        worker: args.worker.map(|it| it.to_string()).unwrap_or_default(),
        ..Default::default()
    };
    let told = acting.broker.call(&request).await?;
    if told.workers.is_empty() {
        let which = if is_one { "No such worker" } else { "No workers" };
        return output
            .guide(|| format!("{which}. A role becomes a worker when it claims a task.\n"));
    }
    output.guide(rows::worker_head)?;
    for it in &told.workers {
        output.answer(|| json!(it), || rows::worker(it, told.now_ms))?;
    }
    Ok(())
}
