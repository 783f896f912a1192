//! The wire, in and out. An endpoint parses, has a workspace execute or query, and renders; it
//! decides nothing.
//!
//! `auth` stands in front of all calls and has `observe` count them; `endpoint` takes each the same
//! way, `session` is between them and the workspaces. One file or folder a noun, with the rendering
//! of its events for the `feed`. `waits` are answered later; `scan` looks through long lists part by
//! part; `parse`, `render` and `status` are what nouns share.

mod access;
mod admin;
mod auth;
mod board;
mod changes;
mod directory;
mod endpoint;
mod events;
mod feed;
mod guard;
mod health;
mod mailbox;
mod observe;
mod parse;
mod pipeline;
mod privacy;
mod relay;
mod render;
mod run;
mod scan;
mod session;
mod status;
mod swarm;
mod turn_loop;
mod waits;

use tasuki_proto::{DESCRIPTORS, for_each_request, wire};
use tokio_util::sync::CancellationToken;
use tonic::{body::Body, service::Routes};
use tower::{BoxError, util::BoxCloneSyncService};

pub(crate) use self::auth::{call_metrics, penalise, shown as shown_token};
pub use self::{
    admin::{compact_report, data_report},
    auth::{Guard, Guarded},
    health::Probe,
};
use self::{
    endpoint::{
        Answer, Endpoint, Later, LaterRefusal, QUESTION_BYTES_MAX, at_once, default_response, only,
        refuse, streaming, unary,
    },
    session::{Admitted, Services, WorkspaceSession},
};
use crate::{access::Tokens, journal::sled::SledJournal, search::Search, workspace::Workspaces};

/// What carries calls of the API: in this process, or over a network. Cheap to clone.
pub type Carrier = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, BoxError>;

/// All services of the broker.
///
/// # Errors
/// When the descriptors built into this program are not readable.
pub fn routes(
    workspaces: &Workspaces,
    tokens: &Tokens,
    search: &Search,
    probe: &Probe,
    stopping: &CancellationToken,
    storage: &SledJournal,
) -> Result<Routes, tonic_reflection::server::Error> {
    let services = Services::new(
        workspaces.clone(),
        tokens.clone(),
        search.clone(),
        stopping.clone(),
        storage.clone(),
    );
    let mut router = Routes::default().into_axum_router();
    macro_rules! route {
        ($($request:ident)*) => { $(router = unary::<wire::$request>(router, &services);)* };
    }
    for_each_request!(route);
    router = streaming(router, &services, "/tasuki.v1.Waits/Park", waits::park);
    router = streaming(router, &services, "/tasuki.v1.Feed/Subscribe", feed::subscribe);
    router = streaming(router, &services, "/tasuki.v1.Admin/Backup", admin::backup);
    router = streaming(router, &services, "/tasuki.v1.Admin/Verify", admin::verify);
    router = streaming(router, &services, "/tasuki.v1.Admin/Compact", admin::compact);
    router = streaming(router, &services, "/tasuki.v1.Runs/WatchRun", run::watch);
    router = streaming(router, &services, "/tasuki.v1.Runs/WatchReads", run::watch_reads);
    router =
        streaming(router, &services, "/tasuki.v1.Pipelines/WatchPhases", pipeline::watch_phases);
    router = streaming(router, &services, "/tasuki.v1.Relay/WatchTools", relay::watch_tools);
    router = streaming(router, &services, "/tasuki.v1.Relay/CallTool", relay::call_tool);
    router = streaming(router, &services, "/tasuki.v1.Relay/ServeTools", relay::serve_tools);
    router = streaming(router, &services, "/tasuki.v1.Mailbox/PutAttachment", mailbox::put_file);
    router = streaming(router, &services, "/tasuki.v1.Mailbox/GetAttachment", mailbox::get_file);
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(Routes::from(router)
        .add_service(health::server(probe.clone()).max_decoding_message_size(QUESTION_BYTES_MAX))
        .add_service(reflection().build_v1()?.max_decoding_message_size(QUESTION_BYTES_MAX))
        .add_service(reflection().build_v1alpha()?.max_decoding_message_size(QUESTION_BYTES_MAX)))
}
