//! What a role's actor keeps. Pure: time comes in as an argument.
//!
//! **RS1** At most one wait per question is open; a newer one supersedes the older.
//! **RS2** A receipt is not reported twice in a row, nor a weaker one after a stronger of its turn.

use std::collections::BTreeMap;

use tasuki_proto::id::{LoopId, Turn};

use crate::wait::Question;

/// Loops whose latest report is remembered. An agent names loops as it likes; what is forgotten is
/// reported again at worst, which changes nothing at the broker.
const REPORTED_MAX: usize = 1_024;

/// One call that waits, numbered by this actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitNumber(u64);

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
        assert!(superseded.is_none_or(|older| older < wait), "RS1: {superseded:?} and {wait:?}");
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

#[cfg(test)]
mod tests {
    use tasuki_proto::mail::MessageType;

    use super::*;
    use crate::wait::MailFilter;

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

    /// Holds RS2.
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
