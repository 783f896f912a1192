//! `tasuki loop history`.

use serde_json::json;
use tasuki_proto::{limits::HISTORY_PAGE_MAX, wire};

use super::{
    super::{Failure, Output, broker::Broker, loop_view},
    Which, status,
};

/// Show what was handed over, oldest first.
///
/// With --json each entry is a line of its own.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) which: Which,
    /// Number of the first entry to show [default: so that the latest is the last shown]
    #[arg(long, value_name = "ENTRY", value_parser = clap::value_parser!(u64).range(1..))]
    from: Option<u64>,
    /// Most entries to show
    #[arg(long, value_name = "COUNT", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

pub(super) async fn run(args: Args, broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let name = &args.which.r#loop;
    let entries = async || -> Result<u64, Failure> {
        Ok(status::get(broker, name).await?.r#loop.unwrap_or_default().entries)
    };
    let (mut next, total) = match args.from {
        Some(from) => (from, None),
        None => {
            let total = entries().await?;
            (total.saturating_sub(args.limit) + 1, Some(total))
        }
    };
    let mut left = args.limit;
    let mut shown = 0_u64;
    while next != 0 && left != 0 {
        let request = wire::HistoryRequest {
            r#loop: name.to_string(),
            from: next,
            limit: u32::try_from(left).unwrap_or(HISTORY_PAGE_MAX).min(HISTORY_PAGE_MAX),
            ..Default::default()
        };
        let page = broker.call(&request).await?;
        for entry in &page.entries {
            output.answer(|| json!(entry), || format!("{}\n", loop_view::entry(entry)))?;
        }
        let count = page.entries.len() as u64;
        shown += count;
        left = left.saturating_sub(count);
        // A page that leads nowhere would be asked for for ever.
        next = if count == 0 { 0 } else { page.next };
    }
    if shown == 0 {
        // The history may begin where somebody asked for something later.
        let entries = if args.from.is_some() { entries().await? } else { 0 };
        return output.guide(|| match entries {
            0 => "Nothing was handed over yet.\n".to_owned(),
            some => format!(
                "There is nothing from entry {} on; the history has {}.\n",
                args.from.unwrap_or(1),
                loop_view::entries(some)
            ),
        });
    }
    let rest = match total {
        Some(total) if shown < total => format!(
            "The newest {shown} of {} are shown; `--limit {total}` shows all.",
            loop_view::entries(total)
        ),
        Some(_) | None if next != 0 => format!("More follow; continue with `--from {next}`."),
        Some(_) | None => return Ok(()),
    };
    // Programs read entries alone.
    if output.is_json() {
        output.note(&rest);
    }
    output.guide(|| format!("{rest}\n"))
}
