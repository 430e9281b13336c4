//! A seeded check of the whole gateway over sockets: random providers, settings, clients, reloads and shutdowns, and
//! the invariants that must hold for each. `PHOTOFINISH_WORLDS` sets the number of worlds; a violation prints its seed,
//! and `PHOTOFINISH_WORLD` runs only that seed.
//!
//! Time is real here, so a seed fixes the requests but not the order of events: the invariants hold for any order.
//! `race::model_check` checks only the race, on a stopped clock.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use photofinish_config::Policy;
use serde_json::{Value, json};

use crate::harness::answer::Response;
use crate::harness::gateway::{CHAT, Row, Rows, Setup};
use crate::support::{FakeProvider, RawClient, Script};

/// The possible Retry-After values of a provider.
const WAITS_MS: [u64; 3] = [10, 40, 90];

/// The behaviour of a provider, request by request.
#[derive(Clone, Debug)]
struct Temper {
    name: &'static str,
    does: Vec<Deed>,
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Answers after this many milliseconds.
    Answer(u64),
    Limited(u64),
    Status(u16),
    Refuse,
    TooLong,
    Reset,
    /// Breaks after its first token.
    Break,
    Cut,
    Empty,
    Silence,
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    policy: &'static str,
    max_attempts: usize,
    retries: u32,
    completion: bool,
    audit: bool,
    breaker: u32,
    max_in_flight: usize,
}

#[derive(Clone, Debug)]
struct World {
    tempers: Vec<Temper>,
    rules: Rules,
    /// Rules after a reload in the middle of the run.
    then: Option<Rules>,
    /// Whether each client streams, and after how many milliseconds it leaves. None: it stays.
    clients: Vec<(bool, Option<u64>)>,
    /// The gateway is stopped while clients wait.
    is_stopped_early: bool,
}

fn temper(random: &mut fastrand::Rng, name: &'static str) -> Temper {
    let deed = |random: &mut fastrand::Rng| match random.u8(0..18) {
        0..6 => Deed::Answer(random.u64(0..30)),
        6 | 7 => Deed::Limited(WAITS_MS[random.usize(0..WAITS_MS.len())]),
        8 => Deed::Status(500),
        9 => Deed::Status(503),
        10 => Deed::Status(400),
        11 => Deed::Refuse,
        12 => Deed::TooLong,
        13 => Deed::Reset,
        14 => Deed::Break,
        15 => Deed::Cut,
        16 => Deed::Empty,
        _ => Deed::Silence,
    };
    Temper { name, does: (0..random.usize(1..5)).map(|_| deed(random)).collect() }
}

fn rules(random: &mut fastrand::Rng) -> Rules {
    Rules {
        policy: Policy::ALL[random.usize(0..Policy::ALL.len())].as_str(),
        max_attempts: random.usize(1..6),
        retries: random.u32(0..3),
        completion: random.bool(),
        audit: random.bool(),
        breaker: random.u32(0..3),
        max_in_flight: if random.u8(0..4) == 0 { 2 } else { 64 },
    }
}

fn world(seed: u64) -> World {
    let random = &mut fastrand::Rng::with_seed(seed);
    let tempers = ["a", "b", "c"].iter().take(random.usize(1..4)).map(|name| temper(random, name)).collect();
    World {
        tempers,
        rules: rules(random),
        then: random.bool().then(|| rules(random)),
        clients: (0..random.usize(2..7))
            .map(|_| (random.bool(), (random.u8(0..4) == 0).then(|| random.u64(0..60))))
            .collect(),
        is_stopped_early: random.u8(0..3) == 0,
    }
}

/// The tokens of a provider's answer to its request of this number: no two answers are alike.
fn tokens(name: &str, number: usize) -> Vec<String> {
    (0..4).map(|token| format!("{name}{number}.{token} ")).collect()
}

fn script(temper: &Temper, number: usize) -> Script {
    let tokens = tokens(temper.name, number);
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    match temper.does[number % temper.does.len()] {
        Deed::Answer(delay) => {
            let mut script = Script::new().delay(Duration::from_millis(delay));
            script.steps.extend(Script::stream(&tokens).steps);
            script
        }
        Deed::Limited(wait) => Script::status(429, &[("retry-after-ms", &wait.to_string())], "{}"),
        Deed::Status(status) => Script::status(status, &[], r#"{"error":{"message":"no"}}"#),
        Deed::Refuse => Script::status(400, &[], r#"{"error":{"code":"content_filter","message":"no"}}"#),
        Deed::TooLong => Script::status(400, &[], r#"{"error":{"code":"context_length_exceeded","message":"long"}}"#),
        Deed::Reset => Script::new().reset(),
        Deed::Break => Script::sse().role().tokens(&tokens[..2]).reset(),
        Deed::Cut => Script::sse().role().tokens(&tokens[..2]).close(),
        Deed::Empty => Script::sse().role().finish("stop").done().end(),
        Deed::Silence => Script::new().until_closed(),
    }
}

fn setup(fakes: &[FakeProvider], rules: &Rules) -> Setup {
    let Rules { policy, max_attempts, retries, completion, audit, breaker, max_in_flight } = *rules;
    let fakes: Vec<&FakeProvider> = fakes.iter().collect();
    let (optimise, audit) = (if completion { "completion" } else { "ttft" }, u8::from(audit));
    let race = format!(
        "policy = \"{policy}\"\nmax_attempts = {max_attempts}\nretries = {retries}\nretry_wait = \"60ms\"\noptimise = \"{optimise}\"\n\
         audit = {audit}.0\nbreaker = {{ failures = {breaker}, open = \"20ms\" }}\nhedge_after = \"15ms\"\n\
         timeouts = {{ first_token = \"120ms\", idle = \"120ms\", total = \"900ms\" }}"
    );
    Setup::over(&fakes).race(&race).server(&format!("drain = \"50ms\"\nmax_in_flight = {max_in_flight}"))
}

/// One client's request: its response, unless the client left or the gateway stopped.
async fn ask(addr: SocketAddr, streams: bool, leaves: Option<u64>, gateway_stops: bool) -> Option<Response> {
    let mut client = match RawClient::try_connect(addr).await {
        Err(_) if gateway_stops => return None,
        client => client.unwrap(),
    };
    let body = json!({ "model": "m", "stream": streams, "messages": [{ "role": "user", "content": "x" }] });
    client.post(CHAT, &body).await;
    let answer = async {
        let head = match client.try_head().await {
            Err(_) if gateway_stops => return None,
            head => head.unwrap(),
        };
        let body = client.body(&head).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Some(Response { status: head.status, headers: head.headers, body })
    };
    match leaves {
        None => answer.await,
        // The client leaves then, whatever it has received.
        Some(leaves) => tokio::time::timeout(Duration::from_millis(leaves), answer).await.ok().flatten(),
    }
}

/// All clients at once: whether each streams, and its response.
async fn ask_all(
    addr: SocketAddr,
    clients: &[(bool, Option<u64>)],
    gateway_stops: bool,
) -> Vec<(bool, Option<Response>)> {
    let one = |(streams, leaves): &(bool, Option<u64>)| {
        let (streams, leaves) = (*streams, *leaves);
        async move { (streams, ask(addr, streams, leaves, gateway_stops).await) }
    };
    futures_util::future::join_all(clients.iter().map(one)).await
}

async fn play(seed: u64) {
    let world = world(seed);
    let context = format!("seed {seed}: {world:?}");
    let mut fakes = Vec::new();
    for temper in &world.tempers {
        let temper = temper.clone();
        fakes.push(FakeProvider::answering(move |request| script(&temper, request.number)).await);
    }
    let gateway = setup(&fakes, &world.rules).start().await;
    let addr = gateway.addr();
    let (response, rows) = if world.is_stopped_early {
        let first = &fakes[0];
        let stopped = async {
            // By then a request has reached a provider, or all were refused.
            let _ = tokio::time::timeout(Duration::from_millis(50), first.request(0)).await;
            gateway.stop().await
        };
        tokio::join!(ask_all(addr, &world.clients, true), stopped)
    } else {
        let (now, later) = world.clients.split_at(world.clients.len() / 2);
        let reload = async {
            if let Some(then) = &world.then {
                gateway.reload(&setup(&fakes, then)).await;
            }
        };
        let (mut response, ()) = tokio::join!(ask_all(addr, now, false), reload);
        response.extend(ask_all(addr, later, false).await);
        gateway.settled(&context).await;
        (response, gateway.stop().await)
    };
    for (streams, response) in &response {
        if let Some(response) = response {
            check_answer(*streams, response, &fakes, &world, &context);
        }
    }
    check_rows(&rows, &fakes, &world, &context);
}

/// A client gets one provider's whole answer from the first word to the last, or an error.
fn check_answer(streams: bool, response: &Response, fakes: &[FakeProvider], world: &World, context: &str) {
    let is_whole = |text: &str| {
        world.tempers.iter().zip(fakes).any(|(temper, fake)| {
            let mut numbers = 0..fake.requests().len();
            numbers.any(|number| tokens(temper.name, number).concat() == text)
        })
    };
    if response.status != 200 {
        assert!(!response.json()["error"].is_null(), "neither answer nor error: {response:?} {context}");
        return;
    }
    if !streams {
        let answer = response.json();
        let choice = &answer["choices"][0];
        let text = choice["message"]["content"].as_str().unwrap_or_default();
        assert!(is_whole(text) || text.is_empty(), "not one whole answer: {response:?} {context}");
        assert_eq!(choice["finish_reason"], "stop", "{response:?} {context}");
        return;
    }
    let said = response.streamed_text();
    let has_error = response.events().iter().any(|event| event.contains("\"error\""));
    assert!(response.is_done() != has_error, "it ends in one way: {response:?} {context}");
    assert!(has_error || is_whole(&said) || said.is_empty(), "not one whole answer: {response:?} {context}");
    let begins = |name: &str, number: usize| tokens(name, number).concat().starts_with(&said);
    let is_of_one = world.tempers.iter().zip(fakes).any(|(temper, fake)| {
        let mut numbers = 0..fake.requests().len();
        numbers.any(|number| begins(temper.name, number))
    });
    assert!(said.is_empty() || is_of_one, "words of several answers: {response:?} {context}");
}

fn check_rows(rows: &Rows, fakes: &[FakeProvider], world: &World, context: &str) {
    let bounds = || std::iter::once(world.rules).chain(world.then);
    // Every upstream may replace another, and be asked again.
    let retries = bounds().map(|rules| rules.retries).max().unwrap_or_default() as usize;
    let most = world.tempers.len() * (2 + retries);
    for race in 0..rows.races.len() {
        let attempts = rows.of(race);
        assert!(attempts.len() <= most, "too many attempts: {attempts:#?} {context}");
        check_waits(&attempts, context);
        let refused = attempts.iter().position(|attempt| attempt["failure"] == "content_policy");
        if let Some(refused) = refused.map(|at| ended_us(attempts[at])) {
            let later = attempts.iter().any(|attempt| dispatch_us(attempt) > refused);
            assert!(!later, "something was asked after a policy refusal: {attempts:#?} {context}");
        }
    }
    for (temper, fake) in world.tempers.iter().zip(fakes) {
        let found = rows.attempts.iter().filter(|attempt| attempt["provider"] == temper.name).count();
        assert!(fake.requests().len() <= found, "asked without a row: {} {context}", temper.name);
    }
}

/// No upstream is used again before its Retry-After is over. An attempt that started before that answer does not count.
fn check_waits(attempts: &[&Row], context: &str) {
    let mut limited: HashMap<&str, (i64, i64)> = HashMap::new();
    for attempt in attempts {
        let provider = attempt["provider"].as_str().unwrap_or_default();
        if let Some((told_us, wait_ms)) =
            limited.remove(provider).filter(|(told_us, _)| dispatch_us(attempt) > *told_us)
        {
            let waited_us = dispatch_us(attempt) - told_us;
            assert!(waited_us >= wait_ms * 1_000, "asked again after {waited_us} us: {attempts:#?} {context}");
        }
        if let (Value::String(failure), Some(wait_ms)) = (&attempt["failure"], attempt["retry_after_ms"].as_i64())
            && failure == "rate_limited"
        {
            limited
                .insert(provider, (dispatch_us(attempt) + attempt["headers_us"].as_i64().unwrap_or_default(), wait_ms));
        }
    }
}

fn dispatch_us(attempt: &Row) -> i64 {
    attempt["dispatch_us"].as_i64().unwrap_or_default()
}

/// When its head arrived, relative to the request: a refusal is known by then.
fn ended_us(attempt: &Row) -> i64 {
    // The body is read and judged a moment after the head; other attempts may start in that time.
    const JUDGED_US: i64 = 600_000;
    dispatch_us(attempt) + attempt["headers_us"].as_i64().unwrap_or_default() + JUDGED_US
}

/// Prints the seed of a world that panics.
struct SeedPrinter(u64);

impl Drop for SeedPrinter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("PHOTOFINISH_WORLD={}: {:?}", self.0, world(self.0));
        }
    }
}

#[tokio::test]
async fn every_seeded_world_keeps_the_invariants() {
    let worlds = std::env::var("PHOTOFINISH_WORLDS").ok().and_then(|worlds| worlds.parse().ok()).unwrap_or(12);
    let only = std::env::var("PHOTOFINISH_WORLD").ok().and_then(|seed| seed.parse().ok());
    for seed in only.map_or(0..worlds, |seed| seed..seed + 1) {
        let printer = SeedPrinter(seed);
        play(seed).await;
        drop(printer);
    }
}
