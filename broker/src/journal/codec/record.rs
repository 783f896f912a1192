//! One command's record.

use std::borrow::Cow;

use bytes::Bytes;
use minicbor::{Decode, Encode};

use super::{CodecError, FORMAT, check_readable, decode, encode};
use crate::rules::Record;

#[derive(Encode, Decode)]
struct Stored<'a> {
    #[n(0)]
    min_reader: u32,
    /// Of the database it was written for.
    #[cbor(n(1), with = "minicbor::bytes")]
    incarnation: [u8; 16],
    #[n(2)]
    record: Cow<'a, Record>,
}

/// The bytes of a record in the database with this incarnation.
pub fn encode_record(record: &Record, incarnation: &[u8; 16]) -> Bytes {
    let record = Cow::Borrowed(record);
    encode(&Stored { min_reader: FORMAT, incarnation: *incarnation, record }).into()
}

/// A record from its bytes.
///
/// # Errors
/// Names what is missing, unknown or not valid.
pub fn decode_record(bytes: Bytes) -> Result<Record, CodecError> {
    check_readable("record", &bytes)?;
    let stored: Stored<'_> = decode("record", &bytes)?;
    Ok(stored.record.into_owned())
}
