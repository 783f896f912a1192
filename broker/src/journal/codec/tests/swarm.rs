//! The same for issues, tasks, locks and deliveries.

mod later;

use tasuki_proto::{
    id::FencingToken,
    swarm::{
        DeliveryId, IssueId, LockId, NextStepId, Stamp, SubmissionId, TaskMessageId, TaskNumber,
    },
};

use super::*;
use crate::rules::swarm::{
    self, Claimed, Closed, Delivered, DeliveryReviewed, Difficulty, DocPlace, DocWritten,
    IssueEvent, IssueEventKind, LeaseTarget, Locked, MessageKind, MessagePosted, NextStep,
    NextStepMinted, Override, Reserved, Reviewed, Score, Settings, SnapshotItem, Submitted,
    TaskCreated, Unlocked, Verdict, WhyUnlocked, Words,
    lock::LockKey,
    words::{
        Artifacts, AuditEntry, AuditKind, CommandResult, DeliveryWords, Dimension, DocPaths,
        EvidenceWords, FeedbackDetail, MessageWords, ReviewWords, Run, Severity, TaskSpec,
        TaskWords, TestEvidence, VerdictWords, Verification,
    },
};

fn stamp(tail: u32) -> Stamp {
    Stamp { ms: 1_700_000_000_000, tail }
}

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn token(number: u64) -> FencingToken {
    FencingToken::from(number)
}

const fn task(number: u32) -> TaskNumber {
    TaskNumber(number)
}

fn doc(version: u32) -> DocWritten {
    DocWritten { name: "plan".parse().unwrap(), version, content: Hash([5; 16]), bytes: 9 }
}

fn created(number: u32, blocked_by: &[u32]) -> IssueEventKind {
    IssueEventKind::TaskCreated(TaskCreated {
        task: task(number),
        subject: format!("t{number}"),
        difficulty: Difficulty::ALL[number as usize % 3],
        points: 7,
        blocked_by: blocked_by.iter().copied().map(TaskNumber).collect(),
        required_docs: vec!["notes".parse().unwrap()],
        plan: Hash([6; 16]),
    })
}

fn claimed(number: u32, worker: &str, granted: u64) -> IssueEventKind {
    IssueEventKind::Claimed(Claimed {
        task: task(number),
        worker: role(worker),
        token: token(granted),
        lapses: at(5000),
        next_step: None,
    })
}

fn submitted(number: u32, worker: &str, tail: u32, older: Option<u32>) -> IssueEventKind {
    IssueEventKind::Submitted(Submitted {
        task: task(number),
        submission: SubmissionId(stamp(tail)),
        worker: role(worker),
        content: Hash([7; 16]),
        files: vec![swarm::FileHash::of("src/a.rs")],
        supersedes: older.map(|tail| SubmissionId(stamp(tail))),
    })
}

fn minted(number: u32, tail: u32, step: u32, reserved: Option<(u32, u64)>) -> IssueEventKind {
    IssueEventKind::NextStepMinted(NextStepMinted {
        task: task(number),
        submission: SubmissionId(stamp(tail)),
        worker: role("W"),
        score: Score::new(5).unwrap(),
        next_step: NextStepId(stamp(step)),
        reserved: reserved.map(|(number, granted)| Reserved {
            task: task(number),
            token: token(granted),
            lapses: at(6000),
        }),
    })
}

fn reviewed(number: u32, tail: u32, verdict: Verdict, step: Option<u32>) -> IssueEventKind {
    IssueEventKind::Reviewed(Reviewed {
        task: task(number),
        submission: SubmissionId(stamp(tail)),
        verdict,
        score: Score::new(1).unwrap(),
        content: Hash([8; 16]),
        next_step: step.map(|tail| NextStepId(stamp(tail))),
        lapses: Some(at(7000)),
    })
}

fn posted(tail: u32, kind: MessageKind) -> IssueEventKind {
    IssueEventKind::MessagePosted(MessagePosted {
        task: task(1),
        message: TaskMessageId(stamp(tail)),
        sender: role("W"),
        kind,
        content: Hash([9; 16]),
    })
}

fn closed(is_accepted: bool, unjudged: Option<DeliveryId>) -> IssueEventKind {
    IssueEventKind::Closed(Closed { reason: "done".to_owned(), is_accepted, unjudged })
}

fn delivered(tail: u32) -> IssueEventKind {
    IssueEventKind::Delivered(Delivered {
        delivery: DeliveryId(stamp(tail)),
        content: Hash([10; 16]),
        is_passed: true,
        commands: vec![Hash([11; 16])],
        role: Some(role("L")),
        commit: String::new(),
    })
}

fn taken(tail: u32, granted: u64) -> IssueEventKind {
    let (delivery, role) = (DeliveryId(stamp(tail)), role("A"));
    IssueEventKind::DeliveryClaimed { delivery, role, token: token(granted), lapses: at(8000) }
}

/// Everything that can happen to an issue, in an order in which it can.
fn first() -> Vec<IssueEventKind> {
    let (content, paths) = (Hash([1; 16]), Hash([2; 16]));
    let message = TaskMessageId(stamp(2));
    let delivery = DeliveryId(stamp(9));
    vec![
        IssueEventKind::Created { subject: "s".to_owned(), content, paths },
        IssueEventKind::PathsSet { version: 2, content },
        IssueEventKind::DocWritten { task: None, doc: doc(1) },
        created(1, &[]),
        created(2, &[]),
        created(3, &[2]),
        claimed(1, "W", 1),
        IssueEventKind::DocWritten { task: Some(task(1)), doc: doc(1) },
        posted(2, MessageKind::Question),
        IssueEventKind::Replied { task: task(1), message, content },
        posted(3, MessageKind::Progress),
        submitted(1, "W", 4, None),
        submitted(1, "W", 5, Some(4)),
        minted(1, 5, 6, Some((2, 2))),
        reviewed(1, 5, Verdict::Approved, Some(6)),
        IssueEventKind::ReservationLapsed { task: task(2), next_step: NextStepId(stamp(6)) },
        claimed(2, "W", 3),
        IssueEventKind::ClaimLapsed { task: task(2), worker: role("W") },
        claimed(2, "V", 4),
        submitted(2, "V", 7, None),
        reviewed(2, 7, Verdict::Rejected, None),
        IssueEventKind::Reset { task: task(2), reason: "why".to_owned() },
        delivered(9),
        taken(9, 5),
        IssueEventKind::EvidenceAttached { delivery, number: 1, is_passed: false, content },
        IssueEventKind::DeliveryLapsed { delivery, role: role("A") },
        taken(9, 6),
        IssueEventKind::DeliveryReviewed(DeliveryReviewed {
            delivery,
            verdict: Verdict::Approved,
            content,
            overridden: Some(Override {
                person: "ann".parse().unwrap(),
                reason: "known".to_owned(),
            }),
        }),
        closed(true, None),
        IssueEventKind::Reopened { reason: "more".to_owned() },
        IssueEventKind::Lapsed,
    ]
}

/// An issue in mid-work.
fn second() -> Vec<IssueEventKind> {
    let (content, paths) = (Hash([1; 16]), Hash([2; 16]));
    vec![
        IssueEventKind::Created { subject: "s2".to_owned(), content, paths },
        created(1, &[]),
        created(2, &[]),
        claimed(1, "W", 7),
        posted(12, MessageKind::Blocker),
        submitted(1, "W", 13, None),
        minted(1, 13, 14, Some((2, 8))),
        delivered(15),
        taken(15, 9),
    ]
}

fn numbered(tail: u32, all: Vec<IssueEventKind>) -> impl Iterator<Item = swarm::Event> {
    let issue = IssueId(stamp(tail));
    let numbered = (1..).zip(all);
    numbered.map(move |(audit, what)| swarm::Event::Issue(IssueEvent { issue, audit, what }))
}

fn renewed(held: LeaseTarget) -> swarm::Event {
    swarm::Event::LeaseRenewed(swarm::LeaseRenewed { held, lapses: at(9000), is_grace: true })
}

fn events() -> Vec<swarm::Event> {
    let second_issue = IssueId(stamp(11));
    let lock = |tail: u32, granted: u64, path: &str| {
        swarm::Event::Locked(Locked {
            lock: LockId(stamp(tail)),
            role: role("W"),
            keys: vec![LockKey::new("repo", path, true).unwrap()],
            task: Some((second_issue, task(1))),
            token: token(granted),
            lapses: at(4000),
        })
    };
    let unlock = |tail, why| swarm::Event::Unlocked(Unlocked { lock: LockId(stamp(tail)), why });
    let settings = Settings { max_task_count: 9, ..Settings::default() };
    let mut events = vec![
        swarm::Event::SettingsSet(settings),
        swarm::Event::WorkerRegistered(role("W")),
        swarm::Event::SharedDocWritten(doc(1)),
    ];
    events.extend(numbered(1, first()));
    events.extend(numbered(11, second()));
    events.extend([
        lock(16, 10, "a/*.rs"),
        lock(17, 11, "b"),
        lock(18, 12, "c"),
        lock(19, 13, "d"),
        lock(20, 14, "e"),
        unlock(17, WhyUnlocked::Unlocked),
        unlock(18, WhyUnlocked::Forced { reason: "stuck".to_owned() }),
        unlock(19, WhyUnlocked::Lapsed),
        unlock(20, WhyUnlocked::TaskEnded),
        renewed(LeaseTarget::Issue(second_issue)),
        renewed(LeaseTarget::Claim(second_issue, task(1))),
        renewed(LeaseTarget::Reservation(second_issue, task(2))),
        renewed(LeaseTarget::Delivery(DeliveryId(stamp(15)))),
        renewed(LeaseTarget::Lock(LockId(stamp(16)))),
        swarm::Event::ItemsHanded { issue: second_issue, items: vec![6] },
    ]);
    events
}

fn record() -> Record {
    Record {
        sequence: Sequence::from(1),
        time: at(300),
        principal: Principal { role: Some(role("L")), ..Principal::default() },
        key: None,
        events: events().into_iter().map(Event::Swarm).collect(),
        reply: Reply::Done,
        is_repeat: false,
    }
}

#[test]
fn the_bytes_of_a_record_about_issues_are_unchanged() {
    let stored = encode_record(&record(), &[3; 16]);
    assert_eq!(decode_record(stored.clone()).unwrap(), record());
    check_golden("tests/swarm_record.golden.txt", &hex(&stored));
}

#[test]
fn the_bytes_of_replies_about_issues_are_unchanged() {
    let lapses = at(900);
    let replies = [
        swarm::Reply::Issue(IssueId(stamp(1))),
        swarm::Reply::Tasks { first: task(1), count: 2 },
        swarm::Reply::Granted { token: token(3), lapses },
        swarm::Reply::Submitted(SubmissionId(stamp(4))),
        swarm::Reply::NextStep(NextStep {
            next_step: NextStepId(stamp(5)),
            task: Some(task(2)),
            difficulty: Difficulty::Focus,
            points: 30,
            low_scores: 1,
            lapses: Some(lapses),
        }),
        swarm::Reply::Reviewed {
            submission: SubmissionId(stamp(4)),
            next_step: Some(NextStepId(stamp(5))),
        },
        swarm::Reply::Message(TaskMessageId(stamp(6))),
        swarm::Reply::Delivered(DeliveryId(stamp(7))),
        swarm::Reply::Evidence { number: 2 },
        swarm::Reply::Locked { lock: LockId(stamp(8)), token: token(9), lapses },
        swarm::Reply::Doc { version: 3 },
        swarm::Reply::Kept { lapses: Some(lapses) },
        swarm::Reply::Kept { lapses: None },
    ];
    let mut bytes = String::new();
    for reply in replies {
        bytes += &pinned(&Reply::Swarm(reply));
    }
    check_golden("tests/swarm_replies.golden.txt", &bytes);
}

#[test]
fn the_bytes_of_issues_in_a_snapshot_are_unchanged() {
    let mut state = Workspace::default();
    state.apply(&record());
    let stored = encode_snapshot(&state);
    assert!(decode_snapshot(stored.clone()).unwrap() == state, "a snapshot holds all of it");
    check_golden("tests/swarm_snapshot.golden.txt", &hex(&stored));
}

fn result() -> CommandResult {
    CommandResult {
        command: "make".to_owned(),
        is_passed: false,
        exit_code: -1,
        output: "o".to_owned(),
    }
}

fn words() -> Vec<Words> {
    let text = str::to_owned;
    let (issue, submission) = (IssueId(stamp(1)), SubmissionId(stamp(4)));
    let (message, delivery) = (TaskMessageId(stamp(2)), DeliveryId(stamp(9)));
    let said = || MessageWords { content: text("c"), refs: text("r") };
    let evidence = TestEvidence {
        script_path: text("p"),
        script_cmd: text("s"),
        is_script_passed: true,
        script_result: text("r"),
        doc_path: text("issue-1-test-steps.md"),
        doc_commands: vec![text("make")],
        doc_results: vec![result()],
        is_doc_passed: true,
    };
    let verification = Verification {
        is_script_passed: true,
        script_result: text("r"),
        is_doc_passed: true,
        doc_results: vec![result()],
    };
    let written = |place, content: &str| Words::Doc {
        place,
        name: "plan".parse().unwrap(),
        version: 2,
        content: text(content),
        at: Timestamp::default(),
        by: None,
    };
    vec![
        Words::Issue { issue, description: text("d") },
        Words::Paths {
            issue,
            version: 1,
            paths: DocPaths { shared: vec![text("a")], project: vec![text("b")] },
        },
        Words::Task {
            issue,
            task: task(1),
            words: TaskWords {
                description: text("d"),
                labels: vec![text("l")],
                suggested_files: vec![text("f")],
                doc_paths: vec![text("p")],
                context: vec![task(2)],
                required_issue_docs: vec!["plan".parse().unwrap()],
                required_task_docs: vec!["notes".parse().unwrap()],
                spec: TaskSpec {
                    name: text("1"),
                    split_from: text("2"),
                    split_reason: text("3"),
                    impact_scope: text("4"),
                    goal: text("5"),
                    rules: text("6"),
                    constraints: text("7"),
                    conventions: text("8"),
                    acceptance: text("9"),
                },
            },
        },
        Words::Submission {
            issue,
            submission,
            words: Artifacts {
                summary: text("s"),
                changed_files: vec![text("f")],
                diff: text("d"),
                links: vec![text("l")],
                test_cases: vec![text("t")],
                test_result: text("passed"),
                test_output: text("o"),
                commit: text("c"),
                commands: vec![text("make")],
            },
        },
        Words::Review {
            issue,
            submission,
            words: ReviewWords {
                summary: text("s"),
                reviewed_refs: vec![text("r")],
                feedback: text("f"),
                details: vec![FeedbackDetail {
                    dimension: Dimension::Docs,
                    severity: Severity::Critical,
                    file_path: text("p"),
                    line_range: text("1-2"),
                    content: text("c"),
                    suggestion: text("s"),
                }],
            },
        },
        Words::Message { issue, message, words: said() },
        Words::Reply { issue, message, words: said() },
        Words::Delivery {
            issue,
            delivery,
            words: Box::new(DeliveryWords {
                summary: text("s"),
                refs: text("r"),
                is_test_passed: true,
                test_cases: vec![text("t")],
                changed_files: vec![text("f")],
                reviewed_refs: vec![text("r")],
                test_output: text("o"),
                known_risks: text("k"),
                evidence,
                commit: text("c"),
                commands: vec![text("make")],
            }),
        },
        Words::Evidence {
            issue,
            delivery,
            number: 1,
            words: EvidenceWords {
                commit: text("c"),
                runs: vec![Run {
                    result: result(),
                    output_hash: text("h"),
                    output_bytes: 6,
                    duration_ms: 5,
                    is_timed_out: true,
                    sandbox: text("s"),
                }],
                role: Some(role("A")),
                node: Some("n1".parse().unwrap()),
            },
        },
        Words::Verdict {
            issue,
            delivery,
            words: VerdictWords { feedback: text("f"), refs: text("r"), verification },
        },
        written(DocPlace::Shared, "1"),
        written(DocPlace::Issue(issue), "2"),
        written(DocPlace::Task(issue, task(1)), "3"),
        Words::Audit(Box::new(AuditEntry {
            issue,
            number: 7,
            kind: AuditKind::DeliveryReviewed,
            at: at(5),
            role: Some(role("L")),
            person: Some("ann".parse().unwrap()),
            node: Some("n1".parse().unwrap()),
            token: Some("t1".parse().unwrap()),
            task: Some(task(1)),
            submission: Some(submission),
            message: Some(message),
            delivery: Some(delivery),
            next_step: Some(NextStepId(stamp(6))),
            worker: Some(role("W")),
            detail: text("d"),
        })),
        Words::Doc {
            place: DocPlace::Task(issue, task(2)),
            name: "plan".parse().unwrap(),
            version: 3,
            content: text("4"),
            at: at(6),
            by: Some(role("W")),
        },
    ]
}

#[test]
fn the_bytes_of_what_is_said_are_unchanged() {
    let mut told = String::new();
    for it in words() {
        let (key, stored) = encode_body(&Body::Swarm(it.clone())).remove(0);
        told += &format!("{}\n{}", key.0, hex(&stored));
        assert_eq!(decode_words(&it, &stored).unwrap(), it);
        check_body(&Body::Swarm(it));
    }
    check_golden("tests/swarm_words.golden.txt", &told);
    let other = Words::Issue { issue: IssueId::default(), description: String::new() };
    let (_, stored) = encode_body(&Body::Swarm(words().remove(1))).remove(0);
    let refused = decode_words(&other, &stored);
    assert!(matches!(refused, Err(CodecError::Misplaced { .. })), "words of another kind");
}

/// A snapshot whose parts do not fit together is damaged, and says so.
#[test]
fn issues_that_do_not_fit_together_are_refused() {
    let mut state = Workspace::default();
    state.apply(&record());
    let restored = |change: &dyn Fn(&mut SnapshotItem<'_>) -> bool| {
        let mut restored = swarm::Swarm::default();
        for item in state.swarm.items() {
            let mut item: SnapshotItem<'_> = decode("item", &encode(&item)).unwrap();
            if change(&mut item) {
                restored.restore(item)?;
            }
        }
        restored.settle().map(|()| restored)
    };
    assert!(restored(&|_| true).unwrap() == state.swarm, "it is whole");
    let blocked_by = |number: u32| {
        restored(&|item| {
            if let SnapshotItem::Task(_, it) = item {
                it.to_mut().blocked_by = vec![task(number)];
            }
            true
        })
    };
    assert_eq!(blocked_by(9).unwrap_err(), "what a task is blocked by");
    assert_eq!(blocked_by(3).unwrap_err(), "what a task is blocked by");
    let numbered = restored(&|item| {
        if let SnapshotItem::Task(_, it) = item {
            it.to_mut().number = task(7);
        }
        true
    });
    assert_eq!(numbered.unwrap_err(), "the numbers of tasks");
    let unclaimed = restored(&|item| {
        if let SnapshotItem::Task(_, it) = item {
            it.to_mut().claim = None;
        }
        true
    });
    assert_eq!(unclaimed.unwrap_err(), "who claims a task");
    let of_none = restored(&|item| {
        if let SnapshotItem::LeadItem(_, _, it) = item {
            it.to_mut().kind = swarm::ItemKind::ClaimLapsed(task(9));
        }
        true
    });
    assert_eq!(of_none.unwrap_err(), "the task of an item");
    let without = |is_gone: fn(&SnapshotItem<'_>) -> bool| restored(&|item| !is_gone(item));
    let no_issues = without(|it| matches!(it, SnapshotItem::Issue(_)));
    assert_eq!(no_issues.unwrap_err(), "a task's issue");
    let no_deliveries = without(|it| matches!(it, SnapshotItem::Delivery(_)));
    assert_eq!(no_deliveries.unwrap_err(), "an issue's delivery");
    for keys in [Vec::new(), vec![key("a"), key("a")]] {
        let locks = restored(&|item| {
            if let SnapshotItem::Lock(it) = item {
                it.to_mut().keys.clone_from(&keys);
            }
            true
        });
        assert_eq!(locks.unwrap_err(), "the files of a lock");
    }
    let outside = encode(&("r", "../x", false));
    let refused = decode::<LockKey>("path", &outside);
    assert!(matches!(refused, Err(CodecError::Malformed { .. })), "{refused:?}");
}

fn key(path: &str) -> LockKey {
    LockKey::new("r", path, false).unwrap()
}
