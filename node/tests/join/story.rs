//! From two machines that know nothing of each other to agents that take turns.

use serde_json::{Value, json};

use crate::join::world::{Home, Host, until};

/// As the README has it: nothing but these lines is typed.
#[tokio::test]
async fn two_machines_take_turns_after_a_line_each() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    let (dev, qa) = (Home::new(place.path(), "dev"), Home::new(place.path(), "qa"));
    let mut nodes = Vec::new();
    for (laptop, role) in [(&dev, "dev"), (&qa, "qa")] {
        let line = host.invite(&format!("--workspace w --role {role} --expires 5m")).await;
        let said = laptop.says(&line).await;
        assert!(said.ends_with("Next: tasuki node\n"), "{said}");
        nodes.push(laptop.node().await);
    }
    for laptop in [&dev, &qa] {
        until(async || {
            let status = laptop.json("tasuki status").await;
            let all = status["nodes"].as_array().unwrap();
            all.len() == 2 && all.iter().all(|node| node["is_present"] == true)
        })
        .await;
    }
    let handover =
        dev.says("tasuki loop handover --role dev --summary built --instruction test").await;
    assert!(handover.contains("qa"), "{handover}");
    let seen = qa.json("tasuki loop status").await;
    assert_eq!(seen["loop"]["holder"], "qa", "{seen}");

    let access = qa.json("tasuki status").await["access"].clone();
    let joined = qa.read("joined.json");
    assert_eq!(access["fingerprint"], joined["fingerprint"]);
    assert_eq!((&access["roles"], &access["workspace"]), (&json!(["qa"]), &json!("w")));
    assert_eq!(access["expires_ms"], Value::Null);
}

/// Whoever can read the broker's data may do everything with it anyway.
#[tokio::test]
async fn on_the_broker_s_own_data_nobody_has_to_join() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    let _node = host.home.node().await;
    until(async || {
        let status = host.home.json("tasuki status").await;
        status["nodes"][0]["is_present"] == true
    })
    .await;
    let moved = host.home.says("tasuki loop handover --role A --summary s --instruction i").await;
    assert!(moved.contains('B'), "{moved}");
}

/// The two kinds of secret a host gives away outlive its broker.
#[tokio::test]
async fn a_broker_that_starts_again_knows_everybody() {
    let place = tempfile::tempdir().unwrap();
    let mut host = Host::new(place.path(), "host").await;
    let laptop = Home::new(place.path(), "laptop");
    let (line, later) = (host.invite("--role dev").await, host.invite("--role qa").await);
    laptop.says(&line).await;
    let admin = host.home.read("broker/admin.json");
    host.restart().await;
    assert_eq!(host.home.read("broker/admin.json")["token"], admin["token"]);
    laptop.says("tasuki status").await;
    Home::new(place.path(), "other").says(&later).await;
    assert_eq!(host.tokens().await.len(), 3);
}

#[tokio::test]
async fn what_was_joined_is_told_and_what_contradicts_it_too() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    let laptop = Home::new(place.path(), "laptop");
    std::fs::create_dir_all(laptop.data()).unwrap();
    let settings = laptop.file("tasuki.toml");
    std::fs::write(&settings, "# mine\nhold = \"30s\" # short\nroles = [\"qa=loop\"]\n").unwrap();
    let line = host.invite("--role dev --role qa --token-expires 3d --label Eve's").await;
    let mut command = laptop.command(&format!("{line} --json"));
    let output = command.env("TASUKI_WORKSPACE", "other").output().await.unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let notes = said["joined"]["notes"].as_array().unwrap();
    assert_eq!(notes.len(), 1, "{said}");
    assert_eq!(
        notes[0],
        "`workspace` is other by TASUKI_WORKSPACE, which counts before what was joined \
         (default); take it out there to use what was joined."
    );
    let broker = &host.broker.url;
    assert_eq!(
        std::fs::read_to_string(settings).unwrap(),
        format!(
            "# mine\nhold = \"30s\" # short\nroles = [\"qa=loop\", \"dev\"]\n\
             broker = \"{broker}\"\nworkspace = \"default\"\n"
        )
    );
    let status = laptop.says("tasuki status").await;
    assert!(status.contains("ask for an invitation and join again"), "{status}");
    let shown = laptop.says("tasuki broker-token show").await;
    assert!(shown.contains("dev, qa in workspace default"), "{shown}");

    let here = laptop.path.join("tasuki.toml");
    std::fs::write(&here, "broker = \"http://127.0.0.1:9\"\nroles = [\"dev\"]\n").unwrap();
    laptop.says("tasuki trust").await;
    let again = laptop.json(&line).await;
    let first = again["joined"]["notes"][0].as_str().unwrap();
    assert!(first.contains("`broker` is http://127.0.0.1:9 by"), "{first}");
}

#[tokio::test]
async fn what_joining_wrote_into_a_directory_counts_there_until_it_changes() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    let laptop = Home::new(place.path(), "laptop");
    let line = host.invite("--role dev").await;
    // The directory came with settings, and is no place for a user's own.
    let here = laptop.path.join("tasuki.toml");
    std::fs::write(&here, "lease = \"7m\"\n").unwrap();
    laptop.says(&format!("{line} --data .")).await;
    let settings = laptop.json("tasuki config check").await["settings"].clone();
    assert_eq!(settings["broker"]["value"], host.broker.url.as_str());
    assert_eq!(settings["lease"]["value"], "7m");
    let text = std::fs::read_to_string(&here).unwrap();
    std::fs::write(&here, format!("{text}mirror = true\n")).unwrap();
    let output = laptop.run("tasuki status").await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("changed since you"), "{said}");

    // What somebody else said in it before is not trusted along with it.
    laptop.says("tasuki trust --revoke").await;
    let again = format!("{} --data .", host.invite("--role qa").await);
    for command in [&again, "tasuki status"] {
        let output = laptop.run(command).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains("`broker` and `mirror`"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn joining_another_broker_replaces_what_was_joined() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = (Host::new(place.path(), "one").await, Host::new(place.path(), "two").await);
    let laptop = Home::new(place.path(), "laptop");
    laptop.says(&one.invite("--role dev").await).await;
    let before = laptop.read("joined.json");
    let node = laptop.node().await;
    let said = laptop.json(&two.invite("--role qa").await).await;
    let notes = said["joined"]["notes"].as_array().unwrap().clone();
    let is_told = |words: &str| notes.iter().any(|it| it.as_str().unwrap().contains(words));
    assert!(is_told(&format!("replaces what was joined before, {}", one.broker.url)), "{said}");
    assert!(is_told("A node runs with this data"), "{said}");
    assert!(is_told("Roles that the token does not allow were taken out: dev."), "{said}");
    drop(node);
    let after = laptop.read("joined.json");
    assert_eq!(after["broker"], two.broker.url.as_str());
    assert_ne!(after["token"], before["token"]);
    assert_eq!(laptop.json("tasuki status").await["broker"]["url"], two.broker.url.as_str());
}
