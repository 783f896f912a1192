//! Where happenings come from: the seam between hooks and the link to the broker.

use async_trait::async_trait;
use tasuki_proto::id::RoleId;

use super::{details::Details, document::Read, work_event::WorkEvent};
use crate::{
    client::feed::{Ended, Items},
    refusal::Refusal,
};

/// What is read of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The newest so many entries.
    Newest(u32),
    /// From this one on.
    From(u32),
}

/// The broker did not say; it is to be asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered(pub String);

/// What hooks ask the broker. Nothing of it counts as a sign of an agent's life, or as told to it.
#[async_trait]
pub trait Source: std::fmt::Debug + Send + Sync + 'static {
    /// Resolves while the broker can be asked.
    async fn ready(&self);

    /// The sequence of the newest record, as `role` may know it; 0: there is none.
    async fn newest(&self, role: &RoleId) -> Result<u64, Unanswered>;

    /// All records from `from` on, and then each as it comes.
    async fn follow(&self, from: u64) -> Result<Items, Ended>;

    /// A thread as `role` has it.
    async fn read(&self, role: &RoleId, message: &str, part: Part) -> Result<Read, Unanswered>;

    /// The same with the words that this node can open.
    async fn open(&self, read: Read) -> Read;

    /// What is to be told of anything else.
    async fn details(&self, event: &WorkEvent) -> Result<Result<Details, Refusal>, Unanswered>;
}
