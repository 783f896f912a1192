//! What a compaction leaves, and what each body belongs to.

use tasuki_proto::{
    mail::MessageId,
    run::{RunId, StepId},
    swarm::{DocName, IssueId, Stamp, TaskNumber},
};

use super::*;
use crate::{
    journal::BodyKey,
    rules::{
        SnapshotItem, TextOwner,
        mailbox::{self, ThreadNumber},
        run,
        swarm::{self, Doc, DocPlace},
        turn::HistoryCompacted,
    },
};

fn issue() -> IssueId {
    IssueId(Stamp { ms: 1_700_000_000_000, tail: 7 })
}

fn name() -> DocName {
    "plan.md".parse().unwrap()
}

#[test]
fn the_bytes_of_what_was_removed_are_unchanged() {
    let history = HistoryCompacted { loop_id: "main".parse().unwrap(), through: 7 };
    let record = Record {
        sequence: 5.into(),
        time: Timestamp::from_millis(300),
        principal: Principal::default(),
        key: None,
        events: vec![
            Event::Mail(mailbox::Event::Compacted(vec![ThreadNumber(1), ThreadNumber(300)])),
            Event::Swarm(swarm::Event::Compacted(vec![issue()])),
            Event::Swarm(swarm::Event::DocCompacted { name: name(), oldest: 3 }),
            Event::Turn(turn::Event::HistoryCompacted(history)),
        ],
        reply: Reply::Done,
        is_repeat: false,
    };
    let stored = encode_record(&record, &[5; 16]);
    check_golden("compacted_record.golden.txt", &hex(&stored));
    assert_eq!(decode_record(stored).unwrap(), record);

    let mut state = Workspace { sequence: 9.into(), ..Workspace::default() };
    let mut loops = state.loops.by_id.clone();
    loops.first_entry().unwrap().into_mut().compacted = Some(7);
    state.loops = Loops::of(loops);
    state.restore(SnapshotItem::Mail(mailbox::SnapshotItem::Removed(5000))).unwrap();
    let doc = Doc {
        version: 4,
        content: Hash([7; 16]),
        bytes: 9,
        at: Timestamp::from_millis(8),
        by: None,
        oldest: Some(3),
    };
    state.swarm.shared_docs.by_name.insert(name(), doc);
    let stored = encode_snapshot(&state);
    check_golden("compacted_snapshot.golden.txt", &hex(&stored));
    assert_eq!(decode_snapshot(stored).unwrap(), state);
}

#[test]
fn more_removed_threads_than_there_can_be_are_refused() {
    let mut state = Workspace::default();
    let removed = SnapshotItem::Mail(mailbox::SnapshotItem::Removed(u32::MAX));
    assert!(state.restore(removed).is_err());
}

#[test]
fn each_body_belongs_to_what_it_is_named_after() {
    let loop_id = || "main".parse().unwrap();
    let thread = MessageId::from_bits(0xabc << 64);
    let run = RunId(Stamp { ms: 1_700_000_000_000, tail: 7 });
    let doc = |place| {
        let (name, by, at) = (name(), None, Timestamp::default());
        swarm_key(&swarm::Words::Doc { place, name, version: 3, content: String::new(), at, by })
    };
    let of_issue = swarm::Words::Issue { issue: issue(), description: String::new() };
    let step = StepId { run, number: 2 };
    for (key, owner) in [
        (entry_key(&loop_id(), 12), TextOwner::Entry(loop_id(), 12)),
        (mail_key(thread, 1), TextOwner::Thread(thread)),
        (mail_text_key(thread, 1), TextOwner::Thread(thread)),
        (file_key(&[7; 32]), TextOwner::File([7; 32])),
        (swarm_key(&of_issue), TextOwner::Issue(issue())),
        (doc(DocPlace::Issue(issue())), TextOwner::Issue(issue())),
        (doc(DocPlace::Task(issue(), TaskNumber(1))), TextOwner::Issue(issue())),
        (doc(DocPlace::Shared), TextOwner::Doc(name(), 3)),
        (
            run_key(&run::Words::Output { step, words: run::OutputWords::default() }),
            TextOwner::Run(run),
        ),
        (run_key(&run::Words::File { run, number: 1, content: Bytes::new() }), TextOwner::Run(run)),
    ] {
        assert_eq!(text_owner(&key), Some(owner), "{key:?}");
    }
    for unknown in ["", "loop", "loop/main", "mail/x/1", "later/1", "swarm/shared/plan.md"] {
        assert_eq!(text_owner(&BodyKey(unknown.to_owned())), None, "{unknown}");
    }
}
