//! A connection that passes on what somebody waits for.
//!
//! - Progress and log messages are passed on in the order in which they came, and before the answer
//!   that came after them: rmcp hands each notification to a task of its own.
//! - Answers that nobody waits for are passed over: a server that needs long to start answers the
//!   probe for its version when rmcp has gone on with the handshake of earlier versions already.
//! - What nobody asked for is taken at a bounded rate. A server that floods is left, and whoever
//!   else runs here does not notice.

use std::{collections::HashSet, sync::Arc, time::Duration};

use rmcp::{
    RoleClient,
    model::{
        ClientNotification, ClientRequest, GetMeta as _, JsonRpcMessage, RequestId,
        ServerNotification,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::time::Instant;

use super::client::Calls;
use crate::json_size::json_size;

/// Messages, or lines that are none, within [`FLOOD_WITHIN`] that answer nothing.
pub(super) const UNASKED_MAX: usize = 20_000;

/// Over this time.
const FLOOD_WITHIN: Duration = Duration::from_secs(10);

/// The same in bytes: reading more takes processor time from whoever else runs here.
const UNASKED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Counts what came lately that nobody asked for.
pub(super) struct FloodLimit {
    server: String,
    since: Instant,
    count: usize,
    bytes: usize,
}

impl FloodLimit {
    pub(super) fn new(server: &str) -> Self {
        Self { server: server.to_owned(), since: Instant::now(), count: 0, bytes: 0 }
    }

    /// Counts one more of so many bytes. Answers whether it is within the limits.
    pub(super) fn admit(&mut self, bytes: usize) -> bool {
        let now = Instant::now();
        if FLOOD_WITHIN <= now.duration_since(self.since) {
            (self.since, self.count, self.bytes) = (now, 0, 0);
        }
        self.count += 1;
        self.bytes += bytes;
        let is_within = self.count <= UNASKED_MAX && self.bytes <= UNASKED_BYTES_MAX;
        if !is_within {
            let server = &self.server;
            tracing::warn!(server, "a server sends more than anybody asked for: disconnected");
        }
        is_within
    }
}

/// Whether a server may ask, report progress or log on account of a request.
const fn is_call(request: &ClientRequest) -> bool {
    matches!(
        request,
        ClientRequest::CallToolRequest(_)
            | ClientRequest::GetPromptRequest(_)
            | ClientRequest::ReadResourceRequest(_)
            | ClientRequest::CompleteRequest(_)
    )
}

pub(super) struct Ordered<T> {
    inner: T,
    calls: Arc<Calls>,
    /// Requests without an answer.
    open: HashSet<RequestId>,
    unasked: FloodLimit,
}

impl<T> Ordered<T> {
    pub(super) fn new(server: &str, inner: T, calls: Arc<Calls>) -> Self {
        Self { inner, calls, open: HashSet::new(), unasked: FloodLimit::new(server) }
    }

    fn note(&mut self, sent: &TxJsonRpcMessage<RoleClient>) {
        match sent {
            JsonRpcMessage::Request(it) => {
                if let ClientRequest::InitializeRequest(_) = &it.request {
                    self.open.clear();
                }
                self.open.insert(it.id.clone());
                if is_call(&it.request)
                    && let Some(token) = it.request.get_meta().get_progress_token()
                {
                    self.calls.begin(token, it.id.clone());
                }
            }
            JsonRpcMessage::Notification(it) => {
                if let ClientNotification::CancelledNotification(it) = &it.notification
                    && let Some(id) = &it.params.request_id
                {
                    self.open.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Whether somebody waits for it.
    fn is_asked_for(&mut self, received: &RxJsonRpcMessage<RoleClient>) -> bool {
        match received {
            JsonRpcMessage::Response(it) => self.open.remove(&it.id),
            JsonRpcMessage::Error(it) => it.id.as_ref().is_some_and(|id| self.open.remove(id)),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => false,
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Ordered<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.note(&message);
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            self.calls.hear();
            if self.is_asked_for(&message) {
                return Some(message);
            }
            if !self.unasked.admit(json_size(&message).unwrap_or(usize::MAX)) {
                return None;
            }
            match message {
                JsonRpcMessage::Notification(received) => {
                    if let ServerNotification::ProgressNotification(it) = received.notification {
                        self.calls.progress(it.params);
                    } else if let ServerNotification::LoggingMessageNotification(it) =
                        received.notification
                    {
                        self.calls.log(it.extensions.get(), it.params);
                    } else {
                        return Some(JsonRpcMessage::Notification(received));
                    }
                }
                // An error without an id is about a request of which nobody can say which.
                JsonRpcMessage::Request(_)
                | JsonRpcMessage::Error(rmcp::model::JsonRpcError { id: None, .. }) => {
                    return Some(message);
                }
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, convert::Infallible};

    use serde_json::json;

    use super::*;

    /// A connection on which everything came already.
    struct Said(VecDeque<RxJsonRpcMessage<RoleClient>>);

    impl Transport<RoleClient> for Said {
        type Error = Infallible;

        async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
            self.0.pop_front()
        }

        fn send(
            &mut self,
            _: TxJsonRpcMessage<RoleClient>,
        ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
            std::future::ready(Ok(()))
        }

        async fn close(&mut self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    async fn passed(
        sent: &[serde_json::Value],
        said: &[serde_json::Value],
    ) -> Vec<RxJsonRpcMessage<RoleClient>> {
        let read = |it: &serde_json::Value| serde_json::from_value(it.clone()).expect("a message");
        let mut ordered = Ordered::new("x", Said(said.iter().map(read).collect()), Arc::default());
        for message in sent {
            let message = serde_json::from_value(message.clone()).expect("a message");
            ordered.send(message).await.expect("it is sent");
        }
        let mut passed = Vec::new();
        while let Some(message) = ordered.receive().await {
            passed.push(message);
        }
        passed
    }

    #[tokio::test]
    async fn answers_that_nobody_waits_for_are_passed_over() {
        let ping = |id: u32| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
        let answer = |id: u32| json!({ "jsonrpc": "2.0", "id": id, "result": {} });
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "x", "version": "1" } } });
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": 3 } });
        let all = [ping(0), hello, ping(2), ping(3), cancelled];
        // The probe before the handshake, one of which nobody knows, one twice, one taken back.
        let said = [answer(0), answer(1), answer(7), answer(2), answer(2), answer(3)];
        let passed = passed(&all, &said).await;
        let ids: Vec<_> = passed.iter().map(|it| json!(it)["id"].clone()).collect();
        assert_eq!(ids, [1, 2]);
    }

    #[tokio::test]
    async fn a_server_that_floods_with_large_messages_is_left() {
        let large = "x".repeat(1024 * 1024);
        let ping = json!({ "jsonrpc": "2.0", "id": large, "method": "ping" });
        assert_eq!(passed(&[], &vec![ping; 100]).await.len(), UNASKED_BYTES_MAX / 1024 / 1024 - 1);
    }

    #[tokio::test]
    async fn a_server_that_floods_is_left() {
        let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        let unknown = json!({ "jsonrpc": "2.0", "id": 7, "result": {} });
        assert_eq!(passed(&[], &vec![changed; UNASKED_MAX + 10]).await.len(), UNASKED_MAX);
        let mut said = vec![unknown; UNASKED_MAX];
        said.push(json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
        assert!(passed(&[], &said).await.is_empty());
    }
}
