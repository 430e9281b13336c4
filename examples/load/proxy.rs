//! One upstream that sends as fast as it is read, with and without the gateway in between: the cost of a relayed token.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use photofinish_base::clock::Instant;
use photofinish_base::shutdown::Shutdown;

use crate::client::{Connection, body};
use crate::figures::Table;
use crate::gateway::{Gateway, own_cpu};
use crate::upstreams::Upstreams;

#[derive(Args, Clone, Copy, Debug)]
pub struct Options {
    /// Requests for each of the two cases.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: u32,
    /// Concurrent requests.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrent: u32,
    /// Tokens of an answer.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    tokens: u32,
    /// Tokens per second of an answer; by default all at once.
    #[arg(long, default_value_t = 1e9)]
    rate: f64,
    /// Seconds to wait before the load, to attach a profiler to the gateway.
    #[arg(long, default_value_t = 0)]
    wait: u64,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let upstreams = Upstreams::start(&[Duration::from_millis(1)], options.rate).await?;
    let gateway = Gateway::start(&upstreams.base_urls())?;
    let mut table = Table::default();
    table.row("answers", format!("{} tokens at {:e}/s, TTFT 1 ms", options.tokens, options.rate));
    table.row("requests", format!("{} at {} concurrent, each way", options.requests, options.concurrent));
    table.row("gateway: process", gateway.pid().to_string());
    tokio::time::sleep(Duration::from_secs(options.wait)).await;

    let micros = |cpu: Duration, count: u64| cpu.as_secs_f64() * 1e6 / count as f64;
    let mut rates = Vec::new();
    let direct = upstreams.addrs();
    for (name, addr) in direct.iter().map(|addr| ("no gateway", *addr)).chain([("gateway", gateway.addr)]) {
        let (gateway_cpu, own, began) = (gateway.cpu()?, own_cpu()?, Instant::now());
        let tokens = drive(&upstreams.shutdown, addr, options).await?;
        let took = began.elapsed().as_secs_f64();
        let (gateway_cpu, own) = (gateway.cpu()?.saturating_sub(gateway_cpu), own_cpu()?.saturating_sub(own));
        let rate = tokens as f64 / took;
        rates.push(rate);
        let requests = f64::from(options.requests) / took;
        table.row(format!("{name}: throughput"), format!("{rate:.0} tokens/s, {requests:.0} requests/s"));
        table.row(format!("{name}: CPU a token, upstream and client"), format!("{:.2} µs", micros(own, tokens)));
        if name == "gateway" {
            let per_request = micros(gateway_cpu, u64::from(options.requests));
            table.row("gateway: CPU a token, gateway", format!("{:.2} µs", micros(gateway_cpu, tokens)));
            table.row("gateway: CPU a request, gateway", format!("{per_request:.0} µs"));
        }
    }
    if let [direct, through] = rates[..] {
        table.row("throughput, gateway / no gateway", format!("{:.2}", through / direct));
    }
    table.row("rows", gateway.stop().await?.line());
    table.print("proxy")?;
    Ok(())
}

/// Returns the number of received tokens.
async fn drive(shutdown: &Shutdown, addr: SocketAddr, options: Options) -> anyhow::Result<u64> {
    let (taken, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let workers: Vec<_> = (0..options.concurrent)
        .map(|_| {
            let (taken, seen) = (taken.clone(), seen.clone());
            shutdown.spawn(async move {
                let mut connection = Connection::open(addr).await?;
                while taken.fetch_add(1, Ordering::Relaxed) < u64::from(options.requests) {
                    connection.first_token(&body("proxy", options.tokens)).await?;
                    connection
                        .rest(|tokens| {
                            seen.fetch_add(tokens, Ordering::Relaxed);
                        })
                        .await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    Ok(seen.load(Ordering::Relaxed))
}
