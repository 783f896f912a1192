//! The examples run, with small numbers. `cargo test --workspace` builds what they start.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod browser;
mod docs;
mod scripts;

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// What an example prints.
fn run(name: &str, arguments: &[&str]) -> String {
    said_by(example(name).args(arguments))
}

fn example(name: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    Command::new(own.ancestors().nth(2).unwrap().join("examples").join(name))
}

fn said_by(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Why comes first: what was said before may be long.
    assert!(output.status.success(), "{command:?}: {}\n{errors}\n{said}", output.status);
    said.into_owned()
}

#[test]
fn two_agents_take_ten_turns() {
    let said = run("two_agents", &[]);
    assert!(said.contains("10 turns; the broker's history has 10 handovers"), "{said}");
}

#[test]
fn two_agents_write_to_each_other() {
    let said = run("mail", &[]);
    assert!(said.contains("4 entries, every one acted on"), "{said}");
}

#[test]
fn an_issue_is_done_though_a_worker_dies() {
    let said = run("swarm", &[]);
    assert!(said.contains("6 tasks done once each; "), "{said}");
    assert!(said.contains(" of w3\n"), "{said}");
}

#[test]
fn a_chain_hands_on_what_was_found_and_stops_where_it_failed() {
    let said = run("chain", &[]);
    let plan = "planner says: Done: Plan a fix in src/login.rs and src/session.rs\n";
    assert!(said.contains(plan), "{said}");
    assert!(said.contains("Chain stopped at step 1 (scout): 429 Rate limit reached"), "{said}");
}

#[test]
fn a_pipeline_of_two_nodes_turns_a_module_of_vb6_into_java() {
    let place = tempfile::tempdir().unwrap();
    let mut command = example("pipeline");
    command.env("TMPDIR", place.path());
    let said = said_by(&mut command);
    let attempts: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("attempt ")?.split_once("  "))
        .map(|(_, told)| told.split(',').next().unwrap())
        .collect();
    assert_eq!(
        attempts,
        [
            "plan passed",
            "code passed",
            "test failed",
            "code passed",
            "test passed",
            "review passed"
        ],
        "{said}"
    );
    assert!(said.contains("Invoice.java:61:28: ; is missing"), "{said}");
    assert!(said.contains("ann approved the plan"), "{said}");
    let java = include_str!("../pipeline/scripted/Invoice.java");
    assert!(said.contains(java), "what is on the board at the end: {said}");
    assert!(said.ends_with("the pipeline completed\n"), "{said}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "it left files");
    assert_eq!(running_in(place.path()), [0; 0], "it left processes");
}

/// Processes whose command line or environment names a directory, on a system that tells.
fn running_in(place: &Path) -> Vec<u32> {
    let place = place.as_os_str().as_encoded_bytes();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten() {
        let path = entry.unwrap().path();
        let id = path.file_name().and_then(|it| it.to_str()?.parse::<u32>().ok());
        let Some(id) = id.filter(|it| *it != std::process::id()) else { continue };
        // One that has ended meanwhile, or is somebody else's, cannot be read.
        let names = |file: &str| {
            let bytes = std::fs::read(path.join(file)).unwrap_or_default();
            bytes.windows(place.len()).any(|it| it == place)
        };
        if names("cmdline") || names("environ") {
            found.push(id);
        }
    }
    found
}

#[test]
#[ignore = "needs python with grpcio: scripts/sdk-setup.sh"]
fn a_client_in_python_sends_and_waits() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = root.join("../target/sdk");
    let broker = Broker::start();
    let python = |arguments: &[&str]| {
        let output = Command::new(installed.join("venv/bin/python"))
            .arg(root.join("python/mail.py"))
            .args(["--broker", &broker.address])
            .args(arguments)
            .env("PYTHONPATH", installed.join("grpc"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), said, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said, errors) = python(&["--role", "B", "wait", "--timeout", "0"]);
    assert_eq!((code, said.as_str()), (Some(7), ""), "{errors}");
    let line = ["--role", "A", "send", "--to", "B", "--type", "BR", "--subject", "slow", "über"];
    let (code, said, errors) = python(&line);
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("-BR-slow-"), "{said}");
    let (code, said, errors) = python(&["--role", "B", "wait", "--timeout", "60"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("slow") && said.contains("#1 A -> B (BR)\nüber\n"), "{said}");
    // It was seen once it was printed.
    assert_eq!(python(&["--role", "B", "wait", "--timeout", "0"]).0, Some(7));
    let (code, _, errors) = python(&["--role", "A", "send", "--to", "nobody", "x"]);
    assert!(code == Some(1) && errors.contains("unknown_role"), "{errors}");
}

/// Random updates, beside LangGraph itself.
#[test]
#[ignore = "needs python with grpcio: scripts/sdk-setup.sh"]
fn messages_of_a_board_are_those_that_langgraph_has() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = root.join("../target/sdk");
    let broker = Broker::start();
    let python = Command::new(installed.join("venv/bin/python"))
        .arg(root.join("tests/python/board_messages.py"))
        .arg(&broker.address)
        .env("PYTHONPATH", installed.join("grpc"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&python.stdout);
    assert!(python.status.success(), "{said}\n{}", String::from_utf8_lossy(&python.stderr));
    assert!(said.contains(" updates as LangGraph has them"), "{said}");
}

/// Its checkpoints on boards: the conformance suite, kills, forks, races, and lost answers.
#[test]
#[ignore = "needs python with grpcio: scripts/sdk-setup.sh"]
fn a_graph_of_langgraph_keeps_its_checkpoints_on_boards() {
    let said = langgraph("langgraph_saver.py", &[]);
    assert!(said.contains(" tests of 8 capabilities conform"), "{said}");
    assert!(said.contains("TasukiSaver takes one of two runs"), "{said}");
}

/// How long the saver takes beside the one of LangGraph that writes to SQLite.
#[test]
#[ignore = "needs python with grpcio: scripts/sdk-setup.sh"]
fn the_saver_of_langgraph_is_measured() {
    anstream::println!("{}", langgraph("langgraph_measure.py", &["20"]));
}

/// What a script says that has a broker of its own.
fn langgraph(script: &str, arguments: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = root.join("../target/sdk");
    let broker = Broker::start();
    let paths = [installed.join("grpc"), root.join("python/tasuki_langgraph")];
    let python = Command::new(installed.join("venv/bin/python"))
        .arg(root.join("tests/python").join(script))
        .arg(&broker.address)
        .args(arguments)
        .env("PYTHONPATH", std::env::join_paths(paths).unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&python.stdout).into_owned();
    assert!(python.status.success(), "{said}\n{}", String::from_utf8_lossy(&python.stderr));
    said
}

/// What a client sees that knows no stubs.
const REFLECT: &str = r#"
import sys, grpc
from grpc_reflection.v1alpha import proto_reflection_descriptor_database as reflection
known = reflection.ProtoReflectionDescriptorDatabase(grpc.insecure_channel(sys.argv[1]))
print(*known.get_services(), known.FindFileContainingSymbol("tasuki.v1.TurnLoop").name)
"#;

#[test]
#[ignore = "needs python with grpcio: scripts/sdk-setup.sh"]
fn a_client_in_python_finds_the_calls_by_reflection() {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/sdk");
    let broker = Broker::start();
    let python = Command::new(installed.join("venv/bin/python"))
        .args(["-c", REFLECT, &broker.address])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&python.stdout);
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    for name in ["tasuki.v1.Mailbox", "grpc.health.v1.Health", "tasuki/v1/turn_loop.proto"] {
        assert!(said.contains(name), "{said}");
    }
}

/// `tasuki-broker serve` on a free port. Killed when dropped.
struct Broker {
    child: Child,
    address: String,
    _data: tempfile::TempDir,
}

impl Broker {
    fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let mut child = Command::new(own.ancestors().nth(2).unwrap().join("tasuki-broker"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data.path())
            .env("RUST_LOG", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.by_ref().map_while(Result::ok);
        let mut addresses = said.filter_map(|line| {
            Some(line.strip_prefix("listening on http://")?.split_once(' ')?.0.to_owned())
        });
        let address = addresses.next().expect("it says where it listens");
        Self { child, address, _data: data }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
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
    // Pages are painted where there is a browser.
    let is_paint = |it: &&serde_json::Value| it["name"].as_str().unwrap().contains("first paint");
    let painted = if figures.iter().any(|it| is_paint(&it)) { 16 } else { 0 };
    assert_eq!(figures.len(), 74 + painted + 17 + 6, "{said}");
    for figure in figures {
        let score = figure["score"].as_f64().unwrap();
        // A few waits may fit into pages the process had before.
        let is_memory = figure["name"].as_str().unwrap().contains("memory");
        assert!(score.is_normal() || (is_memory && score == 0.0), "{figure}");
    }
}
