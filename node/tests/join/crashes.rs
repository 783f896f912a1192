//! `kill -9` at every step, and the same line again.

use std::{path::PathBuf, process::Stdio};

use serde_json::Value;

use crate::join::{
    relay::Relay,
    world::{Home, Host, soon},
};

/// More pieces than any command here needs.
const PIECES_MAX: usize = 64;

/// A host whose lines lead through a relay.
async fn behind_a_relay(place: &std::path::Path) -> (Host, Relay) {
    let relay = Relay::new().await;
    let more = format!("--advertise 127.0.0.1:{}", relay.address.port());
    let host = Host::serving(place, "host", &more).await;
    relay.lead_to(host.address());
    (host, relay)
}

/// Runs a command that is killed when so many pieces went through; says whether it had ended by
/// itself.
async fn cut(laptop: &Home, line: &str, relay: &Relay, pieces: usize) -> bool {
    relay.cut_after(pieces);
    let mut command = laptop.command(line);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = tokio::select! {
        status = soon(child.wait()) => Some(status.unwrap()),
        () = relay.is_cut() => None,
    };
    soon(child.kill()).await.unwrap();
    relay.cut_after(usize::MAX);
    status.is_some_and(|status| status.success())
}

/// Holds U2.
#[tokio::test]
async fn a_join_that_was_killed_at_any_piece_is_ended_by_the_same_line() {
    let place = tempfile::tempdir().unwrap();
    let (host, relay) = behind_a_relay(place.path()).await;
    let mut used_before = 0;
    for pieces in 0.. {
        assert!(pieces < PIECES_MAX, "it never ends");
        let laptop = Home::new(place.path(), &format!("laptop-{pieces}"));
        let line = host.invite("--role dev").await;
        let is_done = cut(&laptop, &line, &relay, pieces).await;
        let was_used = !host.invitation(&line).await["token_id"].is_null();
        used_before += usize::from(was_used && !is_done);
        laptop.says(&line).await;
        let story = host.invitation(&line).await;
        let joined = laptop.read("joined.json");
        let id = story["token_id"].as_str().unwrap();
        assert!(joined["token"].as_str().unwrap().starts_with(&format!("tasuki_{id}_")));
        assert_eq!(story["misuses"], serde_json::json!([]), "after {pieces} pieces");
        assert!(!laptop.file("joined.json.pending").exists(), "after {pieces} pieces");
        laptop.says("tasuki status").await;
        if is_done {
            break;
        }
    }
    assert!(0 < used_before, "no answer was lost on its way");
    // One token for each line, and the administrator's.
    let listed = host.home.json("tasuki-broker invitations list").await;
    let lines = listed["invitations"].as_array().unwrap().len();
    assert_eq!(host.tokens().await.len(), lines + 1);
}

#[tokio::test]
async fn a_join_that_was_killed_as_a_file_appeared_is_ended_by_the_same_line() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    for (number, name) in
        ["joined.lock", "joined.json.pending", "joined.json", "tasuki.toml"].iter().enumerate()
    {
        let laptop = Home::new(place.path(), &format!("laptop-{number}"));
        let line = host.invite("--role dev").await;
        let mut child = laptop.command(&line).stdout(Stdio::null()).spawn().unwrap();
        let file: PathBuf = laptop.file(name);
        soon(async {
            while !file.exists() && child.try_wait().unwrap().is_none() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        soon(child.kill()).await.unwrap();
        laptop.says(&line).await;
        assert_eq!(host.invitation(&line).await["misuses"], serde_json::json!([]), "{name}");
        laptop.says("tasuki status").await;
        assert!(laptop.file("tasuki.toml").exists());
    }
}

#[tokio::test]
async fn a_rotation_that_was_killed_at_any_piece_leaves_a_token_that_is_good() {
    let place = tempfile::tempdir().unwrap();
    let (host, relay) = behind_a_relay(place.path()).await;
    let laptop = Home::new(place.path(), "laptop");
    laptop.says(&host.invite("--role dev").await).await;
    let token = |laptop: &Home| -> Value { laptop.read("joined.json")["token"].clone() };
    let (mut is_done, mut pieces, mut was_spare) = (false, 0, 0);
    while !is_done {
        assert!(pieces < PIECES_MAX, "it never ends");
        let before = token(&laptop);
        is_done = cut(&laptop, "tasuki broker-token rotate --overlap 1s", &relay, pieces).await;
        // Whichever of the two is good is found, with no more than the files that are there. The
        // old one ends when the broker says so, not by the time this test takes.
        laptop.says("tasuki status").await;
        was_spare += usize::from(laptop.file("joined.json.rotating").exists());
        laptop.says("tasuki broker-token rotate").await;
        laptop.says("tasuki status").await;
        assert_ne!(token(&laptop), before, "after {pieces} pieces");
        assert!(!laptop.file("joined.json.rotating").exists(), "after {pieces} pieces");
        pieces += 1;
    }
    assert!(0 < was_spare, "no rotation was cut short");
}

/// The old secret is over before anybody looks again.
#[tokio::test]
async fn a_rotation_whose_answer_was_lost_is_found_out_after_the_old_secret_ended() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    let laptop = Home::new(place.path(), "laptop");
    laptop.says(&host.invite("--role dev").await).await;
    let old = laptop.read("joined.json");
    laptop.says("tasuki broker-token rotate").await;
    let new = laptop.read("joined.json");
    laptop.says("tasuki status").await;
    // As a crash after the broker's answer leaves it; the new secret was used, so the old ended.
    let write = |name: &str, text: &str| {
        tasuki_proto::host::files::replace(&laptop.file(name), text.as_bytes()).unwrap();
    };
    for command in ["tasuki status", "tasuki loop status", "tasuki broker-token rotate"] {
        let before =
            if command.ends_with("rotate") { laptop.read("joined.json") } else { new.clone() };
        write("joined.json.rotating", before["token"].as_str().unwrap());
        write("joined.json", &old.to_string());
        laptop.says(command).await;
        assert_eq!(laptop.read("joined.json")["token"], new["token"], "{command}");
        assert!(!laptop.file("joined.json.rotating").exists(), "{command}");
    }
}
