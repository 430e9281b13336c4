//! `tls = { cert, key }` under `[server]`: reads the certificate and its private key, and checks that they belong together.
//!
//! No message quotes the contents of a file. Not for the certificates of providers: see `transport`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, Error, ServerConfig};

use super::keys::{self, TableKeys as _, keys, own};
use super::problem::LocatedProblem;
use super::reader::{Located, ReaderScope, TomlTable};
use photofinish_base::files;

/// Bytes of the largest file with certificates or a private key.
const PEM_MAX: u64 = 1 << 20;

/// The certificate of the listeners, and its key.
#[derive(Clone)]
pub struct ListenerCertificate {
    /// The absolute path of a PEM file: the certificate first, then the rest of its chain.
    pub cert: PathBuf,
    /// The absolute path of a PEM file with the private key.
    pub key: PathBuf,
    /// Made from the two files; negotiates HTTP/2 and HTTP/1.1 by ALPN.
    pub server: Arc<ServerConfig>,
}

impl PartialEq for ListenerCertificate {
    /// Two are equal if they have the same files.
    fn eq(&self, other: &ListenerCertificate) -> bool {
        self.cert == other.cert && self.key == other.key
    }
}

impl Eq for ListenerCertificate {}

impl fmt::Debug for ListenerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("cert", &self.cert).field("key", &self.key).finish_non_exhaustive()
    }
}

keys! {
    /// `tls = { … }`
    #[derive(Clone)]
    pub(super) struct TlsKeys {
        /// A PEM file: the certificate first, then the rest of its chain.
        cert: Option<Located<PathBuf>> = own(path, |_| keys::any_text());
        /// A PEM file with the private key.
        key: Option<Located<PathBuf>> = own(path, |_| keys::any_text());
    }
}

/// Reads the table and its files. None: the table is absent, or wrong and reported.
pub(super) fn read(server: &mut TomlTable<'_, '_>, key: &'static str) -> Option<ListenerCertificate> {
    let mut table = server.inner(key)?;
    let keys = TlsKeys::read(&mut table, &TlsKeys::default());
    let missing: Vec<String> =
        ["cert", "key"].into_iter().filter(|key| !table.has(key)).map(|key| format!("no \"{key}\"")).collect();
    if !missing.is_empty() {
        let message = format!("{} has {}", table.name, missing.join(" and "));
        let expected = "two files in PEM form: tls = { cert = \"cert.pem\", key = \"key.pem\" }";
        table.scope.wrong(table.offset, message, expected);
    }
    let read = keys.cert.zip(keys.key).and_then(|(cert, key)| match load(&table, &cert, &key) {
        Ok(server) => Some(ListenerCertificate { cert: cert.value, key: key.value, server }),
        Err(found) => {
            table.scope.report(found);
            None
        }
    });
    table.finish();
    read
}

/// A path, made absolute from the working directory.
pub(super) fn path(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Located<PathBuf>> {
    let text = table.text(key)?;
    match std::path::absolute(&text.value) {
        Ok(path) => Some(Located { offset: text.offset, value: path }),
        Err(_) => {
            table.scope.report(table.bad_value(key, &text).expected("the path of a file in PEM form"));
            None
        }
    }
}

fn load(
    table: &TomlTable<'_, '_>,
    cert: &Located<PathBuf>,
    key: &Located<PathBuf>,
) -> Result<Arc<ServerConfig>, LocatedProblem> {
    let of_cert = |why: String| LocatedProblem::at(cert.offset, format!("{} {why}", table.what("cert")));
    let of_key = |why: String| LocatedProblem::at(key.offset, format!("{} {why}", table.what("key")));
    let chain = certificates(table.scope, &cert.value).map_err(of_cert)?;
    let pem = read_pem(table.scope, &key.value).map_err(of_key)?;
    let private = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        let is_encrypted = memchr::memmem::find(&pem, b"ENCRYPTED").is_some();
        of_key(match is_encrypted {
            true => format!("is encrypted: decrypt {} with openssl pkey", key.value.display()),
            false => format!("holds no private key in PEM form: {}", key.value.display()),
        })
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|error| match error {
        Error::InconsistentKeys(_) => of_key("does not belong to the certificate of \"cert\"".to_owned())
            .expected("the key that the certificate was made with; the certificate itself comes first in its file"),
        Error::InvalidCertificate(CertificateError::BadEncoding) => of_cert("holds no valid certificate".to_owned()),
        Error::General(why) => of_key(format!("cannot be used: {why}")),
        other => of_cert(format!("cannot be used: {other}")),
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The certificates of a file, at least one; or what is wrong with it, as the end of a sentence.
pub(super) fn certificates(scope: &ReaderScope<'_>, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read_pem(scope, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("holds no certificate in PEM form: {}", path.display())),
    }
}

fn read_pem(scope: &ReaderScope<'_>, path: &Path) -> Result<Vec<u8>, String> {
    let read = files::read(path, PEM_MAX, scope.limits);
    let content = read.map_err(|error| format!("cannot be read: {}: {error}", path.display()))?;
    scope.watch(path, Some(content.facts.stamp));
    Ok(content.bytes)
}
