//! The bounds of requests that are translated.

use crate::SurfaceFormat as _;
use photofinish_wire::Surface;
use photofinish_wire::conversation::bounds::check;

const SURFACES: [Surface; 3] = [Surface::Chat, Surface::Messages, Surface::Responses];

fn refused(surface: Surface, body: &str) -> String {
    surface.conversation(body.as_bytes()).unwrap_err().message
}

fn list(item: &str, count: usize) -> String {
    format!("[{}]", vec![item; count].join(","))
}

#[test]
fn a_request_has_so_many_things_at_most() {
    for surface in SURFACES {
        let turns = if surface == Surface::Responses { "input" } else { "messages" };
        let body = |turns_of: &str, tools: &str| {
            format!(r#"{{"model":"m","max_tokens":9,"{turns}":{turns_of},"tools":{tools}}}"#)
        };
        let message = |parts: usize| {
            let kind = if surface == Surface::Responses { "input_text" } else { "text" };
            format!(r#"{{"role":"user","content":{}}}"#, list(&format!(r#"{{"type":"{kind}","text":"a"}}"#), parts))
        };
        assert_eq!(check(surface, body(&list(&message(1), 20_000), &list("{}", 20_000)).as_bytes()), Ok(()));
        for (body, words, count) in [
            (body("[]", &list("{}", 20_001)), "tools", "20001"),
            (body(&list("{}", 20_001), "[]"), turns, "20001"),
            (body(&list(&message(201), 100), "[]"), "too many content parts", "20100"),
        ] {
            let said = refused(surface, &body);
            assert!(said.contains(words) && said.contains("20000") && said.contains(count), "{said}");
        }
    }
}

#[test]
fn tools_and_parts_inside_of_others_count() {
    let (empty, many) = (list("{}", 101), list("{}", 20_000));
    let namespaces = list(&format!(r#"{{"type":"namespace","name":"n","tools":{empty}}}"#), 200);
    for (surface, body, words) in [
        (Surface::Responses, format!(r#"{{"model":"m","input":"a","tools":{namespaces}}}"#), "'tools'"),
        (Surface::Gemini, format!(r#"{{"contents":[],"tools":[{{"functionDeclarations":{many}}}]}}"#), "'tools'"),
        (Surface::Gemini, format!(r#"{{"contents":{}}}"#, list("{}", 20_001)), "'contents'"),
        (
            Surface::Gemini,
            format!(r#"{{"contents":[{{"parts":{many}}},{{"parts":[{{}}]}}]}}"#),
            "too many content parts",
        ),
        (
            Surface::Gemini,
            format!(r#"{{"systemInstruction":{{"parts":{many}}},"contents":[{{"parts":[{{}}]}}]}}"#),
            "parts",
        ),
    ] {
        let said = refused(surface, &body);
        assert!(said.contains(words) && said.contains("20000"), "{said}");
    }
}

#[test]
fn json_that_cannot_be_read_says_why() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for surface in SURFACES {
        for (value, why) in [
            (deep(200), "nested too deeply"),
            (deep(100_000), "nested too deeply"),
            (r#""\ud800""#.to_owned(), "lone surrogate"),
            (r#""\udc00 x""#.to_owned(), "lone surrogate"),
        ] {
            let said = refused(surface, &format!(r#"{{"model":"m","x":{value}}}"#));
            assert!(said.contains(why), "{said}");
        }
        let said = refused(surface, "{\"model\":");
        assert!(!said.contains("nested") && !said.contains("surrogate"), "{said}");
    }
}
