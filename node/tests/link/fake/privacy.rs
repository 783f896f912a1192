//! The fake broker's roster: whatever a test puts there.

use tasuki_proto::wire::{self, privacy_server::Privacy};
use tonic::{Request, Response, Status};

use super::Service;

#[tonic::async_trait]
impl Privacy for Service {
    async fn get_roster(
        &self,
        _: Request<wire::GetRosterRequest>,
    ) -> Result<Response<wire::GetRosterResponse>, Status> {
        let roster = self.0.borrow().mail.roster.clone();
        Ok(Response::new(wire::GetRosterResponse { roster, ..Default::default() }))
    }

    async fn set_roster(
        &self,
        _: Request<wire::SetRosterRequest>,
    ) -> Result<Response<wire::SetRosterResponse>, Status> {
        Err(Status::unimplemented("nodes do not ask for this"))
    }

    async fn publish_key(
        &self,
        _: Request<wire::PublishKeyRequest>,
    ) -> Result<Response<wire::PublishKeyResponse>, Status> {
        Err(Status::unimplemented("nodes do not ask for this"))
    }
}
