//! What this node last saw of loops and of its roles' mail, for when the broker cannot be asked.
//!
//! It is kept to be shown, with its age, and decides nothing: whose turn it is and whether there is
//! new mail, the broker alone says.
//!
//! - **L6** What is kept of loops is bounded by [`LOOPS_BYTES_MAX`]; what was seen longest ago goes
//!   first.
//! - **L8** The same of mail, by [`MAIL_BYTES_MAX`].

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use prost::Message as _;
use tasuki_proto::{mail::MessageName, wire};
use tokio::time;

use super::{Link, LinkState, call::is_away};
use crate::{
    client::{
        any::{AnyRequest, AnyResponse},
        retry::chance,
    },
    clock::{self, Moment},
    refusal::{Refusal, Seen},
};

/// Kept of what loops looked like, in bytes: each has some 1 MiB at most.
const LOOPS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Kept of what boxes and threads looked like, in bytes: a page of a box has some 20 KiB, a thread
/// as much as its letters.
const MAIL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What one answer takes besides its message: the question, and its place.
const FRAME_BYTES: usize = 512;

/// Between two looks at all loops, in milliseconds. It is what people see of a broker that went
/// away, so a minute more does not matter to them.
const LOOK_EVERY_MS: u64 = 60_000;

/// A workspace of so many loops is looked at half as often: a list costs by its length.
const LOOPS_USUAL: usize = 200;

/// A question that can be answered from memory, without who asks it of whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Loop(String),
    Loops,
    Box { role: String, of: i32, limit: u32, after: String, types: Vec<String>, sender: String },
    Thread { role: String, id: String, from: u32, last: u32 },
    Mailboxes,
}

#[derive(Debug, Clone)]
enum Answer {
    Loop(Box<wire::GetLoopResponse>),
    Loops(wire::ListLoopsResponse),
    Box(wire::ListBoxResponse),
    Thread(Box<wire::ReadThreadResponse>),
    Mailboxes(wire::ListMailboxesResponse),
}

impl Answer {
    fn weight(&self) -> usize {
        FRAME_BYTES
            + match self {
                Self::Loop(it) => it.encoded_len(),
                Self::Loops(it) => it.encoded_len(),
                Self::Box(it) => it.encoded_len(),
                Self::Thread(it) => it.encoded_len(),
                Self::Mailboxes(it) => it.encoded_len(),
            }
    }
}

/// Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    loops: Arc<Mutex<Kept>>,
    mail: Arc<Mutex<Kept>>,
}

impl Default for Cache {
    fn default() -> Self {
        let kept = |bytes_max| Arc::new(Mutex::new(Kept::new(bytes_max)));
        Self { loops: kept(LOOPS_BYTES_MAX), mail: kept(MAIL_BYTES_MAX) }
    }
}

#[derive(Debug)]
struct Kept {
    answers: BTreeMap<Question, (Moment, Answer)>,
    bytes: usize,
    bytes_max: usize,
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
    const fn new(bytes_max: usize) -> Self {
        Self { answers: BTreeMap::new(), bytes: 0, bytes_max }
    }

    fn remember(&mut self, question: Question, answer: Answer, now: Moment) {
        self.bytes += answer.weight();
        if let Some((_, before)) = self.answers.insert(question, (now, answer)) {
            self.bytes -= before.weight();
        }
        while self.bytes_max < self.bytes {
            let oldest = self.answers.iter().min_by_key(|(_, (at, _))| *at);
            let Some(oldest) = oldest.map(|(question, _)| question.clone()) else { return };
            if let Some((_, answer)) = self.answers.remove(&oldest) {
                self.bytes -= answer.weight();
            }
        }
    }

    fn recall_loops(&self) -> Option<(Moment, wire::ListLoopsResponse)> {
        match self.answers.get(&Question::Loops)? {
            (at, Answer::Loops(it)) => Some((*at, it.clone())),
            _ => None,
        }
    }

    /// The loop itself, or as it was in the list, whichever was seen later.
    fn recall_loop(&self, name: &str) -> Option<(Moment, wire::GetLoopResponse)> {
        let own = match self.answers.get(&Question::Loop(name.to_owned())) {
            Some((at, Answer::Loop(it))) => Some((*at, (**it).clone())),
            _ => None,
        };
        let listed = self.recall_loops().and_then(|(at, list)| {
            let found = list.loops.into_iter().find(|it| it.r#loop == name)?;
            Some((at, wire::GetLoopResponse { r#loop: Some(found), ..Default::default() }))
        });
        own.into_iter().chain(listed).rev().max_by_key(|(at, _)| *at)
    }

    fn recall_mailboxes(&self) -> Option<(Moment, wire::ListMailboxesResponse)> {
        match self.answers.get(&Question::Mailboxes)? {
            (at, Answer::Mailboxes(it)) => Some((*at, it.clone())),
            _ => None,
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

impl Cache {
    fn loops(&self) -> MutexGuard<'_, Kept> {
        self.loops.lock()
    }

    fn mail(&self) -> MutexGuard<'_, Kept> {
        self.mail.lock()
    }

    /// Keeps what was answered, if it is worth keeping.
    pub(super) fn remember(&self, request: &AnyRequest, response: &AnyResponse) {
        let now = clock::now();
        if let Some(request) = request.downcast_ref::<wire::GetLoopRequest>()
            && let Some(seen) = response.downcast_ref::<wire::GetLoopResponse>()
        {
            let answer = Answer::Loop(Box::new(seen.clone()));
            self.loops().remember(Question::Loop(request.r#loop.clone()), answer, now);
        } else if let Some(seen) = response.downcast_ref::<wire::ListMailboxesResponse>() {
            self.mail().remember(Question::Mailboxes, Answer::Mailboxes(seen.clone()), now);
        } else if let Some(request) = request.downcast_ref::<wire::ListBoxRequest>()
            && let Some(seen) = response.downcast_ref::<wire::ListBoxResponse>()
        {
            self.mail().remember(of_box(request), Answer::Box(seen.clone()), now);
        } else if let Some(request) = request.downcast_ref::<wire::ReadThreadRequest>()
            && let Some(seen) = response.downcast_ref::<wire::ReadThreadResponse>()
            && let Some(thread) = &seen.thread
        {
            let question = Question::Thread {
                role: request.role.clone(),
                id: thread.message_id.clone(),
                from: request.from,
                last: request.last,
            };
            self.mail().remember(question, Answer::Thread(Box::new(seen.clone())), now);
        }
    }

    /// What was last seen of what a request asks for.
    pub(super) fn recall(&self, request: &AnyRequest) -> Option<Seen<AnyResponse>> {
        if let Some(request) = request.downcast_ref::<wire::GetLoopRequest>() {
            self.loops().recall_loop(&request.r#loop).map(aged)
        } else if request.downcast_ref::<wire::ListMailboxesRequest>().is_some() {
            self.mail().recall_mailboxes().map(aged)
        } else if let Some(request) = request.downcast_ref::<wire::ListBoxRequest>() {
            self.mail().recall_box(request).map(aged)
        } else if let Some(request) = request.downcast_ref::<wire::ReadThreadRequest>() {
            self.mail().recall_thread(request).map(aged)
        } else {
            None
        }
    }

    fn recall_loops(&self) -> Option<Seen<wire::ListLoopsResponse>> {
        let (at, what) = self.loops().recall_loops()?;
        Some(Seen { what, ago: Some(clock::now().since(at)) })
    }
}

fn aged<T: Send + 'static>((at, what): (Moment, T)) -> Seen<AnyResponse> {
    Seen { what: Box::new(what), ago: Some(clock::now().since(at)) }
}

impl Link {
    /// All loops; while the broker is out of reach, as they were last seen.
    pub async fn list_loops(&self) -> Result<Seen<wire::ListLoopsResponse>, Refusal> {
        let _permit = self.calls.acquire_without_role().await?;
        match self.every_loop().await {
            Ok(list) => {
                let answer = Answer::Loops(list.clone());
                self.shared.cache.loops().remember(Question::Loops, answer, clock::now());
                Ok(Seen::now(list))
            }
            Err(refusal) => self.last_loops().filter(|_| is_away(&refusal)).ok_or(refusal),
        }
    }

    /// All loops as they were last seen.
    pub fn last_loops(&self) -> Option<Seen<wire::ListLoopsResponse>> {
        self.shared.cache.recall_loops()
    }

    /// All pages of the list in one.
    async fn every_loop(&self) -> Result<wire::ListLoopsResponse, Refusal> {
        let mut all = wire::ListLoopsResponse::default();
        loop {
            let after = all.next.clone();
            let page = self.query(wire::ListLoopsRequest { after, ..Default::default() }).await?;
            all.loops.extend(page.loops);
            all.next = page.next;
            if all.next.is_empty() {
                return Ok(all);
            }
        }
    }
}

/// Looks at all loops now and then, so that there is something to show. Runs until the node
/// stops.
pub(super) async fn run(link: Link) {
    let mut state = link.state();
    loop {
        if state.wait_for(LinkState::is_connected).await.is_err() {
            return;
        }
        let count = match link.list_loops().await {
            Ok(list) => list.what.loops.len(),
            Err(refusal) => {
                tracing::debug!(%refusal, "the loops cannot be looked at");
                0
            }
        };
        let longer = u64::try_from(1 + count / LOOPS_USUAL).unwrap_or(u64::MAX);
        let every = LOOK_EVERY_MS.saturating_mul(longer);
        time::sleep(Duration::from_millis(every / 2 + chance() % every)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "ded66c6a-58c1-47f4-916e-13787156f665";

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    fn named(name: &str, turn: u64, bytes: usize) -> wire::GetLoopResponse {
        let of = wire::Loop { r#loop: name.to_owned(), turn, ..wire::Loop::default() };
        let latest = wire::Entry { summary: "x".repeat(bytes), ..wire::Entry::default() };
        wire::GetLoopResponse { r#loop: Some(of), latest: Some(latest), ..Default::default() }
    }

    fn of_loop(name: &str, turn: u64, bytes: usize) -> (Question, Answer) {
        let answer = Answer::Loop(Box::new(named(name, turn, bytes)));
        (Question::Loop(name.to_owned()), answer)
    }

    #[test]
    fn the_latest_look_is_recalled_with_its_age() {
        let mut kept = Kept::new(LOOPS_BYTES_MAX);
        let told = |kept: &Kept| {
            let (at, seen) = kept.recall_loop("main")?;
            Some((seen.r#loop?.turn, at.since(Moment::default()).as_millis()))
        };
        assert_eq!(told(&kept), None);
        let (question, answer) = of_loop("main", 1, 0);
        kept.remember(question, answer, at(1_000));
        assert_eq!(told(&kept), Some((1, 1_000)));
        let loops = vec![named("main", 3, 0).r#loop.expect("a loop")];
        let list = wire::ListLoopsResponse { loops, next: String::new() };
        kept.remember(Question::Loops, Answer::Loops(list), at(5_000));
        assert_eq!(told(&kept), Some((3, 5_000)));
        let (question, answer) = of_loop("main", 4, 0);
        kept.remember(question, answer, at(7_000));
        assert_eq!(told(&kept), Some((4, 7_000)));
    }

    /// Holds L6.
    #[test]
    fn what_is_kept_of_loops_is_bounded_and_the_oldest_goes() {
        let mut kept = Kept::new(LOOPS_BYTES_MAX);
        for number in 0..100 {
            for turn in 0..3 {
                let (question, answer) = of_loop(&format!("l{number}"), turn, 256 * 1024);
                kept.remember(question, answer, at(number));
                assert!(kept.bytes <= LOOPS_BYTES_MAX, "L6");
            }
        }
        let whole: usize = kept.answers.values().map(|(_, seen)| seen.weight()).sum();
        assert_eq!((kept.bytes, kept.answers.len()), (whole, 15));
        assert!(kept.recall_loop("l99").is_some() && kept.recall_loop("l80").is_none());
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
        let mut kept = Kept::new(MAIL_BYTES_MAX);
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
        let mut kept = Kept::new(MAIL_BYTES_MAX);
        kept.remember(of_box(&whole), Answer::Box(page), at(1_000));
        assert!(kept.recall_box(&whole).is_some(), "the page itself");
        assert!(kept.recall_box(&asked(wire::Box::Inbox, &["BR"], "")).is_none(), "not of a page");
    }

    #[test]
    fn a_thread_is_recalled_by_any_of_its_names() {
        let cache = Cache::default();
        let request = wire::ReadThreadRequest {
            role: "A".to_owned(),
            message: "ded6".to_owned(),
            ..wire::ReadThreadRequest::default()
        };
        let seen = wire::ReadThreadResponse {
            thread: Some(thread(ID, "BR", "B")),
            ..wire::ReadThreadResponse::default()
        };
        cache.remember(&AnyRequest::new(request.clone()), &(Box::new(seen) as AnyResponse));
        let recalled = |message: &str, of: wire::Box, last| {
            let message = message.to_owned();
            let request =
                wire::ReadThreadRequest { message, r#box: of.into(), last, ..request.clone() };
            cache.recall(&AnyRequest::new(request)).is_some()
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
    fn what_is_kept_of_mail_is_bounded_and_the_oldest_goes() {
        let mut kept = Kept::new(MAIL_BYTES_MAX);
        for number in 0..100 {
            let request = wire::ListBoxRequest { role: format!("r{number}"), ..Default::default() };
            for _ in 0..2 {
                let seen =
                    wire::ListBoxResponse { next: "x".repeat(256 * 1024), ..Default::default() };
                kept.remember(of_box(&request), Answer::Box(seen), at(number));
                assert!(kept.bytes <= MAIL_BYTES_MAX, "L8: {}", kept.bytes);
            }
        }
        let is_kept = |number: u64| {
            let request = wire::ListBoxRequest { role: format!("r{number}"), ..Default::default() };
            kept.recall_box(&request).is_some()
        };
        assert!(is_kept(99) && !is_kept(0));
    }
}
