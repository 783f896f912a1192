//! Pinned certificates, and what is not TLS 1.3.

use std::{fs, sync::Arc};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::{CertifiedKey, SingleCertAndKey},
};

use super::*;
use crate::{
    invitation::{Fingerprint, Trust},
    net::tls::{ALPN_H2, ALPN_HTTP1, ServerIdentity, Trusting, VERSIONS, provider},
};

fn own(folder: &TempDir) -> ServerIdentity {
    ServerIdentity::own(&folder.path().join("tls"), &[]).unwrap()
}

fn pinning(pin: Fingerprint) -> TlsConnector {
    Trusting::new(Trust::Pinned(pin)).connector(&[ALPN_H2]).unwrap()
}

#[tokio::test]
async fn the_right_pin_is_enough_whatever_the_server_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let server = own(&folder);
    let acceptor = server.acceptor(None, &[ALPN_H2]).unwrap();
    let connector = pinning(server.fingerprint());
    for host in ["localhost", "elsewhere.example", "192.0.2.7", "[fe80::1%eth0]", "my_host"] {
        talk(&acceptor, &connector, host).await.unwrap();
    }
    let nobody = talk(&acceptor, &connector, "no host").await;
    assert!(matches!(nobody, Err(ConnectError::Host(_))), "{nobody:?}");
}

#[tokio::test]
async fn another_certificate_than_the_pinned_one_is_refused_by_both_fingerprints() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (server, joined) = (own(&folder), own(&other));
    let acceptor = server.acceptor(None, &[ALPN_H2]).unwrap();
    let refused = talk(&acceptor, &pinning(joined.fingerprint()), "broker.example").await;
    let refused = refused.unwrap_err();
    assert!(refused.is_final());
    let (shown, pinned) = (server.fingerprint(), joined.fingerprint());
    let words = format!(
        "broker.example shows another certificate ({shown}) than the one that was pinned \
         ({pinned}): "
    );
    assert!(refused.to_string().starts_with(&words), "{refused}");
}

#[tokio::test]
async fn the_right_pin_is_enough_whatever_the_dates_say() {
    let folder = tempfile::tempdir().unwrap();
    for (name, years) in [("past.example", (1990, 1991)), ("future.example", (3000, 3001))] {
        let (cert, key) = self_made(folder.path(), name, years);
        let server = ServerIdentity::given(&cert, &key).unwrap();
        let acceptor = server.acceptor(None, &[ALPN_H2]).unwrap();
        talk(&acceptor, &pinning(server.fingerprint()), "localhost").await.unwrap();
    }
}

/// Everybody who connects gets the certificate; only the server has the key.
#[tokio::test]
async fn a_copy_of_the_pinned_certificate_is_of_no_use_without_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let server = own(&folder);
    let (_, other) = self_made(folder.path(), "other", (2000, 3000));
    let cert = CertificateDer::from_pem_file(folder.path().join("tls/cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(other).unwrap();
    let key = provider().key_provider.load_private_key(key).unwrap();
    let stolen = SingleCertAndKey::from(CertifiedKey::new(vec![cert], key));
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(VERSIONS)
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(stolen));
    config.alpn_protocols = vec![ALPN_H2.to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let refused = talk(&acceptor, &pinning(server.fingerprint()), "localhost").await;
    assert!(matches!(refused, Err(ConnectError::Forged { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_pin_reads_as_openssl_prints_it() {
    let folder = tempfile::tempdir().unwrap();
    let cert = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n";
    let path = folder.path().join("abc.pem");
    fs::write(&path, cert).unwrap();
    let der = CertificateDer::from_pem_file(&path).unwrap();
    // SHA-256("abc"), FIPS 180-2 appendix B.1.
    let known = "BA:78:16:BF:8F:01:CF:EA:41:41:40:DE:5D:AE:22:23:\
                 B0:03:61:A3:96:17:7A:9C:B4:10:FF:61:F2:00:15:AD";
    assert_eq!(crate::net::tls::fingerprint(&der).to_string(), known);
}

#[tokio::test]
async fn a_server_that_speaks_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = own(&folder);
    let acceptor = server.acceptor(None, &[ALPN_HTTP1]).unwrap();
    let refused = talk(&acceptor, &pinning(server.fingerprint()), "localhost").await;
    assert!(matches!(refused, Err(ConnectError::Protocol { .. })), "{refused:?}");
    let acceptor = server.acceptor(None, &[]).unwrap();
    let refused = talk(&acceptor, &pinning(server.fingerprint()), "localhost").await.unwrap_err();
    assert!(refused.to_string().ends_with("did not say which protocol follows"), "{refused}");

    let (near, mut far) = pipe();
    far.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    let refused = connect(&pinning(server.fingerprint()), near, "localhost").await;
    assert!(matches!(refused, Err(ConnectError::NotTls { .. })), "{refused:?}");
    let (near, far) = pipe();
    drop(far);
    let refused = connect(&pinning(server.fingerprint()), near, "localhost").await;
    assert!(matches!(refused, Err(ConnectError::Broken { .. })), "{refused:?}");
}

/// A record of the handshake with one message.
fn record(kind: u8, message: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| u16::try_from(bytes).unwrap().to_be_bytes();
    let mut record = vec![22, 3, 3];
    record.extend(length(message.len() + 4));
    record.extend([kind, 0]);
    record.extend(length(message.len()));
    record.extend(message);
    record
}

/// TLS 1.2, ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, with the extensions it needs.
fn tls_1_2_hello() -> Vec<u8> {
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    let groups = [0, 10, 0, 4, 0, 2, 0, 23];
    let schemes = [0, 13, 0, 4, 0, 2, 4, 3];
    hello.extend([0, 16]);
    hello.extend(groups);
    hello.extend(schemes);
    record(1, &hello)
}

#[tokio::test]
async fn tls_1_2_is_refused_by_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let acceptor = own(&folder).acceptor(None, &[ALPN_H2]).unwrap();
    let (mut near, far) = pipe();
    near.write_all(&tls_1_2_hello()).await.unwrap();
    let refused = timeout(PATIENCE, acceptor.accept(far)).await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("peer is incompatible"), "{refused}");
    let mut answer = Vec::new();
    near.read_to_end(&mut answer).await.unwrap();
    // A fatal alert: protocol_version.
    assert_eq!(answer, [21, 3, 3, 0, 2, 2, 70]);
}

#[tokio::test]
async fn tls_1_2_is_refused_by_the_client() {
    let (near, mut far) = pipe();
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0xc0, 0x2b, 0]);
    far.write_all(&record(2, &hello)).await.unwrap();
    let refused = connect(&pinning(Fingerprint([0; 32])), near, "localhost").await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, ConnectError::Protocol { .. }), "{refused:?}");
}
