//! What is counted apart, and what a later event changes.

use super::usage;
use crate::answer::usage::Usage;

/// Input, of it read from a cache, and written into one; output, of it reasoning.
type Counts = [Option<i64>; 5];

fn counts(parts: &[&str]) -> Counts {
    let Usage { input_tokens, cached_input_tokens, cache_creation_tokens, output_tokens, reasoning_tokens, .. } =
        usage(parts);
    [input_tokens, cached_input_tokens, cache_creation_tokens, output_tokens, reasoning_tokens]
}

const APART: &[(&str, &str, Counts)] = &[
    (
        "xAI counts reasoning apart",
        r#"{"prompt_tokens":37,"completion_tokens":530,"total_tokens":887,
                "completion_tokens_details":{"reasoning_tokens":320}}"#,
        [Some(37), None, None, Some(850), Some(320)],
    ),
    (
        "OpenAI does not",
        r#"{"prompt_tokens":37,"completion_tokens":530,"total_tokens":567,
                "completion_tokens_details":{"reasoning_tokens":320}}"#,
        [Some(37), None, None, Some(530), Some(320)],
    ),
    (
        "no total: more reasoning than output cannot be a part of it",
        r#"{"prompt_tokens":37,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":320}}"#,
        [Some(37), None, None, Some(325), Some(320)],
    ),
    (
        "Perplexity counts reasoning that neither has",
        r#"{"prompt_tokens":33,"completion_tokens":7163,"total_tokens":7196,"reasoning_tokens":72757}"#,
        [Some(33), None, None, Some(7_163), None],
    ),
    (
        "xAI in Responses",
        r#"{"input_tokens":37,"input_tokens_details":{"cached_tokens":3},"output_tokens":530,
                "output_tokens_details":{"reasoning_tokens":320},"total_tokens":887}"#,
        [Some(37), Some(3), None, Some(850), Some(320)],
    ),
    (
        "Gemini's OpenAI form does not name its thoughts",
        r#"{"prompt_tokens":20,"completion_tokens":198,"total_tokens":623}"#,
        [Some(20), None, None, Some(603), Some(405)],
    ),
    (
        "Gemini",
        r#"{"promptTokenCount":20,"candidatesTokenCount":198,"thoughtsTokenCount":405,"totalTokenCount":623}"#,
        [Some(20), None, None, Some(603), Some(405)],
    ),
    (
        "a Gemini that does not name its thoughts",
        r#"{"promptTokenCount":20,"candidatesTokenCount":198,"totalTokenCount":623}"#,
        [Some(20), None, None, Some(603), Some(405)],
    ),
    (
        "a Gemini whose answer includes them",
        r#"{"promptTokenCount":8,"candidatesTokenCount":930,"thoughtsTokenCount":918,"totalTokenCount":938}"#,
        [Some(8), None, None, Some(930), Some(918)],
    ),
    (
        "a prompt without what the cache had, in OpenAI's form",
        r#"{"prompt_tokens":10,"completion_tokens":4,"total_tokens":214,"prompt_tokens_details":{"cached_tokens":200}}"#,
        [Some(210), Some(200), None, Some(4), None],
    ),
    (
        "a prompt with it, in Anthropic's form",
        r#"{"input_tokens":210,"output_tokens":4,"total_tokens":214,"cache_read_input_tokens":200}"#,
        [Some(210), Some(200), None, Some(4), None],
    ),
    (
        "Bedrock with the cache in the input",
        r#"{"inputTokens":310,"outputTokens":4,"totalTokens":314,"cacheReadInputTokens":200,"cacheWriteInputTokens":100}"#,
        [Some(310), Some(200), Some(100), Some(4), None],
    ),
    (
        "a total that fits nothing decides nothing",
        r#"{"prompt_tokens":37,"completion_tokens":530,"total_tokens":900,
                "completion_tokens_details":{"reasoning_tokens":320}}"#,
        [Some(37), None, None, Some(530), Some(320)],
    ),
    (
        "nor does one that is too small",
        r#"{"prompt_tokens":37,"completion_tokens":530,"total_tokens":37}"#,
        [Some(37), None, None, Some(530), None],
    ),
    ("an embedding", r#"{"prompt_tokens":8,"total_tokens":8}"#, [Some(8), None, None, None, None]),
];

#[test]
fn the_total_decides_what_is_counted_apart() {
    for (vendor, json, expected) in APART {
        assert_eq!(counts(&[json]), *expected, "{vendor}");
    }
}

const ESTIMATE: &str = r#"{"input_tokens":18000,"output_tokens":1}"#;
const CACHED: &str =
    r#"{"input_tokens":9,"cache_read_input_tokens":4202,"cache_creation_input_tokens":100,"output_tokens":1}"#;
const ALL: Counts = [Some(4_311), Some(4_202), Some(100), Some(30), None];

/// The estimate is that of the compaction, which the truth leaves out.
const COMPACTED: &[&str] = &[
    r#"{"input_tokens":100,"cache_creation_input_tokens":0,"cache_read_input_tokens":55096,"output_tokens":7}"#,
    r#"{"input_tokens":181,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":8,"iterations":[
        {"input_tokens":100,"output_tokens":83,"cache_read_input_tokens":55096,"type":"compaction"},
        {"input_tokens":181,"output_tokens":8,"cache_read_input_tokens":0,"type":"message"}]}"#,
];

const LATER: &[(&str, &[&str], Counts)] = &[
    (
        "an estimate, then the truth",
        &[ESTIMATE, r#"{"input_tokens":900,"cache_read_input_tokens":14000,"output_tokens":50}"#],
        [Some(14_900), Some(14_000), None, Some(50), None],
    ),
    (
        "a smaller truth",
        &[ESTIMATE, r#"{"input_tokens":14900,"output_tokens":50}"#],
        [Some(14_900), None, None, Some(50), None],
    ),
    ("no second count of the prompt", &[CACHED, r#"{"output_tokens":30}"#], ALL),
    ("the same", &[CACHED, CACHED, r#"{"output_tokens":30}"#], ALL),
    ("without the cache", &[CACHED, r#"{"input_tokens":9,"output_tokens":30}"#], ALL),
    (
        "zeros where the server has no count",
        &[
            CACHED,
            r#"{"input_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":30}"#,
        ],
        ALL,
    ),
    (
        "zeros for the cache alone",
        &[
            CACHED,
            r#"{"input_tokens":9,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":30}"#,
        ],
        ALL,
    ),
    ("the whole prompt as one count", &[CACHED, r#"{"input_tokens":4311,"output_tokens":30}"#], ALL),
    (
        "nothing was in the cache",
        &[
            r#"{"input_tokens":900,"cache_read_input_tokens":14000}"#,
            r#"{"input_tokens":14900,"cache_read_input_tokens":0,"output_tokens":50}"#,
        ],
        [Some(14_900), Some(0), None, Some(50), None],
    ),
    (
        "the cache alone",
        &[
            r#"{"input_tokens":9,"cache_read_input_tokens":0}"#,
            r#"{"cache_read_input_tokens":4202,"output_tokens":30}"#,
        ],
        [Some(4_211), Some(4_202), None, Some(30), None],
    ),
    ("a conversation that was compacted", COMPACTED, [Some(55_377), Some(55_096), Some(0), Some(91), None]),
    (
        "zeros first",
        &[r#"{"input_tokens":0,"output_tokens":0}"#, r#"{"input_tokens":9,"output_tokens":30}"#],
        [Some(9), None, None, Some(30), None],
    ),
    (
        "an answer that turned out shorter",
        &[
            r#"{"prompt_tokens":5,"completion_tokens":64}"#,
            r#"{"prompt_tokens":5,"completion_tokens":50,"total_tokens":55}"#,
        ],
        [Some(5), None, None, Some(50), None],
    ),
    (
        "usage in every chunk",
        &[
            r#"{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}"#,
            r#"{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}"#,
            r#"{"prompt_tokens":5,"completion_tokens":9,"total_tokens":14}"#,
        ],
        [Some(5), None, None, Some(9), None],
    ),
    (
        "the last event lacks what an earlier one had",
        &[
            r#"{"prompt_tokens":5,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":4},
                    "completion_tokens_details":{"reasoning_tokens":3}}"#,
            r#"{"prompt_tokens":5,"completion_tokens":10}"#,
            r#"{"completion_tokens":0,"prompt_tokens":null}"#,
        ],
        [Some(5), Some(4), None, Some(10), Some(3)],
    ),
    (
        "a part is never more than the whole",
        &[
            r#"{"prompt_tokens":50,"completion_tokens":90,"prompt_tokens_details":{"cached_tokens":40},
                    "completion_tokens_details":{"reasoning_tokens":80}}"#,
            r#"{"prompt_tokens":30,"completion_tokens":20}"#,
        ],
        [Some(30), Some(30), None, Some(20), Some(20)],
    ),
    (
        "two vendors' names, one of them unused",
        &[r#"{"prompt_tokens":0,"completion_tokens":0,"input_tokens":50,"output_tokens":3}"#],
        [Some(50), None, None, Some(3), None],
    ),
    (
        "Gemini's thoughts come before its answer",
        &[r#"{"promptTokenCount":8,"thoughtsTokenCount":447}"#, r#"{"promptTokenCount":8,"candidatesTokenCount":122}"#],
        [Some(8), None, None, Some(569), Some(447)],
    ),
    (
        "Gemini's last event without the answer's count",
        &[
            r#"{"promptTokenCount":8,"candidatesTokenCount":122,"thoughtsTokenCount":447,"totalTokenCount":577}"#,
            r#"{"promptTokenCount":8,"totalTokenCount":577}"#,
        ],
        [Some(8), None, None, Some(569), Some(447)],
    ),
    (
        "Ollama without a count of a cached prompt",
        &[r#"{"prompt_eval_count":26,"eval_count":1}"#, r#"{"eval_count":298}"#],
        [Some(26), None, None, Some(298), None],
    ),
];

#[test]
fn a_later_count_replaces_an_earlier_estimate() {
    for (case, parts, expected) in LATER {
        assert_eq!(counts(parts), *expected, "{case}");
    }
}

#[test]
fn usage_is_truer_than_timings() {
    let mut usage = Usage::default();
    usage.add_timings(r#"{"cache_n":3,"prompt_n":11,"predicted_n":2}"#);
    usage.add_timings(r#"{"cache_n":3,"prompt_n":11,"predicted_n":9}"#);
    usage.add(r#"{"prompt_tokens":14,"completion_tokens":8,"total_tokens":22}"#);
    assert_eq!((usage.input_tokens, usage.cached_input_tokens, usage.output_tokens), (Some(14), Some(3), Some(8)));
}

#[test]
fn a_fee_for_one_s_own_key_is_added_to_what_the_vendor_bills() {
    for (json, expected) in [
        (r#"{"cost":0,"is_byok":true,"cost_details":{"upstream_inference_cost":0.0360795}}"#, Some(0.0360795)),
        (r#"{"cost":0.25,"is_byok":true,"cost_details":{"upstream_inference_cost":0.5}}"#, Some(0.75)),
        (r#"{"is_byok":true,"cost_details":{"upstream_inference_cost":0.5}}"#, Some(0.5)),
        // Without a key of one's own both say the same.
        (r#"{"cost":0.95,"is_byok":false,"cost_details":{"upstream_inference_cost":0.95}}"#, Some(0.95)),
        (r#"{"cost":0.95,"cost_details":{"upstream_inference_cost":19}}"#, Some(0.95)),
        // Only a part of the price is known.
        (r#"{"cost":0,"is_byok":true}"#, None),
        (r#"{"cost":0.01,"is_byok":true,"cost_details":{"upstream_inference_cost":null}}"#, None),
        (r#"{"cost":0.01,"is_byok":true,"cost_details":null}"#, None),
    ] {
        assert_eq!(usage(&[json]).cost_usd, expected, "{json}");
    }
}

#[test]
fn what_stays_in_a_cache_for_an_hour_is_counted_apart() {
    let anthropic = r#"{"input_tokens":15,"cache_creation_input_tokens":4800,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":1200,"ephemeral_1h_input_tokens":3600},"output_tokens":1}"#;
    let bedrock = r#"{"inputTokens":15,"outputTokens":1,"cacheWriteInputTokens":4800,"cacheDetails":[{"ttl":"5m","inputTokens":1200},{"ttl":"1h","inputTokens":3600}]}"#;
    for json in [anthropic, bedrock] {
        let mut usage = Usage::of(json);
        usage.add(r#"{"output_tokens":47}"#);
        assert_eq!((usage.cache_creation_tokens, usage.hour_cache_share()), (Some(4_800), Some(0.75)), "{json}");
    }
    assert_eq!(Usage::of(r#"{"input_tokens":15,"cache_creation_input_tokens":4800}"#).hour_cache_share(), None);
}
