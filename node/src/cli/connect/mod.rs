//! `tasuki connect` and `tasuki disconnect`: a coding agent's own configuration, written for it.
//!
//! `client` knows the clients, `place` where their files are, `document` how to change a file in
//! places, `plan` what to change, `files` how to replace a file, `book` how to take it back,
//! `configured` what clients are connected by now.
//!
//! - **K1** What others wrote in a file stays, and a file that cannot be read is not touched.
//! - **K2** Connecting twice is connecting once: the second time nothing is written.
//! - **K3** Disconnecting takes out what connecting put in, and nothing else.
//! - **K4** Every text that is replaced is kept in the data directory first.

pub(in crate::cli) mod book;
mod client;
pub(in crate::cli) mod configured;
mod disconnect;
mod document;
mod entry;
pub(in crate::cli) mod files;
mod place;
mod plan;
pub(in crate::cli) mod program;
mod wish;
mod words;

use std::path::{Path, PathBuf};

use tasuki_proto::id::RoleId;

use self::{
    book::{Book, Done},
    client::{Client, Scope, Transport},
    document::{Document, Unfit},
    files::{Found, Unwritten},
    place::Around,
    plan::{Applied, FilePlan, Refused},
    wish::{Asked, World},
};
use super::{
    Failure, Flags, Output,
    reach::{Given, Shown},
};
use crate::{
    clock,
    config::{Config, Key},
    paths::NodeFile,
};

pub(super) use self::disconnect::{Args as DisconnectArgs, run as disconnect};

/// Connect a coding agent: write its MCP configuration.
///
/// This also raises the client's time limit of calls. Other entries and comments stay, the file
/// before is kept, and a second time changes nothing. `tasuki disconnect` takes it back. Two roles in
/// one client need two names.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: Of,
    /// The role it plays [default: the node's only one]
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleId>,
    /// How the client reaches the node [default: stdio if the node is guarded, else http]
    #[arg(long, value_enum)]
    transport: Option<Transport>,
    #[command(flatten)]
    given: Given,
    /// How long one waiting call is held open, in seconds [default: by the table of clients]
    #[arg(long, value_name = "SECONDS")]
    hold: Option<String>,
    /// Let the client run our tools without asking each time
    #[arg(long)]
    allow: bool,
    /// Replace an entry of this name that is somebody else's or another role's
    #[arg(long)]
    force: bool,
    /// Print what would be written and where, and write nothing
    #[arg(long)]
    print: bool,
}

/// Which entry of which client.
#[derive(Debug, clap::Args)]
struct Of {
    /// The coding agent
    #[arg(value_enum)]
    client: Client,
    /// Where it holds: for this user everywhere, or for the project in this directory
    #[arg(long, value_enum, default_value = "user")]
    scope: Scope,
    /// What the client calls this server
    #[arg(long, value_name = "NAME", default_value = "tasuki")]
    name: String,
}

impl Args {
    pub(super) fn flags(&self, flags: &mut Flags) {
        flags.set(Key::Hold, "--hold", self.hold.as_ref());
    }
}

/// What happened to one file.
#[derive(Debug)]
struct Written {
    path: PathBuf,
    applied: Applied,
    is_new: bool,
    backup: Option<PathBuf>,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let around = around()?;
    let program = program::path(&around.directory)
        .map_err(|why| Failure::local(format!("Cannot find this program's own path: {why}.")))?;
    let running = NodeFile::read(&config.data.value);
    let shown = Shown::of_process(None);
    let world = World { config, running, around: &around, program: &program, shown: &shown };
    let mut asked = wish::asked(&args, &world)?;
    asked.ask_for_tools().await;
    let (plans, note) = plan::plan(&asked.wish, &around);
    if args.print || plans.iter().any(|plan| plan.path.is_none()) {
        return words::print(&asked, &plans, note, output);
    }
    let is_project = asked.wish.scope == Scope::Project && around.directory != around.home;
    let paths = plans.iter().filter_map(|plan| plan.path.as_deref());
    for path in paths.filter(|path| is_project && path.starts_with(&around.directory)) {
        files::refuse_link(&around.directory, path).map_err(Failure::local)?;
    }
    if let Some((path, token)) = &asked.keep {
        let kept = crate::paths::replace(path, token.expose().as_bytes());
        kept.map_err(|why| {
            Failure::local(format!("{} cannot be written: {why}.", path.display()))
        })?;
    }
    let written = connect(&asked, &plans, args.force, &config.data.value).await?;
    words::connected(&asked, &written, note, output)
}

fn around() -> Result<Around, Failure> {
    let directory = std::env::current_dir()
        .map_err(|why| Failure::local(format!("Cannot find the current directory: {why}.")))?;
    Around::of_process(directory).ok_or_else(|| Failure::local("You have no home directory."))
}

/// A file of somebody else's may change while it is being changed; more often is no coincidence.
const ATTEMPTS_MAX: usize = 5;

/// Applies the plans to their files, all or, as far as can be told before, none.
async fn connect(
    asked: &Asked,
    plans: &[FilePlan],
    force: bool,
    data: &Path,
) -> Result<Vec<Written>, Failure> {
    let _ours = files::lock(data).await.map_err(Failure::local)?;
    let mut book = Book::read(data).map_err(Failure::local)?;
    // What is refused is refused before the first file is written.
    for plan in plans {
        changed(plan, force, asked, &book)?;
    }
    let mut all = Vec::new();
    for plan in plans {
        all.push(write(plan, force, asked, data, &mut book).await?);
    }
    Ok(all)
}

async fn write(
    plan: &FilePlan,
    force: bool,
    asked: &Asked,
    data: &Path,
    book: &mut Book,
) -> Result<Written, Failure> {
    let path = path(plan);
    for _ in 0..ATTEMPTS_MAX {
        let real = files::read(path).map_err(Failure::local)?.path;
        let directory = real.parent().unwrap_or_else(|| Path::new("."));
        let _theirs = files::lock(directory).await.map_err(Failure::local)?;
        let (found, applied, after) = changed(plan, force, asked, book)?;
        let is_new = found.text.is_none();
        let none = Written { path: path.to_owned(), applied, is_new, backup: None };
        if none.applied.changed.is_empty() {
            return Ok(Written { is_new: false, ..none });
        }
        let backup = match &found.text {
            None => None,
            Some(text) => {
                let now = clock::wall_ms();
                Some(book::back_up(data, &found.path, text, now).map_err(Failure::local)?)
            }
        };
        let is_private = asked.wish.scope == Scope::User;
        let before = found.text.as_deref();
        let done =
            Done { applied: &none.applied, before, after: &after, backup: backup.as_deref() };
        // What is noted and did not happen is taken back without harm; the other way round it
        // would stay.
        let unchanged = book.clone();
        book.note(path, &asked.wish.name, done);
        let placed = book.write(data).map_err(Unwritten::Failed);
        match placed.and_then(|()| files::replace(&found, &after, is_private)) {
            Ok(()) => return Ok(Written { backup, ..none }),
            Err(why) => {
                forget_backup(backup.as_deref());
                *book = unchanged;
                let forgotten = book.write(data);
                if let Unwritten::Failed(why) = why {
                    return Err(Failure::local(why));
                }
                forgotten.map_err(Failure::local)?;
            }
        }
    }
    Err(busy(path))
}

/// A backup of what was not replaced is of no use to anybody.
fn forget_backup(backup: Option<&Path>) {
    if let Some(path) = backup
        && let Err(why) = std::fs::remove_file(path)
    {
        tracing::debug!(%why, path = %path.display(), "a backup stays behind");
    }
}

/// The file as it is and as it shall be.
fn changed(
    plan: &FilePlan,
    force: bool,
    asked: &Asked,
    book: &Book,
) -> Result<(Found, Applied, String), Failure> {
    let found = files::read(path(plan)).map_err(Failure::local)?;
    let mut document = parse(plan, &found)?;
    let page = book.page(path(plan));
    let is_noted = page.is_some_and(|page| page.entries.contains_key(&asked.wish.name));
    let applied = plan::apply(plan, &mut document, is_noted, force)
        .map_err(|why| refused(&found.path, &why, &asked.wish.name))?;
    let after = document.text();
    Ok((found, applied, after))
}

fn parse(plan: &FilePlan, found: &Found) -> Result<Document, Failure> {
    let text = found.text.as_deref().unwrap_or_default();
    Document::parse(plan.format, text).map_err(|why| unfit(&found.path, &why))
}

fn path(plan: &FilePlan) -> &Path {
    plan.path.as_deref().expect("plans without a file are printed")
}

fn unfit(path: &Path, why: &Unfit) -> Failure {
    let path = path.display();
    Failure::local(match why {
        Unfit::Malformed { line, why } => {
            format!("{path}:{line}: {why}. The file was left as it is.")
        }
        Unfit::Taken { .. } | Unfit::Twice { .. } => {
            format!("In {path} {why}. The file was left as it is.")
        }
    })
}

fn refused(path: &Path, why: &Refused, name: &str) -> Failure {
    let at = path.display();
    match why {
        Refused::Unfit(why) => unfit(path, why),
        Refused::Theirs { keys } => Failure::local(format!(
            "`{keys}` in {at} is not Tasuki's. Choose another --name, or replace it with --force."
        )),
        Refused::OtherRole { keys, role } => Failure::local(format!(
            "`{keys}` in {at} connects role {role}. Give this one another name, such as --name \
             {name}-2, or replace it with --force."
        )),
    }
}

fn busy(path: &Path) -> Failure {
    Failure::local(format!(
        "{} changes all the time; it was left as it is. Close the client and try again.",
        path.display()
    ))
}

#[cfg(test)]
mod tests;
