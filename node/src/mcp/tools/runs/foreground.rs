//! A run that its caller waits for in the call that started it.
//!
//! - **RT1** A run ends with the call that started it when the client takes that call back, at
//!   whatever point, and not because a connection broke, the agent ended or the node stops.
//!
//! How a client takes a call back depends on its transport: it says so on a connection or in a
//! session. A request without either is taken back by closing its response. A call that was
//! answered with a task is taken back by canceling that.

use futures::FutureExt as _;
use tasuki_proto::{id::IdempotencyKey, run::RunId, wire};
use tokio::{runtime::Handle, sync::oneshot};
use tokio_util::sync::CancellationToken;

use super::super::Call;
use crate::{
    link::retry::outcome_unknown, mcp::transport::write_ack::WriteAck, role::Refusal,
    runs::client::RunClient,
};

/// What becomes of a call.
#[derive(Debug, Clone)]
pub(super) struct CallFate {
    cancelled: CancellationToken,
    stopping: CancellationToken,
    /// Of its connection or session.
    gone: Option<CancellationToken>,
    probe: Option<WriteAck>,
}

impl CallFate {
    pub(super) fn of(call: &Call<'_>) -> Self {
        Self {
            cancelled: call.context.ct.clone(),
            stopping: call.host.stopping.clone(),
            gone: call.gone.cloned(),
            probe: call.probe.clone(),
        }
    }

    fn is_taken_back(&self) -> bool {
        if self.stopping.is_cancelled() {
            return false;
        }
        match (&self.gone, &self.probe) {
            (Some(gone), Some(probe)) => probe.fate().is_disowned() && !gone.is_cancelled(),
            (Some(_), None) => false,
            (None, probe) => {
                let is_closed = |probe: &WriteAck| probe.is_cut().now_or_never().is_some();
                self.cancelled.is_cancelled() || probe.as_ref().is_some_and(is_closed)
            }
        }
    }
}

/// A run, until its call is over.
#[derive(Debug)]
pub(super) struct Foreground {
    pub run: wire::Run,
    pub id: RunId,
    client: RunClient,
    /// `None`: the run goes on without its call.
    pub fate: Option<CallFate>,
}

impl Drop for Foreground {
    fn drop(&mut self) {
        if !self.fate.as_ref().is_some_and(CallFate::is_taken_back) {
            return;
        }
        end_run(self.client.clone(), self.id);
    }
}

/// Ends a run whose call was taken back. Nobody waits for that.
pub(in crate::mcp) fn end_run(client: RunClient, run: RunId) {
    let cancel = async move {
        if let Err(error) = client.cancel(run).await {
            tracing::debug!(%run, %error, "a run whose call was taken back goes on");
        }
    };
    if let Ok(runtime) = Handle::try_current() {
        drop(runtime.spawn(cancel));
    }
}

/// Starts a run. Where its call is taken back meanwhile it is ended as soon as it is there.
pub(super) async fn start(
    client: &RunClient,
    request: wire::StartRunRequest,
    key: Option<IdempotencyKey>,
    fate: CallFate,
) -> Result<Foreground, Refusal> {
    let client = client.clone();
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        let started = client.start(request, key).await;
        let started = started.and_then(|it| {
            let run = it.run.unwrap_or_default();
            let unreadable = |_| outcome_unknown("the broker did not say which run it started");
            let id = run.run_id.parse().map_err(unreadable)?;
            Ok(Foreground { run, id, client, fate: Some(fate) })
        });
        // Where nobody is left to hear of it, it is dropped.
        drop(tell.send(started));
    });
    told.await
        .unwrap_or_else(|_| Err(outcome_unknown("the node stopped or failed before the result")))
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;

    fn fate(gone: Option<CancellationToken>) -> (CallFate, WriteAck) {
        let probe = WriteAck::new(&TaskTracker::new());
        let fate = CallFate {
            cancelled: CancellationToken::new(),
            stopping: CancellationToken::new(),
            gone,
            probe: Some(probe.clone()),
        };
        (fate, probe)
    }

    /// Holds RT1.
    #[test]
    fn a_call_is_taken_back_by_its_client_alone() {
        let gone = CancellationToken::new();
        let (said, probe) = fate(Some(gone.clone()));
        assert!(!said.is_taken_back());
        said.cancelled.cancel();
        assert!(!said.is_taken_back(), "a connection that broke cancels, too");
        probe.fate().disown();
        assert!(said.is_taken_back());
        gone.cancel();
        assert!(!said.is_taken_back(), "the agent ended");

        let (closed, _) = fate(None);
        assert!(!closed.is_taken_back());
        closed.cancelled.cancel();
        assert!(closed.is_taken_back());
        closed.stopping.cancel();
        assert!(!closed.is_taken_back(), "the node stops");
    }
}
