//! The processes that this one has below it, and their end.
//!
//! On Linux what loses its parent becomes a child of the nearest one above that asked for that, so
//! nothing gets away by leaving its process group or by having its parent die. Elsewhere only the
//! process group is known.

use std::fs;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid,
    waitpid,
};

/// Rounds in which children are killed and what they left behind becomes children in turn: each
/// takes away one generation.
const ROUNDS_MAX: u32 = 10_000;

/// Makes this process the parent of whatever loses its own below it.
pub fn adopt() -> rustix::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// The children of this process, those that ended and were not waited for included.
pub fn children() -> Vec<Pid> {
    let own = rustix::process::getpid();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|it| parent(*it) == Some(own)).filter_map(Pid::from_raw).collect()
}

fn parent(pid: i32) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it, in brackets, may have any letters.
    let rest = &stat[stat.rfind(')')? + 1..];
    Pid::from_raw(rest.split_whitespace().nth(1)?.parse().ok()?)
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
    for _ in 0..ROUNDS_MAX {
        let children = children();
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
