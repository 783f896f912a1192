//! What this program was told, by whom, and what it makes of it.
//!
//! Every setting has one row in [`Key`]. A value comes from a flag, else from a `TASUKI_*`
//! variable, else from `tasuki.toml`, else from the default, and remembers which. Below a file that
//! came with a directory and is not trusted is the user's own. Roles that nobody gave are the agents of FileBox's `.filebox`, here, above or at home.
//!
//! **Invariant:** in a [`Config`] every value is parsed and allowed. All problems are found in
//! one go, those of values that were overridden included: they would bite later.

mod accept;
mod commands;
mod data;
mod export;
mod file;
mod files;
mod gateway;
mod hooks;
mod key;
mod launch;
mod lookup;
mod runner;
mod runs;
mod service;
mod usual;
mod value;

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use tasuki_proto::{
    host::{
        config::{Found, NO_DATA_DIRECTORY, data_directory},
        dashboard::Dashboard,
        files::check_data_directory,
        trust::TrustStore,
    },
    id::{RoleId, WorkspaceId},
};

use self::{
    lookup::{filebox_layer, files_beside, find_file, first_that_counts},
    usual::Usual,
};
pub use file::OfBroker;
pub use key::Key;
pub(crate) use launch::wait as launch_wait;
pub use runs::RunSettings;
pub(crate) use runs::step_timeout;
pub use value::{HookFail, LogFormat, Role, duration_text};

use crate::{
    accept::settings::Settings,
    commands::CommandSettings,
    credentials::{self, TOKEN_VARIABLE},
    file_access::FileSettings,
    gateway::settings::GatewaySettings,
    hooks::spec::Hook,
    launch::settings::LaunchSettings,
    runner::runners::RunnerTable,
    service_settings::Service,
    step_key::STEP_TOKEN_VARIABLE,
};

pub use tasuki_proto::host::config::FILE;

/// Where the broker is unless anyone says so.
pub const BROKER_DEFAULT: &str = "http://127.0.0.1:7420";

/// How the names of Tasuki's own variables begin. Some hold tokens: no agent is given the node's.
pub const VARIABLE_PREFIX: &str = "TASUKI_";

/// The variable that names the configuration file.
const CONFIG_VARIABLE: &str = "TASUKI_CONFIG";

/// The variable that says where the node is that `tasuki mcp` speaks to.
pub const NODE_VARIABLE: &str = "TASUKI_NODE";

/// The variable that says how that node's certificate is known.
pub const FINGERPRINT_VARIABLE: &str = "TASUKI_NODE_FINGERPRINT";

/// The variable that holds what is shown to that node.
pub const AGENT_TOKEN_VARIABLE: &str = "TASUKI_AGENT_TOKEN";

/// The variable that says which role commits and edits are by.
pub const ROLE_VARIABLE: &str = "TASUKI_ROLE";

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Default,
    File {
        path: PathBuf,
        /// From 1; 0 is the file as a whole.
        line: usize,
    },
    Env(&'static str),
    /// The agents of FileBox's file, where nobody gave roles.
    Filebox(PathBuf),
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line: 0 } => path.display().fmt(f),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Env(name) => f.write_str(name),
            Self::Filebox(path) => path.display().fmt(f),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A value as written, not yet parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    pub source: Source,
    /// One text, or several where the key takes a list.
    pub texts: Vec<String>,
}

/// The values of one source.
pub type Layer = BTreeMap<Key, Raw>;

/// Something in the configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source_text}: {message}", source_text = self.at)]
pub struct Problem {
    pub at: Source,
    pub message: String,
}

/// A setting and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub source: Source,
}

/// Everything this program can be told.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file that was read, if there was one.
    pub file: Option<Found>,
    /// The data directory as it was named: the broker's part, and what this machine joined with, are
    /// in it.
    pub root: PathBuf,
    /// Where the node of the workspace keeps its state: the same, or a directory in it.
    pub data: Sourced<PathBuf>,
    /// Whether the data directory is the workspace's own, and no other project's.
    pub is_first_project: bool,
    /// Where nobody named one: that of the data directory's first node.
    pub workspace: Sourced<WorkspaceId>,
    pub listen: Sourced<SocketAddr>,
    pub broker_listen: Sourced<SocketAddr>,
    pub dashboard: Sourced<Dashboard>,
    /// `None`: ask the node's address file, else the guarded broker of the same data directory,
    /// else [`BROKER_DEFAULT`].
    pub broker: Sourced<Option<String>>,
    pub lease: Sourced<Duration>,
    /// `None`: by the table of clients.
    pub hold: Sourced<Option<Duration>>,
    /// In order; the first begins.
    pub roles: Sourced<Vec<Role>>,
    /// Among the roles; several agents may play each at once.
    pub shared: Sourced<Vec<RoleId>>,
    /// Names of no role of this node to which a table gives toolsets.
    pub idle_toolsets: Vec<String>,
    /// What the files say of the broker's program, which judges it itself.
    pub of_broker: Vec<OfBroker>,
    /// Names that stand for several receivers of mail; none is a role of this node.
    pub groups: BTreeMap<String, Vec<RoleId>>,
    pub log_format: Sourced<LogFormat>,
    pub secure: Sourced<bool>,
    pub advertise: Sourced<Option<String>>,
    /// Both, or neither.
    pub tls_cert: Sourced<Option<PathBuf>>,
    pub tls_key: Sourced<Option<PathBuf>>,
    /// What is done when something happens to mail; only a file can say.
    pub hooks: Vec<Sourced<Hook>>,
    /// Hooks or a project that the file names and that do not count, and why. A node, which would
    /// have to go by them, does not start; to anybody else it is nothing. Other settings that do not
    /// count are problems.
    pub distrust: Option<Problem>,
    /// What others' commands may do here; `None`: nobody said, so nothing is run. Only a file of the
    /// operator's can say.
    pub accept: Option<Sourced<Settings>>,
    /// What a file says of that and does not count, and why.
    pub accept_distrust: Option<Problem>,
    /// The agent CLIs that a file names beside the built-in ones; only a file of the operator's can.
    pub runners: Option<Sourced<RunnerTable>>,
    /// What a file says of them and does not count, and why.
    pub runners_distrust: Option<Problem>,
    /// How agents run on this machine, and who may start them; only a file of the operator's can say.
    pub runs: Option<Sourced<RunSettings>>,
    /// What a file says of that and does not count, and why.
    pub runs_distrust: Option<Problem>,
    /// Which agents are to be launched; only a file of the operator's can say.
    pub launch: Option<Sourced<LaunchSettings>>,
    /// What a file says of that and does not count, and why.
    pub launch_distrust: Option<Problem>,
    /// The MCP servers whose tools are offered; only a file of the operator's can say.
    pub gateway: Option<Sourced<GatewaySettings>>,
    /// What a file says of them and does not count, and why.
    pub gateway_distrust: Option<Problem>,
    /// What roles of this node do for others; only a file of the operator's can say.
    pub services: Vec<Sourced<Service>>,
    /// The same of roles that this node does not have.
    pub idle_services: Vec<Sourced<Service>>,
    /// What a file says of that and does not count, and why.
    pub services_distrust: Option<Problem>,
    /// The files that agents work on.
    pub files: Option<Sourced<FileSettings>>,
    /// What a file says of them and does not count, and why.
    pub files_distrust: Option<Problem>,
    /// The commands that agents may run.
    pub commands: Option<Sourced<CommandSettings>>,
    /// What a file says of them and does not count, and why.
    pub commands_distrust: Option<Problem>,
    pub mirror: Sourced<bool>,
    /// `None`: what `.filebox` says, else the directory the node runs in. One that was named by a
    /// relative path lies in the current directory.
    pub mirror_root: Sourced<Option<PathBuf>>,
    pub hook_fail: Sourced<HookFail>,
}

/// What surrounds the program. Tests make their own.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The `TASUKI_*` variables.
    pub env: BTreeMap<String, String>,
    pub directory: PathBuf,
    /// The user's own directory.
    pub home: Option<PathBuf>,
    /// What the user trusts of files that lie in directories.
    pub trusted: TrustStore,
}

impl Environment {
    /// Those of this process.
    pub fn of_process() -> Self {
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
            .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
            .collect();
        Self {
            env,
            directory: std::env::current_dir().unwrap_or_else(|_| ".".into()),
            home: directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned()),
            trusted: TrustStore::of_user(),
        }
    }
}

impl Environment {
    /// The variables that look like settings and are none.
    pub fn strangers(&self) -> Vec<&str> {
        let is_known = |name: &str| {
            let others = [CONFIG_VARIABLE, NODE_VARIABLE, TOKEN_VARIABLE, FINGERPRINT_VARIABLE];
            others.contains(&name)
                || [ROLE_VARIABLE, STEP_TOKEN_VARIABLE].contains(&name)
                || name.starts_with(AGENT_TOKEN_VARIABLE)
                || Key::ALL.iter().any(|key| key.env() == name)
                || name
                    .strip_prefix(VARIABLE_PREFIX)
                    .is_some_and(|key| file::OF_THE_BROKER.contains(&key.to_lowercase().as_str()))
        };
        self.env.keys().map(String::as_str).filter(|name| !is_known(name)).collect()
    }
}

impl Config {
    /// Reads every source. `file` is what `--config` named.
    pub fn load(
        flags: Layer,
        file: Option<&Path>,
        around: &Environment,
    ) -> Result<Self, Vec<Problem>> {
        let (config, problems) = Self::look(flags, file, around);
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    /// The same for whoever wants to see what else was said: where there is a problem, the next
    /// source's value stands in.
    pub fn look(flags: Layer, file: Option<&Path>, around: &Environment) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let env: Layer = Key::ALL
            .iter()
            .filter_map(|key| {
                let text = around.env.get(key.env()).filter(|text| !text.is_empty())?;
                Some((*key, Raw { source: Source::Env(key.env()), texts: key.split(text) }))
            })
            .collect();
        let data = [&flags, &env].into_iter().find_map(|layer| layer.get(&Key::Data));
        let data = data.and_then(|raw| raw.texts.first()).map(PathBuf::from);
        let (found, lost) = match find_file(file, around, data.as_deref()) {
            Ok(found) => (found, None),
            Err(problem) => {
                let at = problem.at.clone();
                problems.push(problem);
                (None, Some(at))
            }
        };
        let mut files: Vec<file::Contents> = Vec::new();
        for found in found.iter().flat_map(Found::and_below) {
            let mut next = file::parse(found, around.home.as_deref(), &mut problems);
            for upper in &files {
                next.give_way_to(upper);
            }
            files.push(next);
        }
        // Whatever a repository says, the operator's own file is asked.
        let is_here = found.as_ref().is_some_and(|found| found.is_here);
        let mut beside = Vec::new();
        let is_silent = |it: &file::Contents| {
            it.accept.is_none()
                || it.runners.is_none()
                || it.runs.is_none()
                || it.launch.is_none()
                || it.gateway.is_none()
                || it.exports.is_none()
                || it.services.is_none()
                || it.files.is_none()
                || it.commands.is_none()
        };
        if is_here && files.iter().any(is_silent) {
            beside = files_beside(data.as_deref(), around, &mut problems);
        }
        let accept = first_that_counts(&mut files, &mut beside, |it| it.accept.take());
        let runners = first_that_counts(&mut files, &mut beside, |it| it.runners.take());
        let runs = first_that_counts(&mut files, &mut beside, |it| it.runs.take());
        let launch = first_that_counts(&mut files, &mut beside, |it| it.launch.take());
        let gateway = first_that_counts(&mut files, &mut beside, |it| it.gateway.take());
        let files_said = first_that_counts(&mut files, &mut beside, |it| it.files.take());
        let commands = first_that_counts(&mut files, &mut beside, |it| it.commands.take());
        let exports = first_that_counts(&mut files, &mut beside, |it| it.exports.take());
        let gateway = export::add_to(gateway, exports);
        let services = first_that_counts(&mut files, &mut beside, |it| it.services.take());
        let (mut told, mut layers) = (file::Contents::default(), vec![flags, env]);
        layers.extend(files.into_iter().map(|it| told.add_below(it)));
        if !layers.iter().any(|layer| layer.contains_key(&Key::Roles)) {
            layers.extend(filebox_layer(around, &mut problems));
        }
        let has_servers = gateway.0.as_ref().is_some_and(|it| !it.value.servers.is_empty());
        let has_services = services.0.as_ref().is_some_and(|it| !it.value.is_empty());
        let has_tools = has_servers || has_services;
        let usual = Usual { toolsets: &told.toolsets, has_tools };
        let mut config = Self::parse(found, &layers, &usual, told.groups, &mut problems);
        config.hooks = told.hooks;
        config.distrust = told.distrust;
        config.of_broker = told.of_broker;
        (config.accept, config.accept_distrust) = accept;
        (config.runners, config.runners_distrust) = runners;
        (config.runs, config.runs_distrust) = runs;
        (config.launch, config.launch_distrust) = launch;
        (config.gateway, config.gateway_distrust) = gateway;
        config.services = services.0.map(|it| it.value).unwrap_or_default();
        config.services_distrust = services.1;
        service::check(&mut config, &mut problems);
        (config.files, config.files_distrust) = files_said;
        (config.commands, config.commands_distrust) = commands;
        problems.extend(runs::resolve_runner(config.runs.as_mut(), config.runners.as_ref()).err());
        config.keep_root_within(&around.directory);
        // What may have come with the current directory is not read.
        problems.extend(config.check_data_here(around).or_else(|| config.find_node()));
        // What was not committed can be committed later; what was, over somebody's lock, is done.
        let said = layers.iter().find_map(|layer| layer.get(&Key::HookFail));
        let in_doubt = match said {
            Some(raw) => value::hook_fail(&raw.texts).is_err().then(|| raw.source.clone()),
            None => lost.or(told.hook_fail_lost),
        };
        if let Some(source) = in_doubt {
            config.hook_fail = Sourced { value: HookFail::Closed, source };
        }
        (config, problems)
    }

    /// What is wrong in a file, if it is taken as it is.
    pub fn problems_of(path: &Path, content: &str, around: &Environment) -> Vec<Problem> {
        let found = Found {
            path: path.to_owned(),
            content: content.to_owned(),
            is_here: false,
            distrust: None,
            unreadable: None,
            below: None,
        };
        let mut problems = Vec::new();
        file::parse(&found, around.home.as_deref(), &mut problems);
        problems
    }

    /// Whether a node that is started with this encrypts and asks for tokens.
    pub fn is_guarded(&self) -> bool {
        self.secure.value || self.tls_cert.value.is_some() || !self.listen.value.ip().is_loopback()
    }

    /// The broker of a node that is started with this.
    pub fn broker_url(&self) -> String {
        let told = self.broker.value.clone();
        let url = told.or_else(|| credentials::url_of_own_broker(&self.root));
        url.unwrap_or_else(|| BROKER_DEFAULT.to_owned())
    }

    /// Takes no relative project unless it lies in `directory`, links followed: whoever made the
    /// directory may have made a link that nothing the user wrote or read tells of.
    fn keep_root_within(&mut self, directory: &Path) {
        let root = &mut self.mirror_root;
        let Some(path) = root.value.as_ref().filter(|path| !path.is_absolute()) else { return };
        let real = |path: &Path| directory.join(path).canonicalize();
        let (at, shown) = (root.source.clone(), value::name(&path.to_string_lossy()));
        let why = match (real(path), real(Path::new(""))) {
            (Ok(path), Ok(own)) if path.starts_with(&own) => {
                // As it is seen here, whatever a link in it is later made to lead to.
                root.value = Some(path);
                return;
            }
            (Err(why), _) => format!("is {shown}, which cannot be looked at: {why}"),
            (Ok(path), _) => format!(
                "is {shown}, which leads out of the current directory, to {}; if that is meant, \
                 write it so, here or in {}",
                path.display(),
                Key::MirrorRoot.env()
            ),
        };
        root.value = None;
        let problem = || Problem { at, message: format!("`mirror_root` {why}") };
        self.distrust.get_or_insert_with(problem);
    }

    fn parse(
        file: Option<Found>,
        layers: &[Layer],
        usual: &Usual<'_>,
        groups: file::Groups,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut pick = Pick { layers, problems };
        let mut roles = pick.value(Key::Roles, value::roles);
        for role in &mut roles.value {
            if role.toolsets.is_empty() {
                role.toolsets = usual.of(&role.name);
            }
        }
        let shared = pick.value(Key::Shared, value::names);
        let is_hosted = |name: &RoleId| roles.value.iter().any(|role| role.name == *name);
        if let Some(stranger) = shared.value.iter().find(|name| !is_hosted(name)) {
            let message = format!("`shared` names {stranger}, which is not among the roles");
            pick.problems.push(Problem { at: shared.source.clone(), message });
        }
        let is_idle = |name: &&String| !roles.value.iter().any(|role| role.name.as_str() == *name);
        let idle_toolsets =
            usual.toolsets.keys().filter(is_idle).map(|name| value::name(name)).collect();
        let mut named = BTreeMap::new();
        for (name, (at, of)) in groups {
            if roles.value.iter().any(|role| role.name.as_str() == name) {
                let message = format!("`groups` has {name}, which is also the name of a role");
                pick.problems.push(Problem { at, message });
            } else {
                named.insert(name, of);
            }
        }
        let tls_cert = pick.value(Key::TlsCert, value::file);
        let tls_key = pick.value(Key::TlsKey, value::file);
        if tls_cert.value.is_some() != tls_key.value.is_some() {
            let given = if tls_cert.value.is_some() { &tls_cert } else { &tls_key };
            let message = "`mcp_tls_cert` and `mcp_tls_key` belong together; give both".to_owned();
            pick.problems.push(Problem { at: given.source.clone(), message });
        }
        let data = pick.given(Key::Data, value::path).unwrap_or_else(|| {
            let source = Source::Default;
            let value = data_directory().unwrap_or_else(|| {
                let message = NO_DATA_DIRECTORY.to_owned();
                pick.problems.push(Problem { at: source.clone(), message });
                PathBuf::new()
            });
            Sourced { value, source }
        });
        if let Err(why) = check_data_directory(&data.value) {
            let message = format!("`data` cannot be used: {why}");
            pick.problems.push(Problem { at: data.source.clone(), message });
        }
        Self {
            file,
            root: data.value.clone(),
            is_first_project: true,
            data,
            workspace: pick.value(Key::Workspace, value::id),
            listen: pick.value(Key::Listen, value::listen),
            broker_listen: pick.value(Key::BrokerListen, value::listen),
            // One that nobody named may be elsewhere.
            dashboard: pick
                .given(Key::Dashboard, value::dashboard)
                .unwrap_or(Sourced { value: Dashboard::Usual, source: Source::Default }),
            broker: pick.value(Key::Broker, value::url),
            lease: pick.value(Key::Lease, value::lease),
            hold: pick.value(Key::Hold, value::hold),
            roles,
            shared,
            idle_toolsets,
            of_broker: Vec::new(),
            groups: named,
            log_format: pick.value(Key::LogFormat, value::log_format),
            secure: pick.value(Key::Secure, value::yes_or_no),
            mirror: pick.value(Key::Mirror, value::yes_or_no),
            mirror_root: pick.value(Key::MirrorRoot, value::file),
            hook_fail: pick.value(Key::HookFail, value::hook_fail),
            advertise: pick.value(Key::Advertise, value::host),
            tls_cert,
            tls_key,
            hooks: Vec::new(),
            distrust: None,
            accept: None,
            accept_distrust: None,
            runners: None,
            runners_distrust: None,
            runs: None,
            runs_distrust: None,
            launch: None,
            launch_distrust: None,
            gateway: None,
            gateway_distrust: None,
            services: Vec::new(),
            idle_services: Vec::new(),
            services_distrust: None,
            files: None,
            files_distrust: None,
            commands: None,
            commands_distrust: None,
        }
    }
}

/// Takes the strongest value of a key, and looks at the others too.
struct Pick<'a> {
    layers: &'a [Layer],
    problems: &'a mut Vec<Problem>,
}

impl Pick<'_> {
    fn value<T>(&mut self, key: Key, parse: fn(&[String]) -> Result<T, String>) -> Sourced<T> {
        self.given(key, parse).unwrap_or_else(|| {
            let value = parse(&key.split(key.default_text())).expect("a default parses");
            Sourced { value, source: Source::Default }
        })
    }

    /// `None`: nobody gave one that will do.
    fn given<T>(
        &mut self,
        key: Key,
        parse: fn(&[String]) -> Result<T, String>,
    ) -> Option<Sourced<T>> {
        let mut best = None;
        for raw in self.layers.iter().filter_map(|layer| layer.get(&key)) {
            match parse(&raw.texts) {
                Ok(value) => {
                    best.get_or_insert(Sourced { value, source: raw.source.clone() });
                }
                Err(why) => self.problems.push(Problem {
                    at: raw.source.clone(),
                    message: format!("`{}` {why}", key.name()),
                }),
            }
        }
        best
    }
}

#[cfg(test)]
mod tests;
