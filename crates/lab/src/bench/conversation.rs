//! Conversations: what each turn adds to the messages of its session, read from the record of MLPerf Endpoints or drawn as an
//! agent's. The answers in them are those of the record, never those of the server, so that every server gets the same prompts.
//!
//! Not for when a turn is sent: see `generator`. Not for the texts that are made: see `prompt`.

use std::collections::HashSet;
use std::f64::consts::TAU;
use std::mem;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Map, Value};

/// The turns of one conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadConversation {
    pub system: Option<String>,
    /// The tools that every request of it names.
    pub tools: Option<Value>,
    pub turns: Vec<LoadTurn>,
}

/// One request, and what it adds to the messages of the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadTurn {
    pub added: AddedMessages,
    /// From the end of the answer before.
    pub delay: Duration,
    /// `max_tokens`; None: that of the workload.
    pub output_tokens: Option<u32>,
}

/// The answer to the turn before, and what the user or a tool says then.
#[derive(Clone, Debug, PartialEq)]
pub enum AddedMessages {
    Given(Vec<Value>),
    /// Tokens of texts that are made. The first turn has no answer before it.
    Made {
        answer: u32,
        said: u32,
    },
}

/// Seconds of the longest pause before a turn.
const DELAY_MAX: f64 = 3_600.0;

/// Members of a row that are no part of its message.
const OF_RECORD: [&str; 4] = ["turn", "delay_seconds", "max_new_tokens", "model"];

/// Puts the rows of a file together, one message each.
#[derive(Debug, Default)]
pub struct ConversationReader {
    read: Vec<LoadConversation>,
    ids: HashSet<String>,
    /// Of the conversation that is being read.
    id: String,
    rows: u64,
    /// The answers since its last request.
    answers: Vec<Value>,
}

impl ConversationReader {
    /// # Errors
    /// In words, without what is in the row.
    pub fn row(&mut self, mut row: Map<String, Value>) -> Result<(), String> {
        let Some(Value::String(id)) = row.remove("conversation_id") else {
            return Err("\"conversation_id\" is no text".to_owned());
        };
        if self.read.is_empty() || id != self.id {
            if !self.ids.insert(id.clone()) {
                return Err("the rows of a conversation are not together".to_owned());
            }
            (self.id, self.rows) = (id, 0);
            self.answers.clear();
            self.read.push(LoadConversation::default());
        }
        self.rows += 1;
        if row.get("turn").and_then(Value::as_u64) != Some(self.rows) {
            return Err(format!("\"turn\" is not {}", self.rows));
        }
        let (delay, output_tokens) = (delay(&row)?, output_tokens(&row)?);
        let (system, tools) = (row.remove("system"), row.remove("tools"));
        OF_RECORD.iter().for_each(|name| drop(row.remove(*name)));
        let (is_first, is_answered) = (self.rows == 1, !self.answers.is_empty());
        let said = match row.get("role").and_then(Value::as_str) {
            Some("assistant") if is_first || is_answered => {
                return Err("an answer of \"assistant\" without a question before it".to_owned());
            }
            Some("assistant") => {
                self.answers.push(row.into());
                return Ok(());
            }
            Some("user" | "tool") if !is_first && !is_answered => {
                return Err("the answer of \"assistant\" is missing before it".to_owned());
            }
            Some("user") => vec![row.into()],
            Some("tool") if !is_first => tool_results(row),
            _ => return Err("\"role\" is neither \"user\", \"assistant\" nor, later on, \"tool\"".to_owned()),
        };
        let Some(conversation) = self.read.last_mut() else { return Ok(()) };
        if let Some(Value::String(system)) = system {
            conversation.system.get_or_insert(system);
        }
        if let Some(tools) = tools.filter(|tools| !tools.is_null()) {
            conversation.tools.get_or_insert(tools);
        }
        let added = AddedMessages::Given(mem::take(&mut self.answers).into_iter().chain(said).collect());
        conversation.turns.push(LoadTurn { added, delay, output_tokens });
        Ok(())
    }

    pub fn finish(self) -> Vec<LoadConversation> {
        self.read
    }
}

/// Of one tool, or of several that ran at once.
fn tool_results(mut row: Map<String, Value>) -> Vec<Value> {
    let Some(Value::Array(mut results)) = row.remove("tool_results") else { return vec![row.into()] };
    for result in results.iter_mut().filter_map(Value::as_object_mut) {
        result.insert("role".to_owned(), "tool".into());
    }
    results
}

fn delay(row: &Map<String, Value>) -> Result<Duration, String> {
    let seconds = match row.get("delay_seconds").filter(|delay| !delay.is_null()) {
        Some(delay) => delay.as_f64().filter(|delay| (0.0..=DELAY_MAX).contains(delay)),
        None => Some(0.0),
    };
    let seconds = seconds.ok_or_else(|| format!("\"delay_seconds\" is no number from 0 to {DELAY_MAX}"))?;
    Ok(Duration::from_secs_f64(seconds))
}

fn output_tokens(row: &Map<String, Value>) -> Result<Option<u32>, String> {
    let Some(tokens) = row.get("max_new_tokens").filter(|tokens| !tokens.is_null()) else { return Ok(None) };
    let tokens = tokens.as_u64().and_then(|tokens| u32::try_from(tokens).ok()).filter(|tokens| *tokens > 0);
    tokens.map(Some).ok_or_else(|| "\"max_new_tokens\" is no whole number above 0".to_owned())
}

/// Turns of an agent's session, least and most; their logarithm is drawn evenly.
const AGENT_TURNS: (f64, f64) = (20.0, 200.0);
/// Tokens of its first prompt: instructions, tools and a task.
const AGENT_BEGIN: u32 = 5_000;
/// Tokens of the longest prompt of an agent's session, which ends before.
const AGENT_INPUT_MAX: u32 = 131_000;
/// Mean tokens of what a tool returns. With it the mean prompt has 27,000 tokens.
const AGENT_RESULT: f64 = 192.0;
/// Median tokens of an answer.
const AGENT_ANSWER: f64 = 150.0;
/// Standard deviations of logarithms: of results from session to session, and of results and answers from turn to turn.
const AGENT_SPREAD: (f64, f64) = (0.6, 0.8);
/// Tokens of an answer and of a result, least and most.
const AGENT_LENGTHS: (f64, f64) = (32.0, 4_000.0);

/// The session of an agent: each turn adds an answer and what a tool returned. Without pauses, so the load is the highest that
/// this number of agents makes.
pub fn agent(rng: &mut Rng) -> LoadConversation {
    let (least, most) = AGENT_TURNS;
    let turns = (least * (most / least).powf(rng.f64())).round() as usize;
    let spread = |rng: &mut Rng, deviation: f64| {
        let normal = (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos();
        (normal * deviation).exp()
    };
    let mean_one = |deviation: f64| (-deviation * deviation / 2.0).exp();
    let tokens = |mean: f64| mean.round().clamp(AGENT_LENGTHS.0, AGENT_LENGTHS.1) as u32;
    let (of_session, of_turn) = AGENT_SPREAD;
    let result = AGENT_RESULT * spread(rng, of_session) * mean_one(of_session) * mean_one(of_turn);
    let (mut input, mut answer) = (0, 0);
    let mut conversation = LoadConversation::default();
    for turn in 0..turns {
        let said = if turn == 0 { AGENT_BEGIN } else { tokens(result * spread(rng, of_turn)) };
        input += answer + said;
        if input > AGENT_INPUT_MAX {
            break;
        }
        let added = AddedMessages::Made { answer, said };
        answer = tokens(AGENT_ANSWER * spread(rng, of_turn));
        conversation.turns.push(LoadTurn { added, delay: Duration::ZERO, output_tokens: Some(answer) });
    }
    conversation
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(rows: &[Value]) -> Result<Vec<LoadConversation>, String> {
        let mut reader = ConversationReader::default();
        rows.iter().try_for_each(|row| reader.row(row.as_object().unwrap().clone()))?;
        Ok(reader.finish())
    }

    #[test]
    fn rows_become_turns_with_the_recorded_answers() {
        let read = read(&[
            json!({ "conversation_id": "a", "turn": 1, "role": "user", "content": "one", "system": "be", "tools": [1] }),
            json!({ "conversation_id": "a", "turn": 2, "role": "assistant", "tool_calls": [{ "id": "t" }] }),
            json!({ "conversation_id": "a", "turn": 3, "role": "tool", "tool_results": [
                { "tool_call_id": "t", "content": "x" }, { "tool_call_id": "u", "content": "y" }], "delay_seconds": 1.5 }),
            json!({ "conversation_id": "a", "turn": 4, "role": "assistant", "content": "two" }),
            json!({ "conversation_id": "b", "turn": 1, "role": "user", "content": "other", "max_new_tokens": 7 }),
        ])
        .unwrap();
        let [a, b] = &read[..] else { panic!("{read:?}") };
        assert_eq!((a.system.as_deref(), &a.tools, a.turns.len()), (Some("be"), &Some(json!([1])), 2));
        assert_eq!(a.turns[0].added, AddedMessages::Given(vec![json!({ "role": "user", "content": "one" })]));
        let AddedMessages::Given(second) = &a.turns[1].added else { panic!("{a:?}") };
        assert_eq!(second[0], json!({ "role": "assistant", "tool_calls": [{ "id": "t" }] }));
        assert_eq!(second[2], json!({ "role": "tool", "tool_call_id": "u", "content": "y" }));
        assert_eq!(a.turns[1].delay, Duration::from_millis(1_500));
        assert_eq!((b.turns.len(), b.turns[0].output_tokens), (1, Some(7)));
    }

    #[test]
    fn a_wrong_row_is_named_without_its_text() {
        let row = |id: &str, turn: u64, role: &str| json!({ "conversation_id": id, "turn": turn, "role": role, "content": "secret" });
        let with = |name: &str, value: Value| {
            let mut row = row("a", 1, "user");
            row[name] = value;
            vec![row]
        };
        for (rows, said) in [
            (vec![json!({ "turn": 1 })], "\"conversation_id\" is no text"),
            (vec![row("a", 2, "user")], "\"turn\" is not 1"),
            (vec![row("a", 1, "assistant")], "without a question"),
            (vec![row("a", 1, "tool")], "neither"),
            (vec![row("a", 1, "user"), row("a", 2, "user")], "is missing before it"),
            (vec![row("a", 1, "user"), row("a", 2, "assistant"), row("a", 3, "assistant")], "without a question"),
            (vec![row("a", 1, "user"), row("b", 1, "user"), row("a", 2, "assistant")], "not together"),
            (with("delay_seconds", json!(-1)), "\"delay_seconds\" is no number from 0 to 3600"),
            (with("max_new_tokens", json!(0)), "\"max_new_tokens\" is no whole number above 0"),
        ] {
            let why = read(&rows).unwrap_err();
            assert!(why.contains(said) && !why.contains("secret"), "{why}");
        }
    }

    #[test]
    fn agents_are_as_they_are_said_to_be() {
        let mut rng = Rng::with_seed(7);
        let (mut inputs, mut answers) = (Vec::new(), Vec::new());
        for _ in 0..2_000 {
            let conversation = agent(&mut rng);
            assert!((20..=200).contains(&conversation.turns.len()), "{}", conversation.turns.len());
            let mut input = 0;
            for turn in conversation.turns {
                let AddedMessages::Made { answer, said } = turn.added else { panic!("{turn:?}") };
                input += answer + said;
                inputs.push(f64::from(input));
                answers.push(turn.output_tokens.unwrap());
            }
        }
        answers.sort_unstable();
        let mean = inputs.iter().sum::<f64>() / inputs.len() as f64;
        let (least, most) =
            (inputs.iter().copied().fold(f64::MAX, f64::min), inputs.iter().copied().fold(0.0, f64::max));
        assert!((26_000.0..28_000.0).contains(&mean), "{mean}");
        assert!(least == 5_000.0 && (125_000.0..=131_000.0).contains(&most), "{least} {most}");
        assert!((145..=155).contains(&answers[answers.len() / 2]), "{}", answers[answers.len() / 2]);
    }
}
