//! Connections that say nothing, and clients that take nothing, on a stopped clock.

use std::convert::Infallible;
use std::future::pending;

use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::clock::Instant;

/// Bytes between client and server.
const PIPE: usize = 64 * 1024;

/// `/endless` answers without end, `/slow` after an hour. The token tells that an endless answer was dropped.
fn router() -> (Router, CancellationToken) {
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
    (Router::new().route("/endless", get(endless)).route("/slow", get(slow)), dropped)
}

fn served(router: Router) -> (DuplexStream, JoinHandle<()>, Shutdown) {
    let (client, server) = duplex(PIPE);
    let shutdown = Shutdown::new();
    let serving = serve_connection(server, pending(), router, shutdown.clone());
    (client, shutdown.spawn(serving), shutdown)
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_nothing_is_closed() {
    for said in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n"] {
        let (mut client, serving, _) = served(router().0);
        let began = Instant::now();
        client.write_all(said.as_bytes()).await.unwrap();
        serving.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), HEAD_FOR.as_secs(), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_answer_takes_long_is_kept() {
    let (mut client, serving, _) = served(router().0);
    client.write_all(b"GET /slow HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("late"), "{answer}");
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_http2_stream_that_is_not_read_is_ended_and_its_connection_kept() {
    let (router, dropped) = router();
    let (client, _serving, shutdown) = served(router);
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

#[tokio::test]
async fn a_client_that_takes_nothing_loses_its_connection() {
    let (router, dropped) = router();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let shutdown = Shutdown::new();
    let serving = shutdown.spawn(connection(stream, router, shutdown.clone()));
    client.write_all(b"GET /endless HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    client.read_u8().await.unwrap();
    // From here on nothing but the clock moves.
    tokio::time::pause();
    let began = Instant::now();
    serving.await.unwrap();
    assert!(dropped.is_cancelled());
    assert!(began.elapsed() > TAKE_FOR - Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_dead_client_is_found_by_probes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let (socket, _) = socket::share(stream);
    assert!(socket.is_probed());
}
