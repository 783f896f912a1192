//! Bytes of runs.

use tasuki_proto::{
    run::{RunId, StepId},
    swarm::Stamp,
    token::SecretHash,
};

use super::*;
use crate::rules::{
    lease,
    run::{
        self, Asker, Budget, Claim, Ended, Failure, FileFacts, Message, MessageKind, MessageState,
        Mode, Origin, Outcome, OutputWords, Run, RunOutcome, Runs, Started, Step, StepEnded,
        StepResult, StepSpec, StepStarted, StepState, StepWords, StopReason, Text, Usage, Words,
    },
};

fn run_id(tail: u32) -> RunId {
    RunId(Stamp { ms: 1_700_000_000_000, tail })
}

fn step(number: u32) -> StepId {
    StepId { run: run_id(1), number }
}

fn spec(on: Option<&str>) -> StepSpec {
    StepSpec {
        agent: "scout".to_owned(),
        runner: "pi".parse().unwrap(),
        model: "m".to_owned(),
        on: on.map(|it| it.parse().unwrap()),
        timeout_ms: 9,
    }
}

fn usage() -> Usage {
    Usage {
        input_tokens: 1,
        output_tokens: 2,
        cache_read_tokens: 3,
        cache_write_tokens: 4,
        cost_microusd: 5,
        turns: 6,
        context_tokens: 7,
    }
}

fn budget() -> Budget {
    Budget { cost_microusd: Some(100), turns: None, depth: 3, steps: 64 }
}

fn origin() -> Origin {
    Origin { node: Some("n1".parse().unwrap()), token: Some("t".parse().unwrap()) }
}

fn result() -> StepResult {
    StepResult {
        model: "m1".to_owned(),
        stop_reason: "stop".to_owned(),
        exit_code: Some(-1),
        output_bytes: 10,
        output_kept: 8,
        has_words: true,
    }
}

fn sealed() -> Text {
    Text::Sealed { envelope: Bytes::from_static(b"opaque"), same: Some(Hash([7; 16])) }
}

#[test]
fn the_bytes_of_a_record_about_runs_are_unchanged() {
    let at = Timestamp::from_millis;
    let started = |asker| Started {
        run: run_id(1),
        mode: Mode::Chain,
        asker,
        origin: origin(),
        steps: vec![spec(None), spec(Some("gpu"))],
        concurrency: 4,
        budget: budget(),
    };
    let ended = |outcome| {
        let (step, usage, result) = (step(1), usage(), result());
        run::Event::StepEnded(Box::new(StepEnded { step, outcome, usage, result }))
    };
    let told =
        |kind| run::Event::ParentTold { step: step(1), number: 1, kind, content: Hash([5; 16]) };
    let secret = SecretHash::from_bytes([8; 32]);
    let node = "n1".parse().unwrap();
    let (epoch, token, lapses) = (3.into(), 4.into(), at(60_000));
    let events = [
        run::Event::Started(Box::new(started(Asker::Role("A".parse().unwrap())))),
        run::Event::Started(Box::new(started(Asker::Person("ann".parse().unwrap())))),
        run::Event::Started(Box::new(started(Asker::Step(step(2))))),
        run::Event::StepStarted(StepStarted { step: step(1), node, epoch, token, secret, lapses }),
        ended(Outcome::Succeeded),
        ended(Outcome::Failed(Failure::Refused)),
        ended(Outcome::Canceled),
        ended(Outcome::Lost),
        run::Event::Stopped { run: run_id(1), why: StopReason::Budget },
        run::Event::Ended { run: run_id(1), outcome: RunOutcome::OutOfBudget },
        run::Event::LeaseRenewed { step: step(1), lapses, is_grace: true },
        told(MessageKind::Question),
        told(MessageKind::Report),
        told(MessageKind::File),
        run::Event::Replied { run: run_id(1), number: 1, content: Hash([6; 16]) },
        run::Event::Forgotten { runs: vec![run_id(1), run_id(2)] },
    ];
    let record = Record {
        sequence: Sequence::from(5),
        time: at(300),
        principal: Principal::default(),
        key: None,
        events: events.into_iter().map(Event::Run).collect(),
        reply: Reply::Run(run::Reply::Claimed { token, lapses }),
        is_repeat: false,
    };
    let stored = encode_record(&record, &[3; 16]);
    check_golden("tests/run_record.golden.txt", &hex(&stored));
    assert_eq!(decode_record(stored).unwrap(), record);
    let replies = [
        Reply::Run(run::Reply::Started { run: run_id(1) }),
        Reply::Run(run::Reply::Told { number: 2 }),
    ];
    check_golden("tests/run_reply.golden.txt", &replies.iter().map(pinned).collect::<String>());
}

#[test]
fn the_bytes_of_a_snapshot_with_runs_are_unchanged() {
    let at = Timestamp::from_millis;
    let claim = Claim {
        node: "n1".parse().unwrap(),
        epoch: 3.into(),
        token: 4.into(),
        secret: SecretHash::from_bytes([8; 32]),
        lease: lease::Lease { lapses: at(900), had_grace: true, length_ms: 60 },
        claimed: at(800),
    };
    let ran = Some(("n1".parse().unwrap(), at(700)));
    let ended = Ended { outcome: Outcome::Succeeded, at: at(790), ran, result: result() };
    let states = [StepState::Ended(Box::new(ended)), StepState::Running(claim), StepState::Waiting];
    let steps = states.map(|state| Step { spec: spec(Some("gpu")), state, usage: usage() });
    let message =
        |kind, state| Message { step: 1, kind, content: Hash([5; 16]), at: at(750), state };
    let messages = vec![
        message(MessageKind::Question, MessageState::Replied(Hash([6; 16]))),
        message(MessageKind::Question, MessageState::Over),
        message(MessageKind::Report, MessageState::Open),
        message(MessageKind::File, MessageState::Open),
    ];
    let open = Run {
        id: run_id(1),
        mode: Mode::Parallel,
        asker: Asker::Role("A".parse().unwrap()),
        origin: origin(),
        steps: steps.into(),
        concurrency: 4,
        budget: budget(),
        started: at(600),
        stopped: None,
        ended: None,
        used: usage(),
        tree_steps: 4,
        messages,
        children: Vec::new(),
    };
    let over = Run {
        id: run_id(2),
        mode: Mode::Single,
        asker: Asker::Step(step(2)),
        steps: Vec::new(),
        stopped: Some(StopReason::Canceled),
        ended: Some((at(810), RunOutcome::Canceled)),
        messages: Vec::new(),
        ..open.clone()
    };
    let mut runs = Runs::default();
    runs.restore(run::SnapshotItem::Base(4.into(), 3)).unwrap();
    for run in [open, over] {
        runs.restore(run::SnapshotItem::Run(Box::new(Cow::Owned(run)))).unwrap();
    }
    runs.settle().unwrap();
    let state = Workspace { runs, ..Workspace::default() };
    let stored = encode_snapshot(&state);
    check_golden("tests/run_snapshot.golden.txt", &hex(&stored));
    assert_eq!(decode_snapshot(stored).unwrap(), state);
}

#[test]
fn the_bytes_of_words_of_runs_are_unchanged() {
    let plain = || Text::Plain("t".to_owned());
    let words = StepWords { task: plain(), system: sealed(), spec: Text::default() };
    let output = OutputWords { parts: vec![plain(), sealed()], error: plain() };
    let (name, media_type) = ("a.md".to_owned(), "text/markdown".to_owned());
    let file = Some(FileFacts { name, media_type, size: 3 });
    let all = [
        (Words::Step { step: step(1), words }, "run/run_1700000000000_0001/1"),
        (Words::Output { step: step(1), words: output }, "run/run_1700000000000_0001/1/output"),
        (
            Words::Message { run: run_id(1), number: 2, text: plain(), file: None },
            "run/run_1700000000000_0001/message/2",
        ),
        (
            Words::Reply { run: run_id(1), number: 2, text: sealed() },
            "run/run_1700000000000_0001/reply/2",
        ),
        (
            Words::Message { run: run_id(1), number: 3, text: Text::default(), file },
            "run/run_1700000000000_0001/message/3",
        ),
        (
            Words::File { run: run_id(1), number: 3, content: Bytes::from_static(b"abc") },
            "run/run_1700000000000_0001/message/3/file",
        ),
    ];
    let mut told = String::new();
    for (words, place) in all {
        let (key, stored) = encode_body(&Body::Run(words.clone())).remove(0);
        assert_eq!(key.0, place);
        told += &hex(&stored);
        assert_eq!(decode_run_words(&words, &stored).unwrap(), words);
        check_body(&Body::Run(words));
        let elsewhere = Words::Reply { run: run_id(9), number: 2, text: plain() };
        assert!(decode_run_words(&elsewhere, &stored).is_err());
    }
    check_golden("tests/run_words.golden.txt", &told);
}
