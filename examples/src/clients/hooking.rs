//! A client in a terminal with hooks that `tasuki wake setup` installed: what they tell it reaches its
//! model, and what its role holds is given back when its quota is used up or its session ends.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use serde_json::json;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};

use super::{
    client::{Client, Transport},
    home::Home,
    model::Asked,
    script::{
        Move, WAITING,
        hooked::{CARD, Hooked, NOT_DONE, SUMMARY, URGENT},
        idle::{RESOLVED, ROLE, letter},
    },
    stage::{DONE_WITHIN, Ground, START_WITHIN, Stage},
    terminal::Terminal,
    waking::{setup, trust_hooks},
};
use crate::{Result, mcp::Agent};

/// Who sends and hands over.
const OTHER: &str = "A";

const PROMPT: &str = "You are agent B. Call loop_status until something comes.";

/// Between two looks at who has the turn.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long a terminal is left alone before something is typed into it.
const QUIET_FOR: Duration = Duration::from_secs(5);

/// Clients whose hooks are tried.
pub const CLIENTS: [Client; 2] = [Client::ClaudeCode, Client::Codex];

/// What was seen of one client, as far as it came; each with how long it took.
#[derive(Debug)]
pub struct Seen {
    pub client: Client,
    pub version: String,
    pub date: SystemTime,
    /// Why it does not work.
    pub failure: Option<String>,
    /// The card was in the first request to its model.
    pub has_card: bool,
    /// From the urgent letter to its model.
    pub urgent_after: Option<Duration>,
    /// It went on at the end of its turn.
    pub goes_on: bool,
    /// The card was there again after its conversation was made shorter.
    pub has_card_again: bool,
    /// Until the turn was given back after its quota was used up.
    pub quota_after: Option<Duration>,
    /// The same after its session ended.
    pub end_after: Option<Duration>,
}

/// Plays it; whatever goes wrong is in what was seen. `starting` bounds how many clients start at a
/// time.
pub async fn play(client: Client, place: &Path, runs: &Path, starting: &Semaphore) -> Seen {
    let mut seen = Seen {
        client,
        version: "?".to_owned(),
        date: SystemTime::UNIX_EPOCH,
        failure: None,
        has_card: false,
        urgent_after: None,
        goes_on: false,
        has_card_again: false,
        quota_after: None,
        end_after: None,
    };
    let folder = runs.join(format!("{}-hooks", client.name()));
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
    let ground = Ground::lay(Home::new(folder, place)?, &[OTHER, ROLE]).await?;
    seen.date = fs::metadata(&ground.home.data)?.modified()?;
    let is_used_up = Arc::new(AtomicBool::new(false));
    let part = Hooked { is_used_up: Arc::clone(&is_used_up) };
    let mut stage = Stage::set(ground, client, Transport::Http, ROLE, Box::new(part)).await?;
    setup(&stage.ground.home, client, &[]).await?;
    let terminal = Terminal::open(client, &stage, PROMPT).await?;
    let played = with_terminal(seen, &stage, &terminal, &is_used_up).await;
    terminal.keep_screen(&stage.ground.home).await.ok();
    drop(terminal);
    if let Err(why) = played {
        let home = stage.ground.home.keep().display();
        return Err(format!("{why} (its home is kept: {home})").into());
    }
    stage.strike().await
}

async fn with_terminal(
    seen: &mut Seen,
    stage: &Stage,
    terminal: &Terminal,
    is_used_up: &AtomicBool,
) -> Result<()> {
    let model = &stage.model;
    if seen.client == Client::Codex {
        trust_hooks(terminal).await?;
    }
    let is_call = |asked: &Asked| matches!(asked.answered, Move::Call(_));
    stage.model_is_asked(START_WITHIN, "that its tools are there", is_call).await?;
    seen.has_card = model.told(CARD, 0)?.is_some();

    let mut other = stage.ground.agent(OTHER).await?;
    let sent = Instant::now();
    let mut urgent = letter("hooks-1");
    urgent["msg_type"] = json!("URGENT");
    call(&mut other, "filebox_send_message", urgent).await?;
    let told = model.is_told(URGENT, 0, DONE_WITHIN).await?;
    seen.urgent_after = model.asked().borrow().get(told.number).map(|it| it.at - sent);

    model.is_told(NOT_DONE, told.number, DONE_WITHIN).await?;
    let is_put_away = |it: &Asked| it.answered == Move::Say(RESOLVED);
    stage.model_is_asked(DONE_WITHIN, "that the letter is put away", is_put_away).await?;
    seen.goes_on = true;

    sleep(QUIET_FOR).await;
    terminal.types("/compact").await?;
    let is_shorter = |it: &Asked| it.answered == Move::Say(SUMMARY);
    stage.model_is_asked(DONE_WITHIN, "to make it shorter", is_shorter).await?;
    sleep(QUIET_FOR).await;
    let from = model.asked().borrow().len();
    has_turn(stage, &mut other, None).await?;
    model.is_told(CARD, from, DONE_WITHIN).await?;
    seen.has_card_again = true;

    // No hook of Codex tells that its quota is used up.
    if seen.client == Client::ClaudeCode {
        sleep(QUIET_FOR).await;
        is_used_up.store(true, Ordering::SeqCst);
        let typed = Instant::now();
        terminal.types("Go on.").await?;
        is_given_back(&mut other, "quota used up").await?;
        seen.quota_after = Some(typed.elapsed());
        is_used_up.store(false, Ordering::SeqCst);
        // Nothing waits behind a turn that failed: a person goes on.
        has_turn(stage, &mut other, Some(terminal)).await?;
    }
    sleep(QUIET_FOR).await;
    let typed = Instant::now();
    terminal.types("/exit").await?;
    is_given_back(&mut other, "its session ended").await?;
    seen.end_after = Some(typed.elapsed());
    Ok(())
}

/// The other hands the turn over, and the client has looked who has it: woken, or as a person says in
/// its terminal.
async fn has_turn(stage: &Stage, other: &mut Agent, by: Option<&Terminal>) -> Result<()> {
    let idle = |all: &[Asked]| all.iter().filter(|it| it.answered == Move::Say(WAITING)).count();
    let mut asked = stage.model.asked();
    let before = idle(&asked.borrow());
    call(other, "await_my_turn", json!({ "agent_id": OTHER })).await?;
    let step = json!({
        "current_agent_id": OTHER, "work_summary": "begun", "next_instruction": "go on",
        "is_task_complete": false,
    });
    call(other, "handover_work", step).await?;
    if let Some(terminal) = by {
        terminal.types("Go on.").await?;
    }
    let is_idle = asked.wait_for(|all| before < idle(all));
    let is_idle = tokio::time::timeout(DONE_WITHIN, is_idle).await;
    is_idle.map_err(|_| "its model was not told of its turn")??;
    Ok(())
}

/// The turn comes back, with the reason.
async fn is_given_back(other: &mut Agent, why: &str) -> Result<()> {
    let until = Instant::now() + DONE_WITHIN;
    while Instant::now() < until {
        let status = call(other, "loop_status", json!({})).await?;
        if status["holder"] == OTHER {
            let told = call(other, "await_my_turn", json!({ "agent_id": OTHER })).await?;
            let is_told = told.to_string().contains(why);
            return if is_told { Ok(()) } else { Err(format!("the turn came with {told}").into()) };
        }
        sleep(LOOK_EVERY).await;
    }
    Err(format!("the turn does not come back within {DONE_WITHIN:?}").into())
}

async fn call(
    agent: &mut Agent,
    tool: &str,
    arguments: serde_json::Value,
) -> Result<serde_json::Value> {
    let said = agent.call_until_answered(tool, &arguments).await?;
    if said.is_error { Err(said.text.into()) } else { Ok(said.structured) }
}
