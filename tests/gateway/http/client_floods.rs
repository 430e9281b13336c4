//! Clients that flood a connection are cut off or held back, and other clients are not affected. Time limits are tested
//! in `server`, on a stopped clock.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::harness::gateway::{Setup, TestGateway};
use crate::support::{FakeProvider, RawClient, Script, soon};

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ENHANCE_YOUR_CALM: u8 = 11;

/// Far more bytes than a connection holds: a client that is held back can never send all of them.
const FLOOD_MAX: usize = 128 << 20;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The preface and the settings of an HTTP/2 connection.
fn preface() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &[])[..]].concat()
}

/// `GET /healthz` of localhost, in HPACK without a table.
fn get() -> Vec<u8> {
    [&[0x82, 0x86, 0x04, 8][..], b"/healthz", &[0x01, 9], b"localhost"].concat()
}

/// A header that is in no table.
fn header(name: &str, bytes: u8) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    [&[0x00, length], name.as_bytes(), &[bytes], &vec![b'v'; usize::from(bytes)]].concat()
}

async fn start() -> (FakeProvider, TestGateway) {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let gateway = Setup::over(&[&fake]).start().await;
    (fake, gateway)
}

async fn assert_healthy(address: SocketAddr) {
    let mut client = RawClient::connect(address).await;
    client.request("GET", "/healthz", &[], "").await;
    assert_eq!(client.head().await.status, 200);
}

/// Sends `again()` repeatedly; returns the reason in the GOAWAY that ends it.
async fn cut_off(address: SocketAddr, mut again: impl FnMut() -> Vec<u8>) -> Option<u8> {
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(&preface()).await.unwrap();
    let (mut reader, mut writer) = client.split();
    let mut response = Vec::new();
    let flood = async {
        // An error is the expected end.
        while writer.write_all(&again()).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    let read = async { while matches!(reader.read_buf(&mut response).await, Ok(1..)) {} };
    soon("the flood is cut off", async {
        tokio::select! {
            () = flood => {}
            () = read => {}
        }
    })
    .await;
    let mut rest = &response[..];
    while let [a, b, c, kind, _, _, _, _, _, after @ ..] = rest {
        let length = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap();
        if *kind == GOAWAY {
            return after.get(7).copied();
        }
        rest = after.get(length..).unwrap_or_default();
    }
    None
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_end_their_connection() {
    let (_fake, gateway) = start().await;
    let mut stream = 1;
    let pairs = || {
        let mut bytes = Vec::new();
        for _ in 0..1_000 {
            bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &get()));
            bytes.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
            stream += 2;
        }
        bytes
    };
    assert_eq!(cut_off(gateway.addr(), pairs).await, Some(ENHANCE_YOUR_CALM));
    assert_healthy(gateway.addr()).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_head_that_never_ends_ends_its_connection() {
    let (_fake, gateway) = start().await;
    for filler in [header("x-more", 100).repeat(140), Vec::new()] {
        let mut first = true;
        let head = || match std::mem::take(&mut first) {
            true => frame(HEADERS, END_STREAM, 1, &get()),
            false => frame(CONTINUATION, 0, 1, &filler).repeat(if filler.is_empty() { 1_000 } else { 1 }),
        };
        assert_eq!(cut_off(gateway.addr(), head).await, Some(ENHANCE_YOUR_CALM), "{} bytes each", filler.len());
        assert_healthy(gateway.addr()).await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_head_has_a_bound() {
    let (_fake, gateway) = start().await;
    for headers in [
        format!("x-long: {}\r\n", "v".repeat(70_000)),
        "x-many: v\r\n".repeat(200),
        format!("x-name-{}: v\r\n", "n".repeat(70_000)),
    ] {
        let mut client = RawClient::connect(gateway.addr()).await;
        client.send(format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")).await;
        assert_eq!(client.head().await.status, 431, "{:.20}", headers);
    }
    let mut client = RawClient::connect(gateway.addr()).await;
    client.send(format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "p".repeat(70_000))).await;
    assert!([414, 431].contains(&client.head().await.status));
    gateway.stop().await;
}

#[tokio::test]
async fn a_client_that_never_reads_is_held_back() {
    let (_fake, gateway) = start().await;
    let address = gateway.addr();
    let mut floods = JoinSet::new();
    let pipelined = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1_000);
    let get = |stream: u32| frame(HEADERS, END_STREAM | END_HEADERS, 2 * stream + 1, &get());
    // Its windows are closed from the beginning.
    let shut = [preface(), frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])].concat();
    for (opening, again) in [
        (preface(), frame(PING, 0, 0, &[0; 8]).repeat(1_000)),
        (preface(), frame(SETTINGS, 0, 0, &[]).repeat(1_000)),
        ([shut.clone(), (0..1_024).flat_map(get).collect()].concat(), frame(PING, 0, 0, &[0; 8]).repeat(1_000)),
        (Vec::new(), pipelined),
    ] {
        floods.spawn(async move {
            let socket = TcpSocket::new_v4().unwrap();
            // Unread data soon fills the gateway's buffers.
            socket.set_recv_buffer_size(4_096).unwrap();
            let mut client = socket.connect(address).await.unwrap();
            let _ = client.write_all(&opening).await;
            for _ in 0..FLOOD_MAX / again.len() {
                if client.write_all(&again).await.is_err() {
                    return false;
                }
            }
            true
        });
    }
    for _ in 0..40 {
        assert_healthy(address).await;
    }
    floods.abort_all();
    while let Some(flood) = floods.join_next().await {
        assert!(!flood.unwrap_or(false), "{FLOOD_MAX} bytes were taken from a client that reads nothing");
    }
    gateway.stop().await;
}
