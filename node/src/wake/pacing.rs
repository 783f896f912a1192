//! When a wake is due, and how often an agent is told to go on. Pure: time comes in as an argument.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::pending::Arrival;
use crate::clock::Moment;

/// How long what came is gathered before it wakes: what comes together is one wake.
pub const DEBOUNCE: Duration = Duration::from_millis(500);

/// The same while the client polls a task of MCP, which wakes it by itself.
pub const TASK_HEAD_START: Duration = Duration::from_secs(6);

/// Between two wakes, where the first was followed by a call.
const PAUSE: Duration = Duration::from_secs(2);

/// Between two wakes, where the first was not followed by a call; it doubles with each.
const BACKOFF: Duration = Duration::from_secs(30);

/// The longest of them.
pub const BACKOFF_MAX: Duration = Duration::from_secs(15 * 60);

/// How often an agent goes on at the end of a turn without a call in between.
pub const CONTINUATIONS_MAX: u32 = 3;

/// How often it is told to go on for the same thing.
pub const SAID_MAX: u32 = 2;

/// What is to be done about what came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    Nothing,
    /// Look again then.
    At(Moment),
    /// Wake the agent for these.
    Wake(BTreeSet<Arrival>),
}

/// The wakes of one role.
#[derive(Debug, Default)]
pub struct Pacing {
    /// Those that were woken for and still wait.
    told: BTreeSet<Arrival>,
    /// Since when something new waits while the agent is idle.
    since: Option<Moment>,
    last: Option<Moment>,
    /// Wakes since the last call.
    unanswered: u32,
}

impl Pacing {
    /// `arrivals` wait; `head_start` is what other ways of waking have.
    pub fn next(
        &mut self,
        now: Moment,
        arrivals: &BTreeSet<Arrival>,
        is_idle: bool,
        head_start: Duration,
    ) -> Next {
        self.told.retain(|it| arrivals.contains(it));
        let new: BTreeSet<Arrival> = arrivals.difference(&self.told).cloned().collect();
        if new.is_empty() || !is_idle {
            self.since = None;
            return Next::Nothing;
        }
        let due = self.since.get_or_insert(now).after(head_start);
        let due = self.last.map_or(due, |last| due.max(last.after(self.pause())));
        if now < due { Next::At(due) } else { Next::Wake(new) }
    }

    /// The agent was woken for these.
    pub fn woken(&mut self, now: Moment, arrivals: BTreeSet<Arrival>) {
        self.told.extend(arrivals);
        self.failed(now);
    }

    /// The agent could not be woken: it is tried again after a pause.
    pub fn failed(&mut self, now: Moment) {
        self.since = None;
        self.last = Some(now);
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// The agent called.
    pub const fn called(&mut self) {
        self.unanswered = 0;
    }

    fn pause(&self) -> Duration {
        match self.unanswered {
            0 => PAUSE,
            // One wake may be followed by work that needs no call for a while.
            many => BACKOFF.saturating_mul(1 << (many - 1).min(16)).min(BACKOFF_MAX),
        }
    }
}

/// What an agent was told at the ends of its turns.
#[derive(Debug, Default)]
pub struct Stops {
    continuations: u32,
    has_called: bool,
    said: BTreeMap<Arrival, u32>,
}

impl Stops {
    /// What the agent is told to go on for; empty: its turn may end. `is_again`: its client says that
    /// the turn went on because of a hook already.
    pub fn end_of_turn(
        &mut self,
        unfinished: &BTreeSet<Arrival>,
        is_again: bool,
    ) -> BTreeSet<Arrival> {
        self.said.retain(|it, _| unfinished.contains(it));
        let is_ignored = is_again && !self.has_called;
        let left = |it: &&Arrival| self.said.get(*it).copied().unwrap_or_default() < SAID_MAX;
        let tell: BTreeSet<Arrival> = unfinished.iter().filter(left).cloned().collect();
        if tell.is_empty() || is_ignored || CONTINUATIONS_MAX <= self.continuations {
            return BTreeSet::new();
        }
        for it in &tell {
            *self.said.entry(it.clone()).or_default() += 1;
        }
        self.continuations += 1;
        self.has_called = false;
        assert!(self.continuations <= CONTINUATIONS_MAX, "WU3: {self:?}");
        tell
    }

    /// The agent called a tool of ours.
    pub const fn called(&mut self) {
        self.continuations = 0;
        self.has_called = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(numbers: impl IntoIterator<Item = u32>) -> BTreeSet<Arrival> {
        let letter = |number| Arrival::Letter { message: format!("{number}"), entries: 1 };
        numbers.into_iter().map(letter).collect()
    }

    const fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    /// Wakes at their times in milliseconds, each with how many arrivals it was for, while letter
    /// n comes at `n * every` and none is read.
    fn storm(count: u32, every: u64, end: u64, calls: bool) -> Vec<(u64, usize)> {
        let (mut pacing, mut wakes) = (Pacing::default(), Vec::new());
        let (mut there, mut came) = (letters([]), 0);
        for ms in (0..end).step_by(500) {
            while came < count && u64::from(came) * every <= ms {
                there.extend(letters([came]));
                came += 1;
            }
            if let Next::Wake(new) = pacing.next(at(ms), &there, true, DEBOUNCE) {
                wakes.push((ms, new.len()));
                pacing.woken(at(ms), new);
                if calls {
                    pacing.called();
                }
            }
        }
        wakes
    }

    /// Holds WU2.
    #[test]
    fn a_hundred_letters_are_few_wakes() {
        assert_eq!(storm(1, 1, 3_600_000, false), [(500, 1)], "one arrival wakes once");
        assert_eq!(storm(100, 1, 3_600_000, false), [(500, 100)], "a burst is one wake");
        // One every ten seconds for an hour, and nobody calls.
        let wakes = storm(360, 10_000, 3_600_000, false);
        assert_eq!(wakes.len(), 8, "{wakes:?}");
        assert!(wakes.windows(2).all(|two| two[0].0 + 30_000 <= two[1].0), "{wakes:?}");
        // The same with an agent that answers each wake.
        let wakes = storm(100, 1_000, 200_000, true);
        assert!((30..=51).contains(&wakes.len()), "{wakes:?}");
        assert_eq!(wakes.iter().map(|(_, count)| count).sum::<usize>(), 100);
    }

    #[test]
    fn nobody_is_woken_who_works_or_is_woken_otherwise() {
        let mut pacing = Pacing::default();
        let one = letters([1]);
        assert_eq!(pacing.next(at(0), &one, false, DEBOUNCE), Next::Nothing);
        assert_eq!(pacing.next(at(60_000), &one, false, DEBOUNCE), Next::Nothing);
        assert_eq!(pacing.next(at(60_000), &one, true, DEBOUNCE), Next::At(at(60_500)));
        // Its client got it in the meantime.
        assert_eq!(pacing.next(at(60_400), &letters([]), true, DEBOUNCE), Next::Nothing);
        let slow = pacing.next(at(70_000), &one, true, TASK_HEAD_START);
        assert_eq!(slow, Next::At(at(76_000)));
        assert_eq!(pacing.next(at(76_000), &one, true, TASK_HEAD_START), Next::Wake(one));
    }

    #[test]
    fn what_could_not_be_told_is_tried_again_with_growing_pauses() {
        let mut pacing = Pacing::default();
        let one = letters([1]);
        let mut tries = Vec::new();
        for second in 0..1_800 {
            if let Next::Wake(_) = pacing.next(at(second * 1000), &one, true, DEBOUNCE) {
                pacing.failed(at(second * 1000));
                tries.push(second);
            }
        }
        assert_eq!(tries, [1, 31, 91, 211, 451, 931]);
    }

    /// Holds WU3.
    #[test]
    fn an_agent_is_not_told_to_go_on_for_ever() {
        let mut stops = Stops::default();
        let (one, two) = (letters([1]), letters([1, 2]));
        assert_eq!(stops.end_of_turn(&letters([]), false), letters([]));
        assert_eq!(stops.end_of_turn(&one, false), one);
        assert_eq!(stops.end_of_turn(&one, true), letters([]), "it went on and did not call");
        stops.called();
        assert_eq!(stops.end_of_turn(&one, true), one);
        stops.called();
        assert_eq!(stops.end_of_turn(&one, true), letters([]), "it was told twice");
        assert_eq!(stops.end_of_turn(&two, true), letters([2]), "something else came");
        // Whatever comes, no more than so often without a call.
        let told = |number: &u32| !stops.end_of_turn(&letters([*number]), false).is_empty();
        let count = (10..100).filter(told).count();
        assert_eq!(u32::try_from(count), Ok(CONTINUATIONS_MAX - 1));
    }
}
