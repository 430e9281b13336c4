//! Traces for OpenTelemetry: spans of finished races wait in bounded batches, and a task sends them to the collector.
//!
//! No request waits for a collector. What it does not take, and what has no room, is dropped and counted. Not for the headers of
//! requests: see `proxy::trace`.

mod encode;
mod names;
mod spans;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use tokio::sync::Notify;

use encode::Message;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::config::{Config, Otlp};
use photofinish_gateway::proxy::{Gateway, RaceTrace, SpanSink};
use photofinish_history::recorder::EndedRace;
use photofinish_transport::upstream::{Endpoint, GetLimits, WholeAnswer};

/// Bytes of spans in one request to the collector.
const BATCH_MAX: usize = 1 << 20;
/// Batches that wait; what comes when they are full is dropped.
const BATCHES_MAX: usize = 16;
/// How long a batch waits for more spans.
const COLLECT_FOR: Duration = Duration::from_secs(1);
/// What one call may take.
const LIMITS: GetLimits = GetLimits { time: Duration::from_secs(10), bytes: 64 << 10 };
/// Calls for one batch, while the collector says that it may take it later, or nothing.
const TRIES_MAX: u32 = 4;
/// From the first of them to the second; then twice as long each time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// The longest such pause, whatever the collector asks for.
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// Spans that wait. Requests put them here.
#[derive(Debug, Default)]
struct SpanQueue {
    waiting: Mutex<VecDeque<Batch>>,
    /// The first span came, or a batch is full.
    changed: Notify,
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Batch {
    /// The `spans` fields of a scope.
    bytes: Vec<u8>,
    spans: u64,
}

impl SpanSink for SpanQueue {
    fn ended(&self, trace: &RaceTrace, config: &Config, race: &EndedRace<'_>) {
        let (bytes, spans) = spans::spans(trace, config, race);
        self.add(bytes.bytes(), spans);
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl SpanQueue {
    /// The spans of one race stay together.
    fn add(&self, bytes: &[u8], spans: u64) {
        let mut waiting = self.waiting();
        let has_room = waiting.back().is_some_and(|batch| batch.bytes.len() + bytes.len() <= BATCH_MAX);
        if !has_room {
            if waiting.len() >= BATCHES_MAX || bytes.len() > BATCH_MAX {
                self.drop_spans(spans);
                return;
            }
            waiting.push_back(Batch { bytes: Vec::with_capacity(BATCH_MAX), spans: 0 });
            self.changed.notify_one();
        }
        if let Some(batch) = waiting.back_mut() {
            batch.bytes.extend_from_slice(bytes);
            batch.spans += spans;
        }
    }

    fn take(&self) -> Option<Batch> {
        self.waiting().pop_front()
    }

    fn drop_spans(&self, spans: u64) {
        self.dropped.fetch_add(spans, Ordering::Relaxed);
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, VecDeque<Batch>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that sends spans. Finish it after all that is traced, and before the connections end.
pub(crate) struct Traces {
    tasks: Shutdown,
    queue: Arc<SpanQueue>,
}

impl Traces {
    /// From now on requests are traced whenever the configuration in force says where to.
    pub fn start(gateway: &Arc<Gateway>) -> Traces {
        let (tasks, queue) = (Shutdown::new(), Arc::new(SpanQueue::default()));
        gateway.send_spans_to(queue.clone());
        let exporter = Exporter {
            gateway: gateway.clone(),
            queue: queue.clone(),
            tasks: tasks.clone(),
            is_taken: true,
            under_way: 0,
        };
        tasks.spawn(exporter.run());
        Traces { tasks, queue }
    }

    /// Sends what waits, for `limit` at most.
    pub async fn finish(self, limit: Duration) {
        self.tasks.drain();
        if !self.tasks.finished(limit).await {
            self.tasks.cancel();
            self.tasks.finished(limit).await;
        }
        let dropped = self.queue.dropped();
        if dropped > 0 {
            tracing::warn!(dropped, "spans of traces were lost since the start");
        }
    }
}

struct Exporter {
    gateway: Arc<Gateway>,
    queue: Arc<SpanQueue>,
    tasks: Shutdown,
    /// The collector took the last batch.
    is_taken: bool,
    /// Spans of the batch that is being sent.
    under_way: u64,
}

impl Exporter {
    async fn run(mut self) {
        // Tells one run of the gateway from another.
        let instance = uuid::Uuid::now_v7().to_string();
        let cancelled = self.tasks.cancelled();
        let mut draining = std::pin::pin!(self.tasks.draining());
        let queue = self.queue.clone();
        let sending = async {
            loop {
                tokio::select! {
                    () = queue.changed.notified() => {
                        let filled = tokio::time::timeout(COLLECT_FOR, queue.changed.notified());
                        tokio::select! { _ = filled => {}, () = &mut draining => {} }
                    }
                    () = &mut draining => {}
                }
                while let Some(batch) = queue.take() {
                    self.under_way = batch.spans;
                    self.send(&batch, &instance).await;
                    self.under_way = 0;
                }
                if self.tasks.is_draining() {
                    return;
                }
            }
        };
        tokio::select! { () = sending => {}, () = cancelled => {} }
        self.queue.drop_spans(self.under_way);
        while let Some(batch) = self.queue.take() {
            self.queue.drop_spans(batch.spans);
        }
    }

    async fn send(&mut self, batch: &Batch, instance: &str) {
        let Some(otlp) = self.gateway.live().config.otlp.clone() else { return self.queue.drop_spans(batch.spans) };
        let origin = otlp.address.origin();
        match self.try_to_send(batch, &otlp, instance).await {
            Ok(refused) => {
                self.queue.drop_spans(refused.min(batch.spans));
                if !std::mem::replace(&mut self.is_taken, true) {
                    tracing::info!("the collector of traces at {origin} takes them again");
                }
            }
            Err(why) => {
                self.queue.drop_spans(batch.spans);
                if std::mem::replace(&mut self.is_taken, false) {
                    tracing::warn!("traces are lost: the collector at {origin} does not take them: {why}");
                }
            }
        }
    }

    /// The number of spans that the collector refused.
    ///
    /// # Errors
    /// Why it did not take the batch.
    async fn try_to_send(&self, batch: &Batch, otlp: &Otlp, instance: &str) -> Result<u64, String> {
        let body = encode::request(resource(otlp, instance).bytes(), &batch.bytes);
        let body = bytes::Bytes::from(body);
        let (mut pause, mut tried) = (AGAIN_AFTER, 0);
        loop {
            let (why, wait) = match self.call(otlp, body.clone()).await {
                Ok(answer) if answer.status.is_success() => return Ok(encode::refused(&answer.body)),
                Ok(answer) => {
                    let why = format!("it answered with the status {}", answer.status.as_u16());
                    // Those that the protocol allows to be sent again.
                    if ![429, 502, 503, 504].contains(&answer.status.as_u16()) {
                        return Err(why);
                    }
                    (why, asked_wait(&answer.headers))
                }
                Err(why) => (why, None),
            };
            tried += 1;
            if tried >= TRIES_MAX || self.tasks.is_draining() {
                return Err(why);
            }
            tokio::select! {
                () = tokio::time::sleep(wait.unwrap_or(pause).min(AGAIN_MAX)) => {}
                () = self.tasks.draining() => {}
            }
            pause *= 2;
        }
    }

    async fn call(&self, otlp: &Otlp, body: bytes::Bytes) -> Result<WholeAnswer, String> {
        let endpoint = Endpoint::parse(otlp.address.origin()).map_err(|error| error.to_string())?;
        let endpoint = endpoint.with_transport(otlp.address.transport());
        let mut headers = otlp.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("photofinish/", env!("CARGO_PKG_VERSION"))));
        let path = otlp.address.path_and_query().to_owned();
        self.gateway.client().post(endpoint, path, headers, body, LIMITS).await.map_err(|error| error.to_string())
    }
}

/// What the collector asks for, if in seconds.
fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// The attributes of the gateway, as fields of a resource. What the environment says comes last and counts.
fn resource(otlp: &Otlp, instance: &str) -> Message {
    let own = [
        (names::SERVICE_NAME, "photofinish"),
        (names::SERVICE_VERSION, env!("CARGO_PKG_VERSION")),
        (names::SERVICE_INSTANCE, instance),
    ];
    let named = otlp.service_name.as_deref().map(|name| (names::SERVICE_NAME, name));
    let given = otlp.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let all: Vec<(&str, &str)> = own.into_iter().chain(given).chain(named).collect();
    let mut message = Message::default();
    for (at, (name, value)) in all.iter().enumerate() {
        if all[at + 1..].iter().all(|(later, _)| later != name) {
            message.of_resource(name, value);
        }
    }
    message
}
