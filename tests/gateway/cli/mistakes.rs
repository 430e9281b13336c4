//! What a person gets who makes a mistake, in a file or on the command line: the whole list at 80 columns, so that a reader can judge its
//! tone.
//!
//! After a change: `INSTA_UPDATE=always cargo test --test gateway mistakes`, and review the difference. Not for the rules: each has its
//! test where it is.

use std::fmt::Write as _;
use std::net::TcpListener;

use crate::harness::process::{CommandOutput, Setup};

/// The likeliest mistakes in a first `config.toml`, then those of the second day.
const FILES: [&str; 58] = [
    "[models.gpt-4.1]\nupstreams = [\"openai/gpt-4.1\"]",
    "[models.llama-3.3.1]\nupstreams = [\"groq/llama\"]",
    "[models.meta-llama/llama-3]\nupstreams = [\"groq/llama\"]",
    "[models.llama3:8b]\nupstreams = [\"ollama/llama3:8b\"]",
    "[models.\"my model\"]\nupstreams = [\"groq/llama\"]",
    "[models]\nfast = [\"groq/llama\"]",
    "[model.fast]\nupstreams = [\"groq/llama\"]",
    "[models.fast]\nmodel = \"groq/llama\"",
    "[models.fast]\nupstreams = \"groq/llama\"",
    "[models.fast]\nupstreams = [\"gpt-4o\"]",
    "[models.fast]\nupstreams = [\"gorq/llama\"]",
    "[models.fast]\nupstreams = [groq/llama]",
    "[models.fast]\nupstreams = [\"openai/*\"]",
    "[models.\"*\"]\nupstreams = [\"groq/llama\"]",
    "[providers.groq]\napi_key = \"$GROQ_API_KEY\"",
    "[providers.groq]\napi_key = \"GROQ_API_KEY\"",
    "[providers.groq]\napi_key = ${GROQ_API_KEY}",
    "[providers.groq]\napi_key = “${GROQ_API_KEY}”",
    "[providers.groq]\napi_key = \"${GROQ_API_KEYY}\"",
    "[providers.groq]\nkey = \"${GROQ_API_KEY}\"",
    "[providers.mine]\nbase_url = \"http://10.0.0.7\"",
    "[providers.mine]\nbase_url = \"http://10.0.0.7/v1/chat/completions\"",
    "[providers.mine]\nbase_url = \"10.0.0.7/v1\"",
    "[server]\nport = 8080",
    "[server]\nlisten = 127.0.0.1:0",
    "[server]\nlisten = \"localhost:0\"",
    "[server]\nlisten = \"0.0.0.0:0\"",
    "listen = \"127.0.0.1:0\"",
    "[race]\ntimeouts = { first_token = 20 }",
    "[race]\nhedge_after = 500",
    "[race]\nbudget = \"10%\"",
    "[users.alice]\ntoken_sha256 = \"2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90\"",
    "[users.alice]\ntoken = \"fifteen-letters\"",
    "[server]\ncors = [\"*\"]",
    "[race]\npolcy = \"race\"",
    "[race]\nmax_attempts = \"3\"",
    "[race]\nbudget = 10",
    "[race]\nhedge_after = \"1 sec\"",
    "[race]\npolicy = \"fastest-first\"",
    "[race]\npolicy = \"race\"\npolicy = \"hedge\"",
    "[models.fast]\nupstreams = [\"groq/openai/gpt-oss-120\", \"cerebras/gpt-oss-120b\"]",
    "[models.smart]\nupstreams = [\"openai/gpt-5.4-mini\", \"anthropic/claude-sonnet-5\"]",
    "[models.fast]\nupstreams = [{ upstream = \"groq/llama\", weight = 3 }, \"cerebras/llama\"]",
    "[models.fast]\nupstreams = [\"groq/llama\", \"groq/llama\"]",
    "models:\n  fast:\n    upstreams: [groq/llama]",
    "{ \"models\": { \"fast\": { \"upstreams\": [\"groq/llama\"] } } }",
    "[providers.groq]\napi_key = \"file:/nonexistent/key\"",
    "[providers.groq]\nproxy = \"socks5://proxy.invalid\"",
    "[server]\ntls = { cert = \"/nonexistent/cert.pem\", key = \"/nonexistent/key.pem\" }",
    "[store]\nurl = \"postgres://pf:s3?cret@db/photofinish\"",
    "[store]\nretention = \"forever and a day\"",
    "[users.alice]\ntoken = \"the-same-token-0123\"\n[users.bob]\ntoken = \"the-same-token-0123\"",
    "[users.alice]\ntoken = \"${ALICE_TOKEN}\"",
    "[probes]\nevery = \"1h\"",
    "[models.fast]\nupstreams = [\"groq/llama\"]\nshadow = \"fast\"",
    "[models.fast]\nupstreams = [\"groq/llama\"]\nshadow = \"groq/llama\"",
    "[models.fast]\nupstreams = [\"groq/llama\"]\nshadow = \"gorq/llama\"",
    "[models.fast]\nupstreams = [\"groq/llama\"]\nshadow_share = 0.1",
];

/// What is typed, in a folder with two simulated providers and no history. `CLOSED`: a port where nothing listens.
const LINES: [&str; 45] = [
    "srve",
    "serve --wat",
    "serve --listen localhost",
    "check --config absent.toml",
    "check --config .",
    "check --config latin1.toml",
    "check --all",
    "models gpt-oss-12b",
    "models gpt-6",
    "models --provider gorq",
    "models update",
    "models update --from absent.json",
    "models update --from http://example.com/catalogue.json",
    "providers grok",
    "stats",
    "stats --since yesterday-ish",
    "stats --since 2026-01-02T00:00:00Z --until 2026-01-01T00:00:00Z",
    "stats --by moon",
    "stats --slo ttft=soon",
    "stats --json --csv",
    "history",
    "history --metric speed",
    "history export --table races",
    "incidents --since soon",
    "race",
    "race Hello --model nobody",
    "race Hello --model dmeo",
    "race Hello --upstreams sim-a",
    "race Hello --policy quickest",
    "replay --model nobody",
    "replay --policy quickest",
    "report",
    "routing --url http://127.0.0.1:CLOSED",
    "env --url http://127.0.0.1:CLOSED",
    "env vim --url http://127.0.0.1:CLOSED",
    "probe --upstreams nobody/x",
    "verify",
    "verify nobody",
    "verify dmeo",
    "verify demo --reference sim-a",
    "bench",
    "bench nobody/m",
    "bench --show 0190",
    "simulate --failure fire",
    "init",
];

#[tokio::test]
async fn the_text_that_each_mistake_gets() {
    let mut text = String::from("# In the file\n");
    let keys = ["GROQ_API_KEY", "CEREBRAS_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"];
    let setup = keys.into_iter().fold(Setup::new(""), |setup, name| setup.env(name, "planted-key-0123456789"));
    for file in FILES {
        setup.write("config.toml", file);
        private(&setup);
        let ran = setup.run(&["check", "--config", "config.toml"]).await;
        let off = || ran.out.lines().find(|line| line.contains("  off  ")).unwrap_or_default();
        let warnings = ran.out.split_once("\nWarnings\n").map_or_else(off, |(_, warnings)| warnings);
        writeln!(text, "\n{file}\n{}", said(&ran.err, warnings)).unwrap();
        assert!(!ran.err.contains("planted") && !ran.out.contains("planted"), "{}{}", ran.out, ran.err);
    }
    text.push_str("\n\n# On the command line\n");
    let setup = Setup::new(
        "providers.sim-a.simulate = {}\nproviders.sim-b.simulate = {}\nmodels.demo.upstreams = [\"sim-a/x\", \"sim-b/x\"]\n",
    );
    setup.write("latin1.toml", b"# \xe4\n");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for line in LINES {
        let typed = line.replace("CLOSED", &closed.to_string());
        let ran = setup.run(&typed.split(' ').collect::<Vec<_>>()).await;
        let CommandOutput { code, out, err } = &ran;
        assert!(code.is_some_and(|code| code <= 2) && out.is_empty(), "{line}: {code:?}\n{out}{err}");
        let here = setup.path("").display().to_string();
        // What differs from run to run is not broken where it would be.
        let varies = [(here.as_str(), ""), (&closed.to_string(), "CLOSED")];
        let err = match varies.iter().any(|(text, _)| err.contains(text)) {
            true => varies.iter().fold(err.replace("\n  ", " "), |err, (text, name)| err.replace(text, name)),
            false => err.clone(),
        };
        writeln!(text, "\n$ photofinish {line}\n{}", said(&err, "")).unwrap();
    }
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("mistakes", text);
    });
}

/// What is printed, behind a mark, without what the log says besides.
fn said(err: &str, warnings: &str) -> String {
    let log = |line: &&str| line.contains(" INFO ") || line.contains(" WARN ");
    let lines: Vec<&str> = err.lines().filter(|line| !log(line)).chain(warnings.lines()).collect();
    let wide = lines.iter().find(|line| line.chars().count() > 80 && line.trim().contains(' '));
    assert!(wide.is_none() || err.contains("CLOSED") || err.contains(".db"), "{wide:?}");
    lines.iter().map(|line| format!("  │ {line}").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Its keys are no business of others.
fn private(setup: &Setup) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(setup.path("config.toml"), std::fs::Permissions::from_mode(0o600)).unwrap();
}
