//! The [`Provider`] that follows from a table, from the catalogue and from the environment.

use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::catalogue::{self, CatalogueEntry, ServedDialect, address_variable};
use super::problem::{LocatedProblem, shown};
use super::provider_table::{ProviderKeys, RawProvider, base_url_problem};
use super::reader::{Located, ReaderScope};
use super::request;
use super::text::{self, Secret};
use super::transport::{EnvProxies, RawTransport};
use super::{Auth, CancelBilling, Keys, Provider, ProviderDialect, Transport, UpstreamStream};
use photofinish_wire::quirks::ProviderRequests;
use photofinish_wire::{Dialect, Prefix};

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
    let entry = entry_of(scope, &raw)?;
    let dialects = dialects(scope, &raw, entry);
    check_parts(scope, &raw, entry, &dialects);
    let mut dialects = dialects?;
    let table = format!("[providers.{}]", shown(&raw.name.value));
    raw.transport.check(scope, &table, dialects.iter().map(|spoken| &*spoken.base_url));
    dialects.iter_mut().for_each(|spoken| spoken.transport = raw.transport.for_url(&spoken.base_url, env_proxies));
    let name = raw.name.value;
    of_variables(scope, &name, &raw.keys);
    of_discovery(scope, &name, raw.typed.discover, &dialects);
    if let Some(url) = raw.typed.base_url.as_deref() {
        of_path(scope, &name, url, entry, &dialects);
    }
    if let (Keys::NotConfigured, Some(variable)) = (&raw.keys, entry.and_then(|entry| entry.key_variable.as_deref())) {
        scope.warn(format!(
            "provider {name} has no api_key: only callers with a key of their own can use it; \
             api_key = \"${{{variable}}}\" is the usual one"
        ));
    }
    request::report_keys(scope, &name, &raw.typed.forward_headers, &dialects);
    let known = bare(name, entry, dialects)?;
    let api_version = raw.parts.into_iter().find(|(key, _)| *key == "api_version").map(|(_, text)| text.value);
    let known = Provider { api_version, keys: raw.keys, key_sources: raw.key_sources, ..known };
    Some(with_table(known, raw.typed))
}

/// Its entry in the catalogue, if there is one. None: `like` is wrong, which is reported.
fn entry_of(scope: &ReaderScope<'_>, raw: &RawProvider) -> Option<Option<&'static CatalogueEntry>> {
    let (name, own) = (&raw.name.value, catalogue::find(&raw.name.value));
    let Some(like) = &raw.typed.like else { return Some(own) };
    let title = format!("like of [providers.{}]", shown(name));
    if own.is_some() {
        let message = format!("{title}: the catalogue has a provider of this name");
        scope.wrong(like.offset, message, format!("another name, such as [providers.{name}-2]"));
        return None;
    }
    let entry = catalogue::find(&like.value);
    if entry.is_none() {
        let problem = LocatedProblem::at(like.offset, format!("{title}: no provider \"{}\"", shown(&like.value)));
        let problem = problem.expected("one of `photofinish providers`");
        scope.report(problem.nearest(&like.value, catalogue::entries().map(|entry| entry.name.as_str())));
    }
    entry.map(Some)
}

/// A provider with the facts of the catalogue, without a key.
fn bare(name: String, entry: Option<&CatalogueEntry>, dialects: Vec<ProviderDialect>) -> Option<Provider> {
    Some(Provider {
        vendor: entry.map_or(&name, |entry| &entry.name).clone(),
        name,
        base_url: dialects.first()?.base_url.clone(),
        dialects,
        api_version: None,
        upstream_stream: UpstreamStream::Auto,
        cancel_billing: entry.map_or(CancelBilling::Unknown, |entry| entry.cancel_billing.value),
        domain: None,
        requests: entry.map(CatalogueEntry::requests).unwrap_or_default(),
        omits_finish_reason: entry.is_some_and(|entry| entry.omits_finish_reason.value),
        prefix: entry.map(|entry| entry.continues.value).unwrap_or_default(),
        forward_headers: Vec::new(),
        keys: Keys::NotConfigured,
        key_sources: Vec::new(),
        discover: entry.is_some_and(|entry| entry.lists.value),
        warm: false,
        simulate: None,
    })
}

/// What the table says beyond that.
fn with_table(known: Provider, keys: ProviderKeys) -> Provider {
    let (own, changes) = (keys.request.quirks(), keys.request.changes());
    Provider {
        upstream_stream: keys.upstream_stream.unwrap_or(known.upstream_stream),
        cancel_billing: keys.cancel_billing.unwrap_or(known.cancel_billing),
        domain: keys.domain,
        requests: ProviderRequests { own, changes, models: keys.request_for, ..known.requests },
        omits_finish_reason: keys.omits_finish_reason.unwrap_or(known.omits_finish_reason),
        prefix: keys.prefix.unwrap_or(known.prefix),
        forward_headers: keys.forward_headers.into_iter().map(|header| header.value).collect(),
        discover: keys.discover.unwrap_or(known.discover),
        warm: keys.warm.unwrap_or_default(),
        simulate: keys.simulate,
        ..known
    }
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
    let Some(provider) = bare(name.clone(), Some(entry), dialects) else {
        let message = format!("provider {name} has no address of its own");
        let expected = format!("a table [providers.{name}] with {} and a key", what_it_needs(entry));
        scope.wrong(offset, message, expected);
        return None;
    };
    let key_sources = used_variable(scope, entry).map(str::to_owned).into_iter().collect();
    Some(Provider { keys: usual_key(scope, entry, offset), key_sources, ..provider })
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

/// A simulated provider speaks the simulator's dialect.
fn simulated(raw: RawProvider) -> Option<Provider> {
    raw.typed.simulate.as_ref()?;
    let spoken = ProviderDialect {
        dialect: Dialect::OpenAi,
        base_url: String::new(),
        auth: Auth::Bearer,
        headers: HeaderMap::new(),
        transport: Transport::default(),
    };
    let bare = bare(raw.name.value, None, vec![spoken])?;
    Some(with_table(Provider { cancel_billing: CancelBilling::Stops, prefix: Prefix::Off, ..bare }, raw.typed))
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
            scope.wrong(offset, message, expected);
        }
        Some(entry) => {
            let message = format!("[providers.{title}] has no address");
            scope.wrong(offset, message, what_it_needs(entry));
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
            scope.wrong(
                text.offset,
                message,
                match *key {
                    "region" => "the dialect bedrock",
                    "api_version" => "the dialect openai or responses, at Azure",
                    _ => "the provider vertex, without base_url",
                },
            );
        }
    }
    check_api_version(scope, raw);
    if raw.has_aws && !signed {
        let message = format!("\"aws\" in [providers.{}] has no effect", shown(&raw.name.value));
        scope.wrong(raw.name.offset, message, "the dialect bedrock");
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
        scope.wrong(version.offset, message, "a date such as \"2024-10-21\" or \"2025-04-01-preview\"");
    }
    if raw.typed.base_url.as_ref().is_some_and(|url| !url.trim_end_matches('/').ends_with("/openai")) {
        let message = format!("\"api_version\" in [providers.{name}] goes with another base_url");
        scope.wrong(version.offset, message, "a base_url that ends in /openai, or no api_version");
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

/// Warns of a variable that is not set and differs by a letter or two from a usual one that is.
fn of_variables(scope: &ReaderScope<'_>, provider: &str, keys: &Keys) {
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
fn of_path(
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
fn of_discovery(scope: &ReaderScope<'_>, provider: &str, discover: Option<bool>, dialects: &[ProviderDialect]) {
    if discover == Some(true) && dialects.iter().all(|spoken| spoken.dialect.model_list_path().is_none()) {
        scope.warn(format!("provider {provider}: discover has no effect, because its dialect has no list of models"));
    }
}
