//! Evidence that is run again: a delivery's commit, checked out clean, and its commands, run where
//! the acceptor is.
//!
//! - **AC1** What runs was allowed by the operator, in a file of the operator's; a list with one
//!   command that is not allowed does not run at all.
//! - **AC2** What is checked out is the bytes of the named commit, and nothing that came with a
//!   repository (hooks, filters, configuration, replaced objects) is run or goes by for that.
//! - **AC3** A command runs inside the sandbox or not at all, unless the operator wants none; the
//!   evidence says which it was.
//! - **AC4** What a command started ends with it: when it ends, at its time limit, and when whoever
//!   runs it is interrupted or killed.
//! - **AC5** Nothing of a checkout stays; what a killed process left is removed by the next.
//! - **AC6** Evidence says what was seen: the exit code, the hash of the whole output, its end. What
//!   was not run is never called passed.
//!
//! `allowed`, `settings` and `report` are pure. `checkout` speaks to git, `run` runs the commands and
//! listens.
//!
//! Not here: how a command is kept and kept in (`process`), and the verdict, which is the acceptor's and which the broker judges.

pub mod allowed;
#[cfg(unix)]
pub mod checkout;
pub mod report;
#[cfg(unix)]
pub mod run;
pub mod settings;
