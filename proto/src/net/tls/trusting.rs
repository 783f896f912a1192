//! How a client knows that it speaks to the right server, and what it shows itself.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    client::{Resumption, WebPkiServerVerifier},
    sign::SingleCertAndKey,
};
use tokio_rustls::TlsConnector;

use super::{
    TlsError, VERSIONS,
    identity::{authorities, pair},
    pinned::Pinned,
    protocols, provider,
};
use crate::invitation::Trust;

/// Whom a client trusts, and with what it answers when asked who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusting {
    pub trust: Trust,
    /// Authorities in PEM that vouch for servers; the platform's own when there is no file. A
    /// pinned certificate needs none.
    pub authorities: Option<PathBuf>,
    /// A certificate and its key in PEM, for servers that ask for one.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl Trusting {
    pub fn new(trust: Trust) -> Self {
        Self { trust, authorities: None, client: None }
    }

    /// Opens connections on which one of `alpn` is spoken. Reads the files.
    ///
    /// # Errors
    /// When a file cannot be used, or nobody would be trusted.
    pub fn connector(&self, alpn: &[&[u8]]) -> Result<TlsConnector, TlsError> {
        let versions = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .map_err(TlsError::Setup)?;
        let trusting = match self.trust {
            Trust::Pinned(pin) => versions
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Pinned { pin, provider: provider() })),
            Trust::Authorities => {
                let roots = Arc::new(self.roots()?);
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider());
                let verifier =
                    verifier.build().map_err(|why| TlsError::NoAuthorities(why.to_string()))?;
                versions.with_webpki_verifier(verifier)
            }
        };
        let mut config = match &self.client {
            None => trusting.with_no_client_auth(),
            Some((cert, key)) => {
                let pair = Arc::new(SingleCertAndKey::from(pair(cert, key)?));
                trusting.with_client_cert_resolver(pair)
            }
        };
        config.alpn_protocols = protocols(alpn);
        config.resumption = Resumption::disabled();
        Ok(TlsConnector::from(Arc::new(config)))
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        if let Some(path) = &self.authorities {
            return authorities(path);
        }
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        // A platform's store often holds some that no program can read.
        let (usable, _) = roots.add_parsable_certificates(found.certs);
        if usable == 0 {
            let why = found.errors.first().map_or_else(|| "none found".into(), ToString::to_string);
            return Err(TlsError::NoAuthorities(why));
        }
        Ok(roots)
    }
}
