//! Computes the figure of each step from its data.
//!
//! Not for gathering.

use super::gather::{GatheredLine, GatheredSeries};
use super::{Metric, PointPlace, SERIES_MAX, SeriesLine, SeriesPoint, SeriesQuestion, SeriesReport};
use crate::history::ShortBytes;
use crate::history::class::Concurrency;
use crate::history::summary::Summary;
use crate::history::survival::{Estimate, is_firm};

/// Fills in the lines, and what they leave out.
///
/// # Errors
/// When a stored summary is damaged.
pub(super) fn fill(
    series: &mut SeriesReport,
    gathered: GatheredSeries<'_>,
    question: &SeriesQuestion,
) -> Result<(), ShortBytes> {
    let mut lines: Vec<_> = gathered.into_lines().filter(|(_, line)| line.attempts > 0).collect();
    lines.sort_by(|(a, a_line), (b, b_line)| b_line.attempts.cmp(&a_line.attempts).then_with(|| a.cmp(b)));
    let left_out = lines.split_off(lines.len().min(SERIES_MAX));
    series.left_out = (left_out.len(), left_out.iter().map(|(_, line)| line.attempts).sum());
    lines.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, line) in lines {
        let (attempts, points) = (line.attempts, points(series, line, question)?);
        series.lines.push(SeriesLine { name, attempts, points });
    }
    Ok(())
}

fn points(
    series: &mut SeriesReport,
    line: GatheredLine,
    question: &SeriesQuestion,
) -> Result<Vec<SeriesPoint>, ShortBytes> {
    let mut points = Vec::new();
    for (at, step) in line.steps {
        let (place, seconds) = match series.every_us {
            None => (PointPlace::Class(Concurrency::at(at as u8)), seconds(series.span_us, i64::MIN, i64::MAX)),
            Some(every_us) => {
                series.whole_hours += usize::from(step.cell_span_us > every_us);
                let whole_us = every_us.max(step.cell_span_us);
                let seconds = seconds(series.span_us, at, at.saturating_add(whole_us));
                (PointPlace::Time { start_us: at, span_us: (seconds * 1e6).round() as i64 }, seconds)
            }
        };
        let summary = step.summary()?;
        if summary.attempts == 0 {
            continue;
        }
        series.without_speed += summary.without_speed();
        if question.metric == Metric::Goodput {
            series.without_verdict += summary.requests.judged(&question.slo()).unknown;
        }
        points.push(point(question, place, &summary, seconds));
    }
    Ok(points)
}

/// The part of the step that is within the window.
fn seconds((from_us, until_us): (i64, i64), start_us: i64, end_us: i64) -> f64 {
    (end_us.min(until_us) - start_us.max(from_us)).max(0) as f64 / 1e6
}

fn point(question: &SeriesQuestion, place: PointPlace, summary: &Summary, seconds: f64) -> SeriesPoint {
    let p = question.quantile().unwrap_or(0.5);
    let bare = SeriesPoint { place, value: None, over: None, samples: 0, firm: true, cost: None };
    match question.metric {
        Metric::Ttft => {
            let estimate = summary.ttft.survival().quantile(p);
            SeriesPoint {
                value: estimate.and_then(Estimate::reached).map(|us| us as f64 / 1e3),
                over: match estimate {
                    Some(Estimate::NotReached { over_us }) => Some(over_us as f64 / 1e3),
                    _ => None,
                },
                samples: summary.ttft.seen,
                firm: is_firm(summary.ttft.effective(), p),
                ..bare
            }
        }
        Metric::ClientTtft => {
            let ([us], samples) = (summary.client_ttft.quantiles([p]), summary.client_ttft.count);
            SeriesPoint { value: us.map(|us| us as f64 / 1e3), samples, firm: is_firm(samples as f64, p), ..bare }
        }
        Metric::TokS => {
            let ([ns], samples) = (summary.tpot.quantiles_from_above([p]), summary.tpot.count);
            SeriesPoint { value: ns.map(|ns| 1e9 / ns as f64), samples, firm: is_firm(samples as f64, p), ..bare }
        }
        Metric::Goodput => {
            let judged = summary.requests.judged(&question.slo());
            let requests = judged.met + judged.missed;
            let rate = Some(judged.met / seconds).filter(|rate| requests > 0.0 && rate.is_finite());
            SeriesPoint { value: rate, samples: requests.round() as u64, ..bare }
        }
        Metric::Failures => {
            let samples = summary.attempts;
            let share = summary.failed() as f64 / samples as f64;
            SeriesPoint { value: Some(share), samples, firm: is_firm(samples as f64, 0.5), ..bare }
        }
        Metric::Cost => {
            SeriesPoint { value: summary.cost.usd(), samples: summary.attempts, cost: Some(summary.cost), ..bare }
        }
    }
}
