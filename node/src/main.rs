//! The command `tasuki`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tasuki_node::cli::main()
}
