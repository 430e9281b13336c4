//! Where somebody would wait although somebody healthy is free, over sockets, on a clock that the test moves: upstreams that hang, die and
//! are full. `rehearse::tests::patience` has the same in simulated worlds, for many requests; and favourites that heal, which are found
//! again by their times, so that real time must not be among them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::harness::answer::{Response, advance_clock_until, error_and_close, read_response, silent, stream_after};
use crate::harness::gateway::{Setup, TestGateway};
use crate::support::{FakeProvider, Gate, Script};

const USUAL: Duration = Duration::from_millis(300);
/// What the steps of the clock and a slow machine may add. Without patience the waits would be 30 s.
const STEPS: Duration = Duration::from_secs(3);
const POLICIES: [&str; 5] = [
    "policy = \"adaptive\"\nbudget = 0.1",
    "policy = \"adaptive\"\nbudget = 0.0",
    "policy = \"fallback\"",
    "policy = \"weighted\"",
    "policy = \"hedge\"\nhedge_after = \"1s\"",
];

fn after(time: Duration) -> Script {
    Script::sse().delay(time).role().token("hello").finish("stop").done().end()
}

/// The number of each provider that hangs.
async fn five(hangs: impl Fn(usize) -> bool) -> Vec<FakeProvider> {
    let mut fakes = Vec::new();
    for place in 0..5 {
        let script = if hangs(place) { silent() } else { after(USUAL) };
        fakes.push(FakeProvider::answering(move |_| script.clone()).await);
    }
    fakes
}

async fn over(fakes: &[FakeProvider], race: &str) -> TestGateway {
    Setup::over(&fakes.iter().collect::<Vec<_>>()).race(race).start().await
}

/// How long a client waited for its answer.
async fn waited(gateway: &TestGateway) -> (Duration, Response) {
    let began = tokio::time::Instant::now();
    let mut client = gateway.streaming().await;
    let response = advance_clock_until(read_response(&mut client)).await;
    (began.elapsed(), response)
}

#[tokio::test]
async fn on_a_fresh_gateway_nobody_waits_for_one_that_hangs() {
    for policy in POLICIES {
        for hanging in 0..5 {
            let fakes = five(|place| place == hanging).await;
            let gateway = over(&fakes, policy).await;
            for asked in 0..4 {
                let (waited, response) = waited(&gateway).await;
                assert_eq!(response.streamed_text(), "hello", "{policy}, {hanging}");
                // Four medians: of the prior while nothing is known, then of an upstream that answered.
                let most = if asked == 0 { Duration::from_secs(3) } else { Duration::from_secs(2) };
                assert!(waited <= most + USUAL + STEPS, "{policy}, {hanging} hangs, request {asked}: {waited:?}");
            }
            gateway.stop().await;
        }
    }
}

/// What was cut teaches nothing of what is usual, and opens the breaker.
#[tokio::test]
async fn one_that_always_hangs_is_waited_for_five_times_and_not_longer_each_time() {
    for policy in ["policy = \"fallback\"", "policy = \"weighted\""] {
        let a = FakeProvider::answering(|_| silent()).await;
        let b = FakeProvider::answering(|_| after(USUAL)).await;
        let fakes = [a, b];
        let gateway = over(&fakes, policy).await;
        let mut waits = Vec::new();
        for _ in 0..30 {
            let (waited, response) = waited(&gateway).await;
            assert_eq!(response.streamed_text(), "hello", "{policy} {waits:?} {}", response.body);
            waits.push(waited);
        }
        assert!(
            waits[1..].iter().all(|waited| *waited <= Duration::from_secs(2) + USUAL + STEPS),
            "{policy}: {waits:?}"
        );
        let late = waits.iter().filter(|waited| **waited > USUAL + Duration::from_secs(1)).count();
        assert!(late <= 5, "{policy}: {waits:?}");
        gateway.stop().await;
    }
}

/// A quick upstream that breaks a quarter of its answers loses the lead.
#[tokio::test]
async fn one_whose_answers_break_loses_its_clients() {
    for streams in [true, false] {
        let a = FakeProvider::answering(|request| match request.number % 4 {
            1 => Script::sse().delay(Duration::from_millis(180)).role().token("hel").close(),
            _ => after(Duration::from_millis(180)),
        });
        let b = FakeProvider::answering(|_| after(Duration::from_millis(420))).await;
        let fakes = [a.await, b];
        let gateway = over(&fakes, "policy = \"adaptive\"\nrescue = \"off\"\nretries = 0").await;
        let mut broken = 0;
        for _ in 0..80 {
            let ask = json!({"model": "m", "stream": streams, "messages": [{}]});
            let mut client = gateway.ask(&ask).await;
            let response = advance_clock_until(read_response(&mut client)).await;
            broken += usize::from(!response.body.contains("stop"));
        }
        assert!(broken <= if streams { 8 } else { 0 }, "{broken} of 80, {streams}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn what_patience_started_does_not_answer_what_was_refused() {
    let refusal = "{\"error\":{\"message\":\"no\",\"code\":\"content_filter\"}}";
    for policy in POLICIES {
        for (setting, answers) in [("stop", false), ("continue", true)] {
            let may = Gate::new();
            let later = Gate::new();
            let asked = Arc::new(AtomicBool::new(false));
            // `weighted` draws who is asked first; whoever it is refuses.
            let answer = {
                let (may, later) = (may.clone(), later.clone());
                move |_: &_| {
                    if asked.swap(true, Ordering::Relaxed) {
                        return stream_after(&later, &["hello"]);
                    }
                    let mut script = Script::new().wait(&may);
                    script.steps.extend(error_and_close(400, refusal).steps);
                    script
                }
            };
            let fakes = [FakeProvider::answering(answer.clone()).await, FakeProvider::answering(answer).await];
            let gateway = over(&fakes, &format!("{policy}\nmax_attempts = 1\ncontent_policy = \"{setting}\"")).await;
            let mut client = gateway.streaming().await;
            advance_clock_until(async { tokio::join!(fakes[0].request(0), fakes[1].request(0)) }).await;
            may.open();
            // Nothing but the refusal may end the race where it is final.
            if answers {
                later.open();
            }
            let response = read_response(&mut client).await;
            assert_eq!(response.status == 200, answers, "{policy} {setting}: {}", response.body);
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn with_three_of_five_hanging_an_answer_comes_soon() {
    for policy in ["policy = \"adaptive\"\nbudget = 0.1", "policy = \"adaptive\"\nbudget = 0.02"] {
        let hang = Arc::new(AtomicBool::new(false));
        let mut fakes = Vec::new();
        for place in 0..5 {
            let hang = hang.clone();
            let answer = move |_: &_| if place < 3 && hang.load(Ordering::Relaxed) { silent() } else { after(USUAL) };
            fakes.push(FakeProvider::answering(answer).await);
        }
        let gateway = over(&fakes, policy).await;
        for asked in 0..60 {
            hang.store(asked >= 30, Ordering::Relaxed);
            let (waited, response) = waited(&gateway).await;
            assert_eq!(response.streamed_text(), "hello", "{policy}");
            assert!(asked == 0 || waited <= Duration::from_millis(2_600) + STEPS, "{policy}, {asked}: {waited:?}");
        }
        gateway.stop().await;
    }
}

/// Whatever `max_attempts` is: it limits what runs at once by choice.
#[tokio::test]
async fn the_healthy_one_answers_however_many_are_dead_or_hang() {
    for policy in POLICIES.into_iter().chain(["policy = \"race\"\ntimeouts = { first_token = \"3s\" }"]) {
        for max_attempts in [1, 2, 4] {
            for hang in [false, true] {
                let down = move || if hang { silent() } else { Script::status(500, &[], "{}") };
                let mut fakes = Vec::new();
                for _ in 0..4 {
                    fakes.push(FakeProvider::answering(move |_| down()).await);
                }
                fakes.push(FakeProvider::answering(|_| Script::stream(&["hello"])).await);
                let gateway = over(&fakes, &format!("{policy}\nmax_attempts = {max_attempts}")).await;
                let (waited, response) = waited(&gateway).await;
                let what = format!("{policy}, at most {max_attempts}, hang: {hang}, {waited:?}");
                assert_eq!((response.streamed_text().as_str(), fakes[4].requests().len()), ("hello", 1), "{what}");
                assert!(waited < Duration::from_secs(15), "{what}");
                gateway.stop().await;
            }
        }
    }
}

#[tokio::test]
async fn three_requests_at_three_servers_of_one_slot_get_one_each() {
    for policy in POLICIES {
        let may = Gate::new();
        let mut setup = Setup::new().race(policy);
        let mut fakes = Vec::new();
        for _ in 0..3 {
            let held = may.clone();
            fakes.push(FakeProvider::answering(move |_| stream_after(&held, &["hello"])).await);
        }
        let names = ["a", "b", "c"];
        for (name, fake) in names.iter().zip(&fakes) {
            setup = setup.provider(name, fake, "");
        }
        let upstreams = names.map(|name| format!("{{ upstream = \"{name}/m\", in_flight_max = 1 }}")).join(", ");
        let gateway = setup.model(&format!("[models.m]\nupstreams = [{upstreams}]")).start().await;
        let mut clients = Vec::new();
        for asked in 1..=3 {
            clients.push(gateway.streaming().await);
            let arrived = async {
                while fakes.iter().map(|fake| fake.requests().len()).sum::<usize>() < asked {
                    tokio::task::yield_now().await;
                }
            };
            crate::support::soon("it is asked", arrived).await;
        }
        assert_eq!(fakes.iter().map(|fake| fake.requests().len()).collect::<Vec<_>>(), [1, 1, 1], "{policy}");
        may.open();
        for client in &mut clients {
            assert_eq!(read_response(client).await.streamed_text(), "hello", "{policy}");
        }
        gateway.stop().await;
    }
}
