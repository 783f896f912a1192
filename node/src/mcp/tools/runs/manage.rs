//! The tools that look at agents and runs, and those that change a run that goes on.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use rmcp::model::{CallToolResponse, CallToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tasuki_proto::{
    reason::Reason,
    run::{RunId, StepId},
    wire::{self, RunStatus, StepStatus},
};

use super::{
    super::{
        field_types::{Id, Name, Text, Word},
        result::{add_text, json_result, text_result},
        sanitizer::{FRAME, Sanitizer},
        tool::{Tool, ToolInfo},
        view::is_nothing,
    },
    CORE, QUIET,
    caller::{Asker, newest},
    views::{over_result, run_facts, summary},
};
use crate::{
    mcp::intent,
    role::Refusal,
    runner::discovery::{AgentEntry, Agents, Scope},
    runs::{convert::plain, own::OwnRunners},
};

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
        let (own, default) = (Arc::clone(&asker.runs.own), asker.runs.default_runner.clone());
        let scope = self.agent_scope.map_or(Scope::Both, |it| it.0);
        let cwd = self.cwd.unwrap_or_default().0;
        let found = tokio::task::spawn_blocking(move || {
            let agents = own.agents(scope, &within(&cwd));
            let runners = installed(&own);
            (agents, runners)
        });
        let (agents, runners) = found.await.map_err(|_| unreadable())?;
        Ok(json_result(&Available::new(&agents, runners, &offers, &default)).into())
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

#[derive(Debug, Serialize)]
struct Available {
    agents: Vec<AgentView>,
    /// Files that are no agents, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<SkippedView>,
    /// Of this machine.
    runners: Vec<RunnerView>,
    nodes: Vec<OfferView>,
    note: &'static str,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
}

#[derive(Debug, Serialize)]
struct AgentView {
    name: String,
    description: String,
    source: &'static str,
    runner: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    model: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<String>,
    file: String,
}

#[derive(Debug, Serialize)]
struct SkippedView {
    file: String,
    why: String,
}

#[derive(Debug, Serialize)]
struct RunnerView {
    name: String,
    is_installed: bool,
}

#[derive(Debug, Serialize)]
struct OfferView {
    node: String,
    runners: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    free_places: u32,
    accepts_elsewhere: bool,
}

fn installed(own: &OwnRunners) -> Vec<RunnerView> {
    let found = own.installed();
    let view =
        |name: &String| RunnerView { name: name.clone(), is_installed: found.contains(name) };
    own.table.iter().map(|runner| view(&runner.name)).collect()
}

impl Available {
    fn new(
        agents: &Agents,
        runners: Vec<RunnerView>,
        offers: &[wire::RunnerOffer],
        default_runner: &str,
    ) -> Self {
        let mut others = Sanitizer::default();
        let agent = |it: &AgentEntry| AgentView {
            name: it.agent.name.clone(),
            description: others.line(&it.agent.description),
            source: it.source.as_str(),
            runner: it.runner().unwrap_or(default_runner).to_owned(),
            model: it.agent.model.as_deref().map(|it| others.line(it)).unwrap_or_default(),
            tools: others.lines(it.agent.tools.as_deref().unwrap_or_default()),
            file: others.line(&it.path.to_string_lossy()),
        };
        let shown = agents.agents.values().map(agent).collect();
        let skipped = agents.skipped.iter().map(|it| SkippedView {
            file: others.line(&it.path.to_string_lossy()),
            why: others.line(&it.why),
        });
        let skipped = skipped.collect();
        let nodes = offers.iter().map(|it| OfferView {
            node: others.line(&it.node),
            runners: others.lines(&it.runners),
            labels: others.lines(&it.labels),
            free_places: it.places,
            accepts_elsewhere: it.accepts_elsewhere,
        });
        let nodes = nodes.collect();
        Self { agents: shown, skipped, runners, nodes, note: FRAME, stripped: others.stripped }
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
        let mut result = match run.status() {
            RunStatus::Running => state(&run),
            RunStatus::Unspecified
            | RunStatus::Succeeded
            | RunStatus::Failed
            | RunStatus::Canceled
            | RunStatus::Lost
            | RunStatus::OutOfBudget => over_result(&asker.client, id, &run).await,
        };
        // It was asked how the run stands, and that is told.
        result.is_error = Some(false);
        add_others(&mut result, &own, &run.run_id);
        Ok(result.into())
    }
}

/// A run that goes on.
fn state(run: &wire::Run) -> CallToolResult {
    let facts = run_facts(run);
    let progress = facts["progress"].as_str().unwrap_or_default();
    let mut text = format!("{progress}\n{}", summary(&facts));
    if let [first, ..] = run.open_questions[..] {
        text += &format!("\nQuestion {first} is open: call run_wait to read it.");
    }
    text_result(text, facts)
}

/// The caller's other runs.
fn add_others(result: &mut CallToolResult, own: &[wire::Run], shown: &str) {
    let others = own.iter().filter(|it| it.run_id != shown).take(OTHERS_SHOWN);
    let facts: Vec<_> = others.map(run_facts).collect();
    if facts.is_empty() {
        return;
    }
    let line = |it: &serde_json::Value| summary(it).lines().next().unwrap_or_default().to_owned();
    let lines: Vec<String> = facts.iter().map(line).collect();
    let brief = facts.iter().map(
        |it| json!({ "run_id": it["run_id"], "run_mode": it["run_mode"], "status": it["status"] }),
    );
    if let Some(fields) = &mut result.structured_content {
        fields["other_runs"] = brief.collect();
    }
    add_text(result, format!("Your other runs:\n{}", lines.join("\n")));
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
        let text = match run.status() {
            RunStatus::Running => "Stopping it. Call run_wait to see its end.",
            RunStatus::Canceled => "Canceled.",
            RunStatus::Unspecified
            | RunStatus::Succeeded
            | RunStatus::Failed
            | RunStatus::Lost
            | RunStatus::OutOfBudget => "It had ended before.",
        };
        let facts = run_facts(&run);
        let mut result = text_result(text, facts.clone());
        add_text(&mut result, summary(&facts));
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
        let part = match part_of(&kept, offset, limit) {
            Some(part) => Some(part),
            None if (kept.len() as u64) < about.output_bytes => {
                let file = file_of(&asker.runs.directory, step);
                let read = tokio::task::spawn_blocking(move || read_part(&file?, offset, limit));
                read.await.ok().flatten()
            }
            None => None,
        };
        Ok(output_result(step, &about, offset, part, kept.len()).into())
    }
}

/// Of an output from a byte on.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    text: String,
    /// Where the next one begins.
    end: u64,
}

/// A part of what the broker has. `None`: it has nothing from there on.
fn part_of(kept: &str, offset: u64, limit: u64) -> Option<Part> {
    let from = usize::try_from(offset).ok().filter(|from| *from < kept.len())?;
    let from = kept.floor_char_boundary(from);
    let room = usize::try_from(limit).unwrap_or(usize::MAX);
    // At least one character.
    let end = kept.floor_char_boundary(from.saturating_add(room).min(kept.len()));
    let end = if end <= from { kept.ceil_char_boundary(from + 1) } else { end };
    Some(Part { text: kept.get(from..end)?.to_owned(), end: end as u64 })
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
    file.seek(SeekFrom::Start(offset)).ok()?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    // An end that cuts a character is left to the next part, as a beginning was to the one before.
    let whole = match str::from_utf8(&bytes) {
        Ok(_) => bytes.len(),
        Err(why) if why.error_len().is_none() && why.valid_up_to() != 0 => why.valid_up_to(),
        Err(_) => bytes.len(),
    };
    let text = String::from_utf8_lossy(bytes.get(..whole)?).into_owned();
    (whole != 0).then(|| Part { text, end: offset.saturating_add(whole as u64) })
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
    let Some(Part { text, end }) = part else {
        let words = missing(about, offset, total);
        facts["hint"] = words.as_str().into();
        return text_result(words, facts);
    };
    let text = others.text(&text);
    facts["output"] = text.as_str().into();
    facts["note"] = FRAME.into();
    let mut more = format!("Bytes {offset} to {end} of {total}.");
    if end < total {
        facts["next_offset"] = end.into();
        more += &format!(" For more, call run_output with offset {end}.");
    }
    let mut result = text_result(text, facts);
    add_text(&mut result, format!("{more} {FRAME}{}", others.report()));
    result
}

/// Why there is nothing to show.
fn missing(about: &wire::RunStep, offset: u64, total: u64) -> String {
    match about.status() {
        StepStatus::Unspecified | StepStatus::Waiting | StepStatus::Ready | StepStatus::Running => {
            "This step has not ended, so it has no output yet. Call run_wait.".to_owned()
        }
        StepStatus::Succeeded | StepStatus::Failed | StepStatus::Canceled | StepStatus::Lost
            if total <= offset =>
        {
            format!("The output has {total} bytes; there is nothing from byte {offset} on.")
        }
        StepStatus::Succeeded | StepStatus::Failed | StepStatus::Canceled | StepStatus::Lost => {
            let node = Sanitizer::default().line(&about.node);
            format!(
                "The broker keeps the first {} bytes. The rest is in a file of the node {node}: \
                 call run_output there, as long as it keeps it.",
                about.output_kept
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

    fn part(text: &str, end: u64) -> Option<Part> {
        Some(Part { text: text.to_owned(), end })
    }

    #[test]
    fn a_part_ends_between_characters_and_the_next_begins_there() {
        assert_eq!(part_of("aéb", 0, 2), part("a", 1));
        assert_eq!(part_of("aéb", 1, 1), part("é", 3));
        assert_eq!(part_of("aéb", 3, 100), part("b", 4));
        assert_eq!(part_of("aéb", 4, 100), None);
        assert_eq!(part_of("", 0, 100), None);
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("output");
        fs::write(&file, "aéb").unwrap();
        assert_eq!(read_part(&file, 0, 2), part("a", 1));
        assert_eq!(read_part(&file, 1, 2), part("é", 3));
        assert_eq!(read_part(&file, 3, 100), part("b", 4));
        assert_eq!(read_part(&file, 4, 100), None);
        assert_eq!(read_part(&place.path().join("none"), 0, 100), None);
    }

    #[test]
    fn an_output_says_how_much_there_is() {
        let step = StepId { run: "run_1700000000000_00af".parse().unwrap(), number: 2 };
        let mut about = wire::RunStep { output_bytes: 9, output_kept: 4, ..Default::default() };
        about.set_status(StepStatus::Succeeded);
        about.node = "laptop".to_owned();
        let told = output_result(step, &about, 0, part("abcd", 4), 4);
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
