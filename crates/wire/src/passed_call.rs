//! OpenAI's calls that the gateway does not read: audio, images, moderations and compactions. Requests and answers are passed
//! through byte for byte, except for `model`. Vocabulary: imports no dialect. Not for their bodies: see
//! `request::form` and `whole`.

/// A call whose answer is raced as a whole, whatever its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassedCall {
    /// Audio to text. Its request is a multipart form.
    Transcription,
    /// Text to audio.
    Speech,
    /// Text to images.
    Image,
    Moderation,
    /// A conversation of the Responses API to a short form of it.
    Compaction,
}

impl PassedCall {
    pub const ALL: [PassedCall; 5] = [
        PassedCall::Transcription,
        PassedCall::Speech,
        PassedCall::Image,
        PassedCall::Moderation,
        PassedCall::Compaction,
    ];

    /// The stored name, in `race.api`.
    pub fn as_str(self) -> &'static str {
        match self {
            PassedCall::Transcription => "transcriptions",
            PassedCall::Speech => "speech",
            PassedCall::Image => "images",
            PassedCall::Moderation => "moderations",
            PassedCall::Compaction => "compactions",
        }
    }

    /// The path at which the gateway serves it.
    pub fn path(self) -> &'static str {
        match self {
            PassedCall::Transcription => "/v1/audio/transcriptions",
            PassedCall::Speech => "/v1/audio/speech",
            PassedCall::Image => "/v1/images/generations",
            PassedCall::Moderation => "/v1/moderations",
            PassedCall::Compaction => "/v1/responses/compact",
        }
    }

    /// The path behind the base URL of an upstream.
    pub fn upstream_path(self) -> &'static str {
        self.path().trim_start_matches("/v1")
    }

    /// The member with the prompt of a JSON request.
    pub fn prompt(self) -> Option<&'static str> {
        match self {
            PassedCall::Transcription => None,
            PassedCall::Speech | PassedCall::Moderation | PassedCall::Compaction => Some("input"),
            PassedCall::Image => Some("prompt"),
        }
    }
}
