//! A node's key, and how people compare one.

use std::{collections::BTreeSet, fmt, str::FromStr};

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::{Unproven, octets::Writer};
use crate::{
    id::{NodeId, RoleId, WorkspaceId},
    limits::ROLES_MAX,
    wire,
};

pub const SIGN_KEY_BYTES: usize = 32;
pub const SEAL_KEY_BYTES: usize = 32;
pub const SIGNATURE_BYTES: usize = 64;

/// What a node's proof is for, before what it says (Y1).
const PROOF: &[u8] = b"tasuki node key v1\0";

/// Names a key, and is what people compare: 16 bytes of BLAKE3 of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 16]);

impl KeyId {
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub(super) fn of(kind: &[u8], keys: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(kind);
        for key in keys {
            hasher.update(key);
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(id)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, pair) in self.0.chunks(2).enumerate() {
            let dash = if i == 0 { "" } else { "-" };
            write!(f, "{dash}{:02x}{:02x}", pair[0], pair[1])?;
        }
        Ok(())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no fingerprint of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is {0:?}; a fingerprint has 32 hexadecimal digits, with or without dashes")]
pub struct InvalidKeyId(String);

impl FromStr for KeyId {
    type Err = InvalidKeyId;

    fn from_str(text: &str) -> Result<Self, InvalidKeyId> {
        let no = || InvalidKeyId(text.chars().take(60).collect());
        let digits: String = text.chars().filter(|c| !matches!(c, '-' | ' ' | ':')).collect();
        if digits.len() != 32 || !digits.bytes().all(|it| it.is_ascii_hexdigit()) {
            return Err(no());
        }
        u128::from_str_radix(&digits, 16).map(|it| Self(it.to_be_bytes())).map_err(|_| no())
    }
}

/// A node's public keys and the roles it wants to have, on its own word.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct NodeKey {
    #[n(0)]
    pub node: NodeId,
    #[n(1)]
    pub roles: Vec<RoleId>,
    #[cbor(n(2), with = "minicbor::bytes")]
    #[serde(with = "crate::json::digits")]
    pub sign: [u8; SIGN_KEY_BYTES],
    #[cbor(n(3), with = "minicbor::bytes")]
    #[serde(with = "crate::json::digits")]
    pub seal: [u8; SEAL_KEY_BYTES],
    #[cbor(n(4), with = "minicbor::bytes")]
    #[serde(with = "crate::json::digits")]
    pub proof: [u8; SIGNATURE_BYTES],
}

impl NodeKey {
    pub fn id(&self) -> KeyId {
        key_id(&self.sign, &self.seal)
    }

    /// Signed with `secret`, which is the private half of what it signs with.
    pub fn proven(
        workspace: &WorkspaceId,
        node: NodeId,
        roles: Vec<RoleId>,
        secret: &SigningKey,
        seal: [u8; SEAL_KEY_BYTES],
    ) -> Self {
        let sign = secret.verifying_key().to_bytes();
        let mut key = Self { node, roles, sign, seal, proof: [0; SIGNATURE_BYTES] };
        key.proof = secret.sign(&key.said(workspace)).to_bytes();
        key
    }

    /// What its proof is over.
    fn said(&self, workspace: &WorkspaceId) -> Vec<u8> {
        let mut said = Writer::default();
        said.bytes(PROOF).name(workspace.as_str()).name(self.node.as_str());
        said.bytes(&self.sign).bytes(&self.seal);
        for role in &self.roles {
            said.name(role.as_str());
        }
        said.finish()
    }

    /// As a node sent it, if its proof holds.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn of_wire(workspace: &WorkspaceId, it: &wire::NodeKey) -> Result<Self, Unproven> {
        if ROLES_MAX < it.roles.len() {
            return Err(Unproven::Crowded);
        }
        let roles: Vec<RoleId> = it
            .roles
            .iter()
            .map(|role| role.parse().map_err(|_| Unproven::Key("roles")))
            .collect::<Result<_, _>>()?;
        if roles.iter().collect::<BTreeSet<_>>().len() < roles.len() {
            return Err(Unproven::Crowded);
        }
        let key = Self {
            node: it.node.parse().map_err(|_| Unproven::Key("node"))?,
            roles,
            sign: sized("sign_key", &it.sign_key)?,
            seal: sized("seal_key", &it.seal_key)?,
            proof: sized("proof", &it.proof)?,
        };
        verify(&key.sign, &key.said(workspace), &key.proof)?;
        Ok(key)
    }

    pub fn to_wire(&self, published_ms: u64) -> wire::NodeKey {
        wire::NodeKey {
            node: self.node.to_string(),
            roles: self.roles.iter().map(ToString::to_string).collect(),
            sign_key: self.sign.to_vec(),
            seal_key: self.seal.to_vec(),
            proof: self.proof.to_vec(),
            published_ms,
        }
    }
}

/// The name of a node's pair of keys.
pub(super) fn key_id(sign: &[u8; SIGN_KEY_BYTES], seal: &[u8; SEAL_KEY_BYTES]) -> KeyId {
    KeyId::of(b"tasuki node key v1\0", &[sign, seal])
}

pub(super) fn sized<const N: usize>(
    field: &'static str,
    bytes: &[u8],
) -> Result<[u8; N], Unproven> {
    bytes.try_into().map_err(|_| Unproven::Length(field))
}

/// Whether the holder of `key` signed `said`. Weak keys, which sign anything, sign nothing here.
pub(super) fn verify(
    key: &[u8; SIGN_KEY_BYTES],
    said: &[u8],
    signature: &[u8; SIGNATURE_BYTES],
) -> Result<(), Unproven> {
    let key = VerifyingKey::from_bytes(key).map_err(|_| Unproven::Key("a signer's key"))?;
    let signature = Signature::from_bytes(signature);
    key.verify_strict(said, &signature).map_err(|_| Unproven::Signature)
}
