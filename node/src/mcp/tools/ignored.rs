//! Arguments that a tool does not have. It does nothing with them, and its answer says so: some
//! clients add arguments of their own, so they are no reason to refuse, but a model that is told
//! nothing believes that they did something.

use std::collections::BTreeSet;

use rmcp::model::CallToolResponse;
use serde_json::Value;
use tasuki_proto::visible::is_visible;

use super::{result::add_field, tool::ToolDef};

const FIELD: &str = "ignored_arguments";

/// How many there are beyond those that are named.
const MORE: &str = "ignored_arguments_more";

/// Names that one answer shows: enough to see what is wrong. It says how many more there are.
const NAMES_MAX: usize = 16;

/// Of one name, in characters; a longer one is cut.
const NAME_CHARS_MAX: usize = 64;

/// Prompts for other servers give it; who calls is known by the connection.
const SESSION: &str = "session_id";

/// The names as they are shown: of `unknown` fields those that nothing else reads.
fn names(tool: &ToolDef, unknown: BTreeSet<String>) -> Vec<String> {
    let is_read = |name: &str| name == SESSION || tool.role.iter().any(|it| it.name == name);
    let shown = |name: String| -> String {
        name.chars().filter(|c| is_visible(*c)).take(NAME_CHARS_MAX).collect()
    };
    unknown.into_iter().filter(|it| !is_read(it)).map(shown).collect()
}

/// Says beside an answer, whatever that is, which arguments did nothing.
pub(super) fn report(tool: &ToolDef, unknown: BTreeSet<String>, response: &mut CallToolResponse) {
    let ignored = names(tool, unknown);
    if ignored.is_empty() {
        return;
    }
    let more = ignored.len().saturating_sub(NAMES_MAX);
    let shown: Vec<String> = ignored.into_iter().take(NAMES_MAX).collect();
    let names: Vec<String> = shown.iter().map(|name| format!("{name:?}")).collect();
    let and_more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    let text =
        format!("This tool has no argument {}{and_more}. The value was ignored.", names.join(", "));
    if let CallToolResponse::Complete(result) = response {
        add_field(result, FIELD, shown.into(), text);
        if let (1.., Some(Value::Object(facts))) = (more, &mut result.structured_content) {
            facts.insert(MORE.to_owned(), more.into());
        }
    } else if let CallToolResponse::Task(created) = response {
        let status = created.task.status_message.get_or_insert_default();
        *status = format!("{status} {text}").trim_start().to_owned();
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolResult, JsonObject};
    use serde_json::json;

    use super::{super::tools, *};

    fn tool(name: &str) -> &'static ToolDef {
        tools().find(|it| it.name == name).unwrap()
    }

    fn ignored(name: &str, arguments: Value) -> Vec<String> {
        let unknown = tool(name).unknown_fields(arguments.as_object().unwrap());
        names(tool(name), unknown).into_iter().collect()
    }

    /// What is said beside an answer that has these facts.
    fn reported(facts: Value, arguments: Value) -> CallToolResult {
        let tool = tool("swarmNow");
        let mut result = CallToolResult::success(Vec::new());
        result.structured_content = Some(facts);
        let mut response = CallToolResponse::Complete(result);
        report(tool, tool.unknown_fields(arguments.as_object().unwrap()), &mut response);
        let CallToolResponse::Complete(result) = response else { panic!("it is complete") };
        result
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
                json!({ "test_evidence": { "rerun": {}, "doc_results": [
                    { "command": "x", "exit_code": 0, "passed": true, "code": 0 },
                    { "command": "y", "exit_code": 0, "passed": true, "code": 1 }] } }),
                vec!["test_evidence.doc_results.code", "test_evidence.rerun"],
            ),
            ("submitDelivery", json!({ "artifacts": "x", "session_id": "s" }), vec![]),
            (
                "submitDelivery",
                json!({ "artifacts": { "test_cases": 5 }, "refs": 5, "rerun": {} }),
                vec!["rerun"],
            ),
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
            let told = reported(json!({}), many.into());
            let facts = told.structured_content.unwrap();
            assert_eq!(facts[FIELD].as_array().unwrap().len(), NAMES_MAX);
            assert_eq!(facts.get(MORE).and_then(Value::as_u64), more);
            let words = serde_json::to_string(&told.content).unwrap();
            let said = more.map(|more| format!("a15\\\" (and {more} more). The value was ignored"));
            let said = said.unwrap_or_else(|| "a15\\\". The value was ignored".to_owned());
            assert!(words.contains(&said), "{words}");
        }
        let alike = |n: u32| (format!("{}{n}", "y".repeat(NAME_CHARS_MAX)), json!(1));
        let alike: JsonObject = (0..40).map(alike).collect();
        let facts = reported(json!({}), alike.into()).structured_content.unwrap();
        assert_eq!(facts[MORE], 40 - NAMES_MAX, "those that look alike are counted, too");
        let long = json!({ "x".repeat(100_000): 1, "a\u{202e}\u{200b}\nb": 1 });
        assert_eq!(ignored("swarmNow", long), ["ab", &"x".repeat(NAME_CHARS_MAX)]);
    }

    #[test]
    fn it_is_said_for_models_and_for_programs() {
        let told = reported(json!({ "a": 1 }), json!({ "rerun": 1 }));
        assert_eq!(told.structured_content, Some(json!({ "a": 1, FIELD: ["rerun"] })));
        assert!(serde_json::to_string(&told.content).unwrap().contains("no argument \\\"rerun"));
    }
}
