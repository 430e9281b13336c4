//! Why an upstream did not answer, and what to do about it. Not for sending the request: see `live`.

use crate::cli::text::clean;
use photofinish_base::failure::FailureKind;
use photofinish_config::config::{Keys, Provider};

/// Characters of a provider's message that are shown.
const SAID_MAX: usize = 240;

/// The whole line: the status, our explanation, and the provider's message. No kind: no attempt was made.
pub(super) fn failed(
    kind: Option<FailureKind>,
    status: Option<i64>,
    said: &str,
    provider: &Provider,
    model: &str,
) -> String {
    let said = clean(said);
    let said: String = said.chars().take(SAID_MAX).collect();
    let Some(kind) = kind else {
        return if said.is_empty() { "it was not asked".to_owned() } else { said };
    };
    let status = status.filter(|status| *status >= 400).map(|status| format!("{status}: ")).unwrap_or_default();
    let said = if said.is_empty() { said } else { format!(" ({said})") };
    format!("{status}{}{said}", of(kind, provider, model))
}

/// Our explanation alone.
pub(in crate::cli) fn of(kind: FailureKind, provider: &Provider, model: &str) -> String {
    let Provider { name, base_url, .. } = provider;
    match kind {
        FailureKind::Unauthorized => match key(provider) {
            Some(key) => format!("{key} is refused: put a valid key there"),
            None => format!("it needs a key: set api_key under [providers.{name}]"),
        },
        FailureKind::Forbidden => {
            let key = key(provider).unwrap_or_else(|| "a request without a key".to_owned());
            format!("{key} may not use {model}: check what its account, project and region allow")
        }
        FailureKind::NotFound => format!(
            "the provider does not know {model}, or not at {base_url}: compare the name with the provider's list of models"
        ),
        FailureKind::RateLimited => {
            "its rate limit or its credit is used up: wait, or check the account's limits and billing".to_owned()
        }
        FailureKind::Overloaded | FailureKind::ServerError => "the provider is failing: try again later".to_owned(),
        FailureKind::Dns => format!("the host of {base_url} has no address: is base_url right, and the network up?"),
        FailureKind::Connect => {
            format!("nothing takes connections at {base_url}: is the server up, and base_url right?")
        }
        FailureKind::Tls => {
            format!("no secure connection to {base_url}: check its certificate, and whether a proxy intercepts TLS")
        }
        FailureKind::Timeout => "no token within its timeouts: it is slow or unreachable".to_owned(),
        FailureKind::IdleTimeout => "its answer stopped midway".to_owned(),
        FailureKind::Reset | FailureKind::Closed => {
            "it broke off without an answer: try again; if that does not help, check base_url".to_owned()
        }
        FailureKind::Protocol => {
            format!("{base_url} answers with a redirect, which is not followed, or not with HTTP: is base_url right?")
        }
        FailureKind::Malformed => {
            format!("the server at {base_url} is not the expected API: are base_url and dialect right?")
        }
        FailureKind::Endless => "its answer has no end: it ignores max_tokens".to_owned(),
        FailureKind::InStreamError => "an error came instead of the answer".to_owned(),
        FailureKind::BadRequest | FailureKind::ContextLength | FailureKind::TooLarge => {
            format!("it refuses the request: does {model} accept chat requests?")
        }
        FailureKind::ContentPolicy => "its content policy refuses a harmless request".to_owned(),
        FailureKind::CoolingDown => "no request was sent: it cools down after another failure of this check".to_owned(),
        FailureKind::GatewayLimit => "this machine has no descriptors or no memory left".to_owned(),
        FailureKind::Empty => "it finished without generating anything".to_owned(),
    }
}

/// Where its key comes from. None: it has no key.
fn key(provider: &Provider) -> Option<String> {
    match (&provider.keys, provider.key_sources.as_slice()) {
        (Keys::Token(token), _) => Some(format!("the token from {}", token.source.name())),
        (Keys::NotConfigured | Keys::Off(_), _) => None,
        (Keys::Keys(_), []) => Some("the key in the configuration".to_owned()),
        (Keys::Keys(_), [source]) => Some(format!("the key in {}", place(source))),
        (Keys::Keys(_), sources) => {
            let places: Vec<&str> = sources.iter().map(|source| place(source)).collect();
            Some(format!("a key of {}", places.join(", ")))
        }
    }
}

fn place(source: &str) -> &str {
    source.strip_prefix("file:").unwrap_or(source)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::config::parse;

    #[test]
    fn each_failure_says_what_to_do() {
        let text = r#"
            [providers]
            groq.api_key = "${GROQ_API_KEY}"
            openai.api_key = "planted-literal"
            mistral.api_key = ["${ONE_KEY}", "${TWO_KEY}"]
            own = { base_url = "http://127.0.0.1:9" }
        "#;
        let env = |name: &str| name.ends_with("_KEY").then(|| format!("planted-{name}"));
        let config = parse(text, Path::new("config.toml"), &env).unwrap();
        let failed = |provider: &str, kind: FailureKind, status: i64, said: &str| {
            failed(Some(kind), Some(status), said, &config.providers[provider], "llama")
        };
        for (provider, words) in [
            ("groq", "401: the key in GROQ_API_KEY is refused: put a valid key there (Invalid API Key)"),
            ("openai", "401: the key in the configuration is refused: put a valid key there (Invalid API Key)"),
            ("mistral", "401: a key of ONE_KEY, TWO_KEY is refused: put a valid key there (Invalid API Key)"),
            ("own", "401: it needs a key: set api_key under [providers.own] (Invalid API Key)"),
        ] {
            assert_eq!(failed(provider, FailureKind::Unauthorized, 401, "Invalid API Key"), words);
        }
        let unknown = failed("own", FailureKind::NotFound, 404, "");
        assert!(
            unknown.starts_with("404: the provider does not know llama, or not at http://127.0.0.1:9"),
            "{unknown}"
        );
        assert!(failed("own", FailureKind::Connect, 0, "refused").starts_with("nothing takes connections at http://"));
        for kind in FailureKind::ALL {
            let told = failed("groq", kind, 200, &"said\n\x1b[31m ".repeat(100));
            assert!(told.len() > 20 && !told.contains(['\n', '\x1b']) && !told.contains("planted"), "{told}");
            assert!(told.chars().count() < 500, "{told}");
        }
    }
}
