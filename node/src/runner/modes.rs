//! The modes of a call (single, parallel, chain): its parameters, and the texts of its result.
//!
//! Texts are those of pi's sub-agent extension, in the version that has each right: 0.73.1 for a
//! single run and a chain (without 1.5.2's `Error: `, which says it twice), 1.5.2 for parallel runs
//! (whole outputs up to a bound, with headings; a run whose model failed is not counted as a
//! success). They differ where both are wrong: `{previous}` is replaced literally, and a long output
//! is cut on a character, never dropped as one line. Of several outputs none can be taken for two:
//! headings are numbered, and a line of an output that reads like one begins with `\`.
//!
//! Progress is said in fixed words with counts and names of agents, never in a peer's.
//!
//! Not here: running anything; schemas and further parameters of the tool.

use std::borrow::Cow;

use anstream::adapter::strip_str;
use tasuki_proto::visible::shown;

use super::{
    outcome::{Failure, FailureKind},
    runners::TASK_BYTES_MAX,
    stream::Output,
};

/// Tasks of one parallel call.
pub const PARALLEL_TASKS_MAX: usize = 8;

/// Of those, how many run at once.
pub const PARALLEL_RUNS_MAX: usize = 4;

/// Steps of one chain.
pub const CHAIN_STEPS_MAX: usize = 32;

/// What is shown of one output of several, so that none hides the others.
pub const SHOWN_BYTES_MAX: usize = 50 << 10;

/// Where the output of the step before goes.
pub const PREVIOUS: &str = "{previous}";

/// What is said while a single run works.
pub const RUNNING: &str = "(running...)";

/// What is said in place of an output that is blank.
const NO_OUTPUT: &str = "(no output)";

/// One task for one agent.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub agent: String,
    pub task: String,
    #[serde(default)]
    pub cwd: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    Single(Step),
    Parallel(Vec<Step>),
    Chain(Vec<Step>),
}

/// Why a call asks for nothing that can be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    #[error("Invalid parameters. Provide exactly one mode.\nAvailable agents: {available}")]
    NotOne { available: String },
    #[error("Too many parallel tasks ({count}). Max is {PARALLEL_TASKS_MAX}.")]
    TooManyTasks { count: usize },
    #[error("Too many chain steps ({count}). Max is {CHAIN_STEPS_MAX}.")]
    TooManySteps { count: usize },
}

/// The parameters of the tool `subagent` that decide on the mode.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Params {
    #[serde(default)]
    pub agent: Option<String>,
    #[serde(default)]
    pub task: Option<String>,
    #[serde(default)]
    pub tasks: Option<Vec<Step>>,
    #[serde(default)]
    pub chain: Option<Vec<Step>>,
    #[serde(default)]
    pub cwd: Option<String>,
}

impl Params {
    /// The one mode that is asked for. An empty list asks for nothing, as does an agent without a
    /// task. `available` names the agents for whoever asked for none or for several.
    ///
    /// # Errors
    /// When it is not exactly one, or too large.
    pub fn mode(self, available: &str) -> Result<Mode, ModeError> {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let cwd = self.cwd;
        let single = given(self.agent).zip(given(self.task));
        let tasks = self.tasks.unwrap_or_default();
        let chain = self.chain.unwrap_or_default();
        match (single, tasks.len(), chain.len()) {
            (Some((agent, task)), 0, 0) => Ok(Mode::Single(Step { agent, task, cwd })),
            (None, count @ 1.., 0) if count > PARALLEL_TASKS_MAX => {
                Err(ModeError::TooManyTasks { count })
            }
            (None, 0, count @ 1..) if count > CHAIN_STEPS_MAX => {
                Err(ModeError::TooManySteps { count })
            }
            (None, 1.., 0) => Ok(Mode::Parallel(with_cwd(tasks, cwd.as_ref()))),
            (None, 0, 1..) => Ok(Mode::Chain(with_cwd(chain, cwd.as_ref()))),
            (_, _, _) => Err(ModeError::NotOne { available: available.to_owned() }),
        }
    }
}

/// The call's directory goes for each step that names none.
fn with_cwd(mut steps: Vec<Step>, cwd: Option<&String>) -> Vec<Step> {
    for step in &mut steps {
        step.cwd = step.cwd.take().or_else(|| cwd.cloned());
    }
    steps
}

/// A task is longer than any that can be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "With the previous output the task has {bytes} bytes; at most {TASK_BYTES_MAX} are passed on."
)]
pub struct TaskTooLong {
    pub bytes: usize,
}

/// A step's task with the output of the step before it: everywhere, literally, and once: a
/// `{previous}` within that output stays. Before the first step the output is empty.
///
/// # Errors
/// When the task becomes too long.
pub fn fill_previous<'t>(task: &'t str, previous: &str) -> Result<Cow<'t, str>, TaskTooLong> {
    let count = task.matches(PREVIOUS).count();
    if count == 0 {
        return Ok(Cow::Borrowed(task));
    }
    let added = previous.len().saturating_mul(count);
    let bytes = (task.len() - count * PREVIOUS.len()).saturating_add(added);
    if bytes > TASK_BYTES_MAX {
        return Err(TaskTooLong { bytes });
    }
    Ok(Cow::Owned(task.replace(PREVIOUS, previous)))
}

/// `Unknown agent: "ghost". Available agents: "planner", "scout".`
pub fn unknown_agent<'n>(name: &str, available: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<_> = available.map(|name| format!("\"{name}\"")).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let name: String = name.chars().flat_map(char::escape_debug).take(NAME_CHARS_MAX).collect();
    format!("Unknown agent: \"{name}\". Available agents: {names}.")
}

/// What is shown of a name that nobody has.
const NAME_CHARS_MAX: usize = 100;

/// Why a run failed; one that never began has no kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunFailure<'a> {
    pub kind: Option<FailureKind>,
    pub text: &'a str,
}

impl<'a> From<&'a Failure> for RunFailure<'a> {
    fn from(failure: &'a Failure) -> Self {
        Self { kind: Some(failure.kind), text: &failure.text }
    }
}

/// A run that is over.
#[derive(Debug, Clone, Copy)]
pub struct FinishedRun<'a> {
    pub agent: &'a str,
    pub output: &'a Output,
    pub failed: Option<RunFailure<'a>>,
    /// Where the rest of a long output is: `run_output` with this id and this step.
    pub run: &'a str,
    pub step: u32,
}

impl FinishedRun<'_> {
    fn shown(&self, bytes_max: usize) -> Cow<'_, str> {
        let kept = &self.output.text;
        if self.output.bytes <= bytes_max as u64 && self.output.omitted_bytes() == 0 {
            return if kept.trim().is_empty() { NO_OUTPUT.into() } else { kept.into() };
        }
        let shown = &kept[..kept.floor_char_boundary(bytes_max)];
        let omitted = self.output.bytes.saturating_sub(shown.len() as u64);
        let Self { run, step, .. } = self;
        Cow::Owned(format!(
            "{shown}\n\n[Output truncated: {omitted} bytes omitted. Call run_output with run {run} \
             and step {step} for all of it.]"
        ))
    }

    /// What is added to a failure: the beginning of an answer that was cut off is an answer.
    fn remainder(&self, failed: RunFailure<'_>, bytes_max: usize) -> String {
        if failed.kind == Some(FailureKind::CutOff) && self.output.bytes > 0 {
            format!("\n\n{}", self.shown(bytes_max))
        } else {
            String::new()
        }
    }
}

/// What a single run gives back.
pub fn single_text(run: &FinishedRun<'_>) -> String {
    match run.failed {
        None => run.shown(usize::MAX).into_owned(),
        Some(failed) => {
            let word = failed.kind.and_then(FailureKind::stop_word).unwrap_or("failed");
            let remainder = run.remainder(failed, usize::MAX);
            format!("Agent {word}: {}{remainder}", failed.text)
        }
    }
}

/// Stands between the sections of parallel runs.
const RULE: &str = "---";

/// What parallel runs give back, in the order of their tasks.
pub fn parallel_text(runs: &[FinishedRun<'_>]) -> String {
    let (total, succeeded) = (runs.len(), runs.iter().filter(|run| run.failed.is_none()).count());
    let sections = (1..).zip(runs).map(|(number, run)| section(number, total, run));
    let sections = sections.collect::<Vec<_>>().join(&format!("\n\n{RULE}\n\n"));
    format!("Parallel: {succeeded}/{total} succeeded\n\n{sections}")
}

fn section(number: usize, total: usize, run: &FinishedRun<'_>) -> String {
    let agent = run.agent;
    let (outcome, text) = match run.failed {
        None => ("completed".to_owned(), run.shown(SHOWN_BYTES_MAX)),
        Some(failed) => {
            let word = failed.kind.map(|kind| kind.stop_word().unwrap_or(kind.as_str()));
            let word = word.map_or(String::new(), |word| format!(" ({word})"));
            let remainder = run.remainder(failed, SHOWN_BYTES_MAX);
            (format!("failed{word}"), format!("Error: {}{remainder}", failed.text).into())
        }
    };
    format!("### {number}/{total} [{agent}] {outcome}\n\n{}", escape_headings(&text))
}

/// Ends of lines for some who show a text; others leave them out.
const OTHER_LINE_ENDS: [char; 6] = ['\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Puts `\` before each line that reads like the beginning or the end of a section.
fn escape_headings(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        for (at, piece) in line.split_inclusive(OTHER_LINE_ENDS).enumerate() {
            if reads_like_heading(piece) || (at == 0 && reads_like_heading(line)) {
                escaped.push('\\');
            }
            escaped.push_str(piece);
        }
    }
    escaped
}

/// Whether a line does, shown to a model or on a terminal: each takes something else out of it.
fn reads_like_heading(line: &str) -> bool {
    // The last is the blank of Braille.
    let is_blank = |char: char| char.is_whitespace() || char == '\u{2800}';
    let reads = |line: &str| {
        let line: String = shown(line).0.chars().filter(|char| !is_blank(*char)).collect();
        let is_rule = |sign: char| RULE.len() <= line.len() && line.chars().all(|it| it == sign);
        // Wide ones, too.
        let is_heading = line.starts_with(['#', '＃']) && line.contains(['[', '［']);
        is_heading || ['-', '*', '_'].into_iter().any(is_rule)
    };
    reads(line) || (line.contains('\u{1b}') && reads(&strip_str(line).to_string()))
}

/// What a chain gives back, from the steps that ran: it ends at the first that fails.
pub fn chain_text(runs: &[FinishedRun<'_>]) -> String {
    let failed = runs.iter().enumerate().find_map(|(at, run)| Some((at + 1, run, run.failed?)));
    match (failed, runs.last()) {
        (Some((step, run, failed)), _) => {
            format!("Chain stopped at step {step} ({}): {}", run.agent, failed.text)
        }
        (None, Some(last)) => last.shown(usize::MAX).into_owned(),
        (None, None) => NO_OUTPUT.to_owned(),
    }
}

/// `Parallel: 2/3 done, 1 running...`; tasks that wait for a place are counted apart.
pub fn parallel_progress(done: usize, running: usize, total: usize) -> String {
    match total.saturating_sub(done).saturating_sub(running) {
        0 => format!("Parallel: {done}/{total} done, {running} running..."),
        waiting => {
            format!("Parallel: {done}/{total} done, {running} running, {waiting} pending...")
        }
    }
}

/// `Chain: Step 2/3 (planner) running...`
pub fn chain_progress(step: usize, total: usize, agent: &str) -> String {
    format!("Chain: Step {step}/{total} ({agent}) running...")
}

#[cfg(test)]
mod tests;
