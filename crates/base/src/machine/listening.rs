//! Listening TCP sockets: opened by this process, shared with another gateway, or passed by the service manager; and how one is
//! closed so that no client loses its connection.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

/// Connections that the system completes before they are accepted; it may allow fewer (on Linux `net.core.somaxconn`).
/// A burst of clients overflows the usual 128, and each client beyond the limit waits a second until its system tries
/// again.
pub const BACKLOG: i32 = 4_096;

/// A listening socket that another process opened and keeps.
#[derive(Debug)]
pub enum PassedListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Listens on this address, alone.
///
/// # Errors
/// The error of the system.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    listening(bound(address, false)?)
}

/// Listens on this address, so that a gateway of the same user may listen there too (`SO_REUSEPORT`): the system gives each
/// new connection to one of them. `beside`: another gateway may listen there already.
///
/// # Errors
/// The error of the system. Without `beside` an address is in use even if its owner would share it: two gateways that were
/// started by mistake must not divide the clients among them.
pub fn listen_shared(address: SocketAddr, beside: bool) -> io::Result<TcpListener> {
    if !beside && address.port() != 0 {
        // Who does not share finds out whether the address is free.
        drop(bound(address, false)?);
    }
    listening(bound(address, true)?)
}

fn bound(address: SocketAddr, shares: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // A restart must not wait for connections that the last process closed.
    socket.set_reuse_address(true)?;
    if shares {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

fn listening(socket: Socket) -> io::Result<TcpListener> {
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// The sockets that the service manager passes by the protocol of systemd (`LISTEN_FDS`). The first call takes them: child
/// processes do not get them, and a second call finds none.
///
/// # Errors
/// One of them is no listening stream socket. The text is for an operator.
pub fn passed_listeners() -> io::Result<Vec<PassedListener>> {
    let mut passed = listenfd::ListenFd::from_env();
    (0..passed.len()).map(|number| taken(&mut passed, number)).collect()
}

fn taken(passed: &mut listenfd::ListenFd, number: usize) -> io::Result<PassedListener> {
    let unusable = || {
        let text = format!(
            "socket {} of the service manager (LISTEN_FDS) does not listen for connections: use ListenStream= and Accept=no",
            number + 1
        );
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let tcp = passed.take_tcp_listener(number).ok().flatten();
    if let Some(socket) = tcp {
        prepared(&SockRef::from(&socket)).ok_or_else(unusable)?;
        return TcpListener::from_std(socket).map(PassedListener::Tcp);
    }
    let socket = passed.take_unix_listener(number).ok().flatten().ok_or_else(unusable)?;
    prepared(&SockRef::from(&socket)).ok_or_else(unusable)?;
    UnixListener::from_std(socket).map(PassedListener::Unix)
}

fn prepared(socket: &SockRef<'_>) -> Option<()> {
    #[cfg(target_os = "linux")]
    let listens = socket.is_listener().ok()?;
    #[cfg(not(target_os = "linux"))]
    let listens = true;
    socket.set_nonblocking(true).ok()?;
    listens.then_some(())
}

/// From now on clients begin no connection with this socket; those that have begun still complete it. Their systems try again
/// after a second, and then reach another listener or nobody. Else the connections that come between the last accept and
/// the close would be reset, with the requests that were sent over them.
///
/// Linux only. Where it fails, those few are reset.
pub fn turn_away(listener: &TcpListener) {
    #[cfg(target_os = "linux")]
    {
        let _ = SockRef::from(listener).attach_filter(&NO_FIRST_PACKETS);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = listener;
}

/// A program of the kernel's packet filter: drops packets with the flag SYN and without the flag ACK.
#[cfg(target_os = "linux")]
const NO_FIRST_PACKETS: [socket2::SockFilter; 5] = {
    const LOAD_BYTE: u16 = 0x30;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    /// Of a TCP header.
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    [
        socket2::SockFilter::new(LOAD_BYTE, 0, 0, FLAGS_AT),
        socket2::SockFilter::new(AND, 0, 0, SYN | ACK),
        socket2::SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
        socket2::SockFilter::new(RETURN, 0, 0, 0),
        socket2::SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
};

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    fn free() -> SocketAddr {
        ([127, 0, 0, 1], 0).into()
    }

    #[tokio::test]
    async fn a_burst_of_connections_is_completed_before_any_is_accepted() {
        let listener = listen(free()).unwrap();
        let address = listener.local_addr().unwrap();
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok();
        let allowed = allowed.and_then(|text| text.trim().parse().ok()).unwrap_or(128_usize);
        let mut connections = Vec::new();
        // A connection beyond the queue would wait without end.
        for _ in 0..allowed.min(400) {
            connections.push(TcpStream::connect(address).await.unwrap());
        }
    }

    #[tokio::test]
    async fn an_address_is_shared_only_with_one_that_asks_for_it() {
        let first = listen_shared(free(), false).unwrap();
        let address = first.local_addr().unwrap();
        for refused in [listen_shared(address, false), listen(address)] {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
        let second = listen_shared(address, true).unwrap();
        drop(first);
        let (client, accepted) = tokio::join!(TcpStream::connect(address), second.accept());
        assert!(client.is_ok() && accepted.is_ok());
        let alone = listen(free()).unwrap();
        let refused = listen_shared(alone.local_addr().unwrap(), true);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AddrInUse, "it does not share");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_listener_that_turns_clients_away_loses_none_that_came_before() {
        let old = listen_shared(free(), false).unwrap();
        let address = old.local_addr().unwrap();
        let before = TcpStream::connect(address).await.unwrap();
        turn_away(&old);
        // Its packets are handled within the call on loopback, so it is known at once that nothing came of it.
        let late = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        late.set_nonblocking(true).unwrap();
        assert!(late.connect(&address.into()).is_err_and(|error| error.raw_os_error().is_some()));
        assert!(late.peer_addr().is_err(), "not connected");
        let (accepted, peer) = old.accept().await.unwrap();
        assert_eq!(peer, before.local_addr().unwrap());
        assert!(SockRef::from(&old).accept().is_err(), "nobody else waits");
        drop((old, accepted));
    }
}
