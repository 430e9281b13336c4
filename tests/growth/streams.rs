//! Structures that can be repeated in answers, and the code that reads them.

use photofinish_dialects::DialectFormat as _;
use photofinish_wire::stream::framing::Framing;
use photofinish_wire::{Dialect, Surface};

use crate::targets::{binary, errors, events, stream};
use crate::{Case, case, probe};

/// Maximum calls, blocks, items and choices of one answer.
const ITEMS: usize = 4_096;
const CHOICES: usize = 128;
const MANY: usize = 1 << 20;

/// Lines and events with any content.
const LINES: &[Case] = &[
    case("data lines", MANY, |n| "data:y\n".repeat(n) + "\n"),
    case("data lines that end in CR", MANY, |n| "data:y\r".repeat(n) + "\n"),
    case("comments that end in CR", MANY, |n| ":\r".repeat(n) + "\n"),
    case("comments", MANY, |n| ": x\n\n".repeat(n)),
    case("names of events", MANY, |n| "event: a\r\n".repeat(n) + "\n"),
    case("blank lines", MANY, |n| "\n".repeat(n)),
    case("blank lines that end in CRLF", MANY, |n| "\r\n".repeat(n)),
    case("unknown fields", MANY, |n| "a: b\n".repeat(n) + "data: 1\n\n"),
    case("letters of a line", MANY, |n| "data: ".to_owned() + &"x".repeat(n) + "\n\n"),
    case("letters without an end", MANY, |n| "x".repeat(n)),
    case("opening brackets", MANY, |n| format!("data: {}\n\n", "[".repeat(n))),
    case("spaces", MANY, |n| format!("data:{}\n\n", " ".repeat(n))),
];

const CHAT: &[Case] = &[
    case("calls of one delta", ITEMS, |n| delta(&format!("\"tool_calls\":{}", list(n, call)))),
    case("calls of one delta, backwards", ITEMS, |n| {
        delta(&format!("\"tool_calls\":{}", list(n, |at| call(ITEMS - at))))
    }),
    case("calls, one in each event", ITEMS, |n| each(n, |at| delta(&format!("\"tool_calls\":[{}]", call(at))))),
    case("calls by id, whose arguments follow", ITEMS / 2, |n| {
        each(n, |at| delta(&format!(r#""tool_calls":[{{"id":"i{at}","function":{{"name":"f","arguments":"{{"}}}}]"#)))
            + &each(n, |at| delta(&format!(r#""tool_calls":[{{"id":"i{at}","function":{{"arguments":"}}"}}}}]"#)))
    }),
    case("calls by number, whose arguments follow", ITEMS / 2, |n| {
        delta(&format!("\"tool_calls\":{}", list(n, call)))
            + &each(n, |at| {
                delta(&format!(r#""tool_calls":[{{"index":{},"function":{{"arguments":"1"}}}}]"#, n - 1 - at))
            })
    }),
    case("parts of a call's arguments", MANY, |n| {
        each(n, |_| delta(r#""tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"[1,"}}]"#))
    }),
    case("choices of one event", CHOICES, |n| {
        format!("data: {{\"choices\":{}}}\n\n", list(n, |at| format!(r#"{{"index":{at},"delta":{{"content":"a"}}}}"#)))
    }),
    case("choices beyond the bound", MANY, |n| {
        format!("data: {{\"choices\":{}}}\n\n", list(n, |at| format!(r#"{{"index":{at},"delta":{{"content":"a"}}}}"#)))
    }),
    case("details of reasoning", MANY, |n| {
        delta(&format!("\"reasoning_details\":{}", list(n, |_| r#"{"type":"reasoning.text","text":"a"}"#.to_owned())))
    }),
    case("numbered details of reasoning", MANY, |n| {
        delta(&format!("\"reasoning_details\":{}", list(n, |at| format!(r#"{{"index":{at},"text":"a"}}"#))))
    }),
    case("details of reasoning, backwards, one in each event", MANY, |n| {
        each(n, |at| delta(&format!(r#""reasoning_details":[{{"index":{},"text":"a"}}]"#, MANY - at)))
    }),
    case("signed details of reasoning", MANY, |n| {
        each(n, |at| delta(&format!(r#""reasoning_details":[{{"index":{at},"text":"a","signature":"s"}}]"#)))
    }),
    case("content parts", MANY, |n| {
        delta(&format!("\"content\":{}", list(n, |_| r#"{"type":"text","text":"a"}"#.to_owned())))
    }),
    case("parts of thinking and text in turns", MANY, |n| {
        each(n, |_| {
            delta(
                r#""content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]},{"type":"text","text":"b"}]"#,
            )
        })
    }),
    case("images", MANY, |n| {
        delta(&format!("\"images\":{}", list(n, |_| r#"{"image_url":{"url":"data:image/png;base64,AA"}}"#.to_owned())))
    }),
    case("annotations", MANY, |n| each(n, |at| delta(&format!(r#""annotations":[{{"index":{at}}}]"#)))),
    case("texts", MANY, |n| each(n, |_| delta(r#""content":"a""#))),
    case("refusals and texts in turns", MANY, |n| each(n, |_| delta(r#""content":"a","refusal":"b""#))),
    case("probabilities", MANY, |n| {
        each(n, |_| {
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":{\"content\":[{\"token\":\"a\"}]}}]}\n\n"
                .to_owned()
        })
    }),
    case("members of a delta", MANY, |n| delta(&(0..n).map(|at| format!("\"k{at}\":1")).collect::<Vec<_>>().join(","))),
    case("members of events", MANY, |n| each(n, |at| format!("data: {{\"k{at}\":1,\"choices\":[]}}\n\n"))),
    case("usage and finish reasons", MANY, |n| {
        each(n, |at| {
            format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"r{at}\"}}],\"usage\":{{\"prompt_tokens\":{at}}}}}\n\n"
            )
        })
    }),
    case("escapes", MANY, |n| delta(&format!("\"content\":\"{}\"", "\\u00e9".repeat(n)))),
    case("halves of characters", MANY, |n| delta(&format!("\"content\":\"{}\"", "\\ud800".repeat(n)))),
    case("lines of one JSON text", MANY, |n| format!("data: [1{}]\n\n", "\ndata: ,1".repeat(n))),
    case("errors", MANY, |n| {
        format!(
            "data: {{\"error\":{{\"message\":\"a\",\"details\":{}}}}}\n\n",
            list(n, |_| "{\"reason\":\"a\"}".to_owned())
        )
    }),
    case("what comes behind the end", MANY, |n| "data: [DONE]\n\n".repeat(n)),
];

const RESPONSES: &[Case] = &[
    case("calls", ITEMS, |n| {
        each(n, |at| {
            let item =
                format!(r#"{{"type":"function_call","id":"i{at}","call_id":"c{at}","name":"f","arguments":"{{}}"}}"#);
            of(&format!(r#""type":"response.output_item.added","output_index":{at},"item":{item}"#))
                + &of(&format!(r#""type":"response.output_item.done","output_index":{at},"item":{item}"#))
        })
    }),
    case("calls that stay open, and their arguments backwards", ITEMS / 2, |n| {
        each(n, |at| {
            of(&format!(
                r#""type":"response.output_item.added","output_index":{at},"item":{{"type":"function_call","call_id":"c","name":"f"}}"#
            ))
        }) + &each(n, |at| {
            of(&format!(r#""type":"response.function_call_arguments.delta","output_index":{},"delta":"[""#, n - 1 - at))
        })
    }),
    case("items of one index", MANY, |n| {
        each(n, |_| {
            of(
                r#""type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"a"}]}"#,
            )
        })
    }),
    case("messages", MANY, |n| {
        each(n, |at| of(&format!(r#""type":"response.output_text.delta","output_index":{at},"delta":"a""#)))
    }),
    case("parts of reasoning", MANY, |n| {
        each(n, |at| {
            of(&format!(
                r#""type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":{at},"delta":"a""#
            ))
        })
    }),
    case("encrypted reasoning", ITEMS, |n| {
        each(n, |at| {
            of(&format!(
                r#""type":"response.output_item.done","output_index":{at},"item":{{"type":"reasoning","encrypted_content":"e"}}"#
            ))
        })
    }),
    case("texts and refusals in turns", MANY, |n| {
        each(n, |_| {
            of(r#""type":"response.output_text.delta","delta":"a""#)
                + &of(r#""type":"response.refusal.delta","delta":"b""#)
        })
    }),
    case("annotations", MANY, |n| {
        each(n, |_| of(r#""type":"response.output_text.annotation.added","annotation":{"type":"a"}"#))
    }),
    case("items of the last event", ITEMS, |n| {
        let item = |at| format!(r#"{{"type":"function_call","call_id":"c{at}","name":"f","arguments":"{{}}"}}"#);
        of(&format!(r#""type":"response.completed","response":{{"output":{}}}"#, list(n, item)))
    }),
    case("first events", MANY, |n| each(n, |_| of(r#""type":"response.created","response":{"id":"r","output":[]}"#))),
];

const MESSAGES: &[Case] = &[
    case("blocks", ITEMS, |n| each(n, |at| block(at, r#"{"type":"text","text":"a"}"#) + &stop(at))),
    case("calls that stay open, and their arguments backwards", ITEMS / 2, |n| {
        each(n, |at| block(at, &format!(r#"{{"type":"tool_use","id":"toolu_{at}","name":"f","input":{{}}}}"#)))
            + &each(n, |at| input(n - 1 - at, "[1"))
            + &each(n, |at| stop(n - 1 - at))
    }),
    case("encrypted thoughts", ITEMS, |n| {
        each(n, |at| block(at, r#"{"type":"redacted_thinking","data":"d"}"#) + &stop(at))
    }),
    case("deltas of text", MANY, |n| {
        block(0, r#"{"type":"text","text":""}"#)
            + &each(n, |_| of(r#""type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}"#))
    }),
    case("an input that is cut", MANY, |n| {
        let open = format!("{}{}", "[".repeat(100), "1,".repeat(16));
        block(0, r#"{"type":"tool_use","id":"t","name":"f","input":{}}"#)
            + &input(0, &open)
            + &each(n, |_| input(0, "1,1,1,"))
    }),
    case("citations", MANY, |n| {
        block(0, r#"{"type":"text","text":""}"#)
            + &each(n, |_| {
                of(r#""type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"a":1}}"#)
            })
    }),
    case("signatures", MANY, |n| {
        block(0, r#"{"type":"thinking","thinking":""}"#)
            + &each(n, |_| {
                of(r#""type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"a"}"#)
            })
    }),
    case("beginnings", MANY, |n| each(n, |at| of(&format!(r#""type":"message_start","message":{{"id":"m{at}"}}"#)))),
    case("ends", MANY, |n| {
        each(n, |at| {
            of(&format!(
                r#""type":"message_delta","delta":{{"stop_reason":"end_turn","k{at}":1}},"usage":{{"output_tokens":{at}}}"#
            ))
        })
    }),
];

const GEMINI: &[Case] = &[
    case("parts", MANY, |n| candidate(&list(n, |_| r#"{"text":"a"}"#.to_owned()))),
    case("calls", ITEMS, |n| candidate(&list(n, |_| r#"{"functionCall":{"name":"f","args":{"x":1}}}"#.to_owned()))),
    case("signed calls", ITEMS, |n| {
        each(n, |_| candidate(r#"[{"functionCall":{"name":"f"},"thoughtSignature":"cw=="}]"#))
    }),
    case("thoughts with signatures", MANY, |n| {
        candidate(&list(n, |_| r#"{"text":"a","thought":true,"thoughtSignature":"cw=="}"#.to_owned()))
    }),
    case("candidates", MANY, |n| {
        format!(
            "data: {{\"candidates\":{}}}\n\n",
            list(n, |at| format!(r#"{{"index":{at},"content":{{"parts":[{{"text":"a"}}]}}}}"#))
        )
    }),
    case("events", MANY, |n| each(n, |_| candidate(r#"[{"text":"a"}]"#))),
    case("code and what came of it", MANY, |n| {
        candidate(&list(n, |_| r#"{"executableCode":{"code":"a"}},{"codeExecutionResult":{"output":"b"}}"#.to_owned()))
    }),
];

/// Whole answers, converted into frames.
const CONVERSE: &[Case] = &[
    case("texts", MANY, |n| converse(&list(n, |_| r#"{"text":"a"}"#.to_owned()))),
    case("calls", ITEMS, |n| {
        converse(&list(n, |at| format!(r#"{{"toolUse":{{"toolUseId":"t{at}","name":"f","input":{{"x":1}}}}}}"#)))
    }),
    case("signed thoughts", ITEMS, |n| {
        converse(&list(n, |_| r#"{"reasoningContent":{"reasoningText":{"text":"a","signature":"s"}}}"#.to_owned()))
    }),
    case("encrypted thoughts", ITEMS, |n| {
        converse(&list(n, |_| r#"{"reasoningContent":{"redactedContent":"AA=="}}"#.to_owned()))
    }),
    case("citations", MANY, |n| {
        converse(&format!("[{{\"citationsContent\":{{\"citations\":{}}}}}]", list(n, |_| "{\"a\":1}".to_owned())))
    }),
];

const OLLAMA: &[Case] = &[
    case("lines", MANY, |n| {
        "{\"model\":\"m\",\"message\":{\"content\":\"a\",\"thinking\":\"b\"},\"done\":false}\n".repeat(n)
    }),
    case("calls", ITEMS, |n| {
        let call = |_| r#"{"function":{"name":"f","arguments":{"x":1}}}"#.to_owned();
        format!("{{\"message\":{{\"tool_calls\":{}}},\"done\":true}}\n", list(n, call))
    }),
    case("blank lines", MANY, |n| "\r\n".repeat(n)),
    case("letters without an end", MANY, |n| "x".repeat(n)),
];

/// Answers that are not streamed.
const WHOLE: &[Case] = &[
    case("calls", ITEMS, |n| {
        format!(r#"{{"choices":[{{"index":0,"message":{{"tool_calls":{}}},"finish_reason":"stop"}}]}}"#, list(n, call))
    }),
    case("items", ITEMS, |n| {
        let item = |at| format!(r#"{{"type":"message","id":"i{at}","content":[{{"type":"output_text","text":"a"}}]}}"#);
        format!(r#"{{"id":"r","status":"completed","output":{}}}"#, list(n, item))
    }),
    case("blocks", ITEMS, |n| {
        format!(
            r#"{{"type":"message","content":{}}}"#,
            list(n, |at| format!(r#"{{"type":"tool_use","id":"toolu_{at}","name":"f","input":{{"x":1}}}}"#))
        )
    }),
    case("numbers", MANY, |n| format!(r#"{{"data":[{{"embedding":{}}}]}}"#, list(n, |at| at.to_string()))),
    case("lines", MANY, |n| format!("{{\"data\":[1{}]}}", ",\n1".repeat(n))),
    case("details of an error", MANY, |n| {
        format!(r#"{{"error":{{"message":"a","details":{}}}}}"#, list(n, |_| "{\"reason\":\"a\"}".to_owned()))
    }),
    case("members of an error", MANY, |n| {
        format!("{{\"error\":{{{}}}}}", (0..n).map(|at| format!("\"k{at}\":1")).collect::<Vec<_>>().join(","))
    }),
];

/// All structures with too much growth.
pub fn slow() -> Vec<String> {
    let mut slow = Vec::new();
    for case in LINES {
        for (framing, size, way) in [
            (Framing::Sse, usize::MAX, "the scanner of events"),
            (Framing::Sse, 7, "the scanner of events, in small reads"),
            (Framing::Lines, 7, "the scanner of lines, in small reads"),
        ] {
            let read = |bytes: &[u8]| {
                for event in events(framing, bytes, size) {
                    event.fields();
                }
            };
            slow.extend(probe(case, way, &read));
        }
        slow.extend(probe(case, "chat", &|bytes| stream(Dialect::OpenAi, Surface::Chat, bytes)));
    }
    for (dialect, cases) in [
        (Dialect::OpenAi, CHAT),
        (Dialect::Responses, RESPONSES),
        (Dialect::Anthropic, MESSAGES),
        (Dialect::Gemini, GEMINI),
        (Dialect::Ollama, OLLAMA),
    ] {
        for (case, surface) in cases.iter().flat_map(|case| Surface::TRANSLATED.map(|surface| (case, surface))) {
            let way = format!("{} to {}", dialect.as_str(), surface.as_str());
            slow.extend(probe(case, &way, &|bytes| stream(dialect, surface, bytes)));
        }
    }
    for (case, surface) in CONVERSE.iter().flat_map(|case| Surface::TRANSLATED.map(|surface| (case, surface))) {
        let way = format!("bedrock to {}", surface.as_str());
        slow.extend(probe(case, &way, &|bytes| stream(Dialect::Bedrock, surface, &binary(bytes))));
        let small = |bytes: &[u8]| drop(events(Framing::Binary, &binary(bytes), 7));
        slow.extend(probe(case, "the scanner of frames, in small reads", &small));
    }
    for case in WHOLE {
        for surface in [Surface::Chat, Surface::Responses, Surface::Messages, Surface::Embeddings] {
            let way = format!("a whole answer of {}", surface.as_str());
            let whole = |bytes: &[u8]| {
                let events = surface.dialect().events_of_whole(surface, bytes);
                events.iter().for_each(|events| stream(surface.dialect(), surface, events));
                errors(bytes);
            };
            slow.extend(probe(case, &way, &whole));
        }
    }
    slow
}

fn each(n: usize, one: impl Fn(usize) -> String) -> String {
    (0..n).map(one).collect()
}

fn list(n: usize, one: impl Fn(usize) -> String) -> String {
    format!("[{}]", (0..n).map(one).collect::<Vec<_>>().join(","))
}

fn delta(members: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{{members}}}}}]}}\n\n")
}

fn call(at: usize) -> String {
    format!(r#"{{"index":{at},"id":"call_{at}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#)
}

fn of(members: &str) -> String {
    format!("data: {{{members}}}\n\n")
}

fn block(index: usize, content: &str) -> String {
    of(&format!(r#""type":"content_block_start","index":{index},"content_block":{content}"#))
}

fn input(index: usize, text: &str) -> String {
    of(&format!(
        r#""type":"content_block_delta","index":{index},"delta":{{"type":"input_json_delta","partial_json":"{text}"}}"#
    ))
}

fn stop(index: usize) -> String {
    of(&format!(r#""type":"content_block_stop","index":{index}"#))
}

fn candidate(parts: &str) -> String {
    format!(
        "data: {{\"candidates\":[{{\"index\":0,\"content\":{{\"parts\":{parts}}}}}],\"usageMetadata\":{{\"promptTokenCount\":3}}}}\n\n"
    )
}

fn converse(content: &str) -> String {
    format!(
        r#"{{"output":{{"message":{{"role":"assistant","content":{content}}}}},"stopReason":"end_turn","usage":{{"inputTokens":1}}}}"#
    )
}
