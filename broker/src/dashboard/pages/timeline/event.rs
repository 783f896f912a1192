//! Events as marks in lanes, and turns as bars. Pure.

use std::collections::{BTreeMap, BTreeSet};

use tasuki_proto::wire::{
    self, board_event, call_event, event::Noun, guard_event, mail_event, pipeline_event, run_event,
    swarm_event, turn_event,
};

use super::{super::Words, Filter};

/// What a mark is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Turns, handovers, and what else becomes of a loop.
    Loop,
    Mail,
    Task,
    Lock,
    Run,
    /// Shared state.
    Board,
}

impl Kind {
    pub(super) const ALL: [Self; 6] =
        [Self::Loop, Self::Mail, Self::Task, Self::Lock, Self::Run, Self::Board];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Mail => "mail",
            Self::Task => "task",
            Self::Lock => "lock",
            Self::Run => "run",
            Self::Board => "board",
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) at_ms: u64,
    /// The record that it is of.
    pub(super) sequence: u64,
    pub(super) kind: Kind,
    /// Whoever did it.
    pub(super) lane: String,
    /// Whom it went to; empty: nobody.
    pub(super) to: String,
    /// Empty: it is of no loop.
    pub(super) of_loop: String,
    /// What has its words.
    pub(super) words: Option<Words>,
    pub(super) text: String,
}

impl Mark {
    pub(super) fn roles(&self) -> [&str; 2] {
        [&self.lane, &self.to]
    }
}

/// A turn, from when it began until it ended or the end of the picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bar {
    pub(super) lane: String,
    pub(super) of_loop: String,
    pub(super) turn: u64,
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
    pub(super) is_open: bool,
    /// The record that began it.
    pub(super) sequence: u64,
}

/// What happened in a time, oldest first.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    pub(super) marks: Vec<Mark>,
    pub(super) bars: Vec<Bar>,
    /// Roles, by name.
    pub(super) lanes: BTreeSet<String>,
    pub(super) loops: BTreeSet<String>,
}

impl Timeline {
    pub(super) fn new(records: &[wire::FeedItem], now_ms: u64) -> Self {
        let mut timeline = Self::default();
        let mut open: BTreeMap<String, Bar> = BTreeMap::new();
        for item in records {
            for noun in item.events.iter().filter_map(|it| it.noun.as_ref()) {
                if let Noun::Turn(wire::TurnEvent { kind: Some(kind) }) = noun {
                    turns(kind, item, &mut open, &mut timeline.bars);
                }
                timeline.marks.extend(mark(noun, item));
            }
        }
        timeline.bars.extend(open.into_values().map(|bar| Bar {
            until_ms: now_ms,
            is_open: true,
            ..bar
        }));
        for mark in &timeline.marks {
            timeline
                .lanes
                .extend(mark.roles().into_iter().filter(|it| !it.is_empty()).map(str::to_owned));
        }
        timeline.lanes.extend(timeline.bars.iter().map(|it| it.lane.clone()));
        let loops = timeline.marks.iter().map(|it| &it.of_loop);
        let loops = loops.chain(timeline.bars.iter().map(|it| &it.of_loop));
        timeline.loops = loops.filter(|it| !it.is_empty()).cloned().collect();
        timeline
    }

    /// The part of it that is looked at. `told` is what has the words that are looked for.
    pub(super) fn within(
        &self,
        from: u64,
        until: u64,
        filter: &Filter,
        told: &BTreeSet<Words>,
    ) -> Self {
        let is_in =
            |mark: &&Mark| from <= mark.at_ms && mark.at_ms <= until && filter.has(mark, told);
        let marks: Vec<Mark> = self.marks.iter().filter(is_in).cloned().collect();
        // Whom a role had to do with has its turns beside it.
        let with: BTreeSet<&String> = marks.iter().flat_map(|it| [&it.lane, &it.to]).collect();
        let shows_bars = filter.q.is_empty() && (filter.kind.is_empty() || filter.kind == "loop");
        let has = |bar: &&Bar| {
            shows_bars
                && from <= bar.until_ms
                && bar.from_ms <= until
                && (filter.role.is_empty() || filter.role == bar.lane || with.contains(&bar.lane))
                && (filter.r#loop.is_empty() || filter.r#loop == bar.of_loop)
        };
        let bars: Vec<Bar> = self.bars.iter().filter(has).cloned().collect();
        let mut lanes: BTreeSet<String> = marks.iter().map(|it| it.lane.clone()).collect();
        lanes.extend(marks.iter().map(|it| it.to.clone()).filter(|it| !it.is_empty()));
        lanes.extend(bars.iter().map(|it| it.lane.clone()));
        Self { marks, bars, lanes, loops: self.loops.clone() }
    }
}

/// Ends the bar of a turn that is over, and begins that of the next.
fn turns(
    kind: &turn_event::Kind,
    item: &wire::FeedItem,
    open: &mut BTreeMap<String, Bar>,
    bars: &mut Vec<Bar>,
) {
    use turn_event::Kind;
    let (name, next) = match kind {
        Kind::HandedOver(it) => (&it.r#loop, (!it.is_task_complete).then_some((&it.to, it.turn))),
        Kind::TurnReclaimed(it) => (&it.r#loop, Some((&it.to, it.turn))),
        Kind::RoundStarted(it) => (&it.r#loop, Some((&it.to, it.turn))),
        Kind::LoopOpened(_)
        | Kind::ParticipantsSet(_)
        | Kind::TurnMarked(_)
        | Kind::TurnLapsed(_)
        | Kind::LeaseRenewed(_)
        | Kind::LoopPaused(_)
        | Kind::LoopResumed(_) => return,
    };
    if let Some(bar) = open.remove(name) {
        bars.push(Bar { until_ms: item.at_ms, ..bar });
    }
    if let Some((to, turn)) = next {
        let bar = Bar {
            lane: to.clone(),
            of_loop: name.clone(),
            turn,
            from_ms: item.at_ms,
            until_ms: item.at_ms,
            is_open: false,
            sequence: item.sequence,
        };
        open.insert(name.clone(), bar);
    }
}

/// What an event is in the picture. Presence, receipts of letters and renewals are not: there are
/// many, and nobody acts on them.
fn mark(noun: &Noun, item: &wire::FeedItem) -> Option<Mark> {
    let who = [&item.role, &item.person, &item.node].into_iter().find(|it| !it.is_empty());
    let who = who.cloned().unwrap_or_else(|| "broker".to_owned());
    let (kind, lane, to, of_loop, text) = match noun {
        Noun::Turn(it) => {
            let (lane, to, of_loop, text) = turn(it.kind.as_ref()?, &who)?;
            (Kind::Loop, lane, to, of_loop, text)
        }
        Noun::Mail(it) => {
            let (lane, to, text) = mail(it.kind.as_ref()?, &who)?;
            (Kind::Mail, lane, to, String::new(), text)
        }
        Noun::Swarm(it) => {
            let (kind, to, text) = swarm(it.kind.as_ref()?)?;
            (kind, who, to, String::new(), text)
        }
        Noun::Run(it) => (Kind::Run, who, String::new(), String::new(), run(it.kind.as_ref()?)?),
        Noun::Guard(it) => {
            let (role, text) = guard(it.kind.as_ref()?)?;
            (Kind::Loop, role, String::new(), String::new(), text)
        }
        Noun::Call(it) => {
            let (lane, to, text) = call(it.kind.as_ref()?);
            (Kind::Run, lane, to, String::new(), text)
        }
        Noun::Board(it) => {
            (Kind::Board, who, String::new(), String::new(), board(it.kind.as_ref()?))
        }
        Noun::Pipeline(it) => {
            let (lane, text) = pipeline(it.kind.as_ref()?, &who);
            (Kind::Task, lane, String::new(), String::new(), text)
        }
        Noun::Directory(_) | Noun::Privacy(_) => return None,
    };
    let words = words(noun);
    Some(Mark { at_ms: item.at_ms, sequence: item.sequence, kind, lane, to, of_loop, words, text })
}

/// What has the words of what happened, if anything has.
fn words(noun: &Noun) -> Option<Words> {
    use turn_event::Kind;
    if let Noun::Mail(wire::MailEvent { kind: Some(mail_event::Kind::MailSent(it)) }) = noun {
        return Some(Words::Letter(it.message_id.clone(), it.entry));
    }
    let Noun::Turn(wire::TurnEvent { kind: Some(kind) }) = noun else { return None };
    match kind {
        Kind::HandedOver(it) => Some(Words::Entry(it.r#loop.clone(), it.entry)),
        Kind::RoundStarted(it) => Some(Words::Entry(it.r#loop.clone(), it.entry)),
        Kind::TurnReclaimed(it) => Some(Words::Entry(it.r#loop.clone(), it.entry)),
        Kind::LoopOpened(_)
        | Kind::ParticipantsSet(_)
        | Kind::TurnMarked(_)
        | Kind::TurnLapsed(_)
        | Kind::LeaseRenewed(_)
        | Kind::LoopPaused(_)
        | Kind::LoopResumed(_) => None,
    }
}

fn turn(kind: &turn_event::Kind, who: &str) -> Option<(String, String, String, String)> {
    use turn_event::Kind;
    Some(match kind {
        Kind::HandedOver(it) => {
            let text = match it.is_task_complete {
                true => format!("{} completed {}", it.from, it.r#loop),
                false => format!(
                    "{} ended turn {} of {} and handed it to {}",
                    it.from, it.ended_turn, it.r#loop, it.to
                ),
            };
            (it.from.clone(), it.to.clone(), it.r#loop.clone(), text)
        }
        Kind::TurnReclaimed(it) => {
            let text = format!(
                "turn {} of {} was taken from {} and given to {}: {}",
                it.ended_turn, it.r#loop, it.from, it.to, it.reason
            );
            (who.to_owned(), it.to.clone(), it.r#loop.clone(), text)
        }
        Kind::RoundStarted(it) => {
            let text = format!("round {} of {} began with {}", it.round, it.r#loop, it.to);
            (who.to_owned(), it.to.clone(), it.r#loop.clone(), text)
        }
        Kind::LoopOpened(it) => {
            let text = format!("loop {} opened for {}", it.r#loop, it.participants.join(", "));
            (who.to_owned(), String::new(), it.r#loop.clone(), text)
        }
        Kind::TurnLapsed(it) => {
            let text = format!("{} stalled: the lease of turn {} lapsed", it.r#loop, it.turn);
            (who.to_owned(), String::new(), it.r#loop.clone(), text)
        }
        Kind::LoopPaused(it) => {
            let text = format!("{} paused: {}", it.r#loop, it.reason);
            (who.to_owned(), String::new(), it.r#loop.clone(), text)
        }
        Kind::LoopResumed(it) => {
            let text = format!("{} goes on", it.r#loop);
            (who.to_owned(), String::new(), it.r#loop.clone(), text)
        }
        Kind::ParticipantsSet(_) | Kind::TurnMarked(_) | Kind::LeaseRenewed(_) => return None,
    })
}

/// A role that was paused or goes on.
fn guard(kind: &guard_event::Kind) -> Option<(String, String)> {
    use guard_event::Kind;
    Some(match kind {
        Kind::RolePaused(it) => (it.role.clone(), format!("{} paused: it {}", it.role, it.reason)),
        Kind::RoleResumed(it) => (it.role.clone(), format!("{} goes on", it.role)),
        Kind::LimitsSet(_) | Kind::BudgetSet(_) | Kind::UsageReported(_) => return None,
    })
}

fn board(kind: &board_event::Kind) -> String {
    use board_event::Kind;
    match kind {
        Kind::BoardUpdated(it) if it.channels.is_empty() => {
            format!(
                "board {}, checkpoint {}, continues from {}",
                it.board, it.checkpoint, it.parent
            )
        }
        Kind::BoardUpdated(it) => {
            format!("board {}, checkpoint {}: {}", it.board, it.checkpoint, it.channels.join(", "))
        }
        Kind::BoardDeleted(it) => format!("board {} deleted", it.board),
    }
}

fn pipeline(kind: &pipeline_event::Kind, who: &str) -> (String, String) {
    use pipeline_event::Kind;
    match kind {
        Kind::PipelineStarted(it) => {
            (who.to_owned(), format!("pipeline {} started with {}", it.board, it.phase))
        }
        Kind::PhaseClaimed(it) => {
            let text = format!(
                "{} begins {} of pipeline {}, attempt {}",
                it.role, it.phase, it.board, it.attempt
            );
            (it.role.clone(), text)
        }
        Kind::PipelineChanged(it) => {
            let how = super::super::bare(it.change().as_str_name());
            let stands = super::super::bare(it.status().as_str_name());
            let text = format!(
                "pipeline {}, {}: {how}; {stands} at {}",
                it.board, it.phase, it.next_phase
            );
            (who.to_owned(), text)
        }
    }
}

fn call(kind: &call_event::Kind) -> (String, String, String) {
    use call_event::Kind;
    match kind {
        Kind::ToolCalled(it) => {
            let text = format!("{} called {} of {}", it.role, it.tool, it.target);
            (it.role.clone(), it.target.clone(), text)
        }
        Kind::ToolCallEnded(it) => {
            let how = super::super::bare(it.outcome().as_str_name());
            let text = format!("{} of {}, called by {}: {how}", it.tool, it.target, it.role);
            (it.target.clone(), it.role.clone(), text)
        }
    }
}

fn mail(kind: &mail_event::Kind, who: &str) -> Option<(String, String, String)> {
    use mail_event::Kind;
    Some(match kind {
        Kind::MailSent(it) => {
            let to = it.receivers.first().cloned().unwrap_or_default();
            let what = if it.entry == 1 { "wrote to" } else { "answered" };
            let text = format!("{} {what} {} ({})", it.sender, it.receivers.join(", "), it.r#type);
            (it.sender.clone(), to, text)
        }
        Kind::MailMoved(it) => {
            let what = match it.r#box() {
                wire::Box::Done => "resolved",
                wire::Box::Cancel => "rejected",
                wire::Box::Inbox | wire::Box::Outbox | wire::Box::Unspecified => return None,
            };
            (it.role.clone(), String::new(), format!("{} {what} a thread", it.role))
        }
        Kind::MailLapsed(it) => {
            let text = format!("a letter lapsed before {} saw it", it.roles.join(", "));
            (it.sender.clone(), String::new(), text)
        }
        Kind::MailDied(it) if !it.is_revived => {
            let text = format!("a thread of {} is a dead letter: never seen", it.role);
            (it.role.clone(), String::new(), text)
        }
        Kind::MailImported(it) => (
            who.to_owned(),
            String::new(),
            format!("a thread of {} was imported", it.participants.join(", ")),
        ),
        Kind::MailDied(_)
        | Kind::MailMarked(_)
        | Kind::MailboxOpened(_)
        | Kind::MailboxClosed(_) => {
            return None;
        }
    })
}

fn swarm(kind: &swarm_event::Kind) -> Option<(Kind, String, String)> {
    use swarm_event::Kind as Swarm;
    Some(match kind {
        Swarm::IssueChanged(it) => {
            let what = it.r#type.replacen("issue_task", "task", 1).replace('_', " ");
            let about = if it.task_id.is_empty() { &it.issue_id } else { &it.task_id };
            (Kind::Task, it.worker.clone(), format!("{what}: {about}"))
        }
        Swarm::FilesLocked(it) => {
            (Kind::Lock, String::new(), format!("{} locked {} files", it.holder, it.files))
        }
        Swarm::FilesUnlocked(it) => {
            (Kind::Lock, String::new(), format!("a lock ended: {}", it.why.replace('_', " ")))
        }
        Swarm::SharedDocWritten(it) => (
            Kind::Task,
            String::new(),
            format!("document {} written, version {}", it.name, it.version),
        ),
        Swarm::ItemsHanded(_) | Swarm::WorkerRegistered(_) | Swarm::SwarmSettingsSet(_) => {
            return None;
        }
    })
}

fn run(kind: &run_event::Kind) -> Option<String> {
    use run_event::Kind;
    Some(match kind {
        Kind::RunStarted(it) => format!("{} started with {}", it.run_id, it.agents.join(", ")),
        Kind::StepStarted(it) => format!("step {} of {} runs on {}", it.step, it.run_id, it.node),
        Kind::StepEnded(it) => format!(
            "step {} of {} ended: {}",
            it.step,
            it.run_id,
            super::super::bare(it.status().as_str_name())
        ),
        Kind::RunEnded(it) => {
            format!("{} ended: {}", it.run_id, super::super::bare(it.status().as_str_name()))
        }
        Kind::RunStopped(it) => format!("{} is stopped", it.run_id),
        Kind::ParentTold(it) if it.is_question => {
            format!("step {} of {} asks a question", it.step, it.run_id)
        }
        Kind::ParentTold(_) | Kind::RunReplied(_) | Kind::RunsForgotten(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed(sequence: u64, at_ms: u64, from: &str, to: &str, turn: u64) -> wire::FeedItem {
        let handed = wire::HandedOver {
            r#loop: "main".into(),
            from: from.into(),
            to: to.into(),
            turn,
            ..Default::default()
        };
        let kind = Some(turn_event::Kind::HandedOver(handed));
        let event = wire::Event { noun: Some(Noun::Turn(wire::TurnEvent { kind })) };
        wire::FeedItem {
            sequence,
            at_ms,
            role: from.into(),
            events: vec![event],
            ..Default::default()
        }
    }

    #[test]
    fn a_turn_is_a_bar_from_its_beginning_to_its_end() {
        let records = [handed(1, 10, "A", "B", 2), handed(2, 30, "B", "A", 3)];
        let timeline = Timeline::new(&records, 50);
        let bars: Vec<_> = timeline
            .bars
            .iter()
            .map(|it| (it.lane.as_str(), it.from_ms, it.until_ms, it.is_open))
            .collect();
        assert_eq!(bars, [("B", 10, 30, false), ("A", 30, 50, true)]);
        assert_eq!(timeline.marks.len(), 2);
        assert_eq!(timeline.lanes.into_iter().collect::<Vec<_>>(), ["A", "B"]);
    }

    #[test]
    fn one_looks_at_a_part_of_it() {
        let records = [handed(1, 10, "A", "B", 2), handed(2, 30, "B", "A", 3)];
        let timeline = Timeline::new(&records, 50);
        let told = BTreeSet::from([Words::Entry("main".into(), 0)]);
        let count = |filter: &Filter| timeline.within(0, 20, filter, &told).marks.len();
        assert_eq!(count(&Filter::default()), 1);
        assert_eq!(count(&Filter { role: "B".into(), ..Default::default() }), 1);
        assert_eq!(count(&Filter { role: "C".into(), ..Default::default() }), 0);
        assert_eq!(count(&Filter { kind: "mail".into(), ..Default::default() }), 0);
        assert_eq!(count(&Filter { q: "HANDED".into(), ..Default::default() }), 1);
        assert_eq!(count(&Filter { q: "said in it".into(), ..Default::default() }), 1);
        assert_eq!(count(&Filter { r#loop: "other".into(), ..Default::default() }), 0);
    }
}
