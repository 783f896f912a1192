//! What the README says about two machines, typed as it stands there.

use std::{collections::BTreeMap, path::Path};

use tokio::process::Command;

use crate::{
    agents::Transport,
    net::Net,
    process::{Desk, programs, soon, until},
    seat::Seat,
};

/// Commands that stay, and the end of the line that says they are ready.
const STAYING: [(&str, &str); 2] =
    [("tasuki-broker serve", "(broker gRPC)"), ("tasuki node", "(MCP)")];

/// How the README writes what `tasuki-broker invite` prints.
const SHORTENED: &str = "tasuki join tasuki://host:7420/…";

/// Machine and command of each line.
fn lines() -> Vec<(String, String)> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let (_, part) = text.split_once("\n## Two machines\n").expect("the README has that part");
    let part = part.split("\n## ").next().unwrap();
    let typed = part.lines().filter_map(|line| {
        let (machine, command) = line.trim_start().split_once("$ ")?;
        let is_name = machine.chars().all(|it| it.is_ascii_alphanumeric());
        let command = command.split(" # ").next().unwrap().trim();
        is_name.then(|| (machine.to_owned(), command.to_owned()))
    });
    typed.collect()
}

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn two_machines_are_set_up_in_five_lines() {
    let lines = lines();
    assert_eq!(lines.len(), 5, "{lines:?}");
    let net = Net::new().await;
    let dir = tempfile::tempdir().unwrap();
    let mut desks = BTreeMap::new();
    let (mut invitation, mut staying, mut said) = (None, Vec::new(), String::new());
    for (machine, line) in &lines {
        if !desks.contains_key(machine) {
            desks.insert(machine, Desk::new(net.place(machine).await, dir.path()));
        }
        let desk = &desks[machine];
        if let Some((_, ready)) = STAYING.iter().find(|(it, _)| line.starts_with(it)) {
            staying.push(desk.start(line, ready).await);
            continue;
        }
        let line = if line == SHORTENED { invitation.as_ref().unwrap() } else { line };
        if line.starts_with("tasuki status") {
            // A node says where it listens before the broker has heard of it.
            until(async || desk.says("tasuki status").await.contains("  present  ")).await;
        }
        said = desk.says(line).await;
        let invited = said.lines().find(|it| it.starts_with("tasuki join "));
        invitation = invited.map(ToOwned::to_owned).or(invitation);
    }
    assert_eq!(desks.len(), 2);
    // The last line looks at all of it.
    let present = said.lines().filter(|it| it.contains("  present  ")).count();
    assert_eq!(present, 1, "{said}");
    assert!(said.contains("healthy"), "{said}");
    // And it works: the first role's turn goes to the second.
    let laptop = &staying.last().unwrap().desk;
    let dev = Seat::new(laptop, "dev", Transport::Session).await;
    let qa = Seat::new(laptop, "qa", Transport::Stdio).await;
    assert_eq!(dev.turn().await, 1);
    dev.pass(1).await;
    assert_eq!(qa.turn().await, 2);
}

#[tokio::test]
#[ignore = "needs network namespaces and root"]
async fn the_example_does_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut example = Command::new(root.join("examples/two_machines.sh"));
    example.env("PROGRAMS", programs()).kill_on_drop(true);
    let output = soon(example.output()).await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for what in ["Joined https://10.77.0.1:7420", "(exit code 1)", "(exit code 3)", "five lines."] {
        assert!(said.contains(what), "{what}: {said}");
    }
}
