//! A node with as many roles as it may have.

use serde_json::{Value, json};
use tasuki_proto::limits::ROLES_MAX;

use crate::{
    http::Client,
    process::{Process, soon, tasuki},
};

fn roles(count: usize) -> String {
    (1..=count).map(|it| format!(" --role r{it}")).collect()
}

async fn ask(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = soon(client.call(tool, arguments)).await;
    assert_ne!(result["isError"], true, "{result}");
    result["structuredContent"].clone()
}

#[tokio::test]
async fn the_last_of_a_thousand_roles_gets_its_mail() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::up(&place.path().join("up"), &roles(ROLES_MAX)).await;
    let last = format!("r{ROLES_MAX}");
    let writer = Client::new(up.mcp, "/mcp/r1").await;
    let reader = Client::new(up.mcp, &format!("/mcp/{last}")).await;
    let letter = json!({ "receiver_id": last, "msg_type": "BR", "title": "t", "content": "hello" });
    ask(&writer, "filebox_send_message", letter).await;
    let woken = ask(&reader, "filebox_wait_for_message", json!({})).await;
    let entry = &woken["entries"][0];
    assert_eq!((&entry["from"], &entry["text"]), (&json!("r1"), &json!("hello")), "{woken}");
    let status = soon(up.run("status")).await;
    let said: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(said["roles"].as_array().map(Vec::len), Some(ROLES_MAX), "{said}");
}

#[tokio::test]
async fn one_role_more_is_refused_with_the_limit() {
    let place = tempfile::tempdir().unwrap();
    let mut node = tasuki(&place.path().join("node"));
    node.arg("node").args(roles(ROLES_MAX + 1).split_whitespace());
    let output = soon(node.output()).await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = format!("has {} roles; the limit is {ROLES_MAX}", ROLES_MAX + 1);
    assert!(!output.status.success() && said.contains(&expected), "{said}");
}
