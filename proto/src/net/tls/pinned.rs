//! Trust in one certificate, whatever its name and dates.
//!
//! **Invariant:** whoever is accepted proved in this handshake that it has the certificate's key:
//! a certificate can be copied by anybody who connects.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, PeerIncompatible, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use super::fingerprint;
use crate::invitation::Fingerprint;

/// The certificate was not the pinned one.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("certificate {shown} is not {pinned}")]
pub(super) struct Other {
    pub(super) shown: Fingerprint,
    pub(super) pinned: Fingerprint,
}

#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) pin: Fingerprint,
    pub(super) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = fingerprint(end_entity);
        if shown == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        let other = OtherError(Arc::new(Other { shown, pinned: self.pin }));
        Err(CertificateError::Other(other).into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
