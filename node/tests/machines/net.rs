//! The network between machines, and what can go wrong with it.
//!
//! Every machine is alone on a network of its own, and a router joins them all. Troubles are the
//! router's: neither end learns more of them than it would of a network far away.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    net::Ipv4Addr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

use super::machine::Machine;

/// What happens to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// They vanish.
    Silence,
    /// Connections they belong to are reset at whoever sends.
    Reset,
    /// This many in a hundred vanish.
    Loss(u8),
}

/// Which packets, seen from a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Out,
    In,
    Both,
}

#[derive(Debug)]
pub(crate) struct Net {
    router: Machine,
    ports: AtomicU8,
    troubles: Mutex<BTreeMap<(u8, Way), Trouble>>,
}

/// A machine on the net.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) machine: Machine,
    port: u8,
    /// The last part of its address.
    number: AtomicU8,
}

impl Net {
    pub(crate) async fn new() -> Self {
        let router = match Machine::boot("router").await {
            Ok(router) => router,
            Err(why) => panic!(
                "no network namespaces here ({why}): run it as root, or under `unshare \
                 --map-root-user`"
            ),
        };
        router.set("ipv4/ip_forward", "1").await;
        Self { router, ports: AtomicU8::new(1), troubles: Mutex::default() }
    }

    /// Boots a machine and plugs it in.
    pub(crate) async fn place(&self, name: &str) -> Place {
        let machine = Machine::boot(name).await.unwrap();
        let port = self.ports.fetch_add(1, Ordering::Relaxed);
        let router = &self.router;
        let end = machine.thread;
        router.ip(&format!("link add p{port} type veth peer name eth0 netns {end}")).await;
        router.ip(&format!("address add {}/24 dev p{port}", at(port, 1))).await;
        router.ip(&format!("link set p{port} up")).await;
        let place = Place { machine, port, number: AtomicU8::new(2) };
        place.machine.ip(&format!("address add {}/24 dev eth0", place.address())).await;
        place.link(true).await;
        place
    }

    /// Until it is healed, in place of any other trouble of those packets.
    pub(crate) async fn trouble(&self, of: &Place, way: Way, trouble: Trouble) {
        self.change(|troubles| {
            if way == Way::Both {
                troubles.retain(|(port, _), _| *port != of.port);
            }
            troubles.insert((of.port, way), trouble);
        })
        .await;
    }

    pub(crate) async fn heal_all(&self) {
        self.change(BTreeMap::clear).await;
    }

    async fn change(&self, how: impl FnOnce(&mut BTreeMap<(u8, Way), Trouble>)) {
        let rules = {
            let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
            how(&mut troubles);
            rules(&troubles)
        };
        self.router.nft(&rules).await;
    }
}

/// All troubles at once, in place of all before: nothing is between two states.
fn rules(troubles: &BTreeMap<(u8, Way), Trouble>) -> String {
    let mut said = "table inet troubles\ndelete table inet troubles\ntable inet troubles {\n\
                    chain forward {\ntype filter hook forward priority 0\n"
        .to_owned();
    for ((port, way), trouble) in troubles {
        let sides: &[&str] = match way {
            Way::Out => &["iifname"],
            Way::In => &["oifname"],
            Way::Both => &["iifname", "oifname"],
        };
        let what = match trouble {
            Trouble::Silence => "drop".to_owned(),
            Trouble::Reset => "meta l4proto tcp reject with tcp reset".to_owned(),
            Trouble::Loss(percent) => format!("numgen random mod 100 < {percent} drop"),
        };
        for side in sides {
            writeln!(said, "{side} p{port} {what}").unwrap();
        }
    }
    said + "}\n}\n"
}

fn at(port: u8, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, port, number)
}

impl Place {
    pub(crate) fn address(&self) -> Ipv4Addr {
        at(self.port, self.number.load(Ordering::Relaxed))
    }

    /// Pulls the plug, or puts it in.
    pub(crate) async fn link(&self, is_up: bool) {
        if !is_up {
            return self.machine.ip("link set eth0 down").await;
        }
        self.machine.ip("link set eth0 up").await;
        self.machine.ip(&format!("route replace default via {}", at(self.port, 1))).await;
    }

    /// Takes another address, as a laptop does that is carried elsewhere.
    pub(crate) async fn roam(&self) {
        let old = self.address();
        self.number.fetch_add(1, Ordering::Relaxed);
        self.machine.ip(&format!("address delete {old}/24 dev eth0")).await;
        self.machine.ip(&format!("address add {}/24 dev eth0", self.address())).await;
        self.machine.ip(&format!("route replace default via {}", at(self.port, 1))).await;
    }
}
