//! `tasuki node`: roles here, the broker elsewhere.

use super::{
    Failure, Output, access, broker_url,
    hosting::{self, Hosting},
    hosting_args::HostingArgs,
    runs_setup::BrokerPlace,
    start_failure, stopped, wrong_port,
};
use crate::{config::Config, identity::DataLock};

/// Run a node that uses a broker elsewhere.
///
/// After `tasuki join` it needs no flags. Prints where it listens:
/// `listening on http://127.0.0.1:7421 (MCP)`. While the broker is unreachable, or refuses this node
/// because another live one hosts one of its roles, it says so, to agents as well, and keeps trying.
#[derive(Debug, clap::Args)]
#[command(arg(broker_url("http://127.0.0.1:7420")))]
pub struct Args {
    #[command(flatten)]
    pub(super) hosted: HostingArgs,
    /// Host the roles even if another live node does; that node loses them
    #[arg(long)]
    pub take_over: bool,
}

/// Runs until [`stopped`]; every setting but `--take-over` is in `config`.
pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    hosting::refuse_untrusted(config)?;
    access::check(config)?;
    wrong_port::check_broker(config).await?;
    let config = &hosting::claim_node(config)?;
    let data = &config.data.value;
    let lock = DataLock::take(data).map_err(|why| start_failure::node(data, &why.into()))?;
    let listener = hosting::listen_mcp(config).await?;
    let broker = config.broker_url();
    let mut hosting = Hosting::start(
        config,
        (broker, None),
        BrokerPlace::Elsewhere,
        args.take_over,
        lock,
        false,
        listener,
    )
    .await?;
    // Whoever is told that it listens may stop it at once.
    let stopping = stopped();
    hosting.announce(None, None, None, output)?;
    args.hosted.background.ready(config, output)?;
    tokio::select! {
        failure = hosting.run(output) => Err(failure),
        () = stopping => {
            hosting.shut_down(config).await;
            Ok(())
        }
    }
}
