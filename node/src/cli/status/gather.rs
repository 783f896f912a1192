//! What `tasuki status` asks: a page or all of a list, each in few calls however many roles there
//! are.

use std::collections::BTreeMap;

use serde_json::Value;
use tasuki_proto::wire;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{
    super::{Failure, access::Access, broker::Broker, loops, node_address, outbox::Waiting},
    role::{RoleStatus, Tools},
};
use crate::{
    agent_tokens::Bearing,
    clock,
    config::Config,
    hooks,
    mcp::{self, ask},
    mirror,
    paths::NodeFile,
    toolset::{self, ToolsetChoice},
};

/// Locks, deliveries and runs that are asked for; of more it is said how many there are.
const LISTED_MAX: u32 = 200;

/// Mailboxes whose oldest unseen thread is looked for: a call each.
const MAILBOXES_LOOKED_AT_MAX: usize = 16;

/// Threads that are looked at for it.
const THREADS_LOOKED_AT_MAX: u32 = 100;

/// Everything at one moment.
pub(super) struct Gathered {
    pub url: String,
    pub health: ServingStatus,
    /// Program and version of the broker; empty: it does not say.
    pub software: String,
    pub access: Option<Access>,
    pub workspace: String,
    pub nodes: Vec<wire::Node>,
    /// The node that runs with this data directory, if it is one of them.
    pub here: Option<String>,
    /// Why that one does not reach the broker.
    pub unlinked: Option<String>,
    pub roles: Vec<RoleStatus>,
    pub loops: Vec<wire::Loop>,
    /// Of those, as many are not listed.
    pub unlisted: Unlisted,
    /// Of the node here.
    pub hooks: Vec<hooks::Report>,
    pub outbox: Waiting,
    /// On disk, of the node here.
    pub mailboxes: Vec<mirror::Report>,
    /// By the broker's clock.
    pub now_ms: u64,
}

/// How many there are beside those that were listed.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Unlisted {
    pub locks: u64,
    pub deliveries: u64,
    pub has_more_runs: bool,
}

/// What roles hold and have not seen.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    pub workers: Vec<wire::Worker>,
    pub deliveries: Vec<wire::Delivery>,
    pub locks: Vec<wire::Lock>,
    pub runs: Vec<wire::Run>,
    pub mailboxes: BTreeMap<String, wire::MailboxState>,
    /// When the oldest thread came that a role has not seen.
    pub unseen_since_ms: BTreeMap<String, u64>,
}

pub(super) async fn gather(broker: &Broker, config: &Config) -> Result<Gathered, Failure> {
    let service = String::new();
    let health = broker
        .ask(async |c| {
            HealthClient::new(c).check(HealthCheckRequest { service: service.clone() }).await
        })
        .await?
        .status();
    let access = Access::look(broker).await?;
    let wire::ListNodesResponse { nodes, software } =
        broker.call(&wire::ListNodesRequest::default()).await?;
    let roles = every_role(broker).await?;
    let loops = loops::every(broker).await?;
    let (holdings, unlisted, now_ms) = holdings(broker).await?;
    let data = &config.data.value;
    let node = NodeFile::read(data).filter(|node| broker.has(node));
    let told = told_by_node(config, |_| true).await.unwrap_or_default();
    let part = |field: &str| told.get(field).cloned().unwrap_or_default();
    let unlinked = || told["broker"]["why"].as_str().map(ToOwned::to_owned);
    let here = node.as_ref().and_then(|file| {
        let is_here = |node: &&wire::Node| file.roles.iter().all(|it| node.roles.contains(it));
        Some(nodes.iter().filter(|it| !it.roles.is_empty()).find(is_here)?.node.clone())
    });
    let mut sizes = ToolSizes::default();
    let roles = roles.into_iter().map(|role| {
        let tools = sizes.of(&toolsets(&role, config, node.as_ref()));
        RoleStatus::new(role, tools, &nodes, &loops, &holdings)
    });
    Ok(Gathered {
        url: broker.url.clone(),
        health,
        software,
        access,
        workspace: broker.workspace().to_string(),
        here,
        unlinked: node.as_ref().and_then(|_| unlinked()),
        roles: roles.collect(),
        nodes,
        loops,
        unlisted,
        hooks: serde_json::from_value(part("hooks")).unwrap_or_default(),
        outbox: Waiting::count(data),
        mailboxes: serde_json::from_value(part("mirror")).unwrap_or_default(),
        now_ms,
    })
}

/// What the node here says of itself.
pub(super) async fn told_by_node(
    config: &Config,
    is_meant: impl Fn(&NodeFile) -> bool,
) -> Option<Value> {
    let node = NodeFile::read(&config.data.value).filter(is_meant)?;
    let node = node_address::local(node, &config.data.value, &Bearing::Node);
    ask::get(&node, "/status").await.ok()
}

/// All roles of the workspace, page by page.
async fn every_role(broker: &Broker) -> Result<Vec<wire::Role>, Failure> {
    let (mut roles, mut request) = (Vec::new(), wire::ListRolesRequest::default());
    loop {
        let page = broker.call(&request).await?;
        roles.extend(page.roles);
        if page.next.is_empty() {
            return Ok(roles);
        }
        request.after = page.next;
    }
}

/// All workers, page by page.
async fn every_worker(broker: &Broker) -> Result<Vec<wire::Worker>, Failure> {
    let (mut workers, mut request) = (Vec::new(), wire::ListWorkersRequest::default());
    loop {
        let page = broker.call(&request).await?;
        workers.extend(page.workers);
        if page.next.is_empty() {
            return Ok(workers);
        }
        request.after = page.next;
    }
}

async fn holdings(broker: &Broker) -> Result<(Holdings, Unlisted, u64), Failure> {
    let workers = every_worker(broker).await?;
    let mut request = wire::ListDeliveriesRequest { limit: LISTED_MAX, ..Default::default() };
    request.set_status(wire::DeliveryStatus::InReview);
    let deliveries = broker.call(&request).await?;
    let request = wire::ListLocksRequest { limit: LISTED_MAX, ..Default::default() };
    let locks = broker.call(&request).await?;
    let request =
        wire::ListRunsRequest { only_open: true, limit: LISTED_MAX, ..Default::default() };
    let runs = broker.call(&request).await?;
    let mailboxes = broker.call(&wire::ListMailboxesRequest::default()).await?.mailboxes;
    let beside = |total: u64, listed: usize| total.saturating_sub(listed as u64);
    let unlisted = Unlisted {
        locks: beside(locks.total, locks.locks.len()),
        deliveries: beside(deliveries.total, deliveries.deliveries.len()),
        has_more_runs: runs.has_more,
    };
    let unseen = mailboxes.iter().filter(|it| it.unseen != 0).take(MAILBOXES_LOOKED_AT_MAX);
    let mut unseen_since_ms = BTreeMap::new();
    for mailbox in unseen {
        if let Some(ms) = oldest_unseen(broker, &mailbox.role).await {
            unseen_since_ms.insert(mailbox.role.clone(), ms);
        }
    }
    // A broker that was never asked before says no time.
    let now_ms = if locks.now_ms == 0 { clock::wall_ms() } else { locks.now_ms };
    let holdings = Holdings {
        workers,
        deliveries: deliveries.deliveries,
        locks: locks.locks,
        runs: runs.runs,
        mailboxes: mailboxes.into_iter().map(|it| (it.role.clone(), it)).collect(),
        unseen_since_ms,
    };
    Ok((holdings, unlisted, now_ms))
}

/// When the oldest thread of an inbox got its newest letter, of those that its role has not seen.
/// Who may not read the box does not learn it.
async fn oldest_unseen(broker: &Broker, role: &str) -> Option<u64> {
    let limit = THREADS_LOOKED_AT_MAX;
    let mut request =
        wire::ListBoxRequest { role: role.to_owned(), limit, ..wire::ListBoxRequest::default() };
    request.set_box(wire::Box::Inbox);
    let threads = broker.call(&request).await.ok()?.threads;
    threads.iter().filter(|it| it.unseen != 0).map(|it| it.latest_ms).min()
}

/// The tools that a role is shown. What its node's configuration says counts, as far as it is known
/// here: a node registers the names of sets, and not how much of each is shown.
fn toolsets(of: &wire::Role, config: &Config, here: Option<&NodeFile>) -> Vec<ToolsetChoice> {
    let is_registered = |choices: &[ToolsetChoice]| {
        choices.iter().map(|it| it.set).eq(of.toolsets.iter().map(String::as_str))
    };
    let parsed = |texts: &[String]| -> Vec<ToolsetChoice> {
        texts.iter().filter_map(|text| text.parse().ok()).collect()
    };
    let running = here.and_then(|file| file.toolsets.get(&of.role)).map(|texts| parsed(texts));
    let configured = || {
        let role = config.roles.value.iter().find(|role| role.name.as_str() == of.role)?;
        Some(role.toolsets.clone()).filter(|it| is_registered(it))
    };
    let usual = || {
        let role = of.role.parse().ok()?;
        Some(toolset::usual_toolsets(&role)).filter(|it| is_registered(it) || it.is_empty())
    };
    let running = running.filter(|it| is_registered(it));
    running.or_else(configured).or_else(usual).unwrap_or_else(|| parsed(&of.toolsets))
}

/// How large the tools of each choice are: many roles have the same.
#[derive(Default)]
struct ToolSizes(BTreeMap<String, Tools>);

impl ToolSizes {
    fn of(&mut self, choices: &[ToolsetChoice]) -> Tools {
        let key: Vec<String> = choices.iter().map(ToString::to_string).collect();
        let count =
            || Tools { count: mcp::tool_names(choices).len(), bytes: mcp::tools_bytes(choices) };
        *self.0.entry(key.join(" ")).or_insert_with(count)
    }
}
