//! `tasuki runs list`.

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::wire::{self, RunStatus};

use super::{Failure, Output, labels, pages};
use crate::{
    cli::{
        broker::Broker,
        text::{column, line},
    },
    config::Config,
};

/// Entries that are shown unless more are asked for.
const LIMIT: u64 = 50;

/// The longest status, "out of budget".
const STATUS_CHARS: usize = 13;

/// List runs, newest first.
///
/// With --json each run is one line.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only runs that have not ended
    #[arg(long)]
    open: bool,
    /// Most runs to show
    #[arg(long, value_name = "COUNT", default_value_t = LIMIT,
          value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let request = wire::ListRunsRequest { only_open: args.open, ..Default::default() };
    let mut shown = 0_u64;
    let has_more = pages::each(&broker, request, args.limit, |run, now_ms| {
        if shown == 0 {
            output.guide(head)?;
        }
        shown += 1;
        output.answer(|| json!(run), || row(run, now_ms))
    })
    .await?;
    match shown {
        0 if args.open => output.guide(|| "No run is open.\n".to_owned()),
        0 => output.guide(|| "No runs. Start one with `tasuki run AGENT TASK`.\n".to_owned()),
        _ if has_more => output.guide(|| {
            format!("The newest {shown} are shown; `--limit {}` shows more.\n", shown * 2)
        }),
        _ => Ok(()),
    }
}

fn head() -> String {
    let head = format!(
        "{:<25} {:<8} {:<STATUS_CHARS$} {:<24} {:<16} {:>4} {:>9}",
        "RUN", "MODE", "STATUS", "AGENTS", "NODE", "AGE", "COST"
    );
    format!("{}\n", head.trim_end().dimmed())
}

fn row(run: &wire::Run, now_ms: u64) -> String {
    let status = format!("{:<STATUS_CHARS$}", labels::run_status(run));
    let status = match run.status() {
        RunStatus::Running => status.cyan().to_string(),
        RunStatus::Succeeded => status.green().to_string(),
        RunStatus::Failed | RunStatus::Lost | RunStatus::OutOfBudget => status.red().to_string(),
        RunStatus::Canceled | RunStatus::Unspecified => status,
    };
    format!(
        "{} {:<8} {status} {} {} {:>4} {:>9}\n",
        format!("{:<25}", line(&run.run_id)).bold(),
        labels::mode(run.mode()),
        column(&labels::agents(run), 24),
        column(&labels::nodes(run), 16),
        labels::age(now_ms.saturating_sub(run.started_ms)),
        labels::cost(&run.usage.unwrap_or_default()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_one_line() {
        let step = |agent: &str| wire::RunStep {
            agent: agent.to_owned(),
            node: "desk-1".to_owned(),
            ..Default::default()
        };
        let run = wire::Run {
            run_id: "run_1700000000000_00af".to_owned(),
            mode: wire::RunMode::Chain.into(),
            status: RunStatus::OutOfBudget.into(),
            steps: vec![step("scout"), step("planner")],
            usage: Some(wire::RunUsage { cost_microusd: 12_300, ..Default::default() }),
            started_ms: 1_000,
            ..Default::default()
        };
        let shown = anstream::adapter::strip_str(&row(&run, 61_000)).to_string();
        assert_eq!(
            shown.split_whitespace().collect::<Vec<_>>().join(" "),
            "run_1700000000000_00af chain out of budget scout, planner desk-1 1m $0.0123"
        );
        assert_eq!(shown.lines().count(), 1);
    }
}
