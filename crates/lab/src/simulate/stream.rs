//! The body of an answer: its JSON and events in the shape of OpenAI's chat completions or its legacy completions, and a schedule
//! that is polled, without a task or a channel. Dropping the body stops the generation.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body::{Body, Frame};
use serde_json::{Value, json};
use tokio::time::Sleep;

use super::call::SimulatedCall;
use super::request::{RequestKind, ValidRequest};
use super::service::Service;
use super::tally::{RequestOutcome, Ticket};
use photofinish_base::clock::Instant;

/// The steps of a body, in order.
pub(super) struct BodyScript {
    /// Sent at once: the role chunk of a stream.
    pub(super) opening: Bytes,
    /// Tokens of each choice.
    pub(super) tokens: u32,
    /// The parts after the last token, or after the TTFT if there is no token.
    pub(super) tail: VecDeque<StreamPart>,
    /// How the request is counted when everything is sent.
    pub(super) end: RequestOutcome,
}

pub(super) enum StreamPart {
    Send(Bytes),
    /// Stays silent and open until the client leaves.
    Stall,
    /// Lets the connection send its buffer before a cut.
    Flush,
    /// The connection breaks.
    Cut,
}

impl BodyScript {
    /// A whole stream.
    pub(super) fn whole(wire: &AnswerWire, tokens: u32, reason: &str, include_usage: bool) -> BodyScript {
        let usage = include_usage.then(|| wire.usage(tokens));
        let tail = [Some(wire.finish(reason)), usage, Some(AnswerWire::done())];
        let tail = tail.into_iter().flatten().map(StreamPart::Send).collect();
        BodyScript { opening: wire.role(), tokens, tail, end: RequestOutcome::Completed }
    }

    /// Silence after the opening.
    pub(super) fn stalled(opening: Bytes) -> BodyScript {
        BodyScript { opening, tokens: 0, tail: [StreamPart::Stall].into(), end: RequestOutcome::Cancelled }
    }

    /// The connection breaks when the next token is due.
    pub(super) fn cut(opening: Bytes, tokens: u32) -> BodyScript {
        BodyScript { opening, tokens, tail: [StreamPart::Flush, StreamPart::Cut].into(), end: RequestOutcome::Failed }
    }

    /// An error frame instead of the first token.
    pub(super) fn error(opening: Bytes, frame: Bytes) -> BodyScript {
        BodyScript { opening, tokens: 0, tail: [StreamPart::Send(frame)].into(), end: RequestOutcome::Failed }
    }
}

/// Server-sent events, each when it is due. Events that are due together are separate frames, which the connection writes at
/// once.
pub(super) struct TokenStream {
    opened: bool,
    sent: u32,
    course: BodyScript,
    wire: AnswerWire,
    words: Arc<AnswerWords>,
    service: Service,
    ticket: Ticket,
    /// When the next frame is due, counted from the due time of the previous one: the timer's rounding to a millisecond
    /// does not accumulate.
    due: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl TokenStream {
    pub(super) fn new(
        course: BodyScript,
        wire: AnswerWire,
        words: Arc<AnswerWords>,
        mut service: Service,
        ticket: Ticket,
    ) -> TokenStream {
        let due = service.first();
        let sleep = Box::pin(tokio::time::sleep_until(due));
        TokenStream { opened: false, sent: 0, course, wire, words, service, ticket, due, sleep }
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = Instant::now();
            // What the machine did not write in time waits for the end of a stall, too.
            let until = if now < self.due { Some(self.due) } else { self.service.stalled_until(now) };
            let Some(until) = until else { return Poll::Ready(()) };
            if self.sleep.deadline() != until {
                self.sleep.as_mut().reset(until);
            }
            ready!(self.sleep.as_mut().poll(cx));
        }
    }

    /// An event, and when the next one is due.
    fn event(&mut self) -> Bytes {
        let tokens = self.service.event_tokens(self.course.tokens - self.sent);
        let event = self.wire.event_with(&self.words.text(self.sent, tokens));
        self.ticket.event(tokens);
        self.sent += tokens;
        let left = self.course.tokens - self.sent;
        if left > 0 {
            self.due = self.service.next(self.due, self.service.event_tokens(left));
        } else if matches!(self.course.tail.front(), Some(StreamPart::Flush)) {
            self.due = self.service.next(self.due, 1);
        }
        event
    }

    fn poll_tail(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let Some(part) = self.course.tail.pop_front() else { return Poll::Ready(None) };
        match part {
            StreamPart::Stall => {
                self.course.tail.push_front(StreamPart::Stall);
                return Poll::Pending;
            }
            StreamPart::Flush => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            StreamPart::Send(_) | StreamPart::Cut if self.course.tail.is_empty() => {
                self.ticket.end(self.course.end);
                self.service.end(self.due);
                self.ticket.free(self.due);
            }
            StreamPart::Send(_) | StreamPart::Cut => {}
        }
        Poll::Ready(Some(match part {
            StreamPart::Send(frame) => Ok(frame),
            _ => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "a simulated cut")),
        }))
    }
}

impl Body for TokenStream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let stream = self.get_mut();
        if !stream.opened {
            stream.opened = true;
            return Poll::Ready(Some(Ok(Frame::data(stream.course.opening.clone()))));
        }
        ready!(stream.poll_due(cx));
        if stream.sent < stream.course.tokens {
            return Poll::Ready(Some(Ok(Frame::data(stream.event()))));
        }
        stream.poll_tail(cx).map(|part| part.map(|frame| frame.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.opened && self.sent == self.course.tokens && self.course.tail.is_empty()
    }
}

/// The text after the first sentence, repeated.
const FILLER: &str = "These words stand for the tokens of a model. They come at the pace that the simulation was told, \
                      so that a race has something to run for.";

/// The text of every answer of one simulator, a word per token.
pub(super) struct AnswerWords {
    opening: Vec<String>,
    filler: Vec<String>,
}

impl AnswerWords {
    pub(super) fn new(name: &str) -> AnswerWords {
        let opening = format!("This is a simulated answer from {name}: no model was asked.");
        let opening = opening.split(' ').enumerate().map(|(at, word)| match at {
            0 => word.to_owned(),
            _ => format!(" {word}"),
        });
        AnswerWords { opening: opening.collect(), filler: FILLER.split(' ').map(|word| format!(" {word}")).collect() }
    }

    /// The text of the token at this place, counted from 0; never empty.
    fn token(&self, at: u32) -> &str {
        let at = at as usize;
        match self.opening.get(at) {
            Some(word) => word,
            None => &self.filler[(at - self.opening.len()) % self.filler.len()],
        }
    }

    /// The text of a number of tokens, from the one at this place on.
    pub(super) fn text(&self, from: u32, tokens: u32) -> String {
        (from..from.saturating_add(tokens)).map(|at| self.token(at)).collect()
    }
}

/// The common data of all parts of one answer.
pub(super) struct AnswerWire {
    /// A legacy completion: texts instead of messages.
    is_legacy: bool,
    /// The events' JSON up to the choices.
    head: String,
    /// The JSON after the choices; OpenAI sends `usage: null` in every chunk if the request wants usage.
    tail: &'static str,
    id: String,
    created: u64,
    model: String,
    choices: u32,
    prompt_tokens: u64,
    /// None: the server has no prefix cache.
    cached_tokens: Option<u64>,
    /// It calls a tool, and says nothing.
    call: Option<SimulatedCall>,
}

impl AnswerWire {
    pub(super) fn new(id: String, request: &ValidRequest, cached_tokens: Option<u64>) -> AnswerWire {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let is_legacy = request.kind == RequestKind::Completion;
        let head = format!(
            r#"data: {{"id":{},"object":"{}","created":{created},"model":{},"system_fingerprint":"simulated","choices":["#,
            Value::from(id.as_str()),
            if is_legacy { "text_completion" } else { "chat.completion.chunk" },
            Value::from(request.model.as_str()),
        );
        AnswerWire {
            is_legacy,
            head,
            tail: if request.include_usage { "],\"usage\":null}\n\n" } else { "]}\n\n" },
            id,
            created,
            model: request.model.clone(),
            choices: request.choices,
            prompt_tokens: request.prompt_tokens,
            cached_tokens,
            call: None,
        }
    }

    pub(super) fn calling(self, call: Option<SimulatedCall>) -> AnswerWire {
        AnswerWire { call, ..self }
    }

    /// Tokens of its call.
    pub(super) fn tokens_of_call(&self) -> Option<u32> {
        self.call.as_ref().map(|call| u32::try_from(call.pieces().len()).unwrap_or(u32::MAX))
    }

    /// What it writes in place of a text: the arguments of its call.
    pub(super) fn words(&self) -> Option<Arc<AnswerWords>> {
        let opening = self.call.as_ref()?.pieces();
        Some(Arc::new(AnswerWords { opening, filler: vec![String::new()] }))
    }

    /// Its call, with these arguments.
    fn call_json(call: &SimulatedCall, arguments: &str) -> Value {
        json!([{
            "index": 0,
            "id": "call_simulated",
            "type": "function",
            "function": { "name": call.name, "arguments": arguments },
        }])
    }

    /// The beginning of a stream. A legacy completion has no role, so it begins with a comment.
    pub(super) fn role(&self) -> Bytes {
        if self.is_legacy {
            return Bytes::from_static(b": simulated\n\n");
        }
        if let Some(call) = &self.call {
            let calls = AnswerWire::call_json(call, "");
            let delta = json!({ "role": "assistant", "content": null, "tool_calls": calls });
            return self.event(&delta.to_string(), "null");
        }
        self.event(r#"{"role":"assistant","content":"","refusal":null}"#, "null")
    }

    /// The event of one or several tokens.
    pub(super) fn event_with(&self, text: &str) -> Bytes {
        let text = Value::from(text);
        if self.call.is_some() {
            let delta = format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":{text}}}}}]}}"#);
            return self.event(&delta, "null");
        }
        match self.is_legacy {
            true => self.event(&text.to_string(), "null"),
            false => self.event(&format!(r#"{{"content":{text}}}"#), "null"),
        }
    }

    /// `reason` is `stop` or `length`.
    pub(super) fn finish(&self, reason: &str) -> Bytes {
        self.event(if self.is_legacy { "\"\"" } else { "{}" }, &format!("\"{reason}\""))
    }

    /// `tokens` of each choice.
    pub(super) fn usage(&self, tokens: u32) -> Bytes {
        Bytes::from(format!("{}],\"usage\":{}}}\n\n", self.head, self.usage_json(tokens)))
    }

    /// An error frame in a 200.
    pub(super) fn error(error: &Value) -> Bytes {
        Bytes::from(format!("data: {error}\n\n"))
    }

    pub(super) fn done() -> Bytes {
        Bytes::from_static(b"data: [DONE]\n\n")
    }

    /// An answer without streaming; with its usage if `usage`.
    pub(super) fn whole(&self, words: &AnswerWords, tokens: u32, reason: &str, usage: bool) -> Value {
        let text = words.text(0, tokens);
        let choice = |index| match self.is_legacy {
            true => json!({ "text": text, "index": index, "logprobs": null, "finish_reason": reason }),
            false => json!({
                "index": index,
                "message": self.message(&text),
                "logprobs": null,
                "finish_reason": reason,
            }),
        };
        let mut answer = json!({
            "id": self.id,
            "object": if self.is_legacy { "text_completion" } else { "chat.completion" },
            "created": self.created,
            "model": self.model,
            "system_fingerprint": "simulated",
            "choices": (0..self.choices).map(choice).collect::<Vec<_>>(),
        });
        if usage {
            answer["usage"] = self.usage_json(tokens);
        }
        answer
    }

    fn message(&self, text: &str) -> Value {
        match &self.call {
            None => json!({ "role": "assistant", "content": text, "refusal": null }),
            Some(call) => {
                let mut calls = AnswerWire::call_json(call, text);
                calls[0].as_object_mut().map(|call| call.remove("index"));
                json!({ "role": "assistant", "content": null, "tool_calls": calls })
            }
        }
    }

    /// One event per choice, with its delta or text.
    fn event(&self, delta: &str, finish_reason: &str) -> Bytes {
        let choice = |index| {
            let AnswerWire { head, tail, .. } = self;
            let member = if self.is_legacy { "text" } else { "delta" };
            format!(
                r#"{head}{{"index":{index},"{member}":{delta},"logprobs":null,"finish_reason":{finish_reason}}}{tail}"#
            )
        };
        Bytes::from((0..self.choices).map(choice).collect::<String>())
    }

    fn usage_json(&self, tokens: u32) -> Value {
        let completion_tokens = u64::from(tokens) * u64::from(self.choices);
        let mut usage = json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": self.prompt_tokens + completion_tokens,
        });
        if let Some(cached_tokens) = self.cached_tokens {
            usage["prompt_tokens_details"] = json!({ "cached_tokens": cached_tokens });
        }
        usage
    }
}

/// An error in OpenAI's shape.
pub(super) fn error_json(message: &str, kind: &str, code: Option<&str>) -> Value {
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use http_body_util::BodyExt;
    use serde_json::Value;

    use photofinish_config::Simulation;

    use super::super::request::{RequestKind, ValidRequest};
    use super::super::service::RandomDraws;
    use super::super::service::{Service, SharedServer};
    use super::super::tally::Tally;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    struct Fixture {
        tally: Arc<Tally>,
        wire: AnswerWire,
        words: Arc<AnswerWords>,
        simulation: Simulation,
    }

    /// 200 ms to the first token, 25 ms between tokens.
    fn fixture(body: &str) -> Fixture {
        fixture_at(body, 40.0)
    }

    fn fixture_at(body: &str, tokens_per_second: f64) -> Fixture {
        let simulation = Simulation { jitter: 0.0, tokens_per_second, ..Simulation::default() };
        let request = ValidRequest::parse(RequestKind::Chat, &Bytes::copy_from_slice(body.as_bytes())).unwrap();
        Fixture {
            tally: Arc::new(Tally::new(Instant::now(), None)),
            wire: AnswerWire::new("chatcmpl-1".into(), &request, None),
            words: Arc::new(AnswerWords::new("demo")),
            simulation,
        }
    }

    impl Fixture {
        fn stream(self, course: impl FnOnce(&AnswerWire) -> BodyScript) -> (TokenStream, Arc<Tally>) {
            let course = course(&self.wire);
            let ticket = self.tally.start(1, None);
            let server = Arc::new(SharedServer::new(&self.simulation));
            let slot = server.enter(ticket.started()).now_or_never().unwrap();
            let pace = RandomDraws::new(None).draw(&self.simulation, None).1;
            let service = Service::new(slot, pace, 0);
            (TokenStream::new(course, self.wire, self.words, service, ticket), self.tally)
        }
    }

    /// Each event's JSON with its milliseconds since the beginning; the error as its text.
    async fn events(stream: &mut TokenStream) -> Vec<(u128, Value)> {
        let start = Instant::now();
        let mut events = Vec::new();
        while let Some(frame) = stream.frame().await {
            let at = start.elapsed().as_millis();
            match frame {
                Ok(frame) => {
                    let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
                    events.extend(text.split_terminator("\n\n").map(|event| {
                        let data = event.strip_prefix("data: ").unwrap();
                        (at, serde_json::from_str(data).unwrap_or_else(|_| data.into()))
                    }));
                }
                Err(error) => events.push((at, error.to_string().into())),
            }
        }
        events
    }

    const ASKED: &str = r#"{"model":"m","messages":[],"stream_options":{"include_usage":true}}"#;
    const PLAIN: &str = r#"{"model":"m","messages":[]}"#;

    #[tokio::test(start_paused = true)]
    async fn a_whole_stream_comes_on_time_and_in_shape() {
        let (mut stream, tally) = fixture(ASKED).stream(|wire| BodyScript::whole(wire, 3, "stop", true));
        let events = events(&mut stream).await;
        let times: Vec<u128> = events.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [0, 200, 225, 250, 250, 250, 250], "role, three tokens, finish, usage, [DONE]");
        for (_, event) in &events[..6] {
            assert_eq!(event["object"], "chat.completion.chunk");
            assert_eq!(event["system_fingerprint"], "simulated");
            assert_eq!(event["model"], "m");
        }
        let delta = |at: usize| &events[at].1["choices"][0]["delta"];
        assert_eq!(delta(0)["role"], "assistant");
        assert_eq!(delta(0)["content"], "", "the role chunk must not win a race");
        assert_eq!((&delta(1)["content"], &delta(2)["content"]), (&"This".into(), &" is".into()));
        assert_eq!(events[1].1["usage"], Value::Null);
        assert_eq!(events[4].1["choices"][0]["finish_reason"], "stop");
        assert_eq!(events[5].1["choices"], Value::Array(Vec::new()));
        assert_eq!(events[5].1["usage"]["completion_tokens"], 3);
        assert_eq!(events[6].1, "[DONE]");
        drop(stream);
        assert_eq!((tally.counts().completed, tally.counts().running), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn usage_is_sent_only_when_asked_for() {
        let (mut stream, _) = fixture(PLAIN).stream(|wire| BodyScript::whole(wire, 1, "length", false));
        let events = events(&mut stream).await;
        assert!(events.iter().all(|(_, event)| event.get("usage").is_none()), "{events:?}");
        assert_eq!(events.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn every_choice_has_its_own_events() {
        let body = r#"{"model":"m","messages":[],"n":2}"#;
        let (mut stream, _) = fixture(body).stream(|wire| BodyScript::whole(wire, 1, "stop", true));
        let events = events(&mut stream).await;
        let indices: Vec<&Value> = events[..6].iter().map(|(_, event)| &event["choices"][0]["index"]).collect();
        assert_eq!(indices, [0, 1, 0, 1, 0, 1]);
        assert_eq!(events[6].1["usage"]["completion_tokens"], 2);
    }

    #[tokio::test(start_paused = true)]
    async fn small_gaps_do_not_add_up_to_more() {
        // 0.3 ms between tokens: each sleep alone would be rounded up to a millisecond.
        let (mut stream, _) =
            fixture_at(PLAIN, 10_000.0 / 3.0).stream(|wire| BodyScript::whole(wire, 1_001, "stop", false));
        let events = events(&mut stream).await;
        let (last, _) = events.last().unwrap();
        assert!((500..=502).contains(last), "{last}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_says_its_role_and_nothing_more() {
        let (mut stream, tally) = fixture(PLAIN).stream(|wire| BodyScript::stalled(wire.role()));
        assert!(stream.frame().await.unwrap().is_ok());
        assert!(tokio::time::timeout(3_600_000 * MS, stream.frame()).await.is_err());
        assert!(!stream.is_end_stream());
        drop(stream);
        assert_eq!((tally.counts().cancelled, tally.counts().running), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_breaks_where_the_next_token_was_due() {
        let (mut stream, tally) = fixture(PLAIN).stream(|wire| BodyScript::cut(wire.role(), 2));
        let events = events(&mut stream).await;
        assert_eq!(events.len(), 4);
        assert_eq!(events[3], (250, "a simulated cut".into()));
        drop(stream);
        assert_eq!(tally.counts().failed, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_frame_comes_in_place_of_the_first_token() {
        let frame = Bytes::from_static(b"data: {\"error\":{}}\n\n");
        let (mut stream, tally) = fixture(PLAIN).stream(|wire| BodyScript::error(wire.role(), frame));
        let events = events(&mut stream).await;
        assert_eq!(events[1].0, 200);
        assert!(events[1].1.get("error").is_some());
        assert!(stream.is_end_stream());
        drop(stream);
        assert_eq!(tally.counts().failed, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_stream_stops_and_is_counted() {
        let (mut stream, tally) = fixture(PLAIN).stream(|wire| BodyScript::whole(wire, 40, "stop", false));
        for _ in 0..3 {
            stream.frame().await.unwrap().unwrap();
        }
        let dropped = Instant::now();
        drop(stream);
        let ended = &tally.ended()[0];
        assert_eq!((ended.end, ended.ended), (RequestOutcome::Cancelled, dropped));
        assert_eq!(ended.first_token, Some(ended.started + 200 * MS));
    }
}
