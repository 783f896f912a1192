//! Small JSON files of which a flipped bit is noticed: one field more says what the others hash to.
//!
//! A bit that flips in a name, a number or a secret leaves JSON that parses. A file without the
//! field is taken as it is: an earlier release wrote it, or a person took the field out to edit it.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// The field.
const FIELD: &str = "check";

/// What it holds, in hexadecimal digits.
const CHECK_CHARS: usize = 32;

/// Why bytes are not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The parser's own words could quote a secret.
    #[error("it is not its JSON")]
    Json,
    #[error("its checksum does not match; if you edited it, take \"{FIELD}\" out")]
    Checksum,
}

/// The bytes of a file that holds `value`, which is an object.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn to_vec<T: Serialize>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut value = serde_json::to_value(value)?;
    let check = check(&value)?;
    if let Value::Object(fields) = &mut value {
        fields.insert(FIELD.to_owned(), check.into());
    }
    let mut bytes = serde_json::to_vec_pretty(&value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// What a file holds.
///
/// # Errors
/// [`Damage`] says what is wrong with it.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Damage> {
    let mut value: Value = serde_json::from_slice(bytes).map_err(|_| Damage::Json)?;
    let noted = value.as_object_mut().and_then(|fields| fields.remove(FIELD));
    if let Some(noted) = noted
        && noted.as_str() != Some(&check(&value).map_err(|_| Damage::Json)?)
    {
        return Err(Damage::Checksum);
    }
    serde_json::from_value(value).map_err(|_| Damage::Json)
}

/// Of everything but the field itself, however it is laid out.
fn check(value: &Value) -> serde_json::Result<String> {
    let hash = blake3::hash(&serde_json::to_vec(value)?);
    Ok(hash.to_hex()[..CHECK_CHARS].to_owned())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Kept {
        name: String,
        count: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pin: Option<String>,
    }

    #[test]
    fn whatever_bit_flips_the_same_is_read_or_nothing() {
        let kept = Kept { name: "A".to_owned(), count: 4711, pin: Some("AB:CD".to_owned()) };
        let bytes = to_vec(&kept).unwrap();
        assert_eq!(from_slice::<Kept>(&bytes).unwrap(), kept);
        let mut refused = 0;
        for bit in 0..bytes.len() * 8 {
            let mut spoilt = bytes.clone();
            spoilt[bit / 8] ^= 1 << (bit % 8);
            match from_slice::<Kept>(&spoilt) {
                Ok(read) => assert_eq!(read, kept, "{}", String::from_utf8_lossy(&spoilt)),
                Err(_) => refused += 1,
            }
        }
        assert!(bytes.len() * 4 < refused, "{refused}");
    }

    #[test]
    fn a_file_without_the_field_is_read_and_one_that_was_edited_says_how() {
        let kept = Kept { name: "A".to_owned(), count: 1, pin: None };
        assert_eq!(from_slice::<Kept>(br#"{"name":"A","count":1}"#).unwrap(), kept);
        let edited = String::from_utf8(to_vec(&kept).unwrap()).unwrap().replace("\"A\"", "\"B\"");
        let why = from_slice::<Kept>(edited.as_bytes()).unwrap_err();
        assert_eq!(
            why.to_string(),
            "its checksum does not match; if you edited it, take \"check\" out"
        );
    }
}
