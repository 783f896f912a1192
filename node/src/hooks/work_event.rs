//! What the broker's feed says of turns, issues, tasks, deliveries and runs, as events that hooks are
//! called for. Pure.
//!
//! The feed names some of those concerned; the others are read with the rest ([`Details`]). Either
//! way a role's place in the journal is the same whatever else a node hosts (Q1).
//!
//! What was taken over from elsewhere is no event.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{NodeId, RoleId},
    wire::{self, event::Noun as Said, run_event, swarm_event, turn_event},
};

use super::{
    details::Details,
    event::Place,
    spec::{Hook, Kind, Noun, Party},
};

/// Whom a node calls hooks for.
#[derive(Debug, Clone, Default)]
pub struct Hosted {
    pub roles: BTreeSet<RoleId>,
    /// Those of them that have the worker's tools.
    pub workers: BTreeSet<RoleId>,
    /// Those of them that have the acceptor's tools.
    pub acceptors: BTreeSet<RoleId>,
}

impl Hosted {
    /// The roles that are this party by the tools that they have; `None`: it is somebody in
    /// particular.
    const fn by_tools(&self, party: Party) -> Option<&BTreeSet<RoleId>> {
        match party {
            Party::Workers => Some(&self.workers),
            Party::Acceptors => Some(&self.acceptors),
            Party::From
            | Party::To
            | Party::Participants
            | Party::Lead
            | Party::Worker
            | Party::Deliverer
            | Party::Acceptor
            | Party::Starter => None,
        }
    }
}

/// One event that a record of the feed is, or may turn out to be once it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkEvent {
    pub kind: Kind,
    pub subject: Subject,
    /// Roles that the feed names.
    pub parties: Vec<(Party, String)>,
    /// Who else is to be found out, whatever of it is wanted.
    pub lacking: BTreeSet<Party>,
    pub sequence: u64,
    /// Among the record's events, from 0.
    pub event: usize,
    /// Among what the event may be, from 1.
    nth: usize,
}

/// What an event is about, as far as it takes to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Loop {
        name: String,
        turn: u64,
        /// Of the loop's history; 0: there is none.
        entry: u64,
    },
    Issue {
        id: String,
    },
    Task {
        issue: String,
        task: String,
        /// Of the entry in the issue's history.
        number: u64,
        /// Empty: none.
        message: String,
    },
    Delivery {
        issue: String,
        id: String,
    },
    Run {
        id: String,
        /// 0: none.
        message: u32,
    },
}

impl Subject {
    /// Its name for people.
    pub fn name(&self) -> String {
        match self {
            Self::Loop { name, .. } => name.clone(),
            Self::Task { issue, task, .. } => format!("{issue}/{task}"),
            Self::Issue { id } | Self::Delivery { id, .. } | Self::Run { id, .. } => id.clone(),
        }
    }
}

/// One event of the feed: what it is called, what it is about, and whom it names.
type FeedEvent<'a> = (&'a str, Subject, Vec<(Party, &'a str)>);

/// What one record says that is in `wanted`.
pub fn of_item(item: &wire::FeedItem, wanted: &BTreeSet<Kind>) -> Vec<WorkEvent> {
    let is_wanted = |noun| wanted.iter().any(|kind| kind.noun() == noun);
    let (turns, runs) = (is_wanted(Noun::Turn), is_wanted(Noun::Run));
    let issues = [Noun::Issue, Noun::Task, Noun::Delivery].into_iter().any(is_wanted);
    let mut found = Vec::new();
    for (event, said) in item.events.iter().enumerate() {
        let told = match &said.noun {
            Some(Said::Turn(it)) if turns => it.kind.as_ref().and_then(of_turn),
            Some(Said::Swarm(it)) if issues => it.kind.as_ref().and_then(of_swarm),
            Some(Said::Run(it)) if runs => it.kind.as_ref().and_then(of_run),
            Some(
                Said::Turn(_)
                | Said::Swarm(_)
                | Said::Run(_)
                | Said::Directory(_)
                | Said::Mail(_)
                | Said::Privacy(_)
                | Said::Guard(_)
                | Said::Call(_)
                | Said::Board(_)
                | Said::Pipeline(_),
            )
            | None => None,
        };
        let Some((name, subject, parties)) = told else { continue };
        let kinds = Kind::ALL.iter().filter(|kind| kind.noun() != Noun::Mail);
        let kinds: Vec<&Kind> = kinds.filter(|kind| kind.feed().contains(&name)).collect();
        let parties = parties.into_iter().filter(|(_, role)| !role.is_empty());
        let parties: Vec<_> = parties.map(|(party, role)| (party, role.to_owned())).collect();
        let concerned = kinds.iter().flat_map(|kind| kind.parties()).copied();
        let is_named = |party: &Party| parties.iter().any(|(named, _)| named == party);
        let lacking: BTreeSet<_> = concerned.filter(|party| !is_named(party)).collect();
        for (nth, kind) in (1..).zip(kinds).filter(|(_, kind)| wanted.contains(kind)) {
            found.push(WorkEvent {
                kind: *kind,
                subject: subject.clone(),
                parties: parties.clone(),
                lacking: lacking.clone(),
                sequence: item.sequence,
                event,
                nth,
            });
        }
    }
    found
}

fn of_turn(kind: &turn_event::Kind) -> Option<FeedEvent<'_>> {
    use Party::{From, Participants, To};
    use turn_event::Kind;
    let about = |name: &str, turn, entry| Subject::Loop { name: name.to_owned(), turn, entry };
    Some(match kind {
        Kind::LoopOpened(it) => {
            let first = it.participants.first().map_or("", String::as_str);
            let all = it.participants.iter().map(|role| (Participants, role.as_str()));
            ("loop_opened", about(&it.r#loop, 1, 0), all.chain([(To, first)]).collect())
        }
        Kind::RoundStarted(it) => {
            ("round_started", about(&it.r#loop, it.turn, it.entry), vec![(To, it.to.as_str())])
        }
        Kind::HandedOver(it) => {
            let name = if it.is_task_complete { "completed" } else { "handed_over" };
            let parties = vec![(From, it.from.as_str()), (To, &it.to)];
            (name, about(&it.r#loop, it.turn, it.entry), parties)
        }
        Kind::TurnReclaimed(it) => {
            let parties = vec![(From, it.from.as_str()), (To, &it.to)];
            ("turn_reclaimed", about(&it.r#loop, it.turn, it.entry), parties)
        }
        Kind::TurnLapsed(it) => ("turn_lapsed", about(&it.r#loop, it.turn, 0), Vec::new()),
        Kind::LoopPaused(it) => ("loop_paused", about(&it.r#loop, it.turn, 0), Vec::new()),
        Kind::LoopResumed(it) => ("loop_resumed", about(&it.r#loop, it.turn, 0), Vec::new()),
        Kind::ParticipantsSet(_) | Kind::TurnMarked(_) | Kind::LeaseRenewed(_) => return None,
    })
}

fn of_swarm(kind: &swarm_event::Kind) -> Option<FeedEvent<'_>> {
    use swarm_event::Kind;
    match kind {
        Kind::IssueChanged(it) => {
            let issue = it.issue_id.clone();
            let (subject, party) = match (it.delivery_id.as_str(), it.task_id.as_str()) {
                ("", "") => (Subject::Issue { id: issue }, Party::Lead),
                ("", task) => {
                    let (task, message) = (task.to_owned(), it.message_id.clone());
                    (Subject::Task { issue, task, number: it.number, message }, Party::Worker)
                }
                // An issue that is closed before a verdict names the delivery, too.
                (_, _) if it.r#type.starts_with("issue_") => {
                    (Subject::Issue { id: issue }, Party::Lead)
                }
                (id, _) => (Subject::Delivery { issue, id: id.to_owned() }, Party::Acceptor),
            };
            Some((it.r#type.as_str(), subject, vec![(party, it.worker.as_str())]))
        }
        Kind::ItemsHanded(_)
        | Kind::WorkerRegistered(_)
        | Kind::SharedDocWritten(_)
        | Kind::FilesLocked(_)
        | Kind::FilesUnlocked(_)
        | Kind::SwarmSettingsSet(_) => None,
    }
}

fn of_run(kind: &run_event::Kind) -> Option<FeedEvent<'_>> {
    use run_event::Kind;
    let about = |id: &str, message| Subject::Run { id: id.to_owned(), message };
    let (name, subject) = match kind {
        Kind::RunStarted(it) => ("run_started", about(&it.run_id, 0)),
        Kind::RunEnded(it) => ("run_ended", about(&it.run_id, 0)),
        Kind::ParentTold(it) if it.is_question => ("parent_asked", about(&it.run_id, it.message)),
        Kind::ParentTold(_)
        | Kind::StepStarted(_)
        | Kind::StepEnded(_)
        | Kind::RunStopped(_)
        | Kind::RunReplied(_)
        | Kind::RunsForgotten(_) => return None,
    };
    Some((name, subject, Vec::new()))
}

impl WorkEvent {
    /// Whether it can concern this node at all, before anything is read.
    pub fn may_concern(&self, hosted: &Hosted) -> bool {
        let is_hosted = |name: &str| hosted.roles.iter().any(|role| role.as_str() == name);
        self.kind.parties().iter().any(|party| match hosted.by_tools(*party) {
            Some(roles) => !roles.is_empty(),
            None => {
                self.lacking.contains(party)
                    || self.parties.iter().any(|(named, role)| named == party && is_hosted(role))
            }
        })
    }

    /// The roles of this node that it concerns; `None` among them: the node itself.
    pub fn concerned(
        &self,
        details: Option<&Details>,
        hosted: &Hosted,
        node: &NodeId,
    ) -> BTreeSet<Option<RoleId>> {
        let mut found = BTreeSet::new();
        if details.is_some_and(|it| it.is_not.contains(&self.kind)) {
            return found;
        }
        let read = details.iter().flat_map(|it| &it.parties);
        let read = read.filter(|(party, _)| self.lacking.contains(party));
        let named: Vec<_> = self.parties.iter().chain(read).collect();
        let started_at = details.and_then(|it| it.started_at.as_deref());
        let is_started_here = started_at == Some(node.as_str());
        for party in self.kind.parties() {
            if let Some(roles) = hosted.by_tools(*party) {
                found.extend(roles.iter().cloned().map(Some));
            } else if *party == Party::Starter && is_started_here {
                found.insert(None);
            } else {
                let is_named = |role: &&RoleId| {
                    named
                        .iter()
                        .any(|(as_party, name)| as_party == party && name.as_str() == role.as_str())
                };
                found.extend(hosted.roles.iter().filter(is_named).cloned().map(Some));
            }
        }
        found
    }

    /// Where it is for `role`. Those concerned are not counted up, for who they are may be others
    /// when it is read again: a part is made of the role's name.
    pub fn place(&self, role: Option<&RoleId>) -> Place {
        let hash = blake3::hash(role.map_or("", RoleId::as_str).as_bytes());
        let [first, second, third, ..] = *hash.as_bytes();
        let name = (usize::from(first) << 16) | (usize::from(second) << 8) | usize::from(third);
        let part = (self.nth << 24) | name;
        Place { sequence: self.sequence, event: self.event, part }
    }
}

impl Hook {
    /// Whether it wants to hear of something at a role, or at the node.
    pub fn is_for(&self, role: Option<&RoleId>) -> bool {
        self.roles.is_empty() || role.is_some_and(|role| self.roles.contains(role))
    }
}

#[cfg(test)]
mod tests;
