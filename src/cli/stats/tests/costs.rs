//! What racing cost, in the table and in its legend.

use super::*;
use photofinish_history::estimate::cost::CostBasis;

#[tokio::test]
async fn what_losers_cost_is_a_bound() {
    let mut lost = sample::lost(0, 90_000);
    lost.cost_usd_min = Some(0.002);
    let batch = vec![Record::Race(Box::new(sample::race(0))), attempt(sample::won(0)), attempt(lost)];
    let (_directory, path, _store) = store_with(batch).await;
    let found = objects(&path, "--by model").await;
    let names = ["cost_usd", "extra_cost_usd", "cost_basis"];
    assert_eq!(columns(&found, &names), [[&json!(0.0145), &json!(0.002), &json!("at_least")]]);
    let text = shown(&path, "--wide --by model", WIDE).await;
    assert!(text.contains("≥ $0.0145  ≥ $0.002000"), "{text}");
}

#[tokio::test]
async fn what_losers_cost_is_told_between_bounds_and_why_it_is_not() {
    let lost = |cost: (Option<f64>, CostBasis, Option<f64>, Option<f64>)| {
        let mut lost = sample::lost(0, 90_000);
        (_, _, lost.cost_usd_min, lost.cost_usd_max) = cost;
        vec![Record::Race(Box::new(sample::race(0))), attempt(sample::won(0)), attempt(lost)]
    };
    use CostBasis::{AtLeast, AtMost, Unknown};
    for (cost, cells, words) in [
        ((Some(0.002), AtLeast, Some(0.002), Some(0.005)), "$0.0145–0.0175  $0.002000–0.005000", None),
        ((Some(0.005), AtMost, Some(0.0), Some(0.005)), "$0.0125–0.0175  ≤ $0.005000", None),
        ((Some(0.002), AtLeast, Some(0.002), None), "≥ $0.0145  ≥ $0.002000", Some("1 attempt without a token count")),
        ((None, Unknown, Some(0.0), None), "≥ $0.0125  –", Some("1 attempt without a token count")),
        ((None, Unknown, None, None), "≥ $0.0125  –", Some("1 attempt without a price")),
    ] {
        let (_directory, path, _store) = store_with(lost(cost)).await;
        let found = objects(&path, "--by model").await;
        let names = ["extra_cost_usd", "extra_cost_basis", "extra_cost_usd_min", "extra_cost_usd_max"];
        let (usd, basis, min, max) = cost;
        assert_eq!(columns(&found, &names), [[&json!(usd), &json!(basis.as_str()), &json!(min), &json!(max)]]);
        let text = shown(&path, "--wide --by model", WIDE).await;
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(&cells.replace("  ", " ")), "{text}");
        let legend = text.replace('\n', " ");
        for reason in ["without a token count", "without a price"] {
            assert_eq!(legend.contains(reason), words.is_some_and(|words| words.ends_with(reason)), "{text}");
        }
        assert!(words.is_none_or(|words| legend.contains(words)), "{text}");
    }
}
