//! `tasuki watch`: what happens, live.
//!
//! What happened while the connection was lost comes in one go when it is back. It stands under a
//! heading, or is counted where it is too much to read; programs get all of it either way.

use std::time::Duration;

use serde_json::json;
use tasuki_proto::{counted::counted, wire};
use tokio::time::timeout;

use super::{
    Failure, Output,
    broker::Broker,
    events,
    following::{Following, Told},
    labels::long,
    stopped,
    text::time,
    titles::TitleClient,
};
use crate::{clock, config::Config};

/// Commands that were missed and are shown; of more it is said how many, and how to see them.
const MISSED_SHOWN_MAX: usize = 50;

/// Nothing more was missed if nothing comes for so long.
const MISSED_WITHIN: Duration = Duration::from_millis(500);

/// Show events of the workspace, live, one line each.
///
/// With --json each line is what one command did: its `events`, each with its `noun`, its `kind` and
/// the fields of that kind.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Sequence in the workspace's journal to start from [default: only new events]
    #[arg(long, value_name = "SEQUENCE", value_parser = clap::value_parser!(u64).range(1..))]
    from: Option<u64>,
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let mut printer = EventPrinter { titles: TitleClient::new(&broker, config), output };
    tokio::select! {
        result = printer.follow(&broker, args.from.unwrap_or(0)) => result,
        () = stopped() => Ok(()),
    }
}

/// Commands that were carried out while nobody was connected.
#[derive(Debug)]
struct Missed {
    /// Until when they were, by the broker's clock.
    until_ms: u64,
    items: Vec<wire::FeedItem>,
    /// With those that are not kept.
    count: usize,
}

impl Missed {
    /// Takes it, if it is one of them.
    fn take(&mut self, item: wire::FeedItem) -> Option<wire::FeedItem> {
        if self.until_ms < item.at_ms {
            return Some(item);
        }
        self.count += 1;
        if self.items.len() <= MISSED_SHOWN_MAX {
            self.items.push(item);
        }
        None
    }

    /// What stands above them, and those that are shown.
    fn shown(self) -> (String, Vec<wire::FeedItem>) {
        let Some(first) = self.items.first() else {
            return ("Nothing was missed.".to_owned(), Vec::new());
        };
        let changes = counted(self.count, "change");
        let (since, from) = (time(first.at_ms), first.sequence);
        if self.count <= MISSED_SHOWN_MAX {
            return (format!("Missed meanwhile: {changes} since {since}:"), self.items);
        }
        let heading = format!(
            "Missed meanwhile: {changes} since {since}. To see them: tasuki watch --from {from}"
        );
        (heading, Vec::new())
    }
}

struct EventPrinter<'a> {
    titles: TitleClient,
    output: &'a mut Output,
}

impl EventPrinter<'_> {
    async fn follow(&mut self, broker: &Broker, from: u64) -> Result<(), Failure> {
        let mut feed = Following::new(broker, from).await?;
        let mut missed: Option<Missed> = None;
        loop {
            let output = &mut *self.output;
            let mut note = |note: &str| output.note(note);
            let told = match &missed {
                None => Some(feed.next(&mut note).await?),
                Some(_) => timeout(MISSED_WITHIN, feed.next(&mut note)).await.ok().transpose()?,
            };
            let item = match told {
                Some(Told::Joined { away: None }) => continue,
                Some(Told::Joined { away: Some(away) }) => {
                    self.flush(missed.take()).await?;
                    missed = self.back(broker, away).await;
                    continue;
                }
                Some(Told::Item(item)) => match &mut missed {
                    Some(missed) => missed.take(item),
                    None => Some(item),
                },
                None => {
                    self.flush(missed.take()).await?;
                    continue;
                }
            };
            if let Some(item) = item {
                self.flush(missed.take()).await?;
                self.show(&item).await?;
            }
        }
    }

    /// The connection is there again. Programs are shown what comes as it comes.
    async fn back(&mut self, broker: &Broker, away: Duration) -> Option<Missed> {
        let away = long(u64::try_from(away.as_millis()).unwrap_or(u64::MAX));
        self.output.note(&format!("Connected again after {away}."));
        if self.output.is_json() {
            return None;
        }
        // Of whatever is asked, the answer has the broker's time.
        let request = wire::ListWorkersRequest { worker: "none".to_owned(), ..Default::default() };
        let now_ms = broker.call(&request).await.map(|told| told.now_ms);
        let until_ms = now_ms.unwrap_or_else(|_| clock::wall_ms());
        Some(Missed { until_ms, items: Vec::new(), count: 0 })
    }

    async fn flush(&mut self, missed: Option<Missed>) -> Result<(), Failure> {
        let Some(missed) = missed else { return Ok(()) };
        let (heading, items) = missed.shown();
        self.output.note(&heading);
        for item in items {
            self.show(&item).await?;
        }
        Ok(())
    }

    async fn show(&mut self, item: &wire::FeedItem) -> Result<(), Failure> {
        if !self.output.is_json() {
            self.titles.learn(&item.events).await;
        }
        let titles = &self.titles.titles;
        self.output.answer(|| json!(item), || events::lines(item, titles))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missed_is_shown_or_counted() {
        let heading = |count: u64| {
            let mut missed = Missed { until_ms: 2_000, items: Vec::new(), count: 0 };
            for sequence in 7..7 + count {
                let item = wire::FeedItem { sequence, at_ms: 1_000, ..Default::default() };
                assert!(missed.take(item).is_none());
            }
            let live = wire::FeedItem { sequence: 99, at_ms: 2_001, ..Default::default() };
            assert_eq!(missed.take(live.clone()), Some(live));
            let (heading, items) = missed.shown();
            format!("{heading} {}", items.len())
        };
        for (count, expected) in [
            (0, "Nothing was missed. 0"),
            (1, "Missed meanwhile: 1 change since 1970-01-01 00:00:01Z: 1"),
            (50, "Missed meanwhile: 50 changes since 1970-01-01 00:00:01Z: 50"),
            (
                51,
                "Missed meanwhile: 51 changes since 1970-01-01 00:00:01Z. To see them: tasuki watch \
                 --from 7 0",
            ),
        ] {
            assert_eq!(heading(count), expected);
        }
    }
}
