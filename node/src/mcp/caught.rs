//! What is answered when the node itself fails at a request.
//!
//! A panic ends the task that it comes up in, and nobody else would answer what that task was to:
//! the client would wait for ever. It is printed before it comes here, as any panic is.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use rmcp::ErrorData;

/// What whoever asked is told: how far it got, nobody knows.
const FAILED: &str = "internal error in the node; see its log. The call may or may not have taken \
                      effect. Check the state before you call again";

/// What `work` comes to; a panic in it is an error like another, of the request `method`.
///
/// What requests share is left as it would be had the panic ended the task of this one.
///
/// The work is apart from what waits for it: that has room for the work of any request, and there
/// is one for each session and each call that waits.
pub(super) fn caught<F: Future>(
    method: &'static str,
    work: F,
) -> impl Future<Output = Result<F::Output, ErrorData>> {
    AssertUnwindSafe(Box::pin(work)).catch_unwind().map(move |done| {
        done.map_err(|_| {
            // The words of the panic may be those of the request, so they are not repeated.
            tracing::error!(method, "a request made the node panic; it is answered with an error");
            ErrorData::internal_error(FAILED, None)
        })
    })
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let fails = async {
            tokio::task::yield_now().await;
            assert!(std::hint::black_box(false), "words of the request");
        };
        let why = caught("tools/call", fails).await.unwrap_err();
        assert_eq!(why.code, ErrorCode::INTERNAL_ERROR);
        assert!(why.message.contains("may not have taken effect"), "{}", why.message);
        assert!(!why.message.contains("words of the request"), "{}", why.message);
        assert_eq!(caught("tools/call", async { 1 }).await.unwrap(), 1);
    }
}
