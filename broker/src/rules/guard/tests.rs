//! Budgets and hops, as far as they are not about turns.

use tasuki_proto::{
    id::{RoleId, Timestamp},
    mail::{MessageId, MessageType},
};

use super::{Budget, PauseReason, RoleUse, Usage};
use crate::rules::{
    Caller, Context, Rejection, Reply, Request, Workspace,
    guard::{self, Cause, Limits},
    mailbox::{self, Earlier, Event as MailEvent, Subject, ThreadTarget},
    presence::Presence,
    record::{Principal, ReceiptKind},
};

const ROLES: [&str; 2] = ["A", "B"];

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

/// A workspace where letters are written.
#[derive(Default)]
struct Post {
    workspace: Workspace,
    threads: u128,
}

impl Post {
    fn execute(
        &mut self,
        command: impl Into<crate::rules::Command>,
    ) -> Result<crate::rules::Decision, Rejection> {
        let now = Timestamp::from_millis(self.workspace.time.as_millis() + 1);
        let context = Context::new(Presence::new(now), 100);
        let request = Request { caller: Caller::default(), key: None, command: command.into() };
        let decision = self.workspace.decide(now, &context, &request)?;
        let by = Principal {
            role: request.command.role().cloned(),
            person: request.command.person().cloned(),
            ..Principal::default()
        };
        if decision.is_recorded(&request) {
            let sequence = self.workspace.sequence.next();
            let (record, _) = decision.clone().into_record(sequence, now, by, None);
            self.workspace.apply(&record);
        }
        Ok(decision)
    }

    /// The thread and entry of a letter, and how many hops it is from a person.
    fn send(
        &mut self,
        from: &str,
        to: &str,
        answers: Option<MessageId>,
    ) -> Result<(MessageId, u32, u32, Option<Cause>), Rejection> {
        self.threads += 1;
        let target = answers.map_or_else(
            || {
                ThreadTarget::Begin(Subject {
                    thread: MessageId::from_bits(self.threads),
                    subject: "s".to_owned(),
                    utc_offset_s: 0,
                })
            },
            ThreadTarget::Answer,
        );
        let decision = self.execute(mailbox::Command::Send(mailbox::Send {
            role: role(from),
            to: vec![role(to)],
            kind: MessageType::Info,
            target,
            text: self.threads.to_string(),
            sealed: bytes::Bytes::new(),
            same: bytes::Bytes::new(),
            client_ref: None,
            fold: false,
            earlier: Earlier::Unknown,
            expires_in_ms: None,
            attachments: Vec::new(),
        }))?;
        let sent = decision.events.iter().find_map(|event| {
            let crate::rules::Event::Mail(MailEvent::Sent(it)) = event else { return None };
            Some(it)
        });
        let sent = sent.unwrap();
        let (thread, entry) = (sent.thread, sent.entry);
        // It is handed to whoever it is for, as it is where a node waits.
        let handed = self.execute(mailbox::Command::Mark(mailbox::MarkThread {
            role: role(to),
            thread,
            through: entry,
            mark: ReceiptKind::Handed,
        }))?;
        assert_eq!(handed.reply, Reply::Done);
        Ok((thread, entry, sent.hops.unwrap_or_default(), sent.cause.clone()))
    }
}

#[test]
fn each_answer_is_a_hop_further_from_a_person_and_a_persons_own_is_none() {
    let mut post = Post::default();
    let (thread, entry, hops, cause) = post.send("human", "A", None).unwrap();
    assert_eq!((entry, hops, cause), (1, 0, None));
    let mail = |entry| Some(Cause::Mail { thread, entry });
    let (_, _, hops, cause) = post.send("A", "human", Some(thread)).unwrap();
    assert_eq!((hops, cause), (1, mail(1)));
    let (other, _, hops, cause) = post.send("A", "B", None).unwrap();
    assert_eq!((hops, cause), (1, mail(1)), "a new letter is because of what was handed last");
    let (_, entry, hops, cause) = post.send("B", "A", Some(other)).unwrap();
    assert_eq!((entry, hops), (2, 2));
    assert_eq!(cause, Some(Cause::Mail { thread: other, entry: 1 }));
    let (_, _, hops, _) = post.send("human", "A", Some(thread)).unwrap();
    assert_eq!(hops, 0);
}

#[test]
fn who_writes_too_far_from_a_person_is_paused_until_one_says_so() {
    let mut post = Post::default();
    post.workspace.guard.limits = Limits { turns: None, hops: Some(4) };
    let (thread, ..) = post.send("human", "A", None).unwrap();
    let (mut from, mut last) = (0, 0);
    for _ in 0..4 {
        let (_, _, hops, _) = post.send(ROLES[from], ROLES[1 - from], Some(thread)).unwrap();
        (from, last) = (1 - from, hops);
    }
    assert_eq!(last, 4, "the letter that is too far is stored");
    let pause = post.workspace.guard.pause_of(&role("B")).unwrap();
    assert_eq!(pause.reason, PauseReason::Hops { hops: 4 });
    for answers in [None, Some(thread)] {
        let refused = post.send("B", "A", answers).unwrap_err();
        assert!(matches!(refused, Rejection::RolePaused { .. }), "{refused}");
        let said = refused.to_string();
        assert!(said.contains("`tasuki budget resume B`"), "{said}");
        assert!(!said.contains("answer"), "it may not, and so is not told that it may: {said}");
    }
    let by = crate::rules::turn::Actor::Person("ann".parse().unwrap());
    let resume = guard::Resume { by, role: role("B"), reason: String::new() };
    let done = post.execute(guard::Command::Resume(resume)).unwrap();
    assert_eq!(done.reply, Reply::Done);
    let (_, _, hops, _) = post.send("B", "A", Some(thread)).unwrap();
    assert_eq!(hops, 0, "a person let it go on");
    assert!(post.workspace.guard.roles.is_empty(), "nothing is kept of it");
    let (_, _, hops, _) = post.send("A", "B", Some(thread)).unwrap();
    assert_eq!(hops, 1);
}

#[test]
fn a_window_that_is_over_counts_anew_and_each_limit_counts_by_itself() {
    let at = Timestamp::from_millis;
    let used = |calls, tokens| Usage { calls, tokens };
    let budget = Budget { calls: Some(3), tokens: Some(100), window_ms: 50 };
    let mut it = RoleUse { budget: Some(budget), since: at(10), ..RoleUse::default() };
    assert_eq!(it.why_pause(used(2, 99), at(20)), None);
    it.used = used(2, 99);
    assert_eq!(
        it.why_pause(used(1, 0), at(59)).unwrap().to_string(),
        "used up its budget of 3 calls in 0s"
    );
    let tokens = it.why_pause(used(0, 1), at(59)).unwrap();
    assert_eq!(tokens, PauseReason::Tokens { max: 100, window_ms: 50 });
    assert_eq!(it.why_pause(used(1, 1), at(60)), None, "the window is over");
    assert_eq!(it.with(used(1, 1), at(60)), (at(60), used(1, 1)));
    it.budget = Some(Budget { window_ms: 0, ..budget });
    assert!(it.why_pause(used(1, 0), at(1_000_000)).is_some(), "it counts in all");
}
