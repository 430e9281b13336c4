//! Numbers and characters that every dialect and every surface keeps.

use bytes::{Bytes, BytesMut};
use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;
use proptest::prelude::*;
use serde_json::Value;

use super::matrix::{follow_up, through};
use photofinish_wire::conversation::Losses;
use photofinish_wire::conversation::signature::RemovedReasoning;
use photofinish_wire::dialect::{Dialect, Surface};
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::values::json;
use photofinish_wire::quirks::TranslationOptions;
use photofinish_wire::stream::binary::write_event;

/// The surfaces whose answers have calls.
const SURFACES: [Surface; 5] =
    [Surface::Chat, Surface::Messages, Surface::Responses, Surface::OllamaChat, Surface::Gemini];

/// Numbers that no type of a program holds, and other ways to write those that one does.
const NUMBERS: [&str; 10] = [
    "25000000000000000000000",
    "-170141183460469231731687303715884105729",
    "1e3",
    "1E+3",
    "1.50",
    "0.1000000000000000055511151231257827",
    "-0",
    "-0.0",
    "1e999",
    "18446744073709551616",
];

fn options() -> TranslationOptions {
    TranslationOptions { model: "m".to_owned(), ..TranslationOptions::default() }
}

/// A whole answer that calls `f` with these arguments.
fn calling(dialect: Dialect, arguments: &str) -> Value {
    let quoted = json!(arguments);
    let answer = match dialect {
        Dialect::OpenAi => format!(
            r#"{{"id":"c","choices":[{{"index":0,"finish_reason":"tool_calls","message":{{"role":"assistant","content":null,"tool_calls":[
                {{"id":"call_1","type":"function","function":{{"name":"f","arguments":{quoted}}}}}]}}}}]}}"#
        ),
        Dialect::Responses => format!(
            r#"{{"id":"r","object":"response","status":"completed","model":"m","output":[
                {{"type":"function_call","call_id":"call_1","name":"f","arguments":{quoted}}}]}}"#
        ),
        Dialect::Anthropic => format!(
            r#"{{"id":"msg_1","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","usage":{{}},"content":[
                {{"type":"tool_use","id":"call_1","name":"f","input":{arguments}}}]}}"#
        ),
        Dialect::Gemini => format!(
            r#"{{"candidates":[{{"finishReason":"STOP","content":{{"parts":[
                {{"functionCall":{{"name":"f","args":{arguments}}}}}]}}}}]}}"#
        ),
        Dialect::Bedrock => format!(
            r#"{{"stopReason":"tool_use","output":{{"message":{{"content":[
                {{"toolUse":{{"toolUseId":"call_1","name":"f","input":{arguments}}}}}]}}}}}}"#
        ),
        Dialect::Ollama => format!(
            r#"{{"model":"m","done":true,"message":{{"role":"assistant","content":"","tool_calls":[
                {{"function":{{"name":"f","arguments":{arguments}}}}}]}}}}"#
        ),
    };
    parse(answer.as_bytes()).unwrap()
}

/// The number is a value of `text`, wherever a JSON text is quoted in another.
fn has_number(text: &str, number: &str) -> bool {
    [format!("\"wei\":{number},"), format!("\\\"wei\\\":{number},")].iter().any(|member| text.contains(member))
}

fn answers_and_the_next_request_keep(number: &str) {
    let arguments = format!(r#"{{"wei":{number},"in":[{{"wei":{number},"x":1}}]}}"#);
    for dialect in Dialect::ALL {
        for surface in SURFACES {
            let answer = through(dialect, surface, &calling(dialect, &arguments));
            let place = || format!("{number} from {dialect:?} by {surface:?}: {answer}");
            assert!(has_number(&answer.to_string(), number), "{}", place());
            if !matches!(surface, Surface::Chat | Surface::Messages | Surface::Responses) {
                continue;
            }
            let body = follow_up(surface, &answer).to_string();
            let conversation = surface.conversation(body.as_bytes()).unwrap();
            for to in Dialect::ALL {
                let request = to.request(&conversation, &options(), &mut Losses::default()).to_string();
                assert!(has_number(&request, number), "{} to {to:?}: {request}", place());
            }
        }
    }
}

fn schemas_keep(number: &str) {
    let schema =
        format!(r#"{{"type":"object","properties":{{"a":{{"type":"number","enum":[{number}],"default":{number}}}}}}}"#);
    let bodies = [
        (
            Surface::Chat,
            format!(
                r#"{{"messages":[{{"role":"user","content":"x"}}],"tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]}}"#
            ),
        ),
        (
            Surface::Messages,
            format!(
                r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":"x"}}],"tools":[{{"name":"f","input_schema":{schema}}}]}}"#
            ),
        ),
        (
            Surface::Responses,
            format!(r#"{{"model":"m","input":"x","tools":[{{"type":"function","name":"f","parameters":{schema}}}]}}"#),
        ),
        (
            Surface::OllamaChat,
            format!(
                r#"{{"messages":[{{"role":"user","content":"x"}}],"tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]}}"#
            ),
        ),
        (
            Surface::Gemini,
            format!(
                r#"{{"contents":[{{"parts":[{{"text":"x"}}]}}],"tools":[{{"functionDeclarations":[{{"name":"f","parametersJsonSchema":{schema}}}]}}]}}"#
            ),
        ),
    ];
    for (surface, body) in bodies {
        let conversation = surface.conversation(body.as_bytes()).unwrap();
        for to in Dialect::ALL {
            let request = to.request(&conversation, &options(), &mut Losses::default()).to_string();
            assert!(request.contains(&format!("\"enum\":[{number}]")), "{number} by {surface:?} to {to:?}: {request}");
        }
    }
}

#[test]
fn numbers_keep_their_text() {
    for number in NUMBERS {
        answers_and_the_next_request_keep(number);
        schemas_keep(number);
    }
}

/// The untranslated answer, assembled for a client that does not stream.
fn assembled(surface: Surface, stream: &[Bytes]) -> String {
    let mut growing = surface.growing();
    assert!(cut(surface.dialect(), stream).iter().all(|event| growing.add(event)));
    String::from_utf8(growing.finish().unwrap().body.to_vec()).unwrap()
}

#[test]
fn numbers_of_an_untranslated_whole_answer_keep_their_text() {
    for number in NUMBERS {
        for surface in SURFACES {
            let answer = calling(surface.dialect(), &format!(r#"{{"wei":{number},"x":1}}"#)).to_string();
            let stream = surface.dialect().events_of_whole(surface, answer.as_bytes()).unwrap();
            let whole = assembled(surface, &[stream]);
            assert!(has_number(&whole, number), "{number} by {surface:?}: {whole}");
        }
        let chunk = format!(
            "data: {{\"own\":{{\"wei\":{number},\"x\":1}},\"choices\":[{{\"index\":0,\"delta\":{{\"own\":[{{\"wei\":{number},\"x\":1}}]}}}}]}}\n\n"
        );
        let whole = assembled(Surface::Chat, &[Bytes::from(chunk)]);
        assert_eq!(whole.matches(&format!("\"wei\":{number},")).count(), 2, "{whole}");
    }
}

#[test]
fn a_request_without_its_reasoning_keeps_its_numbers() {
    let thought = r#"{"type":"thinking","thinking":"hm","signature":"photofinish.gemini.abc"}"#;
    for number in NUMBERS {
        let body = format!(
            r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"assistant","content":[{thought},{{"type":"tool_use","id":"t","name":"f","input":{{"wei":{number},"x":1}}}}]}}]}}"#
        );
        let cleaned = Surface::Messages.without_reasoning(body.as_bytes(), RemovedReasoning::Foreign).unwrap();
        assert!(has_number(std::str::from_utf8(&cleaned).unwrap(), number), "{number}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_number_keeps_its_text(number in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?") {
        answers_and_the_next_request_keep(&number);
        schemas_keep(&number);
    }
}

/// A delta of a text, as it is written between quotes.
fn delta(dialect: Dialect, text: &str) -> Bytes {
    Bytes::from(match dialect {
        Dialect::OpenAi => format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"),
        Dialect::Responses => format!(
            "data: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"{text}\"}}\n\n"
        ),
        Dialect::Anthropic => format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
        ),
        Dialect::Gemini => {
            format!(
                "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}},\"index\":0}}]}}\n\n"
            )
        }
        Dialect::Ollama => {
            format!("{{\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}},\"done\":false}}\n")
        }
        Dialect::Bedrock => {
            let mut out = BytesMut::new();
            let payload = format!("{{\"contentBlockIndex\":0,\"delta\":{{\"text\":\"{text}\"}}}}");
            write_event("contentBlockDelta", payload.as_bytes(), &mut out);
            return out.freeze();
        }
    })
}

/// The events of a stream.
fn cut(dialect: Dialect, stream: &[Bytes]) -> Vec<photofinish_wire::stream::sse::SseEvent> {
    let mut decoder = dialect.framing().decoder(1 << 20);
    decoder.push(Bytes::from(stream.concat()));
    std::iter::from_fn(|| decoder.next_event().unwrap()).collect()
}

#[test]
fn a_character_that_a_server_cuts_is_whole_on_every_surface() {
    for dialect in Dialect::ALL {
        let stream = ["hi \\ud83d", "\\ude00", " \\ud83d\\ude00!"].map(|text| delta(dialect, text));
        for surface in SURFACES {
            let (mut reader, mut pieces) = (dialect.reader(), Vec::new());
            cut(dialect, &stream).iter().for_each(|event| reader.read(event, &mut pieces));
            let (mut writer, mut out) = (surface.writer("m", true, false, false, &Default::default()), BytesMut::new());
            pieces.into_iter().for_each(|piece| writer.write(piece, &mut out));
            writer.end(&mut out);
            let text = String::from_utf8(out.to_vec()).unwrap();
            assert!(text.contains("\u{1f600}") && !text.contains('\u{fffd}'), "{dialect:?} by {surface:?}: {text}");
            let whole = assembled(surface, &[out.freeze()]);
            assert!(whole.contains("\"hi \u{1f600} \u{1f600}!\""), "{dialect:?} by {surface:?}: {whole}");
        }
    }
}

#[test]
fn an_untranslated_whole_answer_has_whole_characters() {
    for surface in [Surface::Chat, Surface::OllamaChat, Surface::Gemini] {
        let stream = ["hi \\ud83d", "\\ude00", "\\ud83d\\ude00!"].map(|text| delta(surface.dialect(), text));
        let whole = assembled(surface, &stream);
        assert!(whole.contains("\"hi \u{1f600}\u{1f600}!\""), "{surface:?}: {whole}");
    }
}
