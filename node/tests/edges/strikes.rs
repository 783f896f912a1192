//! `kill -9` at random moments: of a broker and two nodes, alone or together.

use std::path::Path;

use tokio::sync::watch;

use crate::{chance::Chance, process::Process};

/// What was done to the processes, so that an agent knows which trouble to expect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Of any node.
    pub(crate) node_kills: u64,
    pub(crate) is_node_down: bool,
    pub(crate) is_broker_down: bool,
    /// What is done next is to be the last.
    pub(crate) is_last: bool,
}

impl Trouble {
    pub(crate) fn comes(&mut self, to_broker: bool, to_node: bool) {
        self.is_broker_down = to_broker;
        self.is_node_down = to_node;
        self.node_kills += u64::from(to_node);
    }

    pub(crate) fn goes(&mut self) {
        (self.is_broker_down, self.is_node_down) = (false, false);
    }
}

/// A broker that stands alone, and two nodes.
pub(crate) struct Three {
    pub(crate) broker: Process,
    pub(crate) nodes: [Process; 2],
}

impl Three {
    /// `roles` are what the nodes are told of theirs.
    pub(crate) async fn start(place: &Path, roles: [&str; 2]) -> Self {
        let broker = Process::broker(&place.join("broker"), "").await;
        let address = broker.broker.unwrap();
        let nodes = [
            Process::node(&place.join("a"), address, roles[0]).await,
            Process::node(&place.join("b"), address, roles[1]).await,
        ];
        Self { broker, nodes }
    }

    /// Kills one, two or all, and starts them again.
    pub(crate) async fn strike(&mut self, chance: &mut Chance, troubles: &watch::Sender<Trouble>) {
        // One bit each for the broker and the two nodes; never none.
        let whom = chance.below(7) + 1;
        let is_hit = |bit: u64| whom & (1 << bit) != 0;
        troubles.send_modify(|it| it.comes(is_hit(0), is_hit(1) || is_hit(2)));
        let [node_a, node_b] = &mut self.nodes;
        for (bit, process) in [&mut self.broker, node_a, node_b].into_iter().enumerate() {
            if is_hit(bit as u64) {
                process.kill().await;
            }
        }
        // Nodes come up without their broker half of the time.
        let [node_a, node_b] = &mut self.nodes;
        let mut order = [(0, &mut self.broker), (1, node_a), (2, node_b)];
        if chance.below(2) == 0 {
            order.reverse();
        }
        for (bit, process) in order {
            if is_hit(bit) {
                process.start().await;
            }
        }
        troubles.send_modify(Trouble::goes);
    }
}

/// A share of `TASUKI_ROUNDS` (20).
pub(crate) fn rounds(share: u64) -> u64 {
    let rounds = std::env::var("TASUKI_ROUNDS").map_or(20, |it| it.parse::<u64>().unwrap());
    rounds.div_ceil(share)
}
