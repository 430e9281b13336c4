//! Sends spans to a collector by OpenTelemetry's exporter: over HTTP with the gateway's own client, which knows proxies and
//! certificates, or over gRPC.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response};
use opentelemetry::KeyValue;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use prost::Message as _;
use tonic::metadata::MetadataMap;
use tonic::transport::ClientTlsConfig;

use super::names;
use photofinish_config::{Otlp, OtlpProtocol};
use photofinish_transport::upstream::{Endpoint, GetLimits, UpstreamClient};

/// What one call may take.
const LIMITS: GetLimits = GetLimits { time: Duration::from_secs(10), bytes: 64 << 10 };

/// Where spans go.
pub(super) struct Collector {
    otlp: Otlp,
    exporter: SpanExporter,
    heard: Arc<CollectorHeard>,
}

/// What the exporter does not pass on.
#[derive(Debug, Default)]
struct CollectorHeard {
    /// Spans that it refused of those that it took.
    refused: AtomicUsize,
    /// Why a call failed.
    why: Mutex<Option<String>>,
}

impl Collector {
    /// # Errors
    /// What the exporter says of the configuration.
    pub fn new(otlp: Otlp, client: UpstreamClient, instance: &str) -> Result<Collector, String> {
        let heard = Arc::new(CollectorHeard::default());
        let built = match otlp.protocol {
            OtlpProtocol::Http => {
                let client = CollectorClient { client, otlp: otlp.clone(), heard: heard.clone() };
                let http = SpanExporter::builder().with_http().with_http_client(client);
                // The client knows the address with its path.
                http.with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
                    .with_endpoint(otlp.address.origin())
                    .build()
            }
            OtlpProtocol::Grpc => {
                let headers = otlp.headers.clone();
                // Last, so that what the file says counts before the variables.
                let interceptor = move |mut request: tonic::Request<()>| {
                    let mut all = std::mem::take(request.metadata_mut()).into_headers();
                    headers.iter().for_each(|(name, value)| drop(all.insert(name, value.clone())));
                    *request.metadata_mut() = MetadataMap::from_headers(all);
                    Ok(request)
                };
                let grpc = SpanExporter::builder().with_tonic().with_endpoint(otlp.address.origin());
                grpc.with_tls_config(ClientTlsConfig::new().with_enabled_roots()).with_interceptor(interceptor).build()
            }
        };
        let mut exporter = built.map_err(|error| error.to_string())?;
        exporter.set_resource(&resource(&otlp, instance));
        Ok(Collector { otlp, exporter, heard })
    }

    pub fn otlp(&self) -> &Otlp {
        &self.otlp
    }

    /// The number of spans that the collector refused of these.
    ///
    /// # Errors
    /// Why it did not take them.
    pub async fn export(&mut self, batch: Vec<SpanData>) -> Result<usize, String> {
        self.heard.refused.store(0, Ordering::Relaxed);
        self.heard.why().take();
        match self.exporter.export(batch).await {
            Ok(()) => Ok(self.heard.refused.load(Ordering::Relaxed)),
            Err(error) => Err(self.heard.why().take().unwrap_or_else(|| error.to_string())),
        }
    }
}

impl CollectorHeard {
    fn why(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls the collector with the gateway's client.
struct CollectorClient {
    client: UpstreamClient,
    otlp: Otlp,
    heard: Arc<CollectorHeard>,
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CollectorClient({})", self.otlp.address.origin())
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let endpoint = Endpoint::parse(self.otlp.address.origin())?.with_transport(self.otlp.address.transport());
        let mut headers: HeaderMap = self.otlp.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("photofinish/", env!("CARGO_PKG_VERSION"))));
        head.headers.get(CONTENT_ENCODING).map(|encoding| headers.insert(CONTENT_ENCODING, encoding.clone()));
        let path = self.otlp.address.path_and_query().to_owned();
        let answer = self.client.post(endpoint, path, headers, body, LIMITS).await;
        let answer = answer.inspect_err(|error| *self.heard.why() = Some(error.to_string()))?;
        if answer.status.is_success() {
            self.heard.refused.store(refused(&answer.body), Ordering::Relaxed);
        } else {
            *self.heard.why() = Some(format!("it answered with the status {}", answer.status.as_u16()));
        }
        let mut response = Response::new(answer.body);
        (*response.status_mut(), *response.headers_mut()) = (answer.status, answer.headers);
        Ok(response)
    }
}

/// How many spans of a request a collector that took it says it refused.
pub(super) fn refused(answer: &[u8]) -> usize {
    let partial = ExportTraceServiceResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
    partial.map_or(0, |partial| usize::try_from(partial.rejected_spans).unwrap_or(0))
}

/// The attributes of the gateway. What the environment says comes last and counts.
pub(super) fn resource(otlp: &Otlp, instance: &str) -> Resource {
    let own = [
        (names::SERVICE_NAME, "photofinish"),
        (names::SERVICE_VERSION, env!("CARGO_PKG_VERSION")),
        (names::SERVICE_INSTANCE, instance),
    ];
    let named = otlp.service_name.as_deref().map(|name| (names::SERVICE_NAME, name));
    let given = otlp.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let all = own.into_iter().chain(given).chain(named);
    let all = all.map(|(name, value)| KeyValue::new(name.to_owned(), names::cut(value).to_owned()));
    Resource::builder_empty().with_attributes(all).build()
}
