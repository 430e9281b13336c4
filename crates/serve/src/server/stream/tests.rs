//! HTTP/2 clients that do not take their answers, or ask for more than they may, on a stopped clock.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures_util::StreamExt as _;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::{Method, Request, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use crate::server::connection::ServerState;
use crate::server::connection::tests::{configured, places, served_to, shared};
use crate::server::connection_place::{IDLE_FOR, TAKE_WHOLE_FOR, UNKNOWN_STREAMS_MAX};
use crate::server::connection_slots::Places;
use crate::server::socket::HttpVersion;
use photofinish_base::clock::Instant;
use photofinish_base::memory::Memory;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LENGTH: usize = 200_000;

/// `/small`, `/whole` with [`LENGTH`] bytes, `/stream` with as many in parts, and `/empty`.
fn router() -> Router {
    let part = || Ok::<_, std::convert::Infallible>(Bytes::from_static(&[b'x'; 1_000]));
    let stream = async move || Body::from_stream(futures_util::stream::repeat_with(part).take(LENGTH / 1_000));
    Router::new()
        .route("/small", get(async || "a small answer"))
        .route("/whole", get(async || vec![b'x'; LENGTH]))
        .route("/stream", get(stream))
        .route("/empty", get(async || StatusCode::NO_CONTENT))
}

/// A client whose streams begin with this window.
struct Client {
    sender: SendRequest<Bytes>,
    serving: JoinHandle<()>,
}

impl Client {
    async fn with(window: u32, shared: &ServerState) -> Client {
        Client::from(HERE, window, shared).await
    }

    async fn from(peer: IpAddr, window: u32, shared: &ServerState) -> Client {
        let (client, serving) = served_to(peer, HttpVersion::Http2, shared).await;
        let mut builder = h2::client::Builder::new();
        let (sender, connection) = builder.initial_window_size(window).handshake::<_, Bytes>(client).await.unwrap();
        shared.shutdown.spawn(async move {
            let _ = connection.await;
        });
        let mut client = Client { sender: sender.ready().await.unwrap(), serving };
        // From now on the server has counted what the connection itself takes.
        assert_eq!(read(client.ask("/empty")).await, Ok(0));
        client
    }

    fn ask(&mut self, path: &str) -> ResponseFuture {
        self.ask_as(Method::GET, path, "")
    }

    fn ask_as(&mut self, method: Method, path: &str, token: &str) -> ResponseFuture {
        let request = Request::builder().method(method).uri(format!("http://test{path}")).header("x-api-key", token);
        self.sender.send_request(request.body(()).unwrap(), true).unwrap().0
    }
}

/// How the answer ended: its bytes, or the reason of a reset. `None`: the connection ended.
async fn read(answer: ResponseFuture) -> Result<usize, Option<Reason>> {
    let mut body = answer.await.map_err(|error| error.reason())?.into_body();
    let mut read = 0;
    while let Some(data) = body.data().await {
        read += take(&mut body, data.map_err(|error| error.reason())?);
    }
    Ok(read)
}

/// Takes these bytes, so that the window opens again.
fn take(body: &mut RecvStream, data: Bytes) -> usize {
    body.flow_control().release_capacity(data.len()).unwrap();
    data.len()
}

/// The state of a server with the default configuration, and what its clients hold.
fn server() -> (ServerState, Memory) {
    let memory = Memory::new(1 << 30);
    (shared(router(), Places::new(10, 1, memory.clone())), memory)
}

#[tokio::test(start_paused = true)]
async fn a_whole_answer_without_a_window_is_dropped_after_seconds_and_the_connection_kept() {
    for path in ["/small", "/whole"] {
        let (shared, memory) = server();
        let mut client = Client::with(0, &shared).await;
        let idle = memory.clients();
        let began = Instant::now();
        let answer = client.ask(path);
        assert_eq!(read(answer).await, Err(Some(Reason::CANCEL)), "{path}");
        assert_eq!(began.elapsed().as_secs(), TAKE_WHOLE_FOR.as_secs(), "{path}");
        assert_eq!(read(client.ask("/empty")).await, Ok(0), "{path}: the connection is kept");
        assert_eq!(memory.clients(), idle, "{path}: all is returned");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_window_of_one_byte_leaves_behind_ends_the_connection_after_seconds() {
    let (shared, memory) = server();
    let mut client = Client::with(1, &shared).await;
    let idle = memory.clients();
    let began = Instant::now();
    let answers: Vec<_> = (0..10).map(|_| client.ask("/small")).collect();
    let mut bodies = Vec::new();
    for answer in answers {
        bodies.push(answer.await.unwrap().into_body());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(memory.clients() > idle + 10 * 1_024, "hyper holds them, and nothing else does");
    client.serving.await.unwrap();
    let after = began.elapsed();
    assert!(TAKE_WHOLE_FOR <= after && after <= 2 * TAKE_WHOLE_FOR, "{after:?}");
    assert_eq!(memory.clients(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_that_reads_gets_all_of_a_long_answer() {
    for path in ["/whole", "/stream"] {
        let (shared, memory) = server();
        let mut client = Client::with(1_000, &shared).await;
        let idle = memory.clients();
        let mut body = client.ask(path).await.unwrap().into_body();
        let (began, mut read) = (Instant::now(), 0);
        while let Some(data) = body.data().await {
            tokio::time::sleep(Duration::from_millis(600)).await;
            read += take(&mut body, data.unwrap());
        }
        assert_eq!(read, LENGTH, "{path}");
        assert!(began.elapsed() > 5 * TAKE_WHOLE_FOR, "{path}: {:?}", began.elapsed());
        drop(body);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!client.serving.is_finished(), "{path}: the connection is kept");
        assert_eq!(memory.clients(), idle, "{path}: all is returned");
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_answer_counts_with_its_length_until_it_is_taken() {
    let (shared, memory) = server();
    let mut client = Client::with(0, &shared).await;
    let idle = memory.clients();
    let answer = client.ask("/whole");
    let body = answer.await.unwrap().into_body();
    assert!((LENGTH..2 * LENGTH).contains(&(memory.clients() - idle)), "{}", memory.clients() - idle);
    drop(body);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(memory.clients(), idle, "the client has reset it");
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_head_keeps_its_length() {
    let (shared, _) = server();
    let mut client = Client::with(1_000, &shared).await;
    assert_eq!(read(client.ask("/empty")).await, Ok(0));
    let answer = client.ask_as(Method::HEAD, "/whole", "").await.unwrap();
    assert_eq!(answer.headers()["content-length"], LENGTH.to_string());
    assert!(answer.into_body().data().await.is_none_or(|data| data.unwrap().is_empty()));
}

/// With one user.
fn with_users() -> ServerState {
    let config = "server.listen = \"127.0.0.1:0\"\n[users.alice]\ntoken = \"alice-has-a-token-of-her-own\"";
    configured(config, router(), places(10, 1))
}

#[tokio::test(start_paused = true)]
async fn who_has_no_token_has_a_hundred_streams() {
    let shared = with_users();
    let mut client = Client::with(0, &shared).await;
    let mut held = Vec::new();
    for _ in 0..UNKNOWN_STREAMS_MAX {
        held.push(client.ask("/small").await.unwrap());
    }
    for token in ["", "a-wrong-token"] {
        assert_eq!(
            read(client.ask_as(Method::GET, "/small", token)).await,
            Err(Some(Reason::REFUSED_STREAM)),
            "{token}"
        );
    }
    held.push(client.ask_as(Method::GET, "/small", "alice-has-a-token-of-her-own").await.unwrap());
    // From now on the connection is known.
    for _ in 0..UNKNOWN_STREAMS_MAX {
        held.push(client.ask("/small").await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn who_goes_on_asking_loses_the_connection() {
    let shared = with_users();
    let mut client = Client::with(0, &shared).await;
    let began = Instant::now();
    let asked: Vec<_> = (0..4 * UNKNOWN_STREAMS_MAX).map(|_| client.ask("/small")).collect();
    client.serving.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    drop(asked);
}

#[tokio::test(start_paused = true)]
async fn streams_of_one_address_do_not_shut_out_another() {
    let memory = Memory::new(4 << 20);
    let shared = shared(router(), Places::new(100, 10, memory.clone()));
    let other = IpAddr::from([127, 0, 0, 2]);
    let mut attackers = Vec::new();
    for round in 0..50 {
        let mut attacker = Client::with(0, &shared).await;
        let asked: Vec<_> = (0..100).map(|_| attacker.ask("/small")).collect();
        attackers.push((attacker, asked));
        // Lets the server read all of it.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(memory.clients() <= 2 * memory.clients_max(), "round {round}: {}", memory.clients());
        let mut client = Client::from(other, 1_000, &shared).await;
        assert_eq!(read(client.ask("/small")).await, Ok(14), "round {round}");
        assert_eq!(read(client.ask("/small")).await, Ok(14), "round {round}");
    }
    drop(attackers);
    shared.shutdown.cancel();
    assert!(shared.shutdown.finished(IDLE_FOR).await);
    assert_eq!(memory.clients(), 0);
}

#[tokio::test]
async fn who_resets_requests_as_fast_as_it_asks_loses_the_connection() {
    let (shared, _) = server();
    let (mut client, serving) = served_to(HERE, HttpVersion::Http2, &shared).await;
    let mut sent = [crate::server::socket::PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    for stream in (1..2_000_u32).step_by(2).map(u32::to_be_bytes) {
        // GET / of `a`, and its reset.
        sent.extend([&[0, 0, 6, 1, 5], &stream[..], b"\x82\x84\x86\x01\x01a"].concat());
        sent.extend([&[0, 0, 4, 3, 0], &stream[..], &[0, 0, 0, 8]].concat());
    }
    client.write_all(&sent).await.unwrap();
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).await.unwrap();
    serving.await.unwrap();
    // The payload of GOAWAY: the last request that began, a code, and a text.
    let (last, why) = heard[heard.len() - 23..].split_at(8);
    let last = u32::from_be_bytes(last[..4].try_into().unwrap());
    assert!(why == b"too_many_resets" && last < 200, "request {last}: {why:?}");
}

#[tokio::test]
async fn a_client_that_has_left_holds_nothing() {
    let (shared, memory) = server();
    for window in [0, 1, 1_000] {
        let mut client = Client::with(window, &shared).await;
        for path in ["/small", "/whole", "/stream", "/empty"] {
            drop(client.ask(path).await.unwrap().into_body());
            drop(client.ask(path));
        }
        let Client { sender, serving } = client;
        drop(sender);
        serving.await.unwrap();
    }
    while memory.clients() > 0 {
        tokio::task::yield_now().await;
    }
}
