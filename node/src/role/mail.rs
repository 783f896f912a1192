//! What an agent that plays a role can do with its mail: the seam between the MCP side and the
//! broker side.
//!
//! Requests are the broker's own; `caller`, `key` and `role` of them are filled in by whoever
//! carries them out.

use std::time::Duration;

use async_trait::async_trait;
use tasuki_proto::{
    id::{IdempotencyKey, RoleId},
    mail::{MessageId, MessageType},
    wire,
};

use super::{Refusal, Seen};
use crate::outbox::{Summary, Untold};

/// What became of mail handed in.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    /// Durable at the broker.
    Stored(wire::SendResponse),
    /// In this node's outbox, durable: the broker is out of reach and gets it when it is back.
    Queued {
        /// Of the thread it begins, or as the sender named the thread it answers.
        message: String,
        /// Its place in the outbox, from 1.
        number: u64,
    },
}

/// What became of threads to be moved.
#[derive(Debug, Clone, PartialEq)]
pub enum Moving {
    Moved(wire::MoveResponse),
    /// As with [`Sent::Queued`].
    Queued {
        number: u64,
    },
}

/// What to wait for.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MailFilter {
    pub kind: Option<MessageType>,
    pub sender: Option<RoleId>,
}

/// What a role can ask of its mailbox. While the broker is out of reach reads answer with what was
/// last seen, and say how long ago; sends, replies, and moves are kept in the node's outbox. There
/// their order stays: what is sent while something waits goes behind it.
#[async_trait]
pub trait Mail: std::fmt::Debug + Send + Sync + 'static {
    /// `key` names the intent each time its sender says it; `None`: it is said once.
    async fn send(
        &self,
        request: wire::SendRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Sent, Refusal>;

    async fn move_mail(
        &self,
        request: wire::MoveRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Moving, Refusal>;

    async fn list_box(
        &self,
        request: wire::ListBoxRequest,
    ) -> Result<Seen<wire::ListBoxResponse>, Refusal>;

    /// Only shows: whoever has it read out says so with [`Mail::mark_mail`].
    async fn read_thread(
        &self,
        request: wire::ReadThreadRequest,
    ) -> Result<Seen<wire::ReadThreadResponse>, Refusal>;

    /// Waits for unseen mail until `hold` is over. Dropping the future removes the wait; nothing is
    /// lost. A newer call with the same filter supersedes an older one; one with a `hold` of zero
    /// only looks, and supersedes nothing.
    async fn await_mail(
        &self,
        filter: &MailFilter,
        hold: Duration,
    ) -> Result<wire::MailAnswer, Refusal>;

    async fn search_mail(
        &self,
        request: wire::SearchMailRequest,
    ) -> Result<wire::SearchMailResponse, Refusal>;

    async fn mailboxes(&self) -> Result<Seen<wire::ListMailboxesResponse>, Refusal>;

    async fn open_mailbox(&self, role: &RoleId) -> Result<wire::OpenMailboxResponse, Refusal>;

    async fn close_mailbox(&self, role: &RoleId) -> Result<wire::CloseMailboxResponse, Refusal>;

    async fn dead_letters(&self) -> Result<wire::ListDeadLettersResponse, Refusal>;

    async fn hand_again(&self, message: &str) -> Result<wire::HandAgainResponse, Refusal>;

    /// Stores a file, to be attached.
    async fn put_attachment(
        &self,
        attachment: &wire::Attachment,
        content: bytes::Bytes,
    ) -> Result<(), Refusal>;

    /// The content of a file attached to a thread, checked against its hash.
    async fn get_attachment(
        &self,
        message: &str,
        attachment: &wire::Attachment,
    ) -> Result<bytes::Bytes, Refusal>;

    /// What waited in the node's outbox and was refused late, and the agent was not told: the
    /// oldest `max` of it.
    async fn untold(&self, max: usize) -> Result<Untold, Refusal>;

    /// What of this role is in the node's outbox about a thread, by any of its names.
    async fn kept(&self, names: &[String]) -> Result<Vec<Summary>, Refusal>;

    /// The agent was told that these of its outbox failed.
    fn mark_told(&self, told: Untold);

    /// Entries up to `through` were written to a live connection of the agent. Reported in the
    /// background.
    fn mark_mail(&self, message: MessageId, through: u32, mark: wire::MailMark);

    /// Resolves once what was marked so far is at the broker, or will not get there soon: an agent
    /// that acts on what it just read is judged with that.
    async fn marks_settled(&self);
}
