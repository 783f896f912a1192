//! The agent CLIs that can do a run: how each is called, and which stream it writes.
//!
//! | runner | task | system prompt | tools |
//! |---|---|---|---|
//! | `pi` | argument `Task: …`, as the original has it; standard input if too long | `--append-system-prompt FILE` | `--tools a,b` |
//! | `claude` | standard input | `--append-system-prompt-file FILE` | `--tools=a,b`, and no MCP servers of its own unless an `mcp__` tool is named |
//! | `codex` | standard input (`-`) | `-c developer_instructions=TOML` | cannot be limited: refused |
//! | `gemini` | standard input | before the task | a policy file: these without asking, no others |
//! | `opencode` | standard input, for it puts an argument in quotes | an agent of this run, by `OPENCODE_CONFIG_CONTENT` | the same |
//!
//! Permissions are not asked for: they are the operator's, in the CLI's own settings or in
//! `[runner.NAME] command`. Only Gemini CLI knows no limit that is no permission. The node's own MCP
//! server of the run ([`McpServer`]) is the exception: its tools are there, and need no permission,
//! also where the agent's are limited.
//!
//! | runner | that server |
//! |---|---|
//! | `claude` | `--mcp-config=FILE --allowedTools=mcp__tasuki` |
//! | `codex` | `-c mcp_servers.tasuki_run.…`, the token in the step's own variable |
//! | `opencode` | `mcp` in `OPENCODE_CONFIG_CONTENT` |
//! | `pi`, `gemini` | not told: they have the step's environment |
//!
//! `command` replaces the whole command line. Without placeholders the built-in arguments of its
//! stream follow. With any, nothing follows: `{prompt}` is the task (standard input if it is
//! missing), `{system}` the path of a file with the system prompt (before the task if missing),
//! `{model}` and `{tools}` what was asked for (refused if missing). An argument whose placeholder has
//! no value is left out; if it was nothing but that placeholder, the flag before it, too.
//!
//! In opencode's inline configuration `{env:…}` and `{file:…}` are replaced wherever they stand, so
//! the system prompt, which may come from a repository, goes by a file: that one is taken as it is.
//!
//! Tried with pi 0.73.1, Claude Code 2.1.330, Codex 0.169.0, Gemini CLI 0.61.0, opencode 1.18.33.
//!
//! Not here: starting anything, `cwd`, the environment beyond what a CLI is told by it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

pub use self::mcp_server::McpServer;
use self::mcp_server::{CLAUDE_TOOLS, OPENCODE_TOOLS};
use super::{agent_file::checked_name, stream::Dialect};

mod mcp_server;

/// One argument, or one variable with its name: Linux takes 128 KiB with the NUL at its end.
pub const ARG_BYTES_MAX: usize = (128 << 10) - 1;

/// A task, or a system prompt.
pub const TASK_BYTES_MAX: usize = 1 << 20;

/// The words of a configured command.
const WORDS_MAX: usize = 64;

/// A model's name.
const MODEL_BYTES_MAX: usize = 256;

const SYSTEM_FILE: &str = "system.md";
const POLICY_FILE: &str = "policy.toml";
const SERVERS_FILE: &str = "mcp.json";

/// The agent of a run in opencode's configuration.
const OPENCODE_AGENT: &str = "tasuki";

/// Claude Code's other name, as `tasuki connect` has it.
const CLAUDE_CODE: &str = "claude-code";

/// `[runner.NAME]` of a configuration.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunnerConfig {
    pub command: Option<Vec<String>>,
    pub stream: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    pub name: String,
    pub dialect: Dialect,
    /// None: the built-in one.
    pub command: Option<Vec<String>>,
}

impl Runner {
    /// What it is started with, the program first.
    fn words(&self) -> Vec<String> {
        self.command.clone().unwrap_or_else(|| vec![self.dialect.as_str().to_owned()])
    }

    pub fn program(&self) -> &str {
        let words = self.command.as_deref().unwrap_or_default();
        words.first().map_or_else(|| self.dialect.as_str(), String::as_str)
    }

    /// Whether its words are all there is: no built-in arguments follow.
    fn is_template(&self) -> bool {
        self.command.iter().flatten().any(|word| has_placeholder(word))
    }
}

/// What is wrong with `[runner.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("[runner.{name}]: {text}")]
pub struct ConfigProblem {
    pub name: String,
    pub text: String,
}

/// All runners by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerTable(BTreeMap<String, Runner>);

impl Default for RunnerTable {
    fn default() -> Self {
        let builtin = |dialect: Dialect| {
            let name = dialect.as_str().to_owned();
            (name.clone(), Runner { name, dialect, command: None })
        };
        Self(Dialect::ALL.into_iter().map(builtin).collect())
    }
}

impl RunnerTable {
    /// The built-in runners, and what a configuration adds or replaces.
    ///
    /// # Errors
    /// With every problem of the configuration.
    pub fn new(config: &BTreeMap<String, RunnerConfig>) -> Result<Self, Vec<ConfigProblem>> {
        let mut table = Self::default();
        let mut problems = Vec::new();
        for (name, runner) in config {
            match table.configured(name, runner) {
                Ok(runner) => drop(table.0.insert(runner.name.clone(), runner)),
                Err(text) => problems.push(ConfigProblem { name: name.clone(), text }),
            }
        }
        if problems.is_empty() { Ok(table) } else { Err(problems) }
    }

    fn configured(&self, name: &str, config: &RunnerConfig) -> Result<Runner, String> {
        let name = checked_name(canonical(name), "runner")?;
        let dialect = match (&config.stream, self.0.get(&name)) {
            (Some(stream), _) => stream.parse().map_err(|error| format!("{error}"))?,
            (None, Some(builtin)) => builtin.dialect,
            (None, None) => {
                return Err("`stream` is missing: pi, claude, codex, gemini or opencode".to_owned());
            }
        };
        let Some(words) = &config.command else {
            return Err("`command` is missing: a list of words, the program first".to_owned());
        };
        let is_empty = words.first().is_none_or(|program| program.trim().is_empty());
        if is_empty || words.len() > WORDS_MAX {
            return Err(format!("`command` must have 1 to {WORDS_MAX} words, the program first"));
        }
        if words.iter().any(|word| word.contains('\0') || word.len() > ARG_BYTES_MAX) {
            return Err("`command` has a word that is too long or contains NUL".to_owned());
        }
        if words.first().is_some_and(|program| has_placeholder(program)) {
            return Err("`command` must begin with a program, not with a placeholder".to_owned());
        }
        Ok(Runner { name, dialect, command: Some(words.clone()) })
    }

    pub fn get(&self, name: &str) -> Option<&Runner> {
        self.0.get(canonical(name))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Runner> {
        self.0.values()
    }
}

/// The name that a runner has in every table.
pub fn canonical(name: &str) -> &str {
    if name == CLAUDE_CODE { Dialect::Claude.as_str() } else { name }
}

/// What a run asks of a runner.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub task: &'a str,
    /// Blank is none.
    pub system: &'a str,
    pub model: Option<&'a str>,
    pub tools: Option<&'a [String]>,
    /// The node's, for this run; none where the CLI could not reach it.
    pub mcp: Option<&'a McpServer>,
    /// A directory for this run alone, where [`CommandLine::files`] will be.
    pub dir: &'a Path,
}

/// A file that must be there before the program starts, for its user alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFile {
    pub path: PathBuf,
    pub text: String,
}

/// All that starts a run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The program first.
    pub argv: Vec<String>,
    /// Beside the environment that the run gets anyway.
    pub env: Vec<(String, String)>,
    pub files: Vec<RunFile>,
    /// What its standard input holds before it ends; none is an empty one.
    pub stdin: Option<String>,
}

/// Why a run cannot be started like that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("The task is empty.")]
    EmptyTask,
    #[error("The {what} contains a NUL character, which cannot be passed to a program.")]
    Nul { what: &'static str },
    #[error("The {what} has {bytes} bytes; at most {max} can be passed to `{runner}`.")]
    TooLong { what: &'static str, bytes: usize, max: usize, runner: String },
    #[error("Invalid model name `{0}`.")]
    BadModel(String),
    #[error("Runner `{runner}` cannot limit tools to `{tool}`. Use plain tool names.")]
    BadTool { tool: String, runner: String },
    #[error(
        "Runner `{0}` cannot limit tools. Remove `tools` from the agent's file, or choose another runner."
    )]
    CannotLimitTools(String),
    #[error("Runner `{runner}` cannot pass the {what}: add `{{{what}}}` to its command.")]
    NoPlaceholder { runner: String, what: &'static str },
    #[error("The run's directory is not UTF-8: {0}")]
    Directory(PathBuf),
}

/// The command line of a run.
///
/// # Errors
/// When something asked for cannot be passed, or not without a loss.
pub fn command_line(runner: &Runner, request: &Request<'_>) -> Result<CommandLine, RequestError> {
    check(runner, request)?;
    let mut draft = CommandBuilder { runner, request, line: CommandLine::default() };
    draft.line.argv = runner.words();
    if runner.is_template() {
        draft.fill()?;
    } else {
        draft.builtin()?;
    }
    draft.checked()
}

/// The command that prints a runner's version, where that is known.
pub fn version_command(runner: &Runner) -> Option<Vec<String>> {
    let words = runner.words().into_iter().chain(["--version".to_owned()]);
    (!runner.is_template()).then(|| words.collect())
}

fn check(runner: &Runner, request: &Request<'_>) -> Result<(), RequestError> {
    if request.task.trim().is_empty() {
        return Err(RequestError::EmptyTask);
    }
    for (what, text) in [("task", request.task), ("system prompt", request.system)] {
        if text.contains('\0') {
            return Err(RequestError::Nul { what });
        }
        if text.len() > TASK_BYTES_MAX {
            let (bytes, runner) = (text.len(), runner.name.clone());
            return Err(RequestError::TooLong { what, bytes, max: TASK_BYTES_MAX, runner });
        }
    }
    let is_wrong = |word: &str| {
        word.is_empty()
            || word.starts_with('-')
            || word.len() > MODEL_BYTES_MAX
            || word.chars().any(char::is_control)
    };
    if let Some(model) = request.model.filter(|model| is_wrong(model)) {
        return Err(RequestError::BadModel(model.escape_debug().collect()));
    }
    let braces = runner.dialect == Dialect::Opencode;
    let is_bad = |tool: &&String| {
        // A rule limits how a tool is used, and the lists of these programs cannot.
        let is_rule = tool.contains(['(', ')', ',']);
        is_wrong(tool) || is_rule || (braces && tool.contains(['{', '}']))
    };
    if let Some(tool) = request.tools.unwrap_or_default().iter().find(is_bad) {
        let (tool, runner) = (tool.escape_debug().collect(), runner.name.clone());
        return Err(RequestError::BadTool { tool, runner });
    }
    Ok(())
}

const PLACEHOLDERS: [&str; 4] = ["{prompt}", "{system}", "{model}", "{tools}"];

fn has_placeholder(word: &str) -> bool {
    PLACEHOLDERS.iter().any(|placeholder| word.contains(placeholder))
}

/// A command line that grows.
struct CommandBuilder<'a> {
    runner: &'a Runner,
    request: &'a Request<'a>,
    line: CommandLine,
}

impl<'a> CommandBuilder<'a> {
    fn arg(&mut self, words: &[&str]) {
        self.line.argv.extend(words.iter().map(|word| (*word).to_owned()));
    }

    /// The system prompt, if there is one.
    fn system(&self) -> Option<&'a str> {
        Some(self.request.system).filter(|system| !system.trim().is_empty())
    }

    fn tools(&self) -> Option<String> {
        self.request.tools.map(|tools| tools.join(","))
    }

    fn prompt(&self) -> String {
        match self.runner.dialect {
            Dialect::Pi => format!("Task: {}", self.request.task),
            Dialect::Claude | Dialect::Codex | Dialect::Gemini | Dialect::Opencode => {
                self.request.task.to_owned()
            }
        }
    }

    fn prompt_with_system(&self) -> String {
        match self.system() {
            Some(system) => format!("{system}\n\n{}", self.prompt()),
            None => self.prompt(),
        }
    }

    /// A file of this run. Returns its path.
    fn file(&mut self, name: &str, text: &str) -> Result<String, RequestError> {
        let path = self.request.dir.join(name);
        let unnamed = || RequestError::Directory(self.request.dir.to_owned());
        let shown = path.to_str().ok_or_else(unnamed)?.to_owned();
        self.line.files.push(RunFile { path, text: text.to_owned() });
        Ok(shown)
    }

    fn system_file(&mut self) -> Result<Option<String>, RequestError> {
        self.system().map(|system| self.file(SYSTEM_FILE, system)).transpose()
    }

    fn builtin(&mut self) -> Result<(), RequestError> {
        self.arg(match self.runner.dialect {
            Dialect::Pi => &["--mode", "json", "-p", "--no-session"],
            Dialect::Claude => &["-p", "--output-format", "stream-json", "--verbose"],
            Dialect::Codex => &["exec", "--json", "--skip-git-repo-check"],
            Dialect::Gemini => &["--output-format", "stream-json", "--skip-trust"],
            Dialect::Opencode => &["run", "--format", "json"],
        });
        if let Some(model) = self.request.model {
            self.arg(&["--model", model]);
        }
        self.line.stdin = Some(self.prompt());
        match self.runner.dialect {
            Dialect::Pi => self.pi(),
            Dialect::Claude => self.claude(),
            Dialect::Codex => self.codex(),
            Dialect::Gemini => self.gemini(),
            Dialect::Opencode => self.opencode(),
        }
    }

    fn pi(&mut self) -> Result<(), RequestError> {
        if let Some(tools) = self.tools() {
            self.arg(&["--tools", &tools]);
        }
        if let Some(path) = self.system_file()? {
            self.arg(&["--append-system-prompt", &path]);
        }
        let prompt = self.line.stdin.take_if(|prompt| prompt.len() <= ARG_BYTES_MAX);
        self.line.argv.extend(prompt);
        Ok(())
    }

    fn claude(&mut self) -> Result<(), RequestError> {
        if let Some(tools) = self.tools() {
            // With a space the flag would take the words that follow, too.
            self.line.argv.push(format!("--tools={tools}"));
            // It limits built-in tools alone.
            if !tools.split(',').any(|tool| tool.starts_with("mcp__")) {
                self.arg(&["--strict-mcp-config"]);
            }
        }
        if let Some(server) = self.request.mcp {
            let path = self.file(SERVERS_FILE, &server.claude_file())?;
            // With a space these flags, too, would take the words that follow.
            let tools = format!("--allowedTools={CLAUDE_TOOLS}");
            self.line.argv.extend([format!("--mcp-config={path}"), tools]);
        }
        if let Some(path) = self.system_file()? {
            self.arg(&["--append-system-prompt-file", &path]);
        }
        Ok(())
    }

    fn codex(&mut self) -> Result<(), RequestError> {
        if self.request.tools.is_some() {
            return Err(RequestError::CannotLimitTools(self.runner.name.clone()));
        }
        if let Some(system) = self.system() {
            let value = toml::Value::String(system.to_owned());
            self.arg(&["-c", &format!("developer_instructions={value}")]);
        }
        if let Some(server) = self.request.mcp {
            for setting in server.codex_settings() {
                self.arg(&["-c", &setting]);
            }
        }
        self.arg(&["-"]);
        Ok(())
    }

    fn gemini(&mut self) -> Result<(), RequestError> {
        if let Some(tools) = self.request.tools {
            let path = self.file(POLICY_FILE, &gemini_policy(tools))?;
            self.arg(&["--policy", &path]);
        }
        self.line.stdin = Some(self.prompt_with_system());
        Ok(())
    }

    fn opencode(&mut self) -> Result<(), RequestError> {
        let path = self.system_file()?;
        let Request { tools, mcp, .. } = *self.request;
        let agent = (path.is_some() || tools.is_some())
            .then(|| opencode_agent(path.as_deref(), tools, mcp.is_some()));
        if agent.is_some() {
            self.arg(&["--agent", OPENCODE_AGENT]);
        }
        if agent.is_some() || mcp.is_some() {
            let config = opencode_config(agent, mcp);
            self.line.env.push(("OPENCODE_CONFIG_CONTENT".to_owned(), config));
        }
        Ok(())
    }

    /// A configured command with placeholders.
    fn fill(&mut self) -> Result<(), RequestError> {
        let words = std::mem::take(&mut self.line.argv);
        let has = |placeholder: &str| words.iter().any(|word| word.contains(placeholder));
        let runner = &self.runner.name;
        for (what, is_asked) in
            [("model", self.request.model.is_some()), ("tools", self.request.tools.is_some())]
        {
            if is_asked && !has(&format!("{{{what}}}")) {
                return Err(RequestError::NoPlaceholder { runner: runner.clone(), what });
            }
        }
        let prompt = if has("{system}") { self.prompt() } else { self.prompt_with_system() };
        let system = if has("{system}") { self.system_file()? } else { None };
        let tools = self.tools();
        let model = self.request.model.map(str::to_owned);
        let mut argv: Vec<String> = Vec::new();
        for word in &words {
            let is_flag_value = PLACEHOLDERS.contains(&word.as_str());
            let after_flags = argv.iter().any(|word| word == "--");
            let values = [Some(&prompt), system.as_ref(), model.as_ref(), tools.as_ref()];
            match replace(word, &values) {
                Some(text) if is_flag_value && !after_flags && text.starts_with(['-', '@']) => {
                    // No program takes a line break for the beginning of a flag or of a file's name.
                    argv.push(format!("\n{text}"));
                }
                Some(text) => argv.push(text),
                None if is_flag_value && argv.len() > 1 => {
                    drop(argv.pop_if(|flag| flag.starts_with('-') && flag != "--"));
                }
                None => {}
            }
        }
        self.line.argv = argv;
        if !has("{prompt}") {
            self.line.stdin = Some(prompt);
        }
        Ok(())
    }

    fn checked(self) -> Result<CommandLine, RequestError> {
        let env = self.line.env.iter().map(|(name, value)| name.len() + 1 + value.len());
        let longest = self.line.argv.iter().map(String::len).chain(env).max().unwrap_or(0);
        if longest > ARG_BYTES_MAX {
            let is_system = self.request.system.len() > self.request.task.len();
            let what = if is_system { "system prompt" } else { "task" };
            let runner = self.runner.name.clone();
            return Err(RequestError::TooLong { what, bytes: longest, max: ARG_BYTES_MAX, runner });
        }
        Ok(self.line)
    }
}

/// A word with its placeholders replaced, once and literally; none if one of them has no value.
fn replace(word: &str, values: &[Option<&String>; 4]) -> Option<String> {
    let mut text = String::new();
    let mut rest = word;
    while let Some(start) = rest.find('{') {
        text.push_str(&rest[..start]);
        rest = &rest[start..];
        let found = PLACEHOLDERS.iter().zip(values).find(|(name, _)| rest.starts_with(**name));
        if let Some((name, value)) = found {
            text.push_str((*value)?);
            rest = &rest[name.len()..];
        } else {
            text.push('{');
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    Some(text)
}

/// A policy of Gemini CLI that denies every tool but these. An administrator's rules go before it.
fn gemini_policy(tools: &[String]) -> String {
    let names = toml::Value::from(tools.to_vec());
    format!(
        "[[rule]]\ntoolName = \"*\"\ndecision = \"deny\"\npriority = 900\n\n\
         [[rule]]\ntoolName = {names}\ndecision = \"allow\"\npriority = 950\n"
    )
}

/// The agent of a run in opencode's configuration.
fn opencode_agent(system: Option<&str>, tools: Option<&[String]>, has_server: bool) -> Value {
    let mut agent = json!({ "description": "A run of Tasuki", "mode": "primary" });
    if let Some(path) = system {
        agent["prompt"] = format!("{{file:{path}}}").into();
    }
    if let Some(tools) = tools {
        let mut map = Map::new();
        map.insert("*".to_owned(), false.into());
        map.extend(tools.iter().map(|tool| (tool.clone(), true.into())));
        if has_server {
            map.insert(OPENCODE_TOOLS.to_owned(), true.into());
        }
        agent["tools"] = map.into();
    }
    agent
}

fn opencode_config(agent: Option<Value>, mcp: Option<&McpServer>) -> String {
    let mut config = Map::new();
    if let Some(agent) = agent {
        config.insert("agent".to_owned(), json!({ OPENCODE_AGENT: agent }));
    }
    if let Some(server) = mcp {
        config.insert("mcp".to_owned(), server.opencode_servers());
    }
    Value::Object(config).to_string()
}

#[cfg(test)]
mod tests;
