//! Takes the broker's feed in, for all hooks.
//!
//! Each hook has its own place in the feed. One whose calls pile up stays behind at its place,
//! while the others go on; once it has room again the feed is read from there. So what waits here
//! is bounded, and the broker's journal is the queue.
//!
//! A journal is known again by the time of the record that was taken in last: a broker that was
//! given another one has other numbers, and hooks begin there with what is to come.
//!
//! Places are kept with each record that called for something, and now and then besides: what is
//! read once more after a crash called for nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use futures::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{id::HookName, wire};
use tokio::time;

use super::{
    details::Details,
    document::{Read, Writer},
    event::{self, Facts, Happening},
    line::{Common, Line},
    source::{Part, Source, Unanswered},
    spec::{Action, Kind},
    store::{Call, Places, Taken, WAITING_MAX},
    work_event::{self, Hosted, WorkEvent},
};
use crate::{
    client::{
        feed::{self, Ended, Items, Last, first_record},
        retry::{Backoff, chance},
    },
    refusal::Refusal,
};

/// Records taken in until places are kept on disk although nothing was called for.
const KEEP_EVERY: u64 = 256;

/// Entries read to find the one that a move or a mark is about: those who write in a thread of
/// several take turns.
const ENTRIES_READ: u32 = 4;

/// How far each hook has come.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks(Arc<Mutex<BTreeMap<HookName, Taken>>>);

impl Marks {
    pub(super) fn get(&self) -> MutexGuard<'_, BTreeMap<HookName, Taken>> {
        self.0.lock()
    }
}

pub(super) struct Follower {
    pub(super) source: Arc<dyn Source>,
    pub(super) common: Common,
    pub(super) lines: Vec<Arc<Line>>,
    pub(super) hosted: Hosted,
    /// Events that any of the hooks is called for: of others nothing is read.
    pub(super) wanted: BTreeSet<Kind>,
    pub(super) writer: Writer,
    pub(super) marks: Marks,
    /// Hooks that stay at their place until they have room.
    pub(super) behind: BTreeSet<HookName>,
    /// The sequence up to which places are on disk.
    pub(super) kept: u64,
}

/// What was read for the events of one record, for whichever hook asks first.
#[derive(Default)]
struct Reads {
    threads: BTreeMap<event::Place, Read>,
    /// By the event's number in the record.
    details: BTreeMap<usize, Result<Details, Refusal>>,
}

/// Why the feed is to be opened again.
enum Again {
    /// At once: a hook has room for what it left.
    Room,
    Unanswered(String),
    Ended(Ended),
    /// It is not the journal that was read before.
    Other,
    Disk(io::Error),
    /// It is not: the node stops.
    Stopped,
}

impl From<Unanswered> for Again {
    fn from(Unanswered(why): Unanswered) -> Self {
        Self::Unanswered(why)
    }
}

impl From<Ended> for Again {
    fn from(ended: Ended) -> Self {
        Self::Ended(ended)
    }
}

impl From<io::Error> for Again {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

impl Follower {
    /// Runs until the node stops.
    pub(super) async fn run(mut self) {
        self.live().await;
        if let Err(error) = self.keep().await {
            tracing::warn!(%error, "how far hooks came is not on disk");
        }
    }

    async fn live(&mut self) {
        let mut backoff = Backoff::default();
        let stop = self.common.stop.clone();
        while stop.run_until_cancelled(self.source.ready()).await.is_some() {
            let before = self.lowest();
            let again = self.follow().await;
            if self.lowest() != before {
                backoff.reset();
            }
            match again {
                Again::Room => continue,
                Again::Stopped => return,
                Again::Unanswered(why) | Again::Ended(Ended::Broken(why) | Ended::Lost(why)) => {
                    self.is_deaf(why);
                }
                Again::Ended(Ended::Compacted { oldest }) => {
                    self.skip(oldest);
                }
                Again::Other => self.begin_anew(),
                Again::Disk(error) => {
                    tracing::error!(%error, "what hooks are to do cannot be kept on disk");
                    self.is_deaf(error.to_string());
                }
            }
            stop.run_until_cancelled(time::sleep(backoff.pause(chance()))).await;
        }
    }

    /// Nothing is heard of events for now. People hear of each reason once.
    fn is_deaf(&self, why: String) {
        let mut deaf = self.common.deaf();
        if deaf.as_ref() != Some(&why) {
            tracing::info!(why, "hooks hear of no events for now");
            *deaf = Some(why);
        }
    }

    /// The place of the hook that is furthest behind, among those with room.
    fn lowest(&self) -> Option<Taken> {
        let marks = self.marks.get();
        let names = self.lines.iter().map(|line| &line.hook.name);
        names
            .filter(|name| !self.behind.contains(*name))
            .filter_map(|it| marks.get(it))
            .min()
            .copied()
    }

    async fn follow(&mut self) -> Again {
        match self.try_follow().await {
            Ok(never) => match never {},
            Err(again) => again,
        }
    }

    async fn try_follow(&mut self) -> Result<std::convert::Infallible, Again> {
        let stop = self.common.stop.clone();
        stop.run_until_cancelled(self.begin()).await.unwrap_or(Err(Again::Stopped))?;
        self.look_for_room().await?;
        let Some(from) = self.lowest() else {
            // All are behind.
            loop {
                self.unless_stopped(self.common.room.notified()).await?;
                if self.look_for_room().await? {
                    return Err(Again::Room);
                }
            }
        };
        let mut items = self.unless_stopped(self.open(from)).await??;
        *self.common.deaf() = None;
        loop {
            let room = self.common.room.clone();
            tokio::select! {
                item = items.next() => match item {
                    Some(item) => self.take(item?).await?,
                    None => return Err(Ended::silently().into()),
                },
                () = stop.cancelled() => return Err(Again::Stopped),
                () = room.notified(), if !self.behind.is_empty() => {
                    if self.look_for_room().await? {
                        return Err(Again::Room);
                    }
                }
            }
        }
    }

    /// For what the broker or time decides. What was put on disk is gone past before the node
    /// stops, so that a stop repeats nothing.
    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, Again> {
        self.common.stop.run_until_cancelled(work).await.ok_or(Again::Stopped)
    }

    /// Gives hooks that have no place the newest one.
    async fn begin(&mut self) -> Result<(), Again> {
        let is_new = |line: &&Arc<Line>| !self.marks.get().contains_key(&line.hook.name);
        let new: Vec<_> = self.lines.iter().filter(is_new).cloned().collect();
        let Some(role) = self.hosted.roles.first().filter(|_| !new.is_empty()) else {
            return Ok(());
        };
        let sequence = self.source.newest(role).await?;
        for line in new {
            self.marks.get().insert(line.hook.name.clone(), Taken { sequence, at_ms: 0 });
        }
        self.keep().await?;
        Ok(())
    }

    /// Whether a hook that was behind is no longer.
    async fn look_for_room(&mut self) -> Result<bool, Again> {
        let mut found = false;
        for name in self.behind.clone() {
            let asked = name.clone();
            let waiting = self.common.disk(move |store| store.waiting(&asked)).await?;
            if waiting <= WAITING_MAX / 2 {
                self.behind.remove(&name);
                found = true;
            }
        }
        Ok(found)
    }

    /// Opens the feed behind `from`, having asked for that record once more.
    async fn open(&self, from: Taken) -> Result<Items, Again> {
        if from.sequence == 0 {
            return Ok(self.source.follow(1).await?);
        }
        let mut items = match self.source.follow(from.sequence).await {
            Ok(items) => items,
            // It is gone, and those after it are all there.
            Err(Ended::Compacted { oldest }) if oldest == from.sequence + 1 => {
                return Ok(self.source.follow(oldest).await?);
            }
            // The journal has not come so far yet.
            Err(Ended::Compacted { oldest }) if oldest <= from.sequence => {
                return Err(Again::Other);
            }
            Err(ended) => return Err(ended.into()),
        };
        let last = Last { sequence: from.sequence, at_ms: from.at_ms };
        match first_record(&mut items, last).await {
            feed::Again::Known(is) => {
                if from.at_ms == 0 {
                    self.know(from, is.at_ms).await?;
                }
                Ok(items)
            }
            feed::Again::Other => Err(Again::Other),
            feed::Again::Ended(Some(ended)) => Err(ended.into()),
            feed::Again::Ended(None) => Err(Ended::silently().into()),
            feed::Again::Silence => Err(self.doubt(from).await),
        }
    }

    /// Notes when the record at a place was written, so that its journal is known again.
    async fn know(&self, at: Taken, at_ms: u64) -> io::Result<()> {
        let same = |taken: &&mut Taken| **taken == at;
        self.marks.get().values_mut().filter(same).for_each(|taken| taken.at_ms = at_ms);
        self.keep().await
    }

    /// The record that was taken in last is not told again: is it there?
    async fn doubt(&self, from: Taken) -> Again {
        let Some(role) = self.hosted.roles.first() else {
            return Again::Unanswered("no role to ask as".to_owned());
        };
        match self.source.newest(role).await {
            Ok(newest) if newest < from.sequence => Again::Other,
            Ok(_) => Again::Unanswered("the feed says nothing".to_owned()),
            Err(Unanswered(why)) => Again::Unanswered(why),
        }
    }

    fn begin_anew(&self) {
        tracing::warn!("the broker's journal is another one; hooks go on with what is to come");
        let missed = "what happened before the broker's journal became another one";
        for line in &self.lines {
            line.tally().missed = Some(missed.to_owned());
        }
        self.marks.get().clear();
    }

    /// Records before `oldest` are gone.
    fn skip(&self, oldest: u64) {
        for line in &self.lines {
            let name = &line.hook.name;
            let mut marks = self.marks.get();
            let Some(taken) = marks.get_mut(name) else { continue };
            if taken.sequence + 1 < oldest {
                let missed = format!("events {} to {}", taken.sequence + 1, oldest - 1);
                tracing::warn!(hook = %name, missed, "the broker no longer has them");
                line.tally().missed = Some(missed);
                *taken = Taken { sequence: oldest - 1, at_ms: 0 };
            }
        }
    }

    /// Puts what a record calls for where it waits, then goes past the record (Q2).
    async fn take(&mut self, item: wire::FeedItem) -> Result<(), Again> {
        let happenings = event::of_item(&item, &self.hosted.roles);
        let work = work_event::of_item(&item, &self.wanted);
        let mut reads = Reads::default();
        let mut has_called = false;
        for line in self.lines.clone() {
            let name = &line.hook.name;
            let taken = self.marks.get().get(name).copied();
            if self.behind.contains(name) || taken.is_none_or(|it| item.sequence <= it.sequence) {
                continue;
            }
            let mut calls = self.calls(&line, &item, &happenings, &mut reads.threads).await?;
            calls.extend(self.work_calls(&line, &item, &work, &mut reads.details).await?);
            if !calls.is_empty() {
                let (asked, count) = (name.clone(), calls.len());
                let put = move |store: &super::store::Store| {
                    // One record may always call for more than there is room for at once.
                    if WAITING_MAX < store.waiting(&asked)? + count && store.waiting(&asked)? != 0 {
                        return Ok(false);
                    }
                    calls.iter().try_for_each(|call| store.put(&asked, call))?;
                    Ok(true)
                };
                if !self.common.disk(put).await? {
                    self.behind.insert(name.clone());
                    continue;
                }
                has_called = true;
                line.wake.notify_one();
            }
            let taken = Taken { sequence: item.sequence, at_ms: item.at_ms };
            self.marks.get().insert(name.clone(), taken);
        }
        if has_called || self.kept + KEEP_EVERY <= item.sequence {
            self.keep().await?;
            self.kept = item.sequence;
        }
        Ok(())
    }

    /// What a record's mail calls for from one hook.
    async fn calls(
        &self,
        line: &Line,
        item: &wire::FeedItem,
        happenings: &[Happening],
        threads: &mut BTreeMap<event::Place, Read>,
    ) -> Result<Vec<Call>, Again> {
        let mut calls = Vec::new();
        for happening in happenings.iter().filter(|it| line.hook.may_want(it)) {
            let read = match threads.get(&happening.place) {
                Some(read) => read,
                None => {
                    let read = self.unless_stopped(self.read(happening)).await??;
                    threads.entry(happening.place).or_insert(read)
                }
            };
            let entry = read.as_ref().ok().and_then(|read| happening.entry_of(&read.entries));
            let facts = entry.map(Facts::from).or_else(|| happening.facts.clone());
            if !line.hook.wants(facts.as_ref()) {
                continue;
            }
            let name = &line.hook.name;
            let id = self.writer.id(name, happening.place, item.at_ms);
            // What is sealed is for this machine: an address is not told more than the broker.
            let opened = match &line.hook.action {
                Action::Command(_) => {
                    Some(self.unless_stopped(self.source.open(read.clone())).await?)
                }
                Action::Webhook(_) => None,
            };
            let read = opened.as_ref().unwrap_or(read);
            let body = self.writer.write(&id, name, happening, item.at_ms, read);
            calls.push(Call::new(id, happening, item.at_ms, body));
        }
        Ok(calls)
    }

    /// What else a record calls for from one hook.
    async fn work_calls(
        &self,
        line: &Line,
        item: &wire::FeedItem,
        work: &[WorkEvent],
        details: &mut BTreeMap<usize, Result<Details, Refusal>>,
    ) -> Result<Vec<Call>, Again> {
        let (mut calls, name) = (Vec::new(), &line.hook.name);
        let wanted = work.iter().filter(|of| line.hook.on.contains(&of.kind));
        for of in wanted.filter(|of| of.may_concern(&self.hosted)) {
            let read = match details.get(&of.event) {
                Some(read) => read,
                None => {
                    let read = self.unless_stopped(self.source.details(of)).await??;
                    details.entry(of.event).or_insert(read)
                }
            };
            let concerned = of.concerned(read.as_ref().ok(), &self.hosted, &self.writer.node);
            for role in concerned.iter().map(Option::as_ref).filter(|role| line.hook.is_for(*role))
            {
                let id = self.writer.id(name, of.place(role), item.at_ms);
                let body = self.writer.write_work(&id, name, of, role, item.at_ms, read);
                calls.push(Call::of_work(id, of, role, item.at_ms, body));
            }
            // Whom it concerns is not known either.
            if let Err(refusal) = read
                && concerned.is_empty()
            {
                let missed = format!("{} of {}: {}", of.kind, of.subject.name(), refusal.message);
                tracing::warn!(hook = %name, missed, "the broker does not tell of it");
                line.tally().missed = Some(missed);
            }
        }
        Ok(calls)
    }

    /// The thread with the entry that it is about.
    async fn read(&self, happening: &Happening) -> Result<Read, Again> {
        let Happening { role, message, .. } = happening;
        let newest = if happening.is_of_one_entry() { 1 } else { ENTRIES_READ };
        let read = self.source.read(role, message, Part::Newest(newest)).await?;
        let is_there = |read: &wire::ReadThreadResponse| {
            happening.entry == 0 || read.entries.iter().any(|it| it.number == happening.entry)
        };
        match read {
            // The thread has gone on since.
            Ok(read) if !is_there(&read) => {
                Ok(self.source.read(role, message, Part::From(happening.entry)).await?)
            }
            read => Ok(read),
        }
    }

    async fn keep(&self) -> io::Result<()> {
        let marks = self.marks.get().clone();
        let hooks = marks.into_iter().map(|(name, taken)| (name.to_string(), taken)).collect();
        let places = Places { workspace: self.writer.workspace.to_string(), hooks };
        self.common.disk(move |store| store.keep_places(&places)).await
    }
}
