//! `tasuki watch`: what happens, live.
//!
//! The feed is resumed after the last sequence shown, so a broken connection or a slow terminal
//! loses nothing and repeats nothing. Only what happens before the first event is shown and while
//! nobody is connected can be missed, and then that is said.

use std::time::Duration;

use tasuki_proto::{reason::Reason, wire, wire::feed_client::FeedClient};
use tonic::Status;
use tonic_types::StatusExt as _;

use super::{
    Failure, Output, Target,
    broker::{Broker, is_lost},
    events, json, stopped,
};
use crate::config::Config;

/// Before the first attempt to connect again; doubled before each later one.
const PAUSE: Duration = Duration::from_millis(250);

/// The longest pause: a person is looking.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Show what happens, live, one line each.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Begin with this sequence of the workspace's journal [default: what is yet to come]
    #[arg(long, value_name = "SEQUENCE", value_parser = clap::value_parser!(u64).range(1..))]
    from: Option<u64>,
    #[command(flatten)]
    pub(super) target: Target,
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let mut watch = Watch { broker, next: args.from.unwrap_or(0) };
    tokio::select! {
        result = watch.follow(output) => result,
        () = stopped() => Ok(()),
    }
}

struct Watch {
    broker: Broker,
    /// The sequence wanted next; 0: whatever comes.
    next: u64,
}

/// Why the feed ended.
enum End {
    Failed(Failure),
    /// Ask again after a pause.
    Broken(String),
    /// Ask again at once, from `next`.
    Resume,
}

impl Watch {
    async fn follow(&mut self, output: &mut Output) -> Result<(), Failure> {
        // A first connection that fails is a mistake to tell; a later one is weather.
        drop(self.broker.connect().await?);
        let mut pause = PAUSE;
        loop {
            let before = self.next;
            let end = self.read(output).await;
            if self.next != before {
                pause = PAUSE;
            }
            match end {
                End::Failed(failure) => return Err(failure),
                End::Resume if self.next != before => {}
                End::Resume => self.rest(&mut pause, "The feed ended at once", output).await,
                End::Broken(why) => self.rest(&mut pause, &why, output).await,
            }
        }
    }

    async fn rest(&self, pause: &mut Duration, why: &str, output: &mut Output) {
        let missing = if self.next == 0 { "; what happens until then is not shown" } else { "" };
        output.note(&format!("{why}; connecting again{missing}"));
        tokio::time::sleep(*pause).await;
        *pause = (*pause * 2).min(PAUSE_MAX);
    }

    async fn read(&mut self, output: &mut Output) -> End {
        let (channel, shown) = match self.broker.open().await {
            Ok(opened) => opened,
            Err(failure) if failure.as_reason() == Some(Reason::Unavailable) => {
                return End::Broken(format!("No broker answers at {}", self.broker.url));
            }
            Err(failure) => return End::Failed(failure),
        };
        let request =
            wire::SubscribeRequest { caller: self.broker.caller(), from_sequence: self.next };
        let mut items = match FeedClient::new(channel).subscribe(request).await {
            Ok(response) => response.into_inner(),
            Err(status) if self.broker.is_outdated(&status, shown.as_ref()) => {
                return End::Broken("The token was replaced".into());
            }
            Err(status) => return self.ended(&status, output),
        };
        loop {
            match items.message().await {
                Ok(Some(item)) => {
                    self.next = item.sequence + 1;
                    let shown = output.answer(|| json::item(&item), || events::lines(&item));
                    if let Err(failure) = shown {
                        return End::Failed(failure);
                    }
                }
                Ok(None) => return End::Broken("The broker ended the feed".into()),
                Err(status) => return self.ended(&status, output),
            }
        }
    }

    fn ended(&mut self, status: &Status, output: &mut Output) -> End {
        match Reason::of(status) {
            Some(Reason::Lagged) => End::Resume,
            Some(Reason::Compacted) => {
                let info = status.get_details_error_info();
                let oldest = info.and_then(|info| info.metadata.get("oldest")?.parse::<u64>().ok());
                match oldest {
                    Some(oldest) if self.next < oldest => {
                        output.note(&format!(
                            "Events before {oldest} are no longer kept; going on from there."
                        ));
                        self.next = oldest;
                        End::Resume
                    }
                    _ => End::Failed(Failure::of_status(status)),
                }
            }
            Some(Reason::Unavailable | Reason::Overloaded) => {
                End::Broken(status.message().trim_end_matches('.').to_owned())
            }
            _ if is_lost(status) => End::Broken("The connection broke".into()),
            _ => End::Failed(Failure::of_status(status)),
        }
    }
}
