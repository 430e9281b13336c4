//! How a line of the log is written.

/// `log = "text"` or `"json"`: how a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For human readers; coloured on a terminal.
    #[default]
    Text,
    /// One JSON object a line, with the spans under `spans`.
    Json,
}

impl LogFormat {
    pub const ALL: [LogFormat; 2] = [LogFormat::Text, LogFormat::Json];

    pub fn as_str(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}
