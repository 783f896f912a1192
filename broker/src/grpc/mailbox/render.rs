//! Threads and entries as callers get them: facts from the state, words from the journal.
//!
//! **Invariant:** no answer is larger than a message may be, whatever is in a thread or a box.

use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::THREAD_PAGE_MAX,
    mail::{BoxKind, MessageId},
    reason::Reason,
    wire,
};
use tonic::Status;

use super::super::{
    Later, WorkspaceSession, at_once,
    render::{BoundedPage, cause, ms, text},
    status,
};
use crate::{
    rules::mailbox::{
        Answer, EntryBody, EntryReceipts, MoveOutcome, Receipts, ThreadSummary, Title,
    },
    workspace::View,
};

/// Entries that a call reads on the thread it runs on: some microseconds each, as long as their
/// texts are short.
const READS_MAX: usize = 32;

pub(super) fn receipts(of: &[EntryReceipts], stored: Timestamp) -> Vec<wire::MailReceipt> {
    let one = |it: &EntryReceipts| wire::MailReceipt {
        role: it.role.to_string(),
        stored_ms: stored.as_millis(),
        handed_ms: ms(it.handed),
        seen_ms: ms(it.seen),
        acted_ms: ms(it.acted),
        lapsed_ms: ms(it.lapsed),
        dead_ms: ms(it.dead),
    };
    of.iter().map(one).collect()
}

/// Every mailbox there is: of roles that have mail, and of those that could.
pub(super) fn mailboxes(view: &View<'_>) -> Vec<wire::MailboxState> {
    let workspace = view.workspace;
    let mut all: std::collections::BTreeMap<RoleId, wire::MailboxState> =
        std::collections::BTreeMap::new();
    for it in workspace.mail.counts() {
        let count = |kind: BoxKind| it.boxes[kind as usize] as u64;
        let state = wire::MailboxState {
            inbox: count(BoxKind::Inbox),
            outbox: count(BoxKind::Outbox),
            done: count(BoxKind::Done),
            cancel: count(BoxKind::Cancel),
            unseen: it.unseen as u64,
            dead: it.dead as u64,
            is_closed: it.is_closed,
            ..wire::MailboxState::default()
        };
        all.insert(it.role, state);
    }
    for (node, it) in &workspace.directory.nodes {
        for spec in &it.roles {
            all.entry(spec.role.clone()).or_default().node = node.to_string();
        }
    }
    for role in workspace.loops.by_id.values().flat_map(|it| &it.participants) {
        all.entry(role.clone()).or_default();
    }
    let told = all.into_iter().map(|(role, state)| {
        let sign = view.context.presence.role(&role);
        let quiet_ms = sign.map(|sign| view.now.millis_since(sign.at));
        wire::MailboxState { role: role.to_string(), quiet_ms, ..state }
    });
    told.collect()
}

/// What a wait for mail ended with.
pub(in crate::grpc) fn outcome(
    it: Answer,
    is_superseded: bool,
    sequence: u64,
    pause: Option<wire::RolePause>,
) -> Later<wire::MailAnswer> {
    use wire::mail_answer::Standing;
    let unseen_threads = it.unseen_threads as u64;
    let mut answer = wire::MailAnswer { unseen_threads, sequence, pause, ..Default::default() };
    answer.set_standing(match &it.mail {
        _ if is_superseded => Standing::Superseded,
        None => Standing::StillWaiting,
        Some(_) => Standing::Mail,
    });
    let Some(facts) = it.mail.filter(|_| !is_superseded) else { return at_once(answer) };
    Box::new(move |session| {
        answer.thread = Some(session.thread(&facts)?);
        (answer.entries, answer.next) = session.letters(&facts, facts.first_unseen, None)?;
        Ok(answer)
    })
}

impl WorkspaceSession {
    /// What `read` makes of so many entries, read where it holds nobody up if they are many.
    pub(in crate::grpc) async fn reading<T: Send + 'static>(
        &self,
        entries: usize,
        read: impl FnOnce(&Self) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        if entries <= READS_MAX { read(self) } else { self.aside(read).await }
    }

    /// What takes its time, done where it holds no other call up.
    pub(in crate::grpc) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let session = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&session)).await;
        done.map_err(|_| Reason::Unavailable.status("the answer was lost; ask again"))?
    }

    /// A thread as its role has it.
    pub(super) fn thread(&self, it: &ThreadSummary) -> Result<wire::MailThread, Status> {
        let first = self.facts_of(it.id, 1)?;
        let latest = match it.entries {
            1 => first.clone(),
            number => self.facts_of(it.id, number)?,
        };
        let title = first.title.clone().unwrap_or_else(|| untitled(it.id));
        let sealed_first = (!first.sealed.is_empty()).then(|| entry(first.clone()));
        Ok(wire::MailThread {
            message_id: it.id.to_string(),
            file_name: title.file_name,
            subject: title.subject,
            r#type: first.kind,
            original_sender: first.sender.to_string(),
            r#box: it.kind.to_wire().into(),
            entries: it.entries,
            unseen: it.unseen,
            latest_type: latest.kind,
            latest_sender: latest.sender.to_string(),
            latest_receivers: latest.to.iter().map(ToString::to_string).collect(),
            // A letter taken over from elsewhere keeps the time it was written at.
            latest_ms: latest.written.unwrap_or(latest.at).as_millis(),
            is_urgent: it.is_urgent,
            is_dead: it.is_dead,
            participants: it.participants.iter().map(ToString::to_string).collect(),
            handed: it.handed,
            handed_through: it.handed_through,
            seen_through: it.seen_through,
            first_unseen: if it.unseen == 0 { 0 } else { it.first_unseen },
            first: sealed_first,
        })
    }

    /// As many of the threads as fit, `limit` at most, and where the next page begins.
    pub(super) fn page_of(
        &self,
        found: Vec<ThreadSummary>,
        limit: usize,
    ) -> Result<(Vec<wire::MailThread>, String), Status> {
        let mut page = BoundedPage::default();
        let mut last = None;
        for facts in &found {
            if page.items.len() == limit || !page.add(self.thread(facts)?) {
                let next = last.map(|it: &ThreadSummary| format!("{:x}", it.place));
                return Ok((page.items, next.unwrap_or_default()));
            }
            last = Some(facts);
        }
        Ok((page.items, String::new()))
    }

    /// Entries of a thread from `from` on, as many as fit, with their receipts where those are
    /// given, and where the next page begins.
    pub(super) fn letters(
        &self,
        facts: &ThreadSummary,
        from: u32,
        receipts: Option<&Receipts>,
    ) -> Result<(Vec<wire::MailEntry>, u32), Status> {
        let mut page = BoundedPage::default();
        let last = facts.entries.min(from.saturating_add(THREAD_PAGE_MAX - 1));
        for number in from..=last {
            let letter = self.letter(facts.id, number)?;
            let at = letter.at;
            let mut entry = entry(letter);
            if let Some(of) = receipts {
                entry.receipts = self::receipts(&of.of(number), at);
            }
            if !page.add(entry) {
                return Ok((page.items, number));
            }
        }
        Ok((page.items, if last < facts.entries { last + 1 } else { 0 }))
    }

    /// When an entry was stored, and what its thread is called.
    pub(super) fn stored(
        &self,
        thread: MessageId,
        number: u32,
    ) -> Result<(Timestamp, String), Status> {
        let stored = self.facts_of(thread, number)?;
        let title = match stored.title {
            Some(title) => title,
            None => self.title(thread)?,
        };
        Ok((stored.at, title.file_name))
    }

    /// What a thread is called.
    pub(super) fn title(&self, thread: MessageId) -> Result<Title, Status> {
        Ok(self.facts_of(thread, 1)?.title.unwrap_or_else(|| untitled(thread)))
    }

    /// Entry `number` with its words.
    pub(super) fn letter(&self, thread: MessageId, number: u32) -> Result<EntryBody, Status> {
        self.bodies().letter(thread, number).map_err(|e| status::reading(&e))
    }

    /// The same without a text that is kept apart.
    pub(super) fn facts_of(&self, thread: MessageId, number: u32) -> Result<EntryBody, Status> {
        self.bodies().letter_facts(thread, number).map_err(|e| status::reading(&e))
    }
}

/// What became of one thread that was to be moved.
pub(super) fn moved(
    asked: String,
    thread: MessageId,
    file_name: String,
    to: BoxKind,
    outcome: MoveOutcome,
) -> wire::Moved {
    let refused = |reason: Reason, message: String| {
        Some(wire::MailRefusal { reason: reason.to_string(), message })
    };
    let name = &file_name;
    let (kind, refusal) = match outcome {
        MoveOutcome::Moved | MoveOutcome::Already => (Some(to), None),
        MoveOutcome::NotInInbox(kind) => {
            let text = format!(
                "{name} is in {kind}; only threads in the inbox, and threads answered from there, are moved"
            );
            (Some(kind), refused(Reason::NotInInbox, text))
        }
        MoveOutcome::Unseen(count) => {
            let text = format!(
                "{count} newer {} came in since you read {name}; read it again, then decide. \
                 It stays in the inbox",
                if count == 1 { "entry" } else { "entries" }
            );
            (Some(BoxKind::Inbox), refused(Reason::UnseenEntries, text))
        }
        MoveOutcome::Unknown => {
            (None, refused(Reason::UnknownMessage, format!("there is no message {asked}")))
        }
    };
    wire::Moved {
        asked,
        message_id: thread.to_string(),
        file_name,
        r#box: kind.map_or(wire::Box::Unspecified, BoxKind::to_wire).into(),
        refusal,
    }
}

fn entry(it: EntryBody) -> wire::MailEntry {
    let sealed = (!it.sealed.is_empty())
        .then(|| wire::Sealed { envelope: it.sealed.to_vec(), same: Vec::new() });
    wire::MailEntry {
        number: it.number,
        sender: it.sender.to_string(),
        receivers: it.to.iter().map(ToString::to_string).collect(),
        r#type: it.kind,
        at_ms: it.at.as_millis(),
        text: it.text,
        attachments: it
            .attachments
            .iter()
            .map(crate::rules::mailbox::Attachment::to_wire)
            .collect(),
        receipts: Vec::new(),
        node: text(it.node.as_ref()),
        token: text(it.token.as_ref()),
        expires_ms: ms(it.lapses),
        is_imported: it.written.is_some(),
        written_ms: ms(it.written),
        sealed,
        hops: it.hops.unwrap_or_default(),
        cause: it.cause.as_ref().map(cause),
    }
}

/// Every thread has a title; one without is still shown.
fn untitled(thread: MessageId) -> Title {
    Title { subject: String::new(), file_name: format!("-{:08x}.md", thread.short()) }
}
