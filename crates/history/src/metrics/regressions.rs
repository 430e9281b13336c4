//! Regressions on the page: which are current, and how many began. Not for finding them: see `app`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::series::NamedSeries;
use super::text::MetricsText;
use crate::history::regression::TestedFigure;

/// Upstreams and their figures.
pub type CurrentRegressions = BTreeSet<(String, TestedFigure)>;

/// A figure without any regression has no series.
pub(super) fn render<S>(
    upstreams: &NamedSeries<S>,
    began: fn(&S) -> &[AtomicU64; TestedFigure::ALL.len()],
    standing: &CurrentRegressions,
    text: &mut MetricsText,
) {
    let standing: BTreeSet<(&str, TestedFigure)> =
        standing.iter().map(|(upstream, figure)| (upstreams.label(upstream), *figure)).collect();
    let series = |upstream, of: &S| {
        let counts = began(of).iter().map(|count| count.load(Relaxed));
        let figures = TestedFigure::ALL.into_iter().zip(counts);
        let figures = figures.map(|(figure, count)| (figure, count, standing.contains(&(upstream, figure))));
        figures.filter(|(_, count, stands)| *count > 0 || *stands).collect::<Vec<_>>()
    };
    let help = "1 while a figure of an upstream is worse than in the same hours of the days before, as stats --regressions shows.";
    text.family("regressions", "gauge", help);
    for (upstream, of) in upstreams.iter() {
        for (figure, _, stands) in series(upstream, of) {
            text.sample(&[("upstream", upstream), ("figure", figure.as_str())], u8::from(stands));
        }
    }
    text.family("regressions_total", "counter", "Regressions that began, by upstream and figure.");
    for (upstream, of) in upstreams.iter() {
        for (figure, count, _) in series(upstream, of) {
            text.sample(&[("upstream", upstream), ("figure", figure.as_str())], count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::metrics::ExternalCounts;
    use crate::metrics::Metrics;
    use photofinish_config::config::parse;

    fn page(metrics: &Metrics) -> Vec<String> {
        let page = metrics.render(&ExternalCounts::default());
        page.lines().filter(|line| line.contains("regressions") && !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn what_is_current_and_what_began() {
        let models = "providers.groq.base_url = \"http://h/v1\"\nmodels.m.upstreams = [\"groq/a\"]";
        let metrics = Metrics::new();
        metrics.configure(&parse(models, Path::new("x"), &|_| None).unwrap());
        assert_eq!(page(&metrics), [""; 0]);
        let found = [("groq/a", TestedFigure::Tpot), ("x/1", TestedFigure::Ttft), ("x/2", TestedFigure::Ttft)];
        found.iter().for_each(|(upstream, figure)| metrics.regression(upstream, *figure));
        metrics.standing(found.iter().map(|(upstream, figure)| ((*upstream).to_owned(), *figure)).collect());
        let groq = "{upstream=\"groq/a\",figure=\"tpot\"}";
        let other = "{upstream=\"other\",figure=\"ttft\"}";
        assert_eq!(
            page(&metrics),
            [
                format!("photofinish_regressions{groq} 1"),
                format!("photofinish_regressions{other} 1"),
                format!("photofinish_regressions_total{groq} 1"),
                format!("photofinish_regressions_total{other} 2"),
            ]
        );
        metrics.standing([("x/2".to_owned(), TestedFigure::Ttft)].into());
        assert_eq!(
            page(&metrics)[..2],
            [format!("photofinish_regressions{groq} 0"), format!("photofinish_regressions{other} 1"),]
        );
        metrics.standing(CurrentRegressions::new());
        assert_eq!(page(&metrics)[1], format!("photofinish_regressions{other} 0"));
    }
}
