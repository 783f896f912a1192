//! What a role asks about its turns.

use std::time::Duration;

use async_trait::async_trait;
use tasuki_proto::{
    id::{LoopId, RoleId, Turn},
    wire,
};

use super::{Link, call::is_away, receipts::Mark};
use crate::{
    outbox::Summary,
    role::{HandOver, NodeStatus, Overview, Refusal, Seen, Settling, news::News},
};

impl Link {
    /// Ends `role`'s turn. The future may be dropped, but then nobody tries again: whoever needs
    /// it carried through spawns it.
    pub async fn hand_over(
        &self,
        role: &RoleId,
        handover: &HandOver,
    ) -> Result<wire::HandOverResponse, Refusal> {
        let request = wire::HandOverRequest {
            r#loop: handover.loop_id.to_string(),
            role: role.to_string(),
            summary: handover.summary.clone(),
            instruction: handover.instruction.clone(),
            is_task_complete: handover.is_task_complete,
            to: handover.to.as_ref().map(RoleId::to_string).unwrap_or_default(),
            turn: handover.turn.unwrap_or(Turn::NONE).get(),
            ..Default::default()
        };
        self.command(request, handover.key.as_ref()).await
    }

    /// All loops; while the broker is out of reach, as they were last seen.
    pub async fn list_loops(&self) -> Result<Seen<wire::ListLoopsResponse>, Refusal> {
        let memory = &self.shared.memory;
        match self.every_loop().await {
            Ok(list) => {
                memory.remember_all(&list);
                Ok(Seen::now(list))
            }
            Err(refusal) => memory.recall_all().filter(|_| is_away(&refusal)).ok_or(refusal),
        }
    }

    /// All pages of the list in one.
    async fn every_loop(&self) -> Result<wire::ListLoopsResponse, Refusal> {
        let mut all = wire::ListLoopsResponse::default();
        loop {
            let after = all.next.clone();
            let request = wire::ListLoopsRequest { after, ..Default::default() };
            let page = self.query(request).await?;
            all.loops.extend(page.loops);
            all.next = page.next;
            if all.next.is_empty() {
                return Ok(all);
            }
        }
    }

    /// One loop; while the broker is out of reach, as it was last seen.
    pub async fn loop_status(
        &self,
        loop_id: &LoopId,
    ) -> Result<Seen<wire::GetLoopResponse>, Refusal> {
        let request = wire::GetLoopRequest { r#loop: loop_id.to_string(), ..Default::default() };
        let memory = &self.shared.memory;
        match self.query(request).await {
            Ok(seen) => {
                memory.remember(loop_id, &seen);
                Ok(Seen::now(seen))
            }
            Err(refusal) => memory.recall(loop_id).filter(|_| is_away(&refusal)).ok_or(refusal),
        }
    }

    /// Waits for `role`'s turn, over reconnects, until `hold` is over.
    pub async fn await_turn(
        &self,
        role: &RoleId,
        loop_id: &LoopId,
        hold: Duration,
    ) -> Result<wire::TurnAnswer, Refusal> {
        self.waits.ask_turn(role.clone(), loop_id.clone(), hold).await
    }

    /// Reports in the background how far a turn got.
    pub fn mark(&self, mark: Mark) {
        self.receipts.push(mark);
    }
}

#[async_trait]
impl Overview for Link {
    async fn loops(&self) -> Result<Seen<wire::ListLoopsResponse>, Refusal> {
        self.list_loops().await
    }

    async fn look(&self, loop_id: &LoopId) -> Result<Seen<wire::GetLoopResponse>, Refusal> {
        self.loop_status(loop_id).await
    }

    fn at_a_glance(&self) -> NodeStatus {
        NodeStatus {
            broker: self.shared.settings.broker.clone(),
            link: self.shared.state.borrow().clone(),
            outbox: self.outbox_counts(),
            loops: self.shared.memory.recall_all(),
        }
    }

    fn outbox(&self) -> Vec<Summary> {
        Self::outbox(self)
    }

    async fn settle(&self, number: u64, how: Settling) -> Result<bool, Refusal> {
        self.settle_mail(number, how).await
    }

    fn news(&self) -> &News {
        &self.shared.news
    }
}
