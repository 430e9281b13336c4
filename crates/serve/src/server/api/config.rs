//! `/api/config`: the configuration in force, for people. Names, numbers and states: no key, no token, no hash of either, and of
//! an address only its host.
//!
//! `problems` are those of a newer file that is not in force, with line and column, and `accept` is the request that takes it all
//! the same.

use axum::body::Body;
use axum::extract::State;
use http::{Response, Uri};
use serde_json::{Value, json};

use crate::server::reads::json as json_answer;
use crate::server::served_paths::ServedPaths;
use photofinish_config::offerings::InputKind;
use photofinish_config::units::format_duration;
use photofinish_config::{
    Config, Cors, Keys, ModelConfig, Permit, Price, Provider, Retention, Server, UpstreamConfig, User, today,
};
use photofinish_history::report::members::members;

/// Models in an answer of `/api/config`; with a catalogue there may be thousands.
const MODELS_MAX: usize = 1_000;

pub async fn config(State(site): State<ServedPaths>) -> Response<Body> {
    let refused = site.gateway.refused_configuration();
    let problems = refused.as_ref().map(ToString::to_string);
    let accept = refused.and_then(|refused| refused.accepted_by());
    let configuration = configuration(&site.gateway.live().config, problems, accept);
    json_answer(Value::from(configuration).to_string())
}

/// What the configuration in force says of providers, models and users: without secrets, and without what may differ between the machines
/// of one service.
pub fn shared_part(config: &Config) -> Value {
    let shown = Value::from(configuration(config, None, None));
    ["catalogue", "providers", "models", "users"]
        .into_iter()
        .map(|name| (name.to_owned(), shown[name].clone()))
        .collect()
}

members! {
    /// The configuration in force: names, numbers and states, without keys, tokens, hashes and the paths of addresses.
    pub CONFIGURATION: configuration(config: &Config, problems: Option<String>, accept: Option<String>) {
        /// where it was read
        source: Text = config.source.to_string();
        /// of a newer file that is not in force, with line and column; null where the file is in force
        problems: Text or_null = problems;
        /// the request that puts that file in force, where it is valid and drops much: `POST /api/reload?accept=FINGERPRINT`
        accept: Text or_null = accept;
        /// path of the database
        store: Text = config.store.address.to_string();
        /// `forever` or a duration
        retention: Text = retention(&config.store.retention);
        /// date of the catalogue of models
        catalogue: Text = config.catalogue.date();
        server: Object("ConfiguredServer") = server(&config.server);
        providers: List("ConfiguredProvider", usize::MAX) =
            config.providers.values().map(|of| provider(config, of)).collect::<Vec<_>>();
        models: List("ConfiguredModel", MODELS_MAX) =
            config.models.values().take(MODELS_MAX).map(|of| model(config, of)).collect::<Vec<_>>();
        models_left_out: Integer = config.models.len().saturating_sub(MODELS_MAX);
        users: List("ConfiguredUser", usize::MAX) = config.users.iter().map(|of| user(of)).collect::<Vec<_>>();
        /// as `photofinish check` prints them
        warnings: Texts = config.warnings.iter().chain(&config.old_catalogue(&today())).collect::<Vec<&String>>();
    }
}

members! {
    /// The table `[server]`.
    pub SERVER: server(of: &Server) {
        listen: Texts = of.listen.iter().map(|listen| listen.url(of.tls.is_some())).collect::<Vec<String>>();
        tls: Boolean = of.tls.is_some();
        hosts: Texts = of.hosts;
        cors: Texts = cors(&of.cors);
        /// the provider of files and batches
        files: Text or_null = of.files;
        /// bytes
        body_max: Integer = of.body_max;
        /// bytes
        memory: Integer = of.memory;
        /// requests
        max_in_flight: Integer = of.max_in_flight;
        /// a duration, such as `30s`
        drain: Text = format_duration(of.drain);
        drain_delay: Text = format_duration(of.drain_delay);
    }
}

members! {
    /// A provider.
    pub PROVIDER: provider(config: &Config, of: &Provider) {
        provider: Text = of.name;
        on: Boolean = config.provider_is_on(of);
        /// null where it is on
        why_off: Text or_null = of.why_off();
        simulated: Boolean = of.simulate.is_some();
        /// scheme, name and port alone
        host: Text or_null = host(&of.base_url);
        dialects: Texts = of.dialects.iter().map(|spoken| spoken.dialect.as_str()).collect::<Vec<&str>>();
        /// how many
        keys: Integer = match &of.keys {
            Keys::Keys(keys) => keys.len(),
            Keys::Token(_) => 1,
            Keys::Off(_) | Keys::NotConfigured => 0,
        };
        cancel_billing: Text = of.cancel_billing.as_str();
        /// providers that share one can fail together
        domain: Text or_null = of.domain;
        http_proxy: Boolean = of.preferred().transport.proxy.is_some();
    }
}

members! {
    /// A model.
    pub MODEL: model(config: &Config, of: &ModelConfig) {
        model: Text = of.name;
        aliases: Texts =
            config.aliases.iter().filter(|(_, model)| **model == of.name).map(|(alias, _)| alias).collect::<Vec<&String>>();
        policy: Text = of.race.policy.as_str();
        max_attempts: Integer = of.race.max_attempts;
        failovers: Integer = of.race.failovers;
        patience: Number = of.race.patience;
        upstreams: List("ConfiguredUpstream", usize::MAX) =
            of.upstreams.iter().map(|of| upstream(config, of)).collect::<Vec<_>>();
    }
}

members! {
    /// An upstream of a model.
    pub UPSTREAM: upstream(config: &Config, of: &UpstreamConfig) {
        /// `PROVIDER/MODEL`
        upstream: Text = of.name();
        on: Boolean = config.provider_is_on(&of.provider);
        weight: Number = of.weight;
        tier: Integer = of.tier;
        in_flight_max: Integer or_null = of.in_flight_max;
        /// tokens
        context: Integer or_null = of.context;
        /// what the catalogue says it can do: `tools`, `reasoning`, `schema`, and kinds of input other than text, such as `image`
        abilities: Texts = abilities(config, of);
        price: Object("ConfiguredPrice") or_null = of.price.map(|of| price(&of));
    }
}

fn abilities(config: &Config, of: &UpstreamConfig) -> Vec<&'static str> {
    let Some(known) = config.catalogue.offering_or_undated(&of.provider.name, &of.model) else { return Vec::new() };
    let can = [("tools", known.tools), ("reasoning", known.reasoning), ("schema", known.schema)];
    let can = can.into_iter().filter(|(_, can)| *can == Some(true)).map(|(name, _)| name);
    let kinds = known.kinds.iter().flatten().filter(|kind| **kind != InputKind::Text);
    can.chain(kinds.map(|kind| kind.as_str())).collect()
}

members! {
    /// A price.
    pub PRICE: price(of: &Price) {
        /// US dollars per million tokens
        input: Number = of.input;
        /// US dollars per million tokens
        output: Number = of.output;
    }
}

members! {
    /// A user.
    pub USER: user(of: &User) {
        user: Text = of.name;
        /// `admin`, `viewer`, `metrics`, `lead` or `user`
        role: Text = of.role.as_str();
        /// `usual`, `all`, or what the user may set by header
        overrides: TextOrTexts = match &of.overrides {
            Permit::Usual => json!("usual"),
            Permit::All => json!("all"),
            Permit::Listed(listed) => json!(listed.iter().map(|one| one.as_str()).collect::<Vec<&str>>()),
        };
        /// providers
        own_keys: Texts = of.keys.keys().collect::<Vec<&String>>();
    }
}

fn retention(retention: &Retention) -> String {
    match retention {
        Retention::Forever => "forever".to_owned(),
        Retention::For(time) => format_duration(*time),
    }
}

fn cors(cors: &Cors) -> Value {
    match cors {
        Cors::None => json!([]),
        Cors::Any => json!(["*"]),
        Cors::Only(origins) => json!(origins),
    }
}

/// Scheme, name and port. The rest may hold a secret.
fn host(address: &str) -> Option<String> {
    let uri: Uri = address.parse().ok()?;
    let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{}://{}{port}", uri.scheme_str()?, uri.host()?))
}
