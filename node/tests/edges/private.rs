//! Private mail between real machines: what their users type, and what is kept where.

use std::path::Path;

use serde_json::Value;

use crate::process::Process;

/// A command that must be refused: its exit code and its words.
async fn refused(of: &Process, line: &str) -> (i32, String) {
    let output = of.run(line).await;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = said["error"]["message"].as_str().unwrap_or_else(|| panic!("{said}"));
    (output.status.code().unwrap(), message.to_owned())
}

async fn said(of: &Process, line: &str) -> Value {
    of.json(&format!("mail private {line}")).await.remove(0)
}

async fn status(of: &Process) -> Value {
    said(of, "status").await
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// One machine with broker, A and B, and one with C; the first has the owner's key.
async fn machines(dir: &Path) -> (Process, Process) {
    let here = Process::up(&dir.join("here"), "--role A --role B").await;
    let there = Process::node(&dir.join("there"), here.broker.unwrap(), "--role C").await;
    (here, there)
}

/// Turns private mail on and lets the other machine take part.
async fn join_in(here: &Process, there: &Process) {
    let owner = text(&said(here, "on").await["owner"]);
    let trusted = said(there, &format!("trust {owner}")).await;
    let (node, key) = (text(&trusted["node"]), text(&trusted["key"]));
    said(here, &format!("approve {node} {key}")).await;
}

#[tokio::test]
async fn two_machines_and_three_roles_by_two_fingerprints() {
    let dir = tempfile::tempdir().unwrap();
    let (mut here, there) = machines(dir.path()).await;
    let before = status(&here).await;
    assert_eq!((&before["is_on"], &before["state"]), (&false.into(), &"none".into()));
    let (_, why) = refused(&there, "mail private trust").await;
    assert!(why.contains("never was private"), "{why}");

    let on = said(&here, "on").await;
    let owner = text(&on["owner"]);
    assert!(on["costs"].as_str().unwrap().contains("no forward secrecy"), "{on}");
    assert_eq!(said(&here, "on").await["is_repeat"], true);
    let (code, why) = refused(&there, "mail private on").await;
    assert!(code == 1 && why.contains("private already"), "{code} {why}");

    // Nothing is trusted because a broker showed it.
    let (code, why) = refused(&there, "mail private trust").await;
    assert!(code == 2 && why.contains(&owner), "{code} {why}");
    let wrong = "0000-0000-0000-0000-0000-0000-0000-0000";
    let (_, why) = refused(&there, &format!("mail private trust {wrong}")).await;
    assert!(why.contains("Nothing is trusted"), "{why}");
    assert_eq!(status(&there).await["trusted_owner"], Value::Null);
    let trusted = said(&there, &format!("trust {owner}")).await;
    let (node, key) = (text(&trusted["node"]), text(&trusted["key"]));
    assert_eq!(trusted["is_approved"], false);
    assert_eq!(status(&there).await["state"], "waits for the owner");

    let (code, why) = refused(&here, &format!("mail private approve {node}")).await;
    assert!(code == 2 && why.contains(&key), "{code} {why}");
    let (_, why) = refused(&here, &format!("mail private approve {node} {wrong}")).await;
    assert!(why.contains("Nothing is approved"), "{why}");
    let (_, why) = refused(&there, &format!("mail private approve {node} {key}")).await;
    assert!(why.contains("not on this machine"), "{why}");
    said(&here, &format!("approve {node} {key}")).await;

    // It is kept.
    here.kill().await;
    here.start().await;
    for machine in [&here, &there] {
        let now = status(machine).await;
        assert_eq!((&now["state"], &now["roster"]), (&"approved".into(), &2.into()), "{now}");
        let roles: Vec<_> = now["keys"].as_array().unwrap().iter().map(|it| &it["roles"]).collect();
        assert_eq!(
            Value::from_iter(roles.into_iter().cloned()).to_string(),
            r#"[["A","B"],["C"]]"#
        );
    }
}

#[tokio::test]
async fn keys_are_rotated_let_go_and_all_of_it_turned_off() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = machines(dir.path()).await;
    join_in(&here, &there).await;
    let first = text(&status(&there).await["key"]);
    let rotated = said(&there, "rotate").await;
    let (node, second) = (text(&rotated["node"]), text(&rotated["key"]));
    assert_ne!(first, second);
    assert_eq!(status(&there).await["state"], "waits for the owner");
    said(&here, &format!("approve {node} {second}")).await;
    let now = status(&there).await;
    assert_eq!(now["state"], "approved");
    let old = now["keys"].as_array().unwrap().iter().find(|it| it["key"] == first.as_str());
    assert!(0 < old.unwrap()["retired_ms"].as_u64().unwrap(), "{now}");

    // The owner's own machine waits for nobody.
    assert_eq!(said(&here, "rotate").await["is_approved"], true);
    assert_eq!(status(&here).await["state"], "approved");

    said(&here, &format!("remove {node}")).await;
    assert_eq!(status(&there).await["state"], "withdrawn");
    let (_, why) = refused(&here, &format!("mail private remove {node}")).await;
    assert!(why.contains("no key of"), "{why}");

    let (_, why) = refused(&there, "mail private off").await;
    assert!(why.contains("not on this machine"), "{why}");
    assert_eq!(said(&here, "off").await["is_on"], false);
    assert_eq!(said(&here, "off").await["is_repeat"], true);
    assert_eq!(status(&there).await["is_on"], false);
    let again = said(&here, "on").await;
    assert_eq!(again["owner"], status(&there).await["trusted_owner"], "it is the owner it was");
}

#[tokio::test]
async fn a_machine_without_a_node_is_told_to_start_one() {
    let dir = tempfile::tempdir().unwrap();
    let here = Process::up(&dir.path().join("here"), "--role A").await;
    let broker = here.broker.unwrap();
    let mut bare = crate::process::tasuki(&dir.path().join("bare"));
    bare.args(["mail", "private", "on", "--broker", &format!("http://{broker}"), "--data"]);
    let output = crate::process::soon(bare.arg(dir.path().join("bare")).output()).await.unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(5) && why.contains("Start one with"), "{why}");
}
