//! Finds the quotes, backslashes and control characters of 64 bytes at once.
//!
//! Not for where a string ends: see `string_end`.

use wide::u8x16;

/// Bytes that are looked at together.
pub(super) const BYTES: usize = 64;

/// One bit for each byte, the lowest for the first: whether it is a quote, a backslash or a control character.
#[inline]
pub(super) fn specials(block: &[u8; BYTES]) -> u64 {
    let of_16 = |bytes: u8x16| {
        // Flipping this bit moves the quote next to the control characters, and the space away. Then each of both is 0 for what is found.
        let beyond_controls = (bytes ^ u8x16::splat(b'"' ^ b' ')).saturating_sub(u8x16::splat(b' '));
        let is_special = beyond_controls.min(bytes ^ u8x16::splat(b'\\')).simd_eq(u8x16::splat(0));
        u64::from(is_special.to_bitmask())
    };
    let mut found = 0;
    for (place, bytes) in block.as_chunks().0.iter().enumerate() {
        found |= of_16(u8x16::new(*bytes)) << (16 * place);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_special(byte: u8) -> bool {
        matches!(byte, b'"' | b'\\' | ..0x20)
    }

    proptest::proptest! {
        #[test]
        fn each_byte_has_its_bit(block: [u8; BYTES]) {
            let bits = block.iter().enumerate().map(|(place, byte)| u64::from(is_special(*byte)) << place);
            proptest::prop_assert_eq!(specials(&block), bits.sum::<u64>());
        }
    }

    #[test]
    fn each_value_of_a_byte_is_judged() {
        for byte in 0..=u8::MAX {
            assert_eq!(specials(&[byte; BYTES]), if is_special(byte) { u64::MAX } else { 0 }, "{byte}");
        }
    }
}
