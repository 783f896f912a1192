//! What a command about boards does, or why it does nothing.

use std::{borrow::Cow, collections::BTreeSet};

use tasuki_proto::{
    board::{ChannelName, Reducer},
    id::{BoardName, CheckpointNumber},
    limits::{
        BOARD_BYTES_MAX, BOARD_CHANNELS_MAX, BOARD_CHECKPOINTS_MAX, BOARDS_MAX, CHANNEL_BYTES_MAX,
        CHANNEL_MESSAGES_MAX, CHECKPOINTS_MAX,
    },
};

use super::{
    Board, BoardId, Boards, Change, ChannelIndex, ChannelState, ChannelUpdate, Command, Copied,
    Created, Deleted, Event, Fold, Folded, Fork, MessageChange, MessageMark, Origin, Rejection,
    Reply, Schema, Update, Updated, Value, ValuePlace,
};
use crate::{
    hash::Hash,
    rules::{
        Asked, Body, Decision, Rejection as AnyRejection, Reply as AnyReply, rejection::listed,
        turn::Actor,
    },
};

impl Boards {
    pub(in crate::rules) fn decide(
        &self,
        asked: Asked<'_>,
        command: &Command,
    ) -> Result<Decision, AnyRejection> {
        Ok(match command {
            Command::Update(it) => self.decide_update(it)?,
            Command::Fork(it) => self.decide_fork(it)?,
            Command::Fold(it) => self.decide_fold(it),
            Command::Delete { board, .. } => {
                self.get(board)?;
                let pipeline = asked.workspace.pipelines.decide_deleted(board)?;
                let deleted = Event::Deleted(Deleted { board: board.clone() });
                let mut decision = Decision::new([deleted], AnyReply::Done);
                decision.events.extend(pipeline);
                decision
            }
            Command::StoreResults(it) => self.decide_results(it)?,
            Command::Prune(it) => self.decide_prune(it)?,
        })
    }

    fn decide_update(&self, asked: &Update) -> Result<Decision, Rejection> {
        let board = self.find(&asked.board);
        if let (Some(board), Some(key)) = (board, &asked.write_key)
            && let Some(checkpoint) = board.written_under(key)
        {
            if board.checkpoints[&checkpoint].content == asked.content {
                return Ok(Decision::repeat(Reply::Updated(checkpoint)));
            }
            let (board, write_key) = (asked.board.clone(), key.clone());
            return Err(Rejection::WriteKeyReused { board, write_key, checkpoint });
        }
        let parent = check_expected(board, asked)?;
        if board.is_some_and(|board| board.schema != asked.schema) {
            return Err(Rejection::MadeAnew { board: asked.board.clone() });
        }
        self.update(&asked.board, parent, &asked.updates, &asked.schema)?
            .finish(asked.write_key.clone(), asked.content)
    }

    /// Writes to channels on top of whatever is newest, as a part of another noun's command.
    pub(in crate::rules) fn decide_write(
        &self,
        name: &BoardName,
        updates: &[ChannelUpdate],
        schema: &Schema,
    ) -> Result<(CheckpointNumber, Decision), Rejection> {
        let board = self.find(name);
        if board.is_some_and(|board| board.schema != *schema) {
            return Err(Rejection::MadeAnew { board: name.clone() });
        }
        let parent = board.map_or(CheckpointNumber::NONE, Board::head);
        let builder = self.update(name, parent, updates, schema)?;
        Ok((builder.number, builder.finish(None, Hash::default())?))
    }

    /// The checkpoint that updates make of its parent, of a new board too.
    fn update<'a>(
        &'a self,
        name: &'a BoardName,
        parent: CheckpointNumber,
        updates: &[ChannelUpdate],
        schema: &Schema,
    ) -> Result<UpdateBuilder<'a>, Rejection> {
        let board = self.find(name);
        let mut builder = self.builder(name, board, parent)?;
        for update in updates {
            let reducer =
                schema.channel(&update.channel).map_or(Reducer::LastValue, |it| it.reducer);
            builder.write(update, reducer)?;
        }
        if board.is_none() {
            builder.created =
                Some(Created { id: builder.id, schema: schema.clone(), origin: None });
        }
        Ok(builder)
    }

    fn decide_fork(&self, fork: &Fork) -> Result<Decision, Rejection> {
        let Some(to) = fork.to.as_ref().filter(|to| **to != fork.board) else {
            let (board, parent) = self.checkpoint(&fork.board, fork.checkpoint)?;
            let builder = self.builder(&fork.board, Some(board), parent)?;
            return builder.finish(None, Hash::default());
        };
        let Some(copied) = &fork.copied else {
            // Why nothing could be read.
            self.checkpoint(&fork.board, fork.checkpoint)?;
            return Err(Rejection::MadeAnew { board: fork.board.clone() });
        };
        if let Some(there) = self.find(to) {
            return match is_same_fork(there, copied, &fork.by) {
                true => Ok(Decision::repeat(Reply::Updated(there.head()))),
                false => Err(Rejection::BoardExists { board: to.clone() }),
            };
        }
        let source = self.get(&fork.board)?;
        if source.id != copied.board {
            return Err(Rejection::MadeAnew { board: fork.board.clone() });
        }
        let mut builder = self.builder(to, None, CheckpointNumber::NONE)?;
        for (channel, reducer, json, messages) in &copied.values {
            let messages = messages.iter().cloned().map(MessageChange::Put).collect();
            let update = ChannelUpdate { channel: channel.clone(), json: json.clone(), messages };
            builder.write(&update, *reducer)?;
        }
        builder.make_whole();
        let origin =
            Origin { board: fork.board.clone(), id: copied.board, checkpoint: copied.checkpoint };
        let (schema, origin) = (source.schema.clone(), Some(origin));
        builder.created = Some(Created { id: self.last + 1, schema, origin });
        builder.finish(None, Hash::default())
    }

    fn decide_fold(&self, fold: &Fold) -> Decision {
        let done = || Decision::repeat(AnyReply::Done);
        let Some((name, board)) = self.by_id(fold.board) else { return done() };
        let Some(checkpoint) = board.checkpoints.get(&fold.checkpoint) else { return done() };
        let is_new = |channel: ChannelIndex| {
            let change = checkpoint.changes.iter().find(|it| it.channel == channel);
            change.is_none_or(|it| it.whole.is_none())
        };
        let (mut values, mut bodies) = (Vec::new(), Vec::new());
        for (channel, json) in fold.values.iter().filter(|(channel, _)| is_new(*channel)) {
            values.push((*channel, bytes_of(json)));
            let place = ValuePlace {
                board: fold.board,
                checkpoint: fold.checkpoint,
                channel: *channel,
                is_whole: true,
            };
            bodies.push(Body::Board(Value { place, json: json.clone() }));
        }
        if values.is_empty() {
            return done();
        }
        let folded = Folded { board: name.clone(), checkpoint: fold.checkpoint, values };
        Decision { bodies, ..Decision::new([Event::Folded(folded)], AnyReply::Done) }
    }

    fn builder<'a>(
        &self,
        name: &'a BoardName,
        board: Option<&'a Board>,
        parent: CheckpointNumber,
    ) -> Result<UpdateBuilder<'a>, Rejection> {
        if CHECKPOINTS_MAX <= self.checkpoint_count() {
            return Err(Rejection::TooManyCheckpointsInAll);
        }
        if board.is_none() && BOARDS_MAX <= self.len() {
            return Err(Rejection::TooManyBoards);
        }
        if board.is_some_and(|it| BOARD_CHECKPOINTS_MAX <= it.checkpoints.len()) {
            return Err(Rejection::TooManyCheckpoints { board: name.clone() });
        }
        let mut builder = UpdateBuilder {
            name,
            board,
            id: board.map_or(self.last + 1, |it| it.id),
            number: board.map_or(self.floor, Board::head).next(),
            parent,
            states: board.map(|it| it.states(parent)).unwrap_or_default(),
            total: 0,
            channels: Vec::new(),
            changes: Vec::new(),
            written: Vec::new(),
            bodies: Vec::new(),
            created: None,
        };
        builder.total = builder.states.iter().map(|it| it.bytes).sum();
        Ok(builder)
    }
}

/// The checkpoint that an update follows.
fn check_expected(board: Option<&Board>, it: &Update) -> Result<CheckpointNumber, Rejection> {
    let none = CheckpointNumber::NONE;
    let Some(board) = board else {
        return match it.expected {
            None => Ok(none),
            Some(expected) if expected == none => Ok(none),
            Some(expected) => Err(Rejection::NoCheckpointYet { board: it.board.clone(), expected }),
        };
    };
    let head = board.head();
    match it.expected {
        None => Ok(head),
        Some(_) if it.is_fork && it.newest.is_some_and(|newest| newest != head) => {
            Err(stale(board, it, it.newest.unwrap_or(none)))
        }
        Some(expected) if expected == head => Ok(head),
        Some(expected) if it.is_fork => match board.checkpoints.contains_key(&expected) {
            true => Ok(expected),
            false => Err(Rejection::UnknownCheckpoint {
                board: it.board.clone(),
                checkpoint: expected,
                head,
            }),
        },
        Some(expected) if head < expected => Err(Rejection::UnknownCheckpoint {
            board: it.board.clone(),
            checkpoint: expected,
            head,
        }),
        Some(expected) => Err(stale(board, it, expected)),
    }
}

/// Why an update is refused that took another checkpoint for the head.
fn stale(board: &Board, it: &Update, expected: CheckpointNumber) -> Rejection {
    let head = board.head();
    let newest = &board.checkpoints[&head];
    let by = newest.role.as_ref().map(ToString::to_string);
    let by = by.or_else(|| newest.person.as_ref().map(ToString::to_string));
    let changed = board.changed_since(expected);
    Rejection::StaleCheckpoint {
        board: it.board.clone(),
        head,
        expected,
        by: by.unwrap_or_default(),
        changed: listed(changed.into_iter().map(ChannelName::as_str)),
    }
}

/// Whether a board is what the same fork made, and nothing else.
fn is_same_fork(board: &Board, copied: &Copied, by: &Actor) -> bool {
    let is_from = |it: &Origin| (it.id, it.checkpoint) == (copied.board, copied.checkpoint);
    let mut checkpoints = board.checkpoints.values();
    board.origin.as_ref().is_some_and(is_from)
        && checkpoints
            .next()
            .is_some_and(|it| (it.role.as_ref(), it.person.as_ref()) == (by.role(), by.person()))
        && checkpoints.next().is_none()
}

fn bytes_of(json: &str) -> u32 {
    u32::try_from(json.len()).expect("at most CHANNEL_BYTES_MAX and one message")
}

/// A checkpoint that is being put together.
struct UpdateBuilder<'a> {
    name: &'a BoardName,
    board: Option<&'a Board>,
    id: BoardId,
    number: CheckpointNumber,
    parent: CheckpointNumber,
    /// At its parent.
    states: Cow<'a, [ChannelState]>,
    /// All values, in bytes.
    total: u64,
    /// Those that are new.
    channels: Vec<(ChannelName, Reducer)>,
    changes: Vec<Change>,
    written: Vec<ChannelName>,
    bodies: Vec<Body>,
    created: Option<Created>,
}

impl UpdateBuilder<'_> {
    fn write(&mut self, it: &ChannelUpdate, reducer: Reducer) -> Result<(), Rejection> {
        let known = self.board.and_then(|board| board.channel(&it.channel));
        let channel = match known {
            Some(channel) => channel,
            None => {
                let there = self.board.map_or(0, |board| board.channels.len());
                let index = there + self.channels.len();
                if BOARD_CHANNELS_MAX <= index {
                    return Err(Rejection::TooManyChannels { board: self.name.clone() });
                }
                self.channels.push((it.channel.clone(), reducer));
                ChannelIndex::try_from(index).expect("at most BOARD_CHANNELS_MAX")
            }
        };
        let none = ChannelState::default();
        let state = self.states.get(usize::from(channel)).unwrap_or(&none);
        let messages = self.message_marks(state, it)?;
        let update = bytes_of(&it.json);
        let bytes = match reducer {
            Reducer::LastValue => u64::from(update),
            Reducer::Append | Reducer::AddMessages | Reducer::Merge => {
                state.bytes + u64::from(update)
            }
        };
        if (CHANNEL_BYTES_MAX as u64) < bytes {
            let (board, channel) = (self.name.clone(), it.channel.clone());
            return Err(Rejection::ChannelTooLarge { board, channel, bytes });
        }
        self.total = self.total - state.bytes + bytes;
        self.written.push(it.channel.clone());
        self.changes.push(Change { channel, update: Some(update), whole: None, messages });
        let (board, checkpoint) = (self.id, self.number);
        let place = ValuePlace { board, checkpoint, channel, is_whole: false };
        self.bodies.push(Body::Board(Value { place, json: it.json.clone() }));
        Ok(())
    }

    /// What was written are whole values, just as they stand.
    fn make_whole(&mut self) {
        self.changes.iter_mut().for_each(|it| it.whole = it.update);
        for body in &mut self.bodies {
            if let Body::Board(value) = body {
                value.place.is_whole = true;
            }
        }
    }

    /// What an update does to messages, if it removes none that is not there.
    fn message_marks(
        &self,
        state: &ChannelState,
        it: &ChannelUpdate,
    ) -> Result<Vec<MessageMark>, Rejection> {
        let (mut added, mut all_removed) = (BTreeSet::new(), false);
        let mut marks = Vec::with_capacity(it.messages.len());
        for change in &it.messages {
            let is_there = |added: &BTreeSet<Hash>, id: &Hash| {
                added.contains(id) || (!all_removed && state.messages.contains(id))
            };
            marks.push(match change {
                MessageChange::Put(id) => {
                    let id = Hash::of(id.as_bytes());
                    if !is_there(&added, &id) {
                        added.insert(id);
                    }
                    MessageMark::Put(id)
                }
                MessageChange::RemoveAll => {
                    added.clear();
                    all_removed = true;
                    MessageMark::AllRemoved
                }
                MessageChange::Remove(id) => {
                    let hash = Hash::of(id.as_bytes());
                    if !is_there(&added, &hash) {
                        let (board, channel) = (self.name.clone(), it.channel.clone());
                        return Err(Rejection::UnknownMessage { board, channel, id: id.clone() });
                    }
                    MessageMark::Removed(hash)
                }
            });
        }
        let before = if all_removed { 0 } else { state.messages.len() };
        if !added.is_empty() && CHANNEL_MESSAGES_MAX < before + added.len() {
            let (board, channel) = (self.name.clone(), it.channel.clone());
            return Err(Rejection::TooManyMessages { board, channel });
        }
        Ok(marks)
    }

    fn finish(self, write_key: Option<String>, content: Hash) -> Result<Decision, Rejection> {
        if (BOARD_BYTES_MAX as u64) < self.total {
            return Err(Rejection::BoardTooLarge { board: self.name.clone(), bytes: self.total });
        }
        let updated = Updated {
            board: self.name.clone(),
            checkpoint: self.number,
            parent: self.parent,
            created: self.created,
            channels: self.channels,
            changes: self.changes,
            write_key,
            content,
            written: self.written,
        };
        let reply = Reply::Updated(self.number);
        Ok(Decision { bodies: self.bodies, ..Decision::new([Event::Updated(updated)], reply) })
    }
}
