//! What a workspace tells of itself for metrics.

use std::sync::atomic::Ordering;

use tasuki_proto::mail::{BoxKind, MessageId, MessageType};

use super::*;
use crate::rules::{
    ReceiptKind,
    mailbox::{self, Earlier, MarkThread, Move, Send, Subject, ThreadTarget},
    turn::MarkTurn,
};

impl Fixture {
    async fn command(&self, command: impl Into<Command>) {
        let request = Request { caller: Caller::default(), key: None, command: command.into() };
        self.execute(request).await;
    }

    async fn write(&self, thread: MessageId) {
        let target =
            ThreadTarget::Begin(Subject { thread, subject: "s".to_owned(), utc_offset_s: 0 });
        let send = Send {
            role: "A".parse().unwrap(),
            to: vec!["B".parse().unwrap()],
            kind: MessageType::Br,
            target,
            text: "t".to_owned(),
            sealed: bytes::Bytes::new(),
            same: bytes::Bytes::new(),
            client_ref: None,
            fold: false,
            earlier: Earlier::Unknown,
            expires_in_ms: None,
            attachments: Vec::new(),
        };
        self.command(Command::Mail(mailbox::Command::Send(send))).await;
    }

    /// The age of the oldest turn and of the oldest letter, in milliseconds.
    async fn oldest(&self) -> (u64, u64) {
        let observed = self.workspaces.observe().await;
        (observed.oldest_turn_ms, observed.oldest_letter_ms)
    }
}

#[tokio::test]
async fn what_waits_to_be_handed_has_an_age_until_it_is() {
    let it = Fixture::start().await;
    let metrics = Arc::clone(it.workspaces.metrics());
    it.hand_over().await;
    it.clock.fetch_add(2_000, Ordering::SeqCst);
    let (first, second) = (MessageId::from_bits(1), MessageId::from_bits(2));
    it.write(first).await;
    it.clock.fetch_add(3_000, Ordering::SeqCst);
    it.write(second).await;
    assert_eq!(it.oldest().await, (5_000, 3_000));
    let (loop_id, role) = ("main".parse().unwrap(), "B".parse::<RoleId>().unwrap());
    let (turn, mark) = (2.into(), ReceiptKind::Handed);
    let told = MarkTurn { loop_id, role: role.clone(), turn, mark };
    it.command(Command::Turn(turn::Command::Mark(told))).await;
    assert_eq!(metrics.turn_receipts.total(), (1, 5_000));
    let handed = MarkThread { role: role.clone(), thread: first, through: 1, mark };
    it.command(Command::Mail(mailbox::Command::Mark(handed.clone()))).await;
    it.command(Command::Mail(mailbox::Command::Mark(handed))).await;
    assert_eq!(metrics.mail_receipts.total(), (1, 3_000), "handed again is no later");
    it.clock.fetch_add(4_000, Ordering::SeqCst);
    assert_eq!(it.oldest().await, (0, 4_000));
    // Whoever puts a letter away unread waits for it no more.
    let away = Move { role, threads: vec![Some(second)], to: BoxKind::Done };
    it.command(Command::Mail(mailbox::Command::Move(away))).await;
    assert_eq!(it.oldest().await, (0, 0));
    assert_eq!(metrics.mail_receipts.total(), (1, 3_000));
}

#[tokio::test]
async fn waits_and_requests_are_counted_while_they_are_there() {
    let it = Fixture::start().await;
    let waits = async || it.workspaces.observe().await.waits;
    assert!(waits().await.values().all(|count| *count == 0));
    let waiting = it.park().await;
    let found = waits().await;
    assert_eq!((found["turn"], found["mail"]), (1, 0));
    it.hand_over().await;
    assert!(waiting.await.unwrap().is_ok());
    assert_eq!(waits().await["turn"], 0);
    assert_eq!(it.workspaces.in_flight().requests, 0);
}
