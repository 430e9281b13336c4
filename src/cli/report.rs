//! `photofinish report`: what probes and benchmarks measured, as a page to publish. Not for the figures: see
//! `report::probes`.

mod page;
mod words;

use std::io;

use photofinish_base::clock::wall_micros;
use photofinish_config::config::Config;
use photofinish_history::report::probes::{self, ProbesQuestion};
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

/// `width`: of the terminal; none in a pipe.
pub fn run(
    config: &Config,
    options: &ReportOptions,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(out);
    let report = probes::ask(&StoreReader::open(&config.store.path)?, &options.question, config, wall_micros())?;
    if options.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        io::Write::write_all(&mut out, b"\n")?;
    } else if report.is_empty() {
        anyhow::bail!("{}", words::NOTHING);
    } else if options.html {
        page::write_html(words::TITLE, &words::page(&report), &mut out)?;
    } else if options.md {
        page::write_markdown(&words::page(&report), &mut out)?;
    } else {
        page::write_text(&words::page(&report), width, &mut out)?;
    }
    Ok(io::Write::flush(&mut out)?)
}

#[cfg(test)]
mod tests;
