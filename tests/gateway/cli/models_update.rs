//! `photofinish models update` and `[catalogue] refresh` against servers that answer well, badly or never.

use std::path::Path;
use std::time::Duration;

use photofinish_base::shutdown::Shutdown;
use photofinish_config::{HttpAddress, tomorrow};
use photofinish_transport::refresh::{CatalogueSigner, LIMITS, UpdateOrigin, receive};
use photofinish_transport::upstream::{GetLimits, UpstreamClient};
use serde_json::{Value, json};

use crate::harness::process::Setup;
use crate::support::{FakeProvider, Script};

const BUILT_IN: &str = include_str!("../../../data/catalogue.json");
const CONFIG: &str = "providers.groq.api_key = \"planted\"\nmodels.m.upstreams = [\"groq/openai/gpt-oss-120b\"]\n";

/// Next to the store.
const FILE: &str = "photofinish.catalogue.json";

/// The built-in catalogue at a later date, with all prices of Groq multiplied.
fn newer(factor: f64) -> String {
    let mut catalogue: Value = serde_json::from_str(BUILT_IN).unwrap();
    catalogue["date"] = json!(tomorrow());
    for row in catalogue["rows"]["groq"].as_array_mut().unwrap() {
        for price in row.as_array_mut().unwrap().iter_mut().skip(2).take(4) {
            *price = price.as_f64().map_or(Value::Null, |usd| json!(usd * factor));
        }
    }
    catalogue.to_string()
}

fn url(server: &FakeProvider) -> String {
    format!("{}/catalogue.json", server.base_url())
}

/// The file with this version; 304 where the request knows it.
async fn versioned(text: String) -> FakeProvider {
    FakeProvider::answering(move |request| match request.header("if-none-match") {
        Some("\"one\"") => Script::new().head(304, &[("etag", "\"one\""), ("content-length", "0")]).end(),
        _ => Script::status(200, &[("etag", "\"one\""), ("last-modified", "Sat, 01 Aug 2026 00:00:00 GMT")], &text),
    })
    .await
}

#[tokio::test]
async fn a_newer_file_is_taken_once_and_then_asked_for_by_its_version() {
    let server = versioned(newer(2.0)).await;
    let setup = Setup::new(CONFIG);
    let update = ["models", "update", "--public-key", "none", "--from", &url(&server)];
    let ran = setup.run(&update).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    for words in
        [format!("the catalogue of {}", tomorrow()).as_str(), "moved by more than 10 %: groq/", "Written to ", FILE]
    {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    let models = setup.run(&["models"]).await.out;
    assert!(models.contains("~$0.30 in, $1.20 out"), "{models}");
    assert!(models.contains(&format!("by the catalogue of {}.\n  The catalogue is /", tomorrow())), "{models}");
    let again = setup.run(&update).await;
    assert!(again.code == Some(0) && again.out.contains("has nothing newer"), "{}{}", again.out, again.err);
    let requests = server.requests();
    assert_eq!((requests.len(), requests[0].header("if-none-match")), (2, None));
    assert_eq!(requests[1].header("if-none-match"), Some("\"one\""));
    assert_eq!(requests[1].header("if-modified-since"), Some("Sat, 01 Aug 2026 00:00:00 GMT"));
    assert!(requests[0].header("authorization").is_none() && requests[0].header("user-agent").is_some());
    // Another file in its place has no version.
    setup.write(FILE, newer(1.0));
    setup.run(&update).await;
    assert_eq!(server.requests()[2].header("if-none-match"), None);
}

#[tokio::test]
async fn an_https_address_needs_a_certificate_that_is_trusted() {
    for alpn in ["h2", "http/1.1"] {
        let text = newer(1.0);
        let server = FakeProvider::answering_tls(&[alpn], move |_| Script::status(200, &[], &text)).await;
        let setup = Setup::new(CONFIG);
        let address = url(&server);
        let update = ["models", "update", "--public-key", "none", "--from", &address];
        let foreign = setup.run(&update).await;
        assert!(foreign.code == Some(1) && foreign.said().contains("cannot get https://"), "{}", foreign.err);
        assert!(!setup.path(FILE).exists());
        setup.write("ca.pem", server.ca());
        let authorities = setup.path("ca.pem").display().to_string();
        let setup = setup.env("SSL_CERT_FILE", &authorities);
        let ran = setup.run(&update).await;
        assert!(ran.code == Some(0) && setup.path(FILE).exists(), "{}", ran.err);
    }
}

#[tokio::test]
async fn prices_that_move_tenfold_need_consent() {
    let server = versioned(newer(10.0)).await;
    let setup = Setup::new(CONFIG);
    let address = url(&server);
    let refused = setup.run(&["models", "update", "--json", "--public-key", "none", "--from", &address]).await;
    let said: Value = serde_json::from_str(&refused.out).unwrap();
    assert_eq!((refused.code, &said["outcome"], &said["date"]), (Some(1), &json!("refused"), &json!(tomorrow())));
    assert!(refused.err.contains("groq/openai/gpt-oss-120b") && refused.err.contains("--accept"), "{}", refused.err);
    assert!(!setup.path(FILE).exists());
    let taken =
        setup.run(&["models", "update", "--accept", "--json", "--public-key", "none", "--from", &address]).await;
    let said: Value = serde_json::from_str(&taken.out).unwrap();
    assert_eq!((taken.code, &said["outcome"]), (Some(0), &json!("written")), "{}", taken.err);
    assert!(setup.path(FILE).exists());
}

#[tokio::test]
async fn an_answer_that_is_no_catalogue_changes_nothing() {
    let whole = newer(1.0);
    let half = whole[..whole.len() / 2].to_owned();
    let large = format!("{}{whole}", " ".repeat(20 << 20));
    for (script, why) in [
        (Script::status(404, &[], "gone"), "the status 404"),
        (Script::status(500, &[], "{}"), "the status 500"),
        (Script::status(304, &[], ""), "the status 304"),
        (Script::status(200, &[], &large), "more than 16777216 bytes"),
        (Script::status(200, &[], &half), "it is no catalogue"),
        (Script::status(200, &[("content-type", "text/html")], "<html>Sign in</html>"), "a page of HTML"),
        (Script::new().head(200, &[("content-length", "9999")]).raw("{"), "cannot get"),
        (Script::status(302, &[("location", "http://example.com/c.json")], ""), "is http: only https"),
        (Script::status(302, &[], ""), "the redirect of"),
    ] {
        let script = script.step(crate::support::Step::Close);
        let server = FakeProvider::start(vec![script]).await;
        let setup = Setup::new(CONFIG);
        let ran = setup.run(&["models", "update", "--accept", "--public-key", "none", "--from", &url(&server)]).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{why}");
        assert!(ran.said().contains(why), "{why}: {}", ran.err);
        assert!(!setup.path(FILE).exists());
    }
}

#[tokio::test]
async fn a_few_redirects_are_followed() {
    let text = newer(1.0);
    let server = FakeProvider::answering(move |request| match request.path.as_str() {
        "/v1/catalogue.json" => Script::status(302, &[("location", "/moved")], ""),
        "/moved" => Script::status(200, &[], &text),
        path => Script::status(301, &[("location", path)], ""),
    })
    .await;
    let setup = Setup::new(CONFIG);
    let ran = setup.run(&["models", "update", "--public-key", "none", "--from", &url(&server)]).await;
    assert!(ran.code == Some(0) && setup.path(FILE).exists(), "{}", ran.err);
    let circle = format!("{}/circle", server.base_url());
    let ran = setup.run(&["models", "update", "--public-key", "none", "--from", &circle]).await;
    assert!(ran.code == Some(1) && ran.err.contains("more than 3 redirects"), "{}", ran.err);
}

#[tokio::test]
async fn a_server_that_stalls_is_given_up() {
    for script in [Script::new().until_closed(), Script::new().head(200, &[]).chunk("{").until_closed()] {
        let server = FakeProvider::start(vec![script]).await;
        let shutdown = Shutdown::new();
        let client = UpstreamClient::new(shutdown.clone()).unwrap();
        let origin = UpdateOrigin::Url(HttpAddress::parse_secure(&url(&server)).unwrap());
        let limits = GetLimits { time: Duration::from_millis(50), ..LIMITS };
        let error = receive(&origin, &CatalogueSigner::Unsigned, Path::new("catalogue.json"), &client, limits)
            .await
            .err()
            .unwrap();
        assert!(error.to_string().contains("not complete within 50ms"), "{error}");
        shutdown.cancel();
    }
}

#[tokio::test]
async fn an_origin_is_needed_and_has_to_be_safe() {
    let setup = Setup::new(CONFIG);
    for (args, why) in [
        (&["models", "update"][..], "no usual address"),
        (&["models", "update", "--public-key", "none", "--from", "http://example.com/c.json"], "only https"),
        (
            &["models", "update", "--public-key", "none", "--from", "ftp://example.com/c.json"],
            "does not begin with https://",
        ),
    ] {
        let ran = setup.run(args).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{why}");
        assert!(ran.said().contains(why), "{why}: {}", ran.err);
    }
    setup.configure("catalogue.refresh = \"http://example.com/c.json\"");
    let ran = setup.run(&["check"]).await;
    assert!(ran.code == Some(2) && ran.err.contains("\"refresh\" in [catalogue] is http"), "{}", ran.err);
}

#[tokio::test]
async fn a_running_gateway_refreshes_its_catalogue_where_it_is_asked_to() {
    let server = versioned(newer(2.0)).await;
    let served =
        Setup::new(&format!("catalogue.public_key = \"none\"\ncatalogue.refresh = \"{}\"\n{CONFIG}", url(&server)))
            .serve()
            .await;
    served.process.logged(&format!("a newer catalogue of models, of {}, came from http://", tomorrow())).await;
    served.process.logged(&format!("catalogue of models: {}, /", tomorrow())).await;
    served.process.logged("the new configuration is in force").await;
    let setup = served.stop().await;
    // The next start does not ask again on the same day.
    let served = setup.serve().await;
    served.process.logged(&format!("catalogue of models: {}, /", tomorrow())).await;
    served.stop().await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_running_gateway_takes_nothing_that_needs_consent() {
    let server = versioned(newer(10.0)).await;
    let served =
        Setup::new(&format!("catalogue.public_key = \"none\"\ncatalogue.refresh = \"{}\"\n{CONFIG}", url(&server)))
            .serve()
            .await;
    let line = served.process.logged("is not taken").await;
    assert!(line.contains("models update --accept"), "{line}");
    assert!(!served.setup.path(FILE).exists());
    let setup = served.stop().await;
    // The next start asks for another version only, and warns again.
    let served = setup.serve().await;
    assert_eq!(after_time(&served.process.logged("is not taken").await), after_time(&line));
    let setup = served.stop().await;
    assert_eq!(server.requests()[1].header("if-none-match"), Some("\"one\""));
    let taken = setup.run(&["models", "update", "--accept"]).await;
    assert!(taken.code == Some(0) && taken.out.contains("Written to"), "{}", taken.err);
}

/// A line of the log without its time.
fn after_time(line: &str) -> &str {
    line.split_once(' ').unwrap().1
}

#[tokio::test]
async fn a_file_older_than_the_built_in_one_is_nothing_newer() {
    let mut catalogue: Value = serde_json::from_str(BUILT_IN).unwrap();
    catalogue["date"] = json!("2026-01-01");
    let server = versioned(catalogue.to_string()).await;
    let mut setup =
        Setup::new(&format!("catalogue.public_key = \"none\"\ncatalogue.refresh = \"{}\"\n{CONFIG}", url(&server)));
    for _ in 0..2 {
        let served = setup.serve().await;
        let line = served.process.logged("has nothing newer").await;
        assert!(line.contains("INFO") && line.contains("of 2026-01-01, older than the built-in one"), "{line}");
        assert!(!served.process.log().contains("the next try"), "{}", served.process.log());
        setup = served.stop().await;
    }
    let known: Vec<_> = server.requests().iter().map(|request| request.header("if-none-match").is_some()).collect();
    assert_eq!(known, [false, true]);
    let ran = setup.run(&["models", "update", "--accept"]).await;
    assert!(
        ran.code == Some(1) && ran.said().contains("of 2026-01-01, older than the built-in catalogue"),
        "{}",
        ran.err
    );
    assert!(!setup.path(FILE).exists());
}

/// One row, signed by minisign's form with [`SIGNER`]; its secret key does not exist.
const SIGNED: &str = include_str!("signed/catalogue.json");
const SIGNATURE: &str = include_str!("signed/catalogue.json.minisig");
const SIGNER: &str = "RWQmfU+9ieC6nertIja/ww0eTYEH93tg/+W/plgA861Sw//mB0UZctQn";
/// The key of minisign's own releases.
const ANOTHER: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

/// A catalogue brings what a model demands that this program has never heard of.
#[tokio::test]
async fn a_new_model_gets_the_requests_that_a_newer_catalogue_says() {
    let answer = r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}"#;
    let fake = FakeProvider::answering(move |_| {
        Script::status(200, &[("content-type", "text/event-stream")], &format!("data: {answer}\n\n"))
    })
    .await;
    let setup = Setup::new(&format!(
        "[providers.google]\nbase_url = \"{}\"\ndialect = \"gemini\"\napi_key = \"planted\"\n",
        fake.base_url()
    ));
    let mut catalogue: Value = serde_json::from_str(&newer(1.0)).unwrap();
    let rule = json!({"dialect": "gemini", "names": ["*gemini-9*"],
        "quirks": {"thinking": "budget", "thinking_max": 2_000, "schemas_with_tools": false}});
    catalogue["rules"].as_array_mut().unwrap().insert(0, rule);
    setup.write("new.json", catalogue.to_string());
    let from = setup.path("new.json").to_str().unwrap().to_owned();
    let body = json!({"model": "google/gemini-9-flash", "stream": true, "reasoning_effort": "high",
        "messages": [{"role": "user", "content": "hello"}]});
    let served = setup.serve().await;
    assert_eq!(served.chat(&[], &body).await.status, 200);
    let ran = served.setup.run(&["models", "update", "--accept", "--public-key", "none", "--from", &from]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.said());
    assert_eq!(served.send("POST", "/api/reload", &[], "").await.status, 200);
    assert_eq!(served.chat(&[], &body).await.status, 200);
    served.stop().await;
    for (number, expected) in [
        json!({"includeThoughts": true, "thinkingLevel": "HIGH"}),
        json!({"includeThoughts": true, "thinkingBudget": 2_000}),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(fake.request(number).await.json()["generationConfig"]["thinkingConfig"], expected, "{number}");
    }
}

#[tokio::test]
async fn a_file_counts_if_the_signer_signed_it() {
    let server = |text: String, signature: Option<&'static str>| {
        FakeProvider::answering(move |request| match (request.path.ends_with(".minisig"), signature) {
            (true, Some(signature)) => Script::status(200, &[], signature),
            (true, None) => Script::status(404, &[], ""),
            (false, _) => Script::status(200, &[], &text),
        })
    };
    let (changed, good) = (SIGNED.replace("0.15", "0.01"), SIGNED.replace("2999-01-01", &tomorrow()));
    for (text, signature, key, why) in [
        (SIGNED, None, Some(SIGNER), "it is not signed: http://"),
        (SIGNED, Some(SIGNATURE), Some(ANOTHER), "it is signed by another key"),
        (&changed, Some(SIGNATURE), Some(SIGNER), "its signature does not fit"),
        (SIGNED, Some("<html>"), Some(SIGNER), "is no signature of minisign"),
        (SIGNED, Some(SIGNATURE), Some("RWQx"), "the public key is not one of minisign"),
        (SIGNED, Some(SIGNATURE), None, "has to be signed: give the public key of minisign"),
        // All of these are signed well, and of a day to come.
        (SIGNED, Some(SIGNATURE), Some(SIGNER), "it is of 2999-01-01, a day to come"),
        (SIGNED, None, Some("none"), "it is of 2999-01-01, a day to come"),
        (&good, None, Some("none"), ""),
    ] {
        let server = server(text.to_owned(), signature).await;
        let setup = Setup::new(CONFIG);
        setup.write("new.json", text);
        let file = setup.path("new.json");
        if let Some(signature) = signature {
            setup.write("new.json.minisig", signature);
        }
        for from in [url(&server), file.to_str().unwrap().to_owned()] {
            let mut args = vec!["models", "update", "--accept", "--from", &from];
            args.extend(key.iter().flat_map(|key| ["--public-key", key]));
            let ran = setup.run(&args).await;
            assert_eq!(setup.path(FILE).exists(), why.is_empty(), "{from} {key:?}: {}{}", ran.out, ran.err);
            let why = why.strip_suffix(": http://").unwrap_or(why);
            assert!(ran.said().contains(why) && (ran.code == Some(0)) == why.is_empty(), "{why}: {}", ran.err);
        }
    }
}

#[tokio::test]
async fn a_running_gateway_takes_what_the_signer_of_its_configuration_signed() {
    let server = FakeProvider::answering(|request| match request.path.ends_with(".minisig") {
        true => Script::status(200, &[], SIGNATURE),
        false => Script::status(200, &[], SIGNED),
    })
    .await;
    for (key, logged) in [
        ("", "`public_key` under [catalogue] has to say who signs it"),
        (ANOTHER, "it is signed by another key"),
        (SIGNER, "a day to come"),
    ] {
        let key = if key.is_empty() { String::new() } else { format!("catalogue.public_key = \"{key}\"\n") };
        let served = Setup::new(&format!("catalogue.refresh = \"{}\"\n{key}{CONFIG}", url(&server))).serve().await;
        served.process.logged(logged).await;
        assert!(!served.setup.path(FILE).exists());
        served.stop().await;
    }
}
