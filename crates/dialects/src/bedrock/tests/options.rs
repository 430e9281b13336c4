//! Options of a conversation, written as members of a Converse request, and which of them are reported as lost.

use super::requests::{CLAUDE, LLAMA, NEW_CLAUDE, NOVA, OLD_CLAUDE, hello, names};
use super::*;

#[test]
fn thinking_is_asked_for_as_each_model_takes_it() {
    let effort = |effort| Reasoning { effort: Some(effort), ..Reasoning::default() };
    let budget = |budget| Reasoning { budget: Some(budget), ..Reasoning::default() };
    let on = Reasoning { enabled: Some(true), show: Some(true), ..Reasoning::default() };
    let off = Reasoning { enabled: Some(false), ..Reasoning::default() };
    let enabled = |tokens: u64| json!({ "thinking": { "type": "enabled", "budget_tokens": tokens } });
    let adaptive = |effort: &str| json!({ "output_config": { "effort": effort }, "thinking": { "type": "adaptive" } });
    let (opus, fable) = ("anthropic.claude-opus-4-6-v1", "anthropic.claude-fable-5");
    let table: &[(&str, &Reasoning, Option<u64>, Value, bool)] = &[
        (CLAUDE, &effort(Effort::Medium), None, enabled(4_096), true),
        (CLAUDE, &effort(Effort::High), Some(3_000), enabled(1_500), true),
        (CLAUDE, &effort(Effort::High), Some(1_025), enabled(1_024), true),
        ("anthropic.claude-3-haiku-20240307-v1:0", &effort(Effort::High), None, Value::Null, false),
        ("anthropic.claude-3-haiku-20240307-v1:0", &off, None, Value::Null, true),
        (CLAUDE, &effort(Effort::High), Some(1_000), Value::Null, false),
        (CLAUDE, &budget(9_000), Some(10_000), enabled(9_000), true),
        (CLAUDE, &on, None, enabled(4_096), true),
        (CLAUDE, &off, None, Value::Null, true),
        (CLAUDE, &effort(Effort::None), None, Value::Null, true),
        (CLAUDE, &Reasoning { encrypted: true, ..Reasoning::default() }, None, Value::Null, true),
        (opus, &budget(9_000), None, enabled(9_000), true),
        (opus, &effort(Effort::Max), None, adaptive("max"), true),
        (NEW_CLAUDE, &effort(Effort::Minimal), None, adaptive("low"), true),
        (NEW_CLAUDE, &budget(9_000), None, adaptive("high"), true),
        (NEW_CLAUDE, &on, None, json!({ "thinking": { "type": "adaptive", "display": "summarized" } }), true),
        (NEW_CLAUDE, &off, None, json!({ "thinking": { "type": "disabled" } }), true),
        (fable, &off, None, Value::Null, false),
        (
            "amazon.nova-2-lite-v1:0",
            &effort(Effort::Low),
            None,
            json!({ "reasoningConfig": { "type": "enabled", "maxReasoningEffort": "low" } }),
            true,
        ),
        (NOVA, &effort(Effort::Low), None, Value::Null, false),
        (NOVA, &off, None, Value::Null, true),
        ("openai.gpt-oss-20b-1:0", &effort(Effort::XHigh), None, json!({ "reasoning_effort": "high" }), true),
        ("openai.gpt-oss-20b-1:0", &off, None, Value::Null, false),
        ("qwen.qwen3-32b-v1:0", &effort(Effort::Medium), None, json!({ "reasoning_config": "high" }), true),
        (LLAMA, &effort(Effort::Low), None, Value::Null, false),
    ];
    for (model, reasoning, max_tokens, fields, kept) in table {
        let mut conversation = Conversation { reasoning: Some((*reasoning).clone()), ..hello() };
        conversation.sampling.max_tokens = *max_tokens;
        let (body, losses) = ask(model, &conversation);
        assert_eq!(
            (&body["additionalModelRequestFields"], losses.is_empty()),
            (fields, *kept),
            "{model} {reasoning:?}"
        );
    }
}

#[test]
fn no_thinking_is_asked_for_where_it_would_be_refused() {
    let call = MessagePart::Call(ToolCall { id: "t".to_owned(), name: "f".to_owned(), ..ToolCall::default() });
    let result = MessagePart::Result(ToolResult { call_id: "t".to_owned(), ..ToolResult::default() });
    let thought = MessagePart::Thinking(ReasoningPart {
        signature: Some("photofinish.anthropic.Erg=".to_owned()),
        ..ReasoningPart::default()
    });
    let text = MessagePart::Text { text: "{".to_owned(), cache: None };
    let table = [
        (vec![call.clone()], true, false),
        (vec![thought, call], true, true),
        (vec![text.clone()], true, true),
        (vec![text], false, false),
    ];
    for (parts, answered, thinks) in table {
        let reasoning = Some(Reasoning { effort: Some(Effort::Low), ..Reasoning::default() });
        let mut conversation = Conversation { reasoning, ..hello() };
        conversation.turns.push(ConversationTurn { role: Role::Assistant, parts });
        if answered {
            conversation.turns.push(ConversationTurn { role: Role::User, parts: vec![result.clone()] });
        }
        let (body, losses) = ask(CLAUDE, &conversation);
        let lost = names(&losses).contains(&"reasoning_effort");
        assert_eq!((body.get("additionalModelRequestFields").is_some(), lost), (thinks, !thinks), "{conversation:?}");
        assert!(losses.keeps_settings());
    }
}

#[test]
fn sampling_goes_as_far_as_the_model_takes_it() {
    let sampling = |temperature, top_p, top_k| Sampling { temperature, top_p, top_k, ..Sampling::default() };
    let think = Some(Reasoning { effort: Some(Effort::Low), ..Reasoning::default() });
    type Row<'a> = (&'a str, &'a Option<Reasoning>, Sampling, Value, &'a [&'a str]);
    let table: &[Row<'_>] = &[
        (LLAMA, &None, sampling(Some(1.5), Some(0.5), None), json!({ "temperature": 1.5, "topP": 0.5 }), &[]),
        (LLAMA, &None, sampling(None, None, Some(5)), Value::Null, &["top_k"]),
        (OLD_CLAUDE, &None, sampling(Some(0.5), Some(0.5), None), json!({ "temperature": 0.5, "topP": 0.5 }), &[]),
        (CLAUDE, &None, sampling(Some(0.5), Some(0.5), None), json!({ "temperature": 0.5 }), &["top_p"]),
        (CLAUDE, &None, sampling(Some(0.5), Some(1.0), None), json!({ "temperature": 0.5 }), &[]),
        (CLAUDE, &None, sampling(Some(1.5), None, None), Value::Null, &["temperature"]),
        (CLAUDE, &think, sampling(Some(1.0), Some(0.95), None), json!({ "topP": 0.95 }), &[]),
        (CLAUDE, &think, sampling(Some(0.2), Some(0.5), Some(3)), Value::Null, &["temperature", "top_p", "top_k"]),
        (NEW_CLAUDE, &None, sampling(Some(1.0), Some(1.0), None), Value::Null, &[]),
        (NEW_CLAUDE, &None, sampling(Some(0.2), Some(0.99), Some(3)), Value::Null, &["temperature", "top_p", "top_k"]),
    ];
    for (model, reasoning, sampling, config, lost) in table {
        let conversation = Conversation { sampling: sampling.clone(), reasoning: (*reasoning).clone(), ..hello() };
        let (body, losses) = ask(model, &conversation);
        assert_eq!(
            (&body["inferenceConfig"], losses.deciding().collect::<Vec<_>>()),
            (config, lost.to_vec()),
            "{model} {sampling:?}"
        );
    }
    for (model, fields) in [(CLAUDE, json!({ "top_k": 5 })), (NOVA, json!({ "inferenceConfig": { "topK": 5 } }))] {
        let (body, losses) = ask(model, &Conversation { sampling: sampling(None, None, Some(5)), ..hello() });
        assert_eq!((&body["additionalModelRequestFields"], losses.is_empty()), (&fields, true));
    }
    let hard = Some(Reasoning { effort: Some(Effort::High), ..Reasoning::default() });
    let mut conversation = Conversation { sampling: sampling(Some(0.5), Some(0.5), None), reasoning: hard, ..hello() };
    conversation.sampling.max_tokens = Some(7);
    let (body, losses) = ask("amazon.nova-2-lite-v1:0", &conversation);
    assert_eq!((body.get("inferenceConfig"), losses.names().count()), (None, 3));
    let mut conversation = hello();
    conversation.sampling.max_tokens = Some(7);
    conversation.sampling.stop = vec!["END".to_owned()];
    let (body, _) = ask(LLAMA, &conversation);
    assert_eq!(body["inferenceConfig"], json!({ "maxTokens": 7, "stopSequences": ["END"] }));
    assert_eq!(body["additionalModelResponseFieldPaths"], json!(["/stop_sequence"]));
    conversation.sampling.stop = vec!["\n".to_owned(), String::new()];
    let (body, losses) = ask(LLAMA, &conversation);
    assert_eq!((&body["inferenceConfig"], names(&losses)), (&json!({ "maxTokens": 7 }), vec!["stop"]));
    assert_eq!(body.get("additionalModelResponseFieldPaths"), None);
}

#[test]
fn what_bedrock_has_no_word_for_is_told() {
    let conversation = Conversation {
        sampling: Sampling {
            seed: Some(1),
            n: Some(2),
            presence_penalty: Some(0.5),
            frequency_penalty: Some(0.5),
            logprobs: Some(true),
            top_logprobs: Some(2),
            logit_bias: Some(json!({ "1": 2 })),
            ..Sampling::default()
        },
        verbosity: Some("low".to_owned()),
        user: Some("u".to_owned()),
        service_tier: Some("flex".to_owned()),
        format: Some(Format::Json),
        ..hello()
    };
    let (body, losses) = ask(CLAUDE, &conversation);
    assert_eq!(body, ask(CLAUDE, &hello()).0);
    let meaning = [
        "response_format",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "n",
        "logprobs",
        "top_logprobs",
        "logit_bias",
    ];
    assert_eq!(losses.deciding().collect::<Vec<_>>(), meaning);
    assert_eq!(names(&losses)[meaning.len()..], ["verbosity", "service_tier"]);
    let nothing = Conversation {
        sampling: Sampling {
            n: Some(1),
            presence_penalty: Some(0.0),
            frequency_penalty: Some(0.0),
            logprobs: Some(false),
            top_logprobs: Some(0),
            logit_bias: Some(json!({})),
            ..Sampling::default()
        },
        verbosity: Some("medium".to_owned()),
        service_tier: Some("auto".to_owned()),
        format: Some(Format::Text),
        parallel_tool_calls: Some(false),
        ..hello()
    };
    assert!(ask(CLAUDE, &nothing).1.is_empty());
}

#[test]
fn a_schema_goes_to_models_that_take_one() {
    let schema = Format::Schema {
        name: Some("answer".to_owned()),
        description: None,
        schema: json!({ "type": "object" }),
        strict: Some(true),
    };
    let conversation = Conversation { format: Some(schema), ..hello() };
    let open = r#"{"type":"object"}"#;
    let closed = r#"{"type":"object","additionalProperties":false}"#;
    for (model, schema) in [(CLAUDE, closed), ("qwen.qwen3-32b-v1:0", open)] {
        let definition = json!({ "schema": schema, "name": "answer" });
        let format = json!({ "type": "json_schema", "structure": { "jsonSchema": definition } });
        let (body, losses) = ask(model, &conversation);
        assert_eq!((&body["outputConfig"]["textFormat"], losses.is_empty()), (&format, true), "{model}");
    }
    let parameters = Some(json!({ "type": "object", "properties": { "n": { "minimum": 1 } } }));
    let strict = Tool { name: "f".to_owned(), parameters, strict: Some(true), ..Tool::default() };
    let (body, losses) = ask(CLAUDE, &Conversation { tools: vec![strict], ..hello() });
    let spec = &body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"];
    assert_eq!(spec["properties"]["n"], json!({ "description": "(minimum: 1)" }));
    assert_eq!((names(&losses), losses.keeps_settings()), (vec!["tools[0].function.parameters"], true));
    let (body, losses) = ask(OLD_CLAUDE, &conversation);
    assert_eq!(
        (body.get("outputConfig"), losses.deciding().collect::<Vec<_>>()),
        (None, vec!["response_format.json_schema"])
    );
}

#[test]
fn metadata_goes_where_it_fits() {
    let metadata = |value: Value| {
        let metadata = json!({ "team": value }).as_object().cloned();
        ask(CLAUDE, &Conversation { metadata, ..hello() })
    };
    assert_eq!(metadata(json!("a b:c")).0["requestMetadata"], json!({ "team": "a b:c" }));
    for value in [json!(1), json!("é"), json!("x".repeat(257))] {
        let (body, losses) = metadata(value);
        assert_eq!((body.get("requestMetadata"), losses.is_empty()), (None, true), "a hint");
    }
}
