//! `TurnLoop`: turns, rounds, history.

use std::ops::Bound;

use tasuki_proto::{
    id::{LoopId, Turn},
    limits::{HISTORY_PAGE_MAX, LOOPS_PAGE_MAX},
    wire::{self, turn_loop_server::TurnLoop},
};
use tonic::{Request, Response, Status};

use super::{Service, parse, render, session::WorkspaceSession, status};
use crate::{
    rules::{Command, Mark, Reply, turn},
    workspace::{Executed, Question},
};

/// Text of one page of a history, in bytes: half of what one message may carry.
const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

#[tonic::async_trait]
impl TurnLoop for Service {
    async fn create_loop(
        &self,
        request: Request<wire::CreateLoopRequest>,
    ) -> Result<Response<wire::CreateLoopResponse>, Status> {
        let (session, mut it) = self.services.enter(request, |it| it.caller.take())?;
        let key = session.key(it.key.take(), &it)?;
        let loop_id = parse::id("loop", &it.r#loop)?;
        let create = turn::CreateLoop {
            loop_id: Clone::clone(&loop_id),
            participants: parse::participants(&it.participants)?,
        };
        let command = Command::Turn(turn::Command::CreateLoop(create));
        session.execute(Some(key), command).await?;
        let state = session.loop_state(loop_id).await?.0;
        Ok(Response::new(wire::CreateLoopResponse { r#loop: Some(state) }))
    }

    async fn start_round(
        &self,
        request: Request<wire::StartRoundRequest>,
    ) -> Result<Response<wire::StartRoundResponse>, Status> {
        let (session, mut it) = self.services.enter(request, |it| it.caller.take())?;
        let key = session.key(it.key.take(), &it)?;
        let start = turn::StartRound {
            loop_id: parse::loop_id(&it.r#loop)?,
            by: parse::actor(&it.role, &it.person)?,
            to: parse::optional("to", &it.to)?,
            summary: parse::text("summary", it.summary)?,
            instruction: parse::text("instruction", it.instruction)?,
        };
        let command = Command::Turn(turn::Command::StartRound(start));
        let Executed { reply, sequence, .. } = session.execute(Some(key), command).await?;
        let Reply::Turn(turn::Reply::Started { round, turn, holder }) = reply else {
            unreachable!("a round is started or refused")
        };
        Ok(Response::new(wire::StartRoundResponse {
            round,
            turn: turn.get(),
            holder: holder.to_string(),
            sequence: sequence.get(),
        }))
    }

    async fn await_turn(
        &self,
        request: Request<wire::AwaitTurnRequest>,
    ) -> Result<Response<wire::AwaitTurnResponse>, Status> {
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        let question = Question::Turn {
            loop_id: parse::loop_id(&it.r#loop)?,
            role: parse::id("role", &it.role)?,
        };
        let told = session.wait_for(question, parse::hold(it.hold_ms)).await?;
        let answer = session.turn_answer(&told)?;
        Ok(Response::new(wire::AwaitTurnResponse { answer: Some(answer) }))
    }

    async fn hand_over(
        &self,
        request: Request<wire::HandOverRequest>,
    ) -> Result<Response<wire::HandOverResponse>, Status> {
        let (session, mut it) = self.services.enter(request, |it| it.caller.take())?;
        let key = session.key(it.key.take(), &it)?;
        let instruction = if it.is_task_complete {
            parse::text("instruction", it.instruction)?
        } else {
            parse::words("instruction", it.instruction)?
        };
        let handover = turn::HandOver {
            loop_id: parse::loop_id(&it.r#loop)?,
            role: parse::id("role", &it.role)?,
            summary: parse::words("summary", it.summary)?,
            instruction,
            is_task_complete: it.is_task_complete,
            to: parse::optional("to", &it.to)?,
            turn: (it.turn != 0).then(|| Turn::from(it.turn)),
        };
        let command = Command::Turn(turn::Command::HandOver(handover));
        let Executed { reply, is_repeat, sequence, .. } =
            session.execute(Some(key), command).await?;
        let Reply::Turn(turn::Reply::Handed { ended, next }) = reply else {
            unreachable!("a turn is handed over or refused")
        };
        Ok(Response::new(wire::HandOverResponse {
            ended_turn: ended.get(),
            turn: next.as_ref().map_or(0, |(turn, _)| turn.get()),
            to: render::text(next.as_ref().map(|(_, to)| to)),
            is_finished: next.is_none(),
            repeated: is_repeat,
            sequence: sequence.get(),
        }))
    }

    async fn mark_turn(
        &self,
        request: Request<wire::MarkTurnRequest>,
    ) -> Result<Response<wire::MarkTurnResponse>, Status> {
        use wire::mark_turn_request::Mark as Wire;
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        let mark = match it.mark() {
            Wire::Handed => Mark::Handed,
            Wire::Seen => Mark::Seen,
            Wire::Unspecified => return Err(status::invalid("mark", &"is missing")),
        };
        let (loop_id, role) = (parse::loop_id(&it.r#loop)?, parse::id("role", &it.role)?);
        let mark = turn::MarkTurn::new(loop_id, role, it.turn.into(), mark);
        let command = Command::Turn(turn::Command::Mark(mark));
        session.execute(None, command).await?;
        Ok(Response::new(wire::MarkTurnResponse {}))
    }

    async fn get_loop(
        &self,
        request: Request<wire::GetLoopRequest>,
    ) -> Result<Response<wire::GetLoopResponse>, Status> {
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        let (state, latest) = session.loop_state(parse::loop_id(&it.r#loop)?).await?;
        let Some(latest) = latest else {
            return Ok(Response::new(wire::GetLoopResponse {
                r#loop: Some(state),
                ..Default::default()
            }));
        };
        let (words, reclaim) = session.latest_words(&latest)?;
        let words = reclaim.map(|_| session.entry(&words)).transpose()?;
        let latest = Some(session.entry(&latest)?);
        Ok(Response::new(wire::GetLoopResponse { r#loop: Some(state), latest, words }))
    }

    async fn list_loops(
        &self,
        request: Request<wire::ListLoopsRequest>,
    ) -> Result<Response<wire::ListLoopsResponse>, Status> {
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        let limit = match it.limit {
            0 => LOOPS_PAGE_MAX,
            limit => limit.min(LOOPS_PAGE_MAX),
        } as usize;
        let after = parse::optional::<LoopId>("after", &it.after)?;
        let listed = session.look(move |view| {
            let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut rest = view.workspace.loops.by_id.range((from, Bound::Unbounded));
            let page = rest.by_ref().take(limit);
            let loops: Vec<_> =
                page.map(|(id, state)| render::loop_state(id, state, view)).collect();
            let next = loops.last().filter(|_| rest.next().is_some());
            let next = next.map(|it: &wire::Loop| it.r#loop.clone()).unwrap_or_default();
            wire::ListLoopsResponse { loops, next }
        });
        Ok(Response::new(listed.await?))
    }

    async fn reclaim(
        &self,
        request: Request<wire::ReclaimRequest>,
    ) -> Result<Response<wire::ReclaimResponse>, Status> {
        let (session, mut it) = self.services.enter(request, |it| it.caller.take())?;
        let key = session.key(it.key.take(), &it)?;
        let reclaim = turn::Reclaim {
            loop_id: parse::loop_id(&it.r#loop)?,
            by: parse::actor(&it.role, &it.person)?,
            to: parse::optional("to", &it.to)?,
            reason: parse::reason(it.reason)?,
            turn: (it.turn != 0).then(|| Turn::from(it.turn)),
        };
        let command = Command::Turn(turn::Command::Reclaim(reclaim));
        let Executed { reply, is_repeat, sequence, .. } =
            session.execute(Some(key), command).await?;
        let Reply::Turn(turn::Reply::Reclaimed { ended, turn, from, to }) = reply else {
            unreachable!("a turn is reclaimed or refused")
        };
        Ok(Response::new(wire::ReclaimResponse {
            ended_turn: ended.get(),
            turn: turn.get(),
            from: from.to_string(),
            to: to.to_string(),
            repeated: is_repeat,
            sequence: sequence.get(),
        }))
    }

    async fn history(
        &self,
        request: Request<wire::HistoryRequest>,
    ) -> Result<Response<wire::HistoryResponse>, Status> {
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        let loop_id = parse::loop_id(&it.r#loop)?;
        let (_, latest) = session.loop_state(loop_id.clone()).await?;
        let Some(latest) = latest else {
            return Ok(Response::new(wire::HistoryResponse::default()));
        };
        let limit = match it.limit {
            0 => HISTORY_PAGE_MAX,
            limit => limit.min(HISTORY_PAGE_MAX),
        };
        let from = it.from.max(1);
        let mut page = wire::HistoryResponse::default();
        let mut bytes = 0;
        for number in from..=latest.number.min(from.saturating_add(u64::from(limit) - 1)) {
            let facts = session.facts(&loop_id, number, &latest)?;
            let entry = session.entry(&facts)?;
            bytes += entry.summary.len() + entry.instruction.len();
            if PAGE_BYTES_MAX < bytes && !page.entries.is_empty() {
                break;
            }
            page.entries.push(entry);
        }
        let read = from + page.entries.len() as u64;
        page.next = if read <= latest.number { read } else { 0 };
        Ok(Response::new(page))
    }
}

impl WorkspaceSession {
    async fn loop_state(
        &self,
        loop_id: LoopId,
    ) -> Result<(wire::Loop, Option<turn::EntryMeta>), Status> {
        let seen = self.look(move |view| {
            let state = view.workspace.loops.get(&loop_id)?;
            Ok((render::loop_state(&loop_id, state, view), state.latest.clone()))
        });
        seen.await?.map_err(|rejection| status::rejected(&rejection))
    }
}
