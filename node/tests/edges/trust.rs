//! A repository that was cloned opens nothing of the user's: neither its configuration nor the
//! data that it brings along counts before the user says so.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::process::{Process, soon};

/// A user at home, and a repository of somebody else's that they are in.
struct Repository {
    place: tempfile::TempDir,
}

impl Repository {
    fn new(files: &[(&str, &str)]) -> Self {
        let it = Self { place: tempfile::tempdir().unwrap() };
        for directory in [it.home(), it.path("")] {
            fs::create_dir(directory).unwrap();
        }
        for (name, text) in files {
            it.write(name, text);
        }
        it
    }

    fn home(&self) -> PathBuf {
        self.place.path().join("home")
    }

    /// In the repository.
    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join("repository").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What the user types there.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tasuki"));
        command.args(line.split_whitespace()).current_dir(self.path("")).env_clear();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", path).env("HOME", self.home()).env("NO_COLOR", "1").kill_on_drop(true);
        command
    }

    async fn run(&self, line: &str) -> (i32, String, String) {
        let Output { status, stdout, stderr } = soon(self.command(line).output()).await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }

    /// A command that must be refused as the configuration is, with these words.
    async fn refuses(&self, line: &str, words: &str) {
        let (code, out, err) = self.run(line).await;
        assert_eq!((code, out.as_str()), (2, ""), "{line}: {err}");
        assert!(err.contains(words), "{line}: {err}");
        assert!(err.contains("tasuki trust"), "{line}: {err}");
    }

    async fn json(&self, line: &str) -> Value {
        let (code, out, err) = self.run(&format!("{line} --json")).await;
        assert_eq!(code, 0, "{line}: {err}");
        serde_json::from_str(&out).unwrap()
    }

    /// `tasuki up`, once it listens, and what it printed so far.
    async fn up(&self, more: &str) -> (Child, Vec<String>) {
        let mut command = self.command(&format!("up --listen 127.0.0.1:0 {more}"));
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut printed = Vec::new();
        while !printed.iter().any(|line: &String| line.ends_with("(broker gRPC)")) {
            let line = soon(lines.next_line()).await.unwrap().expect("it starts");
            printed.push(line);
        }
        (child, printed)
    }
}

const ATTACK: &str = "data = \".cache\"\nbroker_listen = \"0.0.0.0:0\"\n";

#[tokio::test]
async fn a_cloned_repository_with_its_own_data_opens_no_broker() {
    let clone = Repository::new(&[]);
    // Its author once ran a broker with that data, and knows a token that may do everything.
    let mut author = Process::up(&clone.path(".cache"), "").await;
    author.kill().await;
    fs::remove_file(clone.path(".cache.log")).unwrap();
    clone.write("tasuki.toml", ATTACK);
    let admin = fs::read_to_string(clone.path(".cache/broker/admin.json")).unwrap();
    let token = serde_json::from_str::<Value>(&admin).unwrap()["token"].clone();

    let words = "`data` and `broker_listen` are not taken from a file that happens to be in";
    for line in ["up --listen 127.0.0.1:0", "status", "node", "mail list inbox --role A"] {
        clone.refuses(line, words).await;
    }
    let (code, out, err) = clone.run("config check").await;
    assert!(code == 2 && err.contains(words) && err.contains("tasuki.toml:1: "), "{err}");
    assert!(!out.contains(".cache") && !out.contains("0.0.0.0"), "{out}");
    assert!(!clone.home().join(".local").exists(), "nothing was begun");

    // Who reads it and trusts it is told what that means, and what is printed is what is bound.
    let said = clone.run("trust").await;
    assert_eq!(said.0, 0, "{said:?}");
    for line in ATTACK.lines() {
        assert!(said.1.contains(line), "{}", said.1);
    }
    assert!(said.2.contains(".cache has data in it already"), "{}", said.2);
    clone.refuses("status", ".cache, which may have come with the current directory").await;
    fs::remove_dir_all(clone.path(".cache")).unwrap();
    let (mut child, printed) = clone.up("").await;
    let bound = |line: &String| line.starts_with("listening on https://0.0.0.0:");
    assert!(printed.iter().any(bound), "{printed:?}");
    soon(child.kill()).await.unwrap();
    let now = fs::read_to_string(clone.path(".cache/broker/admin.json")).unwrap();
    assert_ne!(serde_json::from_str::<Value>(&now).unwrap()["token"], token);

    // A pull that changes the file ends that.
    clone.write("tasuki.toml", &format!("{ATTACK}mirror = true\n"));
    clone.refuses("up --listen 127.0.0.1:0", "changed since you trusted it").await;
    let list = clone.json("trust --list").await;
    assert_eq!(list["trusted"][0]["unchanged"], false);
    clone.write("tasuki.toml", ATTACK);
    assert_eq!(clone.json("trust --list").await["trusted"][0]["unchanged"], true);
    assert_eq!(clone.json("trust --revoke").await["revoked"]["was_trusted"], true);
    // What is left is the data that the user's own broker made there.
    let left = clone.json("trust --list").await["trusted"].clone();
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    assert_eq!((&left[0]["files"], &left[0]["data"]), (&json!({}), &json!(true)));
    let made = clone.path(".cache").canonicalize().unwrap();
    assert_eq!(left[0]["directory"], json!(made));
    clone.refuses("status", words).await;
    // Nothing of it was kept where the repository's author could have put it.
    let here: Vec<_> =
        fs::read_dir(clone.path("")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(here.iter().all(|name| name == "tasuki.toml" || name == ".cache"), "{here:?}");
}

#[tokio::test]
async fn data_that_came_with_a_repository_is_not_used_before_its_user_trusts_it() {
    let clone = Repository::new(&[]);
    // Its author's broker and node, which their address file names.
    let mut author = Process::up(&clone.path(".tasuki"), "--role A").await;
    let words = "there is data in .tasuki, which may have come with the current directory";
    for line in [
        "mail send --role A --to A secret",
        "mail list --role A",
        "status",
        "outbox",
        "connect claude-code --role A",
        "node",
        "up --listen 127.0.0.1:0 --broker-listen 127.0.0.1:0",
    ] {
        clone.refuses(&format!("{line} --data .tasuki"), words).await;
        clone.refuses(&format!("{line} --data ./.tasuki"), "there is data in ./.tasuki").await;
        let mut named = clone.command(line);
        let output = soon(named.env("TASUKI_DATA", ".tasuki").output()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{line}: {said}");
    }
    let sent = author.json("mail list --role A").await;
    assert!(sent.iter().all(|it| it["message_id"].is_null()), "{sent:?}");
    assert!(fs::read_dir(clone.home()).unwrap().next().is_none(), "nothing was begun");

    // By its absolute path the user vouches for it, or by trusting it.
    let (code, _, err) = clone.run(&format!("status --data {}", author.data.display())).await;
    assert_eq!(code, 0, "{err}");
    assert_eq!(clone.json("trust .tasuki").await["trusted"]["data"], true);
    let (code, _, err) = clone.run("status --data .tasuki").await;
    assert_eq!(code, 0, "{err}");
    assert_eq!(clone.json("trust --list").await["trusted"][0]["data"], true);
    // Another directory in its place is another one.
    author.kill().await;
    fs::rename(clone.path(".tasuki"), clone.path("before")).unwrap();
    clone.write(".tasuki/node.json", "{}");
    clone.refuses("status --data .tasuki", words).await;
    assert_eq!(clone.json("trust --list").await["trusted"][0]["unchanged"], false);
}

#[tokio::test]
async fn a_data_directory_that_a_command_made_is_its_users() {
    let clone = Repository::new(&[("mine/.gitignore", "*\n")]);
    fs::set_permissions(clone.path("mine"), fs::Permissions::from_mode(0o700)).unwrap();
    let (mut child, _) = clone.up("--broker-listen 127.0.0.1:0 --role A --data mine").await;
    for line in [
        "status",
        "mail send --role A --to A x",
        "connect claude-code --role A",
        "lock-hook status",
        "outbox",
    ] {
        let (code, _, err) = clone.run(&format!("{line} --data mine")).await;
        assert!(!err.contains("there is data in"), "{line}: {code} {err}");
    }
    soon(child.kill()).await.unwrap();
    // Each of what is kept there tells that there is data.
    for entry in fs::read_dir(clone.path("mine")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_known = tasuki_proto::host::trust::is_of_data(&name);
        assert_eq!(is_known, name != ".gitignore", "{name}");
    }
    // One that is put together from what a node kept is nobody's.
    fs::create_dir(clone.path("theirs")).unwrap();
    for name in ["node.json", "node-identity.json"] {
        fs::copy(clone.path("mine").join(name), clone.path("theirs").join(name)).unwrap();
        clone.refuses("status --data theirs", "there is data in theirs").await;
        fs::remove_file(clone.path("theirs").join(name)).unwrap();
    }
}

#[tokio::test]
async fn a_cloned_repository_sends_and_gets_no_mail_of_its_users() {
    let letter = "---\nto: B\ntype: BR\ntitle: x\n---\nsent as you\n";
    let clone = Repository::new(&[
        ("tasuki.toml", "mirror = true\nroles = [\"A\", \"B\"]\n"),
        ("docs/mailbox/A/outbox/x.md", letter),
    ]);
    clone.refuses("up --listen 127.0.0.1:0 --broker-listen 127.0.0.1:0", "`mirror` is not").await;
    assert_eq!(fs::read_to_string(clone.path("docs/mailbox/A/outbox/x.md")).unwrap(), letter);
    assert!(!clone.path("docs/mailbox/A/inbox").exists());

    // Nor does the file that says where mailboxes are lead elsewhere.
    let outside = clone.place.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let agents = json!({ "agents": { "A": outside, "B": "." } }).to_string();
    clone.write("tasuki.toml", "roles = [\"A\", \"B\"]\n");
    clone.write(".filebox", &agents);
    let mut up = clone.command("up --listen 127.0.0.1:0 --broker-listen 127.0.0.1:0");
    let output = soon(up.env("TASUKI_MIRROR", "yes").output()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("keeps the mailbox of A in") && said.contains("tasuki trust"), "{said}");
    assert!(fs::read_dir(&outside).unwrap().next().is_none());
    let trusted = clone.json("trust").await;
    assert_eq!(trusted["trusted"]["files"], json!([".filebox"]));
    assert_eq!(trusted["trusted"]["settings"], json!([]));
    let (_, out, _) = clone.run("trust").await;
    for said in [
        "You now trust .filebox in ".to_owned(),
        format!("  .filebox: A is in {}\n", outside.display()),
        "Nothing in tasuki.toml needs trust".to_owned(),
        "run `tasuki trust` again; `tasuki trust --revoke ".to_owned(),
    ] {
        assert!(out.contains(&said), "{said}: {out}");
    }
    let mut up = clone.command("up --listen 127.0.0.1:0 --broker-listen 127.0.0.1:0");
    let mut child = up.env("TASUKI_MIRROR", "yes").spawn().unwrap();
    soon(async {
        while !outside.join("docs/mailbox").exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    soon(child.kill()).await.unwrap();
}

#[tokio::test]
async fn hooks_of_a_repository_count_once_it_is_trusted() {
    let ring = "[[hooks]]\nname = \"a\"\non = \"sent\"\ncommand = [\"true\"]\n";
    let clone = Repository::new(&[("tasuki.toml", ring)]);
    let up = "up --listen 127.0.0.1:0 --broker-listen 127.0.0.1:0";
    clone.refuses(up, "`hooks` is not taken from a file that happens to be in").await;
    assert!(!clone.home().join(".local").exists(), "nothing was begun");
    let (code, out, err) = clone.run("hook list").await;
    assert!(code == 0 && out.starts_with("Hooks are refused: "), "{out} {err}");
    assert!(out.contains("`hooks` is not taken from") && out.contains("`tasuki trust`"), "{out}");
    let (code, out, _) = clone.run("trust").await;
    assert!(
        code == 0 && out.contains("[[hooks]]") && out.contains("command = [\"true\"]"),
        "{out}"
    );
    let checked = clone.json("config check").await;
    assert_eq!(checked["hooks"][0]["name"], "a");
    clone.write("tasuki.toml", "roles = [\"A\"]\n");
    let (code, out, _) = clone.run("trust").await;
    assert!(code == 0 && out.starts_with("Nothing in tasuki.toml in "), "{out}");
    // What makes no sense is not worth trusting, and where there is nothing there is nothing to do.
    clone.write("tasuki.toml", "listen = 1\n");
    let (code, _, err) = clone.run("trust").await;
    assert!(code == 2 && err.contains("`listen` takes a text"), "{err}");
    fs::remove_file(clone.path("tasuki.toml")).unwrap();
    let (code, _, err) = clone.run("trust").await;
    assert!(code == 2 && err.contains("nothing to trust"), "{err}");
}

#[tokio::test]
async fn config_check_shows_both_files_and_what_they_say_of_the_broker() {
    let team = "roles = [\"A\"]\n[toolsets]\nghost = [\"mail\"]\n";
    let clone = Repository::new(&[("tasuki.toml", team)]);
    let own = clone.home().join(".config/tasuki/tasuki.toml");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, "secure = true\nadvertise = \"h\"\n").unwrap();
    let (code, out, err) = clone.run("config check").await;
    assert_eq!(code, 0, "{err}");
    let heading = format!("tasuki.toml and {} are in order", own.display());
    let secure = format!("secure         true  from {}:1", own.display());
    let toolsets = "warning: `toolsets` names ghost, which is not among the roles";
    for said in [heading.as_str(), &secure, toolsets] {
        assert!(out.contains(said), "{said}: {out}");
    }
    let checked = clone.json("config check").await;
    assert_eq!(checked["file_below"], json!(own));
    assert_eq!(checked["broker_settings"]["advertise"]["value"], "h");
    assert_eq!(checked["toolsets_without_role"], json!(["ghost"]));
    fs::write(&own, "secure = 7\ntls_cert = \"c\"\n").unwrap();
    let (code, _, err) = clone.run("config check").await;
    assert_eq!(code, 2, "{err}");
    for said in [":1: `secure` takes true or false", ":2: `tls_cert` and `tls_key` belong"] {
        assert!(err.contains(said), "{said}: {err}");
    }
}

#[tokio::test]
async fn a_node_uses_no_key_that_others_may_read_and_no_data_that_they_may_write() {
    let clone = Repository::new(&[]);
    let data = clone.home().join("data");
    let line = format!("--broker-listen 127.0.0.1:0 --secure --data {}", data.display());
    let (mut child, _) = clone.up(&line).await;
    soon(child.kill()).await.unwrap();
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for (path, bad, good, code, said) in [
        (data.join("tls/key.pem"), 0o644, 0o600, 5, "chmod 600"),
        (data.join("task-key"), 0o640, 0o600, 5, "chmod 600"),
        (data.clone(), 0o777, 0o700, 2, "chmod go-w"),
    ] {
        set(&path, bad);
        let (ended, _, err) = clone.run(&format!("up --listen 127.0.0.1:0 {line}")).await;
        assert_eq!(ended, code, "{}: {err}", path.display());
        assert!(err.contains(said) && err.contains("others on this machine may"), "{err}");
        set(&path, good);
    }
    let (mut child, _) = clone.up(&line).await;
    soon(child.kill()).await.unwrap();
}

#[tokio::test]
async fn a_workspace_that_up_names_is_there_at_once_and_a_mistyped_one_never() {
    let dir = tempfile::tempdir().unwrap();
    let up = Process::up(&dir.path().join("data"), "--workspace project --role A --role B").await;
    up.json("loop list --workspace project").await;
    // Whoever says none means that of the node here.
    let sent = up.json("mail send --role A --to B here").await.remove(0);
    let listed = up.json("mail list --role B --workspace project").await;
    assert_eq!(listed[0]["message_id"], sent["message_id"], "{listed:?}");
    assert_eq!(up.json("status").await[0]["workspace"], "project");
    for line in [
        "mail send --workspace typo --role A --to B lost",
        "mail send --workspace typo --role A --new-role --to A lost",
        "mail mailboxes --workspace typo",
        "loop list --workspace typo",
        "status --workspace typo",
        "mail list inbox --role A --workspace typo",
    ] {
        let output = up.run(line).await;
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("\"unknown_workspace\""), "{line}: {said}");
        assert!(said.contains("There are default, project."), "{line}: {said}");
    }
    // Another node makes its own.
    up.make_workspace("other").await;
    up.json("loop list --workspace other").await;
}
