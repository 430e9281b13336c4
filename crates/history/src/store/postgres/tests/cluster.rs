//! Databases for these tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use photofinish_config::config::postgres_url::{PostgresServer, remember};
use tempfile::TempDir;

use super::super::session::PostgresSession;
pub use super::server::PASSWORD;

/// A new database of this name and process; none without a server. The directory is for its spill file.
pub fn database(name: &str) -> Option<(TempDir, PathBuf)> {
    let server = super::server::url_of("postgres")?;
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("pf_{name}_{}_{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    let directory = tempfile::tempdir().unwrap();
    let session = PostgresSession::connect(&named(&server, directory.path())).unwrap();
    session.wait_until(Instant::now() + Duration::from_secs(120));
    session.batch(&format!("CREATE DATABASE {name}")).unwrap();
    let path = named(&super::server::url_of(&name)?, directory.path());
    Some((directory, path))
}

/// The name under which a URL is known from now on.
pub fn named(url: &str, directory: &Path) -> PathBuf {
    remember(PostgresServer { url: url.into(), spill: directory.join("x.spill.db"), migrates: true }).unwrap()
}

/// The whole URL.
pub fn url_of(path: &Path) -> String {
    use secrecy::ExposeSecret as _;
    photofinish_config::config::postgres_url::of(path).unwrap().url.expose_secret().to_owned()
}

/// The name of the database alone.
pub fn name_of(path: &Path) -> String {
    let name = path.to_str().unwrap().split('?').next().unwrap().rsplit('/').next().unwrap();
    name.to_owned()
}
