//! `GET /status`: what is open in this node, counted where it is kept.
//!
//! For programs of the node's user, and for finding what was left behind. It names roles and counts
//! things; nothing an agent wrote is in it, but what programs and addresses said when a hook
//! failed, in one line. Whose turn it is the broker knows: only while it is out of reach the loops
//! are here, as they were last seen and with their age.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use serde::Serialize;
use serde_json::Value;
use tasuki_proto::wire;

use super::{
    tools,
    transport::{
        bearer::{Bearer, only_its_user},
        server::Server,
        service::{McpService, ServerStats},
    },
};
use crate::{
    hooks::Report,
    link::Phase,
    mirror,
    outbox::Counts,
    role::{NodeStatus, Seen},
};

/// Loops shown: more than anybody reads.
const LOOPS_SHOWN_MAX: usize = 500;

/// What a node says about itself.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    name: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    broker: Option<Broker>,
    /// Letters that wait for the broker, and those it refused late.
    #[serde(skip_serializing_if = "Option::is_none")]
    outbox: Option<Outbox>,
    roles: Vec<Role>,
    /// Tool calls in flight, waits among them.
    calls: usize,
    /// HTTP connections, that of the request included.
    connections: usize,
    /// Sessions of Streamable HTTP in memory, whether or not a connection of theirs is open.
    sessions: usize,
    /// Streams of HTTP+SSE.
    streams: usize,
    /// Agents connected through `tasuki mcp`.
    bridges: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hooks: Vec<Report>,
    /// The mailboxes on disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mirror: Vec<mirror::Report>,
}

#[derive(Debug, Serialize)]
struct Outbox {
    queued: usize,
    failed: usize,
}

impl From<Counts> for Outbox {
    fn from(Counts { queued, failed }: Counts) -> Self {
        Self { queued, failed }
    }
}

/// The connection to the broker.
#[derive(Debug, Serialize)]
struct Broker {
    url: String,
    state: &'static str,
    /// By this machine's clock.
    since_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// As they were last seen; nothing while the broker can be asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    loops: Vec<Value>,
}

impl From<NodeStatus> for Broker {
    fn from(glance: NodeStatus) -> Self {
        let NodeStatus { broker, link, outbox: _, loops } = glance;
        let (state, why) = match link.phase {
            Phase::Connecting => ("connecting", link.last_error),
            Phase::Connected => ("connected", None),
            Phase::Down(why) => ("out_of_reach", Some(why)),
            Phase::Refused(refusal) => ("refused", Some(refusal.message)),
        };
        let loops = loops.filter(|_| state != "connected");
        let shown = |ago, of: wire::Loop| {
            let name = of.r#loop.clone();
            let what = wire::GetLoopResponse { r#loop: Some(of), ..Default::default() };
            serde_json::to_value(tools::LoopView::new(&name, &Seen { what, ago })).ok()
        };
        let loops = loops.into_iter().flat_map(|seen| {
            let all = seen.what.loops.into_iter().take(LOOPS_SHOWN_MAX);
            all.filter_map(move |of| shown(seen.ago, of))
        });
        Self { url: broker, state, since_ms: link.since_ms, why, loops: loops.collect() }
    }
}

#[derive(Debug, Serialize)]
struct Role {
    role: String,
    waits: usize,
}

pub(super) async fn show<S: McpService>(
    State(server): State<Arc<Server<S>>>,
    by: Option<Extension<Bearer>>,
) -> Response {
    if let Err(refusal) = only_its_user(by.as_deref()) {
        return *refusal;
    }
    let ServerStats { glance, calls, waits, hooks, mirror } = server.served_to_all().under_way();
    let roles = waits.into_iter().map(|(role, waits)| Role { role: role.to_string(), waits });
    Json(Status {
        name: "tasuki",
        version: env!("CARGO_PKG_VERSION"),
        outbox: glance.as_ref().map(|glance| glance.outbox.into()),
        broker: glance.map(Broker::from),
        roles: roles.collect(),
        calls,
        connections: server.life.connections.len(),
        sessions: server.sessions(),
        streams: server.sse.count(),
        bridges: server.stdio.count(),
        hooks,
        mirror,
    })
    .into_response()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::link::LinkState;

    #[test]
    fn loops_are_shown_from_memory_only_while_the_broker_is_out_of_reach() {
        let of = wire::Loop { r#loop: "main".into(), holder: "B".into(), ..Default::default() };
        let loops = wire::ListLoopsResponse { loops: vec![of], next: String::new() };
        let mut glance = NodeStatus {
            broker: "https://b:1".into(),
            link: LinkState::down("the cable is out", 7),
            outbox: Counts::default(),
            loops: Some(Seen { what: loops, ago: Some(Duration::from_millis(42_500)) }),
        };
        let shown = serde_json::to_value(Broker::from(glance.clone())).expect("JSON");
        assert_eq!(shown["state"], "out_of_reach");
        assert_eq!((&shown["since_ms"], &shown["why"]), (&json!(7), &json!("the cable is out")));
        let of = &shown["loops"][0];
        assert_eq!((&of["loop"], &of["seen_ms_ago"]), (&json!("main"), &json!(42_500)));
        let caution = of["caution"].as_str().expect("words");
        assert!(caution.contains("42 s ago") && caution.contains("await_my_turn"), "{caution}");

        glance.link.phase = Phase::Connected;
        let shown = serde_json::to_value(Broker::from(glance)).expect("JSON");
        assert_eq!((&shown["state"], shown.get("loops")), (&json!("connected"), None));
    }
}
