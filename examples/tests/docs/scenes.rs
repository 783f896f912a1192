//! What is there before a scene's first line, and between its lines; which commands are to fail.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};
use tasuki_examples::{mcp::Agent, scripted};

use super::{Block, world::World};

/// A pipeline that a scripted agent can do.
const CHANGE: &str = r#"
[[phase]]
name = "plan"
role = "pm"
agent = "planner"
prompt = "Plan this: {requirements}"
into = "artifacts.plan"
approval = "1h"

[[phase]]
name = "code"
role = "dev"
agent = "planner"
prompt = "Do this: {artifacts.plan}"
into = "artifacts.code"
"#;

const CONFIG: &str = "me/.config/tasuki/tasuki.toml";

/// A secret in Python's words, and what signs a body with it.
const SIGNED: &str = "import hashlib, hmac, time\n\
    secret, body, timestamp = b'0123456789abcdef', b'{}', str(int(time.time()))\n\
    signed = timestamp.encode() + b'.' + body\n\
    signature = 'sha256=' + hmac.new(secret, signed, hashlib.sha256).hexdigest()\n";

/// An agent that a scripted pi plays.
const REVIEWER: &str = "---\nname: reviewer\ndescription: Reviews\nrunner: pi\n---\nReview it.\n";

/// Before the first line.
pub(super) async fn set(scene: &str, world: &mut World) {
    match scene {
        "" => drop(world.start("me", "tasuki up").await),
        "mail" => {
            world.start("me", "tasuki up --role dev --role qa").await;
            hosted(world, "qa").await;
            world.write("me/project/log.txt", "log\n");
            for (name, subject) in [("380fa4", "Login fails"), ("91be02", "No session cookie")] {
                let sent =
                    format!("tasuki mail send --role dev --to qa --type BR '{subject}' --json");
                let id = field(&world.says(&sent).await, "message_id");
                world.name(name, &id[..6]);
            }
        }
        "private" => {
            let broker = world.start("host", "tasuki-broker serve").await.url().to_owned();
            for (machine, role) in [("laptop", "A"), ("desktop", "B")] {
                let line = format!("tasuki node --broker {broker} --role {role}");
                world.start(machine, &line).await;
            }
        }
        "connect" | "people" | "wake" => {
            let _up = world.start("me", "tasuki up --role A --role B").await;
        }
        "issues" => drop(world.says("git init -q && mkdir src").await),
        "board" => drop(world.start("me", "tasuki up --role pm --role dev").await),
        "locking" => {
            world.start("me", "tasuki up --role worker1 --role worker2").await;
            hosted(world, "worker2").await;
            world.says("git init -q && mkdir src tests").await;
        }
        "guarded" => {
            world.start("me", "tasuki-broker serve").await;
            let broker = world.running[0].url().to_owned();
            world.write(CONFIG, &format!("broker = \"{broker}\"\n"));
            world.name("0.0.0.0:7421", "127.0.0.1:0 --secure");
        }
        "accept" | "verdict" => {
            world.start("me", "tasuki up --role lead --role w1 --role acceptor").await;
            repository(world, 101).await;
        }
        "trust" => drop(world.write("me/project/tasuki.toml", "data = \".tasuki\"\n")),
        "runs" => {
            let pi = world.write("me/bin/pi", "");
            scripted::write(&pi).unwrap();
            world.write("me/.tasuki/agents/reviewer.md", REVIEWER);
            for (name, task) in [("chain", "Fix {previous}"), ("parallel", "Review src")] {
                let step = |task| json!({ "agent": "reviewer", "task": task });
                let steps = json!([step("Review the API"), step(task)]).to_string();
                world.write(&format!("me/project/{name}.json"), &steps);
            }
            world.start("me", "tasuki up --role lead").await;
        }
        "pipeline" => {
            let pi = world.write("me/bin/pi", "");
            scripted::write(&pi).unwrap();
            world.write("me/.tasuki/agents/planner.md", &REVIEWER.replace("reviewer", "planner"));
            world.write("me/project/change.toml", CHANGE);
            world.write("me/project/issue.md", "Add a login");
            world.start("me", "tasuki up --role pm --role dev").await;
        }
        "launch" => {
            for name in ["claude", "codex"] {
                program(world, name, 0);
            }
        }
        "locks" => drop(world.says("git init -q").await),
        "filebox" => {
            world.write("me/.filebox", r#"{"agents": {"qa_agent": "qa", "dev_agent": "dev"}}"#);
            for who in ["qa", "dev"] {
                fs::create_dir_all(world.path("me").join(who).join("docs/mailbox/inbox")).unwrap();
            }
        }
        "swarm" => {
            for folder in ["issues", "deliveries", "workers"] {
                fs::create_dir_all(world.path("me/.swarm-mcp").join(folder)).unwrap();
            }
        }
        _ => {}
    }
}

/// Before a line that needs more.
pub(super) async fn before(scene: &str, line: &str, world: &mut World) {
    match scene {
        "turns" if line == "tasuki loop history" => {
            let (api, ui) = (["API done", "build the UI on it"], ["UI done", "look at it"]);
            hand_over(world, "A", api, false).await;
            hand_over(world, "B", ui, false).await;
        }
        "issues" if line.starts_with("tasuki issue create") => hosted(world, "acceptor").await,
        "issues" if line.contains("00af") && world.meant_by("00af").is_none() => {
            let id = field(&world.says("tasuki issue list --json").await, "issue_id");
            world.name("00af", &id);
        }
        "people" if line.starts_with("tasuki loop start --instruction") => {
            hand_over(world, "A", ["All done", ""], true).await;
        }
        "accept" => deliver(world).await,
        "pipeline" if line.starts_with("tasuki pipeline approve") => {
            let waits = "tasuki pipeline status login | grep 'waits for approval'";
            world.says(&format!("until {waits}; do :; done")).await;
        }
        "verdict" if line.starts_with("tasuki accept") => {
            // Each line is about a delivery of its own, whose commands were run.
            let is_good = line.contains("as agreed");
            stub(world, if is_good { 0 } else { 101 });
            deliver(world).await;
            let id = world.meant_by("DELIVERY").unwrap();
            let run = world.run("me", &format!("tasuki accept {id} --as acceptor")).await;
            assert_eq!(run.status.code(), Some(if is_good { 0 } else { 8 }), "{run:?}");
        }
        _ => {}
    }
}

/// What a line prints stands for names in those after it.
pub(super) fn after(line: &str, said: &str, world: &mut World) {
    let mut words = said.split_whitespace();
    if line.starts_with("tasuki run ") && line.contains("--background") {
        world.name("RUN", words.find(|it| it.starts_with("run_")).unwrap());
    } else if line.starts_with("tasuki mail private on") {
        let key = said.lines().find_map(|it| it.strip_prefix("owner's key")).unwrap().trim();
        world.name("OWNER-KEY", key);
    } else if line.starts_with("tasuki mail private trust") {
        words.find(|it| *it == "approve").unwrap();
        for name in ["desktop-1a2b3c4d", "NODE-KEY"] {
            world.name(name, words.next().unwrap());
        }
    }
}

/// How a line ends.
pub(super) fn exit_code(scene: &str, line: &str) -> i32 {
    match scene {
        "accept" => 8,
        // Nobody is there to be asked.
        "people" if line.starts_with("tasuki take-over") => 2,
        _ => 0,
    }
}

/// Tries a block that is a file.
pub(super) async fn use_file(block: &Block, world: &mut World) {
    match (block.kind.as_str(), block.scene.as_str()) {
        ("toml", "pipeline") => {
            world.write("me/project/change.toml", &block.text);
            world.says("tasuki pipeline check change.toml").await;
        }
        ("toml", scene) => {
            let project = world.path("me/project").display().to_string();
            world.write(CONFIG, &block.text.replace("/home/ann/project", &project));
            if scene == "hooks" {
                program(world, "notify-send", 0);
                let secret = world.write("me/.config/tasuki/hook.secret", "0123456789abcdef");
                fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).unwrap();
            }
            world.says("tasuki config check").await;
        }
        ("md", "dropped") => {
            world.write(CONFIG, "mirror = true\n");
            world.start("me", "tasuki up --role qa --role dev").await;
            // What lies there before is no letter.
            world.says("until tasuki mirror status | grep 'qa .* in step'; do :; done").await;
            world.write("me/project/docs/mailbox/qa/outbox/new.md", &block.text);
            let got = world.says("tasuki mail wait --role dev --timeout 50s").await;
            assert!(got.contains("a title") && got.contains("The text."), "{got}");
        }
        ("md", "agent") => {
            let pi = world.write("me/bin/pi", "");
            scripted::write(&pi).unwrap();
            world.write("me/.tasuki/agents/reviewer.md", &block.text);
            world.start("me", "tasuki up --role lead").await;
            let said = world.says("tasuki run reviewer 'Review the API'").await;
            assert!(said.contains("Done: Review the API"), "{said}");
        }
        ("python", "signature") => {
            let text = format!("{SIGNED}{}assert ok\n", block.text);
            let script = world.write("me/verify.py", &text);
            world.says(&format!("python3 {}", script.display())).await;
        }
        (kind, scene) => panic!("{}: `{kind} {scene}` is not known here", block.place),
    }
}

/// A field of one line of JSON, or of the object in it.
fn field(line: &str, name: &str) -> String {
    let value: Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    let found = value.get(name).or_else(|| value.as_object()?.values().find_map(|it| it.get(name)));
    found.unwrap_or_else(|| panic!("{name}: {line}")).as_str().unwrap().to_owned()
}

/// Waits until the broker knows a role: it hears of a node's roles a moment after the node began.
async fn hosted(world: &World, role: &str) {
    world.says(&format!("until tasuki mail mailboxes | grep -w {role}; do :; done")).await;
}

async fn hand_over(world: &World, role: &str, [summary, next]: [&str; 2], is_complete: bool) {
    let node = world.running[0].url_of("MCP").unwrap();
    let mut agent = Agent::connect(&format!("{node}/mcp/{role}"), "example").await.unwrap();
    let turn = agent.call("await_my_turn", json!({ "agent_id": role })).await.unwrap();
    let turn = turn.json().unwrap();
    assert_eq!(turn["can_start"], true, "{turn}");
    let arguments = json!({
        "agent_id": role, "work_summary": summary, "next_instruction": next,
        "is_task_complete": is_complete,
    });
    let said = agent.call("handover_work", arguments).await.unwrap();
    assert!(!said.is_error, "{said:?}");
}

/// A program of the user's that does nothing but end so when its arguments have `clippy`.
fn program(world: &World, name: &str, code: i32) {
    let text = format!("#!/bin/sh\ncase $* in *clippy*) exit {code};; esac\n");
    let path = world.write(&format!("me/bin/{name}"), &text);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn stub(world: &World, code: i32) {
    program(world, "cargo", code);
}

/// A project of one commit, whose commands may be run again.
async fn repository(world: &World, code: i32) {
    world.write(CONFIG, "[accept]\nallow = [\"cargo *\"]\nsandbox = \"none\"\n");
    stub(world, code);
    world.write("me/src/project/README", "text\n");
    let git = "cd ~/src/project && git init -q && git add . && git -c user.name=a -c user.email=a \
               commit -qm one && rm -rf ~/project && ln -s ~/src/project ~/project";
    world.says(git).await;
}

/// An issue that is delivered.
async fn deliver(world: &mut World) {
    // The same words would be the same issue.
    let last = world.meant_by("DELIVERY").unwrap_or("none");
    let new = format!("tasuki issue create 'Work after {last}' --as lead --new-role --json");
    let new = world.says(&new).await;
    let issue = field(&new, "issue_id");
    for line in [
        "task create ISSUE Do --difficulty easy --as lead --new-role",
        "task claim ISSUE/1 --as w1 --new-role",
        "task submit ISSUE/1 --summary Done --file README --result passed --as w1 --new-role",
        "task review ISSUE/1 --approve --score 5 --feedback Good --as lead --new-role",
    ] {
        world.says(&format!("tasuki {}", line.replace("ISSUE", &issue))).await;
    }
    let line = format!(
        "tasuki delivery create {issue} --summary Done --passed --commit HEAD --command \
         'cargo test --locked' --command 'cargo clippy -- -D warnings' --as lead --new-role --json"
    );
    let id = field(&world.says(&line).await, "delivery_id");
    for name in ["DELIVERY", "delivery_1795364869704_0003"] {
        world.name(name, &id);
    }
}
