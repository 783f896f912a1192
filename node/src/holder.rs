//! The process that runs on a data directory, told apart from a later one with the same number.
//!
//! It writes who it is into the lock file that it holds, for commands that end it or ask where its
//! log is. What a process that is gone left there names nobody.

use std::{
    fs::{self, File},
    io::{self, Seek as _, Write as _},
    path::Path,
};

use rustix::process::{Pid, Signal, kill_process};
use tasuki_proto::host::files;

/// The lock's name in the data directory.
pub const LOCK: &str = "node.lock";

/// A process. Its number is given again once it is gone, its beginning is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// Empty where the system does not tell.
    began: String,
}

impl Holder {
    fn of_process() -> Self {
        let pid = std::process::id();
        Self { pid, began: beginning(pid).unwrap_or_default() }
    }

    /// Writes this process into the lock file that it holds.
    ///
    /// # Errors
    /// Where the file cannot be written to.
    pub fn note(lock: &mut File) -> io::Result<()> {
        let Self { pid, began } = Self::of_process();
        let place = files::identity(&lock.metadata()?);
        lock.set_len(0)?;
        lock.rewind()?;
        write!(lock, "{pid} {began}\n{place}\n")
    }

    /// `None`: nobody runs on this data directory. What others could have written names nobody, and
    /// neither does a copy: who wrote it runs elsewhere.
    pub fn read(data: &Path) -> Option<Self> {
        let path = data.join(LOCK);
        let bytes = files::read_own(&path).ok()??;
        let (holder, place) = Self::parse(str::from_utf8(&bytes).ok()?)?;
        let is_here = files::identity(&fs::metadata(path).ok()?) == place;
        (is_here && holder.is_running()).then_some(holder)
    }

    /// Who wrote it, and into which file.
    fn parse(text: &str) -> Option<(Self, &str)> {
        let (process, place) = text.split_once('\n')?;
        let (pid, began) = process.split_once(' ')?;
        let holder = Self { pid: pid.parse().ok()?, began: began.to_owned() };
        Some((holder, place.trim_end()))
    }

    /// Whether it is there, and not another one with its number.
    pub fn is_running(&self) -> bool {
        beginning(self.pid).is_some_and(|began| self.began.is_empty() || began == self.began)
    }

    /// Asks it to stop.
    ///
    /// # Errors
    /// Where it is another user's.
    pub fn terminate(&self) -> io::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        match kill_process(pid, Signal::TERM) {
            // It is gone, which is what was asked for.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }
}

/// When a process began, in ticks since the machine did; `None`: it has ended.
#[cfg(target_os = "linux")]
fn beginning(pid: u32) -> Option<String> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name before it, in brackets, may have any bytes.
    let rest = &stat[stat.iter().rposition(|byte| *byte == b')')? + 1..];
    let mut fields = str::from_utf8(rest).ok()?.split_whitespace();
    let state = fields.next()?;
    // One that ended and was not waited for does nothing any more.
    if matches!(state, "Z" | "X") {
        return None;
    }
    /// Fields between the state and the beginning.
    const BETWEEN: usize = 18;
    fields.nth(BETWEEN).map(str::to_owned)
}

/// The same where only a program tells.
#[cfg(not(target_os = "linux"))]
fn beginning(pid: u32) -> Option<String> {
    let mut ps = std::process::Command::new("ps");
    let told = ps.args(["-o", "lstart=", "-p", &pid.to_string()]).output().ok()?;
    let began = String::from_utf8(told.stdout).ok()?.trim().to_owned();
    (!began.is_empty()).then_some(began)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_is_known_by_number_beginning_and_place() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join(LOCK);
        assert_eq!(Holder::read(data.path()), None);
        let mut lock = files::private(&path).unwrap();
        Holder::note(&mut lock).unwrap();
        let own = Holder::of_process();
        assert_eq!(Holder::read(data.path()), Some(own.clone()));
        let text = fs::read_to_string(&path).unwrap();
        let written = |text: &str| {
            fs::write(&path, text).unwrap();
            Holder::read(data.path())
        };
        for other in [
            // A later process has the number.
            text.replacen(&own.began, &format!("{}1", own.began), 1),
            // Nobody wrote it, or an older release did.
            String::new(),
            own.pid.to_string(),
            format!("x {text}"),
        ] {
            assert_eq!(written(&other), None, "{other:?}");
        }
        assert_eq!(written(&text), Some(own));

        let copy = tempfile::tempdir().unwrap();
        fs::copy(&path, copy.path().join(LOCK)).unwrap();
        assert_eq!(Holder::read(copy.path()), None);
    }

    #[test]
    fn a_process_that_ended_is_not_running_though_nobody_waited_for_it() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let holder = Holder { pid: child.id(), began: beginning(child.id()).unwrap() };
        assert!(holder.is_running());
        holder.terminate().unwrap();
        // It stays in the list of processes until the test waits for it.
        while holder.is_running() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!holder.is_running());
        holder.terminate().unwrap();
    }
}
