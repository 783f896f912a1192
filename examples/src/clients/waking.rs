//! An idle client is woken: its model has ended its turn and waits for nothing when a letter comes from
//! another node, and a new turn has to begin by itself.
//!
//! Claude Code and Codex run in a terminal, opencode behind its server. `tasuki wake setup` set them
//! up, as a person would.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use super::{
    client::{Client, Transport},
    home::Home,
    model::Asked,
    running::{Running, output},
    script::{
        Heard, Move, WAITING,
        idle::{Idle, RESOLVED, ROLE, letter},
    },
    stage::{DONE_WITHIN, Ground, START_WITHIN, Stage},
    terminal::Terminal,
};
use crate::{Result, mcp::Agent, process::Process};

/// Who sends, from a node of its own.
const SENDER: &str = "A";

/// What a person would say; the script does not read it.
const PROMPT: &str = "You are agent B. Look into your inbox with filebox_list_messages and put each \
                      letter away with filebox_resolve_message. If there is none, end your turn.";

/// What Codex asks before it runs hooks, and the answer that trusts them.
const HOOKS_QUESTION: &str = "Hooks need review";
const TRUST_ALL: &str = "2";

/// Between two looks at what is there.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long the client is idle before the letter comes.
const IDLE_FOR: Duration = Duration::from_secs(5);

/// What was seen of one client.
#[derive(Debug)]
pub struct Seen {
    pub client: Client,
    pub version: String,
    pub date: SystemTime,
    /// Why it does not work.
    pub failure: Option<String>,
    /// From the letter to the model, in a new turn.
    pub woken_after: Option<Duration>,
    /// The way that the node took.
    pub by: String,
    /// What `tasuki wake test` said, from the other node.
    pub tested: String,
}

/// Wakes it; whatever goes wrong is in what was seen. `starting` bounds how many clients start at a
/// time.
pub async fn play(client: Client, place: &Path, runs: &Path, starting: &Semaphore) -> Seen {
    let mut seen = Seen {
        client,
        version: "?".to_owned(),
        date: SystemTime::UNIX_EPOCH,
        failure: None,
        woken_after: None,
        by: String::new(),
        tested: String::new(),
    };
    let folder = runs.join(format!("{}-wake", client.name()));
    let played = on_stage(&mut seen, place, &folder, starting).await;
    seen.failure = played.err().map(|why| why.to_string());
    seen
}

async fn on_stage(
    seen: &mut Seen,
    place: &Path,
    folder: &Path,
    starting: &Semaphore,
) -> Result<()> {
    let client = seen.client;
    seen.version = client.version(place)?;
    let _permit = starting.acquire().await?;
    let ground = Ground::lay(Home::new(folder, place)?, &[ROLE]).await?;
    seen.date = fs::metadata(&ground.home.data)?.modified()?;
    let mut stage = Stage::set(ground, client, Transport::Http, ROLE, Box::new(Idle)).await?;
    let played = with_client(seen, &stage).await;
    if let Err(why) = played {
        let home = stage.ground.home.keep().display();
        return Err(format!("{why} (its home is kept: {home})").into());
    }
    stage.strike().await
}

async fn with_client(seen: &mut Seen, stage: &Stage) -> Result<()> {
    let home = &stage.ground.home;
    if seen.client == Client::Opencode {
        let server = Server::start(stage).await?;
        setup(home, seen.client, &["--url", &server.url]).await?;
        server.begin().await?;
        return woken(seen, stage).await;
    }
    setup(home, seen.client, &[]).await?;
    let terminal = Terminal::open(seen.client, stage, PROMPT).await?;
    let played = async {
        if seen.client == Client::Codex {
            trust_hooks(&terminal).await?;
        }
        woken(seen, stage).await
    };
    let played = played.await;
    terminal.keep_screen(home).await?;
    played?;
    terminal.leave().await
}

/// It is idle, and is woken twice: by an agent of another node, and by `tasuki wake test` there.
async fn woken(seen: &mut Seen, stage: &Stage) -> Result<()> {
    let home = &stage.ground.home;
    let idle = |it: &Asked| it.answered == Move::Say(WAITING);
    stage.model_is_asked(START_WITHIN, "that nothing is there", idle).await?;
    let other = home.path("other");
    let mut node = home.tasuki_with(&other)?;
    node.args(["node", "--broker", stage.ground.broker(), "--listen", "127.0.0.1:0"]);
    node.args(["--role", SENDER]).env("RUST_LOG", "info").stderr(home.log("other.log")?);
    let node = Process::start(node, "MCP").await?;
    let mut sender = Agent::connect(&format!("{}/mcp/{SENDER}", node.url()), "example").await?;
    tokio::time::sleep(IDLE_FOR).await;

    let asked = stage.model.asked().borrow().len();
    let sent = Instant::now();
    let said = sender.call_until_answered("filebox_send_message", &letter("wake-1")).await?;
    if said.is_error {
        return Err(said.text.into());
    }
    let resolved =
        |all: &[Asked]| all.iter().filter(|it| it.answered == Move::Say(RESOLVED)).count();
    let mut all = stage.model.asked();
    let came = timeout(DONE_WITHIN, all.wait_for(|all| resolved(all) == 1)).await.is_ok();
    if !came {
        return Err(format!("no new turn began within {DONE_WITHIN:?}").into());
    }
    let is_turn = |it: &&Asked| matches!(it.heard, Heard::Prompt | Heard::Woken(_));
    let first = all.borrow()[asked..].iter().find(is_turn).map(|it| it.at);
    let first = first.ok_or("its model was asked something else")?;
    seen.woken_after = Some(first.duration_since(sent));

    tokio::time::sleep(IDLE_FOR).await;
    let mut test = home.tasuki_with(&other)?;
    test.args(["wake", "test", ROLE, "--within", "60s", "--broker", stage.ground.broker()]);
    let (is_seen, told) = output(test).await?;
    seen.tested = told.trim().to_owned();
    if !is_seen {
        return Err(format!("`tasuki wake test`: {told}").into());
    }
    let mut status = home.tasuki()?;
    status.args(["wake", "status", ROLE, "--json"]);
    let (_, told) = output(status).await?;
    let told: Value = serde_json::from_str(&told)?;
    fs::write(home.folder.join("wake.json"), format!("{told:#}"))?;
    seen.by = told["roles"][0]["last"]["by"].as_str().unwrap_or_default().to_owned();
    drop(sender);
    node.stop().await
}

/// Codex asks a person whether to trust hooks that it has not seen before.
///
/// # Errors
/// When it does not ask.
pub(super) async fn trust_hooks(terminal: &Terminal) -> Result<()> {
    terminal.shows(HOOKS_QUESTION, START_WITHIN).await?;
    terminal.types(TRUST_ALL).await
}

pub(super) async fn setup(home: &Home, client: Client, more: &[&str]) -> Result<()> {
    let mut command = home.tasuki()?;
    command.args(["wake", "setup", client.name(), "--role", ROLE]).args(more);
    if client == Client::Codex {
        // Those of a project count once the project is trusted.
        command.args(["--scope", "user"]);
    }
    let (is_done, told) = output(command).await?;
    fs::write(home.folder.join("setup.txt"), &told)?;
    if is_done { Ok(()) } else { Err(format!("`tasuki wake setup`: {told}").into()) }
}

/// opencode's server with one session.
struct Server {
    url: String,
    _running: Running,
}

impl Server {
    async fn start(stage: &Stage) -> Result<Self> {
        let home = &stage.ground.home;
        let mut command = home.command("opencode");
        Client::Opencode.surround(&mut command, stage.model.url());
        command.args(["serve", "--port", "0", "--hostname", "127.0.0.1"]);
        let running = Running::start(command, home)?;
        let until = Instant::now() + START_WITHIN;
        while Instant::now() < until {
            let said = fs::read_to_string(home.folder.join("client.out")).unwrap_or_default();
            let url = said.split_whitespace().find(|it| it.starts_with("http://127.0.0.1:"));
            if let Some(url) = url {
                return Ok(Self { url: url.to_owned(), _running: running });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(format!("opencode does not listen within {START_WITHIN:?}").into())
    }

    /// A session whose first turn is the prompt.
    async fn begin(&self) -> Result<()> {
        let session = crate::mcp::post_json(&format!("{}/session", self.url), &json!({})).await?;
        let id = session["id"].as_str().ok_or("opencode makes no session")?;
        let prompt = json!({ "parts": [{ "type": "text", "text": PROMPT }] });
        crate::mcp::post_json(&format!("{}/session/{id}/prompt_async", self.url), &prompt).await?;
        Ok(())
    }
}
