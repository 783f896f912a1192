//! What is wrong with the files that TLS is configured from.
//!
//! **Invariant:** no text shows what a key's file holds.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Why a server's identity or a client's trust cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path} cannot be read: {source}", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} cannot be written: {source}", path = path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("{path} holds no whole certificate in PEM", path = path.display())]
    Certificate { path: PathBuf },
    #[error("{path} holds no whole private key in PEM", path = path.display())]
    Key { path: PathBuf },
    #[error(
        "others on this machine may read or write {path}, so the key in it counts as known to \
         them; replace the certificate and its key, or if nobody else uses this machine: \
         chmod 600 {path}",
        path = path.display()
    )]
    Exposed { path: PathBuf },
    #[error(
        "the certificate in {cert} and the key in {key} cannot be used together: {why}",
        cert = cert.display(),
        key = key.display()
    )]
    Pair { cert: PathBuf, key: PathBuf, why: rustls::Error },
    #[error(
        "a file in {folder} is damaged: certificate, key and checksum do not fit",
        folder = folder.display()
    )]
    Changed { folder: PathBuf },
    /// An own certificate that others may have pinned.
    #[error(
        "{what}. Whoever joined knows this side by that certificate: bring {folder} back from a \
         backup; or remove it to begin with a new certificate, and everybody has to join again",
        folder = folder.display()
    )]
    Lost { folder: PathBuf, what: Box<Self> },
    #[error("{0:?} cannot stand in a certificate: it is neither a host name nor an address")]
    Name(String),
    #[error("making a certificate failed: {0}")]
    Making(rcgen::Error),
    #[error("{path} holds no authority that can be used: {why}", path = path.display())]
    Authority { path: PathBuf, why: String },
    #[error(
        "this machine trusts no authorities that could vouch for the server ({0}); name a file \
         with yours, or pin the certificate"
    )]
    NoAuthorities(String),
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

impl TlsError {
    pub(super) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), source }
    }

    pub(super) fn unwritable(path: &Path, source: io::Error) -> Self {
        Self::Unwritable { path: path.to_owned(), source }
    }
}
