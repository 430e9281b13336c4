//! The JSON and the events of answers, in the shape of OpenAI's chat completions or its legacy completions. Not for the
//! time of sending: see `stream`.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::{Value, json};

use super::request::{RequestKind, ValidRequest};

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

    /// The text of so many tokens, from the one at this place on.
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
        }
    }

    /// The beginning of a stream. A legacy completion has no role, so it begins with a comment.
    pub(super) fn role(&self) -> Bytes {
        if self.is_legacy {
            return Bytes::from_static(b": simulated\n\n");
        }
        self.event(r#"{"role":"assistant","content":"","refusal":null}"#, "null")
    }

    /// The event of one or several tokens.
    pub(super) fn event_with(&self, text: &str) -> Bytes {
        let text = Value::from(text);
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
                "message": { "role": "assistant", "content": text, "refusal": null },
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
