//! What a server shows: a certificate of its own making, or one it was given.

use std::{fmt, fs, io, path::Path, sync::Arc};

use rustls::{
    RootCertStore, ServerConfig,
    client::verify_server_name,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio_rustls::TlsAcceptor;

use super::{TlsError, VERSIONS, fingerprint, issuer, kept, protocols, provider};
use crate::{
    host::files::{self, SecretFileError},
    invitation::Fingerprint,
};

/// A server's certificate and key. `Debug` shows the fingerprint alone.
#[derive(Clone)]
pub struct ServerIdentity {
    pair: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
    is_vouched_for: bool,
}

impl ServerIdentity {
    /// The pair kept in `folder` (`cert.pem` and `key.pem`, the latter for this user alone), made
    /// at first use.
    ///
    /// Clients pin the certificate: the pin is the trust, so the dates are as long as dates go,
    /// and a pair once made stays. `names` (host names and addresses) go into a new one beside
    /// the loopback's; they matter to clients that compare names all the same.
    ///
    /// The caller sees to it that no other process does this with the same folder meanwhile.
    ///
    /// # Errors
    /// When only half a pair is there, or a damaged one: others pinned it, so it is never
    /// replaced silently. When others can read the key.
    pub fn own(folder: &Path, names: &[String]) -> Result<Self, TlsError> {
        let (cert, key) = kept::pair(folder, names)?;
        let own = Self::given(&cert, &key);
        own.and_then(|own| kept::check(folder).map(|()| own)).map_err(|what| {
            // A key that others can read is whole.
            if matches!(what, TlsError::Exposed { .. }) {
                return what;
            }
            TlsError::Lost { folder: folder.to_owned(), what: Box::new(what) }
        })
    }

    /// A certificate, with what lies between it and its authority after it, and its key; PEM.
    ///
    /// # Errors
    /// When a file cannot be read, holds something else, or the two do not belong together.
    pub fn given(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let pair = pair(cert, key)?;
        let leaf = pair.end_entity_cert().map_err(|why| mismatch(cert, key, why))?;
        let fingerprint = fingerprint(leaf);
        let is_vouched_for = issuer::is_of_its_own(leaf) == Some(false);
        Ok(Self { pair: Arc::new(pair), fingerprint, is_vouched_for })
    }

    /// The SHA-256 of the certificate: what clients pin.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// An authority signed it: whoever trusts that authority need not pin it, and had better not,
    /// since authorities' certificates are replaced every few months.
    pub fn is_vouched_for(&self) -> bool {
        self.is_vouched_for
    }

    /// Whether the certificate is for a host name or an address.
    pub fn is_for(&self, host: &str) -> bool {
        let Ok(name) = ServerName::try_from(host) else { return false };
        let Ok(leaf) = self.pair.end_entity_cert() else { return false };
        let leaf = ParsedCertificate::try_from(leaf);
        leaf.is_ok_and(|leaf| verify_server_name(&leaf, &name).is_ok())
    }

    /// Accepts clients that speak one of `alpn`; with `client_ca`, those alone that show a
    /// certificate of one of the authorities in that file.
    ///
    /// # Errors
    /// When the file is not readable or holds no authority.
    pub fn acceptor(
        &self,
        client_ca: Option<&Path>,
        alpn: &[&[u8]],
    ) -> Result<TlsAcceptor, TlsError> {
        let versions = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .map_err(TlsError::Setup)?;
        let clients = match client_ca {
            None => versions.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                let verifier = verifier.build().map_err(|why| TlsError::Authority {
                    path: path.to_owned(),
                    why: why.to_string(),
                })?;
                versions.with_client_cert_verifier(verifier)
            }
        };
        let mut config =
            clients.with_cert_resolver(Arc::new(SingleCertAndKey::from(self.pair.clone())));
        config.alpn_protocols = protocols(alpn);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerIdentity")
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// Reads a certificate, with those that follow it, and its key.
pub(super) fn pair(cert: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(cert)?;
    let text = files::read_key(key).map_err(|why| match why {
        SecretFileError::Unreadable { path, source } => TlsError::Unreadable { path, source },
        SecretFileError::NotPrivate { path } | SecretFileError::NotOwn { path } => {
            TlsError::Exposed { path }
        }
        SecretFileError::Damaged { path, .. } => TlsError::Key { path },
    })?;
    let missing = || TlsError::unreadable(key, io::ErrorKind::NotFound.into());
    let parsed = PrivateKeyDer::from_pem_slice(&text.ok_or_else(missing)?);
    let parsed = parsed.map_err(|_| TlsError::Key { path: key.to_owned() })?;
    CertifiedKey::from_der(chain, parsed, &provider()).map_err(|why| mismatch(cert, key, why))
}

/// The authorities in a file.
pub(super) fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|why| TlsError::Authority { path: path.to_owned(), why: why.to_string() })?;
    }
    Ok(roots)
}

/// At least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = fs::read(path).map_err(|source| TlsError::unreadable(path, source))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => Err(TlsError::Certificate { path: path.to_owned() }),
    }
}

fn mismatch(cert: &Path, key: &Path, why: rustls::Error) -> TlsError {
    TlsError::Pair { cert: cert.to_owned(), key: key.to_owned(), why }
}
