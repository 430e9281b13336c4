//! What happens in races, as it happens, for those who watch. Nothing of prompts, answers or keys.
//!
//! The first [`LANES_MAX`] races of each second send all their events, further ones only their end: a person cannot follow more, and
//! each event costs its request time. Without watchers, a race costs one atomic load. A watcher who reads too slowly loses the
//! oldest events and gets the number of lost ones. Not for rows: `race_rows` keeps those.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde::{Serialize, Serializer};
use serde_json::json;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{self, Receiver, Sender};

use photofinish_base::clock::Instant;
use photofinish_facts::record::{AttemptRecord, RaceRecord};
use photofinish_facts::recording::AttemptStep;

/// Watchers of `/api/live` at the same time; a further one is refused.
pub const WATCHERS_MAX: usize = 32;
/// Races per second that send all their events there.
const LANES_MAX: u32 = 60;
/// Events kept for a watcher who is behind.
const KEPT_MAX: usize = 1_024;
/// Bytes of events that a watcher gets at once.
const BATCH_MAX: usize = 64 * 1024;
/// How long the first event of a batch waits for others: many writes of a few bytes cost more than one.
const GATHERED_FOR: Duration = Duration::from_millis(20);

/// The events of all races of one gateway.
#[derive(Debug)]
pub(super) struct LiveFeed {
    watchers: AtomicUsize,
    begun: Mutex<BegunRaces>,
    events: Sender<Bytes>,
}

/// Races of the present second that send all their events.
#[derive(Debug)]
struct BegunRaces {
    since: Instant,
    count: u32,
}

/// One who watches. Dropping it makes room for another.
#[derive(Debug)]
pub struct LiveWatcher {
    feed: Arc<LiveFeed>,
    events: Receiver<Bytes>,
    gathered: BytesMut,
    /// When `gathered` is handed out.
    due: Instant,
}

impl Default for LiveFeed {
    fn default() -> LiveFeed {
        let begun = Mutex::new(BegunRaces { since: Instant::now(), count: 0 });
        LiveFeed { watchers: AtomicUsize::new(0), begun, events: broadcast::channel(KEPT_MAX).0 }
    }
}

impl LiveFeed {
    /// None: there are too many.
    pub fn watch(self: &Arc<LiveFeed>) -> Option<LiveWatcher> {
        let place = |watchers: usize| (watchers < WATCHERS_MAX).then_some(watchers + 1);
        self.watchers.fetch_update(Relaxed, Relaxed, place).ok()?;
        let events = self.events.subscribe();
        Some(LiveWatcher { feed: self.clone(), events, gathered: BytesMut::new(), due: Instant::now() })
    }

    pub fn is_watched(&self) -> bool {
        self.watchers.load(Relaxed) > 0
    }

    /// Whether a race that begins now sends all its events.
    pub fn takes_race(&self) -> bool {
        if !self.is_watched() {
            return false;
        }
        let now = Instant::now();
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(begun.since) >= Duration::from_secs(1) {
            *begun = BegunRaces { since: now, count: 0 };
        }
        begun.count += 1;
        begun.count <= LANES_MAX
    }

    /// A race whose request is understood. Its attempts follow.
    pub fn planned(&self, race: &RaceRecord) {
        self.send(&LiveEvent {
            event: "race",
            race_id: &race.race_id,
            started_at: Some(race.started_at),
            model: Some(&race.model),
            policy: race.policy,
            stream: Some(race.stream),
            user: race.user.as_deref(),
            ..LiveEvent::default()
        });
    }

    pub fn step(&self, attempt: &AttemptRecord, step: AttemptStep, at_us: i64) {
        let event = match step {
            AttemptStep::Dispatched => "dispatch",
            AttemptStep::Connected => "connect",
            AttemptStep::Headers => "headers",
            AttemptStep::FirstToken => "first_token",
        };
        let start_reason = (step == AttemptStep::Dispatched).then(|| attempt.start_reason.as_str());
        self.send(&LiveEvent { start_reason, ..LiveEvent::of_attempt(attempt, event, at_us) });
    }

    pub fn committed(&self, race_id: &str, ordinal: i64) {
        self.send(&LiveEvent { event: "commit", race_id, attempt: Some(ordinal), ..LiveEvent::default() });
    }

    pub fn ended(&self, attempt: &AttemptRecord) {
        let at_us = attempt.cancel_us.or(attempt.eof_us).or(attempt.finish_us).or(attempt.ttft_obs_us);
        self.send(&LiveEvent {
            outcome: Some(attempt.outcome.as_str()),
            failure: attempt.failure,
            http_status: attempt.http_status,
            audited: Some(attempt.audited),
            ..LiveEvent::of_attempt(attempt, "end", at_us.unwrap_or(0))
        });
    }

    /// `winner`: the upstream of the attempt that won.
    pub fn done(&self, race: &RaceRecord, winner: Option<&str>) {
        self.send(&LiveEvent { upstream: winner.map(AskedUpstream::Named), ..LiveEvent::of_race(race) });
    }

    /// It is no error if no watcher is left.
    fn send(&self, event: &LiveEvent<'_>) {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(b"data: ");
        // Writing into memory does not fail.
        if serde_json::to_writer(&mut bytes, event).is_ok() {
            bytes.extend_from_slice(b"\n\n");
            let _ = self.events.send(bytes.into());
        }
    }
}

/// One event as it is sent; what does not belong to it is left out. Written without a tree of values: it costs the request
/// that it is about.
#[derive(Default, Serialize)]
struct LiveEvent<'a> {
    event: &'static str,
    race_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<AskedUpstream<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audited: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_ttft_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<i64>,
}

/// `PROVIDER/MODEL`
enum AskedUpstream<'a> {
    Of(&'a AttemptRecord),
    Named(&'a str),
}

impl Serialize for AskedUpstream<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            AskedUpstream::Of(attempt) => {
                serializer.collect_str(&format_args!("{}/{}", attempt.provider, attempt.model_sent))
            }
            AskedUpstream::Named(upstream) => serializer.serialize_str(upstream),
        }
    }
}

impl<'a> LiveEvent<'a> {
    fn of_attempt(attempt: &'a AttemptRecord, event: &'static str, at_us: i64) -> LiveEvent<'a> {
        LiveEvent {
            event,
            race_id: &attempt.race_id,
            attempt: Some(attempt.ordinal),
            upstream: Some(AskedUpstream::Of(attempt)),
            at_ms: Some((attempt.dispatch_us + at_us) as f64 / 1e3),
            ..LiveEvent::default()
        }
    }

    fn of_race(race: &'a RaceRecord) -> LiveEvent<'a> {
        let ms = |us: Option<i64>| us.map(|us| us as f64 / 1e3);
        LiveEvent {
            event: "done",
            race_id: &race.race_id,
            attempt: race.winner,
            at_ms: ms(race.done_us),
            client_ttft_ms: ms(race.first_token_sent_us),
            started_at: Some(race.started_at),
            model: Some(&race.model),
            user: race.user.as_deref(),
            policy: race.policy,
            stream: Some(race.stream),
            attempts: Some(race.attempts),
            outcome: Some(race.outcome.as_str()),
            ..LiveEvent::default()
        }
    }
}

impl LiveWatcher {
    /// Waits for the next events, as server-sent events. Losing a call loses no event. None: there will be no more.
    pub async fn next(&mut self) -> Option<Bytes> {
        if self.gathered.is_empty() {
            match self.events.recv().await {
                Ok(event) => self.gathered.extend_from_slice(&event),
                Err(RecvError::Lagged(missed)) => self.lagged(missed),
                Err(RecvError::Closed) => return None,
            }
            self.due = Instant::now() + GATHERED_FOR;
        }
        tokio::time::sleep_until(self.due).await;
        while self.gathered.len() < BATCH_MAX {
            match self.events.try_recv() {
                Ok(event) => self.gathered.extend_from_slice(&event),
                Err(TryRecvError::Lagged(missed)) => self.lagged(missed),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        Some(self.gathered.split().freeze())
    }

    fn lagged(&mut self, missed: u64) {
        let lagged = json!({ "event": "lagged", "missed": missed });
        self.gathered.extend_from_slice(format!("data: {lagged}\n\n").as_bytes());
    }
}

impl Drop for LiveWatcher {
    fn drop(&mut self) {
        self.feed.watchers.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use photofinish_facts::record::sample;

    fn events(batch: &Bytes) -> Vec<Value> {
        let text = std::str::from_utf8(batch).unwrap();
        text.split_terminator("\n\n")
            .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watcher_gets_what_happens_after_it_came() {
        let feed = Arc::new(LiveFeed::default());
        assert!(!feed.is_watched());
        let attempt = sample::won(1);
        feed.step(&attempt, AttemptStep::Dispatched, 0);
        let mut watcher = feed.watch().unwrap();
        assert!(feed.is_watched());
        feed.step(&attempt, AttemptStep::FirstToken, 1_500);
        feed.committed(&attempt.race_id, attempt.ordinal);
        feed.ended(&attempt);
        feed.done(&sample::race(1), Some("a/b"));
        let events = events(&watcher.next().await.unwrap());
        let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(names, ["first_token", "commit", "end", "done"]);
        assert_eq!(events[0]["at_ms"], json!((attempt.dispatch_us + 1_500) as f64 / 1e3));
        assert!(events.iter().all(|event| event["race_id"] == attempt.race_id.as_str()));
        assert_eq!((&events[2]["outcome"], &events[3]["outcome"]), (&json!("won"), &json!("ok")));
        assert_eq!((&events[3]["upstream"], &events[3]["user"]), (&json!("a/b"), &json!("alice")));
        drop(watcher);
        assert!(!feed.is_watched());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_races_of_each_second_are_told_whole() {
        let feed = Arc::new(LiveFeed::default());
        assert!(!feed.takes_race(), "no watcher");
        let _watcher = feed.watch().unwrap();
        for _ in 0..3 {
            let taken = (0..500).filter(|_| feed.takes_race()).count();
            assert_eq!(taken, LANES_MAX as usize);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_watcher_is_told_what_it_missed() {
        let feed = Arc::new(LiveFeed::default());
        let mut watcher = feed.watch().unwrap();
        for ordinal in 0..KEPT_MAX as i64 + 300 {
            feed.committed("r", ordinal);
        }
        let events = events(&watcher.next().await.unwrap());
        assert_eq!(events[0], json!({ "event": "lagged", "missed": 300 }));
        assert_eq!(events[1]["attempt"], 300);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let feed = Arc::new(LiveFeed::default());
        let mut watchers: Vec<LiveWatcher> = (0..WATCHERS_MAX).map(|_| feed.watch().unwrap()).collect();
        assert!(feed.watch().is_none());
        watchers.pop();
        assert!(feed.watch().is_some());
    }
}
