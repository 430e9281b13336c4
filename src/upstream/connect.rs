//! Makes one connection: name look-up, TCP, TLS, HTTP handshake. The caller's timeout covers all four.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::endpoint::{Endpoint, Origin};
use super::line::{Counted, Line};
use crate::failure::{Failure, FailureKind, Phase};
use crate::shutdown::Shutdown;

/// Pings go out only while streams are open; too many make servers hang up.
const PING_EVERY: Duration = Duration::from_secs(25);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Some providers' edges answer with many cookies.
const HEADER_LIST_MAX: u32 = 64 * 1024;
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;
/// An address that has not answered by then is no longer waited for alone.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// Headers of an HTTP/1.1 answer.
const HEADERS_MAX: usize = 1_024;
/// The read buffer of an HTTP/1.1 connection.
const READ_BUFFER_MAX: usize = 256 * 1024;

/// A connection that was just made.
pub(super) enum Made {
    Http1(Line),
    Http2 {
        sender: http2::SendRequest<Full<Bytes>>,
        /// How many streams the peer allows at once, as far as it has said.
        streams_max: Arc<AtomicUsize>,
    },
}

pub(super) struct Connector {
    tls: TlsConnector,
    shutdown: Shutdown,
}

impl Connector {
    pub fn new(shutdown: Shutdown) -> Result<Connector, rustls::Error> {
        let mut roots = RootCertStore::empty();
        // Certificates that cannot be read are passed over: one odd file in the system's store must not stop the gateway.
        let native = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(native.certs);
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Connector { tls: TlsConnector::from(Arc::new(config)), shutdown })
    }

    /// # Errors
    /// `dns`, `connect`, `tls` or `protocol`, each of phase connect.
    pub async fn connect(&self, endpoint: &Endpoint) -> Result<Made, Failure> {
        let origin = endpoint.origin();
        let tcp = dial(origin).await?;
        if !origin.https {
            return self.http1(tcp).await;
        }
        let name = ServerName::try_from(origin.host.clone())
            .map_err(|_| failure(FailureKind::Tls, "the host is no valid server name"))?;
        let tls =
            self.tls.connect(name, tcp).await.map_err(|error| failure(FailureKind::Tls, &format!("TLS: {error}")))?;
        let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        if http2 { self.http2(tls).await } else { self.http1(tls).await }
    }

    async fn http1<S>(&self, stream: S) -> Result<Made, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (stream, read) = Counted::new(stream);
        let handshake = http1::Builder::new()
            .max_buf_size(READ_BUFFER_MAX)
            .max_headers(HEADERS_MAX)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, connection) = handshake.map_err(|error| failure(FailureKind::Protocol, &error.to_string()))?;
        Ok(Made::Http1(Line::new(sender, Box::pin(connection), read)))
    }

    async fn http2<S>(&self, stream: S) -> Result<Made, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let handshake = http2::Builder::new(self.shutdown.clone())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_header_list_size(HEADER_LIST_MAX)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, mut connection) = handshake.map_err(|error| failure(FailureKind::Protocol, &error.to_string()))?;
        let streams_max = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
        let published = streams_max.clone();
        self.shutdown.spawn(std::future::poll_fn(move |context| {
            published.store(connection.current_max_send_streams(), Ordering::Relaxed);
            std::pin::Pin::new(&mut connection).poll(context).map(|_| ())
        }));
        Ok(Made::Http2 { sender, streams_max })
    }
}

/// Tries the addresses of the name: the next one when one is refused, or has not answered for a moment. The first that
/// answers is taken.
async fn dial(origin: &Origin) -> Result<TcpStream, Failure> {
    let found = tokio::net::lookup_host((origin.host.as_str(), origin.port)).await;
    let found =
        found.map_err(|error| failure(FailureKind::Dns, &format!("name look-up of {}: {error}", origin.host)))?;
    let mut addresses = found.take(ADDRESSES_MAX).peekable();
    let mut last = failure(FailureKind::Dns, &format!("{} has no address", origin.host));
    let mut dialling = FuturesUnordered::new();
    loop {
        dialling.extend(addresses.next().map(TcpStream::connect));
        // The caller's timeout bounds the last one.
        let wait = if addresses.peek().is_some() { NEXT_ADDRESS_AFTER } else { Duration::MAX };
        match tokio::time::timeout(wait, dialling.next()).await {
            Err(_) => {}
            Ok(Some(Ok(stream))) => {
                // Without it small requests wait for the peer's delayed acknowledgement.
                stream.set_nodelay(true).map_err(|error| refused(&error))?;
                return Ok(stream);
            }
            Ok(Some(Err(error))) => last = refused(&error),
            Ok(None) => return Err(last),
        }
    }
}

fn refused(error: &io::Error) -> Failure {
    failure(FailureKind::Connect, &format!("connect: {error}"))
}

fn failure(kind: FailureKind, message: &str) -> Failure {
    Failure::new(kind, Phase::Connect, message)
}
