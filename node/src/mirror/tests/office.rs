//! Keeps mail in memory, as a broker would.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use futures::StreamExt as _;
use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::CLIENT_REFS_MAX,
    mail::{BoxKind, MessageId, file_name},
    reason::Reason,
    wire::{self, event::Noun, mail_event::Kind},
};
use tokio::sync::{broadcast, watch};

use super::super::source::Source;
use crate::{
    client::feed::{Ended, Items},
    filebox::Document,
    link::Sent,
    private::finding::Mail,
    refusal::Refusal,
};

#[derive(Debug)]
struct Thread {
    title: String,
    file: String,
    entries: Vec<wire::MailEntry>,
    copies: BTreeMap<String, BoxKind>,
}

#[derive(Debug, Default)]
struct World {
    threads: BTreeMap<MessageId, Thread>,
    /// Senders' own names for letters, and what each named.
    refs: VecDeque<(String, String, MessageId)>,
    reads: BTreeMap<MessageId, usize>,
    /// Roles that get no mail here.
    others: BTreeSet<String>,
    sequence: u64,
}

#[derive(Debug)]
pub(super) struct Office {
    world: Mutex<World>,
    feed: broadcast::Sender<wire::FeedItem>,
    is_away: watch::Sender<bool>,
}

impl Office {
    pub(super) fn new() -> Arc<Self> {
        let (feed, _) = broadcast::channel(1_024);
        Arc::new(Self { world: Mutex::default(), feed, is_away: watch::Sender::new(false) })
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    pub(super) fn know(&self, role: &str) {
        self.world().others.insert(role.to_owned());
    }

    pub(super) fn be_away(&self, is_away: bool) {
        self.is_away.send_replace(is_away);
    }

    fn tell(&self, world: &mut World, kind: Kind) {
        world.sequence += 1;
        let noun = Noun::Mail(wire::MailEvent { kind: Some(kind) });
        let events = vec![wire::Event { noun: Some(noun) }];
        let item = wire::FeedItem {
            sequence: world.sequence,
            at_ms: world.sequence,
            events,
            ..Default::default()
        };
        // Nobody may listen.
        drop(self.feed.send(item));
    }

    fn add(&self, world: &mut World, id: MessageId, from: &str, to: &[String], text: &str) {
        let thread = world.threads.get_mut(&id).unwrap();
        let number = u32::try_from(thread.entries.len()).unwrap() + 1;
        thread.entries.push(wire::MailEntry {
            number,
            sender: from.into(),
            receivers: to.to_vec(),
            r#type: "BR".into(),
            at_ms: u64::from(number) * 1000,
            text: text.into(),
            ..Default::default()
        });
        thread.copies.insert(from.into(), BoxKind::Outbox);
        for receiver in to {
            thread.copies.insert(receiver.clone(), BoxKind::Inbox);
        }
        let sent = wire::MailSent {
            message_id: id.to_string(),
            entry: number,
            sender: from.into(),
            receivers: to.to_vec(),
            r#type: "BR".into(),
            ..Default::default()
        };
        self.tell(world, Kind::MailSent(sent));
    }

    fn begin(&self, world: &mut World, id: Option<MessageId>, title: &str) -> MessageId {
        let next = (world.threads.len() as u128 + 1) << 96;
        let id = id.unwrap_or_else(|| MessageId::from_bits(next));
        // Short enough for tests to read.
        let named = MessageId::from_bits(next);
        let file = file_name(Timestamp::from_millis(0), 0, "BR", title, named);
        let (entries, copies) = Default::default();
        world.threads.insert(id, Thread { title: title.into(), file, entries, copies });
        id
    }

    pub(super) fn send(&self, from: &str, to: &str, title: &str) -> MessageId {
        let mut world = self.world();
        let id = self.begin(&mut world, None, title);
        self.add(&mut world, id, from, &[to.to_owned()], &format!("about {title}"));
        id
    }

    pub(super) fn answer(&self, id: MessageId, from: &str, to: &str) {
        self.say(id, from, to, "an answer");
    }

    pub(super) fn say(&self, id: MessageId, from: &str, to: &str, text: &str) {
        self.add(&mut self.world(), id, from, &[to.to_owned()], text);
    }

    pub(super) fn resolve(&self, id: MessageId, role: &str) {
        let mut world = self.world();
        let thread = world.threads.get_mut(&id).unwrap();
        thread.copies.insert(role.into(), BoxKind::Done);
        let moved = wire::MailMoved {
            message_id: id.to_string(),
            role: role.into(),
            r#box: wire::Box::Done.into(),
        };
        self.tell(&mut world, Kind::MailMoved(moved));
    }

    pub(super) fn file(&self, id: MessageId) -> String {
        self.world().threads[&id].file.clone()
    }

    pub(super) fn markdown(&self, id: MessageId, role: &str) -> String {
        let world = self.world();
        let thread = &world.threads[&id];
        Document::of_stored(&told(id, thread, role), &thread.entries).to_markdown()
    }

    pub(super) fn ids(&self) -> Vec<MessageId> {
        self.world().threads.keys().copied().collect()
    }

    /// Of all letters that came through the mirror, the threads by file name.
    pub(super) fn texts(&self) -> Vec<String> {
        let world = self.world();
        let mut threads: Vec<&Thread> = world.threads.values().collect();
        threads.sort_by_key(|it| it.file[it.file.len() - 11..].to_owned());
        let all = threads.iter().flat_map(|it| &it.entries).map(|it| it.text.clone());
        all.filter(|it| !it.starts_with("about ")).collect()
    }

    pub(super) fn reads(&self) -> usize {
        self.world().reads.values().sum()
    }

    pub(super) fn reads_of(&self, id: MessageId) -> usize {
        self.world().reads[&id]
    }

    fn is_there(&self) -> Result<(), Refusal> {
        match *self.is_away.borrow() {
            true => Err(refusal(Reason::Unavailable, "away")),
            false => Ok(()),
        }
    }
}

fn refusal(reason: Reason, message: &str) -> Refusal {
    Refusal { reason, message: message.to_owned() }
}

fn told(id: MessageId, thread: &Thread, role: &str) -> wire::MailThread {
    wire::MailThread {
        message_id: id.to_string(),
        file_name: thread.file.clone(),
        subject: thread.title.clone(),
        r#type: "BR".into(),
        r#box: thread.copies[role].to_wire().into(),
        entries: u32::try_from(thread.entries.len()).unwrap(),
        ..Default::default()
    }
}

#[async_trait]
impl Mail for Office {
    async fn sequence(&self, _role: &RoleId) -> Result<u64, Refusal> {
        Ok(self.world().sequence)
    }

    async fn follow(&self, _from: u64) -> Result<Items, Ended> {
        let items = futures::stream::unfold(self.feed.subscribe(), |mut feed| async {
            feed.recv().await.ok().map(|item| (Ok(item), feed))
        });
        Ok(items.boxed())
    }

    async fn list(
        &self,
        role: &RoleId,
        kind: BoxKind,
        after: &str,
    ) -> Result<wire::ListBoxResponse, Refusal> {
        self.is_there()?;
        let world = self.world();
        let of = world.threads.iter().filter(|(_, it)| it.copies.get(role.as_str()) == Some(&kind));
        let mut left =
            of.skip_while(|(id, _)| !after.is_empty() && id.to_string().as_str() <= after);
        let threads: Vec<_> =
            left.by_ref().take(16).map(|(id, it)| told(*id, it, role.as_str())).collect();
        let next = match (threads.last(), left.next()) {
            (Some(last), Some(_)) => last.message_id.clone(),
            _ => String::new(),
        };
        Ok(wire::ListBoxResponse { threads, next, ..Default::default() })
    }

    async fn read(
        &self,
        role: &RoleId,
        id: MessageId,
        from: u32,
    ) -> Result<wire::ReadThreadResponse, Refusal> {
        self.is_there()?;
        let mut world = self.world();
        *world.reads.entry(id).or_default() += 1;
        let thread = world.threads.get(&id).filter(|it| it.copies.contains_key(role.as_str()));
        let thread = thread.ok_or_else(|| refusal(Reason::UnknownMessage, "unknown"))?;
        let entries = thread.entries.iter().filter(|it| from <= it.number).cloned().collect();
        let thread = Some(told(id, thread, role.as_str()));
        Ok(wire::ReadThreadResponse { thread, entries, ..Default::default() })
    }
}

#[async_trait]
impl Source for Office {
    async fn ready(&self) {
        self.is_away.subscribe().wait_for(|it| !it).await.unwrap();
    }

    fn is_ready(&self) -> bool {
        !*self.is_away.borrow()
    }

    async fn roles(&self) -> Result<BTreeSet<String>, Refusal> {
        self.is_there()?;
        Ok(self.world().others.clone())
    }

    async fn saw(&self, _role: &RoleId, _id: MessageId, _through: u32) {}

    async fn send(&self, role: &RoleId, letter: wire::SendRequest) -> Result<Sent, Refusal> {
        if self.is_there().is_err() {
            return Ok(Sent::Queued { message: letter.message_id, number: 1 });
        }
        let known = BTreeSet::from(["qa", "dev"]);
        if letter.to.iter().any(|it| !known.contains(it.as_str())) {
            return Err(refusal(Reason::UnknownRole, "nobody knows that role"));
        }
        let mut world = self.world();
        let content = format!("{} {}", letter.in_reply_to, letter.text);
        let named = world.refs.iter().find(|(name, ..)| *name == letter.client_ref);
        if let Some((_, known, id)) = named.filter(|_| !letter.client_ref.is_empty()) {
            if *known != content {
                return Err(refusal(Reason::KeyReused, "it named other words before"));
            }
            let message_id = id.to_string();
            return Ok(Sent::Stored(wire::SendResponse { message_id, ..Default::default() }));
        }
        let id = match letter.in_reply_to.parse() {
            Ok(id) => id,
            Err(_) => {
                let id = letter.message_id.parse().unwrap();
                if world.threads.contains_key(&id) {
                    return Err(refusal(Reason::MessageExists, "it is there"));
                }
                self.begin(&mut world, Some(id), &letter.subject)
            }
        };
        self.add(&mut world, id, role.as_str(), &letter.to, &letter.text);
        if !letter.client_ref.is_empty() {
            world.refs.push_back((letter.client_ref, content, id));
            if CLIENT_REFS_MAX < world.refs.len() {
                world.refs.pop_front();
            }
        }
        let message_id = id.to_string();
        Ok(Sent::Stored(wire::SendResponse { message_id, ..Default::default() }))
    }
}
