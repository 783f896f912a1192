//! `tasuki logs`: what a node in the background logged.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Read as _, Seek as _},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;
use tasuki_proto::host::files;
use tokio::time::sleep;

use super::{
    log_file::{LOG, OLDER_LOG},
    own_directory,
};
use crate::{
    cli::{Failure, Output, hosting, stopped, text::line},
    config::Config,
    holder::Holder,
};

/// Between two looks for more.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Show the log of a node that runs in the background
///
/// The log is in the data directory, in tasuki.log and the older tasuki.log.1. For a node that runs
/// in a terminal or as a service, says where its log is.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Go on with what is logged from now on, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// How many of the newest lines to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    lines: usize,
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let Some(data) = own_directory(config) else { return Err(no_log(config)) };
    if let Some(elsewhere) = Holder::read(data).and_then(|it| log_elsewhere(it.pid)) {
        let text = elsewhere.to_string();
        return output.answer(|| json!({ "elsewhere": text }), || format!("{text}\n"));
    }
    let mut tail = Tail::new(data);
    let newest = tail.newest(args.lines).map_err(|why| unreadable(data, &why))?;
    if tail.file.is_none() && !args.follow {
        return Err(no_log(config));
    }
    if !args.follow {
        return print(&newest, output);
    }
    tokio::select! {
        biased;
        // First: whoever has read a line may end this.
        () = stopped() => Ok(()),
        ended = follow(&newest, tail, output) => ended,
    }
}

async fn follow(
    newest: &VecDeque<String>,
    mut tail: Tail,
    output: &mut Output,
) -> Result<(), Failure> {
    print(newest, output)?;
    loop {
        let lines = tail.more().map_err(|why| unreadable(&tail.data, &why))?;
        print(&lines, output)?;
        sleep(LOOK_EVERY).await;
    }
}

fn unreadable(data: &Path, why: &io::Error) -> Failure {
    Failure::local(format!("{} cannot be read: {why}.", data.join(LOG).display()))
}

fn no_log(config: &Config) -> Failure {
    let (data, flags) = (config.data.value.display(), hosting::node_flags(config));
    let workspace = &config.workspace.value;
    Failure::local(format!(
        "Workspace {workspace} has no log in {data}: `tasuki{flags} up --detach` writes one."
    ))
}

fn print<'a>(
    lines: impl IntoIterator<Item = &'a String>,
    output: &mut Output,
) -> Result<(), Failure> {
    for text in lines {
        output.answer(|| json!({ "line": text }), || format!("{}\n", line(text)))?;
    }
    Ok(())
}

/// The log from some place on, also when another file takes its name.
struct Tail {
    data: PathBuf,
    /// `None`: there is none yet.
    file: Option<File>,
    /// The beginning of a line.
    begun: Vec<u8>,
}

impl Tail {
    fn new(data: &Path) -> Self {
        Self { data: data.to_owned(), file: None, begun: Vec::new() }
    }

    /// The last lines that there are.
    fn newest(&mut self, count: usize) -> io::Result<VecDeque<String>> {
        let mut lines = VecDeque::from(self.more()?);
        if lines.len() < count
            && let Some(older) = open(&self.data.join(OLDER_LOG))?
        {
            let older = Self { file: Some(older), begun: Vec::new(), data: self.data.clone() };
            let older = older.rest()?;
            for line in older.into_iter().rev().take(count - lines.len()) {
                lines.push_front(line);
            }
        }
        lines.drain(..lines.len().saturating_sub(count));
        Ok(lines)
    }

    /// What came since, as whole lines.
    fn more(&mut self) -> io::Result<Vec<String>> {
        let path = self.data.join(LOG);
        let mut lines = Vec::new();
        loop {
            if self.file.is_none() {
                self.file = open(&path)?;
            }
            let Some(file) = &mut self.file else { return Ok(lines) };
            // Looked at before it is read: what is written in between is read as well.
            let is_current = is_at(file, &path)?;
            // Somebody emptied it: what is written to it begins anew.
            if file.metadata()?.len() < file.stream_position()? {
                file.rewind()?;
                self.begun.clear();
            }
            file.read_to_end(&mut self.begun)?;
            lines.extend(whole_lines(&mut self.begun));
            if is_current {
                return Ok(lines);
            }
            self.file = None;
        }
    }

    /// All of a file that nobody writes to.
    fn rest(mut self) -> io::Result<Vec<String>> {
        if let Some(file) = &mut self.file {
            file.read_to_end(&mut self.begun)?;
        }
        Ok(whole_lines(&mut self.begun))
    }
}

/// Lines that are looked through for an error.
const LOOKED_AT_MAX: usize = 1_000;

/// The last error that was logged since the latest start, if there was one.
pub(in crate::cli) fn last_error(data: &Path) -> Option<String> {
    let lines = Tail::new(data).newest(LOOKED_AT_MAX).ok()?;
    let since = lines.iter().rposition(|line| line.contains("broker started")).unwrap_or(0);
    let is_error = |line: &&String| {
        line.contains(" ERROR ")
            || line.contains(r#""level":"ERROR""#)
            || line.starts_with("error: ")
    };
    lines.range(since..).rfind(is_error).cloned()
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}

/// Whether a file still has its name.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = files::identity(&file.metadata()?);
    match fs::metadata(path) {
        Ok(named) => Ok(files::identity(&named) == own),
        // It is being renamed; or somebody took it away, and nothing more comes.
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(why) => Err(why),
    }
}

/// Takes the lines that are complete.
fn whole_lines(begun: &mut Vec<u8>) -> Vec<String> {
    let Some(end) = begun.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
    let rest = begun.split_off(end + 1);
    let whole = std::mem::replace(begun, rest);
    String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
}

/// Where a node logs that is not detached: not to a file of ours.
#[derive(Debug, PartialEq, Eq)]
enum LogTarget {
    Service { pid: u32, unit: String, is_of_user: bool },
    Foreground { pid: u32, errors: String },
}

impl std::fmt::Display for LogTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Service { pid, unit, is_of_user } => {
                let user = if *is_of_user { "--user " } else { "" };
                write!(f, "The node (pid {pid}) is a service. Its log: journalctl {user}-u {unit}")
            }
            Self::Foreground { pid, errors } => write!(
                f,
                "The node (pid {pid}) runs in the foreground and logs to its standard error: \
                 {errors}"
            ),
        }
    }
}

/// `None`: into the file, or the system does not tell.
fn log_elsewhere(pid: u32) -> Option<LogTarget> {
    let errors = fs::read_link(format!("/proc/{pid}/fd/2")).ok()?;
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    elsewhere(pid, &errors.to_string_lossy(), &groups)
}

/// The same from where its standard error leads, and what `/proc/PID/cgroup` says.
fn elsewhere(pid: u32, errors: &str, groups: &str) -> Option<LogTarget> {
    let name = errors.rsplit('/').next().unwrap_or_default();
    if name.starts_with(LOG) {
        return None;
    }
    // As in `0::/user.slice/user-1000.slice/user@1000.service/app.slice/tasuki.service`.
    let group = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let unit = group.rsplit('/').next().unwrap_or_default();
    let is_unit = unit.ends_with(".service") && !unit.starts_with("user@");
    // Its own, not that of a terminal which it was started from.
    if is_unit && errors.starts_with("socket:") {
        let is_of_user = group.contains("/user@");
        return Some(LogTarget::Service { pid, unit: unit.to_owned(), is_of_user });
    }
    Some(LogTarget::Foreground { pid, errors: line(errors) })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{super::log_file::LogFile, *};

    #[test]
    fn nothing_is_missed_when_another_file_takes_the_logs_name() {
        let data = tempfile::tempdir().unwrap();
        let (log, older) = (data.path().join(LOG), data.path().join(OLDER_LOG));
        let mut tail = Tail::new(data.path());
        assert!(tail.more().unwrap().is_empty());
        let mut writer = LogFile::open(data.path()).unwrap();
        writer.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(tail.more().unwrap(), ["one", "two"]);
        writer.write_all(b"ee\n").unwrap();
        fs::rename(&log, &older).unwrap();
        // Nobody has made the next one yet.
        assert_eq!(tail.more().unwrap(), ["three"]);
        writer.write_all(b"four\n").unwrap();
        let mut writer = LogFile::open(data.path()).unwrap();
        writer.write_all(b"five\n").unwrap();
        assert_eq!(tail.more().unwrap(), ["four", "five"]);
        assert!(tail.more().unwrap().is_empty());
        // Other programs that rotate it copy it and empty it.
        writer.write_all(b"begun").unwrap();
        assert!(tail.more().unwrap().is_empty());
        fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(0).unwrap();
        assert!(tail.more().unwrap().is_empty());
        fs::write(&log, "six\n").unwrap();
        assert_eq!(tail.more().unwrap(), ["six"]);

        let newest = |count| Vec::from(Tail::new(data.path()).newest(count).unwrap());
        assert_eq!(newest(1), ["six"]);
        assert_eq!(newest(3), ["three", "four", "six"]);
        assert_eq!(newest(99), ["one", "two", "three", "four", "six"]);
        assert!(newest(0).is_empty());
    }

    #[test]
    fn the_last_error_is_that_since_the_latest_start() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(last_error(data.path()), None);
        let mut log = LogFile::open(data.path()).unwrap();
        let mut after = |line: &str| {
            log.write_all(format!("{line}\n").as_bytes()).unwrap();
            last_error(data.path())
        };
        let failed = "2026 ERROR tasuki_broker: the storage failed";
        assert_eq!(after("2026  INFO tasuki_broker: broker started"), None);
        assert_eq!(after(failed).as_deref(), Some(failed));
        assert_eq!(after("2026  WARN tasuki_node: x").as_deref(), Some(failed));
        assert_eq!(after("2026  INFO tasuki_broker: broker started"), None);
        let json = r#"{"level":"ERROR","fields":{}}"#;
        assert_eq!(after(json).as_deref(), Some(json));
        assert_eq!(after("error: gone. (local)").as_deref(), Some("error: gone. (local)"));
    }

    #[test]
    fn where_a_node_logs_is_told_by_its_process() {
        let user = "/user.slice/user-7.slice/user@7.service/app.slice";
        let shown = |errors: &str, group: &str| {
            let told = elsewhere(7, errors, &format!("1:cpu:/x\n0::{group}\n"));
            told.map_or_else(|| "the file".to_owned(), |it| it.to_string())
        };
        for (errors, group, expected) in [
            ("/home/a/.local/share/tasuki/tasuki.log", user, "the file"),
            ("/data/tasuki.log.1", user, "the file"),
            ("/data/tasuki.log.1 (deleted)", user, "the file"),
            (
                "socket:[1]",
                &format!("{user}/tasuki.service"),
                "journalctl --user -u tasuki.service",
            ),
            ("socket:[1]", "/system.slice/node.service", "journalctl -u node.service"),
            ("/dev/pts/3", &format!("{user}/gnome-terminal-server.service"), "error: /dev/pts/3"),
            ("socket:[1]", "/user.slice/user-7.slice/user@7.service", "error: socket:[1]"),
            ("/tmp/errors", "", "error: /tmp/errors"),
        ] {
            assert!(shown(errors, group).ends_with(expected), "{}", shown(errors, group));
        }
    }
}
