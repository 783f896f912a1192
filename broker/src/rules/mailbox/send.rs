//! How an entry comes into a thread.

use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::{THREAD_ENTRIES_MAX, THREAD_PARTICIPANTS_MAX, THREADS_MAX},
    mail::{BoxKind, MessageId},
};

use super::{
    ARRIVALS_MAX, EntryBody, EntrySent, Event, MAILBOXES_MAX, Mailboxes, Reply, RoleContext, Send,
    ThreadTarget, event::Title, kind_code, thread::Thread,
};
use crate::{
    hash::Hash,
    rules::{
        Body, Caller, Decision, Rejection,
        guard::{Cause, is_human},
        rejection::listed,
    },
};

impl Mailboxes {
    pub(in crate::rules) fn decide_send(
        &self,
        now: Timestamp,
        caller: &Caller,
        around: RoleContext<'_>,
        it: &Send,
    ) -> Result<Decision, Rejection> {
        let content = it.content();
        if let Some(repeat) = self.said_before(it, content)? {
            return Ok(repeat);
        }
        let mut sent = EntrySent {
            thread: MessageId::from_bits(0),
            entry: 1,
            sender: it.role.clone(),
            to: it.to.clone(),
            kind: kind_code(it.kind.as_str()),
            content,
            client_ref: it.client_ref.clone(),
            sender_box: BoxKind::Outbox,
            acted: 0,
            lapses: it.expires_in_ms.map(|ms| now.plus_millis(ms)),
            files: it.attachments.iter().map(|it| it.hash).collect(),
            earlier: it.earlier,
            hops: None,
            cause: None,
        };
        let mut title = None;
        match &it.target {
            ThreadTarget::Begin(subject) => {
                self.may_begin(subject.thread)?;
                sent.thread = subject.thread;
                if it.to.contains(&it.role) {
                    sent.sender_box = BoxKind::Inbox;
                }
                title = Some(Title {
                    subject: subject.subject.clone(),
                    file_name: subject.file_name(now, it.kind),
                });
                self.may_take_part(
                    &Thread::empty(subject.thread),
                    [&it.role].into_iter().chain(&it.to),
                )?;
            }
            ThreadTarget::Answer(id) => {
                let (number, copy) = self.find(&it.role, *id)?;
                let thread = self.threads.get(number);
                if THREAD_ENTRIES_MAX <= thread.heads.len() {
                    return Err(Rejection::ThreadFull { thread: *id });
                }
                sent.thread = *id;
                sent.entry = thread.len() + 1;
                sent.acted = thread.copies[copy].handed;
                let own = &thread.copies[copy];
                let stays = own.kind == BoxKind::Inbox && 0 < thread.unhanded(copy);
                if it.to.contains(&it.role) || stays {
                    sent.sender_box = BoxKind::Inbox;
                }
                self.may_take_part(thread, it.to.iter())?;
            }
        }
        (sent.cause, sent.hops) = self.cause(around, it, sent.acted);
        for role in &it.to {
            self.may_receive(around, role)?;
        }
        for file in &it.attachments {
            if self.size_of_known(&it.role, &file.hash) != Some(file.size) {
                return Err(Rejection::UnknownAttachment { name: file.name.clone() });
            }
        }
        if ARRIVALS_MAX <= self.arrivals {
            return Err(Rejection::TooMuchMail);
        }
        let body = EntryBody {
            thread: sent.thread,
            number: sent.entry,
            sender: it.role.clone(),
            to: it.to.clone(),
            kind: it.kind.to_string(),
            at: now,
            text: it.text.clone(),
            sealed: it.sealed.clone(),
            attachments: it.attachments.clone(),
            node: caller.node.as_ref().map(|(node, _)| node.clone()),
            token: caller.token.clone(),
            lapses: sent.lapses,
            written: None,
            title,
            hops: sent.hops,
            cause: sent.cause.clone(),
        };
        let reply = Reply::Sent { thread: sent.thread, entry: sent.entry, kind: sent.sender_box };
        let mut decision = Decision::new([Event::Sent(sent)], reply);
        decision.bodies.push(Body::Mail(body));
        Ok(decision)
    }

    /// What led to a letter, as far as the broker can tell, and how many hops it is from a person:
    /// the entry it answers; else the turn that its sender holds; else the newest entry that was
    /// handed to it.
    fn cause(
        &self,
        around: RoleContext<'_>,
        it: &Send,
        answered: u32,
    ) -> (Option<Cause>, Option<u32>) {
        if is_human(&it.role) {
            return (None, None);
        }
        let of_mail = |id: MessageId, entry: u32| {
            let head = self.threads.get(self.threads.find(id)?).head(entry)?;
            Some((Cause::Mail { thread: id, entry }, u32::from(head.hops)))
        };
        let (cause, hops) = match &it.target {
            // Whoever adds to what it wrote itself was handed nothing.
            ThreadTarget::Answer(id) => of_mail(*id, answered.max(1)),
            ThreadTarget::Begin(_) => {
                let turns = around.loops.held_by(&it.role).filter(|(_, held)| held.has_begun());
                let turn = turns.max_by_key(|(_, held)| held.began).map(|(id, held)| {
                    (Cause::Turn { loop_id: id.clone(), turn: held.turn }, held.turns_alone())
                });
                let handed = self.mailbox(&it.role).and_then(|mailbox| mailbox.handed);
                turn.or_else(|| handed.and_then(|(id, entry)| of_mail(id, entry)))
            }
        }
        .unzip();
        let hops = hops.map(|hops| hops.saturating_add(1));
        // Whoever a person let go on is as near to one as that.
        (cause, hops.filter(|_| !around.guard.is_fresh(&it.role)))
    }

    /// The answer to words that were said before and need not be said again.
    fn said_before(&self, it: &Send, content: Hash) -> Result<Option<Decision>, Rejection> {
        let Some(mailbox) = self.mailbox(&it.role) else { return Ok(None) };
        let again = |thread: MessageId, entry: u32| -> Result<Decision, Rejection> {
            let kind = self.thread_facts(&it.role, thread)?.kind;
            Ok(Decision::repeat(Reply::Sent { thread, entry, kind }))
        };
        if let Some(name) = &it.client_ref
            && let Some(known) = mailbox.refs.iter().rev().find(|known| known.name == *name)
        {
            if known.content != content {
                return Err(Rejection::ClientRefReused { name: name.clone() });
            }
            return again(known.thread, known.entry).map(Some);
        }
        let mut same = mailbox.recent.iter().rev().filter(|known| known.content == content);
        match same.find(|known| self.is_unseen_by_all(known.thread, known.entry)) {
            Some(known) if it.fold => again(known.thread, known.entry).map(Some),
            Some(_) | None => Ok(None),
        }
    }

    fn is_unseen_by_all(&self, id: MessageId, entry: u32) -> bool {
        let Some(number) = self.threads.find(id) else { return false };
        let thread = self.threads.get(number);
        let Some(head) = thread.head(entry) else { return false };
        let addressed = thread.copies.iter().enumerate().filter(|(copy, _)| head.is_to(*copy));
        addressed.into_iter().all(|(_, copy)| copy.seen < entry)
    }

    pub(super) fn may_begin(&self, thread: MessageId) -> Result<(), Rejection> {
        if self.threads.find(thread).is_some() {
            return Err(Rejection::MessageExists { thread });
        }
        if THREADS_MAX <= self.threads.len() {
            return Err(Rejection::TooMuchMail);
        }
        Ok(())
    }

    fn may_receive(&self, around: RoleContext<'_>, role: &RoleId) -> Result<(), Rejection> {
        match self.mailbox(role) {
            Some(mailbox) if mailbox.is_closed => {
                let known = listed(self.open_roles(around).into_iter());
                Err(Rejection::MailboxClosed { role: role.clone(), known })
            }
            Some(_) => Ok(()),
            None if around.knows(role) => Ok(()),
            None => Err(self.unknown_receiver(around, role)),
        }
    }

    /// Whether so many more roles find room in the thread, and in the workspace.
    pub(super) fn may_take_part<'a>(
        &self,
        thread: &Thread,
        roles: impl Iterator<Item = &'a RoleId>,
    ) -> Result<(), Rejection> {
        let (mut new_copies, mut new_mailboxes) = (Vec::new(), 0);
        for role in roles {
            let number = self.number(role);
            let has_copy = number.is_some_and(|it| thread.copy_of(it).is_some());
            if !has_copy && !new_copies.contains(&role) {
                new_copies.push(role);
                new_mailboxes += usize::from(number.is_none());
            }
        }
        if THREAD_PARTICIPANTS_MAX < thread.copies.len() + new_copies.len() {
            return Err(Rejection::TooManyParticipants { thread: thread.id });
        }
        if MAILBOXES_MAX < self.mailboxes.len() + new_mailboxes {
            return Err(Rejection::TooManyMailboxes);
        }
        Ok(())
    }
}
