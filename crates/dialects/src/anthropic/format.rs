//! The formats of Anthropic's dialect: which functions of this room read and write what. Not for reading and writing.

use super::*;
use crate::format::*;

/// Anthropic's dialect.
pub struct AnthropicFormat;

impl UpstreamFormat for AnthropicFormat {
    fn read<'e>(&self, event: &'e SseEvent) -> Frame<'e> {
        read(event)
    }

    fn events_of_whole(&self, body: &[u8]) -> Option<Bytes> {
        events_of_whole(body)
    }

    fn reader(&self) -> Box<dyn ReadPieces> {
        Box::new(AnthropicReader::default())
    }

    fn request(&self, conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
        request(conversation, options, losses)
    }

    fn path(&self, surface: Surface, _model: &str, _streams: bool) -> Cow<'static, str> {
        match surface {
            Surface::CountTokens => "/messages/count_tokens".into(),
            _ => "/messages".into(),
        }
    }
}

impl ClientFormat for AnthropicFormat {
    fn conversation(&self, _surface: Surface, body: &[u8]) -> Result<Conversation, Invalid> {
        conversation(body)
    }

    fn writer(&self, asked: &AskedWriting<'_>) -> Box<dyn WritePieces> {
        Box::new(InTurn::new(AnthropicWriter::new(asked.model)))
    }

    fn growing(&self) -> GrowingAnswer {
        GrowingAnswer::new(MessageWhole)
    }

    fn without_reasoning(&self, body: &[u8], taken: RemovedReasoning) -> Option<Vec<u8>> {
        without_reasoning(body, taken)
    }

    fn error(&self, of: &ErrorShape<'_>) -> Value {
        error(of)
    }

    fn error_event(&self, of: &ErrorShape<'_>) -> Bytes {
        format!("event: error\ndata: {}\n\n", error(of)).into()
    }

    fn own_error_event(&self, said: &Value) -> Option<Bytes> {
        said["error"].is_object().then(|| format!("event: error\ndata: {said}\n\n").into())
    }

    fn is_error_event(&self, event: &SseEvent) -> bool {
        is_error_event(event)
    }
}
