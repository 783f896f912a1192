//! What this node last saw of its roles' mail, for when the broker cannot be asked.
//!
//! It is kept to be shown, with its age, and never says that there is new mail: a wait is answered
//! by the broker alone.
//!
//! - **L8** What is kept is bounded by [`BYTES_MAX`]; what was seen longest ago goes first.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use prost::Message as _;
use tasuki_proto::{mail::MessageName, wire};

use crate::{
    clock::{self, Moment},
    role::Seen,
};

/// Kept of what boxes and threads looked like, in bytes: a page of a box has some 20 KiB, a thread
/// as much as its letters.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// What one answer takes besides its message: the question, and its place.
const FRAME_BYTES: usize = 512;

/// A question that can be answered from memory, without who asks it of whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Box { role: String, of: i32, limit: u32, after: String, types: Vec<String>, sender: String },
    Thread { role: String, id: String, from: u32, last: u32 },
    Mailboxes,
}

#[derive(Debug, Clone)]
enum Answer {
    Box(wire::ListBoxResponse),
    Thread(Box<wire::ReadThreadResponse>),
    Mailboxes(wire::ListMailboxesResponse),
}

/// Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(in crate::link) struct Memory(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    answers: BTreeMap<Question, (Moment, Answer)>,
    bytes: usize,
}

fn weight(answer: &Answer) -> usize {
    FRAME_BYTES
        + match answer {
            Answer::Box(it) => it.encoded_len(),
            Answer::Thread(it) => it.encoded_len(),
            Answer::Mailboxes(it) => it.encoded_len(),
        }
}

fn of_box(request: &wire::ListBoxRequest) -> Question {
    Question::Box {
        role: request.role.clone(),
        of: request.r#box,
        limit: request.limit,
        after: request.after.clone(),
        types: request.types.clone(),
        sender: request.sender.clone(),
    }
}

impl Kept {
    fn remember(&mut self, question: Question, answer: Answer, now: Moment) {
        self.bytes += weight(&answer);
        if let Some((_, before)) = self.answers.insert(question, (now, answer)) {
            self.bytes -= weight(&before);
        }
        while BYTES_MAX < self.bytes {
            let oldest = self.answers.iter().min_by_key(|(_, (at, _))| *at);
            let Some(oldest) = oldest.map(|(question, _)| question.clone()) else { return };
            if let Some((_, answer)) = self.answers.remove(&oldest) {
                self.bytes -= weight(&answer);
            }
        }
    }

    fn recall_box(
        &self,
        request: &wire::ListBoxRequest,
    ) -> Option<(Moment, wire::ListBoxResponse)> {
        if let Some((at, Answer::Box(it))) = self.answers.get(&of_box(request)) {
            return Some((*at, it.clone()));
        }
        if !request.after.is_empty() {
            return None;
        }
        let whole = self.answers.iter().filter_map(|(question, (at, answer))| {
            let (Question::Box { role, of, types, sender, .. }, Answer::Box(it)) =
                (question, answer)
            else {
                return None;
            };
            let is_whole = *role == request.role
                && *of == request.r#box
                && types.is_empty()
                && sender.is_empty()
                && it.next.is_empty()
                && it.threads.len() as u64 == it.total;
            is_whole.then_some((*at, it))
        });
        let (at, whole) = whole.max_by_key(|(at, _)| *at)?;
        let threads: Vec<_> =
            whole.threads.iter().filter(|it| is_asked_for(request, it)).cloned().collect();
        Some((at, wire::ListBoxResponse { threads, ..whole.clone() }))
    }

    fn recall_thread(
        &self,
        request: &wire::ReadThreadRequest,
    ) -> Option<(Moment, wire::ReadThreadResponse)> {
        let name: MessageName = request.message.parse().ok()?;
        let known = self.answers.iter().filter_map(|(question, (at, answer))| {
            let (Question::Thread { role, from, last, .. }, Answer::Thread(it)) =
                (question, answer)
            else {
                return None;
            };
            let thread = it.thread.as_ref()?;
            let is_it = *role == request.role
                && (*from, *last) == (request.from, request.last)
                && is_named(&name, thread)
                && (request.r#box == 0 || request.r#box == thread.r#box);
            is_it.then_some((*at, &**it))
        });
        let mut known: Vec<_> = known.collect();
        // Of two that the name fits, the broker alone says whether there are more.
        match (known.pop(), known.is_empty()) {
            (Some((at, it)), true) => Some((at, it.clone())),
            (Some(_) | None, _) => None,
        }
    }
}

fn is_asked_for(request: &wire::ListBoxRequest, thread: &wire::MailThread) -> bool {
    let is_type = request.types.is_empty() || request.types.contains(&thread.latest_type);
    is_type && (request.sender.is_empty() || request.sender == thread.latest_sender)
}

fn is_named(name: &MessageName, thread: &wire::MailThread) -> bool {
    match name {
        MessageName::Id(id) => thread.message_id == id.to_string(),
        MessageName::Prefix(prefix) => {
            thread.message_id.replace('-', "").starts_with(prefix.as_str())
        }
        MessageName::File { name, .. } => thread.file_name == *name,
    }
}

impl Memory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock()
    }

    pub(in crate::link) fn remember_box(
        &self,
        request: &wire::ListBoxRequest,
        seen: &wire::ListBoxResponse,
    ) {
        self.kept().remember(of_box(request), Answer::Box(seen.clone()), clock::now());
    }

    pub(in crate::link) fn recall_box(
        &self,
        request: &wire::ListBoxRequest,
    ) -> Option<Seen<wire::ListBoxResponse>> {
        self.kept().recall_box(request).map(aged)
    }

    pub(in crate::link) fn remember_thread(
        &self,
        request: &wire::ReadThreadRequest,
        seen: &wire::ReadThreadResponse,
    ) {
        let Some(thread) = &seen.thread else { return };
        let question = Question::Thread {
            role: request.role.clone(),
            id: thread.message_id.clone(),
            from: request.from,
            last: request.last,
        };
        self.kept().remember(question, Answer::Thread(Box::new(seen.clone())), clock::now());
    }

    pub(in crate::link) fn recall_thread(
        &self,
        request: &wire::ReadThreadRequest,
    ) -> Option<Seen<wire::ReadThreadResponse>> {
        self.kept().recall_thread(request).map(aged)
    }

    pub(in crate::link) fn remember_mailboxes(&self, seen: &wire::ListMailboxesResponse) {
        let answer = Answer::Mailboxes(seen.clone());
        self.kept().remember(Question::Mailboxes, answer, clock::now());
    }

    pub(in crate::link) fn recall_mailboxes(&self) -> Option<Seen<wire::ListMailboxesResponse>> {
        match self.kept().answers.get(&Question::Mailboxes)? {
            (at, Answer::Mailboxes(it)) => Some(aged((*at, it.clone()))),
            (_, Answer::Box(_) | Answer::Thread(_)) => None,
        }
    }
}

fn aged<T>((at, what): (Moment, T)) -> Seen<T> {
    Seen { what, ago: Some(clock::now().since(at)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "ded66c6a-58c1-47f4-916e-13787156f665";

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    fn thread(id: &str, latest_type: &str, latest_sender: &str) -> wire::MailThread {
        wire::MailThread {
            message_id: id.to_owned(),
            file_name: format!("2026-11-21_2042-BR--{}.md", &id[..8]),
            r#box: wire::Box::Inbox.into(),
            latest_type: latest_type.to_owned(),
            latest_sender: latest_sender.to_owned(),
            ..wire::MailThread::default()
        }
    }

    fn asked(of: wire::Box, types: &[&str], sender: &str) -> wire::ListBoxRequest {
        wire::ListBoxRequest {
            role: "A".to_owned(),
            r#box: of.into(),
            types: types.iter().map(|it| (*it).to_owned()).collect(),
            sender: sender.to_owned(),
            ..wire::ListBoxRequest::default()
        }
    }

    #[test]
    fn a_box_that_was_seen_whole_answers_for_its_parts() {
        let mut kept = Kept::default();
        let whole = asked(wire::Box::Inbox, &[], "");
        let seen = wire::ListBoxResponse {
            threads: vec![thread(ID, "BR", "B"), thread(ID, "ACK", "C")],
            total: 2,
            ..wire::ListBoxResponse::default()
        };
        kept.remember(of_box(&whole), Answer::Box(seen), at(1_000));
        for (request, expected) in [
            (whole.clone(), Some(2)),
            (asked(wire::Box::Inbox, &["BR"], ""), Some(1)),
            (asked(wire::Box::Inbox, &["BR", "ACK"], "C"), Some(1)),
            (asked(wire::Box::Inbox, &["ER"], ""), Some(0)),
            (asked(wire::Box::Done, &[], ""), None),
            (wire::ListBoxRequest { after: "x".to_owned(), ..whole.clone() }, None),
            (wire::ListBoxRequest { role: "B".to_owned(), ..whole.clone() }, None),
        ] {
            let recalled = kept.recall_box(&request).map(|(_, it)| it.threads.len());
            assert_eq!(recalled, expected, "{request:?}");
        }
        let page = wire::ListBoxResponse { total: 9, next: "n".to_owned(), ..Default::default() };
        let mut kept = Kept::default();
        kept.remember(of_box(&whole), Answer::Box(page), at(1_000));
        assert!(kept.recall_box(&whole).is_some(), "the page itself");
        assert!(kept.recall_box(&asked(wire::Box::Inbox, &["BR"], "")).is_none(), "not of a page");
    }

    #[test]
    fn a_thread_is_recalled_by_any_of_its_names() {
        let memory = Memory::default();
        let request = wire::ReadThreadRequest {
            role: "A".to_owned(),
            message: "ded6".to_owned(),
            ..wire::ReadThreadRequest::default()
        };
        let seen = wire::ReadThreadResponse {
            thread: Some(thread(ID, "BR", "B")),
            ..wire::ReadThreadResponse::default()
        };
        memory.remember_thread(&request, &seen);
        let recalled = |message: &str, of: wire::Box, last| {
            let message = message.to_owned();
            let request =
                wire::ReadThreadRequest { message, r#box: of.into(), last, ..request.clone() };
            memory.recall_thread(&request).is_some()
        };
        for name in [ID, "ded66c6a-58", "DED6", "2026-11-21_2042-BR--ded66c6a.md"] {
            assert!(recalled(name, wire::Box::Unspecified, 0), "{name}");
            assert!(recalled(name, wire::Box::Inbox, 0), "{name}");
        }
        assert!(!recalled(ID, wire::Box::Done, 0), "it was elsewhere");
        assert!(!recalled(ID, wire::Box::Inbox, 3), "other entries were seen");
        assert!(!recalled("ded7", wire::Box::Inbox, 0), "another thread");
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes() {
        let mut kept = Kept::default();
        for number in 0..100 {
            let request = wire::ListBoxRequest { role: format!("r{number}"), ..Default::default() };
            for _ in 0..2 {
                let seen =
                    wire::ListBoxResponse { next: "x".repeat(256 * 1024), ..Default::default() };
                kept.remember(of_box(&request), Answer::Box(seen), at(number));
                assert!(kept.bytes <= BYTES_MAX, "L8: {}", kept.bytes);
            }
        }
        let is_kept = |number: u64| {
            let request = wire::ListBoxRequest { role: format!("r{number}"), ..Default::default() };
            kept.recall_box(&request).is_some()
        };
        assert!(is_kept(99) && !is_kept(0));
    }
}
