//! `tasuki mail list`.

use tasuki_proto::{
    counted::counted,
    id::RoleId,
    limits::BOX_PAGE,
    mail::{BoxKind, MessageType},
    wire,
};

use super::{
    Failure, Output, json, kinds,
    mail_client::{MailClient, MailboxArgs},
    places, show,
};
use crate::config::Config;

/// Show the threads of a box: urgent ones first, then the oldest arrival.
///
/// With --json each thread is a line of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "NEW counts entries that were not seen. ! is urgent, x a dead letter.")]
pub struct Args {
    /// Box to list
    #[arg(value_name = "BOX", default_value_t = BoxKind::Inbox, value_parser = places(),
          ignore_case = true)]
    place: BoxKind,
    /// Only threads whose newest entry is of these types
    #[arg(long = "type", value_name = "TYPE,TYPE…", value_delimiter = ',',
          value_parser = kinds(), ignore_case = true)]
    types: Vec<MessageType>,
    /// Only threads whose newest entry is from this role
    #[arg(long, value_name = "ROLE")]
    from: Option<RoleId>,
    /// Most threads to show [default: all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    mailbox: MailboxArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let mail = args.mailbox.known_client(config).await?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut shown = 0_u64;
    let mut after = String::new();
    loop {
        let limit = u32::try_from(left).unwrap_or(BOX_PAGE).min(BOX_PAGE);
        let page = page(&args, &mail, limit, &after).await?;
        for thread in &page.threads {
            if shown == 0 {
                output.guide(show::head)?;
            }
            output.answer(|| json::thread(thread), || show::row(thread, &mail.role))?;
            shown += 1;
        }
        left = left.saturating_sub(page.threads.len() as u64);
        // A page that leads nowhere would be asked for for ever.
        let is_last = page.next.is_empty() || page.next == after;
        if left == 0 && !is_last {
            return output.guide(|| format!("{shown} of {} threads are shown.\n", page.total));
        }
        if is_last {
            let total = page.total;
            return if shown == 0 { output.guide(|| nothing(&args, &mail, total)) } else { Ok(()) };
        }
        after = page.next;
    }
}

fn nothing(args: &Args, mail: &MailClient, total: u64) -> String {
    let (place, role) = (args.place, &mail.role);
    match total {
        0 => format!("The {place} of {role} is empty.\n"),
        total => {
            let threads = counted(total, "thread");
            format!("No matching threads in the {place} of {role}, which has {threads}.\n")
        }
    }
}

async fn page(
    args: &Args,
    mail: &MailClient,
    limit: u32,
    after: &str,
) -> Result<wire::ListBoxResponse, Failure> {
    let request = wire::ListBoxRequest {
        role: mail.role.to_string(),
        r#box: args.place.to_wire().into(),
        limit,
        after: after.to_owned(),
        types: args.types.iter().map(ToString::to_string).collect(),
        sender: args.from.as_ref().map(ToString::to_string).unwrap_or_default(),
        ..Default::default()
    };
    let page = mail.broker.call(&request);
    let mut page = page.await?;
    mail.open_all(&mut page.threads).await;
    Ok(page)
}
