//! The formats of Gemini's dialect: which functions of this room read and write what. Not for reading and writing.

use super::*;
use crate::format::*;
use crate::openai;

/// Gemini's dialect.
pub struct GeminiFormat;

impl UpstreamFormat for GeminiFormat {
    fn read<'e>(&self, event: &'e SseEvent) -> Frame<'e> {
        read(event)
    }

    fn events_of_whole(&self, body: &[u8]) -> Option<Bytes> {
        events_of_whole(body)
    }

    fn reader(&self) -> Box<dyn ReadPieces> {
        Box::new(GeminiReader::default())
    }

    fn request(&self, conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
        request(conversation, options, losses)
    }

    fn path(&self, surface: Surface, model: &str, streams: bool) -> Cow<'static, str> {
        match surface {
            Surface::GeminiCount => counting_path(model).into(),
            _ => path(model, streams).into(),
        }
    }

    fn embeddings_path(&self, surface: Surface, model: &str) -> Cow<'static, str> {
        embedding_path(model, surface != Surface::GeminiEmbed).into()
    }
}

impl ClientFormat for GeminiFormat {
    fn conversation(&self, _surface: Surface, body: &[u8]) -> Result<Conversation, Invalid> {
        conversation(body)
    }

    fn writer(&self, asked: &AskedWriting<'_>) -> Box<dyn WritePieces> {
        Box::new(InTurn::new(GeminiWriter::new(asked.model)))
    }

    fn growing(&self) -> GrowingAnswer {
        GrowingAnswer::new(GeminiWhole)
    }

    fn without_reasoning(&self, body: &[u8], taken: RemovedReasoning) -> Option<Vec<u8>> {
        without_reasoning(body, taken)
    }

    fn error(&self, of: &ErrorShape<'_>) -> Value {
        error(of)
    }
    fn is_error_event(&self, event: &SseEvent) -> bool {
        openai::is_error_event(event)
    }
}
