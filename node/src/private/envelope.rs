//! One sealed entry: bytes that only nodes with the right key can read, and that none can change.
//!
//! ```text
//! version 1 · workspace · owner 16 · thread 16 · after u32 · sender · key 16 · type
//!   · receivers u8 × name · nonce 16                                               the address
//! wraps u16 × (key 16 · encapsulated 32 · wrapped 48)
//! length u32 · ciphertext
//! signature 64                                                          over all that is before
//! ```
//!
//! The address is bound to both ciphertexts as well, so that nobody without the words can put
//! another sender's name on them.

use std::collections::BTreeSet;

use chacha20poly1305::{
    ChaCha20Poly1305,
    aead::{Aead as _, KeyInit as _, Payload},
};
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};
use hpke::{Deserializable as _, OpModeR, OpModeS, Serializable as _};
use tasuki_proto::{
    id::{RoleId, WorkspaceId},
    limits::{RECEIVERS_MAX, ROSTER_KEYS_MAX, SEALED_BYTES_MAX},
    mail::{MessageId, MessageType},
    private::{
        KeyId, SEAL_KEY_BYTES, SIGN_KEY_BYTES, SIGNATURE_BYTES,
        octets::{Malformed, Reader, Writer},
    },
};

use super::{
    keys::{NodeKeys, SecretKey},
    store::{self, StoreError},
};

pub(super) type Kem = hpke::kem::X25519HkdfSha256;
type Kdf = hpke::kdf::HkdfSha256;
type Wrap = hpke::aead::ChaCha20Poly1305;

const VERSION: u8 = 1;

/// What a signature and a wrapped key are for (Y1).
const SIGNED: &[u8] = b"tasuki sealed entry v1\0";
const WRAPPED: &[u8] = b"tasuki sealed entry key v1\0";

const ENCAPSULATED_BYTES: usize = 32;

/// A key of 32 bytes and a tag of 16.
const WRAPPED_BYTES: usize = 48;

/// Shorter words are padded to this, in bytes: one line tells as little as the next.
const PADDED_BYTES_MIN: usize = 256;

/// Where an entry belongs, and who says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub workspace: WorkspaceId,
    pub owner: KeyId,
    pub thread: MessageId,
    /// How many entries the thread had when this was sealed: 0 begins it.
    pub after: u32,
    pub sender: RoleId,
    /// The sender's.
    pub key: KeyId,
    pub kind: MessageType,
    pub receivers: BTreeSet<RoleId>,
    /// No two entries have the same.
    pub nonce: [u8; 16],
}

/// What is to be kept from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Of a new thread; empty in answers.
    pub subject: String,
    pub text: String,
}

/// A key to seal for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipient {
    pub id: KeyId,
    pub seal: [u8; SEAL_KEY_BYTES],
}

/// Why an entry cannot be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("it is sealed for {0} keys; at most {ROSTER_KEYS_MAX}")]
    Crowded(usize),
    #[error("key {0} of the roster is none that can be sealed for")]
    Key(KeyId),
    #[error("sealed it has {0} bytes; at most {SEALED_BYTES_MAX}")]
    TooLarge(usize),
}

/// Seals words for all `recipients`, in the name of `secret`.
pub fn seal(
    address: &Address,
    words: &Words,
    recipients: &[Recipient],
    secret: &SecretKey,
) -> Result<Vec<u8>, SealError> {
    let count = u16::try_from(recipients.len()).ok();
    let count = count.filter(|it| usize::from(*it) <= ROSTER_KEYS_MAX);
    let count = count.ok_or(SealError::Crowded(recipients.len()))?;
    let head = address.encode();
    let content: [u8; 32] = store::chance()?;
    let payload = Payload { msg: &pad(words), aad: &head };
    // The key is used once, so its nonce may be the same each time.
    let sealed = ChaCha20Poly1305::new(&content.into()).encrypt(&[0; 12].into(), payload);
    let sealed = sealed.map_err(|_| SealError::TooLarge(words.text.len()))?;
    let mut out = Writer::default();
    out.bytes(&head).u16(count);
    for it in recipients {
        let no = |_| SealError::Key(it.id);
        let key = <Kem as hpke::Kem>::PublicKey::from_bytes(&it.seal).map_err(no)?;
        let mode = OpModeS::Base;
        let (encapsulated, wrapped) =
            hpke::single_shot_seal::<Wrap, Kdf, Kem>(&mode, &key, WRAPPED, &content, &head)
                .map_err(no)?;
        out.bytes(it.id.as_bytes()).bytes(&encapsulated.to_bytes()).bytes(&wrapped);
    }
    let length = u32::try_from(sealed.len()).map_err(|_| SealError::TooLarge(sealed.len()))?;
    let mut bytes = out.u32(length).bytes(&sealed).finish();
    let signature = secret.sign().sign(&[SIGNED, &bytes].concat());
    bytes.extend_from_slice(&signature.to_bytes());
    if SEALED_BYTES_MAX < bytes.len() {
        return Err(SealError::TooLarge(bytes.len()));
    }
    Ok(bytes)
}

/// Sealed bytes, taken apart; nothing of it is proven yet.
#[derive(Debug)]
pub struct Envelope<'a> {
    pub address: Address,
    head: &'a [u8],
    wraps: Vec<(KeyId, &'a [u8], &'a [u8])>,
    sealed: &'a [u8],
    signed: &'a [u8],
    signature: [u8; SIGNATURE_BYTES],
}

/// Why words of a proven entry are not to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// No key of this node's is among those it was sealed for.
    NotForUs,
    /// It was, and yet it does not open: its sender put something else in.
    Broken,
}

impl<'a> Envelope<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(bytes);
        let address = Address::decode(&mut from)?;
        let head = &bytes[..bytes.len() - from.rest().len()];
        let count: usize = from.u16("keys")?.into();
        if ROSTER_KEYS_MAX < count {
            return Err(Malformed::Field("keys"));
        }
        let mut wraps = Vec::with_capacity(count);
        for _ in 0..count {
            let id = KeyId::from_bytes(from.array("key")?);
            let encapsulated = from.bytes("key", ENCAPSULATED_BYTES)?;
            wraps.push((id, encapsulated, from.bytes("key", WRAPPED_BYTES)?));
        }
        let length = from.u32("length")?;
        let length = usize::try_from(length).map_err(|_| Malformed::Field("length"))?;
        let sealed = from.bytes("ciphertext", length)?;
        let signed = &bytes[..bytes.len() - from.rest().len()];
        let signature = from.array("signature")?;
        from.end()?;
        Ok(Self { address, head, wraps, sealed, signed, signature })
    }

    /// Whether the holder of `key` sealed exactly this.
    pub fn is_by(&self, key: &[u8; SIGN_KEY_BYTES]) -> bool {
        let Ok(key) = VerifyingKey::from_bytes(key) else { return false };
        let said = [SIGNED, self.signed].concat();
        key.verify_strict(&said, &Signature::from_bytes(&self.signature)).is_ok()
    }

    /// Its words, if it was sealed for one of `keys`.
    pub fn open(&self, keys: &NodeKeys) -> Result<Words, Closed> {
        let ours = self.wraps.iter().find_map(|(id, encapsulated, wrapped)| {
            keys.get(id).map(|key| (key, *encapsulated, *wrapped))
        });
        let (key, encapsulated, wrapped) = ours.ok_or(Closed::NotForUs)?;
        let open = || {
            let encapsulated = <Kem as hpke::Kem>::EncappedKey::from_bytes(encapsulated).ok()?;
            let content: [u8; 32] = hpke::single_shot_open::<Wrap, Kdf, Kem>(
                &OpModeR::Base,
                key.open(),
                &encapsulated,
                WRAPPED,
                wrapped,
                self.head,
            )
            .ok()?
            .try_into()
            .ok()?;
            let payload = Payload { msg: self.sealed, aad: self.head };
            let cipher = ChaCha20Poly1305::new(&content.into());
            unpad(&cipher.decrypt(&[0; 12].into(), payload).ok()?)
        };
        open().ok_or(Closed::Broken)
    }
}

impl Address {
    fn encode(&self) -> Vec<u8> {
        let receivers = u8::try_from(self.receivers.len()).expect("receivers are bounded");
        let mut out = Writer::default();
        out.u8(VERSION).name(self.workspace.as_str()).bytes(self.owner.as_bytes());
        out.bytes(&self.thread.bits().to_be_bytes()).u32(self.after);
        out.name(self.sender.as_str()).bytes(self.key.as_bytes()).name(self.kind.as_str());
        out.u8(receivers);
        for role in &self.receivers {
            out.name(role.as_str());
        }
        out.bytes(&self.nonce).finish()
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.version(VERSION)?;
        let mut address = Self {
            workspace: from.name("workspace")?,
            owner: KeyId::from_bytes(from.array("owner")?),
            thread: MessageId::from_bits(u128::from_be_bytes(from.array("thread")?)),
            after: from.u32("after")?,
            sender: from.name("sender")?,
            key: KeyId::from_bytes(from.array("key")?),
            kind: from.name("type")?,
            receivers: BTreeSet::new(),
            nonce: [0; 16],
        };
        let count: usize = from.u8("receivers")?.into();
        if RECEIVERS_MAX < count {
            return Err(Malformed::Field("receivers"));
        }
        for _ in 0..count {
            let role = from.name("receivers")?;
            // In order, each once: there is one way to write them.
            if address.receivers.last().is_some_and(|last| role <= *last) {
                return Err(Malformed::Field("receivers"));
            }
            address.receivers.insert(role);
        }
        address.nonce = from.array("nonce")?;
        Ok(address)
    }
}

/// Both texts with their lengths, then zeroes.
fn pad(words: &Words) -> Vec<u8> {
    let length = |text: &str| u32::try_from(text.len()).expect("texts are bounded");
    let mut out = Writer::default();
    out.u32(length(&words.subject)).bytes(words.subject.as_bytes());
    let mut padded = out.u32(length(&words.text)).bytes(words.text.as_bytes()).finish();
    padded.resize(padded_length(padded.len()), 0);
    padded
}

fn unpad(padded: &[u8]) -> Option<Words> {
    let mut from = Reader::new(padded);
    let mut text = || {
        let length = usize::try_from(from.u32("length").ok()?).ok()?;
        let bytes = from.bytes("text", length).ok()?;
        String::from_utf8(bytes.to_vec()).ok()
    };
    let words = Words { subject: text()?, text: text()? };
    let used = padded.len() - from.rest().len();
    let is_ours = padded.len() == padded_length(used) && from.rest().iter().all(|it| *it == 0);
    is_ours.then_some(words)
}

/// Up to the next length of which only the leading digits matter: at most 6 % more, and far fewer
/// lengths to tell words by. Of n bits all but about the first log2 n + 2 are zero.
fn padded_length(bytes: usize) -> usize {
    if bytes <= PADDED_BYTES_MIN {
        return PADDED_BYTES_MIN;
    }
    let exponent = bytes.ilog2();
    let kept = exponent.ilog2() + 1;
    let step = 1_usize << (exponent - kept);
    bytes.next_multiple_of(step)
}

#[cfg(test)]
mod tests;
