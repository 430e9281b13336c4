//! `photofinish check --live`: one small request to each provider that is on, or to each upstream; why one did not answer, and what to
//! do about it.
//!
//! The requests take the same path as a client's, with the keys of the configuration. No row is kept.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use futures_util::StreamExt as _;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request};
use serde_json::json;

use crate::cli::check::CheckOptions;
use crate::cli::outcome::CommandOutcome;
use crate::cli::race::answer::{AnswerReader, Refusal};
use crate::cli::screen::ScreenSettings;
use crate::cli::signals::Signals;
use crate::cli::text::{GREEN, RED, clean, counted, millis, write_folded, write_shaded};
use photofinish_base::failure::FailureKind;
use photofinish_config::{Config, Keys, Provider, ProviderList, ProviderLists, UpstreamConfig, units};
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, Record};
use photofinish_facts::recording::AttemptStep;
use photofinish_gateway::proxy::{self, AskedBy, Gateway};
use photofinish_history::recorder::RaceObserver;
use photofinish_serve::app::LocalGateway;
use photofinish_wire::Surface;

/// Upstreams that `check --live` asks at the same time.
const ASKED_MAX: usize = 16;
/// How long it waits for an answer.
const ANSWER_FOR: Duration = Duration::from_secs(30);
/// The length of an answer; some providers accept no smaller number.
const TOKENS: u32 = 16;
/// The length of a request, at most.
const INPUT_TOKENS: u32 = 32;
/// Bytes of an answer or an error there.
const BODY_MAX: usize = 1 << 20;

/// An upstream that gets a request.
struct LiveTarget {
    /// `provider/model`
    name: String,
    /// A model of the configuration that lists it.
    model: String,
    sent: String,
    provider: Arc<Provider>,
    /// The most that a request costs, US dollars. None: it has no price.
    most_usd: Option<f64>,
    /// Upstreams of the configuration that the provider does not list.
    unlisted: Vec<String>,
}

/// The answer of one upstream.
struct LiveAnswer {
    target: usize,
    race_id: Option<String>,
    /// The text of the error. None: the answer was complete.
    complaint: Option<String>,
}

/// The line about one upstream.
enum LiveVerdict {
    Answered(Vec<String>),
    Failed(String),
}

/// Keeps the rows of finished races: the store gets none.
#[derive(Default)]
struct RaceRows(Mutex<HashMap<String, Vec<Record>>>);

/// Sends the requests, and writes a line for each upstream to `out`. `screen`: of `out`. `consent`: asks the user whether to send so
/// many, with `--all`.
///
/// # Errors
/// The gateway cannot be built, in words for an operator; or `out` fails.
pub async fn run(
    config: Config,
    options: &CheckOptions,
    screen: ScreenSettings,
    out: &mut impl io::Write,
    consent: impl FnOnce() -> anyhow::Result<bool>,
) -> anyhow::Result<CommandOutcome> {
    let every = targets(&config);
    let known = every.len();
    writeln!(out, "\nLive")?;
    if every.is_empty() {
        writeln!(out, "  no model lists an upstream that is on")?;
        return Ok(CommandOutcome::Failed);
    }
    let mut signals = Signals::new()?;
    let rows = Arc::new(RaceRows::default());
    let alone = tokio::select! {
        alone = LocalGateway::start(config.clone(), false, rows.clone()) => alone?,
        () = signals.next() => return Ok(CommandOutcome::Interrupted),
    };
    let targets = if options.all {
        every
    } else {
        tokio::select! {
            lists = alone.lists() => one_of_each(&config, &lists, every),
            () = signals.next() => return Ok(CommandOutcome::Interrupted),
        }
    };
    let (all, at_most) = (targets.len(), units::format_duration(ANSWER_FOR));
    let upstreams = counted(all as u64, "upstream");
    let asking = format!("  asking {upstreams} for {TOKENS} tokens each, at most {at_most}; no row is kept");
    let cheapest =
        (all < known).then(|| format!("  of each provider the cheapest that it lists; --all asks all {known}"));
    let cost = cost(&targets).map(|cost| format!("  {cost}"));
    let said: Vec<String> = [Some(asking), cheapest, cost].into_iter().flatten().collect();
    write_folded(&said.join("\n"), screen.columns(), out)?;
    out.flush()?;
    if options.all && !options.yes && !consent()? {
        writeln!(out, "  nothing was asked")?;
        return Ok(CommandOutcome::Failed);
    }
    let mut heard = Vec::with_capacity(all);
    let interrupted = {
        let asked = targets.iter().enumerate().map(|(place, target)| ask(alone.gateway().clone(), place, target));
        let mut asked = futures_util::stream::iter(asked).buffer_unordered(ASKED_MAX);
        loop {
            tokio::select! {
                biased;
                () = signals.next() => break true,
                one = asked.next() => match one {
                    Some(one) => heard.push(one),
                    None => break false,
                },
            }
        }
    };
    alone.stop().await;
    let answered = write(&targets, &heard, &rows, screen, out)?;
    Ok(match (interrupted, answered == all) {
        (true, _) => CommandOutcome::Interrupted,
        (_, true) => CommandOutcome::Done,
        (_, false) => CommandOutcome::Failed,
    })
}

/// Each upstream once, in the order of the models.
fn targets(config: &Config) -> Vec<LiveTarget> {
    let mut seen = BTreeSet::new();
    let listed = config.models.values().flat_map(|model| model.upstreams.iter().map(move |upstream| (model, upstream)));
    let on = listed.filter(|(_, upstream)| {
        let provider = &upstream.provider;
        provider.is_on() || matches!(provider.keys, Keys::Token(_))
    });
    on.filter(|(_, upstream)| seen.insert(upstream.name()))
        .map(|(model, upstream)| LiveTarget {
            name: upstream.name(),
            model: model.name.clone(),
            sent: upstream.model.clone(),
            provider: upstream.provider.clone(),
            most_usd: most_usd(upstream),
            unlisted: Vec::new(),
        })
        .collect()
}

fn most_usd(upstream: &UpstreamConfig) -> Option<f64> {
    upstream.price.map(|price| price.most_usd(INPUT_TOKENS.into(), TOKENS.into(), false))
}

/// Of each provider the cheapest upstream that its list has. Where the list has none of them, another model that it has.
fn one_of_each(config: &Config, lists: &ProviderLists, targets: Vec<LiveTarget>) -> Vec<LiveTarget> {
    let list = |target: &LiveTarget| lists.get(&target.provider.name);
    let lacks = |target: &LiveTarget| {
        list(target).is_some_and(|list| !list.has(&config.catalogue, &target.provider.vendor, &target.sent))
    };
    let mut unlisted: Vec<(String, String)> = Vec::new();
    let (lacking, mut asked): (Vec<_>, Vec<_>) = targets.into_iter().partition(lacks);
    unlisted.extend(lacking.iter().map(|target| (target.provider.name.clone(), target.name.clone())));
    for target in cheapest(lacking) {
        if !asked.iter().any(|other| other.provider.name == target.provider.name) {
            let instead = list(&target).and_then(|list| listed_chat(config, list, &target.provider));
            asked.push(instead.unwrap_or(target));
        }
    }
    let mut asked = cheapest(asked);
    for target in &mut asked {
        let own = unlisted.iter().filter(|(provider, _)| *provider == target.provider.name);
        target.unlisted = own.map(|(_, name)| name.clone()).collect();
    }
    asked
}

/// The cheapest of the models in the list that are known to chat; of a local server, of which nothing is known, the first.
fn listed_chat(config: &Config, list: &ProviderList, provider: &Arc<Provider>) -> Option<LiveTarget> {
    let target = |id: &str| {
        let (provider, timeouts) = (provider.clone(), config.race.timeouts);
        let upstream = UpstreamConfig::of_catalogue(provider, id.to_owned(), &config.catalogue, timeouts);
        let (name, most_usd) = (upstream.name(), most_usd(&upstream));
        let (sent, provider) = (upstream.model, upstream.provider);
        LiveTarget { model: name.clone(), name, sent, provider, most_usd, unlisted: Vec::new() }
    };
    let chats = |id: &str| {
        let known = config.catalogue.offering_or_undated(&provider.vendor, id);
        // What makes no text has no price for it; what is free is often not to be had.
        known.is_some_and(|known| {
            !known.embedding && known.dialect.is_none() && known.output.is_some_and(|usd| usd > 0.0)
        })
    };
    let known = list.ids().filter(|id| chats(id)).map(target).filter(|target| target.most_usd.is_some());
    let cheapest = known.min_by(|one, other| one.most_usd.unwrap_or(0.0).total_cmp(&other.most_usd.unwrap_or(0.0)));
    let first = || list.ids().map(target).find(|target| !embeds(target)).filter(|_| provider.serves_its_list());
    cheapest.or_else(first)
}

/// Of each provider the cheapest, in the order of the models; one that is no chat model, or has no price, only where there is no other.
fn cheapest(targets: Vec<LiveTarget>) -> Vec<LiveTarget> {
    let rank = |target: &LiveTarget| (embeds(target), target.most_usd.unwrap_or(f64::INFINITY));
    let mut kept: Vec<LiveTarget> = Vec::new();
    for target in targets {
        match kept.iter_mut().find(|other| other.provider.name == target.provider.name) {
            Some(other) if rank(&target) < rank(other) => *other = target,
            Some(_) => {}
            None => kept.push(target),
        }
    }
    kept
}

/// What the requests cost at most. None: they are not billed.
fn cost(targets: &[LiveTarget]) -> Option<String> {
    let billed = || targets.iter().filter(|target| target.provider.is_hosted());
    let unpriced = billed().filter(|target| target.most_usd.is_none()).count();
    let usd: f64 = billed().filter_map(|target| target.most_usd).sum();
    let priced = format!("this costs at most {}", Cost::exactly(usd));
    match (billed().count(), unpriced) {
        (0, _) => None,
        (_, 0) => Some(priced),
        (all, unpriced) if unpriced == all => {
            Some("this costs money: a few tokens for each, at prices that are not known".to_owned())
        }
        (_, unpriced) => Some(format!("{priced}, and what {unpriced} without a known price bill")),
    }
}

/// Only the name shows that a model does not chat.
fn embeds(target: &LiveTarget) -> bool {
    target.sent.to_ascii_lowercase().contains("embed")
}

async fn ask(gateway: Arc<Gateway>, place: usize, target: &LiveTarget) -> LiveAnswer {
    let (surface, request) = request(target);
    let answer = async {
        let response = proxy::serve_as(gateway, surface, AskedBy::default(), request).await;
        let id = response.headers().get("x-photofinish-race").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let status = response.status();
        let complaint = match to_bytes(response.into_body(), BODY_MAX).await {
            Ok(body) if !status.is_success() => Some(Refusal::read(status.as_u16(), &body).of_the_last()),
            Ok(body) => {
                let mut answer = AnswerReader::new(Body::from(body));
                while let Ok(Some(_)) = answer.next().await {}
                answer.broke
            }
            Err(_) => Some(format!("an answer of more than {BODY_MAX} bytes, or one that broke off")),
        };
        (id, complaint)
    };
    let in_time = tokio::time::timeout(ANSWER_FOR, answer).await;
    let (race_id, complaint) = in_time.unwrap_or_else(|_| {
        (None, Some(format!("no answer within {}: slow, or out of reach", units::format_duration(ANSWER_FOR))))
    });
    LiveAnswer { target: place, race_id, complaint }
}

/// A small client request for this upstream alone. Two attempts: the gateway may have to change the request once.
fn request(target: &LiveTarget) -> (Surface, Request<Body>) {
    let LiveTarget { name, model, .. } = target;
    let (surface, body) = if embeds(target) {
        (Surface::Embeddings, json!({ "model": model, "input": "hello" }))
    } else {
        let messages = json!([{ "role": "user", "content": "Say hello." }]);
        (Surface::Chat, json!({ "model": model, "stream": true, "max_tokens": TOKENS, "messages": messages }))
    };
    let mut request = Request::new(Body::from(body.to_string()));
    *request.method_mut() = Method::POST;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("x-photofinish-policy", HeaderValue::from_static("fallback"));
    headers.insert("x-photofinish-max-attempts", HeaderValue::from_static("2"));
    HeaderValue::from_str(name).ok().map(|name| headers.insert("x-photofinish-upstreams", name));
    (surface, request)
}

/// Writes the lines, and returns how many upstreams answered.
fn write(
    targets: &[LiveTarget],
    heard: &[LiveAnswer],
    rows: &RaceRows,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<usize> {
    let mut lines = Vec::with_capacity(targets.len());
    let mut well = 0;
    for (place, target) in targets.iter().enumerate() {
        let heard = heard.iter().find(|heard| heard.target == place);
        let verdict =
            heard.map_or_else(|| LiveVerdict::Failed("interrupted".to_owned()), |heard| verdict(target, heard, rows));
        let unlisted = match target.unlisted.as_slice() {
            [] => None,
            [one] => Some(format!("its list lacks {one}")),
            [one, more @ ..] => Some(format!("its list lacks {one} and {} more", more.len())),
        };
        lines.push(match verdict {
            LiveVerdict::Answered(mut shown) => {
                well += 1;
                if let Some((last, unlisted)) = shown.last_mut().zip(unlisted) {
                    *last = format!("{last}; {unlisted}");
                }
                let row = [target.name.clone(), "ok".to_owned()].into_iter().chain(shown).collect();
                (row, Some(GREEN))
            }
            LiveVerdict::Failed(why) => {
                let why = [Some(why), unlisted].into_iter().flatten().collect::<Vec<_>>().join("; ");
                (vec![target.name.clone(), "FAILED".to_owned(), why], Some(RED))
            }
        });
    }
    write_shaded("  ", lines, screen, out)?;
    writeln!(out, "  {well} of {} upstreams answered", targets.len())?;
    Ok(well)
}

fn verdict(target: &LiveTarget, heard: &LiveAnswer, rows: &RaceRows) -> LiveVerdict {
    let rows = heard.race_id.as_ref().and_then(|id| rows.lock().remove(id)).unwrap_or_default();
    let mut attempts: Vec<&AttemptRecord> = Vec::new();
    let mut done_us = None;
    for row in &rows {
        match row {
            Record::Race(race) => done_us = race.done_us,
            Record::Attempt(attempt) => attempts.push(attempt),
            Record::Run(_) | Record::Incident(_) => {}
        }
    }
    attempts.sort_by_key(|attempt| attempt.ordinal);
    let kind = |attempt: &&AttemptRecord| attempt.failure.and_then(FailureKind::from_name);
    let last = attempts.last();
    let answered = last.is_some_and(|last| matches!(last.outcome, AttemptOutcome::Won | AttemptOutcome::Empty));
    match (last, &heard.complaint) {
        (Some(last), complaint) if answered && (complaint.is_none() || last.outcome == AttemptOutcome::Empty) => {
            let ttft = match last.first_token_us {
                Some(us) => format!("TTFT {}", millis(us)),
                // All tokens may have been hidden reasoning.
                None => "no text".to_owned(),
            };
            let whole = done_us.map(|us| format!("{} in all", millis(us - last.dispatch_us))).unwrap_or_default();
            let model = last.model_reported.clone().unwrap_or_else(|| format!("{} (not confirmed)", target.sent));
            // An attempt before it failed, for example with another key.
            let before = attempts.iter().rev().skip(1).find_map(kind);
            let before = before.map(|kind| format!("; first: {}", explained(kind, &target.provider, &target.sent)));
            LiveVerdict::Answered(vec![ttft, whole, format!("as {model}{}", before.unwrap_or_default())])
        }
        (last, complaint) => {
            let status = last.and_then(|last| last.http_status);
            let said = complaint.as_deref().unwrap_or_default();
            LiveVerdict::Failed(failed(last.and_then(kind), status, said, &target.provider, &target.sent))
        }
    }
}

impl RaceRows {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Record>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RaceObserver for RaceRows {
    fn step(&self, _: &AttemptRecord, _: AttemptStep, _: i64) {}

    fn committed(&self, _: &str, _: i64) {}

    fn recorded(&self, _: &Record) {}

    fn settled(&self, rows: &[Record]) {
        if let Some(id) = rows.first().and_then(Record::race_id) {
            self.lock().insert(id.to_owned(), rows.to_vec());
        }
    }
}

/// Characters of a provider's message that are shown.
const SAID_MAX: usize = 240;

/// The whole line: the status, our explanation, and the provider's message. No kind: no attempt was made.
pub(super) fn failed(
    kind: Option<FailureKind>,
    status: Option<i64>,
    said: &str,
    provider: &Provider,
    model: &str,
) -> String {
    let said = clean(said);
    let said: String = said.chars().take(SAID_MAX).collect();
    let Some(kind) = kind else {
        return if said.is_empty() { "it was not asked".to_owned() } else { said };
    };
    let status = status.filter(|status| *status >= 400).map(|status| format!("{status}: ")).unwrap_or_default();
    let said = if said.is_empty() { said } else { format!(" ({said})") };
    format!("{status}{}{said}", explained(kind, provider, model))
}

/// Our explanation alone.
pub(in crate::cli) fn explained(kind: FailureKind, provider: &Provider, model: &str) -> String {
    let Provider { name, base_url, .. } = provider;
    match kind {
        FailureKind::Unauthorized => match key_place(provider) {
            Some(key) => format!("{key} is refused: put a valid key there"),
            None => format!("it needs a key: set api_key under [providers.{name}]"),
        },
        FailureKind::Forbidden => {
            let key = key_place(provider).unwrap_or_else(|| "a request without a key".to_owned());
            format!("{key} may not use {model}: check what its account, project and region allow")
        }
        FailureKind::NotFound => format!(
            "the provider does not know {model}, or not at {base_url}: compare the name with the provider's list of models"
        ),
        FailureKind::RateLimited => {
            "its rate limit or its credit is used up: wait, or check the account's limits and billing".to_owned()
        }
        FailureKind::Overloaded | FailureKind::ServerError => "the provider is failing: try again later".to_owned(),
        FailureKind::Dns => format!("the host of {base_url} has no address: is base_url right, and the network up?"),
        FailureKind::Connect => {
            format!("nothing takes connections at {base_url}: is the server up, and base_url right?")
        }
        FailureKind::Tls => {
            format!("no secure connection to {base_url}: check its certificate, and whether a proxy intercepts TLS")
        }
        FailureKind::Timeout => "no token within its timeouts: it is slow or unreachable".to_owned(),
        FailureKind::IdleTimeout => "its answer stopped midway".to_owned(),
        FailureKind::Reset | FailureKind::Closed => {
            "it broke off without an answer: try again; if that does not help, check base_url".to_owned()
        }
        FailureKind::Protocol => {
            format!("{base_url} answers with a redirect, which is not followed, or not with HTTP: is base_url right?")
        }
        FailureKind::Malformed => {
            format!("the server at {base_url} is not the expected API: are base_url and dialect right?")
        }
        FailureKind::Endless => "its answer has no end: it ignores max_tokens".to_owned(),
        FailureKind::InStreamError => "an error came instead of the answer".to_owned(),
        FailureKind::BadRequest | FailureKind::ContextLength | FailureKind::TooLarge => {
            format!("it refuses the request: does {model} accept chat requests?")
        }
        FailureKind::ContentPolicy => "its content policy refuses a harmless request".to_owned(),
        FailureKind::CoolingDown => "no request was sent: it cools down after another failure of this check".to_owned(),
        FailureKind::GatewayLimit => "this machine has no descriptors or no memory left".to_owned(),
        FailureKind::Empty => "it finished without generating anything".to_owned(),
    }
}

/// Where its key comes from. None: it has no key.
fn key_place(provider: &Provider) -> Option<String> {
    match (&provider.keys, provider.key_sources.as_slice()) {
        (Keys::Token(token), _) => Some(format!("the token from {}", token.source.name())),
        (Keys::NotConfigured | Keys::Off(_), _) => None,
        (Keys::Keys(_), []) => Some("the key in the configuration".to_owned()),
        (Keys::Keys(_), [source]) => Some(format!("the key in {}", place(source))),
        (Keys::Keys(_), sources) => {
            let places: Vec<&str> = sources.iter().map(|source| place(source)).collect();
            Some(format!("a key of {}", places.join(", ")))
        }
    }
}

fn place(source: &str) -> &str {
    source.strip_prefix("file:").unwrap_or(source)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::parse;

    #[test]
    fn the_cost_is_told_before() {
        let text = "[providers]\ngroq.api_key = \"k\"\nopenai.api_key = \"k\"\nlocal.base_url = \"http://127.0.0.1:9\"\n\
            [models.m]\nupstreams = [{ upstream = \"groq/a\", input_price = 10.0, output_price = 100.0 }, \"openai/new\", \"local/x\"]";
        let config = parse(text, Path::new("config.toml"), &|_| None).unwrap();
        let shown = |names: &[&str]| {
            let targets = targets(&config).into_iter().filter(|target| names.contains(&target.name.as_str()));
            cost(&targets.collect::<Vec<_>>())
        };
        assert_eq!(shown(&["local/x"]), None);
        assert_eq!(shown(&["groq/a", "local/x"]).unwrap(), "this costs at most $0.0019");
        assert_eq!(
            shown(&["groq/a", "openai/new"]).unwrap(),
            "this costs at most $0.0019, and what 1 without a known price bill"
        );
        assert!(shown(&["openai/new"]).unwrap().contains("not known"));
    }

    #[test]
    fn each_failure_says_what_to_do() {
        let text = r#"
            [providers]
            groq.api_key = "${GROQ_API_KEY}"
            openai.api_key = "planted-literal"
            mistral.api_key = ["${ONE_KEY}", "${TWO_KEY}"]
            own = { base_url = "http://127.0.0.1:9" }
        "#;
        let env = |name: &str| name.ends_with("_KEY").then(|| format!("planted-{name}"));
        let config = parse(text, Path::new("config.toml"), &env).unwrap();
        let failed = |provider: &str, kind: FailureKind, status: i64, said: &str| {
            failed(Some(kind), Some(status), said, &config.providers[provider], "llama")
        };
        for (provider, words) in [
            ("groq", "401: the key in GROQ_API_KEY is refused: put a valid key there (Invalid API Key)"),
            ("openai", "401: the key in the configuration is refused: put a valid key there (Invalid API Key)"),
            ("mistral", "401: a key of ONE_KEY, TWO_KEY is refused: put a valid key there (Invalid API Key)"),
            ("own", "401: it needs a key: set api_key under [providers.own] (Invalid API Key)"),
        ] {
            assert_eq!(failed(provider, FailureKind::Unauthorized, 401, "Invalid API Key"), words);
        }
        let unknown = failed("own", FailureKind::NotFound, 404, "");
        assert!(
            unknown.starts_with("404: the provider does not know llama, or not at http://127.0.0.1:9"),
            "{unknown}"
        );
        assert!(failed("own", FailureKind::Connect, 0, "refused").starts_with("nothing takes connections at http://"));
        for kind in FailureKind::ALL {
            let shown = failed("groq", kind, 200, &"said\n\x1b[31m ".repeat(100));
            assert!(shown.len() > 20 && !shown.contains(['\n', '\x1b']) && !shown.contains("planted"), "{shown}");
            assert!(shown.chars().count() < 500, "{shown}");
        }
    }
}
