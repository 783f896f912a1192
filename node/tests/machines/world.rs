//! A broker on one machine, and nodes on others.

use std::{net::Ipv4Addr, path::Path, time::Duration};

use serde_json::Value;
use tempfile::TempDir;
use tokio_util::task::AbortOnDropHandle;

/// What the shared modules expect of a test binary.
pub(crate) use crate::process::soon;
use crate::{
    agents::Transport,
    delay,
    net::{Net, Place},
    process::{Desk, Process, until},
    seat::{Seat, words},
};

/// Of the broker.
const PORT: u16 = 7420;

/// What people at the desks may do: all but administer.
const RIGHTS: &str = "--right read --right host --right send --right claim --right review \
                      --right steer";

/// Everything that was handed over.
const HISTORY: &str = "tasuki loop history --from 1 --limit 100000";

#[derive(Debug)]
pub(crate) struct World {
    // In this order they end.
    pub(crate) nodes: Vec<Process>,
    pub(crate) broker: Process,
    /// What makes nodes far away.
    ways: Vec<(AbortOnDropHandle<()>, Place)>,
    pub(crate) net: Net,
    dir: TempDir,
}

impl World {
    /// With a node for each role.
    pub(crate) async fn new(roles: &[&str]) -> Self {
        Self::with(roles, "").await
    }

    /// With more words for the broker.
    pub(crate) async fn with(roles: &[&str], more: &str) -> Self {
        Self::made(roles, more, None).await
    }

    /// With nodes that are `away` from the broker, one way.
    pub(crate) async fn far(roles: &[&str], away: Duration) -> Self {
        Self::made(roles, "", Some(away)).await
    }

    async fn made(roles: &[&str], more: &str, away: Option<Duration>) -> Self {
        let net = Net::new().await;
        let dir = tempfile::tempdir().unwrap();
        let host = Desk::new(net.place("host").await, dir.path());
        let mut it = Self {
            nodes: Vec::new(),
            broker: serve(&host, more).await,
            ways: Vec::new(),
            net,
            dir,
        };
        let broker = host.place.address();
        for role in roles {
            let mut address = broker;
            if let Some(away) = away {
                let relay = it.net.place(&format!("way-{role}")).await;
                let to = (broker, PORT).into();
                let way = delay::carry(&relay.machine, PORT, to, away).await;
                address = relay.address();
                it.ways.push((way, relay));
            }
            it.join(role, address).await;
        }
        it
    }

    /// Starts one more node, on a machine of its own.
    async fn join(&mut self, role: &str, address: Ipv4Addr) {
        let place = self.net.place(&format!("desk-{role}")).await;
        let desk = Desk::new(place, self.dir.path());
        let node = join(&self.broker.desk, &desk, role, address).await;
        self.nodes.push(node);
        self.until_there(self.nodes.len() - 1).await;
    }

    /// Until the broker says that a node is there.
    async fn until_there(&self, node: usize) {
        until(async || {
            self.status(node).await["nodes"].as_array().is_some_and(|it| node < it.len())
        })
        .await;
    }

    /// What the broker knows, as it tells a node that can reach it.
    pub(crate) async fn status(&self, node: usize) -> Value {
        let output = self.nodes[node].desk.run("tasuki status --json").await;
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    /// Whether the broker, as it tells `asked`, knows of anybody who waits as `role`.
    pub(crate) async fn is_waiting(&self, role: &str, asked: usize) -> bool {
        let status = self.status(asked).await;
        let roles = status["roles"].as_array().into_iter().flatten();
        let mut of = roles.filter(|it| it["role"] == role);
        of.any(|it| it["waits"].as_array().is_some_and(|waits| !waits.is_empty()))
    }

    /// A desk that has not joined.
    pub(crate) async fn guest(&self, name: &str) -> Desk {
        Desk::new(self.net.place(name).await, self.dir.path())
    }

    pub(crate) fn host_home(&self) -> &Path {
        &self.broker.desk.home
    }

    pub(crate) fn place(&self, node: usize) -> &Place {
        &self.nodes[node].desk.place
    }

    pub(crate) fn host(&self) -> &Place {
        &self.broker.desk.place
    }

    /// An agent beside a node, that plays its role.
    pub(crate) async fn seat(&self, node: usize, role: &str, transport: Transport) -> Seat {
        Seat::new(&self.nodes[node].desk, role, transport).await
    }

    /// The history as one node is told it.
    pub(crate) async fn history(&self, node: usize) -> Vec<Value> {
        self.nodes[node].desk.json(HISTORY).await
    }

    /// Every node is told the same: turns 1 to `turns`, each ended once by its words, which A
    /// and B said in turn.
    pub(crate) async fn check(&self, turns: u64) {
        let history = self.history(0).await;
        for node in 1..self.nodes.len() {
            assert_eq!(self.history(node).await, history);
        }
        let told: Vec<_> = history
            .iter()
            .map(|it| (it["ended_turn"].as_u64().unwrap(), it["summary"].as_str().unwrap()))
            .collect();
        let said: Vec<_> = (1..=turns)
            .map(|turn| (turn, words(if turn % 2 == 1 { "A" } else { "B" }, turn)))
            .collect();
        let said: Vec<_> = said.iter().map(|(turn, words)| (*turn, words.as_str())).collect();
        assert_eq!(told, said);
    }
}

/// Starts the broker of a host, for whoever may reach it.
async fn serve(host: &Desk, more: &str) -> Process {
    let line = format!("tasuki-broker serve --listen 0.0.0.0:{PORT} {more}");
    host.start(&line, "(broker gRPC)").await
}

/// Lets a desk join the broker, which it reaches at `address`, and starts its node.
async fn join(host: &Desk, desk: &Desk, role: &str, address: Ipv4Addr) -> Process {
    let said = host.says(&format!("tasuki-broker invite --role {role} {RIGHTS}")).await;
    let line = said.lines().map(str::trim).find(|line| line.starts_with("tasuki join ")).unwrap();
    let own = format!("//{}:", host.place.address());
    assert!(line.contains(&own), "{line}");
    desk.says(&line.replace(&own, &format!("//{address}:"))).await;
    desk.start("tasuki node", "(MCP)").await
}
