//! `tasuki-broker backup` and `restore`: all the data in one file, and a data directory made of it.
//!
//! A broker that serves the directory makes the backup; of one that nobody serves it is made here.
//! Either way the bytes are checked as they are written, and the file has its name once it is whole.

use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, IsTerminal as _, Read, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;
use tasuki_broker::{
    backup::{self, BackupError, Restored, STAGING, Summary},
    clock::Clock,
    journal::{
        JournalError,
        sled::{Options, SledJournal},
    },
};
use tasuki_proto::{
    host::{
        config,
        files::{self, Locked},
        progress::{Progress, Unit},
    },
    id::Timestamp,
    wire,
};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Data,
    administer::{Administer, Answer, Broker, No, print},
    claim_directory, directory,
    scope::time,
    used_directory,
};

/// Chunks that are read and not yet written.
const CHUNKS_MAX: usize = 8;

/// What is read of a backup at once, in bytes.
const READ_BYTES: usize = 256 * 1024;

/// What is written at once, in bytes.
const WRITE_BYTES: usize = 256 * 1024;

/// A file as it is read.
pub(super) type Input = BufReader<Counted<Box<dyn Read>>>;

#[derive(Debug, Args)]
pub(super) struct Backup {
    /// File to write; `-` is standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    administer: Administer,
}

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// File that `backup` wrote; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    data: Data,
}

pub(super) fn backup(it: Backup) -> u8 {
    let Backup { file, administer } = it;
    administer.run(async |administer| back_up(file, administer).await)
}

async fn back_up(file: PathBuf, administer: Administer) -> Result<Answer, No> {
    let is_standard = is_standard(&file);
    if is_standard && io::stdout().is_terminal() {
        return Err(No::usage("A backup is nothing for a terminal; name a file."));
    }
    let began = Instant::now();
    let summary = take(&file, administer, "backing up", copy).await?;
    let seconds = began.elapsed().as_secs_f64();
    let text = format!(
        "{}: {} bytes, {} as of commit {}, {}; made in {seconds:.1} s",
        file.display(),
        summary.bytes,
        contents(&summary),
        summary.commit,
        time(summary.made.as_millis()),
    );
    let secret = "It holds secrets (hashes of tokens, and the private key of the broker's \
                  certificate, if it has one): keep it as you keep those.";
    let value = json!({
        "file": file.display().to_string(),
        "bytes": summary.bytes,
        "commit": summary.commit,
        "made_ms": summary.made.as_millis(),
        "workspaces": summary.workspaces,
        "records": summary.records,
        "bodies": summary.bodies,
        "seconds": seconds,
    });
    Ok(match is_standard {
        true => Answer { value, lines: String::new(), notes: format!("{text}\n{secret}") },
        false => Answer { value, lines: text, notes: secret.to_owned() },
    })
}

/// Has a backup of all data, and writes `file` of it: what it is made of, where to, and how far it
/// got.
///
/// # Errors
/// When it cannot be read or written. Then there is no such file.
pub(super) async fn take<T: Send + 'static>(
    file: &Path,
    administer: Administer,
    what: &str,
    make: impl FnOnce(Counted<Chunks>, &mut dyn Write) -> Result<T, BackupError> + Send + 'static,
) -> Result<T, No> {
    let is_json = administer.data().json;
    if is_standard(file) && is_json {
        return Err(No::usage("Standard output is the file's; name one, or leave out --json."));
    }
    let directory = used_directory(administer.data()).map_err(No::said)?;
    let (journal, held) = match SledJournal::open(&directory, Options::default()) {
        Ok(journal) => (Some(journal), String::new()),
        Err(JournalError::InUse(held)) => (None, held),
        Err(why) => return Err(No::opening(&directory, why)),
    };
    let (to, chunks) = mpsc::channel(CHUNKS_MAX);
    let progress = Progress::start(what, Unit::Bytes, is_json);
    let target = file.to_owned();
    let written = tokio::task::spawn_blocking(move || {
        let chunks = Counted::new(Chunks::new(chunks), &progress);
        let written = write(&target, |out| make(chunks, out));
        progress.finish();
        written
    });
    let sent = match journal {
        Some(journal) => read_here(journal, &directory, to).await,
        None => match administer.connect_to_holder(&held).await {
            Ok(broker) => read_from(&broker, to).await,
            Err(no) => {
                // Nothing comes any more: whoever writes does not wait for it.
                drop(to);
                Err(no)
            }
        },
    };
    let written = written.await.map_err(|why| No::unavailable(format!("Writing it: {why}.")))?;
    // What could not be written ends what is sent, too.
    match (sent, written) {
        // It was read to its end, whatever became of the broker then.
        (_, Ok(made)) => Ok(made),
        (_, Err(no @ WriteError::File(..))) | (Ok(()), Err(no)) => Err(no.into()),
        (Err(no), Err(WriteError::Backup(_))) => Err(no),
    }
}

pub(super) fn is_standard(file: &Path) -> bool {
    file.as_os_str() == "-"
}

pub(super) fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn contents(it: &Summary) -> String {
    format!(
        "{}, {} since the snapshots and {}",
        plural(it.workspaces, "workspace"),
        plural(it.records, "record"),
        plural(it.bodies, "text")
    )
}

/// Reads a directory that nobody serves.
async fn read_here(
    journal: SledJournal,
    directory: &Path,
    to: mpsc::Sender<Vec<u8>>,
) -> Result<(), No> {
    use tasuki_broker::journal::Journal as _;
    let (cut, directory) = (journal.cut().await?, directory.to_owned());
    let read = tokio::task::spawn_blocking(move || {
        backup::write(&cut, &directory, Clock::system().now(), |bytes| {
            to.blocking_send(bytes).map_err(|_| io::Error::other("it is not taken"))
        })
    });
    read.await.map_err(|why| No::unavailable(format!("Reading it: {why}.")))??;
    Ok(journal.close().await?)
}

/// Has the broker that serves the directory read it.
async fn read_from(broker: &Broker, to: mpsc::Sender<Vec<u8>>) -> Result<(), No> {
    broker
        .administrate(async |mut it| {
            let mut chunks = it.backup(wire::BackupRequest {}).await?.into_inner();
            while let Some(it) = chunks.message().await? {
                if to.send(it.chunk).await.is_err() {
                    break;
                }
            }
            Ok(())
        })
        .await
}

/// Why there is no file.
enum WriteError {
    File(PathBuf, io::Error),
    Backup(BackupError),
}

impl From<WriteError> for No {
    fn from(why: WriteError) -> Self {
        match why {
            WriteError::File(path, why) => {
                let name = path.display().to_string();
                let name = if is_standard(&path) { "Standard output" } else { &name };
                Self::unavailable(format!("{name} cannot be written: {why}."))
            }
            WriteError::Backup(why) => why.into(),
        }
    }
}

/// Writes a file. It is written beside its place, for this user alone, and replaces one that is
/// there once it is whole and on the disk.
fn write<T>(
    file: &Path,
    make: impl FnOnce(&mut dyn Write) -> Result<T, BackupError>,
) -> Result<T, WriteError> {
    let failed = |why| WriteError::File(file.to_owned(), why);
    let write = |out: &mut dyn Write| {
        let mut out = BufWriter::with_capacity(WRITE_BYTES, out);
        let made = match make(&mut out) {
            Err(BackupError::Write(why)) => return Err(failed(why)),
            made => made.map_err(WriteError::Backup)?,
        };
        out.flush().map_err(failed).map(|()| made)
    };
    if is_standard(file) {
        return write(&mut io::stdout().lock());
    }
    if fs::metadata(file).is_ok_and(|it| !it.is_file()) {
        // A device or a pipe: there is nothing to put into its place.
        let mut out = fs::OpenOptions::new().write(true).open(file).map_err(failed)?;
        return write(&mut out);
    }
    let Some(name) = file.file_name() else {
        return Err(failed(io::Error::other("it is a directory")));
    };
    let unfinished = format!(".{}.new-", name.to_string_lossy());
    remove_unfinished(file, &unfinished);
    let new = file.with_file_name(format!("{unfinished}{}", std::process::id()));
    let locked = || {
        let out = files::private(&new)?;
        // As long as it is open; where a file system locks nothing, nobody takes it away either.
        let _ = out.try_lock();
        Ok(out)
    };
    let written = locked().map_err(failed).and_then(|mut out| {
        let made = write(&mut out)?;
        let parent = files::directory_of(file);
        out.sync_all()
            .and_then(|()| fs::rename(&new, file))
            .and_then(|()| File::open(parent)?.sync_all())
            .map_err(failed)?;
        Ok(made)
    });
    if written.is_err() {
        // What is left of it says nothing.
        drop(fs::remove_file(&new));
    }
    written
}

/// Removes what backups to the same file wrote that were killed: as long and as secret as the backup,
/// under names that nobody looks for.
fn remove_unfinished(file: &Path, unfinished: &str) {
    let entries = files::directory_of(file).read_dir().into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|it| it.strip_prefix(unfinished)) else { continue };
        let is_file = entry.file_type().is_ok_and(|it| it.is_file());
        if !is_file || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        // One that is being written is locked.
        if let Ok(left) = File::open(entry.path())
            && let Ok(_lock) = Locked::take(left)
        {
            // What cannot be removed does no harm to the new one.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn copy(chunks: Counted<Chunks>, out: &mut dyn Write) -> Result<Summary, BackupError> {
    let mut tee = Tee { chunks, out, failed: None };
    let checked = backup::check(&mut tee);
    tee.failed.take().map_or(checked, |why| Err(BackupError::Write(why)))
}

/// Shows how much of something was read.
pub(super) struct Counted<R> {
    input: R,
    bytes: u64,
    progress: Progress,
}

impl<R> Counted<R> {
    pub(super) fn new(input: R, progress: &Progress) -> Self {
        Self { input, bytes: 0, progress: progress.clone() }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.bytes += read as u64;
        self.progress.set(self.bytes);
        Ok(read)
    }
}

/// What comes in chunks, as something that is read.
pub(super) struct Chunks {
    from: mpsc::Receiver<Vec<u8>>,
    chunk: io::Cursor<Vec<u8>>,
}

impl Chunks {
    fn new(from: mpsc::Receiver<Vec<u8>>) -> Self {
        Self { from, chunk: io::Cursor::default() }
    }
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.chunk.read(buffer)?;
            if 0 < read || buffer.is_empty() {
                return Ok(read);
            }
            match self.from.blocking_recv() {
                Some(chunk) => self.chunk = io::Cursor::new(chunk),
                None => return Ok(0),
            }
        }
    }
}

/// Writes what is read.
struct Tee<'a> {
    chunks: Counted<Chunks>,
    out: &'a mut dyn Write,
    failed: Option<io::Error>,
}

impl Read for Tee<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.chunks.read(buffer)?;
        let (taken, _) = buffer.split_at(read);
        if let Err(why) = self.out.write_all(taken) {
            self.failed = Some(why);
            return Err(io::Error::other("it cannot be written"));
        }
        Ok(read)
    }
}

pub(super) fn restore(it: &Restore) -> u8 {
    print(put_back(it), it.data.json)
}

fn put_back(it: &Restore) -> Result<Answer, No> {
    let began = Instant::now();
    let (restored, data) = make_data(&it.file, &it.data, "restoring", backup::restore)?;
    Ok(describe(&restored, &data, began.elapsed().as_secs_f64()))
}

/// Makes a new data directory of a file: of what, where, and when.
///
/// # Errors
/// When there is something in the directory, or nothing can be made of the file.
pub(super) fn make_data(
    file: &Path,
    place: &Data,
    what: &str,
    make: impl FnOnce(Input, &Path, Timestamp) -> Result<Restored, BackupError>,
) -> Result<(Restored, PathBuf), No> {
    let settings = super::file(place).ok_or_else(|| No::said(super::EXIT_USAGE))?;
    let broker = directory(place, &settings).ok_or_else(|| No::said(super::EXIT_USAGE))?;
    let data = files::directory_of(&broker).to_owned();
    check_empty(&data)?;
    let unwritable =
        |why| No::unavailable(format!("{} cannot be written to: {why}.", data.display()));
    claim_directory(place, &settings);
    files::private_directory(&data).map_err(unwritable)?;
    let progress = Progress::start(what, Unit::Bytes, place.json);
    let input: Box<dyn Read> = match is_standard(file) {
        true => Box::new(io::stdin().lock()),
        false => {
            let unreadable =
                |why| No::unavailable(format!("{} cannot be read: {why}.", file.display()));
            let input = File::open(file).map_err(unreadable)?;
            progress.set_total(input.metadata().map_err(unreadable)?.len());
            Box::new(input)
        }
    };
    let input = BufReader::with_capacity(READ_BYTES, Counted::new(input, &progress));
    let restored = make(input, &data, Clock::system().now());
    progress.finish();
    Ok((restored?, data))
}

/// Only into a directory of its own: what is there is never mixed with what comes.
fn check_empty(data: &Path) -> Result<(), No> {
    let entries = match data.read_dir() {
        Ok(entries) => entries,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(why) => {
            return Err(No::unavailable(format!("{} cannot be read: {why}.", data.display())));
        }
    };
    // What an interrupted restore left is removed by the next.
    let mut others = entries.filter_map(Result::ok).filter(|it| it.file_name() != STAGING);
    match others.next() {
        None => Ok(()),
        Some(there) => Err(No::usage(format!(
            "{} is not empty, it has {}; nothing was changed. Name a new directory: --data DIR.",
            data.display(),
            there.file_name().to_string_lossy()
        ))),
    }
}

fn describe(it: &Restored, data: &Path, seconds: f64) -> Answer {
    let (backup, place) = (&it.backup, data.display());
    let since = time(backup.made.as_millis());
    let lines = format!(
        "restored {} as of commit {} into {place}, in {seconds:.1} s",
        contents(backup),
        backup.commit
    );
    let notes = format!(
        "Work since {since} is not in it.\n\
         Nothing that was granted before holds: held turns, claims and locks have new numbers, \
         steps that ran are lost, nodes register again.\n\
         Tokens are as they were: {} are good and {} invitations are open, those included that \
         were revoked or used since. Tokens made since are unknown: invite their machines again.\n\
         Start it with `tasuki-broker serve --data {place}`; then look with `tasuki-broker token \
         list --data {place}` and revoke with `tasuki-broker token revoke ID --data {place}`. Make \
         sure that the broker that the backup is of does not serve any more.",
        it.tokens, it.invitations
    );
    let value = json!({
        "data": data.display().to_string(),
        "folder": config::FOLDER,
        "backup_ms": backup.made.as_millis(),
        "commit": backup.commit,
        "workspaces": it.workspaces.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "records": backup.records,
        "bodies": backup.bodies,
        "tokens": it.tokens,
        "invitations": it.invitations,
        "seconds": seconds,
    });
    Answer { value, lines, notes }
}
