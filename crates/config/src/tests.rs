//! The config as a whole: every problem with its place, the shipped file, and that nothing secret gets out.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use secrecy::ExposeSecret;

use super::*;

mod built_in;
mod certificates;
mod hosts;
mod limits;
mod model_names;
mod plans;
mod problems;
mod providers;
mod schema;
mod transports;

const SHIPPED: &str = include_str!("../../../config.toml");

fn env(name: &str) -> Option<String> {
    match name {
        "KEY" => Some("planted-key".into()),
        "KEY_2" => Some("planted-key-2".into()),
        "TOKEN" => Some("planted-token".into()),
        "GROQ_API_KEY" => Some(" planted-groq\n".into()),
        "EMPTY" => Some(String::new()),
        "BLANK" => Some(" \n".into()),
        "SPACED" => Some("planted key".into()),
        "PORT" => Some("9000".into()),
        _ => None,
    }
}

/// Every variable that is no setting of the gateway itself is set.
fn every_key(name: &str) -> Option<String> {
    (!name.starts_with("PHOTOFINISH_")).then(|| "k".to_owned())
}

fn good(text: &str) -> Config {
    read(text).unwrap_or_else(|problems| panic!("{problems}\nin {text}"))
}

fn read(text: &str) -> Result<Config, Problems> {
    parse(text, Path::new("config.toml"), &env)
}

fn bad(text: &str) -> Problems {
    match read(text) {
        Ok(_) => panic!("no problem in {text}"),
        Err(problems) => problems,
    }
}

fn keys(provider: &Provider) -> Vec<&str> {
    match &provider.keys {
        Keys::Keys(keys) => keys.iter().map(ExposeSecret::expose_secret).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_empty_file_has_the_defaults() {
    let config = good("");
    assert_eq!(config.server.listen, [Listen::Tcp("127.0.0.1:8080".parse().unwrap())]);
    assert_eq!((config.server.body_max, config.server.drain), (32 << 20, Duration::from_secs(600)));
    assert!(config.source.file().unwrap().is_absolute() && config.store.address.local_file().is_absolute());
    assert!(config.store.address.local_file().ends_with("photofinish.db"));
    assert_eq!(config.store.retention, Retention::For(Duration::from_secs(90 * 86_400)));
    assert_eq!(good("store.retention = \"forever\"").store.retention, Retention::Forever);
    assert_eq!(good("store.retention = \"1d\"").store.retention, Retention::For(Duration::from_secs(86_400)));
    assert_eq!((config.race.policy, config.race.max_attempts, config.race.audit), (Policy::Adaptive, 4, 0.02));
    assert_eq!((config.race.retries, config.race.retry_wait), (1, Duration::from_secs(2)));
    assert_eq!(config.race.timeouts.total, Duration::from_secs(600));
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn the_shipped_config_runs_as_it_is() {
    let config = parse(SHIPPED, Path::new("config.toml"), &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.warnings, Vec::<String>::new());
    assert_eq!(config.server, good("").server);
    assert_eq!(config.race, good("").race, "it shows the defaults");
    assert_eq!(config.store, good("").store);
    let demo = config.model("demo").unwrap();
    assert_eq!(demo.upstreams.len(), 3);
    assert!(demo.upstreams.iter().all(|upstream| upstream.provider.simulate.is_some()));
    let on = config.providers.values().filter(|provider| config.provider_is_on(provider)).count();
    assert_eq!(on, 3, "the real ones are off");
    let lit = parse(SHIPPED, Path::new("config.toml"), &every_key).unwrap();
    assert!(lit.providers.values().all(|provider| lit.provider_is_on(provider)));
    assert!(SHIPPED.lines().count() <= 60);
    let real = config
        .models
        .values()
        .flat_map(|model| &model.upstreams)
        .filter(|upstream| upstream.provider.simulate.is_none());
    for upstream in real {
        let known = upstream.offering.as_ref().unwrap_or_else(|| panic!("{} is not in the catalogue", upstream.name()));
        assert!(!known.is_retired(&crate::hosts::today()) && known.model.is_some(), "{}", upstream.name());
    }
}

#[test]
fn the_commented_examples_of_the_shipped_config_are_right() {
    let code =
        |line: &str| line.strip_prefix("# ").filter(|line| line.starts_with('[') || line.contains(" = ")).is_some();
    let uncomment = |line: &str| if code(line) { line[2..].to_owned() } else { line.to_owned() };
    let text = SHIPPED.lines().map(uncomment).collect::<Vec<_>>().join("\n");
    let folder = certificates::folder();
    let text = ["cert.pem", "key.pem"].iter().fold(text, |text, name| {
        text.replace(&format!("\"{name}\""), &format!("\"{}\"", folder.path().join(name).display()))
    });
    let config = parse(&text, Path::new("config.toml"), &every_key).unwrap_or_else(|p| panic!("{p}"));
    assert!(config.providers.contains_key("my-vllm"));
    assert_eq!(config.users.len(), 1);
}

#[test]
fn a_models_settings_are_the_races_and_its_own() {
    let config = good(
        r#"
        [race]
        max_attempts = 3
        timeouts = { connect = "1s" }
        breaker = { open = "2s" }
        [providers.my-vllm]
        base_url = "http://10.0.0.7:8000/v1/"
        forward_headers = ["X-Trace-Id", "x-trace-id"]
        [models."llama-3.3-70b"]
        upstreams = [
            "groq/meta/llama",
            { upstream = "my-vllm/llama", input_price = 0.0, output_price = 1, weight = 2, timeouts = { idle = "5s" } },
        ]
        policy = "hedge"
        hedge_after = "250ms"
        timeouts = { idle = "7s" }
        breaker = { failures = 0 }
        aliases = ["gpt-4o-mini"]
        "#,
    );
    let model = config.model("gpt-4o-mini").unwrap();
    assert_eq!((model.race.policy, model.race.max_attempts), (Policy::Hedge, 3));
    assert_eq!(model.race.timeouts.connect, Duration::from_secs(1));
    let (open, open_max) = (Duration::from_secs(2), Duration::from_secs(60));
    assert_eq!(model.race.breaker, BreakerSettings { failures: 0, open, open_max });
    assert_eq!(config.race.breaker.failures, 5);
    let [first, second] = model.upstreams.as_slice() else { panic!("two") };
    assert_eq!((first.provider.name.as_str(), first.model.as_str()), ("groq", "meta/llama"), "the first slash");
    assert_eq!(
        (first.timeouts.idle, second.timeouts.idle),
        (Some(Duration::from_secs(7)), Some(Duration::from_secs(5)))
    );
    assert_eq!(
        (second.weight, second.price),
        (2.0, Some(Price { input: 0.0, cached: 0.0, written: 0.0, output: 1.0, long: None }))
    );
    assert_eq!(second.provider.base_url, "http://10.0.0.7:8000/v1");
    assert_eq!(second.provider.forward_headers, ["x-trace-id"]);
    assert_eq!(keys(&first.provider), ["planted-groq"], "no table: the usual variable");
    assert!(matches!(second.provider.keys, Keys::NotConfigured));
    assert_eq!(config.nearest_models("llama-3.1-70b"), ["llama-3.3-70b"]);
    assert!(config.model("nobody").is_none());
}

#[test]
fn a_key_that_is_unset_turns_its_provider_off() {
    for (typed, names) in [
        ("\"${UNSET}\"", vec!["UNSET"]),
        ("\"${EMPTY}\"", vec!["EMPTY"]),
        ("\"${BLANK}\"", vec!["BLANK"]),
        ("\"${UNSET:-}\"", vec!["UNSET"]),
        ("[\"${UNSET}\", \"${EMPTY}\"]", vec!["UNSET", "EMPTY"]),
        ("\"file:/nonexistent/key\"", vec!["file:/nonexistent/key"]),
    ] {
        let config = good(&format!("providers.openai.api_key = {typed}"));
        let Keys::Off(off) = &config.providers["openai"].keys else { panic!("{typed}") };
        assert_eq!(*off, names);
        assert!(!config.provider_is_on(&config.providers["openai"]));
    }
    let config = good("providers.openai.api_key = [\"${UNSET}\", \"${KEY}\", \"${KEY_2}\", \"x${KEY:-}\"]");
    assert_eq!(keys(&config.providers["openai"]), ["planted-key", "planted-key-2", "xplanted-key"]);
    assert!(config.warnings[0].contains("UNSET, which is not set"), "{:?}", config.warnings);
}

#[test]
fn secrets_may_stand_in_files() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "  planted-file\n").unwrap();
    let path = file.path().display();
    let config = good(&format!(
        "providers.openai.api_key = 'file:{path}'\nusers.a = {{token='file:{path}',keys={{openai='file:{path}'}}}}"
    ));
    assert_eq!(keys(&config.providers["openai"]), ["planted-file"]);
    assert_eq!(config.users[0].keys["openai"].expose_secret(), "planted-file");
    assert_eq!(config.users[0].token_sha256, good("users.b.token = \"planted-file\"").users[0].token_sha256);
    std::fs::write(file.path(), "x".repeat(70_000)).unwrap();
    assert!(bad(&format!("users.a.token = 'file:{path}'")).to_string().contains("larger than 64 KiB"));
}

#[test]
fn a_users_unset_key_is_left_out() {
    let config = good("providers.groq.api_key = \"${UNSET}\"\nusers.a = {token=\"${TOKEN}\",keys={groq=\"${UNSET}\"}}");
    assert!(config.users[0].keys.is_empty());
    assert!(config.warnings.iter().any(|warning| warning.starts_with("user a: ")), "{:?}", config.warnings);
    let config = good("providers.groq.api_key = \"${UNSET}\"\nusers.a = {token=\"${TOKEN}\",keys={groq=\"${KEY}\"}}");
    assert!(config.provider_is_on(&config.providers["groq"]), "for those who bring a key");
    assert!(!config.providers["groq"].is_on());
}

#[test]
fn a_token_may_be_given_as_its_hash() {
    // printf %s planted-token | sha256sum
    let token = good("users.a.token = \"${TOKEN}\"").users[0].token_sha256;
    let hex: String = token.iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(good(&format!("users.a.token_sha256 = \"{hex}\"")).users[0].token_sha256, token);
    let same = bad(&format!("users.a.token_sha256 = \"{hex}\"\nusers.b.token = \"${{TOKEN}}\"")).to_string();
    assert!(same.contains("the same token as [users.a]") && !same.contains(&hex), "{same}");
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert!(bad(&format!("users.a.token_sha256 = \"{empty}\"")).to_string().contains("an empty token"));
}

#[test]
fn others_may_reach_it_if_there_are_users() {
    for listen in ["127.0.0.1:0", "[::1]:80", "[::ffff:127.0.0.1]:80", "127.9.9.9:${PORT}"] {
        good(&format!("server.listen = \"{listen}\""));
    }
    let config = good("server.listen = \"[::]:${PORT}\"\nusers.a.token = \"t\"");
    assert_eq!(config.server.listen, [Listen::Tcp("[::]:9000".parse().unwrap())]);
    let several =
        good("server.listen = [\"127.0.0.1:0\", \"127.0.0.1:0\", \"unix:/run/gateway.sock\", \"unix:here.sock\"]");
    let shown: Vec<String> = several.server.listen.iter().map(ToString::to_string).collect();
    let here = std::path::absolute("here.sock").unwrap();
    let here = format!("unix:{}", here.display());
    assert_eq!(shown, ["127.0.0.1:0", "127.0.0.1:0", "unix:/run/gateway.sock", &here]);
}

#[test]
fn proxies_that_are_trusted_are_networks() {
    let config = good("server.trusted_proxies = [\"10.1.2.3/8\", \"192.0.2.7\", \"fd00::/8\"]");
    let trusted: Vec<String> = config.server.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(trusted, ["10.0.0.0/8", "192.0.2.7/32", "fd00::/8"]);
    let all = good("server.trusted_proxies = \"0.0.0.0/0\"");
    assert!(all.warnings.iter().any(|warning| warning.contains("trusts every address")), "{:?}", all.warnings);
}

#[test]
fn simulated_providers_take_what_is_typed() {
    let simulate =
        |text: &str| good(&format!("providers.s.simulate = {text}")).providers["s"].simulate.clone().unwrap();
    assert_eq!(simulate("{}"), Simulation::default());
    let expected = Simulation {
        ttft: Duration::from_millis(600),
        jitter: 0.3,
        tail: 0.02,
        tokens_per_second: 40.0,
        tokens: 10,
        failures: 1.0,
        failure: SimulatedFailure::RateLimit,
        slots: 4,
        slowdown: 0.1,
        prefill: 5_000.0,
        prefix_cache: true,
        tokens_per_event: 16,
        stall: Some(ServerStall { length: Duration::from_secs(2), every: Duration::from_secs(20) }),
        bad_calls: Some(0.1),
        usage: false,
        obeys: true,
        wrong: vec![HostFact::Stop],
        moved: 0.17,
        replicas: 0.5,
        daily: 0.05,
        seed: Some(7),
    };
    let typed = r#"{ ttft = "600ms", jitter = 0.3, tail = 0.02, tokens_per_second = 40, tokens = 10,
                     failures = 1, failure = "429", slots = 4, slowdown = 0.1, prefill = 5000, prefix_cache = true,
                     tokens_per_event = 16, stall = "2s every 20s", bad_calls = 0.1, usage = false, obeys = true,
                     wrong = ["stop"], moved = 0.17, replicas = 0.5, daily = 0.05, seed = 7 }"#;
    assert_eq!(simulate(typed), expected);
}

#[test]
fn the_catalogue_knows_how_a_key_is_sent() {
    let config = good("providers.azure = {base_url=\"https://r.openai.azure.com/openai/v1\",api_key=\"${KEY}\"}");
    assert_eq!(config.providers["azure"].preferred().auth, Auth::Header("api-key".into()));
    assert_eq!(good("[providers.groq]").providers["groq"].preferred().auth, Auth::Bearer);
    assert!(good("[providers.groq]").warnings[0].contains("${GROQ_API_KEY}"));
}

#[test]
fn no_secret_is_in_what_can_be_printed() {
    let text = r#"
        [providers]
        groq.api_key = ["${KEY}", "planted-inline"]
        [users.a]
        token = "${TOKEN}"
        keys = { groq = "planted-own" }
        [race]
        policy = "${KEY}"
        [server]
        listen = "${TOKEN}"
        [models.m]
        upstreams = ["${KEY}"]
    "#;
    let problems = bad(text);
    assert_eq!(problems.list.len(), 3, "{problems}");
    assert!(!format!("{problems} {problems:?}").contains("planted"), "{problems}");
    let config = good(text.split("[race]").next().unwrap());
    assert!(!format!("{config:?}").contains("planted"), "{config:?}");
}

#[test]
fn a_file_that_cannot_be_read_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let source = ConfigSource::find(Some(&path));
    let error = load(&source).unwrap_err().to_string();
    assert!(error.contains("--config PATH") && error.contains("PHOTOFINISH_CONFIG"), "{error}");
    std::fs::write(&path, "#".repeat(2 << 20)).unwrap();
    assert!(load(&source).unwrap_err().to_string().contains("larger than 1 MiB"));
    std::fs::write(&path, "[sever]").unwrap();
    assert!(matches!(load(&source), Err(LoadError::Problems(problems)) if problems.list.len() == 1));
    std::fs::write(&path, "").unwrap();
    assert_eq!(load(&source).unwrap().source, source);
}

#[test]
fn a_hostile_file_ends_soon() {
    let many: String = (0..60_000).map(|n| format!("k{n}=1\n")).collect();
    assert_eq!(bad(&many).more, 59_900);
    let one_line = format!("x = {{{}}}", (0..60_000).map(|n| format!("k{n}=1,")).collect::<String>());
    assert_eq!(bad(one_line.trim_end_matches(',')).list.len(), 1);
    assert!(read(&"[".repeat(100_000)).is_err());
    assert!(read(&format!("a = {}", "[".repeat(100_000))).is_err());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(?s).{0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn any_damage_to_the_shipped_file_is_survived(
        edits in proptest::collection::vec((0..SHIPPED.len(), 0..12_usize, "[a-z0-9\"'${}=\\[\\].:/ \n-]{0,6}"), 1..6)
    ) {
        let mut text: Vec<char> = SHIPPED.chars().collect();
        for (start, length, with) in edits {
            let start = start.min(text.len());
            let end = (start + length).min(text.len());
            text.splice(start..end, with.chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(problems) = read(&text) {
            prop_assert!(!problems.list.is_empty());
            prop_assert!(!problems.to_string().contains("planted"));
        }
    }
}
