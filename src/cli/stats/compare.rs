//! `photofinish stats --compare` in words: how long each upstream alone would have taken, and what racing gained.
//!
//! Not for the figures: `report::compare`.

use std::io;

use crate::cli::sheet::{Sheet, SheetCell};
use crate::cli::text::{counted, or_dash, write_paragraph as paragraph};
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::estimate::interval::RankedQuantile;
use photofinish_history::report::compare::{
    Comparison, GainVerdict, LOOKS_WANTED, ModelComparison, UpstreamComparison,
};

/// A table of all models, and a line for each of what racing gained.
pub(super) fn write(
    answer: &Comparison,
    explain: bool,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    if answer.models.is_empty() {
        return paragraph(
            "Nothing to compare: no looks. Under `adaptive` two requests of a hundred look at one upstream of their model, if it has \
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
            "How long each upstream alone would have taken for the requests that its model got, at their moments: from looks, which draw \
             each upstream with the same chance (docs/measurement.md, Comparisons). Between: the bounds of 95 %. A median needs 6 \
             looks, a 95th percentile 72. Not started: its breaker was open, it cooled down, or the budget was used up. $ of 1,000: what \
             a thousand of the model's own requests would cost there, by today's prices.",
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
    let Some(best) = model.best() else {
        return format!("{}: too few looks to compare.", model.model);
    };
    let of = |place: usize, name: &str| {
        let verdict = match (model.gain(place), model.verdict(place)) {
            (Some(gain), GainVerdict::Gained) => {
                format!("gained {} ms ({} to {})", ms(gain.value), ms(gain.low), ms(gain.high))
            }
            (Some(gain), GainVerdict::Lost) => {
                format!("lost {} ms ({} to {})", ms(-gain.value), ms(-gain.high), ms(-gain.low))
            }
            _ => {
                return format!(
                    "at {name} it cannot be told yet: {} of about {LOOKS_WANTED}",
                    counted(best.looks as u64, "look")
                );
            }
        };
        format!("at {name} racing {verdict}")
    };
    format!("{}: against {} alone, {}; {}.", model.model, best.upstream, of(0, "p50"), of(1, "p95"))
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
        ModelComparison { model: "m".into(), upstreams: vec![quick, rare], clients, clients_n: 600, mix_n: 600 }
    }

    fn written(models: Vec<ModelComparison>) -> String {
        let mut out = Vec::new();
        write(&Comparison { models }, false, Some(100), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_gain_is_said_only_where_its_bounds_exclude_nothing() {
        let clients = [ranked(150.0, 148.0, 152.0), ranked(1_300.0, 1_250.0, 1_350.0)];
        let expected = " model  upstream  looks  p50 ms  between  p95 ms   between  failed  not started  $ of 1,000
 m      groq/m      180     203  190-220    1364  900-2100       0            0       $0.40
 m      slow/m        5       –        –       –         –       1            2           –

m: against groq/m alone, at p50 racing gained 53 ms (40 to 70); at p95 it cannot be told yet: 180
looks of about 200.
";
        assert_eq!(written(vec![model(clients)]), expected);
        let lost = written(vec![model([ranked(300.0, 290.0, 310.0), None])]);
        assert!(joined(&lost).contains("at p50 racing lost 97 ms (77 to 113); at p95 it cannot be told yet"), "{lost}");
    }

    #[test]
    fn without_looks_it_says_how_to_get_them() {
        assert!(joined(&written(Vec::new())).contains("set `look` under [race]"));
        let mut few = model([None, None]);
        few.upstreams.remove(0);
        assert!(written(vec![few]).contains("m: too few looks to compare."));
    }
}
