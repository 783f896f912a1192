//! The tokens that agents show to this node: one for each role, one for all of them.
//!
//! They are the node's own and mean nothing to the broker. `tasuki connect` and `tasuki mcp` on
//! the same machine need the secrets themselves, so the file has them, for its owner alone;
//! whoever can read it can act as this node's roles anyway.
//!
//! - **AT1** The file is replaced whole, by one process at a time.
//! - **AT2** A token that was rotated is in it no more, and a running node learns of that within a
//!   second.
//!
//! What a token may do where is decided in `mcp/transport/bearer.rs`.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{self, File},
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use tasuki_proto::{
    host::{
        checked,
        files::{self, SecretFileError},
    },
    id::RoleId,
    token::{SECRET_BYTES, Secret, Token},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// In the data directory.
pub const FILE: &str = "agent-tokens.json";

/// Beside it, held while it is changed.
const LOCK: &str = "agent-tokens.lock";

/// How often a running node looks whether the file changed, in milliseconds: a token that was
/// rotated is good for nothing within a second.
const LOOK_MS: u64 = 250;

/// Whom a token is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bearing {
    /// Every role of the node, and what only its user may do.
    Node,
    Role(RoleId),
}

/// The tokens of a node, by whom they are for. `Debug` does not show the secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentTokens(BTreeMap<Bearing, Token>);

/// As it is on disk.
#[derive(Serialize, Deserialize)]
struct Written {
    /// Of all roles.
    node: Option<String>,
    roles: BTreeMap<String, String>,
}

impl AgentTokens {
    pub fn get(&self, bearing: &Bearing) -> Option<&Token> {
        self.0.get(bearing)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Bearing, &Token)> {
        self.0.iter()
    }

    /// What is kept in `data`; nothing, if no node was ever guarded there. Blocks on the disk.
    pub fn read(data: &Path) -> io::Result<Self> {
        let path = data.join(FILE);
        let Some(bytes) = files::read_secret(&path).map_err(io::Error::other)? else {
            return Ok(Self::default());
        };
        parse(&bytes).ok_or_else(|| {
            let what = "remove it, and connect each agent anew".to_owned();
            io::Error::other(SecretFileError::Damaged { path, what })
        })
    }

    /// What is kept in `data`, with a token for everyone of `bearings`: made where there was
    /// none. Blocks on the disk.
    pub fn with(data: &Path, bearings: impl IntoIterator<Item = Bearing>) -> io::Result<Self> {
        Self::change(data, |tokens| {
            for bearing in bearings {
                if let Entry::Vacant(place) = tokens.0.entry(bearing) {
                    place.insert(fresh()?);
                }
            }
            Ok(())
        })
    }

    /// Gives `bearing` another token; the one before is good for nothing. Blocks on the disk.
    pub fn rotate(data: &Path, bearing: Bearing) -> io::Result<Self> {
        Self::change(data, |tokens| {
            tokens.0.insert(bearing, fresh()?);
            Ok(())
        })
    }

    fn change(data: &Path, change: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<Self> {
        files::private_directory(data)?;
        let _alone = alone(data)?;
        let before = Self::read(data)?;
        let mut after = before.clone();
        change(&mut after)?;
        if after != before {
            files::replace(&data.join(FILE), &after.written()?)?;
        }
        Ok(after)
    }

    fn written(&self) -> io::Result<Vec<u8>> {
        let mut written = Written { node: None, roles: BTreeMap::new() };
        for (bearing, token) in &self.0 {
            match bearing {
                Bearing::Node => written.node = Some(token.expose()),
                Bearing::Role(role) => {
                    written.roles.insert(role.to_string(), token.expose());
                }
            }
        }
        Ok(checked::to_vec(&written)?)
    }
}

fn parse(bytes: &[u8]) -> Option<AgentTokens> {
    let Written { node, roles } = checked::from_slice(bytes).ok()?;
    let mut tokens = BTreeMap::new();
    if let Some(node) = node {
        tokens.insert(Bearing::Node, node.parse().ok()?);
    }
    for (role, token) in roles {
        tokens.insert(Bearing::Role(role.parse().ok()?), token.parse().ok()?);
    }
    Some(AgentTokens(tokens))
}

fn fresh() -> io::Result<Token> {
    let mut random = [0; SECRET_BYTES];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let secret = Secret::new(random);
    let id = secret.hash().short().parse().expect("hexadecimal digits are an id");
    Ok(Token { id, secret })
}

/// Held by whoever changes the file, for the moment that takes.
fn alone(data: &Path) -> io::Result<File> {
    let lock = files::private(&data.join(LOCK))?;
    lock.lock()?;
    Ok(lock)
}

/// What tells one version of the file from another without reading it.
#[derive(Debug, PartialEq, Eq)]
struct Edition {
    modified: Option<SystemTime>,
    bytes: u64,
    #[cfg(unix)]
    inode: u64,
}

fn edition(data: &Path) -> Option<Edition> {
    let meta = fs::metadata(data.join(FILE)).ok()?;
    Some(Edition {
        modified: meta.modified().ok(),
        bytes: meta.len(),
        #[cfg(unix)]
        inode: std::os::unix::fs::MetadataExt::ino(&meta),
    })
}

/// The tokens in `data` as they are by now, until `stop`. A file that is gone or unreadable has
/// none: who removes it wants nobody let in.
pub fn watched(
    data: &Path,
    first: AgentTokens,
    stop: CancellationToken,
) -> watch::Receiver<AgentTokens> {
    let (tell, told) = watch::channel(first);
    let data = data.to_owned();
    tokio::spawn(async move {
        // Whatever happened since they were read is found at the first look.
        let mut known = None;
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(LOOK_MS)) => {}
                () = stop.cancelled() => return,
            }
            let place = data.clone();
            let looking = tokio::task::spawn_blocking(move || {
                let tokens = look(&place, &mut known);
                (tokens, known)
            });
            let Ok((tokens, now_known)) = looking.await else { return };
            known = now_known;
            if let Some(tokens) = tokens {
                tell.send_if_modified(|told| {
                    let is_other = *told != tokens;
                    *told = tokens;
                    is_other
                });
            }
        }
    });
    told
}

/// `None`: the file is the one that is `known`.
fn look(data: &Path, known: &mut Option<Option<Edition>>) -> Option<AgentTokens> {
    // The edition first: what changes while it is read is read at the next look.
    let edition = Some(edition(data));
    if *known == edition {
        return None;
    }
    *known = edition;
    Some(AgentTokens::read(data).unwrap_or_else(|why| {
        tracing::warn!(%why, "the agents' tokens cannot be read; none is taken");
        AgentTokens::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str) -> Bearing {
        Bearing::Role(name.parse().unwrap())
    }

    #[test]
    fn tokens_are_made_once_and_stay_until_they_are_rotated() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(AgentTokens::read(data.path()).unwrap(), AgentTokens::default());
        let first = AgentTokens::with(data.path(), [Bearing::Node, role("A")]).unwrap();
        let more = AgentTokens::with(data.path(), [role("A"), role("B")]).unwrap();
        for bearing in [Bearing::Node, role("A")] {
            assert_eq!(first.get(&bearing), more.get(&bearing));
        }
        assert_eq!(more.iter().count(), 3);
        let mut secrets: Vec<_> = more.iter().map(|(_, it)| it.secret.expose()).collect();
        secrets.sort();
        secrets.dedup();
        assert_eq!(secrets.len(), 3, "no two are alike");
        let rotated = AgentTokens::rotate(data.path(), role("A")).unwrap();
        assert_ne!(rotated.get(&role("A")), more.get(&role("A")));
        assert_eq!(rotated.get(&role("B")), more.get(&role("B")));
        assert_eq!(AgentTokens::read(data.path()).unwrap(), rotated);
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_for_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let data = tempfile::tempdir().unwrap();
        AgentTokens::with(data.path(), [Bearing::Node]).unwrap();
        for name in [FILE, LOCK] {
            let mode = fs::metadata(data.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    /// Holds AT1.
    #[test]
    fn many_at_once_agree() {
        let data = tempfile::tempdir().unwrap();
        let all: Vec<AgentTokens> = std::thread::scope(|scope| {
            let make = || AgentTokens::with(data.path(), [Bearing::Node, role("A")]).unwrap();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert!(all.iter().all(|it| *it == all[0]));
    }

    #[test]
    fn what_no_node_wrote_is_refused_and_not_replaced() {
        let data = tempfile::tempdir().unwrap();
        let whole = AgentTokens::with(data.path(), [role("A")]).unwrap().written().unwrap();
        let cut = &whole[..whole.len() / 2];
        for bad in [&b"{}"[..], b"", cut, br#"{"node":"x","roles":{}}"#] {
            fs::write(data.path().join(FILE), bad).unwrap();
            let why = AgentTokens::read(data.path()).unwrap_err();
            assert!(why.to_string().contains("remove it"), "{why}");
            AgentTokens::with(data.path(), [role("A")]).unwrap_err();
            assert_eq!(fs::read(data.path().join(FILE)).unwrap(), bad);
        }
    }

    #[test]
    fn a_flipped_bit_lets_nobody_else_in() {
        let data = tempfile::tempdir().unwrap();
        let whole = AgentTokens::with(data.path(), [Bearing::Node, role("A")]).unwrap();
        crate::flips::each(&data.path().join(FILE), |what| match AgentTokens::read(data.path()) {
            Ok(read) => assert_eq!(read, whole, "{what}"),
            Err(why) => assert!(why.to_string().contains(FILE), "{what}: {why}"),
        });
    }

    /// Holds AT2.
    #[tokio::test]
    async fn a_change_is_seen_and_a_file_that_is_gone_lets_nobody_in() {
        let data = tempfile::tempdir().unwrap();
        let first = AgentTokens::with(data.path(), [role("A")]).unwrap();
        let stop = CancellationToken::new();
        let mut told = watched(data.path(), first, stop.clone());
        let rotated = AgentTokens::rotate(data.path(), role("A")).unwrap();
        assert_eq!(*told.wait_for(|it| *it == rotated).await.unwrap(), rotated);
        fs::remove_file(data.path().join(FILE)).unwrap();
        drop(told.wait_for(|it| *it == AgentTokens::default()).await.unwrap());
        let anew = AgentTokens::with(data.path(), [role("A")]).unwrap();
        drop(told.wait_for(|it| *it == anew).await.unwrap());
        stop.cancel();
        assert!(told.wait_for(|_| false).await.is_err(), "nobody looks any more");
    }
}
