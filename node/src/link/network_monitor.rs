//! Notices that the machine slept or moved to another network, and has the link look at once.
//!
//! A connection that did not live through it says nothing, so nobody would miss it before the
//! next ping. One from an address that is gone, or that slept longer than any peer waits, is cut
//! unasked; any other is asked.
//!
//! - **M1** However often networks come and go, the link looks at most every [`EVERY_MS_MIN`].

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, future};
use if_watch::{IfEvent, tokio::IfWatcher};
use tokio::time::{self, MissedTickBehavior};

use super::Shared;
use crate::clock::{self, Moment};

/// Between two beats of the pulse, in milliseconds: how late a wake is noticed.
const BEAT_MS: u64 = 1_000;

/// A beat that is late by more than this, in milliseconds, came after a sleep; a machine that is
/// merely busy is not that late.
const LATE_MS: u64 = 1_500;

/// After a sleep of this length, in milliseconds, the broker has given the connection up.
const ASLEEP_MS: u64 = 15_000;

/// From the first sign of a change to the look, in milliseconds: networks change address by
/// address.
const SETTLE_MS: u64 = 200;

/// Between two looks, in milliseconds: an interface may flap for hours.
const EVERY_MS_MIN: u64 = 2_000;

/// Runs until the node stops.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut networks = match IfWatcher::new() {
        Ok(networks) => Some(networks),
        Err(error) => {
            tracing::warn!(%error, "changes of the network will be noticed by pings alone");
            None
        }
    };
    // The addresses there are come first; they are no change.
    while let Ok(Ok(_)) = time::timeout(Duration::from_millis(SETTLE_MS), next(&mut networks)).await
    {
    }
    let mut pulse = Pulse(clock::now());
    let mut looks = Looks::default();
    let mut beats = time::interval(Duration::from_millis(BEAT_MS));
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let now = clock::now();
        let look_in = looks.due().map(|due| due.since(now));
        tokio::select! {
            _ = beats.tick() => {
                let now = clock::now();
                if let Some(slept) = pulse.beat(now) {
                    tracing::info!(?slept, "this machine slept, or stopped this program");
                    if Duration::from_millis(ASLEEP_MS) <= slept {
                        shared.client.connections().cut();
                    }
                    looks.sign(now);
                }
            }
            event = next(&mut networks) => match event {
                Ok(IfEvent::Up(_)) => looks.sign(now),
                Ok(IfEvent::Down(network)) => {
                    if shared.client.connections().cut_from(network.addr()) {
                        tracing::info!(%network, "the connection's address is gone");
                    }
                    looks.sign(now);
                }
                Err(error) => {
                    tracing::warn!(%error, "changes of the network are noticed by pings alone");
                    networks = None;
                }
            },
            () = time::sleep(look_in.unwrap_or_default()), if look_in.is_some() => {
                looks.looked(clock::now());
                shared.look();
            }
        }
    }
}

async fn next(networks: &mut Option<IfWatcher>) -> std::io::Result<IfEvent> {
    match networks {
        Some(networks) => networks.select_next_some().await,
        None => future::pending().await,
    }
}

/// When this program was last seen running.
struct Pulse(Moment);

impl Pulse {
    /// How long the program had not run when a beat came, if that was long.
    fn beat(&mut self, now: Moment) -> Option<Duration> {
        let late = now.since(self.0).saturating_sub(Duration::from_millis(BEAT_MS));
        self.0 = now;
        (Duration::from_millis(LATE_MS) < late).then_some(late)
    }
}

/// When to look: soon after the first sign, and not too soon after the last look.
#[derive(Debug, Default)]
struct Looks {
    due: Option<Moment>,
    not_before: Moment,
}

impl Looks {
    fn sign(&mut self, now: Moment) {
        let settled = now.after(Duration::from_millis(SETTLE_MS));
        let due = settled.max(self.not_before);
        self.due = self.due.or(Some(due));
    }

    const fn due(&self) -> Option<Moment> {
        self.due
    }

    fn looked(&mut self, now: Moment) {
        self.due = None;
        self.not_before = now.after(Duration::from_millis(EVERY_MS_MIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    #[test]
    fn a_late_beat_is_a_sleep() {
        let mut pulse = Pulse(at(0));
        let beats = [1_000, 2_100, 4_600, 7_101, 3_600_000 + 8_101, 3_600_000 + 9_101];
        let slept: Vec<_> =
            beats.map(|ms| pulse.beat(at(ms)).map_or(0, |it| it.as_millis())).into();
        assert_eq!(slept, [0, 0, 0, 1_501, 3_600_000, 0]);
    }

    #[test]
    fn a_burst_is_one_look_and_a_storm_is_few() {
        let mut looks = Looks::default();
        assert_eq!(looks.due(), None);
        let mut looked = Vec::new();
        for ms in 0..10_000 {
            if looks.due().is_some_and(|due| due <= at(ms)) {
                looks.looked(at(ms));
                looked.push(ms);
            }
            if ms % 3 == 0 {
                looks.sign(at(ms));
            }
        }
        assert_eq!(looked, [200, 2_200, 4_200, 6_200, 8_200], "M1");
    }
}
