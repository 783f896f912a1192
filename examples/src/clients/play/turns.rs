//! It plays B of the turn loop.
//!
//! By itself: it waits and is killed; A hands over while it is dead; started again it has to get
//! that turn. Then the long wait, a second turn, the end of the loop, and its own end. In a
//! terminal: it waits, its model falls idle, and the handover has to begin a new turn.

use super::{
    Asked, Duration, Ground, Move, Result, Running, Seen, SemaphorePermit, Stage, Waiting, Way,
    end, finishes, is_done, waits_long,
};
use crate::clients::{
    agent_a::AgentA,
    script::turns::{ROLE, Turns, hand_over, wait},
    stage::START_WITHIN,
    terminal::Terminal,
};

/// Whom the node hosts.
pub(super) const ROLES: [&str; 2] = ["A", ROLE];

/// What a person would say; the script does not read it.
const PROMPT: &str = "You are agent B. Call await_my_turn and do what it says; hand over with \
                      handover_work; repeat until it says that the work is finished.";

/// For a client to put its call into the background: two minutes by itself, and then some.
const BACKGROUND_WITHIN: Duration = Duration::from_secs(240);

pub(super) async fn play(
    seen: &mut Seen,
    ground: Ground,
    permit: SemaphorePermit<'_>,
) -> Result<()> {
    let mut a = AgentA::begin(&ground).await?;
    let (client, transport) = (seen.plan.client, seen.plan.transport);
    let stage = Stage::set(ground, client, transport, ROLE, Box::new(Turns)).await?;
    let played = match seen.plan.way {
        Way::Alone => alone(seen, &stage, &mut a, permit).await,
        Way::Terminal => in_terminal(seen, &stage, &mut a, permit).await,
    };
    let checked = match played {
        Ok(()) => a.check_history(&stage.ground).await,
        Err(why) => Err(why),
    };
    end(seen, stage, checked).await
}

async fn alone(
    seen: &mut Seen,
    stage: &Stage,
    a: &mut AgentA,
    permit: SemaphorePermit<'_>,
) -> Result<()> {
    let mut running = Running::work(seen.plan.client, stage, PROMPT)?;
    stage.waits(&mut running, wait()).await?;
    running.kill().await?;
    a.hands_over("step 1").await?;
    let mut running = Running::work(seen.plan.client, stage, PROMPT)?;
    a.b_plays("step 1").await?;
    seen.is_resumed = true;
    stage.waits(&mut running, wait()).await?;
    drop(permit);

    let waiting = waits_long(seen, stage, &mut running).await?;
    seen.wait = Some(step(waiting, stage, a, "step 2").await?);
    a.b_plays("step 2").await?;
    stage.waits(&mut running, wait()).await?;
    a.completes().await?;
    finishes(stage, running).await
}

/// A hands over, and B's model hears of it.
async fn step(waiting: Waiting, stage: &Stage, a: &mut AgentA, step: &str) -> Result<super::Wait> {
    waiting.end(stage, a.hands_over(step), Move::Call(hand_over(step))).await
}

async fn in_terminal(
    seen: &mut Seen,
    stage: &Stage,
    a: &mut AgentA,
    permit: SemaphorePermit<'_>,
) -> Result<()> {
    let terminal = Terminal::open(seen.plan.client, stage, PROMPT).await?;
    let played = with_terminal(seen, stage, a, permit).await;
    terminal.keep_screen(&stage.ground.home).await?;
    played?;
    terminal.leave().await
}

async fn with_terminal(
    seen: &mut Seen,
    stage: &Stage,
    a: &mut AgentA,
    permit: SemaphorePermit<'_>,
) -> Result<()> {
    let waits = |it: &Asked| it.answered == Move::Call(wait());
    stage.model_is_asked(START_WITHIN, "to wait for its turn", waits).await?;
    stage.falls_idle(1, BACKGROUND_WITHIN).await?;
    drop(permit);
    let waiting = Waiting::begin(stage);
    tokio::time::sleep(seen.plan.wait).await;
    seen.wait = Some(step(waiting, stage, a, "step 1").await?);
    a.b_plays("step 1").await?;
    stage.falls_idle(2, BACKGROUND_WITHIN).await?;
    a.hands_over("step 2").await?;
    a.b_plays("step 2").await?;
    a.completes().await?;
    stage.model_is_asked(BACKGROUND_WITHIN, "that it is finished", is_done).await?;
    Ok(())
}
