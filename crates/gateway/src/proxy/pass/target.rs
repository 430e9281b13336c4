//! Which provider a path leads to, and the path there. Not for rights and keys.

use std::borrow::Cow;

use http::Uri;
use percent_encoding::percent_decode_str;

use photofinish_config::{Provider, ProviderDialect};
use photofinish_routing::health::ProviderRoute;
use photofinish_transport::upstream::Endpoint;
use photofinish_wire::Dialect;
use photofinish_wire::dialect::behind_version;

/// Every path below it belongs to a provider.
const PROVIDERS: &str = "/providers/";
/// Bytes of the word that a row has for a path.
const WORD_MAX: usize = 32;

/// What a path asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct AskedPath<'u> {
    /// None: the provider that the configuration names for files.
    pub provider: Option<Cow<'u, str>>,
    /// The path behind it, as it was written; empty or with a slash in front.
    pub rest: &'u str,
}

impl<'u> AskedPath<'u> {
    pub fn of(path: &'u str) -> AskedPath<'u> {
        match path.strip_prefix(PROVIDERS) {
            Some(named) => {
                let (name, rest) = named.split_at(named.find('/').unwrap_or(named.len()));
                AskedPath { provider: Some(percent_decode_str(name).decode_utf8_lossy()), rest }
            }
            None => AskedPath { provider: None, rest: behind_version(path) },
        }
    }

    /// Whether it surely stays below the provider's address, also where a server decodes it twice.
    pub fn stays(&self) -> bool {
        let inner = self.rest.strip_suffix('/').unwrap_or(self.rest);
        let leaves = |segment: &str| {
            let once = percent_decode_str(segment).decode_utf8_lossy();
            let twice = percent_decode_str(&once).decode_utf8_lossy();
            twice.split(['/', '\\']).any(|part| matches!(part, "." | ".."))
        };
        inner.split('/').skip(1).all(|segment| !segment.is_empty() && !leaves(segment))
    }
}

/// Where a request goes at a provider.
pub struct Target<'p> {
    pub spoken: &'p ProviderDialect,
    pub endpoint: Endpoint,
    /// Behind the endpoint's own path, with the query.
    pub path: String,
    /// What the path is about, for rows: `files` of `/v1/files/file-1`.
    pub word: String,
}

impl<'p> Target<'p> {
    /// The dialect whose address the path repeats, else the first; of OpenAI's own paths `openai`. None: it has no address.
    pub fn of(provider: &'p Provider, route: &ProviderRoute, asked: &AskedPath<'_>, uri: &Uri) -> Option<Target<'p>> {
        let is_openai = |spoken: &&ProviderDialect| asked.provider.is_none() && spoken.dialect == Dialect::OpenAi;
        let usual = provider.dialects.iter().find(is_openai).unwrap_or_else(|| provider.preferred());
        let others = provider.dialects.iter().filter(|_| asked.provider.is_some());
        let mut best = (usual, repeated(route.endpoint(usual.dialect)?.prefix(), asked.rest, true));
        for spoken in others {
            let Some(endpoint) = route.endpoint(spoken.dialect) else { continue };
            let length = repeated(endpoint.prefix(), asked.rest, false);
            if length > best.1 {
                best = (spoken, length);
            }
        }
        let (spoken, length) = best;
        let rest = &asked.rest[length..];
        let mut path = rest.to_owned();
        let query = query(uri.query().unwrap_or_default(), spoken, provider.api_version.as_deref());
        if !query.is_empty() {
            path = format!("{path}?{query}");
        }
        let endpoint = route.endpoint(spoken.dialect)?.clone();
        Some(Target { spoken, endpoint, path, word: word(rest) })
    }
}

/// Bytes at the beginning of `rest` that repeat the end of an address: `/v1` of `https://api.openai.com/v1` and `/v1/files`. A version alone
/// names no address but the usual one.
fn repeated(address: &str, rest: &str, is_usual: bool) -> usize {
    let ends = address.match_indices('/').map(|(at, _)| &address[at..]);
    let is_repeated = |end: &&str| rest.strip_prefix(end).is_some_and(|more| more.is_empty() || more.starts_with('/'));
    let names_it = |end: &&str| {
        let first = end.split('/').nth(1).unwrap_or_default();
        is_usual || end.len() == address.len() || !first.bytes().any(|byte| byte.is_ascii_digit())
    };
    ends.filter(is_repeated).find(names_it).map_or(0, str::len)
}

/// The query without a key, which Google's clients may put there, and with the version of Azure's dated API.
fn query(asked: &str, spoken: &ProviderDialect, api_version: Option<&str>) -> String {
    let is_key = |pair: &&str| spoken.dialect == Dialect::Gemini && pair.starts_with("key=");
    let mut pairs: Vec<Cow<'_, str>> =
        asked.split('&').filter(|pair| !pair.is_empty() && !is_key(pair)).map(Cow::Borrowed).collect();
    if let Some(version) = api_version
        && !pairs.iter().any(|pair| pair.starts_with("api-version="))
    {
        pairs.push(format!("api-version={version}").into());
    }
    pairs.join("&")
}

/// The first part that is a word, not an id or a version.
fn word(rest: &str) -> String {
    let is_word = |part: &&str| {
        (1..=WORD_MAX).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || b"_-".contains(&byte))
    };
    rest.split('/').find(is_word).unwrap_or("other").to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use super::*;
    use photofinish_config::parse;
    use photofinish_routing::health::LiveConfig;

    /// The whole URL of a path, how its key is sent, and its word.
    fn led(path: &str) -> (String, String, String) {
        let text = "[providers.deepseek]\n[providers.openai]\n[providers.gemini]\n[providers.groq]\n\
                    [providers.azure]\nbase_url = \"https://r.openai.azure.com/openai\"\napi_version = \"2024-10-21\"";
        let live = LiveConfig::new(parse(text, Path::new("x"), &|_| None).unwrap(), &HashMap::new()).unwrap();
        let uri: Uri = path.parse().unwrap();
        let asked = AskedPath::of(uri.path());
        assert!(asked.stays(), "{path}");
        let provider = &live.config.providers[asked.provider.as_deref().unwrap_or("gemini")];
        let target = Target::of(provider, live.route(&provider.name).unwrap(), &asked, &uri).unwrap();
        (target.endpoint.url(&target.path), format!("{:?}", target.spoken.auth), target.word)
    }

    #[test]
    fn a_path_goes_behind_the_address_whether_it_repeats_its_end_or_not() {
        for (path, url, word) in [
            ("/providers/openai/files", "https://api.openai.com/v1/files", "files"),
            ("/providers/openai/v1/files/f-1/content?a=b", "https://api.openai.com/v1/files/f-1/content?a=b", "files"),
            ("/providers/openai/v1", "https://api.openai.com/v1", "other"),
            ("/providers/openai/v12/x", "https://api.openai.com/v1/v12/x", "x"),
            ("/providers/groq/openai/v1/batches/", "https://api.groq.com/openai/v1/batches/", "batches"),
            ("/providers/groq/v1/batches", "https://api.groq.com/openai/v1/batches", "batches"),
            (
                "/providers/gemini/v1beta/files?key=x&pageSize=2",
                "https://generativelanguage.googleapis.com/v1beta/files?pageSize=2",
                "files",
            ),
            (
                "/providers/gemini/openai/batches",
                "https://generativelanguage.googleapis.com/v1beta/openai/batches",
                "batches",
            ),
            ("/providers/deepseek/v1/chat/completions", "https://api.deepseek.com/v1/chat/completions", "chat"),
            ("/providers/deepseek/anthropic/v1/messages", "https://api.deepseek.com/anthropic/v1/messages", "messages"),
            ("/providers/azure/files", "https://r.openai.azure.com/openai/files?api-version=2024-10-21", "files"),
            ("/providers/azure/files?api-version=1", "https://r.openai.azure.com/openai/files?api-version=1", "files"),
            ("/v1/files", "https://generativelanguage.googleapis.com/v1beta/openai/files", "files"),
            (
                "/openai/v1/batches/b-1",
                "https://generativelanguage.googleapis.com/v1beta/openai/batches/b-1",
                "batches",
            ),
        ] {
            let (led_to, _, about) = led(path);
            assert_eq!((led_to.as_str(), about.as_str()), (url, word), "{path}");
        }
        assert!(led("/providers/gemini/files").1.contains("x-goog-api-key"));
        assert_eq!(led("/providers/gemini/v1beta/openai/files").1, "Bearer", "as its OpenAI form takes it");
    }

    #[test]
    fn a_path_that_may_leave_the_address_is_seen() {
        for rest in [
            "/..",
            "/../x",
            "/a/../b",
            "/%2e%2e/x",
            "/%252e%252E/x",
            "/a%2f..%2fb",
            "/..%5cx",
            "//evil.example",
            "/a//b",
            "/.",
            "/https://evil.example/x",
        ] {
            let path = format!("/providers/openai{rest}");
            assert!(!AskedPath::of(&path).stays(), "{rest}");
        }
        for rest in ["", "/", "/a/", "/a..b/...", "/models%2Fa", "/v1/files"] {
            let path = format!("/providers/openai{rest}");
            assert!(AskedPath::of(&path).stays(), "{rest}");
        }
        let asked = AskedPath::of("/providers/..%2f");
        assert_eq!((asked.provider.as_deref(), asked.rest), (Some("../"), ""));
    }
}
