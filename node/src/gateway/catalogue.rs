//! Everything that all servers offer together, as agents see it.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};

use super::{
    find::ToolIndex,
    names,
    server::{Server, Shown, View},
};

/// Between a server's name and an address of its own: `files+file:///srv/a`. A scheme of that form
/// is a valid one.
const OF_SERVER: char = '+';

/// Said of a tool whose server is away.
const OFFLINE: &str = "[offline] ";

/// A tool as agents see it.
#[derive(Debug, Clone)]
pub struct OfferedTool {
    pub exposed: String,
    /// `None` in tests.
    pub server: Option<Arc<Server>>,
    /// Its server's own name for it.
    pub own: String,
    /// Under the name that agents see.
    pub listing: Tool,
}

impl OfferedTool {
    #[cfg(test)]
    pub fn for_tests(name: &str, description: &str, schema: serde_json::Value) -> Self {
        let schema = schema.as_object().cloned().unwrap_or_default();
        Self {
            exposed: name.to_owned(),
            server: None,
            own: name.to_owned(),
            listing: Tool::new(name.to_owned(), description.to_owned(), schema),
        }
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
    pub tools: Vec<OfferedTool>,
    pub prompts: BTreeMap<String, OfferedPrompt>,
    pub resources: Vec<(Arc<Server>, Resource)>,
    pub templates: Vec<(Arc<Server>, ResourceTemplate)>,
    /// Servers that had answered, or failed, when this was put together.
    pub settled: usize,
    index: Option<ToolIndex>,
}

impl Catalogue {
    pub fn new(servers: &[(Arc<Server>, View)]) -> Self {
        let mut tools: BTreeMap<String, OfferedTool> = BTreeMap::new();
        let mut all = Self::default();
        for (server, view) in servers {
            all.settled += usize::from(view.is_settled);
            let shown = view.shown();
            if shown == Shown::Gone {
                continue;
            }
            for tool in &view.offer.tools {
                let exposed = names::exposed(&server.settings.name, &tool.name);
                let mut listing = tool.clone();
                listing.name = Cow::Owned(exposed.clone());
                if shown == Shown::Offline {
                    let text = listing.description.unwrap_or_default();
                    listing.description = Some(format!("{OFFLINE}{text}").into());
                }
                let tool = OfferedTool {
                    exposed: exposed.clone(),
                    server: Some(Arc::clone(server)),
                    own: tool.name.to_string(),
                    listing,
                };
                tools.insert(exposed, tool);
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
        all.tools = tools.into_values().collect();
        all.index = ToolIndex::new(all.tools.iter())
            .inspect_err(|why| tracing::warn!(%why, "tools cannot be searched"))
            .ok();
        all
    }

    pub fn tool(&self, exposed: &str) -> Option<&OfferedTool> {
        let place = self.tools.binary_search_by(|it| it.exposed.as_str().cmp(exposed)).ok()?;
        self.tools.get(place)
    }

    /// Those that fit a question, the best first, of those that `is_allowed`.
    pub fn find(
        &self,
        question: &str,
        limit: usize,
        is_allowed: impl Fn(&OfferedTool) -> bool,
    ) -> Vec<&OfferedTool> {
        let found = self.index.as_ref().map(|it| it.find(question, self.tools.len()));
        let places = found.and_then(Result::ok).unwrap_or_default();
        let tools = places.into_iter().filter_map(|place| self.tools.get(place));
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
