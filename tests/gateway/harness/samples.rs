//! A request with every kind of content for each surface; and answers of each dialect: only a tool call, whole or cut,
//! and only reasoning.

use serde_json::{Value, json};

use crate::harness::surface::Surface;
use crate::support::{Dialect, Script, frame};

/// Arguments cut by a provider. A lenient parser completes them to a valid call.
pub const CUT: &str = r#"{"path":"/srv/data","recursive":true,"exclude":["/srv/data/ke"#;

/// A request with every kind of content that the surface has and other dialects can express.
pub fn conversation(surface: Surface) -> Value {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]});
    let image = "data:image/png;base64,aGk=";
    match surface {
        Surface::Chat => json!({
            "model": "m", "stream": false, "temperature": 0.5, "top_p": 0.9, "max_completion_tokens": 9, "stop": ["a"],
            "reasoning_effort": "low", "parallel_tool_calls": true, "n": 1, "user": "u", "metadata": {"k": "v"},
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [
                    {"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": image, "detail": "low"}}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\":\"1\"}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "done"},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": schema, "strict": true}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": true}},
        }),
        Surface::Responses => json!({
            "model": "m", "stream": false, "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 9, "store": false,
            "instructions": "be brief", "reasoning": {"effort": "low", "summary": "auto"}, "parallel_tool_calls": true,
            "input": [
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": image, "detail": "low"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "e"},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"x\":\"1\"}"},
                {"type": "function_call_output", "call_id": "c1", "output": "done"},
            ],
            "tools": [{"type": "function", "name": "f", "description": "d", "parameters": schema, "strict": true}],
            "tool_choice": {"type": "function", "name": "f"}, "include": ["reasoning.encrypted_content"],
            "text": {"format": {"type": "json_schema", "name": "s", "schema": schema, "strict": true}},
        }),
        Surface::Messages => json!({
            "model": "m", "stream": false, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "max_tokens": 2_000,
            "stop_sequences": ["a"], "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
            "metadata": {"user_id": "u"}, "thinking": {"type": "enabled", "budget_tokens": 1_024},
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}, "title": "t"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": "1"}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "done"}], "is_error": false}]},
            ],
            "tools": [{"name": "f", "description": "d", "input_schema": schema}], "tool_choice": {"type": "tool", "name": "f"},
        }),
        Surface::Gemini => gemini(&schema),
        Surface::Ollama => ollama(&schema),
    }
}

fn gemini(schema: &Value) -> Value {
    json!({
            "systemInstruction": {"parts": [{"text": "be brief"}]}, "safetySettings": [],
            "generationConfig": {"temperature": 0.5, "topP": 0.9, "topK": 5, "maxOutputTokens": 2_000, "stopSequences": ["a"], "seed": 7,
                "thinkingConfig": {"thinkingBudget": 1_024, "includeThoughts": true},
                "responseMimeType": "application/json", "responseSchema": {"type": "OBJECT", "properties": {"x": {"type": "STRING"}}}},
            "contents": [
                {"role": "user", "parts": [{"text": "look"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}]},
                {"role": "model", "parts": [
                    {"text": "h", "thought": true}, {"text": "m", "thought": true, "thoughtSignature": "c2ln"},
                    {"functionCall": {"name": "f", "args": {"x": "1"}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "done"}}}]},
            ],
            "tools": [{"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": schema}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    })
}

fn ollama(schema: &Value) -> Value {
    json!({
            "model": "m", "stream": false, "keep_alive": "5m", "think": true, "format": schema,
            "options": {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "num_predict": 2_000, "stop": ["a"], "seed": 7, "num_ctx": 4_096},
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "look", "images": ["iVBORaGk="]},
                {"role": "assistant", "content": "", "thinking": "hm",
                    "tool_calls": [{"function": {"name": "f", "arguments": {"x": "1"}}}]},
                {"role": "tool", "tool_name": "f", "content": "done"},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}],
    })
}

fn named(events: &[Value]) -> Script {
    events.iter().fold(Script::sse(), |script, event| {
        script.chunk(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
    })
}

/// A call of `f` with these arguments, without the end of the stream.
pub fn call_without_end(arguments: &str) -> Script {
    let call =
        |function: Value| json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]});
    let more = json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
    Script::sse().role().delta(call(json!({"name": "f", "arguments": ""}))).delta(more)
}

/// A call of `f` with these arguments, and the end of the stream, which marks it as complete.
pub fn calling(dialect: Dialect, arguments: &str) -> Script {
    match dialect {
        Dialect::OpenAi => call_without_end(arguments).finish("tool_calls").done().end(),
        Dialect::Anthropic => {
            let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
                "stop_reason": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
            let block = json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}});
            let delta = json!({"type": "input_json_delta", "partial_json": arguments});
            named(&[
                json!({"type": "message_start", "message": message}),
                json!({"type": "content_block_start", "index": 0, "content_block": block}),
                json!({"type": "content_block_delta", "index": 0, "delta": delta}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}),
                json!({"type": "message_stop"}),
            ])
            .end()
        }
        Dialect::Responses => {
            let item = |arguments: &str| json!({"type": "function_call", "id": "fc", "call_id": "c1", "name": "f", "arguments": arguments});
            let response = |output: Value| json!({"id": "resp", "object": "response", "status": "completed", "model": "m", "output": output});
            named(&[
                json!({"type": "response.created", "sequence_number": 0, "response": response(json!([]))}),
                json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item("")}),
                json!({"type": "response.function_call_arguments.delta", "sequence_number": 2, "output_index": 0, "delta": arguments}),
                json!({"type": "response.output_item.done", "sequence_number": 3, "output_index": 0, "item": item(arguments)}),
                json!({"type": "response.completed", "sequence_number": 4, "response": response(json!([item(arguments)]))}),
            ])
            .end()
        }
        Dialect::Gemini => {
            let part = json!({"functionCall": {"name": "f", "args": arguments}});
            let candidate = json!({"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0});
            Script::of(dialect).open().event(json!({"candidates": [candidate]})).end()
        }
        Dialect::Bedrock => {
            let start = json!({"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t", "name": "f"}}});
            let delta = json!({"contentBlockIndex": 0, "delta": {"toolUse": {"input": arguments}}});
            [
                ("contentBlockStart", start),
                ("contentBlockDelta", delta),
                ("contentBlockStop", json!({"contentBlockIndex": 0})),
                ("messageStop", json!({"stopReason": "tool_use"})),
                ("metadata", json!({"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}})),
            ]
            .iter()
            .fold(Script::of(dialect).open().role(), |script, (name, payload)| script.chunk(frame(name, payload)))
            .end()
        }
        Dialect::Ollama => {
            let call = json!([{"function": {"name": "f", "arguments": arguments}}]);
            let line =
                |message: Value, done: bool| format!("{}\n", json!({"model": "m", "message": message, "done": done}));
            Script::of(dialect)
                .open()
                .chunk(line(json!({"role": "assistant", "content": "", "tool_calls": call}), false))
                .chunk(line(json!({"role": "assistant", "content": ""}), true))
                .end()
        }
    }
}

/// Reasoning and the end of the stream.
pub fn reasoning(dialect: Dialect) -> Script {
    let script = Script::of(dialect).open().role();
    match dialect {
        Dialect::OpenAi => script.delta(json!({"reasoning_content": "hm"})).finish("stop").done().end(),
        Dialect::Anthropic => {
            let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
                "stop_reason": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
            let thought = json!({"type": "thinking", "thinking": "", "signature": ""});
            let delta = json!({"type": "thinking_delta", "thinking": "hm"});
            named(&[
                json!({"type": "message_start", "message": message}),
                json!({"type": "content_block_start", "index": 0, "content_block": thought}),
                json!({"type": "content_block_delta", "index": 0, "delta": delta}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
                json!({"type": "message_stop"}),
            ])
            .end()
        }
        Dialect::Responses => {
            let item = json!({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]});
            let response = |output: Value| json!({"id": "resp", "object": "response", "status": "completed", "model": "m", "output": output});
            named(&[
                json!({"type": "response.created", "sequence_number": 0, "response": response(json!([]))}),
                json!({"type": "response.reasoning_summary_text.delta", "sequence_number": 1, "output_index": 0, "delta": "hm"}),
                json!({"type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": item}),
                json!({"type": "response.completed", "sequence_number": 3, "response": response(json!([item]))}),
            ])
            .end()
        }
        Dialect::Gemini => {
            let parts = json!([{"text": "hm", "thought": true}]);
            let candidate = json!({"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0});
            script.event(json!({"candidates": [candidate]})).end()
        }
        Dialect::Bedrock => {
            let delta = json!({"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "hm"}}});
            script.chunk(frame("contentBlockDelta", &delta)).finish("stop").done().end()
        }
        Dialect::Ollama => {
            let message = json!({"role": "assistant", "content": "", "thinking": "hm"});
            let line = json!({"model": "m", "message": message, "done": false});
            script.chunk(format!("{line}\n")).finish("stop").done().end()
        }
    }
}
