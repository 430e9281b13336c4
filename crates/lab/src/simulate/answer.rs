//! From a request to its answer: routes, checks, the choice of a failure, and the smallest valid answers of calls that no model
//! generates token by token. Not for the pace of a stream: see `stream`.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use fastrand::Rng;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::obedient::ObedientModel;
use super::request::{RequestKind, ValidRequest};
use super::service::{RandomDraws, Service, SharedServer};
use super::stream::{AnswerWire, AnswerWords, BodyScript, TokenStream, error_json};
use super::tally::{RequestOutcome, Tally, Ticket, request_id};
use photofinish_base::clock::Instant;
use photofinish_config::{SimulatedFailure, Simulation};
use photofinish_wire::PassedCall;

/// Bytes of a request's body.
const BODY_MAX: usize = 32 * 1024 * 1024;
/// Maximum tokens of one choice.
const TOKENS_MAX: u32 = 100_000;
/// The prefix of the models whose requests fail.
const FAIL_PREFIX: &str = "fail-";

/// Words of a transcript.
const TRANSCRIPT: u32 = 11;

const MODELS: &str = "/v1/models";
const SERVED: &str = "The simulated provider serves /v1/chat/completions, /v1/completions, /v1/embeddings, \
                      /v1/audio/transcriptions, /v1/audio/translations, /v1/audio/speech, /v1/images/generations, \
                      /v1/images/edits, /v1/moderations, /v1/rerank and /v1/models.";

const SIMULATED: HeaderName = HeaderName::from_static("x-simulated");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(super) type AnswerBody = Either<Full<Bytes>, TokenStream>;

/// Answers the requests of one simulator.
pub(super) struct Answers {
    name: String,
    simulation: Simulation,
    draws: RandomDraws,
    server: Arc<SharedServer>,
    /// The failure of every request at present.
    broken: Mutex<Option<SimulatedFailure>>,
    words: Arc<AnswerWords>,
    tally: Arc<Tally>,
    /// None: its answers are always the same words.
    obedient: Option<ObedientModel>,
    /// For request ids.
    requests: AtomicU64,
}

impl Answers {
    pub(super) fn new(name: &str, simulation: Simulation, server: Arc<SharedServer>, tally: Arc<Tally>) -> Answers {
        Answers {
            name: name.to_owned(),
            draws: RandomDraws::new(simulation.seed),
            server,
            broken: Mutex::default(),
            words: Arc::new(AnswerWords::new(name)),
            tally,
            obedient: simulation.obeys.then(|| ObedientModel::new(name, &simulation)),
            simulation,
            requests: AtomicU64::new(1),
        }
    }

    /// Sets the failure of every request from now on.
    pub(super) fn break_down(&self, how: Option<SimulatedFailure>) {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = how;
    }

    /// # Errors
    /// A simulated reset, or an unreadable request: the connection is closed without an answer.
    pub(super) async fn answer(self: Arc<Answers>, request: Request<Incoming>) -> io::Result<Response<AnswerBody>> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let path = request.uri().path();
        let mut response = match (request.method(), RequestKind::at(path)) {
            (&Method::POST, Some(kind)) => self.read(kind, request, number).await?,
            (_, Some(_)) => method_not_allowed("POST"),
            (&Method::GET, None) if path == MODELS => whole(StatusCode::OK, &self.models()),
            (_, None) if path == MODELS => method_not_allowed("GET"),
            (_, None) => refusal(StatusCode::NOT_FOUND, SERVED),
        };
        while let Some(end) = self.server.stalled_until(Instant::now()) {
            tokio::time::sleep_until(end).await;
        }
        let headers = response.headers_mut();
        headers.insert(SIMULATED, HeaderValue::from_static("true"));
        if let Ok(id) = HeaderValue::try_from(request_id(number)) {
            headers.insert(REQUEST_ID, id);
        }
        Ok(response)
    }

    async fn read(
        &self,
        kind: RequestKind,
        request: Request<Incoming>,
        number: u64,
    ) -> io::Result<Response<AnswerBody>> {
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, BODY_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                let message = format!("The request is larger than {BODY_MAX} bytes.");
                return Ok(refusal(StatusCode::PAYLOAD_TOO_LARGE, &message));
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        let said = self
            .obedient
            .as_ref()
            .filter(|_| kind == RequestKind::Chat)
            .and_then(|_| serde_json::from_slice(&body).ok());
        let request = match kind {
            RequestKind::Passed(call) => ValidRequest::parse_passed(call, body, head.headers.get(CONTENT_TYPE)),
            _ => ValidRequest::parse(kind, &body),
        };
        match request {
            Ok(request) => self.give(request, said, number).await,
            Err(message) => {
                self.tally.start(number, None).end(RequestOutcome::Failed);
                Ok(refusal(StatusCode::BAD_REQUEST, &format!("The simulated provider: {message}.")))
            }
        }
    }

    /// `said`: the whole request, for a model that obeys it.
    pub(super) async fn give(
        &self,
        mut request: ValidRequest,
        said: Option<Value>,
        number: u64,
    ) -> io::Result<Response<AnswerBody>> {
        let mut ticket = self.tally.start(number, Some(&request));
        let (drawn, mut pace) = self.draws.draw(&self.simulation, request.seed);
        let call = self.simulation.bad_calls.and_then(|broken| pace.call(&request.tools, broken));
        let failure = match request.model.strip_prefix(FAIL_PREFIX).map(SimulatedFailure::from_name) {
            Some(None) => {
                ticket.end(RequestOutcome::Failed);
                return Ok(unknown_failure());
            }
            Some(asked) => asked,
            None => self.broken.lock().unwrap_or_else(PoisonError::into_inner).or(drawn),
        };
        if let Some(response) = failure.and_then(|failure| self.refused(failure)) {
            ticket.end(RequestOutcome::Failed);
            return Ok(response);
        }
        if failure == Some(SimulatedFailure::Reset) {
            ticket.end(RequestOutcome::Failed);
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "a simulated reset"));
        }
        let slot = self.server.enter(ticket.started()).await;
        // Only answers that a model generates have a cache of their prompts' beginnings.
        let prompt = std::mem::take(&mut request.prompt);
        let cached_tokens = if request.kind.is_instant() { None } else { self.server.cached_tokens(&prompt) };
        let cached = cached_tokens.unwrap_or(0);
        let mut service = Service::new(slot, pace, request.prompt_tokens.saturating_sub(cached));
        ticket.begin(service.began(), cached);
        if let (Some(model), Some(said), None) = (&self.obedient, &said, failure) {
            let due = service.first();
            tokio::time::sleep_until(due).await;
            service.end(due);
            ticket.free(due);
            ticket.whole(1);
            return Ok(match model.answer(said, &format!("chatcmpl-simulated-{number}")) {
                Ok(answer) if request.stream => events(&answer, request.include_usage),
                Ok(answer) => whole(StatusCode::OK, &answer),
                Err(message) => refusal(StatusCode::BAD_REQUEST, message),
            });
        }
        request.include_usage &= self.simulation.usage;
        let prefix = if request.kind == RequestKind::Completion { "cmpl" } else { "chatcmpl" };
        let wire = AnswerWire::new(format!("{prefix}-simulated-{number}"), &request, cached_tokens).calling(call);
        match failure {
            Some(SimulatedFailure::Hang) => match std::future::pending::<Infallible>().await {},
            Some(SimulatedFailure::Stall | SimulatedFailure::Cut) => {
                Ok(self.stream(&request, failure, wire, service, ticket))
            }
            _ if request.stream => Ok(self.stream(&request, failure, wire, service, ticket)),
            _ => Ok(self.one_piece(&request, failure, &wire, service, ticket).await),
        }
    }

    /// The answer of a failure that shows by its status.
    fn refused(&self, failure: SimulatedFailure) -> Option<Response<AnswerBody>> {
        let (status, kind, code) = match failure {
            SimulatedFailure::RateLimit => (429, "rate_limit_error", "rate_limit_exceeded"),
            SimulatedFailure::Unauthorized => (401, "authentication_error", "invalid_api_key"),
            SimulatedFailure::BadRequest => (400, "invalid_request_error", "invalid_value"),
            SimulatedFailure::ServerError => (500, "server_error", "internal_error"),
            _ => return None,
        };
        let status = StatusCode::from_u16(status).ok()?;
        let mut response = whole(status, &self.failure_json(failure, kind, code));
        if failure == SimulatedFailure::RateLimit {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        Some(response)
    }

    fn failure_json(&self, failure: SimulatedFailure, kind: &str, code: &str) -> Value {
        let message = format!("A simulated failure ({}) of {}: nothing is really wrong.", failure.as_str(), self.name);
        error_json(&message, kind, Some(code))
    }

    fn overloaded_json(&self) -> Value {
        self.failure_json(SimulatedFailure::ErrorFrame, "server_error", "overloaded")
    }

    /// The number of tokens in an answer, and its finish reason.
    fn length(&self, request: &ValidRequest, wire: &AnswerWire) -> (u32, &'static str) {
        let wanted = wire.tokens_of_call().unwrap_or(self.simulation.tokens).min(TOKENS_MAX);
        match request.tokens_max {
            Some(max) if max < wanted => (max, "length"),
            _ if wire.tokens_of_call().is_some() => (wanted, "tool_calls"),
            _ => (wanted, "stop"),
        }
    }

    /// Also answers a request without `stream` that must break off.
    fn stream(
        &self,
        request: &ValidRequest,
        failure: Option<SimulatedFailure>,
        wire: AnswerWire,
        service: Service,
        ticket: Ticket,
    ) -> Response<AnswerBody> {
        let (tokens, reason) = self.length(request, &wire);
        let (content_type, opening, cut_after) = match request.stream {
            true => ("text/event-stream; charset=utf-8", wire.role(), (tokens / 2).max(1)),
            false => ("application/json", Bytes::from_static(br#"{"object":"#), 0),
        };
        let course = match failure {
            Some(SimulatedFailure::Stall) => BodyScript::stalled(opening),
            Some(SimulatedFailure::Cut) => BodyScript::cut(opening, cut_after),
            Some(SimulatedFailure::ErrorFrame) => {
                BodyScript::error(opening, AnswerWire::error(&self.overloaded_json()))
            }
            Some(SimulatedFailure::Empty) => BodyScript::whole(&wire, 0, "stop", request.include_usage),
            _ => BodyScript::whole(&wire, tokens, reason, request.include_usage),
        };
        let words = wire.words().unwrap_or_else(|| Arc::clone(&self.words));
        let body = TokenStream::new(course, wire, words, service, ticket);
        let mut response = Response::new(Either::Right(body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }

    /// Waits as long as a stream would take. When the client leaves, the connection drops this future.
    async fn one_piece(
        &self,
        request: &ValidRequest,
        failure: Option<SimulatedFailure>,
        wire: &AnswerWire,
        mut service: Service,
        mut ticket: Ticket,
    ) -> Response<AnswerBody> {
        let (tokens, reason) = match failure {
            Some(_) => (0, "stop"),
            None if request.kind.is_instant() => (1, "stop"),
            None => self.length(request, wire),
        };
        let mut due = service.first();
        tokio::time::sleep_until(due).await;
        let mut left = tokens.saturating_sub(service.event_tokens(tokens));
        while left > 0 {
            let event = service.event_tokens(left);
            due = service.next(due, event);
            tokio::time::sleep_until(due).await;
            left -= event;
        }
        service.end(due);
        ticket.free(due);
        if failure == Some(SimulatedFailure::ErrorFrame) {
            ticket.end(RequestOutcome::Failed);
            return whole(StatusCode::OK, &self.overloaded_json());
        }
        ticket.whole(if request.kind.is_instant() { 0 } else { tokens });
        let usage = self.simulation.usage;
        match request.kind {
            RequestKind::Embedding => whole(StatusCode::OK, &embeddings(request, failure.is_some(), usage)),
            RequestKind::Passed(call) => {
                let (content_type, body) = match failure {
                    Some(_) => ("text/plain", Bytes::new()),
                    None => passed_answer(call, request, &self.words.text(0, TRANSCRIPT)),
                };
                let mut response = Response::new(Either::Left(Full::new(body)));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
                response
            }
            _ => {
                let words = wire.words().unwrap_or_else(|| Arc::clone(&self.words));
                whole(StatusCode::OK, &wire.whole(&words, tokens, reason, usage))
            }
        }
    }

    fn models(&self) -> Value {
        let fails = SimulatedFailure::ALL.map(|failure| format!("{FAIL_PREFIX}{}", failure.as_str()));
        let model = |id: String| json!({ "id": id, "object": "model", "created": 0, "owned_by": self.name });
        let models: Vec<Value> = std::iter::once("simulated".to_owned()).chain(fails).map(model).collect();
        // The list is not complete: every name is answered.
        json!({ "object": "list", "data": models, "simulated": true })
    }
}

fn whole(status: StatusCode, json: &Value) -> Response<AnswerBody> {
    let mut response = Response::new(Either::Left(Full::from(json.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A whole answer as a stream: its role, everything it says, its end, its usage.
fn events(answer: &Value, include_usage: bool) -> Response<AnswerBody> {
    let mut text = String::new();
    let mut event = |choices: Value, usage: Option<&Value>| {
        let mut event = json!({
            "id": answer["id"], "object": "chat.completion.chunk", "created": 0, "model": answer["model"], "choices": choices,
        });
        if let Some(usage) = usage {
            event["usage"] = usage.clone();
        }
        text.push_str(&format!("data: {event}\n\n"));
    };
    for choice in answer["choices"].as_array().into_iter().flatten() {
        let of =
            |delta: Value, end: &Value| json!([{ "index": choice["index"], "delta": delta, "finish_reason": end }]);
        let mut delta = choice["message"].clone();
        for (index, call) in delta["tool_calls"].as_array_mut().into_iter().flatten().enumerate() {
            call["index"] = index.into();
        }
        event(of(json!({ "role": "assistant", "content": "" }), &Value::Null), None);
        event(of(delta, &Value::Null), None);
        event(of(json!({}), &choice["finish_reason"]), None);
    }
    if let Some(usage) = answer.get("streamed_usage").filter(|usage| include_usage && usage.is_object()) {
        event(json!([]), Some(usage));
    }
    text.push_str("data: [DONE]\n\n");
    let mut response = Response::new(Either::Left(Full::from(text)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    response
}

fn refusal(status: StatusCode, message: &str) -> Response<AnswerBody> {
    whole(status, &error_json(message, "invalid_request_error", None))
}

fn method_not_allowed(allowed: &'static str) -> Response<AnswerBody> {
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, &format!("Only {allowed} is served here."));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

fn unknown_failure() -> Response<AnswerBody> {
    let names = SimulatedFailure::ALL.map(SimulatedFailure::as_str).join(", ");
    let message = format!("No such simulated failure: a model `{FAIL_PREFIX}NAME` has one of the names {names}.");
    whole(StatusCode::NOT_FOUND, &error_json(&message, "invalid_request_error", Some("model_not_found")))
}

/// Numbers of a vector, unless the request sets them.
const DIMENSIONS: u32 = 8;

/// The whole answer; without vectors if `empty`, with its usage if `usage`.
pub(super) fn embeddings(wanted: &ValidRequest, empty: bool, usage: bool) -> Value {
    let dimensions = wanted.dimensions.unwrap_or(DIMENSIONS);
    let inputs = wanted.inputs.iter().filter(|_| !empty).enumerate();
    let data: Vec<Value> = inputs
        .map(|(index, input)| {
            let vector = vector(input, dimensions);
            let embedding = if wanted.base64 { Value::from(base64(&vector)) } else { Value::from(vector) };
            json!({ "object": "embedding", "index": index, "embedding": embedding })
        })
        .collect();
    let mut answer = json!({ "object": "list", "data": data, "model": wanted.model });
    if usage {
        answer["usage"] = json!({ "prompt_tokens": wanted.prompt_tokens, "total_tokens": wanted.prompt_tokens });
    }
    answer
}

/// A vector of length 1.
fn vector(input: &str, dimensions: u32) -> Vec<f32> {
    let mut rng = Rng::with_seed(seed(input));
    let numbers: Vec<f64> = (0..dimensions).map(|_| rng.f64() - 0.5).collect();
    let length = numbers.iter().map(|number| number * number).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    numbers.into_iter().map(|number| (number / length) as f32).collect()
}

/// FNV-1a: the same on every machine and in every version.
fn seed(input: &str) -> u64 {
    input.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Floats as little-endian bytes, in base64.
fn base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

/// A transparent PNG of one pixel, in base64.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAAC0lEQVR4nGNgAAIAAAUAAXpeqz8AAAAASUVORK5CYII=";
/// Samples per second of simulated speech: one byte each, mono.
const SAMPLES: u32 = 8_000;
/// Simulated speech: a tenth of a second of silence.
const SPOKEN: u32 = SAMPLES / 10;

/// The body of an answer and its content type. `text` is the transcript.
fn passed_answer(call: PassedCall, request: &ValidRequest, text: &str) -> (&'static str, Bytes) {
    let json = |value: Value| ("application/json", Bytes::from(value.to_string()));
    match call {
        PassedCall::Transcription | PassedCall::Translation => json(json!({ "text": text })),
        PassedCall::Speech => ("audio/wav", wav()),
        PassedCall::Image | PassedCall::ImageEdit => {
            let url = format!("data:image/png;base64,{PIXEL}");
            json(json!({ "created": 0, "data": [{ "b64_json": PIXEL, "url": url }] }))
        }
        // A simulated provider does not speak the Responses API.
        PassedCall::Compaction | PassedCall::InputTokens | PassedCall::Background | PassedCall::Stored => {
            json(json!({ "object": "response.compaction", "output": [] }))
        }
        PassedCall::Rerank => {
            let score = |index| json!({ "index": index, "relevance_score": 1.0 / (index + 1) as f64 });
            let results: Vec<Value> = (0..request.inputs.len()).map(score).collect();
            json(json!({ "id": "rerank-simulated", "model": request.model, "results": results }))
        }
        PassedCall::Moderation => {
            let result = json!({ "flagged": false, "categories": {}, "category_scores": {} });
            let results = vec![result; request.inputs.len().max(1)];
            json(json!({ "id": "modr-simulated", "model": request.model, "results": results }))
        }
    }
}

/// Silence as a WAV file.
fn wav() -> Bytes {
    let mut wav = BytesMut::new();
    wav.put_slice(b"RIFF");
    wav.put_u32_le(36 + SPOKEN);
    wav.put_slice(b"WAVEfmt ");
    wav.put_u32_le(16);
    // Uncompressed, one channel.
    wav.put_u16_le(1);
    wav.put_u16_le(1);
    wav.put_u32_le(SAMPLES);
    // Bytes per second, bytes per sample, bits per sample.
    wav.put_u32_le(SAMPLES);
    wav.put_u16_le(1);
    wav.put_u16_le(8);
    wav.put_slice(b"data");
    wav.put_u32_le(SPOKEN);
    wav.put_bytes(0x80, SPOKEN as usize);
    wav.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_packed_as_the_official_clients_unpack_them() {
        assert_eq!(base64(&[]), "");
        assert_eq!(base64(&[1.0]), "AACAPw==");
        assert_eq!(base64(&[1.0, -2.0]), "AACAPwAAAMA=");
        assert_eq!(base64(&[1.0, -2.0, 0.5]), "AACAPwAAAMAAAAA/");
    }
}

#[cfg(test)]
mod passed_tests {
    use super::*;

    #[test]
    fn silence_has_the_lengths_that_it_names() {
        let wav = wav();
        let number = |at: usize| u32::from_le_bytes(wav[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!((&wav[..4], &wav[8..16], &wav[36..40]), (&b"RIFF"[..], &b"WAVEfmt "[..], &b"data"[..]));
        assert_eq!((number(4) + 8, number(40) + 44), (wav.len(), wav.len()));
    }
}
