//! Certificates of one's own authority, on both sides.

use std::{fs, path::Path};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tasuki_proto::host::files;

use crate::join::world::{Home, Host, until};

/// Writes NAME.pem and NAME.key for `names`, signed by the authority.
fn signed(
    place: &Path,
    name: &str,
    names: &[&str],
    usage: ExtendedKeyUsagePurpose,
    by: &Issuer<'_, KeyPair>,
) {
    let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut params = CertificateParams::new(names).unwrap();
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, by).unwrap();
    fs::write(place.join(format!("{name}.pem")), certificate.pem()).unwrap();
    files::replace(&place.join(format!("{name}.key")), key.serialize_pem().as_bytes()).unwrap();
}

#[tokio::test]
async fn who_has_an_authority_uses_its_certificates_on_both_sides() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path().display();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "An Authority");
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    fs::write(place.path().join("ca.pem"), certificate.pem()).unwrap();
    let authority = Issuer::new(params, key);
    let (server, client) =
        (ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth);
    signed(place.path(), "server", &["localhost", "127.0.0.1"], server, &authority);
    signed(place.path(), "client", &["laptop"], client, &authority);

    let serve =
        format!("--tls-cert {at}/server.pem --tls-key {at}/server.key --client-ca {at}/ca.pem");
    let host = Host::serving(place.path(), "host", &serve).await;
    let (code, _, said) = host.home.refused("tasuki-broker invite --role dev").await;
    assert!(code == 69 && said.contains("without a certificate"), "{code}: {said}");
    let mine = format!("--client-cert {at}/client.pem --client-key {at}/client.key");
    let line = host.invite(&format!("--role dev {mine}")).await;
    assert!(line.contains("/ca/"), "authorities vouch for it, so it is not pinned: {line}");

    let laptop = Home::new(place.path(), "laptop");
    let (code, _, said) = laptop.refused(&line).await;
    assert!(code == 6 && said.contains("no authority"), "{code}: {said}");
    let (code, _, said) = laptop.refused(&format!("{line} --ca {at}/ca.pem")).await;
    assert!(code == 6 && said.contains("without a certificate"), "{code}: {said}");
    laptop.says(&format!("{line} --ca {at}/ca.pem {mine}")).await;
    let _node = laptop.node().await;
    until(async || laptop.json("tasuki status").await["nodes"][0]["is_present"] == true).await;
}
