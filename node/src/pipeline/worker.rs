//! Takes attempts of the roles that this node hosts, and makes them.
//!
//! The broker tells what there is to do, and what of that this node has, whenever that changed. Each
//! attempt is a task of its own; one that the broker no longer has for this node is dropped, with
//! everything it started.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::{Map, Value};
use tasuki_proto::{
    echo::echo, id::RoleId, pattern::matches_any, pipeline::error_text, reason::Reason, wire,
};
use tokio::{
    sync::oneshot,
    task::{self, AbortHandle, JoinSet},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Streaming;

use super::spec::{PhaseAction, PhaseSpec, values};
use crate::{
    client::retry::{Backoff, chance},
    link::{HostedRole, Link, reopen::Reopening},
    refusal::Refusal,
    service_settings::Service,
    services::{ServiceError, Services, Silent},
};

/// Attempts that one node makes at the same time.
const ATTEMPTS_MAX: usize = 16;

/// After how long an attempt that was refused is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// How long a service may not be there: a server that a package manager starts takes its time.
const UNAVAILABLE_MAX: Duration = Duration::from_secs(120);

/// What pipelines are done with on this node.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    pub services: Arc<Services>,
    /// Agents that a pipeline names are run here, whoever started it. Those of pipelines that a role
    /// of this node started always are.
    pub accepts_agents: bool,
    /// The broker is this node's own, and so are the people that start pipelines there.
    pub is_broker_here: bool,
}

impl WorkerSettings {
    /// Whether an agent that a pipeline names is run here, by who started the pipeline.
    fn runs_agents_of(&self, claim: &wire::ClaimPhaseResponse, roles: &[HostedRole]) -> bool {
        let is_own_role = || roles.iter().any(|it| it.role.as_str() == claim.by_role);
        let is_own_person = || self.is_broker_here && !claim.by_person.is_empty();
        self.accepts_agents || is_own_role() || is_own_person()
    }
}

/// Makes attempts until it is shut down or dropped.
#[derive(Debug)]
pub struct PipelineWorker {
    closing: DropGuard,
    /// Closed when nothing is done any more.
    done: oneshot::Receiver<()>,
}

impl PipelineWorker {
    /// Begins, in the background.
    pub fn start(link: Link, settings: WorkerSettings) -> Self {
        let (running, done) = oneshot::channel();
        let closing = CancellationToken::new();
        let worker = Worker {
            context: Arc::new(Context { link: link.clone(), settings }),
            running: BTreeMap::new(),
            refused: BTreeSet::new(),
            tasks: JoinSet::new(),
        };
        let until = closing.clone();
        link.spawn(async move {
            until.run_until_cancelled(worker.run()).await;
            drop(running);
        });
        Self { closing: closing.drop_guard(), done }
    }

    /// Ends what is done here. The broker has it made again, here or elsewhere.
    pub async fn shutdown(self) {
        drop(self.closing);
        self.done.await.ok();
    }
}

/// An attempt by its board and number.
type AttemptId = (String, u32);

struct Worker {
    context: Arc<Context>,
    running: BTreeMap<AttemptId, AbortHandle>,
    /// What the broker did not give to this node: asked for again when it tells of something, or
    /// after [`ASK_AGAIN`], since a pause that ends is not told.
    refused: BTreeSet<AttemptId>,
    /// Each ends with the attempt that it did not get, if so.
    tasks: JoinSet<Option<AttemptId>>,
}

struct Context {
    link: Link,
    settings: WorkerSettings,
}

impl Worker {
    async fn run(mut self) {
        let link = self.context.link.clone();
        let mut reopening = Reopening::new();
        loop {
            link.connected().await;
            let registered_again = link.registered_again();
            match link.watch_phases().await {
                Ok(phases) => {
                    reopening.opened();
                    let ended = tokio::select! {
                        ended = self.follow(phases, &mut reopening) => ended,
                        () = registered_again => Ok(()),
                    };
                    tracing::debug!(?ended, "phases are to be watched again");
                    reopening.after_end(&link).await;
                }
                // A broker of an earlier release has no pipelines.
                Err(refusal) => {
                    tracing::debug!(%refusal, "it is not known which phases wait");
                    reopening.after_refusal(&link).await;
                }
            }
        }
    }

    /// Makes what there is, until the stream ends. What runs then goes on: the broker still has it
    /// for this node, or says otherwise on the next stream.
    async fn follow(
        &mut self,
        mut phases: Streaming<wire::NodePhases>,
        reopening: &mut Reopening,
    ) -> Result<(), String> {
        let mut newest = Vec::new();
        let mut again = Instant::now() + ASK_AGAIN;
        loop {
            tokio::select! {
                told = phases.message() => {
                    let Some(told) = told.map_err(|why| why.message().to_owned())? else {
                        return Ok(());
                    };
                    reopening.received();
                    newest = told.phases;
                    self.refused.clear();
                }
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                () = sleep_until(again), if !self.refused.is_empty() => self.refused.clear(),
            }
            if self.refused.is_empty() {
                again = Instant::now() + ASK_AGAIN;
            }
            self.take(&newest);
        }
    }

    fn ended(&mut self, ended: Result<(task::Id, Option<AttemptId>), task::JoinError>) {
        let id = match ended {
            Ok((id, refused)) => {
                self.refused.extend(refused);
                id
            }
            Err(why) => {
                if why.is_panic() {
                    tracing::error!(%why, "an attempt at a phase panicked");
                }
                why.id()
            }
        };
        self.running.retain(|_, it| it.id() != id);
    }

    /// Begins what waits, and drops what this node no longer has.
    fn take(&mut self, phases: &[wire::ReadyPhase]) {
        let id = |it: &wire::ReadyPhase| (it.board.clone(), it.attempt);
        let own: BTreeSet<AttemptId> = phases.iter().map(id).collect();
        self.running.retain(|id, it| {
            let is_own = own.contains(id);
            if !is_own {
                it.abort();
            }
            is_own
        });
        for phase in phases.iter().filter(|it| !it.is_claimed) {
            let id = id(phase);
            let is_known = self.running.contains_key(&id) || self.refused.contains(&id);
            if self.running.len() < ATTEMPTS_MAX && !is_known {
                let attempt = attempt(Arc::clone(&self.context), phase.clone());
                self.running.insert(id, self.tasks.spawn(attempt));
            }
        }
    }
}

/// Makes one attempt, from its claim to its end. Answers with it if the broker did not give it.
async fn attempt(context: Arc<Context>, ready: wire::ReadyPhase) -> Option<AttemptId> {
    let (board, phase) = (ready.board.clone(), ready.phase.clone());
    let claim = wire::ClaimPhaseRequest {
        role: ready.role.clone(),
        board: board.clone(),
        attempt: ready.attempt,
        ..Default::default()
    };
    let claim = match context.link.command_until_judged(claim, Reason::is_retryable).await {
        Ok(claim) => claim,
        Err(refusal) => {
            tracing::debug!(%refusal, board, phase, "an attempt is not this node's");
            return Some((board, ready.attempt));
        }
    };
    tracing::info!(board, phase, attempt = ready.attempt, role = ready.role, "begins a phase");
    let made = context.make(&ready, &claim).await;
    let end = |updates, error: &str| wire::EndPhaseRequest {
        role: ready.role.clone(),
        board: board.clone(),
        attempt: ready.attempt,
        claim_token: claim.claim_token,
        updates,
        error: if error.is_empty() { String::new() } else { error_text(error) },
        ..Default::default()
    };
    let ended = match made {
        Ok(updates) => context.end(end(updates, "")).await,
        Err(why) => context.end(end(Vec::new(), &why)).await,
    };
    let ended = match ended {
        // What was made does not fit the board.
        Err(refusal) if !is_lost(refusal.reason) => {
            let why = format!("What the phase made was refused: {}", refusal.message);
            context.end(end(Vec::new(), &why)).await
        }
        ended => ended,
    };
    match ended {
        Ok(_) => tracing::info!(board, phase, attempt = ready.attempt, "ended a phase"),
        Err(refusal) => {
            tracing::warn!(%refusal, board, phase, attempt = ready.attempt, "a phase was done in vain");
        }
    }
    None
}

/// Whether the attempt is no longer this node's.
const fn is_lost(reason: Reason) -> bool {
    matches!(reason, Reason::LeaseLost | Reason::StaleToken | Reason::UnknownPipeline)
}

impl Context {
    async fn end(&self, end: wire::EndPhaseRequest) -> Result<wire::PipelineResponse, Refusal> {
        self.link.command_until_judged(end, Reason::is_retryable).await
    }

    /// Calls a service. One that is not there, as while the node's servers start, is called again:
    /// nothing was done for it.
    async fn call(
        &self,
        service: &Service,
        input: Map<String, Value>,
        key: Option<&str>,
    ) -> Result<Value, ServiceError> {
        let mut backoff = Backoff::default();
        let began = Instant::now();
        loop {
            match self.settings.services.call(service, input.clone(), key, &Silent).await {
                Err(ServiceError::Unavailable(why)) if began.elapsed() < UNAVAILABLE_MAX => {
                    tracing::debug!(why, service = service.name, "a service is called again");
                    sleep(backoff.pause(chance())).await;
                }
                answer => return answer,
            }
        }
    }

    /// Reads a board, however long the broker is away.
    async fn ask(
        &self,
        request: wire::ReadBoardRequest,
    ) -> Result<wire::ReadBoardResponse, Refusal> {
        let mut backoff = Backoff::default();
        loop {
            self.link.connected().await;
            match self.link.query(request.clone()).await {
                Err(refusal) if refusal.reason.is_retryable() => {
                    tracing::debug!(%refusal, "a board is read again");
                    sleep(backoff.pause(chance())).await;
                }
                answer => return answer,
            }
        }
    }

    /// A board at a checkpoint, or as it is where that was pruned. An error is a sentence.
    async fn read(&self, board: &str, checkpoint: u64) -> Result<wire::ReadBoardResponse, String> {
        let read = |checkpoint| wire::ReadBoardRequest {
            board: board.to_owned(),
            checkpoint,
            ..Default::default()
        };
        let found = match self.ask(read(checkpoint)).await {
            Err(refusal) if refusal.reason == Reason::UnknownCheckpoint => self.ask(read(0)).await,
            found => found,
        };
        found.map_err(|refusal| refusal.message)
    }

    /// What an attempt writes to the board. An error is a sentence.
    async fn make(
        &self,
        ready: &wire::ReadyPhase,
        claim: &wire::ClaimPhaseResponse,
    ) -> Result<Vec<wire::ChannelUpdate>, String> {
        let phase = claim.phase.clone().unwrap_or_default();
        let wrong = |(field, why)| format!("The phase's `{field}` {why}.");
        let spec = PhaseSpec::read(&phase.spec).map_err(wrong)?;
        let action = spec.action().map_err(wrong)?;
        let role: RoleId = ready.role.parse().map_err(|why| format!("The role {why}."))?;
        let board = self.read(&ready.board, claim.checkpoint).await?;
        let (values, channels) = values(&board, &claim.attempt_key);
        let limit = Duration::from_millis(phase.timeout_ms);
        let services = &self.settings.services;
        let made = match action {
            PhaseAction::Service { name, arguments } => {
                let service = services.find(&role, &name).ok_or_else(|| {
                    format!("Role {role} has no service {} on its node.", echo(&name))
                })?;
                check_caller(&service, claim)?;
                let input = match arguments {
                    Some(arguments) => arguments.fill(&values)?,
                    None => wanted(&service, channels),
                };
                let key = Some(claim.attempt_key.as_str());
                timeout(limit, self.call(&service, input, key)).await
            }
            PhaseAction::Agent { agent, prompt, output } => {
                if !self.settings.runs_agents_of(claim, self.link.hosted_roles()) {
                    return Err(format!(
                        "The node of {role} runs no agents that a pipeline names. Declare a service \
                         there, or set `accept_elsewhere` in its [runs]."
                    ));
                }
                let prompt = prompt.fill(&values)?;
                let run =
                    services.run_agent(&role, &agent, &prompt, output.as_ref(), limit, &Silent);
                timeout(limit, run).await
            }
        };
        let made = made.map_err(|_| format!("It took longer than {} s.", limit.as_secs()))?;
        spec.updates(made.map_err(|why| why.to_string())?)
    }
}

/// Whether whoever started the pipeline may call the service. A person may.
fn check_caller(service: &Service, claim: &wire::ClaimPhaseResponse) -> Result<(), String> {
    let by = &claim.by_role;
    let is_own = *by == service.role.as_str();
    if by.is_empty() || is_own || matches_any(&service.callers, by) {
        return Ok(());
    }
    Err(format!("Service {} may not be called by {by}, who started the pipeline.", service.name))
}

/// The channels that a service's input names.
fn wanted(service: &Service, mut channels: Map<String, Value>) -> Map<String, Value> {
    let properties = service.input.get("properties").and_then(Value::as_object);
    channels.retain(|name, value| {
        !value.is_null() && properties.is_none_or(|it| it.contains_key(name))
    });
    channels
}
