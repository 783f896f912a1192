//! Files that sub-agents hand over, also from one machine to another.

use std::fs;

use serde_json::{Value, json};

use super::{
    client::{McpClient, User},
    machine,
    parent::{STEP, bearer, begin},
    run_id, text,
};
use crate::{fake_agent::configure, http::Client, process::Process};

fn code(result: &Value) -> &str {
    result["structuredContent"]["error"]["code"].as_str().unwrap_or_else(|| panic!("{result}"))
}

#[tokio::test]
async fn a_file_goes_from_the_machine_of_the_sub_agent_to_that_of_the_asker() {
    let mut machine = machine().await;
    let far = machine.path("far/data");
    let config = "[runs]\naccept_elsewhere = true\nlabels = [\"far\"]\n";
    configure(&far, &format!("{}{config}", machine.fake.config()));
    let broker = machine.up.broker.unwrap();
    let _far = Process::node_with(&far, broker, "--role B", &machine.fake.env()).await;
    machine.runs().until_offered(2).await;

    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    let task = "printf 'the plan' > plan.md; printf '\\377\\001' > data.bin; \
                \"$tasuki\" runs report 'see there' --file plan.md >&2; \
                \"$tasuki\" runs report --file data.bin >&2; say done";
    let told = boss.call("subagent", json!({ "agent": "scout", "task": task, "on": "far" })).await;
    assert_eq!(text(&told), "done", "{told}");
    let expected = json!([
        { "message": 1, "step": 1, "name": "plan.md", "media_type": "text/markdown", "size": 8 },
        {
            "message": 2, "step": 1, "name": "data.bin",
            "media_type": "application/octet-stream", "size": 2,
        },
    ]);
    assert_eq!(told["structuredContent"]["files"], expected, "{told}");
    let last = told["content"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap();
    let line = "Files: message 1: \"plan.md\" (8 bytes); message 2: \"data.bin\" (2 bytes). \
                run_output with the number of a message returns its file.";
    assert!(last.ends_with(line) && last.contains("> see there"), "{last}");

    let run = run_id(&told);
    let shown = boss.call("run_output", json!({ "run": run, "message": 1 })).await;
    assert_eq!(text(&shown), "the plan", "{shown}");
    let part = json!({ "run": run, "message": 1, "offset": 4, "limit": 4 });
    assert_eq!(text(&boss.call("run_output", part).await), "plan");
    let shown = boss.call("run_output", json!({ "run": run, "message": 2 })).await;
    assert!(text(&shown).starts_with("The file is no text; it has 2 bytes."), "{shown}");
    for path in ["docs/attachments/data.bin", "docs/attachments/data-2.bin"] {
        let saved = boss.call("run_save_file", json!({ "run": run, "message": 2 })).await;
        assert_eq!(saved["structuredContent"]["path"], path, "{saved}");
        assert_eq!(text(&saved), format!("Saved as {path}"));
        assert_eq!(fs::read(machine.path(path)).unwrap(), b"\xff\x01");
    }
    for tool in ["run_output", "run_save_file"] {
        let refused = boss.call(tool, json!({ "run": run, "message": 3 })).await;
        assert_eq!(code(&refused), "unknown_message", "{refused}");
    }
    machine.fake.gone().await;
}

#[tokio::test]
async fn a_sub_agent_hands_over_files_of_its_project_by_its_tool() {
    let mut machine = machine().await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    let (run, token) = begin(&mut machine, &mut boss, "say done").await;
    let sub_agent = Client::with(machine.up.mcp, STEP, "sub-agent", bearer(&token)).await;
    fs::write(machine.path("plan.md"), "the plan").unwrap();
    let told = sub_agent.call("report_to_parent", json!({ "file": "./plan.md" })).await;
    assert_eq!(told["structuredContent"]["message"], 1, "{told}");
    for arguments in [
        json!({}),
        json!({ "file": "none.md" }),
        json!({ "file": "../plan.md" }),
        json!({ "file": "data/tasuki.toml" }),
    ] {
        let refused = sub_agent.call("report_to_parent", arguments).await;
        assert_eq!(code(&refused), "invalid_argument", "{refused}");
    }
    let status = boss.call("run_status", json!({ "run": run })).await;
    let files = &status["structuredContent"]["files"];
    assert_eq!((&files[0]["name"], files.as_array().unwrap().len()), (&json!("plan.md"), 1));
    machine.fake.let_go(1);
    let told = boss.call("run_wait", json!({ "run": run })).await;
    assert_eq!((text(&told), &told["structuredContent"]["files"]), ("done", files), "{told}");
    machine.fake.gone().await;
}
