//! Streams of chat in forms that no writer here makes.

use bytes::Bytes;

use super::agrees;
use photofinish_wire::{Dialect, Surface};

/// Streams of OpenAI's dialect that no writer here makes.
fn odd_streams() -> Vec<Bytes> {
    let chunk = |delta: &str, finish: &str| {
        format!("data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n")
    };
    let call = |index: &str, id: &str, function: &str| {
        let index = if index.is_empty() { String::new() } else { format!("\"index\":{index},") };
        chunk(
            &format!(r#"{{"tool_calls":[{{{index}"id":"{id}","type":"function","function":{{{function}}}}}]}}"#),
            "null",
        )
    };
    let whole = |name: &str| format!(r#""name":"{name}","arguments":"{{\"of\":\"{name}\"}}""#);
    let end = |reason: &str| chunk("{}", reason) + "data: [DONE]\n\n";
    let more = chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"x\":1}"}}]}"#, "null");
    let streams = [
        // Calls that are numbered alike, and calls without numbers.
        call("0", "call_long_a", &whole("a")) + &call("0", "call_long_b", &whole("b")) + &end("\"tool_calls\""),
        call("", "call_long_a", &whole("a")) + &call("", "call_long_b", &whole("b")) + &end("\"tool_calls\""),
        call("0", "call_long_a", &whole("a"))
            + &call("0", "call_long_b", r#""name":"b","arguments":"{""#)
            + &more
            + &end("\"tool_calls\""),
        // A name in pieces, and with each piece of the arguments.
        call("0", "call_long_a", r#""name":"get_","arguments":"""#)
            + &call("0", "", r#""name":"x","arguments":"{}""#)
            + &end("\"tool_calls\""),
        call("0", "call_long_a", r#""name":"x","arguments":"{""#)
            + &call("0", "call_long_a", r#""name":"x","arguments":"}""#)
            + &end("\"tool_calls\""),
        // No call at all.
        chunk(r#"{"content":"a","tool_calls":null}"#, "null") + &end("\"tool_calls\""),
        chunk(r#"{"content":"a","tool_calls":[]}"#, "null")
            + &chunk(r#"{"tool_calls":null}"#, "null")
            + &end("\"stop\""),
        // Texts in other forms.
        chunk(r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}"#, "null")
            + &chunk(r#"{"content":[{"type":"text","text":"a"}]}"#, "null")
            + &chunk(r#"{"content":"b"}"#, "null")
            + &end("\"stop\""),
        chunk(r#"{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"so"}]}"#, "null")
            + &chunk(r#"{"content":"a\ud83d"}"#, "null")
            + &chunk(r#"{"content":"\ude00"}"#, "null")
            + &end("\"stop\""),
        chunk(r#"{"function_call":{"name":"f","arguments":""}}"#, "null")
            + &chunk(r#"{"function_call":{"arguments":"{}"}}"#, "null")
            + &end("\"function_call\""),
    ];
    streams.map(Bytes::from).into()
}

#[test]
fn odd_streams_of_chat_say_the_same_as_whole_answers() {
    for (number, stream) in odd_streams().iter().enumerate() {
        for surface in Surface::TRANSLATED {
            agrees(surface, Dialect::OpenAi, stream).unwrap_or_else(|error| panic!("stream {number}: {error}"));
        }
    }
}
