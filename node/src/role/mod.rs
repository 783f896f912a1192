//! One role of this node: what an agent that plays it can ask for.
//!
//! [`Actions`] is the seam between the MCP side, which words questions and answers, and the
//! broker side, which gets them answered. The node keeps no truth of its own: every answer is
//! the broker's.
//!
//! [`Overview`] is its smaller sister: what can be seen of the workspace without playing a role.
//!
//! - [`state`]: what a role's actor keeps. Pure.
//! - [`mail`]: the part of the seam that is about mail.
//! - [`swarm`]: the part about issues, tasks, deliveries and locks.
//! - [`presence`]: whether somebody plays the role.
//! - [`news`]: what changed, for whoever shows it.
//! - [`player`]: which agent does. Pure.
//! - [`actor`]: the shell around the state. [`handle`]: the door to it. [`supervisor`]: its care.

pub mod actor;
pub mod handle;
pub mod mail;
pub mod news;
pub mod player;
pub mod presence;
pub mod state;
pub mod supervisor;
pub mod swarm;

use std::time::Duration;

use async_trait::async_trait;
use tasuki_proto::{
    id::{IdempotencyKey, LoopId, RoleId, Turn},
    reason::Reason,
    wire,
};

use self::player::Instance;
use crate::{
    link::LinkState,
    outbox::{Counts, Summary},
};

/// Why an action did not happen, or may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub reason: Reason,
    /// What happened, what holds, what to do: one or two sentences for an agent.
    pub message: String,
}

/// What the broker said, or what it last said where it cannot be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen<T> {
    pub what: T,
    /// How long ago; `None`: the broker says so now.
    pub ago: Option<Duration>,
}

impl<T> Seen<T> {
    pub const fn now(what: T) -> Self {
        Self { what, ago: None }
    }
}

/// What a node knows without asking its broker.
#[derive(Debug, Clone)]
pub struct NodeStatus {
    pub broker: String,
    pub link: LinkState,
    pub outbox: Counts,
    /// `None`: none were seen yet.
    pub loops: Option<Seen<wire::ListLoopsResponse>>,
}

/// What a person decides about an entry of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settling {
    /// It failed, and is to go out again.
    Retry,
    /// It is not to be sent.
    Drop,
}

/// A handover as the agent worded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOver {
    pub loop_id: LoopId,
    pub summary: String,
    pub instruction: String,
    pub is_task_complete: bool,
    /// Who is next; `None` is the next participant in order.
    pub to: Option<RoleId>,
    /// The turn being ended; `None` is the one held.
    pub turn: Option<Turn>,
    /// What names this intent each time its sender says it; `None`: it is said once.
    pub key: Option<IdempotencyKey>,
}

/// What the agent that plays a role can ask for.
#[async_trait]
pub trait Actions: std::fmt::Debug + Send + Sync + 'static {
    fn role(&self) -> &RoleId;

    /// Waits until it is this role's turn, the loop is finished, or `hold` is over. Dropping the
    /// future removes the wait; nothing is lost. A newer call for the same loop supersedes an
    /// older one, which then answers `superseded`; one with a `hold` of zero only looks, and
    /// supersedes nothing.
    async fn await_turn(
        &self,
        loop_id: &LoopId,
        hold: Duration,
    ) -> Result<wire::TurnAnswer, Refusal>;

    /// Ends the turn. Once begun it is carried through even when the future is dropped.
    async fn hand_over(&self, handover: HandOver) -> Result<wire::HandOverResponse, Refusal>;

    /// While the broker is out of reach: what was last seen, if anything was.
    async fn loop_status(&self, loop_id: &LoopId) -> Result<Seen<wire::GetLoopResponse>, Refusal>;

    /// Waits under way, each until nothing of it is left in this node.
    fn open_waits(&self) -> usize;

    /// The answer that told of `turn` was written to a live connection of the agent. Reported in
    /// the background.
    fn mark_handed(&self, loop_id: &LoopId, turn: Turn);

    /// The agent named `turn` in a later call. Reported in the background.
    fn mark_seen(&self, loop_id: &LoopId, turn: Turn);

    /// Its mailbox.
    fn mail(&self) -> &dyn mail::Mail;

    /// Its issues, tasks, deliveries and locks.
    fn swarm(&self) -> &dyn swarm::Swarm;

    /// A call of `client` (name and version, for people) came in that is a sign of life. From then
    /// on only those of the agent `by` count, until another one's call does; `None`: anybody's.
    fn called(&self, client: &str, by: Option<&Instance>);

    /// A person gave the role to another agent: what others have open counts for nothing.
    fn given_to(&self, who: &Instance);

    /// A connection of `who` is open for as long as the guard lives.
    fn connected(&self, who: &Instance) -> Connected;

    /// Whether `who`, behind an open connection, answered when it was asked for a sign of life;
    /// until it does nothing that is open counts as one.
    fn answers(&self, is_answered: bool, who: &Instance);
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
    fn news(&self) -> &news::News;
}

/// Keeps a role present until dropped.
#[derive(Debug)]
pub struct Connected(Option<tokio::sync::oneshot::Sender<()>>);

impl Connected {
    /// A guard, and what resolves when it is dropped.
    pub fn new() -> (Self, tokio::sync::oneshot::Receiver<()>) {
        let (guard, dropped) = tokio::sync::oneshot::channel();
        (Self(Some(guard)), dropped)
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}
