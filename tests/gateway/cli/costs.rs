//! The cost of racing, from the sockets to the views and to every edge: losers without a usage report have a lower and an upper bound.

use serde_json::{Value, json};

use crate::harness::edges::{EdgeCost, EdgeCosts, edges};
use crate::harness::process::{Setup, asking, provider};
use crate::support::{FakeProvider, Gate, Script, soon};

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
async fn found(setup: &Setup, model: &str) -> Value {
    let ran = setup.run(&["stats", "--json", "--by", "model", "--model", model]).await;
    let groups: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    let names = ["cost_usd_min", "cost_usd_max", "extra_cost_usd_min", "extra_cost_usd_max"];
    names.iter().map(|name| groups[0][*name].clone()).collect()
}

#[tokio::test]
async fn the_cost_of_racing_has_a_lower_and_an_upper_bound() {
    let (setup, _fakes) = field("both").await;
    let ran = setup.run(&["race", "hi", "--model", "both"]).await;
    // The winner costs 8 + 2 × 10. The losers' prompts, by another tokenizer, are half to twice as long, and an answer
    // has up to 256 tokens.
    let words = "cost: $0–0.0052 in all; of it racing: $0–0.0052";
    assert!(ran.err.contains(words), "{}", ran.err);
    let expected = json!([0.000032, 0.00518, 0.000004, 0.005152]);
    assert_eq!(found(&setup, "both").await, expected);
    let rows = "SELECT provider || printf(' %.6f %.6f', cost_usd_min, cost_usd_max) \
                FROM attempt ORDER BY ordinal";
    let rows = setup.texts(rows).await;
    let row = |provider: &str| rows.iter().find_map(|row| row.strip_prefix(provider)).unwrap().trim().to_owned();
    assert_eq!(row("full"), "0.000004 0.002576");
    assert_eq!(row("stingy"), "0.000000 0.002576");
    assert_eq!(row("quick"), "0.000028 0.000028");
    let views = "SELECT printf('%d %.6f %.6f %d %.6f %.6f', attempts, cost_usd_min, cost_usd_max, extra_attempts, \
                 extra_cost_usd_min, extra_cost_usd_max) FROM race_cost \
                 UNION ALL SELECT printf('%.6f %.6f', sum(cost_usd_min), sum(cost_usd_max)) FROM attempt_cost WHERE extra = 1";
    assert_eq!(setup.texts(views).await, ["3 0.000032 0.005180 2 0.000004 0.005152", "0.000004 0.005152"]);
}

#[tokio::test]
async fn costs_with_one_bound_or_without_a_price() {
    let (setup, fakes) = field("free").await;
    let opened = setup.run(&["race", "hi", "--model", "free"]).await;
    assert!(opened.err.contains("cost: $0.000028 or more in all; of it racing: unknown"), "{}", opened.err);
    let expected = json!([0.000028, null, null, null]);
    assert_eq!(found(&setup, "free").await, expected);
    let table = setup.run(&["stats", "--by", "model", "--wide"]).await.out.replace('\n', " ");
    assert!(table.contains("Cost not known: 2 attempts without a price"), "{table}");
    drop(fakes);
    let (setup, fakes) = field("stingy").await;
    let ran = setup.run(&["race", "hi", "--model", "stingy"]).await;
    assert!(ran.err.contains("cost: $0–0.0026 in all; of it racing: $0–0.0026"), "{}", ran.err);
    assert_eq!(found(&setup, "stingy").await, json!([0.000028, 0.002604, 0.0, 0.002576]));
    drop(fakes);
}

/// Six requests of a model that races `plain` against `silent`, whose cancelled requests have no known price; a shadow goes along
/// with each.
#[tokio::test]
async fn every_edge_says_the_same_of_a_bill_that_is_known() {
    const RACES: usize = 6;
    let (silent, silent_asked) = silent().await;
    let asked = silent_asked.clone();
    let plain = FakeProvider::answering(move |_| {
        Script::sse().role().wait(&asked).tokens(&["Hello", " there"]).finish("stop").usage(8, 2).done().end()
    });
    let newcomer = FakeProvider::answering(|_| {
        let priced = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"cost":0.037}}"#;
        Script::sse().role().token("a").finish("stop").event(priced).done().end()
    });
    let newcomer = newcomer.await;
    let plain = plain.await;
    let mut config = "race.drains = { running = 0 }\nrace.policy = \"race\"\n".to_owned();
    for (name, fake) in [("plain", &plain), ("silent", &silent), ("newcomer", &newcomer)] {
        let billing = if name == "silent" { "unknown" } else { "stops" };
        config += &format!("{}cancel_billing = \"{billing}\"\n", provider(name, fake));
    }
    let priced = |name: &str| format!("{{ upstream = \"{name}/m\", input_price = 1000.0, output_price = 10000.0 }}");
    config += &format!("[models.m]\nupstreams = [{}, {}]\n", priced("silent"), priced("plain"));
    config += "shadow = \"newcomer/m\"\nshadow_share = 1\n";
    config += "[users.root]\ntoken = \"root-token\"\nrole = \"admin\"\n";
    let served = Setup::new(&config).serve().await;
    let admin = [("x-api-key", "root-token")];
    for _ in 0..RACES {
        assert_eq!(served.chat(&admin, &asking("m")).await.status, 200);
    }
    let written = async {
        let all = "SELECT count(*) FROM attempt";
        while served.setup.number(all).await < 3 * RACES as i64 {}
    };
    soon("all rows are written", written).await;
    let edges = edges(&served, &admin).await;
    let stats = edges["stats --json"];
    for (name, found) in &edges {
        assert_eq!(*found, stats, "{name}: {found}; stats: {stats}");
    }
    // An answer costs 8 + 2 × 10 thousandths of a dollar, a shadow what its provider says. The silent one, which had the first request at
    // least, may bill its prompt and as long an answer.
    let (answers, shadows) = (RACES as f64 * 0.028, RACES as f64 * 0.037);
    let EdgeCosts { all, racing } = stats;
    for of_silent in [0.0, 0.028] {
        assert!(all.holds(answers + shadows + of_silent) && racing.holds(shadows + of_silent), "{stats}");
    }
    let least = EdgeCost { least: Some(shadows), ..racing };
    assert_eq!(least, racing, "the silent one is known to cost nothing less");
    let costs = served.get("/api/costs", &admin).await.json();
    let why = costs["about_range"].as_str().unwrap();
    assert!(why.contains("because silent does not say") && why.contains("cancel_billing"), "{why}");
    assert!(costs["about_racing"].as_str().unwrap().contains("not the answer"), "{costs}");
    let shown = served.setup.run(&["usage"]).await.out;
    assert!(shown.contains("silent does not say"), "{shown}");
}
