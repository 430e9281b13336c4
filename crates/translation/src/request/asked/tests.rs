//! Requests with their right answer and wrong ones, known beforehand.

use std::sync::Arc;

use bytes::Bytes;

use crate::request::ApiRequest;
use crate::translate::request::RequestTranslation;
use crate::translate::response::ResponseTranslation;
use photofinish_wire::answer::error::of_frame;
use photofinish_wire::dialect::{Dialect, PassedCall, PathCall, Surface};
use photofinish_wire::stream::frame::Frame;
use photofinish_wire::stream::sse::SseEvent;

/// What vendors and proxies write into a 200 in place of an answer.
const ERRORS: [&str; 9] = [
    r#"{"detail":"batch too large"}"#,
    r#"{"detail":[{"loc":["body"],"msg":"x"}]}"#,
    r#"{"code":500,"message":"busy"}"#,
    r#"{"success":false}"#,
    r#"{"object":"error","message":"no","type":"BadRequestError","code":400}"#,
    r#"{"error":{"message":"no"}}"#,
    r#"{"error":"no","data":[]}"#,
    r#"{"status":"error","message":"no"}"#,
    r#"{"message":"Internal server error"}"#,
];
/// JSON that says nothing.
const NOTHING: [&str; 6] = ["{}", "[]", r#"{"data":[]}"#, r#"{"data":null}"#, "{", "7"];

fn request(surface: Surface, body: &str) -> ApiRequest {
    let call = PathCall { surface, model: "m".to_owned(), stream: false, listed: false };
    ApiRequest::parse_call(surface, Bytes::from(body.to_owned()), Some(&call), false).unwrap()
}

/// The answer for the client. Err: it is none, in these words.
fn answered(request: &Arc<ApiRequest>, body: &[u8], content_type: &str) -> Result<Vec<u8>, String> {
    let translation = ResponseTranslation::new(&RequestTranslation::untouched(request.clone()), "m", false);
    let body = Bytes::copy_from_slice(body);
    let raw = translation
        .events_of_whole(&body, content_type)
        .map_err(|why| why.unwrap_or_else(|| format!("error: {}", of_frame(&body).message)))?;
    let event = SseEvent { raw };
    match translation.read(&event) {
        Frame::Chunk(chunk) if chunk.payload.is_some() => Ok(event.raw.to_vec()),
        other => Err(format!("{other:?}")),
    }
}

/// A surface, a request of it, a right answer, and wrong ones of its own.
type Case = (Surface, &'static str, &'static str, &'static [&'static str]);

const fn passed(call: PassedCall) -> Surface {
    Surface::Passed(call)
}

const CASES: [Case; 20] = [
    (
        Surface::Embeddings,
        r#"{"model":"m","input":["a","b"],"dimensions":2}"#,
        "{ \"data\": [{\"index\": 1, \"embedding\": [1e-3, 2]}, {\"index\":0,\"embedding\":[0.50,-1]}],\n\"odd\":1 }\n",
        &[
            r#"{"data":[{"index":0,"embedding":[1,2]}]}"#,
            r#"{"data":[{"embedding":[1,2]},{"embedding":[1,2]},{"embedding":[1,2]}]}"#,
            r#"{"data":[{"index":1,"embedding":[1,2]},{"index":1,"embedding":[1,2]}]}"#,
            r#"{"data":[{"index":1,"embedding":[1,2]},{"index":2,"embedding":[1,2]}]}"#,
            r#"{"data":[{"embedding":[1,2]},{"embedding":[1,2,3]}]}"#,
            r#"{"data":[{"embedding":[1,2,3]},{"embedding":[1,2,3]}]}"#,
            r#"{"data":[{"embedding":[1,null]},{"embedding":[1,2]}]}"#,
            r#"{"data":[{"embedding":[[1],2]},{"embedding":[1,2]}]}"#,
            r#"{"data":[{"embedding":[]},{"embedding":[]}]}"#,
            r#"{"data":[{"embedding":[NaN,1]},{"embedding":[1,2]}]}"#,
            r#"{"data":[{"embedding":"no base64"},{"embedding":[1,2]}]}"#,
            r#"{"data":[{"object":"embedding"},{"object":"embedding"}]}"#,
            r#"{"embeddings":[[1,2],[1,2]]}"#,
        ],
    ),
    (
        Surface::Embeddings,
        r#"{"model":"m","input":[5,6,7]}"#,
        r#"{"data":[{"embedding":[1,2]}]}"#,
        &[r#"{"data":[{"embedding":[1]},{"embedding":[1]},{"embedding":[1]}]}"#],
    ),
    (
        Surface::Embeddings,
        r#"{"model":"m","input":[[5,6],[7]]}"#,
        r#"{"data":[{"embedding":[1,2]},{"embedding":[1,2]}]}"#,
        &[r#"{"data":[{"embedding":[1]}]}"#],
    ),
    (
        Surface::Embeddings,
        r#"{"model":"m","input":"a","output_dtype":"binary","dimensions":64}"#,
        r#"{"data":[{"embedding":[1,2,3]}]}"#,
        &[r#"{"data":[{"embedding":[1]},{"embedding":[1]}]}"#],
    ),
    (
        Surface::OllamaEmbed,
        r#"{"model":"m","input":["a","b"]}"#,
        r#"{"embeddings":[[1],[2]],"prompt_eval_count":3}"#,
        &[r#"{"embeddings":[[1]]}"#, r#"{"embeddings":[]}"#, r#"{"data":[{"embedding":[1]},{"embedding":[2]}]}"#],
    ),
    (
        Surface::OllamaEmbeddings,
        r#"{"model":"m","prompt":"a"}"#,
        r#"{"embedding":[1,2]}"#,
        &[r#"{"embedding":[]}"#, r#"{"embeddings":[[1]]}"#, r#"{"embedding":[[1]]}"#],
    ),
    (
        Surface::GeminiEmbed,
        r#"{"content":{"parts":[{"text":"a"}]},"outputDimensionality":2}"#,
        r#"{"embedding":{"values":[1,2]}}"#,
        &[r#"{"embedding":{"values":[1]}}"#, r#"{"embedding":{}}"#, r#"{"embedding":[1,2]}"#],
    ),
    (
        Surface::GeminiEmbedBatch,
        r#"{"requests":[{"content":{},"outputDimensionality":1},{"content":{},"outputDimensionality":1}]}"#,
        r#"{"embeddings":[{"values":[1]},{"values":[2]}]}"#,
        &[r#"{"embeddings":[{"values":[1]}]}"#, r#"{"embeddings":[{"values":[1,2]},{"values":[1,2]}]}"#],
    ),
    (
        Surface::GeminiEmbedBatch,
        r#"{"requests":[{"content":{},"outputDimensionality":1},{"content":{}}]}"#,
        r#"{"embeddings":[{"values":[1]},{"values":[2,3]}]}"#,
        &[r#"{"embeddings":[{"values":[1]}]}"#],
    ),
    (
        passed(PassedCall::Rerank),
        r#"{"model":"m","query":"q","documents":["a",{"text":"b"},"c"],"top_n":2}"#,
        r#"{"results":[{"index":2,"relevance_score":0.9},{"index":0,"relevance_score":1e-9}]}"#,
        &[
            r#"{"results":[]}"#,
            r#"{"results":[{"index":3,"relevance_score":0.9}]}"#,
            r#"{"results":[{"index":-1,"relevance_score":0.9}]}"#,
            r#"{"results":[{"index":0}]}"#,
            r#"{"results":[{"relevance_score":0.9}]}"#,
            r#"{"results":[{"index":0,"relevance_score":"high"}]}"#,
            r#"{"results":[{"index":0,"score":1},{"index":0,"score":1}]}"#,
            r#"{"results":[{"index":0,"score":1},{"index":1,"score":1},{"index":2,"score":1}]}"#,
        ],
    ),
    (
        passed(PassedCall::Rerank),
        r#"{"model":"m","query":"q","documents":[]}"#,
        r#"{"results":[]}"#,
        &[r#"{"results":{}}"#],
    ),
    (
        passed(PassedCall::Moderation),
        r#"{"model":"m","input":["a","b"]}"#,
        r#"{"results":[{"flagged":false},{"flagged":true}]}"#,
        &[r#"{"results":[]}"#, r#"{"results":[{"flagged":false}]}"#, r#"{"results":[{},{}]}"#],
    ),
    (
        passed(PassedCall::Moderation),
        r#"{"model":"m","input":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]}"#,
        r#"{"results":[{"flagged":false}]}"#,
        &[r#"{"results":[{"a":1},{"a":1},{"a":1}]}"#],
    ),
    (
        passed(PassedCall::Image),
        r#"{"model":"m","prompt":"a cat","n":2,"response_format":"url"}"#,
        r#"{"created":1,"data":[{"url":"https://x/1"}]}"#,
        &[
            r#"{"data":[{"b64_json":"AA=="}]}"#,
            r#"{"data":[{"url":""}]}"#,
            r#"{"data":[{"url":null},{"url":"https://x/1"}]}"#,
            r#"{"data":[{"url":"a"},{"url":"b"},{"url":"c"}]}"#,
        ],
    ),
    (
        passed(PassedCall::ImageEdit),
        r#"{"model":"m","prompt":"a hat"}"#,
        r#"{"data":[{"b64_json":"AA==","url":null}]}"#,
        &[r#"{"data":[{"revised_prompt":"x"}]}"#, r#"{"data":["AA=="]}"#],
    ),
    (passed(PassedCall::Transcription), r#"{"model":"m"}"#, r#"{"text":""}"#, &["hello", r#"{"text":null}"#]),
    (Surface::CountTokens, r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#, r#"{"input_tokens":7}"#, &[]),
    (Surface::GeminiCount, r#"{"contents":[{"parts":[{"text":"x"}]}]}"#, r#"{"totalTokens":7}"#, &[]),
    (passed(PassedCall::InputTokens), r#"{"model":"m","input":"x"}"#, r#"{"input_tokens":7}"#, &[]),
    (passed(PassedCall::Compaction), r#"{"model":"m","input":"x"}"#, r#"{"output":[{"type":"compaction"}]}"#, &[]),
];

#[test]
fn only_the_answer_that_was_asked_for_is_one() {
    for (surface, body, right, wrong) in CASES {
        let request = Arc::new(request(surface, body));
        for content_type in ["application/json; charset=utf-8", ""] {
            let kept = answered(&request, right.as_bytes(), content_type);
            assert_eq!(kept, Ok(right.as_bytes().to_vec()), "{surface:?} {body}");
            for wrong in wrong.iter().chain(&ERRORS).chain(&NOTHING).chain(&[""]) {
                let said = answered(&request, wrong.as_bytes(), content_type);
                assert!(said.is_err(), "{surface:?} {body}: {wrong}");
                assert_eq!(said.unwrap_err().contains("rror"), ERRORS.contains(wrong), "{surface:?}: {wrong}");
            }
            assert!(answered(&request, right.as_bytes(), "text/html").is_err() || !surface.is_passed());
        }
    }
}

#[test]
fn sounds_and_texts_may_be_anything_but_an_error() {
    let json = "application/json";
    let speech = Arc::new(request(passed(PassedCall::Speech), r#"{"model":"m","input":"x","voice":"v"}"#));
    let text = r#"{"model":"m","response_format":"srt"}"#;
    let text = Arc::new(request(passed(PassedCall::Transcription), text));
    for (body, content_type) in ERRORS.into_iter().chain(["{}", r#"{"data":[]}"#]).map(|body| (body, json)) {
        assert!(answered(&speech, body.as_bytes(), content_type).is_err(), "{body}");
        assert!(answered(&text, body.as_bytes(), content_type).is_err(), "{body}");
        assert!(answered(&speech, body.as_bytes(), "audio/mpeg").is_err(), "{body}");
    }
    for (body, content_type) in [
        ("{\"a\":", json),
        ("", json),
        ("", "audio/mpeg"),
        ("<html>", "text/html; charset=utf-8"),
        ("Rate limit exceeded", "text/plain"),
    ] {
        assert!(answered(&speech, body.as_bytes(), content_type).is_err(), "{body}");
    }
    for (request, body, content_type) in [
        (&speech, &b"\xff\xfb\x90ID3"[..], "audio/mpeg"),
        (&speech, b"\xff\xfb\x90ID3", ""),
        (&speech, br#"{"audio":"AA=="}"#, json),
        (&text, b"{laughs} hello", "text/plain"),
        (&text, b"1\n00:00:00,000 --> 00:00:01,000\nupstream error\n", "text/plain"),
        (&text, br#"{"text":"hi"}"#, json),
    ] {
        assert_eq!(answered(request, body, content_type), Ok(body.to_vec()));
    }
}

#[test]
fn a_stream_is_an_answer_only_where_it_was_asked_for() {
    let stream = b"event: a\ndata: {\"type\":\"image_generation.completed\",\"b64_json\":\"AA==\"}\n\n";
    for (streams, expected) in [(true, true), (false, false)] {
        let body = format!(r#"{{"model":"m","prompt":"a cat","stream":{streams}}}"#);
        let request = Arc::new(request(passed(PassedCall::Image), &body));
        assert_eq!(answered(&request, stream, "text/event-stream").is_ok(), expected, "{body}");
    }
}

/// 0.5 and -2 as numbers and in base64.
const NUMBERS: &str = "[0.5,-2.0]";
const BASE64: &str = "\"AAAAPwAAAMA=\"";

#[test]
fn vectors_come_in_the_encoding_that_was_asked_for_and_all_else_stays() {
    let openai = |vector: &str| {
        format!(
            "{{ \"x\":1.50,\"data\":[{{\"embedding\": {vector} ,\"index\":1}},{{\"index\":0,\"embedding\":{vector}}}],\"y\":\"é\"}}"
        )
    };
    let ollama = |vector: &str| format!("{{\"embeddings\":[{vector}, {vector}],\"a\":0}}");
    let gemini = |vector: &str| format!("{{\"embedding\":{{\"values\":{vector}}}}}");
    let of_content = r#"{"content":{"parts":[{"text":"a"}]}}"#;
    for came in [NUMBERS, BASE64] {
        for (surface, body, write, expected) in [
            (Surface::Embeddings, r#"{"model":"m","input":["a","b"]}"#, &openai as &dyn Fn(&str) -> String, NUMBERS),
            (Surface::Embeddings, r#"{"model":"m","input":["a","b"],"encoding_format":"float"}"#, &openai, NUMBERS),
            (Surface::Embeddings, r#"{"model":"m","input":["a","b"],"encoding_format":"base64"}"#, &openai, BASE64),
            (Surface::Embeddings, r#"{"model":"m","input":["a","b"],"encoding_format":"odd"}"#, &openai, came),
            (Surface::OllamaEmbed, r#"{"model":"m","input":["a","b"]}"#, &ollama, NUMBERS),
            (Surface::GeminiEmbed, of_content, &gemini, NUMBERS),
        ] {
            let request = Arc::new(request(surface, body));
            let answer = answered(&request, write(came).as_bytes(), "application/json").unwrap();
            assert_eq!(String::from_utf8(answer).unwrap(), write(expected), "{surface:?} {body} {came}");
        }
    }
}

#[test]
fn a_translated_answer_is_checked_alike() {
    let surfaces = [
        (Surface::Embeddings, r#"{"model":"m","input":"a","dimensions":2}"#),
        (Surface::GeminiEmbed, r#"{"content":{"parts":[{"text":"a"}]},"outputDimensionality":2}"#),
    ];
    for (surface, body) in surfaces {
        for (dialect, shape) in [
            (Dialect::OpenAi, r#"{"data":[{"index":0,"embedding":V}]}"#),
            (Dialect::Ollama, r#"{"embeddings":[V]}"#),
            (Dialect::Gemini, r#"{"embeddings":[{"values":V}]}"#),
            (Dialect::Bedrock, r#"{"embedding":V}"#),
            (Dialect::Bedrock, r#"{"embeddings":{"float":[V]}}"#),
        ] {
            if dialect == surface.dialect() {
                continue;
            }
            let options = photofinish_wire::quirks::TranslationOptions {
                model: "amazon.titan-embed-text-v2:0".to_owned(),
                quirks: photofinish_wire::quirks::Quirks::default(),
            };
            let request = RequestTranslation::embedding(surface, body.as_bytes(), dialect, &options).unwrap();
            let translation = ResponseTranslation::new(&request, "m", false);
            let is_answer = |body: &str| translation.events_of_whole(&Bytes::from(body.to_owned()), "").is_ok();
            for (vector, expected) in [(NUMBERS, true), (BASE64, true), ("[1]", false), ("[]", false), ("null", false)]
            {
                assert_eq!(is_answer(&shape.replace('V', vector)), expected, "{surface:?} {dialect:?} {vector}");
            }
            for wrong in ERRORS.iter().chain(&NOTHING) {
                assert!(!is_answer(wrong), "{surface:?} {dialect:?} {wrong}");
            }
        }
    }
}
