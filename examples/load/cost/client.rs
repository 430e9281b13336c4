//! A client that looks for the end of an answer and for nothing else. Not for tokens: see `crate::client`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::script::content_length;

/// Maximum time of a read.
const READ_MAX: Duration = Duration::from_secs(60);
const BUFFER: usize = 64 << 10;
/// The end of a chunked body.
const END: &[u8] = b"\r\n0\r\n\r\n";

/// One connection for consecutive requests.
pub struct PlainClient {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A chat request whose message has this many bytes.
pub fn request(model: &str, stream: bool, message_bytes: usize) -> Vec<u8> {
    let message = "Say eight words, please. ".repeat(message_bytes / 25 + 1);
    let body = format!(
        r#"{{"model":"{model}","stream":{stream},"max_tokens":100,"messages":[{{"role":"user","content":"{}"}}]}}"#,
        &message[..message_bytes]
    );
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nuser-agent: OpenAI/Python 2.8.0\r\naccept: application/json\r\nauthorization: Bearer sk-none\r\ncontent-type: application/json";
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

impl PlainClient {
    pub async fn open(addr: SocketAddr) -> anyhow::Result<PlainClient> {
        let stream = TcpStream::connect(addr).await.context("connecting")?;
        stream.set_nodelay(true)?;
        Ok(PlainClient { stream, buffer: Vec::with_capacity(BUFFER) })
    }

    /// Sends a request and reads the whole answer.
    pub async fn ask(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.begin(request).await?;
        let head = memmem::find(&self.buffer, b"\r\n\r\n").context("no end of the head")? + 4;
        match content_length(&self.buffer[..head]) {
            Some(length) => {
                while self.buffer.len() < head + length {
                    self.read().await?;
                }
            }
            None => {
                while !self.buffer.ends_with(END) {
                    let keep = self.buffer.len().saturating_sub(END.len());
                    self.buffer.drain(..keep);
                    self.read().await?;
                }
            }
        }
        self.buffer.clear();
        Ok(())
    }

    /// Sends a request and reads until the body has begun.
    pub async fn begin(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.buffer.clear();
        self.stream.write_all(request).await?;
        while memmem::find(&self.buffer, b"\r\n\r\n").is_none_or(|head| self.buffer.len() == head + 4) {
            self.read().await?;
        }
        let answer = String::from_utf8_lossy(&self.buffer[..self.buffer.len().min(300)]);
        ensure!(answer.starts_with("HTTP/1.1 200"), "not a 200: {answer}");
        Ok(())
    }

    /// Reads and drops what comes, until the connection ends.
    pub async fn drain(&mut self) -> anyhow::Result<()> {
        loop {
            self.buffer.clear();
            self.read().await?;
        }
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        let read = tokio::time::timeout(READ_MAX, self.stream.read_buf(&mut self.buffer)).await;
        ensure!(read.context("no byte for too long")?? > 0, "the answer broke off");
        Ok(())
    }
}
