//! Tools of roles on other nodes, through a real broker: called, refused, taken back, and lost with
//! the node that was killed.

use std::{fs, io::Read as _, net::SocketAddr, path::PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tasuki_proto::{
    limits::TOOL_RECORD_BYTES_MAX,
    wire::{self, call_event::Kind, event::Noun, feed_client::FeedClient},
};
use tempfile::TempDir;

use crate::{
    http::{self, Client, text},
    process::{Process, soon},
};

/// One of its tools answers, one fails, and two say that they were called and never answer.
const SERVER: &str = r#"
schema='"inputSchema":{"type":"object"}'
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  progress() { printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"total":2,"message":"half"}}\n' "$token"; }
  token=$(printf '%s' "$line" | sed -n 's/.*"progressToken":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) answer "{\"tools\":[{\"name\":\"test\",\"description\":\"Runs tests.\",$schema},{\"name\":\"bad\",$schema},{\"name\":\"hang\",$schema},{\"name\":\"look\",$schema,\"annotations\":{\"readOnlyHint\":true}},{\"name\":\"secret\",$schema}]}" ;;
    *'"name":"test"'*) progress; answer '{"content":[{"type":"text","text":"passed"}],"structuredContent":{"failed":0}}' ;;
    *'"name":"bad"'*) answer '{"content":[{"type":"text","text":"it failed"}],"isError":true}' ;;
    *'"name":"look"'*) if [ -e looked ]; then answer '{"content":[{"type":"text","text":"seen"}]}'; else touch looked; echo look > called; fi ;;
    *'"name":"hang"'*) echo hang > called ;;
    *'"notifications/cancelled"'*) echo cancelled > called ;;
  esac
done
"#;

struct Place {
    dir: TempDir,
    broker: Process,
}

impl Place {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("server.sh"), SERVER).unwrap();
        let called = dir.path().join("called");
        mknodat(CWD, called, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let config = "[[gateway.server]]\nname = \"sh\"\ncommand = [\"/bin/sh\", \"server.sh\"]\n\
                      [[role.qa.export]]\ntools = [\"sh__test\", \"sh__bad\", \"sh__hang\"]\n\
                      [[role.qa.export]]\ntools = [\"sh__look\"]\ncallers = [\"dev*\"]\n\
                      record = true\n";
        fs::write(dir.path().join("tasuki.toml"), config).unwrap();
        let broker = Process::broker(&dir.path().join("broker"), "").await;
        Self { dir, broker }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn address(&self) -> SocketAddr {
        self.broker.broker.unwrap()
    }

    async fn qa(&self) -> Process {
        let line = format!("--config {} --role qa", self.path("tasuki.toml").display());
        Process::node(&self.path("qa"), self.address(), &line).await
    }

    async fn dev(&self) -> Process {
        let line = "--role dev=loop,gateway --role ops=loop,gateway";
        Process::node(&self.path("dev"), self.address(), line).await
    }

    /// What the server says next of being called.
    async fn called(&self) -> String {
        let pipe = self.path("called");
        let read = tokio::task::spawn_blocking(move || {
            let mut said = String::new();
            fs::File::open(pipe).unwrap().read_to_string(&mut said).unwrap();
            said.trim().to_owned()
        });
        soon(read).await.unwrap()
    }

    /// How calls went, as the broker recorded it.
    async fn recorded(&self) -> Vec<String> {
        let address = format!("http://{}", self.address());
        let request = wire::SubscribeRequest {
            from_sequence: 1,
            only_kept: true,
            ..wire::SubscribeRequest::default()
        };
        let mut feed = FeedClient::connect(address).await.unwrap();
        let mut items = feed.subscribe(request).await.unwrap().into_inner();
        let mut told = Vec::new();
        while let Some(item) = soon(items.message()).await.unwrap() {
            for event in item.events {
                let Some(Noun::Call(wire::CallEvent { kind: Some(kind) })) = event.noun else {
                    continue;
                };
                let recorded = match kind {
                    Kind::ToolCalled(it) => {
                        format!("{} {} {} {}", it.role, it.target, it.tool, it.arguments)
                    }
                    Kind::ToolCallEnded(it) => {
                        format!("{} {}", it.outcome().as_str_name(), it.result)
                    }
                };
                told.push(recorded.trim().to_owned());
            }
        }
        told
    }

    /// The same, once so many ended as are said.
    async fn ended(&self, count: usize) -> Vec<String> {
        let all = async {
            loop {
                let told = self.recorded().await;
                if count <= told.iter().filter(|it| it.starts_with("CALL_OUTCOME_")).count() {
                    return told;
                }
            }
        };
        soon(all).await
    }
}

async fn tools(node: &Process) -> Vec<String> {
    let listed = node.json("gateway tools").await.remove(0);
    let tools = listed["tools"].as_array().unwrap();
    tools.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

/// Resolves once a node offers so many tools.
async fn offers(node: &Process, count: usize) -> Vec<String> {
    let all = async {
        loop {
            let all = tools(node).await;
            if all.len() == count {
                return all;
            }
        }
    };
    soon(all).await
}

#[tokio::test]
async fn a_tool_of_a_role_is_called_from_another_node() {
    let place = Place::new().await;
    let (qa, node) = (place.qa().await, place.dev().await);
    let all = offers(&node, 4).await;
    assert_eq!(all, ["qa__bad", "qa__hang", "qa__look", "qa__test"]);
    let dev = Client::new(node.mcp, "/mcp/dev").await;
    let tested = soon(dev.call("qa__test", json!({ "path": "src" }))).await;
    assert_eq!(text(&tested), "passed");
    assert_eq!(tested["structuredContent"], json!({ "failed": 0 }));
    let failed = soon(dev.call("gateway_call", json!({ "tool": "qa__bad" }))).await;
    assert_eq!((text(&failed), &failed["isError"]), ("it failed", &json!(true)));
    // Progress comes first, with the caller's own token.
    let call = http::with_progress(http::call(7, "qa__test", json!({})));
    let mut answers = soon(dev.post(&call)).await;
    let progress = soon(answers.event()).await.json();
    assert_eq!(progress["params"]["message"], "half", "{progress}");
    assert_eq!(progress["params"]["progressToken"], call["params"]["_meta"]["progressToken"]);
    assert_eq!(text(&soon(answers.event()).await.json()["result"]), "passed");
    // It is found by what it does.
    let found = soon(dev.call("gateway_find", json!({ "query": "tests" }))).await;
    assert_eq!(found["structuredContent"]["tools"][0]["tool"], "qa__test", "{found}");
    // Not for everybody, and not what is not exported.
    let ops = Client::new(node.mcp, "/mcp/ops").await;
    for (client, tool) in [(&ops, "qa__look"), (&dev, "qa__secret")] {
        let refused = soon(client.call("gateway_call", json!({ "tool": tool }))).await;
        assert_eq!(refused["structuredContent"]["error"]["code"], -32602, "{refused}");
    }
    let told = place.ended(3).await;
    assert_eq!(&told[..2], ["dev qa test", "CALL_OUTCOME_SUCCEEDED"]);
    assert!(told.contains(&"CALL_OUTCOME_FAILED".to_owned()), "{told:?}");
    // What is said is recorded where its role asks for that, and cut.
    fs::write(place.path("looked"), "").unwrap();
    let long = json!({ "text": "x".repeat(TOOL_RECORD_BYTES_MAX) });
    assert_eq!(text(&soon(dev.call("qa__look", long.clone())).await), "seen");
    let told = place.ended(4).await;
    let [called, ended] = told.last_chunk().unwrap();
    assert_eq!(*called, format!("dev qa look {}", &long.to_string()[..TOOL_RECORD_BYTES_MAX]));
    assert!(ended.starts_with("CALL_OUTCOME_SUCCEEDED {") && ended.contains("seen"), "{ended}");
    drop(qa);
}

#[tokio::test]
async fn a_call_of_which_nobody_knows_the_outcome_says_so_and_a_look_is_made_again() {
    let place = Place::new().await;
    let (mut qa, node) = (place.qa().await, place.dev().await);
    offers(&node, 4).await;
    let call = async |tool: &'static str| -> Value {
        let dev = Client::new(node.mcp, "/mcp/dev").await;
        dev.call("gateway_call", json!({ "tool": tool })).await
    };
    let killed = async {
        assert_eq!(place.called().await, "hang");
        qa.kill().await;
    };
    let (lost, ()) = soon(async { tokio::join!(call("qa__hang"), killed) }).await;
    let error = &lost["structuredContent"]["error"];
    assert_eq!(error["data"]["reason"], "outcome_unknown", "{lost}");
    assert!(text(&lost).contains("may or may not have taken effect"), "{lost}");
    let told = place.ended(1).await;
    assert_eq!(told, ["dev qa hang", "CALL_OUTCOME_UNKNOWN"]);
    // Its node is away: nothing is done, and that is said.
    let away = soon(call("qa__test")).await;
    assert_eq!(away["isError"], true, "{away}");
    qa.start().await;
    let back = async { while text(&call("qa__test").await) != "passed" {} };
    soon(back).await;
    // What only looks is asked again, where it was not answered.
    let killed = async {
        assert_eq!(place.called().await, "look");
        qa.kill().await;
        qa.start().await;
    };
    let (seen, ()) = soon(async { tokio::join!(call("qa__look"), killed) }).await;
    assert_eq!(text(&seen), "seen", "{seen}");
}

#[tokio::test]
async fn a_call_ends_with_the_broker_or_with_whoever_made_it() {
    let mut place = Place::new().await;
    let (_qa, mut node) = (place.qa().await, place.dev().await);
    offers(&node, 4).await;
    let dev = Client::new(node.mcp, "/mcp/dev").await;
    let mut held = dev.post(&http::call(7, "qa__hang", json!({}))).await;
    assert_eq!(place.called().await, "hang");
    let id = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 7 } });
    dev.post(&id).await;
    assert_eq!(place.called().await, "cancelled");
    drop(held.next_event());
    assert_eq!(place.ended(1).await, ["dev qa hang", "CALL_OUTCOME_CANCELED"]);
    // A node that is killed takes its calls back, too.
    let _held = dev.post(&http::call(8, "qa__hang", json!({}))).await;
    assert_eq!(place.called().await, "hang");
    node.kill().await;
    assert_eq!(place.called().await, "cancelled");
    node.start().await;
    offers(&node, 4).await;
    // One of a broker that is killed is lost, and the next call says so.
    let dev = Client::new(node.mcp, "/mcp/dev").await;
    let _held = dev.post(&http::call(9, "qa__hang", json!({}))).await;
    assert_eq!(place.called().await, "hang");
    place.broker.kill().await;
    assert_eq!(place.called().await, "cancelled");
    place.broker.start().await;
    let dev = Client::new(node.mcp, "/mcp/dev").await;
    let back = async {
        while text(&dev.call("gateway_call", json!({ "tool": "qa__test" })).await) != "passed" {}
    };
    soon(back).await;
    let told = place.ended(4).await;
    assert_eq!(told.iter().filter(|it| *it == "CALL_OUTCOME_CANCELED").count(), 2, "{told:?}");
    assert_eq!(told.iter().filter(|it| *it == "CALL_OUTCOME_UNKNOWN").count(), 1, "{told:?}");
}
