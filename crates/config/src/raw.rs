//! The tables of the file: reads them, and checks names, types and ranges.
//!
//! Not for what depends on two tables, such as a model with an unknown provider: see `resolve`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::{Schema, SchemaGenerator, json_schema};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use toml::de::{DeTable, DeValue};

use super::catalogue_file::CatalogueKeys;
use super::http_address::HttpAddress;
use super::keys::{self, ParsedText, PlainText, RealNumber, TableKeys, Texts, WholeNumber, choice, keys, nested, own};
use super::limits::Limits;
use super::names::names;
use super::oidc::OidcKeys;
use super::otlp::OtlpKeys;
use super::probes::RawProbes;
use super::problem::LocatedProblem;
use super::provider_table::{ProviderKeys, RawProvider};
use super::race::UpstreamTimeouts;
use super::reader::{Located, ReaderScope, TomlTable, as_string, as_table};
use super::server::ServerKeys;
use super::settings::{HostLimits, Precisions, absolute};
use super::store_address::{PostgresServer, PostgresUrl, StoreAddress};
use super::text::{self, ExpandedText, Secret};
use super::user::{RawTeam, RawUser, UserKeys};
use super::{Price, RaceSettings, Retention, UpstreamStream, units};

/// The file.
pub(super) struct RawConfig {
    pub(super) server: ServerKeys,
    pub(super) store: StoreKeys,
    pub(super) catalogue: CatalogueKeys,
    pub(super) incidents: IncidentKeys,
    pub(super) otlp: OtlpKeys,
    pub(super) oidc: OidcKeys,
    pub(super) race: RaceSettings,
    pub(super) providers: Vec<RawProvider>,
    pub(super) models: Vec<RawModel>,
    pub(super) users: Vec<RawUser>,
    pub(super) limits: Limits,
    pub(super) teams: Vec<RawTeam>,
    pub(super) probes: RawProbes,
}

const DAY: Duration = Duration::from_secs(86_400);

names! {
    /// `migrate` in `[store]`
    pub enum Migrate {
        Auto = "auto",
        Check = "check",
    }
}

keys! {
    /// `[store]`
    #[derive(Clone)]
    pub(super) struct StoreKeys {
        /// The history: `sqlite:PATH`, relative to the working directory, or a Postgres database, which several gateways may share.
        url: StoreUrl = own(read_url, |_| keys::text(r"sqlite:[^?#]*|postgres(ql)?://.+|file:.+")).shown("sqlite:photofinish.db"),
            or StoreUrl::File(PathBuf::from("photofinish.db"));
        /// With Postgres: the file where rows wait while the server is away.
        spill: PathBuf = own(read_spill, |_| keys::text(".*[^/]")).shown("photofinish.spill.db"),
            or PathBuf::from("photofinish.spill.db");
        /// With Postgres: whether a start brings the schema up to date, or only checks it (`photofinish migrate` brings it up to date).
        migrate: Migrate = choice(), or Migrate::Auto;
        /// With Postgres, while the server is away: what several gateways may spend of a budget beyond what was known by then, as a share of
        /// it. After that they refuse.
        outage_allowance: f64 = RealNumber(0.0..=1.0), or 0.05;
        /// How long rows are kept: at least 1d, or `forever`. Hourly and daily figures stay.
        retention: Retention = RETENTION, or Retention::For(90 * DAY);
    }
}

keys! {
    /// `[incidents]`
    #[derive(Clone)]
    pub(super) struct IncidentKeys {
        /// An address that gets a POST with JSON for each incident as it begins and as it ends.
        webhook: Option<HttpAddress> = own(read_webhook, |_| keys::text("https?://[^#@]+"));
    }
}

fn read_webhook(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<HttpAddress> {
    let text = table.text(key)?;
    let read = HttpAddress::parse(&text.value);
    if let Err(why) = read {
        let problem = LocatedProblem::at(text.offset, format!("{} {why}", table.what(key)));
        table.scope.report(problem.expected("an address such as \"https://example.com/hook\""));
    }
    read.ok()
}

/// `[models.NAME]`
pub(super) struct RawModel {
    pub(super) name: Located<String>,
    /// Empty only if that is reported already, or if `hosts` is there.
    pub(super) upstreams: Vec<RawUpstream>,
    /// The table lists no upstreams: the catalogue knows the hosts.
    pub(super) hosts: Option<HostLimits>,
    pub(super) aliases: Vec<ExpandedText>,
    pub(super) upstream_stream: Option<UpstreamStream>,
    pub(super) race: RaceSettings,
    /// With its share of the requests.
    pub(super) shadow: Option<(RawUpstream, f64)>,
}

keys! {
    /// `[models.NAME]`, without the settings of its races.
    #[derive(Clone)]
    pub(super) struct ModelKeys {
        /// The upstreams that may answer: `PROVIDER/MODEL`, or tables that set more.
        upstreams: Vec<RawUpstream> = own(read_upstreams, upstreams_schema), or Vec::new();
        /// Whether its upstreams are asked to stream; as their providers say unless set.
        upstream_stream: Option<UpstreamStream> = choice();
        /// Other names for the model, for apps that cannot change theirs.
        aliases: Vec<ExpandedText> = Texts { max: usize::MAX, noun: "names" }, or Vec::new();
        /// Without `upstreams`: providers that host the model and do not race it.
        exclude: Vec<ExpandedText> = Texts { max: EXCLUDED_MAX, noun: "providers" }, or Vec::new();
        /// Without `upstreams`: only hosts within this many times the price of the cheapest one.
        price_within: Option<f64> = RealNumber(PRICE_WITHIN);
        /// Without `upstreams`: `native` leaves out hosts known to serve the model below the precision in which its weights
        /// were released; `any` takes all; a list such as `["bf16", "fp8"]` only those.
        precision: Precisions = own(read_precision, precision_schema).shown("native"), or Precisions::Native;
        /// A newcomer, `PROVIDER/MODEL`: a share of the requests is sent there too, and its answers are judged and reach no client.
        shadow: Option<ExpandedText> = PlainText;
        /// The share of the requests that `shadow` gets.
        shadow_share: f64 = RealNumber(SHADOW_SHARE), or 0.05;
    }
}

keys! {
    /// One entry of `upstreams`, as a table.
    #[derive(Clone)]
    pub(super) struct UpstreamKeys {
        /// `PROVIDER/MODEL`
        upstream: Option<ExpandedText> = PlainText;
        /// Its share, for the policy `weighted`.
        weight: f64 = RealNumber(AMOUNTS), or 1.0;
        /// It is asked when no upstream of a lower tier is usable.
        tier: u32 = WholeNumber(1..=TIERS), or 1;
        /// Attempts that run there at once. While it is full, others are asked first.
        in_flight_max: Option<u32> = WholeNumber(1..=100_000);
        /// USD per million input tokens.
        input_price: Option<f64> = RealNumber(AMOUNTS);
        /// USD per million output tokens.
        output_price: Option<f64> = RealNumber(AMOUNTS);
        /// USD per million input tokens that the provider reads from its cache; `input_price` unless set.
        cached_price: Option<f64> = RealNumber(AMOUNTS);
        /// USD per million input tokens that the provider writes into its cache; `input_price` unless set.
        cache_write_price: Option<f64> = RealNumber(AMOUNTS);
        /// Tokens of prompt and answer that it takes. A larger request does not go there.
        context: Option<u64> = WholeNumber(CONTEXT);
        /// Whether it is asked to stream; as the model says unless set.
        upstream_stream: Option<UpstreamStream> = choice();
        /// Its own timeouts; the totals are the race's.
        timeouts: UpstreamTimeouts = nested(), or UpstreamTimeouts::default();
    }
}

/// One entry of `upstreams`.
#[derive(Clone)]
pub(super) struct RawUpstream {
    pub(super) offset: usize,
    pub(super) provider: String,
    pub(super) model: String,
    pub(super) price: Option<Price>,
    pub(super) keys: UpstreamKeys,
}

/// Providers in `exclude`.
const EXCLUDED_MAX: usize = 64;
/// None of the requests would be a shadow without use.
const SHADOW_SHARE: RangeInclusive<f64> = 0.001..=1.0;
/// Below 1 even the cheapest host would be left out.
const PRICE_WITHIN: RangeInclusive<f64> = 1.0..=1_000.0;

/// Tokens; no model takes fewer or more.
const CONTEXT: RangeInclusive<u64> = 512..=100_000_000;

const TIERS: u32 = 9;

/// USD per million tokens, or a weight.
const AMOUNTS: RangeInclusive<f64> = 0.0..=1_000_000.0;

impl RawConfig {
    pub(super) const HOMES: &'static [(&'static str, &'static [&'static str])] = &[
        ("[server]", ServerKeys::NAMES),
        ("[store]", StoreKeys::NAMES),
        ("[race]", RaceSettings::NAMES),
        ("[providers.NAME]", ProviderKeys::NAMES),
        ("[models.NAME]", ModelKeys::NAMES),
        ("[users.NAME]", UserKeys::NAMES),
        ("[limits]", Limits::NAMES),
    ];

    pub(super) fn read<'s>(scope: &'s ReaderScope<'s>, document: DeTable<'_>) -> RawConfig {
        let mut root = TomlTable::new(scope, "the file".into(), 0, document);
        let (server, store) = (section(&mut root, "server"), section(&mut root, "store"));
        let (catalogue, incidents) = (section(&mut root, "catalogue"), section(&mut root, "incidents"));
        let (otlp, oidc) = (section(&mut root, "otlp"), section(&mut root, "oidc"));
        let race = section(&mut root, "race");
        let providers = root
            .named_tables("providers", &["api_key", "base_url", "simulate"])
            .into_iter()
            .map(RawProvider::read)
            .collect();
        let models =
            root.named_tables("models", &["upstreams"]).into_iter().map(|model| RawModel::read(model, &race)).collect();
        let users = root.named_tables("users", &["token", "token_sha256"]).into_iter().map(RawUser::read).collect();
        let limits = section(&mut root, "limits");
        let teams = root.named_tables("teams", Limits::NAMES).into_iter().map(RawTeam::read).collect();
        let probes = RawProbes::read(&mut root);
        root.finish();
        RawConfig {
            server,
            store,
            catalogue,
            incidents,
            otlp,
            oidc,
            race,
            providers,
            models,
            users,
            limits,
            teams,
            probes,
        }
    }
}

fn section<T: TableKeys>(root: &mut TomlTable<'_, '_>, key: &'static str) -> T {
    let Some(mut table) = root.table(key, format!("[{key}]")) else { return T::default() };
    let keys = T::read(&mut table, &T::default());
    table.finish();
    keys
}

impl RawModel {
    fn read((name, mut table): (Located<String>, TomlTable<'_, '_>), race: &RaceSettings) -> RawModel {
        check_name(table.scope, &format!("the model name in {}", table.name), &name);
        let keys = ModelKeys::read(&mut table, &ModelKeys::default());
        let race = RaceSettings::read(&mut table, race);
        let mut upstreams = keys.upstreams;
        for upstream in &mut upstreams {
            upstream.keys.upstream_stream = upstream.keys.upstream_stream.or(keys.upstream_stream);
        }
        let hosts = (!table.has("upstreams")).then(|| HostLimits {
            exclude: keys.exclude.into_iter().map(|excluded| excluded.value).collect(),
            price_within: keys.price_within,
            precision: keys.precision,
        });
        for key in ["exclude", "price_within", "precision"].into_iter().filter(|key| hosts.is_none() && table.has(key))
        {
            let message = format!("{} has no effect: the table lists its upstreams", table.what(key));
            table.scope.wrong(table.offset, message, "one of the two");
        }
        let mut aliases = keys.aliases;
        aliases.retain(|alias| {
            let alias = Located { offset: alias.offset, value: alias.value.clone() };
            check_name(table.scope, &format!("an alias in {}", table.name), &alias)
        });
        if table.has("shadow_share") && !table.has("shadow") {
            let message = format!("{} has no effect without shadow", table.what("shadow_share"));
            table.scope.wrong(table.offset, message, "both, or neither");
        }
        let shadow = keys.shadow.and_then(|text| RawUpstream::shadow(table.scope, &name.value, text));
        table.finish();
        let shadow = shadow.map(|shadow| (shadow, keys.shadow_share));
        RawModel { name, upstreams, hosts, aliases, upstream_stream: keys.upstream_stream, race, shadow }
    }
}

const UPSTREAMS_EXPECTED: &str = "a list such as [\"groq/openai/gpt-oss-120b\"]";

fn read_upstreams(model: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<RawUpstream>> {
    let list = model.list(key, UPSTREAMS_EXPECTED)?;
    if list.value.is_empty() {
        let message = format!("{} is empty", model.what(key));
        model.scope.wrong(list.offset, message, UPSTREAMS_EXPECTED);
    }
    Some(list.value.into_iter().filter_map(|entry| RawUpstream::read(model, entry)).collect())
}

/// `precision = "native"`, `"any"` or a list.
fn read_precision(model: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Precisions> {
    const EXPECTED: &str = "\"native\", \"any\", or a list of bf16, fp16, fp8, int8, mxfp4, nvfp4, fp4, int4";
    if model.is_string(key) {
        let text = model.text(key)?;
        return match text.value.as_str() {
            "native" => Some(Precisions::Native),
            "any" => Some(Precisions::Any),
            _ => {
                model.scope.report(model.bad_value(key, &text).expected(EXPECTED));
                None
            }
        };
    }
    let listed = model.texts(key, PRECISIONS.len(), "precisions")?;
    for text in listed.iter().filter(|text| !PRECISIONS.contains(&text.value.as_str())) {
        model.scope.report(model.bad_value(key, text).expected(EXPECTED));
    }
    Some(Precisions::Listed(listed.into_iter().map(|text| text.value).collect()))
}

const PRECISIONS: [&str; 9] = ["fp32", "bf16", "fp16", "fp8", "int8", "mxfp4", "nvfp4", "fp4", "int4"];

fn precision_schema(_: &mut SchemaGenerator) -> Schema {
    let one = PRECISIONS.map(|name| json!({ "const": name }));
    json_schema!({ "anyOf": [{ "const": "native" }, { "const": "any" }, { "type": "array", "items": { "anyOf": one } }] })
}

fn upstreams_schema(generator: &mut SchemaGenerator) -> Schema {
    let (name, mut table) = (keys::text("[^/]+/[^\\s,]+"), keys::object(UpstreamKeys::properties(generator)));
    table.insert("required".to_owned(), ["upstream"].as_slice().into());
    json_schema!({ "type": "array", "minItems": 1, "items": { "anyOf": [name, table] } })
}

impl RawUpstream {
    /// The shadow of this model.
    fn shadow(scope: &ReaderScope<'_>, model: &str, text: ExpandedText) -> Option<RawUpstream> {
        let offset = text.offset;
        if text.value == model {
            let message = format!("the shadow of [models.{}] is the model itself", super::problem::shown(model));
            scope.wrong(offset, message, UPSTREAM_EXPECTED);
            return None;
        }
        let (provider, model) = split_upstream(scope, text)?;
        Some(RawUpstream { offset, provider, model, price: None, keys: UpstreamKeys::default() })
    }

    fn read(model: &TomlTable<'_, '_>, entry: Located<DeValue<'_>>) -> Option<RawUpstream> {
        let (scope, offset) = (model.scope, entry.offset);
        let name = format!("an upstream of {}", model.name);
        if matches!(entry.value, DeValue::String(_)) {
            let typed = as_string(scope, &name, entry)?;
            let (provider, model) = split_upstream(scope, text::plain(scope, &name, typed)?)?;
            return Some(RawUpstream { offset, provider, model, price: None, keys: UpstreamKeys::default() });
        }
        let mut table = as_table(scope, &name, name.clone(), entry)?;
        let keys = UpstreamKeys::read(&mut table, &UpstreamKeys::default());
        if !table.has("upstream") {
            let message = format!("{name} has no \"upstream\"");
            scope.wrong(offset, message, UPSTREAM_EXPECTED);
        }
        let price = price(&table, &keys);
        table.finish();
        let (provider, model) = split_upstream(scope, keys.upstream.clone()?)?;
        Some(RawUpstream { offset, provider, model, price, keys })
    }
}

const UPSTREAM_EXPECTED: &str = "\"PROVIDER/MODEL\", such as \"groq/openai/gpt-oss-120b\"";

/// Splits at the first slash.
fn split_upstream(scope: &ReaderScope<'_>, text: ExpandedText) -> Option<(String, String)> {
    match text.value.split_once('/') {
        Some((provider, model)) if model.contains('*') || provider.contains('*') => {
            let message = format!("the upstream \"{}\" has a wildcard", super::problem::shown(&text.typed));
            let expected =
                format!("the name of one model; apps can name any other themselves, as \"{provider}/MODEL\"");
            scope.wrong(text.offset, message, expected);
            None
        }
        Some((provider, model)) if !provider.is_empty() && is_name(model) => {
            Some((provider.to_owned(), model.to_owned()))
        }
        _ => {
            let message = format!("bad upstream \"{}\"", super::problem::shown(&text.typed));
            scope.wrong(text.offset, message, UPSTREAM_EXPECTED);
            None
        }
    }
}

/// A price needs both directions.
fn price(table: &TomlTable<'_, '_>, keys: &UpstreamKeys) -> Option<Price> {
    let lacks = |there: &str, missing: &str| {
        let message = format!("{} has \"{there}\" but no \"{missing}\"", table.name);
        table.scope.wrong(table.offset, message, "both, in USD per million tokens");
    };
    match ["input_price", "output_price"].map(|key| table.has(key)) {
        [true, false] => lacks("input_price", "output_price"),
        [false, true] => lacks("output_price", "input_price"),
        [true, true] => {}
        [false, false] => {
            let alone = ["cached_price", "cache_write_price"].into_iter().find(|key| table.has(key));
            alone.into_iter().for_each(|key| lacks(key, "input_price"));
        }
    }
    let (input, output) = (keys.input_price?, keys.output_price?);
    let (cached, written) = (keys.cached_price.unwrap_or(input), keys.cache_write_price.unwrap_or(input));
    Some(Price { input, cached, written, output, long: None })
}

/// What `url` names, as written there.
#[derive(Clone)]
pub(super) enum StoreUrl {
    File(PathBuf),
    Server(PostgresUrl),
}

/// `sqlite:PATH`, or the URL of a Postgres database. Messages do not quote another URL: it may contain a password.
fn read_url(store: &mut TomlTable<'_, '_>, key: &'static str) -> Option<StoreUrl> {
    let (typed, what) = (store.string(key)?, store.what(key));
    let url = match typed.value.starts_with("sqlite:") {
        true => SecretString::from(text::plain(store.scope, &what, typed.clone())?.value),
        false => match text::secret(store.scope, &what, &typed) {
            Secret::Set(url) => url,
            Secret::Unset(names) => {
                store.scope.report(text::unset(typed.offset, &what, &names));
                return None;
            }
            Secret::Bad => return None,
        },
    };
    let problem = match url_problem(url.expose_secret()) {
        Ok(address) => return Some(address),
        Err(problem) => problem,
    };
    let expected = "a file, such as \"sqlite:photofinish.db\", or \"postgres://USER:PASSWORD@HOST/DATABASE\"";
    store.scope.wrong(typed.offset, problem, expected);
    None
}

fn url_problem(url: &str) -> Result<StoreUrl, String> {
    let Some(path) = url.strip_prefix("sqlite:") else {
        return Err(match url.split_once(':') {
            Some(("postgres" | "postgresql", _)) => match PostgresUrl::parse(url) {
                Err(problem) => format!("\"url\" in [store] {problem}"),
                Ok(url) => return Ok(StoreUrl::Server(url)),
            },
            Some((scheme, _)) if scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                let scheme = super::problem::shown(scheme);
                format!("\"url\" in [store] has the scheme \"{scheme}\"; sqlite and postgres are supported")
            }
            _ => "\"url\" in [store] has no scheme".to_owned(),
        });
    };
    let path = path.strip_prefix("//").unwrap_or(path);
    if path == ":memory:" {
        Err("\"url\" in [store] names a database in memory: its rows would be lost with the process".to_owned())
    } else if path.contains(['?', '#', '\0']) {
        Err("\"url\" in [store] has options after its path; there are none".to_owned())
    } else if path.is_empty() || path.ends_with('/') {
        Err("\"url\" in [store] names no file".to_owned())
    } else {
        Ok(StoreUrl::File(PathBuf::from(path)))
    }
}

/// The database of this URL, for commands. One that is the `configured` one is used as the configuration says.
///
/// # Errors
/// It is none. The text does not quote it.
pub fn store_at(url: &str, configured: &StoreAddress) -> Result<StoreAddress, String> {
    let keys = StoreKeys { url: url_problem(url)?, spill: configured.local_file().into(), ..StoreKeys::default() };
    let address = keys.address();
    Ok(if address == *configured { configured.clone() } else { address })
}

/// A path that is not empty.
fn read_spill(store: &mut TomlTable<'_, '_>, key: &'static str) -> Option<PathBuf> {
    let text = store.text(key)?;
    if !text.value.is_empty() && !text.value.ends_with('/') {
        return Some(PathBuf::from(text.value));
    }
    let problem = store.bad_value(key, &text).expected("a file, such as \"photofinish.spill.db\"");
    store.scope.report(problem);
    None
}

impl StoreKeys {
    pub(super) fn address(&self) -> StoreAddress {
        match &self.url {
            StoreUrl::File(path) => StoreAddress::File(absolute(path)),
            StoreUrl::Server(url) => StoreAddress::Server(Arc::new(PostgresServer {
                url: url.clone(),
                spill: absolute(&self.spill),
                migrates: self.migrate == Migrate::Auto,
            })),
        }
    }
}

const RETENTION: ParsedText<Retention> = ParsedText {
    parse: |text| match (text, units::parse_duration(text)) {
        ("forever", _) => Some(Retention::Forever),
        (_, Ok(kept)) if kept >= DAY => Some(Retention::For(kept)),
        _ => None,
    },
    expected: "1d to 365d, such as \"90d\", or \"forever\"",
    pattern: r"forever|\d+(\.\d+)?\s*(ms|s|m|h|d)",
    format: |retention| match retention {
        Retention::Forever => "forever".to_owned(),
        Retention::For(kept) => units::format_duration(*kept),
    },
};

/// Checks a name that apps send as `model`: several are separated by commas.
fn check_name(scope: &ReaderScope<'_>, what: &str, name: &Located<String>) -> bool {
    let is_name = is_name(&name.value);
    if name.value.contains('*') {
        let message = format!("{what} is a wildcard");
        let expected = "the name of one model; apps can name any upstream themselves, as \"PROVIDER/MODEL\"";
        scope.wrong(name.offset, message, expected);
    } else if !is_name {
        let message = format!("{what} is not usable");
        scope.wrong(name.offset, message, "1 to 256 characters without spaces and commas");
    }
    is_name
}

fn is_name(name: &str) -> bool {
    (1..=256).contains(&name.len()) && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',')
}
