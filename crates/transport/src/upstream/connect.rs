//! Makes one connection: name look-up, TCP, a proxy's tunnel, TLS, HTTP handshake. The caller's timeout covers all of them.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use super::connection_error::{HEADER_LIST_MAX, HEADERS_MAX, READ_BUFFER_MAX};
use super::counted_stream::{CountedStream, StreamCount};
use super::dns::{NameCache, Resolver};
use super::endpoint::{Endpoint, Origin};
use super::http1::Http1Connection;
use super::http2::{NOT_ANNOUNCED, STREAMS_MAX};
use super::tunnel;
use super::upload::RequestBody;
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::files::{self, FileLimits};
use photofinish_base::machine::{self, Descriptors};
use photofinish_base::shutdown::Shutdown;
use photofinish_config::{Authorities, Proxy};

/// Pings are sent only while streams are open; servers close a connection with too many.
const PING_EVERY: Duration = Duration::from_secs(25);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Addresses tried for one name.
const ADDRESSES_MAX: usize = 8;
/// After this time the next address is tried too.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// TCP keep-alive: an idle connection is probed after this time. While a model thinks, only this distinguishes a dead peer from
/// a silent one, and firewalls drop connections that are silent for a few minutes.
const PROBE_AFTER: Duration = Duration::from_secs(30);
/// Interval of further probes, until the system gives up (Linux: after nine without an answer).
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// Bytes of one HTTP/2 answer that may wait to be read: 2.5 MB/s over a round trip of 100 ms, many times what a model
/// writes. A stalled client holds no more of its winner's answer than this.
const STREAM_WINDOW_MAX: u32 = 256 * 1024;
/// The bound for all streams of a connection together: each can fill its own window, so an unread stream stops no
/// other.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW_MAX * STREAMS_MAX as u32;

/// One type with and without TLS: hyper's code for a connection is in the program once for each.
type ProviderStream = Either<TcpStream, Box<dyn TlsSocket>>;

/// TLS behind a pointer keeps its code out of what reads a socket without it.
trait TlsSocket: AsyncRead + AsyncWrite + Send + Unpin {}

impl TlsSocket for TlsStream<TcpStream> {}

/// A connection that was just made.
pub(super) enum NewConnection {
    Http1(Http1Connection),
    Http2 {
        sender: http2::SendRequest<RequestBody>,
        /// Maximum streams of the peer, if it has announced it.
        streams_max: Arc<AtomicUsize>,
        /// Counts the bytes that are read.
        count: Arc<StreamCount>,
    },
}

pub(super) struct Connector {
    tls: TlsClient,
    /// The certificate authorities of every origin.
    roots: RootCertStore,
    /// Clients for origins with separate authorities. Only configurations name those, so there are few.
    own_tls: Mutex<HashMap<Arc<Authorities>, TlsClient>>,
    names: Arc<NameCache>,
    pub descriptors: Descriptors,
    shutdown: Shutdown,
    /// If set, connections are made in memory, by the host's name.
    #[cfg(any(test, feature = "test-support"))]
    pub in_memory: Option<Dial>,
}

#[cfg(any(test, feature = "test-support"))]
pub type Dial = Arc<dyn Fn(&str) -> tokio::io::DuplexStream + Send + Sync>;

impl Connector {
    pub fn new(shutdown: Shutdown, resolver: Resolver) -> Result<Connector, rustls::Error> {
        let mut roots = RootCertStore::empty();
        // Skip unreadable certificates: one bad file in the system's store must not stop the gateway.
        let read = files::call(Path::new("the system's certificates"), FileLimits::once(), |_| {
            Ok(rustls_native_certs::load_native_certs().certs)
        });
        match read {
            Ok(certificates) => _ = roots.add_parsable_certificates(certificates),
            Err(error) => tracing::warn!("the system's certificates are left out: {error}"),
        }
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let tls = TlsClient::new(roots.clone())?;
        let descriptors = Descriptors::new(machine::descriptors());
        let names = NameCache::new(shutdown.clone(), resolver);
        Ok(Connector {
            tls,
            roots,
            own_tls: Mutex::default(),
            names,
            descriptors,
            shutdown,
            #[cfg(any(test, feature = "test-support"))]
            in_memory: None,
        })
    }

    /// `http1`: offer only HTTP/1.1. `changed` is notified when an HTTP/2 connection changes its number of streams, or ends.
    ///
    /// # Errors
    /// `dns`, `connect`, `tls` or `protocol`, each of phase connect.
    pub async fn connect(
        &self,
        endpoint: &Endpoint,
        http1: bool,
        changed: Arc<Notify>,
    ) -> Result<NewConnection, Failure> {
        let origin = endpoint.origin();
        #[cfg(any(test, feature = "test-support"))]
        if let Some(dial) = &self.in_memory {
            return self.http1(dial(&origin.host)).await;
        }
        let tcp = match &origin.transport.proxy {
            None => self.tcp(&origin.host, origin.port).await?,
            Some(proxy) => {
                let named = |failure: Failure| Failure { kind: failure.kind, ..unreachable_proxy(proxy, &failure) };
                tunnel::open(self.tcp(&proxy.host, proxy.port).await.map_err(named)?, proxy, origin).await?
            }
        };
        if !origin.https {
            return self.http1(ProviderStream::Left(tcp)).await;
        }
        // Boxed: most of 25 KB of state, which connections without TLS need not carry.
        Box::pin(self.secure(tcp, origin, http1, changed)).await
    }

    /// TLS, and then the HTTP version that the peer chooses.
    async fn secure(
        &self,
        tcp: TcpStream,
        origin: &Origin,
        http1: bool,
        changed: Arc<Notify>,
    ) -> Result<NewConnection, Failure> {
        let name = ServerName::try_from(origin.host.clone())
            .map_err(|_| failure(FailureKind::Tls, "the host is no valid server name"))?;
        let tls = self.tls(origin)?;
        let connector = if http1 { tls.http1 } else { tls.both };
        let tls = connector.connect(name, tcp).await;
        let tls = tls.map_err(|error| failure(FailureKind::Tls, &format!("TLS: {error}")))?;
        let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = ProviderStream::Right(Box::new(tls));
        if http2 { self.http2(stream, changed).await } else { self.http1(stream).await }
    }

    /// TLS with the authorities of this origin.
    fn tls(&self, origin: &Origin) -> Result<TlsClient, Failure> {
        let Some(authorities) = &origin.transport.authorities else { return Ok(self.tls.clone()) };
        let mut own = self.own_tls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tls) = own.get(authorities) {
            return Ok(tls.clone());
        }
        let mut roots = self.roots.clone();
        roots.add_parsable_certificates(authorities.certificates.iter().cloned());
        let tls = TlsClient::new(roots).map_err(|error| failure(FailureKind::Tls, &error.to_string()))?;
        own.insert(authorities.clone(), tls.clone());
        Ok(tls)
    }

    async fn tcp(&self, host: &str, port: u16) -> Result<TcpStream, Failure> {
        let problem = |why: Arc<io::Error>| {
            // A look-up also needs descriptors, and its error may not show that.
            let own = is_own_lack(&why, &self.descriptors) || self.descriptors.are_scarce();
            let kind = if own { FailureKind::GatewayLimit } else { FailureKind::Dns };
            failure(kind, &format!("name look-up of {host}: {why}"))
        };
        let mut addresses = self.names.look_up(host).await.map_err(problem)?;
        addresses.iter_mut().for_each(|address| address.set_port(port));
        dial(addresses, &self.descriptors).await
    }

    async fn http1<S>(&self, stream: S) -> Result<NewConnection, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (stream, count) = CountedStream::http1(stream);
        let handshake = http1::Builder::new()
            .max_buf_size(READ_BUFFER_MAX)
            .max_headers(HEADERS_MAX)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, connection) = handshake.map_err(|error| failure(FailureKind::Protocol, &error.to_string()))?;
        Ok(NewConnection::Http1(Http1Connection::new(sender, Box::pin(connection), count)))
    }

    async fn http2<S>(&self, stream: S, changed: Arc<Notify>) -> Result<NewConnection, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (stream, count) = CountedStream::http2(stream);
        let handshake = http2::Builder::new(self.shutdown.clone())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_header_list_size(HEADER_LIST_MAX)
            .initial_max_send_streams(NOT_ANNOUNCED)
            .initial_stream_window_size(STREAM_WINDOW_MAX)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, mut connection) = handshake.map_err(|error| failure(FailureKind::Protocol, &error.to_string()))?;
        let streams_max = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
        let published = streams_max.clone();
        self.shutdown.spawn(std::future::poll_fn(move |context| {
            let ended = std::pin::Pin::new(&mut connection).poll(context).map(|_| ());
            let streams_max = connection.current_max_send_streams();
            if published.swap(streams_max, Ordering::Relaxed) != streams_max || ended.is_ready() {
                changed.notify_waiters();
            }
            ended
        }));
        Ok(NewConnection::Http2 { sender, streams_max, count })
    }
}

/// A TLS client that trusts one set of authorities. Cheap to clone.
#[derive(Clone)]
struct TlsClient {
    /// Offers HTTP/2 and HTTP/1.1.
    both: TlsConnector,
    /// Offers only HTTP/1.1.
    http1: TlsConnector,
}

impl TlsClient {
    fn new(roots: RootCertStore) -> Result<TlsClient, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let http1 = TlsConnector::from(Arc::new(config.clone()));
        config.alpn_protocols.insert(0, b"h2".to_vec());
        Ok(TlsClient { both: TlsConnector::from(Arc::new(config)), http1 })
    }
}

/// The failure of connecting to the proxy itself.
fn unreachable_proxy(proxy: &Proxy, failure: &Failure) -> Failure {
    tunnel::refused(proxy, &format!("cannot be reached: {}", failure.message))
}

/// Tries the addresses of a name: starts the next one when one refuses or is slow. The first connection is used.
async fn dial(addresses: Vec<SocketAddr>, descriptors: &Descriptors) -> Result<TcpStream, Failure> {
    let mut addresses = by_turns(addresses).into_iter().take(ADDRESSES_MAX).peekable();
    let mut last = failure(FailureKind::Dns, "the name has no address");
    let mut dialling = FuturesUnordered::new();
    loop {
        dialling.extend(addresses.next().map(|address| connect(address, descriptors)));
        // The caller's timeout bounds the last address.
        let wait = if addresses.peek().is_some() { NEXT_ADDRESS_AFTER } else { Duration::MAX };
        match tokio::time::timeout(wait, dialling.next()).await {
            Err(_) => {}
            Ok(Some(Ok(stream))) => {
                // Without it small requests wait for the peer's delayed acknowledgement.
                stream.set_nodelay(true).map_err(|error| refused(&error, descriptors))?;
                return Ok(stream);
            }
            Ok(Some(Err(error))) => last = refused(&error, descriptors),
            Ok(None) => return Err(last),
        }
    }
}

/// Alternates the two families, the system's first choice first (RFC 8305), so that neither hides the other.
fn by_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut ones, mut others): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|one| one.is_ipv6() == first);
    let mut turns = Vec::with_capacity(ones.len() + others.len());
    ones.reverse();
    others.reverse();
    while let Some(one) = ones.pop().or_else(|| others.pop()) {
        turns.push(one);
        turns.extend(others.pop());
    }
    turns
}

async fn connect(address: SocketAddr, descriptors: &Descriptors) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if !descriptors.opened(socket.as_raw_fd()) {
        return Err(machine::no_descriptor());
    }
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY);
    // Connecting works without probes too.
    let _ = SockRef::from(&socket).set_tcp_keepalive(&probes);
    socket.connect(address).await
}

/// The failure of dialling one address.
fn refused(error: &io::Error, descriptors: &Descriptors) -> Failure {
    let own = is_own_lack(error, descriptors);
    failure(if own { FailureKind::GatewayLimit } else { FailureKind::Connect }, &format!("connect: {error}"))
}

/// Whether this process or machine has run out of descriptors or memory. Records it for admission.
fn is_own_lack(error: &io::Error, descriptors: &Descriptors) -> bool {
    let own = machine::is_exhausted(error);
    if own {
        descriptors.ran_out();
    }
    own
}

fn failure(kind: FailureKind, message: &str) -> Failure {
    Failure::new(kind, Phase::Connect, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_family_hides_the_other() {
        let turns = |addresses: &[&str]| {
            let addresses = addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 0)).collect();
            by_turns(addresses).iter().map(|address| address.ip().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(turns(&["::1", "::2", "::3", "1.1.1.1"]), ["::1", "1.1.1.1", "::2", "::3"]);
        assert_eq!(turns(&["1.1.1.1", "::1", "1.1.1.2", "::2", "::3"]), ["1.1.1.1", "::1", "1.1.1.2", "::2", "::3"]);
        assert_eq!(turns(&["1.1.1.1"]), ["1.1.1.1"]);
        assert!(turns(&[]).is_empty());
    }

    #[tokio::test]
    async fn the_second_family_is_tried_when_the_first_fails() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        // No listener on this port of the other family.
        let unreachable: SocketAddr = "[::1]:1".parse().unwrap();
        let descriptors = Descriptors::new(machine::descriptors());
        let stream = dial(vec![unreachable, unreachable, unreachable, there], &descriptors).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), there);
        assert!(SockRef::from(&stream).keepalive().unwrap(), "it is probed");
        assert_eq!(dial(Vec::new(), &descriptors).await.unwrap_err().kind, FailureKind::Dns);
    }
}
