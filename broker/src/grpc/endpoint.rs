//! Calls of one request and one response, all in the same way: whoever calls is let into the
//! workspace that the request names, and the request is parsed, executed or looked up, and
//! rendered by its [`Endpoint`].

use std::convert::Infallible;

use axum::Router;
use futures::StreamExt as _;
use tasuki_proto::{
    limits::MESSAGE_BYTES_MAX,
    rpc::{CallKind, Rpc, RpcResponse},
};
use tonic::{Request, Response, Status, Streaming, body::Body, codegen::BoxStream, server::Grpc};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::{
    session::{Admitted, Services, WorkspaceSession},
    status,
};
use crate::{rules::Rejection, workspace::View};

/// A message without texts that agents wrote, in bytes: 1,000 roles of names as long as may be, with
/// room to spare. What is announced is set aside at once, so it may not be announced larger.
pub(super) const QUESTION_BYTES_MAX: usize = 128 * 1024;

/// Services whose messages carry texts that agents wrote.
const SERVICES_WITH_TEXTS: [&str; 7] = [
    "/tasuki.v1.TurnLoop/",
    "/tasuki.v1.Mailbox/",
    "/tasuki.v1.Swarm/",
    "/tasuki.v1.Runs/",
    "/tasuki.v1.Relay/",
    "/tasuki.v1.Board/",
    "/tasuki.v1.Pipelines/",
];

/// A request with what the broker makes of it.
pub(super) trait Endpoint: Rpc {
    /// The workspace that it names need not be there before.
    const MAKES_WORKSPACE: bool = false;

    /// How long its lists may be beyond [`QUESTION_BYTES_MAX`]. Nobody without its right announces
    /// that much, and it counts among the bytes that a token has in flight (E8).
    const LISTS_BYTES_MAX: usize = 0;

    /// What a repeat under the same key must have in common with the first: everything but the
    /// fencing token, which says what the caller holds and not what it means. A caller that was
    /// started anew says the same without it.
    fn intent(&mut self) -> Vec<u8> {
        let token = self.envelope().token.map(std::mem::take);
        let bytes = self.encode_to_vec();
        if let (Some(field), Some(token)) = (self.envelope().token, token) {
            *field = token;
        }
        bytes
    }

    fn answer(self, session: &WorkspaceSession) -> impl Future<Output = Answer<Self>> + Send;
}

pub(super) type Answer<R> = Result<<R as Rpc>::Response, Status>;

/// An answer as far as the state of the workspace says it. What is left is read from the journal,
/// where it holds the workspace's actor up no longer.
pub(super) type Later<T> = Box<dyn FnOnce(&WorkspaceSession) -> Result<T, Status> + Send>;

/// Why a call names nothing that its command could be about, as far as the state says it: the rest
/// is read in the same way.
pub(super) type LaterRefusal = Box<dyn FnOnce(&WorkspaceSession) -> Status + Send>;

/// An answer that nothing is left to read for.
pub(super) fn at_once<T: Send + 'static>(answer: T) -> Later<T> {
    Box::new(move |_| Ok(answer))
}

/// A refusal that nothing is left to read for.
pub(super) fn refuse(status: Status) -> LaterRefusal {
    Box::new(move |_| status)
}

/// Renders a command that is answered with nothing but that it took effect.
pub(super) fn default_response<T: RpcResponse, R>(
    _: &View<'_>,
    _: R,
) -> Result<Later<T>, Rejection> {
    Ok(at_once(T::default()))
}

/// Routes a call of one request and one response.
pub(super) fn unary<R: Endpoint>(router: Router, services: &Services) -> Router {
    let services = services.clone();
    let serve = service_fn(move |call: http::Request<axum::body::Body>| {
        let services = services.clone();
        let answer = service_fn(move |request: Request<R>| {
            let opened = services.open(request);
            Box::pin(async move {
                let (session, request) = opened?;
                let answer = request.answer(&session).await?;
                Ok(Response::new(sendable(R::CALL.kind, answer)?))
            })
        });
        Box::pin(async move {
            let answered = grpc(R::CALL.path, R::LISTS_BYTES_MAX).unary(answer, call).await;
            Ok::<http::Response<Body>, Infallible>(answered)
        })
    });
    router.route_service(R::CALL.path, serve)
}

/// Routes a call whose requests or responses come in a stream.
pub(super) fn streaming<Q, A, F>(
    router: Router,
    services: &Services,
    path: &'static str,
    answer: fn(Services, Admitted, Streaming<Q>) -> F,
) -> Router
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + 'static,
    F: Future<Output = Result<BoxStream<A>, Status>> + Send + 'static,
{
    let services = services.clone();
    let serve = service_fn(move |call: http::Request<axum::body::Body>| {
        let services = services.clone();
        let answer = service_fn(move |request: Request<Streaming<Q>>| {
            let services = services.clone();
            Box::pin(async move {
                let admitted = Admitted::of(&request)?;
                let answers = answer(services, admitted, request.into_inner()).await?;
                let check =
                    |it: Result<A, Status>| it.and_then(|it| sendable(CallKind::Stream, it));
                Ok(Response::new(answers.map(check).boxed()))
            })
        });
        Box::pin(async move {
            let answered = grpc(path, 0).streaming(answer, call).await;
            Ok::<http::Response<Body>, Infallible>(answered)
        })
    });
    router.route_service(path, serve)
}

/// An answer, if one message carries it.
fn sendable<A: prost::Message>(kind: CallKind, answer: A) -> Result<A, Status> {
    let bytes = answer.encoded_len();
    if MESSAGE_BYTES_MAX < bytes {
        return Err(status::answer_too_large(kind, bytes));
    }
    Ok(answer)
}

/// The one message of a stream that has one.
pub(super) async fn only<Q>(mut messages: Streaming<Q>) -> Result<Q, Status> {
    messages.message().await?.ok_or_else(|| Status::internal("the request has no message"))
}

fn grpc<A, Q>(path: &str, lists_bytes_max: usize) -> Grpc<ProstCodec<A, Q>>
where
    A: prost::Message + 'static,
    Q: prost::Message + Default + 'static,
{
    let has_texts = SERVICES_WITH_TEXTS.iter().any(|service| path.starts_with(service));
    let request_bytes_max = match has_texts {
        true => MESSAGE_BYTES_MAX,
        false => QUESTION_BYTES_MAX + lists_bytes_max,
    };
    Grpc::new(ProstCodec::default())
        .max_decoding_message_size(request_bytes_max)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use tasuki_proto::{reason::Reason, wire};

    use super::*;

    #[test]
    fn an_answer_that_outgrows_a_message_is_refused_with_a_reason() {
        let answer = |bytes| wire::ListRolesResponse {
            next: "x".repeat(bytes),
            ..wire::ListRolesResponse::default()
        };
        assert!(sendable(CallKind::Page, answer(MESSAGE_BYTES_MAX - 5)).is_ok());
        for (kind, told) in [
            (CallKind::Command, "The call took effect; do not repeat it"),
            (CallKind::Page, "Nothing was changed. Ask for less, with a filter or a lower limit"),
        ] {
            let refused = sendable(kind, answer(MESSAGE_BYTES_MAX)).unwrap_err();
            assert_eq!(Reason::of(&refused), Some(Reason::AnswerTooLarge));
            let expected =
                format!("the answer is 4194309 bytes long; one message carries 4194304. {told}");
            assert_eq!(refused.message(), expected);
        }
    }
}
