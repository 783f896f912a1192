//! The node of the workspace: whether it runs, what it says of itself, the ports that a start takes.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use rustix::process::{Resource, getrlimit};
use serde_json::Value;
use tasuki_proto::{
    counted::listed_names,
    host::{dashboard::Dashboard, port_owner::why_taken},
};
use tokio::time::timeout;

use super::{
    finding::{Area, Finding, or_ok},
    settings,
};
use crate::{
    agent_tokens::Bearing,
    cli::{background::logs, hosting, node_address, shared_broker::RunningBroker, text::line},
    config::{Config, Source},
    credentials::Joined,
    holder::Holder,
    hooks,
    mcp::ask,
    mirror,
    paths::{NodeFile, is_running},
};

/// For a node on this machine to answer: it only looks into its own memory.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// What every system gives a program unless somebody chose less: files and connections of agents.
const FILES_MIN: u64 = 1024;

/// How a node is started here.
pub(super) fn start_command(config: &Config) -> String {
    let is_joined = Joined::read(&config.root).is_ok_and(|it| it.is_some());
    let verb = if is_joined { "node" } else { "up" };
    format!("`tasuki{} {verb}`", hosting::node_flags(config))
}

/// The node of the workspace, where it runs: one that never ran has no directory of its own.
fn running(config: &Config) -> Option<NodeFile> {
    let workspace = config.workspace.value.as_str();
    NodeFile::read(&config.data.value).filter(|node| node.workspace == workspace)
}

pub(super) async fn node(config: &Config) -> Vec<Finding> {
    let start = start_command(config);
    let data = &config.data.value;
    let stop = format!("`tasuki{} stop`", hosting::node_flags(config));
    let restart = format!("{stop}, then {start}.");
    let Some(file) = running(config) else {
        if NodeFile::read(data).is_none()
            && let Some(holder) = Holder::read(data)
        {
            let what = format!(
                "A node (pid {}) has {} and does not say where it listens: it is starting or ending, \
                 or its node.json was removed or damaged.",
                holder.pid,
                data.display()
            );
            let mend = format!("If it stays so: {restart}");
            return vec![Finding::error(Area::Node, what, mend)];
        }
        return match NodeFile::last(data) {
            Some(last)
                if last.workspace == config.workspace.value.as_str() && !is_running(last.pid) =>
            {
                let pid = last.pid;
                let what = format!("The node (pid {pid}) ended without being stopped: killed?");
                let mend = format!("{start} starts it again; `tasuki logs` shows what it said.");
                vec![Finding::warning(Area::Node, what, mend)]
            }
            Some(_) | None => {
                let workspace = &config.workspace.value;
                let what = format!("No node of workspace {workspace} runs.");
                vec![Finding::skipped(Area::Node, what, format!("{start} starts one."))]
            }
        };
    };
    let (pid, url, roles) = (file.pid, file.mcp.clone(), file.roles.clone());
    let mut found = open_files(pid);
    let at = node_address::local(file, data, &Bearing::Node);
    let told = timeout(ANSWER_WITHIN, ask::get(&at, "/status")).await;
    match told {
        Ok(Ok(told)) => found.extend(status(&told, config, &restart)),
        Ok(Err(why)) => {
            let why = hosting::sentence(&why);
            let what = format!("The node (pid {pid}) does not answer: {why}");
            found.push(Finding::error(Area::Node, what, restart.clone()));
        }
        Err(_) => {
            let secs = ANSWER_WITHIN.as_secs();
            let what = format!("The node (pid {pid}) did not answer at {url} within {secs} s.");
            found.push(Finding::error(Area::Node, what, restart.clone()));
        }
    }
    let is_new = |name: &&str| !roles.iter().any(|role| role == name);
    let named = config.roles.value.iter().map(|role| role.name.as_str());
    let new: Vec<&str> = named.filter(is_new).collect();
    if !new.is_empty() && config.roles.source != Source::Default {
        let what = format!(
            "The configuration has {}, which the running node does not host.",
            new.join(", ")
        );
        found.push(Finding::warning(Area::Node, what, restart));
    }
    or_ok(found, Area::Node, format!("pid {pid}, {url}, hosts {}", line(&listed_names(&roles))))
}

/// What a node says is wrong.
fn status(told: &Value, config: &Config, restart: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let own = env!("CARGO_PKG_VERSION");
    let version = told["version"].as_str().unwrap_or_default();
    if version != own {
        let what = format!("The node runs tasuki {}, and this is {own}.", line(version));
        found.push(Finding::warning(Area::Node, what, restart));
    }
    let broker = &told["broker"];
    let why = line(broker["why"].as_str().unwrap_or("it does not say why"));
    let url = line(broker["url"].as_str().unwrap_or_default());
    match broker["state"].as_str() {
        Some("connected") | None => {}
        Some("refused") => {
            let flags = hosting::node_flags(config);
            let what = format!("The broker at {url} refuses the node: {why}");
            let mend = format!(
                "Where another node hosts the role, stop that one, or `tasuki{flags} node \
                 --take-over`; where the token is refused, `tasuki join` again."
            );
            found.push(Finding::error(Area::Node, what, mend));
        }
        Some(_) => {
            let what = format!("The node does not reach the broker at {url}: {why}");
            let mend = "It keeps trying. Start the broker there, or see what is said of it below.";
            found.push(Finding::error(Area::Node, what, mend));
        }
    }
    let part = |name: &str| told.get(name).cloned().unwrap_or_default();
    let hooks: Vec<hooks::Report> = serde_json::from_value(part("hooks")).unwrap_or_default();
    for hook in &hooks {
        let name = line(&hook.hook);
        for why in hook.unusable.iter().chain(&hook.deaf) {
            let what = format!("The hook {name} is not called: {}.", line(why));
            let mend = "Correct it; `tasuki config check` shows it, and the node takes it at its \
                        next start.";
            found.push(Finding::error(Area::Work, what, mend));
        }
    }
    let mailboxes: Vec<mirror::Report> = serde_json::from_value(part("mirror")).unwrap_or_default();
    for of in &mailboxes {
        if let Some(why) = &of.problem {
            let (role, folder) = (line(&of.role), of.folder.display());
            let what = format!("The mailbox of {role} in {folder} is not kept: {}.", line(why));
            let mend = "Make the directory writable or make it again; `tasuki mirror status`.";
            found.push(Finding::error(Area::Work, what, mend));
        }
    }
    found
}

/// How many files a process may have open: the node's own where it runs, else this shell's.
fn open_files(pid: u32) -> Vec<Finding> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let limit = limits.lines().find_map(|it| it.strip_prefix("Max open files"));
    let limit = limit.and_then(|it| it.split_whitespace().next()?.parse().ok());
    few_files(limit, "The node")
}

/// The same of a program that is started here.
pub(super) fn own_open_files() -> Vec<Finding> {
    few_files(getrlimit(Resource::Nofile).current, "A program that is started here")
}

fn few_files(limit: Option<u64>, who: &str) -> Vec<Finding> {
    let low = limit.filter(|limit| *limit < FILES_MIN);
    let finding = |limit| {
        let what = format!("{who} may have {limit} files and connections open; agents need more.");
        let mend = format!("`ulimit -n {FILES_MIN}` in the shell that starts it, then start it.");
        Finding::warning(Area::Program, what, mend)
    };
    low.map(finding).into_iter().collect()
}

/// Ports that the next start takes, where nothing of this data directory has them.
pub(super) fn ports(config: &Config) -> Vec<Finding> {
    let is_node_there = running(config).is_some();
    let is_broker_here = !Joined::read(&config.root).is_ok_and(|it| it.is_some())
        && config.broker.value.is_none()
        && RunningBroker::find(config).is_none();
    let mut wanted = Vec::new();
    // A default moves on where it is taken.
    if !is_node_there && config.listen.source != Source::Default {
        wanted.push(("--listen", config.listen.value));
    }
    if !is_node_there && is_broker_here {
        wanted.push(("--broker-listen", config.broker_listen.value));
        if let (Dashboard::At(address), false) =
            (config.dashboard.value, config.dashboard.source == Source::Default)
        {
            wanted.push(("--dashboard", address));
        }
    }
    wanted.into_iter().filter_map(|(flag, address)| port(flag, address, config)).collect()
}

fn port(flag: &str, address: SocketAddr, config: &Config) -> Option<Finding> {
    let why = TcpListener::bind(address).err()?;
    let what = format!("{address} is not to be had: {}.", why_taken(address, &why));
    let flags = hosting::node_flags(config);
    let mend =
        format!("Stop what is there, or `tasuki{flags} up {flag} ADDRESS` with another port.");
    Some(Finding::error(Area::Node, what, mend))
}

/// What the log says that a node ended of.
pub(super) fn last_error(config: &Config) -> Vec<Finding> {
    let flags = hosting::node_flags(config);
    let finding = |what: String| {
        let what = format!("The log's last error: {}", line(&what));
        Finding::warning(Area::Node, what, format!("`tasuki{flags} logs` shows what led to it."))
    };
    logs::last_error(&config.data.value).map(finding).into_iter().collect()
}

/// What this program is, and how many files it may open.
pub(super) fn program() -> Vec<Finding> {
    or_ok(own_open_files(), Area::Program, settings::version())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::{Environment, Layer};

    #[test]
    fn what_a_node_says_of_itself_is_judged() {
        let place = tempfile::tempdir().unwrap();
        let config = Config::load(Layer::new(), None, &Environment::within(place.path())).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let connected = json!({ "url": "http://b:1", "state": "connected" });
        let fine = json!({ "version": version, "broker": connected });
        assert_eq!(status(&fine, &config, "restart"), []);
        for (name, value, expected, mend) in [
            ("version", json!("0.0.1"), "runs tasuki 0.0.1, and this is ", "restart"),
            (
                "broker",
                json!({ "url": "http://b:1", "state": "refused", "why": "B hosts it" }),
                "The broker at http://b:1 refuses the node: B hosts it",
                "--take-over",
            ),
            (
                "broker",
                json!({ "url": "http://b:1", "state": "out_of_reach", "why": "no route" }),
                "does not reach the broker at http://b:1: no route",
                "It keeps trying",
            ),
        ] {
            let mut told = fine.clone();
            told[name] = value;
            let found = status(&told, &config, "restart");
            let [one] = found.as_slice() else { panic!("{found:?}") };
            assert!(one.what.contains(expected) && one.mend.contains(mend), "{one:?}");
        }
    }

    #[test]
    fn few_open_files_are_a_warning() {
        for (limit, count) in [(Some(64), 1), (Some(FILES_MIN), 0), (None, 0)] {
            assert_eq!(few_files(limit, "it").len(), count, "{limit:?}");
        }
    }
}
