//! What names the mail commands of each role.
//!
//! Mail may have to wait for the broker in the node's outbox, for longer than any other command
//! is tried: under one client with everything else its keys would fall out of the broker's window
//! or hold everybody up. So the mail of each role has a client of its own.
//!
//! **L7** Of one such client less than [`KEY_WINDOW`](tasuki_proto::limits::KEY_WINDOW) keys are
//! without an answer, all of them the newest: a role has few calls under way, nothing newer is
//! sent past what waits in the outbox, and that goes out one by one, in order. The counters are
//! not kept: another process is another client.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tasuki_proto::{
    id::{ClientId, IdempotencyKey, RoleId, WorkspaceId},
    mail::MessageId,
    reason::Reason,
};

use crate::refusal::Refusal;

#[derive(Debug, Clone, Default)]
pub(in crate::link) struct MailKeys(Arc<Mutex<BTreeMap<RoleId, (ClientId, u64)>>>);

/// What the names of such clients begin with.
const PREFIX: &str = "mail-";

impl MailKeys {
    /// A key that was never used.
    pub(in crate::link) fn next(&self, role: &RoleId) -> Result<IdempotencyKey, Refusal> {
        let mut clients = self.0.lock();
        if !clients.contains_key(role) {
            clients.insert(role.clone(), (new_client()?, 0));
        }
        let (client, counter) = clients.get_mut(role).expect("put there if it was not");
        *counter += 1;
        Ok(IdempotencyKey { client: client.clone(), counter: *counter })
    }
}

/// A key of a client that has no other: whatever goes out before or after, it does not expire.
pub(in crate::link) fn alone() -> Result<IdempotencyKey, Refusal> {
    Ok(IdempotencyKey { client: new_client()?, counter: 1 })
}

/// Whether a role's client has this key, and not an agent's or a program's that counts by itself.
pub(in crate::link) fn is_ours(key: &IdempotencyKey) -> bool {
    key.client.as_str().starts_with(PREFIX)
}

fn new_client() -> Result<ClientId, Refusal> {
    let chance = getrandom::u64().map_err(|error| Refusal {
        reason: Reason::Unavailable,
        message: format!("This node cannot name a new command: {error}. Nothing was sent."),
    })?;
    Ok(format!("{PREFIX}{chance:016x}").parse().expect("a client's name is an id"))
}

/// The thread that the command of this key begins: however often it is sent, the same one.
pub(in crate::link) fn begun_by(key: &IdempotencyKey) -> MessageId {
    let mut hasher = blake3::Hasher::new_derive_key("tasuki 2026 thread begun by a command");
    hasher.update(key.client.as_str().as_bytes());
    hasher.update(&[0]);
    hasher.update(&key.counter.to_be_bytes());
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    MessageId::from_bits(uuid::Builder::from_custom_bytes(bytes).into_uuid().as_u128())
}

/// The thread that a letter begins to which its sender gave a name. It is the same when the letter
/// is said again by an agent whose node was killed meanwhile and has other keys. `node` is a client
/// whose name nobody else learns, so that nobody can begin that thread before.
pub(in crate::link) fn begun_under(
    node: &ClientId,
    workspace: &WorkspaceId,
    role: &RoleId,
    name: &str,
) -> MessageId {
    let mut hasher = blake3::Hasher::new_derive_key("tasuki 2026 thread begun under a name");
    for field in [node.as_str(), workspace.as_str(), role.as_str(), name] {
        hasher.update(&(field.len() as u64).to_be_bytes());
        hasher.update(field.as_bytes());
    }
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    MessageId::from_bits(uuid::Builder::from_custom_bytes(bytes).into_uuid().as_u128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_clients_of_their_own_that_count_without_gaps() {
        let keys = MailKeys::default();
        let next = |role: &str| keys.next(&role.parse().expect("an id")).expect("random bytes");
        let (first, second, other) = (next("A"), next("A"), next("B"));
        assert_eq!((first.counter, second.counter, other.counter), (1, 2, 1));
        assert!(first.client == second.client && first.client != other.client);
    }

    #[test]
    fn a_command_begins_the_same_thread_however_often_it_is_sent() {
        let key = |client: &str, counter| IdempotencyKey {
            client: client.parse().expect("an id"),
            counter,
        };
        let id = begun_by(&key("mail-0", 1));
        assert_eq!(id, begun_by(&key("mail-0", 1)));
        assert_eq!(id.to_string(), "900194cc-ed30-8d73-ac9a-0bdbeb1d5b8c");
        for other in [key("mail-0", 2), key("mail-00", 1)] {
            assert_ne!(id, begun_by(&other));
        }
    }
}
