//! Money: the last cent, storms of clients that leave, long answers that were short, paid fallbacks, and what the rows say.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{ANN, BOB, TOKEN, answer, ask, asking, cost_of, priced, send, spent, usage, user};
use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{CHAT, Setup, TestGateway, assert_row};
use photofinish_config::offerings::ModelCatalogue;
use photofinish_config::{Price, nano_usd};

use crate::support::{FakeProvider, Gate, Script, soon};

#[tokio::test]
async fn two_hundred_requests_at_the_last_cent_spend_no_more_than_it() {
    let gate = Gate::new();
    let open = gate.clone();
    let slow = move |_: &_| Script::sse().role().wait(&open).token("x").finish("stop").usage(10, 10).done().end();
    let fake = FakeProvider::answering(slow).await;
    // Seven answers of ten tokens.
    let tables = format!("{ANN}reserve = \"max\"\nbudget.day = 0.075");
    let gateway = priced(&[&fake], &tables).start().await;
    let mut reading = JoinSet::new();
    for _ in 0..200 {
        let mut client = send(&gateway, "ann", CHAT, &asking(10)).await;
        reading.spawn(async move { read_response(&mut client).await });
    }
    let mut answers = Vec::new();
    // Those that may begin wait for the gate.
    while answers.len() < 193 {
        answers.push(soon("an answer", reading.join_next()).await.unwrap().unwrap());
    }
    for refused in &answers {
        assert_eq!((refused.status, refused.error().1.as_str()), (429, "photofinish_budget_held"));
        assert_eq!((refused.header("retry-after"), refused.header("x-should-retry")), ("5", ""), "held is not spent");
    }
    gate.open();
    while let Some(answer) = reading.join_next().await {
        answers.push(answer.unwrap());
    }
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    let count = |status: u16| statuses.iter().filter(|other| **other == status).count();
    assert_eq!((count(200), count(429)), (7, 193));
    assert_eq!(fake.requests().len(), 7);
    assert_eq!(spent(&gateway, &user("ann")).await, 70 * TOKEN);
    let refused = ask(&gateway, "ann", &asking(10)).await;
    let (status, code, message) = refused.error();
    assert_eq!((status, code.as_str()), (429, "photofinish_budget_spent"));
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=86_400).contains(&wait) && refused.header("x-should-retry") == "false", "{wait}");
    for part in ["the user \"ann\" may spend 0.075 USD this day", "0.07 USD are spent", "may cost 0.01 USD", "An admin"]
    {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(ask(&gateway, "ann", &asking(5)).await.status, 200, "half a cent is left");
    let metrics = super::get(&gateway, "ann", "/metrics").await.body;
    assert!(metrics.contains("photofinish_limited_total{level=\"user\",kind=\"budget_day\"} 194"), "{metrics}");
    let rows = gateway.stop().await;
    let rejected: Vec<_> = rows.races.iter().filter(|race| race["outcome"] == "rejected").collect();
    assert_eq!((rows.races.len(), rejected.len()), (39, 31), "thirty held and one spent: the others are counted");
    assert_row!(rejected[0], json!({"http_status": 429, "attempts": 0, "caller": "ann"}));
}

#[tokio::test]
async fn clients_that_leave_and_come_again_leave_nothing_reserved() {
    let fake = FakeProvider::answering(|_| answer(3)).await;
    let tables = format!("{ANN}reserve = \"max\"\nstreams = 4\nbudget.day = 100\nrpm = 100000");
    let gateway = priced(&[&fake], &tables).start().await;
    for _ in 0..30 {
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(send(&gateway, "ann", CHAT, &asking(100)).await);
        }
        all.into_iter().for_each(|client| client.close());
        spent(&gateway, &user("ann")).await;
    }
    // No false refusal afterwards: all streams and all of the money that was not spent are there.
    let before = spent(&gateway, &user("ann")).await;
    for _ in 0..4 {
        assert_eq!(ask(&gateway, "ann", &asking(100)).await.status, 200);
    }
    assert_eq!(spent(&gateway, &user("ann")).await, before + 4 * 3 * TOKEN);
    let used = usage(&gateway, &user("ann"));
    assert_eq!((used.streams.0, used.periods[0].reserved), (0, 0));
    assert!(used.periods[0].spent <= 124 * 100 * TOKEN, "{used:?}");
    let rows = gateway.stop().await;
    let exact = rows.attempts.iter().filter(|row| row["cost_usd_min"] == row["cost_usd_max"]);
    let exact: i64 = exact.map(|row| (row["cost_usd_min"].as_f64().unwrap() * 1e9).round() as i64).sum();
    assert_eq!(used.periods[0].spent - used.periods[0].estimated, exact, "what is known exactly, to the nano-USD");
}

#[tokio::test]
async fn short_answers_to_long_requests_give_back_what_they_reserved() {
    let fake = FakeProvider::answering(|_| answer(2)).await;
    let tables = format!("{ANN}reserve = \"max\"\nbudget.month = 1.2\ntpm = 100000");
    let gateway = priced(&[&fake], &tables).start().await;
    // Each reserves a whole USD of the 1.2, and costs 0.002.
    for number in 1..=20 {
        let response = ask(&gateway, "ann", &asking(1_000)).await;
        assert_eq!(response.status, 200, "{number}: {}", response.body);
        assert_eq!(spent(&gateway, &user("ann")).await, number * 2 * TOKEN);
    }
    let left = usage(&gateway, &user("ann")).tokens.unwrap().left;
    assert!(left >= 100_000 - 20 * 12, "input and output of what the client got: {left}");
    let rows = gateway.stop().await;
    assert_eq!(cost_of(&rows), 40 * TOKEN);
}

#[tokio::test]
async fn a_free_model_that_falls_back_to_a_paid_one_is_paid() {
    let free = FakeProvider::answering(|_| Script::status(500, &[], "{}")).await;
    let paid = FakeProvider::answering(|_| answer(10)).await;
    let model = "[models.m]\nupstreams = [{ upstream = \"a/m\", input_price = 0, output_price = 0 }, \
                 { upstream = \"b/m\", input_price = 0, output_price = 1000 }]";
    let tables = format!("{ANN}reserve = \"max\"\nbudget.day = 0.015");
    let setup = Setup::over(&[&free, &paid]).race("policy = \"fallback\"").model(model).table(&tables);
    let gateway = setup.start().await;
    assert_eq!(ask(&gateway, "ann", &asking(10)).await.status, 200);
    assert_eq!(spent(&gateway, &user("ann")).await, 10 * TOKEN, "of the fallback");
    let failed = ask(&gateway, "ann", &asking(10)).await;
    let (status, code, message) = failed.error();
    assert_eq!((status, code.as_str()), (429, "photofinish_budget_spent"), "the fallback would cost more than is left");
    assert!(message.contains("b/m could answer"), "{message}");
    assert_eq!((free.requests().len(), paid.requests().len()), (2, 1));
    let rows = gateway.stop().await;
    assert_row!(&rows.races[1], json!({"left_out": "b/m@limit", "attempts": 1}));
}

#[tokio::test]
async fn what_a_budget_kept_back_is_named_whatever_the_others_failed_by() {
    const LATER: &[(&str, &str)] = &[("retry-after", "7")];
    for (status, headers, again, stays) in
        [(500, &[][..], "", "false"), (429, LATER, "7", ""), (429, &[][..], "1", ""), (503, LATER, "", "false")]
    {
        let failing = FakeProvider::answering(move |_| Script::status(status, headers, "{\"error\":{}}")).await;
        let dear = FakeProvider::answering(|_| answer(10)).await;
        let model = "[models.m]\nupstreams = [{ upstream = \"a/m\", input_price = 0, output_price = 0 }, \
                     { upstream = \"b/m\", input_price = 0, output_price = 1000 }]";
        let tables = format!("{ANN}reserve = \"max\"\nbudget.day = 0.005");
        let setup = Setup::over(&[&failing, &dear]).race("policy = \"fallback\"").model(model).table(&tables);
        let gateway = setup.start().await;
        let failed = ask(&gateway, "ann", &asking(10)).await;
        let (found, code, message) = failed.error();
        assert_eq!((found, code.as_str()), (429, "photofinish_budget_spent"), "{status}");
        assert!(message.contains("b/m could answer"), "{message}");
        let headers = (failed.header("retry-after"), failed.header("x-should-retry"));
        assert_eq!(headers, (again, stays), "{status}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn near_its_end_the_race_narrows_before_anybody_is_refused() {
    // Each race costs two hundredths: its loser is at work, and what it costs is not known.
    let at_work = Gate::new();
    let (reached, begun) = (at_work.clone(), at_work.clone());
    let one = move |_: &_| Script::sse().role().wait(&begun).token("x").finish("stop").usage(10, 10).done().end();
    let other = move |_: &_| Script::sse().role().reached(&reached).until_closed();
    let [one, other] = [FakeProvider::answering(one).await, FakeProvider::answering(other).await];
    let tables = format!("{ANN}reserve = \"max\"\nbudget.day = 0.055\n{BOB}");
    let gateway = priced(&[&one, &other], &tables).start().await;
    let mut started = Vec::new();
    loop {
        let response = ask(&gateway, "ann", &asking(10)).await;
        let spent = spent(&gateway, &user("ann")).await;
        if response.status == 429 {
            assert!(spent > 45 * TOKEN, "refused while ten tokens still fit: {spent}");
            break;
        }
        assert_eq!(response.status, 200, "{}", response.body);
        started.push(response.header("x-photofinish-attempts").to_owned());
    }
    assert_eq!(started.last().unwrap(), "1", "{started:?}");
    let rows = gateway.stop().await;
    let last = &rows.races[started.len() - 1];
    assert!(last["why"].as_str().unwrap().split(' ').any(|code| code == "narrowed"), "{last:#?}");
    assert!(last["left_out"].as_str().unwrap().ends_with("@limit"), "{last:#?}");
    assert_eq!(rows.of(started.len() - 1).len(), 1);
}

/// Of the family `gpt` the catalogue knows prices: a newer one counts at the dearest of them, and its row has no cost.
#[tokio::test]
async fn a_model_without_a_price_counts_at_the_dearest_of_its_family() {
    let fake = FakeProvider::answering(|_| answer(1_000)).await;
    let tables =
        format!("{ANN}budget.day = 5\n[users.eve]\ntoken = \"token-of-eve\"\nbudget.day = 5\nunpriced = \"refuse\"");
    let model = "[models.m]\nupstreams = [\"a/gpt-of-tomorrow\"]";
    let gateway = Setup::new().provider("a", &fake, "like = \"openai\"").model(model).table(&tables);
    let gateway = gateway.start().await;
    let refused = ask(&gateway, "eve", &asking(1_000)).await.error();
    assert_eq!((refused.0, refused.1.as_str()), (403, "photofinish_unpriced"));
    let answered = ask(&gateway, "ann", &asking(1_000)).await;
    assert_eq!(answered.status, 200, "{}", answered.body);
    let catalogue = ModelCatalogue::built_in();
    let price = Price::dearest_like(catalogue, "openai", "gpt-of-tomorrow").unwrap();
    let (least, most) = (nano_usd(price.output * 1_000.0 / 1e6), nano_usd(price.most_usd(100.0, 1_000.0, false)));
    let spent = spent(&gateway, &user("ann")).await;
    assert!((least..=most).contains(&spent), "{spent}, not {least} to {most}");
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts[0]["cost_usd_max"], Value::Null, "the record has no price that is unknown");
}

#[tokio::test]
async fn an_upstream_without_a_price_is_left_out_for_a_caller_with_a_budget() {
    let [one, other] = [FakeProvider::answering(|_| answer(10)).await, FakeProvider::answering(|_| answer(10)).await];
    let model = "[models.m]\nupstreams = [\"a/m\", { upstream = \"b/m\", input_price = 0, output_price = 1000 }]\n\
                 [models.unpriced]\nupstreams = [\"a/m\"]";
    let tables =
        format!("{ANN}budget.day = 5\n{BOB}[users.eve]\ntoken = \"token-of-eve\"\nbudget.day = 5\nunpriced = \"free\"");
    let gateway = Setup::over(&[&one, &other]).model(model).table(&tables).start().await;
    let limited = ask(&gateway, "ann", &asking(10)).await;
    assert_eq!((limited.upstream(), limited.header("x-photofinish-attempts")), ("b/m", "1"));
    let unpriced = json!({"model": "unpriced", "messages": [{"role": "user", "content": "x"}]});
    let refused = ask(&gateway, "ann", &unpriced).await.error();
    assert_eq!((refused.0, refused.1.as_str()), (403, "photofinish_unpriced"));
    let with_own_key = [("x-api-key", "token-of-ann"), ("x-photofinish-key-a", "sk-own")];
    let own = read_response(&mut gateway.request(CHAT, &with_own_key, &unpriced).await).await.error();
    assert_eq!((own.0, own.1.as_str()), (403, "photofinish_unpriced"), "a key is not checked there");
    for name in ["bob", "eve"] {
        assert_eq!(ask(&gateway, name, &unpriced).await.status, 200, "{name}");
    }
    assert_eq!(spent(&gateway, &user("eve")).await, 0);
}

/// Where the provider takes keys, a caller's own one frees from budgets and rights; where it takes none, any text would.
#[tokio::test]
async fn a_key_of_one_s_own_frees_only_where_keys_are_taken() {
    for (lines, is_free) in [("", false), ("api_key = \"shared\"", true)] {
        let fake = FakeProvider::answering(|_| answer(10)).await;
        let tables = format!("{ANN}budget.day = 5\n");
        let model = "[models.m]\nupstreams = [{ upstream = \"a/m\", input_price = 0, output_price = 1000000 }]";
        let gateway = Setup::new().provider("a", &fake, lines).model(model).table(&tables).start().await;
        let headers = [("x-api-key", "token-of-ann"), ("x-photofinish-key-a", "sk-own")];
        let ask = async |model: &str| {
            let body = json!({"model": model, "max_tokens": 1_000, "messages": [{"role": "user", "content": "x"}]});
            read_response(&mut gateway.request(CHAT, &headers, &body).await).await.status
        };
        assert_eq!(ask("m").await == 200, is_free, "the budget, {lines}");
        assert_eq!(ask("a/another").await == 200, is_free, "what no model lists, {lines}");
        let path = gateway.request("/providers/a/v1/files", &headers, &json!({})).await;
        let mut path = path;
        assert_eq!(read_response(&mut path).await.status == 403, !is_free, "paths of the provider, {lines}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn every_attempt_of_a_race_is_paid_and_the_rows_agree() {
    let won = Gate::new();
    let after = won.clone();
    let quick = FakeProvider::answering(|_| answer(4)).await;
    let drained = FakeProvider::answering(move |_| {
        Script::sse().role().wait(&after).token("y").finish("stop").usage(10, 9).done().end()
    })
    .await;
    let model = "[models.m]\nupstreams = [{ upstream = \"a/m\", input_price = 0, output_price = 1000 }, \
                 { upstream = \"b/m\", input_price = 0, output_price = 1000 }]";
    let tables = format!("{ANN}team = \"t\"\nbudget.day = 5\n[teams.t]\nbudget.month = 50\n[limits]\nbudget.day = 500");
    let gateway = Setup::new()
        .provider("a", &quick, "")
        .provider("b", &drained, "cancel_billing = \"bills_full\"")
        .model(model)
        .table(&tables)
        .start()
        .await;
    assert_eq!(ask(&gateway, "ann", &asking(100)).await.upstream(), "a/m");
    let running = usage(&gateway, &user("ann"));
    assert!(running.periods[0].reserved > 0 && running.streams.0 == 0, "the loser is still read: {running:?}");
    won.open();
    for level in [user("ann"), super::LevelName::Team("t".into()), super::LevelName::Everybody] {
        assert_eq!(spent(&gateway, &level).await, 13 * TOKEN, "{level}");
    }
    let rows = gateway.stop().await;
    assert_eq!((cost_of(&rows), rows.attempts.len()), (13 * TOKEN, 2));
}

/// A model whose answers have this number of tokens for ann, and three for others.
async fn long_for(ann: u64, tables: &str) -> (FakeProvider, TestGateway) {
    let fake = FakeProvider::answering(move |request| {
        answer(if request.json().to_string().contains("of ann") { ann } else { 3 })
    })
    .await;
    let gateway = priced(&[&fake], tables).start().await;
    (fake, gateway)
}

fn of_ann(max_tokens: Option<u64>) -> Value {
    let mut body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "of ann"}]});
    if let Some(max_tokens) = max_tokens {
        body["max_tokens"] = max_tokens.into();
    }
    body
}

async fn at_once(gateway: &TestGateway, count: usize, body: &Value) -> Vec<Response> {
    let mut reading = JoinSet::new();
    for _ in 0..count {
        let mut client = send(gateway, "ann", CHAT, body).await;
        reading.spawn(async move { read_response(&mut client).await });
    }
    reading.join_all().await
}

#[tokio::test]
async fn what_others_answers_cost_teaches_nothing_of_a_callers() {
    for max_tokens in [Some(1_500), None] {
        let (_fake, gateway) = long_for(1_500, &format!("{ANN}budget.day = 10\n{BOB}")).await;
        for _ in 0..40 {
            assert_eq!(ask(&gateway, "bob", &asking(1_500)).await.status, 200);
        }
        let answers = at_once(&gateway, 60, &of_ann(max_tokens)).await;
        assert!(answers.iter().all(|answer| [200, 429].contains(&answer.status)));
        let spent = spent(&gateway, &user("ann")).await;
        assert!((8_000 * TOKEN..=10_500 * TOKEN).contains(&spent), "{} USD of 10, {max_tokens:?}", spent as f64 / 1e9);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_caller_whose_answers_become_far_longer_spends_half_a_budget_too_much_at_most() {
    let long = Arc::new(AtomicBool::new(false));
    let becomes = long.clone();
    let fake = FakeProvider::answering(move |_| answer(if becomes.load(Relaxed) { 1_500 } else { 100 })).await;
    let gateway = priced(&[&fake], &format!("{ANN}budget.day = 13")).start().await;
    for _ in 0..30 {
        assert_eq!(ask(&gateway, "ann", &of_ann(None)).await.status, 200);
    }
    let before = spent(&gateway, &user("ann")).await;
    assert_eq!(before, 3_000 * TOKEN);
    long.store(true, Relaxed);
    at_once(&gateway, 60, &of_ann(None)).await;
    let spent = spent(&gateway, &user("ann")).await;
    assert!((10_000 * TOKEN..=19_500 * TOKEN).contains(&spent), "{} USD of 13", spent as f64 / 1e9);
    gateway.stop().await;
}

#[tokio::test]
async fn an_answer_that_grows_holds_others_back() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |request| {
        let tokens = if request.number == 30 { 1_000 } else { 100 };
        let mut script = Script::sse().role();
        for _ in 0..tokens {
            script = script.token("word ");
        }
        let script = if request.number == 30 { script.wait(&open) } else { script };
        script.finish("stop").usage(10, tokens).done().end()
    })
    .await;
    let gateway = priced(&[&fake], &format!("{ANN}budget.day = 10")).start().await;
    for _ in 0..30 {
        assert_eq!(ask(&gateway, "ann", &of_ann(None)).await.status, 200);
    }
    spent(&gateway, &user("ann")).await;
    let mut long = send(&gateway, "ann", CHAT, &of_ann(None)).await;
    assert_eq!(long.head().await.status, 200);
    let grown = || usage(&gateway, &user("ann")).periods[0].reserved;
    soon("its growth", async {
        while grown() < 1_000 * TOKEN {
            long.event().await.unwrap();
        }
    })
    .await;
    assert!(grown() <= 1_300 * TOKEN, "what came, and some more: {}", grown());
    gate.open();
    while long.event().await.unwrap().is_some() {}
    assert_eq!(spent(&gateway, &user("ann")).await, 4_000 * TOKEN);
    gateway.stop().await;
}

#[tokio::test]
async fn what_would_fit_in_a_moment_waits_for_it() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |_| {
        Script::sse().role().wait(&open).token("x").finish("stop").usage(10, 10).done().end()
    })
    .await;
    let gateway = priced(&[&fake], &format!("{ANN}reserve = \"max\"\nbudget.day = 2.5")).start().await;
    let mut reading = JoinSet::new();
    for _ in 0..4 {
        let mut client = send(&gateway, "ann", CHAT, &asking(1_000)).await;
        reading.spawn(async move { read_response(&mut client).await.status });
    }
    fake.request(1).await;
    assert_eq!(fake.requests().len(), 2, "the budget holds two at once");
    gate.open();
    assert_eq!(reading.join_all().await, [200; 4], "and the others when these have ended");
    assert_eq!(spent(&gateway, &user("ann")).await, 40 * TOKEN);
}

#[tokio::test]
async fn what_never_fits_says_which_member_to_send() {
    let fake = FakeProvider::answering(|_| answer(3)).await;
    let gateway = priced(&[&fake], &format!("{ANN}reserve = \"max\"\nbudget.day = 1")).start().await;
    let refused = ask(&gateway, "ann", &of_ann(None)).await;
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("max_tokens")));
    assert_eq!(ask(&gateway, "ann", &of_ann(Some(900))).await.status, 200);
    assert_eq!(ask(&gateway, "ann", &of_ann(Some(1_100))).await.status, 400);
    gateway.stop().await;
}

#[tokio::test]
async fn every_member_that_multiplies_answers_multiplies_what_is_reserved() {
    let fake = FakeProvider::answering(|_| Script::status(500, &[], "{}")).await;
    let gateway = priced(&[&fake], &format!("{ANN}reserve = \"max\"\nbudget.day = 0.05")).start().await;
    let prompts = |count: usize| vec!["x"; count];
    for (path, more, status) in [
        ("/v1/completions", json!({"prompt": "x"}), 502),
        ("/v1/completions", json!({"prompt": prompts(5)}), 502),
        ("/v1/completions", json!({"prompt": prompts(6)}), 400),
        ("/v1/completions", json!({"prompt": [[1, 2], [3], [4], [5], [6], [7]]}), 400),
        ("/v1/completions", json!({"prompt": [1, 2, 3, 4, 5, 6]}), 502),
        ("/v1/completions", json!({"prompt": "x", "best_of": 6}), 400),
        ("/v1/completions", json!({"prompt": prompts(2), "n": 3}), 400),
        (CHAT, json!({"messages": [{"role": "user", "content": "x"}], "n": 6}), 400),
        (CHAT, json!({"messages": [{"role": "user", "content": "x"}], "n": 5}), 502),
    ] {
        let mut body = json!({"model": "m", "max_tokens": 10});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answered = read_response(&mut send(&gateway, "ann", path, &body).await).await;
        assert_eq!(answered.status, status, "{path} {more}: {}", answered.body);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn weeks_and_all_time_are_periods_too() {
    for (budget, word) in [("week", "The next week begins at"), ("total", "in all")] {
        let fake = FakeProvider::answering(|_| answer(10)).await;
        let tables = format!("{ANN}reserve = \"max\"\nbudget.{budget} = 0.015");
        let gateway = priced(&[&fake], &tables).start().await;
        assert_eq!(ask(&gateway, "ann", &asking(10)).await.status, 200);
        spent(&gateway, &user("ann")).await;
        let (status, code, message) = ask(&gateway, "ann", &asking(10)).await.error();
        assert_eq!((status, code.as_str()), (429, "photofinish_budget_spent"));
        assert!(message.contains(word), "{message}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_is_charged_for_what_came() {
    let fake = FakeProvider::answering(|_| Script::sse().role().token("word ").token("word ").until_closed()).await;
    let gateway = priced(&[&fake], &format!("{ANN}budget.day = 100")).start().await;
    for left in 0..5 {
        let mut client = send(&gateway, "ann", CHAT, &of_ann(Some(20_000))).await;
        assert_eq!(client.head().await.status, 200);
        client.event().await.unwrap();
        client.close();
        fake.closed(left).await;
    }
    let spent = spent(&gateway, &user("ann")).await;
    assert!(spent <= 5 * 2_000 * TOKEN, "five long requests that were left at once are not {} USD", spent as f64 / 1e9);
    gateway.stop().await;
}

#[tokio::test]
async fn a_list_of_prompts_teaches_how_long_each_answer_is() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |request| match request.number {
        0..30 => answer(50),
        _ => Script::sse().role().wait(&open).token("x").finish("stop").usage(10, 50).done().end(),
    })
    .await;
    let gateway = priced(&[&fake], &format!("{ANN}budget.day = 10")).start().await;
    let asks = json!({"model": "m", "stream": true, "prompt": ["x", "x", "x", "x", "x"]});
    for _ in 0..30 {
        assert_eq!(read_response(&mut send(&gateway, "ann", "/v1/completions", &asks).await).await.status, 200);
    }
    spent(&gateway, &user("ann")).await;
    let mut client = send(&gateway, "ann", "/v1/completions", &asks).await;
    fake.request(30).await;
    assert_eq!(usage(&gateway, &user("ann")).periods[0].reserved, 50 * TOKEN, "five answers of ten tokens");
    gate.open();
    assert_eq!(read_response(&mut client).await.status, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn what_a_provider_counts_is_what_it_bills() {
    let words = |script: Script| (0..40).fold(script, |script, _| script.token("several words of an answer "));
    let fake =
        FakeProvider::answering(move |_| words(Script::sse().role()).finish("stop").usage(10, 2).done().end()).await;
    let gateway = priced(&[&fake], &format!("{ANN}budget.day = 100")).start().await;
    assert_eq!(ask(&gateway, "ann", &asking(1_000)).await.status, 200);
    assert_eq!(spent(&gateway, &user("ann")).await, 2 * TOKEN, "however much it streamed");
    let rows = gateway.stop().await;
    assert_eq!(cost_of(&rows), 2 * TOKEN);
}
