//! `tasuki mail reply`.

use tasuki_proto::wire::{self, MailMark};

use super::{
    Failure, Output,
    body_args::{BodyArgs, HELP},
    mail_client::{MailClient, is_all_seen_before},
    queue::with_rest,
    send::{Sending, names, tell},
};
use crate::{
    cli::text::{block, line, time},
    config::Config,
    mail_terms::{ANSWERED_ENTRIES, answered},
};

/// Said while the broker is away.
const UNREAD: &str = "Nothing was sent: whom to answer stands in the thread, and the broker has \
                      that. What begins a thread waits in a running node: `tasuki mail send --to \
                      ROLE`.";

/// Answer in a thread.
///
/// The answer goes to whoever wrote the newest entry that is not yours. It takes the thread out of
/// your inbox, unless something in it was not shown to you yet.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Thread: its id, 4 or more digits of it, or its file name
    #[arg(value_name = "ID")]
    message: String,
    #[command(flatten)]
    words: BodyArgs,
    /// Reply to all participants
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(super) send: Sending,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let mail = args.send.mailbox.client(config)?;
    args.send.check()?;
    let read = mail.read(&args.message, 0, ANSWERED_ENTRIES).await;
    let read = read.map_err(|why| with_rest(why, UNREAD))?;
    let thread = read.thread.unwrap_or_default();
    let to = answered(&thread, &read.entries, &mail.role, args.all);
    if to.is_empty() {
        let text = "Nobody else takes part in this thread; nothing was sent.";
        return Err(Failure::usage(text));
    }
    let quoted = quotes(&mail, &thread, &read.entries);
    let notes = format!(
        "{} from {} to {}, in: {}\nAn empty text sends nothing.\n\n{}",
        args.send.kind,
        mail.role,
        names(&to),
        line(&thread.subject),
        quoted.iter().map(|entry| quote(entry)).collect::<String>()
    );
    let text = args.words.read(&notes, config)?;
    let request = wire::SendRequest {
        in_reply_to: thread.message_id.clone(),
        text: text.text.clone(),
        ..Default::default()
    };
    let sent = async {
        if args.words.is_edited()
            && thread.unseen != 0
            && let (Some(first), Some(last)) = (quoted.first(), quoted.last())
            && is_all_seen_before(&thread, first.number)
        {
            let marked = mail.mark(&thread.message_id, last.number, MailMark::Seen).await;
            marked.map_err(|why| with_rest(why, "Nothing was sent."))?;
        }
        args.send.carry_out(&mail, config, &to, request).await
    };
    let sent = text.settle(sent.await)?;
    tell(&sent, &to, output)
}

/// What somebody who answers has to read: all that is unseen, at least the newest of others.
fn quotes<'a>(
    mail: &MailClient,
    thread: &wire::MailThread,
    entries: &'a [wire::MailEntry],
) -> Vec<&'a wire::MailEntry> {
    let to_me = entries.iter().filter(|it| it.receivers.iter().any(|to| *to == mail.role.as_str()));
    let to_me: Vec<&wire::MailEntry> = to_me.collect();
    let unseen = match thread.first_unseen {
        0 => to_me.len(),
        first => to_me.partition_point(|it| it.number < first),
    };
    to_me[unseen.min(to_me.len().saturating_sub(1))..].to_vec()
}

fn quote(of: &wire::MailEntry) -> String {
    let mut out = format!("#{} {} wrote {}:\n", of.number, line(&of.sender), time(of.at_ms));
    for line in block(&of.text).lines() {
        out += &format!("> {line}\n");
    }
    for it in &of.attachments {
        out += &format!("> attached: {}\n", line(&it.name));
    }
    out.push('\n');
    out
}
