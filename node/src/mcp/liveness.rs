//! Whether the agent behind an open connection still runs. A process that was stopped, or hangs,
//! keeps its connection open for ever; it does not answer a ping.
//!
//! Asked are connections that carry questions of ours (stdio, HTTP+SSE), in versions that know
//! pings. A client that never answered one is not judged by it: it may not know how to.

use std::time::Duration;

use rmcp::{
    Peer, RoleServer,
    model::{PingRequest, ServerRequest},
    service::ServiceError,
};

/// Between an answer and the next ping.
const ASK_EVERY: Duration = Duration::from_secs(20);

/// Longer than a client is busy with something else: one that compiles, or reads a large answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Asks until nobody can answer any more; `tell` is told after each ping whether it was answered
/// in time, and when a late answer comes.
pub(super) async fn ask(peer: Peer<RoleServer>, tell: impl Fn(bool)) {
    watch(|| is_answered(peer.clone()), tokio::time::sleep, tell).await;
}

/// `false`: nobody will answer any more.
async fn is_answered(peer: Peer<RoleServer>) -> bool {
    let ping = ServerRequest::PingRequest(PingRequest::default());
    match peer.send_request(ping).await {
        // An error is an answer, too.
        Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => true,
        Err(_) => false,
    }
}

/// `after` is over after so long.
async fn watch<A: Future<Output = bool>, T: Future<Output = ()>>(
    ping: impl Fn() -> A,
    after: impl Fn(Duration) -> T,
    tell: impl Fn(bool),
) {
    let mut knows_pings = false;
    loop {
        after(ASK_EVERY).await;
        // One that is not answered is left where it is: whoever wakes up answers it.
        let mut answer = std::pin::pin!(ping());
        let in_time = tokio::select! {
            biased;
            is_answered = &mut answer => Some(is_answered),
            () = after(ANSWER_WITHIN) => None,
        };
        if in_time.is_none() && knows_pings {
            tell(false);
        }
        let is_answered = match in_time {
            Some(is_answered) => is_answered,
            None => answer.await,
        };
        if !is_answered {
            return;
        }
        knows_pings = true;
        tell(true);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[derive(Clone, Copy)]
    enum Answer {
        InTime,
        Late,
    }

    /// What is told of a client that answers its pings so, and hangs up instead of the next.
    async fn told(answers: &[Answer]) -> Vec<bool> {
        let (next, told) = (Cell::new(0), RefCell::new(Vec::new()));
        let ping = || async {
            let answer = answers.get(next.replace(next.get() + 1));
            if matches!(answer, Some(Answer::Late)) {
                tokio::task::yield_now().await;
            }
            answer.is_some()
        };
        watch(ping, |_| std::future::ready(()), |is| told.borrow_mut().push(is)).await;
        told.into_inner()
    }

    #[tokio::test]
    async fn whoever_stops_answering_is_told_of_until_it_answers_again() {
        use Answer::{InTime, Late};
        assert!(told(&[]).await.is_empty());
        assert_eq!(told(&[InTime, InTime]).await, [true, true]);
        assert_eq!(told(&[InTime, Late, InTime]).await, [true, false, true, true]);
    }

    #[tokio::test]
    async fn whoever_never_answered_is_not_judged() {
        use Answer::Late;
        assert_eq!(told(&[Late, Late]).await, [true, false, true]);
    }
}
