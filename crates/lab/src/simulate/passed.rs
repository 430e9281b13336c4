//! Simulated audio, images and moderations: the smallest valid answers. Not for their time: see `answer`.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::request::ValidRequest;
use photofinish_wire::protocol::passed_call::PassedCall;

/// A transparent PNG of one pixel, in base64.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAAC0lEQVR4nGNgAAIAAAUAAXpeqz8AAAAASUVORK5CYII=";
/// Samples per second of simulated speech: one byte each, mono.
const SAMPLES: u32 = 8_000;
/// Simulated speech: a tenth of a second of silence.
const SPOKEN: u32 = SAMPLES / 10;

/// The body of an answer and its content type. `text` is the transcript.
pub(super) fn answer(call: PassedCall, request: &ValidRequest, text: &str) -> (&'static str, Bytes) {
    let json = |value: Value| ("application/json", Bytes::from(value.to_string()));
    match call {
        PassedCall::Transcription => json(json!({ "text": text })),
        PassedCall::Speech => ("audio/wav", wav()),
        PassedCall::Image => json(json!({ "created": 0, "data": [{ "b64_json": PIXEL }] })),
        // A simulated provider does not speak the Responses API.
        PassedCall::Compaction => json(json!({ "object": "response.compaction", "output": [] })),
        PassedCall::Moderation => {
            let result = json!({ "flagged": false, "categories": {}, "category_scores": {} });
            let results = vec![result; request.inputs.len().max(1)];
            json(json!({ "id": "modr-simulated", "model": request.model, "results": results }))
        }
    }
}

/// Silence as a WAV file.
fn wav() -> Bytes {
    let mut wav = BytesMut::new();
    wav.put_slice(b"RIFF");
    wav.put_u32_le(36 + SPOKEN);
    wav.put_slice(b"WAVEfmt ");
    wav.put_u32_le(16);
    // Uncompressed, one channel.
    wav.put_u16_le(1);
    wav.put_u16_le(1);
    wav.put_u32_le(SAMPLES);
    // Bytes per second, bytes per sample, bits per sample.
    wav.put_u32_le(SAMPLES);
    wav.put_u16_le(1);
    wav.put_u16_le(8);
    wav.put_slice(b"data");
    wav.put_u32_le(SPOKEN);
    wav.put_bytes(0x80, SPOKEN as usize);
    wav.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_has_the_lengths_that_it_names() {
        let wav = wav();
        let number = |at: usize| u32::from_le_bytes(wav[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!((&wav[..4], &wav[8..16], &wav[36..40]), (&b"RIFF"[..], &b"WAVEfmt "[..], &b"data"[..]));
        assert_eq!((number(4) + 8, number(40) + 44), (wav.len(), wav.len()));
    }
}
