//! Loops and entries as people read them.

use owo_colors::OwoColorize as _;
use tasuki_proto::{
    counted::counted,
    wire::{self, EntryKind, LoopStatus},
};

use super::text::{indented, line, time, width};

/// Under which the texts of an entry stand, in characters.
const INDENT: usize = 4;

pub(crate) fn render_loop(of: &wire::Loop) -> String {
    let name = line(&of.r#loop);
    let holder = line(&of.holder);
    let state = match of.status() {
        LoopStatus::Idle => format!("{} has turn {} and has not begun", holder.bold(), of.turn),
        LoopStatus::Working => format!("{} has turn {}", holder.bold(), of.turn),
        LoopStatus::Stalled => {
            let stalled = "stalled".red().to_string();
            format!("{stalled}: the lease of {} on turn {} lapsed", holder.bold(), of.turn)
        }
        LoopStatus::Paused => {
            let paused = "paused".red().bold().to_string();
            format!("{paused}: {} has turn {} and does not start", holder.bold(), of.turn)
        }
        LoopStatus::Completed => "completed".green().to_string(),
        LoopStatus::Unspecified => "in a state this release does not know".to_owned(),
    };
    let mut out = format!("{} round {}: {state}\n", name.bold(), of.round);
    let mut row = |label: &str, text: &str| {
        out += &format!("  {} {text}\n", format!("{label:<13}").dimmed());
    };
    if let Some(pause) = &of.pause {
        row("paused since", &time(pause.at_ms));
        row("because", &line(&pause.reason));
        row("goes on with", &format!("tasuki loop resume {name}"));
    }
    row("participants", &line(&of.participants.join(", ")));
    if !of.waiting.is_empty() {
        row("waiting", &line(&of.waiting.join(", ")));
    }
    if of.status() != LoopStatus::Completed {
        if of.turn_began_ms != 0 {
            row("turn since", &time(of.turn_began_ms));
        }
        if of.lease_lapses_ms != 0 {
            row("lease until", &time(of.lease_lapses_ms));
        }
        if of.quiet_since_ms != 0 {
            row("quiet since", &time(of.quiet_since_ms));
        }
    }
    row("history", &entries(of.entries));
    out
}

/// So many entries.
pub(crate) fn entries(count: u64) -> String {
    counted(count, "entry")
}

pub(crate) fn entry(of: &wire::Entry) -> String {
    let who =
        if of.person.is_empty() { String::new() } else { format!(" by {}", line(&of.person)) };
    let (from, to) = (line(&of.from), line(&of.to));
    let what = match of.kind() {
        EntryKind::Handover if of.is_task_complete => format!("{from} completed the loop"),
        EntryKind::Handover => format!("{from} → {to}"),
        EntryKind::Reclaim => format!("{from} → {to} reclaimed{who}"),
        EntryKind::RoundStart => format!("round {} started with {to}{who}", of.round),
        EntryKind::Unspecified => "something this release does not know".to_owned(),
    };
    let turns = match (of.ended_turn, of.turn) {
        (0, turn) => format!("turn {turn}"),
        (ended, 0) => format!("turn {ended} ended"),
        (ended, turn) => format!("turn {ended} → {turn}"),
    };
    let when = time(of.at_ms);
    let mut out = format!(
        "{} {} {} {}\n",
        format!("#{}", of.number).bold(),
        what.green(),
        turns,
        when.dimmed()
    );
    for (label, text) in
        [("summary", &of.summary), ("instruction", &of.instruction), ("reason", &of.reason)]
    {
        if !text.is_empty() {
            out += &format!("  {}\n", label.dimmed());
            out.push_str(&indented(text, INDENT, width()));
        }
    }
    out += &format!("  {} {}\n", "receipts".dimmed(), receipts(of.receipts));
    out
}

/// How far it got, each step with its time.
pub(crate) fn receipts(of: Option<wire::Receipts>) -> String {
    let of = of.unwrap_or_default();
    let steps = [
        ("stored", of.stored_ms),
        ("handed", of.handed_ms),
        ("seen", of.seen_ms),
        ("acted", of.acted_ms),
        ("failed", of.failed_ms),
        ("lapsed", of.lapsed_ms),
    ];
    let got: Vec<String> = steps
        .iter()
        .filter(|(_, ms)| *ms != 0)
        .map(|(step, ms)| format!("{step} {}", time(*ms)))
        .collect();
    if got.is_empty() { "none".to_owned() } else { got.join(", ") }
}
