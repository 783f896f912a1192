//! Runs the conformance suite, and judges what it says.
//!
//! Every check must succeed that `expected.txt` does not list, the suite's warnings and what it
//! skips included; and every check listed there must still not succeed, so that the list stays
//! true.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde::Deserialize;
use tokio::{process::Command, time::timeout};

/// For one run of the suite on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// How the suite ends the name of a result's folder: `-2026-11-22T02-15-32-928Z`.
const STAMP_CHARS: usize = 25;

/// By `SCENARIO:CHECK`: what the suite holds against it, if anything.
type Verdicts = BTreeMap<String, Option<String>>;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: String,
    status: Status,
    error_message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    Success,
    Info,
    Skipped,
    Warning,
    Failure,
}

/// What `scripts/sdk-setup.sh` installed.
pub(crate) fn installed(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/sdk").join(path)
}

/// What the suite says of the server at `url`; `scenarios` are its own arguments for what to
/// run.
pub(crate) async fn run(url: &str, scenarios: &[&str]) -> Verdicts {
    let results = tempfile::tempdir().unwrap();
    let mut command = Command::new(installed("node"));
    command
        .arg(installed("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(["server", "--url", url])
        .args(scenarios)
        .arg("--output-dir")
        .arg(results.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(PATIENCE, command.output()).await.expect("the suite ends in time");
    let output = output.expect("the suite is installed: make sdk");
    let mut verdicts = Verdicts::new();
    for folder in std::fs::read_dir(results.path()).unwrap() {
        let folder = folder.unwrap();
        let name = folder.file_name().into_string().unwrap();
        let scenario = name.strip_prefix("server-").unwrap();
        let scenario = &scenario[..scenario.len() - STAMP_CHARS];
        let checks = std::fs::read(folder.path().join("checks.json")).unwrap();
        let checks: Vec<Check> = serde_json::from_slice(&checks).unwrap();
        assert!(!checks.is_empty(), "{scenario} checked nothing");
        for Check { id, status, error_message } in checks {
            let verdict = match status {
                Status::Success | Status::Info => None,
                Status::Skipped | Status::Warning | Status::Failure => {
                    Some(format!("{status:?}: {}", error_message.unwrap_or_default()))
                }
            };
            // One id may be checked several times.
            let told = verdicts.entry(format!("{scenario}:{id}")).or_default();
            *told = told.take().or(verdict);
        }
    }
    assert!(!verdicts.is_empty(), "the suite ran nothing: {output:?}");
    verdicts
}

/// Fails with everything that is not as `expected.txt` says under `section`.
pub(crate) fn judge(section: &str, verdicts: &Verdicts) {
    let wrong = wrong(&expected(include_str!("expected.txt"), section), verdicts);
    assert!(wrong.is_empty(), "{section}:\n{}", wrong.join("\n"));
}

fn wrong(expected: &BTreeSet<&str>, verdicts: &Verdicts) -> Vec<String> {
    let mut wrong = Vec::new();
    for (check, verdict) in verdicts {
        match (verdict, expected.contains(check.as_str())) {
            (None, true) => wrong.push(format!("{check} succeeds, but is listed as failing")),
            (Some(verdict), false) => wrong.push(format!("{check}: {verdict}")),
            (None, false) | (Some(_), true) => {}
        }
    }
    for check in expected.iter().filter(|check| !verdicts.contains_key(**check)) {
        wrong.push(format!("{check} is listed as failing, but was not checked"));
    }
    wrong
}

/// The checks listed under a section; each line says why.
fn expected<'a>(file: &'a str, section: &str) -> BTreeSet<&'a str> {
    let mut listed = BTreeMap::<&str, BTreeSet<&str>>::new();
    let mut current = "";
    for line in file.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            current = name;
            listed.entry(current).or_default();
            continue;
        }
        let (check, why) = line.split_once(" # ").unwrap_or_else(|| panic!("why {line}?"));
        assert!(!why.trim().is_empty(), "why {check}?");
        listed.entry(current).or_default().insert(check.trim());
    }
    listed.remove(section).unwrap_or_else(|| panic!("expected.txt has no section {section}"))
}

#[test]
fn the_list_is_read_by_section() {
    let file = "# about\n[a b]\ns:one # since\n\n[c]\ns:two # for\n";
    assert_eq!(expected(file, "a b"), BTreeSet::from(["s:one"]));
    assert_eq!(expected(file, "c"), BTreeSet::from(["s:two"]));
}

#[test]
fn what_is_unexpected_and_what_is_stale_is_told() {
    let told = |verdicts: &[(&str, Option<&str>)]| {
        let verdicts = verdicts.iter();
        let verdicts = verdicts.map(|(check, it)| ((*check).to_owned(), it.map(str::to_owned)));
        wrong(&BTreeSet::from(["s:listed"]), &verdicts.collect()).join("; ")
    };
    let listed = ("s:listed", Some("Failure: x"));
    assert_eq!(told(&[listed, ("s:fine", None)]), "");
    assert_eq!(told(&[listed, ("s:new", Some("Failure: y"))]), "s:new: Failure: y");
    assert_eq!(told(&[("s:listed", None)]), "s:listed succeeds, but is listed as failing");
    assert_eq!(told(&[]), "s:listed is listed as failing, but was not checked");
}
