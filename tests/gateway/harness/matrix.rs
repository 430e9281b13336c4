//! A surface over upstreams of one dialect, and the macro that makes a test of a rule for each such pair.

use crate::harness::gateway::{Setup, TestGateway};
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Gate, RawClient, Script};

/// What is called, and what every upstream speaks.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub surface: Surface,
    pub dialect: Dialect,
}

/// Makes of a rule, which is a function of a pair, a test for each pair: `rule::messages_over_chat`. `natively` leaves the
/// translated ones out.
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
        }
    )* };
    (natively: $($rule:ident),* $(,)?) => { $(
        $crate::harness::matrix::rules! { $rule:
            chat: Chat, OpenAi;
            responses: Responses, Responses;
            messages: Messages, Anthropic;
            ollama: Ollama, Ollama;
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
    /// The lines of a provider's table that say what it speaks.
    pub fn lines(self) -> String {
        format!("dialect = \"{}\"", self.dialect.name())
    }

    /// Providers `a`, `b`, … behind the model `m`, in this order.
    pub fn over(self, fakes: &[&FakeProvider]) -> Setup {
        let add =
            |setup: Setup, (name, fake): (char, &&FakeProvider)| setup.provider(&name.to_string(), fake, &self.lines());
        ('a'..='z').zip(fakes).fold(Setup::new(), add)
    }

    /// Nothing yet.
    pub fn script(self) -> Script {
        Script::of(self.dialect)
    }

    /// The head of a stream.
    pub fn open(self) -> Script {
        self.script().open()
    }

    /// A whole, good stream.
    pub fn stream(self, tokens: &[&str]) -> Script {
        self.script().whole_stream(tokens)
    }

    /// The same once the gate is open. Nothing before, no headers either.
    pub fn stream_after(self, gate: &Gate, tokens: &[&str]) -> Script {
        self.script().wait(gate).whole_stream(tokens)
    }

    /// A connection on which the model `m` was asked to stream.
    pub async fn streaming(self, gateway: &TestGateway) -> RawClient {
        gateway.post(self.surface.path(), &self.surface.body("m", true)).await
    }

    /// A connection on which the model `m` was asked for a whole answer.
    pub async fn whole(self, gateway: &TestGateway) -> RawClient {
        gateway.post(self.surface.path(), &self.surface.body("m", false)).await
    }

    /// The events of a client up to and with the first that has text.
    pub async fn first_text(self, client: &mut RawClient) -> String {
        loop {
            let text = self.surface.text(&client.event().await.unwrap().expect("an event with text"));
            if !text.is_empty() {
                return text;
            }
        }
    }
}
