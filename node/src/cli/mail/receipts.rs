//! `tasuki mail receipts`.

use serde_json::json;

use super::{
    Failure, Output,
    mail_client::MailboxArgs,
    show::{self, entry_head},
};
use crate::config::Config;

/// Show how far each entry of a thread got, without its words.
///
/// stored: it is durable; handed: it was written to the receiver's connection; seen: the receiver
/// came back to it; acted: answered, resolved or rejected. With --json each entry is a line.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Thread: its id, 4 or more digits of it, or its file name
    #[arg(value_name = "ID")]
    message: String,
    #[command(flatten)]
    mailbox: MailboxArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let mail = args.mailbox.known_client(config).await?;
    let mut from = 1;
    while from != 0 {
        let page = mail.read(&args.message, from, 0).await?;
        let thread = page.thread.unwrap_or_default();
        for entry in &page.entries {
            output.answer(
                || {
                    json!({
                        "message_id": thread.message_id,
                        "entry": entry.number,
                        "sender": entry.sender,
                        "receivers": entry.receivers,
                        "type": entry.r#type,
                        "at_ms": entry.at_ms,
                        "expires_ms": entry.expires_ms,
                        "is_imported": entry.is_imported,
                        "written_ms": entry.written_ms,
                        "receipts": entry.receipts,
                    })
                },
                || entry_head(entry) + &show::receipts(&entry.receipts),
            )?;
        }
        from = if page.entries.is_empty() { 0 } else { page.next };
    }
    Ok(())
}
