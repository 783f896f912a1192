//! Gemini generateContent: Gemini CLI.

use serde_json::{Value, json};

use super::{Act, Api, Ask, Limit, Spoken, Tool, call, event, list, model_of, since_last};

pub(super) const API: Api = Api {
    write,
    limit: Limit {
        headers: &[],
        body: r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota."}}"#,
    },
};

pub(super) fn read(body: &Value, is_stream: bool) -> Ask {
    let tools = list(&body["tools"]).iter().flat_map(|set| list(&set["functionDeclarations"]));
    let tools = tools.map(|tool| Tool::new(&tool["name"])).collect();
    let contents = since_last(list(&body["contents"]), |it| it["role"] == "model");
    let spoken: Vec<Spoken> = contents
        .iter()
        .flat_map(|content| list(&content["parts"]))
        .map(|part| match part.get("functionResponse") {
            Some(said) => Spoken::Result(said["response"].to_string()),
            None => Spoken::Text(part["text"].as_str().unwrap_or_default().to_owned()),
        })
        .collect();
    let all = list(&body["contents"]).iter().rev().flat_map(|it| list(&it["parts"]).iter().rev());
    let mut calls = all.filter_map(|it| it.get("functionCall"));
    Ask {
        spoken,
        call: calls.next().and_then(|it| call(&it["name"], &it["args"])),
        tools,
        is_stream,
        model: model_of(body),
    }
}

pub(super) fn write(ask: &Ask, act: &Act<'_>) -> String {
    let part = match act {
        Act::Say { text, .. } => json!({ "text": text }),
        Act::Call { tool, arguments, number } => json!({
            "functionCall": {
                "id": format!("call_{number:08}"),
                "name": tool.name,
                "args": arguments,
            },
        }),
    };
    let response = json!({
        "candidates": [{
            "content": { "role": "model", "parts": [part] },
            "finishReason": "STOP",
            "index": 0,
        }],
        "usageMetadata": {
            "promptTokenCount": 10,
            "candidatesTokenCount": 5,
            "totalTokenCount": 15,
        },
        "modelVersion": ask.model,
    });
    if ask.is_stream { event("", &response) } else { response.to_string() }
}
