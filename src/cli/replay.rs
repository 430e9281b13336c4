//! `photofinish replay`: the recorded history under another policy, next to the recorded result.
//!
//! Reads only the configuration and the database, so it needs no running gateway and sends nothing. Not for the estimate, which
//! is `replay`'s: here are the options and the output.

mod notes;
mod objects;
mod options;
mod report;
mod table;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::clock::wall_micros;
use crate::config::{Config, ModelConfig};
use crate::replay::{PastRequests, REQUESTS_MAX, replay};
use crate::report::question::time;
use crate::store::{RecordedFilter, StoreReader};

use super::text::write_paragraphs;

pub use options::ReplayOptions;
use report::Report;

/// Below the options in `--help`.
pub const EXAMPLES: &str = include_str!("help/replay.txt").trim_ascii_end();

/// Writes the table, or what programs read, to `out`, and how far it is to `err` if there is one. `width`: columns of the
/// terminal; none where it is piped.
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
    let wanted = options.wanted(config)?;
    let (mut pasts, cut) = read(config, wanted.as_ref(), options)?;
    let Some((model, mut past)) = most(&mut pasts) else {
        let what = wanted.map_or_else(|| "No requests".to_owned(), |model| format!("No requests for {}", model.name));
        let path = config.store.path.display();
        if options.json {
            return nothing(0, out);
        }
        return Ok(write_paragraphs([format!("{what} in {path}{}.", window(options))], width, out)?);
    };
    past.settle();
    let (plans, as_it_was) = options.plans(&model, &past);
    let mut progress = ProgressLine(err);
    let answer = replay(&past, &plans, options.seed, &mut |over, of| progress.tell(over, of));
    progress.end();
    let Some(answer) = answer else {
        let text = notes::nothing_to_tell(&model, &past);
        if options.json {
            return nothing(past.requests(), out);
        }
        return Ok(write_paragraphs([text], width, out)?);
    };
    let mut others: Vec<(String, usize)> = pasts
        .into_iter()
        .map(|(name, (_, past))| (name, past.requests()))
        .filter(|(_, requests)| *requests > 0)
        .collect();
    others.sort_unstable_by_key(|(_, requests)| std::cmp::Reverse(*requests));
    let report = Report { model: &model, past: &past, answer: &answer, options, cut, others: &others, as_it_was };
    if options.json {
        return objects::write(&report, out);
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

/// By name.
type PastsByModel = BTreeMap<String, (Arc<ModelConfig>, PastRequests)>;

/// The JSON without a report.
fn nothing(requests: usize, out: &mut impl io::Write) -> anyhow::Result<()> {
    Ok(writeln!(out, "{}", serde_json::json!({ "requests": requests }))?)
}

/// Of the wanted model, or of every one; and whether older requests of the window were left out.
fn read(
    config: &Config,
    wanted: Option<&Arc<ModelConfig>>,
    options: &ReplayOptions,
) -> anyhow::Result<(PastsByModel, bool)> {
    let now_us = wall_micros();
    let filter = RecordedFilter {
        since: options.since.map(|since| since.micros(now_us)),
        until: options.until.map(|until| until.micros(now_us)),
        model: None,
        newest: REQUESTS_MAX,
    };
    let models = config.models.values().filter(|model| wanted.is_none_or(|wanted| wanted.name == model.name));
    let mut pasts: PastsByModel =
        models.map(|model| (model.name.clone(), (model.clone(), PastRequests::new(model)))).collect();
    let mut requests = 0;
    StoreReader::open(&config.store.path)?.recorded(&filter, |recorded| {
        requests += 1;
        let model = config.model(&recorded.model);
        if let Some((_, past)) = model.and_then(|model| pasts.get_mut(&model.name)) {
            past.add(&recorded);
        }
    })?;
    Ok((pasts, requests >= REQUESTS_MAX))
}

/// The model with the most requests, taken out; none where none has one.
fn most(pasts: &mut PastsByModel) -> Option<(Arc<ModelConfig>, PastRequests)> {
    let most = pasts.iter().max_by_key(|(_, (_, past))| past.requests())?;
    let name = Some(most.0.clone()).filter(|_| most.1.1.requests() > 0)?;
    pasts.remove(&name)
}

fn window(options: &ReplayOptions) -> String {
    let now_us = wall_micros();
    let since = options.since.map(|since| format!(" since {}", time(since.micros(now_us))));
    let until = options.until.map(|until| format!(" before {}", time(until.micros(now_us))));
    let asked: String = [since, until].into_iter().flatten().collect();
    if asked.is_empty() { asked } else { format!(" begun{asked}") }
}

/// One line on a terminal, written over again and again.
struct ProgressLine<'a>(Option<&'a mut dyn io::Write>);

impl ProgressLine<'_> {
    fn tell(&mut self, over: usize, of: usize) {
        if let Some(err) = &mut self.0 {
            // Nobody is left to tell if standard error is closed.
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
