//! A certificate of a server's own making, kept in a folder.
//!
//! **Invariant:** the folder appears with its files in it, whole and durable, or not at all: they
//! are written to a folder beside it that then takes its name. So half a pair is never the trace
//! of a crash, and is never repaired by making another. A checksum lies beside the pair, since a
//! certificate of which a bit flipped may be one all the same, that nobody pinned.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, date_time_ymd,
};

use super::TlsError;

/// What a client on the same machine may call the server.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// In the folder; an earlier release wrote none.
const CHECK: &str = "check";

/// The two files, which are there afterwards.
pub(super) fn pair(folder: &Path, names: &[String]) -> Result<(PathBuf, PathBuf), TlsError> {
    let files = (folder.join("cert.pem"), folder.join("key.pem"));
    if is_new(folder).map_err(|source| TlsError::unreadable(folder, source))? {
        make(folder, names)?;
    }
    Ok(files)
}

/// Whether the two files are as they were written.
pub(super) fn check(folder: &Path) -> Result<(), TlsError> {
    let read = |name| {
        let path = folder.join(name);
        fs::read(&path).map_err(|source| TlsError::unreadable(&path, source))
    };
    let noted = match fs::read(folder.join(CHECK)) {
        Ok(noted) => noted,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(TlsError::unreadable(&folder.join(CHECK), source)),
    };
    let is_same = noted == checksum(&read("cert.pem")?, &read("key.pem")?).as_bytes();
    is_same.then_some(()).ok_or_else(|| TlsError::Changed { folder: folder.to_owned() })
}

fn checksum(certificate: &[u8], key: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(certificate).update(key);
    hasher.finalize().to_hex().to_string()
}

/// Nothing was ever kept there, as far as can be seen.
fn is_new(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn make(folder: &Path, names: &[String]) -> Result<(), TlsError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(TlsError::Making)?;
    let certificate = certificate(&key, names)?;
    write(folder, &certificate, &key.serialize_pem())
        .map_err(|source| TlsError::unwritable(folder, source))
}

fn certificate(key: &KeyPair, names: &[String]) -> Result<String, TlsError> {
    let mut all: Vec<String> = Vec::new();
    for name in names.iter().map(String::as_str).chain(LOOPBACK) {
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        if rustls::pki_types::ServerName::try_from(name.as_str()).is_err() {
            return Err(TlsError::Name(name));
        }
        if !all.contains(&name) {
            all.push(name);
        }
    }
    let mut params = CertificateParams::new(all).map_err(TlsError::Making)?;
    params.distinguished_name.push(DnType::CommonName, "tasuki");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Whoever pins it does not look at the dates; whoever does may have a wrong clock.
    params.not_before = date_time_ymd(1975, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31);
    Ok(params.self_signed(key).map_err(TlsError::Making)?.pem())
}

fn write(folder: &Path, certificate: &str, key: &str) -> io::Result<()> {
    let parent = folder.parent().filter(|it| !it.as_os_str().is_empty());
    let parent = parent.unwrap_or_else(|| Path::new("."));
    crate::host::files::private_directory(parent)?;
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let unfinished = parent.join(name);
    // What a crash left of an earlier attempt; nobody has seen that certificate.
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    DirBuilder::new().mode(0o700).create(&unfinished)?;
    put(&unfinished.join("key.pem"), key)?;
    put(&unfinished.join("cert.pem"), certificate)?;
    put(&unfinished.join(CHECK), &checksum(certificate.as_bytes(), key.as_bytes()))?;
    File::open(&unfinished)?.sync_all()?;
    fs::rename(&unfinished, folder)?;
    File::open(parent)?.sync_all()
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
