//! `tasuki board update`, `fork`, `prune` and `delete`.

use std::{fs, io::Read as _, str::FromStr};

use serde_json::{Value, json};
use tasuki_proto::{
    board::ChannelName,
    id::{BoardName, PersonId},
    limits::CHANNEL_BYTES_MAX,
    reason::Reason,
    wire,
};

use super::VALUES;
use crate::{
    cli::{Failure, Output, broker::Broker, loops::person, role_args::RoleArgs, text::line},
    config::Config,
};

/// Write to channels of a board, as one checkpoint.
///
/// Makes the board if it does not exist.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true, after_help = VALUES)]
pub struct UpdateArgs {
    /// Name of the board
    #[arg(value_name = "BOARD")]
    board: BoardName,
    /// Channel and what to write to it; CHANNEL=@FILE reads it from a file, CHANNEL=@- from
    /// standard input
    #[arg(value_name = "CHANNEL=VALUE", required = true)]
    updates: Vec<Assignment>,
    /// Schema of a new board: agent_state, any, or a file with a JSON Schema
    #[arg(long, value_name = "NAME|FILE")]
    schema: Option<String>,
    /// Checkpoint that the update is based on: it is refused if the board has a newer one
    #[arg(long, value_name = "NUMBER")]
    expect: Option<u64>,
    /// Idempotency key: a repeat on this board is not written twice
    #[arg(long, value_name = "KEY")]
    write_key: Option<String>,
    #[command(flatten)]
    role: RoleArgs,
}

/// Continue from an earlier checkpoint: on a new board, or on the same one.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct ForkArgs {
    /// Name of the board
    #[arg(value_name = "BOARD")]
    board: BoardName,
    /// Name of the new board; that of the same board continues it from there, and its newer
    /// checkpoints stay readable
    #[arg(value_name = "NEW")]
    to: BoardName,
    /// Checkpoint to continue from [default: the newest]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint: Option<u64>,
    #[command(flatten)]
    role: RoleArgs,
}

/// Forget all but the newest checkpoints of a board.
///
/// Values at those that remain stay as they are. What is forgotten is removed by the next compaction
/// of the broker.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct PruneArgs {
    /// Name of the board
    #[arg(value_name = "BOARD")]
    board: BoardName,
    /// How many of the newest checkpoints remain
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    /// Person who prunes it [default: $USER, else the user's number]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
}

/// Delete a board with all its checkpoints.
///
/// Its values are removed by the next compaction of the broker.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct DeleteArgs {
    /// Name of the board
    #[arg(value_name = "BOARD")]
    board: BoardName,
    /// Person who deletes it [default: $USER, else the user's number]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
}

/// `CHANNEL=VALUE`, as commands take it.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Assignment {
    channel: ChannelName,
    value: String,
}

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (channel, value) = text.split_once('=').ok_or("has no `=`; write CHANNEL=VALUE")?;
        let channel = channel.parse().map_err(|why| format!("names a channel that {why}"))?;
        Ok(Self { channel, value: value.to_owned() })
    }
}

impl Assignment {
    pub(in crate::cli) fn to_wire(&self) -> Result<wire::ChannelUpdate, Failure> {
        let given = match self.value.strip_prefix('@') {
            None => self.value.clone(),
            Some(place) => read(&self.channel, place)?,
        };
        // What is no JSON is a text.
        let value_json = match serde_json::from_str::<&serde_json::value::RawValue>(&given) {
            Ok(json) => json.get().to_owned(),
            Err(_) => Value::String(given).to_string(),
        };
        Ok(wire::ChannelUpdate { channel: self.channel.to_string(), value_json })
    }
}

fn read(channel: &ChannelName, place: &str) -> Result<String, Failure> {
    let cannot = |why| Failure::usage(format!("{channel}: {place} cannot be read: {why}."));
    let mut text = String::new();
    let limit = CHANNEL_BYTES_MAX as u64 + 1;
    let read = match place {
        "-" => std::io::stdin().lock().take(limit).read_to_string(&mut text),
        _ => fs::File::open(place).map_err(cannot)?.take(limit).read_to_string(&mut text),
    };
    read.map_err(cannot)?;
    if CHANNEL_BYTES_MAX < text.len() {
        let text = format!(
            "{channel}: {place} is over the limit of {CHANNEL_BYTES_MAX} bytes. No change was made."
        );
        return Err(Failure::reason(Reason::TooLarge, text));
    }
    Ok(text)
}

/// A schema by its name, or out of a file.
fn schema(given: Option<String>) -> Result<String, Failure> {
    match given {
        None => Ok(String::new()),
        Some(name) if ["agent_state", "any"].contains(&name.as_str()) => Ok(name),
        Some(file) => fs::read_to_string(&file)
            .map_err(|why| Failure::usage(format!("--schema: {file} cannot be read: {why}."))),
    }
}

pub(super) async fn update(
    args: UpdateArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let request = wire::UpdateBoardRequest {
        role: acting.role.clone(),
        board: args.board.to_string(),
        updates: args.updates.iter().map(Assignment::to_wire).collect::<Result<_, _>>()?,
        schema: schema(args.schema)?,
        expected_checkpoint: args.expect,
        write_key: args.write_key.unwrap_or_default(),
        ..Default::default()
    };
    answer(&acting.broker.call(&request).await?, output)
}

pub(super) async fn fork(
    args: ForkArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let request = wire::ForkBoardRequest {
        role: acting.role.clone(),
        board: args.board.to_string(),
        checkpoint: args.checkpoint.unwrap_or_default(),
        to: args.to.to_string(),
        ..Default::default()
    };
    answer(&acting.broker.call(&request).await?, output)
}

fn answer(it: &wire::UpdateBoardResponse, output: &mut Output) -> Result<(), Failure> {
    output.answer(
        || json!(it),
        || {
            let again = if it.repeated { " It was written before." } else { "" };
            format!("Wrote checkpoint {} of board {}.{again}\n", it.checkpoint, line(&it.board))
        },
    )
}

pub(super) async fn delete(
    args: DeleteArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let request = wire::DeleteBoardRequest {
        board: args.board.to_string(),
        person: person(args.by)?.to_string(),
        ..Default::default()
    };
    let done = Broker::new(config).call(&request).await?;
    output.answer(|| json!(done), || format!("Deleted board {}.\n", args.board))
}

pub(super) async fn prune(
    args: PruneArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let request = wire::PruneBoardRequest {
        board: args.board.to_string(),
        person: person(args.by)?.to_string(),
        keep: args.keep,
        ..Default::default()
    };
    let done = Broker::new(config).call(&request).await?;
    let text = || {
        let wire::PruneBoardResponse { forgotten, oldest, .. } = &done;
        let board = &args.board;
        format!("Forgot {forgotten} checkpoints of board {board}; the oldest is {oldest}.\n")
    };
    output.answer(|| json!(done), text)
}
