//! `tasuki mail resolve` and `tasuki mail reject`.

use serde_json::json;
use tasuki_proto::{
    limits::{FILE_NAME_BYTES_MAX, MOVES_MAX},
    mail::BoxKind,
    reason::Reason,
    wire,
};

use super::{
    Failure, Output,
    mail_client::MailboxArgs,
    queue::{self, with_rest},
    show::short_id,
};
use crate::{
    cli::{
        Exit,
        text::{line, short},
    },
    config::Config,
};

/// Which threads of whose inbox.
///
/// Each is judged by itself: one that got newer entries since it was read stays, and is said.
/// Moving one that was moved before changes nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Threads, each by its id, 4 or more digits of it, or its file name
    #[arg(value_name = "ID", required = true)]
    messages: Vec<String>,
    #[command(flatten)]
    mailbox: MailboxArgs,
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
    let mail = args.mailbox.client(config)?;
    if let Some(waits) = queue::behind(&mail, config) {
        let rest = "Nothing was moved. Run it again once `tasuki outbox` shows that nothing waits.";
        return Err(with_rest(waits, rest));
    }
    let mut moved = Vec::with_capacity(args.messages.len());
    let mut sequence = 0;
    for messages in args.messages.chunks(MOVES_MAX) {
        let request = wire::MoveRequest {
            role: mail.role.to_string(),
            messages: messages.to_vec(),
            to: to.to_wire().into(),
            ..Default::default()
        };
        let done = mail.broker.call(&request).await;
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
                "moved": moved,
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
            let asked = short(&of.asked, FILE_NAME_BYTES_MAX);
            format!("{asked} was not moved: {} ({code})\n", line(&why.message))
        }
    }
}
