//! `tasuki swarm ask`.

use clap::builder::PossibleValuesParser;
use serde_json::json;
use tasuki_proto::wire;

use super::{
    Failure, Output, again, json as as_json,
    names::TaskName,
    who::{Who, client},
};
use crate::{
    cli::{
        loops::words::{HELP, Words},
        text::line,
    },
    config::Config,
};

/// Ask the lead about a claimed task, or tell something.
///
/// A question and a blocker block the task until they are answered; `tasuki swarm show` has the
/// answer.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Which task
    #[arg(value_name = "ISSUE/TASK")]
    task: TaskName,
    /// What to say
    #[arg(value_name = "TEXT")]
    text: String,
    /// What it is
    #[arg(long, value_name = "KIND", default_value = "question",
          value_parser = PossibleValuesParser::new(
              ["question", "blocker", "progress", "feedback", "message"]))]
    kind: String,
    /// What it is about
    #[arg(long, value_name = "TEXT")]
    refs: Option<String>,
    /// The token of the claim: refused if it is not the present one
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    token: u64,
    #[command(flatten)]
    pub(super) who: Who,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.acting(config)?;
    let ids = args.task.find(&acting).await?;
    let request = wire::PostMessageRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        issue_id: ids.issue,
        task_id: ids.task,
        kind: args.kind,
        content: Words::default().read("TEXT", &args.text)?,
        refs: args.refs.unwrap_or_default(),
        claim_token: args.token,
    };
    let done = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::PostMessageRequest { key: Some(key), ..request.clone() };
            client(channel).post_message(request).await
        })
        .await?;
    told(&done, "is told to the lead", output)
}

/// What a message came to.
pub(super) fn told(
    done: &wire::MessageResponse,
    how: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let of = done.message.clone().unwrap_or_default();
    output.answer(
        || {
            json!({
                "message": as_json::message(&of),
                "task": done.task.as_ref().map(as_json::task),
                "repeated": done.repeated,
                "sequence": done.sequence,
            })
        },
        || {
            let (id, kind, task) = (line(&of.message_id), line(&of.kind), line(&of.task_id));
            format!("{id}, a {kind} about {task}, {how}.{}\n", again(done.repeated))
        },
    )
}
