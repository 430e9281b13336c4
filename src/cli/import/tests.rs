//! An import against a configuration that says the same, and what it says of the rest.

use std::path::{Path, PathBuf};

use super::litellm::ImportedConfig;
use super::*;
use photofinish_config::{Config, Policy};

/// Every part that has an equal, and some that have none.
const FILE: &str = r#"
model_list:
  - model_name: smart
    litellm_params:
      model: openai/gpt-4o
      api_key: os.environ/KEY_A
      weight: 2
      temperature: 0.2
  - model_name: smart
    litellm_params: { model: openai/gpt-4o, api_key: os.environ/KEY_B }
  - model_name: smart
    litellm_params:
      model: azure/gpt-4o-eu
      api_base: https://eu.openai.azure.com/
      api_version: "2024-10-21"
      api_key: os.environ/AZURE_EU
      rpm: 6
  - model_name: cheap
    litellm_params:
      model: openai/gpt-4o-mini
      api_key: sk-live-0123456789abcdefghij
      timeout: 30
      stream_timeout: 2.5
    model_info: { id: "1", max_input_tokens: 128000, input_cost_per_token: 0.00000015, output_cost_per_token: 6.0e-7 }
  - model_name: us
    litellm_params:
      model: azure/gpt-4o-us
      api_base: https://us.openai.azure.com/
      api_version: "2024-10-21"
      api_key: os.environ/AZURE_US
  - model_name: local
    litellm_params: { model: openai/qwen3, api_base: "http://10.0.0.7:8000/v1", api_key: none }
  - model_name: routed
    litellm_params: { model: openai/deepseek/deepseek-v4, api_base: https://openrouter.ai/api/v1, api_key: os.environ/OPENROUTER_API_KEY }
  - model_name: claude
    litellm_params: { model: bedrock/converse/us.anthropic.claude-sonnet-5, aws_region_name: us-west-2, aws_access_key_id: os.environ/ID, aws_secret_access_key: os.environ/SECRET }
  - model_name: "openai/*"
    litellm_params: { model: "openai/*" }
  - model_name: lost
    litellm_params: { model: unheard/of }
router_settings:
  routing_strategy: latency-based-routing
  num_retries: 3
  allowed_fails: 2
  cooldown_time: 30
  fallbacks: [{ smart: [cheap, gone] }]
  model_group_alias: { gpt-4: smart }
litellm_settings:
  cache: true
  request_timeout: 120
  set_verbose: false
general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
  max_budget: 25
  budget_duration: 30d
"#;

fn imported(file: &str) -> litellm::ImportedConfig {
    litellm::read(file).unwrap()
}

fn parsed(text: &str) -> Config {
    let env = |name: &str| Some(sample(name).to_owned()).filter(|_| !name.starts_with("PHOTOFINISH"));
    config::parse(text, Path::new("config.toml"), &env).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

#[test]
fn what_is_written_is_valid_and_says_the_same() {
    let ImportedConfig { text, models, providers, .. } = imported(FILE);
    assert_eq!((models, providers), (6, 7), "{text}");
    let config = parsed(&text);
    let upstreams = |name: &str| -> Vec<(String, u32)> {
        config.models[name].upstreams.iter().map(|upstream| (upstream.name(), upstream.tier)).collect()
    };
    let named = |list: &[(&str, u32)]| list.iter().map(|(name, tier)| ((*name).to_owned(), *tier)).collect::<Vec<_>>();
    assert_eq!(
        upstreams("smart"),
        named(&[("openai/gpt-4o", 1), ("azure/gpt-4o-eu", 1), ("openai-2/gpt-4o-mini", 2)]),
        "{text}"
    );
    assert_eq!(upstreams("routed"), named(&[("openrouter/deepseek/deepseek-v4", 1)]));
    assert_eq!(upstreams("claude"), named(&[("bedrock/us.anthropic.claude-sonnet-5", 1)]));
    assert_eq!(upstreams("local"), named(&[("10-0-0-7-8000/qwen3", 1)]));
    // A second account and a second resource have the facts of the catalogue.
    assert_eq!(config.providers["openai-2"].vendor, "openai");
    let second = &config.providers["azure-2"];
    assert_eq!((second.vendor.as_str(), second.base_url.as_str()), ("azure", "https://us.openai.azure.com/openai"));
    assert_eq!(second.dialects[0].auth, config.providers["azure"].dialects[0].auth, "the key goes into its header");
    assert_eq!(config.models["smart"].race.policy, Policy::Adaptive);
    let cheap = &config.models["cheap"].upstreams[0];
    assert_eq!(cheap.timeouts.first_token.as_millis(), 2_500);
    for line in [
        "api_key = [\"${KEY_A}\", \"${KEY_B}\"]   # used in turn",
        "default = { temperature = 0.2 }",
        "input_price = 0.15, output_price = 0.6, context = 128000, timeouts = { first_token = \"2500ms\" }",
        "timeouts.total = \"30s\"",
        "retries = 3\ntimeouts.total = \"120s\"\nbreaker = { failures = 3, open = \"30s\", open_max = \"60s\" }",
        "aliases = [\"gpt-4\"]",
        "budget = { month = 25.0 }",
        "token = \"${LITELLM_MASTER_KEY}\"",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn no_key_is_copied_and_what_has_no_equal_is_said_by_line() {
    let ImportedConfig { text, notes, .. } = imported(FILE);
    assert!(!text.contains("sk-live") && !notes.iter().any(|note| note.contains("sk-live")));
    assert!(text.contains("api_key = \"${OPENAI_API_KEY}\""), "{text}");
    for note in [
        "line 17: `rpm`: the provider's own limit",
        "line 21: the file holds a key, which is not copied: set OPENAI_API_KEY to it",
        "line 37: a pattern is no model",
        "line 40: the provider of \"unheard/of\" is not known",
        "line 42: `latency-based-routing` becomes `adaptive`",
        "line 46: the fallback gone is no model of the list",
        "line 49: `cache`: there is no cache of answers",
        "line 55: a budget for 30d becomes one of a calendar month",
    ] {
        assert!(notes.iter().any(|line| line.starts_with(note)), "{note}\n{}", notes.join("\n"));
    }
    assert!(!notes.iter().any(|line| line.contains("set_verbose")), "what is off needs no equal");
}

#[test]
fn no_secret_is_copied_wherever_it_stands() {
    let places = [
        "api_key: PLANTED",
        "aws_region_name: us-east-1, aws_access_key_id: PLANTED, aws_secret_access_key: PLANTED, aws_session_token: PLANTED",
        "extra_headers: { Authorization: Bearer PLANTED, X-Api-Key: PLANTED, x-title: app }",
        "extra_body: { provider: { api_key: PLANTED }, tokens: 5 }",
        "extra_body: { client_secret: [PLANTED] }",
    ];
    for place in places {
        let model = if place.contains("aws") { "bedrock/m" } else { "openai/m" };
        let file = format!("model_list:\n  - model_name: m\n    litellm_params: {{ model: {model}, {place} }}\n");
        let ImportedConfig { text, notes, .. } = imported(&file);
        assert!(!text.contains("PLANTED") && !notes.join(" ").contains("PLANTED"), "{place}: {text}");
        assert!(
            notes.iter().any(|note| note.starts_with("line 3:") && note.contains("not copied")),
            "{place}: {notes:?}"
        );
        parsed(&text);
    }
}

#[test]
fn a_key_pays_for_its_own_model_alone() {
    let of = |user: &str| {
        format!(
            "  - model_name: {user}-gpt\n    litellm_params: {{ model: openai/gpt-4o, api_key: os.environ/{user}_KEY }}\n"
        )
    };
    let ImportedConfig { text, .. } = imported(&format!("model_list:\n{}{}", of("ANN"), of("BOB")));
    let config = parsed(&text);
    let providers: Vec<&str> =
        ["ANN-gpt", "BOB-gpt"].map(|name| config.models[name].upstreams[0].provider.name.as_str()).into();
    assert_eq!(providers, ["openai", "openai-2"]);
    assert!(!text.contains("in turn"), "{text}");
}

#[test]
fn a_file_that_is_there_stays_and_what_is_no_configuration_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("config.yaml"), FILE).unwrap();
    std::fs::write(path("other.yaml"), "services: {}\n").unwrap();
    let ran = |file: PathBuf, to: &str| {
        let options = ImportOptions { from: ImportFormat::Litellm, file, stdout: false };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let ran = run(&path(to), &options, &|_| None, 100, (&mut out, &mut err));
        ran.map(|()| String::from_utf8(err).unwrap()).map_err(|error| format!("{error:#}"))
    };
    let report = ran(path("config.yaml"), "config.toml").unwrap();
    assert!(report.starts_with("6 models at 7 providers.") && report.contains("is written. Next:"), "{report}");
    let written = std::fs::read_to_string(path("config.toml")).unwrap();
    assert!(ran(path("config.yaml"), "config.toml").unwrap_err().contains("stays unchanged"));
    assert_eq!(std::fs::read_to_string(path("config.toml")).unwrap(), written);
    assert!(ran(path("other.yaml"), "new.toml").unwrap_err().contains("has no `model_list`"));
    assert!(ran(path("none.yaml"), "new.toml").unwrap_err().contains("cannot read"));
    assert!(!path("new.toml").exists());
}
