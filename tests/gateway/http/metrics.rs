//! `GET /metrics`: the same numbers as the rows, for admins only, with bounded labels and without secrets.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::json;

use crate::harness::answer::{first_text, read_response, silent};
use crate::harness::gateway::{Row, Rows, Setup};
use crate::harness::process::{self, RunningGateway, provider};
use crate::support::{FakeProvider, RawClient, Script, soon};

/// Values by series, as they are written.
struct Page(BTreeMap<String, f64>);

impl Page {
    /// Every line must be of the text format 0.0.4, and no series may come twice.
    fn parse(text: &str) -> Page {
        let mut values = BTreeMap::new();
        let mut families = BTreeMap::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert!(families.insert(name, kind).is_none(), "{line} comes twice");
            } else if !line.starts_with("# HELP ") {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let name = series.split('{').next().unwrap();
                let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
                let known = families.contains_key(name) || families.get(family.unwrap_or("")) == Some(&"histogram");
                assert!(
                    known && ["photofinish_", "gen_ai_client_", "process_"].iter().any(|ours| name.starts_with(ours)),
                    "{line}"
                );
                assert!(values.insert(series.to_owned(), value.parse().unwrap()).is_none(), "{line} comes twice");
            }
        }
        Page(values)
    }

    /// Zero for a missing series.
    fn value(&self, series: &str) -> f64 {
        self.0.get(&full(series)).copied().unwrap_or(0.0)
    }

    /// The sum of all series whose text begins with `start`.
    fn sum(&self, start: &str) -> f64 {
        let start = full(start);
        self.0.iter().filter(|(series, _)| series.starts_with(&start)).map(|(_, value)| value).sum()
    }
}

/// Adds the prefix to the gateway's own names.
fn full(series: &str) -> String {
    if series.starts_with("gen_ai_") { series.to_owned() } else { format!("photofinish_{series}") }
}

/// Compares the metrics with the rows.
fn assert_agree(page: &Page, rows: &Rows) {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut expected = BTreeMap::<String, f64>::new();
    let mut add = |series: String, value: f64| *expected.entry(series).or_default() += value;
    for race in &rows.races {
        let label = label_of(race);
        add(format!("races_total{{outcome=\"{}\"}}", text(&race["outcome"])), 1.0);
        add(format!("model_races_total{{model=\"{label}\",outcome=\"{}\"}}", text(&race["outcome"])), 1.0);
        if let Some(sent) = race["first_token_sent_us"].as_f64() {
            add(format!("client_ttft_seconds_count{{model=\"{label}\"}}"), 1.0);
            add(format!("client_ttft_seconds_sum{{model=\"{label}\"}}"), sent / 1e6);
            let winner = rows.attempts.iter().find(|attempt| {
                attempt["race_id"] == race["race_id"] && attempt["ordinal"] == race["winner"] && race["stream"] == 1
            });
            if let Some(winner) = winner {
                let token = winner["dispatch_us"].as_f64().unwrap() + winner["first_token_us"].as_f64().unwrap();
                add("overhead_seconds_count".to_owned(), 1.0);
                add("overhead_seconds_sum".to_owned(), (sent - token) / 1e6);
            }
        }
    }
    for attempt in &rows.attempts {
        let name = format!("{}/{}", text(&attempt["provider"]), text(&attempt["model_sent"]));
        let label = if attempt["model_sent"] == "m" { name } else { "other".to_owned() };
        add(format!("attempts_total{{upstream=\"{label}\",outcome=\"{}\"}}", text(&attempt["outcome"])), 1.0);
        if let Some(ttft) = attempt["first_token_us"].as_f64() {
            add(format!("attempt_ttft_seconds_count{{upstream=\"{label}\"}}"), 1.0);
            add(format!("attempt_ttft_seconds_sum{{upstream=\"{label}\"}}"), ttft / 1e6);
        }
        add_tokens(attempt, &label, &mut add);
        let race = rows.races.iter().find(|race| race["race_id"] == attempt["race_id"]).unwrap();
        if let Some(usd) = attempt["cost_usd_min"].as_f64() {
            let labels = format!("{{upstream=\"{label}\",model=\"{}\"}}", label_of(race));
            let answers = [&race["winner"], &race["rescued_by"]];
            let is_answer = answers.contains(&&attempt["ordinal"]);
            let is_answered = answers.iter().any(|ordinal| !ordinal.is_null());
            let is_loss = ["lost", "drained"].contains(&text(&attempt["outcome"]).as_str());
            let is_extra = is_loss || is_answered && !is_answer;
            add(format!("extra_cost_usd_total{labels}"), if is_extra { usd } else { 0.0 });
            add(format!("cost_usd_total{labels}"), usd);
        }
    }
    for (series, value) in &expected {
        assert!((page.value(series) - value).abs() < 1e-6, "{series}: {} and not {value}", page.value(series));
    }
    for family in [
        "races_total",
        "model_races_total",
        "attempts_total",
        "client_ttft_seconds_count",
        "attempt_ttft_seconds_count",
        "tokens_total",
        "cost_usd_total",
        "extra_cost_usd_total",
        "gen_ai_client_inference_operation_input_tokens_count",
        "gen_ai_client_inference_operation_output_tokens_count",
        "gen_ai_client_inference_duration_seconds_count",
        "gen_ai_client_inference_time_to_first_chunk_seconds_count",
    ] {
        let rows: f64 = expected.iter().filter(|(series, _)| series.starts_with(family)).map(|(_, value)| value).sum();
        assert!((page.sum(family) - rows).abs() < 1e-6, "{family}: nothing that is not in the rows");
    }
}

fn label_of(race: &Row) -> &'static str {
    if race["model"] == "m" { "m" } else { "other" }
}

fn add_tokens(attempt: &Row, upstream: &str, add: &mut impl FnMut(String, f64)) {
    let (provider, model) = upstream.split_once('/').unwrap_or((upstream, upstream));
    let operation =
        format!("gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"{provider}\",gen_ai_request_model=\"{model}\"");
    for kind in ["input", "cached_input", "output", "reasoning"] {
        if let Some(tokens) = attempt[&format!("{kind}_tokens")].as_f64() {
            add(format!("tokens_total{{upstream=\"{upstream}\",kind=\"{kind}\"}}"), tokens);
            if matches!(kind, "input" | "output") {
                let family = format!("gen_ai_client_inference_operation_{kind}_tokens");
                add(format!("{family}_count{{{operation}}}"), 1.0);
                add(format!("{family}_sum{{{operation}}}"), tokens);
            }
        }
    }
    if attempt["failure"].is_null() {
        if let Some(first) = attempt["first_event_us"].as_f64() {
            let family = "gen_ai_client_inference_time_to_first_chunk_seconds";
            add(format!("{family}_count{{{operation}}}"), 1.0);
            add(format!("{family}_sum{{{operation}}}"), first / 1e6);
        }
        if attempt["outcome"] == "won" {
            add(format!("gen_ai_client_inference_duration_seconds_count{{{operation}}}"), 1.0);
        }
    } else {
        let error = attempt["failure"].as_str().unwrap();
        add(format!("gen_ai_client_inference_duration_seconds_count{{{operation},error_type=\"{error}\"}}"), 1.0);
    }
}

async fn page(addr: SocketAddr, headers: &[(&str, &str)]) -> Page {
    let mut client = RawClient::connect(addr).await;
    client.request("GET", "/metrics", headers, "").await;
    let response = read_response(&mut client).await;
    assert_eq!((response.status, response.header("content-type")), (200, "text/plain; version=0.0.4; charset=utf-8"));
    Page::parse(&response.body)
}

/// Repeats until the condition holds: a client receives the end of its answer a moment before the row is written.
async fn page_when(addr: SocketAddr, headers: &[(&str, &str)], so: impl Fn(&Page) -> bool) -> Page {
    let asking = async {
        loop {
            let page = page(addr, headers).await;
            if so(&page) {
                break page;
            }
        }
    };
    soon("the metrics say so", asking).await
}

#[tokio::test]
async fn the_metrics_say_what_the_rows_say() {
    let a = FakeProvider::answering(|request| match request.json()["model"].as_str() {
        Some("m") => {
            let tokens = Script::sse().role().tokens(&["one", "two", "three"]);
            tokens.finish("stop").usage(7, 3).done().end()
        }
        _ => Script::status(500, &[], "{}"),
    })
    .await;
    let b = FakeProvider::answering(|_| silent()).await;
    let gone = FakeProvider::answering(|_| Script::sse().role().token("x").until_closed()).await;
    let setup = Setup::over(&[&a, &b]).provider("gone", &gone, "");
    let priced =
        ["a", "gone"].map(|name| format!("{{ upstream = \"{name}/m\", input_price = 1.0, output_price = 10.0 }}"));
    let model = format!("[models.m]\nupstreams = [{}, \"b/m\"]", priced.join(", "));
    let gateway = setup.model(&model).start().await;
    let ask = |model: &str, stream: bool| json!({"model": model, "stream": stream, "messages": [{}]});

    // A winner and a loser, streamed and whole; a failure; a client that leaves; a request that is refused.
    for (model, stream) in [("a/m,b/m", true), ("a/m,b/m", false), ("a/made-up", true), ("nobody/m", true)] {
        read_response(&mut gateway.ask(&ask(model, stream)).await).await;
    }
    let mut client = gateway.ask(&ask("gone/m", true)).await;
    client.head().await;
    first_text(&mut client).await;
    page_when(gateway.addr(), &[], |page| page.value("in_flight") == 1.0).await;
    client.close();
    gone.closed(0).await;
    read_response(&mut gateway.streaming().await).await;

    let page = page_when(gateway.addr(), &[], |page| {
        let rows = page.sum("races_total") + page.sum("attempts_total");
        let waiting = page.value("in_flight") + page.value("record_queue");
        page.sum("races_total") == 6.0 && page.value("records_written_total") == rows && waiting == 0.0
    })
    .await;
    assert_eq!(page.value("records_dropped_total"), 0.0);
    assert_eq!(page.value("invariant_violations_total"), 0.0);
    let rows = gateway.stop().await;
    assert_agree(&page, &rows);
    for (series, least) in [
        ("model_races_total{model=\"other\",outcome=\"client_gone\"}", 1.0),
        ("model_races_total{model=\"other\",outcome=\"rejected\"}", 1.0),
        ("model_races_total{model=\"other\",outcome=\"error\"}", 1.0),
        ("cost_usd_total{upstream=\"a/m\",model=\"m\"}", 37e-6),
        ("attempts_total{upstream=\"b/m\",outcome=\"lost\"}", 2.0),
        ("attempts_total{upstream=\"other\",outcome=\"failed\"}", 1.0),
        ("overhead_seconds_count", 2.0),
        ("tokens_total{upstream=\"a/m\",kind=\"output\"}", 6.0),
    ] {
        assert!(page.value(series) >= least, "{series}");
    }
}

async fn with_users() -> (FakeProvider, RunningGateway) {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = format!(
        "{}api_key = \"planted-key\"\n{}",
        provider("one", &fake),
        "[models.m]\nupstreams = [\"one/m\"]\n[users.ann]\ntoken = \"planted-ann\"\nrole = \"admin\"\n\
         [users.bob]\ntoken = \"planted-bob\"\n"
    );
    (fake, process::Setup::new(&config).serve().await)
}

#[tokio::test]
async fn the_metrics_are_for_admins() {
    let (_fake, served) = with_users().await;
    for (headers, status, code) in [
        (&[][..], 401, "photofinish_unauthorized"),
        (&[("x-api-key", "nobody")][..], 401, "photofinish_unauthorized"),
        (&[("x-api-key", "planted-bob")][..], 403, "photofinish_forbidden"),
    ] {
        let (response, heard_code, message) = served.get("/metrics", headers).await.error();
        assert_eq!((response, heard_code.as_str()), (status, code), "{headers:?}: {message}");
    }
    assert_eq!(served.get("/v1/models", &[]).await.status, 401);
    let answer = served.get("/metrics", &[("authorization", "Bearer planted-ann")]).await;
    assert_eq!(answer.status, 200);
    assert_eq!(Page::parse(&answer.body).value("unauthorized_total"), 3.0);
    assert_eq!(served.send("POST", "/metrics", &[("x-api-key", "planted-ann")], "").await.status, 405);
}

#[tokio::test]
async fn a_reload_changes_who_is_an_admin() {
    let (_fake, served) = with_users().await;
    served.setup.configure("[users.bob]\ntoken = \"planted-bob\"\nrole = \"admin\"\n");
    // What it drops is logged before a signal accepts it.
    served.process.logged("1 of 1 models are gone").await;
    served.process.signal("HUP");
    served.process.logged("the new configuration is in force").await;
    assert_eq!(served.get("/metrics", &[("x-api-key", "planted-ann")]).await.status, 401);
    assert_eq!(served.get("/metrics", &[("x-api-key", "planted-bob")]).await.status, 200);
}

#[tokio::test]
async fn no_metric_label_is_chosen_by_a_caller() {
    let (_fake, served) = with_users().await;
    let key = [("x-api-key", "planted-bob"), ("x-photofinish-key-one", "planted-brought")];
    for n in 0..20 {
        for model in [format!("planted-{n}"), format!("one/planted-{n}")] {
            let mut body = process::asking(&model);
            body["messages"][0]["content"] = json!("planted-prompt");
            served.chat(&key, &body).await;
        }
    }
    assert_eq!(served.chat(&key, &process::asking("m")).await.status, 200);
    let admin = [("x-api-key", "planted-ann")];
    let all = |page: &Page| page.sum("races_total") == 41.0 && page.sum("attempts_total") == 21.0;
    let page = page_when(served.addr, &admin, all).await;
    let text = served.get("/metrics", &admin).await.body;
    assert!(!text.contains("planted"), "{text}");
    assert_eq!(page.value("attempts_total{upstream=\"other\",outcome=\"won\"}"), 20.0);
    assert_eq!(page.value("model_races_total{model=\"other\",outcome=\"rejected\"}"), 20.0);
    assert_eq!(page.value("model_races_total{model=\"m\",outcome=\"ok\"}"), 1.0);
    assert_eq!(page.value("user_races_total{user=\"bob\",outcome=\"ok\"}"), 21.0);
    assert_eq!(page.sum("user_races_total"), 41.0, "{text}");
    assert!(page.0.len() < 300, "{text}");
}

/// A strict reader of the format is not here: `tests/grafana` asks a real Prometheus.
#[tokio::test]
async fn who_prefers_open_metrics_gets_the_race_of_a_bucket() {
    let (_fake, served) = with_users().await;
    let answer = served.chat(&[("x-api-key", "planted-bob")], &process::asking("m")).await;
    let race_id = answer.header("x-photofinish-race").to_owned();
    let admin = ("x-api-key", "planted-ann");
    page_when(served.addr, &[admin], |page| page.value("records_written_total") == 2.0).await;
    let open = served.get("/metrics", &[admin, ("accept", "application/openmetrics-text, text/plain; q=0.5")]).await;
    assert_eq!(open.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let exemplars = open.body.lines().filter(|line| line.contains(&format!(" # {{race_id=\"{race_id}\"}} ")));
    let of_families = exemplars.map(|line| line.split('{').next().unwrap()).collect::<Vec<_>>();
    assert_eq!(of_families, ["photofinish_client_ttft_seconds_bucket", "photofinish_attempt_ttft_seconds_bucket"]);
    assert!(open.body.ends_with("\n# EOF\n"), "{}", open.body);
    for line in ["photofinish_build_info{version=\"0.1.0\"} 1", "# TYPE process_cpu_seconds counter"] {
        assert!(open.body.lines().any(|found| found == line), "{}", open.body);
    }
    let text = served.get("/metrics", &[admin, ("accept", "text/plain")]).await;
    assert!(!text.body.contains(&race_id) && !text.body.contains("# EOF"), "{}", text.body);
}
