//! A node with its MCP side, as `tasuki up` and `tasuki node` run it.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde_json::json;
use tasuki_proto::host::config::kept_places;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    Failure, Output,
    mirror_setup::Mirroring,
    runs_setup::{BrokerPlace, RunsSetup},
    text::{line, word},
    tls_setup,
};
use crate::{
    config::{Config, Role, Source},
    hooks::Hooks,
    link::{LinkState, Phase},
    mail_directories::Directories,
    mcp::{self, TaskKey},
    node::{Node, RoleSpec, Settings},
    paths::NodeFile,
    runs::live::LiveSteps,
};

/// For commands and receipts of agents to reach the broker when the node stops: with the MCP
/// side's own patience it is within what a service manager waits.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Where sessions are remembered, in the data directory.
const SESSIONS: &str = "sessions";

/// Where it is remembered how long clients wait, in the data directory.
const HOLDS: &str = "holds.json";

/// A running node and its MCP side.
pub(super) struct Hosting {
    node: Node,
    hooks: Hooks,
    mirroring: Option<Mirroring>,
    runs: RunsSetup,
    file: NodeFile,
    /// As its listener has it.
    listening: String,
    /// What other commands must be told to find it; nothing where it keeps things as usual.
    data: String,
    stop: CancellationToken,
    mcp: JoinHandle<std::io::Result<()>>,
}

/// Takes an address; nobody else may have it.
pub(super) async fn listen(flag: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|why| {
        Failure::local(format!("Nothing can listen on {address}: {why}. Choose another {flag}."))
    })
}

/// What its user did not trust is refused before anything is made on disk for it.
pub(super) fn refuse_untrusted(config: &Config) -> Result<(), Failure> {
    let refused = config.distrust.as_ref().map(std::slice::from_ref);
    refused.map_or(Ok(()), |problems| Err(Failure::configuration(problems)))
}

impl Hosting {
    /// Starts the roles and serves MCP on `listener`.
    pub(super) async fn start(
        config: &Config,
        broker: String,
        place: BrokerPlace,
        take_over: bool,
        is_moved: bool,
        listener: TcpListener,
    ) -> Result<Self, Failure> {
        if !config.idle_toolsets.is_empty() {
            let roles = config.idle_toolsets.join(", ");
            tracing::warn!(roles, "`toolsets` names what is no role of this node; it is ignored");
        }
        let data = &config.data.value;
        let address = listener.local_addr().map_err(|why| Failure::local(why.to_string()))?;
        let spec = |role: &Role| RoleSpec { role: role.name.clone(), toolsets: role.sets() };
        let roles: Vec<RoleSpec> = config.roles.value.iter().map(spec).collect();
        let names: Vec<String> = roles.iter().map(|spec| spec.role.to_string()).collect();
        let workspace = config.workspace.value.clone();
        let hosted = roles.iter().map(|spec| spec.role.clone()).collect::<Vec<_>>();
        let (url, workspace_name) = (broker.clone(), workspace.to_string());
        let settings =
            Settings { broker, workspace, roles, data: data.clone(), take_over, is_moved };
        let node = Node::start(settings).await;
        let node = node.map_err(|why| Failure::local(sentence(&why)))?;
        let actions =
            node.roles().iter().filter_map(|spec| node.actions(&spec.role)).collect::<Vec<_>>();
        let stop = CancellationToken::new();
        // From here on the data directory is this process's.
        let guarding = config
            .is_guarded()
            .then(|| tls_setup::tls_setup(config, address, hosted.iter(), stop.clone()))
            .transpose()?;
        let scheme = if guarding.is_some() { "https" } else { "http" };
        let vouched = guarding.as_ref().and_then(|it| it.vouched.as_ref());
        let vouched = vouched.map(|host| tls_setup::authority(host, address.port()));
        let file = NodeFile {
            pid: std::process::id(),
            mcp: format!("{scheme}://{}", tls_setup::from_here(address)),
            fingerprint: guarding.as_ref().map(|it| it.fingerprint.to_string()),
            vouched: vouched.map(|authority| format!("https://{authority}")),
            broker: url,
            has_brief_broker: place == BrokerPlace::HereBriefly,
            workspace: workspace_name,
            roles: names,
            toolsets: config.roles.value.iter().map(written).collect(),
        };
        let listening = format!("{scheme}://{address}");
        let hooks = config.hooks.iter().map(|hook| hook.value.clone()).collect();
        let hooks = node.start_hooks(hooks);
        let hooks = hooks.map_err(|why| Failure::local(format!("Hooks cannot begin: {why}.")))?;
        let task_key = TaskKey::open(data, &config.workspace.value)
            .map_err(|why| Failure::local(format!("Tasks cannot be sealed: {why}.")))?;
        let directories = Directories::open(data)
            .map_err(|why| Failure::local(format!("Mailboxes have no directories: {why}.")))?;
        let mirroring = Mirroring::start(config, &node, &directories)?;
        let runs = RunsSetup::start(config, &node, &file, place)?;
        let toolsets = config.roles.value.iter();
        let toolsets = toolsets.map(|role| (role.name.clone(), role.toolsets.clone())).collect();
        let settings = mcp::Settings {
            sessions_dir: Some(data.join(SESSIONS)),
            holds_file: Some(data.join(HOLDS)),
            shared: config.shared.value.iter().cloned().collect(),
            hold: config.hold.value,
            toolsets,
            order: mcp::turn_order(&config.roles.value),
            overview: Some(node.overview()),
            groups: config.groups.clone(),
            directories,
            project: config.mirror_root.value.clone(),
            private: private(config),
            mirror: mirroring.as_ref().map(|it| it.mirror.clone()),
            task_key: Some(task_key),
            hooks: Some(hooks.clone()),
            runs: Some(runs.host.clone()),
            guard: guarding.map(|it| it.guard),
            ..mcp::Settings::default()
        };
        let mcp = tokio::spawn(mcp::serve(listener, actions, settings, stop.clone()));
        file.write(data).map_err(|why| {
            Failure::local(format!("{} cannot be written to: {why}.", data.display()))
        })?;
        let data = data_flag(config);
        Ok(Self { node, hooks, mirroring, runs, file, listening, data, stop, mcp })
    }

    /// Says where it listens. `broker` is the address of a broker in the same process.
    pub(super) fn announce(
        &self,
        broker: Option<&str>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let NodeFile { roles, fingerprint, .. } = &self.file;
        let mcp = &self.listening;
        output.answer(
            || {
                let mut told =
                    json!({ "listening": { "mcp": mcp, "broker": broker }, "roles": roles });
                if let Some(fingerprint) = fingerprint {
                    told["fingerprint"] = json!(fingerprint);
                }
                told
            },
            || {
                let mut lines = format!("listening on {mcp} (MCP)\n");
                if let Some(fingerprint) = fingerprint {
                    lines += &format!("fingerprint of its certificate {fingerprint}\n");
                }
                if let Some(broker) = broker {
                    lines += &format!("listening on {broker} (broker gRPC)\n");
                }
                lines
            },
        )
    }

    /// Says to people how to connect an agent, or why the broker does not have this node.
    /// Resolves when the MCP side ends though nobody asked it to.
    pub(super) async fn run(&mut self, output: &mut Output) -> Failure {
        let mut link = self.node.watch_link();
        let mut is_settled = false;
        loop {
            let phase = link.borrow_and_update().phase.clone();
            if !is_settled {
                is_settled = self.say_how_it_goes(&phase, output);
            }
            tokio::select! {
                failure = mcp_failure(&mut self.mcp) => return failure,
                changed = link.changed(), if !is_settled => is_settled = changed.is_err(),
            }
        }
    }

    /// The connection to the broker, for whoever waits until it stands.
    pub(super) fn watch_link(&self) -> watch::Receiver<LinkState> {
        self.node.watch_link()
    }

    /// What runs here.
    pub(super) fn steps(&self) -> &LiveSteps {
        &self.runs.host.steps
    }

    /// Resolves when the MCP side ends though nobody asked it to.
    pub(super) async fn ended(&mut self) -> Failure {
        mcp_failure(&mut self.mcp).await
    }

    /// Whether no more need be said. A broker that is out of reach is the log's business.
    fn say_how_it_goes(&self, phase: &Phase, output: &mut Output) -> bool {
        let NodeFile { mcp, roles, fingerprint, .. } = &self.file;
        let is_guarded = fingerprint.is_some();
        let said = match phase {
            Phase::Connecting => return false,
            Phase::Connected | Phase::Down(_) => {
                output.guide(|| how_to_connect(mcp, roles, &self.data, is_guarded))
            },
            Phase::Refused(refusal) => output.answer(
                || json!({ "refused": { "code": refusal.reason.as_str(), "message": refusal.message } }),
                || {
                    let (message, code) = (line(&refusal.message), refusal.reason);
                    format!("\nThe broker refuses this node: {message} ({code})\nIt keeps trying.\n")
                },
            ),
        };
        if let Err(error) = said {
            // Agents are served all the same.
            tracing::debug!(%error, "nobody reads what is printed");
        }
        !matches!(phase, Phase::Refused(_))
    }

    /// Answers waits, lets commands end, gives the data directory free.
    pub(super) async fn shut_down(self, config: &Config) {
        self.file.remove(&config.data.value);
        // Before all else: what runs here has to say how it ended, and uses the MCP side until then.
        self.runs.shutdown().await;
        self.stop.cancel();
        let mcp = async {
            if !self.mcp.is_finished()
                && let Err(error) = self.mcp.await
            {
                tracing::warn!(%error, "the MCP side had failed");
            }
        };
        let mirroring = async {
            if let Some(mirroring) = self.mirroring {
                mirroring.shutdown().await;
            }
        };
        tokio::join!(mcp, self.hooks.shutdown(), mirroring);
        self.node.shutdown(LAST_WORDS).await;
    }
}

/// Resolves when the MCP side ends though nobody asked it to.
async fn mcp_failure(mcp: &mut JoinHandle<std::io::Result<()>>) -> Failure {
    let why = match mcp.await {
        Ok(Ok(())) => "no error was reported".to_owned(),
        Ok(Err(why)) => why.to_string(),
        Err(why) => why.to_string(),
    };
    Failure::local(format!("The node's MCP side ended: {why}."))
}

/// Where keys are: the directories of this program, also the one that its configuration gives a
/// broker where the node has another, and the keys that were named.
fn private(config: &Config) -> Vec<PathBuf> {
    // Of a file that a broker cannot use none has anything.
    let broker = config.file.as_ref().and_then(|found| found.of_broker().ok()).unwrap_or_default();
    let own = [Some(config.data.value.clone()), config.tls_key.value.clone()];
    let of_broker = broker.data.into_iter().chain(broker.tls_key);
    kept_places(None).chain(own.into_iter().flatten()).chain(of_broker).collect()
}

/// A role and its toolsets, as its user writes them.
fn written(role: &Role) -> (String, Vec<String>) {
    (role.name.to_string(), role.toolsets.iter().map(ToString::to_string).collect())
}

/// ` --data DIR` as one types it, unless the data is where it usually is.
pub(super) fn data_flag(config: &Config) -> String {
    let data = &config.data.value;
    let data = std::path::absolute(data).unwrap_or_else(|_| data.clone());
    match &config.data.source {
        Source::Default => String::new(),
        Source::File { .. } | Source::Env(_) | Source::Filebox(_) | Source::Flag(_) => {
            format!(" --data {}", word(&data.to_string_lossy()))
        }
    }
}

/// One screen for somebody who starts this for the first time.
fn how_to_connect(mcp: &str, roles: &[String], data: &str, is_guarded: bool) -> String {
    let Some(role) = roles.first() else { return String::new() };
    let other_clients = if is_guarded {
        format!("the command `tasuki{data} mcp --role {role}`; elsewhere with `tasuki agent-token`")
    } else {
        format!("{mcp}/mcp/{role}, or the command `tasuki{data} mcp --role {role}`")
    };
    let older =
        if is_guarded { String::new() } else { format!("  older clients {mcp}/sse/{role}\n") };
    let others = match &roles[1..] {
        [] => String::new(),
        others => format!("\nThe others are connected in the same way: {}.\n", others.join(", ")),
    };
    format!(
        "
Connect the agent that plays {role}:
  Claude Code   tasuki{data} connect claude-code --role {role}
  the same with codex, gemini, cursor, vscode, cline, opencode, zed, junie, jetbrains
  other clients {other_clients}
{older}{others}
Then tell each agent what `tasuki prompt ROLE` prints, as its first message or in its rules.

`tasuki{data} status` shows who is there, `tasuki{data} watch` what happens. Ctrl-C stops; data is kept.
"
    )
}

/// An error and what is behind it, unless its own text says that already.
pub(super) fn sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for behind in std::iter::successors(error.source(), |error| error.source()) {
        let behind = behind.to_string();
        if !text.contains(&behind) {
            text = format!("{text}: {behind}");
        }
    }
    format!("{}.", text.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tasuki_proto::host::trust::TrustStore;

    use super::*;
    use crate::config::{Environment, FILE, Key, Layer, Raw};

    #[test]
    fn keys_that_the_configuration_names_are_private_wherever_they_lie() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        let text = "data = \"broker\"\ntls_cert = \"c\"\ntls_key = \"project/broker.pem\"\n\
                    mcp_tls_cert = \"c\"\nmcp_tls_key = \"project/node.pem\"\n";
        std::fs::write(&path, text).unwrap();
        let around = Environment {
            env: BTreeMap::new(),
            directory: place.path().to_owned(),
            home: None,
            trusted: TrustStore::within(place.path()),
        };
        let node = place.path().join("node");
        let texts = vec![node.to_string_lossy().into_owned()];
        let flags = Layer::from([(Key::Data, Raw { source: Source::Flag("--data"), texts })]);
        let private = private(&Config::load(flags, Some(&path), &around).unwrap());
        for name in ["node", "broker", "project/broker.pem", "project/node.pem"] {
            assert!(private.contains(&place.path().join(name)), "{name}: {private:?}");
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        #[derive(Debug, thiserror::Error)]
        enum Error {
            #[error("cannot listen: {0}")]
            Said(#[source] std::io::Error),
            #[error("cannot listen")]
            Unsaid(#[source] std::io::Error),
        }
        let taken = || std::io::Error::other("it is taken");
        assert_eq!(sentence(&Error::Said(taken())), "cannot listen: it is taken.");
        assert_eq!(sentence(&Error::Unsaid(taken())), "cannot listen: it is taken.");
    }
}
