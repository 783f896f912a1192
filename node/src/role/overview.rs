//! What can be seen of the workspace without playing a role.

use async_trait::async_trait;
use tasuki_proto::{id::LoopId, wire};

use super::{Refusal, Seen, Settling, typed};
use crate::{
    link::{AnyRequest, Link, LinkState, news::News},
    outbox::{Counts, Summary},
};

/// What a node knows without asking its broker.
#[derive(Debug, Clone)]
pub struct NodeStatus {
    pub broker: String,
    pub link: LinkState,
    pub outbox: Counts,
    /// `None`: none were seen yet.
    pub loops: Option<Seen<wire::ListLoopsResponse>>,
}

/// What can be seen of the workspace by somebody who only looks, and decided about this node's
/// outbox: nothing of it counts as a sign of life, or as told.
#[async_trait]
pub trait Overview: std::fmt::Debug + Send + Sync + 'static {
    /// While the broker is out of reach: what was last seen, if anything was.
    async fn loops(&self) -> Result<Seen<wire::ListLoopsResponse>, Refusal>;

    /// The same of one loop.
    async fn look(&self, loop_id: &LoopId) -> Result<Seen<wire::GetLoopResponse>, Refusal>;

    /// Where the connection to the broker stands; what it last said of the loops, asking nobody.
    fn at_a_glance(&self) -> NodeStatus;

    /// What waits in the node's outbox, or was refused late, of all roles.
    fn outbox(&self) -> Vec<Summary>;

    /// A person has something that was refused late go out again, or not at all. Whether it was
    /// there is answered.
    async fn settle(&self, number: u64, how: Settling) -> Result<bool, Refusal>;

    /// What changed, as it does.
    fn news(&self) -> &News;
}

#[async_trait]
impl Overview for Link {
    async fn loops(&self) -> Result<Seen<wire::ListLoopsResponse>, Refusal> {
        self.list_loops().await
    }

    async fn look(&self, loop_id: &LoopId) -> Result<Seen<wire::GetLoopResponse>, Refusal> {
        let request = wire::GetLoopRequest { r#loop: loop_id.to_string(), ..Default::default() };
        typed::<wire::GetLoopRequest>(self.look_up(AnyRequest::new(request)).await?)
    }

    fn at_a_glance(&self) -> NodeStatus {
        NodeStatus {
            broker: self.broker().to_owned(),
            link: self.state().borrow().clone(),
            outbox: self.outbox_counts(),
            loops: self.last_loops(),
        }
    }

    fn outbox(&self) -> Vec<Summary> {
        Self::outbox(self)
    }

    async fn settle(&self, number: u64, how: Settling) -> Result<bool, Refusal> {
        self.settle_mail(number, how).await
    }

    fn news(&self) -> &News {
        Self::news(self)
    }
}
