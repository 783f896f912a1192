//! The agents of one address, as the transports see them.

use std::sync::Arc;

use super::{
    address::Address,
    agent::{Agent, Link},
    host::{Host, Scope},
    instances::Open,
    tools,
    transport::{
        bearer::Bearer,
        service::{ConnectionGuard, McpService, ServerStats, StreamGuard},
    },
};
use crate::{
    hooks::Hooks,
    role::{Connected, Overview, player::Ended},
};

/// The agents of one address.
pub(super) struct Agents {
    pub host: Arc<Host>,
    pub scope: Scope,
}

impl Agents {
    fn agent(&self, link: Link) -> Agent {
        let notices = Arc::default();
        Agent { host: Arc::clone(&self.host), scope: self.scope.clone(), link, notices }
    }

    fn open(&self, address: &Address, what: Ended) -> Open {
        self.host.instances.open(self.scope.roles(&self.host), &address.who(), what)
    }
}

impl McpService for Agents {
    type Handler = Agent;

    fn of_requests(&self) -> Agent {
        self.agent(Link::Requests)
    }

    fn of_connection(&self, opening: &http::request::Parts) -> Agent {
        let address = Address::of(opening);
        let line = opening.extensions.get::<ConnectionGuard>().cloned().unwrap_or_default();
        let open = Arc::new(self.open(&address, line.what));
        let by = Bearer::of(opening).cloned();
        self.agent(Link::Connection { address, line, by, present: Arc::default(), _open: open })
    }

    fn stream(&self, opening: &http::request::Parts) -> Option<StreamGuard> {
        Some(Box::new(self.open(&Address::of(opening), Ended::Stream)))
    }

    fn left(&self, closing: &http::request::Parts) {
        // Who is done with one server has not left its role.
        if self.scope.server().is_some() {
            return;
        }
        let who = Address::of(closing).who();
        for role in self.host.instances.left(self.scope.roles(&self.host), &who) {
            if let Some(actions) = self.host.roles.get(role) {
                actions.left(&who);
            }
        }
    }

    fn under_way(&self) -> ServerStats {
        let roles = self.host.roles.iter();
        ServerStats {
            glance: self.host.overview.as_deref().map(Overview::at_a_glance),
            calls: self.host.calls_in_flight(),
            waits: roles.map(|(role, actions)| (role.clone(), actions.open_waits())).collect(),
            hooks: self.host.hooks.as_ref().map(Hooks::report).unwrap_or_default(),
            mirror: self
                .host
                .mirror
                .as_ref()
                .map(crate::mirror::Mirror::report)
                .unwrap_or_default(),
        }
    }

    fn tools(&self) -> Vec<&'static str> {
        tools::names(&self.scope.toolsets(&self.host))
    }

    fn connected(&self, opening: &http::request::Parts, client: &str) -> Option<Connected> {
        let (actions, who) = (self.scope.only(&self.host)?, Address::of(opening).who());
        self.host.heard(&**actions, &who, client);
        Some(actions.connected(&who))
    }
}
