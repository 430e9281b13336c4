//! A listening socket: TCP, or a socket file, which is removed when its listener is dropped.

use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::config::Listen;
use crate::machine;

/// The mode of a socket file: owner and group may connect.
const MODE: u32 = 0o660;
/// How long a listener on an existing socket file has to accept a connection. After that its queue counts as full.
const TAKEN_WITHIN: Duration = Duration::from_secs(1);
/// The client address of connections over a socket file.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// One listener. It is closed when dropped.
pub struct Listener {
    at: Listen,
    kind: ListenerKind,
}

enum ListenerKind {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

impl Listener {
    /// # Errors
    /// The address cannot be listened on, for example because another process does.
    pub async fn bind(listen: &Listen) -> io::Result<Listener> {
        match listen {
            Listen::Tcp(address) => {
                let listener = machine::listen(*address)?;
                Ok(Listener { at: Listen::Tcp(listener.local_addr()?), kind: ListenerKind::Tcp(listener) })
            }
            Listen::Unix(path) => {
                remove_stale(path).await?;
                let (listener, file) = bind_file(path)?;
                Ok(Listener { at: listen.clone(), kind: ListenerKind::Unix { listener, _file: file } })
            }
        }
    }

    /// The address it listens on, with the actual port.
    pub fn at(&self) -> &Listen {
        &self.at
    }

    /// Whether it speaks TLS if a certificate is configured.
    pub(super) fn is_for_tls(&self) -> bool {
        matches!(self.kind, ListenerKind::Tcp(_))
    }

    /// The next connection, and the address of its client.
    pub(super) async fn accept(&self) -> io::Result<(TcpStream, IpAddr)> {
        match &self.kind {
            ListenerKind::Tcp(listener) => listener.accept().await.map(|(stream, peer)| (stream, peer.ip())),
            ListenerKind::Unix { listener, .. } => Ok((as_tcp(listener.accept().await?.0)?, HERE)),
        }
    }
}

/// Stream sockets of all families use the same calls to read, write and wait, so the rest of the server uses a single
/// type. Options that only TCP has (no delay, keep-alive) fail on it and are not needed.
fn as_tcp(stream: UnixStream) -> io::Result<TcpStream> {
    TcpStream::from_std(std::net::TcpStream::from(OwnedFd::from(stream.into_std()?)))
}

/// A socket file of this process.
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

impl Drop for SocketFile {
    /// Does not remove a file that belongs to another process by now.
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The mode is set before the socket listens, so no client can connect earlier.
fn bind_file(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let found = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.to_owned(), id: (found.dev(), found.ino()) };
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    socket.listen(machine::BACKLOG)?;
    let listener = UnixListener::from_std(std::os::unix::net::UnixListener::from(OwnedFd::from(socket)))?;
    Ok((listener, file))
}

/// Removes a socket file without a listener. It remains when a gateway is killed.
async fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file is there that is no socket"));
        }
        Ok(_) => {}
    }
    match tokio::time::timeout(TAKEN_WITHIN, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_file_is_for_owner_and_group_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.sock");
        let listener = Listener::bind(&Listen::Unix(path.clone())).await.unwrap();
        assert_eq!(mode(&path), MODE);
        let (client, accepted) = tokio::join!(UnixStream::connect(&path), listener.accept());
        let ((mut stream, peer), mut client) = (accepted.unwrap(), client.unwrap());
        assert!(peer.is_loopback());
        client.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn only_a_socket_on_which_nobody_listens_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.sock");
        let listen = Listen::Unix(path.clone());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left behind");
        let listener = Listener::bind(&listen).await.unwrap();
        let error = Listener::bind(&listen).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
        // A file of another process in the same place remains.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "kept").unwrap();
        drop(listener);
        assert_eq!(Listener::bind(&listen).await.map(drop).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }
}
