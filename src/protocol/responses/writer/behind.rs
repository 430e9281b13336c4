//! A writer that goes on with a response that another has begun.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{OpenOutput, ResponsesWriter};
use crate::protocol::responses::envelope::Envelope;
use crate::protocol::responses::numbered::Numbered;
use crate::protocol::responses::output::OutputText;

/// A message that was begun by another.
#[derive(Debug)]
pub struct OpenMessage {
    /// `output_index`
    pub index: usize,
    pub id: String,
    /// Parts that are done.
    pub content: Vec<Value>,
    /// The text of the part that is under way; none where none is.
    pub part: Option<String>,
}

impl ResponsesWriter {
    /// Goes on with a response that was begun: as its first event has it, behind the event of this number. Of its output those
    /// that are done, by their index.
    pub fn behind(
        response: &Map<String, Value>,
        number: u64,
        output: Vec<Value>,
        open: Option<OpenMessage>,
    ) -> ResponsesWriter {
        let open = match open {
            None => OpenOutput::Nothing,
            Some(OpenMessage { index, id, content, part }) => {
                OpenOutput::Message { index, id, content, part: part.map(|text| (OutputText::Text, text)) }
            }
        };
        ResponsesWriter {
            envelope: Envelope::behind(response),
            numbered: Numbered::behind(number),
            started: true,
            output,
            open,
            ..ResponsesWriter::new("", Arc::default())
        }
    }
}
