//! `tasuki mail resolve` and `tasuki mail reject`.

use serde_json::json;
use tasuki_proto::{limits::MOVES_MAX, mail::BoxKind, reason::Reason, wire};

use super::{
    Failure, Output, json as as_json,
    queue::with_rest,
    show::short_id,
    who::{Who, client},
};
use crate::{
    cli::{Exit, text::line},
    config::Config,
};

/// Which threads of whose inbox.
///
/// Each is judged by itself: one that got newer entries since it was read stays, and is said.
/// Moving one that was moved before changes nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The threads, each by its id, 4 or more digits of it, or its file name
    #[arg(value_name = "ID", required = true)]
    messages: Vec<String>,
    #[command(flatten)]
    pub(super) who: Who,
}

pub(super) async fn resolve(
    args: Args,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    run(args, BoxKind::Done, config, output).await
}

pub(super) async fn reject(
    args: Args,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    run(args, BoxKind::Cancel, config, output).await
}

async fn run(args: Args, to: BoxKind, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let mail = args.who.mail(config)?;
    let mut moved = Vec::with_capacity(args.messages.len());
    let mut sequence = 0;
    for messages in args.messages.chunks(MOVES_MAX) {
        let request = wire::MoveRequest {
            caller: mail.broker.caller(),
            key: None,
            role: mail.role.to_string(),
            messages: messages.to_vec(),
            to: to.to_wire().into(),
        };
        let done = mail
            .broker
            .tell(async |channel, key| {
                let request = wire::MoveRequest { key: Some(key), ..request.clone() };
                client(channel).r#move(request).await
            })
            .await;
        let done = done.map_err(|why| match moved.len() {
            0 => with_rest(why, "Nothing was moved."),
            count => {
                let all = args.messages.len();
                let rest = format!("{count} of {all} were seen to before that; run it again.");
                with_rest(why, &rest)
            }
        })?;
        sequence = done.sequence;
        moved.extend(done.moved);
    }
    output.answer(
        || {
            json!({
                "moved": moved.iter().map(as_json::moved).collect::<Vec<_>>(),
                "sequence": sequence,
            })
        },
        || moved.iter().map(|it| sentence(it, to)).collect(),
    )?;
    let refused = moved.iter().filter_map(|it| it.refusal.as_ref());
    match refused.count() {
        0 => Ok(()),
        _ => Err(Failure::told(Exit::Refused)),
    }
}

fn sentence(of: &wire::Moved, to: BoxKind) -> String {
    match &of.refusal {
        None => format!("{} {} is in {to}.\n", short_id(&of.message_id), line(&of.file_name)),
        Some(why) => {
            let code = Reason::parse(&why.reason).map_or("refused", Reason::as_str);
            format!("{} was not moved: {} ({code})\n", line(&of.asked), line(&why.message))
        }
    }
}
