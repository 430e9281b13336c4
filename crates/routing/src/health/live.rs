//! The configuration in force: the address of each provider, and the rotation of its keys. Not for the state of upstreams.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::callers::Callers;
use crate::learning::{CostBudgetKey, Learning};
use crate::money::tariff::Basis;
use photofinish_base::printable::quoted;
use photofinish_config::keyring::{HashedKey, KeyOrder, SharedKeys};
use photofinish_config::{Config, Keys, ModelConfig, Provider, ProviderLists, RaceSettings, UpstreamConfig, User};
use photofinish_transport::upstream::{Endpoint, InvalidUrl, WarmEndpoint};
use photofinish_wire::Dialect;

/// Upstreams that one request may name.
const NAMED_MAX: usize = 64;
/// Bytes of a model's name in a request: it goes into rows and a header.
const NAME_MAX: usize = 512;

/// One configuration in force. A reload makes another; a running request keeps the one it began with.
pub struct LiveConfig {
    /// With what providers list.
    pub config: Config,
    /// As it was read.
    base: Arc<Config>,
    /// Of every configuration of a gateway the same.
    pub callers: Arc<Callers>,
    /// The route of each provider, by name.
    routes: HashMap<String, Arc<ProviderRoute>>,
    /// `provider/model` of all models.
    upstreams: HashSet<String>,
    /// Whether a model has a shadow: most configurations have none, and their requests look for none.
    has_shadows: bool,
    /// The users' keys, by user, then by provider.
    user_keys: Arc<HashMap<String, HashMap<String, HashedKey>>>,
}

/// The address and the keys of a provider.
pub struct ProviderRoute {
    /// One for each of its dialects.
    endpoints: Vec<(Dialect, Endpoint)>,
    shared: SharedKeys,
    turn: AtomicUsize,
}

impl ProviderRoute {
    /// The endpoint of a dialect.
    pub fn endpoint(&self, dialect: Dialect) -> Option<&Endpoint> {
        self.endpoints.iter().find(|(spoken, _)| *spoken == dialect).map(|(_, endpoint)| endpoint)
    }

    /// The keys of callers without their own key.
    pub fn shared(&self) -> Cow<'_, KeyOrder> {
        self.shared.ring()
    }

    /// The keys for one request: the caller's own, or the shared keys in rotation.
    pub fn keys(&self, own: Option<HashedKey>) -> KeyOrder {
        let turn = if own.is_some() { 0 } else { self.turn.fetch_add(1, Ordering::Relaxed) };
        self.shared.ring().for_request(own, turn)
    }
}

impl LiveConfig {
    /// `simulated`: the addresses of the simulated providers, by name.
    ///
    /// # Errors
    /// A provider's address is not a URL.
    pub fn new(config: Config, simulated: &HashMap<String, String>) -> Result<LiveConfig, InvalidUrl> {
        let mut routes = HashMap::new();
        for provider in config.providers.values() {
            let mut endpoints = Vec::with_capacity(provider.dialects.len());
            for spoken in &provider.dialects {
                let url = simulated.get(&provider.name).unwrap_or(&spoken.base_url);
                endpoints.push((spoken.dialect, Endpoint::parse(url)?.with_transport(spoken.transport.clone())));
            }
            let route = ProviderRoute { endpoints, shared: SharedKeys::of(provider), turn: AtomicUsize::new(0) };
            routes.insert(provider.name.clone(), Arc::new(route));
        }
        let keys_of = |user: &User| {
            user.keys.iter().map(|(provider, key)| (provider.clone(), HashedKey::new(key.clone(), true))).collect()
        };
        let user_keys = config.users.iter().map(|user| (user.name.clone(), keys_of(user))).collect();
        Ok(LiveConfig {
            callers: Arc::new(Callers::new(&config)),
            upstreams: upstream_names(&config),
            has_shadows: config.models.values().any(|model| model.shadow.is_some()),
            base: Arc::new(config.clone()),
            config,
            routes,
            user_keys: Arc::new(user_keys),
        })
    }

    /// The same configuration, with what providers list now instead of what they listed before.
    pub fn with_lists(&self, lists: &ProviderLists) -> LiveConfig {
        let config = self.base.with_lists(lists);
        LiveConfig { upstreams: upstream_names(&config), ..self.with_config(config) }.with_made_teams()
    }

    /// The same configuration, with the callers of the one before it.
    pub fn with_callers(self, callers: Arc<Callers>) -> LiveConfig {
        callers.configure(&self.base);
        LiveConfig { callers, ..self }.with_made_teams()
    }

    /// The same configuration, with the teams that are made at run time now. Those of the file count before them.
    pub fn with_made_teams(&self) -> LiveConfig {
        let mut config = self.config.clone();
        config.teams = self.callers.made_teams();
        config.teams.extend(self.base.teams.clone());
        self.with_config(config)
    }

    fn with_config(&self, config: Config) -> LiveConfig {
        LiveConfig {
            config,
            base: self.base.clone(),
            callers: self.callers.clone(),
            upstreams: self.upstreams.clone(),
            has_shadows: self.has_shadows,
            routes: self.routes.clone(),
            user_keys: self.user_keys.clone(),
        }
    }

    /// The configuration as it was read, without what providers list.
    pub fn as_read(&self) -> &Config {
        &self.base
    }

    /// How many users there are, those that were made at run time too. 0: no token is needed.
    pub fn users(&self) -> usize {
        match self.config.users.len() {
            0 => 0,
            configured => configured + self.callers.made_users(),
        }
    }

    /// The endpoints to which a connection is kept open.
    pub fn warm(&self) -> Vec<WarmEndpoint> {
        let is_warm = |provider: &&Arc<Provider>| provider.warm && !matches!(provider.keys, Keys::Off(_));
        let routes = self.config.providers.values().filter(is_warm).filter_map(|provider| self.route(&provider.name));
        let connect_timeout = self.config.race.timeouts.connect;
        let endpoints = routes.flat_map(|route| &route.endpoints);
        endpoints.map(|(_, endpoint)| WarmEndpoint { endpoint: endpoint.clone(), connect_timeout }).collect()
    }

    /// Whether a model lists it, or has it as its shadow.
    pub fn is_configured(&self, upstream: &str) -> bool {
        self.upstreams.contains(upstream)
    }

    pub fn has_shadows(&self) -> bool {
        self.has_shadows
    }

    /// Whether it is a shadow, and no model lists it: callers may not name it as one that is listed.
    pub fn is_only_shadow(&self, upstream: &UpstreamConfig) -> bool {
        let is_it =
            |other: &UpstreamConfig| other.provider.name == upstream.provider.name && other.model == upstream.model;
        let models = || self.config.models.values();
        self.has_shadows
            && models().filter_map(|model| model.shadow.as_ref()).any(|shadow| is_it(&shadow.upstream))
            && !models().flat_map(|model| &model.upstreams).any(is_it)
    }

    /// Gives configured names separate entries in the statistics.
    pub(super) fn teach_names(&self, learning: &Learning) {
        let of_model = |model: &Arc<ModelConfig>| {
            CostBudgetKey::new(&model.name, model.race.budget, Basis::of(model.upstreams.iter()).is_money())
        };
        let cost_budgets = self.config.models.values().map(of_model);
        learning.configure(self.upstreams.iter().cloned(), cost_budgets);
    }

    pub fn route(&self, provider: &str) -> Option<&ProviderRoute> {
        self.routes.get(provider).map(Arc::as_ref)
    }

    pub fn key_of_user(&self, user: &User, provider: &str) -> Option<&HashedKey> {
        self.user_keys.get(&user.name)?.get(provider)
    }
}

fn upstream_names(config: &Config) -> HashSet<String> {
    let shadows = config.models.values().filter_map(|model| model.shadow.as_ref()).map(|shadow| &shadow.upstream);
    config.models.values().flat_map(|model| &model.upstreams).chain(shadows).map(UpstreamConfig::name).collect()
}

/// Upstreams separated by commas. An upstream that the model lists keeps the prices and timeouts it has there.
pub fn named(
    live: &LiveConfig,
    model: Option<&Arc<ModelConfig>>,
    names: &str,
    settings: &RaceSettings,
) -> Result<Vec<UpstreamConfig>, String> {
    let mut upstreams: Vec<UpstreamConfig> = Vec::new();
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let (provider, model_name) =
            name.split_once('/').ok_or_else(|| format!("{} is not written as provider/model", quoted(name)))?;
        let known = live.config.providers.get(provider).ok_or_else(|| live.config.why_no_provider(provider))?;
        if known.is_at(&live.config.server.listen) {
            return Err(format!("the provider {} is at the gateway's own address", quoted(provider)));
        }
        if model_name.is_empty() {
            return Err(format!("{} names no model", quoted(name)));
        }
        if model_name.len() > NAME_MAX || model_name.contains(char::is_control) {
            return Err(format!("{} has more than {NAME_MAX} bytes or control characters in it", quoted(name)));
        }
        // Some dialects put the model into the path.
        if model_name.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(format!("{} has a part that is only dots", quoted(name)));
        }
        let twice = upstreams.iter().any(|upstream| upstream.provider.name == provider && upstream.model == model_name);
        if twice || upstreams.len() == NAMED_MAX {
            return Err(format!("{} is named twice, or there are more than {NAMED_MAX}", quoted(name)));
        }
        let listed = model.and_then(|model| {
            model.upstreams.iter().find(|upstream| upstream.provider.name == provider && upstream.model == model_name)
        });
        let upstream = listed.cloned().unwrap_or_else(|| {
            let (provider, catalogue) = (known.clone(), &live.config.catalogue);
            UpstreamConfig::of_catalogue(provider, model_name.to_owned(), catalogue, settings.timeouts)
        });
        // The caller chose it, whatever its provider lists.
        upstreams.push(UpstreamConfig { unlisted: None, ..upstream });
    }
    if upstreams.is_empty() { Err("it names no upstream".to_owned()) } else { Ok(upstreams) }
}

pub fn why_off(upstream: &UpstreamConfig) -> String {
    let provider = &upstream.provider;
    match provider.why_off() {
        Some(why) => format!("{} is off because {why}", provider.name),
        None => format!("{} is off", provider.name),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_request_may_name_a_provider_of_the_catalogue_whose_key_is_set() {
        let env = |name: &str| (name == "GROQ_API_KEY").then(|| "k".to_owned());
        let live =
            LiveConfig::new(photofinish_config::parse("", Path::new("x"), &env).unwrap(), &HashMap::new()).unwrap();
        let named = |names: &str| named(&live, None, names, &live.config.race).map(|upstreams| upstreams[0].name());
        assert_eq!(named("groq/llama-3.3-70b"), Ok("groq/llama-3.3-70b".to_owned()));
        assert!(live.route("groq").is_some());
        for (name, why) in [
            ("cerebras/x", "the provider cerebras needs a key in CEREBRAS_API_KEY, or a table [providers.cerebras]"),
            ("ollama/x", "the provider ollama needs a table [providers.ollama]"),
            (
                "azure/x",
                "the provider azure needs a key in AZURE_OPENAI_API_KEY and its address in AZURE_OPENAI_ENDPOINT, or a table \
                 [providers.azure]",
            ),
            ("gorq/x", "there is no provider \"gorq\" in the configuration (did you mean groq?)"),
            ("nobody/x", "there is no provider \"nobody\" in the configuration"),
        ] {
            assert_eq!(named(name), Err(why.to_owned()));
        }
    }

    #[test]
    fn a_request_that_names_the_gateway_itself_is_refused() {
        let text = "server.listen = \"127.0.0.1:8080\"\nproviders.me.base_url = \"http://localhost:8080/v1\"\n\
                    providers.other.base_url = \"http://localhost:8081/v1\"";
        let config = photofinish_config::parse(text, Path::new("x"), &|_| None).unwrap();
        let live = LiveConfig::new(config, &HashMap::new()).unwrap();
        let named = |names: &str| named(&live, None, names, &live.config.race).map(|upstreams| upstreams.len());
        assert_eq!(named("other/m"), Ok(1));
        assert_eq!(named("other/m,me/m"), Err("the provider \"me\" is at the gateway's own address".to_owned()));
    }
}
