//! Thirty days of the task on a stopped clock. The store is real, the gateway is not.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use tokio::sync::Notify;
use tokio::time::sleep;

use super::*;
use photofinish_base::clock::{DAY_US, HOUR_US, micros, signed_micros_between};
use photofinish_config::{ProbeWorkload, UpstreamConfig, parse};
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, RaceRecord, RaceSource, Record, sample};
use photofinish_history::store::{Store, StoreReader};
use photofinish_lab::probe::{ProbeResult, last_moments};

/// Some day in 2026, not at the border of a slot.
const START_US: i64 = 1_790_000_000_000_000;
const SEED: u64 = 7;
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
/// How long one request of a probe takes.
const EXCHANGE: Duration = Duration::from_secs(20);

/// Slots that were measured, each with how often.
type SlotCounts = BTreeMap<(ProbeJob, i64), usize>;

/// A clock that can be set, a configuration that can be reloaded, and probes that are only rows.
struct FakeHost {
    began: Instant,
    /// So far the wall clock is set ahead.
    ahead_us: AtomicI64,
    live: Mutex<Arc<LiveConfig>>,
    path: PathBuf,
    store: Store,
    rows: AtomicI64,
    /// A measured request has begun.
    measuring: Notify,
    /// Clients use `b/m` all the time.
    is_always_busy: AtomicBool,
    given_up: AtomicI64,
}

impl FakeHost {
    fn new(path: PathBuf) -> FakeHost {
        FakeHost {
            began: Instant::now(),
            ahead_us: AtomicI64::new(0),
            live: Mutex::new(live("['a/m', 'b/m']")),
            store: Store::open(&path).unwrap(),
            path,
            rows: AtomicI64::new(0),
            measuring: Notify::new(),
            is_always_busy: AtomicBool::new(false),
            given_up: AtomicI64::new(0),
        }
    }
}

fn live(upstreams: &str) -> Arc<LiveConfig> {
    let providers = ["a", "b", "c"].map(|name| format!("providers.{name}.base_url = 'http://127.0.0.1:9/v1'\n"));
    let text = format!(
        "{}models.m.upstreams = {upstreams}
        probes = {{ workloads = ['1k', '10k', 'parallel', '100k'], max_tokens = 1 }}",
        providers.concat()
    );
    let config = parse(&text, Path::new("config.toml"), &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
    Arc::new(LiveConfig::new(config, &HashMap::new()).unwrap())
}

/// Writes the rows of one request when it ends, or is cut off.
struct Exchange<'h> {
    host: &'h FakeHost,
    race: RaceRecord,
    attempt: AttemptRecord,
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let (race, attempt) = (self.race.clone(), self.attempt.clone());
        self.host.store.write(&[Record::Race(Box::new(race)), Record::Attempt(Box::new(attempt))]).unwrap();
    }
}

impl ProbeHost for FakeHost {
    fn wall_us(&self) -> i64 {
        START_US + micros(self.began.elapsed()) + self.ahead_us.load(Relaxed)
    }

    fn live(&self) -> Arc<LiveConfig> {
        self.live.lock().unwrap().clone()
    }

    async fn recall(&self, settings: &ProbeSettings) -> Result<BTreeMap<ProbeJob, i64>, String> {
        let history = StoreReader::open(&self.path).map_err(|error| error.to_string())?;
        last_moments(&history, settings, self.wall_us()).map_err(|error| error.to_string())
    }

    /// Half an hour in every five.
    fn is_busy(&self, upstream: &UpstreamConfig) -> bool {
        let is_now = self.wall_us().rem_euclid(5 * HOUR_US) < HOUR_US / 2;
        upstream.name() == "b/m" && (is_now || self.is_always_busy.load(Relaxed))
    }

    fn given_up(&self, probes: u64) {
        self.given_up.fetch_add(probes.cast_signed(), Relaxed);
    }

    async fn probe(
        &self,
        model: &str,
        upstream: &UpstreamConfig,
        workload: &ProbeWorkload,
        _: u64,
        scheduled: Option<Instant>,
    ) -> ProbeResult {
        for (workload, scheduled) in [("ping", None), (workload.name.as_str(), scheduled)] {
            let (started_at, number) = (self.wall_us(), self.rows.fetch_add(1, Relaxed));
            let ms = started_at / 1_000;
            let race = RaceRecord {
                race_id: format!("{:08x}-{:04x}-7000-8000-{number:012x}", ms >> 16, ms & 0xffff),
                started_at,
                model: model.to_owned(),
                workload: Some(workload.to_owned()),
                scheduled_us: scheduled.map(|at| signed_micros_between(Instant::now(), at)),
                ..sample::race_of(RaceSource::Probe, 0)
            };
            let attempt = AttemptRecord {
                race_id: race.race_id.clone(),
                provider: upstream.provider.name.clone(),
                model_sent: upstream.model.clone(),
                outcome: AttemptOutcome::ClientGone,
                ..sample::won(0)
            };
            let mut exchange = Exchange { host: self, race, attempt };
            if scheduled.is_some() {
                self.measuring.notify_waiters();
            }
            sleep(EXCHANGE).await;
            exchange.attempt.outcome = AttemptOutcome::Won;
        }
        ProbeResult {
            model: model.to_owned(),
            upstream: upstream.name(),
            workload: workload.name.clone(),
            outcome: ProbeOutcome::Answered,
            why: None,
            requests: 1,
            ttft_ms: None,
            tok_s: None,
            end_to_end_ms: None,
            input_tokens: None,
            output_tokens: None,
            cost: Cost::ZERO,
        }
    }
}

/// Runs the task anew each time: for hours, or until it is cut off in the middle of a probe. Once the gateway is off for a while.
async fn restarts(host: &FakeHost) {
    let until_cut_off = async || {
        host.measuring.notified().await;
        sleep(EXCHANGE / 2).await;
    };
    for restart in 0..32 {
        tokio::select! {
            () = run_all(host, SEED) => {}
            () = sleep(11 * 60 * MINUTE) => {}
        }
        tokio::select! {
            () = run_all(host, SEED) => {}
            () = until_cut_off() => {}
        }
        if restart == 15 {
            sleep(150 * MINUTE).await;
        }
        tokio::select! {
            () = run_all(host, SEED) => {}
            () = sleep(11 * 60 * MINUTE) => {}
        }
    }
}

/// Sets the clock forward by 170 minutes, back by 270, and forward by 100.
async fn jumps(host: &FakeHost) {
    for (days, ahead_minutes) in [(4, 170), (5, -100), (9, 0)] {
        sleep(days * DAY + 300 * MINUTE).await;
        host.ahead_us.store(ahead_minutes * HOUR_US / 60, Relaxed);
    }
}

/// A reload that adds an upstream; returns when. No restart comes between it and the first probes of the upstream: until then the
/// rows do not know of it.
async fn reload(host: &FakeHost) -> i64 {
    sleep(12 * DAY + 90 * MINUTE).await;
    *host.live.lock().unwrap() = live("['a/m', 'b/m', 'c/m']");
    host.wall_us()
}

fn measured(path: &Path) -> SlotCounts {
    let mut counts = SlotCounts::new();
    let count = |probe: &photofinish_history::store::RecordedProbe| {
        let outcome = probe.attempt().unwrap().row.outcome;
        let Some(scheduled_us) = probe.race.scheduled_us.filter(|_| outcome == AttemptOutcome::Won) else { return };
        let workload = probe.race.workload.clone().unwrap();
        let every_us = match workload.as_str() {
            "100k" => 7 * DAY_US,
            "parallel" => DAY_US,
            _ => 3 * HOUR_US,
        };
        let slot = (probe.race.started_at + scheduled_us).div_euclid(every_us);
        let job = ProbeJob { model: probe.race.model.clone(), workload, upstream: probe.upstream() };
        *counts.entry((job, slot)).or_default() += 1;
    };
    StoreReader::open(path).unwrap().each_probe((0, None), count).unwrap();
    counts
}

/// The slots whose moments lie between, each once. `c/m` was added later.
fn wanted(host: &FakeHost, added_us: i64, until_us: i64) -> SlotCounts {
    let live = host.live();
    let mut schedule = ProbeSchedule::new(SEED);
    schedule.configure(jobs(&live.config, live.config.probes.as_ref().unwrap()), START_US);
    let plan = schedule.plan(START_US, Duration::from_micros((until_us - START_US).cast_unsigned())).into_iter();
    let is_wanted = |due: &DueProbe| due.job.upstream != "c/m" || due.moment_us > added_us;
    plan.filter(is_wanted).map(|due| ((due.job, due.slot), 1)).collect()
}

/// The last hour is left for what is late.
#[tokio::test(start_paused = true)]
async fn each_slot_of_thirty_days_is_probed_once() {
    let folder = tempfile::tempdir().unwrap();
    let host = FakeHost::new(folder.path().join("history.db"));
    let ((), (), added_us) = tokio::join!(restarts(&host), jumps(&host), reload(&host));
    assert!(host.began.elapsed() >= 30 * DAY, "{:?}", host.began.elapsed());

    let (measured, now_us) = (measured(&host.path), host.wall_us());
    let wanted_now = wanted(&host, added_us, now_us);
    let wrong: Vec<_> = measured.iter().filter(|(slot, count)| wanted_now.get(slot) != Some(*count)).collect();
    assert!(wrong.is_empty(), "twice, or never wanted: {wrong:#?}");
    let wanted = wanted(&host, added_us, now_us - HOUR_US);
    let lost: Vec<_> = wanted.keys().filter(|slot| !measured.contains_key(slot)).collect();
    assert!(lost.is_empty(), "lost: {lost:#?}");
    // 8 a day of two workloads, one a day, one a week, at two upstreams and for 18 days at a third.
    assert!((1_250..=1_400).contains(&wanted.len()), "{}", wanted.len());
    let rows = usize::try_from(host.rows.load(Relaxed)).unwrap();
    let again = rows - 2 * measured.len();
    assert!((64..=100).contains(&again), "32 probes are cut off, each has a ping: {again} rows more");
}

/// Of the slots of a day that begin in the day, those of the last two stay open.
#[tokio::test(start_paused = true)]
async fn probes_that_clients_keep_from_being_sent_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let host = FakeHost::new(folder.path().join("history.db"));
    host.is_always_busy.store(true, Relaxed);
    tokio::select! {
        () = run_all(&host, SEED) => {}
        () = sleep(DAY) => {}
    }
    let is_of_b = |job: &ProbeJob| job.upstream == "b/m";
    assert!(measured(&host.path).keys().all(|(job, _)| !is_of_b(job)));
    let wanted = wanted(&host, 0, host.wall_us());
    let of = |workload: &str| wanted.keys().filter(|(job, _)| is_of_b(job) && job.workload == workload).count();
    // Two slots of each workload may still be probed.
    let over = ["1k", "10k", "parallel", "100k"].map(|workload| of(workload).saturating_sub(2)).iter().sum::<usize>();
    assert!(over >= 8, "{over}");
    assert_eq!(usize::try_from(host.given_up.load(Relaxed)).unwrap(), over);
}
