//! Pipelines through real programs: two nodes do the phases of their roles, whatever is killed
//! meanwhile; people approve and reject; what is taken back ends.
//!
//! What a role does is a tool of a server in shell, which counts how often each was called.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    http::{self, Client, text},
    process::{Process, soon, tasuki},
};

/// Its tools are what roles do. Each call adds a line to a file of the tool's name. Tests fail the
/// first time, and the review rejects the first time, if the files `fails` and `rejects` say so; the
/// code hangs while there is a file `hangs`, and waits for a line of the pipe `holds`.
const SERVER: &str = r#"
schema='"inputSchema":{"type":"object"}'
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  made() { answer "{\"content\":[],\"structuredContent\":$1}"; }
  attempt=$(printf '%s' "$line" | sed -n 's|.*"tasuki/attempt":"\([^"]*\)".*|\1|p')
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) answer "{\"tools\":[{\"name\":\"plan\",$schema},{\"name\":\"code\",$schema},{\"name\":\"test\",$schema},{\"name\":\"review\",$schema}]}" ;;
    *'"name":"plan"'*) echo "$attempt" >> plan; made '{"artifacts":{"plan":"first this"}}' ;;
    *'"name":"code"'*) echo "$attempt" >> code
      if [ -p holds ]; then read -r _ < holds; rm holds; fi
      if [ ! -e hangs ]; then made '{"artifacts":{"code":"fn main() {}"}}'; fi ;;
    *'"name":"test"'*) echo "$attempt" >> test
      if rm fails 2>/dev/null; then made '{"last_error":"1 test failed"}'; else made '{"artifacts":{"tests":"passed"}}'; fi ;;
    *'"name":"review"'*) echo "$attempt" >> review
      if rm rejects 2>/dev/null; then made '{"is_approved":false,"review_comments":["too short"]}'; else made '{"is_approved":true,"review_comments":["good"]}'; fi ;;
    *'"notifications/cancelled"'*) touch cancelled ;;
  esac
done
"#;

const SERVER_CONFIG: &str =
    "[[gateway.server]]\nname = \"sh\"\ncommand = [\"/bin/sh\", \"server.sh\"]\n";

fn service(role: &str, name: &str, tool: &str) -> String {
    format!(
        "[[service]]\nrole = \"{role}\"\nname = \"{name}\"\ndescription = \"Does it.\"\ntool = \
         \"sh__{tool}\"\n"
    )
}

struct Place {
    dir: TempDir,
    broker: Process,
    nodes: [Process; 2],
}

impl Place {
    /// A broker, a node with pm and dev, and one with qa and arch.
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("server.sh"), SERVER).unwrap();
        let first = service("pm", "plan_task", "plan") + &service("dev", "write_code", "code");
        let second = service("qa", "run_tests", "test") + &service("arch", "review_code", "review");
        fs::write(path("first.toml"), format!("{SERVER_CONFIG}{first}")).unwrap();
        fs::write(path("second.toml"), format!("{SERVER_CONFIG}{second}")).unwrap();
        let broker = Process::broker(&path("broker"), "").await;
        let address = broker.broker.unwrap();
        let node = async |name: &str, roles: &str| {
            let line = format!("--config {} {roles}", path(&format!("{name}.toml")).display());
            Process::node(&path(name), address, &line).await
        };
        let nodes = [
            node("first", "--role pm=loop,pipeline --role dev").await,
            node("second", "--role qa --role arch").await,
        ];
        Self { dir, broker, nodes }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn calls(&self, tool: &str) -> Vec<String> {
        let calls = fs::read_to_string(self.path(tool)).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    async fn status(&self) -> Value {
        self.nodes[0].json("pipeline status b").await.remove(0)
    }

    /// Resolves once a pipeline stands so.
    async fn stands(&self, status: &str, phase: &str) -> Value {
        let standing = async {
            loop {
                let it = self.status().await;
                if it["status"] == status && it["phase"] == phase {
                    return it;
                }
            }
        };
        soon(standing).await
    }

    async fn refused(&self, line: &str, reason: &str) {
        let refused = self.nodes[0].run(line).await;
        let said: Value = serde_json::from_slice(&refused.stdout).unwrap();
        assert_eq!(said["error"]["code"], reason, "{line}: {said}");
    }
}

/// Starts the pipeline and follows it to its end.
fn following(data: &Path, more: &str) -> tokio::task::JoinHandle<Output> {
    let mut command = tasuki(data);
    command.args(["pipeline", "run", "--board", "b", "--by", "ann"]);
    command.args(more.split_whitespace()).arg("--data").arg(data);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    tokio::spawn(async move { command.output().await.unwrap() })
}

fn outcomes(pipeline: &Value) -> Vec<String> {
    let attempts = pipeline["attempts"].as_array().unwrap().iter();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    attempts.map(|it| format!("{} {}", text(&it["phase"]), text(&it["status"]))).collect()
}

/// Resolves once a file is there.
async fn appears(path: PathBuf) {
    soon(async {
        while !path.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn roles_of_two_nodes_plan_code_test_and_review() {
    let place = Place::new().await;
    fs::write(place.path("fails"), "").unwrap();
    fs::write(place.path("rejects"), "").unwrap();
    let run = following(&place.nodes[0].data, "--set requirements=login");
    let ran = soon(run).await.unwrap();
    let told = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(told.ends_with('\n') && told.contains("completed at review"), "{told}");
    let pipeline = place.status().await;
    assert_eq!(
        outcomes(&pipeline),
        [
            "plan passed",
            "code passed",
            "test failed",
            "code passed",
            "test passed",
            "review rejected",
            "code passed",
            "test passed",
            "review passed"
        ],
        "{pipeline}"
    );
    let board = place.nodes[0].json("board show b").await.remove(0);
    let value = |channel: &str| -> Value {
        let all = board["channels"].as_array().unwrap().iter();
        let found = all.clone().find(|it| it["channel"] == channel).unwrap();
        serde_json::from_str(found["value_json"].as_str().unwrap()).unwrap()
    };
    assert_eq!(value("requirements"), "login");
    assert_eq!(
        value("artifacts"),
        json!({ "plan": "first this", "code": "fn main() {}", "tests": "passed" })
    );
    assert_eq!(value("review_comments"), json!(["too short", "good"]));
    assert_eq!((value("is_approved"), value("retry_count")), (json!(true), json!(2)));
    assert_eq!((value("current_phase"), value("last_error")), (json!("review"), Value::Null));
    // Each wrote as itself.
    let history = place.nodes[0].json("board history b").await;
    let by = |it: &Value| it["by_role"].as_str().unwrap_or_default().to_owned();
    let authors: Vec<String> = history.iter().map(by).collect();
    assert_eq!(authors, ["arch", "qa", "dev", "arch", "qa", "dev", "qa", "dev", "pm", ""]);
    place.refused("pipeline cancel b --by ann", "pipeline_ended").await;
    place.refused("pipeline status c", "unknown_pipeline").await;
    // The events tell it, and another one may begin on the same board.
    let held = place.path("holds");
    assert!(Command::new("mkfifo").arg(&held).status().unwrap().success());
    assert!(soon(following(&place.nodes[1].data, "--background")).await.unwrap().status.success());
    place.refused("pipeline run --board b --by ann", "pipeline_open").await;
    place.refused("board delete b --by ann", "pipeline_open").await;
    soon(tokio::fs::write(held, "\n")).await.unwrap();
    place.stands("completed", "review").await;
}

/// Holds PW2. The broker is killed whenever an attempt changed, and a node now and then.
#[tokio::test]
async fn a_pipeline_whose_broker_is_killed_again_and_again_comes_to_the_same_end() {
    let mut place = Place::new().await;
    let started = following(&place.nodes[0].data, "--background");
    assert!(soon(started).await.unwrap().status.success());
    let (mut killed, mut last) = (0, json!(null));
    let ended = loop {
        let now = place.status().await;
        if now["status"] == "completed" {
            break now;
        }
        assert_eq!(now["status"], "running", "{now}");
        if now["attempts"] == last {
            continue;
        }
        last = now["attempts"].clone();
        place.broker.kill().await;
        place.broker.start().await;
        killed += 1;
        if killed % 3 == 0 {
            let node = &mut place.nodes[killed % 2];
            node.kill().await;
            node.start().await;
        }
    };
    assert!(1 < killed, "killed {killed} times");
    let passed: Vec<String> =
        outcomes(&ended).into_iter().filter(|it| !it.ends_with(" lost")).collect();
    // An attempt that was lost may have been made: what it did once outside of the board, it did.
    let wanted = ["plan passed", "code passed", "test passed", "review passed"];
    assert_eq!(passed, wanted, "{ended}");
    // What was begun again was begun under the same name, and each was committed once.
    let attempts = ended["attempts"].as_array().unwrap();
    let mut keys: Vec<&Value> = attempts.iter().map(|it| &it["attempt_key"]).collect();
    keys.dedup();
    assert_eq!(keys.len(), 4, "{ended}");
    let mut called = place.calls("code");
    called.dedup();
    assert_eq!(called.len(), 1, "{called:?}");
    let written = attempts.iter().filter(|it| it["written"] != "0" && it["written"] != 0);
    assert_eq!(written.count(), 4, "{ended}");
}

#[tokio::test]
async fn a_node_that_is_killed_while_it_works_does_it_again_under_the_same_name() {
    let mut place = Place::new().await;
    fs::write(place.path("hangs"), "").unwrap();
    let run = following(&place.nodes[1].data, "");
    appears(place.path("code")).await;
    place.nodes[0].kill().await;
    fs::remove_file(place.path("hangs")).unwrap();
    place.nodes[0].start().await;
    let ran = soon(run).await.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let pipeline = place.status().await;
    assert_eq!(
        outcomes(&pipeline),
        ["plan passed", "code lost", "code passed", "test passed", "review passed"]
    );
    let called = place.calls("code");
    assert_eq!((called.len(), &called[0]), (2, &called[1]));
}

/// Holds PW1.
#[tokio::test]
async fn what_a_canceled_pipeline_does_is_stopped_and_a_person_goes_on_with_it() {
    let place = Place::new().await;
    fs::write(place.path("hangs"), "").unwrap();
    let run = following(&place.nodes[1].data, "");
    appears(place.path("code")).await;
    place.stands("running", "code").await;
    let canceled = place.nodes[0].json("pipeline cancel b --by ann --reason enough").await;
    assert_eq!(canceled[0]["pipeline"]["status"], "canceled");
    assert_eq!(soon(run).await.unwrap().status.code(), Some(7));
    appears(place.path("cancelled")).await;
    fs::remove_file(place.path("hangs")).unwrap();
    place.nodes[0].json("pipeline resume b --by ann").await;
    let ended = place.stands("completed", "review").await;
    assert_eq!(
        outcomes(&ended),
        ["plan passed", "code canceled", "code passed", "test passed", "review passed"]
    );
}

#[tokio::test]
async fn a_person_approves_in_time_or_not_at_all() {
    let place = Place::new().await;
    let file = place.path("pipeline.toml");
    let write = |within: &str| {
        let text = format!(
            "max_retries = 1\n[[phase]]\nname = \"plan\"\nrole = \"pm\"\nservice = \
             \"plan_task\"\napproval = \"{within}\"\n[[phase]]\nname = \"code\"\nrole = \
             \"dev\"\nservice = \"write_code\"\n"
        );
        fs::write(&file, text).unwrap();
    };
    let line = format!("{} --background", file.display());
    write("1h");
    assert!(soon(following(&place.nodes[0].data, &line)).await.unwrap().status.success());
    let waiting = place.stands("awaiting_approval", "plan").await;
    assert_ne!(waiting["approval_lapses_ms"], 0, "{waiting}");
    assert!(place.calls("code").is_empty(), "it began although nobody approved");
    place.refused("pipeline approve b --by ann --attempt 7", "no_approval_pending").await;
    // What was looked at is no longer what is there.
    let seen = waiting["checkpoint"].as_u64().unwrap();
    place.nodes[0].json("board update b requirements=more --as pm").await;
    place
        .refused(&format!("pipeline approve b --by ann --checkpoint {seen}"), "stale_checkpoint")
        .await;
    place.nodes[1].json("pipeline reject b --by ann --reason thin").await;
    place.stands("awaiting_approval", "plan").await;
    assert_eq!(place.calls("plan").len(), 2);
    place.nodes[1].json("pipeline approve b --by ann").await;
    let ended = place.stands("completed", "code").await;
    let decided = ended["decisions"].as_array().unwrap();
    assert_eq!((&decided[0]["reason"], &decided[1]["approved"]), (&json!("thin"), &json!(true)));
    // One that nobody gives lapses, and is refused afterwards.
    write("1s");
    assert!(soon(following(&place.nodes[0].data, &line)).await.unwrap().status.success());
    place.stands("failed", "plan").await;
    place.refused("pipeline approve b --by ann", "approval_lapsed").await;
    assert_eq!(place.calls("code").len(), 1);
    // Both are seen to without the broker.
    let checked = place.nodes[0].json(&format!("pipeline check {}", file.display())).await;
    assert_eq!(checked[0]["phases"][0]["approval_ms"], 1000, "{checked:?}");
    fs::write(&file, "[[phase]]\nname = \"a\"\nrole = \"dev\"\nnext = \"b\"\n").unwrap();
    let wrong = place.nodes[0].run(&format!("pipeline check {}", file.display())).await;
    let said = String::from_utf8_lossy(&wrong.stdout).into_owned();
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    assert!(said.contains(":4: next is") && said.contains(":1: service is missing"), "{said}");
}

/// Holds PL4: what waits for a person is approved by the user of an agent's client, whom the tool
/// asks; the model has no say.
#[tokio::test]
async fn an_agent_asks_its_user_for_an_approval() {
    let place = Place::new().await;
    let pm = Client::new(place.nodes[0].mcp, "/mcp/pm").await;
    let phase = |name: &str, role: &str, service: &str, more: &str| {
        format!("[[phase]]\nname = \"{name}\"\nrole = \"{role}\"\nservice = \"{service}\"\n{more}")
    };
    let file = phase("plan", "pm", "plan_task", "approval = \"1h\"\n")
        + &phase("code", "dev", "write_code", "");
    let wrong = soon(pm.call("pipeline_run", json!({ "board": "b", "file": "x = 1" }))).await;
    assert!(text(&wrong).contains("line 1: unknown field"), "{wrong}");
    let updates = json!({ "requirements": "login" });
    let run = json!({ "board": "b", "file": file, "updates": updates });
    let started = soon(pm.call("pipeline_run", run)).await;
    assert_eq!(started["structuredContent"]["status"], "running", "{started}");
    place.stands("awaiting_approval", "plan").await;
    let status = soon(pm.call("pipeline_status", json!({ "board": "b" }))).await;
    assert_eq!(status["structuredContent"]["status"], "awaiting_approval", "{status}");
    // A client that cannot ask its user cannot approve.
    let refused = soon(pm.call("pipeline_ask_approval", json!({ "board": "b" }))).await;
    assert!(text(&refused).contains("tasuki pipeline approve b"), "{refused}");
    let client = Client::modern(place.nodes[0].mcp, "/mcp/pm", "pipeline_ask_approval");
    let mut call =
        http::modern(http::call(7, "pipeline_ask_approval", json!({ "board": "b" })), "test");
    let able = json!({ "elicitation": {} });
    call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = able;
    let asked = soon(soon(client.post(&call)).await.answer_or_body()).await;
    let (name, question) =
        asked["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("what pm did in phase plan"), "{message}");
    let name = name.clone();
    let answered = async |action: &str| {
        let mut call = call.clone();
        call["params"]["inputResponses"] = json!({ &name: { "action": action, "content": {} } });
        soon(soon(client.post(&call)).await.answer_or_body()).await["result"].clone()
    };
    let declined = answered("decline").await;
    assert!(text(&declined).contains("did not approve it"), "{declined}");
    assert!(place.calls("code").is_empty(), "it began although nobody approved");
    let approved = answered("accept").await;
    assert_eq!(approved["structuredContent"]["phase"], "code", "{approved}");
    let ended = place.stands("completed", "code").await;
    assert_eq!(ended["decisions"].as_array().unwrap().len(), 1, "{ended}");
    // What was approved once is not approved again.
    let again = soon(pm.call("pipeline_status", json!({}))).await;
    assert_eq!(again["structuredContent"]["pipelines"][0]["status"], "completed", "{again}");
}
