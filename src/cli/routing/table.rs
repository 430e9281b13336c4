//! The answer as text: per model the budget and a line per upstream, best first, with its reason; blocks of lines on a narrow
//! terminal. Then what the columns mean. Not for programs: they read the JSON.

use std::io;

use crate::cli::text::{
    GREEN, RED, YELLOW, clean, hanging, in_columns, or_dash, painted, room, write_paragraphs, write_wrapped,
};
use photofinish_config::{Policy, UpstreamOrder};
use photofinish_routing::status::{
    BreakerReport, CostUnit, ModelReport, PredictionReport, RoutingReport, StatusReason, UpstreamReport,
};

/// How much is shown.
#[derive(Clone, Copy)]
pub(super) struct Detail {
    /// Every column, and what extras may cost.
    pub wide: bool,
    /// What the columns mean.
    pub explain: bool,
    /// Times to whole answers are known of an upstream.
    pub whole: bool,
}

/// Whether times to whole answers are known of an upstream.
pub(super) fn has_whole(routing: &RoutingReport) -> bool {
    let predicted = routing.upstreams.iter().flat_map(|upstream| &upstream.predicted);
    predicted.into_iter().any(|predicted| predicted.whole_p50_ms.is_some())
}

/// The blank in front of a line.
const MARGIN: usize = 1;
/// Behind the name of the upstream and the sizes of prompts, before the reason.
const COLUMNS: [&str; 7] = ["now", "load", "TPOT", "seen", "running", "used", "state"];

/// Writes all of it. `width`: of the terminal, if it is for one; piped, each upstream is one line.
pub(super) fn write(
    routing: &RoutingReport,
    detail: Detail,
    width: Option<usize>,
    colour: bool,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let is_off = |model: &&ModelReport| model.why.iter().all(|reason| reason.code == "off");
    let off: Vec<&ModelReport> = routing.models.iter().filter(is_off).filter(|_| routing.models.len() > 1).collect();
    for model in routing.models.iter().filter(|model| !off.iter().any(|off| off.model == model.model)) {
        write_paragraphs(about(model, detail), width, out)?;
        let of = |reason: &StatusReason| routing.upstreams.iter().find(|known| known.upstream == reason.upstream);
        let rows: Vec<RoutingRow> =
            model.why.iter().filter_map(|reason| Some(RoutingRow::new(of(reason)?, Some(reason), detail))).collect();
        write_rows(&rows, width, colour, out)?;
        writeln!(out)?;
    }
    let others = routing.upstreams.iter().filter(|upstream| upstream.models.is_empty());
    let others: Vec<RoutingRow> = others.map(|upstream| RoutingRow::new(upstream, None, detail)).collect();
    if !others.is_empty() {
        write_paragraphs(["Upstreams that callers named themselves:".to_owned()], width, out)?;
        write_rows(&others, width, colour, out)?;
        writeln!(out)?;
    }
    if !off.is_empty() {
        let names: Vec<&str> = off.iter().map(|model| model.model.as_str()).collect();
        let off = format!("Off, because none of their providers is on: {}. More: --model NAME", names.join(", "));
        write_paragraphs([off], width, out)?;
        writeln!(out)?;
    }
    if routing.models.is_empty() && others.is_empty() {
        let nothing = "The configuration has no models, and no request has named an upstream yet.";
        return write_paragraphs([nothing.to_owned()], width, out);
    }
    write_paragraphs(notes(routing, detail), width, out)
}

/// The lines above the upstreams of a model.
fn about(model: &ModelReport, detail: Detail) -> Vec<String> {
    let alias = model.alias_of.as_ref().map(|of| format!(" (alias of {of})")).unwrap_or_default();
    let how = match Policy::from_name(&model.policy).map(Policy::order) {
        _ if model.learns => "",
        Some(UpstreamOrder::AllAtOnce) => "; it starts all at once, so the order decides nothing",
        Some(UpstreamOrder::Drawn) => "; it draws by weight, so the order decides nothing",
        Some(UpstreamOrder::Listed | UpstreamOrder::ByDelay | UpstreamOrder::Learned) | None => {
            "; it goes by the order of the configuration and not by this one"
        }
    };
    let mut lines = vec![format!("{}{alias}: policy {}, best {}{how}", model.model, model.policy, aim(model))];
    if let Some((extras, rescues)) = model.extras_share.zip(model.rescues_share) {
        let [extras, rescues] = [extras, rescues].map(|share| 100.0 * share);
        lines.push(format!("last hour: extras cost {extras:.1} % of single attempts, rescues {rescues:.1} %"));
    }
    if !detail.wide {
        return lines;
    }
    let amount = |value: f64| amount(value, model.unit);
    let money = match model.bucket {
        None => format!("budget {:.0} %: no cost is known yet", 100.0 * model.budget),
        Some(bucket) => format!(
            "budget {:.0} %: {} of {} to spend on extras; one of mean cost ({}) must save {:.0} ms (λ)",
            100.0 * model.budget,
            amount(bucket),
            amount(model.bucket_capacity),
            amount(model.mean_cost),
            model.lambda_ms,
        ),
    };
    lines.push(format!(
        "{money}; client TTFT p99 {:.0} ms, answers of {:.0} tokens",
        model.ttft_p99_ms, model.answer_tokens
    ));
    lines
}

fn aim(model: &ModelReport) -> &str {
    match model.optimise.as_str() {
        "auto" | "ttft" if model.whole_answers => "by time to the whole answer, which its clients wait for",
        "auto" => "by time to first token and 15 % of the rest",
        "ttft" => "by time to first token",
        "completion" => "by time to the whole answer",
        "goodput" => "by targets met",
        other => other,
    }
}

/// An upstream, in words.
struct RoutingRow {
    upstream: String,
    /// By size, then as in [`COLUMNS`], then why. Each with its head.
    cells: Vec<(String, String)>,
    colour: Option<&'static str>,
}

impl RoutingRow {
    fn new(upstream: &UpstreamReport, reason: Option<&StatusReason>, detail: Detail) -> RoutingRow {
        let whole = upstream.predicted.iter().filter(|_| detail.whole);
        let predicted = upstream.predicted.iter().map(|predicted| (head(predicted.input_tokens), ttft(predicted)));
        let predicted = predicted
            .chain(whole.map(|predicted| (format!("whole {}", head(predicted.input_tokens)), whole_answer(predicted))));
        let cells = [
            format!("×{:.2}", upstream.level_factor),
            format!("{:.2}", upstream.load_slope),
            or_dash(upstream.tpot_ms, |ms| format!("{} ms", digits(ms))),
            format!("{:.0}", upstream.samples),
            upstream.in_flight.to_string(),
            or_dash(upstream.last_observation_s, ago),
            state(upstream),
        ];
        let learnt = upstream.learnt.iter().map(|learnt| format!("; learnt: {learnt}")).collect::<String>();
        let refuses = upstream.refuses.iter().map(|refuses| format!("; {refuses}")).collect::<String>();
        let why = reason.map(|reason| ("why".to_owned(), clean(&format!("{}{refuses}{learnt}", reason.text))));
        let cells = COLUMNS.into_iter().map(str::to_owned).zip(cells).chain(why);
        let colour = match reason.map_or("", |reason| reason.code.as_str()) {
            "best" => Some(GREEN),
            "unknown" | "throttled" | "breaks" => Some(YELLOW),
            "off" | "breaker" | "cooling_down" | "unlisted" => Some(RED),
            _ => None,
        };
        let cells: Vec<(String, String)> = if detail.wide {
            predicted.chain(cells).collect()
        } else {
            let p50 = |head: &str, ms: fn(&PredictionReport) -> Option<f64>| {
                let p50 = upstream.predicted.first().and_then(ms);
                (head.to_owned(), or_dash(p50, |ms| format!("{} ms", digits(ms))))
            };
            let ttft = p50("TTFT p50", |predicted| predicted.ttft_p50_ms);
            let whole = detail.whole.then(|| p50("whole p50", |predicted| predicted.whole_p50_ms));
            let shown = cells.filter(|(head, _)| ["state", "why"].contains(&head.as_str()));
            [ttft].into_iter().chain(whole).chain(shown).collect()
        };
        RoutingRow { upstream: clean(&upstream.upstream), cells, colour }
    }
}

fn head(tokens: u32) -> String {
    if tokens >= 1_000 && tokens.is_multiple_of(1_000) { format!("{}k", tokens / 1_000) } else { tokens.to_string() }
}

fn ttft(predicted: &PredictionReport) -> String {
    times(predicted.ttft_p50_ms, predicted.ttft_p95_ms)
}

fn whole_answer(predicted: &PredictionReport) -> String {
    times(predicted.whole_p50_ms, predicted.whole_p95_ms)
}

fn times(p50_ms: Option<f64>, p95_ms: Option<f64>) -> String {
    or_dash(p50_ms, |p50_ms| format!("{} / {} ms", digits(p50_ms), or_dash(p95_ms, digits)))
}

fn state(upstream: &UpstreamReport) -> String {
    if !upstream.on {
        return "off".to_owned();
    }
    if let Some(wait) = upstream.cooling_down_s {
        return format!("cools {}", ago(wait));
    }
    match (upstream.breaker, upstream.breaker_wait_s, upstream.throttled) {
        (BreakerReport::Open, Some(wait), _) => format!("open {}", ago(wait)),
        (BreakerReport::Open, None, _) => "open".to_owned(),
        (BreakerReport::Due, ..) => "on trial".to_owned(),
        (BreakerReport::Closed, _, true) => "throttled".to_owned(),
        (BreakerReport::Closed, _, false) => "ok".to_owned(),
    }
}

fn write_rows(rows: &[RoutingRow], width: Option<usize>, colour: bool, out: &mut impl io::Write) -> io::Result<()> {
    let Some(first) = rows.first() else { return Ok(()) };
    let names = first.cells.iter().map(|(head, _)| head.clone());
    let head: Vec<String> = ["upstream".to_owned()].into_iter().chain(names).collect();
    let is_text = |column: usize| ["upstream", "state", "why"].contains(&head[column].as_str());
    let cells = |row: &RoutingRow| {
        let cells = row.cells.iter().map(|(_, cell)| cell.clone());
        [row.upstream.clone()].into_iter().chain(cells).collect()
    };
    let lines: Vec<Vec<String>> = [head.clone()].into_iter().chain(rows.iter().map(cells)).collect();
    let width = room(width);
    let Some(lines) = in_columns(&lines, width.saturating_sub(MARGIN), &is_text) else {
        return write_blocks(rows, width, colour, out);
    };
    let colours = rows.iter().map(|row| row.colour.filter(|_| colour));
    for (lines, colour) in lines.iter().zip([None].into_iter().chain(colours)) {
        lines.iter().try_for_each(|line| writeln!(out, "{}", painted(&format!(" {line}"), colour)))?;
    }
    Ok(())
}

/// The name, and below it the figures and the reason.
fn write_blocks(rows: &[RoutingRow], width: usize, colour: bool, out: &mut impl io::Write) -> io::Result<()> {
    for row in rows {
        for line in hanging(&row.upstream, width, "  ") {
            writeln!(out, "{}", painted(&line, row.colour.filter(|_| colour)))?;
        }
        let cells = row.cells.iter().filter(|(_, cell)| !cell.is_empty());
        let parts: Vec<String> = cells.map(|(head, cell)| format!("{head} {cell}")).collect();
        write_wrapped(&parts, "   ", "  ", width, out)?;
    }
    Ok(())
}

fn notes(routing: &RoutingReport, detail: Detail) -> Vec<String> {
    let whole = detail.whole.then_some(
        "whole 500, whole p50: the same of the time to the whole answer, which clients wait for that do not stream. now, load and seen are of it \
         where more was seen of it than of TTFT.",
    );
    let definitions = [
        "500, 2k, 8k: TTFT predicted for prompts of this many tokens, p50 / p95; –: too few samples.",
        "now: how much slower than usual it is at the moment. load: slope of ln TTFT over ln(1 + running).",
        "TPOT: usual time for each token after the first. running: attempts there now. used: time since then.",
        "seen: observations behind the predictions; old ones and early cancels count less.",
        "state: off: no key; cools: cooling down; open, on trial: its breaker; throttled: fails often, no hedges to it.",
        "why: for a prompt of 500 tokens. Those that cannot be asked are last.",
    ];
    let left_out = (routing.left_out > 0)
        .then(|| format!("Left out: {} more upstreams and models; ask with --model.", routing.left_out));
    let more = match (detail.wide, detail.explain) {
        (_, true) => None,
        (true, false) => Some("more: --explain".to_owned()),
        (false, false) => Some("Times are predicted for a prompt of 500 tokens; more: --wide, --explain".to_owned()),
    };
    let definitions = definitions.into_iter().chain(whole).filter(|_| detail.explain).map(str::to_owned);
    definitions.chain(left_out).chain(more).collect()
}

fn digits(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A length of time in its two largest digits or so.
fn ago(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6_000.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

fn amount(value: f64, unit: CostUnit) -> String {
    match unit {
        CostUnit::Tokens => format!("{value:.0} tokens"),
        CostUnit::Usd if value.abs() >= 1.0 => format!("${value:.2}"),
        CostUnit::Usd if value == 0.0 || value.abs() >= 0.01 => format!("${value:.4}"),
        CostUnit::Usd => format!("${}", format!("{value:.6}").trim_end_matches('0')),
    }
}
