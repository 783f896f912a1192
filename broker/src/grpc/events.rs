//! What the feed tells of events, and to whom: each noun renders its own.

use tasuki_proto::wire;

use super::{directory, mailbox, privacy, swarm, turn_loop};
use crate::{access::Grant, rules::Event};

/// What whoever has this grant is told. `None` for what is no news to them, and for what belongs to
/// no workspace that anybody can follow.
pub(super) fn render(event: &Event, grant: &Grant) -> Option<wire::Event> {
    let kind = match event {
        Event::Directory(it) => directory::event(it),
        Event::Turn(it) => turn_loop::event(it),
        Event::Mail(it) => mailbox::event(it, grant)?,
        Event::Privacy(it) => privacy::event(it),
        Event::Swarm(it) => swarm::event(it)?,
        Event::Access(_) => return None,
    };
    Some(wire::Event { kind: Some(kind) })
}
