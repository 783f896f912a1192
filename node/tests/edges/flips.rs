//! One flipped bit in any file of a node: it says which file, or keeps every letter as it was.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{
    chance::Chance,
    http::Client,
    process::{Process, soon},
    stored::{outbox, status},
    strikes::rounds,
};

const LETTERS: usize = 3;

/// Files by their names below the data directory.
type Files = BTreeMap<String, Vec<u8>>;

fn read(root: &Path, below: &Path, files: &mut Files) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.insert(name, fs::read(&path).unwrap());
        }
    }
}

/// As it was: what is not among these is gone, and modes stay.
fn restore(root: &Path, files: &Files) {
    let mut there = Files::new();
    read(root, root, &mut there);
    for name in there.keys().filter(|name| !files.contains_key(*name)) {
        fs::remove_file(root.join(name)).unwrap();
    }
    for (name, bytes) in files {
        let path = root.join(name);
        // One that was put aside was written for its owner alone.
        drop(tasuki_proto::host::files::private(&path).unwrap());
        fs::write(path, bytes).unwrap();
    }
}

/// Starts the node; whether it serves, and what it said.
async fn begin(node: &Process) -> (Option<tokio::process::Child>, String) {
    let log = node.data.with_extension("flip.log");
    let mut command = node.command();
    command.stdout(std::process::Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut serves = false;
    while let Some(line) = soon(lines.next_line()).await.unwrap() {
        if line.contains("(MCP)") {
            serves = true;
            break;
        }
    }
    if !serves {
        let ended = soon(child.wait()).await.unwrap();
        assert_ne!(ended.code(), Some(101), "{}", fs::read_to_string(&log).unwrap());
    }
    (serves.then_some(child), fs::read_to_string(&log).unwrap())
}

#[tokio::test]
async fn a_flipped_bit_in_any_file_of_a_node_is_named_or_harmless() {
    let place = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&place.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let data = place.path().join("node");
    let mut plain = Process::node(&data, address, "--role A --role C").await;
    soon(async { while status(&plain).await["broker"]["state"] != "connected" {} }).await;
    broker.kill().await;
    let client = Client::new(plain.mcp, "/mcp/A").await;
    for number in 0..LETTERS {
        let letter = json!({ "receiver_id": "C", "msg_type": "BR", "title": format!("{number}"),
            "content": format!("letter {number}") });
        let told = soon(client.call("filebox_send_message", letter)).await;
        assert!(told["structuredContent"]["queued"].is_number(), "{told}");
    }
    plain.stop().await;
    // With tokens for its agents and a certificate.
    let mut node = Process::node(&data, address, "--role A --role C --secure").await;
    let whole = outbox(&node).await;
    assert_eq!(whole.len(), LETTERS);
    node.stop().await;

    let mut files = Files::new();
    read(&data, &data, &mut files);
    let names: Vec<&String> = files.keys().filter(|name| !files[*name].is_empty()).collect();
    let mut chance = Chance::new(20);
    let (mut ended, mut fewer, mut harmless) = (0, 0, 0);
    for _ in 0..rounds(1) {
        let name = names[usize::try_from(chance.below(names.len() as u64)).unwrap()];
        let bit = usize::try_from(chance.below(files[name].len() as u64 * 8)).unwrap();
        let mut spoilt = files[name].clone();
        spoilt[bit / 8] ^= 1 << (bit % 8);
        fs::write(data.join(name), spoilt).unwrap();
        let (child, log) = begin(&node).await;
        let what = format!("{name}, bit {bit}: {log}");
        assert!(!log.contains("panicked"), "{what}");
        // Files of a folder stand for one another.
        let (folder, file) = name.rsplit_once('/').unwrap_or((name, name));
        let is_named = log.contains(file) || log.contains(&format!("/{folder}"));
        match child {
            None => {
                assert!(is_named, "{what}");
                ended += 1;
            }
            Some(mut child) => {
                let kept: Vec<Value> = outbox(&node).await;
                assert!(kept.iter().all(|letter| whole.contains(letter)), "{kept:?} {what}");
                assert!(kept.len() == LETTERS || is_named, "{kept:?} {what}");
                *(if kept.len() == LETTERS { &mut harmless } else { &mut fewer }) += 1;
                soon(child.kill()).await.unwrap();
            }
        }
        restore(&data, &files);
    }
    anstream::println!("{ended} did not start, {fewer} kept a letter back, {harmless} harmless");
}
