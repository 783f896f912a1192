//! OpenAI Chat Completions: opencode, Cline.

use serde_json::{Value, json};

use super::{Act, Api, Ask, Limit, Spoken, Tool, call, event, list, model_of, since_last, text_of};

pub(super) const API: Api = Api {
    write,
    limit: Limit {
        headers: &[],
        body: r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"You exceeded your current quota, please check your plan and billing details."}}"#,
    },
};

pub(super) fn read(body: &Value) -> Ask {
    let tools = list(&body["tools"]).iter();
    let tools = tools.map(|tool| Tool::new(&tool["function"]["name"])).collect();
    let messages = since_last(list(&body["messages"]), |it| it["role"] == "assistant");
    let spoken: Vec<Spoken> = messages
        .iter()
        .map(|message| {
            let text = text_of(&message["content"]);
            if message["role"] == "tool" { Spoken::Result(text) } else { Spoken::Text(text) }
        })
        .collect();
    let all = list(&body["messages"]).iter().rev();
    let mut calls = all.filter_map(|it| list(&it["tool_calls"]).last()).map(|it| &it["function"]);
    Ask {
        spoken,
        call: calls.next().and_then(|it| call(&it["name"], &it["arguments"])),
        tools,
        is_stream: body["stream"] == true,
        model: model_of(body),
    }
}

pub(super) fn write(ask: &Ask, act: &Act<'_>) -> String {
    let (number, mut message, reason) = match act {
        Act::Say { text, number } => {
            (number, json!({ "role": "assistant", "content": text }), "stop")
        }
        Act::Call { tool, arguments, number } => {
            let call = json!({
                "index": 0,
                "id": format!("call_{number:08}"),
                "type": "function",
                "function": { "name": tool.name, "arguments": arguments.to_string() },
            });
            let message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
            (number, message, "tool_calls")
        }
    };
    let whole = |object: &str, choice: Value| {
        json!({
            "id": format!("chatcmpl-{number:08}"),
            "object": object,
            "created": 1,
            "model": ask.model,
            "choices": [choice],
        })
    };
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    if !ask.is_stream {
        if let Some(call) = message.pointer_mut("/tool_calls/0").and_then(Value::as_object_mut) {
            call.remove("index");
        }
        let choice = json!({ "index": 0, "message": message, "finish_reason": reason });
        let mut whole = whole("chat.completion", choice);
        whole["usage"] = usage;
        return whole.to_string();
    }
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        whole("chat.completion.chunk", choice)
    };
    let mut last = chunk(json!({}), reason.into());
    last["usage"] = usage;
    let written = event("", &chunk(message, Value::Null)) + &event("", &last);
    written + "data: [DONE]\n\n"
}
