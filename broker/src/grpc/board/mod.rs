//! `Board`: shared state with checkpoints.
//!
//! `parse` reads updates and checks their form, `values` reads what checkpoints hold, `waits`
//! answers who waits, `results` stores results at checkpoints, `prune` forgets old ones. Values are
//! read from the journal outside of the workspace's actor. After an update the broker keeps the whole
//! value of a channel, now and then, so that reading it stays quick.

mod parse;
mod prune;
mod results;
mod values;
mod waits;

use std::collections::BTreeMap;

use tasuki_proto::{
    board::ChannelName,
    id::{BoardName, CheckpointNumber},
    limits::{BOARDS_PAGE, BOARDS_PAGE_MAX},
    reason::Reason,
    token::Right,
    wire::{self, board_event::Kind},
};
use tonic::Status;

use self::{
    parse::checkpoint,
    values::{fold_later, values},
};
pub(super) use self::{
    parse::{pick_schema, schema, updates},
    values::fold_all,
    waits::{outcome, question},
};
use super::{
    Answer, Endpoint, Later, WorkspaceSession, default_response,
    parse::{actor, id, limit, optional},
    refuse,
    render::{fitting, text},
    status,
};
use crate::{
    rules::{
        self, Rejection,
        board::{Board, Checkpoint, Command, Copied, Event, Fork, Reply, Update},
        turn::Actor,
    },
    workspace::View,
};

impl Endpoint for wire::UpdateBoardRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let by = actor(&self.role, &self.person)?;
        check_actor(session, &by)?;
        let board: BoardName = id("board", &self.board)?;
        let write_key = parse::write_key(&self.write_key)?;
        let named = schema(&self.schema)?;
        let content = parse::content(&self);
        let wanted = board.clone();
        let current = session.query(None, move |view| {
            Ok(view.workspace.boards.find(&wanted).map(|it| it.schema.clone()))
        });
        let expected = self.expected_checkpoint.map(CheckpointNumber::from);
        let newest = self.newest_checkpoint.map(CheckpointNumber::from);
        let (fork, current) = (self.fork, current.await?);
        let parsed = async {
            let (schema, is_new) = pick_schema(&board, current, named)?;
            let updates = updates(&board, &schema, is_new, self.updates, fork).await?;
            Ok::<_, Status>((schema, updates))
        };
        let (schema, updates) = match parsed.await {
            Ok(parsed) => parsed,
            Err(why) => return answered_or(session, board, why).await,
        };
        let update = Update {
            by,
            board: board.clone(),
            updates,
            schema,
            expected,
            is_fork: fork,
            newest,
            write_key,
            content,
        };
        let name = board.clone();
        let render = move |view: &View<'_>, reply| render_update(view, name, reply);
        let written = session.execute(Command::Update(update.clone()), render).await;
        match written {
            // How large it really is may be known only once it is whole.
            Err(why) if Reason::of(&why) == Some(Reason::TooLarge) => {
                fold_all(session, &board, expected).await?;
                let render = move |view: &View<'_>, reply| render_update(view, board, reply);
                session.execute(Command::Update(update), render).await
            }
            written => written,
        }
    }
}

impl Endpoint for wire::ForkBoardRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let by = actor(&self.role, &self.person)?;
        check_actor(session, &by)?;
        let board: BoardName = id("board", &self.board)?;
        let checkpoint = checkpoint(self.checkpoint);
        let to: Option<BoardName> = optional("to", &self.to)?;
        let to = to.filter(|to| *to != board);
        // What was forked before is answered as it was, whatever became of its source.
        let (copied, unread) = match &to {
            None => (None, None),
            Some(_) => match copy_values(session, board.clone(), checkpoint).await {
                Ok(copied) => (Some(copied), None),
                Err(why) => (None, Some(why)),
            },
        };
        let name = to.clone().unwrap_or_else(|| board.clone());
        let fork = Fork { by, board, checkpoint, to, copied };
        let render = move |view: &View<'_>, reply| render_update(view, name, reply);
        let forked = session.execute(Command::Fork(fork), render).await;
        match (forked, unread) {
            // It is there, and its values could not be read.
            (Err(why), Some(unread)) if Reason::of(&why) == Some(Reason::StaleCheckpoint) => {
                Err(unread)
            }
            (forked, _) => forked,
        }
    }
}

/// The answer that the call's key had before, whatever became of the board; else `why` it has none.
async fn answered_or(
    session: &WorkspaceSession,
    board: BoardName,
    why: Status,
) -> Result<wire::UpdateBoardResponse, Status> {
    if session.asker.is_none() {
        return Err(why);
    }
    let prepare = move |_: &View<'_>| Err::<(rules::Command, ()), _>(refuse(why));
    session.execute_prepared(prepare, move |view, reply, _| render_update(view, board, reply)).await
}

/// Whether the caller may act so (E7), before it learns anything of a board.
pub(super) fn check_actor(session: &WorkspaceSession, by: &Actor) -> Result<(), Status> {
    match by {
        Actor::Role(role) => session.check_role(role),
        Actor::Person(_) => session.check_right(Right::Steer),
    }
}

/// The values of a board at a checkpoint.
async fn copy_values(
    session: &WorkspaceSession,
    board: BoardName,
    checkpoint: Option<CheckpointNumber>,
) -> Result<Copied, Status> {
    let name = board.clone();
    let found = session.query(None, move |view| {
        let (it, checkpoint) = view.workspace.boards.checkpoint(&board, checkpoint)?;
        Ok((it.id, checkpoint, it.value_parts(checkpoint, None)))
    });
    let (board, checkpoint, parts) = found.await?;
    let values = values(session, &name, board, parts).await?;
    let values = values.into_iter().map(|(parts, json)| {
        let messages = parse::message_ids(parts.reducer, &json);
        (parts.channel, parts.reducer, json, messages)
    });
    Ok(Copied { board, checkpoint, values: values.collect() })
}

/// What an update is answered with. Values that are due are folded once it is durable.
fn render_update(
    view: &View<'_>,
    name: BoardName,
    reply: rules::Reply,
) -> Result<Later<wire::UpdateBoardResponse>, Rejection> {
    let rules::Reply::Board(Reply::Updated(checkpoint)) = reply else {
        unreachable!("a board is updated or the update refused")
    };
    // It may have been deleted since it was updated under this key.
    let board = view.workspace.boards.find(&name).filter(|it| it.head() == checkpoint);
    let due = board.map(|it| (it.id, it.unfolded())).filter(|(_, channels)| !channels.is_empty());
    let due =
        due.and_then(|(id, channels)| Some((id, board?.value_parts(checkpoint, Some(&channels)))));
    let answer = wire::UpdateBoardResponse {
        board: name.to_string(),
        checkpoint: checkpoint.get(),
        ..Default::default()
    };
    Ok(Box::new(move |session| {
        if let Some((id, parts)) = due {
            fold_later(session, id, checkpoint, parts);
        }
        Ok(answer)
    }))
}

impl Endpoint for wire::DeleteBoardRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let (by, board) = (id("person", &self.person)?, id("board", &self.board)?);
        session.execute(Command::Delete { by, board }, default_response).await
    }
}

impl Endpoint for wire::ReadBoardRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let name: BoardName = id("board", &self.board)?;
        let channels = parse::channels("channels", &self.channels)?;
        let (number, write_key) = (checkpoint(self.checkpoint), parse::write_key(&self.write_key)?);
        let wanted = name.clone();
        let found = session.query(None, move |view| {
            let boards = &view.workspace.boards;
            let number = match &write_key {
                None => number,
                Some(key) => Some(parse::written_under(&name, boards.get(&name)?, key)?),
            };
            let (board, at) = boards.checkpoint(&name, number)?;
            let only = parse::known_channels(&name, board, &channels)?;
            let answer = wire::ReadBoardResponse {
                board: Some(summary(&name, board)),
                checkpoint: Some(render_checkpoint(board, at)),
                now_ms: view.now.as_millis(),
                ..Default::default()
            };
            Ok((answer, board.id, board.value_parts(at, only.as_ref())))
        });
        let (answer, id, parts) = found.await?;
        let values = values(session, &wanted, id, parts).await?.into_iter();
        let channels = values.map(|(parts, json)| wire::ChannelValue {
            channel: parts.channel.to_string(),
            reducer: parts.reducer.to_string(),
            value_json: json,
            changed_at: parts.changed_at.get(),
        });
        Ok(wire::ReadBoardResponse { channels: channels.collect(), ..answer })
    }
}

impl Endpoint for wire::DiffBoardRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let name: BoardName = id("board", &self.board)?;
        let (from, to) = (checkpoint(self.from), checkpoint(self.to));
        let channels = parse::channels("channels", &self.channels)?;
        let wanted = name.clone();
        let found = session.query(None, move |view| {
            let boards = &view.workspace.boards;
            let (board, to) = boards.checkpoint(&name, to)?;
            let only = parse::known_channels(&name, board, &channels)?;
            let before = match from {
                None => Vec::new(),
                Some(_) => board.value_parts(boards.checkpoint(&name, from)?.1, only.as_ref()),
            };
            Ok((board.id, to, before, board.value_parts(to, only.as_ref())))
        });
        let (id, to, mut before, mut after) = found.await?;
        // What nobody wrote to in between need not be read.
        let same: Vec<_> = before.iter().filter(|it| after.contains(it)).cloned().collect();
        before.retain(|it| !same.contains(it));
        after.retain(|it| !same.contains(it));
        let before = values(session, &wanted, id, before).await?;
        let after = values(session, &wanted, id, after).await?;
        let mut channels: BTreeMap<ChannelName, wire::ChannelDiff> = BTreeMap::new();
        for (parts, json) in before {
            let diff = channels.entry(parts.channel.clone()).or_default();
            diff.reducer = parts.reducer.to_string();
            diff.before_json = json;
        }
        for (parts, json) in after {
            let diff = channels.entry(parts.channel.clone()).or_default();
            diff.reducer = parts.reducer.to_string();
            diff.after_json = json;
        }
        let channels = channels.into_iter().filter(|(_, it)| it.before_json != it.after_json);
        let channels =
            channels.map(|(channel, it)| wire::ChannelDiff { channel: channel.to_string(), ..it });
        Ok(wire::DiffBoardResponse {
            board: self.board,
            from: self.from,
            to: to.get(),
            channels: channels.collect(),
        })
    }
}

impl Endpoint for wire::ListBoardsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let limit = limit(self.limit, BOARDS_PAGE, BOARDS_PAGE_MAX);
        let list = move |view: &View<'_>| {
            let first = if self.after < self.prefix { &self.prefix } else { &self.after };
            let boards = view.workspace.boards.from(first);
            let boards = boards.take_while(|(name, _)| name.as_str().starts_with(&self.prefix));
            let boards = boards.filter(|(name, _)| name.as_str() != self.after);
            let boards = boards.map(|(name, it)| summary(name, it));
            let (mut boards, mut has_more) = fitting(boards.take(limit + 1));
            has_more |= limit < boards.len();
            boards.truncate(limit);
            let last = boards.last().filter(|_| has_more);
            let next = last.map(|it| it.board.clone()).unwrap_or_default();
            Ok(wire::ListBoardsResponse { boards, next })
        };
        session.query(None, list).await
    }
}

impl Endpoint for wire::ListCheckpointsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let name: BoardName = id("board", &self.board)?;
        let limit = limit(self.limit, BOARDS_PAGE, BOARDS_PAGE_MAX);
        let before = if self.before == 0 { u64::MAX } else { self.before };
        let list = move |view: &View<'_>| {
            let board = view.workspace.boards.get(&name)?;
            let older = board.checkpoints.range(..CheckpointNumber::from(before)).rev();
            let older = older.map(|(number, _)| render_checkpoint(board, *number));
            let (mut checkpoints, mut has_more) = fitting(older.take(limit + 1));
            has_more |= limit < checkpoints.len();
            checkpoints.truncate(limit);
            let last = checkpoints.last().filter(|_| has_more);
            let next = last.map_or(0, |it| it.checkpoint);
            Ok(wire::ListCheckpointsResponse { checkpoints, next })
        };
        session.query(None, list).await
    }
}

fn summary(name: &BoardName, it: &Board) -> wire::BoardSummary {
    let head = it.head();
    let newest = render_checkpoint(it, head);
    let of_schema = it.schema.names().filter_map(|name| {
        let reducer = it.schema.channel(name)?.reducer;
        Some((name.to_string(), reducer.to_string()))
    });
    let written = it.channels.iter().map(|(name, reducer)| (name.to_string(), reducer.to_string()));
    let channels: BTreeMap<String, String> = of_schema.chain(written).collect();
    let channels =
        channels.into_iter().map(|(channel, reducer)| wire::BoardChannel { channel, reducer });
    wire::BoardSummary {
        board: name.to_string(),
        schema: it.schema.as_str().to_owned(),
        checkpoint: head.get(),
        by_role: newest.by_role,
        by_person: newest.by_person,
        at_ms: newest.at_ms,
        checkpoints: it.checkpoints.len() as u64,
        channels: channels.collect(),
        created_ms: it.created.as_millis(),
        from_board: text(it.origin.as_ref().map(|it| &it.board)),
        from_checkpoint: it.origin.as_ref().map_or(0, |it| it.checkpoint.get()),
    }
}

/// A checkpoint that is there.
fn render_checkpoint(board: &Board, number: CheckpointNumber) -> wire::BoardCheckpoint {
    let it: &Checkpoint = &board.checkpoints[&number];
    let before = board.checkpoints.range(..number).next_back().map(|(number, _)| *number);
    wire::BoardCheckpoint {
        checkpoint: number.get(),
        parent: it.parent.get(),
        by_role: text(it.role.as_ref()),
        by_person: text(it.person.as_ref()),
        at_ms: it.at.as_millis(),
        channels: board.changed(it).into_iter().map(ToString::to_string).collect(),
        write_key: it.write_key.clone().unwrap_or_default(),
        is_fork: before.is_some_and(|before| it.parent != before),
    }
}

/// What the feed tells of boards. Whoever follows checkpoints has no use for the rest.
pub(super) fn event(event: &Event) -> Option<Kind> {
    Some(match event {
        Event::Updated(it) => Kind::BoardUpdated(wire::BoardUpdated {
            board: it.board.to_string(),
            checkpoint: it.checkpoint.get(),
            parent: it.parent.get(),
            channels: it.written.iter().map(ToString::to_string).collect(),
        }),
        Event::Deleted(it) => {
            Kind::BoardDeleted(wire::BoardDeleted { board: it.board.to_string() })
        }
        Event::Folded(_) | Event::ResultsStored(_) | Event::Pruned(_) => return None,
    })
}

/// What is on disk is not what was written.
fn damaged(why: &serde_json::Error) -> Status {
    status::reading(&crate::journal::JournalError::Damaged {
        place: "a board".to_owned(),
        what: format!("a value is not what its channel's reducer makes: {why}"),
    })
}
