//! The wire, in and out. An endpoint parses, has a workspace execute or query, and renders; it
//! decides nothing.
//!
//! `auth` stands in front of all calls; `endpoint` takes each the same way, `session` is between
//! them and the workspaces. One file or folder a noun, with the rendering of its events for the
//! `feed`. `waits` are answered later; `scan` looks through long lists part by part; `parse`,
//! `render` and `status` are what nouns share.

mod access;
mod auth;
mod directory;
mod endpoint;
mod events;
mod feed;
mod health;
mod mailbox;
mod parse;
mod privacy;
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
use tonic::service::Routes;

pub use self::auth::{Guard, Guarded};
use self::{
    endpoint::{
        Answer, Endpoint, Later, LaterRefusal, QUESTION_BYTES_MAX, at_once, default_response, only,
        refuse, streaming, unary,
    },
    session::{Admitted, Services, WorkspaceSession},
};
use crate::{access::Tokens, search::Search, workspace::Workspaces};

/// All services of the broker.
///
/// # Errors
/// When the descriptors built into this program are not readable.
pub fn routes(
    workspaces: &Workspaces,
    tokens: &Tokens,
    search: &Search,
    stopping: &CancellationToken,
) -> Result<Routes, tonic_reflection::server::Error> {
    let services =
        Services::new(workspaces.clone(), tokens.clone(), search.clone(), stopping.clone());
    let mut router = Routes::default().into_axum_router();
    macro_rules! route {
        ($($request:ident)*) => { $(router = unary::<wire::$request>(router, &services);)* };
    }
    for_each_request!(route);
    router = streaming(router, &services, "/tasuki.v1.Waits/Park", waits::park);
    router = streaming(router, &services, "/tasuki.v1.Feed/Subscribe", feed::subscribe);
    router = streaming(router, &services, "/tasuki.v1.Runs/WatchRun", run::watch);
    router = streaming(router, &services, "/tasuki.v1.Runs/WatchReads", run::watch_reads);
    router = streaming(router, &services, "/tasuki.v1.Mailbox/PutAttachment", mailbox::put_file);
    router = streaming(router, &services, "/tasuki.v1.Mailbox/GetAttachment", mailbox::get_file);
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(Routes::from(router)
        .add_service(health::server(services).max_decoding_message_size(QUESTION_BYTES_MAX))
        .add_service(reflection().build_v1()?.max_decoding_message_size(QUESTION_BYTES_MAX))
        .add_service(reflection().build_v1alpha()?.max_decoding_message_size(QUESTION_BYTES_MAX)))
}
