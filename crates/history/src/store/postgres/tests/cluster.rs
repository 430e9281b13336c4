//! Databases for these tests.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use photofinish_config::{PostgresServer, PostgresUrl, StoreAddress};
use tempfile::TempDir;

pub use super::server::PASSWORD;
use crate::store::database::error::PostgresError;
use crate::store::database::session::PostgresSession;

/// A new database of this name and process; none without a server. The directory is for its spill file.
pub fn database(name: &str) -> Option<(TempDir, StoreAddress)> {
    let server = super::server::url_of("postgres")?;
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("pf_{name}_{}_{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    let directory = tempfile::tempdir().unwrap();
    let session = connect(&named(&server, directory.path())).unwrap();
    session.wait_until(Instant::now() + Duration::from_secs(120));
    session.batch(&format!("CREATE DATABASE {name}")).unwrap();
    let address = named(&super::server::url_of(&name)?, directory.path());
    Some((directory, address))
}

/// The database of this URL.
pub fn named(url: &str, directory: &Path) -> StoreAddress {
    named_as(url, directory, true)
}

pub fn named_as(url: &str, directory: &Path, migrates: bool) -> StoreAddress {
    let url = PostgresUrl::parse(url).unwrap();
    StoreAddress::Server(Arc::new(PostgresServer { url, spill: directory.join("x.spill.db"), migrates }))
}

fn server_of(address: &StoreAddress) -> &Arc<PostgresServer> {
    match address {
        StoreAddress::Server(server) => server,
        StoreAddress::File(path) => panic!("{path:?} is a file"),
    }
}

pub fn connect(address: &StoreAddress) -> Result<PostgresSession, PostgresError> {
    PostgresSession::connect(server_of(address))
}

/// The whole URL.
pub fn url_of(address: &StoreAddress) -> String {
    use secrecy::ExposeSecret as _;
    server_of(address).url.whole().expose_secret().to_owned()
}

/// The same database through a socket that counts what a client sends: each piece is an exchange. None: the server has no socket file.
pub fn counted(address: &StoreAddress) -> Option<(TempDir, StoreAddress, Arc<AtomicU32>)> {
    let (url, between) = (url_of(address), tempfile::tempdir().unwrap());
    let server = url.split_once("?host=")?.1.to_owned();
    let file = |directory: &str| format!("{directory}/.s.PGSQL.5432");
    let listener = UnixListener::bind(file(between.path().to_str()?)).unwrap();
    let (exchanges, counts) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
    let (through, round_trips) =
        (named(&url.replace(&server, between.path().to_str()?), between.path()), exchanges.clone());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let up = UnixStream::connect(file(&server)).unwrap();
            let (down, to_client) = (up.try_clone().unwrap(), client.try_clone().unwrap());
            pass_on(client, up, round_trips.clone());
            pass_on(down, to_client, counts.clone());
        }
    });
    Some((between, through, exchanges))
}

fn pass_on(mut from: UnixStream, mut to: UnixStream, count: Arc<AtomicU32>) {
    std::thread::spawn(move || {
        let mut piece = vec![0; 1 << 20];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            count.fetch_add(1, Relaxed);
            if to.write_all(&piece[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// The name of the database alone.
pub fn name_of(address: &StoreAddress) -> String {
    let name = address.to_string();
    let name = name.split('?').next().unwrap().rsplit('/').next().unwrap();
    name.to_owned()
}
