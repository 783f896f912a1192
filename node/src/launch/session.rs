//! What is done when an agent's session ends.

use std::{fmt, time::Duration};

use super::settings::OnExit;

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It exited with this code.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// Nothing is left of its quota; what it said.
    Quota(String),
    /// It could not be started.
    NotStarted(String),
    /// A person closed its window.
    Closed,
    /// It ended where nobody watched over it; its own hook says so.
    Ended,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Killed(signal) => write!(f, "killed by signal {signal}"),
            Self::Quota(said) => write!(f, "quota used up: {said}"),
            Self::NotStarted(why) => write!(f, "not started: {why}"),
            Self::Closed => f.write_str("its window was closed"),
            Self::Ended => f.write_str("its session ended"),
        }
    }
}

/// What is done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The same agent again, after so long.
    Restart(Duration),
    /// The next agent of the role.
    Fallback,
    /// The turn and the claims that the role holds go back.
    GiveBack,
    /// Nothing: the role holds nothing.
    Finish,
}

/// How a role's sessions are to be kept up.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    pub on_exit: OnExit,
    pub restarts_max: u32,
}

/// Before the first restart; each further one waits twice as long.
const BACKOFF: Duration = Duration::from_secs(2);

/// The longest pause before a restart.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// A session that lasted this long was well: what ended before it is not counted against it.
pub const HEALTHY: Duration = Duration::from_secs(600);

/// What is done after a session ended for `why`: `restarts` is how often the agent was started again
/// so far, `holds` whether its role has a turn or a claim, `has_fallback` whether the role has
/// another agent.
pub fn next(why: &Why, policy: Policy, restarts: u32, holds: bool, has_fallback: bool) -> Next {
    let give_back = if holds { Next::GiveBack } else { Next::Finish };
    let fallback = if has_fallback { Next::Fallback } else { give_back };
    match why {
        // A person ended it.
        Why::Closed | Why::Ended | Why::Exited(0) => give_back,
        // Starting it again changes nothing.
        Why::Quota(_) | Why::NotStarted(_) => fallback,
        Why::Exited(_) | Why::Killed(_) => match policy.on_exit {
            OnExit::Restart if restarts < policy.restarts_max => {
                let pause = BACKOFF.saturating_mul(2_u32.saturating_pow(restarts));
                Next::Restart(pause.min(BACKOFF_MAX))
            }
            OnExit::Restart | OnExit::Next => fallback,
            OnExit::GiveBack => give_back,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_after_a_session_follows_from_why_it_ended() {
        let quota = || Why::Quota("limit".to_owned());
        let lost = || Why::NotStarted("no such program".to_owned());
        let again = |secs| Next::Restart(Duration::from_secs(secs));
        for (why, on_exit, restarts, holds, has_fallback, expected) in [
            (Why::Exited(1), OnExit::Restart, 0, true, true, again(2)),
            (Why::Exited(1), OnExit::Restart, 2, false, true, again(8)),
            (Why::Exited(0), OnExit::Restart, 0, true, true, Next::GiveBack),
            (Why::Killed(9), OnExit::Restart, 3, true, true, Next::Fallback),
            (Why::Killed(9), OnExit::Restart, 3, true, false, Next::GiveBack),
            (Why::Killed(9), OnExit::Restart, 3, false, false, Next::Finish),
            (Why::Exited(1), OnExit::Next, 0, true, true, Next::Fallback),
            (Why::Exited(1), OnExit::Next, 0, true, false, Next::GiveBack),
            (Why::Exited(1), OnExit::GiveBack, 0, true, true, Next::GiveBack),
            (Why::Exited(1), OnExit::GiveBack, 0, false, true, Next::Finish),
            (Why::Exited(0), OnExit::Next, 0, false, true, Next::Finish),
            (quota(), OnExit::Restart, 0, true, true, Next::Fallback),
            (quota(), OnExit::Restart, 0, true, false, Next::GiveBack),
            (quota(), OnExit::Restart, 0, false, false, Next::Finish),
            (lost(), OnExit::Restart, 0, true, true, Next::Fallback),
            (Why::Closed, OnExit::Restart, 0, true, true, Next::GiveBack),
            (Why::Closed, OnExit::Restart, 0, false, true, Next::Finish),
        ] {
            let policy = Policy { on_exit, restarts_max: 3 };
            let told = next(&why, policy, restarts, holds, has_fallback);
            assert_eq!(told, expected, "{why}, {on_exit:?}, {restarts}, {holds}, {has_fallback}");
        }
    }

    #[test]
    fn a_pause_never_gets_longer_than_a_minute() {
        let policy = Policy { on_exit: OnExit::Restart, restarts_max: 100 };
        let told = next(&Why::Exited(1), policy, 99, true, false);
        assert_eq!(told, Next::Restart(BACKOFF_MAX));
    }
}
