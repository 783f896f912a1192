//! What a role asks and does about issues, tasks, deliveries and locks.
//!
//! A request's caller, key and role are filled in here. A command is tried until it is answered,
//! under one key; it is not kept for a broker that is away, since a claim or a lock that is granted
//! an hour later is none.

use std::time::Duration;

use tasuki_proto::{
    id::{IdempotencyKey, RoleId},
    wire,
};

use super::{
    Link,
    any::{AnyRequest, AnyResponse},
    retry::Attempts,
};
use crate::role::{Refusal, swarm::Awaited};

/// How long something lasts that a response grants to whoever is there.
fn lease(response: &AnyResponse) -> Option<Duration> {
    let (expires_ms, now_ms) = if let Some(it) = response.downcast_ref::<wire::LockResponse>() {
        (it.lock.as_ref()?.expires_ms, it.now_ms)
    } else if let Some(it) = response.downcast_ref::<wire::TaskResponse>() {
        (it.task.as_ref()?.lease_expires_ms, it.now_ms)
    } else if let Some(it) = response.downcast_ref::<wire::DeliveryResponse>() {
        (it.delivery.as_ref()?.lease_expires_ms, it.now_ms)
    } else {
        return None;
    };
    (expires_ms != 0).then(|| Duration::from_millis(expires_ms.saturating_sub(now_ms)))
}

impl Link {
    /// One call of `role`. The future of a command may be dropped, but then nobody tries again:
    /// whoever needs it carried through spawns it. `key` names the intent each time its sender
    /// says it; `None`: it is said once.
    pub async fn swarm(
        &self,
        role: &RoleId,
        mut request: AnyRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<AnyResponse, Refusal> {
        if !request.call().has_key {
            request.address(role, None);
            return self.ask(|channel, caller| request.send(channel, caller)).await;
        }
        let (_room, key) = self.ready_to_command(key.as_ref()).await?;
        request.address(role, Some(key.wire()));
        let call = |channel, caller| request.send(channel, caller);
        let response = self.send(Attempts::default(), call).await?;
        if let Some(lease) = lease(&response) {
            self.shared.is_granted(lease);
        }
        Ok(response)
    }

    /// Nobody acts on what the role was offered: it goes to the next at once.
    pub fn decline(&self, role: &RoleId) {
        self.waits.decline(role.clone());
    }

    /// Waits for what `awaited` says, over reconnects, until `hold` is over.
    pub async fn await_swarm(
        &self,
        role: &RoleId,
        awaited: &Awaited,
        hold: Duration,
    ) -> Result<wire::SwarmAnswer, Refusal> {
        self.waits.ask_swarm(role.clone(), awaited.clone(), hold).await
    }
}
