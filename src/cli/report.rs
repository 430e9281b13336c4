//! `photofinish report`: what probes and benchmarks measured, as a page to publish. Not for the figures: see
//! `report::probes`.

mod judged;
mod page;
mod words;

use std::io;

use photofinish_base::clock::wall_micros;
use photofinish_config::Config;
use photofinish_history::report::probes::{self, ProbesQuestion};
use photofinish_history::report::verdicts;
use photofinish_history::store::StoreReader;

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
    let (reader, now_us) = (StoreReader::open(&config.store.address)?, wall_micros());
    let report = probes::ask(&reader, &options.question, config, now_us)?;
    // Its names are those of this configuration.
    let found = if options.question.public { Vec::new() } else { verdicts::ask(&reader)? };
    let judged =
        if options.question.public { Vec::new() } else { judged::ask(&reader, options.question.since, now_us)? };
    let page = || [words::page(&report), words::verified(&found, now_us), words::judged(&judged)].concat();
    if options.json {
        let verdicts = verdicts::json(&found, now_us)["verdicts"].take();
        let calls = judged.iter().map(judged::JudgedCalls::json).collect();
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

#[cfg(test)]
mod tests;
