//! `tasuki swarm ask`.

use clap::builder::PossibleValuesParser;
use serde_json::json;
use tasuki_proto::wire::{self, swarm_question::Ask};

use super::{
    Failure, Output, again,
    awaited::{self, Wait},
    json as as_json,
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

/// Kinds of messages that wait for an answer.
const ANSWERED: [&str; 2] = ["question", "blocker"];

/// Ask the lead about a claimed task, or tell something.
///
/// A question and a blocker block the task until they are answered; --wait prints the answer, and
/// `tasuki swarm show` has it.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP, after_long_help = format!("{}\n\n{HELP}", awaited::HELP))]
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
    wait: Wait,
    #[command(flatten)]
    pub(super) who: Who,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    if args.wait.wait && !ANSWERED.contains(&args.kind.as_str()) {
        return Err(Failure::usage(format!(
            "--wait is for a question or a blocker: nobody has to answer what is {:?}. Nothing was \
             said.",
            args.kind
        )));
    }
    let acting = args.who.acting(config).await?;
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
    let id = done.message.as_ref().map(|it| it.message_id.clone()).unwrap_or_default();
    let told = |output: &mut Output| told(&done, "is told to the lead", output);
    args.wait.behind(&acting, output, Ask::Message(id), told).await
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
