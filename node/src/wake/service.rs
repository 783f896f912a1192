//! Wakes the agents of a node's roles, and answers their hooks.
//!
//! A task for each role follows what happens at the broker, as long as somebody is to be woken: hooks
//! of its client were heard, or a way to push was set up. What it knows is in memory alone.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tasuki_proto::id::RoleId;
use tokio::{
    sync::{oneshot, watch},
    time,
};
use tokio_util::sync::CancellationToken;

pub use super::state::LastWake;
use super::{
    adapters::Adapters,
    card::{Who, card},
    client::{HookClient, HookEvent},
    gather::gather,
    hook::Input,
    pacing::{Next, Stops},
    pending::{Pending, Tools, stop_sentence, urgent_sentence, wake_sentence},
    push,
    state::{State, Way},
    usage::{self, Usage},
};
use crate::{
    clock::{Clock, wall_ms},
    role::{Actions, news::News},
};

/// For the broker to say what a role holds, while a client waits for its hook.
const LOOK_WITHIN: Duration = Duration::from_secs(3);

/// Between two questions to the broker about one role: what happens in between is one question.
const LOOK_PAUSE: Duration = Duration::from_millis(300);

/// Until the broker is asked again that did not answer.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What the agents of a node are woken by. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    roles: BTreeMap<RoleId, RoleWakes>,
    news: Option<News>,
    /// Where it is written down who is pushed; `None`: nobody is.
    file: Option<PathBuf>,
    workspace: String,
    clock: Clock,
    stopping: CancellationToken,
}

#[derive(Debug)]
struct RoleWakes {
    actions: Arc<dyn Actions>,
    tools: Tools,
    state: Mutex<State>,
    /// Something about the agent changed.
    changed: watch::Sender<()>,
}

/// What a node's MCP side knows that this needs.
#[derive(Debug)]
pub struct Around {
    pub news: Option<News>,
    pub file: Option<PathBuf>,
    pub workspace: String,
    pub clock: Clock,
    pub stopping: CancellationToken,
}

/// What a hook says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HookCall {
    pub client: HookClient,
    pub event: HookEvent,
    #[serde(default)]
    pub session: String,
    #[serde(default)]
    pub is_again: bool,
    /// The tool that was called, as the client names it.
    #[serde(default)]
    pub tool: String,
    /// Nobody works in the session any more.
    #[serde(default)]
    pub is_gone: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl HookCall {
    pub fn new(client: HookClient, event: HookEvent, input: &Input) -> Self {
        let (session, tool) = (input.session.clone(), input.tool.clone());
        Self {
            client,
            event,
            session,
            is_again: input.is_again,
            tool,
            is_gone: input.gone.is_some(),
            usage: None,
        }
    }
}

/// What a hook is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookAnswer {
    /// What the client is to hear.
    #[serde(default)]
    pub text: Option<String>,
    /// The role is left by the session that played it: what it holds is to be given back.
    #[serde(default)]
    pub is_left: bool,
    /// The broker knows of the tokens that the call told.
    #[serde(default)]
    pub is_usage_told: bool,
}

/// How a role's agent can be woken, and how it last was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleReport {
    pub role: String,
    /// The client's name and version; empty: it has not called.
    pub client: String,
    /// The client whose hooks were heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<HookClient>,
    /// A hook waits behind its idle session.
    pub is_hook_waiting: bool,
    /// Ways that were set up, in the order they are tried.
    pub adapters: Vec<String>,
    /// The way that would be taken now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// Waits that are parked: what comes wakes their agent by itself.
    pub waits: usize,
    /// It polls a task of MCP, which wakes it by itself.
    pub is_polling: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastWake>,
    /// Why what was set up does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A call of a role is under way until this is dropped.
#[derive(Debug)]
pub struct ActiveCall {
    waker: Waker,
    role: RoleId,
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.waker.change(&self.role, State::call_ends);
    }
}

impl Waker {
    pub fn new(roles: impl IntoIterator<Item = (Arc<dyn Actions>, Tools)>, around: Around) -> Self {
        let wakes = |(actions, tools): (Arc<dyn Actions>, Tools)| {
            let (state, changed) = (Mutex::default(), watch::Sender::new(()));
            (actions.role().clone(), RoleWakes { actions, tools, state, changed })
        };
        let Around { news, file, workspace, clock, stopping } = around;
        let roles = roles.into_iter().map(wakes).collect();
        let waker = Self(Arc::new(Shared { roles, news, file, workspace, clock, stopping }));
        waker.reload();
        waker
    }

    /// Reads again who is pushed.
    pub fn reload(&self) {
        let Some(file) = &self.0.file else { return };
        let read = Adapters::read(file);
        for (role, wakes) in &self.0.roles {
            let mut state = wakes.state();
            (state.adapters, state.unreadable) = match &read {
                Ok(adapters) => (adapters.of(role).to_vec(), None),
                Err(why) => (Vec::new(), Some(unreadable(file, why))),
            };
            drop(state);
            wakes.changed.send_replace(());
        }
    }

    /// Runs until the node stops.
    pub async fn run(self) {
        let drive = |role: &RoleId| {
            let (waker, role) = (self.clone(), role.clone());
            async move { waker.drive(&role).await }
        };
        let all = futures::future::join_all(self.0.roles.keys().map(drive));
        self.0.stopping.run_until_cancelled(all).await;
    }

    /// `client` calls as `role`; `thread` is Codex' name for its conversation.
    pub fn begin(&self, role: &RoleId, client: &str, thread: Option<&str>) -> ActiveCall {
        let now = self.0.clock.now();
        self.change(role, |state| {
            state.called(now, client);
            state.call_begins();
            if let Some(thread) = thread {
                state.target.thread = Some(thread.to_owned());
            }
        });
        ActiveCall { waker: self.clone(), role: role.clone() }
    }

    /// `client` acted as `role`.
    pub fn called(&self, role: &RoleId, client: &str) {
        let now = self.0.clock.now();
        self.change(role, |state| state.called(now, client));
    }

    /// A client asked after a task of `role`, which wakes it by itself.
    pub fn polled(&self, role: &RoleId) {
        let now = self.0.clock.now();
        if let Some(wakes) = self.0.roles.get(role) {
            wakes.state().polled(now);
        }
    }

    /// What a hook of `role` is told. `is_ours`: the tool that was called is one of ours.
    pub async fn hook(&self, role: &RoleId, call: HookCall, is_ours: bool) -> HookAnswer {
        let mut is_left = false;
        let now = self.0.clock.now();
        self.change(role, |state| {
            if call.event == HookEvent::SessionStart {
                state.begins(&call.session);
            }
            if is_ours {
                state.plays(call.client, &call.session);
            }
            is_left = call.is_gone && state.is_gone(now, call.client, &call.session);
        });
        HookAnswer { text: self.hook_text(role, call).await, is_left, is_usage_told: false }
    }

    async fn hook_text(&self, role: &RoleId, call: HookCall) -> Option<String> {
        let wakes = self.0.roles.get(role)?;
        let now = || self.0.clock.now();
        let HookCall { client, event, is_again, .. } = call;
        match event {
            HookEvent::SessionStart => {
                self.change(role, |state| {
                    if is_again {
                        state.hook_goes_on(now(), client);
                    } else {
                        state.hooked(now(), client, false);
                        state.stops = Stops::default();
                    }
                });
                let pending = self.look(wakes).await;
                let who = Who { role: role.as_str(), workspace: &self.0.workspace };
                Some(card(who, pending.as_ref(), wakes.tools))
            }
            HookEvent::Prompt => {
                self.change(role, |state| state.hooked(now(), client, true));
                None
            }
            HookEvent::Tool => {
                let mut urgent = None;
                self.change(role, |state| {
                    state.hooked(now(), client, true);
                    urgent = state.urgent(now());
                });
                Some(urgent_sentence(role.as_str(), &urgent?))
            }
            HookEvent::Stop => {
                let pending = self.look(wakes).await;
                let mut state = wakes.state();
                let unfinished = pending.as_ref().map(Pending::unfinished).unwrap_or_default();
                let tell = state.stops.end_of_turn(&unfinished, is_again);
                state.hooked(now(), client, !tell.is_empty());
                drop(state);
                wakes.changed.send_replace(());
                let pending = pending.filter(|_| !tell.is_empty())?.only(&tell);
                Some(stop_sentence(role.as_str(), &pending, wakes.tools))
            }
            HookEvent::Failure | HookEvent::SessionEnd => None,
            HookEvent::Wait => {
                let (waiter, told) = oneshot::channel();
                self.change(role, |state| state.wait(waiter));
                let told = self.0.stopping.run_until_cancelled(told).await?;
                told.ok()?
            }
        }
    }

    /// Tells the broker of tokens that a hook read of; `true`: they need not be told again.
    pub async fn tell(&self, role: &RoleId, usage: Option<&Usage>) -> bool {
        let Some((wakes, usage)) = self.0.roles.get(role).zip(usage) else { return false };
        usage::tell(&*wakes.actions, usage).await
    }

    /// How each role's agent can be woken.
    pub fn report(&self) -> Vec<RoleReport> {
        let now = self.0.clock.now();
        let one = |(role, wakes): (&RoleId, &RoleWakes)| {
            let state = wakes.state();
            RoleReport {
                role: role.to_string(),
                client: state.client.clone(),
                hooks: state.hook.as_ref().map(|it| it.client),
                is_hook_waiting: state.has_waiter(),
                adapters: state.adapters.iter().map(|it| it.name().to_owned()).collect(),
                way: state.way().map(|way| way.name().to_owned()),
                waits: wakes.actions.open_waits(),
                is_polling: state.is_polling(now),
                last: state.last.clone(),
                problem: state.unreadable.clone(),
            }
        };
        self.0.roles.iter().map(one).collect()
    }

    fn change(&self, role: &RoleId, change: impl FnOnce(&mut State)) {
        if let Some(wakes) = self.0.roles.get(role) {
            change(&mut wakes.state());
            wakes.changed.send_replace(());
        }
    }

    /// What waits for a role as the broker says it; where it does not, nothing is known.
    async fn look(&self, wakes: &RoleWakes) -> Option<Pending> {
        let asking = gather(&*wakes.actions, wakes.tools);
        match time::timeout(LOOK_WITHIN, asking).await {
            Ok(Ok(pending)) => {
                wakes.state().pending = Some(pending.clone());
                Some(pending)
            }
            Ok(Err(why)) => {
                tracing::debug!(%why, role = %wakes.actions.role(), "what waits is not known");
                None
            }
            Err(_) => None,
        }
    }

    async fn drive(&self, role: &RoleId) {
        let (Some(wakes), Some(news)) = (self.0.roles.get(role), &self.0.news) else { return };
        let mut changed = wakes.changed.subscribe();
        loop {
            while !wakes.state().is_wanted() {
                if changed.changed().await.is_err() {
                    return;
                }
            }
            let mut work = news.follow_work();
            let mut is_stale = true;
            loop {
                if is_stale {
                    is_stale = self.look(wakes).await.is_none();
                    if !is_stale {
                        time::sleep(LOOK_PAUSE).await;
                    }
                }
                let again = if is_stale { Some(LOOK_AGAIN) } else { None };
                let pause = self.step(role, wakes).await.or(again);
                if !wakes.state().is_wanted() {
                    break;
                }
                tokio::select! {
                    () = work.changed() => is_stale = true,
                    it = changed.changed() => if it.is_err() { return },
                    () = sleep(pause) => {}
                }
            }
        }
    }

    /// Wakes the agent if that is due. When to look again, if nothing else happens.
    async fn step(&self, role: &RoleId, wakes: &RoleWakes) -> Option<Duration> {
        let now = self.0.clock.now();
        let (way, target, arrivals, sentence) = {
            let mut state = wakes.state();
            let arrivals = match state.next(now, wakes.actions.open_waits()) {
                Next::Nothing => return None,
                Next::At(due) => return Some(due.since(now)),
                Next::Wake(arrivals) => arrivals,
            };
            let pending = state.pending.as_ref()?.only(&arrivals);
            let sentence = wake_sentence(role.as_str(), &pending, wakes.tools);
            (state.way()?, state.target.clone(), arrivals, sentence)
        };
        let why = match &way {
            Way::Hook => {
                let is_told = wakes.state().tell_waiter(&sentence);
                (!is_told).then(|| "its hook ended".to_owned())
            }
            Way::Push(adapter) => push::push(adapter, &target, &sentence).await.err(),
        };
        match &why {
            None => tracing::info!(%role, by = way.name(), count = arrivals.len(), "woke an agent"),
            Some(why) => tracing::warn!(%role, by = way.name(), why, "an agent is not woken"),
        }
        wakes.state().woke(self.0.clock.now(), wall_ms(), way.name(), arrivals, why);
        // What could not be told is tried again.
        Some(Duration::ZERO)
    }
}

async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

fn unreadable(file: &std::path::Path, why: &io::Error) -> String {
    format!("{} cannot be read: {why}", file.display())
}

impl RoleWakes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
