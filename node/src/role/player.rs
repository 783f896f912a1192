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

use std::{collections::BTreeMap, time::Duration};

use tasuki_proto::{id::InstanceId, limits::LEASE_MS};

use crate::clock::Moment;
pub use crate::presence::Instance;

/// Agents of one role that are remembered after they called; of more, whoever was quiet longest is
/// forgotten. An address names itself as it likes.
const KNOWN_MAX: usize = 32;

/// How long an agent is waited for whose last stream ended, in milliseconds: clients open a
/// stream again within seconds when they lost it, and not at all when they were closed.
const STREAM_MS: u64 = 30_000;

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

/// An agent that could play a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// `None`: the agent without an id.
    pub id: Option<InstanceId>,
    /// Its client, for people; empty: it has not called yet.
    pub client: String,
    /// Whether it plays the role.
    pub is_playing: bool,
    /// Since its last call, or since it was given the role; `None`: something of it is open.
    pub quiet: Option<Duration>,
}

/// What is remembered of an agent that called.
#[derive(Debug)]
struct Known {
    client: String,
    last: Moment,
}

#[derive(Debug)]
struct Player {
    who: Instance,
    /// A person gave the role to whoever has this name, whichever token it shows.
    is_given: bool,
    client: String,
    last: Moment,
    patience: Duration,
}

impl Player {
    fn is(&self, who: &Instance) -> bool {
        self.who == *who || (self.is_given && self.who.id() == who.id())
    }
}

/// The agents of one role.
#[derive(Debug, Default)]
pub struct Players {
    /// Open connections, streams and calls, of agents that have any.
    open: BTreeMap<Instance, u32>,
    player: Option<Player>,
    /// Agents that called, whether or not they were let in.
    known: BTreeMap<Option<InstanceId>, Known>,
}

impl Players {
    /// `who` acts or waits. Whether it plays the role only from this call on.
    pub fn enter(&mut self, now: Moment, who: &Instance, client: &str) -> Result<bool, InUse> {
        self.remember(now, who, client);
        if let Some(player) = self.present(now)
            && !player.is(who)
        {
            return Err(self.in_use(now, player));
        }
        let is_new = self.player.as_ref().is_none_or(|player| !player.is(who));
        self.player = Some(Player {
            who: who.clone(),
            is_given: false,
            client: client.to_owned(),
            last: now,
            patience: Ended::Call.patience(),
        });
        Ok(is_new)
    }

    /// `who` looks. Whether that is a sign that somebody plays the role.
    pub fn looked(&mut self, now: Moment, who: &Instance, client: &str) -> bool {
        self.remember(now, who, client);
        if self.present(now).is_some_and(|player| !player.is(who)) {
            return false;
        }
        if let Some(player) = self.player.as_mut().filter(|player| player.is(who)) {
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

    /// Something of `who` ended that was not told of with [`Self::opened`]. Whether it plays the
    /// role.
    pub fn ended(&mut self, now: Moment, who: &Instance, what: Ended) -> bool {
        let Some(player) = self.player.as_mut().filter(|player| player.who == *who) else {
            return false;
        };
        player.last = now;
        player.patience = player.patience.min(what.patience());
        true
    }

    /// A person gives the role to `who`. The one that loses it, if one was playing.
    pub fn take_over(&mut self, now: Moment, who: &Instance) -> Option<InUse> {
        let loses = self.present(now).filter(|player| player.who.id() != who.id());
        let loses = loses.map(|player| self.in_use(now, player));
        let known = self.player.take().filter(|player| player.who.id() == who.id());
        let known = known.map(|player| (player.who, player.client));
        let (who, client) = known.unwrap_or_else(|| (who.clone(), String::new()));
        self.player = Some(Player {
            who,
            is_given: true,
            client,
            last: now,
            patience: Ended::Call.patience(),
        });
        loses
    }

    /// The agents that called, are connected or play the role, by their names.
    pub fn candidates(&self, now: Moment) -> Vec<Candidate> {
        let player = self.present(now);
        let playing = player.map(|player| player.who.id());
        let mut ids: Vec<_> = self.known.keys().collect();
        ids.extend(self.open.keys().map(|who| &who.id));
        ids.extend(player.map(|player| &player.who.id));
        ids.sort();
        ids.dedup();
        let candidate = |id: &Option<InstanceId>| {
            let known = self.known.get(id);
            let is_open = self.open.keys().any(|who| who.id == *id);
            let is_playing = playing == Some(id.as_ref());
            let given = player.filter(|_| is_playing).map(|player| player.last);
            let last = known.map(|known| known.last).or(given);
            Candidate {
                id: id.clone(),
                client: known.map(|known| known.client.clone()).unwrap_or_default(),
                is_playing,
                quiet: last.filter(|_| !is_open).map(|last| now.since(last)),
            }
        };
        ids.into_iter().map(candidate).collect()
    }

    fn remember(&mut self, now: Moment, who: &Instance, client: &str) {
        let known = self.known.entry(who.id().cloned());
        let known = known.or_insert(Known { client: String::new(), last: now });
        known.last = now;
        if !client.is_empty() {
            client.clone_into(&mut known.client);
        }
        if KNOWN_MAX < self.known.len() {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.last);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.known.remove(&oldest);
            }
        }
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
mod tests;
