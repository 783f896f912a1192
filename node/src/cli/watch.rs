//! `tasuki watch`: what happens, live.

use serde_json::json;

use super::{
    Failure, Output,
    broker::Broker,
    events,
    following::{Following, Told},
    stopped,
};
use crate::config::Config;

/// Show events of the workspace, live, one line each.
///
/// With --json each line is what one command did: its `events`, each with its `noun`, its `kind` and
/// the fields of that kind.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Sequence in the workspace's journal to start from [default: only new events]
    #[arg(long, value_name = "SEQUENCE", value_parser = clap::value_parser!(u64).range(1..))]
    from: Option<u64>,
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    tokio::select! {
        result = follow(&broker, args.from.unwrap_or(0), output) => result,
        () = stopped() => Ok(()),
    }
}

async fn follow(broker: &Broker, from: u64, output: &mut Output) -> Result<(), Failure> {
    let mut feed = Following::new(broker, from).await?;
    loop {
        if let Told::Item(item) = feed.next(&mut |note| output.note(note)).await? {
            output.answer(|| json!(item), || events::lines(&item))?;
        }
    }
}
