//! `photofinish probe`: probes now, in this process, or the plan of those that the gateway will send. Not for what a probe is:
//! see `photofinish_lab::probe`.

use std::io;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::outcome::{CommandOutcome, WrongUse};
use super::screen::ScreenSettings;
use super::sheet::{Sheet, SheetCell};
use super::text::{counted, write_columns, write_folded};
use photofinish_base::clock::wall_micros;
use photofinish_config::units::within;
use photofinish_config::{Config, ProbeWorkload, UpstreamConfig, nearest};
use photofinish_facts::estimate::cost::Cost;
use photofinish_lab::bench::RowFeed;
use photofinish_lab::probe::{ProbeCaps, ProbeEstimate, ProbeResult, ProbeSchedule, Prober, jobs, probed, seed};
use photofinish_metrics::ProbeOutcome;
use photofinish_serve::app::LocalGateway;

/// How far a plan looks.
const PLAN_AHEAD: Duration = Duration::from_secs(24 * 3_600);

/// Measure upstreams now with the workloads of `[probes]`, or show what the gateway will send.
#[derive(Args, Clone, Debug, Default)]
pub struct ProbeOptions {
    /// Send nothing: print the probes of the next 24 hours and what they cost.
    #[arg(long, conflicts_with_all = ["upstreams", "workload", "max_cost", "max_tokens"])]
    pub plan: bool,

    /// Only these upstreams, PROVIDER/MODEL with commas between.
    #[arg(long, value_delimiter = ',', value_name = "UPSTREAMS")]
    pub upstreams: Vec<String>,

    /// Other workloads than those of `[probes]`, with commas between: 1k, 10k, 10k1k, 100k, parallel, fingerprint, or names of
    /// `[workloads]`.
    #[arg(long, value_delimiter = ',', value_name = "WORKLOAD")]
    pub workload: Vec<String>,

    /// USD that this call may spend. Hosted upstreams need it, unless `[probes]` has a cap.
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = |text: &str| within(text, 0.0..=1e6))]
    pub max_cost: Option<f64>,

    /// Tokens, in and out, that this call may use. Hosted upstreams without a known price need it, unless `[probes]` has it.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = |text: &str| within(text, 1..=1_000_000_000_000_u64))]
    pub max_tokens: Option<u64>,

    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// Probes, or prints the plan. What it will cost goes to `err`.
///
/// # Errors
/// `WrongUse`; when the store cannot be opened or a row not be written; those of `out` and `err`.
pub async fn run(
    config: Config,
    options: &ProbeOptions,
    screen: ScreenSettings,
    out: &mut impl io::Write,
    err: &mut impl io::Write,
) -> anyhow::Result<CommandOutcome> {
    if options.plan {
        plan(&config, options, screen, out)?;
        return Ok(CommandOutcome::Done);
    }
    let (workloads, targets) = (workloads(&config, options)?, targets(&config, options)?);
    check_money(&config, options, &targets)?;
    write_folded(&cost_before(&config, options, &targets, &workloads), screen.columns(), err)?;
    let feed = RowFeed::new();
    let store = config.store.address.clone();
    let gateway = LocalGateway::start(config, true, feed.clone()).await?;
    let prober =
        Prober::new(gateway.load_client(feed), store, ProbeCaps::of_call(options.max_cost, options.max_tokens));
    let number = fastrand::u64(..);
    let mut results = Vec::new();
    for (model, upstream) in &targets {
        for workload in &workloads {
            let result = prober.probe(model, upstream, workload, number, None).await;
            if options.json {
                writeln!(out, "{}", serde_json::to_string(&result)?)?;
                out.flush()?;
            }
            results.push(result);
        }
    }
    if !options.json {
        sheet(&results).write(screen.terminal(), out)?;
    }
    let lost = gateway.stop().await;
    anyhow::ensure!(lost == 0, "{lost} rows could not be written");
    let is_failed = results.iter().any(|result| result.outcome != ProbeOutcome::Answered);
    Ok(if is_failed { CommandOutcome::Failed } else { CommandOutcome::Done })
}

fn workloads(config: &Config, options: &ProbeOptions) -> Result<Vec<ProbeWorkload>, WrongUse> {
    if options.workload.is_empty() {
        let usual = || config.workloads.get("1k").cloned().into_iter().collect();
        return Ok(config.probes.as_ref().map_or_else(usual, |probes| probes.workloads.clone()));
    }
    let find = |name: &String| {
        config.workloads.get(name).cloned().ok_or_else(|| unknown("workload", name, "", config.workloads.keys()))
    };
    options.workload.iter().map(find).collect()
}

/// Models and their upstreams that are on.
fn targets(config: &Config, options: &ProbeOptions) -> Result<Vec<(String, UpstreamConfig)>, WrongUse> {
    let models: Vec<&String> = match &config.probes {
        Some(probes) => probes.models.iter().collect(),
        None if config.serves_catalogue && options.upstreams.is_empty() => {
            return Err(WrongUse(
                "every model of the catalogue would be probed: choose some with --upstreams".to_owned(),
            ));
        }
        None => config.models.keys().collect(),
    };
    let all = models
        .into_iter()
        .flat_map(|model| probed(config, model).map(move |upstream| (model.clone(), upstream.clone())));
    let all: Vec<(String, UpstreamConfig)> = all.collect();
    let names: Vec<String> = all.iter().map(|(_, upstream)| upstream.name()).collect();
    if let Some(name) = options.upstreams.iter().find(|name| !names.contains(name)) {
        return Err(unknown("upstream", name, ", or it is off", names.iter()));
    }
    let is_wanted = |(_, upstream): &(String, UpstreamConfig)| {
        options.upstreams.is_empty() || options.upstreams.contains(&upstream.name())
    };
    let wanted: Vec<_> = all.into_iter().filter(is_wanted).collect();
    if wanted.is_empty() { Err(WrongUse("no upstream is on: see `photofinish check`".to_owned())) } else { Ok(wanted) }
}

/// Hosted upstreams need a cap.
fn check_money(config: &Config, options: &ProbeOptions, targets: &[(String, UpstreamConfig)]) -> Result<(), WrongUse> {
    if config.probes.is_some() {
        return Ok(());
    }
    let hosted = || targets.iter().map(|(_, upstream)| upstream).filter(|upstream| upstream.provider.is_hosted());
    let names = |upstreams: &mut dyn Iterator<Item = &UpstreamConfig>| {
        let names: Vec<String> = upstreams.map(UpstreamConfig::name).collect();
        names.join(", ")
    };
    let all = names(&mut hosted());
    if !all.is_empty() && options.max_cost.is_none() && options.max_tokens.is_none() {
        return Err(WrongUse(format!(
            "{all}: a hosted provider bills each request, and without [probes] there is no cap of a day; say with \
             --max-cost what may be spent"
        )));
    }
    let unpriced = names(&mut hosted().filter(|upstream| upstream.price.is_none()));
    if !unpriced.is_empty() && options.max_tokens.is_none() {
        return Err(WrongUse(format!(
            "no price is known for {unpriced}, so --max-cost could not be kept: give --max-tokens, too"
        )));
    }
    Ok(())
}

/// What all probes cost if the upstreams keep to `max_tokens`, and what bounds it.
fn cost_before(
    config: &Config,
    options: &ProbeOptions,
    targets: &[(String, UpstreamConfig)],
    workloads: &[ProbeWorkload],
) -> String {
    let all = targets.iter().flat_map(|(_, upstream)| workloads.iter().map(move |workload| (workload, upstream)));
    let estimates: Vec<ProbeEstimate> = all.map(|(workload, upstream)| ProbeEstimate::of(workload, upstream)).collect();
    let usd = estimates.iter().filter_map(|estimate| estimate.usd).fold(0.0, |all, usd| all + usd);
    let tokens: f64 = estimates.iter().map(|estimate| estimate.tokens).sum();
    let unpriced = estimates.iter().filter(|estimate| estimate.usd.is_none()).count();
    let unpriced = if unpriced > 0 { format!("; {unpriced} of them have no known price") } else { String::new() };
    let of_call = caps(options.max_cost, options.max_tokens).map(|caps| format!("; this call may spend {caps}"));
    let of_day = config.probes.as_ref().and_then(|probes| caps(probes.max_cost, probes.max_tokens));
    let of_day = of_day.map(|caps| format!("; the cap of a day is {caps}"));
    format!(
        "{}: about USD {usd:.4} and {tokens:.0} tokens{unpriced}{}{}",
        counted(estimates.len() as u64, "probe"),
        of_call.unwrap_or_default(),
        of_day.unwrap_or_default()
    )
}

/// In words; none without a cap.
fn caps(usd: Option<f64>, tokens: Option<u64>) -> Option<String> {
    let usd = usd.map(|cap| format!("USD {cap}")).into_iter();
    let caps: Vec<String> = usd.chain(tokens.map(|cap| format!("{cap} tokens"))).collect();
    (!caps.is_empty()).then(|| caps.join(" and "))
}

fn unknown<'n>(noun: &str, name: &str, or: &str, known: impl Iterator<Item = &'n String>) -> WrongUse {
    let near = nearest(name, known.map(String::as_str), 1).pop();
    let hint = near.map_or_else(|| "`photofinish check` has them".to_owned(), |near| format!("did you mean {near}?"));
    WrongUse(format!("there is no {noun} {name:?}{or}; {hint}"))
}

fn sheet(results: &[ProbeResult]) -> Sheet {
    let heads = ["upstream", "workload", "outcome", "TTFT ms", "tok/s", "total ms", "in", "out", "cost"];
    let number =
        |value: Option<f64>, digits: usize| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"));
    let count = |value: Option<i64>| value.map_or_else(|| "–".to_owned(), |value| value.to_string());
    let row = |result: &ProbeResult| {
        let outcome = match &result.why {
            Some(why) => format!("{}: {why}", result.outcome.as_str()),
            None => result.outcome.as_str().to_owned(),
        };
        [
            result.upstream.clone(),
            match result.requests {
                0 | 1 => result.workload.clone(),
                requests => format!("{}, median of {requests}", result.workload),
            },
            outcome,
            number(result.ttft_ms, 0),
            number(result.tok_s, 1),
            number(result.end_to_end_ms, 0),
            count(result.input_tokens),
            count(result.output_tokens),
            result.cost.to_string(),
        ]
        .map(SheetCell::from)
        .to_vec()
    };
    Sheet { heads: heads.map(str::to_owned).to_vec(), names: 3, rows: results.iter().map(row).collect() }
}

/// The probes of the next day, each with its time and its cost if the upstream keeps to `max_tokens`.
fn plan(
    config: &Config,
    options: &ProbeOptions,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let Some(settings) = &config.probes else {
        return Err(WrongUse("the configuration has no [probes], so the gateway sends none".to_owned()).into());
    };
    let now_us = wall_micros();
    let mut schedule = ProbeSchedule::new(seed(&config.store.address));
    schedule.configure(jobs(config, settings), now_us);
    let (mut usd_all, mut unpriced, mut rows) = (0.0, 0, Vec::new());
    for due in schedule.plan(now_us, PLAN_AHEAD) {
        let at = jiff::Timestamp::from_microsecond(due.moment_us)?;
        let workload = settings.workloads.iter().find(|workload| workload.name == due.job.workload);
        let upstream = probed(config, &due.job.model).find(|upstream| upstream.name() == due.job.upstream);
        let Some((workload, upstream)) = workload.zip(upstream) else { continue };
        let estimate = ProbeEstimate::of(workload, upstream);
        usd_all += estimate.usd.unwrap_or(0.0);
        unpriced += usize::from(estimate.usd.is_none());
        if options.json {
            let line = json!({
                "at_ms": due.moment_us / 1_000, "model": due.job.model, "workload": workload.name,
                "upstream": due.job.upstream, "estimate_usd": estimate.usd, "tokens": estimate.tokens,
            });
            writeln!(out, "{line}")?;
            continue;
        }
        let usd =
            estimate.usd.map_or_else(|| "price unknown".to_owned(), |usd| format!("about {}", Cost::exactly(usd)));
        let cost = format!("{usd}, {:.0} tokens", estimate.tokens);
        let at = at.strftime("%m-%d %H:%M UTC").to_string();
        rows.push(vec![due.job.upstream.clone(), workload.name.clone(), at, cost]);
    }
    if options.json {
        return Ok(());
    }
    write_columns("", &rows, screen.columns(), out)?;
    let caps = caps(settings.max_cost, settings.max_tokens).unwrap_or_default();
    writeln!(out, "24 hours: about {}; the cap of a day is {caps}", Cost::exactly(usd_all))?;
    if unpriced > 0 {
        writeln!(out, "{unpriced} of them have no known price")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
