//! Mailboxes without a broker: what a role is told, and what becomes of what it says.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use tasuki_node::{
    link::{AnyRequest, AnyResponse, Moving, Sent},
    mcp::Settings,
    outbox::{Summarised, Summary, Untold},
    role::{Refusal, Seen},
    wait::{Answer, MailFilter, Question},
};
use tasuki_proto::{
    id::{IdempotencyKey, RoleId, Timestamp},
    mail::{BoxKind, MessageId, MessageName, file_name},
    reason::Reason,
    wire::{self, MailEntry, MailMark, MailThread, mail_answer::Standing},
};
use tokio::sync::watch;

use crate::world::{self, Loop, World};

/// When everything happens: 2026-11-21T20:42:52.094Z.
const AT_MS: u64 = 1_795_293_772_094;

#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) id: MessageId,
    pub(crate) file_name: String,
    pub(crate) subject: String,
    pub(crate) entries: Vec<MailEntry>,
    pub(crate) copies: BTreeMap<String, Copy>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Copy {
    pub(crate) place: Option<BoxKind>,
    pub(crate) handed: u32,
    pub(crate) seen: u32,
}

impl Thread {
    fn unseen(&self, role: &str) -> impl Iterator<Item = &MailEntry> {
        let seen = self.copies[role].seen;
        self.entries
            .iter()
            .filter(move |it| seen < it.number && it.receivers.iter().any(|to| to == role))
    }

    fn shown_to(&self, role: &str) -> MailThread {
        let (first, latest) = (&self.entries[0], self.entries.last().unwrap());
        let copy = &self.copies[role];
        MailThread {
            message_id: self.id.to_string(),
            file_name: self.file_name.clone(),
            subject: self.subject.clone(),
            r#type: first.r#type.clone(),
            original_sender: first.sender.clone(),
            r#box: copy.place.map_or(wire::Box::Unspecified, BoxKind::to_wire).into(),
            entries: latest.number,
            unseen: u32::try_from(self.unseen(role).count()).unwrap(),
            latest_type: latest.r#type.clone(),
            latest_sender: latest.sender.clone(),
            latest_receivers: latest.receivers.clone(),
            latest_ms: latest.at_ms,
            is_urgent: self.unseen(role).any(|it| it.r#type == "URGENT"),
            participants: self.copies.keys().cloned().collect(),
            handed_through: copy.handed,
            seen_through: copy.seen,
            first_unseen: self.unseen(role).next().map_or(0, |it| it.number),
            ..Default::default()
        }
    }
}

/// What is true of all mail there is.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) threads: Vec<Thread>,
    /// What was asked to be sent, by whom, under which key.
    pub(crate) sends: Vec<(String, wire::SendRequest, Option<IdempotencyKey>)>,
    pub(crate) moves: Vec<wire::MoveRequest>,
    pub(crate) lists: Vec<wire::ListBoxRequest>,
    pub(crate) searches: Vec<wire::SearchMailRequest>,
    pub(crate) found: wire::SearchMailResponse,
    /// Role, thread, entry and mark, in order.
    pub(crate) marks: Vec<(String, MessageId, u32, MailMark)>,
    pub(crate) waiting: usize,
    pub(crate) closed: Vec<String>,
    pub(crate) opened: Vec<String>,
    pub(crate) dead: Vec<MailThread>,
    /// What waits at the node, or was refused late.
    pub(crate) outbox: Vec<Summary>,
    /// The broker cannot be reached.
    pub(crate) is_away: bool,
    /// Entries that fit into one page, if not all do.
    pub(crate) page: Option<usize>,
    newest_wait: BTreeMap<(String, MailFilter), u64>,
}

/// All mailboxes.
#[derive(Debug)]
pub(crate) struct Post(pub(crate) watch::Sender<State>);

impl Post {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(State::default())))
    }

    /// A server for A and B, which have mail and these toolsets.
    pub(crate) async fn world(self: &Arc<Self>, toolsets: &str, settings: Settings) -> World {
        let roles = ["A", "B"].map(|it| it.parse::<RoleId>().unwrap());
        let sets = toolsets.split(',').map(|it| it.parse().unwrap()).collect::<Vec<_>>();
        let toolsets = roles.iter().map(|role| (role.clone(), sets.clone())).collect();
        let settings = Settings { toolsets, ..settings };
        let mail = |role| Some(self.of(role));
        World::with_mail("127.0.0.1:0", Loop::new(), settings, mail).await
    }

    pub(crate) fn of(self: &Arc<Self>, role: RoleId) -> Arc<dyn world::Mailbox> {
        Arc::new(Mailbox { role, post: Arc::clone(self) })
    }

    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&State) -> bool) -> State {
        let mut states = self.0.subscribe();
        let waited =
            tokio::time::timeout(Duration::from_secs(20), states.wait_for(|state| is_so(state)));
        match waited.await {
            Ok(state) => state.unwrap().clone(),
            Err(_) => panic!("never {what}: {:?}", self.0.borrow()),
        }
    }

    /// A letter from `from` to `to`, which begins thread `number`.
    pub(crate) fn begin(&self, number: u32, from: &str, to: &[&str], kind: &str, words: [&str; 2]) {
        let id = id(number);
        let [subject, text] = words;
        let name = file_name(Timestamp::from_millis(AT_MS), 0, kind, subject, id);
        let copies = to.iter().map(|it| (it.to_string(), BoxKind::Inbox));
        let copies = copies.chain([(from.to_owned(), BoxKind::Outbox)]);
        let copies =
            copies.map(|(role, place)| (role, Copy { place: Some(place), ..Copy::default() }));
        let thread = Thread {
            id,
            file_name: name,
            subject: subject.to_owned(),
            entries: vec![entry(1, from, to, kind, text)],
            copies: copies.collect(),
        };
        self.0.send_modify(|state| state.threads.push(thread));
    }

    /// One more in thread `number`.
    pub(crate) fn answer(&self, number: u32, from: &str, to: &[&str], kind: &str, text: &str) {
        self.0.send_modify(|state| {
            let thread = state.threads.iter_mut().find(|it| it.id == id(number)).unwrap();
            let next = u32::try_from(thread.entries.len() + 1).unwrap();
            thread.entries.push(entry(next, from, to, kind, text));
            for role in to {
                thread.copies.entry((*role).to_owned()).or_default().place = Some(BoxKind::Inbox);
            }
            thread.copies.entry(from.to_owned()).or_default().place = Some(BoxKind::Outbox);
        });
    }
}

/// `00000001-0000-4000-8000-000000000000`, and so on.
pub(crate) fn id(number: u32) -> MessageId {
    MessageId::from_bits(u128::from(number) << 96 | 0x4000_8000_0000_0000_0000)
}

fn entry(number: u32, from: &str, to: &[&str], kind: &str, text: &str) -> MailEntry {
    let receivers: Vec<String> = to.iter().map(ToString::to_string).collect();
    let receipt = |role: &String| wire::MailReceipt {
        role: role.clone(),
        stored_ms: AT_MS,
        ..Default::default()
    };
    MailEntry {
        number,
        sender: from.to_owned(),
        receipts: receivers.iter().map(receipt).collect(),
        receivers,
        r#type: kind.to_owned(),
        at_ms: AT_MS + u64::from(number - 1) * 1000,
        text: text.to_owned(),
        node: "desk".to_owned(),
        ..Default::default()
    }
}

#[derive(Debug)]
struct Mailbox {
    role: RoleId,
    post: Arc<Post>,
}

fn no(reason: Reason, message: String) -> Refusal {
    Refusal { reason, message }
}

impl Mailbox {
    fn find(&self, state: &State, name: &str) -> Result<usize, Refusal> {
        let own = |it: &&(usize, &Thread)| it.1.copies.contains_key(self.role.as_str());
        let named = name.parse::<MessageName>().expect("checked before");
        let is_it = |it: &&(usize, &Thread)| match &named {
            MessageName::Id(id) => it.1.id == *id,
            MessageName::Prefix(digits) => it.1.id.to_string().replace('-', "").starts_with(digits),
            MessageName::File { name, .. } => it.1.file_name == *name,
        };
        let all: Vec<_> = state.threads.iter().enumerate().collect();
        let found: Vec<_> = all.iter().filter(own).filter(is_it).collect();
        match found[..] {
            [(at, _)] => Ok(*at),
            [] => Err(no(
                Reason::UnknownMessage,
                format!("{} has no message {name}; nothing happened.", self.role),
            )),
            _ => {
                let names: Vec<_> = found.iter().map(|it| it.1.id.to_string()).collect();
                let message = format!("{name} may be {}; say more of it.", names.join(" or "));
                Err(no(Reason::AmbiguousMessage, message))
            }
        }
    }

    fn is_here(&self) -> Result<(), Refusal> {
        match self.post.0.borrow().is_away {
            true => Err(no(Reason::Unavailable, "the broker is away".to_owned())),
            false => Ok(()),
        }
    }

    fn seen<T>(&self, what: T) -> Seen<T> {
        let ago = self.post.0.borrow().is_away.then_some(Duration::from_secs(42));
        Seen { what, ago }
    }
}

struct Counted<'a>(&'a Post);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.waiting -= 1);
    }
}

impl Mailbox {
    fn list_box(
        &self,
        request: wire::ListBoxRequest,
    ) -> Result<Seen<wire::ListBoxResponse>, Refusal> {
        let state = self.post.0.borrow().clone();
        let place = BoxKind::of_wire(request.r#box());
        self.post.0.send_modify(|state| state.lists.push(request.clone()));
        let role = self.role.as_str();
        let own = state
            .threads
            .iter()
            .filter(|it| it.copies.get(role).is_some_and(|copy| copy.place == place));
        let mut threads: Vec<_> = own.map(|it| it.shown_to(role)).collect();
        threads.sort_by_key(|it| !it.is_urgent);
        let total = threads.len();
        let begin = request.after.parse().unwrap_or(0);
        let limit = usize::try_from(request.limit).unwrap();
        let end = total.min(begin + limit);
        Ok(self.seen(wire::ListBoxResponse {
            threads: threads[begin..end].to_vec(),
            total: u64::try_from(total).unwrap(),
            next: if end < total { end.to_string() } else { String::new() },
            sequence: 1,
        }))
    }

    fn read_thread(
        &self,
        request: wire::ReadThreadRequest,
    ) -> Result<Seen<wire::ReadThreadResponse>, Refusal> {
        assert_eq!(request.mark(), MailMark::None, "a node tells by itself");
        let state = self.post.0.borrow().clone();
        let thread = &state.threads[self.find(&state, &request.message)?];
        let all = thread.entries.len();
        let from = match request.last {
            0 => usize::try_from(request.from.max(1)).unwrap(),
            last => (all + 1).saturating_sub(usize::try_from(last).unwrap()).max(1),
        };
        let end = state.page.map_or(all, |page| all.min(from - 1 + page));
        let next = if end < all { u32::try_from(end + 1).unwrap() } else { 0 };
        Ok(self.seen(wire::ReadThreadResponse {
            thread: Some(thread.shown_to(self.role.as_str())),
            entries: thread.entries.get(from - 1..end).unwrap_or_default().to_vec(),
            next,
            sequence: 1,
        }))
    }

    async fn await_mail(
        &self,
        filter: &MailFilter,
        hold: Duration,
    ) -> Result<wire::MailAnswer, Refusal> {
        self.is_here()?;
        let role = self.role.as_str();
        let key = (role.to_owned(), filter.clone());
        let mut number = 0;
        self.post.0.send_modify(|state| {
            state.waiting += 1;
            let newest = state.newest_wait.entry(key.clone()).or_default();
            *newest += u64::from(!hold.is_zero());
            number = *newest;
        });
        let _counted = Counted(&self.post);
        let fits = |it: &MailEntry| {
            filter.kind.is_none_or(|kind| kind.as_str() == it.r#type)
                && filter.sender.as_ref().is_none_or(|sender| sender.as_str() == it.sender)
        };
        let found = |state: &State| {
            let own = state.threads.iter().filter(|it| {
                it.copies.get(role).is_some_and(|it| it.place == Some(BoxKind::Inbox))
            });
            let mut own: Vec<_> = own.filter(|it| it.unseen(role).any(fits)).cloned().collect();
            own.sort_by_key(|it| !it.shown_to(role).is_urgent);
            let count = own.len();
            own.into_iter().next().map(|it| (it, count))
        };
        let is_newest = |state: &State| state.newest_wait[&key] == number;
        let mut states = self.post.0.subscribe();
        let over = states.wait_for(|state| found(state).is_some() || !is_newest(state));
        let state = match tokio::time::timeout(hold, over).await {
            Ok(state) => state.unwrap().clone(),
            Err(_) => self.post.0.borrow().clone(),
        };
        let Some((thread, count)) = found(&state) else {
            let standing =
                if is_newest(&state) { Standing::StillWaiting } else { Standing::Superseded };
            return Ok(wire::MailAnswer { standing: standing.into(), ..Default::default() });
        };
        let first = thread.unseen(role).next().unwrap().number;
        Ok(wire::MailAnswer {
            standing: Standing::Mail.into(),
            thread: Some(thread.shown_to(role)),
            entries: thread.entries.iter().filter(|it| first <= it.number).cloned().collect(),
            unseen_threads: u64::try_from(count).unwrap(),
            ..Default::default()
        })
    }

    fn search_mail(
        &self,
        request: wire::SearchMailRequest,
    ) -> Result<wire::SearchMailResponse, Refusal> {
        self.is_here()?;
        self.post.0.send_modify(|state| state.searches.push(request));
        Ok(self.post.0.borrow().found.clone())
    }

    fn mailboxes(&self) -> Seen<wire::ListMailboxesResponse> {
        let state = self.post.0.borrow().clone();
        let names = ["A", "B"].map(str::to_owned).into_iter().chain(state.opened);
        let mailbox = |role: String| wire::MailboxState {
            is_closed: state.closed.contains(&role),
            role,
            inbox: 1,
            ..Default::default()
        };
        let mailboxes = names.map(mailbox).collect();
        self.seen(wire::ListMailboxesResponse { mailboxes })
    }

    fn open_mailbox(&self, role: &str) -> Result<wire::OpenMailboxResponse, Refusal> {
        self.is_here()?;
        let repeated = self.post.0.borrow().opened.contains(&role.to_string());
        self.post.0.send_modify(|state| {
            if !repeated {
                state.opened.push(role.to_string());
            }
        });
        Ok(wire::OpenMailboxResponse { repeated })
    }

    fn close_mailbox(&self, role: &str) -> Result<wire::CloseMailboxResponse, Refusal> {
        self.is_here()?;
        if !self.post.0.borrow().opened.contains(&role.to_string()) {
            return Err(no(Reason::UnknownRole, format!("there is no role {role}")));
        }
        self.post.0.send_modify(|state| state.closed.push(role.to_string()));
        Ok(wire::CloseMailboxResponse::default())
    }

    fn dead_letters(&self) -> wire::ListDeadLettersResponse {
        let threads = self.post.0.borrow().dead.clone();
        wire::ListDeadLettersResponse { threads, ..Default::default() }
    }

    fn hand_again(&self, message: &str) -> Result<wire::HandAgainResponse, Refusal> {
        let state = self.post.0.borrow().clone();
        let message_id = state.threads[self.find(&state, message)?].id.to_string();
        Ok(wire::HandAgainResponse { message_id })
    }
}

fn boxed<T: Send + 'static>(Seen { what, ago }: Seen<T>) -> Seen<AnyResponse> {
    Seen { what: Box::new(what), ago }
}

#[async_trait]
impl world::Mailbox for Mailbox {
    async fn call(&self, request: AnyRequest) -> Result<Seen<AnyResponse>, Refusal> {
        Ok(if let Some(it) = request.downcast_ref::<wire::ListBoxRequest>() {
            boxed(self.list_box(it.clone())?)
        } else if let Some(it) = request.downcast_ref::<wire::ReadThreadRequest>() {
            boxed(self.read_thread(it.clone())?)
        } else if let Some(it) = request.downcast_ref::<wire::SearchMailRequest>() {
            boxed(Seen::now(self.search_mail(it.clone())?))
        } else if request.downcast_ref::<wire::ListMailboxesRequest>().is_some() {
            boxed(self.mailboxes())
        } else if let Some(it) = request.downcast_ref::<wire::OpenMailboxRequest>() {
            boxed(Seen::now(self.open_mailbox(&it.role)?))
        } else if let Some(it) = request.downcast_ref::<wire::CloseMailboxRequest>() {
            boxed(Seen::now(self.close_mailbox(&it.role)?))
        } else if request.downcast_ref::<wire::ListDeadLettersRequest>().is_some() {
            boxed(Seen::now(self.dead_letters()))
        } else if let Some(it) = request.downcast_ref::<wire::HandAgainRequest>() {
            boxed(Seen::now(self.hand_again(&it.message)?))
        } else {
            panic!("nobody asks {request:?} here")
        })
    }

    async fn wait(&self, question: Question, hold: Duration) -> Result<Answer, Refusal> {
        match question {
            Question::Mail(filter) => {
                Ok(Answer::Mail(Box::new(self.await_mail(&filter, hold).await?)))
            }
            Question::Turn(_) | Question::Swarm(_) | Question::Board(_) | Question::Run(_) => {
                panic!("nobody waits for {question:?} here")
            }
        }
    }

    async fn send(
        &self,
        request: wire::SendRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Sent, Refusal> {
        let role = self.role.to_string();
        self.post.0.send_modify(|state| state.sends.push((role.clone(), request.clone(), key)));
        if self.post.0.borrow().is_away {
            return Ok(Sent::Queued { message: id(99).to_string(), number: 7 });
        }
        if let Some(stranger) = request.to.iter().find(|it| !["A", "B", "C"].contains(&it.as_str()))
        {
            let message = format!("there is no role {stranger}; nothing was sent. Known: A, B, C.");
            return Err(no(Reason::UnknownRole, message));
        }
        let to: Vec<&str> = request.to.iter().map(String::as_str).collect();
        let number = if request.in_reply_to.is_empty() {
            let number = u32::try_from(self.post.0.borrow().threads.len() + 1).unwrap();
            let words = [request.subject.as_str(), &request.text];
            self.post.begin(number, &role, &to, &request.r#type, words);
            number
        } else {
            let state = self.post.0.borrow().clone();
            let number = state.threads[self.find(&state, &request.in_reply_to)?].id.short();
            self.post.answer(number, &role, &to, &request.r#type, &request.text);
            number
        };
        let state = self.post.0.borrow().clone();
        let thread = state.threads.iter().find(|it| it.id == id(number)).unwrap();
        let sent = thread.entries.last().unwrap();
        Ok(Sent::Stored(wire::SendResponse {
            message_id: thread.id.to_string(),
            entry: sent.number,
            file_name: thread.file_name.clone(),
            receipts: sent.receipts.clone(),
            r#box: wire::Box::Outbox.into(),
            ..Default::default()
        }))
    }

    async fn move_mail(&self, request: wire::MoveRequest) -> Result<Moving, Refusal> {
        self.post.0.send_modify(|state| state.moves.push(request.clone()));
        if self.post.0.borrow().is_away {
            return Ok(Moving::Queued { number: 8 });
        }
        let place = BoxKind::of_wire(request.to());
        let moved = request.messages.iter().map(|asked| {
            let state = self.post.0.borrow().clone();
            let found = self.find(&state, asked).and_then(|at| {
                let thread = &state.threads[at];
                let copy = &thread.copies[self.role.as_str()];
                if ![Some(BoxKind::Inbox), place].contains(&copy.place) {
                    let message = "it is not in the inbox; nothing was moved.".to_owned();
                    return Err(no(Reason::NotInInbox, message));
                }
                Ok(thread.clone())
            });
            let asked = asked.clone();
            match found {
                Ok(thread) => {
                    self.post.0.send_modify(|state| {
                        let at = state.threads.iter().position(|it| it.id == thread.id).unwrap();
                        let copy = state.threads[at].copies.get_mut(self.role.as_str()).unwrap();
                        copy.place = place;
                    });
                    let (message_id, file_name) = (thread.id.to_string(), thread.file_name);
                    wire::Moved { asked, message_id, file_name, r#box: request.to, refusal: None }
                }
                Err(why) => {
                    let reason = why.reason.to_string();
                    let refusal = Some(wire::MailRefusal { reason, message: why.message });
                    wire::Moved { asked, refusal, ..Default::default() }
                }
            }
        });
        Ok(Moving::Moved(wire::MoveResponse { moved: moved.collect(), sequence: 1 }))
    }

    fn put_attachment(&self) -> Result<(), Refusal> {
        self.is_here()
    }

    fn get_attachment(&self, attachment: &wire::Attachment) -> Result<Bytes, Refusal> {
        Err(no(Reason::UnknownAttachment, format!("there is no file {}", attachment.name)))
    }

    fn untold(&self, max: usize) -> Untold {
        let outbox = self.post.0.borrow().outbox.clone();
        let is_untold = |it: &Summary| it.failed.as_ref().is_some_and(|failed| !failed.is_told);
        let untold = outbox.into_iter().filter(|it| it.role == self.role && is_untold(it));
        Untold::of(untold.take(max).collect())
    }

    fn kept(&self, names: &[String]) -> Vec<Summary> {
        let outbox = self.post.0.borrow().outbox.clone();
        let is_about = |it: &Summary| match &it.what {
            Summarised::Send { message, .. } => names.contains(message),
            Summarised::Move { messages, .. } => messages.iter().any(|it| names.contains(it)),
        };
        outbox.into_iter().filter(|it| it.role == self.role && is_about(it)).collect()
    }

    fn mark_told(&self, told: Untold) {
        let numbers: Vec<_> = told.entries.iter().map(|it| it.number).collect();
        self.post.0.send_modify(|state| {
            for it in state.outbox.iter_mut().filter(|it| numbers.contains(&it.number)) {
                it.failed.as_mut().unwrap().is_told = true;
            }
        });
    }

    fn mark_mail(&self, message: MessageId, through: u32, mark: MailMark) {
        let role = self.role.to_string();
        self.post.0.send_modify(|state| {
            let thread = state.threads.iter_mut().find(|it| it.id == message).unwrap();
            let copy = thread.copies.get_mut(&role).unwrap();
            copy.handed = copy.handed.max(through);
            if mark == MailMark::Seen {
                copy.seen = copy.seen.max(through);
            }
            state.marks.push((role, message, through, mark));
        });
    }
}
