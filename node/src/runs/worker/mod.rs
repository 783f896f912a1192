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
//! `step` is one step from claim to end, `origin` what those above bind it to, `environment` what it
//! gets of its node, `report` how far it is, `end` how it ended, `files` what it has on disk, `reads`
//! lets others read that.
//!
//! Not here: the child and its stream (`runner`), whose step it is (the broker), what sub-agents ask
//! for (`mcp`).

mod end;
mod environment;
mod files;
mod origin;
mod reads;
mod report;
mod step;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Fuse, FusedFuture as _},
};
use tasuki_proto::{
    limits::{HOLD_MS_MAX, RUNNERS_MAX},
    run::StepId,
    wire::{self, run_answer::Standing},
};
use tokio::{
    sync::{Semaphore, oneshot},
    task::{self, JoinError, JoinSet},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::files::{output_file, read_output};
use self::{
    report::{Stop, ask_to_stop},
    step::{CHECKS_MAX, Claim, Context},
};
use super::{client::run_answer, live::LiveSteps, own::OwnRunners};
use crate::{
    client::retry::{Backoff, chance},
    clock,
    config::RunSettings,
    link::Link,
    refusal::Refusal,
    runner::outcome::Stopped,
    wait::{Question, RunAwaited, StepOffer},
};

/// How long one wait stays open.
const HOLD: Duration = Duration::from_millis(HOLD_MS_MAX);

/// Programs are installed and removed while a node runs, and nobody tells it.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What steps run with on this node.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    pub own: Arc<OwnRunners>,
    /// What the operator says.
    pub runs: RunSettings,
    /// For files of steps that run, and for long outputs; of this node alone. Absolute: agents work
    /// elsewhere than this process.
    pub directory: PathBuf,
    pub endpoint: StepEndpoint,
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
    closing: DropGuard,
    /// Closed when nothing runs any more.
    done: oneshot::Receiver<()>,
}

impl Worker {
    /// Begins to wait for steps, in the background. Those that run are in `live`.
    pub fn start(link: Link, settings: WorkerSettings, live: LiveSteps) -> Self {
        let (running, done) = oneshot::channel();
        let (scheduler, closing) = StepScheduler::new(link.clone(), settings, live);
        let context = scheduler.context.clone();
        link.spawn(async move {
            tokio::select! {
                () = scheduler.run() => {}
                () = reads::answer(&context) => {}
            }
            drop(running);
        });
        Self { closing: closing.drop_guard(), done }
    }

    /// Ends what runs, and tells the broker while there is time. The link has to live until then.
    pub async fn shutdown(self) {
        drop(self.closing);
        self.done.await.ok();
    }
}

/// A step that was claimed.
#[derive(Debug)]
struct Running {
    task: task::Id,
    stop: Arc<Stop>,
}

/// What comes once, or is not waited for.
type Pending<T> = Fuse<BoxFuture<'static, T>>;

/// Offers free places, claims steps, and runs them.
struct StepScheduler {
    context: Arc<Context>,
    tasks: JoinSet<()>,
    running: BTreeMap<StepId, Running>,
    runners: BTreeSet<String>,
    /// The next look at which runners are installed.
    looking: Pending<Option<BTreeSet<String>>>,
    /// What the open wait offers.
    offered: Option<StepOffer>,
    wait: Pending<Result<wire::RunAnswer, Refusal>>,
    /// Of the step that was shown last.
    claiming: Pending<Option<Claim>>,
    backoff: Backoff,
    /// For a broker that will have no wait of this node.
    refused: Backoff,
    /// No wait before this, unless the broker comes back.
    not_before: Instant,
}

impl StepScheduler {
    /// With what ends it.
    fn new(link: Link, settings: WorkerSettings, live: LiveSteps) -> (Self, CancellationToken) {
        let closing = CancellationToken::new();
        let checks = Arc::new(Semaphore::new(CHECKS_MAX));
        let context = Context { link, settings, live, closing: closing.clone(), checks };
        let scheduler = Self {
            context: Arc::new(context),
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            runners: BTreeSet::new(),
            looking: Fuse::terminated(),
            offered: None,
            wait: Fuse::terminated(),
            claiming: Fuse::terminated(),
            backoff: Backoff::default(),
            refused: Backoff::turned_away(),
            not_before: Instant::now(),
        };
        (scheduler, closing)
    }

    async fn run(mut self) {
        let directory = self.context.settings.directory.clone();
        // A failure is in the log, and keeps no step from running.
        task::spawn_blocking(move || files::clean(&directory, clock::wall_ms())).await.ok();
        self.look(Duration::ZERO);
        let closing = self.context.closing.clone();
        loop {
            self.ask();
            tokio::select! {
                () = closing.cancelled() => break,
                found = &mut self.looking => self.looked(found),
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                claim = &mut self.claiming => self.claimed(claim),
                answer = &mut self.wait => self.heed(answer),
            }
        }
        self.wait = Fuse::terminated();
        for running in self.running.values() {
            ask_to_stop(&running.stop, Stopped::Cancelled);
        }
        if !self.claiming.is_terminated() {
            let claim = (&mut self.claiming).await;
            self.claimed(claim);
        }
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.ended(ended);
        }
    }

    /// Looks which runners are installed, in a while.
    fn look(&mut self, after: Duration) {
        let own = self.context.settings.own.clone();
        let looking = async move {
            if !after.is_zero() {
                sleep(after).await;
            }
            task::spawn_blocking(move || own.installed()).await.ok()
        };
        self.looking = looking.boxed().fuse();
    }

    fn looked(&mut self, found: Option<BTreeSet<String>>) {
        if let Some(found) = found {
            self.runners = found.into_iter().take(RUNNERS_MAX).collect();
        }
        self.look(LOOK_EVERY);
    }

    /// Asks anew if there is something else to say than what was asked with.
    fn ask(&mut self) {
        let offer = self.offer();
        if self.offered == offer {
            return;
        }
        self.offered.clone_from(&offer);
        let (link, not_before) = (self.context.link.clone(), self.not_before);
        self.wait = offer.map_or_else(Fuse::terminated, |offer| {
            let question = Question::Run(RunAwaited::Steps(offer));
            let waiting = async move {
                if Instant::now() < not_before {
                    tokio::select! {
                        () = sleep_until(not_before) => {}
                        () = link.reconnected() => {}
                    }
                }
                link.connected().await;
                run_answer(link.wait_without_role(question, HOLD).await?)
            };
            waiting.boxed().fuse()
        });
    }

    /// What this node can do. `None`: there is nothing to wait for.
    fn offer(&self) -> Option<StepOffer> {
        let settings = &self.context.settings.runs;
        let has_none = settings.places == 0 || self.runners.is_empty();
        if self.running.is_empty() && has_none {
            return None;
        }
        let taken = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        let free = settings.places.saturating_sub(taken);
        let is_stopping = |it: &Running| it.stop.borrow().is_some();
        let stopping = self.running.iter().filter(|(_, it)| is_stopping(it)).map(|(step, _)| *step);
        Some(StepOffer {
            runners: self.runners.clone(),
            labels: settings.labels.iter().cloned().collect(),
            // A step that is being claimed would be shown again.
            places: if self.claiming.is_terminated() { free } else { 0 },
            accepts_elsewhere: settings.accept_elsewhere,
            stopping: stopping.collect(),
        })
    }

    fn heed(&mut self, answer: Result<wire::RunAnswer, Refusal>) {
        self.offered = None;
        let answer = match answer {
            Ok(answer) => answer,
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
            is_news |= self.claim(step);
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

    /// The broker says that a step is to be stopped. Returns whether it runs here and that was not
    /// known. What does not run is being claimed and will be named again, or nobody was told of its
    /// claim and its lease will end.
    fn stop(&self, step: StepId) -> bool {
        let running = self.running.get(&step);
        running.is_some_and(|running| ask_to_stop(&running.stop, Stopped::Cancelled))
    }

    /// The broker shows a step. Returns whether it is to be claimed.
    fn claim(&mut self, step: StepId) -> bool {
        let is_new = self.claiming.is_terminated() && !self.running.contains_key(&step);
        if is_new {
            self.claiming = step::claim(self.context.clone(), step).boxed().fuse();
        }
        is_new
    }

    fn claimed(&mut self, claim: Option<Claim>) {
        // Somebody else was faster, or the broker shows what it does not give.
        let Some(claim) = claim else { return self.pause() };
        self.backoff.reset();
        let (step, stop) = (claim.step(), Arc::new(Stop::new(None)));
        let work = step::run(self.context.clone(), claim, stop.clone());
        let task = self.tasks.spawn(work.boxed()).id();
        self.running.insert(step, Running { task, stop });
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
        self.look(Duration::ZERO);
    }
}

fn step_id(named: &wire::StepRef) -> Option<StepId> {
    Some(StepId { run: named.run_id.parse().ok()?, number: named.step })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tasuki_proto::run::RunId;

    use super::*;
    use crate::{identity::Identity, link, runner::runners::RunnerTable, step_key::StepKey};

    /// At a node whose broker is away.
    fn scheduler(data: &Path) -> StepScheduler {
        let identity = Arc::new(Identity::open(data).unwrap());
        let settings = link::Settings {
            broker: "http://127.0.0.1:1".to_owned(),
            carrier: None,
            workspace: "w".parse().unwrap(),
            node: identity.node().clone(),
            roles: Vec::new(),
            take_over: false,
        };
        let link = Link::start(settings, identity).unwrap();
        let own = OwnRunners { table: RunnerTable::default(), project: data.to_owned() };
        let node_url = "http://127.0.0.1:7421".to_owned();
        let settings = WorkerSettings {
            own: Arc::new(own),
            runs: RunSettings::default(),
            directory: data.join("runs"),
            endpoint: StepEndpoint { mcp_url: None, node_url, fingerprint: None },
        };
        StepScheduler::new(link, settings, LiveSteps::default()).0
    }

    #[tokio::test]
    async fn steps_are_claimed_one_by_one_and_what_is_canceled_is_stopped() {
        let data = tempfile::tempdir().unwrap();
        let mut scheduler = scheduler(data.path());
        assert_eq!(scheduler.offer(), None, "nothing is installed");
        scheduler.looked(Some(["pi".to_owned()].into()));
        let run: RunId = "run_1700000000000_00af".parse().unwrap();
        let named = |step| wire::StepRef { run_id: run.to_string(), step };
        let there = wire::RunAnswer { standing: Standing::There.into(), ..Default::default() };
        let shown = |step| Ok(wire::RunAnswer { ready: Some(named(step)), ..there.clone() });
        let places = |it: &StepScheduler| it.offer().map(|offer| offer.places);
        assert_eq!(places(&scheduler), Some(4));
        scheduler.heed(shown(1));
        assert_eq!(places(&scheduler), Some(0), "it stays on offer and is shown nothing");
        let asked = scheduler.not_before;
        scheduler.heed(shown(2));
        assert!(asked < scheduler.not_before, "nothing is asked in a circle");
        let step = StepId { run, number: 1 };
        scheduler.claiming = Fuse::terminated();
        let claim = Claim::new(StepKey::new(step).unwrap(), wire::ClaimStepResponse::default());
        scheduler.claimed(Some(claim));
        assert!(scheduler.offer().unwrap().stopping.is_empty());
        scheduler.heed(Ok(wire::RunAnswer { stop: vec![named(1)], ..there.clone() }));
        assert_eq!(*scheduler.running[&step].stop.borrow(), Some(Stopped::Cancelled));
        assert_eq!(scheduler.offer().unwrap().stopping, [step].into(), "that is known");
        assert_eq!(places(&scheduler), Some(3));
    }
}
