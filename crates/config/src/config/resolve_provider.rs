//! Makes a [`Provider`] from its table and the catalogue: its dialects with their addresses and the way to send a key.
//!
//! Not for single keys: see `raw_provider`.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::catalogue::{self, CatalogueEntry, ServedDialect, address_variable};
use super::forwarded;
use super::problem::{LocatedProblem, shown};
use super::provider_warnings;
use super::raw_provider::{RawProvider, base_url_problem};
use super::raw_request::RequestKeys;
use super::reader::{Located, ReaderScope};
use super::text::{self, Secret};
use super::transport::{EnvProxies, RawTransport};
use super::{Auth, CancelBilling, Keys, Provider, ProviderDialect, Transport, UpstreamStream};
use photofinish_wire::protocol::Dialect;
use photofinish_wire::protocol::prefix::Prefix;
use photofinish_wire::protocol::quirks::{ModelRequests, ProviderRequests};

/// The default location of Google's clouds.
const LOCATION: &str = "global";
/// The region of AWS without `region` and `AWS_REGION`.
const REGION: &str = "us-east-1";
/// The version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A provider with a table. None: it is wrong and reported.
pub(super) fn listed(scope: &ReaderScope<'_>, raw: RawProvider, env_proxies: &EnvProxies) -> Option<Provider> {
    if raw.has_simulate {
        return simulated(raw);
    }
    let entry = catalogue::find(&raw.name.value);
    let dialects = dialects(scope, &raw, entry);
    check_parts(scope, &raw, entry, &dialects);
    let mut dialects = dialects?;
    let table = format!("[providers.{}]", shown(&raw.name.value));
    raw.transport.check(scope, &table, dialects.iter().map(|spoken| &*spoken.base_url));
    dialects.iter_mut().for_each(|spoken| spoken.transport = raw.transport.for_url(&spoken.base_url, env_proxies));
    let name = raw.name.value;
    provider_warnings::of_variables(scope, &name, &raw.keys);
    provider_warnings::of_discovery(scope, &name, raw.typed.discover, &dialects);
    if let Some(url) = raw.typed.base_url.as_deref() {
        provider_warnings::of_path(scope, &name, url, entry, &dialects);
    }
    if let (Keys::NotConfigured, Some(variable)) = (&raw.keys, entry.and_then(|entry| entry.key_variable.as_deref())) {
        scope.warn(format!(
            "provider {name} has no api_key: only callers with a key of their own can use it; \
             api_key = \"${{{variable}}}\" is the usual one"
        ));
    }
    forwarded::report_keys(scope, &name, &raw.typed.forward_headers, &dialects);
    let billing = raw.typed.cancel_billing.or(entry.map(|entry| entry.cancel_billing.value));
    let is = |fact: fn(&CatalogueEntry) -> bool| entry.is_some_and(fact);
    Some(Provider {
        base_url: dialects.first()?.base_url.clone(),
        dialects,
        api_version: raw.parts.into_iter().find(|(key, _)| *key == "api_version").map(|(_, text)| text.value),
        upstream_stream: raw.typed.upstream_stream.unwrap_or(UpstreamStream::Auto),
        cancel_billing: billing.unwrap_or(CancelBilling::Unknown),
        domain: raw.typed.domain,
        requests: requests(entry, &raw.typed.request, raw.typed.request_for),
        omits_finish_reason: raw.typed.omits_finish_reason.unwrap_or(is(|entry| entry.omits_finish_reason.value)),
        prefix: raw.typed.prefix.or(entry.map(|entry| entry.continues.value)).unwrap_or_default(),
        forward_headers: raw.typed.forward_headers.into_iter().map(|header| header.value).collect(),
        keys: raw.keys,
        key_sources: raw.key_sources,
        discover: raw.typed.discover.unwrap_or(is(|entry| entry.lists.value)),
        warm: raw.typed.warm.unwrap_or_default(),
        simulate: None,
        name,
    })
}

/// A provider of the catalogue without a table; its key is in the usual variable.
pub(super) fn known(
    scope: &ReaderScope<'_>,
    entry: &'static CatalogueEntry,
    offset: usize,
    env_proxies: &EnvProxies,
) -> Option<Provider> {
    let name = entry.name.clone();
    let served = entry.serves.iter().filter(|served| !served.only_if_named);
    let spoken =
        |served: &ServedDialect| spoken(scope, served.dialect, fill(scope, &served.base_url, &[])?, Some(served), &[]);
    let mut dialects: Vec<ProviderDialect> = served.filter_map(spoken).collect();
    dialects
        .iter_mut()
        .for_each(|spoken| spoken.transport = RawTransport::default().for_url(&spoken.base_url, env_proxies));
    let Some(first) = dialects.first() else {
        let message = format!("provider {name} has no address of its own");
        let expected = format!("a table [providers.{name}] with {} and a key", what_it_needs(entry));
        scope.report(LocatedProblem::at(offset, message).expected(expected));
        return None;
    };
    Some(Provider {
        name,
        base_url: first.base_url.clone(),
        dialects,
        api_version: None,
        upstream_stream: UpstreamStream::Auto,
        cancel_billing: entry.cancel_billing.value,
        domain: None,
        requests: entry.requests(),
        omits_finish_reason: entry.omits_finish_reason.value,
        prefix: entry.continues.value,
        forward_headers: Vec::new(),
        keys: usual_key(scope, entry, offset),
        key_sources: used_variable(scope, entry).map(str::to_owned).into_iter().collect(),
        discover: entry.lists.value,
        warm: false,
        simulate: None,
    })
}

/// A provider of the catalogue that the file does not mention. None: its variables hold no usable key, or it needs a table.
pub(super) fn unmentioned(
    scope: &ReaderScope<'_>,
    entry: &'static CatalogueEntry,
    env_proxies: &EnvProxies,
) -> Option<Provider> {
    if entry.only_if_named || !entry.has_address(scope.env) {
        return None;
    }
    let set: Vec<&str> = entry.set_variables(scope.env).collect();
    let Some(variable) = set.first() else {
        let placeholder = entry
            .key_variables()
            .find(|variable| (scope.env)(variable).as_deref().is_some_and(catalogue::is_placeholder));
        if let Some(variable) = placeholder {
            scope.warn(format!("{variable} holds a placeholder and no key: {} is off", entry.name));
        }
        return None;
    };
    if let Some(other) = set.iter().find(|other| (scope.env)(other) != (scope.env)(variable)) {
        scope.warn(format!("{variable} and {other} hold different keys: {} uses that of {variable}", entry.name));
    }
    // The file does not mention the variable, so a bad value is no problem of the file.
    let apart = ReaderScope::new(scope.env, scope.limits);
    let provider = known(&apart, entry, 0, env_proxies)?;
    let (problems, warnings) = apart.finish("", "");
    warnings.into_iter().for_each(|warning| scope.warn(warning));
    if !problems.is_empty() {
        scope.warn(format!("{variable} is set and cannot be used as a key: requests cannot name {}", provider.name));
    }
    Some(provider).filter(|provider| matches!(provider.keys, Keys::Keys(_)))
}

fn requests(entry: Option<&CatalogueEntry>, keys: &RequestKeys, models: Vec<ModelRequests>) -> ProviderRequests {
    let known = entry.map(CatalogueEntry::requests).unwrap_or_default();
    ProviderRequests { own: keys.quirks(), changes: keys.changes(), models, ..known }
}

/// A simulated provider speaks the simulator's dialect.
fn simulated(raw: RawProvider) -> Option<Provider> {
    let simulation = raw.typed.simulate?;
    let spoken = ProviderDialect {
        dialect: Dialect::OpenAi,
        base_url: String::new(),
        auth: Auth::Bearer,
        headers: HeaderMap::new(),
        transport: Transport::default(),
    };
    Some(Provider {
        name: raw.name.value,
        base_url: String::new(),
        dialects: vec![spoken],
        api_version: None,
        upstream_stream: raw.typed.upstream_stream.unwrap_or(UpstreamStream::Auto),
        cancel_billing: raw.typed.cancel_billing.unwrap_or(CancelBilling::Stops),
        domain: raw.typed.domain,
        requests: requests(None, &raw.typed.request, raw.typed.request_for),
        omits_finish_reason: false,
        prefix: raw.typed.prefix.unwrap_or(Prefix::Off),
        forward_headers: raw.typed.forward_headers.into_iter().map(|header| header.value).collect(),
        keys: Keys::NotConfigured,
        key_sources: Vec::new(),
        discover: false,
        warm: false,
        simulate: Some(simulation),
    })
}

/// Its dialects, at least one. None: they are unknown, which is reported.
fn dialects(
    scope: &ReaderScope<'_>,
    raw: &RawProvider,
    entry: Option<&'static CatalogueEntry>,
) -> Option<Vec<ProviderDialect>> {
    let own_url = match (&raw.typed.base_url, raw.has_base_url) {
        // Wrong, and reported.
        (None, true) => return None,
        (url, _) => url.as_deref(),
    };
    let wanted: Vec<Located<Dialect>> = match (raw.typed.dialect.is_empty(), entry) {
        (false, _) => {
            raw.typed.dialect.iter().map(|named| Located { offset: named.offset, value: named.value }).collect()
        }
        (true, None) => vec![Located { offset: raw.name.offset, value: Dialect::OpenAi }],
        (true, Some(entry)) => {
            let unsaid =
                |served: &&ServedDialect| !served.only_if_named && (own_url.is_none() || shares_address(entry, served));
            let at = |served: &ServedDialect| Located { offset: raw.name.offset, value: served.dialect };
            entry.serves.iter().filter(unsaid).map(at).collect()
        }
    };
    let mut dialects = Vec::new();
    for Located { offset, value: dialect } in wanted {
        let served = entry.and_then(|entry| entry.served(dialect));
        let url = match (own_url, served) {
            (Some(url), _) => Some(url.to_owned()),
            (None, Some(served)) => fill(scope, &served.base_url, &raw.parts),
            (None, None) => None,
        };
        let Some(url) = url else {
            report_no_address(scope, raw, entry, offset, dialect);
            return None;
        };
        dialects.extend(spoken(scope, dialect, url, served, &raw.parts));
    }
    Some(dialects).filter(|dialects| !dialects.is_empty())
}

/// A configured address serves this dialect too: dialects with one path in the catalogue have one path elsewhere. The address
/// is meant for the OpenAI dialect, if there is one.
fn shares_address(entry: &CatalogueEntry, served: &ServedDialect) -> bool {
    let meant = entry.served(Dialect::OpenAi).filter(|served| !served.only_if_named).unwrap_or(&entry.serves[0]);
    meant.base_url == served.base_url
}

fn report_no_address(
    scope: &ReaderScope<'_>,
    raw: &RawProvider,
    entry: Option<&'static CatalogueEntry>,
    offset: usize,
    dialect: Dialect,
) {
    let name = &raw.name.value;
    let title = shown(name);
    match entry {
        Some(entry) if entry.served(dialect).is_none() => {
            let known: Vec<&str> = entry.serves.iter().map(|served| served.dialect.as_str()).collect();
            let message = format!("[providers.{title}] is not known to speak {}", dialect.as_str());
            let expected = format!("base_url, or one of {}", known.join(", "));
            scope.report(LocatedProblem::at(offset, message).expected(expected));
        }
        Some(entry) => {
            let message = format!("[providers.{title}] has no address");
            scope.report(LocatedProblem::at(offset, message).expected(what_it_needs(entry)));
        }
        None => {
            let message = format!("[providers.{title}] has no address");
            let problem =
                LocatedProblem::at(raw.name.offset, message).expected("base_url = \"https://…\" or simulate = {…}");
            scope.report(problem.nearest(name, catalogue::entries().map(|entry| entry.name.as_str())));
        }
    }
}

fn what_it_needs(entry: &CatalogueEntry) -> &'static str {
    if entry.serves[0].base_url.contains("{project}") {
        "project = \"…\", or base_url = \"https://…\""
    } else {
        "base_url = \"https://…\""
    }
}

fn spoken(
    scope: &ReaderScope<'_>,
    dialect: Dialect,
    base_url: String,
    served: Option<&ServedDialect>,
    parts: &[(&'static str, Located<String>)],
) -> Option<ProviderDialect> {
    if base_url_problem(&base_url).is_some() {
        return None;
    }
    let mut auth = served.map_or_else(|| Auth::usual(dialect), ServedDialect::auth);
    if let Auth::SigV4 { region } = &mut auth {
        *region = part(parts, "region").map_or_else(|| usual_region(scope), str::to_owned);
    }
    let mut headers = HeaderMap::new();
    if dialect == Dialect::Anthropic {
        headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(ANTHROPIC_VERSION));
    }
    Some(ProviderDialect { dialect, base_url, auth, headers, transport: Transport::default() })
}

fn part<'a>(parts: &'a [(&'static str, Located<String>)], key: &str) -> Option<&'a str> {
    parts.iter().find(|(other, _)| *other == key).map(|(_, text)| text.value.as_str())
}

fn usual_region(scope: &ReaderScope<'_>) -> String {
    let is_region = |text: &String| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    (scope.env)("AWS_REGION").filter(is_region).unwrap_or_else(|| REGION.to_owned())
}

/// An address of the catalogue with the parts in braces filled in. None: there is none, or a part is unknown.
fn fill(scope: &ReaderScope<'_>, address: &str, parts: &[(&'static str, Located<String>)]) -> Option<String> {
    if address.is_empty() {
        return None;
    }
    let location = part(parts, "location").unwrap_or(LOCATION);
    let host = match location {
        LOCATION => "aiplatform.googleapis.com".to_owned(),
        location => format!("{location}-aiplatform.googleapis.com"),
    };
    let mut url = address.replace("{host}", &host).replace("{location}", location);
    if let Some(variable) = address_variable(address) {
        let own = (scope.env)(variable).filter(|own| !own.is_empty())?;
        url = url.replace(&format!("{{{variable}}}"), own.trim().trim_end_matches('/'));
    }
    if url.contains("{region}") {
        url = url.replace("{region}", &part(parts, "region").map_or_else(|| usual_region(scope), str::to_owned));
    }
    if url.contains("{project}") {
        url = url.replace("{project}", part(parts, "project")?);
    }
    Some(url)
}

/// Reports keys that would have no effect.
fn check_parts(
    scope: &ReaderScope<'_>,
    raw: &RawProvider,
    entry: Option<&'static CatalogueEntry>,
    dialects: &Option<Vec<ProviderDialect>>,
) {
    let Some(dialects) = dialects else { return };
    let signed = dialects.iter().any(|spoken| matches!(spoken.auth, Auth::SigV4 { .. }));
    let has_part = |key: &str| {
        let braces = format!("{{{key}}}");
        raw.typed.base_url.is_none() && entry.is_some_and(|entry| entry.serves[0].base_url.contains(&braces))
    };
    for (key, text) in &raw.parts {
        let used = match *key {
            "region" => signed,
            "api_version" => {
                dialects.iter().any(|spoken| matches!(spoken.dialect, Dialect::OpenAi | Dialect::Responses))
            }
            key => has_part(key),
        };
        if !used {
            let message = format!("\"{key}\" in [providers.{}] has no effect", shown(&raw.name.value));
            scope.report(LocatedProblem::at(text.offset, message).expected(match *key {
                "region" => "the dialect bedrock",
                "api_version" => "the dialect openai or responses, at Azure",
                _ => "the provider vertex, without base_url",
            }));
        }
    }
    check_api_version(scope, raw);
    if raw.has_aws && !signed {
        let message = format!("\"aws\" in [providers.{}] has no effect", shown(&raw.name.value));
        scope.report(LocatedProblem::at(raw.name.offset, message).expected("the dialect bedrock"));
    }
}

/// Checks the version of Azure's dated API, which has another path than its newer one.
fn check_api_version(scope: &ReaderScope<'_>, raw: &RawProvider) {
    let Some((_, version)) = raw.parts.iter().find(|(key, _)| *key == "api_version") else { return };
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = version.value.splitn(4, '-');
    let mut part = |count| parts.next().is_some_and(|text| digits(text, count));
    let is_date = part(4) && part(2) && part(2) && matches!(parts.next(), None | Some("preview"));
    let name = shown(&raw.name.value);
    if !is_date && !matches!(version.value.as_str(), "preview" | "latest") {
        let message = format!("bad value for \"api_version\" in [providers.{name}]");
        scope.report(
            LocatedProblem::at(version.offset, message)
                .expected("a date such as \"2024-10-21\" or \"2025-04-01-preview\""),
        );
    }
    if raw.typed.base_url.as_ref().is_some_and(|url| !url.trim_end_matches('/').ends_with("/openai")) {
        let message = format!("\"api_version\" in [providers.{name}] goes with another base_url");
        scope.report(
            LocatedProblem::at(version.offset, message).expected("a base_url that ends in /openai, or no api_version"),
        );
    }
}

/// The variable that its key is read from: the first that is set, or the usual one.
fn used_variable<'e>(scope: &ReaderScope<'_>, entry: &'e CatalogueEntry) -> Option<&'e str> {
    entry.set_variables(scope.env).next().or(entry.key_variable.as_deref())
}

fn usual_key(scope: &ReaderScope<'_>, entry: &CatalogueEntry, offset: usize) -> Keys {
    let Some(variable) = used_variable(scope, entry) else { return Keys::NotConfigured };
    if (scope.env)(variable).as_deref().is_some_and(catalogue::is_placeholder) {
        return Keys::Off(vec![variable.to_owned()]);
    }
    let typed = Located { offset, value: format!("${{{variable}}}") };
    match text::secret(scope, variable, &typed) {
        Secret::Set(key) => Keys::Keys(vec![key]),
        Secret::Unset(names) => Keys::Off(names),
        Secret::Bad => Keys::Off(Vec::new()),
    }
}
