//! The calls about runs and their steps.

use tasuki_proto::{token::Right, wire};

use super::calls::{Call, acting, answers, bytes, inside, new_key, stream};
use crate::support::caller;

const NO_RUN: &str = "run_1_0000";

fn no_run() -> String {
    NO_RUN.to_owned()
}

/// A node that never registered.
pub(super) fn no_node(workspace: &str) -> Option<wire::Caller> {
    let (workspace, node) = (workspace.to_owned(), "no-such-node".to_owned());
    Some(wire::Caller { workspace, node, epoch: 1 })
}

fn text() -> Option<wire::RunText> {
    Some(wire::RunText { text: "t".to_owned(), sealed: None })
}

fn step_key() -> Option<wire::StepKey> {
    Some(wire::StepKey { run_id: no_run(), step: 1, secret: vec![0; 32] })
}

pub(super) static CALLS: &[Call] = &[
    acting("/tasuki.v1.Runs/StartRun", Right::Send, |workspace, role| {
        let step = wire::NewStep {
            agent: "scout".to_owned(),
            runner: "pi".to_owned(),
            on: "anywhere".to_owned(),
            task: text(),
            ..Default::default()
        };
        bytes(wire::StartRunRequest {
            caller: caller(workspace),
            key: new_key(),
            role: role.to_owned(),
            mode: wire::RunMode::Single.into(),
            steps: vec![step],
            ..Default::default()
        })
    }),
    answers(
        "unknown_run",
        acting("/tasuki.v1.Runs/CancelRun", Right::Send, |workspace, role| {
            bytes(wire::CancelRunRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                run_id: no_run(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_run",
        acting("/tasuki.v1.Runs/ReplyToRun", Right::Send, |workspace, role| {
            bytes(wire::ReplyToRunRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                run_id: no_run(),
                message: 1,
                text: text(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_run",
        inside("/tasuki.v1.Runs/ClaimStep", Right::Host, |workspace, _| {
            bytes(wire::ClaimStepRequest {
                caller: caller(workspace),
                key: new_key(),
                run_id: no_run(),
                step: 1,
                secret_hash: vec![0; 32],
            })
        }),
    ),
    answers(
        "unknown_run",
        inside("/tasuki.v1.Runs/ReportStep", Right::Host, |workspace, _| {
            bytes(wire::ReportStepRequest {
                caller: caller(workspace),
                run_id: no_run(),
                step: 1,
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_run",
        inside("/tasuki.v1.Runs/EndStep", Right::Host, |workspace, _| {
            bytes(wire::EndStepRequest {
                caller: caller(workspace),
                key: new_key(),
                run_id: no_run(),
                step: 1,
                status: wire::StepStatus::Succeeded.into(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "invalid_step_token",
        inside("/tasuki.v1.Runs/AskParent", Right::Host, |workspace, _| {
            let (caller, key) = (caller(workspace), new_key());
            bytes(wire::AskParentRequest { caller, key, step: step_key(), text: text() })
        }),
    ),
    answers(
        "invalid_step_token",
        inside("/tasuki.v1.Runs/ReportToParent", Right::Host, |workspace, _| {
            let (caller, key) = (caller(workspace), new_key());
            let (step, text) = (step_key(), text());
            bytes(wire::ReportToParentRequest { caller, key, step, text, ..Default::default() })
        }),
    ),
    answers(
        "unknown_run",
        inside("/tasuki.v1.Runs/GetRun", Right::Read, |workspace, _| {
            bytes(wire::GetRunRequest { caller: caller(workspace), run_id: no_run() })
        }),
    ),
    inside("/tasuki.v1.Runs/ListRuns", Right::Read, |workspace, _| {
        bytes(wire::ListRunsRequest { caller: caller(workspace), ..Default::default() })
    }),
    answers(
        "unknown_run",
        inside("/tasuki.v1.Runs/GetStep", Right::Read, |workspace, _| {
            bytes(wire::GetStepRequest { caller: caller(workspace), run_id: no_run(), step: 1 })
        }),
    ),
    answers(
        "unknown_run",
        inside("/tasuki.v1.Runs/ListRunMessages", Right::Read, |workspace, _| {
            let caller = caller(workspace);
            bytes(wire::ListRunMessagesRequest { caller, run_id: no_run(), after: 0 })
        }),
    ),
    answers(
        "unknown_run",
        inside("/tasuki.v1.Runs/GetRunFile", Right::Read, |workspace, _| {
            let caller = caller(workspace);
            bytes(wire::GetRunFileRequest { caller, run_id: no_run(), message: 1 })
        }),
    ),
    answers(
        "unknown_run",
        inside("/tasuki.v1.Runs/ReadOutput", Right::Read, |workspace, _| {
            bytes(wire::ReadOutputRequest {
                caller: caller(workspace),
                run_id: no_run(),
                step: 1,
                limit: 1,
                ..Default::default()
            })
        }),
    ),
    answers(
        "stale_epoch",
        stream(inside("/tasuki.v1.Runs/WatchReads", Right::Host, |workspace, _| {
            bytes(wire::WatchReadsRequest { caller: no_node(workspace) })
        })),
    ),
    answers(
        "stale_epoch",
        inside("/tasuki.v1.Runs/AnswerRead", Right::Host, |workspace, _| {
            let caller = no_node(workspace);
            bytes(wire::AnswerReadRequest { caller, number: 1, ..Default::default() })
        }),
    ),
    inside("/tasuki.v1.Runs/ListRunners", Right::Read, |workspace, _| {
        bytes(wire::ListRunnersRequest { caller: caller(workspace) })
    }),
    answers(
        "unknown_run",
        acting("/tasuki.v1.Runs/AwaitRun", Right::Read, |workspace, role| {
            let of = wire::RunEndQuestion { run_id: no_run(), after: 0 };
            bytes(wire::RunQuestion {
                caller: caller(workspace),
                role: role.to_owned(),
                ask: Some(wire::run_question::Ask::Run(of)),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_run",
        stream(inside("/tasuki.v1.Runs/WatchRun", Right::Read, |workspace, _| {
            bytes(wire::WatchRunRequest { caller: caller(workspace), run_id: no_run() })
        })),
    ),
];
