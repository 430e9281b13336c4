//! Models without upstreams of their own: which hosts of the catalogue race them, and at what price.

use super::*;
use crate::hosts::Hosting;
use crate::load::built_in;
use crate::offerings::ModelCatalogue;
use crate::provider::ResolvedNames;
use crate::settings::{HostLimits, Precisions};

const CATALOGUE: &str = r#"{
    "format": 1, "date": "2026-11-01", "sources": {},
    "columns": ["id", "model", "input", "output", "status", "retires", "precision", "region", "embedding",
                "dialect"],
    "models": [{"name": "m", "open": true, "precision": "bf16"}, {"name": "m-fp4", "of": "m"}],
    "rows": {
        "groq": [["g", "m", 2, 2], ["g-dear", "m", 9, 9]],
        "cerebras": [["c", "m", 1, 1]],
        "together": [["t-fp8", "m", 0.5, 0.5, null, null, "fp8"]],
        "fireworks": [["f", "m", 0.1, 0.1, null, "2026-11-21"]],
        "deepinfra": [["d", "m", 0.1, 0.1, "deprecated"]],
        "novita": [["n", "m"]],
        "openrouter": [["o", "m", 0.1, 0.1]],
        "sambanova": [["s-fp4", "m-fp4", 4, 4, null, null, "fp4"]],
        "deepseek": [["r", "m", 4, 4, null, null, null, null, null, "responses"]],
        "bedrock": [["b", "m", 1, 1], ["us.b", "m", 3, 3, null, null, null, "us"], ["jp.b", "m", 3, 3, null, null, null, "jp"]],
        "mistral": [["e", "m", 0.1, null, null, null, null, null, true]],
        "openai": [["solo", "only", 1, 1]]
    }
}"#;

const KEYS: [&str; 12] = [
    "SAMBANOVA_API_KEY",
    "DEEPSEEK_API_KEY",
    "GROQ_API_KEY",
    "CEREBRAS_API_KEY",
    "TOGETHER_API_KEY",
    "FIREWORKS_API_KEY",
    "DEEPINFRA_API_KEY",
    "NOVITA_API_KEY",
    "OPENROUTER_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
];

/// The upstreams of the model `m` with these keys, in this order.
fn hosts(keys: &[&str], region: &str, limits: &HostLimits) -> Vec<String> {
    let catalogue = ModelCatalogue::read(CATALOGUE.as_bytes()).unwrap();
    let env = |name: &str| match name {
        "AWS_REGION" => Some(region.to_owned()),
        name => keys.contains(&name).then(|| "planted".to_owned()),
    };
    let config = built_in("", "x.db".into(), None, &env).unwrap();
    let providers: ResolvedNames = config.providers.into_iter().map(|(name, of)| (name, Some(of))).collect();
    let hosting = Hosting { catalogue: &catalogue, providers: &providers, users: &[], today: "2026-11-22".to_owned() };
    let upstreams = hosting.upstreams(catalogue.model("m").unwrap(), limits, Timeouts::default());
    upstreams.iter().map(UpstreamConfig::name).collect()
}

#[test]
fn a_listed_upstream_that_is_retired_is_a_warning_with_its_place() {
    let text = "[models.a]\nupstreams = [\n  \"cerebras/gpt-oss-120b\",\n  \"fireworks/accounts/fireworks/models/gpt-oss-120b\",\n]";
    let config = parse(text, Path::new("f.toml"), &|_| None).unwrap();
    let retired: Vec<&String> = config.warnings.iter().filter(|warning| warning.contains("retired")).collect();
    let expected = "f.toml:4:3: fireworks/accounts/fireworks/models/gpt-oss-120b in [models.a] is retired since 2026-11-07, \
                    according to the catalogue";
    assert_eq!(retired, [expected]);
}

#[test]
fn the_hosts_that_are_on_race_the_cheapest_first() {
    let usual = HostLimits::default();
    assert_eq!(
        hosts(&KEYS, "us-east-1", &usual),
        ["cerebras/c", "groq/g", "bedrock/us.b", "novita/n", "deepinfra/d"],
        "each provider once; an unknown price counts as the dearest; what is deprecated comes last; the retired, the \
         router, variants, what is below the released precision, other regions and dialects, and embeddings are left out"
    );
    assert_eq!(hosts(&["GROQ_API_KEY", "OPENROUTER_API_KEY"], "", &usual), ["openrouter/o", "groq/g"]);
    assert_eq!(hosts(&["AWS_BEARER_TOKEN_BEDROCK"], "ap-northeast-1", &usual), ["bedrock/jp.b"]);
    assert_eq!(hosts(&["AWS_BEARER_TOKEN_BEDROCK"], "eu-west-1", &usual), ["bedrock/b"]);
    assert_eq!(hosts(&["OPENAI_API_KEY"], "", &usual), [""; 0]);
}

#[test]
fn a_table_may_exclude_hosts_by_name_price_and_precision() {
    let usual = HostLimits::default();
    let without = HostLimits { exclude: vec!["cerebras".to_owned()], ..usual.clone() };
    assert_eq!(hosts(&KEYS, "us-east-1", &without), ["groq/g", "bedrock/us.b", "novita/n", "deepinfra/d"]);
    let cheap = HostLimits { price_within: Some(2.0), ..usual.clone() };
    assert_eq!(
        hosts(&["GROQ_API_KEY", "CEREBRAS_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "NOVITA_API_KEY"], "us-east-1", &cheap),
        ["cerebras/c", "groq/g"]
    );
    let any = HostLimits { precision: Precisions::Any, ..usual.clone() };
    let all = hosts(&KEYS, "us-east-1", &any);
    assert!(["together/t-fp8", "sambanova/s-fp4"].iter().all(|low| all.contains(&(*low).to_owned())), "{all:?}");
    let fp8 = HostLimits { precision: Precisions::Listed(vec!["fp8".to_owned()]), ..usual };
    assert_eq!(hosts(&KEYS, "us-east-1", &fp8), ["together/t-fp8"]);
}

fn with_keys(text: &str) -> Result<Config, Problems> {
    let env = |name: &str| matches!(name, "GROQ_API_KEY" | "CEREBRAS_API_KEY").then(|| "planted".to_owned());
    parse(text, Path::new("config.toml"), &env)
}

#[test]
fn without_models_the_catalogue_is_served_and_six_keys_are_not_six_bills() {
    let config = with_keys("").unwrap();
    assert!(config.serves_catalogue && config.warnings.is_empty(), "{:?}", config.warnings);
    let model = config.model("gpt-oss-120b").unwrap();
    let providers: Vec<&str> = model.upstreams.iter().map(|upstream| upstream.provider.name.as_str()).collect();
    assert_eq!(providers, ["groq", "cerebras"]);
    assert_eq!((model.race.policy, model.race.budget), (Policy::Adaptive, 0.1));
    assert!(config.raceable() >= 1);
    assert!(matches!(&model.upstreams[0].price_source, Some(PriceSource::Catalogue(_))));
    assert!(model.upstreams[0].context.is_some());
    let chosen = with_keys("race.policy = \"fallback\"").unwrap();
    assert_eq!(chosen.model("gpt-oss-120b").unwrap().race.policy, Policy::Fallback);
    let listed = with_keys("models.m.upstreams = [\"groq/x\"]").unwrap();
    assert!(!listed.serves_catalogue && listed.model("gpt-oss-120b").is_none());
}

#[test]
fn a_table_without_upstreams_finds_its_hosts_and_keeps_its_settings() {
    let config = with_keys("[models.\"gpt-oss-120b\"]\naliases = [\"quick\"]\nexclude = [\"groq\"]").unwrap();
    let model = config.model("quick").unwrap();
    assert_eq!(model.race.policy, Policy::Adaptive);
    assert_eq!(model.upstreams.iter().map(UpstreamConfig::name).collect::<Vec<_>>(), ["cerebras/gpt-oss-120b"]);
    let off = with_keys("[models.\"claude-sonnet-4-5\"]").unwrap();
    let warned = off.warnings.iter().any(|warning| warning.contains("ANTHROPIC_API_KEY"));
    assert!(warned && off.model("claude-sonnet-4-5").unwrap().upstreams.is_empty(), "{:?}", off.warnings);
    let idle = with_keys("[models.\"gpt-oss-120b\"]\nexclude = \"anthropic\"").unwrap();
    assert!(idle.warnings.iter().any(|warning| warning.contains("does not host it")), "{:?}", idle.warnings);
}

#[test]
fn what_is_wrong_with_such_a_table_is_said() {
    for (text, why) in [
        ("[models.\"gpt-oss-12b\"]", "did you mean \"gpt-oss-120b\""),
        ("[models.\"gpt-oss-120b\"]\nexclude = [\"grok\"]", "unknown provider \"grok\""),
        ("[models.\"gpt-oss-120b\"]\nprecision = \"best\"", "bad value \"best\""),
        ("[models.\"gpt-oss-120b\"]\nprecision = [\"fp9\"]", "bad value \"fp9\""),
        ("[models.\"gpt-oss-120b\"]\nprice_within = 0.5", "price_within"),
        ("[models.\"gpt-oss-120b\"]\nprice_within = nan", "price_within"),
        ("[models.gpt-4.1]", "a name with a dot needs quotes"),
        ("[models.llama-3.3-70b]\npolicy = \"race\"", "a name with a dot needs quotes"),
        ("[models.m]\nupstreams = [\"groq/x\"]\nexclude = [\"groq\"]", "has no effect"),
    ] {
        let problems = with_keys(text).unwrap_err().to_string();
        assert!(problems.contains(why), "{text}: {problems}");
    }
}

#[test]
fn the_file_s_own_prices_and_limits_win_key_by_key() {
    let config = with_keys(
        "models.m.upstreams = [\"groq/openai/gpt-oss-120b\", { upstream = \"cerebras/gpt-oss-120b\", input_price = 7, output_price = 8 }]",
    )
    .unwrap();
    let upstreams = &config.model("m").unwrap().upstreams;
    assert!(matches!(upstreams[0].price_source, Some(PriceSource::Catalogue(_))) && upstreams[0].price.is_some());
    assert_eq!(upstreams[1].price_source, Some(PriceSource::Config));
    assert_eq!(upstreams[1].price.unwrap().output, 8.0);
    assert!(upstreams[1].context.is_some(), "the catalogue's");
}

#[test]
fn a_model_that_is_not_served_names_who_would() {
    let config = with_keys("").unwrap();
    let why = config.why_not_served("claude-sonnet-4-5").unwrap();
    assert!(why.contains("anthropic (ANTHROPIC_API_KEY)"), "{why}");
    let listed = with_keys("models.m.upstreams = [\"groq/x\"]").unwrap();
    assert!(listed.why_not_served("gpt-oss-120b").unwrap().contains("[models.\"gpt-oss-120b\"]"));
    assert_eq!(config.why_not_served("nothing-like-it"), None);
    let lone =
        built_in("", "x.db".into(), None, &|name| (name == "CEREBRAS_API_KEY").then(|| "planted".to_owned())).unwrap();
    let (key, gained) = lone.most_useful_key().unwrap();
    assert!(key.ends_with("_KEY") && gained >= 1, "{key} {gained}");
}

#[test]
fn an_id_that_says_who_serves_it_is_served_by_nobody_else() {
    const NAME: &str = "eu.anthropic.claude-haiku-5-5";
    const PLAIN: &str = "anthropic.claude-haiku-5-5";
    let served_as = |name: &str, keys: &[&str], region: &str| {
        let env = |name: &str| match name {
            "AWS_REGION" => Some(region.to_owned()),
            name => keys.contains(&name).then(|| "planted".to_owned()),
        };
        let config = built_in("", "x.db".into(), None, &env).unwrap();
        let clouds =
            config.models.keys().chain(config.aliases.keys()).filter(|name| name.contains("anthropic.")).count();
        let upstreams: Option<Vec<String>> =
            config.model(name).map(|model| model.upstreams.iter().map(UpstreamConfig::name).collect());
        (upstreams.unwrap_or_default(), clouds > 0)
    };
    let served = |keys: &[&str], region: &str| served_as(NAME, keys, region);
    let keys = ["ANTHROPIC_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"];
    assert_eq!(served_as(PLAIN, &keys[..1], "eu-west-1"), (Vec::new(), false), "nor without a region in it");
    assert_eq!(served_as(PLAIN, &keys, "eu-west-1").0, [format!("bedrock/{PLAIN}")]);
    assert_eq!(served(&keys[..1], "eu-west-1"), (Vec::new(), false), "no other provider answers for it");
    assert_eq!(served(&keys, "eu-west-1"), (vec![format!("bedrock/{NAME}")], true));
    assert_eq!(served(&keys, "us-east-1"), (Vec::new(), true));
}
