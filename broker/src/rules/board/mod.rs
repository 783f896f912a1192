//! Boards: shared state of a piece of work, with checkpoints.
//!
//! A board has named channels, each with a reducer. An update is a checkpoint: it has a number, a
//! parent, an author and a time, and says which channels it wrote to. The newest checkpoint is the
//! board's head. Values are kept beside the records ([`Value`]); the state knows where they are,
//! and of messages which there are.
//!
//! - **BD1** Numbers of a board's checkpoints strictly increase, and a parent's number is smaller.
//! - **BD2** A checkpoint is never changed. What is added later are whole values: what its parents'
//!   updates and its own make of a channel.
//! - **BD3** An update that is based on another checkpoint than the head writes nothing, unless it
//!   says that it forks.
//! - **BD4** A write key names one update of a board.
//! - **BD5** A result that is stored at a checkpoint makes none and changes no channel; its value
//!   stays as it was first stored, unless it is replaced.
//! - **BD6** When old checkpoints are forgotten, those that remain read as before.
//!
//! `command` and `event` are what is asked and what happened, `decide` may refuse, `state` looks up
//! and applies, `channel` is what is known of one, `schema` says which channels there are, `value` makes values of updates, `waiting`
//! answers who waits, `results` are stored at checkpoints, `prune` forgets old ones. Not here: whether a value has the form that its schema asks for. That takes
//! time, so it is checked where calls are parsed; the command says against which schema.

mod channel;
mod command;
mod decide;
mod event;
mod messages;
mod prune;
mod rejection;
mod results;
mod schema;
mod state;
#[cfg(test)]
mod tests;
mod value;
mod waiting;

pub use self::{
    channel::ChannelState,
    command::{ChannelUpdate, Command, Copied, Fold, Fork, MessageChange, Update},
    event::{Change, Created, Deleted, Event, Folded, MessageMark, Origin, Pruned, Updated},
    messages::{Message, MessageList, parse_messages},
    prune::Prune,
    rejection::Rejection,
    results::{NewResult, ResultPlace, ResultValue, ResultsStored, StoreResults, StoredResult},
    schema::{AGENT_STATE, AGENT_STATE_PHASES, ANY, ChannelSchema, Schema},
    state::{Board, BoardFacts, Boards, Checkpoint, SnapshotItem, ValueParts},
    value::{Fields, Folding, Value, ValuePlace, parse_list, parse_object},
    waiting::{Answer, Question},
};

use minicbor::{Decode, Encode};
use tasuki_proto::id::CheckpointNumber;

/// Names a board within its workspace for good: another board of the same name has another.
pub type BoardId = u64;

/// Names a channel within its board.
pub type ChannelIndex = u16;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Reply {
    /// The checkpoint that an update, or the first one like it, wrote.
    #[n(0)]
    Updated(#[n(0)] CheckpointNumber),
    /// Which results were there before and stay: a bit for each of the call, by name. Answers are
    /// kept in memory, and the call has the names.
    #[n(1)]
    ResultsStored(#[n(0)] u64),
    /// How many checkpoints were forgotten, and the oldest that remains.
    #[n(2)]
    Pruned(#[n(0)] u64, #[n(1)] CheckpointNumber),
}
