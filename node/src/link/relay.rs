//! Tools of roles: called at other nodes, and offered to them. A call is sent once; where it may have
//! arrived and no answer came, nobody says that it can be sent again.

use std::time::Duration;

use tasuki_proto::{reason::Reason, wire};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{Response, Status, Streaming};

use super::Link;
use crate::{
    client::{
        channel::{self, ATTEMPT_MS_MAX, Channel},
        retry::{Failure, UNREACHED_MS_MAX},
    },
    private::{Fresh, Unsealable},
    refusal::Refusal,
};

impl Link {
    /// What roles export: all there is, then each change, until the connection has ended.
    pub(crate) async fn watch_tools(&self) -> Result<Streaming<wire::RoleTools>, Refusal> {
        let open = |channel, caller| {
            let request = wire::WatchToolsRequest { caller: Some(caller) };
            async move { channel::relay(channel).watch_tools(request).await }
        };
        self.ask(open).await
    }

    /// What this node has to do for pipelines, until the connection has ended.
    pub(crate) async fn watch_phases(&self) -> Result<Streaming<wire::NodePhases>, Refusal> {
        let open = |channel, caller| {
            let request = wire::WatchPhasesRequest { caller: Some(caller) };
            async move { channel::pipelines(channel).watch_phases(request).await }
        };
        self.ask(open).await
    }

    /// Resolves when this node has registered again since this was called: the broker serves the
    /// newest registration alone.
    pub(crate) fn registered_again(&self) -> impl Future<Output = ()> + use<> {
        let mut state = self.shared.state.subscribe();
        let epoch = state.borrow().epoch;
        async move {
            if state.wait_for(|it| it.is_connected() && it.epoch != epoch).await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Calls of tools that roles of this node export. What comes by `outbound` is sent to the
    /// broker.
    pub(crate) async fn serve_tools(
        &self,
        outbound: mpsc::Receiver<wire::ServeToolsRequest>,
    ) -> Result<Streaming<wire::ToolOrder>, Refusal> {
        self.may_export().await?;
        let open = |channel: Channel, caller| async move {
            let first = wire::ServeToolsRequest { caller: Some(caller), said: None };
            let all = tokio_stream::once(first).chain(ReceiverStream::new(outbound));
            channel::relay(channel).serve_tools(all).await
        };
        self.try_once(open).await.map_err(|failure| refusal(failure, "nothing is served"))
    }

    /// Whether what roles export may be said to the broker, by what it says now.
    pub(crate) async fn may_export(&self) -> Result<(), Refusal> {
        self.sealer().check_plain(self, Unsealable::ToolCalls, Fresh::Always).await
    }

    /// Whether calls may be answered: the broker refuses them where mail is private by now.
    pub(crate) async fn may_answer_calls(&self) -> Result<(), Refusal> {
        self.may_leave_plain(Unsealable::ToolCalls).await
    }

    /// Calls a tool of a role. It is under way when this returns.
    pub(crate) async fn call_tool(
        &self,
        mut request: wire::CallToolRequest,
    ) -> Result<Streaming<wire::CallToolResponse>, Refusal> {
        self.may_leave_plain(Unsealable::ToolCalls).await?;
        let open = |channel: Channel, caller| async move {
            request.caller = Some(caller);
            channel::relay(channel).call_tool(request).await
        };
        let unknown = "the call may or may not have taken effect";
        self.try_once(open).await.map_err(|failure| refusal(failure, unknown))
    }

    async fn try_once<T, F>(
        &self,
        open: impl FnOnce(Channel, wire::Caller) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.shared.ready_to_ask().await.map_err(Failure::NotTaken)?;
        let (shared, epoch) = (&self.shared, self.shared.epoch());
        let attempt = open(shared.client.channel(), shared.caller());
        let unreached = Duration::from_millis(UNREACHED_MS_MAX);
        let whole = Duration::from_millis(ATTEMPT_MS_MAX);
        let tried = shared.client.attempt(attempt, unreached, whole).await;
        if let Err(failure) = &tried {
            if matches!(failure, Failure::Lost(_)) {
                shared.suspect.notify_one();
            }
            if let Failure::StaleEpoch(_) = failure {
                // Whoever tries again does so over a new registration.
                shared.renew(epoch, unreached).await.ok();
            }
        }
        tried
    }
}

fn refusal(failure: Failure, unsure: &str) -> Refusal {
    match failure {
        Failure::NotTaken(it) | Failure::TurnedAway(it) | Failure::Refused(it) => it,
        Failure::Lost(why) | Failure::Unsure(why) => {
            Refusal { reason: Reason::OutcomeUnknown, message: format!("{why}; {unsure}") }
        }
        Failure::StaleEpoch(why) => Refusal { reason: Reason::Unavailable, message: why },
    }
}
