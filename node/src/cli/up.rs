//! `tasuki up`: broker and node in one process.

use super::{Failure, Flags, Output};
use crate::config::{Config, Key};

/// Run broker and node in one process: all that one machine needs.
///
/// Data is kept between starts. Prints where it listens, one line each:
///
///   listening on http://127.0.0.1:7421 (MCP)
///   listening on http://127.0.0.1:7420 (broker gRPC)
///
/// An agent connects to /mcp/ROLE there, for example http://127.0.0.1:7421/mcp/A; a port of 0
/// takes any free one. SIGTERM and Ctrl-C stop it.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Where the node serves MCP [default: 127.0.0.1:7421]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where the broker serves gRPC [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS")]
    broker_listen: Option<String>,
    /// Workspace [default: default]
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// A role and its toolsets, in order; repeat for each [default: A and B]
    #[arg(long = "role", value_name = "NAME[=SET,SET…]")]
    roles: Vec<String>,
    /// How long after its holder's last sign of life a turn stays its own [default: 15m]
    #[arg(long, value_name = "DURATION")]
    lease: Option<String>,
    /// How long one waiting call is held open [default: as long as the client allows]
    #[arg(long, value_name = "DURATION")]
    hold: Option<String>,
}

impl Args {
    pub(super) fn flags(&self, flags: &mut Flags) {
        flags.set(Key::Listen, "--listen", self.listen.as_ref());
        flags.set(Key::BrokerListen, "--broker-listen", self.broker_listen.as_ref());
        flags.set(Key::Workspace, "--workspace", self.workspace.as_ref());
        flags.set_all(Key::Roles, "--role", &self.roles);
        flags.set(Key::Lease, "--lease", self.lease.as_ref());
        flags.set(Key::Hold, "--hold", self.hold.as_ref());
    }
}

/// Runs until [`super::stopped`]; every setting is in `config`.
#[expect(clippy::unused_async, reason = "the parts that are started here are asynchronous")]
pub(crate) async fn run(config: &Config, output: &mut Output) -> Result<(), Failure> {
    output.note(&format!("data is in {}", config.data.value.display()));
    Err(Failure::local("`tasuki up` is not wired to its parts in this build."))
}
