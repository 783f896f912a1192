//! A broker whose mail is not private.

use tasuki_proto::wire::{self, privacy_server::Privacy};
use tonic::{Request, Response, Status};

/// What serves it; it has nothing to remember.
#[derive(Debug, Clone, Copy)]
pub(super) struct NeverPrivate;

#[tonic::async_trait]
impl Privacy for NeverPrivate {
    async fn get_roster(
        &self,
        _: Request<wire::GetRosterRequest>,
    ) -> Result<Response<wire::GetRosterResponse>, Status> {
        Ok(Response::new(wire::GetRosterResponse::default()))
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
