//! What the makers of MCP test servers with: the conformance suite, against a fixture on the node's
//! transports and against a node, and the Inspector, against a node.
//!
//! `make test` puts both into `target/sdk` first.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod fixture;
mod inspector;
#[path = "../edges/process.rs"]
#[allow(dead_code, reason = "shared with the tests of the edges, which use more of it")]
mod process;
mod suite;

use std::collections::BTreeSet;

use self::{
    fixture::Fixture,
    process::Process,
    suite::{judge, run},
};

/// Scenarios, or single checks, that ask for no tool, prompt or resource of a certain name.
const OF_A_NODE: &[&str] = &[
    "caching",
    "completion-complete",
    "dns-rebinding-protection",
    "http-header-validation",
    "input-required-result-unsupported-methods",
    "ping",
    "prompts-list",
    "resources-list",
    "sep-2164-resource-not-found",
    "server-initialize",
    "server-session-lifecycle",
    "server-sse-multiple-streams",
    "server-stateless",
    "tasks-capability-negotiation:sep-2663-tasks-methods-non-declaring",
    "tasks-capability-negotiation:tasks-extension-advertised",
    "tasks-dispatch-and-envelope:sep-2663-tasks-get-invalid-task-id-32602",
    "tasks-dispatch-and-envelope:sep-2663-tasks-result-removed-method-not-found",
    "tasks-dispatch-and-envelope:tasks-removed-tasks-list",
    "tools-list",
];

#[tokio::test]
#[ignore = "needs the MCP conformance suite: scripts/sdk-setup.sh"]
async fn the_transports_conform_to_2025_06_18() {
    // There is no set of what that version required; this is all there is for it.
    fixture_conforms("2025-06-18", &["--suite", "all", "--spec-version", "2025-06-18"], 27).await;
}

#[tokio::test]
#[ignore = "needs the MCP conformance suite: scripts/sdk-setup.sh"]
async fn the_transports_conform_to_2025_11_25() {
    fixture_conforms("2025-11-25", &["--requirements", "2025-11-25"], 33).await;
}

#[tokio::test]
#[ignore = "needs the MCP conformance suite: scripts/sdk-setup.sh"]
async fn the_transports_conform_to_2026_07_28() {
    fixture_conforms("2026-07-28", &["--requirements", "2026-07-28"], 50).await;
}

/// All that the suite has for a version: what it requires, extensions, and what it does not
/// count yet.
async fn fixture_conforms(version: &str, scenarios: &[&str], count: usize) {
    let fixture = Fixture::start().await;
    let url = format!("http://{}/mcp", fixture.addr);
    conforms(&url, &format!("fixture {version}"), scenarios, count).await;
}

/// Log messages of earlier versions come on a stream of their own, from the server and to the suite,
/// so an answer may overtake the last of them. Nobody promises their order.
const OVERTAKEN: &str = "tools-call-with-logging";

async fn conforms(url: &str, section: &str, scenarios: &[&str], count: usize) {
    let mut verdicts = run(url, scenarios).await;
    let check = format!("{OVERTAKEN}:{OVERTAKEN}");
    for _ in 0..3 {
        if verdicts.get(&check).is_some_and(Option::is_some) {
            verdicts.extend(run(url, &["--scenario", OVERTAKEN]).await);
        }
    }
    let ran = verdicts.keys().filter_map(|check| Some(check.split_once(':')?.0));
    let ran: BTreeSet<&str> = ran.collect();
    assert_eq!(ran.len(), count, "{ran:?}");
    judge(section, &verdicts);
}

/// A server that asks its user does that as the version of its connection has it, so there is one
/// connection for each.
#[tokio::test]
#[ignore = "needs the MCP conformance suite: scripts/sdk-setup.sh"]
async fn a_server_conforms_through_the_gateway_as_it_does_without() {
    let fixture = Fixture::start().await;
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("tasuki.toml");
    let server = |name: &str, version: &str| {
        let url = format!("http://{}/mcp", fixture.addr);
        format!("[[gateway.server]]\nname = {name:?}\nurl = {url:?}\nprotocol = {version:?}\n")
    };
    let servers = server("earlier", "2025-11-25") + &server("later", "2026-07-28");
    std::fs::write(&config, servers).unwrap();
    let line = format!("--config {} --role A", config.display());
    let tasuki = Process::up(&dir.path().join("data"), &line).await;
    for (server, version, scenarios, count) in [
        ("earlier", "2025-06-18", &["--suite", "all", "--spec-version", "2025-06-18"][..], 27),
        ("earlier", "2025-11-25", &["--requirements", "2025-11-25"], 33),
        ("later", "2026-07-28", &["--requirements", "2026-07-28"], 50),
    ] {
        let url = format!("http://{}/mcp/A/server/{server}", tasuki.mcp);
        conforms(&url, &format!("gateway {version}"), scenarios, count).await;
    }
}

#[tokio::test]
#[ignore = "needs the MCP conformance suite: scripts/sdk-setup.sh"]
async fn a_node_conforms_where_the_suite_asks_for_no_fixture() {
    let dir = tempfile::tempdir().unwrap();
    let tasuki = Process::up(&dir.path().join("data"), "--role A --role B").await;
    let url = format!("http://{}/mcp/A", tasuki.mcp);
    let mut ran = BTreeSet::<&str>::new();
    for version in ["2025-11-25", "2026-07-28"] {
        let mut verdicts = run(&url, &["--requirements", version]).await;
        verdicts.retain(|check, _| {
            let scenario = check.split_once(':').map(|(scenario, _)| scenario);
            let of_a_node = OF_A_NODE.iter().find(|it| Some(**it) == scenario || *it == check);
            ran.extend(of_a_node);
            of_a_node.is_some()
        });
        judge(&format!("node {version}"), &verdicts);
    }
    assert_eq!(Vec::from_iter(ran), OF_A_NODE);
}
