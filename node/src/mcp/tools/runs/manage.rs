//! The tools that look at agents and runs, and those that change a run that goes on.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    ops::Range,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use rmcp::model::{CallToolResponse, CallToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tasuki_proto::{
    reason::Reason,
    run::{RunId, StepId},
    wire::{self, RunStatus, StepStatus},
};

use super::{
    super::{
        field_types::{Id, Name, Text, Word},
        result::{add_field, add_text, json_result, text_result},
        sanitizer::Sanitizer,
        tool::{Tool, ToolInfo},
    },
    CORE, QUIET,
    caller::{Asker, newest},
    views::{frame, framed, run_facts, summary},
};
use crate::{
    mcp::intent,
    role::Refusal,
    runner::discovery::{AgentEntry, Scope},
    runs::convert::plain,
};

/// Agents that are listed: a repository may come with thousands.
const AGENTS_SHOWN: usize = 100;

/// Of an output that is asked for without a limit, in bytes: as much as a model reads at once.
const OUTPUT_BYTES: u64 = 32 * 1024;

/// The same with one, at most.
const OUTPUT_BYTES_MAX: u64 = 256 * 1024;

/// One character, in bytes: nothing that is shown is shorter.
const CHARACTER_BYTES_MAX: u64 = 4;

/// Other runs that the state of one is told with: the newest.
const OTHERS_SHOWN: usize = 10;

/// Lists agents, the runners installed here, and nodes that run agents.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunAgents {
    /// Default both.
    #[serde(rename = "agentScope")]
    agent_scope: Option<Word<Scope>>,
    /// Directory in the project.
    cwd: Option<Name>,
}

impl Tool for RunAgents {
    const INFO: ToolInfo = ToolInfo::read("run_agents", CORE);

    type Caller<'a> = Asker<'a>;

    async fn call(self, asker: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        asker.look();
        let offers = asker.client.runners().await?.offers;
        let own = Arc::clone(&asker.runs.own);
        let scope = self.agent_scope.map_or(Scope::Both, |it| it.0);
        let cwd = self.cwd.unwrap_or_default().0;
        let found = tokio::task::spawn_blocking(move || {
            (own.agents(scope, &within(&cwd)), own.installed())
        });
        let (found, installed) = found.await.map_err(|_| unreadable())?;
        let mut others = Sanitizer::default();
        let agent = |it: &AgentEntry| {
            json!({
                "name": it.agent.name,
                "description": others.line(&it.agent.description),
                "source": it.source.as_str(),
                "runner": it.runner().unwrap_or(&asker.runs.default_runner),
                "model": it.agent.model.as_deref().map(|it| others.line(it)),
                "tools": it.agent.tools.as_deref().map(|it| others.lines(it)),
                "file": others.line(&it.path.to_string_lossy()),
            })
        };
        let agents: Vec<Value> = found.agents.values().take(AGENTS_SHOWN).map(agent).collect();
        let runner = |name: &str| json!({ "name": name, "is_installed": installed.contains(name) });
        let runners = asker.runs.own.table.iter().map(|it| runner(&it.name));
        let nodes = offers.iter().map(|it| {
            json!({
                "node": others.line(&it.node),
                "runners": others.lines(&it.runners),
                "labels": others.lines(&it.labels),
                "free_places": it.places,
                "accepts_elsewhere": it.accepts_elsewhere,
            })
        });
        let mut facts = json!({
            "agents": agents,
            "agents_total": found.agents.len(),
            // Of this machine.
            "runners": runners.collect::<Vec<_>>(),
            "nodes": nodes.collect::<Vec<_>>(),
        });
        // Files that are no agents, and why.
        let skipped = found.skipped.iter().take(AGENTS_SHOWN).map(|it| {
            let (file, why) = (others.line(&it.path.to_string_lossy()), others.line(&it.why));
            json!({ "file": file, "why": why })
        });
        facts["skipped"] = skipped.collect();
        frame(&mut facts, &others);
        Ok(json_result(&facts).into())
    }
}

/// Where agents of a project are looked for: a directory in it, or itself.
pub(super) fn within(cwd: &str) -> PathBuf {
    let is_within = |it: Component<'_>| matches!(it, Component::Normal(_) | Component::CurDir);
    let cwd = Path::new(cwd);
    if cwd.components().all(is_within) { cwd.to_owned() } else { PathBuf::new() }
}

/// What is on the disk cannot be told.
pub(super) fn unreadable() -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: "The agents of this machine could not be read. Nothing was started. Call again."
            .to_owned(),
    }
}

/// Returns the state of a run, and which other runs you started. Does not wait.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunStatusOf {
    /// Default: your newest.
    run: Option<Id<RunId>>,
}

impl Tool for RunStatusOf {
    const INFO: ToolInfo = ToolInfo::read("run_status", CORE);

    type Caller<'a> = Asker<'a>;

    async fn call(self, asker: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        asker.look();
        let own = asker.own_runs().await?;
        let id = match self.run {
            Some(Id(named)) => named,
            None => newest(&own)?,
        };
        let run = asker.get(id).await?;
        let facts = run_facts(&run);
        let hint = match run.open_questions.first() {
            _ if run.status() != RunStatus::Running => {
                "Call run_wait for its result, or run_output for the output of a step.".to_owned()
            }
            Some(first) if !run.is_stopping => {
                format!("Question {first} is open: call run_wait to read it.")
            }
            Some(_) | None => facts["progress"].as_str().unwrap_or_default().to_owned(),
        };
        let mut result = text_result(format!("{}\n{hint}", summary(&facts)), facts);
        let others = own.iter().filter(|it| it.run_id != run.run_id).take(OTHERS_SHOWN);
        let brief = others.map(run_facts).map(|it| {
            json!({ "run_id": it["run_id"], "run_mode": it["run_mode"], "status": it["status"] })
        });
        let others = brief.collect::<Value>();
        if others.as_array().is_some_and(|it| !it.is_empty()) {
            let text = format!("Your other runs: {others}");
            add_field(&mut result, "other_runs", others, text);
        }
        Ok(result.into())
    }
}

/// Stops a run and the runs below it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunCancel {
    run: Id<RunId>,
}

impl Tool for RunCancel {
    const INFO: ToolInfo = ToolInfo::destroy("run_cancel", CORE);

    type Caller<'a> = Asker<'a>;

    async fn call(self, asker: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let _playing = asker.enter()?;
        let run = asker.client.cancel(self.run.0).await?.run.unwrap_or_default();
        let text = match run.status() == RunStatus::Running {
            true => "Stopping it. Call run_wait to see its end.",
            false => "It has ended.",
        };
        let facts = run_facts(&run);
        let more = summary(&facts);
        let mut result = text_result(text, facts);
        add_text(&mut result, more);
        Ok(result.into())
    }
}

/// Returns part of a sub-agent's output.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunOutput {
    run: Id<RunId>,
    /// Default 1.
    step: Option<u32>,
    /// Bytes.
    offset: Option<u64>,
    /// Bytes, up to 262144. Default 32768.
    limit: Option<u64>,
}

impl Tool for RunOutput {
    const INFO: ToolInfo = ToolInfo::read("run_output", CORE);

    type Caller<'a> = Asker<'a>;

    async fn call(self, asker: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        asker.look();
        let run = self.run.0;
        asker.get(run).await?;
        let step = StepId { run, number: self.step.unwrap_or_default().max(1) };
        let told = asker.client.step(step).await?;
        let about = told.step.clone().unwrap_or_default();
        let limit = self.limit.filter(|limit| *limit != 0).unwrap_or(OUTPUT_BYTES);
        let offset = self.offset.unwrap_or_default();
        let limit = limit.clamp(CHARACTER_BYTES_MAX, OUTPUT_BYTES_MAX);
        let kept: String = told.output.iter().map(|part| plain(Some(part))).collect();
        let before = before(offset);
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(kept.len());
        let bytes = place(offset - before)..place(offset.saturating_add(limit));
        let bytes = kept.as_bytes().get(bytes).unwrap_or_default();
        let part = match part_of(bytes, before, offset) {
            None if (kept.len() as u64) < about.output_bytes => {
                let file = file_of(&asker.runs.directory, step);
                let read = tokio::task::spawn_blocking(move || read_part(&file?, offset, limit));
                read.await.ok().flatten()
            }
            part => part,
        };
        Ok(output_result(step, &about, offset, part, kept.len()).into())
    }
}

/// A text, and where it stands in the output.
type Part = (String, Range<u64>);

/// So many bytes before an offset the character that it stands in can begin.
fn before(offset: u64) -> u64 {
    offset.min(CHARACTER_BYTES_MAX - 1)
}

/// The text at `offset`, of bytes that begin so many `before` it. A character that it stands in is
/// told whole; one that the end cuts is left to the next part. `None`: there is nothing.
fn part_of(bytes: &[u8], before: u64, offset: u64) -> Option<Part> {
    let is_first = |back: &u64| {
        let at = usize::try_from(before - back).ok().and_then(|at| bytes.get(at));
        at.is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000)
    };
    let back = (0..=before).find(is_first).unwrap_or_default();
    let bytes = bytes.get(usize::try_from(before - back).ok()?..)?;
    let from = offset - back;
    let whole = match str::from_utf8(bytes) {
        Err(why) if why.error_len().is_none() && why.valid_up_to() != 0 => why.valid_up_to(),
        Ok(_) | Err(_) => bytes.len(),
    };
    let text = String::from_utf8_lossy(bytes.get(..whole)?).into_owned();
    (whole != 0).then(|| (text, from..from.saturating_add(whole as u64)))
}

/// Where this node has the whole output; `None`: it runs no steps.
fn file_of(directory: &Path, step: StepId) -> Option<PathBuf> {
    #[cfg(unix)]
    {
        Some(crate::runs::worker::output_file(directory, step))
    }
    #[cfg(not(unix))]
    {
        let _ = (directory, step);
        None
    }
}

/// A part of a file. `None`: it is not there, or has nothing from there on.
fn read_part(file: &Path, offset: u64, limit: u64) -> Option<Part> {
    let mut file = File::open(file).ok()?;
    let before = before(offset);
    file.seek(SeekFrom::Start(offset - before)).ok()?;
    let mut bytes = Vec::new();
    file.take(limit + before).read_to_end(&mut bytes).ok()?;
    part_of(&bytes, before, offset)
}

fn output_result(
    step: StepId,
    about: &wire::RunStep,
    offset: u64,
    part: Option<Part>,
    kept: usize,
) -> CallToolResult {
    let mut others = Sanitizer::default();
    let total = about.output_bytes.max(kept as u64);
    let mut facts = json!({
        "run_id": step.run.to_string(), "step": step.number, "agent": others.line(&about.agent),
        "output_bytes": total, "offset": offset,
    });
    let Some((text, Range { start, end })) = part else {
        let words = missing(about, offset, total);
        facts["hint"] = words.as_str().into();
        return text_result(words, facts);
    };
    let text = others.text(&text);
    facts["output"] = text.as_str().into();
    facts["offset"] = start.into();
    let mut more = format!("Bytes {start} to {end} of {total}.");
    if end < total {
        facts["next_offset"] = end.into();
        more += &format!(" For more, call run_output with offset {end}.");
    }
    framed(text, vec![more], facts, &others)
}

/// Why there is nothing to show.
fn missing(about: &wire::RunStep, offset: u64, total: u64) -> String {
    match about.status() {
        StepStatus::Unspecified | StepStatus::Waiting | StepStatus::Ready | StepStatus::Running => {
            "This step has not ended, so it has no output yet. Call run_wait.".to_owned()
        }
        StepStatus::Succeeded | StepStatus::Failed | StepStatus::Canceled | StepStatus::Lost => {
            if total <= offset {
                return format!("The output has {total} bytes; there is nothing from {offset} on.");
            }
            let (kept, node) = (about.output_kept, Sanitizer::default().line(&about.node));
            format!(
                "The broker keeps the first {kept} bytes. The rest is in a file of the node \
                 {node}: call run_output there, as long as it keeps it."
            )
        }
    }
}

/// Answers a sub-agent's question.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunReply {
    run: Id<RunId>,
    /// The question's number.
    #[schemars(range(min = 1))]
    message: u32,
    text: Text,
}

impl Tool for RunReply {
    const INFO: ToolInfo = ToolInfo::write("run_reply", QUIET);

    type Caller<'a> = Asker<'a>;

    async fn call(self, asker: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let _playing = asker.enter()?;
        let key = intent::of(&asker.call.context.meta);
        let Self { run: Id(run), message, text: Text(text) } = self;
        let replied = asker.client.reply(run, message, &text, key).await?;
        let mut facts = run_facts(&replied.run.unwrap_or_default());
        facts["message"] = message.into();
        Ok(text_result("Replied. Call run_wait.", facts).into())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn part(text: &str, at: Range<u64>) -> Option<Part> {
        Some((text.to_owned(), at))
    }

    #[test]
    fn a_part_ends_between_characters_and_the_next_begins_there() {
        assert_eq!(part_of("aéb".as_bytes().get(..2).unwrap(), 0, 7), part("a", 7..8));
        assert_eq!(part_of("éb".as_bytes(), 0, 8), part("éb", 8..11));
        assert_eq!(part_of("aéb".as_bytes(), 2, 9), part("éb", 8..11), "it stands in a character");
        assert_eq!(part_of(b"a\xff", 0, 0), part("a\u{fffd}", 0..2));
        assert_eq!(part_of(b"", 0, 4), None);
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("output");
        fs::write(&file, "aéb").unwrap();
        assert_eq!(read_part(&file, 0, 2), part("a", 0..1));
        assert_eq!(read_part(&file, 1, 2), part("é", 1..3));
        assert_eq!(read_part(&file, 2, 100), part("éb", 1..4));
        assert_eq!(read_part(&file, 3, 100), part("b", 3..4));
        assert_eq!(read_part(&file, 4, 100), None);
        assert_eq!(read_part(&place.path().join("none"), 0, 100), None);
    }

    #[test]
    fn an_output_says_how_much_there_is() {
        let step = StepId { run: "run_1700000000000_00af".parse().unwrap(), number: 2 };
        let mut about = wire::RunStep { output_bytes: 9, output_kept: 4, ..Default::default() };
        about.set_status(StepStatus::Succeeded);
        about.node = "laptop".to_owned();
        let told = output_result(step, &about, 0, part("abcd", 0..4), 4);
        let facts = told.structured_content.unwrap();
        assert_eq!((&facts["output"], &facts["next_offset"]), (&"abcd".into(), &4.into()));
        let rest = output_result(step, &about, 4, None, 4).structured_content.unwrap();
        assert!(rest["hint"].as_str().unwrap().contains("file of the node laptop"), "{rest}");
        let over = output_result(step, &about, 9, None, 4).structured_content.unwrap();
        assert!(over["hint"].as_str().unwrap().contains("has 9 bytes"), "{over}");
        about.set_status(StepStatus::Running);
        let early = output_result(step, &about, 0, None, 0).structured_content.unwrap();
        assert!(early["hint"].as_str().unwrap().contains("has not ended"), "{early}");
    }

    #[test]
    fn agents_of_a_project_are_looked_for_within_it() {
        assert_eq!(within("web"), Path::new("web"));
        for other in ["", "/etc", "..", "web/../../x"] {
            assert_eq!(within(other), Path::new(""), "{other}");
        }
    }
}
