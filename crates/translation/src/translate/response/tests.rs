//! Whole equals streamed: what is put together for a client that does not stream says the same as the stream that it would
//! have got, and as the upstream's answer. For all surfaces, dialects and kinds of answer.

mod odd;

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::request::ApiRequest;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::FinishReason;
use photofinish_wire::quirks::TranslationOptions;
use photofinish_wire::stream::binary::write_event;

/// What an answer says, whatever its form.
#[derive(Debug, Default, PartialEq)]
struct Said {
    choices: BTreeMap<u32, SaidChoice>,
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
    reasoning_tokens: Option<i64>,
}

#[derive(Debug, Default, PartialEq)]
struct SaidChoice {
    text: String,
    thoughts: String,
    refusal: String,
    /// Number, name and arguments.
    calls: Vec<(u32, String, String)>,
    /// Base64, and its transcript.
    audio: (String, String),
    images: Vec<String>,
    end: Option<FinishReason>,
}

impl Said {
    fn of(pieces: &[AnswerPiece]) -> Said {
        let (mut said, mut usage) = (Said::default(), Usage::default());
        for piece in pieces.iter().cloned() {
            match piece {
                AnswerPiece::Text { index, text } => said.choice(index).text += &text,
                AnswerPiece::Refusal { index, text } => said.choice(index).refusal += &text,
                AnswerPiece::Thinking { index, text, .. } => said.choice(index).thoughts += &text,
                AnswerPiece::Call { index, call, name, .. } => {
                    said.choice(index).calls.push((call, name, String::new()))
                }
                AnswerPiece::Arguments { index, call, text } => {
                    let calls = said.choice(index).calls.iter_mut();
                    calls.filter(|(number, ..)| *number == call).for_each(|(.., arguments)| *arguments += &text);
                }
                AnswerPiece::Audio { index, data, transcript, .. } => {
                    let audio = &mut said.choice(index).audio;
                    audio.0 += &data;
                    audio.1 += &transcript;
                }
                AnswerPiece::Image { index, data, .. } => said.choice(index).images.push(data),
                AnswerPiece::Finish { index, finish } => said.choice(index).end = Some(finish),
                AnswerPiece::Usage(more) => usage = more.or(usage),
                AnswerPiece::Start { .. }
                | AnswerPiece::Signature { .. }
                | AnswerPiece::Redacted { .. }
                | AnswerPiece::CallEnd { .. }
                | AnswerPiece::NextMessage { .. }
                | AnswerPiece::Citation { .. }
                | AnswerPiece::Other(_) => {}
            }
        }
        (said.input_tokens, said.output_tokens) = (usage.input_tokens, usage.output_tokens);
        said.reasoning_tokens = usage.reasoning_tokens.filter(|tokens| *tokens > 0);
        said.choices.values_mut().for_each(SaidChoice::settle);
        said
    }

    fn choice(&mut self, index: u32) -> &mut SaidChoice {
        self.choices.entry(index).or_default()
    }

    fn says_nothing(&self) -> bool {
        self.choices.values().all(|choice| {
            let media = choice.images.is_empty() && choice.audio == Default::default();
            choice.text.trim().is_empty() && choice.refusal.trim().is_empty() && choice.calls.is_empty() && media
        })
    }
}

impl SaidChoice {
    /// Forms of one thing: empty arguments, and an end with calls.
    fn settle(&mut self) {
        for (.., arguments) in &mut self.calls {
            let value: Option<Value> = serde_json::from_str(arguments).ok();
            *arguments = value.map_or(arguments.clone(), |value| value.to_string());
            if arguments.trim().is_empty() {
                "{}".clone_into(arguments);
            }
        }
        self.end = match self.end.take() {
            None | Some(FinishReason::Stop | FinishReason::ToolCalls) => Some(match self.calls.is_empty() {
                true => FinishReason::Stop,
                false => FinishReason::ToolCalls,
            }),
            other => other,
        };
    }
}

fn events(framing: Framing, bytes: &Bytes) -> Vec<SseEvent> {
    let mut decoder = framing.decoder(usize::MAX);
    decoder.push(bytes.clone());
    std::iter::from_fn(|| decoder.next_event().unwrap().or_else(|| decoder.finish())).collect()
}

fn pieces(dialect: Dialect, bytes: &Bytes) -> Vec<AnswerPiece> {
    let (mut reader, mut pieces) = (dialect.reader(), Vec::new());
    events(dialect.framing(), bytes).iter().for_each(|event| reader.read(event, &mut pieces));
    pieces
}

fn request(surface: Surface) -> Value {
    match surface {
        Surface::Chat | Surface::OllamaChat => {
            json!({ "model": "m", "messages": [{ "role": "user", "content": "x" }] })
        }
        Surface::Messages => json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": "x" }] }),
        Surface::Responses => json!({ "model": "m", "input": "x" }),
        Surface::Gemini => json!({ "contents": [{ "role": "user", "parts": [{ "text": "x" }] }] }),
        _ => json!({ "model": "m", "prompt": "x" }),
    }
}

fn translation(surface: Surface, dialect: Dialect) -> ResponseTranslation {
    let body = request(surface).to_string();
    let request_translation = match surface.dialect() == dialect {
        true => RequestTranslation::untouched(ApiRequest::written(surface, Bytes::from(body)).unwrap().into()),
        false => {
            let conversation = surface.conversation(body.as_bytes()).unwrap();
            let options = TranslationOptions::of_model(dialect, "m");
            RequestTranslation::translated(surface, &conversation, dialect, &options).unwrap()
        }
    };
    ResponseTranslation::new(&request_translation, "m", true)
}

/// An upstream's stream with these pieces, as far as the dialect has them.
fn stream(surface: Surface, dialect: Dialect, pieces: &[AnswerPiece]) -> Bytes {
    let writer = match dialect {
        _ if surface.dialect() == dialect => surface,
        Dialect::Bedrock => return frames(pieces),
        _ => dialect.conversing(),
    };
    let (mut writer, mut out) = (writer.writer("m", true, false, false, &Default::default()), BytesMut::new());
    pieces.iter().for_each(|piece| writer.write(piece.clone(), &mut out));
    writer.end(&mut out);
    out.freeze()
}

/// The same for Bedrock, which no surface has.
fn frames(pieces: &[AnswerPiece]) -> Bytes {
    let mut out = BytesMut::new();
    let mut write = |name: &str, payload: Value| write_event(name, payload.to_string().as_bytes(), &mut out);
    let delta = |block: u32, delta: Value| json!({ "contentBlockIndex": block, "delta": delta });
    write("messageStart", json!({ "role": "assistant" }));
    let (mut called, mut reason, mut usage) = (false, "end_turn".to_owned(), json!({}));
    for piece in pieces {
        match piece {
            AnswerPiece::Thinking { index: 0, text, .. } => {
                write("contentBlockDelta", delta(0, json!({ "reasoningContent": { "text": text } })));
            }
            AnswerPiece::Text { index: 0, text } => write("contentBlockDelta", delta(1, json!({ "text": text }))),
            AnswerPiece::Call { index: 0, call, id, name, .. } => {
                called = true;
                let start = json!({ "toolUse": { "toolUseId": id, "name": name } });
                write("contentBlockStart", json!({ "contentBlockIndex": call + 2, "start": start }));
            }
            AnswerPiece::Arguments { index: 0, call, text } => {
                write("contentBlockDelta", delta(call + 2, json!({ "toolUse": { "input": text } })));
            }
            AnswerPiece::Finish { index: 0, finish } => {
                reason = match finish {
                    FinishReason::Length => "max_tokens".to_owned(),
                    FinishReason::Filtered => "content_filtered".to_owned(),
                    FinishReason::Other(word) => word.clone(),
                    _ if called => "tool_use".to_owned(),
                    _ => reason,
                };
            }
            AnswerPiece::Usage(counts) => {
                usage = json!({ "inputTokens": counts.input_tokens, "outputTokens": counts.output_tokens });
            }
            _ => {}
        }
    }
    write("messageStop", json!({ "stopReason": reason }));
    write("metadata", json!({ "usage": usage }));
    out.freeze()
}

/// The bytes for a client that streams.
fn delivered(surface: Surface, dialect: Dialect, stream: &Bytes) -> Bytes {
    let mut translation = translation(surface, dialect);
    let (mut out, mut done) = (BytesMut::new(), false);
    for event in events(dialect.framing(), stream) {
        match translation.read(&event) {
            Frame::Done(_) => done = true,
            Frame::Chunk(_) | Frame::KeepAlive => {}
            other => panic!("{surface:?} over {dialect:?}: {other:?} is {event:?}"),
        }
        out.extend_from_slice(&translation.pass(event));
    }
    if !done || translation.is_translated() {
        out.extend_from_slice(&translation.ending());
    }
    out.freeze()
}

/// What this surface can express of the upstream's answer.
fn expressed(surface: Surface, pieces: Vec<AnswerPiece>) -> Vec<AnswerPiece> {
    let has_choices = matches!(surface, Surface::Chat | Surface::Gemini);
    let has_audio = matches!(surface, Surface::Chat | Surface::Responses);
    let has_images = has_audio || surface == Surface::Gemini;
    let express = |piece| match piece {
        AnswerPiece::Refusal { index, text } if !has_audio => AnswerPiece::Text { index, text },
        AnswerPiece::Audio { index, transcript, .. } if !has_audio => AnswerPiece::Text { index, text: transcript },
        AnswerPiece::Image { index, media_type, data } if !has_images => {
            AnswerPiece::Text { index, text: format!("![image](data:{media_type};base64,{data})") }
        }
        other => other,
    };
    let index_of = |piece: &AnswerPiece| match piece {
        AnswerPiece::Text { index, .. }
        | AnswerPiece::Refusal { index, .. }
        | AnswerPiece::Thinking { index, .. }
        | AnswerPiece::Call { index, .. }
        | AnswerPiece::Arguments { index, .. }
        | AnswerPiece::Audio { index, .. }
        | AnswerPiece::Image { index, .. }
        | AnswerPiece::Finish { index, .. } => *index,
        _ => 0,
    };
    pieces.into_iter().map(express).filter(|piece| has_choices || index_of(piece) == 0).collect()
}

/// Whether the answer ended well, was cut, or was withheld. Surfaces have different words.
fn class(end: &Option<FinishReason>) -> &'static str {
    match end {
        Some(FinishReason::Length | FinishReason::Other(_)) => "cut",
        Some(FinishReason::Filtered | FinishReason::Refusal) => "withheld",
        _ => "good",
    }
}

/// Checks one answer for a surface.
fn agrees(surface: Surface, dialect: Dialect, stream: &Bytes) -> Result<(), TestCaseError> {
    let place = format!("{surface:?} over {dialect:?}");
    let upstream = pieces(dialect, stream);
    let delivered = delivered(surface, dialect, stream);
    let streamed = Said::of(&pieces(surface.dialect(), &delivered));

    let mut growing = surface.growing();
    for event in events(surface.framing(), &delivered) {
        prop_assert!(growing.add(&event), "{place}: {event:?}");
    }
    let whole = growing.finish();
    let Some(whole) = whole else { return Err(TestCaseError::fail(format!("{place}: no whole answer"))) };
    let again = surface.dialect().events_of_whole(surface, &whole.body);
    let Some(again) = again else { return Err(TestCaseError::fail(format!("{place}: {:?}", whole.body))) };
    let said = Said::of(&pieces(surface.dialect(), &again));
    prop_assert_eq!(&said, &streamed, "{}: {:?}", place, whole.body);
    prop_assert_eq!(whole.says_nothing, streamed.says_nothing(), "{}: {:?}", place, whole.body);

    let is_refusal = |piece: &AnswerPiece| {
        matches!(piece, AnswerPiece::Refusal { .. } | AnswerPiece::Finish { finish: FinishReason::Refusal, .. })
    };
    let refused = upstream.iter().any(is_refusal);
    let expected = Said::of(&expressed(surface, upstream));
    let tokens = |said: &Said| (said.input_tokens.unwrap_or(0), said.output_tokens.unwrap_or(0));
    prop_assert_eq!(tokens(&streamed), tokens(&expected), "{}", place);
    for (index, expected) in expected.choices {
        let streamed = streamed.choices.get(&index);
        let Some(streamed) = streamed else { return Err(TestCaseError::fail(format!("{place}: no {expected:?}"))) };
        prop_assert!(
            refused || class(&streamed.end) == class(&expected.end),
            "{} {:?} {:?}",
            place,
            streamed,
            expected
        );
        let end = streamed.end.clone();
        prop_assert_eq!(streamed, &SaidChoice { end, ..expected }, "{}", place);
    }
    Ok(())
}

fn text(index: u32, text: &str) -> AnswerPiece {
    AnswerPiece::Text { index, text: text.to_owned() }
}

fn finish(index: u32, finish: FinishReason) -> AnswerPiece {
    AnswerPiece::Finish { index, finish }
}

fn called(call: u32, arguments: &[&str]) -> Vec<AnswerPiece> {
    let (id, name) = (format!("call_of_{call}"), format!("f{call}"));
    let begun = AnswerPiece::Call { index: 0, call, id, name, custom: false, signature: None };
    let more = |text: &&str| AnswerPiece::Arguments { index: 0, call, text: (*text).to_owned() };
    std::iter::once(begun).chain(arguments.iter().map(more)).collect()
}

/// One answer of each kind, with these words.
fn kinds(words: &[String]) -> Vec<Vec<AnswerPiece>> {
    let said = |index: u32| words.iter().map(|word| text(index, word)).collect::<Vec<_>>();
    let thought = || {
        words.iter().map(|word| AnswerPiece::Thinking { index: 0, block: 0, text: word.clone() }).collect::<Vec<_>>()
    };
    let quoted = Value::from(words.concat()).to_string();
    let (first, last) = quoted.split_at(quoted.ceil_char_boundary(quoted.len() / 2));
    let one = called(0, &["{\"a\":", first, last, "}"]);
    let (two, none) = (called(1, &["{\"b\"", ":[1.50]}"]), called(2, &[]));
    let alternating = [&one[..2], &two[..2], &one[2..], &two[2..], &none].concat();
    let refused: Vec<_> = words.iter().map(|word| AnswerPiece::Refusal { index: 0, text: word.clone() }).collect();
    let sound = |data: &str, transcript: &str| {
        let (data, transcript) = (data.to_owned(), transcript.to_owned());
        AnswerPiece::Audio { index: 0, id: None, data, transcript }
    };
    let image = AnswerPiece::Image { index: 0, media_type: "image/png".to_owned(), data: "QUJD".to_owned() };
    let ends = |pieces: Vec<AnswerPiece>, end: FinishReason| [pieces, vec![finish(0, end)]].concat();
    vec![
        ends(said(0), FinishReason::Stop),
        ends([thought(), said(0)].concat(), FinishReason::Stop),
        ends(thought(), FinishReason::Stop),
        ends(one.clone(), FinishReason::ToolCalls),
        ends([thought(), said(0), alternating].concat(), FinishReason::ToolCalls),
        ends([one.clone(), two].concat(), FinishReason::Stop),
        ends(refused, FinishReason::Stop),
        ends(vec![sound("QUI=", ""), sound("", "a b"), sound("QQ==", " c")], FinishReason::Stop),
        ends([said(0), vec![image]].concat(), FinishReason::Stop),
        ends(said(0), FinishReason::Length),
        ends(said(0), FinishReason::Filtered),
        ends(said(0), FinishReason::Other("a_new_word".to_owned())),
        ends(said(0), FinishReason::ToolCalls),
        ends(one[..1].to_vec(), FinishReason::Length),
        ends(vec![], FinishReason::Stop),
        ends(vec![], FinishReason::Length),
        [said(0), said(1), vec![finish(1, FinishReason::Length), text(0, "more"), finish(0, FinishReason::Stop)]]
            .concat(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]
    #[test]
    fn every_answer_says_the_same_streamed_and_whole(
        words in prop::collection::vec(prop::sample::select(vec!["a", " b", "é", "\n", "\u{1f600}", "{\"", "\\", "  "]), 0..6),
        usage in any::<bool>(),
    ) {
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let mut wrong = Vec::new();
        for (kind, mut answer) in kinds(&words).into_iter().enumerate() {
            let counts = Usage { input_tokens: Some(9), output_tokens: Some(5), ..Usage::default() };
            answer.extend(usage.then_some(AnswerPiece::Usage(counts)));
            for (surface, dialect) in Surface::TRANSLATED.into_iter().flat_map(|surface| Dialect::ALL.map(|dialect| (surface, dialect))) {
                let stream = stream(surface, dialect, &answer);
                wrong.extend(agrees(surface, dialect, &stream).err().map(|error| format!("kind {kind}: {error}")));
            }
        }
        prop_assert!(wrong.is_empty(), "{} answers: {:#?}", wrong.len(), &wrong[..wrong.len().min(40)]);
    }
}
