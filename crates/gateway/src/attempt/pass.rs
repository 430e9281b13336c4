//! An exchange whose bodies are passed on as they come: one attempt, without a race. Nothing of it is read, but for the usage in a short
//! answer. Not for the client's side: see `proxy::pass`.

use photofinish_dialects::DialectFormat as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, StatusCode};
use tokio::time::Sleep;

use super::credential;
use super::exchange::{Bounds, no_memory, refused};
use super::guard::AttemptGuard;
use super::no_answer::content_type_is;
use super::spec::PassSpec;
use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::memory::{Lease, MemoryFull};
use photofinish_base::pace::aside;
use photofinish_base::telemetry::WithLogContext as _;
use photofinish_config::keyring::HashedKey;
use photofinish_config::offerings::ModelCatalogue;
use photofinish_config::{Provider, Timeouts, UpstreamConfig};
use photofinish_limits::AttemptReservation;
use photofinish_transport::upstream::{Response, ResponseBody, Upload};
use photofinish_wire::stream::frame::Frame;
use photofinish_wire::{Dialect, PassedCall, SseEvent, Surface};

/// Bytes that the buffers of both directions take.
const BUFFERS: usize = 256 << 10;
/// Bytes of an answer of a provider's path that is read for its usage; a longer one is not.
const READ_MAX: usize = 1 << 20;

/// How far the client's body is.
#[derive(Clone, Copy, Debug)]
pub struct UploadLook {
    /// When bytes last went up.
    pub moved_at: Instant,
    /// The client broke off, or its body is no good. The provider is not at fault.
    pub is_broken: bool,
}

/// The head of an answer that is no error, and its body.
pub struct PassedAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: PassedStream,
}

/// The answer's body. Dropped before its end, it cancels the exchange and records that.
pub struct PassedStream {
    body: ResponseBody,
    upload: Upload,
    guard: Box<AttemptGuard>,
    timeouts: Timeouts,
    /// Fires after too long a silence.
    timer: Option<Pin<Box<Sleep>>>,
    /// Bytes that are still to come. None: not known.
    left: Option<u64>,
    is_over: bool,
    /// What has come, if it may contain the usage.
    kept: Option<BytesMut>,
    prices: (Arc<Provider>, Arc<ModelCatalogue>),
    /// Of the buffers, and of `kept`.
    lease: Lease,
}

impl PassSpec {
    /// Sends the request and waits for the head of its answer.
    ///
    /// # Errors
    /// There is no answer, or it is an error: `failure.answer` has it.
    pub async fn send(
        self,
        reservation: AttemptReservation,
        look: impl Fn() -> UploadLook,
    ) -> Result<PassedAnswer, Failure> {
        let context = self.exchange.context.clone();
        self.exchanged(reservation, look).in_context(context).await
    }

    async fn exchanged(
        mut self,
        reservation: AttemptReservation,
        look: impl Fn() -> UploadLook,
    ) -> Result<PassedAnswer, Failure> {
        credential::add(
            &mut self.outgoing,
            &self.spoken,
            self.exchange.key.as_ref().map(HashedKey::expose),
            SystemTime::now(),
        );
        let mut guard = Box::new(AttemptGuard::passing(&self, reservation));
        guard.dispatched();
        let mut lease = self.exchange.memory.lease();
        let asked = match lease.cover(BUFFERS) {
            Ok(()) => self.head(&mut guard, &look).await,
            Err(MemoryFull) => Err(no_memory(Phase::Connect)),
        };
        let mut response = asked.inspect_err(|failure| {
            if !look().is_broken {
                guard.failed(failure);
            }
        })?;
        response.body.count_in(&self.exchange.memory);
        guard.head(&response);
        if response.status.is_client_error() || response.status.is_server_error() {
            self.upload.give_up();
            let bounds = Bounds { event_max: READ_MAX, memory: self.exchange.memory.clone(), names_stored: true };
            return Err(refused(response, self.exchange.key.as_ref(), &bounds, &mut guard).await);
        }
        // Other answers show the same usage again, such as those about a batch.
        let may_have_usage = self.outgoing.method == Method::POST && self.word != "batches";
        let is_text =
            ["application/json", "text/event-stream"].iter().any(|kind| content_type_is(&response.headers, kind));
        let Response { status, headers, body } = response;
        let has_none =
            self.outgoing.method == Method::HEAD || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let mut body = PassedStream {
            body,
            upload: self.upload,
            guard,
            timeouts: self.timeouts,
            timer: None,
            left: if has_none { Some(0) } else { announced },
            is_over: false,
            kept: (may_have_usage && is_text).then(BytesMut::new),
            prices: (self.provider, self.catalogue),
            lease,
        };
        // No server asks for a body that has no bytes.
        std::future::poll_fn(|context| {
            body.end_if_whole(context);
            Poll::Ready(())
        })
        .await;
        Ok(PassedAnswer { status, headers, body })
    }

    async fn head(&self, guard: &mut AttemptGuard, look: &impl Fn() -> UploadLook) -> Result<Response, Failure> {
        let sending = async {
            let mut outgoing = self.outgoing.clone();
            loop {
                let sent = self
                    .exchange
                    .client
                    .send_upload(&outgoing, &self.upload, |connected| guard.connected(connected))
                    .await;
                match sent {
                    // As everywhere, it is asked again after a pooled connection died, here in the same attempt.
                    Err(failure) if failure.stale && !outgoing.fresh && self.upload.is_whole() => outgoing.fresh = true,
                    sent => return sent,
                }
            }
        };
        let mut sending = std::pin::pin!(sending);
        let end = self.exchange.read_at + self.timeouts.stream_total;
        let due = || (look().moved_at + self.timeouts.total).min(end);
        loop {
            match tokio::time::timeout_at(due(), &mut sending).await {
                Ok(sent) => return sent,
                Err(_) if Instant::now() < due() => {}
                Err(_) => return Err(Failure::new(FailureKind::Timeout, Phase::Headers, "no answer in time")),
            }
        }
    }
}

impl PassedStream {
    /// Nothing more comes: it is recorded.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Ends it once all bytes are there that were announced: a server asks for no more.
    fn end_if_whole(&mut self, context: &mut Context<'_>) {
        if self.left == Some(0) && !self.is_over {
            // So that its connection goes back to the pool.
            let _ = self.body.poll_chunk(context);
            self.end();
        }
    }

    fn end(&mut self) {
        let now = Instant::now();
        self.guard.meter.eof(now);
        self.upload.give_up();
        self.read_usage(now);
        self.guard.won();
        self.is_over = true;
    }

    /// The next bytes; none at the end.
    ///
    /// # Errors
    /// What broke it. It is already recorded.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let Poll::Ready(next) = self.body.poll_chunk(context) else {
            let due = (Instant::now() + self.timeouts.silence(false, false)).min(self.guard.until);
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            return Poll::Ready(Some(Err(self.failed(Failure::new(
                FailureKind::IdleTimeout,
                Phase::Stream,
                "it fell silent",
            )))));
        };
        self.timer = None;
        let now = Instant::now();
        match next {
            Some(Ok(bytes)) => {
                self.guard.meter.read(now);
                self.keep(&bytes);
                self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
                self.end_if_whole(context);
                if now > self.guard.until {
                    let failure =
                        Failure::new(FailureKind::Timeout, Phase::Stream, "it took longer than timeouts.stream_total");
                    return Poll::Ready(Some(Err(self.failed(failure))));
                }
                Poll::Ready(Some(Ok(bytes)))
            }
            Some(Err(failure)) => Poll::Ready(Some(Err(self.failed(failure)))),
            None => {
                self.end();
                Poll::Ready(None)
            }
        }
    }

    fn failed(&mut self, failure: Failure) -> Failure {
        self.guard.failed(&failure);
        failure
    }

    fn keep(&mut self, bytes: &[u8]) {
        let Some(kept) = &mut self.kept else { return };
        let length = kept.len() + bytes.len();
        if length > READ_MAX || self.lease.cover(BUFFERS + length).is_err() {
            self.kept = None;
        } else {
            kept.extend_from_slice(bytes);
        }
    }

    fn read_usage(&mut self, now: Instant) {
        let Some(kept) = self.kept.take() else { return };
        let (guard, (provider, catalogue)) = (&mut self.guard, &self.prices);
        aside(kept.len(), || {
            let event = SseEvent { raw: kept.freeze() };
            // Any call that is passed through is read alike.
            let Frame::Chunk(chunk) = Dialect::OpenAi.read(Surface::Passed(PassedCall::Image), &event) else { return };
            if let (Some(model), Some(_)) = (chunk.model.as_deref(), &chunk.usage) {
                let priced = UpstreamConfig::of_catalogue(provider.clone(), model.to_owned(), catalogue, self.timeouts);
                guard.set_price(&priced);
            }
            guard.meter.chunk(&chunk, now);
        });
    }
}

impl Drop for PassedStream {
    fn drop(&mut self) {
        self.upload.give_up();
    }
}
