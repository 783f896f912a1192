//! Opening a TLS stream, and why it did not open, in words for people.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustls::{
    AlertDescription, CertificateError, Error, SignatureScheme, client::ResolvesClientCert,
    pki_types::ServerName, sign::CertifiedKey,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{ALPN_H2, pinned::Other};
use crate::invitation::Fingerprint;

/// For a server that asked for a certificate to say its first word. It says it, or that the
/// certificate will not do, after half a round trip.
const VERDICT_WITHIN: Duration = Duration::from_secs(2);

/// Why there is no TLS connection. Nothing but the handshake was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(
        "{host} shows another certificate ({shown}) than the one that was pinned ({pinned}): \
         either it was set up anew, or somebody in between pretends to be it. Nothing was sent. \
         Ask whoever runs it; if it was set up anew, join again with a new invitation"
    )]
    OtherCertificate { host: String, shown: Fingerprint, pinned: Fingerprint },
    #[error(
        "the certificate of {host} is not for that name ({why}): reach it by a name that its \
         certificate has, or pin the certificate"
    )]
    Name { host: String, why: Error },
    #[error("no authority that is trusted here vouches for {host}: {why}")]
    NotVouched { host: String, why: Error },
    #[error(
        "{host} shows a certificate that is forged or that it has no key for: somebody pretends \
         to be it. Nothing was sent"
    )]
    Forged { host: String },
    #[error("{host} does not speak TLS there: {why}")]
    NotTls { host: String, why: Error },
    #[error("{host} speaks TLS, but not what was asked for: {why}")]
    Protocol { host: String, why: String },
    #[error("{host} lets nobody in without a certificate of its authority: {why}")]
    ClientCertificate { host: String, why: Error },
    #[error("{0:?} is neither a host name nor an address")]
    Host(String),
    #[error("the connection to {host} broke while TLS was being set up: {source}")]
    Broken { host: String, source: io::Error },
}

impl ConnectError {
    /// The other side is not whom it should be, or does not want this one: trying again changes
    /// nothing until a person does something.
    pub fn is_final(&self) -> bool {
        match self {
            Self::OtherCertificate { .. }
            | Self::Name { .. }
            | Self::NotVouched { .. }
            | Self::Forged { .. }
            | Self::ClientCertificate { .. }
            | Self::Host(_) => true,
            // Something else may listen there for a moment.
            Self::NotTls { .. } | Self::Protocol { .. } | Self::Broken { .. } => false,
        }
    }

    /// What an error of a stream means.
    #[expect(clippy::wildcard_enum_match_arm, reason = "rustls names a hundred faults of peers")]
    pub fn of(host: &str, error: io::Error) -> Self {
        let host = host.to_owned();
        let Some(why) = error.get_ref().and_then(|it| it.downcast_ref::<Error>()).cloned() else {
            return Self::Broken { host, source: error };
        };
        match &why {
            Error::InvalidCertificate(CertificateError::Other(other)) => {
                match other.0.downcast_ref::<Other>() {
                    Some(&Other { shown, pinned }) => {
                        Self::OtherCertificate { host, shown, pinned }
                    }
                    None => Self::NotVouched { host, why },
                }
            }
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => Self::Name { host, why },
            Error::InvalidCertificate(CertificateError::BadSignature) => Self::Forged { host },
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => {
                Self::NotVouched { host, why }
            }
            Error::InvalidMessage(_) => Self::NotTls { host, why },
            Error::AlertReceived(
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::UnknownCA
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::DecryptError
                | AlertDescription::AccessDenied,
            ) => Self::ClientCertificate { host, why },
            _ => Self::Protocol { host, why: why.to_string() },
        }
    }
}

/// Speaks TLS over `stream`, with whom `connector` trusts. `host` is the name or address that was
/// dialled; an IPv6 address may stand in brackets.
///
/// # Errors
/// Says who is there instead, or what broke. Waits as long as the other side does: bound it.
pub async fn connect<S>(
    connector: &TlsConnector,
    stream: S,
    host: &str,
) -> Result<TlsStream<S>, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    // An IPv6 address may say by which interface it is reached; no certificate does.
    let bare = bare.split_once('%').map_or(bare, |(address, _)| address);
    let name = ServerName::try_from(bare.to_owned());
    let name = name.map_err(|_| ConnectError::Host(host.to_owned()))?;
    let mut config = connector.config().as_ref().clone();
    let resolver = config.client_auth_cert_resolver.clone();
    let asking = Arc::new(Asking { resolver, was_asked: AtomicBool::new(false) });
    config.client_auth_cert_resolver = asking.clone();
    let opened = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let mut opened = opened.map_err(|error| ConnectError::of(host, error))?;
    let agreed = opened.get_ref().1.alpn_protocol();
    if agreed.is_none() && !connector.config().alpn_protocols.is_empty() {
        let why = "it did not say which protocol follows".to_owned();
        return Err(ConnectError::Protocol { host: host.to_owned(), why });
    }
    if agreed == Some(ALPN_H2) && asking.was_asked.load(Ordering::Relaxed) {
        // The handshake is over for this side before the other has judged the certificate. In
        // HTTP/2 the server has something to say at once, so what comes first is the verdict.
        if let Ok(Err(error)) = timeout(VERDICT_WITHIN, opened.fill_buf()).await {
            return Err(ConnectError::of(host, error));
        }
    }
    Ok(opened)
}

/// Notices that a server asks for a certificate.
#[derive(Debug)]
struct Asking {
    resolver: Arc<dyn ResolvesClientCert>,
    was_asked: AtomicBool,
}

impl ResolvesClientCert for Asking {
    fn resolve(
        &self,
        root_hint_subjects: &[&[u8]],
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        self.was_asked.store(true, Ordering::Relaxed);
        self.resolver.resolve(root_hint_subjects, schemes)
    }

    fn has_certs(&self) -> bool {
        self.resolver.has_certs()
    }
}
