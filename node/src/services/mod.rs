//! Services: tools that a role offers because its operator declares them in `tasuki.toml`.
//!
//! A service checks its input, then runs a sub-agent, calls a tool of the gateway, or does several of
//! these one after another, and checks what came out.
//!
//! - **SV1** Nothing is started for an input that does not match its schema, and no result is given
//!   that does not match the schema of the output.
//! - **SV2** Whoever drops a call of a service ends what that started: the run is canceled, the tool
//!   is told that nobody waits.
//! - **SV3** Services that call one another end at a depth of [`DEPTH_MAX`].
//!
//! `agent` is one sub-agent, `steps` one service from its input to its result, `provider` the same as
//! a tool of the gateway.
//!
//! Not here: what was declared ([`service_settings`](crate::service_settings)) and in which file
//! (`config/service`), how values get into texts ([`template`](crate::template)), how services reach
//! other nodes (`gateway/roles`).

#![expect(deprecated, reason = "servers of earlier versions log so")]

mod agent;
mod error;
mod provider;
mod steps;

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use async_trait::async_trait;
use rmcp::{
    ErrorData,
    model::{LoggingMessageNotificationParam, ProgressNotificationParam},
};
use serde_json::{Map, Value};
use tasuki_proto::id::RoleId;

pub use self::error::ServiceError;
use self::{provider::ServiceProvider, steps::Origin};
use crate::{
    gateway::{Asked, Caller, Gateway, RoleProvider, Told},
    limiter::Limiter,
    runs::host::RunsHost,
    service_settings::{AgentStep, Service},
};

/// Services that may call one another: one that calls itself in a ring ends there.
pub const DEPTH_MAX: u32 = 8;

/// Calls of services of one node that are under way: as many as the broker sends it.
const CALLS_MAX: usize = 64;

/// All services of this node. Cheap to clone behind an [`Arc`].
pub struct Services {
    all: Vec<Arc<Service>>,
    runs: Arc<RunsHost>,
    gateway: OnceLock<Weak<Gateway>>,
    calls: Limiter,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.all.iter().map(|it| format!("{}/{}", it.role, it.name));
        f.debug_list().entries(names).finish()
    }
}

impl Services {
    /// Services of roles that this node hosts, and the agents they may run.
    pub fn new(services: Vec<Service>, runs: Arc<RunsHost>) -> Self {
        Self {
            all: services.into_iter().map(Arc::new).collect(),
            runs,
            gateway: OnceLock::new(),
            calls: Limiter::new("calls of services", CALLS_MAX),
        }
    }

    /// From then on tools of this gateway can be called. The first counts.
    pub fn connect(&self, gateway: &Arc<Gateway>) {
        self.gateway.set(Arc::downgrade(gateway)).ok();
    }

    pub fn all(&self) -> &[Arc<Service>] {
        &self.all
    }

    /// What the gateway offers of them: the services of each role.
    pub fn providers(self: &Arc<Self>) -> Vec<Arc<dyn RoleProvider>> {
        let roles: BTreeSet<&RoleId> = self.all.iter().map(|it| &it.role).collect();
        let provider = |role: &RoleId| -> Arc<dyn RoleProvider> {
            Arc::new(ServiceProvider::new(role.clone(), Arc::clone(self)))
        };
        roles.into_iter().map(provider).collect()
    }

    /// A service by its own name, without the role's.
    pub fn find(&self, role: &RoleId, name: &str) -> Option<Arc<Service>> {
        self.of_role(role).find(|it| it.name == name).cloned()
    }

    pub fn of_role(&self, role: &RoleId) -> impl Iterator<Item = &Arc<Service>> {
        self.all.iter().filter(move |it| it.role == *role)
    }

    /// Calls a service. Whoever may call it was asked before. `attempt_key` names one attempt
    /// however often it is made: tools are given it as `_meta` `tasuki/attempt`, templates as
    /// `{attempt_key}`; without one each call has a key of its own.
    ///
    /// Dropping the future cancels what it started.
    ///
    /// # Errors
    /// When there is no result that matches the service's schema.
    pub async fn call(
        &self,
        service: &Service,
        input: Map<String, Value>,
        attempt_key: Option<&str>,
        caller: &dyn Caller,
    ) -> Result<Value, ServiceError> {
        let origin = Origin { attempt_key: attempt_key.map(str::to_owned), depth: 0 };
        Box::pin(self.call_from(service, input, origin, caller)).await
    }

    /// Runs one sub-agent as a role, outside of any declared service. With a schema of the output
    /// the answer is JSON that matches it, for which the agent is asked a second time where need be;
    /// without one it is a text. `timeout` is for all of it.
    ///
    /// Dropping the future cancels the run.
    ///
    /// # Errors
    /// When there is no answer, or none that matches.
    pub async fn run_agent(
        &self,
        role: &RoleId,
        agent: &AgentStep,
        prompt: &str,
        output: Option<&Value>,
        timeout: Duration,
        caller: &dyn Caller,
    ) -> Result<Value, ServiceError> {
        let task = agent::AgentTask { role, agent, prompt, output, timeout };
        let running = agent::run(&self.runs, &task, caller);
        let ended = tokio::time::timeout(timeout, Box::pin(running)).await;
        ended.unwrap_or(Err(ServiceError::TimedOut(timeout)))
    }
}

/// A caller that is told nothing and cannot be asked.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

#[async_trait]
impl Caller for Silent {
    async fn progress(&self, _: ProgressNotificationParam) {}

    async fn log(&self, _: LoggingMessageNotificationParam) {}

    async fn ask(&self, _: Asked) -> Result<Told, ErrorData> {
        Err(no_user())
    }
}

/// A service has no user whom a tool could ask.
fn no_user() -> ErrorData {
    ErrorData::invalid_request("a service cannot ask its user", None)
}
