//! `TurnLoop`: turns, rounds, history.

use std::ops::Bound;

use tasuki_proto::{
    id::{LoopId, Turn},
    limits::{HISTORY_PAGE_MAX, LOOPS_PAGE_MAX},
    wire::{self, park_response::Outcome, turn_event::Kind},
};
use tonic::Status;

use super::{
    Answer, Endpoint, Later, WorkspaceSession, at_once, default_response, parse,
    render::{cause, ms, text},
    status,
};
use crate::{
    journal::JournalError,
    rules::{
        ReceiptKind, Reply,
        guard::Cause,
        turn::{
            self, EntryBody, EntryKind, EntryMeta, Loop, Pause, PauseReason, Receipts, TurnStatus,
        },
    },
    workspace::{Question, View},
};

/// Text of one page of a history, in bytes: half of what one message may carry.
const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

impl Endpoint for wire::CreateLoopRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let loop_id: LoopId = parse::id("loop", &self.r#loop)?;
        let participants = parse::participants(&self.participants)?;
        let allow_new_roles = self.allow_new_roles;
        let create = turn::CreateLoop { loop_id: loop_id.clone(), participants, allow_new_roles };
        let render = move |view: &View<'_>, _| {
            let state = loop_state(&loop_id, view.workspace.loops.get(&loop_id)?, view);
            Ok(at_once(wire::CreateLoopResponse { r#loop: Some(state) }))
        };
        session.execute(turn::Command::CreateLoop(create), render).await
    }
}

impl Endpoint for wire::StartRoundRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let start = turn::StartRound {
            loop_id: parse::loop_id(&self.r#loop)?,
            by: parse::actor(&self.role, &self.person)?,
            to: parse::optional("to", &self.to)?,
            summary: parse::text("summary", self.summary)?,
            instruction: parse::text("instruction", self.instruction)?,
        };
        let render = |_: &View<'_>, reply: Reply| {
            let Reply::Turn(turn::Reply::Started { round, turn, holder }) = reply else {
                unreachable!("a round is started or refused")
            };
            let (turn, holder) = (turn.get(), holder.to_string());
            Ok(at_once(wire::StartRoundResponse { round, turn, holder, ..Default::default() }))
        };
        session.execute(turn::Command::StartRound(start), render).await
    }
}

impl Endpoint for wire::AwaitTurnRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let question = question(&self.r#loop, &self.role)?;
        let Outcome::Turn(answer) = session.wait(question, self.hold_ms).await? else {
            unreachable!("a question about turns is answered with one")
        };
        Ok(wire::AwaitTurnResponse { answer: Some(answer) })
    }
}

impl Endpoint for wire::HandOverRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let instruction = if self.is_task_complete {
            parse::text("instruction", self.instruction)?
        } else {
            parse::required_text("instruction", self.instruction)?
        };
        let handover = turn::HandOver {
            loop_id: parse::loop_id(&self.r#loop)?,
            role: session.role()?,
            summary: parse::required_text("summary", self.summary)?,
            instruction,
            is_task_complete: self.is_task_complete,
            to: parse::optional("to", &self.to)?,
            turn: (self.turn != 0).then(|| Turn::from(self.turn)),
        };
        let render = |_: &View<'_>, reply: Reply| {
            let Reply::Turn(turn::Reply::Handed { ended, next, pause: paused }) = reply else {
                unreachable!("a turn is handed over or refused")
            };
            Ok(at_once(wire::HandOverResponse {
                ended_turn: ended.get(),
                turn: next.as_ref().map_or(0, |(turn, _)| turn.get()),
                to: text(next.as_ref().map(|(_, to)| to)),
                is_finished: next.is_none(),
                pause: paused.as_ref().map(pause),
                ..Default::default()
            }))
        };
        session.execute(turn::Command::HandOver(handover), render).await
    }
}

impl Endpoint for wire::MarkTurnRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        use wire::mark_turn_request::Mark as Wire;
        let mark = match self.mark() {
            Wire::Handed => ReceiptKind::Handed,
            Wire::Seen => ReceiptKind::Seen,
            Wire::Unspecified => return Err(status::invalid("mark", &"is missing")),
        };
        let (loop_id, role) = (parse::loop_id(&self.r#loop)?, session.role()?);
        let mark = turn::MarkTurn::new(loop_id, role, self.turn.into(), mark);
        session.execute(turn::Command::Mark(mark), default_response).await
    }
}

impl Endpoint for wire::GetLoopRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let loop_id = parse::loop_id(&self.r#loop)?;
        let seen = session.query(None, move |view| {
            let state = view.workspace.loops.get(&loop_id)?;
            Ok((loop_state(&loop_id, state, view), state.latest.clone()))
        });
        let (state, latest) = seen.await?;
        let state = Some(state);
        let Some(latest) = latest else {
            return Ok(wire::GetLoopResponse { r#loop: state, ..Default::default() });
        };
        let (words, reclaim) = session.latest_words(&latest)?;
        let words = reclaim.map(|_| session.entry(&words)).transpose()?;
        let latest = Some(session.entry(&latest)?);
        Ok(wire::GetLoopResponse { r#loop: state, latest, words })
    }
}

impl Endpoint for wire::ListLoopsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let limit = parse::limit(self.limit, LOOPS_PAGE_MAX, LOOPS_PAGE_MAX);
        let after = parse::optional::<LoopId>("after", &self.after)?;
        let list = move |view: &View<'_>| {
            let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut rest = view.workspace.loops.by_id.range((from, Bound::Unbounded));
            let page = rest.by_ref().take(limit);
            let loops: Vec<_> = page.map(|(id, state)| loop_state(id, state, view)).collect();
            let next = loops.last().filter(|_| rest.next().is_some());
            let next = next.map(|it: &wire::Loop| it.r#loop.clone()).unwrap_or_default();
            Ok(wire::ListLoopsResponse { loops, next })
        };
        session.query(None, list).await
    }
}

impl Endpoint for wire::ReclaimRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let reclaim = turn::Reclaim {
            loop_id: parse::loop_id(&self.r#loop)?,
            by: parse::actor(&self.role, &self.person)?,
            to: parse::optional("to", &self.to)?,
            reason: parse::reason(self.reason)?,
            turn: (self.turn != 0).then(|| Turn::from(self.turn)),
        };
        let render = |_: &View<'_>, reply: Reply| {
            let Reply::Turn(turn::Reply::Reclaimed { ended, turn, from, to }) = reply else {
                unreachable!("a turn is reclaimed or refused")
            };
            Ok(at_once(wire::ReclaimResponse {
                ended_turn: ended.get(),
                turn: turn.get(),
                from: from.to_string(),
                to: to.to_string(),
                ..Default::default()
            }))
        };
        session.execute(turn::Command::Reclaim(reclaim), render).await
    }
}

impl Endpoint for wire::PauseLoopRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let loop_id = parse::loop_id(&self.r#loop)?;
        let by = parse::actor(&self.role, &self.person)?;
        let reason = parse::reason(self.reason)?;
        let command = turn::PauseLoop { loop_id: loop_id.clone(), by, reason };
        let render = move |view: &View<'_>, _| {
            let state = loop_state(&loop_id, view.workspace.loops.get(&loop_id)?, view);
            Ok(at_once(wire::PauseLoopResponse { r#loop: Some(state) }))
        };
        session.execute(turn::Command::Pause(command), render).await
    }
}

impl Endpoint for wire::ResumeLoopRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let loop_id = parse::loop_id(&self.r#loop)?;
        let by = parse::actor(&self.role, &self.person)?;
        let reason = parse::optional_reason(self.reason)?;
        let command = turn::ResumeLoop { loop_id: loop_id.clone(), by, reason };
        let render = move |view: &View<'_>, _| {
            let state = loop_state(&loop_id, view.workspace.loops.get(&loop_id)?, view);
            Ok(at_once(wire::ResumeLoopResponse { r#loop: Some(state) }))
        };
        session.execute(turn::Command::Resume(command), render).await
    }
}

impl Endpoint for wire::HistoryRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let loop_id = parse::loop_id(&self.r#loop)?;
        let asked = loop_id.clone();
        let latest = session.query(None, move |view| {
            let state = view.workspace.loops.get(&asked)?;
            Ok(state.latest.clone().map(|latest| (latest, state.oldest_entry())))
        });
        let Some((latest, oldest)) = latest.await? else {
            return Ok(wire::HistoryResponse::default());
        };
        let limit = parse::limit(self.limit, HISTORY_PAGE_MAX, HISTORY_PAGE_MAX) as u64;
        // Those before were removed.
        let from = self.from.max(oldest);
        let mut page = wire::HistoryResponse::default();
        let mut bytes = 0;
        for number in from..=latest.number.min(from.saturating_add(limit - 1)) {
            let meta = session.entry_meta(&loop_id, number, &latest)?;
            let entry = session.entry(&meta)?;
            bytes += entry.summary.len() + entry.instruction.len();
            if PAGE_BYTES_MAX < bytes && !page.entries.is_empty() {
                break;
            }
            page.entries.push(entry);
        }
        let read = from + page.entries.len() as u64;
        page.next = if read <= latest.number { read } else { 0 };
        Ok(page)
    }
}

/// What a wait for a turn asks.
pub(super) fn question(loop_id: &str, role: &str) -> Result<Question, Status> {
    Ok(Question::Turn { loop_id: parse::loop_id(loop_id)?, role: parse::id("role", role)? })
}

/// What a wait for a turn ended with.
pub(super) fn outcome(
    it: turn::Answer,
    is_superseded: bool,
    sequence: u64,
) -> Later<wire::TurnAnswer> {
    let can_start = it.standing == TurnStatus::CanStart;
    let is_finished = it.standing == TurnStatus::Finished;
    let mut answer = wire::TurnAnswer {
        can_start,
        is_finished,
        still_waiting: !can_start && !is_finished,
        superseded: is_superseded,
        r#loop: it.loop_id.to_string(),
        round: it.round,
        turn: it.turn.get(),
        holder: text(it.holder.as_ref()),
        latest: None,
        reclaim: None,
        lease_lapses_ms: ms(it.lapses),
        sequence,
        pause: it.pause.as_deref().map(pause),
    };
    let Some(latest) = it.latest.filter(|_| !answer.still_waiting) else { return at_once(answer) };
    Box::new(move |session| {
        let (words, reclaim) = session.latest_words(&latest)?;
        answer.latest = Some(session.entry(&words)?);
        answer.reclaim = reclaim.map(|meta| session.entry(&meta)).transpose()?;
        Ok(answer)
    })
}

fn receipts(it: &Receipts) -> wire::Receipts {
    wire::Receipts {
        stored_ms: ms(it.stored),
        handed_ms: ms(it.handed),
        seen_ms: ms(it.seen),
        acted_ms: ms(it.acted),
        failed_ms: ms(it.failed),
        lapsed_ms: ms(it.lapsed),
    }
}

fn pause(it: &Pause) -> wire::Pause {
    let (person, role) = match &it.reason {
        PauseReason::Asked { person, role, reason: _ } => (person.as_ref(), role.as_ref()),
        PauseReason::Role { role, reason: _ } => (None, Some(role)),
        PauseReason::Turns { .. } | PauseReason::Cycle { .. } => (None, None),
    };
    wire::Pause {
        at_ms: it.at.as_millis(),
        kind: pause_kind(&it.reason).into(),
        reason: it.reason.to_string(),
        person: text(person),
        role: text(role),
    }
}

const fn pause_kind(it: &PauseReason) -> wire::PauseKind {
    match it {
        PauseReason::Asked { .. } => wire::PauseKind::Asked,
        PauseReason::Turns { .. } => wire::PauseKind::Turns,
        PauseReason::Cycle { .. } => wire::PauseKind::Cycle,
        PauseReason::Role { .. } => wire::PauseKind::Role,
    }
}

fn loop_state(id: &LoopId, it: &Loop, view: &View<'_>) -> wire::Loop {
    let status = match (&it.holder, it.lease) {
        (None, _) => wire::LoopStatus::Completed,
        (Some(_), _) if it.pause.is_some() => wire::LoopStatus::Paused,
        (Some(_), None) => wire::LoopStatus::Idle,
        (Some(_), Some(_)) => match it.timed_lease() {
            Some(lease) if lease.is_lapsed => wire::LoopStatus::Stalled,
            Some(_) | None => wire::LoopStatus::Working,
        },
    };
    let max_turns_alone = view.workspace.guard.turns_of(id).unwrap_or_default();
    wire::Loop {
        r#loop: id.to_string(),
        participants: it.participants.iter().map(ToString::to_string).collect(),
        round: it.round,
        turn: it.turn.get(),
        status: status.into(),
        holder: text(it.holder.as_ref()),
        turn_began_ms: it.began.as_millis(),
        lease_lapses_ms: it.timed_lease().map_or(0, |lease| lease.lapses.as_millis()),
        quiet_since_ms: quiet_since(it, view),
        receipts: it.latest.as_ref().map(|latest| receipts(&latest.receipts)),
        entries: it.entries,
        waiting: view.waits.roles(id).map(ToString::to_string).collect(),
        pause: it.pause.as_ref().map(pause),
        turns_alone: it.turns_alone(),
        max_turns_alone,
    }
}

/// Since when a turn's holder gave no sign of life; 0 while it does.
fn quiet_since(it: &Loop, view: &View<'_>) -> u64 {
    /// Signs of a connected agent come with the node's heartbeats; two may be missed.
    const QUIET_MS_MIN: u64 = 30_000;
    let Some(holder) = it.holder.as_ref().filter(|_| it.lease.is_some()) else { return 0 };
    if view.waits.is_waiting(holder) {
        return 0;
    }
    let sign = view.context.presence.role(holder).map_or(it.began, |sign| sign.at.max(it.began));
    if view.now.millis_since(sign) < QUIET_MS_MIN { 0 } else { sign.as_millis() }
}

impl WorkspaceSession {
    /// A history entry with its words.
    fn entry(&self, meta: &EntryMeta) -> Result<wire::Entry, Status> {
        let (mut summary, mut instruction) = (String::new(), String::new());
        if meta.has_text {
            let body = self.body(&meta.loop_id, meta.number)?;
            (summary, instruction) = (body.summary, body.instruction);
        }
        Ok(wire::Entry {
            number: meta.number,
            kind: match meta.kind {
                EntryKind::Handover => wire::EntryKind::Handover,
                EntryKind::Reclaim => wire::EntryKind::Reclaim,
                EntryKind::RoundStart => wire::EntryKind::RoundStart,
            }
            .into(),
            round: meta.round,
            ended_turn: meta.ended.get(),
            turn: meta.next.as_ref().map_or(0, |(turn, _)| turn.get()),
            from: text(meta.from.as_ref()),
            to: text(meta.next.as_ref().map(|(_, to)| to)),
            summary,
            instruction,
            is_task_complete: meta.next.is_none(),
            reason: meta.reason.clone(),
            person: text(meta.person.as_ref()),
            node: text(meta.node.as_ref()),
            at_ms: ms(meta.receipts.stored),
            receipts: Some(receipts(&meta.receipts)),
            token: text(meta.token.as_ref()),
            hops: meta.hops.unwrap_or_default(),
            cause: meta
                .hops
                .filter(|_| meta.ended != Turn::NONE)
                .map(|_| cause(&Cause::Turn { loop_id: meta.loop_id.clone(), turn: meta.ended })),
        })
    }

    /// What is known of entry `number` of a loop whose newest is `latest`.
    fn entry_meta(
        &self,
        loop_id: &LoopId,
        number: u64,
        latest: &EntryMeta,
    ) -> Result<EntryMeta, Status> {
        if number == latest.number {
            return Ok(latest.clone());
        }
        let after = self.body(loop_id, number + 1)?;
        let meta = after.before.filter(|meta| meta.number == number);
        meta.ok_or_else(|| {
            status::reading(&JournalError::Damaged {
                place: format!(
                    "workspace {}, loop {loop_id}, entry {}",
                    self.workspace,
                    number + 1
                ),
                what: format!("the facts of entry {number} are missing"),
            })
        })
    }

    /// What the journal keeps beside the records of entry `number`.
    fn body(&self, loop_id: &LoopId, number: u64) -> Result<EntryBody, Status> {
        self.bodies().entry(loop_id, number).map_err(|e| status::reading(&e))
    }

    /// The latest entry of `loop_id` that has words, from `latest` back: a reclaim has none, and
    /// who takes a turn over works from what its last holder was told.
    fn latest_words(&self, latest: &EntryMeta) -> Result<(EntryMeta, Option<EntryMeta>), Status> {
        /// Reclaims in a row that are looked behind.
        const RECLAIMS_MAX: usize = 64;
        let mut meta = latest.clone();
        for _ in 0..RECLAIMS_MAX {
            if meta.kind != EntryKind::Reclaim || meta.number == 1 {
                break;
            }
            meta = self.entry_meta(&meta.loop_id.clone(), meta.number - 1, latest)?;
        }
        let reclaim = (latest.kind == EntryKind::Reclaim).then(|| latest.clone());
        Ok((meta, reclaim))
    }
}

/// What the feed tells of a turn; `None` for what is no news.
pub(super) fn event(event: &turn::Event) -> Option<Kind> {
    let marked = |it: &turn::TurnMoment, receipt: &str| {
        Kind::TurnMarked(wire::TurnMarked {
            r#loop: it.loop_id.to_string(),
            turn: it.turn.get(),
            receipt: receipt.to_owned(),
        })
    };
    Some(match event {
        turn::Event::LoopOpened(it) => Kind::LoopOpened(wire::LoopOpened {
            r#loop: it.loop_id.to_string(),
            participants: it.participants.iter().map(ToString::to_string).collect(),
        }),
        turn::Event::ParticipantsSet(it) => Kind::ParticipantsSet(wire::ParticipantsSet {
            r#loop: it.loop_id.to_string(),
            participants: it.participants.iter().map(ToString::to_string).collect(),
        }),
        turn::Event::HandedOver(it) => Kind::HandedOver(wire::HandedOver {
            r#loop: it.loop_id.to_string(),
            round: it.round,
            entry: it.entry,
            ended_turn: it.ended.get(),
            turn: it.next.as_ref().map_or(0, |next| next.turn.get()),
            from: it.from.to_string(),
            to: text(it.next.as_ref().map(|next| &next.to)),
            is_task_complete: it.next.is_none(),
        }),
        turn::Event::TurnReclaimed(it) => Kind::TurnReclaimed(wire::TurnReclaimed {
            r#loop: it.loop_id.to_string(),
            entry: it.entry,
            ended_turn: it.ended.get(),
            turn: it.next.turn.get(),
            from: it.from.to_string(),
            to: it.next.to.to_string(),
            reason: it.reason.clone(),
        }),
        turn::Event::RoundStarted(it) => Kind::RoundStarted(wire::RoundStarted {
            r#loop: it.loop_id.to_string(),
            round: it.round,
            entry: it.entry,
            turn: it.next.turn.get(),
            to: it.next.to.to_string(),
        }),
        turn::Event::TurnHanded(it) => marked(it, "handed"),
        turn::Event::TurnSeen(it) => marked(it, "seen"),
        turn::Event::TurnLapsed(it) => Kind::TurnLapsed(wire::TurnLapsed {
            r#loop: it.loop_id.to_string(),
            turn: it.turn.get(),
        }),
        turn::Event::LeaseRenewed(it) => Kind::LeaseRenewed(wire::LeaseRenewed {
            r#loop: it.loop_id.to_string(),
            turn: it.turn.get(),
            lapses_ms: it.lapses.as_millis(),
            is_grace: it.is_grace,
        }),
        turn::Event::HistoryCompacted(_) => return None,
        turn::Event::LoopPaused(it) => Kind::LoopPaused(wire::LoopPaused {
            r#loop: it.loop_id.to_string(),
            turn: it.turn.get(),
            kind: pause_kind(&it.reason).into(),
            reason: it.reason.to_string(),
        }),
        turn::Event::LoopResumed(it) => Kind::LoopResumed(wire::LoopResumed {
            r#loop: it.loop_id.to_string(),
            turn: it.turn.get(),
            reason: it.reason.clone(),
        }),
    })
}
