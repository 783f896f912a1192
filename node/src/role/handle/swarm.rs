//! What a role does with issues, tasks, deliveries and locks, as the MCP side gets at it.

use std::time::Duration;

use async_trait::async_trait;
use tasuki_proto::{id::IdempotencyKey, swarm::IssueId, wire};

use super::{Handle, beside, gone};
use crate::{
    link::{AnyRequest, AnyResponse, Link},
    role::{
        Refusal,
        actor::{Msg, RoleContext},
        swarm::{Awaited, Swarm},
    },
};

#[async_trait]
impl Swarm for Handle {
    async fn swarm(
        &self,
        request: AnyRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<AnyResponse, Refusal> {
        let is_command = request.call().has_key;
        let call = |link: Link, role| async move { link.swarm(&role, request, key).await };
        if is_command { self.carry(call).await } else { self.ask(call).await }
    }

    async fn await_swarm(
        &self,
        awaited: &Awaited,
        hold: Duration,
    ) -> Result<wire::SwarmAnswer, Refusal> {
        let permit = self.admit_wait(hold).await?;
        let awaited = awaited.clone();
        self.call(|reply| Msg::AwaitSwarm { awaited, hold, reply, permit }, gone).await
    }

    fn decline(&self) {
        let declined = beside(|around| around.link.decline(&around.role));
        let actor = self.actor.borrow().clone();
        // An offer that nobody declines is over in a while.
        drop(actor.send_message(declined));
    }

    fn mark_item(&self, issue: IssueId, number: u64, until: Box<dyn Send + Sync>) {
        let Ok(permit) = self.reports.clone().try_acquire_owned() else { return };
        let report = beside(move |around| {
            let RoleContext { role, link, .. } = around.clone();
            around.link.spawn(async move {
                let request = wire::MarkItemsRequest {
                    issue_id: issue.to_string(),
                    numbers: vec![number],
                    ..wire::MarkItemsRequest::default()
                };
                // What nobody claims to have shown is shown again.
                drop(link.swarm(&role, AnyRequest::new(request), None).await);
                drop((permit, until));
            });
        });
        let actor = self.actor.borrow().clone();
        drop(actor.send_message(report));
    }
}
