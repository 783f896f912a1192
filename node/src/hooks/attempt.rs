//! What came of one attempt, and when the next is due. Pure.

use std::time::Duration;

use crate::client::retry::Backoff;

/// The first pause between attempts, in milliseconds.
const PAUSE_MS_MIN: u64 = 1_000;

/// The longest, in milliseconds: how late the return of an address is noticed.
const PAUSE_MS_MAX: u64 = 5 * 60 * 1000;

/// The longest pause that an address can ask for.
const ASKED_MAX: Duration = Duration::from_secs(60 * 60);

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Half a sentence, fit for logs.
    pub how: String,
    /// The same with what was printed or answered, which may repeat the mail's own words: for
    /// whoever asks about the hook.
    pub why: String,
    /// The same again would come to the same.
    pub is_final: bool,
    /// How long to wait at least.
    pub pause: Option<Duration>,
}

impl Failure {
    pub fn passing(why: impl Into<String>) -> Self {
        let how = why.into();
        Self { why: how.clone(), how, is_final: false, pause: None }
    }

    pub fn lasting(why: impl Into<String>) -> Self {
        Self { is_final: true, ..Self::passing(why) }
    }

    /// Adds words of the other side.
    pub fn saying(mut self, words: &str) -> Self {
        self.why.push_str(words);
        self
    }
}

/// Of one call.
#[derive(Debug)]
pub struct Attempts {
    pub made: u32,
    retries: u32,
    backoff: Backoff,
}

impl Attempts {
    pub const fn new(retries: u32) -> Self {
        Self { made: 0, retries, backoff: Backoff::between(PAUSE_MS_MIN, PAUSE_MS_MAX) }
    }

    /// After a failed attempt: how long until the next; `None`: there is none.
    pub fn next(&mut self, failure: &Failure, chance: u64) -> Option<Duration> {
        self.made += 1;
        if failure.is_final || self.retries < self.made {
            return None;
        }
        let pause = self.backoff.pause(chance);
        Some(failure.pause.map_or(pause, |asked| pause.max(asked.min(ASKED_MAX))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(retries: u32, failures: &[Failure]) -> String {
        let mut attempts = Attempts::new(retries);
        let said = failures.iter().map(|failure| match attempts.next(failure, 0) {
            Some(pause) => pause.as_millis().to_string(),
            None => format!("over after {}", attempts.made),
        });
        said.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn when_what_is_tried_again() {
        let passing = || Failure::passing("p");
        let asking = |s| Failure { pause: Some(Duration::from_secs(s)), ..passing() };
        for (retries, failures, expected) in [
            (0, vec![passing()], "over after 1"),
            (2, vec![passing(), passing(), passing()], "500, 1000, over after 3"),
            (5, vec![passing(), Failure::lasting("l")], "500, over after 2"),
            (5, vec![asking(7), asking(0), asking(9_999)], "7000, 1000, 3600000"),
        ] {
            assert_eq!(pauses(retries, &failures), expected, "{failures:?}");
        }
    }

    #[test]
    fn pauses_have_a_longest_one() {
        let mut attempts = Attempts::new(100);
        let last = (0..50).filter_map(|_| attempts.next(&Failure::passing("p"), u64::MAX)).last();
        assert!(last.is_some_and(|it| it <= Duration::from_millis(PAUSE_MS_MAX)), "{last:?}");
    }
}
