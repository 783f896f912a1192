//! The hashes that are in journals, of one value of each kind.

use super::super::{
    Difficulty, Score, Verdict,
    command::{CreateTasks, NewTask, ReviewDelivery, ReviewTask},
    words::{
        Artifacts, CommandResult, DeliveryWords, Dimension, EvidenceWords, FeedbackDetail,
        ReviewWords, Run, Severity, TaskSpec, TaskWords, TestEvidence, VerdictWords, Verification,
    },
};
use super::*;
use crate::hash::Hash;

fn text(text: &str) -> String {
    text.to_owned()
}

fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(|it| text(it)).collect()
}

fn result() -> CommandResult {
    let (command, output) = (text("make test"), text("ok"));
    CommandResult { command, is_passed: true, exit_code: -1, output }
}

fn task() -> NewTask {
    let spec = TaskSpec {
        name: text("n"),
        split_from: text("f"),
        split_reason: text("r"),
        impact_scope: text("i"),
        goal: text("g"),
        rules: text("u"),
        constraints: text("c"),
        conventions: text("v"),
        acceptance: text("a"),
    };
    let words = TaskWords {
        description: text("d"),
        labels: list(&["l"]),
        suggested_files: list(&["src/a.rs", "src/b.rs"]),
        doc_paths: list(&["docs/a.md"]),
        context: vec!["task-3".parse().unwrap()],
        required_issue_docs: vec!["issue.md".parse().unwrap()],
        required_task_docs: vec!["task.md".parse().unwrap()],
        spec,
    };
    NewTask {
        subject: text("s"),
        difficulty: Difficulty::Focus,
        points: 3,
        blocked_by: vec![Blocker::Task("task-1".parse().unwrap()), Blocker::New(0)],
        words,
    }
}

fn submission() -> Artifacts {
    Artifacts {
        summary: text("s"),
        changed_files: list(&["a"]),
        diff: text("d"),
        links: list(&["l"]),
        test_cases: list(&["t", "u"]),
        test_result: text("passed"),
        test_output: text("o"),
        commit: text("c"),
        commands: list(&["make"]),
    }
}

fn review() -> ReviewTask {
    let detail = FeedbackDetail {
        dimension: Dimension::Style,
        severity: Severity::Minor,
        file_path: text("p"),
        line_range: text("1-2"),
        content: text("c"),
        suggestion: text("g"),
    };
    ReviewTask {
        issue: "issue_1_0000".parse().unwrap(),
        task: "task-1".parse().unwrap(),
        submission: None,
        verdict: Verdict::Approved,
        score: Score::new(5).unwrap(),
        next_step: None,
        words: ReviewWords {
            summary: text("s"),
            reviewed_refs: list(&["r"]),
            feedback: text("f"),
            details: vec![detail],
        },
    }
}

fn delivery() -> DeliveryWords {
    DeliveryWords {
        summary: text("s"),
        refs: text("r"),
        is_test_passed: true,
        test_cases: list(&["t"]),
        changed_files: list(&["f"]),
        reviewed_refs: list(&["v"]),
        test_output: text("o"),
        known_risks: text("k"),
        evidence: TestEvidence {
            script_path: text("p"),
            script_cmd: text("c"),
            is_script_passed: true,
            script_result: text("r"),
            doc_path: text("d"),
            doc_commands: list(&["make test"]),
            doc_results: vec![result()],
            is_doc_passed: true,
        },
        commit: text("h"),
        commands: list(&["make"]),
    }
}

fn evidence() -> EvidenceWords {
    let run = Run {
        result: result(),
        output_hash: text("h"),
        output_bytes: 2,
        duration_ms: 300,
        is_timed_out: true,
        sandbox: text("landlock"),
    };
    EvidenceWords {
        commit: text("c"),
        runs: vec![run],
        role: Some("A".parse().unwrap()),
        node: Some("n1".parse().unwrap()),
    }
}

fn verdict(overridden: Option<Override>) -> ReviewDelivery {
    let verification = Verification {
        is_script_passed: true,
        script_result: text("r"),
        is_doc_passed: true,
        doc_results: vec![result()],
    };
    ReviewDelivery {
        delivery: "delivery_1_0000".parse().unwrap(),
        token: 1.into(),
        verdict: Verdict::Rejected,
        words: VerdictWords { feedback: text("f"), refs: text("r"), verification },
        overridden,
    }
}

#[test]
fn what_journals_hold_is_known_again() {
    let issue = "issue_1_0000".parse().unwrap();
    let overridden = Override { person: "p".parse().unwrap(), reason: text("w") };
    let all: [(&str, Hash, &str); 7] = [
        (
            "plan",
            CreateTasks { issue, tasks: vec![task(), task()] }.content(),
            "2dfa8af3407447069b6f44f53861718b",
        ),
        ("submission", submission().content(), "8371e143f8588e3c150dd03b876cbfe4"),
        ("review", review().content(), "ce88e76a851c72914f5d311813b4b47a"),
        ("delivery", delivery().content(), "d39d44ffce1c0e0682c1f13a0acc9f86"),
        ("evidence", Hash::of_value(&evidence()), "082f5b8be31079208a765a46e899ddee"),
        ("verdict", verdict(None).content(), "cdf1f3f348bb425ea0889968e4f1d4b6"),
        ("overridden", verdict(Some(overridden)).content(), "8b0b9b8ae5b787ae0b85b30d101a52d4"),
    ];
    let found = all.map(|(what, hash, _)| format!("{what} {hash}"));
    assert_eq!(found, all.map(|(what, _, pinned)| format!("{what} {pinned}")));
}

#[test]
fn a_review_from_elsewhere_is_known_when_it_is_said_again() {
    let it = verdict(None);
    assert_eq!(it.words.content(Verdict::Rejected, None), it.content());
    assert_ne!(it.words.content(Verdict::Approved, None), it.content());
}
