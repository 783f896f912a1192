//! Requests that showed no good token, by the address they came from. Pure: time comes in as an
//! argument.
//!
//! Guessing 256 bits is hopeless however fast it is. What is bounded here is the work and the log
//! lines that somebody can cause who tries all the same, or a client that was set up wrongly.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use crate::clock::Moment;

/// Addresses remembered. The one that was quiet longest is forgotten for another.
const ADDRESSES_MAX: usize = 1024;

/// Failures of one address that are answered at once: people mistype, clients probe.
const FREE: u32 = 4;

/// How long the first answer after those waits, in milliseconds; each doubles it.
const DELAY_MS: u64 = 50;

/// How long an answer waits at most, in milliseconds.
const DELAY_MS_MAX: u64 = 5_000;

/// After this long without a failure an address begins anew, in milliseconds.
const FORGET_MS: u64 = 60_000;

#[derive(Debug, Default)]
pub(super) struct Failures {
    by: BTreeMap<IpAddr, Failing>,
}

#[derive(Debug)]
struct Failing {
    times: u32,
    last: Moment,
}

impl Failures {
    /// Notes one. How long its answer waits, and which one it is of this address.
    pub(super) fn note(&mut self, now: Moment, from: IpAddr) -> (Duration, u32) {
        let from = network(from);
        if !self.by.contains_key(&from) && ADDRESSES_MAX <= self.by.len() {
            let quietest = self.by.iter().min_by_key(|(_, it)| it.last).map(|(from, _)| *from);
            quietest.and_then(|from| self.by.remove(&from));
        }
        let it = self.by.entry(from).or_insert(Failing { times: 0, last: now });
        if Duration::from_millis(FORGET_MS) <= now.since(it.last) {
            it.times = 0;
        }
        it.last = now;
        it.times = it.times.saturating_add(1);
        let delay_ms = match it.times.checked_sub(FREE + 1) {
            None => 0,
            Some(doublings) => {
                DELAY_MS.saturating_mul(2_u64.saturating_pow(doublings)).min(DELAY_MS_MAX)
            }
        };
        (Duration::from_millis(delay_ms), it.times)
    }
}

/// An IPv6 host has as many addresses as it likes within its network.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V4(from) => from.into(),
        IpAddr::V6(from) => {
            let [a, b, c, d, ..] = from.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn delays(failures: &mut Failures, at: u64, from: &str, times: usize) -> Vec<u64> {
        let delay = |_| failures.note(Moment::from_millis(at), ip(from)).0.as_millis();
        (0..times).map(delay).map(|it| it.try_into().unwrap()).collect()
    }

    #[test]
    fn each_failure_waits_longer_up_to_a_limit_until_it_was_quiet() {
        let mut failures = Failures::default();
        let first = [0, 0, 0, 0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000];
        assert_eq!(delays(&mut failures, 0, "10.0.0.1", 13), first);
        assert_eq!(delays(&mut failures, 0, "10.0.0.2", 1), [0], "another address");
        assert_eq!(delays(&mut failures, 59_999, "10.0.0.1", 80), [5000; 80]);
        assert_eq!(delays(&mut failures, 119_999, "10.0.0.1", 5), first[..5]);
    }

    #[test]
    fn an_address_is_its_network_and_a_mapped_one_is_the_other() {
        let mut failures = Failures::default();
        delays(&mut failures, 0, "fd00::1", 4);
        assert_eq!(delays(&mut failures, 0, "fd00::ffff:2", 1), [50]);
        assert_eq!(delays(&mut failures, 0, "fd00:0:0:1::1", 1), [0]);
        delays(&mut failures, 0, "10.0.0.1", 4);
        assert_eq!(delays(&mut failures, 0, "::ffff:10.0.0.1", 1), [50]);
    }

    #[test]
    fn the_quietest_is_forgotten_for_another() {
        let mut failures = Failures::default();
        delays(&mut failures, 0, "10.0.0.1", 9);
        delays(&mut failures, 1, "10.0.0.2", 9);
        for i in 2..ADDRESSES_MAX + 1 {
            let from = IpAddr::from(u32::try_from(i).unwrap().to_be_bytes());
            failures.note(Moment::from_millis(2), from);
        }
        assert_eq!(failures.by.len(), ADDRESSES_MAX);
        assert_eq!(delays(&mut failures, 2, "10.0.0.2", 1), [1600]);
        assert_eq!(delays(&mut failures, 2, "10.0.0.1", 1), [0]);
        assert_eq!(failures.by.len(), ADDRESSES_MAX);
    }
}
