//! The grid of all histograms of the history, a histogram on it, and how numbers are packed into bytes. Histograms keep times
//! after their rows are removed.
//!
//! 32 buckets an octave: the middle of a bucket is off by 1.6 % at most. Values below 32 are exact. Not for exact
//! times: `spread` keeps those.

/// Buckets an octave, as a power of two.
const FINENESS: u32 = 5;
const PER_OCTAVE: i64 = 1 << FINENESS;
/// A larger value in a roll-up counts as this one: 50 days in microseconds.
const VALUE_MAX: i64 = (1 << 42) - 1;
/// Weights are stored in steps of 1/16.
const WEIGHT_STEPS: f64 = 16.0;

/// The bucket of a value. Negative values are in bucket 0.
pub fn bucket(value: i64) -> usize {
    let value = value.clamp(0, VALUE_MAX);
    if value < PER_OCTAVE {
        return value as usize;
    }
    let shift = value.ilog2() - FINENESS;
    (i64::from(shift) * PER_OCTAVE + (value >> shift)) as usize
}

/// The value in the middle of a bucket.
pub fn middle(bucket: usize) -> i64 {
    let (lower, width) = bounds(bucket);
    lower + (width - 1) / 2
}

/// The smallest value of a bucket.
pub(super) fn lower(bucket: usize) -> i64 {
    bounds(bucket).0
}

/// The smallest value of a bucket, and the number of values in it.
fn bounds(bucket: usize) -> (i64, i64) {
    let bucket = bucket as i64;
    let shift = (bucket / PER_OCTAVE - 1).clamp(0, 62);
    ((bucket - shift * PER_OCTAVE) << shift, 1 << shift)
}

/// The weight of values in each bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GridHistogram {
    weights: Vec<f64>,
}

impl GridHistogram {
    pub fn add(&mut self, value: i64, weight: f64) {
        self.add_to(bucket(value), weight);
    }

    pub fn merge(&mut self, other: &GridHistogram) {
        for (bucket, weight) in other.buckets() {
            self.add_to(bucket, weight);
        }
    }

    /// The buckets with content, rising, each with its number and weight.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, f64)> {
        self.weights.iter().copied().enumerate().filter(|(_, weight)| *weight != 0.0)
    }

    /// Appends the histogram to `bytes`: the number of buckets, and for each the distance from the one before and the
    /// weight.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        let stored = || self.buckets().map(|(bucket, weight)| (bucket, (weight * WEIGHT_STEPS).round() as u64));
        put(bytes, stored().count() as u64);
        let mut before = 0;
        for (bucket, weight) in stored() {
            put(bytes, (bucket - before) as u64);
            put(bytes, weight);
            before = bucket;
        }
    }

    /// Adds an encoded histogram. Returns the weight added.
    pub(super) fn absorb(&mut self, bytes: &mut ByteReader<'_>) -> Result<f64, ShortBytes> {
        let (mut at, mut sum) = (0_usize, 0.0);
        for _ in 0..bytes.take()? {
            at = at.saturating_add(usize::try_from(bytes.take()?).unwrap_or(usize::MAX)).min(bucket(VALUE_MAX));
            let weight = bytes.take()? as f64 / WEIGHT_STEPS;
            self.add_to(at, weight);
            sum += weight;
        }
        Ok(sum)
    }

    fn add_to(&mut self, bucket: usize, weight: f64) {
        if bucket >= self.weights.len() {
            self.weights.resize(bucket + 1, 0.0);
        }
        self.weights[bucket] += weight;
    }
}

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
    fn a_value_lies_within_its_bucket_and_close_to_the_middle() {
        let mut before = 0;
        for value in
            (0..5_000).chain((12..42).flat_map(|octave| [(1 << octave) - 1, 1 << octave, (1 << octave) * 4 / 3]))
        {
            let bucket = bucket(value);
            let (lower, width) = bounds(bucket);
            assert!((lower..lower + width).contains(&value), "{value} in {bucket}: {lower} + {width}");
            let off = (middle(bucket) - value).abs() as f64;
            assert!(off <= 0.0157 * value as f64, "{value} is shown as {}", middle(bucket));
            assert!(value >= PER_OCTAVE || off == 0.0);
            assert!(bucket >= before || value < 5_000, "buckets rise");
            before = bucket;
        }
        assert_eq!((bucket(-1), bucket(i64::MAX)), (0, bucket(VALUE_MAX)));
        assert_eq!((1..bucket(VALUE_MAX)).find(|&at| bounds(at).0 != bounds(at - 1).0 + bounds(at - 1).1), None);
    }

    #[test]
    fn what_is_stored_comes_back() {
        let mut histogram = GridHistogram::default();
        for (value, weight) in [(0, 1.0), (7, 2.0), (100_000, 50.0), (100_001, 1.4375), (i64::MAX, 3.0)] {
            histogram.add(value, weight);
        }
        let mut bytes = Vec::new();
        histogram.encode(&mut bytes);
        let (mut back, mut twice) = (GridHistogram::default(), histogram.clone());
        assert_eq!(back.absorb(&mut ByteReader::new(&bytes)), Ok(57.4375));
        assert_eq!(back, histogram);
        back.absorb(&mut ByteReader::new(&bytes)).unwrap();
        twice.merge(&histogram);
        assert_eq!(back, twice);
        for cut in 0..bytes.len() {
            assert!(GridHistogram::default().absorb(&mut ByteReader::new(&bytes[..cut])).is_err(), "{cut}");
        }
    }
}

#[cfg(test)]
mod bytes_tests {
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
