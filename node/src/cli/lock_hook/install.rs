//! Installs hooks, uninstalls them, and shows which there are.

use std::path::{Path, PathBuf};

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tasuki_proto::id::RoleId;

use super::{
    CalledArgs, InstallArgs, WhichArgs,
    agent_hook::{self, Hook},
    git_hook::{self, Done, There},
};
use crate::{
    cli::{
        Failure, Output,
        client_files::{
            Installer, Target,
            document::{Document, Format},
            file_io::{self, NewMode},
            install_log::Applied,
            program,
        },
        text::{line, word},
    },
    config::{Config, HookFail, Source},
    dir::Dir,
    edit_guard::Client,
    paths::NodeFile,
    repository::{self, Repository},
};

/// The owner of agents' hooks in the log of what was installed.
const OWNER: &str = "lock-hook";

/// A hook that can be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Git,
    Agent(Client),
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Agent(client) => client.name(),
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Git => "Git",
            Self::Agent(client) => client.title(),
        }
    }
}

/// A project and the hooks to deal with.
struct Project {
    repository: Repository,
    root: PathBuf,
    /// The directory of Git's hooks, and whether the configuration names it; `None`: the project is
    /// in no repository.
    hooks: Option<(PathBuf, bool)>,
    kinds: Vec<Kind>,
    /// The hooks were named on the command line.
    is_named: bool,
}

/// What happened to one hook.
struct Report {
    kind: Kind,
    path: PathBuf,
    change: &'static str,
    notes: Vec<String>,
}

impl Project {
    fn find(which: &WhichArgs) -> Result<Self, Failure> {
        let directory = which.dir.clone().unwrap_or_else(|| PathBuf::from("."));
        let repository = Repository::find(&directory);
        let repository = repository.map_err(|why| Failure::local(format!("{why}.")))?;
        let hooks = repository.hooks_directory();
        let hooks = hooks.map_err(|why| Failure::local(format!("{why}.")))?;
        let root = repository.root().to_owned();
        let named = [
            (which.git, Kind::Git),
            (which.claude, Kind::Agent(Client::Claude)),
            (which.cursor, Kind::Agent(Client::Cursor)),
            (which.codex, Kind::Agent(Client::Codex)),
        ];
        let named = named.into_iter().filter_map(|(is_named, kind)| is_named.then_some(kind));
        let kinds: Vec<Kind> = named.collect();
        let is_named = !kinds.is_empty();
        Ok(Self { repository, root, hooks, kinds, is_named })
    }

    /// Where no hooks were named, all that could be there.
    fn with_all(mut self) -> Self {
        if !self.is_named {
            self.kinds = self.hooks.iter().map(|_| Kind::Git).collect();
            self.kinds.extend(Client::ALL.map(Kind::Agent));
        }
        self
    }

    /// Where no hooks were named, Git's and those of agents that have a directory in the project.
    fn with_usual(self) -> Self {
        let (is_named, mut project) = (self.is_named, self.with_all());
        let root = &project.root;
        project.kinds.retain(|kind| match kind {
            Kind::Agent(client) if !is_named => {
                root.join(agent_hook::row(*client).file).parent().is_some_and(Path::is_dir)
            }
            Kind::Agent(_) | Kind::Git => true,
        });
        project
    }

    fn git_hook(&self) -> Result<git_hook::Place, Failure> {
        let Some((hooks, _)) = &self.hooks else {
            let root = self.root.display();
            let why = match repository::is_bare(&self.root) {
                true => {
                    "is a bare Git repository: nobody commits there. Install the hook in clones."
                }
                false => "is in no Git repository, so there are no commits to refuse.",
            };
            return Err(Failure::usage(format!("{root} {why}")));
        };
        Ok(git_hook::Place::of(hooks))
    }

    /// Refuses links where Git's configuration names a directory in the work tree, which may have
    /// come with the project.
    fn refuse_links_to_hooks(&self) -> Result<(), Failure> {
        let Some((hooks, true)) = &self.hooks else { return Ok(()) };
        let is_within = hooks.strip_prefix(&self.root).is_ok_and(Dir::is_below);
        let refused = is_within.then(|| file_io::refuse_links(&self.root, hooks));
        refused.unwrap_or(Ok(())).map_err(Failure::local)
    }

    fn target(&self, client: Client) -> Target {
        let path = self.root.join(agent_hook::row(client).file);
        Target { path, format: Format::Json, mode: NewMode::Usual }
    }

    fn git_report(&self, place: &git_hook::Place, done: Done) -> Report {
        let mut notes = Vec::new();
        let is_there = !matches!(done, Done::Removed | Done::Absent);
        if is_there && place.has_before() {
            notes.push("The hook that was there runs first.".to_owned());
        }
        if is_there && matches!(&self.hooks, Some((_, true))) {
            notes.push(
                "`core.hooksPath` names this directory: the hook runs in every repository that \
                 uses it."
                    .to_owned(),
            );
        }
        let change = match done {
            Done::Created | Done::Chained => "created",
            Done::Changed => "changed",
            Done::Unchanged => "unchanged",
            Done::Removed => "removed",
            Done::Absent => "absent",
        };
        Report { kind: Kind::Git, path: place.path.clone(), change, notes }
    }
}

/// The program and its arguments that a hook calls.
fn command(config: &Config, called: &CalledArgs, words: &[&str]) -> Result<Vec<String>, Failure> {
    let mut command = program::command(config, words)?;
    if let Some(role) = &called.role {
        command.extend(["--as".to_owned(), role.to_string()]);
    }
    if let Some(within) = called.within {
        let within = humantime::format_duration(within).to_string();
        command.extend(["--within".to_owned(), within]);
    }
    match called.fail_flag() {
        None => {}
        Some(HookFail::Open) => command.push("--fail-open".to_owned()),
        Some(HookFail::Closed) => command.push("--fail-closed".to_owned()),
    }
    Ok(command)
}

pub(super) async fn install(
    args: &InstallArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let project = Project::find(&args.which)?.with_usual();
    let called = &args.called;
    let fail = called.fail(config);
    if project.kinds.is_empty() {
        return Err(Failure::usage(format!(
            "{} is in no Git repository and has no folder of a coding agent. Choose a hook with \
             --claude, --cursor or --codex.",
            project.root.display()
        )));
    }
    let hook = |client: Client| -> Result<Hook, Failure> {
        let words = ["lock-hook", "edit", "--client", client.name()];
        let command = command(config, called, &words)?;
        let command: Vec<String> = command.iter().map(|it| word(it)).collect();
        let is_closed = fail == HookFail::Closed;
        let within_secs = called.within.map_or(0, |it| it.as_secs());
        Ok(Hook { client, command: command.join(" "), is_closed, within_secs })
    };
    let mut installer = Installer::open(&config.data.value, OWNER).await?;
    // What is refused is refused before the first file is written.
    for kind in &project.kinds {
        match kind {
            Kind::Git => {
                project.refuse_links_to_hooks()?;
                project.git_hook()?.check()?;
            }
            Kind::Agent(client) => {
                let (target, hook) = (project.target(*client), hook(*client)?);
                file_io::refuse_link(&project.root, &target.path).map_err(Failure::local)?;
                installer.check(&target, &apply(&hook))?;
            }
        }
    }
    if let Some(role) = called.role.as_ref().filter(|role| is_unknown(role, config)) {
        output.note(&format!(
            "The hook acts as {role}, which is no role of this node. If that is a typo, install it \
             again with --as ROLE."
        ));
    }
    let mut all = Vec::new();
    for kind in &project.kinds {
        all.push(match kind {
            Kind::Git => {
                let place = project.git_hook()?;
                let command = command(config, called, &["lock-hook", "pre-commit"])?;
                let done = place.install(&git_hook::text(&command, fail))?;
                project.git_report(&place, done)
            }
            Kind::Agent(client) => {
                let (target, hook) = (project.target(*client), hook(*client)?);
                let written = installer.install(&target, &apply(&hook)).await?;
                let change = written.change();
                let notes = vec![agent_hook::row(*client).note.to_owned()];
                Report { kind: *kind, path: written.path, change, notes }
            }
        });
    }
    print(&all, output)
}

fn apply(hook: &Hook) -> impl Fn(&Path, &mut Document, bool) -> Result<Applied, Failure> {
    |path, document, _| agent_hook::apply(hook, document).map_err(|why| why.at(path))
}

/// Whether roles are known here, and this is none of them. A node elsewhere may have others.
fn is_unknown(role: &RoleId, config: &Config) -> bool {
    let last = NodeFile::last(&config.data.value);
    let mut known = last.map(|node| node.roles).unwrap_or_default();
    if config.roles.source != Source::Default {
        known.extend(config.roles.value.iter().map(|it| it.name.to_string()));
    }
    !known.is_empty() && !known.iter().any(|it| it == role.as_str())
}

pub(super) async fn uninstall(
    which: &WhichArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let project = Project::find(which)?.with_all();
    let mut installer = Installer::open(&config.data.value, OWNER).await?;
    // What is refused is refused before the first file is changed.
    for kind in &project.kinds {
        if let Kind::Agent(client) = kind {
            installer.check_removal(&project.target(*client), client)?;
        }
    }
    let mut all = Vec::new();
    for kind in &project.kinds {
        let report = match kind {
            Kind::Git => {
                let place = project.git_hook()?;
                let done = place.uninstall()?;
                project.git_report(&place, done)
            }
            Kind::Agent(client) => {
                let target = project.target(*client);
                let restored = installer.uninstall(&target, client).await?;
                let change = restored.map_or("absent", |it| it.change());
                Report { kind: *kind, path: target.path, change, notes: Vec::new() }
            }
        };
        if project.is_named || report.change != "absent" {
            all.push(report);
        }
    }
    print(&all, output)
}

fn print(all: &[Report], output: &mut Output) -> Result<(), Failure> {
    output.answer(
        || {
            let one = |it: &Report| {
                json!({
                    "hook": it.kind.name(), "path": it.path.to_string_lossy(),
                    "change": it.change, "notes": it.notes,
                })
            };
            json!({ "hooks": all.iter().map(one).collect::<Vec<_>>() })
        },
        || {
            let mut out = String::new();
            if all.is_empty() {
                out += "No hook of Tasuki is installed here; nothing was changed.\n";
            }
            for it in all {
                let (title, path) = (it.kind.title(), it.path.display());
                out += &format!("{}  {} {path}\n", title.bold(), it.change);
                for note in &it.notes {
                    out += &format!("  {note}\n");
                }
            }
            out
        },
    )
}

/// A hook as it is.
struct State {
    kind: Kind,
    path: PathBuf,
    /// What it calls; `None`: it is not installed.
    command: Option<String>,
    /// Why it cannot be read, or does not work.
    problem: Option<String>,
}

pub(super) fn status(
    which: &WhichArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let project = Project::find(which)?.with_all();
    let mut all = Vec::new();
    for kind in &project.kinds {
        all.push(match kind {
            Kind::Git => git_state(&project.git_hook()?),
            Kind::Agent(client) => agent_state(*client, project.target(*client)),
        });
    }
    let fail = format!("{:?}", config.hook_fail.value).to_lowercase();
    let repository = &project.repository;
    let (name, known_by) = (repository.identity(), repository.known_by().words());
    output.answer(
        || {
            let one = |it: &State| {
                json!({
                    "hook": it.kind.name(), "path": it.path.to_string_lossy(),
                    "installed": it.command.is_some(), "command": it.command,
                    "problem": it.problem,
                })
            };
            let hooks: Vec<Value> = all.iter().map(one).collect();
            json!({
                "hooks": hooks, "hook_fail": fail, "repository": name, "known_by": known_by,
            })
        },
        || {
            let mut out = format!("Locks are of {}\n  {known_by}\n", line(name).bold());
            for it in &all {
                let is_there = if it.command.is_some() { "installed" } else { "not installed" };
                let (title, path) = (it.kind.title(), it.path.display());
                out += &format!("{}  {is_there}  {path}\n", title.bold());
                for more in it.command.iter().chain(&it.problem) {
                    out += &format!("  {}\n", line(more));
                }
            }
            out +=
                &format!("hook_fail is {fail}, unless a hook was installed with another choice\n");
            out
        },
    )
}

/// Hooks of the project in this directory that are installed and do not work: each with its title, its
/// file and why.
pub(in crate::cli) fn broken() -> Vec<(&'static str, PathBuf, String)> {
    let which = WhichArgs { git: false, claude: false, cursor: false, codex: false, dir: None };
    // Without a project there are none.
    let Ok(project) = Project::find(&which).map(Project::with_all) else { return Vec::new() };
    let states = project.kinds.iter().filter_map(|kind| match kind {
        Kind::Git => project.git_hook().ok().map(|place| git_state(&place)),
        Kind::Agent(client) => Some(agent_state(*client, project.target(*client))),
    });
    let broken = states.filter(|it| it.command.is_some());
    broken.filter_map(|it| Some((it.kind.title(), it.path, it.problem?))).collect()
}

fn git_state(place: &git_hook::Place) -> State {
    let state = |command, problem: Option<String>| State {
        kind: Kind::Git,
        path: place.path.clone(),
        command,
        problem,
    };
    match place.look() {
        Ok(There::Nothing) => state(None, None),
        Ok(There::Others) if place.has_before() => {
            state(None, Some("Another hook has replaced ours.".to_owned()))
        }
        Ok(There::Others) => {
            state(None, Some("Another hook is there; it would stay and run first.".to_owned()))
        }
        Ok(There::Ours(text)) => {
            let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
            let program = line("tasuki=").unwrap_or_default();
            let command = format!("{program}{}", line("exec \"$tasuki\"").unwrap_or_default());
            let problem = missing_program(&command);
            state(Some(command), problem)
        }
        Err(why) => state(None, Some(why.to_string())),
    }
}

fn agent_state(client: Client, target: Target) -> State {
    let (kind, path) = (Kind::Agent(client), target.path);
    let found = file_io::read(&path).and_then(|file| {
        let document = Document::parse(target.format, file.text.as_deref().unwrap_or_default());
        let command = document.and_then(|document| agent_hook::command(client, &document));
        command.map_err(|why| why.to_string())
    });
    match found {
        Ok(command) => {
            let problem = command.as_deref().and_then(missing_program);
            State { kind, path, command, problem }
        }
        Err(why) => State { kind, path, command: None, problem: Some(why) },
    }
}

/// Why a command whose program does not exist does not work.
fn missing_program(command: &str) -> Option<String> {
    let program = match command.strip_prefix('\'') {
        Some(rest) => rest.split('\'').next().unwrap_or_default(),
        None => command.split(' ').next().unwrap_or_default(),
    };
    // A name with a quote in it is not taken apart.
    let is_plain = !command.contains("'\\''");
    let is_gone = is_plain && !Path::new(program).exists();
    is_gone.then(|| format!("{program} does not exist; install the hook again."))
}
