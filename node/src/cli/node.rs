//! `tasuki node`: roles here, the broker elsewhere.

use super::{
    Failure, Flags, Output, access,
    hosted::Hosted,
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
    #[command(flatten)]
    hosted: Hosted,
    /// Host the roles even though another live node does: it loses them
    #[arg(long)]
    pub take_over: bool,
}

impl Args {
    pub(super) fn flags(&self, flags: &mut Flags) {
        flags.set(Key::Broker, "--broker", self.broker.as_ref());
        self.hosted.flags(flags);
    }
}

/// Runs until [`stopped`]; every setting but `--take-over` is in `config`.
pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    hosting::refuse_untrusted(config)?;
    access::check(config)?;
    let listener = hosting::listen("--listen", config.listen.value).await?;
    let broker = config.broker_url();
    let mut hosting = Hosting::start(config, broker, args.take_over, false, listener).await?;
    hosting.announce(None, output)?;
    tokio::select! {
        failure = hosting.run(output) => Err(failure),
        () = stopped() => {
            hosting.shut_down(config).await;
            Ok(())
        }
    }
}
