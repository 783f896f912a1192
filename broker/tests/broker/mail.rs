//! Mail through gRPC, on a real sled: the way of a thread, and what its defects were elsewhere.

use std::collections::BTreeSet;

use tasuki_proto::wire::{self, mail_answer::Standing};
use tokio_stream::StreamExt as _;

use crate::support::{Client, connect, reason, start};

impl Client {
    pub(crate) fn letter(&mut self, from: &str, to: &[&str], text: &str) -> wire::SendRequest {
        wire::SendRequest {
            key: self.key(),
            role: from.to_owned(),
            to: to.iter().map(ToString::to_string).collect(),
            r#type: "BR".to_owned(),
            subject: "API performance issue!".to_owned(),
            text: text.to_owned(),
            ..wire::SendRequest::default()
        }
    }

    pub(crate) async fn write(
        &mut self,
        from: &str,
        to: &[&str],
        text: &str,
    ) -> wire::SendResponse {
        let request = self.letter(from, to, text);
        self.mail.send(request).await.unwrap().into_inner()
    }

    pub(crate) async fn answer(
        &mut self,
        from: &str,
        to: &str,
        thread: &str,
        text: &str,
    ) -> wire::SendResponse {
        let request = self.letter(from, &[to], text);
        let request = wire::SendRequest { in_reply_to: thread.to_owned(), ..request };
        self.mail.send(request).await.unwrap().into_inner()
    }

    pub(crate) async fn box_of(&mut self, role: &str, kind: wire::Box) -> Vec<String> {
        let request = wire::ListBoxRequest {
            role: role.to_owned(),
            r#box: kind.into(),
            ..wire::ListBoxRequest::default()
        };
        let listed = self.mail.list_box(request).await.unwrap().into_inner();
        assert_eq!(listed.total, listed.threads.len() as u64);
        listed.threads.into_iter().map(|it| it.file_name).collect()
    }

    pub(crate) async fn read(&mut self, role: &str, message: &str) -> wire::ReadThreadResponse {
        let request = self.reading(role, message);
        self.mail.read_thread(request).await.unwrap().into_inner()
    }

    pub(crate) fn reading(&self, role: &str, message: &str) -> wire::ReadThreadRequest {
        wire::ReadThreadRequest {
            role: role.to_owned(),
            message: message.to_owned(),
            ..wire::ReadThreadRequest::default()
        }
    }

    pub(crate) async fn wait(&mut self, role: &str, hold_ms: u64) -> wire::MailAnswer {
        let role = role.to_owned();
        let request = wire::AwaitMailRequest { role, hold_ms, ..Default::default() };
        self.mail.await_mail(request).await.unwrap().into_inner().answer.unwrap()
    }

    pub(crate) async fn put_away(
        &mut self,
        role: &str,
        message: &str,
        to: wire::Box,
    ) -> wire::Moved {
        let request = wire::MoveRequest {
            key: self.key(),
            role: role.to_owned(),
            messages: vec![message.to_owned()],
            to: to.into(),
            ..wire::MoveRequest::default()
        };
        self.mail.r#move(request).await.unwrap().into_inner().moved.remove(0)
    }
}

pub(crate) fn texts(read: &wire::ReadThreadResponse) -> Vec<&str> {
    read.entries.iter().map(|it| it.text.as_str()).collect()
}

#[tokio::test]
async fn a_thread_goes_to_and_fro_over_restarts_and_loses_nothing() {
    use wire::Box::{Done, Inbox, Outbox};
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;

    let sent = it.write("A", &["B"], "m1").await;
    let (id, name) = (sent.message_id.as_str(), sent.file_name.as_str());
    assert!(name.ends_with(&format!("-BR-api-performance-issue-{}.md", &id[..8])), "{name}");
    assert_eq!((sent.entry, sent.r#box()), (1, Outbox));
    assert_eq!(it.box_of("A", Outbox).await, [name]);
    assert_eq!(it.box_of("B", Inbox).await, [name]);

    let told = it.wait("B", 0).await;
    assert_eq!((told.standing(), told.entries[0].text.as_str()), (Standing::Mail, "m1"));
    // Named by its file, by a prefix, by its id.
    assert_eq!(it.answer("B", "A", name, "m2").await.entry, 2);
    assert_eq!((it.box_of("B", Inbox).await, it.box_of("B", Outbox).await.len()), (vec![], 1));
    assert_eq!(texts(&it.read("A", &id[..6]).await), ["m1", "m2"]);
    assert_eq!(it.answer("A", "B", &id[..6], "m3").await.entry, 3);
    broker.stop().await.unwrap();

    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c2").await;
    let read = it.read("B", id).await;
    assert_eq!(texts(&read), ["m1", "m2", "m3"], "none is lost, and they are in order");
    assert_eq!(it.put_away("B", name, Done).await.r#box(), Done);
    assert_eq!(it.put_away("B", name, Done).await.refusal, None, "twice is once");
    assert_eq!(it.box_of("B", Done).await, [name]);
    let receipts = it.read("A", id).await.entries.remove(2).receipts.remove(0);
    let times = [receipts.stored_ms, receipts.handed_ms, receipts.seen_ms, receipts.acted_ms];
    assert!(receipts.role == "B" && times.is_sorted() && times[0] != 0, "{receipts:?}");
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn what_came_in_after_the_last_look_keeps_a_thread_in_the_inbox() {
    use wire::Box::{Cancel, Done, Inbox};
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let id = it.write("A", &["B"], "m1").await.message_id;
    it.read("B", &id).await;
    it.answer("A", "B", &id, "m2").await;
    let refused = it.put_away("B", &id, Done).await;
    assert_eq!(refused.refusal.unwrap().reason, "unseen_entries");
    let sent = it.answer("B", "A", &id, "m3").await;
    assert_eq!(sent.r#box(), Inbox, "m2 was not handed to B");
    let told = it.wait("B", 0).await;
    assert_eq!(told.entries.iter().map(|it| it.text.as_str()).collect::<Vec<_>>(), ["m2", "m3"]);
    assert_eq!(it.put_away("B", &id, Cancel).await.r#box(), Cancel);
    assert_eq!(it.wait("B", 0).await.standing(), Standing::StillWaiting);
    let refused = it.put_away("B", &id, Done).await;
    assert_eq!(refused.refusal.unwrap().reason, "not_in_inbox");
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn ten_answers_at_once_are_all_there_once() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let roles: Vec<String> = (0..10).map(|number| format!("r{number}")).collect();
    for role in &roles {
        let key = it.key();
        let request = wire::OpenMailboxRequest { key, role: role.clone(), ..Default::default() };
        it.mail.open_mailbox(request).await.unwrap();
    }
    let to: Vec<&str> = roles.iter().map(String::as_str).collect();
    let id = it.write("A", &to, "a question").await.message_id;
    let answers = roles.iter().map(|role| {
        let (broker, id) = (&broker, &id);
        async move {
            let mut client = connect(broker, role).await;
            client.answer(role, "A", id, role).await.entry
        }
    });
    let numbers: BTreeSet<u32> = futures::future::join_all(answers).await.into_iter().collect();
    assert_eq!(numbers, (2..=11).collect());
    let read = it.read("A", &id).await;
    let said: BTreeSet<&str> = texts(&read).into_iter().skip(1).collect();
    assert_eq!(said, to.into_iter().collect());
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_wait_wakes_for_mail_like_it_and_an_urgent_one_comes_first() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let (asks, requests) = tokio::sync::mpsc::channel(8);
    let ask = |wait, kind: &str| wire::ParkRequest {
        wait,
        ask: Some(wire::park_request::Ask::Mail(wire::AwaitMailRequest {
            role: "B".to_owned(),
            hold_ms: 60_000,
            r#type: kind.to_owned(),
            ..wire::AwaitMailRequest::default()
        })),
    };
    asks.send(ask(1, "URGENT")).await.unwrap();
    asks.send(ask(2, "")).await.unwrap();
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let mut waits = it.waits.clone();
    let mut answers = waits.park(requests).await.unwrap().into_inner();
    let mail = |answer: wire::ParkResponse| match answer.outcome.unwrap() {
        wire::park_response::Outcome::Mail(mail) => (answer.wait, mail),
        wire::park_response::Outcome::Turn(turn) => panic!("{turn:?}"),
        wire::park_response::Outcome::Swarm(swarm) => panic!("{swarm:?}"),
        wire::park_response::Outcome::Run(run) => panic!("{run:?}"),
        wire::park_response::Outcome::Board(board) => panic!("{board:?}"),
        wire::park_response::Outcome::Refusal(refusal) => panic!("{refusal:?}"),
    };
    it.write("A", &["B"], "ordinary").await;
    let (wait, told) = mail(answers.next().await.unwrap().unwrap());
    assert_eq!((wait, told.entries[0].text.as_str()), (2, "ordinary"));
    let urgent = it.letter("A", &["B"], "urgent");
    let urgent = wire::SendRequest { r#type: "URGENT".to_owned(), ..urgent };
    it.mail.send(urgent).await.unwrap();
    let (wait, told) = mail(answers.next().await.unwrap().unwrap());
    assert_eq!((wait, told.entries[0].text.as_str()), (1, "urgent"));
    let told = it.wait("B", 0).await;
    assert_eq!((told.entries[0].text.as_str(), told.unseen_threads), ("urgent", 2));
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_name_and_another_roles_mail_is_as_if_it_were_not_there() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let id = it.write("A", &["A"], "to myself").await.message_id;
    let reading = it.reading("B", &id);
    assert_eq!(reason(&it.mail.read_thread(reading).await.unwrap_err()), "unknown_message");
    for (change, expected) in [
        (wire::SendRequest { r#type: "bug/../x".into(), ..Default::default() }, "invalid_argument"),
        (wire::SendRequest { to: vec!["ghost".into()], ..Default::default() }, "unknown_role"),
        (wire::SendRequest { subject: "s".repeat(5000), ..Default::default() }, "too_large"),
        (wire::SendRequest { text: "t".repeat(300_000), ..Default::default() }, "too_large"),
        (
            wire::SendRequest { in_reply_to: "../../.filebox".into(), ..Default::default() },
            "invalid_argument",
        ),
        (wire::SendRequest { in_reply_to: "abcd".into(), ..Default::default() }, "unknown_message"),
        (wire::SendRequest { message_id: id.clone(), ..Default::default() }, "message_exists"),
    ] {
        let good = it.letter("A", &["B"], "text");
        let bad = wire::SendRequest {
            r#type: if change.r#type.is_empty() { good.r#type } else { change.r#type },
            to: if change.to.is_empty() { good.to } else { change.to },
            subject: change.subject,
            text: if change.text.is_empty() { good.text } else { change.text },
            in_reply_to: change.in_reply_to,
            message_id: change.message_id,
            ..good
        };
        let refused = it.mail.send(bad).await.unwrap_err();
        assert_eq!(reason(&refused), expected, "{refused:?}");
    }
    assert!(it.box_of("B", wire::Box::Inbox).await.is_empty(), "nothing of it was sent");
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn an_answer_to_what_was_sent_is_what_is_read_later() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let letter = wire::SendRequest { utc_offset_s: 3600, ..it.letter("A", &["B"], "m1") };
    let sent = it.mail.send(letter.clone()).await.unwrap().into_inner();
    let under_its_key = it.mail.send(letter.clone()).await.unwrap().into_inner();
    assert_eq!(sent, under_its_key);
    let named = |key, it: &wire::SendRequest| wire::SendRequest {
        key,
        client_ref: "mine".to_owned(),
        ..it.clone()
    };
    let key = it.key();
    let first = it.mail.send(named(key, &letter)).await.unwrap().into_inner();
    let key = it.key();
    let again = it.mail.send(named(key, &letter)).await.unwrap().into_inner();
    assert!(!first.repeated && again.repeated);
    assert_eq!((&first.file_name, &first.receipts), (&again.file_name, &again.receipts));
    let by_file = it.answer("A", "B", &sent.file_name, "m2").await;
    let by_id = it.answer("A", "B", &sent.message_id, "m3").await;
    let read = it.read("B", &sent.message_id).await;
    let thread = read.thread.unwrap();
    for (sent, entry) in [sent, by_file, by_id].iter().zip(&read.entries) {
        assert_eq!(sent.file_name, thread.file_name);
        assert_eq!(sent.receipts, entry.receipts);
        assert_eq!((sent.entry, sent.receipts[0].stored_ms), (entry.number, entry.at_ms));
    }
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_long_text_and_a_file_come_back_whole() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let content = vec![7_u8; 600_000];
    let hash = blake3::hash(&content).to_hex().to_string();
    let head = wire::PutAttachmentHead {
        role: "A".to_owned(),
        size: content.len() as u64,
        hash: hash.clone(),
        ..Default::default()
    };
    let part = |part| wire::PutAttachmentRequest { part: Some(part) };
    let parts = |content: &[u8]| {
        let chunks = content.chunks(200_000).map(<[u8]>::to_vec);
        let chunks = chunks.map(|it| part(wire::put_attachment_request::Part::Chunk(it)));
        let head = part(wire::put_attachment_request::Part::Head(head.clone()));
        tokio_stream::iter([head].into_iter().chain(chunks).collect::<Vec<_>>())
    };
    let lied = it.mail.put_attachment(parts(&content[1..])).await.unwrap_err();
    assert_eq!(reason(&lied), "invalid_argument");
    let put = it.mail.put_attachment(parts(&content)).await.unwrap().into_inner();
    let again = it.mail.put_attachment(parts(&content)).await.unwrap().into_inner();
    assert_eq!((put.repeated, again.repeated), (false, true));

    let text = "ä".repeat(100_000);
    let letter = it.letter("A", &["B"], &text);
    let attachment = wire::Attachment {
        name: "log.txt".to_owned(),
        media_type: "text/plain".to_owned(),
        size: content.len() as u64,
        hash: hash.clone(),
    };
    let letter = wire::SendRequest { attachments: vec![attachment.clone()], ..letter };
    let message = it.mail.send(letter).await.unwrap().into_inner().message_id;
    let entry = it.read("B", &message).await.entries.remove(0);
    assert!(entry.text == text && entry.attachments == [attachment]);
    let get = |role: &str| wire::GetAttachmentRequest {
        role: role.to_owned(),
        message: message.clone(),
        hash: hash.clone(),
        ..Default::default()
    };
    let mut chunks = it.mail.get_attachment(get("B")).await.unwrap().into_inner();
    let mut got = Vec::new();
    while let Some(chunk) = chunks.next().await {
        got.extend(chunk.unwrap().chunk);
    }
    assert_eq!(got, content);
    let refused = it.mail.get_attachment(get("C")).await.unwrap_err();
    assert_eq!(reason(&refused), "unknown_message");
    broker.stop().await.unwrap();
}
