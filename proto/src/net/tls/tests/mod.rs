//! Real handshakes, over memory; each side judges by the bytes of the other alone.

mod authorities;
mod kept;
mod pins;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{ConnectError, connect};

/// A handshake in memory takes a millisecond.
const PATIENCE: Duration = Duration::from_secs(10);

fn pipe() -> (DuplexStream, DuplexStream) {
    tokio::io::duplex(64 * 1024)
}

/// Connects, is greeted, and has a word echoed. What the client says of it.
async fn talk(
    acceptor: &TlsAcceptor,
    connector: &TlsConnector,
    host: &str,
) -> Result<(), ConnectError> {
    let (near, far) = pipe();
    let server = async {
        let Ok(mut stream) = acceptor.accept(far).await else { return };
        let mut word = [0; 4];
        let greeted = stream.write_all(b"hello ").await;
        if greeted.is_ok() && stream.read_exact(&mut word).await.is_ok() {
            stream.write_all(&word).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    };
    let client = async {
        let mut stream = connect(connector, near, host).await?;
        let mut word = Vec::new();
        let talked = async {
            stream.write_all(b"word").await?;
            stream.read_to_end(&mut word).await
        };
        talked.await.map_err(|error| ConnectError::of(host, error))?;
        assert_eq!(word, b"hello word");
        Ok(())
    };
    let both = async { tokio::join!(client, server).0 };
    timeout(PATIENCE, both).await.expect("handshakes end")
}

/// An authority, and files in a folder of its own.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for `name` and its key.
    fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        write_pair(self.folder.path(), name, &certificate.pem(), &key)
    }
}

/// A certificate that vouches for itself, valid between the two years.
fn self_made(folder: &Path, name: &str, (from, until): (i32, i32)) -> (PathBuf, PathBuf) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    write_pair(folder, name, &certificate.pem(), &key)
}

fn write_pair(folder: &Path, name: &str, cert: &str, key: &KeyPair) -> (PathBuf, PathBuf) {
    let files = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    crate::host::files::replace(&files.0, cert.as_bytes()).unwrap();
    crate::host::files::replace(&files.1, key.serialize_pem().as_bytes()).unwrap();
    files
}
