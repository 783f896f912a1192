//! Lines of a board, made of what is shown and of how large the screen is; nothing else.
//!
//! **Invariant:** no line is wider than the screen and there are no more lines than it has; what
//! does not fit is cut with `…` or counted.

use owo_colors::OwoColorize as _;
use tasuki_proto::wire::{self, TaskStage, TaskStatus};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use self::Room::{Left, Rest, Right};
use super::{
    super::{
        rows::{locked, who},
        words::{count, delivery_status, left, long, spaced, task_stage, tasks_of},
    },
    state::State,
};
use crate::cli::text::{line, time};

/// From this width on there are two columns, in characters.
const TWO_COLUMNS: usize = 140;

/// From this height on sections stand apart, in lines.
const APART: usize = 32;

/// What is nearly over, in milliseconds.
const SOON_MS: u64 = 60_000;

/// Between two columns, in characters.
const GUTTER: usize = 3;

/// Before each cell of a row.
const GAP: &str = "  ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// Text of one tone; no newline, nothing a terminal acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) tone: Tone,
}

pub(super) type Line = Vec<Span>;

/// A line as a terminal takes it.
pub(super) fn ansi(of: &Line) -> String {
    let one = |it: &Span| match it.tone {
        Tone::Plain => it.text.clone(),
        Tone::Bold => it.text.bold().to_string(),
        Tone::Dim => it.text.dimmed().to_string(),
        Tone::Red => it.text.red().to_string(),
        Tone::Green => it.text.green().to_string(),
        Tone::Yellow => it.text.yellow().to_string(),
        Tone::Cyan => it.text.cyan().to_string(),
    };
    of.iter().map(one).collect()
}

/// The same without its tones.
pub(super) fn plain(of: &Line) -> String {
    of.iter().map(|it| it.text.as_str()).collect()
}

/// How many cells a line takes.
pub(super) fn wide(of: &Line) -> usize {
    of.iter().map(|it| it.text.width()).sum()
}

fn span(text: impl Into<String>, tone: Tone) -> Span {
    Span { text: text.into(), tone }
}

/// One cell of a row. Where the screen is narrow, the last of those that `may_go` goes first.
struct Cell {
    text: String,
    tone: Tone,
    room: Room,
    /// From 1; 0: it stays.
    may_go: u8,
}

enum Room {
    /// So many, at the left of them.
    Left(usize),
    Right(usize),
    /// What the others leave, but no less than this as long as one of them may go.
    Rest(usize),
}

impl Cell {
    fn new(text: impl Into<String>, tone: Tone, room: Room) -> Self {
        Self { text: text.into(), tone, room, may_go: 0 }
    }

    /// It goes before those of a lower number.
    fn may_go(self, may_go: u8) -> Self {
        Self { may_go, ..self }
    }

    fn width(&self) -> usize {
        match self.room {
            Left(width) | Right(width) | Rest(width) => width,
        }
    }
}

/// Cells beside each other, each exactly as wide as it is to be.
fn row(mut cells: Vec<Cell>, width: usize) -> Line {
    let needed = |cells: &[Cell]| cells.iter().map(|it| GAP.len() + it.width()).sum::<usize>();
    while width < needed(&cells)
        && let Some(goes) = cells.iter().map(|it| it.may_go).max().filter(|it| 0 < *it)
    {
        cells.retain(|it| it.may_go != goes);
    }
    let more = width.saturating_sub(needed(&cells));
    let mut out = Line::new();
    for it in cells {
        let width = match it.room {
            Left(width) | Right(width) => width,
            Rest(least) => least + more,
        };
        let text = cut(&it.text, width);
        let blank = " ".repeat(width - text.width());
        let text = match it.room {
            Right(_) => blank + &text,
            Left(_) | Rest(_) => text + &blank,
        };
        out.extend([span(GAP, Tone::Plain), span(text, it.tone)]);
    }
    out
}

/// A text of others in at most so many cells.
fn cut(text: &str, width: usize) -> String {
    let text = line(text);
    if text.width() <= width {
        return text;
    }
    let (mut out, mut used) = (String::new(), 0);
    for c in text.chars() {
        let cells = c.width().unwrap_or(0);
        if width < used + cells + 1 {
            break;
        }
        out.push(c);
        used += cells;
    }
    if 0 < width {
        out.push('…');
    }
    out
}

/// A line that fits: what is too much is cut at its end.
fn fitted(of: Line, width: usize) -> Line {
    let (mut out, mut left) = (Line::new(), width);
    for it in of {
        if it.text.width() <= left {
            left -= it.text.width();
            out.push(it);
            continue;
        }
        let mut text = String::new();
        for c in it.text.chars() {
            let cells = c.width().unwrap_or(0);
            if left < cells {
                break;
            }
            text.push(c);
            left -= cells;
        }
        out.push(span(text, it.tone));
        break;
    }
    out
}

/// A part of the board.
struct Section {
    title: &'static str,
    /// Beside the title.
    note: String,
    rows: Vec<Line>,
    /// How many there are in all.
    total: u64,
}

/// The board as so many lines of so many cells.
pub(super) fn frame(of: &State, width: usize, height: usize) -> Vec<Line> {
    let mut out = printed(of, width, height);
    if !out.is_empty() && 1 < height {
        let blank = height - 1 - out.len();
        out.extend(std::iter::repeat_n(Line::new(), blank));
        out.push(fitted(foot(of), width));
    }
    out
}

/// The same to be read later: at most so many lines, and without what is said to whoever watches.
pub(super) fn printed(of: &State, width: usize, height: usize) -> Vec<Line> {
    if width == 0 || height == 0 {
        return Vec::new();
    }
    let mut out = vec![fitted(head(of, width), width)];
    let room = height.saturating_sub(2);
    let gap = usize::from(APART <= height);
    if width < TWO_COLUMNS {
        let all = vec![
            issues(of, width),
            tasks(of, width),
            workers(of, width),
            locks(of, width),
            deliveries(of, width),
        ];
        out.extend(column(all, width, room, gap));
    } else {
        let wide = (width - GUTTER) * 11 / 20;
        let narrow = width - GUTTER - wide;
        let first = column(vec![issues(of, wide), tasks(of, wide)], wide, room, gap);
        let others = vec![workers(of, narrow), locks(of, narrow), deliveries(of, narrow)];
        let second = column(others, narrow, room, gap);
        out.extend(beside(first, second, wide));
    }
    out.truncate(height.saturating_sub(1).max(1));
    out
}

fn head(of: &State, width: usize) -> Line {
    let left = format!("tasuki board · {}", line(&of.workspace));
    let at = time(of.now_ms);
    // Without the day where there is no room for it.
    let day = at.find(' ').map_or(0, |it| it + 1);
    let at = if left.width() + 1 + at.width() <= width { &at } else { &at[day..] };
    let left = cut(&left, width.saturating_sub(at.width() + 1));
    let gap = width.saturating_sub(left.width() + at.width()).max(1);
    vec![span(left, Tone::Bold), span(" ".repeat(gap), Tone::Plain), span(at, Tone::Dim)]
}

fn foot(of: &State) -> Line {
    if of.trouble.is_empty() {
        return vec![span("q ends", Tone::Dim)];
    }
    vec![span(line(&of.trouble), Tone::Red)]
}

/// Sections below each other, which share the room.
fn column(sections: Vec<Section>, width: usize, room: usize, gap: usize) -> Vec<Line> {
    let count = sections.len();
    let mut free = room.saturating_sub(count + gap * count);
    // One line each in turn, until nothing is left or nobody wants more.
    let mut given = vec![0_usize; count];
    loop {
        let mut is_over = true;
        for (given, section) in given.iter_mut().zip(&sections) {
            let wanted = section.rows.len() + usize::from(section.rows_missing());
            if 0 < free && *given < wanted {
                *given += 1;
                free -= 1;
                is_over = false;
            }
        }
        if is_over {
            break;
        }
    }
    let mut out = Vec::new();
    for (section, lines) in sections.into_iter().zip(given) {
        out.extend(std::iter::repeat_n(Line::new(), gap));
        out.extend(section.lines(lines, width));
    }
    out
}

impl Section {
    /// Whether more were counted than are here.
    fn rows_missing(&self) -> bool {
        (self.rows.len() as u64) < self.total
    }

    fn lines(self, lines: usize, width: usize) -> Vec<Line> {
        let total = self.total;
        let note = if total == 0 { "none".to_owned() } else { self.note };
        let mut title = vec![span(self.title, Tone::Bold)];
        if total != 0 {
            title.push(span(format!(" {total}"), Tone::Plain));
        }
        if !note.is_empty() {
            let room = width.saturating_sub(wide(&title) + GAP.len());
            title.push(span(format!("{GAP}{}", cut(&note, room)), Tone::Dim));
        }
        let mut out = vec![fitted(title, width)];
        let is_cut = lines < self.rows.len() || (lines as u64) < total;
        // The last line says how many are not here.
        let shown = if is_cut { lines.saturating_sub(1) } else { lines };
        out.extend(self.rows.into_iter().take(shown).map(|row| fitted(row, width)));
        if is_cut && 0 < lines {
            let more = total.saturating_sub(shown as u64);
            out.push(fitted(vec![span(format!("  … and {more} more"), Tone::Dim)], width));
        }
        out
    }
}

/// Two columns as one, the first so wide.
fn beside(first: Vec<Line>, second: Vec<Line>, wide_first: usize) -> Vec<Line> {
    let count = first.len().max(second.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let both = (0..count).map(|_| {
        let mut line = first.next().unwrap_or_default();
        let right = second.next().unwrap_or_default();
        if !right.is_empty() {
            let blank = wide_first.saturating_sub(wide(&line)) + GUTTER;
            line.push(span(" ".repeat(blank), Tone::Plain));
            line.extend(right);
        }
        line
    });
    both.collect()
}

/// The last part of an id, which names it to people.
fn short(id: &str) -> String {
    line(id.rsplit('_').next().unwrap_or(id))
}

/// What is left of a lease, more loudly the less it is.
fn lease(until_ms: u64, now_ms: u64) -> Cell {
    let tone = match until_ms.saturating_sub(now_ms) {
        0 => Tone::Red,
        1..SOON_MS => Tone::Yellow,
        _ => Tone::Plain,
    };
    let text = if until_ms == 0 { String::new() } else { left(until_ms, now_ms) };
    Cell::new(text, tone, Right(7))
}

fn issues(of: &State, width: usize) -> Section {
    let of_one = |it: &wire::Issue| {
        let done = format!("{}/{}", count(it, TaskStatus::Done), tasks_of(it));
        let busy = count(it, TaskStatus::InProgress) + count(it, TaskStatus::Blocked);
        let busy = if busy == 0 { String::new() } else { format!("{busy} busy") };
        let cells = vec![
            Cell::new(short(&it.issue_id), Tone::Bold, Left(6)),
            Cell::new(format!("{done} done"), Tone::Plain, Right(12)).may_go(1),
            Cell::new(busy, Tone::Green, Left(8)).may_go(3),
            Cell::new(&it.subject, Tone::Plain, Rest(12)),
            Cell::new(&it.lead, Tone::Dim, Left(12)).may_go(2),
        ];
        row(cells, width)
    };
    let rows = of.issues.iter().map(of_one).collect();
    Section { title: "ISSUES", note: "open".to_owned(), rows, total: of.issues_total }
}

fn tasks(of: &State, width: usize) -> Section {
    let of_one = |it: &wire::Task| {
        let (who, until_ms) = who(it);
        let name =
            format!("{}/{}", short(&it.issue_id), line(it.task_id.trim_start_matches("task-")));
        let cells = vec![
            Cell::new(name, Tone::Bold, Left(9)),
            Cell::new(spaced(&task_stage(it.stage()), " "), tone(it.stage()), Left(10)),
            Cell::new(who, Tone::Plain, Left(14)).may_go(1),
            lease(until_ms, of.now_ms).may_go(2),
            Cell::new(&it.subject, Tone::Plain, Rest(10)),
        ];
        row(cells, width)
    };
    let all = |status| of.issues.iter().map(|it| count(it, status)).sum::<u64>();
    let note = format!(
        "{} in progress · {} waiting for an answer · {} open · {} done",
        all(TaskStatus::InProgress),
        all(TaskStatus::Blocked),
        all(TaskStatus::Open),
        all(TaskStatus::Done)
    );
    let rows = of.tasks.iter().map(of_one).collect();
    Section { title: "TASKS", note, rows, total: of.tasks_total }
}

fn tone(stage: TaskStage) -> Tone {
    match stage {
        TaskStage::Asking | TaskStage::Submitted | TaskStage::InReview => Tone::Yellow,
        TaskStage::Working => Tone::Green,
        TaskStage::Ready => Tone::Cyan,
        TaskStage::Canceled => Tone::Red,
        TaskStage::Reserved | TaskStage::Waiting | TaskStage::Done | TaskStage::Unspecified => {
            Tone::Dim
        }
    }
}

fn workers(of: &State, width: usize) -> Section {
    let of_one = |it: &wire::Worker| {
        let claim = |it: &wire::ClaimedTask| {
            let task = line(it.task_id.trim_start_matches("task-"));
            let left = match it.lease_expires_ms {
                0 => "submitted".to_owned(),
                ms => left(ms, of.now_ms),
            };
            format!("{}/{task} {left}", short(&it.issue_id))
        };
        let claims: Vec<String> = it.claims.iter().map(claim).collect();
        let points: u64 = it.points.iter().map(|it| it.total_points).sum();
        let quiet = match it.quiet_ms {
            None => "not seen".to_owned(),
            Some(..SOON_MS) => String::new(),
            Some(ms) => format!("quiet {}", long(ms)),
        };
        let cells = vec![
            Cell::new(&it.worker, Tone::Bold, Left(14)),
            Cell::new(&it.node, Tone::Dim, Left(10)).may_go(3),
            Cell::new(claims.join(", "), Tone::Plain, Rest(14)),
            Cell::new(quiet, Tone::Yellow, Left(13)).may_go(1),
            Cell::new(format!("{points} pts"), Tone::Dim, Right(8)).may_go(2),
        ];
        row(cells, width)
    };
    let busy = of.workers.iter().filter(|it| !it.claims.is_empty()).count();
    // Who has something comes first.
    let idle = of.workers.iter().filter(|it| it.claims.is_empty());
    let rows =
        of.workers.iter().filter(|it| !it.claims.is_empty()).chain(idle).map(of_one).collect();
    let total = of.workers.len() as u64;
    Section { title: "WORKERS", note: format!("{busy} with a task"), rows, total }
}

fn locks(of: &State, width: usize) -> Section {
    let of_one = |it: &wire::Lock| {
        let files = it.files.clone().unwrap_or_default();
        let cells = vec![
            Cell::new(&it.holder, Tone::Bold, Left(14)),
            lease(it.expires_ms, of.now_ms).may_go(1),
            Cell::new(locked(&files), Tone::Plain, Rest(9)),
            Cell::new(files.repository, Tone::Dim, Left(24)).may_go(2),
        ];
        row(cells, width)
    };
    let rows = of.locks.iter().map(of_one).collect();
    Section { title: "LOCKS", note: String::new(), rows, total: of.locks_total }
}

fn deliveries(of: &State, width: usize) -> Section {
    let of_one = |it: &wire::Delivery| {
        let of_issue = format!("of {} by {}", short(&it.issue_id), line(&it.delivered_by));
        let cells = vec![
            Cell::new(short(&it.delivery_id), Tone::Bold, Left(6)),
            Cell::new(spaced(&delivery_status(it.status()), " "), Tone::Yellow, Left(10)),
            Cell::new(&it.claimed_by, Tone::Plain, Left(14)).may_go(1),
            lease(it.lease_expires_ms, of.now_ms).may_go(2),
            Cell::new(of_issue, Tone::Dim, Rest(12)),
        ];
        row(cells, width)
    };
    let rows = of.deliveries.iter().map(of_one).collect();
    let note = "without a verdict".to_owned();
    Section { title: "DELIVERIES", note, rows, total: of.deliveries_total }
}
