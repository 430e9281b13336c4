//! `photofinish probe`: probes now, in this process, or the plan of those that the gateway will send. Not for what a probe is:
//! see `crate::probe`.

use std::io;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::outcome::{CommandOutcome, WrongUse};
use super::sheet::{Sheet, SheetCell};
use crate::app::LocalGateway;
use crate::bench::{LoadClient, RowFeed};
use crate::clock::wall_micros;
use crate::config::{Config, ProbeWorkload, UpstreamConfig, nearest};
use crate::metrics::ProbeOutcome;
use crate::probe::{ProbeResult, ProbeSchedule, Prober, jobs, probed, seed};

/// How far a plan looks.
const PLAN_AHEAD: Duration = Duration::from_secs(24 * 3_600);

/// Measure upstreams now with the workloads of `[probes]`, or show what the gateway will send.
#[derive(Args, Clone, Debug, Default)]
pub struct ProbeOptions {
    /// Send nothing: print the probes of the next 24 hours and what they cost.
    #[arg(long, conflicts_with_all = ["upstreams", "workload"])]
    pub plan: bool,

    /// Only these upstreams, PROVIDER/MODEL with commas between.
    #[arg(long, value_delimiter = ',', value_name = "UPSTREAMS")]
    pub upstreams: Vec<String>,

    /// Other workloads than those of `[probes]`, with commas between: 1k, 10k, 10k1k, 100k, parallel, or names of
    /// `[workloads]`.
    #[arg(long, value_delimiter = ',', value_name = "WORKLOAD")]
    pub workload: Vec<String>,

    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// Probes, or prints the plan.
///
/// # Errors
/// `WrongUse`; when the store cannot be opened or a row not be written; those of `out`.
pub async fn run(config: Config, options: &ProbeOptions, out: &mut impl io::Write) -> anyhow::Result<CommandOutcome> {
    if options.plan {
        plan(&config, options, out)?;
        return Ok(CommandOutcome::Done);
    }
    let (workloads, targets) = (workloads(&config, options)?, targets(&config, options)?);
    let feed = RowFeed::new();
    let path = config.store.path.clone();
    let gateway = LocalGateway::start(config, true, feed.clone()).await?;
    let prober = Prober::new(LoadClient::new(gateway.gateway().clone(), feed), path);
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
        sheet(&results).write(None, out)?;
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
        config.workloads.get(name).cloned().ok_or_else(|| unknown("workload", name, config.workloads.keys()))
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
        return Err(unknown("upstream that is on", name, names.iter()));
    }
    let is_wanted = |(_, upstream): &(String, UpstreamConfig)| {
        options.upstreams.is_empty() || options.upstreams.contains(&upstream.name())
    };
    let wanted: Vec<_> = all.into_iter().filter(is_wanted).collect();
    if wanted.is_empty() { Err(WrongUse("no upstream is on: see `photofinish check`".to_owned())) } else { Ok(wanted) }
}

fn unknown<'n>(noun: &str, name: &str, known: impl Iterator<Item = &'n String>) -> WrongUse {
    let near = nearest(name, known.map(String::as_str), 1).pop();
    let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    WrongUse(format!("there is no {noun} {name:?}{hint}"))
}

fn sheet(results: &[ProbeResult]) -> Sheet {
    let heads = ["upstream", "workload", "outcome", "TTFT ms", "tok/s", "total ms", "in", "out", "USD"];
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
            result.workload.clone(),
            outcome,
            number(result.ttft_ms, 0),
            number(result.tok_s, 1),
            number(result.end_to_end_ms, 0),
            count(result.input_tokens),
            count(result.output_tokens),
            number(result.cost_usd, 6),
        ]
        .map(SheetCell::from)
        .to_vec()
    };
    Sheet { heads: heads.map(str::to_owned).to_vec(), names: 3, rows: results.iter().map(row).collect() }
}

/// The probes of the next day, each with its time and its cost if the upstream keeps to `max_tokens`.
fn plan(config: &Config, options: &ProbeOptions, out: &mut impl io::Write) -> anyhow::Result<()> {
    let Some(settings) = &config.probes else {
        return Err(WrongUse("the configuration has no [probes], so the gateway sends none".to_owned()).into());
    };
    let now_us = wall_micros();
    let mut schedule = ProbeSchedule::new(seed(&config.store.path));
    schedule.configure(jobs(config, settings), now_us);
    let (mut usd_all, mut unpriced) = (0.0, 0);
    for due in schedule.plan(now_us, PLAN_AHEAD) {
        let at = jiff::Timestamp::from_microsecond(due.moment_us)?;
        let workload = settings.workloads.iter().find(|workload| workload.name == due.job.workload);
        let upstream = probed(config, &due.job.model).find(|upstream| upstream.name() == due.job.upstream);
        let Some((workload, upstream)) = workload.zip(upstream) else { continue };
        let estimate = Prober::estimate(workload, upstream);
        usd_all += estimate.usd.unwrap_or(0.0);
        unpriced += usize::from(estimate.usd.is_none());
        if options.json {
            let line = json!({
                "at_ms": due.moment_us / 1_000, "model": due.job.model, "workload": workload.name,
                "upstream": due.job.upstream, "cost_usd": estimate.usd, "tokens": estimate.tokens,
            });
            writeln!(out, "{line}")?;
            continue;
        }
        let usd = estimate.usd.map_or_else(|| "price unknown".to_owned(), |usd| format!("USD {usd:.6}"));
        let at = at.strftime("%Y-%m-%d %H:%M UTC");
        writeln!(out, "{at}  {:<8}  {}  {usd}, {:.0} tokens", workload.name, due.job.upstream, estimate.tokens)?;
    }
    if options.json {
        return Ok(());
    }
    let caps = settings.max_cost.map(|cap| format!("USD {cap}")).into_iter();
    let caps: Vec<String> = caps.chain(settings.max_tokens.map(|cap| format!("{cap} tokens"))).collect();
    writeln!(out, "24 hours: about USD {usd_all:.4}; the cap of a day is {}", caps.join(" and "))?;
    if unpriced > 0 {
        writeln!(out, "{unpriced} of them have no known price")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::config::parse;
    use crate::store::StoreReader;

    const PROVIDERS: &str = "
        providers.a.simulate = { ttft = '20ms', jitter = 0, tokens_per_second = 1000, tokens = 50, prefix_cache = true }
        providers.b.simulate = { ttft = '1ms', jitter = 0 }
        models.m.upstreams = [{ upstream = 'a/m', input_price = 1.0, output_price = 2.0 }, 'b/fail-500']
        models.m.breaker = { failures = 1 }
    ";

    fn config(folder: &Path, more: &str) -> Config {
        let store = folder.join("history.db");
        let text = format!("store.url = 'sqlite:{}'\n{PROVIDERS}\n{more}", store.display());
        parse(&text, Path::new("config.toml"), &|_| None).unwrap_or_else(|problems| panic!("{problems}"))
    }

    async fn probe(config: Config, options: &ProbeOptions) -> (CommandOutcome, Vec<Value>) {
        let mut out = Vec::new();
        let outcome = run(config, &ProbeOptions { json: true, ..options.clone() }, &mut out).await.unwrap();
        let lines = std::str::from_utf8(&out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap());
        (outcome, lines.collect())
    }

    #[tokio::test]
    async fn each_upstream_is_measured_and_its_rows_say_so() {
        let folder = tempfile::tempdir().unwrap();
        let (outcome, lines) = probe(config(folder.path(), ""), &ProbeOptions::default()).await;
        assert_eq!(outcome, CommandOutcome::Failed, "one of the two did not answer");
        let [answered, failed] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&answered["upstream"], &answered["outcome"]), (&"a/m".into(), &"answered".into()));
        assert_eq!((&answered["workload"], &answered["output_tokens"]), (&"1k".into(), &50.into()));
        let input_tokens = answered["input_tokens"].as_i64().unwrap();
        assert!((900..=1_100).contains(&input_tokens), "the ping tells how long a token is: {input_tokens}");
        let ttft_ms = answered["ttft_ms"].as_f64().unwrap();
        assert!((20.0..200.0).contains(&ttft_ms), "{answered}");
        assert!(answered["cost_usd"].as_f64().unwrap() > 0.0, "{answered}");
        assert_eq!((&failed["outcome"], &failed["ttft_ms"]), (&"failed".into(), &Value::Null));
        let (reader, mut told) = (StoreReader::open(&folder.path().join("history.db")).unwrap(), Vec::new());
        reader.each_probe((0, None), |probe| told.push((probe.race.workload.clone(), probe.upstream()))).unwrap();
        let named = |workload: &str, upstream: &str| (Some(workload.to_owned()), upstream.to_owned());
        assert_eq!(
            told,
            [named("ping", "a/m"), named("1k", "a/m"), named("ping", "b/fail-500")],
            "a ping that fails is the last request"
        );
    }

    #[tokio::test]
    async fn the_cap_of_the_day_holds_across_runs() {
        let folder = tempfile::tempdir().unwrap();
        // Eight times (1.5 × 1,000 × 1 + 1,000 × 2) / 10⁶ USD are set aside, and some for the ping.
        let capped = |cap| config(folder.path(), &format!("[probes]\nworkloads = ['1k']\nmax_cost = {cap}"));
        let only = ProbeOptions { upstreams: vec!["a/m".into()], ..ProbeOptions::default() };
        let (outcome, lines) = probe(capped(0.0320), &only).await;
        assert_eq!((outcome, lines[0]["outcome"].as_str()), (CommandOutcome::Done, Some("answered")), "{lines:?}");
        let (outcome, lines) = probe(capped(0.0320), &only).await;
        assert_eq!((outcome, lines[0]["outcome"].as_str()), (CommandOutcome::Failed, Some("skipped")), "{lines:?}");
        assert_eq!(lines[0]["why"], "the day's max_cost");
    }

    #[tokio::test]
    async fn what_is_unknown_is_named_with_the_nearest() {
        let folder = tempfile::tempdir().unwrap();
        let problem = async |options: ProbeOptions| {
            run(config(folder.path(), ""), &options, &mut Vec::new()).await.unwrap_err().to_string()
        };
        let upstream = ProbeOptions { upstreams: vec!["a/n".into()], ..ProbeOptions::default() };
        assert_eq!(problem(upstream).await, "there is no upstream that is on \"a/n\"; did you mean a/m?");
        let workload = ProbeOptions { workload: vec!["100".into()], ..ProbeOptions::default() };
        assert!(problem(workload).await.contains("did you mean 100k?"));
        let plan = ProbeOptions { plan: true, ..ProbeOptions::default() };
        assert!(problem(plan).await.contains("no [probes]"));
    }

    #[tokio::test]
    async fn the_plan_of_a_day_has_each_slot_and_its_cost() {
        let folder = tempfile::tempdir().unwrap();
        let more = "[probes]\nworkloads = ['1k', 'agent']\nmax_cost = 1\n[workloads.agent]\ninput_tokens = 10\noutput_tokens = 10";
        let plan = ProbeOptions { plan: true, ..ProbeOptions::default() };
        let (_, lines) = probe(config(folder.path(), more), &plan).await;
        let of = |workload: &str, upstream: &str| {
            lines.iter().filter(|line| line["workload"] == workload && line["upstream"] == upstream).count()
        };
        assert!((7..=9).contains(&of("1k", "a/m")) && (7..=9).contains(&of("agent", "b/fail-500")), "{lines:?}");
        assert!(lines.iter().all(|line| line["cost_usd"].is_null() == (line["upstream"] == "b/fail-500")));
        let mut text = Vec::new();
        run(config(folder.path(), more), &plan, &mut text).await.unwrap();
        assert!(String::from_utf8(text).unwrap().contains("the cap of a day is USD 1"));
    }
}
