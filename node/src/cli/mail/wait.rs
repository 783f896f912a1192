//! `tasuki mail wait`.

use std::time::Duration;

use serde_json::json;
use tasuki_proto::{
    host::config::duration,
    id::RoleId,
    mail::MessageType,
    reason::Reason,
    wire::{self, MailMark, mail_answer::Standing},
};

use super::{
    Failure, Output, json as as_json, kinds,
    mail_client::{MailClient, MailboxArgs},
    show,
};
use crate::{
    cli::{Exit, stopped, waiting::Waiting},
    config::Config,
};

/// Wait for unseen mail and print it: an urgent thread first, then the oldest.
///
/// What was printed is shown again by the next wait until something else is done with it: reading,
/// answering, resolving or rejecting it, or --seen here. Only one waits as a role for the same: a
/// newer wait takes an older one's place, an agent's too. Exits with 0 once there is mail, with 7
/// when there is none.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only entries of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = kinds(), ignore_case = true)]
    kind: Option<MessageType>,
    /// Only entries from this role
    #[arg(long, value_name = "ROLE")]
    from: Option<RoleId>,
    /// Stop waiting after this long; 0 checks once [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Mark what was printed as seen
    #[arg(long)]
    seen: bool,
    #[command(flatten)]
    mailbox: MailboxArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let mail = args.mailbox.client(config)?;
    let answer = tokio::select! {
        // Signals are listened for before anything is asked.
        biased;
        () = stopped() => return Err(Failure::told(Exit::Nothing)),
        answer = async {
            mail.check_known().await?;
            let is_waiting = |it: &wire::MailAnswer| it.standing() == Standing::StillWaiting;
            let ask = async |hold_ms| ask(&args, &mail, hold_ms).await;
            Waiting::new(args.timeout).answer(output, ask, is_waiting).await
        } => answer?,
    };
    tell(&args, &mail, answer, output).await
}

async fn ask(args: &Args, mail: &MailClient, hold_ms: u64) -> Result<wire::MailAnswer, Failure> {
    let request = wire::AwaitMailRequest {
        role: mail.role.to_string(),
        hold_ms,
        r#type: args.kind.map(|it| it.to_string()).unwrap_or_default(),
        sender: args.from.as_ref().map(ToString::to_string).unwrap_or_default(),
        mark: MailMark::None.into(),
        ..Default::default()
    };
    let told = mail.broker.call(&request).await?;
    let mut answer = told.answer.ok_or_else(|| {
        Failure::reason(Reason::Unavailable, "The broker answered a wait with nothing.")
    })?;
    if let Some(thread) = &mut answer.thread {
        mail.open(thread, &mut answer.entries).await;
    }
    Ok(answer)
}

async fn tell(
    args: &Args,
    mail: &MailClient,
    answer: wire::MailAnswer,
    output: &mut Output,
) -> Result<(), Failure> {
    let standing = match answer.standing() {
        Standing::Mail => "mail",
        Standing::StillWaiting => "still_waiting",
        Standing::Superseded => "superseded",
        Standing::Unspecified => "unspecified",
    };
    let thread = answer.thread.unwrap_or_default();
    let has_mail = answer.standing == i32::from(Standing::Mail);
    output.answer(
        || {
            json!({
                "standing": standing,
                "thread": has_mail.then(|| as_json::thread(&thread)),
                "entries": answer.entries,
                "next": answer.next,
                "unseen_threads": answer.unseen_threads,
                "sequence": answer.sequence,
            })
        },
        || match standing {
            "mail" => {
                let mut out = show::title(&thread);
                out.extend(answer.entries.iter().map(|entry| show::entry(entry, false)));
                if answer.next != 0 {
                    out += "\nThere is more: read the thread.\n";
                }
                out
            }
            "superseded" => "A newer wait took this one's place.\n".to_owned(),
            _ => "No mail came.\n".to_owned(),
        },
    )?;
    let (true, Some(last)) = (has_mail, answer.entries.last()) else {
        return Err(Failure::told(Exit::Nothing));
    };
    let mark = if args.seen { MailMark::Seen } else { MailMark::Handed };
    mail.mark(&thread.message_id, last.number, mark).await
}
