//! Limits of teams, users and keys that were made at run time, over HTTP: what is allowed, what is refused and in which words, and
//! what a restart remembers.

use photofinish_limits::NANO_USD;
use serde_json::{Value, json};

use super::TOKEN;
use crate::harness::answer::Response;
use crate::harness::process::{CHAT, RunningGateway, Setup, provider};
use crate::support::{FakeProvider, Script, soon};

const ROOT: &str = "[users.root]\ntoken = \"root-token\"\nrole = \"admin\"\n";

/// Ten tokens of an answer cost a hundredth of a USD.
async fn setup() -> (FakeProvider, Setup) {
    let answer = |_: &_| Script::sse().role().token("x").finish("stop").usage(10, 10).done().end();
    let fake = FakeProvider::answering(answer).await;
    let model = |name: &str| {
        format!(
            "[models.{name}]\nupstreams = [{{ upstream = \"one/{name}\", input_price = 0, output_price = 1000 }}]\n"
        )
    };
    let setup = Setup::new(&format!("{}{}{}{ROOT}", provider("one", &fake), model("opus"), model("small")));
    (fake, setup)
}

async fn change(served: &RunningGateway, method: &str, path: &str, body: &Value) -> Value {
    let answer = served.send(method, path, &[("x-api-key", "root-token")], body.to_string()).await;
    assert!([200, 201].contains(&answer.status), "{method} {path} {body}: {}", answer.body);
    answer.json()
}

/// What was made, with the text of its user's key.
struct MadeHolder {
    path: String,
    /// As refusals name it.
    named: String,
    key: String,
}

/// A team with a user who has a key; `limits` are those of the team, the user or the key.
async fn made(served: &RunningGateway, kind: &str, number: usize, limits: &Value) -> MadeHolder {
    let [team, user] = [format!("team-{kind}-{number}"), format!("user-{kind}-{number}")];
    let with = |own: &str, mut members: Value| {
        let limits = limits.as_object().into_iter().flatten().filter(|_| own == kind);
        members.as_object_mut().unwrap().extend(limits.map(|(name, limit)| (name.clone(), limit.clone())));
        members
    };
    change(served, "POST", "/api/teams", &with("team", json!({ "name": team }))).await;
    change(served, "POST", "/api/users", &with("user", json!({ "name": user, "team": team }))).await;
    let key = change(served, "POST", "/api/keys", &with("key", json!({ "user": user, "name": "ci" }))).await;
    let name = match kind {
        "team" => team,
        "user" => user,
        _ => key["id"].as_str().unwrap().to_owned(),
    };
    let path = format!("/api/{kind}s/{name}");
    MadeHolder { path, named: format!("{kind} {name}"), key: key["key"].as_str().unwrap().to_owned() }
}

async fn ask(served: &RunningGateway, holder: &MadeHolder, model: &str) -> Response {
    let messages = json!([{ "role": "user", "content": "x" }]);
    let body = json!({ "model": model, "stream": true, "max_tokens": 10, "messages": messages });
    let answer = served.send("POST", CHAT, &[("x-api-key", &holder.key)], body.to_string()).await;
    if answer.status == 200 {
        // What ran is booked.
        let me = async || served.get("/api/me", &[("x-api-key", &holder.key)]).await.json();
        let is_idle = |me: Value| {
            let levels = me["limits"].as_array().unwrap().iter();
            let mut uses = levels.flat_map(|level| level["uses"].as_array().unwrap());
            uses.all(|of| of.get("reserved").is_none_or(|reserved| *reserved == 0))
        };
        soon("what ran is booked", async { while !is_idle(me().await) {} }).await;
    }
    answer
}

/// What a request is refused with; `WHO` stands for the holder.
struct Refusal {
    status: u16,
    code: &'static str,
    words: &'static str,
    /// How long it lasts at most; none: `retry-after` is missing.
    retry_days: Option<u64>,
}

const fn refusal(status: u16, code: &'static str, words: &'static str, retry_days: Option<u64>) -> Refusal {
    Refusal { status, code, words, retry_days }
}

fn check(case: &str, holder: &MadeHolder, refused: &Response, expected: &Refusal) {
    let (status, code, message) = refused.error();
    assert_eq!((status, code.as_str()), (expected.status, expected.code), "{case}: {message}");
    let (kind, name) = holder.named.split_once(' ').unwrap();
    let words = expected.words.replace("the WHO", &format!("the {kind} \"{name}\"")).replace("WHO", &holder.named);
    assert!(message.contains(&words), "{case}: {message:?} lacks {words:?}");
    let retry = refused.header("retry-after").parse::<u64>().ok();
    let is_right = match (retry, expected.retry_days) {
        (Some(seconds), Some(days)) => (1..=days * 86_400).contains(&seconds),
        (retry, expected) => retry.is_none() && expected.is_none(),
    };
    assert!(is_right, "{case}: retry-after {retry:?}");
}

/// The limits; how many answers of opus fit, the refusal of the next one, and whether small is answered then.
fn cases() -> [(Value, i64, Refusal, bool); 8] {
    const SPENT: &str = "photofinish_budget_spent";
    const FORBIDDEN: &str = "photofinish_model_forbidden";
    [
        (
            json!({ "budget": { "week": 0.025 }, "reserve": "max" }),
            2,
            refusal(429, SPENT, "the WHO may spend 0.025 USD this week (budget.week): 0.02 USD are spent", Some(7)),
            false,
        ),
        (
            json!({ "budget": { "total": 0.025 }, "reserve": "max" }),
            2,
            refusal(429, SPENT, "the WHO may spend 0.025 USD in all (budget.total): 0.02 USD are spent", None),
            false,
        ),
        (
            json!({ "model_budgets": { "opus": { "week": 0.015 } }, "reserve": "max" }),
            1,
            refusal(
                429,
                SPENT,
                "the models \"opus of WHO\" may spend 0.015 USD this week (model_budgets.week): 0.01 USD are spent",
                Some(7),
            ),
            true,
        ),
        (
            json!({ "model_budgets": { "one/op*": { "total": 0.015 } }, "reserve": "max" }),
            1,
            refusal(
                429,
                SPENT,
                "the models \"one/op* of WHO\" may spend 0.015 USD in all (model_budgets.total): 0.01 USD are spent",
                None,
            ),
            true,
        ),
        (
            json!({ "budget": { "total": 0.005 }, "reserve": "max" }),
            0,
            refusal(
                400,
                "photofinish_invalid_request",
                "may cost 0.01 USD, and the WHO may spend 0.005 USD in all (budget.total)",
                None,
            ),
            false,
        ),
        (json!({ "models": ["small"] }), 0, refusal(403, FORBIDDEN, "the WHO may not use \"opus\"", None), true),
        (
            json!({ "deny": ["one/opus", "opus"] }),
            0,
            refusal(403, FORBIDDEN, "the WHO may not use \"opus\"", None),
            true,
        ),
        (
            json!({ "rpm": { "requests": 1, "burst": 2 } }),
            2,
            refusal(429, "photofinish_rate_limited", "the WHO may send 1 requests a minute (rpm)", Some(1)),
            false,
        ),
    ]
}

#[tokio::test]
async fn limits_made_over_http_hold_at_each_level_and_over_a_restart() {
    let (_fake, setup) = setup().await;
    let (served, cases) = (setup.serve().await, cases());
    let mut holders = Vec::new();
    for kind in ["team", "user", "key"] {
        for (number, (limits, fit, expected, leaves_small)) in cases.iter().enumerate() {
            let case = format!("{kind} {limits}");
            let holder = made(&served, kind, number, limits).await;
            for _ in 0..*fit {
                let answer = ask(&served, &holder, "opus").await;
                assert_eq!(answer.status, 200, "{case}: {}", answer.body);
            }
            check(&case, &holder, &ask(&served, &holder, "opus").await, expected);
            let small = ask(&served, &holder, "small").await;
            assert_eq!(small.status == 200, *leaves_small, "{case}: {}", small.body);
            holders.push((case, holder, (limits, *fit, expected)));
        }
    }
    let served = served.stop().await.serve().await;
    for (case, holder, (limits, fit, expected)) in &holders {
        if limits.get("rpm").is_some() {
            // Rates begin full.
            assert_eq!(ask(&served, holder, "opus").await.status, 200, "{case}");
            continue;
        }
        check(case, holder, &ask(&served, holder, "opus").await, expected);
        let shown = served.get(&holder.path, &[("x-api-key", "root-token")]).await.json();
        let uses = shown["standing"]["uses"].as_array().into_iter().flatten();
        for budget in uses.filter(|of| of["unit"] == NANO_USD) {
            assert_eq!(budget["used"], *fit * 10 * TOKEN, "{case}: {shown}");
        }
        // What is raised lets the next one through.
        let version = &shown["version"];
        let more = match limits.get("budget").or(limits.get("model_budgets")) {
            Some(_) if limits.get("budget").is_some() => {
                json!({ "budget": { "week": 1, "total": 1 }, "version": version })
            }
            Some(_) => json!({ "model_budgets": { "opus": { "week": 1 } }, "version": version }),
            None => json!({ "models": null, "deny": null, "version": version }),
        };
        change(&served, "PATCH", &holder.path, &more).await;
        let answer = ask(&served, holder, "opus").await;
        assert_eq!(answer.status, 200, "{case}: {}", answer.body);
    }
}
