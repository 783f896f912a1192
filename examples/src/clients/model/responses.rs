//! OpenAI Responses: Codex. A server's tools come as a namespace of their own.

use serde_json::{Value, json};

use super::{Act, Api, Ask, Limit, Spoken, Tool, call, event, list, model_of, since_last, text_of};

pub(super) const API: Api = Api {
    write,
    limit: Limit {
        headers: &[],
        body: r#"{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus"}}"#,
    },
};

pub(super) fn read(body: &Value) -> Ask {
    let tools = list(&body["tools"]).iter().flat_map(|tool| {
        let namespace = (tool["type"] == "namespace").then_some(&tool["name"]);
        let inner =
            if namespace.is_some() { list(&tool["tools"]) } else { std::slice::from_ref(tool) };
        inner.iter().map(move |tool| Tool {
            namespace: namespace.and_then(Value::as_str).map(str::to_owned),
            ..Tool::new(&tool["name"])
        })
    });
    let items = since_last(list(&body["input"]), |it| {
        it["role"] == "assistant" || it["type"] == "function_call" || it["type"] == "reasoning"
    });
    let spoken: Vec<Spoken> = items
        .iter()
        .map(|item| match item["type"].as_str() {
            Some(kind) if kind.ends_with("_output") => Spoken::Result(text_of(&item["output"])),
            _ => Spoken::Text(text_of(&item["content"])),
        })
        .collect();
    let mut calls = list(&body["input"]).iter().rev().filter(|it| it["type"] == "function_call");
    Ask {
        spoken,
        call: calls.next().and_then(|it| call(&it["name"], &it["arguments"])),
        tools: tools.collect(),
        // Codex reads nothing but streams.
        is_stream: true,
        model: model_of(body),
    }
}

pub(super) fn write(ask: &Ask, act: &Act<'_>) -> String {
    let (number, item) = match act {
        Act::Say { text, number } => (
            number,
            json!({
                "type": "message",
                "id": format!("msg_{number:08}"),
                "role": "assistant",
                "content": [{ "type": "output_text", "text": text, "annotations": [] }],
            }),
        ),
        Act::Call { tool, arguments, number } => {
            let mut item = json!({
                "type": "function_call",
                "id": format!("fc_{number:08}"),
                "call_id": format!("call_{number:08}"),
                "name": tool.name,
                "arguments": arguments.to_string(),
            });
            if let Some(namespace) = &tool.namespace {
                item["namespace"] = namespace.as_str().into();
            }
            (number, item)
        }
    };
    let id = format!("resp_{number:08}");
    let usage = json!({
        "input_tokens": 10,
        "input_tokens_details": null,
        "output_tokens": 5,
        "output_tokens_details": null,
        "total_tokens": 15,
    });
    let events = [
        json!({ "type": "response.created", "response": { "id": id, "model": ask.model } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": id, "usage": usage } }),
    ];
    events.iter().map(|it| event(it["type"].as_str().unwrap_or_default(), it)).collect()
}
