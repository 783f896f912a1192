//! Long waits of commands.
//!
//! One call is answered within seconds, so a long wait is many calls; what happens between two is
//! told by the next. A broker that goes away meanwhile is waited for as well.

use std::time::Duration;

use tokio::time::sleep;

use super::{Failure, Output};
use crate::clock::{self, Moment};

/// How long one call is held: an answer to any call is missed after ten seconds.
const HOLD: Duration = Duration::from_secs(8);

/// Before a broker that went away is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// A wait that somebody has patience for.
#[derive(Debug)]
pub(super) struct Waiting {
    /// `None`: for ever.
    until: Option<Moment>,
    /// The broker answered this command before.
    was_there: bool,
}

impl Waiting {
    /// A first call that fails is a mistake to tell; a later one is weather.
    pub(super) fn new(timeout: Option<Duration>) -> Self {
        Self { until: timeout.map(|timeout| clock::now().after(timeout)), was_there: false }
    }

    /// The same for what the broker has just been told: already the first is weather.
    pub(super) fn after_telling(timeout: Option<Duration>) -> Self {
        Self { was_there: true, ..Self::new(timeout) }
    }

    /// Asks until there is something to tell, or time is over; then the last answer counts. `ask`
    /// gets how long its call may be held, in milliseconds.
    pub(super) async fn answer<T>(
        self,
        output: &mut Output,
        ask: impl AsyncFn(u64) -> Result<T, Failure>,
        is_still_waiting: impl Fn(&T) -> bool,
    ) -> Result<T, Failure> {
        let left =
            |most: Duration| self.until.map_or(most, |until| until.since(clock::now()).min(most));
        let (mut was_there, mut is_away) = (self.was_there, false);
        loop {
            let hold_ms = u64::try_from(left(HOLD).as_millis()).unwrap_or(0);
            match ask(hold_ms).await {
                Ok(answer) => {
                    (was_there, is_away) = (true, false);
                    if left(HOLD).is_zero() || !is_still_waiting(&answer) {
                        return Ok(answer);
                    }
                }
                Err(failure) if was_there && failure.is_retryable() => {
                    if left(PAUSE).is_zero() {
                        return Err(failure);
                    }
                    if !is_away {
                        output.note(&format!("{} It is asked again.", failure.message));
                        is_away = true;
                    }
                    sleep(left(PAUSE)).await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}
