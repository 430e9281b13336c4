//! What a gateway does with others on its database: twice a second it reports what it uses of limits and upstreams, and takes over what
//! they reported and recorded since. With a file there are no others, and no such task.
//!
//! No request waits for it. While the database is away, limits go on by the last parts, and budgets by what was known and a small allowance.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::warm_start;
use crate::accounts::budgets;
use crate::server;
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_base::machine;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::Config;
use photofinish_facts::record::recorded::Recorded;
use photofinish_gateway::proxy::Gateway;
use photofinish_history::recorder::Recorder;
use photofinish_history::store::{HeardReplicas, ReplicaReport, ReplicaRow, Replicas, WriteError};
use photofinish_limits::{Heard, LevelName, LimitClock, ReplicaUse, SubjectUse};
use photofinish_routing::health::cooldown::{CooldownPeriod, CooldownTarget};
use photofinish_routing::health::{HealthHint, LiveConfig};
use photofinish_routing::verdict::CooldownReason;
use photofinish_wire::Surface;

/// From one exchange to the next.
const EXCHANGE_EVERY: Duration = Duration::from_millis(500);
/// How long the database may not answer before budgets are held to their allowance.
const AWAY_AFTER: Duration = Duration::from_secs(3);
/// How long it is known which hints of a gateway were taken over, after it was heard last: longer than most cool-downs.
const HINTED_FOR: Duration = Duration::from_secs(600);
/// Gateways whose hints are known: twice as many as are heard at once.
const HINTED_MAX: usize = 200;
/// A clock that differs from the database's by more than this is named in the log, in microseconds.
const CLOCK_US: i64 = 2_000_000;

/// One gateway's part in the exchange.
pub(super) struct ReplicaTask {
    gateway: Arc<Gateway>,
    recorder: Recorder,
    replicas: Replicas,
    name: String,
    /// How far the own clock is ahead, µs.
    clock_us: i64,
    /// The last report.
    reported: HashMap<LevelName, SubjectUse>,
    /// None: nothing was heard yet.
    heard_at: Option<Instant>,
    /// When the others were read last, by the clock of the store. It is reported to the others.
    read_us: Option<i64>,
    is_away: bool,
    /// The last exchange failed.
    has_failed: bool,
    hinted: HeardHints,
    /// The configuration in force, and its digest.
    configuration: (Arc<LiveConfig>, String),
    /// What was logged: gateways whose configuration differs, and whether the clock does.
    differing: BTreeSet<i64>,
    clock_differs: bool,
}

impl ReplicaTask {
    /// None: the store is a file.
    pub fn new(gateway: Arc<Gateway>, recorder: Recorder) -> Option<ReplicaTask> {
        let replicas = Replicas::of(&gateway.live().config.store.address)?;
        let live = gateway.live();
        let digest = digest_of(&live.config);
        Some(ReplicaTask {
            configuration: (live, digest),
            gateway,
            recorder,
            replicas,
            name: machine::host_name(),
            clock_us: 0,
            reported: HashMap::new(),
            heard_at: None,
            read_us: None,
            is_away: false,
            has_failed: false,
            hinted: HeardHints::default(),
            differing: BTreeSet::new(),
            clock_differs: false,
        })
    }

    /// Takes turns until it is cancelled.
    pub async fn run(self, shutdown: Shutdown) {
        let task = take_turns(self, ReplicaTask::turn, &shutdown).await;
        let _ = shutdown.run_blocking(move || locked(&task).replicas.leave()).await;
    }

    /// Exchanges reports once. Blocks.
    pub fn after_a_turn(mut self) -> ReplicaTask {
        self.turn();
        self
    }

    fn turn(&mut self) {
        let report = self.make_report();
        let begin = Instant::now();
        match self.replicas.exchange(&report) {
            Ok(heard) => {
                self.clock_us = heard.clock_us;
                self.hear(heard, begin.elapsed());
            }
            Err(error) => {
                self.has_failed = true;
                // Another gateway may have made a key that is not known here.
                self.gateway.set_keys_away(true);
                if self.heard_at.is_none_or(|heard| heard.elapsed() >= AWAY_AFTER) {
                    self.go_on_alone(&error);
                }
                self.gateway.usage().miss_others(self.clock());
            }
        }
    }

    /// While the database does not answer, limits go on by the last parts, and each budget has its allowance.
    fn go_on_alone(&mut self, error: &WriteError) {
        let allowance = (self.gateway.live().config.store.outage_allowance * 1e6) as u32;
        let now = self.clock();
        self.gateway.usage().begin_outage(allowance, now.wall_us - self.clock_us, now);
        if !std::mem::replace(&mut self.is_away, true) {
            self.hear_load(&[]);
            tracing::warn!(
                %error,
                "the other gateways are not heard: limits go on by the last parts, and budgets by their allowance"
            );
        }
    }

    fn clock(&self) -> LimitClock {
        LimitClock { us: self.gateway.learning().now_us(), wall_us: wall_micros() }
    }

    fn make_report(&mut self) -> ReplicaReport {
        let live = self.gateway.live();
        if !Arc::ptr_eq(&live, &self.configuration.0) {
            let digest = digest_of(&live.config);
            self.configuration = (live, digest);
        }
        self.reported = self.gateway.usage().report().into_iter().collect();
        let limits = self.reported.iter().map(|(level, of)| {
            json!([
                budgets::subject(level),
                of.counted[0],
                of.counted[1],
                of.demand,
                of.streams,
                of.lately[0],
                of.lately[1],
                of.per_minute[0],
                of.per_minute[1]
            ])
        });
        let upstreams = self.gateway.learning().upstreams();
        let running = upstreams.iter().filter_map(|known| {
            let running = known.in_flight_here();
            (running > 0).then(|| (known.name().to_owned(), json!(running)))
        });
        ReplicaReport {
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            clock_us: self.clock_us,
            running: self.gateway.races(),
            draining: self.gateway.is_leaving(),
            configuration: self.configuration.1.clone(),
            uses: json!({
                "heard": self.read_us,
                "limits": limits.collect::<Vec<_>>(),
                "upstreams": running.collect::<serde_json::Map<_, _>>(),
                "hints": self.gateway.hints().iter().map(told_hint).collect::<Vec<_>>(),
            })
            .to_string(),
        }
    }

    /// `took`: the exchange, at the end of which the others can read this gateway's report.
    fn hear(&mut self, heard: HeardReplicas, took: Duration) {
        self.heard_at = Some(Instant::now());
        self.gateway.set_keys_away(false);
        if std::mem::take(&mut self.is_away) {
            tracing::info!("the other gateways are heard again");
        }
        let reported: Vec<(i64, Value)> = heard
            .others
            .iter()
            .map(|other| (other.number, serde_json::from_str(&other.report.uses).unwrap_or_default()))
            .collect();
        if heard.is_older {
            tracing::warn!(
                "the database is older than what this gateway wrote last (a failover or a backup?); the gateway writes its spent amounts again"
            );
        }
        // A failover may have lost budgets that were written after the last exchange.
        if std::mem::take(&mut self.has_failed) || heard.is_older {
            self.gateway.usage().tell_all_budgets();
        }
        let uses = heard.others.iter().zip(&reported);
        let limits = Heard {
            own: heard.number,
            own_use: self.reported.clone(),
            others: uses.map(|(other, (_, reported))| replica_use(other, reported)).collect(),
            budgets: heard.budgets.iter().filter_map(budgets::change).collect(),
            store_us: heard.store_us + took.as_micros() as i64,
        };
        self.read_us = Some(heard.store_us);
        self.gateway.usage().hear(limits, self.clock());
        self.hear_load(&reported);
        self.hear_hints(&reported);
        if !heard.requests.is_empty() {
            let clock_us = self.clock_us;
            let own_time = |request: Recorded| Recorded { started_at: request.started_at + clock_us, ..request };
            let requests = heard.requests.into_iter().map(own_time).inspect(|request| self.recorder.heard(request));
            warm_start::learn_heard(&self.gateway, requests);
        }
        if heard.left_out > 0 {
            tracing::debug!(requests = heard.left_out, "others recorded more than is read");
        }
        self.compare(&heard.others);
    }

    /// What runs at each upstream elsewhere.
    fn hear_load(&self, reported: &[(i64, Value)]) {
        let mut running: HashMap<&str, u64> = HashMap::new();
        for (name, count) in reported.iter().filter_map(|(_, reported)| reported["upstreams"].as_object()).flatten() {
            *running.entry(name).or_default() += count.as_u64().unwrap_or(0);
        }
        for known in self.gateway.learning().upstreams() {
            let elsewhere = running.get(known.name()).copied().unwrap_or(0);
            known.set_elsewhere(u32::try_from(elsewhere).unwrap_or(u32::MAX));
        }
    }

    /// What they found out about upstreams, each once.
    fn hear_hints(&mut self, reported: &[(i64, Value)]) {
        for (id, reported) in reported {
            let hints = reported["hints"].as_array().into_iter().flatten().filter_map(hint);
            self.hinted.new_of(*id, hints.collect()).iter().for_each(|hint| self.gateway.hear_hint(hint));
        }
        self.hinted.forget();
    }

    /// Logs what should be the same everywhere and is not.
    fn compare(&mut self, others: &[ReplicaRow]) {
        for other in others {
            let differs = other.report.configuration != self.configuration.1;
            if differs && self.differing.insert(other.number) {
                tracing::warn!(
                    replica = other.report.name,
                    "another gateway of this database has another configuration: `photofinish replicas` shows which"
                );
            } else if !differs {
                self.differing.remove(&other.number);
            }
        }
        self.differing.retain(|number| others.iter().any(|other| other.number == *number));
        let clock_differs = self.clock_us.abs() > CLOCK_US;
        if clock_differs && !self.clock_differs {
            let seconds = self.clock_us / 1_000_000;
            tracing::warn!(
                seconds,
                "this machine's clock is ahead of the database's (behind, if negative): set it right"
            );
        }
        self.clock_differs = clock_differs;
    }
}

/// Of each other gateway: the last hint that was taken over, and when the gateway was heard last. Kept while it is not heard, so that its old
/// hints are not taken over again when it is back.
#[derive(Default)]
struct HeardHints(HashMap<i64, (u64, Instant)>);

impl HeardHints {
    /// Those that the gateway had not sent before.
    fn new_of(&mut self, id: i64, mut hints: Vec<HealthHint>) -> Vec<HealthHint> {
        let last = self.0.get(&id).map_or(0, |(last, _)| *last);
        hints.retain(|hint| hint.number > last);
        self.0.insert(id, (hints.iter().map(|hint| hint.number).fold(last, u64::max), Instant::now()));
        hints
    }

    /// Those that were not heard for long, and the earliest of too many.
    fn forget(&mut self) {
        self.0.retain(|_, (_, heard)| heard.elapsed() < HINTED_FOR);
        while self.0.len() > HINTED_MAX {
            let earliest = self.0.iter().min_by_key(|(id, (_, heard))| (*heard, **id)).map(|(id, _)| *id);
            earliest.map(|id| self.0.remove(&id));
        }
    }
}

/// Takes turns, each on a thread for blocking work, until it is cancelled. After a turn that panicked, which the log says, the next one
/// follows: else the others would take this gateway for dead.
async fn take_turns<T: Send + 'static>(state: T, turn: fn(&mut T), shutdown: &Shutdown) -> Arc<Mutex<T>> {
    let state = Arc::new(Mutex::new(state));
    let mut ending = std::pin::pin!(shutdown.cancelled());
    while tokio::time::timeout(EXCHANGE_EVERY, &mut ending).await.is_err() {
        let state = state.clone();
        let _ = shutdown.run_blocking(move || turn(&mut locked(&state))).await;
    }
    state
}

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a gateway reported of itself.
fn replica_use(other: &ReplicaRow, reported: &Value) -> ReplicaUse {
    let heard_at = reported["heard"].as_i64().unwrap_or(i64::MIN);
    ReplicaUse { id: other.number, beat_at: other.beat_at, heard_at, subjects: subjects(reported) }
}

/// What a gateway reported of limits.
fn subjects(reported: &Value) -> HashMap<LevelName, SubjectUse> {
    let of = |entry: &Value| {
        let whole = |at: usize| entry[at].as_i64().unwrap_or(0);
        let streams = u32::try_from(whole(4)).unwrap_or(0);
        let demand = entry[3].as_f64().filter(|demand| demand.is_finite()).unwrap_or(0.0).max(0.0);
        let per_minute = [7, 8].map(|at| entry[at].as_u64().unwrap_or(0));
        let reported =
            SubjectUse { counted: [whole(1), whole(2)], lately: [whole(5), whole(6)], per_minute, demand, streams };
        Some((budgets::level(entry[0].as_str()?)?, reported))
    };
    reported["limits"].as_array().into_iter().flatten().filter_map(of).collect()
}

fn told_hint(hint: &HealthHint) -> Value {
    let CooldownTarget { provider, model, surface, key_id, own_key: _, named: _ } = &hint.target;
    let cooldown =
        hint.cooldown.map(|CooldownPeriod { wait, why }| (why, u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)));
    json!([hint.number, provider, model, surface.as_str(), key_id, cooldown])
}

/// The reverse of [`told_hint`]. None: of another version.
fn hint(reported: &Value) -> Option<HealthHint> {
    let surface = Surface::ALL.into_iter().find(|surface| reported[3] == surface.as_str())?;
    let cooldown: Option<(CooldownReason, u64)> = serde_json::from_value(reported[5].clone()).ok()?;
    let target = CooldownTarget {
        provider: reported[1].as_str()?.to_owned(),
        model: reported[2].as_str()?.to_owned(),
        surface,
        key_id: reported[4].as_str().map(str::to_owned),
        own_key: false,
        named: false,
    };
    let cooldown = cooldown.map(|(why, wait)| CooldownPeriod { wait: Duration::from_millis(wait), why });
    Some(HealthHint { number: reported[0].as_u64()?, target, cooldown })
}

/// Twelve hexadecimal digits.
fn digest_of(config: &Config) -> String {
    let shown = server::shared_part(config).to_string();
    digest(&SHA256, shown.as_bytes()).as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::parse;
    use photofinish_transport::upstream::{UpstreamClient, system_resolver};

    /// Of a gateway whose database is never asked.
    fn task() -> ReplicaTask {
        let config = parse("store.url = \"postgres://u@127.0.0.1:1/nothing\"", Path::new("config.toml"), &|_| None);
        let live = LiveConfig::new(config.unwrap(), &HashMap::new()).unwrap();
        let shutdown = Shutdown::new();
        let client = UpstreamClient::with_resolver(shutdown.clone(), system_resolver()).unwrap();
        let recorder = Recorder::without_store();
        let gateway = Gateway::new(live, client, Arc::new(recorder.clone()), shutdown);
        ReplicaTask::new(Arc::new(gateway), recorder).unwrap()
    }

    #[tokio::test]
    async fn a_gateway_tells_when_it_heard_the_others() {
        let mut task = task();
        let heard_at = |report: ReplicaReport| {
            let reported = serde_json::from_str(&report.uses).unwrap();
            replica_use(&ReplicaRow { number: 2, started_at: 0, beat_at: 9, report }, &reported).heard_at
        };
        assert_eq!(heard_at(task.make_report()), i64::MIN, "it has heard nothing yet");
        task.hear(HeardReplicas { store_us: 5, ..HeardReplicas::default() }, Duration::ZERO);
        assert_eq!(heard_at(task.make_report()), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_panics_is_not_the_last() {
        let shutdown = Shutdown::new();
        fn turn((turns, shutdown): &mut (u32, Shutdown)) {
            *turns += 1;
            assert!(*turns != 2, "on purpose");
            if *turns == 4 {
                shutdown.cancel();
            }
        }
        let state = take_turns((0, shutdown.clone()), turn, &shutdown).await;
        assert_eq!(locked(&state).0, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_that_was_missed_for_a_moment_is_not_heard_twice() {
        let target = CooldownTarget {
            provider: "groq".to_owned(),
            model: "m".to_owned(),
            surface: Surface::Chat,
            key_id: None,
            own_key: false,
            named: false,
        };
        let hints = |numbers: &[u64]| -> Vec<HealthHint> {
            numbers
                .iter()
                .map(|number| HealthHint { number: *number, target: target.clone(), cooldown: None })
                .collect()
        };
        let mut heard = HeardHints::default();
        assert_eq!(heard.new_of(1, hints(&[3, 4])), hints(&[3, 4]));
        tokio::time::advance(Duration::from_secs(9)).await;
        heard.forget();
        assert_eq!(heard.new_of(1, hints(&[4, 5])), hints(&[5]), "it was missed for 9 s");
        assert_eq!(heard.new_of(2, hints(&[1])), hints(&[1]), "another one");
        tokio::time::advance(HINTED_FOR).await;
        heard.new_of(2, Vec::new());
        heard.forget();
        assert_eq!(heard.0.keys().collect::<Vec<_>>(), [&2]);
        tokio::time::advance(Duration::from_secs(1)).await;
        (10..=HINTED_MAX as i64 + 10).for_each(|id| drop(heard.new_of(id, Vec::new())));
        heard.forget();
        assert_eq!(heard.0.len(), HINTED_MAX);
        assert!(!heard.0.contains_key(&2) && !heard.0.contains_key(&10), "the earliest");
    }

    #[test]
    fn hints_come_back_as_they_were() {
        let target = CooldownTarget {
            provider: "groq".to_owned(),
            model: "a/b".to_owned(),
            surface: Surface::Responses,
            key_id: Some("k".to_owned()),
            own_key: false,
            named: false,
        };
        let cooldown = CooldownPeriod { wait: Duration::from_millis(1_500), why: CooldownReason::AccountRateLimited };
        for cooldown in [Some(cooldown), None] {
            let reported = HealthHint { number: 7, target: target.clone(), cooldown };
            assert_eq!(hint(&told_hint(&reported)), Some(reported));
        }
        assert_eq!(hint(&json!([1, "groq", "a", "telepathy", null, null])), None);
    }
}
