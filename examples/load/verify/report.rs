//! How long `photofinish report` takes for a month of probes of fifty upstreams, and how large its page is. The rows are made.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use photofinish_facts::record::{
    AttemptOutcome, AttemptRecord, RaceOutcome, RaceRecord, RaceSource, Record, StartReason, TokenSource,
};
use photofinish_history::store::Store;

use crate::figures::{Sample, Table};
use crate::gateway::program;

const DAYS: i64 = 30;
const A_DAY: i64 = 8;
const UPSTREAMS: i64 = 50;
/// Name, and tokens of an answer.
const WORKLOADS: [(&str, i64); 2] = [("1k", 1_000), ("10k", 1_500)];
const SLOT_US: i64 = 3 * 3_600 * 1_000_000;

pub fn run(trials: u32) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let rows = month(&dir.path().join("history.db"))?;
    std::fs::write(dir.path().join("config.toml"), "store.url = \"sqlite:history.db\"\n")?;
    let (mut sample, mut bytes) = (Sample::default(), 0);
    for _ in 0..trials {
        let took;
        (took, bytes) = report(dir.path())?;
        sample.add(took);
    }
    let mut table = Table::default();
    table.row("rows of races", rows.to_string());
    table.row("report --since 30d --html", sample.line());
    table.row("its page", format!("{} KB", bytes / 1_000));
    Ok(table
        .print(&format!("{DAYS} days, {UPSTREAMS} upstreams, {A_DAY} times a day, 1k and 10k, each with its ping"))?)
}

/// The whole command, from its start to its end.
fn report(dir: &Path) -> anyhow::Result<(Duration, usize)> {
    let mut command = Command::new(program()?);
    command.args(["report", "--since", "30d", "--html"]).current_dir(dir).env_remove("PHOTOFINISH_CONFIG");
    let began = Instant::now();
    let ended = command.output()?;
    let took = began.elapsed();
    ensure!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
    let last = format!("provider-{}/m", UPSTREAMS - 1);
    ensure!(String::from_utf8_lossy(&ended.stdout).contains(&last), "the page does not have {last}");
    Ok((took, ended.stdout.len()))
}

/// Writes the rows; returns how many races.
fn month(path: &Path) -> anyhow::Result<u64> {
    let store = Store::open(path)?;
    let now_us = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?;
    let mut races = 0;
    for slot in 0..DAYS * A_DAY {
        let began_us = now_us - DAYS * A_DAY * SLOT_US + slot * SLOT_US + SLOT_US / 2;
        let mut records = Vec::new();
        for number in 0..UPSTREAMS * 2 * WORKLOADS.len() as i64 {
            let (upstream, workload) = (number / 4, WORKLOADS[usize::from(number % 4 > 1)]);
            let (name, tokens) = if number % 2 == 0 { ("ping", 16) } else { workload };
            // A minute for each upstream.
            let at_us = began_us + number * 15_000_000;
            let ttft_us = 50_000 + (slot * 37 + number * 91) % 400 * 1_000;
            records.extend(probe((at_us, number), upstream, (name, tokens), ttft_us));
            races += 1;
        }
        store.write(&records)?;
    }
    store.close();
    Ok(races)
}

fn probe((at_us, number): (i64, i64), upstream: i64, (workload, tokens): (&str, i64), ttft_us: i64) -> [Record; 2] {
    let ms = at_us / 1_000;
    let race_id = format!("{:08x}-{:04x}-7000-8000-{number:012x}", ms >> 16, ms & 0xffff);
    let names = (format!("provider-{upstream}"), "m".to_owned());
    let last_us = ttft_us + tokens * 20_000;
    let attempt = AttemptRecord {
        outcome: AttemptOutcome::Won,
        first_token_us: Some(ttft_us),
        last_token_us: Some(last_us),
        payload_events: tokens,
        chars_total: tokens * 5,
        chars_first: 5,
        input_tokens: Some(1_000),
        output_tokens: Some(tokens),
        tok_src: TokenSource::Usage,
        cost_usd_min: Some(0.001),
        cost_usd_max: Some(0.001),
        ..AttemptRecord::new(race_id.clone(), 0, names, StartReason::First)
    };
    let race = RaceRecord {
        race_id,
        started_at: at_us,
        model: format!("model-{}", upstream % 5),
        max_tokens: Some(tokens),
        attempts: 1,
        winner: Some(0),
        done_us: Some(last_us),
        outcome: RaceOutcome::Ok,
        http_status: Some(200),
        source: RaceSource::Probe,
        workload: Some(workload.to_owned()),
        scheduled_us: Some(-1_000).filter(|_| workload != "ping"),
        ..RaceRecord::default()
    };
    [Record::Attempt(Box::new(attempt)), Record::Race(Box::new(race))]
}
