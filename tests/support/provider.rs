//! The fake provider: real sockets, every byte under the test's control.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::ReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::server::TlsStream;

use super::log::{Exchange, Log, Request};
use super::script::{Script, Step};
use super::{secure, wire};

/// Answers each request with a script. Dropping it stops it and closes all connections.
pub struct FakeProvider {
    addr: SocketAddr,
    /// PEM; for the TLS variant.
    ca: Option<String>,
    log: Arc<Log>,
    _tasks: JoinSet<()>,
}

pub(super) type Answer = Arc<dyn Fn(&Request) -> Script + Send + Sync>;

impl FakeProvider {
    /// HTTP/1.1. The first request gets the first script, and so on; requests after the last script get a 500.
    pub async fn start(scripts: Vec<Script>) -> FakeProvider {
        FakeProvider::answering(in_turn(scripts)).await
    }

    /// HTTP/1.1. `answer` makes a script for each request.
    pub async fn answering(answer: impl Fn(&Request) -> Script + Send + Sync + 'static) -> FakeProvider {
        let answer: Answer = Arc::new(answer);
        let converse = move |stream, log| converse(stream, Arc::clone(&answer), log);
        FakeProvider::listen(None, converse).await
    }

    /// TLS, offering these protocols by ALPN (`h2`, `http/1.1`); scripts are used in order.
    pub async fn start_tls(alpn: &[&str], scripts: Vec<Script>) -> FakeProvider {
        FakeProvider::answering_tls(alpn, in_turn(scripts)).await
    }

    /// TLS, offering these protocols by ALPN (`h2`, `http/1.1`).
    pub async fn answering_tls(
        alpn: &[&str],
        answer: impl Fn(&Request) -> Script + Send + Sync + 'static,
    ) -> FakeProvider {
        let answer: Answer = Arc::new(answer);
        let (acceptor, ca) = secure::acceptor(alpn);
        let serve = move |stream, log| secure::serve(stream, acceptor.clone(), Arc::clone(&answer), log);
        FakeProvider::listen(Some(ca), serve).await
    }

    /// TLS; the test handles the connection with this number, from 0, itself.
    pub async fn by_hand<F>(
        alpn: &[&str],
        serve: impl Fn(TlsStream<TcpStream>, usize) -> F + Send + Sync + 'static,
    ) -> FakeProvider
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (acceptor, ca) = secure::acceptor(alpn);
        let serve = Arc::new(serve);
        let accept = move |stream, log: Arc<Log>| {
            let (acceptor, serve, connection) = (acceptor.clone(), Arc::clone(&serve), log.connected());
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, connection).await;
                }
            }
        };
        FakeProvider::listen(Some(ca), accept).await
    }

    async fn listen<F>(
        ca: Option<String>,
        serve: impl Fn(TcpStream, Arc<Log>) -> F + Send + Sync + 'static,
    ) -> FakeProvider
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let log = Arc::new(Log::default());
        let mut tasks = JoinSet::new();
        let seen = Arc::clone(&log);
        tasks.spawn(async move {
            // Owned by this task, so that the connections end with it.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                connections.spawn(serve(stream, Arc::clone(&seen)));
                while connections.try_join_next().is_some() {}
            }
        });
        FakeProvider { addr, ca, log, _tasks: tasks }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn base_url(&self) -> String {
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/v1", self.addr)
    }

    /// The certificate authority to trust, PEM.
    pub fn ca(&self) -> &str {
        self.ca.as_deref().expect("a TLS provider")
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.log.connections()
    }

    /// Waits for this many connections.
    pub async fn connected(&self, count: usize) {
        self.log.connects(count).await;
    }

    /// TLS handshakes so far that continued an earlier session.
    pub fn resumed(&self) -> usize {
        self.log.resumed()
    }

    /// All requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.log.exchanges().into_iter().map(|exchange| exchange.request).collect()
    }

    pub fn exchanges(&self) -> Vec<Exchange> {
        self.log.exchanges()
    }

    /// Waits for the request with this number, from 0.
    pub async fn request(&self, number: usize) -> Request {
        self.log.wait(number, "arrives", |exchange| Some(exchange.request.clone())).await
    }

    /// Waits until the script of this request has ended.
    pub async fn answered(&self, number: usize) -> Instant {
        self.log.wait(number, "is answered", |exchange| exchange.answered).await
    }

    /// Waits until the provider notices that the client of this request has left.
    pub async fn closed(&self, number: usize) -> Instant {
        self.log.wait(number, "is closed by the client", |exchange| exchange.closed).await
    }
}

fn in_turn(scripts: Vec<Script>) -> impl Fn(&Request) -> Script + Send + Sync + 'static {
    move |request| match scripts.get(request.number) {
        Some(script) => script.clone(),
        None => Script::status(500, &[], r#"{"error":{"message":"the fake provider has no script left"}}"#),
    }
}

enum Outcome {
    Next,
    /// The client has left.
    Gone,
    /// The script ends the connection.
    End,
}

async fn converse(mut stream: TcpStream, answer: Answer, log: Arc<Log>) {
    let connection = log.connected();
    let mut buffer = BytesMut::new();
    while let Ok(mut request) = wire::read_request(&mut stream, &mut buffer, connection).await {
        log.arrived(&mut request);
        let mut chunked = false;
        for step in answer(&request).steps {
            if matches!(step, Step::Chunk(_)) {
                log.writes_chunk(request.number);
            }
            match perform(&step, &mut stream, &mut buffer, &mut chunked).await {
                Outcome::Next => {}
                Outcome::Gone => return log.closed_connection(connection),
                Outcome::End => return log.answered(request.number),
            }
        }
        log.answered(request.number);
    }
    log.closed_connection(connection);
}

/// Watches the client during every step.
async fn perform(step: &Step, stream: &mut TcpStream, buffer: &mut BytesMut, chunked: &mut bool) -> Outcome {
    if matches!(step, Step::Reset) {
        stream.set_zero_linger().unwrap();
    }
    let (mut read, mut write) = stream.split();
    let act = async {
        match step {
            Step::Head { status, headers } => {
                let (head, is_chunked) = wire::head(*status, headers);
                *chunked = is_chunked;
                write.write_all(head.as_bytes()).await
            }
            Step::Chunk(bytes) if *chunked => write.write_all(&wire::chunk(bytes)).await,
            Step::Chunk(bytes) | Step::Raw(bytes) => write.write_all(bytes).await,
            Step::EndBody if *chunked => write.write_all(&wire::chunk(&Bytes::new())).await,
            Step::Wait(gate) => {
                gate.passed().await;
                Ok(())
            }
            Step::Reached(gate) => {
                gate.open();
                Ok(())
            }
            Step::Delay(delay) => {
                tokio::time::sleep(*delay).await;
                Ok(())
            }
            Step::UntilClosed => std::future::pending().await,
            Step::EndBody | Step::Close | Step::Reset => Ok(()),
        }
    };
    tokio::select! {
        biased;
        () = gone(&mut read, buffer) => Outcome::Gone,
        done = act => match done {
            Err(_) => Outcome::Gone,
            Ok(()) if matches!(step, Step::Close | Step::Reset) => Outcome::End,
            Ok(()) => Outcome::Next,
        },
    }
}

/// Returns when the client has closed or reset its side. Data that it sends in the meantime is kept for the next
/// request.
async fn gone(read: &mut ReadHalf<'_>, buffer: &mut BytesMut) {
    while buffer.len() < wire::BUFFER_MAX {
        if !matches!(read.read_buf(buffer).await, Ok(1..)) {
            return;
        }
    }
}
