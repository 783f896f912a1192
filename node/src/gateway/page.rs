//! The servers as pages show them.

use std::collections::BTreeMap;

use futures::{FutureExt as _, future::BoxFuture};
use rmcp::model::Tool;
use tasuki_broker::dashboard::{ChangedTool, ToolServer, ToolServers};

use super::{Gateway, Offer, Phase, names};

impl ToolServers for Gateway {
    fn list(&self) -> Vec<ToolServer> {
        let servers = self.servers().iter().map(|server| {
            let view = server.view();
            let (state, why) = match &view.phase {
                Phase::Starting => ("starting", String::new()),
                Phase::Ready => ("ready", String::new()),
                Phase::Offline { why, .. } => ("offline", why.clone()),
            };
            let name = &server.settings.name;
            let exposed = |tool: &Tool| names::exposed(name, &tool.name);
            ToolServer {
                name: name.to_string(),
                endpoint: server.settings.transport.endpoint(),
                state: state.to_owned(),
                is_ready: view.phase == Phase::Ready,
                why,
                version: view.version.clone(),
                restarts: view.restarts,
                in_flight: server.in_flight(),
                ..offered(&view.offer, exposed)
            }
        });
        let roles = self.roles();
        let roles = roles.iter().map(|role| {
            let view = role.view();
            let is_ready = view.offline_since.is_none();
            let name = role.name().to_string();
            let exposed = |tool: &Tool| names::exposed_of_role(&name, &tool.name);
            ToolServer {
                endpoint: format!("the role {name} on another node"),
                state: if is_ready { "ready" } else { "offline" }.to_owned(),
                is_ready,
                ..ToolServer { name: name.clone(), ..offered(&view.offer, exposed) }
            }
        });
        servers.chain(roles).collect()
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

/// The tools of an offer.
fn offered(offer: &Offer, exposed: impl Fn(&Tool) -> String) -> ToolServer {
    let json = |tool: &Tool| serde_json::to_string_pretty(tool).unwrap_or_default();
    let tools = offer.tools.iter();
    let tools = tools.map(|it| (exposed(it), it.description.clone().unwrap_or_default().into()));
    let held = offer.held.iter().map(|(tool, it)| ChangedTool {
        tool: tool.clone(),
        digest: it.digest(),
        approved: json(&it.approved),
        current: json(&it.shown),
    });
    let refused = offer.refused.iter().map(|(tool, why)| (tool.clone(), why.clone()));
    ToolServer {
        tools: tools.collect(),
        held: held.collect(),
        refused: refused.collect(),
        ..ToolServer::default()
    }
}
