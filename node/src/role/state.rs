//! What a role's actor keeps. Pure: time comes in as an argument.
//!
//! **RS1** At most one wait per question is open; a newer one supersedes the older.
//! **RS2** A receipt is not reported twice in a row, nor a weaker one after a stronger of its turn.

use std::{collections::BTreeMap, time::Duration};

use tasuki_proto::id::{LoopId, Turn};

use super::{mail::MailFilter, player::Instance, swarm::Awaited};
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

/// How long what is open counts for somebody who says nothing: a connection may stay open when
/// whoever opened it is stopped for good, and nothing may be held for ever.
const OPEN_COUNTS: Duration = Duration::from_secs(12 * 3600);

/// When a role was last heard of.
///
/// **P3** While an agent plays the role, no sign of another one counts: whoever only looks keeps
/// nothing alive that a silent agent holds.
#[derive(Debug, Default)]
pub struct Signs {
    last: Option<Moment>,
    /// Whose signs count; `None`: anybody's.
    agent: Option<Instance>,
    /// Open connections of each agent, and, without one, waits, which only the role's agent has.
    open: BTreeMap<Option<Instance>, u32>,
    /// It was asked for a sign of life and gave none.
    is_asleep: bool,
    client: String,
}

impl Signs {
    /// `client` called, and it counts; an empty name changes nothing. `by`: whose signs count from
    /// here on.
    pub fn called(&mut self, now: Moment, client: &str, by: Option<&Instance>) {
        if self.agent.as_ref() != by {
            self.agent = by.cloned();
        }
        self.heard(now);
        if !client.is_empty() && self.client != client {
            client.clone_into(&mut self.client);
        }
    }

    /// A person gave the role to `who`, who has not called since.
    pub fn given_to(&mut self, who: &Instance) {
        self.agent = Some(who.clone());
    }

    /// `who` gave a sign of life.
    pub fn answered(&mut self, now: Moment, who: &Instance) {
        if self.counts(Some(who)) {
            self.heard(now);
        }
    }

    /// `who` did not answer: what is open counts for nothing until the role is heard of again.
    pub fn fell_asleep(&mut self, who: &Instance) {
        self.is_asleep |= self.counts(Some(who));
    }

    pub fn opened(&mut self, now: Moment, who: Option<&Instance>) {
        if self.counts(who) {
            self.heard(now);
        }
        *self.open.entry(who.cloned()).or_default() += 1;
    }

    pub fn closed(&mut self, now: Moment, who: Option<&Instance>) {
        // What ends by itself says nothing of whoever is asleep.
        if self.counts(who) && !self.is_asleep {
            self.last = Some(now);
        }
        let who = who.cloned();
        if let Some(open) = self.open.get_mut(&who) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&who);
            }
        }
    }

    /// How long ago the last sign of life was; `None`: there was none.
    pub fn quiet(&self, now: Moment) -> Option<Duration> {
        let silent = now.since(self.last?);
        let is_open = self.open.keys().any(|who| self.counts(who.as_ref()));
        let is_there = is_open && !self.is_asleep && silent < OPEN_COUNTS;
        Some(if is_there { Duration::ZERO } else { silent })
    }

    const fn heard(&mut self, now: Moment) {
        self.last = Some(now);
        self.is_asleep = false;
    }

    fn counts(&self, who: Option<&Instance>) -> bool {
        self.agent.is_none() || who.is_none() || self.agent.as_ref() == who
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
        Call(&'static str),
        Open(&'static str),
        Close(&'static str),
        Sleep(&'static str),
        Answer(&'static str),
        Give(&'static str),
        Wait,
        EndOfWait,
    }

    fn agent(name: &str) -> Instance {
        Instance::from(Some(name.parse().expect("an id")))
    }

    /// How quiet the role is at `now`, after steps at their times, in milliseconds.
    fn check(steps: Vec<(u64, Step)>, now: u64, quiet: Option<u128>) {
        use Step::{Answer, Call, Close, EndOfWait, Give, Open, Sleep, Wait};
        let mut signs = Signs::default();
        for (at, step) in steps {
            let at = Moment::from_millis(at);
            match step {
                // Of a role that several may play.
                Call("") => signs.called(at, "c 1", None),
                Call(who) => signs.called(at, "c 1", Some(&agent(who))),
                Open(who) => signs.opened(at, Some(&agent(who))),
                Close(who) => signs.closed(at, Some(&agent(who))),
                Sleep(who) => signs.fell_asleep(&agent(who)),
                Answer(who) => signs.answered(at, &agent(who)),
                Give(who) => signs.given_to(&agent(who)),
                Wait => signs.opened(at, None),
                EndOfWait => signs.closed(at, None),
            }
        }
        assert_eq!(signs.quiet(Moment::from_millis(now)).map(|it| it.as_millis()), quiet);
    }

    #[test]
    fn how_quiet_a_role_is() {
        use Step::{Answer, Call, Close, EndOfWait, Open, Sleep, Wait};
        const HOUR: u64 = 3_600_000;
        for (steps, now, quiet) in [
            (vec![], 9, None),
            (vec![(1, Call("x"))], 9, Some(8)),
            (vec![(1, Call("x")), (5, Call("x"))], 9, Some(4)),
            (vec![(1, Open("x"))], 9, Some(0)),
            (vec![(1, Open("x")), (2, Open("x")), (3, Close("x"))], 9, Some(0)),
            (vec![(1, Open("x")), (2, Wait), (3, Close("x")), (4, EndOfWait)], 9, Some(5)),
            (vec![(1, Open("x")), (2, Call("x")), (4, Sleep("x"))], 9, Some(7)),
            (vec![(1, Open("x")), (2, Call("x")), (4, Sleep("x")), (5, Close("x"))], 9, Some(7)),
            (vec![(1, Open("x")), (4, Sleep("x")), (5, Answer("x"))], 9, Some(0)),
            (vec![(1, Open("x")), (4, Sleep("x")), (5, Call("x"))], 9, Some(0)),
            (vec![(1, Open("x")), (4, Sleep("x")), (5, Open("x"))], 9, Some(0)),
            (vec![(1, Open("x"))], 12 * HOUR, Some(0)),
            (vec![(1, Open("x"))], 12 * HOUR + 1, Some(12 * 3_600_000)),
            (vec![(1, Open("x")), (2, Answer("x"))], 12 * HOUR + 1, Some(0)),
        ] {
            check(steps, now, quiet);
        }
    }

    /// Holds P3.
    #[test]
    fn another_agent_keeps_nothing_alive_while_one_plays_the_role() {
        use Step::{Answer, Call, Close, Give, Open, Sleep, Wait};
        for (steps, quiet) in [
            (vec![(1, Call("x")), (2, Open("y"))], 8),
            (vec![(1, Open("y")), (2, Call("x"))], 7),
            (vec![(1, Call("x")), (2, Open("y")), (3, Answer("y"))], 8),
            (vec![(1, Call("x")), (2, Open("y")), (3, Close("y"))], 8),
            (vec![(1, Open("x")), (1, Call("x")), (2, Open("y")), (3, Sleep("y"))], 0),
            (vec![(1, Open("x")), (1, Call("x")), (3, Give("y"))], 8),
            (vec![(1, Open("y")), (2, Call("x")), (3, Give("y"))], 0),
            // Its own call has it counted, with what it has open.
            (vec![(1, Call("x")), (2, Open("y")), (3, Call("y"))], 0),
            (vec![(1, Open("x")), (1, Call("x")), (3, Call("y"))], 6),
            (vec![(1, Call("x")), (2, Wait)], 0),
            // Of a role that several may play everybody counts.
            (vec![(1, Call("")), (2, Open("y")), (3, Call(""))], 0),
        ] {
            check(steps, 9, Some(quiet));
        }
    }

    #[test]
    fn the_latest_client_that_has_a_name_is_remembered() {
        let mut signs = Signs::default();
        for (client, kept) in [("", ""), ("a 1", "a 1"), ("", "a 1"), ("b 2", "b 2")] {
            signs.called(Moment::default(), client, None);
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
