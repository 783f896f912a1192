//! Tokens while they are used: rotated, passed on, revoked, overridden.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::join::world::{Home, Host, done, until};

/// Rotations under load.
const ROTATIONS: usize = 5;

/// People who ask all the time.
const ASKING: usize = 3;

async fn joined(place: &std::path::Path) -> (Host, Home) {
    let host = Host::new(place, "host").await;
    let laptop = Home::new(place, "laptop");
    laptop.says(&host.invite("--role dev --right read --right host --right send").await).await;
    (host, laptop)
}

fn id(laptop: &Home) -> String {
    let token = laptop.read("joined.json")["token"].as_str().unwrap().to_owned();
    token.split('_').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn a_token_is_rotated_under_load_and_nothing_fails() {
    let place = tempfile::tempdir().unwrap();
    let (host, laptop) = joined(place.path()).await;
    let node = laptop.node().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicUsize::new(0));
    let asking: Vec<_> = (0..ASKING)
        .map(|_| {
            let (laptop, is_over, asked) = (laptop.clone(), is_over.clone(), asked.clone());
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    laptop.says("tasuki loop status").await;
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for _ in 0..ROTATIONS {
        laptop.says("tasuki broker-token rotate").await;
        let before = asked.load(Ordering::Relaxed);
        until(async || before + ASKING < asked.load(Ordering::Relaxed)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for asking in asking {
        asking.await.unwrap();
    }
    // The node's link goes on with what it finds when it has to connect again.
    drop(host);
    let said = node.said();
    assert!(!said.contains("unauthenticated"), "{said}");
}

#[tokio::test]
async fn a_node_goes_on_with_a_rotated_token_when_the_broker_was_away() {
    let place = tempfile::tempdir().unwrap();
    let (mut host, laptop) = joined(place.path()).await;
    let _node = laptop.node().await;
    let is_there = async || {
        let status = laptop.run("tasuki status --json").await;
        let text = String::from_utf8(status.stdout).unwrap();
        text.contains("\"is_present\":true")
    };
    until(is_there).await;
    for _ in 0..2 {
        laptop.says("tasuki broker-token rotate").await;
        laptop.says("tasuki loop status").await;
    }
    host.restart().await;
    until(is_there).await;
}

/// Its process still has the registration of the token before.
#[tokio::test]
async fn a_running_node_goes_on_with_what_joined_after_its_token_was_revoked() {
    let place = tempfile::tempdir().unwrap();
    let (host, laptop) = joined(place.path()).await;
    let node = laptop.node().await;
    until(async || node.said().contains("epoch=1")).await;
    host.home.says(&format!("tasuki-broker token revoke {}", id(&laptop))).await;
    until(async || node.said().contains("was revoked")).await;
    laptop.says(&host.invite("--role dev").await).await;
    until(async || node.said().contains("epoch=2")).await;
}

/// What a node answers a browser with.
async fn page(url: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_nodes_pages_offer_what_its_token_may_do_and_say_when_it_is_revoked() {
    let place = tempfile::tempdir().unwrap();
    let (host, laptop) = joined(place.path()).await;
    let node = laptop.node().await;
    let now = page(&node.url, "/w/default/now").await;
    assert!(now.starts_with("HTTP/1.1 200") && now.contains("main"), "{now}");
    assert!(!now.contains("Reclaim") && !now.contains("Start a loop"), "{now}");
    host.home.says(&format!("tasuki-broker token revoke {}", id(&laptop))).await;
    until(async || page(&node.url, "/w/default/now").await.starts_with("HTTP/1.1 401")).await;
    let first = page(&node.url, "/").await;
    assert!(first.contains("`tasuki join` with a new invitation"), "{first}");
}

#[tokio::test]
async fn an_administrator_rotates_and_the_node_reads_it_from_standard_input() {
    let place = tempfile::tempdir().unwrap();
    let (host, laptop) = joined(place.path()).await;
    let line = format!("tasuki-broker token rotate {} --overlap 1h", id(&laptop));
    let token = host.home.says(&line).await;
    done("set", &laptop.told("tasuki broker-token set", &token).await);
    assert_eq!(laptop.read("joined.json")["token"], token.trim());
    laptop.says("tasuki status").await;

    let other = host.home.json("tasuki-broker token new --role x --label program").await;
    let token = other["token"].as_str().unwrap();
    done("set", &laptop.told("tasuki broker-token set", token).await);
    assert_eq!(laptop.json("tasuki broker-token show").await["roles"], serde_json::json!(["x"]));

    // One that the broker does not know is not kept, whatever it looks like.
    let (kept, stranger) = (laptop.read("joined.json"), token.replace("tasuki_", "tasuki_00"));
    for (input, code) in [(stranger.as_str(), 1), ("hunter2", 2), ("", 2)] {
        let output = laptop.told("tasuki broker-token set", input).await;
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("hunter2"), "{said}");
        assert_eq!(laptop.read("joined.json"), kept);
    }
}

/// A machine that never joined is given a token by hand.
#[tokio::test]
async fn a_token_is_set_where_nothing_was_joined() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    let made = host.home.json("tasuki-broker token new --right read --right steer").await;
    let token = made["token"].as_str().unwrap();
    let admin = host.home.read("broker/admin.json");
    let fingerprint = admin["fingerprint"].as_str().unwrap();
    let laptop = Home::new(place.path(), "laptop");
    let url = &host.broker.url;
    let set = format!("tasuki broker-token set --broker {url} --fingerprint {fingerprint}");
    done(&set, &laptop.told(&set, token).await);
    laptop.says(&format!("tasuki status --broker {url}")).await;
    // By a variable, for programs that are given their secrets so.
    let other = Home::new(place.path(), "other");
    done(&set, &other.told(&set, token).await);
    let mut command = other.command(&format!("tasuki status --broker {url}"));
    let output = command.env("TASUKI_TOKEN", admin["token"].as_str().unwrap()).output().await;
    let said = done("status", &output.unwrap());
    assert!(said.contains("every role in every workspace"), "{said}");
}

/// A key that nobody heard of would look as if this machine were the owner.
#[tokio::test]
async fn whoever_may_not_make_mail_private_is_left_without_an_owner_s_key() {
    let place = tempfile::tempdir().unwrap();
    let (_host, laptop) = joined(place.path()).await;
    let _node = laptop.node().await;
    let (code, kind, said) = laptop.refused("tasuki mail private on").await;
    assert_eq!((code, kind.as_str()), (1, "right_forbidden"), "{said}");
    assert!(!laptop.file("mail-owner.json").exists());
}

#[tokio::test]
async fn a_revoked_token_is_of_no_more_use_and_its_node_says_so() {
    let place = tempfile::tempdir().unwrap();
    let (host, laptop) = joined(place.path()).await;
    let node = laptop.node().await;
    until(async || laptop.says("tasuki status --json").await.contains("\"is_present\":true")).await;
    let id = id(&laptop);
    let line = format!("tasuki-broker token revoke {id}");
    host.home.says(&line).await;
    // Twice is once.
    host.home.says(&line).await;
    let (exit, code, message) = laptop.refused("tasuki loop status").await;
    assert_eq!((exit, code.as_str()), (1, "unauthenticated"), "{message}");
    assert!(message.contains("revoked"), "{message}");
    until(async || node.said().contains("revoked")).await;
    let listed = host.tokens().await;
    let it = listed.iter().find(|it| it["token_id"] == id.as_str()).unwrap();
    assert!(it["revoked_ms"].as_u64().is_some(), "{it}");

    let (exit, code, _) = laptop.refused("tasuki broker-token rotate").await;
    assert_eq!((exit, code.as_str()), (1, "unauthenticated"));
    assert!(!laptop.file("joined.json.rotating").exists());
}

#[tokio::test]
async fn the_administration_token_is_rotated_in_place() {
    let place = tempfile::tempdir().unwrap();
    let mut host = Host::new(place.path(), "host").await;
    let before = host.home.read("broker/admin.json");
    let id = host.tokens().await[0]["token_id"].as_str().unwrap().to_owned();
    let said = host.home.json(&format!("tasuki-broker token rotate {id}")).await;
    assert!(said["token"].is_null(), "{said}");
    let after = host.home.read("broker/admin.json");
    assert_ne!(after["token"], before["token"]);
    assert!(after.get("next_token").is_none(), "{after}");
    host.invite("--role dev").await;
    // As a crash before the last step leaves it: the old one is over, the new one is beside it.
    let mut cut = before.clone();
    cut["next_token"] = after["token"].clone();
    cut.as_object_mut().unwrap().remove("check");
    let file = host.home.file("broker/admin.json");
    tasuki_proto::host::files::replace(&file, cut.to_string().as_bytes()).unwrap();
    host.invite("--role dev").await;
    host.restart().await;
    assert_eq!(host.home.read("broker/admin.json")["token"], after["token"]);
    // Revoked, it is of no use until the broker starts again and makes another.
    host.home.says(&format!("tasuki-broker token revoke {id}")).await;
    let (exit, code, _) = host.home.refused("tasuki-broker token list").await;
    assert_eq!((exit, code.as_str()), (1, "unauthenticated"));
    host.restart().await;
    host.invite("--role dev").await;
}
