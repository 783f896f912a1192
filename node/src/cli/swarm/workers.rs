//! `tasuki swarm workers`.

use tasuki_proto::{id::RoleId, wire};

use super::{
    Failure, Output, json, rows,
    who::{Looker, client},
};
use crate::config::Config;

/// Show who claims tasks: where they are, what they have, what they earned in open issues.
///
/// With --json each worker is a line of its own.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this one
    #[arg(value_name = "ROLE")]
    worker: Option<RoleId>,
    #[command(flatten)]
    pub(super) who: Looker,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.looking(config);
    let is_one = args.worker.is_some();
    let request = wire::ListWorkersRequest {
        caller: acting.broker.caller(),
        role: acting.role.clone(),
        worker: args.worker.map(|it| it.to_string()).unwrap_or_default(),
    };
    let told = acting
        .broker
        .ask(async |channel| client(channel).list_workers(request.clone()).await)
        .await?;
    if told.workers.is_empty() {
        let which = if is_one { "There is no such worker" } else { "There is no worker" };
        return output.guide(|| format!("{which}; whoever claims a task is one.\n"));
    }
    output.guide(rows::worker_head)?;
    for it in &told.workers {
        output.answer(|| json::worker(it), || rows::worker(it, told.now_ms))?;
    }
    Ok(())
}
