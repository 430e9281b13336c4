//! The text of a first configuration: which upstreams race, and what to write for a cheaper policy; and which model servers
//! answer on this machine, at the usual address of each.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::join_all;
use http::{HeaderMap, StatusCode};
use photofinish_base::shutdown::Shutdown;
use photofinish_config::catalogue::{self, CatalogueEntry};
use photofinish_config::{ModelConfig, UpstreamConfig, parse};
use photofinish_transport::upstream::{Endpoint, GetLimits, UpstreamClient};
use photofinish_wire::Dialect;
use serde_json::Value;

/// Models that are tried before others, if a key opens them: capable, cheap and quick ones of each maker.
const MODELS: [&str; 7] = [
    "gpt-oss-120b",
    "llama-3.3-70b-instruct",
    "gpt-5.4-mini",
    "claude-sonnet-5",
    "gemini-3.8-flash",
    "deepseek-v4-flash",
    "mistral-small-latest",
];

/// What is on this machine.
pub(super) struct Surroundings<'e> {
    /// The providers of the catalogue whose variables hold a key.
    pub keys: Vec<&'static CatalogueEntry>,
    pub servers: Vec<LocalServer>,
    /// The variables.
    pub env: &'e dyn Fn(&str) -> Option<String>,
}

/// A first configuration.
pub(super) struct FirstConfig {
    pub text: String,
    /// A model to try it with.
    pub model: String,
    /// Its upstreams.
    pub upstreams: Vec<String>,
    pub is_simulated: bool,
}

/// Every model that the keys and servers open is served by its name, and raced where several host that same model. A table of a model
/// would take the others away, so there is one only where nothing was found.
pub(super) fn first_config(found: &Surroundings<'_>) -> FirstConfig {
    let known = known_models(found);
    let local = found.servers.iter().filter_map(|server| Some(format!("{}/{}", server.name, server.models.first()?)));
    let first = known.into_iter().next().or_else(|| local.map(|upstream| (upstream.clone(), vec![upstream])).next());
    let mut text = head(found);
    let Some((model, upstreams)) = first else {
        text.push_str(SIMULATED);
        let upstreams = ["sim-quick/demo", "sim-steady/demo"].map(str::to_owned).to_vec();
        return FirstConfig { text, model: "demo".to_owned(), upstreams, is_simulated: true };
    };
    text.push_str(POLICIES);
    for LocalServer { name, url, .. } in &found.servers {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[providers.{name}]\nbase_url = \"{url}\"\n");
    }
    let listed: String = upstreams.iter().map(|upstream| format!("#   \"{upstream}\",\n")).collect();
    let _ = write!(text, "{NAMES}# [models.fast]\n# upstreams = [\n{listed}# ]\n");
    FirstConfig { text, model, upstreams, is_simulated: false }
}

const POLICIES: &str = r#"
[race]
policy = "adaptive"    # the best upstream, and others at the same time where that pays
budget = 0.10          # what these may cost on top of single attempts; 0: none
# policy = "race"      # all upstreams at once: the quickest, each is paid
"#;

const NAMES: &str = r#"
# Every model that these providers host is served by its name, and raced where
# two of them host it: `photofinish models` lists them. An app can also name an
# upstream, as PROVIDER/MODEL. A model of your own takes the place of all:
"#;

const SIMULATED: &str = r#"
# Simulated providers: real HTTP on this machine, paced answers, no model. Set a
# key such as GROQ_API_KEY or start Ollama, delete this file, and run
# `photofinish init` again.
[providers.sim-quick]
simulate = { ttft = "120ms", jitter = 0.5, tokens_per_second = 40 }

[providers.sim-steady]
simulate = { ttft = "250ms", jitter = 0.4, tokens_per_second = 80 }

[models.demo]
upstreams = ["sim-quick/demo", "sim-steady/demo"]
"#;

/// What the file is, and where it listens if the usual port is taken.
fn head(found: &Surroundings<'_>) -> String {
    let mut text = "# Written by `photofinish init`. `photofinish check` shows what is on. Every key\n\
                    # has a default: docs/configuration.md lists them. The keys of providers stay in\n\
                    # the environment.\n"
        .to_owned();
    if found.servers.iter().any(|server| server.name == "llamacpp") {
        text.push_str("\n[server]\nlisten = \"127.0.0.1:8081\"   # llama.cpp has port 8080\n");
    }
    text
}

/// The models of the catalogue that these keys open, each with its upstreams: those that race first, of them the preferred ones.
fn known_models(found: &Surroundings<'_>) -> Vec<(String, Vec<String>)> {
    let Ok(open) = parse("", Path::new("config.toml"), found.env) else { return Vec::new() };
    let upstreams = |model: &ModelConfig| -> Vec<String> { model.upstreams.iter().map(UpstreamConfig::name).collect() };
    let mut models: Vec<(String, Vec<String>)> =
        open.models.values().map(|model| (model.name.clone(), upstreams(model))).collect();
    let place = |name: &str| MODELS.iter().position(|model| *model == name).unwrap_or(MODELS.len());
    models.sort_by_key(|(name, upstreams)| (upstreams.len() < 2, place(name), Reverse(upstreams.len())));
    models
}

/// How long `init` waits for a server on this machine.
const ANSWER_MAX: Duration = Duration::from_millis(1_500);
/// Bytes of its list of models.
const BODY_MAX: usize = 1 << 20;

/// A model server that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalServer {
    /// The name in the catalogue.
    pub name: String,
    pub url: String,
    /// Names that can be written into the file; without embedding models.
    pub models: Vec<String>,
}

/// The servers that need no key, with their usual addresses.
pub(super) fn usual() -> Vec<(String, String)> {
    let local = catalogue::entries().filter(|entry| entry.key_variable.is_none());
    local.filter_map(|entry| Some((entry.name.clone(), entry.served(Dialect::OpenAi)?.base_url.clone()))).collect()
}

/// Asks each for its models, all at once.
///
/// # Errors
/// When TLS cannot be set up.
pub(super) async fn look(servers: Vec<(String, String)>) -> anyhow::Result<Vec<LocalServer>> {
    let shutdown = Shutdown::new();
    let client = UpstreamClient::new(shutdown.clone()).context("cannot set up TLS")?;
    let look = |(name, url): (String, String)| {
        let client = &client;
        async move {
            let list = models(client, &url).await?;
            Some(LocalServer { models: usable(&list)?, name, url })
        }
    };
    let found = join_all(servers.into_iter().map(look)).await;
    shutdown.cancel();
    Ok(found.into_iter().flatten().collect())
}

/// The answer to `GET /models`. None: there is none.
async fn models(client: &UpstreamClient, url: &str) -> Option<Value> {
    let limits = GetLimits { time: ANSWER_MAX, bytes: BODY_MAX };
    let answer = client.get(Endpoint::parse(url).ok()?, "/models".to_owned(), HeaderMap::new(), limits).await.ok()?;
    if answer.status != StatusCode::OK {
        return None;
    }
    serde_json::from_slice(&answer.body).ok()
}

/// The models of a list. None: it is none, or that of a Photofinish, which is no model server.
fn usable(list: &Value) -> Option<Vec<String>> {
    let entries = list["data"].as_array()?;
    if entries.iter().any(|entry| entry["owned_by"] == "photofinish") {
        return None;
    }
    let is_plain = |name: &&str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:/@+".contains(c);
        (1..=200).contains(&name.len()) && name.chars().all(is_plain) && !name.to_lowercase().contains("embed")
    };
    Some(entries.iter().filter_map(|entry| entry["id"].as_str()).filter(is_plain).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_config::offerings::ModelCatalogue;
    use photofinish_config::{Config, catalogue};

    fn server(name: &str, models: &[&str]) -> LocalServer {
        let models = models.iter().map(|model| (*model).to_owned()).collect();
        LocalServer { name: name.to_owned(), url: "http://127.0.0.1:1/v1".to_owned(), models }
    }

    /// The proposal for these keys, which `check` must accept without a warning, and which serves all that they open.
    fn proposed(providers: &[&str], servers: Vec<LocalServer>) -> FirstConfig {
        let keys: Vec<_> = providers.iter().map(|name| catalogue::find(name).unwrap()).collect();
        let variables: Vec<String> = keys.iter().filter_map(|entry| entry.key_variable.clone()).collect();
        let env = |name: &str| variables.iter().any(|set| set == name).then(|| "key".to_owned());
        let first = first_config(&Surroundings { keys, servers, env: &env });
        let read = |text: &str| parse(text, Path::new("config.toml"), &env).unwrap_or_else(|p| panic!("{p}\n{text}"));
        let config = read(&first.text);
        assert_eq!(config.warnings, Vec::<String>::new(), "{}", first.text);
        if !first.is_simulated {
            let names = |config: &Config| config.models.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&config), names(&read("")), "no name is lost");
        }
        // What it proposes as a comment is right too.
        let own = first.text.split("# [models.fast]").nth(1).map(|own| own.replace("\n# ", "\n"));
        own.iter().for_each(|own| assert_eq!(read(&format!("[models.fast]{own}")).models.len(), 1, "{own}"));
        assert!(first.text.lines().count() <= 50, "{}", first.text);
        first
    }

    #[test]
    fn everything_is_served_and_only_one_model_races_itself() {
        let ollama = || server("ollama", &["llama3.2:3b", "qwen3:8b"]);
        for (providers, servers, model, upstreams) in [
            (
                &["groq", "cerebras"][..],
                vec![],
                "gpt-oss-120b",
                &["groq/openai/gpt-oss-120b", "cerebras/gpt-oss-120b"][..],
            ),
            (
                &["openai", "openrouter"],
                vec![],
                "gpt-5.4-mini",
                &["openai/gpt-5.4-mini", "openrouter/openai/gpt-5.4-mini"],
            ),
            // No model in common, so nothing races.
            (&["openai", "anthropic"], vec![], "gpt-5.4-mini", &["openai/gpt-5.4-mini"]),
            (&["anthropic"], vec![ollama()], "claude-sonnet-5", &["anthropic/claude-sonnet-5"]),
            (&[], vec![ollama(), server("vllm", &["m"])], "ollama/llama3.2:3b", &["ollama/llama3.2:3b"]),
            // Nothing, or nothing whose models are known.
            (&[], vec![], "demo", &["sim-quick/demo", "sim-steady/demo"]),
            (&["azure"], vec![server("ollama", &[])], "demo", &["sim-quick/demo", "sim-steady/demo"]),
        ] {
            let first = proposed(providers, servers);
            assert_eq!(
                (first.model.as_str(), &first.upstreams[..]),
                (model, &upstreams.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>()[..])
            );
        }
    }

    #[test]
    fn every_key_at_once_still_fits() {
        let all: Vec<&str> = catalogue::entries().map(|entry| entry.name.as_str()).collect();
        let servers = ["ollama", "vllm", "lmstudio", "llamacpp"].map(|name| server(name, &["m"])).to_vec();
        let first = proposed(&all, servers);
        assert!(first.upstreams.len() > 3, "{:?}", first.upstreams);
        assert!(first.text.contains("listen = \"127.0.0.1:8081\"") && first.text.contains("[providers.vllm]"));
    }

    #[test]
    fn the_preferred_models_are_in_the_catalogue() {
        let catalogue = ModelCatalogue::built_in();
        let lacking: Vec<_> = MODELS.iter().filter(|name| catalogue.model(name).is_none()).collect();
        assert!(lacking.is_empty(), "{lacking:?}");
    }
}

#[cfg(test)]
mod local_servers_tests {
    use std::net::Ipv4Addr;

    use serde_json::json;

    use super::*;
    use photofinish_base::machine;
    use photofinish_config::Simulation;
    use photofinish_lab::simulate::Simulator;

    #[tokio::test]
    async fn a_server_that_answers_is_found_with_its_models() {
        let listen = || machine::listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let shutdown = Shutdown::new();
        let simulator = Simulator::start("sim", Simulation::default(), listen(), &shutdown).unwrap();
        let silent = listen();
        let closed = listen().local_addr().unwrap();
        let servers = vec![
            ("vllm".to_owned(), simulator.base_url()),
            ("ollama".to_owned(), format!("http://{}/v1", silent.local_addr().unwrap())),
            ("lmstudio".to_owned(), format!("http://{closed}/v1")),
            ("tgi".to_owned(), simulator.base_url().replace("/v1", "/nowhere")),
        ];
        let found = look(servers).await.unwrap();
        assert_eq!(found.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), ["vllm"]);
        assert!(!found[0].models.is_empty());
        shutdown.cancel();
    }

    #[test]
    fn only_models_that_can_be_raced_count() {
        let list = |ids: &[&str]| json!({ "data": ids.iter().map(|id| json!({ "id": id })).collect::<Vec<_>>() });
        let names = ["llama3.2:3b", "nomic-embed-text", "two words", "a,b", "${KEY}", "org/model", ""];
        assert_eq!(usable(&list(&names)), Some(vec!["llama3.2:3b".to_owned(), "org/model".to_owned()]));
        assert_eq!(usable(&list(&[])), Some(Vec::new()));
        assert_eq!(usable(&json!({ "data": [{ "id": "demo", "owned_by": "photofinish" }] })), None);
        assert_eq!(usable(&json!({ "models": [] })), None);
    }

    #[test]
    fn the_servers_of_the_question_are_looked_for() {
        let usual = usual();
        for name in ["ollama", "vllm", "lmstudio", "llamacpp"] {
            let (_, url) = usual.iter().find(|(usual, _)| usual == name).unwrap();
            assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/v1"), "{url}");
        }
    }
}
