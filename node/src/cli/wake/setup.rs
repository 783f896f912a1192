//! `tasuki wake setup` and `tasuki wake remove`.

use std::path::{Path, PathBuf};

use http::Uri;
use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::id::RoleId;

use super::status::parse;
use crate::{
    agent_tokens::Bearing,
    cli::{
        Failure, Output,
        client_files::{
            Installer, Part, Target,
            document::{Document, EditError, Format, Value},
            file_io::{self, NewMode},
            hook_list::{HOOKS, HookPlace, take_version},
            install_log::{Added, Applied},
            program,
        },
        node_address, role_args,
        text::{line, word},
    },
    config::Config,
    hooks::command::look_up,
    mcp::ask,
    repository::Repository,
    wake::{
        adapters::{Adapter, Adapters},
        client::{
            ANSWER_SECS, CURSOR_LOOPS_MAX, END_SECS, HookClient, HookEvent, HookRow, WAIT_SECS,
        },
    },
};

/// The owner of these hooks in the log of what was installed.
const OWNER: &str = "wake";

const ROLES_HINT: &str = "`tasuki status` shows the roles";

/// What can be set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Client {
    /// Claude Code, by hooks
    ClaudeCode,
    /// Codex, by hooks and its queue
    Codex,
    /// Cursor, by hooks
    Cursor,
    /// opencode, through its server
    Opencode,
    /// Any client in a pane of tmux, by typing a line into it: the last resort
    Tmux,
}

/// Whose file of hooks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Scope {
    /// The project's
    #[default]
    Project,
    /// This user's, for all projects
    User,
}

/// Whose hooks, and where.
#[derive(Debug, clap::Args)]
#[group(skip)]
struct Place {
    /// Client to set up
    #[arg(value_enum)]
    client: Client,
    /// Role that the client plays [default: this machine's only role]
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleId>,
    /// Whose file of hooks
    #[arg(long, value_enum, default_value_t)]
    scope: Scope,
    /// Project directory [default: this directory]
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct SetupArgs {
    #[command(flatten)]
    place: Place,
    /// Print what would be written, and change nothing
    #[arg(long)]
    print: bool,
    /// Address of opencode's server on this machine, such as http://127.0.0.1:4096
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Session of opencode [default: the one that was used last]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Pane of tmux [default: the one that this runs in]
    #[arg(long, value_name = "PANE")]
    pane: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    place: Place,
}

impl Client {
    const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Opencode => "opencode",
            Self::Tmux => "tmux",
        }
    }

    /// Its hooks, where it has any.
    const fn hooks(self) -> Option<HookClient> {
        match self {
            Self::ClaudeCode => Some(HookClient::Claude),
            Self::Codex => Some(HookClient::Codex),
            Self::Cursor => Some(HookClient::Cursor),
            Self::Opencode | Self::Tmux => None,
        }
    }

    /// Whether the node pushes to it.
    const fn is_pushed(self) -> bool {
        matches!(self, Self::Codex | Self::Opencode | Self::Tmux)
    }

    /// What a person does or knows once it is set up.
    const fn note(self) -> &'static str {
        match self {
            Self::ClaudeCode => {
                "Restart Claude Code, or check /hooks in it. From the end of its first turn on it is \
                 woken by what comes."
            }
            Self::Codex => {
                "Codex says that hooks need review when it starts next, and calls none before: press 2 \
                 to trust all. Its conversation is known from its first call on."
            }
            Self::Cursor => {
                "Cursor picks the hooks up by itself. They tell it at the end of a turn; nothing wakes \
                 it while it is idle."
            }
            Self::Opencode => {
                "The running node sends a prompt to its session when something comes."
            }
            Self::Tmux => {
                "The running node types a line and Enter into the pane when something comes, unless \
                 the pane shows a shell."
            }
        }
    }
}

/// The hooks of one client, for a role.
struct Hooks {
    client: HookClient,
    /// Each with the command that it calls, as a shell takes it.
    commands: Vec<(HookRow, String)>,
}

impl Hooks {
    fn new(client: HookClient, role: Option<&RoleId>, config: &Config) -> Result<Self, Failure> {
        let one = |row: &HookRow| {
            let words = hook_words(client, row.event);
            let words: Vec<&str> = words.split(' ').collect();
            let mut command = program::command(config, &words)?;
            if let Some(role) = role {
                command.extend(["--as".to_owned(), role.to_string()]);
            }
            let command: Vec<String> = command.iter().map(|it| word(it)).collect();
            Ok((*row, command.join(" ")))
        };
        let commands = client.rows().iter().map(one).collect::<Result<_, Failure>>()?;
        Ok(Self { client, commands })
    }

    fn apply(&self, document: &mut Document) -> Result<Applied, EditError> {
        let mut all = Applied::default();
        for (row, command) in &self.commands {
            let one = place(self.client, *row).put(&entry(self.client, *row, command), document)?;
            all.changed.extend(one.changed);
            all.made.extend(one.made);
            all.added.extend(one.added);
        }
        Ok(all)
    }
}

/// Ours in a client's file, to be taken out.
impl Part for HookClient {
    fn is_in(&self, document: &Document) -> bool {
        let is_there =
            |row: &HookRow| !place(*self, *row).command(document).is_ok_and(|it| it.is_none());
        self.rows().iter().any(is_there)
    }

    fn withdraw(
        &self,
        path: &Path,
        document: &mut Document,
        added: &[Added],
    ) -> Result<Vec<String>, Failure> {
        let mut take = || {
            let mut changed = Vec::new();
            for row in self.rows() {
                changed.extend(place(*self, *row).take(document)?);
            }
            take_version(document, added)?;
            Ok(changed)
        };
        take().map_err(|why: EditError| why.at(path))
    }
}

/// The words by which our command for an event is known.
fn hook_words(client: HookClient, event: HookEvent) -> String {
    let event = clap::ValueEnum::to_possible_value(&event);
    let event = event.map(|it| it.get_name().to_owned()).unwrap_or_default();
    format!("wake hook {event} --client {}", client.name())
}

fn place(client: HookClient, row: HookRow) -> HookPlace {
    let words = vec![format!(" {}", hook_words(client, row.event))];
    HookPlace { event: row.list, is_flat: client == HookClient::Cursor, words }
}

fn entry(client: HookClient, row: HookRow, command: &str) -> Value {
    let command = ("command", Value::text(command));
    let matcher = row.matcher.map(|it| ("matcher", Value::text(it)));
    if client == HookClient::Cursor {
        let is_stop = row.event == HookEvent::Stop;
        let limit = is_stop.then_some(("loop_limit", Value::Number(CURSOR_LOOPS_MAX)));
        return Value::table([command].into_iter().chain(limit));
    }
    let is_wait = row.event == HookEvent::Wait;
    let secs = match row.event {
        HookEvent::Wait => WAIT_SECS,
        HookEvent::SessionEnd => END_SECS,
        HookEvent::SessionStart
        | HookEvent::Prompt
        | HookEvent::Tool
        | HookEvent::Stop
        | HookEvent::Failure => ANSWER_SECS,
    };
    let timeout = ("timeout", Value::Number(secs));
    let behind = [("async", Value::Yes), ("asyncRewake", Value::Yes)];
    let behind = behind.into_iter().filter(|_| is_wait);
    let hook = [("type", Value::text("command")), command, timeout].into_iter().chain(behind);
    let hooks = (HOOKS, Value::List(vec![Value::table(hook)]));
    Value::table(matcher.into_iter().chain([hooks]))
}

impl Place {
    fn target(&self, client: HookClient) -> Result<(Target, Option<PathBuf>), Failure> {
        let (path, root) = match self.scope {
            Scope::Project => {
                let directory = self.dir.clone().unwrap_or_else(|| PathBuf::from("."));
                let repository = Repository::find(&directory);
                let repository = repository.map_err(|why| Failure::local(format!("{why}.")))?;
                let root = repository.root().to_owned();
                let file = match client {
                    HookClient::Claude => ".claude/settings.local.json",
                    HookClient::Codex => ".codex/hooks.json",
                    HookClient::Cursor => ".cursor/hooks.json",
                };
                (root.join(file), Some(root))
            }
            Scope::User => (user_file(client)?, None),
        };
        Ok((Target { path, format: Format::Json, mode: NewMode::Usual }, root))
    }
}

/// A user's file of hooks, for all projects.
pub(super) fn user_file(client: HookClient) -> Result<PathBuf, Failure> {
    let (variable, directory, file) = match client {
        HookClient::Claude => ("CLAUDE_CONFIG_DIR", ".claude", "settings.json"),
        HookClient::Codex => ("CODEX_HOME", ".codex", "hooks.json"),
        HookClient::Cursor => ("", ".cursor", "hooks.json"),
    };
    let set = Some(variable).filter(|it| !it.is_empty()).and_then(std::env::var_os);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(directory));
    let at = set.filter(|it| !it.is_empty()).map(PathBuf::from).or_else(home);
    let at = at.ok_or_else(|| Failure::usage("HOME is not set. Use --scope project."))?;
    Ok(at.join(file))
}

/// What was done, or would be.
#[derive(Default)]
struct Report {
    files: Vec<(PathBuf, &'static str)>,
    notes: Vec<String>,
}

pub(super) async fn setup(
    args: &SetupArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = args.place.client;
    let role = role_args::role(args.place.role.as_ref(), config, ROLES_HINT)?;
    let mut report = Report::default();
    // What is refused is refused before anything is written.
    let adapter = if client.is_pushed() { adapter(args, &mut report)? } else { None };
    if let Some(hooks) = client.hooks() {
        let hooks = Hooks::new(hooks, Some(&role), config)?;
        let (target, root) = args.place.target(hooks.client)?;
        if args.print {
            let mut document =
                Document::parse(Format::Json, "").map_err(|why| why.at(&target.path))?;
            hooks.apply(&mut document).map_err(|why| why.at(&target.path))?;
            output.note(&format!("For {}:", target.path.display()));
            output.raw(&document.text())?;
        } else {
            if let Some(root) = root {
                file_io::refuse_link(&root, &target.path).map_err(Failure::local)?;
            }
            let mut installer = Installer::open(&config.data.value, OWNER).await?;
            let apply = |path: &Path, document: &mut Document, _: bool| {
                hooks.apply(document).map_err(|why| why.at(path))
            };
            let written = installer.install(&target, &apply).await?;
            report.files.push((written.path.clone(), written.change()));
        }
    }
    if let Some(adapter) = adapter {
        if args.print {
            output.note(&format!(
                "For {}, role {role}:",
                Adapters::path(&config.data.value).display()
            ));
            output.raw(&format!("{}\n", json!(adapter)))?;
        } else {
            change_adapters(config, &mut report, |all| all.set(&role, adapter)).await?;
        }
    }
    if args.print {
        return Ok(());
    }
    report.notes.push(client.note().to_owned());
    report.notes.push(format!("Try it: tasuki wake test {role}"));
    print(client, Some(&role), &report, output)
}

pub(super) async fn remove(
    args: &RemoveArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = args.place.client;
    let mut report = Report::default();
    if let Some(hooks) = client.hooks() {
        let (target, _) = args.place.target(hooks)?;
        let mut installer = Installer::open(&config.data.value, OWNER).await?;
        let restored = installer.uninstall(&target, &hooks).await?;
        report.files.push((target.path, restored.map_or("absent", |it| it.change())));
    }
    if client.is_pushed() {
        let role = args.place.role.as_ref();
        change_adapters(config, &mut report, |all| all.remove(client.name(), role)).await?;
    }
    print(client, args.place.role.as_ref(), &report, output)
}

/// How the node is to push; `None`: it is not, and the report says why.
fn adapter(args: &SetupArgs, report: &mut Report) -> Result<Option<Adapter>, Failure> {
    let program = |name: &str| look_up(name, std::env::var_os("PATH").as_deref());
    Ok(Some(match args.place.client {
        Client::Codex => match program("codex") {
            Ok(program) => {
                let home = std::env::var_os("CODEX_HOME").filter(|it| !it.is_empty());
                Adapter::Codex { program, home: home.map(PathBuf::from) }
            }
            Err(_) => {
                report.notes.push(
                    "No program `codex` is in PATH, so nothing is put into its queue: its hooks tell \
                     it at the end of a turn alone."
                        .to_owned(),
                );
                return Ok(None);
            }
        },
        Client::Opencode => {
            let url = args.url.as_deref().ok_or_else(|| {
                Failure::usage(
                    "Specify --url, the address of opencode's server: start it with `opencode --port \
                     4096` and use http://127.0.0.1:4096.",
                )
            })?;
            let session = args.session.clone();
            Adapter::Opencode { url: loopback(url)?, session }
        }
        Client::Tmux => {
            let (pane, socket) = pane(args.pane.as_deref())?;
            let program = program("tmux").map_err(|why| Failure::local(format!("tmux {why}.")))?;
            Adapter::Tmux { program, pane, socket }
        }
        Client::ClaudeCode | Client::Cursor => return Ok(None),
    }))
}

/// A server of this machine's: whoever else listened would be told what waits.
fn loopback(url: &str) -> Result<String, Failure> {
    let uri = url.parse::<Uri>().ok().filter(|uri| uri.scheme_str() == Some("http"));
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if !is_here {
        return Err(Failure::usage(format!(
            "--url is {}; it takes an address on this machine, such as http://127.0.0.1:4096.",
            line(url)
        )));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// The pane, and the socket of the server that this runs in.
fn pane(given: Option<&str>) -> Result<(String, Option<PathBuf>), Failure> {
    let around = std::env::var("TMUX_PANE").ok();
    let pane = given.map(str::to_owned).or(around).ok_or_else(|| {
        Failure::usage(
            "Specify --pane, or run this in the pane: `tmux list-panes -a` lists them, each begins \
             with %.",
        )
    })?;
    let is_pane = pane.strip_prefix('%').is_some_and(|it| it.parse::<u32>().is_ok());
    if !is_pane {
        let pane = line(&pane);
        return Err(Failure::usage(format!("--pane is {pane}; it takes an id such as %3.")));
    }
    // SOCKET,PID,SESSION
    let server = std::env::var("TMUX").ok();
    let socket = server.as_deref().and_then(|it| it.split(',').next()).filter(|it| !it.is_empty());
    Ok((pane, socket.map(PathBuf::from)))
}

async fn change_adapters(
    config: &Config,
    report: &mut Report,
    change: impl FnOnce(&mut Adapters) -> bool,
) -> Result<(), Failure> {
    let data = &config.data.value;
    let path = Adapters::path(data);
    let _ours = file_io::lock(data).await.map_err(Failure::local)?;
    let failed = |why: std::io::Error| Failure::local(format!("{}: {why}.", path.display()));
    let mut all = Adapters::read(&path).map_err(failed)?;
    let is_new = !path.exists();
    let is_changed = change(&mut all);
    if is_changed {
        all.write(&path).map_err(failed)?;
    }
    let change = match (is_changed, is_new) {
        (false, _) => "unchanged",
        (true, true) => "created",
        (true, false) => "changed",
    };
    report.files.push((path.clone(), change));
    if is_changed && let Some(problem) = reload(config).await {
        report.notes.push(problem);
    }
    Ok(())
}

/// Tells the running node; without one the next node reads it.
async fn reload(config: &Config) -> Option<String> {
    let node = config.running_node()?;
    let node = node_address::local(node, &config.data.value, &Bearing::Node);
    match ask::post(&node, "/wake").await {
        Ok(told) => parse(told).into_iter().find_map(|it| it.problem),
        Err(why) => Some(format!("The running node was not told: {why}. Restart it.")),
    }
}

fn print(
    client: Client,
    role: Option<&RoleId>,
    report: &Report,
    output: &mut Output,
) -> Result<(), Failure> {
    output.answer(
        || {
            let file = |(path, change): &(PathBuf, &str)| {
                json!({ "path": path.to_string_lossy(), "change": change })
            };
            json!({
                "client": client.name(), "role": role.map(RoleId::as_str),
                "files": report.files.iter().map(file).collect::<Vec<_>>(), "notes": report.notes,
            })
        },
        || {
            let mut out = String::new();
            for (path, change) in &report.files {
                out += &format!("{}  {change} {}\n", client.name().bold(), path.display());
            }
            for note in &report.notes {
                out += &format!("  {note}\n");
            }
            out
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::client_files::remove_empty;

    fn hooks(client: HookClient, role: &str) -> Hooks {
        let command = |row: &HookRow| {
            (*row, format!("/opt/tasuki {} --as {role}", hook_words(client, row.event)))
        };
        Hooks { client, commands: client.rows().iter().map(command).collect() }
    }

    fn parsed(text: &str) -> Document {
        Document::parse(Format::Json, text).unwrap()
    }

    #[test]
    fn claude_code_gets_a_hook_that_waits_behind_its_idle_session() {
        let mut document = parsed("");
        hooks(HookClient::Claude, "B").apply(&mut document).unwrap();
        let stop = document.list(&["hooks".to_owned(), "Stop".to_owned()]).unwrap();
        assert_eq!(
            stop,
            [
                json!({ "hooks": [{
                    "type": "command", "timeout": 10,
                    "command": "/opt/tasuki wake hook stop --client claude --as B",
                }] }),
                json!({ "hooks": [{
                    "type": "command", "timeout": 86_400, "async": true, "asyncRewake": true,
                    "command": "/opt/tasuki wake hook wait --client claude --as B",
                }] }),
            ]
        );
        let mut document = parsed("");
        hooks(HookClient::Cursor, "B").apply(&mut document).unwrap();
        let told = document.get(&[]).unwrap().unwrap();
        assert_eq!(told["version"], 1);
        assert_eq!(
            told["hooks"]["stop"],
            json!([{
                "command": "/opt/tasuki wake hook stop --client cursor --as B", "loop_limit": 10,
            }])
        );
    }

    #[test]
    fn hooks_come_and_go_and_others_stay() {
        for client in HookClient::ALL {
            let list = client.rows()[0].list;
            for before in [
                "{\n  // mine\n  \"model\": \"m\",\n}\n".to_owned(),
                format!("{{\"version\": 1, \"hooks\": {{\"{list}\": [{{\"command\": \"x\"}}]}}}}"),
                format!(
                    "{{\"hooks\": {{\"Stop\": [{{\"hooks\": [{{\"type\": \"command\", \"command\": \
                     \"tasuki wake hooked\"}}]}}], \"{list}\": []}}, \"version\": 1}}"
                ),
            ] {
                let mut document = parsed(&before);
                let done = hooks(client, "A").apply(&mut document).unwrap();
                assert!(hooks(client, "A").apply(&mut document).unwrap().changed.is_empty());
                hooks(client, "B").apply(&mut document).unwrap();
                let with = document.text();
                assert!(with.contains("--as B") && !with.contains("--as A"), "{with}");
                assert!(client.is_in(&document));
                client.withdraw(Path::new("f"), &mut document, &done.added).unwrap();
                remove_empty(&mut document, done.made).unwrap();
                assert!(!client.is_in(&document));
                assert_eq!(document.get(&[]).unwrap(), parsed(&before).get(&[]).unwrap());
                assert_eq!(document.text().contains("// mine"), before.contains("// mine"));
            }
        }
    }

    #[test]
    fn only_this_machine_is_prompted_and_only_a_pane_is_typed_into() {
        for good in ["http://127.0.0.1:4096/", "http://localhost:1", "http://[::1]:4096"] {
            assert!(loopback(good).is_ok_and(|it| !it.ends_with('/')), "{good}");
        }
        for bad in
            ["http://example.com", "https://127.0.0.1:1", "127.0.0.1:4096", "http://10.0.0.1"]
        {
            assert!(loopback(bad).is_err(), "{bad}");
        }
        assert_eq!(pane(Some("%3")).unwrap().0, "%3");
        for bad in ["3", "%", "%x", "main:1.0", "%1;x"] {
            assert!(pane(Some(bad)).is_err(), "{bad}");
        }
    }
}
