//! The feed as commands follow it.
//!
//! It is resumed after the last sequence seen, so a broken connection or a slow reader loses
//! nothing and repeats nothing. Only what happens before the first event is seen and while nobody
//! is connected can be missed, and then that is said. That a connection was lost is said once, and
//! when it is back.

use std::time::Duration;

use tasuki_proto::{reason::Reason, wire};
use tokio::time::sleep;
use tonic::{Status, Streaming};

use super::{Failure, broker::Broker};
use crate::{
    client::{
        channel::{self, Channel},
        feed::oldest,
        retry::{Backoff, chance, is_lost},
    },
    clock::{self, Moment},
};

/// The first pause before connecting again, in milliseconds.
const PAUSE_MS_MIN: u64 = 250;

/// The longest pause, in milliseconds: a person is looking.
const PAUSE_MS_MAX: u64 = 5_000;

/// Pauses before a broker that went away is asked again.
pub(crate) const fn backoff() -> Backoff {
    Backoff::between(PAUSE_MS_MIN, PAUSE_MS_MAX)
}

/// What is said beside the answer.
pub(crate) type Notes<'a> = dyn FnMut(&str) + Send + 'a;

/// A feed that is followed.
#[derive(Debug)]
pub(crate) struct Following {
    broker: Broker,
    /// The sequence wanted next; 0: whatever comes.
    next: u64,
    /// The same when the feed was last asked for.
    began: u64,
    items: Option<Streaming<wire::FeedItem>>,
    /// It was told of that `items` are there.
    is_joined: bool,
    /// Since when nobody is connected, and why, as it was said last.
    lost: Option<(Moment, String)>,
    backoff: Backoff,
}

/// What following told.
#[derive(Debug)]
pub(crate) enum Told {
    /// From here on nothing is missed; what happened while nobody was connected may have been.
    Joined {
        /// How long nobody was connected; `None`: it is the first connection, or one that lasted.
        away: Option<Duration>,
    },
    Item(wire::FeedItem),
}

/// Why the feed ended.
enum End {
    Failed(Failure),
    /// Ask again after a pause.
    Broken(String),
    /// Ask again at once, from `next`.
    Resume,
}

impl Following {
    /// `from` is the first sequence that is wanted; 0: what is yet to come.
    ///
    /// A first connection that fails is a mistake to tell; a later one is weather.
    pub(crate) async fn new(broker: &Broker, from: u64) -> Result<Self, Failure> {
        let mut feed = Self {
            broker: broker.clone(),
            next: from,
            began: from,
            items: None,
            is_joined: false,
            lost: None,
            backoff: backoff(),
        };
        match feed.open().await? {
            Ok(items) => feed.items = Some(items),
            Err(status) if is_lost(&status) => return Err(feed.broker.failure(&status)),
            // Asked again, which says what is wrong.
            Err(_) => {}
        }
        Ok(feed)
    }

    pub(crate) async fn next(&mut self, note: &mut Notes<'_>) -> Result<Told, Failure> {
        loop {
            let end = match &mut self.items {
                Some(_) if !self.is_joined => {
                    self.is_joined = true;
                    let away = self.lost.take().map(|(at, _)| clock::now().since(at));
                    return Ok(Told::Joined { away });
                }
                None => match self.subscribe(note).await {
                    Ok(items) => {
                        self.items = Some(items);
                        continue;
                    }
                    Err(end) => end,
                },
                Some(items) => match items.message().await {
                    Ok(Some(item)) => {
                        self.next = item.sequence + 1;
                        self.backoff.reset();
                        return Ok(Told::Item(item));
                    }
                    Ok(None) => End::Broken("The broker ended the feed".into()),
                    Err(status) => self.ended(&status, note),
                },
            };
            (self.items, self.is_joined) = (None, false);
            match end {
                End::Failed(failure) => return Err(failure),
                End::Resume if self.next != self.began => {}
                End::Resume => self.rest("The feed ended at once", note).await,
                End::Broken(why) => self.rest(&why, note).await,
            }
        }
    }

    async fn rest(&mut self, why: &str, note: &mut Notes<'_>) {
        let (at, said) = self.lost.take().unwrap_or_else(|| (clock::now(), String::new()));
        if said != why {
            let missing =
                if self.next == 0 { ": what happens until then is not shown" } else { "" };
            note(&format!("Connection lost: {why}. Connecting again{missing}."));
        }
        self.lost = Some((at, why.to_owned()));
        sleep(self.backoff.pause(chance())).await;
    }

    async fn subscribe(&mut self, note: &mut Notes<'_>) -> Result<Streaming<wire::FeedItem>, End> {
        self.began = self.next;
        match self.open().await.map_err(End::Failed)? {
            Ok(items) => Ok(items),
            Err(status) if self.broker.shows_another(&status) => {
                Err(End::Broken("The token was replaced".into()))
            }
            Err(status) if is_lost(&status) => {
                let failure = self.broker.failure(&status);
                Err(match failure.as_reason() {
                    Some(Reason::Unavailable) => {
                        End::Broken(format!("No broker answers at {}", self.broker.url))
                    }
                    Some(_) | None => End::Failed(failure),
                })
            }
            Err(status) => Err(self.ended(&status, note)),
        }
    }

    async fn open(&self) -> Result<Result<Streaming<wire::FeedItem>, Status>, Failure> {
        let subscribe = async |channel: Channel, caller: wire::Caller| {
            let request = wire::SubscribeRequest {
                caller: Some(caller),
                from_sequence: self.next,
                ..Default::default()
            };
            channel::feed(channel).subscribe(request).await
        };
        self.broker.open(subscribe).await
    }

    fn ended(&mut self, status: &Status, note: &mut Notes<'_>) -> End {
        match Reason::of(status) {
            Some(Reason::Lagged) => End::Resume,
            Some(Reason::Compacted) => match oldest(status) {
                Some(oldest) if self.next < oldest => {
                    note(&format!(
                        "Events before {oldest} are no longer kept; going on from there."
                    ));
                    self.next = oldest;
                    End::Resume
                }
                _ => End::Failed(Failure::of_status(status)),
            },
            Some(Reason::Unavailable | Reason::Overloaded) => {
                End::Broken(status.message().trim_end_matches('.').to_owned())
            }
            _ if is_lost(status) => End::Broken("The connection broke".into()),
            _ => End::Failed(Failure::of_status(status)),
        }
    }
}
