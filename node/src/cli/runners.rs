//! `tasuki runners`: the agent CLIs that this machine can start.

use std::{io, process::Stdio, time::Duration};

use futures::future::join_all;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tokio::{process::Command as Process, time::timeout};

use super::{Exit, Failure, Output, text::line};
use crate::{
    config::Config,
    runner::runners::{Runner, RunnerTable, version_command},
};

/// For a program to print its version.
const VERSION_MAX: Duration = Duration::from_secs(20);

/// What is shown of a version, in characters.
const VERSION_CHARS_MAX: usize = 60;

/// Manage the agent CLIs that can be started on this machine
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Show which agent CLIs this machine can start, and their versions
    ///
    /// Asks each program for its version, which costs nothing. Runners are pi, claude, codex, gemini
    /// and opencode, and those in the configuration under [runner.NAME]. Exits with 5 if one that
    /// the configuration names cannot be started.
    Check,
}

/// What is known of one.
struct Checked<'a> {
    runner: &'a Runner,
    /// `None`: its command has placeholders, so it was not started.
    version: Option<Result<String, String>>,
}

pub(crate) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let Command::Check = command;
    if let Some(why) = &config.runners_distrust {
        output.note(&why.to_string());
    }
    let builtin = RunnerTable::default();
    let table = config.runners.as_ref().map_or(&builtin, |it| &it.value);
    let checked = join_all(table.iter().map(check)).await;
    let is_one_lost = checked.iter().any(|it| it.lost().is_some());
    let value = || json!({"runners": checked.iter().map(Checked::value).collect::<Vec<_>>()});
    output.answer(value, || checked.iter().map(Checked::line).collect())?;
    if is_one_lost { Err(Failure::told(Exit::Local)) } else { Ok(()) }
}

/// The runners that the configuration names and this machine cannot start, and why.
pub(super) async fn unusable(config: &Config) -> Vec<(String, String)> {
    let table = config.runners.iter().flat_map(|it| it.value.iter());
    let checked = join_all(table.filter(|it| it.command.is_some()).map(check)).await;
    let lost = |it: &Checked<'_>| Some((it.runner.name.to_string(), it.lost()?.to_owned()));
    checked.iter().filter_map(lost).collect()
}

async fn check(runner: &Runner) -> Checked<'_> {
    let version = match version_command(runner) {
        Some(words) => Some(version(&words).await),
        None => None,
    };
    Checked { runner, version }
}

impl Checked<'_> {
    /// Why one that the configuration names cannot be started.
    fn lost(&self) -> Option<&str> {
        let why = self.version.as_ref()?.as_ref().err()?;
        self.runner.command.is_some().then_some(why.as_str())
    }

    fn program(&self) -> &str {
        let words = self.runner.command.as_deref().unwrap_or_default();
        words.first().map_or_else(|| self.runner.dialect.as_str(), String::as_str)
    }

    fn line(&self) -> String {
        let found = match &self.version {
            Some(Ok(version)) => line(version),
            Some(Err(why)) => line(why).red().to_string(),
            None => "not asked: its command has placeholders".dimmed().to_string(),
        };
        format!("{:<12} {:<12} {found}\n", line(&self.runner.name).bold(), line(self.program()))
    }

    fn value(&self) -> Value {
        let (version, error) = match &self.version {
            Some(Ok(version)) => (Some(version), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        json!({
            "name": self.runner.name, "program": self.program(),
            "stream": self.runner.dialect.as_str(), "version": version, "error": error,
        })
    }
}

/// What a program says of its version, or why it does not.
async fn version(words: &[String]) -> Result<String, String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err("has no program".to_owned());
    };
    let mut process = Process::new(program);
    process.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let said = match timeout(VERSION_MAX, process.output()).await {
        Ok(Ok(said)) => said,
        Ok(Err(why)) if why.kind() == io::ErrorKind::NotFound => {
            return Err("not installed, or not on the PATH".to_owned());
        }
        Ok(Err(why)) => return Err(format!("cannot be started: {why}")),
        Err(_) => return Err(format!("said nothing within {} s", VERSION_MAX.as_secs())),
    };
    let text = String::from_utf8_lossy(&said.stdout);
    let first = text.lines().find(|it| !it.trim().is_empty()).unwrap_or_default().trim();
    if !said.status.success() {
        return Err(format!("`--version` failed ({})", said.status));
    }
    Ok(first.chars().take(VERSION_CHARS_MAX).collect())
}
