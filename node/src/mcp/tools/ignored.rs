//! Arguments that a tool does not have. It does nothing with them, and its answer says so: some
//! clients add arguments of their own, so they are no reason to refuse, but a model that is told
//! nothing believes that they did something.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use rmcp::model::{CallToolResponse, JsonObject};
use serde_json::Value;
use tasuki_proto::visible::is_visible;

use super::{result::remark, swarm, tools};

const FIELD: &str = "ignored_arguments";

/// How many there are beyond those that are named.
const MORE: &str = "ignored_arguments_more";

/// Names that one answer shows: enough to see what is wrong. It says how many more there are.
const NAMES_MAX: usize = 16;

/// Of one name, in characters; a longer one is cut.
const NAME_CHARS_MAX: usize = 64;

/// Prompts for other servers give it; who calls is known by the connection.
const SESSION: &str = "session_id";

/// What each tool takes, by its name.
static SCHEMAS: LazyLock<BTreeMap<String, Arc<JsonObject>>> = LazyLock::new(|| {
    tools(true).into_iter().map(|tool| (tool.name.into_owned(), tool.input_schema)).collect()
});

/// The names of one call's arguments that its tool does not have; of one within an object with the
/// object's name in front.
#[derive(Debug, Default)]
pub(super) struct Ignored(BTreeSet<String>);

impl Ignored {
    pub(super) fn of(tool: &str, arguments: &JsonObject) -> Self {
        let mut ignored = Self::default();
        let is_taken = |name: &str| name == SESSION || swarm::takes(tool, name);
        if let Some(schema) = SCHEMAS.get(tool) {
            ignored.look(schema, arguments, "", &is_taken);
        }
        ignored
    }

    fn look(
        &mut self,
        schema: &JsonObject,
        fields: &JsonObject,
        within: &str,
        is_taken: &dyn Fn(&str) -> bool,
    ) {
        let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
        // What is null is not said.
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            let path = if within.is_empty() { name.clone() } else { format!("{within}.{name}") };
            match known.get(name) {
                None if within.is_empty() && is_taken(name) => {}
                None => self.add(&path),
                Some(schema) => self.look_into(schema, value, &path),
            }
        }
    }

    /// What is within an object, or within those of a list.
    fn look_into(&mut self, schema: &Value, value: &Value, path: &str) {
        let none_else = |_: &str| false;
        if let (Some(schema), Value::Object(fields)) = (schema.as_object(), value) {
            self.look(schema, fields, path, &none_else);
        }
        if let (Some(Value::Object(schema)), Value::Array(items)) = (schema.get("items"), value) {
            for fields in items.iter().filter_map(Value::as_object) {
                self.look(schema, fields, path, &none_else);
            }
        }
    }

    fn add(&mut self, path: &str) {
        let name: String = path.chars().filter(|c| is_visible(*c)).take(NAME_CHARS_MAX).collect();
        self.0.insert(name);
    }

    /// Says it beside an answer, whatever that is.
    pub(super) fn tell(self, response: &mut CallToolResponse) {
        if self.0.is_empty() {
            return;
        }
        let more = self.0.len().saturating_sub(NAMES_MAX);
        let shown: Vec<String> = self.0.into_iter().take(NAMES_MAX).collect();
        let names: Vec<String> = shown.iter().map(|name| format!("{name:?}")).collect();
        let and_more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
        let words = format!(
            "This tool has no argument {}{and_more}. The value was ignored.",
            names.join(", ")
        );
        if let CallToolResponse::Complete(result) = response {
            remark(result, FIELD, shown.into(), words);
            if let (1.., Some(Value::Object(facts))) = (more, &mut result.structured_content) {
                facts.insert(MORE.to_owned(), more.into());
            }
        } else if let CallToolResponse::Task(created) = response {
            let status = created.task.status_message.get_or_insert_default();
            *status = format!("{status} {words}").trim_start().to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::CallToolResult;
    use serde_json::json;

    use super::*;

    fn ignored(tool: &str, arguments: Value) -> Vec<String> {
        Ignored::of(tool, arguments.as_object().unwrap()).0.into_iter().collect()
    }

    #[test]
    fn what_a_tool_does_not_have_is_named_wherever_it_stands() {
        for (tool, arguments, expected) in [
            ("closeIssue", json!({ "issue_id": "i", "session_id": "s" }), vec![]),
            ("closeIssue", json!({ "issue_id": "i", "worker_id": "w" }), vec![]),
            ("closeIssue", json!({ "force": true, "rerun": null }), vec!["force"]),
            ("listLocks", json!({ "worker_id": "w" }), vec!["worker_id"]),
            ("waitIssueTaskEvents", json!({ "timeout_sec": 0 }), vec![]),
            ("submitIssueTask", json!({ "timeout_sec": 0 }), vec![]),
            ("closeIssue", json!({ "timeout_sec": 0 }), vec!["timeout_sec"]),
            (
                "await_my_turn",
                json!({ "agent_id": "A", "wait_for_previous": 1 }),
                vec!["wait_for_previous"],
            ),
            ("filebox_list_agents", json!({ "runAs": "A", "box": 1 }), vec!["box"]),
            (
                "submitDelivery",
                json!({ "test_evidence": { "commit": "x", "rerun": {}, "doc_results": [
                    { "command": "x", "code": 0 }, { "code": 1 }] } }),
                vec!["test_evidence.doc_results.code", "test_evidence.rerun"],
            ),
            ("submitDelivery", json!({ "artifacts": "x", "session_id": "s" }), vec![]),
            (
                "submitDelivery",
                json!({ "artifacts": { "session_id": 1 } }),
                vec!["artifacts.session_id"],
            ),
        ] {
            assert_eq!(ignored(tool, arguments.clone()), expected, "{tool} {arguments}");
        }
    }

    #[test]
    fn what_is_shown_of_them_is_bounded_and_hides_nothing() {
        for (given, more) in [(NAMES_MAX, None), (NAMES_MAX + 1, Some(1)), (100, Some(84))] {
            let many = (0..given).map(|n| (format!("a{n:02}"), json!(1))).collect::<JsonObject>();
            let mut result = CallToolResult::success(Vec::new());
            result.structured_content = Some(json!({}));
            let mut response = CallToolResponse::Complete(result);
            Ignored::of("swarmNow", &many).tell(&mut response);
            let CallToolResponse::Complete(told) = response else { panic!("it is complete") };
            let facts = told.structured_content.unwrap();
            assert_eq!(facts[FIELD].as_array().unwrap().len(), NAMES_MAX);
            assert_eq!(facts.get(MORE).and_then(Value::as_u64), more);
            let words = serde_json::to_string(&told.content).unwrap();
            let said = more.map(|more| format!("a15\\\" (and {more} more). The value was ignored"));
            let said = said.unwrap_or_else(|| "a15\\\". The value was ignored".to_owned());
            assert!(words.contains(&said), "{words}");
        }
        let long = json!({ "x".repeat(100_000): 1, "a\u{202e}\u{200b}\nb": 1 });
        assert_eq!(ignored("swarmNow", long), ["ab", &"x".repeat(NAME_CHARS_MAX)]);
    }

    #[test]
    fn it_is_said_for_models_and_for_programs() {
        let mut result = CallToolResult::success(Vec::new());
        result.structured_content = Some(json!({ "a": 1 }));
        let mut response = CallToolResponse::Complete(result);
        let arguments = json!({ "rerun": 1 });
        Ignored::of("swarmNow", arguments.as_object().unwrap()).tell(&mut response);
        let CallToolResponse::Complete(told) = response else { panic!("it is complete") };
        assert_eq!(told.structured_content, Some(json!({ "a": 1, FIELD: ["rerun"] })));
        assert!(serde_json::to_string(&told.content).unwrap().contains("no argument \\\"rerun"));
    }
}
