//! Outgoing requests: tools, sampling, thinking, formats.

use super::shared::*;
use super::*;
use photofinish_wire::conversation::{
    CacheHint, Effort, Format, MessagePart, Reasoning, ReasoningPart, Role, Sampling, Tool, ToolChoice,
};

#[test]
fn tools_and_their_choice() {
    let schema = json!({ "properties": { "a": { "type": "string" } } });
    let with = |choice: Option<ToolChoice>, parallel: Option<bool>| {
        asked(|c| {
            let cache = Some(CacheHint { ttl: Some("1h".to_owned()) });
            c.tools = vec![
                Tool {
                    description: Some("Gets.".to_owned()),
                    parameters: Some(schema.clone()),
                    strict: Some(true),
                    cache,
                    ..tool("get")
                },
                tool("now"),
            ];
            (c.tool_choice, c.parallel_tool_calls) = (choice, parallel);
        })
    };
    let (request, losses, _) = request_for(OLD, &with(None, None));
    let expected = json!([
        { "name": "get", "description": "Gets.", "input_schema": {
            "properties": { "a": { "type": "string" } }, "type": "object", "additionalProperties": false },
            "strict": true, "cache_control": { "type": "ephemeral", "ttl": "1h" } },
        { "name": "now", "input_schema": { "type": "object" } },
    ]);
    assert_eq!((&request["tools"], request.get("tool_choice"), losses), (&expected, None, vec![]));
    let (request, losses, keeps) = request_for("claude-3-haiku", &with(None, None));
    assert_eq!(
        (request["tools"][0].get("strict"), losses, keeps),
        (None, vec!["tools[0].function.strict".to_owned()], true)
    );
    let table = [
        (Some(ToolChoice::Auto), None, json!({ "type": "auto" })),
        (Some(ToolChoice::Required), Some(true), json!({ "type": "any" })),
        (
            Some(ToolChoice::Named("get".to_owned())),
            Some(false),
            json!({ "type": "tool", "name": "get", "disable_parallel_tool_use": true }),
        ),
        (Some(ToolChoice::None), Some(false), json!({ "type": "none" })),
        (None, Some(false), json!({ "type": "auto", "disable_parallel_tool_use": true })),
    ];
    for (choice, parallel, expected) in table {
        assert_eq!(request_for(OLD, &with(choice, parallel)).0["tool_choice"], expected);
    }
    let none = asked(|c| c.tool_choice = Some(ToolChoice::Auto));
    assert_eq!(request_for(OLD, &none).0.get("tool_choice"), None, "a choice without tools is refused");
    let custom = asked(|c| c.tools = vec![tool("a"), Tool { custom: true, ..tool("b") }]);
    let (request, losses, keeps) = request_for(OLD, &custom);
    assert_eq!((request["tools"].as_array().map(Vec::len), losses, keeps), (Some(1), vec!["b".to_owned()], false));
}

#[test]
fn sampling_is_said_as_far_as_it_can_be() {
    let sampled = |sampling: Sampling| request_for("claude-opus-4-0", &asked(|c| c.sampling = sampling));
    let (request, losses, _) = sampled(Sampling {
        max_tokens: Some(7),
        temperature: Some(0.5),
        top_p: Some(0.9),
        top_k: Some(40),
        stop: vec!["END".to_owned()],
        presence_penalty: Some(0.0),
        frequency_penalty: Some(0.0),
        n: Some(1),
        logprobs: Some(false),
        top_logprobs: Some(0),
        logit_bias: Some(json!({})),
        ..Sampling::default()
    });
    let expected = json!({
        "max_tokens": 7, "messages": [{ "role": "user", "content": "Hi" }],
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop_sequences": ["END"],
    });
    assert_eq!((request, losses), (expected, vec![]));
    let default = Sampling { temperature: Some(1.0), top_p: Some(1.0), ..Sampling::default() };
    let (request, losses, _) = request_for(NEW, &asked(|c| c.sampling = default));
    assert_eq!((request.get("temperature"), request.get("top_p"), losses), (None, None, vec![]));
    let (request, losses, keeps) = sampled(Sampling { temperature: Some(1.5), ..Sampling::default() });
    assert_eq!((request["temperature"].as_f64(), losses, keeps), (Some(1.0), vec!["temperature".to_owned()], false));
    let lost = Sampling {
        presence_penalty: Some(0.1),
        frequency_penalty: Some(0.1),
        seed: Some(1),
        n: Some(2),
        logprobs: Some(true),
        top_logprobs: Some(2),
        logit_bias: Some(json!({ "1": 2 })),
        stop: vec!["\n".to_owned()],
        ..Sampling::default()
    };
    let (request, losses, keeps) = sampled(lost);
    let names =
        ["stop", "presence_penalty", "frequency_penalty", "seed", "n", "logprobs", "top_logprobs", "logit_bias"];
    assert_eq!((request.as_object().unwrap().len(), losses, keeps), (2, names.map(str::to_owned).to_vec(), false));
    let both = Sampling { temperature: Some(0.5), top_p: Some(0.96), ..Sampling::default() };
    let (request, losses, keeps) = request_for(OLD, &asked(|c| c.sampling = both));
    assert_eq!((request.get("top_p"), losses, keeps), (None, vec!["top_p".to_owned()], false));
    let one = Sampling { temperature: Some(1.0), top_p: Some(0.5), ..Sampling::default() };
    let (request, losses, _) = request_for(OLD, &asked(|c| c.sampling = one));
    assert_eq!((request["top_p"].as_f64(), request.get("temperature"), losses), (Some(0.5), None, vec![]));
    let new = Sampling { temperature: Some(0.5), top_p: Some(0.5), top_k: Some(1), ..Sampling::default() };
    let (request, losses, _) = request_for(NEW, &asked(|c| c.sampling = new));
    let names = ["temperature", "top_p", "top_k"].map(str::to_owned).to_vec();
    assert_eq!((request.as_object().unwrap().len(), losses), (2, names));
}

#[test]
fn thinking_is_a_budget_for_older_models_and_an_effort_for_newer_ones() {
    let thinks = |model: &str, reasoning: Reasoning, max_tokens: Option<u64>| {
        let conversation = asked(|c| {
            c.reasoning = Some(reasoning);
            c.sampling.max_tokens = max_tokens;
        });
        let (request, losses, _) = request_for(model, &conversation);
        (
            request.get("thinking").cloned(),
            request["max_tokens"].as_u64().unwrap(),
            request.get("output_config").cloned(),
            losses,
        )
    };
    let effort = |effort| Reasoning { effort: Some(effort), ..Reasoning::default() };
    let budget = |budget| Reasoning { enabled: Some(true), budget: Some(budget), ..Reasoning::default() };
    let enabled = |budget: u64| Some(json!({ "type": "enabled", "budget_tokens": budget }));
    let adaptive = Some(json!({ "type": "adaptive", "display": "summarized" }));
    let lost = vec!["reasoning_effort".to_owned()];
    assert_eq!(thinks(OLD, effort(Effort::Medium), None), (enabled(4_096), 64_000, None, vec![]));
    assert_eq!(thinks(OLD, effort(Effort::High), Some(10_000)), (enabled(5_000), 10_000, None, vec![]));
    assert_eq!(thinks(OLD, effort(Effort::High), Some(1_500)), (enabled(1_024), 1_500, None, vec![]));
    assert_eq!(thinks(OLD, effort(Effort::High), Some(1_024)), (None, 1_024, None, lost.clone()));
    assert_eq!(thinks(OLD, budget(9_000), Some(5_000)), (enabled(4_999), 5_000, None, vec![]));
    assert_eq!(thinks(OLD, budget(10), None), (enabled(1_024), 64_000, None, vec![]));
    assert_eq!(thinks("glm-5.1", budget(9_000), None), (enabled(9_000), 17_192, None, vec![]));
    assert_eq!(thinks("claude-3-5-haiku", budget(2_000), None), (None, 8_192, None, lost.clone()));
    assert_eq!(thinks("claude-3-haiku", effort(Effort::High), Some(4_000)), (None, 4_000, None, lost.clone()));
    assert_eq!(thinks("claude-3-haiku", effort(Effort::None), None), (None, 4_096, None, vec![]));
    assert_eq!(thinks(OLD, effort(Effort::None), None), (Some(json!({ "type": "disabled" })), 64_000, None, vec![]));
    assert_eq!(thinks(OLD, Reasoning { show: Some(true), ..Reasoning::default() }, None), (None, 64_000, None, vec![]));
    let efforts = |name: &str| Some(json!({ "effort": name }));
    assert_eq!(thinks(NEW, effort(Effort::XHigh), None), (adaptive.clone(), 128_000, efforts("xhigh"), vec![]));
    assert_eq!(thinks(NEW, effort(Effort::Minimal), Some(10)), (adaptive.clone(), 10, efforts("low"), vec![]));
    assert_eq!(thinks(NEW, budget(20_000), Some(30_000)), (adaptive.clone(), 30_000, efforts("high"), vec![]));
    assert_eq!(thinks("claude-opus-4-6", effort(Effort::XHigh), None), (adaptive, 128_000, efforts("high"), vec![]));
    assert_eq!(thinks("claude-opus-4-6", budget(2_000), Some(3_000)), (enabled(2_000), 3_000, None, vec![]));
    let hidden = Reasoning { show: Some(false), ..budget(2_000) };
    let omitted = json!({ "type": "enabled", "budget_tokens": 2_000, "display": "omitted" });
    assert_eq!(thinks(OLD, hidden, None).0, Some(omitted));
    let off = Reasoning { enabled: Some(false), ..Reasoning::default() };
    assert_eq!(thinks("claude-fable-5", off.clone(), None), (None, 128_000, None, lost.clone()));
    assert_eq!(thinks("claude-opus-5-5", off.clone(), None), (None, 128_000, None, lost));
    let between = Some(json!({ "type": "between_tools" }));
    assert_eq!(thinks("claude-sonnet-5-5", off, None), (between, 128_000, None, vec![]));
}

#[test]
fn what_thinking_excludes_gives_way_to_it_or_it_to_that() {
    let thinks = |change: &dyn Fn(&mut Conversation)| {
        asked(|c| {
            c.reasoning = Some(Reasoning { effort: Some(Effort::Low), ..Reasoning::default() });
            c.tools = vec![tool("get")];
            change(c);
        })
    };
    let outcome = |conversation: &Conversation| {
        let (request, losses, keeps) = request_for(OLD, conversation);
        (request.get("thinking").is_some(), losses.join(" "), keeps)
    };
    assert_eq!(outcome(&thinks(&|_| {})), (true, String::new(), true));
    assert_eq!(
        outcome(&thinks(&|c| c.tool_choice = Some(ToolChoice::Required))),
        (false, "reasoning_effort".to_owned(), true)
    );
    assert_eq!(outcome(&thinks(&|c| c.sampling.temperature = Some(0.2))), (true, "temperature".to_owned(), false));
    assert_eq!(outcome(&thinks(&|c| c.sampling.top_p = Some(0.96))), (true, String::new(), true));
    // Tool results without a signed thought before the call.
    let called = |parts: Vec<MessagePart>| {
        move |c: &mut Conversation| {
            c.turns.extend([turn(Role::Assistant, parts.clone()), turn(Role::User, vec![result("a", vec![])])]);
        }
    };
    assert_eq!(outcome(&thinks(&called(vec![call("a", "{}")]))), (false, "reasoning_effort".to_owned(), true));
    let signed = MessagePart::Thinking(ReasoningPart {
        signature: Some("photofinish.anthropic.EqQB".to_owned()),
        ..ReasoningPart::default()
    });
    assert_eq!(outcome(&thinks(&called(vec![signed, call("a", "{}")]))), (true, String::new(), true));
    assert_eq!(outcome(&thinks(&called(vec![text("done")]))), (true, String::new(), true));
    // An answer that the caller began.
    let begun = |c: &mut Conversation| c.turns.push(turn(Role::Assistant, vec![text("{")]));
    assert_eq!(outcome(&thinks(&begun)), (false, "reasoning_effort".to_owned(), true));
}

#[test]
fn formats_and_accounts() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "object", "const": { "type": "object" } }, "b": { "type": "object", "additionalProperties": true } } });
    let schema = || Some(Format::Schema { name: None, description: None, schema: schema.clone(), strict: None });
    let (request, losses, _) = request_for(OLD, &asked(|c| c.format = schema()));
    let expected = json!({ "format": { "type": "json_schema", "schema": {
        "type": "object", "additionalProperties": false, "properties": {
            "a": { "type": "object", "additionalProperties": false, "const": { "type": "object" } },
            "b": { "type": "object", "additionalProperties": false },
        } } } });
    assert_eq!((&request["output_config"], losses), (&expected, vec!["response_format.schema".to_owned()]));
    for (model, format, lost) in
        [(OLD, Some(Format::Json), "response_format"), ("claude-3-5-haiku", schema(), "response_format.json_schema")]
    {
        let (request, losses, keeps) = request_for(model, &asked(|c| c.format = format));
        assert_eq!((request.get("output_config"), losses, keeps), (None, vec![lost.to_owned()], false));
    }
    let conversation = asked(|c| {
        c.user = Some("u".to_owned());
        c.metadata = json!({ "a": "b" }).as_object().cloned();
        c.service_tier = Some("flex".to_owned());
        c.verbosity = Some("low".to_owned());
        c.format = Some(Format::Text);
    });
    let (request, losses, keeps) = request_for(OLD, &conversation);
    assert_eq!(
        (&request["metadata"], losses.join(" "), keeps),
        (&json!({ "user_id": "u" }), "service_tier verbosity".to_owned(), true)
    );
    let tier =
        |tier: &str| request_for(OLD, &asked(|c| c.service_tier = Some(tier.to_owned()))).0["service_tier"].take();
    assert_eq!((tier("auto"), tier("default")), (json!("auto"), json!("standard_only")));
}
