//! How a run is shown while it goes on: to people on standard error, to programs as JSON lines.
//!
//! On a terminal each step has a line, which is drawn again in its place. Elsewhere a line is
//! printed when the state of a step changes, and nothing is drawn again. Programs get one object
//! for each change on standard output.

use std::io::{self, IsTerminal as _, Write as _};

use crossterm::{
    cursor::MoveToPreviousLine,
    queue,
    terminal::{Clear, ClearType},
};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tasuki_proto::wire::{self, StepStatus};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{Failure, Output, labels};
use crate::{
    cli::text::{block, line, short},
    clock::{self, Moment},
    runs::convert,
};

/// The widest name of an agent or a node that is shown, in cells.
const NAME_CELLS_MAX: usize = 24;

/// Where nobody knows how large the terminal is.
const COLUMNS: usize = 80;
const ROWS: usize = 24;

/// What time it is at the broker.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct BrokerClock {
    now_ms: u64,
    at: Moment,
}

impl BrokerClock {
    /// `now_ms` is what the broker has just said.
    pub(in crate::cli) fn new(now_ms: u64) -> Self {
        Self { now_ms, at: clock::now() }
    }

    fn now_ms(&self) -> u64 {
        let since = clock::now().since(self.at).as_millis();
        self.now_ms.saturating_add(u64::try_from(since).unwrap_or(0))
    }
}

/// A run as it is shown.
#[derive(Debug)]
pub(super) struct Display {
    kind: Kind,
    clock: BrokerClock,
    /// As it was last told.
    run: wire::Run,
}

#[derive(Debug)]
enum Kind {
    Json,
    Lines,
    Terminal(Screen),
}

impl Display {
    /// `run` is what is known already.
    pub(super) fn new(run: &wire::Run, clock: BrokerClock, output: &Output) -> Self {
        let kind = match (output.is_json(), io::stderr().is_terminal()) {
            (true, _) => Kind::Json,
            (false, true) => Kind::Terminal(Screen::new()),
            (false, false) => Kind::Lines,
        };
        // Its steps are told with the first change.
        let run = wire::Run { run_id: run.run_id.clone(), ..Default::default() };
        Self { kind, clock, run }
    }

    /// Whether it is to be drawn again and again.
    pub(super) fn is_drawn(&self) -> bool {
        matches!(self.kind, Kind::Terminal(_))
    }

    /// Takes over how the run stands.
    pub(super) fn update(
        &mut self,
        update: &wire::WatchRunResponse,
        output: &mut Output,
    ) -> Result<(), Failure> {
        match &self.kind {
            Kind::Json => {
                for event in events(&self.run, update) {
                    output.answer(|| event, String::new)?;
                }
            }
            Kind::Lines => {
                if let Some(run) = &update.run {
                    changes(&self.run, run).iter().for_each(|change| output.note(change));
                }
            }
            Kind::Terminal(_) => {}
        }
        if let Some(run) = &update.run {
            self.run.clone_from(run);
        }
        Ok(())
    }

    /// Shows what a sub-agent asks or tells.
    pub(super) fn message(
        &mut self,
        message: &wire::RunMessage,
        output: &mut Output,
    ) -> Result<(), Failure> {
        if matches!(self.kind, Kind::Json) {
            let mut event = json!(message);
            event["event"] = "message".into();
            event["run_id"] = self.run.run_id.as_str().into();
            return output.answer(|| event, String::new);
        }
        for line in told(&self.run, message).lines() {
            self.note(line, output);
        }
        Ok(())
    }

    /// Tells people something that stays.
    pub(super) fn note(&mut self, note: &str, output: &mut Output) {
        match &mut self.kind {
            Kind::Json | Kind::Lines => output.note(note),
            Kind::Terminal(screen) => {
                screen.draw(Some(note), &frame(&self.run, self.clock.now_ms(), screen.size()));
            }
        }
    }

    /// Draws how it stands.
    pub(super) fn draw(&mut self) {
        if let Kind::Terminal(screen) = &mut self.kind {
            screen.draw(None, &frame(&self.run, self.clock.now_ms(), screen.size()));
        }
    }
}

/// What programs are told of a change.
fn events(before: &wire::Run, update: &wire::WatchRunResponse) -> Vec<Value> {
    let run_id = update.run.as_ref().map_or(&before.run_id, |run| &run.run_id);
    let mut events = Vec::new();
    let named = |name: &str, mut value: Value| {
        value["event"] = name.into();
        value["run_id"] = run_id.as_str().into();
        value
    };
    if let Some(run) = &update.run {
        let stands = |run: &wire::Run| (run.status, run.is_stopping);
        if before.steps.is_empty() || stands(before) != stands(run) {
            events.push(named("run", json!(run)));
        }
        let changed = run.steps.iter().filter(|step| find(before, step.step) != Some(*step));
        events.extend(changed.map(|step| named("step", json!(step))));
    }
    for it in &update.progress {
        let text = convert::plain(it.partial.as_ref());
        let value = json!({"step": it.step, "text": text, "at_ms": it.at_ms});
        events.push(named("partial", value));
    }
    events
}

fn find(run: &wire::Run, number: u32) -> Option<&wire::RunStep> {
    run.steps.iter().find(|step| step.step == number)
}

/// What people are told where nothing can be drawn: a line for each step whose state changed.
fn changes(before: &wire::Run, run: &wire::Run) -> Vec<String> {
    let is_news = |step: &&wire::RunStep| match find(before, step.step) {
        Some(before) => before.status != step.status,
        None => !matches!(step.status(), StepStatus::Waiting | StepStatus::Ready),
    };
    let changed = run.steps.iter().filter(is_news);
    let mut lines: Vec<String> = changed.map(|step| change(run, step)).collect();
    if run.is_stopping && !before.is_stopping {
        lines.push(format!("{} is being stopped", line(&run.run_id)));
    }
    lines
}

fn change(run: &wire::Run, step: &wire::RunStep) -> String {
    let mut out = format!("{}: {}", named(run, step), labels::step_status(step));
    if !step.node.is_empty() && !labels::is_step_over(step) {
        out += &format!(" on {}", line(&step.node));
    }
    let elapsed = labels::elapsed_ms(step, step.ended_ms).filter(|_| step.ended_ms != 0);
    let used = labels::used(elapsed, &step.usage.unwrap_or_default());
    if labels::is_step_over(step) && !used.is_empty() {
        out += &format!(", {used}");
    }
    out
}

/// A step's agent, with the step's number where there are several.
fn named(run: &wire::Run, step: &wire::RunStep) -> String {
    match run.steps.len() {
        0 | 1 => line(&step.agent),
        _ => format!("{} {}", step.step, line(&step.agent)),
    }
}

/// What a sub-agent asks or tells, and how to answer.
fn told(run: &wire::Run, message: &wire::RunMessage) -> String {
    let who = find(run, message.step)
        .map_or_else(|| format!("step {}", message.step), |step| named(run, step));
    let text = block(convert::plain(message.text.as_ref()));
    let (run_id, number) = (line(&run.run_id), message.number);
    if !message.is_question {
        return format!("{who} reports: {text}");
    }
    let asked = format!("{who} asks: {text}");
    match &message.reply {
        Some(reply) => format!("{asked}\nAnswered: {}", block(&reply.text)),
        None if message.is_over => format!("{asked}\nIt ended without an answer."),
        None => format!("{asked}\nAnswer with: tasuki runs reply {run_id} {number} \"TEXT\""),
    }
}

/// One line of what is drawn.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    mark: char,
    tone: Tone,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Idle,
    Active,
    Good,
    Bad,
}

/// All that is drawn of a run: a line for each step, as many as fit.
fn frame(run: &wire::Run, now_ms: u64, (columns, rows): (usize, usize)) -> Vec<Row> {
    let widest = |name: fn(&wire::RunStep) -> &str| {
        let widths = run.steps.iter().map(|step| short(name(step), NAME_CELLS_MAX).width());
        widths.max().unwrap_or(0)
    };
    let names = (widest(|it| it.agent.as_str()), widest(|it| it.node.as_str()));
    // The cursor stands below.
    let room = rows.saturating_sub(1).max(1);
    let mut shown: Vec<&wire::RunStep> = run.steps.iter().collect();
    let is_cut = room < shown.len();
    if is_cut {
        // What runs is what one looks for, then what comes next.
        shown.sort_by_key(|step| match tone(step) {
            Tone::Active => 0,
            Tone::Idle => 1,
            Tone::Bad => 2,
            Tone::Good => 3,
        });
        shown.truncate(room.saturating_sub(1));
        shown.sort_by_key(|step| step.step);
    }
    // A mark and a blank stand before it.
    let cells = columns.saturating_sub(2);
    let row = |step: &&wire::RunStep| Row {
        mark: mark(step),
        tone: tone(step),
        text: cut(&step_line(step, now_ms, names), cells),
    };
    let mut lines: Vec<Row> = shown.iter().map(row).collect();
    if is_cut {
        let count = |tone_of: Tone| run.steps.iter().filter(|it| tone(it) == tone_of).count();
        let (done, failed) = (count(Tone::Good), count(Tone::Bad));
        let (running, waiting) = (count(Tone::Active), count(Tone::Idle));
        let text = format!(
            "{} steps: {done} succeeded, {failed} failed, {running} running, {waiting} waiting",
            run.steps.len()
        );
        lines.push(Row { mark: ' ', tone: Tone::Idle, text: cut(&text, cells) });
    }
    lines
}

fn step_line(step: &wire::RunStep, now_ms: u64, (agents, nodes): (usize, usize)) -> String {
    let elapsed = labels::elapsed_ms(step, now_ms).map(labels::watch_time).unwrap_or_default();
    let usage = step.usage.unwrap_or_default();
    let last = match step.status() {
        StepStatus::Running => line(&step.last_tool),
        StepStatus::Unspecified
        | StepStatus::Waiting
        | StepStatus::Ready
        | StepStatus::Succeeded
        | StepStatus::Failed
        | StepStatus::Canceled
        | StepStatus::Lost => labels::step_status(step),
    };
    let text = format!(
        "{}  {}  {elapsed:>7}  {:>9}  {:>12}  {:>9}  {last}",
        filled(&step.agent, agents),
        filled(&step.node, nodes),
        labels::turns(&usage),
        labels::tokens(&usage),
        labels::cost(&usage),
    );
    text.trim_end().to_owned()
}

fn mark(step: &wire::RunStep) -> char {
    match tone(step) {
        Tone::Idle => '·',
        Tone::Active => '>',
        Tone::Good => '✓',
        Tone::Bad => '✗',
    }
}

fn tone(step: &wire::RunStep) -> Tone {
    match step.status() {
        StepStatus::Unspecified | StepStatus::Waiting | StepStatus::Ready => Tone::Idle,
        StepStatus::Running => Tone::Active,
        StepStatus::Succeeded => Tone::Good,
        StepStatus::Failed | StepStatus::Canceled | StepStatus::Lost => Tone::Bad,
    }
}

/// A name in a column.
fn filled(name: &str, cells: usize) -> String {
    let mut text = short(name, NAME_CELLS_MAX);
    let blanks = cells.saturating_sub(text.width());
    text.extend(std::iter::repeat_n(' ', blanks));
    text
}

/// A line that is safe already, cut to so many cells; blanks stay.
fn cut(text: &str, cells: usize) -> String {
    if text.width() <= cells {
        return text.to_owned();
    }
    let mut left = cells.saturating_sub(1);
    let fits = |c: &char| {
        let wide = c.width().unwrap_or(0);
        let fits = wide <= left;
        left = left.saturating_sub(wide);
        fits
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{}…", kept.trim_end())
}

/// Lines at the end of a terminal that are drawn again.
#[derive(Debug)]
struct Screen {
    has_colours: bool,
    /// Lines that stand there.
    drawn: u16,
}

impl Screen {
    fn new() -> Self {
        let has_colours = anstream::stderr().current_choice() != anstream::ColorChoice::Never;
        Self { has_colours, drawn: 0 }
    }

    /// Columns and rows.
    fn size(&self) -> (usize, usize) {
        let size = terminal_size::terminal_size_of(io::stderr());
        size.map_or((COLUMNS, ROWS), |(columns, rows)| (columns.0.into(), rows.0.into()))
    }

    /// Draws the lines in the place of those before, below a note that stays.
    fn draw(&mut self, note: Option<&str>, rows: &[Row]) {
        // Nobody is left to be told that nobody can be told.
        drop(self.try_draw(note, rows));
    }

    fn try_draw(&mut self, note: Option<&str>, rows: &[Row]) -> io::Result<()> {
        let mut err = io::stderr().lock();
        if 0 < self.drawn {
            queue!(err, MoveToPreviousLine(self.drawn))?;
        }
        queue!(err, Clear(ClearType::FromCursorDown))?;
        if let Some(note) = note {
            writeln!(err, "{}", line(note))?;
        }
        for row in rows {
            writeln!(err, "{}", self.painted(row))?;
        }
        self.drawn = u16::try_from(rows.len()).unwrap_or(u16::MAX);
        err.flush()
    }

    fn painted(&self, row: &Row) -> String {
        let Row { mark, tone, text } = row;
        match tone {
            _ if !self.has_colours => format!("{mark} {text}"),
            Tone::Idle => format!("{mark} {text}").dimmed().to_string(),
            Tone::Active => format!("{} {text}", mark.cyan()),
            Tone::Good => format!("{} {text}", mark.green()),
            Tone::Bad => format!("{} {text}", mark.red()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: u32, agent: &str, status: StepStatus) -> wire::RunStep {
        let started_ms = if status == StepStatus::Waiting { 0 } else { 1_000 };
        wire::RunStep {
            step: number,
            status: status.into(),
            agent: agent.to_owned(),
            node: if started_ms == 0 { String::new() } else { "desk-1".to_owned() },
            started_ms,
            ..Default::default()
        }
    }

    fn run(steps: Vec<wire::RunStep>) -> wire::Run {
        wire::Run { run_id: "run_1_00af".to_owned(), steps, ..Default::default() }
    }

    fn busy() -> wire::RunStep {
        wire::RunStep {
            last_tool: "read\u{1b}[31m file".to_owned(),
            usage: Some(wire::RunUsage {
                input_tokens: 1_200,
                turns: 3,
                cost_microusd: 12_300,
                ..Default::default()
            }),
            ..step(1, "scout", StepStatus::Running)
        }
    }

    #[test]
    fn each_step_has_a_line() {
        let run = run(vec![busy(), step(2, "planner", StepStatus::Waiting)]);
        let lines: Vec<String> = frame(&run, 13_000, (80, 24))
            .into_iter()
            .map(|row| format!("{} {}", row.mark, row.text))
            .collect();
        assert_eq!(
            lines,
            [
                "> scout    desk-1     0:12    3 turns   1.2k tokens    $0.0123  read file",
                "· planner                                                       waiting",
            ]
        );
        let narrow = frame(&run, 13_000, (30, 24));
        assert!(narrow.iter().all(|row| row.text.width() <= 28), "{narrow:?}");
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut steps: Vec<_> =
            (1..=9).map(|number| step(number, "scout", StepStatus::Succeeded)).collect();
        steps.push(step(10, "scout", StepStatus::Running));
        let lines = frame(&run(steps), 2_000, (80, 5));
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines.iter().any(|row| row.tone == Tone::Active), "{lines:?}");
        assert_eq!(
            lines.last().unwrap().text,
            "10 steps: 9 succeeded, 0 failed, 1 running, 0 waiting"
        );
    }

    #[test]
    fn without_a_terminal_changes_of_state_are_told() {
        let before = run(vec![busy(), step(2, "planner", StepStatus::Waiting)]);
        assert_eq!(changes(&wire::Run::default(), &before), ["1 scout: running on desk-1"]);
        assert_eq!(changes(&before, &before), Vec::<String>::new());
        let mut after = before.clone();
        after.steps[0].set_status(StepStatus::Succeeded);
        after.steps[0].ended_ms = 13_000;
        after.is_stopping = true;
        assert_eq!(
            changes(&before, &after),
            [
                "1 scout: succeeded, 0:12, 3 turns, 1.2k tokens, $0.0123",
                "run_1_00af is being stopped"
            ]
        );
        let alone = run(vec![step(1, "scout", StepStatus::Running)]);
        assert_eq!(changes(&wire::Run::default(), &alone), ["scout: running on desk-1"]);
    }

    #[test]
    fn programs_get_an_object_for_each_change() {
        let told = |before: &wire::Run, run: &wire::Run, text: Option<&str>| -> Vec<String> {
            let progress = text.map(|text| wire::StepProgress {
                step: 1,
                partial: Some(convert::text(text)),
                at_ms: 5,
            });
            let progress = progress.into_iter().collect();
            let update = wire::WatchRunResponse { run: Some(run.clone()), progress };
            let events = events(before, &update);
            let shown = |it: &Value| format!("{} {}", it["event"], it["step"]);
            assert!(events.iter().all(|it| it["run_id"] == "run_1_00af"), "{events:?}");
            events.iter().map(shown).collect()
        };
        let first = run(vec![busy(), step(2, "planner", StepStatus::Waiting)]);
        let all = ["\"run\" null", "\"step\" 1", "\"step\" 2"];
        assert_eq!(told(&wire::Run::default(), &first, None), all);
        assert_eq!(told(&first, &first, Some("so far")), ["\"partial\" 1"]);
        let mut second = first.clone();
        second.steps[1].set_status(StepStatus::Running);
        assert_eq!(told(&first, &second, None), ["\"step\" 2"]);
        second.is_stopping = true;
        assert_eq!(told(&first, &second, None), ["\"run\" null", "\"step\" 2"]);
    }

    #[test]
    fn a_question_says_how_to_answer_it() {
        let run = run(vec![step(1, "scout", StepStatus::Running)]);
        let question = wire::RunMessage {
            number: 2,
            step: 1,
            is_question: true,
            text: Some(convert::text("Which \u{1b}[31mone?")),
            ..Default::default()
        };
        assert_eq!(
            told(&run, &question),
            "scout asks: Which one?\nAnswer with: tasuki runs reply run_1_00af 2 \"TEXT\""
        );
        let report = wire::RunMessage { is_question: false, ..question.clone() };
        assert_eq!(told(&run, &report), "scout reports: Which one?");
        let over = wire::RunMessage { is_over: true, ..question };
        assert!(told(&run, &over).ends_with("\nIt ended without an answer."));
    }

    #[test]
    fn lines_are_cut_where_the_terminal_ends() {
        assert_eq!(cut("a  b  c", 7), "a  b  c");
        assert_eq!(cut("a  b  c", 6), "a  b…");
        assert_eq!(cut("日本語", 5), "日本…");
    }
}
