//! `tasuki node`: roles here, the broker elsewhere.

use super::{
    Failure, Flags, Output, access,
    hosting::{self, Hosting},
    stopped,
};
use crate::config::{Config, Key};

/// Run a node that uses a broker elsewhere.
///
/// After `tasuki join` it needs no flags. Prints where it listens:
/// `listening on http://127.0.0.1:7421 (MCP)`. While the broker cannot
/// be reached, or refuses this node because another live one hosts a role of it, it says so and
/// keeps trying; agents are told so.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// URL of the broker [default: http://127.0.0.1:7420]
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
    /// Where the node serves MCP [default: 127.0.0.1:7421]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Workspace [default: default]
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// A role and its toolsets, in order; repeat for each [default: A and B]
    #[arg(long = "role", value_name = "NAME[=SET,SET…]")]
    roles: Vec<String>,
    /// A role that several agents may play at once; repeat for each [default: none]
    #[arg(long, value_name = "ROLE")]
    shared: Vec<String>,
    /// Encrypt MCP and ask agents for tokens on a loopback address too; elsewhere it is always so
    #[arg(long)]
    secure: bool,
    /// Name or address under which other machines reach this one
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Certificate of an authority in PEM for MCP, with --tls-key [default: one made here]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<String>,
    /// Its private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<String>,
    /// How long one waiting call is held open [default: as long as the client allows]
    #[arg(long, value_name = "DURATION")]
    hold: Option<String>,
    /// Host the roles even though another live node does: it loses them
    #[arg(long)]
    pub take_over: bool,
}

impl Args {
    pub(super) fn flags(&self, flags: &mut Flags) {
        flags.set(Key::Broker, "--broker", self.broker.as_ref());
        flags.set(Key::Listen, "--listen", self.listen.as_ref());
        flags.set(Key::Workspace, "--workspace", self.workspace.as_ref());
        flags.set_all(Key::Roles, "--role", &self.roles);
        flags.set_all(Key::Shared, "--shared", &self.shared);
        let secure = self.secure.then(|| "yes".to_owned());
        flags.set(Key::Secure, "--secure", secure.as_ref());
        flags.set(Key::Advertise, "--advertise", self.advertise.as_ref());
        flags.set(Key::TlsCert, "--tls-cert", self.tls_cert.as_ref());
        flags.set(Key::TlsKey, "--tls-key", self.tls_key.as_ref());
        flags.set(Key::Hold, "--hold", self.hold.as_ref());
    }
}

/// Runs until [`stopped`]; every setting but `--take-over` is in `config`.
pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    access::check(config)?;
    let listener = hosting::listen("--listen", config.listen.value).await?;
    let broker = config.broker_url();
    let mut hosting = Hosting::start(config, broker, args.take_over, listener).await?;
    hosting.announce(None, output)?;
    tokio::select! {
        failure = hosting.run(output) => Err(failure),
        () = stopped() => {
            hosting.shut_down(config).await;
            Ok(())
        }
    }
}
