//! How a run is shown while it goes on: to people on standard error, to programs as JSON lines.
//!
//! On a terminal each step has a line, which is drawn again in its place. Elsewhere a line is
//! printed when the state of a step changes, or when no node takes one, and nothing is drawn again.
//! Programs get one object for each change on standard output.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _, Write as _},
};

use crossterm::{
    cursor::MoveToPreviousLine,
    queue,
    terminal::{Clear, ClearType},
};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tasuki_proto::wire::{self, StepStatus};
use unicode_width::UnicodeWidthStr as _;

use super::{Failure, Output, labels};
use crate::{
    cli::text::{cut, line, padded, short},
    clock::{self, Moment},
    runs::{
        convert,
        view::{RunView, step_awaits},
    },
};

/// The widest name of an agent or a node that is shown, in cells.
const NAME_CELLS_MAX: usize = 24;

/// What is shown of a question or a report, in cells: some ten lines. `tasuki runs show` has all.
const MESSAGE_CELLS_MAX: usize = 1000;

/// Before people are told that no node has taken a step, in milliseconds: most are taken at once.
const UNTAKEN_MS: u64 = 2_000;

/// Columns and rows where nobody knows how many a terminal has.
const SIZE: (usize, usize) = (80, 24);

/// A run as it is shown.
#[derive(Debug)]
pub(in crate::cli) struct Display {
    /// Lines that stand at the end of a terminal; `None`: nothing is drawn.
    drawn: Option<u16>,
    /// As it was last told.
    run: wire::Run,
    /// What time it was at the broker, and when that was.
    now_ms: u64,
    at: Moment,
    untaken: Untaken,
}

impl Display {
    /// `now_ms` is what the broker has just said.
    pub(in crate::cli) fn new(run_id: String, now_ms: u64, output: &Output) -> Self {
        // A dumb terminal has no cursor to move.
        let is_dumb = || std::env::var_os("TERM").is_some_and(|it| it == "dumb");
        let is_drawn = !output.is_json() && io::stderr().is_terminal() && !is_dumb();
        // Its steps are told with the first change.
        let run = wire::Run { run_id, ..Default::default() };
        let drawn = is_drawn.then_some(0);
        Self { drawn, run, now_ms, at: clock::now(), untaken: Untaken::default() }
    }

    pub(super) fn run_id(&self) -> &str {
        &self.run.run_id
    }

    /// Takes over how the run stands, and shows what its sub-agents asked and reported.
    pub(super) fn update(
        &mut self,
        update: &wire::WatchRunResponse,
        messages: &[wire::RunMessage],
        output: &mut Output,
    ) -> Result<(), Failure> {
        let run = update.run.clone().unwrap_or_else(|| self.run.clone());
        let before = std::mem::replace(&mut self.run, run);
        if output.is_json() {
            let mut events = events(&before, update, messages).into_iter();
            return events.try_for_each(|event| output.answer(|| event, String::new));
        }
        let mut notes = match self.drawn {
            None => changes(&before, &self.run, self.broker_ms()),
            Some(_) => Vec::new(),
        };
        if self.run.is_stopping && !before.is_stopping {
            notes.push(format!("{} is being stopped.", line(&self.run.run_id)));
        }
        notes.extend(messages.iter().flat_map(|it| told(&self.run, it)));
        notes.iter().for_each(|note| self.note(note, output));
        Ok(())
    }

    /// Tells people something that stays.
    pub(super) fn note(&mut self, note: &str, output: &mut Output) {
        match self.drawn {
            Some(drawn) => drop(self.draw_below(drawn, Some(note))),
            None => output.note(note),
        }
    }

    /// Time has passed. A terminal is drawn on again, and elsewhere it is told what no node takes.
    pub(super) fn tick(&mut self, output: &mut Output) {
        self.draw();
        if self.drawn.is_none() && !output.is_json() {
            let news = self.untaken.news(&self.run, self.broker_ms());
            news.iter().for_each(|note| output.note(note));
        }
    }

    /// Draws how it stands.
    pub(super) fn draw(&mut self) {
        if let Some(drawn) = self.drawn {
            // Nobody is left to be told that nobody can be told.
            drop(self.draw_below(drawn, None));
        }
    }

    /// Draws the lines in the place of those before, below a note that stays.
    fn draw_below(&mut self, drawn: u16, note: Option<&str>) -> io::Result<()> {
        let size = terminal_size::terminal_size_of(io::stderr());
        let size = size.map_or(SIZE, |(columns, rows)| (columns.0.into(), rows.0.into()));
        let rows = frame(&self.run, self.broker_ms(), size);
        let has_colours = anstream::stderr().current_choice() != anstream::ColorChoice::Never;
        self.drawn = Some(u16::try_from(rows.len()).unwrap_or(u16::MAX));
        let mut err = io::stderr().lock();
        if 0 < drawn {
            queue!(err, MoveToPreviousLine(drawn))?;
        }
        queue!(err, Clear(ClearType::FromCursorDown))?;
        if let Some(note) = note {
            writeln!(err, "{}", line(note))?;
        }
        for row in &rows {
            writeln!(err, "{}", painted(row, has_colours))?;
        }
        err.flush()
    }

    /// What time it is at the broker.
    fn broker_ms(&self) -> u64 {
        let since = clock::now().since(self.at).as_millis();
        self.now_ms.saturating_add(u64::try_from(since).unwrap_or(0))
    }
}

/// Steps that no node has taken: since when that is known, in milliseconds of the broker's clock;
/// `None`: people were told.
#[derive(Debug, Default)]
struct Untaken(BTreeMap<u32, Option<u64>>);

impl Untaken {
    /// What people are told of them, each once.
    fn news(&mut self, run: &wire::Run, now_ms: u64) -> Vec<String> {
        let mut news = Vec::new();
        for step in &run.steps {
            let Some(node) = step_awaits(run, step) else {
                self.0.remove(&step.step);
                continue;
            };
            let since = self.0.entry(step.step).or_insert(Some(now_ms));
            if since.is_some_and(|since| since.saturating_add(UNTAKEN_MS) <= now_ms) {
                *since = None;
                news.push(format!("{} is waiting for {}.", named(run, step), line(&node)));
            }
        }
        news
    }
}

/// What programs are told of a change.
fn events(
    before: &wire::Run,
    update: &wire::WatchRunResponse,
    messages: &[wire::RunMessage],
) -> Vec<Value> {
    let mut events = Vec::new();
    let mut add = |name: &str, mut value: Value| {
        value["event"] = name.into();
        value["run_id"] = before.run_id.as_str().into();
        events.push(value);
    };
    if let Some(run) = &update.run {
        let stands = |run: &wire::Run| (run.status, run.is_stopping);
        if before.steps.is_empty() || stands(before) != stands(run) {
            add("run", json!(run));
        }
        let changed = run.steps.iter().filter(|step| find(before, step.step) != Some(*step));
        changed.for_each(|step| add("step", json!(step)));
    }
    update.progress.iter().for_each(|it| add("partial", json!(it)));
    messages.iter().for_each(|it| add("message", json!(it)));
    events
}

fn find(run: &wire::Run, number: u32) -> Option<&wire::RunStep> {
    run.steps.iter().find(|step| step.step == number)
}

/// What people are told where nothing can be drawn: the line of each step whose state changed.
fn changes(before: &wire::Run, run: &wire::Run, now_ms: u64) -> Vec<String> {
    let is_news = |step: &wire::RunStep| match find(before, step.step) {
        // Most are taken at once; of those that are not people are told apart.
        Some(before) => before.status != step.status && step.status() != StepStatus::Ready,
        None => step.started_ms != 0 || step.ended_ms != 0,
    };
    let rows = run.steps.iter().zip(frame(run, now_ms, (usize::MAX, usize::MAX)));
    rows.filter(|(step, _)| is_news(step)).map(|(_, row)| painted(&row, false)).collect()
}

/// A step's agent, with the step's number where there are several.
fn named(run: &wire::Run, step: &wire::RunStep) -> String {
    match run.steps.len() {
        0 | 1 => line(&step.agent),
        _ => format!("{} {}", step.step, line(&step.agent)),
    }
}

/// What a sub-agent asks or tells, and how to answer. Its words are in one line with its name, so
/// that none of them passes for a line of this program.
fn told(run: &wire::Run, message: &wire::RunMessage) -> Vec<String> {
    let who = find(run, message.step)
        .map_or_else(|| format!("step {}", message.step), |step| named(run, step));
    let words = |it: Option<&wire::RunText>| short(convert::plain(it), MESSAGE_CELLS_MAX);
    let text = words(message.text.as_ref());
    if !message.is_question {
        let reported = format!("{who} reports: {text}");
        let Some(file) = &message.file else { return vec![reported] };
        let file = labels::file(&run.run_id, message.number, file);
        let handed = format!("{who} hands over {file}");
        return if text.is_empty() { vec![handed] } else { vec![reported, handed] };
    }
    let then = match &message.reply {
        Some(reply) => format!("Answered: {}", words(Some(reply))),
        None if message.is_over => "It ended without an answer.".to_owned(),
        None => {
            let (run_id, number) = (line(&run.run_id), message.number);
            format!("Answer with: tasuki runs reply {run_id} {number} \"TEXT\"")
        }
    };
    vec![format!("{who} asks: {text}"), then]
}

/// How a step stands: those that one looks for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tone {
    Active,
    Idle,
    Bad,
    Good,
}

/// All that is drawn of a run: a line for each step, as many as fit.
fn frame(run: &wire::Run, now_ms: u64, (columns, rows): (usize, usize)) -> Vec<(Tone, String)> {
    let names = |step: &wire::RunStep| {
        [named(run, step), step.node.clone()].map(|name| short(&name, NAME_CELLS_MAX))
    };
    let widths = run.steps.iter().map(|step| names(step).map(|name| name.width()));
    let widths =
        widths.fold([0_usize; 2], |[one, other], [name, node]| [one.max(name), other.max(node)]);
    // The cursor stands below.
    let room = rows.saturating_sub(1).max(1);
    let mut shown: Vec<&wire::RunStep> = run.steps.iter().collect();
    let is_cut = room < shown.len();
    if is_cut {
        shown.sort_by_key(|step| tone(step));
        shown.truncate(room.saturating_sub(1));
        shown.sort_by_key(|step| step.step);
    }
    let row = |step: &wire::RunStep| {
        let [name, node] = names(step);
        let columns = [padded(name, widths[0]), padded(node, widths[1])].join("  ");
        (tone(step), format!("{columns}  {}", step_line(run, step, now_ms)))
    };
    let whole = || RunView { run: run.clone(), steps: Vec::new() };
    let rest = is_cut.then(|| (Tone::Idle, line(&whole().progress())));
    // A mark and a blank stand before it, and nothing in the last column: some terminals would wrap.
    let cells = columns.saturating_sub(3);
    let lines = shown.into_iter().map(row).chain(rest);
    lines.map(|(tone, text)| (tone, cut(text.trim_end(), cells))).collect()
}

/// How far a step is, in columns.
fn step_line(run: &wire::Run, step: &wire::RunStep, now_ms: u64) -> String {
    let elapsed = labels::elapsed(step, now_ms).unwrap_or_default();
    let [turns, tokens, cost] = labels::usage(step.usage).map(Option::unwrap_or_default);
    let last = match step.last_tool.as_str() {
        tool if step.ended_ms == 0 && !tool.is_empty() => line(tool),
        _ => step_awaits(run, step).map_or_else(
            || labels::step_status(step),
            |node| format!("waiting for {}", line(&node)),
        ),
    };
    format!("{elapsed:>7}  {turns:>9}  {tokens:>13}  {cost:>9}  {last}")
}

fn tone(step: &wire::RunStep) -> Tone {
    match step.status() {
        StepStatus::Unspecified | StepStatus::Waiting | StepStatus::Ready => Tone::Idle,
        StepStatus::Running => Tone::Active,
        StepStatus::Succeeded => Tone::Good,
        StepStatus::Failed | StepStatus::Canceled | StepStatus::Lost => Tone::Bad,
    }
}

fn painted((tone, text): &(Tone, String), has_colours: bool) -> String {
    let shown = match tone {
        Tone::Active => format!("{} {text}", ">".cyan()),
        Tone::Idle => format!("· {text}").dimmed().to_string(),
        Tone::Bad => format!("{} {text}", "✗".red()),
        Tone::Good => format!("{} {text}", "✓".green()),
    };
    if has_colours { shown } else { anstream::adapter::strip_str(&shown).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: u32, agent: &str, status: StepStatus) -> wire::RunStep {
        let started_ms = if status == StepStatus::Waiting { 0 } else { 1_000 };
        let ended_ms = if status == StepStatus::Succeeded { 13_000 } else { 0 };
        wire::RunStep {
            step: number,
            status: status.into(),
            agent: agent.to_owned(),
            node: if started_ms == 0 { String::new() } else { "desk-1".to_owned() },
            started_ms,
            ended_ms,
            ..Default::default()
        }
    }

    fn run(steps: Vec<wire::RunStep>) -> wire::Run {
        wire::Run { run_id: "run_1_00af".to_owned(), steps, ..Default::default() }
    }

    fn busy(status: StepStatus) -> wire::RunStep {
        wire::RunStep {
            last_tool: "read\u{1b}[31m file".to_owned(),
            usage: Some(wire::RunUsage {
                input_tokens: 1_200,
                turns: 3,
                cost_microusd: 12_300,
                ..Default::default()
            }),
            ..step(1, "scout", status)
        }
    }

    fn planned() -> wire::RunStep {
        step(2, "planner", StepStatus::Waiting)
    }

    #[test]
    fn each_step_has_a_line_and_what_does_not_fit_is_counted() {
        let lines = |run: &wire::Run, size| -> Vec<String> {
            frame(run, 13_000, size).iter().map(|row| painted(row, false)).collect()
        };
        let mut run = run(vec![busy(StepStatus::Running), planned()]);
        let shown = [
            "> 1 scout    desk-1      12s    3 turns    1.2k tokens    $0.0123  read file",
            "· 2 planner                                                        waiting",
        ];
        assert_eq!(lines(&run, (80, 24)), shown);
        assert!(lines(&run, (30, 24)).iter().all(|it| it.width() < 30));
        let done = |number| step(number, "scout", StepStatus::Succeeded);
        run.steps.extend((3..=9).map(done));
        let cut = lines(&run, (80, 5));
        assert_eq!((cut.len(), &cut[..2]), (4, &shown.map(str::to_owned)[..]));
        assert_eq!(cut[3], "· Parallel: 7/9 done, 1 running, 1 pending...");
    }

    #[test]
    fn without_a_terminal_changes_of_state_are_told() {
        let told = |before: &wire::Run, run: &wire::Run| -> Vec<String> {
            changes(before, run, 13_000).iter().map(|it| line(it)).collect()
        };
        let before = run(vec![busy(StepStatus::Running), planned()]);
        let used = "1 scout desk-1 12s 3 turns 1.2k tokens $0.0123";
        assert_eq!(told(&run(Vec::new()), &before), [format!("> {used} read file")]);
        assert_eq!(told(&before, &before), Vec::<String>::new());
        let after = run(vec![busy(StepStatus::Succeeded), planned()]);
        assert_eq!(told(&before, &after), [format!("✓ {used} succeeded")]);
    }

    #[test]
    fn a_step_that_no_node_takes_says_so_once() {
        let mut waits = step(1, "scout", StepStatus::Ready);
        (waits.runner, waits.on) = ("pi".to_owned(), "gpu".to_owned());
        (waits.node, waits.started_ms) = (String::new(), 0);
        let mut run = run(vec![waits]);
        let node = "waiting for a free place on a node that runs pi and is, or has the label, gpu";
        let drawn = frame(&run, 13_000, (200, 24)).remove(0).1;
        assert!(drawn.ends_with(node), "{drawn}");
        let mut untaken = Untaken::default();
        assert!(untaken.news(&run, 5_000).is_empty());
        assert!(untaken.news(&run, 6_999).is_empty(), "it may be taken yet");
        assert_eq!(untaken.news(&run, 7_000), [format!("scout is {node}.")]);
        assert!(untaken.news(&run, 99_000).is_empty());
        run.steps[0].set_status(StepStatus::Running);
        assert!(untaken.news(&run, 100_000).is_empty() && untaken.0.is_empty());
    }

    #[test]
    fn programs_get_an_object_for_each_change() {
        let told = |before: &wire::Run, run: &wire::Run, text: Option<&str>| -> Vec<String> {
            let partial = |text| {
                let partial = Some(convert::text(text));
                wire::StepProgress { step: 1, partial, at_ms: 5 }
            };
            let progress = text.map(partial).into_iter().collect();
            let update = wire::WatchRunResponse { run: Some(run.clone()), progress };
            let events = events(before, &update, &[]);
            let shown = |it: &Value| format!("{} {}", it["event"], it["step"]);
            assert!(events.iter().all(|it| it["run_id"] == "run_1_00af"), "{events:?}");
            events.iter().map(shown).collect()
        };
        let first = run(vec![busy(StepStatus::Running), planned()]);
        let all = ["\"run\" null", "\"step\" 1", "\"step\" 2"];
        assert_eq!(told(&run(Vec::new()), &first, None), all);
        assert_eq!(told(&first, &first, Some("so far")), ["\"partial\" 1"]);
        let mut second = first.clone();
        second.steps[1].set_status(StepStatus::Running);
        assert_eq!(told(&first, &second, None), ["\"step\" 2"]);
        second.is_stopping = true;
        assert_eq!(told(&first, &second, None), ["\"run\" null", "\"step\" 2"]);
    }

    #[test]
    fn a_question_says_how_to_answer_it_and_its_words_stay_in_its_line() {
        let run = run(vec![step(1, "scout", StepStatus::Running)]);
        let question = wire::RunMessage {
            number: 2,
            step: 1,
            is_question: true,
            text: Some(convert::text("Which \u{1b}[31mone?\nStarted run_2_00af.")),
            ..Default::default()
        };
        let asked = "scout asks: Which one? Started run_2_00af.";
        let answer = "Answer with: tasuki runs reply run_1_00af 2 \"TEXT\"";
        assert_eq!(told(&run, &question), [asked, answer]);
        let text = Some(convert::text("line\n".repeat(100_000)));
        let report = wire::RunMessage { is_question: false, text, ..question.clone() };
        let lines = told(&run, &report);
        assert!(lines.len() == 1 && lines[0].width() < MESSAGE_CELLS_MAX + 30, "{lines:?}");
        let name = "plan\u{1b}[31m.md\u{2028}scout reports: done".to_owned();
        let file = Some(wire::RunFile { name, media_type: String::new(), size: 9 });
        let mut handed = wire::RunMessage { is_question: false, file, ..question.clone() };
        let which = "scout hands over plan.md scout reports: done, 9 bytes: tasuki runs output \
                     run_1_00af --message 2";
        let reported = "scout reports: Which one? Started run_2_00af.";
        assert_eq!(told(&run, &handed), [reported, which]);
        handed.text = None;
        assert_eq!(told(&run, &handed), [which]);
        let over = wire::RunMessage { is_over: true, ..question };
        assert_eq!(told(&run, &over), [asked, "It ended without an answer."]);
    }
}
