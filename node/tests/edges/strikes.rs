//! `kill -9` at random moments: of a broker and two nodes, alone or together, or of all in one process.

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

/// A broker that stands alone and two nodes, or all of it in one process.
pub(crate) struct Processes {
    /// `None`: it is in the node.
    broker: Option<Process>,
    pub(crate) nodes: Vec<Process>,
}

impl Processes {
    /// `roles` are what the nodes are told of theirs.
    pub(crate) async fn three(place: &Path, roles: [&str; 2]) -> Self {
        let broker = Process::broker(&place.join("broker"), "").await;
        let address = broker.broker.unwrap();
        let nodes = vec![
            Process::node(&place.join("a"), address, roles[0]).await,
            Process::node(&place.join("b"), address, roles[1]).await,
        ];
        Self { broker: Some(broker), nodes }
    }

    /// The same in one.
    pub(crate) async fn one(place: &Path, roles: &str) -> Self {
        Self { broker: None, nodes: vec![Process::up(&place.join("up"), roles).await] }
    }

    /// The broker can go without its nodes.
    pub(crate) fn is_broker_apart(&self) -> bool {
        self.broker.is_some()
    }

    pub(crate) fn broker(&self) -> &Process {
        self.broker.as_ref().unwrap_or(&self.nodes[0])
    }

    pub(crate) fn broker_mut(&mut self) -> &mut Process {
        self.broker.as_mut().unwrap_or(&mut self.nodes[0])
    }

    /// Kills one, some or all, and starts them again.
    pub(crate) async fn strike(&mut self, chance: &mut Chance, troubles: &watch::Sender<Trouble>) {
        let has_own = self.is_broker_apart();
        let count = usize::from(has_own) + self.nodes.len();
        // One bit each; never none.
        let whom = chance.below((1 << count) - 1) + 1;
        let is_hit = |at: usize| whom & (1 << at) != 0;
        let is_node_hit = !has_own || 1 < whom;
        troubles.send_modify(|it| it.comes(is_hit(0), is_node_hit));
        let all = self.broker.iter_mut().chain(&mut self.nodes).enumerate();
        let mut hit: Vec<_> = all.filter(|(at, _)| is_hit(*at)).map(|(_, it)| it).collect();
        for process in &mut hit {
            process.kill().await;
        }
        // Nodes come up without their broker half of the time.
        if chance.below(2) == 0 {
            hit.reverse();
        }
        for process in hit {
            process.start().await;
        }
        troubles.send_modify(Trouble::goes);
    }
}

/// A share of `TASUKI_ROUNDS` (20).
pub(crate) fn rounds(share: u64) -> u64 {
    let rounds = std::env::var("TASUKI_ROUNDS").map_or(20, |it| it.parse::<u64>().unwrap());
    rounds.div_ceil(share)
}
