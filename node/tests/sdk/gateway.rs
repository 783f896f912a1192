//! Real MCP servers behind a real node, used by a real client: those of the protocol's makers for
//! Node.js, and one of the official SDK for Python.

use std::{fs, path::Path, process::Stdio};

use serde_json::Value;
use tokio::{process::Command, time::timeout};

use super::{PATIENCE, Tasuki};

/// As long as what a client does takes on a busy machine: a server that ends is started again after
/// 1 s, 2 s, 4 s …
const DISTURBED: u32 = 4;

/// What the configuration says of each server.
fn servers(dir: &Path) -> String {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/sdk").canonicalize().unwrap();
    let (node, python) = (sdk.join("node"), sdk.join("venv/bin/python"));
    let of_makers =
        |name: &str| sdk.join(format!("node_modules/@modelcontextprotocol/{name}/dist/index.js"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/server.py");
    let server = |name: &str, command: &[&Path], more: &str| {
        format!("[[gateway.server]]\nname = \"{name}\"\ncommand = {command:?}\n{more}\n")
    };
    let (pid, version) = (dir.join("pid"), dir.join("version"));
    // Whoever disturbs it has to know which process it is.
    let noisy =
        format!("echo $$ > {}; exec {} {}", pid.display(), python.display(), script.display());
    [
        server("everything", &[&node, &of_makers("server-everything")], ""),
        server("files", &[&node, &of_makers("server-filesystem"), Path::new("files")], ""),
        server("memory", &[&node, &of_makers("server-memory")], "env = [\"MEMORY_FILE_PATH=memory.json\"]"),
        server("python", &[&python, &script], &format!("env = [\"VERSION={}\"]", version.display())),
        server(
            "noisy",
            &[Path::new("/bin/sh"), Path::new("-c"), Path::new(&noisy)],
            &format!(
                "env = [\"VERSION={}\"]\ntimeout_sec = 2\ntimeouts = {{ count = 60, flood = 60, huge = 60 }}",
                version.display()
            ),
        ),
    ]
    .concat()
}

async fn started() -> (tempfile::TempDir, Tasuki) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("files")).unwrap();
    fs::write(dir.path().join("files/hello.txt"), "hello from a file\n").unwrap();
    fs::write(dir.path().join("version"), "1").unwrap();
    let config = dir.path().join("tasuki.toml");
    fs::write(&config, servers(dir.path())).unwrap();
    let config = config.to_str().unwrap();
    let tasuki = Tasuki::start(&["--role", "A=gateway:full", "--config", config]).await;
    (dir, tasuki)
}

async fn client(tasuki: &Tasuki, what: &str, more: &[&Path]) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(root.join("../target/sdk/venv/bin/python"))
        .arg(root.join("tests/sdk/gateway.py"))
        .args([what, &format!("{}/mcp/A", tasuki.mcp)])
        .args(more)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE * DISTURBED, output).await.expect("it ends in time").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

#[tokio::test]
#[ignore = "needs the MCP SDKs: scripts/sdk-setup.sh"]
async fn a_client_uses_all_that_real_servers_have_through_the_gateway() {
    let (_dir, tasuki) = started().await;
    client(&tasuki, "use", &[]).await;
}

#[tokio::test]
#[ignore = "needs the MCP SDKs: scripts/sdk-setup.sh"]
async fn servers_answer_as_usual_while_another_is_killed_hung_flooded_or_upgraded() {
    let (dir, tasuki) = started().await;
    let took = client(&tasuki, "disturb", &[dir.path()]).await;
    assert_eq!(took.as_object().unwrap().len(), 7, "{took}");
    let held = &tasuki.json(&["gateway", "status"]).await[0]["servers"];
    let noisy = held.as_array().unwrap().iter().find(|it| it["name"] == "noisy").unwrap();
    assert!(noisy["held"].to_string().contains("greet"), "{noisy}");
}
