//! One role's agent as its node sees it: whether it is idle, and by which way it can be woken. Pure:
//! time comes in as an argument.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::{
    adapters::Adapter,
    client::HookClient,
    pacing::{DEBOUNCE, Next, Pacing, Stops, TASK_HEAD_START},
    pending::{Arrival, Pending},
    push::{Target, is_ready},
};
use crate::clock::Moment;

/// How long a hook's word that an agent works counts without another sign of it.
const WORK_COUNTS: Duration = Duration::from_secs(15 * 60);

/// How long after its last question about a task of MCP a client counts as polling it.
const POLL_COUNTS: Duration = Duration::from_secs(10);

/// Between two lines about urgent mail.
const URGENT_PAUSE: Duration = Duration::from_secs(10);

/// How a role's agent was woken last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWake {
    /// By this machine's clock.
    pub at_ms: u64,
    /// `hook`, or the adapter's name.
    pub by: String,
    /// How much it was woken for.
    pub arrivals: usize,
    /// Why it did not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How long after it the agent called; `None`: not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_after_ms: Option<u64>,
}

/// A hook that waits behind an idle session; it is given what to say, or nothing.
pub(super) type Waiter = oneshot::Sender<Option<String>>;

/// The session that hooks told of last.
#[derive(Debug)]
pub(super) struct HookSession {
    pub client: HookClient,
    heard: Moment,
    is_working: bool,
}

/// By which way an agent is woken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    Hook,
    Push(Adapter),
}

impl Way {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Push(adapter) => adapter.name(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub adapters: Vec<Adapter>,
    /// Why they are not known.
    pub unreadable: Option<String>,
    /// As the broker last said it.
    pub pending: Option<Pending>,
    /// The client's name, as it says it itself.
    pub client: String,
    pub target: Target,
    pub hook: Option<HookSession>,
    pub last: Option<LastWake>,
    pub stops: Stops,
    /// The session, by its client's name for it, that called a tool of ours last.
    player: Option<(HookClient, String)>,
    pacing: Pacing,
    urgent_told: BTreeSet<Arrival>,
    urgent_last: Option<Moment>,
    calls: usize,
    woken: Option<Moment>,
    polled: Option<Moment>,
    waiter: Option<Waiter>,
}

impl State {
    /// Whether anybody is to be woken here at all.
    pub(super) const fn is_wanted(&self) -> bool {
        !self.adapters.is_empty() || self.hook.is_some()
    }

    /// The agent called.
    pub(super) fn called(&mut self, now: Moment, client: &str) {
        if !client.is_empty() {
            client.clone_into(&mut self.client);
        }
        self.pacing.called();
        self.stops.called();
        if let (Some(last), Some(woken)) = (&mut self.last, self.woken.take()) {
            let after = u64::try_from(now.since(woken).as_millis()).unwrap_or(u64::MAX);
            last.called_after_ms = Some(after);
        }
        if let Some(hook) = &mut self.hook {
            hook.heard = now;
            hook.is_working = true;
        }
        self.release_waiter();
    }

    pub(super) const fn call_begins(&mut self) {
        self.calls += 1;
    }

    pub(super) const fn call_ends(&mut self) {
        self.calls = self.calls.saturating_sub(1);
    }

    pub(super) const fn polled(&mut self, now: Moment) {
        self.polled = Some(now);
    }

    /// A hook says whether its agent works.
    pub(super) fn hooked(&mut self, now: Moment, client: HookClient, is_working: bool) {
        self.hook = Some(HookSession { client, heard: now, is_working });
        if is_working {
            self.release_waiter();
        }
    }

    /// A hook says that its session goes on, shortened.
    pub(super) fn hook_goes_on(&mut self, now: Moment, client: HookClient) {
        let is_working = self.hook.as_ref().is_some_and(|it| it.is_working);
        self.hooked(now, client, is_working);
    }

    /// A session of this client called a tool of ours.
    pub(super) fn plays(&mut self, client: HookClient, session: &str) {
        self.player = Some((client, session.to_owned())).filter(|(_, it)| !it.is_empty());
    }

    /// A session begins. Another one may have been left for it, or goes on beside it: which of them
    /// plays the role shows when one calls.
    pub(super) fn begins(&mut self, session: &str) {
        self.player.take_if(|(_, it)| it != session);
    }

    /// Nobody works in a session any more. Whether it was the one that plays the role; said once,
    /// until it calls again.
    pub(super) fn is_gone(&mut self, now: Moment, client: HookClient, session: &str) -> bool {
        let is_its = self.player.as_ref().is_some_and(|(of, it)| *of == client && it == session);
        if !is_its {
            return false;
        }
        self.player = None;
        self.hooked(now, client, false);
        self.release_waiter();
        // Another client may have taken the role over since.
        client.is_called(&self.client)
    }

    /// A hook waits until something comes; of several the newest.
    pub(super) fn wait(&mut self, waiter: Waiter) {
        self.release_waiter();
        self.waiter = Some(waiter);
    }

    fn release_waiter(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            // Its client may have ended.
            drop(waiter.send(None));
        }
    }

    /// Whether something is waiting behind an idle session.
    pub(super) fn has_waiter(&self) -> bool {
        self.waiter.as_ref().is_some_and(|it| !it.is_closed())
    }

    /// The first way that can wake the agent.
    pub(super) fn way(&self) -> Option<Way> {
        if self.has_waiter() {
            return Some(Way::Hook);
        }
        let is_usable = |it: &&Adapter| it.is_for(&self.client) && is_ready(it, &self.target);
        self.adapters.iter().find(is_usable).cloned().map(Way::Push)
    }

    /// Whether the client polls a task of MCP.
    pub(super) fn is_polling(&self, now: Moment) -> bool {
        self.polled.is_some_and(|at| now.since(at) < POLL_COUNTS)
    }

    /// What is to be done now. `waits`: parked waits of the role.
    pub(super) fn next(&mut self, now: Moment, waits: usize) -> Next {
        let arrivals = self.pending.as_ref().map(Pending::arrivals).unwrap_or_default();
        let is_working =
            self.hook.as_ref().is_some_and(|it| it.is_working && now.since(it.heard) < WORK_COUNTS);
        let is_idle = self.calls == 0 && waits == 0 && !is_working && self.way().is_some();
        let head_start = if self.is_polling(now) { TASK_HEAD_START } else { DEBOUNCE };
        self.pacing.next(now, &arrivals, is_idle, head_start)
    }

    /// Tells the hook that waits. Whether it was there.
    pub(super) fn tell_waiter(&mut self, sentence: &str) -> bool {
        self.waiter.take().is_some_and(|it| it.send(Some(sentence.to_owned())).is_ok())
    }

    /// How waking went; `why`: it did not work.
    pub(super) fn woke(
        &mut self,
        now: Moment,
        at_ms: u64,
        by: &str,
        arrivals: BTreeSet<Arrival>,
        why: Option<String>,
    ) {
        let count = arrivals.len();
        match why {
            None => self.pacing.woken(now, arrivals),
            Some(_) => self.pacing.failed(now),
        }
        self.woken = why.is_none().then_some(now);
        let (by, called_after_ms) = (by.to_owned(), None);
        self.last = Some(LastWake { at_ms, by, arrivals: count, why, called_after_ms });
    }

    /// Urgent mail to tell of after a tool call: each thread once, and not too often.
    pub(super) fn urgent(&mut self, now: Moment) -> Option<Pending> {
        let pending = self.pending.as_ref()?;
        let urgent = pending.urgent();
        self.urgent_told.retain(|it| urgent.contains(it));
        let new: BTreeSet<Arrival> = urgent.difference(&self.urgent_told).cloned().collect();
        let is_early = self.urgent_last.is_some_and(|at| now.since(at) < URGENT_PAUSE);
        if new.is_empty() || is_early {
            return None;
        }
        let part = pending.only(&new);
        self.urgent_told.extend(new);
        self.urgent_last = Some(now);
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::pending::{Letter, tests::letter};

    const fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    fn with_letter(adapters: Vec<Adapter>) -> State {
        let pending = Pending { letters: vec![letter(1)], ..Pending::default() };
        State { adapters, pending: Some(pending), ..State::default() }
    }

    fn codex() -> Adapter {
        Adapter::Codex { program: "/c".into(), home: None }
    }

    fn tmux() -> Adapter {
        Adapter::Tmux { program: "/t".into(), pane: "%1".into(), socket: None }
    }

    /// Holds WU4.
    #[test]
    fn nothing_is_pushed_while_the_agent_calls_or_waits() {
        let mut state = with_letter(vec![tmux()]);
        assert_eq!(state.next(at(0), 0), Next::At(at(500)));
        state.call_begins();
        assert_eq!(state.next(at(10_000), 0), Next::Nothing);
        state.call_ends();
        assert_eq!(state.next(at(20_000), 1), Next::Nothing);
        assert_eq!(state.next(at(30_000), 0), Next::At(at(30_500)));
        // A hook says that it works, which does not count for ever.
        state.hooked(at(31_000), HookClient::Codex, true);
        assert_eq!(state.next(at(32_000), 0), Next::Nothing);
        let later = 31_000 + 15 * 60_000;
        assert_eq!(state.next(at(later), 0), Next::At(at(later + 500)));
        state.hooked(at(32_000), HookClient::Codex, false);
        assert!(matches!(state.next(at(later + 600), 0), Next::Wake(_)));
    }

    #[test]
    fn each_agent_is_woken_by_the_first_way_that_reaches_it() {
        let mut state = with_letter(vec![codex(), tmux()]);
        assert_eq!(state.way(), Some(Way::Push(tmux())), "Codex has not called");
        state.called(at(0), "codex-mcp-client 0.169.0");
        state.target.thread = Some("019a".into());
        assert_eq!(state.way(), Some(Way::Push(codex())));
        state.called(at(1), "claude-code 2.1.330");
        assert_eq!(state.way(), Some(Way::Push(tmux())), "another client plays the role");
        let (waiter, told) = oneshot::channel();
        state.wait(waiter);
        assert_eq!(state.way(), Some(Way::Hook));
        drop(told);
        assert_eq!(state.way(), Some(Way::Push(tmux())), "its client has ended");
        state.adapters.clear();
        assert_eq!((state.way(), state.next(at(9_000), 0)), (None, Next::Nothing));
    }

    #[test]
    fn of_hooks_that_wait_the_newest_stays_and_work_ends_it() {
        let mut state = with_letter(Vec::new());
        let (first, mut told_first) = oneshot::channel();
        let (second, mut told_second) = oneshot::channel();
        state.wait(first);
        state.wait(second);
        assert_eq!(told_first.try_recv(), Ok(None));
        assert!(told_second.try_recv().is_err());
        state.called(at(1), "claude-code");
        assert_eq!(told_second.try_recv(), Ok(None));
        let (third, mut told_third) = oneshot::channel();
        state.wait(third);
        assert!(state.tell_waiter("x") && !state.tell_waiter("x"));
        assert_eq!(told_third.try_recv(), Ok(Some("x".to_owned())));
    }

    #[test]
    fn a_wake_is_remembered_with_the_call_that_followed_it() {
        let mut state = with_letter(vec![tmux()]);
        state.woke(at(1_000), 7, "tmux", state.pending.as_ref().unwrap().arrivals(), None);
        assert_eq!(state.next(at(9_000_000), 0), Next::Nothing, "it was woken for that");
        state.called(at(4_200), "claude-code");
        state.called(at(9_000), "claude-code");
        let last = state.last.unwrap();
        assert_eq!((last.by.as_str(), last.called_after_ms), ("tmux", Some(3_200)));
    }

    /// Holds WU5.
    #[test]
    fn a_role_is_left_by_the_session_that_called_and_by_no_other() {
        let claude = HookClient::Claude;
        let mut state = with_letter(Vec::new());
        assert!(!state.is_gone(at(0), claude, "s"), "it never called");
        state.called(at(1), "claude-code 2.1.330");
        state.plays(claude, "s");
        assert!(!state.is_gone(at(2), claude, "beside"));
        assert!(!state.is_gone(at(2), HookClient::Codex, "s"));
        assert!(state.is_gone(at(3), claude, "s"));
        assert!(!state.is_gone(at(4), claude, "s"), "it was said already");
        state.plays(claude, "s");
        state.called(at(5), "codex-mcp-client 0.169.0");
        assert!(!state.is_gone(at(6), claude, "s"), "another client plays the role");
        state.called(at(7), "claude-code 2.1.330");
        state.plays(claude, "s");
        state.begins("t");
        assert!(!state.is_gone(at(8), claude, "s"), "another session may have taken its place");
        state.plays(claude, "");
        assert!(!state.is_gone(at(9), claude, ""), "a session without a name is nobody's");
    }

    #[test]
    fn urgent_mail_is_told_once_and_not_in_a_row() {
        let mut state = with_letter(Vec::new());
        assert_eq!(state.urgent(at(0)), None);
        let urgent = |number| Letter { is_urgent: true, ..letter(number) };
        let of = |letters: Vec<Letter>| Some(Pending { letters, ..Pending::default() });
        state.pending = of(vec![urgent(1), letter(2)]);
        assert_eq!(state.urgent(at(0)), of(vec![urgent(1)]));
        assert_eq!(state.urgent(at(60_000)), None);
        state.pending = of(vec![urgent(1), urgent(3)]);
        assert_eq!(state.urgent(at(60_000)), of(vec![urgent(3)]));
        state.pending = of(vec![urgent(4)]);
        assert_eq!(state.urgent(at(60_100)), None, "too early");
        assert_eq!(state.urgent(at(70_000)), of(vec![urgent(4)]));
    }
}
