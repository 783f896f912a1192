//! The broker, as this node and its commands reach it.
//!
//! - [`retry`]: when to try again, and what may be said in the end. Pure.
//! - [`feed`]: the broker's records, and whether they go on where they were.
//! - [`any`]: a request of any call.
//! - [`channel`]: the HTTP/2 connection. [`connection`]: the TCP connection below.
//!   [`auth`]: what is shown on them, and to whom.
//!
//! Who is registered, and what waits for the broker, is the [link](crate::link)'s.

pub mod any;
pub mod auth;
pub mod channel;
pub mod connection;
pub mod feed;
pub mod retry;

use std::{path::Path, time::Duration};

use tasuki_broker::grpc::Carrier;
use tasuki_proto::reason::Reason;
use tokio::time;
use tonic::{Response, Status};

use self::{
    auth::{ClientAuth, ClientAuthError},
    channel::{BadAddress, Channel},
    connection::Connections,
    retry::Failure,
};
use crate::refusal::Refusal;

/// Why a broker cannot even be called.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Address(#[from] BadAddress),
    #[error(transparent)]
    ClientAuth(#[from] ClientAuthError),
}

/// A broker, and what is shown to it. Connects once somebody calls, and again when the connection
/// broke. Cheap to clone; all clones share one connection.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    connections: Connections,
    auth: ClientAuth,
}

impl Client {
    /// The broker at an address, with what is kept for it in `data`.
    ///
    /// # Errors
    /// When that is no address, or what is kept cannot be used.
    pub fn new(broker: &str, data: &Path) -> Result<Self, OpenError> {
        let endpoint = channel::endpoint(broker)?;
        let auth = ClientAuth::find(data, broker)?;
        let connections = Connections::default();
        let channel = channel::open(&endpoint, auth.clone(), connections.clone());
        Ok(Self { channel, connections, auth })
    }

    /// The same where the broker is in this process, and is known by that address to others.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn here(carrier: Carrier, broker: &str, data: &Path) -> Result<Self, OpenError> {
        let auth = ClientAuth::find(data, broker)?;
        let connections = Connections::default();
        let channel = channel::here(carrier, auth.clone(), &connections);
        Ok(Self { channel, connections, auth })
    }

    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub const fn connections(&self) -> &Connections {
        &self.connections
    }

    pub const fn auth(&self) -> &ClientAuth {
        &self.auth
    }

    /// One attempt, which ends after `whole`; one that finds no connection within `unreached` ends
    /// then, and never counts as lost (L5).
    pub async fn attempt<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
        unreached: Duration,
        whole: Duration,
    ) -> Result<T, Failure> {
        let witness = self.connections.witness();
        let unreached = unreached.min(whole);
        let mut call = Box::pin(call);
        let mut answer = time::timeout(unreached, &mut call).await;
        if answer.is_err() && self.connections.may_have_carried(witness) {
            answer = time::timeout(whole.saturating_sub(unreached), &mut call).await;
        }
        drop(call);
        match answer {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(Failure::of(&status)),
            Err(_) if self.connections.may_have_carried(witness) => {
                Err(Failure::Lost(format!("no answer within {} ms", whole.as_millis())))
            }
            Err(_) => Err(Failure::NotTaken(Refusal {
                reason: Reason::Unavailable,
                message: "no connection in time".to_owned(),
            })),
        }
    }
}
