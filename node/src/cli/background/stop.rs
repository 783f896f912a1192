//! `tasuki stop`: ends the node of this data directory, or all of them.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;
use tokio::time::{sleep, timeout};

use super::own_directory;
use crate::{
    cli::{
        Failure, Output, hosting,
        text::{line, word},
    },
    config::Config,
    holder::Holder,
    paths::NodeFile,
    projects,
};

/// For a node to end: what it does last takes no longer.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Between two looks at whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Stop the node of this workspace that runs in the background
///
/// A broker in the same process stops with it. Data is kept. Also stops a node that runs in another
/// terminal.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Stop the nodes of all workspaces in this data directory
    #[arg(long)]
    all: bool,
}

/// A node that was asked to stop.
struct Node {
    holder: Holder,
    /// Unknown before it listens.
    workspace: Option<String>,
    data: PathBuf,
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let directories = if args.all {
        projects::directories(&config.root)
    } else {
        own_directory(config).map(Path::to_owned).into_iter().collect()
    };
    let mut nodes = Vec::new();
    for data in directories {
        let Some(holder) = Holder::read(&data) else { continue };
        // It removes the file when it ends.
        let file = NodeFile::last(&data).filter(|file| file.pid == holder.pid);
        holder.terminate().map_err(|why| {
            Failure::local(format!("The node (pid {}) cannot be stopped: {why}.", holder.pid))
        })?;
        nodes.push(Node { holder, workspace: file.map(|file| file.workspace), data });
    }
    let ended = async {
        while nodes.iter().any(|node| node.holder.is_running()) {
            sleep(LOOK_EVERY).await;
        }
    };
    let is_late = timeout(STOP_WITHIN, ended).await.is_err();
    let (left, stopped): (Vec<_>, Vec<_>) =
        nodes.iter().partition(|node| is_late && node.holder.is_running());
    output.answer(|| answer(&stopped), || lines(&stopped, left.is_empty(), config))?;
    if left.is_empty() {
        return Ok(());
    }
    let pids: Vec<String> = left.iter().map(|node| node.holder.pid.to_string()).collect();
    let (pids, seconds) = (pids.join(" "), STOP_WITHIN.as_secs());
    Err(Failure::local(format!(
        "Still stopping after {seconds} s: pid {pids}. Nothing that was acknowledged is lost if \
         you end it: `kill -9 {pids}`."
    )))
}

fn answer(stopped: &[&Node]) -> serde_json::Value {
    let shown = stopped.iter().map(
        |node| json!({ "pid": node.holder.pid, "workspace": node.workspace, "data": node.data }),
    );
    json!({ "stopped": shown.collect::<Vec<_>>() })
}

fn lines(stopped: &[&Node], is_all: bool, config: &Config) -> String {
    if stopped.is_empty() && is_all {
        let data = config.data.value.to_string_lossy();
        let flags = hosting::node_flags(config);
        return format!(
            "No node runs with data in {}. `tasuki{flags} up --detach` starts one.\n",
            word(&data)
        );
    }
    let shown = stopped.iter().map(|node| {
        let pid = node.holder.pid;
        match &node.workspace {
            Some(workspace) => format!("Stopped workspace {} (pid {pid}).\n", line(workspace)),
            None => format!("Stopped a node that was starting (pid {pid}).\n"),
        }
    });
    shown.collect()
}
