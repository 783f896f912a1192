//! Calls of the API as types: what each takes, which response belongs to which request, and how
//! one is sent.
//!
//! Everything here follows from the `.proto` files: a method's rights, kind and noun stand there
//! as options, and `build.rs` derives [`CALLS`] and [`Rpc`] from them.

use tonic::{
    Request, Response, Status,
    body::Body,
    client::{Grpc, GrpcService},
    codegen::{Body as HttpBody, Bytes, StdError, http::uri::PathAndQuery},
};
use tonic_prost::ProstCodec;

use crate::{id::RoleId, limits::MESSAGE_BYTES_MAX, token::Right, wire};

/// A method of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// `/package.Service/Method`.
    pub path: &'static str,
    pub access: Access,
    pub kind: CallKind,
    /// What the call is about, such as `task`.
    pub noun: &'static str,
    /// Its request carries an idempotency key: sent again, it takes effect once.
    pub has_key: bool,
}

/// What a token must allow for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Callers need no token.
    Public,
    /// Any valid token; none where the broker asks for none.
    AnyToken,
    /// One of these. Where there are several, the message decides which.
    Rights(&'static [Right]),
}

/// What a call does, which decides how it is bounded and whether it may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// Changes something.
    Command,
    /// Reads one thing.
    Query,
    /// Reads a list or a text, part by part.
    Page,
    /// Answers when something happened, or when the time given is over.
    Wait,
    /// Answers with a stream.
    Stream,
}

/// A request of which each is answered with one response.
pub trait Rpc: prost::Message + Default + Clone + 'static {
    type Response: RpcResponse;

    const CALL: &'static Call;

    /// The fields that say who calls.
    fn envelope(&mut self) -> Envelope<'_>;

    /// Says who calls, if the request has a place for it.
    fn set_caller(&mut self, caller: wire::Caller) {
        if let Some(field) = self.envelope().caller {
            *field = Some(caller);
        }
    }

    /// Names the command, if the request has a place for it.
    fn set_key(&mut self, key: Option<wire::IdempotencyKey>) {
        if let Some(field) = self.envelope().key {
            *field = key;
        }
    }

    /// Says which role acts or asks, if the request has a place for it.
    fn set_role(&mut self, role: &RoleId) {
        if let Some(field) = self.envelope().role {
            *field = role.to_string();
        }
    }
}

/// The fields of a request that say who calls, as far as it has them.
#[derive(Debug)]
pub struct Envelope<'a> {
    pub caller: Option<&'a mut Option<wire::Caller>>,
    pub key: Option<&'a mut Option<wire::IdempotencyKey>>,
    /// The role that acts or asks.
    pub role: Option<&'a mut String>,
    /// The fencing token of what the caller holds.
    pub token: Option<&'a mut u64>,
}

/// The answer to an [`Rpc`].
pub trait RpcResponse: prost::Message + Default + Clone + 'static {
    /// The fields that say what it rests on.
    fn envelope(&mut self) -> ResponseEnvelope<'_>;
}

/// The fields of a response that say what it rests on, as far as it has them.
#[derive(Debug)]
pub struct ResponseEnvelope<'a> {
    /// The intent had been carried out before.
    pub repeated: Option<&'a mut bool>,
    pub sequence: Option<&'a mut u64>,
    pub now_ms: Option<&'a mut u64>,
}

include!(concat!(env!("OUT_DIR"), "/rpc.rs"));

/// Sends a request over `channel`.
///
/// # Errors
/// The broker's refusal, or that the connection failed.
pub async fn send<R, C>(channel: C, request: R) -> Result<Response<R::Response>, Status>
where
    R: Rpc,
    C: GrpcService<Body>,
    C::Error: Into<StdError>,
    C::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <C::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    let mut grpc = Grpc::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let not_ready = |why: C::Error| Status::unknown(format!("not ready: {}", why.into()));
    grpc.ready().await.map_err(not_ready)?;
    let path = PathAndQuery::from_static(R::CALL.path);
    grpc.unary(Request::new(request), path, ProstCodec::default()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_declared_whole() {
        assert!(CALLS.is_sorted_by(|one, other| one.path < other.path), "searched by halves");
        for call in CALLS {
            let is_for_readers = call.access == Access::Rights(&[Right::Read]);
            let is_command = call.kind == CallKind::Command;
            assert!(!(is_for_readers && is_command), "{} changes something with `read`", call.path);
            assert!(is_command || !call.has_key, "{} has a key and changes nothing", call.path);
        }
    }

    #[test]
    fn a_request_knows_its_call_and_who_calls() {
        let mut request = wire::ClaimTaskRequest::default();
        let Envelope { caller: Some(_), key: Some(key), role: Some(role), token: None } =
            request.envelope()
        else {
            panic!("it has all three")
        };
        *key = Some(wire::IdempotencyKey { client_id: "c".to_owned(), counter: 7 });
        "dev".clone_into(role);
        assert_eq!(request.role, "dev");
        assert_eq!(request.key.unwrap().counter, 7);
        assert_eq!(wire::ClaimTaskRequest::CALL.path, "/tasuki.v1.Swarm/ClaimTask");
        assert_eq!(wire::ClaimTaskRequest::CALL.noun, "task");
    }

    #[test]
    fn a_response_knows_what_it_rests_on() {
        let mut response = wire::TaskResponse::default();
        let ResponseEnvelope {
            repeated: Some(repeated),
            sequence: Some(sequence),
            now_ms: Some(_),
        } = response.envelope()
        else {
            panic!("it has all three")
        };
        (*repeated, *sequence) = (true, 3);
        assert!(response.repeated && response.sequence == 3);
        let mut bare = wire::CreateLoopResponse::default();
        assert!(bare.envelope().sequence.is_none());
    }
}
