//! A pipeline of four phases whose node ends each at once: what a phase takes by itself.

use serde_json::json;
use tasuki_proto::wire::{
    Caller, ChannelUpdate, ClaimPhaseRequest, EndPhaseRequest, IdempotencyKey, Pipeline,
    PipelineDefinition, PipelinePhase, PipelineStatus, RegisterRequest, RoleSpec,
    StartPipelineRequest, directory_client::DirectoryClient, pipelines_client::PipelinesClient,
};
use tokio::time::Instant;
use tonic::transport::Channel;

use super::{
    Figure, Runs, Sizes, Target,
    calls::{Agent, Calling as _, channels, registration},
    median, micros,
};
use crate::{Result, process::Process};

/// The phases, all done by one role.
const PHASES: [&str; 4] = ["plan", "code", "test", "review"];
const ROLE: &str = "worker";

/// The board, whose pipeline is started again once it has ended.
const BOARD: &str = "change";

/// What a phase writes, in bytes: as much as a handover says.
const TEXT_BYTES: usize = 450;

/// A node that hosts the role.
struct Node {
    pipelines: PipelinesClient<Channel>,
    caller: Caller,
    /// The key used last.
    counter: u64,
}

impl Node {
    async fn register(channel: Channel, workspace: &str) -> Result<Self> {
        let mut caller = Caller { workspace: workspace.to_owned(), ..Caller::default() };
        let role = RoleSpec { role: ROLE.to_owned(), ..RoleSpec::default() };
        let request = RegisterRequest { roles: vec![role], ..registration(&caller, "pipelines") };
        caller.node.clone_from(&request.node);
        let registered = DirectoryClient::new(channel.clone()).register(request).await?;
        caller.epoch = registered.into_inner().epoch;
        Ok(Self { pipelines: PipelinesClient::new(channel), caller, counter: 0 })
    }

    fn key(&mut self) -> Option<IdempotencyKey> {
        self.counter += 1;
        Some(IdempotencyKey { client_id: ROLE.to_owned(), counter: self.counter })
    }

    /// Returns the number of its first attempt.
    async fn start(&mut self) -> Result<u32> {
        let phase = |name: &str| PipelinePhase {
            name: name.to_owned(),
            role: ROLE.to_owned(),
            ..PipelinePhase::default()
        };
        let phases = PHASES.map(phase).to_vec();
        let request = StartPipelineRequest {
            caller: Some(self.caller.clone()),
            key: self.key(),
            role: ROLE.to_owned(),
            board: BOARD.to_owned(),
            definition: Some(PipelineDefinition { phases, ..PipelineDefinition::default() }),
            ..StartPipelineRequest::default()
        };
        let started = self.pipelines.start_pipeline(request).await?.into_inner();
        let first = started.pipeline.and_then(|it| Some(it.attempts.first()?.attempt));
        first.ok_or_else(|| "the answer says nothing of the first attempt".into())
    }

    /// Claims an attempt and ends it with what it writes.
    async fn pass(&mut self, attempt: u32, phase: &str) -> Result<Pipeline> {
        let claim = ClaimPhaseRequest {
            caller: Some(self.caller.clone()),
            key: self.key(),
            role: ROLE.to_owned(),
            board: BOARD.to_owned(),
            attempt,
        };
        let claimed = self.pipelines.claim_phase(claim).await?.into_inner();
        let update = ChannelUpdate {
            channel: "artifacts".to_owned(),
            value_json: json!({ phase: "t".repeat(TEXT_BYTES) }).to_string(),
        };
        let end = EndPhaseRequest {
            caller: Some(self.caller.clone()),
            key: self.key(),
            role: ROLE.to_owned(),
            board: BOARD.to_owned(),
            attempt,
            claim_token: claimed.claim_token,
            updates: vec![update],
            error: String::new(),
        };
        let ended = self.pipelines.end_phase(end).await?.into_inner();
        ended.pipeline.ok_or_else(|| "the answer says nothing of the pipeline".into())
    }
}

/// The time of a phase, beside two durable handovers: it has two durable calls as well.
///
/// # Errors
/// When a call fails.
pub async fn phases(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker(data.path()).await?;
    let channel = channels(&broker, 1).await?.remove(0);
    let mut agent = Agent::of_workspace(channel.clone(), "handovers".to_owned(), 0);
    agent.open().await?;
    let mut node = Node::register(channel, "pipelines").await?;
    let mut measured = Runs::default();
    for run in 0..=sizes.runs {
        let (mut handovers, mut phases) = (Vec::new(), Vec::new());
        for _ in 0..sizes.handovers {
            let first = node.start().await?;
            let mut status = PipelineStatus::Unspecified;
            for (attempt, phase) in (first..).zip(PHASES) {
                let began = Instant::now();
                agent.call().await?;
                agent.call().await?;
                handovers.push(micros(began.elapsed()));
                let began = Instant::now();
                status = node.pass(attempt, phase).await?.status();
                phases.push(micros(began.elapsed()));
            }
            if status != PipelineStatus::Completed {
                return Err(format!("all phases passed, and the pipeline is {status:?}").into());
            }
        }
        if run == 0 {
            // It warmed up.
            continue;
        }
        measured.add(median(&mut handovers), median(&mut phases));
    }
    broker.stop().await?;
    let name = format!("pipeline of {} phases: each", PHASES.len());
    Ok(vec![measured.figure(name, "2 durable handovers", Target::None)])
}
