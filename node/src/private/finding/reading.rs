//! What looking through mail asks of the broker: everything once, then what changed.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use futures::{
    FutureExt as _, StreamExt as _,
    stream::{self, BoxStream},
};
use tasuki_proto::{
    id::RoleId,
    limits::BOX_PAGE_MAX,
    mail::{BoxKind, MessageId},
    reason::Reason,
    wire::{self, event::Noun, mail_event::Kind, privacy_event},
};
use tokio::time;

pub use crate::client::feed::{Ended, Items};
use crate::refusal::Refusal;

/// Threads that are read at once: each may be as large as an answer may be.
const READS: usize = 8;

/// Records that are followed to learn what changed; where there are more, listing all is faster.
const RECORDS_MAX: u64 = 20_000;

/// For the next record to be told, in milliseconds.
const RECORD_MS_MAX: u64 = 3_000;

/// One role's mail at the broker. Looks only.
#[async_trait]
pub trait Mail: Send + Sync {
    /// The newest record there is.
    async fn sequence(&self, role: &RoleId) -> Result<u64, Refusal>;

    /// A page of a box, as large as pages are.
    async fn list(
        &self,
        role: &RoleId,
        kind: BoxKind,
        after: &str,
    ) -> Result<wire::ListBoxResponse, Refusal>;

    /// Entries of a thread from this one on, opened.
    async fn read(
        &self,
        role: &RoleId,
        id: MessageId,
        from: u32,
    ) -> Result<wire::ReadThreadResponse, Refusal>;

    /// Records from `from` on; 0: those yet to come.
    async fn follow(&self, from: u64) -> Result<Items, Ended>;
}

/// Asks for a page of a box, as large as pages are.
pub fn box_page(role: &RoleId, kind: BoxKind, after: &str) -> wire::ListBoxRequest {
    wire::ListBoxRequest {
        role: role.to_string(),
        r#box: kind.to_wire().into(),
        limit: BOX_PAGE_MAX,
        after: after.to_owned(),
        ..Default::default()
    }
}

/// A thread, and its entries from some on.
pub(super) struct Read {
    pub(super) id: MessageId,
    pub(super) thread: wire::MailThread,
    pub(super) entries: Vec<wire::MailEntry>,
    /// Not all entries are there: they are more than fit.
    pub(super) is_cut: bool,
}

/// All threads of a role, the one with the newest entry first.
pub(super) async fn everything(mail: &dyn Mail, role: &RoleId) -> Result<Vec<MessageId>, Refusal> {
    let mut known = BTreeSet::new();
    let mut all: Vec<(u64, MessageId)> = Vec::new();
    // What came into the inbox from another box meanwhile is found by looking there again.
    for kind in BoxKind::ALL.into_iter().chain([BoxKind::Inbox]) {
        let mut after = String::new();
        loop {
            let page = mail.list(role, kind, &after).await?;
            for thread in page.threads {
                if let Ok(id) = thread.message_id.parse()
                    && known.insert(id)
                {
                    all.push((thread.latest_ms, id));
                }
            }
            // A page that leads nowhere would be asked for for ever.
            if page.next.is_empty() || page.next == after {
                break;
            }
            after = page.next;
        }
    }
    all.sort_by(|one, other| other.cmp(one));
    Ok(all.into_iter().map(|(_, id)| id).collect())
}

/// Threads in that order, each from its entry on, several read at once. `None`: the role has no
/// such thread.
pub(super) fn reads<'a>(
    mail: &'a dyn Mail,
    role: &'a RoleId,
    threads: Vec<(MessageId, u32)>,
    bytes_max: usize,
) -> BoxStream<'a, Result<Option<Read>, Refusal>> {
    let read = move |(id, from)| one(mail, role, id, from, bytes_max).boxed();
    stream::iter(threads).map(read).buffered(READS).boxed()
}

async fn one(
    mail: &dyn Mail,
    role: &RoleId,
    id: MessageId,
    from: u32,
    bytes_max: usize,
) -> Result<Option<Read>, Refusal> {
    let mut read: Option<Read> = None;
    let mut bytes = 0;
    let mut next = from.max(1);
    loop {
        let page = match mail.read(role, id, next).await {
            Ok(page) => page,
            Err(why) if why.reason == Reason::UnknownMessage => return Ok(None),
            Err(why) => return Err(why),
        };
        bytes += page.entries.iter().map(|it| it.text.len()).sum::<usize>();
        let is_last = page.entries.is_empty() || page.next <= next;
        let thread = page.thread.unwrap_or_default();
        let so_far = read.get_or_insert_with(|| Read {
            id,
            thread: wire::MailThread::default(),
            entries: Vec::new(),
            is_cut: false,
        });
        so_far.thread = thread;
        so_far.entries.extend(page.entries);
        if is_last || bytes_max < bytes {
            so_far.is_cut = !is_last;
            return Ok(read);
        }
        next = page.next;
    }
}

/// What happened to a role's mail.
pub(super) enum Changed {
    Threads(BTreeSet<MessageId>),
    /// It cannot be told, or everything may look different.
    Everything,
}

/// What changed after the record `last` up to the record `now`. `has`: threads that the role is
/// known to have.
pub(super) async fn changes(
    mail: &dyn Mail,
    role: &RoleId,
    last: u64,
    now: u64,
    has: impl Fn(MessageId) -> bool + Send + Sync,
) -> Changed {
    if now < last || RECORDS_MAX < now - last {
        return Changed::Everything;
    }
    let mut changed = BTreeSet::new();
    if now == last {
        return Changed::Threads(changed);
    }
    let Ok(mut items) = mail.follow(last.max(1)).await else { return Changed::Everything };
    // That it is the same journal is seen by having its last record told once more.
    let mut expected = last.max(1);
    while expected <= now {
        let item = time::timeout(Duration::from_millis(RECORD_MS_MAX), items.next()).await;
        let Ok(Some(Ok(item))) = item else { return Changed::Everything };
        if item.sequence != expected {
            return Changed::Everything;
        }
        expected += 1;
        if item.sequence == last {
            continue;
        }
        for event in &item.events {
            match concerned(event, role) {
                Concerned::Thread(id, is_named) => {
                    if let Ok(id) = id.parse()
                        && (is_named || has(id))
                    {
                        changed.insert(id);
                    }
                }
                Concerned::Nothing => {}
                Concerned::Everything => return Changed::Everything,
            }
        }
    }
    Changed::Threads(changed)
}

enum Concerned<'a> {
    Nothing,
    /// And whether the event names the role; whoever has a copy reads all of a thread.
    Thread(&'a str, bool),
    Everything,
}

fn concerned<'a>(event: &'a wire::Event, role: &RoleId) -> Concerned<'a> {
    match &event.noun {
        Some(Noun::Mail(wire::MailEvent { kind: Some(kind) })) => concerned_by_mail(kind, role),
        Some(
            Noun::Privacy(wire::PrivacyEvent { kind: Some(privacy_event::Kind::KeyPublished(_)) })
            | Noun::Directory(_)
            | Noun::Turn(_)
            | Noun::Swarm(_)
            | Noun::Run(_)
            | Noun::Guard(_)
            | Noun::Call(_)
            | Noun::Board(_)
            | Noun::Pipeline(_),
        ) => Concerned::Nothing,
        // What was not opened may be by now; or of a newer broker.
        Some(Noun::Privacy(_) | Noun::Mail(wire::MailEvent { kind: None })) | None => {
            Concerned::Everything
        }
    }
}

fn concerned_by_mail<'a>(kind: &'a Kind, role: &RoleId) -> Concerned<'a> {
    let is = |name: &String| name == role.as_str();
    match kind {
        Kind::MailSent(it) => {
            Concerned::Thread(&it.message_id, it.receivers.iter().any(is) || is(&it.sender))
        }
        Kind::MailImported(it) => Concerned::Thread(&it.message_id, it.participants.iter().any(is)),
        Kind::MailMoved(it) if is(&it.role) => Concerned::Thread(&it.message_id, true),
        Kind::MailMarked(it) if is(&it.role) => Concerned::Thread(&it.message_id, true),
        Kind::MailDied(it) if is(&it.role) => Concerned::Thread(&it.message_id, true),
        Kind::MailLapsed(it) if it.roles.iter().any(is) => Concerned::Thread(&it.message_id, true),
        Kind::MailMoved(_)
        | Kind::MailMarked(_)
        | Kind::MailDied(_)
        | Kind::MailLapsed(_)
        | Kind::MailboxOpened(_)
        | Kind::MailboxClosed(_) => Concerned::Nothing,
    }
}
