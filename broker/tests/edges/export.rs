//! Exports of a broker that serves or does not run, and what is made of them.

use std::{fs, path::Path};

use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, sync::watch, task::JoinSet};

use crate::{
    backup::{Pair, begun, check_restored},
    common::Dice,
    support::{Ended, Player, Process, assert_whole, channel, players, run, seed, soon, turns},
};

/// Exports the data that is in `data`.
pub(crate) async fn export(data: &Path, file: &Path) {
    let ended = run(&["export", file.to_str().unwrap()], data).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
}

async fn import(file: &Path, data: &Path) -> Ended {
    run(&["import", file.to_str().unwrap()], data).await
}

/// A new data directory made of an export, found whole.
pub(crate) async fn imported(file: &Path, data: &Path) {
    let ended = import(file, data).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(ended.log.contains("Nothing that was granted before holds"), "{}", ended.log);
    assert_whole(data).await;
}

/// The states and texts in an export, without the numbers that an import gives anew.
pub(crate) fn kept(file: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(file).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut lines: Vec<Value> =
        lines.filter(|it| it.get("state").is_some() || it.get("text").is_some()).collect();
    lines.iter_mut().for_each(forget_numbers);
    lines
}

fn forget_numbers(value: &mut Value) {
    match value {
        Value::Number(it) if it.as_u64().is_some_and(|it| 1_000_000_000_000 <= it) => {
            *value = Value::Null;
        }
        Value::Object(fields) => fields.values_mut().for_each(forget_numbers),
        Value::Array(items) => items.iter_mut().for_each(forget_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_under_load_is_of_one_commit_and_what_was_granted_is_refused_after_it() {
    let mut dice = Dice::new(seed());
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("file.jsonl"));
    let (broker, address) = Process::served(&data).await;
    let (stop, stopped) = watch::channel(false);
    let mut load = JoinSet::new();
    for mut player in players(&["load"], 2).into_values() {
        player.create(channel(address)).await.unwrap();
        let stopped = stopped.clone();
        load.spawn(async move {
            let mut turns = turns(address);
            while !*stopped.borrow() {
                player.play(&mut turns).await.unwrap();
            }
        });
    }
    let mut pair = Pair::new();
    for player in [&pair.first, &pair.second] {
        player.create(channel(address)).await.unwrap();
    }
    for _ in 0..=dice.roll(20) {
        pair.play(address).await;
    }
    let before = pair.second.acknowledged;
    let exporting = export(&data, &file);
    tokio::pin!(exporting);
    loop {
        tokio::select! {
            () = &mut exporting => break,
            () = pair.play(address) => {}
        }
    }
    stop.send_replace(true);
    while let Some(ended) = soon("the load ends", load.join_next()).await {
        ended.unwrap();
    }
    broker.kill().await;
    let copy = dir.path().join("imported");
    imported(&file, &copy).await;
    check_restored(&copy, &pair, before).await;
}

/// An export of two workspaces with five handovers each, which nobody serves any more.
async fn exported(dir: &Path) -> std::path::PathBuf {
    let (data, file) = (dir.join("data"), dir.join("file.jsonl"));
    let (broker, address) = Process::served(&data).await;
    for workspace in ["one", "two"] {
        let mut player = Player::new(workspace, "chain");
        player.create(channel(address)).await.unwrap();
        for _ in 0..5 {
            player.play(&mut turns(address)).await.unwrap();
        }
    }
    broker.kill().await;
    export(&data, &file).await;
    file
}

#[tokio::test]
async fn an_export_that_is_cut_off_or_changed_is_refused_and_nothing_is_made_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = exported(dir.path()).await;
    let whole = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    let (mut swapped, mut longer) = (lines.clone(), lines.clone());
    let text = lines.iter().position(|it| it.starts_with("{\"text\"")).unwrap();
    swapped.swap(1, text);
    longer.push(lines[text]);
    let without_end = joined(&lines[..lines.len() - 1]);
    let unknown = whole.replacen("{\"workspace\":{", "{\"workspace\":{\"color\":1,", 1);
    let spoilt = dir.path().join("spoilt.jsonl");
    for (content, expected) in [
        (String::new(), "is no export"),
        ("something else\n".to_owned(), "is no export"),
        (whole[..whole.len() / 2].to_owned(), "was cut off"),
        (whole[..whole.len() - 1].to_owned(), "was cut off"),
        (without_end, "was cut off"),
        (whole.replacen("\"version\":1", "\"version\":2", 1), "has version 2"),
        (whole.replacen("\"summary\":\"", "\"summary\":\"x", 1), "another hash"),
        (unknown, "Line 2 of the export: it holds something"),
        (joined(&swapped), "Line 2 of the export: it does not belong here"),
        (joined(&longer), "something comes after it"),
        (whole.replacen("{\"state\"", "[\"state\"", 1), "Line 3 of the export"),
        (whole.replacen('\n', &format!("\n{}\n", "[".repeat(100_000)), 1), "recursion limit"),
    ] {
        assert!(content != whole, "{expected}");
        fs::write(&spoilt, content).unwrap();
        let target = dir.path().join("refused");
        let ended = import(&spoilt, &target).await;
        assert_eq!(ended.code, Some(65), "{expected}: {ended:?}");
        assert!(ended.log.contains(expected), "{expected}: {}", ended.log);
        assert!(!target.join("broker").exists() && !target.join("broker.restoring").exists());
    }
    // Whoever reads it wants no more.
    let words = crate::support::arguments(&["export", "-"], &dir.path().join("data"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_tasuki-broker"))
        .args(words)
        .stdout(writer)
        .output()
        .unwrap();
    let log = String::from_utf8(ended.stderr).unwrap();
    assert!(log.contains("Standard output cannot be written: Broken pipe"), "{log}");
    let ended = import(&file, &dir.path().join("data")).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert_whole(&dir.path().join("data")).await;
}

#[tokio::test]
async fn data_in_which_nothing_was_said_yet_is_exported_and_imported() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("file.jsonl"));
    let (broker, address) = Process::served(&data).await;
    crate::support::make(channel(address), "empty", "client").await.unwrap();
    export(&data, &file).await;
    broker.kill().await;
    let copy = dir.path().join("copy");
    imported(&file, &copy).await;
    let again = dir.path().join("again.jsonl");
    export(&copy, &again).await;
    assert!(fs::read_to_string(&again).unwrap().contains("\"empty\""));
}

#[tokio::test]
async fn one_workspace_goes_without_the_others_and_without_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let file = exported(dir.path()).await;
    let (data, one) = (dir.path().join("data"), dir.path().join("one.jsonl"));
    let name = one.to_str().unwrap();
    let ended = run(&["export", "--workspace", "one", name], &data).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let copy = dir.path().join("copy");
    let ended = run(&["import", "--workspace", "one", file.to_str().unwrap()], &copy).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let again = dir.path().join("again.jsonl");
    export(&copy, &again).await;
    for file in [&one, &again] {
        let lines = fs::read_to_string(file).unwrap();
        assert!(lines.contains("\"one\"") && !lines.contains("\"two\""), "{lines}");
        assert!(!lines.contains("\"secret\""), "{lines}");
    }
    for words in [["export", "--workspace", "three", "-"], ["import", "--workspace", "three", name]]
    {
        let data = if words[0] == "export" { data.clone() } else { dir.path().join("three") };
        let ended = run(&words, &data).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.log.contains("no workspace three"), "{}", ended.log);
    }
}

#[tokio::test]
async fn an_import_that_is_killed_leaves_nothing_that_starts_and_the_next_one_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let file = exported(dir.path()).await;
    let (whole, target) = (fs::read(&file).unwrap(), dir.path().join("target"));
    let mut child = begun("import", &whole[..whole.len() / 2], &target).await;
    child.kill().await.unwrap();
    assert!(!target.join("broker").exists());
    imported(&file, &target).await;
}

#[tokio::test]
async fn of_two_imports_at_once_the_first_is_whole_and_the_second_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = exported(dir.path()).await;
    let (whole, target) = (fs::read(&file).unwrap(), dir.path().join("target"));
    let mut child = begun("import", &whole[..whole.len() / 2], &target).await;
    let ended = import(&file, &target).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
    let mut input = child.stdin.take().unwrap();
    input.write_all(&whole[whole.len() / 2..]).await.unwrap();
    drop(input);
    assert!(soon("the import ends", child.wait()).await.unwrap().success());
    assert_whole(&target).await;
}
