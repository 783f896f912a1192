//! The broker as these commands reach it: directly, over gRPC.
//!
//! A command that changes something is sent under one key, again and again until an answer comes
//! or patience ends. Then it says "may or may not have taken effect", never "failed".

use std::time::Duration;

use tasuki_proto::{id::WorkspaceId, reason::Reason, wire};
use tokio::time::sleep;
use tonic::{
    Code, Response, Status,
    transport::{Channel, Endpoint},
};

use super::{Failure, keys};
use crate::{
    config::{BROKER_DEFAULT, Config},
    paths::NodeFile,
};

/// To open a connection: it is on this machine.
const CONNECT: Duration = Duration::from_secs(2);

/// For one answer. A durable write on a slow disk takes a second; a person waits ten.
const ANSWER: Duration = Duration::from_secs(10);

/// How often one command is sent before its outcome is called unknown.
const ATTEMPTS: u32 = 4;

/// Before the second attempt; doubled before each later one.
const PAUSE: Duration = Duration::from_millis(250);

/// Between signs of life on a connection that only listens.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// A broker's address, and who calls.
#[derive(Debug, Clone)]
pub(crate) struct Broker {
    pub(crate) url: String,
    workspace: WorkspaceId,
    data: std::path::PathBuf,
}

impl Broker {
    pub(crate) fn new(config: &Config) -> Self {
        let told = config.broker.value.clone();
        let data = config.data.value.clone();
        let url = told.or_else(|| NodeFile::read(&data).map(|file| file.broker));
        let url = url.unwrap_or_else(|| BROKER_DEFAULT.to_owned());
        Self { url, workspace: config.workspace.value.clone(), data }
    }

    pub(crate) fn caller(&self) -> Option<wire::Caller> {
        Some(wire::Caller { workspace: self.workspace.to_string(), node: String::new(), epoch: 0 })
    }

    pub(crate) fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    pub(crate) async fn connect(&self) -> Result<Channel, Failure> {
        let endpoint = Endpoint::from_shared(self.url.clone())
            .map_err(|why| Failure::usage(format!("{} is not a URL: {why}.", self.url)))?;
        let endpoint = endpoint
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .tcp_nodelay(true);
        endpoint.connect().await.map_err(|why| {
            tracing::debug!(why = &why as &dyn std::error::Error, "no connection");
            self.unreachable()
        })
    }

    pub(crate) fn unreachable(&self) -> Failure {
        Failure::reason(
            Reason::Unavailable,
            format!(
                "No broker answers at {}. Start one with `tasuki up`, or say where it is with \
                 --broker URL.",
                self.url
            ),
        )
    }

    /// Asks once; a question may be lost without harm.
    pub(crate) async fn ask<T, F>(&self, send: F) -> Result<T, Failure>
    where
        F: AsyncFnOnce(Channel) -> Result<Response<T>, Status>,
    {
        let channel = self.connect().await?;
        match send(channel).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) if is_lost(&status) => Err(self.unreachable()),
            Err(status) => Err(Failure::of_status(&status)),
        }
    }

    /// Tells the broker to do something, under a key of its own.
    pub(crate) async fn tell<T, F>(&self, send: F) -> Result<T, Failure>
    where
        F: AsyncFn(Channel, wire::IdempotencyKey) -> Result<Response<T>, Status>,
    {
        let key = keys::next(&self.data)?;
        let mut was_sent = false;
        let mut pause = PAUSE;
        for attempt in 1.. {
            let failure = match self.connect().await {
                Err(failure) => failure,
                Ok(channel) => match send(channel, key.clone()).await {
                    Ok(response) => return Ok(response.into_inner()),
                    Err(status) if is_lost(&status) => {
                        was_sent = true;
                        self.unreachable()
                    }
                    Err(status) => Failure::of_status(&status),
                },
            };
            was_sent |= failure.is_maybe_applied();
            let again =
                matches!(failure.as_reason(), Some(Reason::Unavailable | Reason::OutcomeUnknown));
            // Nothing was ever sent and nobody is there: waiting would only annoy.
            let is_hopeless = !was_sent && failure == self.unreachable();
            if !again || is_hopeless {
                return Err(failure);
            }
            if attempt == ATTEMPTS {
                return Err(if was_sent { self.unknown(&key) } else { failure });
            }
            sleep(pause).await;
            pause *= 2;
        }
        unreachable!("the loop ends by returning")
    }

    fn unknown(&self, key: &wire::IdempotencyKey) -> Failure {
        Failure::reason(
            Reason::OutcomeUnknown,
            format!(
                "The command was sent to {} {ATTEMPTS} times and no answer came: it may or may \
                 not have taken effect. Look with `tasuki loop status` before doing it again. \
                 (key {}/{})",
                self.url, key.client_id, key.counter
            ),
        )
    }
}

/// Whether the call may have been carried out though nobody said so: the connection broke, or
/// time ran out.
pub(crate) fn is_lost(status: &Status) -> bool {
    Reason::of(status).is_none()
        && matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded
        )
}
