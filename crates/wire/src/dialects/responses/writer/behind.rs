//! Makes a writer that continues a response that another upstream began.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{OpenOutput, ResponsesWriter};
use crate::dialects::responses::envelope::Envelope;
use crate::dialects::responses::namespaces::Namespaces;
use crate::dialects::responses::numbered::Numbered;
use crate::dialects::responses::output::OutputText;

/// An open message of another upstream.
#[derive(Debug)]
pub struct OpenMessage {
    /// `output_index`
    pub index: usize,
    pub id: String,
    /// Finished parts.
    pub content: Vec<Value>,
    /// The text of the open part, if any.
    pub part: Option<String>,
}

impl ResponsesWriter {
    /// Continues a response: `response` from its first event, `number` of its last event, and the finished items by
    /// index.
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
            namespaces: Namespaces::of(response),
            envelope: Envelope::behind(response),
            numbered: Numbered::behind(number),
            started: true,
            output,
            open,
            ..ResponsesWriter::new("", Arc::default())
        }
    }
}
