//! The first five minutes of README.md, typed on a bare machine: a root directory with a shell and
//! the tools that every Debian has, and a network that is loopback alone. No Rust, no Git, no USER,
//! no TERM, nobody's home. The archive is what `scripts/dist.sh` packs. Two agents take turns there,
//! over stdio.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Stdio,
    time::Duration,
};

use serde_json::{Value, json};
use tasuki_examples::process::program;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{blocks, root};

/// For one command on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Each is in a package that Debian marks as essential.
const TOOLS: &str = "sh cat cp dirname env find grep gzip ls mkdir mktemp mv rm rmdir sed \
                     sha256sum sort tar";

/// In place of what `dist.sh` calls: the programs are built already, and small archives are of no
/// use to anybody here.
const STUBS: [(&str, &str); 3] = [
    ("cargo", "echo tasuki MIT"),
    ("rustc", "echo \"host: $HOST\""),
    ("gzip", "PATH=${PATH#*:}; exec gzip -1 \"$@\""),
];

/// Packs the archive, in the directory of the copied tree, and lays out the root beside it.
const LAY_OUT: &str = r#"
set -e
export CARGO_TARGET_DIR=$PWD/built
mkdir -p built/release root/bin root/dev root/proc root/tmp root/root
for program in tasuki tasuki-broker; do
    # Names of functions make up most of a program that was built for tests.
    strip -o "built/release/$program" "$PROGRAMS/$program" 2> /dev/null ||
        cp "$PROGRAMS/$program" built/release
done
PATH=$PWD/stubs:$PATH scripts/dist.sh
mv target/dist/*.tar.gz target/dist/*.sha256 root/root
for tool in $TOOLS; do cp -L "$(command -v "$tool")" root/bin; done
for library in $(ldd root/bin/* built/release/* \
    | sed -n 's|^[[:space:]]\(.* => \)\{0,1\}\(/[^ ]*\) (.*|\2|p' | sort -u); do
    mkdir -p "root${library%/*}"
    cp -L "$library" "root$library"
done
rm -r built target
: > root/dev/null
"#;

/// Becomes the machine's shell, and says first which process it is outside.
const ENTER: &str = r#"
set -e
read -r id _ < /proc/self/stat
echo "$id"
mount --bind /dev/null root/dev/null
mount -t proc proc root/proc
ip link set lo up
exec chroot root /bin/env -i HOME=/root PATH=/bin /bin/sh 2>&1
"#;

struct Bare {
    _place: tempfile::TempDir,
    /// Killed when dropped, and everything on the machine with it.
    _shell: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    id: String,
}

impl Bare {
    /// A machine with an archive for `host` in its home.
    async fn new(host: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        for name in ["packaging", "scripts", "README.md", "CHANGELOG.md"] {
            symlink(root().join(name), place.path().join(name)).unwrap();
        }
        for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
            symlink(root().join(name), place.path().join(name)).unwrap();
        }
        let stubs = place.path().join("stubs");
        fs::create_dir(&stubs).unwrap();
        for (name, text) in STUBS {
            let path = stubs.join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let programs = program("tasuki").unwrap().parent().unwrap().to_owned();
        assert!(programs.join("tasuki-broker").exists(), "cargo build --workspace");
        let mut lay_out = shell(place.path(), LAY_OUT, &["sh"]);
        lay_out.env("PROGRAMS", programs).env("TOOLS", TOOLS).env("HOST", host);
        let output = soon(lay_out.output()).await.unwrap();
        assert!(output.status.success(), "{output:?}");

        let words = "unshare --mount --pid --net --fork --kill-child sh";
        let words: Vec<&str> = words.split(' ').collect();
        let mut shell = shell(place.path(), ENTER, &words);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = shell.stdin.take().unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let id = soon(lines.next_line()).await.unwrap().expect("the machine begins");
        Self { _place: place, _shell: shell, stdin, lines, id }
    }

    /// What a command prints, which must succeed.
    async fn says(&mut self, line: &str) -> String {
        // No command reads what is typed after it.
        let typed = format!("{{ {line}\n}} < /dev/null; printf '\\nexit code %s\\n' \"$?\"\n");
        self.stdin.write_all(typed.as_bytes()).await.unwrap();
        let mut said = String::new();
        loop {
            let next = soon(self.lines.next_line()).await.unwrap();
            let next = next.unwrap_or_else(|| panic!("{line}: the shell ended: {said}"));
            if let Some(code) = next.strip_prefix("exit code ") {
                assert_eq!(code, "0", "{line}: {said}");
                return said;
            }
            said += &format!("{next}\n");
        }
    }

    /// An MCP client that starts `command` where the shell is.
    async fn agent(&self, command: &str) -> Agent {
        let line = format!("exec {command}");
        let mut entered = Command::new("nsenter");
        entered.args(["--target", &self.id, "--mount", "--net", "--pid", "--root", "--wd"]);
        entered.args(["/bin/env", "-i", "HOME=/root", "PATH=/root/.local/bin:/bin"]);
        entered.args(["/bin/sh", "-c", &line]).kill_on_drop(true);
        let mut child = entered.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut agent = Agent { child, stdin, lines };
        let client = json!({ "name": "example", "version": "1" });
        agent
            .ask(
                "initialize",
                json!({
                    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client,
                }),
            )
            .await;
        agent.send(json!({ "method": "notifications/initialized" })).await;
        agent
    }
}

fn shell(place: &Path, script: &str, words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["-c", script]).current_dir(place).kill_on_drop(true);
    // A user's PATH lacks the latter two on some systems.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

async fn soon<F: Future>(it: F) -> F::Output {
    timeout(PATIENCE, it).await.expect("it takes too long")
}

struct Agent {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Agent {
    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// One request at a time.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({ "id": 1, "method": method, "params": params })).await;
        loop {
            let line = soon(self.lines.next_line()).await.unwrap().expect("it answers");
            let mut message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == 1 && message.get("method").is_none() {
                assert!(message["result"].is_object(), "{message}");
                return message["result"].take();
            }
        }
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert_ne!(result["isError"], true, "{result}");
        result
    }

    /// Waits for the turn; what the agent before has to say.
    async fn turn(&mut self, role: &str) -> String {
        let result = self.call("await_my_turn", json!({ "agent_id": role })).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        let turn: Value = serde_json::from_str(text).unwrap();
        assert_eq!(turn["can_start"], true, "{turn}");
        text.to_owned()
    }

    async fn hand_over(&mut self, role: &str, summary: &str, next: &str) {
        let arguments =
            json!({ "agent_id": role, "work_summary": summary, "next_instruction": next });
        self.call("handover_work", arguments).await;
    }

    /// The client goes: its server ends with it.
    async fn leave(self) {
        let Self { mut child, stdin, lines: _lines } = self;
        drop(stdin);
        assert!(soon(child.wait()).await.unwrap().success());
    }
}

async fn take_turns(bare: &Bare) {
    let mut a = bare.agent("tasuki mcp --role A").await;
    let mut b = bare.agent("tasuki mcp --role B").await;
    a.turn("A").await;
    let (heard, ()) = tokio::join!(b.turn("B"), a.hand_over("A", "API done", "build the UI on it"));
    assert!(heard.contains("API done") && heard.contains("build the UI on it"), "{heard}");
    let (heard, ()) = tokio::join!(a.turn("A"), b.hand_over("B", "UI done", "look at it"));
    assert!(heard.contains("UI done") && heard.contains("look at it"), "{heard}");
    a.leave().await;
    b.leave().await;
}

#[tokio::test]
#[ignore = "needs a bare machine"]
async fn two_agents_take_turns_from_the_readme_alone() {
    let readme = root().join("README.md");
    assert!(fs::read_to_string(&readme).unwrap().contains("`tasuki mcp --role A`"));
    let blocks: Vec<_> = blocks(&readme)
        .into_iter()
        .filter(|it| ["install", "start"].contains(&&*it.scene))
        .collect();
    let archive = blocks[0].text.strip_prefix("tar -xzf tasuki-").expect("it is unpacked first");
    let (archive, _) = archive.split_once(".tar.gz\n").unwrap();
    let host = archive.strip_prefix(concat!(env!("CARGO_PKG_VERSION"), "-")).unwrap();
    let mut bare = Bare::new(host).await;
    bare.says("cd").await;

    let (mut typed, mut is_in_project) = (0, false);
    for block in &blocks {
        if block.scene == "start" && !std::mem::replace(&mut is_in_project, true) {
            bare.says("mkdir project && cd project").await;
        }
        for line in block.text.lines() {
            typed += 1;
            let line = line.split("  #").next().unwrap().trim();
            if line == "tasuki watch" {
                bare.says("tasuki watch > /dev/null & watch=$!").await;
                take_turns(&bare).await;
                // It stays until it is ended.
                bare.says("kill $watch").await;
                bare.says("wait $watch || true").await;
                continue;
            }
            let said = bare.says(line).await;
            let expected: &[&str] = match line {
                "tasuki loop history" => &["#1 A → B", "API done", "#2 B → A", "UI done"],
                "tasuki loop status" => &["A has turn 3"],
                "tasuki doctor" => &["No problems found."],
                "tasuki stop" => &["Stopped"],
                line if line.starts_with("tasuki up") => &["http://127.0.0.1:7421 (MCP)"],
                line if line.starts_with("tasuki prompt") => &["await_my_turn", "Build the API"],
                _ => &[],
            };
            for it in expected {
                assert!(said.contains(it), "{line}: {it}: {said}");
            }
        }
    }
    assert!(12 < typed, "{typed}");
    // Nothing is left behind. One that ended may wait for the shell to look at it.
    let left = bare.says("cat /proc/[0-9]*/stat 2>/dev/null || true").await;
    let runs = |it: &str| it.contains("(tasuki") && !it.contains(") Z ") && !it.contains(") X ");
    assert!(!left.lines().any(runs), "{left}");
}
