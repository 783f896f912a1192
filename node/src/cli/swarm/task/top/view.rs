//! A frame as widgets, made of what is shown and of how large the screen is; nothing else.
//!
//! **Invariant:** what does not fit is cut with `…` or counted.

use ratatui::{
    backend::IntoCrossterm as _,
    buffer::{self, Buffer},
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize as _},
    text::{Line, Span},
    widgets::{Row, Table, Widget},
};
use tasuki_proto::wire::{self, TaskStage, TaskStatus};

use super::{
    super::super::{
        labels::{count, delivery_status, issue_status, left, task_stage_text, tasks_of},
        rows::{locked, who},
    },
    state::State,
};
use crate::cli::{
    labels::{long, spaced},
    text::{line, short, time},
    titles::{id_tail, task_name},
};

/// From this width on there are two columns, in cells.
const TWO_COLUMNS: u16 = 140;

/// From this height on sections stand apart, in lines.
const APART: u16 = 31;

/// A lease that ends sooner stands out, and a worker that is quiet for longer; in milliseconds.
const SOON_MS: u64 = 60_000;

/// Between two columns of sections, in cells.
const GUTTER: u16 = 3;

/// Before each cell of a row, in cells of the screen.
const GAP: u16 = 2;

/// Of the longest stage of a task, "waiting for an answer".
const STAGE_WIDTH: u16 = 21;

/// The highest number of a cell that may go.
const MAY_GO_MAX: u8 = 3;

/// One cell of a row; all rows of a section have the same ones.
struct Cell {
    text: String,
    style: Style,
    width: u16,
    is_right: bool,
    /// Whether it gets what the others leave beyond its width.
    grows: bool,
    /// Whether it is cut first where there is no room.
    shrinks: bool,
    /// Where the screen is narrow, the highest number goes first; 0: it stays.
    may_go: u8,
}

impl Cell {
    fn new(text: impl Into<String>, style: impl Into<Style>, width: u16) -> Self {
        let (text, style) = (text.into(), style.into());
        Self { text, style, width, is_right: false, grows: false, shrinks: false, may_go: 0 }
    }

    fn right(self) -> Self {
        Self { is_right: true, ..self }
    }

    fn grows(self) -> Self {
        Self { grows: true, ..self }
    }

    fn shrinks(self) -> Self {
        Self { shrinks: true, ..self }
    }

    fn may_go(self, may_go: u8) -> Self {
        Self { may_go, ..self }
    }

    fn constraint(&self) -> Constraint {
        match (self.grows, self.shrinks) {
            (true, _) => Constraint::Min(self.width),
            (false, true) => Constraint::Max(self.width),
            (false, false) => Constraint::Length(self.width),
        }
    }

    fn fitted(&self, width: u16) -> Line<'static> {
        let alignment = if self.is_right { Alignment::Right } else { Alignment::Left };
        let text = Span::styled(short(&self.text, width.into()), self.style);
        Line::from(text).alignment(alignment)
    }
}

/// A part of the frame.
struct Section {
    title: &'static str,
    /// Beside the title.
    note: String,
    rows: Vec<Vec<Cell>>,
    /// How many there are in all.
    total: u64,
}

/// What stands below a frame that is up to date.
pub(super) const FOOT: &str = "connected · ↑↓ scroll · q quit";

/// Draws the frame for somebody who watches, scrolled by so many rows where there are more than fit.
/// Returns by how many it could be scrolled.
pub(super) fn view(
    state: &State,
    now_ms: u64,
    scroll: usize,
    area: Rect,
    buffer: &mut Buffer,
) -> usize {
    let [frame, foot] = Layout::vertical([Constraint::Min(1), Constraint::Max(1)]).areas(area);
    let hidden = draw_frame(state, now_ms, scroll, frame, buffer);
    let line = match state.trouble.as_str() {
        "" => FOOT.dim(),
        trouble => line(trouble).red(),
    };
    line.render(foot, buffer);
    hidden
}

/// Draws the same without what is said to whoever watches.
pub(super) fn draw_frame(
    state: &State,
    now_ms: u64,
    scroll: usize,
    area: Rect,
    buffer: &mut Buffer,
) -> usize {
    let [head, rest] = Layout::vertical([Constraint::Max(1), Constraint::Fill(1)]).areas(area);
    view_head(state, now_ms, head, buffer);
    let gap = u16::from(APART <= area.height);
    let work = vec![issues(state), tasks(state, now_ms)];
    let others = vec![workers(state, now_ms), locks(state, now_ms), deliveries(state, now_ms)];
    if area.width < TWO_COLUMNS {
        view_column(work.into_iter().chain(others).collect(), gap, scroll, rest, buffer)
    } else {
        let columns = Layout::horizontal([Constraint::Fill(11), Constraint::Fill(9)]);
        let [first, second] = columns.spacing(GUTTER).areas(rest);
        let hidden = view_column(work, gap, scroll, first, buffer);
        view_column(others, gap, scroll, second, buffer).max(hidden)
    }
}

fn view_head(state: &State, now_ms: u64, area: Rect, buffer: &mut Buffer) {
    let title = Span::from(format!("tasuki task top · {}", line(&state.workspace)));
    let (at, width) = (time(now_ms), usize::from(area.width));
    let has_day = title.width() + 1 + at.len() <= width;
    let at = if has_day { &at } else { at.split(' ').next_back().unwrap_or_default() };
    let room = width.saturating_sub(at.len() + 1);
    short(&title.content, room).bold().render(area, buffer);
    Line::from(at.dim()).right_aligned().render(area, buffer);
}

/// Draws sections below each other, which share the room. Returns how many rows of the section that
/// is cut most are not shown.
fn view_column(
    sections: Vec<Section>,
    gap: u16,
    scroll: usize,
    mut area: Rect,
    buffer: &mut Buffer,
) -> usize {
    let titles = u16::try_from(sections.len()).unwrap_or(u16::MAX) * (1 + gap);
    // One line each in turn, until nothing is left or no section wants more.
    let mut given = vec![0_u16; sections.len()];
    for _ in titles..area.height {
        let wanting =
            (0..given.len()).filter(|at| usize::from(given[*at]) < sections[*at].wanted());
        if let Some(next) = wanting.min_by_key(|at| given[*at]) {
            given[next] += 1;
        }
    }
    let mut hidden = 0;
    for (section, lines) in sections.into_iter().zip(given) {
        let parts = [Constraint::Length(gap), Constraint::Length(1 + lines), Constraint::Fill(1)];
        let [_, own, below] = Layout::vertical(parts).areas(area);
        hidden = section.view(scroll, own, buffer).max(hidden);
        area = below;
    }
    hidden
}

impl Section {
    /// Whether more were counted than are here.
    fn is_partial(&self) -> bool {
        (self.rows.len() as u64) < self.total
    }

    /// How many lines it would fill.
    fn wanted(&self) -> usize {
        self.rows.len() + usize::from(self.is_partial())
    }

    /// Draws it, and returns how many of its rows there is no room for.
    fn view(self, scroll: usize, area: Rect, buffer: &mut Buffer) -> usize {
        let [head, rows] = Layout::vertical([Constraint::Max(1), Constraint::Fill(1)]).areas(area);
        self.title(head.width).render(head, buffer);
        // The last line says how many are not here.
        let is_cut = self.is_partial() || usize::from(rows.height) < self.rows.len();
        let parts = [Constraint::Fill(1), Constraint::Max(is_cut.into())];
        let [rows, more] = Layout::vertical(parts).areas(rows);
        let hidden = self.rows.len().saturating_sub(rows.height.into());
        let above = scroll.min(hidden);
        let missing = self.total.saturating_sub(above as u64 + u64::from(rows.height));
        let text = match above {
            0 => format!("  … and {missing} more"),
            above if missing == 0 => format!("  … {above} above"),
            above => format!("  … {above} above, {missing} more"),
        };
        text.dim().render(more, buffer);
        view_rows(self.rows.into_iter().skip(above).collect(), rows, buffer);
        hidden
    }

    fn title(&self, width: u16) -> Line<'static> {
        let mut title = Line::from(self.title.bold());
        if self.total != 0 {
            title.push_span(format!(" {}", self.total));
        }
        let note = if self.total == 0 { "none" } else { &self.note };
        if !note.is_empty() {
            let room = usize::from(width).saturating_sub(title.width() + usize::from(GAP));
            title.push_span(format!("  {}", short(note, room)).dim());
        }
        title
    }
}

/// Draws a table; where there is no room for all columns, those that may go are left out.
fn view_rows(rows: Vec<Vec<Cell>>, area: Rect, buffer: &mut Buffer) {
    let Some(first) = rows.first() else { return };
    let needed = |staying: u8| -> u16 {
        first.iter().filter(|cell| cell.may_go <= staying).map(|cell| GAP + cell.width).sum()
    };
    let staying = (0..=MAY_GO_MAX).rev().find(|it| needed(*it) <= area.width).unwrap_or(0);
    let stays = |cell: &&Cell| cell.may_go <= staying;
    let [_, area] = Layout::horizontal([Constraint::Max(GAP), Constraint::Fill(1)]).areas(area);
    let constraints = first.iter().filter(stays).map(Cell::constraint);
    let columns = Layout::horizontal(constraints).spacing(GAP).split(area);
    let fitted = |row: &Vec<Cell>| {
        let cells = row.iter().filter(stays).zip(columns.iter());
        Row::new(cells.map(|(cell, column)| cell.fitted(column.width)).collect::<Vec<_>>())
    };
    let widths = columns.iter().map(|column| column.width);
    let table = Table::new(rows.iter().map(fitted), widths).column_spacing(GAP);
    Widget::render(table, area, buffer);
}

/// A frame as lines to print, with its colours.
pub(super) fn ansi(frame: &Buffer) -> String {
    // From what no cell is all differ, but those that a wide letter covers.
    let mut nothing = Buffer::empty(frame.area);
    nothing.set_style(frame.area, Modifier::HIDDEN);
    let cells = nothing.diff(frame);
    let style = |cell: &buffer::Cell| {
        let fg = Some(cell.fg).filter(|colour| *colour != Color::Reset);
        Style { fg, ..cell.modifier.into() }
    };
    let mut lines = vec![String::new(); frame.area.height.into()];
    for run in cells.chunk_by(|a, b| (a.1, style(a.2)) == (b.1, style(b.2))) {
        let text: String = run.iter().map(|(.., cell)| cell.symbol()).collect();
        let (_, row, cell) = run[0];
        lines[usize::from(row)] += &style(cell).into_crossterm().apply(text).to_string();
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// What is left of a lease, more loudly the less it is.
fn lease(until_ms: u64, now_ms: u64) -> Cell {
    let style = match until_ms.saturating_sub(now_ms) {
        0 => Color::Red.into(),
        1..SOON_MS => Color::Yellow.into(),
        _ => Style::new(),
    };
    let text = if until_ms == 0 { String::new() } else { left(until_ms, now_ms) };
    Cell::new(text, style, 7).right()
}

fn issues(state: &State) -> Section {
    let row = |issue: &wire::Issue| {
        let done = format!("{}/{} done", count(issue, TaskStatus::Done), tasks_of(issue));
        let busy =
            count(issue, TaskStatus::InProgress) + count(issue, TaskStatus::WaitingForAnswer);
        let busy = if busy == 0 { String::new() } else { format!("{busy} busy") };
        vec![
            Cell::new(id_tail(&issue.issue_id), Modifier::BOLD, 6),
            Cell::new(done, Style::new(), 12).right().may_go(1),
            Cell::new(busy, Color::Green, 8).may_go(3),
            Cell::new(&issue.subject, Style::new(), 12).grows(),
            Cell::new(&issue.lead, Modifier::DIM, 12).may_go(2),
        ]
    };
    let closed = |issue: &wire::Issue| {
        let status = spaced(&issue_status(issue.status()), " ");
        let mut row = row(issue);
        for cell in &mut row {
            cell.style = Modifier::DIM.into();
        }
        if let Some(busy) = row.get_mut(2) {
            busy.text = status;
        }
        row
    };
    let rows = state.issues.iter().map(row).chain(state.closed.iter().map(closed)).collect();
    let (open, ended) = (state.issues_total, state.closed.len() as u64);
    let note =
        if ended == 0 { "open".to_owned() } else { format!("{open} open · {ended} closed") };
    Section { title: "ISSUES", note, rows, total: open + ended }
}

fn tasks(state: &State, now_ms: u64) -> Section {
    let row = |task: &wire::Task| {
        let ((who, until_ms), stage) = (who(task), task.stage());
        vec![
            Cell::new(task_name(&task.issue_id, &task.task_id), Modifier::BOLD, 9),
            Cell::new(task_stage_text(stage), stage_style(stage), STAGE_WIDTH).shrinks(),
            Cell::new(who, Style::new(), 14).may_go(1),
            lease(until_ms, now_ms).may_go(2),
            Cell::new(&task.subject, Style::new(), 10).grows(),
        ]
    };
    let all = |status| state.issues.iter().map(|issue| count(issue, status)).sum::<u64>();
    let note = format!(
        "{} in progress · {} waiting for an answer · {} open · {} done",
        all(TaskStatus::InProgress),
        all(TaskStatus::WaitingForAnswer),
        all(TaskStatus::Open),
        all(TaskStatus::Done)
    );
    let rows = state.tasks.iter().map(row).collect();
    Section { title: "TASKS", note, rows, total: state.tasks_total }
}

fn stage_style(stage: TaskStage) -> Style {
    match stage {
        TaskStage::WaitingForAnswer | TaskStage::Submitted | TaskStage::InReview => {
            Color::Yellow.into()
        }
        TaskStage::Working => Color::Green.into(),
        TaskStage::Ready => Color::Cyan.into(),
        TaskStage::Canceled => Color::Red.into(),
        TaskStage::Reserved | TaskStage::Blocked | TaskStage::Done | TaskStage::Unspecified => {
            Modifier::DIM.into()
        }
    }
}

fn workers(state: &State, now_ms: u64) -> Section {
    let row = |worker: &wire::Worker| {
        let claim = |claim: &wire::ClaimedTask| {
            let left = match claim.lease_expires_ms {
                0 => "submitted".to_owned(),
                ms => left(ms, now_ms),
            };
            format!("{} {left}", task_name(&claim.issue_id, &claim.task_id))
        };
        let claims: Vec<String> = worker.claims.iter().map(claim).collect();
        let points: u64 = worker.points.iter().map(|points| points.total_points).sum();
        let quiet = match worker.quiet_ms {
            None => "not seen".to_owned(),
            Some(..SOON_MS) => String::new(),
            Some(ms) => format!("quiet {}", long(ms)),
        };
        vec![
            Cell::new(&worker.worker, Modifier::BOLD, 14),
            Cell::new(&worker.node, Modifier::DIM, 10).may_go(3),
            Cell::new(claims.join(", "), Style::new(), 14).grows(),
            Cell::new(quiet, Color::Yellow, 13).may_go(1),
            Cell::new(format!("{points} pts"), Modifier::DIM, 8).right().may_go(2),
        ]
    };
    // Who has something comes first.
    let (busy, idle): (Vec<_>, Vec<_>) =
        state.workers.iter().partition(|worker| !worker.claims.is_empty());
    let note = format!("{} with a task", busy.len());
    let rows = busy.into_iter().chain(idle).map(row).collect();
    Section { title: "WORKERS", note, rows, total: state.workers.len() as u64 }
}

fn locks(state: &State, now_ms: u64) -> Section {
    let row = |lock: &wire::Lock| {
        let files = lock.files.clone().unwrap_or_default();
        vec![
            Cell::new(&lock.holder, Modifier::BOLD, 14),
            lease(lock.expires_ms, now_ms).may_go(1),
            Cell::new(locked(&files), Style::new(), 9).grows(),
            Cell::new(files.repository, Modifier::DIM, 24).may_go(2),
        ]
    };
    let rows = state.locks.iter().map(row).collect();
    Section { title: "LOCKS", note: String::new(), rows, total: state.locks_total }
}

fn deliveries(state: &State, now_ms: u64) -> Section {
    let row = |delivery: &wire::Delivery| {
        let origin = format!("of {} by {}", id_tail(&delivery.issue_id), delivery.delivered_by);
        vec![
            Cell::new(id_tail(&delivery.delivery_id), Modifier::BOLD, 6),
            Cell::new(spaced(&delivery_status(delivery.status()), " "), Color::Yellow, 10),
            Cell::new(&delivery.claimed_by, Style::new(), 14).may_go(1),
            lease(delivery.lease_expires_ms, now_ms).may_go(2),
            Cell::new(origin, Modifier::DIM, 12).grows(),
        ]
    };
    let rows = state.deliveries.iter().map(row).collect();
    let note = "without a verdict".to_owned();
    Section { title: "DELIVERIES", note, rows, total: state.deliveries_total }
}
