//! The part of the story that is about mail, and what must hold of it, judged by what was sent and
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tasuki_broker::rules::{
    Event, ReceiptKind, Workspace,
    mailbox::{
        self, Command, Earlier, EntryReceipts, Filter, Import, ImportedEntry, MarkThread, Move,
        Send, Subject, ThreadTarget,
    },
};
use tasuki_proto::{
    id::{RoleId, Timestamp},
    mail::{BoxKind, MessageId, MessageType},
};

use super::{Call, ROLES, call};

/// Threads that stories are about.
const THREADS: u8 = 6;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Send {
        call: Call,
        from: u8,
        to: u8,
        thread: u8,
        answers: bool,
        urgent: bool,
        text: u8,
        name: Option<u8>,
        fold: bool,
        expires_in_ms: Option<u64>,
    },
    Move {
        call: Call,
        role: u8,
        threads: Vec<u8>,
        done: bool,
    },
    Mark {
        role: u8,
        thread: u8,
        through: u32,
        handed: bool,
    },
    /// What a wait does: shows, and tells that it was shown.
    Wait {
        role: u8,
    },
    HandAgain {
        call: Call,
        role: u8,
        thread: u8,
    },
    Door {
        call: Call,
        role: u8,
        opens: bool,
    },
    Import {
        call: Call,
        thread: u8,
        from: u8,
        to: u8,
        done: u8,
    },
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let text = 0..4u8;
    let name = proptest::option::weighted(0.3, 0..3u8);
    let expires = proptest::option::weighted(0.2, 1..200u64);
    prop_oneof![
        8 => (
            (call(), 0..4u8, 1..16u8, 0..THREADS, any::<bool>()),
            (0..4u8, text, name, any::<bool>(), expires),
        )
            .prop_map(|((call, from, to, thread, answers), (rare, text, name, fold, expires))| {
                let (urgent, expires_in_ms) = (rare == 0, expires);
                Step::Send {
                    call, from, to, thread, answers, urgent, text, name, fold, expires_in_ms
                }
            }),
        3 => (call(), 0..4u8, prop::collection::vec(0..THREADS, 1..4), any::<bool>())
            .prop_map(|(call, role, threads, done)| Step::Move { call, role, threads, done }),
        3 => (0..4u8, 0..THREADS, 1..8u32, any::<bool>())
            .prop_map(|(role, thread, through, handed)| Step::Mark { role, thread, through, handed }),
        6 => (0..4u8).prop_map(|role| Step::Wait { role }),
        1 => (call(), 0..4u8, 0..THREADS)
            .prop_map(|(call, role, thread)| Step::HandAgain { call, role, thread }),
        1 => (call(), 0..4u8, any::<bool>())
            .prop_map(|(call, role, opens)| Step::Door { call, role, opens }),
        1 => (call(), 0..THREADS, 0..4u8, 1..16u8, 0..16u8)
            .prop_map(|(call, thread, from, to, done)| Step::Import { call, thread, from, to, done }),
    ]
}

fn thread(number: u8) -> MessageId {
    // Two of them begin with the same digits.
    MessageId::from_bits((u128::from(number / 2) << 96) + u128::from(number))
}

fn role(number: u8) -> RoleId {
    ROLES[usize::from(number)].parse().expect("a role")
}

/// What a step asks for, by whom; `None` where there is nothing to ask.
pub(super) fn command<'a>(
    step: &'a Step,
    workspace: &Workspace,
) -> Option<(Option<&'a Call>, Command)> {
    let thread_of = |number: &u8| thread(*number);
    Some(match step {
        Step::Send {
            call,
            from,
            to,
            thread: number,
            answers,
            urgent,
            text,
            name,
            fold,
            expires_in_ms,
        } => {
            let target = match answers {
                true => ThreadTarget::Answer(thread(*number)),
                false => ThreadTarget::Begin(Subject {
                    thread: thread(*number),
                    subject: "s".to_owned(),
                    utc_offset_s: 0,
                }),
            };
            let send = Send {
                role: role(*from),
                to: super::roles(*to),
                kind: if *urgent { MessageType::Urgent } else { MessageType::Info },
                target,
                text: format!("t{text}"),
                sealed: bytes::Bytes::new(),
                same: bytes::Bytes::new(),
                client_ref: name.map(|name| format!("n{name}")),
                fold: *fold,
                earlier: [Earlier::Unknown, Earlier::UnderWay, Earlier::Arrived]
                    [usize::from(*number) % 3],
                expires_in_ms: *expires_in_ms,
                attachments: Vec::new(),
            };
            (Some(call), Command::Send(send))
        }
        Step::Move { call, role: who, threads, done } => {
            let to = if *done { BoxKind::Done } else { BoxKind::Cancel };
            let threads = threads.iter().map(|it| Some(thread_of(it))).collect();
            (Some(call), Command::Move(Move { role: role(*who), threads, to }))
        }
        Step::Mark { role: who, thread: number, through, handed } => {
            let mark = if *handed { ReceiptKind::Handed } else { ReceiptKind::Seen };
            let (role, thread, through) = (role(*who), thread(*number), *through);
            (None, Command::Mark(MarkThread { role, thread, through, mark }))
        }
        Step::Wait { role: who } => {
            let role = role(*who);
            let shown = workspace.mail.answer(&role, &Filter::default()).mail?;
            let (thread, through, mark) = (shown.id, shown.entries, ReceiptKind::Handed);
            (None, Command::Mark(MarkThread { role, thread, through, mark }))
        }
        Step::HandAgain { call, role: who, thread: number } => {
            (Some(call), Command::HandAgain { role: role(*who), thread: thread(*number) })
        }
        Step::Door { call, role: who, opens: true } => (Some(call), Command::Open(role(*who))),
        Step::Door { call, role: who, opens: false } => (Some(call), Command::Close(role(*who))),
        Step::Import { call, thread: number, from, to, done } => {
            let entry = ImportedEntry {
                sender: role(*from),
                to: super::roles(*to),
                kind: "OLD".to_owned(),
                written: Timestamp::from_millis(5),
                text: "imported".to_owned(),
            };
            let copies = super::roles(*done).into_iter().map(|role| (role, BoxKind::Done));
            let import = Import {
                thread: thread(*number),
                subject: "s".to_owned(),
                file_name: None,
                entries: vec![entry],
                copies: copies.collect(),
            };
            (Some(call), Command::Import(import))
        }
    })
}

/// What happened to mail, as one who keeps everything would tell it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Sender and receivers of each entry, in order.
    threads: BTreeMap<MessageId, Vec<(RoleId, Vec<RoleId>)>>,
    /// In the order in which they began.
    begun: Vec<MessageId>,
    /// The latest that was told of each entry at each receiver.
    receipts: BTreeMap<(MessageId, u32, RoleId), EntryReceipts>,
}

impl Ledger {
    /// Takes in what is about to be applied.
    pub(super) fn take(&mut self, event: &Event) {
        let Event::Mail(event) = event else { return };
        match event {
            mailbox::Event::Sent(it) => {
                let thread = self.thread(it.thread);
                thread.push((it.sender.clone(), it.to.clone()));
                assert_eq!(thread.len(), it.entry as usize, "X1: entries in order");
            }
            mailbox::Event::Imported(it) => {
                let thread = self.thread(it.thread);
                assert_eq!(thread.len() + 1, it.first as usize, "X1: entries in order");
                thread.extend(it.entries.iter().map(|it| (it.sender.clone(), it.to.clone())));
            }
            mailbox::Event::Moved(_)
            | mailbox::Event::Handed(_)
            | mailbox::Event::Seen(_)
            | mailbox::Event::Lapsed(_)
            | mailbox::Event::Revived(_)
            | mailbox::Event::Opened(_)
            | mailbox::Event::Closed(_)
            | mailbox::Event::Kept(_) => {}
            mailbox::Event::Compacted(threads) => {
                for number in threads {
                    self.compacted(self.begun[number.0 as usize]);
                }
            }
        }
    }

    fn thread(&mut self, id: MessageId) -> &mut Vec<(RoleId, Vec<RoleId>)> {
        if !self.threads.contains_key(&id) {
            self.begun.push(id);
        }
        self.threads.entry(id).or_default()
    }

    /// Nothing goes that somebody has not seen and that did not lapse.
    fn compacted(&mut self, id: MessageId) {
        let entries = self.threads.remove(&id).expect("it was not removed before");
        for (number, (_, to)) in (1..).zip(&entries) {
            for who in to {
                let told = self.receipts.remove(&(id, number, who.clone()));
                let told = told.expect("receipts were checked");
                let is_done = told.seen.is_some() || told.lapsed.is_some();
                assert!(is_done, "X4: {who} misses {number} of {id}: {told:?}");
            }
        }
    }

    /// What must hold of the state after each step.
    pub(super) fn check(&mut self, workspace: &Workspace) {
        let mail = &workspace.mail;
        let roles = ROLES.map(|name| name.parse::<RoleId>().expect("a role"));
        for who in &roles {
            let mut boxes: BTreeMap<MessageId, BoxKind> = BTreeMap::new();
            for kind in BoxKind::ALL {
                let page: Vec<_> = mail.page(who, kind, None).collect();
                assert_eq!(page.len(), mail.count(who, kind));
                let urgent: Vec<bool> = page.iter().map(|it| !it.is_urgent).collect();
                assert!(urgent.is_sorted(), "urgent ones come first");
                for facts in page {
                    assert_eq!(facts.kind, kind);
                    let other = boxes.insert(facts.id, kind);
                    assert!(other.is_none(), "X2: {} is in {other:?} too", facts.id);
                }
            }
            let takes_part = |entries: &Vec<(RoleId, Vec<RoleId>)>| {
                entries.iter().any(|(from, to)| from == who || to.contains(who))
            };
            for (id, entries) in self.threads.iter().filter(|(_, it)| takes_part(it)) {
                assert!(boxes.contains_key(id), "X2: {who} takes part in {id} and has no copy");
                let facts = mail.thread_facts(who, *id).expect("a copy");
                assert_eq!(facts.entries as usize, entries.len(), "X1: an entry is lost");
            }
            self.check_unseen(workspace, who, &boxes);
        }
        self.check_receipts(workspace);
    }

    /// X4, X5: what was not handed is in the inbox; what is unseen is shown, or a dead letter.
    fn check_unseen(
        &self,
        workspace: &Workspace,
        who: &RoleId,
        boxes: &BTreeMap<MessageId, BoxKind>,
    ) {
        let mail = &workspace.mail;
        let mut shown = BTreeSet::new();
        for (id, kind) in boxes {
            let facts = mail.thread_facts(who, *id).expect("a copy");
            let entries = self.threads.get(id).map_or(&[][..], Vec::as_slice);
            let addressed = (1..).zip(entries).filter(|(_, (_, to))| to.contains(who));
            let unseen = addressed.filter(|(number, _)| {
                let receipts = mail.receipts(*id, *number, *number).of(*number);
                let own = receipts.iter().find(|it| it.role == *who).expect("X1: a receiver");
                facts.seen_through < *number && own.lapsed.is_none()
            });
            let unseen: Vec<u32> = unseen.map(|(number, _)| number).collect();
            assert_eq!(facts.unseen as usize, unseen.len());
            for number in &unseen {
                let is_handed = *number <= facts.handed_through;
                assert!(is_handed || *kind == BoxKind::Inbox, "X4: {who} misses {number} of {id}");
            }
            if !unseen.is_empty() && *kind == BoxKind::Inbox && !facts.is_dead {
                shown.insert(*id);
            }
        }
        let answer = mail.answer(who, &Filter::default());
        assert_eq!(answer.unseen_threads, shown.len(), "X5: {who} is shown {shown:?}");
        match answer.mail {
            Some(facts) => assert!(shown.contains(&facts.id), "X5: {} is not unseen", facts.id),
            None => assert!(shown.is_empty(), "X5: {who} is not shown {shown:?}"),
        }
    }

    /// X3: receipts are never taken back, and come in order.
    fn check_receipts(&mut self, workspace: &Workspace) {
        for (id, entries) in &self.threads {
            // Of all of them at once: each must be told as if it were asked for alone.
            let table = workspace.mail.receipts(*id, 1, u32::MAX);
            for (number, (_, to)) in (1..).zip(entries) {
                let receipts = table.of(number);
                assert_eq!(receipts, workspace.mail.receipts(*id, number, number).of(number));
                assert_eq!(receipts.len(), to.len(), "X1: receivers of {number} of {id}");
                for it in receipts {
                    let of = [it.handed, it.seen, it.acted];
                    let given: Vec<Timestamp> = of.iter().copied().flatten().collect();
                    assert!(given.is_sorted() && of[..given.len()].iter().all(Option::is_some));
                    let key = (*id, number, it.role.clone());
                    let before = self.receipts.insert(key, it.clone());
                    let stays = |before: Option<Timestamp>, now| before.is_none() || before == now;
                    if let Some(before) = before {
                        let all = stays(before.handed, it.handed)
                            && stays(before.seen, it.seen)
                            && stays(before.acted, it.acted)
                            && stays(before.lapsed, it.lapsed)
                            && stays(before.dead, it.dead);
                        assert!(all, "X3: {before:?} became {it:?}");
                    }
                }
            }
        }
    }
}
