//! What `tasuki status` asks: a page or all of a list, each in few calls however many roles there
//! are.

use std::collections::BTreeMap;

use serde_json::Value;
use tasuki_broker::overview::{self, Overview};
use tasuki_proto::wire;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::super::{Failure, access::Access, broker::Broker, node_address, outbox::Waiting};
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

/// Everything at one moment.
pub(super) struct Gathered {
    pub url: String,
    pub health: ServingStatus,
    pub overview: Overview,
    /// What each role is shown, if it is shown any.
    pub tools: BTreeMap<String, Tools>,
    pub access: Option<Access>,
    pub workspace: String,
    /// The node that runs with this data directory, if it is one of them.
    pub here: Option<String>,
    /// Why that one does not reach the broker.
    pub unlinked: Option<String>,
    /// Of the node here.
    pub hooks: Vec<hooks::Report>,
    pub outbox: Waiting,
    /// On disk, of the node here.
    pub mailboxes: Vec<mirror::Report>,
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
    let mut overview = overview::gather(broker).await?;
    if overview.now_ms == 0 {
        overview.now_ms = clock::wall_ms();
    }
    let data = &config.data.value;
    let node = NodeFile::read(data).filter(|node| broker.has(node));
    let told = told_by_node(config, |_| true).await.unwrap_or_default();
    let part = |field: &str| told.get(field).cloned().unwrap_or_default();
    let unlinked = || told["broker"]["why"].as_str().map(ToOwned::to_owned);
    let here = node.as_ref().and_then(|file| {
        let is_here = |node: &&wire::Node| file.roles.iter().all(|it| node.roles.contains(it));
        Some(overview.nodes.iter().filter(|it| !it.roles.is_empty()).find(is_here)?.node.clone())
    });
    let mut sizes = ToolSizes::default();
    // Whoever no node hosts is shown none.
    let hosted = overview.roles.iter().map(|it| &it.role).filter(|it| !it.node.is_empty());
    let tools =
        hosted.map(|role| (role.role.clone(), sizes.of(&toolsets(role, config, node.as_ref()))));
    Ok(Gathered {
        url: broker.url.clone(),
        health,
        tools: tools.collect(),
        overview,
        access,
        workspace: broker.workspace().to_string(),
        here,
        unlinked: node.as_ref().and_then(|_| unlinked()),
        hooks: serde_json::from_value(part("hooks")).unwrap_or_default(),
        outbox: Waiting::count(data),
        mailboxes: serde_json::from_value(part("mirror")).unwrap_or_default(),
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

/// Bytes of JSON to a token, as models count them, roughly.
const TOKEN_BYTES: usize = 4;

/// The tools that a role is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tools {
    pub count: usize,
    pub bytes: usize,
}

impl Tools {
    /// About.
    pub(super) const fn tokens(self) -> usize {
        self.bytes.div_ceil(TOKEN_BYTES)
    }
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
