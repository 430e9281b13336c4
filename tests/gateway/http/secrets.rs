//! Plants keys, tokens and prompts everywhere, then searches everything that the gateway wrote or sent for them.

use serde_json::{Value, json};

use crate::harness::answer::read_response;
use crate::harness::process::{CHAT, RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, RawClient, Request, Script};

const PROMPT: &str = "planted-prompt-7f3a";
/// Long enough to be unique. They must never appear in a place that the gateway writes to.
const SECRETS: [&str; 6] = [
    "sk-planted-shared-a",
    "sk-planted-shared-b",
    "sk-planted-own-of-ann",
    "sk-planted-brought",
    "planted-token-of-ann",
    "planted-token-of-bob",
];

/// Repeats the sent key, in the way that the model's name selects.
fn echo(request: &Request) -> Script {
    let key = request.header("authorization").unwrap_or("Bearer none").trim_start_matches("Bearer ").to_owned();
    let body = request.json();
    let message = format!("Incorrect API key provided: {key}. You asked {PROMPT} and sent Bearer {key}");
    let error = |code: &str| json!({"error": {"message": message, "type": code, "code": code}}).to_string();
    match body["model"].as_str().unwrap() {
        "401" => Script::status(401, &[("x-request-id", "r")], &error("invalid_api_key")),
        "403" => Script::status(403, &[], &error("permission_denied")),
        "400" => Script::status(400, &[], &error("invalid_request_error")),
        "429" => Script::status(429, &[("retry-after", "0")], &error("rate_limit_exceeded")),
        "500-text" => Script::status(500, &[], &message),
        "200-error" => Script::status(200, &[], &error("server_error")),
        // Messages are cut at a length, perhaps in the middle of the key.
        "long" => Script::status(500, &[], &json!({"error": {"message": "x".repeat(1_990) + &key}}).to_string()),
        "frame-first" => Script::sse().role().event(error("server_error")).end(),
        "frame-later" => Script::sse().role().token("a").event(error("server_error")).end(),
        "frame-last" => Script::sse().role().token("a").chunk(format!("data: {}", error("server_error"))).end(),
        "header" => Script::new().head(401, &[("x-request-id", &key), ("content-length", "2")]).raw("{}").end(),
        "cut" => Script::sse().role().token("a").close(),
        "malformed" => Script::sse().event(format!("{{\"choices\": {key}")).end(),
        _ => Script::stream(&["fine"]),
    }
}

async fn echoing() -> [FakeProvider; 2] {
    [FakeProvider::answering(echo).await, FakeProvider::answering_tls(&["h2"], echo).await]
}

const MODELS: [&str; 14] = [
    "401",
    "403",
    "400",
    "429",
    "500-text",
    "200-error",
    "long",
    "frame-first",
    "frame-later",
    "frame-last",
    "header",
    "cut",
    "malformed",
    "fine",
];

/// `one` speaks HTTP/1.1; `two` speaks HTTP/2 over TLS.
async fn gateway(fakes: &[FakeProvider; 2], log: &str) -> RunningGateway {
    let config = format!(
        "server.log = \"{log}\"\n{}api_key = [\"${{SHARED_A}}\", \"file:shared_b\"]\n{}api_key = \"${{SHARED_A}}\"\n{}",
        provider("one", &fakes[0]),
        provider("two", &fakes[1]),
        r#"
        [users.ann]
        token = "${ANN_TOKEN}"
        role = "admin"
        overrides = true
        keys = { one = "${ANN_KEY}", two = "${ANN_KEY}" }
        [users.bob]
        token = "planted-token-of-bob"
        overrides = true
        "#
    );
    let setup = Setup::new(&config)
        .env("SHARED_A", SECRETS[0])
        .env("ANN_KEY", SECRETS[2])
        .env("ANN_TOKEN", SECRETS[4])
        .env("SSL_CERT_FILE", "ca.pem")
        .env("PHOTOFINISH_LOG", "trace,h2=trace,hyper=trace,rustls=trace,sqlx=trace");
    setup.write("ca.pem", fakes[1].ca());
    setup.write("shared_b", SECRETS[1]);
    setup.serve().await
}

/// Callers, each with the headers that carry secrets.
fn callers() -> Vec<Vec<(&'static str, &'static str)>> {
    vec![
        vec![("authorization", "Bearer planted-token-of-bob")],
        vec![("x-api-key", SECRETS[4])],
        vec![("x-api-key", SECRETS[5]), ("x-photofinish-key-one", SECRETS[3]), ("x-photofinish-key-two", SECRETS[3])],
        vec![("x-api-key", "sk-planted-shared-a")],
        vec![("x-api-key", SECRETS[5]), ("x-photofinish-key-nobody", SECRETS[3])],
        vec![("x-api-key", SECRETS[5]), ("x-photofinish-policy", "sk-planted-odd")],
    ]
}

fn leaks(text: &str) -> Vec<&'static str> {
    SECRETS.into_iter().filter(|secret| text.contains(secret)).collect()
}

fn body(model: &str, stream: bool) -> Value {
    let mut body = asking(model);
    body["stream"] = json!(stream);
    body["messages"][0]["content"] = json!(PROMPT);
    body
}

/// Everything that the client receives: the answer's head and body.
async fn seen(served: &RunningGateway, headers: &[(&str, &str)], body: &str) -> String {
    let mut client = RawClient::connect(served.addr).await;
    client.request("POST", CHAT, headers, body).await;
    let answer = read_response(&mut client).await;
    format!("{} {:?} {}", answer.status, answer.headers, answer.body)
}

async fn files(setup: &Setup) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for name in ["photofinish.db", "photofinish.db-wal", "photofinish.db-shm"] {
        if let Ok(bytes) = std::fs::read(setup.path(name)) {
            files.push((name.to_owned(), String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    files
}

#[tokio::test]
async fn no_planted_secret_appears_in_any_output() {
    looks_everywhere("text").await;
}

#[tokio::test]
async fn no_planted_secret_appears_in_a_log_of_json() {
    looks_everywhere("json").await;
}

/// The log is at its most verbose, so it has every span and every decision.
async fn looks_everywhere(log: &str) {
    let fakes = echoing().await;
    let served = gateway(&fakes, log).await;
    let mut found = Vec::new();
    for headers in callers() {
        for model in MODELS {
            for (stream, provider) in [(true, "one"), (false, "one"), (true, "two"), (false, "two")] {
                let name = format!("{provider}/{model}");
                let answer = seen(&served, &headers, &body(&name, stream).to_string()).await;
                if !leaks(&answer).is_empty() {
                    found.push(format!("{name}, stream {stream}, {:?}: {answer}", &headers[1..]));
                }
            }
            // An upstream that cools down after a 401 or a 429 is tried again, so that the next kind is reached too.
            assert_eq!(served.send("POST", "/api/reload", &callers()[1], "").await.status, 200);
        }
    }
    for (path, sent) in [("/readyz", ""), ("/v1/models", ""), ("/metrics", ""), (CHAT, PROMPT)] {
        let method = if sent.is_empty() { "GET" } else { "POST" };
        let answer = served.send(method, path, &callers()[1], sent).await.body;
        if !leaks(&answer).is_empty() || answer.contains(PROMPT) {
            found.push(format!("{path}: {answer}"));
        }
    }
    let mut written = files(&served.setup).await;
    assert!(written.iter().any(|(name, _)| name == "photofinish.db"));
    served.process.signal("TERM");
    assert_eq!(served.process.ended().await, Some(0));
    written.extend(files(&served.setup).await);
    let said = served.process.log();
    assert!(said.contains("the attempt is over") && said.contains("planned"), "the lines of debug level are there");
    written.push(("log".to_owned(), said));
    for (name, text) in written {
        let line = text.lines().find(|line| !leaks(line).is_empty() || line.contains(PROMPT));
        if let Some(line) = line {
            found.push(format!("{name}: {}", line.chars().take(400).collect::<String>()));
        }
    }
    assert!(found.is_empty(), "{} leaks:\n{}", found.len(), found.join("\n"));
    let wins = served.setup.number("SELECT count(*) FROM attempt WHERE outcome = 'won'").await;
    assert_eq!(wins, 12, "three callers were served by two providers, streaming and not");
    let http2 =
        served.setup.number("SELECT count(*) FROM attempt WHERE http_version LIKE '%2%' AND outcome = 'won'").await;
    assert_eq!(http2, 6);
}

#[tokio::test]
async fn commands_print_no_secret() {
    let fakes = echoing().await;
    let served = gateway(&fakes, "text").await;
    for command in [&["check"][..], &["stats"], &["stats", "--json"]] {
        let ran = served.setup.run(command).await;
        assert_eq!((ran.code, leaks(&ran.out), leaks(&ran.err)), (Some(0), vec![], vec![]), "{command:?}");
    }
    // Nor does an invalid config, with the error in the line of a secret.
    let setup = Setup::new(&format!(
        "[providers.one]\napi_key = \"{}\"\nbase_url = \"http://u:{}@h/v1\"\n[users.ann]\ntoken = [\"{}\"]\n\
         tokn = \"{}\"\n",
        SECRETS[0], SECRETS[1], SECRETS[4], SECRETS[5]
    ));
    let ran = setup.run(&["check"]).await;
    assert!(ran.code == Some(2) && leaks(&ran.err).is_empty() && leaks(&ran.out).is_empty(), "{}", ran.err);
    setup.configure(&format!("[providers.one]\napi_key = \"{}\n", SECRETS[0]));
    let ran = setup.run(&["serve"]).await;
    assert!(ran.code == Some(2) && ran.err.contains("not TOML") && leaks(&ran.err).is_empty(), "{}", ran.err);
}
