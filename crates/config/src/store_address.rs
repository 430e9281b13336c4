//! Where the history is: a file, or a database on a Postgres server. A server has a name such as `postgres://user@host/database`, which may
//! be shown; what only a connection needs, its password above all, is in its URL alone.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};

/// Where the history is. It is shown without the password.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreAddress {
    /// The SQLite file; absolute in a configuration.
    File(PathBuf),
    Server(Arc<PostgresServer>),
}

impl StoreAddress {
    /// None: it is on a server.
    pub fn file(&self) -> Option<&Path> {
        match self {
            StoreAddress::File(path) => Some(path),
            StoreAddress::Server(_) => None,
        }
    }

    pub fn is_server(&self) -> bool {
        self.file().is_none()
    }

    /// The file in whose directory everything is that belongs to the store and is no part of the database: its spill file, or the database
    /// itself.
    pub fn local_file(&self) -> &Path {
        match self {
            StoreAddress::File(path) => path,
            StoreAddress::Server(server) => &server.spill,
        }
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreAddress::File(path) => path.display().fmt(f),
            StoreAddress::Server(server) => server.url.name.fmt(f),
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreAddress::File(path) => path.fmt(f),
            StoreAddress::Server(server) => server.url.name.fmt(f),
        }
    }
}

impl From<PathBuf> for StoreAddress {
    fn from(path: PathBuf) -> StoreAddress {
        StoreAddress::File(path)
    }
}

impl From<&PathBuf> for StoreAddress {
    fn from(path: &PathBuf) -> StoreAddress {
        StoreAddress::File(path.clone())
    }
}

impl From<&Path> for StoreAddress {
    fn from(path: &Path) -> StoreAddress {
        StoreAddress::File(path.to_owned())
    }
}

impl From<&StoreAddress> for StoreAddress {
    fn from(address: &StoreAddress) -> StoreAddress {
        address.clone()
    }
}

impl From<&Arc<PostgresServer>> for StoreAddress {
    fn from(server: &Arc<PostgresServer>) -> StoreAddress {
        StoreAddress::Server(server.clone())
    }
}

/// A database on a server: how it is reached, and used. Two are the same by their URLs.
pub struct PostgresServer {
    pub url: PostgresUrl,
    /// The file of rows that wait while the server is away, absolute.
    pub spill: PathBuf,
    /// Whether a start brings the schema up to date.
    pub migrates: bool,
}

impl PartialEq for PostgresServer {
    fn eq(&self, other: &PostgresServer) -> bool {
        self.url.whole.expose_secret() == other.url.whole.expose_secret()
    }
}

impl Eq for PostgresServer {}

/// The URL of a database on a server.
#[derive(Clone)]
pub struct PostgresUrl {
    /// Without what only a connection needs.
    name: String,
    whole: SecretString,
}

impl PostgresUrl {
    /// # Errors
    /// What is wrong with it, without quoting it.
    pub fn parse(url: &str) -> Result<PostgresUrl, &'static str> {
        let rest = url.strip_prefix("postgres:").or_else(|| url.strip_prefix("postgresql:")).ok_or(UNCLEAR)?;
        let rest = rest.strip_prefix("//").ok_or(UNCLEAR)?;
        problem(rest).map_or_else(|| Ok(PostgresUrl { name: name_of(rest), whole: url.into() }), Err)
    }

    /// With its password.
    pub fn whole(&self) -> &SecretString {
        &self.whole
    }
}

/// What names a server in an address, of the parameters behind its `?`.
const NAMING: [&str; 4] = ["host", "port", "dbname", "user"];

const UNCLEAR: &str = "is no clear address of Postgres: write it as postgres://USER:PASSWORD@HOST/DATABASE, and in the password %40 \
                       for @, %3F for ?, %2F for /, %23 for # and %3A for :";
const SEVERAL: &str =
    "names several hosts: name one that leads to the primary, such as a proxy or a DNS name that moves with it";

/// What is wrong with a URL. `rest`: what follows `postgres://`.
fn problem(rest: &str) -> Option<&'static str> {
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

/// The URL without what only a connection needs.
fn name_of(rest: &str) -> String {
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let (user, host) = place.rsplit_once('@').map_or(("", place), |(user, host)| (user, host));
    let user = user.split(':').next().unwrap_or_default();
    let at = if user.is_empty() { "" } else { "@" };
    let naming = parameters
        .split('&')
        .filter(|parameter| parameter.split_once('=').is_some_and(|(name, _)| NAMING.contains(&name)));
    let naming = naming.collect::<Vec<_>>().join("&");
    let ask = if naming.is_empty() { "" } else { "?" };
    format!("postgres://{user}{at}{host}{ask}{naming}")
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
            let address = |url: &str| {
                let url = PostgresUrl::parse(url).unwrap_or_else(|problem| panic!("{problem}"));
                StoreAddress::Server(Arc::new(PostgresServer { url, spill: "/s/x.spill.db".into(), migrates: true }))
            };
            let server = address(url);
            assert_eq!((server.to_string().as_str(), format!("{server:?}")), (name, format!("{name:?}")));
            assert_eq!((server.file(), server.local_file()), (None, Path::new("/s/x.spill.db")));
            assert!(server == address(url) && server != address(&url.replace("pl", "PL").replace("db", "host")));
            assert!(server != StoreAddress::from(Path::new(name)), "a path is a file, whatever its name");
        }
        for clear in [
            "postgres://pf:secret@db/x",
            "postgres://db:6432/x",
            "postgres:///x?host=/run",
            "postgres://pf@[::1]:5432/x",
            "postgres://pf:pl@nted,@db/x",
        ] {
            assert_eq!(PostgresUrl::parse(clear).err(), None, "{clear}");
        }
        for unclear in [
            "postgres://pf:s3?cret@db/x",
            "postgres://pf:secret",
            "postgres:pf:secret@db/x",
            "postgres://pf:s/3cret@db:x/x",
            "postgres://pf:s#cret@db/x",
        ] {
            assert!(PostgresUrl::parse(unclear).is_err_and(|text| text.contains("no clear address")), "{unclear}");
        }
        for several in
            ["postgres://pf:secret@a,b/x", "postgres://a:5432,b:5433/x", "postgres:///x?user=pf&host=/run,/tmp"]
        {
            assert!(PostgresUrl::parse(several).is_err_and(|text| text.contains("several hosts")), "{several}");
        }
        assert!(PostgresUrl::parse("sqlite:x").is_err());
        let file = StoreAddress::from(Path::new("/a/x.db"));
        assert_eq!((file.to_string().as_str(), file.is_server()), ("/a/x.db", false));
        assert_eq!((file.file(), file.local_file()), (Some(file.local_file()), Path::new("/a/x.db")));
    }
}
