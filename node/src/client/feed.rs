//! The broker's records: opened, and opened again where they were.
//!
//! Whether a feed that was opened again is of the journal that was read before is found out by
//! asking for the record that was told last once more. A broker that was given another journal has
//! another record under that number, or none, and would otherwise say nothing until it is as long
//! as the old one was.

use std::{pin::pin, time::Duration};

use futures::{Stream, StreamExt as _, stream::BoxStream};
use tasuki_proto::{reason::Reason, wire};
use tokio::time;
use tonic::Status;
use tonic_types::StatusExt as _;

use super::channel::{self, ATTEMPT_MS_MAX, Channel};

/// Records as the broker tells them; the last one may say why it ended.
pub type Items = BoxStream<'static, Result<wire::FeedItem, Ended>>;

/// Why a feed ended, or did not begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It goes on where it was.
    Broken(String),
    /// Records before `oldest` are no longer kept.
    Compacted { oldest: u64 },
    /// What comes after the record that was told last cannot be had.
    Lost(String),
}

impl Ended {
    /// The broker ended it without a word.
    pub fn silently() -> Self {
        Self::Broken("the broker ended it".to_owned())
    }

    fn of(status: &Status) -> Self {
        let message = status.message().to_owned();
        match Reason::of(status) {
            Some(Reason::Compacted) => {
                oldest(status).map_or(Self::Lost(message), |oldest| Self::Compacted { oldest })
            }
            Some(_) | None => Self::Broken(message),
        }
    }
}

/// The oldest record that a broker has, which no longer has those that were asked for.
pub fn oldest(status: &Status) -> Option<u64> {
    status.get_details_error_info()?.metadata.get("oldest")?.parse().ok()
}

/// Opens a feed from record `from` on; 0: what is yet to come.
pub async fn subscribe(channel: Channel, caller: wire::Caller, from: u64) -> Result<Items, Ended> {
    let request =
        wire::SubscribeRequest { caller: Some(caller), from_sequence: from, ..Default::default() };
    let mut client = channel::feed(channel);
    let opening = time::timeout(Duration::from_millis(ATTEMPT_MS_MAX), client.subscribe(request));
    let opened = opening
        .await
        .map_err(|_| Ended::Broken(format!("no answer within {ATTEMPT_MS_MAX} ms")))?;
    let items = opened.map_err(|status| Ended::of(&status))?.into_inner();
    Ok(items.map(|item| item.map_err(|status| Ended::of(&status))).boxed())
}

/// A feed that was opened from `last` on, behind that record.
pub async fn resume(mut items: Items, last: Last) -> Result<Items, Ended> {
    match first_record(&mut items, last).await {
        Again::Known(_) => Ok(items),
        Again::Ended(Some(ended)) => Err(ended),
        Again::Ended(None) => Err(Ended::silently()),
        Again::Other | Again::Silence => Err(Ended::Lost("the journal is another one".to_owned())),
    }
}

/// For the record that was told last to be told again, in milliseconds.
const KNOWN_MS_MAX: u64 = 3_000;

/// A record, as it is known again. A journal has each number once, and another one has another
/// time for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Last {
    pub sequence: u64,
    /// 0: not known.
    pub at_ms: u64,
}

impl Last {
    pub const fn of(item: &wire::FeedItem) -> Self {
        Self { sequence: item.sequence, at_ms: item.at_ms }
    }
}

/// What a feed from the last record on begins with.
#[derive(Debug, PartialEq, Eq)]
pub enum Again<E> {
    /// That record.
    Known(Last),
    /// Another one.
    Other,
    /// Nothing, for too long.
    Silence,
    /// The feed has ended, with this if it said why.
    Ended(Option<E>),
}

/// Takes the first record of a feed that was opened from `last` on.
pub async fn first_record<E>(
    items: impl Stream<Item = Result<wire::FeedItem, E>>,
    last: Last,
) -> Again<E> {
    let mut items = pin!(items);
    match time::timeout(Duration::from_millis(KNOWN_MS_MAX), items.next()).await {
        Ok(Some(Ok(item))) => {
            let is_time = last.at_ms == 0 || item.at_ms == last.at_ms;
            let is_known = item.sequence == last.sequence && is_time;
            if is_known { Again::Known(Last::of(&item)) } else { Again::Other }
        }
        Ok(Some(Err(why))) => Again::Ended(Some(why)),
        Ok(None) => Again::Ended(None),
        Err(_) => Again::Silence,
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    #[tokio::test]
    async fn a_journal_is_known_by_number_and_time_of_its_last_record() {
        let item = |sequence, at_ms| {
            Ok::<_, &str>(wire::FeedItem { sequence, at_ms, ..wire::FeedItem::default() })
        };
        for (first, at_ms, expected) in [
            (vec![item(7, 70), item(8, 80)], 70, Again::Known(Last { sequence: 7, at_ms: 70 })),
            (vec![item(7, 71)], 70, Again::Other),
            (vec![item(7, 71)], 0, Again::Known(Last { sequence: 7, at_ms: 71 })),
            (vec![item(8, 70)], 70, Again::Other),
            (vec![item(8, 70)], 0, Again::Other),
            (vec![Err("no")], 70, Again::Ended(Some("no"))),
            (vec![], 70, Again::Ended(None)),
        ] {
            let last = Last { sequence: 7, at_ms };
            assert_eq!(first_record(stream::iter(first), last).await, expected);
        }
    }
}
