//! One client, one transport, one part, from start to end, and what was seen of it.
//!
//! - `turns`: it plays B of the turn loop. `work`: a worker of an issue.

mod turns;
mod work;

use std::{
    fs,
    path::Path,
    process::ExitStatus,
    time::{Duration, SystemTime},
};

use clap::ValueEnum;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

use super::{
    client::{Client, Transport},
    home::Home,
    model::Asked,
    running::Running,
    script::{DONE, Heard, Move},
    stage::{DONE_WITHIN, Ground, Stage},
};
use crate::Result;

/// What the client plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Play {
    /// B of the turn loop.
    Turns,
    /// A worker of an issue.
    Work,
}

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
    pub play: Play,
    pub way: Way,
    pub wait: Duration,
}

impl Plan {
    /// In folder names and reports.
    pub fn name(&self) -> String {
        let play = match (self.play, self.way) {
            (Play::Turns, Way::Alone) => "",
            (Play::Turns, Way::Terminal) => "-terminal",
            (Play::Work, _) => "-worker",
        };
        format!("{}{play}-{}", self.client.name(), self.transport.name())
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
    /// Killed while it waited, it got what came meanwhile when it was started again.
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
    /// From its end to the model.
    pub woken_after: Duration,
    pub how: Woken,
}

/// How the model heard of the end.
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
    if let Err(why) = on_ground(&mut seen, place, &folder, starting).await {
        seen.failure = Some(why.to_string());
    }
    seen
}

async fn on_ground(
    seen: &mut Seen,
    place: &Path,
    folder: &Path,
    starting: &Semaphore,
) -> Result<()> {
    seen.version = seen.plan.client.version(place)?;
    let permit = starting.acquire().await?;
    let roles: &[&str] = match seen.plan.play {
        Play::Turns => &turns::ROLES,
        Play::Work => &work::ROLES,
    };
    let ground = Ground::lay(Home::new(folder, place)?, roles).await?;
    seen.date = fs::metadata(&ground.home.data)?.modified()?;
    match seen.plan.play {
        Play::Turns => turns::play(seen, ground, permit).await,
        Play::Work => work::play(seen, ground, permit).await,
    }
}

/// The end of a play: what the model was told, and what becomes of the stage.
async fn end(seen: &mut Seen, mut stage: Stage, played: Result<()>) -> Result<()> {
    let asked = stage.model.asked();
    seen.errors = asked.borrow().iter().filter_map(|it| it.failure.clone()).collect();
    if let Err(why) = played {
        let home = stage.ground.home.keep().display();
        return Err(format!("{why} (its home is kept: {home})").into());
    }
    stage.strike().await
}

/// The client waits for as long as is planned, without a word from anybody.
async fn waits_long(seen: &Seen, stage: &Stage, running: &mut Running) -> Result<Waiting> {
    let waiting = Waiting::begin(stage);
    match running.ended_within(seen.plan.wait).await? {
        Some(status) => Err(ended(status, waiting.began.elapsed())),
        None => Ok(waiting),
    }
}

fn ended(status: ExitStatus, after: Duration) -> crate::Error {
    format!("it ended with {status} after {after:?}").into()
}

/// The client hears that the work is finished, and ends by itself.
async fn finishes(stage: &Stage, mut running: Running) -> Result<()> {
    /// For the client to end once its model has.
    const END_WITHIN: Duration = Duration::from_secs(90);
    stage.model_is_asked(DONE_WITHIN, "that it is finished", is_done).await?;
    match running.ended_within(END_WITHIN).await? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("it ended with {status}").into()),
        None => Err(format!("it did not end within {END_WITHIN:?}").into()),
    }
}

fn is_done(asked: &Asked) -> bool {
    asked.answered == Move::Say(DONE)
}

/// A long wait while it lasts.
struct Waiting {
    began: Instant,
    asked: usize,
}

impl Waiting {
    fn begin(stage: &Stage) -> Self {
        Self { began: Instant::now(), asked: stage.model.asked().borrow().len() }
    }

    /// Somebody does what ends it, and the model makes this move.
    async fn end(
        self,
        stage: &Stage,
        happens: impl Future<Output = Result<()>>,
        then: Move,
    ) -> Result<Wait> {
        let lasted = self.began.elapsed();
        let model_calls = stage.model.asked().borrow().len() - self.asked;
        let happened = Instant::now();
        happens.await?;
        let is_it = |it: &Asked| it.answered == then;
        let heard = stage.model_is_asked(DONE_WITHIN, "that its wait is over", is_it).await?;
        let all = stage.model.asked();
        let all = all.borrow();
        let is_since = |it: &&Asked| happened <= it.at;
        let first = all.iter().find(is_since).unwrap_or(&heard);
        let is_task = |it: &Asked| matches!(&it.heard, Heard::Result(text, _) if is_task(text));
        let how = match &first.heard {
            Heard::Woken(_) if all.iter().any(is_task) => Woken::ByTask,
            Heard::Woken(_) => Woken::ByCallInBackground,
            Heard::Prompt | Heard::Result(..) | Heard::Early | Heard::Aside => Woken::ByItsCall,
        };
        Ok(Wait { lasted, model_calls, woken_after: first.at.duration_since(happened), how })
    }
}

/// As Claude Code words that it was given a task.
fn is_task(text: &str) -> bool {
    text.contains("server-side task")
}
