//! Money: the last cent, storms of clients that leave, long answers that were short, paid fallbacks, and what the rows say.

use serde_json::json;
use tokio::task::JoinSet;

use super::{ANN, BOB, TOKEN, answer, ask, asking, cost_of, priced, send, spent, usage, user};
use crate::harness::answer::read_response;
use crate::harness::gateway::{CHAT, Setup, assert_row};
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
    assert!(answers.iter().all(|refused| refused.status == 429), "{:?}", answers.iter().find(|one| one.status != 429));
    let wait: u64 = answers[0].header("retry-after").parse().unwrap();
    assert!((1..=86_400).contains(&wait) && answers[0].header("x-should-retry") == "false", "{wait}");
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
    for part in ["the user \"ann\" may spend 0.075 USD this day", "0.07 USD are spent", "may cost 0.01 USD", "An admin"]
    {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(ask(&gateway, "ann", &asking(5)).await.status, 200, "half a cent is left");
    let metrics = super::get(&gateway, "ann", "/metrics").await.body;
    assert!(metrics.contains("photofinish_limited_total{level=\"user\",kind=\"budget_day\"} 194"), "{metrics}");
    let rows = gateway.stop().await;
    let rejected: Vec<_> = rows.races.iter().filter(|race| race["outcome"] == "rejected").collect();
    assert_eq!((rows.races.len(), rejected.len()), (202, 194));
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
    let exact =
        rows.attempts.iter().filter(|row| ["computed", "reported"].iter().any(|basis| row["cost_basis"] == **basis));
    let exact: i64 = exact.map(|row| (row["cost_usd"].as_f64().unwrap() * 1e9).round() as i64).sum();
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
    assert_eq!(failed.error().1, "photofinish_all_failed", "the fallback would cost more than is left");
    assert_eq!((free.requests().len(), paid.requests().len()), (2, 1));
    let rows = gateway.stop().await;
    assert_row!(&rows.races[1], json!({"left_out": "b/m@limit", "attempts": 1}));
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
    assert_eq!((own.0, own.1.as_str()), (403, "photofinish_unpriced"), "nobody looks at a key there");
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
