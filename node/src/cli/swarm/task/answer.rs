//! `tasuki task answer`.

use tasuki_proto::{swarm::TaskMessageId, wire};

use super::ask::report_message;
use crate::{
    cli::{
        loops::text_args::{HELP, TextArgs},
        role_args::RoleArgs,
        swarm::{Failure, Output, names::TaskName},
    },
    config::Config,
};

/// Answer a worker's question.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Task that the question is about
    #[arg(value_name = "ISSUE/TASK")]
    task: TaskName,
    /// The answer
    #[arg(value_name = "TEXT")]
    text: String,
    /// Message to answer [default: the only open question of the task]
    #[arg(long, value_name = "ID")]
    message: Option<TaskMessageId>,
    /// References, such as files or links
    #[arg(long, value_name = "TEXT")]
    refs: Option<String>,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let ids = args.task.find(&acting).await?;
    let request = wire::ReplyMessageRequest {
        role: acting.role.clone(),
        issue_id: ids.issue,
        task_id: ids.task,
        message_id: args.message.map(|it| it.to_string()).unwrap_or_default(),
        content: TextArgs::default().read("TEXT", &args.text)?,
        refs: args.refs.unwrap_or_default(),
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    report_message(&done, "is answered", output)
}
