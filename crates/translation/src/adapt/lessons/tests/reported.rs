//! Refusals of public threads that were collected before the rule had seen any of them. A request has no more than what is refused.

use serde_json::json;

use super::*;

/// A chat with these turns.
fn turns(turns: Value) -> Value {
    json!({ "messages": turns })
}

fn developer() -> Value {
    turns(json!([{"role": "developer", "content": "s"}, {"role": "user", "content": "a"}]))
}

#[test]
fn refused_settings_of_chats_teach() {
    check_found(&[
        // Ikalus1988/MisakaNet#1473
        (
            Surface::Chat,
            with(json!({"presence_penalty": 0.1, "frequency_penalty": 0.1})),
            "Penalty is not enabled for this model",
            "without frequency_penalty presence_penalty",
        ),
        // kd-research/Techies#42
        (
            Surface::Chat,
            with(json!({"stop": ["x"]})),
            "litellm.BadRequestError: OpenAIException - Unsupported parameter: 'stop' is not supported with this model.",
            "without stop",
        ),
        // BerriAI/litellm#4558
        (
            Surface::Chat,
            with(json!({"presence_penalty": 0.1, "frequency_penalty": 0.1})),
            r#"{"type":"urn:inference-service:problem-details:unprocessable-entity","title":"Unprocessable Entity","status":422,"detail":"body -> frequency_penalty\n  Extra inputs are not permitted (type=extra_forbidden)\nbody -> presence_penalty\n  Extra inputs are not permitted (type=extra_forbidden)","instance":"/v2/nvcf/pexec/functions/1"}"#,
            "without frequency_penalty",
        ),
        // QwenLM/qwen-code#921
        (
            Surface::Chat,
            with(json!({"temperature": 0})),
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
            "without temperature",
        ),
        // argilla-io/synthetic-data-generator#48
        (
            Surface::Chat,
            with(json!({"top_p": 1.0})),
            r#"{"error":"Input validation error: `top_p` must be > 0.0 and < 1.0","error_type":"validation"}"#,
            "without top_p",
        ),
    ]);
}

#[test]
fn refused_arguments_of_chats_teach() {
    check_found(&[
        // raycast/extensions#18038
        (
            Surface::Chat,
            with(json!({"temperature": 1, "max_tokens": 9})),
            "Model incompatible request argument supplied: temperature",
            "without temperature",
        ),
        // CherryHQ/cherry-studio#6155
        (
            Surface::Chat,
            with(json!({"enable_thinking": false})),
            "Unrecognized request argument supplied: enable_thinking",
            "without enable_thinking",
        ),
        // open-webui/open-webui#14520
        (
            Surface::Chat,
            with(json!({"num_keep": 24})),
            "Unrecognized request argument supplied: num_keep",
            "without num_keep",
        ),
        // BerriAI/litellm#16031
        (
            Surface::Chat,
            with(json!({"frequency_penalty": 0.5})),
            "UnsupportedParamsError: vertex_ai does not support parameters: ['frequency_penalty'], for model=gemini-2.5-pro. To drop these, set `drop_params=True`",
            "without frequency_penalty",
        ),
        // nashsu/llm_wiki#670
        (
            Surface::Chat,
            with(json!({"temperature": 0.1})),
            r#"{"error":{"cause":"{\n \"error\": {\n \"message\": \"Unsupported value: 'temperature' does not support 0.1 with this model. Only the default (1) value is supported.\",\n \"type\": \"invalid_request_error\",\n \"param\": \"temperature\",\n \"code\": \"unsupported_value\"\n }\n}","code":400,"message":"模型服务调用失败","status":"FAILED_RESPONSE"},"requestId":"1","result":null}"#,
            "without temperature",
        ),
    ]);
}

#[test]
fn refused_turns_of_chats_teach() {
    check_found(&[
        // earendil-works/pi#4514
        (
            Surface::Chat,
            turn(json!({"reasoning": "t"})),
            "Error from provider: Extra inputs are not permitted, field: 'messages[1].reasoning', value: 'Now I need to read the install extension logic'",
            "without past reasoning",
        ),
        // QuantumNous/new-api#5330
        (
            Surface::Chat,
            developer(),
            r#"{"error":{"message":"invalid parameter 'messages[0].role': invalid role 'developer', must be one of: system, user, assistant, tool","type":"gateway_error","param":"","code":"400002"}}"#,
            "developer_turns",
        ),
        // haru/redmine_ai_helper#242
        (
            Surface::Chat,
            developer(),
            "developer is not one of ['system', 'assistant', 'user', 'tool', 'function'] - 'messages.['0].role'",
            "developer_turns",
        ),
        // peonist-ai/halogen-flash-server#32
        (Surface::Chat, developer(), "chat template rejected the request: Unexpected message role.", "developer_turns"),
        // agno-agi/agno#6697
        (
            Surface::Chat,
            developer(),
            "The parameter `messages.role` specified in the request are not valid: invalid value: `developer`, supported values are: `system`, `assistant`, `user`, `tool`.",
            "developer_turns",
        ),
        // num-scope/pix#34
        (
            Surface::Chat,
            developer(),
            "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`, `latest_reminder` at line 1 column 60",
            "developer_turns",
        ),
        // egoist/chatwise-releases#971
        (
            Surface::Chat,
            developer(),
            r#"{"error":{"message":"Invalid enum value. Expected 'system' | 'user' | 'assistant' | 'tool', received 'developer'","type":"invalid_request_error","param":"messages.0.role","code":"invalid_request_error"}}"#,
            "developer_turns",
        ),
        // BerriAI/litellm#4558: a prompt of the system cannot be moved out of its place
        (
            Surface::Chat,
            turns(json!([{"role": "system", "content": "s"}, {"role": "user", "content": "a"}])),
            r#"{"title":"Internal Server Error","status":500,"detail":"System role not supported"}"#,
            "",
        ),
    ]);
}

#[test]
fn refused_members_of_messages_teach() {
    check_found(&[
        // anomalyco/opencode#24696
        (
            Surface::Messages,
            with(json!({"tools": [{"name": "f", "input_schema": {}, "eager_input_streaming": true}]})),
            "Error from provider: 2 request validation errors: Extra inputs are not permitted, field: 'tools[0].eager_input_streaming', value: True; Extra inputs are not permitted, field: 'tools[1].eager_input_streaming', value: True",
            "without tools.eager_input_streaming",
        ),
        // langchain-ai/langchain#31208
        (
            Surface::Messages,
            json!({"max_tokens": 9, "messages": [{"role": "user", "content": "a"},
                {"role": "assistant", "content": [{"type": "text", "text": "b"}, {"type": "tool_use", "id": "i", "name": "f", "input": {}, "index": 1}]}]}),
            "messages.1.content.1.tool_use.index: Extra inputs are not permitted",
            "without messages.content.index",
        ),
        // liuw1535/antigravity2api-nodejs#149
        (
            Surface::Messages,
            with(json!({"thinking": {"type": "enabled", "budget_tokens": 12_000}})),
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size",
            "without thinking",
        ),
        // ding113/claude-code-hub#662
        (
            Surface::Messages,
            with(json!({"output_config": {"effort": "high"}})),
            r#"{"error":{"type":"request_fail","upstream_error":{"error":{"message":"output_config: Extra inputs are not permitted","type":"invalid_request_error"},"type":"error"}}}"#,
            "without output_config",
        ),
        // langchain-ai/langchain-aws#62
        (
            Surface::Messages,
            with(json!({"stop_sequences": ["x"]})),
            "Malformed input request: extraneous key [stop_sequences] is not permitted, please reformat your input and try again.",
            "without stop_sequences",
        ),
    ]);
}

#[test]
fn refused_settings_of_the_other_dialects_teach() {
    let gemini = |config: Value| json!({"contents": [], "generationConfig": config});
    let converse =
        |config: Value| json!({"messages": [{"role": "user", "content": [{"text": "a"}]}], "inferenceConfig": config});
    let responses = |members: Value| {
        let mut request = json!({"input": "a"});
        request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        request
    };
    check_found(&[
        // PublicAffairs/openai-gemini#63
        (
            Surface::Gemini,
            gemini(json!({"presencePenalty": 0.1, "temperature": 0.3})),
            r#"{"error":{"code":400,"message":"Penalty is not enabled for models/gemini-2.5-flash-preview-05-20","status":"INVALID_ARGUMENT"}}"#,
            "without generationConfig.presencePenalty",
        ),
        // NousResearch/hermes-agent#111438
        (
            Surface::Chat,
            converse(json!({"temperature": 1.0, "topP": 0.9, "maxTokens": 9})),
            r#"{"message":"This model doesn't support the temperature field. Remove temperature and try again."}"#,
            "without inferenceConfig.temperature",
        ),
        // langgenius/dify-official-plugins#1767
        (
            Surface::Chat,
            converse(json!({"stopSequences": ["x"], "maxTokens": 9})),
            r#"{"message":"This model doesn't support the stopSequences field. Remove stopSequences and try again."}"#,
            "without inferenceConfig.stopSequences",
        ),
        // router-for-me/CLIProxyAPI#897
        (
            Surface::Responses,
            responses(json!({"prompt_cache_retention": "24h", "prompt_cache_key": "k"})),
            r#"{"detail":"Unsupported parameter: prompt_cache_retention"}"#,
            "without prompt_cache_retention",
        ),
        // Wei-Shaw/sub2api#3954
        (
            Surface::Responses,
            responses(json!({"max_output_tokens": 512})),
            r#"{"detail":"Unsupported parameter: max_output_tokens"}"#,
            // How long the answer may be is no setting.
            "",
        ),
        // decolua/9router#1320
        (
            Surface::Responses,
            responses(json!({"truncation": "disabled"})),
            r#"{"error":{"message":"[codex/gpt-5.3-codex] [400]: {\"detail\":\"Unsupported parameter: truncation\"} (reset after 27s)"}}"#,
            "without truncation",
        ),
    ]);
}

/// The second collection, made after the rule had learnt from the first.
#[test]
fn refused_settings_of_a_second_collection_teach() {
    check_found(&[
        // SuzumiyaAkizuki/ComfyUI-NewBie-LLM-Formatter#3
        (
            Surface::Chat,
            with(json!({"reasoning": {"effort": "high"}})),
            r#"[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"reasoning\": Cannot find field.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"description":"Invalid JSON payload received. Unknown name \"reasoning\": Cannot find field."}]}]}}]"#,
            "without reasoning",
        ),
        // proxysoul/Empryo#209
        (
            Surface::Chat,
            with(json!({"enable_thinking": true})),
            r#"{"message":"property 'enable_thinking' is unsupported","type":"invalid_request_error","param":"validation_error","code":"wrong_api_format"}"#,
            "without enable_thinking",
        ),
        // Azure/azure-rest-api-specs#29545
        (
            Surface::Chat,
            with(json!({"parallel_tool_calls": false})),
            "Unrecognized request argument supplied: parallel_tool_calls. Please contact us through an Azure support request at: https://go.microsoft.com/fwlink/?linkid=2213926 for further questions.",
            "without parallel_tool_calls",
        ),
        // microsoft/semantic-kernel#10365
        (
            Surface::Chat,
            with(json!({"parallel_tool_calls": false})),
            r#"{"error":"(\"<class 'AzureChatCompletion'> service failed to complete the prompt\", BadRequestError('Error code: 400 - {\\'error\\': {\\'message\\': \"Unsupported parameter: \\'parallel_tool_calls\\' is not supported with this model.\", \\'param\\': \\'parallel_tool_calls\\'}}'))"}"#,
            "without parallel_tool_calls",
        ),
        // arbs-io/github-copilot-llm-gateway#79
        (
            Surface::Chat,
            with(json!({"parallel_tool_calls": true})),
            "litellm.UnsupportedParamsError: ollama does not support parameters: ['parallel_tool_calls'], for model=phi4-mini:3.8b. To drop these, set litellm.drop_params=True",
            "without parallel_tool_calls",
        ),
    ]);
}

#[test]
fn refused_thoughts_of_a_second_collection_teach() {
    let gemini = |config: Value| json!({"contents": [], "generationConfig": config});
    check_found(&[
        // QwenLM/Qwen-Agent#941
        (
            Surface::Chat,
            with(json!({"enable_thinking": true})),
            "<400> InternalError.Algo.InvalidParameter: The thinking_budget parameter must be a positive integer and not greater than 0",
            "without enable_thinking",
        ),
        // langchain4j/langchain4j#3974
        (
            Surface::Chat,
            with(json!({"enable_thinking": true})),
            r#"{"statusCode":400,"message":"parameter.enable_thinking must be set to false for non-streaming calls","code":"InvalidParameter","requestId":"1"}"#,
            "without enable_thinking",
        ),
        // RooCodeInc/Roo-Code#4399
        (
            Surface::Gemini,
            gemini(json!({"thinkingConfig": {"thinkingBudget": 52_428}})),
            r#"{"error":{"message":"{\n  \"error\": {\n    \"code\": 400,\n    \"message\": \"The thinking budget (52428) is invalid.\",\n    \"status\": \"INVALID_ARGUMENT\"\n  }\n}\n","code":400,"status":"Bad Request"}}"#,
            "without generationConfig.thinkingConfig",
        ),
        // GewoonJaap/gemini-cli-openai#23
        (
            Surface::Gemini,
            gemini(json!({"thinkingConfig": {"thinkingBudget": 0, "includeThoughts": true}})),
            "The model does not support setting thinking_budget to 0.",
            "without generationConfig.thinkingConfig.thinkingBudget",
        ),
    ]);
}

#[test]
fn refused_members_of_a_second_collection_teach() {
    check_found(&[
        // theopenco/llmgateway#1579
        (
            Surface::Messages,
            with(json!({"frequency_penalty": 0.1})),
            "frequency_penalty: Extra inputs are not permitted",
            "without frequency_penalty",
        ),
        // router-for-me/CLIProxyAPI#5068
        (
            Surface::Responses,
            json!({"input": "a", "prompt_cache_retention": "24h"}),
            r#"{"error":{"message":"prompt_cache_retention is not supported on this model","type":"invalid_request_error","param":"prompt_cache_retention","code":"invalid_parameter"}}"#,
            "without prompt_cache_retention",
        ),
        // BoltAI/BoltAI#399
        (
            Surface::Chat,
            json!({"messages": [], "inferenceConfig": {"temperature": 0.3, "topP": 0.9}}),
            r#"{"message":"The model returned the following errors: `temperature` and `top_p` cannot both be specified for this model. Please use only one."}"#,
            "without inferenceConfig.temperature",
        ),
        // RUC-NLPIR/WebThinker#7: an unknown list may be content
        (
            Surface::Chat,
            with(json!({"bad_words": ["<|end|>"]})),
            r#"{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'bad_words'), 'msg': 'Extra inputs are not permitted', 'input': ['<|end|>']}]","type":"BadRequestError","param":null,"code":400}"#,
            "",
        ),
        // thingsboard/thingsboard#15256
        (
            Surface::Chat,
            with(json!({"logit_bias": {"1": 1}})),
            r#"{"error":{"message":"Unsupported parameter: 'logit_bias' is not supported with this model.","type":"invalid_request_error","param":"logit_bias","code":"unsupported_parameter"}}"#,
            "without logit_bias",
        ),
    ]);
}

#[test]
fn refused_values_of_a_second_collection_teach() {
    check_found(&[
        // JohnnyZ93/oai-compatible-copilot#81
        (
            Surface::Chat,
            with(json!({"temperature": 0.5, "top_p": 1})),
            r#"{"error":{"message":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"temperature and top_p cannot both be specified for this model. Please use only one.\"},\"request_id\":\"req_1\"}"}}"#,
            "without top_p",
        ),
        // decolua/9router#560
        (
            Surface::Chat,
            with(json!({"temperature": 0.16})),
            "[openai/gpt-5-mini] [400]: Unsupported value: 'temperature' does not support 0.16 with this model. Only the default (1) (reset after 12s)",
            "without temperature",
        ),
        // davidmigloz/langchain_dart#712
        (
            Surface::Chat,
            with(json!({"reasoning_effort": "medium"})),
            "Unrecognized request argument supplied: reasoning_effort",
            "without reasoning_effort",
        ),
        // microsoft/clarity-agent#59
        (
            Surface::Chat,
            with(json!({})),
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "without max_tokens",
        ),
    ]);
}

#[test]
fn refused_turns_and_tools_of_a_second_collection_teach() {
    let tool = json!({"type": "function", "function": {"name": "todo", "parameters": {}}});
    let choice = json!({"type": "function", "function": {"name": "todo"}});
    check_found(&[
        // can1357/oh-my-pi#6925
        (
            Surface::Chat,
            with(json!({"tools": [tool], "tool_choice": choice})),
            r#"{"error":"Invalid tool_choice type: 'object'. Supported string values: none, auto, required"}"#,
            "forced_tools",
        ),
        // kaitranntt/ccs#219
        (
            Surface::Gemini,
            json!({"contents": [], "tools": [{"functionDeclarations": [{"name": "n".repeat(70)}]}]}),
            r#"{"error":{"code":400,"message":"The GenerateContentRequest proto is invalid:\n  * tools[0].function_declarations[72].name: [FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.","status":"INVALID_ARGUMENT"}}"#,
            "tool_name_max",
        ),
        // NousResearch/hermes-agent#45655
        (
            Surface::Chat,
            turn(json!({"reasoning_content": "t"})),
            "messages.2.assistant.reasoning_content: property 'reasoning_content' is unsupported",
            "past_reasoning",
        ),
        // anthropics/claude-code#4378: a text may be content
        (
            Surface::Messages,
            json!({"max_tokens": 9, "messages": [{"role": "user", "content": "a"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "i", "name": "f", "input": {}, "text": ""}]}]}),
            "messages.65.content.1.tool_use.text: Extra inputs are not permitted",
            "",
        ),
    ]);
}
