//! Each API's requests are understood, and the call that answers them names the tool as the
//! client does.

use serde_json::{Value, json};

use super::{Act, Ask, anthropic, chat, gemini, responses};
use crate::clients::script::{Call, Heard, turns};

const TURN: &str = r#"{"can_start":true,"instruction":"step 1"}"#;

/// A tool of the part that the requests are for.
const OURS: &str = "await_my_turn";

/// What was heard, and the answer to it.
fn check(ask: &Ask, expected: &Heard, write: fn(&Ask, &Act<'_>) -> String) -> String {
    assert_eq!(&ask.heard(OURS), expected);
    let tool = ask.tools.iter().find(|tool| tool.name.ends_with("handover_work"));
    let arguments = json!({ "work_summary": "did step 1" });
    let tool = tool.expect("the tool is offered");
    write(ask, &Act::Call { tool, arguments: &arguments, number: 7 })
}

/// The events of a stream.
fn events(written: &str) -> Vec<Value> {
    let data = written.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

/// The result of the call that B makes first, as its client names the tool.
fn result(text: &str, tool: &str) -> Heard {
    let call = Call { tool: tool.to_owned(), arguments: turns::wait().arguments };
    Heard::Result(text.to_owned(), Some(call))
}

#[test]
fn anthropic_messages() {
    let request = |content: Value| {
        json!({
            "model": "m",
            "stream": true,
            "tools": [
                { "name": "mcp__tasuki__await_my_turn" },
                { "name": "mcp__tasuki__handover_work" },
            ],
            "messages": [
                { "role": "user", "content": "go" },
                { "role": "assistant", "content": [
                    { "type": "text", "text": "I wait." },
                    { "type": "tool_use", "id": "t1", "name": "mcp__tasuki__await_my_turn",
                        "input": { "agent_id": "B" } },
                ] },
                { "role": "user", "content": content },
            ],
        })
    };
    let result_block = json!({ "type": "tool_result", "tool_use_id": "t1", "content": TURN });
    let asked = anthropic::read(&request(json!([result_block])));
    let written =
        events(&check(&asked, &result(TURN, "mcp__tasuki__await_my_turn"), anthropic::write));
    assert_eq!(written[1]["content_block"]["name"], "mcp__tasuki__handover_work");
    assert_eq!(written[2]["delta"]["partial_json"], r#"{"work_summary":"did step 1"}"#);
    assert_eq!(written[4]["delta"]["stop_reason"], "tool_use");

    let notice = format!("<task-notification>{TURN}</task-notification>");
    let asked = anthropic::read(&request(json!([{ "type": "text", "text": notice }])));
    assert_eq!(asked.heard(OURS), Heard::Woken(notice));
}

#[test]
fn openai_responses() {
    let request = json!({
        "model": "m",
        "tools": [
            { "type": "function", "name": "shell" },
            { "type": "namespace", "name": "mcp__tasuki", "tools": [
                { "name": "await_my_turn" }, { "name": "handover_work" },
            ]},
        ],
        "input": [
            { "type": "message", "role": "user", "content": [{ "text": "go" }] },
            { "type": "function_call", "call_id": "c1", "name": "await_my_turn",
                "arguments": r#"{"agent_id":"B"}"# },
            { "type": "function_call_output", "call_id": "c1", "output": TURN },
        ],
    });
    let heard = result(TURN, "await_my_turn");
    let written = events(&check(&responses::read(&request), &heard, responses::write));
    assert_eq!(written[1]["item"]["namespace"], "mcp__tasuki");
    assert_eq!(written[1]["item"]["name"], "handover_work");
}

#[test]
fn openai_chat() {
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name } });
    let request = json!({
        "model": "m",
        "stream": true,
        "tools": [tool("tasuki_await_my_turn"), tool("tasuki_handover_work")],
        "messages": [
            { "role": "user", "content": "go" },
            { "role": "assistant", "tool_calls": [{ "id": "c1", "function": {
                "name": "tasuki_await_my_turn", "arguments": r#"{"agent_id":"B"}"# } }] },
            { "role": "tool", "tool_call_id": "c1", "content": TURN },
        ],
    });
    let heard = result(TURN, "tasuki_await_my_turn");
    let written = check(&chat::read(&request), &heard, chat::write);
    let call = &events(&written)[0]["choices"][0]["delta"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "tasuki_handover_work");
    assert!(written.ends_with("data: [DONE]\n\n"), "{written}");
}

#[test]
fn gemini_contents() {
    let request = json!({
        "tools": [{ "functionDeclarations": [
            { "name": "mcp_tasuki_await_my_turn" }, { "name": "mcp_tasuki_handover_work" },
        ]}],
        "contents": [
            { "role": "user", "parts": [{ "text": "go" }] },
            { "role": "model", "parts": [{ "functionCall": {
                "name": "mcp_tasuki_await_my_turn", "args": { "agent_id": "B" } } }] },
            { "role": "user", "parts": [{ "functionResponse": { "response": { "output": TURN } } }] },
        ],
    });
    let heard = result(&json!({ "output": TURN }).to_string(), "mcp_tasuki_await_my_turn");
    let written = events(&check(&gemini::read(&request, true), &heard, gemini::write));
    let call = &written[0]["candidates"][0]["content"]["parts"][0]["functionCall"];
    assert_eq!(call["name"], "mcp_tasuki_handover_work");
}

#[test]
fn a_question_without_our_tools_is_told_from_one_without_any() {
    let request = |tools: Value| json!({ "tools": tools, "messages": [{ "role": "user" }] });
    assert_eq!(anthropic::read(&request(json!([]))).heard(OURS), Heard::Aside);
    let early = anthropic::read(&request(json!([{ "name": "Bash" }]))).heard(OURS);
    assert_eq!(early, Heard::Early);
}
