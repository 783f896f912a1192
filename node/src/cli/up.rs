//! `tasuki up`: broker and node in one process.

use tasuki_broker::server::{Broker, Settings};
use tasuki_proto::host::config::{self as broker, FOLDER, Found};

use super::{
    Failure, Flags, Output,
    hosting::{self, Hosting},
    hosting_args::HostingArgs,
    runs_setup::BrokerPlace,
    stopped,
};
use crate::{
    config::{Config, Key},
    credentials::Joined,
};

/// Run broker and node in one process: all that one machine needs
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
    #[command(flatten)]
    hosted: HostingArgs,
    /// Address on which the broker serves gRPC [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS")]
    broker_listen: Option<String>,
    /// Serve data that was moved here or restored from a backup: a copy is refused otherwise
    ///
    /// Needed once: the new place is recorded. Make sure that no other copy is served. Changes since a
    /// backup are lost, and tokens that were revoked since are valid again: check `tasuki-broker token
    /// list`.
    #[arg(long)]
    moved: bool,
    /// How long a turn stays with its holder after the last sign of life [default: 15m]
    #[arg(long, value_name = "DURATION")]
    lease: Option<String>,
}

impl Args {
    pub(super) fn flags(&self, flags: &mut Flags) {
        self.hosted.flags(flags);
        flags.set(Key::BrokerListen, "--broker-listen", self.broker_listen.as_ref());
        flags.set(Key::Lease, "--lease", self.lease.as_ref());
    }
}

/// Runs until [`stopped`]; every setting is in `config`.
pub(crate) async fn run(args: &Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    hosting::refuse_untrusted(config)?;
    refuse_joined(config)?;
    let settings = Settings { is_moved: args.moved, ..broker_settings(config)? };
    let broker = Broker::start(settings).await;
    let broker = broker.map_err(|why| Failure::local(hosting::sentence(&why)))?;
    let url = broker.local_url().to_owned();
    let result = host(config, &broker, url, args.moved, output).await;
    let closed = broker.stop().await.map_err(|why| Failure::local(hosting::sentence(&why)));
    result.and(closed)
}

/// Work would go to another broker than the one that was joined, and nobody would be told.
pub(super) fn refuse_joined(config: &Config) -> Result<(), Failure> {
    let data = config.data.value.display();
    match Joined::read(&config.data.value) {
        Ok(None) => Ok(()),
        Ok(Some(joined)) => Err(Failure::usage(format!(
            "With data in {data} this machine joined {}: `tasuki node` uses that broker. For one \
             of its own say another directory with --data DIR.",
            joined.broker
        ))),
        Err(why) => Err(Failure::local(format!("{why}."))),
    }
}

/// The broker in this process. It is reached by its own keys in the configuration file, and by the
/// flags, which are for all that listens here.
pub(super) fn broker_settings(config: &Config) -> Result<Settings, Failure> {
    let file = config.file.as_ref().map_or_else(|| Ok(broker::File::default()), Found::of_broker);
    let file =
        file.map_err(|why| Failure::usage(format!("The configuration cannot be used: {why}.")))?;
    if file.client_ca.is_some() {
        return Err(Failure::usage(
            "client_ca is for `tasuki-broker serve`: a node in the same process has no \
             certificate to show.",
        ));
    }
    let of_flags = || config.tls_cert.value.clone().zip(config.tls_key.value.clone());
    Ok(Settings {
        workspaces: vec![config.workspace.value.clone()],
        secure: config.secure.value || file.secure.unwrap_or(false),
        advertise: file.advertise.or_else(|| config.advertise.value.clone()),
        tls: file.tls_cert.zip(file.tls_key).or_else(of_flags),
        lease_ms: u64::try_from(config.lease.value.as_millis()).unwrap_or(u64::MAX),
        ..Settings::new(config.data.value.join(FOLDER), config.broker_listen.value)
    })
}

async fn host(
    config: &Config,
    broker: &Broker,
    url: String,
    is_moved: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let listener = hosting::listen("--listen", config.listen.value).await?;
    // The roles are nobody else's: a node of an earlier start that died is not waited for.
    let mut hosting =
        Hosting::start(config, url, BrokerPlace::Here, true, is_moved, listener).await?;
    hosting.announce(Some(&broker.url()), output)?;
    tokio::select! {
        why = broker.failed() => Err(Failure::local(format!(
            "The storage failed: {why}. Acknowledged work is on disk; start again once the disk \
             is well."
        ))),
        failure = hosting.run(output) => Err(failure),
        () = stopped() => {
            hosting.shut_down(config).await;
            Ok(())
        }
    }
}
