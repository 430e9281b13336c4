//! `photofinish stats --compare` in words: how long each upstream alone would have taken, and what racing gained.
//!
//! Not for the figures: `report::compare`.

use std::io;

use crate::cli::sheet::{Sheet, SheetCell};
use crate::cli::text::{counted, or_dash, write_paragraph as paragraph};
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::estimate::interval::RankedQuantile;
use photofinish_history::report::compare::{Comparison, GainVerdict, ModelComparison, UpstreamComparison};

/// A table of all models, and a line for each of what racing gained.
pub(super) fn write(
    answer: &Comparison,
    explain: bool,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    if answer.models.is_empty() {
        return paragraph(
            "Nothing to compare: no looks. Under `adaptive` and `race` some requests look at one upstream of their model, if it has \
             several; elsewhere set `look` under [race].",
            width,
            out,
        );
    }
    let rows = answer.models.iter().flat_map(|model| model.upstreams.iter().map(move |one| row(model, one)));
    let heads =
        ["model", "upstream", "looks", "p50 ms", "between", "p95 ms", "between", "failed", "not started", "$ of 1,000"];
    let sheet = Sheet { heads: heads.map(str::to_owned).into(), names: 2, rows: rows.collect() };
    sheet.write(width, out)?;
    writeln!(out)?;
    for model in &answer.models {
        paragraph(&gained(model), width, out)?;
    }
    if explain {
        paragraph(
            &format!(
                "How long each upstream alone would have taken for the requests that its model got, at their moments: from looks, each \
                 weighed by how likely it was, and brought to the sizes of all requests (docs/measurement.md, Comparisons). Between: the \
                 bounds of 95 %. A median needs the worth of {} equal looks, a 95th percentile of {}; one is worth up to three. Not \
                 started: its breaker was open, it cooled down, or the budget was used up. $ of 1,000: what a thousand of the model's own \
                 requests would cost there, by today's prices.",
                ModelComparison::needed(0),
                ModelComparison::needed(1)
            ),
            width,
            out,
        )?;
    }
    Ok(())
}

fn row(model: &ModelComparison, one: &UpstreamComparison) -> Vec<SheetCell> {
    let [p50, p95] = &one.ttft;
    let text = |quantile: &Option<RankedQuantile>| or_dash(quantile.as_ref(), |quantile| ms(quantile.value));
    let bounds = |quantile: &Option<RankedQuantile>| {
        or_dash(quantile.as_ref(), |quantile| format!("{}-{}", ms(quantile.low), ms(quantile.high)))
    };
    let cells = [
        model.model.clone(),
        one.upstream.clone(),
        one.looks.to_string(),
        text(p50),
        bounds(p50),
        text(p95),
        bounds(p95),
        one.failed.to_string(),
        one.out.to_string(),
        or_dash(one.mix_usd, |usd| Cost::exactly(1e3 * usd).to_string()),
    ];
    cells.map(SheetCell::from).into()
}

fn gained(model: &ModelComparison) -> String {
    let few = |one: &UpstreamComparison, place: usize| {
        let needs = ModelComparison::needed(place);
        format!("{} has {}, and {needs} of each are needed", one.upstream, counted(one.looks as u64, "look"))
    };
    let Some(best) = model.best() else {
        let why = model.least_known(0).map_or_else(|| "none could be asked".to_owned(), |one| few(one, 0));
        return format!("{}: the best cannot be named yet: {why}.", model.model);
    };
    let of = |place: usize, name: &str| {
        let Some(gain) = model.gain(place) else {
            let why = model
                .least_known(place)
                .map_or_else(|| "too few requests of clients".to_owned(), |one| few(one, place));
            return format!("at {name} it is not known yet: {why}");
        };
        let (verdict, [value, low, high]) = match model.verdict(place) {
            GainVerdict::Gained => ("racing gained", [gain.value, gain.low, gain.high]),
            GainVerdict::Lost => ("racing lost", [-gain.value, -gain.high, -gain.low]),
            GainVerdict::Unknown => {
                let (low, high) = (ms(-gain.low), ms(gain.high));
                return format!("at {name} it is not known yet: between {low} ms lost and {high} ms gained");
            }
        };
        format!("at {name} {verdict} {} ms ({} to {})", ms(value), ms(low), ms(high))
    };
    let (p50, p95) = (of(0, "p50"), of(1, "p95"));
    format!("{}: against the best alone ({} at p50), {p50}; {p95}.", model.model, best.upstream)
}

fn ms(us: f64) -> String {
    format!("{:.0}", us / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::text::joined;

    fn ranked(value: f64, low: f64, high: f64) -> Option<RankedQuantile> {
        Some(RankedQuantile { value: 1e3 * value, low: 1e3 * low, high: 1e3 * high })
    }

    fn model(clients: [Option<RankedQuantile>; 2]) -> ModelComparison {
        let of = |upstream: &str, looks, ttft| UpstreamComparison {
            upstream: upstream.into(),
            looks,
            ttft,
            ..Default::default()
        };
        let quick = of("groq/m", 180, [ranked(203.0, 190.0, 220.0), ranked(1_364.0, 900.0, 2_100.0)]);
        let quick = UpstreamComparison { mix_usd: Some(0.000_4), ..quick };
        let rare = UpstreamComparison { failed: 1, out: 2, ..of("slow/m", 5, [None, None]) };
        let alone = [quick.ttft[0], None];
        ModelComparison { model: "m".into(), upstreams: vec![quick, rare], alone, clients, clients_n: 600, mix_n: 600 }
    }

    fn written(models: Vec<ModelComparison>) -> String {
        let mut out = Vec::new();
        write(&Comparison { models }, false, Some(100), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_gain_is_said_only_against_the_best_of_all_and_beyond_chance() {
        let clients = [ranked(150.0, 148.0, 152.0), ranked(1_300.0, 1_250.0, 1_350.0)];
        let expected = " model  upstream  looks  p50 ms  between  p95 ms   between  failed  not started  $ of 1,000
 m      groq/m      180     203  190-220    1364  900-2100       0            0       $0.40
 m      slow/m        5       –        –       –         –       1            2           –

m: the best cannot be named yet: slow/m has 5 looks, and 6 of each are needed.
";
        assert_eq!(written(vec![model(clients)]), expected);
        let with = |median, clients| {
            let mut of = model(clients);
            of.upstreams[1].ttft[0] = median;
            written(vec![of])
        };
        let known = ranked(400.0, 300.0, 500.0);
        for (clients, expected) in [
            (
                clients,
                "against the best alone (groq/m at p50), at p50 racing gained 53 ms (40 to 70); at p95 it is not \
                       known yet: slow/m has 5 looks, and 72 of each are needed.",
            ),
            ([ranked(300.0, 290.0, 310.0), None], "at p50 racing lost 97 ms (77 to 113); at p95 it is not known yet"),
            ([ranked(200.0, 190.0, 210.0), None], "at p50 it is not known yet: between 13 ms lost and 23 ms gained;"),
        ] {
            let said = joined(&with(known, clients));
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn without_looks_it_says_how_to_get_them() {
        assert!(joined(&written(Vec::new())).contains("set `look` under [race]"));
        let mut few = model([None, None]);
        few.upstreams.remove(0);
        assert!(written(vec![few]).contains("6 of each are needed"));
    }
}
