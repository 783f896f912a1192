//! Mail that is on its way to an agent.
//!
//! An agent can act on an answer before this process learns that it was written. What it does next
//! is to be judged with what it was shown, so it waits here for a moment.

use std::time::Duration;

use tokio::sync::watch;

/// How long an act waits for answers to be written, in milliseconds: one of them may be going to a
/// client that does not read.
const WRITE_MS_MAX: u64 = 1_000;

/// Of one role. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown(watch::Sender<usize>);

/// An answer with mail, until it is written or will not be.
#[derive(Debug)]
pub(super) struct OnItsWay(watch::Sender<usize>);

impl Shown {
    pub(super) fn begin(&self) -> OnItsWay {
        self.0.send_modify(|count| *count += 1);
        OnItsWay(self.0.clone())
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

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_act_waits_for_what_is_on_its_way_but_not_for_ever() {
        let shown = Shown::default();
        shown.settled().await;
        let (first, second) = (shown.begin(), shown.begin());
        let settled = shown.settled();
        tokio::pin!(settled);
        assert!(futures::poll!(&mut settled).is_pending());
        drop(first);
        assert!(futures::poll!(&mut settled).is_pending());
        drop(second);
        assert!(futures::poll!(&mut settled).is_ready());
        let _stuck = shown.begin();
        shown.settled_within(Duration::ZERO).await;
    }
}
