//! Calls about pipelines.

use tasuki_proto::{limits::ID_BYTES_MAX, token::Right, wire};

use super::calls::{Call, acting, answers, bytes, inside, new_key, stream};
use crate::{
    guarded::Guarded,
    support::{caller, reason},
};

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

/// Holds E7: whoever starts a pipeline has services called, and agents run, on other nodes.
#[tokio::test]
async fn starting_a_pipeline_takes_the_rights_of_what_it_does() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let (call, run) = ([Right::Send, Right::Call], [Right::Send, Right::Call, Right::Run]);
    let bearer = async |rights: &[Right]| {
        broker.bearer(Some(&broker.token("w1", &["A"], rights).await.expose()))
    };
    let senders = [bearer(&[Right::Send]).await, bearer(&call).await, bearer(&run).await];
    let start = |board: &str, spec: &str| {
        let phase = wire::PipelinePhase {
            name: "plan".to_owned(),
            role: "A".to_owned(),
            spec: spec.to_owned(),
            ..Default::default()
        };
        bytes(wire::StartPipelineRequest {
            caller: caller("w1"),
            key: new_key(),
            role: "A".to_owned(),
            board: board.to_owned(),
            definition: Some(wire::PipelineDefinition {
                phases: vec![phase],
                ..Default::default()
            }),
            ..Default::default()
        })
    };
    let by_place = r#"[null,null,"a","p",null,null,null,"x"]"#;
    let (service, agent) = (r#"{"service":"s"}"#, r#"{"agent":"a","prompt":"p"}"#);
    for (index, (sender, spec, wanted)) in [
        (&senders[0], service, Some("right_forbidden")),
        (&senders[1], service, None),
        (&senders[1], agent, Some("right_forbidden")),
        (&senders[2], agent, None),
        (&senders[1], by_place, Some("right_forbidden")),
    ]
    .into_iter()
    .enumerate()
    {
        let path = "/tasuki.v1.Pipelines/StartPipeline";
        let started = sender.unary(path, start(&format!("b{index}"), spec)).await;
        assert_eq!(started.err().as_ref().map(reason), wanted, "{index}");
    }
    let cancel = bytes(wire::CancelPipelineRequest {
        caller: caller("w1"),
        key: new_key(),
        role: "A".to_owned(),
        board: "b3".to_owned(),
        ..Default::default()
    });
    senders[0].unary("/tasuki.v1.Pipelines/CancelPipeline", cancel).await.unwrap();
    for (sender, wanted) in
        senders.iter().zip([Some("right_forbidden"), Some("right_forbidden"), None])
    {
        let resume = bytes(wire::ResumePipelineRequest {
            caller: caller("w1"),
            key: new_key(),
            role: "A".to_owned(),
            board: "b3".to_owned(),
            ..Default::default()
        });
        let resumed = sender.unary("/tasuki.v1.Pipelines/ResumePipeline", resume).await;
        assert_eq!(resumed.err().as_ref().map(reason), wanted);
    }
}
