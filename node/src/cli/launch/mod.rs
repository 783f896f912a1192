//! `tasuki launch`: starts the agents of a project, each with its role, and waits until each has
//! really connected.
//!
//! - `agents`: which ones. `node`: broker and node. `terminal`: where sessions run.
//! - `order`: what is left for a session, which `supervise` watches over. `arrival`: whether its
//!   agent has called. `session_end`: gives back what a role holds when its session ended.
//! - `report`: what was done, line by line.
//!
//! What does not need to ask anybody is in `crate::launch`.

mod agents;
mod agents_md;
mod arrival;
mod node;
pub(in crate::cli) mod order;
mod report;
pub(in crate::cli) mod session_end;
pub(super) mod supervise;
pub(in crate::cli) mod terminal;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::builder::PossibleValuesParser;
use serde_json::json;
use tasuki_proto::{id::RoleId, reason::Reason};

use self::{
    agents::{RoleAgents, by_role, is_for_project, project},
    arrival::{Arrival, Expected},
    order::{Order, OrderedAgent, State},
    report::{Report, Went},
    supervise::{first_message, search_path},
    terminal::{Place, typed},
};
use super::{
    Exit, Failure, Global, Look, Output,
    client_files::program,
    connect::wanted::{Connected, Wanted, connect, entry_name, servers},
    prompt,
};
use crate::{
    config::{Config, Role, duration_text},
    launch::{
        program::Start,
        settings::{AgentSettings, LaunchSettings, OnExit},
    },
};

/// Start the agents of a project, each with its role
///
/// Starts broker and node if none runs, connects each client, starts it on its project with the
/// prompt of its role, and waits until it has called. Agents in a terminal run in tmux; when the
/// session of one ends, it is started again, the next agent of its role is started, or what the role
/// holds is given back. Agents are named here, or in tasuki.toml under [[launch.agent]].
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 7: an agent did not connect.\n\n\
                        For example: tasuki launch A=claude-code B=codex")]
pub struct Args {
    /// Agent to launch, in place of those of the configuration; several of one role follow each other
    #[arg(value_name = "ROLE=CLIENT")]
    agents: Vec<String>,
    /// Launch only this role; can be repeated
    #[arg(long, value_name = "ROLE")]
    role: Vec<RoleId>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Goal of the work, for each agent's prompt
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// Where agents run that need a terminal [default: auto]
    #[arg(long, value_name = "WHERE",
          value_parser = PossibleValuesParser::new(["auto", "tmux", "window", "print"]))]
    terminal: Option<String>,
    /// How long to wait until the agents have connected; 0 does not wait [default: 1m]
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,
    /// Let the clients run Tasuki's tools without asking each time
    #[arg(long)]
    allow: bool,
    /// Put each prompt into AGENTS.md of its project, too
    #[arg(long)]
    agents_md: bool,
    /// Launch a role although an agent plays it
    #[arg(long)]
    again: bool,
    /// Take the prompts out of AGENTS.md of each project, and do nothing else
    #[arg(long, conflicts_with_all = ["dry_run", "agents_md"])]
    undo: bool,
}

/// What became of a role.
enum Launched {
    /// Its first agent was started, and is waited for.
    Started(Expected),
    /// An agent plays it already.
    Played(String),
    Failed(String),
    /// It would be started with this.
    Would(Vec<String>),
}

/// What is launched, and where.
struct Launch<'a> {
    args: &'a Args,
    global: &'a Global,
    config: Config,
    roles: &'a [RoleAgents],
    /// The directory of this process.
    here: PathBuf,
    /// This program.
    program: PathBuf,
    place: Place,
    /// The servers of each client's configuration, and the role of each.
    servers: BTreeMap<(String, PathBuf), BTreeMap<String, String>>,
    /// The file that connects each role's first agent.
    files: BTreeMap<RoleId, PathBuf>,
}

pub(super) async fn run(
    args: Args,
    global: &Global,
    config: &Config,
    look: &Look<'_>,
    output: &mut Output,
) -> Result<(), Failure> {
    let LaunchSettings { terminal, wait, agents } = agents::settings(&args, config)?;
    let roles = by_role(agents, &args.role)?;
    let here = std::env::current_dir()
        .map_err(|why| Failure::local(format!("Cannot find the current directory: {why}.")))?;
    if args.undo {
        return undo(&roles, &here, output);
    }
    refuse_shared_agents_md(&roles, &here)?;
    let place = Place::choose(terminal, config)?;
    let program = program::path(&here)?;
    let mut report = Report::new(output, args.dry_run);
    let names: Vec<&RoleId> = roles.iter().map(|it| &it.role).collect();
    let config = node::ensure(&names, global, config, look, args.dry_run, &mut report).await?;
    let mut launch = Launch {
        args: &args,
        global,
        config,
        roles: &roles,
        here,
        program,
        place,
        servers: BTreeMap::new(),
        files: BTreeMap::new(),
    };
    let mut launched = Vec::new();
    // Names of servers are known before the first agent is told which to leave alone.
    let orders = launch.connect_all(&mut report).await?;
    for (role, order) in roles.iter().zip(orders) {
        launched.push(launch.start(role, order, &mut report).await?);
    }
    finish(launched, &launch, wait, report).await
}

/// An order, or why there is none.
enum Prepared {
    Order(Order),
    Not(Launched),
}

impl Launch<'_> {
    /// Connects the clients of every role that nobody plays.
    async fn connect_all(&mut self, report: &mut Report<'_>) -> Result<Vec<Prepared>, Failure> {
        let mut prepared = Vec::new();
        for role in self.roles {
            let first = &role.agents[0];
            let project = project(first, &self.here);
            report.head(&format!(
                "{}: {} in {}",
                role.role,
                first.program.name,
                project.display()
            ))?;
            let next = match self.refusal(role).await? {
                Some(not) => {
                    let (went, text) = match &not {
                        Launched::Failed(why) => (Went::Failed, why.as_str()),
                        Launched::Played(why) => (Went::Unneeded, why.as_str()),
                        Launched::Started(_) | Launched::Would(_) => (Went::Unneeded, ""),
                    };
                    report.step(Some(role.role.as_str()), "start", went, text)?;
                    Prepared::Not(not)
                }
                None => self.connect(role, report).await?,
            };
            prepared.push(next);
        }
        let servers = std::mem::take(&mut self.servers);
        for (role, prepared) in self.roles.iter().zip(&mut prepared) {
            let Prepared::Order(order) = prepared else { continue };
            for (agent, ordered) in role.agents.iter().zip(&mut order.agents) {
                let key = self.servers_of(agent);
                let others = servers.get(&key).into_iter().flatten();
                let others = others.filter(|(_, of)| !of.is_empty() && **of != role.role.as_str());
                ordered.others = others.map(|(name, _)| name.clone()).collect();
            }
        }
        self.servers = servers;
        Ok(prepared)
    }

    /// Which configuration names an agent's servers.
    fn servers_of(&self, agent: &AgentSettings) -> (String, PathBuf) {
        let is_project = is_for_project(agent, self.roles, &self.here);
        let place = if is_project { project(agent, &self.here) } else { PathBuf::new() };
        (agent.program.client.to_owned(), place)
    }

    /// Why a role is not launched.
    async fn refusal(&self, role: &RoleAgents) -> Result<Option<Launched>, Failure> {
        let name = &role.role;
        if order::is_watched(&self.config.data.value, name)? {
            let text = format!("{name} was launched already and its session goes on");
            return Ok(Some(Launched::Played(text)));
        }
        if let Some(node) = arrival::node(&self.config)
            && !self.args.again
            && let Some(player) = arrival::player(&node, name).await?
        {
            let text = format!("{name} is played already by {player}; --again launches it anyway");
            return Ok(Some(Launched::Played(text)));
        }
        for agent in &role.agents {
            let project = project(agent, &self.here);
            if !project.is_dir() {
                let text = format!("there is no directory {}", project.display());
                return Ok(Some(Launched::Failed(text)));
            }
        }
        let missing = |agent: &AgentSettings| {
            let command = agent.command.first().map_or(agent.program.command, String::as_str);
            terminal::find(command).err().map(|why| format!("{} {why}", agent.program.name))
        };
        // Of several the next is started where one is not there.
        let missing: Option<Vec<String>> = role.agents.iter().map(missing).collect();
        Ok(missing.map(|why| Launched::Failed(why.join("; "))))
    }

    /// Connects every agent of a role, and writes down how each is started.
    async fn connect(
        &mut self,
        role: &RoleAgents,
        report: &mut Report<'_>,
    ) -> Result<Prepared, Failure> {
        let mut ordered = Vec::new();
        for agent in &role.agents {
            match self.connect_one(role, agent, report).await {
                Ok(agent) => ordered.push(agent),
                Err(why) => {
                    report.step(Some(role.role.as_str()), "connect", Went::Failed, &why.message)?;
                    return Ok(Prepared::Not(Launched::Failed(why.message)));
                }
            }
        }
        Ok(Prepared::Order(Order { agents: ordered, path: search_path() }))
    }

    async fn connect_one(
        &mut self,
        role: &RoleAgents,
        agent: &AgentSettings,
        report: &mut Report<'_>,
    ) -> Result<OrderedAgent, Failure> {
        let (name, is_dry) = (Some(role.role.as_str()), self.args.dry_run);
        let client = agent.program.client;
        let project = project(agent, &self.here);
        let is_project = is_for_project(agent, self.roles, &self.here);
        let key = self.servers_of(agent);
        if !self.servers.contains_key(&key) {
            let found = servers(client, is_project, &project)?;
            self.servers.insert(key.clone(), found);
        }
        let names = self.servers.entry(key).or_default();
        let server = entry_name(names, &role.role);
        names.insert(server.clone(), role.role.to_string());
        let wanted = Wanted {
            client,
            role: &role.role,
            name: &server,
            is_project,
            project: &project,
            allow: agent.allow,
        };
        let connected = match connect(wanted, &self.config, is_dry).await {
            // The node that would be started chooses its port then.
            Err(why) if is_dry && why.as_reason() == Some(Reason::Unavailable) => None,
            connected => Some(connected?),
        };
        let files = connected.iter().flat_map(|it| &it.files);
        if let Some((_, path)) = files.clone().next() {
            self.files.entry(role.role.clone()).or_insert_with(|| path.clone());
        }
        let mut texts: Vec<String> = files
            .map(|(change, path)| format!("{client}: {change} {} ({server})", path.display()))
            .collect();
        if connected.is_none() {
            texts.push(format!("{client}: the server {server}, once the node has its port"));
        } else if texts.is_empty() {
            let print = format!("tasuki connect {client} --role {} --print", role.role);
            texts.push(format!("{client}: paste what `{print}` prints"));
        }
        for text in &texts {
            report.step(name, "connect", report.doing(), text)?;
        }
        let Connected { instance, notes, .. } = connected.unwrap_or_default();
        if !notes.is_empty() {
            report.more(&notes)?;
        }
        let asked = Role { name: role.role.clone(), toolsets: Vec::new() };
        let text = prompt::text(&asked, agent.prompt.as_deref(), &self.config)?;
        report.step(name, "prompt", report.doing(), agent.program.prompt_place())?;
        if agent.agents_md {
            let path = agents_md::path(&project).display().to_string();
            let is_new = is_dry || agents_md::put(&project, &text)?;
            let went = if is_new { report.doing() } else { Went::Unneeded };
            report.step(name, "prompt", went, &path)?;
        }
        let on_exit = OnExit::NAMES.iter().find(|(_, it)| *it == agent.on_exit);
        Ok(OrderedAgent {
            program: agent.program.name.to_owned(),
            command: agent.command.clone(),
            args: agent.args.clone(),
            project,
            prompt: text,
            server,
            others: Vec::new(),
            instance,
            on_exit: on_exit.map_or("restart", |(name, _)| name).to_owned(),
            restarts: agent.restarts,
        })
    }

    /// Starts a role's first agent.
    async fn start(
        &self,
        role: &RoleAgents,
        prepared: Prepared,
        report: &mut Report<'_>,
    ) -> Result<Launched, Failure> {
        let order = match prepared {
            Prepared::Order(order) => order,
            Prepared::Not(not) => return Ok(not),
        };
        let (first, agent, name) = (&order.agents[0], &role.agents[0], role.role.as_str());
        let message = first_message(&role.role, &first.server, None);
        let argv = agent.program.argv(&Start {
            command: &first.command,
            args: &first.args,
            project: &first.project,
            prompt: &first.prompt,
            first: &message,
            others: &first.others,
        });
        let is_terminal = agent.program.is_terminal();
        let place = if is_terminal { self.place.of_role(name) } else { "as an editor".to_owned() };
        let text = format!("{name}: {}, {place}", agent.program.name);
        report.step(Some(name), "start", report.doing(), &text)?;
        if self.args.dry_run {
            report.more(&[typed(&argv)])?;
            return Ok(Launched::Would(argv));
        }
        let data = &self.config.data.value;
        if self.args.again {
            arrival::take_over(&role.role, &first.instance, &self.config).await?;
        }
        State::forget(data, &role.role)?;
        let started = if is_terminal {
            order.write(data, &role.role)?;
            let own = self.own_command(&role.role);
            if self.place == Place::Print {
                report.more(&[format!("type this in a terminal: {}", typed(&own))])?;
            }
            self.place.start(name, &own, &self.here).await.map(|()| None)
        } else {
            open_editor(&argv, &first.project).map(Some)
        };
        match started {
            Ok(editor) => Ok(Launched::Started(Expected {
                role: role.role.clone(),
                instances: order.agents.iter().map(|it| it.instance.clone()).collect(),
                editor,
            })),
            Err(why) => {
                report.step(Some(name), "start", Went::Failed, &why.message)?;
                Ok(Launched::Failed(why.message))
            }
        }
    }

    /// The command that watches over a role's session.
    fn own_command(&self, role: &RoleId) -> Vec<String> {
        let mut argv = vec![self.program.to_string_lossy().into_owned()];
        let global = node::global_arguments(self.global);
        argv.extend(global.iter().map(|it| it.to_string_lossy().into_owned()));
        let workspace = self.config.workspace.value.to_string();
        let more = ["launch-agent", "--workspace", &workspace, role.as_str()];
        argv.extend(more.map(str::to_owned));
        argv
    }
}

fn open_editor(argv: &[String], project: &Path) -> Result<std::process::Child, Failure> {
    let mut command = std::process::Command::new(&argv[0]);
    command.args(&argv[1..]).current_dir(project);
    terminal::spawn_apart(&mut command)
        .map_err(|why| Failure::local(format!("{} cannot be run: {why}.", argv[0])))
}

/// Waits for those that were started, and says how it went.
async fn finish(
    launched: Vec<Launched>,
    launch: &Launch<'_>,
    most: Duration,
    mut report: Report<'_>,
) -> Result<(), Failure> {
    let mut expected = Vec::new();
    let mut agents = Vec::new();
    let mut is_whole = true;
    for (role, launched) in launch.roles.iter().zip(launched) {
        let mut argv = Vec::new();
        let (state, why, instance) = match launched {
            Launched::Started(it) => {
                let instance = it.instances.first().cloned();
                expected.push(it);
                ("started", None, instance)
            }
            Launched::Played(why) => ("played", Some(why), None),
            Launched::Failed(why) => {
                is_whole = false;
                ("failed", Some(why), None)
            }
            Launched::Would(command) => {
                argv = command;
                ("would", None, None)
            }
        };
        agents.push(json!({
            "role": role.role.as_str(),
            "client": role.agents[0].program.name,
            "as": instance,
            "state": state,
            "why": why,
            "argv": argv,
        }));
    }
    if !expected.is_empty() && !most.is_zero() {
        let roles: Vec<&str> = expected.iter().map(|it| it.role.as_str()).collect();
        report.head(&format!("Waiting up to {} for {}", duration_text(most), roles.join(", ")))?;
        let tell = |role: &RoleId, after: Duration, arrival: &Arrival| {
            tell(role, after, arrival, &mut report)
        };
        let arrivals = arrival::wait(&mut expected, most, &launch.config, tell).await?;
        for (expected, arrival) in expected.iter().zip(&arrivals) {
            let role = expected.role.as_str();
            let (state, why) = match arrival {
                Arrival::Connected(_) => ("connected", None),
                Arrival::Ended { why, .. } => ("ended", Some(why.clone())),
                Arrival::Absent => {
                    let why = absent(role, launch, most);
                    report.step(Some(role), role, Went::Failed, &why)?;
                    ("absent", Some(why))
                }
            };
            is_whole &= state == "connected";
            let agent = agents.iter_mut().find(|it| it["role"] == role);
            if let Some(agent) = agent {
                (agent["state"], agent["why"]) = (state.into(), why.into());
            }
        }
    }
    let in_terminal = |it: &&Expected| it.editor.is_none();
    let attach = expected.iter().any(|it| in_terminal(&it)).then(|| launch.place.attach());
    report.end(&agents, attach.flatten().as_deref())?;
    if is_whole { Ok(()) } else { Err(Failure::told(Exit::Nothing)) }
}

fn tell(
    role: &RoleId,
    after: Duration,
    arrival: &Arrival,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    let name = role.as_str();
    match arrival {
        Arrival::Connected(who) => {
            let text = format!("connected after {} s: {who}", after.as_secs());
            report.step(Some(name), name, Went::Done, &text)
        }
        Arrival::Ended { why, lines } => {
            report.step(Some(name), name, Went::Failed, &format!("not connected: {why}"))?;
            report.more(lines)
        }
        Arrival::Absent => Ok(()),
    }
}

/// Why an agent may not have called, and where to look.
fn absent(role: &str, launch: &Launch<'_>, waited: Duration) -> String {
    let agents = launch.roles.iter().find(|it| it.role.as_str() == role);
    let file = agents.and_then(|it| launch.files.get(&it.role));
    let file = file.map_or_else(String::new, |it| format!(" in {}", it.display()));
    let is_editor = agents.is_some_and(|it| !it.agents[0].program.is_terminal());
    let place = match launch.place.attach() {
        _ if is_editor => "Give its agent what `tasuki prompt` prints, and see that its MCP \
                           settings show the server"
            .to_owned(),
        Some(attach) => format!("See what it shows: `{attach}`"),
        None => "See what it shows in its terminal".to_owned(),
    };
    format!(
        "not connected: no call within {}. {place}; `tasuki doctor` checks its configuration{file}.",
        duration_text(waited)
    )
}

/// One file would tell two roles to whoever reads it.
fn refuse_shared_agents_md(roles: &[RoleAgents], here: &Path) -> Result<(), Failure> {
    let mut told: BTreeMap<PathBuf, &RoleId> = BTreeMap::new();
    for role in roles {
        for agent in role.agents.iter().filter(|it| it.agents_md) {
            let project = project(agent, here);
            if let Some(other) = told.insert(project.clone(), &role.role)
                && *other != role.role
            {
                return Err(Failure::usage(format!(
                    "AGENTS.md in {} would tell {other} and {} to every agent there. Leave it out \
                     for one of them, or give each a directory of its own.",
                    project.display(),
                    role.role
                )));
            }
        }
    }
    Ok(())
}

fn undo(roles: &[RoleAgents], here: &Path, output: &mut Output) -> Result<(), Failure> {
    let agents = roles.iter().flat_map(|it| &it.agents);
    let mut projects: Vec<PathBuf> = agents.map(|agent| project(agent, here)).collect();
    projects.sort();
    projects.dedup();
    let mut changed = Vec::new();
    for project in projects {
        if agents_md::remove(&project)? {
            changed.push(agents_md::path(&project).display().to_string());
        }
    }
    output.answer(
        || json!({ "changed": changed }),
        || match changed.as_slice() {
            [] => "No AGENTS.md has a prompt of Tasuki.\n".to_owned(),
            changed => format!("The prompt was taken out of {}.\n", changed.join(", ")),
        },
    )
}
