//! Whether somebody plays a role, shared between who calls and who tells the broker.
//!
//! It lives beside the role's actor, not in it: a connection stays open when the actor starts
//! anew.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::id::{InstanceId, TokenId};

use crate::clock::{self, Moment};

/// An agent by the name its address gives it, and the token it shows. All that have neither are
/// one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance {
    pub(crate) id: Option<InstanceId>,
    /// A name is worth nothing with another token.
    token: Option<TokenId>,
}

impl Instance {
    pub const fn new(id: Option<InstanceId>, token: Option<TokenId>) -> Self {
        Self { id, token }
    }

    pub const fn id(&self) -> Option<&InstanceId> {
        self.id.as_ref()
    }

    pub const fn token(&self) -> Option<&TokenId> {
        self.token.as_ref()
    }
}

impl From<Option<InstanceId>> for Instance {
    fn from(id: Option<InstanceId>) -> Self {
        Self::new(id, None)
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "instance {id}"),
            None => f.write_str("the instance without an id"),
        }
    }
}

/// One role's signs of life.
#[derive(Debug, Clone, Default)]
pub struct Presence(Arc<Mutex<Signs>>);

impl Presence {
    /// Whether another agent plays the role from here on than before, or one again that had left.
    pub fn called(&self, client: &str, by: Option<&Instance>) -> bool {
        self.signs().called(clock::now(), client, by)
    }

    /// `who` said goodbye: its session was closed by itself, or its process ended.
    pub fn left(&self, who: &Instance) {
        self.signs().left(who);
    }

    pub fn given_to(&self, who: &Instance) {
        self.signs().given_to(who);
    }

    /// Whether an agent answered when it was asked for a sign of life.
    pub fn answers(&self, is_answered: bool, who: &Instance) {
        let mut signs = self.signs();
        if is_answered { signs.answered(clock::now(), who) } else { signs.fell_asleep(who) }
    }

    /// A connection of `who` is open until the guard is dropped.
    pub fn connected(&self, who: &Instance) -> Open {
        self.opened(Some(who.clone()))
    }

    /// A wait of whoever plays the role is open until the guard is dropped.
    pub fn wait(&self) -> Open {
        self.opened(None)
    }

    fn opened(&self, who: Option<Instance>) -> Open {
        self.signs().opened(clock::now(), who.as_ref());
        Open { presence: self.clone(), who }
    }

    /// What there is to tell of the role; `None`: it gave no sign of life.
    pub fn report(&self, now: Moment) -> Option<Report> {
        let signs = self.signs();
        Some(Report {
            quiet: signs.quiet(now)?,
            client: signs.client().to_owned(),
            instance: signs.agent.as_ref().and_then(|agent| agent.id.clone()),
            playing: signs.playing.map(|since| now.since(since)),
            has_left: signs.has_left(),
        })
    }

    fn signs(&self) -> MutexGuard<'_, Signs> {
        self.0.lock()
    }
}

/// What a role's signs say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Since the last sign.
    pub quiet: Duration,
    pub client: String,
    /// Of the agent that plays the role, where one does alone.
    pub instance: Option<InstanceId>,
    /// For how long; `None`: its agent has not called.
    pub playing: Option<Duration>,
    pub has_left: bool,
}

/// An open connection or wait.
#[derive(Debug)]
pub struct Open {
    presence: Presence,
    who: Option<Instance>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.presence.signs().closed(clock::now(), self.who.as_ref());
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
    /// Its agent said goodbye, and nothing was heard of it since.
    is_goodbye: bool,
    /// Since when its agent plays the role.
    playing: Option<Moment>,
    client: String,
}

impl Signs {
    /// `client` called, and it counts; an empty name changes nothing. `by`: whose signs count from
    /// here on.
    /// Whether that is another agent than before, or one again that had left; of a role that several
    /// may play, the first.
    pub fn called(&mut self, now: Moment, client: &str, by: Option<&Instance>) -> bool {
        let is_other_client = !client.is_empty() && self.client != client;
        let is_new = self.agent.as_ref() != by
            || (is_other_client && by.is_some())
            || self.playing.is_none()
            || self.is_goodbye;
        if is_new {
            self.agent = by.cloned();
            self.playing = Some(now);
        }
        self.heard(now);
        if is_other_client {
            client.clone_into(&mut self.client);
        }
        is_new
    }

    /// `who` said goodbye.
    pub fn left(&mut self, who: &Instance) {
        self.is_goodbye |= self.counts(Some(who));
    }

    /// Whether whoever played the role is gone: something of an agent may stay open behind the
    /// session that it closed.
    pub fn has_left(&self) -> bool {
        self.is_goodbye && !self.is_open()
    }

    fn is_open(&self) -> bool {
        self.open.keys().any(|who| self.counts(who.as_ref()))
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
        let is_there = self.is_open() && !self.is_asleep && silent < OPEN_COUNTS;
        Some(if is_there { Duration::ZERO } else { silent })
    }

    const fn heard(&mut self, now: Moment) {
        self.last = Some(now);
        self.is_asleep = false;
        self.is_goodbye = false;
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
                Call("") => drop(signs.called(at, "c 1", None)),
                Call(who) => drop(signs.called(at, "c 1", Some(&agent(who)))),
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

    /// Whether the role's agent is gone, after what agents did.
    #[test]
    fn whoever_said_goodbye_is_gone_until_it_is_heard_of_again() {
        let (x, y) = (agent("x"), agent("y"));
        let now = Moment::from_millis(1);
        let mut signs = Signs::default();
        let mut check = |does: &dyn Fn(&mut Signs), is_gone: bool| {
            does(&mut signs);
            assert_eq!(signs.has_left(), is_gone);
        };
        check(&|it| assert!(it.called(now, "c 1", Some(&x))), false);
        check(&|it| assert!(!it.called(now, "c 1", Some(&x))), false);
        check(&|it| it.left(&y), false);
        check(&|it| it.opened(now, Some(&x)), false);
        // The connection ends just after its goodbye.
        check(&|it| it.left(&x), false);
        check(&|it| it.closed(now, Some(&x)), true);
        check(&|it| it.opened(now, Some(&y)), true);
        check(&|it| it.closed(now, Some(&y)), true);
        check(&|it| assert!(it.called(now, "c 1", Some(&x))), false);
        check(&|it| it.left(&x), true);
        check(&|it| assert!(it.called(now, "c 1", Some(&y))), false);
        // Of a role that several may play, whoever is still there counts.
        let mut shared = Signs::default();
        shared.called(now, "c 1", None);
        shared.opened(now, Some(&y));
        shared.left(&x);
        assert!(!shared.has_left());
        shared.closed(now, Some(&y));
        assert!(shared.has_left());
    }

    #[test]
    fn the_latest_client_that_has_a_name_is_remembered() {
        let mut signs = Signs::default();
        for (client, kept) in [("", ""), ("a 1", "a 1"), ("", "a 1"), ("b 2", "b 2")] {
            signs.called(Moment::default(), client, None);
            assert_eq!(signs.client(), kept);
        }
    }
}
