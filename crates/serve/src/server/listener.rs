//! A listening socket: TCP, or a socket file, which is removed when its listener is dropped. This process opens it, alone or
//! next to an older gateway, or the service manager has opened it.

use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use photofinish_base::machine::{self, PassedListener};
use photofinish_config::Listen;

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
    owner: Owner,
}

enum ListenerKind {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Who opened the socket.
enum Owner {
    Process,
    /// This process, with the file.
    ProcessWithFile(SocketFile),
    /// It keeps the socket, and the connections that wait for it, when this process ends.
    ServiceManager,
}

impl Listener {
    /// `beside`: an older gateway may listen there already. The clients of a TCP address are then divided among both; the
    /// socket file is replaced.
    ///
    /// # Errors
    /// The address cannot be listened on, for example because another process does.
    pub async fn bind(listen: &Listen, beside: bool) -> io::Result<Listener> {
        match listen {
            Listen::Tcp(address) => {
                let listener = machine::listen_shared(*address, beside)?;
                let at = Listen::Tcp(listener.local_addr()?);
                Ok(Listener { at, kind: ListenerKind::Tcp(listener), owner: Owner::Process })
            }
            Listen::Unix(path) => {
                if !is_free(path)? && !beside {
                    remove_stale(path).await?;
                }
                let (listener, file) = bind_file(path, beside)?;
                let kind = ListenerKind::Unix(listener);
                Ok(Listener { at: listen.clone(), kind, owner: Owner::ProcessWithFile(file) })
            }
        }
    }

    /// A socket of the service manager.
    ///
    /// # Errors
    /// The system gives no address for it.
    pub fn passed(socket: PassedListener) -> io::Result<Listener> {
        let (at, kind) = match socket {
            PassedListener::Tcp(listener) => (Listen::Tcp(listener.local_addr()?), ListenerKind::Tcp(listener)),
            PassedListener::Unix(listener) => {
                let address = listener.local_addr()?;
                // One without a file has an abstract name, of which the log says nothing.
                let path = address.as_pathname().map(Path::to_owned).unwrap_or_default();
                (Listen::Unix(path), ListenerKind::Unix(listener))
            }
        };
        Ok(Listener { at, kind, owner: Owner::ServiceManager })
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
            ListenerKind::Unix(listener) => Ok((as_tcp(listener.accept().await?.0)?, HERE)),
        }
    }

    /// A connection that waits in the system's queue. None: the queue is empty. It asks the system itself, which knows of
    /// connections that the runtime has not heard of yet.
    pub(super) fn accept_waiting(&self) -> io::Result<Option<(TcpStream, IpAddr)>> {
        let socket = match &self.kind {
            ListenerKind::Tcp(listener) => SockRef::from(listener),
            ListenerKind::Unix(listener) => SockRef::from(listener),
        };
        match socket.accept() {
            Ok((stream, peer)) => {
                stream.set_nonblocking(true)?;
                let peer = peer.as_socket().map_or(HERE, |peer| peer.ip());
                Ok(Some((TcpStream::from_std(stream.into())?, peer)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether new clients are served once this listener is closed: another gateway listens too, or the service
    /// manager keeps the socket for the next one.
    pub(super) fn has_successor(&self) -> bool {
        match (&self.owner, &self.kind) {
            (Owner::ServiceManager, _) => true,
            (Owner::ProcessWithFile(file), _) => file.is_replaced(),
            (Owner::Process, ListenerKind::Tcp(listener)) => machine::is_shared(listener),
            (Owner::Process, ListenerKind::Unix(_)) => false,
        }
    }

    /// From now on no client begins a connection with it; those that have begun are still accepted. Not for a socket of the
    /// service manager, which another process goes on with.
    pub(super) fn turn_away(&mut self) {
        match (&self.owner, &self.kind) {
            (Owner::ServiceManager, _) => {}
            (_, ListenerKind::Tcp(listener)) => machine::turn_away(listener),
            // Removes the file.
            (_, ListenerKind::Unix(_)) => self.owner = Owner::Process,
        }
    }

    /// The port on which clients may have begun a connection that is not complete yet. None: there is no such state.
    pub(super) fn port_of_handshakes(&self) -> Option<u16> {
        match self.owner {
            Owner::ServiceManager => None,
            _ => self.at.address().map(|address| address.port()),
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

impl SocketFile {
    /// Whether another process has replaced or removed it.
    fn is_replaced(&self) -> bool {
        file_id(&self.path).map_or(true, |found| found != self.id)
    }
}

fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Drop for SocketFile {
    /// Does not remove a file that belongs to another process by now.
    fn drop(&mut self) {
        if !self.is_replaced() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The mode is set before the socket listens, so no client can connect earlier. `beside`: what is at the path is replaced in
/// one step, so that at no time a client finds no socket.
fn bind_file(path: &Path, beside: bool) -> io::Result<(UnixListener, SocketFile)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let first = if beside { path.with_file_name(format!(".{}", std::process::id())) } else { path.to_owned() };
    socket.bind(&SockAddr::unix(&first)?)?;
    let mut file = SocketFile { path: first.clone(), id: file_id(&first)? };
    fs::set_permissions(&first, Permissions::from_mode(MODE))?;
    socket.listen(machine::BACKLOG)?;
    if beside {
        fs::rename(&first, path)?;
        path.clone_into(&mut file.path);
    }
    let listener = UnixListener::from_std(std::os::unix::net::UnixListener::from(OwnedFd::from(socket)))?;
    Ok((listener, file))
}

/// Whether nothing is at this path.
fn is_free(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
        Ok(found) if found.file_type().is_socket() => Ok(false),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file is there that is no socket")),
    }
}

/// Removes a socket file without a listener. It remains when a gateway is killed.
async fn remove_stale(path: &Path) -> io::Result<()> {
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
        let listener = Listener::bind(&Listen::Unix(path.clone()), false).await.unwrap();
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
        let listener = Listener::bind(&listen, false).await.unwrap();
        let error = Listener::bind(&listen, false).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
        // A file of another process in the same place remains.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "kept").unwrap();
        drop(listener);
        assert_eq!(Listener::bind(&listen, false).await.map(drop).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }

    #[tokio::test]
    async fn a_socket_file_is_taken_over_and_the_old_listener_leaves_the_new_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.sock");
        let listen = Listen::Unix(path.clone());
        let mut old = Listener::bind(&listen, false).await.unwrap();
        let waits = UnixStream::connect(&path).await.unwrap();
        assert!(!old.has_successor());
        let new = Listener::bind(&listen, true).await.unwrap();
        assert!(old.has_successor() && !new.has_successor());
        assert_eq!((mode(&path), fs::read_dir(folder.path()).unwrap().count()), (MODE, 1));
        let (client, accepted) = tokio::join!(UnixStream::connect(&path), new.accept());
        assert!(client.is_ok() && accepted.is_ok());
        old.turn_away();
        assert!(path.exists(), "it is the new one's");
        assert!(old.accept_waiting().unwrap().is_some(), "who came before is served");
        assert!(old.accept_waiting().unwrap().is_none());
        drop((old, waits));
        assert!(path.exists() && UnixStream::connect(&path).await.is_ok());
        drop(new);
        assert!(!path.exists());
        fs::write(&path, "kept").unwrap();
        assert_eq!(Listener::bind(&listen, true).await.map(drop).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[tokio::test]
    async fn a_listener_that_turns_clients_away_still_has_those_that_wait() {
        let mut listener = Listener::bind(&Listen::Tcp(([127, 0, 0, 1], 0).into()), false).await.unwrap();
        let address = listener.at().address().unwrap();
        let client = TcpStream::connect(address).await.unwrap();
        listener.turn_away();
        let (_stream, peer) = listener.accept_waiting().unwrap().unwrap();
        assert_eq!(peer, client.local_addr().unwrap().ip());
        assert!(listener.accept_waiting().unwrap().is_none());
    }

    #[tokio::test]
    async fn the_file_and_the_queue_of_the_service_manager_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manager.sock");
        let manager = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let socket = manager.try_clone().unwrap();
        socket.set_nonblocking(true).unwrap();
        let socket = PassedListener::Unix(UnixListener::from_std(socket).unwrap());
        let mut listener = Listener::passed(socket).unwrap();
        assert_eq!(listener.at(), &Listen::Unix(path.clone()));
        assert!(listener.has_successor() && listener.port_of_handshakes().is_none());
        listener.turn_away();
        drop(listener);
        let _client = UnixStream::connect(&path).await.unwrap();
        assert!(manager.accept().is_ok());
    }
}
