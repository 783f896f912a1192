//! What a command about pipelines does, or why it does nothing.

use serde_json::Value as Json;
use tasuki_proto::{
    id::{BoardName, NodeId, RoleId},
    limits::{OPEN_PIPELINES_MAX, PHASE_LEASE_MS, PIPELINES_MAX},
    pipeline::error_text,
};

use super::{
    Attempt, AttemptNumber, Change, Claim, Claimed, Command, DecideApproval, End, Event, Outcome,
    Pipeline, Pipelines, Rejection, Reply, Start, Started, Status,
    transition::{LAST_ERROR, Next, TransitionBuilder, notes},
};
use crate::rules::{
    Asked, Decision, Event as AnyEvent, Rejection as AnyRejection, Reply as AnyReply,
    board::{AGENT_STATE, Board},
};

/// The channel in which a gate says whether it is passed.
const VERDICT: &str = "is_approved";

impl Pipelines {
    pub(in crate::rules) fn decide(
        &self,
        asked: Asked<'_>,
        command: &Command,
    ) -> Result<Decision, AnyRejection> {
        match command {
            Command::Start(it) => self.decide_start(asked, it),
            Command::Claim { role, board, attempt } => {
                Ok(self.decide_claim(asked, role, board, *attempt)?)
            }
            Command::End(it) => self.decide_end(asked, it),
            Command::DecideApproval(it) => Ok(self.decide_approval(asked, it)?),
            Command::Cancel { board, reason, .. } => Ok(self.decide_cancel(asked, board, reason)?),
            Command::Resume { board, .. } => Ok(self.decide_resume(asked, board)?),
        }
    }

    /// What goes with a board that is deleted: its pipeline, which must have ended.
    pub(in crate::rules) fn decide_deleted(
        &self,
        board: &BoardName,
    ) -> Result<Option<AnyEvent>, Rejection> {
        match self.find(board).map(Pipeline::is_open) {
            Some(true) => Err(Rejection::BoardInUse { board: board.clone() }),
            Some(false) => Ok(Some(Event::Forgotten(board.clone()).into())),
            None => Ok(None),
        }
    }

    fn decide_start(&self, asked: Asked<'_>, start: &Start) -> Result<Decision, AnyRejection> {
        let before = self.find(&start.board);
        if before.is_some_and(Pipeline::is_open) {
            return Err(Rejection::Open { board: start.board.clone() }.into());
        }
        self.check_room()?;
        let mut updates = start.updates.clone();
        if start.schema.as_str() == AGENT_STATE {
            let notes = notes(start.definition.phase(0), 0, "null");
            updates.retain(|it| notes.iter().all(|note| note.channel != it.channel));
            updates.extend(notes);
            updates.sort_unstable_by(|one, other| one.channel.cmp(&other.channel));
        }
        let boards = &asked.workspace.boards;
        let (checkpoint, mut decision) =
            boards.decide_write(&start.board, &updates, &start.schema)?;
        decision.reply = AnyReply::Done;
        let started = Started {
            board: start.board.clone(),
            definition: start.definition.clone(),
            schema: start.schema.clone(),
            checkpoint,
        };
        // There is always one that has ended: fewer may be open than are remembered.
        if before.is_none() && PIPELINES_MAX <= self.count() {
            decision.events.extend(self.oldest_ended().map(|it| Event::Forgotten(it).into()));
        }
        decision.events.push(Event::Started(started).into());
        Ok(decision)
    }

    fn check_room(&self) -> Result<(), Rejection> {
        if OPEN_PIPELINES_MAX <= self.open { Err(Rejection::TooManyOpen) } else { Ok(()) }
    }

    fn decide_claim(
        &self,
        asked: Asked<'_>,
        role: &RoleId,
        board: &BoardName,
        number: AttemptNumber,
    ) -> Result<Decision, Rejection> {
        let node = calling_node(asked)?;
        let pipeline = self.get(board)?;
        pipeline.check_open(board)?;
        let taken = |why: String| Rejection::Taken { board: board.clone(), attempt: number, why };
        let Some((current, attempt)) = pipeline.current() else {
            return Err(taken("a person is asked to approve what was done".to_owned()));
        };
        if current != number {
            return Err(taken(format!("the newest is {current}")));
        }
        if let Some(claim) = &attempt.claim {
            return Err(taken(format!("node {} has it", claim.node)));
        }
        let phase = pipeline.phase();
        if phase.role != *role {
            let (phase, role) = (phase.name.clone(), phase.role.clone());
            return Err(Rejection::OtherRole { board: board.clone(), phase, role });
        }
        let token = self.token.next();
        let claimed = Claimed {
            board: board.clone(),
            attempt: number,
            node: node.clone(),
            token,
            lapses: asked.now.plus_millis(PHASE_LEASE_MS),
            deadline: asked.now.plus_millis(phase.timeout_ms),
            phase: phase.name.clone(),
            role: role.clone(),
        };
        Ok(Decision::new([Event::Claimed(claimed)], Reply::Claimed(token)))
    }

    fn decide_end(&self, asked: Asked<'_>, end: &End) -> Result<Decision, AnyRejection> {
        let node = calling_node(asked)?;
        let pipeline = self.get(&end.board)?;
        self.check_held(asked, node, pipeline, end)?;
        let phase = pipeline.phase();
        let author = phase.approves.map(|it| pipeline.definition.phase(it));
        let verdict = end.written(VERDICT);
        if author.is_none() && verdict.is_some() {
            return Err(Rejection::NoGate { phase: phase.name.clone() }.into());
        }
        let (change, error) = match (end.error(), author, verdict.map(|it| it.as_bool())) {
            // Words of agents are not sealed here.
            (Some(_), ..) if asked.workspace.privacy.check_boards().is_err() => {
                (Change::Failed, "it failed; why is not said in a private workspace".to_owned())
            }
            (Some(error), ..) => (Change::Failed, error),
            (None, None, _) => (Change::Passed, String::new()),
            (None, Some(_), None | Some(None)) => {
                return Err(Rejection::NoVerdict { phase: phase.name.clone() }.into());
            }
            (None, Some(_), Some(Some(false))) => {
                (Change::Rejected, format!("{} did not approve it", phase.name))
            }
            (None, Some(author), Some(Some(true))) => {
                if author.role == end.role {
                    let (phase, role) = (phase.name.clone(), end.role.clone());
                    return Err(Rejection::OwnWork { phase, role }.into());
                }
                (Change::Passed, String::new())
            }
        };
        let (next, retries) = if change == Change::Passed {
            (pipeline.after_pass(asked.now), pipeline.retries)
        } else {
            pipeline.after_failure(&error)
        };
        let transition = TransitionBuilder {
            board: &end.board,
            pipeline,
            now: asked.now,
            change,
            error,
            next,
            retries,
        };
        if end.updates.is_empty() && transition.change == Change::Failed {
            // That it failed is known, whatever the board takes.
            return Ok(transition.decide_noted(asked.workspace));
        }
        transition.decide(asked.workspace, &end.updates)
    }

    /// Whether the node has the attempt, under this token.
    fn check_held(
        &self,
        asked: Asked<'_>,
        node: &NodeId,
        pipeline: &Pipeline,
        end: &End,
    ) -> Result<(), Rejection> {
        let (board, number) = (&end.board, end.attempt);
        let not_held = |why: String| Rejection::NotHeld {
            board: board.clone(),
            attempt: number,
            node: node.clone(),
            why,
        };
        let Some(Attempt { claim, end: ended, .. }) = pipeline.attempt(number) else {
            return Err(not_held(format!("the newest attempt is {}", pipeline.last())));
        };
        let Some(Claim { node: holder, token, deadline, .. }) = claim else {
            return Err(not_held("nobody took it".to_owned()));
        };
        if *token != end.token {
            let (board, presented) = (board.clone(), end.token);
            return Err(Rejection::StaleToken { board, attempt: number, presented });
        }
        if holder != node {
            return Err(not_held(format!("node {holder} took it")));
        }
        if let Some(ended) = ended {
            let how = match ended.how {
                Change::Lost => "the node was not heard of, and it is made again",
                Change::TimedOut => "it took too long",
                Change::Canceled => "the pipeline was canceled",
                Change::Passed
                | Change::Failed
                | Change::Rejected
                | Change::Approved
                | Change::Denied
                | Change::ApprovalLapsed
                | Change::Resumed => "it has ended",
            };
            return Err(not_held(how.to_owned()));
        }
        if *deadline <= asked.now {
            return Err(not_held("it took too long".to_owned()));
        }
        Ok(())
    }

    fn decide_approval(
        &self,
        asked: Asked<'_>,
        it: &DecideApproval,
    ) -> Result<Decision, Rejection> {
        let pipeline = self.get(&it.board)?;
        let none = |why: String| Rejection::NoApprovalPending { board: it.board.clone(), why };
        let (phase, lapses) = match &pipeline.status {
            Status::AwaitingApproval(phase, lapses) => (*phase, *lapses),
            Status::InPhase(..) => {
                return Err(none(format!("phase {} is not done yet", pipeline.phase().name)));
            }
            Status::Ended(phase, Outcome::Lapsed, _) => {
                let phase = pipeline.definition.phase(*phase).name.clone();
                return Err(Rejection::ApprovalLapsed { board: it.board.clone(), phase });
            }
            Status::Ended(..) => {
                pipeline.check_open(&it.board)?;
                return Err(none("it has ended".to_owned()));
            }
        };
        let name = &pipeline.phase().name;
        if lapses <= asked.now {
            let (board, phase) = (it.board.clone(), name.clone());
            return Err(Rejection::ApprovalLapsed { board, phase });
        }
        let last = pipeline.last();
        if let Some(other) = it.attempt.filter(|attempt| *attempt != last) {
            return Err(none(format!("attempt {last} of phase {name} does, and not {other}")));
        }
        let newest = asked.workspace.boards.find(&it.board).map(Board::head).unwrap_or_default();
        if let Some(checkpoint) = it.checkpoint.filter(|checkpoint| *checkpoint != newest) {
            let (board, phase) = (it.board.clone(), name.clone());
            return Err(Rejection::BoardChanged { board, phase, checkpoint, newest });
        }
        let (change, error, (next, retries)) = if it.is_approved {
            let next = pipeline.after_phase(phase);
            (Change::Approved, it.reason.clone(), (next, pipeline.retries))
        } else {
            let why = match it.reason.as_str() {
                "" => format!("{} rejected it", it.by),
                reason => reason.to_owned(),
            };
            let next = pipeline.after_failure(&why);
            (Change::Denied, why, next)
        };
        let transition = TransitionBuilder {
            board: &it.board,
            pipeline,
            now: asked.now,
            change,
            error,
            next,
            retries,
        };
        Ok(transition.decide_noted(asked.workspace))
    }

    fn decide_cancel(
        &self,
        asked: Asked<'_>,
        board: &BoardName,
        reason: &str,
    ) -> Result<Decision, Rejection> {
        let pipeline = self.get(board)?;
        if matches!(pipeline.status, Status::Ended(_, Outcome::Canceled(_), _)) {
            return Ok(Decision::repeat(AnyReply::Done));
        }
        pipeline.check_open(board)?;
        let next = Next::Ended(pipeline.status.phase(), Outcome::Canceled(reason.to_owned()));
        let (change, error) = (Change::Canceled, reason.to_owned());
        let retries = pipeline.retries;
        let transition =
            TransitionBuilder { board, pipeline, now: asked.now, change, error, next, retries };
        Ok(transition.decide_noted(asked.workspace))
    }

    fn decide_resume(&self, asked: Asked<'_>, board: &BoardName) -> Result<Decision, Rejection> {
        let pipeline = self.get(board)?;
        let Status::Ended(phase, outcome, _) = &pipeline.status else {
            return Err(Rejection::StillOpen { board: board.clone() });
        };
        self.check_room()?;
        // What was done and not approved waits for that again.
        let was_passed = pipeline
            .attempts
            .last()
            .is_some_and(|it| it.end.as_ref().is_some_and(|end| end.how == Change::Passed));
        let next = match (outcome, pipeline.definition.phase(*phase).approval_ms) {
            (Outcome::Completed, _) => {
                return Err(pipeline.check_open(board).expect_err("it ended"));
            }
            (Outcome::Lapsed | Outcome::Canceled(_), Some(ms)) if was_passed => {
                Next::Approval(*phase, asked.now.plus_millis(ms))
            }
            (Outcome::Failed(_) | Outcome::Canceled(_) | Outcome::Lapsed, _) => {
                pipeline.begin(*phase)
            }
        };
        if let Next::Ended(..) = next {
            let how = "made as many attempts as it may; start it anew";
            return Err(Rejection::Ended { board: board.clone(), how });
        }
        let (change, error) = (Change::Resumed, String::new());
        let transition =
            TransitionBuilder { board, pipeline, now: asked.now, change, error, next, retries: 0 };
        Ok(transition.decide_noted(asked.workspace))
    }
}

impl End {
    /// What it writes to a channel.
    fn written(&self, channel: &str) -> Option<Json> {
        let update = self.updates.iter().find(|it| it.channel.as_str() == channel)?;
        serde_json::from_str(&update.json).ok()
    }

    /// Why the phase failed: the node says so, or what was made does, with a text in `last_error`.
    fn error(&self) -> Option<String> {
        match (&self.error, self.written(LAST_ERROR)) {
            (Some(error), _) => Some(error.clone()),
            (None, Some(Json::String(error))) => Some(error_text(&error)),
            (None, _) => None,
        }
    }
}

/// The node that asks.
fn calling_node<'a>(asked: Asked<'a>) -> Result<&'a NodeId, Rejection> {
    let node = asked.caller.node.as_ref().map(|(node, _)| node);
    node.ok_or(Rejection::NodeRequired)
}
