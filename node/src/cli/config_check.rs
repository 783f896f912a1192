//! `tasuki config check`: what holds, who said so, and what is wrong.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::PathBuf,
};

use owo_colors::OwoColorize as _;
use serde_json::{Map, Value, json};
use tasuki_proto::{counted::counted, host::config::Found, id::RoleId};

use super::{Failure, Output, text::line};
use crate::{
    accept::settings::Settings,
    commands::{CommandSettings, check_write},
    config::{
        Config, Environment, FILE, Key, OfBroker, Problem, RunSettings, Source, Sourced,
        duration_text,
    },
    file_access::{FileSettings, Files, protect::Pattern},
    hooks,
    launch::settings::LaunchSettings,
    process::policy::Kind,
    service_settings::{Action, Service},
};

/// Check the configuration.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Print every setting, where it came from, and every problem with its line
    Check,
}

pub(crate) fn run(
    config: &Config,
    problems: &[Problem],
    around: &Environment,
    output: &mut Output,
) -> Result<(), Failure> {
    let rows = Key::ALL.map(|key| (key, setting(config, key)));
    let strangers = around.strangers();
    let warnings = warnings(config, around);
    let (found, _) = hooks(config);
    let problems = self::problems(config, problems);
    output.answer(
        || value(config, &rows, &found, &strangers),
        || {
            let mut out = heading(config.file.as_ref(), &problems) + &lines(&rows);
            out += &broker_lines(config);
            for (name, roles) in &config.groups {
                let roles: Vec<&str> = roles.iter().map(RoleId::as_str).collect();
                let of = format!("group {name}");
                out += &format!("{:<14} {}\n", of.bold(), roles.join(" "));
            }
            out += &found.iter().map(Shown::lines).collect::<String>();
            out += &config.accept.as_ref().map(accept_lines).unwrap_or_default();
            out += &config.runs.as_ref().map(run_lines).unwrap_or_default();
            out += &config.launch.as_ref().map(launch_line).unwrap_or_default();
            out += &config.services.iter().map(service_line).collect::<String>();
            out += &config.files.as_ref().map(file_lines).unwrap_or_default();
            out += &config.commands.as_ref().map(command_lines).unwrap_or_default();
            for warning in &warnings {
                out += &format!("\nwarning: {warning}.\n");
            }
            out
        },
    )?;
    if problems.is_empty() { Ok(()) } else { Err(Failure::configuration(&problems)) }
}

/// All that is wrong. `refused`: what keeps other commands from running at all.
pub(super) fn problems(config: &Config, refused: &[Problem]) -> Vec<Problem> {
    let (_, wrong) = hooks(config);
    let problems = refused.iter().chain(&config.distrust).chain(&config.accept_distrust);
    let problems = problems.chain(&config.runners_distrust).chain(&config.runs_distrust);
    let problems = problems.chain(&config.launch_distrust).chain(&config.gateway_distrust);
    let problems = problems.chain(&config.services_distrust);
    let problems = problems.chain(&config.files_distrust);
    let problems = problems.chain(&config.commands_distrust).cloned();
    let problems = problems.chain(wrong).chain(problems_of_broker(config));
    let of_directories = problem_of_directories(config.files.as_ref(), config.commands.as_ref());
    problems.chain(of_directories).collect()
}

/// What keeps agents from the directories that the file opens to them.
fn problem_of_directories(
    files: Option<&Sourced<FileSettings>>,
    commands: Option<&Sourced<CommandSettings>>,
) -> Option<Problem> {
    let files = files.filter(|it| it.value.root.is_some())?;
    let problem = |at: &Source, message: String| {
        Some(Problem { at: at.clone(), message: message.trim_end_matches('.').to_owned() })
    };
    // What is private is the node's to say.
    let open = match Files::open(files.value.clone(), Vec::new()) {
        Ok(open) => open,
        Err(why) => return problem(&files.source, why),
    };
    let commands = commands?;
    check_write(&commands.value, &open).err().and_then(|why| problem(&commands.source, why))
}

/// What is said and counts for nothing, each without its full stop.
pub(super) fn warnings(config: &Config, around: &Environment) -> Vec<String> {
    let strangers = around.strangers().into_iter();
    let strangers = strangers.map(|name| format!("{name} is not a setting; it is ignored"));
    let idle = config.idle_toolsets.iter().map(|name| {
        format!("`toolsets` names {}, which is not among the roles; it is ignored", line(name))
    });
    let services = config.idle_services.iter().map(|it| {
        let Service { role, name, .. } = &it.value;
        format!(
            "`service` {role}__{name} is of {role}, which is not among the roles; it is ignored"
        )
    });
    strangers.chain(idle).chain(services).collect()
}

type Row = (Key, (Vec<String>, Source));

/// One setting as it would be written, and where it came from.
fn setting(config: &Config, key: Key) -> (Vec<String>, Source) {
    let one = |text: String, source: &Source| (vec![text], source.clone());
    match key {
        Key::Data => one(config.root.display().to_string(), &config.data.source),
        Key::Workspace => one(config.workspace.value.to_string(), &config.workspace.source),
        Key::Listen => one(config.listen.value.to_string(), &config.listen.source),
        Key::BrokerListen => {
            one(config.broker_listen.value.to_string(), &config.broker_listen.source)
        }
        Key::Dashboard => one(config.dashboard.value.to_string(), &config.dashboard.source),
        Key::Broker => one(config.broker.value.clone().unwrap_or_default(), &config.broker.source),
        Key::Lease => one(duration_text(config.lease.value), &config.lease.source),
        Key::Hold => {
            let hold = config.hold.value.map(duration_text).unwrap_or_default();
            one(hold, &config.hold.source)
        }
        Key::Roles => {
            let roles = config.roles.value.iter().map(ToString::to_string).collect();
            (roles, config.roles.source.clone())
        }
        Key::Shared => {
            let shared = config.shared.value.iter().map(ToString::to_string).collect();
            (shared, config.shared.source.clone())
        }
        Key::Secure => {
            let secure = if config.secure.value { "yes" } else { "no" };
            one(secure.to_owned(), &config.secure.source)
        }
        Key::Advertise => {
            one(config.advertise.value.clone().unwrap_or_default(), &config.advertise.source)
        }
        Key::Mirror => {
            let mirror = if config.mirror.value { "yes" } else { "no" };
            one(mirror.to_owned(), &config.mirror.source)
        }
        Key::MirrorRoot => one(path(&config.mirror_root.value), &config.mirror_root.source),
        Key::HookFail => {
            let fail = format!("{:?}", config.hook_fail.value).to_lowercase();
            one(fail, &config.hook_fail.source)
        }
        Key::TlsCert => one(path(&config.tls_cert.value), &config.tls_cert.source),
        Key::TlsKey => one(path(&config.tls_key.value), &config.tls_key.source),
        Key::LogFormat => {
            let format = format!("{:?}", config.log_format.value).to_lowercase();
            one(format, &config.log_format.source)
        }
    }
}

/// What the broker's program will not take of what the file says.
fn problems_of_broker(config: &Config) -> Vec<Problem> {
    let wrong = |it: &OfBroker| {
        let message = format!("`{}` {}", it.name, it.value.as_ref().err()?);
        Some(Problem { at: it.at.clone(), message })
    };
    let mut problems: Vec<_> = config.of_broker.iter().filter_map(wrong).collect();
    let mut of_tls = config.of_broker.iter().filter(|it| it.name.starts_with("tls_"));
    if let (Some(only), None) = (of_tls.next(), of_tls.next()) {
        let message = "`tls_cert` and `tls_key` belong together; give both".to_owned();
        problems.push(Problem { at: only.at.clone(), message });
    }
    problems
}

fn broker_lines(config: &Config) -> String {
    let row = |it: &OfBroker| {
        let value = line(it.value.as_ref().ok()?);
        let from = format!("from {}", it.at);
        Some(format!(
            "{:<14} {value}  {}\n{:<14} {}\n",
            it.name.bold(),
            from.dimmed(),
            "",
            "of the broker".dimmed()
        ))
    };
    config.of_broker.iter().filter_map(row).collect()
}

fn broker_value(config: &Config) -> Value {
    let row = |it: &OfBroker| {
        let value = it.value.as_ref().ok()?;
        Some((it.name.to_owned(), json!({ "value": value, "from": it.at.to_string() })))
    };
    Value::Object(config.of_broker.iter().filter_map(row).collect())
}

/// A hook as one would want to check it.
struct Shown {
    name: String,
    on: Vec<&'static str>,
    /// Each filter that is set: its name, and what it lets through.
    only: Vec<(&'static str, Vec<String>)>,
    action: String,
    /// Where its program was found.
    program: Option<String>,
    limit: String,
    retries: u32,
    from: String,
}

/// The hooks, and what keeps any from being called on this machine.
fn hooks(config: &Config) -> (Vec<Shown>, Vec<Problem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for Sourced { value: hook, source } in &config.hooks {
        let program = hooks::look(hook).unwrap_or_else(|why| {
            let message = format!("the hook {} cannot be called: {why}", hook.name);
            problems.push(Problem { at: source.clone(), message });
            None
        });
        fn names<T: ToString>(set: &BTreeSet<T>) -> Vec<String> {
            set.iter().map(ToString::to_string).collect()
        }
        let filters = [
            ("role", names(&hook.roles)),
            ("type", names(&hook.types)),
            ("sender", names(&hook.senders)),
            ("receiver", names(&hook.receivers)),
        ];
        found.push(Shown {
            name: hook.name.to_string(),
            on: hook.on.iter().map(|kind| kind.as_str()).collect(),
            only: filters.into_iter().filter(|(_, set)| !set.is_empty()).collect(),
            action: hook.action.text(),
            program,
            limit: duration_text(hook.limit),
            retries: hook.retries,
            from: source.to_string(),
        });
    }
    (found, problems)
}

impl Shown {
    fn lines(&self) -> String {
        let only = self.only.iter().map(|(filter, set)| format!("; {filter} {}", set.join(" ")));
        let (on, only) = (self.on.join(" "), only.collect::<String>());
        let program = self.program.as_ref().map(|it| format!(", which is {it}"));
        let program = line(&program.unwrap_or_default());
        let retries = counted(self.retries, "time");
        let limits = format!("at most {}, tried again {retries}", self.limit);
        format!(
            "{:<14} {} on {on}{only}  {}\n{:<14} {}\n",
            "hook".bold(),
            self.name,
            format!("from {}", self.from).dimmed(),
            "",
            format!("{}{program} ({limits})", line(&self.action)).dimmed()
        )
    }

    fn value(&self) -> Value {
        let only: Map<_, _> =
            self.only.iter().map(|(filter, set)| ((*filter).to_owned(), json!(set))).collect();
        json!({
            "name": self.name, "on": self.on, "only": only, "action": self.action,
            "program": self.program, "limit": self.limit, "retries": self.retries,
            "from": self.from,
        })
    }
}

/// What others' commands may do here.
fn accept_lines(it: &Sourced<Settings>) -> String {
    let settings = &it.value;
    let allow: Vec<String> = settings.allow.iter().map(|it| format!("`{it}`")).collect();
    let allow = if allow.is_empty() { "nothing".to_owned() } else { allow.join(", ") };
    format!(
        "{:<14} {}  {}\n{:<14} {}\n",
        "accept".bold(),
        line(&allow),
        format!("from {}", it.source).dimmed(),
        "",
        format!("of others' commands, in the sandbox {}", sandbox_name(settings)).dimmed()
    )
}

fn accept_value(it: &Sourced<Settings>) -> Value {
    let settings = &it.value;
    let allow: Vec<String> = settings.allow.iter().map(ToString::to_string).collect();
    let env: Vec<&str> = settings.env.iter().map(|(name, _)| name.as_str()).collect();
    json!({
        "allow": allow, "read": settings.read, "write": settings.write, "env": env,
        "sandbox": sandbox_name(settings), "timeout_sec": settings.limit.as_secs(),
        "memory_mb": settings.memory_mb, "directory": settings.directory,
        "from": it.source.to_string(),
    })
}

fn sandbox_name(settings: &Settings) -> String {
    settings.policy(&[]).name()
}

/// How agents run here, and for whom.
fn run_lines(it: &Sourced<RunSettings>) -> String {
    let settings = &it.value;
    let elsewhere = if settings.accept_elsewhere { "any machine" } else { "this machine alone" };
    let labels = match settings.labels.as_slice() {
        [] => String::new(),
        labels => format!("; labels {}", labels.join(" ")),
    };
    let places = counted(settings.places, "step");
    format!(
        "{:<14} at most {places} at once, for {elsewhere}{labels}  {}\n{:<14} {}\n",
        "runs".bold(),
        format!("from {}", it.source).dimmed(),
        "",
        format!("of sub-agents, at most {} each", duration_text(settings.timeout)).dimmed()
    )
}

fn run_value(it: &Sourced<RunSettings>) -> Value {
    let settings = &it.value;
    json!({
        "accept_elsewhere": settings.accept_elsewhere, "labels": settings.labels,
        "places": settings.places, "timeout": duration_text(settings.timeout),
        "env": settings.env, "directory": settings.directory, "runner": settings.runner,
        "from": it.source.to_string(),
    })
}

/// Which agents `tasuki launch` starts.
fn launch_line(it: &Sourced<LaunchSettings>) -> String {
    let agents = it.value.agents.iter();
    let agents: Vec<_> = agents.map(|it| format!("{}={}", it.role, it.program.name)).collect();
    let from = format!("from {}", it.source);
    format!("{:<14} {}  {}\n", "launch".bold(), agents.join(" "), from.dimmed())
}

fn launch_value(it: &Sourced<LaunchSettings>) -> Value {
    let agents = it.value.agents.iter().map(|it| {
        json!({
            "role": it.role.as_str(), "client": it.program.name, "project": it.project,
            "command": it.command, "args": it.args,
        })
    });
    json!({"agents": agents.collect::<Vec<_>>(), "from": it.source.to_string()})
}

/// What a role does for others.
fn service_line(it: &Sourced<Service>) -> String {
    let Service { role, name, steps, timeout, .. } = &it.value;
    let steps = steps.iter().map(|step| match &step.action {
        Action::Agent { agent, .. } => format!("agent {}", agent.agent),
        Action::Tool { tool, .. } => format!("tool {tool}"),
    });
    let steps = steps.collect::<Vec<_>>().join(", then ");
    format!(
        "{:<14} {role}__{name}  {}\n{:<14} {}\n",
        "service".bold(),
        format!("from {}", it.source).dimmed(),
        "",
        format!("{} (at most {})", line(&steps), duration_text(*timeout)).dimmed()
    )
}

fn service_value(it: &Sourced<Service>) -> Value {
    let Service { role, name, callers, timeout, steps, .. } = &it.value;
    json!({
        "role": role.as_str(), "name": name, "callers": callers, "steps": steps.len(),
        "timeout": duration_text(*timeout), "from": it.source.to_string(),
    })
}

/// What agents may do to files.
fn file_lines(it: &Sourced<FileSettings>) -> String {
    let settings = &it.value;
    let root = settings
        .root
        .as_ref()
        .map_or_else(|| "(none)".to_owned(), |it| line(&it.display().to_string()));
    let may = if settings.may_write { "read and written" } else { "read" };
    let protect: Vec<&str> = settings.protect.iter().map(Pattern::text).collect();
    let beside = if protect.is_empty() {
        String::new()
    } else {
        format!("; protected beside the usual: {}", line(&protect.join(" ")))
    };
    format!(
        "{:<14} {root}  {}\n{:<14} {}\n",
        "files".bold(),
        format!("from {}", it.source).dimmed(),
        "",
        format!("{may} by roles with the toolset `files`{beside}").dimmed()
    )
}

fn file_value(it: &Sourced<FileSettings>) -> Value {
    let protect: Vec<&str> = it.value.protect.iter().map(Pattern::text).collect();
    json!({
        "root": it.value.root, "write": it.value.may_write, "protect": protect,
        "from": it.source.to_string(),
    })
}

/// What agents may run.
fn command_lines(it: &Sourced<CommandSettings>) -> String {
    let settings = &it.value;
    let allow: Vec<String> = settings.allow.iter().map(|it| format!("`{it}`")).collect();
    let allow = if allow.is_empty() { "nothing".to_owned() } else { allow.join(", ") };
    let kept = match settings.kind {
        Kind::Landlock => "in the sandbox landlock+seccomp",
        Kind::None => "not sandboxed, each after asking its user",
    };
    let write = match settings.write.as_slice() {
        [] => "writing nowhere".to_owned(),
        write => format!("writing to {}", line(&write.join(" "))),
    };
    format!(
        "{:<14} {}  {}\n{:<14} {}\n",
        "commands".bold(),
        line(&allow),
        format!("from {}", it.source).dimmed(),
        "",
        format!("by roles with the toolset `commands`, {kept}, {write}").dimmed()
    )
}

fn command_value(it: &Sourced<CommandSettings>) -> Value {
    let settings = &it.value;
    let allow: Vec<String> = settings.allow.iter().map(ToString::to_string).collect();
    let env: Vec<&str> = settings.env.iter().map(|(name, _)| name.as_str()).collect();
    json!({
        "allow": allow, "read": settings.read, "write": settings.write, "env": env,
        "sandbox": settings.kind, "timeout_sec": settings.limit.as_secs(),
        "memory_mb": settings.memory_mb, "file_mb": settings.file_mb,
        "processes": settings.processes, "at_once": settings.places,
        "from": it.source.to_string(),
    })
}

fn value(config: &Config, rows: &[Row], hooks: &[Shown], strangers: &[&str]) -> Value {
    let mut settings = Map::new();
    for (key, (texts, source)) in rows {
        let value = if key.is_list() { json!(texts) } else { json!(texts.concat()) };
        let row = json!({"value": value, "from": source.to_string(), "variable": key.env()});
        settings.insert(key.name().to_owned(), row);
    }
    let hooks: Vec<Value> = hooks.iter().map(Shown::value).collect();
    let name = |roles: &Vec<RoleId>| roles.iter().map(ToString::to_string).collect::<Vec<_>>();
    let groups: BTreeMap<_, _> = config.groups.iter().map(|(it, of)| (it, name(of))).collect();
    json!({
        "file": config.file.as_ref().map(|found| &found.path), "settings": settings, "groups": groups,
        "file_below": config.file.as_ref().and_then(|found| Some(&found.below.as_ref()?.path)),
        "broker_settings": broker_value(config), "toolsets_without_role": config.idle_toolsets,
        "hooks": hooks, "accept": config.accept.as_ref().map(accept_value),
        "runs": config.runs.as_ref().map(run_value),
        "launch": config.launch.as_ref().map(launch_value),
        "services": config.services.iter().map(service_value).collect::<Vec<_>>(),
        "files": config.files.as_ref().map(file_value),
        "commands": config.commands.as_ref().map(command_value),
        "unknown_variables": strangers,
    })
}

fn path(path: &Option<PathBuf>) -> String {
    path.as_deref().map(|path| path.display().to_string()).unwrap_or_default()
}

fn heading(file: Option<&Found>, problems: &[Problem]) -> String {
    match file {
        _ if !problems.is_empty() => {
            "Where there is a problem, this shows what would hold without it.\n\n".to_owned()
        }
        Some(Found { path, below: Some(below), .. }) => format!(
            "{} and {} are in order; what the first may not or does not say is taken from the \
             second.\n\n",
            path.display(),
            below.path.display()
        ),
        Some(Found { path, is_here: true, distrust: None, .. }) => {
            format!("{} is in order, and trusted as it is.\n\n", path.display())
        }
        Some(found) => format!("{} is in order.\n\n", found.path.display()),
        None => format!("There is no {FILE}; these are the defaults and what overrides them.\n\n"),
    }
}

fn lines(rows: &[Row]) -> String {
    let mut out = String::new();
    for (key, (texts, source)) in rows {
        let value = texts.join(" ");
        let value = if value.is_empty() { "(none)" } else { &value };
        let from = format!("from {source}");
        writeln!(out, "{:<14} {}  {}", key.name().bold(), value, from.dimmed())
            .and_then(|()| {
                writeln!(
                    out,
                    "{:<14} {}",
                    "",
                    format!("{} ({})", key.meaning(), key.env()).dimmed()
                )
            })
            .expect("a String takes everything");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_agents_cannot_have_are_problems() {
        let place = tempfile::tempdir().unwrap();
        let problem = |root: &str, write: &str| {
            let root = Some(place.path().join(root));
            let files = FileSettings { root, ..FileSettings::default() };
            let write = vec![write.to_owned()];
            let commands = CommandSettings { write, ..CommandSettings::default() };
            let of = |line| Source::File { path: "t".into(), line };
            let files = Sourced { value: files, source: of(1) };
            let commands = Sourced { value: commands, source: of(2) };
            let found = problem_of_directories(Some(&files), Some(&commands));
            found.map(|it| format!("{} {}", it.at, it.message))
        };
        for (root, write, expected) in [
            ("", "../x", "2 [commands] write: ../x: `path` has `..`"),
            ("", ".", "2 [commands] write: . is the root itself"),
            ("", ".git/x", "2 [commands] write: .git/x is protected (.git)"),
            ("missing", "target", "1 [files] root cannot be opened"),
        ] {
            let found = problem(root, write).unwrap();
            assert!(found.contains(expected) && !found.ends_with('.'), "{found}");
        }
        assert_eq!(problem("", "target"), None);
    }
}
