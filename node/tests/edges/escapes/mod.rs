//! Ways out of what roles with the toolsets `files` and `commands` are given, tried through the real
//! node over MCP. Each case says what it must not reach; a control runs the same with nothing that
//! keeps it in, and has to get out.

mod bounds;
mod cases;
mod commands;
mod paths;
mod races;

use std::{
    collections::BTreeMap,
    fs,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    http::{self, Client},
    process::{Process, soon},
};

/// A node with a project, and things around it that are nobody's to reach.
struct Place {
    dir: TempDir,
    up: Process,
    client: Client,
    /// A process outside.
    victim: Child,
    _listeners: [UnixListener; 2],
    abstract_name: String,
}

/// What `[commands]` has beside what may run.
const SANDBOXED: &str = "timeout_sec = 30\nmemory_mb = 512\nfile_mb = 16\nwrite = [\"out\"]\n";

impl Place {
    async fn new(commands: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for made in ["root/src", "root/.git/hooks", "root/out", "outside", "home/.ssh"] {
            fs::create_dir_all(at(made)).unwrap();
        }
        for (path, text) in [
            ("root/src/a.txt", "inside\n"),
            ("root/.git/config", "[core]\n\tbare = false\n\thooksPath = tools/hooks\n"),
            ("root/.git/HEAD", "ref: refs/heads/main\n"),
            ("root/Makefile", "all:\n\techo made > $(OUT)/made\n"),
            ("outside/kept", "secret\n"),
            ("home/.ssh/id", "private\n"),
        ] {
            fs::write(at(path), text).unwrap();
        }
        for made in ["root/.git/objects", "root/.git/refs"] {
            fs::create_dir(at(made)).unwrap();
        }
        let config = format!(
            "[files]\nroot = \"{root}\"\nwrite = true\nprotect = [\"*.pem\"]\n\n[commands]\n\
             allow = [\"sh *\", \"perl *\", \"cargo build *\", \"no-such-program\"]\n{commands}",
            root = at("root").display()
        );
        fs::write(at("tasuki.toml"), config).unwrap();
        let listener = UnixListener::bind(at("outside/socket")).unwrap();
        let abstract_name = format!("tasuki-escape-{}", dir.path().file_name().unwrap().display());
        let name = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let listeners = [listener, UnixListener::bind_addr(&name).unwrap()];
        let victim = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let line = format!("--config {} --role A=files,commands", at("tasuki.toml").display());
        let variables = [("SECRET", "hunter2".into()), ("HOME", at("home"))];
        let up = Process::up_with(&at("data"), &line, &variables).await;
        let client = Client::new(up.mcp, "/mcp/A").await;
        Self { dir, up, client, victim, _listeners: listeners, abstract_name }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        soon(self.client.call(tool, arguments)).await
    }

    /// Runs a script, and returns what the tool says of it.
    async fn script(&self, script: &str) -> Value {
        let script = self.filled(script);
        self.call("run_command", json!({ "argv": ["sh", "-c", script] })).await
    }

    /// The same where nothing keeps it in: its user is asked, and says yes.
    async fn loose_script(&self, script: &str) -> Value {
        let arguments = json!({ "argv": ["sh", "-c", self.filled(script)] });
        let client = Client::modern(self.up.mcp, "/mcp/A", "run_command");
        let mut call = http::modern(http::call(7, "run_command", arguments), "test");
        let able = json!({ "elicitation": {} });
        call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = able;
        let asked = soon(soon(client.post(&call)).await.answer_or_body()).await;
        let requests = asked["result"]["inputRequests"].as_object();
        let (name, question) =
            requests.and_then(|it| it.iter().next()).unwrap_or_else(|| panic!("{asked}"));
        let message = question["params"]["message"].as_str().unwrap();
        assert!(message.contains("not sandboxed") && message.contains("sh -c"), "{message}");
        call["params"]["inputResponses"] = json!({ name: { "action": "accept", "content": {} } });
        let answer = soon(soon(client.post(&call)).await.answer_or_body()).await;
        answer["result"].clone()
    }

    /// A script with the names of what it is to reach.
    fn filled(&self, script: &str) -> String {
        let path = |it: &str| self.path(it).canonicalize().unwrap().display().to_string();
        [
            ("{root}", path("root")),
            ("{outside}", path("outside")),
            ("{home}", path("home")),
            ("{data}", path("data")),
            ("{node}", self.up.pid().to_string()),
            ("{victim}", self.victim.id().to_string()),
            ("{port}", self.up.mcp.port().to_string()),
            ("{abstract}", self.abstract_name.clone()),
        ]
        .iter()
        .fold(script.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// All that nobody may change: what is outside, and of the root what commands may not write to.
    fn untouchable(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        for top in ["outside", "home", "root"] {
            note(&self.path(top), &self.path("root/out"), &mut all);
        }
        all
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.victim.kill().ok();
        self.victim.wait().ok();
    }
}

/// Notes what is at a path and below it, but not at `but`.
fn note(path: &Path, but: &Path, all: &mut BTreeMap<PathBuf, String>) {
    if path == but {
        return;
    }
    let about = path.symlink_metadata().unwrap();
    let mut what = format!("{:o}", about.permissions().mode());
    if about.is_file() {
        what += &format!(" {} {}", about.nlink(), fs::read_to_string(path).unwrap());
    } else if about.is_symlink() {
        what += &fs::read_link(path).unwrap().display().to_string();
    } else if about.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            note(&entry.unwrap().path(), but, all);
        }
    }
    all.insert(path.to_owned(), what);
}

/// Why a call was refused.
fn refusal(told: &Value) -> &str {
    assert_eq!(told["isError"], true, "{told}");
    told["structuredContent"]["error"]["code"].as_str().unwrap_or_else(|| panic!("{told}"))
}

/// What a call answered.
fn facts(told: &Value) -> &Value {
    assert_ne!(told["isError"], true, "{told}");
    &told["structuredContent"]
}
