//! One role's mail at a broker that counts what it is asked.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use tasuki_proto::{
    id::RoleId,
    mail::{BoxKind, MessageId},
    reason::Reason,
    wire::{self, event::Noun, mail_event::Kind, privacy_event},
};

use super::{Ended, Items, Mail, Own, own::Limits};
use crate::{private::sealer::NOT_SEALED, refusal::Refusal};

#[derive(Default)]
struct Broker {
    world: Mutex<World>,
    /// Threads that were read.
    reads: AtomicUsize,
}

#[derive(Default)]
struct World {
    threads: Vec<(wire::MailThread, Vec<wire::MailEntry>)>,
    records: Vec<Noun>,
}

fn mail(kind: Kind) -> Noun {
    Noun::Mail(wire::MailEvent { kind: Some(kind) })
}

fn id(number: usize) -> String {
    format!("{number:08x}-58c1-47f4-916e-13787156f665")
}

impl Broker {
    fn send(&self, thread: usize, text: &str) {
        let mut world = self.world.lock().unwrap();
        while world.threads.len() <= thread {
            let message_id = id(world.threads.len());
            let (r#box, subject) = (wire::Box::Inbox.into(), "about login".to_owned());
            let it = wire::MailThread { message_id, r#box, subject, ..Default::default() };
            world.threads.push((it, Vec::new()));
        }
        let at_ms = 1_000 + world.records.len() as u64;
        let (it, entries) = &mut world.threads[thread];
        it.entries += 1;
        it.latest_ms = at_ms;
        let (sender, receivers, kind) = ("qa".to_owned(), vec!["dev".to_owned()], "BR".to_owned());
        entries.push(wire::MailEntry {
            number: it.entries,
            sender: sender.clone(),
            receivers: receivers.clone(),
            r#type: kind.clone(),
            at_ms,
            text: text.to_owned(),
            ..Default::default()
        });
        let (message_id, entry) = (id(thread), it.entries);
        let r#type = kind;
        let sent =
            wire::MailSent { message_id, entry, sender, receivers, r#type, ..Default::default() };
        world.records.push(mail(Kind::MailSent(sent)));
    }

    fn put_into(&self, thread: usize, kind: wire::Box) {
        let mut world = self.world.lock().unwrap();
        world.threads[thread].0.r#box = kind.into();
        let (message_id, role) = (id(thread), "dev".to_owned());
        let moved = wire::MailMoved { message_id, role, r#box: kind.into() };
        world.records.push(mail(Kind::MailMoved(moved)));
    }

    fn reads(&self) -> usize {
        self.reads.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl Mail for Broker {
    async fn sequence(&self, _role: &RoleId) -> Result<u64, Refusal> {
        Ok(self.world.lock().unwrap().records.len() as u64)
    }

    async fn list(
        &self,
        _role: &RoleId,
        kind: BoxKind,
        _after: &str,
    ) -> Result<wire::ListBoxResponse, Refusal> {
        let world = self.world.lock().unwrap();
        let all = world.threads.iter().map(|(it, _)| it.clone());
        let threads = all.filter(|it| it.r#box() == kind.to_wire()).collect();
        Ok(wire::ListBoxResponse { threads, ..Default::default() })
    }

    async fn read(
        &self,
        _role: &RoleId,
        id: MessageId,
        from: u32,
    ) -> Result<wire::ReadThreadResponse, Refusal> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let world = self.world.lock().unwrap();
        let found = world.threads.iter().find(|(it, _)| it.message_id == id.to_string());
        let (thread, entries) = found.ok_or_else(|| Refusal {
            reason: Reason::UnknownMessage,
            message: "none".to_owned(),
        })?;
        let entries = entries.iter().filter(|it| from <= it.number).cloned().collect();
        Ok(wire::ReadThreadResponse { thread: Some(thread.clone()), entries, ..Default::default() })
    }

    async fn follow(&self, from: u64) -> Result<Items, Ended> {
        let records = self.world.lock().unwrap().records.clone();
        let items = records.into_iter().enumerate().map(|(at, noun)| {
            let events = vec![wire::Event { noun: Some(noun) }];
            Ok(wire::FeedItem { sequence: at as u64 + 1, events, ..Default::default() })
        });
        let from = usize::try_from(from).unwrap().saturating_sub(1);
        Ok(stream::iter(items.skip(from).collect::<Vec<_>>()).boxed())
    }
}

fn own(limits: Limits) -> Own {
    Own::new("dev".parse().unwrap(), limits)
}

async fn answer(own: &mut Own, broker: &Broker, query: &str) -> wire::SearchMailResponse {
    let request = wire::SearchMailRequest { query: query.to_owned(), ..Default::default() };
    own.search(broker, &request).await.unwrap()
}

async fn finds(own: &mut Own, broker: &Broker, query: &str) -> Vec<String> {
    let found = answer(own, broker, query).await;
    assert_eq!(found.total, found.hits.len() as u64);
    let hit = |it: &wire::MailHit| {
        let thread = &it.thread.as_ref().unwrap().message_id[..8];
        let lit = it.highlights.chunks_exact(2);
        let lit = lit.map(|at| &it.excerpt[at[0] as usize..at[1] as usize]);
        format!(
            "{}/{} {}",
            thread.trim_start_matches('0'),
            it.entry,
            lit.collect::<Vec<_>>().join(",")
        )
    };
    let mut hits: Vec<String> = found.hits.iter().map(hit).collect();
    hits.sort();
    hits
}

#[tokio::test]
async fn what_changed_alone_is_read_again() {
    let (broker, mut own) = (Broker::default(), own(Limits::default()));
    assert_eq!(finds(&mut own, &broker, "login").await, [] as [&str; 0]);
    broker.send(1, "サーバーのログイン画面でエラーが出る");
    broker.send(2, "call parseHttpHeader(x)");
    broker.reads();
    assert_eq!(finds(&mut own, &broker, "画面 エラー").await, ["1/1 画面,エラー"]);
    assert_eq!(broker.reads(), 2);
    assert_eq!(finds(&mut own, &broker, "http_header").await, ["2/1 HttpHeader"]);
    assert_eq!(broker.reads(), 0, "nothing happened");
    broker.send(1, "see HttpHeader");
    assert_eq!(finds(&mut own, &broker, "http_header").await, ["1/2 HttpHeader", "2/1 HttpHeader"]);
    assert_eq!(broker.reads(), 1);
    assert_eq!(finds(&mut own, &broker, "http_header thread:00000001").await, ["1/2 HttpHeader"]);
    assert_eq!(finds(&mut own, &broker, "http_header -thread:00000001").await, ["2/1 HttpHeader"]);
    assert_eq!(finds(&mut own, &broker, "subject:login from:qa -画面").await.len(), 2);

    // Where it lies by now narrows it down, and is told.
    broker.put_into(2, wire::Box::Done);
    let request = |kind: wire::Box| {
        let query = "http_header".to_owned();
        wire::SearchMailRequest { query, r#box: kind.into(), ..Default::default() }
    };
    let found = own.search(&broker, &request(wire::Box::Done)).await.unwrap();
    assert_eq!(found.hits[0].thread.as_ref().unwrap().r#box(), wire::Box::Done);
    assert_eq!((found.total, found.left_out.as_str()), (1, ""));
    let later = wire::SearchMailRequest { since_ms: 5_000, ..request(wire::Box::Unspecified) };
    assert_eq!(own.search(&broker, &later).await.unwrap().total, 0);
    let why = own.search(&broker, &wire::SearchMailRequest::default()).await.unwrap_err();
    assert_eq!(why.reason, Reason::InvalidArgument);
}

#[tokio::test]
async fn everything_is_read_again_where_it_may_look_different() {
    let (broker, mut own) = (Broker::default(), own(Limits::default()));
    broker.send(1, "first");
    finds(&mut own, &broker, "first").await;
    broker.reads();
    let roster = wire::RosterSet { number: 2, is_on: true };
    let kind = Some(privacy_event::Kind::RosterSet(roster));
    let event = Noun::Privacy(wire::PrivacyEvent { kind });
    broker.world.lock().unwrap().records.push(event);
    assert_eq!(finds(&mut own, &broker, "first").await, ["1/1 first"]);
    assert_eq!(broker.reads(), 2, "thread 0 has nothing in it");
    // A broker that was given another journal, which is shorter.
    *broker.world.lock().unwrap() = World::default();
    broker.send(1, "second");
    assert_eq!(finds(&mut own, &broker, "first").await, [] as [&str; 0]);
    assert_eq!(finds(&mut own, &broker, "second").await, ["1/1 second"]);
}

#[tokio::test]
async fn what_was_not_opened_is_not_found_and_plain_words_say_so() {
    let (broker, mut own) = (Broker::default(), own(Limits::default()));
    broker.send(1, "[This entry is sealed and is not shown: secret.]");
    broker.world.lock().unwrap().threads[1].1[0].sealed = Some(wire::Sealed::default());
    broker.send(1, &format!("{NOT_SEALED}the words"));
    assert_eq!(finds(&mut own, &broker, "sealed").await, [] as [&str; 0]);
    assert_eq!(finds(&mut own, &broker, "words").await, ["1/2 words"]);
    let found = answer(&mut own, &broker, "words").await;
    assert!(found.hits[0].excerpt.starts_with(NOT_SEALED), "{found:?}");
}

#[tokio::test]
async fn what_is_too_much_is_left_out_and_said() {
    for limits in
        [Limits { words_bytes: 40, entries: 100 }, Limits { words_bytes: 4000, entries: 4 }]
    {
        let (broker, mut own) = (Broker::default(), own(limits));
        for thread in 0..8 {
            broker.send(thread, "ten bytes.");
        }
        let found = answer(&mut own, &broker, "bytes").await;
        let threads: Vec<&str> = found
            .hits
            .iter()
            .map(|it| it.thread.as_ref().unwrap())
            .map(|it| &it.message_id[7..8])
            .collect();
        assert_eq!((found.total, threads.iter().max()), (4, Some(&"7")), "the newest: {threads:?}");
        assert!(found.left_out.contains("4 older threads were left out"), "{found:?}");
        // One more is taken in; once they are a quarter more, the oldest make room.
        broker.send(8, "ten bytes.");
        assert_eq!(answer(&mut own, &broker, "bytes").await.total, 5);
        broker.send(9, "ten bytes.");
        let found = answer(&mut own, &broker, "bytes").await;
        assert_eq!(found.total, 4);
        assert!(found.left_out.contains("6 older threads"), "{found:?}");
    }
}
