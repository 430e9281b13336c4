//! A client over a raw socket: it reads as much as the test requests and can hang up at any byte.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::sse::SseReader;
use super::{soon, wire};

/// One connection. Dropping it closes it.
pub struct RawClient {
    stream: TcpStream,
    buffer: BytesMut,
    sse: SseReader,
    events: VecDeque<String>,
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub struct Head {
    pub status: u16,
    /// In order; names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The first header of this name, lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        wire::header(&self.headers, name)
    }
}

impl RawClient {
    pub async fn connect(addr: SocketAddr) -> RawClient {
        RawClient::try_connect(addr).await.unwrap()
    }

    /// Connects; the connection may be refused.
    pub async fn try_connect(addr: SocketAddr) -> io::Result<RawClient> {
        let stream = soon("a connection", TcpStream::connect(addr)).await?;
        stream.set_nodelay(true)?;
        Ok(RawClient { stream, buffer: BytesMut::new(), sse: SseReader::default(), events: VecDeque::new() })
    }

    /// Connects to a socket file, which is read and written like any other socket.
    pub async fn connect_file(path: &Path) -> io::Result<RawClient> {
        let stream = std::net::TcpStream::from(OwnedFd::from(UnixStream::connect(path)?));
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream)?;
        Ok(RawClient { stream, buffer: BytesMut::new(), sse: SseReader::default(), events: VecDeque::new() })
    }

    /// Sends the bytes unchanged.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        soon("sending", self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// The same. The peer may have closed the connection.
    pub async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        soon("sending", self.stream.write_all(bytes.as_ref())).await
    }

    /// A request with `host` and `content-length` added.
    pub async fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) {
        let body = body.as_ref();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.send([head.as_bytes(), body].concat()).await;
    }

    pub async fn post(&mut self, path: &str, body: &Value) {
        self.request("POST", path, &[("content-type", "application/json")], body.to_string()).await;
    }

    pub async fn head(&mut self) -> Head {
        self.try_head().await.unwrap()
    }

    /// Reads the head. The connection may be closed without an answer.
    pub async fn try_head(&mut self) -> io::Result<Head> {
        let (line, headers) =
            soon("the head of an answer", wire::read_head(&mut self.stream, &mut self.buffer)).await?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
        Ok(Head { status, headers })
    }

    /// Reads up to and including the pattern, framing included.
    pub async fn read_until(&mut self, pattern: &str) -> String {
        let read = wire::read_until(&mut self.stream, &mut self.buffer, pattern.as_bytes());
        String::from_utf8_lossy(&soon(pattern, read).await.unwrap()).into_owned()
    }

    /// The next chunk of a chunked body. None: the body has ended.
    ///
    /// # Errors
    /// The connection breaks before the end of the body.
    pub async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        soon("a chunk", wire::read_chunk(&mut self.stream, &mut self.buffer)).await
    }

    /// The whole body.
    ///
    /// # Errors
    /// The connection breaks before the end of the body.
    pub async fn body(&mut self, head: &Head) -> io::Result<Bytes> {
        if head.status == 204 {
            return Ok(Bytes::new());
        }
        soon("a body", wire::read_body(&mut self.stream, &mut self.buffer, &head.headers)).await
    }

    /// The data of the next event of a chunked body. None: the body has ended.
    ///
    /// # Errors
    /// The connection breaks before the end of the body.
    pub async fn event(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let Some(chunk) = self.chunk().await? else { return Ok(None) };
            self.events.extend(self.sse.push(&chunk));
        }
    }

    /// Waits until the other side has closed; discards everything it still sends.
    pub async fn closed(&mut self) {
        let end = async {
            while matches!(self.stream.read_buf(&mut self.buffer).await, Ok(1..)) {
                self.buffer.clear();
            }
        };
        soon("the other side closes", end).await;
    }

    pub fn close(self) {}

    /// Hangs up with a reset instead of an orderly close.
    pub fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}
