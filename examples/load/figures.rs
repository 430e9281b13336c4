//! Quantiles and the printed table.

use std::io::{self, Write};
use std::time::Duration;

/// Durations in milliseconds, or other figures, for quantiles.
#[derive(Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    pub fn add(&mut self, value: Duration) {
        self.add_value(value.as_secs_f64() * 1e3);
    }

    pub fn add_value(&mut self, value: f64) {
        self.0.push(value);
    }

    /// `n`, p50, p90, p99 and the largest, in milliseconds.
    pub fn line(self) -> String {
        self.line_in("ms")
    }

    /// The same columns for figures in another unit.
    pub fn line_in(self, unit: &str) -> String {
        let n = self.0.len();
        let [p50, p90, p99, max] = self.quantiles();
        format!("p50 {p50:.3}  p90 {p90:.3}  p99 {p99:.3}  max {max:.3} {unit}  (n {n})")
    }

    /// p50, p90, p99 and the largest; NaN without values.
    pub fn quantiles(mut self) -> [f64; 4] {
        self.0.sort_unstable_by(f64::total_cmp);
        [0.5, 0.9, 0.99, 1.0].map(|q| {
            let rank = (self.0.len() as f64 * q).ceil() as usize;
            self.0.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
        })
    }
}

/// Names on the left, figures on the right.
#[derive(Default)]
pub struct Table(Vec<(String, String)>);

impl Table {
    pub fn row(&mut self, name: impl Into<String>, figure: impl Into<String>) {
        self.0.push((name.into(), figure.into()));
    }

    /// # Errors
    /// Standard output is closed.
    pub fn print(&self, title: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let width = self.0.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        writeln!(out, "{title}")?;
        for (name, figure) in &self.0 {
            writeln!(out, "  {name:width$}  {figure}")?;
        }
        Ok(())
    }
}
