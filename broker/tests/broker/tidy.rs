//! Rules about the source itself, checked like any other.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A file that is longer no longer reads in one sitting.
const LINES_MAX: usize = 600;

pub(super) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for folder in ["proto/src", "broker/src", "node/src"] {
        sources(&root.join(folder), &mut found);
    }
    found
}

/// `rules` decides; it does not ask the world anything.
/// Holds A1.
#[test]
fn the_rules_are_pure() {
    let banned = [
        "tokio",
        "tonic",
        "ractor",
        "sled",
        "async fn",
        ".await",
        "std::fs",
        "std::net",
        "Instant",
        "SystemTime",
        "HashMap",
        "HashSet",
        "rand",
    ];
    let mut found = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rules"), &mut found);
    assert!(5 < found.len());
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for word in banned {
                assert!(!line.contains(word), "{}: {word} in the rules: {line}", path.display());
            }
        }
    }
}

/// What helps after a refusal is called differently by who is told, so nodes name it.
#[test]
fn the_broker_names_no_tool() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = fs::read_to_string(root.join("../node/tests/mcp/swarm.signatures.json")).unwrap();
    let tools = list.lines().filter_map(|line| line.split('"').nth(1));
    let tools: Vec<&str> = tools.collect();
    assert!(50 < tools.len());
    let is_name = |it: &&str| it.contains(|it: char| it.is_ascii_uppercase());
    let mut found = Vec::new();
    sources(&root.join("src"), &mut found);
    for path in found.iter().filter(|path| !path.to_string_lossy().contains("tests")) {
        let text = fs::read_to_string(path).unwrap();
        for tool in tools.iter().copied().filter(is_name) {
            let is_named = text.split(|it: char| !it.is_ascii_alphanumeric()).any(|it| it == tool);
            assert!(!is_named, "{} names {tool}", path.display());
        }
    }
}

#[test]
fn every_module_says_what_it_is_and_reads_in_one_sitting() {
    for path in all_sources() {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!"), "{} has no header", path.display());
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
    }
}

/// What `Debug` prints changes with a field's name: a hash of it would not be known again after an
/// upgrade.
#[test]
fn nothing_is_hashed_as_it_is_printed_for_debugging() {
    let hashes = ["Hash::of", "blake3::hash", ".update(", "fn content(", "Sha256::digest"];
    let mut hashing = 0;
    for path in all_sources().iter().filter(|path| !path.to_string_lossy().contains("tests")) {
        let text = fs::read_to_string(path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for at in (0..lines.len()).filter(|at| hashes.iter().any(|it| lines[*at].contains(it))) {
            hashing += 1;
            for line in &lines[at.saturating_sub(4)..lines.len().min(at + 8)] {
                let is_printed = line.contains(":?}") && line.contains("format!");
                // What is wrong on disk is said with the hashes there.
                let is_told = line.contains("damaged(") || line.contains("hash {");
                assert!(!is_printed || is_told, "{}: a hash near {line:?}", path.display());
            }
        }
    }
    assert!(40 < hashing, "{hashing}");
}

/// Only the clock modules ask what time it is.
#[test]
fn time_is_asked_in_one_place() {
    for path in all_sources().iter().filter(|path| !path.ends_with("clock.rs")) {
        let text = fs::read_to_string(path).unwrap();
        for ask in ["SystemTime::now", "std::time::Instant::now", "clock_gettime"] {
            assert!(!text.contains(ask), "{} asks {ask}", path.display());
        }
    }
}
