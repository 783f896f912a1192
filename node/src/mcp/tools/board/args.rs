//! Arguments of the board tools: values of any form, also where a client passes them as text.

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value};
use tasuki_proto::wire;

use super::super::field_types::schema;

/// Channel names with what is written to them: an object, or the same as JSON in a text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Updates(Map<String, Value>);

schema!(Updates => { "type": "object" });

impl<'de> Deserialize<'de> for Updates {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        const EXPECTED: &str = "an object of channel names and values";
        let value = match Value::deserialize(from)? {
            Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            value => value,
        };
        match value {
            Value::Object(updates) => Ok(Self(updates)),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Err(D::Error::custom(format_args!("expected {EXPECTED}"))),
        }
    }
}

impl Updates {
    pub(super) fn to_wire(&self) -> Vec<wire::ChannelUpdate> {
        let updates = self.0.iter().map(|(channel, value)| wire::ChannelUpdate {
            channel: channel.clone(),
            value_json: value.to_string(),
        });
        updates.collect()
    }
}

/// A schema by name, or as JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SchemaText(pub String);

schema!(SchemaText => { "anyOf": [{ "type": "string" }, { "type": "object" }] });

impl<'de> Deserialize<'de> for SchemaText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Value::deserialize(from)? {
            Value::String(text) => Ok(Self(text.trim().to_owned())),
            value @ Value::Object(_) => Ok(Self(value.to_string())),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                Err(D::Error::custom("expected the name of a schema, or a JSON Schema"))
            }
        }
    }
}
