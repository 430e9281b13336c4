//! Incidents in words and as JSON, and which upstreams are not watched; and what of the history their watch begins with.
//!
//! Not for the rules: see `estimate::incident`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Map, Value, json};

use super::members::{MemberField, members, text};
use super::question::{TimePoint, moment, span, time};
use crate::store::{AttemptFilter, Gather, IncidentFilter, ReadError, RollupCell, Selection, StoreReader};
use photofinish_base::clock::{DAY_US, HOUR_US, SECOND_US};
use photofinish_facts::estimate::ShortBytes;
use photofinish_facts::estimate::facts::{AttemptFacts, RequestFacts};
use photofinish_facts::estimate::incident::day::DAYS;
use photofinish_facts::estimate::incident::usual::{EXPECTED_LEAST, Hours, IncidentAttempt, Usual, Week};
use photofinish_facts::estimate::incident::{IncidentWatch, REMEMBERED_US};
use photofinish_facts::estimate::spread::Times;
use photofinish_facts::estimate::summary::{Summary, absorb_ttft};
use photofinish_facts::record::{IncidentKind, IncidentRecord, IncidentState, table};

/// Incidents of an answer, the newest.
const LISTED_MAX: usize = 1_000;
/// Attempts of the last hours that a watch begins with.
const RECENT_MAX: usize = 200_000;
/// What is usual: the last day, and the days that it is compared with.
const USUAL_US: i64 = (DAYS as i64 + 1) * DAY_US;
/// What is listed unless a time is asked for.
const SINCE_US: i64 = 7 * DAY_US;
/// An open incident is written every five minutes. One that was not written for this long is watched by no gateway.
const STALE_US: i64 = 900 * SECOND_US;

/// Which incidents.
#[derive(Args, Clone, Debug, Default)]
pub struct IncidentsQuestion {
    /// Only incidents that lasted at this time or later: an age (24h), a day (2026-01-31) or a time (2026-01-31T09:00:00Z), UTC; by default 7 days.
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    pub since: Option<TimePoint>,
    /// Only incidents begun before, in the same forms.
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    pub until: Option<TimePoint>,
    /// Only this provider, and those of the gateway.
    #[arg(long)]
    pub provider: Option<String>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Incidents {
    /// Newest first.
    pub incidents: Vec<IncidentRecord>,
    /// Upstreams with too few first tokens in the last hour, and how many they had.
    pub not_watched: Vec<(String, u64)>,
    /// Microseconds since 1970, UTC.
    pub now_us: i64,
}

impl IncidentsQuestion {
    /// An error in the combination of valid parts.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        let [since, until] = [self.since, self.until].map(|moment| Some(moment?.micros(now_us)));
        let (since, until) = since.zip(until)?;
        (since >= until)
            .then(|| format!("--since must be before --until: {} is not before {}", time(since), time(until)))
    }
}

/// Reads incidents.
///
/// # Errors
/// For an operator.
pub fn ask(reader: &StoreReader, question: &IncidentsQuestion, now_us: i64) -> Result<Incidents, ReadError> {
    let filter = IncidentFilter {
        since: Some(question.since.map_or(now_us - SINCE_US, |since| since.micros(now_us))),
        until: question.until.map(|until| until.micros(now_us)),
        provider: question.provider.clone(),
        limit: LISTED_MAX,
    };
    let incidents = reader.incidents(&filter)?;
    let provider = question.provider.clone();
    let filter = AttemptFilter { since: Some(now_us - HOUR_US), provider, ..AttemptFilter::default() };
    let selection = Selection { filter, now_us, ..Selection::default() };
    let (watched, _) = reader.gather(&selection, WatchedAttempts::default)?;
    let few = watched.0.into_iter().filter(|(_, attempts)| (*attempts as f64) < EXPECTED_LEAST);
    Ok(Incidents { incidents, not_watched: few.collect(), now_us })
}

/// Behind the columns of an incident.
pub const OF_INCIDENT: [MemberField; 4] = [
    text("began", "`began_at` in the format of RFC 3339"),
    text("ended", "`ended_at` likewise; null while it lasts, and where its end is not known").or_null(),
    text("last", "`last_at` likewise"),
    text("words", "what happened, for people, without the upstream's name"),
];

members! {
    /// Incidents, newest first.
    pub INCIDENT_LIST: listed(of: &Incidents) {
        incidents: List("Incident", usize::MAX) =
            of.incidents.iter().map(|incident| object(incident, of.now_us)).collect::<Vec<_>>();
        /// upstreams with fewer than 20 first tokens or cut attempts in the last hour, and at least one attempt
        not_watched: List("NotWatched", usize::MAX) =
            of.not_watched.iter().map(|(upstream, attempts)| not_watched(upstream, *attempts)).collect::<Vec<_>>();
    }
}

members! {
    /// An upstream that is asked too seldom to be watched for slowness.
    pub NOT_WATCHED: not_watched(name: &str, count: u64) {
        /// `PROVIDER/MODEL`
        upstream: Text = name;
        /// in the last hour
        attempts: Integer = count;
    }
}

impl Incidents {
    /// For programs.
    pub fn json(&self) -> Value {
        listed(self).into()
    }

    /// Those that are no part of another one of these.
    pub fn whole(&self) -> impl Iterator<Item = &IncidentRecord> {
        let is_of_another = |incident: &IncidentRecord| self.incidents.iter().any(|whole| is_part(incident, whole));
        self.incidents.iter().filter(move |incident| incident.part_of.is_none() || !is_of_another(incident))
    }
}

/// Whether it is a part of that one, which is of the gateway.
pub fn is_part(part: &IncidentRecord, whole: &IncidentRecord) -> bool {
    part.part_of.as_ref() == Some(&whole.incident_id)
}

/// One incident, for programs.
pub fn object(incident: &IncidentRecord, now_us: i64) -> Map<String, Value> {
    let mut object = table::object(incident);
    let values = [
        Some(time(incident.began_at)),
        incident.ended_at.map(time),
        Some(time(incident.last_at)),
        Some(words(incident, now_us)),
    ];
    object.extend(OF_INCIDENT.iter().zip(values).map(|(field, value)| (field.name.to_owned(), json!(value))));
    object
}

/// Whose it is.
pub fn name(incident: &IncidentRecord) -> &str {
    incident.upstream.as_deref().unwrap_or("gateway")
}

/// What happened and when: "first tokens took 2.2 times as long from 2026-01-02 02:10 to 03:25 UTC".
pub fn words(incident: &IncidentRecord, now_us: i64) -> String {
    let at = |us: i64| span(us, us + HOUR_US).split(" to ").next().unwrap_or_default().to_owned();
    if incident.kind == IncidentKind::Changed {
        return format!("the model behind it changed about {}", time(incident.began_at).get(..10).unwrap_or_default());
    }
    let when = match (incident.state, incident.ended_at) {
        (IncidentState::Ended, Some(ended_at)) => format!("from {}", span(incident.began_at, ended_at)),
        (IncidentState::Open, _) if now_us - incident.updated_at <= STALE_US => {
            format!("since {} UTC", at(incident.began_at))
        }
        (IncidentState::Open, _) => {
            format!(
                "from {} UTC; not watched since {} UTC: end unknown",
                at(incident.began_at),
                at(incident.updated_at)
            )
        }
        _ => format!("from {} UTC; not asked since {} UTC: end unknown", at(incident.began_at), at(incident.last_at)),
    };
    let at_once =
        if incident.upstream.is_none() { format!("{} upstreams at once: ", incident.upstreams) } else { String::new() };
    let least = if incident.at_least { "at least " } else { "" };
    let what = match (incident.kind, incident.factor) {
        (IncidentKind::Failures, _) => failures(incident),
        (IncidentKind::Slower, Some(factor)) => format!("first tokens took {least}{factor:.1} times as long"),
        (IncidentKind::Slower, None) => "first tokens took longer".to_owned(),
        (IncidentKind::TokS, Some(factor)) => format!("tokens after the first took {factor:.1} times as long"),
        (IncidentKind::TokS, None) => "tokens after the first took longer".to_owned(),
        (IncidentKind::WeekSlower | IncidentKind::WeekTokS, factor) => {
            let what =
                if incident.kind == IncidentKind::WeekSlower { "first tokens" } else { "tokens after the first" };
            format!("{what} took {:.2} times as long as in the week before,", factor.unwrap_or(1.0))
        }
        (IncidentKind::Changed, _) => "the model behind it changed".to_owned(),
    };
    format!("{at_once}{what} {when}{}{}", moved(incident), felt(incident))
}

/// Where the requests went of an upstream that was slow, if the race itself moved most of them.
fn moved(incident: &IncidentRecord) -> String {
    let IncidentRecord { kind, attempts, lost, traffic, .. } = incident;
    let traffic = traffic.as_ref().filter(|_| matches!(kind, IncidentKind::Slower | IncidentKind::TokS));
    match traffic.filter(|_| 2 * lost >= *attempts) {
        Some(traffic) => format!("; {lost} of {attempts} attempts lost, most of them to {traffic}"),
        None => String::new(),
    }
}

/// What clients felt of it.
fn felt(incident: &IncidentRecord) -> String {
    let (broke, saved) = (incident.broke, incident.saved);
    let requests = if broke + saved == 1 { "request" } else { "requests" };
    match (broke, saved) {
        (0, 0) => String::new(),
        (0, _) => format!("; another upstream answered the {saved} {requests}"),
        (_, 0) => format!("; {broke} {requests} broke"),
        _ => format!("; {broke} {requests} broke, {saved} were saved"),
    }
}

fn failures(incident: &IncidentRecord) -> String {
    let IncidentRecord { attempts, failures, refusals, usual_share, breaker, callers, .. } = incident;
    let breaker = if *breaker { ", and its breaker was open," } else { "" };
    if *failures == 0 {
        return if incident.breaker { "its breaker was open" } else { "attempts failed" }.to_owned();
    }
    let refused = if *refusals > 0 { format!(", {refusals} by a content policy") } else { String::new() };
    let usual =
        if incident.upstream.is_some() { format!("; usually {:.1} %", usual_share * 100.0) } else { String::new() };
    let whose = match callers {
        0 => String::new(),
        1 => ", of one caller".to_owned(),
        callers => format!(", of {callers} callers"),
    };
    format!(
        "{failures} of {attempts} attempts failed{breaker} ({:.0} %{whose}{refused}{usual})",
        100.0 * *failures as f64 / (*attempts).max(1) as f64
    )
}

/// What is usual for each upstream now: of the 8 days before this hour. Blocks.
///
/// # Errors
/// For an operator.
pub fn usual(reader: &StoreReader, now_us: i64) -> Result<BTreeMap<String, Usual>, ReadError> {
    let until = now_us.div_euclid(HOUR_US) * HOUR_US;
    let filter = AttemptFilter { since: Some(until - USUAL_US), until: Some(until), ..AttemptFilter::default() };
    let selection = Selection { filter, now_us, classes: true, hourly: true, exact: false };
    let (weeks, _) = reader.gather(&selection, || Weeks { until_us: until, of: BTreeMap::new() })?;
    let usual: BTreeMap<String, Usual> = weeks.of.iter().map(|(name, week)| (name.clone(), week.usual())).collect();
    let (ratios, _) = reader.gather(&selection, || HourRatios { usual: &usual, of: BTreeMap::new() })?;
    let mut hours = ratios.of;
    let with_hours = |(name, usual): (&String, &Usual)| {
        (name.clone(), usual.clone().with_hours(&hours.remove(name).unwrap_or_default()))
    };
    Ok(usual.iter().map(with_hours).collect())
}

/// Gives a watch what it would know without a restart: the attempts of the last two hours before `until_us`, and the incidents that were open.
/// Blocks.
///
/// # Errors
/// For an operator.
pub fn resume(reader: &StoreReader, watch: &mut IncidentWatch, until_us: i64) -> Result<(), ReadError> {
    let since = Some(until_us - REMEMBERED_US);
    for incident in
        reader.incidents(&IncidentFilter { since, limit: LISTED_MAX, ..IncidentFilter::default() })?.into_iter().rev()
    {
        watch.resume(incident);
    }
    let filter = AttemptFilter { since, until: Some(until_us), ..AttemptFilter::default() };
    let (recent, _) =
        reader.gather(&Selection { filter, now_us: until_us, ..Selection::default() }, RecentAttempts::default)?;
    watch.begin_at(until_us);
    recent.0.iter().for_each(|(upstream, attempt)| watch.see(upstream, attempt));
    Ok(())
}

fn named((provider, model_sent): (&str, &str)) -> String {
    format!("{provider}/{model_sent}")
}

/// The weeks of all upstreams.
struct Weeks {
    until_us: i64,
    of: BTreeMap<String, Week>,
}

impl Weeks {
    fn week(&mut self, upstream: (&str, &str)) -> &mut Week {
        let until_us = self.until_us;
        self.of.entry(named(upstream)).or_insert_with(|| Week::new(until_us))
    }
}

impl Gather for Weeks {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        // A running race has rows of losers only.
        if facts.request.is_some() {
            self.week((facts.provider, facts.model_sent)).add(&IncidentAttempt::of(facts));
        }
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        let (Some(upstream), Some(class)) = (cell.upstream, cell.class) else { return Ok(()) };
        let mut summary = Summary::default();
        summary.absorb(cell.summary, false)?;
        self.week(upstream).absorb(cell.start_us, class.input, summary);
        Ok(())
    }

    fn merge(&mut self, other: Weeks) {
        for (upstream, week) in other.of {
            self.of.entry(upstream).or_insert_with(|| Week::new(self.until_us)).merge(week);
        }
    }
}

/// How far the hours of all upstreams are from what is usual.
struct HourRatios<'a> {
    usual: &'a BTreeMap<String, Usual>,
    of: BTreeMap<String, Hours>,
}

impl HourRatios<'_> {
    fn hours(&mut self, upstream: (&str, &str)) -> Option<(&Usual, &mut Hours)> {
        let upstream = named(upstream);
        Some((self.usual.get(&upstream)?, self.of.entry(upstream).or_default()))
    }
}

impl Gather for HourRatios<'_> {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        let attempt = IncidentAttempt::of(facts);
        let Some(observation) = attempt.ttft.filter(|_| facts.request.is_some()) else { return };
        if let Some((usual, hours)) = self.hours((facts.provider, facts.model_sent)) {
            let (end, entry) = observation.points();
            let points = [Some(end), entry].map(Option::unwrap_or_default);
            hours.add(usual, attempt.at_us, attempt.class, &points);
        }
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        let (Some(upstream), Some(class)) = (cell.upstream, cell.class) else { return Ok(()) };
        let mut times = Times::default();
        absorb_ttft(&mut times, cell.summary)?;
        if let Some((usual, hours)) = self.hours(upstream) {
            hours.add(usual, cell.start_us, class.input, &times.points());
        }
        Ok(())
    }

    fn merge(&mut self, other: HourRatios<'_>) {
        other.of.into_iter().for_each(|(upstream, hours)| self.of.entry(upstream).or_default().merge(hours));
    }
}

/// By upstream, the attempts whose first token was waited for.
#[derive(Default)]
struct WatchedAttempts(BTreeMap<String, u64>);

impl Gather for WatchedAttempts {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        if facts.request.is_some() {
            *self.0.entry(named((facts.provider, facts.model_sent))).or_default() += u64::from(facts.ttft.is_some());
        }
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, _: &RollupCell<'_>) -> Result<(), ShortBytes> {
        Ok(())
    }

    fn merge(&mut self, other: WatchedAttempts) {
        other.0.into_iter().for_each(|(upstream, attempts)| *self.0.entry(upstream).or_default() += attempts);
    }
}

/// Attempts by upstream, some of them if there are too many.
#[derive(Default)]
struct RecentAttempts(Vec<(String, IncidentAttempt)>);

impl Gather for RecentAttempts {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        if facts.request.is_some() && self.0.len() < RECENT_MAX {
            self.0.push((named((facts.provider, facts.model_sent)), IncidentAttempt::of(facts)));
        }
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, _: &RollupCell<'_>) -> Result<(), ShortBytes> {
        Ok(())
    }

    fn merge(&mut self, other: RecentAttempts) {
        let room = RECENT_MAX.saturating_sub(self.0.len());
        self.0.extend(other.0.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests;
