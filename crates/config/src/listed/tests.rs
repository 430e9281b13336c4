//! What lists change: which ids they have, and whose models are served by name.

use std::path::Path;

use super::*;

/// With a key for every provider that reads one of these variables.
fn config(text: &str, keys: &[&str]) -> Config {
    let env = |name: &str| keys.contains(&name).then(|| "planted".to_owned());
    crate::parse(text, Path::new("x"), &env).unwrap()
}

fn lists(of: &[(&str, &[&str])]) -> ProviderLists {
    let list =
        |ids: &[&str]| ProviderList::new(ids.iter().map(|id| (*id).to_owned()).collect(), "2026-11-22 06:30 UTC");
    of.iter().map(|(provider, ids)| ((*provider).to_owned(), Arc::new(list(ids)))).collect()
}

/// Each upstream of a model; in brackets if its provider does not list it.
fn upstreams(config: &Config, model: &str) -> Vec<String> {
    let name = |upstream: &UpstreamConfig| match upstream.unlisted {
        Some(_) => format!("({})", upstream.name()),
        None => upstream.name(),
    };
    config.model(model).map_or(Vec::new(), |model| model.upstreams.iter().map(name).collect())
}

#[test]
fn a_version_at_the_end_is_no_other_model() {
    let catalogue = ModelCatalogue::built_in();
    let has = |listed: &str, id: &str| ProviderList::new(vec![listed.to_owned()], "").has(catalogue, "openai", id);
    for (listed, id) in [
        ("m", "m"),
        ("Org/M", "org/m"),
        ("m-20251101", "m"),
        ("m-2026-04-23", "m"),
        ("m-0613", "m"),
        ("m-001", "m"),
        ("m-04-17", "m"),
        ("m@20251101", "m"),
        ("m:latest", "m"),
        ("m-latest", "m"),
        ("m-20241022", "m-latest"),
    ] {
        assert!(has(listed, id), "{listed} has {id}");
    }
    for (listed, id) in [
        ("m-mini", "m"),
        ("m-5-20251101", "m"),
        ("m-1", "m"),
        ("m2", "m"),
        ("m", "m-mini"),
        ("m", "m-20251101"),
        ("m:70b", "m"),
        ("n", "m"),
    ] {
        assert!(!has(listed, id), "{listed} has no {id}");
    }
    let dated = ProviderList::new(vec!["claude-opus-4-20250514".to_owned()], "");
    assert!(dated.has(catalogue, "anthropic", "claude-opus-4-0"), "one model by the catalogue");
    assert!(!dated.has(catalogue, "openai", "claude-opus-4-0"));
}

#[test]
fn only_upstreams_that_the_catalogue_found_become_the_last_choice() {
    let text = "models.\"gpt-oss-120b\" = {}\nmodels.mine.upstreams = [\"groq/openai/gpt-oss-120b\", \"groq/ft:mine\"]";
    let read = config(text, &["GROQ_API_KEY", "CEREBRAS_API_KEY"]);
    let gone = lists(&[("groq", &["other"]), ("cerebras", &["gpt-oss-120b"]), ("nobody", &["x"])]);
    let listed = read.with_lists(&gone);
    let mut found = upstreams(&listed, "gpt-oss-120b");
    found.sort();
    assert_eq!(found, ["(groq/openai/gpt-oss-120b)", "cerebras/gpt-oss-120b"]);
    assert_eq!(upstreams(&listed, "mine"), ["groq/openai/gpt-oss-120b", "groq/ft:mine"]);
    let unlisted = read.unlisted(&read.providers["groq"], &gone["groq"]);
    assert_eq!((unlisted.found.len(), unlisted.named.len()), (1, 2), "{unlisted:?}");
    let again = read.with_lists(&lists(&[("groq", &["openai/gpt-oss-120b"])]));
    assert!(again.models["gpt-oss-120b"].upstreams.iter().all(|upstream| upstream.unlisted.is_none()));
}

#[test]
fn a_local_server_s_models_are_served_by_name_and_join_their_model() {
    let ids: &[&str] = &["llama3.2:3b", "openai/gpt-oss-120b", "groq/x", "nomic-embed-text"];
    let servers = "[providers]\nvllm = {}\nollama = {}\nbox = { base_url = \"http://h/v1\", discover = true }\n";
    let read = config(servers, &["GROQ_API_KEY"]);
    let local = lists(&[("vllm", ids), ("ollama", &["llama3.2:3b"]), ("box", &["llama3.2:3b"])]);
    let listed = read.with_lists(&local);
    assert_eq!(upstreams(&listed, "gpt-oss-120b"), ["groq/openai/gpt-oss-120b", "vllm/openai/gpt-oss-120b"]);
    assert_eq!(listed.aliases["openai/gpt-oss-120b"], "gpt-oss-120b");
    assert_eq!(upstreams(&listed, "llama3.2:3b"), ["box/llama3.2:3b", "ollama/llama3.2:3b", "vllm/llama3.2:3b"]);
    assert_eq!(upstreams(&listed, "nomic-embed-text"), ["vllm/nomic-embed-text"]);
    assert!(listed.model("groq/x").is_none(), "a request for it means groq");
    assert_eq!(listed.models["llama3.2:3b"].race.policy, read.models["gpt-oss-120b"].race.policy);
    assert!(read.with_lists(&ProviderLists::new()).model("llama3.2:3b").is_none());
}

#[test]
fn the_file_s_own_models_aliases_and_limits_go_before_a_list() {
    let text = "[providers]\nvllm = {}\n[models.a]\nupstreams = [\"groq/x\"]\naliases = [\"b\"]\n\
                [models.\"gpt-oss-120b\"]\nexclude = [\"vllm\"]\n[models.\"gpt-oss-20b\"]\nupstreams = [\"groq/y\"]\n\
                [models.\"qwen3-32b\"]\nprecision = [\"bf16\"]";
    let read = config(text, &["GROQ_API_KEY"]);
    let ids: &[&str] = &["a", "b", "openai/gpt-oss-120b", "openai/gpt-oss-20b", "Qwen/Qwen3-32B", "glm-4.7", "c"];
    let listed = read.with_lists(&lists(&[("vllm", ids)]));
    assert_eq!(upstreams(&listed, "a"), ["groq/x"]);
    assert_eq!(listed.aliases["b"], "a");
    assert_eq!(upstreams(&listed, "gpt-oss-120b"), ["groq/openai/gpt-oss-120b"]);
    assert_eq!(upstreams(&listed, "gpt-oss-20b"), ["groq/y"]);
    for id in ["openai/gpt-oss-120b", "openai/gpt-oss-20b", "Qwen/Qwen3-32B", "glm-4.7", "c"] {
        assert_eq!(upstreams(&listed, id), [format!("vllm/{id}")], "by its own name");
    }
}

#[test]
fn a_list_that_uses_the_catalogue_s_name_is_held_to_the_limits_of_the_file() {
    let text = "[providers]\nvllm = {}\n[models.\"gpt-oss-120b\"]\nexclude = [\"vllm\"]\n\
                [models.\"gpt-oss-20b\"]\nprecision = [\"bf16\"]\n[models.\"text-embedding-3-small\"]";
    let read = config(text, &["GROQ_API_KEY"]);
    let ids: &[&str] = &["gpt-oss-120b", "gpt-oss-20b", "text-embedding-3-small"];
    let listed = read.with_lists(&lists(&[("vllm", ids)]));
    for id in ids {
        assert!(read.models.contains_key(*id), "{id}");
        assert_eq!(upstreams(&listed, id), upstreams(&read, id), "{id}");
    }
    assert!(listed.served_by_list(&read, &read.providers["vllm"]).is_empty(), "so the log names none");
    let without_limits = config("[providers]\nvllm = {}\n[models.\"gpt-oss-120b\"]", &["GROQ_API_KEY"]);
    let listed = without_limits.with_lists(&lists(&[("vllm", ids)]));
    assert_eq!(upstreams(&listed, "gpt-oss-120b"), ["groq/openai/gpt-oss-120b", "vllm/gpt-oss-120b"]);
    assert_eq!(upstreams(&listed, "text-embedding-3-small"), ["vllm/text-embedding-3-small"], "no table holds it");
}

#[test]
fn ids_that_differ_only_in_case_are_two_models() {
    let read = config("[providers]\nvllm = {}", &[]);
    let listed = read.with_lists(&lists(&[("vllm", &["m", "M", "n"])]));
    for id in ["M", "m", "n"] {
        assert_eq!(upstreams(&listed, id), [format!("vllm/{id}")]);
    }
}

#[test]
fn a_provider_is_asked_if_the_catalogue_says_so_or_the_file_does() {
    let text = "[providers]\ngroq = { api_key = \"k\" }\nxai = { api_key = \"k\", discover = false }\n\
                azure = { api_key = \"k\", base_url = \"http://h/openai/v1\" }\nollama = {}\nown = { base_url = \"http://h/v1\" }\n\
                box = { base_url = \"http://h/v1\", discover = true }\nsim.simulate = {}\n\
                aws = { base_url = \"http://h\", dialect = \"bedrock\", api_key = \"k\", discover = true }";
    let config = config(text, &["MISTRAL_API_KEY"]);
    let asked: Vec<&str> =
        config.providers.values().filter(|of| of.model_list().is_some()).map(|of| of.name.as_str()).collect();
    assert_eq!(asked, ["box", "groq", "mistral", "ollama"]);
    assert!(
        config.warnings.iter().any(|warning| warning.contains("aws: discover has no effect")),
        "{:?}",
        config.warnings
    );
    let local: Vec<&str> =
        config.providers.values().filter(|of| of.serves_its_list()).map(|of| of.name.as_str()).collect();
    assert_eq!(local, ["aws", "box", "ollama", "own", "sim"]);
}

#[test]
fn a_model_that_only_the_list_knows_is_served_by_its_bare_name() {
    let read = config("", &["ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "GROQ_API_KEY", "TOGETHER_API_KEY"]);
    let listed = read.with_lists(&lists(&[
        (
            "anthropic",
            &[
                "claude-newest-9",
                "claude-dated-9-20991120",
                "claude-dated-9-20990101",
                "claude-sonnet-5",
                "gpt-oss-120b",
                "",
            ],
        ),
        (
            "openrouter",
            &["anthropic/claude-newest-9", "maker/only-here-1", "one/twice-1", "other/twice-1", "groq/mine"],
        ),
        ("groq", &["maker/shared-1", "Mixed-1", "mixed-1", "openai/gpt-oss-120b"]),
        ("together", &["maker/shared-1", "openai/gpt-oss-20b"]),
    ]));
    for (name, expected) in [
        ("claude-newest-9", &["anthropic/claude-newest-9"][..]),
        ("claude-dated-9", &["anthropic/claude-dated-9-20991120"]),
        ("claude-dated-9-20991120", &["anthropic/claude-dated-9-20991120"]),
        ("only-here-1", &["openrouter/maker/only-here-1"]),
        ("mine", &["openrouter/groq/mine"]),
        ("Mixed-1", &["groq/Mixed-1"]),
        ("mixed-1", &["groq/mixed-1"]),
        // Two makers, or two providers: nothing says that it is one model.
        ("twice-1", &[]),
        ("shared-1", &[]),
    ] {
        assert_eq!(upstreams(&listed, name), expected, "{name}");
    }
    let model = &listed.models["claude-newest-9"];
    assert_eq!((model.upstreams[0].price, model.race.policy), (None, read.race.policy));
    assert!(
        !upstreams(&listed, "gpt-oss-120b").contains(&"anthropic/gpt-oss-120b".to_owned()),
        "the catalogue knows who hosts it"
    );
    let served = listed.served_by_list(&read, &read.providers["anthropic"]);
    assert_eq!(served.into_iter().collect::<Vec<_>>(), ["claude-dated-9-20991120", "claude-newest-9"]);
    // Models of one's own are all that is served.
    let own = config("[models.m]\nupstreams = [\"anthropic/x\"]", &["ANTHROPIC_API_KEY"]);
    assert_eq!(own.with_lists(&lists(&[("anthropic", &["claude-newest-9"])])).models.len(), 1);
    // A list of any length has a bound.
    let many: Vec<String> = (0..560_000).map(|n| format!("m-{n}-x")).collect();
    let list = Arc::new(ProviderList::new(many, ""));
    assert_eq!(
        read.with_lists(&BTreeMap::from([("groq".to_owned(), list)])).models.len(),
        read.models.len() + SERVED_MAX
    );
}

#[test]
fn a_list_knows_better_than_the_catalogue_what_has_ended_and_a_router_names_whose_model_it_is() {
    let listed = |keys: &[&str]| {
        config("", keys).with_lists(&lists(&[
            ("groq", &["llama-3.3-70b-versatile", "claude-fable-5-2"]),
            ("openrouter", &["google/gemini-4-carbon", "anthropic/claude-fable-5.2", "google/gemini-3.8-flash"]),
        ]))
    };
    let alone = listed(&["GROQ_API_KEY", "OPENROUTER_API_KEY"]);
    assert_eq!(upstreams(&listed(&["GROQ_API_KEY"]), "llama-3.3-70b-versatile"), ["groq/llama-3.3-70b-versatile"]);
    for (name, expected) in [
        ("gemini-4-carbon", &["openrouter/google/gemini-4-carbon"][..]),
        // Another vendor's flagship: the catalogue knows who has it.
        ("claude-fable-5-2", &["openrouter/anthropic/claude-fable-5.2"]),
    ] {
        assert_eq!(upstreams(&alone, name), expected, "{name}");
    }
    let with_google = listed(&["GROQ_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"]);
    assert_eq!(upstreams(&with_google, "gemini-4-carbon"), ["gemini/gemini-4-carbon"]);
}
