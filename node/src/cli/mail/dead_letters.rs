//! `tasuki mail dead`.

use serde_json::json;
use tasuki_proto::wire;

use super::{
    Failure, Output, json as as_json,
    mail_client::{MailClient, MailboxArgs},
    queue::with_rest,
    show,
};
use crate::{cli::text::line, config::Config};

/// Show dead letters: threads that were handed 10 times and never seen, so that waits pass them
/// over.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(flatten)]
    mailbox: MailboxArgs,
    #[command(subcommand)]
    again: Option<Again>,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
enum Again {
    /// Deliver dead letters again
    Again {
        /// Threads, each by its id, 4 or more digits of it, or its file name
        #[arg(value_name = "ID", required = true)]
        messages: Vec<String>,
        #[command(flatten)]
        mailbox: MailboxArgs,
    },
}

impl Args {
    fn mailbox(&self) -> &MailboxArgs {
        match &self.again {
            Some(Again::Again { mailbox, .. }) => mailbox,
            None => &self.mailbox,
        }
    }
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    match args.again {
        Some(Again::Again { ref messages, .. }) => {
            again(&args.mailbox().client(config)?, messages, output).await
        }
        None => list(&args.mailbox().known_client(config).await?, output).await,
    }
}

async fn list(mail: &MailClient, output: &mut Output) -> Result<(), Failure> {
    let mut request = wire::ListDeadLettersRequest {
        role: mail.role.to_string(),
        ..wire::ListDeadLettersRequest::default()
    };
    let mut is_first = true;
    loop {
        let page = mail.broker.call(&request).await?;
        for thread in &page.threads {
            if is_first {
                output.guide(show::head)?;
                is_first = false;
            }
            output.answer(|| as_json::thread(thread), || show::row(thread, &mail.role))?;
        }
        // A page that leads nowhere would be asked for for ever.
        if page.next.is_empty() || page.threads.is_empty() {
            break;
        }
        request.after = page.next;
    }
    if is_first {
        output.guide(|| format!("{} has no dead letters.\n", mail.role))?;
    }
    Ok(())
}

async fn again(mail: &MailClient, messages: &[String], output: &mut Output) -> Result<(), Failure> {
    for message in messages {
        let request = wire::HandAgainRequest {
            role: mail.role.to_string(),
            message: message.clone(),
            ..Default::default()
        };
        let done = mail.broker.call(&request).await;
        let rest = || format!("Nothing was changed from {} on.", line(message));
        let done = done.map_err(|why| with_rest(why, &rest()))?;
        output.answer(
            || json!({"message_id": done.message_id}),
            || format!("{} is handed again.\n", show::short_id(&done.message_id)),
        )?;
    }
    Ok(())
}
