//! `tasuki board watch`: a line for each checkpoint, as it is written.

use serde_json::json;
use tasuki_proto::{
    id::BoardName,
    wire::{self, board_event::Kind, event::Noun},
};

use super::checkpoint_line;
use crate::{
    cli::{
        Failure, Output,
        broker::Broker,
        following::{Following, Told},
        stopped,
    },
    config::Config,
};

/// Follow a board: print a line for each new checkpoint.
///
/// With --json each checkpoint is one line. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct Args {
    /// Name of the board; it may not exist yet
    #[arg(value_name = "BOARD")]
    board: BoardName,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    tokio::select! {
        result = follow(&broker, &args.board, output) => result,
        () = stopped() => Ok(()),
    }
}

async fn follow(broker: &Broker, board: &BoardName, output: &mut Output) -> Result<(), Failure> {
    let mut feed = Following::new(broker, 0).await?;
    loop {
        let Told::Item(item) = feed.next(&mut |note| output.note(note)).await? else { continue };
        for event in &item.events {
            let Some(Noun::Board(wire::BoardEvent { kind: Some(kind) })) = &event.noun else {
                continue;
            };
            match kind {
                Kind::BoardUpdated(it) if it.board == board.as_str() => {
                    let checkpoint = checkpoint(&item, it);
                    output.answer(|| json!(checkpoint), || checkpoint_line(&checkpoint))?;
                    output.flush()?;
                }
                Kind::BoardDeleted(it) if it.board == board.as_str() => {
                    output.guide(|| format!("Board {board} was deleted.\n"))?;
                }
                Kind::BoardUpdated(_) | Kind::BoardDeleted(_) => {}
            }
        }
    }
}

/// A checkpoint as lists of them have it.
fn checkpoint(item: &wire::FeedItem, it: &wire::BoardUpdated) -> wire::BoardCheckpoint {
    wire::BoardCheckpoint {
        checkpoint: it.checkpoint,
        parent: it.parent,
        by_role: item.role.clone(),
        by_person: item.person.clone(),
        at_ms: item.at_ms,
        channels: it.channels.clone(),
        // The first has none, whatever its number is.
        is_fork: it.parent != 0 && it.parent + 1 < it.checkpoint,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_goes_back_is_a_fork() {
        for (parent, number, is_fork) in [(0, 1, false), (0, 6, false), (6, 7, false), (6, 8, true)]
        {
            let update = wire::BoardUpdated { checkpoint: number, parent, ..Default::default() };
            let checkpoint = checkpoint(&wire::FeedItem::default(), &update);
            assert_eq!(checkpoint.is_fork, is_fork, "{number} after {parent}");
        }
    }
}
