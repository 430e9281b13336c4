//! The fake provider over TLS, with HTTP/2 by negotiation: hyper writes the bytes, scripts control content and time.
//! Also certificates for tests, and a client that trusts them.

use std::io;
use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream as ClientStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::log::{Log, Request};
use super::provider::Answer;
use super::script::Step;
use super::soon;

/// A name that no resolver knows. The certificates are valid for it too.
pub const NAME: &str = "provider.test";

/// A certificate for 127.0.0.1, localhost and [`NAME`], all PEM; its authority is made only for it.
pub struct Identity {
    pub ca: String,
    pub cert: String,
    pub key: String,
}

impl Identity {
    pub fn new() -> Identity {
        let (ca, certificate, key) = certificate();
        Identity { ca, cert: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A client's TLS connection that trusts only these authorities (PEM). `alpn`: the offered protocols.
pub async fn secured(stream: TcpStream, ca: &str, alpn: &[&str]) -> io::Result<ClientStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    soon("the TLS handshake", TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

fn certificate() -> (String, rcgen::Certificate, KeyPair) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let ca = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);

    let key = KeyPair::generate().unwrap();
    let names = ["127.0.0.1", "localhost", NAME].map(str::to_owned).to_vec();
    (ca, CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap(), key)
}

/// The TLS acceptor of a new [`Identity`]; and the PEM of its authority.
pub(super) fn acceptor(alpn: &[&str]) -> (TlsAcceptor, String) {
    let (ca, certificate, key) = certificate();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), ca)
}

/// One connection, to its end.
pub(super) async fn serve(stream: TcpStream, acceptor: TlsAcceptor, answer: Answer, log: Arc<Log>) {
    let connection = log.connected();
    let Ok(stream) = acceptor.accept(stream).await else { return };
    if stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed) {
        log.resumes();
    }
    let service = service_fn(move |request| perform_head(request, connection, Arc::clone(&answer), Arc::clone(&log)));
    // An error here means that the client left or a script broke off: the log has the details.
    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

type FakeBody = UnsyncBoxBody<Bytes, io::Error>;

async fn perform_head(
    request: hyper::Request<Incoming>,
    connection: usize,
    answer: Answer,
    log: Arc<Log>,
) -> io::Result<hyper::Response<FakeBody>> {
    let mut request = read(request, connection).await?;
    log.arrived(&mut request);
    let mut performance =
        Performance { steps: answer(&request).steps.into_iter(), log, number: request.number, answered: false };
    match performance.next().await {
        Some(Step::Head { status, headers }) => {
            let mut response = hyper::Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(performance.into_body()).map_err(io::Error::other)
        }
        Some(Step::Close | Step::Reset) => Err(performance.broken()),
        step => panic!("{step:?} before a head"),
    }
}

async fn read(request: hyper::Request<Incoming>, connection: usize) -> io::Result<Request> {
    let (head, body) = request.into_parts();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Ok(Request {
        number: 0,
        connection,
        version: format!("{:?}", head.version),
        method: head.method.to_string(),
        path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: body.collect().await.map_err(io::Error::other)?.to_bytes(),
    })
}

/// A running script. Dropping it before its end means that the client has left.
struct Performance {
    steps: IntoIter<Step>,
    log: Arc<Log>,
    number: usize,
    answered: bool,
}

impl Performance {
    /// Performs steps until the next one to send. None: the end of the body.
    async fn next(&mut self) -> Option<Step> {
        loop {
            match self.steps.next() {
                Some(Step::Wait(gate)) => gate.passed().await,
                Some(Step::Reached(gate)) => gate.open(),
                Some(Step::Delay(delay)) => tokio::time::sleep(delay).await,
                Some(Step::UntilClosed) | None => std::future::pending().await,
                Some(Step::EndBody) => {
                    self.end();
                    return None;
                }
                step => return step,
            }
        }
    }

    fn into_body(self) -> FakeBody {
        let frames = stream::unfold(self, |mut performance| async move {
            let frame = match performance.next().await? {
                Step::Chunk(bytes) | Step::Raw(bytes) => {
                    // hyper drops a body of known length at its last byte, without asking for its end.
                    if let [Step::EndBody, ..] = performance.steps.as_slice() {
                        performance.end();
                    }
                    Ok(Frame::data(bytes))
                }
                Step::Close | Step::Reset => Err(performance.broken()),
                step => panic!("{step:?} in a body"),
            };
            Some((frame, performance))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    fn broken(&mut self) -> io::Error {
        self.end();
        io::Error::new(io::ErrorKind::ConnectionAborted, "as the script says")
    }

    fn end(&mut self) {
        self.answered = true;
        self.log.answered(self.number);
    }
}

impl Drop for Performance {
    fn drop(&mut self) {
        if !self.answered {
            self.log.closed(self.number);
        }
    }
}
