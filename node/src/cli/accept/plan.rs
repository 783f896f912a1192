//! What is to be run, where and how: all that can be refused before anything happens.

use std::{fmt::Write as _, path::PathBuf};

use tasuki_proto::{
    swarm::{CommitHash, NotACommitHash},
    wire,
};

use super::{Args, Failure, Output};
use crate::{
    accept::{
        allowed::{self, Denied},
        checkout::{NoCheckout, Repository},
        report::COMMANDS_BYTES_MAX,
        run,
        settings::Settings,
    },
    cli::text::line,
    config::{Config, FILE},
    process::{policy::Kind, sandbox},
};

/// Commands named with a refusal.
const SHOWN_MAX: usize = 20;

/// What is to be run.
pub(super) struct Plan {
    pub(super) commit: CommitHash,
    /// As they were named, and their words.
    pub(super) commands: Vec<(String, Vec<String>)>,
    pub(super) settings: Settings,
    pub(super) repository: Repository,
    pub(super) data: PathBuf,
}

pub(super) async fn make(
    args: &Args,
    rerun: &wire::Rerun,
    config: &Config,
    output: &mut Output,
) -> Result<Plan, Failure> {
    if let Some(why) = &config.accept_distrust {
        output.note(&format!("{why}."));
    }
    if rerun.commit.is_empty() || rerun.commands.is_empty() {
        let what = if rerun.commit.is_empty() { "commit" } else { "command" };
        return Err(Failure::usage(format!(
            "No {what} was named that could be run again, so nothing was claimed and nothing was \
             run. Whoever delivers names both, the commit by its full hash; a verdict without \
             that is given with --no-run."
        )));
    }
    let commit = rerun.commit.parse().map_err(|why: NotACommitHash| {
        Failure::usage(format!(
            "The commit {why}. Nothing was run: a branch may be another commit tomorrow."
        ))
    })?;
    let settings = settings(config, &rerun.commands)?;
    let bytes: usize = rerun.commands.iter().map(String::len).sum();
    if COMMANDS_BYTES_MAX < bytes {
        return Err(Failure::usage(format!(
            "The commands have {bytes} bytes; with more than {COMMANDS_BYTES_MAX} there is no \
             evidence. Nothing was run."
        )));
    }
    let words = allowed::check(&rerun.commands, &settings.allow)
        .map_err(|denied| not_allowed(&denied, config))?;
    check_sandbox(&settings, config)?;
    let repository = Repository::open(args.repository.as_deref()).await.map_err(not_found)?;
    if let Some(remote) = &args.fetch {
        repository.fetch(remote).await.map_err(not_found)?;
    }
    repository.check(&commit).await.map_err(not_found)?;
    let commands = rerun.commands.iter().cloned().zip(words).collect();
    Ok(Plan { commit, commands, settings, repository, data: config.root.clone() })
}

fn settings(config: &Config, commands: &[String]) -> Result<Settings, Failure> {
    let settings = config.accept.as_ref().map(|it| it.value.clone());
    let settings = settings.filter(|it| !it.allow.is_empty());
    settings.ok_or_else(|| {
        let denied: Vec<Denied> =
            commands.iter().map(|it| Denied { command: it.clone(), why: None }).collect();
        not_allowed(&denied, config)
    })
}

/// Names the commands, and how the operator lets them run.
fn not_allowed(denied: &[Denied], config: &Config) -> Failure {
    let mut text = "Nothing was run and nothing was claimed, because of".to_owned();
    let mut take = |more: String| {
        write!(text, "\n  {more}").expect("a String takes everything");
    };
    for Denied { command, why } in denied.iter().take(SHOWN_MAX) {
        let command = line(command);
        match why {
            Some(why) => take(format!("{command}\n    {why}")),
            None => take(format!("{command}\n    is not allowed on this machine")),
        }
    }
    if SHOWN_MAX < denied.len() {
        take(format!("and {} more", denied.len() - SHOWN_MAX));
    }
    if denied.iter().any(|it| it.why.is_none()) {
        let file = config.accept.as_ref().map(|it| it.source.to_string());
        let own = || config.root.join(FILE).display().to_string();
        let file = file.unwrap_or_else(own);
        let first = denied.iter().find(|it| it.why.is_none());
        let words = first.and_then(|it| allowed::split(&it.command).ok()).unwrap_or_default();
        let example = format!("[accept] allow = [{}]", quoted(&allowed::joined(&words)));
        let next = "If you let others' agents run that here, say so in";
        write!(text, "\n{next} {file}:\n  {example}").expect("a String takes everything");
    }
    Failure::usage(text)
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::String(line(text)).to_string()
}

fn check_sandbox(settings: &Settings, config: &Config) -> Result<(), Failure> {
    if settings.kind == Kind::None {
        return Ok(());
    }
    if let Some(open) = run::opens(settings, &config.root) {
        return Err(Failure::usage(format!(
            "Nothing was run: commands may read {}, and Tasuki's own data with its keys lies in \
             there, at {}. Name narrower directories in `[accept]`, or move the data (--data).",
            open.display(),
            config.root.display()
        )));
    }
    sandbox::check_descriptors().map_err(|why| {
        Failure::local(format!("Nothing was run: {why}. Close it there, and try again."))
    })?;
    sandbox::look().map_err(|why| {
        Failure::local(format!(
            "Nothing was run: {why}. Whoever wants to run others' commands without a sandbox, in \
             a machine kept for that, says `sandbox = \"none\"` in `[accept]`; the evidence says \
             so, too."
        ))
    })
}

/// Why a commit is not taken out.
pub(super) fn not_found(why: NoCheckout) -> Failure {
    let next = match &why {
        NoCheckout::Unknown(..) => {
            " Fetch it with --fetch REMOTE, or name another clone with --repository DIR."
        }
        NoCheckout::NoRepository(..) => " Name the clone that has the commit: --repository DIR.",
        NoCheckout::NoGit(_) => " Is git installed?",
        NoCheckout::Setting(..) => {
            " If you set it yourself, run `git fetch` there and call this again without --fetch."
        }
        NoCheckout::NoCommit(_)
        | NoCheckout::NoRemote(..)
        | NoCheckout::Git(..)
        | NoCheckout::Disk(..) => "",
    };
    Failure::local(format!("Nothing was run: {why}.{next}"))
}
