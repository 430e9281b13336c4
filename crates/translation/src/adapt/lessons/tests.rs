//! What refusals teach, in the words that vendors are reported to use, each with a place where they were.

use serde_json::json;

use super::*;

mod reported;

const BETAS: [&str; 3] = ["claude-code-20250219", "effort-2025-11-24", "prompt-caching-scope-2026-01-05"];

/// A chat of an agent with all that may be refused.
fn chat() -> Value {
    let call = |id: &str| {
        json!({"role": "assistant", "content": null, "refusal": null, "tool_calls":
            [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{\"seed\":1}"}}]})
    };
    json!({
        "model": "m", "temperature": 0.2, "top_p": 0.9, "presence_penalty": 0.1, "stop": ["x"], "store": false, "user": "u",
        "reasoning_effort": "high", "max_tokens": 64_000, "seed": 7, "logprobs": true, "tool_choice": "required",
        "service_tier": "auto", "prompt_cache_key": "k", "parallel_tool_calls": true,
        "tools": [{"type": "function", "function": {"name": "f", "strict": true, "parameters": {"type": "object", "properties": {"seed": {}}}}}],
        "messages": [
            {"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "system", "content": "later"},
            call("toolu_01A09q90qw90lq917835lq9"),
            {"role": "tool", "tool_call_id": "toolu_01A09q90qw90lq917835lq9", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]},
            {"role": "user", "name": "me", "content": "go on"},
        ],
    })
}

fn messages() -> Value {
    let marked =
        |text: &str| json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral", "scope": "global"}}]);
    json!({
        "model": "m", "max_tokens": 64_000, "temperature": 1.0, "top_k": 5, "context_management": {"edits": []},
        "output_config": {"effort": "high"}, "thinking": {"type": "enabled", "budget_tokens": 9_000}, "metadata": {"user_id": "u"},
        "system": marked("s"), "tools": [{"name": "f", "input_schema": {}, "input_examples": [{}], "defer_loading": true, "eager_input_streaming": true}],
        "messages": [
            {"role": "user", "content": marked("a")},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "x"}, {"type": "tool_use", "id": "i", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "content": "1"}]},
            {"role": "system", "content": "later"},
            {"role": "user", "content": marked("b")}, {"role": "user", "content": marked("c")}, {"role": "user", "content": marked("d")},
        ],
    })
}

fn responses() -> Value {
    json!({
        "model": "m", "reasoning": {"effort": "high", "summary": "auto", "context": "all"}, "include": ["reasoning.encrypted_content"],
        "store": false, "prompt_cache_key": "k", "text": {"verbosity": "low"}, "max_output_tokens": 9,
        "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "apply_patch"}, {"type": "tool_search"}],
        "input": [
            {"type": "additional_tools", "role": "developer", "tools": []},
            {"role": "user", "content": "a"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {"type": "message", "role": "assistant", "phase": "final_answer", "content": [{"type": "output_text", "text": "b"}]},
        ],
    })
}

/// What is done after this refusal of the chat, the messages or the request of the Responses API; empty: nothing.
fn taught(surface: Surface, refusal: &str) -> String {
    let request = match surface {
        Surface::Messages => messages(),
        Surface::Responses => responses(),
        _ => chat(),
    };
    taught_by(surface, &request, refusal)
}

fn taught_by(surface: Surface, request: &Value, refusal: &str) -> String {
    let betas = if surface == Surface::Messages { BETAS.to_vec() } else { Vec::new() };
    let body = request.to_string();
    let request =
        RefusedRequest { surface, body: body.as_bytes(), betas, status: 400, has_other_path: true, conversation: 1 };
    lesson(&request, refusal.as_bytes()).map(|lesson| lesson.in_words()).unwrap_or_default()
}

fn said(message: &str) -> String {
    json!({"error": {"message": message, "type": "invalid_request_error"}}).to_string()
}

/// Where, what was said, and what is done.
type Row = (Surface, &'static str, &'static str);

fn check(table: &[Row]) -> Vec<String> {
    let wrong = table.iter().filter_map(|(surface, words, expected)| {
        let refusal = if words.starts_with(['{', '[']) { (*words).to_owned() } else { said(words) };
        let taught = taught(*surface, &refusal);
        (taught != *expected).then(|| format!("{words}\n  teaches {taught:?}, not {expected:?}"))
    });
    wrong.collect()
}

/// The words are those of 2025 and 2026; the thread or the page is behind each.
const REPORTED: &[Row] = &[
    // NousResearch/hermes-agent#23088
    (
        Surface::Chat,
        r#"{"code":"Client specified an invalid argument","error":"Model grok-4-1-fast-reasoning does not support parameter reasoningEffort."}"#,
        "without reasoning_effort",
    ),
    // lobehub/lobehub#7370
    (Surface::Chat, r#"{"error":"Argument not supported on this model: presencePenalty"}"#, "without presence_penalty"),
    // charmbracelet/crush#2362
    (Surface::Chat, r#"{"error":"Argument not supported on this model: stop"}"#, "without stop"),
    // CherryHQ/cherry-studio#14573
    (Surface::Chat, "invalid temperature: only 1 is allowed for this model", "without temperature"),
    // NativeTavern/NativeTavern#83
    (Surface::Chat, "invalid top_p: only 0.95 is allowed for this model", "without top_p"),
    // docs.mistral.ai, 2026: FastAPI within an error
    (
        Surface::Chat,
        r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","logprobs"],"msg":"Extra inputs are not permitted","input":true}]},"type":"invalid_request_error"}"#,
        "without logprobs",
    ),
    // iamsrikanthnani/pluely#219
    (Surface::Chat, "`reasoning_effort` must be one of `none` or `default`", "without reasoning_effort"),
    // CherryHQ/cherry-studio#1099
    (
        Surface::Chat,
        "property 'reasoning_effort' is unsupported, did you mean 'reasoning_format'?",
        "without reasoning_effort",
    ),
    // ollama/ollama, server/routes.go
    (Surface::Chat, r#"{"error":"\"gemma3:4b\" does not support thinking"}"#, "without reasoning_effort"),
    // openai/codex and others: both
    (
        Surface::Messages,
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        "without temperature",
    ),
    (
        Surface::Chat,
        r#"{"error":{"message":"Unknown parameter: 'store'.","param":"store","code":"unknown_parameter"}}"#,
        "without store",
    ),
    // anthropics/claude-code#21612
    (Surface::Messages, "context_management: Extra inputs are not permitted", "without context_management"),
    // anthropics/claude-code#41966
    (
        Surface::Messages,
        "system.2.cache_control.ephemeral.scope: Extra inputs are not permitted",
        "without system.cache_control.scope",
    ),
    // Wei-Shaw/claude-relay-service#667
    (
        Surface::Messages,
        "tools.3.custom.input_examples: Extra inputs are not permitted",
        "without tools.input_examples",
    ),
    // QuantumNous/new-api#2975
    (
        Surface::Messages,
        "Unexpected value(s) `prompt-caching-scope-2026-01-05`, `effort-2025-11-24` for the `anthropic-beta` header. Please consult our documentation at docs.anthropic.com or try again without the header.",
        "without effort-2025-11-24 prompt-caching-scope-2026-01-05",
    ),
    // anthropics/claude-code#49370
    (Surface::Messages, "invalid beta flag", "without anthropic-beta"),
    // griffinmartin/opencode-claude-auth#121
    (Surface::Messages, "A maximum of 4 blocks with cache_control may be provided. Found 5.", "cache_marks"),
    // ogx-ai/ogx#5982
    (
        Surface::Messages,
        r#"{"errors":[{"loc":["body","messages",1,"role"],"msg":"Input should be 'user' or 'assistant'","type":"literal_error"}]}"#,
        "system_turns",
    ),
    // llmmanorg/llmman#507
    (
        Surface::Messages,
        "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.",
        "thinking",
    ),
    // router-for-me/CLIProxyAPI#714
    (Surface::Messages, "messages.1.content.0.thinking.signature: Field required", "without past reasoning"),
    // openai/openai-openapi#541
    (
        Surface::Chat,
        "Function tools with reasoning_effort are not supported for gpt-5.6-sol in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
        "responses_for",
    ),
    // maximhq/bifrost#5428
    (
        Surface::Responses,
        "Failed to deserialize the JSON body into the target type: tools[1].type: unknown variant `custom`, expected one of `function`, `web_search`, `mcp`, `shell`",
        "codex_tools",
    ),
    // router-for-me/CLIProxyAPI#4434
    (
        Surface::Responses,
        "Failed to deserialize the JSON body into the target type: data did not match any variant of untagged enum ModelInput",
        "codex_tools",
    ),
    // vllm-project/vllm#42475
    (
        Surface::Responses,
        "1 validation error:\n  {'type': 'literal_error', 'loc': ('body', 'tools', 2, 'CustomTool', 'type'), 'msg': \"Input should be 'custom'\", 'input': 'tool_search', 'ctx': {'expected': \"'custom'\"}}",
        "codex_tools",
    ),
    // ggml-org/llama.cpp#20156
    (Surface::Responses, "'type' of tool must be 'function'", "codex_tools"),
    // Mangi-11/Eta#59
    (Surface::Responses, "Cannot determine type of 'item'", "codex_tools"),
    // vllm-project/vllm#41114
    (Surface::Chat, "System message must be at the beginning.", "system_turns"),
    // mistral: its answer to others
    (
        Surface::Chat,
        r#"{"object":"error","message":"Tool call id was toolu_01A09q90qw90lq917835lq9 but must be a-z, A-Z, 0-9, with a length of 9.","type":"invalid_function_call","code":"3280"}"#,
        "call_ids",
    ),
    (
        Surface::Chat,
        r#"{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","code":"3230"}"#,
        "user_after_tool",
    ),
    // MoonshotAI and others
    (
        Surface::Chat,
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
        "past_reasoning",
    ),
    // api-docs.deepseek.com/guides/thinking_mode
    (Surface::Chat, "The `reasoning_content` in the thinking mode must be passed back to the API.", "past_reasoning"),
    // anomalyco/opencode
    (Surface::Responses, "reasoning `encrypted_content` was not issued to this caller", "without past reasoning"),
    // OpenHands/OpenHands#7700
    (
        Surface::Chat,
        "Invalid 'messages[4]'. Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an image URL.",
        "result_media",
    ),
    // enoch3712/ExtractThinker#346
    (
        Surface::Chat,
        "max_tokens is too large: 64000. This model supports at most 16384 completion tokens, whereas you provided 64000.",
        "max_output",
    ),
    // can1357/oh-my-pi#827
    (Surface::Chat, "tool_choice 'specified' is incompatible with thinking enabled", "forced_tools"),
    // Vali-98/ChatterUI#227
    (
        Surface::Chat,
        r#"[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"presence_penalty\": Cannot find field.\nInvalid JSON payload received. Unknown name \"seed\": Cannot find field.","status":"INVALID_ARGUMENT"}}]"#,
        "without presence_penalty",
    ),
    // groq
    (
        Surface::Chat,
        "'messages.5' : for 'role:user' the following must be satisfied[('messages.5' : property 'name' is unsupported)]",
        "without messages.name",
    ),
];

#[test]
fn what_vendors_say_teaches() {
    let wrong = check(REPORTED);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), REPORTED.len(), wrong.join("\n"));
}

#[test]
fn what_names_nothing_or_content_teaches_nothing() {
    let wrong = check(&[
        (Surface::Chat, "Invalid value for 'messages[1].content': string too long.", ""),
        (Surface::Chat, "The request is not valid. Please check it.", ""),
        (Surface::Chat, "Invalid schema for function 'f': 'seed' is not of type 'object'.", ""),
        (Surface::Chat, r#"{"error":{"message":"Invalid schema","param":"tools[0].function.parameters"}}"#, ""),
        (Surface::Chat, r#"{"error":{"message":"could not process the image","param":"messages[4].content"}}"#, ""),
        (
            Surface::Chat,
            r#"{"detail":[{"loc":["body","messages",0,"content"],"msg":"bad","input":"temperature is not supported"}]}"#,
            "",
        ),
        (Surface::Chat, "the user said something to the store", ""),
        (Surface::Messages, "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after", ""),
        (Surface::Responses, "No tool output found for function call c.", ""),
        (Surface::Chat, "", ""),
    ]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Written after the rule, without a look at it.
const UNSEEN: &[Row] = &[
    (
        Surface::Chat,
        r#"{"error":{"code":"invalid_parameter_error","param":null,"message":"Parameter top_p is not supported by qwen3-max","type":"invalid_request_error"}}"#,
        "without top_p",
    ),
    (
        Surface::Chat,
        r#"{"error":{"message":"Failed to deserialize the JSON body into the target type: messages[2].role: unknown variant `system`, expected `user` or `assistant` at line 1 column 60","type":"invalid_request_error"}}"#,
        "system_turns",
    ),
    (
        Surface::Chat,
        r#"{"object":"error","message":"The parallel_tool_calls parameter is not supported.","type":"BadRequestError","param":null,"code":400}"#,
        "without parallel_tool_calls",
    ),
    (
        Surface::Chat,
        r#"{"error":{"message":"service_tier 'auto' is not available for this organization","type":"invalid_request_error","param":"service_tier"}}"#,
        "without service_tier",
    ),
    (
        Surface::Chat,
        r#"{"code":400,"reason":"INVALID_REQUEST_BODY","message":"invalid request body: json: unknown field \"prompt_cache_key\"","metadata":{}}"#,
        "without prompt_cache_key",
    ),
    (
        Surface::Chat,
        r#"{"message":"litellm.UnsupportedParamsError: the upstream does not support parameters: ['logprobs'], for model=m"}"#,
        "without logprobs",
    ),
    (
        Surface::Chat,
        r#"{"error":{"message":"Invalid value for stop: this model accepts no stop sequences","type":"invalid_request_error"}}"#,
        "without stop",
    ),
    (
        Surface::Chat,
        r#"{"error":{"message":"1 validation error for ChatCompletionRequest\ntools.0.function.strict\n  Extra inputs are not permitted [type=extra_forbidden]"}}"#,
        "without tools.function.strict",
    ),
    (
        Surface::Chat,
        r#"{"error":{"message":"After the optional system message, conversation roles must alternate user/assistant/user/assistant/...","code":500}}"#,
        "system_turns",
    ),
    (
        Surface::Chat,
        r#"{"error":{"message":"This model is only supported in v1/responses and not in v1/chat/completions.","type":"invalid_request_error","param":"model","code":null}}"#,
        "responses_for",
    ),
    (
        Surface::Chat,
        r#"{"error":{"message":"Invalid 'messages[3].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 64 instead.","param":"messages[3].tool_calls[0].id"}}"#,
        "call_ids",
    ),
    (
        Surface::Chat,
        r#"{"error":{"message":"tool_choice must be 'auto' or 'none' for this model","type":"invalid_request_error"}}"#,
        "forced_tools",
    ),
    (
        Surface::Messages,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"This model does not support the effort parameter."}}"#,
        "without output_config.effort",
    ),
    (
        Surface::Messages,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"tools.11.custom.defer_loading: Extra inputs are not permitted"}}"#,
        "without tools.defer_loading",
    ),
    (
        Surface::Messages,
        r#"{"message":"max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens for m"}"#,
        "max_output",
    ),
    (
        Surface::Messages,
        r#"{"error":{"message":"top_k is not supported when thinking is enabled","type":"invalid_request_error"}}"#,
        "without top_k",
    ),
    (
        Surface::Messages,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.3: role 'system' is not allowed here, use the top-level system parameter"}}"#,
        "system_turns",
    ),
    (
        Surface::Messages,
        r#"{"error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}"#,
        "without past reasoning",
    ),
    (
        Surface::Responses,
        r#"{"error":{"message":"Unsupported parameter: 'reasoning.summary' is not supported with this model.","param":"reasoning.summary","code":"unsupported_parameter"}}"#,
        "without reasoning.summary",
    ),
    (
        Surface::Responses,
        r#"{"error":{"message":"Item 'rs_1' of type 'reasoning' was provided without its required following item.","param":"input"}}"#,
        "without past reasoning",
    ),
    (
        Surface::Responses,
        r#"{"detail":[{"type":"extra_forbidden","loc":["body","input",2,"phase"],"msg":"Extra inputs are not permitted"}]}"#,
        "without input.phase",
    ),
    (
        Surface::Responses,
        r#"{"error":{"message":"Unknown parameter: 'text.verbosity'.","param":"text.verbosity"}}"#,
        "without text.verbosity",
    ),
];

#[test]
fn what_was_not_seen_before_teaches_too() {
    let wrong = check(UNSEEN);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), UNSEEN.len(), wrong.join("\n"));
}

#[test]
fn a_refusal_of_a_name_teaches_how_long_it_may_be() {
    let long = "n".repeat(70);
    let chat = |name: &str| json!({"messages": [], "tools": [{"type": "function", "function": {"name": name}}]});
    let messages = |name: &str| json!({"messages": [], "tools": [{"name": name, "input_schema": {"name": long}}]});
    let most = |surface, body: &Value, words: &str| {
        let (body, betas) = (body.to_string(), Vec::new());
        let request = RefusedRequest {
            surface,
            body: body.as_bytes(),
            betas,
            status: 400,
            has_other_path: false,
            conversation: 1,
        };
        match lesson(&request, said(words).as_bytes()) {
            Some(Lesson::Demand(demand)) => demand.tool_name_max,
            _ => None,
        }
    };
    let openai = "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64, but got a string with length 70 instead.";
    let pattern = "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.";
    for (surface, body, words, expected) in [
        (Surface::Chat, chat(&long), openai, Some(64)),
        (Surface::Chat, chat("a.b"), pattern, Some(64)),
        (Surface::Chat, chat("a_b"), pattern, None),
        (
            Surface::Messages,
            messages(&"n".repeat(130)),
            "tools.0.custom.name: String should have at most 128 characters",
            Some(128),
        ),
        (Surface::Messages, messages("f"), "tools.0.custom.name: String should have at most 128 characters", None),
        (Surface::Chat, chat(&long), "function name must match ^[a-zA-Z][a-zA-Z0-9_-]{1,63}$", Some(63)),
        (Surface::Chat, chat(&long), "Invalid schema for function 'x': it must be at most 64 deep", None),
    ] {
        assert_eq!(most(surface, &body, words), expected, "{words}");
    }
}

/// A request that has no more than what is refused; how it is refused, in the words of a thread of 2025 or 2026, which is named before
/// the row; and what is done.
type FoundRow = (Surface, Value, &'static str, &'static str);

fn check_found(table: &[FoundRow]) {
    let wrong = table.iter().filter_map(|(surface, request, words, expected)| {
        let refusal = if words.starts_with(['{', '[']) { (*words).to_owned() } else { said(words) };
        let taught = taught_by(*surface, request, &refusal);
        (taught != *expected).then(|| format!("{words}\n  teaches {taught:?}, not {expected:?}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), table.len(), wrong.join("\n"));
}

/// A question with these members.
fn with(members: Value) -> Value {
    let mut request = json!({"max_tokens": 9_000, "messages": [{"role": "user", "content": "a"}]});
    request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    request
}

/// A conversation whose answer has these members.
fn turn(members: Value) -> Value {
    let mut turn = json!({"role": "assistant", "content": "b"});
    turn.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    json!({"messages": [{"role": "user", "content": "a"}, turn, {"role": "user", "content": "c"}]})
}

#[test]
fn refused_chats_of_public_threads_teach() {
    check_found(&[
        // karthink/gptel#774
        (
            Surface::Chat,
            turn(json!({"reasoning": "t"})),
            "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning' is unsupported, did you mean 'role'?)]",
            "without past reasoning",
        ),
        // CherryHQ/cherry-studio#16790
        (
            Surface::Chat,
            turn(json!({"reasoning_content": "t"})),
            r#"{"message":"messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported","type":"invalid_request_error","param":"validation_error","code":"wrong_api_format"}"#,
            "past_reasoning",
        ),
        // nomtek/mistralai_client_dart#44
        (
            Surface::Chat,
            turn(json!({"name": "me"})),
            r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","messages",0,"user","name"],"msg":"Extra inputs are not permitted","input":null}]},"type":"invalid_request_error"}"#,
            "without messages.name",
        ),
        // mistralai/mistral-vibe#1117
        (
            Surface::Chat,
            with(json!({"reasoning_effort": "medium"})),
            "reasoning_effort medium is not one of ['low', 'high', 'max']",
            "without reasoning_effort",
        ),
        // BerriAI/litellm#6456
        (
            Surface::Chat,
            with(json!({"parallel_tool_calls": false})),
            "litellm.UnsupportedParamsError: anthropic does not support parameters: {'parallel_tool_calls': False}, for model=m. To drop these, set `litellm.drop_params=True`",
            "without parallel_tool_calls",
        ),
        // microsoft/vscode#282170
        (
            Surface::Chat,
            with(json!({"top_p": 0.9, "temperature": 1.0})),
            r#"{"error":{"message":"Unsupported parameter: 'top_p' is not supported with this model.","code":"invalid_request_body"}}"#,
            "without top_p",
        ),
        // fanenr/chatbot#21
        (
            Surface::Chat,
            with(json!({"store": true, "stop": ["x"]})),
            "property 'store' is unsupported, did you mean 'stop'?",
            "without store",
        ),
    ]);
}

#[test]
fn refused_settings_of_messages_in_public_threads_teach() {
    let effort = |level: &str| with(json!({"output_config": {"effort": level}}));
    check_found(&[
        // MoonshotAI/Kimi-K2#141
        (
            Surface::Messages,
            with(json!({"thinking": {"type": "disabled"}})),
            "invalid thinking: only type=enabled is allowed for this model",
            "without thinking",
        ),
        // BerriAI/litellm#27168
        (
            Surface::Messages,
            with(json!({"thinking": {"type": "adaptive"}})),
            "adaptive thinking is not supported on this model",
            "without thinking",
        ),
        (
            Surface::Messages,
            effort("xhigh"),
            "This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium.",
            "without output_config.effort",
        ),
        (
            Surface::Messages,
            with(json!({"thinking": {"type": "adaptive", "block_binding": "x"}})),
            "thinking.adaptive.block_binding: Extra inputs are not permitted",
            "without thinking.block_binding",
        ),
        // workglow-dev/libs#746
        (
            Surface::Messages,
            with(json!({"temperature": 0.0, "thinking": {"type": "enabled", "budget_tokens": 2_000}})),
            "`temperature` may only be set to 1 when thinking is enabled",
            "without temperature",
        ),
        (
            Surface::Messages,
            with(json!({"tool_choice": {"type": "any"}, "thinking": {"type": "enabled", "budget_tokens": 2_000}})),
            "Thinking may not be enabled when tool_choice forces tool use.",
            "forced_tools",
        ),
        // BerriAI/litellm#7416
        (
            Surface::Messages,
            with(json!({"context_management": {"edits": []}})),
            r#"{"message":"The model returned the following errors: Malformed input request: #: extraneous key [context_management] is not permitted, please reformat your input and try again."}"#,
            "without context_management",
        ),
    ]);
}

#[test]
fn refused_turns_of_messages_in_public_threads_teach() {
    let system = json!({"role": "system", "content": [], "output_config": {"effort": "high"}});
    check_found(&[
        // NomaDamas/CozyClay#403
        (
            Surface::Messages,
            with(json!({"messages": [{"role": "user", "content": "a"}, system]})),
            "messages.1.output_config: Extra inputs are not permitted",
            "without messages.output_config",
        ),
        // Lordymine/opencode-go-cli#7
        (
            Surface::Messages,
            with(
                json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "i", "name": "f", "input": {}}]}]}),
            ),
            r#"{"type":"error","error":{"type":"api_error","message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"thinking is enabled but reasoning_content is missing in assistant tool call message at index 8\"}}"}}}"#,
            "past_reasoning",
        ),
        // the words of servers whose schema of results has text and images alone
        (
            Surface::Messages,
            with(json!({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i",
                "content": [{"type": "tool_reference", "tool_name": "f"}]}]}]})),
            "messages.0.content.0.tool_result.content.0: Input tag 'tool_reference' found using 'type' does not match any of the expected tags: 'text', 'image'",
            "claude",
        ),
    ]);
}

#[test]
fn refused_items_and_parts_of_public_threads_teach() {
    let item = |members: Value| {
        let mut item = json!({"type": "reasoning", "summary": []});
        item.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        json!({"input": [{"role": "user", "content": "a"}, item]})
    };
    let thinks = |config: Value| json!({"contents": [], "generationConfig": {"thinkingConfig": config}});
    let part = |kind: &str, members: Value| json!({"contents": [{"role": "user", "parts": [{ (kind): members }]}]});
    check_found(&[
        // 1jehuang/jcode#1028
        (
            Surface::Responses,
            item(json!({"status": "completed"})),
            r#"{"error":{"code":"unknown_parameter","message":"Unknown parameter: 'input[1].status'.","param":"input[1].status","type":"invalid_request_error"}}"#,
            "without input.status",
        ),
        // BerriAI/litellm#27091
        (
            Surface::Responses,
            json!({"input": "a", "reasoning": {"effort": "high"}}),
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
            "without reasoning.effort",
        ),
        // RooCodeInc/Roo-Code#10700
        (
            Surface::Gemini,
            thinks(json!({"thinkingLevel": "high"})),
            r#"{"error":{"message":"{\"error\": {\"code\": 400, \"message\": \"Thinking level is not supported for this model.\", \"status\": \"INVALID_ARGUMENT\"}}","code":400,"status":"Bad Request"}}"#,
            "without generationConfig.thinkingConfig",
        ),
        // jenslys/opencode-gemini-auth#14
        (
            Surface::Gemini,
            thinks(json!({"thinkingLevel": "medium"})),
            "Unable to submit request because thinking_level MEDIUM is not supported by this model. Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini",
            "without generationConfig.thinkingConfig.thinkingLevel",
        ),
        // immersive-translate/immersive-translate#2976
        (
            Surface::Gemini,
            thinks(json!({"thinkingBudget": 0})),
            "thinking_config is not supported.",
            "without generationConfig.thinkingConfig",
        ),
        // google-gemini/gemini-cli#13972
        (
            Surface::Gemini,
            part("functionResponse", json!({"id": "i", "name": "f", "response": {}})),
            r#"{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"id\" at 'contents[0].parts[0].function_response': Cannot find field.","status":"INVALID_ARGUMENT"}}"#,
            "without contents.parts.functionResponse.id",
        ),
    ]);
}

#[test]
fn a_setting_in_an_object_is_named_as_others_are() {
    let gemini = |config: Value| json!({"contents": [], "generationConfig": config});
    check_found(&[
        (
            Surface::Gemini,
            gemini(json!({"temperature": 0.3, "topP": 0.9})),
            "Unable to submit request because temperature must be 1 for this model.",
            "without generationConfig.temperature",
        ),
        (Surface::Gemini, gemini(json!({"seed": 7})), "seed is not supported", "without generationConfig.seed"),
        (
            Surface::OllamaChat,
            json!({"messages": [], "options": {"seed": 7}}),
            "seed is not supported",
            "without options.seed",
        ),
        (Surface::Gemini, gemini(json!({"stopSequences": ["x"]})), "you may stop the server", ""),
    ]);
}
