//! Threads and entries as people read them.

use owo_colors::OwoColorize as _;
use tasuki_proto::{counted::counted, id::RoleId, mail::BoxKind, wire};

use super::{json::is_sealed, markdown};
use crate::cli::text::{column, ended, line, padded, time, time_cells};

/// The part of an id that names it to people.
pub(super) fn short_id(id: &str) -> String {
    line(id).chars().take(8).collect()
}

/// What stands above a list.
pub(super) fn head() -> String {
    let when = padded("WHEN".to_owned(), time_cells());
    let text = format!("  {:>3} {:<6} {:<14} {when} {:<8} SUBJECT", "NEW", "TYPE", "WHO", "ID");
    format!("{}\n", text.dimmed())
}

/// A thread in one line.
pub(super) fn row(of: &wire::MailThread, me: &RoleId) -> String {
    let mark = if of.is_urgent { "!".red().bold().to_string() } else { " ".to_owned() };
    let dead = if of.is_dead { "x".red().to_string() } else { " ".to_owned() };
    let unseen = if of.unseen == 0 { String::new() } else { of.unseen.to_string() };
    let kind = if of.latest_type.is_empty() { &of.r#type } else { &of.latest_type };
    let who = if of.latest_sender == me.as_str() {
        format!("→ {}", line(&of.latest_receivers.join(",")))
    } else {
        line(&of.latest_sender)
    };
    let head = format!(
        "{mark}{dead}{} {} {} {} {} ",
        format!("{unseen:>3}").bold(),
        column(kind, 6).green(),
        column(&who, 14),
        padded(time(of.latest_ms), time_cells()).dimmed(),
        format!("{:<8}", short_id(&of.message_id)).bold(),
    );
    ended(&head, if is_sealed(of) { "(sealed)" } else { &of.subject })
}

/// What stands above a thread's entries.
pub(super) fn title(of: &wire::MailThread) -> String {
    let subject = if is_sealed(of) { "(sealed)".to_owned() } else { line(&of.subject) };
    let urgent = if of.is_urgent { format!("{} ", "URGENT".red().bold()) } else { String::new() };
    let entries = if of.entries == 1 { "entry" } else { "entries" };
    let place = BoxKind::of_wire(of.r#box()).map_or("another box", BoxKind::as_str);
    let mut out = format!("{urgent}{}\n", subject.bold());
    let mut row = |label: &str, text: &str| {
        out += &format!("  {} {text}\n", format!("{label:<13}").dimmed());
    };
    row("message", &line(&of.message_id));
    row("file", &line(&of.file_name));
    row("box", place);
    row("between", &line(&of.participants.join(", ")));
    row("thread", &format!("{} {entries}, {} unseen", of.entries, of.unseen));
    if of.is_dead {
        row("dead letter", "handed again and again, never seen");
    }
    out
}

/// An entry with its words.
pub(super) fn entry(of: &wire::MailEntry, has_receipts: bool) -> String {
    let mut out = format!("\n{}", entry_head(of));
    // What is sealed and was not opened has the reason for a text.
    match &of.sealed {
        Some(sealed) => {
            let text = format!("{} ({} bytes)", line(&of.text), sealed.envelope.len());
            out += &format!("    {}\n", text.dimmed());
        }
        None => out.push_str(&markdown::shown(&of.text)),
    }
    for it in &of.attachments {
        let (name, media, size) = (line(&it.name), line(&it.media_type), bytes(it.size));
        out += &format!("  {} {name} ({size}, {media})\n", "attached".dimmed());
    }
    if has_receipts {
        out.push_str(&receipts(&of.receipts));
    }
    out
}

/// Who wrote it to whom, and when.
pub(super) fn entry_head(of: &wire::MailEntry) -> String {
    let who = format!("{} → {}", line(&of.sender), line(&of.receivers.join(", ")));
    let when =
        if of.is_imported { format!("{} (imported)", time(of.written_ms)) } else { time(of.at_ms) };
    let lapses = match of.expires_ms {
        0 => String::new(),
        ms => format!(" lapses {}", time(ms)),
    };
    let number = format!("#{}", of.number);
    let when = format!("{when}{lapses}");
    format!("{} {} {} {}\n", number.bold(), who.green(), line(&of.r#type), when.dimmed())
}

/// How far an entry got, a line for each receiver.
pub(super) fn receipts(of: &[wire::MailReceipt]) -> String {
    of.iter().map(|it| format!("  {} {}\n", column(&it.role, 13).dimmed(), steps(it))).collect()
}

fn steps(of: &wire::MailReceipt) -> String {
    let steps = [
        ("stored", of.stored_ms),
        ("handed", of.handed_ms),
        ("seen", of.seen_ms),
        ("acted", of.acted_ms),
        ("lapsed", of.lapsed_ms),
        ("dead", of.dead_ms),
    ];
    let got = steps.iter().filter(|(_, ms)| *ms != 0);
    let got: Vec<String> = got.map(|(step, ms)| format!("{step} {}", time(*ms))).collect();
    if got.is_empty() { "none".to_owned() } else { got.join(", ") }
}

pub(super) fn bytes(size: u64) -> String {
    const KIB: u64 = 1024;
    match size {
        0..KIB => counted(size, "byte"),
        size if size < KIB * KIB => format!("{}.{} KiB", size / KIB, size % KIB * 10 / KIB),
        size => format!("{}.{} MiB", size / (KIB * KIB), size % (KIB * KIB) * 10 / (KIB * KIB)),
    }
}
