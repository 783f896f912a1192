//! `tasuki export`: what is in mailboxes, in forms that others read.
//!
//! Boxes are read page by page, and one thread is in memory at a time. Reading marks nothing as
//! seen.

mod lines;
mod markdown;
mod mbox;
mod place;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::json;
use tasuki_proto::{id::RoleId, limits::BOX_PAGE_MAX, mail::BoxKind, wire};

use super::{Failure, Output, Target, broker::Broker, sealing::Asking};
use crate::{
    config::Config,
    counted::{agreeing, counted},
    private::Sealer,
};
use place::Place;

/// Export mailboxes as Markdown, mbox or JSON lines.
///
/// Markdown makes the files that FileBox had, one a thread: OUT/BOX/NAME.md with --role, else
/// OUT/ROLE/BOX/NAME.md; `tasuki import filebox OUT` reads them. mbox has one mail an entry, for
/// mail programs; JSON lines have all there is, one entry a line. These two go to standard output
/// without --out. Attached files are named, not included.
///
/// Nothing is marked as seen by this.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Whose mailbox [default: everybody's]
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleId>,
    /// Which box: inbox, outbox, done or cancel [default: all]
    #[arg(long = "box", value_name = "BOX")]
    place: Option<BoxKind>,
    /// In which form
    #[arg(long, value_name = "FORMAT")]
    format: Format,
    /// Where to: a directory for Markdown, which must be empty, else a file, which must not exist
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) target: Target,
}

/// In which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Markdown,
    Mbox,
    Jsonl,
}

/// A thread as one role has it.
#[derive(Debug)]
struct Found {
    role: RoleId,
    place: BoxKind,
    thread: wire::MailThread,
    /// The oldest first.
    entries: Vec<wire::MailEntry>,
}

/// What was written.
#[derive(Debug, Default)]
struct Sums {
    threads: usize,
    entries: usize,
    /// Entries that are sealed, and not for this node.
    sealed: usize,
    attachments: usize,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let mut place = Place::open(args.format, args.out.clone(), args.role.is_none())?;
    let mut sums = Sums::default();
    let result = write_all(&args, &broker, &config.data.value, &mut place, output, &mut sums).await;
    place.close(result.is_ok())?;
    result?;
    tell(&args, &sums, output)
}

async fn write_all(
    args: &Args,
    broker: &Broker,
    data: &Path,
    place: &mut Place,
    output: &mut Output,
    sums: &mut Sums,
) -> Result<(), Failure> {
    let roles = match &args.role {
        Some(role) => vec![role.clone()],
        None => everybody(broker).await?,
    };
    let (sealer, asking) = (Sealer::new(data, broker.workspace()), Asking::new(broker));
    for role in roles {
        let mut known = BTreeSet::new();
        for of in boxes(args.place) {
            let mut after = String::new();
            loop {
                let page = list(broker, &role, of, &after).await?;
                for mut thread in page.threads {
                    // One that was moved meanwhile is listed twice.
                    if !known.insert(thread.message_id.clone()) {
                        continue;
                    }
                    let mut entries = read(broker, &role, &thread.message_id).await?;
                    if entries.is_empty() {
                        continue;
                    }
                    sealer.open_thread(&asking, &mut thread, &mut entries).await;
                    let found = Found { role: role.clone(), place: of, thread, entries };
                    sums.add(&found);
                    place.write(&found, broker.workspace(), output)?;
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

async fn everybody(broker: &Broker) -> Result<Vec<RoleId>, Failure> {
    let request = wire::ListMailboxesRequest::default();
    let all = broker.call(&request).await?.mailboxes;
    // What is no id would be a path.
    Ok(all.iter().filter_map(|it| it.role.parse().ok()).collect())
}

async fn list(
    broker: &Broker,
    role: &RoleId,
    of: BoxKind,
    after: &str,
) -> Result<wire::ListBoxResponse, Failure> {
    let request = wire::ListBoxRequest {
        role: role.to_string(),
        r#box: of.to_wire().into(),
        limit: BOX_PAGE_MAX,
        after: after.to_owned(),
        ..Default::default()
    };
    broker.call(&request).await
}

async fn read(
    broker: &Broker,
    role: &RoleId,
    message: &str,
) -> Result<Vec<wire::MailEntry>, Failure> {
    let mut entries = Vec::new();
    let mut from = 1;
    while from != 0 {
        let request = wire::ReadThreadRequest {
            role: role.to_string(),
            message: message.to_owned(),
            from,
            mark: wire::MailMark::None.into(),
            ..Default::default()
        };
        let page = broker.call(&request).await?;
        from = if page.entries.is_empty() { 0 } else { page.next };
        entries.extend(page.entries);
    }
    Ok(entries)
}

impl Sums {
    fn add(&mut self, found: &Found) {
        self.threads += 1;
        self.entries += found.entries.len();
        self.sealed += found.entries.iter().filter(|it| it.sealed.is_some()).count();
        self.attachments += found.entries.iter().map(|it| it.attachments.len()).sum::<usize>();
    }
}

fn tell(args: &Args, sums: &Sums, output: &mut Output) -> Result<(), Failure> {
    if sums.sealed != 0 {
        let (sealed, are) = (counted(sums.sealed, "entry"), agreeing(sums.sealed, "is", "are"));
        output.note(&format!("{sealed} {are} sealed: the words are not in it."));
    }
    let Some(out) = &args.out else { return Ok(()) };
    output.answer(
        || {
            json!({
                "out": out,
                "threads": sums.threads,
                "entries": sums.entries,
                "sealed": sums.sealed,
                "attachments": sums.attachments,
            })
        },
        || {
            let Sums { threads, entries, attachments, .. } = sums;
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
