//! A provider that keeps its own bill, by rules that it publishes. What it wrote before a hang-up it knows itself; the gateway does not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use serde_json::json;

use crate::support::{FakeProvider, Gate, Request, Script};

/// USD of a token of a prompt and of an answer.
pub const PRICES: (f64, f64) = (0.0001, 0.001);

/// What a hang-up does to a bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BillingRule {
    /// The prompt, once the answer began, and what was written by then.
    UntilCut,
    /// All that it would have written.
    InFull,
    /// As [`BillingRule::UntilCut`], at least this number of tokens of the answer; its customers do not learn it.
    Untold(u64),
}

/// Its requests and what they cost. Cheap to clone.
#[derive(Clone, Default)]
pub struct Bill(Arc<Mutex<Vec<BilledRequest>>>);

struct BilledRequest {
    /// Of the client: the prompt names it.
    number: u64,
    prompt: u64,
    /// Tokens of the answer that it writes if no client hangs up.
    planned: u64,
    /// It answers with an error, which costs nothing.
    refused: bool,
    begun: Gate,
    written: Vec<Gate>,
    ended: Gate,
}

/// What the answer to one request is like.
struct Mood {
    tokens: u64,
    first: Duration,
    /// It breaks off after the tokens.
    breaks: bool,
    /// It has no count at its end.
    uncounted: bool,
}

impl Bill {
    /// All requests of a client's: what their provider asks for, in USD.
    pub fn of(&self, rule: BillingRule, number: impl Fn(u64) -> bool) -> f64 {
        let all = self.0.lock().unwrap();
        all.iter().filter(|request| number(request.number)).map(|request| request.usd(rule)).sum()
    }

    pub fn requests(&self, number: u64) -> usize {
        self.0.lock().unwrap().iter().filter(|request| request.number == number).count()
    }
}

impl BilledRequest {
    fn usd(&self, rule: BillingRule) -> f64 {
        if self.refused {
            return 0.0;
        }
        let written = self.written.iter().filter(|token| token.is_open()).count() as u64;
        let was_cut = !self.ended.is_open();
        let output = match rule {
            BillingRule::InFull if was_cut => self.planned,
            BillingRule::Untold(least) if was_cut && self.begun.is_open() => written.max(least.min(self.planned)),
            _ => written,
        };
        let is_billed = self.begun.is_open() || rule == BillingRule::InFull;
        if is_billed { self.prompt as f64 * PRICES.0 + output as f64 * PRICES.1 } else { 0.0 }
    }
}

/// The provider and its bill. Answers differ by the number that the prompt begins with, and by `salt`.
pub async fn start(salt: u64) -> (FakeProvider, Bill) {
    start_in(salt, mood).await
}

/// The same, but it answers all requests to their end, with a count.
pub async fn start_calm(salt: u64) -> (FakeProvider, Bill) {
    let calm = |random: &mut Rng, most| {
        let (first, tokens) = (Duration::from_millis(random.u64(0..6)), random.u64(1..=most));
        Some(Mood { tokens, first, breaks: false, uncounted: false })
    };
    start_in(salt, calm).await
}

async fn start_in(salt: u64, mood: fn(&mut Rng, u64) -> Option<Mood>) -> (FakeProvider, Bill) {
    let bill = Bill::default();
    let kept = bill.clone();
    let fake = FakeProvider::answering(move |request| {
        let number = number_of(request);
        let mut random = Rng::with_seed(number * 31 + salt * 7 + kept.requests(number) as u64);
        let most = request.json()["max_tokens"].as_u64().unwrap_or(24).min(24);
        let (billed, script) = answer(request, number, mood(&mut random, most));
        kept.0.lock().unwrap().push(billed);
        script
    })
    .await;
    (fake, bill)
}

fn prompt_of(request: &Request) -> String {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap_or_default()).collect()
}

fn number_of(request: &Request) -> u64 {
    prompt_of(request).split(' ').next().unwrap().parse().unwrap()
}

fn mood(random: &mut Rng, most: u64) -> Option<Mood> {
    let kind = random.u8(0..100);
    let first = Duration::from_millis(if kind < 90 { random.u64(0..6) } else { random.u64(6..40) });
    let tokens = random.u64(1..=most);
    (kind >= 6).then(|| Mood { tokens, first, breaks: (6..12).contains(&kind), uncounted: (12..15).contains(&kind) })
}

fn answer(request: &Request, number: u64, mood: Option<Mood>) -> (BilledRequest, Script) {
    // Its own tokenizer, and what it adds to each prompt.
    let prompt = prompt_of(request).len() as u64 / 4 + 3;
    let (begun, ended) = (Gate::new(), Gate::new());
    let billed = |planned, refused, written| BilledRequest {
        number,
        prompt,
        planned,
        refused,
        begun: begun.clone(),
        written,
        ended: ended.clone(),
    };
    let Some(Mood { tokens, first, breaks, uncounted }) = mood else {
        return (billed(0, true, Vec::new()), Script::status(500, &[], "{}"));
    };
    let written: Vec<Gate> = (0..tokens).map(|_| Gate::new()).collect();
    let mut script = Script::new().delay(first).reached(&begun);
    let is_plain = request.json()["stream"] != json!(true);
    if is_plain {
        // It generates first, and says all at once.
        script = written.iter().fold(script, |script, token| script.delay(TOKEN_EVERY).reached(token));
        let usage = json!({"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens});
        let choice = json!({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "word ".repeat(tokens as usize)}});
        let mut body = json!({"id": "x", "object": "chat.completion", "model": "m", "choices": [choice]});
        if !uncounted {
            body["usage"] = usage;
        }
        let body = body.to_string();
        let script = if breaks {
            script.reached(&ended).reset()
        } else {
            script.then(Script::status(200, &[], &body)).reached(&ended)
        };
        return (billed(tokens, false, written), script);
    }
    script = script.open().role();
    for token in &written {
        script = script.delay(TOKEN_EVERY).reached(token).token("word ");
    }
    script = match (breaks, uncounted) {
        (true, _) => script.reached(&ended).reset(),
        (false, true) => script.finish("stop").done().reached(&ended).end(),
        (false, false) => script.finish("stop").usage(prompt, tokens).done().reached(&ended).end(),
    };
    (billed(tokens, false, written), script)
}

/// No model is faster than five in that time.
const TOKEN_EVERY: Duration = Duration::from_millis(1);
