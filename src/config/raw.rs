//! What was typed, table by table: names, types and ranges are checked here, and variables filled in.
//!
//! What depends on another table (does that provider exist?) is `resolve`'s, and so are the defaults.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::problem::LocatedProblem;
use super::raw_provider::RawProvider;
use super::raw_race::{RawRace, RawTimeouts};
use super::raw_server::RawServer;
use super::raw_user::RawUser;
use super::reader::{Located, ReaderScope, TomlTable, as_string, as_table};
use super::text::{self, ExpandedText};
use super::units;
use super::{Price, Retention};

use toml::de::{DeTable, DeValue};

/// The file. What is `None` was not typed, or was wrong and is reported.
pub(super) struct RawConfig {
    pub(super) server: RawServer,
    /// As typed: it may be relative.
    pub(super) store: Option<PathBuf>,
    pub(super) retention: Option<Retention>,
    pub(super) race: RawRace,
    pub(super) providers: Vec<RawProvider>,
    pub(super) models: Vec<RawModel>,
    pub(super) users: Vec<RawUser>,
}

/// `[models.NAME]`
pub(super) struct RawModel {
    pub(super) name: Located<String>,
    /// Empty only if that is reported already.
    pub(super) upstreams: Vec<RawUpstream>,
    pub(super) aliases: Vec<Located<String>>,
    pub(super) race: RawRace,
}

/// One entry of `upstreams`.
pub(super) struct RawUpstream {
    pub(super) offset: usize,
    pub(super) provider: String,
    pub(super) model: String,
    pub(super) weight: f64,
    pub(super) price: Option<Price>,
    pub(super) context: Option<u64>,
    pub(super) timeouts: RawTimeouts,
}

/// Tokens of prompt and answer: no model takes fewer or more.
const CONTEXT: RangeInclusive<u64> = 512..=100_000_000;

/// USD per million tokens, or a weight: nobody needs more.
const AMOUNTS: RangeInclusive<f64> = 0.0..=1_000_000.0;

impl RawConfig {
    pub(super) fn read<'s>(scope: &'s ReaderScope<'s>, document: DeTable<'_>) -> RawConfig {
        let mut root = TomlTable::new(scope, "the file".into(), 0, document);
        let server = root.table("server", "[server]".into()).map_or_else(RawServer::default, RawServer::read);
        let (mut store, mut retention) = (None, None);
        if let Some(mut table) = root.table("store", "[store]".into()) {
            store = read_store(&mut table);
            retention = read_retention(&mut table);
            table.finish();
        }
        let race = root.table("race", "[race]".into()).map_or_else(RawRace::default, |mut table| {
            let race = RawRace::read(&mut table);
            table.finish();
            race
        });
        let named = |tables: Vec<_>| tables.into_iter();
        let providers = named(root.named_tables("providers")).map(RawProvider::read).collect();
        let models = named(root.named_tables("models")).map(RawModel::read).collect();
        let users = named(root.named_tables("users")).map(RawUser::read).collect();
        root.finish();
        RawConfig { server, store, retention, race, providers, models, users }
    }
}

impl RawModel {
    fn read((name, mut table): (Located<String>, TomlTable<'_, '_>)) -> RawModel {
        check_name(table.scope, &format!("the model name in {}", table.name), &name);
        let upstreams = read_upstreams(&mut table, name.offset);
        let what = table.what("aliases");
        let mut aliases = Vec::new();
        for alias in table.strings("aliases").unwrap_or_default() {
            if let Some(alias) = text::plain(table.scope, &what, alias) {
                let alias = Located { offset: alias.offset, value: alias.value.value };
                check_name(table.scope, &format!("an alias in {}", table.name), &alias);
                aliases.push(alias);
            }
        }
        let race = RawRace::read(&mut table);
        table.finish();
        RawModel { name, upstreams, aliases, race }
    }
}

fn read_upstreams(model: &mut TomlTable<'_, '_>, model_offset: usize) -> Vec<RawUpstream> {
    const EXPECTED: &str = "a list such as [\"groq/llama-3.3-70b-versatile\"]";
    if !model.has("upstreams") {
        model.know(&["upstreams"]);
        let message = format!("{} has no \"upstreams\"", model.name);
        model.scope.report(LocatedProblem::at(model_offset, message).expected(EXPECTED));
        return Vec::new();
    }
    let Some(list) = model.list("upstreams", EXPECTED) else { return Vec::new() };
    if list.value.is_empty() {
        let message = format!("{} is empty", model.what("upstreams"));
        model.scope.report(LocatedProblem::at(list.offset, message).expected(EXPECTED));
    }
    list.value.into_iter().filter_map(|entry| RawUpstream::read(model, entry)).collect()
}

impl RawUpstream {
    fn read(model: &TomlTable<'_, '_>, entry: Located<DeValue<'_>>) -> Option<RawUpstream> {
        let (scope, offset) = (model.scope, entry.offset);
        let name = format!("an upstream of {}", model.name);
        if matches!(entry.value, DeValue::String(_)) {
            let typed = as_string(scope, &name, entry)?;
            let (provider, model) = split_upstream(scope, text::plain(scope, &name, typed)?)?;
            let timeouts = RawTimeouts::default();
            return Some(RawUpstream { offset, provider, model, weight: 1.0, price: None, context: None, timeouts });
        }
        let mut table = as_table(scope, &name, name.clone(), entry)?;
        if !table.has("upstream") {
            let message = format!("{name} has no \"upstream\"");
            scope.report(LocatedProblem::at(offset, message).expected(UPSTREAM_EXPECTED));
        }
        let upstream = table.text("upstream");
        let weight = table.number("weight", AMOUNTS).unwrap_or(1.0);
        let price = read_price(&mut table);
        let context = table.integer("context", CONTEXT);
        let timeouts = RawTimeouts::read(&mut table, false);
        table.finish();
        let (provider, model) = split_upstream(scope, upstream?)?;
        Some(RawUpstream { offset, provider, model, weight, price, context, timeouts })
    }
}

const UPSTREAM_EXPECTED: &str = "\"PROVIDER/MODEL\", such as \"groq/llama-3.3-70b-versatile\"";

/// The first slash parts the two.
fn split_upstream(scope: &ReaderScope<'_>, text: Located<ExpandedText>) -> Option<(String, String)> {
    match text.value.value.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && is_name(model) => {
            Some((provider.to_owned(), model.to_owned()))
        }
        _ => {
            let message = format!("bad upstream \"{}\"", super::problem::shown(&text.value.typed));
            scope.report(LocatedProblem::at(text.offset, message).expected(UPSTREAM_EXPECTED));
            None
        }
    }
}

fn read_price(upstream: &mut TomlTable<'_, '_>) -> Option<Price> {
    let (has_input, has_output) = (upstream.has("input_price"), upstream.has("output_price"));
    let has_cached = upstream.has("cached_price");
    let (input, output) = (upstream.number("input_price", AMOUNTS), upstream.number("output_price", AMOUNTS));
    let cached = upstream.number("cached_price", AMOUNTS);
    let lacks = |there: &str, missing: &str| {
        let message = format!("{} has \"{there}\" but no \"{missing}\"", upstream.name);
        upstream.scope.report(LocatedProblem::at(upstream.offset, message).expected("both, in USD per million tokens"));
    };
    match (has_input, has_output, has_cached) {
        (true, false, _) => lacks("input_price", "output_price"),
        (false, true, _) => lacks("output_price", "input_price"),
        (false, false, true) => lacks("cached_price", "input_price"),
        _ => {}
    }
    let (input, output) = (input?, output?);
    Some(Price { input, cached: cached.unwrap_or(input), output })
}

/// The path in `sqlite:PATH`. Another URL is not quoted: it may hold a password.
fn read_store(store: &mut TomlTable<'_, '_>) -> Option<PathBuf> {
    let text = store.text("url")?;
    let url = &text.value.value;
    let problem = match url.strip_prefix("sqlite:") {
        None => match url.split_once(':') {
            Some((scheme, _)) if scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                format!("\"url\" in [store] has the scheme \"{}\"; only sqlite is there", super::problem::shown(scheme))
            }
            _ => "\"url\" in [store] has no scheme".to_owned(),
        },
        Some(path) => {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path == ":memory:" {
                "\"url\" in [store] names a database in memory: its rows would be gone with the process".to_owned()
            } else if path.contains(['?', '#', '\0']) {
                "\"url\" in [store] has options after its path; there are none".to_owned()
            } else if path.is_empty() || path.ends_with('/') {
                "\"url\" in [store] names no file".to_owned()
            } else {
                return Some(PathBuf::from(path));
            }
        }
    };
    store.scope.report(LocatedProblem::at(text.offset, problem).expected("a file, such as \"sqlite:photofinish.db\""));
    None
}

/// A duration, or "forever".
fn read_retention(store: &mut TomlTable<'_, '_>) -> Option<Retention> {
    const DAY: Duration = Duration::from_secs(86_400);
    let text = store.text("retention")?;
    match (text.value.value.as_str(), units::parse_duration(&text.value.value)) {
        ("forever", _) => return Some(Retention::Forever),
        (_, Ok(kept)) if kept >= DAY => return Some(Retention::For(kept)),
        _ => {}
    }
    store.scope.report(store.bad_value("retention", &text).expected("1d to 365d, such as \"90d\", or \"forever\""));
    None
}

/// What an app sends as `model`, with commas between several.
fn check_name(scope: &ReaderScope<'_>, what: &str, name: &Located<String>) {
    if !is_name(&name.value) {
        let message = format!("{what} is not usable");
        scope
            .report(LocatedProblem::at(name.offset, message).expected("1 to 256 characters without spaces and commas"));
    }
}

fn is_name(name: &str) -> bool {
    (1..=256).contains(&name.len()) && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',')
}
