//! `tasuki swarm plan`, and how tasks are made.

use std::{fs::File, io, path::PathBuf};

use serde_json::json;
use tasuki_proto::wire;

use super::{
    Failure, Output, again, graph, json as as_json,
    names::IssueName,
    rows,
    who::{Acting, Who, client},
};
use crate::{
    cli::{loops::words::bounded, text::line},
    config::Config,
};

/// Add the tasks of a file to an issue, all or none.
#[derive(Debug, clap::Args)]
#[command(after_help = graph::HELP)]
pub struct Args {
    /// Which issue
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    /// The tasks; - reads standard input
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    pub(super) who: Who,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
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
    create(&acting, issue, tasks, output).await
}

/// Makes tasks, and shows them.
pub(super) async fn create(
    acting: &Acting,
    issue_id: String,
    tasks: Vec<wire::NewTask>,
    output: &mut Output,
) -> Result<(), Failure> {
    let request = wire::CreateTasksRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        issue_id,
        tasks,
    };
    let done = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::CreateTasksRequest { key: Some(key), ..request.clone() };
            client(channel).create_tasks(request).await
        })
        .await?;
    output.answer(
        || {
            let value = json!({
                "tasks": done.tasks.iter().map(as_json::task).collect::<Vec<_>>(),
                "repeated": done.repeated,
                "sequence": done.sequence,
            });
            as_json::at(value, done.now_ms)
        },
        || {
            let issue = line(&request.issue_id);
            let count = match done.tasks.len() {
                1 => "1 task was".to_owned(),
                many => format!("{many} tasks were"),
            };
            let rows: String = done.tasks.iter().map(|it| rows::task(it, done.now_ms)).collect();
            let again = again(done.repeated);
            format!("{count} added to {issue}.{again}\n{}{rows}", rows::task_head())
        },
    )
}
