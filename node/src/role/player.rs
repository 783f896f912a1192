//! Which agent plays a role. Pure: time comes in as an argument.
//!
//! **P1** One agent at a time plays a role.
//! **P2** It goes on until it is gone, or a person gives the role to another.
//!
//! An agent that only looks takes no part. One that acts or waits plays the role from then on,
//! unless another one does that is not gone. Gone is whoever has nothing open and has been quiet
//! for longer than its patience, which depends on what of it ended last.
//!
//! Roles that several agents may play at once have no [`Players`].

use std::{collections::BTreeMap, fmt, time::Duration};

use tasuki_proto::{id::InstanceId, limits::LEASE_MS};

use crate::clock::Moment;

/// How long an agent is waited for whose last stream ended, in milliseconds: clients open a
/// stream again within seconds when they lost it, and not at all when they were closed.
const STREAM_MS: u64 = 30_000;

/// An agent by the name its address gives it. All that have none are one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance(Option<InstanceId>);

impl Instance {
    pub const fn id(&self) -> Option<&InstanceId> {
        self.0.as_ref()
    }
}

impl From<Option<InstanceId>> for Instance {
    fn from(id: Option<InstanceId>) -> Self {
        Self(id)
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(id) => write!(f, "instance {id}"),
            None => f.write_str("the instance without an id"),
        }
    }
}

/// What of an agent's ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// A call was answered or cut off. Its agent thinks, or works.
    Call,
    /// A stream that its client keeps open for as long as it runs.
    Stream,
    /// The connection of an agent's process, or a session that its client closed: nobody comes
    /// back by these.
    Connection,
}

impl Ended {
    /// How long the agent is waited for after it, when nothing else of it is open.
    const fn patience(self) -> Duration {
        match self {
            Self::Call => Duration::from_millis(LEASE_MS),
            Self::Stream => Duration::from_millis(STREAM_MS),
            Self::Connection => Duration::ZERO,
        }
    }
}

/// Why an agent may not play a role: another one does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InUse {
    pub by: Instance,
    /// Its client, for people; empty: it has not called yet.
    pub client: String,
    /// Since its last sign of life; `None`: something of it is open.
    pub quiet: Option<Duration>,
}

#[derive(Debug)]
struct Player {
    who: Instance,
    client: String,
    last: Moment,
    patience: Duration,
}

/// The agents of one role.
#[derive(Debug, Default)]
pub struct Players {
    /// Open connections, streams and calls, of agents that have any.
    open: BTreeMap<Instance, u32>,
    player: Option<Player>,
}

impl Players {
    /// `who` acts or waits. Whether it plays the role only from this call on.
    pub fn enter(&mut self, now: Moment, who: &Instance, client: &str) -> Result<bool, InUse> {
        if let Some(player) = self.present(now)
            && player.who != *who
        {
            return Err(self.in_use(now, player));
        }
        let is_new = self.player.as_ref().is_none_or(|player| player.who != *who);
        self.player = Some(Player {
            who: who.clone(),
            client: client.to_owned(),
            last: now,
            patience: Ended::Call.patience(),
        });
        Ok(is_new)
    }

    /// `who` looks. Whether that is a sign that somebody plays the role.
    pub fn looked(&mut self, now: Moment, who: &Instance) -> bool {
        if self.present(now).is_some_and(|player| player.who != *who) {
            return false;
        }
        if let Some(player) = self.player.as_mut().filter(|player| player.who == *who) {
            player.last = now;
            player.patience = Ended::Call.patience();
        }
        true
    }

    /// Something of `who` is open until [`Self::closed`].
    pub fn opened(&mut self, who: &Instance) {
        *self.open.entry(who.clone()).or_default() += 1;
    }

    pub fn closed(&mut self, now: Moment, who: &Instance, what: Ended) {
        let open = self.open.get_mut(who).map_or(0, |open| {
            *open -= 1;
            *open
        });
        if open == 0 {
            self.open.remove(who);
        }
        self.ended(now, who, what);
    }

    /// Something of `who` ended that was not told of with [`Self::opened`].
    pub fn ended(&mut self, now: Moment, who: &Instance, what: Ended) {
        if let Some(player) = self.player.as_mut().filter(|player| player.who == *who) {
            player.last = now;
            player.patience = player.patience.min(what.patience());
        }
    }

    /// A person gives the role to `who`. The one that loses it, if one was playing.
    pub fn take_over(&mut self, now: Moment, who: &Instance) -> Option<InUse> {
        let loses = self.present(now).filter(|player| player.who != *who);
        let loses = loses.map(|player| self.in_use(now, player));
        let client = self.player.take().filter(|player| player.who == *who);
        self.player = Some(Player {
            who: who.clone(),
            client: client.map(|player| player.client).unwrap_or_default(),
            last: now,
            patience: Ended::Call.patience(),
        });
        loses
    }

    fn is_open(&self, who: &Instance) -> bool {
        self.open.contains_key(who)
    }

    /// Whoever plays the role and is not gone.
    fn present(&self, now: Moment) -> Option<&Player> {
        self.player
            .as_ref()
            .filter(|player| self.is_open(&player.who) || now.since(player.last) < player.patience)
    }

    fn in_use(&self, now: Moment, player: &Player) -> InUse {
        InUse {
            by: player.who.clone(),
            client: player.client.clone(),
            quiet: (!self.is_open(&player.who)).then(|| now.since(player.last)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    enum Step {
        Act,
        Look,
        Open,
        Close(Ended),
        Goodbye,
        TakeOver,
    }

    use Ended::{Call, Connection, Stream};
    use Step::{Act, Close, Goodbye, Look, Open, TakeOver};

    fn instance(name: &str) -> Instance {
        Instance(Some(name).filter(|it| !it.is_empty()).map(|it| it.parse().expect("an id")))
    }

    /// What each step comes to, steps at seconds.
    fn check(steps: &[(u64, &str, Step)], expected: &str) {
        let mut players = Players::default();
        let mut told = String::new();
        for (secs, name, step) in steps {
            let (now, who) = (Moment::from_millis(secs * 1000), instance(name));
            let by = |it: &InUse| match it.quiet {
                Some(quiet) => format!("{}, quiet {} s", it.by, quiet.as_secs()),
                None => format!("{}, there", it.by),
            };
            let said = match step {
                Act => match players.enter(now, &who, &format!("client of {name}")) {
                    Ok(true) => "plays from here on".to_owned(),
                    Ok(false) => "plays".to_owned(),
                    Err(in_use) => {
                        assert_eq!(in_use.client, format!("client of {}", short(&in_use.by)));
                        format!("no: {}", by(&in_use))
                    }
                },
                Look if players.looked(now, &who) => "is a sign of life".to_owned(),
                Look => "only looks".to_owned(),
                Open => {
                    players.opened(&who);
                    continue;
                }
                Close(what) => {
                    players.closed(now, &who, *what);
                    continue;
                }
                Goodbye => {
                    players.ended(now, &who, Connection);
                    continue;
                }
                TakeOver => match players.take_over(now, &who) {
                    Some(loses) => format!("takes it from {}", by(&loses)),
                    None => "takes it".to_owned(),
                },
            };
            writeln!(told, "{secs} {name} {said}").expect("a String takes everything");
        }
        assert_eq!(told.trim(), expected);
    }

    fn short(who: &Instance) -> &str {
        who.id().map_or("", InstanceId::as_str)
    }

    #[test]
    fn whoever_acts_first_plays_until_it_was_quiet_for_a_quarter_of_an_hour() {
        check(
            &[(0, "x", Act), (1, "y", Act), (2, "x", Act), (901, "y", Act), (902, "y", Act)],
            "0 x plays from here on
1 y no: instance x, quiet 1 s
2 x plays
901 y no: instance x, quiet 899 s
902 y plays from here on",
        );
    }

    #[test]
    fn all_without_an_id_are_one() {
        check(
            &[(0, "", Act), (1, "", Act), (2, "y", Act)],
            "0  plays from here on
1  plays
2 y no: the instance without an id, quiet 1 s",
        );
    }

    #[test]
    fn who_only_looks_takes_no_part() {
        check(
            &[(0, "y", Look), (1, "x", Act), (2, "y", Look), (800, "x", Look), (1600, "y", Act)],
            "0 y is a sign of life
1 x plays from here on
2 y only looks
800 x is a sign of life
1600 y no: instance x, quiet 800 s",
        );
    }

    #[test]
    fn who_has_something_open_is_there() {
        check(
            &[(0, "x", Open), (1, "x", Act), (9000, "y", Act)],
            "1 x plays from here on\n9000 y no: instance x, there",
        );
        // Also what was opened before it played.
        check(
            &[(0, "y", Open), (0, "x", Act), (900, "y", Act), (9000, "x", Act)],
            "0 x plays from here on
900 y plays from here on
9000 x no: instance y, there",
        );
    }

    #[test]
    fn how_it_went_says_how_long_it_is_waited_for() {
        for (ended, still, gone) in [(Call, 910, 911), (Stream, 40, 41), (Connection, 10, 11)] {
            let mut steps = vec![(0, "x", Open), (1, "x", Act), (11, "x", Close(ended))];
            if 11 < still {
                steps.push((still, "y", Act));
            }
            steps.push((gone, "y", Act));
            let refused = match still {
                10 => String::new(),
                _ => format!("{still} y no: instance x, quiet {} s\n", still - 11),
            };
            let expected = format!("1 x plays from here on\n{refused}{gone} y plays from here on");
            check(&steps, &expected);
        }
    }

    #[test]
    fn a_process_that_ended_is_gone_whatever_of_it_is_closed_later() {
        for later in [Call, Stream] {
            check(
                &[
                    (0, "x", Open),
                    (0, "x", Open),
                    (1, "x", Act),
                    (2, "x", Close(Connection)),
                    (3, "y", Act),
                    (4, "x", Close(later)),
                    (4, "y", Act),
                ],
                "1 x plays from here on
3 y no: instance x, there
4 y plays from here on",
            );
        }
    }

    #[test]
    fn who_comes_back_in_time_plays_on() {
        check(
            &[
                (0, "x", Open),
                (1, "x", Act),
                (2, "x", Close(Connection)),
                (3, "x", Act),
                (60, "y", Act),
                (61, "x", Goodbye),
                (62, "y", Act),
            ],
            "1 x plays from here on
3 x plays
60 y no: instance x, quiet 57 s
62 y plays from here on",
        );
    }

    #[test]
    fn the_end_of_another_agents_connection_changes_nothing() {
        check(
            &[(0, "x", Act), (1, "y", Open), (2, "y", Close(Connection)), (3, "y", Act)],
            "0 x plays from here on\n3 y no: instance x, quiet 3 s",
        );
    }

    #[test]
    fn a_person_gives_a_role_to_another_and_back() {
        check(
            &[
                (0, "x", Open),
                (1, "x", Act),
                (2, "y", TakeOver),
                (4, "y", Act),
                (5, "x", Act),
                (6, "x", TakeOver),
                (7, "x", Act),
                (8, "x", TakeOver),
            ],
            "1 x plays from here on
2 y takes it from instance x, there
4 y plays
5 x no: instance y, quiet 1 s
6 x takes it from instance y, quiet 2 s
7 x plays
8 x takes it",
        );
        // Nobody has it, or nobody who is still there.
        check(&[(0, "", TakeOver), (901, "x", TakeOver)], "0  takes it\n901 x takes it");
    }
}
