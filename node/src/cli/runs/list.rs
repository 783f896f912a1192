//! `tasuki runs list` and `tasuki runs runners`: a line for each run, and for each node that runs
//! agents. And what people call a run.

use std::str::FromStr;

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::{
    reason::Reason,
    run::RunId,
    wire::{self, RunStatus},
};

use super::{Failure, Output, labels};
use crate::{
    cli::{
        broker::Broker,
        labels::{headed, long},
        swarm::names::is_id_end,
        text::{column, line},
    },
    config::Config,
};

/// Runs that are shown unless more are asked for.
const LIMIT: u64 = 50;

/// Runs that are asked for at once, as many as the broker gives.
const PAGE: u64 = 200;

/// The longest status, "out of budget".
const STATUS_CHARS: usize = 13;

/// Runs among which the last part of an id is looked for, the newest first: ten pages.
const LOOKED_AT_MAX: u64 = 2000;

/// What people are told where no node takes steps.
const NO_RUNNERS: &str = "No connected node runs agents. `tasuki up` does, and `tasuki node` with \
                          [runs] in its configuration.\n";

/// How runs are called, for `--help`.
pub(super) const HELP: &str = "\
A run is named by its id, by the last part of it, or by `latest`: run_1700000000000_00af, 00af.";

/// A run as it was called: its id, or how that ends. With nothing ends every one.
#[derive(Debug, Clone)]
pub(super) struct RunName(String);

impl FromStr for RunName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "latest" => Ok(Self(String::new())),
            end if is_id_end(end) => Ok(Self(format!("_{end}"))),
            id => id.parse().map(|id: RunId| Self(id.to_string())).map_err(|_| {
                "a run is like run_1700000000000_00af, or the last part of that: 00af; `latest` is \
                 the newest"
            }),
        }
    }
}

impl RunName {
    /// The id that is meant.
    pub(super) async fn find(&self, broker: &Broker) -> Result<String, Failure> {
        let Self(end) = self;
        let most = match end.as_str() {
            "" => 1,
            end if end.starts_with('_') => LOOKED_AT_MAX,
            id => return Ok(id.to_owned()),
        };
        let mut found = Vec::new();
        each(broker, wire::ListRunsRequest::default(), most, |run, _| {
            found.extend(run.run_id.ends_with(end).then(|| run.run_id.clone()));
            Ok(())
        })
        .await?;
        let why = match found.as_slice() {
            [one] => return Ok(one.clone()),
            [] if end.is_empty() => {
                "There is no run; `tasuki run AGENT TASK` starts one.".to_owned()
            }
            [] => format!(
                "None of the {most} newest runs has an id that ends with {end}; `tasuki runs list` \
                 shows them. Nothing changed."
            ),
            several => format!(
                "Several runs are meant: {}. Give the whole id; nothing changed.",
                several.join(", ")
            ),
        };
        Err(Failure::reason(Reason::UnknownRun, why))
    }
}

/// List runs, newest first.
///
/// With --json each run is one line.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Only runs that have not ended
    #[arg(long)]
    open: bool,
    /// Most runs to show
    #[arg(long, value_name = "COUNT", default_value_t = LIMIT,
          value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

/// Show which nodes run agents, with which runners.
///
/// A node that is not listed takes no steps: it is not connected, or not configured to. PLACES are
/// steps that it takes in at present, FOR whose they may be. With --json each node is one line.
#[derive(Debug, clap::Args)]
pub struct RunnersArgs {}

pub(super) async fn list(
    args: ListArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let request = wire::ListRunsRequest { only_open: args.open, ..Default::default() };
    let mut shown = 0_u64;
    let has_more = each(&broker, request, args.limit, |run, now_ms| {
        if shown == 0 {
            let head = format!(
                "{:<25} {:<8} {:<STATUS_CHARS$} {:<24} {:<16} {:>8} {:>9}",
                "RUN", "MODE", "STATUS", "AGENTS", "NODE", "AGE", "COST"
            );
            output.guide(|| headed(&head))?;
        }
        shown += 1;
        output.answer(|| json!(run), || run_row(run, now_ms))
    })
    .await?;
    output.guide(|| match shown {
        0 if args.open => "No run is open.\n".to_owned(),
        0 => "No runs. Start one with `tasuki run AGENT TASK`.\n".to_owned(),
        _ if !has_more => String::new(),
        _ => format!("The newest {shown} are shown; `--limit {}` shows more.\n", shown * 2),
    })
}

/// Calls `show` for each run that the request asks for, at most `most` of them and the newest first,
/// with the broker's time. Returns whether there are more.
pub(in crate::cli) async fn each(
    broker: &Broker,
    mut request: wire::ListRunsRequest,
    most: u64,
    mut show: impl FnMut(&wire::Run, u64) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let mut left = most;
    loop {
        request.limit = u32::try_from(left.min(PAGE)).unwrap_or(u32::MAX);
        let page = broker.call(&request).await?;
        page.runs.iter().try_for_each(|run| show(run, page.now_ms))?;
        left = left.saturating_sub(page.runs.len() as u64);
        // A page that leads nowhere would be asked for for ever.
        let Some(last) = page.runs.last().filter(|_| page.has_more && 0 < left) else {
            return Ok(page.has_more);
        };
        request.before.clone_from(&last.run_id);
    }
}

fn run_row(run: &wire::Run, now_ms: u64) -> String {
    let status = format!("{:<STATUS_CHARS$}", labels::run_status(run));
    let status = match run.status() {
        RunStatus::Running => status.cyan().to_string(),
        RunStatus::Succeeded => status.green().to_string(),
        RunStatus::Failed | RunStatus::Lost | RunStatus::OutOfBudget => status.red().to_string(),
        RunStatus::Canceled | RunStatus::Unspecified => status,
    };
    let [_, _, cost] = labels::usage(run.usage);
    format!(
        "{} {:<8} {status} {} {} {:>8} {:>9}\n",
        format!("{:<25}", line(&run.run_id)).bold(),
        labels::mode(run),
        column(&labels::agents(run), 24),
        column(&labels::nodes(run), 16),
        long(now_ms.saturating_sub(run.started_ms)),
        cost.unwrap_or_default(),
    )
}

pub(super) async fn runners(
    _: RunnersArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let offers = Broker::new(config).call(&wire::ListRunnersRequest::default()).await?.offers;
    if offers.is_empty() {
        return output.guide(|| NO_RUNNERS.to_owned());
    }
    let head = format!("{:<24} {:<40} {:>6} {:<8} LABELS", "NODE", "RUNNERS", "PLACES", "FOR");
    output.guide(|| headed(&head))?;
    offers.iter().try_for_each(|offer| output.answer(|| json!(offer), || offer_row(offer)))
}

fn offer_row(offer: &wire::RunnerOffer) -> String {
    let whose = if offer.accepts_elsewhere { "all" } else { "itself" };
    let listed = |names: &[String]| match names {
        [] => "-".to_owned(),
        names => line(&names.join(", ")),
    };
    format!(
        "{} {} {:>6} {whose:<8} {}\n",
        column(&offer.node, 24).bold(),
        column(&listed(&offer.runners), 40),
        offer.places,
        listed(&offer.labels),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(row: &str) -> String {
        assert_eq!(row.lines().count(), 1, "{row:?}");
        let shown = anstream::adapter::strip_str(row).to_string();
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_run_is_one_line_and_so_is_a_node() {
        let step = |(agent, node): (&str, &str)| wire::RunStep {
            agent: agent.to_owned(),
            node: node.to_owned(),
            ..Default::default()
        };
        let steps = [("scout", "b"), ("scout", ""), ("\u{1b}[31mplanner", "a"), ("scout", "b")];
        let run = wire::Run {
            run_id: "run_1700000000000_00af".to_owned(),
            mode: wire::RunMode::Chain.into(),
            status: RunStatus::OutOfBudget.into(),
            steps: steps.map(step).into(),
            usage: Some(wire::RunUsage { cost_microusd: 12_300, ..Default::default() }),
            started_ms: 1_000,
            ..Default::default()
        };
        assert_eq!(
            words(&run_row(&run, 61_000)),
            "run_1700000000000_00af chain out of budget scout ×2, planner, scout a, b 1m 00s $0.0123"
        );
        let runners = vec!["claude".to_owned(), "pi".to_owned()];
        let node = "desk-1".to_owned();
        let offer = wire::RunnerOffer { node, runners, places: 4, ..Default::default() };
        assert_eq!(words(&offer_row(&offer)), "desk-1 claude, pi 4 itself -");
    }
}
