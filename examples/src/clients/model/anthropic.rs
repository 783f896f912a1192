//! Anthropic Messages: Claude Code.

use serde_json::{Value, json};

use super::{Act, Api, Ask, Limit, Spoken, Tool, call, event, list, model_of, since_last, text_of};

pub(super) const API: Api = Api {
    write,
    limit: Limit {
        headers: &[
            ("x-should-retry", "false"),
            ("anthropic-ratelimit-unified-status", "rejected"),
            ("anthropic-ratelimit-unified-overage-status", "rejected"),
            ("anthropic-ratelimit-unified-representative-claim", "five_hour"),
            // In 2100.
            ("anthropic-ratelimit-unified-reset", "4102444800"),
        ],
        body: r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit. Please try again later."}}"#,
    },
};

pub(super) fn read(body: &Value) -> Ask {
    let tools = list(&body["tools"]).iter().map(|tool| Tool::new(&tool["name"])).collect();
    let messages = since_last(list(&body["messages"]), |it| it["role"] == "assistant");
    let mut spoken = Vec::new();
    for message in messages {
        let Some(blocks) = message["content"].as_array() else {
            spoken.push(Spoken::Text(text_of(&message["content"])));
            continue;
        };
        for block in blocks {
            spoken.push(if block["type"] == "tool_result" {
                Spoken::Result(text_of(&block["content"]))
            } else {
                Spoken::Text(block["text"].as_str().unwrap_or_default().to_owned())
            });
        }
    }
    let all = list(&body["messages"]).iter().rev().flat_map(|it| list(&it["content"]).iter().rev());
    let mut calls = all.filter(|it| it["type"] == "tool_use");
    Ask {
        spoken,
        call: calls.next().and_then(|it| call(&it["name"], &it["input"])),
        tools,
        is_stream: body["stream"] == true,
        model: model_of(body),
    }
}

pub(super) fn write(ask: &Ask, act: &Act<'_>) -> String {
    let (block, delta, reason, number) = match act {
        Act::Say { text, number } => (
            json!({ "type": "text", "text": text }),
            json!({ "type": "text_delta", "text": text }),
            "end_turn",
            number,
        ),
        Act::Call { tool, arguments, number } => (
            json!({
                "type": "tool_use",
                "id": format!("toolu_{number:08}"),
                "name": tool.name,
                "input": arguments,
            }),
            json!({ "type": "input_json_delta", "partial_json": arguments.to_string() }),
            "tool_use",
            number,
        ),
    };
    let message = |content: Value, reason: Value| {
        json!({
            "id": format!("msg_{number:08}"),
            "type": "message",
            "role": "assistant",
            "model": ask.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": null,
            "usage": { "input_tokens": 10, "output_tokens": 5 },
        })
    };
    if !ask.is_stream {
        return message(json!([block]), reason.into()).to_string();
    }
    let mut empty = block;
    for (field, nothing) in [("text", json!("")), ("input", json!({}))] {
        if let Some(value) = empty.get_mut(field) {
            *value = nothing;
        }
    }
    let events = [
        json!({ "type": "message_start", "message": message(json!([]), Value::Null) }),
        json!({ "type": "content_block_start", "index": 0, "content_block": empty }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({
            "type": "message_delta",
            "delta": { "stop_reason": reason, "stop_sequence": null },
            "usage": { "output_tokens": 5 },
        }),
        json!({ "type": "message_stop" }),
    ];
    events.iter().map(|it| event(it["type"].as_str().unwrap_or_default(), it)).collect()
}
