//! Runs one command to its end and listens to it.

use std::{
    ffi::OsString,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

use tasuki_proto::limits::COMMAND_OUTPUT_BYTES_MAX;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::unix::pipe,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{CommandError, OutputEnd};
use crate::{
    accept::report::Outcome,
    clock,
    process::{
        keeper::{Ended, Input, Order, own_program},
        kept::{Kept, Outputs, Pipes, Surroundings},
        policy::Policy,
        tail::Tail,
    },
};

/// For what was printed to be read once everything has ended, in milliseconds.
const LAST_WORDS_MS: u64 = 5_000;

/// Bytes of output read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// What a command is told of its surroundings beside what the operator names.
const PASSED_ON: [&str; 3] = ["LANG", "LC_ALL", "TERM"];

/// Where programs are looked for that are named without a directory, if the node says nothing.
const PATH_USUAL: &str = "/usr/local/bin:/usr/bin:/bin";

/// One command, ready to run.
pub(super) struct Prepared {
    pub policy: Policy,
    pub words: Vec<String>,
    pub directory: PathBuf,
    pub environment: Vec<(String, OsString)>,
    pub stdin: Option<String>,
    pub limit: Duration,
}

/// What came of it.
pub(super) struct Ran {
    pub outcome: Outcome,
    pub stdout: OutputEnd,
    pub stderr: OutputEnd,
    pub took: Duration,
}

/// What a command has for variables; `temporary` is its own directory. Programs that are named without
/// a directory are never the project's: nothing below `root`, which is a path without links, and no
/// relative directory, is looked in. Blocks on the disk.
pub(super) fn environment(
    named: &[(String, Option<String>)],
    root: &Path,
    temporary: &Path,
    of_node: impl Fn(&str) -> Option<OsString>,
) -> Vec<(String, OsString)> {
    let mut all: Vec<(String, OsString)> = Vec::new();
    for name in ["HOME", "TMPDIR"] {
        all.push((name.to_owned(), temporary.into()));
    }
    let path = of_node("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path);
    // A path may lead there by links, and is nothing of the root's then as it is written.
    let is_own = |it: &PathBuf| {
        it.starts_with(root) || it.canonicalize().is_ok_and(|real| real.starts_with(root))
    };
    let directories = directories.filter(|it| it.is_absolute() && !is_own(it));
    let path = std::env::join_paths(directories).unwrap_or_default();
    let path = if path.is_empty() { PATH_USUAL.into() } else { path };
    all.push(("PATH".to_owned(), path));
    all.extend(PASSED_ON.iter().filter_map(|it| Some(((*it).to_owned(), of_node(it)?))));
    for (name, value) in named {
        let value = value.clone().map(OsString::from).or_else(|| of_node(name));
        all.extend(value.map(|value| (name.clone(), value)));
    }
    all
}

/// Runs it to its end, to the end of its time, or until it is to `stop`; then nothing of it is left.
pub(super) async fn run(it: Prepared, stop: &CancellationToken) -> Result<Ran, CommandError> {
    let Started { mut kept, pipes, stdin } = start(&it).map_err(CommandError::Start)?;
    let began = clock::now();
    let (mut stdout, mut stderr) = (Output::default(), Output::default());
    let watching = async {
        let first = tokio::select! {
            told = kept.told() => First::Told(told),
            () = sleep(it.limit) => First::OverTime,
            () = stop.cancelled() => First::Stopped,
        };
        let took = clock::now().since(began);
        let ended = match &first {
            First::Told(ended) => ended.clone(),
            First::OverTime | First::Stopped => kept.end().await,
        };
        let is_gone = kept.gone().await;
        (judge(ended, first, is_gone), took)
    };
    let (outcome, took) = {
        let exchange = async {
            tokio::join!(
                listen(Some(pipes.stdout), &mut stdout),
                listen(pipes.stderr, &mut stderr),
                feed(stdin, it.stdin.as_deref().unwrap_or_default()),
            );
        };
        tokio::pin!(watching, exchange);
        let mut is_read = false;
        let watched = loop {
            tokio::select! {
                watched = &mut watching => break watched,
                () = &mut exchange, if !is_read => is_read = true,
            }
        };
        if !is_read {
            drop(timeout(Duration::from_millis(LAST_WORDS_MS), exchange).await);
        }
        watched
    };
    Ok(Ran { outcome: outcome?, stdout: stdout.end(), stderr: stderr.end(), took })
}

struct Started {
    kept: Kept,
    pipes: Pipes,
    stdin: Option<pipe::Sender>,
}

fn start(it: &Prepared) -> io::Result<Started> {
    let (input, theirs, stdin) = match it.stdin {
        Some(_) => {
            let (theirs, ours) = io::pipe()?;
            let ours = pipe::Sender::from_owned_fd(OwnedFd::from(ours))?;
            (Input::Pipe, Some(OwnedFd::from(theirs)), Some(ours))
        }
        None => (Input::Empty, None, None),
    };
    let order = Order { policy: it.policy.clone(), words: it.words.clone(), input };
    let at = Surroundings { directory: &it.directory, environment: &it.environment };
    let (kept, pipes) = Kept::start(&own_program()?, &order, &at, Outputs::Apart, theirs)?;
    Ok(Started { kept, pipes, stdin })
}

/// What came first.
#[derive(Debug)]
enum First {
    Told(Option<Ended>),
    OverTime,
    Stopped,
}

/// `is_gone`: nothing of the command is left.
fn judge(ended: Option<Ended>, first: First, is_gone: bool) -> Result<Outcome, CommandError> {
    if ended.is_some() && !is_gone {
        return Err(CommandError::Left);
    }
    if let Some(why) = ended.as_ref().and_then(|it| it.why_not.clone()) {
        return Err(CommandError::NoSandbox(why));
    }
    match (first, ended) {
        (First::Stopped, _) => Err(CommandError::Stopped),
        // The keeper may have had too much to end to say so in time.
        (First::OverTime, None) if !is_gone => Err(CommandError::Left),
        (First::OverTime, _) => Ok(Outcome::TimedOut),
        (First::Told(_), Some(Ended { code: Some(code), .. })) => Ok(Outcome::Exit(code)),
        (First::Told(_), Some(Ended { signal: Some(signal), .. })) => Ok(Outcome::Signal(signal)),
        (First::Told(_), Some(Ended { code: None, signal: None, .. }) | None) => {
            Err(CommandError::Unwatched)
        }
    }
}

/// One output of a command: its end, and how long it is.
struct Output {
    tail: Tail,
    bytes: u64,
}

impl Default for Output {
    fn default() -> Self {
        Self { tail: Tail::new(COMMAND_OUTPUT_BYTES_MAX), bytes: 0 }
    }
}

impl Output {
    fn end(&self) -> OutputEnd {
        let is_cut = (COMMAND_OUTPUT_BYTES_MAX as u64) < self.bytes;
        OutputEnd { text: self.tail.text(), bytes: self.bytes, is_cut }
    }
}

/// Reads to the end, so that the command is never held up.
async fn listen(from: Option<pipe::Receiver>, to: &mut Output) {
    let Some(mut from) = from else { return };
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        to.tail.push(&piece[..count]);
        to.bytes += count as u64;
    }
}

/// Whoever does not read its input is not told so.
async fn feed(to: Option<pipe::Sender>, text: &str) {
    if let Some(mut to) = to {
        to.write_all(text.as_bytes()).await.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_project_are_not_found_by_name() {
        let of_node = |name: &str| match name {
            "PATH" => Some("/p/bin:.::bin:/usr/bin:/p".into()),
            "LANG" => Some("C".into()),
            "TASUKI_TOKEN" | "SECRET" => Some("hidden".into()),
            _ => None,
        };
        let named = [("A".to_owned(), Some("1".to_owned())), ("GONE".to_owned(), None)];
        let all = environment(&named, Path::new("/p"), Path::new("/t"), of_node);
        let all: Vec<String> =
            all.iter().map(|(name, value)| format!("{name}={}", value.display())).collect();
        assert_eq!(all, ["HOME=/t", "TMPDIR=/t", "PATH=/usr/bin", "LANG=C", "A=1"]);
        let all = environment(&[], Path::new("/p"), Path::new("/t"), |_| None);
        assert_eq!(all[2].1, PATH_USUAL);
    }

    #[test]
    fn programs_of_the_project_are_not_found_through_a_link() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap().join("root");
        let link = place.path().join("link");
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::os::unix::fs::symlink(&root, &link).unwrap();
        let of_node = |name: &str| {
            (name == "PATH").then(|| format!("{}/bin:/usr/bin", link.display()).into())
        };
        let all = environment(&[], &root, Path::new("/t"), of_node);
        assert_eq!(all[2].1, "/usr/bin");
    }

    #[test]
    fn a_command_whose_keeper_was_too_slow_timed_out_if_nothing_is_left() {
        let judged = |first, is_gone| judge(None, first, is_gone);
        assert!(matches!(judged(First::OverTime, true), Ok(Outcome::TimedOut)));
        assert!(matches!(judged(First::OverTime, false), Err(CommandError::Left)));
        assert!(matches!(judged(First::Stopped, true), Err(CommandError::Stopped)));
        assert!(matches!(judged(First::Told(None), true), Err(CommandError::Unwatched)));
    }
}
