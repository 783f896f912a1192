//! One client, one transport, from start to end, and what was seen of it.
//!
//! By itself: it waits and is killed; A hands over while it is dead; started again it has to get
//! that turn. Then the long wait, a second turn, the end of the loop, and its own end. In a
//! terminal: it waits, its model falls idle, and the handover has to begin a new turn.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use tokio::{sync::Semaphore, time::Instant};

use super::{
    client::{Client, Transport},
    model::Asked,
    running::Running,
    script::{DONE, Heard, Move, Told},
    stage::{START_WITHIN, Stage, TURN_WITHIN},
    terminal::Terminal,
};
use crate::Result;

/// What a person would say; the script does not read it.
const PROMPT: &str = "You are agent B. Call await_my_turn and do what it says; hand over with \
                      handover_work; repeat until it says that the work is finished.";

/// For a client to put its call into the background: two minutes by itself, and then some.
const BACKGROUND_WITHIN: Duration = Duration::from_secs(240);

/// Who drives the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A prompt on the command line; it ends when the model does.
    Alone,
    /// A terminal in which a person could type.
    Terminal,
}

/// What is to be seen.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub client: Client,
    pub transport: Transport,
    pub way: Way,
    pub wait: Duration,
}

impl Plan {
    /// In folder names and reports.
    pub fn name(&self) -> String {
        let way = match self.way {
            Way::Alone => "",
            Way::Terminal => "-terminal",
        };
        format!("{}{way}-{}", self.client.name(), self.transport.name())
    }
}

/// What was seen.
#[derive(Debug)]
pub struct Seen {
    pub plan: Plan,
    pub version: String,
    pub date: SystemTime,
    /// Why it does not work.
    pub failure: Option<String>,
    /// Of the long wait, as far as the run came.
    pub wait: Option<Wait>,
    /// Killed while it waited, it got the turn of meanwhile when it was started again.
    pub is_resumed: bool,
    /// What the model was told in place of an answer.
    pub errors: Vec<String>,
}

/// The long wait.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    pub lasted: Duration,
    /// Requests to the model meanwhile.
    pub model_calls: usize,
    /// From the handover to the model.
    pub woken_after: Duration,
    pub how: Woken,
}

/// How the model heard of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The call it had made returned.
    ByItsCall,
    /// The client had moved the call aside and began a new turn when it returned.
    ByCallInBackground,
    /// The node had answered with an MCP task; the client began a new turn when it was over.
    ByTask,
}

/// Plays it; whatever goes wrong is in what was seen. `starting` bounds how many clients start
/// at a time: that is all they need a processor for.
pub async fn play(plan: Plan, place: &Path, runs: &Path, starting: &Semaphore) -> Seen {
    let mut seen = Seen {
        plan,
        version: "?".to_owned(),
        date: SystemTime::UNIX_EPOCH,
        failure: None,
        wait: None,
        is_resumed: false,
        errors: Vec::new(),
    };
    let folder = runs.join(plan.name());
    if let Err(why) = on_stage(&mut seen, place, &folder, starting).await {
        seen.failure = Some(why.to_string());
    }
    seen
}

async fn on_stage(
    seen: &mut Seen,
    place: &Path,
    folder: &Path,
    starting: &Semaphore,
) -> Result<()> {
    let Plan { client, transport, way, .. } = seen.plan;
    seen.version = client.version(place)?;
    let permit = starting.acquire().await?;
    let mut stage = Stage::set(client, transport, folder, place).await?;
    seen.date = fs::metadata(&stage.home.data)?.modified()?;
    let played = match way {
        Way::Alone => alone(seen, &mut stage, permit).await,
        Way::Terminal => in_terminal(seen, &mut stage, permit).await,
    };
    let asked = stage.model.asked();
    seen.errors = asked
        .borrow()
        .iter()
        .filter_map(|it| match &it.told {
            Some(Told::Unclear(text)) if it.is_failure() => Some(text.clone()),
            _ => None,
        })
        .collect();
    let checked = match played {
        Ok(()) => stage.check_history().await,
        Err(why) => Err(why),
    };
    if let Err(why) = checked {
        return Err(format!("{why} (its home is kept: {})", stage.home.keep().display()).into());
    }
    stage.strike().await
}

async fn alone(
    seen: &mut Seen,
    stage: &mut Stage,
    permit: tokio::sync::SemaphorePermit<'_>,
) -> Result<()> {
    /// For the client to end once its model has.
    const END_WITHIN: Duration = Duration::from_secs(90);
    let client = seen.plan.client;
    let work = |stage: &Stage| {
        Running::start(client.work(&stage.home, stage.model.url(), PROMPT), &stage.home)
    };
    let mut running = work(stage)?;
    stage.b_waits(&mut running).await?;
    running.kill().await?;
    stage.a_hands_over("step 1").await?;
    let mut running = work(stage)?;
    stage.b_plays("step 1").await?;
    seen.is_resumed = true;
    stage.b_waits(&mut running).await?;
    drop(permit);

    let waits = Waits::begin(stage);
    if let Some(status) = running.ended_within(seen.plan.wait).await? {
        return Err(format!("it ended with {status} after {:?}", waits.began.elapsed()).into());
    }
    seen.wait = Some(waits.end(stage, "step 2").await?);
    stage.b_plays("step 2").await?;
    stage.b_waits(&mut running).await?;
    stage.a_completes().await?;
    stage.model_is_asked(TURN_WITHIN, "that it is finished", is_done).await?;
    match running.ended_within(END_WITHIN).await? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("it ended with {status}").into()),
        None => Err(format!("it did not end within {END_WITHIN:?}").into()),
    }
}

async fn in_terminal(
    seen: &mut Seen,
    stage: &mut Stage,
    permit: tokio::sync::SemaphorePermit<'_>,
) -> Result<()> {
    let terminal = Terminal::open(seen.plan.client, stage, PROMPT).await?;
    let played = with_terminal(seen, stage, &terminal, permit).await;
    terminal.keep_screen(&stage.home).await?;
    played?;
    terminal.leave().await
}

async fn with_terminal(
    seen: &mut Seen,
    stage: &mut Stage,
    terminal: &Terminal,
    permit: tokio::sync::SemaphorePermit<'_>,
) -> Result<()> {
    is_understood(stage, terminal).await?;
    stage.falls_idle(1, BACKGROUND_WITHIN).await?;
    drop(permit);
    let waits = Waits::begin(stage);
    tokio::time::sleep(seen.plan.wait).await;
    seen.wait = Some(waits.end(stage, "step 1").await?);
    stage.b_plays("step 1").await?;
    stage.falls_idle(2, BACKGROUND_WITHIN).await?;
    stage.a_hands_over("step 2").await?;
    stage.b_plays("step 2").await?;
    stage.a_completes().await?;
    stage.model_is_asked(BACKGROUND_WITHIN, "that it is finished", is_done).await?;
    Ok(())
}

/// A client in a terminal asks its model before it has found our tools; a person would say it
/// again.
async fn is_understood(stage: &Stage, terminal: &Terminal) -> Result<()> {
    const TRIES_MAX: usize = 20;
    let is_answered = |it: &Asked| it.answered == Move::Await;
    for early in 0..TRIES_MAX {
        let count = |asked: &[Asked]| asked.iter().filter(|it| it.heard == Heard::Early).count();
        let mut asked = stage.model.asked();
        let heard = asked.wait_for(|all| all.iter().any(is_answered) || early < count(all));
        let heard = tokio::time::timeout(START_WITHIN, heard).await;
        let heard = heard.map_err(|_| format!("it asked nothing within {START_WITHIN:?}"))?;
        let is_heard = heard?.iter().any(is_answered);
        if is_heard {
            return Ok(());
        }
        terminal.types(PROMPT).await?;
    }
    Err("it does not find the tools of the turn loop".into())
}

fn is_done(asked: &Asked) -> bool {
    asked.answered == Move::Say(DONE)
}

/// As Claude Code words that it was given a task.
fn is_task(text: &str) -> bool {
    text.contains("server-side task")
}

/// A long wait while it lasts.
struct Waits {
    began: Instant,
    asked: usize,
}

impl Waits {
    fn begin(stage: &Stage) -> Self {
        Self { began: Instant::now(), asked: stage.model.asked().borrow().len() }
    }

    /// A hands over, and the model hears of it.
    async fn end(self, stage: &mut Stage, step: &str) -> Result<Wait> {
        let lasted = self.began.elapsed();
        let model_calls = stage.model.asked().borrow().len() - self.asked;
        let handed = Instant::now();
        stage.a_hands_over(step).await?;
        let turn = Some(Told::Turn(step.to_owned()));
        let heard = stage.model_is_asked(TURN_WITHIN, "of its turn", |it| it.told == turn).await?;
        let all = stage.model.asked();
        let all = all.borrow();
        let is_since = |it: &&Asked| handed <= it.at;
        let first = all.iter().find(is_since).unwrap_or(&heard);
        let is_task = |it: &Asked| matches!(&it.heard, Heard::Result(text) if is_task(text));
        let how = match &first.heard {
            Heard::Woken(_) if all.iter().any(is_task) => Woken::ByTask,
            Heard::Woken(_) => Woken::ByCallInBackground,
            Heard::Prompt | Heard::Result(_) | Heard::Early | Heard::Aside => Woken::ByItsCall,
        };
        Ok(Wait { lasted, model_calls, woken_after: first.at.duration_since(handed), how })
    }
}
