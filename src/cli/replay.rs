//! `photofinish replay`: the recorded history under another policy, next to the recorded result.
//!
//! Reads only the configuration and the database, so it needs no running gateway and sends nothing. Not for the estimate, which
//! is `replay`'s: here are the options and the output.

mod notes;
mod table;

use std::io;

use photofinish_base::clock::wall_micros;
use photofinish_config::Config;
use photofinish_history::report::question::time;
use photofinish_history::store::StoreReader;
use photofinish_lab::replay::{self, ReplayQuestion, ReplayedHistory, object};

use super::outcome::WrongUse;
use super::text::write_paragraphs;

/// Below the options in `--help`.
pub const EXAMPLES: &str = include_str!("help/replay.txt").trim_ascii_end();

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct ReplayOptions {
    #[command(flatten)]
    pub question: ReplayQuestion,
    /// Every figure with where it lies, and what is known of each upstream.
    #[arg(long, conflicts_with = "json")]
    pub wide: bool,
    /// How it is played, and what cannot be known.
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
    /// One object, for programs.
    #[arg(long)]
    pub json: bool,
}

/// Writes the table, or what programs read, to `out`, and how far it is to `err` if there is one. `width`: columns of the
/// terminal; None if it is piped.
///
/// # Errors
/// `WrongUse` for an unknown model; or when the database cannot be read or `out` not written.
pub fn run(
    config: &Config,
    options: &ReplayOptions,
    width: Option<usize>,
    out: &mut impl io::Write,
    err: Option<&mut dyn io::Write>,
) -> anyhow::Result<()> {
    let wanted = options.question.wanted(config).map_err(WrongUse)?;
    let reader = StoreReader::open(&config.store.address)?;
    let mut progress = ProgressLine(err);
    let asked = (options.question.clone(), wanted.as_ref());
    let answer = replay::ask(&reader, config, asked, wall_micros(), usize::MAX, &mut |over, of| {
        progress.show(over, of);
        true
    });
    progress.end();
    let report = match answer? {
        ReplayedHistory::Nothing if options.json => return nothing((0, 0), out),
        ReplayedHistory::Nothing => {
            let what =
                wanted.map_or_else(|| "No requests".to_owned(), |model| format!("No requests for {}", model.name));
            let store = &config.store.address;
            return Ok(write_paragraphs([format!("{what} in {store}{}.", window(options))], width, out)?);
        }
        ReplayedHistory::TooLittle { past, .. } if options.json => return nothing((past.requests(), past.plain), out),
        ReplayedHistory::TooLittle { model, past } => {
            return Ok(write_paragraphs([notes::too_little(&model, &past)], width, out)?);
        }
        ReplayedHistory::Played(report) => report,
    };
    if options.json {
        serde_json::to_writer_pretty(&mut *out, &object(&report)).map_err(io::Error::from)?;
        return Ok(writeln!(out)?);
    }
    if options.wide {
        table::write_wide(&report, width, out)?;
    } else {
        table::write(&report, width, out)?;
    }
    writeln!(out)?;
    let notes = if options.explain { notes::paragraphs(&report) } else { notes::brief(&report, options.wide) };
    Ok(write_paragraphs(notes, width, out)?)
}

/// The JSON without a report. `plain`: requests that were left out.
fn nothing((requests, plain): (usize, u64), out: &mut impl io::Write) -> anyhow::Result<()> {
    Ok(writeln!(out, "{}", serde_json::json!({ "requests": requests, "plain": plain }))?)
}

fn window(options: &ReplayOptions) -> String {
    let now_us = wall_micros();
    let since = options.question.since.map(|since| format!(" since {}", time(since.micros(now_us))));
    let until = options.question.until.map(|until| format!(" before {}", time(until.micros(now_us))));
    let asked: String = [since, until].into_iter().flatten().collect();
    if asked.is_empty() { asked } else { format!(" begun{asked}") }
}

/// One line on a terminal, written over again and again.
struct ProgressLine<'a>(Option<&'a mut dyn io::Write>);

impl ProgressLine<'_> {
    fn show(&mut self, over: usize, of: usize) {
        if let Some(err) = &mut self.0 {
            // Standard error may be closed.
            let _ = write!(err, "\rreplaying: {over} of {of}").and_then(|()| err.flush());
        }
    }

    fn end(&mut self) {
        if let Some(err) = &mut self.0 {
            let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
        }
    }
}

#[cfg(test)]
mod tests;
