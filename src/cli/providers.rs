//! `photofinish providers`: the built-in catalogue with its sources, and what is on in this configuration.
//!
//! Not for requests to a provider: see `check --live`.

use std::io::{self, Write};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::outcome::WrongUse;
use super::provider_state::ProviderState;
use super::text::{aligned, clean, columns, fitted, write_columns, write_folded, write_lines};
use photofinish_config::catalogue::{self, CatalogueEntry, ServedDialect};
use photofinish_config::{Auth, CancelBilling, Config, Keys, Provider, ProviderDialect};
use photofinish_wire::{Dialect, Surface};

pub const EXAMPLES: &str = include_str!("help/providers.txt").trim_ascii_end();

#[derive(Debug, Args)]
pub struct ProvidersOptions {
    /// One provider of the catalogue or the configuration.
    name: Option<String>,
    /// JSON: one object with a list of providers.
    #[arg(long)]
    json: bool,
}

/// Prints the providers. `config` is none without a configuration file. `width`: of the terminal, if it is one.
///
/// # Errors
/// `out` fails, or `WrongUse` for an unknown name.
pub fn run(
    config: Option<&Config>,
    options: &ProvidersOptions,
    width: usize,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let all = listed(config);
    let shown: Vec<&ListedProvider<'_>> = match &options.name {
        None => all.iter().collect(),
        Some(name) => {
            let one: Vec<_> = all.iter().filter(|known| known.name == name).collect();
            anyhow::ensure!(!one.is_empty(), unknown(name));
            one
        }
    };
    if options.json {
        let providers: Vec<Value> = shown.into_iter().map(ListedProvider::json).collect();
        writeln!(out, "{:#}", json!({ "providers": providers }))?;
    } else if options.name.is_some() {
        for known in shown {
            known.details(width, out)?;
        }
    } else {
        write_table(&shown, width, out)?;
    }
    Ok(())
}

/// Columns of a shortened address, at least.
const ADDRESS_LEAST: usize = 40;

/// Below the table.
const NOTES: &str = "\
HERE: its state in this configuration; -: it has neither a key nor a table.
CANCEL_BILLING: what a hang-up does to the bill (stops, bills_full or unknown).
more: photofinish providers NAME";

/// One line for each, with shorter addresses or without the last columns if they do not fit `width`.
fn write_table(shown: &[&ListedProvider<'_>], width: usize, out: &mut impl Write) -> io::Result<()> {
    const HEAD: [&str; 6] = ["PROVIDER", "HERE", "KEY VARIABLE", "CANCEL_BILLING", "DIALECTS", "ADDRESS"];
    let head = HEAD.map(str::to_owned).to_vec();
    let mut rows: Vec<_> = [head].into_iter().chain(shown.iter().map(|known| known.row())).collect();
    let others: Vec<Vec<String>> = rows.iter().map(|row| row[..HEAD.len() - 1].to_vec()).collect();
    let taken = aligned(&others, &|_| true).iter().map(|line| columns(line)).max().unwrap_or(0) + 2;
    if let Some(room) = width.checked_sub(taken).filter(|room| *room >= ADDRESS_LEAST) {
        rows.iter_mut().flat_map(|row| row.last_mut()).for_each(|address| *address = fitted(address, room));
    }
    let mut lines = aligned(&rows, &|_| true);
    while rows[0].len() > 1 && lines.iter().any(|line| columns(line) > width) {
        rows.iter_mut().for_each(|row| row.truncate(row.len() - 1));
        lines = aligned(&rows, &|_| true);
    }
    write_lines(&lines, out)?;
    write_folded(NOTES, width, out)
}

/// The name is neither in the catalogue nor in the configuration.
fn unknown(name: &str) -> WrongUse {
    let near = catalogue::nearest(name);
    let proposal = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
    WrongUse(format!("there is no provider {name:?}{proposal}"))
}

/// A provider of the catalogue, of the configuration, or of both.
struct ListedProvider<'a> {
    name: &'a str,
    entry: Option<&'static CatalogueEntry>,
    config: Option<&'a Config>,
    provider: Option<&'a Arc<Provider>>,
}

/// The catalogue in its order, then the providers that only the configuration has.
fn listed(config: Option<&Config>) -> Vec<ListedProvider<'_>> {
    let provider = |name: &str| config.and_then(|config| config.providers.get(name));
    let known = catalogue::entries().map(|entry| ListedProvider {
        name: &entry.name,
        entry: Some(entry),
        config,
        provider: provider(&entry.name),
    });
    let own = config.into_iter().flat_map(|config| config.providers.values());
    let own = own.filter(|provider| catalogue::find(&provider.name).is_none());
    let own =
        own.map(|provider| ListedProvider { name: &provider.name, entry: None, config, provider: Some(provider) });
    known.chain(own).collect()
}

impl ListedProvider<'_> {
    /// Dialect, address and how a key is sent: from the configuration, else from the catalogue.
    fn dialects(&self) -> Vec<[String; 3]> {
        let of = |dialect: Dialect, base_url: &str, auth: &Auth| {
            [dialect.as_str().to_owned(), base_url.to_owned(), key_in(auth)]
        };
        let own = |spoken: &ProviderDialect| of(spoken.dialect, &spoken.base_url, &spoken.auth);
        let known = |served: &ServedDialect| of(served.dialect, &served.base_url, &served.auth());
        match (self.provider, self.entry) {
            (Some(provider), _) => provider.dialects.iter().map(own).collect(),
            (None, Some(entry)) => entry.serves.iter().filter(|served| !served.only_if_named).map(known).collect(),
            (None, None) => Vec::new(),
        }
    }

    /// Its state in this configuration, and why it is off.
    fn here(&self) -> (&'static str, Option<String>) {
        let (Some(config), Some(provider)) = (self.config, self.provider) else { return ("-", None) };
        let why = match &provider.keys {
            Keys::Token(token) => Some(format!("from {}", token.source.name())),
            _ => provider.why_off(),
        };
        (ProviderState::of(config, provider).as_str(), why)
    }

    fn is_simulated(&self) -> bool {
        self.provider.is_some_and(|provider| provider.simulate.is_some())
    }

    fn cancel_billing(&self) -> CancelBilling {
        let known = self.entry.map(|entry| entry.cancel_billing.value);
        self.provider.map(|provider| provider.cancel_billing).or(known).unwrap_or(CancelBilling::Unknown)
    }

    fn row(&self) -> Vec<String> {
        let dialects = self.dialects();
        let names: Vec<&str> = dialects.iter().map(|[dialect, ..]| dialect.as_str()).collect();
        let address = match dialects.first().map(|[_, address, _]| address.as_str()) {
            _ if self.is_simulated() => "this machine",
            None | Some("") => "per customer",
            Some(address) => address,
        };
        let variable = self.entry.and_then(|entry| entry.key_variable.as_deref()).unwrap_or("-");
        let billing = if self.is_simulated() { "free" } else { self.cancel_billing().as_str() };
        [self.name, self.here().0, variable, billing, &names.join(", "), address].map(str::to_owned).to_vec()
    }

    fn details(&self, width: usize, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", clean(self.name))?;
        let (state, why) = self.here();
        let state = if state == "-" { "not in this configuration" } else { state };
        let mut rows = vec![vec!["here".to_owned(), why.map_or(state.to_owned(), |why| format!("{state}: {why}"))]];
        let variables: Vec<&str> = self.entry.into_iter().flat_map(CatalogueEntry::key_variables).collect();
        let variables = if variables.is_empty() { "none".to_owned() } else { variables.join(", or ") };
        rows.push(vec!["key variable".to_owned(), variables]);
        if self.entry.is_some_and(|entry| entry.only_if_named) {
            rows.push(vec!["switched on".to_owned(), "only by a configuration that names it".to_owned()]);
        }
        for [dialect, address, key] in self.dialects() {
            let address = if address.is_empty() { "an address per customer".to_owned() } else { address };
            rows.push(vec!["speaks".to_owned(), format!("{dialect}, {address}, {key}")]);
        }
        for (surface, how) in self.surfaces() {
            rows.push(vec!["serves".to_owned(), surface.path().to_owned(), how]);
        }
        write_columns("  ", &rows, width, out)?;
        let Some(entry) = self.entry else { return Ok(()) };
        for (fact, value, source) in facts(entry) {
            write_folded(&format!("  {fact}: {value}\n    source: {source}"), width, out)?;
        }
        Ok(())
    }

    /// The surfaces that it can serve, and how.
    fn surfaces(&self) -> Vec<(Surface, String)> {
        let dialects = self.dialects();
        let Some([first, ..]) = dialects.first() else { return Vec::new() };
        let how = |surface: Surface| {
            let native = surface.dialect().as_str();
            if dialects.iter().any(|[dialect, ..]| dialect == native) {
                return Some((surface, "unchanged".to_owned()));
            }
            surface.is_translated().then(|| (surface, format!("translated to {first}")))
        };
        Surface::ALL.into_iter().filter_map(how).collect()
    }

    fn json(&self) -> Value {
        let (state, why) = self.here();
        let dialects: Vec<Value> = self
            .dialects()
            .into_iter()
            .map(|[dialect, base_url, key]| json!({ "dialect": dialect, "base_url": base_url, "key": key }))
            .collect();
        let facts: serde_json::Map<String, Value> = self
            .entry
            .map(facts)
            .into_iter()
            .flatten()
            .map(|(fact, value, source)| (fact, json!({ "value": value, "source": source })))
            .collect();
        json!({
            "name": self.name,
            "in_catalogue": self.entry.is_some(),
            "here": state,
            "why": why,
            "key_variable": self.entry.and_then(|entry| entry.key_variable.as_deref()),
            "other_key_variables": self.entry.map_or(&[][..], |entry| &entry.other_variables),
            "only_if_named": self.entry.is_some_and(|entry| entry.only_if_named),
            "cancel_billing": self.cancel_billing().as_str(),
            "dialects": dialects,
            "facts": facts,
        })
    }
}

/// Every fact of the catalogue: its name, value and source.
fn facts(entry: &'static CatalogueEntry) -> Vec<(String, String, &'static str)> {
    let yes = |value: bool| if value { "yes" } else { "no" }.to_owned();
    let dialects = entry.serves.iter().map(|served| {
        let address = if served.base_url.is_empty() { "an address per customer" } else { &served.base_url };
        let unless = if served.only_if_named { ", only if `dialect` names it" } else { "" };
        (format!("dialect {}", served.dialect.as_str()), format!("{address}{unless}"), served.source.as_str())
    });
    let facts = [
        ("its keys begin with", entry.key_prefixes.value.join(", "), &entry.key_prefixes.source),
        ("hang-up", entry.cancel_billing.value.as_str().to_owned(), &entry.cancel_billing.source),
        ("continues an answer that was begun", catalogue::continues(entry), &entry.continues.source),
        ("is asked for its list of models", yes(entry.lists.value), &entry.lists.source),
        ("gives no finish reason", yes(entry.omits_finish_reason.value), &entry.omits_finish_reason.source),
        ("refuses members", entry.refuses.value.join(", "), &entry.refuses.source),
        ("a warm connection is worth it", yes(entry.warming.value), &entry.warming.source),
        ("note", entry.note.value.clone(), &entry.note.source),
    ];
    let facts = facts.into_iter().filter(|(_, value, _)| !value.is_empty());
    let facts = facts.map(|(fact, value, source)| (fact, value, source.as_str())).chain(entry.quirks.facts());
    dialects.chain(facts.map(|(fact, value, source)| (fact.to_owned(), value, source))).collect()
}

fn key_in(auth: &Auth) -> String {
    match auth {
        Auth::Bearer => "key as a bearer".to_owned(),
        Auth::Header(name) => format!("key in {name}"),
        Auth::SigV4 { .. } => "signed, or key as a bearer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn printed(config: &str, name: Option<&str>, json: bool) -> anyhow::Result<String> {
        let config = photofinish_config::parse(config, Path::new("x"), &|_| None).unwrap();
        let mut out = Vec::new();
        run(Some(&config), &ProvidersOptions { name: name.map(str::to_owned), json }, 1_000, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_table_says_what_is_on_here() {
        let config = "[providers]\ngroq.api_key = \"planted\"\nopenai.api_key = \"${UNSET}\"\n\
                      mine = { base_url = \"http://10.0.0.7/v1\", dialect = \"anthropic\" }\n\
                      minted = { base_url = \"http://h\", token = { file = \"/run/token\" } }\nsim.simulate = {}";
        let text = printed(config, None, false).unwrap();
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("groq"), "groq on GROQ_API_KEY bills_full openai, responses https://api.groq.com/openai/v1");
        assert_eq!(line("openai"), "openai off OPENAI_API_KEY stops openai, responses https://api.openai.com/v1");
        assert_eq!(
            line("azure"),
            "azure - AZURE_OPENAI_API_KEY stops openai, responses {AZURE_OPENAI_ENDPOINT}/openai/v1"
        );
        assert_eq!(line("mine"), "mine on - unknown anthropic http://10.0.0.7/v1");
        assert_eq!(line("minted"), "minted token - unknown openai http://h");
        assert_eq!(line("sim"), "sim simulated - free openai this machine");
        assert_eq!(text.lines().count(), catalogue::entries().count() + 4 + NOTES.lines().count());
        assert!(!text.contains("planted"), "{text}");
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns() {
        let config = photofinish_config::parse("", Path::new("x"), &|_| None).unwrap();
        for (width, columns) in [(80, 4), (160, 6)] {
            let (mut out, options) = (Vec::new(), ProvidersOptions { name: None, json: false });
            run(Some(&config), &options, width, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let head = text.lines().next().unwrap();
            assert_eq!(head.split("  ").filter(|cell| !cell.is_empty()).count(), columns, "{text}");
        }
    }

    #[test]
    fn one_is_told_with_every_source() {
        for entry in catalogue::entries() {
            let text = printed("", Some(&entry.name), false).unwrap();
            for (fact, value, source) in facts(entry) {
                assert!(text.contains(&format!("  {fact}: {value}\n    source: {source}\n")), "{text}");
            }
            let json: Value = serde_json::from_str(&printed("", Some(&entry.name), true).unwrap()).unwrap();
            let one = &json["providers"][0];
            assert_eq!((&one["name"], &one["here"]), (&json!(entry.name), &json!("-")));
            assert_eq!(one["facts"]["hang-up"]["source"], entry.cancel_billing.source);
        }
        let gemini = printed("[providers.gemini]\napi_key = \"${UNSET}\"", Some("gemini"), false).unwrap();
        for expected in ["off: UNSET is not set", "/v1/messages", "translated to gemini", "unchanged"] {
            assert!(gemini.contains(expected), "{gemini}");
        }
    }

    #[test]
    fn an_unknown_name_is_an_error_with_a_proposal() {
        let error = printed("", Some("grok"), false).unwrap_err();
        assert!(error.is::<WrongUse>() && error.to_string().contains("groq"), "{error}");
    }
}
