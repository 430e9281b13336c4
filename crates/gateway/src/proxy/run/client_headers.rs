//! The client's headers that its attempts carry. Not for the gateway's own: see `transport`.

use http::{HeaderMap, HeaderValue};

use photofinish_config::keyring::HashedKey;
use photofinish_routing::health::{Candidate, RaceCandidate};
use photofinish_translation::RequestTranslation;
use photofinish_translation::adapt::Lesson;
use photofinish_wire::Dialect;

/// Forwarded to every provider whose dialect the client uses.
const FORWARDED: [&str; 3] = ["anthropic-version", BETAS, "openai-beta"];
/// They name the caller's account, so they are forwarded only with the caller's own key.
const FORWARDED_WITH_OWN_KEY: [&str; 2] = ["openai-organization", "openai-project"];

const BETAS: &str = "anthropic-beta";

/// Those that may be forwarded to at least one candidate. A race and its audits keep no others.
pub(super) struct ClientHeaders(HeaderMap);

impl ClientHeaders {
    pub fn new(client: &HeaderMap, candidates: &[RaceCandidate]) -> ClientHeaders {
        let goes_anywhere = |name: &str| candidates.iter().any(|one| goes_up(name, &one.candidate, &one.upload, true));
        ClientHeaders(selected(client, goes_anywhere))
    }

    /// For one candidate, with the key that the attempt uses, and without what the upstream refused.
    pub fn of_attempt(
        &self,
        candidate: &Candidate,
        translation: &RequestTranslation,
        key: Option<&HashedKey>,
        lessons: &[Lesson],
    ) -> HeaderMap {
        let own_key = key.is_some_and(|key| key.own);
        let mut headers = selected(&self.0, |name| goes_up(name, candidate, translation, own_key));
        headers.extend(candidate.upstream.changes.headers.clone());
        without_betas(&mut headers, lessons);
        headers
    }

    /// The betas that the client asks for; empty if it asks for none.
    pub fn betas(&self) -> &str {
        self.0.get(BETAS).and_then(|betas| betas.to_str().ok()).unwrap_or_default()
    }
}

/// Without the betas that the upstream refused.
fn without_betas(headers: &mut HeaderMap, lessons: &[Lesson]) {
    let Some(sent) = headers.get(BETAS).and_then(|value| value.to_str().ok()) else { return };
    let is_kept = |beta: &&str| {
        !lessons
            .iter()
            .any(|lesson| matches!(lesson, Lesson::Betas(no) if no.is_empty() || no.iter().any(|no| no == beta)))
    };
    let kept: Vec<&str> = sent.split(',').map(str::trim).filter(is_kept).collect();
    match HeaderValue::from_str(&kept.join(",")).ok().filter(|value| !value.is_empty()) {
        Some(value) => drop(headers.insert(BETAS, value)),
        None => drop(headers.remove(BETAS)),
    }
}

fn goes_up(name: &str, candidate: &Candidate, translation: &RequestTranslation, own_key: bool) -> bool {
    let is_openai = matches!(translation.dialect(), Dialect::OpenAi | Dialect::Responses);
    let is_beta_of_another = || name == BETAS && !candidate.upstream.quirks(Dialect::Anthropic).claude;
    // A vendor's own headers mean nothing in another dialect, and its betas to no other vendor.
    !translation.is_translated() && FORWARDED.contains(&name) && !is_beta_of_another()
        || own_key && is_openai && FORWARDED_WITH_OWN_KEY.contains(&name)
        || candidate.upstream.provider.forward_headers.iter().any(|configured| configured == name)
}

fn selected(headers: &HeaderMap, goes: impl Fn(&str) -> bool) -> HeaderMap {
    headers.iter().filter(|(name, _)| goes(name.as_str())).map(|(name, value)| (name.clone(), value.clone())).collect()
}
