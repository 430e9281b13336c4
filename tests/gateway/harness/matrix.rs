//! A surface over upstreams of one dialect, and the macro that turns a rule into a test for each such pair.

use crate::harness::gateway::{Setup, TestGateway};
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Gate, RawClient, Script};

/// The client's surface, and the dialect of every upstream.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub surface: Surface,
    pub dialect: Dialect,
}

/// Turns a rule, which is a function of a pair, into a test for each pair: `rule::messages_over_chat`. `natively` omits
/// the translated pairs.
macro_rules! rules {
    (everywhere: $($rule:ident),* $(,)?) => { $(
        $crate::harness::matrix::rules! { $rule:
            chat: Chat, OpenAi;
            responses: Responses, Responses;
            messages: Messages, Anthropic;
            messages_over_chat: Messages, OpenAi;
            responses_over_chat: Responses, OpenAi;
            chat_over_responses: Chat, Responses;
            messages_over_responses: Messages, Responses;
            chat_over_anthropic: Chat, Anthropic;
            responses_over_anthropic: Responses, Anthropic;
            chat_over_gemini: Chat, Gemini;
            responses_over_gemini: Responses, Gemini;
            messages_over_gemini: Messages, Gemini;
            chat_over_bedrock: Chat, Bedrock;
            responses_over_bedrock: Responses, Bedrock;
            messages_over_bedrock: Messages, Bedrock;
            chat_over_ollama: Chat, Ollama;
            responses_over_ollama: Responses, Ollama;
            messages_over_ollama: Messages, Ollama;
            ollama: Ollama, Ollama;
            ollama_over_chat: Ollama, OpenAi;
            ollama_over_responses: Ollama, Responses;
            ollama_over_anthropic: Ollama, Anthropic;
            ollama_over_gemini: Ollama, Gemini;
            ollama_over_bedrock: Ollama, Bedrock;
            gemini: Gemini, Gemini;
            gemini_over_chat: Gemini, OpenAi;
            gemini_over_responses: Gemini, Responses;
            gemini_over_anthropic: Gemini, Anthropic;
            gemini_over_bedrock: Gemini, Bedrock;
            gemini_over_ollama: Gemini, Ollama;
        }
    )* };
    (natively: $($rule:ident),* $(,)?) => { $(
        $crate::harness::matrix::rules! { $rule:
            chat: Chat, OpenAi;
            responses: Responses, Responses;
            messages: Messages, Anthropic;
            ollama: Ollama, Ollama;
            gemini: Gemini, Gemini;
        }
    )* };
    (over_chat: $($rule:ident),* $(,)?) => { $(
        $crate::harness::matrix::rules! { $rule:
            chat: Chat, OpenAi;
            messages_over_chat: Messages, OpenAi;
            responses_over_chat: Responses, OpenAi;
        }
    )* };
    ($rule:ident: $($name:ident: $surface:ident, $dialect:ident;)*) => {
        mod $rule { $(
            #[tokio::test]
            async fn $name() {
                let surface = $crate::harness::surface::Surface::$surface;
                super::$rule($crate::harness::matrix::Pair { surface, dialect: $crate::support::Dialect::$dialect }).await;
            }
        )* }
    };
}
pub(crate) use rules;

impl Pair {
    /// The lines of a provider's table that set its dialect.
    pub fn lines(self) -> String {
        format!("dialect = \"{}\"", self.dialect.name())
    }

    /// Providers `a`, `b`, … behind the model `m`, in this order.
    pub fn over(self, fakes: &[&FakeProvider]) -> Setup {
        let add =
            |setup: Setup, (name, fake): (char, &&FakeProvider)| setup.provider(&name.to_string(), fake, &self.lines());
        ('a'..='z').zip(fakes).fold(Setup::new(), add)
    }

    /// An empty script.
    pub fn script(self) -> Script {
        Script::of(self.dialect)
    }

    /// The head of a stream.
    pub fn open(self) -> Script {
        self.script().open()
    }

    /// A whole stream without errors.
    pub fn stream(self, tokens: &[&str]) -> Script {
        self.script().whole_stream(tokens)
    }

    /// A whole stream once the gate is open. Before that nothing is sent, not even headers.
    pub fn stream_after(self, gate: &Gate, tokens: &[&str]) -> Script {
        self.script().wait(gate).whole_stream(tokens)
    }

    /// A connection with a streaming request for the model `m`.
    pub async fn streaming(self, gateway: &TestGateway) -> RawClient {
        gateway.post(&self.surface.path_for("m", true), &self.surface.body("m", true)).await
    }

    /// A connection with a request for a whole answer of the model `m`.
    pub async fn whole(self, gateway: &TestGateway) -> RawClient {
        gateway.post(self.surface.path(), &self.surface.body("m", false)).await
    }

    /// The events up to and including the first with text.
    pub async fn first_text(self, client: &mut RawClient) -> String {
        loop {
            let text = self.surface.text(&client.event().await.unwrap().expect("an event with text"));
            if !text.is_empty() {
                return text;
            }
        }
    }
}
