//! Opens the response to a call that is held.
//!
//! Clients and their HTTP libraries wait for a response's head for a minute at most, some less.
//! A call of a client without a session that asks for no progress has nothing to say until it is
//! answered, and its status is known only then; so after a moment the response is opened as a
//! stream of events, whatever is answered on it later.

use std::{pin::Pin, time::Duration};

use axum::{
    body::{Body, to_bytes},
    response::Response,
};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, future::ready, stream};
use http::{
    HeaderValue, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use tokio::time::timeout;

/// An answer that is there by then needs no stream, in milliseconds.
const OPEN_MS: u64 = 200;

/// What says that the connection lives, and nothing else.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// An answer that is no stream, in bytes: above what a tool may answer.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The response of `answering`, or after a moment one that will carry it. Dropping that drops
/// `answering`. A comment is sent after each `pause` until then.
pub(super) async fn opened(
    answering: impl Future<Output = Response> + Send + 'static,
    pause: Duration,
) -> Response {
    let mut answering: Answering = Box::pin(answering);
    if let Ok(answered) = timeout(Duration::from_millis(OPEN_MS), &mut answering).await {
        return answered;
    }
    let mut response = Response::new(Body::from_stream(events(answering, pause)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn events(
    answering: Answering,
    pause: Duration,
) -> impl Stream<Item = Result<Bytes, axum::Error>> + Send {
    let comments_and_answer = stream::unfold(Some(answering), move |answering| async move {
        let mut answering = answering?;
        Some(match timeout(pause, &mut answering).await {
            Err(_) => (Said::Comment, Some(answering)),
            Ok(answer) => (Said::Answer(answer), None),
        })
    });
    let first = stream::once(ready(Said::Comment));
    first.chain(comments_and_answer).flat_map(|said| match said {
        Said::Comment => stream::once(ready(Ok(COMMENT))).left_stream(),
        Said::Answer(answer) => as_events(answer).right_stream(),
    })
}

enum Said {
    Comment,
    Answer(Response),
}

/// The events of an answer, or the one that a plain JSON answer is.
fn as_events(answer: Response) -> impl Stream<Item = Result<Bytes, axum::Error>> + Send {
    let is_stream = answer
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if is_stream {
        return answer.into_body().into_data_stream().left_stream();
    }
    let (status, body) = (answer.status(), answer.into_body());
    stream::once(async move {
        let json = to_bytes(body, ANSWER_BYTES_MAX).await?;
        if status != StatusCode::OK {
            tracing::debug!(%status, "an answer came on a response that was opened before");
        }
        Ok(Bytes::from([b"event: message\ndata: ", json.as_ref(), b"\n\n"].concat()))
    })
    .right_stream()
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    const PAUSE: Duration = Duration::from_millis(1);

    fn json(status: StatusCode) -> Response {
        let mut response = Response::new(Body::from(r#"{"id":1}"#));
        *response.status_mut() = status;
        response
    }

    #[tokio::test]
    async fn an_answer_that_is_there_soon_is_left_as_it_is() {
        let answer = opened(ready(json(StatusCode::NOT_FOUND)), PAUSE).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        assert_eq!(to_bytes(answer.into_body(), 100).await.unwrap(), r#"{"id":1}"#);
    }

    #[tokio::test]
    async fn a_held_call_is_a_stream_with_signs_of_life_and_the_answer() {
        for (answer, event) in [
            (json(StatusCode::NOT_FOUND), "event: message\ndata: {\"id\":1}\n\n"),
            (
                Response::builder()
                    .header(CONTENT_TYPE, "text/event-stream")
                    .body(Body::from("data: x\n\n"))
                    .unwrap(),
                "data: x\n\n",
            ),
        ] {
            let (answered, held) = oneshot::channel();
            let response = opened(async { held.await.unwrap() }, PAUSE).await;
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
            let mut events = response.into_body().into_data_stream();
            for _ in 0..3 {
                assert_eq!(events.next().await.unwrap().unwrap(), COMMENT);
            }
            answered.send(answer).unwrap();
            let mut last = COMMENT;
            while last == COMMENT {
                last = events.next().await.unwrap().unwrap();
            }
            assert_eq!(last, event);
            assert!(events.next().await.is_none());
        }
    }

    #[tokio::test]
    async fn a_client_that_leaves_leaves_no_call_behind() {
        let (sender, receiver) = oneshot::channel::<()>();
        let held = async move {
            let _held = sender;
            std::future::pending().await
        };
        drop(opened(held, PAUSE).await);
        assert!(receiver.await.is_err());
    }
}
