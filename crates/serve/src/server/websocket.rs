//! The Responses API over a WebSocket: each `response.create` is a request like one over HTTP, and its events are text frames.
//! The connection's own task runs it, in the connection's place.
//!
//! Not for frames: see `frame_socket`; nor for the answers: see `proxy`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::upgrade::{OnUpgrade, Upgraded};
use photofinish_base::clock::Instant;
use photofinish_base::memory::{Lease, MemoryFull};
use photofinish_base::pace::aside;
use photofinish_base::telemetry::{LogContext, WithLogContext as _};
use photofinish_dialects::responses::frames::{self, ClientFrame, CreateFrame};
use photofinish_dialects::responses::stored::{StoredAnswer, response_of};
use photofinish_gateway::proxy::{self, Client, Gateway, OverSocket, Rejection, SocketMessage};
use photofinish_translation::ApiRequest;
use photofinish_wire::Surface;
use photofinish_wire::stream::sse::SseScanner;
use tokio::io::{AsyncRead, AsyncWrite};
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::CloseCode;

use super::connection_slots::ConnectionSlot;
use super::frame_socket::{FrameSocket, SocketEnd, SocketHeard};

/// How often the gateway pings a WebSocket. A client that says nothing for three of them has left.
const PING_FOR: Duration = Duration::from_secs(30);
/// How long a WebSocket may be without a response.
const SOCKET_IDLE_FOR: Duration = Duration::from_secs(600);
/// How long a WebSocket lives: the vendor's own limit, after which its clients open another one.
const SOCKET_FOR: Duration = Duration::from_secs(3_600);
/// Bytes of the key of a handshake.
const KEY_LENGTH: usize = 16;
/// Bytes of a refusal that are passed on.
const REFUSAL_MAX: usize = 1 << 20;

/// Where a handshake puts its socket, for the task of the connection.
#[derive(Clone, Default)]
pub(super) struct UpgradeSlot(Arc<Mutex<Option<Accepted>>>);

/// A handshake that was accepted.
pub(super) struct Accepted {
    upgrade: OnUpgrade,
    client: AcceptedClient,
}

/// The client of a socket.
pub(super) struct AcceptedClient {
    gateway: Arc<Gateway>,
    client: Client,
    /// Of the handshake: every request has them.
    headers: HeaderMap,
}

impl Accepted {
    /// The socket, once the answer to the handshake is sent.
    ///
    /// # Errors
    /// The client has left.
    pub async fn upgraded(self) -> hyper::Result<(Upgraded, AcceptedClient)> {
        let Accepted { upgrade, client } = self;
        Ok((upgrade.await?, client))
    }
}

impl UpgradeSlot {
    /// Goes with a request that asks for another protocol.
    pub fn offer<B>(&self, request: &mut Request<B>) {
        if request.headers().contains_key(UPGRADE) {
            request.extensions_mut().insert(self.clone());
        }
    }

    pub fn take(&self) -> Option<Accepted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A handshake of RFC 6455. HTTP/2 has another one, which the gateway does not announce.
pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    names(headers, UPGRADE, "websocket")
}

/// Whether one of the words of a header is this one.
fn names(headers: &HeaderMap, header: HeaderName, word: &str) -> bool {
    let values = headers.get_all(header).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|name| name.trim().eq_ignore_ascii_case(word))
}

/// The key of a handshake, if the RFC allows it: one header, 16 bytes in Base64.
fn key_of(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter();
    let (key, None) = (keys.next()?, keys.next()) else { return None };
    (BASE64.decode(key).is_ok_and(|bytes| bytes.len() == KEY_LENGTH)).then_some(key)
}

/// Answers a handshake.
pub(super) fn accept(gateway: Arc<Gateway>, client: Client, mut request: Request<Body>) -> Response<Body> {
    if let Err(refused) = proxy::authenticate(&gateway, &gateway.live(), &client) {
        return refused.answer_to(Surface::Responses);
    }
    let is_on = gateway.live().config.server.websocket;
    let (slot, upgrade) =
        (request.extensions_mut().remove::<UpgradeSlot>(), request.extensions_mut().remove::<OnUpgrade>());
    let is_13 = request.headers().get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    let (Some(slot), Some(upgrade), true, true) = (slot, upgrade, is_on, is_13) else {
        return Rejection::no_websocket().answer_to(Surface::Responses);
    };
    let key = key_of(request.headers()).filter(|_| names(request.headers(), CONNECTION, "upgrade")).cloned();
    let Some(key) = key else { return Rejection::no_handshake().answer_to(Surface::Responses) };
    let mut headers = std::mem::take(request.headers_mut());
    for name in [
        CONNECTION,
        UPGRADE,
        SEC_WEBSOCKET_KEY,
        SEC_WEBSOCKET_VERSION,
        SEC_WEBSOCKET_EXTENSIONS,
        CONTENT_LENGTH,
        CONTENT_ENCODING,
        TRANSFER_ENCODING,
        HOST,
    ] {
        headers.remove(name);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *slot.0.lock().unwrap_or_else(PoisonError::into_inner) =
        Some(Accepted { upgrade, client: AcceptedClient { gateway, client, headers } });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    answer.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accepted) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        answer.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    }
    response
}

/// What the socket holds of the response before: a client that stores nothing continues it all the same.
#[derive(Clone)]
struct LastResponse {
    id: String,
    /// All items up to its end, as JSON text without brackets.
    items: Bytes,
    /// A request that names it finds it without this socket.
    is_stored: bool,
}

/// A request of the client.
struct SocketRequest {
    body: Bytes,
    /// All its items, those of the response before included. None: they are not known here.
    items: Option<Bytes>,
    /// Its answer is stored.
    is_stored: bool,
}

struct SocketSession<'a, S> {
    socket: FrameSocket<S>,
    accepted: AcceptedClient,
    place: &'a ConnectionSlot,
    last: Option<LastResponse>,
    /// A response is under way, which no bound of the socket cuts.
    is_answering: bool,
    /// What the client said between the last event of an answer and the end of its body.
    waiting: Option<Bytes>,
    opened_at: Instant,
    /// The end of the latest response.
    used_at: Instant,
    heard_at: Instant,
    pings: tokio::time::Interval,
}

/// Serves a socket to its end. `read`: what has been read of it.
pub(super) async fn serve<S>(stream: S, read: Bytes, accepted: AcceptedClient, place: &ConnectionSlot)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let AcceptedClient { gateway, client, .. } = &accepted;
    let socket = FrameSocket::new(stream, &read, gateway.clone(), client.clone());
    let now = Instant::now();
    let pings = tokio::time::interval_at(now + PING_FOR, PING_FOR);
    let mut session = SocketSession {
        socket,
        accepted,
        place,
        last: None,
        is_answering: false,
        waiting: None,
        opened_at: now,
        used_at: now,
        heard_at: now,
        pings,
    };
    if let Err(SocketEnd::Closed(code, reason)) = session.run().await {
        session.socket.close(code, reason).await;
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> SocketSession<'_, S> {
    async fn run(&mut self) -> Result<(), SocketEnd> {
        let shutdown = self.accepted.gateway.shutdown().clone();
        loop {
            let frame = match self.waiting.take() {
                Some(frame) => frame,
                None => tokio::select! {
                    frame = self.next() => frame?,
                    () = shutdown.draining() => return Err(SocketEnd::Closed(CloseCode::Away, "the gateway is shutting down")),
                },
            };
            let (body, generates) = match read(&frame) {
                ClientFrame::Create(create) => (self.body(&create, frame.len()), create.generates),
                ClientFrame::Cancel | ClientFrame::Acknowledged => continue,
                ClientFrame::Invalid(message) => {
                    self.send(frames::misuse(message)).await?;
                    continue;
                }
            };
            drop(frame);
            let _work = self.place.begin(false, || true);
            self.is_answering = true;
            match body {
                Ok(body) => self.respond(body, generates).await?,
                Err(rejection) => self.refuse(rejection.answer_to(Surface::Responses)).await?,
            }
            (self.is_answering, self.used_at) = (false, Instant::now());
        }
    }

    /// The request of a frame of `length` bytes.
    ///
    /// # Errors
    /// There is no memory for it in addition to its frame.
    fn body(&self, create: &CreateFrame<'_>, length: usize) -> Result<Bytes, Rejection> {
        let memory = self.accepted.gateway.memory();
        let mut room = memory.lease();
        room.cover(length).map_err(|MemoryFull| Rejection::no_memory(length, memory.max()))?;
        let body = aside(length, || create.body());
        room.settle(body.capacity());
        Ok(room.hold(body))
    }

    /// The next text of the client. Pings meanwhile.
    async fn next(&mut self) -> Result<Bytes, SocketEnd> {
        loop {
            tokio::select! {
                heard = self.socket.next() => {
                    let heard = heard?;
                    self.heard_at = Instant::now();
                    if let SocketHeard::Text(text) = heard {
                        return Ok(text);
                    }
                }
                _ = self.pings.tick() => self.tick().await?,
            }
        }
    }

    async fn tick(&mut self) -> Result<(), SocketEnd> {
        if self.heard_at.elapsed() > 3 * PING_FOR {
            return Err(SocketEnd::Gone);
        }
        let is_old = self.used_at.elapsed() > SOCKET_IDLE_FOR || self.opened_at.elapsed() > SOCKET_FOR;
        if is_old && !self.is_answering {
            return Err(SocketEnd::Closed(CloseCode::Normal, "the socket is idle or old: open another one"));
        }
        self.socket.send(Frame::ping(Bytes::new())).await
    }

    async fn send(&mut self, text: String) -> Result<(), SocketEnd> {
        self.socket.send_text(text).await
    }

    /// Answers one request.
    async fn respond(&mut self, body: Bytes, generates: bool) -> Result<(), SocketEnd> {
        let (gateway, live) = (self.accepted.gateway.clone(), self.accepted.gateway.live());
        let by = (gateway.clone(), self.accepted.client.clone());
        let (last, until) = (self.last.clone(), Instant::now() + live.config.race.timeouts.total);
        let length = body.len() + last.as_ref().map_or(0, |last| last.items.len());
        let work = move |_: &_| continued(body, last.as_ref(), (&by.0, &by.1));
        let continued = gateway.heavy().run(length, until, work).await;
        let SocketRequest { body, items, is_stored } = match continued.and_then(|continued| continued) {
            Ok(request) => request,
            Err(rejection) => return self.refuse(rejection.answer_to(Surface::Responses)).await,
        };
        if !generates {
            return self.note(&body, items).await;
        }
        let mut request = Request::post(Surface::Responses.path()).body(Body::from(body)).unwrap_or_default();
        request.headers_mut().extend(self.accepted.headers.clone());
        request.extensions_mut().insert(OverSocket);
        // The token may have been revoked meanwhile.
        request.extensions_mut().insert(self.accepted.client.clone());
        let _ = proxy::check_token(&gateway, &mut request);
        let client = request.extensions().get::<Client>().cloned().unwrap_or_else(|| self.accepted.client.clone());
        let serving = proxy::serve(gateway, Surface::Responses, client, None, request);
        let mut serving = std::pin::pin!(serving.in_context(LogContext::request(Surface::Responses.as_str())));
        let response = loop {
            tokio::select! {
                response = &mut serving => break response,
                frame = self.next() => if self.is_cancelled(&frame?).await? {
                    return self.send(frames::cancelled("")).await;
                },
            }
        };
        if response.status() != StatusCode::OK {
            return self.refuse(response).await;
        }
        self.relay(response.into_body(), SocketRequest { body: Bytes::new(), items, is_stored }).await
    }

    async fn refuse(&mut self, response: Response<Body>) -> Result<(), SocketEnd> {
        let status = response.status().as_u16();
        let limited = http_body_util::Limited::new(response.into_body(), REFUSAL_MAX);
        let said = limited.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        self.send(frames::refusal(status, &said)).await
    }

    /// Sends the events of a stream.
    async fn relay(&mut self, mut body: Body, mut of: SocketRequest) -> Result<(), SocketEnd> {
        // The upstream's events were bounded before.
        let mut scanner = SseScanner::new(usize::MAX);
        // Of the event under way, and of its frame.
        let (mut lease, mut begun) = (self.accepted.gateway.memory().lease(), 0);
        let (mut id, mut has_ended) = (String::new(), false);
        loop {
            let chunk = tokio::select! {
                chunk = body.frame() => chunk,
                frame = self.next(), if self.waiting.is_none() => {
                    match frame? {
                        frame if has_ended => self.waiting = Some(frame),
                        frame if self.is_cancelled(&frame).await? => {
                            drop(body);
                            return self.send(frames::cancelled(&id)).await;
                        }
                        _ => {}
                    }
                    continue;
                }
            };
            let is_end = chunk.is_none();
            match chunk {
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    begun += data.len();
                    lease.settle(2 * begun);
                    scanner.push(data);
                }
                Some(Err(_)) => return Err(SocketEnd::Closed(CloseCode::Error, "the answer broke off")),
                None => {}
            }
            loop {
                let event = scanner.next_event().ok().flatten();
                let Some(event) = event.or_else(|| is_end.then(|| scanner.finish()).flatten()) else { break };
                begun = 0;
                let length = event.raw.len();
                let Some(frame) = aside(length, || frames::frame(&event)) else { continue };
                let find = || frames::may_have_response(&event).then(|| response_of(&event)).flatten();
                if let Some(response) = aside(length, find) {
                    let read = aside(length, || StoredAnswer::read(&response));
                    id = read.as_ref().map(|response| response.id.clone().into_owned()).unwrap_or_default();
                    if let Some(read) = read.filter(StoredAnswer::has_ended) {
                        has_ended = true;
                        self.last = of.items.take().and_then(|items| self.kept(&read, &items, of.is_stored));
                    }
                }
                self.send(frame).await?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// Whether this frame ends the response that is under way. Any other request has to wait.
    async fn is_cancelled(&mut self, frame: &[u8]) -> Result<bool, SocketEnd> {
        match read(frame) {
            ClientFrame::Cancel => return Ok(true),
            ClientFrame::Acknowledged => {}
            ClientFrame::Create { .. } => {
                let message = "a response is under way, and a socket has one at a time: wait for its end, or send response.cancel";
                self.send(frames::misuse(message)).await?;
            }
            ClientFrame::Invalid(message) => self.send(frames::misuse(message)).await?,
        }
        Ok(false)
    }

    /// A request that is not to be answered yet: its input is what the next one continues.
    async fn note(&mut self, body: &Bytes, items: Option<Bytes>) -> Result<(), SocketEnd> {
        let parse = || ApiRequest::parse(Surface::Responses, body.clone());
        let model = aside(body.len(), parse).map(|request| request.model).unwrap_or_default();
        for event in frames::known(&model) {
            let raw = format!("data: {event}\n\n").into();
            if let Some(response) = response_of(&photofinish_wire::SseEvent { raw }) {
                self.last = StoredAnswer::read(&response).and_then(|read| self.kept(&read, items.as_ref()?, false));
            }
            self.send(event).await?;
        }
        Ok(())
    }

    /// None: there is no memory for it, or its caller holds too much.
    fn kept(&self, answer: &StoredAnswer<'_>, before: &[u8], is_stored: bool) -> Option<LastResponse> {
        let items = answer.output.iter().map(|item| item.get().as_bytes());
        let items = listed(std::iter::once(before).chain(items));
        let AcceptedClient { gateway, client, .. } = &self.accepted;
        let items = SocketMessage::of((gateway, client), &items).ok()?;
        Some(LastResponse { id: answer.id.clone().into_owned(), items, is_stored })
    }
}

fn read(frame: &[u8]) -> ClientFrame<'_> {
    aside(frame.len(), || ClientFrame::read(frame))
}

/// Texts of items with commas between them.
fn listed<'a>(items: impl Iterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
    let mut listed = Vec::new();
    for item in items.filter(|item| !item.is_empty()) {
        if !listed.is_empty() {
            listed.push(&b","[..]);
        }
        listed.push(item);
    }
    listed
}

/// The request with the items of the response before, if it names that one and nothing else has it.
///
/// # Errors
/// 413 or 503 for more items than there is room for.
fn continued(body: Bytes, last: Option<&LastResponse>, by: (&Gateway, &Client)) -> Result<SocketRequest, Rejection> {
    let (memory, live) = (by.0.memory(), by.0.live());
    let room = |bytes: usize| {
        let mut lease = memory.lease();
        lease.cover(bytes).map_err(|MemoryFull| Rejection::no_memory(bytes, memory.max()))?;
        Ok::<Lease, Rejection>(lease)
    };
    let unknown = |body| SocketRequest { body, items: None, is_stored: false };
    let Ok(request) = ApiRequest::parse(Surface::Responses, body.clone()) else { return Ok(unknown(body)) };
    let is_stored = !request.state.unstored && live.config.server.stored.size > 0;
    let _own = room(body.len())?;
    let Ok(own) = request.own_input(|_| None, |_| true) else { return Ok(unknown(body)) };
    if !own.unknown.is_empty() {
        return Ok(unknown(body));
    }
    match (&request.state.previous, last) {
        (None, _) if request.state.conversation.is_none() => {
            let items = SocketMessage::of(by, &[&own.items[..]])?;
            Ok(SocketRequest { body, items: Some(items), is_stored })
        }
        (Some(id), Some(last)) if *id == last.id => {
            let items = SocketMessage::of(by, &listed([&last.items[..], &own.items[..]].into_iter()))?;
            if last.is_stored {
                return Ok(SocketRequest { body, items: Some(items), is_stored });
            }
            let mut input = room(2 * (items.len() + body.len()))?;
            let made = request.with_input(&[b"[", &items[..], b"]"].concat(), true, |body| {
                input.settle(body.len());
                input.hold(body)
            })?;
            Ok(SocketRequest { body: made.body().clone(), items: Some(items), is_stored })
        }
        _ => Ok(unknown(body)),
    }
}
