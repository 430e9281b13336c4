//! Makes a [`Config`] from the tables: the catalogue, and checks that need two tables. Not for single keys: see `raw`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use http::Uri;
use ipnet::IpNet;
use secrecy::SecretString;

use super::catalogue_file::ChosenCatalogue;
use super::configured_provider;
use super::doubts;
use super::hosts::{self, Hosting};
use super::problem::{LocatedProblem, shown};
use super::provider::ResolvedNames;
use super::provider_table::RawProvider;
use super::raw::{RawConfig, RawModel, RawUpstream};
use super::reader::{Located, ReaderScope};
use super::role::UserRole;
use super::server::{LISTEN_VARIABLE, ServerKeys};
use super::settings::absolute;
use super::text::ExpandedText;
use super::transport::EnvProxies;
use super::user::{RawTeam, RawUser};
use super::{
    Config, ConfigSource, Cors, Listen, ModelConfig, PriceSource, Provider, Server, ShadowUpstream, StoreConfig, Team,
    Timeouts, UpstreamConfig, User, WrittenText, catalogue,
};
use photofinish_base::machine;

/// Bytes of `memory` per request in flight. A slow stream with its connections was measured to take 44 to 50 KB, so as
/// many streams as are let in take one and a half times `memory`. What is larger is leased from `memory` itself.
const REQUEST_BYTES: u64 = 32 << 10;
/// Descriptors per request in flight: the client's and those of three attempts.
const REQUEST_DESCRIPTORS: u64 = 4;
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Valid only if `scope` has no problem afterwards. The warnings are still in `scope`.
///
/// `listen` replaces the addresses of the file and of the environment.
pub(super) fn resolve(
    scope: &ReaderScope<'_>,
    raw: RawConfig,
    path: &Path,
    listen: Option<&Listen>,
    chosen: ChosenCatalogue,
) -> Config {
    let mut server = raw.server;
    let listed = std::mem::take(&mut server.listen);
    let listen = resolve_listen(scope, listed, listen, !raw.users.is_empty());
    warn_of_open_doors(scope, &server.cors, &server.trusted_proxies, !raw.users.is_empty());
    let env_proxies = EnvProxies::read(scope);
    let mut providers = listed_providers(scope, raw.providers, &env_proxies);
    add_used_providers(scope, &mut providers, (&raw.models, &raw.users, server.files.as_ref()), &env_proxies);
    add_providers_with_a_key(scope, &mut providers, &env_proxies);
    check_own_addresses(scope, &listen, &providers, &raw.models);
    let (serves_catalogue, has_users) = (raw.models.is_empty(), !raw.users.is_empty());
    let teams = resolve_teams(raw.teams);
    let users = resolve_users(scope, raw.users, &providers, &teams);
    doubts::warn_of_keys(scope, providers.values().flatten(), &users);
    let hosting = Hosting { catalogue: &chosen.catalogue, providers: &providers, users: &users, today: hosts::today() };
    let (mut models, mut aliases) = resolve_models(scope, raw.models, &hosting);
    doubts::warn_of_budgets(scope, &raw.race, models.values());
    if serves_catalogue {
        models = hosting.every_model(&raw.race);
        let served = chosen.catalogue.aliases();
        let served = served.filter(|(alias, name)| models.contains_key(*name) && hosting.is_named_by(alias));
        aliases = served.map(|(alias, name)| (alias.to_owned(), name.to_owned())).collect();
        models.extend(hosting.regional(&raw.race));
    }
    doubts::warn_of_limits(scope, (&hosting, &models, &aliases), &raw.limits, teams.values());
    let workloads = raw.probes.workloads();
    let probes = raw.probes.resolve(scope, &models.keys().cloned().collect(), serves_catalogue);
    Config {
        source: ConfigSource::File(absolute(path)),
        server: resolve_server(server, listen),
        given_listen: None,
        store: StoreConfig {
            address: raw.store.address(),
            retention: raw.store.retention,
            outage_allowance: raw.store.outage_allowance,
        },
        race: raw.race,
        providers: providers.into_iter().filter_map(|(name, provider)| Some((name, provider?))).collect(),
        models,
        serves_catalogue,
        catalogue: chosen.catalogue,
        catalogue_place: chosen.place,
        catalogue_refresh: raw.catalogue.refresh,
        catalogue_public_key: raw.catalogue.public_key,
        webhook: raw.incidents.webhook,
        otlp: raw.otlp.traces(scope),
        otlp_metrics: raw.otlp.figures(scope),
        oidc: raw.oidc.resolve(scope, has_users, &teams),
        aliases,
        users,
        limits: Arc::new(raw.limits),
        teams,
        probes,
        workloads,
        warnings: Vec::new(),
        text: None,
        written: WrittenText::default(),
        watched: BTreeMap::new(),
    }
}

fn resolve_server(server: ServerKeys, listen: Vec<Listen>) -> Server {
    let memory = server.memory.unwrap_or_else(|| whole(machine::memory()));
    Server {
        listen,
        tls: server.tls,
        trusted_proxies: server.trusted_proxies,
        body_max: server.body_max,
        memory,
        max_in_flight: server.max_in_flight.unwrap_or_else(|| usual_in_flight(memory)),
        event_max: server.event_max,
        drain: server.drain,
        drain_delay: server.drain_delay,
        hosts: server.hosts,
        cors: server.cors,
        files: server.files.map(|files| files.value),
        stored: server.stored,
        websocket: server.websocket,
        log: server.log,
    }
}

/// How many requests may run where the file does not say it.
fn usual_in_flight(memory: usize) -> usize {
    whole(in_flight(memory as u64, machine::descriptors()))
}

fn warn_of_open_doors(scope: &ReaderScope<'_>, cors: &Cors, trusted: &[IpNet], has_users: bool) {
    if trusted.iter().any(|network| network.prefix_len() == 0) {
        let warning = "\"trusted_proxies\" in [server] trusts every address: any client can claim any address";
        scope.warn(warning.to_owned());
    }
    if *cors == Cors::Any && !has_users {
        let warning = "cors = [\"*\"] without [users]: every web page that is open in a browser on this machine may spend the \
                       keys; name the origins, or add [users]";
        scope.warn(warning.to_owned());
    }
}

/// How many requests the memory and the descriptors allow.
fn in_flight(memory: u64, descriptors: u64) -> u64 {
    (memory / REQUEST_BYTES).min(descriptors / REQUEST_DESCRIPTORS).max(1)
}

fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Where to listen: what the command line gives, else the variable, else the file, else the default.
///
/// Without users, every client that reaches the gateway spends its keys, so it listens on local addresses only.
fn resolve_listen(
    scope: &ReaderScope<'_>,
    listed: Vec<Located<Listen>>,
    given: Option<&Listen>,
    has_users: bool,
) -> Vec<Listen> {
    const REACHABLE: &str = "which others can reach, and there are no [users]";
    let expected = "a table such as [users.alice] with token = \"${ALICE_TOKEN}\", or listen = \"127.0.0.1:8080\"";
    let is_open = |listen: &Listen| !has_users && !listen.is_local();
    if let Some(listen) = given.cloned().or_else(|| listen_of_environment(scope)) {
        if is_open(&listen) {
            let message = format!("--listen or {LISTEN_VARIABLE} is {listen}, {REACHABLE}");
            scope.wrong(0, message, expected);
        }
        return vec![listen];
    }
    for listen in listed.iter().filter(|listen| is_open(&listen.value)) {
        let message = format!("\"listen\" in [server] is {}, {REACHABLE}", listen.value);
        scope.wrong(listen.offset, message, expected);
    }
    match listed.is_empty() {
        true => vec![Listen::Tcp(LISTEN)],
        false => listed.into_iter().map(|listen| listen.value).collect(),
    }
}

fn listen_of_environment(scope: &ReaderScope<'_>) -> Option<Listen> {
    let text = (scope.env)(LISTEN_VARIABLE).filter(|text| !text.is_empty())?;
    let listen = Listen::parse(&text);
    if listen.is_none() {
        let message = format!("bad value \"{}\" for the variable {LISTEN_VARIABLE}", shown(&text));
        scope.wrong(0, message, Listen::EXPECTED);
    }
    listen
}

fn listed_providers(scope: &ReaderScope<'_>, raw: Vec<RawProvider>, env_proxies: &EnvProxies) -> ResolvedNames {
    let listed = |raw| configured_provider::listed(scope, raw, env_proxies).map(Arc::new);
    raw.into_iter().map(|raw| (raw.name.value.clone(), listed(raw))).collect()
}

/// Adds the providers of the catalogue that a model or a user's keys name and that have no table; their key is in the usual
/// variable.
fn add_used_providers(
    scope: &ReaderScope<'_>,
    providers: &mut ResolvedNames,
    (models, users, files): (&[RawModel], &[RawUser], Option<&ExpandedText>),
    env_proxies: &EnvProxies,
) {
    let shadows = models.iter().filter_map(|model| model.shadow.as_ref()).map(|(shadow, _)| shadow);
    let upstreams = models.iter().flat_map(|model| &model.upstreams).chain(shadows);
    let of_models = upstreams.map(|upstream| (&upstream.provider, upstream.offset));
    let of_users = users.iter().flat_map(|user| &user.keys).map(|(name, _)| (&name.value, name.offset));
    let of_files = files.map(|files| (&files.value, files.offset));
    for (name, offset) in of_models.chain(of_users).chain(of_files) {
        if providers.contains_key(name) {
            continue;
        }
        let Some(entry) = catalogue::find(name) else {
            if let Some(files) = files.filter(|files| files.offset == offset) {
                let message = format!("unknown provider \"{}\" in files of [server]", shown(&files.typed));
                report_unknown(scope, message, (name, offset), providers);
            }
            continue;
        };
        let provider = configured_provider::known(scope, entry, offset, env_proxies).map(Arc::new);
        providers.insert(name.clone(), provider);
    }
}

/// Adds the other providers of the catalogue whose usual variable is set: a request may name them.
fn add_providers_with_a_key(scope: &ReaderScope<'_>, providers: &mut ResolvedNames, env_proxies: &EnvProxies) {
    for entry in catalogue::entries() {
        if !providers.contains_key(&entry.name)
            && let Some(provider) = configured_provider::unmentioned(scope, entry, env_proxies)
        {
            providers.insert(entry.name.clone(), Some(Arc::new(provider)));
        }
    }
}

fn resolve_models(
    scope: &ReaderScope<'_>,
    raw: Vec<RawModel>,
    hosting: &Hosting<'_>,
) -> (BTreeMap<String, Arc<ModelConfig>>, BTreeMap<String, String>) {
    let names: BTreeSet<String> = raw.iter().map(|model| model.name.value.clone()).collect();
    let (mut models, mut aliases) = (BTreeMap::new(), BTreeMap::<String, String>::new());
    for raw in raw {
        let name = raw.name.value;
        for ExpandedText { offset, value: alias, .. } in raw.aliases {
            let other = match aliases.get(&alias) {
                Some(other) => format!("an alias of the model \"{}\" already", shown(other)),
                None if names.contains(&alias) => "the name of a model".to_owned(),
                None => {
                    aliases.insert(alias, name.clone());
                    continue;
                }
            };
            let message = format!("the alias \"{}\" in [models.{}] is {other}", shown(&alias), shown(&name));
            scope.report(LocatedProblem::at(offset, message));
        }
        let race = raw.race;
        let offset = raw.name.offset;
        let mut upstreams = match &raw.hosts {
            Some(limits) => hosting.of_table(scope, &Located { offset, value: name.clone() }, limits, race.timeouts),
            None => resolve_upstreams(scope, &name, raw.upstreams, hosting, race.timeouts),
        };
        if let (Some(streams), Some(_)) = (raw.upstream_stream, &raw.hosts) {
            upstreams.iter_mut().for_each(|upstream| upstream.upstream_stream = streams);
        }
        if !upstreams.is_empty() && upstreams.iter().all(|upstream| upstream.weight == 0.0) {
            let message = format!("every upstream of [models.{}] has the weight 0", shown(&name));
            scope.wrong(offset, message, "at least one that is greater");
        }
        doubts::warn_of_model(scope, &shown(&name), &race, &upstreams, hosting.catalogue);
        let shadow =
            raw.shadow.and_then(|shadow| resolve_shadow(scope, &name, shadow, &upstreams, (hosting, race.timeouts)));
        models.insert(name.clone(), Arc::new(ModelConfig { name, upstreams, hosts: raw.hosts, race, shadow }));
    }
    (models, aliases)
}

fn resolve_shadow(
    scope: &ReaderScope<'_>,
    model: &str,
    (raw, share): (RawUpstream, f64),
    upstreams: &[UpstreamConfig],
    (hosting, timeouts): (&Hosting<'_>, Timeouts),
) -> Option<Arc<ShadowUpstream>> {
    let offset = raw.offset;
    let upstream = resolve_upstreams(scope, model, vec![raw], hosting, timeouts).pop()?;
    let name = upstream.name();
    if upstreams.iter().any(|listed| listed.name() == name) {
        let message = format!("the shadow \"{}\" of [models.{}] is one of its upstreams", shown(&name), shown(model));
        scope.wrong(offset, message, "an upstream that does not race yet");
        return None;
    }
    Some(Arc::new(ShadowUpstream { upstream, share }))
}

fn resolve_upstreams(
    scope: &ReaderScope<'_>,
    model: &str,
    raw: Vec<RawUpstream>,
    hosting: &Hosting<'_>,
    timeouts: Timeouts,
) -> Vec<UpstreamConfig> {
    let providers = hosting.providers;
    let mut seen = BTreeSet::new();
    let mut upstreams = Vec::new();
    for raw in raw {
        if !seen.insert((raw.provider.clone(), raw.model.clone())) {
            let twice = shown(&format!("{}/{}", raw.provider, raw.model));
            let message = format!("the upstream \"{twice}\" is listed twice in [models.{}]", shown(model));
            scope.report(LocatedProblem::at(raw.offset, message));
            continue;
        }
        match providers.get(&raw.provider) {
            None => {
                let message = format!(
                    "unknown provider \"{}\" in an upstream of [models.{}]",
                    shown(&raw.provider),
                    shown(model)
                );
                let known = catalogue::entries().map(|entry| entry.name.as_str());
                let problem =
                    LocatedProblem::at(raw.offset, message).expected("a table under [providers], or a common provider");
                scope.report(problem.nearest(&raw.provider, providers.keys().map(String::as_str).chain(known)));
            }
            Some(None) => {}
            Some(Some(provider)) => {
                let timeouts = raw.keys.timeouts.over(timeouts);
                let known = UpstreamConfig::of_catalogue(provider.clone(), raw.model, hosting.catalogue, timeouts);
                if let Some(retired) = known.offering.as_deref().filter(|offering| offering.is_retired(&hosting.today))
                {
                    let since = retired.retires.as_deref().map_or(String::new(), |day| format!(" since {day}"));
                    let name = known.name();
                    scope.warn_at(
                        raw.offset,
                        format!("{name} in [models.{}] is retired{since}, according to the catalogue", shown(model)),
                    );
                }
                upstreams.push(UpstreamConfig {
                    weight: raw.keys.weight,
                    tier: raw.keys.tier,
                    in_flight_max: raw.keys.in_flight_max,
                    price_source: raw.price.map(|_| PriceSource::Config).or(known.price_source),
                    price: raw.price.or(known.price),
                    context: raw.keys.context.or(known.context),
                    upstream_stream: raw.keys.upstream_stream.unwrap_or(known.upstream_stream),
                    ..known
                });
            }
        }
    }
    upstreams
}

fn resolve_teams(raw: Vec<RawTeam>) -> BTreeMap<String, Arc<Team>> {
    let team =
        |RawTeam { name, limits }| (name.value.clone(), Arc::new(Team { name: name.value, limits: Arc::new(limits) }));
    raw.into_iter().map(team).collect()
}

/// The name of a user's team, if there is such a team.
fn team_of(
    scope: &ReaderScope<'_>,
    user: &str,
    team: &Located<String>,
    teams: &BTreeMap<String, Arc<Team>>,
) -> Option<String> {
    if teams.contains_key(&team.value) {
        return Some(team.value.clone());
    }
    let message = format!("unknown team \"{}\" in [users.{}]", shown(&team.value), shown(user));
    let problem = LocatedProblem::at(team.offset, message).expected("a table under [teams]");
    scope.report(problem.nearest(&team.value, teams.keys().map(String::as_str)));
    None
}

fn resolve_users(
    scope: &ReaderScope<'_>,
    raw: Vec<RawUser>,
    providers: &ResolvedNames,
    teams: &BTreeMap<String, Arc<Team>>,
) -> Vec<Arc<User>> {
    let mut seen = BTreeMap::<[u8; 32], String>::new();
    let mut users = Vec::new();
    for raw in raw {
        let keys = resolve_user_keys(scope, &raw.name.value, raw.keys, providers);
        let has_team = raw.team.is_some();
        let team = raw.team.and_then(|team| team_of(scope, &raw.name.value, &team, teams));
        let (at, name) = (raw.name.offset, raw.name.value);
        if raw.role == UserRole::Lead && !has_team {
            let message = format!("[users.{}] has role = \"lead\" and no team", shown(&name));
            scope.wrong(at, message, "team = \"NAME\", a table under [teams]");
        }
        let Some(token) = raw.token else { continue };
        if let Some(other) = seen.insert(token.value, name.clone()) {
            let message = format!("[users.{}] has the same token as [users.{}]", shown(&name), shown(&other));
            scope.wrong(token.offset, message, "a token of its own for each user");
        }
        users.push(Arc::new(User {
            name,
            token_sha256: token.value,
            role: raw.role,
            overrides: raw.overrides,
            keys,
            team,
            limits: Arc::new(raw.limits),
            key: None,
        }));
    }
    users
}

fn resolve_user_keys(
    scope: &ReaderScope<'_>,
    user: &str,
    raw: Vec<(Located<String>, Option<SecretString>)>,
    providers: &ResolvedNames,
) -> BTreeMap<String, SecretString> {
    let mut keys = BTreeMap::new();
    for (provider, key) in raw {
        match (providers.get(&provider.value), key) {
            (None, _) => {
                let name = shown(&provider.value);
                let message = format!("unknown provider \"{name}\" in keys of [users.{}]", shown(user));
                report_unknown(scope, message, (&provider.value, provider.offset), providers);
            }
            (Some(Some(listed)), Some(_)) if listed.simulate.is_some() => {
                let message = format!("keys of [users.{}] has a key for {}", shown(user), listed.name);
                scope.report(LocatedProblem::at(provider.offset, message + ", which is simulated and takes none"));
            }
            (Some(_), Some(key)) => {
                keys.insert(provider.value, key);
            }
            (Some(_), None) => {}
        }
    }
    keys
}

fn report_unknown(scope: &ReaderScope<'_>, message: String, (name, offset): (&str, usize), providers: &ResolvedNames) {
    let known = catalogue::entries().map(|entry| entry.name.as_str());
    let problem = LocatedProblem::at(offset, message).expected("a provider of this file or of the catalogue");
    scope.report(problem.nearest(name, providers.keys().map(String::as_str).chain(known)));
}

impl Provider {
    /// One of its addresses is an address that the gateway listens on.
    pub fn is_at(&self, listen: &[Listen]) -> bool {
        let addresses: Vec<SocketAddr> = listen.iter().filter_map(Listen::address).collect();
        self.own_address(&addresses).is_some()
    }

    /// The first of these addresses that leads to the provider.
    fn own_address(&self, listen: &[SocketAddr]) -> Option<SocketAddr> {
        let leads_to = |listen: SocketAddr| self.dialects.iter().any(|spoken| leads_to(&spoken.base_url, listen));
        listen.iter().copied().find(|listen| leads_to(*listen))
    }
}

/// A provider at an address that the gateway listens on gets each request back, which would race again. Loops that the file
/// does not show are not found: a host name of this machine, or a proxy that leads back.
/// A provider that a model uses is one problem; an unused one is a warning.
fn check_own_addresses(
    scope: &ReaderScope<'_>,
    listen: &[Listen],
    providers: &BTreeMap<String, Option<Arc<Provider>>>,
    models: &[RawModel],
) {
    let addresses: Vec<SocketAddr> = listen.iter().filter_map(Listen::address).collect();
    let mut own: BTreeMap<&str, SocketAddr> = BTreeMap::new();
    for provider in providers.values().flatten() {
        own.extend(provider.own_address(&addresses).map(|address| (provider.name.as_str(), address)));
    }
    for upstream in models.iter().flat_map(|model| &model.upstreams) {
        if let Some((name, address)) = own.remove_entry(upstream.provider.as_str()) {
            let message = format!("provider {name} is at {address}, where the gateway itself listens");
            let expected = format!("another port in base_url of [providers.{name}], or in \"listen\" in [server]");
            scope.wrong(upstream.offset, message, expected);
        }
    }
    for (name, address) in own {
        scope.warn(format!(
            "provider {name} is at {address}, where the gateway itself listens: give one of them another port"
        ));
    }
}

/// The base URL is an address that the gateway listens on, judged by the URL alone.
fn leads_to(base_url: &str, listen: SocketAddr) -> bool {
    let Ok(uri) = base_url.parse::<Uri>() else { return false };
    let Some(host) = uri.host() else { return false };
    let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    if uri.port_u16().unwrap_or(default) != listen.port() {
        return false;
    }
    let listens = listen.ip().to_canonical();
    if host.eq_ignore_ascii_case("localhost") {
        return listens.is_loopback() || listens.is_unspecified();
    }
    let Ok(host) = host.trim_matches(['[', ']']).parse::<IpAddr>() else { return false };
    let host = host.to_canonical();
    // A connection to the unspecified address reaches this machine.
    let here = host.is_loopback() || host.is_unspecified();
    host == listens || (here && listens.is_unspecified()) || (host.is_unspecified() && listens.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Config, Problems, parse};

    fn read(listen: &str, base_url: &str, rest: &str) -> Result<Config, Problems> {
        let text = format!("server.listen = \"{listen}\"\nproviders.p.base_url = \"{base_url}\"\n{rest}");
        parse(&format!("{text}\n[users.a]\ntoken = \"t\""), Path::new("x"), &|_| None)
    }

    #[test]
    fn an_upstream_at_the_own_address_is_a_problem() {
        for (listen, base_url, own) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080/v1", true),
            ("127.0.0.1:8080", "http://LocalHost:8080/v1", true),
            ("127.0.0.1:80", "http://127.0.0.1/v1", true),
            ("127.0.0.1:8080", "http://0.0.0.0:8080/v1", true),
            ("[::1]:8080", "http://[::1]:8080/v1", true),
            ("0.0.0.0:8080", "http://127.0.0.1:8080/v1", true),
            ("[::]:8080", "http://localhost:8080/v1", true),
            ("10.0.0.7:8080", "http://10.0.0.7:8080/v1", true),
            ("127.0.0.1:8080", "http://127.0.0.1:8081/v1", false),
            ("127.0.0.1:8080", "http://127.0.0.2:8080/v1", false),
            ("127.0.0.1:8080", "http://10.0.0.7:8080/v1", false),
            ("127.0.0.1:8080", "http://my-vllm:8080/v1", false),
            ("127.0.0.1:0", "http://127.0.0.1:8080/v1", false),
        ] {
            let problems = read(listen, base_url, "models.m.upstreams = [\"p/x\", \"p/y\"]").err();
            assert_eq!(problems.is_some(), own, "{listen} {base_url}");
            let Some(problems) = problems.map(|problems| problems.to_string()) else { continue };
            let start =
                format!("x:3:23: provider p is at {listen}, where the gateway itself listens; expected another");
            assert!(problems.starts_with(&start) && problems.ends_with("\n1 problem"), "{problems}");
        }
    }

    #[test]
    fn one_that_no_model_uses_is_a_warning() {
        let config = read("127.0.0.1:8080", "http://127.0.0.1:8080/v1", "[providers.llamacpp]").unwrap();
        let own = |name| config.warnings.iter().any(|warning| warning.starts_with(&format!("provider {name} is at")));
        assert!(own("p") && own("llamacpp"), "{:?}", config.warnings);
        let problems = parse("models.m.upstreams = [\"llamacpp/x\"]", Path::new("x"), &|_| None).unwrap_err();
        assert!(problems.to_string().contains("provider llamacpp is at 127.0.0.1:8080"), "{problems}");
    }
}
