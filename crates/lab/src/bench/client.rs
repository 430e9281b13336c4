//! Sends measured requests the way of a client's, and finds their rows: how a request is made, what it costs at most, and how
//! long its answer is awaited. Not for when or how many: see `generator`, and `crate::probe` for probes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::block::LoadTarget;
use super::measured::{MeasuredRequest, RequestEnd};
use super::prompt::{INPUT_MARGIN, LoadSession, Prompt, PromptMaker};
use super::spend::Spend;
use photofinish_base::failure::FailureKind;
use photofinish_base::printable::printable;
use photofinish_facts::estimate::cost::{Cost, CostSum};
use photofinish_facts::estimate::speed::{Decoding, came_at_once};
use photofinish_facts::record::table::Subset as _;
use photofinish_facts::record::{
    AttemptOutcome, AttemptRecord, RaceOutcome, RaceRecord, RaceSource, Record, RequestOrigin,
};
use photofinish_facts::recording::AttemptStep;
use photofinish_gateway::proxy::{self, AskedBy, Gateway};
use photofinish_history::recorder::{RaceObserver, Recorder};
use photofinish_wire::Surface;

/// Sends measured requests through one gateway.
#[derive(Clone)]
pub struct LoadClient {
    gateway: Arc<Gateway>,
    recorder: Recorder,
    feed: Arc<RowFeed>,
}

impl LoadClient {
    /// `recorder` must be the gateway's, and `feed` must observe its races.
    pub fn new(gateway: Arc<Gateway>, recorder: Recorder, feed: Arc<RowFeed>) -> LoadClient {
        LoadClient { gateway, recorder, feed }
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Of this gateway.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Sends a chat request that streams, and reads the answer to its end, which the gateway brings about `within` this time.
    /// `headers` are the gateway's overrides.
    pub async fn ask(
        &self,
        model: &str,
        mut members: Map<String, Value>,
        headers: HeaderMap,
        origin: RequestOrigin,
        within: Duration,
    ) -> LoadAnswer {
        members.insert("stream".to_owned(), true.into());
        let fetched = self.fetch(model, members, headers, origin, within, 0).await;
        LoadAnswer { said: fetched.said(), race_id: fetched.race_id }
    }

    /// Sends a chat request as it is, and keeps the first `keep` bytes of its answer.
    pub async fn fetch(
        &self,
        model: &str,
        mut members: Map<String, Value>,
        headers: HeaderMap,
        origin: RequestOrigin,
        within: Duration,
        keep: usize,
    ) -> FetchedAnswer {
        members.insert("model".to_owned(), model.into());
        let mut request = Request::new(Body::from(Value::Object(members).to_string()));
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let by = AskedBy { origin, ends_within: Some(within), ..AskedBy::default() };
        let response = Box::pin(proxy::serve_as(Arc::clone(&self.gateway), Surface::Chat, by, request)).await;
        let race_id = response.headers().get("x-photofinish-race").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let refused = !response.status().is_success();
        let keep = if refused { REFUSAL_MAX } else { keep };
        let (mut body, mut kept) = (response.into_body(), Vec::new());
        // What breaks an answer is in its row.
        while let Some(Ok(frame)) = body.frame().await {
            if let Some(data) = frame.data_ref().filter(|_| kept.len() < keep) {
                kept.extend_from_slice(data);
            }
        }
        FetchedAnswer { race_id, refused, body: kept }
    }

    /// What the rows of a race say, once all of them are there. Its times count from the scheduled time. None: they do not
    /// come.
    pub async fn measured(&self, race_id: &str) -> Option<MeasuredRequest> {
        self.feed.measured(race_id).await
    }
}

/// What came back of a request.
pub struct LoadAnswer {
    /// None: the gateway refused it before there was a race.
    pub race_id: Option<String>,
    /// In the words of the server that refused it. They may quote the prompt.
    pub said: Option<String>,
}

/// An answer as it came.
pub struct FetchedAnswer {
    /// None: the gateway refused it before there was a race.
    pub race_id: Option<String>,
    pub refused: bool,
    /// The first bytes of the answer or of the refusal.
    pub body: Vec<u8>,
}

impl FetchedAnswer {
    /// In the words of the server that refused it. They may quote the prompt.
    pub fn said(&self) -> Option<String> {
        if self.refused { said(&self.body) } else { None }
    }
}

/// Bytes of a refusal that are read; what is longer has no words.
const REFUSAL_MAX: usize = 64 << 10;
/// Characters of its words.
const SAID_MAX: usize = 240;

fn said(refusal: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(refusal).ok()?;
    let of_the_last = answer["error"]["attempts"].as_array().and_then(|attempts| attempts.last()?["message"].as_str());
    let said = of_the_last.or(answer["error"]["message"].as_str()).filter(|said| !said.is_empty())?;
    Some(printable(said).chars().take(SAID_MAX).collect())
}

/// How long the rows of a request are awaited after its answer has ended: losers may run on to be audited or drained, which
/// takes a minute at most unless `drains` under `[race]` says otherwise.
const ROWS_FOR: Duration = Duration::from_secs(90);
/// Races whose rows no request has asked for yet.
const UNASKED_MAX: usize = 100_000;

/// Receives the rows of all races of a gateway; keeps those of benchmarks and probes until they are asked for.
#[derive(Debug, Default)]
pub struct RowFeed(Mutex<HashMap<String, WaitingRows>>);

#[derive(Debug)]
enum WaitingRows {
    /// They came first.
    Rows(Box<MeasuredRequest>),
    /// The request came first.
    Request(oneshot::Sender<Box<MeasuredRequest>>),
}

impl RowFeed {
    pub fn new() -> Arc<RowFeed> {
        Arc::default()
    }

    /// What the rows of this race say, once all of them are there; none if they do not come.
    pub(super) async fn measured(&self, race_id: &str) -> Option<MeasuredRequest> {
        let receiver = {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(WaitingRows::Rows(measured)) = waiting.remove(race_id) {
                return Some(*measured);
            }
            let (sender, receiver) = oneshot::channel();
            waiting.insert(race_id.to_owned(), WaitingRows::Request(sender));
            receiver
        };
        let measured = tokio::time::timeout(ROWS_FOR, receiver).await;
        if measured.is_err() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(race_id);
        }
        measured.ok()?.ok().map(|measured| *measured)
    }
}

impl RaceObserver for RowFeed {
    fn step(&self, _attempt: &AttemptRecord, _step: AttemptStep, _at_us: i64) {}

    fn committed(&self, _race_id: &str, _ordinal: i64) {}

    fn recorded(&self, _record: &Record) {}

    fn settled(&self, rows: &[Record]) {
        let Some((race_id, measured)) = measured(rows) else { return };
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.remove(&race_id) {
            // It may have given up waiting.
            Some(WaitingRows::Request(sender)) => drop(sender.send(Box::new(measured))),
            _ if waiting.len() < UNASKED_MAX => {
                waiting.insert(race_id, WaitingRows::Rows(Box::new(measured)));
            }
            _ => {}
        }
    }
}

/// Its times count from the scheduled time, or else from when the gateway read the request. None: the rows of a client.
fn measured(rows: &[Record]) -> Option<(String, MeasuredRequest)> {
    let race = rows.iter().find_map(|row| if let Record::Race(race) = row { Some(race) } else { None })?;
    if race.source == RaceSource::Client {
        return None;
    }
    let mut attempts: Vec<&AttemptRecord> = rows
        .iter()
        .filter_map(|row| if let Record::Attempt(attempt) = row { Some(&**attempt) } else { None })
        .collect();
    attempts.sort_by_key(|attempt| attempt.ordinal);
    let winner = attempts.iter().find(|attempt| Some(attempt.ordinal) == race.winner);
    let scheduled_us = race.scheduled_us.unwrap_or(0);
    let first_us = attempts.first().map_or(0, |attempt| attempt.dispatch_us);
    let since_first = |attempt: &AttemptRecord, at: Option<i64>| Some(attempt.dispatch_us - first_us + at?);
    let (end, failure) = end(race, winner.copied(), attempts.last().copied());
    let decoding = winner.map(|winner| Decoding::of(winner));
    let measured = MeasuredRequest {
        number: 0,
        said: None,
        scheduled_us: 0,
        sent_us: first_us - scheduled_us,
        ended_us: race.done_us.unwrap_or(first_us) - scheduled_us,
        end,
        failure,
        ttft_us: winner.and_then(|winner| since_first(winner, winner.first_token_us)),
        e2e_us: winner.and_then(|winner| since_first(winner, winner.last_token_us)),
        tpot_us: decoding.as_ref().and_then(|decoding| decoding.tpot_us(race.n_choices)),
        output_tokens: decoding.as_ref().and_then(Decoding::tokens_out),
        at_once: winner.is_some_and(|winner| came_at_once(winner.payload_events, winner.output_tokens)),
        input_tokens: winner.and_then(|winner| winner.input_tokens),
        cached_input_tokens: winner.and_then(|winner| winner.cached_input_tokens),
        cost: CostSum::of(attempts.iter().map(|attempt| Cost::of(attempt))),
        conn_reused: winner.and_then(|winner| winner.conn_reused),
        attempts: race.attempts,
    };
    Some((race.race_id.clone(), measured))
}

fn end(
    race: &RaceRecord,
    winner: Option<&AttemptRecord>,
    last: Option<&AttemptRecord>,
) -> (RequestEnd, Option<&'static str>) {
    let failed = |attempt: &AttemptRecord| {
        let failure = attempt.failure.unwrap_or(attempt.outcome.as_str());
        let end = match attempt.outcome {
            AttemptOutcome::Timeout => RequestEnd::TimedOut,
            _ if failure == FailureKind::Timeout.as_str() => RequestEnd::TimedOut,
            _ if failure == "rate_limited" => RequestEnd::RateLimited,
            _ => RequestEnd::Failed,
        };
        (end, Some(failure))
    };
    match race.outcome {
        RaceOutcome::Ok if winner.is_some_and(|winner| winner.outcome == AttemptOutcome::Won) => {
            (RequestEnd::Answered, None)
        }
        RaceOutcome::ClientGone | RaceOutcome::Shutdown => (RequestEnd::CutShort, None),
        // The gateway sets an upstream aside after a 429, and then sends nothing.
        RaceOutcome::Rejected if race.http_status == Some(429) => (RequestEnd::RateLimited, Some("rate_limited")),
        _ => match winner.or(last) {
            Some(attempt) => failed(attempt),
            None => (RequestEnd::Failed, Some("rejected")),
        },
    }
}

pub(super) struct Sending {
    pub client: LoadClient,
    pub prompts: PromptMaker,
    pub spend: Spend,
    pub run_id: String,
    /// Members that are added to each request.
    members: Map<String, Value>,
    /// Their bytes.
    added: usize,
    /// Microseconds of the longest answer so far.
    longest_us: AtomicI64,
    /// Of all requests so far.
    cost: Mutex<CostSum>,
}

impl Sending {
    pub fn new(
        client: LoadClient,
        prompts: PromptMaker,
        spend: Spend,
        members: Map<String, Value>,
        run_id: String,
    ) -> Sending {
        let added = if members.is_empty() { 0 } else { Value::Object(members.clone()).to_string().len() };
        let (longest_us, cost) = (AtomicI64::new(0), Mutex::default());
        Sending { client, prompts, spend, run_id, members, added, longest_us, cost }
    }

    /// A prompt with the members that are added to each.
    pub fn prompt(&self, number: u64, target: &LoadTarget) -> Prompt {
        let mut prompt = self.prompts.make(number, target.lane, &target.name);
        prompt.members.extend(self.members.clone());
        prompt
    }

    /// The same of the next turn of a session; none at its end.
    pub fn turn(&self, session: &mut LoadSession, number: u64, target: &LoadTarget) -> Option<Prompt> {
        let mut prompt = self.prompts.turn(session, number, target.lane, &target.name)?;
        prompt.members.extend(self.members.clone());
        Some(prompt)
    }

    /// Tokens of a prompt that is made.
    fn input_tokens(&self, prompt: &Prompt) -> u32 {
        prompt.tokens.unwrap_or(self.prompts.workload().input_tokens)
    }

    /// USD, if the server keeps to its bounds.
    pub fn estimate(&self, prompt: &Prompt, target: &LoadTarget) -> f64 {
        estimated_usd(target, prompt, self.input_tokens(prompt), self.added)
    }

    /// How long the answer to this prompt is waited for: as long as one may need, or twice as long as one took so far.
    pub fn patience(&self, prompt: &Prompt) -> Duration {
        let input = f64::from(self.input_tokens(prompt));
        let longest = Duration::from_micros(self.longest_us.load(Ordering::Relaxed).unsigned_abs());
        patience(input, answer_tokens(&prompt.members)).max(2 * longest)
    }

    /// A request cost this.
    pub fn costs(&self, cost: &CostSum) {
        self.cost.lock().unwrap_or_else(PoisonError::into_inner).merge(cost);
    }

    pub fn cost(&self) -> CostSum {
        *self.cost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer took this time.
    pub fn took(&self, answer_us: i64) {
        self.longest_us.fetch_max(answer_us, Ordering::Relaxed);
    }
}

/// Members of a request that bound the length of an answer, by vendor. The longest counts.
pub const ANSWER_BOUNDS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
/// The member that says how many answers one request gets.
pub const CHOICES: &str = "n";
/// Bytes of a token at least, for text that was not made here.
const BYTES_PER_TOKEN_LEAST: f64 = 2.0;

/// USD, if every upstream of the target reads the prompt and writes as much as it may. `input_tokens`: of a made prompt.
/// `added`: bytes of the members that every request of the run has in addition to its prompt.
pub fn estimated_usd(target: &LoadTarget, prompt: &Prompt, input_tokens: u32, added: usize) -> f64 {
    let input = match prompt.bytes {
        0 => Value::Object(prompt.members.clone()).to_string().len() as f64 / BYTES_PER_TOKEN_LEAST,
        _ => f64::from(input_tokens) * INPUT_MARGIN + added as f64 / BYTES_PER_TOKEN_LEAST,
    };
    let output = answer_tokens(&prompt.members);
    target.prices.iter().flatten().map(|price| price.most_usd(input, output, false)).sum()
}

/// Tokens of all answers to a request with these members.
pub fn answer_tokens(members: &Map<String, Value>) -> f64 {
    let number = |name: &str| members.get(name).and_then(Value::as_f64);
    let longest = ANSWER_BOUNDS.iter().filter_map(|name| number(name)).fold(0.0, f64::max);
    longest * number(CHOICES).unwrap_or(1.0).max(1.0)
}

/// Time for a whole answer at least, however short it is to be.
const ANSWER_LEAST: Duration = Duration::from_secs(30);
/// How long a whole answer of a benchmark may take, however long it is to be.
const ANSWER_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Tokens per second of an answer that is not waited for to its end. A model at this speed is of no use to a reader.
const OUTPUT_PER_SECOND: f64 = 5.0;
/// Tokens per second at which its prompt is read.
const INPUT_PER_SECOND: f64 = 1_000.0;

/// The time for one answer of at most `output_tokens` to a prompt of `input_tokens`.
pub fn patience(input_tokens: f64, output_tokens: f64) -> Duration {
    let seconds = input_tokens / INPUT_PER_SECOND + output_tokens / OUTPUT_PER_SECOND;
    Duration::try_from_secs_f64(seconds).unwrap_or(ANSWER_FOR).clamp(ANSWER_LEAST, ANSWER_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_facts::record::sample;

    fn settled(race: RaceRecord, attempts: Vec<AttemptRecord>) -> MeasuredRequest {
        let race = RaceRecord { source: RaceSource::Bench, ..race };
        let rows: Vec<Record> = std::iter::once(Record::Race(Box::new(race)))
            .chain(attempts.into_iter().map(|attempt| Record::Attempt(Box::new(attempt))))
            .collect();
        measured(&rows).unwrap().1
    }

    #[test]
    fn an_answer_is_measured_from_its_first_dispatch() {
        let race = RaceRecord {
            winner: Some(1),
            outcome: RaceOutcome::Ok,
            scheduled_us: Some(-70),
            done_us: Some(9_000),
            ..sample::race(1)
        };
        let dead = AttemptRecord { ordinal: 0, dispatch_us: 100, ..sample::failed(1) };
        let won = AttemptRecord { ordinal: 1, dispatch_us: 1_100, ..sample::won(1) };
        let measured = settled(race, vec![won.clone(), dead]);
        assert_eq!(measured.end, RequestEnd::Answered);
        assert_eq!(measured.ttft_us, won.first_token_us.map(|at| at + 1_000), "a failed first try is part of it");
        let placed = measured.scheduled_at(5_000);
        assert_eq!((placed.scheduled_us, placed.sent_us, placed.ended_us), (5_000, 5_170, 14_070));
    }

    #[test]
    fn failures_have_their_names() {
        let bare = |outcome, status| RaceRecord { winner: None, outcome, http_status: status, ..sample::race(1) };
        let limited = AttemptRecord { failure: Some("rate_limited"), ..sample::failed(1) };
        let late = AttemptRecord { outcome: AttemptOutcome::Timeout, failure: Some("timeout"), ..sample::failed(1) };
        for (race, attempts, end) in [
            (bare(RaceOutcome::Error, Some(429)), vec![limited], RequestEnd::RateLimited),
            (bare(RaceOutcome::Rejected, Some(429)), vec![], RequestEnd::RateLimited),
            (bare(RaceOutcome::Error, Some(504)), vec![late], RequestEnd::TimedOut),
            (bare(RaceOutcome::Error, Some(502)), vec![sample::failed(1)], RequestEnd::Failed),
            (bare(RaceOutcome::Rejected, Some(503)), vec![], RequestEnd::Failed),
            (bare(RaceOutcome::ClientGone, None), vec![], RequestEnd::CutShort),
        ] {
            assert_eq!(settled(race, attempts).end, end);
        }
    }

    #[tokio::test]
    async fn rows_and_requests_may_come_in_either_order() {
        let feed = RowFeed::new();
        let rows = |source| [Record::Race(Box::new(RaceRecord { source, ..sample::race(1) }))];
        let id = sample::race(1).race_id;
        feed.settled(&rows(RaceSource::Client));
        assert!(feed.0.lock().unwrap().is_empty(), "a client's are not kept");
        feed.settled(&rows(RaceSource::Bench));
        assert!(feed.measured(&id).await.is_some());
        let (waits, ()) = tokio::join!(feed.measured(&id), async { feed.settled(&rows(RaceSource::Probe)) });
        assert!(waits.is_some());
        assert!(feed.0.lock().unwrap().is_empty(), "nothing is kept");
    }
}

#[cfg(test)]
mod estimate_tests {
    use http::HeaderMap;
    use serde_json::json;

    use super::*;
    use photofinish_config::Price;

    #[test]
    fn the_longest_answer_counts_as_often_as_it_is_asked_for() {
        let tokens = |members: Value| answer_tokens(members.as_object().unwrap());
        assert_eq!(tokens(json!({ "max_tokens": 200 })), 200.0);
        assert_eq!(tokens(json!({ "max_tokens": 200, "max_completion_tokens": 50_000 })), 50_000.0);
        assert_eq!(tokens(json!({ "max_output_tokens": 300, "max_tokens": 200, "n": 10 })), 3_000.0);
    }

    #[test]
    fn every_upstream_is_paid_for_and_added_members_are_read_too() {
        let price = Some(Price { input: 1.0, cached: 0.1, written: 1.25, output: 10.0, long: None });
        let target = |prices: Vec<Option<Price>>| LoadTarget {
            name: String::new(),
            model: String::new(),
            headers: HeaderMap::new(),
            prices,
            lane: 0,
        };
        let members = json!({ "messages": [], "max_tokens": 200 }).as_object().unwrap().clone();
        let prompt = |bytes: usize| Prompt { members: members.clone(), bytes, ..Prompt::default() };
        let made = prompt(5_600);
        let near = |usd: f64, expected: f64| assert!((usd - expected).abs() < 1e-12, "{usd}");
        near(estimated_usd(&target(vec![price]), &made, 1_000, 0), (1_500.0 * 1.25 + 2_000.0) / 1e6);
        near(estimated_usd(&target(vec![price, None, price]), &made, 1_000, 0), 2.0 * (1_500.0 * 1.25 + 2_000.0) / 1e6);
        near(estimated_usd(&target(vec![price]), &made, 1_000, 400), (1_700.0 * 1.25 + 2_000.0) / 1e6);
        // The bytes of a given prompt count, not the workload's.
        near(estimated_usd(&target(vec![price]), &prompt(0), 1_000, 400), (16.0 * 1.25 + 2_000.0) / 1e6);
    }
}

#[cfg(test)]
mod patience_tests {
    use super::*;

    #[test]
    fn longer_answers_are_awaited_for_longer_and_none_forever() {
        let table = [
            (200.0, 16.0, 30),
            (500.0, 200.0, 40),
            (1_000.0, 1_000.0, 201),
            (100_000.0, 2_000.0, 500),
            (f64::NAN, 1.0, 86_400),
            (1.0, 1e300, 86_400),
            (-5.0, -5.0, 86_400),
        ];
        for (input, output, seconds) in table {
            assert_eq!(patience(input, output).as_secs(), seconds, "{input} {output}");
        }
    }
}
