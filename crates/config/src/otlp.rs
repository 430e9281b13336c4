//! `[otlp]` and OpenTelemetry's own variables: where traces and metrics go, which requests are traced, and how the gateway is named
//! there.
//!
//! What the file says counts before the variables. A wrong variable gives a warning and is ignored, as OpenTelemetry's
//! specification demands. Not for the traces themselves: see `traces`.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::http_address::HttpAddress;
use super::keys::{self, Flag, choice, keys, own};
use super::names::names;
use super::problem::{LocatedProblem, shown};
use super::reader::{ReaderScope, TomlTable};
use super::request::{header_table, headers_schema};

names! {
    /// How traces are sent, by OpenTelemetry's names.
    pub enum OtlpProtocol {
        /// Protocol Buffers over HTTP.
        Http = "http/protobuf",
        /// Protocol Buffers over gRPC.
        Grpc = "grpc",
    }
}

/// Where traces go, and of which requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Otlp {
    /// With its path, which gRPC does not use.
    pub address: HttpAddress,
    pub protocol: OtlpProtocol,
    /// They may hold a key.
    pub headers: HeaderMap,
    pub sampler: TraceSampler,
    /// `OTEL_SERVICE_NAME`
    pub service_name: Option<String>,
    /// `OTEL_RESOURCE_ATTRIBUTES`
    pub attributes: Vec<(String, String)>,
}

/// Where the figures of `/metrics` go too. There is no remote sampler.
#[derive(Clone, Debug, PartialEq)]
pub struct OtlpMetrics {
    pub otlp: Otlp,
    /// `OTEL_METRIC_EXPORT_INTERVAL`
    pub interval: Duration,
    pub gzip: bool,
}

/// What is sent to a collector.
#[derive(Clone, Copy)]
enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    /// Its part of the names of variables.
    fn name(self) -> &'static str {
        match self {
            Signal::Traces => "TRACES",
            Signal::Metrics => "METRICS",
        }
    }

    /// Its path behind an address for all that OpenTelemetry sends.
    fn path(self) -> &'static str {
        match self {
            Signal::Traces => "/v1/traces",
            Signal::Metrics => "/v1/metrics",
        }
    }
}

/// Which requests are traced: `OTEL_TRACES_SAMPLER`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSampler {
    /// As the caller traces, if it says so.
    follows_caller: bool,
    /// Of the others, from 0 to 1.
    share: f64,
}

impl TraceSampler {
    /// `caller`: whether the caller traces this request. The ids of all programs are compared in the same way, so that they
    /// choose the same traces.
    pub fn takes(self, caller: Option<bool>, trace_id: u128) -> bool {
        match caller {
            Some(traces) if self.follows_caller => traces,
            _ => self.share >= 1.0 || (((trace_id as u64) >> 1) as f64) < self.share * (1_u64 << 63) as f64,
        }
    }
}

keys! {
    /// `[otlp]`
    #[derive(Clone)]
    pub(super) struct OtlpKeys {
        /// The collector that gets a trace of each request, by OTLP; over HTTP `/v1/traces` is appended. Without it the variables
        /// `OTEL_EXPORTER_OTLP_…` say where.
        endpoint: Option<HttpAddress> = own(read_endpoint, |_| keys::text("https?://[^#@?]+"));
        /// How: `http/protobuf` (the usual port is 4318) or `grpc` (4317). Without it `OTEL_EXPORTER_OTLP_PROTOCOL` says how, else
        /// `http/protobuf`.
        protocol: Option<OtlpProtocol> = choice();
        /// The figures of `/metrics` are sent to the collector too, by `/v1/metrics`. `OTEL_METRICS_EXPORTER=otlp` says the same.
        metrics: bool = Flag, or false;
        /// Headers for the collector, such as `authorization`.
        headers: HeaderMap = own(read_headers, headers_schema), or HeaderMap::new();
    }
}

/// How often metrics are sent without `OTEL_METRIC_EXPORT_INTERVAL`.
const USUAL_INTERVAL: Duration = Duration::from_secs(60);
/// Attributes of `OTEL_RESOURCE_ATTRIBUTES`, or headers of a variable.
const PAIRS_MAX: usize = 64;
/// Bytes of one of the values there.
const PAIR_MAX: usize = 8 << 10;

fn read_endpoint(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<HttpAddress> {
    let text = table.text(key)?;
    let read = behind(&text.value, Signal::Traces);
    if let Err(why) = read {
        let problem = LocatedProblem::at(text.offset, format!("{} {why}", table.what(key)));
        table.scope.report(problem.expected("an address such as \"http://localhost:4318\""));
    }
    read.ok()
}

/// Whether the gateway leaves this header to the operator.
fn is_free(name: &str) -> bool {
    const OWN: [&str; 12] = [
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    ];
    !OWN.contains(&name) && !name.starts_with("proxy-")
}

fn read_headers(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<HeaderMap> {
    let expected = "a header's name; no hop-by-hop header and none that the gateway sets itself";
    let (headers, in_file) = header_table(table, key, (is_free, expected));
    if in_file {
        table.scope.note_secret();
    }
    Some(headers)
}

/// The address of one signal behind one for everything.
fn behind(text: &str, signal: Signal) -> Result<HttpAddress, &'static str> {
    let base = text.trim_end_matches('/');
    if base.contains('?') {
        return Err("has a query");
    }
    let base = base.strip_suffix(Signal::Traces.path()).unwrap_or(base);
    HttpAddress::parse(&format!("{base}{}", signal.path()))
}

impl OtlpKeys {
    /// None: nothing is traced.
    pub(super) fn traces(&self, scope: &ReaderScope<'_>) -> Option<Otlp> {
        let off = is(scope, "OTEL_TRACES_EXPORTER", "none");
        if off { None } else { self.resolve(scope, Signal::Traces) }
    }

    /// None: they are off.
    pub(super) fn figures(&self, scope: &ReaderScope<'_>) -> Option<OtlpMetrics> {
        let exporter = |value: &str| is(scope, "OTEL_METRICS_EXPORTER", value);
        if !(self.metrics || exporter("otlp")) || exporter("none") {
            return None;
        }
        let otlp = self.resolve(scope, Signal::Metrics)?;
        let given = |name: &str| variable(scope, name);
        let gzip = ["OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"];
        let gzip = gzip.into_iter().find_map(given).is_some_and(|text| text == "gzip");
        const INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
        let interval = given(INTERVAL).and_then(|text| {
            let millis = text.parse().ok().filter(|millis| *millis >= 1_000).map(Duration::from_millis);
            if millis.is_none() {
                scope.warn(format!(
                    "the variable {INTERVAL} is no number of milliseconds from 1000 on; it does not count"
                ));
            }
            millis
        });
        Some(OtlpMetrics { otlp, interval: interval.unwrap_or(USUAL_INTERVAL), gzip })
    }

    fn resolve(&self, scope: &ReaderScope<'_>, signal: Signal) -> Option<Otlp> {
        let variable = |name: &str| variable(scope, name);
        if is(scope, "OTEL_SDK_DISABLED", "true") {
            return None;
        }
        let wrong = |name: &str, why: &str| scope.warn(format!("the variable {name} {why}; it does not count"));
        // The name for the signal alone comes first.
        let either = |end: &str| {
            [format!("OTEL_EXPORTER_OTLP_{}_{end}", signal.name()), format!("OTEL_EXPORTER_OTLP_{end}")]
                .into_iter()
                .find_map(|name| Some((variable(&name)?, name)))
        };
        // The address in the file is that of traces.
        let of_file = self
            .endpoint
            .as_ref()
            .and_then(|traces| behind(&format!("{}{}", traces.origin(), traces.path_and_query()), signal).ok());
        let address = of_file.or_else(|| {
            let (text, name) = either("ENDPOINT")?;
            let is_whole = name.contains(signal.name());
            let read = if is_whole { HttpAddress::parse(&text) } else { behind(&text, signal) };
            read.inspect_err(|why| wrong(&name, why)).ok()
        })?;
        let protocol = self.protocol.or_else(|| {
            let (text, name) = either("PROTOCOL")?;
            let known = OtlpProtocol::ALL.into_iter().find(|protocol| protocol.as_str() == text);
            if known.is_none() {
                wrong(&name, &format!("asks for {}, and this is sent as http/protobuf or grpc", shown(&text)));
            }
            known
        });
        let protocol = protocol.unwrap_or(OtlpProtocol::Http);
        let mut headers = HeaderMap::new();
        if let Some((text, name)) = either("HEADERS") {
            for (key, value) in pairs(&text) {
                match (HeaderName::from_bytes(key.as_bytes()), HeaderValue::from_str(&value)) {
                    (Ok(key), _) if !is_free(key.as_str()) => {
                        wrong(&name, &format!("has the header {key}, which the gateway sets itself or never sends"));
                    }
                    (Ok(key), Ok(mut value)) => {
                        value.set_sensitive(true);
                        headers.insert(key, value);
                    }
                    // Without the text: it may be a key.
                    _ => wrong(&name, "has a part that is no header"),
                }
            }
        }
        headers.extend(self.headers.clone());
        let share = variable("OTEL_TRACES_SAMPLER_ARG");
        let sampler = sampler(variable("OTEL_TRACES_SAMPLER").as_deref(), share.as_deref(), wrong);
        let attributes = variable("OTEL_RESOURCE_ATTRIBUTES").map(|text| pairs(&text).collect()).unwrap_or_default();
        Some(Otlp { address, protocol, headers, sampler, service_name: variable("OTEL_SERVICE_NAME"), attributes })
    }
}

/// None: it is not set, or empty.
fn variable(scope: &ReaderScope<'_>, name: &str) -> Option<String> {
    (scope.env)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn is(scope: &ReaderScope<'_>, name: &str, value: &str) -> bool {
    variable(scope, name).is_some_and(|text| text.eq_ignore_ascii_case(value))
}

/// `key=value,key=value`, with `%20` and the like in the values.
fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8_lossy();
        (value.len() <= PAIR_MAX && key.len() <= PAIR_MAX).then(|| (key.trim().to_owned(), value.into_owned()))
    };
    text.split(',').filter_map(pair).take(PAIRS_MAX)
}

/// By the names of the specification.
fn sampler(name: Option<&str>, share: Option<&str>, wrong: impl Fn(&str, &str)) -> TraceSampler {
    let name = name.unwrap_or("parentbased_always_on");
    let given = || {
        let share = share.map(|text| text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share)));
        if share == Some(None) {
            wrong("OTEL_TRACES_SAMPLER_ARG", "is no number from 0 to 1");
        }
        share.flatten().unwrap_or(1.0)
    };
    let share = match name.trim_start_matches("parentbased_") {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => given(),
        _ => {
            wrong("OTEL_TRACES_SAMPLER", &format!("is \"{}\", which is none of the known ones", shown(name)));
            return TraceSampler { follows_caller: true, share: 1.0 };
        }
    };
    TraceSampler { follows_caller: name.starts_with("parentbased_"), share }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Config, parse};
    use super::*;

    fn config(text: &str, variables: &[(&str, &str)]) -> Config {
        let env = |name: &str| Some(variables.iter().find(|(known, _)| *known == name)?.1.to_owned());
        parse(text, Path::new("config.toml"), &env).unwrap()
    }

    fn otlp(text: &str, variables: &[(&str, &str)]) -> Option<Otlp> {
        config(text, variables).otlp
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

    #[test]
    fn the_file_counts_before_the_variables() {
        let of_traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces.example/in?x=1");
        let file = "otlp.endpoint = \"https://langfuse.example/api/public/otel/\"";
        for (text, variables, expected) in [
            ("", vec![], None),
            ("", vec![ENDPOINT], Some("http://collector:4318 /v1/traces")),
            ("", vec![ENDPOINT, of_traces], Some("https://traces.example /in?x=1")),
            (file, vec![ENDPOINT, of_traces], Some("https://langfuse.example /api/public/otel/v1/traces")),
            ("otlp.endpoint = \"http://h/v1/traces\"", vec![], Some("http://h /v1/traces")),
            (file, vec![("OTEL_SDK_DISABLED", "TRUE")], None),
            (file, vec![("OTEL_TRACES_EXPORTER", "none")], None),
            (file, vec![("OTEL_SDK_DISABLED", "false")], Some("https://langfuse.example /api/public/otel/v1/traces")),
            ("", vec![("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], None),
        ] {
            let address = otlp(text, &variables).map(|otlp| otlp.address);
            let address_and_path = address.map(|address| format!("{} {}", address.origin(), address.path_and_query()));
            assert_eq!(address_and_path.as_deref(), expected, "{text} {variables:?}");
        }
    }

    #[test]
    fn metrics_are_sent_to_who_asks_for_them() {
        let on = ("OTEL_METRICS_EXPORTER", "otlp");
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://figures:9/in");
        let file = "[otlp]\nendpoint = \"http://h:4318/v1/traces\"\nmetrics = true";
        for (text, variables, expected) in [
            ("", vec![ENDPOINT], None),
            ("", vec![on], None),
            ("", vec![on, ENDPOINT], Some("http://collector:4318 /v1/metrics 60")),
            ("", vec![on, ENDPOINT, own], Some("http://figures:9 /in 60")),
            (file, vec![own], Some("http://h:4318 /v1/metrics 60")),
            (file, vec![("OTEL_METRIC_EXPORT_INTERVAL", "5000")], Some("http://h:4318 /v1/metrics 5")),
            (file, vec![("OTEL_METRICS_EXPORTER", "none")], None),
            (file, vec![("OTEL_SDK_DISABLED", "true")], None),
            (file, vec![("OTEL_TRACES_EXPORTER", "none")], Some("http://h:4318 /v1/metrics 60")),
        ] {
            let address_and_path = config(text, &variables).otlp_metrics.map(|metrics| {
                let address = metrics.otlp.address;
                format!("{} {} {}", address.origin(), address.path_and_query(), metrics.interval.as_secs())
            });
            assert_eq!(address_and_path.as_deref(), expected, "{text} {variables:?}");
        }
        let config = config(file, &[("OTEL_METRIC_EXPORT_INTERVAL", "5s"), ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")]);
        assert!(config.warnings.iter().any(|warning| warning.contains("OTEL_METRIC_EXPORT_INTERVAL")));
        assert!(config.otlp_metrics.unwrap().gzip);
    }

    #[test]
    fn the_protocol_is_that_of_the_file_then_of_the_variable() {
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        let file = "[otlp]\nprotocol = \"http/protobuf\"";
        for (text, variables, expected) in [
            ("", vec![ENDPOINT], OtlpProtocol::Http),
            ("", vec![ENDPOINT, grpc], OtlpProtocol::Grpc),
            (file, vec![ENDPOINT, grpc], OtlpProtocol::Http),
        ] {
            assert_eq!(otlp(text, &variables).unwrap().protocol, expected, "{text} {variables:?}");
        }
    }

    #[test]
    fn headers_come_from_both_and_are_shown_nowhere() {
        let text = "otlp.headers = { authorization = \"Basic ${PLANTED}\" }";
        let variables = [
            ENDPOINT,
            ("PLANTED", "planted"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant = a%20b,authorization=other, planted bad=1,none"),
        ];
        let config = config(text, &variables);
        let headers = &config.otlp.as_ref().unwrap().headers;
        assert_eq!(
            (headers["authorization"].as_bytes(), headers["x-tenant"].as_bytes()),
            (&b"Basic planted"[..], &b"a b"[..])
        );
        assert_eq!(headers.len(), 2);
        let shown = format!("{config:?} {:?}", config.warnings);
        assert!(!shown.contains("planted") && !shown.contains("a b"), "{shown}");
        assert!(config.warnings.iter().any(|warning| warning.contains("no header")), "{:?}", config.warnings);
    }

    #[test]
    fn headers_of_the_connection_are_told_and_not_sent() {
        let names = ["Content-Length", "connection", "transfer-encoding", "proxy-authorization"];
        for name in names {
            let variable = format!("{name}=planted,x-tenant=b");
            let config = config("", &[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", &variable)]);
            let headers: Vec<&str> = config.otlp.as_ref().unwrap().headers.keys().map(HeaderName::as_str).collect();
            assert_eq!(headers, ["x-tenant"]);
            let warnings = config.warnings.join("\n");
            let words = format!("OTEL_EXPORTER_OTLP_HEADERS has the header {}", name.to_lowercase());
            assert!(warnings.contains(&words) && !warnings.contains("planted"), "{warnings}");
            let text = format!("otlp = {{ endpoint = \"http://h\", headers = {{ {name} = \"x\" }} }}");
            let refused = parse(&text, Path::new("config.toml"), &|_| None).unwrap_err().to_string();
            assert!(refused.contains("is not sent") && refused.contains("hop-by-hop"), "{refused}");
        }
    }

    #[test]
    fn a_wrong_variable_is_told_and_does_not_count() {
        for (name, value, words) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317", "is no URL"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "asks for http/json"),
            ("OTEL_TRACES_SAMPLER", "sometimes", "is \"sometimes\""),
        ] {
            let variables = if name == ENDPOINT.0 { vec![(name, value)] } else { vec![ENDPOINT, (name, value)] };
            let config = config("", &variables);
            assert_eq!(config.otlp.is_some(), name != ENDPOINT.0);
            let warnings = config.warnings.join("\n");
            assert!(warnings.contains(words) && warnings.contains(name), "{warnings}");
        }
        assert!(config("", &[ENDPOINT]).warnings.iter().all(|warning| !warning.contains("OTEL")));
    }

    #[test]
    fn the_sampler_is_that_of_the_specification() {
        let half = ("OTEL_TRACES_SAMPLER_ARG", "0.5");
        let (low, high) = (u128::MAX << 64, u128::MAX);
        for (name, arg, expected) in [
            // Of a caller that traces, of one that does not, and of none with a low and a high id.
            (None, None, [true, false, true, true]),
            (Some("parentbased_always_off"), None, [true, false, false, false]),
            (Some("parentbased_traceidratio"), Some(half), [true, false, true, false]),
            (Some("traceidratio"), Some(half), [false, false, true, false]),
            (Some("traceidratio"), Some((half.0, "7")), [true, true, true, true]),
            (Some("traceidratio"), Some((half.0, "0")), [false, false, false, false]),
            (Some("always_on"), None, [true, true, true, true]),
            (Some("always_off"), None, [false, false, false, false]),
        ] {
            let name = name.map(|name| ("OTEL_TRACES_SAMPLER", name));
            let variables: Vec<_> = [ENDPOINT].into_iter().chain(name).chain(arg).collect();
            let sampler = otlp("", &variables).unwrap().sampler;
            let asked = [(Some(true), high), (Some(false), high), (None, low), (None, high)];
            assert_eq!(asked.map(|(caller, id)| sampler.takes(caller, id)), expected, "{variables:?}");
        }
    }

    #[test]
    fn the_gateway_has_the_name_that_it_is_given() {
        let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test, k8s.pod.name=a%2Cb");
        let otlp = otlp("", &[ENDPOINT, attributes, ("OTEL_SERVICE_NAME", "edge")]).unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(otlp.attributes, [pair("deployment.environment.name", "test"), pair("k8s.pod.name", "a,b")]);
        assert_eq!(otlp.service_name.as_deref(), Some("edge"));
    }
}
