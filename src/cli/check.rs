//! `photofinish check`: what is on, what is off and why, what is served at what price, and what a hang-up does to the bill.
//!
//! It prints names and numbers only: no key, no token, no hash of either. Not for the problems of a bad config: `config` has those.

mod history;
pub mod live;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::models;
use super::provider_state::ProviderState;
use super::screen::ScreenSettings;
use super::text::{ShadedRow, YELLOW, brief_bytes, write_folded, write_section, write_shaded};
use photofinish_base::clock::{Instant, micros, wall_micros};
use photofinish_base::failure::FailureKind;
use photofinish_config::{Config, Keys, Permit, Provider, Simulation, Token, User, today, units};
use photofinish_facts::record::AttemptOutcome;
use photofinish_history::store::{RecordedFilter, StoreReader};
use photofinish_routing::health::{Refusals, RefusedKind, RequestFeatures};
use photofinish_routing::quality::Quality;
use photofinish_wire::Surface;

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct CheckOptions {
    /// Also send a request for 16 tokens to each provider that is on, to its cheapest model, and print its times, the model that
    /// answers, and what is wrong. It says before what that costs at most. No row is kept.
    #[arg(long)]
    pub live: bool,
    /// With --live: ask each upstream that is on, after a yes.
    #[arg(long, requires = "live")]
    pub all: bool,
    /// With --all: do not ask before.
    #[arg(long, requires = "all")]
    pub yes: bool,
    /// Instead, print the JSON Schema of the configuration, for editors. Reads no file.
    #[arg(long, conflicts_with = "live")]
    pub schema: bool,
}

/// Requests of the history that are read for what upstreams refuse, the newest, and how far back.
const READ_MAX: usize = 4_000;
const DAY: Duration = Duration::from_secs(86_400);

/// Where there is neither a file nor a key.
const KEYLESS: &str = "no key of a provider is set, and there is no config.toml: `photofinish` alone serves the model servers of this \
                       machine, or simulated providers";

/// Prints the config in aligned columns. False: its database cannot be used.
///
/// # Errors
/// `out` fails.
pub fn render(config: &Config, screen: ScreenSettings, out: &mut impl io::Write) -> io::Result<bool> {
    write_shaded("", server_rows(config).into_iter().map(|row| (row, None)).collect(), screen, out)?;
    let head = ["provider", "state", "cancel_billing", "address, or why it is off"].map(str::to_owned);
    let mut providers: Vec<ShadedRow> = config.providers.values().map(|of| provider_row(config, of)).collect();
    if !providers.is_empty() {
        providers.insert(0, (head.to_vec(), None));
    }
    write_section("Providers", providers, screen, out)?;
    if config.serves_catalogue && !config.models.is_empty() {
        let (served, raced, date) = (config.models.len(), config.raceable(), config.catalogue.date());
        let text = format!(
            "\nModels\n  {served} of the catalogue of {date} by name, {raced} of them raced.\n  `photofinish models --raceable` lists \
             those."
        );
        write_folded(&text, screen.columns(), out)?;
    } else {
        if !config.models.is_empty() {
            writeln!(out, "\nModels")?;
        }
        models::render(config, &models::ModelsOptions::default(), screen, out)?;
    }
    write_section("Users", user_rows(config).into_iter().map(|row| (row, None)).collect(), screen, out)?;
    write_section("Login", login_rows(config).into_iter().map(|row| (row, None)).collect(), screen, out)?;
    let usable = history::render(&config.store, screen, out)?;
    let old = config.old_catalogue(&today());
    let keyless = config.is_without_keys().then(|| KEYLESS.to_owned());
    let (worse, refusing) = (worse_hosts(config), refusing_hosts(config));
    let warnings = config
        .warnings
        .iter()
        .chain(&old)
        .chain(&keyless)
        .chain(&worse)
        .chain(&refusing)
        .map(|warning| (vec![warning.clone()], Some(YELLOW)))
        .collect();
    write_section("Warnings", warnings, screen, out)?;
    Ok(usable)
}

/// Hosts that answer worse than the others of their model, by the history. None where it cannot be read: see `history`.
fn worse_hosts(config: &Config) -> Vec<String> {
    let Ok(reader) = StoreReader::open(&config.store.address) else { return Vec::new() };
    let Ok(quality) = Quality::of_history(config, &reader, wall_micros()) else { return Vec::new() };
    let sentence = |(model, upstream, why): (String, String, Arc<str>)| {
        format!(
            "{upstream} answers requests with tools worse than the other hosts of {model}: {why}. See docs/quality.md"
        )
    };
    quality.worse_now().into_iter().map(sentence).collect()
}

/// Upstreams that refused the last requests with tools, or without, of the last day while others answered them. None where the history
/// cannot be read.
fn refusing_hosts(config: &Config) -> Vec<String> {
    let Ok(reader) = StoreReader::open(&config.store.address) else { return Vec::new() };
    let (mut refusals, now) = (Refusals::default(), Instant::now());
    let since = Some(wall_micros() - micros(DAY));
    let filter = RecordedFilter { since, newest: READ_MAX, ..RecordedFilter::default() };
    let read = reader.recorded(&filter, |recorded| {
        let kind = RequestFeatures::with_tools(Surface::Chat, recorded.has_tools);
        for attempt in recorded.attempts.iter().filter(|_| recorded.winner.is_some()) {
            let upstream = format!("{}/{}", attempt.provider, attempt.model_sent);
            if attempt.failure == Some(FailureKind::BadRequest) {
                refusals.refused(&upstream, None, kind.clone(), "bad_request".to_owned(), now);
            } else if attempt.outcome == AttemptOutcome::Won {
                refusals.answered(&upstream, None, &kind);
            }
        }
    });
    let sentence = |(upstream, known): (&str, &RefusedKind)| {
        format!("{upstream} {} and others answered them. See docs/routing.md", known.in_words())
    };
    if read.is_ok() { refusals.resting(now).into_iter().map(sentence).collect() } else { Vec::new() }
}

fn server_rows(config: &Config) -> Vec<Vec<String>> {
    let server = &config.server;
    let bytes = |bytes: usize| brief_bytes(u64::try_from(bytes).unwrap_or(u64::MAX));
    let mut rows = vec![
        vec!["config".into(), config.source.to_string()],
        vec!["store".into(), config.store.address.to_string()],
        vec!["catalogue".into(), format!("{}, {}", config.catalogue.date(), config.catalogue_place)],
    ];
    rows.extend(server.listen.iter().map(|listen| vec!["listen".into(), listen.url(server.tls.is_some())]));
    rows.extend(server.tls.iter().map(|tls| vec!["certificate".into(), tls.cert.display().to_string()]));
    if !server.trusted_proxies.is_empty() {
        let trusted: Vec<String> = server.trusted_proxies.iter().map(ToString::to_string).collect();
        rows.push(vec!["trusted_proxies".into(), trusted.join(", ")]);
    }
    rows.extend([
        vec!["body_max".into(), bytes(server.body_max)],
        vec!["memory".into(), bytes(server.memory)],
        vec!["max_in_flight".into(), server.max_in_flight.to_string()],
        vec!["drain".into(), units::format_duration(server.drain)],
    ]);
    rows
}

fn provider_row(config: &Config, provider: &Provider) -> ShadedRow {
    let state = ProviderState::of(config, provider);
    let billing = if provider.simulate.is_some() { "free" } else { provider.cancel_billing.as_str() };
    let row = vec![provider.name.clone(), state.as_str().to_owned(), billing.to_owned(), detail(provider)];
    (row, Some(state.colour()))
}

/// Its address and what is special about its keys and its way out; or why it is off.
fn detail(provider: &Provider) -> String {
    let address = || provider.base_url.clone();
    let mut parts = match (&provider.simulate, &provider.keys) {
        (Some(simulation), _) => vec![simulation_summary(simulation)],
        (None, Keys::Off(_)) => vec![provider.why_off().unwrap_or_default()],
        (None, Keys::NotConfigured) => vec![address(), "no key".to_owned()],
        (None, Keys::Token(token)) => vec![address(), token_summary(token)],
        (None, Keys::Keys(keys)) if keys.len() == 1 => vec![address()],
        (None, Keys::Keys(keys)) => vec![address(), format!("{} keys", keys.len())],
    };
    let transport = &provider.preferred().transport;
    parts.extend(transport.proxy.iter().map(|proxy| format!("through {proxy}")));
    parts.extend(transport.authorities.iter().map(|authorities| format!("ca_file {}", authorities.path.display())));
    parts.join(", ")
}

/// A token provider is off until the gateway has read a token; `check` reads none.
fn token_summary(token: &Token) -> String {
    format!("token every {} from {}", units::format_duration(token.refresh), token.source.name())
}

fn simulation_summary(simulation: &Simulation) -> String {
    let ttft = units::format_duration(simulation.ttft);
    format!("TTFT {ttft}, {} tokens/s", simulation.tokens_per_second)
}

/// The issuer, and what its groups are here.
fn login_rows(config: &Config) -> Vec<Vec<String>> {
    let Some(oidc) = &config.oidc else { return Vec::new() };
    let by = if oidc.login.is_some() { "logins and tokens" } else { "tokens alone: no client_secret" };
    let group = |name: &str| {
        let (role, team) = oidc.place_of([name]).unwrap_or_default();
        let team = team.map_or(String::new(), |team| format!(" of team {team}"));
        vec![format!("group {name}"), format!("{}{team}", role.as_str())]
    };
    let issuer = vec![oidc.issuer.clone(), by.to_owned()];
    std::iter::once(issuer).chain(oidc.group_names().into_iter().map(group)).collect()
}

fn user_rows(config: &Config) -> Vec<Vec<String>> {
    let row = |user: &Arc<User>| {
        let keys: Vec<&str> = user.keys.keys().map(String::as_str).collect();
        let keys = if keys.is_empty() { "no own keys".into() } else { format!("own keys for {}", keys.join(", ")) };
        let team = user.team.as_ref().map_or(String::new(), |team| format!(" of team {team}"));
        let limits = if user.limits.is_empty() { "" } else { ", limited" };
        let rights = format!("{}{team}{limits}", user.role.as_str());
        let overrides = match &user.overrides {
            Permit::Usual => "overrides: what costs no more".to_owned(),
            Permit::All => "overrides: all".to_owned(),
            Permit::Listed(listed) if listed.is_empty() => "overrides: none".to_owned(),
            Permit::Listed(listed) => {
                format!("overrides: {}", listed.iter().map(|header| header.as_str()).collect::<Vec<_>>().join(", "))
            }
        };
        vec![user.name.clone(), rights, keys, overrides]
    };
    config.users.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cli::screen::PIPED;
    use photofinish_config::offerings::ModelCatalogue;
    use photofinish_config::parse;

    fn rendered(text: &str) -> String {
        let env = |name: &str| (name == "SET").then(|| "planted-secret".to_owned());
        let config = parse(text, Path::new("config.toml"), &env).unwrap();
        shown(&config, ScreenSettings { width: 200, ..PIPED })
    }

    fn shown(config: &Config, screen: ScreenSettings) -> String {
        let mut out = Vec::new();
        render(config, screen, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_on_and_off_is_said_and_no_key() {
        let text = rendered(
            r#"
            [providers]
            groq.api_key = "${UNSET}"
            openai.api_key = ["${SET}", "planted-other"]
            cerebras.api_key = "${UNSET}"
            mistral.api_key = "file:/nonexistent/key"
            sim.simulate = {}
            [models.a]
            upstreams = ["groq/x", "mistral/y"]
            [models.b]
            upstreams = ["openai/x", "sim/y", "cerebras/z", "ollama/w"]
            policy = "weighted"
            breaker = { failures = 0 }
            aliases = ["bee"]
            [users.ann]
            token = "planted-token"
            role = "admin"
            overrides = ["policy", "slo"]
            keys = { cerebras = "planted-own" }
            "#,
        );
        let line = |start: &str| {
            let found = text.lines().find(|line| line.trim_start().starts_with(start));
            found.unwrap_or_else(|| panic!("no {start} in {text}")).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("groq"), "groq off bills_full UNSET is not set");
        assert_eq!(line("mistral"), "mistral off bills_full /nonexistent/key is missing or empty");
        assert_eq!(line("openai"), "openai on stops https://api.openai.com/v1, 2 keys");
        assert_eq!(line("cerebras"), "cerebras own keys unknown UNSET is not set");
        assert_eq!(line("ollama"), "ollama on unknown http://127.0.0.1:11434/v1, no key");
        assert_eq!(line("sim"), "sim simulated free TTFT 200ms, 50 tokens/s");
        assert_eq!(line("a:"), "a: adaptive, budget 0.1, off: none of its providers is on");
        assert_eq!(line("b:"), "b: weighted, 4 of 4 upstreams on, no breaker, also bee");
        assert_eq!(line("openai/x"), "openai/x on no price weight 1");
        assert_eq!(line("ann"), "ann admin own keys for cerebras overrides: policy, slo");
        assert!(!text.contains("planted"), "{text}");
    }

    #[test]
    fn a_policy_is_told_with_what_it_goes_by() {
        let policy = |settings: &str| {
            let text = rendered(&format!("[models.m]\nupstreams = [\"ollama/x\", \"vllm/y\"]\n{settings}"));
            let line = text.lines().find_map(|line| line.trim().strip_prefix("m: "));
            line.unwrap().strip_suffix(", 2 of 2 upstreams on").unwrap().to_owned()
        };
        assert_eq!(policy("policy = \"race\"\nbudget = 2"), "race");
        assert_eq!(policy("policy = \"hedge\""), "hedge after 1s");
        assert_eq!(policy("policy = \"hedge\"\nhedge_after = \"250ms\""), "hedge after 250ms");
        assert_eq!(policy("policy = \"adaptive\"\nbudget = 0"), "adaptive, budget 0");
        assert_eq!(policy("policy = \"adaptive\""), "adaptive, budget 0.1");
        let goodput = policy("policy = \"adaptive\"\noptimise = \"goodput\"\nslo = { tpot = \"20ms\" }");
        assert_eq!(goodput, "adaptive, optimise goodput (TTFT 1s, TPOT 20ms), hold_max 300ms, budget 0.1");
    }

    #[test]
    fn one_upstream_is_said_to_be_what_every_policy_comes_down_to() {
        let text = rendered(
            "models.alone = { upstreams = [\"ollama/x\"], policy = \"adaptive\" }\n\
             models.left = { upstreams = [\"groq/x\", \"ollama/y\"], policy = \"hedge\" }\n\
             models.two = { upstreams = [\"ollama/x\", \"vllm/y\"] }\nmodels.none.upstreams = [\"groq/x\"]",
        );
        let one = "one upstream: the policy makes no difference";
        let said: Vec<bool> = ["alone", "left", "none", "two"]
            .map(|model| {
                let (_, rest) = text.split_once(&format!("\n  {model}: ")).unwrap();
                rest.lines().skip(1).take_while(|line| line.starts_with("    ")).any(|line| line.trim() == one)
            })
            .to_vec();
        assert_eq!(said, [true, true, false, false], "{text}");
    }

    #[test]
    fn the_shipped_config_fits_a_terminal() {
        let config = parse(include_str!("../../config.toml"), Path::new("config.toml"), &|_| None).unwrap();
        let text = shown(&config, PIPED);
        let (_, providers) = text.split_once("\nProviders\n").unwrap();
        assert!(providers.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn an_address_stays_whole_and_moves_below_where_there_is_no_room() {
        let text = |host: &str| {
            format!(
                "[providers]\nopenai.api_key = \"${{SET}}\"\nmine.base_url = \"https://{host}.example.com/v1\"\n\
                 mine.proxy = \"http://proxy.example.com:3128\"\n[models.m]\nupstreams = [\"mine/x\"]"
            )
        };
        let printed = |host: &str, width| {
            let config = parse(&text(host), Path::new("config.toml"), &|_| None).unwrap();
            shown(&config, ScreenSettings { width, ..PIPED })
        };
        let short = "  mine      on     unknown         https://short.example.com/v1, no key, through\n                                   \
                     proxy.example.com:3128\n";
        assert!(printed("short", 80).contains(short), "{}", printed("short", 80));
        let long = "long-name.".repeat(4);
        let below =
            format!("  mine      on     unknown\n      https://{long}.example.com/v1, no key,\n      through proxy.");
        assert!(printed(&long, 80).contains(&below), "{}", printed(&long, 80));
        // Wider than the terminal: on a line of its own, where it can be copied.
        let own = format!("\n      https://{long}.example.com/v1,\n");
        assert!(printed(&long, 40).contains(&own), "{}", printed(&long, 40));
    }

    #[test]
    fn an_old_catalogue_is_a_warning() {
        let text = r#"{"format":1,"date":"2020-02-01","sources":{},"columns":[],"models":[],"rows":{}}"#;
        let mut config = parse("", Path::new("config.toml"), &|_| None).unwrap();
        config.catalogue = Arc::new(ModelCatalogue::read(text.as_bytes()).unwrap());
        let mut out = Vec::new();
        render(&config, PIPED, &mut out).unwrap();
        let printed = String::from_utf8(out).unwrap();
        let (_, warnings) = printed.split_once("\nWarnings\n").unwrap();
        assert!(warnings.contains("days old (2020-02-01, built in)"), "{printed}");
    }

    #[test]
    fn columns_line_up() {
        let rows = [["a", "ü", "c"], ["long", "d", "e"]].map(|row| (row.map(str::to_owned).to_vec(), None));
        let mut out = Vec::new();
        write_shaded("", rows.to_vec(), PIPED, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a     ü  c\nlong  d  e\n");
    }
}
