//! `Privacy`: the roster of a workspace whose mail is private, and keys that wait for one.
//!
//! Signatures are looked at here; what is refused for want of a good one reaches no workspace.

use tasuki_proto::{
    limits::ROSTER_BYTES_MAX,
    private::{NodeKey, SignedRoster},
    wire::{self, privacy_event::Kind},
};

use super::{Answer, Endpoint, WorkspaceSession, at_once, default_response, status};
use crate::rules::privacy;

impl Endpoint for wire::GetRosterRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let seen = session.show(None, |view| {
            let privacy = &view.workspace.privacy;
            let pending = privacy.pending.values();
            Ok(at_once(wire::GetRosterResponse {
                roster: privacy.roster.as_ref().map(SignedRoster::to_wire),
                pending: pending.map(|it| it.key.to_wire(it.published.as_millis())).collect(),
                ..Default::default()
            }))
        });
        seen.await
    }
}

impl Endpoint for wire::SetRosterRequest {
    const LISTS_BYTES_MAX: usize = ROSTER_BYTES_MAX;

    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let signed = SignedRoster::of_wire(&self.roster.unwrap_or_default());
        let signed =
            signed.map_err(|why| status::invalid("roster", &format!("is no roster: {why}")))?;
        if signed.roster().workspace != session.workspace {
            let why = format!("is of the workspace {}", signed.roster().workspace);
            return Err(status::invalid("roster", &why));
        }
        session.execute(privacy::Command::SetRoster(signed), default_response).await
    }
}

impl Endpoint for wire::PublishKeyRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let key = NodeKey::of_wire(&session.workspace, &self.node_key.unwrap_or_default());
        let key =
            key.map_err(|why| status::invalid("node_key", &format!("does not hold: {why}")))?;
        session.execute(privacy::Command::Publish(key), default_response).await
    }
}

/// What the feed tells of rosters and keys.
pub(super) fn event(event: &privacy::Event) -> Kind {
    match event {
        privacy::Event::RosterSet(it) => {
            let roster = it.roster();
            Kind::RosterSet(wire::RosterSet { number: roster.number, is_on: roster.is_on })
        }
        privacy::Event::KeyPublished(it) => {
            Kind::KeyPublished(wire::KeyPublished { node: it.key.node.to_string() })
        }
    }
}
