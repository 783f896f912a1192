//! The walk through issues and tasks in `docs/issues.md`, typed as it stands there.

use std::{fs, path::Path};

use super::{Shop, named::git};
use crate::process::soon;

/// What stands for an issue and for a delivery in the text.
const ISSUE: &str = "00af";
const DELIVERY: &str = "delivery_1700000000000_00b2";

/// Each command of the section, on one line.
fn commands(section: &str) -> Vec<String> {
    let blocks = section.split("```sh walk\n").skip(1).map(|it| it.split("```").next().unwrap());
    let lines = blocks
        .flat_map(|it| it.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>());
    lines.collect()
}

#[tokio::test]
#[ignore = "needs git"]
async fn every_command_of_the_walk_through_works_as_it_stands_there() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/issues.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split("\n## Commands\n").nth(1).unwrap();
    let tasks = section.split("```toml walk\n").nth(1).unwrap().split("```").next().unwrap();

    let shop = Shop::open().await;
    let here = shop.path("project");
    fs::create_dir_all(here.join("src")).unwrap();
    fs::write(here.join("tasks.toml"), tasks).unwrap();
    fs::write(here.join("spec.md"), "# Durations\n").unwrap();
    fs::write(here.join("steps.md"), "make corpus\n").unwrap();
    git(&here, &["init", "-q"]);
    git(&here, &["commit", "-q", "--allow-empty", "-m", "one"]);
    let commands = commands(section);
    assert!(20 < commands.len(), "{commands:?}");
    let mut claimed = Vec::new();
    for command in commands {
        let id = async |noun: &str, field: &str| {
            let of = shop.json(0, &[noun, "list"]).await;
            of.first().map_or(String::new(), |it| it[field].as_str().unwrap().to_owned())
        };
        let (issue, delivery) =
            (id("issue", "issue_id").await, id("delivery", "delivery_id").await);
        let short = issue.rsplit('_').next().unwrap();
        let typed = command.replace(DELIVERY, &delivery).replace(ISSUE, short);
        let tasuki = typed.replacen("tasuki ", "\"$0\" ", 1);
        assert_ne!(tasuki, typed, "{typed}");
        let mut shell = tokio::process::Command::new("sh");
        shell.args(["-c", &tasuki, env!("CARGO_BIN_EXE_tasuki")]).current_dir(&here);
        shell.env("TASUKI_DATA", &shop.up.data).env("USER", "alice").kill_on_drop(true);
        let output = soon(shell.stdin(std::process::Stdio::null()).output()).await.unwrap();
        assert!(output.status.success(), "{typed}: {output:?}");
        assert!(!output.stdout.is_empty(), "{typed}: {output:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        for idle in [" before", " already"] {
            assert!(!said.contains(idle), "{typed} does nothing: {said}");
        }
        let next = match typed.contains("claim --next") {
            true => {
                shop.json(0, &["task", "list", short, "--claimed-by", "w1", "--stage", "working"])
                    .await
            }
            false => continue,
        };
        claimed.push(next[0]["task_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(claimed, ["task-1", "task-2"]);
    let issues = shop.json(0, &["issue", "list"]).await;
    assert_eq!(issues[0]["status"], "done");
    assert_eq!(issues[0]["is_unaccepted"], false);
}
