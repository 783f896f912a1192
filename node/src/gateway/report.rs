//! How servers and remote roles stand, for the command line and the dashboard.

use std::collections::BTreeMap;

use futures::{FutureExt as _, future::BoxFuture};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tasuki_broker::dashboard::{ChangedTool, ToolServer, ToolServers};

use super::{Gateway, Offer, Phase, RemoteRole, RoleProvider, Server};

/// A server, or a role of another node, as `tasuki gateway status` shows it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ServerReport {
    pub name: String,
    /// Its command or address.
    pub endpoint: String,
    /// `starting`, `ready` or `offline`.
    pub state: String,
    /// Why it is offline.
    pub why: String,
    /// Seconds for which it has been offline.
    pub offline_sec: u64,
    /// Calls are refused for a while: it failed several times in a row.
    pub is_failing: bool,
    pub restarts: u64,
    /// Its name and version, as it says.
    pub version: String,
    pub protocol: String,
    pub tools: usize,
    pub prompts: usize,
    pub resources: usize,
    /// Calls under way.
    pub in_flight: usize,
    /// Tools that changed and wait for a person.
    pub held: Vec<HeldTool>,
    /// Tools that are not shown.
    pub refused: Vec<RefusedTool>,
}

/// A tool before and after it changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HeldTool {
    pub tool: String,
    /// Names this change, for whoever approves it.
    pub digest: String,
    /// Characters of it that are not shown.
    #[serde(default)]
    pub hidden: usize,
    /// As it was approved, and as it is now.
    pub approved: Value,
    pub current: Value,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RefusedTool {
    pub tool: String,
    pub why: String,
}

impl ServerReport {
    fn of_server(server: &Server) -> Self {
        let view = server.view();
        let (state, why) = match view.phase {
            Phase::Starting => ("starting", String::new()),
            Phase::Ready => ("ready", String::new()),
            Phase::Offline { ref why, .. } => ("offline", why.clone()),
        };
        Self {
            name: server.name().to_owned(),
            endpoint: server.settings.transport.endpoint(),
            state: state.to_owned(),
            why,
            offline_sec: view.offline_since().map_or(0, |since| since.elapsed().as_secs()),
            is_failing: server.is_failing(),
            restarts: view.restarts,
            version: view.version,
            protocol: view.protocol,
            in_flight: server.in_flight(),
            ..Self::of_offer(&view.offer)
        }
    }

    fn of_services(services: &dyn RoleProvider) -> Self {
        let role = services.role();
        Self {
            name: role.to_string(),
            endpoint: format!("services of role {role}, on this node"),
            state: "ready".to_owned(),
            tools: services.tools().len(),
            ..Self::default()
        }
    }

    fn of_role(role: &RemoteRole) -> Self {
        let view = role.view();
        let (state, why) = match view.offline_since {
            None => ("ready", ""),
            Some(_) => ("offline", "its node is not connected"),
        };
        Self {
            name: role.name().to_string(),
            endpoint: format!("role {}, through the broker", role.name()),
            state: state.to_owned(),
            why: why.to_owned(),
            offline_sec: view.offline_since.map_or(0, |since| since.elapsed().as_secs()),
            ..Self::of_offer(&view.offer)
        }
    }

    fn of_offer(offer: &Offer) -> Self {
        let held = offer.held.iter().map(|(tool, held)| HeldTool {
            tool: tool.clone(),
            digest: held.digest(),
            hidden: held.hidden(),
            approved: json!(held.approved),
            current: json!(held.shown),
        });
        let refused = offer.refused.iter();
        let refused =
            refused.map(|(tool, why)| RefusedTool { tool: tool.clone(), why: why.clone() });
        Self {
            tools: offer.tools.len(),
            prompts: offer.prompts.len(),
            resources: offer.resources.len() + offer.templates.len(),
            held: held.collect(),
            refused: refused.collect(),
            ..Self::default()
        }
    }
}

impl Gateway {
    /// How each server stands, and each role of another node that exports tools.
    pub fn reports(&self) -> Vec<ServerReport> {
        let servers = self.servers().iter().map(|server| ServerReport::of_server(server));
        let services = self.services().iter().map(|it| ServerReport::of_services(&**it));
        let roles = self.roles();
        let roles = roles.iter().map(|role| ServerReport::of_role(role));
        servers.chain(services).chain(roles).collect()
    }
}

impl ToolServers for Gateway {
    fn list(&self) -> Vec<ToolServer> {
        let catalogue = self.catalogue();
        let mut tools: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
        for tool in &catalogue.tools {
            let description = tool.listing.description.clone().unwrap_or_default().into();
            let own = tools.entry(tool.provider.name()).or_default();
            own.push((tool.name().to_owned(), description));
        }
        let reports = self.reports().into_iter();
        reports.map(|report| tool_server(&mut tools, report)).collect()
    }

    fn approve(
        &self,
        server: String,
        digests: BTreeMap<String, String>,
    ) -> BoxFuture<'_, Result<(), String>> {
        async move {
            match Self::approve(self, &server, &digests).await {
                Some(approved) => approved.map(drop),
                None => Err(format!("there is no server {server}")),
            }
        }
        .boxed()
    }
}

/// A report as a page shows it, with those of the tools that are the server's.
fn tool_server(
    tools: &mut BTreeMap<&str, Vec<(String, String)>>,
    report: ServerReport,
) -> ToolServer {
    let json = |tool: &Value| serde_json::to_string_pretty(tool).unwrap_or_default();
    let held = report.held.into_iter().map(|held| ChangedTool {
        approved: json(&held.approved),
        current: json(&held.current),
        tool: held.tool,
        digest: held.digest,
    });
    ToolServer {
        tools: tools.remove(&*report.name).unwrap_or_default(),
        is_ready: report.state == "ready",
        name: report.name,
        endpoint: report.endpoint,
        state: report.state,
        why: report.why,
        version: report.version,
        restarts: report.restarts,
        in_flight: report.in_flight,
        held: held.collect(),
        refused: report.refused.into_iter().map(|it| (it.tool, it.why)).collect(),
    }
}
