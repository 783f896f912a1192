//! Runs one command again, and listens to it.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    report::{Outcome, Printed},
    settings::Settings,
};
use crate::{
    clock,
    process::{
        keeper::{Ended, Input, Order, own_program},
        kept::{Kept, Outputs, Surroundings},
        policy::{Policy, SINKS, SYSTEM},
    },
};

/// For what was printed to be read once everything has ended, in milliseconds.
const LAST_WORDS_MS: u64 = 5_000;

/// Bytes of output read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// What a command is told of its surroundings beside what the operator names.
const PASSED_ON: [&str; 4] = ["PATH", "LANG", "LC_ALL", "TERM"];

/// Where and how commands of one delivery run.
#[derive(Debug)]
pub struct Runner {
    policy: Policy,
    directory: PathBuf,
    environment: Vec<(String, OsString)>,
    limit: Duration,
}

/// What came of one.
#[derive(Debug)]
pub struct Run {
    pub outcome: Outcome,
    pub printed: Printed,
    pub took: Duration,
}

/// Why a command was not run, or nobody knows how it ended.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    #[error("it cannot be started: {0}")]
    Start(io::Error),
    #[error("nobody knows how it ended: what watched over it is gone")]
    Unwatched,
    #[error("there is no sandbox: {0}")]
    NoSandbox(String),
    #[error("it was stopped")]
    Stopped,
    #[error("something of it is still running and cannot be ended")]
    Left,
}

impl Runner {
    /// For commands that run in `checkout`, with `temporary` for everything that they keep.
    pub fn new(settings: &Settings, checkout: &Path, temporary: &Path) -> Self {
        let own = [checkout.to_owned(), temporary.to_owned()];
        let passed_on = PASSED_ON.iter().map(|name| ((*name).to_owned(), None));
        let named = settings.env.iter().cloned();
        let environment = passed_on.chain(named).filter_map(|(name, value)| {
            let value = value.map(OsString::from).or_else(|| std::env::var_os(&name))?;
            Some((name, value))
        });
        let private = ["HOME", "TMPDIR"].map(|name| (name.to_owned(), temporary.into()));
        Self {
            policy: settings.policy(&own),
            directory: checkout.to_owned(),
            environment: private.into_iter().chain(environment).collect(),
            limit: settings.limit,
        }
    }

    /// How evidence calls the sandbox.
    pub fn sandbox(&self) -> String {
        self.policy.name()
    }

    /// Runs it to its end, to the end of its time, or until it is to `stop`; then nothing of it is
    /// left. Dropping the future ends it, too, and does not wait for that.
    pub async fn run(&self, words: &[String], stop: &CancellationToken) -> Result<Run, Lost> {
        let (mut kept, mut output) = self.start(words).map_err(Lost::Start)?;
        let began = clock::now();
        let mut printed = Printed::default();
        let watching = async {
            let first = tokio::select! {
                told = kept.told() => First::Told(told),
                () = sleep(self.limit) => First::OverTime,
                () = stop.cancelled() => First::Stopped,
            };
            let took = clock::now().since(began);
            let ended = match &first {
                First::Told(ended) => ended.clone(),
                First::OverTime | First::Stopped => kept.end().await,
            };
            kept.gone().await;
            (judge(ended, first), took)
        };
        let (outcome, took) = {
            let reading = listen(&mut output, &mut printed);
            tokio::pin!(watching, reading);
            let mut is_read = false;
            let watched = loop {
                tokio::select! {
                    watched = &mut watching => break watched,
                    () = &mut reading, if !is_read => is_read = true,
                }
            };
            if !is_read {
                drop(timeout(Duration::from_millis(LAST_WORDS_MS), reading).await);
            }
            watched
        };
        Ok(Run { outcome: outcome?, printed, took })
    }

    fn start(&self, words: &[String]) -> io::Result<(Kept, pipe::Receiver)> {
        let order =
            Order { policy: self.policy.clone(), words: words.to_vec(), input: Input::Empty };
        let at = Surroundings { directory: &self.directory, environment: &self.environment };
        let (kept, pipes) = Kept::start(&own_program()?, &order, &at, Outputs::Together, None)?;
        Ok((kept, pipes.stdout))
    }
}

/// What came first.
#[derive(Debug)]
enum First {
    Told(Option<Ended>),
    OverTime,
    Stopped,
}

fn judge(ended: Option<Ended>, first: First) -> Result<Outcome, Lost> {
    let Some(ended) = ended else { return Err(Lost::Unwatched) };
    if !ended.is_all_gone {
        return Err(Lost::Left);
    }
    if let Some(why) = ended.why_not {
        return Err(Lost::NoSandbox(why));
    }
    match (first, ended) {
        (First::Stopped, _) => Err(Lost::Stopped),
        (First::OverTime, _) => Ok(Outcome::TimedOut),
        (First::Told(_), Ended { code: Some(code), .. }) => Ok(Outcome::Exit(code)),
        (First::Told(_), Ended { signal: Some(signal), .. }) => Ok(Outcome::Signal(signal)),
        (First::Told(_), Ended { code: None, signal: None, .. }) => Err(Lost::Unwatched),
    }
}

/// Reads to the end, so that the command is never held up.
async fn listen(output: &mut pipe::Receiver, printed: &mut Printed) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = output.read(&mut piece).await {
        printed.take_in(&piece[..count]);
    }
}

/// The first directory that commands may read through which `secret` would be open to them. Rights
/// that were given for a directory cannot be taken away for what lies in it.
pub fn opens(settings: &Settings, secret: &Path) -> Option<PathBuf> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let secret = real(secret);
    let fixed = SYSTEM.iter().chain(&SINKS).map(PathBuf::from);
    let named = settings.read.iter().chain(&settings.write).cloned();
    fixed.chain(named).find(|it| secret.starts_with(real(it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_around_what_is_secret_is_found() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("home/data");
        std::fs::create_dir_all(&data).unwrap();
        std::os::unix::fs::symlink(place.path().join("home"), place.path().join("link")).unwrap();
        let is_open = |path: &str| {
            let settings = Settings { read: vec![place.path().join(path)], ..Settings::default() };
            opens(&settings, &data).is_some()
        };
        assert!(is_open("home") && is_open("link") && is_open("home/data"));
        assert!(!is_open("home/other") && !is_open("home/data/in"));
        let opt = Path::new("/opt/tasuki");
        assert_eq!(opens(&Settings::default(), opt), Some("/opt".into()));
    }
}
