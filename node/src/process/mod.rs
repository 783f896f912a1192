//! Commands that this program starts, each under a keeper: a process that becomes the parent of
//! whatever the command leaves behind, and ends all of it when the command ends, when it is told to,
//! and when whoever started it is gone (AC4).
//!
//! `policy` is pure. `sandbox` takes rights away from the process it is in, `keeper` stands between
//! a command and everything else, `kept` starts one and speaks to it, `tree` knows the processes
//! below this one.
//!
//! Not here: which commands run, and what becomes of what they print.

#[cfg(unix)]
mod fd_passing;
#[cfg(unix)]
pub mod keeper;
#[cfg(unix)]
pub mod kept;
pub mod policy;
#[cfg(unix)]
pub mod sandbox;
#[cfg(target_os = "linux")]
mod syscalls;
pub mod tail;
#[cfg(unix)]
pub mod tree;
