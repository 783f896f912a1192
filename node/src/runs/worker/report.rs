//! How far a step is, told to the broker while it runs.
//!
//! A report renews the lease, and its answer says when the step is to be stopped. The first change is
//! told at once, what follows at most every [`BETWEEN`], and something at least every [`RENEWAL`].

use std::time::Duration;

use parking_lot::Mutex;
use tasuki_proto::{
    limits::PARTIAL_BYTES_MAX,
    reason::Reason,
    run::StepId,
    wire::{self, RunUsage, StepStop},
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until, timeout_at},
};

use super::end::label;
use crate::{
    client::retry::{Backoff, chance},
    link::{Link, LinkState, Phase},
    runner::{
        outcome::Stopped,
        stream::{Progress, Usage},
    },
    runs::convert,
};

/// Between two reports.
const BETWEEN: Duration = Duration::from_millis(100);

/// The longest time without a report: three of them in a lease.
const RENEWAL: Duration = Duration::from_secs(20);

/// What is added to a lease before it counts as gone: the broker may have heard the last report
/// later than its answer tells.
const MARGIN: Duration = Duration::from_secs(5);

/// Why a lease is gone that nobody ended.
const OVERDUE: &str = "no report was taken for longer than its lease lasts";

/// Why a lease is gone that another process may have taken over.
const FENCED: &str = "another process registered as this node";

/// Why a step is to be stopped, as soon as it is.
pub(super) type Stop = watch::Sender<Option<Stopped>>;

/// Has a step stopped. Who says so first is right; returns whether this was the first.
pub(super) fn ask_to_stop(stop: &Stop, why: Stopped) -> bool {
    stop.send_if_modified(|before| {
        let is_first = before.is_none();
        if is_first {
            *before = Some(why);
        }
        is_first
    })
}

/// The newest of what a step said.
#[derive(Debug, Default)]
pub(super) struct Latest {
    now: Mutex<Snapshot>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Snapshot {
    usage: Usage,
    last_tool: String,
    partial: Partial,
    /// The broker does not take its words.
    is_silent: bool,
}

impl Latest {
    pub(super) fn take(&self, progress: &Progress<'_>) {
        let mut now = self.now.lock();
        match progress {
            Progress::Text { text, begins } => now.partial.push(text, *begins),
            Progress::ToolStarted { name } => now.last_tool = label(name),
            Progress::TurnEnded { usage } => now.usage = **usage,
            Progress::Started { .. }
            | Progress::Output { .. }
            | Progress::ToolEnded { .. }
            | Progress::Retrying { .. }
            | Progress::Settled => return,
        }
        drop(now);
        self.changed.notify_one();
    }

    fn request(&self, step: StepId, claim_token: u64) -> wire::ReportStepRequest {
        let now = self.now.lock();
        let partial = if now.is_silent { "" } else { now.partial.text() };
        wire::ReportStepRequest {
            run_id: step.run.to_string(),
            step: step.number,
            claim_token,
            usage: Some(convert::usage_to_wire(&now.usage)),
            last_tool: now.last_tool.clone(),
            partial: (!partial.is_empty()).then(|| convert::text(partial)),
            ..Default::default()
        }
    }
}

/// The newest of a message.
#[derive(Debug, Default)]
struct Partial(String);

impl Partial {
    fn push(&mut self, text: &str, begins: bool) {
        if begins || PARTIAL_BYTES_MAX <= text.len() {
            self.0.clear();
        }
        self.0.push_str(newest(text));
        // Not with each word: what is moved then was at least as long as what stays.
        if 2 * PARTIAL_BYTES_MAX <= self.0.len() {
            let over = self.0.len() - self.text().len();
            self.0.drain(..over);
        }
    }

    fn text(&self) -> &str {
        newest(&self.0)
    }
}

/// The end of a text, cut at a character.
fn newest(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(PARTIAL_BYTES_MAX))..]
}

/// How long the broker holds a step for this node, as far as the node can know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    renewal: Instant,
    end: Instant,
}

impl Lease {
    /// One that the broker granted; its answer came at `now`.
    pub(super) fn granted(now: Instant, expires_ms: u64, now_ms: u64) -> Self {
        let length = Duration::from_millis(expires_ms.saturating_sub(now_ms));
        Self { renewal: now + RENEWAL.min(length / 3), end: now + length + MARGIN }
    }
}

/// What a step and the others of its tree may still use. `None`: there is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Budget {
    cost_microusd: Option<u64>,
    turns: Option<u64>,
}

impl Budget {
    pub(super) fn new(claim: &wire::ClaimStepResponse) -> Self {
        let run = claim.run.as_ref().and_then(|run| run.budget).unwrap_or_default();
        let left = claim.left.unwrap_or_default();
        // Nothing left is told as no limit is.
        let limit = |of_run: u64, left: u64| (of_run != 0 || left != 0).then_some(left);
        Self {
            cost_microusd: limit(run.max_cost_microusd, left.max_cost_microusd),
            turns: limit(run.max_turns, left.max_turns),
        }
    }

    /// Which limit it was. What other steps used is not known here, so it may be either.
    const fn used_up(self, used: &RunUsage) -> &'static str {
        const COST: &str = "max_cost";
        const TURNS: &str = "max_turns";
        match (self.cost_microusd, self.turns) {
            (Some(left), _) if left < used.cost_microusd => COST,
            (_, Some(left)) if left < used.turns => TURNS,
            (Some(_), None) => COST,
            (None, Some(_)) => TURNS,
            (Some(_), Some(_)) | (None, None) => "max_cost or max_turns",
        }
    }
}

/// Tells the broker how far a step is.
#[derive(Debug)]
pub(super) struct Reporter<'a> {
    pub(super) link: &'a Link,
    pub(super) step: StepId,
    pub(super) claim_token: u64,
    pub(super) latest: &'a Latest,
    pub(super) stop: &'a Stop,
    pub(super) budget: Budget,
    pub(super) lease: Lease,
}

impl Reporter<'_> {
    /// Reports until the broker no longer holds the step for this node: then it is to be stopped
    /// (WK3), and this returns.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut not_before = Instant::now();
        let mut state = self.link.state();
        loop {
            let changed = async {
                self.latest.changed.notified().await;
                sleep_until(not_before).await;
            };
            tokio::select! {
                () = changed => {}
                () = sleep_until(self.lease.renewal.max(not_before)) => {}
                () = fenced(&mut state) => return self.lose(FENCED),
            }
            not_before = Instant::now() + BETWEEN;
            let report = self.link.query(self.latest.request(self.step, self.claim_token));
            let refusal = match timeout_at(self.lease.end, report).await {
                Ok(Ok(answer)) => {
                    backoff.reset();
                    self.heed(&answer);
                    continue;
                }
                Ok(Err(refusal))
                    if is_lost(refusal.reason) || refusal.reason == Reason::StaleEpoch =>
                {
                    return self.lose(&refusal.message);
                }
                Ok(Err(refusal)) => refusal,
                Err(_) => return self.lose(OVERDUE),
            };
            if self.lease.end <= Instant::now() {
                return self.lose(OVERDUE);
            }
            if refusal.reason == Reason::PrivateWorkspace {
                self.latest.now.lock().is_silent = true;
            }
            tracing::debug!(step = %self.step, %refusal, "a report was not taken");
            // What it said is still to be told.
            self.latest.changed.notify_one();
            not_before = Instant::now() + backoff.pause(chance());
        }
    }

    fn heed(&mut self, answer: &wire::ReportStepResponse) {
        self.lease = Lease::granted(Instant::now(), answer.expires_ms, answer.now_ms);
        let why = match answer.stop() {
            StepStop::Unspecified => return,
            StepStop::Canceled => Stopped::Cancelled,
            StepStop::Budget => {
                let used = convert::usage_to_wire(&self.latest.now.lock().usage);
                Stopped::Budget { limit: self.budget.used_up(&used).to_owned() }
            }
        };
        ask_to_stop(self.stop, why);
    }

    fn lose(&self, why: &str) {
        tracing::warn!(step = %self.step, why, "a step is stopped: the broker calls it lost");
        ask_to_stop(self.stop, Stopped::Cancelled);
    }
}

/// Resolves when another process has this node, and the steps are no longer this one's.
async fn fenced(state: &mut watch::Receiver<LinkState>) {
    if state.wait_for(is_fenced).await.is_err() {
        std::future::pending().await
    }
}

fn is_fenced(state: &LinkState) -> bool {
    matches!(&state.phase, Phase::Refused(refusal) if refusal.reason == Reason::StaleEpoch)
}

/// Whether the broker does not hold the step for this node any more.
pub(super) const fn is_lost(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::StaleToken | Reason::LeaseLost | Reason::UnknownRun | Reason::UnknownStep
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Refusal;

    fn partial(said: &[(&str, bool)]) -> Partial {
        let mut partial = Partial::default();
        for (text, begins) in said {
            partial.push(text, *begins);
        }
        partial
    }

    #[test]
    fn what_is_shown_is_the_newest_of_one_message() {
        assert_eq!(partial(&[]).text(), "");
        assert_eq!(partial(&[("a", true), ("b", false)]).text(), "ab");
        assert_eq!(partial(&[("a", true), ("b", true), ("c", false)]).text(), "bc");
    }

    #[test]
    fn a_long_message_is_cut_at_a_character_and_takes_little_memory() {
        let long = "é".repeat(PARTIAL_BYTES_MAX);
        let whole = &long[..PARTIAL_BYTES_MAX];
        assert_eq!(partial(&[("a", true), (&long, false)]).text(), whole);
        let odd = partial(&[(&long, true), ("x", false)]);
        assert_eq!(odd.text(), format!("{}x", &long[..PARTIAL_BYTES_MAX - 2]));
        let mut many = Partial::default();
        for _ in 0..PARTIAL_BYTES_MAX {
            many.push("€uro", false);
            assert!(many.0.len() <= 2 * PARTIAL_BYTES_MAX, "{}", many.0.len());
        }
        assert!("€uro".repeat(PARTIAL_BYTES_MAX).ends_with(many.text()));
        assert!(PARTIAL_BYTES_MAX - 3 <= many.text().len());
    }

    #[test]
    fn only_news_is_reported() {
        let latest = Latest::default();
        let is_news = |progress: Progress<'_>| {
            use futures::FutureExt as _;
            latest.take(&progress);
            latest.changed.notified().now_or_never().is_some()
        };
        let usage = Usage { turns: 1, ..Usage::default() };
        assert!(is_news(Progress::Text { text: "a", begins: true }));
        assert!(is_news(Progress::ToolStarted { name: "ba\u{202e}sh" }));
        assert!(is_news(Progress::TurnEnded { usage: &usage }));
        assert!(!is_news(Progress::ToolEnded { name: "bash", is_error: false }));
        assert!(!is_news(Progress::Output { text: "a", begins: true }));
        let step = StepId { run: "run_1700000000000_00af".parse().unwrap(), number: 2 };
        let request = latest.request(step, 7);
        assert_eq!((request.run_id.as_str(), request.step), ("run_1700000000000_00af", 2));
        assert_eq!((request.claim_token, request.last_tool.as_str()), (7, "bash"));
        assert_eq!((request.partial, request.usage.unwrap().turns), (Some(convert::text("a")), 1));
        latest.now.lock().is_silent = true;
        assert_eq!(latest.request(step, 7).partial, None);
    }

    #[test]
    fn the_first_reason_to_stop_counts() {
        let stop = Stop::new(None);
        assert!(ask_to_stop(&stop, Stopped::Budget { limit: "max_turns".to_owned() }));
        assert!(!ask_to_stop(&stop, Stopped::Cancelled));
        assert_eq!(*stop.borrow(), Some(Stopped::Budget { limit: "max_turns".to_owned() }));
    }

    /// Holds WK3.
    #[test]
    fn a_lease_is_renewed_in_time_and_not_given_up_before_the_broker_does() {
        let now = Instant::now();
        let lease = Lease::granted(now, 160_000, 100_000);
        assert_eq!(lease.renewal, now + RENEWAL);
        assert_eq!(lease.end, now + Duration::from_secs(60) + MARGIN);
        // A claim that was answered late.
        let lease = Lease::granted(now, 106_000, 100_000);
        assert_eq!(lease.renewal, now + Duration::from_secs(2));
        let lease = Lease::granted(now, 100_000, 106_000);
        assert_eq!((lease.renewal, lease.end), (now, now + MARGIN));
        for reason in Reason::ALL.iter().copied() {
            assert!(!(is_lost(reason) && reason.is_retryable()), "{reason}");
        }
        assert!(is_lost(Reason::LeaseLost) && is_lost(Reason::StaleToken));
    }

    #[test]
    fn a_node_that_another_process_has_is_told_from_one_that_is_away() {
        let refused = |reason| Phase::Refused(Refusal { reason, message: String::new() });
        for (phase, is) in [
            (refused(Reason::StaleEpoch), true),
            (refused(Reason::RoleInUse), false),
            (Phase::Connecting, false),
            (Phase::Connected, false),
        ] {
            let mut state = LinkState::down("away", 0);
            state.phase = phase;
            assert_eq!(is_fenced(&state), is, "{state:?}");
        }
        assert!(!is_fenced(&LinkState::down("away", 0)));
    }

    #[test]
    fn the_limit_that_was_used_up_is_named() {
        let both = "max_cost or max_turns";
        for (of_run, left, used, said) in [
            ((10, 0), (10, 0), (11, 5), "max_cost"),
            ((0, 9), (0, 4), (11, 5), "max_turns"),
            ((10, 9), (10, 4), (9, 5), "max_turns"),
            ((10, 9), (10, 4), (11, 5), "max_cost"),
            // A limit of a run above it.
            ((0, 0), (10, 0), (11, 5), "max_cost"),
            // Others have used up everything.
            ((10, 0), (0, 0), (1, 5), "max_cost"),
            ((0, 9), (0, 4), (1, 2), "max_turns"),
            ((10, 9), (10, 9), (1, 2), both),
            ((0, 0), (0, 0), (1, 2), both),
        ] {
            let budget = |(max_cost_microusd, max_turns)| {
                Some(wire::RunBudget { max_cost_microusd, max_turns, ..Default::default() })
            };
            let run = Some(wire::Run { budget: budget(of_run), ..Default::default() });
            let claim = wire::ClaimStepResponse { run, left: budget(left), ..Default::default() };
            let used = RunUsage { cost_microusd: used.0, turns: used.1, ..Default::default() };
            assert_eq!(Budget::new(&claim).used_up(&used), said, "{claim:?} {used:?}");
        }
    }
}
