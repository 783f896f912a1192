//! `Pipelines`: phases that roles do one after another on one board.
//!
//! `render` says what the state holds, `watch` tells nodes what there is to do. What an attempt
//! writes is parsed and checked as an update of its board is, before the workspace's actor is asked.

mod render;
mod watch;

use tasuki_proto::{
    id::{BoardName, RoleId},
    limits::{PHASE_ERROR_BYTES_MAX, PIPELINES_PAGE, PIPELINES_PAGE_MAX},
    pipeline::{Definition, Phase},
    reason::Reason,
    token::Right,
    visible::is_visible,
    wire,
};
use tonic::Status;

pub(super) use self::{render::event, watch::watch_phases};
use super::{
    Answer, Endpoint, Later, WorkspaceSession, at_once,
    board::{check_actor, fold_all, pick_schema, schema, updates},
    parse::{actor, check_size, id, limit},
    render::{fitting, text},
    status::invalid,
};
use crate::{
    rules::{
        self, Rejection,
        board::{ChannelUpdate, Schema},
        pipeline::{Command, DecideApproval, End, Reply, Start},
    },
    workspace::View,
};

impl Endpoint for wire::StartPipelineRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let by = actor(&self.role, &self.person)?;
        check_actor(session, &by)?;
        let board: BoardName = id("board", &self.board)?;
        let definition = self.definition.unwrap_or_default();
        let named = schema(&definition.schema)?;
        let definition = read_definition(&definition)?;
        check_work(session, &definition)?;
        let (schema, updates) = parse_updates(session, &board, named, self.updates).await?;
        let start = Start { by, board: board.clone(), definition, updates, schema };
        let start = Command::Start(Box::new(start));
        session.execute(start, move |view, _| response(view, &board)).await
    }
}

/// Whether the caller may have this done: services are called, and agents run, on other nodes.
fn check_work(session: &WorkspaceSession, definition: &Definition) -> Result<(), Status> {
    session.check_right(Right::Call)?;
    match definition.phases.iter().any(Phase::may_run_agent) {
        true => session.check_right(Right::Run),
        false => Ok(()),
    }
}

fn read_definition(it: &wire::PipelineDefinition) -> Result<Definition, Status> {
    Definition::read(it).map_err(|problems| {
        let all = problems.iter().map(|problem| match problem.phase {
            None => format!("{} {}", problem.field, problem.why),
            Some(index) => format!("phase {}: {} {}", index + 1, problem.field, problem.why),
        });
        let all: Vec<String> = all.collect();
        invalid("definition", &format!("does not work: {}", all.join("; ")))
    })
}

/// Updates for a board, with its schema, or that of a new one.
async fn parse_updates(
    session: &WorkspaceSession,
    board: &BoardName,
    named: Option<Schema>,
    all: Vec<wire::ChannelUpdate>,
) -> Result<(Schema, Vec<ChannelUpdate>), Status> {
    let wanted = board.clone();
    let current = session.query(None, move |view| {
        Ok(view.workspace.boards.find(&wanted).map(|it| it.schema.clone()))
    });
    let (schema, is_new) = pick_schema(board, current.await?, named)?;
    let updates = updates(board, &schema, is_new, all, true).await?;
    Ok((schema, updates))
}

impl Endpoint for wire::ClaimPhaseRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let (role, board) = (id("role", &self.role)?, id("board", &self.board)?);
        let attempt = self.attempt;
        let claim = Command::Claim { role, board, attempt };
        let board: BoardName = id("board", &self.board)?;
        let render = move |view: &View<'_>, reply| claimed(view, &board, attempt, &reply);
        session.execute(claim, render).await
    }
}

/// All that a node needs to make an attempt.
fn claimed(
    view: &View<'_>,
    board: &BoardName,
    number: u32,
    reply: &rules::Reply,
) -> Result<Later<wire::ClaimPhaseResponse>, Rejection> {
    let rules::Reply::Pipeline(Reply::Claimed(token)) = reply else {
        unreachable!("an attempt is claimed or refused")
    };
    let pipeline = view.workspace.pipelines.get(board)?;
    // Of a repeat it may have ended, or the pipeline may be another one.
    let attempt = pipeline
        .attempt(number)
        .filter(|it| it.claim.as_ref().is_some_and(|it| it.token == *token));
    let Some(attempt) = attempt else {
        return Err(rules::pipeline::Rejection::Taken {
            board: board.clone(),
            attempt: number,
            why: "it has ended".to_owned(),
        }
        .into());
    };
    let definition = pipeline.definition.write("");
    Ok(at_once(wire::ClaimPhaseResponse {
        claim_token: token.get(),
        deadline_ms: attempt.claim.as_ref().map_or(0, |it| it.deadline.as_millis()),
        phase: definition.phases.into_iter().nth(usize::from(attempt.phase)),
        checkpoint: attempt.checkpoint.get(),
        attempt_key: render::attempt_key(board, pipeline, attempt),
        by_role: text(pipeline.role.as_ref()),
        by_person: text(pipeline.person.as_ref()),
        ..Default::default()
    }))
}

impl Endpoint for wire::EndPhaseRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role: RoleId = id("role", &self.role)?;
        session.check_role(&role)?;
        let board: BoardName = id("board", &self.board)?;
        let error = reason("error", self.error)?;
        let updates = match self.updates.is_empty() {
            true => Vec::new(),
            false => parse_updates(session, &board, None, self.updates).await?.1,
        };
        let end = End {
            role,
            board: board.clone(),
            attempt: self.attempt,
            token: self.claim_token.into(),
            updates,
            error: (!error.is_empty()).then_some(error),
        };
        let name = board.clone();
        let render = move |view: &View<'_>, _| response(view, &name);
        let ended = session.execute(Command::End(Box::new(end.clone())), render).await;
        match ended {
            // How large the board really is may be known only once it is whole.
            Err(why) if Reason::of(&why) == Some(Reason::TooLarge) => {
                fold_all(session, &board, None).await?;
                let render = move |view: &View<'_>, _| response(view, &board);
                session.execute(Command::End(Box::new(end)), render).await
            }
            ended => ended,
        }
    }
}

impl Endpoint for wire::DecideApprovalRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let board: BoardName = id("board", &self.board)?;
        let decide = DecideApproval {
            by: id("person", &self.person)?,
            board: board.clone(),
            attempt: (self.attempt != 0).then_some(self.attempt),
            checkpoint: (self.checkpoint != 0).then(|| self.checkpoint.into()),
            is_approved: self.approve,
            reason: reason("reason", self.reason)?,
        };
        session
            .execute(Command::DecideApproval(decide), move |view, _| response(view, &board))
            .await
    }
}

impl Endpoint for wire::CancelPipelineRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let by = actor(&self.role, &self.person)?;
        let board: BoardName = id("board", &self.board)?;
        let reason = reason("reason", self.reason)?;
        let cancel = Command::Cancel { by, board: board.clone(), reason };
        session.execute(cancel, move |view, _| response(view, &board)).await
    }
}

impl Endpoint for wire::ResumePipelineRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let by = actor(&self.role, &self.person)?;
        let board: BoardName = id("board", &self.board)?;
        check_actor(session, &by)?;
        let name = board.clone();
        let found = session.query(None, move |view| {
            Ok(view.workspace.pipelines.find(&name).map(|it| it.definition.clone()))
        });
        // What is not there is refused by the rules, which know what was repeated.
        if let Some(definition) = found.await? {
            check_work(session, &definition)?;
        }
        let resume = Command::Resume { by, board: board.clone() };
        session.execute(resume, move |view, _| response(view, &board)).await
    }
}

/// A text for people.
fn reason(field: &str, text: String) -> Result<String, Status> {
    check_size(field, text.len(), PHASE_ERROR_BYTES_MAX)?;
    let is_shown = |it: char| it == '\n' || it == '\t' || is_visible(it);
    match text.chars().all(is_shown) {
        true => Ok(text),
        false => Err(invalid(field, &"has characters that are never shown")),
    }
}

/// The pipeline right after a command. It may have been forgotten since it was carried out.
fn response(
    view: &View<'_>,
    board: &BoardName,
) -> Result<Later<wire::PipelineResponse>, Rejection> {
    let pipeline = view.workspace.pipelines.find(board);
    let pipeline = pipeline.map(|it| render::pipeline(view, board, it));
    Ok(at_once(wire::PipelineResponse { pipeline, ..Default::default() }))
}

impl Endpoint for wire::GetPipelineRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let board: BoardName = id("board", &self.board)?;
        let show = move |view: &View<'_>| {
            let pipeline = view.workspace.pipelines.get(&board)?;
            let pipeline = Some(render::pipeline(view, &board, pipeline));
            Ok(at_once(wire::PipelineResponse { pipeline, ..Default::default() }))
        };
        session.show(None, show).await
    }
}

impl Endpoint for wire::ListPipelinesRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let limit = limit(self.limit, PIPELINES_PAGE, PIPELINES_PAGE_MAX);
        let list = move |view: &View<'_>| {
            let all = view.workspace.pipelines.after(&self.after);
            let all = all.filter(|(_, it)| !self.only_open || it.is_open());
            let all = all.map(|(board, it)| render::summary(view, board, it));
            let (mut pipelines, mut has_more) = fitting(all.take(limit + 1));
            has_more |= limit < pipelines.len();
            pipelines.truncate(limit);
            let last = pipelines.last().filter(|_| has_more);
            let next = last.map(|it| it.board.clone()).unwrap_or_default();
            Ok(wire::ListPipelinesResponse { pipelines, next })
        };
        session.query(None, list).await
    }
}
