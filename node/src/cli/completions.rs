//! `tasuki completions`: what a shell has to know to complete these commands.
//!
//! The script asks this program for what fits where the cursor is, so it is short and stays right
//! when the program is upgraded.

use std::ffi::OsStr;

use clap_complete::{
    CompleteEnv, Shell,
    engine::{ArgValueCompleter, CompletionCandidate},
    env::Shells,
};

use super::{Failure, Output, help};
use crate::{
    config::{Config, Environment, Layer},
    paths::NodeFile,
};

/// The environment variable by which the script says that a shell asks, and which one.
const VARIABLE: &str = "_TASUKI_COMPLETE";

/// Options whose value is the name of a role.
const ROLE_OPTIONS: [&str; 2] = ["role", "to"];

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "For bash: source <(tasuki completions bash)\n\
                        For zsh:  source <(tasuki completions zsh)\n\
                        For fish: tasuki completions fish | source")]
pub struct Args {
    /// Shell
    shell: Shell,
}

/// Answers a shell that asks for completions, and ends this process; returns where none asks.
pub(super) fn answer() {
    CompleteEnv::with_factory(|| with_roles(help::whole())).var(VARIABLE).complete();
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let written = shells
        .completer(&name)
        .map(|shell| shell.write_registration(VARIABLE, "tasuki", "tasuki", "tasuki", &mut script));
    match written {
        Some(Ok(())) => output.raw(&String::from_utf8_lossy(&script)),
        Some(Err(_)) | None => Err(Failure::usage(format!("There is no script for {name}."))),
    }
}

/// Names the running node's roles where a role is asked for: a file's worth of reading.
fn with_roles(command: clap::Command) -> clap::Command {
    let complete = |arg: clap::Arg| match ROLE_OPTIONS.contains(&arg.get_id().as_str()) {
        true => arg.add(ArgValueCompleter::new(roles)),
        false => arg,
    };
    command.mut_args(complete).mut_subcommands(with_roles)
}

fn roles(typed: &OsStr) -> Vec<CompletionCandidate> {
    let (config, _) = Config::look(Layer::new(), None, &Environment::of_process());
    let running = NodeFile::read(&config.data.value).map(|node| node.roles).unwrap_or_default();
    let set = config.roles.value.iter().map(|role| role.name.to_string());
    let typed = typed.to_string_lossy();
    let mut names: Vec<String> = running.into_iter().chain(set).collect();
    names.sort();
    names.dedup();
    let fitting = names.into_iter().filter(|name| name.starts_with(&*typed));
    fitting.map(CompletionCandidate::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell reads it at each start.
    #[test]
    fn a_script_is_short_for_every_shell() {
        const BYTES_MAX: usize = 4096;
        for shell in Shells::builtins().iter() {
            let mut script = Vec::new();
            shell.write_registration(VARIABLE, "tasuki", "tasuki", "tasuki", &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains(VARIABLE), "{}: {script}", shell.name());
            assert!(script.len() < BYTES_MAX, "{}: {} bytes", shell.name(), script.len());
            let named: Result<Shell, _> = shell.name().parse();
            assert!(named.is_ok_and(|it| it.to_string() == shell.name()), "{}", shell.name());
        }
    }

    #[test]
    fn commands_and_options_are_completed() {
        let complete = |line: &str| {
            let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
            let mut command = with_roles(help::whole());
            let last = words.len() - 1;
            let found = clap_complete::engine::complete(&mut command, words, last, None).unwrap();
            let values = found.iter().map(|it| it.get_value().to_string_lossy().into_owned());
            values.collect::<Vec<String>>()
        };
        for (line, expected) in [
            ("tasuki comp", "completions"),
            ("tasuki loop hi", "history"),
            ("tasuki mail list out", "outbox"),
            ("tasuki loop history --jso", "--json"),
            ("tasuki completions z", "zsh"),
        ] {
            let found = complete(line);
            assert!(found.iter().any(|it| it == expected), "{line}: {found:?}");
        }
    }
}
