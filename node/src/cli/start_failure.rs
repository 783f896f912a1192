//! Why a node or its broker does not start, and what to do.

use std::{io, net::SocketAddr, path::Path};

use tasuki_broker::server::StartError;
use tasuki_proto::host::{
    port_owner::{PortOwner, why_taken},
    unwritable::Unwritable,
};

use super::{Failure, hosting::sentence, text::line};
use crate::{identity::IdentityError, node::NodeError, paths::NodeFile};

/// Of an address that `flag` names.
pub(super) fn address(flag: &str, address: SocketAddr, why: &io::Error) -> Failure {
    let taken = why_taken(address, why);
    let node = PortOwner::find(address, why).and_then(|owner| {
        NodeFile::last(owner.data.as_deref()?).filter(|node| node.pid == owner.pid)
    });
    let whose = node.map(|node| format!(", the node of workspace {}", line(&node.workspace)));
    let whose = whose.unwrap_or_default();
    Failure::local(format!(
        "Nothing can listen on {address}: {taken}{whose}. Choose another address with {flag} \
         ADDRESS."
    ))
}

/// Of the broker in this process.
pub(super) fn broker(data: &Path, why: &StartError) -> Failure {
    let text = sentence(why);
    if matches!(why, StartError::Listen { .. }) {
        let text = format!("{text} Choose another address with --broker-listen ADDRESS.");
        return Failure::local(text);
    }
    with_cause(data, why.is_write_failure(), text)
}

/// Of the node.
pub(super) fn node(data: &Path, why: &NodeError) -> Failure {
    let is_write_failure = matches!(why, NodeError::Identity(IdentityError::Io { .. }));
    with_cause(data, is_write_failure, sentence(why))
}

/// Of the directory where it keeps its state.
pub(super) fn directory(data: &Path, why: &io::Error) -> Failure {
    // What this program says itself of a directory is of this kind.
    let is_write_failure = why.kind() != io::ErrorKind::Other;
    with_cause(data, is_write_failure, format!("{} cannot be used: {why}.", data.display()))
}

/// What the file system says where a write failed, else `text`.
fn with_cause(data: &Path, is_write_failure: bool, text: String) -> Failure {
    let found = if is_write_failure { Unwritable::find(data) } else { None };
    Failure::local(found.map_or(text, |why| format!("{why}.")))
}
