//! The dashboard's pages over this node's connection to the broker.
//!
//! The broker that serves the same pages has no keys to private mail; this node opens what its own
//! roles may read. What a person sends in a private workspace is refused by the broker: it would
//! not be sealed.

use std::{any::Any, sync::Arc};

use axum::Router;
use futures::{FutureExt as _, future::BoxFuture};
use tasuki_broker::{
    dashboard::{self, ToolServers, Words},
    grpc::Carrier,
};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::ServiceExt as _;

use super::Link;

impl Link {
    /// All pages, as whoever has this node's token.
    pub fn pages(
        &self,
        servers: Option<Arc<dyn ToolServers>>,
        stopping: CancellationToken,
    ) -> Router {
        let channel = self.shared.client.channel();
        let channel = channel.map_response(|it| it.map(Body::new)).map_err(Into::into);
        dashboard::router(dashboard::Settings {
            carrier: Carrier::new(channel),
            asks_for_token: false,
            secure_port: None,
            words: Some(Arc::new(self.clone())),
            servers,
            home: self.shared.settings.workspace.clone(),
            stopping,
        })
    }
}

impl Words for Link {
    fn open<'a>(&'a self, response: &'a mut Box<dyn Any + Send>) -> BoxFuture<'a, ()> {
        Self::open(self, response).boxed()
    }
}
