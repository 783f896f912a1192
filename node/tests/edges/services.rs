//! Services of a role, through a real broker: an agent that runs, a tool that is called, and several
//! of these; called from another node, refused, repaired, taken back, and lost with the node.
//!
//! What an agent does is the first line of its prompt, a shell command: see `fake_agent/play.sh`.

use std::{fs, net::SocketAddr, path::PathBuf};

use serde_json::{Value, json};
use tasuki_proto::limits::TOOL_ARGUMENTS_BYTES_MAX;
use tempfile::TempDir;

use crate::{
    fake_agent::{FakeAgents, Runs},
    http::{Client, call, text},
    process::{Process, soon},
};

/// Answers with its arguments and what was said beside them; one of its tools writes JSON as text.
const SERVER: &str = r#"
schema='"inputSchema":{"type":"object"}'
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  field() { printf '%s' "$line" | sed -n "s|.*\"$1\":\"\{0,1\}\([^,\"}]*\).*|\1|p"; }
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) answer "{\"tools\":[{\"name\":\"test\",$schema},{\"name\":\"words\",$schema},{\"name\":\"hang\",$schema}]}" ;;
    *'"name":"test"'*) answer "{\"content\":[],\"structuredContent\":{\"path\":\"$(field path)\",\"count\":$(field count),\"attempt\":\"$(field tasuki/attempt)\",\"depth\":$(field tasuki/depth)}}" ;;
    *'"name":"words"'*) answer '{"content":[{"type":"text","text":"{\"n\": 7}"}]}' ;;
    *'"name":"hang"'*) touch hangs ;;
    *'"notifications/cancelled"'*) touch cancelled ;;
  esac
done
"#;

const CONFIG: &str = r#"
[[gateway.server]]
name = "sh"
command = ["/bin/sh", "server.sh"]

[[service]]
role = "qa"
name = "run_tests"
description = "Runs the tests of a path."
callers = ["dev*"]
input = { properties = { path = { type = "string" }, count = { type = "integer" } }, required = ["path", "count"] }
tool = "sh__test"
arguments = { path = "tests/{input.path}", count = "{input.count}" }

[[service]]
role = "qa"
name = "plan"
agent = "planner"
prompt = "{input.do}"
input = { properties = { do = { type = "string" } }, required = ["do"] }
output = { type = "object", properties = { ok = { type = "boolean" } }, required = ["ok"] }

[[service]]
role = "qa"
name = "play"
agent = "scout"
prompt = "{input.do}"

[[service]]
role = "qa"
name = "both"
steps = [
    { as = "counted", tool = "sh__words", output = { type = "object", properties = { n = { type = "integer" } } } },
    { agent = "scout", prompt = "say 'n is {counted.n} of {previous}'\n{input}" },
]

[[service]]
role = "qa"
name = "hang"
tool = "sh__hang"

[[service]]
role = "qa"
name = "late"
timeout = "1s"
agent = "scout"
prompt = "hang"

[[service]]
role = "qa"
name = "ring"
tool = "dev__ring"
"#;

const DEV: &str = "[[service]]\nrole = \"dev\"\nname = \"ring\"\ntool = \"qa__ring\"\n";

/// All services of `qa` that `dev` may call, as it sees them.
const TOOLS: [&str; 7] =
    ["qa__both", "qa__hang", "qa__late", "qa__plan", "qa__play", "qa__ring", "qa__run_tests"];

struct Place {
    dir: TempDir,
    fake: FakeAgents,
    broker: Process,
    qa: Process,
    dev: Process,
}

impl Place {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let fake = FakeAgents::new(dir.path());
        fs::write(path("server.sh"), SERVER).unwrap();
        fs::write(path("qa.toml"), fake.config() + CONFIG).unwrap();
        fs::write(path("dev.toml"), DEV).unwrap();
        let broker = Process::broker(&path("broker"), "").await;
        let address: SocketAddr = broker.broker.unwrap();
        let line = format!("--config {} --role qa", path("qa.toml").display());
        let qa = Process::node_with(&path("qa"), address, &line, &fake.env()).await;
        let line = format!(
            "--config {} --role dev=loop,gateway --role ops=loop,gateway",
            path("dev.toml").display()
        );
        let dev = Process::node(&path("dev"), address, &line).await;
        let place = Self { dir, fake, broker, qa, dev };
        place.offered().await;
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Resolves once each node offers the services of the other, and somebody runs agents.
    async fn offered(&self) {
        for (node, wanted) in [(&self.dev, &TOOLS[..]), (&self.qa, &["dev__ring"])] {
            let all = async {
                loop {
                    let listed = node.json("gateway tools").await.remove(0);
                    let tools = listed["tools"].as_array().unwrap();
                    let names = tools.iter().map(|it| it["name"].as_str().unwrap());
                    if wanted.iter().all(|tool| names.clone().any(|it| it == *tool)) {
                        return;
                    }
                }
            };
            soon(all).await;
        }
        Runs::at(self.broker.broker.unwrap()).until_offered(1).await;
    }

    async fn call(&self, role: &str, tool: &str, arguments: Value) -> Value {
        let client = Client::new(self.dev.mcp, &format!("/mcp/{role}")).await;
        soon(client.call("gateway_call", json!({ "tool": tool, "arguments": arguments }))).await
    }
}

/// Resolves once a file is there.
async fn appears(path: PathBuf) {
    let looking = async {
        while !path.exists() {
            tokio::task::yield_now().await;
        }
    };
    soon(looking).await;
}

/// Holds SV1 for the input, and SV3.
#[tokio::test]
async fn a_service_that_is_a_tool_is_called_from_another_node() {
    let place = Place::new().await;
    let dev = Client::new(place.dev.mcp, "/mcp/dev").await;
    let tested = soon(dev.call("qa__run_tests", json!({ "path": "a b", "count": 3 }))).await;
    let result = &tested["structuredContent"];
    assert_eq!((&result["path"], &result["count"]), (&json!("tests/a b"), &json!(3)), "{tested}");
    assert_eq!(result["depth"], 1);
    assert_eq!(result["attempt"].as_str().unwrap().len(), 32, "each call has a key of its own");
    assert_eq!(serde_json::from_str::<Value>(text(&tested)).unwrap(), *result);
    // Whoever makes an attempt again says its name.
    let mut again = call(7, "qa__run_tests", json!({ "path": "x", "count": 1 }));
    again["params"]["_meta"]["tasuki/attempt"] = "plan-7.2".into();
    let tested = soon(async { dev.post(&again).await.answer().await }).await;
    assert_eq!(tested["result"]["structuredContent"]["attempt"], "plan-7.2", "{tested}");
    // Nothing is done for an input of another form, nor for somebody else.
    for (input, why) in [
        (json!({}), "The input does not match the service's schema: "),
        (json!({ "path": 1, "count": 1 }), "/path"),
        (json!({ "path": "x", "count": "1" }), "/count"),
        (json!({ "path": "x".repeat(TOOL_ARGUMENTS_BYTES_MAX), "count": 1 }), "limit"),
    ] {
        let refused = place.call("dev", "qa__run_tests", input).await;
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(text(&refused).contains(why), "{refused}");
    }
    let refused = place.call("ops", "qa__run_tests", json!({ "path": "x", "count": 1 })).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], -32602, "{refused}");
    // Its user sees them as those of its role.
    let status = place.qa.json("gateway status").await.remove(0);
    let own = status["servers"].as_array().unwrap().iter().find(|it| it["name"] == "qa").unwrap();
    let told = (&own["endpoint"], &own["tools"]);
    assert_eq!(told, (&json!("services of role qa, on this node"), &json!(7)), "{own}");
    // Other roles of the same node call them without the broker's help.
    let own = soon(dev.call("dev__ring", json!({}))).await;
    assert!(text(&own).contains("8 services call one another"), "{own}");
}

/// Holds SV1 for the output.
#[tokio::test]
async fn an_agent_whose_answer_has_another_form_is_asked_once_more() {
    let place = Place::new().await;
    let once = "if [ -e asked ]; then say '{\"ok\": true}'; else touch asked; say 'Fine!'; fi";
    let planned = place.call("dev", "qa__plan", json!({ "do": once })).await;
    assert_eq!(planned["structuredContent"], json!({ "ok": true }), "{planned}");
    // It was shown what it had answered, and what was wrong.
    let shown =
        "case $rest in *'is not JSON'*'Fine!'*) say '{\"ok\": false}' ;; *) say 'Fine!' ;; esac";
    let planned = place.call("dev", "qa__plan", json!({ "do": shown })).await;
    assert_eq!(planned["structuredContent"], json!({ "ok": false }), "{planned}");
    let never = place.call("dev", "qa__plan", json!({ "do": "say '{\"ok\": 1}'" })).await;
    let error = &never["structuredContent"]["error"];
    assert_eq!((&never["isError"], &error["kind"]), (&json!(true), &json!("invalid_output")));
    assert_eq!(text(&never).matches("/ok").count(), 2, "{never}");
    let failed = place.call("dev", "qa__plan", json!({ "do": "fail 'no quota'" })).await;
    assert_eq!(failed["structuredContent"]["error"]["kind"], "failed", "{failed}");
    assert!(text(&failed).contains("no quota"), "{failed}");
    let runs = Runs::at(place.broker.broker.unwrap()).all().await.unwrap();
    assert_eq!(runs.len(), 7, "one that failed is not asked again");
    assert!(runs.iter().all(|run| run.role == "qa"), "{runs:?}");
}

#[tokio::test]
async fn a_service_does_one_thing_after_another() {
    let place = Place::new().await;
    let done = place.call("dev", "qa__both", json!({ "x": "{counted.n}" })).await;
    assert_eq!(text(&done), "n is 7 of {\"n\":7}", "{done}");
    // Nobody is there to answer an agent's question.
    let asks = "said=$(\"$tasuki\" runs ask 'Which one?'); say \"$said\"";
    let asked = place.call("dev", "qa__play", json!({ "do": asks })).await;
    assert!(text(&asked).contains("Nobody can answer"), "{asked}");
    let lacking = place.call("dev", "qa__play", json!({})).await;
    assert!(text(&lacking).contains("{input.do} cannot be filled in"), "{lacking}");
    let long = place.call("dev", "qa__play", json!({ "do": "big 300000" })).await;
    assert_eq!(text(&long).len(), 300_000, "an answer of which the broker has a part");
}

/// Holds SV2.
#[tokio::test]
async fn a_call_that_is_taken_back_or_too_late_ends_what_it_started() {
    let mut place = Place::new().await;
    let dev = Client::new(place.dev.mcp, "/mcp/dev").await;
    let take_back = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 7 } });
    let _held = dev.post(&call(7, "qa__play", json!({ "do": "hang" }))).await;
    place.fake.begun(1).await;
    dev.post(&take_back).await;
    place.fake.gone().await;
    let _held = dev.post(&call(7, "qa__hang", json!({}))).await;
    appears(place.path("hangs")).await;
    dev.post(&take_back).await;
    appears(place.path("cancelled")).await;
    let late = place.call("dev", "qa__late", json!({})).await;
    assert_eq!(late["structuredContent"]["error"]["code"], -32001, "{late}");
    place.fake.gone().await;
}

#[tokio::test]
async fn a_call_is_of_unknown_outcome_when_its_node_is_killed_and_the_service_comes_back() {
    let mut place = Place::new().await;
    let dev = Client::new(place.dev.mcp, "/mcp/dev").await;
    let asking = {
        let dev = dev.clone();
        tokio::spawn(async move {
            let arguments = json!({ "tool": "qa__play", "arguments": { "do": "hang" } });
            dev.call("gateway_call", arguments).await
        })
    };
    place.fake.begun(1).await;
    place.qa.kill().await;
    let lost = soon(asking).await.unwrap();
    let error = &lost["structuredContent"]["error"];
    assert_eq!(error["data"]["reason"], "outcome_unknown", "{lost}");
    place.qa.start().await;
    let back = async {
        while text(&place.call("dev", "qa__play", json!({ "do": "say back" })).await) != "back" {}
    };
    soon(back).await;
}

#[tokio::test]
async fn in_a_private_workspace_no_service_is_exported_and_no_agent_runs() {
    let place = Place::new().await;
    place.qa.json("mail private on").await;
    let refused = place.call("dev", "qa__run_tests", json!({ "path": "x", "count": 1 })).await;
    let error = &refused["structuredContent"]["error"];
    // The broker says so, unless the node has already stopped serving what it exports.
    let reason = error["data"]["reason"].as_str().unwrap();
    assert!(["private_workspace", "unavailable"].contains(&reason), "{refused}");
    let qa = Client::new(place.qa.mcp, "/mcp/qa").await;
    let arguments = json!({ "tool": "qa__play", "arguments": { "do": "say secret" } });
    let refused = soon(qa.call("gateway_call", arguments)).await;
    assert_eq!(refused["structuredContent"]["error"]["kind"], "unavailable", "{refused}");
    assert!(text(&refused).contains("private workspaces have no runs"), "{refused}");
    assert!(Runs::at(place.broker.broker.unwrap()).all().await.unwrap().is_empty());
}
