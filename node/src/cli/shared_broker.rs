//! The broker of a data directory, which the nodes of several projects use.
//!
//! Whoever comes first runs it, in its own process. The others find it there, and when that process
//! has ended one of them takes its place: at the same address, so that everybody else only connects
//! again. Which one, the lock on the broker's data decides.
//!
//! Not here: a broker that runs by itself (`tasuki-broker serve`) is used in the same way, but its
//! place is left to whoever starts it again.

use std::time::Duration;

use tasuki_broker::{
    journal::JournalError,
    server::{Broker, Settings, StartError},
};
use tasuki_proto::host::{admin::AdminFile, config::FOLDER};
use tokio::{sync::watch, time::sleep};

use super::{Failure, hosting::sentence, start_failure, up};
use crate::{
    clock,
    config::Config,
    identity::{DataLock, IdentityError},
    link::{LinkState, Phase},
    paths::{NodeFile, is_running},
};

/// For a broker or a node that has the data to say where it listens: it may be starting, or ending.
const FOUND_WITHIN: Duration = Duration::from_secs(5);

/// Between two looks for it.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The same for one that may have ended, while its place is watched.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// Who runs the broker.
pub(super) enum SharedBroker {
    /// This process.
    Started(Box<Broker>),
    Running(RunningBroker),
}

/// Who runs the workspace's node.
pub(super) enum NodePlace {
    /// This process may.
    Free(DataLock),
    Taken(Box<NodeFile>),
}

/// Takes the node's place, or finds who has it. That comes before the broker: of two commands that
/// begin at once, one has both.
pub(super) async fn take_node(config: &Config) -> Result<NodePlace, Failure> {
    let data = &config.data.value;
    let until = clock::now().after(FOUND_WITHIN);
    loop {
        let held = match DataLock::take(data) {
            Ok(lock) => return Ok(NodePlace::Free(lock)),
            Err(held @ IdentityError::InUse(_)) => held,
            Err(why) => return Err(start_failure::node(data, &why.into())),
        };
        // It may be starting, or ending.
        if let Some(node) = NodeFile::read(data) {
            return Ok(NodePlace::Taken(Box::new(node)));
        }
        if until <= clock::now() {
            return Err(start_failure::node(data, &held.into()));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The broker of another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunningBroker {
    /// As it is reached from this machine.
    pub(super) url: String,
    /// `None`: it is of an earlier release.
    pub(super) pid: Option<u32>,
}

impl RunningBroker {
    /// That of this data directory, if one runs and says where.
    pub(super) fn find(config: &Config) -> Option<Self> {
        let file = admin_file(config)?;
        file.pid.is_some_and(is_running).then(|| Self::of(file))
    }

    fn of(file: AdminFile) -> Self {
        Self { url: file.url, pid: file.pid }
    }
}

/// What the broker said that served this data directory last.
fn admin_file(config: &Config) -> Option<AdminFile> {
    AdminFile::read(&config.root.join(FOLDER)).ok().flatten()
}

/// Starts the broker, unless another process has it.
pub(super) async fn start_or_find(
    config: &Config,
    settings: Settings,
) -> Result<SharedBroker, Failure> {
    let until = clock::now().after(FOUND_WITHIN);
    loop {
        let held = match Broker::start(settings.clone()).await {
            Ok(broker) => return Ok(SharedBroker::Started(Box::new(broker))),
            Err(StartError::Journal(held @ JournalError::InUse(_))) => held,
            Err(why) => return Err(start_failure::broker(&config.root, &why)),
        };
        if let Some(running) = RunningBroker::find(config) {
            return Ok(SharedBroker::Running(running));
        }
        if until <= clock::now() {
            // An earlier release does not say which process it is.
            let file = admin_file(config).filter(|file| file.pid.is_none());
            return file.map(|file| SharedBroker::Running(RunningBroker::of(file))).ok_or_else(
                || {
                    Failure::local(format!(
                        "{held}, which does not say where it listens. Name it with `tasuki node \
                     --broker URL`, or another data directory with --data DIR."
                    ))
                },
            );
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Resolves once this process has taken the place of another project's that ran the broker. `link`
/// is the connection to it.
pub(super) async fn take_over(config: &Config, mut link: watch::Receiver<LinkState>) -> Broker {
    let mut told = String::new();
    loop {
        let is_lost = |it: &LinkState| !matches!(it.phase, Phase::Connected);
        if link.wait_for(is_lost).await.is_err() {
            return std::future::pending().await;
        }
        match Box::pin(start_abandoned(config)).await {
            Ok(Some(broker)) => {
                tracing::info!("the process that ran the broker has ended; this one runs it");
                return broker;
            }
            Ok(None) => {}
            Err(why) if why.message == told => {}
            Err(why) => {
                tracing::warn!(why = why.message, "the broker's place cannot be taken");
                told = why.message;
            }
        }
        sleep(WATCH_EVERY).await;
    }
}

/// Starts the broker where it was. `None`: its process runs, or it is not for a node to run.
async fn start_abandoned(config: &Config) -> Result<Option<Broker>, Failure> {
    let Some(file) = admin_file(config).filter(|file| file.has_node) else { return Ok(None) };
    let Some(listen) = file.listen else { return Ok(None) };
    let settings = up::broker_settings(config)?;
    // Whoever uses it knows it as it was.
    let secure = settings.secure || file.fingerprint.is_some();
    match Broker::start(Settings { listen, secure, ..settings }).await {
        Ok(broker) => Ok(Some(broker)),
        Err(StartError::Journal(JournalError::InUse(_))) => Ok(None),
        Err(why) => Err(Failure::local(sentence(&why))),
    }
}
