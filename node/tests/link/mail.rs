//! Mail over a broker that dies, loses answers and goes away.

use std::time::Duration;

use bytes::Bytes;
use tasuki_node::{
    link::{Phase, Sent},
    role::Refusal,
    wait::MailFilter,
};
use tasuki_proto::{
    mail::{MessageId, MessageType},
    reason::Reason,
    wire::{self, MailMark, mail_answer::Standing},
};
use tokio::task::JoinHandle;

use super::{Bench, Fake, LONG, asking::Await as _, main_loop, start, to, until};

pub(crate) fn letter(text: &str) -> wire::SendRequest {
    wire::SendRequest {
        to: vec!["B".to_owned()],
        r#type: "BR".to_owned(),
        subject: "s".to_owned(),
        text: text.to_owned(),
        ..wire::SendRequest::default()
    }
}

fn thread(kind: &str, sender: &str) -> wire::MailThread {
    wire::MailThread {
        message_id: "ded66c6a-58c1-47f4-916e-13787156f665".to_owned(),
        latest_type: kind.to_owned(),
        latest_sender: sender.to_owned(),
        ..wire::MailThread::default()
    }
}

fn from(sender: &str) -> MailFilter {
    MailFilter { sender: Some(sender.parse().expect("an id")), kind: None }
}

type Waiting = JoinHandle<Result<wire::MailAnswer, Refusal>>;

impl Bench {
    fn awaiting_mail(&self, filter: MailFilter) -> Waiting {
        let role = self.role("B");
        tokio::spawn(async move { role.await_mail(&filter, LONG).await })
    }

    async fn parked_for_mail(&self, count: usize) {
        self.fake.until("parked", |world| world.mail.parked.len() == count).await;
    }

    pub(crate) async fn kill(&mut self) {
        self.fake.kill().await;
        until(&self.node, "down", |phase| matches!(phase, Phase::Down(_))).await;
    }
}

fn standing(answer: Result<Result<wire::MailAnswer, Refusal>, tokio::task::JoinError>) -> Standing {
    answer.expect("ran").expect("answered").standing()
}

#[tokio::test]
async fn a_letter_begins_a_thread_whose_id_the_node_made() {
    let bench = start(Fake::new()).await;
    let role = bench.role("A");
    let mut ids = Vec::new();
    for text in ["one", "two"] {
        let sent = role.send(letter(text), None).await.expect("stored");
        let Sent::Stored(stored) = sent else { panic!("{sent:?}") };
        ids.push(stored.message_id.parse::<MessageId>().expect("a UUID"));
    }
    assert_ne!(ids[0], ids[1]);
    let own = "ded66c6a-58c1-47f4-916e-13787156f665";
    let named = wire::SendRequest { message_id: own.to_owned(), ..letter("three") };
    role.send(named, None).await.expect("stored");
    let answer = wire::SendRequest { in_reply_to: own.to_owned(), ..letter("four") };
    role.send(answer, None).await.expect("stored");
    let mail = bench.fake.world.borrow().mail.clone();
    assert_eq!(mail.texts(), ["one", "two", "three", "four"]);
    assert!(mail.letters.iter().all(|letter| letter.role == "A"), "{mail:?}");
    assert_eq!(
        (mail.letters[2].message_id.as_str(), mail.letters[3].message_id.as_str()),
        (own, "")
    );
    let keys: Vec<_> = mail.asked.iter().map(|asked| asked.key.clone()).collect();
    assert!(keys.windows(2).all(|pair| pair[0].0 == pair[1].0 && pair[0].1 < pair[1].1));
}

#[tokio::test]
async fn a_letter_whose_answer_was_lost_is_sent_again_and_there_once() {
    let mut bench = start(Fake::new()).await;
    bench.fake.change(|world| world.is_mute = true);
    let role = bench.role("A");
    let sending = tokio::spawn(async move { role.send(letter("one"), None).await });
    bench.fake.until("carried out", |world| world.mail.letters.len() == 1).await;
    bench.fake.kill().await;
    bench.fake.change(|world| world.is_mute = false);
    bench.fake.serve();
    let sent = sending.await.expect("ran").expect("answered");
    assert!(matches!(sent, Sent::Stored(_)), "{sent:?}");
    let mail = bench.fake.world.borrow().mail.clone();
    assert_eq!(mail.texts(), ["one"]);
    assert!(2 <= mail.asked.len() && mail.asked.iter().all(|asked| *asked == mail.asked[0]));
}

#[tokio::test]
async fn a_letter_is_carried_through_though_its_sender_left() {
    let mut bench = start(Fake::new()).await;
    bench.fake.change(|world| world.is_mute = true);
    let role = bench.role("A");
    let sending = tokio::spawn(async move { role.send(letter("one"), None).await });
    bench.fake.until("carried out", |world| world.mail.letters.len() == 1).await;
    sending.abort();
    bench.fake.kill().await;
    // As if the broker had died before it wrote anything down.
    bench.fake.change(|world| (world.is_mute, world.mail) = (false, fake_mail()));
    bench.fake.serve();
    bench.fake.until("sent again", |world| world.mail.texts() == ["one"]).await;
}

fn fake_mail() -> super::fake::Mail {
    super::fake::Mail::default()
}

#[tokio::test]
async fn waits_for_mail_and_for_turns_share_a_stream_and_outlive_the_broker() {
    let mut bench = start(Fake::new()).await;
    let (mail, turn) = (bench.awaiting_mail(MailFilter::default()), bench.awaiting("B"));
    bench.parked_for_mail(1).await;
    bench.parked(1).await;
    assert_eq!(bench.fake.world.borrow().streams, 1);
    bench.fake.kill().await;
    bench.fake.serve();
    bench.parked_for_mail(1).await;
    bench.parked(1).await;
    let world = bench.fake.world.borrow().clone();
    assert_eq!(world.streams, 2, "parked again");
    assert!(world.mail.parked.values().all(|question| {
        question.hold_ms <= 600_000 && question.role == "B" && question.mark() == MailMark::None
    }));
    bench.fake.change(|world| world.mail.unseen = vec![thread("BR", "A")]);
    let answer = mail.await.expect("ran").expect("answered");
    assert_eq!((answer.standing(), answer.thread), (Standing::Mail, Some(thread("BR", "A"))));
    bench.role("A").hand_over(to("B")).await.expect("A holds the turn");
    assert!(turn.await.expect("ran").expect("answered").can_start);
}

#[tokio::test]
async fn a_newer_wait_for_the_same_mail_supersedes_the_older() {
    let bench = start(Fake::new()).await;
    let kind = MailFilter { kind: Some(MessageType::Br), sender: None };
    let (older, of_a, of_br) = (
        bench.awaiting_mail(MailFilter::default()),
        bench.awaiting_mail(from("A")),
        bench.awaiting_mail(kind),
    );
    let turn = bench.awaiting("B");
    bench.parked_for_mail(3).await;
    let look = bench.role("B").await_mail(&MailFilter::default(), Duration::ZERO).await;
    assert_eq!(look.expect("looked").standing(), Standing::StillWaiting);
    bench.parked_for_mail(3).await;
    let newer = bench.awaiting_mail(MailFilter::default());
    assert_eq!(standing(older.await), Standing::Superseded);
    bench.fake.until("the newer is parked", |world| world.parks == 6).await;
    bench.parked_for_mail(3).await;
    bench.fake.change(|world| world.mail.unseen = vec![thread("ACK", "A")]);
    assert_eq!(standing(newer.await), Standing::Mail);
    assert_eq!(standing(of_a.await), Standing::Mail);
    assert!(!of_br.is_finished() && !turn.is_finished(), "they wait for something else");
    bench.parked_for_mail(1).await;
    of_br.abort();
    bench.parked_for_mail(0).await;
    assert_eq!(bench.fake.world.borrow().streams, 1, "by a cancel, not by hanging up");
}

#[tokio::test]
async fn a_wait_for_mail_that_a_stopping_broker_lets_go_is_parked_again() {
    let bench = start(Fake::new()).await;
    let waiting = bench.awaiting_mail(MailFilter::default());
    bench.parked_for_mail(1).await;
    bench.fake.change(|world| world.is_stopping = true);
    bench.fake.until("asked again", |world| 2 <= world.streams).await;
    bench.fake.change(|world| {
        world.is_stopping = false;
        world.mail.unseen = vec![thread("BR", "A")];
    });
    assert_eq!(standing(waiting.await), Standing::Mail);
}

#[tokio::test]
async fn waits_for_mail_are_answered_when_the_node_stops() {
    let bench = start(Fake::new()).await;
    let waiting = bench.awaiting_mail(MailFilter::default());
    bench.parked_for_mail(1).await;
    bench.node.shutdown(super::SOON).await;
    assert_eq!(standing(waiting.await), Standing::StillWaiting);
}

#[tokio::test]
async fn a_wait_under_a_stale_epoch_is_asked_again_under_the_new_one() {
    let bench = start(Fake::new()).await;
    bench.fake.change(|world| world.epoch = 1_000);
    let waiting = bench.awaiting_mail(MailFilter::default());
    bench.fake.until("registered again", |world| world.registrations.len() == 2).await;
    bench.parked_for_mail(1).await;
    bench.fake.change(|world| world.mail.unseen = vec![thread("BR", "A")]);
    assert_eq!(standing(waiting.await), Standing::Mail);
}

#[tokio::test]
async fn boxes_are_shown_as_they_were_last_seen_and_new_mail_never() {
    let mut bench = start(Fake::new()).await;
    bench.fake.change(|world| world.mail.unseen = vec![thread("BR", "A")]);
    let role = bench.role("B");
    let (inbox, read) = (
        wire::ListBoxRequest { r#box: wire::Box::Inbox.into(), ..Default::default() },
        wire::ReadThreadRequest {
            message: thread("", "").message_id,
            mark: MailMark::None.into(),
            ..Default::default()
        },
    );
    let seen = role.look_up(inbox.clone()).await.expect("listed");
    assert_eq!((seen.ago, seen.what.threads.len()), (None, 1));
    assert_eq!(role.look_up(read.clone()).await.expect("read").ago, None);
    assert_eq!(
        role.look_up(wire::ListMailboxesRequest::default()).await.expect("listed").ago,
        None
    );
    bench.kill().await;
    let seen = role.look_up(inbox).await.expect("remembered");
    assert!(seen.ago.is_some() && seen.what.threads == [thread("BR", "A")], "{seen:?}");
    let seen = role.look_up(read.clone()).await.expect("remembered");
    assert!(seen.ago.is_some() && seen.what.thread == Some(thread("BR", "A")), "{seen:?}");
    let seen = role.look_up(wire::ListMailboxesRequest::default()).await.expect("remembered");
    assert!(seen.ago.is_some() && seen.what.mailboxes.len() == 2, "{seen:?}");
    let elsewhere = bench.role("A");
    for refusal in [
        elsewhere.look_up(read).await.expect_err("another role's"),
        role.await_mail(&MailFilter::default(), Duration::ZERO).await.expect_err("a wait"),
    ] {
        assert_eq!(refusal.reason, Reason::Unavailable);
    }
}

#[tokio::test]
async fn marks_are_told_when_the_broker_is_back_the_highest_of_each() {
    let mut bench = start(Fake::new()).await;
    bench.kill().await;
    let id: MessageId = thread("", "").message_id.parse().expect("an id");
    let role = bench.role("B");
    // The first is on its way already when the others come.
    for through in [1, 2, 3] {
        role.mark_mail(id, through, MailMark::Handed);
        role.mark_mail(id, through, MailMark::Seen);
        tokio::task::yield_now().await;
    }
    bench.fake.serve();
    let told = |world: &super::fake::World| {
        world.mail.marks.last().is_some_and(|it| (it.through, it.mark()) == (3, MailMark::Seen))
    };
    let world = bench.fake.until("told", told).await;
    let marks: Vec<_> = world.mail.marks.iter().map(|it| (it.through, it.mark())).collect();
    assert!(marks.contains(&(3, MailMark::Handed)) && marks.len() <= 4, "{marks:?}");
    assert!(world.mail.marks.iter().all(|it| it.role == "B" && it.message_id == id.to_string()));
}

fn attached(content: &[u8]) -> wire::Attachment {
    wire::Attachment {
        name: "trace.bin".to_owned(),
        media_type: "application/octet-stream".to_owned(),
        size: content.len() as u64,
        hash: blake3::hash(content).to_hex().to_string(),
    }
}

#[tokio::test]
async fn files_get_through_whole_though_connections_break() {
    let bench = start(Fake::new()).await;
    let content: Vec<u8> = (0..700_000_u32).map(|it| it.to_le_bytes()[0] ^ 0x5a).collect();
    let (file, role) = (attached(&content), bench.role("A"));
    bench.fake.change(|world| world.mail.to_break = 2);
    role.put_attachment(&file, content.clone().into()).await.expect("stored");
    let world = bench.fake.world.borrow().clone();
    assert_eq!((world.mail.files.get(&file.hash), world.mail.transfers), (Some(&content), 3));
    bench.fake.change(|world| world.mail.to_break = 2);
    let got = role.get_attachment("ded6", &file).await.expect("there");
    assert!(got == content, "{} bytes", got.len());
    let empty = attached(b"");
    role.put_attachment(&empty, Bytes::new()).await.expect("stored");
    assert_eq!(role.get_attachment("ded6", &empty).await.expect("there"), Bytes::new());
}

#[tokio::test]
async fn a_file_that_is_not_what_it_should_be_is_not_passed_on() {
    let bench = start(Fake::new()).await;
    let role = bench.role("A");
    let file = attached(b"the trace");
    let put = |file: wire::Attachment, content: &'static [u8]| {
        let role = role.clone();
        async move {
            let refused = role.put_attachment(&file, Bytes::from_static(content)).await;
            refused.expect_err("not what it says").reason
        }
    };
    assert_eq!(put(file.clone(), b"the trick").await, Reason::InvalidArgument);
    assert_eq!(put(file.clone(), b"the").await, Reason::InvalidArgument);
    let large = wire::Attachment { size: u64::MAX, ..file.clone() };
    assert_eq!(put(large, b"").await, Reason::TooLarge);
    assert_eq!(bench.fake.world.borrow().mail.transfers, 0, "nothing was sent");
    let refusal = role.get_attachment("ded6", &file).await.expect_err("not there");
    assert_eq!(refusal.reason, Reason::UnknownAttachment);
    for wrong in [&b"the trick"[..], b"the", b"the trace and more"] {
        let hash = file.hash.clone();
        bench.fake.change(|world| drop(world.mail.files.insert(hash, wrong.to_vec())));
        let refusal = role.get_attachment("ded6", &file).await.expect_err("damaged");
        assert_eq!(refusal.reason, Reason::Damaged, "{wrong:?}");
    }
}

#[tokio::test]
async fn commands_without_words_are_carried_out() {
    let bench = start(Fake::new()).await;
    let (role, qa) = (bench.role("A"), "qa".to_owned());
    let open = wire::OpenMailboxRequest { role: qa.clone(), ..Default::default() };
    role.command(open, None).await.expect("opened");
    let close = wire::CloseMailboxRequest { role: qa, ..Default::default() };
    role.command(close, None).await.expect("closed");
    let moves = wire::MoveRequest { messages: vec!["ded6".to_owned()], ..Default::default() };
    role.move_mail(moves, None).await.expect("moved");
    let mail = bench.fake.world.borrow().mail.clone();
    let asked: Vec<_> = mail.asked.iter().map(|asked| asked.what.as_str()).collect();
    assert_eq!(asked, ["open qa", "close qa", "ded6"]);
    let handed = bench.role("A").hand_over(to("B")).await;
    handed.expect("carried out");
    assert_eq!(bench.role("A").loop_status(&main_loop()).await.expect("there").ago, None);
}
