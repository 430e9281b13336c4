//! Races: the time that the gateway adds to the first token, and how soon the losers' servers notice that they lost.
//! The client also runs the same races itself, without a gateway, which shows the share of the machine.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use futures_util::FutureExt;
use futures_util::future::select_ok;
use photofinish_base::clock::Instant;
use photofinish_lab::simulate::{FinishedRequest, RequestOutcome};

use crate::client::{Connection, body};
use crate::figures::{Sample, Table};
use crate::gateway::Gateway;
use crate::upstreams::Upstreams;

/// Unmeasured races of each worker at the beginning.
const WARM_UP: usize = 2;

#[derive(Args, Clone, Copy, Debug)]
pub struct Options {
    /// Races to measure.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=3_500))]
    pub races: u32,
    /// Concurrent races.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=250))]
    pub concurrent: u32,
    /// Tokens of an answer.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub tokens: u32,
    /// Tokens per second of an answer.
    #[arg(long, default_value_t = 100.0)]
    pub rate: f64,
    /// TTFT of the fastest of three upstreams, in milliseconds; the others take two and three times as long.
    #[arg(long, default_value_t = 30)]
    pub ttft: u64,
}

/// One race as its client saw it.
struct Seen {
    user: String,
    ttft: Duration,
}

impl Options {
    /// The TTFT of the upstreams.
    pub fn ttfts(&self) -> [Duration; 3] {
        [1, 2, 3].map(|factor| Duration::from_millis(self.ttft * factor))
    }
}

/// What the races showed.
pub struct Raced {
    /// Client TTFT − fastest upstream's.
    pub added: Sample,
    /// Winner's token → loser sees close.
    pub stopped: Sample,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let ttfts = options.ttfts();
    let mut table = Table::default();
    table.row("upstreams", format!("TTFT {ttfts:?} exact, {} tokens at {}/s", options.tokens, options.rate));
    table.row("races", format!("{} at {} concurrent, each way", options.races, options.concurrent));

    let upstreams = Upstreams::start(&ttfts, options.rate).await?;
    let gateway = Gateway::start(&upstreams.base_urls())?;
    let cpu = gateway.cpu()?;
    let began = Instant::now();
    let raced = through(&upstreams, gateway.addr, options).await?;
    let (took, cpu) = (began.elapsed(), gateway.cpu()?.saturating_sub(cpu));
    raced.report(&mut table, "gateway");
    let rows = gateway.stop().await?;
    let [p50, p99] = rows.overhead_ms.map(|ms| ms.unwrap_or(f64::NAN));
    table
        .row("gateway: its own count of its share", format!("p50 {p50:.3}  p99 {p99:.3} ms  (race_speed.overhead_ms)"));
    let races = rows.races as f64;
    let per_race = cpu.as_secs_f64() * 1e6 / races;
    table.row("gateway: load", format!("{:.0} races/s, {per_race:.0} µs CPU a race", races / took.as_secs_f64()));
    table.row("gateway: rows", rows.line());

    let upstreams = Upstreams::start(&ttfts, options.rate).await?;
    directly(&upstreams, options).await?.report(&mut table, "no gateway");
    table.print("race")?;
    Ok(())
}

/// Races through a gateway.
pub async fn through(upstreams: &Upstreams, gateway: SocketAddr, options: Options) -> anyhow::Result<Raced> {
    let seen = drive(upstreams, options, move |kept, user| {
        async move { raced(kept, gateway, user, options.tokens).await }.boxed()
    })
    .await?;
    joined(upstreams, seen).await
}

/// The same races by the client itself.
pub async fn directly(upstreams: &Upstreams, options: Options) -> anyhow::Result<Raced> {
    let addrs: Arc<[_]> = upstreams.addrs().into();
    let seen = drive(upstreams, options, move |kept, user| {
        let addrs = addrs.clone();
        async move { raced_directly(kept, &addrs, user, options.tokens).await }.boxed()
    })
    .await?;
    joined(upstreams, seen).await
}

impl Raced {
    fn report(self, table: &mut Table, name: &str) {
        table.row(format!("{name}: client TTFT - fastest upstream's"), self.added.line());
        table.row(format!("{name}: winner's token -> loser sees close"), self.stopped.line());
    }
}

/// The connections of a worker, by upstream.
type Kept = Vec<Option<Connection>>;
type Running = futures_util::future::BoxFuture<'static, anyhow::Result<(Kept, Duration)>>;

/// Runs the races with this many workers. Their starts are spread over the time of one race, so that they do not all
/// send at the same instant.
async fn drive(
    upstreams: &Upstreams,
    options: Options,
    race: impl Fn(Kept, String) -> Running + Clone + Send + 'static,
) -> anyhow::Result<Vec<Seen>> {
    let period =
        Duration::from_millis(options.ttft) + Duration::from_secs_f64(f64::from(options.tokens) / options.rate);
    let taken = Arc::new(AtomicUsize::new(0));
    let workers = (0..options.concurrent).map(|number| {
        let (race, taken) = (race.clone(), taken.clone());
        upstreams.shutdown.spawn(async move {
            tokio::time::sleep(period * number / options.concurrent).await;
            let (mut kept, mut seen): (Kept, _) = (vec![None, None, None], Vec::new());
            for warm_up in 0..WARM_UP {
                (kept, _) = race(kept, format!("warm-{number}-{warm_up}")).await?;
            }
            while taken.fetch_add(1, Ordering::Relaxed) < options.races as usize {
                let user = format!("race-{number}-{}", seen.len());
                let (back, ttft) = race(kept, user.clone()).await?;
                kept = back;
                seen.push(Seen { user, ttft });
            }
            anyhow::Ok(seen)
        })
    });
    let workers: Vec<_> = workers.collect();
    let mut seen = Vec::new();
    for worker in workers {
        seen.extend(worker.await??);
    }
    Ok(seen)
}

/// One race through the gateway.
async fn raced(mut kept: Kept, gateway: SocketAddr, user: String, tokens: u32) -> anyhow::Result<(Kept, Duration)> {
    let slot = kept.first_mut().context("no slot")?;
    let sent = Instant::now();
    let mut connection = match slot.take() {
        Some(connection) => connection,
        None => Connection::open(gateway).await?,
    };
    let first_token = connection.first_token(&body(&user, tokens)).await?;
    connection.rest(|_| {}).await?;
    *slot = Some(connection);
    Ok((kept, first_token - sent))
}

/// The same race by the client: three requests, the first token wins, the other two connections are dropped.
async fn raced_directly(
    mut kept: Kept,
    addrs: &[SocketAddr],
    user: String,
    tokens: u32,
) -> anyhow::Result<(Kept, Duration)> {
    let sent = Instant::now();
    let body = body(&user, tokens);
    let attempts = addrs.iter().enumerate().map(|(number, addr)| {
        let idle = kept.get_mut(number).and_then(Option::take);
        let body = &body;
        async move {
            let mut connection = match idle {
                Some(connection) => connection,
                None => Connection::open(*addr).await?,
            };
            let first_token = connection.first_token(body).await?;
            anyhow::Ok((number, connection, first_token))
        }
        .boxed()
    });
    let ((number, mut connection, first_token), losers) = select_ok(attempts).await?;
    drop(losers);
    connection.rest(|_| {}).await?;
    if let Some(slot) = kept.get_mut(number) {
        *slot = Some(connection);
    }
    Ok((kept, first_token - sent))
}

/// Joins the results of the clients with the timestamps of the upstreams.
async fn joined(upstreams: &Upstreams, seen: Vec<Seen>) -> anyhow::Result<Raced> {
    upstreams.quiet().await?;
    let mut by_user: HashMap<String, Vec<FinishedRequest>> = HashMap::new();
    for ended in upstreams.ended() {
        by_user.entry(ended.user.clone().unwrap_or_default()).or_default().push(ended);
    }
    let (mut added, mut stopped) = (Sample::default(), Sample::default());
    for race in seen {
        let attempts = by_user.get(&race.user).context("no upstream saw a race")?;
        let ttft = |ended: &FinishedRequest| ended.first_token.map(|first_token| first_token - ended.started);
        let fastest = attempts.iter().filter_map(ttft).min().context("no upstream sent a token")?;
        added.add(race.ttft.saturating_sub(fastest));
        let winner =
            attempts.iter().find(|ended| ended.end == RequestOutcome::Completed).and_then(|ended| ended.first_token);
        let winner = winner.context("no upstream finished")?;
        for loser in attempts.iter().filter(|ended| ended.end == RequestOutcome::Cancelled) {
            stopped.add(loser.ended.saturating_duration_since(winner));
        }
    }
    Ok(Raced { added, stopped })
}
