//! Commands that roles with the toolset `commands` run, and services of the node: without a shell,
//! kept in by the sandbox of `tasuki accept`.
//!
//! - **CM1** What runs was allowed by the operator, word for word or as the beginning of what runs.
//! - **CM2** A command runs inside the sandbox or not at all, unless the operator wants none. It reads
//!   the root of [`Files`], and writes to a directory of its own and to those directories below the
//!   root that the operator names; nothing protected is in them before, and what commands make there
//!   that is protected is put aside when the last of those that run at once has ended.
//! - **CM3** What a command started ends with it: when it ends, at its time limit, when its caller is
//!   gone, and when the node is.
//!
//! Not here: how a command is kept and kept in (`process`), and asking a user where there is no
//! sandbox, which is the tool's.

mod run;
mod scan;
pub mod settings;
#[cfg(test)]
mod tests;
mod writable;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tasuki_proto::{limits::COMMAND_STDIN_BYTES_MAX, reason::Reason};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use self::{
    run::{Prepared, Ran, environment, run},
    writable::{Writable, WritableGuard},
};
pub use self::{scan::SetAside, settings::CommandSettings};
use crate::{
    accept::{
        allowed::{COMMAND_BYTES_MAX, WORDS_MAX, joined},
        checkout::{Place, clean},
        report::Outcome,
    },
    dir::resolved,
    file_access::{Files, check_in_place},
    limiter::Limiter,
    process::{
        policy::{Kind, SYSTEM},
        sandbox,
    },
    refusal::Refusal,
};

/// What may be run, and where.
#[derive(Debug)]
pub struct Commands {
    settings: CommandSettings,
    files: Arc<Files>,
    writable: Arc<Writable>,
    /// Where it is noted which temporary directories there are.
    data: PathBuf,
    places: Limiter,
}

/// What is to be run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunRequest {
    /// The program first.
    pub argv: Vec<String>,
    /// Below the root; empty: the root.
    pub cwd: String,
    /// At most the operator's.
    pub timeout: Option<Duration>,
    pub stdin: Option<String>,
}

/// The end of what a command printed on one of its outputs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputEnd {
    pub text: String,
    /// Of all that it printed.
    pub bytes: u64,
    /// There is more before the text.
    pub is_cut: bool,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutcome {
    pub outcome: Outcome,
    pub stdout: OutputEnd,
    pub stderr: OutputEnd,
    pub took: Duration,
    /// What kept it in.
    pub sandbox: String,
    pub set_aside: SetAside,
}

/// Why a command was not run, or nobody knows how it ended.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("`argv` {0}")]
    Argv(String),
    #[error("`stdin` has more than {COMMAND_STDIN_BYTES_MAX} bytes")]
    Stdin,
    #[error("`cwd`: {0}")]
    Directory(String),
    #[error(
        "{command} is not allowed on this node; allowed are {allowed}. Your user adds it to `allow` in \
         [commands]"
    )]
    NotAllowed { command: String, allowed: String },
    #[error(
        "{0} is protected, and lies where commands may write. Ask your user to move it, or to name \
         narrower directories in [commands] write"
    )]
    Protected(String),
    #[error(
        "directories that commands may write to cannot be looked through: {0}. Ask your user to \
         remove what is there, or to name other directories in [commands] write"
    )]
    Unseen(String),
    #[error("{0}. Ask your user to restart the node")]
    Replaced(String),
    #[error("there is no sandbox: {0}")]
    NoSandbox(String),
    #[error("it cannot be started: {0}")]
    Start(io::Error),
    #[error("{0}")]
    Disk(String),
    #[error("nobody knows how it ended: what watched over it is gone")]
    Unwatched,
    #[error("it was stopped")]
    Stopped,
    #[error("something of it is still running and cannot be ended")]
    Left,
    #[error(transparent)]
    Busy(#[from] Refusal),
}

impl CommandError {
    /// As a caller is told.
    pub fn refusal(self) -> Refusal {
        let nothing = "Nothing was run.";
        let (reason, next) = match &self {
            Self::Argv(_) | Self::Directory(_) => (Reason::InvalidArgument, nothing),
            Self::Stdin => (Reason::TooLarge, nothing),
            Self::NotAllowed { .. }
            | Self::Protected(_)
            | Self::Unseen(_)
            | Self::Replaced(_)
            | Self::NoSandbox(_) => (Reason::CommandForbidden, nothing),
            Self::Start(_) | Self::Disk(_) => (Reason::Unavailable, nothing),
            Self::Unwatched | Self::Stopped | Self::Left => {
                (Reason::OutcomeUnknown, "It may have done a part of its work.")
            }
            Self::Busy(refusal) => return refusal.clone(),
        };
        Refusal { reason, message: format!("{self}. {next}") }
    }
}

impl Commands {
    /// Takes what the operator says. `data` is where the node keeps its state. Blocks on the disk:
    /// what an earlier process left is removed.
    ///
    /// # Errors
    /// Says why nothing can be run: whole sentences, for agents and for logs.
    pub fn open(
        settings: CommandSettings,
        files: &Result<Arc<Files>, String>,
        data: &Path,
    ) -> Result<Self, String> {
        if settings.allow.is_empty() {
            return Err(NOTHING_ALLOWED.to_owned());
        }
        let files = files.as_ref().map(Arc::clone).map_err(|why| {
            format!("Commands run below the root of [files], and there is none. {why}")
        })?;
        let write = check_write(&settings, &files)?;
        if settings.kind == Kind::Landlock {
            check_secrets(&settings, &files)?;
        }
        if let Err(why) = clean(data) {
            tracing::warn!(%why, "temporary directories of commands stay");
        }
        let places = Limiter::new("commands", settings.places);
        let writable = Arc::new(Writable::new(Arc::clone(&files), write, data));
        Ok(Self { settings, files, writable, data: data.to_owned(), places })
    }

    /// Whether commands are kept in; else a user has to be asked about each.
    pub fn is_sandboxed(&self) -> bool {
        self.settings.kind == Kind::Landlock
    }

    pub const fn settings(&self) -> &CommandSettings {
        &self.settings
    }

    /// Judges a request before anything is done.
    ///
    /// # Errors
    /// Says why it may not run.
    pub fn check(&self, request: &RunRequest) -> Result<(), CommandError> {
        let RunRequest { argv, cwd, stdin, .. } = request;
        let wrong = |why: &str| Err(CommandError::Argv(why.to_owned()));
        if argv.first().is_none_or(String::is_empty) {
            return wrong("names no program");
        }
        if WORDS_MAX < argv.len() || COMMAND_BYTES_MAX < argv.iter().map(String::len).sum() {
            return wrong(&format!("has more than {WORDS_MAX} words or {COMMAND_BYTES_MAX} bytes"));
        }
        if argv.iter().any(|it| it.contains('\0')) {
            return wrong("has a zero byte");
        }
        if stdin.as_ref().is_some_and(|it| COMMAND_STDIN_BYTES_MAX < it.len()) {
            return Err(CommandError::Stdin);
        }
        if !self.settings.allow.iter().any(|it| it.allows(argv)) {
            let allowed: Vec<String> =
                self.settings.allow.iter().map(|it| format!("`{it}`")).collect();
            let (command, allowed) = (format!("`{}`", joined(argv)), allowed.join(", "));
            return Err(CommandError::NotAllowed { command, allowed });
        }
        let names = self.files.names(cwd);
        names.map(drop).map_err(|why| CommandError::Directory(why.to_string()))
    }

    /// Runs a command to its end, to the end of its time, or until the future is dropped; then nothing
    /// of it is left.
    ///
    /// # Errors
    /// When it was not run, or nobody knows how it ended.
    pub async fn run(
        self: &Arc<Self>,
        request: RunRequest,
    ) -> Result<CommandOutcome, CommandError> {
        self.check(&request)?;
        let place = self.places.acquire().await?;
        let stop = CancellationToken::new();
        // What is left to do when the caller is gone is done by the task.
        let _gone = stop.clone().drop_guard();
        let own = Arc::clone(self);
        let running = tokio::spawn(async move {
            let ran = own.run_in_place(request, &stop).await;
            drop(place);
            ran
        });
        running.await.unwrap_or(Err(CommandError::Unwatched))
    }

    async fn run_in_place(
        self: Arc<Self>,
        request: RunRequest,
        stop: &CancellationToken,
    ) -> Result<CommandOutcome, CommandError> {
        let own = Arc::clone(&self);
        let prepared = on_disk(move || own.prepare(request)).await?;
        let (place, guard, prepared) = prepared;
        let sandbox = match self.settings.kind {
            Kind::Landlock => prepared.policy.name(),
            Kind::None => NOT_SANDBOXED.to_owned(),
        };
        let ran = run(prepared, stop).await;
        // Also where it failed: it may have begun.
        let finished = on_disk(move || {
            let set_aside = guard.end();
            if let Err(why) = place.remove() {
                tracing::warn!(%why, "a command's temporary directory stays until the next start");
            }
            Ok(set_aside)
        });
        let set_aside = finished.await?;
        let Ran { outcome, stdout, stderr, took } = ran?;
        Ok(CommandOutcome { outcome, stdout, stderr, took, sandbox, set_aside })
    }

    fn prepare(
        &self,
        request: RunRequest,
    ) -> Result<(Place, WritableGuard, Prepared), CommandError> {
        if self.settings.kind == Kind::Landlock {
            sandbox::look().map_err(|why| CommandError::NoSandbox(why.to_string()))?;
        }
        let guard = self.writable.begin()?;
        match self.prepare_in(request, &guard) {
            Ok((place, prepared)) => Ok((place, guard, prepared)),
            Err(why) => {
                guard.end();
                Err(why)
            }
        }
    }

    fn prepare_in(
        &self,
        request: RunRequest,
        guard: &WritableGuard,
    ) -> Result<(Place, Prepared), CommandError> {
        let settings = &self.settings;
        let cwd = self.files.root_dir().walk(Path::new(&request.cwd));
        let cwd = cwd.map_err(|why| CommandError::Directory(why.to_string()))?;
        check_in_place(&cwd).map_err(CommandError::Replaced)?;
        let place = Place::make(&self.data, &std::env::temp_dir());
        let place = place.map_err(|why| CommandError::Disk(why.to_string()))?;
        let limit = request.timeout.unwrap_or(settings.limit).min(settings.limit);
        let root = self.files.root();
        let own = guard.paths().chain([place.temporary()]).collect();
        let of_node = |name: &str| std::env::var_os(name);
        let prepared = Prepared {
            policy: settings.policy(root.to_owned(), own, limit),
            words: request.argv,
            directory: cwd.path().to_owned(),
            environment: environment(&settings.env, root, &place.temporary(), of_node),
            stdin: request.stdin,
            limit,
        };
        Ok((place, prepared))
    }
}

/// How the sandbox is called where there is none.
const NOT_SANDBOXED: &str = "not sandboxed: the operator's configuration says so";

/// What is said where the operator allowed nothing.
pub const NOTHING_ALLOWED: &str = "No command is allowed to agents on this node. Your user allows some in \
                               the node's tasuki.toml: [commands] allow = [\"cargo test *\"].";

/// Checks the directories that commands may write to. Those that lie in another are left out.
///
/// # Errors
/// Says what is wrong with one: a whole sentence.
pub fn check_write(settings: &CommandSettings, files: &Files) -> Result<Vec<String>, String> {
    let checked = writable::check(&settings.write, files);
    checked.map_err(|why| format!("[commands] write: {why}."))
}

/// Rights that were given for a directory cannot be taken away for what lies in it.
fn check_secrets(settings: &CommandSettings, files: &Files) -> Result<(), String> {
    let fixed = SYSTEM.iter().map(PathBuf::from);
    let open: Vec<PathBuf> = fixed
        .chain(settings.read.iter().cloned())
        .map(|it| resolved(&it))
        .chain([files.root().to_owned()])
        .collect();
    for secret in files.private() {
        let real = resolved(secret);
        if let Some(around) = open.iter().find(|it| real.starts_with(it)) {
            return Err(format!(
                "Commands could read {}, and Tasuki's own data with its keys lies in there, at {}. \
                 Name narrower directories, or move the data (--data).",
                around.display(),
                real.display()
            ));
        }
    }
    Ok(())
}

/// Does what blocks on the disk.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CommandError> + Send + 'static,
) -> Result<T, CommandError> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|why| Err(CommandError::Disk(why.to_string())))
}
