//! A commit, taken out of the operator's repository into a directory that is thrown away.
//!
//! It is no worktree of that repository and no clone of it: the commit's objects alone are copied
//! into a new repository without configuration, hooks and history, and checked out there. So nothing
//! that the operator's repository says is run or goes by (filters, hooks, file system monitors,
//! replaced objects), the command finds nothing else of it, and nothing of it is written to. What a
//! command leaves in the directory is never looked at by git again.
//!
//! Large files that lie elsewhere (LFS) stay pointers, submodules stay empty.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
};

use tasuki_proto::{echo::echo, swarm::CommitHash};
use tokio::{io::AsyncWriteExt as _, process::Command};

/// Of what git says when it fails, in characters.
const WORDS_MAX: usize = 500;

/// In the data directory: one file for each directory that was made and may still be there.
const RUNS: &str = "accept";

/// How the directories begin. Only such are ever removed.
const PREFIX: &str = "tasuki-accept-";

/// Attempts to remove one directory, each of which first makes what is in it removable.
const REMOVALS_MAX: u32 = 3;

/// How deep a directory is looked into when it is to be removed.
const DEPTH_MAX: u32 = 4096;

/// Git's settings that count more than any file's, so that nothing is run by it.
const QUIET: [&str; 12] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.alternateRefsCommand=true",
    "credential.helper=",
    "diff.external=",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "uploadpack.packObjectsHook=",
    "advice.detachedHead=false",
];

/// Why there is no checkout.
#[derive(Debug, thiserror::Error)]
pub enum NoCheckout {
    #[error("git cannot be run: {0}")]
    NoGit(io::Error),
    #[error("{0} is no git repository that can be read: {1}")]
    NoRepository(PathBuf, String),
    #[error("{1} has no commit {0}")]
    Unknown(String, PathBuf),
    #[error("{0} is not a commit, but something that names one")]
    NoCommit(String),
    #[error("{1} has no remote {0:?}; it has {2}")]
    NoRemote(String, PathBuf, String),
    #[error(
        "the repository {path} has the setting {name} of its own, which may send a fetch elsewhere, \
         or have it run or write something",
        path = .0.display(),
        name = echo(.1)
    )]
    Setting(PathBuf, String),
    #[error("git {0} failed: {1}")]
    Git(&'static str, String),
    #[error("{0}: {1}")]
    Disk(PathBuf, io::Error),
}

/// A repository of the operator's.
#[derive(Debug, Clone)]
pub struct Repository {
    path: PathBuf,
    /// Whether one without a work tree counts. A commit may bring such a one among its files, with
    /// settings of its own, to whoever happens to be in there.
    bare: &'static str,
    /// `sha1` or `sha256`.
    format: String,
}

impl Repository {
    /// The one that a person `named`, or else the one that the current directory is in.
    pub async fn open(named: Option<&Path>) -> Result<Self, NoCheckout> {
        let path = named.unwrap_or_else(|| Path::new("."));
        let bare = match named {
            Some(_) => "safe.bareRepository=all",
            None => "safe.bareRepository=explicit",
        };
        let no = |why| NoCheckout::NoRepository(path.to_owned(), why);
        let path = path.canonicalize().map_err(|why| no(why.to_string()))?;
        let mut it = Self { path, bare, format: String::new() };
        let asked = it.git(["rev-parse", "--show-object-format"]);
        let format = match said("rev-parse", asked).await {
            Err(NoCheckout::Git(_, words)) => return Err(no(words)),
            format => format?,
        };
        it.format = format.trim().to_owned();
        Ok(it)
    }

    /// Whether it has the commit, all of it.
    pub async fn check(&self, commit: &CommitHash) -> Result<(), NoCheckout> {
        let what = format!("{commit}^{{commit}}");
        let found = said("rev-parse", self.git(["rev-parse", "--quiet", "--verify", &what])).await;
        match found {
            Ok(found) if found.trim() == commit.as_str() => Ok(()),
            Ok(_) => Err(NoCheckout::NoCommit(commit.to_string())),
            Err(NoCheckout::Git(..)) => {
                Err(NoCheckout::Unknown(commit.to_string(), self.path.clone()))
            }
            Err(why) => Err(why),
        }
    }

    /// Fetches what a remote has, by its name alone: an address could be a command.
    pub async fn fetch(&self, remote: &str) -> Result<(), NoCheckout> {
        let remotes = said("remote", self.git(["remote"])).await?;
        if !remotes.lines().any(|it| it == remote) || remote.starts_with('-') {
            let names = remotes.lines().collect::<Vec<_>>().join(", ");
            let names = if names.is_empty() { "none".to_owned() } else { names };
            return Err(NoCheckout::NoRemote(remote.to_owned(), self.path.clone(), names));
        }
        let settings = said("config", self.git(["config", "--list", "--show-scope", "-z"])).await?;
        if let Some(name) = own_setting(&settings) {
            return Err(NoCheckout::Setting(self.path.clone(), name.to_owned()));
        }
        let mut fetch = Command::new("git");
        // Whoever asks for this has keys and helpers for it, in their own settings; hooks and
        // addresses that are commands are left out all the same. Of the repository's settings only
        // those are left that were just looked at.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") && name != "GIT_SSH_COMMAND" {
                fetch.env_remove(name);
            }
        }
        fetch.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
        fetch.env("GIT_ALLOW_PROTOCOL", "https:ssh:http:git:file");
        fetch.arg("-C").arg(&self.path).args(["-c", self.bare]);
        for setting in QUIET.iter().filter(|it| !it.starts_with("credential.")) {
            fetch.args(["-c", setting]);
        }
        fetch.args(["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"]);
        fetch.args(["--no-write-fetch-head", "--no-auto-maintenance", "--", remote]);
        said("fetch", fetch).await.map(drop)
    }

    /// Takes the commit out into `place`, which is made.
    pub async fn take_out(&self, commit: &CommitHash, place: &Path) -> Result<(), NoCheckout> {
        let disk = |why| NoCheckout::Disk(place.to_owned(), why);
        DirBuilder::new().mode(0o700).create(place).map_err(disk)?;
        let format = format!("--object-format={}", self.format);
        let init = ["init", "--quiet", "--template=", "--initial-branch=main", &format];
        said("init", own(place, init)).await?;
        // What came before is not copied, and not missed.
        fs::write(place.join(".git/shallow"), format!("{commit}\n")).map_err(disk)?;
        self.copy(commit, place).await?;
        said(
            "checkout",
            own(place, ["checkout", "--quiet", "--force", "--detach", commit.as_str()]),
        )
        .await?;
        let found = said("rev-parse", own(place, ["rev-parse", "--verify", "HEAD"])).await?;
        assert_eq!(found.trim(), commit.as_str(), "AC2: something else was checked out");
        Ok(())
    }

    /// The objects of one commit, without its parents.
    async fn copy(&self, commit: &CommitHash, place: &Path) -> Result<(), NoCheckout> {
        let mut pack = self.git(["pack-objects", "--revs", "--stdout", "--quiet", "--threads=1"]);
        pack.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut pack = pack.spawn().map_err(NoCheckout::NoGit)?;
        let (Some(mut input), Some(packed)) = (pack.stdin.take(), pack.stdout.take()) else {
            unreachable!("both are piped")
        };
        let packed: Stdio = packed.try_into().map_err(NoCheckout::NoGit)?;
        let mut unpack = own(place, ["index-pack", "--stdin"]);
        unpack.stdin(packed);
        let unpacking = said("index-pack", unpack);
        let revisions = format!("--shallow {commit}\n{commit}\n");
        let packing = async {
            // One that ends early says why itself.
            input.write_all(revisions.as_bytes()).await.ok();
            drop(input);
            pack.wait_with_output().await.map_err(NoCheckout::NoGit)
        };
        let (packed, unpacked) = tokio::join!(packing, unpacking);
        let packed = packed?;
        if !packed.status.success() {
            return Err(NoCheckout::Git("pack-objects", words(&packed.stderr)));
        }
        unpacked.map(drop)
    }

    /// Git in the operator's repository, which is only read.
    fn git<I: AsRef<OsStr>, const N: usize>(&self, arguments: [I; N]) -> Command {
        let mut git = plain();
        if let Some(home) = std::env::var_os("HOME") {
            // Which repositories of others may be read is said there.
            git.env("HOME", home);
        }
        git.arg("-C").arg(&self.path).args(["-c", self.bare]);
        git.args(QUIET.iter().flat_map(|it| ["-c", it])).args(arguments);
        git
    }
}

/// The first setting of the repository itself, as opposed to its user's, that may change what a fetch
/// does, in a list of all settings with where each is from.
fn own_setting(settings: &str) -> Option<&str> {
    let mut parts = settings.split('\0');
    while let (Some(scope), Some(setting)) = (parts.next(), parts.next()) {
        let name = setting.split_once('\n').map_or(setting, |(name, _)| name);
        if !matches!(scope, "system" | "global" | "command") && !is_harmless(name) {
            return Some(name);
        }
    }
    None
}

/// Whether a fetch does not read the setting, or does nothing with it that reaches beyond the
/// repository and the addresses of its remotes. What is not known here is not harmless. Git writes
/// all but the middle of a name in small letters.
fn is_harmless(setting: &str) -> bool {
    let (section, name) = setting.split_once('.').unwrap_or_default();
    let is_among = |all: &str, name: &str| all.split(' ').any(|it| it == name);
    match section {
        "core" => is_among(CORE, name),
        "remote" => is_among(REMOTE, name.rsplit_once('.').map_or(name, |(_, name)| name)),
        _ => is_among(SECTIONS, section),
    }
}

/// Sections that a fetch like this one does not read, or only for what it does in the repository.
/// Left out are those that say whom the user's own credentials go to and which files are written
/// (`http`, `credential`), what the rest means (`url`, `include`), what else is fetched (`fetch`,
/// `transfer`, `remotes`, `bundle`), and what is run (`ssh`, `hook`, `protocol`).
const SECTIONS: &str = "advice alias apply blame branch checkout clean color column commit diff \
                        extensions filter format gc gpg grep gui index init lfs log maintenance \
                        merge notes pull push rebase receive rerere stash status submodule tag \
                        tasuki user";

/// Of `core`: how the repository is laid out, how its files are written, what a fetch has no use for,
/// and what many repositories have and [`QUIET`] overrides.
const CORE: &str = "abbrev autocrlf bare checkstat commentchar commitgraph compression editor eol \
                    excludesfile filemode fscache fsmonitor hidedotfiles hookspath ignorecase \
                    logallrefupdates longpaths multipackindex pager precomposeunicode \
                    preloadindex quotepath repositoryformatversion safecrlf sharedrepository \
                    sparsecheckout sparsecheckoutcone splitindex symlinks trustctime \
                    untrackedcache whitespace worktree";

/// Of a remote. No address is a command: `GIT_ALLOW_PROTOCOL` says which transports there are.
const REMOTE: &str = "fetch gh-resolved mirror partialclonefilter promisor prune prunetags push \
                      pushdefault pushurl skipdefaultupdate skipfetchall tagopt url";

/// Git in a repository of ours.
fn own<I: AsRef<OsStr>, const N: usize>(place: &Path, arguments: [I; N]) -> Command {
    let mut git = plain();
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    git.env("HOME", "/nonexistent").env("GIT_CEILING_DIRECTORIES", place);
    git.arg("-C").arg(place).args(QUIET.iter().flat_map(|it| ["-c", it]));
    git.args(arguments);
    git
}

/// Git with nothing of the environment, no network, nobody to ask.
fn plain() -> Command {
    let mut git = Command::new("git");
    git.env_clear().kill_on_drop(true);
    if let Some(path) = std::env::var_os("PATH") {
        git.env("PATH", path);
    }
    git.envs([
        ("LC_ALL", "C"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        // No object is fetched because it is missing.
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_ALLOW_PROTOCOL", "none"),
        ("GIT_ATTR_NOSYSTEM", "1"),
    ]);
    git.stdin(Stdio::null());
    git
}

/// What it prints, if it succeeds.
async fn said(what: &'static str, mut git: Command) -> Result<String, NoCheckout> {
    git.kill_on_drop(true);
    let output = git.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = output.map_err(NoCheckout::NoGit)?.wait_with_output().await;
    let output = output.map_err(NoCheckout::NoGit)?;
    if !output.status.success() {
        return Err(NoCheckout::Git(what, words(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return "it says nothing".to_owned();
    }
    text.chars().take(WORDS_MAX).collect()
}

/// A directory for one run: `checkout` and `tmp` in it. It is removed with this, or by the next run
/// if this process is killed.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    note: PathBuf,
    /// Held as long as this process lives.
    lock: File,
}

impl Place {
    /// Makes one in `directory`, and notes in `data` that it is there.
    pub fn make(data: &Path, directory: &Path) -> io::Result<Self> {
        let runs = data.join(RUNS);
        DirBuilder::new().recursive(true).mode(0o700).create(&runs)?;
        let chance = getrandom::u64().map_err(io::Error::other)?;
        let directory = directory.canonicalize()?;
        let path = directory.join(format!("{PREFIX}{chance:016x}"));
        let note = runs.join(format!("{chance:016x}"));
        // Noted before it is made: what is not noted would stay for ever.
        let lock = File::create_new(&note)?;
        lock.lock()?;
        fs::write(&note, path.as_os_str().as_encoded_bytes())?;
        lock.sync_all()?;
        let it = Self { path, note, lock };
        DirBuilder::new().mode(0o700).create(&it.path)?;
        // Without the bit by which a directory hands its group down to those in it: a command that
        // copies such a directory with its mode would be refused.
        fs::set_permissions(&it.path, fs::Permissions::from_mode(0o700))?;
        DirBuilder::new().mode(0o700).create(it.temporary())?;
        Ok(it)
    }

    pub fn checkout(&self) -> PathBuf {
        self.path.join("checkout")
    }

    /// What the command has for `HOME` and `TMPDIR`.
    pub fn temporary(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// Removes it. Says where it is if that does not work; the next run tries again.
    pub fn remove(self) -> io::Result<()> {
        remove(&self.path)
            .map_err(|why| io::Error::new(why.kind(), format!("{}: {why}", self.path.display())))?;
        fs::remove_file(&self.note)?;
        drop(self.lock);
        Ok(())
    }
}

/// Removes what processes that are gone have left, and says how many directories that were.
pub fn clean(data: &Path) -> io::Result<usize> {
    let runs = match fs::read_dir(data.join(RUNS)) {
        Ok(runs) => runs,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(why) => return Err(why),
    };
    let mut count = 0;
    for run in runs {
        let note = run?.path();
        let file = match File::open(&note) {
            Ok(file) => file,
            // Another process was faster.
            Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
            Err(why) => return Err(why),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(why)) => return Err(why),
        }
        let path = PathBuf::from(fs::read_to_string(&note)?);
        if is_ours(&path) {
            remove(&path)?;
            count += 1;
        }
        fs::remove_file(&note)?;
    }
    Ok(count)
}

/// Whether a path that was noted is one that this made. A note may be damaged.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    path.is_absolute() && name.is_some_and(|it| it.starts_with(PREFIX))
}

/// Removes a directory whatever a command has made of it. No link is followed.
fn remove(path: &Path) -> io::Result<()> {
    for attempt in 1.. {
        match fs::remove_dir_all(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => break,
            Err(why) if attempt == REMOVALS_MAX => return Err(why),
            Err(_) => open_up(path, DEPTH_MAX),
            Ok(()) => break,
        }
    }
    Ok(())
}

/// Lets the owner into each directory again.
fn open_up(path: &Path, depth: u32) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if !metadata.is_dir() || depth == 0 {
        return;
    }
    // What cannot be changed is told when it cannot be removed.
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).ok();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        open_up(&entry.path(), depth - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_left_is_removed_by_the_next_and_what_one_uses_is_not() {
        let (data, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (used, left) = (
            Place::make(data.path(), temporary.path()).unwrap(),
            Place::make(data.path(), temporary.path()).unwrap(),
        );
        let outside = temporary.path().join("kept");
        fs::write(&outside, "kept").unwrap();
        let deep = left.temporary().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        std::os::unix::fs::symlink(temporary.path(), deep.join("out")).unwrap();
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o0)).unwrap();
        let (path, note) = (left.path.clone(), left.note.clone());
        assert_eq!(clean(data.path()).unwrap(), 0, "both are in use");
        drop(left);
        assert_eq!(clean(data.path()).unwrap(), 1);
        assert!(!path.exists() && !note.exists());
        assert_eq!(fs::read_to_string(outside).unwrap(), "kept");
        assert!(used.temporary().exists());
        let path = used.path.clone();
        used.remove().unwrap();
        assert!(!path.exists());
        assert_eq!(clean(data.path()).unwrap(), 0);
    }

    #[test]
    fn only_harmless_settings_are_a_repositorys_own_and_the_rest_is_its_users() {
        let listed = |scope: &str, name: &str| format!("{scope}\0{name}\nx\0");
        let no = [
            "core.sshcommand",
            "core.askpass",
            "core.gitproxy",
            "core.alternaterefscommand",
            "core.x.bare",
            "credential.helper",
            "credential.https://a.example.helper",
            "credential.https://a.example.username",
            "remote.origin.uploadpack",
            "remote.origin.proxy",
            "remote.a.b.vcs",
            "remote.url.vcs",
            "remotes.origin",
            "hook.a.command",
            "http.cookiefile",
            "http.savecookies",
            "http.sslverify",
            "http.curloptresolve",
            "http.proxy",
            "http.https://a.example.extraheader",
            "https.proxy",
            "url.https://b.example/.insteadof",
            "include.path",
            "includeif.gitdir:/.path",
            "fetch.bundleuri",
            "transfer.credentialsinurl",
            "protocol.ext.allow",
            "ssh.variant",
            "promisor.acceptfromserver",
            "of-a-later-release.x",
            "nothing",
            "",
        ];
        for name in no {
            let all = listed("global", name) + &listed("system", name) + &listed("command", name);
            let all = all + &listed("local", "core.bare");
            assert_eq!(own_setting(&all), None, "{name}");
            for scope in ["local", "worktree", "unknown"] {
                assert_eq!(own_setting(&(all.clone() + &listed(scope, name))), Some(name));
            }
        }
        assert_eq!(own_setting("local\0remote.a.vcs\0"), Some("remote.a.vcs"), "without a value");
        for name in [
            "core.bare",
            "core.hookspath",
            "core.worktree",
            "extensions.worktreeconfig",
            "remote.vcs.url",
            "remote.a.b.fetch",
            "remote.pushdefault",
            "branch.http.proxy.merge",
            "user.email",
            "submodule.a.url",
            "lfs.repositoryformatversion",
            "tasuki.repository",
        ] {
            assert_eq!(own_setting(&listed("local", name)), None, "{name}");
        }
        assert_eq!(own_setting(""), None);
    }

    #[test]
    fn a_damaged_note_removes_nothing() {
        let data = tempfile::tempdir().unwrap();
        let kept = data.path().join("kept");
        fs::create_dir_all(&kept).unwrap();
        fs::create_dir(data.path().join(RUNS)).unwrap();
        for (name, text) in [("a", kept.to_str().unwrap()), ("b", ""), ("c", "tasuki-accept-x")] {
            fs::write(data.path().join(RUNS).join(name), text).unwrap();
        }
        assert_eq!(clean(data.path()).unwrap(), 0);
        assert!(kept.exists());
    }
}
