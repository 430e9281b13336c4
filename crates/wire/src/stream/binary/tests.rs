//! The binary event stream: cutting, parsing and damaged frames.

use super::sample::{event, exception, frame};
use super::*;

const MAX: usize = 1 << 16;

fn scan(chunks: &[&[u8]], max: usize) -> Result<Vec<Bytes>, FrameError> {
    let mut scanner = BinaryScanner::new(max);
    let mut raws = Vec::new();
    for chunk in chunks {
        scanner.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = scanner.next_event()? {
            raws.push(event.raw);
        }
    }
    Ok(raws)
}

fn stream() -> (Vec<Bytes>, Vec<u8>) {
    let frames = [
        event("messageStart", r#"{"role":"assistant"}"#).raw,
        event("contentBlockDelta", r#"{"delta":{"text":"é"}}"#).raw,
        event("empty", "").raw,
        exception("throttlingException", r#"{"message":"slow"}"#).raw,
    ];
    let all = frames.concat();
    (frames.to_vec(), all)
}

/// An empty frame, byte for byte as the format's documentation prints it.
const EMPTY: [u8; 16] = [0, 0, 0, 0x10, 0, 0, 0, 0, 0x05, 0xc2, 0x48, 0xeb, 0x7d, 0x98, 0xc8, 0xff];

#[test]
fn a_frame_without_anything_is_written_and_cut_as_documented() {
    assert_eq!(frame(&[], ""), EMPTY);
    assert_eq!(scan(&[&EMPTY], MAX).unwrap(), [&EMPTY[..]]);
    assert_eq!(message(&EMPTY), None);
}

#[test]
fn finds_the_same_frames_however_the_bytes_are_split() {
    let (frames, all) = stream();
    assert_eq!(scan(&[&all], MAX).unwrap(), frames);
    let single: Vec<&[u8]> = all.chunks(1).collect();
    assert_eq!(scan(&single, MAX).unwrap(), frames, "byte by byte");
    for first in 0..=all.len() {
        let (a, b) = all.split_at(first);
        assert_eq!(scan(&[a, b], MAX).unwrap(), frames, "split at {first}");
    }
}

#[test]
fn a_frame_in_one_read_is_not_copied() {
    let chunk = event("a", "{}").raw;
    let mut scanner = BinaryScanner::new(MAX);
    scanner.push(chunk.clone());
    assert_eq!(scanner.next_event().unwrap().unwrap().raw.as_ptr(), chunk.as_ptr());
    assert_eq!(scanner.next_event(), Ok(None));
}

#[test]
fn a_frame_that_is_cut_short_never_comes() {
    let (frames, all) = stream();
    assert_eq!(scan(&[&all[..all.len() - 1]], MAX).unwrap(), frames[..3]);
}

#[test]
fn any_damaged_byte_is_found() {
    let raw = event("contentBlockDelta", r#"{"delta":{"text":"a"}}"#).raw;
    for at in 0..raw.len() {
        let mut bad = raw.to_vec();
        bad[at] ^= 0x40;
        assert!(matches!(scan(&[&bad], MAX), Err(FrameError::Damaged(_))), "byte {at}");
    }
}

#[test]
fn a_frame_beyond_the_bound_is_an_error_at_its_prelude() {
    let raw = event("a", &"x".repeat(100)).raw;
    assert_eq!(scan(&[&raw], raw.len()).unwrap(), [&raw[..]]);
    assert_eq!(
        scan(&[&raw[..PRELUDE]], raw.len() - 1),
        Err(FrameError::TooLong(EventTooLong::Bytes { max: raw.len() - 1 }))
    );
}

#[test]
fn lengths_that_cannot_be_are_an_error() {
    for (total, headers) in [(0_u32, 0_u32), (15, 0), (16, 1), (100, 85), (100, u32::MAX)] {
        let mut raw = [total.to_be_bytes(), headers.to_be_bytes()].concat();
        raw.extend(crc32fast::hash(&raw).to_be_bytes());
        raw.resize(200, 0);
        assert_eq!(
            scan(&[&raw], MAX),
            Err(FrameError::Damaged("its lengths do not fit together")),
            "{total} {headers}"
        );
    }
}

#[test]
fn a_frame_is_taken_apart() {
    let (kind, event_type) = ((":message-type", "event"), (":event-type", "e"));
    type Row<'a> = (&'a [(&'a str, &'a str)], Option<(BinaryKind, &'a str)>);
    let table: &[Row<'_>] = &[
        (&[kind, event_type, ("x", "y")], Some((BinaryKind::Event, "e"))),
        (&[(":exception-type", "t"), (":message-type", "exception")], Some((BinaryKind::Exception, "t"))),
        (&[(":error-code", "c"), (":message-type", "error")], Some((BinaryKind::Error, "c"))),
        (&[(":message-type", "error")], Some((BinaryKind::Error, ""))),
        (&[kind], None),
        (&[event_type], None),
        (&[(":message-type", "other"), event_type], None),
    ];
    for (headers, expected) in table {
        let raw = frame(headers, "{}");
        let read = message(&raw);
        assert_eq!(read.map(|read| (read.kind, read.name)), *expected, "{headers:?}");
        assert!(read.is_none_or(|read| read.payload == b"{}"));
    }
    let raw = frame(&[(":error-code", "c"), (":error-message", "why"), (":message-type", "error")], "");
    assert_eq!(message(&raw).unwrap().error, Some("why"));
}

#[test]
fn headers_of_every_type_are_stepped_over() {
    let mut headers = vec![];
    for (kind, value) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (8, 8), (9, 16)] {
        headers.extend([1, b'h', kind]);
        headers.extend(vec![0; value]);
    }
    headers.extend([1, b'h', 6, 0, 3, 1, 2, 3]);
    let known = frame(&[(":message-type", "event"), (":event-type", "e")], "");
    headers.extend(&known[PRELUDE..known.len() - CHECKSUM]);
    let raw = |headers: &[u8]| {
        let mut raw = vec![0; 4];
        raw.extend(u32::try_from(headers.len()).unwrap().to_be_bytes());
        raw.extend([0; 4]);
        raw.extend(headers);
        raw.extend([0; 4]);
        raw
    };
    assert_eq!(message(&raw(&headers)).map(|read| read.name), Some("e"));
    headers.extend([1, b'h', 10]);
    assert_eq!(message(&raw(&headers)), None, "a type that there is not");
}

proptest::proptest! {
    #[test]
    fn any_split_gives_the_same_frames(payloads in proptest::collection::vec("\\PC{0,40}", 0..6), cuts in proptest::collection::vec(1usize..60, 1..20)) {
        let frames: Vec<Bytes> = payloads.iter().map(|payload| event("e", payload).raw).collect();
        let all = frames.concat();
        let (mut chunks, mut rest): (Vec<&[u8]>, &[u8]) = (Vec::new(), &all);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break }
            let (chunk, after) = rest.split_at((*cut).min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        let found = scan(&chunks, MAX).unwrap();
        for (raw, payload) in found.iter().zip(&payloads) {
            proptest::prop_assert_eq!(message(raw).unwrap().payload, payload.as_bytes());
        }
        proptest::prop_assert_eq!(found, frames);
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), headers in 0u32..300) {
        let _ = scan(&[&bytes], MAX);
        let _ = message(&bytes);
        // With a valid prelude, so that the reader examines the rest.
        let mut raw = [u32::try_from(bytes.len() + 16).unwrap().to_be_bytes(), headers.to_be_bytes()].concat();
        raw.extend(crc32fast::hash(&raw).to_be_bytes());
        raw.extend(&bytes);
        raw.extend(crc32fast::hash(&raw).to_be_bytes());
        for event in scan(&[&raw], MAX).unwrap_or_default() {
            let _ = message(&event);
        }
    }
}
