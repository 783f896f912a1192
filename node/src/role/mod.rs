//! One role of this node: what an agent that plays it can ask for.
//!
//! [`Actions`] is the seam between the MCP side, which words questions and answers, and the
//! broker side, which gets them answered. The node keeps no truth of its own: every answer is
//! the broker's.
//!
//! [`Overview`] is its smaller sister: what can be seen of the workspace without playing a role.
//!
//! - [`state`]: what a role's actor keeps. Pure.
//! - [`player`]: which agent plays the role. Pure.
//! - [`actor`]: the shell around the state. [`handle`]: the door to it. [`supervisor`]: its care.

pub mod actor;
pub mod handle;
pub mod player;
pub mod state;
pub mod supervisor;

mod overview;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tasuki_proto::{
    id::{IdempotencyKey, LoopId, RoleId, Turn},
    mail::MessageId,
    reason::Reason,
    rpc::Rpc,
    swarm::IssueId,
    wire,
};

pub use self::overview::{NodeStatus, Overview};
use self::player::Instance;
pub use crate::{
    link::news,
    outbox::Settling,
    refusal::{Refusal, Seen},
};
use crate::{
    link::{AnyRequest, AnyResponse, Moving, Sent},
    outbox::{Summary, Untold},
    wait::{Answer, Question},
};

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

impl HandOver {
    /// The request, and what names its intent.
    pub fn into_request(self) -> (wire::HandOverRequest, Option<IdempotencyKey>) {
        let request = wire::HandOverRequest {
            r#loop: self.loop_id.to_string(),
            summary: self.summary,
            instruction: self.instruction,
            is_task_complete: self.is_task_complete,
            to: self.to.as_ref().map(RoleId::to_string).unwrap_or_default(),
            turn: self.turn.unwrap_or(Turn::NONE).get(),
            ..Default::default()
        };
        (request, self.key)
    }
}

/// What the agent that plays a role can ask for.
///
/// Requests are the broker's own; `caller` and `role` of them are filled in by whoever carries them
/// out. A command that was begun is carried through even when the future is dropped. Its `key`
/// names the intent each time its sender says it; `None`: it is said once.
///
/// Mail is kept in the node's outbox while the broker is out of reach. There its order stays: what
/// is sent while something waits goes behind it. Nothing else is kept.
#[async_trait]
pub trait Actions: std::fmt::Debug + Send + Sync + 'static {
    fn role(&self) -> &RoleId;

    /// Carries out a call, whichever it is. What asks for loops or mail is answered with what was
    /// last seen while the broker is out of reach, if anything was.
    async fn call(
        &self,
        request: AnyRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Seen<AnyResponse>, Refusal>;

    /// Waits for something until `hold` is over. Dropping the future removes the wait; nothing is
    /// lost. A newer wait for the same supersedes an older one; one with a `hold` of zero only
    /// looks, and supersedes nothing.
    async fn wait(&self, question: Question, hold: Duration) -> Result<Answer, Refusal>;

    /// Waits under way, each until nothing of it is left in this node.
    fn open_waits(&self) -> usize;

    /// Sends a letter.
    async fn send(
        &self,
        request: wire::SendRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Sent, Refusal>;

    /// Resolves or rejects threads.
    async fn move_mail(
        &self,
        request: wire::MoveRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Moving, Refusal>;

    /// Stores a file, to be attached.
    async fn put_attachment(
        &self,
        attachment: &wire::Attachment,
        content: Bytes,
    ) -> Result<(), Refusal>;

    /// The content of a file attached to a thread, checked against its hash.
    async fn get_attachment(
        &self,
        message: &str,
        attachment: &wire::Attachment,
    ) -> Result<Bytes, Refusal>;

    /// What waited in the node's outbox and was refused late, and the agent was not told: the
    /// oldest `max` of it.
    async fn untold(&self, max: usize) -> Result<Untold, Refusal>;

    /// What of this role is in the node's outbox about a thread, by any of its names.
    async fn kept(&self, names: &[String]) -> Result<Vec<Summary>, Refusal>;

    /// The agent was told that these of its outbox failed.
    fn mark_told(&self, told: Untold);

    /// The answer that told of `turn` was written to a live connection of the agent. Reported in
    /// the background, as all receipts are.
    fn mark_handed(&self, loop_id: &LoopId, turn: Turn);

    /// The agent named `turn` in a later call.
    fn mark_seen(&self, loop_id: &LoopId, turn: Turn);

    /// Entries up to `through` were written to a live connection of the agent.
    fn mark_mail(&self, message: MessageId, through: u32, mark: wire::MailMark);

    /// The lead's agent was told of this item of an issue. `until` is dropped once the broker
    /// knows, or will not.
    fn mark_item(&self, issue: IssueId, number: u64, until: Box<dyn Send + Sync>);

    /// Resolves once what was marked of mail so far is at the broker, or will not get there soon:
    /// an agent that acts on what it just read is judged with that.
    async fn marks_settled(&self);

    /// `who`, the role's agent, said goodbye: a task that it was offered goes to the next at once.
    fn left(&self, who: &Instance);

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

impl dyn Actions {
    /// Asks something.
    pub async fn query<R: Rpc>(&self, request: R) -> Result<R::Response, Refusal> {
        self.command(request, None).await
    }

    /// Asks something that may be answered with what was last seen.
    pub async fn look_up<R: Rpc>(&self, request: R) -> Result<Seen<R::Response>, Refusal> {
        typed::<R>(self.call(AnyRequest::new(request), None).await?)
    }

    /// Has something done.
    pub async fn command<R: Rpc>(
        &self,
        request: R,
        key: Option<IdempotencyKey>,
    ) -> Result<R::Response, Refusal> {
        Ok(typed::<R>(self.call(AnyRequest::new(request), key).await?)?.what)
    }

    /// Ends the turn.
    pub async fn hand_over(&self, handover: HandOver) -> Result<wire::HandOverResponse, Refusal> {
        let (request, key) = handover.into_request();
        self.command(request, key).await
    }

    /// One loop.
    pub async fn loop_status(
        &self,
        loop_id: &LoopId,
    ) -> Result<Seen<wire::GetLoopResponse>, Refusal> {
        let r#loop = loop_id.to_string();
        self.look_up(wire::GetLoopRequest { r#loop, ..Default::default() }).await
    }
}

fn typed<R: Rpc>(Seen { what, ago }: Seen<AnyResponse>) -> Result<Seen<R::Response>, Refusal> {
    let what = what.downcast::<R::Response>().map_err(|_| Refusal {
        reason: Reason::OutcomeUnknown,
        message: "The answer belongs to another call. Look how it stands before you go on."
            .to_owned(),
    })?;
    Ok(Seen { what: *what, ago })
}

/// Keeps a role present until dropped.
pub struct Connected(#[expect(dead_code, reason = "kept for its drop")] Box<dyn Send + Sync>);

impl Connected {
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connected").finish_non_exhaustive()
    }
}
