//! Simulated embeddings: a small vector for each input, always the same for the same text. They mean nothing.

use fastrand::Rng;
use serde_json::{Value, json};

use super::request::ValidRequest;

/// Numbers of a vector, where the request names none.
const DIMENSIONS: u32 = 8;

/// The whole answer; one without vectors if it is to be `empty`.
pub(super) fn embeddings(wanted: &ValidRequest, empty: bool) -> Value {
    let dimensions = wanted.dimensions.unwrap_or(DIMENSIONS);
    let inputs = wanted.inputs.iter().filter(|_| !empty).enumerate();
    let data: Vec<Value> = inputs
        .map(|(index, input)| {
            let vector = vector(input, dimensions);
            let embedding = if wanted.base64 { Value::from(base64(&vector)) } else { Value::from(vector) };
            json!({ "object": "embedding", "index": index, "embedding": embedding })
        })
        .collect();
    json!({
        "object": "list",
        "data": data,
        "model": wanted.model,
        "usage": { "prompt_tokens": wanted.prompt_tokens, "total_tokens": wanted.prompt_tokens },
    })
}

/// Of length 1.
fn vector(input: &str, dimensions: u32) -> Vec<f32> {
    let mut rng = Rng::with_seed(seed(input));
    let numbers: Vec<f64> = (0..dimensions).map(|_| rng.f64() - 0.5).collect();
    let length = numbers.iter().map(|number| number * number).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    numbers.into_iter().map(|number| (number / length) as f32).collect()
}

/// FNV-1a, which is the same on every machine and in every version.
fn seed(input: &str) -> u64 {
    input.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Floats as little-endian bytes, in base64.
fn base64(vector: &[f32]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= three.len() { letter as char } else { '=' });
        }
    }
    text
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
