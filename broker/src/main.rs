//! `tasuki-broker`: serves a data directory, verifies it, says who may join.

#![allow(missing_debug_implementations, reason = "a program has no users of its types")]

mod cli;

use std::process::ExitCode;

/// A fifth of a loaded broker's time goes into small allocations; this halves it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
