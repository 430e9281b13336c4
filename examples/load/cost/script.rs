//! A scripted upstream over raw sockets: it looks for the model's name and answers with prepared bytes, so that one core
//! can drive a proxy that has another. Not for timestamps of tokens: see `upstreams`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use bytes::{Buf, BytesMut};
use memchr::memmem;
use photofinish_base::clock::Instant;
use photofinish_base::shutdown::Shutdown;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Events of a long answer.
pub const EVENTS: u64 = 200;
/// The usual time between two events of a slow answer.
pub const SLOW: Duration = Duration::from_millis(50);
const BUFFER: usize = 64 << 10;

/// How the upstream answers, by the model's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Eight words, as JSON or as one event.
    Tiny,
    /// All events in one write.
    Coalesced,
    /// Each event in a write of its own, without a pause.
    Each,
    /// One event after each pause, until the client leaves.
    Slow,
}

impl Answer {
    pub const ALL: [Answer; 4] = [Answer::Tiny, Answer::Coalesced, Answer::Each, Answer::Slow];

    pub fn model(self) -> &'static str {
        match self {
            Answer::Tiny => "tiny",
            Answer::Coalesced => "coalesced",
            Answer::Each => "each",
            Answer::Slow => "slow",
        }
    }
}

/// The running upstream; it ends with the process.
pub struct Script {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    /// When the upstream noticed that the reader of a slow answer had left.
    pub left: mpsc::UnboundedReceiver<Instant>,
}

struct Shared {
    /// Time between two events of a slow answer.
    pause: Duration,
    /// Written events of slow answers.
    slow_events: AtomicU64,
    /// Slow answers that are being written.
    slow: AtomicU64,
    left: mpsc::UnboundedSender<Instant>,
    bytes: Prepared,
}

/// The bytes of the answers.
struct Prepared {
    whole: Vec<u8>,
    streamed: Vec<u8>,
    coalesced: Vec<u8>,
}

impl Script {
    /// `pause` is the time between two events of a slow answer.
    pub async fn start(shutdown: &Shutdown, pause: Duration) -> anyhow::Result<Script> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let (sender, left) = mpsc::unbounded_channel();
        let (slow_events, slow) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared = Arc::new(Shared { pause, slow_events, slow, left: sender, bytes: Prepared::new() });
        let (tasks, state) = (shutdown.clone(), shared.clone());
        shutdown.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = state.clone();
                // It ends when the client leaves or breaks off.
                tasks.spawn(async move { serve(stream, &state).await });
            }
        });
        Ok(Script { addr, shared, left })
    }

    pub fn slow_events(&self) -> u64 {
        self.shared.slow_events.load(Relaxed)
    }

    pub fn slow_answers(&self) -> u64 {
        self.shared.slow.load(Relaxed)
    }
}

impl Prepared {
    fn new() -> Prepared {
        let whole = r#"{"id":"chatcmpl-Bx1y2z3a4b5c6d7e8f9g","object":"chat.completion","created":1763900000,"model":"gpt-4.1-mini-2025-04-14","choices":[{"index":0,"message":{"role":"assistant","content":"one two three four five six seven eight","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":8,"total_tokens":17},"system_fingerprint":"fp_658b958c37"}"#;
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{whole}",
            whole.len()
        );
        let streamed = [STREAM_HEAD.as_bytes(), &event("one two three four five six seven eight"), &end()].concat();
        let events: Vec<u8> = (0..EVENTS).flat_map(|_| event(" word")).collect();
        let coalesced = [STREAM_HEAD.as_bytes(), &events, &end()].concat();
        Prepared { whole: head.into_bytes(), streamed, coalesced }
    }
}

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\ndata: {text}\n\n\r\n", text.len() + 8).into_bytes()
}

fn choices(delta: &str, finish: &str) -> Vec<u8> {
    chunk(&format!(
        r#"{{"id":"chatcmpl-Bx1y2z3a4b5c6d7e8f9g","object":"chat.completion.chunk","created":1763900000,"model":"gpt-4.1-mini-2025-04-14","service_tier":"default","system_fingerprint":"fp_658b958c37","choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]}}"#
    ))
}

fn event(word: &str) -> Vec<u8> {
    choices(&format!(r#"{{"content":"{word}"}}"#), "null")
}

fn end() -> Vec<u8> {
    [choices("{}", "\"stop\""), chunk("[DONE]"), b"0\r\n\r\n".to_vec()].concat()
}

/// Answers requests one after the other.
async fn serve(mut stream: TcpStream, state: &Shared) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = BytesMut::with_capacity(BUFFER);
    loop {
        let Some((answer, streams)) = next_request(&mut stream, &mut buffer).await? else { return Ok(()) };
        match answer {
            Answer::Tiny if streams => stream.write_all(&state.bytes.streamed).await?,
            Answer::Tiny => stream.write_all(&state.bytes.whole).await?,
            Answer::Coalesced => stream.write_all(&state.bytes.coalesced).await?,
            Answer::Each => each(&mut stream).await?,
            Answer::Slow => {
                state.slow.fetch_add(1, Relaxed);
                let ended = slow(&mut stream, state).await;
                state.slow.fetch_sub(1, Relaxed);
                let _ = state.left.send(Instant::now());
                return ended;
            }
        }
    }
}

/// Reads a request. None: the client has left.
async fn next_request(stream: &mut TcpStream, buffer: &mut BytesMut) -> anyhow::Result<Option<(Answer, bool)>> {
    loop {
        if let Some(head) = memmem::find(buffer, b"\r\n\r\n") {
            let size = head + 4 + content_length(&buffer[..head]).unwrap_or(0);
            while buffer.len() < size {
                if stream.read_buf(buffer).await? == 0 {
                    return Ok(None);
                }
            }
            // The beginning of a body names the model. The gateway may write `stream` at the end.
            let body = &buffer[head + 4..size];
            // The list of models.
            if buffer.starts_with(b"GET") {
                buffer.advance(size);
                stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await?;
                continue;
            }
            let named = |answer: &Answer| memmem::find(body, format!("\"{}\"", answer.model()).as_bytes()).is_some();
            let answer = Answer::ALL.into_iter().find(named).context("a request for an unknown model")?;
            let streams = memmem::find(body, b"\"stream\":true").is_some();
            buffer.advance(size);
            return Ok(Some((answer, streams)));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// The length of a body, from the lines of a head.
pub fn content_length(head: &[u8]) -> Option<usize> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let (name, value) = line.split_at_checked("content-length:".len())?;
        let value = name.eq_ignore_ascii_case(b"content-length:").then_some(value)?;
        std::str::from_utf8(value).ok()?.trim().parse().ok()
    })
}

async fn each(stream: &mut TcpStream) -> anyhow::Result<()> {
    let event = event(" word");
    stream.write_all(STREAM_HEAD.as_bytes()).await?;
    for _ in 0..EVENTS {
        stream.write_all(&event).await?;
        tokio::task::yield_now().await;
    }
    Ok(stream.write_all(&end()).await?)
}

/// Returns when the client leaves.
async fn slow(stream: &mut TcpStream, state: &Shared) -> anyhow::Result<()> {
    let event = event(" word");
    stream.write_all(STREAM_HEAD.as_bytes()).await?;
    let (mut reader, mut writer) = stream.split();
    let mut rest = [0; 16];
    let mut due = Instant::now();
    loop {
        tokio::select! {
            read = reader.read(&mut rest) => {
                read?;
                return Ok(());
            }
            () = tokio::time::sleep_until(due) => {
                writer.write_all(&event).await?;
                state.slow_events.fetch_add(1, Relaxed);
                due += state.pause;
            }
        }
    }
}
