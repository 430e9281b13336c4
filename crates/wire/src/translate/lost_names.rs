//! The names by which a caller knows a member that a translation lost. Not for recording losses: see `neutral::losses`.

use crate::dialect::Surface;

/// Dialects report losses by chat's names. These are the names of Messages.
const OF_MESSAGES: [(&str, &str); 18] = [
    ("response_format.json_schema", "output_config.format"),
    ("response_format.json_schema.name", "output_config.format.name"),
    ("response_format.schema", "output_config.format.schema"),
    ("stop", "stop_sequences"),
    ("user", "metadata.user_id"),
    ("reasoning", "thinking"),
    ("reasoning_effort", "output_config.effort"),
    ("reasoning_content", "thinking"),
    ("reasoning.exclude", "thinking.display"),
    ("budget_tokens", "thinking.budget_tokens"),
    ("response_format", "output_config.format"),
    ("parallel_tool_calls", "tool_choice.disable_parallel_tool_use"),
    ("max_completion_tokens", "max_tokens"),
    ("image_url", "source.url"),
    ("document_url", "source.url"),
    ("document.url", "source.url"),
    ("file_id", "source.file_id"),
    ("document.title", "title"),
];
/// The names of Responses.
const OF_RESPONSES: [(&str, &str); 20] = [
    ("response_format.json_schema", "text.format"),
    ("response_format.json_schema.name", "text.format.name"),
    ("response_format.json_schema.description", "text.format.description"),
    ("response_format.schema", "text.format.schema"),
    ("max_tokens", "max_output_tokens"),
    ("max_completion_tokens", "max_output_tokens"),
    ("reasoning_effort", "reasoning.effort"),
    ("budget_tokens", "reasoning.effort"),
    ("thinking.budget_tokens", "reasoning.effort"),
    ("reasoning.exclude", "reasoning.summary"),
    ("reasoning.encrypted_content", "include"),
    ("reasoning_content", "reasoning"),
    ("thinking", "reasoning"),
    ("response_format", "text.format"),
    ("verbosity", "text.verbosity"),
    ("logprobs", "top_logprobs"),
    ("image_url.detail", "detail"),
    ("document_url", "file_url"),
    ("document.url", "file_url"),
    ("document.title", "filename"),
];

/// Ollama's names for them.
const OF_OLLAMA: [(&str, &str); 16] = [
    ("response_format.json_schema", "format"),
    ("response_format.schema", "format"),
    ("stop", "options.stop"),
    ("seed", "options.seed"),
    ("temperature", "options.temperature"),
    ("top_p", "options.top_p"),
    ("top_k", "options.top_k"),
    ("max_tokens", "options.num_predict"),
    ("max_completion_tokens", "options.num_predict"),
    ("presence_penalty", "options.presence_penalty"),
    ("frequency_penalty", "options.frequency_penalty"),
    ("response_format", "format"),
    ("reasoning", "think"),
    ("reasoning_effort", "think"),
    ("thinking", "messages.thinking"),
    ("reasoning_content", "messages.thinking"),
];

/// Gemini's names for them.
const OF_GEMINI: [(&str, &str); 17] = [
    ("response_format.json_schema", "generationConfig.responseJsonSchema"),
    ("response_format.schema", "generationConfig.responseJsonSchema"),
    ("stop", "generationConfig.stopSequences"),
    ("seed", "generationConfig.seed"),
    ("temperature", "generationConfig.temperature"),
    ("top_p", "generationConfig.topP"),
    ("top_k", "generationConfig.topK"),
    ("n", "generationConfig.candidateCount"),
    ("max_tokens", "generationConfig.maxOutputTokens"),
    ("presence_penalty", "generationConfig.presencePenalty"),
    ("frequency_penalty", "generationConfig.frequencyPenalty"),
    ("logprobs", "generationConfig.responseLogprobs"),
    ("top_logprobs", "generationConfig.logprobs"),
    ("response_format", "generationConfig.responseMimeType"),
    ("reasoning", "generationConfig.thinkingConfig"),
    ("reasoning_effort", "generationConfig.thinkingConfig"),
    ("tool_choice", "toolConfig"),
];

/// The caller's name for a lost member.
pub(crate) fn name_of(surface: Surface, name: &str) -> &str {
    let table: &[(&str, &'static str)] = match surface {
        Surface::Messages => &OF_MESSAGES,
        Surface::Responses => &OF_RESPONSES,
        Surface::OllamaChat | Surface::OllamaGenerate => &OF_OLLAMA,
        Surface::Gemini => &OF_GEMINI,
        _ => &[],
    };
    table.iter().find(|(chat, _)| *chat == name).map_or(name, |(_, own)| own)
}
