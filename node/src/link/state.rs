//! What a node knows of its connection to the broker.

use std::time::Duration;

use tasuki_proto::{id::Epoch, reason::Reason};

use crate::{client::retry::UNREACHED_MS_MAX, clock::Moment, refusal::Refusal};

/// Where the connection stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// No answer of the broker yet, or registering again.
    Connecting,
    /// The broker answers, and this node's registration holds.
    Connected,
    /// The broker does not answer; why is in the words of the system.
    Down(String),
    /// The broker answers and will not have this node; it is asked again.
    Refused(Refusal),
}

/// The connection at one moment, for status and for whoever waits for it to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkState {
    pub phase: Phase,
    /// Since when, in milliseconds since the Unix epoch, by this machine's clock.
    pub since_ms: u64,
    /// Of the latest registration; [`Epoch::NONE`] before the first.
    pub epoch: Epoch,
    /// The latest thing that went wrong, kept when it is over.
    pub last_error: Option<String>,
    /// Since when there is no connection, or a new reason to expect one.
    out_since: Moment,
}

impl LinkState {
    pub(super) const fn begin(since_ms: u64, now: Moment) -> Self {
        Self {
            phase: Phase::Connecting,
            since_ms,
            epoch: Epoch::NONE,
            last_error: None,
            out_since: now,
        }
    }

    /// Of a broker that was never reached.
    pub fn down(why: &str, since_ms: u64) -> Self {
        let mut state = Self::begin(since_ms, Moment::default());
        let phase = Phase::Down(why.to_owned());
        state.enter(phase, Epoch::NONE, since_ms, Moment::default());
        state
    }

    pub const fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Connected)
    }

    /// How long a call is to wait for the broker: there is no point in finding out again with each
    /// call what the last attempt found out.
    pub(super) fn patience(&self, now: Moment) -> Duration {
        let whole = Duration::from_millis(UNREACHED_MS_MAX);
        match self.phase {
            Phase::Down(_) => whole.saturating_sub(now.since(self.out_since)),
            Phase::Connecting | Phase::Connected | Phase::Refused(_) => whole,
        }
    }

    /// What was found out before counts no longer: the network or the machine is another.
    pub(super) const fn reset_backoff(&mut self, now: Moment) {
        self.out_since = now;
    }

    /// Takes over a new phase; says whether people should hear of it.
    pub(super) fn enter(&mut self, phase: Phase, epoch: Epoch, now_ms: u64, now: Moment) -> bool {
        let is_news = match (&self.phase, &phase) {
            (Phase::Connecting, Phase::Connecting) | (Phase::Down(_), Phase::Down(_)) => false,
            (Phase::Connected, Phase::Connected) => self.epoch != epoch,
            (Phase::Refused(before), Phase::Refused(after)) => before != after,
            (
                Phase::Connecting | Phase::Connected | Phase::Down(_) | Phase::Refused(_),
                Phase::Connecting | Phase::Connected | Phase::Down(_) | Phase::Refused(_),
            ) => true,
        };
        match &phase {
            Phase::Down(error) => self.last_error = Some(error.clone()),
            Phase::Refused(refusal) => self.last_error = Some(refusal.message.clone()),
            Phase::Connecting | Phase::Connected => {}
        }
        if is_news {
            self.since_ms = now_ms;
            if !matches!((&self.phase, &phase), (Phase::Connecting, Phase::Down(_))) {
                self.out_since = now;
            }
        }
        self.phase = phase;
        self.epoch = epoch;
        is_news
    }

    /// The refusal of a call that was not sent because of this state.
    pub(super) fn refusal(&self, broker: &str) -> Refusal {
        if let Phase::Refused(refusal) = &self.phase {
            return refusal.clone();
        }
        Refusal { reason: Reason::Unavailable, message: unreachable(broker, self.why()) }
    }

    /// The refusal of a question that was not sent because of this state.
    pub(super) fn unasked(&self, broker: &str) -> Refusal {
        if let Phase::Refused(refusal) = &self.phase {
            return refusal.clone();
        }
        Refusal { reason: Reason::Unavailable, message: unasked(broker, self.why()) }
    }

    /// The refusal of a question that may have been sent, and was not answered.
    pub(super) fn unanswered(&self, broker: &str) -> Refusal {
        Refusal { reason: Reason::Unavailable, message: unanswered(broker, self.why()) }
    }

    fn why(&self) -> &str {
        match &self.phase {
            Phase::Refused(refusal) => &refusal.message,
            Phase::Down(error) => error,
            Phase::Connecting => self.last_error.as_deref().unwrap_or("no answer yet"),
            Phase::Connected => "no answer",
        }
    }
}

/// What an agent is told when what was to be sent was not.
pub(super) fn unreachable(broker: &str, why: &str) -> String {
    format!(
        "The broker at {broker} cannot be reached ({why}). Nothing was sent. The node keeps \
         trying; call again in a moment."
    )
}

/// What an agent is told when there was only something to ask, and nobody to ask it.
pub(super) fn unasked(broker: &str, why: &str) -> String {
    format!(
        "The broker at {broker} cannot be reached ({why}), so there is no answer. It was only to be \
         asked: nothing was changed, and what is there stays there. The node keeps trying; call \
         again in a moment."
    )
}

/// What an agent is told when a question may have been sent.
pub(super) fn unanswered(broker: &str, why: &str) -> String {
    format!(
        "The broker at {broker} has not answered ({why}). It was only asked: nothing was changed. \
         The node keeps trying; call again in a moment."
    )
}

/// What an agent is told when the broker will not have this node.
pub(super) fn turned_away(refusal: Refusal) -> Refusal {
    if refusal.reason != Reason::Unauthenticated {
        return refusal;
    }
    let said = refusal.message.trim_end_matches('.');
    let message = format!(
        "The broker does not let this node in ({said}). Calling again does not help: tell your \
         user to ask whoever runs the broker for an invitation, to run `tasuki join` with it, and \
         to start the node again."
    );
    Refusal { message, ..refusal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_hear_of_each_change_once() {
        let refused =
            |m: &str| Phase::Refused(Refusal { reason: Reason::RoleInUse, message: m.to_owned() });
        let mut state = LinkState::begin(0, Moment::default());
        for (at, phase, epoch, is_news) in [
            (1, Phase::Down("a".to_owned()), 0, true),
            (2, Phase::Down("b".to_owned()), 0, false),
            (3, refused("r"), 0, true),
            (4, refused("r"), 0, false),
            (5, refused("s"), 0, true),
            (6, Phase::Connected, 1, true),
            (7, Phase::Connected, 1, false),
            (8, Phase::Connected, 2, true),
        ] {
            let said = state.enter(phase.clone(), Epoch::from(epoch), at, Moment::default());
            assert_eq!(said, is_news, "{at}: {phase:?}");
        }
        assert_eq!((state.since_ms, state.last_error.as_deref()), (8, Some("s")));
    }

    #[test]
    fn calls_wait_for_a_fresh_loss_and_not_for_an_old_one() {
        let at = Moment::from_millis;
        let down = || Phase::Down("d".to_owned());
        let mut state = LinkState::begin(0, at(0));
        let mut said = Vec::new();
        for (ms, phase) in [
            (0, None),
            (100, Some(down())),
            (2_000, Some(down())),
            (9_000, Some(down())),
            (10_000, Some(Phase::Connected)),
            (10_500, Some(down())),
            (13_499, None),
            (13_500, None),
            (60_000, Some(Phase::Connecting)),
        ] {
            if let Some(phase) = phase {
                state.enter(phase, Epoch::NONE, ms, at(ms));
            }
            said.push(state.patience(at(ms)).as_millis());
        }
        assert_eq!(said, [3_000, 2_900, 1_000, 0, 3_000, 3_000, 1, 0, 3_000]);
        state.enter(down(), Epoch::NONE, 0, at(70_000));
        state.reset_backoff(at(71_000));
        assert_eq!(state.patience(at(72_000)).as_millis(), 2_000);
    }
}
