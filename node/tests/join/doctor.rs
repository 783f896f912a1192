//! `tasuki doctor` on healthy set-ups and on broken ones: each is broken on purpose, with real programs
//! and files, and its mend is named.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _, path::Path};

use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::join::world::{Home, Host, Served, soon, until};

const DOCTOR: &str = "tasuki doctor --json";

/// Set-ups that are looked at side by side: each is a few processes.
const AT_ONCE: usize = 4;

/// What a doctor found.
#[derive(Debug)]
struct Report {
    code: i32,
    told: Value,
}

impl Report {
    async fn of(mut command: Command) -> Self {
        // Whatever else runs on this machine.
        if !command.as_std().get_envs().any(|(name, _)| name == "TASUKI_BROKER_LISTEN") {
            command.env("TASUKI_BROKER_LISTEN", "127.0.0.1:0");
        }
        let output = soon(command.output()).await.unwrap();
        let told = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|why| panic!("{why}: {output:?}"));
        let it = Self { code: output.status.code().unwrap(), told };
        assert_eq!(it.code, if it.count("errors") == 0 { 0 } else { 5 }, "{it:?}");
        it
    }

    async fn at(home: &Home) -> Self {
        Self::of(home.command(DOCTOR)).await
    }

    fn count(&self, what: &str) -> u64 {
        self.told[what].as_u64().unwrap()
    }

    fn findings(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.told["findings"].as_array().unwrap().iter().map(|it| {
            let text = |name: &str| it[name].as_str().unwrap_or_default();
            (text("level"), text("what"), text("mend"))
        })
    }

    /// Whether something is wrong in these words, with a mend in those.
    fn names(&self, what: &str, mend: &str) -> bool {
        self.findings().any(|(level, said, by)| {
            matches!(level, "warning" | "error") && said.contains(what) && by.contains(mend)
        })
    }

    fn is_healthy(&self) -> bool {
        self.count("errors") == 0 && self.count("warnings") == 0
    }
}

/// Broker and node in one at a home.
async fn up(home: &Home, more: &str) -> Served {
    let line = format!("tasuki up --broker-listen 127.0.0.1:0 --dashboard off {more}");
    let up = Served::start(home.command(&line), &home.path.join("up.log"), "(MCP)").await;
    until(async || home.says("tasuki status --json").await.contains("\"is_present\":true")).await;
    up
}

/// A file in a home or its data, with the directories to it as this program makes them.
fn write(path: &Path, text: &str) {
    tasuki_proto::host::files::replace(path, text.as_bytes()).unwrap();
}

fn client(home: &Home, url: &str, limit_ms: u64) {
    let entry = json!({ "type": "http", "url": url, "timeout": limit_ms });
    write(
        &home.path.join(".claude.json"),
        &json!({ "mcpServers": { "tasuki": entry } }).to_string(),
    );
}

fn open_to_others(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A laptop that joined a host, for the role dev.
async fn joined(place: &Path, more: &str) -> (Host, Home) {
    let host = Host::new(place, "host").await;
    let laptop = Home::new(place, "laptop");
    let line = host.invite(&format!("--workspace w --role dev {more}")).await;
    laptop.says(&line).await;
    (host, laptop)
}

#[tokio::test]
async fn a_healthy_set_up_has_no_problems_and_a_letter_is_carried() {
    let place = tempfile::tempdir().unwrap();
    let home = Home::new(place.path(), "home");
    // Nothing was ever started.
    let nothing = Report::at(&home).await;
    assert!(nothing.is_healthy(), "{nothing:?}");
    assert!(nothing.findings().any(|(_, what, by)| what.contains("No node") && by.contains("up")));
    assert!(!home.data().exists(), "it makes nothing");

    let _up = up(&home, "").await;
    home.says("tasuki connect claude-code --role A").await;
    home.says("tasuki connect codex --role B --transport stdio").await;
    let before = home.says("tasuki mail mailboxes --json").await;
    for _ in 0..2 {
        let healthy = Report::at(&home).await;
        assert!(healthy.is_healthy(), "{healthy:?}");
        assert!(healthy.findings().all(|(level, ..)| level == "ok"), "{healthy:?}");
        assert!(healthy.told["delivery_ms"].is_u64(), "{healthy:?}");
    }
    // Nobody's roles, mail and loops noticed, and nobody became this data directory's project.
    let counts = |text: &str| {
        let told: Value = serde_json::from_str(text.trim()).unwrap();
        let mailboxes = told["mailboxes"].as_array().unwrap().iter();
        mailboxes.map(|it| (it["role"].clone(), it["inbox"].clone())).collect::<Vec<_>>()
    };
    let after = home.says("tasuki mail mailboxes --json").await;
    assert_eq!(counts(&before), counts(&after));
    let status = home.json("tasuki status").await;
    assert_eq!(status["nodes"].as_array().unwrap().len(), 1, "{status}");
    let said = home.says("tasuki doctor").await;
    assert!(said.ends_with("\nNo problems found.\n") && said.lines().count() <= 10, "{said}");
}

#[tokio::test]
async fn a_joined_laptop_and_a_guarded_broker_are_healthy() {
    let place = tempfile::tempdir().unwrap();
    let (host, laptop) = joined(place.path(), "").await;
    let _node = laptop.node().await;
    until(async || laptop.says("tasuki status --json").await.contains("\"is_present\":true")).await;
    let bound = Report::at(&laptop).await;
    assert!(bound.is_healthy() && bound.told["delivery_ms"].is_null(), "{bound:?}");
    // Where the broker runs everything may be done.
    let _node = host.home.node().await;
    let status = async || host.home.says("tasuki status --json").await;
    until(async || status().await.contains("\"is_present\":true")).await;
    let whole = Report::at(&host.home).await;
    assert!(whole.is_healthy() && whole.told["delivery_ms"].is_u64(), "{whole:?}");
}

#[tokio::test]
async fn an_open_broker_on_any_port_is_found_by_its_data() {
    let place = tempfile::tempdir().unwrap();
    let home = Home::new(place.path(), "home");
    let _broker = dashboard(&home).await;
    let report = Report::at(&home).await;
    assert_eq!(report.count("errors"), 0, "{report:?}");
    // As the doctor finds it, so do the other commands.
    let listed = home.run("tasuki mail mailboxes").await;
    let said = String::from_utf8(listed.stderr).unwrap();
    assert!(!said.contains("No broker answers"), "{said}");
}

/// An open broker with a dashboard, at whose address it is.
async fn dashboard(home: &Home) -> Served {
    let line = "tasuki-broker serve --listen 127.0.0.1:0 --dashboard 127.0.0.1:0";
    Served::start(home.command(line), &home.path.join("broker.log"), "(dashboard)").await
}

/// Of the broker of a home's data.
fn broker_url(home: &Home) -> String {
    home.read("broker/admin.json")["url"].as_str().unwrap().to_owned()
}

/// What is broken, what is said of it, and how its mend begins to be said.
const BREAKAGES: [(&str, &str, &str); 43] = [
    ("broker port taken", "is not to be had: ", "--broker-listen ADDRESS"),
    ("node port taken", "is not to be had: ", "--listen ADDRESS"),
    ("node killed", "ended without being stopped", "up`"),
    ("data writable by others", "others on this machine may write to", "chmod go-w "),
    ("secret readable by others", "Others on this machine may read", "chmod 600 "),
    ("private key readable by others", "Others on this machine may read", "key.pem"),
    ("unknown setting", "nonsense", "Correct it in "),
    ("bad value", "`lease`", "Correct it in "),
    ("untrusted file", "in the current directory", "`tasuki trust`"),
    ("unknown variable", "TASUKI_NONSENSE is not a setting", "`tasuki config check`"),
    ("hook program gone", "cannot be called", "Correct it in "),
    ("runner gone", "The runner mine cannot be started", "`tasuki runners check`"),
    ("few open files", "may have 256 files", "ulimit -n"),
    ("client to a closed port", "where nothing listens", "connect claude-code --role A"),
    ("client to a broker", "which is a broker, and no node", "connect claude-code --role A"),
    ("client to a dashboard", "which is the dashboard of a broker", "connect claude-code --role A"),
    ("client with https", "the node there takes http:// alone", "connect claude-code --role A"),
    ("client file no file", "Claude Code cannot read", "Correct "),
    ("data is a file", "is no directory", "Choose another with --data DIR"),
    ("node address lost", "does not say where it listens", "stop`, then "),
    ("broker is a dashboard", "is the dashboard of a broker", "`broker`"),
    ("broker takes TLS", "takes TLS alone", "`broker`"),
    ("broker takes no TLS", "does not speak TLS", "http:// or https://"),
    ("client limit below the hold", "gives a call up after 60 s", "connect claude-code --role A"),
    ("client of an unknown role", "plays Z; the node there hosts A, B", "`roles` in tasuki.toml"),
    ("client file malformed", "Codex cannot read", "Correct "),
    ("client program gone", "/gone/tasuki, which is gone", "connect claude-code --role A"),
    ("lock hook program gone", "does not exist", "lock-hook install`"),
    ("role that the node lacks", "which the running node does not host", "stop`, then "),
    ("broker is a node", "is the MCP port of a node", "--broker "),
    ("broker away", "No broker answers at https://", "Is it running"),
    ("other broker there", "certificate", "set up anew"),
    ("token revoked", "revoked", "`tasuki-broker invite`"),
    ("token ends soon", "This machine's token ends", "`tasuki-broker invite`"),
    ("token file damaged", "joined.json", "`tasuki join …` with a new invitation"),
    ("role hosted elsewhere", "refuses the node", "--take-over"),
    ("clock off", "The broker's clock is", "timedatectl"),
    ("data copied", "was copied or moved", "up --moved`"),
    ("journal mark damaged", "storage is damaged at", "`tasuki-broker verify --data"),
    ("node identity damaged", "node-identity.json", "the node becomes a new one"),
    ("outbox unreadable", "cannot be read", "`outbox drop ID`"),
    ("hook call failed", "of the hook bell failed for good", "`tasuki hook list`"),
    ("storage failed last time", "The log's last error: ", "logs` shows what led to it"),
];

#[tokio::test]
async fn each_of_what_can_break_is_found_with_its_mend() {
    let cases = BREAKAGES.map(|(what, said, mend)| async move {
        let place = tempfile::tempdir().unwrap();
        let Some(report) = Box::pin(broken(what, place.path(), &(said, mend))).await else {
            anstream::println!("{what}: not tried, this machine lacks what it takes");
            return;
        };
        assert!(report.names(said, mend), "{what}: {said:?} with {mend:?}: {report:#?}");
    });
    futures::stream::iter(cases).buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// Breaks one thing and looks. `None`: it cannot be broken on this machine.
async fn broken(what: &str, place: &Path, expected: &(&str, &str)) -> Option<Report> {
    let home = Home::new(place, "home");
    let settings = home.file("tasuki.toml");
    let said = async |text: &str| {
        write(&settings, text);
        Report::at(&home).await
    };
    let with = async |name: &str, value: &str| {
        let mut command = home.command(DOCTOR);
        command.env(name, value);
        Report::of(command).await
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|at| (taken, at.to_string())).unwrap();
    Some(match what {
        "broker port taken" => with("TASUKI_BROKER_LISTEN", &taken.1).await,
        "node port taken" => with("TASUKI_LISTEN", &taken.1).await,
        "node killed" => {
            up(&home, "").await.kill().await;
            Report::at(&home).await
        }
        "data writable by others" => {
            drop(up(&home, "").await);
            open_to_others(&home.data(), 0o770);
            Report::at(&home).await
        }
        "secret readable by others" => {
            let (_host, laptop) = joined(place, "").await;
            open_to_others(&laptop.file("joined.json"), 0o644);
            Report::at(&laptop).await
        }
        "private key readable by others" => {
            let host = Host::new(place, "host").await;
            open_to_others(&host.home.file("broker/tls/key.pem"), 0o644);
            Report::at(&host.home).await
        }
        "unknown setting" => said("nonsense = 1\n").await,
        "bad value" => said("lease = \"soon\"\n").await,
        "untrusted file" => {
            let hook = "[[hooks]]\nname = \"x\"\non = \"received\"\ncommand = [\"true\"]\n";
            write(&home.path.join("tasuki.toml"), hook);
            Report::at(&home).await
        }
        "unknown variable" => with("TASUKI_NONSENSE", "1").await,
        "hook program gone" => {
            let hook = "[[hooks]]\nname = \"x\"\non = \"received\"\ncommand = [\"/gone/hook\"]\n";
            said(hook).await
        }
        "runner gone" => {
            said("[runner.mine]\nstream = \"pi\"\ncommand = [\"no-such-agent-at-all\"]\n").await
        }
        "few open files" => Report::of(home.after("ulimit -n 256", DOCTOR)).await,
        "client to a closed port" => {
            let _up = up(&home, "").await;
            client(&home, "http://127.0.0.1:1/mcp/A", 3_600_000);
            Report::at(&home).await
        }
        "client to a broker" => {
            let _up = up(&home, "").await;
            client(&home, &format!("{}/mcp/A", broker_url(&home)), 3_600_000);
            Report::at(&home).await
        }
        "client to a dashboard" => {
            let dashboard = dashboard(&home).await;
            client(&home, &format!("{}/mcp/A", dashboard.url), 3_600_000);
            Report::at(&home).await
        }
        "client with https" => {
            let up = up(&home, "").await;
            client(&home, &format!("{}/mcp/A", up.url.replace("http:", "https:")), 3_600_000);
            Report::at(&home).await
        }
        "client file no file" => {
            let _up = up(&home, "").await;
            home.says("tasuki connect claude-code --role A").await;
            let file = home.path.join(".claude.json");
            fs::remove_file(&file).unwrap();
            fs::create_dir(&file).unwrap();
            Report::at(&home).await
        }
        "data is a file" => {
            write(&home.path.join("file"), "text");
            let file = home.path.join("file");
            with("TASUKI_DATA", file.to_str().unwrap()).await
        }
        "node address lost" => {
            let _up = up(&home, "").await;
            fs::remove_file(home.file("node.json")).unwrap();
            Report::at(&home).await
        }
        "broker is a dashboard" => {
            let dashboard = dashboard(&home).await;
            with("TASUKI_BROKER", &dashboard.url).await
        }
        "broker takes TLS" => {
            let host = Host::new(place, "host").await;
            let url = host.broker.url.replace("https:", "http:");
            with("TASUKI_BROKER", &url).await
        }
        "broker takes no TLS" => {
            let _up = up(&home, "").await;
            with("TASUKI_BROKER", &broker_url(&home).replace("http:", "https:")).await
        }
        "client limit below the hold" => {
            let up = up(&home, "").await;
            client(&home, &format!("{}/mcp/A?hold=1500", up.url), 60_000);
            Report::at(&home).await
        }
        "client of an unknown role" => {
            let up = up(&home, "").await;
            client(&home, &format!("{}/mcp/Z", up.url), 3_600_000);
            Report::at(&home).await
        }
        "client file malformed" => {
            let text = "[mcp_servers.tasuki\nurl = \"http://127.0.0.1:1/mcp/A\"\n";
            write(&home.path.join(".codex/config.toml"), text);
            Report::at(&home).await
        }
        "client program gone" => {
            let entry = json!({ "command": "/gone/tasuki", "args": ["mcp", "--role", "A"] });
            let text = json!({ "mcpServers": { "tasuki": entry } }).to_string();
            write(&home.path.join(".claude.json"), &text);
            Report::at(&home).await
        }
        "lock hook program gone" => {
            let git = soon(Command::new("git").args(["init", "-q"]).arg(&home.path).output()).await;
            assert!(git.unwrap().status.success());
            home.says("tasuki lock-hook install --git").await;
            let hook = home.path.join(".git/hooks/pre-commit");
            let text = fs::read_to_string(&hook).unwrap();
            let program = text.lines().find(|line| line.starts_with("tasuki=")).unwrap();
            fs::write(&hook, text.replace(program, "tasuki=/gone/tasuki")).unwrap();
            Report::at(&home).await
        }
        "role that the node lacks" => {
            let _up = up(&home, "").await;
            said("roles = [\"A\", \"B\", \"C\"]\n").await
        }
        "broker is a node" => {
            let up = up(&home, "").await;
            with("TASUKI_BROKER", &up.url).await
        }
        "broker away" => {
            let (mut host, laptop) = joined(place, "").await;
            host.broker.kill().await;
            Report::at(&laptop).await
        }
        "other broker there" => {
            let (mut host, laptop) = joined(place, "").await;
            host.broker.kill().await;
            fs::remove_dir_all(host.home.file("broker/tls")).unwrap();
            host.restart().await;
            Report::at(&laptop).await
        }
        "token revoked" => {
            let (host, laptop) = joined(place, "").await;
            let shown = laptop.json("tasuki broker-token show").await;
            let id = shown["token_id"].as_str().unwrap();
            host.home.says(&format!("tasuki-broker token revoke {id}")).await;
            Report::at(&laptop).await
        }
        "token ends soon" => {
            let (_host, laptop) = joined(place, "--token-expires 3d").await;
            Report::at(&laptop).await
        }
        "token file damaged" => {
            let (_host, laptop) = joined(place, "").await;
            write(&laptop.file("joined.json"), "{}");
            Report::at(&laptop).await
        }
        "role hosted elsewhere" => {
            let (host, laptop) = joined(place, "").await;
            let other = Home::new(place, "other");
            other.says(&host.invite("--workspace w --role dev").await).await;
            let _first = other.node().await;
            let there = async || other.says("tasuki status --json").await;
            until(async || there().await.contains("\"is_present\":true")).await;
            let _second = laptop.node().await;
            // It has to have heard of it.
            let heard = async || Report::at(&laptop).await.names(expected.0, expected.1);
            until(heard).await;
            Report::at(&laptop).await
        }
        "clock off" => {
            let library = faketime()?;
            let _up = up(&home, "").await;
            let mut command = home.command(DOCTOR);
            command.env("LD_PRELOAD", library).env("FAKETIME", "+1h");
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            Report::of(command).await
        }
        "data copied" => {
            up(&home, "").await.kill().await;
            let copy = Home::new(place, "copy");
            fs::create_dir_all(copy.data().parent().unwrap()).unwrap();
            let copied = Command::new("cp").arg("-a").args([home.data(), copy.data()]).output();
            assert!(soon(copied).await.unwrap().status.success());
            Report::at(&copy).await
        }
        "journal mark damaged" => {
            up(&home, "").await.kill().await;
            fs::write(home.file("broker/mark"), "nothing").unwrap();
            Report::at(&home).await
        }
        "node identity damaged" => {
            up(&home, "").await.kill().await;
            fs::write(home.file("node-identity.json"), "{").unwrap();
            Report::at(&home).await
        }
        "outbox unreadable" => {
            up(&home, "").await.kill().await;
            let sample = home.file("outbox/00000000000000000001.entry");
            fs::write(sample, "nothing").unwrap();
            Report::at(&home).await
        }
        "hook call failed" => {
            let hook = "[[hooks]]\nname = \"bell\"\non = \"received\"\ncommand = [\"false\"]\n\
                        retries = 0\n";
            write(&settings, hook);
            let _up = up(&home, "").await;
            home.says("tasuki mail send --role A --to B hello").await;
            until(async || {
                let kept = home.json("tasuki hook list").await;
                kept["hooks"][0]["dead_letters"].as_array().is_some_and(|it| !it.is_empty())
            })
            .await;
            Report::at(&home).await
        }
        "storage failed last time" => {
            up(&home, "").await.kill().await;
            let line = "2026-11-24T05:08:13.1Z ERROR tasuki_broker::server: the storage failed\n";
            write(&home.file("tasuki.log"), line);
            Report::at(&home).await
        }
        other => panic!("nobody breaks {other}"),
    })
}

fn faketime() -> Option<std::path::PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?;
    let mut found = folders.map(|it| it.unwrap().path().join("faketime/libfaketimeMT.so.1"));
    found.find(|it| it.is_file())
}

#[tokio::test]
#[ignore = "needs small disks: it mounts one"]
async fn a_disk_that_is_full_or_read_only_is_found() {
    let place = tempfile::tempdir().unwrap();
    let home = Home::new(place.path(), "home");
    fs::create_dir_all(home.data()).unwrap();
    for (how, said, mend) in [
        ("size=512k", "its disk is full", "Free some space"),
        ("size=8m", "MiB left", "Free some space"),
        ("ro", "its file system is read-only", "Remount it"),
    ] {
        let mount = format!("mount -t tmpfs -o {how},mode=700 tmpfs {}", home.data().display());
        let inner = home.after(&mount, DOCTOR);
        let mut command = Command::new("unshare");
        command.arg("--mount").arg(inner.as_std().get_program()).args(inner.as_std().get_args());
        command.current_dir(&home.path).env_clear();
        let env = inner.as_std().get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(env.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let report = Report::of(command).await;
        assert!(report.names(said, mend), "{how}: {report:#?}");
    }
}
