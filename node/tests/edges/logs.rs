//! Logs say what happened, never what agents said: at any level, of every program.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::{
    agents::{Agent, Stream, Transport},
    hooks::{begun, configure},
    http::{BOTH, Client, Http, JSON, call, initialize},
    process::{Process, soon, tasuki},
};

/// In everything that is said, and in nothing that is logged.
const MARKER: &str = "persimmon7391";

/// Starts it again, to log all there is.
async fn talkative(mut it: Process) -> Process {
    it.stop().await;
    it.rust_log = Some("trace");
    it.start().await;
    it
}

/// What a command says on standard error, which gets `input` on standard input.
async fn said(mut command: Command, input: &[Value]) -> String {
    let command = command.env("RUST_LOG", "trace").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for message in input {
        stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    drop(stdin);
    let output = soon(child.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn nothing_that_is_said_is_logged_at_any_level() {
    let dir = tempfile::tempdir().unwrap();
    let broker = talkative(Process::broker(&dir.path().join("broker"), "").await).await;
    let address = broker.broker.unwrap();
    // It fails, and says why in the mail's own words.
    let hook = "[[hooks]]\nname = \"loud\"\non = \"received\"\nrole = \"B\"\n\
                command = [\"sh\", \"-c\", \"cat >&2; exit 1\"]\n";
    configure(&dir.path().join("node"), hook);
    let node = Process::node(&dir.path().join("node"), address, "--role A --role B").await;
    let node = talkative(node).await;
    begun(&node, "loud").await;
    let words = |said: &str| json!({ "work_summary": said, "next_instruction": said, "is_task_complete": false });
    let all = [Transport::Session, Transport::Stateless, Transport::Sse, Transport::Stdio];
    for (number, transport) in all.into_iter().enumerate() {
        let said = format!("{MARKER} {number}");
        let letter = json!({ "receiver_id": "B", "msg_type": "BR", "title": said,
            "content": said });
        let (addr, data) = (node.mcp, node.data.clone());
        let mut a = Agent::new(transport, "A", addr, data.clone()).await;
        let mut b = Agent::new(transport, "B", addr, data).await;
        a.call(MARKER, json!({})).await.unwrap_err();
        for (tool, arguments) in [("filebox_send_message", letter), ("handover_work", words(&said))]
        {
            let done = soon(a.call(tool, arguments)).await.unwrap();
            assert_ne!(done["isError"], true, "{transport:?}: {done}");
        }
        for tool in ["await_my_turn", "filebox_wait_for_message"] {
            let told = soon(b.call(tool, json!({}))).await.unwrap();
            assert!(told.to_string().contains(&said), "{transport:?} {tool}: {told}");
            let read = json!({ "filename": told["structuredContent"]["message_id"] });
            b.call("filebox_resolve_message", read).await.unwrap();
        }
        b.call("handover_work", words(&said)).await.unwrap();
        a.call("await_my_turn", json!({ "loop": MARKER, "timeout_sec": MARKER })).await.unwrap();
    }
    let called = async {
        while !node.log().contains("a hook's call failed") {
            tokio::task::yield_now().await;
        }
    };
    soon(called).await;
    // Before anything is agreed on, and where nothing fits.
    let call = call(1, "handover_work", words(MARKER));
    let mut http = Http::connect(node.mcp).await;
    let token = format!("Bearer tsk_x_{MARKER}");
    let headers = [BOTH, JSON, ("Authorization", &token[..])];
    for body in [call.to_string(), format!("{{{MARKER}"), format!("\"{MARKER}\"")] {
        http.send("POST /mcp/A", &headers, body.as_bytes()).await;
        http.text().await;
    }
    let mut stream = Http::connect(node.mcp).await;
    stream.send("GET /sse/A", &[("Accept", "text/event-stream")], b"").await;
    let endpoint = stream.event().await.data;
    http.send(&format!("POST {endpoint}"), &headers, call.to_string().as_bytes()).await;
    drop(stream);
    drop(Stream::open(node.mcp, "A").await.unwrap());
    let a = Client::new(node.mcp, "/mcp/A").await;
    for params in [json!({ "name": MARKER, "arguments": MARKER }), json!(MARKER)] {
        let malformed =
            json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params });
        a.post(&malformed).await.text().await;
    }

    let mut bridge = tasuki(&node.data);
    bridge.args(["mcp", "--role", "A", "--data"]).arg(&node.data);
    let hello = initialize("2025-06-18", MARKER);
    let bridged = said(bridge, &[hello, call]).await;
    let mut send = tasuki(&node.data);
    send.args(["mail", "send", MARKER, "--role", "A", "--to", "B", "--subject", MARKER, "--data"]);
    send.arg(&node.data);
    let sent = said(send, &[]).await;
    for (who, log) in
        [("node", node.log()), ("broker", broker.log()), ("mcp", bridged), ("mail", sent)]
    {
        // A bridge has nothing to say.
        assert!(who == "mcp" || log.contains("DEBUG"), "{who}: {log}");
        let found = log.lines().find(|line| line.contains(MARKER));
        assert_eq!(found, None, "{who}");
    }
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// The line of this log that says that a tool call ended, within this trace.
fn ended(log: &str, trace: &str) -> bool {
    let within = format!("trace_id={trace}");
    log.lines().any(|line| line.contains("a tool call ended") && line.contains(&within))
}

/// The traces of the calls that this broker refused.
fn refused(log: &str) -> Vec<&str> {
    let lines = log.lines().filter(|line| line.contains("a call was refused"));
    let traces = lines.filter_map(|line| line.split("trace_id=").nth(1));
    let mut traces: Vec<&str> = traces.filter_map(|rest| rest.split([' ', '}']).next()).collect();
    // A tool may ask more than once.
    traces.dedup();
    traces
}

#[tokio::test]
async fn a_tool_call_has_one_trace_from_its_client_to_the_broker() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&dir.path().join("broker"), "").await;
    broker.stop().await;
    broker.rust_log = Some("tasuki_broker=debug");
    broker.start().await;
    let address = broker.broker.unwrap();
    let mut node = Process::node(&dir.path().join("node"), address, "--role A --role B").await;
    node.stop().await;
    node.rust_log = Some("tasuki_node=debug");
    node.start().await;
    let parent = |trace: &str| format!("00-{trace}-b7ad6b7169203331-01");
    let (by_meta, by_header) = (TRACE.to_owned(), TRACE.replace('0', "1"));
    // The broker refuses the question, of whatever trace.
    let mut call = call(1, "filebox_read_message", json!({ "filename": "0123456789ab" }));
    let client = Client::new(node.mcp, "/mcp/A").await;
    let ask = async |client: &Client, call: &Value| {
        let answer = client.post(call).await.answer_or_body().await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    };
    call["params"]["_meta"]["traceparent"] = parent(&by_meta).into();
    ask(&client, &call).await;
    let mut header = client.clone();
    header.headers.push(("traceparent".to_owned(), parent(&by_header)));
    call["params"]["_meta"]["traceparent"] = "nonsense".into();
    ask(&header, &call).await;
    call["params"]["_meta"]["traceparent"] = parent(&"0".repeat(32)).into();
    ask(&client, &call).await;
    let logged = async {
        while refused(&broker.log()).len() < 3 {
            tokio::task::yield_now().await;
        }
    };
    soon(logged).await;
    let log = broker.log();
    let traces = refused(&log);
    assert_eq!(traces[..2], [by_meta.as_str(), by_header.as_str()], "{log}");
    // Where the client names none that is one, the node begins one.
    let made = traces[2];
    assert!(made.len() == 32 && made.bytes().all(|it| it.is_ascii_hexdigit()), "{log}");
    assert!(![TRACE, &by_header, &"0".repeat(32)].contains(&made), "{log}");
    for trace in traces {
        assert!(ended(&node.log(), trace), "{trace}: {}", node.log());
    }
}

#[tokio::test]
async fn clients_that_go_away_are_no_errors() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::broker(&dir.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let node = Process::node(&dir.path().join("node"), address, "--role A --role B").await;
    drop(Stream::open(node.mcp, "B").await.unwrap());
    let client = Client::new(node.mcp, "/mcp/B").await;
    let wait = call(1, "await_my_turn", json!({ "timeout_sec": 600 })).to_string();
    let head = format!(
        "POST /mcp/B HTTP/1.1\r\nHost: localhost\r\nAccept: {}\r\nContent-Type: {}\r\n\
         Mcp-Session-Id: {}\r\nContent-Length: {}\r\n\r\n",
        BOTH.1,
        JSON.1,
        client.session,
        wait.len()
    );
    let whole = format!("{head}{wait}");
    // The wait, one of which half the body comes, and one of which half the head does.
    for said in [&whole[..], &whole[..head.len() + 1], &head[..30]] {
        let mut http = Http::connect(node.mcp).await;
        http.stream.get_mut().write_all(said.as_bytes()).await.unwrap();
    }
    let mut bridge = Agent::new(Transport::Stdio, "A", node.mcp, node.data.clone()).await;
    bridge.call("loop_status", json!({})).await.ok();
    drop(bridge);
    // One that stays is answered, and the node goes as it should.
    let mut agent = Agent::new(Transport::Session, "A", node.mcp, node.data.clone()).await;
    soon(agent.call("await_my_turn", json!({}))).await.unwrap();
    let (mut node, mut broker) = (node, broker);
    node.stop().await;
    broker.stop().await;
    for (who, log) in [("node", node.log()), ("broker", broker.log())] {
        let line = log.lines().find(|line| line.contains("ERROR") || line.contains("WARN"));
        assert_eq!(line, None, "{who}: {log}");
    }
}
