//! The processes that this one has below it, and their end.
//!
//! On Linux what loses its parent becomes a child of the nearest one above that asked for that, so
//! nothing gets away by leaving its process group or by having its parent die. Elsewhere only the
//! process group is known.

use std::{collections::BTreeMap, fs};

use parking_lot::Mutex;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid,
    waitpid,
};

/// Rounds in which children are killed and what they left behind becomes children in turn: each
/// takes away one generation.
const ROUNDS_MAX: u32 = 10_000;

/// Fields between the session of a process and the number of its threads.
const THREADS_AFTER_SESSION: usize = 13;

/// How `/proc` calls the process that reads it.
const OWN: &str = "self";

/// Makes this process the parent of whatever loses its own below it.
pub fn adopt() -> rustix::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// The children of this process, those that ended and were not waited for included.
pub fn children() -> Vec<Pid> {
    children_where(|_, _| true)
}

/// Those of them that are of a command whose keeper was killed: nobody else is between this process
/// and such a one. What this process started otherwise is in its session, and what that left behind
/// may write files as long as this process may. Each process of a command is in another session and
/// may write shorter files only, and takes back neither, unless it is root and raises its limits.
fn strays() -> Vec<Pid> {
    let (Some(own), Some(limit)) = (proc_stat(OWN), file_limit(OWN)) else { return Vec::new() };
    children_where(|process, stat| {
        stat.session != own.session && file_limit(process).is_some_and(|it| it < limit)
    })
}

fn children_where(is_meant: impl Fn(&str, ProcStat) -> bool) -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_pid();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let children = entries.filter_map(|entry| {
        let name = entry.file_name();
        let process = name.to_str()?;
        let number = Pid::from_raw(process.parse().ok()?)?;
        let stat = proc_stat(process)?;
        (stat.parent == own && is_meant(process, stat)).then_some(number)
    });
    children.collect()
}

/// Threads of the processes below this one.
pub fn threads_below() -> u64 {
    let mut by_parent: BTreeMap<i32, Vec<(i32, u64)>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str() else { continue };
        let (Ok(number), Some(stat)) = (process.parse(), proc_stat(process)) else { continue };
        by_parent.entry(stat.parent).or_default().push((number, stat.threads));
    }
    let (mut all, mut parents) = (0, vec![rustix::process::getpid().as_raw_pid()]);
    while let Some(parent) = parents.pop() {
        for (number, threads) in by_parent.remove(&parent).unwrap_or_default() {
            all += threads;
            parents.push(number);
        }
    }
    all
}

/// Threads of the whole machine: cheap to learn. `None`: it is not told.
pub fn threads_of_machine() -> Option<u64> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let (_running, all) = load.split_whitespace().nth(3)?.split_once('/')?;
    all.parse().ok()
}

/// Which processes a process belongs to. A session is 0 where its leader is in another namespace.
#[derive(Clone, Copy)]
struct ProcStat {
    parent: i32,
    session: i32,
    threads: u64,
}

fn proc_stat(process: &str) -> Option<ProcStat> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name before it, in brackets, may have any bytes.
    let rest = &stat[stat.iter().rposition(|byte| *byte == b')')? + 1..];
    let fields = str::from_utf8(rest).ok()?.split_whitespace();
    // The state comes first.
    let mut fields = fields.skip(1).map(|it| it.parse::<i32>().ok());
    let (parent, _group, session) = (fields.next()??, fields.next()??, fields.next()??);
    // Of what ended there is none, and it counts as one to the system.
    let threads = fields.nth(THREADS_AFTER_SESSION)??.max(1);
    Some(ProcStat { parent, session, threads: u64::try_from(threads).ok()? })
}

/// The longest file that a process can ever be allowed to write, in bytes.
fn file_limit(process: &str) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).ok()?;
    let line = limits.lines().find_map(|it| it.strip_prefix("Max file size"))?;
    // The soft limit comes first.
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        bytes => bytes.parse().ok(),
    }
}

/// Waits until `child` has ended, without taking its number away from it: until it is reaped nobody
/// else has it. Whatever else ends meanwhile is reaped.
pub fn wait_for(child: Pid) -> rustix::io::Result<()> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::All, look) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(why) => return Err(why),
        }
        if waitid(WaitId::Pid(child), look | WaitIdOptions::NOHANG)?.is_some() {
            return Ok(());
        }
        let children = children();
        if children.is_empty() {
            // There is no list of processes; then nobody else is known either.
            waitid(WaitId::Pid(child), look)?;
            return Ok(());
        }
        for other in children.into_iter().filter(|it| *it != child) {
            // One that still runs is none to be reaped.
            waitpid(Some(other), WaitOptions::NOHANG).ok();
        }
    }
}

/// Sends a signal to `child`, which has not been reaped, and to its process group.
pub fn signal_group(child: Pid, signal: Signal) {
    // It may have ended, or not be a leader yet.
    kill_process_group(child, signal).ok();
    kill_process(child, signal).ok();
}

/// Kills and reaps everything below this process. `false`: something is left.
pub fn end_all() -> bool {
    end(children)
}

/// Kills and reaps what came to this process because its keeper was killed. `false`: something is
/// left.
pub fn end_strays() -> bool {
    /// What one call reaps, another one must not signal: its number may be somebody else's by then.
    static ENDING: Mutex<()> = Mutex::new(());
    let _alone = ENDING.lock();
    end(strays)
}

fn end(find: impl Fn() -> Vec<Pid>) -> bool {
    for _ in 0..ROUNDS_MAX {
        let children = find();
        if children.is_empty() {
            return true;
        }
        for child in &children {
            kill_process(*child, Signal::KILL).ok();
        }
        for child in children {
            // Killed, so it ends; its own children are this process's then.
            waitpid(Some(child), WaitOptions::empty()).ok();
        }
    }
    false
}
