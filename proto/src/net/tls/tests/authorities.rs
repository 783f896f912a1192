//! Certificates that an authority vouches for, of servers and of clients.

use crate::{
    invitation::{Fingerprint, Trust},
    net::tls::{ALPN_H2, ServerIdentity, TlsError, Trusting},
};

use super::*;

fn trusting(authorities: PathBuf) -> Trusting {
    Trusting { authorities: Some(authorities), ..Trusting::new(Trust::Authorities) }
}

fn server(authority: &Authority, name: &str) -> ServerIdentity {
    let (cert, key) = authority.issue(name, ExtendedKeyUsagePurpose::ServerAuth);
    ServerIdentity::given(&cert, &key).unwrap()
}

#[tokio::test]
async fn an_authority_vouches_for_a_name_and_for_no_other() {
    let authority = Authority::new("ours");
    let acceptor = server(&authority, "broker.example").acceptor(None, &[ALPN_H2]).unwrap();
    let connector = trusting(authority.file()).connector(&[ALPN_H2]).unwrap();
    talk(&acceptor, &connector, "broker.example").await.unwrap();
    for other in ["other.example", "192.0.2.7"] {
        let refused = talk(&acceptor, &connector, other).await;
        assert!(matches!(refused, Err(ConnectError::Name { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn an_authority_that_nobody_named_vouches_for_nothing() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let acceptor = server(&authority, "broker.example").acceptor(None, &[ALPN_H2]).unwrap();
    let connector = trusting(other.file()).connector(&[ALPN_H2]).unwrap();
    let refused = talk(&acceptor, &connector, "broker.example").await.unwrap_err();
    assert!(matches!(refused, ConnectError::NotVouched { .. }), "{refused:?}");
    assert!(refused.is_final());

    let pretender = Authority::new("theirs");
    let acceptor = server(&pretender, "broker.example").acceptor(None, &[ALPN_H2]).unwrap();
    let refused = talk(&acceptor, &connector, "broker.example").await.unwrap_err();
    assert!(matches!(refused, ConnectError::Forged { .. }), "{refused:?}");
}

/// The dates count where an authority is trusted: it may have its reasons to stop vouching.
#[tokio::test]
async fn an_authority_does_not_vouch_beyond_its_dates() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = self_made(folder.path(), "broker.example", (1990, 1991));
    let server = ServerIdentity::given(&cert, &key).unwrap();
    let acceptor = server.acceptor(None, &[ALPN_H2]).unwrap();
    let connector = trusting(cert).connector(&[ALPN_H2]).unwrap();
    let refused = talk(&acceptor, &connector, "broker.example").await.unwrap_err();
    assert!(refused.to_string().contains("certificate expired"), "{refused}");
}

#[tokio::test]
async fn where_clients_must_show_a_certificate_nobody_gets_in_without() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let server = server(&authority, "broker.example");
    let acceptor = server.acceptor(Some(&authority.file()), &[ALPN_H2]).unwrap();
    let with = |client: Option<(PathBuf, PathBuf)>| {
        let pinned = Trusting::new(Trust::Pinned(server.fingerprint()));
        Trusting { client, ..pinned }.connector(&[ALPN_H2]).unwrap()
    };
    let client = authority.issue("laptop", ExtendedKeyUsagePurpose::ClientAuth);
    talk(&acceptor, &with(Some(client)), "broker.example").await.unwrap();

    let stranger = other.issue("laptop", ExtendedKeyUsagePurpose::ClientAuth);
    // A server's certificate is not one of a client.
    let misused = authority.issue("server", ExtendedKeyUsagePurpose::ServerAuth);
    for client in [None, Some(stranger), Some(misused)] {
        let refused = talk(&acceptor, &with(client), "broker.example").await.unwrap_err();
        assert!(matches!(refused, ConnectError::ClientCertificate { .. }), "{refused:?}");
        assert!(refused.is_final());
    }
}

#[test]
fn who_vouches_for_a_certificate_is_in_it() {
    let authority = Authority::new("ours");
    assert!(server(&authority, "broker.example").is_vouched_for());
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = self_made(folder.path(), "broker.example", (2000, 3000));
    assert!(!ServerIdentity::given(&cert, &key).unwrap().is_vouched_for());
    assert!(!ServerIdentity::own(&folder.path().join("tls"), &[]).unwrap().is_vouched_for());
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new("ours");
    let (cert, key) = authority.issue("a.example", ExtendedKeyUsagePurpose::ServerAuth);
    let (_, other_key) = authority.issue("b.example", ExtendedKeyUsagePurpose::ServerAuth);
    let missing = authority.folder.path().join("missing.pem");
    let given = |cert: &Path, key: &Path| ServerIdentity::given(cert, key).unwrap_err();
    let wrong = [
        (given(&missing, &key), "missing.pem cannot be read"),
        (given(&key, &key), "a.example.key holds no whole certificate"),
        (given(&cert, &cert), "a.example.pem holds no whole private key"),
        (given(&cert, &other_key), "cannot be used together"),
        (trusting(missing).connector(&[]).err().unwrap(), "missing.pem cannot be read"),
        (trusting(key.clone()).connector(&[]).err().unwrap(), "holds no whole certificate"),
    ];
    for (error, words) in wrong {
        assert!(error.to_string().contains(words), "{error}");
        assert!(!matches!(error, TlsError::Lost { .. }), "{error}");
    }
    let client = Some((cert, other_key));
    let pinned = Trusting::new(Trust::Pinned(Fingerprint([0; 32])));
    assert!(matches!(Trusting { client, ..pinned }.connector(&[]), Err(TlsError::Pair { .. })));
}
