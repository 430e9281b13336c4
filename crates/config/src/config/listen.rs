//! Where the gateway listens: addresses, and socket files of this machine. Not for opening them: see `server`.

use std::fmt;
use std::net::SocketAddr;
use std::os::unix::net::SocketAddr as SocketFile;
use std::path::{Path, PathBuf};

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    Tcp(SocketAddr),
    /// The absolute path of a socket file. Its owner and group may connect.
    Unix(PathBuf),
}

/// The variable with an address to listen on instead of `listen` in the file.
pub(super) const LISTEN_VARIABLE: &str = "PHOTOFINISH_LISTEN";

impl Listen {
    /// What [`Listen::parse`] takes.
    pub const EXPECTED: &str =
        "an IP address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\", or \"unix:/path/of/a/socket\"";

    /// Parses `127.0.0.1:8080` or `unix:/run/photofinish.sock`. None: it is neither, or the path is too long for a socket.
    pub fn parse(text: &str) -> Option<Listen> {
        let Some(path) = text.strip_prefix("unix:") else { return text.parse().ok().map(Listen::Tcp) };
        let absolute = std::path::absolute(path).ok()?;
        let is_file = !path.ends_with('/') && SocketFile::from_pathname(&absolute).is_ok();
        is_file.then_some(Listen::Unix(absolute))
    }

    /// Only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Listen::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Listen::Unix(_) => true,
        }
    }

    /// Its address and port.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Listen::Tcp(address) => Some(*address),
            Listen::Unix(_) => None,
        }
    }

    pub fn path(&self) -> Option<&Path> {
        match self {
            Listen::Tcp(_) => None,
            Listen::Unix(path) => Some(path),
        }
    }

    /// The name in the log: `https://127.0.0.1:8443`. A socket file never speaks TLS.
    pub fn url(&self, tls: bool) -> String {
        match self {
            Listen::Tcp(address) => format!("http{}://{address}", if tls { "s" } else { "" }),
            Listen::Unix(_) => self.to_string(),
        }
    }

    /// Both name the same listener. Two ports 0 are different.
    pub(super) fn is_same(&self, other: &Listen) -> bool {
        self == other && self.address().is_none_or(|address| address.port() != 0)
    }
}

impl fmt::Display for Listen {
    /// The form in the config.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
