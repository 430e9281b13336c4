//! Which model servers answer on this machine, at the usual address of each, and the models that they have.
//!
//! Not for servers elsewhere: a user configures those.

use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::join_all;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use photofinish_base::shutdown::Shutdown;
use photofinish_config::config::catalogue;
use photofinish_transport::upstream::{Endpoint, GetLimits, UpstreamClient};
use photofinish_wire::protocol::Dialect;

/// A server on this machine that takes longer does not run.
const ANSWER_MAX: Duration = Duration::from_millis(1_500);
/// Bytes of a list of models.
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
    use std::net::Ipv4Addr;

    use serde_json::json;

    use super::*;
    use photofinish_base::machine;
    use photofinish_config::config::Simulation;
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
