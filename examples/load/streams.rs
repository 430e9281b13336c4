//! Many slow streams at once: memory per stream, CPU time per token.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use photofinish_base::clock::Instant;

use crate::client::{Connection, body};
use crate::figures::{Sample, Table};
use crate::gateway::{Gateway, own_cpu};
use crate::upstreams::Upstreams;

#[derive(Args, Clone, Copy, Debug)]
pub struct Options {
    /// Concurrent streams.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=4_000))]
    streams: u32,
    /// Tokens per second of each stream.
    #[arg(long, default_value_t = 20.0)]
    rate: f64,
    /// Tokens of each stream.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    tokens: u32,
    /// Upstreams that race for each stream.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=4))]
    upstreams: u32,
    /// Milliseconds over which the streams start.
    #[arg(long, default_value_t = 3_000)]
    ramp: u64,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let ttfts: Vec<Duration> = (1..=options.upstreams).map(|factor| Duration::from_millis(30) * factor).collect();
    let upstreams = Upstreams::start(&ttfts, options.rate).await?;
    let gateway = Gateway::start(&upstreams.base_urls())?;
    let mut warm = Connection::open(gateway.addr).await?;
    warm.first_token(&body("warm", 2)).await?;
    warm.rest(|_| {}).await?;
    drop(warm);

    let (rss_before, cpu_before, own_before) = (gateway.rss_kib()?, gateway.cpu()?, own_cpu()?);
    let tokens = Arc::new(AtomicU64::new(0));
    let ramp = Duration::from_millis(options.ramp);
    let clients: Vec<_> = (0..options.streams)
        .map(|number| {
            let start_after = ramp * number / options.streams;
            upstreams.shutdown.spawn(stream(gateway.addr, number, options.tokens, start_after, tokens.clone()))
        })
        .collect();

    // The plateau: from the start of the last stream to the end of the first.
    let length = Duration::from_secs_f64(f64::from(options.tokens) / options.rate);
    let margin = Duration::from_millis(500);
    tokio::time::sleep(ramp + margin).await;
    let (began, plateau_cpu, plateau_tokens) = (Instant::now(), gateway.cpu()?, tokens.load(Ordering::Relaxed));
    tokio::time::sleep(length.saturating_sub(ramp + 2 * margin)).await;
    let plateau_took = began.elapsed();
    let plateau_cpu = gateway.cpu()?.saturating_sub(plateau_cpu);
    let plateau_tokens = tokens.load(Ordering::Relaxed) - plateau_tokens;
    let rss_plateau = gateway.rss_kib()?;

    let mut ttfts_seen = Sample::default();
    for client in clients {
        ttfts_seen.add(client.await??);
    }
    upstreams.quiet().await?;
    let (cpu, own, rss_after) =
        (gateway.cpu()?.saturating_sub(cpu_before), own_cpu()?.saturating_sub(own_before), gateway.rss_kib()?);
    let all = tokens.load(Ordering::Relaxed);
    let rows = gateway.stop().await?;

    let micros = |cpu: Duration, tokens: u64| cpu.as_secs_f64() * 1e6 / tokens as f64;
    let mut table = Table::default();
    table.row("streams", format!("{} of {} tokens at {}/s", options.streams, options.tokens, options.rate));
    table.row("upstreams", format!("{} racing for each, TTFT {ttfts:?}; started over {ramp:?}", options.upstreams));
    table.row("client TTFT", ttfts_seen.line());
    table.row("memory before / with all streams / after", format!("{rss_before} / {rss_plateau} / {rss_after} KiB"));
    let per_stream = rss_plateau.saturating_sub(rss_before) as f64 / f64::from(options.streams);
    table.row("memory of a stream", format!("{per_stream:.1} KiB"));
    let share = plateau_cpu.as_secs_f64() / plateau_took.as_secs_f64() * 100.0;
    table.row(
        "all streams running",
        format!(
            "{:.0} tokens/s, gateway {share:.0} % of a core, {:.1} µs CPU a token",
            plateau_tokens as f64 / plateau_took.as_secs_f64(),
            micros(plateau_cpu, plateau_tokens)
        ),
    );
    table.row("whole run", format!("{all} tokens, gateway {cpu:?} CPU, {:.1} µs CPU a token", micros(cpu, all)));
    table.row("upstreams and clients", format!("{own:?} CPU"));
    table.row("rows", rows.line());
    table.print("streams")?;
    Ok(())
}

async fn stream(
    gateway: std::net::SocketAddr,
    number: u32,
    tokens: u32,
    start_after: Duration,
    seen: Arc<AtomicU64>,
) -> anyhow::Result<Duration> {
    tokio::time::sleep(start_after).await;
    let mut connection = Connection::open(gateway).await?;
    let sent = Instant::now();
    let first_token = connection.first_token(&body(&format!("stream-{number}"), tokens)).await?;
    connection
        .rest(|tokens| {
            seen.fetch_add(tokens, Ordering::Relaxed);
        })
        .await?;
    Ok(first_token - sent)
}
