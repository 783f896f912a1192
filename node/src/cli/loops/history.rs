//! `tasuki loop history`.

use serde_json::json;
use tasuki_proto::{
    limits::HISTORY_PAGE_MAX,
    wire::{self, turn_loop_client::TurnLoopClient},
};

use super::{
    super::{Failure, Output, broker::Broker, json as as_json, show},
    Which, status,
};

/// Show what was handed over, oldest first.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) which: Which,
    /// The first entry to show [default: so that the latest is the last shown]
    #[arg(long, value_name = "ENTRY", value_parser = clap::value_parser!(u64).range(1..))]
    from: Option<u64>,
    /// How many entries to show
    #[arg(long, value_name = "COUNT", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

pub(super) async fn run(args: Args, broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let name = &args.which.r#loop;
    let mut next = match args.from {
        Some(from) => from,
        None => {
            let of = status::get(broker, name).await?.r#loop.unwrap_or_default();
            of.entries.saturating_sub(args.limit) + 1
        }
    };
    let mut left = args.limit;
    let mut shown = 0_u64;
    while next != 0 && left != 0 {
        let request = wire::HistoryRequest {
            caller: broker.caller(),
            r#loop: name.to_string(),
            from: next,
            limit: u32::try_from(left).unwrap_or(HISTORY_PAGE_MAX).min(HISTORY_PAGE_MAX),
        };
        let page = broker
            .ask(async |channel| TurnLoopClient::new(channel).history(request.clone()).await)
            .await?;
        for entry in &page.entries {
            output.answer(|| as_json::entry(entry), || format!("{}\n", show::entry(entry)))?;
        }
        let count = page.entries.len() as u64;
        shown += count;
        left = left.saturating_sub(count);
        // A page that leads nowhere would be asked for for ever.
        next = if count == 0 { 0 } else { page.next };
    }
    if shown == 0 {
        // The history may begin where somebody asked for something later.
        let entries = match args.from {
            Some(_) => status::get(broker, name).await?.r#loop.unwrap_or_default().entries,
            None => 0,
        };
        output.answer(
            || json!(null),
            || match entries {
                0 => "Nothing was handed over yet.\n".to_owned(),
                some => format!(
                    "There is nothing from entry {} on; the history has {}.\n",
                    args.from.unwrap_or(1),
                    show::entries(some)
                ),
            },
        )?;
    }
    Ok(())
}
