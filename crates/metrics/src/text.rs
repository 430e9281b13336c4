//! Prometheus' text format, version 0.0.4, and OpenMetrics 1.0, which also has exemplars. Not for counting.
//!
//! <https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md>

use std::fmt::Display;

use super::histogram::MetricHistogram;

/// How the page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    Text,
    OpenMetrics,
}

const OPEN_METRICS: &str = "application/openmetrics-text";

impl MetricsFormat {
    /// What a request with this `accept` header prefers.
    pub fn preferred(accept: &str) -> MetricsFormat {
        let open = quality(accept, &[OPEN_METRICS]);
        // `*/*` is Prometheus' text, as without the header.
        if open > 0.0 && open >= quality(accept, &["text/plain", "text/*", "*/*"]) {
            MetricsFormat::OpenMetrics
        } else {
            MetricsFormat::Text
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::Text => "text/plain; version=0.0.4; charset=utf-8",
            MetricsFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The greatest quality of these types in an `accept` header; 0 if it has none of them.
fn quality(accept: &str, types: &[&str]) -> f32 {
    let of = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next()?;
        types.iter().find(|wanted| name.eq_ignore_ascii_case(wanted))?;
        let given = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        given.map_or(Some(1.0), |quality| quality.trim().parse().ok())
    };
    accept.split(',').filter_map(of).fold(0.0, f32::max)
}

/// A family of the page in parts, for a form that is no text.
#[derive(Debug)]
pub struct MetricFamily {
    pub name: String,
    /// `counter`, `gauge` or `histogram`
    pub kind: String,
    pub help: String,
    pub samples: Vec<MetricSample>,
}

#[derive(Debug)]
pub struct MetricSample {
    pub labels: Vec<(String, String)>,
    pub value: SampleValue,
}

#[derive(Debug, PartialEq)]
pub enum SampleValue {
    Whole(i64),
    Real(f64),
    /// Upper bounds, values in each bucket (one more: the last has no bound), and the sum of all values.
    Buckets(Vec<f64>, Vec<u64>, f64),
}

/// A page as it grows.
#[derive(Debug)]
pub struct MetricsText {
    format: MetricsFormat,
    page: String,
    /// The name of the family that samples are added to.
    family: String,
    /// The parts instead of the page.
    parts: Option<Vec<MetricFamily>>,
}

impl MetricsText {
    pub(super) fn new(format: MetricsFormat) -> MetricsText {
        MetricsText { format, page: String::new(), family: String::new(), parts: None }
    }

    pub(super) fn in_parts() -> MetricsText {
        MetricsText { parts: Some(Vec::new()), ..MetricsText::new(MetricsFormat::Text) }
    }

    pub(super) fn parts(self) -> Vec<MetricFamily> {
        self.parts.unwrap_or_default()
    }

    /// Begins a family `photofinish_NAME`; `kind` is `counter`, `gauge` or `histogram`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.shared_family(&format!("photofinish_{name}"), kind, help);
    }

    /// Begins a family with a name of a shared convention.
    pub fn shared_family(&mut self, name: &str, kind: &str, help: &str) {
        name.clone_into(&mut self.family);
        if let Some(parts) = &mut self.parts {
            let [name, kind, help] = [name, kind, help].map(str::to_owned);
            return parts.push(MetricFamily { name, kind, help, samples: Vec::new() });
        }
        let family = match self.format {
            // There it is the end of a sample's name.
            MetricsFormat::OpenMetrics if kind == "counter" => name.trim_end_matches("_total"),
            _ => name,
        };
        self.page += &format!("# HELP {family} {help}\n# TYPE {family} {kind}\n");
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        if self.parts.is_none() {
            return self.line("", labels, value);
        }
        let text = value.to_string();
        let value = text.parse().map(SampleValue::Whole).or_else(|_| text.parse().map(SampleValue::Real));
        if let Ok(value) = value {
            self.part(labels, value);
        }
    }

    fn part(&mut self, labels: &[(&str, &str)], value: SampleValue) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        if let Some(family) = self.parts.as_mut().and_then(|parts| parts.last_mut()) {
            family.samples.push(MetricSample { labels, value });
        }
    }

    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], histogram: &MetricHistogram) {
        if self.parts.is_some() {
            let cumulative = histogram.cumulative();
            let (bounds, counts): (Vec<_>, Vec<_>) = cumulative
                .scan(0, |before, (bound, so_far)| Some((bound, so_far - std::mem::replace(before, so_far))))
                .unzip();
            let bounds = bounds.into_iter().flatten().collect();
            return self.part(labels, SampleValue::Buckets(bounds, counts, histogram.sum()));
        }
        let mut count = 0;
        let exemplars = match self.format {
            MetricsFormat::Text => Vec::new(),
            MetricsFormat::OpenMetrics => histogram.exemplars(),
        };
        let exemplars = exemplars.into_iter().chain(std::iter::repeat(None));
        for ((bound, so_far), exemplar) in histogram.cumulative().zip(exemplars) {
            let bound = bound.map_or("+Inf".to_owned(), |bound| self.bound(bound));
            self.begin_line("_bucket", &[labels, &[("le", bound.as_str())]].concat());
            self.page += &match exemplar {
                None => format!("{so_far}\n"),
                Some((exemplar, value)) => {
                    let (race_id, at) = (exemplar.race_id(), exemplar.at_seconds());
                    format!("{so_far} # {{race_id=\"{race_id}\"}} {value} {at:.3}\n")
                }
            };
            count = so_far;
        }
        self.line("_sum", labels, histogram.sum());
        self.line("_count", labels, count);
    }

    /// In OpenMetrics a whole number has a decimal point.
    fn bound(&self, bound: f64) -> String {
        let point = if self.format == MetricsFormat::OpenMetrics && bound.fract() == 0.0 { ".0" } else { "" };
        format!("{bound}{point}")
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == MetricsFormat::OpenMetrics {
            self.page += "# EOF\n";
        }
        self.page
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.begin_line(suffix, labels);
        self.page += &format!("{value}\n");
    }

    fn begin_line(&mut self, suffix: &str, labels: &[(&str, &str)]) {
        let pairs: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
        self.page += &format!("{}{suffix}{labels} ", self.family);
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::histogram::{Buckets, MICROS};
    use super::*;

    #[test]
    fn the_parts_are_those_of_the_page() {
        let mut text = MetricsText::in_parts();
        text.single("a_total", "counter", "A.", 3_u64);
        text.family("b", "gauge", "B.");
        text.sample(&[("x", "1")], 0.5);
        text.family("c", "histogram", "C.");
        let histogram = MetricHistogram::new(Buckets { upto: &[10, 20], ..MICROS });
        [5, 10, 15, 99].iter().for_each(|micros| histogram.observe(Duration::from_micros(*micros)));
        text.histogram(&[("x", "2")], &histogram);
        let parts = text.parts();
        let values: Vec<_> = parts
            .iter()
            .flat_map(|family| {
                family
                    .samples
                    .iter()
                    .map(|sample| (family.name.split_once('_').unwrap().1, sample.labels.len(), &sample.value))
            })
            .collect();
        let expected = [
            ("a_total", 0, &SampleValue::Whole(3)),
            ("b", 1, &SampleValue::Real(0.5)),
            ("c", 1, &SampleValue::Buckets(vec![1e-5, 2e-5], vec![2, 1, 1], 129e-6)),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn a_page_in_both_formats() {
        let histogram = MetricHistogram::with_exemplars(Buckets { upto: &[50, 60_000_000], ..MICROS });
        histogram.observe_of(Duration::from_millis(1_250), "01920000-0000-7000-8000-000000000000");
        histogram.observe_of(Duration::from_millis(61_000), "no race");
        let page = |format| {
            let mut text = MetricsText::new(format);
            text.single("up", "gauge", "Up.", 1);
            text.single("asked_total", "counter", "Asked.", 2);
            text.shared_family("took", "histogram", "Took.");
            text.histogram(&[("who", "a\\b\"c\nd")], &histogram);
            text.finish()
        };
        let expected = r#"# HELP photofinish_up Up.
# TYPE photofinish_up gauge
photofinish_up 1
# HELP photofinish_asked_total Asked.
# TYPE photofinish_asked_total counter
photofinish_asked_total 2
# HELP took Took.
# TYPE took histogram
took_bucket{who="a\\b\"c\nd",le="0.00005"} 0
took_bucket{who="a\\b\"c\nd",le="60"} 1
took_bucket{who="a\\b\"c\nd",le="+Inf"} 2
took_sum{who="a\\b\"c\nd"} 62.25
took_count{who="a\\b\"c\nd"} 2
"#;
        assert_eq!(page(MetricsFormat::Text), expected);
        let open = page(MetricsFormat::OpenMetrics);
        let (before, exemplar) = open.split_once(" # {").unwrap();
        let (exemplar, after) = exemplar.split_once('\n').unwrap();
        let (exemplar, at) = exemplar.rsplit_once(' ').unwrap();
        assert_eq!(exemplar, "race_id=\"01920000-0000-7000-8000-000000000000\"} 1.25");
        assert!(at.parse::<f64>().unwrap() > 1.7e9);
        let expected = expected
            .replace("# HELP photofinish_asked_total", "# HELP photofinish_asked")
            .replace("# TYPE photofinish_asked_total", "# TYPE photofinish_asked")
            .replace("le=\"60\"", "le=\"60.0\"");
        assert_eq!(format!("{before}\n{after}"), format!("{expected}# EOF\n"));
    }

    #[test]
    fn the_format_is_what_the_header_prefers() {
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for accept in [prometheus_2, prometheus_3, "Application/OpenMetrics-Text"] {
            assert_eq!(MetricsFormat::preferred(accept), MetricsFormat::OpenMetrics, "{accept}");
        }
        let refused = "application/openmetrics-text;q=0";
        let less = "application/openmetrics-text;q=0.2, text/plain";
        let no_number = "application/openmetrics-text;q=x";
        for accept in ["", "*/*", "text/plain", "text/html,*/*;q=0.8", refused, less, no_number] {
            assert_eq!(MetricsFormat::preferred(accept), MetricsFormat::Text, "{accept}");
        }
    }
}
