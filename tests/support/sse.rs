//! Server-sent events and lines of JSON, of whole bodies or of pieces: a simple implementation of the specification, to
//! compare other readers with.

/// The data of every event of a whole body.
pub fn sse_events(body: &[u8]) -> Vec<String> {
    SseReader::default().push(body)
}

/// Takes pieces in order and returns the data of complete events. Comments and other fields are left out. Supports LF
/// and CRLF; a single CR does not end a line.
#[derive(Debug, Default)]
pub struct SseReader {
    rest: Vec<u8>,
    data: Vec<String>,
}

impl SseReader {
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.rest.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8(line).expect("a stream of UTF-8");
            let line = line.trim_end_matches(['\n', '\r']);
            if let Some(data) = line.strip_prefix("data:") {
                self.data.push(data.strip_prefix(' ').unwrap_or(data).to_owned());
            } else if line.starts_with('{') {
                // A line of JSON, as Ollama streams them.
                events.push(line.to_owned());
            } else if line.is_empty() && !self.data.is_empty() {
                events.push(std::mem::take(&mut self.data).join("\n"));
            }
        }
        events
    }
}
