//! The input for starting an attempt.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use http::HeaderMap;

use super::judge::AnswerTape;
use super::meter::JobCost;
use photofinish_base::clock::Instant;
use photofinish_base::memory::Memory;
use photofinish_base::shutdown::Shutdown;
use photofinish_base::telemetry::LogContext;
use photofinish_config::keyring::HashedKey;
use photofinish_config::offerings::ModelCatalogue;
use photofinish_config::{FirstToken, Provider, ProviderDialect, Timeouts, UpstreamConfig};
use photofinish_facts::bill::PerByte;
use photofinish_facts::recording::RaceSink;
use photofinish_race::AttemptStart;
use photofinish_routing::learning::AttemptObserver;
use photofinish_translation::RequestTranslation;
use photofinish_transport::upstream::{Endpoint, Outgoing, Upload, UpstreamClient};
use photofinish_wire::AnswerForm;

/// What every exchange with a provider needs.
pub struct ExchangeSpec {
    pub client: UpstreamClient,
    pub sink: Arc<dyn RaceSink>,
    pub shutdown: Shutdown,
    pub race_id: String,
    /// The names of the attempt in the log.
    pub context: LogContext,
    /// When the client's request was read, or began.
    pub read_at: Instant,
    pub key: Option<HashedKey>,
    /// Memory for its buffers.
    pub memory: Memory,
}

/// Everything that an attempt needs. Owned: an audited attempt outlives its race.
pub struct AttemptSpec {
    pub exchange: ExchangeSpec,
    pub starting: AttemptStart,
    pub upstream: UpstreamConfig,
    pub endpoint: Endpoint,
    pub request_translation: Arc<RequestTranslation>,
    /// It makes a job, or asks for what is stored.
    pub job: Option<JobCost>,
    /// The number of answers that the request asks for, if given.
    pub choices: Option<i64>,
    /// Parts of its prompt are to be kept in the provider's cache for an hour.
    pub asks_hour: bool,
    /// A chat client asked for the usage chunk itself.
    pub include_usage: bool,
    /// How the upstream is asked to answer.
    pub form: AnswerForm,
    /// The client streams.
    pub streams: bool,
    /// The kind of token that makes it ready.
    pub first_token: FirstToken,
    /// Bytes of one event of its answer; a larger event is a failure.
    pub event_max: usize,
    /// The client's headers that are forwarded.
    pub headers: HeaderMap,
    /// Use a new connection: a pooled one has just died.
    pub fresh: bool,
    /// Probability of an audit if it loses.
    pub p_audit: f64,
    /// Counts it among this upstream's running attempts; the guard takes it.
    pub slot: Option<InFlightGuard>,
    /// How many tokens the bytes of its prompt make: at its upstream, and anywhere.
    pub per_byte: (Option<PerByte>, Option<PerByte>),
    /// Feeds the statistics of its upstream; the guard takes it.
    pub attempt_observer: Option<AttemptObserver>,
    /// Keeps its answer to be judged; the guard takes it. None: nothing of it is judged.
    pub tape: Option<AnswerTape>,
}

/// Everything that an exchange needs whose bodies are passed on.
pub struct PassSpec {
    pub exchange: ExchangeSpec,
    pub provider: Arc<Provider>,
    pub spoken: ProviderDialect,
    /// What the path is about, in place of a model.
    pub word: String,
    /// The request without its key and its body.
    pub outgoing: Outgoing,
    pub upload: Upload,
    pub timeouts: Timeouts,
    /// Has the prices of models that answers name.
    pub catalogue: Arc<ModelCatalogue>,
}

/// Counts one until it is dropped. Not `Clone`: two would decrement twice.
#[derive(Debug)]
pub struct InFlightGuard {
    counter: Arc<AtomicI64>,
    /// The count before this one.
    pub before: i64,
}

impl InFlightGuard {
    pub fn enter(counter: Arc<AtomicI64>) -> InFlightGuard {
        let before = counter.fetch_add(1, Ordering::Relaxed);
        InFlightGuard { counter, before }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::Relaxed);
    }
}
