//! Takes steps of runs from the broker and runs them on this node.
//!
//! The worker waits for a step as a role waits for its turn: it says which runners it has and how
//! many places are free, and is shown a step, or one of its own that is to be stopped. Each step is
//! a task; when a place becomes free or taken, the worker asks anew.
//!
//! - **WK1** When this node says that a step ended, nothing of it is left but a long output.
//! - **WK2** A step runs at most once: it is claimed under a token before its child starts.
//! - **WK3** A step whose lease is gone is stopped here.
//!
//! `step` is one step from claim to end, `environment` what it gets of its node, `report` how far
//! it is, `end` how it ended, `files` what it has on disk.
//!
//! Not here: the child and its stream (`runner`), whose step it is (the broker), what sub-agents ask
//! for (`mcp`).

mod end;
mod environment;
mod files;
mod report;
mod step;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use tasuki_proto::{
    id::{NodeLabel, RunnerName},
    limits::{HOLD_MS_MAX, RUNNERS_MAX},
    run::StepId,
    wire::{self, run_answer::Standing},
};
use tokio::{
    sync::oneshot,
    task::{self, JoinError, JoinSet},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

pub use self::files::output_file;
use self::{
    report::{Stop, ask_to_stop},
    step::Context,
};
use super::{live::LiveSteps, own::OwnRunners};
use crate::{
    client::retry::{Backoff, chance},
    clock,
    link::Link,
    refusal::Refusal,
    runner::outcome::Stopped,
    step_key::StepKey,
    wait::{Answer, Question, RunAwaited, StepOffer},
};

/// How long one wait stays open.
const HOLD: Duration = Duration::from_millis(HOLD_MS_MAX);

/// Programs are installed and removed while a node runs.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Steps that are remembered as to be stopped although they do not run here.
const STRAYS_MAX: usize = 256;

/// What steps run with on this node.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    pub own: Arc<OwnRunners>,
    pub labels: Vec<String>,
    /// Steps at the same time.
    pub places: u32,
    /// Also those that other machines ask for.
    pub accepts_elsewhere: bool,
    /// Of a step that names none.
    pub limit: Duration,
    /// Beside the usual variables, what agents with an `env` list may be given when another machine
    /// asks for them.
    pub env: Vec<String>,
    /// For files of steps that run, and for long outputs; of this node alone.
    pub directory: PathBuf,
    pub endpoint: Option<StepEndpoint>,
}

/// Where sub-agents reach this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepEndpoint {
    /// For agents that speak MCP; `None`: they could not check who is there.
    pub mcp_url: Option<String>,
    /// Without a path.
    pub node_url: String,
    /// Of the node's certificate, where it has one of its own.
    pub fingerprint: Option<String>,
}

/// Runs steps until it is shut down or dropped.
#[derive(Debug)]
pub struct Worker {
    live: LiveSteps,
    closing: CancellationToken,
    /// Resolves when nothing runs any more.
    done: oneshot::Receiver<()>,
}

impl Worker {
    /// Begins to wait for steps, in the background.
    pub fn start(link: Link, settings: WorkerSettings) -> Self {
        let (closing, live) = (CancellationToken::new(), LiveSteps::default());
        // Agents work elsewhere than this process.
        let directory = std::path::absolute(&settings.directory);
        let directory = directory.unwrap_or_else(|_| settings.directory.clone());
        let context = Context {
            link: link.clone(),
            settings: WorkerSettings { directory, ..settings },
            live: live.clone(),
            closing: closing.clone(),
        };
        let (ended, done) = oneshot::channel();
        link.spawn(async move {
            Offering::new(Arc::new(context)).run().await;
            // Nobody may wait for it. It is dropped where this does not get so far.
            ended.send(()).ok();
        });
        Self { live, closing, done }
    }

    /// The steps that run here.
    pub fn live_steps(&self) -> LiveSteps {
        self.live.clone()
    }

    /// Ends what runs, and tells the broker while there is time. The link has to live until then.
    pub async fn shutdown(mut self) {
        self.closing.cancel();
        // An error says that the link ended, and everything with it.
        (&mut self.done).await.ok();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// A step that was claimed, or is just being.
#[derive(Debug)]
struct Running {
    task: task::Id,
    stop: Arc<Stop>,
    /// The broker said that it is to be stopped.
    is_stopping: bool,
}

type Waiting = BoxFuture<'static, Result<Answer, Refusal>>;

/// What waits for steps.
struct Offering {
    context: Arc<Context>,
    tasks: JoinSet<()>,
    running: BTreeMap<StepId, Running>,
    /// Of this node for the broker, and to be stopped, but not here.
    strays: BTreeSet<StepId>,
    runners: BTreeSet<String>,
    /// When to look again which runners there are.
    look_at: Instant,
    /// The open wait, and what it offers.
    wait: Option<(StepOffer, Waiting)>,
    /// Whether the step that was shown last was claimed, once that is known.
    claiming: Option<oneshot::Receiver<bool>>,
    backoff: Backoff,
    /// For a broker that will have no wait of this node.
    refused: Backoff,
    /// No wait before this.
    not_before: Instant,
}

impl Offering {
    fn new(context: Arc<Context>) -> Self {
        let now = Instant::now();
        Self {
            context,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            strays: BTreeSet::new(),
            runners: BTreeSet::new(),
            look_at: now,
            wait: None,
            claiming: None,
            backoff: Backoff::default(),
            refused: Backoff::turned_away(),
            not_before: now,
        }
    }

    async fn run(mut self) {
        clean(self.context.settings.directory.clone()).await;
        let closing = self.context.closing.clone();
        loop {
            self.ask();
            tokio::select! {
                () = closing.cancelled() => break,
                () = sleep_until(self.look_at) => self.look().await,
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                is_claimed = claimed(&mut self.claiming) => self.claimed(is_claimed),
                answer = answered(&mut self.wait) => self.heed(answer),
            }
        }
        // They know that the node is to stop.
        self.wait = None;
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.ended(ended);
        }
    }

    /// Looks which runners are installed.
    async fn look(&mut self) {
        self.look_at = Instant::now() + LOOK_EVERY;
        if self.context.settings.places == 0 {
            return;
        }
        let own = self.context.settings.own.clone();
        if let Ok(found) = task::spawn_blocking(move || own.installed()).await {
            let is_name = |name: &String| name.parse::<RunnerName>().is_ok();
            self.runners = found.into_iter().filter(is_name).take(RUNNERS_MAX).collect();
        }
    }

    /// Asks anew if there is something else to say than what was asked with.
    fn ask(&mut self) {
        let offer = self.offer();
        if self.wait.as_ref().map(|(asked, _)| asked) == offer.as_ref() {
            return;
        }
        let (link, not_before) = (self.context.link.clone(), self.not_before);
        self.wait = offer.map(|offer| {
            let question = Question::Run(RunAwaited::Steps(offer.clone()));
            let waiting = async move {
                sleep_until(not_before).await;
                link.connected().await;
                link.wait_without_role(question, HOLD).await
            };
            (offer, waiting.boxed())
        });
    }

    /// What this node can do. `None`: there is nothing to wait for.
    fn offer(&self) -> Option<StepOffer> {
        let is_idle = self.running.is_empty() && self.runners.is_empty();
        // A step that is being claimed would be shown again.
        if is_idle || self.claiming.is_some() {
            return None;
        }
        let settings = &self.context.settings;
        let taken = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        let is_label = |label: &&String| label.parse::<NodeLabel>().is_ok();
        let labels = settings.labels.iter().filter(is_label).take(RUNNERS_MAX).cloned();
        let stopping = self.running.iter().filter(|(_, it)| it.is_stopping).map(|(step, _)| *step);
        Some(StepOffer {
            runners: self.runners.clone(),
            labels: labels.collect(),
            places: settings.places.saturating_sub(taken),
            accepts_elsewhere: settings.accepts_elsewhere,
            stopping: stopping.chain(self.strays.iter().copied()).collect(),
        })
    }

    fn heed(&mut self, answer: Result<Answer, Refusal>) {
        self.wait = None;
        let answer = match answer {
            Ok(Answer::Run(answer)) => *answer,
            Ok(Answer::Turn(_) | Answer::Mail(_) | Answer::Swarm(_)) => return self.pause(),
            Err(refusal) if refusal.reason.is_retryable() => {
                tracing::debug!(%refusal, "a wait for steps ended");
                return self.pause();
            }
            Err(refusal) => {
                tracing::warn!(%refusal, "the broker gives this node no steps");
                self.not_before = Instant::now() + self.refused.pause(chance());
                return;
            }
        };
        self.refused.reset();
        let mut is_news = false;
        for step in answer.stop.iter().filter_map(step_id) {
            is_news |= self.stop(step);
        }
        if let Some(step) = answer.ready.as_ref().and_then(step_id) {
            is_news |= self.begin(step);
        }
        match answer.standing() {
            Standing::StillWaiting => self.backoff.reset(),
            Standing::There if is_news => {}
            // Nothing is asked in a circle.
            Standing::There | Standing::Superseded | Standing::Unspecified => self.pause(),
        }
    }

    fn pause(&mut self) {
        self.not_before = Instant::now() + self.backoff.pause(chance());
    }

    /// The broker says that a step is to be stopped. Returns whether that was not known.
    fn stop(&mut self, step: StepId) -> bool {
        if let Some(running) = self.running.get_mut(&step) {
            ask_to_stop(&running.stop, Stopped::Cancelled);
            return !std::mem::replace(&mut running.is_stopping, true);
        }
        // The answer to its claim was lost. Its lease will end.
        if STRAYS_MAX <= self.strays.len() {
            self.strays.pop_first();
        }
        self.strays.insert(step)
    }

    /// The broker shows a step. Returns whether it is to be claimed.
    fn begin(&mut self, step: StepId) -> bool {
        if self.running.contains_key(&step) {
            return false;
        }
        let key = match StepKey::new(step) {
            Ok(key) => key,
            Err(error) => {
                tracing::error!(%error, "a step has no key");
                return false;
            }
        };
        let (told, claiming) = oneshot::channel();
        let stop = Arc::new(Stop::new(None));
        let work = step::run(self.context.clone(), key, stop.clone(), told);
        let task = self.tasks.spawn(work.boxed()).id();
        self.running.insert(step, Running { task, stop, is_stopping: false });
        self.claiming = Some(claiming);
        true
    }

    fn claimed(&mut self, is_claimed: bool) {
        self.claiming = None;
        // Somebody else was faster, or the broker shows what it does not give.
        if is_claimed { self.backoff.reset() } else { self.pause() }
    }

    fn ended(&mut self, ended: Result<(task::Id, ()), JoinError>) {
        let task = match ended {
            Ok((task, ())) => task,
            Err(error) => {
                tracing::error!(%error, "what ran a step failed; the step counts as lost");
                error.id()
            }
        };
        self.running.retain(|_, running| running.task != task);
        self.look_at = Instant::now();
    }
}

/// Removes what an earlier life of this node left.
async fn clean(directory: PathBuf) {
    let cleaning = task::spawn_blocking(move || {
        if let Err(error) = files::clean(&directory, clock::wall_ms()) {
            let directory = directory.display();
            tracing::warn!(%error, %directory, "files of earlier steps cannot be removed");
        }
    });
    if let Err(error) = cleaning.await {
        tracing::error!(%error, "files of earlier steps may be left");
    }
}

/// Whether a step was claimed, once that is known. May be dropped and called again.
async fn claimed(claiming: &mut Option<oneshot::Receiver<bool>>) -> bool {
    match claiming {
        // Nobody says so when its task is gone.
        Some(claiming) => claiming.await.unwrap_or(false),
        None => std::future::pending().await,
    }
}

/// The answer to the open wait. May be dropped and called again.
async fn answered(wait: &mut Option<(StepOffer, Waiting)>) -> Result<Answer, Refusal> {
    match wait {
        Some((_, waiting)) => waiting.await,
        None => std::future::pending().await,
    }
}

fn step_id(named: &wire::StepRef) -> Option<StepId> {
    Some(StepId { run: named.run_id.parse().ok()?, number: named.step })
}
