//! The bytes of mail: what happened, entries, and all of it in a snapshot.

use tasuki_proto::mail::{BoxKind, MessageId};

use super::*;
use crate::rules::{
    Principal,
    guard::Cause,
    mailbox::{
        self, Attachment, AttachmentKept, CopyMoved, Earlier, EntryHead, EntryLapsed, EntrySent,
        File, Mailboxes, MoveOutcome, Moved, RoleNumber, Thread, ThreadHanded, ThreadImported,
        ThreadNumber, ThreadRevived, ThreadSeen, Title,
    },
};

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn thread(number: u128) -> MessageId {
    MessageId::from_bits(number << 96 | number)
}

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

/// One event of every kind, in an order in which they can happen.
fn events() -> Vec<mailbox::Event> {
    let sent = EntrySent {
        thread: thread(1),
        entry: 1,
        sender: role("A"),
        to: vec![role("B"), role("C")],
        kind: 5,
        content: Hash([7; 16]),
        client_ref: Some("mine".to_owned()),
        sender_box: BoxKind::Outbox,
        acted: 0,
        lapses: Some(at(900)),
        files: Vec::new(),
        earlier: Earlier::Unknown,
        hops: None,
        cause: None,
    };
    let answer = EntrySent {
        entry: 2,
        sender: role("B"),
        to: vec![role("A")],
        kind: 1,
        client_ref: None,
        acted: 1,
        lapses: None,
        hops: Some(300),
        cause: Some(Cause::Mail { thread: thread(1), entry: 1 }),
        ..sent.clone()
    };
    let head = EntryHead { sender: role("A"), to: vec![role("D")], kind: 0 };
    vec![
        mailbox::Event::Opened(role("C")),
        mailbox::Event::Sent(sent),
        mailbox::Event::Handed(ThreadHanded {
            thread: thread(1),
            role: role("B"),
            through: 1,
            is_dead: false,
            unseen: Vec::new(),
        }),
        mailbox::Event::Sent(answer),
        mailbox::Event::Seen(ThreadSeen { thread: thread(1), role: role("A"), through: 2 }),
        mailbox::Event::Moved(CopyMoved {
            thread: thread(1),
            role: role("A"),
            to: BoxKind::Done,
            acted: 2,
        }),
        mailbox::Event::Lapsed(EntryLapsed {
            thread: thread(1),
            entry: 1,
            at: at(900),
            roles: vec![role("C")],
            cancelled: vec![role("C")],
            sender: role("A"),
        }),
        mailbox::Event::Imported(ThreadImported {
            thread: thread(2),
            first: 1,
            entries: vec![head],
            copies: vec![(role("A"), BoxKind::Cancel), (role("D"), BoxKind::Inbox)],
        }),
        mailbox::Event::Handed(ThreadHanded {
            thread: thread(2),
            role: role("D"),
            through: 1,
            is_dead: true,
            unseen: vec![(role("A"), 1)],
        }),
        mailbox::Event::Closed(role("C")),
        mailbox::Event::Kept(AttachmentKept { hash: [9; 32], size: 77, role: role("C") }),
    ]
}

fn record() -> Record {
    let revived = ThreadRevived { thread: thread(2), role: role("D") };
    let events = events().into_iter().chain([mailbox::Event::Revived(revived)]);
    let moved = |number, outcome| Moved { thread: thread(number), outcome };
    Record {
        sequence: Sequence::from(5),
        time: at(300),
        principal: Principal { role: Some(role("A")), ..Principal::default() },
        key: Some((IdempotencyKey { client: "c".parse().unwrap(), counter: 9 }, Hash([1; 16]))),
        events: events.map(Event::Mail).collect(),
        reply: Reply::Mail(mailbox::Reply::Moved {
            to: BoxKind::Done,
            moved: vec![
                moved(1, MoveOutcome::Moved),
                moved(2, MoveOutcome::Already),
                moved(3, MoveOutcome::NotInInbox(BoxKind::Outbox)),
                moved(4, MoveOutcome::Unseen(3)),
                moved(5, MoveOutcome::Unknown),
            ],
        }),
        is_repeat: false,
    }
}

fn state() -> Workspace {
    let mut mail = Mailboxes::default();
    for (ms, event) in (1..).zip(events()) {
        mail.apply(at(ms), &Principal::default(), &event);
    }
    // One that waits for its time.
    let open = EntrySent {
        thread: thread(3),
        entry: 1,
        sender: role("A"),
        to: vec![role("A")],
        kind: 4,
        content: Hash([8; 16]),
        client_ref: None,
        sender_box: BoxKind::Inbox,
        acted: 0,
        lapses: Some(at(950)),
        files: Vec::new(),
        earlier: Earlier::Unknown,
        hops: None,
        cause: None,
    };
    mail.apply(at(50), &Principal::default(), &mailbox::Event::Sent(open));
    Workspace { sequence: Sequence::from(9), time: at(800), mail, ..Workspace::default() }
}

#[test]
fn the_bytes_of_a_record_about_mail_are_unchanged() {
    let stored = encode_record(&record(), &[3; 16]);
    check_golden("tests/mail_record.golden.txt", &hex(&stored));
    assert_eq!(decode_record(stored).unwrap(), record());
}

#[test]
fn the_bytes_of_replies_about_mail_are_unchanged() {
    let replies = [
        Reply::Mail(mailbox::Reply::Sent { thread: thread(1), entry: 2, kind: BoxKind::Inbox }),
        Reply::Mail(mailbox::Reply::Imported { thread: thread(1), entries: 3 }),
        Reply::Mail(mailbox::Reply::Revived { thread: thread(1) }),
    ];
    let mut bytes = String::new();
    for reply in replies {
        let record = Record { events: Vec::new(), reply, ..record() };
        let stored = encode_record(&record, &[3; 16]);
        bytes += &hex(&stored);
        assert_eq!(decode_record(stored).unwrap(), record);
    }
    check_golden("tests/mail_replies.golden.txt", &bytes);
}

#[test]
fn the_bytes_of_mail_in_a_snapshot_are_unchanged() {
    let stored = encode_snapshot(&state());
    check_golden("tests/mail_snapshot.golden.txt", &hex(&stored));
    assert_eq!(decode_snapshot(stored).unwrap(), state());
}

#[test]
fn the_bytes_of_mail_are_unchanged_and_long_words_stand_apart() {
    let body = mailbox::EntryBody {
        thread: thread(1),
        number: 1,
        sender: role("A"),
        to: vec![role("B")],
        kind: "BR".to_owned(),
        at: at(5),
        text: "t".repeat(4096),
        sealed: Bytes::from_static(b"sealed"),
        attachments: vec![Attachment {
            name: "f".to_owned(),
            media_type: "text/plain".to_owned(),
            size: 77,
            hash: [9; 32],
        }],
        node: Some("n1".parse().unwrap()),
        token: Some("t1".parse().unwrap()),
        lapses: Some(at(900)),
        written: Some(at(4)),
        title: Some(Title { subject: "s".to_owned(), file_name: "f-00000001.md".to_owned() }),
        hops: Some(7),
        cause: Some(Cause::Turn { loop_id: "main".parse().unwrap(), turn: 6.into() }),
    };
    let short = mailbox::EntryBody { text: "t".to_owned(), ..body.clone() };
    let parts = encode_body(&Body::Mail(short.clone()));
    assert_eq!(parts[0].0.0, "mail/00000001-0000-0000-0000-000000000001/1");
    check_golden("tests/mail_entry.golden.txt", &hex(&parts[0].1));
    let decoded = decode_mail(thread(1), 1, &parts[0].1).unwrap();
    assert_eq!((parts.len(), decoded), (1, (short, MailText::Here)));

    let beside = encode_body(&Body::Mail(body.clone()));
    assert_eq!(beside.len(), 1, "so much fits beside the facts");
    let long = mailbox::EntryBody { text: "t".repeat(4097), ..body };
    let parts = encode_body(&Body::Mail(long.clone()));
    assert_eq!(parts[1].0, mail_text_key(thread(1), 1));
    assert_eq!(parts[1].1, long.text.as_bytes());
    let (facts, place) = decode_mail(thread(1), 1, &parts[0].1).unwrap();
    assert_eq!((facts.text.as_str(), place), ("", MailText::Apart));
    check_body(&Body::Mail(long));
    for content in [&b"text"[..], b"\0\xff"] {
        let (hash, content) = (*blake3::hash(content).as_bytes(), Bytes::from_static(content));
        check_body(&Body::File(mailbox::FileBody { hash, content }));
    }
}

#[test]
fn the_bytes_that_say_who_stored_a_file_are_unchanged() {
    let kept =
        |name| mailbox::Event::Kept(AttachmentKept { hash: [9; 32], size: 77, role: role(name) });
    let kept = [kept("B"), kept("A")];
    let record = Record { events: kept.clone().map(Event::Mail).to_vec(), ..record() };
    let record = Record { reply: Reply::Done, ..record };
    let stored = encode_record(&record, &[3; 16]);
    let mut bytes = hex(&stored);
    assert_eq!(decode_record(stored).unwrap(), record);

    let mut state = state();
    for event in &kept {
        state.mail.apply(at(60), &Principal::default(), event);
    }
    let stored = encode_snapshot(&state);
    bytes += &hex(&stored);
    check_golden("tests/mail_files.golden.txt", &bytes);
    assert_eq!(decode_snapshot(stored).unwrap(), state);

    let file = File { size: 77, roles: [RoleNumber(4)].into(), threads: [].into() };
    let item = mailbox::SnapshotItem::File([9; 32], Cow::Owned(file));
    assert_eq!(state.mail.restore(item), Err("a file's roles"));
}

#[test]
fn the_bytes_that_say_what_a_file_is_attached_to_are_unchanged() {
    let kept = AttachmentKept { hash: [9; 32], size: 77, role: role("A") };
    let sent = EntrySent {
        thread: thread(4),
        entry: 1,
        sender: role("A"),
        to: vec![role("B")],
        kind: 1,
        content: Hash([6; 16]),
        client_ref: None,
        sender_box: BoxKind::Outbox,
        acted: 0,
        lapses: None,
        files: vec![[9; 32]],
        earlier: Earlier::Unknown,
        hops: None,
        cause: None,
    };
    let events = [mailbox::Event::Kept(kept), mailbox::Event::Sent(sent)];
    let record = Record { events: events.clone().map(Event::Mail).to_vec(), ..record() };
    let record = Record { reply: Reply::Done, ..record };
    let stored = encode_record(&record, &[3; 16]);
    let mut bytes = hex(&stored);
    assert_eq!(decode_record(stored).unwrap(), record);

    let mut state = state();
    for event in &events {
        state.mail.apply(at(60), &Principal::default(), event);
    }
    assert_eq!(state.mail.size_of_known(&role("B"), &[9; 32]), Some(77));
    let stored = encode_snapshot(&state);
    bytes += &hex(&stored);
    check_golden("tests/mail_attached.golden.txt", &bytes);
    assert_eq!(decode_snapshot(stored).unwrap(), state);

    let file = File { size: 77, roles: [].into(), threads: [ThreadNumber(900)].into() };
    let item = mailbox::SnapshotItem::File([9; 32], Cow::Owned(file));
    assert_eq!(state.mail.restore(item), Err("a file's threads"));
}

/// A snapshot whose parts do not fit together is damaged, and says so.
#[test]
fn mail_that_does_not_fit_together_is_refused() {
    let mut state = state();
    let whole = state.mail.threads().get(ThreadNumber(0)).clone();
    type Change = fn(&mut Thread);
    let changes: [Change; 6] = [
        |it| it.heads.clear(),
        |it| it.copies.truncate(1),
        |it| it.heads[0].sender = 3,
        |it| it.heads[0].to = 1 << 60,
        |it| it.copies[0].role = RoleNumber(900),
        |it| it.copies[0].seen = 900,
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut bad = whole.clone();
        change(&mut bad);
        let refused = state.mail.restore(mailbox::SnapshotItem::Thread(Cow::Owned(bad)));
        assert_eq!(refused, Err("a thread's parts"), "change {number}");
    }
    let expiry = mailbox::SnapshotItem::Expiry(at(9), ThreadNumber(900), 1);
    assert_eq!(state.mail.restore(expiry), Err("an expiry's thread"));
    let again = mailbox::Mailbox::new(state.mail.mailboxes()[0].role.clone());
    let again = mailbox::SnapshotItem::Mailbox(Cow::Owned(again));
    assert_eq!(state.mail.restore(again), Err("a mailbox's role"));
}

#[test]
fn letters_that_were_under_way_together_are_known_from_a_snapshot() {
    let mut mail = Mailboxes::default();
    let mut told = String::new();
    for (number, earlier) in [(1, Earlier::Arrived), (2, Earlier::UnderWay), (3, Earlier::Unknown)]
    {
        let sent = EntrySent {
            thread: thread(number),
            entry: 1,
            sender: role("A"),
            to: vec![role("B")],
            kind: 4,
            content: Hash([u8::try_from(number).unwrap(); 16]),
            client_ref: None,
            sender_box: BoxKind::Outbox,
            acted: 0,
            lapses: None,
            files: Vec::new(),
            earlier,
            hops: None,
            cause: None,
        };
        let event = mailbox::Event::Sent(sent);
        mail.apply(at(50), &Principal::default(), &event);
        let record = Record { events: vec![Event::Mail(event)], ..record() };
        let stored = encode_record(&record, &[3; 16]);
        told += &hex(&stored);
        assert_eq!(decode_record(stored).unwrap(), record);
    }
    let workspace =
        Workspace { sequence: Sequence::from(9), time: at(800), mail, ..Workspace::default() };
    let stored = encode_snapshot(&workspace);
    assert_eq!(decode_snapshot(stored.clone()).unwrap(), workspace);
    assert_eq!(workspace.mail.mailboxes()[0].recent.iter().count(), 3);
    told += &hex(&stored);
    check_golden("tests/mail_under_way.golden.txt", &told);
}
