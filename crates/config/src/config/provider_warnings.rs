//! Warnings about a provider's table that is valid and probably not what was meant.
//!
//! Not for problems: see `resolve_provider`.

use http::Uri;

use super::catalogue::{self, CatalogueEntry};
use super::reader::ReaderScope;
use super::{Keys, ProviderDialect};
use photofinish_wire::protocol::Dialect;

/// Warns of a variable that is not set and differs by a letter or two from a usual one that is.
pub(super) fn of_variables(scope: &ReaderScope<'_>, provider: &str, keys: &Keys) {
    let Keys::Off(unset) = keys else { return };
    let usual = || catalogue::entries().flat_map(CatalogueEntry::key_variables);
    for name in unset.iter().filter(|name| usual().all(|usual| usual != name.as_str())) {
        let is_meant = |usual: &&str| {
            strsim::levenshtein(name, usual) <= 2 && (scope.env)(usual).is_some_and(|value| !value.is_empty())
        };
        if let Some(usual) = usual().find(is_meant) {
            scope.warn(format!("provider {provider}: {name} is not set; did you mean {usual}, which is set?"));
        }
    }
}

/// Warns of a base URL without the version path, or with the path of a call.
pub(super) fn of_path(
    scope: &ReaderScope<'_>,
    provider: &str,
    url: &str,
    entry: Option<&'static CatalogueEntry>,
    dialects: &[ProviderDialect],
) {
    let path = url.parse::<Uri>().map(|uri| uri.path().trim_end_matches('/').to_owned()).unwrap_or_default();
    let call = ["/chat/completions", "/responses", "/messages"].into_iter().find(|call| path.ends_with(call));
    if let Some(call) = call {
        scope.warn(format!(
            "provider {provider}: base_url ends in {call}, which the gateway appends itself: leave it out"
        ));
    }
    let versioned = |spoken: &ProviderDialect| {
        let known = entry.and_then(|entry| entry.served(spoken.dialect));
        let usual = known.is_none_or(|served| served.base_url.ends_with("/v1"));
        usual && matches!(spoken.dialect, Dialect::OpenAi | Dialect::Responses | Dialect::Anthropic)
    };
    if path.is_empty() && dialects.iter().any(versioned) {
        scope.warn(format!("provider {provider}: base_url has no version path; most servers answer at {url}/v1"));
    }
}

/// Warns if a provider is to be asked for a list of its models and none of its dialects has one.
pub(super) fn of_discovery(
    scope: &ReaderScope<'_>,
    provider: &str,
    discover: Option<bool>,
    dialects: &[ProviderDialect],
) {
    if discover == Some(true) && dialects.iter().all(|spoken| spoken.dialect.model_list_path().is_none()) {
        scope.warn(format!("provider {provider}: discover has no effect, because its dialect has no list of models"));
    }
}
