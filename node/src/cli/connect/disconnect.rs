//! `tasuki disconnect`: takes back what `tasuki connect` wrote.

use std::path::{Path, PathBuf};

use tasuki_proto::id::RoleId;

use super::{
    ATTEMPTS_MAX, Of, around,
    book::{Before, Book, back_up},
    busy,
    document::{Document, Format},
    entry,
    files::{self, Found, Unwritten},
    forget_backup,
    place::Around,
    plan::{self, Added},
    refused, unfit, wish, words,
};
use crate::{
    cli::{Failure, Output},
    clock,
    config::Config,
};

/// Disconnect a coding agent: undo `tasuki connect`.
///
/// Whatever else is in the client's files stays. Nothing happens where nothing is to be done.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: Of,
    /// Only if it plays this role [default: whichever it plays]
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleId>,
}

/// What happened to one file.
#[derive(Debug)]
pub(super) struct Taken {
    pub path: PathBuf,
    /// The keys that were taken out, for people.
    pub changed: Vec<String>,
    pub is_removed: bool,
    pub backup: Option<PathBuf>,
}

/// One file and what of it may be ours.
struct Target {
    path: PathBuf,
    format: Format,
    /// Where the entry is, in the file that has it.
    entry: Option<Vec<String>>,
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let around = around()?;
    let Of { client, scope, name } = &args.of;
    let role = args.role.as_ref();
    wish::check_name(name)?;
    wish::check_scope(*client, *scope)?;
    let targets = targets(&args.of, &around);
    if targets.is_empty() {
        return words::by_hand(*client, name, output);
    }
    let data = &config.data.value;
    let _ours = files::lock(data).await.map_err(Failure::local)?;
    let mut book = Book::read(data).map_err(Failure::local)?;
    let mut all = Vec::new();
    for target in &targets {
        // Each file is looked at before the first is changed.
        look(target, name, role, &book)?;
    }
    for target in &targets {
        if let Some(taken) = take_back(target, name, role, data, &mut book).await? {
            all.push(taken);
        }
    }
    words::disconnected(*client, name, &all, output)
}

fn targets(of: &Of, around: &Around) -> Vec<Target> {
    let keys = vec![of.client.table().to_owned(), of.name.clone()];
    let others = around.other_servers(of.client, of.scope);
    let servers = around.servers(of.client, of.scope).into_iter().chain(others);
    let entry = Some(keys);
    let servers =
        servers.map(|path| Target { path, format: of.client.format(), entry: entry.clone() });
    let permissions = around.permissions(of.client, of.scope);
    let permissions = permissions.map(|path| Target { path, format: Format::Json, entry: None });
    servers.chain(permissions).collect()
}

/// A file as it is and as it shall be.
struct Looked {
    found: Found,
    /// `None`: the file goes.
    after: Option<String>,
    changed: Vec<String>,
    /// Of the tables that connecting made, those still there; `None`: the file is as it was.
    left: Option<Vec<Vec<String>>>,
}

/// `None`: nothing of ours is there.
fn look(
    target: &Target,
    name: &str,
    role: Option<&RoleId>,
    book: &Book,
) -> Result<Option<Looked>, Failure> {
    let found = files::read(&target.path).map_err(Failure::local)?;
    let Some(text) = found.text.as_deref() else { return Ok(None) };
    let parsed = Document::parse(target.format, text);
    let mut document = parsed.map_err(|why| unfit(&found.path, &why))?;
    let page = book.page(&target.path);
    let added: &[Added] =
        page.and_then(|page| page.entries.get(name)).map(Vec::as_slice).unwrap_or_default();
    if let (Some(keys), Some(role)) = (&target.entry, role) {
        let there = document.get(keys).map_err(|why| unfit(&found.path, &why))?;
        let ours = there.as_ref().and_then(entry::ours);
        if let Some(ours) = ours
            && ours.role != role.as_str()
        {
            return Err(Failure::local(format!(
                "`{}` in {} connects role {}, not {role}. Say which entry with --name.",
                keys.join("."),
                found.path.display(),
                ours.role
            )));
        }
    }
    let changed = plan::withdraw(&mut document, target.entry.as_deref(), added)
        .map_err(|why| refused(&found.path, &why, name))?;
    if changed.is_empty() {
        return Ok(None);
    }
    if let Some(before) = book.before(&target.path, name, text).filter(|it| is_without(it, target))
    {
        let after = match before {
            Before::Missing => None,
            Before::Text(text) => Some(text),
        };
        return Ok(Some(Looked { found, after, changed, left: None }));
    }
    let mut left = page.map(|page| page.made.clone()).unwrap_or_default();
    left.sort_by_key(|keys| std::cmp::Reverse(keys.len()));
    let mut kept = Vec::new();
    for keys in left {
        if document.is_empty(&keys) {
            document.remove(&keys).map_err(|why| unfit(&found.path, &why))?;
        } else {
            kept.push(keys);
        }
    }
    let is_ours = page.is_some_and(|page| page.created);
    let is_gone = is_ours && document.is_empty(&[]);
    let after = (!is_gone).then(|| document.text());
    Ok(Some(Looked { found, after, changed, left: Some(kept) }))
}

/// Whether a file as it was had no entry of ours: what connecting did may not have been noted.
fn is_without(before: &Before, target: &Target) -> bool {
    let (Before::Text(text), Some(keys)) = (before, &target.entry) else { return true };
    let there = Document::parse(target.format, text).and_then(|document| document.get(keys));
    there.is_ok_and(|there| there.as_ref().and_then(entry::ours).is_none())
}

async fn take_back(
    target: &Target,
    name: &str,
    role: Option<&RoleId>,
    data: &Path,
    book: &mut Book,
) -> Result<Option<Taken>, Failure> {
    for _ in 0..ATTEMPTS_MAX {
        let real = files::read(&target.path).map_err(Failure::local)?;
        let directory = real.path.parent().filter(|_| real.text.is_some());
        let _theirs = match directory {
            Some(directory) => Some(files::lock(directory).await.map_err(Failure::local)?),
            None => None,
        };
        let Some(Looked { found, after, changed, left }) = look(target, name, role, book)? else {
            if book.page(&target.path).is_some_and(|page| page.entries.contains_key(name)) {
                book.forget(&target.path, name, None);
                book.write(data).map_err(Failure::local)?;
            }
            return Ok(None);
        };
        let text = found.text.as_deref().unwrap_or_default();
        // A file that is only ours is no loss.
        let backup = match &after {
            None => None,
            Some(_) => {
                let now = clock::wall_ms();
                Some(back_up(data, &found.path, text, now).map_err(Failure::local)?)
            }
        };
        let done = match &after {
            None => files::remove(&found),
            Some(after) => files::replace(&found, after, false),
        };
        match done {
            Ok(()) => {
                book.forget(&target.path, name, left);
                book.write(data).map_err(Failure::local)?;
                let path = target.path.clone();
                let is_removed = after.is_none();
                return Ok(Some(Taken { path, changed, is_removed, backup }));
            }
            Err(Unwritten::Failed(why)) => {
                forget_backup(backup.as_deref());
                return Err(Failure::local(why));
            }
            Err(Unwritten::Changed) => forget_backup(backup.as_deref()),
        }
    }
    Err(busy(&target.path))
}
