//! Finds the quotes, backslashes and control characters of 64 bytes at once.
//!
//! Not for where a string ends: see `string_end`.

use wide::u8x16;

/// One bit for each byte, the lowest for the first: whether it is a quote, a backslash or a control character.
#[inline]
pub(super) fn specials(block: &[u8; 64]) -> u64 {
    let of_16 = |bytes: u8x16| {
        let is_special = bytes.simd_eq(u8x16::splat(b'"'))
            | bytes.simd_eq(u8x16::splat(b'\\'))
            | bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
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
        fn each_byte_has_its_bit(block: [u8; 64]) {
            let bits = block.iter().enumerate().map(|(place, byte)| u64::from(is_special(*byte)) << place);
            proptest::prop_assert_eq!(specials(&block), bits.sum::<u64>());
        }
    }

    #[test]
    fn each_value_of_a_byte_is_judged() {
        for byte in 0..=u8::MAX {
            assert_eq!(specials(&[byte; 64]), if is_special(byte) { u64::MAX } else { 0 }, "{byte}");
        }
    }
}
