//! The tools that look at agents and runs, and those that change a run that goes on.

use std::{
    ops::Range,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use rmcp::model::{CallToolResponse, CallToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tasuki_proto::{
    limits::OUTPUT_READ_BYTES_MAX,
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
    files::show,
    messages::read_messages,
    views::{add_files, frame, framed, run_facts, summary},
};
use crate::{
    mcp::intent,
    role::Refusal,
    runner::discovery::{AgentEntry, Scope},
    runs::{convert::joined, output::Rest},
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

/// The agents' files could not be read.
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
            json!({ "run": it["run"], "run_id": it["run_id"], "run_mode": it["run_mode"], "status": it["status"] })
        });
        let others = brief.collect::<Value>();
        if others.as_array().is_some_and(|it| !it.is_empty()) {
            let text = format!("Your other runs: {others}");
            add_field(&mut result, "other_runs", others, text);
        }
        add_files(&mut result, &read_messages(&asker.client, id, &run).await);
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

/// Returns part of a sub-agent's output, or a file that it handed over.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunOutput {
    run: Id<RunId>,
    /// Default 1.
    step: Option<u32>,
    /// Number of a message with a file: returns that file.
    #[schemars(range(min = 1))]
    message: Option<u32>,
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
        let limit = self.limit.filter(|limit| *limit != 0).unwrap_or(OUTPUT_BYTES);
        let limit = limit.clamp(CHARACTER_BYTES_MAX, OUTPUT_BYTES_MAX);
        let offset = self.offset.unwrap_or_default();
        if let Some(message) = self.message {
            return show(&asker, run, message, offset, limit).await;
        }
        let step = StepId { run, number: self.step.unwrap_or_default().max(1) };
        let told = asker.client.step(step).await?;
        let about = told.step.clone().unwrap_or_default();
        let kept = joined(&told.output);
        let (mut part, mut is_away) = (part_within(kept.as_bytes(), offset, limit), false);
        if part.is_none() && offset < about.output_bytes {
            let before = before(offset);
            let most = u32::try_from(limit + before).unwrap_or(u32::MAX);
            let most = most.min(OUTPUT_READ_BYTES_MAX);
            match asker.runs.rest(&asker.client, step, offset - before, most).await? {
                Rest::Part(bytes) => part = part_of(&bytes, before, offset),
                Rest::Away => is_away = true,
                Rest::Gone => {}
            }
        }
        let told = part.ok_or_else(|| missing(&about, offset, is_away));
        Ok(output_result(step, &about, offset, told).into())
    }
}

/// A text, and where it stands in the output.
pub(super) type Part = (String, Range<u64>);

/// A text at `offset`, of bytes that are all there.
pub(super) fn part_within(all: &[u8], offset: u64, limit: u64) -> Option<Part> {
    let before = before(offset);
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(all.len());
    let bytes = place(offset - before)..place(offset.saturating_add(limit));
    part_of(all.get(bytes).unwrap_or_default(), before, offset)
}

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

fn output_result(
    step: StepId,
    about: &wire::RunStep,
    offset: u64,
    told: Result<Part, String>,
) -> CallToolResult {
    let mut others = Sanitizer::default();
    let total = about.output_bytes;
    let mut facts = json!({
        "run": step.run.to_string(), "run_id": step.run.to_string(), "step": step.number, "agent": others.line(&about.agent),
        "output_bytes": total, "offset": offset,
    });
    match told {
        Ok(part) => part_result(part, total, "", facts, others),
        Err(why) => {
            facts["hint"] = why.as_str().into();
            text_result(why, facts)
        }
    }
}

/// A part of so many bytes. `of`: what else the call for the next one says.
pub(super) fn part_result(
    (text, Range { start, end }): Part,
    total: u64,
    of: &str,
    mut facts: Value,
    mut others: Sanitizer,
) -> CallToolResult {
    let text = others.text(&text);
    facts["output"] = text.as_str().into();
    facts["offset"] = start.into();
    let mut more = format!("Bytes {start} to {end} of {total}.");
    if end < total {
        facts["next_offset"] = end.into();
        more += &format!(" For more, call run_output with {of}offset {end}.");
    }
    framed(text, vec![more], facts, &others)
}

/// Why there is nothing to show.
fn missing(about: &wire::RunStep, offset: u64, is_away: bool) -> String {
    match about.status() {
        StepStatus::Unspecified | StepStatus::Waiting | StepStatus::Ready | StepStatus::Running => {
            "This step has not ended, so it has no output yet. Call run_wait.".to_owned()
        }
        StepStatus::Succeeded | StepStatus::Failed | StepStatus::Canceled | StepStatus::Lost => {
            let (total, kept) = (about.output_bytes, about.output_kept);
            if total <= offset {
                return format!("The output has {total} bytes; there is nothing from {offset} on.");
            }
            let node = Sanitizer::default().line(&about.node);
            let rest = match is_away {
                true => format!(
                    "The rest is in a file of the node {node}, which can be read while that node \
                     is connected: call run_output again then."
                ),
                false => format!("The node {node} does not have the rest."),
            };
            format!("The broker keeps the first {kept} bytes. {rest}")
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
        assert_eq!(part_of(b"ab", 3, 7), None, "it ends before");
        let read = |offset, limit| part_within("aéb".as_bytes(), offset, limit);
        assert_eq!(read(0, 2), part("a", 0..1));
        assert_eq!(read(1, 2), part("é", 1..3));
        assert_eq!(read(2, 100), part("éb", 1..4));
        assert_eq!(read(3, 100), part("b", 3..4));
        assert_eq!(read(4, 100), None);
    }

    #[test]
    fn an_output_says_how_much_there_is() {
        let step = StepId { run: "run_1700000000000_00af".parse().unwrap(), number: 2 };
        let mut about = wire::RunStep { output_bytes: 9, output_kept: 4, ..Default::default() };
        about.set_status(StepStatus::Succeeded);
        about.node = "laptop".to_owned();
        let told = output_result(step, &about, 0, Ok(("abcd".to_owned(), 0..4)));
        let facts = told.structured_content.unwrap();
        assert_eq!((&facts["output"], &facts["next_offset"]), (&"abcd".into(), &4.into()));
        let hint = |about: &wire::RunStep, offset, is_away| {
            let told = output_result(step, about, offset, Err(missing(about, offset, is_away)));
            told.structured_content.unwrap()["hint"].as_str().unwrap().to_owned()
        };
        let away = hint(&about, 4, true);
        assert!(away.contains("file of the node laptop") && away.contains("first 4"), "{away}");
        assert!(away.contains("while that node is connected"), "{away}");
        let gone = hint(&about, 4, false);
        assert!(gone.contains("laptop does not have the rest"), "{gone}");
        let over = hint(&about, 9, false);
        assert!(over.contains("has 9 bytes"), "{over}");
        about.set_status(StepStatus::Running);
        let early = hint(&about, 0, false);
        assert!(early.contains("has not ended"), "{early}");
    }

    #[test]
    fn agents_of_a_project_are_looked_for_within_it() {
        assert_eq!(within("web"), Path::new("web"));
        for other in ["", "/etc", "..", "web/../../x"] {
            assert_eq!(within(other), Path::new(""), "{other}");
        }
    }
}
