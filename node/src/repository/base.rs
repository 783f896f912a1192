//! Which repository a call about locks is about.

use std::{
    path::{Path, PathBuf},
    slice,
};

use tasuki_proto::{
    limits::{CHANGED_FILES_MAX, FILES_BYTES_MAX},
    wire,
};

use super::{
    FIRST_COMMIT, HERE, NAMED, No, Repositories, Repository, path, place,
    remote::{self, Remote},
};

/// What is meant, before anybody looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// The repository that this directory is in; paths are relative to the directory.
    Directory {
        directory: PathBuf,
        /// The directory must lie in here.
        within: Option<PathBuf>,
    },
    /// A repository by the name it has everywhere; paths are relative to its root.
    Named(String),
}

/// What is meant by a call.
///
/// `asked` is the call's own word: a directory, relative to the one that counts without it, or a
/// repository's name or address. `./x`, `../x`, `x` and absolute paths are directories; what has a
/// host in front, with a dot in it and a path behind, is a repository.
///
/// Without it, `root` counts, the project that the operator named for the node (`mirror_root`),
/// else `directory`, where the node was started. Where the operator named one, a call may choose
/// only what lies in it, as with files that agents attach: a directory tells whoever asks which
/// repository it is.
pub fn lock_base(root: Option<&Path>, directory: &Path, asked: Option<&str>) -> Base {
    let usual = root.map_or_else(|| directory.to_owned(), |root| directory.join(root));
    let Some(asked) = asked.filter(|it| !it.is_empty()) else {
        return Base::Directory { directory: usual, within: None };
    };
    if let Some(name) = as_name(asked) {
        return Base::Named(name);
    }
    let within = root.map(|_| usual.clone());
    Base::Directory { directory: usual.join(asked), within }
}

/// The name that a text is, as lists of locks show it, or that an address gives.
pub(super) fn as_name(text: &str) -> Option<String> {
    if [FIRST_COMMIT, HERE, NAMED].iter().any(|kind| text.starts_with(kind)) {
        return Some(text.to_owned());
    }
    if text.starts_with(['.', '/', '\\', '~']) || text.get(1..2) == Some(":") {
        return None;
    }
    let host = text.split('/').next().unwrap_or_default();
    let as_address = format!("https://{text}");
    let is_name = host.contains('.') && text.contains('/') && !host.contains('@');
    match remote::read(if is_name { as_address.as_str() } else { text }) {
        Remote::Named(name) => Some(super::Identity::new(name, super::KnownBy::Remote).name),
        Remote::Local(_) | Remote::Short | Remote::Useless => None,
    }
}

/// A repository to lock files of, and what paths are relative to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    Here { repository: Repository, directory: PathBuf },
    Elsewhere { identity: String },
}

impl Base {
    /// Looks at the disk.
    ///
    /// # Errors
    /// Says why there is no such repository.
    pub fn open(self, repositories: &Repositories) -> Result<Basis, No> {
        let (directory, within) = match self {
            Self::Named(identity) => return Ok(Basis::Elsewhere { identity }),
            Self::Directory { directory, within } => (directory, within),
        };
        let shown = || directory.display().to_string();
        if !directory.is_dir() {
            return Err(No::Unknown(shown()));
        }
        let real = |path: &Path| {
            place::canonical(path).map_err(|why| No::Io { path: path.display().to_string(), why })
        };
        if let Some(root) = within
            && !real(&directory)?.starts_with(real(&root)?)
        {
            return Err(No::Forbidden { directory: shown(), root: root.display().to_string() });
        }
        let repository = repositories.find(&directory)?;
        Ok(Basis::Here { repository, directory })
    }
}

impl Basis {
    /// What the repository is called everywhere.
    pub fn identity(&self) -> &str {
        match self {
            Self::Here { repository, .. } => repository.identity(),
            Self::Elsewhere { identity } => identity,
        }
    }

    /// Files and patterns as the broker takes them; none of them is the whole repository, where a
    /// list of locks is asked for. Looks at the disk.
    ///
    /// # Errors
    /// Says which one cannot be named, and why.
    pub fn files(&self, files: &[String]) -> Result<wire::FileSet, No> {
        match self {
            Self::Here { repository, directory } => repository.files(directory, files),
            Self::Elsewhere { identity } => {
                let mut patterns = Vec::new();
                for file in files {
                    patterns.extend(path::patterns_from_root(file, identity)?);
                }
                let repository = identity.clone();
                Ok(wire::FileSet { repository, patterns, is_case_folded: false })
            }
        }
    }

    /// The names of files that a submission changed, so far as they have one: what else it lists is
    /// in no repository, or no path at all. Looks at the disk.
    pub fn changed_files(&self, files: &[String]) -> Option<wire::FileSet> {
        let mut all: Option<wire::FileSet> = None;
        let mut bytes = 0;
        for file in files {
            let Ok(named) = self.files(slice::from_ref(file)) else { continue };
            bytes += named.patterns.iter().map(String::len).sum::<usize>();
            let count = all.as_ref().map_or(0, |it| it.patterns.len()) + named.patterns.len();
            if CHANGED_FILES_MAX < count || FILES_BYTES_MAX < bytes {
                break;
            }
            match &mut all {
                Some(all) => all.patterns.extend(named.patterns),
                None => all = Some(named),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operator_named_counts_unless_a_call_says_otherwise() {
        let project = Some(Path::new("/project"));
        let here = Path::new("/here");
        let at = |directory: &str, within: Option<&str>| Base::Directory {
            directory: directory.into(),
            within: within.map(Into::into),
        };
        let named = |name: &str| Base::Named(name.to_owned());
        for (root, asked, base) in [
            (None, None, at("/here", None)),
            (project, None, at("/project", None)),
            (Some(Path::new("below")), None, at("/here/below", None)),
            (None, Some(""), at("/here", None)),
            (None, Some("sub"), at("/here/sub", None)),
            (None, Some("/other"), at("/other", None)),
            (project, Some("/other"), at("/other", Some("/project"))),
            (project, Some("sub/one"), at("/project/sub/one", Some("/project"))),
            (None, Some("./git.example/a"), at("/here/./git.example/a", None)),
            (None, Some("github.com/a/b"), named("github.com/a/b")),
            (project, Some("github.com/a/b"), named("github.com/a/b")),
            (None, Some("git@github.com:a/b.git"), named("github.com/a/b")),
            (None, Some("https://git.example/A"), named("git.example/A")),
            (None, Some("first-commit:12ab"), named("first-commit:12ab")),
            (None, Some("here:12ab"), named("here:12ab")),
            (None, Some("named:ours"), named("named:ours")),
        ] {
            assert_eq!(lock_base(root, here, asked), base, "{root:?} {asked:?}");
        }
    }
}
