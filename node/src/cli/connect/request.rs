//! What to connect and how, from the command line, the configuration and the running node.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use tasuki_proto::{
    counted::listed_names, id::RoleId, nearest::did_you_mean, reason::Reason, token::Token,
};

use super::{
    EntryArgs,
    client::{Client, Endpoint, HOLD_SECS_MAX, Scope, TokenFrom, Transport, typed},
    config_paths::ConfigPaths,
    plan::Connection,
};
use crate::{
    agent_tokens::Bearing,
    cli::{
        Failure,
        client_files::install_log::fnv1a,
        hosting,
        node_address::{self, NodeArgs, TokenSource},
    },
    config::{AGENT_TOKEN_VARIABLE, Config, Source},
    mcp::{self, ask, dial::NodeAt},
    paths::NodeFile,
    projects,
    toolset::usual_toolsets,
};

/// What a client is connected to, and how.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub connection: Connection,
    pub instance: String,
    pub hold_secs: u64,
    /// The command that starts a node; `None`: one is running. The address is then what it would
    /// have by its configuration.
    pub start: Option<String>,
    /// The node, which may not be running.
    pub node: Option<NodeAt>,
    pub tools_from: ToolsFrom,
    /// Why it is not the transport that is usual for the client.
    pub why_stdio: Option<&'static str>,
    /// A token to keep here for the command that the client starts, and where.
    pub keep: Option<(PathBuf, Token)>,
}

/// Who says which tools a role is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolsFrom {
    Node,
    /// The toolsets of the role here.
    Configuration,
    /// The toolsets that a role of this name usually has.
    Name,
}

impl Request {
    /// Takes the tools that the node shows the role, if it can be asked; they are of use to a client
    /// alone that allows each by its name.
    pub(super) async fn ask_for_tools(&mut self) {
        if !self.names_tools() {
            return;
        }
        let Some(node) = &self.node else { return };
        let told = ask::get(node, &format!("/tools/{}", self.connection.role)).await;
        let told = told.map(|mut told| serde_json::from_value(told["tools"].take()));
        match told {
            Ok(Ok(tools)) => (self.connection.tools, self.tools_from) = (tools, ToolsFrom::Node),
            Ok(Err(why)) => tracing::debug!(%why, "the node does not say its tools"),
            Err(why) => tracing::debug!(%why, "the node was not asked for its tools"),
        }
    }

    /// Whether names of tools are written.
    pub(super) fn names_tools(&self) -> bool {
        self.connection.allow && self.connection.client.row().names_tools
    }
}

/// What decides, beside the arguments.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub config: &'a Config,
    pub running: Option<NodeFile>,
    pub paths: &'a ConfigPaths,
    /// This program.
    pub program: &'a Path,
    /// A token for a node elsewhere.
    pub shown: &'a TokenSource,
}

/// The node to connect to, as far as it decides how.
struct Reached {
    /// Of a node elsewhere.
    given: Option<NodeAt>,
    is_guarded: bool,
    /// Where a client reaches it over HTTP; `None`: nowhere, or it is not running.
    over_http: Option<String>,
}

const WHY_STDIO: &str = "Over stdio, because the node is guarded: `tasuki mcp` knows its \
                         certificate and finds the token, so that no secret stands in this file.";

/// Where tokens for nodes elsewhere are kept, in the data directory.
const ELSEWHERE: &str = "elsewhere";

pub(super) fn request(args: &super::Args, context: &Context<'_>) -> Result<Request, Failure> {
    let EntryArgs { client, scope, name } = &args.entry;
    let (client, scope) = (*client, *scope);
    check_name(name)?;
    check_scope(client, scope)?;
    let reached = reached(&args.given, context)?;
    let role = role(args.role.as_ref(), reached.given.is_some(), context)?;
    let transport = transport(client, args.transport, &reached)?;
    if !client.has(transport) {
        return Err(Failure::usage(format!(
            "{} has no {} transport; leave --transport out.",
            client.title(),
            typed(transport)
        )));
    }
    let instance = instance(client, scope, &role, context.paths);
    let hold_secs = match context.config.hold.value {
        Some(hold) => hold.as_secs(),
        None => client.limit().hold_secs(),
    };
    debug_assert!(client.limit().hold_secs() <= HOLD_SECS_MAX);
    let here = || {
        let file = context.running.clone()?;
        Some(node_address::local(file, &context.config.data.value, &Bearing::Node))
    };
    let node = reached.given.clone().or_else(here);
    let is_found = reached.given.is_some() || context.running.is_some();
    let start = (!is_found).then(|| start(context.config, &role));
    let is_usual = transport == client.usual_transport() || args.transport.is_some();
    let why_stdio = (!is_usual).then_some(WHY_STDIO);
    let mut keep = None;
    let endpoint = match transport {
        Transport::Http => {
            let node = reached.over_http.map_or_else(|| guess(context.config), Ok)?;
            let token_in = reached.is_guarded.then(|| variable(&role));
            let url = format!("{node}/mcp/{role}?as={instance}&hold={hold_secs}");
            Endpoint::Http { url, token_in }
        }
        Transport::Stdio => {
            let mut arguments = Vec::new();
            if context.config.data.source != Source::Default {
                let data = context.paths.directory.join(&context.config.root);
                arguments.extend(["--data".to_owned(), data.to_string_lossy().into_owned()]);
            }
            let hold = hold_secs.to_string();
            let words = ["mcp", "--role", role.as_str(), "--as", &instance, "--hold", &hold];
            arguments.extend(words.map(str::to_owned));
            // A client may start it in another project's directory.
            if !context.config.is_first_project {
                let workspace = context.config.workspace.value.to_string();
                arguments.extend(["--workspace".to_owned(), workspace]);
            }
            if let Some(node) = reached.given {
                arguments.extend(["--node".to_owned(), node.url.clone()]);
                if let Some(fingerprint) = node.fingerprint {
                    arguments.extend(["--fingerprint".to_owned(), fingerprint.to_string()]);
                }
                if reached.is_guarded {
                    let (path, token) = token_for(&node, &role, context)?;
                    let text = path.to_string_lossy().into_owned();
                    arguments.extend(["--token-file".to_owned(), text]);
                    keep = Some((path, token));
                }
            }
            Endpoint::Stdio { program: context.program.to_string_lossy().into_owned(), arguments }
        }
    };
    let is_set = context.config.roles.source != Source::Default;
    let own = context.config.roles.value.iter().find(|own| is_set && own.name == role);
    let (toolsets, tools_from) = match own {
        Some(own) => (own.toolsets.clone(), ToolsFrom::Configuration),
        None => (usual_toolsets(&role), ToolsFrom::Name),
    };
    let connection = Connection {
        client,
        scope,
        name: name.clone(),
        role: role.to_string(),
        endpoint,
        allow: args.allow,
        tools: mcp::tool_names(&toolsets),
    };
    Ok(Request { connection, instance, hold_secs, start, node, tools_from, why_stdio, keep })
}

fn reached(given: &NodeArgs, context: &Context<'_>) -> Result<Reached, Failure> {
    let url = given.node.as_deref().filter(|url| !url.is_empty()).map(node).transpose()?;
    let given = NodeArgs { node: url, fingerprint: given.fingerprint.clone() };
    let given = node_address::remote(&given, context.shown, context.running.as_ref())?;
    Ok(match (given, &context.running) {
        (Some(node), _) => {
            let is_guarded = node.url.starts_with("https://");
            let is_vouched = !is_guarded || node.fingerprint.is_none();
            let over_http = is_vouched.then(|| node.url.clone());
            Reached { given: Some(node), is_guarded, over_http }
        }
        (None, Some(file)) if file.fingerprint.is_some() => {
            Reached { given: None, is_guarded: true, over_http: file.vouched.clone() }
        }
        (None, Some(file)) => {
            Reached { given: None, is_guarded: false, over_http: Some(file.mcp.clone()) }
        }
        (None, None) => {
            Reached { given: None, is_guarded: context.config.is_guarded(), over_http: None }
        }
    })
}

fn transport(
    client: Client,
    asked: Option<Transport>,
    reached: &Reached,
) -> Result<Transport, Failure> {
    let title = client.title();
    match asked {
        None if reached.is_guarded => Ok(Transport::Stdio),
        None => Ok(client.usual_transport()),
        Some(Transport::Http)
            if reached.is_guarded && client.row().token_from == TokenFrom::Nowhere =>
        {
            Err(Failure::usage(format!(
                "The node is guarded, and {title} takes a token only as text in its file, where \
                 it does not belong; leave --transport out."
            )))
        }
        Some(Transport::Http) if reached.is_guarded && reached.over_http.is_none() => {
            Err(Failure::usage(format!(
                "{title} trusts only certificates of authorities, and no running node here has \
                 one: leave --transport out, or start the node with --tls-cert and --tls-key."
            )))
        }
        Some(asked) => Ok(asked),
    }
}

/// The variable that holds a role's token: one client may play several.
fn variable(role: &RoleId) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let role: String = role.as_str().chars().map(letter).collect();
    format!("{AGENT_TOKEN_VARIABLE}_{role}")
}

/// What is shown to a node elsewhere, and where it is kept: not in a client's file.
fn token_for(
    node: &NodeAt,
    role: &RoleId,
    context: &Context<'_>,
) -> Result<(PathBuf, Token), Failure> {
    let token = node.token.clone().ok_or_else(|| {
        Failure::usage(format!(
            "The node at {} is guarded: set {AGENT_TOKEN_VARIABLE} to what `tasuki agent-token \
             --role {role}` prints there, and connect again.",
            node.url
        ))
    })?;
    let place = node.url.trim_start_matches("https://");
    let letter = |c: char| if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' };
    let name: String = format!("{place}_{role}").chars().map(letter).collect();
    let data = context.paths.directory.join(&context.config.data.value);
    Ok((data.join(ELSEWHERE).join(format!("{name}.token")), token))
}

/// The URL of a node, to which paths are added.
fn node(url: &str) -> Result<String, Failure> {
    let bad = || {
        Failure::usage(format!(
            "--node takes the URL of a node without a path, such as http://127.0.0.1:7421; it is \
             {url:?}."
        ))
    };
    let uri: http::Uri = url.parse().map_err(|_| bad())?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    match uri.authority() {
        Some(authority) if is_web && uri.path() == "/" && uri.query().is_none() => {
            Ok(format!("{}://{authority}", uri.scheme_str().unwrap_or_default()))
        }
        Some(_) | None => Err(bad()),
    }
}

/// The longest name of an entry: with it clients build tools' names, of which some take 60.
const NAME_CHARS_MAX: usize = 32;

/// Gemini cannot have `_` in it, and others build patterns from it.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let is_good =
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') && !name.starts_with('-');
    if is_good && (1..=NAME_CHARS_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--name takes letters, digits and `-`, at most {NAME_CHARS_MAX}, and begins with a letter \
         or a digit; it is {name:?}."
    )))
}

pub(super) fn check_scope(client: Client, scope: Scope) -> Result<(), Failure> {
    match (client, scope) {
        (Client::Cline, Scope::Project) => Err(Failure::usage(
            "Cline has no configuration of servers per project; leave --scope out.",
        )),
        (_, Scope::User | Scope::Project) => Ok(()),
    }
}

/// No role is chosen among several: two agents would play the same one.
fn role(
    asked: Option<&RoleId>,
    is_elsewhere: bool,
    context: &Context<'_>,
) -> Result<RoleId, Failure> {
    let running = context.running.as_ref().filter(|_| !is_elsewhere);
    let roles = match running {
        Some(file) => file.roles.clone(),
        None => context.config.roles.value.iter().map(|role| role.name.to_string()).collect(),
    };
    let names = listed_names(&roles);
    match asked {
        Some(role) if running.is_none() || roles.iter().any(|name| name == role.as_str()) => {
            Ok(role.clone())
        }
        Some(role) => Err(Failure::reason(
            Reason::UnknownRole,
            format!(
                "The running node does not host {role}. It hosts: {names}{}.",
                did_you_mean(role.as_str(), roles.iter().map(String::as_str))
            ),
        )),
        None => match roles.as_slice() {
            [only] => only.parse().map_err(|why| Failure::usage(format!("Role {only:?} {why}."))),
            _ => Err(Failure::usage(format!("Specify --role. Available: {names}."))),
        },
    }
}

/// What starts a node that hosts the role.
fn start(config: &Config, role: &RoleId) -> String {
    let is_usual = config.roles.value.iter().any(|usual| usual.name == *role);
    let more = if is_usual { String::new() } else { format!(" --role {role}") };
    format!("tasuki{} up{more}", hosting::node_flags(config))
}

/// Where a node would be.
fn guess(config: &Config) -> Result<String, Failure> {
    let address = config.listen.value;
    // The default port is the first project's.
    let is_told = config.is_first_project || config.listen.source != Source::Default;
    let last =
        || (config.data.value != config.root).then(|| projects::last_port(&config.data.value));
    let port = if is_told { Some(address.port()) } else { last().flatten() };
    let Some(port) = port.filter(|port| *port != 0) else {
        return Err(Failure::reason(
            Reason::Unavailable,
            "No node is running, and it would choose its port when it starts: start it first, or specify \
             --node URL.",
        ));
    };
    Ok(format!("http://{}", SocketAddr::new(address.ip(), port)))
}

/// The same client in the same place with the same role is the same instance, however often it
/// is connected; in another project it is another one.
fn instance(client: Client, scope: Scope, role: &RoleId, paths: &ConfigPaths) -> String {
    let place = match scope {
        Scope::User => &paths.home,
        Scope::Project => &paths.directory,
    };
    let client = typed(client);
    let text = format!("{client}\n{role}\n{}\n{}", typed(scope), place.display());
    let hash = fnv1a(text.as_bytes());
    let short = (hash ^ (hash >> 32)) & 0x00ff_ffff;
    format!("{client}-{short:06x}")
}
