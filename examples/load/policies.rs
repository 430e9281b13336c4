//! Compares policies. Each has a separate gateway with an empty history. All receive the same requests at the same
//! times, and use the same five simulated providers. In the middle the favourite hangs: it takes requests and never
//! answers. What a provider draws for a request depends on the request and not on the policy.
//!
//! At the end the gateway of `adaptive` is restarted on its own history and receives the same requests again, and so
//! does a gateway without a history.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use photofinish_base::clock::wall_micros;
use photofinish_config::{Policy, SimulatedFailure, Simulation};
use tempfile::TempDir;

use crate::drive::{Clients, Requests, Seen};
use crate::figures::Table;
use crate::gateway::Gateway;
use crate::ledger::{INPUT_PRICE, Ledger, OUTPUT_PRICE, Span};
use crate::outcome::{self, Hang};
use crate::upstreams::Upstreams;

/// Name, median TTFT in milliseconds, share of the tail. The first is the favourite and comes first in the
/// configuration: the best possible order for `fallback`.
const PROVIDERS: [(&str, u64, f64); 5] =
    [("a", 270, 0.02), ("b", 330, 0.03), ("c", 390, 0.01), ("d", 480, 0.02), ("e", 660, 0.008)];
const JITTER: f64 = 0.25;
/// Tokens per second of an answer.
const SPEED: f64 = 100.0;
/// The timeout for a first token, in milliseconds; the default would be almost as long as the hang.
const FIRST_TOKEN: u64 = 10_000;

/// What a policy that has a budget may spend on extras, in percent.
const BUDGETS: [u32; 3] = [0, 2, 10];
/// The policy and the budget of the restarted gateway.
const RESTARTED: (Policy, Option<u32>) = (Policy::Adaptive, Some(10));

/// Requests in one round of the restart.
const ROUND: usize = 100;
/// The first seed of the requests of the restart, above those of the run.
const ROUNDS_FROM: u32 = 1_000_000;

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Length of the run in seconds; the favourite hangs during its fourth and fifth eighth.
    #[arg(long, default_value_t = 160, value_parser = clap::value_parser!(u64).range(8..=360))]
    seconds: u64,
    /// Mean requests per second for each policy.
    #[arg(long, default_value_t = 15.0)]
    rate: f64,
    /// Factor by which all providers are faster, and the first-token timeout shorter, than by default.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=20))]
    faster: u64,
    /// Tokens of an answer.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    tokens: u32,
    /// Seed of the requests and of the providers' draws.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    seed: u64,
    /// Number of restarts, with a hundred requests before and after each.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=10))]
    restarts: u32,
    /// A new directory for the databases; by default they are removed at the end.
    #[arg(long, value_name = "PATH")]
    keep: Option<PathBuf>,
}

/// One policy in the run.
struct Entered {
    name: String,
    gateway: Gateway,
    seen: Vec<Seen>,
    span: Span,
}

/// Groups of a hundred requests of one kind.
#[derive(Default)]
struct Hundreds {
    seen: Vec<Seen>,
    ledger: Ledger,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let temp = TempDir::new()?;
    let root = options.keep.as_deref().unwrap_or(temp.path());
    if options.keep.is_some() {
        fs::create_dir(root).with_context(|| format!("{} must be a new directory", root.display()))?;
    }
    let upstreams = Upstreams::start_as(simulations(&options)).await?;
    let (mut entered, hang) = side_by_side(&options, root, &upstreams).await?;
    let restarts = restarts(&options, root, &upstreams, &mut entered).await?;

    let (mut in_all, mut in_the_hang, mut why) = (Table::default(), Table::default(), Table::default());
    in_all.row("", outcome::IN_ALL);
    in_the_hang.row("", outcome::IN_THE_HANG);
    for Entered { name, gateway, seen, span } in entered {
        let database = gateway.database().to_owned();
        let rows = gateway.stop().await?;
        ensure!(rows.started == rows.attempts, "{name}: {}", rows.line());
        let mut ledger = Ledger::default();
        ledger.read(&database, span).await?;
        in_all.row(&name, outcome::in_all(&seen, &ledger));
        let all_at_once = name == "race";
        in_the_hang.row(&name, outcome::in_the_hang(&seen, &ledger, &hang, PROVIDERS[0].0, all_at_once));
        let codes: Vec<String> = ledger.why.iter().map(|(codes, races)| format!("{codes}: {races}")).collect();
        why.row(name, codes.join(", "));
    }
    describe(&options, &hang).print("policies")?;
    in_all.print("client TTFT of the whole run, and cost")?;
    in_the_hang.print("while the favourite hangs")?;
    why.print("why, by the rows")?;
    if options.restarts > 0 {
        restarts.print("restart: the same requests, a hundred in each round")?;
    }
    Ok(())
}

/// Name and configuration of a policy with a budget in percent.
fn configured((policy, budget): (Policy, Option<u32>)) -> (String, String) {
    let name = policy.as_str();
    let settings = format!("policy = \"{name}\"\nhedge_after = \"1s\"");
    match budget {
        Some(budget) => (format!("{name} {budget} %"), format!("{settings}\nbudget = {}", f64::from(budget) / 100.0)),
        None => (name.to_owned(), settings),
    }
}

/// Runs all policies over the same requests.
async fn side_by_side(options: &Options, root: &Path, upstreams: &Upstreams) -> anyhow::Result<(Vec<Entered>, Hang)> {
    let length = Duration::from_secs(options.seconds);
    let requests = requests(options, options.seed, 0, length);
    let mut gateways = Vec::new();
    let mut clients = Vec::new();
    let each = |policy: Policy| match policy.spends_budget() {
        true => BUDGETS.map(|budget| (policy, Some(budget))).to_vec(),
        false => vec![(policy, None)],
    };
    for (name, settings) in Policy::ALL.into_iter().flat_map(each).map(configured) {
        let gateway = start(options, &root.join(name.replace([' ', '%'], "")), &settings, upstreams)?;
        clients.push(Box::pin(Clients::start(gateway.addr, requests)).await?);
        gateways.push((name, gateway));
    }
    let running: Vec<_> = clients.into_iter().map(|clients| upstreams.shutdown.spawn(clients.run())).collect();
    let hang = hang_in_the_middle(upstreams, length).await?;
    let mut entered = Vec::new();
    for ((name, gateway), run) in gateways.into_iter().zip(running) {
        let (seen, span) = run.await?;
        entered.push(Entered { name, gateway, seen, span });
    }
    Ok((entered, hang))
}

async fn hang_in_the_middle(upstreams: &Upstreams, length: Duration) -> anyhow::Result<Hang> {
    let favourite = upstreams.first().context("no upstream")?;
    let (from, until) = (length * 3 / 8, length * 5 / 8);
    tokio::time::sleep(from).await;
    favourite.break_down(Some(SimulatedFailure::Hang));
    let from_us = wall_micros();
    tokio::time::sleep(until - from).await;
    favourite.break_down(None);
    Ok(Hang { from, until, span: Span { from_us, until_us: wall_micros() } })
}

/// Sends a hundred requests before the gateway is stopped, the same to it after its restart, and to a gateway without a
/// history.
async fn restarts(
    options: &Options,
    root: &Path,
    upstreams: &Upstreams,
    entered: &mut [Entered],
) -> anyhow::Result<Table> {
    let (name, settings) = configured(RESTARTED);
    let entry = entered.iter_mut().find(|entry| entry.name == name).context("nothing to start again")?;
    let [mut before, mut after, mut fresh] = [(); 3].map(|()| Hundreds::default());
    for round in 0..options.restarts {
        let requests = round_of(options, round);
        let ask = async |addr| anyhow::Ok(Box::pin(Clients::start(addr, requests)).await?.run().await);
        let asked_before = ask(entry.gateway.addr).await?;
        entry.gateway.end()?;
        let dir = entry.gateway.database().parent().context("no directory")?.to_owned();
        entry.gateway = Gateway::start_in(&dir, &config(options, &settings, upstreams))?;
        let mut knows_nothing = start(options, &root.join(format!("fresh{round}")), &settings, upstreams)?;
        let (asked_after, asked_fresh) = tokio::try_join!(ask(entry.gateway.addr), ask(knows_nothing.addr))?;
        knows_nothing.end()?;
        fresh.add(asked_fresh, knows_nothing.database()).await?;
        // After its end, all rows are written.
        entry.gateway.end()?;
        before.add(asked_before, entry.gateway.database()).await?;
        after.add(asked_after, entry.gateway.database()).await?;
        entry.gateway = Gateway::start_in(&dir, &config(options, &settings, upstreams))?;
    }
    let mut table = Table::default();
    table.row("", outcome::QUANTILES);
    for (what, hundreds) in [("before it", before), ("after it", after), ("without a history", fresh)] {
        table.row(format!("{name}, {what}"), outcome::hundreds(&hundreds.seen, &hundreds.ledger));
    }
    Ok(table)
}

impl Hundreds {
    async fn add(&mut self, (seen, span): (Vec<Seen>, Span), database: &Path) -> anyhow::Result<()> {
        self.seen.extend(seen);
        self.ledger.read(database, span).await
    }
}

fn round_of(options: &Options, round: u32) -> Requests {
    let (seed, first) = (options.seed + 1 + u64::from(round), ROUNDS_FROM * (round + 1));
    // Twice the mean duration: enough for a hundred requests in every case.
    let length = Duration::from_secs_f64(2.0 * ROUND as f64 / options.rate);
    Requests { most: ROUND, ..requests(options, seed, first, length) }
}

fn requests(options: &Options, seed: u64, first: u32, length: Duration) -> Requests {
    Requests { seed, first, per_second: options.rate, length, most: usize::MAX, answer_tokens: options.tokens }
}

fn start(options: &Options, dir: &Path, settings: &str, upstreams: &Upstreams) -> anyhow::Result<Gateway> {
    fs::create_dir(dir)?;
    Gateway::start_in(dir, &config(options, settings, upstreams))
}

fn simulations(options: &Options) -> impl Iterator<Item = Simulation> {
    let Options { seed, faster, .. } = *options;
    PROVIDERS.into_iter().enumerate().map(move |(number, (_, ttft, tail))| Simulation {
        ttft: Duration::from_millis(ttft / faster),
        jitter: JITTER,
        tail,
        tokens_per_second: SPEED * faster as f64,
        tokens: 100_000,
        seed: Some(seed * 100 + number as u64),
        ..Simulation::default()
    })
}

/// The default configuration, except that all five may be started, and that the first-token timeout is shorter.
fn config(options: &Options, settings: &str, upstreams: &Upstreams) -> String {
    let (most, first_token) = (PROVIDERS.len(), FIRST_TOKEN / options.faster);
    let mut config = format!("[race]\n{settings}\nmax_attempts = {most}\ntimeouts.first_token = \"{first_token}ms\"\n");
    let mut listed = Vec::new();
    for ((name, ..), base_url) in PROVIDERS.iter().zip(upstreams.base_urls()) {
        config.push_str(&format!("[providers.{name}]\nbase_url = \"{base_url}\"\n"));
        listed.push(format!(
            "{{ upstream = \"{name}/simulated\", input_price = {INPUT_PRICE}, output_price = {OUTPUT_PRICE} }}"
        ));
    }
    config.push_str(&format!("[models.load]\nupstreams = [{}]\n", listed.join(", ")));
    config
}

fn describe(options: &Options, hang: &Hang) -> Table {
    let mut table = Table::default();
    let provider = |(name, ttft, tail): (&str, u64, f64)| format!("{name} {ttft} ms, tail {:.1} %", tail * 100.0);
    table.row("providers", PROVIDERS.map(provider).join("; "));
    table.row("", format!("spread of TTFT {JITTER}, {} tokens at {SPEED}/s, seed {}", options.tokens, options.seed));
    if options.faster > 1 {
        table.row("", format!("all of it {} times as fast", options.faster));
    }
    table.row("requests", format!("{}/s for {} s, to all policies at once", options.rate, options.seconds));
    table.row("the hang", format!("{} from {:?} to {:?}", PROVIDERS[0].0, hang.from, hang.until));
    table
}
