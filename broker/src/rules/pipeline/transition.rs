//! What follows what: where a pipeline goes from where it stands, and what is noted on its board.

use tasuki_proto::{
    id::{BoardName, CheckpointNumber, Timestamp},
    limits::PIPELINE_ATTEMPTS_MAX,
    pipeline::{Phase, PhaseIndex},
};

use super::{Change, Event, Outcome, Pipeline, Rejection, Status, Transition};
use crate::rules::{
    Decision, Rejection as AnyRejection, Reply, Workspace,
    board::{AGENT_STATE, AGENT_STATE_PHASES, ChannelUpdate},
};

/// A channel that pipelines themselves write to, on a board with the schema `agent_state`.
const NOTED: [&str; 3] = ["current_phase", LAST_ERROR, "retry_count"];

/// The channel that says why a phase failed.
pub(super) const LAST_ERROR: &str = "last_error";

/// Where a pipeline goes, before the checkpoint is known that it begins with there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    Phase(PhaseIndex),
    Approval(PhaseIndex, Timestamp),
    Ended(PhaseIndex, Outcome),
}

/// Makes the event of a pipeline that goes from where it stands to somewhere else.
#[derive(Clone)]
pub(super) struct TransitionBuilder<'a> {
    pub(super) board: &'a BoardName,
    pub(super) pipeline: &'a Pipeline,
    pub(super) now: Timestamp,
    pub(super) change: Change,
    pub(super) error: String,
    pub(super) next: Next,
    pub(super) retries: u32,
}

impl Pipeline {
    /// After a phase was passed: its approval, or what follows.
    pub(super) fn after_pass(&self, now: Timestamp) -> Next {
        let phase = self.status.phase();
        match self.phase().approval_ms {
            Some(ms) => Next::Approval(phase, now.plus_millis(ms)),
            None => self.after_phase(phase),
        }
    }

    /// After a phase, and what it needs, is done.
    pub(super) fn after_phase(&self, phase: PhaseIndex) -> Next {
        match self.definition.phase(phase).next {
            Some(next) => self.begin(next),
            None => Next::Ended(phase, Outcome::Completed),
        }
    }

    /// After it failed or was rejected, and how often it went back by then.
    pub(super) fn after_failure(&self, why: &str) -> (Next, u32) {
        let index = self.status.phase();
        let phase = self.phase();
        let failed = |why: String| Next::Ended(index, Outcome::Failed(why));
        let Some(back) = phase.on_failure else {
            return (failed(format!("phase {} failed: {why}", phase.name)), self.retries);
        };
        let max = self.definition.max_retries;
        if max <= self.retries {
            let times = if max == 1 { "retry is" } else { "retries are" };
            let why = format!("phase {} failed, and {max} {times} used up: {why}", phase.name);
            return (failed(why), self.retries);
        }
        (self.begin(back), self.retries + 1)
    }

    /// One more attempt.
    pub(super) fn begin(&self, phase: PhaseIndex) -> Next {
        if self.attempts.len() < PIPELINE_ATTEMPTS_MAX {
            return Next::Phase(phase);
        }
        let why = format!("{PIPELINE_ATTEMPTS_MAX} attempts were made, which is the limit");
        Next::Ended(phase, Outcome::Failed(why))
    }
}

impl TransitionBuilder<'_> {
    /// What is put on record: the move, and what is written to the board with it.
    pub(super) fn decide(
        self,
        workspace: &Workspace,
        updates: &[ChannelUpdate],
    ) -> Result<Decision, AnyRejection> {
        let boards = &workspace.boards;
        let mut all: Vec<ChannelUpdate> = updates.to_vec();
        // Boards are not sealed, so nothing is noted in a private workspace.
        let may_note = workspace.privacy.check_boards().is_ok();
        if may_note && self.pipeline.schema.as_str() == AGENT_STATE {
            // What it says of its own failure stays, whole.
            let has_failed = self.change == Change::Failed;
            let is_own = |it: &ChannelUpdate| {
                has_failed && it.channel.as_str() == LAST_ERROR && it.json != "null"
            };
            let mut notes = self.notes();
            if all.iter().any(is_own) {
                notes.retain(|it| it.channel.as_str() != LAST_ERROR);
            }
            all.retain(|it| is_own(it) || !NOTED.contains(&it.channel.as_str()));
            all.extend(notes);
            all.sort_unstable_by(|one, other| one.channel.cmp(&other.channel));
        }
        let head = boards.find(self.board).map_or(CheckpointNumber::NONE, |it| it.head());
        let mut decision = Decision::new::<Event>([], Reply::Done);
        let mut written = CheckpointNumber::NONE;
        if !all.is_empty() && (head != CheckpointNumber::NONE || !updates.is_empty()) {
            (written, decision) = boards.decide_write(self.board, &all, &self.pipeline.schema)?;
            decision.reply = Reply::Done;
        }
        let base = if written == CheckpointNumber::NONE { head } else { written };
        decision.events.push(self.build(base, written).into());
        Ok(decision)
    }

    /// The same where nothing has to be written: a board that takes no more notes holds nothing up.
    pub(super) fn decide_noted(self, workspace: &Workspace) -> Decision {
        let noted = self.clone().decide(workspace, &[]);
        noted.unwrap_or_else(|_| {
            let board = workspace.boards.find(self.board);
            let head = board.map_or(CheckpointNumber::NONE, |it| it.head());
            Decision::new([self.build(head, CheckpointNumber::NONE)], Reply::Done)
        })
    }

    fn build(self, base: CheckpointNumber, written: CheckpointNumber) -> Event {
        let status = match self.next {
            Next::Phase(phase) => Status::InPhase(phase, base),
            Next::Approval(phase, lapses) => Status::AwaitingApproval(phase, lapses),
            Next::Ended(phase, outcome) => Status::Ended(phase, outcome, self.now),
        };
        let to = self.pipeline.definition.phase(status.phase());
        Event::Transitioned(Transition {
            from: self.pipeline.phase().name.clone(),
            attempt: self.pipeline.last(),
            to: to.name.clone(),
            role: to.role.clone(),
            board: self.board.clone(),
            change: self.change,
            error: self.error,
            written,
            status,
            retries: self.retries,
        })
    }

    /// What people and agents read on the board of where the pipeline stands.
    fn notes(&self) -> Vec<ChannelUpdate> {
        let phase = match &self.next {
            Next::Phase(phase) | Next::Approval(phase, _) | Next::Ended(phase, _) => *phase,
        };
        let error = match self.change {
            Change::Failed | Change::Rejected | Change::TimedOut | Change::Denied => {
                serde_json::Value::from(self.error.as_str()).to_string()
            }
            Change::Passed | Change::Approved => "null".to_owned(),
            // The phase is as it was.
            Change::Lost | Change::ApprovalLapsed | Change::Canceled | Change::Resumed => {
                return Vec::new();
            }
        };
        notes(self.pipeline.definition.phase(phase), self.retries, &error)
    }
}

/// Where a pipeline stands, for its board.
pub(super) fn notes(phase: &Phase, retries: u32, error: &str) -> Vec<ChannelUpdate> {
    let note = |channel: &str, json: String| ChannelUpdate {
        channel: channel.parse().expect("the name of a channel"),
        json,
        messages: Vec::new(),
    };
    let name = phase.name.as_str();
    let known = AGENT_STATE_PHASES.contains(&name).then(|| note(NOTED[0], format!("\"{name}\"")));
    let notes = [note(NOTED[1], error.to_owned()), note(NOTED[2], retries.to_string())];
    known.into_iter().chain(notes).collect()
}

impl Pipeline {
    /// Why nothing more can be done with it.
    pub(super) fn check_open(&self, board: &BoardName) -> Result<(), Rejection> {
        let how = match &self.status {
            Status::InPhase(..) | Status::AwaitingApproval(..) => return Ok(()),
            Status::Ended(_, Outcome::Completed, _) => "was completed",
            Status::Ended(_, Outcome::Failed(_), _) => "failed",
            Status::Ended(_, Outcome::Canceled(_), _) => "was canceled",
            Status::Ended(_, Outcome::Lapsed, _) => "stopped because an approval lapsed",
        };
        Err(Rejection::Ended { board: board.clone(), how })
    }
}
