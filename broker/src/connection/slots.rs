//! Who has how many connections, and who must wait outside.
//!
//! - **V1** Connections, strangers among them, and both of one address are never more than
//!   [`Shares`] says.
//! - **V2** Strangers keep nobody out, neither other addresses nor others at their own: the oldest
//!   of the newcomer's address gives way once that has its share of strangers or of connections,
//!   else the oldest of whoever has most. Whoever has a token shows it long before it is the oldest.
//!
//! A *stranger* is a connection that has not yet shown what it is for: a good token, or on an open
//! broker that it speaks HTTP/2; to the dashboard, a request that was answered.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::net::auth_backoff::network;
use tokio_util::sync::CancellationToken;

use super::limits::{
    CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX, DASHBOARD_CONNECTIONS_MAX,
    DASHBOARD_STRANGERS_MAX, DASHBOARD_STRANGERS_PER_ADDRESS_MAX, STRANGERS_MAX,
    STRANGERS_PER_ADDRESS_MAX,
};
use crate::metrics::ConnectionMetrics;

/// How many of each there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    pub(super) connections: usize,
    pub(super) per_address: usize,
    pub(super) strangers: usize,
    pub(super) strangers_per_address: usize,
}

impl Shares {
    /// Whoever reaches this machine's loopback address is no stranger to it.
    pub(super) const OPEN: Self = Self {
        connections: CONNECTIONS_MAX,
        per_address: CONNECTIONS_MAX,
        strangers: CONNECTIONS_MAX,
        strangers_per_address: CONNECTIONS_MAX,
    };

    pub(super) const DASHBOARD: Self = Self {
        connections: DASHBOARD_CONNECTIONS_MAX,
        per_address: DASHBOARD_CONNECTIONS_MAX,
        strangers: DASHBOARD_STRANGERS_MAX,
        strangers_per_address: DASHBOARD_STRANGERS_PER_ADDRESS_MAX,
    };

    pub(super) const GUARDED: Self = Self {
        connections: CONNECTIONS_MAX,
        per_address: CONNECTIONS_PER_ADDRESS_MAX,
        strangers: STRANGERS_MAX,
        strangers_per_address: STRANGERS_PER_ADDRESS_MAX,
    };
}

/// Why there is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Full {
    #[error("the address has too many connections")]
    Address,
    #[error("there are too many connections")]
    All,
}

#[derive(Debug, Clone)]
pub(super) struct ConnectionSlots {
    counts: Arc<Mutex<Counts>>,
    metrics: Arc<ConnectionMetrics>,
}

#[derive(Debug)]
struct Counts {
    shares: Shares,
    /// Names the next connection.
    next: u64,
    connections: usize,
    strangers: usize,
    addresses: BTreeMap<IpAddr, Held>,
}

/// What one address has. Who was told to give way is in neither.
#[derive(Debug, Default)]
struct Held {
    known: BTreeSet<u64>,
    /// Oldest first, each with what ends it.
    strangers: BTreeMap<u64, CancellationToken>,
}

impl Held {
    fn connections(&self) -> usize {
        self.known.len() + self.strangers.len()
    }
}

impl ConnectionSlots {
    pub(super) fn new(shares: Shares, metrics: Arc<ConnectionMetrics>) -> Self {
        let counts =
            Counts { shares, next: 0, connections: 0, strangers: 0, addresses: BTreeMap::new() };
        Self { counts: Arc::new(Mutex::new(counts)), metrics }
    }

    /// A stranger's slot; `cut` is cancelled when it has to give way.
    pub(super) fn take(
        &self,
        address: IpAddr,
        cut: CancellationToken,
    ) -> Result<ConnectionSlot, Full> {
        let address = network(address);
        let number = self.lock().take(address, cut)?;
        self.metrics.open.enter();
        Ok(ConnectionSlot { slots: self.clone(), address, number })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }
}

impl Counts {
    fn take(&mut self, address: IpAddr, cut: CancellationToken) -> Result<u64, Full> {
        let Shares { connections, per_address, strangers, strangers_per_address } = self.shares;
        let has = self.addresses.get(&address);
        let (has_connections, has_strangers) =
            has.map_or((0, 0), |it| (it.connections(), it.strangers.len()));
        if per_address <= has_connections && has_strangers == 0 {
            return Err(Full::Address);
        }
        if connections <= self.connections && self.strangers == 0 {
            return Err(Full::All);
        }
        if per_address <= has_connections || strangers_per_address <= has_strangers {
            self.make_room(|it| *it == address);
        } else if connections <= self.connections || strangers <= self.strangers {
            self.make_room(|_| true);
        }
        let number = self.next;
        self.next += 1;
        self.connections += 1;
        self.strangers += 1;
        self.addresses.entry(address).or_default().strangers.insert(number, cut);
        self.check();
        Ok(number)
    }

    /// Ends the oldest stranger of whoever has most, among those meant. Its connection is gone as
    /// soon as it hears of it, and counts no more.
    fn make_room(&mut self, is_meant: impl Fn(&IpAddr) -> bool) {
        let crowds = self.addresses.iter_mut().filter(|(address, _)| is_meant(address));
        let most = crowds.max_by_key(|(_, held)| {
            let oldest = held.strangers.keys().next().copied();
            (held.strangers.len(), std::cmp::Reverse(oldest))
        });
        let Some((address, held)) = most else { return };
        let address = *address;
        if let Some((_, cut)) = held.strangers.pop_first() {
            self.strangers -= 1;
            self.connections -= 1;
            cut.cancel();
        }
        self.forget_if_empty(address);
    }

    fn know(&mut self, address: IpAddr, number: u64) {
        let Some(held) = self.addresses.get_mut(&address) else { return };
        if held.strangers.remove(&number).is_some() {
            held.known.insert(number);
            self.strangers -= 1;
        }
    }

    fn leave(&mut self, address: IpAddr, number: u64) {
        let Some(held) = self.addresses.get_mut(&address) else { return };
        if held.strangers.remove(&number).is_some() {
            self.strangers -= 1;
            self.connections -= 1;
        } else if held.known.remove(&number) {
            self.connections -= 1;
        }
        self.forget_if_empty(address);
    }

    fn forget_if_empty(&mut self, address: IpAddr) {
        if self.addresses.get(&address).is_some_and(|held| held.connections() == 0) {
            self.addresses.remove(&address);
        }
    }

    fn check(&self) {
        let Shares { connections, strangers, .. } = self.shares;
        assert!(
            self.connections <= connections && self.strangers <= strangers,
            "V1: {} connections, {} strangers",
            self.connections,
            self.strangers
        );
    }
}

/// The slot of one connection; free again when dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: ConnectionSlots,
    address: IpAddr,
    number: u64,
}

impl ConnectionSlot {
    /// It is a stranger no more, and does not give way.
    pub(super) fn become_known(&self) {
        self.slots.lock().know(self.address, self.number);
    }

    pub(super) fn is_stranger(&self) -> bool {
        let counts = self.slots.lock();
        counts
            .addresses
            .get(&self.address)
            .is_some_and(|it| it.strangers.contains_key(&self.number))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.lock().leave(self.address, self.number);
        self.slots.metrics.open.leave(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Shares =
        Shares { connections: 8, per_address: 5, strangers: 4, strangers_per_address: 3 };

    struct Guest {
        cut: CancellationToken,
        slot: ConnectionSlot,
    }

    fn take(slots: &ConnectionSlots, address: &str) -> Result<Guest, Full> {
        let cut = CancellationToken::new();
        let slot = slots.take(address.parse().unwrap(), cut.clone())?;
        Ok(Guest { cut, slot })
    }

    fn is_cut(guests: &[Guest]) -> Vec<bool> {
        guests.iter().map(|guest| guest.cut.is_cancelled()).collect()
    }

    #[test]
    fn an_address_has_its_share_and_gets_it_back() {
        let slots = ConnectionSlots::new(SHARES, Arc::default());
        let mut guests = Vec::new();
        for _ in 0..5 {
            let guest = take(&slots, "10.0.0.1").unwrap();
            guest.slot.become_known();
            guest.slot.become_known();
            guests.push(guest);
        }
        assert_eq!(take(&slots, "10.0.0.1").err(), Some(Full::Address));
        guests.pop();
        guests.push(take(&slots, "10.0.0.1").unwrap());
        assert_eq!(is_cut(&guests), [false; 5]);
        drop(guests);
        let counts = slots.lock();
        assert_eq!((counts.connections, counts.strangers, counts.addresses.len()), (0, 0, 0));
    }

    /// Holds V2.
    #[test]
    fn strangers_of_one_address_give_way_to_each_other() {
        let slots = ConnectionSlots::new(SHARES, Arc::default());
        let other = [take(&slots, "10.0.0.2").unwrap()];
        let guests: Vec<Guest> = (0..4).map(|_| take(&slots, "10.0.0.1").unwrap()).collect();
        assert_eq!(is_cut(&guests), [true, false, false, false]);
        assert_eq!(is_cut(&other), [false]);
        assert_eq!(slots.lock().strangers, 4);
    }

    #[test]
    fn the_oldest_stranger_of_whoever_has_most_gives_way() {
        let slots = ConnectionSlots::new(SHARES, Arc::default());
        let few = [take(&slots, "10.0.0.2").unwrap()];
        let crowd: Vec<Guest> = (0..3).map(|_| take(&slots, "10.0.0.1").unwrap()).collect();
        let others: Vec<Guest> = (0..2).map(|_| take(&slots, "10.0.0.3").unwrap()).collect();
        assert_eq!(is_cut(&crowd), [true, true, false]);
        assert_eq!((is_cut(&few), is_cut(&others)), (vec![false], vec![false, false]));
    }

    #[test]
    fn who_is_known_gives_way_to_nobody() {
        let slots = ConnectionSlots::new(SHARES, Arc::default());
        let known: Vec<Guest> = (0..3).map(|_| take(&slots, "10.0.0.1").unwrap()).collect();
        for guest in &known {
            guest.slot.become_known();
        }
        let strangers: Vec<Guest> =
            (1..=5).map(|n| take(&slots, &format!("10.0.1.{n}")).unwrap()).collect();
        assert_eq!(is_cut(&known), [false; 3]);
        assert_eq!(is_cut(&strangers), [true, false, false, false, false]);
        drop(strangers);
        let others: Vec<Guest> = (1..=5)
            .map(|n| {
                let guest = take(&slots, &format!("10.0.1.{n}")).unwrap();
                guest.slot.become_known();
                guest
            })
            .collect();
        assert_eq!(take(&slots, "10.0.0.9").err(), Some(Full::All));
        assert_eq!((is_cut(&known), is_cut(&others)), (vec![false; 3], vec![false; 5]));
        drop(others);
        assert!(take(&slots, "10.0.0.9").is_ok());
    }

    #[test]
    fn strangers_give_way_where_those_who_are_known_leave_little_room() {
        let slots = ConnectionSlots::new(SHARES, Arc::default());
        let take_known = |address: &str| {
            let guest = take(&slots, address).unwrap();
            guest.slot.become_known();
            guest
        };
        let crowd = |address: &str, known: usize, strangers: usize| {
            let known = (0..known).map(|_| take_known(address));
            let strangers = (0..strangers).map(|_| take(&slots, address).unwrap());
            known.chain(strangers).collect::<Vec<Guest>>()
        };
        // At one address, which has its share.
        let here = crowd("10.0.0.1", 3, 2);
        let newcomer = take_known("10.0.0.1");
        assert_eq!(is_cut(&here), [false, false, false, true, false]);
        // Everywhere, when all are there that may be.
        let there = crowd("10.0.0.2", 1, 2);
        assert_eq!(slots.lock().connections, 8);
        let another = take_known("10.0.0.3");
        assert_eq!(is_cut(&there), [false, true, false]);
        assert_eq!(is_cut(&here), [false, false, false, true, false]);
        drop((here, there, newcomer, another));
        let counts = slots.lock();
        assert_eq!((counts.connections, counts.strangers, counts.addresses.len()), (0, 0, 0));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let slots = ConnectionSlots::new(SHARES, Arc::default());
        let network = ["2001:db8::1", "2001:db8::2", "2001:db8::ffff:0:0:3", "2001:db8::4"];
        let guests: Vec<Guest> = network.iter().map(|it| take(&slots, it).unwrap()).collect();
        assert_eq!(is_cut(&guests), [true, false, false, false]);
        let other = [take(&slots, "2001:db8:0:1::4").unwrap()];
        assert_eq!((is_cut(&guests)[1], is_cut(&other)), (false, vec![false]));
    }
}
