//! The figures of all rounds with what they were measured on: as a table, and as a line of JSON to keep.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Photofinish,
    Nginx,
    /// The client asks the upstreams itself.
    Direct,
}

const COLUMNS: [(Column, &str); 3] =
    [(Column::Photofinish, "photofinish"), (Column::Nginx, "nginx"), (Column::Direct, "no proxy")];

pub struct Record {
    /// Date, commit, machine.
    circumstances: Value,
    /// In the order in which they came first.
    figures: Vec<Figure>,
    notes: Vec<String>,
}

struct Figure {
    name: &'static str,
    /// The value of each round, by column.
    values: [Vec<f64>; 3],
}

impl Record {
    pub fn new() -> anyhow::Result<Record> {
        let read = |path: &str| std::fs::read_to_string(path).with_context(|| path.to_owned());
        let cpuinfo = read("/proc/cpuinfo")?;
        let models: Vec<_> = cpuinfo.lines().filter_map(|line| line.strip_prefix("model name")).collect();
        let model = models.first().map_or("unknown", |model| model.trim_start_matches([' ', '\t', ':']));
        let circumstances = json!({
            "date": jiff::Timestamp::now().to_string(),
            "commit": said_by("git", &["rev-parse", "--short", "HEAD"]),
            "rustc": said_by("rustc", &["--version"]),
            "cpu": model,
            "cores": models.len(),
            "kernel": read("/proc/sys/kernel/osrelease")?.trim(),
            "load_before": read("/proc/loadavg")?.split(' ').next(),
        });
        Ok(Record { circumstances, figures: Vec::new(), notes: Vec::new() })
    }

    pub fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    pub fn add(&mut self, name: &'static str, column: Column, value: f64) {
        let at = self.figures.iter().position(|figure| figure.name == name).unwrap_or_else(|| {
            self.figures.push(Figure { name, values: Default::default() });
            self.figures.len() - 1
        });
        self.figures[at].values[column as usize].push(value);
    }

    /// The median of the rounds, and their range.
    pub fn print(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}\n", self.circumstances)?;
        for note in &self.notes {
            writeln!(out, "{note}\n")?;
        }
        let names = COLUMNS.map(|(_, name)| name).join(" | ");
        writeln!(out, "| median (lowest to highest round) | {names} |\n| --- | --- | --- | --- |")?;
        for figure in &self.figures {
            let cells = COLUMNS.map(|(column, _)| cell(&figure.values[column as usize]));
            writeln!(out, "| {} | {} |", figure.name, cells.join(" | "))?;
        }
        Ok(())
    }

    pub fn append(&self, path: &Path) -> anyhow::Result<()> {
        let mut line = self.circumstances.clone();
        for figure in &self.figures {
            for (column, name) in COLUMNS {
                let values: Vec<f64> =
                    figure.values[column as usize].iter().map(|value| six_decimals(*value)).collect();
                if !values.is_empty() {
                    line["figures"][figure.name][name] = json!(values);
                }
            }
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(writeln!(file, "{line}")?)
    }
}

fn cell(values: &[f64]) -> String {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    match values[..] {
        [] => "–".to_owned(),
        [one] => digits(one),
        [least, .., most] => {
            format!("**{}** ({} to {})", digits(values[values.len() / 2]), digits(least), digits(most))
        }
    }
}

fn six_decimals(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Three significant digits.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// The output of a program, or "unknown" where it is missing.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text =
        output.ok().filter(|output| output.status.success()).and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}
