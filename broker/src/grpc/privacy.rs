//! `Privacy`: the roster of a workspace whose mail is private, and keys that wait for one.
//!
//! Signatures are looked at here; what is refused for want of a good one reaches no workspace.

use tasuki_proto::{
    private::{NodeKey, SignedRoster},
    wire::{self, privacy_server::Privacy},
};
use tonic::{Request, Response, Status};

use super::{Service, status};
use crate::rules::{Command, privacy};

#[tonic::async_trait]
impl Privacy for Service {
    async fn get_roster(
        &self,
        request: Request<wire::GetRosterRequest>,
    ) -> Result<Response<wire::GetRosterResponse>, Status> {
        let (session, _) = self.services.enter(request, |it| it.caller.take())?;
        let seen = session.look(|view| {
            let privacy = &view.workspace.privacy;
            let pending = privacy.pending.values();
            wire::GetRosterResponse {
                roster: privacy.roster.as_ref().map(SignedRoster::to_wire),
                pending: pending.map(|it| it.key.to_wire(it.published.as_millis())).collect(),
                now_ms: view.now.as_millis(),
            }
        });
        Ok(Response::new(seen.await?))
    }

    async fn set_roster(
        &self,
        request: Request<wire::SetRosterRequest>,
    ) -> Result<Response<wire::SetRosterResponse>, Status> {
        let (session, mut it) = self.services.enter(request, |it| it.caller.take())?;
        let key = session.key(it.key.take(), &it)?;
        let signed = SignedRoster::of_wire(&it.roster.unwrap_or_default());
        let signed =
            signed.map_err(|why| status::invalid("roster", &format!("is no roster: {why}")))?;
        if signed.roster().workspace != session.workspace {
            let why = format!("is of the workspace {}", signed.roster().workspace);
            return Err(status::invalid("roster", &why));
        }
        let command = Command::Privacy(privacy::Command::SetRoster(signed));
        let repeated = session.execute(Some(key), command).await?.is_repeat;
        Ok(Response::new(wire::SetRosterResponse { repeated }))
    }

    async fn publish_key(
        &self,
        request: Request<wire::PublishKeyRequest>,
    ) -> Result<Response<wire::PublishKeyResponse>, Status> {
        let (session, mut it) = self.services.enter(request, |it| it.caller.take())?;
        let key = session.key(it.key.take(), &it)?;
        let node_key = NodeKey::of_wire(&session.workspace, &it.node_key.unwrap_or_default());
        let node_key = node_key
            .map_err(|why| status::invalid("node_key", &format!("does not hold: {why}")))?;
        let command = Command::Privacy(privacy::Command::Publish(node_key));
        let repeated = session.execute(Some(key), command).await?.is_repeat;
        Ok(Response::new(wire::PublishKeyResponse { repeated }))
    }
}
