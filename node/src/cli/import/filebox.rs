//! `tasuki import filebox`.
//!
//! **Invariant:** what the broker has is never sent again: each thread is read first, and only the
//! entries it lacks are sent. So the command may be killed and run again at any time.
//!
//! Several threads are under way at once, each with its calls in order; in boxes they are in about
//! the order of their age.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    pin::pin,
};

use futures::{StreamExt as _, stream};
use serde_json::json;
use tasuki_proto::{
    host::progress::{Progress, Unit},
    limits::{IMPORT_ENTRIES_MAX, SUBJECT_BYTES_MAX, TEXT_BYTES_MAX},
    mail::{BoxKind, MessageId},
    reason::Reason,
    visible::shown,
    wire,
};
use tokio::sync::OnceCell;

use super::{
    super::{
        broker::Broker,
        keys::{self, Alone},
        mail_crypto::Asking,
    },
    Failure, Output,
    report::{Outcome, Report},
    roles::{Renaming, Roles},
    stored_thread::{StoredThread, known},
};
use crate::{
    config::Environment,
    filebox::{self, Entry, Mailbox, Thread, id_of_content},
    private::{Fresh, Sealer, Unsealable},
};

/// Threads under way at once: the broker makes what came together durable together. Few enough that
/// no key expires while another thread's call is sent again.
const AT_ONCE: usize = 16;

/// Texts of one call, in bytes: half of what one message may have.
const CALL_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Import FileBox's mailboxes.
///
/// DIR is a project with a docs/mailbox, such a mailbox itself, or where a `.filebox` names the
/// projects; give several to import all projects at once. An agent whose mailbox is in none of
/// them gets its copies in `done`. Copies of one thread are merged: entries that one copy lost come from the others, each
/// agent gets the thread in one box, and no entry is there twice. The files stay as
/// they are. Files that cannot be read are listed with the reason, and make the exit code 5; run it
/// again at any time: only what is missing is sent.
///
/// Agents become roles of the same name. Characters that a role's name cannot have become
/// `-`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Project, mailbox, or directory of a .filebox
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// Give an agent's role another name; repeatable
    #[arg(long = "role", value_name = "OLD=NEW")]
    roles: Vec<Renaming>,
    /// Read the files and report what would be imported; calls no broker
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(
    args: Args,
    broker: &Broker,
    data: &Path,
    output: &mut Output,
) -> Result<(), Failure> {
    let home = Environment::of_process().home;
    let mut skipped = Vec::new();
    let mut mailboxes: Vec<Mailbox> = Vec::new();
    for directory in &args.directories {
        let found = filebox::find(directory, home.as_deref(), &mut skipped);
        mailboxes.extend(found.map_err(|why| Failure::usage(format!("{why}.")))?);
    }
    // A mailbox may be found in more than one way.
    let mut known = BTreeSet::new();
    mailboxes.retain(|it| known.insert(it.folder.canonicalize().unwrap_or_default()));
    let mut copies: Vec<_> = mailboxes.iter().flat_map(|it| it.read(&mut skipped)).collect();
    let roles = Roles::of(&copies, &args.roles)?;
    copies.iter_mut().for_each(|copy| roles.rename(copy));
    let mut report = Report {
        is_dry: args.dry_run,
        mailboxes: mailboxes.len(),
        files: copies.len(),
        roles: roles.changed().map(|(name, role)| (name.to_owned(), role.to_string())).collect(),
        skipped,
        ..Report::default()
    };
    let here: BTreeSet<String> = copies.iter().flat_map(|it| it.agents.clone()).collect();
    let keys = keys::alone()?;
    let gate = PlainMailGate { broker, data, is_open: OnceCell::new() };
    let threads = filebox::gather(copies);
    let progress = Progress::start("importing threads", Unit::Items, output.is_json());
    progress.set_total(threads.len() as u64);
    let threads = stream::iter(threads);
    let work = threads.map(|thread| import_thread(thread, &gate, &keys, args.dry_run));
    let mut done = pin!(work.buffered(AT_ONCE));
    while let Some((it, outcome)) = done.next().await {
        progress.advance(1);
        report.absent.extend(agents(&it.thread).into_iter().filter(|it| !here.contains(it)));
        report.add(it.thread.id, it.count, it.notes, &it.too_large);
        report.count(outcome)?;
    }
    progress.finish();
    output.answer(|| json!(report), || report.to_string())?;
    report.failure().map_or(Ok(()), Err)
}

/// The broker, and whether words may leave for it as they are.
struct PlainMailGate<'a> {
    broker: &'a Broker,
    data: &'a Path,
    is_open: OnceCell<()>,
}

impl PlainMailGate<'_> {
    /// Looks once, before the first words leave; afterwards the broker judges.
    async fn check(&self) -> Result<(), Failure> {
        let look = async || {
            let sealer = Sealer::new(self.data, self.broker.workspace());
            let asking = Asking::new(self.broker);
            let may = sealer.check_plain(&asking, Unsealable::Mailboxes, Fresh::Always).await;
            may.map_err(|refusal| asking.failure(refusal))
        };
        self.is_open.get_or_try_init(look).await.copied()
    }
}

/// A thread beside what the broker has of it.
struct ComparedThread {
    thread: Thread,
    /// Its entries.
    count: usize,
    notes: Vec<(MessageId, String)>,
    too_large: Vec<Entry>,
}

/// What is to be done.
enum Plan {
    End(Outcome),
    Send { subject: String, missing: Vec<Entry>, is_new: bool },
}

async fn import_thread(
    thread: Thread,
    gate: &PlainMailGate<'_>,
    keys: &Alone,
    is_dry: bool,
) -> (ComparedThread, Outcome) {
    let (it, then) = compare(thread, gate.broker, is_dry).await;
    let outcome = match then {
        Plan::End(outcome) => outcome,
        Plan::Send { subject, missing, is_new } => {
            send(&it.thread, subject, missing, is_new, gate, keys).await
        }
    };
    (it, outcome)
}

async fn compare(mut thread: Thread, broker: &Broker, is_dry: bool) -> (ComparedThread, Plan) {
    let own = std::mem::take(&mut thread.notes);
    let mut notes: Vec<_> = own.into_iter().map(|note| (thread.id, note)).collect();
    let count = thread.entries.len();
    let subject = fit_subject(&thread, &mut notes);
    let (entries, too_large): (Vec<Entry>, Vec<Entry>) =
        thread.entries.iter().cloned().partition(|it| it.text.len() <= TEXT_BYTES_MAX);
    let then = if is_dry || entries.is_empty() {
        Plan::End(Outcome::Untold)
    } else {
        match find(&mut thread, &subject, broker, &mut notes).await {
            Ok(known) => {
                let has = |it: &Entry| known.as_ref().is_some_and(|known| known.has(it));
                let missing: Vec<Entry> = entries.into_iter().filter(|it| !has(it)).collect();
                match missing.is_empty() {
                    true => Plan::End(Outcome::Known),
                    false => Plan::Send { subject, missing, is_new: known.is_none() },
                }
            }
            Err(why) => Plan::End(Outcome::Refused(thread.id, why)),
        }
    };
    (ComparedThread { thread, count, notes, too_large }, then)
}

/// Sends what the broker lacks.
async fn send(
    thread: &Thread,
    subject: String,
    missing: Vec<Entry>,
    is_new: bool,
    gate: &PlainMailGate<'_>,
    keys: &Alone,
) -> Outcome {
    if let Err(why) = gate.check().await {
        return Outcome::Refused(thread.id, why);
    }
    let broker = gate.broker;
    let mut request = wire::ImportThreadRequest {
        message_id: thread.id.to_string(),
        subject,
        file_name: thread.file_name.clone().unwrap_or_default(),
        entries: Vec::new(),
        copies: copies(thread),
        ..Default::default()
    };
    let mut sent = 0;
    for batch in batches(missing) {
        request.entries = batch;
        sent += request.entries.len();
        if let Err(why) = broker.call_under(keys.next(), &request).await {
            return Outcome::Refused(thread.id, why);
        }
    }
    if is_new { Outcome::New { sent } } else { Outcome::Extended { sent } }
}

/// What the broker has of it. Where that is another thread, this one gets an id of its own.
async fn find(
    thread: &mut Thread,
    subject: &str,
    broker: &Broker,
    notes: &mut Vec<(MessageId, String)>,
) -> Result<Option<StoredThread>, Failure> {
    let roles = agents(thread);
    let found = known(broker, thread.id, &roles).await?;
    if !found.as_ref().is_some_and(|it| it.is_other(thread, subject)) {
        return Ok(found);
    }
    let Some(oldest) = thread.entries.first() else { return Ok(found) };
    let own = id_of_content(&thread.title, oldest);
    let text = format!("The broker has another thread with this id; this one becomes {own}.");
    notes.push((thread.id, text));
    thread.id = own;
    thread.file_name = None;
    known(broker, own, &roles).await
}

/// Everyone who takes part.
fn agents(thread: &Thread) -> BTreeSet<String> {
    let entries = thread.entries.iter().flat_map(|it| it.to.iter().chain([&it.from]));
    thread.boxes.keys().chain(entries).cloned().collect()
}

/// The broker heeds those of roles that have no copy yet, and moves nobody's.
fn copies(thread: &Thread) -> Vec<wire::ImportedCopy> {
    let copy = |(role, place): (&String, &BoxKind)| wire::ImportedCopy {
        role: role.clone(),
        r#box: place.to_wire().into(),
    };
    thread.boxes.iter().map(copy).collect()
}

/// As many calls as it takes.
fn batches(entries: Vec<Entry>) -> Vec<Vec<wire::ImportedEntry>> {
    let mut batches = vec![Vec::new()];
    let mut bytes = 0;
    for entry in entries {
        let last = batches.last().map_or(0, Vec::len);
        if last != 0 && (last == IMPORT_ENTRIES_MAX || CALL_BYTES_MAX < bytes + entry.text.len()) {
            batches.push(Vec::new());
            bytes = 0;
        }
        bytes += entry.text.len();
        let entry = wire::ImportedEntry {
            sender: entry.from,
            receivers: entry.to,
            r#type: shown(&entry.kind).0.into_owned(),
            written_ms: entry.at.as_millis(),
            text: entry.text,
        };
        if let Some(last) = batches.last_mut() {
            last.push(entry);
        }
    }
    batches
}

fn fit_subject(thread: &Thread, notes: &mut Vec<(MessageId, String)>) -> String {
    let title = &thread.title;
    if title.len() <= SUBJECT_BYTES_MAX {
        return title.clone();
    }
    let text = format!("Its title has {} bytes and is cut to {SUBJECT_BYTES_MAX}.", title.len());
    notes.push((thread.id, text));
    title[..title.floor_char_boundary(SUBJECT_BYTES_MAX)].to_owned()
}

/// Whether others can be taken over although this one was refused.
pub(super) fn is_of_this_thread(why: &Failure) -> bool {
    match why.as_reason() {
        Some(
            Reason::InvalidArgument
            | Reason::TooLarge
            | Reason::UnknownRole
            | Reason::RoleForbidden
            | Reason::AmbiguousMessage
            | Reason::MessageExists
            | Reason::MailboxClosed,
        ) => true,
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use tasuki_proto::id::Timestamp;

    use super::*;

    #[test]
    fn a_long_thread_goes_in_calls_that_fit() {
        let entry =
            |ms, text: &str| Entry::new(Timestamp::from_millis(ms), "qa", &["dev"], "BR", text);
        let sizes = |entries: Vec<Entry>| batches(entries).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes((0..2100).map(|ms| entry(ms, "x")).collect()), [1000, 1000, 100]);
        let large = "x".repeat(TEXT_BYTES_MAX);
        assert_eq!(sizes((0..17).map(|ms| entry(ms, &large)).collect()), [8, 8, 1]);
        let all: Vec<u64> = batches((0..2100).map(|ms| entry(ms, "x")).collect())
            .iter()
            .flatten()
            .map(|it| it.written_ms)
            .collect();
        assert_eq!(all, (0..2100).collect::<Vec<_>>());
    }

    #[test]
    fn a_type_goes_as_it_is_shown() {
        let entry =
            Entry::new(Timestamp::from_millis(1), "qa", &["dev"], "B\u{202e}R\u{200b}", "x");
        assert_eq!(batches(vec![entry])[0][0].r#type, "BR");
    }
}
