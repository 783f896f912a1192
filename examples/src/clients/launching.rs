//! `tasuki launch` starts Claude Code, Codex and opencode: each is told its role and connects, and
//! then nothing is left of its quota.
//!
//! Role A is Claude Code's, and Codex follows it there; B is Codex', C opencode's. A has the first turn.
//! Claude Code gets it and has nothing left, so Codex goes on as A; it has nothing left either, so the
//! turn goes to B, which hands it over to C. There opencode has nothing left, and B gets it again.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use serde_json::Value;
use tokio::{
    process::Command,
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::{
    client::Client,
    home::Home,
    model::Model,
    running::{output, output_within},
    script::relay::{Relay, Then},
};
use crate::Result;

/// For `tasuki launch` to end: it waits for the agents as long as it is told below.
const LAUNCH_WITHIN: Duration = Duration::from_secs(330);

/// For a session to be seen to have nothing left, and for what follows: some clients try again for a
/// while before they say so.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(300);

/// Between two looks at the screens.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What is said to each about its goal, in its prompt.
const GOAL: &str = "Carry the sash to the end";

/// A token of a subscription; the scripted model takes any.
const TOKEN: &str = "sk-ant-oat01-scripted-model-takes-any";

/// How the launcher says that a quota was used up, before the client's own words.
const QUOTA: &str = "quota used up: ";

/// What was seen of one client.
#[derive(Debug, Clone)]
pub struct Seen {
    pub client: Client,
    pub version: String,
    pub date: SystemTime,
    /// Why it does not work.
    pub failure: Option<String>,
    /// As `tasuki launch` said it.
    pub connected: Option<String>,
    /// Where its model was told its role.
    pub told_in: Option<&'static str>,
    /// How it says that nothing is left of its quota.
    pub words: Option<String>,
    /// What happened then.
    pub follows: Option<&'static str>,
}

/// The clients that are launched.
pub const CLIENTS: [Client; 3] = [Client::ClaudeCode, Client::Codex, Client::Opencode];

/// Launches them; whatever goes wrong is in what was seen.
pub async fn play(place: &Path, runs: &Path, starting: &Semaphore) -> Vec<Seen> {
    let seen = |client: Client| Seen {
        client,
        version: client.version(place).unwrap_or_else(|_| "?".to_owned()),
        date: SystemTime::UNIX_EPOCH,
        failure: None,
        connected: None,
        told_in: None,
        words: None,
        follows: None,
    };
    let mut all = CLIENTS.map(seen);
    let played: Result<()> = async {
        // Three start at once, as they do for a person.
        let _permits = starting.acquire_many(2).await?;
        let mut scene = Scene::set(&runs.join("launch"), place).await?;
        let played = scene.play(&mut all).await;
        scene.end().await;
        played.map_err(|why| {
            format!("{why} (its home is kept: {})", scene.home.keep().display()).into()
        })
    }
    .await;
    if let Err(why) = played {
        for seen in all.iter_mut().filter(|it| it.follows.is_none()) {
            seen.failure = Some(why.to_string());
        }
    }
    all.to_vec()
}

struct Scene {
    home: Home,
    claude: Model,
    /// Of Codex as A.
    second: Model,
    /// Of Codex as B.
    codex: Model,
    opencode: Model,
}

impl Scene {
    async fn set(folder: &Path, place: &Path) -> Result<Self> {
        let home = Home::new(folder, place)?;
        let model = async |name: &str, role: &'static str, then: Then| {
            let folder = home.folder.join(format!("model-{name}"));
            Model::start(&folder, Box::new(Relay { role, then })).await
        };
        let claude = model("claude-code", "A", Then::Limit).await?;
        let second = model("codex-a", "A", Then::Limit).await?;
        let codex = model("codex", "B", Then::HandOver).await?;
        let opencode = model("opencode", "C", Then::Limit).await?;
        Client::ClaudeCode.settle(&home, claude.url())?;
        Client::Codex.settle(&home, codex.url())?;
        Client::Opencode.settle(&home, opencode.url())?;
        fs::create_dir_all(home.path("tmux"))?;
        let agent = |role: &str, client: Client, more: &str| {
            let client = client.name();
            format!(
                "[[launch.agent]]\nrole = \"{role}\"\nclient = \"{client}\"\nallow = true\n{more}\n"
            )
        };
        let url = second.url();
        let args = format!("args = ['-c', 'model_providers.scripted.base_url=\"{url}/v1\"']");
        let agents = [
            agent("A", Client::ClaudeCode, ""),
            agent("A", Client::Codex, &args),
            agent("B", Client::Codex, ""),
            agent("C", Client::Opencode, ""),
        ];
        home.write(
            ".config/tasuki/tasuki.toml",
            &format!(
                "listen = \"127.0.0.1:0\"\nbroker_listen = \"127.0.0.1:0\"\ndashboard = \"off\"\n\
                 roles = [\"A\", \"B\", \"C\"]\n\n[launch]\nterminal = \"tmux\"\nwait = \"5m\"\n\n{}",
                agents.concat()
            ),
        )?;
        Ok(Self { home, claude, second, codex, opencode })
    }

    /// `tasuki`, in whose environment the clients are started.
    fn tasuki(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = self.home.tasuki()?;
        command.args(arguments).env("TMUX_TMPDIR", self.home.path("tmux"));
        Client::ClaudeCode.surround(&mut command, self.claude.url());
        // As with a subscription: with a key of the API no quota is used up, but a rate exceeded.
        command.env_remove("ANTHROPIC_API_KEY").env("CLAUDE_CODE_OAUTH_TOKEN", TOKEN);
        Client::Codex.surround(&mut command, self.codex.url());
        Client::Opencode.surround(&mut command, self.opencode.url());
        Ok(command)
    }

    async fn play(&self, all: &mut [Seen; 3]) -> Result<()> {
        let launch = self.tasuki(&["launch", "--goal", GOAL, "--json"])?;
        let (is_done, told) = output_within(launch, LAUNCH_WITHIN).await?;
        fs::write(self.home.folder.join("launch.json"), &told)?;
        self.keep_screens().await;
        let date = fs::metadata(&self.home.data)?.modified()?;
        let report: Value = serde_json::from_str(&told).map_err(|why| format!("{why}: {told}"))?;
        for (seen, role) in all.iter_mut().zip(["A", "B", "C"]) {
            seen.date = date;
            let steps = report["steps"].as_array().map_or(&[][..], Vec::as_slice);
            let step = steps.iter().find(|it| it["step"] == role && it["result"] == "done");
            seen.connected = step.and_then(|it| it["text"].as_str()).map(str::to_owned);
        }
        if !is_done {
            return Err(format!("`tasuki launch`: {}", report["agents"]).into());
        }
        tokio::select! {
            () = self.watch_screens() => Ok(()),
            played = self.quotas(all) => played,
        }
    }

    /// Each was told its role, and one after the other has nothing left.
    async fn quotas(&self, all: &mut [Seen; 3]) -> Result<()> {
        let models = [(&self.claude, "A"), (&self.codex, "B"), (&self.opencode, "C")];
        for (seen, (model, role)) in all.iter_mut().zip(models) {
            let prompt = format!("You are agent {role}");
            seen.told_in = Some(model.is_told(&prompt, 0, FOLLOWS_WITHIN).await?.place);
            let first = format!("You play the role {role}");
            model.is_told(&first, 0, FOLLOWS_WITHIN).await?;
            model.is_told(GOAL, 0, FOLLOWS_WITHIN).await?;
        }
        let [claude, codex, opencode] = all;
        let mark = format!("claude-code stopped before it was done ({QUOTA}");
        let told = self.second.is_told(&mark, 0, FOLLOWS_WITHIN).await?;
        claude.words = between(&told.words, &mark, "). ");
        claude.follows = Some("the next agent of its role goes on");

        let mark = format!("The session of A (codex) ended without a handover: {QUOTA}");
        let told = self.codex.is_told(&mark, 0, FOLLOWS_WITHIN).await?;
        codex.words = between(&told.words, &mark, ". No uncommitted");
        codex.follows = Some("its turn goes to the next role");

        let mark = format!("The session of C (opencode) ended without a handover: {QUOTA}");
        let told = self.codex.is_told(&mark, 0, FOLLOWS_WITHIN).await?;
        opencode.words = between(&told.words, &mark, ". No uncommitted");
        opencode.follows = Some("its turn goes back to who had it before");
        Ok(())
    }

    async fn watch_screens(&self) {
        loop {
            sleep(LOOK_EVERY).await;
            self.keep_screens().await;
        }
    }

    /// What the windows show goes to the run's logs, each picture once.
    async fn keep_screens(&self) {
        for role in ["A", "B", "C"] {
            let mut command = self.home.outside("tmux");
            let window = format!("=tasuki-default:={role}");
            command.env("TMUX_TMPDIR", self.home.path("tmux"));
            command.args(["capture-pane", "-p", "-t", &window]);
            // A window may not be there yet, or any more.
            let Ok((true, screen)) = output(command).await else { continue };
            let path = self.home.folder.join(format!("screens-{role}.txt"));
            let before = fs::read_to_string(&path).unwrap_or_default();
            if !before.ends_with(&screen) {
                drop(fs::write(&path, format!("{before}\n=====\n{screen}")));
            }
        }
    }

    /// Ends terminals, node and broker, however far the play came.
    async fn end(&self) {
        /// For all of it to end.
        const WITHIN: Duration = Duration::from_secs(60);
        let ending = async {
            if let Ok(mut history) = self.tasuki(&["loop", "history"]) {
                history.arg("--json");
                if let Ok((_, told)) = output(history).await {
                    drop(fs::write(self.home.folder.join("history.json"), told));
                }
            }
            let mut tmux = self.home.outside("tmux");
            tmux.arg("kill-server").env("TMUX_TMPDIR", self.home.path("tmux"));
            drop(output(tmux).await);
            if let Ok(stop) = self.tasuki(&["stop", "--all"]) {
                drop(output(stop).await);
            }
        };
        drop(timeout(WITHIN, ending).await);
    }
}

/// What stands after `mark` and before `end`; the line, where that does not come.
fn between(text: &str, mark: &str, end: &str) -> Option<String> {
    let (_, rest) = text.split_once(mark)?;
    let words = rest.split_once(end).map_or(rest, |(words, _)| words);
    words.lines().next().map(str::to_owned)
}
