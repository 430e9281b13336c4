//! Which headers a user may send, and which upstreams a user may name.

use serde_json::json;

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{CHAT, Setup, TestGateway};
use crate::support::{FakeProvider, Script};

async fn ask(gateway: &TestGateway, user: &str, model: &str, header: (&str, &str)) -> Response {
    let token = format!("Bearer {user}-token");
    let body = json!({"model": model, "stream": true, "messages": [{}]});
    read_response(&mut gateway.request(CHAT, &[("authorization", &token), header], &body).await).await
}

#[tokio::test]
async fn a_user_overrides_what_is_allowed() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let user = |name: &str, more: &str| format!("[users.{name}]\ntoken = \"{name}-token\"\n{more}\n");
    let setup = Setup::new()
        .provider("a", &fake, "api_key = \"sk-shared\"")
        .table(&user("usual", ""))
        .table(&user("none", "overrides = false"))
        .table(&user("all", "overrides = true"))
        .table(&user("some", "overrides = [\"policy\", \"upstreams\"]"))
        .table(&user("own", "overrides = false\nkeys = { a = \"sk-own\" }"));
    let gateway = setup.start().await;
    let (policy, budget) = (("x-photofinish-policy", "fallback"), ("x-photofinish-budget", "0.5"));
    let (listed, other) = (("x-photofinish-upstreams", "a/m"), ("x-photofinish-upstreams", "a/else"));
    let (nothing, brought) = (("x-none", ""), ("x-photofinish-key-a", "sk-brought"));
    let table = [
        ("usual", "m", policy, 200),
        ("usual", "m", budget, 403),
        ("usual", "m", listed, 200),
        ("usual", "m", other, 403),
        ("usual", "a/m", nothing, 200),
        ("usual", "a/else", nothing, 403),
        ("usual", "a/else", brought, 200),
        ("none", "m", nothing, 200),
        ("none", "m", policy, 403),
        ("none", "m", listed, 403),
        ("none", "a/else", nothing, 403),
        ("all", "m", budget, 200),
        ("all", "a/else", nothing, 200),
        ("some", "m", policy, 200),
        ("some", "m", budget, 403),
        ("some", "m", other, 200),
        ("some", "a/else", nothing, 200),
        ("own", "a/else", nothing, 200),
        ("own", "m", policy, 403),
    ];
    for (user, model, header, status) in table {
        let response = ask(&gateway, user, model, header).await;
        assert_eq!(response.status, status, "{user} {model} {header:?}: {}", response.body);
        if status == 403 {
            let code = response.error_code();
            let of_header = header.0.starts_with("x-photofinish") && header != other;
            let expected = if of_header { "photofinish_forbidden_override" } else { "photofinish_forbidden_upstream" };
            assert_eq!(code, expected, "{user} {model} {header:?}");
            assert!(response.body.contains("overrides under [users.NAME]"), "{}", response.body);
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn by_default_overrides_do_not_raise_the_bill() {
    let fakes: Vec<FakeProvider> =
        futures_util::future::join_all((0..4).map(|_| FakeProvider::answering(|_| Script::stream(&["hello"])))).await;
    let setup = fakes.iter().collect::<Vec<_>>();
    let model = "[models.m]\nupstreams = [\"a/m\", \"b/m\", \"c/m\", \"d/m\"]\npolicy = \"adaptive\"\nbudget = 0.0\n\
                 max_attempts = 1\nrescue = \"continue\"";
    let setup = Setup::over(&setup).model(model);
    let user = |name: &str, more: &str| format!("[users.{name}]\ntoken = \"{name}-token\"\n{more}\n");
    let setup = setup.table(&user("usual", "")).table(&user("all", "overrides = true"));
    let gateway = setup.table(&user("policy", "overrides = [\"policy\"]")).start().await;
    let (policy, attempts) = ("x-photofinish-policy", "x-photofinish-max-attempts");
    let ask = async |user: &str, headers: &[(&str, &str)]| {
        let token = format!("Bearer {user}-token");
        let headers: Vec<(&str, &str)> =
            std::iter::once(("authorization", token.as_str())).chain(headers.iter().copied()).collect();
        let body = json!({"model": "m", "stream": true, "messages": [{}]});
        read_response(&mut gateway.request(CHAT, &headers, &body).await).await
    };
    for (headers, named, setting) in [
        (&[(policy, "race"), (attempts, "16")][..], attempts, "\\\"max-attempts\\\" to overrides"),
        (&[(attempts, "2")], attempts, "max_attempts = 1"),
        (&[("x-photofinish-budget", "0.1")], "x-photofinish-budget", "\\\"budget\\\" to overrides"),
    ] {
        let response = ask("usual", headers).await;
        assert_eq!((response.status, response.error_code().as_str()), (403, "photofinish_forbidden_override"));
        assert!(response.body.contains(named) && response.body.contains(setting), "{}", response.body);
    }
    assert!(fakes.iter().all(|fake| fake.requests().is_empty()), "what is refused costs nothing");
    for headers in [&[(policy, "race")][..], &[(policy, "fallback")], &[("x-photofinish-upstreams", "b/m, a/m")]] {
        let response = ask("usual", headers).await;
        assert_eq!((response.status, response.header("x-photofinish-attempts")), (200, "1"), "{headers:?}");
    }
    assert_eq!(ask("policy", &[(policy, "race")]).await.header("x-photofinish-attempts"), "1");
    assert_eq!(ask("policy", &[(attempts, "2")]).await.status, 403, "only what is listed");
    let response = ask("all", &[(policy, "race"), (attempts, "16")]).await;
    assert_eq!((response.status, response.header("x-photofinish-attempts")), (200, "4"));
    gateway.stop().await;
}

#[tokio::test]
async fn a_lower_budget_comes_out_of_the_model_s() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let setup = Setup::over(&[&fake]).race("policy = \"adaptive\"\nbudget = 0.1");
    let gateway = setup.table("[users.ann]\ntoken = \"ann-token\"").start().await;
    let learning = gateway.gateway().learning().clone();
    let mean_cost = |budget: f64| {
        let mut all = learning.cost_budgets().into_iter();
        let (_, cost_budget) = all.find(|(key, _)| key.model == "m" && key.budget() == budget).unwrap();
        cost_budget.lock().unwrap().terms().mean_cost
    };
    assert_eq!(mean_cost(0.1), 0.0);
    let response = ask(&gateway, "ann", "m", ("x-photofinish-budget", "0.05")).await;
    assert_eq!(response.status, 200, "{}", response.body);
    let learning_settles = async {
        while mean_cost(0.1) == 0.0 {
            tokio::task::yield_now().await;
        }
    };
    crate::support::soon("the settlement", learning_settles).await;
    assert_eq!(mean_cost(0.05), mean_cost(0.1), "both learn from the race");
    gateway.stop().await;
}

#[tokio::test]
async fn upstreams_that_callers_name_do_not_displace_learnt_ones() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let gateway = Setup::over(&[&fake]).race("policy = \"fallback\"\nmax_attempts = 1").start().await;
    let learning = gateway.learning();
    let known = learning.upstream("a/m");
    let headers = |budget: String, names: String| {
        let body = json!({"model": "m", "stream": true, "messages": [{}]});
        let gateway = &gateway;
        async move {
            let headers = [("x-photofinish-budget", budget.as_str()), ("x-photofinish-upstreams", names.as_str())];
            read_response(&mut gateway.request(CHAT, &headers, &body).await).await.status
        }
    };
    // The first 20 requests name more upstreams than there are places for names. All requests together use more budgets
    // than there are places for budgets.
    for request in 0..300 {
        let count = if request < 20 { 64 } else { 1 };
        let names: Vec<String> = (0..count).map(|name| format!("a/{request}-{name}")).collect();
        assert_eq!(headers(format!("{}", 1.0 + f64::from(request) / 1e4), names.join(",")).await, 200);
    }
    assert!(std::sync::Arc::ptr_eq(&known, &learning.upstream("a/m")), "what is configured keeps its place");
    assert!(learning.upstreams().len() <= 1_001, "{}", learning.upstreams().len());
    assert!(learning.cost_budgets().len() <= 257, "{}", learning.cost_budgets().len());
    assert!(learning.cost_budgets().iter().any(|(key, _)| key.model == "m" && key.budget() == 0.1));
    gateway.stop().await;
}
