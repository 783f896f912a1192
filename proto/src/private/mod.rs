//! Private mail: keys of nodes, and the roster that says which of them count.
//!
//! A workspace's **owner** is a key (Ed25519), not a machine: whoever holds its private half. It
//! signs the **roster**: whether mail is private, and which keys may read and write as which
//! roles. A node trusts an owner's key that its user compared or that it made itself, and from
//! then on believes no roster that this key did not sign, or that is older than one it saw.
//!
//! - **Y1** What is signed says what for: no signature of one kind passes as another's.
//! - **Y2** A roster has one way to be written; what was read is written again as the same bytes.
//!
//! Not here: secret keys, and what is sealed with them. Those are the nodes' own.

mod key;
pub mod octets;
mod roster;
#[cfg(test)]
mod tests;

pub use self::{
    key::{InvalidKeyId, KeyId, NodeKey, SEAL_KEY_BYTES, SIGN_KEY_BYTES, SIGNATURE_BYTES},
    roster::{OwnerKey, Plays, Roster, SignedRoster, Vouched},
};

/// Why a key or a roster does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    #[error(transparent)]
    Malformed(#[from] octets::Malformed),
    #[error("{0} has the wrong length")]
    Length(&'static str),
    #[error("{0} is no key")]
    Key(&'static str),
    #[error("its signature is not by the key it names")]
    Signature,
    #[error("it has more keys or roles than may be, or one of them twice")]
    Crowded,
}
