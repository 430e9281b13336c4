//! Prometheus' text format, version 0.0.4. Not for counting.

use std::fmt::Display;

use super::histogram::MetricHistogram;

/// The content type of the page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page as it grows.
#[derive(Debug, Default)]
pub struct MetricsText {
    page: String,
    /// The name of the family that samples are added to.
    family: String,
}

impl MetricsText {
    /// Begins a family `photofinish_NAME`; `kind` is `counter`, `gauge` or `histogram`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.shared_family(&format!("photofinish_{name}"), kind, help);
    }

    /// Begins a family with a name of a shared convention.
    pub(super) fn shared_family(&mut self, name: &str, kind: &str, help: &str) {
        name.clone_into(&mut self.family);
        let family = &self.family;
        self.page += &format!("# HELP {family} {help}\n# TYPE {family} {kind}\n");
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, value);
    }

    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], histogram: &MetricHistogram) {
        let mut count = 0;
        for (bound, so_far) in histogram.cumulative() {
            let bound = bound.map_or("+Inf".to_owned(), |bound| bound.to_string());
            self.line("_bucket", &[labels, &[("le", bound.as_str())]].concat(), so_far);
            count = so_far;
        }
        self.line("_sum", labels, histogram.sum());
        self.line("_count", labels, count);
    }

    pub(super) fn finish(self) -> String {
        self.page
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let pairs: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
        self.page += &format!("{}{suffix}{labels} {value}\n", self.family);
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
    fn a_page() {
        let histogram = MetricHistogram::new(Buckets { upto: &[50, 60_000_000], ..MICROS });
        histogram.observe(Duration::from_millis(1_250));
        let mut text = MetricsText::default();
        text.single("up", "gauge", "Up.", 1);
        text.shared_family("took", "histogram", "Took.");
        text.histogram(&[("who", "a\\b\"c\nd")], &histogram);
        let expected = r#"# HELP photofinish_up Up.
# TYPE photofinish_up gauge
photofinish_up 1
# HELP took Took.
# TYPE took histogram
took_bucket{who="a\\b\"c\nd",le="0.00005"} 0
took_bucket{who="a\\b\"c\nd",le="60"} 1
took_bucket{who="a\\b\"c\nd",le="+Inf"} 1
took_sum{who="a\\b\"c\nd"} 1.25
took_count{who="a\\b\"c\nd"} 1
"#;
        assert_eq!(text.finish(), expected);
    }
}
