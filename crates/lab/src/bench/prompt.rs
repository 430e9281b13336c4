//! The prompts of a run: made, never stored. The text is words, after a salt that no other prompt has, so no prefix cache
//! of a server helps unless a common prefix is asked for. A workload says how long prompts and answers are.
//!
//! There is no tokenizer: how many bytes a token has is learnt from the usage that the server reports.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;
use std::vec;

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::conversation::{AddedMessages, LoadConversation, LoadTurn, agent};
use photofinish_config::{Config, OF_BENCHMARKS, ProbeWorkload, nearest};

/// Bytes of a token before the server has counted a prompt: the mean of this word list with three tokenizers.
const BYTES_PER_TOKEN: f64 = 5.6;
/// What a server may teach. One that counts absurdly would otherwise make each prompt longer than the one before.
const BYTES_PER_TOKEN_RANGE: (f64, f64) = (0.5, 16.0);
/// Weight of a new count in what was learnt; the first one counts whole.
const NEW_WEIGHT: f64 = 0.5;
/// Upstreams for which lengths are learnt.
const LEARNT_MAX: usize = 1_024;

/// Common English words. Most tokenizers have a token of its own for each.
static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| include_str!("words.txt").split_whitespace().collect());

/// Tokens of a prompt that are not of its text: the template of a chat around one message. In one count they cannot be distinguished from
/// the text's; without them a short prompt would teach that a long one has more tokens than it has.
const TEMPLATE_TOKENS: f64 = 9.0;

/// The end of each prompt: a model that follows it writes more than any `max_tokens`.
const TASK: &str = "\n\nContinue this list of words with other words in running text. Write as long as you can. Do not stop, do not explain.";
/// The same for a prompt that has no room for it.
const SHORT_TASK: &str = "\nGo on.";

/// Makes the prompts of one run.
#[derive(Debug)]
pub struct PromptMaker {
    workload: Workload,
    seed: u64,
    /// Part of every salt.
    salt: u64,
    /// Share of the text that all prompts have in common, at their beginning.
    prefix: f64,
    /// Given prompts, used in turn instead of made ones.
    given: Vec<Map<String, Value>>,
    /// Conversations that are played instead of single prompts.
    sessions: Option<SessionSource>,
    lengths: Lengths,
}

/// Where conversations come from.
#[derive(Clone, Debug)]
pub enum SessionSource {
    /// Each is played once in a stage.
    Given(Arc<[LoadConversation]>),
    /// Made, without end.
    Agent,
}

impl SessionSource {
    /// Its conversations; None: without end.
    pub fn count(&self) -> Option<usize> {
        match self {
            SessionSource::Given(all) => Some(all.len()),
            SessionSource::Agent => None,
        }
    }
}

/// A conversation that is being played, with the messages so far.
#[derive(Debug)]
pub struct LoadSession {
    turns: vec::IntoIter<LoadTurn>,
    messages: Vec<Value>,
    tools: Option<Value>,
    /// In front of its system text and of its first message, so that a server's cache helps with what it sent itself alone.
    salts: [u64; 2],
    /// Of made messages.
    bytes: usize,
    tokens: u32,
}

impl LoadSession {
    /// From the end of the answer before to the next turn; None: there is none.
    pub fn pause(&self) -> Option<Duration> {
        self.turns.as_slice().first().map(|turn| turn.delay)
    }
}

/// One prompt as the members of a request's body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    pub members: Map<String, Value>,
    /// Bytes of its text; 0 where it was given.
    pub bytes: usize,
    /// Tokens that it is to have, if not those of the workload.
    pub tokens: Option<u32>,
    /// Tokens around the messages before its last one.
    pub template_tokens: i64,
}

impl PromptMaker {
    pub fn new(workload: Workload, prefix: f64, seed: u64) -> PromptMaker {
        let (given, sessions, lengths) = (Vec::new(), None, Lengths::default());
        PromptMaker { workload, seed, salt: 0, prefix, given, sessions, lengths }
    }

    /// The same lengths of answers, with given prompts instead of made ones. Each is a body of a chat request, without its
    /// model.
    pub fn given(self, given: Vec<Map<String, Value>>) -> PromptMaker {
        PromptMaker { given, ..self }
    }

    /// With conversations instead of single prompts.
    pub fn sessions(self, sessions: Option<SessionSource>) -> PromptMaker {
        PromptMaker { sessions, ..self }
    }

    pub fn has_sessions(&self) -> bool {
        self.sessions.is_some()
    }

    /// The same words behind other salts: of another run, so that what a server cached of one run helps no other with its seed.
    pub fn salted(self, run_id: &str) -> PromptMaker {
        let mut hasher = DefaultHasher::new();
        run_id.hash(&mut hasher);
        PromptMaker { salt: hasher.finish(), ..self }
    }

    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Whether no two prompts begin alike.
    pub fn are_unique(&self) -> bool {
        self.are_made() && self.prefix == 0.0
    }

    /// Whether they are made, so that their lengths are those of the workload.
    pub fn are_made(&self) -> bool {
        self.given.is_empty() && self.sessions.is_none()
    }

    /// The session with this number of its stage; none: there are no more. `first`: a number that no session of another stage has.
    pub fn session(&self, which: u64, first: u64, lane: u64) -> Option<LoadSession> {
        let conversation = match self.sessions.as_ref()? {
            SessionSource::Given(all) => all.get(usize::try_from(which).ok()?)?.clone(),
            SessionSource::Agent => agent(&mut Rng::with_seed(self.seed.wrapping_add(which))),
        };
        let mut salt = self.salt(first + which, lane);
        let salts = [salt.u64(..), salt.u64(..)];
        let system = conversation.system.map(|system| message("system", format!("[{:016x}] {system}", salts[0])));
        let (turns, tools) = (conversation.turns.into_iter(), conversation.tools);
        Some(LoadSession { turns, messages: system.into_iter().collect(), tools, salts, bytes: 0, tokens: 0 })
    }

    /// The next request of a session; none at its end.
    pub fn turn(&self, session: &mut LoadSession, number: u64, lane: u64, upstream: &str) -> Option<Prompt> {
        let turn = session.turns.next()?;
        let begins = session.messages.iter().all(|message| message["role"] == "system");
        match turn.added {
            AddedMessages::Given(mut messages) => {
                if let Some(content) = messages.first_mut().filter(|_| begins).map(|first| &mut first["content"]) {
                    put_in_front(content, session.salts[1]);
                }
                session.messages.extend(messages);
            }
            AddedMessages::Made { answer, said } => {
                let mut answered = String::new();
                let mut rng = Rng::with_seed(self.seed.wrapping_sub(number));
                words(&mut rng, self.lengths.bytes(upstream, answer), &mut answered);
                let said_text = self.text(number, lane, self.lengths.bytes(upstream, said));
                session.bytes += said_text.len() + if begins { 0 } else { answered.len() };
                session.tokens += said + answer;
                session.messages.extend((!begins).then(|| message("assistant", answered)));
                session.messages.push(message("user", said_text));
            }
        }
        let mut members = Map::new();
        members.insert("messages".to_owned(), session.messages.clone().into());
        members.insert("max_tokens".to_owned(), turn.output_tokens.unwrap_or(self.workload.output_tokens).into());
        members.extend(session.tools.clone().map(|tools| ("tools".to_owned(), tools)));
        let others = session.messages.len().saturating_sub(1) as f64;
        Some(Prompt {
            members,
            bytes: session.bytes,
            tokens: Some(session.tokens).filter(|tokens| *tokens > 0),
            template_tokens: (others * TEMPLATE_TOKENS) as i64,
        })
    }

    fn salt(&self, number: u64, lane: u64) -> Rng {
        Rng::with_seed(self.seed ^ self.salt ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ lane.rotate_left(32))
    }

    /// The prompt of this number for this upstream. `lane` makes another salt for the same words, for a comparison.
    pub fn make(&self, number: u64, lane: u64, upstream: &str) -> Prompt {
        if !self.given.is_empty() {
            let at = usize::try_from(number % self.given.len() as u64).unwrap_or(0);
            let mut members = self.given[at].clone();
            members.entry("max_tokens").or_insert(self.workload.output_tokens.into());
            return Prompt { members, ..Prompt::default() };
        }
        if let Some(SessionSource::Given(all)) = &self.sessions {
            // Its longest request, for what it may cost.
            let mut session = self.session(number % all.len().max(1) as u64, number, lane);
            let turns = std::iter::from_fn(|| self.turn(session.as_mut()?, number, lane, upstream));
            return turns.last().unwrap_or_default();
        }
        let bytes = self.lengths.bytes(upstream, self.workload.input_tokens);
        let text = self.text(number, lane, bytes);
        let mut members = Map::new();
        members.insert("messages".to_owned(), json!([{ "role": "user", "content": text }]));
        members.insert("max_tokens".to_owned(), self.workload.output_tokens.into());
        members.insert("temperature".to_owned(), 0.into());
        Prompt { bytes: text.len(), members, ..Prompt::default() }
    }

    /// The server counted `tokens` for a prompt of `bytes`.
    pub fn counted(&self, upstream: &str, bytes: usize, tokens: i64) {
        if bytes > 0 && tokens > 0 {
            let (least, most) = BYTES_PER_TOKEN_RANGE;
            let of_text = (tokens as f64 - TEMPLATE_TOKENS).max(1.0);
            self.lengths.counted(upstream, (bytes as f64 / of_text).clamp(least, most));
        }
    }

    fn text(&self, number: u64, lane: u64, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 16);
        let shared = (bytes as f64 * self.prefix) as usize;
        if shared > 0 {
            words(&mut Rng::with_seed(self.seed), shared, &mut text);
        }
        text.push_str(&format!("[{:016x}]", self.salt(number, lane).u64(..)));
        let marker = marker(number, lane);
        let fits = text.len() + TASK.len() + marker.len() + MARKER_SIGNS <= bytes;
        let end = format!("{} ({marker})", if fits { TASK } else { SHORT_TASK });
        // The salt stays whole, however short the prompt is to be.
        let until = bytes.saturating_sub(end.len()).max(text.len());
        words(&mut Rng::with_seed(self.seed.wrapping_add(number)), until, &mut text);
        text.push_str(&end);
        text
    }
}

/// Bytes around a marker.
const MARKER_SIGNS: usize = " ()".len();

/// What leads from a line of a simulator's truth file to its request. It is at the end of the prompt.
pub fn marker(number: u64, lane: u64) -> String {
    format!("bench-{number:x}-{lane:x}")
}

fn message(role: &str, content: String) -> Value {
    json!({ "role": role, "content": content })
}

/// A salt before the text of a message, or before its parts.
fn put_in_front(content: &mut Value, salt: u64) {
    match content {
        Value::String(text) => text.insert_str(0, &format!("[{salt:016x}] ")),
        Value::Array(parts) => parts.insert(0, json!({ "type": "text", "text": format!("[{salt:016x}]") })),
        _ => {}
    }
}

/// Appends words until the text has `bytes`.
fn words(rng: &mut Rng, bytes: usize, text: &mut String) {
    while text.len() < bytes {
        text.push(' ');
        text.push_str(WORDS[rng.usize(..WORDS.len())]);
    }
    text.truncate(bytes.max(1).min(text.len()));
}

/// Bytes of a token, for each upstream.
#[derive(Debug, Default)]
struct Lengths(Mutex<HashMap<String, f64>>);

impl Lengths {
    fn bytes(&self, upstream: &str, tokens: u32) -> usize {
        let learnt = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ratio = learnt.get(upstream).copied().unwrap_or(BYTES_PER_TOKEN);
        ((f64::from(tokens) - TEMPLATE_TOKENS).max(1.0) * ratio).round() as usize
    }

    fn counted(&self, upstream: &str, ratio: f64) {
        let mut learnt = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = learnt.get_mut(upstream) {
            *known += (ratio - *known) * NEW_WEIGHT;
        } else if learnt.len() < LEARNT_MAX {
            learnt.insert(upstream.to_owned(), ratio);
        }
    }
}

/// Tokens of a prompt or an answer at most.
pub const TOKENS_MAX: u32 = 2_000_000;
/// Tokens of a prompt that the server counts may exceed those of its workload by this factor, for its price before it is sent.
pub const INPUT_MARGIN: f64 = 1.5;

/// The workload that is sessions of agents: its name, mean tokens of a prompt and median tokens of an answer. A configuration
/// may have another one of this name.
pub const AGENT: (&str, u32, u32) = ("agent", 27_000, 150);

/// The shape of the requests of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    pub name: String,
    /// Tokens of a prompt, as the server counts them.
    pub input_tokens: u32,
    /// `max_tokens` of a request; the prompt asks for more than that.
    pub output_tokens: u32,
}

impl Workload {
    pub fn new(name: &str, input_tokens: u32, output_tokens: u32) -> Workload {
        Workload { name: name.to_owned(), input_tokens, output_tokens }
    }

    /// The workload of this name: the configuration's own, one of the probes', or one of benchmarks.
    ///
    /// # Errors
    /// In words, if there is none, or if it is a probe of several requests at once: that is a level of load, not a workload.
    pub fn named(name: &str, config: &Config) -> Result<Workload, String> {
        let known = OF_BENCHMARKS.iter().chain([&AGENT]);
        let of_benchmarks = || known.clone().find(|known| known.0 == name).map(|known| (known.1, known.2));
        let lengths = match config.workloads.get(name) {
            Some(known) if known.at_once > 1 => {
                let is_alone = |other: &&ProbeWorkload| {
                    other.at_once == 1
                        && (other.input_tokens, other.output_tokens) == (known.input_tokens, known.output_tokens)
                };
                let alone = config.workloads.values().find(is_alone).map_or("1k", |other| other.name.as_str());
                let at_once = known.at_once;
                return Err(format!(
                    "the workload {name:?} is {at_once} requests at once: use --workload {alone} --concurrency {at_once}"
                ));
            }
            known => known.map(|known| (known.input_tokens, known.output_tokens)).or_else(of_benchmarks),
        };
        let (input_tokens, output_tokens) = lengths.ok_or_else(|| {
            let names = Workload::names(config);
            let nearest = nearest(name, names.iter().copied(), 1);
            let hint = nearest.first().map_or(String::new(), |nearest| format!(" (did you mean {nearest}?)"));
            format!("there is no workload {name:?}{hint}; there are {}", names.join(", "))
        })?;
        Ok(Workload::new(name, input_tokens, output_tokens))
    }

    /// The names of all of them.
    fn names(config: &Config) -> Vec<&str> {
        let of_probes = config.workloads.values().filter(|known| known.at_once == 1);
        OF_BENCHMARKS
            .iter()
            .chain([&AGENT])
            .map(|known| known.0)
            .chain(of_probes.map(|known| known.name.as_str()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(prompt: &Prompt) -> String {
        prompt.members["messages"][0]["content"].as_str().unwrap().to_owned()
    }

    #[test]
    fn prompts_differ_from_their_first_bytes_on() {
        let prompts = PromptMaker::new(Workload::new("w", 100, 10), 0.0, 7);
        let first: std::collections::HashSet<String> =
            (0..1_000).map(|number| text(&prompts.make(number, 0, "a/m"))[..18].to_owned()).collect();
        assert_eq!(first.len(), 1_000);
        assert_eq!(prompts.make(3, 0, "a/m"), prompts.make(3, 0, "a/m"), "a seed repeats them");
    }

    #[test]
    fn prompts_of_any_length_begin_differently() {
        for tokens in [1, 5, 12, 30, 42, 154, 200] {
            for prefix in [0.0, 0.5, 0.99] {
                for bytes_per_token in [1.0, 4.0] {
                    let prompts = PromptMaker::new(Workload::new("w", tokens, 10), prefix, 7);
                    prompts.counted("a/m", (1_000.0 * bytes_per_token) as usize, 1_009);
                    let texts: Vec<String> = (0..50).map(|number| text(&prompts.make(number, 0, "a/m"))).collect();
                    let alike = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
                    let shared = (f64::from(tokens) * bytes_per_token * prefix) as usize;
                    let most = texts[1..].iter().map(|other| alike(&texts[0], other)).max().unwrap();
                    assert!(most <= shared + 4, "{tokens} tokens, prefix {prefix}: {most} bytes alike");
                }
            }
        }
        let one = PromptMaker::new(Workload::new("w", 1, 10), 0.0, 7).make(3, 0, "a/m");
        assert!(text(&one).ends_with("]\nGo on. (bench-3-0)") && one.bytes == text(&one).len());
    }

    #[test]
    fn a_short_prompt_teaches_the_length_of_a_long_one() {
        // As the simulator counts: a token for four bytes of JSON.
        let count = |prompt: &Prompt| prompt.members["messages"].to_string().len().div_ceil(4);
        let ping = PromptMaker::new(Workload::new("ping", 200, 16), 0.0, 7).make(0, 0, "a/m");
        let long = PromptMaker::new(Workload::new("10k", 10_000, 1_500), 0.0, 7);
        long.counted("a/m", ping.bytes, count(&ping) as i64);
        let tokens = count(&long.make(0, 0, "a/m"));
        assert!((9_900..=10_100).contains(&tokens), "{tokens}");
    }

    #[test]
    fn lanes_have_the_same_words_behind_another_salt() {
        let prompts = PromptMaker::new(Workload::new("w", 100, 10), 0.0, 7);
        let (a, b) = (text(&prompts.make(3, 0, "a/m")), text(&prompts.make(3, 1, "b/m")));
        assert_ne!(a[..18], b[..18]);
        let words = |text: &str| text[18..].split(" (bench-").next().unwrap().to_owned();
        assert_eq!(words(&a), words(&b));
        assert!(a.ends_with("(bench-3-0)") && b.ends_with("(bench-3-1)"));
    }

    #[test]
    fn another_run_with_the_same_seed_has_the_same_words_behind_other_salts() {
        let of = |run_id: &str| PromptMaker::new(Workload::new("w", 100, 10), 0.0, 7).salted(run_id);
        let (one, other) = (of("run one"), of("run two"));
        for number in 0..100 {
            let (a, b) = (text(&one.make(number, 0, "a/m")), text(&other.make(number, 0, "a/m")));
            assert_ne!(a[..18], b[..18]);
            assert_eq!(a[18..], b[18..]);
        }
    }

    #[test]
    fn a_common_prefix_is_as_long_as_asked() {
        let prompts = PromptMaker::new(Workload::new("w", 1_000, 10), 0.5, 7);
        let (a, b) = (text(&prompts.make(1, 0, "a/m")), text(&prompts.make(2, 0, "a/m")));
        let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let share = common as f64 / a.len() as f64;
        assert!((0.48..0.53).contains(&share), "{share}");
    }

    #[test]
    fn lengths_are_learnt_from_the_second_prompt_on() {
        let prompts = PromptMaker::new(Workload::new("w", 1_000, 10), 0.0, 7);
        // A server that counts a token for 3.9 bytes, and nine for its template.
        let count = |prompt: &Prompt| (prompt.bytes as f64 / 3.9) as i64 + 9;
        let first = prompts.make(0, 0, "a/m");
        prompts.counted("a/m", first.bytes, count(&first));
        for number in 1..5 {
            let next = prompts.make(number, 0, "a/m");
            let tokens = count(&next);
            assert!((980..=1_020).contains(&tokens), "prompt {number}: {tokens}");
            prompts.counted("a/m", next.bytes, tokens);
        }
        assert_eq!(prompts.make(9, 0, "b/m").bytes, first.bytes, "each upstream counts its own");
    }

    #[test]
    fn an_absurd_count_does_not_make_prompts_grow_without_end() {
        let prompts = PromptMaker::new(Workload::new("w", 1_000, 10), 0.0, 7);
        for number in 0..20 {
            prompts.counted("a/m", prompts.make(number, 0, "a/m").bytes, 40);
        }
        assert_eq!(prompts.make(99, 0, "a/m").bytes, (1_000 - 9) * 16);
    }

    #[test]
    fn a_session_repeats_only_what_it_sent_itself() {
        let row = |turn: u64, role: &str, content: &str| {
            let mut row = json!({ "conversation_id": "c", "turn": turn, "role": role, "content": content });
            row["system"] = "be good".into();
            row.as_object().unwrap().clone()
        };
        let mut reader = super::super::conversation::ConversationReader::default();
        for row in [row(1, "user", "one"), row(2, "assistant", "two"), row(3, "user", "three")] {
            reader.row(row).unwrap();
        }
        let source = SessionSource::Given(reader.finish().into());
        let prompts = PromptMaker::new(Workload::new("w", 1, 33), 0.0, 7).sessions(Some(source));
        let play = |first: u64| {
            let mut session = prompts.session(0, first, 0).unwrap();
            let mut turn = || prompts.turn(&mut session, 0, 0, "a/m").map(|prompt| prompt.members["messages"].clone());
            (turn().unwrap(), turn().unwrap(), turn())
        };
        let (one, two, end) = play(0);
        assert_eq!((one.as_array().unwrap().len(), two.as_array().unwrap().len(), end), (2, 4, None));
        assert_eq!(two.as_array().unwrap()[..2], one.as_array().unwrap()[..]);
        assert_eq!(two[2], json!({ "role": "assistant", "content": "two" }));
        let (other, ..) = play(1);
        for at in 0..2 {
            let text = |messages: &Value| messages[at]["content"].as_str().unwrap().to_owned();
            assert!(text(&one)[..18] != text(&other)[..18] && text(&one)[18..] == text(&other)[18..], "{at}");
        }
        assert!(prompts.session(1, 0, 0).is_none() && !prompts.are_unique() && !prompts.are_made());
    }

    #[test]
    fn an_agent_s_prompts_have_the_tokens_that_are_said() {
        let prompts =
            PromptMaker::new(Workload::new("agent", 27_000, 150), 0.0, 7).sessions(Some(SessionSource::Agent));
        // As the simulator counts: a token for four bytes of JSON.
        let count = |prompt: &Prompt| prompt.members["messages"].to_string().len().div_ceil(4) as i64;
        let teach = |prompt: &Prompt| prompts.counted("a/m", prompt.bytes, count(prompt) - prompt.template_tokens);
        teach(&prompts.turn(&mut prompts.session(0, 0, 0).unwrap(), 0, 0, "a/m").unwrap());
        let mut session = prompts.session(3, 0, 0).unwrap();
        let mut number = 0;
        while let Some(prompt) = prompts.turn(&mut session, number, 0, "a/m") {
            let off = count(&prompt) as f64 / f64::from(prompt.tokens.unwrap()) - 1.0;
            assert!(off.abs() < 0.03, "turn {number}: {off}");
            teach(&prompt);
            number += 1;
        }
        assert!(number >= 20);
    }

    #[test]
    fn given_prompts_are_used_in_turn() {
        let body = |text: &str| json!({ "messages": [{ "role": "user", "content": text }] });
        let given = ["a", "b"].map(|text| body(text).as_object().unwrap().clone()).to_vec();
        let prompts = PromptMaker::new(Workload::new("w", 1, 33), 0.0, 7).given(given);
        assert_eq!(text(&prompts.make(2, 0, "x")), "a");
        assert_eq!(prompts.make(1, 0, "x").members["max_tokens"], 33);
        assert!(!prompts.are_unique());
    }
}

#[cfg(test)]
mod workload_tests {
    use std::path::Path;

    use super::*;
    use photofinish_config as config;

    #[test]
    fn workloads_are_the_configurations_the_probes_and_two_more() {
        let text = "[workloads.agent]\ninput_tokens = 4000\noutput_tokens = 300\n";
        let config = config::parse(text, Path::new("test"), &|_| None).unwrap();
        let named = |name: &str| Workload::named(name, &config);
        assert_eq!(named("10k"), Ok(Workload::new("10k", 10_000, 1_500)));
        assert_eq!(named("agent"), Ok(Workload::new("agent", 4_000, 300)));
        assert!(named("chat").is_ok() && named("1K").unwrap_err().contains("did you mean 1k?"));
        assert!(Workload::names(&config).into_iter().all(|name| named(name).is_ok()));
    }

    #[test]
    fn requests_at_once_are_a_level_and_no_workload() {
        let config = config::parse("", Path::new("test"), &|_| None).unwrap();
        let why = Workload::named("parallel", &config).unwrap_err();
        assert!(why.ends_with("10 requests at once: use --workload 1k --concurrency 10"), "{why}");
    }
}
