//! `tasuki task plan`, and how tasks are created.

use std::{fs::File, io, path::PathBuf};

use serde_json::json;
use tasuki_proto::wire;

use super::graph;
use crate::{
    cli::{
        loops::text_args::bounded,
        role_args::{RoleArgs, RoleClient},
        swarm::{Failure, Output, again, names::IssueName, pages::Listed as _},
        text::line,
    },
    config::Config,
};

/// Create the tasks of a file in an issue, all or none.
#[derive(Debug, clap::Args)]
#[command(after_help = graph::HELP)]
pub struct Args {
    /// Issue that gets the tasks
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    /// File of tasks; - reads standard input
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let place = args.file.display().to_string();
    let tasks = if place == "-" {
        let place = "standard input";
        graph::read(place, &bounded("--file", place, io::stdin().lock())?)?
    } else {
        let file = File::open(&args.file)
            .map_err(|why| Failure::usage(format!("--file: {place} cannot be opened: {why}.")))?;
        graph::read(&place, &bounded("--file", &place, file)?)?
    };
    let issue = args.issue.find(&acting).await?;
    create_tasks(&acting, issue, tasks, output).await
}

/// Creates tasks, and shows them.
pub(super) async fn create_tasks(
    acting: &RoleClient,
    issue_id: String,
    tasks: Vec<wire::NewTask>,
    output: &mut Output,
) -> Result<(), Failure> {
    let request = wire::CreateTasksRequest {
        role: acting.role.clone(),
        issue_id,
        tasks,
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    output.answer(
        || json!(done),
        || {
            let issue = line(&request.issue_id);
            let count = match done.tasks.len() {
                1 => "1 task was".to_owned(),
                many => format!("{many} tasks were"),
            };
            let rows: String = done.tasks.iter().map(|it| it.row(done.now_ms)).collect();
            let again = again(done.repeated);
            format!("{count} added to {issue}.{again}\n{}{rows}", wire::Task::head())
        },
    )
}
