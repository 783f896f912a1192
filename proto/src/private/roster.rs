//! Which keys count in a workspace, on the owner's word.

use std::collections::BTreeSet;

use bytes::Bytes;
use ed25519_dalek::{Signer as _, SigningKey};
use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{
    KeyId, SEAL_KEY_BYTES, SIGN_KEY_BYTES, SIGNATURE_BYTES, Unproven,
    key::{key_id, sized, verify},
    octets::{Reader, Writer},
};
use crate::{
    id::{NodeId, RoleId, WorkspaceId},
    limits::{ROLES_MAX, ROSTER_BYTES_MAX, ROSTER_KEYS_MAX},
    wire,
};

/// What an owner's signature is for, before what it says (Y1).
const SIGNED: &[u8] = b"tasuki roster v1\0";

/// Of the bytes below.
const VERSION: u8 = 1;

/// The public half of an owner's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerKey(pub [u8; SIGN_KEY_BYTES]);

impl OwnerKey {
    pub fn id(&self) -> KeyId {
        KeyId::of(b"tasuki owner key v1\0", &[&self.0])
    }
}

/// One key that the owner vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vouched {
    pub node: NodeId,
    pub sign: [u8; SIGN_KEY_BYTES],
    pub seal: [u8; SEAL_KEY_BYTES],
    /// From when on nothing is sealed for it and nothing newer by it counts, in milliseconds
    /// since 1970 by the broker's clock; 0: it is in use.
    pub retired_ms: u64,
    /// Each role once.
    pub roles: Vec<Plays>,
}

/// A role that a key has or had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plays {
    pub role: RoleId,
    /// Otherwise what it wrote as this role stays good, and nothing is sealed for it as such.
    pub is_now: bool,
}

impl Vouched {
    pub fn id(&self) -> KeyId {
        key_id(&self.sign, &self.seal)
    }

    pub const fn is_in_use(&self) -> bool {
        self.retired_ms == 0
    }

    pub fn plays(&self, role: &RoleId) -> bool {
        self.is_in_use() && self.roles.iter().any(|it| it.is_now && it.role == *role)
    }

    pub fn ever_played(&self, role: &RoleId) -> bool {
        self.roles.iter().any(|it| it.role == *role)
    }
}

/// Which keys count in a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    pub workspace: WorkspaceId,
    pub owner: OwnerKey,
    /// From 1; the higher one counts.
    pub number: u64,
    /// Whether mail is private.
    pub is_on: bool,
    pub keys: Vec<Vouched>,
}

impl Roster {
    pub fn key(&self, id: &KeyId) -> Option<&Vouched> {
        self.keys.iter().find(|it| it.id() == *id)
    }

    /// Keys that what is for `role` is sealed for.
    pub fn of_role<'a>(&'a self, role: &'a RoleId) -> impl Iterator<Item = &'a Vouched> {
        self.keys.iter().filter(move |it| it.plays(role))
    }

    /// The one way to write it (Y2).
    ///
    /// # Panics
    /// When it has more keys or roles than may be.
    pub fn encode(&self) -> Vec<u8> {
        let count = |many: usize| u16::try_from(many).expect("a roster is bounded");
        let mut out = Writer::default();
        out.u8(VERSION).name(self.workspace.as_str()).bytes(&self.owner.0);
        out.u64(self.number).u8(self.is_on.into()).u16(count(self.keys.len()));
        for key in &self.keys {
            out.name(key.node.as_str()).bytes(&key.sign).bytes(&key.seal).u64(key.retired_ms);
            out.u16(count(key.roles.len()));
            for plays in &key.roles {
                out.name(plays.role.as_str()).u8(plays.is_now.into());
            }
        }
        out.finish()
    }

    /// # Errors
    /// When it was written in any other way, or is over its limits.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unproven> {
        if ROSTER_BYTES_MAX < bytes.len() {
            return Err(Unproven::Crowded);
        }
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let mut roster = Self {
            workspace: from.name("workspace")?,
            owner: OwnerKey(from.array("owner")?),
            number: from.u64("number")?,
            is_on: from.flag("is_on")?,
            keys: Vec::new(),
        };
        let keys: usize = from.u16("keys")?.into();
        if ROSTER_KEYS_MAX < keys {
            return Err(Unproven::Crowded);
        }
        let mut ids = BTreeSet::new();
        for _ in 0..keys {
            let key = decode_key(&mut from)?;
            if !ids.insert(key.id()) {
                return Err(Unproven::Crowded);
            }
            roster.keys.push(key);
        }
        from.end()?;
        Ok(roster)
    }

    /// With the owner's signature.
    ///
    /// # Errors
    /// When it is over its limits.
    pub fn signed(self, owner: &SigningKey) -> Result<SignedRoster, Unproven> {
        let bytes = self.encode();
        Self::decode(&bytes)?;
        let signature = owner.sign(&said(&bytes)).to_bytes();
        SignedRoster::proven(self, signature)
    }
}

fn decode_key(from: &mut Reader<'_>) -> Result<Vouched, Unproven> {
    let mut key = Vouched {
        node: from.name("node")?,
        sign: from.array("sign key")?,
        seal: from.array("seal key")?,
        retired_ms: from.u64("retired")?,
        roles: Vec::new(),
    };
    let roles: usize = from.u16("roles")?.into();
    // As it may have had others before.
    if 2 * ROLES_MAX < roles {
        return Err(Unproven::Crowded);
    }
    let mut played = BTreeSet::new();
    for _ in 0..roles {
        let plays = Plays { role: from.name("role")?, is_now: from.flag("plays")? };
        if !played.insert(plays.role.clone()) {
            return Err(Unproven::Crowded);
        }
        key.roles.push(plays);
    }
    Ok(key)
}

fn said(bytes: &[u8]) -> Vec<u8> {
    [SIGNED, bytes].concat()
}

/// A roster with a signature that holds: by the key that it names as its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedRoster {
    roster: Roster,
    signature: [u8; SIGNATURE_BYTES],
}

impl SignedRoster {
    fn proven(roster: Roster, signature: [u8; SIGNATURE_BYTES]) -> Result<Self, Unproven> {
        verify(&roster.owner.0, &said(&roster.encode()), &signature)?;
        Ok(Self { roster, signature })
    }

    /// From bytes that somebody sent.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn of_bytes(roster: &[u8], signature: &[u8]) -> Result<Self, Unproven> {
        let signature = sized("signature", signature)?;
        let parsed = Roster::decode(roster)?;
        let is_same = parsed.encode() == roster;
        assert!(is_same, "Y2: {parsed:?} was written in another way");
        Self::proven(parsed, signature)
    }

    /// # Errors
    /// Says what is wrong with it.
    pub fn of_wire(it: &wire::SignedRoster) -> Result<Self, Unproven> {
        Self::of_bytes(&it.roster, &it.signature)
    }

    pub fn to_wire(&self) -> wire::SignedRoster {
        wire::SignedRoster { roster: self.roster.encode(), signature: self.signature.to_vec() }
    }

    pub const fn roster(&self) -> &Roster {
        &self.roster
    }

    pub const fn signature(&self) -> &[u8; SIGNATURE_BYTES] {
        &self.signature
    }
}

/// Written as it was signed.
impl<C> Encode<C> for SignedRoster {
    fn encode<W: encode::Write>(
        &self,
        to: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        to.array(2)?.bytes(&self.roster.encode())?.bytes(&self.signature)?.ok()
    }
}

impl Serialize for SignedRoster {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Exported { roster: self.roster.encode().into(), signature: self.signature }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for SignedRoster {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Exported { roster, signature } = Exported::deserialize(from)?;
        Self::of_bytes(&roster, &signature).map_err(D::Error::custom)
    }
}

#[derive(Serialize, Deserialize)]
struct Exported {
    #[serde(with = "crate::json::octets")]
    roster: Bytes,
    #[serde(with = "crate::json::digits")]
    signature: [u8; SIGNATURE_BYTES],
}

impl<'b, C> Decode<'b, C> for SignedRoster {
    fn decode(from: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        from.array()?;
        let (roster, signature) = (from.bytes()?, from.bytes()?);
        Self::of_bytes(roster, signature).map_err(decode::Error::custom)
    }
}
