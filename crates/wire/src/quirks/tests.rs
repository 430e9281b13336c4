//! Rows and patterns of the rules of models.

use super::sample::{MODEL_RULES, RULES};
use super::*;

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
