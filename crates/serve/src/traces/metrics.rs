//! Sends the figures of `/metrics` to a collector as they are: cumulative, so one that is lost is in the next.
//!
//! Not for counting: the page is written a second time, into OpenTelemetry's form.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use prost::Message as _;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, ClientTlsConfig};

use super::{export, names};
use photofinish_base::clock::wall_micros;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::{OtlpMetrics, OtlpProtocol};
use photofinish_gateway::proxy::Gateway;
use photofinish_metrics::{MetricFamily, MetricSample, SampleValue};
use photofinish_transport::upstream::{Endpoint, GetLimits};

/// What one call may take.
const LIMITS: GetLimits = GetLimits { time: Duration::from_secs(10), bytes: 64 << 10 };
/// How often it is looked whether a new configuration asks for metrics.
const LOOK_FOR: Duration = Duration::from_secs(60);

/// The figures of the page at this moment.
pub(crate) type Figures = Box<dyn Fn() -> Vec<MetricFamily> + Send + Sync>;

pub(super) struct MetricsExporter {
    pub gateway: Arc<Gateway>,
    pub figures: Figures,
    pub instance: String,
    /// When counting began; microseconds since 1970.
    pub begin: i64,
}

impl MetricsExporter {
    pub async fn run(self, tasks: Shutdown) {
        let cancelled = tasks.cancelled();
        let sending = async {
            let mut is_taken = true;
            loop {
                let interval = self.gateway.live().config.otlp_metrics.as_ref().map_or(LOOK_FOR, |to| to.interval);
                tokio::select! { () = tokio::time::sleep(interval) => {}, () = tasks.draining() => {} }
                self.send(&mut is_taken).await;
                if tasks.is_draining() {
                    return;
                }
            }
        };
        tokio::select! { () = sending => {}, () = cancelled => {} }
    }

    async fn send(&self, is_taken: &mut bool) {
        let Some(to) = self.gateway.live().config.otlp_metrics.clone() else { return };
        let sent = tokio::time::timeout(LIMITS.time, self.export(&to)).await;
        let origin = to.otlp.address.origin();
        match sent.unwrap_or_else(|_| Err("it does not answer".to_owned())) {
            Ok(()) if !std::mem::replace(is_taken, true) => {
                tracing::info!("the collector of metrics at {origin} takes them again");
            }
            Err(why) if std::mem::replace(is_taken, false) => {
                tracing::warn!("the collector of metrics at {origin} does not take them: {why}");
            }
            _ => {}
        }
    }

    async fn export(&self, to: &OtlpMetrics) -> Result<(), String> {
        let resource = ResourceAttributesWithSchema::from(&export::resource(&to.otlp, &self.instance));
        let request = request((self.figures)(), resource, (self.begin, wall_micros()));
        match to.otlp.protocol {
            OtlpProtocol::Http => self.post(to, &request.encode_to_vec()).await,
            OtlpProtocol::Grpc => call(to, request).await,
        }
    }

    async fn post(&self, to: &OtlpMetrics, body: &[u8]) -> Result<(), String> {
        let (address, mut headers): (_, HeaderMap) = (&to.otlp.address, to.otlp.headers.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let mut packed = body.to_vec();
        if to.gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(body).map_err(|error| error.to_string())?;
            packed = encoder.finish().map_err(|error| error.to_string())?;
        }
        let endpoint = Endpoint::parse(address.origin()).map_err(|error| error.to_string())?;
        let endpoint = endpoint.with_transport(address.transport());
        let path = address.path_and_query().to_owned();
        let client = self.gateway.client();
        let answer =
            client.post(endpoint, path, headers, packed.into(), LIMITS).await.map_err(|error| error.to_string())?;
        match answer.status {
            status if status.is_success() => Ok(()),
            status => Err(format!("it answered with the status {}", status.as_u16())),
        }
    }
}

async fn call(to: &OtlpMetrics, request: ExportMetricsServiceRequest) -> Result<(), String> {
    let origin = to.otlp.address.origin();
    let mut channel = Channel::from_shared(origin.to_owned()).map_err(|error| error.to_string())?;
    if origin.starts_with("https") {
        let tls = ClientTlsConfig::new().with_enabled_roots();
        channel = channel.tls_config(tls).map_err(|error| error.to_string())?;
    }
    let mut client = MetricsServiceClient::new(channel.connect_lazy());
    if to.gzip {
        client = client.send_compressed(CompressionEncoding::Gzip);
    }
    let mut request = tonic::Request::new(request);
    *request.metadata_mut() = MetadataMap::from_headers(to.otlp.headers.clone());
    client.export(request).await.map(drop).map_err(|status| status.to_string())
}

/// `times`: when counting began, and now; microseconds since 1970.
pub(super) fn request(
    families: Vec<MetricFamily>,
    resource: ResourceAttributesWithSchema,
    (begin, now): (i64, i64),
) -> ExportMetricsServiceRequest {
    let times = [begin, now].map(|us| u64::try_from(us).unwrap_or(0) * 1_000);
    let metrics = families.into_iter().filter(|family| !family.samples.is_empty());
    let scope = InstrumentationScope {
        name: "photofinish".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_metrics = ScopeMetrics {
        scope: Some(scope),
        metrics: metrics.map(|family| metric(family, times)).collect(),
        schema_url: names::SCHEMA_URL.to_owned(),
    };
    let resource =
        opentelemetry_proto::tonic::resource::v1::Resource { attributes: resource.attributes.0, ..Default::default() };
    let all =
        ResourceMetrics { resource: Some(resource), scope_metrics: vec![scope_metrics], schema_url: String::new() };
    ExportMetricsServiceRequest { resource_metrics: vec![all] }
}

fn metric(family: MetricFamily, times: [u64; 2]) -> Metric {
    let temporality = AggregationTemporality::Cumulative as i32;
    let (name, unit) = names::metric(&family.name);
    let numbers = |samples: Vec<MetricSample>| samples.into_iter().filter_map(|sample| number(sample, times)).collect();
    let data = match family.kind.as_str() {
        "histogram" => {
            let data_points = family.samples.into_iter().filter_map(|sample| buckets(sample, times)).collect();
            Data::Histogram(Histogram { data_points, aggregation_temporality: temporality })
        }
        "counter" => {
            let data_points = numbers(family.samples);
            Data::Sum(Sum { data_points, aggregation_temporality: temporality, is_monotonic: true })
        }
        _ => Data::Gauge(Gauge { data_points: numbers(family.samples) }),
    };
    Metric {
        name: name.to_owned(),
        description: family.help,
        unit: unit.to_owned(),
        metadata: Vec::new(),
        data: Some(data),
    }
}

fn attributes(labels: Vec<(String, String)>) -> Vec<KeyValue> {
    let pair = |(name, value): (String, String)| KeyValue {
        key: names::label(&name).to_owned(),
        value: Some(AnyValue { value: Some(any_value::Value::StringValue(value)) }),
        ..KeyValue::default()
    };
    labels.into_iter().map(pair).collect()
}

fn number(sample: MetricSample, [start_time_unix_nano, time_unix_nano]: [u64; 2]) -> Option<NumberDataPoint> {
    let value = match sample.value {
        SampleValue::Whole(whole) => Value::AsInt(whole),
        SampleValue::Real(real) => Value::AsDouble(real),
        SampleValue::Buckets(..) => return None,
    };
    let attributes = attributes(sample.labels);
    let value = Some(value);
    Some(NumberDataPoint { attributes, start_time_unix_nano, time_unix_nano, value, ..NumberDataPoint::default() })
}

fn buckets(sample: MetricSample, [start_time_unix_nano, time_unix_nano]: [u64; 2]) -> Option<HistogramDataPoint> {
    let SampleValue::Buckets(explicit_bounds, bucket_counts, sum) = sample.value else { return None };
    Some(HistogramDataPoint {
        attributes: attributes(sample.labels),
        start_time_unix_nano,
        time_unix_nano,
        count: bucket_counts.iter().sum(),
        sum: Some(sum),
        bucket_counts,
        explicit_bounds,
        ..HistogramDataPoint::default()
    })
}
