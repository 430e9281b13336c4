//! How a request chooses its upstreams: names as the model, a header, and the other override headers.

use crate::harness::process::{RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, Gate, Script};

struct Three {
    fakes: [FakeProvider; 3],
    served: RunningGateway,
}

#[derive(Clone, Copy, PartialEq)]
enum A {
    Answers,
    /// Never answers; `b` waits until `a` has the request.
    IsStuck,
}

/// Model `m` races `a/m` and `b/m`; `c` is in no model.
async fn three(a: A) -> Three {
    let asked = Gate::new();
    let stuck = Script::sse().role().reached(&asked).until_closed();
    let b = match a {
        A::Answers => Script::stream(&["from b"]),
        A::IsStuck => Script::sse().role().wait(&asked).token("from b").finish("stop").done().end(),
    };
    let fakes = [
        FakeProvider::answering(move |_| if a == A::IsStuck { stuck.clone() } else { Script::stream(&["from a"]) })
            .await,
        FakeProvider::answering(move |_| b.clone()).await,
        FakeProvider::answering(|_| Script::stream(&["from c"])).await,
    ];
    let config = format!(
        "{}{}{}\n[models.m]\nupstreams = [\"a/m\", \"b/m\"]\n",
        provider("a", &fakes[0]),
        provider("b", &fakes[1]),
        provider("c", &fakes[2])
    );
    Three { served: Setup::new(&config).serve().await, fakes }
}

impl Three {
    fn asked(&self) -> [usize; 3] {
        [0, 1, 2].map(|fake| self.fakes[fake].requests().len())
    }
}

#[tokio::test]
async fn an_app_may_name_upstreams_as_the_model() {
    let three = three(A::IsStuck).await;
    let answer = three.served.ask("c/org/some-model:free").await;
    assert_eq!(answer.upstream(), "c/org/some-model:free");
    assert_eq!(three.fakes[2].requests()[0].json()["model"], "org/some-model:free");
    assert_eq!(three.asked(), [0, 0, 1]);

    // Several names make a separate race.
    let answer = three.served.ask(" a/x , b/y ").await;
    assert_eq!(answer.upstream(), "b/y");
    assert_eq!(answer.header("x-photofinish-attempts"), "2");
    assert_eq!(three.asked(), [1, 1, 1]);
    assert_eq!(three.fakes[0].request(0).await.json()["model"], "x");

    for (model, words) in [("c/", "names no model"), ("c/x,nobody/y", "no provider \"nobody\""), ("c/x,c/x", "twice")] {
        let (status, _, message) = three.served.ask(model).await.error();
        assert!(status == 404 && message.contains(words), "{model}: {message}");
    }
    let setup = three.served.stop().await;
    assert_eq!(
        setup.texts("SELECT model FROM race ORDER BY race_id").await[..2],
        ["c/org/some-model:free", " a/x , b/y "]
    );
    assert_eq!(setup.attempts().await, ["c won", "a lost", "b won"]);
}

#[tokio::test]
async fn the_upstreams_header_replaces_those_of_the_model() {
    let three = three(A::IsStuck).await;
    let served = &three.served;
    let chat = async |header, model| {
        let answer = served.chat(&[("x-photofinish-upstreams", header)], &asking(model)).await;
        answer.upstream().to_owned()
    };
    assert_eq!(chat("c/x", "m").await, "c/x");
    assert_eq!(three.asked(), [0, 0, 1]);
    assert_eq!(chat("a/x, b/y", "whatever").await, "b/y");
    assert_eq!(three.asked(), [1, 1, 1]);
    let setup = three.served.stop().await;
    assert_eq!(setup.texts("SELECT model FROM race ORDER BY race_id").await, ["m", "whatever"]);
}

#[tokio::test]
async fn max_attempts_bounds_what_is_started() {
    let three = three(A::Answers).await;
    let answer = three.served.chat(&[("x-photofinish-max-attempts", "1")], &asking("m")).await;
    assert_eq!(answer.upstream(), "a/m");
    assert_eq!(three.asked(), [1, 0, 0]);
    let setup = three.served.stop().await;
    assert_eq!((setup.attempts().await, setup.races().await), (vec!["a won".to_owned()], vec!["ok 1 200".to_owned()]));
}

#[tokio::test]
async fn the_policy_header_turns_a_race_into_a_fallback() {
    let three = three(A::Answers).await;
    let answer = three.served.chat(&[("x-photofinish-policy", "fallback")], &asking("m")).await;
    assert_eq!(answer.upstream(), "a/m");
    assert_eq!(three.asked(), [1, 0, 0]);
    let setup = three.served.stop().await;
    assert_eq!(setup.texts("SELECT policy FROM race").await, ["fallback"]);
}

#[tokio::test]
async fn the_hedge_header_says_when_the_next_one_starts() {
    let three = three(A::IsStuck).await;
    let headers = [("x-photofinish-policy", "hedge"), ("x-photofinish-hedge-after", "30ms")];
    let answer = three.served.chat(&headers, &asking("m")).await;
    assert_eq!(answer.upstream(), "b/m");
    three.fakes[0].closed(0).await;
    let setup = three.served.stop().await;
    assert_eq!(setup.attempts().await, ["a lost", "b won"]);
    assert_eq!(setup.texts("SELECT start_reason FROM attempt ORDER BY ordinal").await, ["first", "hedge"]);
    assert_eq!(setup.number("SELECT count(*) FROM attempt WHERE ordinal = 1 AND dispatch_us >= 30000").await, 1);
    assert_eq!(setup.texts("SELECT policy FROM race").await, ["hedge"]);
}

#[tokio::test]
async fn a_long_hedge_delay_starts_no_second_attempt() {
    let three = three(A::Answers).await;
    let headers = [("x-photofinish-policy", "hedge"), ("x-photofinish-hedge-after", "1h")];
    assert_eq!(three.served.chat(&headers, &asking("m")).await.upstream(), "a/m");
    assert_eq!(three.asked(), [1, 0, 0]);
}
