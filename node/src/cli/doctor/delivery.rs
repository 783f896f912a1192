//! A letter from one agent to another, for real: MCP, node, broker, its disk, and back.
//!
//! The agents are the doctor's own, on a node of its own in this process and in a workspace of their
//! own: nobody's loops, mail, hooks and roles notice. The node shows the broker what this machine's
//! nodes show it.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tasuki_proto::id::RoleId;
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf,
        WriteHalf, duplex, split,
    },
    net::TcpListener,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::finding::{Area, Finding};
use crate::{
    cli::{broker::Broker, hosting, text::line},
    clock,
    config::Config,
    credentials::{Joined, TOKEN_VARIABLE},
    identity::{DataLock, Identity, IdentityError},
    link::Phase,
    mcp::{
        self,
        bridge::{Options, bridge},
        dial::NodeAt,
    },
    node::{Node, RoleSpec, Settings},
    projects,
    toolset::MAIL,
};

/// The workspace of the letters.
pub(super) const WORKSPACE: &str = "tasuki-doctor";

/// For the whole: a registration and a few calls.
const WITHIN: Duration = Duration::from_secs(5);

/// For the node to end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A letter that nobody sees lapses after so many seconds.
const EXPIRES_SECS: u64 = 60;

/// Letters of earlier tries that are passed over.
const OLD_MAX: usize = 8;

/// Between an agent and its bridge, in bytes.
const PIPE_BYTES: usize = 64 * 1024;

/// What was found, and how many milliseconds the letter took.
pub(super) async fn delivery(config: &Config, broker: &Broker) -> (Finding, Option<u64>) {
    if let Some(why) = not_allowed(config, broker) {
        return (Finding::skipped(Area::Delivery, why, ""), None);
    }
    match timeout(WITHIN, Box::pin(try_letter(config, broker))).await {
        Ok(Ok(ms)) => {
            let what = format!("a letter went from agent to agent in {ms} ms");
            (Finding::ok(Area::Delivery, what), Some(ms))
        }
        Ok(Err(Failed::Busy)) => {
            let what = "Not tried: another `tasuki doctor` is at it.";
            (Finding::skipped(Area::Delivery, what, ""), None)
        }
        Ok(Err(Failed::Wrong(why))) => (failed(&why, config), None),
        Err(_) => {
            let secs = WITHIN.as_secs();
            (failed(&format!("it was not there after {secs} s"), config), None)
        }
    }
}

fn failed(why: &str, config: &Config) -> Finding {
    let flags = hosting::node_flags(config);
    let what = format!("A letter did not get from agent to agent: {}.", line(why));
    let mend = format!(
        "Mend what is said above first. RUST_LOG=tasuki_node=debug tasuki{flags} doctor says more."
    );
    Finding::error(Area::Delivery, what, mend)
}

/// Why this machine's token allows no workspace for it.
fn not_allowed(config: &Config, broker: &Broker) -> Option<String> {
    if std::env::var(TOKEN_VARIABLE).is_ok_and(|it| !it.trim().is_empty()) {
        return Some(format!(
            "Not tried: the token in {TOKEN_VARIABLE} may be for some roles alone."
        ));
    }
    let joined = Joined::read(&config.root).ok()??;
    let is_bound = !joined.workspace.is_empty() || !joined.is_any_role;
    (joined.is_of(&broker.url) && is_bound).then(|| {
        "Not tried: this machine's token is for its own workspace and roles, and a letter there \
         would be somebody's."
            .to_owned()
    })
}

enum Failed {
    /// Another doctor of this data directory tries one.
    Busy,
    Wrong(String),
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

impl From<IdentityError> for Failed {
    fn from(why: IdentityError) -> Self {
        match why {
            IdentityError::InUse(_) => Self::Busy,
            IdentityError::Damaged { .. } | IdentityError::Io { .. } | IdentityError::Random(_) => {
                Self::Wrong(hosting::sentence(&why).trim_end_matches('.').to_owned())
            }
        }
    }
}

async fn try_letter(config: &Config, broker: &Broker) -> Result<u64, Failed> {
    let workspace = WORKSPACE.parse().expect("an id");
    let data = projects::probe(&config.root, &workspace);
    let data = data.map_err(|why| format!("{} cannot be used: {why}", config.root.display()))?;
    // Machines that try at the same time have roles apart, each the same ones every time.
    let machine = Identity::open_at(&data, true)?.node().to_string();
    let machine = machine.rsplit('-').next().unwrap_or_default();
    let role = |what: &str| -> RoleId { format!("{what}-{machine}").parse().expect("an id") };
    let (sender, receiver) = (role("sender"), role("receiver"));
    let lock = DataLock::take(&data)?;
    let spec = |role: &RoleId| RoleSpec {
        role: role.clone(),
        toolsets: vec![MAIL.parse().expect("an id")],
        is_standby: true,
    };
    let settings = Settings {
        broker: broker.url.clone(),
        carrier: None,
        workspace,
        roles: vec![spec(&sender), spec(&receiver)],
        data,
        take_over: true,
        is_moved: true,
    };
    let node = Node::start_locked(lock, settings).await;
    let node = node.map_err(|why| hosting::sentence(&why).trim_end_matches('.').to_owned())?;
    let result = carry(&node, &sender, &receiver).await;
    node.shutdown(LAST_WORDS).await;
    Ok(result?)
}

async fn carry(node: &Node, sender: &RoleId, receiver: &RoleId) -> Result<u64, String> {
    let mut link = node.watch_link();
    let is_settled = |phase: &Phase| matches!(phase, Phase::Connected | Phase::Refused(_));
    let state = link.wait_for(|it| is_settled(&it.phase)).await;
    let phase = state.map_err(|_| "the node ended".to_owned())?.phase.clone();
    if let Phase::Refused(refusal) = phase {
        return Err(format!("the broker refuses the node: {}", refusal.message));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.map_err(|why| format!("nothing can listen on 127.0.0.1: {why}"))?;
    let address = listener.local_addr().map_err(|why| why.to_string())?;
    let actions = node.roles().iter().filter_map(|spec| node.actions(&spec.role)).collect();
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    tokio::spawn(mcp::serve(listener, actions, mcp::Settings::default(), stop));
    let url = format!("http://{address}");
    let mut from = Agent::connect(&url, sender).await?;
    let mut to = Agent::connect(&url, receiver).await?;
    let letter = json!({
        "receiver_id": receiver.as_str(), "title": "tasuki doctor", "content": "A letter that is on time.",
        "expires_sec": EXPIRES_SECS, "client_ref": format!("doctor-{}", clock::wall_ms()),
    });
    let began = clock::now();
    let sending = from.call("filebox_send_message", &letter);
    let waiting = json!({});
    let waiting = to.call("filebox_wait_for_message", &waiting);
    let (sent, mut arrived) = tokio::try_join!(sending, waiting)?;
    let sent = sent["message_id"].clone();
    for _ in 0..OLD_MAX {
        if arrived["message_id"] == sent {
            let took = clock::now().since(began);
            to.call("filebox_resolve_message", &json!({ "filename": sent })).await?;
            return Ok(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        }
        // An earlier try was cut short before it put its letter away.
        let after = json!({ "after": arrived["message_id"] });
        arrived = to.call("filebox_wait_for_message", &after).await?;
    }
    Err("other letters came instead".to_owned())
}

/// An agent that speaks MCP through `tasuki mcp`, as one of the user's does.
struct Agent {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    into: WriteHalf<DuplexStream>,
    /// Of its latest request.
    id: u64,
    bridge: JoinHandle<Result<(), String>>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.bridge.abort();
    }
}

impl Agent {
    async fn connect(url: &str, role: &RoleId) -> Result<Self, String> {
        let (ours, theirs) = duplex(PIPE_BYTES);
        let (url, options) = (url.to_owned(), Arc::new(options(role)));
        let bridge = tokio::spawn(async move {
            let (stdin, stdout) = split(theirs);
            let ended = bridge(move || NodeAt::from(url.clone()), &options, stdin, stdout).await;
            ended.map_err(|why| why.to_string())
        });
        let (read, into) = split(ours);
        let mut agent = Self { lines: BufReader::new(read).lines(), into, id: 0, bridge };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "tasuki-doctor", "version": env!("CARGO_PKG_VERSION") },
        });
        agent.request("initialize", &hello).await?;
        agent.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(agent)
    }

    /// Calls a tool; answers its structured result.
    async fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        let parameters = json!({ "name": tool, "arguments": arguments });
        let mut result = self.request("tools/call", &parameters).await?;
        let facts = result["structuredContent"].take();
        if result["isError"] == true {
            let error = facts["error"]["message"].as_str();
            let text = error.or_else(|| result["content"][0]["text"].as_str());
            return Err(format!("{tool} was refused: {}", text.unwrap_or("it does not say why")));
        }
        Ok(facts)
    }

    async fn request(&mut self, method: &str, parameters: &Value) -> Result<Value, String> {
        self.id += 1;
        let id = self.id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
        self.say(&request).await?;
        loop {
            let line = self.lines.next_line().await.map_err(|why| why.to_string())?;
            let line = line.ok_or_else(|| "the node's MCP side broke off".to_owned())?;
            let mut said: Value = serde_json::from_str(&line).map_err(|why| why.to_string())?;
            if said["id"] != id {
                continue;
            }
            if let Some(why) = said["error"]["message"].as_str() {
                return Err(format!("{method} was refused: {why}"));
            }
            return Ok(said["result"].take());
        }
    }

    async fn say(&mut self, message: &Value) -> Result<(), String> {
        let line = format!("{message}\n");
        self.into.write_all(line.as_bytes()).await.map_err(|why| why.to_string())
    }
}

fn options(role: &RoleId) -> Options {
    Options { role: Some(role.clone()), ..Options::default() }
}
