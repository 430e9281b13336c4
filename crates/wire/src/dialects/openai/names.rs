//! Members that every chunk of a chat or completions answer repeats. A continued stream must keep them.

use serde_json::Value;

/// Members that every chunk repeats.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkNames {
    pub id: String,
    pub model: String,
    /// Seconds since 1970, UTC.
    pub created: u64,
}

impl ChunkNames {
    pub fn of(chunk: &[u8]) -> Option<ChunkNames> {
        let chunk: Value = serde_json::from_slice(chunk).ok().filter(Value::is_object)?;
        let text = |name: &str| chunk[name].as_str().unwrap_or_default().to_owned();
        Some(ChunkNames {
            id: text("id"),
            model: text("model"),
            created: chunk["created"].as_f64().map_or(0, |created| created as u64),
        })
    }
}
