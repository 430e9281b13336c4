//! `photofinish report`: what probes and benchmarks measured, as a page to publish. Not for the figures: see
//! `report::probes`.

mod page;
mod words;

use std::io;

use serde_json::json;

use photofinish_base::clock::wall_micros;
use photofinish_config::config::Config;
use photofinish_history::report::figures::GroupFigures;
use photofinish_history::report::probes::{self, ProbesQuestion};
use photofinish_history::report::question::TimePoint;
use photofinish_history::report::stats::{self, StatsQuestion};
use photofinish_history::report::verdicts;
use photofinish_history::store::{ReadError, StoreReader};

pub const EXAMPLES: &str = include_str!("help/report.txt").trim_ascii_end();

/// The options of the command.
#[derive(clap::Args, Clone, Debug)]
pub struct ReportOptions {
    #[command(flatten)]
    pub question: ProbesQuestion,
    /// Markdown, for files: its lines are as long as they are.
    #[arg(long, conflicts_with_all = ["html", "json"])]
    md: bool,
    /// One HTML file with charts, without scripts.
    #[arg(long, conflicts_with = "json")]
    html: bool,
    /// The same figures for programs.
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct WithVerdicts<'a> {
    #[serde(flatten)]
    report: &'a probes::ProbeReport,
    verdicts: serde_json::Value,
    calls: Vec<serde_json::Value>,
}

/// `width`: of the terminal; none in a pipe.
pub fn run(
    config: &Config,
    options: &ReportOptions,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(out);
    let (reader, now_us) = (StoreReader::open(&config.store.path)?, wall_micros());
    let report = probes::ask(&reader, &options.question, config, now_us)?;
    // Its names are those of this configuration.
    let found = if options.question.public { Vec::new() } else { verdicts::ask(&reader)? };
    let judged = if options.question.public { Vec::new() } else { judged(&reader, options.question.since, now_us)? };
    let page = || [words::page(&report), words::verified(&found, now_us), words::judged(&judged)].concat();
    if options.json {
        let verdicts = verdicts::json(&found, now_us)["verdicts"].take();
        let calls = judged.iter().map(JudgedCalls::json).collect();
        serde_json::to_writer_pretty(&mut out, &WithVerdicts { report: &report, verdicts, calls })?;
        io::Write::write_all(&mut out, b"\n")?;
    } else if report.is_empty() && found.is_empty() && judged.is_empty() {
        anyhow::bail!("{}", words::NOTHING);
    } else if options.html {
        page::write_html(words::TITLE, &page(), &mut out)?;
    } else if options.md {
        page::write_markdown(&page(), &mut out)?;
    } else {
        page::write_text(&page(), width, &mut out)?;
    }
    Ok(io::Write::flush(&mut out)?)
}

/// The checked answers of one upstream, of clients.
struct JudgedCalls {
    upstream: String,
    judged: u64,
    broken: u64,
    /// The share that is broken, with its 95 % bounds.
    share: [f64; 3],
}

impl JudgedCalls {
    fn json(&self) -> serde_json::Value {
        let [share, low, high] = self.share;
        json!({ "upstream": self.upstream, "judged": self.judged, "broken": self.broken, "broken_share": share,
            "broken_share_min": low, "broken_share_max": high })
    }
}

/// Upstreams of which some answer to tools or a schema was checked.
fn judged(reader: &StoreReader, since: TimePoint, now_us: i64) -> Result<Vec<JudgedCalls>, ReadError> {
    let stats = stats::ask(reader, &StatsQuestion::by_upstream(since), now_us)?;
    let one = |figures: &GroupFigures| {
        let (share, [judged, broken]) = (figures.broken_share()?, figures.judged);
        Some(JudgedCalls { upstream: figures.keys.first()?.text(), judged, broken, share })
    };
    Ok(stats.groups.iter().filter_map(one).collect())
}

#[cfg(test)]
mod tests;
