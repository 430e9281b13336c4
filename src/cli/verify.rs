//! `photofinish verify`: what is exactly different between the hosts of a model. Not for what is asked and what answers mean: see
//! `photofinish_lab::verify`.

mod output;
mod sampling;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::outcome::{CommandOutcome, WrongUse};
use super::screen::ScreenSettings;
use super::signals::Signals;
use super::text::{counted, write_folded};
use photofinish_base::clock::wall_micros;
use photofinish_config::StoreAddress;
use photofinish_config::units::{format_duration, within};
use photofinish_config::{Config, ModelConfig, RaceSettings, UpstreamConfig, nearest};
use photofinish_facts::estimate::cost::Cost;
use photofinish_history::store::{Store, VerdictRow};
use photofinish_lab::bench::RowFeed;
use photofinish_lab::verify::{
    FactVerdict, Verification, VerifiedHost, Verifier, compare, questions, sample_questions, vendor,
};
use photofinish_serve::app::LocalGateway;

pub use output::write_known;

pub const EXAMPLES: &str = include_str!("help/verify.txt").trim_ascii_end();

/// What one call of `verify` may cost, US dollars, unless the command line says otherwise.
const COST_MAX: f64 = 0.5;
/// Hosts in one call of `verify`.
const HOSTS_MAX: usize = 32;

/// What the command takes.
#[derive(Args, Clone, Debug, Default)]
pub struct VerifyOptions {
    /// A model, for all its hosts that are on; or upstreams as PROVIDER/MODEL, also with commas between.
    #[arg(required = true, value_name = "MODEL")]
    pub names: Vec<String>,
    /// The host that the others are compared with. Without it: the vendor's own API, or else what most hosts say.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub reference: Option<String>,
    /// Instead, sample 25 prompts ten times at temperature 1 in each of two calls, an hour to a week apart, and say whether hosts answer
    /// alike: 500 requests to each host.
    #[arg(long, conflicts_with_all = ["context", "reference", "json"])]
    pub sample: bool,
    /// Also send one prompt of nine tenths of the declared context to each host: input tokens that cost.
    #[arg(long)]
    pub context: bool,
    /// US dollars that it may cost at most; 0.5 without it.
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = |text: &str| within(text, 0.0..=1e6))]
    pub max_cost: Option<f64>,
    /// Tokens, in and out, that hosts without a known price may use. They need it.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = |text: &str| within(text, 1..=1_000_000_000_000_u64))]
    pub max_tokens: Option<u64>,
    /// Do not ask before.
    #[arg(long)]
    pub yes: bool,
    /// One object, for programs.
    #[arg(long)]
    pub json: bool,
}

/// Verifies, prints and keeps what was found. What it will cost goes to `err`; `consent` asks whether to go on.
///
/// # Errors
/// `WrongUse`; when the store cannot be opened or a row not be written; those of `out` and `err`.
pub async fn run(
    config: Config,
    options: &VerifyOptions,
    screen: ScreenSettings,
    consent: impl FnOnce() -> anyhow::Result<bool>,
    out: &mut impl io::Write,
    err: &mut impl io::Write,
) -> anyhow::Result<CommandOutcome> {
    let (model, hosts) = hosts(&config, options)?;
    let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
    let reference = reference(options, &names)?;
    if options.sample && hosts.len() < 2 {
        return Err(WrongUse("one host only: --sample compares hosts".to_owned()).into());
    }
    let first = match options.sample {
        true => sampling::first_session(&config.store.address, &model, &names, wall_micros())?,
        false => Vec::new(),
    };
    let notice = told_before(options, &hosts)?;
    write_folded(&notice, screen.columns(), err)?;
    if !options.yes && hosts.iter().any(|host| host.is_hosted) && !consent()? {
        write_folded("nothing was asked", screen.columns(), err)?;
        return Ok(CommandOutcome::Failed);
    }
    let (store, feed) = (config.store.address.clone(), RowFeed::new());
    let mut signals = Signals::new()?;
    let gateway = LocalGateway::start(config, true, feed.clone()).await?;
    let max_usd = options.max_cost.unwrap_or(COST_MAX);
    let verifier = Arc::new(Verifier::new(gateway.load_client(feed), max_usd));
    if options.sample {
        let (session, at) = (usize::from(!first.is_empty()), wall_micros());
        let sampled = tokio::select! {
            biased;
            () = signals.next() => None,
            sampled = verifier.sample(&hosts, session) => Some(sampled),
        };
        let lost = gateway.stop().await;
        let Some(sampled) = sampled else { return interrupted(screen, err) };
        anyhow::ensure!(lost == 0, "{lost} rows could not be written");
        return sampling::finish(&store, (&model, at), first, sampled, screen, out);
    }
    let done = tokio::select! {
        biased;
        () = signals.next() => None,
        done = verifier.verify(&hosts, |done| tell_host(done, screen, &mut io::stderr())) => Some(done),
    };
    let lost = gateway.stop().await;
    let Some(done) = done else { return interrupted(screen, err) };
    let found: Vec<_> = done.iter().map(|done| (done.host.clone(), done.findings.clone())).collect();
    let verdicts = compare(&found, reference.map(|(place, _)| place));
    let rows = rows(&model, &verdicts, wall_micros());
    let shown = output::VerifiedModel { model: &model, done: &done, reference, spent: verifier.spent().cost() };
    output::write(&shown, &rows, options.json, screen, out)?;
    keep(&store, &rows)?;
    anyhow::ensure!(lost == 0, "{lost} rows could not be written");
    Ok(outcome(&done, &verdicts))
}

fn interrupted(screen: ScreenSettings, err: &mut impl io::Write) -> anyhow::Result<CommandOutcome> {
    write_folded("interrupted: nothing is kept but the rows of the requests", screen.columns(), err)?;
    Ok(CommandOutcome::Interrupted)
}

fn outcome(done: &[Verification], verdicts: &[FactVerdict]) -> CommandOutcome {
    if done.iter().all(|done| done.given_up.is_some()) {
        CommandOutcome::Failed
    } else if verdicts.iter().any(|verdict| verdict.wrong) {
        CommandOutcome::Missed
    } else if done.iter().any(|done| done.given_up.is_some()) {
        CommandOutcome::Failed
    } else {
        CommandOutcome::Done
    }
}

/// A host is done, or was given up.
fn tell_host(done: &Verification, screen: ScreenSettings, err: &mut impl io::Write) {
    let text = match &done.given_up {
        Some(why) => format!("{}: given up after {}; {why}", done.host, counted(done.requests as u64, "request")),
        None => format!("{}: {}", done.host, counted(done.requests as u64, "request")),
    };
    // There is no other place for it if standard error is closed.
    let _ = write_folded(&text, screen.columns(), err);
}

fn rows(model: &str, verdicts: &[FactVerdict], at: i64) -> Vec<VerdictRow> {
    let row = |verdict: &FactVerdict| VerdictRow {
        at,
        model: model.to_owned(),
        host: verdict.host.clone(),
        fact: verdict.fact.as_str().to_owned(),
        answer: verdict.answer.as_str().to_owned(),
        reference: verdict.reference.clone(),
        detail: verdict.detail.clone(),
        wrong: verdict.wrong,
    };
    verdicts.iter().map(row).collect()
}

fn keep(store: &StoreAddress, rows: &[VerdictRow]) -> anyhow::Result<()> {
    let kept = Store::open(store).map_err(anyhow::Error::from).and_then(|store| Ok(store.save_verdicts(rows)?));
    kept.map_err(|error| error.context("what was found could not be kept"))
}

/// The model, and its hosts in order.
fn hosts(config: &Config, options: &VerifyOptions) -> Result<(String, Vec<VerifiedHost>), WrongUse> {
    // A model of the configuration may have a comma in its name.
    let list = |name: &String| match config.model(name).is_some() {
        true => vec![name.clone()],
        false => name.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
    };
    let names: Vec<String> = options.names.iter().flat_map(list).collect();
    if names.is_empty() {
        return Err(WrongUse("name a model, or upstreams as PROVIDER/MODEL".to_owned()));
    }
    let (model, upstreams) = match &names[..] {
        [name] if config.model(name).is_some() => {
            let with_shadow = |model: &Arc<ModelConfig>| {
                let shadow = model.shadow.iter().map(|shadow| shadow.upstream.clone());
                (model.name.clone(), model.upstreams.iter().cloned().chain(shadow).collect::<Vec<_>>())
            };
            let (model, upstreams) = config.model(name).map(with_shadow).unwrap_or_default();
            (model, upstreams.into_iter().filter(|upstream| config.provider_is_on(&upstream.provider)).collect())
        }
        names => (String::new(), named(config, names)?),
    };
    if upstreams.is_empty() {
        return Err(WrongUse(format!("no host of {model} is on: see `photofinish check`")));
    }
    if upstreams.len() > HOSTS_MAX {
        return Err(WrongUse(format!("{} hosts: at most {HOSTS_MAX} at once; name some", upstreams.len())));
    }
    let of = |upstream: &UpstreamConfig| {
        config.models.values().find(|model| model.upstreams.iter().any(|known| known.name() == upstream.name()))
    };
    let model = if model.is_empty() {
        of(&upstreams[0]).map_or(upstreams[0].name(), |model| model.name.clone())
    } else {
        model
    };
    let host = |upstream: &UpstreamConfig| VerifiedHost {
        name: upstream.name(),
        model: of(upstream).map_or(upstream.name(), |model| model.name.clone()),
        context: upstream.context.filter(|_| options.context),
        is_hosted: upstream.provider.is_hosted(),
        price: upstream.price,
    };
    Ok((model, upstreams.iter().map(host).collect()))
}

/// Upstreams by their names, each once.
fn named(config: &Config, names: &[String]) -> Result<Vec<UpstreamConfig>, WrongUse> {
    let mut found: Vec<UpstreamConfig> = Vec::new();
    for name in names {
        let listed =
            config.models.values().flat_map(|model| &model.upstreams).find(|upstream| upstream.name() == *name);
        let known = name.split_once('/').and_then(|(provider, model)| Some((config.providers.get(provider)?, model)));
        let upstream = match (listed, known) {
            (Some(listed), _) => listed.clone(),
            (None, Some((provider, model))) => UpstreamConfig::of_catalogue(
                provider.clone(),
                model.to_owned(),
                &config.catalogue,
                RaceSettings::default().timeouts,
            ),
            (None, None) => return Err(unknown(config, name)),
        };
        if !config.provider_is_on(&upstream.provider) {
            let why = upstream.provider.why_off().unwrap_or_else(|| "it has no key".to_owned());
            return Err(WrongUse(format!("{name} is off: {why}")));
        }
        if !found.iter().any(|known| known.name() == upstream.name()) {
            found.push(upstream);
        }
    }
    Ok(found)
}

fn unknown(config: &Config, name: &str) -> WrongUse {
    if let Some((provider, _)) = name.split_once('/')
        && config.nearest_models(name).is_empty()
    {
        return WrongUse(config.why_no_provider(provider));
    }
    let near = config.nearest_models(name);
    let hint = if near.is_empty() {
        "`photofinish models` has them".to_owned()
    } else {
        format!("did you mean {}?", near.join(" or "))
    };
    WrongUse(format!("there is no model {name:?} in the configuration; {hint}"))
}

/// The place of the reference, and whether it was chosen as the vendor's own. None: the majority.
fn reference(options: &VerifyOptions, names: &[String]) -> Result<Option<(usize, bool)>, WrongUse> {
    let Some(asked) = &options.reference else { return Ok(vendor(names).map(|place| (place, true))) };
    if let Some(place) = names.iter().position(|name| name == asked) {
        return Ok(Some((place, false)));
    }
    let near = nearest(asked, names.iter().map(String::as_str), 1).pop();
    let hint = near.map_or_else(|| format!("they are {}", names.join(", ")), |near| format!("did you mean {near}?"));
    Err(WrongUse(format!("the reference {asked:?} is none of the hosts; {hint}")))
}

/// Requests, time and cost, before anything is sent.
fn told_before(options: &VerifyOptions, hosts: &[VerifiedHost]) -> Result<String, WrongUse> {
    let (mut requests, mut usd, mut tokens, mut time, mut unpriced) = (0, 0.0, 0.0, Duration::ZERO, Vec::new());
    for host in hosts {
        let asked = if options.sample { sample_questions() } else { questions(host.context) };
        requests += asked.len();
        time = time.max(host.paced(asked.len()));
        let (input, output) = host.tokens(&asked);
        match host.most_usd(&asked) {
            Some(most) => usd += most,
            None => {
                tokens += input + output;
                unpriced.push(host.name.clone());
            }
        }
    }
    let max_usd = options.max_cost.unwrap_or(COST_MAX);
    if usd > max_usd {
        return Err(WrongUse(format!(
            "this may cost {}, more than ${max_usd}: raise --max-cost, or name fewer hosts",
            Cost::exactly(usd)
        )));
    }
    if !unpriced.is_empty() && options.max_tokens.is_none_or(|max| tokens > max as f64) {
        return Err(WrongUse(format!(
            "no price is known for {}, so --max-cost could not be kept: allow about {tokens:.0} tokens with --max-tokens",
            unpriced.join(", ")
        )));
    }
    let cost = if hosts.iter().any(|host| host.is_hosted) {
        format!("; this costs at most {}", Cost::exactly(usd))
    } else {
        String::new()
    };
    let more = if unpriced.is_empty() {
        String::new()
    } else {
        format!(", and about {tokens:.0} tokens without a known price")
    };
    let time = if time.is_zero() {
        String::new()
    } else {
        format!("; about {} at 30 requests a minute", format_duration(time))
    };
    let one = if hosts.len() == 1 { "; one host only: nothing to compare it with" } else { "" };
    Ok(format!(
        "{} to {}{cost}{more}{time}{one}",
        counted(requests as u64, "request"),
        counted(hosts.len() as u64, "host")
    ))
}

#[cfg(test)]
mod tests;
