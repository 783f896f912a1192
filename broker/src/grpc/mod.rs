//! The wire, in and out. A handler parses, asks a workspace, and renders; it decides nothing.
//!
//! One file per service; `parse` turns messages into values that are already valid, `render`
//! the other way, `status` names why not, `scan` looks through long lists part by part. `auth`
//! stands in front of them all, and `session` between them and the workspaces.

mod access;
mod auth;
mod directory;
mod feed;
mod health;
mod mailbox;
mod parse;
mod privacy;
mod render;
mod scan;
mod session;
mod status;
mod swarm;
mod turn_loop;
mod waits;

use tasuki_proto::{
    DESCRIPTORS,
    limits::MESSAGE_BYTES_MAX,
    wire::{
        access_server::AccessServer, directory_server::DirectoryServer, feed_server::FeedServer,
        mailbox_server::MailboxServer, privacy_server::PrivacyServer, swarm_server::SwarmServer,
        turn_loop_server::TurnLoopServer, waits_server::WaitsServer,
    },
};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

pub use self::auth::{Guard, Guarded};
use self::session::Services;
use crate::{access::Tokens, search::Search, workspace::Workspaces};

/// A message without texts that agents wrote, in bytes: 64 roles with 16 toolsets each, of names
/// as long as may be. What is announced is set aside at once, so it may not be announced larger.
const QUESTION_BYTES_MAX: usize = 128 * 1024;

/// What every service shares.
#[derive(Debug, Clone)]
struct Service {
    services: Services,
    /// Ends streams when the broker stops.
    stopping: CancellationToken,
}

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
    let services = Services::new(workspaces.clone(), tokens.clone(), search.clone());
    let service = Service { services, stopping: stopping.clone() };
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let turn_loop = TurnLoopServer::new(service.clone())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let directory = DirectoryServer::new(service.clone())
        .max_decoding_message_size(QUESTION_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let waits = WaitsServer::new(service.clone())
        .max_decoding_message_size(QUESTION_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let feed = FeedServer::new(service.clone())
        .max_decoding_message_size(QUESTION_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let access = AccessServer::new(service.clone())
        .max_decoding_message_size(QUESTION_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let mailbox = MailboxServer::new(service.clone())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let privacy = PrivacyServer::new(service.clone())
        .max_decoding_message_size(QUESTION_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let swarm = SwarmServer::new(service.clone())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    Ok(Routes::new(turn_loop)
        .add_service(mailbox)
        .add_service(swarm)
        .add_service(access)
        .add_service(directory)
        .add_service(waits)
        .add_service(feed)
        .add_service(privacy)
        .add_service(health::server(service).max_decoding_message_size(QUESTION_BYTES_MAX))
        .add_service(reflection().build_v1()?.max_decoding_message_size(QUESTION_BYTES_MAX))
        .add_service(reflection().build_v1alpha()?.max_decoding_message_size(QUESTION_BYTES_MAX)))
}
