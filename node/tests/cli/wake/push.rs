//! Pushes: into the queue of Codex, through opencode's server, into a pane of tmux; and the command
//! that tries them.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{Bridged, Office, read_pipe};
use crate::{Said, process::soon};

#[tokio::test]
async fn codex_gets_a_message_in_the_queue_of_the_conversation_that_called() {
    let office = Office::open().await;
    let pipe = office.program("codex");
    let told = office.json(&["wake", "setup", "codex", "--role", "B"]).await;
    assert_eq!(told["files"][1]["change"], "created", "{told}");
    let mut codex = Bridged::connect(&office, "codex-mcp-client").await;
    let thread = "019ac0de-1111-7222-8333-444455556666";
    let told = codex.call("loop_status", json!({}), json!({ "threadId": thread })).await;
    assert_ne!(told["isError"], true, "{told}");
    assert_eq!(office.status().await["way"], "codex");
    let message = office.send("RULES $(touch x)", &["--subject", "RULES `id`"]).await;
    let told = read_pipe(&pipe).await;
    let words: Vec<&str> = told.lines().collect();
    assert_eq!(words[..4], ["queue", "--thread", thread, "--message"], "{told}");
    let sentence = format!(
        "Tasuki: something came for role B: letter {message} from A. Call filebox_wait_for_message."
    );
    assert_eq!(words[4..], [sentence]);
    let last = loop {
        let last = office.status().await["last"].clone();
        if !last.is_null() {
            break last;
        }
    };
    assert_eq!(
        (&last["by"], &last["arrivals"], &last["why"]),
        (&json!("codex"), &json!(1), &Value::Null)
    );
    // Nothing is set up any more: the node was told at once.
    office.json(&["wake", "remove", "codex"]).await;
    assert_eq!(office.status().await["adapters"], json!([]));
}

#[tokio::test]
async fn opencode_gets_a_prompt_in_the_session_that_was_used_last() {
    let office = Office::open().await;
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    for bad in ["http://192.0.2.1:4096", "https://127.0.0.1:1"] {
        let said = office.run(&["wake", "setup", "opencode", "--role", "B", "--url", bad]).await;
        assert!(
            said.code == 2 && said.err.contains("takes an address on this machine"),
            "{said:?}"
        );
    }
    office.json(&["wake", "setup", "opencode", "--role", "B", "--url", &url]).await;
    let message = office.send("x", &[]).await;
    let (asked, stream) = request(&server).await;
    assert!(asked.starts_with("GET /session HTTP/1.1\r\n"), "{asked}");
    let sessions = json!([
        { "id": "ses_old", "time": { "updated": 1 } },
        { "id": "ses_new", "time": { "updated": 2 } },
    ]);
    answer(stream, "200 OK", &sessions.to_string()).await;
    let (asked, stream) = request(&server).await;
    assert!(asked.starts_with("POST /session/ses_new/prompt_async HTTP/1.1\r\n"), "{asked}");
    let body: Value = serde_json::from_str(asked.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert!(body["parts"][0]["text"].as_str().unwrap().contains(&message), "{body}");
    answer(stream, "204 No Content", "").await;
    // What is not taken is tried again, and said to people.
    let last = loop {
        let last = office.status().await["last"].clone();
        if !last.is_null() {
            break last;
        }
    };
    assert_eq!((&last["by"], &last["why"]), (&json!("opencode"), &Value::Null), "{last}");
}

/// A whole request, and where to answer it.
async fn request(server: &TcpListener) -> (String, TcpStream) {
    let (mut stream, _) = soon(server.accept()).await.unwrap();
    let mut read = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = soon(stream.read(&mut part)).await.unwrap();
        read.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            if length.unwrap_or(0) <= body.len() {
                return (text, stream);
            }
        }
        assert_ne!(count, 0, "it broke off: {text}");
    }
}

async fn answer(mut stream: TcpStream, status: &str, body: &str) {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    stream.shutdown().await.ok();
}

#[tokio::test]
#[ignore = "needs tmux: a line is typed into a pane"]
async fn a_pane_of_tmux_gets_a_line_unless_it_shows_a_shell() {
    let office = Office::open().await;
    let (socket, pipe) = (office.at("tmux"), office.at("typed"));
    office.pipe(&pipe);
    let tmux = |arguments: &[&str]| {
        let mut command = tokio::process::Command::new("tmux");
        command.arg("-S").arg(&socket).args(["-f", "/dev/null"]).args(arguments);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    };
    // Somebody reads first: until then the client's shell opens the pipe.
    let typed = tokio::spawn({
        let pipe = pipe.clone();
        async move { read_pipe(&pipe).await }
    });
    // A client that reads one line; and a person's shell beside it.
    let client = format!("head -n 1 > '{}'", pipe.display());
    let mut start = tmux(&["new-session", "-d", "-x", "200", "-y", "50", "--", "sh", "-c"]);
    // `exec`: the pane runs the client itself.
    let started = soon(start.arg(format!("exec {client}")).status()).await.unwrap();
    assert!(started.success());
    soon(tmux(&["split-window", "-d", "--", "sh"]).status()).await.unwrap();
    let variable = format!("{},1,0", socket.display());
    let setup = async |pane: &str| {
        let mut command = office.command(&["wake", "setup", "tmux", "--role", "B", "--json"]);
        command.args(["--pane", pane]).env("TMUX", &variable);
        let said = Said::of(&soon(command.output()).await.unwrap());
        assert_eq!(said.code, 0, "{said:?}");
    };
    setup("%1").await;
    let message = office.send("x", &[]).await;
    let why = loop {
        if let Some(why) = office.status().await["last"]["why"].as_str() {
            break why.to_owned();
        }
    };
    assert!(why.contains("pane %1 shows a shell"), "{why}");
    // Another pane is typed into, once the pause after the failure is over: a restart has none.
    setup("%0").await;
    let mut up = office.up;
    up.stop().await;
    up.start().await;
    let typed = soon(typed).await.unwrap();
    assert!(typed.starts_with("Tasuki: something came for role B: ") && typed.contains(&message));
    soon(tmux(&["kill-server"]).status()).await.unwrap();
}

#[tokio::test]
async fn a_test_message_says_whether_it_was_seen() {
    let office = Office::open().await;
    let said = office.run(&["wake", "test", "B", "--within", "1ms"]).await;
    assert_eq!(said.code, 7, "{said:?}");
    assert!(said.out.starts_with("not handed within 1ms. How it is woken: not set up"), "{said:?}");
    let mut command = office.command(&["wake", "test", "B", "--json"]);
    let test = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first one is still there; each is put away as it comes.
    let put_away = async {
        loop {
            let told = office.json(&["mail", "wait", "--role", "B", "--timeout", "30s"]).await;
            let message = told["thread"]["message_id"].as_str().unwrap().to_owned();
            office.run(&["mail", "resolve", "--role", "B", &message]).await;
        }
    };
    let ended = tokio::select! {
        ended = soon(test.wait_with_output()) => ended.unwrap(),
        () = put_away => unreachable!("it goes on"),
    };
    let said = Said::of(&ended);
    assert_eq!(said.code, 0, "{said:?}");
    let told: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&told["role"], &told["seen"]), (&json!("B"), &json!(true)), "{told}");
    assert!(told["seen_after_ms"].is_u64(), "{told}");
}
