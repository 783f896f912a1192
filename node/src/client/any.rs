//! Requests and responses of any call, for whoever passes them on without looking into them.

use std::any::Any;

use futures::{FutureExt as _, future::BoxFuture};
use tasuki_proto::{
    id::RoleId,
    rpc::{self, Call, Rpc},
    trace::{self, TraceContext},
    wire,
};
use tonic::{Response, Status};
use tracing::{Instrument as _, Span};

use super::channel::Channel;

/// What a call came to.
pub type Answering<T> = BoxFuture<'static, Result<Response<T>, Status>>;

/// A request, whichever call's it is, and what it belongs to: it may be sent by another task than
/// that which made it.
pub struct AnyRequest {
    request: Box<dyn Erased>,
    trace: Option<TraceContext>,
    span: Span,
}

/// The response to an [`AnyRequest`]: of the type that its call answers with.
pub type AnyResponse = Box<dyn Any + Send>;

impl AnyRequest {
    pub fn new<R: Rpc>(request: R) -> Self {
        Self { request: Box::new(request), trace: trace::current(), span: Span::current() }
    }

    pub fn call(&self) -> &'static Call {
        self.request.call()
    }

    /// The request, if it is one of this call.
    pub fn downcast_ref<R: Rpc>(&self) -> Option<&R> {
        self.request.as_any().downcast_ref()
    }

    /// Fills in which role acts or asks, unless the request names one.
    pub fn set_role(&mut self, role: &RoleId) {
        self.request.set_role(role);
    }

    pub fn set_key(&mut self, key: wire::IdempotencyKey) {
        self.request.set_key(key);
    }

    /// Sends a copy as the node that `caller` names.
    pub fn send(&self, channel: Channel, caller: wire::Caller) -> Answering<AnyResponse> {
        let sent = self.request.send(channel, caller).instrument(self.span.clone());
        match self.trace.clone() {
            Some(trace) => trace.scope(sent).boxed(),
            None => sent.boxed(),
        }
    }
}

impl std::fmt::Debug for AnyRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AnyRequest").field(&self.call().path).finish()
    }
}

trait Erased: Send + Sync {
    fn as_any(&self) -> &dyn Any;

    fn call(&self) -> &'static Call;

    fn set_role(&mut self, role: &RoleId);

    fn set_key(&mut self, key: wire::IdempotencyKey);

    fn send(&self, channel: Channel, caller: wire::Caller) -> Answering<AnyResponse>;
}

impl<R: Rpc> Erased for R {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn call(&self) -> &'static Call {
        R::CALL
    }

    fn set_role(&mut self, role: &RoleId) {
        if let Some(field) = self.envelope().role
            && field.is_empty()
        {
            *field = role.to_string();
        }
    }

    fn set_key(&mut self, key: wire::IdempotencyKey) {
        Rpc::set_key(self, Some(key));
    }

    fn send(&self, channel: Channel, caller: wire::Caller) -> Answering<AnyResponse> {
        let sent = send_as(self, channel, caller);
        async move { Ok(sent.await?.map(|response| Box::new(response) as AnyResponse)) }.boxed()
    }
}

/// Sends a copy of a request as the node that `caller` names.
pub fn send_as<R: Rpc>(
    request: &R,
    channel: Channel,
    caller: wire::Caller,
) -> Answering<R::Response> {
    let mut request = request.clone();
    request.set_caller(caller);
    rpc::send(channel, request).boxed()
}
