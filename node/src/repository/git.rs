//! What the program `git` is asked about a repository, without letting that say what is run.
//!
//! Only commands that read are called, and what a repository's configuration may name to be run
//! (monitors, hooks, pagers, helpers that fetch what is missing) is turned off.

use std::{
    io::{self, Read as _},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

/// One question. The longest, for the first commit, walks all of them: seconds where there are a
/// million, and such repositories have a remote.
const PATIENCE: Duration = Duration::from_secs(5);

/// Of an answer, in bytes: ten thousand names of changed files, and then some.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    #[error(
        "the program `git` is not on the search path; install it, or start this with a PATH that has it"
    )]
    Missing,
    #[error("`git {0}` gave no answer within {secs} s", secs = PATIENCE.as_secs())]
    Late(String),
    #[error("`git {asked}` failed: {why}")]
    Failed { asked: String, why: String },
}

/// Set by a git that calls us: which repository and which changes it is about. They are for the one
/// question about those changes, and would lead every other one there, too.
const ABOUT_A_COMMIT: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
];

/// Of no use to any question.
const OTHERS: [&str; 6] = [
    "GIT_PREFIX",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EXTERNAL_DIFF",
    "GIT_TRACE",
    "GIT_GRAFT_FILE",
];

/// Asks about what the work trees of a repository share; `None`: git ended with 1, which is its
/// "no". Blocks until then.
pub(super) fn ask(common: &Path, arguments: &[&str]) -> Result<Option<Vec<u8>>, NoAnswer> {
    call(common, Some(common), arguments)
}

/// The same in a work tree of the commit that is being made, when git called us for that.
pub(super) fn ask_of_commit(root: &Path, arguments: &[&str]) -> Result<Vec<u8>, NoAnswer> {
    Ok(call(root, None, arguments)?.unwrap_or_default())
}

fn call(
    directory: &Path,
    about: Option<&Path>,
    arguments: &[&str],
) -> Result<Option<Vec<u8>>, NoAnswer> {
    let words = arguments.iter().filter(|it| !it.starts_with('-'));
    let asked = words.copied().next().unwrap_or_default().to_owned();
    let mut command = Command::new("git");
    command.args(["--no-pager", "--no-optional-locks"]);
    for setting in [
        "core.fsmonitor=false",
        "core.untrackedCache=false",
        // Whose it is does not matter: what is called only reads, and runs nothing of it.
        "safe.directory=*",
    ] {
        command.args(["-c", setting]);
    }
    // Nothing that is asked calls hooks; where they are is asked itself.
    if arguments.first() != Some(&"config") {
        command.args(["-c", "core.hooksPath=/dev/null"]);
    }
    if let Some(about) = about {
        command.arg("--git-dir").arg(about);
        for name in ABOUT_A_COMMIT {
            command.env_remove(name);
        }
    }
    for name in OTHERS {
        command.env_remove(name);
    }
    command.args(arguments).current_dir(directory);
    command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_NO_REPLACE_OBJECTS", "1");
    command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |why: &dyn std::fmt::Display| NoAnswer::Failed {
        asked: asked.clone(),
        why: why.to_string(),
    };
    let is_missing = |why: &io::Error| why.kind() == io::ErrorKind::NotFound;
    let mut child = command
        .spawn()
        .map_err(|why| if is_missing(&why) { NoAnswer::Missing } else { failed(&why) })?;
    let (tell, told) = mpsc::channel();
    let mut readers = Vec::new();
    let pipes: [(bool, Option<Box<dyn io::Read + Send>>); 2] = [
        (true, child.stdout.take().map(|it| Box::new(it) as _)),
        (false, child.stderr.take().map(|it| Box::new(it) as _)),
    ];
    for (is_answer, pipe) in pipes {
        let (tell, Some(pipe)) = (tell.clone(), pipe) else { continue };
        readers.push(std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = pipe.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut bytes);
            // Nobody listens where patience ended.
            drop(tell.send((is_answer, read.map(|_| bytes))));
        }));
    }
    let (mut answer, mut words) = (Vec::new(), Vec::new());
    for _ in 0..readers.len() {
        match told.recv_timeout(PATIENCE) {
            Ok((true, bytes)) => answer = bytes.map_err(|why| failed(&why))?,
            Ok((false, bytes)) => words = bytes.unwrap_or_default(),
            Err(_) => {
                drop(child.kill());
                drop(child.wait());
                return Err(NoAnswer::Late(asked));
            }
        }
    }
    let status = child.wait().map_err(|why| failed(&why))?;
    if ANSWER_BYTES_MAX < answer.len() as u64 {
        return Err(failed(&format_args!("it said more than {ANSWER_BYTES_MAX} bytes")));
    }
    match status.code() {
        Some(0) => Ok(Some(answer)),
        Some(1) => Ok(None),
        _ => {
            let words = String::from_utf8_lossy(&words);
            let first = words.lines().next().unwrap_or_default();
            Err(failed(&if first.is_empty() { status.to_string() } else { first.to_owned() }))
        }
    }
}
