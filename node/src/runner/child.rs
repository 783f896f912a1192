//! One agent CLI as a process: started under a keeper, read all the time, ended for sure.
//!
//! - **RN4** When [`run`] returns, or is dropped, nothing of the process is left.
//! - **RN5** Both outputs are read as they come and kept apart; a child that prints without end costs
//!   memory of a known size.
//!
//! A run that is to stop gets SIGTERM, and SIGKILL for whatever is left after [`GRACE`]. One that
//! had ended before the signal reached it was not stopped.
//!
//! Not here: what the bytes mean (`stream`), what came of it (`outcome`).

use std::{
    ffi::OsString,
    io::{self, Write as _},
    path::Path,
    time::Duration,
};

use tasuki_proto::host::files;
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe,
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use super::{
    outcome::{Exit, Outcome, Stopped},
    runners::CommandLine,
    stream::{Dialect, Progress, Reader},
};
use crate::process::{
    keeper::{Ended, Input, Order},
    kept::{Kept, Outputs, Pipes, Surroundings},
    policy::Policy,
    tail::Tail,
};

/// Usual time to end by itself, before the next harder means.
pub const GRACE: Duration = Duration::from_secs(5);

/// Usual time for an agent that has said its last word to end: some still tidy up, and where the
/// network is slow or away that takes its time.
pub const LINGER: Duration = Duration::from_secs(30);

/// For what was printed to be read once everything has ended.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Bytes of output read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// The file with what its standard input holds.
const STDIN: &str = "stdin";

/// The end of standard error that is kept, in bytes.
const STDERR_BYTES_MAX: usize = 8 * 1024;

/// A run that is to be started.
#[derive(Debug)]
pub struct Job<'a> {
    /// This program, under which the agent runs.
    pub keeper: &'a Path,
    pub command_line: &'a CommandLine,
    pub dialect: Dialect,
    /// Where the agent works.
    pub directory: &'a Path,
    /// A directory of this run alone, for its user alone; its files go there.
    pub own: &'a Path,
    /// All of it: nothing else is passed on.
    pub environment: &'a [(String, OsString)],
    pub policy: Policy,
    pub limit: Duration,
    /// Between SIGTERM and SIGKILL: [`GRACE`].
    pub grace: Duration,
    /// Between the last word of an agent and SIGTERM: [`LINGER`].
    pub linger: Duration,
}

/// Runs it to its end, until its time is over, or until `stop` says why it is to stop.
pub async fn run(
    job: &Job<'_>,
    mut stop: watch::Receiver<Option<Stopped>>,
    on_progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Outcome {
    let program = job.command_line.argv.first().cloned().unwrap_or_default();
    let mut reader = Reader::new(job.dialect);
    let (mut kept, mut outputs) = match start(job) {
        Ok(started) => started,
        Err(why) => {
            let exit = Exit::NotStarted { program, why: why.to_string() };
            return Outcome::new(reader.finish(on_progress), exit, "", None);
        }
    };
    let deadline = Instant::now() + job.limit;
    let (mut stopped, mut lingers, mut kill) = (None, None, None);
    let ended = loop {
        let is_asked = stopped.is_some();
        let why = tokio::select! {
            ended = kept.told() => break ended,
            () = outputs.read(&mut reader, on_progress), if outputs.is_open() => {
                if reader.report().is_settled || outputs.stdout.is_none() {
                    lingers.get_or_insert_with(|| Instant::now() + job.linger);
                }
                continue;
            }
            why = asked(&mut stop), if !is_asked => why,
            () = sleep_until(deadline), if !is_asked => Stopped::TimedOut { secs: job.limit.as_secs() },
            () = due(lingers), if !is_asked => Stopped::Lingering,
            () = due(kill) => break kept.end().await,
        };
        kept.terminate().await;
        stopped = Some(why);
        kill = Some(Instant::now() + job.grace);
    };
    kept.gone().await;
    // Its keeper knows which came first.
    let stopped = stopped.filter(|_| ended.as_ref().is_none_or(|it| it.was_stopped));
    // Everybody who could write is gone, so this ends.
    let rest = async {
        while outputs.is_open() {
            outputs.read(&mut reader, on_progress).await;
        }
    };
    timeout(LAST_WORDS, rest).await.ok();
    let (report, stderr) = (reader.finish(on_progress), outputs.errors.text());
    Outcome::new(report, exit(ended.as_ref(), program), &stderr, stopped.as_ref())
}

fn start(job: &Job<'_>) -> io::Result<(Kept, Streams)> {
    let line = job.command_line;
    for file in &line.files {
        files::private(&file.path)?.write_all(file.text.as_bytes())?;
    }
    let input = line.stdin.as_ref().map(|text| {
        let path = job.own.join(STDIN);
        files::private(&path)?.write_all(text.as_bytes())?;
        Ok::<_, io::Error>(Input::File(path))
    });
    let input = input.transpose()?.unwrap_or(Input::Empty);
    let order = Order { policy: job.policy.clone(), words: line.argv.clone(), input };
    let told = line.env.iter().map(|(name, value)| (name.clone(), OsString::from(value)));
    let environment: Vec<_> = job.environment.iter().cloned().chain(told).collect();
    let at = Surroundings { directory: job.directory, environment: &environment };
    let (kept, pipes) = Kept::start(job.keeper, &order, &at, Outputs::Apart, None)?;
    Ok((kept, Streams::new(pipes)))
}

/// How it ended, as its keeper told it.
fn exit(ended: Option<&Ended>, program: String) -> Exit {
    let Some(ended) = ended else { return Exit::KeeperLost };
    if let Some(why) = &ended.why_not {
        return Exit::NotStarted { program, why: why.clone() };
    }
    match (ended.code, ended.signal) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

/// Resolves when the run is to stop.
async fn asked(stop: &mut watch::Receiver<Option<Stopped>>) -> Stopped {
    let why = stop.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
    match why {
        Some(why) => why,
        // Nobody is left who could say so.
        None => std::future::pending().await,
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What a child writes.
struct Streams {
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    from_stdout: Vec<u8>,
    from_stderr: Vec<u8>,
    errors: Tail,
}

impl Streams {
    fn new(Pipes { stdout, stderr }: Pipes) -> Self {
        let piece = || vec![0; PIECE_BYTES];
        let errors = Tail::new(STDERR_BYTES_MAX);
        Self { stdout: Some(stdout), stderr, from_stdout: piece(), from_stderr: piece(), errors }
    }

    fn is_open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Reads some of either.
    async fn read(
        &mut self,
        reader: &mut Reader,
        on_progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) {
        tokio::select! {
            count = piece(&mut self.stdout, &mut self.from_stdout) => match count {
                0 => self.stdout = None,
                count => reader.push(&self.from_stdout[..count], on_progress),
            },
            count = piece(&mut self.stderr, &mut self.from_stderr) => match count {
                0 => self.stderr = None,
                count => self.errors.push(&self.from_stderr[..count]),
            },
        }
    }
}

/// The next bytes; 0 at the end, and for ever nothing after it.
async fn piece(from: &mut Option<pipe::Receiver>, into: &mut [u8]) -> usize {
    match from {
        // What cannot be read has ended.
        Some(from) => from.read(into).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}
