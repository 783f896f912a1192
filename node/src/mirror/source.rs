//! Where mail comes from and goes to: the seam between the mirror and the link to the broker.

use std::collections::BTreeSet;

use async_trait::async_trait;
use tasuki_proto::{id::RoleId, mail::MessageId, wire};

use crate::{link::Sent, private::finding::Mail, refusal::Refusal};

/// What the mirror asks besides mail. Nothing of it counts as a sign of an agent's life, or as told
/// to it.
#[async_trait]
pub trait Source: Mail + std::fmt::Debug + 'static {
    /// Resolves while the broker can be asked.
    async fn ready(&self);

    fn is_ready(&self) -> bool;

    /// The roles that the workspace knows.
    async fn roles(&self) -> Result<BTreeSet<String>, Refusal>;

    /// The role has seen a thread through this entry: whoever answers had it in the file. Resolves
    /// once that is told, or will not be soon.
    async fn saw(&self, role: &RoleId, id: MessageId, through: u32);

    /// Carried through even when whoever asked goes away. One that waits already, by the thread it
    /// begins or the name it has, waits once.
    async fn send(&self, role: &RoleId, letter: wire::SendRequest) -> Result<Sent, Refusal>;
}
