//! Which tools a client is told to run unasked, where it is told each by its name.

use serde_json::{Value, json};

use crate::{connect::home::Home, process::Process};

const CLINE: &str = ".cline/data/settings/cline_mcp_settings.json";

/// What a client may run unasked, and who said so.
fn allowed(home: &Home, line: &str) -> (Value, usize) {
    let said = home.json(line);
    let file: Value = serde_json::from_str(&home.read(CLINE)).unwrap();
    let names = file["mcpServers"]["tasuki"]["autoApprove"].as_array().map_or(0, Vec::len);
    (said["tools_from"].clone(), names)
}

#[tokio::test]
async fn tools_are_those_that_the_running_node_shows_the_role() {
    for guard in ["", " --secure"] {
        let home = Home::new();
        std::fs::create_dir_all(home.data()).unwrap();
        let line = format!("--role A=loop --role lead=swarm-lead:full{guard}");
        let mut up = Process::up(&home.data(), &line).await;
        // Nothing in the configuration of the command says so.
        let line = "connect cline --role A --allow";
        assert_eq!(allowed(&home, line), (json!("node"), 3));
        let zed = home.json("connect zed --role A --allow --print");
        assert_eq!(zed["tools_from"], "node");
        let text = zed["files"][0]["text"].as_str().unwrap();
        assert_eq!(text.matches("mcp:tasuki:").count(), 3, "{text}");
        let said = home.done("connect cline --role lead --allow --name lead");
        let of_lead: Value = serde_json::from_str(&home.read(CLINE)).unwrap();
        let of_lead = of_lead["mcpServers"]["lead"]["autoApprove"].as_array().unwrap().len();
        let words = format!(
            "{of_lead} tools are allowed by name: those that the running node shows lead.\n"
        );
        assert!(20 < of_lead && said.contains(&words), "{said}");
        // Who names no tools asks for none.
        for line in ["connect cline --role A", "connect claude-code --role A --allow"] {
            assert_eq!(home.json(line)["tools_from"], Value::Null);
        }
        assert!(up.stop().await.success());

        let home = Home::new();
        assert_eq!(allowed(&home, line), (json!("name"), 11));
        home.write("project/tasuki.toml", "roles = [\"A=loop\"]\n");
        let line = "connect cline --role A --allow --force";
        assert_eq!(allowed(&home, line), (json!("configuration"), 3));
    }
}
