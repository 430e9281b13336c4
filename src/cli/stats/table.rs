//! The figures as a table: the few that fit a laptop, or all of them.
//!
//! Not for the notes below it.

use super::standing::standings;
use crate::cli::sheet::{Sheet, SheetCell};
use crate::cli::text::{brief_dollars, clean, dollars, mark, millis, or_dash};
use photofinish_history::estimate::survival::Estimate;
use photofinish_history::report::dimension::Dimension;
use photofinish_history::report::figures::{
    GAIN_SHARES, GroupFigures, RacingGain, TOK_S_SHARES, TTFT_SHARES, TimeFigures,
};

const ATTEMPTS: [&str; 5] = ["attempts", "wins", "failures", "empty", "censored"];
const TTFT: [&str; 4] = ["TTFT p50", "TTFT p95", "TTFT p99", "TTFT n"];
/// Only where there are plain attempts.
const WHOLE: [&str; 4] = ["whole p50", "whole p95", "whole p99", "whole n"];
const TOK_S: [&str; 4] = ["tok/s p50", "tok/s p5", "TPOT p95", "tok/s n"];
const REQUESTS: [&str; 5] = ["requests", "attained", "goodput", "cost", "extra"];
/// For groups of several upstreams.
const GAINS: [&str; 4] = ["client p50", "client p95", "gain p50", "gain p95"];

/// The table that fits 80 columns. `colour`: paint the best and the worst of each column. Where nothing streams, the times to whole
/// plain answers stand in place of TTFT.
pub(super) fn brief(by: &[Dimension], groups: &[&GroupFigures], colour: bool) -> Sheet {
    let shows_gain = groups.iter().any(|figures| figures.gain.is_some());
    let won = if shows_gain { "gain p50" } else { "won %" };
    let shows_whole = groups.iter().all(|figures| figures.ttft.is_empty()) && has_whole(groups);
    let heads = ["n", won, if shows_whole { "whole p50" } else { "TTFT p50" }, "p95", "tok/s", "failed %", "cost"];
    let cells = |figures: &&GroupFigures| {
        names(figures).chain(brief_cells(figures, figures.times(shows_whole), shows_gain)).collect()
    };
    let mut rows: Vec<Vec<SheetCell>> = groups.iter().map(cells).collect();
    if colour {
        for (place, standing) in standings(groups, shows_whole) {
            for (row, standing) in rows.iter_mut().zip(standing) {
                row[by.len() + place].colour = standing.colour();
            }
        }
    }
    Sheet { heads: with_names(by, &heads), names: by.len(), rows }
}

/// The table of everything.
pub(super) fn wide(by: &[Dimension], groups: &[&GroupFigures]) -> Sheet {
    let shows_whole = has_whole(groups);
    let whole = if shows_whole { &WHOLE[..] } else { &[] };
    let mut heads = [&ATTEMPTS[..], &TTFT, whole, &TOK_S, &REQUESTS].concat();
    let shows_gains = !by.contains(&Dimension::Upstream);
    if shows_gains {
        heads.extend(GAINS);
    }
    let cells = |figures: &&GroupFigures| {
        let gains = if shows_gains { gains(figures) } else { Vec::new() };
        names(figures).chain(cells(figures, shows_whole).into_iter().chain(gains).map(SheetCell::from)).collect()
    };
    Sheet { heads: with_names(by, &heads), names: by.len(), rows: groups.iter().map(cells).collect() }
}

/// Whether any attempt was asked for a plain answer.
fn has_whole(groups: &[&GroupFigures]) -> bool {
    groups.iter().any(|figures| !figures.whole.is_empty())
}

fn with_names(by: &[Dimension], heads: &[&str]) -> Vec<String> {
    by.iter().map(|dimension| dimension.name()).chain(heads.iter().copied()).map(str::to_owned).collect()
}

fn names(figures: &GroupFigures) -> impl Iterator<Item = SheetCell> {
    figures.keys.iter().map(|key| SheetCell::from(clean(&key.text())))
}

fn brief_cells(figures: &GroupFigures, times: &TimeFigures, shows_gain: bool) -> Vec<SheetCell> {
    let [p50, p95, _] = times.at;
    let time = |p: f64, estimate: Option<Estimate>| match estimate {
        None => "–".to_owned(),
        Some(Estimate::Reached(us)) => format!("{}{}", mark(times.effective, p), brief_time(us)),
        Some(Estimate::NotReached { over_us }) => format!("> {}", brief_time(over_us)),
    };
    let median_gain = figures.gain.as_ref().and_then(|gains| gains[0].as_ref());
    let won = if shows_gain { gain(figures, median_gain, 0.5) } else { percent(figures.wins, figures.attempts) };
    let tok_s = or_dash(figures.tok_s[0], |tok_s| {
        let decimals = if tok_s < 99.95 { 1 } else { 0 };
        format!("{}{tok_s:.decimals$}", mark(figures.tok_s_effective, 0.5))
    });
    let cells = [
        figures.attempts.to_string(),
        won,
        time(0.5, p50),
        time(0.95, p95),
        tok_s,
        percent(figures.failures, figures.attempts),
        brief_dollars(&figures.cost),
    ];
    cells.map(SheetCell::from).to_vec()
}

/// Without the sign, which is in the head.
fn percent(count: u64, of: u64) -> String {
    match 100.0 * count as f64 / of.max(1) as f64 {
        share if count > 0 && share < 0.95 => format!("{share:.1}"),
        share => format!("{:.0}", share.round()),
    }
}

/// To three digits or so.
fn brief_time(us: i64) -> String {
    match us as f64 / 1e6 {
        s if s < 0.9995 => millis(us),
        s if s < 9.995 => format!("{s:.2} s"),
        s => format!("{s:.1} s"),
    }
}

/// In the order of the heads, [`GAINS`] apart.
fn cells(figures: &GroupFigures, shows_whole: bool) -> Vec<String> {
    let share = |count: u64| match (100 * count + figures.attempts / 2).checked_div(figures.attempts) {
        Some(percent) if count > 0 => format!("{count} ({percent} %)"),
        _ => count.to_string(),
    };
    let whole = shows_whole.then(|| time_cells(&figures.whole)).into_iter().flatten();
    let samples = figures.tok_s_effective;
    let tok_s = TOK_S_SHARES.iter().zip(figures.tok_s).map(|(p, value)| match value {
        None => "–".to_owned(),
        Some(tok_s) => format!("{}{tok_s:.1}", mark(samples, *p)),
    });
    let tpot = or_dash(figures.tpot_p95_ms, |ms| format!("{}{}", mark(samples, 0.95), millis((ms * 1e3) as i64)));
    let counts = [figures.wins, figures.failures, figures.empty, figures.censored].map(share);
    let requests = [
        figures.requests.to_string(),
        or_dash(figures.attainment, |share| format!("{:.0} %", 100.0 * share)),
        or_dash(figures.goodput, rate),
        dollars(&figures.cost),
        dollars(&figures.extra_cost),
    ];
    let attempts = [figures.attempts.to_string()].into_iter().chain(counts);
    let tok_s = tok_s.chain([tpot, figures.tok_s_samples.to_string()]);
    attempts.chain(time_cells(&figures.ttft)).chain(whole).chain(tok_s).chain(requests).collect()
}

/// The quantiles, and how many times were seen.
fn time_cells(times: &TimeFigures) -> impl Iterator<Item = String> {
    let quantiles = TTFT_SHARES.iter().zip(times.at).map(|(p, estimate)| match estimate {
        None => "–".to_owned(),
        Some(Estimate::Reached(us)) => format!("{}{}", mark(times.effective, *p), millis(us)),
        Some(Estimate::NotReached { over_us }) => format!("> {}", millis(over_us)),
    });
    quantiles.chain([times.samples.to_string()])
}

/// What streaming clients saw, and how much later the best upstream alone would have been.
fn gains(figures: &GroupFigures) -> Vec<String> {
    let firm = |p: f64| mark(figures.client_ttft_effective, p);
    let seen = GAIN_SHARES.iter().zip(figures.client_ttft_ms);
    let seen = seen.map(|(p, ms)| or_dash(ms, |ms| format!("{}{}", firm(*p), millis((ms * 1e3) as i64))));
    let gains = GAIN_SHARES.iter().enumerate();
    let gains = gains.map(|(place, p)| {
        let known = figures.gain.as_ref().and_then(|gains| gains[place].as_ref());
        gain(figures, known, *p)
    });
    seen.chain(gains).collect()
}

fn gain(figures: &GroupFigures, gain: Option<&RacingGain>, p: f64) -> String {
    or_dash(gain, |gain| {
        let sign = if gain.gain_ms < 0.0 { "−" } else { "" };
        let weaker = figures.client_ttft_effective.min(gain.effective);
        format!("{}{sign}{}", mark(weaker, p), millis((gain.gain_ms.abs() * 1e3) as i64))
    })
}

/// Requests per second, to three digits.
fn rate(per_second: f64) -> String {
    if per_second <= 0.0 {
        return "0/s".to_owned();
    }
    let decimals = (2.0 - per_second.log10().floor()).clamp(1.0, 9.0) as usize;
    format!("{per_second:.decimals$}/s")
}
