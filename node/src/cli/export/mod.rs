//! `tasuki export`: what is in mailboxes, in forms that others read.
//!
//! Boxes are read page by page, and a few threads are in memory at a time: they are read side by side,
//! since one call after the other would mostly wait for answers, and written in the order of their
//! box. Reading marks nothing as seen.

mod destination;
mod jsonl;
mod markdown;
mod mbox;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    pin::pin,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use tasuki_proto::{
    counted::{agreeing, counted},
    host::progress::{Progress, Unit},
    id::RoleId,
    mail::BoxKind,
    reason::Reason,
    wire,
};
use tokio::time::sleep;

use super::{Failure, Output, broker::Broker, mail_crypto::Asking, text};
use crate::{
    client::retry::{Backoff, chance},
    config::Config,
    private::{Sealer, finding::box_page},
};
use destination::Destination;

/// Threads that are read at once: enough to keep a broker busy, few enough for memory with the
/// longest threads and for what one token may have in flight.
const AT_ONCE: usize = 6;

/// How often one page is asked for again where the machine's token has too many reads under way.
const READS_MAX: usize = 20;

/// Pauses between them, in milliseconds.
const PAUSE_MS_MIN: u64 = 20;
const PAUSE_MS_MAX: u64 = 1_000;

/// Export mailboxes as Markdown, mbox or JSON lines.
///
/// Markdown writes FileBox's files, one per thread: OUT/BOX/NAME.md with --role, else
/// OUT/ROLE/BOX/NAME.md; `tasuki import filebox OUT` reads them. mbox has one mail per entry, for mail
/// programs; JSON lines have every field, one entry per line. Without --out these two go to standard
/// output. Attached files are named, not included.
///
/// Marks nothing as seen.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Role whose mailbox to export [default: all]
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleId>,
    /// Box: inbox, outbox, done or cancel [default: all]
    #[arg(long = "box", value_name = "BOX")]
    place: Option<BoxKind>,
    /// Output format
    #[arg(long, value_name = "FORMAT")]
    format: Format,
    /// Output: for Markdown an empty directory, else a file that does not exist
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
}

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Markdown,
    Mbox,
    Jsonl,
}

/// A thread as one role has it.
#[derive(Debug)]
struct RoleThread {
    role: RoleId,
    place: BoxKind,
    thread: wire::MailThread,
    /// The oldest first.
    entries: Vec<wire::MailEntry>,
}

/// What was written.
#[derive(Debug, Default)]
struct Totals {
    threads: usize,
    entries: usize,
    /// Entries that are sealed, and not for this node.
    sealed: usize,
    attachments: usize,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let mut destination = Destination::open(args.format, args.out.clone(), args.role.is_none())?;
    let mut totals = Totals::default();
    let result =
        write_all(&args, &broker, &config.data.value, &mut destination, output, &mut totals).await;
    destination.close(result.is_ok())?;
    result?;
    tell(&args, &totals, output)
}

async fn write_all(
    args: &Args,
    broker: &Broker,
    data: &Path,
    destination: &mut Destination,
    output: &mut Output,
    totals: &mut Totals,
) -> Result<(), Failure> {
    let roles = match &args.role {
        Some(role) => vec![role.clone()],
        None => all_roles(broker).await?,
    };
    let (sealer, asking) = (Sealer::new(data, broker.workspace()), Asking::new(broker));
    // What is printed on the same terminal shows well enough how far it got.
    let is_seen = args.out.is_none() && text::is_terminal();
    let progress = Progress::start("exporting threads", Unit::Items, output.is_json() || is_seen);
    let mut found = 0;
    for role in roles {
        let mut known = BTreeSet::new();
        for of in boxes(args.place) {
            let mut after = String::new();
            loop {
                let mut page = broker.call(&box_page(&role, of, &after)).await?;
                if after.is_empty() {
                    found += page.total;
                    progress.set_total(found);
                }
                let listed = page.threads.len();
                // One that was moved meanwhile is listed twice.
                page.threads.retain(|it| known.insert(it.message_id.clone()));
                progress.advance((listed - page.threads.len()) as u64);
                let name = role.as_str();
                let read = |thread: wire::MailThread| async move {
                    let read = whole_thread(broker, name, &thread.message_id).await?;
                    Ok::<_, Failure>((thread, read.1))
                };
                let mut threads = pin!(stream::iter(page.threads).map(read).buffered(AT_ONCE));
                while let Some((mut thread, mut entries)) = threads.try_next().await? {
                    progress.advance(1);
                    if entries.is_empty() {
                        continue;
                    }
                    sealer.open_thread(&asking, &mut thread, &mut entries).await;
                    let whole = RoleThread { role: role.clone(), place: of, thread, entries };
                    totals.add(&whole);
                    destination.write(&whole, broker.workspace(), output)?;
                }
                // A page that leads nowhere would be asked for for ever.
                if page.next.is_empty() || page.next == after {
                    break;
                }
                after = page.next;
            }
        }
    }
    Ok(())
}

/// What came into the inbox from another box meanwhile is found by looking there again.
fn boxes(asked: Option<BoxKind>) -> Vec<BoxKind> {
    match asked {
        Some(one) => vec![one],
        None => BoxKind::ALL.into_iter().chain([BoxKind::Inbox]).collect(),
    }
}

async fn all_roles(broker: &Broker) -> Result<Vec<RoleId>, Failure> {
    let request = wire::ListMailboxesRequest::default();
    let all = broker.call(&request).await?.mailboxes;
    // What is no id would be a path.
    Ok(all.iter().filter_map(|it| it.role.parse().ok()).collect())
}

/// All of a thread, as a role has it: nothing counts as seen by this.
pub(in crate::cli) async fn whole_thread(
    broker: &Broker,
    role: &str,
    message: &str,
) -> Result<(wire::MailThread, Vec<wire::MailEntry>), Failure> {
    let mut request = wire::ReadThreadRequest {
        role: role.to_owned(),
        message: message.to_owned(),
        from: 1,
        mark: wire::MailMark::None.into(),
        ..Default::default()
    };
    let (mut thread, mut entries) = (None, Vec::new());
    loop {
        let page = read_page(broker, &request).await?;
        thread = page.thread.or(thread);
        // A page that leads nowhere would be asked for for ever.
        let is_last = page.next == 0 || page.entries.is_empty();
        entries.extend(page.entries);
        if is_last {
            return Ok((thread.unwrap_or_default(), entries));
        }
        request.from = page.next;
    }
}

/// Reads a page. A token may have few large reads under way, and others may use the same one.
async fn read_page(
    broker: &Broker,
    request: &wire::ReadThreadRequest,
) -> Result<wire::ReadThreadResponse, Failure> {
    let mut backoff = Backoff::between(PAUSE_MS_MIN, PAUSE_MS_MAX);
    for _ in 1..READS_MAX {
        match broker.call(request).await {
            Err(why) if why.as_reason() == Some(Reason::Overloaded) => {
                sleep(backoff.pause(chance())).await;
            }
            told => return told,
        }
    }
    broker.call(request).await
}

impl Totals {
    fn add(&mut self, found: &RoleThread) {
        self.threads += 1;
        self.entries += found.entries.len();
        self.sealed += found.entries.iter().filter(|it| it.sealed.is_some()).count();
        self.attachments += found.entries.iter().map(|it| it.attachments.len()).sum::<usize>();
    }
}

fn tell(args: &Args, totals: &Totals, output: &mut Output) -> Result<(), Failure> {
    if totals.sealed != 0 {
        let (sealed, are) = (counted(totals.sealed, "entry"), agreeing(totals.sealed, "is", "are"));
        output.note(&format!("{sealed} {are} sealed: the words are not in it."));
    }
    let Some(out) = &args.out else { return Ok(()) };
    output.answer(
        || {
            json!({
                "out": out,
                "threads": totals.threads,
                "entries": totals.entries,
                "sealed": totals.sealed,
                "attachments": totals.attachments,
            })
        },
        || {
            let Totals { threads, entries, attachments, .. } = totals;
            let (threads, entries) = (counted(*threads, "thread"), counted(*entries, "entry"));
            let mut said = format!("{threads}, {entries}: {}\n", out.display());
            if *attachments != 0 {
                let are = agreeing(*attachments, "is", "are");
                let files = counted(*attachments, "attached file");
                said += &format!("{files} {are} named, not included.\n");
            }
            said
        },
    )
}

#[cfg(test)]
mod tests;
