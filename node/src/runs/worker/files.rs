//! What a step has on disk: files of its run, which are gone when it ends, and its output where that
//! is longer than what the broker keeps.
//!
//! Each step has a directory. The agent gets one within, so that it cannot put anything in the place
//! of the output. An output is kept as long as the broker remembers the run.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use tasuki_proto::{
    host::files,
    limits::{OUTPUT_BYTES_MAX, RUN_KEPT_MS},
    run::StepId,
};

use crate::runner::stream::Progress;

/// The output of a step that ended, where the broker has only its beginning.
const OUTPUT: &str = "output";

/// The same while the step runs.
const PART: &str = "output.part";

/// The directory of the agent's own.
const OWN: &str = "files";

/// How the directories begin. Only such are ever removed.
const PREFIX: &str = "run_";

/// One output, in bytes: what is longer ends there.
const OUTPUT_FILE_BYTES_MAX: u64 = 1 << 30;

/// Outputs that are kept. The oldest go first.
const OUTPUTS_MAX: usize = 1_000;

/// All of them, in bytes.
const OUTPUTS_BYTES_MAX: u64 = 4 << 30;

/// What is held before a file is made, in bytes: most outputs are no longer.
const HELD_BYTES_MAX: usize = 64 * 1024;

/// Where the whole output of a step is that ended, if it is longer than what the broker keeps.
pub fn output_file(directory: &Path, step: StepId) -> PathBuf {
    place_of(directory, step).join(OUTPUT)
}

/// A part of it; nothing where it has nothing from there on. `None`: it is not there.
pub fn read_output(directory: &Path, step: StepId, offset: u64, limit: u32) -> Option<Vec<u8>> {
    let mut file = File::open(output_file(directory, step)).ok()?;
    file.seek(SeekFrom::Start(offset)).ok()?;
    let mut part = Vec::new();
    file.take(limit.into()).read_to_end(&mut part).ok()?;
    Some(part)
}

fn place_of(directory: &Path, step: StepId) -> PathBuf {
    directory.join(format!("{}.{}", step.run, step.number))
}

/// The directory of a step that runs. What is not kept of it goes when this is dropped.
#[derive(Debug)]
pub(super) struct StepDirectory(PathBuf);

impl StepDirectory {
    /// Makes one.
    pub(super) fn make(directory: &Path, step: StepId) -> io::Result<Self> {
        let path = place_of(directory, step);
        // Nothing of another step has this name.
        check_gone(&path, fs::remove_dir_all(&path));
        files::private_directory(&path)?;
        let place = Self(path);
        files::private_directory(&place.own())?;
        Ok(place)
    }

    /// For the agent's files.
    pub(super) fn own(&self) -> PathBuf {
        self.0.join(OWN)
    }

    /// What the step is to write its output to.
    pub(super) fn output(&self) -> OutputFile {
        let path = self.0.join(PART);
        OutputFile { path, held: String::new(), file: None, bytes: 0, is_broken: false }
    }

    /// Removes everything but the output, if it is long enough to be kept. Says whether it was.
    pub(super) fn close(self, output: OutputFile) -> bool {
        if output.bytes <= OUTPUT_BYTES_MAX as u64 {
            return false;
        }
        let is_whole = output.file.is_some();
        // It is closed before it gets its name.
        drop(output);
        let is_kept = is_whole && fs::rename(self.0.join(PART), self.0.join(OUTPUT)).is_ok();
        if !is_kept {
            tracing::warn!(
                path = %self.0.display(),
                "the whole output of a step is not kept; the broker has its beginning"
            );
        }
        is_kept
    }
}

impl Drop for StepDirectory {
    fn drop(&mut self) {
        remove_rest(&self.0);
    }
}

/// Removes a step's directory but for an output that is kept.
fn remove_rest(place: &Path) {
    let (own, part) = (place.join(OWN), place.join(PART));
    check_gone(&own, fs::remove_dir_all(&own));
    check_gone(&part, fs::remove_file(&part));
    // With an output in it, it stays.
    fs::remove_dir(place).ok();
}

fn check_gone(path: &Path, removed: io::Result<()>) {
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "files of a step cannot be removed");
    }
}

/// Makes the directory of all steps, and removes what an earlier life of this node left in it.
pub(super) fn clean(directory: &Path, now_ms: u64) {
    if let Err(error) = files::private_directory(directory) {
        tracing::warn!(%error, directory = %directory.display(), "steps can keep no files");
    }
    files::keep_others_out(directory);
    places(directory).iter().for_each(|place| remove_rest(place));
    prune(directory, now_ms);
}

/// Removes outputs that are too old, or too many, or take too much room.
pub(super) fn prune(directory: &Path, now_ms: u64) {
    let kept = places(directory).into_iter().filter_map(|place| {
        let file = fs::symlink_metadata(place.join(OUTPUT)).ok()?;
        let since = file.modified().ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Some((u64::try_from(since.as_millis()).unwrap_or(u64::MAX), place, file.len()))
    });
    let mut kept: Vec<(u64, PathBuf, u64)> = kept.collect();
    kept.sort();
    let over = kept.len().saturating_sub(OUTPUTS_MAX);
    let mut bytes: u64 = kept.iter().map(|(_, _, bytes)| bytes).sum();
    for (at, (written, place, its)) in kept.iter().enumerate() {
        let is_too_old = written.saturating_add(RUN_KEPT_MS) <= now_ms;
        if at < over || is_too_old || bytes > OUTPUTS_BYTES_MAX {
            bytes = bytes.saturating_sub(*its);
            check_gone(place, fs::remove_dir_all(place));
        }
    }
}

/// The directories of steps. Links are none.
fn places(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).inspect_err(|error| {
        tracing::warn!(%error, directory = %directory.display(), "files of steps may be left");
    });
    let entries = entries.into_iter().flatten().filter_map(Result::ok);
    let is_place = |entry: &fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    entries.filter(is_place).map(|entry| entry.path()).collect()
}

/// The whole output of a step, as it comes. A short one stays in memory; a long one is written where
/// it is read, so that a disk that is slow holds the agent up and takes no memory.
#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    held: String,
    file: Option<File>,
    /// Of all that the step said since its output began.
    bytes: u64,
    /// It could not be written to since.
    is_broken: bool,
}

impl OutputFile {
    pub(super) fn take(&mut self, progress: &Progress<'_>) {
        let Progress::Output { text, begins } = progress else { return };
        let taken = if *begins { self.begin() } else { Ok(()) };
        if let Err(error) = taken.and_then(|()| self.append(text)) {
            tracing::warn!(%error, path = %self.path.display(), "an output cannot be written");
            (self.file, self.is_broken) = (None, true);
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        self.held.clear();
        (self.bytes, self.is_broken) = (0, false);
        if let Some(file) = &mut self.file {
            file.set_len(0)?;
            file.rewind()?;
        }
        Ok(())
    }

    fn append(&mut self, text: &str) -> io::Result<()> {
        let room = OUTPUT_FILE_BYTES_MAX.saturating_sub(self.bytes);
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        if self.is_broken {
            return Ok(());
        }
        if self.file.is_none() && self.held.len() + text.len() <= HELD_BYTES_MAX {
            self.held.push_str(text);
            return Ok(());
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => files::private(&self.path)?,
        };
        file.write_all(std::mem::take(&mut self.held).as_bytes())?;
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        file.write_all(&text.as_bytes()[..text.floor_char_boundary(room)])?;
        self.file = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::wall_ms;

    fn step(number: u32) -> StepId {
        StepId { run: "run_1700000000000_00af".parse().unwrap(), number }
    }

    fn end(directory: &Path, number: u32, said: &[(&str, bool)]) -> Option<String> {
        let place = StepDirectory::make(directory, step(number)).unwrap();
        let own = place.own();
        fs::write(own.join("system.md"), "s").unwrap();
        let mut output = place.output();
        for (text, begins) in said {
            output.take(&Progress::Output { text, begins: *begins });
        }
        let is_kept = place.close(output);
        let file = output_file(directory, step(number));
        assert_eq!(is_kept, file.exists());
        assert_eq!(is_kept, file.parent().unwrap().exists());
        assert!(own != file.parent().unwrap() && !own.exists(), "the agent's is gone");
        is_kept.then(|| fs::read_to_string(file).unwrap())
    }

    #[test]
    fn an_output_is_kept_whole_where_the_broker_has_its_beginning_alone() {
        let place = tempfile::tempdir().unwrap();
        let long = "é".repeat(OUTPUT_BYTES_MAX);
        assert_eq!(end(place.path(), 1, &[]), None);
        assert_eq!(end(place.path(), 2, &[("short", true)]), None);
        assert_eq!(end(place.path(), 3, &[(&long, true)]), Some(long.clone()));
        // What was said before it began anew does not count.
        assert_eq!(end(place.path(), 4, &[(&long, true), ("short", true)]), None);
        let said = [("a", true), (&long, true), ("b", false), (&long, false)];
        assert_eq!(end(place.path(), 5, &said), Some(format!("{long}b{long}")));
        let exact = "x".repeat(OUTPUT_BYTES_MAX);
        assert_eq!(end(place.path(), 6, &[(&exact, true)]), None);
        assert_eq!(end(place.path(), 7, &[(&exact, true), ("y", false)]), Some(exact + "y"));
    }

    #[test]
    fn what_a_node_left_that_was_killed_is_removed_but_for_outputs() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("runs");
        let long = "x".repeat(OUTPUT_BYTES_MAX + 1);
        clean(&directory, wall_ms());
        end(&directory, 1, &[(&long, true)]).unwrap();
        let killed = StepDirectory::make(&directory, step(2)).unwrap();
        let mut output = killed.output();
        output.take(&Progress::Output { text: &long, begins: true });
        std::mem::forget((killed, output));
        fs::create_dir(directory.join("other")).unwrap();
        clean(&directory, wall_ms());
        let entries = fs::read_dir(&directory).unwrap();
        let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["other", "run_1700000000000_00af.1"]);
        // As long as the broker remembers the run.
        clean(&directory, wall_ms() + RUN_KEPT_MS - 60_000);
        assert!(output_file(&directory, step(1)).exists());
        clean(&directory, wall_ms() + RUN_KEPT_MS + 60_000);
        assert!(!output_file(&directory, step(1)).exists());
    }

    #[test]
    fn of_too_many_outputs_the_oldest_go() {
        let place = tempfile::tempdir().unwrap();
        let now = wall_ms();
        let surplus = 3;
        for number in 1..=u32::try_from(OUTPUTS_MAX).unwrap() + surplus {
            let file = output_file(place.path(), step(number));
            fs::create_dir(file.parent().unwrap()).unwrap();
            let written = UNIX_EPOCH + Duration::from_millis(now - 600_000 + u64::from(number));
            File::create(&file).unwrap().set_modified(written).unwrap();
        }
        prune(place.path(), now);
        let is_there = |number| output_file(place.path(), step(number)).exists();
        assert!((1..=surplus).all(|number| !is_there(number)));
        assert!(is_there(surplus + 1));
        assert_eq!(places(place.path()).len(), OUTPUTS_MAX);
    }

    #[test]
    fn of_outputs_that_take_too_much_room_the_oldest_go() {
        let place = tempfile::tempdir().unwrap();
        let now = wall_ms();
        for number in 1..=6 {
            let path = output_file(place.path(), step(number));
            fs::create_dir(path.parent().unwrap()).unwrap();
            // None of it takes room on the disk.
            let file = File::create(&path).unwrap();
            file.set_len(OUTPUT_FILE_BYTES_MAX).unwrap();
            let written = UNIX_EPOCH + Duration::from_millis(now - 600_000 + u64::from(number));
            file.set_modified(written).unwrap();
        }
        prune(place.path(), now);
        let is_there = |number: &u32| output_file(place.path(), step(*number)).exists();
        assert_eq!((1..=6).filter(is_there).collect::<Vec<_>>(), [3, 4, 5, 6]);
    }

    #[test]
    fn an_output_that_could_not_be_written_is_not_kept() {
        let place = tempfile::tempdir().unwrap();
        let made = StepDirectory::make(place.path(), step(1)).unwrap();
        let mut output = made.output();
        // Nothing can be written to a directory.
        fs::create_dir(made.0.join(PART)).unwrap();
        output.take(&Progress::Output { text: &"x".repeat(OUTPUT_BYTES_MAX + 1), begins: true });
        assert!(!made.close(output));
        assert!(!output_file(place.path(), step(1)).exists());
    }
}
