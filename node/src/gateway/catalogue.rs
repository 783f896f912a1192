//! Everything that all servers offer together, as agents see it.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};

use super::{
    find::ToolIndex,
    names,
    provider::{RoleProvider, ToolProvider},
    roles::{RemoteRole, RoleView},
    server::Server,
    view::{Shown, View},
};

/// Between a server's name and an address of its own: `files+file:///srv/a`. A scheme of that form
/// is a valid one.
const OF_SERVER: char = '+';

/// Of what fits a question, so much is looked at for what its asker may call.
const CANDIDATES_MAX: usize = 1_000;

/// Said of a tool whose server is away.
const OFFLINE: &str = "[offline] ";

/// A tool as agents see it.
#[derive(Debug)]
pub struct OfferedTool {
    pub provider: Arc<dyn ToolProvider>,
    /// Its own name, where it is.
    pub own: String,
    /// Under the name that agents see.
    pub listing: Tool,
}

impl OfferedTool {
    pub fn new(
        exposed: String,
        tool: &Tool,
        provider: Arc<dyn ToolProvider>,
        shown: Shown,
    ) -> Self {
        let mut listing = tool.clone();
        listing.name = Cow::Owned(exposed);
        if shown == Shown::Offline {
            let text = listing.description.unwrap_or_default();
            listing.description = Some(format!("{OFFLINE}{text}").into());
        }
        Self { provider, own: tool.name.to_string(), listing }
    }

    /// The name that agents see.
    pub fn name(&self) -> &str {
        &self.listing.name
    }
}

/// A prompt, under the name that agents see.
#[derive(Debug)]
pub struct OfferedPrompt {
    pub server: Arc<Server>,
    pub own: String,
    pub listing: Prompt,
}

#[derive(Debug, Default)]
pub struct Catalogue {
    /// In the order of their names.
    pub tools: Vec<Arc<OfferedTool>>,
    pub prompts: BTreeMap<String, OfferedPrompt>,
    pub resources: Vec<(Arc<Server>, Resource)>,
    pub templates: Vec<(Arc<Server>, ResourceTemplate)>,
    /// Each server had answered, or failed, when this was put together, and it was known what roles
    /// export.
    pub is_settled: bool,
    index: Option<ToolIndex>,
}

impl Catalogue {
    pub(crate) fn new(
        servers: &[(Arc<Server>, View)],
        services: &[Arc<dyn RoleProvider>],
        roles: &[(Arc<RemoteRole>, RoleView)],
    ) -> Self {
        let mut tools: BTreeMap<String, Arc<OfferedTool>> = BTreeMap::new();
        let mut all = Self::default();
        for (server, view) in servers {
            let shown = view.shown();
            if shown == Shown::Gone {
                continue;
            }
            for tool in &view.offer.tools {
                let exposed = names::exposed(&server.settings.name, &tool.name);
                let provider = Arc::clone(server);
                let tool = OfferedTool::new(exposed.clone(), tool, provider, shown);
                tools.insert(exposed, Arc::new(tool));
            }
            if shown == Shown::Offline {
                continue;
            }
            for prompt in &view.offer.prompts {
                let exposed = names::exposed(&server.settings.name, &prompt.name);
                let mut listing = prompt.clone();
                listing.name.clone_from(&exposed);
                let own = prompt.name.clone();
                all.prompts
                    .insert(exposed, OfferedPrompt { server: Arc::clone(server), own, listing });
            }
            for resource in &view.offer.resources {
                let mut listing = resource.clone();
                listing.uri = of_server(server, &resource.uri);
                all.resources.push((Arc::clone(server), listing));
            }
            for template in &view.offer.templates {
                let mut listing = template.clone();
                listing.uri_template = of_server(server, &template.uri_template);
                all.templates.push((Arc::clone(server), listing));
            }
        }
        for role in services {
            for (tool, _) in role.tools() {
                let exposed = names::exposed_of_role(role.role().as_str(), &tool.name);
                let provider: Arc<dyn ToolProvider> = Arc::clone(role) as _;
                let tool = OfferedTool::new(exposed.clone(), &tool, provider, Shown::Online);
                tools.entry(exposed).or_insert_with(|| Arc::new(tool));
            }
        }
        // They come back by way of the broker, too, and are there already.
        for (role, view) in roles {
            let shown = view.shown();
            if shown == Shown::Gone {
                continue;
            }
            for tool in &view.offer.tools {
                let exposed = names::exposed_of_role(role.name().as_str(), &tool.name);
                // Nobody elsewhere takes the name of a server here.
                let prefix = names::split(&exposed).map(|it| it.0);
                let is_taken = |(it, _): &(Arc<Server>, View)| {
                    prefix.as_ref().is_none_or(|own| it.settings.name.is_confusable(own))
                };
                if servers.iter().any(is_taken) {
                    continue;
                }
                let provider = Arc::clone(role);
                let tool = OfferedTool::new(exposed.clone(), tool, provider, shown);
                tools.entry(exposed).or_insert_with(|| Arc::new(tool));
            }
        }
        all.tools = tools.into_values().collect();
        all.index = ToolIndex::new(all.tools.iter().map(|it| &it.listing))
            .inspect_err(|why| tracing::warn!(%why, "tools cannot be searched"))
            .ok();
        all
    }

    /// By the name that agents see, or as a client spells it that writes `_` for `-`.
    pub fn tool(&self, name: &str) -> Option<&Arc<OfferedTool>> {
        if let Ok(place) = self.tools.binary_search_by(|it| it.name().cmp(name)) {
            return self.tools.get(place);
        }
        names::split(name)?;
        let mut alike = self.tools.iter().filter(|it| names::respelled(it.name()) == name);
        alike.next().filter(|_| alike.next().is_none())
    }

    /// Those that fit a question, the best first, of those that `is_allowed`.
    pub fn find(
        &self,
        question: &str,
        limit: usize,
        is_allowed: impl Fn(&OfferedTool) -> bool,
    ) -> Vec<&OfferedTool> {
        let found = self.index.as_ref().map(|it| it.find(question, CANDIDATES_MAX));
        let places = found.and_then(Result::ok).unwrap_or_default();
        let tools = places.into_iter().filter_map(|place| self.tools.get(place).map(|it| &**it));
        tools.filter(|it| is_allowed(it)).take(limit).collect()
    }
}

fn of_server(server: &Server, uri: &str) -> String {
    format!("{}{OF_SERVER}{uri}", server.name())
}

/// The server that an address names, and its own address.
pub fn split_uri(uri: &str) -> Option<(&str, &str)> {
    uri.split_once(OF_SERVER)
}
