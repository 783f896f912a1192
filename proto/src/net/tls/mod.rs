//! TLS as every part of Tasuki uses it: TLS 1.3 with *ring*, and nothing else.
//!
//! [`ServerIdentity`] is what a server shows, [`Trusting`] is how a client knows it, [`connect`]
//! opens a stream and says in words why it did not. The same for gRPC and for HTTP/1.1.
//!
//! **Invariants:** the provider and the version are named wherever a configuration is made, so no
//! default of the process and no feature of a dependency changes them. Nothing is resumed and
//! nothing is sent early: each connection is judged by itself, so that a certificate that is no
//! longer trusted stops the next connection.
//!
//! Not here: who may do what once connected (tokens), how many may connect (the broker's `connection`).

mod connect;
mod error;
mod identity;
mod issuer;
mod kept;
mod pinned;
#[cfg(test)]
mod tests;
mod trusting;

use std::sync::Arc;

use rustls::{SupportedProtocolVersion, crypto::CryptoProvider};

pub use self::{
    connect::{ConnectError, connect},
    error::TlsError,
    identity::ServerIdentity,
    trusting::Trusting,
};
use crate::invitation::Fingerprint;

/// What gRPC is called when protocols are agreed on (ALPN).
pub const ALPN_H2: &[u8] = b"h2";
/// And HTTP/1.1.
pub const ALPN_HTTP1: &[u8] = b"http/1.1";

/// Both ends are ours and new; nothing older has to be understood.
static VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn protocols(alpn: &[&[u8]]) -> Vec<Vec<u8>> {
    alpn.iter().map(|protocol| protocol.to_vec()).collect()
}

/// The SHA-256 of a certificate, as `openssl x509 -fingerprint -sha256` has it.
fn fingerprint(certificate: &[u8]) -> Fingerprint {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13();
    let sha256 = suite.expect("its name says so").common.hash_provider;
    let hash = sha256.hash(certificate);
    Fingerprint(hash.as_ref().try_into().expect("SHA-256 has 32 bytes"))
}
