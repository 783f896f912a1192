//! Damage: whatever happens to a byte on disk, the journal refuses by name or serves exactly
//! what was written. Never something else, never a crash, never a hang.

mod common;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use common::{Dice, Lines, child, id, open, say, write_snapshot};
use tasuki_broker::journal::{
    Append, BodyKey, Journal, JournalError,
    sled::{Options, SledJournal, verify},
};

/// Trials, each a seed.
const TRIALS: u64 = 200;

/// Trials at a time: mostly they wait for the disk.
const LANES: u64 = 4;

/// One trial, which takes a tenth of a second on an idle machine.
const TRIAL_TIME_MAX: Duration = Duration::from_secs(20);

/// Names the directory to the child.
const DIR: &str = "TASUKI_TEST_DAMAGED_DIR";

/// Writes a journal with some of everything, in two sittings.
async fn write(dir: &Path) {
    for sitting in 0..2 {
        let journal = SledJournal::open(dir, Options::default()).expect("opens");
        for workspace in ["a", "b"] {
            let (mut opened, mut heard) = open(&journal, workspace).await;
            let first = sitting * 60 + 1;
            for sequence in first..first + 60 {
                let size = usize::try_from(sequence % 20 * 400).expect("small");
                let bodies =
                    vec![(BodyKey(format!("body/{}", sequence % 25)), vec![3; size].into())];
                let record = vec![b'r'; size + 10].into();

                opened.writer.append(Append {
                    sequence: sequence.into(),
                    record,
                    bodies,
                    are_bodies_new: false,
                });
                if sequence == 50 && workspace == "a" {
                    let pieces = (0..4).map(|piece| vec![b's'; 1 + 9_000 * piece].into());
                    write_snapshot(&mut *opened.writer, 50, pieces, 40);
                }
                heard.durable(sequence).await;
            }
        }
        journal.close().await.expect("closes");
    }
}

#[derive(Debug)]
enum Damage {
    Flip { at: usize, bit: u64 },
    Cut { to: usize },
    Zero { from: usize, to: usize },
}

/// Spoils one file of the journal in `dir` and says how.
fn spoil(dir: &Path, dice: &mut Dice) -> String {
    let path = pick(dir, dice);
    let mut bytes = std::fs::read(&path).expect("reads");
    let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
    let roll = |dice: &mut Dice, limit: usize| -> usize {
        usize::try_from(dice.roll(limit as u64)).expect("it is below a usize")
    };
    let at = match dice.roll(5) {
        0 => roll(dice, bytes.len()),
        _ => used[roll(dice, used.len())],
    };
    let damage = match dice.roll(4) {
        0 => Damage::Cut { to: at },
        1 => Damage::Zero { from: at, to: bytes.len().min(at + [1, 512, 4096][roll(dice, 3)]) },
        _ => Damage::Flip { at, bit: dice.roll(8) },
    };
    match damage {
        Damage::Flip { at, bit } => bytes[at] ^= 1 << bit,
        Damage::Cut { to } => bytes.truncate(to),
        Damage::Zero { from, to } => bytes[from..to].fill(0),
    }
    std::fs::write(&path, bytes).expect("writes");
    format!("{}: {damage:?}", path.strip_prefix(dir).unwrap_or(&path).display())
}

/// Mostly the data; sometimes the log or sled's other files.
fn pick(dir: &Path, dice: &mut Dice) -> PathBuf {
    match dice.roll(8) {
        0 => dir.join("log/0"),
        3 => dir.join("log/1"),
        1 => dir.join("db/conf"),
        2 => {
            let entries =
                dir.join("db").read_dir().expect("a folder").map(|e| e.expect("an entry"));
            let is_page_table = |path: &PathBuf| {
                path.file_name().is_some_and(|it| it.to_string_lossy().starts_with("snap."))
            };
            entries.map(|entry| entry.path()).find(is_page_table).expect("sled writes one")
        }
        _ => dir.join("db/db"),
    }
}

fn digest(dir: &Path) -> Result<String, JournalError> {
    let report = verify(dir)?;
    Ok(report.workspaces.iter().map(|(id, found)| format!("{id} {:?} ", found)).collect())
}

/// Runs in a process of its own: opens the spoilt journal and says what came of it.
#[tokio::test]
async fn a_spoilt_journal_is_opened() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let dir = Path::new(&dir);
    let opened = match SledJournal::open(dir, Options::default()) {
        Ok(journal) => {
            let read = journal.read(&id("a"), 40.into(), 1000);
            let pieces = journal.snapshot(&id("a")).map(|it| it.pieces.collect::<Vec<_>>());
            let pieces: Result<Vec<_>, _> = pieces.into_iter().flatten().collect();
            let read = read.and(pieces);
            let closed = journal.close().await;
            read.map(|_| ()).and(closed)
        }
        Err(error) => Err(error),
    };
    match opened.and_then(|()| digest(dir)) {
        Ok(digest) => say(format!("\nwhole {digest}")),
        Err(error) => say(format!("\nrefused {error:?}")),
    }
}

/// Holds J5 and DB3.
#[tokio::test]
async fn damage_is_refused_or_harmless() {
    let whole = tempfile::tempdir().expect("a directory");
    write(whole.path()).await;
    let expected = format!("whole {}", digest(whole.path()).expect("is whole"));
    let trial = |seed| {
        let (damage, verdict) = try_damage(whole.path(), seed);
        let refused = ["refused Damaged", "refused Newer", "refused Older"];
        if refused.iter().any(|it| verdict.starts_with(it)) {
            Verdict::Refused
        } else if verdict == expected {
            Verdict::Harmless
        } else {
            Verdict::Wrong(format!("seed {seed}, {damage}: {verdict}"))
        }
    };
    let verdicts: Vec<Verdict> = std::thread::scope(|scope| {
        let lanes = (1..=LANES).map(|lane| {
            let seeds = (lane..=TRIALS).step_by(usize::try_from(LANES).expect("small"));
            scope.spawn(|| seeds.map(trial).collect::<Vec<_>>())
        });
        let lanes: Vec<_> = lanes.collect();
        lanes.into_iter().flat_map(|lane| lane.join().expect("a lane ends")).collect()
    });
    let (mut refused, mut harmless, mut wrong) = (0, 0, Vec::new());
    for verdict in verdicts {
        match verdict {
            Verdict::Refused => refused += 1,
            Verdict::Harmless => harmless += 1,
            Verdict::Wrong(what) => wrong.push(what),
        }
    }
    assert!(wrong.is_empty(), "{} of {TRIALS} wrong:\n{}", wrong.len(), wrong.join("\n"));
    // Both must happen, or the trials try nothing.
    assert!(20 < refused && 0 < harmless, "{refused} refused, {harmless} harmless");
}

enum Verdict {
    Refused,
    Harmless,
    Wrong(String),
}

/// A directory in memory, where there is such a place: what is spoilt here is spoilt already.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory")
}

/// Spoils a copy of `whole` and has a child open it: what was done, and what came of it.
fn try_damage(whole: &Path, seed: u64) -> (String, String) {
    let dir = scratch();
    common::copy(whole, dir.path());
    let damage = spoil(dir.path(), &mut Dice::new(seed));
    let mut command = child("a_spoilt_journal_is_opened");
    command.env(DIR, dir.path());
    let mut lines = Lines::of(command, TRIAL_TIME_MAX);
    let verdict = loop {
        match lines.next() {
            Ok(Some(line)) if line.starts_with("whole ") || line.starts_with("refused ") => {
                break line;
            }
            Ok(Some(_)) => {}
            Ok(None) => break "it crashed".into(),
            Err(silent) => break silent,
        }
    };
    lines.kill();
    (damage, verdict)
}
