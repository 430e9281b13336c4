//! The formats of Ollama's dialect: which functions of this room read and write what. Not for reading and writing.

use super::*;
use crate::format::*;

/// Ollama's dialect.
pub struct OllamaFormat;

impl UpstreamFormat for OllamaFormat {
    fn read<'e>(&self, event: &'e SseEvent) -> Frame<'e> {
        read(event)
    }

    fn events_of_whole(&self, body: &[u8]) -> Option<Bytes> {
        events_of_whole(body)
    }

    fn reader(&self) -> Box<dyn ReadPieces> {
        Box::new(OllamaReader::default())
    }

    fn request(&self, conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
        request(conversation, options, losses)
    }

    fn path(&self, surface: Surface, _model: &str, _streams: bool) -> Cow<'static, str> {
        match surface {
            Surface::OllamaGenerate => "/api/generate".into(),
            _ => "/api/chat".into(),
        }
    }

    fn embeddings_path(&self, surface: Surface, _: &str) -> Cow<'static, str> {
        if surface == Surface::OllamaEmbeddings { "/api/embeddings".into() } else { "/api/embed".into() }
    }
}

impl ClientFormat for OllamaFormat {
    fn conversation(&self, surface: Surface, body: &[u8]) -> Result<Conversation, Invalid> {
        if surface == Surface::OllamaGenerate { generate(body) } else { chat(body) }
    }

    fn writer(&self, asked: &AskedWriting<'_>) -> Box<dyn WritePieces> {
        Box::new(InTurn::new(OllamaWriter::new(OllamaForm::of(asked.surface), asked.model)))
    }

    fn growing(&self) -> GrowingAnswer {
        GrowingAnswer::new(OllamaWhole)
    }

    fn error(&self, of: &ErrorShape<'_>) -> Value {
        error(of)
    }

    fn error_event(&self, of: &ErrorShape<'_>) -> Bytes {
        format!("{}\n", error(of)).into()
    }

    fn own_error_event(&self, said: &Value) -> Option<Bytes> {
        said["error"].is_string().then(|| format!("{said}\n").into())
    }

    fn is_error_event(&self, event: &SseEvent) -> bool {
        is_error_line(event)
    }
}
