//! The names of everything in a span, and which vendor a provider is.
//!
//! Of generative AI: <https://github.com/open-telemetry/semantic-conventions-genai>, 0.1.0, `docs/gen-ai/client-inference.md`; they are
//! still in development, so a later version may name them anew. The others are of the stable conventions that 0.1.0 depends on.

use http::{Method, Version};

use photofinish_config::Provider;

/// Of the stable conventions: those of generative AI have no published schema.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.45.0";

pub const OPERATION: &str = "gen_ai.operation.name";
pub const PROVIDER: &str = "gen_ai.provider.name";
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
pub const REQUEST_STREAM: &str = "gen_ai.request.stream";
pub const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
pub const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
pub const REQUEST_TOP_K: &str = "gen_ai.request.top_k";
pub const REQUEST_FREQUENCY_PENALTY: &str = "gen_ai.request.frequency_penalty";
pub const REQUEST_PRESENCE_PENALTY: &str = "gen_ai.request.presence_penalty";
pub const REQUEST_SEED: &str = "gen_ai.request.seed";
pub const REQUEST_CHOICES: &str = "gen_ai.request.choice.count";
pub const REQUEST_REASONING: &str = "gen_ai.request.reasoning.level";
pub const PREVIOUS_RESPONSE: &str = "gen_ai.request.previous_response.id";
pub const CONVERSATION: &str = "gen_ai.conversation.id";
pub const OUTPUT_TYPE: &str = "gen_ai.output.type";
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub const RESPONSE_ID: &str = "gen_ai.response.id";
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// Seconds.
pub const FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_write.input_tokens";
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";

pub const SERVER_ADDRESS: &str = "server.address";
pub const SERVER_PORT: &str = "server.port";
pub const HTTP_METHOD: &str = "http.request.method";
pub const HTTP_ROUTE: &str = "http.route";
pub const URL_PATH: &str = "url.path";
pub const URL_SCHEME: &str = "url.scheme";
pub const USER_AGENT: &str = "user_agent.original";
pub const HTTP_STATUS: &str = "http.response.status_code";
pub const HTTP_VERSION: &str = "network.protocol.version";
pub const ERROR_TYPE: &str = "error.type";

// Of a request and its race, in the words of the history.
pub const RACE_ID: &str = "photofinish.race_id";
pub const API: &str = "photofinish.api";
pub const MODEL: &str = "photofinish.model";
pub const POLICY: &str = "photofinish.policy";
pub const OUTCOME: &str = "photofinish.outcome";
pub const ATTEMPTS: &str = "photofinish.attempts";
/// The upstream whose answer the client got.
pub const WINNER: &str = "photofinish.winner";
/// Seconds to the first token that the client was sent.
pub const FIRST_TOKEN: &str = "photofinish.time_to_first_token";
pub const USER: &str = "photofinish.user";
pub const TEAM: &str = "photofinish.team";
/// Of an attempt: `PROVIDER/MODEL` by the names of the configuration.
pub const UPSTREAM: &str = "photofinish.upstream";
pub const ORDINAL: &str = "photofinish.ordinal";
pub const START_REASON: &str = "photofinish.start_reason";
/// The bounds of what it can have cost.
pub const COST_LEAST: &str = "photofinish.cost_usd_min";
pub const COST_MOST: &str = "photofinish.cost_usd_max";

pub const SERVICE_NAME: &str = "service.name";
pub const SERVICE_VERSION: &str = "service.version";
pub const SERVICE_INSTANCE: &str = "service.instance.id";

/// Bytes of a text in an attribute; a longer one is cut.
const TEXT_MAX: usize = 1024;

pub fn cut(text: &str) -> &str {
    if text.len() <= TEXT_MAX { text } else { &text[..text.floor_char_boundary(TEXT_MAX)] }
}

/// The conventions' names of vendors, each with the ends of its hosts' names and its name in the catalogue of providers.
const VENDORS: [(&str, &[&str], &str); 15] = [
    ("openai", &["api.openai.com"], "openai"),
    ("anthropic", &["anthropic.com"], "anthropic"),
    ("gcp.gemini", &["generativelanguage.googleapis.com"], "gemini"),
    ("gcp.vertex_ai", &["aiplatform.googleapis.com"], "vertex"),
    ("aws.bedrock", &["amazonaws.com"], "bedrock"),
    ("azure.ai.openai", &["openai.azure.com", "cognitiveservices.azure.com"], "azure"),
    ("azure.ai.inference", &["services.ai.azure.com", "inference.ai.azure.com"], ""),
    ("mistral_ai", &["mistral.ai"], "mistral"),
    ("deepseek", &["deepseek.com"], "deepseek"),
    ("x_ai", &["x.ai"], "xai"),
    ("groq", &["groq.com"], "groq"),
    ("perplexity", &["perplexity.ai"], "perplexity"),
    ("cohere", &["cohere.com", "cohere.ai"], "cohere"),
    ("moonshot_ai", &["moonshot.ai", "moonshot.cn"], "moonshot"),
    ("ibm.watsonx.ai", &["ml.cloud.ibm.com"], ""),
];

/// The vendor at this host, else the one that the catalogue's name of the provider means, else that name.
pub fn vendor<'p>(provider: &'p str, host: &str) -> &'p str {
    let is_at =
        |end: &&str| host.strip_suffix(*end).is_some_and(|before| before.is_empty() || before.ends_with(['.', '-']));
    let by_host = VENDORS.iter().find(|(_, ends, _)| ends.iter().any(is_at));
    let found = by_host.or_else(|| VENDORS.iter().find(|(_, _, name)| *name == provider));
    found.map_or(provider, |(vendor, ..)| vendor)
}

/// Host and port of the address at which the provider speaks this dialect. None: it is simulated.
pub fn server<'p>(provider: &'p Provider, dialect: &str) -> Option<(&'p str, u16)> {
    let spoken = provider.dialects.iter().find(|spoken| spoken.dialect.as_str() == dialect)?;
    let (rest, usual) = match spoken.base_url.strip_prefix("https://") {
        Some(rest) => (rest, 443),
        None => (spoken.base_url.strip_prefix("http://")?, 80),
    };
    let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
    let given = authority.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = given.unwrap_or((authority, usual));
    Some((host.trim_matches(['[', ']']), port))
}

/// The conventions' names and units of the metrics that have others in Prometheus' spelling.
const METRICS: [(&str, &str, &str); 4] = [
    ("gen_ai_client_inference_duration_seconds", "gen_ai.client.inference.duration", "s"),
    ("gen_ai_client_inference_time_to_first_chunk_seconds", "gen_ai.client.inference.time_to_first_chunk", "s"),
    ("gen_ai_client_inference_operation_input_tokens", "gen_ai.client.inference.operation.input_tokens", "{token}"),
    ("gen_ai_client_inference_operation_output_tokens", "gen_ai.client.inference.operation.output_tokens", "{token}"),
];

/// Name and unit of a metric; those of the gateway's own are as in Prometheus, where the name ends with the unit.
pub fn metric(name: &str) -> (&str, &str) {
    METRICS.iter().find(|(known, ..)| *known == name).map_or((name, ""), |(_, named, unit)| (*named, *unit))
}

/// The name of an attribute of a metric.
pub fn label(name: &str) -> &str {
    match name {
        "gen_ai_operation_name" => OPERATION,
        "gen_ai_provider_name" => PROVIDER,
        "gen_ai_request_model" => REQUEST_MODEL,
        "error_type" => ERROR_TYPE,
        own => own,
    }
}

/// Of the methods that the conventions know.
pub fn method(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    KNOWN.into_iter().find(|known| method.as_str() == *known).unwrap_or("_OTHER")
}

pub fn version(version: Version) -> Option<&'static str> {
    [(Version::HTTP_10, "1.0"), (Version::HTTP_11, "1.1"), (Version::HTTP_2, "2")]
        .into_iter()
        .find_map(|(known, name)| (known == version).then_some(name))
}

/// What the surface of this name asks for; other operations keep their own names.
pub fn operation(api: &'static str) -> &'static str {
    match api {
        "chat" | "responses" | "messages" | "ollama_chat" => "chat",
        "completions" | "ollama_generate" => "text_completion",
        "embeddings" | "ollama_embed" | "ollama_embeddings" | "gemini_embed" | "gemini_embed_batch" => "embeddings",
        "gemini" => "generate_content",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::parse;

    #[test]
    fn a_provider_has_its_well_known_name_and_its_host() {
        let text = r#"
            [providers.openai]
            api_key = "k"
            [providers.xai]
            api_key = "k"
            [providers.mine]
            base_url = "https://my-team.openai.azure.com/openai/v1"
            [providers.mistral]
            base_url = "http://proxy.example:8080/mistral"
            [providers.box]
            base_url = "http://[::1]:11434/v1"
            [providers.similar]
            base_url = "https://notx.ai/v1"
            [providers.second]
            like = "azure"
            base_url = "http://proxy.example:8080/azure"
            api_key = "k"
            [providers.sim]
            simulate = {}
            "#;
        let config = parse(text, Path::new("config.toml"), &|_| None).unwrap();
        for (name, expected_vendor, expected_server) in [
            ("openai", "openai", Some(("api.openai.com", 443))),
            ("xai", "x_ai", Some(("api.x.ai", 443))),
            ("mine", "azure.ai.openai", Some(("my-team.openai.azure.com", 443))),
            ("mistral", "mistral_ai", Some(("proxy.example", 8080))),
            ("box", "box", Some(("::1", 11434))),
            ("similar", "similar", Some(("notx.ai", 443))),
            ("second", "azure.ai.openai", Some(("proxy.example", 8080))),
            ("sim", "sim", None),
        ] {
            let provider = &config.providers[name];
            let found = server(provider, "openai");
            assert_eq!(found, expected_server, "{name}");
            assert_eq!(vendor(&provider.vendor, found.map_or("", |(host, _)| host)), expected_vendor, "{name}");
        }
        for (host, expected) in [
            ("bedrock-runtime.eu-central-1.amazonaws.com", "aws.bedrock"),
            ("europe-west1-aiplatform.googleapis.com", "gcp.vertex_ai"),
            ("generativelanguage.googleapis.com", "gcp.gemini"),
        ] {
            assert_eq!(vendor("any", host), expected);
        }
    }
}
