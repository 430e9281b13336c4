//! Compares the document with the router, the questions and real answers. Also checks the bounds of reads.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc;

use http::StatusCode;
use serde_json::Value;
use tempfile::TempDir;

use super::super::routes::routes;
use super::openapi::openapi;
use super::*;
use crate::server::reads::DatabaseReads;
use crate::server::reads::unread;
use photofinish_base::shutdown::Shutdown;
use photofinish_facts::record::{AttemptRecord, RaceRecord, Record, sample};
use photofinish_gateway::proxy::Rejection;
use photofinish_history::recorder::Recorder;
use photofinish_history::report::question::from_pairs;
use photofinish_history::report::{costs, distribution, figures, incidents, races, series, stats, verdicts};
use photofinish_history::store::{Store, StoreReader, VerdictRow};

/// One race with every column filled in, and one with every optional column empty. Both have such attempts.
async fn stored() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    let race = |race: RaceRecord| Record::Race(Box::new(race));
    let attempt = |attempt: AttemptRecord| Record::Attempt(Box::new(attempt));
    let mut batch = vec![race(sample::bare_race(1))];
    for n in [0, 2, 3] {
        let attempts = [sample::won(n), sample::lost(n, 99_000), sample::failed(n)];
        batch.push(race(sample::race(n)));
        batch.extend(attempts.map(attempt));
    }
    store.write(&batch).unwrap();
    let runs = [sample::run(1), sample::bare_run(0)].map(|run| Record::Run(Box::new(run)));
    store.write(&runs).unwrap();
    let incidents = [sample::incident(0), sample::bare_incident(1)];
    store.write(&incidents.map(|incident| Record::Incident(Box::new(incident)))).unwrap();
    (directory, path)
}

/// That a value is as its schema says, which allows no member that it does not describe.
fn assert_fits(document: &Value, schema: &Value, value: &Value, place: &str) {
    let mut whole = schema.clone();
    whole["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&whole).unwrap();
    let problems: Vec<String> =
        validator.iter_errors(value).map(|problem| format!("{}: {problem}", problem.instance_path())).collect();
    assert!(problems.is_empty(), "{place}: {problems:#?}");
}

#[test]
fn every_name_is_explained() {
    let document = openapi();
    let choices = document["components"]["schemas"].as_object().unwrap().iter();
    let choices =
        choices.flat_map(|(name, schema)| schema["anyOf"].as_array().into_iter().flatten().map(move |one| (name, one)));
    let named: Vec<_> = choices.filter(|(_, one)| one["const"].is_string()).collect();
    assert!(named.len() > 60, "{}", named.len());
    for (name, one) in named {
        assert!(one["description"].as_str().is_some_and(|about| about.len() > 3), "{name}: {one}");
    }
}

fn answer_of<'a>(document: &'a Value, path: &str) -> &'a Value {
    let schema = &document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    schema.get("anyOf").map_or(schema, |choices| &choices[0])
}

#[test]
fn the_document_has_every_path_and_no_other() {
    let document = openapi();
    let documented: BTreeSet<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    // `/dashboard/` is the empty page.
    let routes = routes().into_iter().map(|(path, _)| path.replace("{*", "{")).filter(|path| path != "/dashboard/");
    let routes: Vec<String> = routes.collect();
    assert_eq!(documented, routes.iter().map(String::as_str).collect());
}

#[test]
fn every_path_tells_how_the_door_refuses() {
    for (path, operations) in openapi()["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            assert!(operation["responses"]["default"]["description"].is_string(), "{method} {path}");
        }
    }
}

#[test]
fn what_the_document_refers_to_is_there() {
    let document = openapi();
    let text = document.to_string();
    let references: BTreeSet<&str> =
        text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(references.len() > 5);
    for place in &references {
        assert!(document.pointer(place).is_some(), "{place}");
    }
    for schema in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(references.contains(format!("/components/schemas/{schema}").as_str()), "{schema} is used nowhere");
    }
}

#[test]
fn the_document_has_the_parameters_of_the_questions() {
    let document = openapi();
    let parameters = |path: &str| document["paths"][path]["get"]["parameters"].as_array().unwrap().clone();
    let one = |path: &str, name: &str| {
        let found = parameters(path).into_iter().find(|parameter| parameter["name"] == name);
        found.unwrap_or_else(|| panic!("{path} has no {name}"))
    };
    let by = one("/api/stats", "by");
    assert_eq!((&by["schema"]["type"], &by["schema"]["default"]), (&"array".into(), &serde_json::json!(["upstream"])));
    assert!(by["schema"]["items"]["enum"].as_array().unwrap().contains(&"weekday".into()));
    assert_eq!(one("/api/stats", "exact")["schema"]["type"], "boolean");
    assert_eq!(one("/api/history", "metric")["schema"]["default"], "ttft");
    assert_eq!(one("/api/history", "quantile")["schema"]["type"], "number");
    assert_eq!(one("/api/races", "limit")["schema"]["default"], 50);
    assert!(one("/api/races", "outcome")["schema"]["enum"].as_array().unwrap().contains(&"client_gone".into()));
    for path in ["/api/stats", "/api/history", "/api/races"] {
        for parameter in parameters(path) {
            let about = parameter["description"].as_str().unwrap();
            assert!(about.len() > 8 && !about.contains("--"), "{parameter}");
        }
        assert_eq!(one(path, "since")["schema"]["type"], "string");
    }
}

#[tokio::test]
async fn verdicts_are_as_the_document_says() {
    let (_directory, path) = stored().await;
    let (reader, document) = (StoreReader::open(&path).unwrap(), openapi());
    let verdict = VerdictRow {
        at: 1,
        model: "m".into(),
        host: "a/m".into(),
        fact: "stop".into(),
        answer: "no".into(),
        reference: "yes".into(),
        detail: String::new(),
        wrong: true,
    };
    Store::open(&path).unwrap().save_verdicts(&[verdict]).unwrap();
    let found = verdicts::json(&verdicts::ask(&reader).unwrap(), 2);
    assert_eq!(found["verdicts"][0]["wrong"][0]["fact"], "stop");
    assert_fits(&document, answer_of(&document, "/api/verdicts"), &found, "verdicts");
}

#[tokio::test]
async fn answers_are_as_the_document_says() {
    let (_directory, path) = stored().await;
    let reader = StoreReader::open(&path).unwrap();
    let (document, now_us) = (openapi(), sample::STARTED_AT + 60_000_000);
    let pairs = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    for by in ["upstream", "model,user", "hour,weekday", "input,concurrency"] {
        let question: stats::StatsQuestion = from_pairs(&pairs("by", by)).unwrap();
        let answer = stats::ask(&reader, &question, now_us).unwrap();
        let groups = Value::from_iter(figures::objects(&question.by, &answer.groups));
        assert_fits(&document, answer_of(&document, "/api/stats"), &groups, by);
    }
    for (name, value) in ["ttft", "client_ttft", "tok_s", "goodput", "failures", "cost"]
        .map(|metric| ("metric", metric))
        .into_iter()
        .chain([("by", "model"), ("by", "user"), ("by", "concurrency")])
    {
        let question: series::SeriesQuestion = from_pairs(&pairs(name, value)).unwrap();
        let answer = series::ask(&reader, &question, now_us).unwrap();
        let points = Value::from_iter(series::objects(&question, &answer));
        assert!(!points.as_array().unwrap().is_empty());
        assert_fits(&document, answer_of(&document, "/api/history"), &points, value);
    }
    let question: distribution::DistributionQuestion = from_pairs(&[]).unwrap();
    let curves = distribution::ask(&reader, &question, now_us).unwrap().json();
    assert_eq!(curves["upstreams"].as_array().unwrap().len(), 2, "{curves}");
    assert_fits(&document, answer_of(&document, "/api/distribution"), &curves, "curves");
    for by in ["day", "model", "user", "upstream"] {
        let question: costs::CostsQuestion = from_pairs(&pairs("by", by)).unwrap();
        let answer = costs::ask(&reader, &question, now_us).unwrap().json(&no_providers());
        assert!(answer["groups"][0].get(by).is_some() && answer["total"]["attempts"] == 9, "{answer}");
        assert_fits(&document, answer_of(&document, "/api/costs"), &answer, by);
    }
    let question = from_pairs(&pairs("limit", "2")).unwrap();
    let page = races::page(&reader, &question, now_us).unwrap().json();
    assert_eq!(page["next"], sample::race_id(2));
    assert_fits(&document, answer_of(&document, "/api/races"), &page, "page");
    let question = from_pairs(&pairs("before", &sample::race_id(2))).unwrap();
    let page = races::page(&reader, &question, now_us).unwrap().json();
    assert_eq!((page["races"].as_array().unwrap().len(), &page["next"]), (2, &Value::Null));
    assert_fits(&document, answer_of(&document, "/api/races"), &page, "last page");
    let whole = races::one(&reader, &sample::race_id(0)).unwrap().unwrap();
    assert_fits(&document, answer_of(&document, "/api/races/{race_id}"), &whole, "race");
    let question = from_pairs(&pairs("limit", "1")).unwrap();
    let page = photofinish_history::report::runs::page(&reader, &question).unwrap().json();
    assert_eq!(page["next"], sample::race_id(1));
    assert_fits(&document, answer_of(&document, "/api/runs"), &page, "runs");
    for n in 0..2 {
        let run = Value::from(photofinish_history::report::runs::one(&reader, &sample::race_id(n)).unwrap());
        assert_fits(&document, answer_of(&document, "/api/runs/{run}"), &run, "run");
    }
    let question: incidents::IncidentsQuestion = from_pairs(&[]).unwrap();
    let listed = incidents::ask(&reader, &question, now_us).unwrap().json();
    assert_eq!(listed["incidents"].as_array().unwrap().len(), 2);
    assert!(!listed["not_watched"].as_array().unwrap().is_empty());
    assert_fits(&document, answer_of(&document, "/api/incidents"), &listed, "incidents");
    let described = |schema: &str, place: &Value| {
        let properties = document["components"]["schemas"][schema]["properties"].as_object().unwrap().keys();
        assert!(properties.eq(place.as_object().unwrap().keys()), "{schema}: not the columns, or not in their order");
    };
    described("Race", &whole["race"]);
    described("Attempt", &whole["attempts"][0]);
}

fn no_providers() -> photofinish_config::Config {
    photofinish_config::parse("", "config.toml".as_ref(), &|_| None).unwrap()
}

#[tokio::test]
async fn usage_keys_and_their_audit_are_as_the_document_says() {
    use crate::accounts::{AccountAction, AccountRequest, AccountScope};
    use photofinish_history::report::usage::{self, UsageQuestion};
    use photofinish_history::store::{AccountKind, Author};
    let document = openapi();
    let (_directory, path) = stored().await;
    let reader = StoreReader::open(&path).unwrap();
    for by in ["user", "team", "key", "model"] {
        let question: UsageQuestion = from_pairs(&[("by".to_owned(), by.to_owned())]).unwrap();
        let answer = usage::ask(&reader, &question, sample::STARTED_AT + 60_000_000).unwrap().json(&no_providers());
        assert!(answer["groups"][0].get(by).is_some() && answer["total"]["attempts"] == 9, "{answer}");
        assert_fits(&document, answer_of(&document, "/api/usage"), &answer, by);
    }
    let users = "[users.root]\ntoken = \"root-token\"\nrole = \"admin\"";
    let config = photofinish_config::parse(users, "config.toml".as_ref(), &|_| None).unwrap();
    let by = Author { who: "root".into(), origin: "127.0.0.1".into() };
    let store = Store::open(&path).unwrap();
    let done = |kind, action, members: Value| {
        let members = members.as_object().cloned().unwrap_or_default();
        let request = AccountRequest { kind, action, id: String::new(), members };
        request.answer(&config, &store, (&by, &AccountScope::all()), sample::STARTED_AT).unwrap().body
    };
    done(AccountKind::Team, AccountAction::Make, serde_json::json!({ "name": "t", "rpm": 5 }));
    done(AccountKind::User, AccountAction::Make, serde_json::json!({ "name": "ann", "team": "t" }));
    done(AccountKind::Key, AccountAction::Make, serde_json::json!({ "user": "ann", "name": "ci", "expires": "1d" }));
    for (kind, path, least) in
        [(AccountKind::Team, "/api/teams", 1), (AccountKind::User, "/api/users", 2), (AccountKind::Key, "/api/keys", 1)]
    {
        let listed = done(kind, AccountAction::List, Value::Null);
        assert_eq!(listed[format!("{}s", kind.as_str())].as_array().unwrap().len(), least, "{listed}");
        assert_fits(&document, answer_of(&document, path), &listed, path);
    }
    let lines: Vec<Value> = reader.audit(None, None, 9).unwrap().iter().map(audit_line).collect();
    assert_eq!(lines.len(), 3);
    assert_fits(&document, answer_of(&document, "/api/audit"), &lines.into(), "audit");
}

/// The schemas of a report on routing and of the types in it, by name: OpenAPI 3.1 uses JSON Schema 2020-12.
fn of_routing() -> String {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    generator.subschema_for::<photofinish_routing::status::RoutingReport>();
    format!("{:#}\n", Value::from(generator.take_definitions(true)))
}

#[test]
fn how_routing_stands_is_as_the_document_says() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/server/api/routing.json");
    if std::env::var_os("PHOTOFINISH_BLESS").is_some() {
        std::fs::write(file, of_routing()).unwrap();
    }
    let how = "PHOTOFINISH_BLESS=1 cargo test -p photofinish-serve writes it";
    assert!(std::fs::read_to_string(file).unwrap() == of_routing(), "{file} is out of date; {how}");
    let document = openapi();
    let predicted = serde_json::json!([{ "input_tokens": 500, "ttft_p50_ms": 200.5, "ttft_p95_ms": null, "whole_p50_ms": 900.5, "whole_p95_ms": null }]);
    let told = serde_json::json!({
        "now_us": 1, "left_out": 0,
        "upstreams": [{
            "upstream": "a/m", "models": ["m"], "on": true, "predicted": predicted, "whole_answers": false, "level": 0.1, "level_factor": 1.1,
            "load_slope": 0.2, "tpot_ms": null, "samples": 3.5, "launches": 4, "in_flight": 1, "throttled": false,
            "caching": 0.5, "breaker": "due", "breaker_wait_s": null, "cooling_down_s": 2.5, "last_observation_s": 1.5, "learnt": ["chat: without seed"], "refuses": ["refused 5 of 5 requests with tools: 400"], "quality": [{
                "model": "m", "worse": "calls", "judged": 170.5, "broken_share": 0.1, "others_broken_share": 0.01,
            }],
        }],
        "models": [{
            "model": "m", "alias_of": null, "policy": "adaptive", "learns": true, "optimise": "ttft", "budget": 0.1,
            "bucket": null, "bucket_capacity": 0.0, "extras_share": null, "rescues_share": 0.02, "unit": "tokens", "lambda_ms": 300.0, "mean_cost": 0.0,
            "ttft_p99_ms": 2000.0, "answer_tokens": 200.0, "whole_answers": true, "order": ["a/m"],
            "why": [{ "upstream": "a/m", "code": "best", "text": "the best for ttft" }],
        }],
    });
    // The report survives being read and written again.
    let read: photofinish_routing::status::RoutingReport = serde_json::from_value(told.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), told);
    assert_fits(&document, answer_of(&document, "/api/routing"), &told, "routing");
}

#[test]
fn the_configuration_is_as_the_document_says() {
    let text = "[providers.one]\nbase_url = \"https://one.example/v1\"\napi_key = \"k\"\ndomain = \"d\"\n\
                [providers.two]\nbase_url = \"https://two.example/v1\"\napi_key = \"${ABSENT}\"\n\
                [models.m]\naliases = [\"n\"]\nupstreams = [{ upstream = \"one/x\", input_price = 1.0, output_price = 2.0, context = 8192 }, \"two/y\"]\n\
                [users.ann]\ntoken = \"t\"\nrole = \"admin\"\noverrides = [\"policy\"]\n[users.bob]\ntoken = \"u\"\n";
    let config = photofinish_config::parse(text, std::path::Path::new("config.toml"), &|_| None).unwrap();
    let (document, mut told) = (openapi(), Value::from(config::configuration(&config, None, None)));
    assert!(told["providers"].as_array().unwrap().len() >= 2 && told["users"].as_array().unwrap().len() == 2);
    for problems in [Value::Null, "config.toml:1:1: what".into()] {
        told["problems"] = problems;
        assert_fits(&document, answer_of(&document, "/api/config"), &told, "configuration");
    }
}

fn reads(path: PathBuf) -> (DatabaseReads, Shutdown) {
    let shutdown = Shutdown::new();
    (DatabaseReads::new(path.into(), Recorder::without_store(), shutdown.clone()), shutdown)
}

#[tokio::test(start_paused = true)]
async fn more_than_a_few_reads_wait_and_are_turned_away() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    drop(Store::open(&path).unwrap());
    let (reads, shutdown) = reads(path);
    let (mut gates, mut running) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let (open, gate) = mpsc::sync_channel::<()>(1);
        let reads = reads.clone();
        running.push(shutdown.spawn(async move { reads.read(move |_| Ok(gate.recv().is_ok())).await }));
        gates.push(open);
        tokio::task::yield_now().await;
    }
    let (fifth, ()) = tokio::join!(reads.read(|_| Ok(())), tokio::time::advance(std::time::Duration::from_secs(6)));
    let response = fifth.unwrap_err().into_response();
    assert_eq!(
        (response.status(), &response.headers()["retry-after"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"5".parse().unwrap())
    );
    for gate in gates {
        gate.send(()).unwrap();
    }
    for read in running {
        assert!(read.await.unwrap().unwrap());
    }
    reads.read(|_| Ok(())).await.unwrap();
}

#[tokio::test]
async fn a_read_ends_with_its_request_and_with_the_gateway() {
    let (_directory, path) = stored().await;
    let (reads, shutdown) = reads(path);
    let endless = |begun: mpsc::SyncSender<()>| {
        move |reader: &StoreReader| -> Result<(), Rejection> {
            begun.try_send(()).ok();
            loop {
                races::page(reader, &from_pairs(&[]).unwrap(), 0).map_err(unread)?;
                std::thread::yield_now();
            }
        }
    };
    let (begun, has_begun) = mpsc::sync_channel(1);
    let left = shutdown.spawn({
        let reads = reads.clone();
        async move { reads.read(endless(begun)).await }
    });
    while has_begun.try_recv().is_err() {
        tokio::task::yield_now().await;
    }
    left.abort();
    assert!(left.await.unwrap_err().is_cancelled());
    let (begun, _has_begun) = mpsc::sync_channel(1);
    let (cut, ()) = tokio::join!(reads.read(endless(begun)), async { shutdown.cancel() });
    assert_eq!(cut.unwrap_err().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(shutdown.finished(std::time::Duration::from_secs(10)).await, "{} still run", shutdown.running());
}
