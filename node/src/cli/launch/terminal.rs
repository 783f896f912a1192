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
    config::{Config, Key, Source},
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
            Some(Self::Tmux { session: session(config) })
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
            Self::Tmux { session } => {
                format!("tmux window {session}:{}", name(role, Path::new("")))
            }
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
            Self::Tmux { session } => start_in_tmux(session, role, argv).await,
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

/// One for each workspace of each data directory.
fn session(config: &Config) -> String {
    let is_usual = config.data.source == Source::Default;
    let data = if is_usual { Path::new("") } else { &config.data.value };
    name(&format!("tasuki-{}", config.workspace.value), data)
}

/// A name by which tmux finds again what it is: it has no `.` and `:` in names. One that was changed,
/// or is of something elsewhere, is told apart by the end.
fn name(text: &str, of: &Path) -> String {
    let plain = text.replace(['.', ':'], "_");
    if plain == text && of.as_os_str().is_empty() {
        return plain;
    }
    let whole = format!("{text}\0{}", of.display());
    let hash = blake3::hash(whole.as_bytes()).to_hex();
    format!("{plain}-{}", &hash[..6])
}

async fn start_in_tmux(session: &str, role: &str, argv: &[String]) -> Result<(), Failure> {
    let name = name(role, Path::new(""));
    let window = format!("={session}:={name}");
    make_room(session, &name).await?;
    let target = format!("={session}:");
    let is_there = tmux(["has-session", "-t", &format!("={session}")], Vec::new()).await.is_ok();
    let begin = ["new-session", "-d", "-s", session, "-n", &name, "-x", "160", "-y", "48"];
    let add = ["new-window", "-d", "-t", &target, "-n", &name];
    let words = in_window(argv, &window);
    if !is_there {
        match tmux(begin, words.clone()).await {
            // Another launch was quicker.
            Err(why) if why.message.contains("duplicate session") => {}
            done => return done.map(drop),
        }
    }
    tmux(add, words).await.map(drop)
}

/// Closes the window that a role had before. That of a session that ended stays open for its last
/// lines; one that no launch opened is a person's.
async fn make_room(session: &str, name: &str) -> Result<(), Failure> {
    let target = format!("={session}:");
    let form = "#{pane_dead}#{@tasuki} #{window_name}";
    // Without the session there is none of its windows.
    let Ok(output) = tmux(["list-windows", "-t", &target, "-F", form], Vec::new()).await else {
        return Ok(());
    };
    let windows = String::from_utf8_lossy(&output.stdout);
    let mut windows = windows.lines().filter_map(|line| line.split_once(' '));
    let Some((what, _)) = windows.find(|(_, own)| *own == name) else { return Ok(()) };
    if what == "0" {
        return Err(Failure::local(format!(
            "The session {session} of tmux has a window {name} that no launch opened. Rename or \
             close it first."
        )));
    }
    let window = format!("={session}:={name}");
    tmux(["kill-window", "-t", &window], Vec::new()).await.ok();
    Ok(())
}

/// What follows where a window is: its command with its variables, and that it is one of these. The
/// command goes to the project's directory by itself: tmux would run what stands in the directory's
/// name between `#(` and `)`.
fn in_window(argv: &[String], window: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (name, value) in settings() {
        words.extend(["-e".to_owned(), format!("{name}={value}")]);
    }
    words.push("--".to_owned());
    words.extend_from_slice(argv);
    add_option(&mut words, window, "remain-on-exit", "on");
    add_option(&mut words, window, "@tasuki", "launched");
    words
}

/// Said in the same breath, so that it holds from the start.
fn add_option(words: &mut Vec<String>, window: &str, name: &str, value: &str) {
    let option = [";", "set-option", "-w", "-t", window, name, value];
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
    fn what_tmux_cannot_name_has_a_name_of_its_own() {
        let (usual, other) = (Path::new(""), Path::new("/data"));
        assert_eq!(name("tasuki-my_app", usual), "tasuki-my_app");
        let folded = name("tasuki-my.app", usual);
        assert!(folded.starts_with("tasuki-my_app-") && folded.len() == 20, "{folded}");
        let elsewhere = name("tasuki-my_app", other);
        assert!(elsewhere != folded && elsewhere.starts_with("tasuki-my_app-"), "{elsewhere}");
        assert_eq!(elsewhere, name("tasuki-my_app", other));
    }
}
