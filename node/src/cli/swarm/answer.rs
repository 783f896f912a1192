//! `tasuki swarm answer`.

use tasuki_proto::{swarm::TaskMessageId, wire};

use super::{
    Failure, Output,
    ask::told,
    names::TaskName,
    who::{Who, client},
};
use crate::{
    cli::loops::words::{HELP, Words},
    config::Config,
};

/// Answer a worker's question.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Which task
    #[arg(value_name = "ISSUE/TASK")]
    task: TaskName,
    /// What to say
    #[arg(value_name = "TEXT")]
    text: String,
    /// Which message [default: the only open question of the task]
    #[arg(long, value_name = "ID")]
    message: Option<TaskMessageId>,
    /// What it is about
    #[arg(long, value_name = "TEXT")]
    refs: Option<String>,
    #[command(flatten)]
    pub(super) who: Who,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    let ids = args.task.find(&acting).await?;
    let request = wire::ReplyMessageRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        issue_id: ids.issue,
        task_id: ids.task,
        message_id: args.message.map(|it| it.to_string()).unwrap_or_default(),
        content: Words::default().read("TEXT", &args.text)?,
        refs: args.refs.unwrap_or_default(),
    };
    let done = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::ReplyMessageRequest { key: Some(key), ..request.clone() };
            client(channel).reply_message(request).await
        })
        .await?;
    told(&done, "is answered", output)
}
