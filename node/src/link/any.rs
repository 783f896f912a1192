//! Requests and responses of any call, for whoever passes them on without looking into them.

use std::any::Any;

use futures::{FutureExt as _, future::BoxFuture};
use tasuki_proto::{
    id::RoleId,
    rpc::{Call, Rpc},
    wire,
};
use tonic::{Response, Status};

use super::{call::from_this_node, channel::Channel};

/// A request, whichever call's it is.
pub struct AnyRequest(Box<dyn Erased>);

/// The response to an [`AnyRequest`]: of the type that its call answers with.
pub type AnyResponse = Box<dyn Any + Send>;

impl AnyRequest {
    pub fn new<R: Rpc>(request: R) -> Self {
        Self(Box::new(request))
    }

    pub fn call(&self) -> &'static Call {
        self.0.call()
    }

    /// Fills in who acts, and under which key.
    pub(super) fn address(&mut self, role: &RoleId, key: Option<wire::IdempotencyKey>) {
        self.0.address(role, key);
    }

    pub(super) fn send(
        &self,
        channel: Channel,
        caller: wire::Caller,
    ) -> BoxFuture<'static, Result<Response<AnyResponse>, Status>> {
        self.0.send(channel, caller)
    }
}

impl std::fmt::Debug for AnyRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AnyRequest").field(&self.call().path).finish()
    }
}

trait Erased: Send + Sync {
    fn call(&self) -> &'static Call;

    fn address(&mut self, role: &RoleId, key: Option<wire::IdempotencyKey>);

    fn send(
        &self,
        channel: Channel,
        caller: wire::Caller,
    ) -> BoxFuture<'static, Result<Response<AnyResponse>, Status>>;
}

impl<R: Rpc> Erased for R {
    fn call(&self) -> &'static Call {
        R::CALL
    }

    fn address(&mut self, role: &RoleId, key: Option<wire::IdempotencyKey>) {
        let envelope = self.envelope();
        if let Some(field) = envelope.role {
            *field = role.to_string();
        }
        if let Some(field) = envelope.key {
            *field = key;
        }
    }

    fn send(
        &self,
        channel: Channel,
        caller: wire::Caller,
    ) -> BoxFuture<'static, Result<Response<AnyResponse>, Status>> {
        let sent = from_this_node(self.clone())(channel, caller);
        async move { Ok(sent.await?.map(|response| Box::new(response) as AnyResponse)) }.boxed()
    }
}
