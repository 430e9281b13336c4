//! The bytes of a body, in parts: a long body for another upstream shares what is the same, and is copied nowhere. Not for streams.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

/// Bodies of at least this many bytes are shared. A shorter one is copied, and goes out in one piece.
const SHARED_MIN: usize = 64 << 10;
/// Shorter pieces of a shared body are copied too. Copies do not count as memory, so they must stay few.
const PIECE_MIN: usize = 4 << 10;

/// The bytes of a body. They are never printed.
#[derive(Clone, Default)]
pub struct BodyParts {
    first: Bytes,
    rest: VecDeque<Bytes>,
}

impl BodyParts {
    /// All bytes.
    pub fn len(&self) -> usize {
        self.first.len() + self.rest.iter().map(Bytes::len).sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the next part. None at the end.
    pub fn next_part(&mut self) -> Option<Bytes> {
        let next = std::mem::replace(&mut self.first, self.rest.pop_front().unwrap_or_default());
        (!next.is_empty()).then_some(next)
    }

    /// In one piece.
    pub fn joined(&self) -> Bytes {
        if self.rest.is_empty() {
            return self.first.clone();
        }
        std::iter::once(&self.first).chain(&self.rest).flat_map(|part| part.iter().copied()).collect()
    }

    fn push(&mut self, part: Bytes) {
        match part.is_empty() {
            true => {}
            false if self.first.is_empty() => self.first = part,
            false => self.rest.push_back(part),
        }
    }
}

impl From<Bytes> for BodyParts {
    fn from(first: Bytes) -> BodyParts {
        BodyParts { first, rest: VecDeque::new() }
    }
}

/// Writes a body that keeps most of another one.
pub struct Splicer<'a> {
    kept: &'a Bytes,
    parts: BodyParts,
    written: Vec<u8>,
}

impl<'a> Splicer<'a> {
    /// `more`: about as many bytes are written between what is kept of `kept`.
    pub fn new(kept: &'a Bytes, more: usize) -> Splicer<'a> {
        let room = if kept.len() < SHARED_MIN { kept.len() + more } else { more };
        Splicer { kept, parts: BodyParts::default(), written: Vec::with_capacity(room) }
    }

    /// These bytes of the kept body follow.
    pub fn keep(&mut self, range: Range<usize>) {
        if self.kept.len() < SHARED_MIN || range.len() < PIECE_MIN {
            return self.written.extend_from_slice(&self.kept[range]);
        }
        self.parts.push(std::mem::take(&mut self.written).into());
        self.parts.push(self.kept.slice(range));
    }

    /// New bytes follow.
    pub fn write(&mut self, bytes: &[u8]) {
        self.written.extend_from_slice(bytes);
    }

    pub fn done(mut self) -> BodyParts {
        self.parts.push(self.written.into());
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(kept: &Bytes) -> BodyParts {
        let mut splicer = Splicer::new(kept, 9);
        splicer.keep(0..2);
        splicer.write(b"new");
        splicer.keep(4..kept.len());
        splicer.done()
    }

    #[test]
    fn of_a_long_body_only_short_pieces_are_copied() {
        let kept: Bytes = vec![b'x'; SHARED_MIN].into();
        let mut splicer = Splicer::new(&kept, 9);
        splicer.keep(0..SHARED_MIN / 2);
        splicer.write(b"new");
        splicer.keep(SHARED_MIN / 2..SHARED_MIN);
        let mut parts = splicer.done();
        let lengths = std::iter::from_fn(|| parts.next_part()).map(|part| part.len());
        assert_eq!(lengths.collect::<Vec<_>>(), [SHARED_MIN / 2, 3, SHARED_MIN / 2]);
    }

    #[test]
    fn a_short_body_is_one_piece_and_a_long_one_shares_its_bytes() {
        for (length, pieces) in [(100, 1), (SHARED_MIN - 1, 1), (SHARED_MIN + 4, 2), (1 << 20, 2)] {
            let kept: Bytes = (0..length).map(|at| (at % 251) as u8).collect();
            let mut parts = spliced(&kept);
            let expected = [&kept[..2], b"new", &kept[4..]].concat();
            assert_eq!((parts.len(), parts.joined()), (expected.len(), Bytes::from(expected.clone())));
            let mut taken = Vec::new();
            while let Some(part) = parts.next_part() {
                taken.push(part);
            }
            assert_eq!((taken.len(), taken.concat()), (pieces, expected));
            assert!(parts.is_empty());
            if pieces > 1 {
                assert_eq!(taken[1].as_ptr(), kept[4..].as_ptr(), "no byte was copied");
            }
        }
    }
}
