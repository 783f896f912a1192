//! Failed authentications: each makes the next answer to the same address slower (E3). Of a broker
//! and of a guarded node alike. Pure: time comes in as an argument.
//!
//! Guessing 256 bits is hopeless anyway; this keeps it from costing anything, and tells the host
//! in its log that somebody tries. A good token is never slowed down: many nodes may share one
//! address with whoever guesses.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use crate::id::Timestamp;

/// Addresses remembered. Past it the one that failed the longest ago is forgotten.
const ADDRESSES_MAX: usize = 4096;

/// The answer to a first failure, in milliseconds; doubled by each later one.
const DELAY_MS_MIN: u64 = 50;

/// The slowest answer, in milliseconds.
const DELAY_MS_MAX: u64 = 5_000;

/// How long an address has to be quiet to begin anew, in milliseconds.
const FORGIVEN_MS: u64 = 60_000;

/// Answers to one address that are being held back. Past it the connection is cut.
const HELD_BACK_MAX: usize = 16;

/// Failures on one connection. Past it the connection is cut.
pub const FAILURES_PER_CONNECTION_MAX: u32 = 8;

/// Who failed lately, by address.
#[derive(Debug)]
pub struct AuthBackoff {
    /// Failures of one address that are answered at once.
    free: u32,
    records: Mutex<BTreeMap<IpAddr, Record>>,
}

#[derive(Debug)]
struct Record {
    failures: u32,
    latest: Timestamp,
    held_back: usize,
}

/// What to do with a failure.
#[derive(Debug, PartialEq, Eq)]
pub enum Penalty {
    /// Answer after this long, then say so with [`AuthBackoff::answered`].
    Delay(Duration),
    /// Cut the connection: enough answers are held back.
    Cut,
}

impl AuthBackoff {
    /// `free` failures of one address are answered at once: people mistype, programs probe.
    pub fn new(free: u32) -> Self {
        Self { free, records: Mutex::default() }
    }

    /// Counts a failure from `address`; says how many there were.
    pub fn failed(&self, address: IpAddr, now: Timestamp) -> (Penalty, u32) {
        let address = network(address);
        let mut records = self.lock();
        if ADDRESSES_MAX <= records.len() && !records.contains_key(&address) {
            let idle = records.iter().filter(|(_, it)| it.held_back == 0);
            let oldest = idle.min_by_key(|(_, it)| it.latest).map(|(address, _)| *address);
            let Some(oldest) = oldest else { return (Penalty::Cut, 0) };
            records.remove(&oldest);
        }
        let new = Record { failures: 0, latest: now, held_back: 0 };
        let record = records.entry(address).or_insert(new);
        if FORGIVEN_MS <= now.millis_since(record.latest) {
            record.failures = 0;
        }
        record.latest = now;
        record.failures = record.failures.saturating_add(1);
        if HELD_BACK_MAX <= record.held_back {
            return (Penalty::Cut, record.failures);
        }
        record.held_back += 1;
        let delay_ms = match record.failures.checked_sub(self.free + 1) {
            None => 0,
            Some(doublings) => (DELAY_MS_MIN << doublings.min(16)).min(DELAY_MS_MAX),
        };
        (Penalty::Delay(Duration::from_millis(delay_ms)), record.failures)
    }

    /// An answer was held back long enough.
    pub fn answered(&self, address: IpAddr) {
        if let Some(record) = self.lock().get_mut(&network(address)) {
            record.held_back = record.held_back.saturating_sub(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Record>> {
        self.records.lock()
    }
}

/// One customer has at least a /64 of IPv6.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(it) => IpAddr::V4(it),
        IpAddr::V6(it) => IpAddr::V6(Ipv6Addr::from(u128::from(it) >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn each_failure_is_answered_later_until_an_address_was_quiet() {
        let penalties = AuthBackoff::new(2);
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let delay = |ms| {
            let (penalty, _) = penalties.failed(address, at(ms));
            penalties.answered(address);
            let Penalty::Delay(delay) = penalty else { panic!("cut") };
            delay.as_millis()
        };
        let delays: Vec<_> = (0..11).map(delay).collect();
        assert_eq!(delays, [0, 0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!((delay(60_009), delay(60_010 + FORGIVEN_MS)), (5000, 0));
    }

    #[test]
    fn only_so_many_answers_are_held_back_for_one_network() {
        let penalties = AuthBackoff::new(0);
        let of = |last: u16| -> IpAddr { format!("2001:db8::{last}").parse().unwrap() };
        for i in 0..HELD_BACK_MAX {
            let (penalty, _) = penalties.failed(of(u16::try_from(i).unwrap()), at(0));
            assert!(matches!(penalty, Penalty::Delay(_)), "{i}");
        }
        assert_eq!(penalties.failed(of(99), at(0)).0, Penalty::Cut);
        let other = "2001:db8:0:1::1".parse().unwrap();
        assert!(matches!(penalties.failed(other, at(0)).0, Penalty::Delay(_)));
        penalties.answered(of(5));
        assert!(matches!(penalties.failed(of(99), at(0)).0, Penalty::Delay(_)));
    }

    #[test]
    fn what_is_remembered_of_strangers_is_bounded() {
        let penalties = AuthBackoff::new(0);
        for i in 0..2 * ADDRESSES_MAX {
            let address = IpAddr::V4(u32::try_from(i).unwrap().into());
            penalties.failed(address, at(i as u64));
            penalties.answered(address);
        }
        assert_eq!(penalties.lock().len(), ADDRESSES_MAX);
    }
}
