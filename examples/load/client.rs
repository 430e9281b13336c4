//! A light streaming client over a kept-alive HTTP/1.1 socket. It searches for payload and for the end, and parses
//! nothing else.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::{Buf, BytesMut};
use memchr::memmem;
use photofinish_base::clock::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Maximum time of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(120);
const READ: usize = 16 << 10;
/// The end of a chunked body, after the last event.
const END: &[u8] = b"\r\n0\r\n\r\n";
/// The header with the race's id.
const RACE: &[u8] = b"\r\nx-photofinish-race: ";
/// The bytes before the text of a token, as the simulated provider writes them.
const CONTENT: &[u8] = b"\"content\":\"";

/// One connection for consecutive requests.
pub struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
}

/// A chat request for `tokens` tokens. `user` identifies it at the upstream.
pub fn body(user: &str, tokens: u32) -> String {
    format!(
        r#"{{"model":"load","stream":true,"max_tokens":{tokens},"user":"{user}","messages":[{{"role":"user","content":"Hello."}}]}}"#
    )
}

impl Connection {
    pub async fn open(addr: SocketAddr) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(addr).await.context("connecting")?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: BytesMut::with_capacity(READ) })
    }

    /// Sends a request and reads to its first token. Returns when the read with that token returned.
    pub async fn first_token(&mut self, body: &str) -> anyhow::Result<Instant> {
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        loop {
            let at = self.read().await?;
            ensure!(
                self.buffer.len() < 12 || self.buffer.starts_with(b"HTTP/1.1 200"),
                "not a 200: {}",
                String::from_utf8_lossy(&self.buffer[..self.buffer.len().min(300)])
            );
            if tokens_in(&self.buffer) > 0 {
                return Ok(at);
            }
        }
    }

    /// The race's id. Call it between [`Connection::first_token`] and [`Connection::rest`].
    pub fn race(&self) -> anyhow::Result<String> {
        let start = memmem::find(&self.buffer, RACE).context("no race's id")? + RACE.len();
        let length = memmem::find(&self.buffer[start..], b"\r\n").context("no end of a header")?;
        Ok(String::from_utf8_lossy(&self.buffer[start..start + length]).into_owned())
    }

    /// Reads to the end of the answer. Calls `token` with the number of tokens of each read, including the first one.
    pub async fn rest(&mut self, mut token: impl FnMut(u64)) -> anyhow::Result<()> {
        loop {
            if let Some(last) = memmem::rfind(&self.buffer, b"\n\n") {
                token(tokens_in(&self.buffer[..last]));
                self.buffer.advance(last + 2);
            }
            if &self.buffer[..] == END {
                self.buffer.clear();
                return Ok(());
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> anyhow::Result<Instant> {
        self.buffer.reserve(READ);
        let read = tokio::time::timeout(ANSWER_MAX, self.stream.read_buf(&mut self.buffer)).await;
        if read.context("no byte for too long")?? == 0 {
            bail!("the answer broke off");
        }
        Ok(Instant::now())
    }
}

/// The number of events with non-empty text.
fn tokens_in(bytes: &[u8]) -> u64 {
    let after = |at: usize| bytes.get(at + CONTENT.len());
    memmem::find_iter(bytes, CONTENT).filter(|at| after(*at).is_some_and(|byte| *byte != b'"')).count() as u64
}
