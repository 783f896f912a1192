//! A sub-agent at its node: what its key opens, on a server that is open and on a guarded one.

use std::{fs, net::SocketAddr, os::unix::fs::symlink, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};
use tasuki_node::{
    mcp::{
        STEP_PATH, Settings,
        ask::{Error, post_as},
        dial::NodeAt,
    },
    node::{self, Node, RoleSpec},
    runner::runners::RunnerTable,
    runs::{
        host::RunsHost,
        live::{LiveStep, LiveSteps},
        own::OwnRunners,
    },
    step_key::StepKey,
};
use tasuki_proto::{limits::RUN_FILE_BYTES_MAX, reason::Reason, run::StepId};

use crate::{
    guard::Guarded,
    http::{Client, Http, call},
    world::{Loop, World},
};

/// A node whose broker is away, and a step that runs there.
struct Running {
    key: StepKey,
    step: LiveStep,
    runs: Arc<RunsHost>,
    _node: Node,
    data: tempfile::TempDir,
}

impl Running {
    async fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let settings = node::Settings {
            broker: "http://127.0.0.1:1".to_owned(),
            carrier: None,
            workspace: "w".parse().unwrap(),
            roles: vec![RoleSpec {
                role: "A".parse().unwrap(),
                toolsets: Vec::new(),
                is_standby: false,
            }],
            data: data.path().join("node"),
            take_over: false,
            is_moved: false,
        };
        let node = Node::start(settings).await.unwrap();
        let own = OwnRunners { table: RunnerTable::default(), project: data.path().to_owned() };
        let steps = LiveSteps::default();
        let runs = RunsHost {
            link: node.link().clone(),
            own: Arc::new(own),
            default_runner: "pi".to_owned(),
            steps: steps.clone(),
            directory: data.path().join("runs"),
        };
        let id = StepId { run: "run_1700000000000_00af".parse().unwrap(), number: 1 };
        let key = StepKey::new(id).unwrap();
        let step = steps.begin(key.clone(), data.path().join("web"));
        Self { key, step, runs: Arc::new(runs), _node: node, data }
    }

    fn settings(&self) -> Settings {
        Settings { runs: Some(Arc::clone(&self.runs)), ..Settings::default() }
    }

    fn headers(&self) -> Vec<(String, String)> {
        vec![("Authorization".to_owned(), format!("Bearer {}", self.key))]
    }

    async fn client(&self, addr: SocketAddr) -> Client {
        Client::with(addr, STEP_PATH, "test", self.headers()).await
    }
}

async fn status(addr: SocketAddr, request: &str, headers: &[(String, String)]) -> u16 {
    let mut http = Http::connect(addr).await;
    let headers: Vec<_> = headers.iter().map(|(name, it)| (name.as_str(), it.as_str())).collect();
    http.send(request, &headers, b"{}").await;
    http.status
}

async fn has_its_own_tools_and_no_roles(client: &Client) {
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let listed = client.post(&list).await.answer().await;
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    let names: Vec<&str> = tools.iter().filter_map(|it| it["name"].as_str()).collect();
    assert!(names.contains(&"ask_parent") && names.contains(&"subagent"), "{names:?}");
    assert!(!names.contains(&"loop_status"), "{names:?}");
    for (tool, arguments) in [
        ("loop_status", json!({ "agent_id": "A" })),
        ("filebox_send_message", json!({ "runAs": "A", "to": "B", "body": "x" })),
        ("listIssues", json!({ "worker_id": "A" })),
    ] {
        let answer: Value = client.post(&call(2, tool, arguments)).await.answer().await;
        let why = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(why.starts_with("there is no tool"), "{why}");
    }
}

#[tokio::test]
async fn an_open_server_lets_a_sub_agent_in_by_its_key_alone() {
    let running = Running::new().await;
    let world = World::with("127.0.0.1:0", Loop::new(), running.settings()).await;
    let client = running.client(world.addr).await;
    has_its_own_tools_and_no_roles(&client).await;
    for request in ["POST /step/ask", "POST /step/report", &format!("POST {STEP_PATH}")] {
        assert_eq!(status(world.addr, request, &[]).await, 401, "{request}");
    }
    assert_eq!(status(world.addr, "POST /step/ask", &running.headers()).await, 400);
    assert_eq!(status(world.addr, "POST /step/nothing", &running.headers()).await, 404);
    let foreign = [running.headers(), vec![("Origin".to_owned(), "http://x.example".to_owned())]];
    assert_eq!(status(world.addr, "POST /step/ask", &foreign.concat()).await, 403);
    drop(running.step);
    assert_eq!(client.post(&call(3, "ask_parent", json!({ "text": "x" }))).await.status, 401);
}

#[tokio::test]
async fn a_guarded_server_takes_a_key_for_no_token_and_a_token_for_no_key() {
    let running = Running::new().await;
    let guarded = Guarded::start("127.0.0.1:0", Loop::new(), running.settings()).await;
    let client = running.client(guarded.door).await;
    has_its_own_tools_and_no_roles(&client).await;
    for request in ["POST /mcp/A", "POST /mcp", "GET /status", "GET /sse/A", "GET /stdio"] {
        assert_eq!(status(guarded.door, request, &running.headers()).await, 401, "{request}");
    }
    for role in ["A", ""] {
        for request in ["POST /step/ask", &format!("POST {STEP_PATH}")] {
            let told = status(guarded.door, request, &guarded.headers(role)).await;
            assert_eq!(told, 401, "{request} {role}");
        }
    }
    let at = NodeAt { token: None, ..guarded.at("A")() };
    let empty = || Bytes::from_static(b"{\"text\":\"\"}");
    let why = post_as(&at, "/step/ask", &running.key, empty()).await.unwrap_err();
    let is_invalid = matches!(why, Error::Refused { reason: Some(Reason::InvalidArgument), .. });
    assert!(is_invalid, "{why}");
    drop(running.step);
    let why = post_as(&at, "/step/ask", &running.key, empty()).await.unwrap_err();
    let is_over = matches!(why, Error::Refused { reason: Some(Reason::Unauthenticated), .. });
    assert!(is_over, "{why}");
}

/// Holds Z8.
#[tokio::test]
async fn a_report_hands_over_no_file_that_is_not_the_projects() {
    let running = Running::new().await;
    let project = running.data.path().canonicalize().unwrap();
    let private = vec![project.join("key")];
    let settings = Settings { private, ..running.settings() };
    let world = World::with("127.0.0.1:0", Loop::new(), settings).await;
    let at = NodeAt { url: format!("http://{}", world.addr), fingerprint: None, token: None };
    fs::create_dir(project.join("web")).unwrap();
    fs::write(project.join("key"), "secret").unwrap();
    fs::write(project.join("web/big"), vec![0; RUN_FILE_BYTES_MAX + 1]).unwrap();
    symlink("big", project.join("web/link")).unwrap();
    let refused = async |name: &str, file: &str| {
        let body = json!({ "file": file, "intent": { "by": "a", "number": 1 } });
        let body = Bytes::from(body.to_string());
        match post_as(&at, &format!("/step/{name}"), &running.key, body).await {
            Err(Error::Refused { reason, message }) => (reason.unwrap(), message),
            other => panic!("{file}: {other:?}"),
        }
    };
    let absolute = project.join("web/none").display().to_string();
    for (file, reason, words) in [
        ("none", Reason::InvalidArgument, "it cannot be read"),
        (absolute.as_str(), Reason::InvalidArgument, "it cannot be read"),
        ("../../x", Reason::InvalidArgument, "it is outside of the project"),
        ("/etc/hostname", Reason::InvalidArgument, "it is outside of the project"),
        ("link", Reason::InvalidArgument, "it is a link, and links are not followed"),
        (".", Reason::InvalidArgument, "it is no plain file"),
        ("../key", Reason::InvalidArgument, "a file of Tasuki's own"),
        ("big", Reason::TooLarge, "it has more than 3145728 bytes"),
    ] {
        let (told, message) = refused("report", file).await;
        assert_eq!(told, reason, "{file}: {message}");
        assert!(message.contains(words) && message.ends_with("Nothing was sent."), "{message}");
    }
    let (reason, message) = refused("ask", "web/big").await;
    assert_eq!(reason, Reason::InvalidArgument);
    assert!(message.contains("`file` is for reports"), "{message}");
}
