//! What the feed tells of events, and to whom: each noun renders its own.

use tasuki_proto::wire::{self, event::Noun};

use super::{board, directory, guard, mailbox, pipeline, privacy, relay, run, swarm, turn_loop};
use crate::{access::Grant, rules::Event};

/// What whoever has this grant is told. `None` for what is no news to them, and for what belongs to
/// no workspace that anybody can follow.
pub(super) fn render(event: &Event, grant: &Grant) -> Option<wire::Event> {
    let noun = match event {
        Event::Directory(it) => {
            Noun::Directory(wire::DirectoryEvent { kind: Some(directory::event(it)) })
        }
        Event::Turn(it) => Noun::Turn(wire::TurnEvent { kind: Some(turn_loop::event(it)?) }),
        Event::Mail(it) => Noun::Mail(wire::MailEvent { kind: Some(mailbox::event(it, grant)?) }),
        Event::Privacy(it) => Noun::Privacy(wire::PrivacyEvent { kind: Some(privacy::event(it)) }),
        Event::Swarm(it) => Noun::Swarm(wire::SwarmEvent { kind: Some(swarm::event(it)?) }),
        Event::Run(it) => Noun::Run(wire::RunEvent { kind: Some(run::event(it)?) }),
        Event::Guard(it) => Noun::Guard(wire::GuardEvent { kind: Some(guard::event(it)) }),
        Event::Call(it) => Noun::Call(wire::CallEvent { kind: Some(relay::event(it)) }),
        Event::Board(it) => Noun::Board(wire::BoardEvent { kind: Some(board::event(it)?) }),
        Event::Pipeline(it) => {
            Noun::Pipeline(wire::PipelineEvent { kind: Some(pipeline::event(it)?) })
        }
        Event::Access(_) => return None,
    };
    Some(wire::Event { noun: Some(noun) })
}
