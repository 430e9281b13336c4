//! What the answers of one host say of it, fact by fact. Pure. Not for comparing hosts: see `compare`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::ask::{FactQuestion, LENGTH_TOKENS, LONG_TOKENS, REASONING_TOKENS, SIGNS, SYSTEM_WORDS, Topic, fact_of};
use photofinish_config::HostFact;

/// Each answer with more reasoning takes this many times as long as the longest with less.
const LONGER: u32 = 2;

/// What came back of one request.
#[derive(Clone, Debug)]
pub enum HostReply {
    /// A chat completion; of a stream its text and usage in the same form.
    Answer(Value),
    /// The host says that the request is wrong; in words.
    Refused(String),
    /// The answer was unusable: the kind of failure.
    Broken(&'static str),
    /// Rate limits, timeouts, failures: nothing is known.
    Nothing(String),
}

/// A question with its reply.
#[derive(Clone, Debug)]
pub struct HeardAnswer {
    pub question: FactQuestion,
    pub reply: HostReply,
    /// From sending it to the end of the reply.
    pub took: Duration,
}

/// What is known of one fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactFinding {
    Yes,
    No,
    /// Right or wrong only compared with others.
    Value(String),
    NotSaid,
}

/// By fact: what is known, and figures about it.
pub type Findings = BTreeMap<HostFact, (FactFinding, String)>;

impl HeardAnswer {
    fn answer(&self) -> Option<&Value> {
        if let HostReply::Answer(answer) = &self.reply { Some(answer) } else { None }
    }

    fn max_tokens(&self) -> u64 {
        self.question.members.get("max_tokens").and_then(Value::as_u64).unwrap_or(0)
    }
}

pub(super) fn text(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_default()
}

fn ended(answer: &Value) -> &str {
    answer["choices"][0]["finish_reason"].as_str().unwrap_or_default()
}

fn usage(answer: &Value, name: &str) -> Option<u64> {
    answer["usage"][name].as_u64()
}

fn calls(answer: &Value) -> &[Value] {
    answer["choices"][0]["message"]["tool_calls"].as_array().map_or(&[], Vec::as_slice)
}

/// The reasoning in the answer: where it is, and its text.
fn reasoning(answer: &Value) -> Option<(&'static str, &str)> {
    let message = &answer["choices"][0]["message"];
    for name in ["reasoning_content", "reasoning"] {
        if let Some(said) = message[name].as_str().filter(|said| !said.is_empty()) {
            return Some((name, said));
        }
    }
    let thought = text(answer).trim_start().strip_prefix("<think>")?;
    Some(("<think> in the text", thought.split("</think>").next().unwrap_or(thought)))
}

/// Judges all facts of one host. `temperature`: it took temperature 0.
pub fn judge(heard: &[HeardAnswer], temperature: bool) -> Findings {
    let all = HostReplies(heard);
    let mut found = Findings::new();
    let any = heard.iter().any(|one| one.answer().is_some());
    let taken = if !temperature {
        FactFinding::No
    } else if any {
        FactFinding::Yes
    } else {
        FactFinding::NotSaid
    };
    found.insert(HostFact::Temperature, (taken, String::new()));
    found.extend(all.counts());
    found.extend(all.sampling());
    found.extend(all.tools());
    found.extend(all.reasoning());
    found.extend(all.texts());
    // A refusal is an answer of its own.
    for one in heard {
        let Some(fact) = fact_of(one.question.topic) else { continue };
        let Some((finding, figure)) = found.get_mut(&fact).filter(|(finding, _)| *finding == FactFinding::NotSaid)
        else {
            continue;
        };
        match &one.reply {
            HostReply::Refused(words) => (*finding, *figure) = (FactFinding::No, format!("refused: {words}")),
            HostReply::Broken(kind) => (*finding, *figure) = (FactFinding::No, format!("an unusable answer: {kind}")),
            HostReply::Nothing(why) if figure.is_empty() => *figure = why.clone(),
            _ => {}
        }
    }
    found
}

struct HostReplies<'h>(&'h [HeardAnswer]);

type Judged = (HostFact, (FactFinding, String));

fn said(fact: HostFact, yes: Option<bool>, figure: impl Into<String>) -> Judged {
    let finding = match yes {
        Some(true) => FactFinding::Yes,
        Some(false) => FactFinding::No,
        None => FactFinding::NotSaid,
    };
    (fact, (finding, figure.into()))
}

impl<'h> HostReplies<'h> {
    fn of(&self, topic: Topic) -> impl Iterator<Item = (&'h HeardAnswer, &'h Value)> + use<'h> {
        let of = move |one: &&HeardAnswer| one.question.topic == topic;
        self.0.iter().filter(of).filter_map(|one| Some((one, one.answer()?)))
    }

    fn first(&self, topic: Topic) -> Option<&'h Value> {
        self.of(topic).next().map(|(_, answer)| answer)
    }

    /// Usage, its sums, and the length of answers.
    fn counts(&self) -> Vec<Judged> {
        let whole: Vec<&Value> = self.of(Topic::Length).map(|(_, answer)| answer).collect();
        let counted: Vec<String> =
            whole.iter().filter_map(|answer| usage(answer, "prompt_tokens")).map(|tokens| tokens.to_string()).collect();
        let asked = self.0.iter().filter(|one| one.question.topic == Topic::Length).count();
        let tokens = match counted.len() == asked && asked > 0 {
            true => (FactFinding::Value(counted.join(" ")), String::new()),
            false => (FactFinding::NotSaid, String::new()),
        };
        let stream = self.first(Topic::Stream);
        let (one, other) = (whole.first().copied(), stream);
        let equal = one.zip(other).and_then(|(whole, stream)| {
            let pair = |name| usage(whole, name).zip(usage(stream, name));
            let ((a, b), (c, d)) = (pair("prompt_tokens")?, pair("completion_tokens")?);
            Some((a == b && c == d, format!("{a} + {c} whole, {b} + {d} streamed")))
        });
        let has =
            |answer: &Value| usage(answer, "prompt_tokens").is_some() && usage(answer, "completion_tokens").is_some();
        let (is_equal, figure) = equal.unzip();
        vec![
            (HostFact::Template, tokens),
            said(HostFact::UsageWhole, one.map(has), ""),
            said(HostFact::UsageStream, stream.map(has), ""),
            said(HostFact::UsageEqual, is_equal, figure.unwrap_or_default()),
            self.longest(),
            self.longer(),
            self.system(),
            self.context(&counted),
        ]
    }

    fn longest(&self) -> Judged {
        let endless = self.0.iter().any(|one| matches!(one.reply, HostReply::Broken("endless")));
        let mut cut = false;
        for (one, answer) in self.0.iter().filter_map(|one| Some((one, one.answer()?))) {
            let (max, choices) = (one.max_tokens(), answer["choices"].as_array().map_or(1, Vec::len) as u64);
            // A token is rarely longer than a long word; usage may also be missing or wrong.
            let letters = text(answer).chars().count() as u64;
            let tokens = usage(answer, "completion_tokens").unwrap_or(0);
            if tokens > max * choices.max(1) || letters > max * 24 {
                return said(
                    HostFact::MaxTokens,
                    Some(false),
                    format!("{tokens} tokens, {letters} letters where {max} tokens were asked for"),
                );
            }
            cut |= max == u64::from(LENGTH_TOKENS) && ended(answer) == "length";
        }
        said(HostFact::MaxTokens, if endless { Some(false) } else { cut.then_some(true) }, "")
    }

    /// Whether an answer that would go on becomes as long as was asked for: a host may cut all of them far below.
    fn longer(&self) -> Judged {
        let answer = self.first(Topic::LongAnswer);
        let tokens = answer.and_then(|answer| usage(answer, "completion_tokens"));
        let is_long = answer.zip(tokens).and_then(|(answer, tokens)| {
            let full = tokens * 10 >= u64::from(LONG_TOKENS) * 9;
            // A model that ends by itself shows nothing.
            (full || ended(answer) == "length").then_some(full)
        });
        let figure = tokens.map_or(String::new(), |tokens| format!("{tokens} of {LONG_TOKENS} tokens"));
        said(HostFact::AnswerLength, is_long, figure)
    }

    /// Whether a long system prompt makes the prompt longer: one that is dropped does not.
    fn system(&self) -> Judged {
        let read = |topic| self.first(topic).and_then(|answer| usage(answer, "prompt_tokens"));
        let more = read(Topic::System).zip(read(Topic::Length)).map(|(with, without)| with.saturating_sub(without));
        let figure = more.map_or(String::new(), |more| format!("{more} tokens more for {SYSTEM_WORDS} words"));
        said(HostFact::System, more.map(|more| more >= SYSTEM_WORDS as u64 / 2), figure)
    }

    /// Whether as many tokens were read as were sent: `Say yes.` and about one for each ` and`.
    fn context(&self, counted: &[String]) -> Judged {
        let Some((one, answer)) = self.of(Topic::Context).next() else {
            return said(HostFact::Context, None, "");
        };
        let sent =
            one.question.members["messages"][0]["content"].as_str().unwrap_or_default().matches(" and").count() as u64;
        let read = usage(answer, "prompt_tokens").filter(|_| !counted.is_empty());
        said(
            HostFact::Context,
            read.map(|read| read >= sent),
            format!("{} of about {sent} tokens read", read.unwrap_or(0)),
        )
    }

    fn sampling(&self) -> Vec<Judged> {
        let texts = |topic| -> Vec<&str> {
            self.of(topic).map(|(_, answer)| text(answer)).filter(|text| !text.is_empty()).collect()
        };
        let alike = |texts: &[&str]| texts.windows(2).all(|pair| pair[0] == pair[1]);
        let fresh = texts(Topic::Fresh);
        let is_fresh = (fresh.len() > 1).then(|| !alike(&fresh));
        // Where every answer is the same, an equal one shows nothing.
        let equal = |topic| {
            let texts = texts(topic);
            (texts.len() > 1).then(|| alike(&texts)).filter(|equal| !equal || is_fresh == Some(true))
        };
        let choices = self.first(Topic::N).and_then(|answer| answer["choices"].as_array()).map(Vec::len);
        let logprobs = |answer: &Value| {
            answer["choices"][0]["logprobs"]["content"].as_array().is_some_and(|list| !list.is_empty())
        };
        let stop = self.first(Topic::Stop).and_then(|answer| {
            let text = text(answer);
            // What never came to the 7 shows nothing.
            if text.contains('7') {
                Some(false)
            } else {
                (text.contains('6') && ended(answer) == "stop").then_some(true)
            }
        });
        let fingerprint = self.of(Topic::Length).find_map(|(_, answer)| answer["system_fingerprint"].as_str());
        let fingerprint =
            fingerprint.map(|name| photofinish_base::printable::printable(name).chars().take(40).collect::<String>());
        vec![
            said(HostFact::Fresh, is_fresh, ""),
            said(HostFact::TopP, equal(Topic::TopP), ""),
            said(HostFact::Seed, equal(Topic::Seed), ""),
            said(
                HostFact::N,
                choices.map(|choices| choices == 2),
                choices.map_or(String::new(), |choices| format!("{choices} of 2")),
            ),
            said(HostFact::Logprobs, self.first(Topic::Logprobs).map(logprobs), ""),
            said(HostFact::Stop, stop, ""),
            said(HostFact::Fingerprint, fingerprint.is_some().then_some(true), fingerprint.unwrap_or_default()),
        ]
    }

    fn tools(&self) -> Vec<Judged> {
        let called = |topic| self.first(topic).map(calls);
        let named = called(Topic::ToolNamed)
            .map(|calls| !calls.is_empty() && calls.iter().all(|call| call["function"]["name"] == "book_flight"));
        let (mut valid, mut judged) = (0, 0);
        for (one, answer) in self.of(Topic::Arguments) {
            // A call that `max_tokens` cut is not the host's fault.
            for call in calls(answer).iter().filter(|_| ended(answer) != "length") {
                judged += 1;
                valid += usize::from(is_valid(&one.question, call));
            }
        }
        let broken = self
            .0
            .iter()
            .any(|one| one.question.topic == Topic::Arguments && matches!(one.reply, HostReply::Broken(_)));
        let arguments = if broken { Some(false) } else { (judged > 0).then_some(valid == judged) };
        let (mut fits, mut texts) = (true, 0);
        for (one, answer) in self.of(Topic::Schema) {
            // One that was cut may have become right.
            if ended(answer) == "length" && text(answer).trim_start().starts_with('{') {
                continue;
            }
            texts += 1;
            let value = serde_json::from_str(text(answer)).ok();
            let schema = &one.question.members["response_format"]["json_schema"]["schema"];
            fits &= value.is_some_and(|value: Value| photofinish_judge::obeys(schema, &value));
        }
        vec![
            said(HostFact::ToolNone, called(Topic::ToolNone).map(<[Value]>::is_empty), ""),
            said(HostFact::ToolAuto, called(Topic::ToolAuto).map(|calls| !calls.is_empty()), ""),
            said(HostFact::ToolRequired, called(Topic::ToolRequired).map(|calls| !calls.is_empty()), ""),
            said(HostFact::ToolNamed, named, ""),
            said(HostFact::Parallel, called(Topic::Parallel).map(|calls| calls.len() > 1), ""),
            said(HostFact::Arguments, arguments, format!("{valid} of {judged} calls")),
            said(HostFact::Schema, (texts > 0).then_some(fits), ""),
        ]
    }

    fn reasoning(&self) -> Vec<Judged> {
        let thought = |answer: &Value| {
            let counted =
                answer["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().filter(|tokens| *tokens > 0);
            counted.or_else(|| reasoning(answer).map(|(_, said)| said.chars().count() as u64 / 4)).unwrap_or(0)
        };
        let of = |topic| self.of(topic).map(|(_, answer)| thought(answer)).collect::<Vec<u64>>();
        let (low, high) = (of(Topic::LowEffort), of(Topic::HighEffort));
        let (least, most): (u64, u64) = (low.iter().sum(), high.iter().sum());
        let answered = !low.is_empty() && low.len() == high.len();
        // Thinking that was cut everywhere shows no difference.
        let is_cut = low.iter().chain(&high).all(|tokens| *tokens + 8 >= u64::from(REASONING_TOKENS));
        let by_tokens = (answered && least + most > 0 && !is_cut).then_some(most * 4 > least * 5);
        // Where no reasoning is shown, more of it still takes longer. That it does not shows nothing: answers are short.
        let took = |topic| self.of(topic).map(|(one, _)| one.took).collect::<Vec<Duration>>();
        let (quick, slow) = (took(Topic::LowEffort), took(Topic::HighEffort));
        let longest = quick.iter().max().copied().unwrap_or_default();
        let is_longer = answered && slow.iter().all(|took| *took > longest.saturating_mul(LONGER));
        let yes = by_tokens.or((least + most == 0 && is_longer).then_some(true));
        let seconds = |took: &[Duration]| took.iter().sum::<Duration>().as_secs_f64();
        let times = format!("{:.1} s and {:.1} s", seconds(&quick), seconds(&slow));
        let mut place = None;
        for (_, answer) in self.of(Topic::HighEffort) {
            place = Some(reasoning(answer).map_or("nowhere", |(place, _)| place));
        }
        let place = place.map_or(FactFinding::NotSaid, |place| FactFinding::Value(place.to_owned()));
        vec![
            said(
                HostFact::Effort,
                yes,
                if answered { format!("{least} tokens low, {most} high, in {times}") } else { String::new() },
            ),
            (HostFact::ReasoningPlace, (place, String::new())),
        ]
    }

    fn texts(&self) -> Vec<Judged> {
        let unicode = self.first(Topic::Unicode).map(text).and_then(|text| {
            let signs = || SIGNS.split(" – ");
            if signs().all(|sign| text.contains(sign)) {
                return Some(true);
            }
            let is_damaged = text.contains(['\u{fffd}', 'Ã', 'ï']) || text.contains("rich") && text.is_ascii();
            is_damaged.then_some(false)
        });
        let german = self.first(Topic::Language).map(text).and_then(|text| {
            let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
            match (has(&["Hauptstadt", "Frankreich", " ist "]), has(&["capital", "France", " is "])) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            }
        });
        vec![said(HostFact::Unicode, unicode, ""), said(HostFact::Language, german, "")]
    }
}

/// The tool was offered, and its arguments keep to its schema.
fn is_valid(question: &FactQuestion, call: &Value) -> bool {
    let function = &call["function"];
    let arguments = function["arguments"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let schema = function["name"].as_str().and_then(|name| question.schema_of(name));
    schema.zip(arguments).is_some_and(|(schema, arguments)| photofinish_judge::obeys(schema, &arguments))
}
