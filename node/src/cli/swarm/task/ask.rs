//! `tasuki task ask`.

use clap::builder::PossibleValuesParser;
use serde_json::json;
use tasuki_proto::wire::{self, swarm_question::Ask};

use crate::{
    cli::{
        loops::text_args::{HELP, TextArgs},
        role_args::RoleArgs,
        swarm::{
            Failure, Output, again,
            awaited::{self, Wait},
            names::TaskName,
        },
        text::line,
    },
    config::Config,
};

/// Kinds of messages that wait for an answer.
const ANSWERED: [&str; 2] = ["question", "blocker"];

/// Ask the lead about a claimed task, or report progress.
///
/// A question or a blocker blocks the task until it is answered. --wait prints the answer;
/// `tasuki task show` shows it, too.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP, after_long_help = format!("{}\n\n{HELP}", awaited::HELP))]
pub struct Args {
    /// Task that the message is about
    #[arg(value_name = "ISSUE/TASK")]
    task: TaskName,
    /// The message
    #[arg(value_name = "TEXT")]
    text: String,
    /// Kind of message
    #[arg(long, value_name = "KIND", default_value = "question",
          value_parser = PossibleValuesParser::new(
              ["question", "blocker", "progress", "feedback", "message"]))]
    kind: String,
    /// References, such as files or links
    #[arg(long, value_name = "TEXT")]
    refs: Option<String>,
    /// Token of the claim; refused if it is not the current one
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    token: u64,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    if args.wait.wait && !ANSWERED.contains(&args.kind.as_str()) {
        return Err(Failure::usage(format!(
            "--wait is for a question or a blocker: a {:?} needs no answer. Nothing was sent.",
            args.kind
        )));
    }
    let acting = args.role.client(config).await?;
    let ids = args.task.find(&acting).await?;
    let request = wire::PostMessageRequest {
        role: acting.role.clone(),
        issue_id: ids.issue,
        task_id: ids.task,
        kind: args.kind,
        content: TextArgs::default().read("TEXT", &args.text)?,
        refs: args.refs.unwrap_or_default(),
        claim_token: args.token,
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    let id = done.message.as_ref().map(|it| it.message_id.clone()).unwrap_or_default();
    let told = |output: &mut Output| report_message(&done, "was sent to the lead", output);
    args.wait.behind(&acting, output, Ask::Message(id), told).await
}

/// Reports a message.
pub(super) fn report_message(
    done: &wire::MessageResponse,
    how: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let of = done.message.clone().unwrap_or_default();
    output.answer(
        || json!(done),
        || {
            let (id, kind, task) = (line(&of.message_id), line(&of.kind), line(&of.task_id));
            format!("{id}, a {kind} about {task}, {how}.{}\n", again(done.repeated))
        },
    )
}
