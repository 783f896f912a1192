//! Two callers who want something of the same mail at the same moment. Whoever comes first, what
//! both are told fits what is there.

use futures::future::{join, join_all};
use tasuki_proto::wire::{self, Box, mail_answer::Standing};
use tonic::Status;

use crate::{
    mail::texts,
    support::{Client, connect, reason, start},
};

/// Callers at once under one key.
const CALLERS: usize = 50;

/// How often two race.
const RACES: usize = 30;

impl Client {
    /// Another caller, with keys of its own.
    fn other(&self, id: &str) -> Self {
        Self { id: id.to_owned(), counter: 0, ..self.clone() }
    }

    /// The one box in which a role has a thread.
    async fn place(&mut self, role: &str, id: &str) -> Box {
        let mut found = Vec::new();
        for place in [Box::Inbox, Box::Outbox, Box::Done, Box::Cancel] {
            let names = self.box_of(role, place).await;
            found.extend(names.iter().filter(|it| it.contains(&id[..8])).map(|_| place));
        }
        assert_eq!(found.len(), 1, "{role} has {id} in {found:?}");
        found[0]
    }

    /// How much is in a role's inbox.
    async fn box_of_all(&mut self, role: &str) -> usize {
        let request = wire::ListBoxRequest {
            role: role.to_owned(),
            r#box: Box::Inbox.into(),
            limit: 1000,
            ..wire::ListBoxRequest::default()
        };
        self.mail.list_box(request).await.unwrap().into_inner().threads.len()
    }
}

fn refusal(moved: &wire::Moved) -> &str {
    moved.refusal.as_ref().map_or("", |it| it.reason.as_str())
}

#[tokio::test]
async fn one_key_is_one_letter_whoever_says_it_at_once() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    it.write("A", &["B"], "before").await;
    let same = it.letter("A", &["B"], "same");
    let sent = join_all((0..CALLERS).map(|_| {
        let (mut mail, same) = (it.mail.clone(), same.clone());
        async move { mail.send(same).await.map(tonic::Response::into_inner) }
    }));
    let sent: Vec<_> = sent.await.into_iter().map(Result::unwrap).collect();
    assert!(sent.iter().all(|it| *it == sent[0]), "{sent:?}");
    assert_eq!(it.box_of("B", Box::Inbox).await.len(), 2);

    let key = it.key();
    let sent = join_all((0..CALLERS).map(|number| {
        let text = ["one", "another"][number % 2];
        let letter =
            wire::SendRequest { key: key.clone(), ..it.other("x").letter("A", &["B"], text) };
        let mut mail = it.mail.clone();
        async move { (text, mail.send(letter).await.map(tonic::Response::into_inner)) }
    }));
    let sent = sent.await;
    let is_stored = |it: &&(&str, Result<wire::SendResponse, Status>)| it.1.is_ok();
    let (stored, refused): (Vec<_>, Vec<_>) = sent.iter().partition(is_stored);
    assert_eq!((stored.len(), refused.len()), (CALLERS / 2, CALLERS / 2));
    let (text, first) = (stored[0].0, stored[0].1.as_ref().unwrap());
    assert!(stored.iter().all(|it| it.0 == text && it.1.as_ref().unwrap() == first));
    for (_, answer) in refused {
        assert_eq!(reason(answer.as_ref().unwrap_err()), "key_reused");
    }
    assert_eq!(texts(&it.read("B", &first.message_id).await), [text]);
    assert_eq!(it.box_of("B", Box::Inbox).await.len(), 3);
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn of_two_moves_at_once_the_first_counts_and_the_second_is_told() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let (mut one, mut two) = (it.other("one"), it.other("two"));
    for _ in 0..RACES {
        let id = it.write("A", &["B"], "m1").await.message_id;
        let (done, cancel) =
            join(one.put_away("B", &id, Box::Done), two.put_away("B", &id, Box::Cancel)).await;
        let expected = match (refusal(&done), refusal(&cancel)) {
            ("", "not_in_inbox") => Box::Done,
            ("not_in_inbox", "") => Box::Cancel,
            _ => panic!("{done:?} {cancel:?}"),
        };
        assert_eq!(it.place("B", &id).await, expected);
        // To the same place they are one.
        let id = it.write("A", &["B"], "m2").await.message_id;
        let (done, again) =
            join(one.put_away("B", &id, Box::Done), two.put_away("B", &id, Box::Done)).await;
        assert_eq!((refusal(&done), refusal(&again)), ("", ""));
        assert_eq!(it.place("B", &id).await, Box::Done);
    }
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_races_a_resolve_is_not_put_away_unread() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let (mut one, mut two) = (it.other("one"), it.other("two"));
    for round in 0..RACES {
        let id = it.write("A", &["B"], "m1").await.message_id;
        it.read("B", &id).await;
        // Either may be a little earlier.
        let (moved, sent) = if round % 2 == 0 {
            join(one.put_away("B", &id, Box::Done), two.answer("A", "B", &id, "m2")).await
        } else {
            let (sent, moved) =
                join(two.answer("A", "B", &id, "m2"), one.put_away("B", &id, Box::Done)).await;
            (moved, sent)
        };
        assert_eq!(sent.entry, 2);
        let why = refusal(&moved);
        assert!(why.is_empty() || why == "unseen_entries", "{moved:?}");
        assert_eq!(it.place("B", &id).await, Box::Inbox, "m2 was not shown: {moved:?}");
        let told = it.wait("B", 0).await;
        assert_eq!((told.standing(), told.entries[0].text.as_str()), (Standing::Mail, "m2"));
        // Its own answer takes it out, whether it was put away before or is to be after.
        let (moved, sent) =
            join(one.put_away("B", &id, Box::Done), two.answer("B", "A", &id, "m3")).await;
        assert_eq!(sent.entry, 3);
        assert!(matches!(refusal(&moved), "" | "not_in_inbox"), "{moved:?}");
        assert_eq!(it.place("B", &id).await, Box::Outbox, "{moved:?}");
        assert_eq!(texts(&it.read("A", &id).await), ["m1", "m2", "m3"]);
    }
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_dead_letter_that_is_read_while_it_is_to_be_handed_again_is_seen() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    for _ in 0..RACES {
        let id = it.write("A", &["B"], "m1").await.message_id;
        for _ in 0..tasuki_proto::limits::HANDED_MAX {
            assert_eq!(it.wait("B", 0).await.standing(), Standing::Mail);
        }
        let dead = wire::ListDeadLettersRequest { role: "B".to_owned(), ..Default::default() };
        let letters = it.mail.list_dead_letters(dead.clone()).await.unwrap().into_inner().threads;
        assert_eq!(letters.len(), 1);
        let mut other = it.other("other");
        let mut mail = it.mail.clone();
        let again = wire::HandAgainRequest {
            key: it.key(),
            role: "B".to_owned(),
            message: id.clone(),
            ..Default::default()
        };
        let (handed, read) = join(mail.hand_again(again), other.read("B", &id)).await;
        assert_eq!(handed.unwrap().into_inner().message_id, id);
        assert_eq!(texts(&read), ["m1"]);
        let letters = it.mail.list_dead_letters(dead).await.unwrap().into_inner().threads;
        assert_eq!(letters, []);
        assert_eq!(it.wait("B", 0).await.standing(), Standing::StillWaiting, "it is seen");
    }
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_mailbox_that_closes_while_mail_arrives_has_what_was_stored_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let (mut stored, mut refused) = (0, 0);
    for round in 0..RACES {
        let senders = join_all((0..20).map(|number| {
            let letter = it.other(&format!("s{round}.{number}")).letter("A", &["B"], "m");
            let mut mail = it.mail.clone();
            async move { mail.send(letter).await }
        }));
        let close =
            wire::CloseMailboxRequest { key: it.key(), role: "B".to_owned(), ..Default::default() };
        let mut mail = it.mail.clone();
        // Somewhere among them, as the connection has them.
        let closing = async {
            tokio::task::yield_now().await;
            mail.close_mailbox(close).await
        };
        let (sent, closed) = join(senders, closing).await;
        assert!(!closed.unwrap().into_inner().repeated);
        for answer in sent {
            match answer {
                Ok(_) => stored += 1,
                Err(why) => {
                    assert_eq!(reason(&why), "mailbox_closed", "{why:?}");
                    refused += 1;
                }
            }
        }
        assert_eq!(it.box_of_all("B").await, stored);
        let late = it.letter("A", &["B"], "late");
        assert_eq!(reason(&it.mail.send(late).await.unwrap_err()), "mailbox_closed");
        let open =
            wire::OpenMailboxRequest { key: it.key(), role: "B".to_owned(), ..Default::default() };
        it.mail.open_mailbox(open).await.unwrap();
    }
    it.write("A", &["B"], "open again").await;
    assert_eq!(it.box_of_all("B").await, stored + 1);
    assert_eq!(stored + refused, 20 * RACES);
    broker.stop().await.unwrap();
}
