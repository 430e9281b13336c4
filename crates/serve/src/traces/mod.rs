//! Traces for OpenTelemetry: spans of finished races wait within a bound, and a task exports them by OpenTelemetry's own code; another
//! one sends the figures of `/metrics`.
//!
//! No request waits for a collector. What it does not take, and what has no room, is dropped and counted. Not for the headers of
//! requests: see `proxy::trace`.

mod export;
mod metrics;
mod names;
mod spans;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_sdk::trace::SpanData;
use tokio::sync::Notify;

use export::Collector;
pub(crate) use metrics::Figures;
use metrics::MetricsExporter;
use photofinish_base::clock::wall_micros;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::Config;
use photofinish_facts::recording::EndedRace;
use photofinish_gateway::proxy::{Gateway, RaceTrace, SpanSink};

/// Bytes of the spans that wait; a race that comes when there is no room is dropped.
const WAITING_MAX: usize = 16 << 20;
/// Spans in one request to the collector, as the SDK has it.
const BATCH_MAX: usize = 512;
/// How long a batch waits for more spans.
const COLLECT_FOR: Duration = Duration::from_secs(1);

/// Spans that wait. Requests put them here.
#[derive(Debug, Default)]
struct SpanQueue {
    waiting: Mutex<WaitingSpans>,
    /// The first span came, or a batch is full.
    changed: Notify,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct WaitingSpans {
    spans: VecDeque<SpanData>,
    bytes: usize,
}

impl SpanSink for SpanQueue {
    fn ended(&self, trace: &RaceTrace, config: &Config, race: &EndedRace<'_>) {
        self.add(spans::spans(trace, config, race));
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl SpanQueue {
    /// The spans of one race wait together, or none of them does.
    fn add(&self, spans: Vec<SpanData>) {
        let bytes: usize = spans.iter().map(spans::size).sum();
        let mut waiting = self.waiting();
        if waiting.bytes + bytes > WAITING_MAX {
            return self.drop_spans(spans.len());
        }
        let (before, after) = (waiting.spans.len(), waiting.spans.len() + spans.len());
        waiting.bytes += bytes;
        waiting.spans.extend(spans);
        if before == 0 || before < BATCH_MAX && after >= BATCH_MAX {
            self.changed.notify_one();
        }
    }

    /// Empty: nothing waits.
    fn take(&self) -> Vec<SpanData> {
        let mut waiting = self.waiting();
        let count = waiting.spans.len().min(BATCH_MAX);
        let batch: Vec<SpanData> = waiting.spans.drain(..count).collect();
        waiting.bytes -= batch.iter().map(spans::size).sum::<usize>();
        batch
    }

    fn drop_spans(&self, spans: usize) {
        self.dropped.fetch_add(spans as u64, Ordering::Relaxed);
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, WaitingSpans> {
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
    /// And the figures are sent.
    pub fn start(gateway: &Arc<Gateway>, figures: Figures) -> Traces {
        let (tasks, queue) = (Shutdown::new(), Arc::new(SpanQueue::default()));
        gateway.send_spans_to(queue.clone());
        // Distinguishes runs of the gateway.
        let instance = uuid::Uuid::now_v7().to_string();
        let metering =
            MetricsExporter { gateway: gateway.clone(), figures, instance: instance.clone(), begin: wall_micros() };
        tasks.spawn(metering.run(tasks.clone()));
        let exporter = Exporter {
            gateway: gateway.clone(),
            queue: queue.clone(),
            instance,
            collector: None,
            is_taken: true,
            under_way: 0,
        };
        tasks.spawn(exporter.run(tasks.clone()));
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
    instance: String,
    /// The one of the latest batch.
    collector: Option<Collector>,
    /// The collector took the last batch.
    is_taken: bool,
    /// Spans of the batch that is being sent.
    under_way: usize,
}

impl Exporter {
    async fn run(mut self, tasks: Shutdown) {
        let cancelled = tasks.cancelled();
        let mut draining = std::pin::pin!(tasks.draining());
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
                loop {
                    let batch = queue.take();
                    if batch.is_empty() {
                        break;
                    }
                    self.under_way = batch.len();
                    self.send(batch).await;
                    self.under_way = 0;
                }
                if tasks.is_draining() {
                    return;
                }
            }
        };
        tokio::select! { () = sending => {}, () = cancelled => {} }
        let waiting = std::mem::take(&mut *self.queue.waiting());
        self.queue.drop_spans(self.under_way + waiting.spans.len());
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let count = batch.len();
        let Some(otlp) = self.gateway.live().config.otlp.clone() else { return self.queue.drop_spans(count) };
        let origin = otlp.address.origin().to_owned();
        if self.collector.as_ref().is_none_or(|collector| *collector.otlp() != otlp) {
            self.collector = None;
        }
        let sent = match &mut self.collector {
            Some(collector) => collector.export(batch).await,
            none => match Collector::new(otlp, self.gateway.client().clone(), &self.instance) {
                Ok(collector) => none.insert(collector).export(batch).await,
                Err(why) => Err(why),
            },
        };
        match sent {
            Ok(refused) => {
                self.queue.drop_spans(refused.min(count));
                if !std::mem::replace(&mut self.is_taken, true) {
                    tracing::info!("the collector of traces at {origin} takes them again");
                }
            }
            Err(why) => {
                self.queue.drop_spans(count);
                if std::mem::replace(&mut self.is_taken, false) {
                    tracing::warn!("traces are lost: the collector at {origin} does not take them: {why}");
                }
            }
        }
    }
}
