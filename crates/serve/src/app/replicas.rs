//! What a gateway does with others on the same database: twice a second it tells what it uses of limits and upstreams, and takes over what
//! they told and recorded since. With a file there are no others, and no such task.
//!
//! No request waits for it. While the database is away, limits go on by the last parts, and budgets by what was known and a small allowance.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::warm_start;
use crate::accounts::budgets;
use crate::server;
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_base::machine;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::config::Config;
use photofinish_config::keyring::SharedKeys;
use photofinish_gateway::proxy::Gateway;
use photofinish_history::record::recorded::Recorded;
use photofinish_history::store::{HeardRefusal, HeardReplicas, ReplicaReport, ReplicaRow, Replicas, WriteError};
use photofinish_routing::health::LiveConfig;
use photofinish_routing::health::cooldown::{CooldownReason, CooldownTarget};
use photofinish_routing::limits::{Heard, LevelName, LimitClock, ReplicaUse, SubjectUse};
use photofinish_wire::Surface;

/// From one exchange to the next.
const EXCHANGE_EVERY: Duration = Duration::from_millis(500);
/// How long the database may not answer before budgets are held to their allowance.
const AWAY_AFTER: Duration = Duration::from_secs(3);
/// A refusal without a time to wait is taken over if it is no older than this.
const RECENT_FOR: Duration = Duration::from_secs(5);
/// A clock that differs from the database's by more than this is named in the log, in microseconds.
const CLOCK_US: i64 = 2_000_000;

/// One gateway's part in the exchange.
pub(super) struct ReplicaTask {
    gateway: Arc<Gateway>,
    replicas: Replicas,
    name: String,
    /// How far the own clock is ahead, µs.
    clock_us: i64,
    /// What was told last.
    told: HashMap<LevelName, SubjectUse>,
    /// What was heard last.
    last: Option<Heard>,
    heard_at: Instant,
    is_away: bool,
    /// The configuration in force, and its digest.
    configuration: (Arc<LiveConfig>, String),
    /// What the log was told: gateways whose configuration differs, and whether the clock does.
    differing: BTreeSet<i64>,
    clock_differs: bool,
}

impl ReplicaTask {
    /// None: the store is a file.
    pub fn new(gateway: Arc<Gateway>) -> Option<ReplicaTask> {
        let replicas = Replicas::of(&gateway.live().config.store.path)?;
        let live = gateway.live();
        let digest = digest_of(&live.config);
        Some(ReplicaTask {
            configuration: (live, digest),
            gateway,
            replicas,
            name: machine::host_name(),
            clock_us: 0,
            told: HashMap::new(),
            last: None,
            heard_at: Instant::now(),
            is_away: false,
            differing: BTreeSet::new(),
            clock_differs: false,
        })
    }

    /// Takes turns until it is cancelled.
    pub async fn run(mut self, shutdown: Shutdown) {
        let mut ending = std::pin::pin!(shutdown.cancelled());
        while tokio::time::timeout(EXCHANGE_EVERY, &mut ending).await.is_err() {
            let turn = shutdown.run_blocking(move || self.after_a_turn());
            // After a panic, which is in the log, this gateway is alone: the others miss it.
            let Ok(task) = turn.await else { return };
            self = task;
        }
        let _ = shutdown.run_blocking(move || self.replicas.leave()).await;
    }

    /// Tells and hears once. Blocks.
    pub fn after_a_turn(mut self) -> ReplicaTask {
        self.turn();
        self
    }

    fn turn(&mut self) {
        let report = self.tell();
        match self.replicas.exchange(&report) {
            Ok(heard) => {
                self.clock_us = heard.clock_us;
                self.hear(heard);
            }
            Err(error) => {
                // Another gateway may have made a key that is not known here.
                self.gateway.set_keys_away(true);
                if self.last.is_none() || self.heard_at.elapsed() >= AWAY_AFTER {
                    self.go_on_alone(&error);
                }
            }
        }
    }

    /// While the database does not answer, turns go on by the clock and each budget has its allowance. What runs elsewhere counts no more,
    /// because it would never end.
    fn go_on_alone(&mut self, error: &WriteError) {
        let usage = self.gateway.usage();
        if let Some(last) = &mut self.last {
            last.store_us = wall_micros() - self.clock_us;
            last.others.iter_mut().flat_map(|other| other.subjects.values_mut()).for_each(|of| of.streams = 0);
            usage.hear(last, LimitClock { us: self.gateway.learning().now_us(), wall_us: wall_micros() });
        }
        usage.begin_outage((self.gateway.live().config.store.outage_allowance * 1e6) as u32);
        if !std::mem::replace(&mut self.is_away, true) {
            self.hear_load(&[]);
            tracing::warn!(
                %error,
                "the other gateways are not heard: limits go on by the last parts, and budgets by their allowance"
            );
        }
    }

    fn tell(&mut self) -> ReplicaReport {
        let live = self.gateway.live();
        if !Arc::ptr_eq(&live, &self.configuration.0) {
            let digest = digest_of(&live.config);
            self.configuration = (live, digest);
        }
        self.told = self.gateway.usage().tell().into_iter().collect();
        let limits = self
            .told
            .iter()
            .map(|(level, of)| json!([budgets::subject(level), of.counted[0], of.counted[1], of.demand, of.streams]));
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
            uses:
                json!({ "limits": limits.collect::<Vec<_>>(), "upstreams": running.collect::<serde_json::Map<_, _>>() })
                    .to_string(),
        }
    }

    fn hear(&mut self, heard: HeardReplicas) {
        self.heard_at = Instant::now();
        self.gateway.set_keys_away(false);
        if std::mem::take(&mut self.is_away) {
            tracing::info!("the other gateways are heard again");
        }
        let told: Vec<(i64, Value)> = heard
            .others
            .iter()
            .map(|other| (other.number, serde_json::from_str(&other.report.uses).unwrap_or_default()))
            .collect();
        let limits = Heard {
            own: heard.number,
            own_use: self.told.clone(),
            others: told.iter().map(|(id, told)| ReplicaUse { id: *id, subjects: subjects(told) }).collect(),
            budgets: heard.budgets.iter().filter_map(budgets::change).collect(),
            store_us: heard.store_us,
        };
        let now = LimitClock { us: self.gateway.learning().now_us(), wall_us: wall_micros() };
        self.gateway.usage().hear(&limits, now);
        self.last = Some(limits);
        self.hear_load(&told);
        if !heard.requests.is_empty() {
            let clock_us = self.clock_us;
            let own_time = |request: Recorded| Recorded { started_at: request.started_at + clock_us, ..request };
            warm_start::learn_heard(&self.gateway, heard.requests.into_iter().map(own_time));
        }
        heard.refusals.iter().for_each(|refusal| self.cool_down(refusal));
        if heard.left_out > 0 {
            tracing::debug!(requests = heard.left_out, "others recorded more than is read");
        }
        self.compare(&heard.others);
    }

    /// What runs at each upstream elsewhere.
    fn hear_load(&self, told: &[(i64, Value)]) {
        let mut running: HashMap<&str, u64> = HashMap::new();
        for (name, count) in told.iter().filter_map(|(_, told)| told["upstreams"].as_object()).flatten() {
            *running.entry(name).or_default() += count.as_u64().unwrap_or(0);
        }
        for known in self.gateway.learning().upstreams() {
            let elsewhere = running.get(known.name()).copied().unwrap_or(0);
            known.set_elsewhere(u32::try_from(elsewhere).unwrap_or(u32::MAX));
        }
    }

    fn cool_down(&self, refusal: &HeardRefusal) {
        let live = self.gateway.live();
        let Some(provider) = live.config.providers.get(&refusal.provider) else { return };
        let ring = SharedKeys::of(provider);
        let is_shared = |id: &str| ring.ring().keys().iter().any(|key| key.id() == id);
        let target = CooldownTarget {
            provider: refusal.provider.clone(),
            model: refusal.model_sent.clone(),
            // Neither a rate limit nor a refused key is of one surface.
            surface: Surface::Chat,
            own_key: refusal.key_id.as_deref().is_some_and(|id| !is_shared(id)),
            key_id: refusal.key_id.clone(),
            named: false,
        };
        let reason = match refusal.failure.as_str() {
            "rate_limited" => CooldownReason::RateLimited,
            // Without a key it may be the caller's, in a header.
            _ if refusal.key_id.is_some() => CooldownReason::KeyRefused,
            _ => return,
        };
        let asked = refusal.retry_after_ms.and_then(|wait| u64::try_from(wait).ok()).map(Duration::from_millis);
        // It is heard when its request has ended, which may be long after.
        let retry_after = match asked {
            Some(wait) if wait <= refusal.age => return,
            Some(wait) => Some(wait - refusal.age),
            None if refusal.age > RECENT_FOR => return,
            None => None,
        };
        self.gateway.heard_of_cooldown(reason, &target, retry_after);
        if reason == CooldownReason::RateLimited {
            let learning = self.gateway.learning();
            learning.upstream(&format!("{}/{}", refusal.provider, refusal.model_sent)).limited(learning.now_us());
        }
    }

    /// Tells the operator what should be the same everywhere and is not.
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

/// What a gateway told of limits.
fn subjects(told: &Value) -> HashMap<LevelName, SubjectUse> {
    let of = |entry: &Value| {
        let whole = |at: usize| entry[at].as_i64().unwrap_or(0);
        let streams = u32::try_from(whole(4)).unwrap_or(0);
        let demand = entry[3].as_f64().filter(|demand| demand.is_finite()).unwrap_or(0.0).max(0.0);
        Some((budgets::level(entry[0].as_str()?)?, SubjectUse { counted: [whole(1), whole(2)], demand, streams }))
    };
    told["limits"].as_array().into_iter().flatten().filter_map(of).collect()
}

/// Twelve hexadecimal digits.
fn digest_of(config: &Config) -> String {
    let shown = server::shared_part(config).to_string();
    digest(&SHA256, shown.as_bytes()).as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}
