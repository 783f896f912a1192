//! How whoever owns a data directory administrates the broker that serves it.
//!
//! A serving broker writes `admin.json` beside its data: where it is, how to know it, and a token
//! that may do everything. Who can read the file is an administrator; so only this user can.
//!
//! **Invariant:** one administration token per data directory: the one of an earlier start is
//! kept as long as it is good.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{
    host::{
        checked,
        files::{self, SecretFileError},
    },
    id::TokenId,
    invitation::Fingerprint,
    token::{SECRET_BYTES, Secret, SecretHash, Token},
};

/// The file's name, in the broker's part of a data directory.
pub const FILE: &str = "admin.json";

/// What the token in it is called where tokens are listed.
pub const LABEL: &str = "admin of this data directory";

/// What `admin.json` says.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminFile {
    /// Where the broker is reached from this machine.
    pub url: String,
    /// `HOST:PORT` under which others reach it.
    pub advertise: String,
    /// Of the broker's certificate; `None` for an open broker, which has none.
    pub fingerprint: Option<String>,
    /// Authorities vouch for the certificate, so whoever joins need not pin it.
    #[serde(default)]
    pub is_vouched_for: bool,
    pub token: String,
    /// The broker's process; `None`: an earlier release wrote this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Where it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// It runs beside a node in one process, of which another node's process may take its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_node: bool,
    /// The token with the secret of a rotation that may not have come about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_token: Option<String>,
}

impl std::fmt::Debug for AdminFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminFile").field("url", &self.url).finish_non_exhaustive()
    }
}

impl AdminFile {
    /// `None`: no broker served this data directory.
    ///
    /// # Errors
    /// When others can read it, or it is damaged.
    pub fn read(data: &Path) -> Result<Option<Self>, SecretFileError> {
        let path = data.join(FILE);
        let Some(bytes) = files::read_secret(&path)? else { return Ok(None) };
        let damaged =
            |why: checked::Damage| SecretFileError::Damaged { path, what: why.to_string() };
        checked::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// # Errors
    /// When the directory cannot be written to.
    pub fn write(&self, data: &Path) -> io::Result<()> {
        files::replace(&data.join(FILE), &checked::to_vec(self)?)
    }

    /// The tokens that may be good, likelier first.
    pub fn tokens(&self) -> Vec<Token> {
        let texts = [Some(&self.token), self.next_token.as_ref()];
        texts.into_iter().flatten().filter_map(|text| text.parse().ok()).collect()
    }
}

/// How a broker that listens is reached.
#[derive(Debug, Clone)]
pub struct Serving {
    /// Where it listens.
    pub address: SocketAddr,
    /// `HOST:PORT` under which others reach it.
    pub advertise: String,
    /// `None`: it is open.
    pub fingerprint: Option<Fingerprint>,
    /// Authorities vouch for its certificate.
    pub is_vouched_for: bool,
    /// It runs beside a node in one process.
    pub has_node: bool,
}

/// Why `admin.json` cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum AdminError<E> {
    #[error("the system's random source failed: {0}")]
    Random(#[from] getrandom::Error),
    #[error("the administration token cannot be issued: {0}")]
    Issue(E),
    #[error("{FILE} cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// Writes the file for a broker that serves `data`.
///
/// `is_good` says whether a token may administrate; `issue` makes one that may do everything,
/// with [`LABEL`], and answers its id.
///
/// # Errors
/// When no token can be issued, or the file not written.
pub async fn prepare<E>(
    data: &Path,
    serving: Serving,
    is_good: impl Fn(&Token) -> bool,
    issue: impl AsyncFnOnce(SecretHash) -> Result<TokenId, E>,
) -> Result<AdminFile, AdminError<E>> {
    let earlier = AdminFile::read(data).unwrap_or_else(|why| {
        tracing::warn!("{why}; the broker makes itself another administration token");
        None
    });
    let earlier = earlier.map(|file| file.tokens()).unwrap_or_default();
    let token = match earlier.into_iter().find(|token| is_good(token)) {
        Some(token) => token,
        None => {
            let secret = random_secret()?;
            let id = issue(secret.hash()).await.map_err(AdminError::Issue)?;
            Token { id, secret }
        }
    };
    let scheme = if serving.fingerprint.is_some() { "https" } else { "http" };
    let file = AdminFile {
        url: format!("{scheme}://{}", from_here(serving.address)),
        advertise: serving.advertise,
        fingerprint: serving.fingerprint.map(|it| it.to_string()),
        is_vouched_for: serving.is_vouched_for,
        token: token.expose(),
        pid: Some(std::process::id()),
        listen: Some(serving.address),
        has_node: serving.has_node,
        next_token: None,
    };
    file.write(data)?;
    Ok(file)
}

/// A secret, or a code, that nobody has.
///
/// # Errors
/// When the system's random source fails.
pub fn random_secret() -> Result<Secret, getrandom::Error> {
    let mut random = [0; SECRET_BYTES];
    getrandom::fill(&mut random)?;
    Ok(Secret::new(random))
}

/// Where this machine reaches what listens at `address`.
fn from_here(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match address.ip() {
        IpAddr::V4(ip) => if ip.is_unspecified() { Ipv4Addr::LOCALHOST } else { ip }.into(),
        IpAddr::V6(ip) => if ip.is_unspecified() { Ipv6Addr::LOCALHOST } else { ip }.into(),
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn serving(address: &str) -> Serving {
        Serving {
            address: address.parse().unwrap(),
            advertise: "host:7420".to_owned(),
            fingerprint: Some(Fingerprint([7; 32])),
            is_vouched_for: false,
            has_node: false,
        }
    }

    /// Starts again and again with tokens that are good or not; answers the token of each start.
    async fn starts(data: &Path, is_good: &[bool]) -> Vec<Token> {
        let issued = Cell::new(0);
        let mut tokens = Vec::new();
        for is_good in is_good {
            let issue = async |hash: SecretHash| {
                issued.set(issued.get() + 1);
                Ok::<_, io::Error>(hash.short().parse().unwrap())
            };
            let file = prepare(data, serving("0.0.0.0:7420"), |_| *is_good, issue).await.unwrap();
            assert_eq!(AdminFile::read(data).unwrap().unwrap(), file);
            tokens.extend(file.tokens());
        }
        tokens
    }

    #[tokio::test]
    async fn a_token_is_kept_over_starts_while_it_is_good() {
        let data = tempfile::tempdir().unwrap();
        let tokens = starts(data.path(), &[true, true, false, true]).await;
        assert_eq!(tokens[0], tokens[1]);
        assert_ne!(tokens[1], tokens[2]);
        assert_eq!(tokens[2], tokens[3]);
        assert_eq!(tokens[0].id.as_str(), tokens[0].secret.hash().short());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_token_that_others_could_read_is_not_kept() {
        use std::os::unix::fs::PermissionsExt as _;
        let data = tempfile::tempdir().unwrap();
        let before = starts(data.path(), &[true]).await;
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(data.path().join(FILE), open).unwrap();
        assert!(matches!(AdminFile::read(data.path()), Err(SecretFileError::NotPrivate { .. })));
        assert_ne!(starts(data.path(), &[true]).await, before);
    }

    #[tokio::test]
    async fn the_second_secret_counts_when_the_first_is_over() {
        let data = tempfile::tempdir().unwrap();
        let old = starts(data.path(), &[true]).await.remove(0);
        let new = Token { id: old.id.clone(), secret: random_secret().unwrap() };
        let mut file = AdminFile::read(data.path()).unwrap().unwrap();
        file.next_token = Some(new.expose());
        file.write(data.path()).unwrap();
        let issue = async |_| Err(io::Error::other("nothing is issued"));
        let file = prepare(data.path(), serving("[::]:1"), |it| *it == new, issue).await.unwrap();
        assert_eq!((file.tokens(), file.next_token), (vec![new], None));
    }

    #[test]
    fn a_broker_is_reached_from_its_own_machine_by_a_real_address() {
        for (listens, reached) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:2", "[::1]:2"),
            ("10.0.0.1:3", "10.0.0.1:3"),
            ("127.0.0.1:4", "127.0.0.1:4"),
        ] {
            assert_eq!(from_here(listens.parse().unwrap()).to_string(), reached);
        }
    }

    #[test]
    fn nothing_that_is_printed_for_programmers_shows_the_token() {
        let token = Token { id: "a".parse().unwrap(), secret: Secret::new([0; SECRET_BYTES]) };
        let file = AdminFile {
            url: "http://127.0.0.1:1".to_owned(),
            advertise: "127.0.0.1:1".to_owned(),
            fingerprint: None,
            is_vouched_for: false,
            token: token.expose(),
            pid: None,
            listen: None,
            has_node: false,
            next_token: None,
        };
        assert!(!format!("{file:?}").contains("AAAA"));
    }
}
