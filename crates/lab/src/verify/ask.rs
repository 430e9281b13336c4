//! What `verify` asks each host: about fifty small requests, the same for all. Not for what the answers mean: see `judge`.

use serde_json::{Map, Value, json};

use photofinish_config::HostFact;

/// The tools, ours: nested and enum arguments, no remote reference.
const TOOLS: &str = include_str!("tools.json");
/// Tools in one request.
const TOOLS_AT_ONCE: usize = 3;
/// Tokens of an answer that is a call or a JSON text.
const CALL_TOKENS: u32 = 128;
/// Tokens of an answer with reasoning.
pub const REASONING_TOKENS: u32 = 512;
/// Tokens of the answers whose prompts are counted.
pub const LENGTH_TOKENS: u32 = 5;
/// Tokens of an answer that would be longer.
pub const LONG_TOKENS: u32 = 60;
/// Words of a system prompt, about a token each.
pub const SYSTEM_WORDS: usize = 120;
/// Bytes of a token at least: an estimate for the cost that is shown before.
const BYTES_PER_TOKEN: usize = 3;
/// Bytes of the longest prompt that `verify --context` sends.
const CONTEXT_MAX: usize = 4 << 20;
/// Share of the declared context that the long prompt fills.
pub const CONTEXT_SHARE: f64 = 0.9;

/// What one request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    Length,
    Stream,
    Context,
    System,
    LongAnswer,
    Stop,
    Seed,
    N,
    Logprobs,
    TopP,
    Schema,
    ToolNone,
    ToolAuto,
    ToolRequired,
    ToolNamed,
    Parallel,
    Arguments,
    LowEffort,
    HighEffort,
    Fresh,
    Unicode,
    Language,
}

/// One request, without its model.
#[derive(Clone, Debug)]
pub struct FactQuestion {
    pub topic: Topic,
    pub members: Map<String, Value>,
}

impl FactQuestion {
    fn new(topic: Topic, prompt: &str, max_tokens: u32, further: Value) -> FactQuestion {
        let mut members = Map::new();
        members.insert("messages".to_owned(), json!([{ "role": "user", "content": prompt }]));
        members.insert("max_tokens".to_owned(), max_tokens.into());
        members.insert("temperature".to_owned(), 0.into());
        members.extend(further.as_object().cloned().unwrap_or_default());
        FactQuestion { topic, members }
    }

    /// Tokens in and out, at most.
    pub fn tokens(&self) -> (f64, f64) {
        let number = |name: &str| self.members.get(name).and_then(Value::as_f64).unwrap_or(1.0);
        let bytes = Value::Object(self.members.clone()).to_string().len();
        ((bytes / BYTES_PER_TOKEN) as f64, number("max_tokens") * number("n"))
    }

    /// The schema of this tool of the request.
    pub fn schema_of(&self, tool: &str) -> Option<&Value> {
        let tools = self.members.get("tools")?.as_array()?;
        let found = tools.iter().find(|known| known["function"]["name"] == tool)?;
        Some(&found["function"]["parameters"])
    }
}

const COUNT: &str = "Count from 1 to 100 with spaces between, and write nothing else.";
const RANDOM: &str = "Write twenty random English words, and nothing else.";
/// What is to come back letter by letter.
pub const SIGNS: &str = "Zürich – Ελλάδα – 東京 – 🚀";

fn tools() -> Vec<Value> {
    serde_json::from_str(TOOLS).unwrap_or_default()
}

/// All questions. `context`: the declared context of the host, if it is to be tried.
pub fn questions(context: Option<u64>) -> Vec<FactQuestion> {
    let mut all = Vec::new();
    for number in 0..10 {
        // Digits, white space, other scripts and code: where tokenizers and templates differ.
        let extra = [
            "",
            " Grüße",
            " 東京タワー",
            "\n\n\tif (a == b) { }",
            " 1234567890",
            " Ωmega",
            "   ",
            " #!/bin/sh",
            " 🙂🙂",
            " naïve",
        ];
        let prompt = format!("{COUNT}{}", extra[number]);
        all.push(FactQuestion::new(Topic::Length, &prompt, LENGTH_TOKENS, json!({})));
    }
    let stream = json!({ "stream": true, "stream_options": { "include_usage": true } });
    all.push(FactQuestion::new(Topic::Stream, COUNT, LENGTH_TOKENS, stream));
    all.push(FactQuestion::new(Topic::LongAnswer, COUNT, LONG_TOKENS, json!({})));
    let system = json!({ "role": "system", "content": format!("Be brief.{}", " and".repeat(SYSTEM_WORDS)) });
    let messages = json!([system, { "role": "user", "content": COUNT }]);
    all.push(FactQuestion::new(Topic::System, COUNT, LENGTH_TOKENS, json!({ "messages": messages })));
    all.push(FactQuestion::new(Topic::Stop, COUNT, 40, json!({ "stop": ["7"] })));
    for _ in 0..3 {
        all.push(FactQuestion::new(Topic::Fresh, RANDOM, 16, json!({ "temperature": 1 })));
        all.push(FactQuestion::new(Topic::TopP, RANDOM, 16, json!({ "temperature": 1, "top_p": 0.01 })));
    }
    for _ in 0..2 {
        all.push(FactQuestion::new(Topic::Seed, RANDOM, 16, json!({ "temperature": 1, "seed": 7 })));
    }
    all.push(FactQuestion::new(Topic::N, RANDOM, 8, json!({ "temperature": 1, "n": 2 })));
    all.push(FactQuestion::new(Topic::Logprobs, COUNT, LENGTH_TOKENS, json!({ "logprobs": true, "top_logprobs": 2 })));
    all.extend(schemas());
    all.extend(calls());
    for (topic, effort) in [(Topic::LowEffort, "low"), (Topic::HighEffort, "high")] {
        let prompt =
            "A snail climbs 3 m a day up a wall of 30 m and slides back 2 m each night. On which day is it at the top?";
        for _ in 0..2 {
            all.push(FactQuestion::new(topic, prompt, REASONING_TOKENS, json!({ "reasoning_effort": effort })));
        }
    }
    let repeat = format!("Repeat exactly, and write nothing else: {SIGNS}");
    all.push(FactQuestion::new(Topic::Unicode, &repeat, 50, json!({})));
    let german = "Antworte auf Deutsch in einem Satz: Was ist die Hauptstadt von Frankreich?";
    all.push(FactQuestion::new(Topic::Language, german, 30, json!({})));
    if let Some(context) = context {
        // About one token for " and"; how many it really are is known from the short prompts of other hosts.
        let words = ((context as f64 * CONTEXT_SHARE) as usize).min(CONTEXT_MAX / 4);
        all.push(FactQuestion::new(
            Topic::Context,
            &format!("Say yes.{}", " and".repeat(words)),
            LENGTH_TOKENS,
            json!({}),
        ));
    }
    all
}

fn schemas() -> Vec<FactQuestion> {
    let all = tools();
    let of = |place: usize| all.get(place).map(|tool| tool["function"]["parameters"].clone()).unwrap_or_default();
    let question = |place: usize| {
        let format =
            json!({ "type": "json_schema", "json_schema": { "name": "answer", "strict": true, "schema": of(place) } });
        let prompt = "Invent an example of the object that the schema describes, with short values.";
        FactQuestion::new(Topic::Schema, prompt, CALL_TOKENS, json!({ "response_format": format }))
    };
    [1, 17].map(question).to_vec()
}

fn calls() -> Vec<FactQuestion> {
    let all = tools();
    let weather = json!([all.first().cloned().unwrap_or_default()]);
    let paris = "What is the weather in Paris in celsius? Use the tool.";
    let ask = |topic, prompt, choice: Value, tools: &Value| {
        FactQuestion::new(topic, prompt, CALL_TOKENS, json!({ "tools": tools, "tool_choice": choice }))
    };
    let named = |name: &Value| json!({ "type": "function", "function": { "name": name } });
    let two = json!(all.iter().take(2).collect::<Vec<_>>());
    let mut questions = vec![
        ask(Topic::ToolNone, paris, "none".into(), &weather),
        ask(Topic::ToolAuto, paris, "auto".into(), &weather),
        ask(Topic::ToolRequired, "Say hello.", "required".into(), &weather),
        ask(Topic::ToolNamed, paris, named(&"book_flight".into()), &two),
        ask(
            Topic::Parallel,
            "What is the weather in Paris, Rome and Oslo in celsius? Use the tool for each at once.",
            "auto".into(),
            &weather,
        ),
    ];
    for (number, some) in all.chunks(TOOLS_AT_ONCE).enumerate() {
        let name = &some[number % some.len()]["function"]["name"];
        let prompt = format!("Call {} with short invented arguments.", name.as_str().unwrap_or_default());
        let choice = json!({ "tools": some, "tool_choice": named(name) });
        questions.push(FactQuestion::new(Topic::Arguments, &prompt, CALL_TOKENS, choice));
    }
    questions
}

/// The fact that a refusal of such a request is about. None: several, or none.
pub(super) fn fact_of(topic: Topic) -> Option<HostFact> {
    Some(match topic {
        Topic::Stop => HostFact::Stop,
        Topic::Seed => HostFact::Seed,
        Topic::N => HostFact::N,
        Topic::Logprobs => HostFact::Logprobs,
        Topic::TopP => HostFact::TopP,
        Topic::Schema => HostFact::Schema,
        Topic::ToolNone => HostFact::ToolNone,
        Topic::ToolAuto => HostFact::ToolAuto,
        Topic::ToolRequired => HostFact::ToolRequired,
        Topic::ToolNamed => HostFact::ToolNamed,
        Topic::Parallel => HostFact::Parallel,
        Topic::Arguments => HostFact::Arguments,
        Topic::LowEffort | Topic::HighEffort => HostFact::Effort,
        Topic::Context => HostFact::Context,
        Topic::System => HostFact::System,
        Topic::LongAnswer => HostFact::AnswerLength,
        Topic::Stream => HostFact::UsageStream,
        Topic::Unicode => HostFact::Unicode,
        Topic::Language => HostFact::Language,
        Topic::Length | Topic::Fresh => return None,
    })
}

/// Prompts of a sample.
pub const SAMPLE_PROMPTS: usize = 25;
/// Requests to one host in one of two sessions: ten answers to each prompt.
pub const SAMPLE_REQUESTS: usize = 10 * SAMPLE_PROMPTS;
/// Tokens of a sampled answer.
const SAMPLE_TOKENS: u32 = 5;
/// What is to be continued; all begin alike, so that a cache helps every host alike.
const SUBJECTS: [&str; SAMPLE_PROMPTS] = [
    "the sea",
    "a clock",
    "winter",
    "an old road",
    "bread",
    "the moon",
    "a lost key",
    "music",
    "a river",
    "the market",
    "a ladder",
    "rain",
    "a letter",
    "the desert",
    "a fox",
    "glass",
    "a mountain",
    "the library",
    "salt",
    "a train",
    "fire",
    "a garden",
    "the wind",
    "a bridge",
    "silence",
];

/// The request for one sampled answer.
pub fn sample_members(prompt: usize) -> Map<String, Value> {
    let further = json!({ "temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0 });
    let prompt = format!("Write one sentence about {}.", SUBJECTS[prompt % SAMPLE_PROMPTS]);
    FactQuestion::new(Topic::Fresh, &prompt, SAMPLE_TOKENS, further).members
}

/// All requests of one session.
pub fn sample_questions() -> Vec<FactQuestion> {
    (0..SAMPLE_REQUESTS).map(|number| FactQuestion { topic: Topic::Fresh, members: sample_members(number) }).collect()
}
