//! Answers on their way to an agent, whose acknowledgement the broker does not have yet.
//!
//! An agent can act on an answer before this process learns that it was written. What it does next
//! is to be judged with what it was shown, so it waits here for a moment.

use std::time::Duration;

use tokio::sync::watch;

/// How long an act waits for answers to be written, in milliseconds: one of them may be going to a
/// client that does not read.
const WRITE_MS_MAX: u64 = 1_000;

/// The answers on their way to one role. Clones count the same ones.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlightAcks(watch::Sender<usize>);

/// One answer, until it is written or will not be.
#[derive(Debug)]
pub(super) struct InFlightAck(watch::Sender<usize>);

impl InFlightAcks {
    pub(super) fn begin(&self) -> InFlightAck {
        self.0.send_modify(|count| *count += 1);
        InFlightAck(self.0.clone())
    }

    /// Resolves once nothing is on its way, or it takes too long.
    pub(super) async fn settled(&self) {
        self.settled_within(Duration::from_millis(WRITE_MS_MAX)).await;
    }

    async fn settled_within(&self, within: Duration) {
        let mut count = self.0.subscribe();
        let written = count.wait_for(|count| *count == 0);
        drop(tokio::time::timeout(within, written).await);
    }
}

impl Drop for InFlightAck {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_act_waits_for_what_is_on_its_way_but_not_for_ever() {
        let acks = InFlightAcks::default();
        acks.settled().await;
        let (first, second) = (acks.begin(), acks.begin());
        let settled = acks.settled();
        tokio::pin!(settled);
        assert!(futures::poll!(&mut settled).is_pending());
        drop(first);
        assert!(futures::poll!(&mut settled).is_pending());
        drop(second);
        assert!(futures::poll!(&mut settled).is_ready());
        let _stuck = acks.begin();
        acks.settled_within(Duration::ZERO).await;
    }
}
