//! Stories about mail: who does what at which moment, and what comes of it.

mod compact;

use std::fmt::Write as _;

use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::HANDED_MAX,
    mail::{BoxKind, MessageId, MessageType},
};

use super::*;
use crate::rules::{
    Caller, Command as AnyCommand, Context, Decision, Principal, ReceiptKind, Request, Workspace,
    presence::Presence,
};

struct Story {
    workspace: Workspace,
    told: String,
}

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

fn thread(number: &str) -> MessageId {
    MessageId::from_bits(number.parse::<u128>().unwrap() << 96)
}

/// A file with this content, as it is attached.
fn file(content: &str) -> Attachment {
    let (name, media_type) = (content.to_owned(), "text/plain".to_owned());
    let hash = *blake3::hash(content.as_bytes()).as_bytes();
    Attachment { name, media_type, size: content.len() as u64, hash }
}

fn keep(who: &str, content: &str) -> StoreAttachment {
    let hash = file(content).hash;
    StoreAttachment {
        role: role(who),
        hash,
        content: bytes::Bytes::copy_from_slice(content.as_bytes()),
    }
}

/// `A writes 1 to B,C: words`, `B answers 1 to A: words`, `B waits`, `B is handed 1 to 2`,
/// `B sees 1 to 2`, `B resolves 1,2`, `B rejects 1`, `B is handed 1 again`, `opens B`, `closes B`,
/// `A stores log`, `time`, `1 is taken over: A to B in done`.
fn command(line: &str, mail: &Mailboxes) -> Option<Command> {
    let (head, text) = line.split_once(": ").unwrap_or((line, ""));
    let (mut words, mut options) = (Vec::new(), Vec::new());
    for word in head.split(' ') {
        match word.strip_prefix('+') {
            Some(option) => options.push(option),
            None => words.push(word),
        }
    }
    let option = |name: &str| options.iter().find_map(|it| it.strip_prefix(name));
    let send = |from: &str, to: &str, target: ThreadTarget| {
        Command::Send(Send {
            role: role(from),
            to: to.split(',').map(role).collect(),
            kind: if options.contains(&"urgent") { MessageType::Urgent } else { MessageType::Br },
            target,
            text: text.to_owned(),
            sealed: bytes::Bytes::new(),
            same: bytes::Bytes::new(),
            client_ref: option("ref=").map(str::to_owned),
            fold: options.contains(&"fold"),
            earlier: match option("earlier=") {
                Some("arrived") => Earlier::Arrived,
                Some("under-way") => Earlier::UnderWay,
                Some(_) | None => Earlier::Unknown,
            },
            expires_in_ms: option("within=").map(|ms| ms.parse().unwrap()),
            attachments: option("file=").map(file).into_iter().collect(),
        })
    };
    let mark = |who: &str, number: &str, through: &str, mark| {
        let through = through.parse().unwrap();
        Command::Mark(MarkThread { role: role(who), thread: thread(number), through, mark })
    };
    let moving = |who: &str, numbers: &str, to| {
        let threads = numbers.split(',').map(|it| Some(thread(it))).collect();
        Command::Move(Move { role: role(who), threads, to })
    };
    Some(match words[..] {
        [who, "writes", number, "to", to] => {
            let subject = "s".to_owned();
            let target =
                ThreadTarget::Begin(Subject { thread: thread(number), subject, utc_offset_s: 0 });
            send(who, to, target)
        }
        [who, "answers", number, "to", to] => send(who, to, ThreadTarget::Answer(thread(number))),
        [who, "waits"] => {
            let shown = mail.answer(&role(who), &Filter::default()).mail?;
            let (thread, through, mark) = (shown.id, shown.entries, ReceiptKind::Handed);
            Command::Mark(MarkThread { role: role(who), thread, through, mark })
        }
        [who, "is", "handed", number, "again"] => {
            Command::HandAgain { role: role(who), thread: thread(number) }
        }
        [who, "sees", number, "to", through] => mark(who, number, through, ReceiptKind::Seen),
        [who, "resolves", numbers] => moving(who, numbers, BoxKind::Done),
        [who, "rejects", numbers] => moving(who, numbers, BoxKind::Cancel),
        [who, "stores", content] => Command::StoreAttachment(keep(who, content)),
        ["opens", who] => Command::Open(role(who)),
        ["closes", who] => Command::Close(role(who)),
        [number, "is", "taken", "over"] => {
            let parts: Vec<&str> = text.split(' ').collect();
            let [from, "to", to, "in", kind] = parts[..] else { panic!("{text}") };
            Command::Import(Import {
                thread: thread(number),
                subject: "s".to_owned(),
                file_name: None,
                entries: vec![ImportedEntry {
                    sender: role(from),
                    to: vec![role(to)],
                    kind: "OLD".to_owned(),
                    written: Timestamp::from_millis(1),
                    text: "old".to_owned(),
                }],
                copies: vec![(role(to), kind.parse().unwrap())],
            })
        }
        ref other => panic!("no such command: {other:?}"),
    })
}

impl Story {
    fn step(&mut self, ms: u64, line: &str) {
        let now = Timestamp::from_millis(ms);
        let command = match line {
            "time" => Some(AnyCommand::Tick),
            line => command(line, &self.workspace.mail).map(AnyCommand::Mail),
        };
        let said = match command {
            None => "nothing".to_owned(),
            Some(command) => self.execute(now, command),
        };
        writeln!(self.told, "{ms:>3} {line}: {said}").unwrap();
    }

    fn execute(&mut self, now: Timestamp, command: AnyCommand) -> String {
        let presence = Presence::new(Timestamp::default());
        let context = Context::new(presence, 1_000_000);
        let request = Request { caller: Caller::default(), key: None, command };
        let decision = match self.workspace.decide(now, &context, &request) {
            Err(rejection) => return format!("no: {}", rejection.reason()),
            Ok(decision) => decision,
        };
        let said = say(&decision);
        if !decision.events.is_empty() {
            let sequence = self.workspace.sequence.next();
            let (record, _) = decision.into_record(sequence, now, Principal::default(), None);
            self.workspace.apply(&record);
        }
        said + &self.boxes()
    }

    /// Where whose copies are: `A o1 | B i1*`, with a star where something is unseen and a cross
    /// on a dead letter.
    fn boxes(&self) -> String {
        let mut told = String::new();
        for mailbox in self.workspace.mail.mailboxes() {
            let mut copies = String::new();
            for (kind, letter) in BoxKind::ALL.into_iter().zip(["i", "o", "d", "c"]) {
                for facts in self.workspace.mail.page(&mailbox.role, kind, None) {
                    let number = facts.id.bits() >> 96;
                    let state = match (facts.is_dead, facts.unseen) {
                        (true, _) => "†",
                        (false, 0) => "",
                        (false, _) => "*",
                    };
                    write!(copies, " {letter}{number}{state}").unwrap();
                }
            }
            if !copies.is_empty() {
                write!(told, " | {}{copies}", mailbox.role).unwrap();
            }
        }
        told
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "these stories are about mail")]
fn say(decision: &Decision) -> String {
    use crate::rules::Reply;
    let mut said = match &decision.reply {
        Reply::Mail(super::Reply::Sent { thread, entry, .. }) => {
            format!("{}/{entry}", thread.bits() >> 96)
        }
        Reply::Mail(super::Reply::Moved { moved, .. }) => {
            let outcomes: Vec<String> =
                moved.iter().map(|it| format!("{:?}", it.outcome)).collect();
            outcomes.join(", ")
        }
        Reply::Mail(super::Reply::Imported { thread, entries }) => {
            format!("{}/{entries}", thread.bits() >> 96)
        }
        Reply::Mail(super::Reply::Revived { .. }) if decision.events.is_empty() => {
            "so already".to_owned()
        }
        Reply::Mail(super::Reply::Revived { .. }) => "done".to_owned(),
        Reply::Done if decision.events.is_empty() => "so already".to_owned(),
        Reply::Done => "done".to_owned(),
        other => unreachable!("not of mail: {other:?}"),
    };
    if decision.is_repeat {
        said += " (said before)";
    }
    said
}

#[track_caller]
fn check(steps: &[(u64, &str)], expected: &str) {
    let mut story = Story { workspace: Workspace::default(), told: String::new() };
    for (ms, line) in steps {
        story.step(*ms, line);
    }
    let trim = |text: &str| text.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(trim(&story.told), trim(expected));
}

#[test]
fn a_thread_goes_to_and_fro() {
    check(
        &[
            (1, "A writes 1 to B: m1"),
            (2, "B waits"),
            (3, "B answers 1 to A: m2"),
            (4, "A waits"),
            (5, "A answers 1 to B: m3"),
            (6, "B waits"),
            (7, "B resolves 1"),
            (8, "B resolves 1"),
            (9, "A resolves 1"),
            (10, "A answers 1 to B: m4"),
        ],
        "1 A writes 1 to B: m1: 1/1 | A o1 | B i1*
         2 B waits: done | A o1 | B i1*
         3 B answers 1 to A: m2: 1/2 | A i1* | B o1
         4 A waits: done | A i1* | B o1
         5 A answers 1 to B: m3: 1/3 | A o1 | B i1*
         6 B waits: done | A o1 | B i1*
         7 B resolves 1: Moved | A o1 | B d1
         8 B resolves 1: Already | A o1 | B d1
         9 A resolves 1: Moved | A d1 | B d1
        10 A answers 1 to B: m4: 1/4 | A o1 | B i1*",
    );
}

/// An answer takes a thread out of the inbox; whoever is done with it may still say so.
#[test]
fn a_thread_is_put_away_after_ones_own_answer() {
    check(
        &[
            (1, "A writes 1 to B: m1"),
            (2, "A resolves 1"),
            (3, "B sees 1 to 1"),
            (4, "B answers 1 to A: m2"),
            (5, "B resolves 1"),
            (6, "B rejects 1"),
            (7, "A answers 1 to B: m3"),
            (8, "A writes 2 to B: m1"),
            (9, "B sees 2 to 1"),
            (10, "B answers 2 to A: m2"),
            (11, "B rejects 2"),
        ],
        "1 A writes 1 to B: m1: 1/1 | A o1 | B i1*
         2 A resolves 1: NotInInbox(Outbox) | A o1 | B i1*
         3 B sees 1 to 1: done | A o1 | B i1
         4 B answers 1 to A: m2: 1/2 | A i1* | B o1
         5 B resolves 1: Moved | A i1* | B d1
         6 B rejects 1: NotInInbox(Done) | A i1* | B d1
         7 A answers 1 to B: m3: 1/3 | A i1* | B i1*
         8 A writes 2 to B: m1: 2/1 | A i1* o2 | B i1* i2*
         9 B sees 2 to 1: done | A i1* o2 | B i1* i2
        10 B answers 2 to A: m2: 2/2 | A i1* i2* | B i1* o2
        11 B rejects 2: Moved | A i1* i2* | B i1* c2",
    );
}

#[test]
fn what_came_in_unnoticed_is_not_put_away() {
    check(
        &[
            (1, "A writes 1 to B: m1"),
            (2, "B sees 1 to 1"),
            (3, "A answers 1 to B: m2"),
            (4, "B resolves 1"),
            (5, "B answers 1 to A: m3"),
            (6, "B waits"),
            (7, "B resolves 1"),
            (8, "A writes 2 to B: never looked at"),
            (9, "B rejects 2,9"),
        ],
        "1 A writes 1 to B: m1: 1/1 | A o1 | B i1*
         2 B sees 1 to 1: done | A o1 | B i1
         3 A answers 1 to B: m2: 1/2 | A o1 | B i1*
         4 B resolves 1: Unseen(1) | A o1 | B i1*
         5 B answers 1 to A: m3: 1/3 | A i1* | B i1*
         6 B waits: done | A i1* | B i1*
         7 B resolves 1: Moved | A i1* | B d1
         8 A writes 2 to B: never looked at: 2/1 | A i1* o2 | B i2* d1
         9 B rejects 2,9: Moved, Unknown | A i1* o2 | B d1 c2",
    );
}

#[test]
fn each_receiver_has_a_copy_of_its_own() {
    check(
        &[
            (1, "opens C"),
            (2, "A writes 1 to B,C: m1"),
            (3, "B waits"),
            (4, "B answers 1 to A: from B"),
            (5, "C rejects 1"),
            (6, "A answers 1 to ghost: m"),
            (7, "closes C"),
            (8, "A answers 1 to C: m"),
            (9, "D answers 1 to A: I take no part"),
        ],
        "1 opens C: done
         2 A writes 1 to B,C: m1: 1/1 | C i1* | A o1 | B i1*
         3 B waits: done | C i1* | A o1 | B i1*
         4 B answers 1 to A: from B: 1/2 | C i1* | A i1* | B o1
         5 C rejects 1: Moved | C c1 | A i1* | B o1
         6 A answers 1 to ghost: m: no: unknown_role
         7 closes C: done | C c1 | A i1* | B o1
         8 A answers 1 to C: m: no: mailbox_closed
         9 D answers 1 to A: I take no part: no: unknown_message",
    );
}

#[test]
fn urgent_mail_is_shown_first_and_stays_behind_once_seen() {
    let mut story = Story { workspace: Workspace::default(), told: String::new() };
    story.step(1, "A writes 1 to B: m1");
    story.step(2, "A writes 2 to B +urgent: m2");
    story.step(3, "A writes 3 to B +urgent: m3");
    let shown = |story: &Story| {
        let told = story.workspace.mail.answer(&role("B"), &Filter::default()).mail;
        told.map(|facts| facts.id.bits() >> 96)
    };
    assert_eq!(shown(&story), Some(2));
    story.step(4, "B sees 2 to 1");
    assert_eq!(shown(&story), Some(3));
    story.step(5, "B sees 3 to 1");
    assert_eq!(shown(&story), Some(1));
    let only = |kind, sender: &str| Filter { kind, sender: Some(role(sender)) };
    let mail = &story.workspace.mail;
    assert!(mail.answer(&role("B"), &only(Some(MessageType::Br), "A")).mail.is_some());
    assert!(mail.answer(&role("B"), &only(Some(MessageType::Info), "A")).mail.is_none());
    assert!(mail.answer(&role("B"), &only(None, "C")).mail.is_none());
    let who = role("B");
    let listed = mail.page(&who, BoxKind::Inbox, None).map(|it| it.id.bits() >> 96);
    assert_eq!(listed.collect::<Vec<_>>(), [2, 3, 1]);
}

#[test]
fn the_same_intent_is_one_entry() {
    check(
        &[
            (1, "A writes 1 to B +ref=x: m"),
            (2, "A writes 2 to B +ref=x: m"),
            (3, "A writes 3 to B +ref=x: other"),
            (4, "A writes 4 to B +fold: again"),
            (5, "A writes 5 to B +fold: again"),
            (6, "B sees 4 to 1"),
            (7, "A writes 6 to B +fold: again"),
            (8, "A writes 7 to B: again"),
            (9, "A writes 7 to B: the id is taken"),
        ],
        "1 A writes 1 to B +ref=x: m: 1/1 | A o1 | B i1*
         2 A writes 2 to B +ref=x: m: 1/1 (said before) | A o1 | B i1*
         3 A writes 3 to B +ref=x: other: no: key_reused
         4 A writes 4 to B +fold: again: 4/1 | A o1 o4 | B i1* i4*
         5 A writes 5 to B +fold: again: 4/1 (said before) | A o1 o4 | B i1* i4*
         6 B sees 4 to 1: done | A o1 o4 | B i1* i4
         7 A writes 6 to B +fold: again: 6/1 | A o1 o4 o6 | B i1* i4 i6*
         8 A writes 7 to B: again: 7/1 | A o1 o4 o6 o7 | B i1* i4 i6* i7*
         9 A writes 7 to B: the id is taken: no: message_exists",
    );
}

#[test]
fn a_letter_under_way_with_others_is_known_until_its_answer_arrived() {
    check(
        &[
            (1, "A writes 1 to B +fold: one"),
            (2, "A writes 2 to B +fold +earlier=under-way: two"),
            (3, "A writes 3 to B +fold +earlier=under-way: three"),
            // The sender was killed, and three agents say it again, in whatever order.
            (4, "A writes 4 to B +fold: one"),
            (5, "A writes 5 to B +fold: four"),
            (6, "A writes 6 to B +fold: two"),
            (7, "A writes 7 to B +earlier=arrived: one"),
            (8, "A writes 8 to B +fold: two"),
            (9, "A writes 9 to B +fold: three"),
        ],
        "1 A writes 1 to B +fold: one: 1/1 | A o1 | B i1*
         2 A writes 2 to B +fold +earlier=under-way: two: 2/1 | A o1 o2 | B i1* i2*
         3 A writes 3 to B +fold +earlier=under-way: three: 3/1 | A o1 o2 o3 | B i1* i2* i3*
         4 A writes 4 to B +fold: one: 1/1 (said before) | A o1 o2 o3 | B i1* i2* i3*
         5 A writes 5 to B +fold: four: 5/1 | A o1 o2 o3 o5 | B i1* i2* i3* i5*
         6 A writes 6 to B +fold: two: 2/1 (said before) | A o1 o2 o3 o5 | B i1* i2* i3* i5*
         7 A writes 7 to B +earlier=arrived: one: 7/1 | A o1 o2 o3 o5 o7 | B i1* i2* i3* i5* i7*
         8 A writes 8 to B +fold: two: 8/1 | A o1 o2 o3 o5 o7 o8 | B i1* i2* i3* i5* i7* i8*
         9 A writes 9 to B +fold: three: 9/1 | A o1 o2 o3 o5 o7 o8 o9 | B i1* i2* i3* i5* i7* i8* i9*",
    );
}

#[test]
fn one_agent_that_says_something_else_in_between_means_it_again() {
    check(
        &[
            (1, "A writes 1 to B +fold: start"),
            (2, "A writes 2 to B +fold: stop"),
            (3, "A writes 3 to B +fold: start"),
        ],
        "1 A writes 1 to B +fold: start: 1/1 | A o1 | B i1*
         2 A writes 2 to B +fold: stop: 2/1 | A o1 o2 | B i1* i2*
         3 A writes 3 to B +fold: start: 3/1 | A o1 o2 o3 | B i1* i2* i3*",
    );
}

#[test]
fn what_nobody_sees_in_time_lapses() {
    check(
        &[
            (1, "A writes 1 to B +within=10: m1"),
            (2, "A writes 2 to B +within=10: m2"),
            (3, "B sees 2 to 1"),
            (4, "A answers 1 to B: m1b"),
            (5, "A writes 3 to B +within=10: m3"),
            (11, "time"),
            (15, "time"),
            (16, "B waits"),
        ],
        "1 A writes 1 to B +within=10: m1: 1/1 | A o1 | B i1*
         2 A writes 2 to B +within=10: m2: 2/1 | A o1 o2 | B i1* i2*
         3 B sees 2 to 1: done | A o1 o2 | B i1* i2
         4 A answers 1 to B: m1b: 1/2 | A o1 o2 | B i1* i2
         5 A writes 3 to B +within=10: m3: 3/1 | A o1 o2 o3 | B i1* i2 i3*
        11 time: done | A o1 o2 o3 | B i1* i2 i3*
        15 time: done | A o1 o2 o3 | B i1* i2 c3
        16 B waits: done | A o1 o2 o3 | B i1* i2 c3",
    );
}

#[test]
fn what_is_handed_again_and_again_is_put_aside_until_somebody_asks_for_it() {
    let mut story = Story { workspace: Workspace::default(), told: String::new() };
    story.step(1, "A writes 1 to B: poison");
    story.step(2, "A writes 2 to B: after it");
    for ms in 0..u64::from(HANDED_MAX) {
        assert!(!story.boxes().contains('†'));
        story.step(10 + ms, "B waits");
    }
    assert_eq!(story.boxes(), " | A o1 o2 | B i1† i2*");
    let dead: Vec<_> = story.workspace.mail.dead_letters(&role("B"), None).collect();
    assert_eq!((dead.len(), dead[0].handed), (1, HANDED_MAX));
    let receipts = story.workspace.mail.receipts(thread("1"), 1, 1).of(1).remove(0);
    assert_eq!(receipts.dead, Some(Timestamp::from_millis(9 + u64::from(HANDED_MAX))));
    story.step(30, "B is handed 1 again");
    assert_eq!(story.boxes(), " | A o1 o2 | B i1* i2*");
    for ms in 0..u64::from(HANDED_MAX) {
        story.step(40 + ms, "B waits");
    }
    story.step(60, "A answers 1 to B: something new");
    assert_eq!(story.boxes(), " | A o1 o2 | B i1* i2*", "what is new is worth showing");
}

#[test]
fn what_was_written_elsewhere_is_taken_over() {
    check(
        &[
            (1, "1 is taken over: old to B in done"),
            (2, "2 is taken over: old to B in inbox"),
            (3, "2 is taken over: old to B in cancel"),
            (4, "B answers 1 to old: m"),
        ],
        "1 1 is taken over: old to B in done: 1/1 | old d1 | B d1
         2 2 is taken over: old to B in inbox: 2/1 | old d1 d2 | B i2* d1
         3 2 is taken over: old to B in cancel: 2/2 | old d1 d2 | B i2* d1
         4 B answers 1 to old: m: 1/2 | old i1* d2 | B i2* o1",
    );
}

#[test]
fn names_lead_to_threads_of_ones_own_only() {
    let mut mail = Mailboxes::default();
    let ids = ["aaaa0001", "aaaa0002", "abcd0003"].map(|short| {
        let text = format!("{short}-0000-4000-8000-000000000000");
        text.parse::<MessageId>().unwrap()
    });
    for (id, to) in ids.iter().zip(["B", "B", "C"]) {
        let head = EntryHead { sender: role("A"), to: vec![role(to)], kind: 1 };
        let copies = vec![(role("A"), BoxKind::Outbox), (role(to), BoxKind::Inbox)];
        let imported = ThreadImported { thread: *id, first: 1, entries: vec![head], copies };
        mail.apply(Timestamp::from_millis(1), &Principal::default(), &Event::Imported(imported));
    }
    let found = |who: &str, digits: &str| mail.find_prefix(&role(who), digits, 9).len();
    assert_eq!([found("A", "aaaa"), found("A", "aaaa0002"), found("A", "a")], [2, 1, 3]);
    assert_eq!([found("B", "abcd"), found("C", "abcd"), found("C", "abcd00034")], [0, 1, 0]);
    assert_eq!(mail.find_short(&role("B"), 0xaaaa_0001), [ids[0]]);
    assert!(mail.find(&role("C"), ids[0]).is_err());
}

#[test]
fn a_file_is_known_to_roles_that_stored_it_or_got_it() {
    check(
        &[
            (0, "opens B"),
            (1, "A stores log"),
            (2, "A stores log"),
            (3, "B writes 1 to A +file=log: stolen"),
            (4, "A writes 1 to B +file=log: mine"),
            (5, "B writes 2 to A +file=log: forwarded"),
            (6, "B stores log"),
            (7, "C stores log"),
            (8, "C writes 3 to A +file=log: it sent the bytes"),
            (9, "opens D"),
            (10, "D writes 4 to A +file=log: stolen"),
            (11, "B answers 1 to D: all of it"),
            (12, "D writes 4 to A +file=log: got with the thread"),
        ],
        "0 opens B: done
         1 A stores log: done
         2 A stores log: so already (said before)
         3 B writes 1 to A +file=log: stolen: no: unknown_attachment
         4 A writes 1 to B +file=log: mine: 1/1 | B i1* | A o1
         5 B writes 2 to A +file=log: forwarded: 2/1 | B i1* o2 | A i2* o1
         6 B stores log: so already (said before) | B i1* o2 | A i2* o1
         7 C stores log: done | B i1* o2 | A i2* o1
         8 C writes 3 to A +file=log: it sent the bytes: 3/1 | B i1* o2 | A i2* i3* o1 | C o3
         9 opens D: done | B i1* o2 | A i2* i3* o1 | C o3
        10 D writes 4 to A +file=log: stolen: no: unknown_attachment
        11 B answers 1 to D: all of it: 1/2 | B i1* o2 | A i2* i3* o1 | C o3 | D i1*
        12 D writes 4 to A +file=log: got with the thread: 4/1 | B i1* o2 | A i2* i3* i4* o1 | C o3 | D i1* o4",
    );
}

/// Where the file is already, its bytes are not written again; and what is refused does not tell
/// that it is there.
#[test]
fn a_file_is_written_and_counted_once() {
    let mut mail = Mailboxes::default();
    let mut store = |who: &str| {
        let decision = mail.decide_keep(&keep(who, "log")).unwrap();
        for event in &decision.events {
            let crate::rules::Event::Mail(event) = event else { panic!("{event:?}") };
            mail.apply(Timestamp::from_millis(1), &Principal::default(), event);
        }
        (decision.is_repeat, decision.bodies.len(), mail.attachment_bytes)
    };
    assert_eq!(["A", "B", "B"].map(&mut store), [(false, 1, 3), (false, 0, 3), (true, 0, 3)]);

    mail.attachment_bytes = tasuki_proto::limits::ATTACHMENTS_BYTES_MAX - 2;
    for content in ["log", "new"] {
        let refused = mail.decide_keep(&keep("C", content)).unwrap_err();
        assert_eq!(refused, Rejection::TooManyAttachments, "{content}");
    }
    assert!(mail.decide_keep(&keep("A", "log")).unwrap().is_repeat);
}

#[test]
fn a_file_is_kept_once_and_known_to_who_stored_it() {
    let Attachment { size, hash, .. } = file("log");
    let mut mail = Mailboxes::default();
    for who in ["A", "B"] {
        assert_eq!(mail.size_of_known(&role(who), &hash), None);
        let kept = Event::Kept(AttachmentKept { hash, size, role: role(who) });
        mail.apply(Timestamp::from_millis(1), &Principal::default(), &kept);
        assert_eq!((mail.size_of_known(&role(who), &hash), mail.attachment_bytes), (Some(3), 3));
    }
}

/// A million of them are to fit.
#[test]
fn a_thread_takes_little_memory() {
    assert_eq!(size_of::<Thread>(), 96);
}
