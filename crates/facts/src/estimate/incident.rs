//! The rules by which incidents begin and end: a state that is fed with attempts and with the passing of time.
//!
//! Pure: no clock, no rows. `usual` has what an upstream is compared with, `minutes` what the last two hours say, `day` what the last day says.
//! Not for how incidents are written and described: see `report::incidents`.

pub mod day;
mod minutes;
pub mod usual;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod weeks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::record::{IncidentKind, IncidentRecord, IncidentState};
use day::DayCompared;
use minutes::{IncidentEvidence, MINUTE_US, Minutes, Speed};
use usual::{IncidentAttempt, Usual};

/// How far back attempts count; microseconds.
pub const REMEMBERED_US: i64 = minutes::KEPT * MINUTE_US;
/// A shorter time between two incidents of one kind makes them one. After this long without attempts it is unknown whether an upstream's
/// incident lasts; microseconds.
pub const GAP_US: i64 = 30 * MINUTE_US;
/// A breaker that is open for so long is an incident: it takes away the rows that would show one.
const BREAKER_US: i64 = MINUTE_US;
/// Incidents of half of the providers that begin within this time are one of the gateway.
const TOGETHER_US: i64 = 2 * MINUTE_US;
/// An incident that lasts is written again after so long.
const WRITTEN_EVERY_US: i64 = 5 * MINUTE_US;
/// The clock was set, or the machine slept, if more than this lies between two checks, or less than this before the last one.
const JUMP_US: i64 = 10 * MINUTE_US;
const BACK_US: i64 = MINUTE_US;
/// What attempts show. That a model changed, probes show.
const WATCHED: [IncidentKind; 5] = [
    IncidentKind::Failures,
    IncidentKind::Slower,
    IncidentKind::TokS,
    IncidentKind::WeekSlower,
    IncidentKind::WeekTokS,
];
/// Upstreams that are watched for incidents.
const UPSTREAMS_MAX: usize = 1_000;

/// What became of an incident.
#[derive(Clone, Debug, PartialEq)]
pub struct IncidentChange {
    pub step: IncidentStep,
    pub incident: IncidentRecord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncidentStep {
    Begun,
    GoesOn,
    Ended,
}

/// All upstreams.
#[derive(Debug, Default)]
pub struct IncidentWatch {
    usual: Arc<BTreeMap<String, Usual>>,
    upstreams: BTreeMap<String, UpstreamWatch>,
    /// The last incident of the gateway.
    gateway: Option<IncidentRecord>,
    now_us: Option<i64>,
    /// The clock jumped since the last check.
    has_jumped: bool,
}

/// One upstream.
#[derive(Debug, Default)]
struct UpstreamWatch {
    minutes: Minutes,
    /// The last incident of each kind, open or not.
    known: BTreeMap<IncidentKind, KnownIncident>,
    breaker_since: Option<i64>,
}

#[derive(Debug)]
struct KnownIncident {
    record: IncidentRecord,
    /// Of minutes that are no longer kept, up to this time.
    before: (IncidentEvidence, i64),
}

impl IncidentWatch {
    /// What the attempts are compared with from now on.
    pub fn compare_with(&mut self, usual: BTreeMap<String, Usual>) {
        self.usual = usual.into();
    }

    /// An incident that was known before a restart.
    pub fn resume(&mut self, record: IncidentRecord) {
        match record.upstream.clone() {
            None => self.gateway = Some(record),
            Some(upstream) => {
                // The rows of the last hours come again.
                let before = (IncidentEvidence::default(), record.began_at);
                self.upstreams.entry(upstream).or_default().known.insert(record.kind, KnownIncident { record, before });
            }
        }
    }

    /// Lets the time pass until `now_us`, in microseconds since 1970. Call it several times a minute, before the attempts of that time.
    pub fn advance(&mut self, now_us: i64) {
        let before_us = self.now_us.replace(now_us).unwrap_or(now_us);
        let jumps = now_us < before_us - BACK_US || now_us > before_us + JUMP_US;
        self.has_jumped |= jumps;
        for watch in self.upstreams.values_mut() {
            if jumps {
                watch.minutes.forget();
                watch.breaker_since = None;
            }
            watch.minutes.pass(now_us);
        }
    }

    /// The same, unless the time is known.
    pub fn begin_at(&mut self, now_us: i64) {
        if self.now_us.is_none() {
            self.advance(now_us);
        }
    }

    pub fn see(&mut self, upstream: &str, attempt: &IncidentAttempt) {
        let usual = self.usual.clone();
        let nothing = Usual::default();
        let usual = usual.get(upstream).unwrap_or(&nothing);
        if let Some(watch) = self.upstreams.get_mut(upstream) {
            return watch.minutes.add(attempt, usual);
        }
        if self.upstreams.len() < UPSTREAMS_MAX {
            let watch = self.upstreams.entry(upstream.to_owned()).or_default();
            watch.minutes.pass(self.now_us.unwrap_or(attempt.at_us));
            watch.minutes.add(attempt, usual);
        }
    }

    /// What has begun, gone on or ended since the last check.
    pub fn check(&mut self, open_breakers: &BTreeSet<String>) -> Vec<IncidentChange> {
        let now_us = self.now_us.unwrap_or(0);
        let has_jumped = std::mem::take(&mut self.has_jumped);
        for upstream in open_breakers {
            if self.upstreams.len() < UPSTREAMS_MAX {
                self.upstreams.entry(upstream.clone()).or_default();
            }
        }
        let nothing = Usual::default();
        let mut changes = Vec::new();
        for (upstream, watch) in &mut self.upstreams {
            let is_open = open_breakers.contains(upstream);
            watch.breaker_since = if is_open { watch.breaker_since.or(Some(now_us)) } else { None };
            let usual = self.usual.get(upstream).unwrap_or(&nothing);
            for kind in WATCHED {
                changes.extend(match of_days(kind, usual) {
                    Some((within, day)) => watch.check_day(upstream, kind, within, (day, usual.day_seen), now_us),
                    None => watch.check(upstream, kind, usual, (now_us, has_jumped)),
                });
            }
        }
        self.gather(now_us, &mut changes);
        self.upstreams.retain(|_, watch| watch.is_worth_keeping(now_us));
        changes
    }

    /// Incidents that last.
    pub fn open(&self) -> impl Iterator<Item = &IncidentRecord> {
        let known = self.upstreams.values().flat_map(|watch| watch.known.values().map(|known| &known.record));
        known.chain(&self.gateway).filter(|record| record.state == IncidentState::Open)
    }

    /// Makes incidents that began together one of the gateway.
    fn gather(&mut self, now_us: i64, changes: &mut Vec<IncidentChange>) {
        self.join(now_us, changes);
        let Some(gateway) = &mut self.gateway else { return };
        let id = Some(&gateway.incident_id);
        let known = self.upstreams.values().flat_map(|watch| watch.known.values().map(|known| &known.record));
        let parts: Vec<&IncidentRecord> = known.filter(|record| record.part_of.as_ref() == id).collect();
        if parts.is_empty() {
            if gateway.state == IncidentState::Open {
                gateway.state = IncidentState::EndUnknown;
                changes.push(change(IncidentStep::Ended, gateway, now_us));
            }
            return;
        }
        let sum = |of: fn(&IncidentRecord) -> i64| parts.iter().map(|part| of(part)).sum::<i64>();
        let any = |state| parts.iter().any(|part| part.state == state);
        let was_open = gateway.state == IncidentState::Open;
        gateway.state = match (any(IncidentState::Open), any(IncidentState::EndUnknown)) {
            (true, _) => IncidentState::Open,
            (_, true) => IncidentState::EndUnknown,
            _ => IncidentState::Ended,
        };
        let ended_at = parts.iter().filter_map(|part| part.ended_at).max();
        gateway.ended_at = ended_at.filter(|_| gateway.state == IncidentState::Ended);
        gateway.last_at = parts.iter().map(|part| part.last_at).max().unwrap_or(gateway.last_at);
        gateway.upstreams = parts.iter().map(|part| &part.upstream).collect::<BTreeSet<_>>().len() as i64;
        (gateway.attempts, gateway.failures) = (sum(|part| part.attempts), sum(|part| part.failures));
        (gateway.refusals, gateway.seen) = (sum(|part| part.refusals), sum(|part| part.seen));
        (gateway.broke, gateway.saved) = (sum(|part| part.broke), sum(|part| part.saved));
        gateway.lost = sum(|part| part.lost);
        gateway.expected = parts.iter().map(|part| part.expected).sum();
        gateway.breaker = parts.iter().any(|part| part.breaker);
        let is_open = gateway.state == IncidentState::Open;
        if was_open && !is_open {
            changes.push(change(IncidentStep::Ended, gateway, now_us));
        } else if is_open && (!was_open || now_us - gateway.updated_at >= WRITTEN_EVERY_US) {
            let step = if gateway.updated_at == 0 || !was_open { IncidentStep::Begun } else { IncidentStep::GoesOn };
            changes.push(change(step, gateway, now_us));
        }
    }

    /// Finds the parts of an incident of the gateway.
    fn join(&mut self, now_us: i64, changes: &mut Vec<IncidentChange>) {
        let is_fresh = |record: &IncidentRecord| {
            let is_of_all = matches!(record.kind, IncidentKind::Failures | IncidentKind::Slower);
            let is_of_gateway = record.state == IncidentState::Open && is_of_all;
            is_of_gateway && record.part_of.is_none() && now_us - record.began_at <= GAP_US
        };
        let known =
            self.upstreams.iter().flat_map(|(name, watch)| watch.known.values().map(move |known| (name, known)));
        let fresh: Vec<(&str, i64, IncidentKind)> = known
            .filter(|(_, known)| is_fresh(&known.record))
            .map(|(name, known)| (name.as_str(), known.record.began_at, known.record.kind))
            .collect();
        let near = |from_us: i64, at_us: i64| (from_us..=from_us + TOGETHER_US).contains(&at_us);
        let is_open = |gateway: &&IncidentRecord| gateway.state == IncidentState::Open;
        let open = self.gateway.as_ref().filter(is_open).map(|gateway| gateway.began_at);
        let began_us = open.or_else(|| {
            let asked = self.upstreams.iter().filter(|(_, watch)| watch.minutes.is_asked());
            let asked: BTreeSet<&str> = asked.map(|(name, _)| provider(name)).collect();
            let starts = fresh.iter().map(|(_, at_us, _)| *at_us);
            starts
                .filter(|from_us| {
                    let together = fresh.iter().filter(|(_, at_us, _)| near(*from_us, *at_us));
                    let together: BTreeSet<&str> = together.map(|(name, ..)| provider(name)).collect();
                    together.len() >= 2 && 2 * together.len() >= asked.len()
                })
                .min()
        });
        let Some(began_us) = began_us else { return };
        let parts = fresh.into_iter().filter(|(_, at_us, _)| near(began_us, *at_us));
        let parts: Vec<(String, IncidentKind)> = parts.map(|(name, _, kind)| (name.to_owned(), kind)).collect();
        let Some((_, kind)) = parts.first() else { return };
        if open.is_none() {
            let id = id(now_us, *kind, "gateway");
            let gateway =
                IncidentRecord { incident_id: id, kind: *kind, began_at: began_us, ..IncidentRecord::default() };
            self.gateway = Some(gateway);
        }
        let part_of = self.gateway.as_ref().map(|gateway| gateway.incident_id.clone());
        for (upstream, kind) in parts {
            let known = self.upstreams.get_mut(&upstream).and_then(|watch| watch.known.get_mut(&kind));
            let Some(KnownIncident { record, .. }) = known else { continue };
            record.part_of.clone_from(&part_of);
            record.updated_at = now_us;
            match changes.iter_mut().find(|change| change.incident.incident_id == record.incident_id) {
                Some(change) => change.incident.part_of.clone_from(&part_of),
                None => changes.push(change(IncidentStep::GoesOn, record, now_us)),
            }
        }
    }
}

impl UpstreamWatch {
    /// One kind of incident. `has_jumped`: what the minutes showed before is forgotten.
    fn check(
        &mut self,
        upstream: &str,
        kind: IncidentKind,
        usual: &Usual,
        (now_us, has_jumped): (i64, bool),
    ) -> Option<IncidentChange> {
        if !self.is_open(kind) {
            return self.begin(upstream, kind, usual, now_us);
        }
        let last_us = self.minutes.last_us;
        let holds_on = kind == IncidentKind::Failures && self.breaker_since.is_some();
        let ended_us = {
            let known = self.known.get(&kind)?;
            if holds_on { None } else { self.minutes.ended(kind, known.record.began_at, usual) }
        };
        let known = self.known.get_mut(&kind)?;
        let is_slow = speed(kind).is_none_or(|speed| self.minutes.is_slow(speed, usual));
        // Of before the attempts that came since the last check: what they show may be another incident.
        let is_unasked = !holds_on && now_us - known.record.last_at >= GAP_US;
        if holds_on {
            known.record.last_at = now_us;
        } else if !is_unasked {
            known.record.last_at = known.record.last_at.max(last_us.unwrap_or(known.record.last_at));
        }
        known.record.breaker |= holds_on;
        let step = match ended_us {
            Some(ended_us) if !is_unasked && !has_jumped => {
                known.record.state = IncidentState::Ended;
                known.record.ended_at = Some(ended_us.max(known.record.began_at));
                IncidentStep::Ended
            }
            _ if is_unasked || has_jumped => {
                known.record.state = IncidentState::EndUnknown;
                IncidentStep::Ended
            }
            _ if now_us - known.record.updated_at >= WRITTEN_EVERY_US => IncidentStep::GoesOn,
            _ => return None,
        };
        if is_slow || known.record.ended_at.is_some() {
            known.weigh(&self.minutes, usual);
        }
        Some(change(step, &mut known.record, now_us))
    }

    /// One kind of incident that the last day shows. It does not begin while `within` is open, which says the same of the last hour.
    fn check_day(
        &mut self,
        upstream: &str,
        kind: IncidentKind,
        within: IncidentKind,
        (day, seen): (Option<&DayCompared>, (f64, f64)),
        now_us: i64,
    ) -> Option<IncidentChange> {
        if !self.is_open(kind) {
            let day = day.filter(|day| day.is_slower() && !self.is_open(within))?;
            self.known.insert(kind, KnownIncident::new(upstream, kind, day.began_at, now_us));
        }
        let known = self.known.get_mut(&kind)?;
        let record = &mut known.record;
        record.last_at = self.minutes.last_us.unwrap_or(record.last_at);
        let step = match day {
            None => {
                record.state = IncidentState::EndUnknown;
                IncidentStep::Ended
            }
            Some(day) if day.is_as_usual() => {
                (record.state, record.ended_at) =
                    (IncidentState::Ended, Some(day.ended_at.clamp(record.began_at, now_us)));
                IncidentStep::Ended
            }
            Some(day) => {
                (record.factor, record.attempts) = (Some(day.factor), day.attempts as i64);
                (record.seen, record.expected) = (seen.0 as i64, seen.1);
                match record.updated_at {
                    0 => IncidentStep::Begun,
                    at if now_us - at >= WRITTEN_EVERY_US => IncidentStep::GoesOn,
                    _ => return None,
                }
            }
        };
        Some(change(step, record, now_us))
    }

    fn is_open(&self, kind: IncidentKind) -> bool {
        self.known.get(&kind).is_some_and(|known| known.record.state == IncidentState::Open)
    }

    fn begin(&mut self, upstream: &str, kind: IncidentKind, usual: &Usual, now_us: i64) -> Option<IncidentChange> {
        let end_us = |known: &KnownIncident| known.record.ended_at.unwrap_or(known.record.last_at + MINUTE_US);
        let after_us = self.known.get(&kind).map_or(0, end_us);
        let by_rows = match speed(kind) {
            None => self.minutes.failing_since(after_us, usual.failed),
            Some(speed) => self.minutes.slow_since(speed, after_us, usual),
        };
        let by_breaker =
            self.breaker_since.filter(|since| kind == IncidentKind::Failures && now_us - since >= BREAKER_US);
        let began_us = by_rows.into_iter().chain(by_breaker).min()?;
        let known = self.known.entry(kind).or_insert_with(|| KnownIncident::new(upstream, kind, began_us, now_us));
        if known.record.ended_at.is_some_and(|ended_us| began_us - ended_us < GAP_US) {
            (known.record.state, known.record.ended_at) = (IncidentState::Open, None);
        } else if known.record.state != IncidentState::Open {
            *known = KnownIncident::new(upstream, kind, began_us, now_us);
        }
        known.record.last_at = self.minutes.last_us.unwrap_or(now_us);
        known.record.breaker |= by_breaker.is_some();
        known.weigh(&self.minutes, usual);
        Some(change(IncidentStep::Begun, &mut known.record, now_us))
    }

    fn is_worth_keeping(&self, now_us: i64) -> bool {
        let is_known = |known: &KnownIncident| {
            let until_us = known.record.ended_at.unwrap_or(known.record.last_at);
            known.record.state == IncidentState::Open || now_us - until_us < REMEMBERED_US
        };
        self.minutes.is_asked() || self.breaker_since.is_some() || self.known.values().any(is_known)
    }
}

impl Minutes {
    fn ended(&self, kind: IncidentKind, began_us: i64, usual: &Usual) -> Option<i64> {
        match speed(kind) {
            None => self.calm_since(began_us, usual.failed),
            Some(speed) => self.well_since(speed, began_us, usual),
        }
    }
}

impl KnownIncident {
    fn new(upstream: &str, kind: IncidentKind, began_at: i64, now_us: i64) -> KnownIncident {
        let (incident_id, upstream) = (id(now_us, kind, upstream), Some(upstream.to_owned()));
        let record = IncidentRecord { incident_id, upstream, kind, began_at, ..IncidentRecord::default() };
        KnownIncident { record, before: (IncidentEvidence::default(), began_at) }
    }

    /// Fills in how large it is. Minutes that will soon be forgotten are added to what is kept of earlier ones.
    fn weigh(&mut self, minutes: &Minutes, usual: &Usual) {
        let until_us = self.record.ended_at.unwrap_or(i64::MAX);
        let (kept, since_us) = &mut self.before;
        let leaving_us = (minutes.oldest_us() + 2 * WRITTEN_EVERY_US).min(until_us);
        if leaving_us > *since_us {
            kept.merge(minutes.evidence(*since_us, leaving_us));
            *since_us = leaving_us;
        }
        let mut evidence = kept.clone();
        evidence.merge(minutes.evidence(*since_us, until_us));
        let record = &mut self.record;
        let is_failures = record.kind == IncidentKind::Failures;
        record.attempts = if is_failures { evidence.judged } else { evidence.attempts } as i64;
        record.failures = evidence.failures as i64;
        (record.refusals, record.seen) = (evidence.refusals as i64, evidence.seen as i64);
        (record.expected, record.usual_share) = (evidence.expected, usual.failed);
        (record.broke, record.saved) = (evidence.broke as i64, evidence.saved as i64);
        (record.lost, record.callers) = (evidence.lost_to.values().sum::<u64>() as i64, evidence.callers.len() as i64);
        record.traffic = evidence.lost_to.iter().max_by_key(|(_, races)| **races).map(|(upstream, _)| upstream.clone());
        if let Some((factor, at_least)) = speed(record.kind).and_then(|speed| evidence.factor(speed, usual)) {
            (record.factor, record.at_least) = (Some(factor), at_least);
        }
    }
}

/// None: failures.
fn speed(kind: IncidentKind) -> Option<Speed> {
    match kind {
        IncidentKind::Slower => Some(Speed::FirstTokens),
        IncidentKind::TokS => Some(Speed::Tokens),
        _ => None,
    }
}

/// What the last day shows of this kind, and the kind of the same within hours. None: minutes show it.
fn of_days(kind: IncidentKind, usual: &Usual) -> Option<(IncidentKind, Option<&DayCompared>)> {
    match kind {
        IncidentKind::WeekSlower => Some((IncidentKind::Slower, usual.ttft_day.as_ref())),
        IncidentKind::WeekTokS => Some((IncidentKind::TokS, usual.tpot_day.as_ref())),
        _ => None,
    }
}

fn change(step: IncidentStep, record: &mut IncidentRecord, now_us: i64) -> IncidentChange {
    record.updated_at = now_us;
    IncidentChange { step, incident: record.clone() }
}

fn provider(upstream: &str) -> &str {
    upstream.split('/').next().unwrap_or_default()
}

/// Of an incident that is found now.
pub fn id(now_us: i64, kind: IncidentKind, upstream: &str) -> String {
    format!("{now_us}/{}/{upstream}", kind.as_str())
}
