//! The index of one role's mail in memory, and what is found in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::TryStreamExt as _;
use tasuki_broker::{
    rules::mailbox::ThreadNumber,
    search::{
        Hit, Narrow, Query,
        local::{Entry, Local, LocalError},
        parse,
    },
};
use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::{HITS, HITS_MAX},
    mail::{BoxKind, MessageId},
    reason::Reason,
    wire,
};

use super::{
    Mail,
    reading::{Changed, Read, changes, everything, reads},
};
use crate::{
    clock,
    private::sealer::{NO_SUBJECT, NOT_SEALED},
    refusal::Refusal,
};

/// Words of one role that are looked through, in bytes: they are kept in memory, beside the index
/// of them.
pub const WORDS_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Entries of one role that are looked through: whoever asks first waits until each is opened.
pub const ENTRIES_MAX: usize = 50_000;

/// Words that are read before they are put into the index, in bytes.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How far what came since may go past the limits, before the oldest make room: doing that takes
/// as long as the first time.
const SLACK: usize = 4;

/// What this node can open of one role's mail, to be searched.
#[derive(Debug)]
pub struct Own {
    role: RoleId,
    limits: Limits,
    kept: Option<Kept>,
}

/// What is looked through at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub words_bytes: usize,
    pub entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { words_bytes: WORDS_BYTES_MAX, entries: ENTRIES_MAX }
    }
}

/// As of a record.
#[derive(Debug)]
struct Kept {
    local: Arc<Local>,
    sequence: u64,
    /// By number.
    threads: Vec<Held>,
    numbers: BTreeMap<MessageId, ThreadNumber>,
    words: BTreeMap<(ThreadNumber, u32), Words>,
    bytes: usize,
    /// Threads that were not read, or not to their end.
    left_out: usize,
}

#[derive(Debug)]
struct Held {
    thread: wire::MailThread,
    /// The entry that was read last.
    through: u32,
}

#[derive(Debug)]
struct Words {
    text: String,
    /// It came in the clear, where mail is private.
    is_plain: bool,
    kind: String,
    sender: String,
}

impl Own {
    pub fn new(role: RoleId, limits: Limits) -> Self {
        Self { role, limits, kept: None }
    }

    /// What is found by now.
    pub async fn search(
        &mut self,
        mail: &dyn Mail,
        request: &wire::SearchMailRequest,
    ) -> Result<wire::SearchMailResponse, Refusal> {
        let query = parse(&request.query).map_err(|why| invalid("query", &why))?;
        let sender = match request.sender.as_str() {
            "" => None,
            name => Some(name.parse().map_err(|why| invalid("sender", &why))?),
        };
        let done = self.catch_up(mail).await;
        // What was half done is begun anew.
        let kept = match done {
            Ok(kept) => self.kept.insert(kept),
            Err(why) => return Err(why),
        };
        let at = |ms: u64| (ms != 0).then(|| Timestamp::from_millis(ms));
        let narrow = Narrow {
            kind: (!request.r#type.is_empty()).then(|| request.r#type.clone()),
            sender,
            since: at(request.since_ms),
            until: at(request.until_ms),
            ..kept.narrow(&query, BoxKind::of_wire(request.r#box()))
        };
        let limit = match request.limit {
            0 => HITS,
            limit => limit.min(HITS_MAX),
        } as usize;
        let now = Timestamp::from_millis(clock::wall_ms());
        let (local, asked) = (kept.local.clone(), query.clone());
        let found = in_background(move || local.search(&asked, narrow, limit, now)).await?;
        let hits = found.hits.iter().filter_map(|hit| kept.shown(&query, hit)).collect();
        Ok(wire::SearchMailResponse {
            hits,
            total: found.total,
            through_sequence: kept.sequence,
            left_out: kept.left_out(self.limits),
        })
    }

    /// What is kept, as of now. Takes it away until that is done.
    async fn catch_up(&mut self, mail: &dyn Mail) -> Result<Kept, Refusal> {
        let now = mail.sequence(&self.role).await?;
        if let Some(mut kept) = self.kept.take() {
            let has = |id| kept.numbers.contains_key(&id);
            let changed = changes(mail, &self.role, kept.sequence, now, has).await;
            if let Changed::Threads(ids) = changed {
                kept.read(mail, &self.role, ids.into_iter().collect(), usize::MAX, usize::MAX)
                    .await?;
                kept.sequence = now;
                let Limits { words_bytes, entries } = self.limits;
                let is_over = words_bytes + words_bytes / SLACK < kept.bytes
                    || entries + entries / SLACK < kept.words.len();
                if !is_over {
                    return Ok(kept);
                }
            }
        }
        let mut kept = Kept::new(&self.role, now)?;
        let threads = everything(mail, &self.role).await?;
        let Limits { words_bytes, entries } = self.limits;
        kept.read(mail, &self.role, threads, words_bytes, entries).await?;
        Ok(kept)
    }
}

impl Kept {
    fn new(role: &RoleId, sequence: u64) -> Result<Self, Refusal> {
        Ok(Self {
            local: Arc::new(Local::new(role.clone()).map_err(|why| failed(&why))?),
            sequence,
            threads: Vec::new(),
            numbers: BTreeMap::new(),
            words: BTreeMap::new(),
            bytes: 0,
            left_out: 0,
        })
    }

    /// Reads what it lacks of these threads, in that order, as long as it fits.
    async fn read(
        &mut self,
        mail: &dyn Mail,
        role: &RoleId,
        threads: Vec<MessageId>,
        bytes_max: usize,
        entries_max: usize,
    ) -> Result<(), Refusal> {
        let count = threads.len();
        let from = |id: &MessageId| {
            let known = self.numbers.get(id).and_then(|it| self.threads.get(it.0 as usize));
            known.map_or(1, |it| it.through.max(1))
        };
        let threads = threads.iter().map(|id| (*id, from(id))).collect();
        let mut reads = reads(mail, role, threads, bytes_max);
        let (mut done, mut batch) = (0, Batch::default());
        while self.bytes < bytes_max && self.words.len() < entries_max {
            let Some(read) = reads.try_next().await? else { break };
            done += 1;
            let Some(read) = read else { continue };
            self.left_out += usize::from(read.is_cut);
            self.take(read, &mut batch);
            if BATCH_BYTES < batch.bytes {
                self.put(std::mem::take(&mut batch)).await?;
            }
        }
        self.left_out += count - done;
        self.put(batch).await
    }

    /// What is new of a thread.
    fn take(&mut self, read: Read, batch: &mut Batch) {
        let Read { id, mut thread, entries, is_cut: _ } = read;
        // It is as large as an entry, and told elsewhere.
        thread.first = None;
        let number = match self.numbers.get(&id) {
            Some(number) => *number,
            None => {
                let next = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
                let number = ThreadNumber(next);
                self.numbers.insert(id, number);
                self.threads.push(Held { thread: wire::MailThread::default(), through: 0 });
                number
            }
        };
        let Some(held) = self.threads.get_mut(number.0 as usize) else { return };
        let subject = if thread.subject == NO_SUBJECT { "" } else { thread.subject.as_str() };
        for entry in entries {
            if entry.number <= held.through {
                continue;
            }
            held.through = entry.number;
            // What this node cannot open has the reason for a text.
            let Ok(sender) = entry.sender.parse() else { continue };
            if entry.sealed.is_some() {
                continue;
            }
            let (text, is_plain) = match entry.text.strip_prefix(NOT_SEALED) {
                Some(plain) => (plain.to_owned(), true),
                None => (entry.text, false),
            };
            self.bytes += text.len();
            batch.bytes += text.len();
            batch.entries.push(Entry {
                thread: number,
                entry: entry.number,
                subject: subject.to_owned(),
                text: text.clone(),
                kind: entry.r#type.clone(),
                sender,
                receivers: entry.receivers.iter().filter_map(|it| it.parse().ok()).collect(),
                at: Timestamp::from_millis(entry.at_ms),
            });
            let words = Words { text, is_plain, kind: entry.r#type, sender: entry.sender };
            self.words.insert((number, entry.number), words);
        }
        held.thread = thread;
    }

    async fn put(&self, batch: Batch) -> Result<(), Refusal> {
        if batch.entries.is_empty() {
            return Ok(());
        }
        let local = self.local.clone();
        in_background(move || local.change(&[], batch.entries)).await
    }

    /// What narrows a search down to a box and to threads.
    fn narrow(&self, query: &Query, kind: Option<BoxKind>) -> Narrow {
        let begins = |digits: &str| {
            let digits = digits.to_ascii_lowercase();
            let ids = self.numbers.iter();
            let begin =
                ids.filter(move |(id, _)| format!("{:032x}", id.bits()).starts_with(&digits));
            begin.map(|(_, number)| *number).collect::<BTreeSet<_>>()
        };
        let mut only: Option<BTreeSet<ThreadNumber>> = kind.map(|kind| {
            let is_in = |it: &&ThreadNumber| {
                let held = self.threads.get(it.0 as usize);
                held.is_some_and(|it| BoxKind::of_wire(it.thread.r#box()) == Some(kind))
            };
            self.numbers.values().filter(is_in).copied().collect()
        });
        let mut without = BTreeSet::new();
        for (is_without, digits) in query.threads() {
            let some = begins(digits);
            if is_without {
                without.extend(some);
            } else {
                only = Some(match only {
                    Some(only) => only.intersection(&some).copied().collect(),
                    None => some,
                });
            }
        }
        let sorted = |some: BTreeSet<ThreadNumber>| Arc::new(some.into_iter().collect::<Vec<_>>());
        Narrow {
            only: only.map(sorted),
            without: (!without.is_empty()).then(|| sorted(without)),
            ..Narrow::default()
        }
    }

    fn shown(&self, query: &Query, hit: &Hit) -> Option<wire::MailHit> {
        let thread = self.threads.get(hit.thread.0 as usize)?.thread.clone();
        let words = self.words.get(&(hit.thread, hit.entry))?;
        let excerpt = query.excerpt(&words.text);
        // Words that came in the clear say so, here as everywhere.
        let before = if words.is_plain { NOT_SEALED } else { "" };
        let offset = |at: usize| u32::try_from(before.len() + at).unwrap_or(u32::MAX);
        let lit = excerpt.highlights.iter().flat_map(|it| [offset(it.start), offset(it.end)]);
        Some(wire::MailHit {
            thread: Some(thread),
            entry: hit.entry,
            sender: words.sender.clone(),
            r#type: words.kind.clone(),
            at_ms: hit.at.as_millis(),
            score: hit.score,
            highlights: lit.collect(),
            excerpt: before.to_owned() + &words.text[excerpt.span],
        })
    }

    /// What was not looked through, in words.
    fn left_out(&self, limits: Limits) -> String {
        if self.left_out == 0 {
            return String::new();
        }
        format!(
            "Private mail is looked through on this machine, at most {} MiB or {} entries of it, \
             the newest threads first: {} older threads were left out. `tasuki export` writes all \
             of it.",
            limits.words_bytes >> 20,
            limits.entries,
            self.left_out
        )
    }
}

/// What is to be put into the index.
#[derive(Debug, Default)]
struct Batch {
    entries: Vec<Entry>,
    bytes: usize,
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LocalError> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|why| failed(&why))?.map_err(|why| failed(&why))
}

fn failed(why: &dyn std::fmt::Display) -> Refusal {
    let message = format!("This machine could not look through the mail: {why}. Ask again.");
    Refusal { reason: Reason::Unavailable, message }
}

fn invalid(field: &str, why: &dyn std::fmt::Display) -> Refusal {
    Refusal { reason: Reason::InvalidArgument, message: format!("{field} {why}") }
}
