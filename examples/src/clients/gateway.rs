//! A client calls tools of other MCP servers through its node: one of a server that the node has, and
//! one that a role of another node exports; each with `gateway_call` and under its own name.
//!
//! The servers are this program. What they answer is signed with a name that the model hears from
//! nobody else.

use std::{fs, path::Path, time::SystemTime};

use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::{
    client::{Client, Transport},
    home::Home,
    running::{Running, output},
    script::{
        Call, DONE, Heard, Move,
        gateway::{GatewayUser, OWN, REMOTE, ROLE, calls},
    },
    stage::{DONE_WITHIN, Ground, LOOK_EVERY, START_WITHIN, Stage},
};
use crate::{Result, load::limits::SIGNATURE, process::Process};

/// What a person would say; the script does not read it.
const PROMPT: &str = "Ask for the weather, here and at the other node.";

/// What the servers sign with: that of the client's node, and that of the other.
const SIGNATURES: [&str; 2] = ["server-of-its-node", "server-of-the-other-node"];

/// Clients that call them.
pub const CLIENTS: [Client; 2] = [Client::ClaudeCode, Client::Codex];

/// What was seen of one client.
#[derive(Debug)]
pub struct Seen {
    pub client: Client,
    pub version: String,
    pub date: SystemTime,
    /// Why it does not work.
    pub failure: Option<String>,
    /// By the client's names, the tools that its model called and whose servers answered.
    pub called: Vec<String>,
}

/// Plays it; whatever goes wrong is in what was seen. `starting` bounds how many clients start at a
/// time.
pub async fn play(client: Client, place: &Path, runs: &Path, starting: &Semaphore) -> Seen {
    let (version, date, called) = ("?".to_owned(), SystemTime::UNIX_EPOCH, Vec::new());
    let mut seen = Seen { client, version, date, failure: None, called };
    let played: Result<()> = async {
        seen.version = client.version(place)?;
        let _permit = starting.acquire().await?;
        let home = Home::new(&runs.join(format!("{}-gateway", client.name())), place)?;
        configure(&home.data, "my-weather", SIGNATURES[0], "")?;
        let ground = Ground::lay(home, &[&format!("{ROLE}=loop,gateway:full")]).await?;
        seen.date = fs::metadata(&ground.home.data)?.modified()?;
        let other = start_other(&ground).await?;
        know_tools(&ground.home).await?;
        let part = Box::new(GatewayUser);
        let mut stage = Stage::set(ground, client, Transport::Http, ROLE, part).await?;
        if let Err(why) = call_tools(&mut seen, &stage).await {
            let home = stage.ground.home.keep().display();
            return Err(format!("{why} (its home is kept: {home})").into());
        }
        other.stop().await?;
        stage.strike().await
    }
    .await;
    seen.failure = played.err().map(|why| why.to_string());
    seen
}

/// Gives a node a server, which is this program.
fn configure(data: &Path, server: &str, signature: &str, more: &str) -> Result<()> {
    let own = std::env::current_exe()?;
    let config = format!(
        "[[gateway.server]]\nname = \"{server}\"\ncommand = [{own:?}, \"--serve-mcp-stdio\"]\n\
         env = [\"{SIGNATURE}={signature}\"]\n{more}"
    );
    fs::create_dir_all(data)?;
    Ok(fs::write(data.join("tasuki.toml"), config)?)
}

/// The node whose role exports the tools of its server.
async fn start_other(ground: &Ground) -> Result<Process> {
    let data = ground.home.path("other");
    let export = "[[role.qa.export]]\ntools = [\"weather__*\"]\n";
    configure(&data, "weather", SIGNATURES[1], export)?;
    let mut node = ground.home.tasuki_with(&data)?;
    node.args(["node", "--broker", ground.broker(), "--listen", "127.0.0.1:0", "--role", "qa"]);
    node.env("RUST_LOG", "info").stderr(ground.home.log("other.log")?);
    Process::start(node, "MCP").await
}

/// Until the client's node knows both tools.
async fn know_tools(home: &Home) -> Result<()> {
    let known = async {
        loop {
            let mut tools = home.tasuki()?;
            tools.args(["gateway", "tools"]);
            let (_, told) = output(tools).await?;
            if told.contains(OWN) && told.contains(REMOTE) {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(DONE_WITHIN, known).await.map_err(|_| "its node does not know the tools")?
}

/// The client works until its model has called everything, and ends by itself.
async fn call_tools(seen: &mut Seen, stage: &Stage) -> Result<()> {
    let mut running = Running::work(seen.client, stage, PROMPT)?;
    let ended = running.ended_within(START_WITHIN).await?;
    let asked = stage.model.asked();
    let asked = asked.borrow();
    let answered = |(call, signature): (Call, &&str)| {
        asked.iter().find_map(|it| {
            let Heard::Result(text, Some(to)) = &it.heard else { return None };
            (to.is_same(&call) && text.contains(signature)).then(|| format!("`{}`", to.tool))
        })
    };
    let signed = calls().into_iter().zip(SIGNATURES.iter().cycle());
    seen.called = signed.map_while(answered).collect();
    let failure = asked.iter().find_map(|it| it.failure.as_ref());
    let is_done = asked.iter().any(|it| it.answered == Move::Say(DONE));
    let is_ended = ended.is_some_and(|status| status.success());
    if seen.called.len() < calls().len() || failure.is_some() || !is_done || !is_ended {
        let called = &seen.called;
        return Err(format!("it called {called:?}, was told {failure:?}, ended {ended:?}").into());
    }
    // Two are called by one name.
    seen.called.dedup();
    Ok(())
}
