//! What a role's actor keeps. Pure: time comes in as an argument.
//!
//! **R1** At most one wait per question is open; a newer one supersedes the older.
//! **R2** A receipt is not reported twice in a row, nor a weaker one after a stronger of its turn.

use std::{collections::BTreeMap, time::Duration};

use tasuki_proto::id::{LoopId, Turn};

use super::{mail::MailFilter, swarm::Awaited};
use crate::clock::Moment;

/// Loops whose latest report is remembered. An agent names loops as it likes; what is forgotten is
/// reported again at worst, which changes nothing at the broker.
const REPORTED_MAX: usize = 1_024;

/// One call that waits, numbered by this actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitNumber(u64);

/// What a role may wait for: each once at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    Turn(LoopId),
    Mail(MailFilter),
    Swarm(Awaited),
}

/// How far a turn was reported; each says more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Receipt {
    Handed,
    Seen,
}

/// Open waits of one role, per question, and reported turns, per loop.
#[derive(Debug, Default)]
pub struct State {
    latest: u64,
    waits: BTreeMap<Question, WaitNumber>,
    reported: BTreeMap<LoopId, (Turn, Receipt)>,
}

impl State {
    /// Opens a wait; also the one it supersedes.
    pub fn open_wait(&mut self, question: &Question) -> (WaitNumber, Option<WaitNumber>) {
        self.latest += 1;
        let wait = WaitNumber(self.latest);
        let superseded = self.waits.insert(question.clone(), wait);
        assert!(superseded.is_none_or(|older| older < wait), "R1: {superseded:?} and {wait:?}");
        (wait, superseded)
    }

    /// A wait was answered or given up. One that was superseded closes nothing.
    pub fn close_wait(&mut self, question: &Question, wait: WaitNumber) {
        if self.waits.get(question) == Some(&wait) {
            self.waits.remove(question);
        }
    }

    /// Whether `receipt` of `turn` is news to the broker.
    pub fn report(&mut self, loop_id: &LoopId, turn: Turn, receipt: Receipt) -> bool {
        match self.reported.get(loop_id) {
            Some((latest, known)) if *latest == turn && receipt <= *known => return false,
            Some(_) => {}
            None if self.reported.len() < REPORTED_MAX => {}
            None => drop(self.reported.pop_first()),
        }
        self.reported.insert(loop_id.clone(), (turn, receipt));
        true
    }
}

/// How long what is open counts for somebody who says nothing: a connection may stay open when
/// whoever opened it is stopped for good, and nothing may be held for ever.
const OPEN_COUNTS: Duration = Duration::from_secs(12 * 3600);

/// When a role was last heard of.
#[derive(Debug, Default)]
pub struct Signs {
    last: Option<Moment>,
    /// Open connections and waits.
    open: u32,
    /// It was asked for a sign of life and gave none.
    is_asleep: bool,
    client: String,
}

impl Signs {
    /// Called by `client`; an empty name changes nothing.
    pub fn called(&mut self, now: Moment, client: &str) {
        self.answered(now);
        if !client.is_empty() && self.client != client {
            client.clone_into(&mut self.client);
        }
    }

    /// It gave a sign of life.
    pub const fn answered(&mut self, now: Moment) {
        self.last = Some(now);
        self.is_asleep = false;
    }

    /// It did not answer: what it has open counts for nothing until it is heard of again.
    pub const fn fell_asleep(&mut self) {
        self.is_asleep = true;
    }

    pub const fn opened(&mut self, now: Moment) {
        self.answered(now);
        self.open += 1;
    }

    pub const fn closed(&mut self, now: Moment) {
        // What ends by itself says nothing of whoever is asleep.
        if !self.is_asleep {
            self.last = Some(now);
        }
        self.open = self.open.saturating_sub(1);
    }

    /// How long ago the last sign of life was; `None`: there was none.
    pub fn quiet(&self, now: Moment) -> Option<Duration> {
        let silent = now.since(self.last?);
        let is_there = 0 < self.open && !self.is_asleep && silent < OPEN_COUNTS;
        Some(if is_there { Duration::ZERO } else { silent })
    }

    pub fn client(&self) -> &str {
        &self.client
    }
}

#[cfg(test)]
mod tests {
    use tasuki_proto::mail::MessageType;

    use super::*;

    enum Step {
        Call,
        Open,
        Close,
        Sleep,
        Answer,
    }

    #[test]
    fn how_quiet_a_role_is() {
        use Step::{Answer, Call, Close, Open, Sleep};
        const HOUR: u64 = 3_600_000;
        for (steps, now, quiet) in [
            (vec![], 9, None),
            (vec![(1, Call)], 9, Some(8)),
            (vec![(1, Call), (5, Call)], 9, Some(4)),
            (vec![(1, Open)], 9, Some(0)),
            (vec![(1, Open), (2, Open), (3, Close)], 9, Some(0)),
            (vec![(1, Open), (2, Open), (3, Close), (4, Close)], 9, Some(5)),
            (vec![(1, Open), (2, Call), (4, Sleep)], 9, Some(7)),
            (vec![(1, Open), (2, Call), (4, Sleep), (5, Close)], 9, Some(7)),
            (vec![(1, Open), (4, Sleep), (5, Answer)], 9, Some(0)),
            (vec![(1, Open), (4, Sleep), (5, Call)], 9, Some(0)),
            (vec![(1, Open), (4, Sleep), (5, Open)], 9, Some(0)),
            (vec![(1, Open)], 12 * HOUR, Some(0)),
            (vec![(1, Open)], 12 * HOUR + 1, Some(12 * 3_600_000)),
            (vec![(1, Open), (2, Answer)], 12 * HOUR + 1, Some(0)),
        ] {
            let mut signs = Signs::default();
            for (at, step) in steps {
                let at = Moment::from_millis(at);
                match step {
                    Call => signs.called(at, "c 1"),
                    Open => signs.opened(at),
                    Close => signs.closed(at),
                    Sleep => signs.fell_asleep(),
                    Answer => signs.answered(at),
                }
            }
            let said = signs.quiet(Moment::from_millis(now)).map(|d| d.as_millis());
            assert_eq!(said, quiet);
        }
    }

    #[test]
    fn the_latest_client_that_has_a_name_is_remembered() {
        let mut signs = Signs::default();
        for (client, kept) in [("", ""), ("a 1", "a 1"), ("", "a 1"), ("b 2", "b 2")] {
            signs.called(Moment::default(), client);
            assert_eq!(signs.client(), kept);
        }
    }

    #[test]
    fn a_newer_wait_supersedes_the_older_on_the_same_question_only() {
        let turn = |loop_id: &str| Question::Turn(loop_id.parse().expect("id"));
        let mail = |kind, sender: Option<&str>| {
            let sender = sender.map(|it| it.parse().expect("id"));
            Question::Mail(MailFilter { kind, sender })
        };
        let others = [
            turn("side"),
            mail(None, None),
            mail(Some(MessageType::Br), None),
            mail(None, Some("B")),
            mail(Some(MessageType::Br), Some("B")),
        ];
        for asked in [turn("main"), mail(None, Some("main"))] {
            let mut state = State::default();
            let (first, none) = state.open_wait(&asked);
            assert_eq!(none, None);
            for other in &others {
                assert_eq!(state.open_wait(other).1, None, "{other:?} is another question");
            }
            let (second, superseded) = state.open_wait(&asked);
            assert_eq!(superseded, Some(first));
            state.close_wait(&asked, first);
            let (third, superseded) = state.open_wait(&asked);
            assert_eq!(superseded, Some(second), "the end of the superseded one closed nothing");
            state.close_wait(&asked, third);
            assert_eq!(state.open_wait(&asked).1, None);
        }
    }

    #[test]
    fn receipts_of_a_turn_go_forward_and_are_told_once() {
        use Receipt::{Handed, Seen};
        let main = "main".parse().expect("id");
        let mut state = State::default();
        for (turn, receipt, is_news) in [
            (1, Handed, true),
            (1, Handed, false),
            (1, Seen, true),
            (1, Handed, false),
            (1, Seen, false),
            (3, Seen, true),
            (3, Handed, false),
            (2, Seen, true),
            (4, Handed, true),
        ] {
            let said = state.report(&main, Turn::from(turn), receipt);
            assert_eq!(said, is_news, "{turn} {receipt:?}");
        }
    }

    #[test]
    fn what_was_reported_is_forgotten_before_it_fills_the_memory() {
        let mut state = State::default();
        for i in 0..2 * REPORTED_MAX {
            let loop_id = format!("l{i}").parse().expect("id");
            assert!(state.report(&loop_id, Turn::from(1), Receipt::Seen));
        }
        assert_eq!(state.reported.len(), REPORTED_MAX);
    }
}
