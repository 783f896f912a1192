//! Where sessions run that need a terminal: a window of tmux, a window of its own, or wherever a
//! person types the command.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command as StdCommand, Output, Stdio},
    time::Duration,
};

use tokio::{process::Command, time::timeout};

use crate::{
    cli::Failure,
    config::{Config, Key},
    hooks::command::look_up,
    launch::settings::Terminal,
};

/// For tmux to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

const TMUX: &str = "tmux";

/// Terminal emulators, with what stands before the command that one runs.
const EMULATORS: [(&str, &[&str]); 9] = [
    ("x-terminal-emulator", &["-e"]),
    ("gnome-terminal", &["--"]),
    ("konsole", &["-e"]),
    ("kitty", &[]),
    ("alacritty", &["-e"]),
    ("wezterm", &["start", "--"]),
    ("foot", &[]),
    ("xfce4-terminal", &["-x"]),
    ("xterm", &["-e"]),
];

/// Where sessions of this launch run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// In this session of tmux.
    Tmux { session: String },
    /// Each in a window that this program opens.
    Window { emulator: PathBuf, before: &'static [&'static str] },
    /// A person types the command.
    Print,
}

pub(super) fn find(program: &str) -> Result<PathBuf, String> {
    look_up(program, env::var_os("PATH").as_deref())
}

impl Place {
    pub(super) fn choose(asked: Terminal, config: &Config) -> Result<Self, Failure> {
        let tmux = || {
            find(TMUX).ok()?;
            Some(Self::Tmux { session: session(config.workspace.value.as_str()) })
        };
        let window = || {
            // Without a screen none opens.
            let has_screen =
                ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|it| env::var_os(it).is_some());
            let known = EMULATORS.iter().filter(|_| has_screen);
            let open = |(name, before): &(&str, &'static [&'static str])| {
                Some(Self::Window { emulator: find(name).ok()?, before })
            };
            known.filter_map(open).next()
        };
        match asked {
            Terminal::Auto => Ok(tmux().or_else(window).unwrap_or(Self::Print)),
            Terminal::Print => Ok(Self::Print),
            Terminal::Tmux => tmux().ok_or_else(|| {
                Failure::local("tmux is not in PATH. Install it, or use --terminal print.")
            }),
            Terminal::Window => window().ok_or_else(|| {
                Failure::local(
                    "No terminal emulator is known here. Use --terminal tmux or --terminal print.",
                )
            }),
        }
    }

    /// Where a role's session is, for people.
    pub(super) fn of_role(&self, role: &str) -> String {
        match self {
            Self::Tmux { session } => format!("tmux window {session}:{role}"),
            Self::Window { emulator, .. } => format!("a window of {}", emulator.display()),
            Self::Print => "a terminal of yours".to_owned(),
        }
    }

    /// How a person gets there.
    pub(super) fn attach(&self) -> Option<String> {
        match self {
            Self::Tmux { session } => Some(format!("tmux attach -t {session}")),
            Self::Window { .. } | Self::Print => None,
        }
    }

    /// Starts a role's command, where that is not left to a person.
    pub(super) async fn start(
        &self,
        role: &str,
        argv: &[String],
        directory: &Path,
    ) -> Result<(), Failure> {
        match self {
            Self::Tmux { session } => start_in_tmux(session, role, argv, directory).await,
            Self::Window { emulator, before } => {
                let mut command = StdCommand::new(emulator);
                command.args(*before).args(argv).current_dir(directory);
                spawn_apart(&mut command).map(drop).map_err(|why| {
                    Failure::local(format!("{} cannot be run: {why}.", emulator.display()))
                })
            }
            Self::Print => Ok(()),
        }
    }
}

/// Starts a program that goes on without this one.
pub(in crate::cli) fn spawn_apart(
    command: &mut StdCommand,
) -> std::io::Result<std::process::Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A terminal's interrupt is not meant for it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command.spawn()
}

/// tmux has no `.` and `:` in names of sessions.
fn session(workspace: &str) -> String {
    format!("tasuki-{}", workspace.replace(['.', ':'], "_"))
}

async fn start_in_tmux(
    session: &str,
    role: &str,
    argv: &[String],
    directory: &Path,
) -> Result<(), Failure> {
    let window = format!("={session}:={role}");
    // That of a session that ended stays open for its last lines.
    tmux(["kill-window", "-t", &window], Vec::new()).await.ok();
    let is_there = tmux(["has-session", "-t", &format!("={session}")], Vec::new()).await.is_ok();
    let mut words: Vec<String> = Vec::new();
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    if is_there {
        add(&["-d", "-t", &format!("={session}:"), "-n", role]);
    } else {
        add(&["-d", "-s", session, "-n", role, "-x", "160", "-y", "48"]);
    }
    add(&["-c", &directory.to_string_lossy()]);
    for (name, value) in settings() {
        add(&["-e", &format!("{name}={value}")]);
    }
    add(&["--"]);
    words.extend_from_slice(argv);
    add_option(&mut words, &window);
    tmux([if is_there { "new-window" } else { "new-session" }], words).await.map(drop)
}

/// The window stays when its program ends. Said in the same breath, so that it holds from the start.
fn add_option(words: &mut Vec<String>, window: &str) {
    let option = [";", "set-option", "-w", "-t", window, "remain-on-exit", "on"];
    words.extend(option.map(str::to_owned));
}

/// The settings among this process's variables: a server of tmux that runs already has others.
fn settings() -> Vec<(&'static str, String)> {
    let names = Key::ALL.iter().map(|key| key.env()).chain(["TASUKI_CONFIG"]);
    names.filter_map(|name| Some((name, env::var(name).ok()?))).collect()
}

/// What the pane shows in which this process runs; `None`: it runs in none.
pub(super) async fn screen() -> Option<String> {
    let pane = env::var("TMUX_PANE").ok()?;
    let output = tmux(["capture-pane", "-p", "-t", &pane], Vec::new()).await.ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

async fn tmux<const N: usize>(arguments: [&str; N], more: Vec<String>) -> Result<Output, Failure> {
    let mut command = Command::new(TMUX);
    command.args(arguments).args(more).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(ANSWER_WITHIN, command.output()).await;
    let output = output.map_err(|_| Failure::local("tmux does not answer."))?;
    let output = output.map_err(|why| Failure::local(format!("tmux cannot be run: {why}.")))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::local(format!("tmux: {}.", said.trim().trim_end_matches('.'))))
}

/// A command as one types it in a shell.
pub(super) fn typed(argv: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    let word = |word: &String| match word.chars().all(is_plain) && !word.is_empty() {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_shell_takes_it() {
        let argv = ["/b/claude", "--x", "it's $1", ""].map(str::to_owned);
        assert_eq!(typed(&argv), "/b/claude --x 'it'\\''s $1' ''");
    }

    #[test]
    fn a_workspace_has_a_session_that_tmux_can_name() {
        assert_eq!(session("my.app"), "tasuki-my_app");
    }
}
