//! Structures that can be repeated in requests and in the config, and the code that reads and writes them.

use photofinish_wire::Surface;
use photofinish_wire::answer::headers;

use crate::targets::{configuration, request};
use crate::{Case, case, probe};

/// Maximum messages, parts and tools of a translated request.
const BOUND: usize = 20_000;
const MANY: usize = 1 << 18;
/// Maximum nesting of a schema.
const DEPTH: usize = 120;

/// Messages or input, and tools, of a request of any surface except Gemini's; a surface ignores unknown members.
const OF_EVERY_SURFACE: &[Case] = &[
    case("messages", BOUND, |n| body(&list(n, |_| user("\"a\"")), "")),
    case("messages of both in turns", BOUND / 2, |n| {
        body(&list(n, |_| format!(r#"{},{{"role":"assistant","content":"b"}}"#, user("\"a\""))), "")
    }),
    case("system messages", BOUND, |n| body(&list(n, |_| r#"{"role":"system","content":"a"}"#.to_owned()), "")),
    case("texts of a message", BOUND, |n| body(&format!("[{}]", user(&list(n, |_| text()))), "")),
    case("images", BOUND, |n| body(&format!("[{}]", user(&list(n, |_| image()))), "")),
    case("tools", BOUND, |n| body(&format!("[{}]", user("\"a\"")), &tools(&list(n, |at| tool(at, "{}"))))),
    case("properties of a schema", MANY, |n| {
        schema(&format!("{{\"type\":\"object\",\"properties\":{}}}", members(n, "{\"type\":\"string\"}")))
    }),
    case("required properties", MANY, |n| {
        schema(&format!(
            "{{\"type\":\"object\",\"properties\":{},\"required\":{}}}",
            members(n, "{}"),
            list(n, |at| format!("\"k{at}\""))
        ))
    }),
    case("values of a schema", MANY, |n| schema(&format!("{{\"enum\":{}}}", list(n, |at| format!("\"v{at}\""))))),
    case("choices of a schema", MANY, |n| {
        schema(&format!("{{\"anyOf\":{}}}", list(n, |_| "{\"type\":\"null\"}".to_owned())))
    }),
    case("definitions and references", MANY, |n| {
        schema(&format!(
            "{{\"type\":\"object\",\"$defs\":{},\"properties\":{{{}}}}}",
            members(n, "{\"type\":\"string\"}"),
            (0..n).map(|at| format!("\"p{at}\":{{\"$ref\":\"#/$defs/k{at}\"}}")).collect::<Vec<_>>().join(",")
        ))
    }),
    case("levels of a schema", DEPTH, |n| {
        schema(&format!("{}{{}}{}", "{\"type\":\"object\",\"properties\":{\"a\":".repeat(n / 3), "}}".repeat(n / 3)))
    }),
    case("unknown members", MANY, |n| {
        body(&format!("[{}]", user("\"a\"")), &(0..n).map(|at| format!(",\"k{at}\":1")).collect::<String>())
    }),
    case("unknown members of a message", MANY, |n| {
        let unknown: String = (0..n).map(|at| format!(",\"k{at}\":1")).collect();
        body(&format!("[{{\"role\":\"user\",\"content\":\"a\"{unknown}}}]"), "")
    }),
    case("pairs of metadata", MANY, |n| {
        body(&format!("[{}]", user("\"a\"")), &format!(",\"metadata\":{}", members(n, "\"v\"")))
    }),
    case("stop sequences", MANY, |n| {
        let stops = list(n, |at| format!("\"s{at}\""));
        body(&format!("[{}]", user("\"a\"")), &format!(",\"stop\":{stops},\"stop_sequences\":{stops}"))
    }),
    case("letters", MANY, |n| body(&format!("[{}]", user(&format!("\"{}\"", "x".repeat(n)))), "")),
    case("escapes", MANY, |n| body(&format!("[{}]", user(&format!("\"{}\"", "\\u00e9".repeat(n)))), "")),
    case("opening brackets", MANY, |n| body(&"[".repeat(n), "")),
    case("names of one member", MANY, |n| body("[]", &",\"k\":1".repeat(n))),
];

const CHAT: &[Case] = &[
    case("calls of a message, and their results", BOUND / 2, |n| body(&calls_of_chat(n, |at| at, |at| at), "")),
    case("calls, and their results backwards", BOUND / 2, |n| body(&calls_of_chat(n, |at| at, |at| BOUND - at), "")),
    case("calls of one id", BOUND / 2, |n| body(&calls_of_chat(n, |_| 0, |_| 0), "")),
    case("results of no call", BOUND, |n| {
        body(&list(n, |at| format!(r#"{{"role":"tool","tool_call_id":"c{at}","content":"r"}}"#)), "")
    }),
    case("details of reasoning", BOUND, |n| {
        let details = list(n, |at| {
            format!(r#"{{"type":"reasoning.text","text":"a","signature":"photofinish.anthropic.s","index":{at}}}"#)
        });
        body(&format!(r#"[{{"role":"assistant","content":"a","reasoning_details":{details}}}]"#), "")
    }),
    case("biases", MANY, |n| body(&format!("[{}]", user("\"a\"")), &format!(",\"logit_bias\":{}", members(n, "1")))),
];

const RESPONSES: &[Case] = &[
    case("calls, and their outputs", BOUND / 2, |n| {
        body(
            &list(n, |at| {
                format!(
                    r#"{{"type":"function_call","call_id":"c{at}","name":"f","arguments":"{{}}"}},{{"type":"function_call_output","call_id":"c{at}","output":"o"}}"#
                )
            }),
            "",
        )
    }),
    case("calls of one id", BOUND, |n| {
        body(&list(n, |_| r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}"#.to_owned()), "")
    }),
    case("reasoning", BOUND, |n| {
        body(
            &list(n, |_| {
                r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"t"}],"encrypted_content":"photofinish.anthropic.e"}"#.to_owned()
            }),
            "",
        )
    }),
    case("unknown items", BOUND, |n| body(&list(n, |at| format!(r#"{{"type":"unknown_{at}"}}"#)), "")),
];

const MESSAGES: &[Case] = &[
    case("calls, and their results", BOUND / 2, |n| body(&uses(n, |at| at, |at| at), "")),
    case("calls, and their results backwards", BOUND / 2, |n| body(&uses(n, |at| at, |at| BOUND - at), "")),
    case("calls of one id", BOUND / 2, |n| body(&uses(n, |_| 0, |_| 0), "")),
    case("thoughts", BOUND, |n| {
        let thought = |_| r#"{"type":"thinking","thinking":"t","signature":"photofinish.openai.s"}"#.to_owned();
        body(&format!(r#"[{{"role":"assistant","content":{}}}]"#, list(n, thought)), "")
    }),
    case("system prompts", BOUND, |n| {
        body(&format!("[{}]", user("\"a\"")), &format!(",\"system\":{}", list(n, |_| text())))
    }),
];

const OLLAMA: &[Case] = &[
    case("calls of a message, and their results", BOUND / 2, |n| {
        let calls = list(n, |at| format!(r#"{{"function":{{"name":"f{at}","arguments":{{}}}}}}"#));
        let results = each(n, |at| format!(r#",{{"role":"tool","tool_name":"f{at}","content":"r"}}"#));
        body(&format!(r#"[{{"role":"assistant","content":"","tool_calls":{calls}}}{results}]"#), "")
    }),
    case("results of no call", BOUND, |n| {
        body(&list(n, |at| format!(r#"{{"role":"tool","tool_name":"f{at}","content":"r"}}"#)), "")
    }),
    case("images of a message", BOUND, |n| {
        let images = list(n, |_| "\"AA==\"".to_owned());
        body(&format!(r#"[{{"role":"user","content":"a","images":{images}}}]"#), "")
    }),
];

const ASKED: &str = r#"[{"role":"user","parts":[{"text":"a"}]}]"#;
const GEMINI: &[Case] = &[
    case("contents", BOUND, |n| contents(&list(n, |_| content("user", r#"{"text":"a"}"#)), "")),
    case("contents of both in turns", BOUND / 2, |n| {
        let turns = |_| format!("{},{}", content("user", r#"{"text":"a"}"#), content("model", r#"{"text":"b"}"#));
        contents(&list(n, turns), "")
    }),
    case("parts", BOUND, |n| contents(&one_content("user", n, |_| r#"{"text":"a"}"#.to_owned()), "")),
    case("thoughts", BOUND, |n| {
        let thought = |_| r#"{"text":"t","thought":true,"thoughtSignature":"photofinish.openai.s"}"#.to_owned();
        contents(&one_content("model", n, thought), "")
    }),
    case("calls, and their responses", BOUND / 2, |n| contents(&calls_of_gemini(n, |at| at), "")),
    case("calls of one name", BOUND / 2, |n| contents(&calls_of_gemini(n, |_| 0), "")),
    case("declarations", BOUND / 2, |n| {
        let declared = list(n, |at| format!(r#"{{"name":"f{at}","parameters":{{"type":"OBJECT"}}}}"#));
        contents(ASKED, &format!(r#","tools":[{{"functionDeclarations":{declared}}}]"#))
    }),
    case("properties of a schema", MANY, |n| {
        let schema = format!(r#"{{"type":"OBJECT","properties":{}}}"#, members(n, r#"{"type":"STRING"}"#));
        contents(ASKED, &format!(r#","generationConfig":{{"responseSchema":{schema}}}"#))
    }),
    case("unknown members", MANY, |n| contents(ASKED, &each(n, |at| format!(",\"k{at}\":1")))),
];

const CONFIG: &[Case] = &[
    case("providers", 2_048, |n| {
        format!(
            "{START}{}",
            each(n, |at| format!("[providers.p{at}]\nbase_url = \"http://h/{at}\"\nauth = \"none\"\n"))
        )
    }),
    case("models", 2_048, |n| format!("{START}{}", each(n, |at| format!("[models.m{at}]\nupstreams = [\"a/x\"]\n")))),
    case("upstreams of a model", 2_048, |n| {
        format!("{START}[models.m]\nupstreams = {}\n", list(n, |at| format!("\"a/x{at}\"")))
    }),
    case("users", 2_048, |n| {
        format!("{START}{}", each(n, |at| format!("[users.u{at}]\ntoken = \"0123456789abcdef{at}\"\n")))
    }),
    case("unknown tables", 2_048, |n| format!("{START}{}", each(n, |at| format!("[k{at}]\n")))),
];
const START: &str = "[providers.a]\nbase_url = \"http://h/v1\"\nauth = \"none\"\n";

/// Lines of a head.
const HEADERS: &[Case] = &[case("rate limits", 20_000, |n| {
    each(n, |at| format!("x-ratelimit-remaining-k{at}: 0\nx-ratelimit-reset-k{at}: 1s\n"))
})];

/// All structures with too much growth.
pub fn slow() -> Vec<String> {
    let mut slow = Vec::new();
    for (surface, own) in [
        (Surface::Chat, CHAT),
        (Surface::Responses, RESPONSES),
        (Surface::Messages, MESSAGES),
        (Surface::OllamaChat, OLLAMA),
    ] {
        for case in OF_EVERY_SURFACE.iter().chain(own) {
            slow.extend(probe(case, surface.as_str(), &|body| request(surface, body)));
        }
    }
    for case in GEMINI {
        slow.extend(probe(case, "gemini", &|body| request(Surface::Gemini, body)));
    }
    for case in CONFIG {
        slow.extend(probe(case, "the config", &configuration));
    }
    for case in HEADERS {
        slow.extend(probe(case, "a head", &|head| {
            let lines = std::str::from_utf8(head).unwrap().lines();
            let pairs = lines.filter_map(|line| line.split_once(": "));
            let headers: http::HeaderMap = pairs
                .map(|(name, value)| (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap()))
                .collect();
            headers::exhausted_for(&headers, 0);
            photofinish_wire::answer::headers::read(&headers);
        }));
    }
    slow
}

/// One body that is valid on every surface except Gemini's.
fn body(turns: &str, more: &str) -> String {
    format!(r#"{{"model":"m","max_tokens":9,"messages":{turns},"input":{turns}{more}}}"#)
}

fn contents(turns: &str, more: &str) -> String {
    format!(r#"{{"contents":{turns}{more}}}"#)
}

fn content(role: &str, parts: &str) -> String {
    format!(r#"{{"role":"{role}","parts":[{parts}]}}"#)
}

fn one_content(role: &str, n: usize, part: impl Fn(usize) -> String) -> String {
    format!(r#"[{{"role":"{role}","parts":{}}}]"#, list(n, part))
}

fn calls_of_gemini(n: usize, name: impl Fn(usize) -> usize) -> String {
    let calls = list(n, |at| format!(r#"{{"functionCall":{{"name":"f{}","args":{{}}}}}}"#, name(at)));
    let results =
        list(n, |at| format!(r#"{{"functionResponse":{{"name":"f{}","response":{{"output":"r"}}}}}}"#, name(at)));
    format!(r#"[{{"role":"model","parts":{calls}}},{{"role":"user","parts":{results}}}]"#)
}

fn each(n: usize, one: impl Fn(usize) -> String) -> String {
    (0..n).map(one).collect()
}

fn list(n: usize, one: impl Fn(usize) -> String) -> String {
    format!("[{}]", (0..n).map(one).collect::<Vec<_>>().join(","))
}

fn members(n: usize, value: &str) -> String {
    format!("{{{}}}", (0..n).map(|at| format!("\"k{at}\":{value}")).collect::<Vec<_>>().join(","))
}

fn user(content: &str) -> String {
    format!(r#"{{"role":"user","content":{content}}}"#)
}

fn text() -> String {
    r#"{"type":"text","text":"a"}"#.to_owned()
}

/// Each surface reads one of them, and reports the other as lost or wrong.
fn image() -> String {
    r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}"#.to_owned()
}

fn tool(at: usize, schema: &str) -> String {
    format!(
        r#"{{"type":"function","name":"f{at}","input_schema":{schema},"parameters":{schema},"function":{{"name":"f{at}","parameters":{schema}}}}}"#
    )
}

fn tools(list: &str) -> String {
    format!(",\"tools\":{list}")
}

fn schema(schema: &str) -> String {
    body(&format!("[{}]", user("\"a\"")), &tools(&format!("[{}]", tool(0, schema))))
}

fn calls_of_chat(n: usize, call: impl Fn(usize) -> usize, result: impl Fn(usize) -> usize) -> String {
    let calls = list(n, |at| {
        format!(r#"{{"id":"c{}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#, call(at))
    });
    let results = each(n, |at| format!(r#",{{"role":"tool","tool_call_id":"c{}","content":"r"}}"#, result(at)));
    format!(r#"[{{"role":"assistant","content":null,"tool_calls":{calls}}}{results}]"#)
}

fn uses(n: usize, call: impl Fn(usize) -> usize, result: impl Fn(usize) -> usize) -> String {
    let calls = list(n, |at| format!(r#"{{"type":"tool_use","id":"t{}","name":"f","input":{{}}}}"#, call(at)));
    let results = list(n, |at| format!(r#"{{"type":"tool_result","tool_use_id":"t{}","content":"r"}}"#, result(at)));
    format!(r#"[{{"role":"assistant","content":{calls}}},{{"role":"user","content":{results}}}]"#)
}
