//! A signature or encrypted reasoning. It may be split over several deltas and is reported when complete.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::translate::AnswerPiece;
use crate::translate::signature::{SignatureOwner, tag};

/// The part received so far.
#[derive(Debug)]
pub(super) struct SealedEvent {
    block: u32,
    redacted: bool,
    data: String,
}

impl SealedEvent {
    /// The content of a delta. None if the delta is of another kind.
    pub fn of(block: u32, kind: &str, delta: &Value) -> Option<SealedEvent> {
        if kind != "reasoningContent" {
            return None;
        }
        let (kind, data) = delta.as_object()?.iter().next()?;
        let redacted = match kind.as_str() {
            "signature" => false,
            "redactedContent" => true,
            _ => return None,
        };
        let data = data.as_str().filter(|data| !data.is_empty())?.to_owned();
        Some(SealedEvent { block, redacted, data })
    }

    /// Whether `more` continues this one.
    pub fn takes(&self, more: &SealedEvent) -> bool {
        (self.block, self.redacted) == (more.block, more.redacted)
    }

    /// Each part of encrypted reasoning is base64 with its own padding.
    pub fn add(&mut self, more: &SealedEvent) {
        let whole = self.data.len().saturating_sub(4);
        let last = self.data.get(whole..).filter(|last| self.redacted && last.ends_with('='));
        match (last.map(|last| STANDARD.decode(last)), STANDARD.decode(&more.data)) {
            (Some(Ok(last)), Ok(more)) => {
                self.data.truncate(whole);
                self.data.push_str(&STANDARD.encode([last, more].concat()));
            }
            _ => self.data.push_str(&more.data),
        }
    }

    pub fn piece(self) -> AnswerPiece {
        let (block, data) = (self.block, tag(SignatureOwner::Anthropic, &self.data));
        match self.redacted {
            true => AnswerPiece::Redacted { index: 0, block, data },
            false => AnswerPiece::Signature { index: 0, block, signature: data },
        }
    }
}
