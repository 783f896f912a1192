//! Which repository a file belongs to, and what it is called there, the same on every machine.
//!
//! Locks are kept at the broker by repository and path. So two clones of one repository must give
//! one name, whatever their remotes look like and wherever they lie, and no two repositories may
//! share one. `remote` reads addresses, `place` finds work trees, `path` names files, `pattern`
//! writes names as patterns, `base` says which repository is meant, `git` asks the program.
//!
//! - **RP1** Naming runs nothing that a repository's configuration names, and writes nothing.
//! - **RP2** A name is never guessed: where it cannot be told, there is none and a reason.

mod base;
mod changes;
mod git;
mod path;
mod pattern;
mod place;
mod remote;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use parking_lot::Mutex;
use tasuki_proto::{limits::REPOSITORY_BYTES_MAX, wire};

pub use self::{
    base::{Base, Basis, lock_base},
    changes::changes,
    git::NoAnswer,
    pattern::{literal, shown},
    place::is_bare,
};
use self::{place::Place, remote::Remote};

/// Marks the first commit for an identity.
const FIRST_COMMIT: &str = "first-commit:";

/// Marks an identity that no other machine has.
const HERE: &str = "here:";

/// Marks a name that a person gave.
const NAMED: &str = "named:";

/// What a person gives it with: `git config tasuki.repository NAME`.
const SETTING: &str = "tasuki.repository";

/// Clones of clones that are followed to where they came from.
const HOPS_MAX: usize = 4;

/// Identities remembered; a node is asked about a few.
const REMEMBERED_MAX: usize = 256;

/// Directories above a file that is in no repository, in which it is looked for.
const DIRECTORIES_MAX: usize = 32;

/// Of an identity that is too long, the bytes that stay readable.
const READABLE_BYTES: usize = 80;

/// How a repository is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownBy {
    /// A person, who gave it a name in its configuration.
    Person,
    /// Its remote's address.
    Remote,
    /// Its first commit, for it has no remote that others could have, too.
    FirstCommit,
    /// It is this very directory of this machine: no clone of it is known to be one.
    Here,
}

impl KnownBy {
    /// Half a sentence, to follow the name.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Person => "from tasuki.repository of its Git configuration",
            Self::Remote => "from a remote's address",
            Self::FirstCommit => {
                "from the first commit before HEAD, so another root or a remote changes it; \
                 `git config tasuki.repository NAME` in each clone keeps one name"
            }
            Self::Here => {
                "from this directory of this machine, and no other clone has it; \
                 `git config tasuki.repository NAME` in each clone gives them one name"
            }
        }
    }
}

/// A work tree of a repository, or a directory that is in none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    root: PathBuf,
    /// `None`: there is no Git here.
    common: Option<PathBuf>,
    identity: Identity,
    is_case_folded: bool,
}

/// What a repository is called everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    name: String,
    by: KnownBy,
}

/// Why a file has no name.
#[derive(Debug, thiserror::Error)]
pub enum No {
    #[error("{path:?} cannot be named: {why}")]
    Strange { path: String, why: &'static str },
    #[error("{}", outside(.path, .root, Some("repository")))]
    Outside { path: String, root: String },
    #[error("{}", elsewhere(.path, .root, Some("repository")))]
    Elsewhere { path: String, root: String },
    #[error("{0}")]
    Unfit(String),
    #[error("{0:?} is no directory, and no repository's name as a list of locks shows it")]
    Unknown(String),
    #[error(
        "{directory} is outside of {root}, the project that the operator named; ask for a directory in there"
    )]
    Forbidden { directory: String, root: String },
    #[error("{path} cannot be looked at: {why}")]
    Io { path: String, why: io::Error },
    #[error("cannot identify the repository {root}: {why}")]
    Git { root: String, why: NoAnswer },
}

impl No {
    /// The same where `option` names another repository, not the parameter of a tool; `None`:
    /// nothing does.
    pub fn with_option(&self, option: Option<&str>) -> String {
        match self {
            Self::Outside { path, root } => outside(path, root, option),
            Self::Elsewhere { path, root } => elsewhere(path, root, option),
            Self::Strange { .. }
            | Self::Unfit(_)
            | Self::Unknown(_)
            | Self::Forbidden { .. }
            | Self::Io { .. }
            | Self::Git { .. } => self.to_string(),
        }
    }
}

fn outside(path: &str, root: &str, option: Option<&str>) -> String {
    let other = option.map(|it| format!(", or say with `{it}` which other one they are in"));
    let other = other.unwrap_or_default();
    format!("{path} is outside of {root}; name files of that repository{other}")
}

fn elsewhere(path: &str, root: &str, option: Option<&str>) -> String {
    let how = option.map(|it| format!(", with `{it}` = {root:?}")).unwrap_or_default();
    format!("{path} is in another repository, {root}; ask for that one's files by themselves{how}")
}

/// Finds repositories, and remembers what they are called until their configuration changes.
/// Clones share what they remember. All that it does blocks on the disk, and on a call of `git`.
#[derive(Debug, Clone, Default)]
pub struct Repositories(Arc<Mutex<BTreeMap<PathBuf, (Stamp, Identity)>>>);

/// The state of a repository's configuration.
type Stamp = (Option<SystemTime>, u64);

impl Repositories {
    /// The repository that a directory is in; a directory that is in none is one of its own.
    ///
    /// # Errors
    /// Says why it cannot be told: then nothing may be locked or believed to be free.
    pub fn find(&self, directory: &Path) -> Result<Repository, No> {
        let real = place::canonical(directory);
        let real = real.map_err(|why| No::Io { path: directory.display().to_string(), why })?;
        let Some(place) = place::around(&real) else {
            return Ok(Repository::without_git(&real));
        };
        let identity = self.identity(&place);
        let root = place.root.display().to_string();
        Ok(Repository {
            identity: identity.map_err(|why| No::Git { root, why })?,
            is_case_folded: place::is_case_folded(&place.root),
            root: place.root,
            common: Some(place.common),
        })
    }

    /// The repository that a file is in, or would be: its directory need not be there yet.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn of_file(&self, file: &Path) -> Result<Repository, No> {
        let above = file.ancestors().skip(1).find(|it| it.is_dir());
        self.find(above.unwrap_or(file))
    }

    /// Every repository in which a file may be locked, and what it is called there: one; or where
    /// there is no Git, any directory that it is in, since each may be where somebody works.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn names_of(&self, file: &Path) -> Result<Vec<wire::FileSet>, No> {
        let found = self.of_file(file)?;
        let named = |it: &Repository| Ok(it.file_set(vec![path::of_file(it, file)?]));
        let mut all = vec![named(&found)?];
        if found.common.is_none() {
            for directory in found.root.ancestors().skip(1).take(DIRECTORIES_MAX) {
                all.push(named(&Repository::without_git(directory))?);
            }
        }
        Ok(all)
    }

    fn identity(&self, place: &Place) -> Result<Identity, NoAnswer> {
        let stamp = fs::metadata(place.common.join("config"));
        let stamp = stamp.map_or((None, 0), |meta| (meta.modified().ok(), meta.len()));
        let known = |all: &BTreeMap<PathBuf, (Stamp, Identity)>| {
            let (then, identity) = all.get(&place.common)?;
            (*then == stamp).then(|| identity.clone())
        };
        let remembered = || self.0.lock();
        if let Some(identity) = known(&remembered()) {
            return Ok(identity);
        }
        let identity = Identity::find(&place.common)?;
        // The first commit may yet be made.
        if identity.by != KnownBy::Here {
            let mut all = remembered();
            if REMEMBERED_MAX <= all.len() {
                all.pop_first();
            }
            all.insert(place.common.clone(), (stamp, identity.clone()));
        }
        Ok(identity)
    }
}

impl Identity {
    fn new(name: String, by: KnownBy) -> Self {
        let name = if name.len() <= REPOSITORY_BYTES_MAX { name } else { shortened(&name) };
        Self { name, by }
    }

    fn here(directory: &Path) -> Self {
        Self::new(format!("{HERE}{}", place::own_name(directory)), KnownBy::Here)
    }

    fn find(common: &Path) -> Result<Self, NoAnswer> {
        let mut common = common.to_owned();
        for _ in 0..HOPS_MAX {
            if let Some(name) = given(&common)? {
                return Ok(Self::new(name, KnownBy::Person));
            }
            let mut origin = None;
            for (name, address) in remotes(&common)? {
                match remote::read(&address) {
                    Remote::Named(name) => return Ok(Self::new(name, KnownBy::Remote)),
                    Remote::Short => {
                        let found = stands_for(&common, &name)?;
                        if let Some(Remote::Named(name)) = found.map(|it| remote::read(&it)) {
                            return Ok(Self::new(name, KnownBy::Remote));
                        }
                    }
                    Remote::Local(path) => {
                        origin = origin.or_else(|| came_from(&common, Path::new(&path)));
                    }
                    Remote::Useless => {}
                }
            }
            let Some(next) = origin.filter(|it| *it != common) else { break };
            common = next;
        }
        match first_commit(&common)? {
            Some(hash) => Ok(Self::new(format!("{FIRST_COMMIT}{hash}"), KnownBy::FirstCommit)),
            None => Ok(Self::here(&common)),
        }
    }
}

/// The full hash of the commit that `name` is in a directory: `HEAD`, a branch, the beginning of a
/// hash. `None`: there is no such one, or there are several.
///
/// # Errors
/// Says why it cannot be told, where the directory is in no repository, say.
pub fn commit(directory: &Path, name: &str) -> Result<Option<String>, NoAnswer> {
    // No name of Git's begins so: it would be an option.
    if name.starts_with('-') {
        return Ok(None);
    }
    let commit = format!("{name}^{{commit}}");
    let answer = git::ask_of_commit(directory, &["rev-parse", "--quiet", "--verify", &commit])?;
    let hash = String::from_utf8_lossy(&answer).trim().to_owned();
    Ok(Some(hash).filter(|it| !it.is_empty()))
}

/// Names of files, in whatever letters and form of Unicode they are asked for.
#[derive(Debug, Default)]
pub struct Tracked(BTreeSet<String>);

impl Tracked {
    /// Whether a file of this name is among them.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(&Self::folded(name))
    }

    fn folded(name: &str) -> String {
        path::composed(name).to_lowercase()
    }
}

/// The files in a directory, which has no links, that Git's index has: none where there is no
/// repository, or no Git on this machine that could have put any there. `None`: Git is writing just
/// now, files first and its index last.
///
/// # Errors
/// Says why Git does not tell.
pub fn tracked_in(directory: &Path) -> Result<Option<Tracked>, NoAnswer> {
    let none = || Ok(Some(Tracked::default()));
    let Some(place) = place::around(directory) else { return none() };
    // Looked for before the index is read: a lock that is gone left it up to date.
    if place.own.join("index.lock").symlink_metadata().is_ok() {
        return Ok(None);
    }
    let below = directory.strip_prefix(&place.root).unwrap_or(directory).to_str();
    let below = below.ok_or_else(|| NoAnswer::Failed {
        asked: "ls-files".to_owned(),
        why: "the path of its directory is no text".to_owned(),
    })?;
    let files = format!(":(top,literal,icase){below}");
    let answer = match git::ask(&place.own, &["ls-files", "--cached", "-z", "--", &files]) {
        Err(NoAnswer::Missing) => return none(),
        answer => String::from_utf8_lossy(&answer?.unwrap_or_default()).into_owned(),
    };
    // Letters of either case are equally long where Git takes them for the same.
    let names = answer.split('\0').filter_map(|path| path.get(below.len()..));
    let names = names.map(|name| name.strip_prefix('/').unwrap_or(name));
    let names = names.filter(|name| !name.is_empty() && !name.contains('/'));
    Ok(Some(Tracked(names.map(Tracked::folded).collect())))
}

/// Tells long names apart by all of each.
fn shortened(name: &str) -> String {
    let readable = name.floor_char_boundary(READABLE_BYTES);
    let hash = blake3::hash(name.as_bytes()).to_hex();
    format!("{}~{}", &name[..readable], &hash[..32])
}

/// What a person called it in its own configuration: an address, a name as locks show it, or any
/// other word.
fn given(common: &Path) -> Result<Option<String>, NoAnswer> {
    let answer = git::ask(common, &["config", "--local", "-z", "--get", SETTING])?;
    let answer = String::from_utf8_lossy(&answer.unwrap_or_default()).into_owned();
    let said = answer.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    if said.is_empty() {
        return Ok(None);
    }
    let name = base::as_name(said).unwrap_or_else(|| format!("{NAMED}{said}"));
    // One way to write it, however it was typed.
    Ok(Some(match name.strip_prefix(NAMED) {
        Some(word) => format!("{NAMED}{}", remote::encoded(&remote::decoded(word))),
        None => name,
    }))
}

/// Names and addresses: `origin` first, the others by name, so that it is the same everywhere.
fn remotes(common: &Path) -> Result<Vec<(String, String)>, NoAnswer> {
    let asked = ["config", "-z", "--get-regexp", r"^remote\..*\.url$"];
    let Some(answer) = git::ask(common, &asked)? else { return Ok(Vec::new()) };
    let answer = String::from_utf8_lossy(&answer);
    let mut all: BTreeMap<(bool, String), String> = BTreeMap::new();
    for (key, address) in answer.split('\0').filter_map(|line| line.split_once('\n')) {
        let name = key.strip_prefix("remote.").and_then(|it| it.strip_suffix(".url"));
        let name = name.unwrap_or_default().to_owned();
        // Of several addresses the first is read from.
        all.entry((name != "origin", name)).or_insert_with(|| address.to_owned());
    }
    Ok(all.into_iter().map(|((_, name), address)| (name, address)).collect())
}

/// What the user's own configuration puts in place of a short address.
fn stands_for(common: &Path, remote: &str) -> Result<Option<String>, NoAnswer> {
    let answer = git::ask(common, &["ls-remote", "--get-url", "--", remote])?;
    Ok(answer.map(|it| String::from_utf8_lossy(&it).trim().to_owned()))
}

/// What a clone on this machine was made of.
fn came_from(common: &Path, path: &Path) -> Option<PathBuf> {
    // A relative address is relative to the work tree, which is where the configuration is.
    let from = common.parent().unwrap_or(common).join(path).canonicalize();
    let with_ending = || {
        let mut named = path.as_os_str().to_owned();
        named.push(".git");
        common.parent().unwrap_or(common).join(named).canonicalize()
    };
    let from = from.or_else(|_| with_ending()).ok()?;
    match place::at(&from) {
        Some(place) => Some(place.common),
        None => from.join("HEAD").is_file().then_some(from),
    }
}

/// The oldest commit without one before it. `None`: there is none yet, or only the newer ones are
/// here.
fn first_commit(common: &Path) -> Result<Option<String>, NoAnswer> {
    if common.join("shallow").is_file() {
        return Ok(None);
    }
    if git::ask(common, &["rev-parse", "--quiet", "--verify", "HEAD^{commit}"])?.is_none() {
        return Ok(None);
    }
    let answer = git::ask(common, &["rev-list", "--max-parents=0", "--timestamp", "HEAD"])?;
    let answer = String::from_utf8_lossy(&answer.unwrap_or_default()).into_owned();
    let dated = answer.lines().filter_map(|line| {
        let (time, hash) = line.split_once(' ')?;
        Some((time.parse::<i64>().ok()?, hash.to_owned()))
    });
    Ok(dated.min().map(|(_, hash)| hash))
}

impl Repository {
    fn without_git(directory: &Path) -> Self {
        Self {
            identity: Identity::here(directory),
            is_case_folded: place::is_case_folded(directory),
            root: directory.to_owned(),
            common: None,
        }
    }

    /// As [`Repositories::find`], remembering nothing.
    ///
    /// # Errors
    /// As [`Repositories::find`].
    pub fn find(directory: &Path) -> Result<Self, No> {
        Repositories::default().find(directory)
    }

    /// The root of the work tree, without links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What it is called everywhere.
    pub fn identity(&self) -> &str {
        &self.identity.name
    }

    pub const fn known_by(&self) -> KnownBy {
        self.identity.by
    }

    /// Whether the file system takes `A` and `a` for the same.
    pub const fn is_case_folded(&self) -> bool {
        self.is_case_folded
    }

    fn common(&self) -> Option<&PathBuf> {
        self.common.as_ref()
    }

    /// Files and patterns as the broker takes them: absolute ones, and those relative to `base`.
    ///
    /// # Errors
    /// Says which one cannot be named, and why.
    pub fn files(&self, base: &Path, files: &[String]) -> Result<wire::FileSet, No> {
        let real = place::canonical(base);
        let base = real.map_err(|why| No::Io { path: base.display().to_string(), why })?;
        let mut patterns = Vec::new();
        for file in files {
            for pattern in path::patterns(self, &base, file)? {
                if !patterns.contains(&pattern) {
                    patterns.push(pattern);
                }
            }
        }
        Ok(self.file_set(patterns))
    }

    /// Patterns that are already as they are to be.
    pub fn file_set(&self, patterns: Vec<String>) -> wire::FileSet {
        let repository = self.identity.name.clone();
        wire::FileSet { repository, patterns, is_case_folded: self.is_case_folded }
    }

    /// The patterns of files that Git named: relative to the root, every sign as it is.
    pub fn named_by_git(names: &[u8]) -> Vec<String> {
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        names.map(|name| literal(&path::composed(&String::from_utf8_lossy(name)))).collect()
    }

    /// Where Git looks for this repository's hooks, and whether its configuration says so.
    /// `None`: there is no Git here.
    ///
    /// # Errors
    /// Says why Git does not tell.
    pub fn hooks_directory(&self) -> Result<Option<(PathBuf, bool)>, No> {
        let Some(common) = &self.common else { return Ok(None) };
        let asked = ["config", "-z", "--type=path", "--get", "core.hooksPath"];
        let told = git::ask(common, &asked);
        let told = told.map_err(|why| No::Git { root: self.root.display().to_string(), why })?;
        let told = told.map(|it| place::of_bytes(it.strip_suffix(b"\0").unwrap_or(&it)));
        Ok(Some(match told.filter(|it| !it.as_os_str().is_empty()) {
            Some(told) => (self.root.join(told), true),
            None => (common.join("hooks"), false),
        }))
    }

    /// The names of the files that the commit that is being made changes, each ended by a NUL.
    /// For a program that Git itself calls.
    ///
    /// Of a merge it is what is neither as it was here nor as it is in what is merged: the rest is
    /// work that was committed before.
    ///
    /// # Errors
    /// Says why Git does not tell.
    pub fn staged(&self) -> Result<Vec<u8>, No> {
        let here = self.staged_against(&[])?;
        let no = |why| No::Git { root: self.root.display().to_string(), why };
        let asked = ["rev-parse", "--quiet", "--verify", "MERGE_HEAD"];
        if git::ask_of_commit(&self.root, &asked).map_err(no)?.is_empty() {
            return Ok(here);
        }
        let there = self.staged_against(&["MERGE_HEAD"])?;
        let there: BTreeSet<&[u8]> = there.split(|byte| *byte == 0).collect();
        let both = here.split(|byte| *byte == 0).filter(|name| there.contains(name));
        Ok(both.collect::<Vec<_>>().join(&0))
    }

    fn staged_against(&self, commit: &[&str]) -> Result<Vec<u8>, No> {
        let asked = [
            "diff",
            "--cached",
            "--name-only",
            "-z",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=none",
            "--no-relative",
        ];
        let root = || self.root.display().to_string();
        let asked = [&asked[..], commit, &["--"]].concat();
        git::ask_of_commit(&self.root, &asked).map_err(|why| No::Git { root: root(), why })
    }
}
