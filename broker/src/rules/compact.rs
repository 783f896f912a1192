//! What is over and no longer kept: which of it may be removed, and what still has texts.
//!
//! Each noun says of its own what is over. Never removed is what is open, held, not yet seen, or
//! named by something that is.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{CheckpointNumber, LoopId, Timestamp},
    mail::MessageId,
    run::RunId,
    swarm::{DocName, IssueId},
};

use super::{
    Decision, Event, Reply, Workspace,
    board::{BoardId, ResultPlace},
    mailbox::{ContentHash, ThreadNumber},
};

/// What is named in one record, at most.
const REMOVED_MAX: usize = 1000;

/// What a compaction may remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactKind {
    /// Threads that are resolved or canceled, and files attached to nothing else.
    Mail,
    /// Issues that are closed or canceled, with their tasks.
    Issues,
    /// Runs that ended.
    Runs,
    /// Old entries of the histories of loops.
    Turns,
    /// Old versions of shared documents.
    Documents,
}

impl CompactKind {
    pub const ALL: [Self; 5] = [Self::Mail, Self::Issues, Self::Runs, Self::Turns, Self::Documents];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Issues => "issues",
            Self::Runs => "runs",
            Self::Turns => "turns",
            Self::Documents => "documents",
        }
    }

    /// Those of these names; all where there are none.
    ///
    /// # Errors
    /// Says which name is none, and what the names are.
    pub fn named(names: &[String]) -> Result<BTreeSet<Self>, String> {
        if names.is_empty() {
            return Ok(Self::ALL.into());
        }
        let named = |name: &String| {
            let found = Self::ALL.into_iter().find(|it| it.as_str() == name);
            let known = || Self::ALL.map(Self::as_str).join(", ");
            found.ok_or_else(|| format!("{name:?} is no kind; there are {}", known()))
        };
        names.iter().map(named).collect()
    }
}

/// Removes those of these that were over by then. What is not, or is gone, stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compact {
    pub before: Timestamp,
    pub threads: Vec<ThreadNumber>,
    pub issues: Vec<IssueId>,
    /// The first of each tree.
    pub runs: Vec<RunId>,
    /// Of each history the last entry to be removed.
    pub histories: Vec<(LoopId, u64)>,
    pub docs: Vec<DocName>,
}

impl Compact {
    pub fn is_empty(&self) -> bool {
        *self == Self { before: self.before, ..Self::default() }
    }

    /// The same in commands of which none makes a large record.
    pub fn parts(&self) -> impl Iterator<Item = Self> {
        let one = || Self { before: self.before, ..Self::default() };
        let threads = self.threads.chunks(REMOVED_MAX);
        let threads = threads.map(move |it| Self { threads: it.to_vec(), ..one() });
        let issues = self.issues.chunks(REMOVED_MAX);
        let issues = issues.map(move |it| Self { issues: it.to_vec(), ..one() });
        let runs = self.runs.chunks(REMOVED_MAX);
        let runs = runs.map(move |it| Self { runs: it.to_vec(), ..one() });
        let histories = self.histories.chunks(REMOVED_MAX);
        let histories = histories.map(move |it| Self { histories: it.to_vec(), ..one() });
        let docs = self.docs.chunks(REMOVED_MAX);
        let docs = docs.map(move |it| Self { docs: it.to_vec(), ..one() });
        threads.chain(issues).chain(runs).chain(histories).chain(docs)
    }
}

/// What a text belongs to: it is kept as long as that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextOwner {
    Entry(LoopId, u64),
    Thread(MessageId),
    File(ContentHash),
    Issue(IssueId),
    /// A version of a shared document.
    Doc(DocName, u32),
    Run(RunId),
    Checkpoint(BoardId, CheckpointNumber),
    BoardResult(ResultPlace),
}

impl Workspace {
    /// All that was over by then. `histories`: of each history the last entry that is old enough.
    pub fn compactable(
        &self,
        before: Timestamp,
        kinds: &BTreeSet<CompactKind>,
        histories: Vec<(LoopId, u64)>,
    ) -> Compact {
        let mut it = Compact { before, ..Compact::default() };
        for kind in kinds {
            match kind {
                CompactKind::Mail => it.threads = self.mail.over(before).collect(),
                CompactKind::Issues => it.issues = self.swarm.over(before).collect(),
                CompactKind::Runs => it.runs = self.runs.over(before).collect(),
                CompactKind::Turns => it.histories.clone_from(&histories),
                CompactKind::Documents => {
                    it.docs = self.swarm.old_docs(before).cloned().collect();
                }
            }
        }
        it
    }

    /// The state once all of it is removed.
    #[must_use]
    pub fn compacted(mut self, it: &Compact) -> Self {
        let (time, nobody) = (self.time, super::Principal::default());
        for event in self.decide_compact(it).events {
            self.apply_event(time, &nobody, &event);
        }
        self
    }

    pub(super) fn decide_compact(&self, it: &Compact) -> Decision {
        let mail = self.mail.decide_compact(it.before, &it.threads).map(Event::from);
        let swarm = self.swarm.decide_compact(it.before, &it.issues, &it.docs).map(Event::from);
        let runs = self.runs.decide_compact(it.before, &it.runs).map(Event::from);
        let turns = self.loops.decide_compact(&it.histories).map(Event::from);
        let events = mail.into_iter().chain(swarm).chain(runs).chain(turns);
        Decision::new(events, Reply::Done)
    }

    /// Whether what a text belongs to is there.
    pub fn has(&self, owner: &TextOwner) -> bool {
        match owner {
            TextOwner::Entry(id, number) => {
                let found = self.loops.by_id.get(id);
                found.is_some_and(|it| (it.oldest_entry()..=it.entries).contains(number))
            }
            TextOwner::Thread(id) => self.mail.threads().find(*id).is_some(),
            TextOwner::File(hash) => self.mail.has_file(hash),
            TextOwner::Issue(id) => self.swarm.issues().contains_key(id),
            TextOwner::Doc(name, version) => {
                let found = self.swarm.shared_docs.by_name.get(name);
                found.is_some_and(|it| (it.oldest()..=it.version).contains(version))
            }
            TextOwner::Run(id) => self.runs.get(*id).is_ok(),
            TextOwner::Checkpoint(board, checkpoint) => self.boards.has(*board, *checkpoint),
            TextOwner::BoardResult(place) => self.boards.has_result(place),
        }
    }
}
