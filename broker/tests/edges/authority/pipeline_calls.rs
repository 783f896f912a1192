//! Calls about pipelines.

use tasuki_proto::{limits::ID_BYTES_MAX, token::Right, wire};

use super::calls::{Call, acting, answers, bytes, inside, new_key, stream};
use crate::support::caller;

pub(super) static CALLS: &[Call] = &[
    acting("/tasuki.v1.Pipelines/StartPipeline", Right::Send, |workspace, role| {
        let phase = wire::PipelinePhase {
            name: "plan".to_owned(),
            role: role.to_owned(),
            ..Default::default()
        };
        // Each on a board of its own: one that has not ended bars another.
        let key = new_key();
        let client = key.as_ref().map(|it| it.client_id.clone()).unwrap_or_default();
        let board = format!("b-{client}").chars().take(ID_BYTES_MAX).collect();
        let definition = wire::PipelineDefinition { phases: vec![phase], ..Default::default() };
        bytes(wire::StartPipelineRequest {
            caller: caller(workspace),
            key,
            role: role.to_owned(),
            board,
            definition: Some(definition),
            ..Default::default()
        })
    }),
    answers(
        "role_forbidden",
        acting("/tasuki.v1.Pipelines/ClaimPhase", Right::Host, |workspace, role| {
            bytes(wire::ClaimPhaseRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                board: "nowhere".to_owned(),
                attempt: 1,
            })
        }),
    ),
    answers(
        "role_forbidden",
        acting("/tasuki.v1.Pipelines/EndPhase", Right::Host, |workspace, role| {
            bytes(wire::EndPhaseRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                board: "nowhere".to_owned(),
                attempt: 1,
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_pipeline",
        inside("/tasuki.v1.Pipelines/DecideApproval", Right::Steer, |workspace, _| {
            bytes(wire::DecideApprovalRequest {
                caller: caller(workspace),
                key: new_key(),
                person: "p".to_owned(),
                board: "nowhere".to_owned(),
                approve: true,
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_pipeline",
        acting("/tasuki.v1.Pipelines/CancelPipeline", Right::Send, |workspace, role| {
            bytes(wire::CancelPipelineRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                board: "nowhere".to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_pipeline",
        acting("/tasuki.v1.Pipelines/ResumePipeline", Right::Send, |workspace, role| {
            bytes(wire::ResumePipelineRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                board: "nowhere".to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_pipeline",
        inside("/tasuki.v1.Pipelines/GetPipeline", Right::Read, |workspace, _| {
            let (caller, board) = (caller(workspace), "nowhere".to_owned());
            bytes(wire::GetPipelineRequest { caller, board })
        }),
    ),
    inside("/tasuki.v1.Pipelines/ListPipelines", Right::Read, |workspace, _| {
        bytes(wire::ListPipelinesRequest { caller: caller(workspace), ..Default::default() })
    }),
    answers(
        "role_forbidden",
        stream(inside("/tasuki.v1.Pipelines/WatchPhases", Right::Host, |workspace, _| {
            bytes(wire::WatchPhasesRequest { caller: caller(workspace) })
        })),
    ),
];
