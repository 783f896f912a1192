//! What is to be indexed: which entries, from records or from all mail there is, and their words.
//!
//! Records say what changed, the workspace's state who may read it, the journal's bodies what it
//! says.

use std::collections::{BTreeMap, BTreeSet};

use tasuki_proto::{
    id::{RoleId, Sequence, WorkspaceId},
    mail::MessageId,
};

use super::schema::Doc;
use crate::{
    journal::{Journal, JournalError, StoredRecord, bodies::Bodies, codec},
    rules::{
        Event, Record,
        mailbox::{self, Mailboxes, ThreadNumber},
    },
    workspace::{ExecuteError, Workspaces},
};

/// Threads of one look at a workspace's state, which nothing else happens during.
const LOOK_THREADS: u32 = 250;

/// Records read back at once: the registration of 1,000 roles has up to 1.1 MB.
pub(super) const READ_RECORDS: usize = 64;

/// Records from `from` on; fewer than [`READ_RECORDS`] at the end.
///
/// # Errors
/// When they are damaged or no longer kept.
pub(super) fn records(
    journal: &dyn Journal,
    workspace: &WorkspaceId,
    from: Sequence,
) -> Result<Vec<Record>, JournalError> {
    let decode = |stored: StoredRecord| {
        codec::decode_record(stored.record).map_err(|error| {
            let place = format!("workspace {workspace}, {}", stored.sequence);
            JournalError::Damaged { place, what: error.to_string() }
        })
    };
    journal.read(workspace, from, READ_RECORDS)?.into_iter().map(decode).collect()
}

/// A thread of which something is to be indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Todo {
    pub(super) id: MessageId,
    pub(super) thread: ThreadNumber,
    pub(super) readers: Vec<RoleId>,
    pub(super) from: u32,
    pub(super) to: u32,
    /// What the index has of the thread is to be taken out before.
    pub(super) is_again: bool,
}

impl Todo {
    /// A thread is not there any more.
    pub(super) fn removal(thread: ThreadNumber) -> Self {
        let id = MessageId::from_bits(0);
        Self { id, thread, readers: Vec::new(), from: 1, to: 0, is_again: true }
    }
}

/// What records brought, by thread.
#[derive(Debug, Default)]
pub(super) struct Changes {
    by_thread: BTreeMap<MessageId, Change>,
    removed: BTreeSet<ThreadNumber>,
}

#[derive(Debug, Clone, Copy)]
struct Change {
    /// Entries from this one to that one.
    from: u32,
    to: u32,
    /// Those before are to be indexed again: some may be in already, or more roles may read them.
    is_whole: bool,
}

impl Changes {
    /// `is_doubtful`: entries of the record may be in the index.
    pub(super) fn add(&mut self, record: &Record, is_doubtful: bool) {
        for event in &record.events {
            let Event::Mail(event) = event else { continue };
            let (thread, from, count, joins) = match event {
                mailbox::Event::Sent(it) => (it.thread, it.entry, 1, false),
                mailbox::Event::Imported(it) => {
                    (it.thread, it.first, it.entries.len(), !it.copies.is_empty())
                }
                mailbox::Event::Moved(_)
                | mailbox::Event::Handed(_)
                | mailbox::Event::Seen(_)
                | mailbox::Event::Lapsed(_)
                | mailbox::Event::Revived(_)
                | mailbox::Event::Opened(_)
                | mailbox::Event::Closed(_)
                | mailbox::Event::Kept(_) => continue,
                mailbox::Event::Compacted(threads) => {
                    self.removed.extend(threads);
                    continue;
                }
            };
            let to = from + u32::try_from(count).unwrap_or(u32::MAX) - 1;
            let is_whole = is_doubtful || (joins && 1 < from);
            let change = self.by_thread.entry(thread).or_insert(Change { from, to, is_whole });
            change.from = change.from.min(from);
            change.to = change.to.max(to);
            change.is_whole |= is_whole;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_thread.is_empty() && self.removed.is_empty()
    }

    pub(super) fn threads(&self) -> usize {
        self.by_thread.len() + self.removed.len()
    }

    /// The threads, with who may read them.
    pub(super) async fn todos(
        self,
        workspaces: &Workspaces,
        workspace: &WorkspaceId,
    ) -> Result<Vec<Todo>, ExecuteError> {
        let mut changes = self.by_thread.into_iter().peekable();
        let mut todos: Vec<Todo> = self.removed.into_iter().map(Todo::removal).collect();
        while changes.peek().is_some() {
            let some: Vec<_> = changes.by_ref().take(LOOK_THREADS as usize).collect();
            let looked = workspaces.query(workspace, move |view| {
                let mail = &view.workspace.mail;
                some.into_iter().filter_map(|(id, it)| todo(mail, id, it)).collect::<Vec<_>>()
            });
            todos.extend(looked.await?);
        }
        Ok(todos)
    }
}

fn todo(mail: &Mailboxes, id: MessageId, it: Change) -> Option<Todo> {
    let thread = mail.threads().find(id)?;
    let heads = &mail.threads().get(thread).heads;
    let roles = |from: u32, to: u32| {
        let heads = heads.get(from as usize - 1..to as usize).unwrap_or_default();
        heads.iter().fold(0_u64, |all, head| all | head.to | 1 << head.sender)
    };
    let before = roles(1, it.from - 1);
    let is_again = it.is_whole || (1 < it.from && roles(it.from, it.to) & !before != 0);
    let from = if is_again { 1 } else { it.from };
    Some(Todo { id, thread, readers: mail.participants(id), from, to: it.to, is_again })
}

/// Some of all mail there is.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) todos: Vec<Todo>,
    /// Where the next begins, and the last ends.
    pub(super) next: u32,
    pub(super) end: u32,
    /// The newest record then.
    pub(super) sequence: Sequence,
}

/// What of each thread an index that is made has already.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// Entries and readers, by the thread's number.
    threads: Vec<(u32, usize)>,
}

impl Filled {
    /// What of a page, which begins at `from`, the index lacks. It counts as had from then on.
    pub(super) fn lacks(&mut self, page: &Page, from: u32) -> Vec<Todo> {
        let mut lacks = Vec::new();
        let mut there = page.todos.iter().peekable();
        for number in from..page.next {
            let todo = there.next_if(|it| it.thread.0 == number);
            let now = todo.map_or((0, 0), |it| (it.to, it.readers.len()));
            let at = number as usize;
            if self.threads.len() <= at {
                self.threads.resize(at + 1, (0, 0));
            }
            let had = std::mem::replace(&mut self.threads[at], now);
            if had == now {
                continue;
            }
            let is_again = had != (0, 0);
            lacks.push(match todo {
                Some(todo) => Todo { is_again, ..todo.clone() },
                None => Todo::removal(ThreadNumber(number)),
            });
        }
        lacks
    }
}

/// Threads from `from` on.
pub(super) async fn page(
    workspaces: &Workspaces,
    workspace: &WorkspaceId,
    from: u32,
) -> Result<Page, ExecuteError> {
    let looked = workspaces.query(workspace, move |view| {
        let threads = view.workspace.mail.threads();
        let end = threads.next().0;
        let next = end.min(from.saturating_add(LOOK_THREADS));
        let numbers = (from..next).map(ThreadNumber).filter(|number| threads.has(*number));
        let todos = numbers.map(|thread| {
            let it = threads.get(thread);
            let readers = view.workspace.mail.participants(it.id);
            Todo { id: it.id, thread, readers, from: 1, to: it.len(), is_again: false }
        });
        let todos = todos.collect();
        Page { todos, next, end, sequence: view.workspace.sequence }
    });
    looked.await
}

/// The words of what is to be indexed, one entry after the other. Sealed ones have none.
pub(super) fn docs<E: From<JournalError>>(
    journal: &dyn Journal,
    workspace: &WorkspaceId,
    todo: &Todo,
    mut each: impl FnMut(Doc) -> Result<(), E>,
) -> Result<(), E> {
    if todo.to < todo.from {
        return Ok(());
    }
    let bodies = Bodies::new(journal, workspace);
    let first = bodies.letter(todo.id, 1)?;
    let subject = first.title.as_ref().map_or_else(String::new, |it| it.subject.clone());
    let mut first = Some(first);
    for number in todo.from..=todo.to {
        let it = match first.take() {
            Some(first) if number == 1 => first,
            Some(_) | None => bodies.letter(todo.id, number)?,
        };
        if !it.sealed.is_empty() {
            continue;
        }
        each(Doc {
            thread: todo.thread,
            entry: number,
            subject: subject.clone(),
            text: it.text,
            kind: it.kind,
            sender: it.sender,
            receivers: it.to,
            readers: todo.readers.clone(),
            at: it.at,
        })?;
    }
    Ok(())
}
