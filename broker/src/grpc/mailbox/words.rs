//! Threads and entries as callers get them: facts from the state, words from the journal.

use tasuki_proto::{
    id::{RoleId, Timestamp},
    mail::{BoxKind, MessageId},
    wire,
};
use tonic::Status;

use super::{
    super::{
        entered::Entered,
        refuse,
        render::{ms, text},
    },
    Answer,
};
use crate::{
    journal::{BodyKey, JournalError, codec},
    rules::mailbox::{EntryBody, EntryReceipts, ThreadFacts, Title},
    workspace::{Told, View},
};

/// Text of one page of a thread, in bytes: half of what one message may carry.
const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

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

impl Entered {
    /// What a wait for mail ended with.
    pub(in crate::grpc) fn mail_answer(&self, told: &Told) -> Result<wire::MailAnswer, Status> {
        use wire::mail_answer::Standing;
        let Answer::Mail(it) = &told.answer else {
            unreachable!("a question about mail is answered with some")
        };
        let mut answer = wire::MailAnswer {
            unseen_threads: it.unseen_threads as u64,
            sequence: told.sequence.get(),
            ..wire::MailAnswer::default()
        };
        let standing = match &it.mail {
            _ if told.is_superseded => Standing::Superseded,
            None => Standing::StillWaiting,
            Some(facts) => {
                answer.thread = Some(self.thread(facts)?);
                (answer.entries, answer.next) =
                    self.letters(facts.id, facts.first_unseen, facts.entries)?;
                Standing::Mail
            }
        };
        answer.set_standing(standing);
        Ok(answer)
    }

    /// A thread as its role has it.
    pub(super) fn thread(&self, it: &ThreadFacts) -> Result<wire::MailThread, Status> {
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
            latest_ms: latest.at.as_millis(),
            is_urgent: it.is_urgent,
            is_dead: it.is_dead,
            participants: it.participants.iter().map(ToString::to_string).collect(),
            handed: it.handed,
            handed_through: it.handed_through,
            seen_through: it.seen_through,
            first: sealed_first,
        })
    }

    /// As many of them, from the first on, as fit: sealed ones come with the words that name them.
    pub(super) fn threads(&self, all: &[ThreadFacts]) -> Result<Vec<wire::MailThread>, Status> {
        let (mut threads, mut bytes) = (Vec::with_capacity(all.len()), 0);
        for facts in all {
            let thread = self.thread(facts)?;
            let sealed = thread.first.as_ref().and_then(|it| it.sealed.as_ref());
            bytes += sealed.map_or(0, |it| it.envelope.len());
            if PAGE_BYTES_MAX < bytes && !threads.is_empty() {
                break;
            }
            threads.push(thread);
        }
        Ok(threads)
    }

    /// Entries `from` to `last`, as many as fit, and where the next page begins.
    pub(super) fn letters(
        &self,
        thread: MessageId,
        from: u32,
        last: u32,
    ) -> Result<(Vec<wire::MailEntry>, u32), Status> {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for number in from..=last {
            let letter = self.letter(thread, number)?;
            bytes += letter.text.len() + letter.sealed.len();
            if PAGE_BYTES_MAX < bytes && !entries.is_empty() {
                return Ok((entries, number));
            }
            entries.push(entry(letter));
        }
        Ok((entries, 0))
    }

    /// How far an entry got.
    pub(super) async fn receipts(
        &self,
        thread: MessageId,
        number: u32,
    ) -> Result<Vec<EntryReceipts>, Status> {
        self.look(move |view| view.workspace.mail.receipts(thread, number)).await
    }

    /// What a thread is called.
    pub(super) fn title(&self, thread: MessageId) -> Result<Title, Status> {
        Ok(self.facts_of(thread, 1)?.title.unwrap_or_else(|| untitled(thread)))
    }

    /// Entry `number` with its words.
    pub(super) fn letter(&self, thread: MessageId, number: u32) -> Result<EntryBody, Status> {
        let key = codec::mail_key(thread, number);
        let (mut body, place) = self.decoded(thread, number, &key)?;
        if place == codec::MailText::Apart {
            let key = codec::mail_text_key(thread, number);
            let words = self.kept(&key)?;
            body.text = String::from_utf8(words.to_vec()).map_err(|_| {
                let what = "is not text".to_owned();
                refuse::reading(&self.damaged(&key, what))
            })?;
        }
        Ok(body)
    }

    /// The same without a text that is kept apart.
    pub(super) fn facts_of(&self, thread: MessageId, number: u32) -> Result<EntryBody, Status> {
        Ok(self.decoded(thread, number, &codec::mail_key(thread, number))?.0)
    }

    fn decoded(
        &self,
        thread: MessageId,
        number: u32,
        key: &BodyKey,
    ) -> Result<(EntryBody, codec::MailText), Status> {
        let bytes = self.kept(key)?;
        let decoded = codec::decode_mail(thread, number, bytes);
        decoded.map_err(|e| refuse::reading(&self.damaged(key, e.to_string())))
    }

    pub(super) fn kept(&self, key: &BodyKey) -> Result<bytes::Bytes, Status> {
        let bytes = self.journal().body(&self.workspace, key);
        let bytes =
            bytes.and_then(|bytes| bytes.ok_or_else(|| self.damaged(key, "missing".to_owned())));
        bytes.map_err(|e| refuse::reading(&e))
    }

    fn damaged(&self, key: &BodyKey, what: String) -> JournalError {
        let place = format!("workspace {}, body {}", self.workspace, key.0);
        JournalError::Damaged { place, what }
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
    }
}

/// Every thread has a title; one without is still shown.
fn untitled(thread: MessageId) -> Title {
    Title { subject: String::new(), file_name: format!("-{:08x}.md", thread.short()) }
}
