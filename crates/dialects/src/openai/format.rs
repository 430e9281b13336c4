//! The formats of OpenAI's dialect: which functions of this room read and write what. Not for reading and writing.

use super::*;
use crate::format::*;

/// OpenAI's dialect.
pub struct OpenAiFormat;

impl UpstreamFormat for OpenAiFormat {
    fn read<'e>(&self, event: &'e SseEvent) -> Frame<'e> {
        read(event)
    }

    fn events_of_whole(&self, body: &[u8]) -> Option<Bytes> {
        events_of_whole(body)
    }

    fn reader(&self) -> Box<dyn ReadPieces> {
        Box::new(OpenAiReader::default())
    }

    fn request(&self, conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
        request(conversation, options, losses)
    }

    /// Only OpenAI itself. Other servers of this dialect know only functions.
    fn has_custom_tools(&self, options: &TranslationOptions) -> bool {
        options.quirks.max_completion_tokens
    }

    fn path(&self, surface: Surface, _model: &str, _streams: bool) -> Cow<'static, str> {
        match surface {
            Surface::Completions => "/completions".into(),
            Surface::Passed(call) => call.upstream_path().into(),
            _ => "/chat/completions".into(),
        }
    }
}

impl ClientFormat for OpenAiFormat {
    fn conversation(&self, _surface: Surface, body: &[u8]) -> Result<Conversation, Invalid> {
        conversation(body)
    }

    fn writer(&self, asked: &AskedWriting<'_>) -> Box<dyn WritePieces> {
        Box::new(OpenAiWriter::new(asked.model, asked.include_usage, asked.legacy_functions))
    }

    fn growing(&self) -> GrowingAnswer {
        GrowingAnswer::new(ChatWhole::default())
    }

    fn without_reasoning(&self, body: &[u8], taken: RemovedReasoning) -> Option<Vec<u8>> {
        without_reasoning(body, taken)
    }
    fn error(&self, of: &ErrorShape<'_>) -> Value {
        error(of)
    }

    fn is_error_event(&self, event: &SseEvent) -> bool {
        is_error_event(event)
    }
}
