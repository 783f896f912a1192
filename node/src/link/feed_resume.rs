//! Whether a feed that was opened again is of the journal that was read before.
//!
//! The record that was told last is asked for once more. A broker that was given another journal
//! has another record under that number, or none, and would otherwise say nothing until it is as
//! long as the old one was.

use std::{pin::pin, time::Duration};

use futures::{Stream, StreamExt as _};
use tasuki_proto::wire;
use tokio::time;

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
pub async fn told_again<E>(
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
            assert_eq!(told_again(stream::iter(first), last).await, expected);
        }
    }
}
