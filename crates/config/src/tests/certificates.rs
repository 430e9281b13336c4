//! `tls` under `[server]`: what is read, and what is wrong with files.

use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

use super::*;

/// `cert.pem` and `key.pem`, which belong together; `ca.pem`; `other.pem`, another key; `empty.pem`; `locked.pem`, an encrypted key.
pub(super) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["gateway.test".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
    write("cert.pem", &certificate);
    write("ca.pem", &certificate);
    write("key.pem", &key.serialize_pem());
    write("other.pem", &KeyPair::generate().unwrap().serialize_pem());
    write("empty.pem", "");
    write("locked.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nplanted\n-----END ENCRYPTED PRIVATE KEY-----\n");
    write("broken.pem", "-----BEGIN CERTIFICATE-----\ncGxhbnRlZA==\n-----END CERTIFICATE-----\n");
    folder
}

fn with_tls(folder: &TempDir, cert: &str, key: &str) -> String {
    let path = |name: &str| folder.path().join(name).display().to_string();
    format!("[server]\ntls = {{ cert = \"{}\",\nkey = \"{}\" }}", path(cert), path(key))
}

#[test]
fn a_certificate_and_its_key_are_read() {
    let folder = folder();
    let config = good(&with_tls(&folder, "cert.pem", "key.pem"));
    let tls = config.server.tls.as_ref().unwrap();
    assert_eq!(tls.server.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    assert_eq!(config.watched.keys().collect::<Vec<_>>(), [&tls.cert, &tls.key]);
    assert!(config.watched.values().all(Option::is_some), "as they were read");
    assert!(!format!("{config:?}").contains("PRIVATE"));
}

#[test]
fn what_is_wrong_with_the_files_is_told_with_its_place() {
    let folder = folder();
    for (cert, key, expected) in [
        ("missing.pem", "key.pem", "2:16: \"cert\" in tls of [server] cannot be read: "),
        ("cert.pem", "missing.pem", "3:7: \"key\" in tls of [server] cannot be read: "),
        ("empty.pem", "key.pem", "2:16: \"cert\" in tls of [server] holds no certificate in PEM form"),
        ("key.pem", "key.pem", "2:16: \"cert\" in tls of [server] holds no certificate in PEM form"),
        ("broken.pem", "key.pem", "2:16: \"cert\" in tls of [server] "),
        ("cert.pem", "cert.pem", "3:7: \"key\" in tls of [server] holds no private key in PEM form"),
        ("cert.pem", "locked.pem", "3:7: \"key\" in tls of [server] is encrypted"),
        ("cert.pem", "other.pem", "3:7: \"key\" in tls of [server] does not belong to the certificate"),
    ] {
        let problems = bad(&with_tls(&folder, cert, key)).to_string();
        assert!(problems.starts_with(&format!("config.toml:{expected}")), "{cert} {key}: {problems}");
        assert!(problems.ends_with("\n1 problem") && !problems.contains("planted"), "{problems}");
    }
}

#[test]
fn a_key_that_others_may_read_is_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder();
    let (config, key) = (folder.path().join("config.toml"), folder.path().join("key.pem"));
    std::fs::write(&config, with_tls(&folder, "cert.pem", "key.pem")).unwrap();
    for (mode, expected) in [(0o600, 0), (0o644, 1)] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let warnings = load(&ConfigSource::File(config.clone())).unwrap().warnings;
        let warned = warnings.iter().filter(|warning| warning.contains("private key") && warning.contains("chmod 600"));
        assert_eq!(warned.count(), expected, "{mode:o}: {warnings:?}");
    }
}
