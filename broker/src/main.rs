//! `tasuki-broker`: serves a data directory, verifies it, says who may join.

#![allow(missing_debug_implementations, reason = "a program has no users of its types")]

mod cli;

use std::process::ExitCode;

/// A fifth of a loaded broker's time goes into small allocations; this halves it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // With huge pages the allocator's reserve is in memory as a whole, some 60 MB that nothing uses.
    // Where the system has none there is nothing to turn off.
    #[cfg(any(target_os = "android", target_os = "linux"))]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    cli::main()
}
