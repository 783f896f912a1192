//! `tasuki doctor`: what is wrong with this machine's set-up, and the command that mends each of it.
//!
//! - [`finding`]: one line of the answer, and all of them. Pure.
//! - [`settings`], [`storage`], [`node`], [`broker`], [`clients`]: what is looked at, side by side.
//! - [`delivery`]: a letter from one agent to another, once there is a broker to carry it.
//!
//! Each look has a time limit, so that the whole is over within some ten seconds. Nothing is changed but
//! in a workspace and a directory of its own, and nothing is read of a data directory that others could
//! have written.

mod broker;
mod clients;
mod delivery;
mod finding;
mod node;
mod settings;
mod storage;

use std::time::Duration;

use tasuki_proto::host::progress::{Progress, Unit};
use tokio::time::timeout;

use self::finding::{Area, Finding, Report, or_ok};
use super::{Exit, Failure, Look, Output};
use crate::{
    clock,
    config::{Config, Environment, Problem},
    paths::NodeFile,
};

/// For the disk to answer; one across a network may not.
const DISK_WITHIN: Duration = Duration::from_secs(5);

/// Find what is wrong with a machine's set-up, and how to mend it
///
/// Looks at the program, the configuration, the data directory, the node, the broker, the clients'
/// configuration and what waits, and sends a letter from one agent to another, in a workspace of its
/// own. Works whether anything runs or not. Exits with 5 if there is an error; warnings alone are
/// exit code 0.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) async fn run(look: &Look<'_>, output: &mut Output) -> Result<(), Failure> {
    let (config, problems) = look();
    let around = Environment::of_process();
    let progress = Progress::start("checking", Unit::Time, output.is_json());
    let report = examine(&config, &problems, &around).await;
    progress.finish();
    output.answer(|| report.value(), || report.lines())?;
    if report.has_errors() { Err(Failure::told(Exit::Local)) } else { Ok(()) }
}

async fn examine(config: &Config, problems: &[Problem], around: &Environment) -> Report {
    let mut findings = node::program();
    findings.extend(settings::settings(config, problems, around));
    // Other commands do not read it either.
    if !config.is_data_usable(around) {
        let what = "Not looked at: `data` cannot be used, see above.";
        findings.push(Finding::skipped(Area::Data, what, ""));
        return Report::new(findings, None);
    }
    let disk = async {
        let of_disk = config.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut found = storage::storage(&of_disk, clock::wall_ms());
            found.extend(node::ports(&of_disk));
            found.extend(node::last_error(&of_disk));
            (found, clients::Read::of(&of_disk))
        });
        let Ok(Ok((mut found, read))) = timeout(DISK_WITHIN, read).await else {
            let what = format!("The disk does not answer within {} s.", DISK_WITHIN.as_secs());
            let mend = "Is a file system of another machine away? See `mount`.";
            return vec![Finding::error(Area::Data, what, mend)];
        };
        found.extend(clients::clients(&read, config).await);
        found
    };
    let looked =
        tokio::join!(disk, node::node(config), broker::look(config), settings::programs(config));
    let (disk, of_node, broker::Looked { findings: of_broker, broker }, programs) = looked;
    for found in [disk, of_node, of_broker, programs] {
        findings.extend(found);
    }
    let delivery_ms = match broker.filter(|_| NodeFile::read(&config.data.value).is_some()) {
        Some(broker) => {
            let (finding, ms) = Box::pin(delivery::delivery(config, &broker)).await;
            findings.push(finding);
            ms
        }
        None => {
            let what = "Not tried: it takes a node and a broker.";
            findings.push(Finding::skipped(Area::Delivery, what, ""));
            None
        }
    };
    let findings = or_ok(findings, Area::Work, storage::NOTHING_WAITS);
    Report::new(findings, delivery_ms)
}
