//! Rows, patterns, and requests as upstreams demand them.

use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;
use serde_json::{Value, json};

use super::*;
use crate::RequestTranslation;
use photofinish_wire::quirks::*;
use photofinish_wire::{Dialect, Losses, Surface, TranslationOptions};

fn claude(name: &str) -> Quirks {
    TranslationOptions::of_model(Dialect::Anthropic, name).quirks
}

/// The members after the change, and the names of what is lost.
fn changed(surface: Surface, body: &Value, quirks: Quirks, changes: &RequestChanges) -> (Value, Vec<String>) {
    match rewritten(surface, body.to_string().as_bytes(), &quirks, changes) {
        None => (body.clone(), Vec::new()),
        Some(made) => (serde_json::from_str(&made.text).unwrap(), made.losses.names().map(str::to_owned).collect()),
    }
}

#[test]
fn a_request_in_the_own_dialect_gets_what_its_upstream_demands() {
    let openai = Quirks { max_completion_tokens: true, ..Quirks::default() };
    let newest = claude("claude-opus-5-5");
    let nine = Quirks { call_ids: CallIdForm::Nine, ..Quirks::default() };
    let deepseek = Quirks { past_reasoning: PastReasoning::Wanted, ..Quirks::default() };
    let call = |id: &str, more: Value| {
        let mut message = json!({ "role": "assistant", "tool_calls": [{ "id": id, "type": "function",
            "function": { "name": "f", "arguments": "{}" } }] });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "model": "m", "messages": [message, { "role": "tool", "tool_call_id": id, "content": "1" }] })
    };
    let made = photofinish_wire::conversation::call_ids::nine("call_0");
    for (surface, quirks, body, expected, lost) in [
        (Surface::Chat, openai, json!({ "max_tokens": 5, "n": 1 }), json!({ "max_completion_tokens": 5, "n": 1 }), ""),
        (
            Surface::Chat,
            openai,
            json!({ "max_tokens": 5, "max_completion_tokens": 6 }),
            json!({ "max_completion_tokens": 6 }),
            "",
        ),
        (Surface::Chat, openai, json!({ "max_tokens": null }), json!({ "max_tokens": null }), ""),
        (Surface::Completions, openai, json!({ "max_tokens": 5 }), json!({ "max_tokens": 5 }), ""),
        (Surface::Chat, newest, json!({ "tool_choice": "required" }), json!({ "tool_choice": "auto" }), "tool_choice"),
        (Surface::Chat, newest, json!({ "tool_choice": "none" }), json!({ "tool_choice": "none" }), ""),
        (
            Surface::Responses,
            newest,
            json!({ "tool_choice": { "type": "function", "name": "f" } }),
            json!({ "tool_choice": "auto" }),
            "tool_choice",
        ),
        (Surface::Chat, nine, call("call_0", json!({})), call(&made, json!({})), ""),
        (Surface::Chat, nine, call("aB3dE6gH9", json!({})), call("aB3dE6gH9", json!({})), ""),
        (
            Surface::Chat,
            deepseek,
            call("c", json!({})),
            call("c", json!({ "reasoning_content": UNKNOWN_REASONING })),
            "",
        ),
        (
            Surface::Chat,
            deepseek,
            call("c", json!({ "reasoning_content": "so" })),
            call("c", json!({ "reasoning_content": "so" })),
            "",
        ),
        (
            Surface::Chat,
            Quirks { system_turns: Some(false), ..Quirks::default() },
            json!({ "messages": [
                { "role": "system", "content": "a" }, { "role": "developer", "content": "b" }, { "role": "user", "content": "c" },
                { "role": "system", "content": "d" }, { "role": "developer", "content": [{ "type": "text", "text": "e" }] } ] }),
            json!({ "messages": [
                { "role": "system", "content": "a" }, { "role": "developer", "content": "b" }, { "role": "user", "content": "c" },
                { "role": "user", "content": "<system-reminder>\nd\n</system-reminder>" },
                { "role": "user", "content": [{ "type": "text", "text": "<system-reminder>\ne\n</system-reminder>" }] } ] }),
            "messages[3].role messages[4].role",
        ),
    ] {
        let (its, names) = changed(surface, &body, quirks, &RequestChanges::default());
        assert_eq!((&its, names.join(" ")), (&expected, lost.to_owned()), "{body}");
    }
}

#[test]
fn a_message_gets_what_its_claude_demands() {
    let newest = claude("claude-opus-5-5");
    for (surface, quirks, body, expected, lost) in [
        (
            Surface::Messages,
            newest,
            json!({ "thinking": { "type": "disabled" }, "max_tokens": 200_000, "temperature": 0.2, "top_p": 1,
                "tool_choice": { "type": "any", "disable_parallel_tool_use": true } }),
            json!({ "max_tokens": 128_000, "tool_choice": { "type": "auto", "disable_parallel_tool_use": true } }),
            "tool_choice temperature thinking max_tokens",
        ),
        (
            Surface::Messages,
            newest,
            json!({ "thinking": { "type": "enabled", "budget_tokens": 2_000, "display": "omitted" } }),
            json!({ "thinking": { "type": "adaptive", "display": "omitted" } }),
            "thinking.budget_tokens",
        ),
        (
            Surface::Messages,
            claude("claude-sonnet-5-5"),
            json!({ "thinking": { "type": "disabled" } }),
            json!({ "thinking": { "type": "between_tools" } }),
            "",
        ),
        (
            Surface::Messages,
            claude("claude-sonnet-4-5"),
            json!({ "thinking": { "type": "disabled" }, "temperature": 0.2, "max_tokens": 9 }),
            json!({ "thinking": { "type": "disabled" }, "temperature": 0.2, "max_tokens": 9 }),
            "",
        ),
    ] {
        let (its, names) = changed(surface, &body, quirks, &RequestChanges::default());
        assert_eq!((&its, names.join(" ")), (&expected, lost.to_owned()), "{body}");
    }
}

#[test]
fn what_codex_alone_sends_goes_as_a_chat_where_it_is_not_known() {
    let server = Quirks { codex_tools: false, ..Quirks::default() };
    for (body, quirks, chat) in [
        (json!({ "tools": [{ "type": "custom", "name": "apply_patch" }] }), server, true),
        (json!({ "input": [{ "type": "additional_tools", "tools": [] }] }), server, true),
        (
            json!({ "input": "a \"custom\" one", "tools": [{ "type": "function" }, { "type": "web_search" }] }),
            server,
            false,
        ),
        (json!({ "tools": [{ "type": "custom" }] }), Quirks::default(), false),
        (json!({}), Quirks { responses: false, ..Quirks::default() }, true),
    ] {
        assert_eq!(quirks.goes_to_chat(body.to_string().as_bytes()), chat, "{body}");
    }
}

/// Lines of: the surface, quirks, a request, what goes up (`=`: the same), and what is named as lost.
const FITTED: &str = r#"
    gemini | {"thinking_max":9} | {"generationConfig":{"thinkingConfig":{"thinkingBudget":10}}} | {"generationConfig":{"thinkingConfig":{"thinkingBudget":9}}} | generationConfig.thinkingConfig
    gemini | {"thinking_max":9} | {"generationConfig":{"thinkingConfig":{"thinkingBudget":-1}}} | = |
    gemini | {"thinking_off":"never","thinking_min":5} | {"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}} | {"generationConfig":{"thinkingConfig":{"thinkingBudget":5}}} | generationConfig.thinkingConfig
    gemini | {"thinking":"effort","thinking_levels":["low","high"]} | {"generationConfig":{"thinkingConfig":{"thinkingLevel":"medium"}}} | {"generationConfig":{"thinkingConfig":{"thinkingLevel":"HIGH"}}} | generationConfig.thinkingConfig
    gemini | {"thinking":"effort"} | {"generationConfig":{"thinkingConfig":{"thinkingLevel":"low"}}} | = |
    gemini | {} | {"generationConfig":{"thinkingConfig":{"thinkingLevel":"MAX"}}} | = |
    gemini | {"thinking":"off"} | {"generationConfig":{"thinkingConfig":{"thinkingBudget":10}}} | {"generationConfig":{}} | generationConfig.thinkingConfig
    gemini | {"schemas_with_tools":false} | {"tools":[{}],"generationConfig":{"responseMimeType":"application/json","topK":1}} | {"tools":[{}],"generationConfig":{"topK":1}} | generationConfig.responseMimeType
    gemini | {"schemas_with_tools":false} | {"tools":[],"generationConfig":{"responseMimeType":"application/json"}} | = |
    gemini | {"past_reasoning":"wanted"} | {"contents":[{"parts":[{"functionCall":{}}]}]} | {"contents":[{"parts":[{"functionCall":{},"thoughtSignature":"skip_thought_signature_validator"}]}]} |
    gemini | {"past_reasoning":"wanted"} | {"contents":[{"parts":[{"functionCall":{},"thought_signature":"x"}]}]} | = |
    ollama_chat | {"thinking":"effort"} | {"think":"max"} | {"think":"high"} | think
    ollama_chat | {} | {"think":"max"} | = |
    messages | {"claude":true,"thinking_levels":["high"]} | {"output_config":{"effort":"max"}} | {"output_config":{"effort":"high"}} | output_config.effort
    messages | {"schemas":false} | {"output_config":{"format":{}}} | {} | output_config.format
    messages | {"schemas":false} | {"tools":[{"name":"f","strict":true}]} | {"tools":[{"name":"f"}]} | tools[0].strict
    messages | {"thinking":"off"} | {"thinking":{"type":"enabled"}} | {} | thinking
    messages | {"sampling":"one"} | {"temperature":0.5,"top_p":0.9} | {"temperature":0.5} | top_p
    messages | {"sampling":"one"} | {"temperature":1,"top_p":0.9} | = |
    chat | {"stream_options":false} | {"stream_options":{},"n":1} | {"n":1} |
"#;

#[test]
fn what_a_model_cannot_think_or_write_is_fitted_in_its_own_dialect() {
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for line in FITTED.trim().lines() {
        let mut cells = line.split('|').map(str::trim);
        let [surface, quirks, body, expected, lost] = std::array::from_fn(|_| cells.next().unwrap_or_default());
        let surface = Surface::TRANSLATED.into_iter().find(|one| one.as_str() == surface).unwrap();
        let quirks = serde_json::from_str::<QuirkSet>(quirks).unwrap().settled();
        let expected = if expected == "=" { body } else { expected };
        let made = changed(surface, &json(body), quirks, &RequestChanges::default());
        assert_eq!((made.0, made.1.join(" ")), (json(expected), lost.to_owned()), "{line}");
    }
}

#[test]
fn claudes_before_opus_4_8_get_no_system_turns_on_messages() {
    for (name, takes) in [
        ("claude-opus-5", Some(true)),
        ("claude-opus-4-8", Some(true)),
        ("claude-opus-4-7", Some(false)),
        ("claude-sonnet-4-6", Some(false)),
        ("claude-sonnet-4-5-20250929", Some(false)),
        ("claude-haiku-4-5@20251001", Some(false)),
        ("anthropic/claude-4.5-sonnet", Some(false)),
        ("claude-opus-4-1-20250805", Some(false)),
        ("claude-opus-4-20250514", Some(false)),
        ("claude-sonnet-4", Some(false)),
        ("claude-3-7-sonnet-latest", Some(false)),
        ("deepseek-v4-pro", Some(false)),
        ("deepseek-chat", Some(false)),
        ("claude-opus-9", None),
    ] {
        assert_eq!(claude(name).system_turns, takes, "{name}");
        assert_eq!(claude(name).plain_user_ids, name.starts_with("deepseek"), "{name}");
    }
}

#[test]
fn an_id_of_a_user_has_the_characters_that_the_vendor_takes() {
    let body = |id: &str| json!({ "metadata": { "user_id": id, "more": 1 }, "messages": [] });
    let deepseek = Quirks { plain_user_ids: true, ..Quirks::default() };
    for (id, sent) in [("{\"session_id\":\"a_1\"}", "--session_id---a_1--"), ("user_1-a", "user_1-a")] {
        let (its, lost) = changed(Surface::Messages, &body(id), deepseek, &RequestChanges::default());
        let loss = if id == sent { "" } else { "metadata.user_id" };
        assert_eq!((its, lost.join(" ")), (body(sent), loss.to_owned()));
    }
}

#[test]
fn members_that_nobody_touches_keep_their_bytes() {
    let body = r#"{ "seed": 1e3, "max_tokens":5, "messages": [ {"role":"user","content":"\ud83d"} ] }"#;
    let openai = Quirks { max_completion_tokens: true, ..Quirks::default() };
    let made = rewritten(Surface::Chat, body.as_bytes(), &openai, &RequestChanges::default()).unwrap();
    let expected = r#"{"seed":1e3,"max_completion_tokens":5,"messages":[ {"role":"user","content":"\ud83d"} ]}"#;
    assert_eq!(made.text, expected);
}

#[test]
fn the_operator_sets_defaults_and_drops_members() {
    let changes = RequestChanges {
        set: vec![("provider".to_owned(), json!({ "order": ["a"] }))],
        default: vec![("temperature".to_owned(), json!(0.5)), ("top_p".to_owned(), json!(0.9))],
        drop: vec!["seed".to_owned(), "user".to_owned()],
        ..RequestChanges::default()
    };
    let body = json!({ "model": "m", "temperature": 0, "top_p": null, "seed": 1, "provider": 2 });
    let (its, lost) = changed(Surface::Completions, &body, Quirks::default(), &changes);
    let expected = json!({ "model": "m", "temperature": 0, "provider": { "order": ["a"] }, "top_p": 0.9 });
    assert_eq!((its, lost), (expected, vec!["seed".to_owned()]));
    let (same, _) = changed(Surface::Chat, &body, Quirks::default(), &RequestChanges::default());
    assert_eq!(same, body);
}

#[test]
fn what_claude_alone_takes_goes_to_no_other_model() {
    let other = Quirks { past_reasoning: PastReasoning::Wanted, ..claude("qwen3-coder") };
    let asked = json!({ "max_tokens": 20_000, "thinking": { "type": "adaptive" }, "output_config": { "effort": "low" },
        "context_management": { "edits": [{ "type": "clear_thinking_20251015", "keep": "all" }] } });
    let lost = "thinking.type context_management output_config.effort";
    let budget = json!({ "max_tokens": 20_000, "thinking": { "type": "enabled", "budget_tokens": 1_024 } });
    let format = json!({ "output_config": { "effort": "max", "format": { "type": "json_schema" } } });
    for (quirks, body, expected, lost) in [
        (other, asked.clone(), budget, lost),
        (other, format, json!({ "output_config": { "format": { "type": "json_schema" } } }), "output_config.effort"),
        (
            other,
            json!({ "thinking": { "type": "adaptive" }, "max_tokens": 9 }),
            json!({ "max_tokens": 9 }),
            "thinking.type",
        ),
        (claude("claude-opus-5"), asked.clone(), asked.clone(), ""),
        (
            other,
            json!({ "system": [{ "type": "text", "text": "x-anthropic-billing-header: cch=1" }, { "type": "text", "text": "s" }] }),
            json!({ "system": [{ "type": "text", "text": "s" }] }),
            "",
        ),
        (
            claude("deepseek-v4-pro"),
            json!({ "thinking": { "type": "adaptive" }, "output_config": { "effort": "max" } }),
            json!({ "thinking": { "type": "adaptive" }, "output_config": { "effort": "max" } }),
            "",
        ),
    ] {
        let (its, names) = changed(Surface::Messages, &body, quirks, &RequestChanges::default());
        assert_eq!((&its, names.join(" ")), (&expected, lost.to_owned()), "{body}");
    }
    let made = rewritten(Surface::Messages, asked.to_string().as_bytes(), &other, &RequestChanges::default()).unwrap();
    assert!(made.losses.keeps_settings(), "such an upstream is no second choice: {:?}", made.losses);
}

/// A conversation of Messages with a call, and with a thought before it.
fn called(thought: &str, signature: &str) -> Value {
    let thinking = json!({ "type": "thinking", "thinking": thought, "signature": signature });
    let call = json!({ "type": "tool_use", "id": "c", "name": "f", "input": {} });
    let said = if thought.is_empty() { json!([call]) } else { json!([thinking, call]) };
    json!({ "max_tokens": 9, "messages": [
        { "role": "user", "content": "x" }, { "role": "assistant", "content": said },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c", "content": "1" }] },
        { "role": "assistant", "content": "one" }, { "role": "user", "content": "and now?" },
    ] })
}

#[test]
fn a_vendor_that_wants_thoughts_back_gets_one_with_each_call_in_either_dialect() {
    for model in ["deepseek-v4-pro", "kimi-k2.6", "accounts/fireworks/models/kimi-k2p6"] {
        let (own, _) = changed(Surface::Messages, &called("", ""), claude(model), &RequestChanges::default());
        assert_eq!(own, called(UNKNOWN_REASONING, ""), "{model}");
        let kept = called("so", "s");
        assert_eq!(changed(Surface::Messages, &kept, claude(model), &RequestChanges::default()).0, kept);
        let chat = |reasoning: Value| {
            let mut call = json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function",
                "function": { "name": "f", "arguments": "{}" } }] });
            call.as_object_mut().unwrap().extend(reasoning.as_object().unwrap().clone());
            json!({ "messages": [{ "role": "user", "content": "x" }, call, { "role": "tool", "tool_call_id": "c", "content": "1" }] })
        };
        for (reasoning, expected) in [(json!({}), UNKNOWN_REASONING), (json!({ "reasoning_content": "so" }), "so")] {
            let conversation = Surface::Chat.conversation(chat(reasoning).to_string().as_bytes()).unwrap();
            let options = TranslationOptions::of_model(Dialect::Anthropic, model);
            let up = Dialect::Anthropic.request(&conversation, &options, &mut Losses::default());
            let thought = &up["messages"][1]["content"][0];
            assert_eq!((&thought["type"], &thought["thinking"]), (&json!("thinking"), &json!(expected)), "{model}");
        }
    }
    let claudes = changed(Surface::Messages, &called("", ""), claude("claude-opus-4-6"), &RequestChanges::default());
    assert_eq!(claudes.0, called("", ""));
}

#[test]
fn who_knows_no_references_to_tools_gets_them_in_words() {
    let found = |block: Value| {
        let result = json!({ "type": "tool_result", "tool_use_id": "c", "content": [block] });
        json!({ "messages": [{ "role": "user", "content": [result] }] })
    };
    let block = json!({ "type": "tool_reference", "tool_name": "f" });
    let said = json!({ "type": "text", "text": "f can be called now." });
    for (model, expected) in [("qwen3.6", &said), ("claude-opus-5", &block)] {
        let (sent, _) = changed(Surface::Messages, &found(block.clone()), claude(model), &RequestChanges::default());
        assert_eq!(sent, found(expected.clone()), "{model}");
    }
}

#[test]
fn a_vendor_that_never_takes_reasoning_gets_none() {
    let groq = Quirks { past_reasoning: PastReasoning::Never, ..Quirks::default() };
    let said = |more: Value| {
        let mut turn = json!({ "role": "assistant", "content": "one" });
        turn.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "messages": [{ "role": "user", "content": "x" }, turn, { "role": "user", "content": "y" }] })
    };
    let body = said(json!({ "reasoning_content": "so", "reasoning_details": [{ "data": "x" }] }));
    let (its, lost) = changed(Surface::Chat, &body, groq, &RequestChanges::default());
    assert_eq!((its, lost.join(" ")), (said(json!({})), "reasoning_content reasoning_details".to_owned()));
    assert_eq!(changed(Surface::Chat, &body, Quirks::default(), &RequestChanges::default()).0, body);
}

#[test]
fn the_last_cache_marks_stay_in_every_dialect_that_has_them() {
    let marked = |text: &str| json!([{ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } }]);
    let turn = |role: &str, text: &str| json!({ "role": role, "content": marked(text) });
    let body = json!({ "model": "m", "max_tokens": 9, "system": marked("s"),
        "tools": [{ "name": "f", "input_schema": { "type": "object" }, "cache_control": { "type": "ephemeral" } }],
        "messages": [turn("user", "1"), turn("assistant", "2"), turn("user", "3"), turn("assistant", "4"), turn("user", "5")] });
    let conversation = Surface::Messages.conversation(body.to_string().as_bytes()).unwrap();
    let up = |dialect, model: &str| {
        let options = TranslationOptions::of_model(dialect, model);
        let made = RequestTranslation::translated(Surface::Messages, &conversation, dialect, &options).unwrap();
        serde_json::from_slice::<Value>(&made.body_for("m", photofinish_wire::AnswerForm::Plain).joined()).unwrap()
    };
    let own = changed(Surface::Messages, &body, claude("claude-opus-5"), &RequestChanges::default()).0;
    for (up, mark) in [
        (up(Dialect::Anthropic, "claude-opus-5"), "cache_control"),
        (up(Dialect::Bedrock, "anthropic.claude-opus-5"), "cachePoint"),
        (own, "cache_control"),
    ] {
        assert_eq!(up.to_string().matches(mark).count(), 4, "{up}");
        assert!(!up["messages"][0].to_string().contains(mark) && up["messages"][4].to_string().contains(mark), "{up}");
    }
}

#[test]
fn a_picture_in_a_result_arrives_in_every_dialect() {
    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk";
    let url = format!("data:image/png;base64,{PNG}");
    let call = json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } });
    let chat = json!({ "model": "m", "messages": [{ "role": "user", "content": "x" }, { "role": "assistant", "tool_calls": [call] },
        { "role": "tool", "tool_call_id": "c", "content": [{ "type": "text", "text": "seen" }, { "type": "image_url", "image_url": { "url": url } }] }] });
    let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": PNG } });
    let messages = json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": "x" },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "c", "name": "f", "input": {} }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c", "content": [{ "type": "text", "text": "seen" }, image] }] }] });
    let responses = json!({ "model": "m", "input": [{ "role": "user", "content": "x" },
        { "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c", "output": [{ "type": "input_text", "text": "seen" }, { "type": "input_image", "image_url": url }] }] });
    let inline = json!({ "inlineData": { "mimeType": "image/png", "data": PNG } });
    let gemini = |inside: bool| {
        let mut result = json!({ "name": "f", "response": { "output": "seen" } });
        if inside {
            result["parts"] = json!([inline]);
        }
        let parts = if inside {
            json!([{ "functionResponse": result }])
        } else {
            json!([{ "functionResponse": result }, inline])
        };
        json!({ "contents": [{ "role": "user", "parts": [{ "text": "x" }] },
            { "role": "model", "parts": [{ "functionCall": { "name": "f", "args": {} } }] }, { "role": "user", "parts": parts }] })
    };
    let ollama = json!({ "model": "m", "messages": [{ "role": "user", "content": "x" },
        { "role": "assistant", "content": "", "tool_calls": [{ "function": { "name": "f", "arguments": {} } }] },
        { "role": "tool", "tool_name": "f", "content": "seen", "images": [PNG] }] });
    for (surface, body) in [
        (Surface::Chat, chat),
        (Surface::Messages, messages),
        (Surface::Responses, responses),
        (Surface::Gemini, gemini(false)),
        (Surface::Gemini, gemini(true)),
        (Surface::OllamaChat, ollama),
    ] {
        let conversation = surface.conversation(body.to_string().as_bytes()).unwrap();
        for dialect in Dialect::ALL {
            let options = TranslationOptions::of_model(dialect, "anthropic.claude-opus-5");
            let made = RequestTranslation::translated(surface, &conversation, dialect, &options).unwrap();
            let up =
                String::from_utf8(made.body_for("m", photofinish_wire::AnswerForm::Plain).joined().to_vec()).unwrap();
            assert!(up.contains(PNG) && up.contains("seen"), "{surface:?} over {dialect:?}: {up} {:?}", made.losses());
            assert!(made.losses().keeps_content(), "{surface:?} over {dialect:?}");
            let up: Value = serde_json::from_str(&up).unwrap();
            let in_tool = |message: &&Value| message["role"] == "tool" && message["content"].is_array();
            let tools = up["messages"].as_array().into_iter().flatten().filter(in_tool).count();
            assert_eq!(tools, 0, "a chat has texts alone in results: {up}");
        }
    }
}

#[test]
fn a_vendor_that_takes_no_user_after_a_result_gets_an_assistant_between() {
    let quirks = Quirks { user_after_tool: false, ..Quirks::default() };
    let call = json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } });
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "x" },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": "c", "content": "1" }, { "role": "user", "content": "y" }] });
    let roles = |body: &Value| -> String {
        let turns = body["messages"].as_array().unwrap().iter();
        turns.map(|turn| turn["role"].as_str().unwrap().to_owned() + " ").collect()
    };
    let (own, _) = changed(Surface::Chat, &body, quirks, &RequestChanges::default());
    let of_messages = json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": "x" },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "c", "name": "f", "input": {} }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c", "content": "1" }, { "type": "text", "text": "y" }] }] });
    let conversation = Surface::Messages.conversation(of_messages.to_string().as_bytes()).unwrap();
    let options = TranslationOptions { model: "m".to_owned(), quirks };
    let translated = Dialect::OpenAi.request(&conversation, &options, &mut Losses::default());
    for up in [own, translated] {
        assert_eq!(roles(&up), "user assistant tool assistant user ", "{up}");
    }
}
