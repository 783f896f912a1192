//! Whether to try again, when, and what to say in the end. Pure: time and chance come in.
//!
//! **L1** Once an attempt may have reached the broker, a command never ends with an answer that
//! says nothing happened, unless the broker itself judged that very command.

use std::time::Duration;

use tasuki_proto::reason::Reason;
use tonic::{Code, ConnectError, Status};

use crate::refusal::Refusal;

/// One command from its first attempt to its answer, in milliseconds. A broker that was killed is
/// back in a few seconds; an agent's patience for one call ends at 30 s in the hastiest clients.
pub const COMMAND_MS_MAX: u64 = 20_000;

/// How long a command waits for a broker that no attempt could reach, in milliseconds: nothing
/// happened, so a quick answer costs nothing.
pub const UNREACHED_MS_MAX: u64 = 3_000;

/// The first pause between attempts, in milliseconds: a restarted process is rarely faster.
const PAUSE_MS_MIN: u64 = 50;

/// The longest pause between attempts, in milliseconds: how late a broker's return is noticed.
const PAUSE_MS_MAX: u64 = 2_000;

/// The first pause after a broker turned this node away, in milliseconds.
const TURNED_AWAY_MS_MIN: u64 = 2_000;

/// The longest such pause, in milliseconds: brokers count those who come without a good token.
const TURNED_AWAY_MS_MAX: u64 = 60_000;

/// Exponential pauses; each is between half and all of its step, so that nodes that lost the same
/// broker don't come back in step.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    step_ms: u64,
    first_ms: u64,
    longest_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::between(PAUSE_MS_MIN, PAUSE_MS_MAX)
    }
}

impl Backoff {
    /// Doubling from the first to the longest.
    pub const fn between(first_ms: u64, longest_ms: u64) -> Self {
        Self { step_ms: first_ms, first_ms, longest_ms }
    }

    /// For a broker that answers and will not have this node.
    pub const fn turned_away() -> Self {
        Self::between(TURNED_AWAY_MS_MIN, TURNED_AWAY_MS_MAX)
    }

    /// The next pause; `chance` is any number.
    pub fn pause(&mut self, chance: u64) -> Duration {
        let half = self.step_ms / 2;
        let pause = half + chance % (half + 1);
        self.step_ms = (self.step_ms * 2).min(self.longest_ms);
        Duration::from_millis(pause)
    }

    pub const fn reset(&mut self) {
        self.step_ms = self.first_ms;
    }
}

/// Chance for [`Backoff::pause`]; without random bytes nodes come back in step, nothing worse.
pub fn chance() -> u64 {
    getrandom::u64().unwrap_or(0)
}

/// What one attempt without an answer says about the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It never left, or the broker turned it away unread.
    NotTaken(Refusal),
    /// It may have been carried out.
    Lost(String),
    /// The broker itself does not know whether it was carried out, and says why.
    Unsure(String),
    /// The node has to register again.
    StaleEpoch(String),
    /// The broker will not have whoever says this, and did not look at what was said.
    TurnedAway(Refusal),
    /// The broker has judged it.
    Refused(Refusal),
}

impl Failure {
    pub fn of(status: &Status) -> Self {
        let message = status.message().to_owned();
        match Reason::of(status) {
            Some(reason) => Self::of_refusal(reason, message),
            None => Self::from_foreign_status(status),
        }
    }

    /// The broker spoke.
    pub fn of_refusal(reason: Reason, message: String) -> Self {
        if reason.is_about_caller() {
            return Self::TurnedAway(Refusal { reason, message });
        }
        if matches!(reason, Reason::Unavailable | Reason::Overloaded) {
            return Self::NotTaken(Refusal { reason, message });
        }
        if reason == Reason::StaleEpoch {
            return Self::StaleEpoch(message);
        }
        if reason == Reason::OutcomeUnknown {
            return Self::Unsure(message);
        }
        Self::Refused(Refusal { reason, message })
    }

    /// Whether the connection may be dead, or not be this node's any more. A broker that has too
    /// much to do is neither.
    pub fn is_of_connection(&self) -> bool {
        match self {
            Self::NotTaken(refusal) => refusal.reason == Reason::Unavailable,
            Self::TurnedAway(refusal) => refusal.reason == Reason::Unauthenticated,
            Self::Lost(_) | Self::Unsure(_) => true,
            Self::StaleEpoch(_) | Self::Refused(_) => false,
        }
    }

    /// A transport, a proxy, or a broker that is not ours spoke.
    fn from_foreign_status(status: &Status) -> Self {
        let message = status.message();
        let refused = |reason| Self::Refused(Refusal { reason, message: message.to_owned() });
        let turned_away =
            |reason| Self::TurnedAway(Refusal { reason, message: message.to_owned() });
        match status.code() {
            Code::Unavailable if is_connect_error(status) => {
                Self::NotTaken(Refusal { reason: Reason::Unavailable, message: root_cause(status) })
            }
            Code::Unimplemented => Self::Refused(Refusal {
                reason: Reason::Unavailable,
                message: format!(
                    "What answers there does not know this call ({message}): check that it is a \
                     Tasuki broker, and of this version."
                ),
            }),
            Code::Unauthenticated => turned_away(Reason::Unauthenticated),
            Code::PermissionDenied => turned_away(Reason::RightForbidden),
            Code::InvalidArgument => refused(Reason::InvalidArgument),
            Code::OutOfRange => refused(Reason::TooLarge),
            Code::DataLoss => refused(Reason::Damaged),
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::NotFound
            | Code::AlreadyExists
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::Internal
            | Code::Unavailable => Self::Lost(format!("{:?}: {message}", status.code())),
        }
    }
}

/// Whether no answer came to a call, which may have been carried out all the same: neither the
/// broker nor anything else that would know has judged it. A connection that could not be made
/// counts as well: so a kept one says that it broke.
pub fn is_lost(status: &Status) -> bool {
    Reason::of(status).is_none()
        && matches!(Failure::from_foreign_status(status), Failure::Lost(_) | Failure::NotTaken(_))
}

fn is_connect_error(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// The innermost cause: `Connection refused` rather than `transport error`.
pub fn root_cause(status: &Status) -> String {
    let mut said = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        said = error.to_string();
        source = error.source();
    }
    said
}

/// One command under way, or one question.
#[derive(Debug, Default)]
pub struct Attempts {
    backoff: Backoff,
    /// Nothing can have taken effect.
    is_question: bool,
    may_have_reached: bool,
    /// Why the broker itself did not know what became of it, when it last said so.
    unsure: Option<String>,
    /// Of a question: the broker may have been asked.
    may_have_asked: bool,
    has_renewed: bool,
}

/// What to do after a failed attempt.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Again(Duration),
    /// Register, in this time, then try once more.
    Renew(Duration),
    Give(Refusal),
}

impl Attempts {
    pub fn of_question() -> Self {
        Self { is_question: true, ..Self::default() }
    }

    /// Judges a failed attempt, `spent` after the command began.
    pub fn next(&mut self, spent: Duration, chance: u64, failure: Failure) -> Next {
        let refusal = match failure {
            // The attempt before used the key, and the broker that was upgraded since cannot tell
            // that it was for the same.
            Failure::Refused(refusal)
                if refusal.reason == Reason::KeyReused && self.may_have_reached =>
            {
                return Next::Give(self.unknown(&refusal.message));
            }
            Failure::Refused(refusal) => return Next::Give(refusal),
            Failure::TurnedAway(refusal) => {
                let why = refusal.message.clone();
                return Next::Give(self.give_up(refusal, &why));
            }
            Failure::NotTaken(refusal) if refusal.reason == Reason::Overloaded => {
                if !self.may_have_reached {
                    return Next::Give(refusal);
                }
                refusal
            }
            Failure::NotTaken(refusal) => refusal,
            Failure::Lost(message) | Failure::Unsure(message) if self.is_question => {
                self.may_have_asked = true;
                Refusal { reason: Reason::Unavailable, message }
            }
            Failure::Lost(why) => {
                self.may_have_reached = true;
                self.unknown(&why)
            }
            Failure::Unsure(why) => {
                self.may_have_reached = true;
                self.unsure = Some(why);
                self.unknown("")
            }
            Failure::StaleEpoch(message) => {
                if !self.has_renewed {
                    self.has_renewed = true;
                    return Next::Renew(self.limit().saturating_sub(spent));
                }
                Refusal { reason: Reason::StaleEpoch, message }
            }
        };
        let pause = self.backoff.pause(chance);
        let is_over = self.limit() <= spent + pause;
        if is_over || refusal.reason == Reason::StaleEpoch {
            let why = refusal.message.clone();
            return Next::Give(self.give_up(refusal, &why));
        }
        Next::Again(pause)
    }

    /// Whether nothing can have taken effect.
    pub const fn is_question(&self) -> bool {
        self.is_question
    }

    /// Whether it is a command that an attempt may have brought to the broker.
    pub const fn may_have_reached(&self) -> bool {
        self.may_have_reached
    }

    /// Why the broker itself did not know what became of it.
    pub fn unsure(&self) -> Option<&str> {
        self.unsure.as_deref()
    }

    /// Whether it is a question that the broker may have been asked.
    pub const fn may_have_asked(&self) -> bool {
        self.may_have_asked
    }

    /// How long a question is worth waiting for, whatever its attempts find.
    pub fn patience(&self) -> Option<Duration> {
        self.is_question.then(|| self.limit())
    }

    /// How long after the command began it is given up.
    const fn limit(&self) -> Duration {
        Duration::from_millis(if self.may_have_reached { COMMAND_MS_MAX } else { UNREACHED_MS_MAX })
    }

    /// The last word when no further attempt is made, because of `refusal`; `why` is its core.
    pub fn give_up(&self, refusal: Refusal, why: &str) -> Refusal {
        if self.may_have_reached && !refusal.reason.is_maybe_applied() {
            return self.unknown(why);
        }
        refusal
    }

    /// `why` is what was found last; what the broker said before that says more.
    fn unknown(&self, why: &str) -> Refusal {
        match (&self.unsure, why) {
            (None, why) => outcome_unknown(why),
            (Some(said), "") => outcome_unknown(&format!("it said: {said}")),
            (Some(said), why) => outcome_unknown(&format!("it said: {said}; then: {why}")),
        }
    }
}

/// Whether what was refused so may be taken when it is sent again, without anybody's doing: for what a
/// node sends on its own, however long that takes.
pub const fn may_be_taken_later(reason: Reason) -> bool {
    matches!(
        reason,
        // Out of reach, overloaded, or about to be known again.
        Reason::Unavailable
            | Reason::Overloaded
            | Reason::OutcomeUnknown
            | Reason::StaleEpoch
            | Reason::Unauthenticated
            | Reason::NodeForbidden
            | Reason::RoleInUse
            | Reason::Lagged
    )
}

/// The refusal of a command that was sent and not answered.
pub fn outcome_unknown(why: &str) -> Refusal {
    Refusal {
        reason: Reason::OutcomeUnknown,
        message: format!(
            "The broker may have got this, and no answer came ({why}): it may or may not have taken \
             effect. Look at the state, or call again with the same words: that is carried out \
             at most once."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no(reason: Reason) -> Refusal {
        Refusal { reason, message: "m".to_owned() }
    }

    fn end(steps: &[(u64, Failure)]) -> String {
        let mut attempts = Attempts::default();
        let mut said = Vec::new();
        for (ms, failure) in steps {
            said.push(match attempts.next(Duration::from_millis(*ms), 0, failure.clone()) {
                Next::Again(pause) => format!("again {}", pause.as_millis()),
                Next::Renew(within) => format!("renew {}", within.as_millis()),
                Next::Give(refusal) => refusal.reason.to_string(),
            });
        }
        said.join(", ")
    }

    /// Holds L1.
    #[test]
    fn what_follows_which_failures() {
        let lost = || Failure::Lost("m".to_owned());
        let stale = || Failure::StaleEpoch("m".to_owned());
        let away = || Failure::NotTaken(no(Reason::Unavailable));
        let full = || Failure::NotTaken(no(Reason::Overloaded));
        let judged = || Failure::Refused(no(Reason::NotYourTurn));
        let turned_away = || Failure::TurnedAway(no(Reason::Unauthenticated));
        for (steps, expected) in [
            (vec![(0, judged())], "not_your_turn"),
            (vec![(0, away()), (100, away())], "again 25, again 50"),
            (vec![(0, away()), (3_000, away())], "again 25, unavailable"),
            (vec![(0, full())], "overloaded"),
            (vec![(0, lost()), (3_000, away())], "again 25, again 50"),
            (vec![(0, lost()), (20_000, away())], "again 25, outcome_unknown"),
            (vec![(0, lost()), (1, full())], "again 25, again 50"),
            (vec![(0, lost()), (20_000, full())], "again 25, outcome_unknown"),
            (vec![(0, lost()), (9, judged())], "again 25, not_your_turn"),
            (vec![(0, turned_away())], "unauthenticated"),
            (vec![(0, lost()), (9, turned_away())], "again 25, outcome_unknown"),
            (vec![(0, stale()), (1, turned_away())], "renew 3000, unauthenticated"),
            (vec![(0, stale()), (1, stale())], "renew 3000, stale_epoch"),
            (
                vec![(0, lost()), (100, stale()), (200, stale())],
                "again 25, renew 19900, outcome_unknown",
            ),
        ] {
            assert_eq!(end(&steps), expected, "{steps:?}");
        }
    }

    #[test]
    fn what_the_broker_said_is_told_in_the_end() {
        let mut attempts = Attempts::default();
        let full = Failure::Unsure("the disk is full".to_owned());
        attempts.next(Duration::ZERO, 0, full);
        let away = Failure::NotTaken(no(Reason::Unavailable));
        let Next::Give(refusal) = attempts.next(Duration::from_secs(20), 0, away) else {
            panic!("its time is over")
        };
        assert_eq!(refusal.reason, Reason::OutcomeUnknown);
        let told = "no answer came (it said: the disk is full; then: m): it may or may not have";
        assert!(refusal.message.contains(told), "{refusal}");
    }

    #[test]
    fn pauses_grow_to_their_limit_and_begin_again() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..8).map(|_| backoff.pause(0).as_millis()).collect();
        assert_eq!(pauses, [25, 50, 100, 200, 400, 800, 1000, 1000]);
        assert!(backoff.pause(u64::MAX).as_millis() <= u128::from(PAUSE_MS_MAX));
        backoff.reset();
        assert_eq!(backoff.pause(25).as_millis(), 50);
        let mut slow = Backoff::turned_away();
        let pauses: Vec<_> = (0..7).map(|_| slow.pause(0).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn what_the_broker_judged_is_not_sent_again() {
        // A token may be given again, and a role let go.
        for reason in [Reason::Unavailable, Reason::Unauthenticated, Reason::RoleInUse] {
            assert!(may_be_taken_later(reason), "{reason}");
        }
        for reason in [Reason::InvalidArgument, Reason::StepTaken, Reason::KeyReused] {
            assert!(!may_be_taken_later(reason), "{reason}");
        }
        assert!(!may_be_taken_later(Reason::KeyExpired), "it would not be known again");
    }

    #[test]
    fn every_reason_keeps_its_meaning() {
        for reason in Reason::ALL.iter().copied() {
            let failure = Failure::of(&reason.status("m"));
            let stays = match &failure {
                Failure::NotTaken(refusal)
                | Failure::Refused(refusal)
                | Failure::TurnedAway(refusal) => refusal.reason == reason,
                Failure::Unsure(_) => reason == Reason::OutcomeUnknown,
                Failure::Lost(_) => false,
                Failure::StaleEpoch(_) => reason == Reason::StaleEpoch,
            };
            assert!(stays, "{reason} became {failure:?}");
        }
    }

    #[test]
    fn strangers_are_understood_with_care() {
        for (code, lost) in [
            (Code::Unavailable, true),
            (Code::Unknown, true),
            (Code::Internal, true),
            (Code::DeadlineExceeded, true),
            (Code::Aborted, true),
            (Code::Unimplemented, false),
            (Code::Unauthenticated, false),
        ] {
            let status = Status::new(code, "m");
            let failure = Failure::of(&status);
            assert_eq!(matches!(failure, Failure::Lost(_)), lost, "{failure:?}");
            assert_eq!(is_lost(&status), lost, "{code:?}");
        }
        for reason in Reason::ALL {
            assert!(!is_lost(&reason.status("m")), "the broker said {reason}");
        }
        let connect = ConnectError(Box::new(std::io::Error::other("Connection refused")));
        let status = Status::from_error(Box::new(connect));
        assert!(is_lost(&status), "a kept connection broke");
        let failure = Failure::of(&status);
        let expected =
            Refusal { reason: Reason::Unavailable, message: "Connection refused".to_owned() };
        assert_eq!(failure, Failure::NotTaken(expected));
    }
}
