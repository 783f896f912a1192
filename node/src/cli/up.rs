//! `tasuki up`: broker and node in one process.

use std::sync::OnceLock;

use tasuki_broker::server::{Broker, Settings};
use tasuki_proto::host::config::{self as broker, FOLDER, Found};

use super::{
    Failure, Flags, Output,
    hosting::{self, Hosting},
    hosting_args::HostingArgs,
    runs_setup::BrokerPlace,
    shared_broker::{self, NodePlace, RunningBroker, SharedBroker},
    stopped,
};
use crate::{
    config::{Config, Key},
    credentials::Joined,
    identity::DataLock,
};

/// Run broker and node in one process: all that one machine needs
///
/// Data is kept between starts. A workspace is one project: in the directory of a second one this
/// uses the broker that runs already, with a node on a port of its own. Prints where it listens, one
/// line each:
///
///   listening on http://127.0.0.1:7421 (MCP)
///   listening on http://127.0.0.1:7420 (broker gRPC)
///   listening on http://127.0.0.1:7422 (dashboard)
///
/// An agent connects to /mcp/ROLE there, for example http://127.0.0.1:7421/mcp/A; a port of 0
/// takes any free one. SIGTERM and Ctrl-C stop it.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    pub(super) hosted: HostingArgs,
    /// Address on which the broker serves gRPC [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS")]
    broker_listen: Option<String>,
    /// Address on which the broker serves its dashboard and /metrics, or off
    /// [default: 127.0.0.1:7422, or a free port where that one is taken]
    #[arg(long, value_name = "ADDRESS")]
    dashboard: Option<String>,
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
        flags.set(Key::Dashboard, "--dashboard", self.dashboard.as_ref());
        flags.set(Key::Lease, "--lease", self.lease.as_ref());
    }
}

/// Runs until [`stopped`]; every setting is in `config`.
pub(crate) async fn run(args: &Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    hosting::refuse_untrusted(config)?;
    refuse_joined(config)?;
    let config = &hosting::claim_node(config)?;
    let lock = match shared_broker::take_node(config).await? {
        NodePlace::Free(lock) => lock,
        NodePlace::Taken(node) => {
            return Err(Failure::local(format!(
                "Tasuki already runs on this data directory (pid {}). See `tasuki{} status`.",
                node.pid,
                hosting::node_flags(config)
            )));
        }
    };
    let settings = Settings { is_moved: args.moved, ..broker_settings(config)? };
    let (own, running) = match Box::pin(shared_broker::start_or_find(config, settings)).await? {
        SharedBroker::Started(broker) => (OnceLock::from(*broker), None),
        SharedBroker::Running(running) => (OnceLock::new(), Some(running)),
    };
    let result = host(config, lock, &own, running.as_ref(), args, output).await;
    let closed = match own.get() {
        Some(broker) => broker.stop().await.map_err(|why| Failure::local(hosting::sentence(&why))),
        None => Ok(()),
    };
    result.and(closed)
}

/// Work would go to another broker than the one that was joined, and nobody would be told.
pub(super) fn refuse_joined(config: &Config) -> Result<(), Failure> {
    let data = config.root.display();
    match Joined::read(&config.root) {
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
        has_node: true,
        dashboard: config.dashboard.value,
        secure: config.secure.value || file.secure.unwrap_or(false),
        advertise: file.advertise.or_else(|| config.advertise.value.clone()),
        tls: file.tls_cert.zip(file.tls_key).or_else(of_flags),
        lease_ms: u64::try_from(config.lease.value.as_millis()).unwrap_or(u64::MAX),
        ..Settings::new(config.root.join(FOLDER), config.broker_listen.value)
    })
}

/// `own` holds the broker while this process runs it; until then it is `running`.
async fn host(
    config: &Config,
    lock: DataLock,
    own: &OnceLock<Broker>,
    running: Option<&RunningBroker>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let listener = hosting::listen_mcp(config).await?;
    let local = own.get().map(|broker| broker.local_url().to_owned());
    let url = local.or_else(|| running.map(|it| it.url.clone())).unwrap_or_default();
    // The roles are nobody else's: a node of an earlier start that died is not waited for.
    let reached = (url, own.get().map(Broker::carrier));
    let mut hosting =
        Hosting::start(config, reached, BrokerPlace::Here, true, lock, args.moved, listener)
            .await?;
    let listening = own.get().map(Broker::url);
    let dashboard = own.get().and_then(Broker::dashboard);
    // Whoever is told that it listens may stop it at once.
    let stopping = stopped();
    hosting.announce(listening.as_deref(), running, dashboard, output)?;
    args.hosted.background.ready(config, output)?;
    let link = hosting.watch_link();
    let failed = async {
        let broker = match own.get() {
            Some(broker) => broker,
            None => {
                let broker = shared_broker::take_over(config, link).await;
                own.get_or_init(|| broker)
            }
        };
        broker.failed().await
    };
    tokio::select! {
        why = failed => Err(Failure::local(format!(
            "The storage failed: {why}. Acknowledged work is on disk; start again once the disk \
             is well."
        ))),
        failure = hosting.run(output) => Err(failure),
        () = stopping => {
            hosting.shut_down(config).await;
            Ok(())
        }
    }
}
