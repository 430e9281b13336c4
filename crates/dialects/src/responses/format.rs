//! The formats of the Responses API: which functions of this room read and write what. Not for reading and writing.

use super::*;
use crate::format::*;
use crate::openai;

/// The Responses API.
pub struct ResponsesFormat;

impl UpstreamFormat for ResponsesFormat {
    fn read<'e>(&self, event: &'e SseEvent) -> Frame<'e> {
        read(event)
    }

    fn events_of_whole(&self, body: &[u8]) -> Option<Bytes> {
        events_of_whole(body)
    }

    fn reader(&self) -> Box<dyn ReadPieces> {
        Box::new(ResponsesReader::default())
    }

    fn request(&self, conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
        request(conversation, options, losses)
    }

    fn has_custom_tools(&self, _: &TranslationOptions) -> bool {
        true
    }

    fn path(&self, surface: Surface, _model: &str, _streams: bool) -> Cow<'static, str> {
        match surface {
            Surface::Passed(call) => call.upstream_path().into(),
            _ => "/responses".into(),
        }
    }
}

impl ClientFormat for ResponsesFormat {
    fn conversation(&self, _surface: Surface, body: &[u8]) -> Result<Conversation, Invalid> {
        conversation(body)
    }

    fn writer(&self, asked: &AskedWriting<'_>) -> Box<dyn WritePieces> {
        Box::new(ResponsesWriter::new(asked.model, asked.echo.clone()).compacting(asked.compacts))
    }

    fn growing(&self) -> GrowingAnswer {
        GrowingAnswer::new(ResponseWhole)
    }

    fn without_reasoning(&self, body: &[u8], taken: RemovedReasoning) -> Option<Vec<u8>> {
        without_reasoning(body, taken)
    }

    fn error_event(&self, error: &ErrorShape<'_>) -> Bytes {
        error_event(error)
    }

    fn own_error_event(&self, _: &Value) -> Option<Bytes> {
        None
    }

    fn is_error_event(&self, event: &SseEvent) -> bool {
        is_error_event(event)
    }
    fn error(&self, of: &ErrorShape<'_>) -> Value {
        openai::error(of)
    }
}
