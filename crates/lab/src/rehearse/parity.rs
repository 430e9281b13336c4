//! The gateway and the rehearsal decide in the same way: the same requests with the same draws, the gateway on a
//! stopped clock with upstreams in memory. Every start, its reason, every cut, every winner, and the learned and
//! reserved values must be equal.

mod scenario;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::rehearse::{AttemptEnd, PlayedRace, Rehearsal, SimulatedRequest, SimulatedResponse};
use photofinish_base::clock::SECOND_US;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::Policy;
use photofinish_facts::record::{AttemptOutcome, Record, StartReason};
use photofinish_facts::recording::AttemptStep;
use photofinish_gateway::proxy::{Client, Gateway, serve};
use photofinish_history::recorder::{RaceObserver, Recorder};
use photofinish_routing::health::LiveConfig;
use photofinish_routing::learning::Learning;
use photofinish_transport::upstream::UpstreamClient;
use photofinish_wire::Surface;
use scenario::{BEGIN_US, Scenario};

/// Compared seeds per policy.
const COMPARED: usize = 8;
/// A lost trial, a look or one of which hardly anything is known runs on to its first token. The rehearsal records its end when it loses, the gateway when it ends.
const RAN_ON: &str = "ran on";

/// The decisions of one race. Times are microseconds since the request.
#[derive(Debug, PartialEq)]
struct Decided {
    why: Option<String>,
    winner: Option<usize>,
    ttft_us: Option<i64>,
    attempts: Vec<Attempted>,
}

#[derive(Debug, PartialEq)]
struct Attempted {
    upstream: String,
    reason: StartReason,
    at_us: i64,
    end: &'static str,
    first_token_us: Option<i64>,
    cut_us: Option<i64>,
}

/// The decisions of the rehearsal. None if two events have the same millisecond, whose order is undefined.
fn rehearsed(scenario: &Scenario) -> Option<(Vec<Decided>, Arc<Learning>)> {
    let mut world = scenario.clone();
    let model = scenario.config().model("m").unwrap().clone();
    let learning = Arc::new(Learning::stopped());
    let rehearsal = Rehearsal { learning: learning.clone(), ..Rehearsal::new(model.race.clone(), scenario.seed) };
    let mut decided = BTreeMap::new();
    let (mut moments, mut ties) = (BTreeSet::new(), false);
    rehearsal.run(scenario.requests.iter().copied(), &mut world, &mut |race: &PlayedRace<'_>| {
        let at_us = race.request.at_us;
        let mut happens = |at_us: i64| ties |= !moments.insert(at_us / 1_000);
        happens(at_us);
        let attempts = race.attempts.iter().map(|attempt| {
            if attempt.reason == StartReason::Hedge {
                happens(at_us + attempt.after_us);
            }
            if attempt.end != AttemptEnd::Lost {
                happens(at_us + attempt.ended_us);
            }
            if let Some(first_token_us) = attempt.first_token_us {
                happens(at_us + attempt.after_us + first_token_us);
            }
            let cut = matches!(attempt.end, AttemptEnd::Lost | AttemptEnd::TimedOut);
            Attempted {
                upstream: scenario.upstreams[attempt.upstream].name.clone(),
                reason: attempt.reason,
                at_us: attempt.after_us,
                end: match attempt.end {
                    AttemptEnd::Won => "won",
                    AttemptEnd::Lost if attempt.ran_on => RAN_ON,
                    AttemptEnd::Lost => "lost",
                    AttemptEnd::TimedOut => "timed out",
                    AttemptEnd::Failed => "failed",
                },
                first_token_us: attempt.first_token_us,
                cut_us: cut.then_some(attempt.ended_us),
            }
        });
        let (why, attempts) = (race.reasons.text(), attempts.collect());
        decided.insert(race.request.id, Decided { why, winner: race.winner, ttft_us: race.ttft_us, attempts });
    });
    (!ties).then(|| (decided.into_values().collect(), learning))
}

/// All rows, by race.
#[derive(Default)]
struct Rows(Mutex<HashMap<String, Vec<Record>>>);

impl RaceObserver for Rows {
    fn step(&self, _: &photofinish_facts::record::AttemptRecord, _: AttemptStep, _: i64) {}

    fn committed(&self, _: &str, _: i64) {}

    fn recorded(&self, record: &Record) {
        let race_id = record.race_id().unwrap().to_owned();
        self.0.lock().unwrap().entry(race_id).or_default().push(record.clone());
    }

    fn settled(&self, _: &[Record]) {}
}

/// The decisions of the gateway.
async fn served(scenario: &Scenario) -> (Vec<Decided>, Arc<Learning>) {
    let began = tokio::time::Instant::now();
    let (shutdown, lines) = (Shutdown::new(), Shutdown::new());
    let upstreams = Arc::new(scenario.clone());
    let dial = {
        let lines = lines.clone();
        move |host: &str| {
            let upstream: usize = host.trim_start_matches('p').trim_end_matches(".test").parse().unwrap();
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            lines.spawn(answer(theirs, upstreams.clone(), upstream));
            ours
        }
    };
    let client = UpstreamClient::in_memory(lines.clone(), Arc::new(dial)).unwrap();
    let rows = Arc::new(Rows::default());
    let recorder = Recorder::without_store().watched(rows.clone());
    let live = LiveConfig::new(scenario.config(), &HashMap::new()).unwrap();
    let gateway = Arc::new(Gateway::new(live, client, Arc::new(recorder), shutdown.clone()));
    let asked = scenario.requests.iter().map(|request| ask(gateway.clone(), scenario, *request, began));
    let race_ids = futures_util::future::join_all(asked).await;
    // Lost probes run on for a while.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let rows = rows.0.lock().unwrap();
    let decided = race_ids.iter().map(|race_id| decided(&rows[race_id])).collect();
    let learning = gateway.learning().clone();
    shutdown.cancel();
    lines.cancel();
    (decided, learning)
}

async fn ask(
    gateway: Arc<Gateway>,
    scenario: &Scenario,
    request: SimulatedRequest,
    began: tokio::time::Instant,
) -> String {
    let after = Duration::from_micros(u64::try_from(request.at_us - BEGIN_US).unwrap());
    tokio::time::sleep_until(began + after).await;
    let head =
        format!("{{\"model\":\"m\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"{:04} ", request.id);
    let tail = "\"}]}";
    let filler = "x".repeat(scenario.bytes[request.id] - head.len() - tail.len());
    let body = Body::from(head + &filler + tail);
    fastrand::seed(scenario.draws(request.id));
    fastrand::u64(..);
    let request = http::Request::post("/v1/chat/completions").body(body).unwrap();
    let client = Client::at(Ipv4Addr::LOCALHOST.into());
    let response = serve(gateway, Surface::Chat, client, None, request).await;
    let race_id = response.headers()["x-photofinish-race"].to_str().unwrap().to_owned();
    drop(response.into_body().collect().await);
    race_id
}

/// The upstream's side of one connection, for one request.
async fn answer(mut stream: DuplexStream, scenario: Arc<Scenario>, upstream: usize) {
    let Some(id) = request_id(&mut stream).await else { return };
    let sleep = |us: i64| tokio::time::sleep(Duration::from_micros(u64::try_from(us).unwrap()));
    let refuse = |status: &str, header: String| {
        format!(
            "HTTP/1.1 {status}\r\n{header}content-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
        )
    };
    let written = match scenario.responses[id][upstream] {
        SimulatedResponse::Hangs => std::future::pending().await,
        SimulatedResponse::Fails { after_us } => {
            sleep(after_us).await;
            stream.write_all(refuse("500 Internal Server Error", String::new()).as_bytes()).await
        }
        SimulatedResponse::Limited { after_us, retry_after_us } => {
            sleep(after_us).await;
            let header = format!("retry-after: {}\r\n", retry_after_us.unwrap() / SECOND_US);
            stream.write_all(refuse("429 Too Many Requests", header).as_bytes()).await
        }
        SimulatedResponse::Answers { ttft_us, tpot_us } => {
            let tokens = scenario.requests[id].output_tokens;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let mut written = stream.write_all(head.as_bytes()).await;
            for token in 0..tokens {
                sleep(if token == 0 { ttft_us } else { tpot_us as i64 }).await;
                let chunk = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"}}]}\n\n";
                written = written.and(stream.write_all(chunk.as_bytes()).await);
            }
            let usage = format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n\
                 data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{},\"completion_tokens\":{tokens},\"total_tokens\":9}}}}\n\n\
                 data: [DONE]\n\n",
                scenario.bytes[id] / 4
            );
            written.and(stream.write_all(usage.as_bytes()).await)
        }
    };
    // A closed connection is the gateway's cut.
    drop(written);
}

/// Reads a request and returns its number: the first digits of its prompt.
async fn request_id(stream: &mut DuplexStream) -> Option<usize> {
    let mut read = Vec::new();
    loop {
        let mut buffer = [0; 4_096];
        let Ok(count @ 1..) = stream.read(&mut buffer).await else { return None };
        read.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse().unwrap() {
            return body.split_once("\"content\":\"").unwrap().1[..4].parse().ok();
        }
    }
}

fn decided(rows: &[Record]) -> Decided {
    let mut attempts = BTreeMap::new();
    let (mut why, mut winner, mut ttft_us) = (None, None, None);
    for row in rows {
        match row {
            Record::Race(race) => {
                (why, ttft_us) = (race.why.clone(), race.first_token_sent_us);
                winner = race.winner.and_then(|winner| usize::try_from(winner).ok());
            }
            Record::Run(_) | Record::Incident(_) => {}
            Record::Attempt(attempt) => {
                let end = match attempt.outcome {
                    AttemptOutcome::Won => "won",
                    AttemptOutcome::Failed => "failed",
                    AttemptOutcome::Timeout => "timed out",
                    _ => "lost",
                };
                let cut = matches!(end, "lost" | "timed out").then_some(attempt.cancel_us).flatten();
                attempts.insert(
                    attempt.ordinal,
                    Attempted {
                        upstream: format!("{}/{}", attempt.provider, attempt.model_sent),
                        reason: attempt.start_reason,
                        at_us: attempt.dispatch_us,
                        end,
                        first_token_us: attempt.first_token_us.filter(|_| !attempt.audited),
                        cut_us: cut.map(|us| attempt.dispatch_us + us).filter(|_| !attempt.audited),
                    },
                );
            }
        }
    }
    Decided { why, winner, ttft_us, attempts: attempts.into_values().collect() }
}

/// What was learned of every upstream, and the state of the budget.
fn learned(learning: &Learning, scenario: &Scenario, model: &str, money: bool) -> Vec<f64> {
    let budget = scenario.config().model("m").unwrap().race.budget;
    let terms = learning.cost_budget(model, budget, money).lock().unwrap().terms();
    let budget = [terms.bucket, terms.mean_cost, terms.answer_tokens, terms.p99_us, terms.lambda_us];
    let upstreams = scenario.upstreams.iter().flat_map(|upstream| {
        let outlook = learning.upstream(&upstream.name).forecast();
        let tpot_us = outlook.tpot_us(0).unwrap_or(0.0);
        [outlook.seen(), outlook.launches() as f64, outlook.load_slope(), tpot_us]
    });
    budget.into_iter().chain(upstreams).collect()
}

/// The differences, as text.
async fn differences(policy: &str, seed: u64) -> Option<Vec<String>> {
    let scenario = Scenario::new(policy, seed);
    let (expected, expected_learning) = rehearsed(&scenario)?;
    let (found, found_learning) = served(&scenario).await;
    let mut differences = Vec::new();
    for (id, (mut expected, found)) in expected.into_iter().zip(found).enumerate() {
        for (expected, found) in expected.attempts.iter_mut().zip(&found.attempts).filter(|(one, _)| one.end == RAN_ON)
        {
            (expected.end, expected.first_token_us, expected.cut_us) = (found.end, found.first_token_us, found.cut_us);
        }
        if found != expected {
            differences.push(format!("request {id}: gateway {found:?}, rehearsal {expected:?}"));
        }
    }
    let [found, expected] = [(&found_learning, "m", false), (&expected_learning, "", true)]
        .map(|(learning, model, money)| learned(learning, &scenario, model, money));
    for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let close = found == expected || (found - expected).abs() <= 1e-6 * expected.abs().max(1.0);
        if !close {
            differences.push(format!("statistic {place}: gateway {found}, rehearsal {expected}"));
        }
    }
    let shown = differences.into_iter().take(2);
    Some(shown.map(|difference| format!("{policy}, seed {seed}, {difference}")).collect())
}

#[tokio::test(start_paused = true)]
async fn the_gateway_and_the_rehearsal_take_the_same_decisions() {
    let mut all = Vec::new();
    for policy in Policy::ALL.map(Policy::as_str) {
        let (mut compared, mut seed) = (0, 0);
        while compared < COMPARED {
            if let Some(differences) = differences(policy, seed).await {
                all.extend(differences);
                compared += 1;
            }
            seed += 1;
        }
    }
    assert!(all.is_empty(), "{} differences:\n{}", all.len(), all.join("\n"));
}
