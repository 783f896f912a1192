//! Whatever an agent is told to call is a tool that it is shown.

use tasuki_proto::{
    reason::Reason,
    wire::{self, SwarmAnswer, swarm_answer::Standing},
};

use super::{
    super::{is_shown, tool::ToolDef},
    TOOLS, hints,
    next::{self, Asker},
    tools_named_in, wait_results,
};
use crate::{
    role::Refusal,
    toolset::{SWARM_ACCEPTOR, SWARM_LEAD, SWARM_WORKER, ToolsetChoice},
    wait::{Awaited, IssuesIn},
};

/// What roles may have: each set lean and in full, and two together.
const CHOICES: [&str; 8] = [
    "swarm-lead",
    "swarm-lead:full",
    "swarm-worker",
    "swarm-worker:full",
    "swarm-acceptor",
    "swarm-acceptor:full",
    "swarm-lead,swarm-worker",
    "swarm-lead,swarm-acceptor:full",
];

fn sets(names: &str) -> Vec<ToolsetChoice> {
    names.split(',').map(|it| it.parse().expect("a toolset")).collect()
}

/// That a role with these sets is shown every tool that the text names.
fn check(text: &str, choices: &str, from: &str) {
    for tool in tools_named_in(text) {
        assert!(is_shown(tool, &sets(choices)), "{from} tells {choices} of {tool}: {text}");
    }
}

fn tool(name: &str) -> &'static ToolDef {
    TOOLS.iter().find(|it| it.name == name).expect("a tool")
}

fn refused(tool: &str, reason: Reason, choices: &str) -> String {
    let refusal = Refusal { reason, message: "Refused".to_owned() };
    hints::with_hint(refusal, self::tool(tool), &sets(choices)).message
}

#[test]
fn refusals_name_tools_of_whoever_is_refused() {
    for choices in CHOICES {
        let has = |tool: &&ToolDef| sets(choices).iter().any(|it| tool.is_in(it.set));
        for tool in TOOLS.iter().filter(has) {
            for reason in Reason::ALL {
                check(&refused(tool.name, *reason, choices), choices, tool.name);
            }
        }
    }
}

#[test]
fn hints_are_about_tools_that_there_are() {
    for (name, text) in hints::all() {
        assert!(text.contains("{}") && TOOLS.iter().any(|it| it.name == *name), "{name}: {text}");
    }
}

#[test]
fn a_refusal_leads_on() {
    for (tool, reason, choices, expected) in [
        ("claimIssueTask", Reason::InvalidNextStepToken, "swarm-worker", "claimIssueTask without"),
        ("claimIssueTask", Reason::TaskAlreadyClaimed, "swarm-worker", "waitIssueTasks"),
        ("reviewIssueTask", Reason::InvalidNextStepToken, "swarm-lead", "getNextStepToken"),
        (
            "reviewIssueTask",
            Reason::InvalidNextStepToken,
            "swarm-lead,swarm-worker",
            "getNextStepToken",
        ),
        ("createIssueTask", Reason::IssueClosed, "swarm-lead", "tasuki issue reopen"),
        ("createIssueTask", Reason::IssueClosed, "swarm-lead:full", "reopenIssue opens it again"),
        ("submitIssueTask", Reason::IssueClosed, "swarm-worker:full", "waitIssues"),
        ("submitIssueTask", Reason::LeaseLost, "swarm-worker", "waitIssueTasks"),
        ("heartbeat", Reason::LeaseLost, "swarm-worker", "lockFiles"),
        ("submitIssueTask", Reason::MissingDoc, "swarm-worker", "askIssueTask"),
        ("submitIssueTask", Reason::MissingDoc, "swarm-worker:full", "writeTaskDoc"),
        ("getIssue", Reason::UnknownIssue, "swarm-acceptor:full", "listDeliveries"),
        ("submitDelivery", Reason::AlreadyDelivered, "swarm-lead", "waitIssueTaskEvents"),
        ("submitDelivery", Reason::NothingToDeliver, "swarm-lead", "closeIssue"),
        ("reviewIssueTask", Reason::NoOpenSubmission, "swarm-lead", "waitIssueTaskEvents"),
        ("reviewDelivery", Reason::TasksNotDone, "swarm-acceptor", "verdict rejected"),
        ("reviewDelivery", Reason::AlreadyReviewed, "swarm-acceptor", "waitDeliveries"),
        ("getWorker", Reason::UnknownWorker, "swarm-lead:full", "listWorkers"),
    ] {
        let told = refused(tool, reason, choices);
        assert!(told.starts_with("Refused. ") && told.contains(expected), "{tool}: {told}");
    }
    assert_eq!(refused("getWorker", Reason::UnknownWorker, "swarm-worker:full"), "Refused");
    assert_eq!(refused("closeIssue", Reason::Unavailable, "swarm-lead"), "Refused");
}

#[test]
fn descriptions_name_tools_that_are_shown_beside_them() {
    for choices in CHOICES {
        for tool in TOOLS.iter().filter(|it| it.is_shown(&sets(choices))) {
            let told = serde_json::to_string(&tool.listing(true)).expect("a tool is JSON");
            check(&told, choices, tool.name);
        }
    }
}

/// Ways for a wait to end: what of it there may be, in each state that says something else.
fn answers() -> Vec<SwarmAnswer> {
    use wire::{DeliveryStatus as Delivered, MessageStatus as Said, SubmissionStatus as Submitted};
    let mut answers = Vec::new();
    for standing in
        [Standing::Unspecified, Standing::StillWaiting, Standing::Superseded, Standing::There]
    {
        let of = |more: SwarmAnswer| SwarmAnswer { standing: standing.into(), ..more };
        for ended_because in [String::new(), "it ended".to_owned()] {
            answers.push(of(SwarmAnswer { ended_because, ..SwarmAnswer::default() }));
        }
        for status in [
            Submitted::Approved,
            Submitted::Rejected,
            Submitted::Superseded,
            Submitted::Reset,
            Submitted::Open,
        ] {
            for task_id in ["", "task-2"] {
                let next = wire::NextStep { task_id: task_id.to_owned(), ..Default::default() };
                let it = wire::Submission {
                    status: status.into(),
                    next_step: Some(next),
                    ..Default::default()
                };
                answers.push(of(SwarmAnswer { submission: Some(it), ..Default::default() }));
            }
        }
        for status in [Said::Open, Said::Replied, Said::Resolved] {
            let it = wire::TaskMessage { status: status.into(), ..Default::default() };
            answers.push(of(SwarmAnswer { message: Some(it), ..Default::default() }));
        }
        for status in
            [Delivered::Open, Delivered::InReview, Delivered::Approved, Delivered::Rejected]
        {
            let it = wire::Delivery { status: status.into(), ..Default::default() };
            let item = wire::Item {
                kind: "delivery_result".to_owned(),
                delivery: Some(it.clone()),
                ..Default::default()
            };
            answers.push(of(SwarmAnswer {
                delivery: Some(it.clone()),
                deliveries: vec![it],
                item: Some(item),
                ..Default::default()
            }));
        }
        for kind in ["submission", "question", "blocker", "note", "task_lapsed"] {
            let item = wire::Item { kind: kind.to_owned(), ..Default::default() };
            answers.push(of(SwarmAnswer { item: Some(item), ..Default::default() }));
        }
    }
    answers
}

#[test]
fn the_ends_of_waits_name_tools_of_whoever_waits() {
    let role = "r".parse().expect("an id");
    let id = |kind: &str| format!("{kind}_1_0000");
    let issue = || id("issue").parse().expect("an id");
    let waits = [
        ("swarm-worker", Awaited::Issues { state: IssuesIn::Open, limit: 1 }),
        ("swarm-worker", Awaited::Tasks(issue())),
        ("swarm-worker", Awaited::Review(id("sub").parse().expect("an id"))),
        ("swarm-worker", Awaited::Reply(id("msg").parse().expect("an id"))),
        ("swarm-lead", Awaited::Items(issue())),
        ("swarm-lead", Awaited::Verdict(id("delivery").parse().expect("an id"))),
        ("swarm-acceptor", Awaited::Deliveries { limit: 0 }),
    ];
    for (choices, awaited) in &waits {
        for answer in answers() {
            let told = wait_results::wait_result(&role, awaited, &answer);
            let told = told.structured_content.expect("facts");
            let next = told["next_actions"].to_string();
            check(&next, choices, &format!("{awaited:?} {answer:?}"));
        }
    }
}

#[test]
fn what_is_done_about_a_task_is_done_by_tools_of_whoever_asks() {
    use wire::TaskStage as Stage;
    let stages = [
        Stage::Ready,
        Stage::Blocked,
        Stage::Reserved,
        Stage::Working,
        Stage::WaitingForAnswer,
        Stage::Submitted,
        Stage::InReview,
        Stage::Done,
        Stage::Canceled,
    ];
    for choices in CHOICES {
        let asker = Asker {
            role: "r",
            is_lead: choices.contains(SWARM_LEAD),
            is_worker: choices.contains(SWARM_WORKER),
            is_acceptor: choices.contains(SWARM_ACCEPTOR),
        };
        for stage in stages {
            for claimed_by in ["r", "s"] {
                let task = wire::Task {
                    stage: stage.into(),
                    claimed_by: claimed_by.to_owned(),
                    reserved_for: claimed_by.to_owned(),
                    reserved_token: "ns_1_0000".to_owned(),
                    ..wire::Task::default()
                };
                let mut next = next::of_task(&task, &asker);
                next.extend(next::of_list(&[task], 1, &asker));
                check(&next.join(" "), choices, &format!("{stage:?} of {claimed_by}"));
            }
        }
    }
}
