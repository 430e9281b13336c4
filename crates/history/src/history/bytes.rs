//! Variable-length integers for packed summaries: seven bits a byte, lowest first.
//!
//! Not for values that SQL must read.

/// The bytes end too early or are not such an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a rolled-up summary is damaged")]
pub struct ShortBytes;

pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Eight bytes, exact.
pub(super) fn put_f64(bytes: &mut Vec<u8>, number: f64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

/// Reads the numbers back in the same order.
pub(super) struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader(bytes)
    }

    pub fn take(&mut self) -> Result<u64, ShortBytes> {
        let (mut number, mut shift) = (0_u64, 0);
        loop {
            let (&byte, rest) = self.0.split_first().ok_or(ShortBytes)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f).checked_shl(shift).ok_or(ShortBytes)?;
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    pub fn take_f64(&mut self) -> Result<f64, ShortBytes> {
        Ok(f64::from_le_bytes(*self.take_chunk()?))
    }

    pub fn take_chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], ShortBytes> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or(ShortBytes)?;
        self.0 = rest;
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| put(&mut bytes, *number));
        put_f64(&mut bytes, -0.1);
        let mut reader = ByteReader::new(&bytes);
        assert_eq!(numbers.map(|_| reader.take().unwrap()), numbers);
        assert_eq!((reader.take_f64(), reader.take()), (Ok(-0.1), Err(ShortBytes)));
        assert_eq!(ByteReader::new(&[0xff; 11]).take(), Err(ShortBytes));
    }
}
