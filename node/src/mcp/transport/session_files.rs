//! What each client of one address said when it began a session, one small file each: a session
//! outlives the node's process.
//!
//! Files are bounded in number, the oldest give way. They are a help and not synced: what a power
//! cut takes, a client begins anew. Nothing of the work is in them.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use tasuki_proto::{
    host::{checked, files},
    id::TokenId,
};

use super::sessions::Owners;
use crate::mcp::notices::SUBSCRIBED;

/// Sessions of one address remembered in files of a few hundred bytes.
const FILES_MAX: usize = 1024;

/// The extension of a file that is not whole yet.
const DRAFT: &str = "new";

/// Puts `bytes` at `path` whole or not at all, readable by this user only, and leaves no draft
/// behind. Not synced: what a power cut takes, a client begins anew.
pub(in crate::mcp) fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_added_extension(DRAFT);
    let put = files::private(&draft)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&draft, path));
    if put.is_err() {
        // On a full disk there may be one; that it was not written is what is told.
        drop(std::fs::remove_file(&draft));
    }
    put
}

/// `None`: somebody else removed it.
fn unless_gone<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// What each client of one address said when it began, one file each.
#[derive(Debug, Clone)]
pub(super) struct Files {
    dir: Arc<Path>,
    owners: Owners,
}

/// What is in a file.
#[derive(Serialize, Deserialize)]
struct Remembered<S> {
    #[serde(flatten)]
    state: S,
    /// The id of the token that it was begun with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl Files {
    pub(super) fn open(dir: PathBuf, owners: Owners) -> io::Result<Self> {
        files::private_directory(&dir)?;
        Ok(Self { dir: dir.into(), owners })
    }

    /// Whether a session that is not in memory was begun with this token. One that is nowhere
    /// was; it is told so elsewhere.
    pub(super) async fn is_of(&self, id: &str, token: Option<&TokenId>) -> bool {
        let Some(path) = self.path(id) else { return true };
        let Ok(read) = tokio::task::spawn_blocking(move || std::fs::read(path)).await else {
            return false;
        };
        let Ok(json) = read else { return true };
        let owner = checked::from_slice::<Remembered<IgnoredAny>>(&json);
        owner.is_ok_and(|it| it.token.as_deref() == token.map(TokenId::as_str))
    }

    /// `None`: not an id that this server gave, so not the name of a file either.
    fn path(&self, id: &str) -> Option<PathBuf> {
        let is_ours = id.len() == 36 && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
        is_ours.then(|| self.dir.join(format!("{id}.json")))
    }

    /// Forgets the oldest beyond [`FILES_MAX`].
    fn prune(&self) -> io::Result<()> {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            // Sessions begin and end meanwhile, and their files with them.
            if let Some(metadata) = unless_gone(entry.metadata())? {
                let path = entry.path();
                // A draft that becomes the file meanwhile is seen under both names, and is one.
                let is_draft = path.extension().is_some_and(|it| it == DRAFT);
                let name = if is_draft { path.with_extension("") } else { path.clone() };
                files.insert(name, (metadata.modified()?, path));
            }
        }
        let mut files: Vec<_> = files.into_values().collect();
        files.sort();
        let excess = files.len().saturating_sub(FILES_MAX);
        files.into_iter().take(excess).try_for_each(|(_, path)| {
            let removed = unless_gone(std::fs::remove_file(path));
            removed.map(|_| ())
        })
    }

    fn write(&self, path: &Path, json: &[u8]) -> io::Result<()> {
        put(path, json)?;
        self.prune()
    }
}

#[async_trait::async_trait]
impl SessionStore for Files {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let Some(path) = self.path(id) else { return Ok(None) };
        let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await?;
        match read {
            Ok(json) => Ok(checked::from_slice::<Remembered<SessionState>>(&json)
                .inspect_err(|error| tracing::warn!(id, %error, "unreadable session"))
                .ok()
                .map(|it| it.state)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn store(&self, id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let Some(path) = self.path(id) else { return Ok(()) };
        let token = self.owners.of(id).map(|token| token.to_string());
        let json = checked::to_vec(&Remembered { state, token })?;
        let files = self.clone();
        tokio::task::spawn_blocking(move || files.write(&path, &json)).await??;
        Ok(())
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        let Some(path) = self.path(id) else { return Ok(()) };
        let forget = move || {
            // Most sessions have none.
            drop(std::fs::remove_file(path.with_extension(SUBSCRIBED)));
            std::fs::remove_file(path)
        };
        match tokio::task::spawn_blocking(forget).await? {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_put_leaves_what_was_there_and_no_draft() {
        let dir = tempfile::tempdir().unwrap();
        let names = || {
            let entries = std::fs::read_dir(dir.path()).unwrap();
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let path = dir.path().join("x.json");
        put(&path, b"old").unwrap();
        put(&path, b"new").unwrap();
        assert_eq!(
            (std::fs::read(&path).unwrap(), names()),
            (b"new".to_vec(), vec!["x.json".into()])
        );
        // In the way of the last step.
        let taken = dir.path().join("taken");
        std::fs::create_dir(&taken).unwrap();
        put(&taken, b"new").unwrap_err();
        assert_eq!(names().len(), 2, "{:?}", names());
    }

    /// Several clients begin at once, and each forgets the same ones.
    #[test]
    fn what_another_removed_is_no_failure() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path().to_owned(), Owners::default()).unwrap();
        let fresh = || files.path(&uuid::Uuid::new_v4().to_string()).unwrap();
        (0..FILES_MAX).for_each(|_| std::fs::write(fresh(), "{}").unwrap());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..16 {
                        files.write(&fresh(), b"{}").unwrap();
                    }
                });
            }
        });
        files.prune().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), FILES_MAX);
    }

    #[tokio::test]
    async fn files_are_bounded_and_only_ours() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path().join("s"), Owners::default()).unwrap();
        for _ in 0..FILES_MAX + 5 {
            let path = files.path(&uuid::Uuid::new_v4().to_string()).unwrap();
            std::fs::write(path, "{}").unwrap();
        }
        files.prune().unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join("s")).unwrap().count(), FILES_MAX);
        assert!(files.path("../../../../../../../../etc/passwd-----").is_none());
        assert!(files.load("../x").await.unwrap().is_none());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            let path = files.path(&uuid::Uuid::new_v4().to_string()).unwrap();
            put(&path, b"{}").unwrap();
            assert_eq!((mode(&dir.path().join("s")), mode(&path)), (0o700, 0o600));
        }
        let unreadable = uuid::Uuid::new_v4().to_string();
        std::fs::write(files.path(&unreadable).unwrap(), "{").unwrap();
        assert!(files.load(&unreadable).await.unwrap().is_none());
    }
}
