//! Sends the questions to each host and collects the answers: hosts at once, the requests of one host one after the other. Not for what
//! the answers mean: see `judge`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use http::HeaderMap;
use http::header::HeaderValue;
use serde_json::{Map, Value, json};

use super::ask::{FactQuestion, SAMPLE_PROMPTS, SAMPLE_REQUESTS, questions, sample_members};
use super::judge::{Findings, HeardAnswer, HostReply, judge, text};
use super::sample::{SampledAnswer, letters};
use crate::bench::{LoadClient, patience};
use photofinish_base::clock::Instant;
use photofinish_base::failure::FailureKind;
use photofinish_config::Price;
use photofinish_facts::estimate::cost::CostSum;
use photofinish_facts::record::{RaceSource, RequestOrigin};

/// The workload of its rows, whose source is `probe`. No workload of the configuration can have this name.
pub const WORKLOAD: &str = "verify:facts";
/// That of samples.
const SAMPLE_WORKLOAD: &str = "verify:sample";
/// Requests a minute of `verify` to one hosted provider.
const RATE_MAX: u32 = 30;
/// Bytes of an answer that `verify` reads.
const ANSWER_MAX: usize = 1 << 20;
/// Tries of one request that meets a rate limit or a failure.
const TRIES_MAX: usize = 3;
/// The pause before the next try at a hosted provider.
const AGAIN_FOR: Duration = Duration::from_secs(2);
/// The same at a server of one's own.
const AGAIN_OWN_FOR: Duration = Duration::from_millis(100);
/// Requests in a row without an answer, after which a host is given up.
const UNANSWERED_MAX: usize = 3;

/// An upstream to verify.
#[derive(Clone, Debug)]
pub struct VerifiedHost {
    /// `provider/model`
    pub name: String,
    /// The model that is asked for.
    pub model: String,
    /// Tokens of its declared context, if that is to be tried.
    pub context: Option<u64>,
    /// It bills, and has limits.
    pub is_hosted: bool,
    pub price: Option<Price>,
}

impl VerifiedHost {
    /// Tokens in and out, at most.
    pub fn tokens(&self, questions: &[FactQuestion]) -> (f64, f64) {
        questions.iter().map(FactQuestion::tokens).fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// US dollars, at most. None: it bills at a price that is not known.
    pub fn most_usd(&self, questions: &[FactQuestion]) -> Option<f64> {
        let (input, output) = self.tokens(questions);
        if self.is_hosted { self.price.map(|price| price.most_usd(input, output, false)) } else { Some(0.0) }
    }

    /// How long `requests` take at the pace that is kept.
    pub fn paced(&self, requests: usize) -> Duration {
        if self.is_hosted { PACE.saturating_mul(u32::try_from(requests).unwrap_or(u32::MAX)) } else { Duration::ZERO }
    }
}

/// Between two requests to one hosted provider.
const PACE: Duration = Duration::from_millis(60_000 / RATE_MAX as u64);

/// What was found about one host.
#[derive(Debug)]
pub struct Verification {
    pub host: String,
    pub findings: Findings,
    pub requests: usize,
    /// Why the host was given up before the end.
    pub given_up: Option<String>,
}

/// Sends requests to hosts within one budget.
pub struct Verifier {
    client: LoadClient,
    max_usd: f64,
    spent: Mutex<CostSum>,
}

impl Verifier {
    pub fn new(client: LoadClient, max_usd: f64) -> Verifier {
        Verifier { client, max_usd, spent: Mutex::default() }
    }

    /// What all requests cost so far.
    pub fn spent(&self) -> CostSum {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Verifies all hosts at once. `report`: called for each host that is done.
    pub async fn verify(
        self: &Arc<Verifier>,
        hosts: &[VerifiedHost],
        report: impl Fn(&Verification),
    ) -> Vec<Verification> {
        join_all(hosts.iter().map(async |host| {
            let done = self.host(host).await;
            report(&done);
            done
        }))
        .await
    }

    /// One session of samples at all hosts at once. Answers that did not come are left out.
    pub async fn sample(&self, hosts: &[VerifiedHost], session: usize) -> Vec<(String, Vec<SampledAnswer>)> {
        join_all(hosts.iter().map(async |host| {
            let (began, mut answers, mut unanswered) = (Instant::now(), Vec::new(), 0);
            for number in 0..SAMPLE_REQUESTS {
                tokio::time::sleep_until(began + host.paced(number)).await;
                let prompt = number % SAMPLE_PROMPTS;
                match self.ask(host, sample_members(prompt), SAMPLE_WORKLOAD).await {
                    HostReply::Answer(answer) => {
                        unanswered = 0;
                        answers.push(SampledAnswer { prompt, session, letters: letters(text(&answer)) });
                    }
                    _ => unanswered += 1,
                }
                if unanswered >= UNANSWERED_MAX {
                    break;
                }
            }
            (host.name.clone(), answers)
        }))
        .await
    }

    async fn host(&self, host: &VerifiedHost) -> Verification {
        let (mut heard, mut takes_temperature, mut unanswered, mut given_up) = (Vec::new(), true, 0, None);
        let began = Instant::now();
        for (number, question) in questions(host.context).into_iter().enumerate() {
            tokio::time::sleep_until(began + host.paced(number)).await;
            let mut members = question.members.clone();
            if !takes_temperature {
                members.remove("temperature");
            }
            let sent = Instant::now();
            let mut reply = self.ask(host, members.clone(), WORKLOAD).await;
            if let HostReply::Refused(words) = &reply
                && takes_temperature
                && words.to_lowercase().contains("temperature")
            {
                takes_temperature = false;
                members.remove("temperature");
                reply = self.ask(host, members, WORKLOAD).await;
            }
            unanswered = if matches!(reply, HostReply::Nothing(_)) { unanswered + 1 } else { 0 };
            if let HostReply::Nothing(why) = &reply
                && unanswered >= UNANSWERED_MAX
            {
                given_up = Some(why.clone());
            }
            heard.push(HeardAnswer { question, reply, took: sent.elapsed() });
            if given_up.is_some() {
                break;
            }
        }
        let findings = judge(&heard, takes_temperature);
        Verification { host: host.name.clone(), findings, requests: heard.len(), given_up }
    }

    /// Asks one host; again after a pause if it was limited or failed.
    pub(super) async fn ask(&self, host: &VerifiedHost, members: Map<String, Value>, workload: &str) -> HostReply {
        let mut reply = HostReply::Nothing(String::new());
        for number in 0..TRIES_MAX {
            if self.spent().bounded_usd() >= self.max_usd && host.is_hosted {
                return HostReply::Nothing("the most that it may cost is reached".to_owned());
            }
            if number > 0 {
                tokio::time::sleep(if host.is_hosted { AGAIN_FOR } else { AGAIN_OWN_FOR }).await;
            }
            reply = self.once(host, members.clone(), workload).await;
            if !matches!(reply, HostReply::Nothing(_)) {
                break;
            }
        }
        reply
    }

    async fn once(&self, host: &VerifiedHost, members: Map<String, Value>, workload: &str) -> HostReply {
        let Ok(upstream) = HeaderValue::try_from(&host.name) else {
            return HostReply::Nothing("its name cannot be in a header".to_owned());
        };
        let mut headers = HeaderMap::new();
        headers.insert("x-photofinish-upstreams", upstream);
        headers.insert("x-photofinish-policy", HeaderValue::from_static("fallback"));
        headers.insert("x-photofinish-max-attempts", HeaderValue::from_static("2"));
        let origin = RequestOrigin {
            source: RaceSource::Probe,
            run_id: None,
            workload: Some(workload.to_owned()),
            scheduled: None,
        };
        let number = |name: &str| members.get(name).and_then(Value::as_f64).unwrap_or(1.0);
        let input = members.get("messages").map_or(0, |messages| messages.to_string().len()) as f64;
        let (within, streams) = (patience(input, number("max_tokens")), members.contains_key("stream"));
        let fetched = self.client.fetch(&host.model, members, headers, origin, within, ANSWER_MAX).await;
        let measured = match &fetched.race_id {
            Some(race_id) => self.client.measured(race_id).await,
            None => None,
        };
        if let Some(measured) = &measured {
            self.spent.lock().unwrap_or_else(PoisonError::into_inner).merge(&measured.cost);
        }
        let failure = measured.as_ref().and_then(|measured| measured.failure);
        match (fetched.refused || failure.is_some(), failure) {
            (false, _) => {
                match if streams { streamed(&fetched.body) } else { serde_json::from_slice(&fetched.body).ok() } {
                    Some(answer) => HostReply::Answer(answer),
                    None => HostReply::Broken("malformed"),
                }
            }
            (true, failure) => refused(failure, fetched.said()),
        }
    }
}

/// What a request without an answer says of its host.
fn refused(failure: Option<&'static str>, said: Option<String>) -> HostReply {
    use FailureKind::{BadRequest, ContextLength, Empty, Endless, Malformed, TooLarge};
    match failure.and_then(FailureKind::from_name) {
        Some(BadRequest | ContextLength | TooLarge) => HostReply::Refused(said.unwrap_or_default()),
        Some(kind @ (Malformed | Endless)) => HostReply::Broken(kind.as_str()),
        Some(Empty) => HostReply::Answer(json!({})),
        _ => HostReply::Nothing(format!("no answer: {}", failure.unwrap_or("the gateway refused it"))),
    }
}

/// The text, the end and the usage of a stream, in the form of a whole answer.
fn streamed(body: &[u8]) -> Option<Value> {
    let (mut text, mut usage, mut ended) = (String::new(), Value::Null, Value::Null);
    for data in str::from_utf8(body).ok()?.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let Ok(event) = serde_json::from_str::<Value>(data) else { continue };
        text.push_str(event["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
        if !event["choices"][0]["finish_reason"].is_null() {
            ended = event["choices"][0]["finish_reason"].clone();
        }
        if event["usage"].is_object() {
            usage = event["usage"].clone();
        }
    }
    let message = json!({ "role": "assistant", "content": text });
    Some(json!({ "choices": [{ "message": message, "finish_reason": ended }], "usage": usage }))
}
