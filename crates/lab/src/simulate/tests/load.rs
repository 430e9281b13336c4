//! What requests do to each other: queue, load, prefill, cache, stalls, and the truth file. On a stopped clock.

use futures_util::future::join_all;
use http_body_util::BodyExt;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::sleep_until;

use super::super::request::{RequestKind, ValidRequest};
use super::*;
use photofinish_base::clock::{Instant, micros};
use photofinish_config::ServerStall;

const MS: Duration = Duration::from_millis(1);

/// A server without sockets: 200 ms to the first token, 25 ms between tokens, 5 tokens.
struct Server {
    answers: Answers,
    tally: Arc<Tally>,
    start: Instant,
}

/// An event and the whole milliseconds from the start to it.
type TimedEvent = (u64, Value);

fn exact() -> Simulation {
    Simulation { jitter: 0.0, tokens_per_second: 40.0, tokens: 5, seed: Some(1), ..Simulation::default() }
}

fn server(simulation: Simulation, truth: Option<Arc<TruthFile>>) -> Server {
    let shared = Arc::new(SharedServer::new(&simulation));
    let start = shared.started();
    let tally = Arc::new(Tally::new(start, truth));
    Server { answers: Answers::new("demo", simulation, shared, Arc::clone(&tally)), tally, start }
}

impl Server {
    /// The events of a streamed answer to a request that comes at `at`.
    async fn stream(&self, at: Duration, prompt: &str) -> Vec<TimedEvent> {
        let request = json!({
            "model": "m", "stream": true, "stream_options": { "include_usage": true }, "messages": [prompt],
        });
        self.ask(at, request).await
    }

    async fn ask(&self, at: Duration, request: Value) -> Vec<TimedEvent> {
        sleep_until(self.start + at).await;
        let request = ValidRequest::parse(RequestKind::Chat, &request.to_string().into()).unwrap();
        let mut body = self.answers.give(request, None, 1).await.unwrap().into_body();
        let mut events = Vec::new();
        while let Some(frame) = body.frame().await {
            let text = String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap();
            let at = self.since_start(Instant::now());
            let data = |event: &str| serde_json::from_str(event.trim_start_matches("data: ")).unwrap_or(Value::Null);
            events.extend(text.split_terminator("\n\n").map(|event| (at, data(event))));
        }
        events
    }

    /// The ended requests in the order of their arrival.
    fn ended(&self) -> Vec<FinishedRequest> {
        let mut ended = self.tally.ended();
        ended.sort_by_key(|request| request.started);
        ended
    }

    fn since_start(&self, at: Instant) -> u64 {
        (at - self.start).as_millis() as u64
    }
}

/// When the events with text came.
fn texts(events: &[TimedEvent]) -> Vec<(u64, String)> {
    let text = |event: &Value| Some(event["choices"][0]["delta"]["content"].as_str()?.to_owned());
    let texts = events.iter().filter_map(|(at, event)| Some((*at, text(event)?)));
    texts.filter(|(_, text)| !text.is_empty()).collect()
}

fn times(events: &[TimedEvent]) -> Vec<u64> {
    texts(events).into_iter().map(|(at, _)| at).collect()
}

fn usage(events: &[TimedEvent]) -> &Value {
    events.iter().map(|(_, event)| &event["usage"]).find(|usage| usage.is_object()).unwrap_or(&Value::Null)
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_a_slot_in_their_order() {
    let server = server(Simulation { slots: 1, tokens: 1, ..exact() }, None);
    let answers = join_all((0..3).map(|at| server.stream(10 * at * MS, "hi"))).await;
    assert_eq!(answers.iter().map(|events| times(events)[0]).collect::<Vec<_>>(), [200, 400, 600]);
    let began: Vec<u64> = server.ended().iter().map(|request| server.since_start(request.began.unwrap())).collect();
    assert_eq!(began, [0, 200, 400]);
    assert_eq!(answers[1][0].0, 200, "the role comes when service begins");
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_queue_or_a_slot_makes_room() {
    let server = server(Simulation { slots: 1, tokens: 1, ..exact() }, None);
    let leaves = |at, after: Duration| tokio::time::timeout(after, server.stream(at, "hi"));
    let (served, queued, last) =
        tokio::join!(leaves(Duration::ZERO, 150 * MS), leaves(10 * MS, 100 * MS), server.stream(20 * MS, "hi"));
    assert!(served.is_err() && queued.is_err());
    assert_eq!(times(&last), [350], "it begins when the first one leaves");
    let ended = server.ended();
    assert_eq!((ended[1].end, ended[1].began), (RequestOutcome::Cancelled, None));
    assert_eq!(server.tally.counts().running, 0);
}

#[tokio::test(start_paused = true)]
async fn every_request_in_service_slows_the_others() {
    let server = server(Simulation { slowdown: 0.5, ..exact() }, None);
    let answers = join_all((0..3).map(|_| server.stream(Duration::ZERO, "hi"))).await;
    for events in &answers {
        assert_eq!(times(events), [200, 250, 300, 350, 400], "1 + 0.5 × 2 times as long");
    }
    let alone = server.stream(1_000 * MS, "hi").await;
    assert_eq!(times(&alone), [1_200, 1_225, 1_250, 1_275, 1_300]);
    let whole = json!({ "model": "m", "messages": ["hi"] });
    join_all([server.ask(2_000 * MS, whole.clone()), server.ask(2_000 * MS, whole)]).await;
    assert_eq!(server.start.elapsed(), 2_350 * MS, "whole answers take as long as streams: 200 + 4 × 37.5");
}

#[tokio::test(start_paused = true)]
async fn a_longer_prompt_takes_longer_to_read() {
    let server = server(Simulation { prefill: 1_000.0, ..exact() }, None);
    // With its quotes and brackets the prompt has 4,000 bytes: 1,000 tokens.
    let events = server.stream(Duration::ZERO, &"x".repeat(3_996)).await;
    assert_eq!(times(&events)[0], 1_200);
    assert_eq!(usage(&events)["prompt_tokens"], 1_000);
    assert_eq!(usage(&events)["prompt_tokens_details"], Value::Null, "no cache");
}

#[tokio::test(start_paused = true)]
async fn a_known_beginning_is_not_read_again() {
    let server = server(Simulation { prefill: 1_000.0, prefix_cache: true, ..exact() }, None);
    let prompt = "x".repeat(3_996);
    let cold = server.stream(Duration::ZERO, &prompt).await;
    assert_eq!(usage(&cold)["prompt_tokens_details"]["cached_tokens"], 0);
    let warm = server.stream(2_000 * MS, &prompt).await;
    // 62 blocks of 16 tokens.
    assert_eq!(usage(&warm)["prompt_tokens_details"]["cached_tokens"], 992);
    assert_eq!(times(&warm)[0], 2_208);
    let salted = server.stream(4_000 * MS, &format!("salt {prompt}")).await;
    assert_eq!(usage(&salted)["prompt_tokens_details"]["cached_tokens"], 0);
    let request = &server.ended()[1];
    assert_eq!((request.input_tokens, request.cached_tokens, request.tokens), (1_000, 992, 5));
}

#[tokio::test(start_paused = true)]
async fn an_event_carries_several_tokens() {
    let of = |tokens_per_event| server(Simulation { tokens_per_event, tokens: 10, ..exact() }, None);
    let (by_one, by_four) = (of(1).stream(Duration::ZERO, "hi").await, of(4).stream(Duration::ZERO, "hi").await);
    let joined = |events: &[TimedEvent]| texts(events).into_iter().map(|(_, text)| text).collect::<String>();
    assert_eq!(joined(&by_one), joined(&by_four));
    assert_eq!(times(&by_four), [200, 300, 350], "four, four and two tokens at 25 ms each");
    assert_eq!(usage(&by_four)["completion_tokens"], 10);
    let server = of(4);
    server.ask(Duration::ZERO, json!({ "model": "m", "messages": ["hi"] })).await;
    assert_eq!(server.start.elapsed(), 350 * MS);
}

#[tokio::test(start_paused = true)]
async fn in_a_stall_the_whole_server_stands_still() {
    let stall = Some(ServerStall { length: 500 * MS, every: 1_000 * MS });
    let server = server(Simulation { stall, slots: 1, ..exact() }, None);
    let (running, queued) = tokio::join!(server.stream(760 * MS, "hi"), server.stream(770 * MS, "hi"));
    // The work of 40 ms that a stall interrupts goes on after it.
    assert_eq!(times(&running), [960, 985, 1_510, 1_535, 1_560]);
    assert_eq!(times(&queued), [1_760, 1_785, 1_810, 1_835, 1_860]);
}

#[tokio::test(start_paused = true)]
async fn usage_can_be_left_out() {
    let server = server(Simulation { usage: false, ..exact() }, None);
    let events = server.stream(Duration::ZERO, "hi").await;
    assert!(events.iter().all(|(_, event)| event.get("usage").is_none()), "{events:?}");
    let whole = server.ask(Duration::ZERO, json!({ "model": "m", "messages": ["hi"] })).await;
    assert_eq!((&whole[0].1["object"], whole[0].1.get("usage")), (&"chat.completion".into(), None));
}

#[tokio::test(start_paused = true)]
async fn the_truth_file_says_what_the_client_saw() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth.jsonl");
    let truth = TruthFile::create(&path).unwrap();
    let server = server(Simulation { slots: 1, tokens_per_event: 2, ..exact() }, Some(Arc::clone(&truth)));
    truth.begin("demo", server.start, &Shutdown::new());
    let prompts = ["bench-a", "bench-b and bench-c"];
    let seen = join_all(prompts.map(|prompt| server.stream(30 * MS, prompt))).await;
    server.ask(Duration::ZERO, json!({ "model": "fail-500", "messages": [] })).await;
    truth.flush();
    let written = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [head, first, second, failed] = &lines[..] else { panic!("{written}") };
    assert_eq!(head["simulator"], "demo");
    assert!(head["started_at_us"].as_i64().unwrap() > 1_700_000_000_000_000, "{head}");
    for (line, events) in [first, second].into_iter().zip(&seen) {
        let truth: Vec<u64> =
            line["events_us"].as_array().unwrap().iter().map(|at| at.as_u64().unwrap() / 1_000).collect();
        assert_eq!(truth, times(events));
    }
    let of = |line: &Value, names: &[&str]| names.iter().map(|name| line[*name].clone()).collect::<Vec<_>>();
    let names = [
        "id",
        "marker",
        "arrived_us",
        "began_us",
        "ended_us",
        "freed_us",
        "end",
        "tokens",
        "input_tokens",
        "cached_tokens",
    ];
    assert_eq!(
        of(first, &names),
        *json!(["req-simulated-1", "bench-a", 30_000, 30_000, 305_000, 305_000, "completed", 5, 3, 0])
            .as_array()
            .unwrap()
    );
    assert_eq!(of(second, &names[1..4]), *json!(["bench-c", 30_000, 305_000]).as_array().unwrap());
    assert_eq!(
        of(failed, &["end", "began_us", "freed_us", "events_us"]),
        *json!(["failed", null, null, []]).as_array().unwrap()
    );
}

/// `/dev/full` is a disk without room.
#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_full_disk_stops_nothing() {
    let truth = TruthFile::create(std::path::Path::new("/dev/full")).unwrap();
    let server = server(exact(), Some(Arc::clone(&truth)));
    truth.begin("demo", server.start, &Shutdown::new());
    for _ in 0..2 {
        let next = server.start.elapsed();
        assert_eq!(times(&server.stream(next, "hi").await).len(), 5);
        truth.flush();
    }
    assert_eq!(server.tally.counts().completed, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The queue is the textbook's: each request begins when it arrives, or when the first slot is free after all that came before
    /// it (Kiefer and Wolfowitz). Lateness of timers, a millisecond each, does not add up.
    #[test]
    fn the_queue_is_first_come_first_served(
        slots in 1_u32..5,
        gaps in prop::collection::vec(1_u64..120, 1..60),
        seed in 0_u64..1_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let jitter = 0.5;
            let server = server(Simulation { slots, jitter, tokens: 2, seed: Some(seed), ..exact() }, None);
            let arrivals = gaps.iter().scan(0, |at, gap| {
                *at += gap;
                Some(Duration::from_millis(*at))
            });
            join_all(arrivals.map(|at| server.stream(at, "hi"))).await;
            let mut free = vec![0; slots as usize];
            for request in server.ended() {
                let at = |at: Instant| micros(at - server.start);
                let (arrived, began) = (at(request.started), at(request.began.unwrap()));
                free.sort_unstable();
                // The end that counts is when the last token was due: at most 1 ms before it was sent.
                prop_assert!((arrived.max(free[0]) - began).abs() <= 1_000, "{} or {}, not {}", arrived, free[0], began);
                free[0] = at(request.ended);
            }
            Ok(())
        })?;
    }
}
