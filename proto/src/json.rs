//! Messages of the API as JSON, for programs that read what commands and exports write.
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
