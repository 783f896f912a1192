//! The examples run, with small numbers. `cargo test --workspace` builds what they start.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use std::process::Command;

/// What an example prints.
fn run(example: &str, arguments: &[&str]) -> String {
    let own = std::env::current_exe().unwrap();
    let folder = own.ancestors().nth(2).unwrap().join("examples");
    let output = Command::new(folder.join(example)).args(arguments).output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{example}: {}\n{said}\n{errors}", output.status);
    said.into_owned()
}

#[test]
fn two_agents_take_ten_turns() {
    let said = run("two_agents", &[]);
    assert!(said.contains("10 turns; the broker's history has 10 handovers"), "{said}");
}

#[test]
fn nothing_is_lost_or_doubled_in_crashes() {
    let said = run("crash_and_resume", &[]);
    assert!(said.contains("nothing lost, nothing twice"), "{said}");
}

#[test]
fn every_figure_can_be_measured() {
    let said = run("load", &["--quick", "--json"]);
    let figures: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(figures.len(), 17, "{said}");
    for figure in figures {
        let score = figure["score"].as_f64().unwrap();
        // A few waits may fit into pages the process had before.
        let is_memory = figure["name"].as_str().unwrap().contains("memory");
        assert!(score.is_normal() || (is_memory && score == 0.0), "{figure}");
    }
}
