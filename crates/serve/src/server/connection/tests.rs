//! Silent connections, and clients that do not read, on a stopped clock.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::accept;
use super::super::connection_place::{IDLE_FOR, TAKE_FOR};
use super::super::listener::Listener;
use super::*;
use photofinish_base::clock::Instant;
use photofinish_base::memory::Memory;
use photofinish_config::{Listen, parse};

mod drain;

/// Buffer between client and server, in bytes.
const PIPE: usize = 64 * 1024;

/// `/endless` answers without end, `/slow` after an hour, `/whole` with more than the buffers hold. The token reports
/// that an endless answer was dropped.
pub(in crate::server) fn router() -> (Router, CancellationToken) {
    let dropped = CancellationToken::new();
    let token = dropped.clone();
    let endless = async move || {
        let guard = token.drop_guard();
        Body::from_stream(stream::repeat_with(move || {
            let _ = &guard;
            Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 16 * 1024]))
        }))
    };
    let slow = async || {
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        "late"
    };
    let whole = async || vec![b'x'; 8 << 20];
    let router =
        Router::new().route("/whole", get(whole)).route("/endless", get(endless)).route("/slow", get(slow).post(slow));
    (router.route("/", get(async || "here").post(async || "here")), dropped)
}

/// Slots with more memory than they need.
pub(in crate::server) fn places(ordinary: usize, reserve: usize) -> Arc<Places> {
    Places::new(ordinary, reserve, Memory::new(1 << 30))
}

/// The only slot of a listener.
async fn place() -> ConnectionSlot {
    places(1, 0).enter(Ipv4Addr::LOCALHOST.into()).await.unwrap()
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Without a certificate, with the default configuration.
pub(in crate::server) fn shared(router: Router, places: Arc<Places>) -> ServerState {
    configured("", router, places)
}

/// Without a certificate.
pub(in crate::server) fn configured(config: &str, router: Router, places: Arc<Places>) -> ServerState {
    let config = parse(config, Path::new("config.toml"), &|_| None).unwrap();
    let live = Arc::new(LiveConfig::new(config, &HashMap::new()).unwrap());
    ServerState { places, router, tls: None, shutdown: Shutdown::new(), live: Arc::new(move || live.clone()) }
}

async fn served(version: HttpVersion, router: Router) -> (DuplexStream, JoinHandle<()>, Shutdown) {
    let shared = shared(router, places(1, 0));
    let (client, serving) = served_to(HERE, version, &shared).await;
    (client, serving, shared.shutdown)
}

/// A connection from this address.
pub(in crate::server) async fn served_to(
    peer: IpAddr,
    version: HttpVersion,
    shared: &ServerState,
) -> (DuplexStream, JoinHandle<()>) {
    let (client, server) = duplex(PIPE);
    let (shared, by) = (shared.clone(), Instant::now() + HEAD_FOR);
    let place = shared.places.enter(peer).await.unwrap();
    let (shutdown, silent) = (shared.shutdown.clone(), silent_client(&place).await);
    let serving = async move {
        let (_open, presence) = silent;
        serve_connection(server, version, by, &presence, peer, place, &shared).await;
    };
    (client, shutdown.spawn(serving))
}

/// The presence of a client that says nothing, over a socket of its own.
async fn silent_client(place: &ConnectionSlot) -> (TcpStream, ClientPresence) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, socket::share(listener.accept().await.unwrap().0, place.connection.clone()).1)
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_nothing_is_closed() {
    for (version, said) in [
        (HttpVersion::Http1, ""),
        (HttpVersion::Http1, "GET / HTTP/1.1\r\n"),
        (HttpVersion::Http2, "PRI * HTTP/2.0\r\n\r\nSM\r\n"),
        (HttpVersion::Http2, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ] {
        let (mut client, serving, _) = served(version, router().0).await;
        let began = Instant::now();
        client.write_all(said.as_bytes()).await.unwrap();
        serving.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), HEAD_FOR.as_secs(), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_unknown_version_is_closed() {
    for said in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.write_all(said.as_bytes()).await.unwrap();
        let place = place().await;
        let (socket, presence) = socket::share(listener.accept().await.unwrap().0, place.connection.clone());
        let (shared, began) = (shared(router().0, places(1, 0)), Instant::now());
        plain_connection(socket, presence, HERE, place, shared).await;
        assert_eq!(began.elapsed().as_secs(), HEAD_FOR.as_secs(), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_answer_takes_long_is_kept() {
    let (mut client, serving, _) = served(HttpVersion::Http1, router().0).await;
    client.write_all(b"GET /slow HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("late"), "{answer}");
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_http2_stream_that_is_not_read_is_ended_and_its_connection_kept() {
    let (router, dropped) = router();
    let (client, _serving, shutdown) = served(HttpVersion::Http2, router).await;
    let (mut sender, connection) = http2::handshake(shutdown.clone(), TokioIo::new(client)).await.unwrap();
    shutdown.spawn(connection);
    let mut ask = |path: &str| {
        sender.send_request(Request::get(format!("http://test{path}")).body(Empty::<Bytes>::new()).unwrap())
    };
    let began = Instant::now();
    let untaken = ask("/endless").await.unwrap();
    let late = ask("/slow");
    dropped.cancelled().await;
    assert_eq!(began.elapsed().as_secs(), TAKE_FOR.as_secs());
    let late = late.await.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert_eq!(late, "late");
    drop(untaken);
}

#[tokio::test(start_paused = true)]
async fn an_idle_http2_connection_is_told_to_go() {
    let (client, serving, shutdown) = served(HttpVersion::Http2, router().0).await;
    // The client answers every ping, like one that wants to stay connected.
    let (mut sender, connection) = http2::handshake(shutdown.clone(), TokioIo::new(client)).await.unwrap();
    let connection = shutdown.spawn(connection);
    let mut ask = async |path: &str| {
        let request = Request::get(format!("http://test{path}")).body(Empty::<Bytes>::new()).unwrap();
        sender.send_request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes()
    };
    let began = Instant::now();
    // A request that takes an hour is not idle time, and each request restarts the idle time.
    assert_eq!(ask("/slow").await, "late");
    tokio::time::sleep(IDLE_FOR - Duration::from_secs(1)).await;
    assert_eq!(ask("/").await, "here");
    let idle = Instant::now();
    connection.await.unwrap().unwrap();
    serving.await.unwrap();
    assert_eq!((idle - began).as_secs(), 3_600 + 59);
    assert_eq!(idle.elapsed().as_secs(), IDLE_FOR.as_secs());
}

#[tokio::test(start_paused = true)]
async fn an_http1_connection_waits_for_its_next_head_no_longer_than_for_the_first() {
    for (pause, bytes) in
        [(Duration::from_secs(3_600), ""), (Duration::from_secs(5), "GET / HTTP/1.1\r\nx: 1234567890")]
    {
        let (mut client, serving, shutdown) = served(HttpVersion::Http1, router().0).await;
        client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
        let mut answer = [0; 1_024];
        let read = client.read(&mut answer).await.unwrap();
        assert!(answer[..read].ends_with(b"here"));
        let began = Instant::now();
        shutdown.spawn(async move {
            for byte in bytes.bytes() {
                if client.write_all(&[byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(pause).await;
            }
            pending::<()>().await;
        });
        serving.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), HEAD_FOR.as_secs(), "a byte every {pause:?}");
    }
}

/// A listener with this many slots.
async fn listening(places: Arc<Places>) -> (SocketAddr, Shutdown) {
    let listener = Listener::bind(&Listen::Tcp(SocketAddr::new(HERE, 0)), false).await.unwrap();
    let (address, shared) = (listener.at().address().unwrap(), shared(router().0, places));
    let shutdown = shared.shutdown.clone();
    shutdown.spawn(accept::accept(listener, shared));
    (address, shutdown)
}

/// A connection with this request sent.
async fn asked(address: SocketAddr, request: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(format!("{request} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).await.unwrap();
    client
}

/// Reads until `end` arrives.
async fn heard(client: &mut TcpStream, end: &str) -> String {
    let mut heard = Vec::new();
    while !heard.ends_with(end.as_bytes()) {
        match client.read_u8().await {
            Ok(byte) => heard.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(heard).unwrap()
}

#[tokio::test]
async fn a_full_shared_closes_what_is_idle_and_never_what_is_at_work() {
    let (address, _shutdown) = listening(places(3, 1)).await;
    let mut working = asked(address, "GET /endless").await;
    assert!(heard(&mut working, "xxxx").await.contains("200 OK"));
    // An answered connection, a silent one, and so on: there is always a slot for another.
    for round in 0..50 {
        let mut idle = asked(address, "GET /").await;
        assert!(heard(&mut idle, "here").await.contains("200 OK"), "round {round}");
        let _silent = TcpStream::connect(address).await.unwrap();
        let mut newcomer = asked(address, "GET /").await;
        assert!(heard(&mut newcomer, "here").await.contains("200 OK"), "round {round}");
    }
    assert_eq!(heard(&mut working, "xxxx").await, "xxxx");
}

#[tokio::test]
async fn an_answer_that_nobody_reads_keeps_no_place() {
    let (address, _shutdown) = listening(places(1, 0)).await;
    for round in 0..20 {
        let mut unread = asked(address, "GET /whole").await;
        assert!(heard(&mut unread, "xxxx").await.contains("200 OK"), "round {round}");
        let mut newcomer = asked(address, "GET /").await;
        assert!(heard(&mut newcomer, "here").await.contains("200 OK"), "round {round}");
    }
}

#[tokio::test]
async fn where_all_is_at_work_the_reserve_answers_and_begins_nothing() {
    let (address, _shutdown) = listening(places(2, 2)).await;
    let mut working = Vec::new();
    for _ in 0..2 {
        let mut client = asked(address, "GET /endless").await;
        heard(&mut client, "xxxx").await;
        working.push(client);
    }
    for round in 0..20 {
        let mut health = asked(address, "GET /").await;
        assert!(heard(&mut health, "here").await.contains("200 OK"), "round {round}");
        let mut more = asked(address, "POST /slow").await;
        let refused = heard(&mut more, "}").await;
        assert!(refused.contains(" 503 ") && refused.contains("photofinish_crowded"), "{refused}");
        assert!(refused.to_lowercase().contains("retry-after: 1"), "{refused}");
    }
    for client in &mut working {
        assert_eq!(heard(client, "xxxx").await, "xxxx");
    }
    // Once there is room again, a connection in the reserve is served like any other.
    let mut waiting = asked(address, "GET /").await;
    heard(&mut waiting, "here").await;
    drop(working);
    let worked = async {
        loop {
            waiting.write_all(b"POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            let mut head = heard(&mut waiting, "\r\n\r\n").await;
            if head.contains("200 OK") {
                return;
            }
            head += &heard(&mut waiting, "}").await;
            assert!(head.contains("photofinish_crowded"), "{head}");
        }
    };
    tokio::time::timeout(Duration::from_secs(20), worked).await.expect("the place becomes an ordinary one");
}

#[tokio::test]
async fn a_client_that_takes_nothing_loses_its_connection() {
    // A whole answer is worth less patience than one that a provider is still paid for.
    for (path, take_for) in [("/endless", TAKE_FOR), ("/whole", socket::TAKE_WHOLE_FOR)] {
        let (router, dropped) = router();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let shared = shared(router, places(1, 0));
        let serving = shared.shutdown.clone().spawn(connection(stream, HERE, place().await, None, shared));
        client.write_all(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).await.unwrap();
        client.read_u8().await.unwrap();
        // From here on time passes only when the clock is advanced.
        tokio::time::pause();
        let began = Instant::now();
        serving.await.unwrap();
        assert_eq!(dropped.is_cancelled(), path == "/endless");
        let waited = began.elapsed();
        let second = Duration::from_secs(1);
        assert!(take_for - second < waited && waited < take_for + second, "{path}: {waited:?}");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_dead_client_is_found_by_probes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let (socket, _) = socket::share(stream, place().await.connection.clone());
    assert!(socket.is_probed());
}

/// A certificate that no client trusts.
fn certificate() -> Arc<ServerConfig> {
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["gateway.test".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    Arc::new(builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key.into()).unwrap())
}

/// What a client may send of a handshake: nothing, the head of a record, a part of it.
const BEGINNINGS: [&[u8]; 3] = [b"", &[22, 3, 1], &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]];

#[tokio::test]
async fn a_handshake_that_stalls_is_cut() {
    for said in BEGINNINGS {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let shared = shared(router().0, places(1, 0));
        let connection = connection(stream, HERE, place().await, Some(certificate()), shared.clone());
        client.write_all(said).await.unwrap();
        tokio::time::pause();
        let began = Instant::now();
        shared.shutdown.spawn(connection).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), tls::HANDSHAKE_FOR.as_secs(), "{said:?}");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_stalled_handshake_gives_up_its_place_and_does_not_delay_the_drain() {
    let listener = Listener::bind(&Listen::Tcp(SocketAddr::new(HERE, 0)), false).await.unwrap();
    let address = listener.at().address().unwrap();
    let shared = ServerState { tls: Some(certificate()), ..shared(router().0, places(2, 1)) };
    let shutdown = shared.shutdown.clone();
    shutdown.spawn(accept::accept(listener, shared));
    let mut stalled = Vec::new();
    for round in 0..30 {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(BEGINNINGS[round % BEGINNINGS.len()]).await.unwrap();
        stalled.push(client);
        let mut plain = asked(address, "GET /").await;
        let answer = heard(&mut plain, "}").await;
        assert!(answer.contains(" 400 ") && answer.contains("photofinish_only_https"), "round {round}: {answer}");
        assert_eq!(heard(&mut plain, "never").await.trim_start_matches('}'), "", "closed");
    }
    shutdown.drain();
    assert!(shutdown.finished(Duration::from_secs(5)).await);
}
