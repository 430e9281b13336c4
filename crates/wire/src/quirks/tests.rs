//! Rows, patterns, and requests as upstreams demand them.

use serde_json::{Value, json};

use std::sync::LazyLock;

use super::*;
use crate::dialect::Surface;

const RULES: &str = include_str!("../../data/rules.toml");

/// The file's rules, as a reader of `catalogue.json` sees them.
static MODEL_RULES: LazyLock<ModelRules> = LazyLock::new(|| {
    let file: toml::Table = toml::from_str(RULES).unwrap();
    file["rule"].clone().try_into().unwrap()
});

impl TranslationOptions {
    /// For a model of which only the rules tell anything.
    pub fn of_model(dialect: Dialect, model: impl Into<String>) -> TranslationOptions {
        let model = model.into();
        TranslationOptions { quirks: MODEL_RULES.of(&model, dialect).settled(), model }
    }
}

#[test]
fn every_rule_has_a_source_and_known_keys_and_a_name_that_reaches_it() {
    let file: toml::Table = toml::from_str(RULES).unwrap();
    for (rule, written) in MODEL_RULES.0.iter().zip(file["rule"].as_array().unwrap()) {
        let (names, source) = (&rule.names, written["source"].as_str().unwrap());
        assert!(source.contains("20") && source.contains("https://"), "{names:?}");
        let quirks = written["quirks"].as_table().unwrap();
        assert!(quirks.keys().all(|key| QuirkSet::NAMES.contains(&key.as_str())), "{quirks}");
        assert!(rule.dialect.as_deref().is_none_or(|dialect| Dialect::from_name(dialect).is_some()), "{names:?}");
        for pattern in names {
            let name = pattern.replace('*', "");
            let mut rules = MODEL_RULES.0.iter().filter(|other| other.dialect == rule.dialect);
            let first = rules.find(|rule| rule.names.iter().any(|pattern| matches(pattern, &name)));
            assert!(first.is_some_and(|first| std::ptr::eq(first, rule)), "{pattern} is hidden by an earlier rule");
            assert_eq!(normal(pattern).replace('*', ""), name, "{pattern} can never fit");
        }
    }
}

#[test]
fn patterns_stand_for_any_text() {
    for (pattern, name, fits) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("*", "", true),
        ("a*", "ab", true),
        ("*b", "ab", true),
        ("*b", "ba", false),
        ("a*c", "ac", true),
        ("a*c", "a", false),
        ("*a*b*", "xaxbx", true),
        ("*a*b*", "xbxax", false),
        ("aa*a", "aa", false),
    ] {
        assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
    }
}

#[test]
fn names_tell_what_a_model_takes() {
    use ThinkingForm::{Budget, Effort, Either, Off};
    // Thinking, whether it can be off, forced tools, schemas, the longest answer, prefill.
    for (name, thinking, may_not, forced, schemas, most, prefill) in [
        ("claude-3-haiku", Off, true, true, false, Some(4_096), true),
        ("claude-instant-1.2", Off, true, true, false, Some(4_096), true),
        ("anthropic.claude-v2:1", Off, true, true, false, Some(4_096), true),
        ("claude-3-5-sonnet-latest", Off, true, true, false, Some(8_192), true),
        ("claude-3-7-sonnet-20250219", Budget, true, true, false, Some(64_000), true),
        ("claude-opus-4-20250514", Budget, true, true, false, Some(32_000), true),
        ("claude-sonnet-4", Budget, true, true, false, Some(64_000), true),
        ("claude-opus-4-1@20250805", Budget, true, true, true, Some(32_000), true),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", Budget, true, true, false, Some(32_000), true),
        ("us.anthropic.Claude-sonnet-4-5-20250929-v1:0", Budget, true, true, true, Some(64_000), true),
        ("anthropic/claude-opus-4.6", Either, true, true, true, Some(128_000), false),
        ("claude-opus-4-7", Effort, true, true, true, Some(128_000), false),
        ("claude-sonnet-5", Effort, true, true, true, Some(128_000), false),
        ("claude-haiku-5-5", Effort, true, true, true, Some(128_000), false),
        ("claude-sonnet-5-5", Effort, true, false, true, Some(128_000), false),
        ("claude-fable-5", Effort, false, true, true, Some(128_000), false),
        ("claude-fable-5-1", Effort, false, false, true, Some(128_000), false),
        ("anthropic/claude-opus-5.5", Effort, false, false, true, Some(128_000), false),
        ("claude-opus-9", Effort, false, true, true, Some(128_000), false),
        ("anthropic/claude-4.5-sonnet", Budget, true, true, true, Some(64_000), true),
        ("anthropic/claude-sonnet-4:nitro", Budget, true, true, false, Some(64_000), true),
        ("anthropic/claude-opus-4:beta", Budget, true, true, false, Some(32_000), true),
        ("Qwen3-14B-Claude-4.5-Opus-High-Reasoning-Distill", Budget, true, true, true, None, false),
        ("glm-5.1", Budget, true, true, true, None, false),
        ("gpt-5", Budget, true, true, true, None, false),
    ] {
        let its = TranslationOptions::of_model(Dialect::Anthropic, name).quirks;
        let may_not_think = its.thinking_off != ThinkingOff::Never;
        assert_eq!(
            (its.thinking, may_not_think, its.forced_tools, its.schemas, its.max_output, its.prefill),
            (thinking, may_not, forced, schemas, most, prefill),
            "{name}"
        );
    }
}

#[test]
fn rules_of_a_dialect_come_before_the_others() {
    use ModelFamily::{Claude, Nova, OpenAi, Other, Qwen};
    // Family, schemas, forced tools, and whether signed thoughts go back.
    for (id, family, schemas, forced, past) in [
        ("anthropic.claude-3-haiku-20240307-v1:0", Claude, false, true, true),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", Claude, false, true, true),
        ("anthropic.claude-sonnet-4-20250514-v1:0", Claude, false, true, true),
        ("global.anthropic.claude-opus-4-6-v1", Claude, true, true, true),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            Claude,
            true,
            true,
            true,
        ),
        ("us.anthropic.claude-fable-5", Claude, true, true, true),
        ("us.anthropic.claude-fable-5-1", Claude, true, false, true),
        ("us.amazon.nova-pro-v1:0", Nova, false, true, false),
        ("global.amazon.nova-2-lite-v1:0", Nova, false, true, false),
        ("openai.gpt-oss-120b-1:0", OpenAi, true, true, false),
        ("qwen.qwen3-32b-v1:0", Qwen, true, true, false),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", Other, false, true, true),
        ("arn:aws:bedrock:us-east-1:1:provisioned-model/abc", Other, false, true, true),
        ("meta.llama3-8b-instruct-v1:0", Other, false, false, false),
        ("deepseek.v3.2", Other, true, true, false),
        ("", Other, true, true, false),
    ] {
        let its = TranslationOptions::of_model(Dialect::Bedrock, id).quirks;
        let keeps = its.past_reasoning != PastReasoning::Refused;
        assert_eq!((its.family, its.schemas, its.forced_tools, keeps), (family, schemas, forced, past), "{id}");
    }
    let levels = |dialect| TranslationOptions::of_model(dialect, "claude-opus-4-6").quirks.thinking_levels;
    assert_eq!(levels(Dialect::OpenAi), ThinkingLevels::USUAL, "a rule of another dialect says nothing");
    assert_ne!(levels(Dialect::Bedrock), ThinkingLevels::USUAL);
}

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
    let made = crate::translate::call_ids::nine("call_0");
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
