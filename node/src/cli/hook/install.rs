//! Puts hooks there, takes them back, shows them.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tasuki_proto::id::RoleId;

use super::{
    CalledArgs, InstallArgs, WhichArgs,
    ledger::Ledger,
    script::{self, Done, There},
    settings::{self, Wanted},
};
use crate::{
    cli::{
        Failure, Output, broker,
        connect::{
            book::back_up,
            files::{self, Found, Unwritten},
            program,
        },
        text::{line, word},
    },
    clock,
    config::{Config, HookFail, Source},
    dir::Dir,
    edit_guard::Client,
    paths::NodeFile,
    repository::{self, Repository},
};

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

/// The project, and what is meant of it.
struct Meant {
    repository: Repository,
    root: PathBuf,
    /// `None`: the project is in no repository.
    hooks: Option<(PathBuf, bool)>,
    kinds: Vec<Kind>,
    /// Somebody named them.
    is_named: bool,
}

/// What happened to one hook.
struct Told {
    kind: Kind,
    path: PathBuf,
    change: &'static str,
    notes: Vec<String>,
}

fn meant(which: &WhichArgs) -> Result<Meant, Failure> {
    let directory = which.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let found = Repository::find(&directory);
    let found = found.map_err(|why| Failure::local(format!("{why}.")))?;
    let hooks = found.hooks_directory().map_err(|why| Failure::local(format!("{why}.")))?;
    let root = found.root().to_owned();
    let agents = [
        (which.claude, Client::Claude),
        (which.cursor, Client::Cursor),
        (which.codex, Client::Codex),
    ];
    let is_named = which.git || agents.iter().any(|(is_named, _)| *is_named);
    let has_folder = |client: Client| {
        let file = root.join(settings::file(client));
        file.parent().is_some_and(Path::is_dir)
    };
    let git = (which.git || (!is_named && hooks.is_some())).then_some(Kind::Git);
    let agents = agents.into_iter().filter(
        |(is_it, client)| {
            if is_named { *is_it } else { has_folder(*client) }
        },
    );
    let kinds = git.into_iter().chain(agents.map(|(_, client)| Kind::Agent(client))).collect();
    Ok(Meant { repository: found, root, hooks, kinds, is_named })
}

impl Meant {
    fn script(&self) -> Result<script::Place, Failure> {
        let Some((hooks, _)) = &self.hooks else {
            let root = self.root.display();
            let why = match repository::is_bare(&self.root) {
                true => {
                    "is in a bare Git repository: nobody commits there, and hooks of this \
                         kind are for clones of it."
                }
                false => "is in no Git repository, so there are no commits to refuse.",
            };
            return Err(Failure::usage(format!("{root} {why}")));
        };
        Ok(script::Place::of(hooks))
    }

    /// Where Git was told of a folder in the work tree, which may have come with the project.
    fn refuse_links_to_hooks(&self) -> Result<(), Failure> {
        let Some((hooks, true)) = &self.hooks else { return Ok(()) };
        let is_within = hooks.strip_prefix(&self.root).is_ok_and(Dir::is_below);
        let refused = is_within.then(|| files::refuse_links(&self.root, hooks));
        refused.unwrap_or(Ok(())).map_err(Failure::local)
    }

    fn file(&self, client: Client) -> PathBuf {
        self.root.join(settings::file(client))
    }
}

/// The program and its arguments, to be called again as it was called.
fn command(config: &Config, called: &CalledArgs, words: &[&str]) -> Result<Vec<String>, Failure> {
    let here = std::env::current_dir().map_err(|why| Failure::local(format!("{why}.")))?;
    let program = program::path(&here)
        .map_err(|why| Failure::local(format!("Cannot find this program's own path: {why}.")))?;
    let text = |path: &Path| here.join(path).to_string_lossy().into_owned();
    let mut command = vec![text(&program)];
    if config.data.source != Source::Default {
        command.extend(["--data".to_owned(), text(&config.data.value)]);
    }
    command.extend(words.iter().map(|it| (*it).to_owned()));
    let is_said = |source: &Source| matches!(source, Source::Flag(_) | Source::Env(_));
    if let (Some(url), true) = (&config.broker.value, is_said(&config.broker.source)) {
        command.extend(["--broker".to_owned(), url.clone()]);
    }
    // The node may have ended, or be another one, by the time that the hook is called.
    let workspace = broker::workspace(config);
    if is_said(&config.workspace.source) || workspace != config.workspace.value {
        command.extend(["--workspace".to_owned(), workspace.to_string()]);
    }
    if let Some(role) = &called.role {
        command.extend(["--as".to_owned(), role.to_string()]);
    }
    if let Some(within) = called.within {
        let within = humantime::format_duration(within).to_string();
        command.extend(["--within".to_owned(), within]);
    }
    match called.told() {
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
    let meant = meant(&args.which)?;
    let called = &args.called;
    let fail = called.fail(config);
    if meant.kinds.is_empty() {
        return Err(Failure::usage(format!(
            "{} is in no Git repository and has no folder of a coding agent; say which hook is \
             meant, with --claude, --cursor or --codex.",
            meant.root.display()
        )));
    }
    let wanted = |client: Client| -> Result<Wanted, Failure> {
        let words = ["lock-hook", "edit", "--client", client.name()];
        let command = command(config, called, &words)?;
        let command: Vec<String> = command.iter().map(|it| word(it)).collect();
        let is_closed = fail == HookFail::Closed;
        let within_secs = called.within.map_or(0, |it| it.as_secs());
        Ok(Wanted { client, command: command.join(" "), is_closed, within_secs })
    };
    let data = &config.data.value;
    let _ours = files::lock(data).await.map_err(Failure::local)?;
    let mut ledger = Ledger::read(data).map_err(Failure::local)?;
    // What is refused is refused before the first file is written.
    for kind in &meant.kinds {
        match kind {
            Kind::Git => {
                meant.refuse_links_to_hooks()?;
                meant.script()?.check()?;
            }
            Kind::Agent(client) => {
                files::refuse_link(&meant.root, &meant.file(*client)).map_err(Failure::local)?;
                let found = files::read(&meant.file(*client)).map_err(Failure::local)?;
                put(&wanted(*client)?, &found)?;
            }
        }
    }
    if let Some(role) = called.role.as_ref().filter(|role| is_stranger(role, config)) {
        output.note(&format!(
            "The hook acts as {role}, which is no role of this node: if that is mistyped, install \
             it again with --as ROLE."
        ));
    }
    let mut all = Vec::new();
    for kind in &meant.kinds {
        all.push(match kind {
            Kind::Git => {
                let place = meant.script()?;
                let text =
                    script::text(&command(config, called, &["lock-hook", "pre-commit"])?, fail);
                let done = place.install(&text)?;
                told_of_script(&meant, &place, done)
            }
            Kind::Agent(client) => {
                let path = meant.file(*client);
                agent(&wanted(*client)?, &path, data, &mut ledger).await?
            }
        });
    }
    say(&all, output)
}

/// Whether roles are known here, and this is none of them. A node elsewhere may have others.
fn is_stranger(role: &RoleId, config: &Config) -> bool {
    let last = NodeFile::last(&config.data.value);
    let mut known = last.map(|node| node.roles).unwrap_or_default();
    if config.roles.source != Source::Default {
        known.extend(config.roles.value.iter().map(|it| it.name.to_string()));
    }
    !known.is_empty() && !known.iter().any(|it| it == role.as_str())
}

fn put(wanted: &Wanted, found: &Found) -> Result<Option<settings::Changed>, Failure> {
    let text = found.text.as_deref().unwrap_or_default();
    settings::put(wanted, text).map_err(|why| unfit(&found.path, &why))
}

fn unfit(path: &Path, why: &str) -> Failure {
    Failure::local(format!("{}: {why}. The file was left as it is.", path.display()))
}

async fn agent(
    wanted: &Wanted,
    path: &Path,
    data: &Path,
    ledger: &mut Ledger,
) -> Result<Told, Failure> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let _theirs = files::lock(folder).await.map_err(Failure::local)?;
    let found = files::read(path).map_err(Failure::local)?;
    let kind = Kind::Agent(wanted.client);
    let notes = vec![note(wanted.client).to_owned()];
    let Some(changed) = put(wanted, &found)? else {
        return Ok(Told { kind, path: path.to_owned(), change: "unchanged", notes });
    };
    let before = found.text.as_deref();
    let backup = match before {
        None => None,
        Some(text) => {
            Some(back_up(data, &found.path, text, clock::wall_ms()).map_err(Failure::local)?)
        }
    };
    // What is noted and did not happen is taken back without harm; the other way round it would
    // stay.
    ledger.note(path, before, &changed.text, &changed.made, backup);
    ledger.write(data).map_err(Failure::local)?;
    replace(&found, &changed.text)?;
    let change = if before.is_none() { "created" } else { "changed" };
    Ok(Told { kind, path: path.to_owned(), change, notes })
}

fn replace(found: &Found, text: &str) -> Result<(), Failure> {
    files::replace(found, text, false).map_err(|why| unwritten(found, why))
}

fn unwritten(found: &Found, why: Unwritten) -> Failure {
    Failure::local(match why {
        Unwritten::Failed(why) => why,
        Unwritten::Changed => {
            format!("{} changed meanwhile; it was left as it is. Try again.", found.path.display())
        }
    })
}

/// What a person does or knows, once the file is written.
const fn note(client: Client) -> &'static str {
    match client {
        Client::Claude => "Start Claude Code anew, or look at /hooks in it.",
        Client::Cursor => "Cursor takes it up by itself; keep the file out of version control.",
        Client::Codex => {
            "Codex calls it once you trusted it: start Codex here and look at /hooks. Keep the \
             file out of version control."
        }
    }
}

fn told_of_script(meant: &Meant, place: &script::Place, done: Done) -> Told {
    let mut notes = Vec::new();
    if place.has_before() {
        notes.push("The hook that was there goes first.".to_owned());
    }
    if matches!(&meant.hooks, Some((_, true))) {
        notes.push(
            "`core.hooksPath` names this folder: every repository that it is set for has the hook."
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
    if matches!(done, Done::Removed | Done::Absent) {
        notes.clear();
    }
    Told { kind: Kind::Git, path: place.path.clone(), change, notes }
}

pub(super) async fn uninstall(
    which: &WhichArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut meant = meant(which)?;
    if !meant.is_named {
        // All there are, whatever folders there are.
        meant.kinds = meant.hooks.iter().map(|_| Kind::Git).collect();
        meant.kinds.extend(Client::ALL.map(Kind::Agent));
    }
    let data = &config.data.value;
    let _ours = files::lock(data).await.map_err(Failure::local)?;
    let mut ledger = Ledger::read(data).map_err(Failure::local)?;
    let mut all = Vec::new();
    for kind in &meant.kinds {
        let told = match kind {
            Kind::Git => {
                let place = meant.script()?;
                let done = place.uninstall()?;
                told_of_script(&meant, &place, done)
            }
            Kind::Agent(client) => {
                take_back(*client, &meant.file(*client), data, &mut ledger).await?
            }
        };
        if meant.is_named || told.change != "absent" {
            all.push(told);
        }
    }
    say(&all, output)
}

async fn take_back(
    client: Client,
    path: &Path,
    data: &Path,
    ledger: &mut Ledger,
) -> Result<Told, Failure> {
    let told = |change| Told {
        kind: Kind::Agent(client),
        path: path.to_owned(),
        change,
        notes: Vec::new(),
    };
    let found = files::read(path).map_err(Failure::local)?;
    let Some(text) = found.text.as_deref() else {
        ledger.forget(path);
        ledger.write(data).map_err(Failure::local)?;
        return Ok(told("absent"));
    };
    let _theirs = match found.path.parent() {
        Some(folder) => Some(files::lock(folder).await.map_err(Failure::local)?),
        None => None,
    };
    let page = ledger.page(path).cloned().unwrap_or_default();
    let taken = settings::take(client, &page.made, text).map_err(|why| unfit(path, &why))?;
    let Some(taken) = taken else { return Ok(told("absent")) };
    let after = match ledger.before(path, text) {
        Some(before) => before,
        None => (!(page.is_created && settings::is_empty(&taken))).then_some(taken),
    };
    match &after {
        Some(after) => {
            back_up(data, &found.path, text, clock::wall_ms()).map_err(Failure::local)?;
            replace(&found, after)?;
        }
        None => {
            files::remove(&found).map_err(|why| unwritten(&found, why))?;
            // A folder that nothing else is in was made for it.
            if let Some(folder) = path.parent() {
                drop(std::fs::remove_dir(folder));
            }
        }
    }
    ledger.forget(path);
    ledger.write(data).map_err(Failure::local)?;
    Ok(told(if after.is_none() { "removed" } else { "changed" }))
}

fn say(all: &[Told], output: &mut Output) -> Result<(), Failure> {
    output.answer(
        || {
            let one = |it: &Told| {
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
                out += "There is no hook of Tasuki here; nothing was changed.\n";
            }
            for it in all {
                let (title, path) = (it.kind.title(), it.path.display());
                writeln!(out, "{}  {} {path}", title.bold(), it.change)
                    .expect("a String takes everything");
                for note in &it.notes {
                    writeln!(out, "  {note}").expect("a String takes everything");
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
    /// What it calls; `None`: it is not there.
    command: Option<String>,
    /// Why it cannot be told, or does not work.
    problem: Option<String>,
}

pub(super) fn status(
    which: &WhichArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut meant = meant(which)?;
    if !meant.is_named {
        meant.kinds = meant.hooks.iter().map(|_| Kind::Git).collect();
        meant.kinds.extend(Client::ALL.map(Kind::Agent));
    }
    let mut all = Vec::new();
    for kind in &meant.kinds {
        all.push(match kind {
            Kind::Git => state_of_script(&meant.script()?),
            Kind::Agent(client) => state_of_file(*client, meant.file(*client)),
        });
    }
    let fail = format!("{:?}", config.hook_fail.value).to_lowercase();
    let repository = &meant.repository;
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
                writeln!(out, "{}  {is_there}  {path}", title.bold())
                    .expect("a String takes everything");
                for more in it.command.iter().chain(&it.problem) {
                    writeln!(out, "  {}", line(more)).expect("a String takes everything");
                }
            }
            writeln!(out, "hook_fail is {fail}, where a hook does not say otherwise")
                .expect("a String takes everything");
            out
        },
    )
}

fn state_of_script(place: &script::Place) -> State {
    let state = |command, problem: Option<String>| State {
        kind: Kind::Git,
        path: place.path.clone(),
        command,
        problem,
    };
    match place.look() {
        Ok(There::Nothing) => state(None, None),
        Ok(There::Others) if place.has_before() => {
            state(None, Some("Another hook took the place of ours.".to_owned()))
        }
        Ok(There::Others) => {
            state(None, Some("There is another hook, which would stay.".to_owned()))
        }
        Ok(There::Ours(text)) => {
            let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
            let program = line("tasuki=").unwrap_or_default();
            let command = format!("{program}{}", line("exec \"$tasuki\"").unwrap_or_default());
            let problem = gone(&command);
            state(Some(command), problem)
        }
        Err(why) => state(None, Some(why.to_string())),
    }
}

fn state_of_file(client: Client, path: PathBuf) -> State {
    let kind = Kind::Agent(client);
    let told = files::read(&path).and_then(|found| match &found.text {
        None => Ok(None),
        Some(text) => settings::command(client, text),
    });
    match told {
        Ok(command) => {
            let problem = command.as_deref().and_then(gone);
            State { kind, path, command, problem }
        }
        Err(why) => State { kind, path, command: None, problem: Some(why) },
    }
}

/// Says that the program of a command is not there.
fn gone(command: &str) -> Option<String> {
    let program = match command.strip_prefix('\'') {
        Some(rest) => rest.split('\'').next().unwrap_or_default(),
        None => command.split(' ').next().unwrap_or_default(),
    };
    // A name with a quote in it is not taken apart.
    let is_plain = !command.contains("'\\''");
    let is_gone = is_plain && !Path::new(program).exists();
    is_gone.then(|| format!("{program} is gone; install the hook again."))
}
