//! When a server that fails is left alone, and when it is tried again. Pure.
//!
//! After [`FAILURES_MAX`] failures in a row nobody waits for it: calls are refused at once. When
//! [`OPEN`] is over one call may try; what becomes of it decides.

use std::time::Duration;

use crate::clock::Moment;

/// Failures in a row after which a server is left alone.
pub(super) const FAILURES_MAX: u32 = 3;

/// For how long.
pub(super) const OPEN: Duration = Duration::from_secs(30);

/// How one server did lately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Breaker {
    failures: u32,
    /// When it was left alone, or tried again.
    opened: Option<Moment>,
}

/// A call that was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admission {
    /// Of the one call that tries: since when the server was left alone, and when it tried.
    trial: Option<(Moment, Moment)>,
}

impl Breaker {
    /// Whether a call may go there; else, after how long one may.
    pub(super) fn admit(&mut self, now: Moment) -> Result<Admission, Duration> {
        let Some(opened) = self.opened else { return Ok(Admission { trial: None }) };
        let left = OPEN.saturating_sub(now.since(opened));
        if !left.is_zero() {
            return Err(left);
        }
        // The others wait for what becomes of this one.
        self.opened = Some(now);
        Ok(Admission { trial: Some((opened, now)) })
    }

    /// A call was taken back before anything became of it: if it was the one that tried, another
    /// may.
    pub(super) fn canceled(&mut self, admission: Admission) {
        if let Some((opened, tried)) = admission.trial
            && self.opened == Some(tried)
        {
            self.opened = Some(opened);
        }
    }

    pub(super) const fn succeeded(&mut self) {
        *self = Self { failures: 0, opened: None };
    }

    pub(super) fn failed(&mut self, now: Moment) {
        self.failures = self.failures.saturating_add(1);
        if FAILURES_MAX <= self.failures {
            self.opened = Some(now);
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        self.opened.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Moment {
        Moment::from_millis(secs * 1000)
    }

    #[test]
    fn three_failures_in_a_row_close_it_and_one_success_opens_it() {
        let mut breaker = Breaker::default();
        for turn in 0..3 {
            breaker.failed(at(turn));
            breaker.failed(at(turn));
            breaker.admit(at(turn)).unwrap();
            breaker.succeeded();
        }
        (0..3).for_each(|_| breaker.failed(at(10)));
        assert!(breaker.is_open());
        assert_eq!(breaker.admit(at(10)), Err(OPEN));
        assert_eq!(breaker.admit(at(39)), Err(Duration::from_secs(1)));
        let canceled = breaker.admit(at(40)).expect("one may try");
        breaker.canceled(canceled);
        breaker.admit(at(40)).expect("another may, once that one was taken back");
        breaker.canceled(Admission { trial: None });
        assert_eq!(breaker.admit(at(41)), Err(Duration::from_secs(29)), "and only one");
        breaker.failed(at(42));
        assert_eq!(breaker.admit(at(71)), Err(Duration::from_secs(1)));
        let late = breaker.admit(at(72)).unwrap();
        breaker.succeeded();
        breaker.canceled(late);
        breaker.admit(at(72)).unwrap();
        assert!(!breaker.is_open());
    }
}
