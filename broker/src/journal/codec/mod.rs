//! Records, snapshots and bodies to bytes and back. The bytes are for ever.
//!
//! They are the rules' own types in CBOR, as each is declared: by the numbers of its fields and
//! kinds. A number is never given another meaning, and a new field is optional and comes last.
//! Decoding believes nothing: whatever is missing, unknown or not valid is an error.

mod bodies;
mod record;
mod snapshot;

use minicbor::{Decode, Decoder, Encode, encode::Write};

pub use self::{
    bodies::{
        MAIL_KEYS, MailText, board_key, board_result_key, decode_board_result, decode_board_value,
        decode_body, decode_entry, decode_mail, decode_run_words, decode_words, encode_body,
        entry_key, file_key, mail_key, mail_text_key, run_key, swarm_key, text_owner, with_text,
    },
    record::{decode_record, encode_record},
    snapshot::{decode_snapshot, encode_snapshot},
};

/// The format this release writes and the newest it reads.
pub const FORMAT: u32 = 2;

/// Why bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error("not a {what}: {why}")]
    Malformed { what: &'static str, why: String },
    #[error("{0} holds a field or a kind that this release does not know")]
    Unknown(&'static str),
    #[error("{what} is that of {found}")]
    Misplaced { what: &'static str, found: String },
    #[error("{0} does not fit the rest of the snapshot")]
    Unsound(&'static str),
    #[error("written for format {0}; this release reads {FORMAT}")]
    Newer(u32),
}

fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_to(value, &mut bytes);
    bytes
}

fn encode_to<T: Encode<()>>(value: &T, bytes: &mut Vec<u8>) {
    minicbor::encode(value, bytes).expect("a vector grows");
}

/// A value from all of these bytes.
fn decode<T: Encode<()> + for<'b> Decode<'b, ()>>(
    what: &'static str,
    mut bytes: &[u8],
) -> Result<T, CodecError> {
    let value = take(what, &mut bytes)?;
    if bytes.is_empty() { Ok(value) } else { Err(CodecError::Unknown(what)) }
}

/// Takes a value from the front of the bytes.
///
/// Derived decoders pass over fields that they do not know, and take an optional field of a kind
/// that they do not know for none. So what was read has to be written as the same bytes again.
fn take<T: Encode<()> + for<'b> Decode<'b, ()>>(
    what: &'static str,
    bytes: &mut &[u8],
) -> Result<T, CodecError> {
    let mut decoder = Decoder::new(bytes);
    let malformed = |why: minicbor::decode::Error| {
        if why.is_unknown_variant() {
            return CodecError::Unknown(what);
        }
        CodecError::Malformed { what, why: why.to_string() }
    };
    let value: T = decoder.decode().map_err(malformed)?;
    let (own, rest) = bytes.split_at(decoder.position());
    let mut left = Expected(own);
    if minicbor::encode(&value, &mut left).is_err() || !left.0.is_empty() {
        return Err(CodecError::Unknown(what));
    }
    *bytes = rest;
    Ok(value)
}

/// Refuses a value that was written by a release whose format is not read here.
fn check_readable(what: &'static str, bytes: &[u8]) -> Result<(), CodecError> {
    let mut decoder = Decoder::new(bytes);
    let min_reader = decoder.array().and_then(|_| decoder.u32());
    match min_reader {
        Ok(min_reader) if FORMAT < min_reader => Err(CodecError::Newer(min_reader)),
        Ok(_) => Ok(()),
        Err(why) => Err(CodecError::Malformed { what, why: why.to_string() }),
    }
}

/// Takes nothing but these bytes.
struct Expected<'a>(&'a [u8]);

/// Something else was written.
#[derive(Debug)]
struct Differs;

impl Write for Expected<'_> {
    type Error = Differs;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Differs> {
        self.0 = self.0.strip_prefix(bytes).ok_or(Differs)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
