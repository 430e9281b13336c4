//! Simulated embeddings: a small vector per input, always the same for the same text. Not for comparing meanings.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use serde_json::{Value, json};

use super::request::ValidRequest;

/// Numbers of a vector, unless the request sets them.
const DIMENSIONS: u32 = 8;

/// The whole answer; without vectors if `empty`, with its usage if `usage`.
pub(super) fn embeddings(wanted: &ValidRequest, empty: bool, usage: bool) -> Value {
    let dimensions = wanted.dimensions.unwrap_or(DIMENSIONS);
    let inputs = wanted.inputs.iter().filter(|_| !empty).enumerate();
    let data: Vec<Value> = inputs
        .map(|(index, input)| {
            let vector = vector(input, dimensions);
            let embedding = if wanted.base64 { Value::from(base64(&vector)) } else { Value::from(vector) };
            json!({ "object": "embedding", "index": index, "embedding": embedding })
        })
        .collect();
    let mut answer = json!({ "object": "list", "data": data, "model": wanted.model });
    if usage {
        answer["usage"] = json!({ "prompt_tokens": wanted.prompt_tokens, "total_tokens": wanted.prompt_tokens });
    }
    answer
}

/// A vector of length 1.
fn vector(input: &str, dimensions: u32) -> Vec<f32> {
    let mut rng = Rng::with_seed(seed(input));
    let numbers: Vec<f64> = (0..dimensions).map(|_| rng.f64() - 0.5).collect();
    let length = numbers.iter().map(|number| number * number).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    numbers.into_iter().map(|number| (number / length) as f32).collect()
}

/// FNV-1a: the same on every machine and in every version.
fn seed(input: &str) -> u64 {
    input.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Floats as little-endian bytes, in base64.
fn base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_packed_as_the_official_clients_unpack_them() {
        assert_eq!(base64(&[]), "");
        assert_eq!(base64(&[1.0]), "AACAPw==");
        assert_eq!(base64(&[1.0, -2.0]), "AACAPwAAAMA=");
        assert_eq!(base64(&[1.0, -2.0, 0.5]), "AACAPwAAAMAAAAA/");
    }
}
