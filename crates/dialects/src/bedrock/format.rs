//! The formats of Bedrock's Converse API: which functions of this room read and write what. Not for reading and writing.

use super::*;
use crate::format::*;

/// Bedrock's Converse API.
pub struct BedrockFormat;

impl UpstreamFormat for BedrockFormat {
    fn read<'e>(&self, event: &'e SseEvent) -> Frame<'e> {
        read(event)
    }

    fn events_of_whole(&self, body: &[u8]) -> Option<Bytes> {
        events_of_whole(body)
    }

    fn reader(&self) -> Box<dyn ReadPieces> {
        Box::new(BedrockReader::default())
    }

    fn request(&self, conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
        request(conversation, options, losses)
    }

    fn path(&self, _surface: Surface, model: &str, streams: bool) -> Cow<'static, str> {
        path(model, streams).into()
    }

    fn embeddings_path(&self, _: Surface, model: &str) -> Cow<'static, str> {
        invoke_path(model).into()
    }
}
