//! Usage as vendors write it.

mod arithmetic;

use super::*;

fn usage(parts: &[&str]) -> Usage {
    let mut usage = Usage::default();
    parts.iter().for_each(|part| usage.add(part));
    usage
}

#[test]
fn every_vendor_s_names_are_read() {
    let openai = usage(&[r#"{"prompt_tokens":14,"completion_tokens":8,"total_tokens":22,
        "prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":5}}"#]);
    assert_eq!((openai.input_tokens, openai.output_tokens), (Some(14), Some(8)));
    assert_eq!((openai.cached_input_tokens, openai.reasoning_tokens), (Some(3), Some(5)));
    let deepseek = usage(&[
        r#"{"prompt_tokens":9,"completion_tokens":1,"prompt_cache_hit_tokens":4,"prompt_tokens_details":null}"#,
    ]);
    assert_eq!(deepseek.cached_input_tokens, Some(4));
    let groq = usage(&[
        r#"{"queue_time":0.02,"prompt_time":0.001,"completion_time":0.5,"total_time":0.501,"prompt_tokens":1}"#,
    ]);
    assert_eq!(
        (groq.queue_us, groq.prefill_us, groq.decode_us, groq.total_us),
        (Some(20_000), Some(1_000), Some(500_000), Some(501_000))
    );
    let together = usage(&[r#"{"prompt_tokens":41,"completion_tokens":15,"cached_tokens":7}"#]);
    assert_eq!(together.cached_input_tokens, Some(7));
}

#[test]
fn what_anthropic_counts_beside_the_input_is_added() {
    let start =
        r#"{"input_tokens":9,"cache_read_input_tokens":4202,"cache_creation_input_tokens":100,"output_tokens":1}"#;
    let end = r#"{"input_tokens":9,"cache_read_input_tokens":4202,"cache_creation_input_tokens":100,"output_tokens":30,
        "output_tokens_details":{"thinking_tokens":12}}"#;
    let both = usage(&[start, end]);
    assert_eq!((both.input_tokens, both.cached_input_tokens), (Some(4_311), Some(4_202)));
    assert_eq!((both.output_tokens, both.reasoning_tokens), (Some(30), Some(12)));
    // Other counts include cached tokens, whatever else the object contains.
    let chat = usage(&[r#"{"prompt_tokens":50,"input_tokens":50,"cache_read_input_tokens":40}"#]);
    assert_eq!((chat.input_tokens, chat.cached_input_tokens), (Some(50), Some(40)));
    let responses =
        usage(&[r#"{"input_tokens":50,"input_tokens_details":{"cached_tokens":40},"cache_read_input_tokens":40}"#]);
    assert_eq!((responses.input_tokens, responses.cached_input_tokens), (Some(50), Some(40)));
    assert_eq!(usage(&[r#"{"cache_read_input_tokens":7,"output_tokens":2}"#]).input_tokens, None);
}

#[test]
fn bedrock_counts_its_cache_apart() {
    let mut bedrock = usage(&[
        r#"{"inputTokens":10,"outputTokens":4,"totalTokens":314,"cacheReadInputTokens":200,"cacheWriteInputTokens":100,"serverToolUsage":{}}"#,
    ]);
    bedrock.add_time_info(r#"{"latencyMs":753}"#);
    assert_eq!((bedrock.input_tokens, bedrock.cached_input_tokens), (Some(310), Some(200)));
    assert_eq!((bedrock.output_tokens, bedrock.total_us), (Some(4), Some(753_000)));
    let plain = usage(&[r#"{"inputTokens":8,"outputTokens":10,"totalTokens":18}"#]);
    assert_eq!((plain.input_tokens, plain.cached_input_tokens), (Some(8), None));
}

#[test]
fn what_goes_into_a_cache_is_counted() {
    for (json, input, created) in [
        (r#"{"input_tokens":9,"cache_read_input_tokens":20,"cache_creation_input_tokens":100}"#, 129, Some(100)),
        (r#"{"inputTokens":10,"cacheReadInputTokens":20,"cacheWriteInputTokens":100}"#, 130, Some(100)),
        (r#"{"input_tokens":50,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":40}}"#, 50, Some(40)),
        (r#"{"prompt_tokens":50,"prompt_tokens_details":{"cache_write_tokens":40}}"#, 50, Some(40)),
        (r#"{"prompt_tokens":50,"cache_write_tokens":40}"#, 50, Some(40)),
        (r#"{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":40}}"#, 50, None),
    ] {
        let read = usage(&[json]);
        assert_eq!((read.input_tokens, read.cache_creation_tokens), (Some(input), created), "{json}");
        assert_eq!(Usage::default().or(read), read);
    }
}

#[test]
fn what_a_cache_keeps_for_an_hour_is_counted() {
    for (json, hour) in [
        (
            r#"{"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":7}}"#,
            Some(7),
        ),
        (
            r#"{"cacheWriteInputTokens":9,"cacheDetails":[{"ttl":"1h","inputTokens":7},{"ttl":"5m","inputTokens":2}]}"#,
            Some(7),
        ),
        (r#"{"cacheWriteInputTokens":9,"cacheDetails":[{"ttl":"5m","inputTokens":9}]}"#, None),
        (r#"{"cache_creation_input_tokens":9,"cache_creation":null}"#, None),
    ] {
        assert_eq!(usage(&[json]).cache_hour_tokens, hour, "{json}");
        assert_eq!(usage(&[json, r#"{"output_tokens":3}"#]).cache_hour_tokens, hour, "{json}, and what follows");
    }
}

#[test]
fn a_price_is_read_as_a_number_an_object_or_ticks() {
    assert_eq!(usage(&[r#"{"cost":0.000669}"#]).cost_usd, Some(0.000669));
    assert_eq!(usage(&[r#"{"cost":{"request_cost":0.005,"total_cost":0.00501}}"#]).cost_usd, Some(0.00501));
    assert_eq!(usage(&[r#"{"cost_in_usd_ticks":10000000}"#]).cost_usd, Some(0.001));
    assert_eq!(usage(&[r#"{"cost":{"usd":0.00042,"diem":0}}"#]).cost_usd, Some(0.00042));
    assert_eq!(usage(&[r#"{"cost":0.25}"#, r#"{"cost":0}"#]).cost_usd, Some(0.25), "a last event without a price");
}

#[test]
fn a_price_that_nobody_asks_is_none() {
    assert_eq!(usage(&[r#"{"cost":1000000}"#]).cost_usd, Some(1e6));
    assert_eq!(usage(&[r#"{"cost":0}"#]).cost_usd, Some(0.0));
    for cost in ["1e27", "1000000.01", "-0.5", "\"inf\"", "\"NaN\"", r#"{"total_cost":1e300}"#] {
        assert_eq!(usage(&[&format!(r#"{{"cost":{cost}}}"#)]).cost_usd, None, "{cost}");
    }
    assert_eq!(usage(&[r#"{"cost":0.25}"#, r#"{"cost":-1}"#]).cost_usd, Some(0.25));
}

#[test]
fn nonsense_is_none() {
    assert_eq!(usage(&["[]", "7", r#"{"prompt_tokens":"many","completion_tokens":-4}"#]), Usage::default());
}

#[test]
fn llama_cpp_s_timings_are_milliseconds() {
    let mut usage = Usage::default();
    usage.add_timings(r#"{"prompt_ms":12.5,"predicted_ms":80.25,"cache_n":3,"prompt_n":11,"predicted_n":8}"#);
    assert_eq!((usage.prefill_us, usage.decode_us), (Some(12_500), Some(80_250)));
    assert_eq!((usage.input_tokens, usage.cached_input_tokens, usage.output_tokens), (Some(14), Some(3), Some(8)));
}

#[test]
fn times_that_only_one_vendor_tells_are_read_in_its_unit() {
    assert_eq!(usage(&[r#"{"total_latency":0.25,"time_to_first_token":0.1}"#]).total_us, Some(250_000));
    let local_ai = usage(&[r#"{"timing_prompt_processing":84.2,"timing_token_generation":512.7}"#]);
    assert_eq!((local_ai.prefill_us, local_ai.decode_us), (Some(84_200), Some(512_700)));
    for fireworks in [r#"{"server-processing-time":1.25}"#, r#"{"server-processing-time":"1.25"}"#] {
        let mut usage = Usage::default();
        usage.add_time_info(fireworks);
        assert_eq!(usage, Usage { total_us: Some(1_250_000), ..Usage::default() });
    }
}

#[test]
fn gemini_s_thoughts_and_tools_are_added() {
    let gemini = usage(&[
        r#"{"trafficType":"ON_DEMAND"}"#,
        r#"{"promptTokenCount":8,"totalTokenCount":36,"thoughtsTokenCount":28,
            "promptTokensDetails":[{"modality":"TEXT","tokenCount":8}]}"#,
        r#"{"promptTokenCount":427,"candidatesTokenCount":122,"thoughtsTokenCount":447,"toolUsePromptTokenCount":771,
            "cachedContentTokenCount":100}"#,
    ]);
    let expected = Usage {
        input_tokens: Some(1_198),
        cached_input_tokens: Some(100),
        output_tokens: Some(569),
        reasoning_tokens: Some(447),
        ..Usage::default()
    };
    assert_eq!(gemini, expected);
}

#[test]
fn ollama_s_times_are_nanoseconds() {
    let ollama = usage(&[r#"{"model":"m","message":{"content":""},"done":true,"context":[1,2],
        "total_duration":8961393875,"load_duration":57104209,"prompt_eval_count":234,
        "prompt_eval_duration":241604750,"eval_count":517,"eval_duration":7993918179}"#]);
    let expected = Usage {
        input_tokens: Some(234),
        output_tokens: Some(517),
        queue_us: Some(57_104),
        prefill_us: Some(241_605),
        decode_us: Some(7_993_918),
        total_us: Some(8_961_394),
        ..Usage::default()
    };
    assert_eq!(ollama, expected);
}

#[test]
fn what_another_place_said_only_fills_gaps() {
    let body = Usage { input_tokens: Some(5), total_us: None, ..Usage::default() };
    let head = Usage { input_tokens: Some(7), total_us: Some(9), ..Usage::default() };
    assert_eq!(body.or(head), Usage { input_tokens: Some(5), total_us: Some(9), ..Usage::default() });
}
