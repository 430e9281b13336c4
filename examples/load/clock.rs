//! Compares recorded times with the timestamps of the server that wrote the tokens: the errors of TTFT and tokens per
//! second.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use photofinish_lab::simulate::FinishedRequest;

use crate::client::{Connection, body};
use crate::figures::{Sample, Table};
use crate::gateway::{Gateway, Won};
use crate::upstreams::Upstreams;

/// Unmeasured streams of each worker at the beginning: they open the connections.
const WARM_UP: u32 = 1;

#[derive(Args, Clone, Copy, Debug)]
pub struct Options {
    /// Streams to measure.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=3_500))]
    streams: u32,
    /// Concurrent streams.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=250))]
    concurrent: u32,
    /// Tokens of an answer.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(16..=10_000))]
    tokens: u32,
    /// Tokens per second of an answer.
    #[arg(long, default_value_t = 50.0)]
    rate: f64,
    /// TTFT of the upstream, in milliseconds.
    #[arg(long, default_value_t = 200)]
    ttft: u64,
}

/// One measured stream.
struct Seen {
    user: String,
    race: String,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let ttft = Duration::from_millis(options.ttft);
    let upstreams = Upstreams::start(&[ttft], options.rate).await?;
    let gateway = Gateway::start(&upstreams.base_urls())?;
    let taken = Arc::new(AtomicU32::new(0));
    let period = ttft + Duration::from_secs_f64(f64::from(options.tokens) / options.rate);
    let workers: Vec<_> = (0..options.concurrent)
        .map(|number| {
            let start_after = period * number / options.concurrent;
            upstreams.shutdown.spawn(work(gateway.addr, number, start_after, options, taken.clone()))
        })
        .collect();
    let mut seen = Vec::new();
    for worker in workers {
        seen.extend(worker.await??);
    }
    upstreams.quiet().await?;
    let rows = gateway.stop().await?;

    let mut table = Table::default();
    table.row("upstream", format!("TTFT {ttft:?} exact, {} tokens at {}/s", options.tokens, options.rate));
    table.row("streams", format!("{} at {} concurrent", seen.len(), options.concurrent));
    report(&mut table, &upstreams, &rows.won, &seen, options.tokens)?;
    table.row("rows", rows.line());
    table.print("clock")?;
    Ok(())
}

/// Runs streams one after the other over one connection.
async fn work(
    gateway: SocketAddr,
    number: u32,
    start_after: Duration,
    options: Options,
    taken: Arc<AtomicU32>,
) -> anyhow::Result<Vec<Seen>> {
    tokio::time::sleep(start_after).await;
    let mut connection = Connection::open(gateway).await?;
    let (mut seen, mut warm) = (Vec::new(), 0);
    while warm < WARM_UP || taken.fetch_add(1, Ordering::Relaxed) < options.streams {
        let user = format!("clock-{number}-{warm}-{}", seen.len());
        connection.first_token(&body(&user, options.tokens)).await?;
        let race = connection.race()?;
        connection.rest(|_| {}).await?;
        if warm < WARM_UP {
            warm += 1;
        } else {
            seen.push(Seen { user, race });
        }
    }
    Ok(seen)
}

/// Joins the rows with the upstream's timestamps.
fn report(
    table: &mut Table,
    upstreams: &Upstreams,
    won: &HashMap<String, Won>,
    seen: &[Seen],
    tokens: u32,
) -> anyhow::Result<()> {
    let ended = upstreams.ended();
    let by_user: HashMap<String, FinishedRequest> =
        ended.filter_map(|ended| Some((ended.user.clone()?, ended))).collect();
    let (mut ttft, mut tok_s) = (Sample::default(), Sample::default());
    for Seen { user, race } in seen {
        let row = won.get(race).context("a race without its row")?;
        let ended = by_user.get(user).context("the upstream did not see a request")?;
        let (first, last) = ended.first_token.zip(ended.last_token).context("the upstream sent no token")?;
        ttft.add(row.ttft.abs_diff(first - ended.started));
        let sent = f64::from(tokens - 1) / (last - first).as_secs_f64();
        tok_s.add_value((row.tok_s.context("a row without tok/s")? / sent - 1.0).abs() * 100.0);
    }
    table.row("TTFT: recorded - written by the upstream", ttft.line());
    table.row("tok/s: recorded / written by the upstream", tok_s.line_in("%"));
    Ok(())
}
