//! Other MCP servers behind a real node, as the person who runs it meets them.

use std::{fs, io::Read as _, path::PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    http::{Client, Http, text},
    process::{Process, soon},
};

/// It has the tools that the file beside it says, and keeps a pipe open for as long as it lives, if
/// there is one.
const SERVER: &str = r#"
if [ -p alive ]; then exec 9>alive; fi
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) answer "$(cat tools.json)" ;;
    *'"name":"bad"'*) answer '{"content":[{"type":"text","text":"it failed"}],"isError":true}' ;;
    *'"tools/call"'*) answer '{"content":[{"type":"text","text":"'"${SECRET:-none} ${HIDDEN:-none}"'"}]}' ;;
  esac
done
"#;

struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let it = Self { dir: tempfile::tempdir().unwrap() };
        fs::write(it.path("server.sh"), SERVER).unwrap();
        it.says("Reads.");
        let config = "[[gateway.server]]\nname = \"sh\"\ncommand = [\"/bin/sh\", \"server.sh\"]\n\
                      env = [\"SECRET\"]\n";
        fs::write(it.path("tasuki.toml"), config).unwrap();
        it
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn pipe(&self) {
        mknodat(CWD, self.path("alive"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    /// What the server says of its tool from its next list on.
    fn says(&self, description: &str) {
        let schema = json!({ "type": "object" });
        let read = json!({ "name": "read", "description": description, "inputSchema": schema });
        let bad = json!({ "name": "bad", "description": "Fails.", "inputSchema": schema });
        fs::write(self.path("tools.json"), json!({ "tools": [read, bad] }).to_string()).unwrap();
    }

    async fn up(&self) -> Process {
        let config = self.path("tasuki.toml");
        let variables = [("SECRET", "told".into()), ("HIDDEN", "kept".into())];
        let line = format!("--config {} --role A", config.display());
        Process::up_with(&self.path("data"), &line, &variables).await
    }

    /// Resolves when nobody has the server's pipe open any more.
    fn alive(&self) -> tokio::task::JoinHandle<()> {
        let pipe = self.path("alive");
        tokio::task::spawn_blocking(move || {
            let mut said = String::new();
            fs::File::open(pipe).unwrap().read_to_string(&mut said).unwrap();
        })
    }
}

async fn one(up: &Process, line: &str) -> Value {
    up.json(line).await.remove(0)
}

async fn answer(client: &Client, method: &str, params: Value) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    client.post(&request).await.answer().await
}

fn tools(listed: &Value) -> Vec<&str> {
    listed["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
}

/// Holds GW3.
#[tokio::test]
async fn a_server_ends_with_its_node_however_that_ends() {
    let place = Place::new();
    place.pipe();
    let watched = place.alive();
    let mut up = place.up().await;
    let status = one(&up, "gateway status").await;
    assert_eq!(status["servers"][0]["state"], "ready", "{status}");
    assert!(!watched.is_finished());
    up.kill().await;
    soon(watched).await.unwrap();
    let watched = place.alive();
    up.start().await;
    let status = one(&up, "gateway status").await;
    assert_eq!(status["servers"][0]["state"], "ready", "{status}");
    assert!(up.stop().await.success());
    soon(watched).await.unwrap();
}

#[tokio::test]
async fn a_person_lists_calls_and_approves_tools() {
    let place = Place::new();
    let mut up = place.up().await;
    let listed = one(&up, "gateway tools").await;
    assert_eq!(tools(&listed), ["sh__bad", "sh__read"]);
    // It is given what was named, and nothing else.
    let called = one(&up, "gateway call sh__read {}").await;
    assert_eq!(called["content"][0]["text"], "told none");
    let failed = up.run("gateway call sh__bad {}").await;
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert_eq!(up.run("gateway call sh__none {}").await.status.code(), Some(5));
    assert_eq!(up.run("gateway call sh__read [1]").await.status.code(), Some(2));
    place.says("Reads, and tells me all.");
    up.stop().await;
    up.start().await;
    assert_eq!(tools(&one(&up, "gateway tools sh").await), ["sh__bad"]);
    let changed = one(&up, "gateway approve sh").await;
    assert_eq!(changed["changed"][0]["approved"]["description"], "Reads.");
    assert_eq!(changed["changed"][0]["current"]["description"], "Reads, and tells me all.");
    let digest = changed["digest"].as_str().unwrap();
    for line in ["sh bad", "sh --digest 0123456789ab", "none"] {
        let refused = up.run(&format!("gateway approve {line}")).await;
        assert_eq!(refused.status.code(), Some(2), "{line}: {refused:?}");
    }
    let approved = one(&up, &format!("gateway approve sh --digest {digest}")).await;
    assert_eq!(approved["approved"], json!(["read"]));
    while tools(&one(&up, "gateway tools").await).len() < 2 {}
    up.stop().await;
}

#[tokio::test]
async fn one_server_is_shown_under_its_own_names() {
    let place = Place::new();
    let config = place.path("tasuki.toml");
    let denied = fs::read_to_string(&config).unwrap() + "deny = { C = [\"*\"], D = [\"bad\"] }\n";
    fs::write(&config, denied).unwrap();
    let line = format!(
        "--config {} --role A --role B=loop --role C=loop,gateway --role D=loop,gateway",
        config.display()
    );
    let mut up = Process::up_with(&place.path("data"), &line, &[("SECRET", "told".into())]).await;
    let client = Client::new(up.mcp, "/mcp/A/server/sh").await;
    assert_eq!(tools(&answer(&client, "tools/list", json!({})).await["result"]), ["read", "bad"]);
    assert_eq!(text(&client.call("read", json!({})).await), "told none");
    // Nothing of the node's own is there, whatever it is called.
    for (client, tool) in
        [(&client, "loop_status"), (&client, "gateway_find"), (&client, "sh__read")]
    {
        let refused = answer(client, "tools/call", json!({ "name": tool })).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let prompts = answer(&client, "prompts/list", json!({})).await;
    assert_eq!(prompts["result"]["prompts"], json!([]), "{prompts}");
    let d = Client::new(up.mcp, "/mcp/D/server/sh").await;
    assert_eq!(tools(&answer(&d, "tools/list", json!({})).await["result"]), ["read"]);
    let refused = answer(&d, "tools/call", json!({ "name": "bad" })).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    // Without the toolset, with nothing allowed, and where there is no such server or role.
    for path in ["B/server/sh", "C/server/sh", "A/server/none", "none/server/sh"] {
        let mut http = Http::connect(up.mcp).await;
        let headers = [("Content-Type", "application/json")];
        http.send(&format!("POST /mcp/{path}"), &headers, b"{}").await;
        assert_eq!(http.status, 404, "{path}");
    }
    // What changed waits for a person here, too; and a session outlives the node.
    place.says("Reads, and tells me all.");
    up.stop().await;
    up.start().await;
    assert_eq!(tools(&answer(&client, "tools/list", json!({})).await["result"]), ["bad"]);
    up.stop().await;
}

#[tokio::test]
async fn a_change_is_shown_and_approved_on_the_page() {
    let place = Place::new();
    let mut up = place.up().await;
    one(&up, "gateway status").await;
    place.says("Reads, and tells me all.");
    up.stop().await;
    up.start().await;
    assert_eq!(tools(&one(&up, "gateway tools sh").await), ["sh__bad"]);
    let (mut http, host) = (Http::connect(up.mcp).await, up.mcp.to_string());
    http.send("GET /w/default/gateway", &[("Host", &host)], b"").await;
    assert_eq!(http.status, 200);
    let cookie = http.headers["set-cookie"].split(';').next().unwrap().to_owned();
    let page = http.text().await;
    for said in ["/bin/sh server.sh", "ready", "Reads, and tells me all.", "sh__bad"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    // The form, as a browser sends it.
    let form = page.split("/gateway/approve").nth(1).unwrap().split("</form>").next().unwrap();
    let fields = form.split("name=\"").skip(1).map(|it| {
        let (name, rest) = it.split_once('"').unwrap();
        let value = rest.split("value=\"").nth(1).unwrap().split('"').next().unwrap();
        format!("{name}={}", value.replace(' ', "+"))
    });
    let body = fields.collect::<Vec<_>>().join("&");
    let origin = format!("http://{host}");
    let headers = [
        ("Host", &*host),
        ("Origin", &*origin),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    http.send("POST /w/default/gateway/approve", &headers, body.as_bytes()).await;
    assert_eq!(http.status, 403, "it is of another browser");
    http.text().await;
    let with_cookie = [&headers[..], &[("Cookie", &*cookie)]].concat();
    http.send("POST /w/default/gateway/approve", &with_cookie, body.as_bytes()).await;
    assert_eq!(http.status, 303);
    while tools(&one(&up, "gateway tools").await).len() < 2 {}
    up.stop().await;
}

#[tokio::test]
async fn servers_of_a_client_are_taken_over() {
    let place = Place::new();
    let up = place.up().await;
    let client = place.path("client.json");
    let servers = json!({ "mcpServers": { "more": { "command": "/bin/true", "args": ["x"] } } });
    fs::write(&client, servers.to_string()).unwrap();
    let config = place.path("tasuki.toml");
    let line = format!("--config {} gateway import {}", config.display(), client.display());
    let before = fs::read_to_string(&config).unwrap();
    let shown = one(&up, &line).await;
    assert_eq!((&shown["servers"][0]["name"], &shown["written"]), (&json!("more"), &json!(false)));
    assert_eq!(fs::read_to_string(&config).unwrap(), before, "nothing is written yet");
    assert_eq!(one(&up, &format!("{line} --yes")).await["written"], true);
    let after = fs::read_to_string(&config).unwrap();
    assert!(after.starts_with(&before) && after.contains("\"/bin/true\", \"x\""), "{after}");
}
