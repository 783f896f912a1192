//! A connection whose progress is told in the order in which it came, and before the answer that came
//! after it: rmcp hands each notification to a task of its own.

use std::sync::Arc;

use rmcp::{
    RoleClient,
    model::{JsonRpcMessage, ServerNotification},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};

use super::client::Calls;

pub(super) struct Ordered<T> {
    pub(super) inner: T,
    pub(super) calls: Arc<Calls>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Ordered<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            if let JsonRpcMessage::Notification(told) = &message
                && let ServerNotification::ProgressNotification(it) = &told.notification
            {
                self.calls.progress(it.params.clone());
                continue;
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
