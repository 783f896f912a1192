//! `tasuki mail read` and `tasuki mail thread`.
//!
//! **Invariant:** an entry counts as seen only once it was printed, and none counts that was not.

use std::path::{Path, PathBuf};

use serde_json::json;
use tasuki_proto::wire::{self, MailMark};

use super::{
    Failure, Output, attach, json as as_json,
    mail_client::{MailClient, MailboxArgs, is_all_seen_before},
    show,
    show::bytes,
};
use crate::{cli::text::line, config::Config};

/// Show a thread, oldest entry first. It counts as seen then.
///
/// In a terminal Markdown is rendered; elsewhere the text is as it was written. Characters that
/// steer a terminal, or hide, are left out. With --json each entry is a line of its own, with all
/// of its text.
#[derive(Debug, clap::Args)]
pub struct ReadArgs {
    /// Thread: its id, 4 or more digits of it, or its file name
    #[arg(value_name = "ID")]
    message: String,
    /// Do not mark it as seen
    #[arg(long)]
    peek: bool,
    /// Save attached files in this directory; existing files are not overwritten
    #[arg(long, value_name = "DIR")]
    save_attachments: Option<PathBuf>,
    #[command(flatten)]
    mailbox: MailboxArgs,
}

/// Show a thread, or its newest entries, with how far each got.
///
/// It counts as seen when nothing unseen is left out.
#[derive(Debug, clap::Args)]
pub struct ThreadArgs {
    /// Thread: its id, 4 or more digits of it, or its file name
    #[arg(value_name = "ID")]
    message: String,
    /// Most entries to show, the newest ones [default: all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// Do not mark it as seen
    #[arg(long)]
    peek: bool,
    #[command(flatten)]
    mailbox: MailboxArgs,
}

/// How a thread is shown.
#[derive(Debug)]
struct Wish<'a> {
    message: &'a str,
    last: u32,
    is_peek: bool,
    has_receipts: bool,
    folder: Option<&'a Path>,
}

pub(super) async fn read(
    args: ReadArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let wish = Wish {
        message: &args.message,
        last: 0,
        is_peek: args.peek,
        has_receipts: false,
        folder: args.save_attachments.as_deref(),
    };
    show(&args.mailbox.known_client(config).await?, &wish, output).await
}

pub(super) async fn thread(
    args: ThreadArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let wish = Wish {
        message: &args.message,
        last: args.last.unwrap_or(0),
        is_peek: args.peek,
        has_receipts: true,
        folder: None,
    };
    show(&args.mailbox.known_client(config).await?, &wish, output).await
}

async fn show(mail: &MailClient, wish: &Wish<'_>, output: &mut Output) -> Result<(), Failure> {
    let mut page = mail.read(wish.message, 0, wish.last).await?;
    let thread = page.thread.take().unwrap_or_default();
    output.guide(|| show::title(&thread))?;
    // A newest part that leaves out something unseen cannot count: marks go from the beginning.
    let is_marked = !wish.is_peek
        && thread.unseen != 0
        && page.entries.first().is_some_and(|first| is_all_seen_before(&thread, first.number));
    loop {
        for entry in &page.entries {
            output.answer(
                || as_json::entry_of(&thread, entry),
                || show::entry(entry, wish.has_receipts),
            )?;
        }
        if let (true, Some(last)) = (is_marked, page.entries.last()) {
            mail.mark(&thread.message_id, last.number, MailMark::Seen).await?;
        }
        if let Some(folder) = wish.folder {
            save(mail, &thread, &page.entries, folder, output).await?;
        }
        // A page that leads nowhere would be asked for for ever.
        if page.next == 0 || page.entries.is_empty() {
            return Ok(());
        }
        page = mail.read(&thread.message_id, page.next, 0).await?;
    }
}

async fn save(
    mail: &MailClient,
    thread: &wire::MailThread,
    entries: &[wire::MailEntry],
    folder: &Path,
    output: &mut Output,
) -> Result<(), Failure> {
    for entry in entries {
        for it in &entry.attachments {
            let path = attach::save(mail, &thread.message_id, it, folder).await?;
            output.answer(
                || json!({"entry": entry.number, "attachment": it, "saved": path}),
                || {
                    let path = line(&path.to_string_lossy());
                    format!("Saved {path} ({}).\n", bytes(it.size))
                },
            )?;
        }
    }
    Ok(())
}
