//! Messages of the API as JSON, for programs that read what commands and exports write; and the
//! forms of single values that are kept, for those that are exported to be read back.
//!
//! **Invariant:** every field is there, under its name in the `.proto` file. `build.rs` derives this,
//! so that nothing is forgotten. Enums are the names of their values in small letters (`null`:
//! unspecified), bytes are hexadecimal, and a oneof is a field that names what it holds, beside the
//! fields of that message.

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::wire;

/// The fields of a message, put among others where it is held by a oneof.
trait Fields {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

impl<T: Fields> Fields for Box<T> {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        (**self).fields(map)
    }
}

macro_rules! serialize_fields {
    ($message:ty) => {
        impl Serialize for $message {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                self.fields(&mut map)?;
                map.end()
            }
        }
    };
}

#[allow(clippy::all, clippy::restriction, reason = "generated")]
mod derived {
    use super::{Fields, Serialize, SerializeMap, Serializer, hex, wire};

    include!(concat!(env!("OUT_DIR"), "/json.rs"));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Written as it is displayed, and parsed when it is read.
macro_rules! as_displayed {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                let invalid = |why| format!("{} {why}", stringify!($name));
                text.parse().map_err(invalid).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use as_displayed;

/// Bytes that are no text, and always as many: in hexadecimal.
pub mod digits {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// # Errors
    /// Of the serializer.
    pub fn serialize<S: Serializer>(bytes: impl AsRef<[u8]>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::hex(bytes.as_ref()))
    }

    /// # Errors
    /// For what is not so many bytes.
    pub fn deserialize<'de, const N: usize, D: Deserializer<'de>>(
        from: D,
    ) -> Result<[u8; N], D::Error> {
        let text = String::deserialize(from)?;
        let invalid = || D::Error::custom(format!("{text:?} is not {N} bytes in hexadecimal"));
        if text.len() != 2 * N {
            return Err(invalid());
        }
        let mut bytes = [0; N];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let [high, low] = [digits[0], digits[1]].map(|it| char::from(it).to_digit(16));
            let value = high.zip(low).and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
            *byte = value.ok_or_else(invalid)?;
        }
        Ok(bytes)
    }
}

/// Bytes that are text as a rule: as that text, and others in base64 (`{"base64": "AAE="}`).
pub mod octets {
    use std::str;

    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer, de::Error};

    #[derive(serde::Serialize, Deserialize)]
    #[serde(untagged)]
    enum Octets<T> {
        Text(T),
        Other { base64: T },
    }

    /// # Errors
    /// Of the serializer.
    pub fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        match str::from_utf8(bytes) {
            Ok(text) => Octets::Text(text).serialize(to),
            Err(_) => {
                Octets::Other { base64: BASE64_STANDARD.encode(bytes).as_str() }.serialize(to)
            }
        }
    }

    /// # Errors
    /// For what is neither.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        match Octets::<String>::deserialize(from)? {
            Octets::Text(text) => Ok(text.into()),
            Octets::Other { base64 } => {
                BASE64_STANDARD.decode(base64).map(Bytes::from).map_err(D::Error::custom)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn a_message_is_its_fields_by_name() {
        let step = wire::NextStep { token: "t".to_owned(), difficulty: 3, ..Default::default() };
        let submission = wire::Submission {
            submission_id: "s".to_owned(),
            status: wire::SubmissionStatus::Superseded.into(),
            next_step: Some(step),
            ..Default::default()
        };
        let value = to_value(&submission).unwrap();
        assert_eq!(value["status"], json!("superseded"));
        assert_eq!(value["next_step"]["difficulty"], json!("focus"));
        assert_eq!(value["next_step"]["reserved_until_ms"], json!(0));
        assert_eq!(value["words"], json!(null));
        assert_eq!(to_value(wire::Issue::default()).unwrap()["status"], json!(null));
        let signed = wire::SignedRoster { roster: vec![0, 0xff], ..Default::default() };
        assert_eq!(to_value(&signed).unwrap()["roster"], json!("00ff"));
    }

    #[test]
    fn what_a_oneof_holds_is_named_beside_its_fields() {
        let opened = wire::MailboxOpened { role: "A".to_owned() };
        let kind = Some(wire::mail_event::Kind::MailboxOpened(opened));
        let event = wire::Event { noun: Some(wire::event::Noun::Mail(wire::MailEvent { kind })) };
        let expected = json!({"noun": "mail", "kind": "mailbox_opened", "role": "A"});
        assert_eq!(to_value(&event).unwrap(), expected);
        assert_eq!(to_value(wire::Event::default()).unwrap(), json!({"noun": null}));
    }
}
