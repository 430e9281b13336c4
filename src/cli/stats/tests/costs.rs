//! What racing cost, in the table and in its legend.

use super::*;
use photofinish_facts::record::RaceSource;

/// A race with a loser of this cost.
fn with_loser(cost_usd_min: Option<f64>, cost_usd_max: Option<f64>) -> Vec<Record> {
    let won = AttemptRecord { cost_usd_min: Some(0.0124), cost_usd_max: Some(0.0126), ..sample::won(0) };
    let lost = AttemptRecord { cost_usd_min, cost_usd_max, ..sample::lost(0, 90_000) };
    let race = RaceRecord { rescued_by: None, ..sample::race(0) };
    vec![Record::Race(Box::new(race)), attempt(won), attempt(lost)]
}

#[tokio::test]
async fn what_racing_cost_is_told_between_bounds_and_why_it_is_not() {
    for (cost, cells, words) in [
        ((Some(0.002), Some(0.005)), "$0.0144–0.0176 $0.0020–0.0050", None),
        ((Some(0.0), Some(0.005)), "$0.0124–0.0176 $0–0.0050", None),
        ((Some(0.002), None), "$0.014 or more $0.002 or more", Some("1 attempt without an upper bound")),
        ((Some(0.0), None), "$0.012 or more $0 or more", Some("1 attempt without an upper bound")),
        ((None, None), "$0.012 or more unknown", Some("1 attempt without a price")),
    ] {
        let (_directory, path, _store) = store_with(with_loser(cost.0, cost.1)).await;
        let found = objects(&path, "--by model").await;
        let names = ["extra_cost_usd_min", "extra_cost_usd_max"];
        assert_eq!(columns(&found, &names), [[&json!(cost.0), &json!(cost.1)]]);
        let text = joined(&shown(&path, "--wide --by model", WIDE).await);
        assert!(text.contains(cells), "{text}");
        for reason in ["without an upper bound", "without a price"] {
            assert_eq!(text.contains(reason), words.is_some_and(|words| words.ends_with(reason)), "{text}");
        }
        assert!(words.is_none_or(|words| text.contains(words)), "{text}");
    }
    let (_directory, path, _store) = store_with(with_loser(Some(0.002), Some(0.005))).await;
    let text = joined(&shown(&path, "", WIDE).await);
    assert!(text.contains("Cost: $0.0144–0.0176, of it racing $0.0020–0.0050 (14 to 29 %)."), "{text}");
    let wide = joined(&shown(&path, "--by model", WIDE).await);
    assert!(!wide.contains("– not known"), "a range is no dash: {wide}");
}

#[tokio::test]
async fn a_shadow_is_no_attempt_and_costs() {
    let mut rows = with_loser(Some(0.002), Some(0.002));
    let of = AttemptRecord { cost_usd_min: Some(0.5), cost_usd_max: Some(0.5), ..sample::won(1) };
    let shadow = AttemptRecord { provider: "newcomer".into(), ..of };
    rows.push(Record::Race(Box::new(sample::race_of(RaceSource::Shadow, 1))));
    rows.push(attempt(AttemptRecord { race_id: sample::race_of(RaceSource::Shadow, 1).race_id, ..shadow }));
    let (_directory, path, _store) = store_with(rows).await;
    let found = objects(&path, "").await;
    let names = ["upstream", "attempts", "extra_cost_usd_min", "extra_cost_usd_max"];
    assert_eq!(columns(&found, &names)[2], [&json!("newcomer/llama-70b"), &json!(0), &json!(0.5), &json!(0.5)]);
    let alone = objects(&path, "--source shadow").await;
    assert_eq!(columns(&alone, &names), [[&json!("newcomer/llama-70b"), &json!(1), &json!(0.5), &json!(0.5)]]);
}
