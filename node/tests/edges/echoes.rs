//! What is refused is not said back whole: a name of a megabyte would be two for the model that gave
//! it.

use serde_json::{Value, json};
use tasuki_proto::{
    echo::REFUSAL_BYTES_MAX,
    wire::{self, turn_loop_client::TurnLoopClient},
};

use crate::{
    agents::{Bridge, Manner, Stream},
    http::{BOTH, Client, Http, JSON, call, initialize},
    process::{Process, soon},
};

/// Longer than any text may be.
const LONG: usize = 300_000;

/// An answer says a refusal as a text and as facts.
const ANSWER_BYTES_MAX: usize = 5 * REFUSAL_BYTES_MAX;

async fn up(dir: &tempfile::TempDir) -> Process {
    let sets = "loop:full,mail:full,swarm-lead:full,swarm-worker:full,swarm-acceptor:full";
    Process::up(&dir.path().join("up"), &format!("--role A={sets}")).await
}

/// Something that fits a field.
fn fitting(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => false.into(),
        Some("integer" | "number") => 1.into(),
        Some("array") => json!(["x"]),
        Some("object") => json!({}),
        _ => "x".into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tool_says_back_whole_what_it_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let up = up(&dir).await;
    let client = Client::new(up.mcp, "/mcp/A?hold=0").await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let list = client.post(&list).await.answer().await;
    let long = "n".repeat(LONG);
    for tool in list["result"]["tools"].as_array().unwrap() {
        let (name, schema) = (tool["name"].as_str().unwrap(), &tool["inputSchema"]);
        let fields = schema["properties"].as_object().unwrap();
        let required = schema["required"].as_array().unwrap();
        let usual: serde_json::Map<String, Value> = fields
            .iter()
            .filter(|(field, _)| required.iter().any(|it| it == *field))
            .map(|(field, schema)| (field.clone(), fitting(schema)))
            .collect();
        for field in fields.keys().map(String::as_str).chain(["session", &long]) {
            for value in [json!(long), json!([long]), json!([{ &long: long }])] {
                let mut arguments = usual.clone();
                arguments.insert(field.to_owned(), value);
                let answer = client.call(name, arguments.into()).await.to_string();
                let start = &answer[..answer.len().min(200)];
                assert!(
                    answer.len() < ANSWER_BYTES_MAX,
                    "{name} {field}: {} {start}",
                    answer.len()
                );
            }
        }
    }
}

/// Requests that the server refuses before a tool is asked.
fn malformed() -> Vec<Value> {
    let long = "n".repeat(LONG);
    let request = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    vec![
        call(7, &long, json!({})),
        request(&long, json!({})),
        request("tools/call", json!(long)),
        request("tools/call", json!({ "name": { &long: long } })),
        request("tools/call", json!({ "name": "loop_status", "arguments": long })),
        request("prompts/get", json!({ "name": long })),
        request("prompts/get", json!({ "name": "play_A", "arguments": { &long: long } })),
        request("resources/read", json!({ "uri": long })),
        request("resources/subscribe", json!({ "uri": long })),
        request("tasks/get", json!({ "taskId": long })),
        request(
            "loop_status",
            json!({ "_meta": {
            "io.modelcontextprotocol/protocolVersion": long } }),
        ),
        request(
            "tools/list",
            json!({ "_meta": {
            "io.modelcontextprotocol/protocolVersion": long } }),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_error_of_the_protocol_says_back_whole_what_it_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let up = up(&dir).await;
    let client = Client::new(up.mcp, "/mcp/A").await;
    let data = up.data.clone();
    let mut bridge = soon(Bridge::start(&["--role", "A"], data, Manner::default())).await.unwrap();
    let Stream { mut events, endpoint } = Stream::open(up.mcp, "A").await.unwrap();
    for message in malformed() {
        let start = message.to_string()[..120].to_owned();
        let of_session = client.post(&message).await.text().await;
        let mut http = Http::connect(up.mcp).await;
        http.send("POST /mcp/A", &[BOTH, JSON], message.to_string().as_bytes()).await;
        let of_nobody = http.text().await;
        let on_stdio = soon(bridge.ask(&message, &mut 0)).await.unwrap().to_string();
        http.send(&format!("POST {endpoint}"), &[JSON], message.to_string().as_bytes()).await;
        let over_sse = match http.status {
            202 => events.event().await.data,
            _ => http.text().await,
        };
        for told in [of_session, of_nobody, on_stdio, over_sse] {
            assert!(told.len() < ANSWER_BYTES_MAX, "{start}: {} {}", told.len(), &told[..200]);
        }
    }
    let long = "n".repeat(LONG);
    let hello = initialize(&long, &long);
    for body in [hello.to_string(), format!("\"{long}\""), format!("{{\"id\":1,\"{long}\":1}}")] {
        let mut http = Http::connect(up.mcp).await;
        http.send("POST /mcp/A", &[BOTH, JSON], body.as_bytes()).await;
        let told = http.text().await;
        assert!(told.len() < ANSWER_BYTES_MAX, "{} {}", told.len(), &told[..200]);
        http.send(&format!("POST {endpoint}"), &[JSON], body.as_bytes()).await;
        let told = http.text().await;
        assert!(told.len() < ANSWER_BYTES_MAX, "{} {}", told.len(), &told[..200]);
    }
    let path = "n".repeat(30_000);
    let mut http = Http::connect(up.mcp).await;
    for request in [format!("GET /tools/{path}"), format!("GET /mcp/A?as={path}")] {
        http.send(&request, &[], b"").await;
        assert!(http.text().await.len() < ANSWER_BYTES_MAX, "{}", http.status);
    }
}

#[tokio::test]
async fn the_broker_says_nothing_back_whole() {
    let dir = tempfile::tempdir().unwrap();
    let up = up(&dir).await;
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", up.broker.unwrap()));
    let mut turns = TurnLoopClient::new(channel.unwrap().connect().await.unwrap());
    let long = "n".repeat(LONG);
    for (name, role) in [(&long[..], "A"), ("main", &long), ("main", "A\u{e0041}\u{202e}")] {
        let request = wire::CreateLoopRequest {
            caller: Some(wire::Caller::default()),
            key: Some(wire::IdempotencyKey { client_id: "echo".into(), counter: 1 }),
            r#loop: name.to_owned(),
            participants: vec![role.to_owned()],
            allow_new_roles: true,
        };
        let refused = turns.create_loop(request).await.unwrap_err();
        assert!(refused.message().len() <= REFUSAL_BYTES_MAX, "{}", refused.message().len());
        assert!(refused.message().chars().all(tasuki_proto::visible::is_visible));
    }
}
