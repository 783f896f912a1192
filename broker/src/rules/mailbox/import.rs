//! Threads that were written elsewhere.

use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::THREAD_ENTRIES_MAX,
    mail::{BoxKind, file_name},
};

use super::{
    ARRIVALS_MAX, EntryBody, EntryHead, Event, Import, Mailboxes, Reply, ThreadImported,
    event::Title, kind_code, thread::Thread,
};
use crate::rules::{Body, Caller, Decision, Rejection};

impl Mailboxes {
    pub(in crate::rules) fn decide_import(
        &self,
        now: Timestamp,
        caller: &Caller,
        it: &Import,
    ) -> Result<Decision, Rejection> {
        let existing = self.threads.find(it.thread).map(|number| self.threads.get(number));
        let known = existing.map_or(0, Thread::len);
        let roles =
            it.entries.iter().flat_map(|entry| [&entry.sender].into_iter().chain(&entry.to));
        let roles: Vec<&RoleId> = roles.chain(it.copies.iter().map(|(role, _)| role)).collect();
        match existing {
            None => {
                self.may_begin(it.thread)?;
                self.may_take_part(&Thread::empty(it.thread), roles.iter().copied())?;
            }
            Some(thread) => self.may_take_part(thread, roles.iter().copied())?,
        }
        if THREAD_ENTRIES_MAX < known as usize + it.entries.len() {
            return Err(Rejection::ThreadFull { thread: it.thread });
        }
        if ARRIVALS_MAX <= self.arrivals {
            return Err(Rejection::TooMuchMail);
        }
        let mut copies: Vec<(RoleId, BoxKind)> = Vec::new();
        for role in roles {
            let has_copy = existing
                .zip(self.number(role))
                .is_some_and(|(thread, number)| thread.copy_of(number).is_some());
            if !has_copy && !copies.iter().any(|(known, _)| known == role) {
                let named = it.copies.iter().find(|(named, _)| named == role);
                copies.push((role.clone(), named.map_or(BoxKind::Done, |(_, kind)| *kind)));
            }
        }
        let first = it.entries.first().expect("an import has entries");
        let title = (known == 0).then(|| Title {
            subject: it.subject.clone(),
            file_name: it.file_name.clone().unwrap_or_else(|| {
                file_name(first.written, 0, &first.kind, &it.subject, it.thread)
            }),
        });
        let bodies = (known + 1..).zip(&it.entries).map(|(number, entry)| {
            Body::Mail(EntryBody {
                hops: None,
                cause: None,
                thread: it.thread,
                number,
                sender: entry.sender.clone(),
                to: entry.to.clone(),
                kind: entry.kind.clone(),
                at: now,
                text: entry.text.clone(),
                sealed: bytes::Bytes::new(),
                attachments: Vec::new(),
                node: caller.node.as_ref().map(|(node, _)| node.clone()),
                token: caller.token.clone(),
                lapses: None,
                written: Some(entry.written),
                title: title.clone().filter(|_| number == 1),
            })
        });
        let bodies = bodies.collect();
        let entries = it.entries.iter().map(|entry| EntryHead {
            sender: entry.sender.clone(),
            to: entry.to.clone(),
            kind: kind_code(&entry.kind),
        });
        let entries: Vec<EntryHead> = entries.collect();
        let last = known + u32::try_from(entries.len()).expect("at most THREAD_ENTRIES_MAX");
        let imported = ThreadImported { thread: it.thread, first: known + 1, entries, copies };
        let reply = Reply::Imported { thread: it.thread, entries: last };
        Ok(Decision { bodies, ..Decision::new([Event::Imported(imported)], reply) })
    }
}
