//! Which headers of the client are forwarded to a provider. Not for the provider's own headers, such as its key.

use http::HeaderMap;

use super::candidate_set::CandidateSet;
use photofinish_config::keyring::HashedKey;
use photofinish_routing::health::Candidate;
use photofinish_wire::{Dialect, RequestTranslation};

/// Forwarded to every provider whose dialect the client uses.
const FORWARDED: [&str; 3] = ["anthropic-version", "anthropic-beta", "openai-beta"];
/// They name the caller's account, so they are forwarded only with the caller's own key.
const FORWARDED_WITH_OWN_KEY: [&str; 2] = ["openai-organization", "openai-project"];

/// The headers that may be forwarded to at least one candidate. A race and its audits keep no others.
pub fn forwardable(client: &HeaderMap, candidates: &CandidateSet) -> HeaderMap {
    let pairs = || candidates.list.iter().zip(&candidates.uploads);
    selected(client, |name| pairs().any(|(candidate, translation)| goes_up(name, candidate, translation, true)))
}

/// The headers for one candidate, with the key that the attempt uses.
pub fn for_candidate(
    client: &HeaderMap,
    candidate: &Candidate,
    translation: &RequestTranslation,
    key: Option<&HashedKey>,
) -> HeaderMap {
    let own_key = key.is_some_and(|key| key.own);
    let mut headers = selected(client, |name| goes_up(name, candidate, translation, own_key));
    headers.extend(candidate.upstream.changes.headers.clone());
    headers
}

fn goes_up(name: &str, candidate: &Candidate, translation: &RequestTranslation, own_key: bool) -> bool {
    let is_openai = matches!(translation.dialect(), Dialect::OpenAi | Dialect::Responses);
    // A vendor's own headers mean nothing in another dialect.
    !translation.is_translated() && FORWARDED.contains(&name)
        || own_key && is_openai && FORWARDED_WITH_OWN_KEY.contains(&name)
        || candidate.upstream.provider.forward_headers.iter().any(|configured| configured == name)
}

fn selected(headers: &HeaderMap, goes: impl Fn(&str) -> bool) -> HeaderMap {
    headers.iter().filter(|(name, _)| goes(name.as_str())).map(|(name, value)| (name.clone(), value.clone())).collect()
}
