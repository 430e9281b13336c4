//! Outgoing requests: how a conversation is written for older and newer models, and what is lost.

use super::shared::*;
use super::*;
use photofinish_wire::conversation::{Audio, CacheHint, Document, Image, MessagePart, ReasoningPart, Role, Source};

#[test]
fn the_least_request() {
    // Without a limit in the request, only the model's own limit ends an answer.
    for (model, most) in [(OLD, 64_000), ("claude-3-haiku", 4_096), ("claude-opus-4-1", 32_000), ("glm-5.1", 8_192)] {
        let expected = json!({ "max_tokens": most, "messages": [{ "role": "user", "content": "Hi" }] });
        assert_eq!(request_for(model, &asked(|_| {})), (expected, vec![], true));
    }
}

#[test]
fn ids_that_are_taken_are_made_anew() {
    let turns = vec![
        user("x"),
        turn(Role::Assistant, vec![call("call_0", "{}"), call("call_1", "{}")]),
        turn(Role::User, vec![result("call_0", vec![]), result("call_1", vec![])]),
        turn(Role::Assistant, vec![call("call_0", "{}")]),
        turn(Role::User, vec![result("call_0", vec![])]),
    ];
    let messages = messages(turns);
    let ids = |at: usize, name: &str| -> Vec<String> {
        let blocks = messages[at]["content"].as_array().unwrap();
        blocks.iter().map(|block| block[name].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(1, "id"), ["call_0", "call_1"]);
    assert_eq!(ids(2, "tool_use_id"), ids(1, "id"));
    assert_eq!(ids(3, "id"), ["call_0_1"]);
    assert_eq!(ids(4, "tool_use_id"), ids(3, "id"));
}

#[test]
fn what_is_at_no_https_address_is_lost() {
    for (url, kept) in [
        ("https://x.test/a", true),
        ("HTTPS://x.test/a", true),
        ("http://x.test/a", false),
        ("file:///a", false),
        ("", false),
    ] {
        let source = || Source::Url(url.to_owned());
        let image = MessagePart::Image(Image { source: source(), detail: None, cache: None });
        let document = MessagePart::Document(Document { source: source(), name: None, cache: None });
        for (part, name) in [(image, "image_url"), (document, "file_url")] {
            let (request, losses, keeps) = request_for(OLD, &asked(|c| c.turns[0].parts.push(part)));
            let lost = if kept { vec![] } else { vec![name.to_owned()] };
            assert_eq!((request["messages"][0]["content"].is_array(), losses, keeps), (kept, lost, kept), "{url}");
        }
    }
}

#[test]
fn turns_alternate_and_results_go_first() {
    let turns = vec![
        turn(Role::Assistant, vec![text("Hello!")]),
        user("a"),
        turn(Role::User, vec![text(" \n"), text("b")]),
        turn(Role::Assistant, vec![text(""), call("call.1", "{\"a\":1}"), call("call:1", "")]),
        turn(Role::User, vec![text("and"), result("call:1", vec![]), result("call.1", vec![text("1")])]),
        turn(Role::User, vec![]),
        turn(Role::Assistant, vec![MessagePart::Refusal("no".to_owned()), text("so \n")]),
    ];
    let expected = json!([
        { "role": "user", "content": "." },
        { "role": "assistant", "content": "Hello!" },
        { "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] },
        { "role": "assistant", "content": [
            { "type": "tool_use", "id": "call_1", "name": "get", "input": { "a": 1 } },
            { "type": "tool_use", "id": "call_1_1", "name": "get", "input": {} },
        ] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "call_1_1" },
            { "type": "tool_result", "tool_use_id": "call_1", "content": "1" },
            { "type": "text", "text": "and" },
        ] },
        { "role": "assistant", "content": [{ "type": "text", "text": "no" }, { "type": "text", "text": "so" }] },
    ]);
    assert_eq!(messages(turns), expected);
    assert_eq!(messages(vec![]), json!([{ "role": "user", "content": "." }]));
}

#[test]
fn arguments_that_are_no_object_are_wrapped() {
    for (arguments, input) in [
        ("{\"a\":1}", json!({ "a": 1 })),
        ("", json!({})),
        ("[1]", json!({ "input": "[1]" })),
        ("{\"a\":", json!({ "input": "{\"a\":" })),
    ] {
        let turns = vec![user("x"), turn(Role::Assistant, vec![call("a", arguments)])];
        assert_eq!(messages(turns)[1]["content"][0]["input"], input, "{arguments}");
    }
    let (request, _, _) = request_for(OLD, &asked(|c| c.turns.push(turn(Role::Assistant, vec![call("a", "{}")]))));
    assert_eq!(request["tools"], json!([{ "name": "get", "input_schema": { "type": "object" } }]));
    assert_eq!(request["tool_choice"], json!({ "type": "none" }), "what is only history may not be called");
}

#[test]
fn system_turns_keep_their_place() {
    let late = asked(|c| c.turns.push(turn(Role::System, vec![text("In French.")])));
    let (request, losses, keeps) = request_for(OLD, &late);
    let reminder = "<system-reminder>\nIn French.\n</system-reminder>";
    let both = json!([{ "type": "text", "text": "Hi" }, { "type": "text", "text": reminder }]);
    assert_eq!(request["messages"], json!([{ "role": "user", "content": both }]));
    assert_eq!((losses, keeps), (vec!["messages[1].role".to_owned()], true));
    let (request, losses, _) = request_for(NEW, &late);
    assert_eq!(request["messages"][1], json!({ "role": "system", "content": "In French." }));
    assert!(losses.is_empty());
    // Newer models also refuse them between an assistant turn and a user turn.
    let between = asked(|c| c.turns.extend([turn(Role::System, vec![text("In French.")]), user("Bye")]));
    assert_eq!(request_for(NEW, &between).0["messages"][0]["content"][1]["text"], reminder);
    let first = asked(|c| c.system = vec![text("Be brief."), text("")]);
    assert_eq!(request_for(OLD, &first).0["system"], "Be brief.");
}

#[test]
fn images_and_documents_are_carried_over() {
    let cache = Some(CacheHint { ttl: None });
    let base64 =
        |media_type: &str, data: &str| Source::Base64 { media_type: media_type.to_owned(), data: data.to_owned() };
    let image = |source| MessagePart::Image(Image { source, detail: None, cache: None });
    let document = |source| MessagePart::Document(Document { source, name: Some("A".to_owned()), cache: None });
    let block = |part: MessagePart| {
        let (mut request, losses, keeps) = request_for(OLD, &asked(|c| c.turns[0].parts.push(part)));
        (request["messages"][0]["content"].get_mut(1).map(Value::take), losses, keeps)
    };
    let carried: Vec<(MessagePart, Value)> = vec![
        (
            image(Source::Url("https://e.x/a".to_owned())),
            json!({ "type": "image", "source": { "type": "url", "url": "https://e.x/a" } }),
        ),
        (
            image(base64("image/jpg", "x")),
            json!({ "type": "image", "source": { "type": "base64", "media_type": "image/jpeg", "data": "x" } }),
        ),
        (
            document(Source::Url("https://e.x/a".to_owned())),
            json!({ "type": "document", "source": { "type": "url", "url": "https://e.x/a" }, "title": "A" }),
        ),
        (
            document(base64("application/pdf", "x")),
            json!({ "type": "document", "source": { "type": "base64", "media_type": "application/pdf", "data": "x" }, "title": "A" }),
        ),
        (
            document(base64("text/csv", "w6ksYg==")),
            json!({ "type": "document", "source": { "type": "text", "media_type": "text/plain", "data": "é,b" }, "title": "A" }),
        ),
        (
            document(Source::Text("t".to_owned())),
            json!({ "type": "document", "source": { "type": "text", "media_type": "text/plain", "data": "t" }, "title": "A" }),
        ),
        (
            MessagePart::Text { text: "t".to_owned(), cache },
            json!({ "type": "text", "text": "t", "cache_control": { "type": "ephemeral" } }),
        ),
    ];
    for (part, expected) in carried {
        assert_eq!(block(part), (Some(expected), vec![], true));
    }
    let lost: Vec<(MessagePart, &str)> = vec![
        (image(base64("image/tiff", "x")), "image_url:image/tiff"),
        (image(Source::File("f".to_owned())), "file_id"),
        (document(Source::File("f".to_owned())), "file_id"),
        (document(base64("text/plain", "/w==")), "file:text/plain"),
        (document(base64("application/zip", "x")), "file:application/zip"),
        (MessagePart::Audio(Audio { format: "wav".to_owned(), data: "x".to_owned() }), "input_audio"),
    ];
    for (part, name) in lost {
        assert_eq!(block(part), (None, vec![name.to_owned()], false));
    }
}

#[test]
fn only_thoughts_that_anthropic_signed_go_back() {
    let thought = |signature: Option<&str>, redacted: bool| {
        MessagePart::Thinking(ReasoningPart {
            text: "hm".to_owned(),
            signature: signature.map(str::to_owned),
            redacted,
            id: None,
        })
    };
    let turns = |part: MessagePart| vec![user("x"), turn(Role::Assistant, vec![part, text("y")]), user("z")];
    let first = |part: MessagePart| messages(turns(part))[1]["content"][0].clone();
    assert_eq!(
        first(thought(Some("photofinish.anthropic.EqQB"), false)),
        json!({ "type": "thinking", "thinking": "hm", "signature": "EqQB" })
    );
    assert_eq!(
        first(thought(Some("photofinish.anthropic.EqQB"), true)),
        json!({ "type": "redacted_thinking", "data": "EqQB" })
    );
    for part in [
        thought(None, false),
        thought(Some("photofinish.responses.gAAAAAB"), false),
        thought(Some("photofinish.gemini.CiQB"), false),
        thought(Some("photofinish.anthropic."), true),
        thought(Some("EqQB"), false),
    ] {
        let conversation = Conversation { turns: turns(part), ..Conversation::default() };
        let (request, losses, keeps) = request_for(OLD, &conversation);
        assert_eq!(request["messages"][1]["content"], "y");
        assert_eq!((losses, keeps), (vec!["reasoning_content".to_owned()], true));
    }
}

fn any_block(assistant: bool) -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let text = "[a-z]{1,6}".prop_map(|text| json!({ "type": "text", "text": text }));
    let cached =
        "[a-z]{1,6}".prop_map(|text| json!({ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } }));
    let image =
        Just(json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBO" } }));
    let document = "[a-z]{1,6}".prop_map(
        |title| json!({ "type": "document", "source": { "type": "url", "url": "https://e.x" }, "title": title }),
    );
    let thinking = "[a-z]{1,6}".prop_map(|text| json!({ "type": "thinking", "thinking": text, "signature": "EqQB" }));
    let redacted = Just(json!({ "type": "redacted_thinking", "data": "EtgB" }));
    let call = ("[a-z]{1,3}", 0..9)
        .prop_map(|(id, n)| json!({ "type": "tool_use", "id": id, "name": "get", "input": { "n": n } }));
    let ours: BoxedStrategy<Value> = prop_oneof![text.clone(), thinking, redacted, call].boxed();
    let theirs: BoxedStrategy<Value> = prop_oneof![text, cached, image, document].boxed();
    if assistant { ours } else { theirs }
}

proptest::proptest! {
    /// A Messages request that is read and written again asks for the same.
    #[test]
    fn a_request_comes_back_as_it_was(
        turns in proptest::collection::vec(
            (proptest::collection::vec(any_block(false), 2..4), proptest::collection::vec(any_block(true), 2..4)), 0..4),
        last in "[a-z]{1,6}",
        results in proptest::collection::vec("[a-z]{1,3}", 0..3),
        system in "[a-z]{1,6}",
        hundredths in 0u32..90,
    ) {
        let mut messages = Vec::new();
        for (number, (user, mut assistant)) in turns.into_iter().enumerate() {
            // No id occurs twice.
            for (at, block) in assistant.iter_mut().enumerate().filter(|(_, block)| block["type"] == "tool_use") {
                block["id"] = Value::from(format!("call_{number}_{at}"));
            }
            messages.push(json!({ "role": "user", "content": user }));
            messages.push(json!({ "role": "assistant", "content": assistant }));
        }
        let mut blocks: Vec<Value> = results.iter().map(|id| json!({ "type": "tool_result", "tool_use_id": id, "content": "r", "is_error": true })).collect();
        blocks.extend([json!({ "type": "text", "text": last }), json!({ "type": "text", "text": "z" })]);
        messages.push(json!({ "role": "user", "content": blocks }));
        let body = json!({
            "model": OLD, "max_tokens": 4096, "system": system, "messages": messages, "temperature": f64::from(hundredths) / 100.0,
            "tools": [{ "name": "get", "description": "d", "input_schema": { "type": "object" } }],
            "tool_choice": { "type": "auto", "disable_parallel_tool_use": true },
            "metadata": { "user_id": "u" }, "stop_sequences": ["END"], "service_tier": "auto",
        });
        let read = conversation_of(&body).unwrap();
        proptest::prop_assert!(read.losses.is_empty());
        let (mut again, losses, _) = request_for(OLD, &read);
        again["model"] = Value::from(OLD);
        proptest::prop_assert_eq!(again, body);
        proptest::prop_assert!(losses.is_empty());
    }
}
