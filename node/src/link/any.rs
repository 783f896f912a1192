//! Requests and responses of any call, for whoever passes them on without looking into them.

use std::any::Any;

use super::{call::Answering, channel::Channel};
use futures::FutureExt as _;
use tasuki_proto::{
    id::RoleId,
    rpc::{self, Call, Rpc},
    wire,
};

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

    pub(super) fn send(&self, channel: Channel, caller: wire::Caller) -> Answering<AnyResponse> {
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

    fn send(&self, channel: Channel, caller: wire::Caller) -> Answering<AnyResponse>;
}

impl<R: Rpc> Erased for R {
    fn call(&self) -> &'static Call {
        R::CALL
    }

    fn address(&mut self, role: &RoleId, key: Option<wire::IdempotencyKey>) {
        self.set_role(role);
        self.set_key(key);
    }

    fn send(&self, channel: Channel, caller: wire::Caller) -> Answering<AnyResponse> {
        let mut request = self.clone();
        request.set_caller(caller);
        let sent = rpc::send(channel, request);
        async move { Ok(sent.await?.map(|response| Box::new(response) as AnyResponse)) }.boxed()
    }
}
