//! What the tests of journals share.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use tasuki_broker::journal::{Journal, Listener, Opened, Outcome, Snapshot, SnapshotLost, Writer};
use tasuki_proto::id::WorkspaceId;
use tokio::sync::mpsc;

pub(crate) fn id(name: &str) -> WorkspaceId {
    name.parse().expect("an id")
}

/// Outcomes in the order they were told.
pub(crate) struct Heard(mpsc::Receiver<Outcome>);

impl Heard {
    pub(crate) async fn next(&mut self) -> Outcome {
        self.0.recv().await.expect("another outcome")
    }

    /// Waits until everything up to `sequence` is durable.
    pub(crate) async fn durable(&mut self, sequence: u64) {
        loop {
            let outcome = self.next().await;
            if !matches!(outcome, Outcome::Durable { through } if through.get() < sequence) {
                assert_eq!(outcome, Outcome::Durable { through: sequence.into() });
                return;
            }
        }
    }
}

pub(crate) fn listener() -> (Heard, Listener) {
    // More outcomes than any test leaves unheard.
    let (tell, heard) = mpsc::channel(100_000);
    let listener = move |outcome| {
        let told = tell.try_send(outcome);
        assert!(!matches!(told, Err(mpsc::error::TrySendError::Full(_))), "there is room");
    };
    (Heard(heard), Arc::new(listener))
}

pub(crate) async fn open(journal: &dyn Journal, workspace: &str) -> (Opened, Heard) {
    let (heard, listener) = listener();
    (journal.open(&id(workspace), listener).await.expect("opens"), heard)
}

/// Writes a snapshot with these pieces.
pub(crate) fn write_snapshot(
    writer: &mut dyn Writer,
    sequence: u64,
    pieces: impl IntoIterator<Item = Bytes>,
    keep_from: u64,
) {
    try_write_snapshot(writer, sequence, pieces, keep_from).expect("it is written");
}

/// The same where the journal may fail meanwhile.
pub(crate) fn try_write_snapshot(
    writer: &mut dyn Writer,
    sequence: u64,
    pieces: impl IntoIterator<Item = Bytes>,
    keep_from: u64,
) -> Result<(), SnapshotLost> {
    let mut snapshot = writer.snapshot(sequence.into(), keep_from.into());
    pieces.into_iter().try_for_each(|piece| snapshot.piece(piece))?;
    snapshot.finish()
}

/// The record that a snapshot includes last, and its pieces.
pub(crate) fn read_snapshot(snapshot: Option<Snapshot>) -> Option<(u64, Vec<Bytes>)> {
    let snapshot = snapshot?;
    let pieces = snapshot.pieces.collect::<Result<_, _>>().expect("its pieces are read");
    Some((snapshot.sequence.get(), pieces))
}

/// Copies a directory with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("creates");
    for entry in from.read_dir().expect("a directory") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("copies");
        }
    }
}

/// A small, seeded source of numbers: a failing seed can be run again.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Below `limit`.
    pub(crate) fn roll(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }
}

/// Says a line to the process that started this one.
pub(crate) fn say(line: impl std::fmt::Display) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the parent listens");
}

/// Runs the test `name` of this binary in a process of its own.
pub(crate) fn child(name: &str) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().expect("a path"));
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    // A backtrace that nobody reads takes longer than the rest.
    command.stderr(std::process::Stdio::null()).env("RUST_BACKTRACE", "0");
    command
}

/// The lines a child says, until it ends; each within `limit` of the one before.
pub(crate) struct Lines {
    child: std::process::Child,
    lines: std::sync::mpsc::Receiver<String>,
    limit: std::time::Duration,
}

impl Lines {
    pub(crate) fn of(mut command: std::process::Command, limit: std::time::Duration) -> Self {
        use std::io::BufRead;
        let mut child = command.spawn().expect("starts");
        let out = std::io::BufReader::new(child.stdout.take().expect("it is piped"));
        let (say, lines) = std::sync::mpsc::sync_channel(1024);
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).all(|line| say.send(line).is_ok())
        });
        Self { child, lines, limit }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// Silence for longer than the limit.
    pub(crate) fn next(&mut self) -> Result<Option<String>, String> {
        use std::sync::mpsc::RecvTimeoutError;
        match self.lines.recv_timeout(self.limit) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(format!("silent for {:?}", self.limit)),
        }
    }

    /// Kills it the hard way, if it still runs, and returns what it had said.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().and_then(|()| self.child.wait().map(|_| ())).expect("ends");
        self.lines.iter().collect()
    }
}
