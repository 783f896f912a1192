//! `tasuki task top`: issues, tasks, workers, locks and deliveries, live.
//!
//! What is shown is a `State`, which `gather` asks the broker for; `view` makes widgets of it, for
//! any size, and is pure; `live` draws them. The feed tells when to ask again, and about which
//! issues; the clocks go on by themselves.

mod gather;
mod live;
mod state;
mod view;

use std::io::IsTerminal as _;

use ratatui::{buffer::Buffer, layout::Rect};
use serde_json::json;

use self::{
    gather::{Gatherer, Stale},
    live::live,
    state::State,
    view::{ansi, draw_frame},
};
use crate::{
    cli::{
        role_args::RoleClient,
        swarm::{Failure, Output, names::IssueName},
        text::terminal,
    },
    config::Config,
};

/// A frame where nothing says how large one may be, in characters.
const SIZE: (usize, usize) = (80, 24);

/// The largest frame that is printed, in characters: nothing more would be on a larger one.
const SIZE_MAX: (u16, u16) = (1_000, 4_000);

/// Show issues, tasks, workers, locks and deliveries, live.
///
/// Work in progress comes first; what does not fit is counted. Arrow keys and Page Up and Down
/// scroll; q, Escape or Ctrl-C quits. Issues closed in the last hour stand dimmed behind the open
/// ones. One frame is printed if the output is not a terminal, or one that cannot be drawn on (TERM=dumb).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only this issue
    #[arg(value_name = "ISSUE")]
    issue: Option<IssueName>,
    /// Print one frame, as large as the terminal or $COLUMNS by $LINES, and exit
    #[arg(long)]
    once: bool,
    /// Show closed issues however old, the latest ten of each kind
    #[arg(long)]
    all: bool,
}

pub(in crate::cli) async fn run(
    args: Args,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let acting = RoleClient::anonymous(config);
    let only = match &args.issue {
        Some(issue) => Some(issue.find(&acting).await?),
        None => None,
    };
    let mut gatherer = Gatherer::new(acting.broker.clone(), only, args.all);
    gatherer.gather(&Stale::All).await?;
    if args.once || output.is_json() || !is_drawn_on() {
        return output.answer(|| json!(gatherer.state), || print(&gatherer.state, size()));
    }
    Box::pin(live(gatherer, &acting.broker)).await
}

/// Whether the output is a terminal that goes by more than newlines.
fn is_drawn_on() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|it| it == "dumb");
    std::io::stdout().is_terminal() && !is_dumb
}

/// How large a frame is that is printed.
fn size() -> (u16, u16) {
    // A variable that says 0 says nothing.
    let told = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok().filter(|it| 0 < *it);
    let told = || (told("COLUMNS").unwrap_or(SIZE.0), told("LINES").unwrap_or(SIZE.1));
    let (columns, rows) = terminal().unwrap_or_else(told);
    let bounded = |told: usize, max: u16| u16::try_from(told).map_or(max, |told| told.min(max));
    (bounded(columns, SIZE_MAX.0), bounded(rows, SIZE_MAX.1))
}

/// A frame to be read later: a line is left for the prompt, and none is empty at its end.
fn print(state: &State, (width, height): (u16, u16)) -> String {
    let area = Rect::new(0, 0, width, height.saturating_sub(1).max(1));
    let mut frame = Buffer::empty(area);
    draw_frame(state, state.now_ms, 0, area, &mut frame);
    format!("{}\n", ansi(&frame).trim_end())
}

#[cfg(test)]
mod tests;
