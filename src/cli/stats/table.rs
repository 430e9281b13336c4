//! The figures as a table: the few that fit a laptop, or all of them. They are as asked, so none is called the best.
//!
//! Not for the notes below it, nor for the figures: see `report::figures`.

use crate::cli::sheet::Sheet;
use crate::cli::text::{clean, mark, millis, or_dash};
use photofinish_facts::estimate::survival::Estimate;
use photofinish_history::report::dimension::Dimension;
use photofinish_history::report::figures::{ColumnUse, FIGURES, FigureCell, FigureColumn, GroupFigures, column};

/// The table that fits 80 columns. Where nothing streams, it has the times to whole plain answers instead of TTFT.
pub(super) fn brief(by: &[Dimension], groups: &[&GroupFigures]) -> Sheet {
    let (p50, p95) = match groups.iter().all(|figures| figures.ttft.is_empty()) && has_whole(groups) {
        true => (("whole p50", "whole_p50_ms"), ("p95", "whole_p95_ms")),
        false => (("TTFT p50", "ttft_p50_ms"), ("p95", "ttft_p95_ms")),
    };
    let columns = [
        ("n", "attempts"),
        ("won %", "wins"),
        p50,
        p95,
        ("tok/s", "tok_s_p50"),
        ("failed %", "failures"),
        ("cost", "cost_usd_min"),
    ];
    let mut sheet = empty_sheet(by, groups);
    for (head, figure) in columns {
        let Some(column) = column(figure) else { continue };
        sheet.heads.push(head.to_owned());
        for (row, figures) in sheet.rows.iter_mut().zip(groups) {
            row.push(brief_text(&(column.cell)(figures)).into());
        }
    }
    sheet
}

/// The table of everything.
pub(super) fn wide(by: &[Dimension], groups: &[&GroupFigures]) -> Sheet {
    let is_shown = |column: &FigureColumn| match column.when {
        ColumnUse::Always => true,
        ColumnUse::Whole => has_whole(groups),
        ColumnUse::Judged => groups.iter().any(|figures| figures.judged[0] > 0),
        ColumnUse::Clients => !by.contains(&Dimension::Upstream),
    };
    let mut sheet = empty_sheet(by, groups);
    for column in FIGURES.iter().filter_map(|figure| figure.column).filter(is_shown) {
        sheet.heads.push(column.head.to_owned());
        for (row, figures) in sheet.rows.iter_mut().zip(groups) {
            row.push(wide_text(&(column.cell)(figures)).into());
        }
    }
    sheet
}

/// With the names of the groups only.
fn empty_sheet(by: &[Dimension], groups: &[&GroupFigures]) -> Sheet {
    let names = |figures: &&GroupFigures| figures.keys.iter().map(|key| clean(&key.text()).into()).collect();
    let heads = by.iter().map(|dimension| dimension.as_str().to_owned()).collect();
    Sheet { heads, names: by.len(), rows: groups.iter().map(names).collect() }
}

/// Whether any attempt was asked for a plain answer.
fn has_whole(groups: &[&GroupFigures]) -> bool {
    groups.iter().any(|figures| !figures.whole.is_empty())
}

fn brief_text(cell: &FigureCell) -> String {
    match *cell {
        FigureCell::Part(count, of) => percent(count, of),
        FigureCell::Time(at, firmness) => time_text(at, mark(firmness.effective, firmness.share), brief_time),
        FigureCell::TokensPerSecond(value, firmness) => or_dash(value, |tok_s| {
            let decimals = if tok_s < 99.95 { 1 } else { 0 };
            format!("{}{tok_s:.decimals$}", mark(firmness.effective, firmness.share))
        }),
        _ => wide_text(cell),
    }
}

fn wide_text(cell: &FigureCell) -> String {
    match *cell {
        FigureCell::Count(count) => count.to_string(),
        FigureCell::Part(count, of) => match (100 * count + of / 2).checked_div(of) {
            Some(percent) if count > 0 => format!("{count} ({percent} %)"),
            _ => count.to_string(),
        },
        FigureCell::Time(at, firmness) => time_text(at, mark(firmness.effective, firmness.share), millis),
        FigureCell::TokensPerSecond(value, firmness) => {
            or_dash(value, |tok_s| format!("{}{tok_s:.1}", mark(firmness.effective, firmness.share)))
        }
        FigureCell::Share(share) => or_dash(share, |share| format!("{:.0} %", 100.0 * share)),
        FigureCell::ShareWithin(share) => or_dash(share, |[share, low, high]| {
            format!("{:.1} % ({:.1}–{:.1})", 100.0 * share, 100.0 * low, 100.0 * high)
        }),
        FigureCell::PerSecond(rate) => or_dash(rate, per_second),
        FigureCell::Cost(cost) => cost.to_string(),
        FigureCell::Mostly(size) => or_dash(size, |(name, share)| format!("{name} ({:.0} %)", 100.0 * share)),
    }
}

fn time_text(at: Option<Estimate>, mark: &str, text: fn(i64) -> String) -> String {
    or_dash(at, |at| match at {
        Estimate::Reached(us) if us < 0 => format!("{mark}−{}", text(-us)),
        Estimate::Reached(us) => format!("{mark}{}", text(us)),
        Estimate::NotReached { over_us } => format!("> {}", text(over_us)),
    })
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

/// Requests per second, to three digits.
fn per_second(rate: f64) -> String {
    if rate <= 0.0 {
        return "0/s".to_owned();
    }
    let decimals = (2.0 - rate.log10().floor()).clamp(1.0, 9.0) as usize;
    format!("{rate:.decimals$}/s")
}
