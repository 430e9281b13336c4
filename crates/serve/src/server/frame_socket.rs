//! The frames of a WebSocket (RFC 6455): text messages of a client, whole and counted as they come, and frames to it. tungstenite reads
//! and writes their heads; it would keep the room of the largest message for as long as a socket is open. Not for what they say.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::Cursor;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::StatusCode;
use photofinish_base::memory::Lease;
use photofinish_base::pace::aside;
use photofinish_gateway::proxy::{Client, Gateway, Rejection, SocketMessage};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio_util::io::poll_read_buf;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameHeader};

/// Bytes that are read of a socket at once.
const READ_MAX: usize = 16 << 10;
/// Bytes of a control frame, by the RFC.
const CONTROL_MAX: u64 = 125;
/// How long a client may take to close a socket that the gateway has closed.
const CLOSES_FOR: Duration = Duration::from_secs(2);
/// Bytes of a frame that are copied behind its head, so that both are one write.
const JOINED_MAX: usize = 4 << 10;

/// Why a socket ends.
pub(super) enum SocketEnd {
    /// The client has left.
    Gone,
    Closed(CloseCode, &'static str),
}

/// What the client said.
pub(super) enum SocketHeard {
    Text(Bytes),
    /// A part of a message, or a control frame.
    Other,
}

/// The frame that is being read.
struct FrameRead {
    head: FrameHeader,
    mask: [u8; 4],
    left: usize,
}

pub(super) struct FrameSocket<S> {
    stream: S,
    gateway: Arc<Gateway>,
    client: Client,
    /// What was read and not looked at.
    read: BytesMut,
    frame: Option<FrameRead>,
    /// The bytes of a control frame.
    control: Vec<u8>,
    message: Option<SocketMessage>,
    /// What is to be written.
    unsent: VecDeque<Bytes>,
    /// What the last ping said, if it is to be answered. Those before it need no answer.
    ping: Option<Vec<u8>>,
    _room: Lease,
}

impl<S: AsyncRead + AsyncWrite + Unpin> FrameSocket<S> {
    /// `read`: what has been read of it.
    pub fn new(stream: S, read: &[u8], gateway: Arc<Gateway>, client: Client) -> FrameSocket<S> {
        let mut room = gateway.memory().lease();
        room.settle(READ_MAX);
        FrameSocket {
            stream,
            gateway,
            client,
            read: read.into(),
            frame: None,
            control: Vec::new(),
            message: None,
            unsent: VecDeque::new(),
            ping: None,
            _room: room,
        }
    }

    /// Whoever asks drops it between two frames at will.
    ///
    /// # Errors
    /// How the socket ends.
    pub async fn next(&mut self) -> Result<SocketHeard, SocketEnd> {
        let due = self.message.as_ref().map(SocketMessage::due);
        let heard = poll_fn(|context| self.poll_next(context));
        match due {
            None => heard.await,
            Some(due) => tokio::time::timeout_at(due, heard).await.unwrap_or_else(|_| {
                Err(SocketEnd::Closed(CloseCode::Policy, "the message stopped, or is slower than 2 KiB/s"))
            }),
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<SocketHeard, SocketEnd>> {
        let mut is_told = false;
        loop {
            // A client that does not read is heard all the same.
            let _ = self.poll_flush(context)?;
            match self.step()? {
                Some(SocketHeard::Other) => is_told = true,
                Some(text) => return Poll::Ready(Ok(text)),
                None if is_told => return Poll::Ready(Ok(SocketHeard::Other)),
                None => {
                    self.read.reserve(READ_MAX);
                    let read = ready!(poll_read_buf(Pin::new(&mut self.stream), context, &mut self.read));
                    if read.map_err(|_| SocketEnd::Gone)? == 0 {
                        return Poll::Ready(Err(SocketEnd::Gone));
                    }
                    is_told = true;
                }
            }
        }
    }

    /// One step through what was read. None: more is needed.
    fn step(&mut self) -> Result<Option<SocketHeard>, SocketEnd> {
        let Some(frame) = &mut self.frame else {
            let mut heads = Cursor::new(&self.read[..]);
            let head = FrameHeader::parse(&mut heads).map_err(|_| NO_FRAME)?;
            let length = usize::try_from(heads.position()).unwrap_or_default();
            let Some((head, left)) = head else { return Ok(None) };
            self.read.advance(length);
            self.frame = Some(self.begin(head, left)?);
            return Ok(Some(SocketHeard::Other));
        };
        let length = frame.left.min(self.read.len());
        if length == 0 && frame.left > 0 {
            return Ok(None);
        }
        let mut piece = self.read.split_to(length);
        for four in piece.chunks_mut(frame.mask.len()) {
            four.iter_mut().zip(frame.mask).for_each(|(byte, mask)| *byte ^= mask);
        }
        frame.mask.rotate_left(length % 4);
        // The length of a message in pieces is unknown.
        let announced = if frame.head.is_final { frame.left } else { 0 };
        frame.left -= length;
        let (is_end, is_final, opcode) = (frame.left == 0, frame.head.is_final, frame.head.opcode);
        match (&mut self.message, opcode) {
            (Some(message), OpCode::Data(_)) => {
                message.push((&self.gateway, &self.client), &piece, announced).map_err(|why| too_much(&why))?;
            }
            _ => self.control.extend_from_slice(&piece),
        }
        if is_end {
            self.frame = None;
            return self.end(opcode, is_final).map(Some);
        }
        Ok(Some(SocketHeard::Other))
    }

    /// The head of a frame has come.
    fn begin(&mut self, head: FrameHeader, length: u64) -> Result<FrameRead, SocketEnd> {
        let mask = head.mask.filter(|_| !head.rsv1 && !head.rsv2 && !head.rsv3).ok_or(NO_FRAME)?;
        match (head.opcode, &self.message) {
            (OpCode::Control(_), _) if head.is_final && length <= CONTROL_MAX => {}
            (OpCode::Data(Data::Continue), Some(_)) => {}
            (OpCode::Data(Data::Text), None) => self.message = Some(SocketMessage::new(&self.gateway)),
            (OpCode::Data(Data::Binary), None) => {
                return Err(SocketEnd::Closed(CloseCode::Unsupported, "only text frames are read"));
            }
            _ => return Err(NO_FRAME),
        }
        let left = usize::try_from(length).unwrap_or(usize::MAX);
        if let (Some(message), OpCode::Data(_)) = (&self.message, head.opcode) {
            message.with(left, &self.gateway).map_err(|why| too_much(&why))?;
        }
        Ok(FrameRead { head, mask, left })
    }

    /// All of a frame has come.
    fn end(&mut self, opcode: OpCode, is_final: bool) -> Result<SocketHeard, SocketEnd> {
        match opcode {
            OpCode::Data(_) if is_final => {
                let whole = self.message.take().map(SocketMessage::whole).unwrap_or_default();
                if aside(whole.len(), || std::str::from_utf8(&whole).is_err()) {
                    return Err(SocketEnd::Closed(CloseCode::Invalid, "the text is not UTF-8"));
                }
                return Ok(SocketHeard::Text(whole));
            }
            OpCode::Data(_) => {}
            OpCode::Control(control) => {
                let said = std::mem::take(&mut self.control);
                match control {
                    Control::Ping => self.ping = Some(said),
                    // The answer to a close is a close.
                    Control::Close => return Err(SocketEnd::Closed(CloseCode::Normal, "")),
                    Control::Pong | Control::Reserved(_) => {}
                }
            }
        }
        Ok(SocketHeard::Other)
    }

    fn queue(&mut self, frame: Frame) {
        let (head, payload) = (frame.header().clone(), frame.into_payload());
        let mut start = Vec::new();
        // A Vec takes all.
        let _ = head.format(payload.len() as u64, &mut start);
        if payload.len() <= JOINED_MAX {
            start.extend_from_slice(&payload);
            self.unsent.push_back(start.into());
        } else {
            self.unsent.extend([start.into(), payload]);
        }
    }

    pub async fn send_text(&mut self, text: String) -> Result<(), SocketEnd> {
        self.send(Frame::message(text, OpCode::Data(Data::Text), true)).await
    }

    /// # Errors
    /// The client has left.
    pub async fn send(&mut self, frame: Frame) -> Result<(), SocketEnd> {
        self.queue(frame);
        poll_fn(|context| self.poll_flush(context)).await
    }

    pub async fn close(&mut self, code: CloseCode, reason: &'static str) {
        (self.frame, self.message) = (None, None);
        // An error here means that the client has left.
        let _ = self.send(Frame::close(Some(CloseFrame { code, reason: reason.into() }))).await;
        let _ = poll_fn(|context| Pin::new(&mut self.stream).poll_shutdown(context)).await;
        // What the client sends meanwhile would reset the connection, and it would never read why.
        let rest = async {
            while matches!(self.stream.read_buf(&mut self.read).await, Ok(1..)) {
                self.read.clear();
            }
        };
        let _ = tokio::time::timeout(CLOSES_FOR, rest).await;
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SocketEnd>> {
        loop {
            if let Some(said) = self.ping.take_if(|_| self.unsent.is_empty()) {
                self.queue(Frame::pong(said));
            }
            let Some(next) = self.unsent.front_mut() else { break };
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, next)).map_err(|_| SocketEnd::Gone)?;
            if sent == 0 {
                return Poll::Ready(Err(SocketEnd::Gone));
            }
            next.advance(sent);
            if next.is_empty() {
                self.unsent.pop_front();
            }
        }
        Pin::new(&mut self.stream).poll_flush(context).map_err(|_| SocketEnd::Gone)
    }
}

const NO_FRAME: SocketEnd = SocketEnd::Closed(CloseCode::Protocol, "the frame is not of RFC 6455");

fn too_much(why: &Rejection) -> SocketEnd {
    match why.status() {
        StatusCode::PAYLOAD_TOO_LARGE => SocketEnd::Closed(CloseCode::Size, "the message is larger than body_max"),
        StatusCode::UNAUTHORIZED => SocketEnd::Closed(CloseCode::Policy, "the token does not count any more"),
        _ => SocketEnd::Closed(CloseCode::Again, "no memory is left for the message"),
    }
}
