//! A node with its MCP side, as `tasuki up` and `tasuki node` run it.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use serde_json::json;
use tasuki_broker::grpc::Carrier;
use tasuki_proto::host::config::kept_places;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    Failure, Output,
    mirror_setup::Mirroring,
    role_tools_setup,
    runs_setup::{BrokerPlace, RunsSetup},
    shared_broker::RunningBroker,
    start_failure,
    text::{line, word},
    tls_setup,
};
use crate::{
    clock::Clock,
    config::{Config, Role, Source, Sourced},
    gateway::{Gateway, settings::Export},
    hooks::Hooks,
    identity::DataLock,
    link::{LinkState, Phase},
    mail_directories::Directories,
    mcp::{self, TaskKey},
    node::{Node, RoleSpec, Settings},
    paths::NodeFile,
    pipeline::PipelineWorker,
    process::keeper::own_program,
    projects,
    runs::live::LiveSteps,
    services::Services,
    toolset::GATEWAY,
    wake::adapters::Adapters,
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
    pipelines: PipelineWorker,
    runs: RunsSetup,
    /// The MCP servers whose tools are offered.
    gateway: Option<JoinHandle<()>>,
    file: NodeFile,
    /// As its listener has it.
    listening: String,
    /// What other commands must be told to find it; nothing where it keeps things as usual.
    flags: String,
    stop: CancellationToken,
    mcp: JoinHandle<std::io::Result<()>>,
}

/// Takes an address; nobody else may have it.
pub(super) async fn listen(flag: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|why| start_failure::address(flag, address, &why))
}

/// Takes the address where MCP is served. The default port moves on where it is taken: to the one
/// that this node had the last time, else to any. It is the first project's alone, so that agents
/// that were connected there never find another project's node.
pub(super) async fn listen_mcp(config: &Config) -> Result<TcpListener, Failure> {
    let address = config.listen.value;
    if config.listen.source != Source::Default {
        return listen("--listen", address).await;
    }
    let data = &config.data.value;
    let first = config.is_first_project.then_some(address.port());
    for port in projects::last_port(data).into_iter().chain(first).chain([0]) {
        match TcpListener::bind(SocketAddr::new(address.ip(), port)).await {
            Ok(listener) => {
                let taken = listener.local_addr().map_or(port, |it| it.port());
                if let Err(why) = projects::remember_port(data, taken) {
                    tracing::warn!(%why, "the next start may take another port");
                }
                return Ok(listener);
            }
            Err(why) if why.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(_) => break,
        }
    }
    listen("--listen", address).await
}

/// The settings of a node that is to start, whose workspace has its place in the data directory from
/// then on.
pub(super) fn claim_node(config: &Config) -> Result<Config, Failure> {
    config.claim_node().map_err(|why| start_failure::directory(&config.root, &why))
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
        (broker, carrier): (String, Option<Carrier>),
        place: BrokerPlace,
        take_over: bool,
        lock: DataLock,
        is_moved: bool,
        listener: TcpListener,
    ) -> Result<Self, Failure> {
        if !config.idle_toolsets.is_empty() {
            let roles = config.idle_toolsets.join(", ");
            tracing::warn!(roles, "`toolsets` names what is no role of this node; it is ignored");
        }
        if let Some(why) = &config.gateway_distrust {
            let why = &why.message;
            tracing::warn!(why, "no MCP server is started");
        }
        if let Some(why) = &config.services_distrust {
            let why = &why.message;
            tracing::warn!(why, "no service is offered");
        }
        let data = &config.data.value;
        let address = listener.local_addr().map_err(|why| Failure::local(why.to_string()))?;
        let spec = |role: &Role| RoleSpec {
            role: role.name.clone(),
            toolsets: role.sets(),
            is_standby: role.is_standby(),
        };
        let roles: Vec<RoleSpec> = config.roles.value.iter().map(spec).collect();
        let names: Vec<String> = roles.iter().map(|spec| spec.role.to_string()).collect();
        let workspace = config.workspace.value.clone();
        let hosted = roles.iter().map(|spec| spec.role.clone()).collect::<Vec<_>>();
        let (url, workspace_name) = (broker.clone(), workspace.to_string());
        let settings =
            Settings { broker, carrier, workspace, roles, data: data.clone(), take_over, is_moved };
        let node = Node::start_locked(lock, settings).await;
        let node = node.map_err(|why| start_failure::node(data, &why))?;
        let actions =
            node.roles().iter().filter_map(|spec| node.actions(&spec.role)).collect::<Vec<_>>();
        let stop = CancellationToken::new();
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
        let services = role_tools_setup::services(config, &runs);
        let gateway = gateway(config, &node, &services)?;
        if let Some(gateway) = &gateway {
            services.connect(gateway);
        }
        let serving = gateway.as_ref().map(|gateway| {
            let (gateway, stop) = (Arc::clone(gateway), stop.clone());
            tokio::spawn(async move { gateway.run(stop).await })
        });
        let pipelines = role_tools_setup::pipelines(config, &node, &services, place);
        let toolsets = config.roles.value.iter();
        let toolsets = toolsets.map(|role| (role.name.clone(), role.toolsets.clone())).collect();
        let files = role_tools_setup::files(config, private(config));
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
            pages: Some(node.link().pages(gateway.clone().map(|it| it as _), stop.clone())),
            gateway,
            commands: role_tools_setup::commands(config, &files),
            files,
            wake_file: Some(Adapters::path(data)),
            workspace: config.workspace.value.to_string(),
            guard: guarding.map(|it| it.guard),
            ..mcp::Settings::default()
        };
        let mcp = tokio::spawn(mcp::serve(listener, actions, settings, stop.clone()));
        file.write(data).map_err(|why| {
            Failure::local(format!("{} cannot be written to: {why}.", data.display()))
        })?;
        let flags = node_flags(config);
        Ok(Self {
            node,
            hooks,
            mirroring,
            pipelines,
            runs,
            gateway: serving,
            file,
            listening,
            flags,
            stop,
            mcp,
        })
    }

    /// Says where it listens. `broker` is where the broker of its data directory listens, `running`
    /// which other process runs that, `dashboard` where this one serves its dashboard.
    pub(super) fn announce(
        &self,
        broker: Option<&str>,
        running: Option<&RunningBroker>,
        dashboard: Option<&str>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let NodeFile { roles, fingerprint, .. } = &self.file;
        let mcp = &self.listening;
        let broker = broker.or_else(|| running.map(|it| it.url.as_str()));
        output.answer(
            || {
                let mut told =
                    json!({ "listening": { "mcp": mcp, "broker": broker }, "roles": roles });
                if let Some(dashboard) = dashboard {
                    told["listening"]["dashboard"] = json!(dashboard);
                }
                if let Some(running) = running {
                    told["running_broker"] = json!({ "pid": running.pid });
                }
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
                    let owner = match running.map(|it| it.pid) {
                        None => String::new(),
                        Some(None) => ", runs already".to_owned(),
                        Some(Some(pid)) => format!(", runs already, pid {pid}"),
                    };
                    lines += &format!("listening on {broker} (broker gRPC{owner})\n");
                }
                if let Some(dashboard) = dashboard {
                    lines += &format!("listening on {dashboard} (dashboard)\n");
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
                output.guide(|| how_to_connect(mcp, roles, &self.flags, is_guarded))
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
        self.pipelines.shutdown().await;
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
        let gateway = async {
            if let Some(gateway) = self.gateway {
                gateway.await.ok();
            }
        };
        tokio::join!(mcp, self.hooks.shutdown(), mirroring, gateway);
        self.node.shutdown(LAST_WORDS).await;
    }
}

/// The MCP servers whose tools are offered, none of them started yet.
fn gateway(
    config: &Config,
    node: &Node,
    services: &Arc<Services>,
) -> Result<Option<Arc<Gateway>>, Failure> {
    let mut settings = config.gateway.as_ref().map(|it| it.value.clone()).unwrap_or_default();
    // One file may be of several nodes.
    let is_hosted = |export: &Export| config.roles.value.iter().any(|it| it.name == export.role);
    settings.exports.retain(is_hosted);
    // Without servers of its own it offers what roles of other nodes export.
    let has_set = |role: &Role| role.toolsets.iter().any(|it| it.set == GATEWAY);
    let has_none = settings.servers.is_empty() && services.all().is_empty();
    if has_none && !config.roles.value.iter().any(has_set) {
        return Ok(None);
    }
    let keeper = own_program()
        .map_err(|why| Failure::local(format!("MCP servers cannot be started: {why}.")))?;
    let gateway = Gateway::open(
        settings,
        &config.data.value,
        &keeper,
        &Clock::default(),
        node.link().news(),
        Some(node.link().clone()),
    );
    Ok(Some(Arc::new(gateway.with_services(services.providers()))))
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
    let own = [Some(config.root.clone()), config.tls_key.value.clone()];
    let of_broker = broker.data.into_iter().chain(broker.tls_key);
    kept_places(None).chain(own.into_iter().flatten()).chain(of_broker).collect()
}

/// A role and its toolsets, as its user writes them.
fn written(role: &Role) -> (String, Vec<String>) {
    (role.name.to_string(), role.toolsets.iter().map(ToString::to_string).collect())
}

/// ` --data DIR` as one types it, unless the data is where it usually is.
pub(super) fn data_flag(config: &Config) -> String {
    let data = &config.root;
    let data = std::path::absolute(data).unwrap_or_else(|_| data.clone());
    match &config.data.source {
        Source::Default => String::new(),
        Source::File { .. } | Source::Env(_) | Source::Filebox(_) | Source::Flag(_) => {
            format!(" --data {}", word(&data.to_string_lossy()))
        }
    }
}

/// The flags with which another command is about the same node: ` --data DIR --workspace NAME`, as far
/// as it would not find it without.
pub(super) fn node_flags(config: &Config) -> String {
    data_flag(config) + &workspace_flag(config)
}

/// ` --workspace NAME` where no file says it, and another workspace would be meant without it.
fn workspace_flag(config: &Config) -> String {
    let Sourced { value, source } = &config.workspace;
    let is_typed = matches!(source, Source::Flag(_) | Source::Env(_));
    if is_typed && !config.is_first_project {
        format!(" --workspace {value}")
    } else {
        String::new()
    }
}

/// One screen for somebody who starts this for the first time.
fn how_to_connect(mcp: &str, roles: &[String], flags: &str, is_guarded: bool) -> String {
    let Some(role) = roles.first() else { return String::new() };
    let other_clients = if is_guarded {
        format!(
            "the command `tasuki{flags} mcp --role {role}`; elsewhere with `tasuki agent-token`"
        )
    } else {
        format!("{mcp}/mcp/{role}, or the command `tasuki{flags} mcp --role {role}`")
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
  Claude Code   tasuki{flags} connect claude-code --role {role}
  the same with codex, gemini, cursor, vscode, cline, opencode, zed, junie, jetbrains
  other clients {other_clients}
{older}{others}
Then tell each agent what `tasuki{flags} prompt ROLE` prints, as its first message or in its rules.

`tasuki{flags} status` shows who is there, `tasuki{flags} watch` what happens. Ctrl-C
or closing the terminal stops it, unless it was started with --detach; data is kept.
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

    #[tokio::test]
    async fn a_default_port_that_is_taken_moves_on_and_the_next_start_has_it_again() {
        let place = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let taken = taken.local_addr().map(|at| (taken, at)).unwrap();
        let flags = |texts: &[(Key, &str)]| -> Layer {
            let raw = |text: &str| Raw { source: Source::Flag("-"), texts: vec![text.to_owned()] };
            texts.iter().map(|(key, text)| (*key, raw(text))).collect()
        };
        let around = Environment::within(place.path());
        let load = |workspace: &str| {
            let config = Config::load(flags(&[(Key::Workspace, workspace)]), None, &around);
            let mut config = claim_node(&config.unwrap()).unwrap();
            config.listen.value = taken.1;
            config
        };
        let (first, second) = (load("one"), load("two"));
        let port = async |config: &Config| {
            let listener = listen_mcp(config).await.unwrap();
            listener.local_addr().unwrap().port()
        };
        let moved = port(&first).await;
        assert_ne!(moved, taken.1.port());
        assert_eq!(port(&first).await, moved);
        // One that was asked for does not move.
        let mut asked = first.clone();
        asked.listen.source = Source::Flag("--listen");
        assert!(listen_mcp(&asked).await.is_err());
        // The default is the first project's, also while it is free.
        drop(taken.0);
        assert_ne!(port(&second).await, taken.1.port());
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
