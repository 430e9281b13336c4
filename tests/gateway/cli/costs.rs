//! The cost of racing, from the sockets to the views: losers without a usage report have a lower and an upper bound.

use serde_json::{Value, json};

use crate::harness::process::{Setup, provider};
use crate::support::{FakeProvider, Gate, Script};

/// A provider that takes the request and never answers.
async fn silent() -> (FakeProvider, Gate) {
    let asked = Gate::new();
    let reached = asked.clone();
    (FakeProvider::answering(move |_| Script::new().reached(&reached).until_closed()).await, asked)
}

/// `quick` wins once the losers of the model have the request: 8 tokens in, 2 out. All have the same price. No loser is
/// drained. A field serves one race: its gates stay open.
async fn field(model: &str) -> (Setup, [FakeProvider; 3]) {
    let ((full, full_asked), (stingy, stingy_asked)) = (silent().await, silent().await);
    if model == "stingy" {
        full_asked.open();
    }
    let quick = FakeProvider::answering(move |_| {
        let both = Script::sse().role().wait(&full_asked).wait(&stingy_asked);
        both.tokens(&["Hello", " there"]).finish("stop").usage(8, 2).done().end()
    });
    let fakes = [quick.await, full, stingy];
    let mut config = "race.drains = { running = 0 }\n".to_owned();
    for (name, fake) in ["quick", "full", "stingy"].iter().zip(&fakes) {
        let billing = if *name == "full" { "bills_full" } else { "unknown" };
        config += &format!("{}cancel_billing = \"{billing}\"\n", provider(name, fake));
    }
    let priced = |name: &str| format!("{{ upstream = \"{name}/m\", input_price = 1.0, output_price = 10.0 }}");
    let (quick, full, stingy) = (priced("quick"), priced("full"), priced("stingy"));
    config += &format!("[models.both]\nupstreams = [{full}, {stingy}, {quick}]\n");
    config += &format!("[models.stingy]\nupstreams = [{stingy}, {quick}]\n");
    config += &format!("[models.free]\nupstreams = [\"full/m\", \"stingy/m\", {quick}]\n");
    (Setup::new(&config), fakes)
}

/// `stats --json` of one model.
async fn told(setup: &Setup, model: &str) -> Value {
    let ran = setup.run(&["stats", "--json", "--by", "model", "--model", model]).await;
    let groups: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    let names = ["cost_usd", "cost_basis", "cost_usd_max", "extra_cost_usd", "extra_cost_basis"];
    let names = names.iter().chain(&["extra_cost_usd_min", "extra_cost_usd_max"]);
    names.map(|name| groups[0][*name].clone()).collect()
}

#[tokio::test]
async fn the_cost_of_racing_has_a_lower_and_an_upper_bound() {
    let (setup, _fakes) = field("both").await;
    let ran = setup.run(&["race", "hi", "--model", "both"]).await;
    // The winner costs 8 + 2 × 10. The losers' prompts, by another tokenizer, are half to twice as long, and an answer
    // is as long as the winner's.
    let words = "cost: $0.000032–0.000100 in all; beyond a single attempt: $0.000004–0.000072";
    assert!(ran.err.contains(words), "{}", ran.err);
    let expected = json!([0.000032, "at_least", 0.0001, 0.000004, "at_least", 0.000004, 0.000072]);
    assert_eq!(told(&setup, "both").await, expected);
    let rows = "SELECT provider || printf(' %.6f %.6f', cost_usd_min, cost_usd_max) FROM attempt ORDER BY ordinal";
    let rows = setup.texts(rows).await;
    let row = |provider: &str| rows.iter().find_map(|row| row.strip_prefix(provider)).unwrap().trim().to_owned();
    assert_eq!(row("full"), "0.000004 0.000036");
    assert_eq!(row("stingy"), "0.000000 0.000036");
    assert_eq!(row("quick"), "0.000028 0.000028");
    let views = "SELECT printf('%d %.6f %.6f %d %.6f %.6f', attempts, cost_usd_min, cost_usd_max, losers, \
                 extra_cost_usd_min, extra_cost_usd_max) FROM race_cost \
                 UNION ALL SELECT printf('%.6f %.6f', sum(cost_usd_min), sum(cost_usd_max)) FROM attempt_cost WHERE extra";
    assert_eq!(setup.texts(views).await, ["3 0.000032 0.000100 2 0.000004 0.000072", "0.000004 0.000072"]);
}

#[tokio::test]
async fn costs_with_one_bound_or_without_a_price() {
    let (setup, fakes) = field("free").await;
    let opened = setup.run(&["race", "hi", "--model", "free"]).await;
    assert!(opened.err.contains("cost: ≥ $0.000028 in all; beyond a single attempt: not known (no loser has"));
    let expected = json!([0.000028, "at_least", null, null, "unknown", null, null]);
    assert_eq!(told(&setup, "free").await, expected);
    let table = setup.run(&["stats", "--by", "model", "--wide"]).await.out.replace('\n', " ");
    assert!(table.contains("Cost not known: 2 attempts without a price") && table.contains("– not known"), "{table}");
    drop(fakes);
    let (setup, fakes) = field("stingy").await;
    let ran = setup.run(&["race", "hi", "--model", "stingy"]).await;
    assert!(ran.err.contains("cost: $0.000028–0.000064 in all; beyond a single attempt: ≤ $0.000036"), "{}", ran.err);
    assert_eq!(
        told(&setup, "stingy").await,
        json!([0.000028, "at_least", 0.000064, 0.000036, "at_most", 0.0, 0.000036])
    );
    drop(fakes);
}
