//! Arguments of the board tools that are passed on as they came: what models write is read
//! leniently elsewhere, but a value of a board is a value of any form.

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::Value;
use tasuki_proto::wire;

use super::super::{arguments::invalid, field_types::schema};
use crate::role::Refusal;

/// The name of a schema, or one as JSON: read with [`schema_text`].
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct SchemaText(
    #[expect(dead_code, reason = "what is not read counts as an argument that was ignored")] Value,
);

schema!(SchemaText => { "anyOf": [{ "type": "string" }, { "type": "object" }] });

/// What the argument `updates` writes to each channel of a board, as it came. Some models write an
/// object as a text.
pub(in crate::mcp::tools) fn channel_updates(
    all: &JsonObject,
) -> Result<Vec<wire::ChannelUpdate>, Refusal> {
    let no_object = || invalid("updates", &"takes an object of channel names and values");
    let read;
    let updates = match all.get("updates") {
        Some(Value::Object(updates)) => updates,
        Some(Value::String(text)) => {
            read = serde_json::from_str(text).map_err(|_| no_object())?;
            &read
        }
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            return Err(no_object());
        }
    };
    let updates = updates.iter().map(|(channel, value)| wire::ChannelUpdate {
        channel: channel.clone(),
        value_json: value.to_string(),
    });
    Ok(updates.collect())
}

/// A schema by name, or as JSON; empty where none is named.
pub(super) fn schema_text(all: &JsonObject) -> Result<String, Refusal> {
    match all.get("schema") {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.trim().to_owned()),
        Some(schema @ Value::Object(_)) => Ok(schema.to_string()),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            Err(invalid("schema", &"takes the name of a schema, or a JSON Schema"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::super::tools, *};

    #[test]
    fn values_are_passed_on_as_they_came() {
        let read = |arguments: Value| {
            let Value::Object(arguments) = arguments else { panic!("{arguments}") };
            let updates = channel_updates(&arguments).unwrap_or_default();
            let updates = updates.iter().map(|it| format!("{}={}", it.channel, it.value_json));
            (updates.collect::<Vec<_>>().join(" "), schema_text(&arguments).unwrap_or_default())
        };
        let updates = json!({ "a": 0, "b": null, "c": " x ", "d": [1.5, {}] });
        let expected = "a=0 b=null c=\" x \" d=[1.5,{}]";
        assert_eq!(read(json!({ "updates": updates })), (expected.to_owned(), String::new()));
        let quoted = json!({ "updates": updates.to_string(), "schema": { "minimum": 0 } });
        assert_eq!(read(quoted), (expected.to_owned(), r#"{"minimum":0}"#.to_owned()));
        assert_eq!(read(json!({ "updates": 3, "schema": " any " })).1, "any");
    }

    #[test]
    fn a_schema_that_is_used_is_not_called_ignored() {
        let tool = tools().find(|it| it.name == "board_update").unwrap();
        for schema in [json!("any"), json!({ "properties": { "x": { "type": "string" } } })] {
            let arguments =
                json!({ "board": "b", "updates": { "x": 1 }, "schema": schema, "a": 1 });
            let unknown = tool.unknown_fields(arguments.as_object().unwrap());
            assert_eq!(unknown.into_iter().collect::<Vec<_>>(), ["a"], "{arguments}");
        }
    }
}
