//! A run that is watched, over reconnects.
//!
//! What the broker sends is the run as it is, so nothing is lost with a connection, and nothing has
//! to be resumed: it is asked for again.

use std::time::Duration;

use tasuki_proto::wire;
use tokio::time::{sleep, timeout};
use tonic::{Response, Status, Streaming};

use super::Failure;
use crate::{
    cli::broker::{ANSWER_WITHIN, Broker},
    client::{
        channel,
        retry::{Backoff, chance},
    },
};

/// The first pause before connecting again, in milliseconds.
const PAUSE_MS_MIN: u64 = 250;

/// The longest pause, in milliseconds: a person is looking.
const PAUSE_MS_MAX: u64 = 5_000;

/// What watching told.
#[derive(Debug)]
pub(super) enum Update {
    Run(Box<wire::WatchRunResponse>),
    /// The broker is away for this reason, and is asked again.
    Away(String),
}

/// A run that is watched. The caller stops asking once the run is over.
#[derive(Debug)]
pub(super) struct Watching {
    broker: Broker,
    run_id: String,
    items: Option<Streaming<wire::WatchRunResponse>>,
    /// Before it is opened again.
    pause: Option<Duration>,
    backoff: Backoff,
}

impl Watching {
    pub(super) fn new(broker: &Broker, run_id: &str) -> Self {
        Self {
            broker: broker.clone(),
            run_id: run_id.to_owned(),
            items: None,
            pause: None,
            backoff: Backoff::between(PAUSE_MS_MIN, PAUSE_MS_MAX),
        }
    }

    pub(super) async fn next(&mut self) -> Result<Update, Failure> {
        if let Some(pause) = self.pause.take() {
            sleep(pause).await;
        }
        let items = match &mut self.items {
            Some(items) => items,
            slot @ None => match open(&self.broker, &self.run_id).await? {
                Ok(items) => slot.insert(items),
                Err(status) => return self.broken(&status),
            },
        };
        match items.message().await {
            Ok(Some(update)) => {
                self.backoff.reset();
                Ok(Update::Run(Box::new(update)))
            }
            Ok(None) => Ok(self.away("The broker ended the connection.".to_owned())),
            Err(status) => self.broken(&status),
        }
    }

    fn away(&mut self, why: String) -> Update {
        self.items = None;
        self.pause = Some(self.backoff.pause(chance()));
        Update::Away(why)
    }

    fn broken(&mut self, status: &Status) -> Result<Update, Failure> {
        if self.broker.shows_another(status) {
            return Ok(self.away("The token was replaced.".to_owned()));
        }
        let failure = self.broker.failure(status);
        if failure.is_retryable() { Ok(self.away(failure.message)) } else { Err(failure) }
    }
}

async fn open(
    broker: &Broker,
    run_id: &str,
) -> Result<Result<Streaming<wire::WatchRunResponse>, Status>, Failure> {
    let client = broker.client()?;
    let caller = Some(broker.caller());
    let request = wire::WatchRunRequest { caller, run_id: run_id.to_owned() };
    let mut runs = channel::runs(client.channel());
    let opened = timeout(ANSWER_WITHIN, runs.watch_run(request)).await;
    let late = |_| Err(Status::deadline_exceeded("no answer came in time"));
    Ok(opened.unwrap_or_else(late).map(Response::into_inner))
}
