//! The certificate that a server makes itself and keeps.

use std::os::unix::fs::PermissionsExt as _;

use crate::{
    invitation::Trust,
    net::tls::{ALPN_H2, ServerIdentity, TlsError, Trusting},
};

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_certificate_once_made_stays() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("deep/tls");
    let first = ServerIdentity::own(&folder, &["broker.example".into()]).unwrap();
    let again = ServerIdentity::own(&folder, &["renamed.example".into()]).unwrap();
    assert_eq!(first.fingerprint(), again.fingerprint());
    assert_eq!(mode(&folder.join("key.pem")), 0o600);
    assert_eq!(mode(&folder), 0o700);
    let shown = format!("{first:?}");
    assert!(shown.contains(&first.fingerprint().to_string()), "{shown}");
    assert!(!shown.to_lowercase().contains("key"), "{shown}");
}

#[test]
fn what_a_crash_left_before_the_certificate_was_whole_is_made_anew() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("tls");
    let unfinished = data.path().join("tls.new");
    fs::create_dir(&unfinished).unwrap();
    fs::write(unfinished.join("key.pem"), "-----BEGIN PRIV").unwrap();
    ServerIdentity::own(&folder, &[]).unwrap();
    assert!(!unfinished.exists());
}

#[test]
fn a_certificate_that_others_may_have_pinned_is_never_replaced() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 5] = [
        ("key.pem cannot be read", |folder| fs::remove_file(folder.join("key.pem")).unwrap()),
        ("cert.pem cannot be read", |folder| fs::remove_file(folder.join("cert.pem")).unwrap()),
        ("no whole private key", |folder| fs::write(folder.join("key.pem"), "").unwrap()),
        ("no whole certificate", |folder| {
            let text = fs::read(folder.join("cert.pem")).unwrap();
            fs::write(folder.join("cert.pem"), &text[..text.len() / 2]).unwrap();
        }),
        ("cannot be used together", |folder| {
            let other = folder.parent().unwrap().join("other");
            ServerIdentity::own(&other, &[]).unwrap();
            fs::copy(other.join("key.pem"), folder.join("key.pem")).unwrap();
        }),
    ];
    for (words, harm) in harms {
        let data = tempfile::tempdir().unwrap();
        let folder = data.path().join("tls");
        ServerIdentity::own(&folder, &[]).unwrap();
        harm(&folder);
        for _ in 0..2 {
            let error = ServerIdentity::own(&folder, &[]).unwrap_err();
            assert!(matches!(error, TlsError::Lost { .. }), "{error}");
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.to_string().contains("from a backup"), "{error}");
        }
    }
}

#[test]
fn no_flipped_bit_makes_another_certificate() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("tls");
    let own = ServerIdentity::own(&folder, &[]).unwrap().fingerprint();
    for name in ["cert.pem", "key.pem", "check"] {
        let file = folder.join(name);
        let whole = fs::read(&file).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut spoilt = whole.clone();
            spoilt[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, spoilt).unwrap();
            let error = ServerIdentity::own(&folder, &[]).unwrap_err();
            assert!(matches!(error, TlsError::Lost { .. }), "{name}, bit {bit}: {error}");
        }
        fs::write(&file, whole).unwrap();
    }
    fs::remove_file(folder.join("check")).unwrap();
    let old = ServerIdentity::own(&folder, &[]).unwrap();
    assert_eq!(old.fingerprint(), own, "of an earlier release");
}

/// Clients that know nothing of pins can be given the certificate itself as their authority.
#[tokio::test]
async fn a_certificate_has_the_names_it_is_reached_by() {
    let data = tempfile::tempdir().unwrap();
    let names = ["broker.example", "192.0.2.7", "[2001:db8::7]", "localhost"].map(str::to_owned);
    let folder = data.path().join("tls");
    let server = ServerIdentity::own(&folder, &names).unwrap();
    let acceptor = server.acceptor(None, &[ALPN_H2]).unwrap();
    let authorities = Some(folder.join("cert.pem"));
    let trusting = Trusting { authorities, ..Trusting::new(Trust::Authorities) };
    let connector = trusting.connector(&[ALPN_H2]).unwrap();
    for host in names.iter().map(String::as_str).chain(["127.0.0.1", "[::1]"]) {
        talk(&acceptor, &connector, host).await.unwrap();
    }
    let refused = talk(&acceptor, &connector, "192.0.2.8").await;
    assert!(matches!(refused, Err(ConnectError::Name { .. })), "{refused:?}");
}

#[test]
fn a_name_that_is_none_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("tls");
    let error = ServerIdentity::own(&folder, &["two words".into()]).unwrap_err();
    assert!(error.to_string().starts_with("\"two words\" cannot stand"), "{error}");
    assert!(!folder.exists());
}
