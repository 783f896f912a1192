//! The one hash: 16 bytes of BLAKE3, for chains, bodies and content.

use std::fmt;

use bytes::Bytes;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::canonical::{Canonical, write_item};

/// 16 bytes of BLAKE3.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Encode,
    Decode,
    Serialize,
    Deserialize,
)]
#[cbor(transparent)]
pub struct Hash(
    #[cbor(n(0), with = "minicbor::bytes")]
    #[serde(with = "tasuki_proto::json::digits")]
    pub [u8; 16],
);

impl Hash {
    pub fn of(bytes: &[u8]) -> Self {
        Self::cut(blake3::hash(bytes))
    }

    /// Of a value as it is written, whatever it is called in this release.
    pub fn of_value(value: &impl Canonical) -> Self {
        let mut bytes = Vec::new();
        value.write(&mut bytes);
        Self::of(&bytes)
    }

    /// Of several values; where one ends and the next begins is part of what is hashed.
    pub fn of_values(values: &[&dyn Canonical]) -> Self {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| write_item(&mut bytes, *value));
        Self::of(&bytes)
    }

    /// Of several fields; where one ends and the next begins is part of what is hashed.
    pub fn of_fields<F: AsRef<[u8]>>(fields: impl IntoIterator<Item = F>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for field in fields {
            let field = field.as_ref();
            hasher.update(&(field.len() as u64).to_be_bytes());
            hasher.update(field);
        }
        Self::cut(hasher.finalize())
    }

    pub fn to_bytes(self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    fn cut(hash: blake3::Hash) -> Self {
        let mut cut = [0; 16];
        cut.copy_from_slice(&hash.as_bytes()[..16]);
        Self(cut)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
