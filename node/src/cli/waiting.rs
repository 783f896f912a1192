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
}

impl Waiting {
    /// For what the broker has just answered or been told: a call that fails from then on is
    /// weather.
    pub(super) fn new(timeout: Option<Duration>) -> Self {
        Self { until: timeout.map(|timeout| clock::now().after(timeout)) }
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
        let mut is_away = false;
        loop {
            let hold_ms = u64::try_from(left(HOLD).as_millis()).unwrap_or(0);
            match ask(hold_ms).await {
                Ok(answer) => {
                    is_away = false;
                    if left(HOLD).is_zero() || !is_still_waiting(&answer) {
                        return Ok(answer);
                    }
                }
                Err(failure) if failure.is_retryable() => {
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tasuki_proto::reason::Reason;

    use super::*;

    #[tokio::test]
    async fn a_broker_that_goes_away_while_the_first_call_is_held_is_asked_again() {
        let asked = Cell::new(0);
        let ask = async |_: u64| -> Result<&'static str, Failure> {
            asked.set(asked.get() + 1);
            match asked.get() {
                1 => Err(Failure::reason(Reason::Unavailable, "It is starting again.")),
                _ => Ok("mail"),
            }
        };
        let mut output = Output::of_process(true);
        let answer = Waiting::new(None).answer(&mut output, ask, |_| false).await;
        assert_eq!((answer, asked.get()), (Ok("mail"), 2));
    }
}
