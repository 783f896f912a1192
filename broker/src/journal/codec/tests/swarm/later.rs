//! What came to be kept of issues after the first bytes of it were.

use super::*;
use crate::rules::swarm::ImportedIssue;

/// What can happen since the first bytes of this were kept, in a record of its own.
fn later() -> Record {
    let (content, paths) = (Hash([1; 16]), Hash([2; 16]));
    let canceled = IssueEventKind::Canceled {
        task: task(1),
        reason: "why".to_owned(),
        unblocked: vec![task(2), task(3)],
    };
    let all = vec![
        IssueEventKind::Created { subject: "s".to_owned(), content, paths },
        created(1, &[]),
        created(2, &[1]),
        created(3, &[1]),
        claimed(1, "W", 1),
        submitted(1, "W", 4, None),
        canceled,
    ];
    Record { events: numbered(1, all).map(Event::Swarm).collect(), ..record() }
}

/// A delivery that names the commit that evidence is of.
fn named() -> Record {
    let (content, paths) = (Hash([1; 16]), Hash([2; 16]));
    let IssueEventKind::Delivered(delivered) = delivered(5) else { panic!("nothing delivered") };
    let all = vec![
        IssueEventKind::Created { subject: "s".to_owned(), content, paths },
        IssueEventKind::Delivered(Delivered { commit: "c".repeat(40), ..delivered }),
    ];
    Record { events: numbered(1, all).map(Event::Swarm).collect(), ..record() }
}

/// An issue that was closed before its delivery had a verdict.
fn unjudged() -> Record {
    let (content, paths) = (Hash([1; 16]), Hash([2; 16]));
    let all = vec![
        IssueEventKind::Created { subject: "s".to_owned(), content, paths },
        delivered(5),
        closed(false, Some(DeliveryId(stamp(5)))),
    ];
    Record { events: numbered(1, all).map(Event::Swarm).collect(), ..record() }
}

/// An issue that came from elsewhere.
fn elsewhere() -> Record {
    let (id, content) = (IssueId(stamp(21)), Hash([1; 16]));
    let mut issue = swarm::Issue::opened(id, "s".to_owned(), None, at(9));
    (issue.content, issue.paths_content) = (Hash([12; 16]), Hash([2; 16]));
    (issue.delivery, issue.is_accepted) = (Some(DeliveryId(stamp(7))), true);
    issue.totals.insert(role("W"), swarm::Total { points: 7, low_scores: 1 });
    let mut done = swarm::Task::blank(task(1), "t".to_owned(), at(9));
    done.state = swarm::TaskState::Done;
    done.submissions.push(swarm::Submission {
        id: SubmissionId(stamp(5)),
        worker: role("w_1_ab12"),
        content,
        at: at(9),
        state: swarm::SubmissionState::Approved,
        reviewed: None,
        minted: None,
        files: vec![swarm::FileHash::of("a")],
        item: 0,
    });
    done.messages.push(swarm::Message {
        id: TaskMessageId(stamp(6)),
        sender: role("W"),
        kind: MessageKind::Question,
        content,
        at: at(9),
        state: swarm::MessageState::Resolved,
        replied: None,
        replied_by: None,
        reply: None,
        item: 0,
    });
    let delivery = swarm::Delivery {
        id: DeliveryId(stamp(7)),
        issue: id,
        role: None,
        content,
        commit: String::new(),
        is_passed: true,
        commands: swarm::Delivery::commands_hash(&[content]),
        state: swarm::DeliveryState::Open,
        at: at(9),
        updated: at(10),
        claim: None,
        former: None,
        evidence: Vec::new(),
        verdict: None,
    };
    let imported = ImportedIssue { issue, tasks: vec![done], deliveries: vec![delivery] };
    let all = vec![IssueEventKind::Imported(Box::new(imported))];
    Record { events: numbered(21, all).map(Event::Swarm).collect(), ..record() }
}

#[test]
fn the_bytes_of_what_came_later_are_unchanged() {
    let mut told = String::new();
    for record in [later(), elsewhere(), named(), unjudged()] {
        let stored = encode_record(&record, &[3; 16]);
        assert_eq!(decode_record(stored.clone()).unwrap(), record);
        let mut state = Workspace::default();
        state.apply(&record);
        let snapshot = encode_snapshot(&state);
        assert!(decode_snapshot(snapshot.clone()).unwrap() == state, "a snapshot holds all of it");
        told += &format!("{}\n{}\n", hex(&stored), hex(&snapshot));
    }
    check_golden("tests/swarm_later.golden.txt", &told);
}

/// An issue may have more tasks, and a workspace more issues, than fit into a piece.
#[test]
fn a_large_state_is_kept_in_small_pieces() {
    let mut state = Workspace::default();
    let (content, paths) = (Hash([1; 16]), Hash([2; 16]));
    let mut all = vec![IssueEventKind::Created { subject: "s".to_owned(), content, paths }];
    all.extend((1..=3000).map(|number| created(number, &[])));
    all.extend((1..=1500).flat_map(|number| {
        [claimed(number, "W", number.into()), submitted(number, "W", 10 + number, None)]
    }));
    let events = numbered(21, all).map(Event::Swarm).collect();
    state.apply(&Record { events, ..record() });
    let pieces = encode_pieces(&state);
    let longest = pieces.iter().map(Bytes::len).max().unwrap();
    assert!(4 < pieces.len() && longest < 80 * 1024, "{} of {longest} bytes", pieces.len());
    let decoded: Workspace =
        crate::journal::codec::decode_snapshot::<CodecError>(pieces.iter().cloned().map(Ok))
            .unwrap();
    assert!(decoded == state, "a snapshot holds all of it");
    // Without one of them it is none.
    let short = pieces.iter().skip(1).cloned().map(Ok);
    let short = crate::journal::codec::decode_snapshot::<CodecError>(short);
    assert!(short.is_err(), "{short:?}");
}
