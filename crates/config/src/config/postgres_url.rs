//! The Postgres servers that configurations name. A database there has a name such as `postgres://user@host/database`, which stands where
//! the path of a file stands, and may be shown; what only a connection needs, its password above all, is found here by that name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use secrecy::{ExposeSecret as _, SecretString};

/// How a database on a server is reached, and used.
#[derive(Clone)]
pub struct PostgresServer {
    /// With its password.
    pub url: SecretString,
    /// The file of rows that wait while the server is away, absolute.
    pub spill: PathBuf,
    /// Whether a start brings the schema up to date.
    pub migrates: bool,
}

static SERVERS: Mutex<BTreeMap<PathBuf, PostgresServer>> = Mutex::new(BTreeMap::new());

/// Servers that are known at once: reloads may name others. The others are forgotten in the order of their names.
const SERVERS_MAX: usize = 64;

/// What names a server in an address, of the parameters behind its `?`.
const NAMING: [&str; 4] = ["host", "port", "dbname", "user"];

/// Makes the server known under its name, which it returns. None: the url is none of Postgres.
pub fn remember(server: PostgresServer) -> Option<PathBuf> {
    let name = PathBuf::from(name_of(server.url.expose_secret())?);
    let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    if servers.len() >= SERVERS_MAX && !servers.contains_key(&name) {
        servers.pop_first();
    }
    servers.insert(name.clone(), server);
    Some(name)
}

/// The name of a server that is known with this very url.
pub fn known(url: &SecretString) -> Option<PathBuf> {
    let name = PathBuf::from(name_of(url.expose_secret())?);
    of(&name).filter(|server| server.url.expose_secret() == url.expose_secret()).map(|_| name)
}

/// Whether this is the name of a database on a server.
pub fn is_postgres(name: &Path) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(SCHEME))
}

/// None: it is a file, or no configuration names it.
pub fn of(name: &Path) -> Option<PostgresServer> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
}

/// The file in whose directory everything is that belongs to the store and is no part of the database: its spill file, or the database
/// itself.
pub fn local_file(store: &Path) -> PathBuf {
    of(store).map_or_else(|| store.to_owned(), |server| server.spill)
}

/// What is wrong with the address of a server. `rest`: what follows `postgres:`.
pub fn problem(rest: &str) -> Option<&'static str> {
    const UNCLEAR: &str = "is no clear address of Postgres: write it as postgres://USER:PASSWORD@HOST/DATABASE, and in the password %40 \
                           for @, %3F for ?, %2F for /, %23 for # and %3A for :";
    const SEVERAL: &str =
        "names several hosts: name one that leads to the primary, such as a proxy or a DNS name that moves with it";
    let Some(rest) = rest.strip_prefix("//") else { return Some(UNCLEAR) };
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    let host = host.split('/').next().unwrap_or_default();
    let hosts = parameters.split('&').filter_map(|parameter| parameter.strip_prefix("host="));
    if hosts.chain([host]).any(|host| host.contains(',')) {
        return Some(SEVERAL);
    }
    // An address of IPv6 has its port behind a bracket.
    let port = host.rsplit_once(']').map_or(host, |(_, port)| port).split_once(':').map_or("", |(_, port)| port);
    // Part of a password might be taken for a host or a parameter.
    let is_unclear = parameters.contains('@') || !port.bytes().all(|byte| byte.is_ascii_digit()) || rest.contains('#');
    is_unclear.then_some(UNCLEAR)
}

const SCHEME: &str = "postgres://";

/// The URL without what only a connection needs.
fn name_of(url: &str) -> Option<String> {
    let rest = url.strip_prefix(SCHEME).or_else(|| url.strip_prefix("postgresql://"))?;
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let (user, host) = place.rsplit_once('@').map_or(("", place), |(user, host)| (user, host));
    let user = user.split(':').next().unwrap_or_default();
    let at = if user.is_empty() { "" } else { "@" };
    let naming = parameters
        .split('&')
        .filter(|parameter| parameter.split_once('=').is_some_and(|(name, _)| NAMING.contains(&name)));
    let naming = naming.collect::<Vec<_>>().join("&");
    let ask = if naming.is_empty() { "" } else { "?" };
    Some(format!("{SCHEME}{user}{at}{host}{ask}{naming}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_password() {
        for (url, name) in [
            ("postgres://pf:planted@db/photofinish", "postgres://pf@db/photofinish"),
            ("postgresql://pf:plan%40ted@db:6432/photofinish?sslmode=verify-full", "postgres://pf@db:6432/photofinish"),
            ("postgres://pf:pl@nted@db/x", "postgres://pf@db/x"),
            ("postgres://db/x", "postgres://db/x"),
            (
                "postgres:///x?host=/run/postgresql&password=planted&user=pf",
                "postgres:///x?host=/run/postgresql&user=pf",
            ),
        ] {
            assert_eq!(name_of(url).as_deref(), Some(name));
            let server = PostgresServer { url: url.into(), spill: "/s/x.spill.db".into(), migrates: true };
            let path = remember(server).unwrap();
            assert_eq!((is_postgres(&path), path.display().to_string().as_str()), (true, name));
            assert_eq!(of(&path).unwrap().url.expose_secret(), url);
            assert_eq!(local_file(&path), Path::new("/s/x.spill.db"));
        }
        for clear in ["//pf:secret@db/x", "//db:6432/x", "///x?host=/run", "//pf@[::1]:5432/x", "//pf:pl@nted,@db/x"] {
            assert_eq!(problem(clear), None, "{clear}");
        }
        for unclear in ["//pf:s3?cret@db/x", "//pf:secret", "pf:secret@db/x", "//pf:s/3cret@db:x/x", "//pf:s#cret@db/x"]
        {
            assert!(problem(unclear).is_some_and(|text| text.contains("no clear address")), "{unclear}");
        }
        for several in ["//pf:secret@a,b/x", "//a:5432,b:5433/x", "///x?user=pf&host=/run,/tmp"] {
            assert!(problem(several).is_some_and(|text| text.contains("several hosts")), "{several}");
        }
        assert_eq!((name_of("sqlite:x"), is_postgres(Path::new("/a/x.db"))), (None, false));
        assert_eq!(local_file(Path::new("/a/x.db")), Path::new("/a/x.db"));
    }
}
