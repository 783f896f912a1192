//! Runs one program about one happening.
//!
//! - **Q3** What runs was chosen by the operator alone: the program is looked up once, at start,
//!   and no word of a message becomes a part of the command line or of the environment.
//! - **Q4** A program that outlives its time limit, or whose call is given up, is killed with all
//!   it started in its process group.
//!
//! A program that leaves its process group on purpose is not followed.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tasuki_proto::visible::is_visible;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    time,
};

use super::{attempt::Failure, spec};

/// Of what a program prints, kept to say why it failed, in bytes of each of its two outputs.
const OUTPUT_BYTES_MAX: usize = 4 * 1024;

/// For what a program printed to be read once it has ended, in milliseconds: something that it
/// left behind may keep its outputs open.
const LAST_WORDS_MS: u64 = 200;

/// What of the node's environment a program gets: where to find others, whose it is, how to show
/// something to its user.
pub(crate) const KEPT: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// A program that can be run.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    directory: PathBuf,
    environment: Vec<(&'static str, OsString)>,
}

impl Program {
    /// Looks it up. Says in half a sentence why it cannot be run.
    pub fn find(command: &spec::Command) -> Result<Self, String> {
        let environment = KEPT.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        let path = look_up(&command.program, std::env::var_os("PATH").as_deref())?;
        Ok(Self {
            path,
            arguments: command.arguments.clone(),
            directory: command.directory.clone(),
            environment: environment.collect(),
        })
    }

    /// What is run.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs it with `input` as its standard input. Dropping the future kills it.
    pub async fn run(&self, input: File, limit: Duration) -> Result<(), Failure> {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).current_dir(&self.directory);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        command.process_group(0);
        command.kill_on_drop(true);
        let child = command.spawn();
        let child = child.map_err(|why| {
            Failure::passing(format!("{} cannot be started: {why}", self.path.display()))
        })?;
        let mut group = Group(child);
        let (mut out, mut err) = (Printed::default(), Printed::default());
        let (stdout, stderr) = (group.0.stdout.take(), group.0.stderr.take());
        let ended = {
            let outputs = async { tokio::join!(out.take_in(stdout), err.take_in(stderr)) };
            tokio::pin!(outputs);
            let mut is_read = false;
            let deadline = time::sleep(limit);
            tokio::pin!(deadline);
            let ended = loop {
                tokio::select! {
                    ended = group.0.wait() => break Some(ended),
                    _ = &mut outputs, if !is_read => is_read = true,
                    () = &mut deadline => break None,
                }
            };
            group.kill();
            if !is_read && ended.is_some() {
                let last_words = Duration::from_millis(LAST_WORDS_MS);
                drop(time::timeout(last_words, &mut outputs).await);
            }
            ended
        };
        let why = match ended {
            Some(Ok(status)) if status.success() => return Ok(()),
            Some(Ok(status)) => how(status),
            Some(Err(why)) => format!("nobody knows how it ended: {why}"),
            None => format!("killed after its limit of {} s", limit.as_secs_f32()),
        };
        Err(Failure::passing(why).saying(&printed(&out, &err)))
    }
}

/// A program and what it started. It is killed when this is dropped before it ended.
struct Group(Child);

impl Group {
    /// Only while the program was not waited for is its number its own for certain.
    fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(id) = self.0.id().and_then(|id| i32::try_from(id).ok())
            && let Some(group) = rustix::process::Pid::from_raw(id)
        {
            // One that has just ended is killed already.
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
        }
        #[cfg(not(unix))]
        drop(self.0.start_kill());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The beginning of what a program printed.
#[derive(Default)]
struct Printed(Vec<u8>);

impl Printed {
    /// Reads to the end, so that the program is never held up.
    async fn take_in(&mut self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let room = OUTPUT_BYTES_MAX.saturating_sub(self.0.len()).min(count);
            self.0.extend_from_slice(&buffer[..room]);
        }
    }
}

fn printed(out: &Printed, err: &Printed) -> String {
    [("stderr", err), ("stdout", out)]
        .into_iter()
        .filter(|(_, printed)| !printed.0.is_empty())
        .map(|(name, printed)| format!("; {name}: {}", excerpt(&printed.0)))
        .collect()
}

/// What somebody else wrote, in one line that cannot do anything to a terminal.
pub fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split_whitespace().map(|word| word.chars().filter(|c| is_visible(*c)));
    let words: Vec<String> = words.map(Iterator::collect).collect();
    let line = words.join(" ");
    if line.chars().count() <= EXCERPT_CHARS_MAX {
        return line;
    }
    line.chars().take(EXCERPT_CHARS_MAX).chain(['…']).collect()
}

/// What is kept of somebody else's words to say why a call failed.
const EXCERPT_CHARS_MAX: usize = 500;

pub(crate) fn how(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("ended by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => "ended without an exit code".to_owned(),
    }
}

/// The program of an absolute path, or of a name that the variable `PATH` leads to.
pub(crate) fn look_up(program: &str, path: Option<&OsStr>) -> Result<PathBuf, String> {
    let named = Path::new(program);
    if named.is_absolute() {
        return match runnable(named) {
            Ok(()) => Ok(named.to_owned()),
            Err(why) => Err(format!("cannot be run: {program}: {why}")),
        };
    }
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    let mut places = folders.filter(|folder| folder.is_absolute()).map(|it| it.join(program));
    let found = places.find(|place| runnable(place).is_ok());
    found.ok_or_else(|| format!("cannot be run: no folder of PATH has a program {program:?}"))
}

/// Whether it is a program; why not, if it is none.
pub(crate) fn runnable(path: &Path) -> io::Result<()> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 == 0 {
        return Err(io::Error::other("it is not executable"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
